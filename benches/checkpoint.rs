//! Measures one checkpoint in a new process, beside `git add -A && git commit` in the same rounds.
//!
//! `cargo bench --bench checkpoint` takes some minutes; `-- 1000 10000` chooses sizes, `-- row 2000` makes so many
//! checkpoints in a row instead and says whether each costs as much as the first, `-- against PATH` compares this piton
//! with another one, e.g. that of the version before, in the same rounds, `-- bulk 200000` looks at so many
//! untracked files for the first time, and puts half as many changed files back, by a roll back, undo and redo. The word
//! `busy` keeps one core busy meanwhile. Every tool has a
//! copy of the repository of its own and makes the same edits; their order changes from round to round.
//! The phases of `piton exec` are the times in its own journal. See `docs/BENCHMARKS.md`.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a benchmark prints its figures, stops at a fault and measures whole processes"
)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use serde_json::Value;

const SIZES: [usize; 3] = [1000, 10_000, 100_000];
/// Files per folder; some folders are nested, as in real projects.
const PER_FOLDER: usize = 60;
const PITON: &str = env!("CARGO_BIN_EXE_piton");

/// What makes the checkpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Git,
    Checkpoint,
    Exec,
    /// Git resets the edit.
    Reset,
    /// The command of `piton exec` fails after the edit.
    RollBack,
}

/// The edit before the checkpoint.
#[derive(Clone, Copy)]
enum Edit {
    OneModified,
    HundredModified,
    OneNewOneDeleted,
    Nothing,
}

const TOOLS: [Tool; 3] = [Tool::Git, Tool::Checkpoint, Tool::Exec];
const EDITS: [Edit; 4] = [
    Edit::OneModified,
    Edit::HundredModified,
    Edit::OneNewOneDeleted,
    Edit::Nothing,
];

#[derive(Clone, Copy, Default)]
struct Cost {
    wall: f64,
    cpu: f64,
}

/// A process that keeps one core busy.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it ends");
    }
}

fn main() {
    // Supervisors end after piton.
    set_child_subreaper(Some(getpid())).expect("orphans are inherited");
    let is_busy = env::args().any(|word| word == "busy");
    let _busy = is_busy.then(|| Busy(shell("while :; do :; done").spawn().expect("sh starts")));
    let chosen: Vec<usize> = env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    if env::args().any(|word| word == "row") {
        row(chosen.first().copied().unwrap_or(2000));
        return;
    }
    if env::args().any(|word| word == "bulk") {
        bulk(chosen.first().copied().unwrap_or(200_000));
        return;
    }
    let sizes = if chosen.is_empty() {
        SIZES.to_vec()
    } else {
        chosen
    };
    let other = env::args().skip_while(|word| word != "against").nth(1);
    for size in sizes {
        match &other {
            Some(other) => against(other, size),
            None => measure(size),
        }
    }
}

/// Compares this piton with another one, each with one changed file.
fn against(other: &str, size: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    plant(&folder.path().join("original"), size);
    let programs = [other, PITON];
    let copies = ["other", "this"].map(|name| copy(folder.path(), name));
    let rounds = if size > 50_000 { 7 } else { 31 };
    println!("\n### {size} files\n\n| | other ms | this, ratio |\n|---|---|---|");
    let jobs = [
        (Tool::Checkpoint, Edit::OneModified),
        (Tool::Exec, Edit::OneModified),
        (Tool::Exec, Edit::Nothing),
        (Tool::RollBack, Edit::OneModified),
    ];
    for (number, (tool, edit)) in jobs.into_iter().enumerate() {
        let mut costs: [Vec<Cost>; 2] = [Vec::new(), Vec::new()];
        for round in 0..=rounds {
            for turn in 0..programs.len() {
                let at = (turn + round) % programs.len();
                let cost = checkpoint(
                    programs[at],
                    tool,
                    &copies[at],
                    edit,
                    size,
                    number * 100 + round,
                );
                if round > 0 {
                    costs[at].push(cost);
                }
            }
        }
        let [other, this] = costs.map(median);
        let (wall, cpu) = (this.wall / other.wall, this.cpu / other.cpu);
        println!(
            "| {}, {} | {:.0} | {wall:.2} ({cpu:.2} CPU) |",
            tool.name(),
            edit.name(),
            other.wall * 1000.0
        );
    }
}

/// A copy of the original, with refreshed stat data in its index.
fn copy(folder: &Path, name: &str) -> PathBuf {
    let copy = folder.join(name.replace(' ', "-"));
    sh(
        folder,
        &format!(
            "cp -a original '{}' && cd '{}' && git status",
            copy.display(),
            copy.display()
        ),
    );
    copy
}

