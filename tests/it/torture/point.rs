//! The system calls of piton's first thread, and errors injected there with `strace`.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;

use super::scenario::TortureScene;

/// Calls that change files, or make a change permanent. Of `open` and `openat` only those that may
/// create a file count.
const CALLS: [&str; 32] = [
    "open",
    "openat",
    "creat",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "fsync",
    "fdatasync",
    "syncfs",
    "sync_file_range",
    "ftruncate",
    "truncate",
    "chmod",
    "fchmod",
    "fchmodat",
    "utimensat",
    "flock",
    "copy_file_range",
    "fallocate",
];

/// Calls that a signal may interrupt, and that a program must repeat.
const INTERRUPTED: [&str; 8] = [
    "open",
    "openat",
    "write",
    "pwrite64",
    "ftruncate",
    "flock",
    "fsync",
    "fdatasync",
];

/// The errors that are injected.
pub(super) const INJECTED: [&str; 4] = ["ENOSPC", "EIO", "EDQUOT", "EINTR"];

/// One call of a run: the `number`th of its kind.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) call: String,
    number: usize,
    /// The call as `strace` shows it.
    shown: String,
}

impl Point {
    /// Whether the kernel could let the call fail like this.
    pub(super) fn may_fail_with(&self, error: &str) -> bool {
        match error {
            "EINTR" => INTERRUPTED.contains(&self.call.as_str()),
            // Locking, unlinking and changing modes need no space.
            "ENOSPC" | "EDQUOT" => ![
                "flock", "unlink", "unlinkat", "rmdir", "chmod", "fchmod", "fchmodat",
            ]
            .contains(&self.call.as_str()),
            _ => self.call != "flock",
        }
    }
}

/// Runs a command and lists its calls.
pub(super) fn points(scene: &TortureScene, command: &[String]) -> Vec<Point> {
    let trace = scene.tmp().join("trace");
    let calls = format!("trace={}", CALLS.join(","));
    let log = trace.to_string_lossy().into_owned();
    let ran = scene.under_strace(["-qq", "-s", "0", "-o", &log, "-e", &calls], command);
    let text = fs::read_to_string(&trace).unwrap_or_else(|err| panic!("strace: {err}: {ran:?}"));
    fs::remove_file(&trace).expect("a trace");
    let mut counts = std::collections::BTreeMap::new();
    let mut points = Vec::new();
    for line in text.lines() {
        let Some((call, rest)) = line.split_once('(') else {
            continue;
        };
        if !CALLS.contains(&call) {
            continue;
        }
        let number = counts.entry(call.to_owned()).or_insert(0);
        *number += 1;
        if is_change(call, rest) {
            points.push(Point {
                call: call.to_owned(),
                number: *number,
                shown: line.to_owned(),
            });
        }
    }
    points
}

/// Whether a call can change a file.
fn is_change(call: &str, arguments: &str) -> bool {
    let is_reading = call.starts_with("open")
        && !arguments.contains("O_CREAT")
        && !arguments.contains("O_TMPFILE");
    // Files of the kernel and the terminal are not on any disk.
    let is_device = arguments.contains("\"/dev/") && !arguments.contains("\"/dev/shm/");
    !is_reading && !is_device && !arguments.contains("\"/proc/")
}

/// Runs a command and lets it fail at a point. Returns `None` if the run made other calls than the
/// one that was counted, and the error met no call that changes a file.
pub(super) fn disturbed(
    scene: &TortureScene,
    command: &[String],
    point: &Point,
    error: &str,
) -> Option<Output> {
    let Point { call, number, .. } = point;
    let (trace, inject) = (
        format!("trace={call}"),
        format!("inject={call}:error={error}:when={number}"),
    );
    let log = scene.tmp().join("trace");
    let shown = log.to_string_lossy().into_owned();
    let options = ["-qq", "-s", "0", "-o", &shown, "-e", &trace, "-e", &inject];
    let ran = scene.under_strace(options, command);
    let text = fs::read_to_string(&log).unwrap_or_else(|err| panic!("strace: {err}: {ran:?}"));
    fs::remove_file(&log).expect("a trace");
    let is_reached = text.lines().any(|line| {
        line.ends_with("(INJECTED)")
            && line
                .split_once('(')
                .is_some_and(|(call, arguments)| is_change(call, arguments))
    });
    is_reached.then_some(ran)
}

/// Whether `strace` reports that its program was killed: it dies the same way.
pub(super) fn was_killed(output: &Output) -> bool {
    output.status.signal() == Some(9) || output.status.code() == Some(137)
}

impl std::fmt::Debug for Point {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} number {}, {}",
            self.call, self.number, self.shown
        )
    }
}
