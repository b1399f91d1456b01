//! The `piton` program.

use std::process::ExitCode;

// Reading thousands of items on two threads spends a quarter of its time in the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    piton::cli::main()
}
