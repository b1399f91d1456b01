//! Measures what a tool call costs compared with a bare spawn, in the same rounds.
//!
//! `cargo bench --bench tool`; `-- levels` compares the isolation levels instead. The tool is `/bin/true` as a `cli` tool at `trusted`, with
//! checkpoints disabled: everything above the bare spawn is piton's cost. In process, the items are
//! read once, then each call is planned, checked against the policy, recorded and supervised. From
//! the command line, whole processes are measured. See `docs/BENCHMARKS.md`.

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
use std::thread;
use std::time::{Duration, Instant};

use piton::context::{Context, Environment};
use piton::exec::call;
use piton::exec::interrupt::Interrupts;
use piton::exec::supervisor::Supervisor;
use piton::item::directive::CheckpointMode;
use piton::item::finding::Strength;
use piton::item::store::ItemStore;
use piton::policy::Authority;
use piton::run::session::{RunRequest, Session};
use piton::run::tool::{ToolPlan, ToolPlanner, ToolRequest, ToolStep, call_tool, plan};

const PITON: &str = env!("CARGO_BIN_EXE_piton");
const TRUE: &str = "/bin/true";
/// From the weakest to the strictest.
const LEVELS: [&str; 4] = ["trusted", "standard", "sandboxed", "restricted"];

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let project = folder.path().join("project");
    fs::create_dir_all(project.join(".ai/tools")).expect("a folder");
    fs::create_dir_all(folder.path().join("home")).expect("a folder");
    write_tool(&project, "nothing", "trusted");
    for level in LEVELS {
        write_tool(&project, level, level);
    }
    let init = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(&project)
        .status()
        .expect("git");
    assert!(init.success(), "git init failed");
    let ctx = context(&project, &folder.path().join("home"));
    if env::args().any(|word| word == "levels") {
        levels(&ctx, 200);
        return;
    }

    println!("| | bare spawn ms | call ms | over it ms |\n|---|---|---|---|");
    one_by_one(&ctx, 300);
    from_the_command_line(&ctx, 200);
    many(&ctx, 1000);
    side_by_side(&ctx, 64);
    println!(
        "\nMemory of this process after all of it: {} MiB at most",
        peak_memory() / (1 << 20)
    );
}

fn write_tool(project: &Path, id: &str, level: &str) {
    let manifest = format!(
        "tool_id: {id}\ntool_type: cli\nversion: \"1.0.0\"\ndescription: Does nothing\n\
         executor: subprocess\nisolation: {level}\nconfig:\n  command: {TRUE}\n"
    );
    fs::write(project.join(format!(".ai/tools/{id}.yaml")), manifest).expect("a file");
}

fn context(project: &Path, home: &Path) -> Context {
    let path = env::var_os("PATH").unwrap_or_default();
    let variables: BTreeMap<OsString, OsString> =
        [("PATH".into(), path), ("HOME".into(), home.into())]
            .into_iter()
            .collect();
    let environment = Environment::new(variables, project.to_path_buf());
    let mut ctx = Context::discover(environment, None).expect("a project");
    ctx.program = PathBuf::from(PITON);
    ctx
}

/// Calls in this process beside bare spawns, in turns.
fn one_by_one(ctx: &Context, rounds: usize) {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let mut bare = Vec::new();
    let mut called = Vec::new();
    let mut phases: [Vec<Duration>; 4] = Default::default();
    let mut spare = Supervisor::start(&ctx.program).expect("a supervisor");
    for round in 0..=rounds {
        let spawned = timed(spawn);
        let start = Instant::now();
        let parts = call_once(ctx, &store, spare);
        let call = start.elapsed();
        // Like the server, start the next supervisor before it is needed.
        spare = Supervisor::start(&ctx.program).expect("a supervisor");
        thread::sleep(Duration::from_millis(5));
        if round > 0 {
            bare.push(spawned);
            called.push(call);
            phases
                .iter_mut()
                .zip(parts)
                .for_each(|(phase, part)| phase.push(part));
        }
    }
    row("in process", bare, called);
    let [planning, beginning, calling, ending] = phases.map(median);
    println!(
        "| (plan {planning:.2}, begin {beginning:.2}, call {calling:.2}, end {ending:.2}) | | | |"
    );
}

fn from_the_command_line(ctx: &Context, rounds: usize) {
    let mut bare = Vec::new();
    let mut called = Vec::new();
    for round in 0..=rounds {
        let spawned = timed(spawn);
        let call = timed(|| run_tool(ctx, "nothing"));
        if round > 0 {
            bare.push(spawned);
            called.push(call);
        }
    }
    row("from the command line", bare, called);
}

