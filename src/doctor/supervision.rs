//! Whether a tool can be killed with all of its processes, and what the kernel offers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::ProbeContext;
use super::probe::ProbeOutcome;
use crate::exec::interrupt::Interrupts;
use crate::exec::isolation::{SandboxSupport, Support};
use crate::exec::process;
use crate::exec::supervisor::{Ended, Supervisor, Touched, Watch, Work};
use crate::item::tool::Isolation;
use crate::problem::{Explain, with_causes};
use crate::run::error::RunError;

/// How long a killed process may take to disappear.
const VANISHING: Duration = Duration::from_secs(2);

/// Whether an orphaned process of a tool is killed.
pub(super) fn reaper(around: &ProbeContext) -> ProbeOutcome {
    // The subshell exits at once, so that its child becomes an orphan.
    let ended = match supervised(around, "(sleep 300 & echo $!)", Watch::No) {
        Ok(ended) => ended,
        Err(err) => return unsupervised(&err),
    };
    let pid = String::from_utf8_lossy(&ended.stdout.head)
        .trim()
        .parse::<u32>();
    match pid {
        Ok(pid) if ended.exit_code == Some(0) && is_gone(pid) => {
            ProbeOutcome::ok("a process that a tool left behind was found and ended")
        }
        Ok(_) => ProbeOutcome::missing(
            "a process that a tool left behind is still running",
            "this is a bug: please report it",
        ),
        Err(_) => ProbeOutcome::missing(
            format!(
                "the tool did not run: {}",
                String::from_utf8_lossy(&ended.stderr.head).trim()
            ),
            "`/bin/sh` and `sleep` are required",
        ),
    }
}

fn unsupervised(err: &RunError) -> ProbeOutcome {
    let hint = err
        .hint()
        .unwrap_or_else(|| "tools need Linux, and the right to start processes".into());
    ProbeOutcome::missing(with_causes(err), hint)
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

/// Whether the writes of a tool can be told apart from concurrent writes of others.
pub(super) fn witness(around: &ProbeContext) -> ProbeOutcome {
    let file = around.workshop.join("touched");
    let ended = match supervised(around, ": > touched", Watch::Yes) {
        Ok(ended) => ended,
        Err(err) => return unsupervised(&err),
    };
    match &ended.touched {
        Touched::Paths(_) if ended.touched.has(&file) && file.exists() => ProbeOutcome::ok(
            "the kernel reports which files a tool touches, so concurrent edits are not attributed to a step",
        ),
        touched => {
            let why = touched
                .doubt()
                .map(|doubt| format!(" ({doubt})"))
                .unwrap_or_default();
            ProbeOutcome::warning(
                format!(
                    "piton cannot see which files a step touches{why}: a failed step is rolled back only if a person \
                     at the terminal agrees"
                ),
                "use `--worktree`, or a Linux of 5.5 or newer that allows seccomp filters",
            )
        }
    }
}

/// The isolation of tools.
pub(super) fn isolation(around: &ProbeContext) -> ProbeOutcome {
    let missing = Support::of_this_machine(&around.workshop).missing();
    let sandbox = SandboxSupport::of_this_machine().missing(Isolation::Restricted);
    if missing.is_empty() && !sandbox.is_empty() {
        return ProbeOutcome::warning(
            format!(
                "the kernel keeps tools at `standard`, but does not prevent {} at higher levels",
                sandbox.join(" and ")
            ),
            "tools that ask for `sandboxed` or `restricted` are refused; use a container tool for these",
        );
    }
    if missing.is_empty() {
        return ProbeOutcome::ok(
            "the kernel keeps tools at `standard`: writes only below the project and the temporary folder, not into \
             `.git` and `.ai`; TCP as granted; no signals to other processes, and no look into them; `sandboxed` and `restricted` work \
             as well",
        );
    }
    ProbeOutcome::warning(
        format!(
            "the kernel does not prevent {} by tools",
            missing.join(", ")
        ),
        "use Linux 6.12 or newer with Landlock and user namespaces; `piton run DIRECTIVE --dry-run` shows how each \
         permission is enforced",
    )
}

/// Runs an `sh` script in a supervisor, in the temporary folder.
fn supervised(around: &ProbeContext, script: &str, watch: Watch) -> Result<Ended, RunError> {
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
