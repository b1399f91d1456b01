//! Measures what a step of a directive costs, without and with a checkpoint, and how much memory
//! many steps need.
//!
//! `cargo bench --bench run` takes some minutes; `-- 2000` chooses the number of files, `-- memory`
//! measures only the memory. Loops of `piton run` are measured beside a bash loop that does the
//! same work, with `git add -A && git commit` where piton makes checkpoints, in the same rounds,
//! each on its own copy of the repository. See `docs/BENCHMARKS.md`.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a benchmark prints its figures, stops at a fault and measures whole processes"
)]

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use piton::context::{Context, Environment};
use piton::item::directive::CheckpointMode;
use piton::journal::summary::RunStatus;
use piton::run::directive::pin::RunOptions;
use piton::run::directive::{DirectiveRequest, PreparedRun, Run, RunInput, StepProgress, Worker};

const PITON: &str = env!("CARGO_BIN_EXE_piton");
const FILES: usize = 10_000;
/// Files per folder; some folders are nested, as in real projects.
const PER_FOLDER: usize = 60;
const ROUNDS: usize = 5;
const NOTHING: &str = "tool_id: nothing\ntool_type: cli\nversion: \"1.0.0\"\ndescription: Does nothing\n\
                       executor: subprocess\nisolation: trusted\nconfig:\n  command: /bin/true\n";
const EDIT: &str = "tool_id: edit\ntool_type: script\nversion: \"1.0.0\"\ndescription: Changes a file\n\
                    executor: bash_runtime\nisolation: trusted\nconfig:\n  entrypoint: run.sh\n\
                    parameters:\n  - {name: file, type: string}\n";

const NESTED: &str = "# nested\n\n```xml\n<directive name=\"nested\" version=\"1.0.0\">\n<metadata><git_checkpoint mode=\"disabled\"/>\
                      <permissions><execute resource=\"tool\" id=\"*\"/></permissions></metadata>\n\
                      <inputs><input name=\"list\" type=\"array\" required=\"true\">How often</input>\
                      <input name=\"inner\" type=\"array\" required=\"true\">What to go through</input></inputs>\n\
                      <process><step name=\"each\" foreach=\"{input:list}\"><execute item_type=\"directive\" item_id=\"nothings\">\
                      <param name=\"list\" value=\"{input:inner}\"/></execute></step></process>\n</directive>\n```\n";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Only starts a program.
    Nothing,
    /// Changes a file, which is committed.
    Edit,
}

fn main() {
    let files = env::args()
        .skip(1)
        .find_map(|word| word.parse().ok())
        .unwrap_or(FILES);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let original = folder.path().join("original");
    plant(&original, files);
    for copy in ["piton", "bash"] {
        sh(
            folder.path(),
            &format!("cp -a original {copy} && cd {copy} && git status"),
        );
    }
    fs::create_dir_all(folder.path().join("home")).expect("a folder");
    if env::args().any(|word| word == "memory") {
        return memory(folder.path());
    }
    println!(
        "{files} files\n\n| a step | bash ms | piton ms | over it ms | ratio |\n|---|---|---|---|---|"
    );
    measure(folder.path(), Work::Nothing, 200, files);
    measure(folder.path(), Work::Edit, 50, files);
    growth(folder.path(), files);
    memory(folder.path());
}

/// Runs both loops in turns; the first round is a warm-up.
fn measure(folder: &Path, work: Work, steps: usize, files: usize) {
    let (mut bash, mut piton) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let paths: Vec<String> = (0..steps)
            .map(|step| path_of((round * steps + step) * 7919 % files))
            .collect();
        let mut turns = [true, false];
        turns.rotate_left(round % 2);
        for is_piton in turns {
            let took = if is_piton {
                loop_of_piton(folder, work, &paths)
            } else {
                loop_of_bash(folder, work, &paths)
            };
            if round > 0 {
                if is_piton { &mut piton } else { &mut bash }
                    .push(took / u32::try_from(steps).expect("a few"));
            }
        }
    }
    let (bash, piton) = (median(bash), median(piton));
    let what = match work {
        Work::Nothing => "that starts `/bin/true`, no checkpoint",
        Work::Edit => "that changes a file, with a checkpoint",
    };
    println!(
        "| {what} | {bash:.2} | {piton:.2} | {:.2} | {:.2} |",
        piton - bash,
        piton / bash
    );
}

fn loop_of_bash(folder: &Path, work: Work, paths: &[String]) -> Duration {
    let body = match work {
        Work::Nothing => "/bin/true",
        Work::Edit => "echo x >> \"$f\"; git add -A && git commit --quiet --message x",
    };
    let script = format!("for f in {}; do {body}; done", paths.join(" "));
    let mut command = Command::new("bash");
    command.args(["-ec", &script]);
    timed(command.current_dir(folder.join("bash")))
}

fn loop_of_piton(folder: &Path, work: Work, paths: &[String]) -> Duration {
    let inputs = folder.join("inputs.json");
    fs::write(&inputs, json!({"list": paths}).to_string()).expect("a file");
    let directive = match work {
        Work::Nothing => "nothings",
        Work::Edit => "edits",
    };
    let mut command = Command::new(PITON);
    command
        .args(["run", directive, "--quiet", "--inputs"])
        .arg(&inputs);
    command.env("HOME", folder.join("home"));
    timed(command.current_dir(folder.join("piton")))
}