/// A tool at each isolation level from the command line, in turns.
fn levels(ctx: &Context, rounds: usize) {
    let mut bare = Vec::new();
    let mut called: [Vec<Duration>; 4] = Default::default();
    for round in 0..=rounds {
        let spawned = timed(spawn);
        let calls = LEVELS.map(|level| timed(|| run_tool(ctx, level)));
        if round > 0 {
            bare.push(spawned);
            called
                .iter_mut()
                .zip(calls)
                .for_each(|(times, call)| times.push(call));
        }
    }
    println!("Bare spawn: {:.2} ms", median(bare));
    println!("\n| level | call ms | over `trusted` ms |\n|---|---|---|");
    let called = called.map(median);
    let [trusted, ..] = called;
    for (level, call) in LEVELS.into_iter().zip(called) {
        println!("| `{level}` | {call:.2} | {:.2} |", call - trusted);
    }
}

fn run_tool(ctx: &Context, id: &str) {
    let status = Command::new(PITON)
        .args(["tool", "run", id, "--checkpoint", "disabled", "--quiet"])
        .env("HOME", ctx.home.as_deref().expect("a home"))
        .current_dir(&ctx.root)
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("piton").success(), "the tool failed");
}

fn many(ctx: &Context, count: u32) {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let bare = timed(|| (0..count).for_each(|_| spawn())) / count;
    let called = timed(|| {
        let mut spare = Supervisor::start(&ctx.program).expect("a supervisor");
        for _ in 0..count {
            let next = Supervisor::start(&ctx.program).expect("a supervisor");
            call_once(ctx, &store, spare);
            spare = next;
        }
    }) / count;
    row(
        &format!("{count} one after the other, each"),
        vec![bare],
        vec![called],
    );
}

/// A worktree allows one run at a time, so this measures everything below the journal.
fn side_by_side(ctx: &Context, count: u32) {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let plan = planned(ctx, &store);
    let all = |work: &(dyn Fn() + Sync)| {
        thread::scope(|scope| {
            for _ in 0..count {
                scope.spawn(work);
            }
        });
    };
    let bare = timed(|| all(&spawn));
    let called = timed(|| {
        all(&|| {
            let machine = machine(ctx);
            let mut interrupts = Interrupts::listen().expect("signals");
            let another = || Supervisor::start(&ctx.program);
            let prepared = call::prepare(
                &plan.invocation,
                None,
                &machine,
                &another,
                &mut interrupts,
                &mut |_| {},
            );
            let prepared = prepared.expect("a call that is ready");
            let supervisor = another().expect("a supervisor");
            let ended = supervisor
                .run(&prepared.work, &mut interrupts, &mut |_, _| {})
                .expect("a call");
            assert_eq!(ended.exit_code, Some(0));
        });
    });
    row(
        &format!("{count} side by side, altogether"),
        vec![bare],
        vec![called],
    );
}

/// Returns how long planning, starting, calling and ending took.
fn call_once(ctx: &Context, store: &ItemStore, supervisor: Supervisor) -> [Duration; 4] {
    let start = Instant::now();
    let plan = planned(ctx, store);
    let planning = start.elapsed();
    let request = RunRequest {
        name: "nothing".to_owned(),
        command: vec!["bench".to_owned()],
        mode: CheckpointMode::Disabled,
        lock_timeout: Duration::ZERO,
        directive: None,
    };
    let mut observer = |_: &_| {};
    let mut session = Session::begin(ctx, &request, &mut observer).expect("a run");
    let beginning = start.elapsed();
    let planner = ToolPlanner {
        store,
        authority: &Authority::Person,
    };
    let step = ToolStep::new("nothing", &plan, planner, None);
    let called = call_tool(&mut session, step, supervisor, &mut |_| {}).expect("a call");
    let calling = start.elapsed();
    session
        .finish(called.end.run_status(), None)
        .expect("an end");
    let since = |later: Duration, earlier: Duration| later.saturating_sub(earlier);
    [
        planning,
        since(beginning, planning),
        since(calling, beginning),
        since(start.elapsed(), calling),
    ]
}

fn planned(ctx: &Context, store: &ItemStore) -> ToolPlan {
    let request = ToolRequest {
        id: "nothing".to_owned(),
        ..ToolRequest::default()
    };
    plan(ctx, store, &request, &Authority::Person).expect("a plan")
}

fn machine(ctx: &Context) -> call::Machine {
    call::Machine {
        root: ctx.root.clone(),
        cwd: ctx.cwd.clone(),
        home: ctx.home.clone(),
        cache: ctx.cache_folder(),
        temporary: ctx.environment.temporary_folder(),
        program: ctx.program.clone(),
        environment: ctx.environment.variables().clone(),
        run: "bench".to_owned(),
        patience: call::CallTimeouts::default(),
        files: call::AllowedFiles::Any,
        confinement: None,
    }
}

fn spawn() {
    let status = Command::new(TRUE)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("true").success(), "true failed");
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn row(what: &str, bare: Vec<Duration>, called: Vec<Duration>) {
    let (bare, called) = (median(bare), median(called));
    println!(
        "| {what} | {bare:.2} | {called:.2} | {:.2} |",
        called - bare
    );
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times
        .get(times.len() / 2)
        .map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

/// The peak resident memory so far, in bytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|word| word.parse::<u64>().ok())
        .unwrap_or_default()
        * 1024
}
