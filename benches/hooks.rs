//! Measures what piton's hooks add to `git commit`, and each hook by itself, in the same rounds.
//!
//! `cargo bench --bench hooks`. Two copies of one repository get the same edits; `piton hooks
//! install` has installed all hooks in one of them. The order changes from round to round. Then
//! each hook runs alone, as git starts it, beside `/bin/true`. See `docs/BENCHMARKS.md`.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a benchmark prints its figures, stops at a fault and measures whole processes"
)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PITON: &str = env!("CARGO_BIN_EXE_piton");
const FILES: usize = 1000;
const TOOL: &str = "tool_id: greet\ntool_type: script\nversion: \"1.0.0\"\ndescription: Greets\n\
                    executor: bash_runtime\nconfig:\n  entrypoint: run.sh\n";

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [plain, hooked] = ["plain", "hooked"].map(|name| folder.path().join(name));
    for project in [&plain, &hooked] {
        make(project, folder.path());
    }
    run(
        Command::new(PITON).args(["hooks", "install"]),
        &hooked,
        folder.path(),
    );

    println!("| `git commit` | without hooks ms | with ms | more ms |\n|---|---|---|---|");
    commits(
        "one file",
        &plain,
        &hooked,
        folder.path(),
        &|project, round| {
            fs::write(project.join("file-1.txt"), format!("{round}\n")).expect("a file");
        },
    );
    commits(
        "one item",
        &plain,
        &hooked,
        folder.path(),
        &|project, round| {
            fs::write(
                project.join(".ai/tools/greet/run.sh"),
                format!("echo {round}\n"),
            )
            .expect("a file");
        },
    );

    println!("\n| hook alone, nothing for it to do | ms | over `/bin/true` ms |\n|---|---|---|");
    let message = hooked.join(".git/COMMIT_EDITMSG");
    fs::write(&message, "words\n\nMore words.\n").expect("a file");
    let head = output(
        Command::new("git").args(["rev-parse", "HEAD"]),
        &hooked,
        folder.path(),
    );
    let (head, zero) = (head.trim(), "0".repeat(40));
    let push = format!("refs/heads/main {head} refs/heads/main {head}\n");
    let receive = format!("{zero} {zero} refs/heads/none\n");
    for (hook, arguments, input) in [
        ("pre-commit", vec![], String::new()),
        (
            "prepare-commit-msg",
            vec![".git/COMMIT_EDITMSG", "message"],
            String::new(),
        ),
        ("commit-msg", vec![".git/COMMIT_EDITMSG"], String::new()),
        ("post-commit", vec![], String::new()),
        ("post-rewrite", vec!["amend"], format!("{head} {head}\n")),
        ("pre-push", vec!["origin", "nowhere"], push),
        ("pre-receive", vec![], receive),
    ] {
        let (mut bare, mut called) = (Vec::new(), Vec::new());
        for round in 0..=100 {
            let spawned = timed(|| run(&mut Command::new("/bin/true"), &hooked, folder.path()));
            let hooked = timed(|| {
                let mut command = Command::new(PITON);
                command.args(["hooks", "run", hook, "--"]).args(&arguments);
                feed(&mut command, &hooked, folder.path(), &input);
            });
            if round > 0 {
                bare.push(spawned);
                called.push(hooked);
            }
        }
        let (bare, called) = (median(bare), median(called));
        println!("| `{hook}` | {called:.1} | {:.1} |", called - bare);
    }
}

/// Commits in both repositories, in alternating order.
fn commits(what: &str, plain: &Path, hooked: &Path, home: &Path, edit: &dyn Fn(&Path, usize)) {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=60 {
        let mut order = [(0, plain), (1, hooked)];
        if round % 2 == 1 {
            order.reverse();
        }
        for (at, project) in order {
            edit(project, round);
            run(Command::new("git").args(["add", "--all"]), project, home);
            let took = timed(|| {
                run(
                    Command::new("git").args(["commit", "--quiet", "--message", "next"]),
                    project,
                    home,
                );
            });
            if round > 0 {
                times[at].push(took);
            }
        }
    }
    let [without, with] = times.map(median);
    println!(
        "| {what} | {without:.1} | {with:.1} | {:.1} |",
        with - without
    );
}

fn make(project: &Path, home: &Path) {
    fs::create_dir_all(project.join(".ai/tools/greet")).expect("a folder");
    fs::write(project.join(".ai/tools/greet/tool.yaml"), TOOL).expect("a file");
    fs::write(project.join(".ai/tools/greet/run.sh"), "echo hello\n").expect("a file");
    for number in 0..FILES {
        fs::write(project.join(format!("file-{number}.txt")), "text\n").expect("a file");
    }
    for words in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "--all"],
        &["commit", "--quiet", "-m", "a"],
    ] {
        run(Command::new("git").args(words), project, home);
    }
    // The hooks have more to read in a repository with piton runs.
    run(
        Command::new(PITON).args(["exec", "--quiet", "--", "sh", "-c", "echo more > more.txt"]),
        project,
        home,
    );
}

fn prepared<'c>(command: &'c mut Command, folder: &Path, home: &Path) -> &'c mut Command {
    command
        .current_dir(folder)
        .env("HOME", home)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .envs(["AUTHOR", "COMMITTER"].map(|role| (format!("GIT_{role}_NAME"), "Bench")))
        .envs(
            ["AUTHOR", "COMMITTER"].map(|role| (format!("GIT_{role}_EMAIL"), "bench@example.com")),
        )
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

fn run(command: &mut Command, folder: &Path, home: &Path) {
    let status = prepared(command, folder, home)
        .stdin(Stdio::null())
        .status()
        .expect("a process");
    assert!(status.success(), "{command:?} failed");
}

fn feed(command: &mut Command, folder: &Path, home: &Path, input: &str) {
    let mut child = prepared(command, folder, home)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a process");
    // A hook that does not read its input may have ended already.
    let _ = child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input.as_bytes());
    assert!(
        child.wait().expect("a process").success(),
        "the hook failed"
    );
}

fn output(command: &mut Command, folder: &Path, home: &Path) -> String {
    let output = prepared(command, folder, home)
        .stdout(Stdio::piped())
        .output()
        .expect("a process");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .copied()
        .unwrap_or_default()
        .as_secs_f64()
        * 1000.0
}