fn measure(size: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let original = folder.path().join("original");
    plant(&original, size);
    let copies = TOOLS.map(|tool| copy(folder.path(), tool.name()));
    let rounds = if size > 50_000 { 5 } else { 9 };
    println!(
        "\n### {size} files\n\n| | git ms | `piton checkpoint --all` | `piton exec` |\n|---|---|---|---|"
    );
    let mut phases = Vec::new();
    for (number, edit) in EDITS.into_iter().enumerate() {
        let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); TOOLS.len()];
        for round in 0..=rounds {
            for turn in 0..TOOLS.len() {
                let at = (turn + round) % TOOLS.len();
                let cost = checkpoint(
                    PITON,
                    TOOLS[at],
                    &copies[at],
                    edit,
                    size,
                    number * 100 + round,
                );
                // The first round is a warm-up.
                if round > 0 {
                    costs[at].push(cost);
                }
            }
        }
        if matches!(edit, Edit::OneModified) {
            phases = read_phases(&copies[2]);
        }
        let medians: Vec<Cost> = costs.into_iter().map(median).collect();
        let ratio = |at: usize| {
            format!(
                "{:.2} ({:.2} CPU)",
                medians[at].wall / medians[0].wall,
                medians[at].cpu / medians[0].cpu
            )
        };
        println!(
            "| {} | {:.0} | {} | {} |",
            edit.name(),
            medians[0].wall * 1000.0,
            ratio(1),
            ratio(2)
        );
    }
    let back = [Tool::Reset, Tool::RollBack];
    let mut costs: [Vec<Cost>; 2] = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for turn in 0..back.len() {
            let at = (turn + round) % back.len();
            // The copies that git and `piton exec` used.
            let cost = checkpoint(
                PITON,
                back[at],
                &copies[at * 2],
                Edit::OneModified,
                size,
                900 + round,
            );
            if round > 0 {
                costs[at].push(cost);
            }
        }
    }
    let [reset, rolled_back] = costs.map(median);
    println!(
        "\nPutting 1 modified file back: git reset and clean {:.0} ms, `piton exec` that fails {:.2} ({:.2} CPU)",
        reset.wall * 1000.0,
        rolled_back.wall / reset.wall,
        rolled_back.cpu / reset.cpu
    );
    println!(
        "\nPhases of the last `piton exec` with one changed file, ms: {}",
        phases.join(", ")
    );
}

/// Many checkpoints in a row, each of one changed file beside an untracked one.
fn row(steps: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let original = folder.path().join("original");
    plant(&original, 1000);
    let tools = [Tool::Git, Tool::Exec];
    let copies = tools.map(|tool| {
        let copy = copy(folder.path(), tool.name());
        // Garbage collection would hide what each step leaves.
        sh(&copy, "git config gc.auto 0");
        copy
    });
    println!("\n### {steps} checkpoints in a row\n");
    println!(
        "| steps | git ms | piton ms | git: files, KiB | piton: files, KiB, refs |\n|---|---|---|---|---|"
    );
    let block = (steps / 20).max(1);
    let mut costs: [Vec<Cost>; 2] = [Vec::new(), Vec::new()];
    for step in 1..=steps {
        for (at, tool) in tools.into_iter().enumerate() {
            fs::write(copies[at].join("private.txt"), format!("private {step}")).expect("a file");
            let cost = checkpoint(PITON, tool, &copies[at], Edit::OneModified, 1000, step);
            costs[at].push(cost);
        }
        if step == block || step % (steps / 4).max(1) == 0 {
            let last = |costs: &[Cost]| {
                median(costs[costs.len().saturating_sub(block)..].to_vec()).wall * 1000.0
            };
            let [git, piton] = [&costs[0], &costs[1]].map(|costs| last(costs));
            let [(git_files, git_size, _), (files, size, refs)] =
                [&copies[0], &copies[1]].map(|copy| space(copy));
            println!(
                "| {step} | {git:.1} | {piton:.1} | {git_files}, {git_size} | {files}, {size}, {refs} |"
            );
        }
    }
}

