//! The `piton` program.

fn main() -> std::process::ExitCode {
    piton::cli::main()
}
