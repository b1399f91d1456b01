//! Measures loading and validating many items, and the start-up of the program.
//!
//! `cargo bench --bench items` prints medians of whole processes, as CPU time and wall time. The
//! start-up is measured in turns with `git --version`. See `docs/BENCHMARKS.md`.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints its figures and stops at a fault"
)]

#[path = "../tests/it/many_items.rs"]
mod many_items;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ITEMS: usize = 10_000;
const ROUNDS: usize = 7;
const STARTS: usize = 100;
/// The unit of the times in `/proc/self/stat` on every Linux that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    many_items::plant(folder.path(), ITEMS);
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"));

    println!("| what | wall ms (median) | CPU ms (mean) |");
    println!("|---|---|---|");
    let validate: Vec<_> = ["--format", "json", "validate", "-C"].to_vec();
    report(&format!("validate {ITEMS} items"), ROUNDS, || {
        run(piton, &validate, folder.path())
    });

    let mut own = Vec::new();
    let mut git = Vec::new();
    for _ in 0..STARTS {
        own.push(run(piton, &["--version"], Path::new("")));
        git.push(run(Path::new("git"), &["--version"], Path::new("")));
    }
    println!("| `piton --version` | {:.2} | |", millis(median(own)));
    println!("| `git --version` | {:.2} | |", millis(median(git)));
}

fn report(what: &str, rounds: usize, mut round: impl FnMut() -> Duration) {
    round();
    let before = children_cpu();
    let times: Vec<Duration> = (0..rounds).map(|_| round()).collect();
    #[expect(clippy::cast_precision_loss, reason = "a handful of rounds")]
    let cpu = (children_cpu() - before) / rounds as f64;
    println!(
        "| {what} | {:.0} | {:.0} |",
        millis(median(times)),
        cpu * 1000.0
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures whole processes"
)]
fn run(program: &Path, arguments: &[&str], folder: &Path) -> Duration {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if !folder.as_os_str().is_empty() {
        command.arg(folder);
    }
    let start = Instant::now();
    let status = command.status().expect("the program starts");
    let elapsed = start.elapsed();
    assert!(status.success(), "{} failed", program.display());
    elapsed
}

/// User and system time of all children that have ended, in seconds.
fn children_cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split(' ').collect();
    [13, 14]
        .iter()
        .filter_map(|at| fields.get(*at)?.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS_PER_SECOND
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