/// Records many untracked files for the first time, and rolls back many changed files.
fn bulk(size: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let piton = env!("CARGO_BIN_EXE_piton");
    let (tracked, copy) = (folder.path().join("tracked"), folder.path().join("copy"));
    plant(&tracked, size / 2);
    sh(folder.path(), "cp -a tracked copy && cd copy && git status");
    let (untracked, other) = (folder.path().join("untracked"), folder.path().join("other"));
    plant(&untracked, 1);
    write_files(&untracked.join("data"), size);
    sh(folder.path(), "cp -a untracked other");
    let head = "| | git s | piton s | ratio | CPU ratio |\n|---|---|---|---|---|";
    println!(
        "\n### {size} untracked files, {} changed files\n\n{head}",
        size / 2
    );
    let seconds = |folder: &Path, script: &str| {
        sh(folder, "sync");
        let (before, start) = (children_cpu(), Instant::now());
        let _ = shell(script)
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("sh");
        Cost {
            wall: start.elapsed().as_secs_f64(),
            cpu: children_cpu() - before,
        }
    };
    let row = |what: &str, git: Cost, piton: Cost| {
        let (wall, cpu) = (piton.wall / git.wall, piton.cpu / git.cpu);
        println!(
            "| {what} | {:.1} | {:.1} | {wall:.2} | {cpu:.2} |",
            git.wall, piton.wall
        );
    };
    row(
        "first look, `git add -A`",
        seconds(&other, "git add -A"),
        seconds(&untracked, &format!("{piton} exec -- true")),
    );
    row(
        "second look, `git status`",
        seconds(&other, "git status"),
        seconds(&untracked, &format!("{piton} exec -- true")),
    );
    let (files, kib, _) = space(&untracked);
    println!("\nThe git directory has {files} files, {kib} KiB.");
    let edit = "find src lib docs -type f -print0 | xargs -0 -n 500 sed -i '1s/^/x/'";
    sh(&copy, edit);
    println!("\n{head}");
    let git = seconds(&copy, "git checkout --quiet -- .");
    let _ = seconds(
        &tracked,
        &format!("{piton} exec -- sh -c \"{edit}; exit 3\""),
    );
    let phases = read_phases(&tracked);
    let back = phases
        .iter()
        .find_map(|phase| phase.strip_prefix("rolled_back ")?.parse::<f64>().ok())
        .unwrap_or(f64::NAN);
    row(
        "put back, `git checkout`",
        git,
        Cost {
            wall: back / 1000.0,
            cpu: f64::NAN,
        },
    );
    // The edit is measured for both, because `piton exec` runs it.
    let git = seconds(
        &copy,
        &format!("{edit}; git add -A && git commit --quiet --message x"),
    );
    let exec = seconds(&tracked, &format!("{piton} exec -- sh -c \"{edit}\""));
    let committed = read_phases(&tracked);
    row("edit and commit, `git add -A && git commit`", git, exec);
    let revert = "git revert --no-edit HEAD";
    row(
        "undo, `git revert`",
        seconds(&copy, revert),
        seconds(&tracked, &format!("{piton} undo")),
    );
    row(
        "redo, `git revert`",
        seconds(&copy, revert),
        seconds(&tracked, &format!("{piton} redo")),
    );
    println!("\nPhases of the roll back, ms: {}", phases.join(", "));
    println!("Phases of the commit, ms: {}", committed.join(", "));
}

/// The number of files and KiB in the git directory, and the number of refs.
fn space(folder: &Path) -> (usize, u64, usize) {
    let files = walkdir::WalkDir::new(folder.join(".git"))
        .into_iter()
        .flatten()
        .filter(|it| it.file_type().is_file());
    // Count hard links between the store and git's object database once.
    let sizes: BTreeMap<u64, u64> = files
        .flat_map(|file| file.metadata())
        .map(|found| (found.ino(), found.len()))
        .collect();
    let refs = Command::new("git")
        .arg("for-each-ref")
        .current_dir(folder)
        .output()
        .expect("git");
    (
        sizes.len(),
        sizes.values().sum::<u64>() / 1024,
        refs.stdout.split(|byte| *byte == b'\n').count() - 1,
    )
}

fn checkpoint(
    piton: &str,
    tool: Tool,
    folder: &Path,
    edit: Edit,
    size: usize,
    seed: usize,
) -> Cost {
    let script = edit.script(size, seed);
    // The edit is measured for all tools, because `piton exec` runs it too.
    let mut command = match tool {
        Tool::Git => shell(&format!(
            "{script}; git add -A && git commit --quiet --message x || true"
        )),
        Tool::Checkpoint => shell(&format!(
            "{script}; exec {piton} checkpoint --all --message x"
        )),
        Tool::Exec => {
            let mut command = Command::new(piton);
            command.args(["exec", "--message", "x", "--", "sh", "-c", &script]);
            command
        }
        Tool::Reset => shell(&format!(
            "{script}; git reset --quiet --hard && git clean -fdq"
        )),
        Tool::RollBack => {
            let mut command = Command::new(piton);
            command.args(["exec", "--", "sh", "-c", &format!("{script}; exit 3")]);
            command
        }
    };
    command
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // What the tool before has left in memory is not this one's: a sync would wait for it.
    sh(folder, "sync -f .");
    let before = children_cpu();
    let start = Instant::now();
    let status = command.status().expect("the program starts");
    let wall = start.elapsed().as_secs_f64();
    // Count the processor time of what ends a little later too.
    thread::sleep(Duration::from_millis(5));
    while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
    // Only check success: earlier versions do not pass on the exit status.
    assert_eq!(status.success(), tool != Tool::RollBack, "{}", tool.name());
    Cost {
        wall,
        cpu: children_cpu() - before,
    }
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Checkpoint => "piton checkpoint",
            Self::Exec => "piton exec",
            Self::Reset => "git reset",
            Self::RollBack => "piton exec that fails",
        }
    }
}

