//! Whether a tool can be ended with everything that it started, and what the kernel offers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::Surroundings;
use super::probe::Outcome;
use crate::exec::interrupt::Interrupts;
use crate::exec::process;
use crate::exec::supervisor::{Ended, Supervisor, Touched, Watch, Work};
use crate::item::source::read_bytes;
use crate::problem::{Explain, with_causes};
use crate::run::error::RunError;

/// How long a killed process may take to vanish.
const VANISHING: Duration = Duration::from_secs(2);

/// Whether a process that a tool left behind is killed.
pub(super) fn reaper(around: &Surroundings) -> Outcome {
    // The shell waits for the inner one, which leaves its own child to whoever adopts it.
    let ended = match supervised(around, "(sleep 300 & echo $!)", Watch::No) {
        Ok(ended) => ended,
        Err(err) => return unsupervised(&err),
    };
    let pid = String::from_utf8_lossy(&ended.stdout.head).trim().parse::<u32>();
    match pid {
        Ok(pid) if ended.exit_code == Some(0) && is_gone(pid) => {
            Outcome::ok("a process that a tool left behind was found and ended")
        }
        Ok(_) => Outcome::missing("a process that a tool left behind goes on", "this is a bug: please report it"),
        Err(_) => Outcome::missing(
            format!("the tool did not run: {}", String::from_utf8_lossy(&ended.stderr.head).trim()),
            "`/bin/sh` and `sleep` have to be there",
        ),
    }
}

fn unsupervised(err: &RunError) -> Outcome {
    let hint = err.hint().unwrap_or_else(|| "tools need Linux, and the right to start processes".into());
    Outcome::missing(with_causes(err), hint)
}

fn is_gone(pid: u32) -> bool {
    let deadline = Instant::now() + VANISHING;
    while process::start_time(pid).is_some() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Whether the work of a tool can be told from that of others at the same time.
pub(super) fn witness(around: &Surroundings) -> Outcome {
    let file = around.workshop.join("touched");
    let ended = match supervised(around, ": > touched", Watch::Yes) {
        Ok(ended) => ended,
        Err(err) => return unsupervised(&err),
    };
    match &ended.touched {
        Touched::Paths(_) if ended.touched.has(&file) && file.exists() => {
            Outcome::ok("the kernel tells which files a tool touches, so edits of others during a step stay theirs")
        }
        touched => {
            let why = touched.doubt().map(|doubt| format!(" ({doubt})")).unwrap_or_default();
            Outcome::warning(
                format!(
                    "piton cannot see which files a step touches{why}: a step that fails is put back only if a person \
                     at the terminal agrees"
                ),
                "use `--worktree`, or a Linux of 5.5 or newer that allows seccomp filters",
            )
        }
    }
}

/// What keeps a tool from the machine.
pub(super) fn isolation(_: &Surroundings) -> Outcome {
    let says = |file: &str, word: &[u8]| {
        read_bytes(Path::new(file), 4096).is_ok_and(|text| text.windows(word.len()).any(|it| it == word))
    };
    let mut offered = Vec::new();
    if says("/sys/kernel/security/lsm", b"landlock") {
        offered.push("Landlock");
    }
    if fs::symlink_metadata("/proc/self/ns/user").is_ok() {
        offered.push("user namespaces");
    }
    let offered = if offered.is_empty() { "nothing that is known".to_owned() } else { offered.join(" and ") };
    Outcome::missing(
        format!(
            "piton does not use the kernel to isolate tools yet (it offers {offered}): processes are supervised, the \
             environment is scrubbed, files are compared afterwards"
        ),
        "`piton run DIRECTIVE --dry-run` says by what each permission is enforced",
    )
}

/// Runs a script of `sh` below a supervisor, in the temporary folder.
fn supervised(around: &Surroundings, script: &str, watch: Watch) -> Result<Ended, RunError> {
    let mut interrupts = Interrupts::listen().map_err(RunError::Signals)?;
    let mut path = around.own.search_path().to_owned();
    path.push(":/usr/bin:/bin");
    let environment: BTreeMap<OsString, OsString> = BTreeMap::from([("PATH".into(), path)]);
    let work = Work {
        program: PathBuf::from("/bin/sh"),
        argv: vec!["sh".into(), "-c".into(), script.into()],
        folder: around.workshop.clone(),
        environment,
        watch,
        timeout: Some(around.patient.limit),
        ..Work::default()
    };
    Ok(Supervisor::start(&around.own.program)?.run(&work, &mut interrupts, &mut |_, _| {})?)
}
