//! The system calls at which a command can be disturbed, and the disturbance with `strace`.

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
const INTERRUPTED: [&str; 8] = ["open", "openat", "write", "pwrite64", "ftruncate", "flock", "fsync", "fdatasync"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process dies before the call.
    Kill,
    /// The call fails with this error.
    Error(&'static str),
}

/// One call of a run: the `number`th of its kind.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) call: String,
    number: usize,
    /// The call as `strace` shows it.
    shown: String,
}

impl Fault {
    /// Whether the kernel could cause this fault.
    pub(super) fn suits(self, point: &Point) -> bool {
        match self {
            Self::Kill => true,
            Self::Error("EINTR") => INTERRUPTED.contains(&point.call.as_str()),
            // Locking, unlinking and changing modes need no space.
            Self::Error("ENOSPC" | "EDQUOT") => {
                !["flock", "unlink", "unlinkat", "rmdir", "chmod", "fchmod", "fchmodat"].contains(&point.call.as_str())
            }
            // An emptied folder that cannot be removed stays, as with git.
            Self::Error(_) => point.call != "flock" && !point.shown.contains("AT_REMOVEDIR"),
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
        let Some((call, rest)) = line.split_once('(') else { continue };
        if !CALLS.contains(&call) {
            continue;
        }
        let number = counts.entry(call.to_owned()).or_insert(0);
        *number += 1;
        let is_reading = call.starts_with("open") && !rest.contains("O_CREAT") && !rest.contains("O_TMPFILE");
        // Files of the kernel and the terminal are not on any disk.
        if !is_reading && !rest.contains("\"/dev/") && !rest.contains("\"/proc/") {
            points.push(Point { call: call.to_owned(), number: *number, shown: line.to_owned() });
        }
    }
    points
}

/// Runs a command and disturbs it at a point.
pub(super) fn disturbed(scene: &TortureScene, command: &[String], point: &Point, fault: &Fault) -> Output {
    let Point { call, number, .. } = point;
    let what = match fault {
        Fault::Kill => "signal=KILL".to_owned(),
        Fault::Error(error) => format!("error={error}"),
    };
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{what}:when={number}"));
    scene.under_strace(["-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject], command)
}

/// Whether `strace` reports that its program was killed: it dies the same way.
pub(super) fn was_killed(output: &Output) -> bool {
    output.status.signal() == Some(9) || output.status.code() == Some(137)
}

impl std::fmt::Debug for Point {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} number {}, {}", self.call, self.number, self.shown)
    }
}