/// Shows whether a step of a long run costs more than one of a short run.
fn growth(folder: &Path, files: usize) {
    println!("\n| steps with a checkpoint, one run | ms a step |\n|---|---|");
    for steps in [50, 500] {
        let paths: Vec<String> = (0..steps)
            .map(|step| path_of(step * 7919 % files))
            .collect();
        let took = loop_of_piton(folder, Work::Edit, &paths);
        println!(
            "| {steps} | {:.2} |",
            took.as_secs_f64() * 1000.0 / f64::from(u32::try_from(steps).expect("a few"))
        );
    }
}

/// The peak memory of this process in longer and longer runs: in nested loops over a hundred
/// elements, and in one loop over all.
fn memory(folder: &Path) {
    const HUNDRED: u32 = 100;
    let ctx = context(&folder.join("piton"), &folder.join("home"));
    let list = |count: u32| Value::Array((0..count).map(Value::from).collect());
    println!("\n| steps without a checkpoint, one run | ms a step | peak MiB |\n|---|---|---|");
    for steps in [100, 1000, 10_000] {
        let inputs = [
            ("list".to_owned(), list(steps / HUNDRED)),
            ("inner".to_owned(), list(HUNDRED)),
        ];
        measure_memory(
            &ctx,
            "nested",
            inputs.into_iter().collect(),
            steps,
            "in loops over 100 elements",
        );
    }
    for steps in [100, 1000, 10_000] {
        let inputs = Map::from_iter([("list".to_owned(), list(steps))]);
        measure_memory(&ctx, "nothings", inputs, steps, "in one loop over all");
    }
}

fn measure_memory(
    ctx: &Context,
    directive: &str,
    inputs: Map<String, Value>,
    steps: u32,
    how: &str,
) {
    // Reset the recorded peak to the current memory.
    fs::write("/proc/self/clear_refs", "5").expect("a new peak");
    let start = Instant::now();
    run(ctx, directive, inputs);
    let each = start.elapsed().as_secs_f64() * 1000.0 / f64::from(steps);
    println!("| {steps} {how} | {each:.2} | {:.1} |", peak_memory());
}

fn run(ctx: &Context, directive: &str, inputs: Map<String, Value>) {
    let request = DirectiveRequest {
        id: directive.to_owned(),
        inputs,
        texts: Vec::new(),
        mode: Some(CheckpointMode::Disabled),
        options: RunOptions::default(),
        command: vec!["bench".to_owned()],
        lock_timeout: Duration::ZERO,
        run: None,
        worker: Worker::default(),
    };
    let prepared = PreparedRun::new(ctx, &request).expect("a directive");
    let mut observer = |_: &_| {};
    let mut run = Run::start(ctx, &request, prepared, &mut observer).expect("a run");
    loop {
        match run.advance(RunInput::Go, &mut |_| {}).expect("a step") {
            StepProgress::Stepped => {}
            StepProgress::Waiting(_) => unreachable!("nothing waits"),
            StepProgress::Done(summary) => {
                assert_eq!(summary.status, RunStatus::Succeeded);
                return;
            }
        }
    }
}

fn context(project: &Path, home: &Path) -> Context {
    let path = env::var_os("PATH").unwrap_or_default();
    let variables: BTreeMap<OsString, OsString> =
        [("PATH".into(), path), ("HOME".into(), home.into())]
            .into_iter()
            .collect();
    let mut ctx = Context::discover(Environment::new(variables, project.to_path_buf()), None)
        .expect("a project");
    ctx.program = PathBuf::from(PITON);
    ctx
}

fn plant(folder: &Path, files: usize) {
    for number in 0..files {
        let lines: Vec<String> = (0..20)
            .map(|line| format!("file {number} line {line}\n"))
            .collect();
        write(&folder.join(path_of(number)), &lines.concat());
    }
    write(&folder.join(".ai/tools/nothing.yaml"), NOTHING);
    write(&folder.join(".ai/tools/edit/tool.yaml"), EDIT);
    write(
        &folder.join(".ai/tools/edit/run.sh"),
        "echo x >> \"$PITON_PARAM_FILE\"\n",
    );
    let parameter = "<param name=\"file\" value=\"{input:item}\"/>";
    for (name, mode, tool, parameter) in [
        ("nothings", "disabled", "nothing", ""),
        ("edits", "auto", "edit", parameter),
    ] {
        let text = format!(
            "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n<metadata><git_checkpoint mode=\"{mode}\"/>\
             <permissions><execute resource=\"tool\" id=\"*\"/><write resource=\"filesystem\" path=\"**\"/></permissions></metadata>\n\
             <inputs><input name=\"list\" type=\"array\" required=\"true\">What to go through</input></inputs>\n\
             <process><step name=\"each\" foreach=\"{{input:list}}\"><execute item_type=\"tool\" item_id=\"{tool}\">{parameter}\
             </execute></step></process>\n</directive>\n```\n"
        );
        write(&folder.join(format!(".ai/directives/{name}.md")), &text);
    }
    write(&folder.join(".ai/directives/nested.md"), NESTED);
    sh(
        folder,
        "git init --quiet --initial-branch=main && git config user.name bench && git config user.email bench@example.org \
         && git config gc.auto 0 && git add -A && git commit --quiet --message start && git gc --quiet",
    );
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

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn sh(folder: &Path, script: &str) {
    let status = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder)
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("sh starts").success(), "{script}");
}

fn timed(command: &mut Command) -> Duration {
    let start = Instant::now();
    let output = command
        .stdout(Stdio::null())
        .output()
        .expect("the program starts");
    let took = start.elapsed();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    took
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times
        .get(times.len() / 2)
        .map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

/// The peak resident memory of this process since the last reset, in MiB.
fn peak_memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|word| word.parse::<f64>().ok())
        .unwrap_or_default()
        / 1024.0
}