impl Edit {
    fn name(self) -> &'static str {
        match self {
            Self::OneModified => "1 modified",
            Self::HundredModified => "100 modified",
            Self::OneNewOneDeleted => "1 new, 1 deleted",
            Self::Nothing => "nothing",
        }
    }

    fn script(self, size: usize, seed: usize) -> String {
        let file = |number: usize| path_of(number * 7919 % size);
        match self {
            Self::OneModified => format!("echo {seed} >> '{}'", file(seed)),
            Self::HundredModified => {
                let files: Vec<String> = (0..100)
                    .map(|number| format!("'{}'", file(seed * 101 + number * 13)))
                    .collect();
                format!(
                    "for f in {}; do echo {seed} >> \"$f\"; done",
                    files.join(" ")
                )
            }
            Self::OneNewOneDeleted => {
                format!("echo {seed} > 'new-{seed}'; rm -f 'new-{}'", seed - 1)
            }
            Self::Nothing => "true".to_owned(),
        }
    }
}

fn path_of(number: usize) -> String {
    let folder = number / PER_FOLDER;
    match folder % 3 {
        0 => format!("src/module{folder}/file{number}.txt"),
        1 => format!("lib/group{}/module{folder}/file{number}.txt", folder % 7),
        _ => format!(
            "docs/part{}/chapter{}/section{folder}/file{number}.txt",
            folder % 5,
            folder % 11
        ),
    }
}

fn write_files(folder: &Path, size: usize) {
    for number in 0..size {
        let path = folder.join(path_of(number));
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        let lines: Vec<String> = (0..20)
            .map(|line| format!("file {number} line {line}\n"))
            .collect();
        fs::write(path, lines.concat()).expect("a file");
    }
}

fn plant(folder: &Path, size: usize) {
    write_files(folder, size);
    sh(
        folder,
        "git init --quiet --initial-branch=main && git config user.name bench && git config user.email bench@example.org \
         && git config gc.auto 0 && git add -A && git commit --quiet --message start && git gc --quiet",
    );
}

/// The times between the events of the newest run.
fn read_phases(folder: &Path) -> Vec<String> {
    let runs = folder.join(".git/piton/runs");
    let newest = fs::read_dir(&runs)
        .expect("runs")
        .map(|entry| entry.expect("a run").path())
        .max()
        .expect("a run");
    let text = fs::read_to_string(newest.join("journal.jsonl")).expect("a journal");
    let events: Vec<(String, i64)> = text
        .lines()
        .map(|line| {
            // The private part of the line follows after the public part.
            let mut parts = serde_json::Deserializer::from_str(line).into_iter::<Value>();
            let line = parts.next().expect("a line").expect("JSON");
            let at: jiff::Timestamp = line["at"]
                .as_str()
                .expect("a time")
                .parse()
                .expect("a time");
            (
                line["event"]["type"].as_str().expect("a type").to_owned(),
                at.as_millisecond(),
            )
        })
        .collect();
    events
        .windows(2)
        .map(|pair| format!("{} {}", pair[1].0, pair[1].1 - pair[0].1))
        .collect()
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn sh(folder: &Path, script: &str) {
    let status = shell(script)
        .current_dir(folder)
        .stdout(Stdio::null())
        .status()
        .expect("sh starts");
    assert!(status.success(), "{script}");
}

/// User and system time of all children that have ended, in seconds.
fn children_cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the usage of children");
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or(0)))
        .sum::<Duration>()
        .as_secs_f64()
}

/// The median of the wall times and the mean of the CPU times.
fn median(mut costs: Vec<Cost>) -> Cost {
    costs.sort_by(|one, other| one.wall.total_cmp(&other.wall));
    #[expect(clippy::cast_precision_loss, reason = "a handful of rounds")]
    let rounds = costs.len() as f64;
    Cost {
        wall: costs[costs.len() / 2].wall,
        cpu: costs.iter().map(|cost| cost.cpu).sum::<f64>() / rounds,
    }
}
