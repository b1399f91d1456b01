//! One run at a time per worktree.
//!
//! The lock is the kernel's, on a file that is never removed, so it cannot outlive its holder. The
//! file names the holder; a run that ends well empties it. A name that is still there when the lock
//! is free belongs to a run that died, and whoever comes next has to recover it first.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, flock, futimens};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::id::RunId;
use crate::disk::Disk;
use crate::exec::process;
use crate::failpoint::failpoint;
use crate::problem::{Code, Explain, Hint};

/// Its name; empty while nobody holds it, which hooks rely on.
pub const FILE: &str = "lock";
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// More than a holder ever takes.
const MAX_SIZE: usize = 65536;
/// How often a process shows that it is alive.
const BEAT: Duration = Duration::from_secs(1);

/// The lock of a worktree. Dropping it frees the worktree and leaves the holder's name, as death does:
/// only [`RunLock::release`] says that all is in order.
#[derive(Debug)]
pub struct RunLock {
    file: File,
    path: PathBuf,
    holder: Holder,
}

/// Who holds a lock, or held it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The run.
    pub run: RunId,
    /// The process.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// When the run was started.
    pub started: Timestamp,
    /// The boot of the machine, where that is known.
    #[serde(default)]
    pub boot: Option<String>,
    /// When the kernel started the process, in ticks since the boot, where that is known.
    #[serde(default)]
    pub process_started: Option<u64>,
    /// Runs that were cut off here and are still to be brought to an end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<Unfinished>,
}

/// A run whose process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// The run.
    pub run: RunId,
    /// The last sign of life of its process.
    pub died: Timestamp,
}

/// Shows that a process is alive, for as long as this is held: the time of the lock follows the clock.
#[derive(Debug)]
pub struct Heartbeat {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Why the lock was not given.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("another run is at work here{}", shown(.holder.as_deref()))]
    Held {
        /// Who; none when it has not said so yet.
        holder: Option<Box<Holder>>,
    },
    /// The file system failed.
    #[error("cannot {doing} `{}`", .path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Holder {
    /// This process, for a run.
    pub fn of_process(run: RunId, started: Timestamp) -> Self {
        let pid = std::process::id();
        Self {
            run,
            pid,
            host: process::host_name(),
            started,
            boot: process::boot_id(),
            process_started: process::start_time(pid),
            unfinished: Vec::new(),
        }
    }

    /// Whether the process is, or was, one of this machine.
    pub fn is_here(&self) -> bool {
        self.host == process::host_name()
    }

    /// Whether the process may still be there; of another machine that cannot be told.
    pub fn may_be_alive(&self) -> bool {
        let here = self.is_here();
        let rebooted = self.boot.is_some() && self.boot != process::boot_id();
        !here || (!rebooted && process::is_same(self.pid, self.process_started))
    }
}

impl RunLock {
    /// Takes the lock of a worktree, whose folder is `<git dir>/piton`, waiting at most for `wait`.
    ///
    /// Also returns the holder that died without releasing it, if there was one.
    pub fn acquire(
        folder: &Path,
        holder: &Holder,
        wait: Duration,
        disk: &Disk,
    ) -> Result<(Self, Option<Holder>), LockError> {
        fs::create_dir_all(folder).map_err(LockError::io("create", folder))?;
        let path = folder.join(FILE);
        // The standard library opens files so that the programs it starts do not inherit them: a tool
        // that outlived piton would hold the lock for as long as it runs.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(LockError::io("open", &path))?;
        let deadline = Instant::now() + wait;
        let mut pause = Duration::from_millis(2);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(LockError::Held { holder: written(&file).map(Box::new) });
                    }
                    thread::sleep(pause.min(left));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(err) => return Err(LockError::io("lock", &path)(err.into())),
            }
        }
        let previous = written(&file);
        let mut holder = holder.clone();
        if let Some(previous) = &previous {
            // Written with our own name: whoever dies while recovering leaves the duty to the next.
            holder.unfinished.clone_from(&previous.unfinished);
            holder
                .unfinished
                .push(Unfinished { run: previous.run, died: last_beat(&file).unwrap_or(previous.started) });
        }
        // A power loss that brings the earlier holder back loses nothing: it is recovered again.
        let written = write(&file, &holder).and_then(|()| disk.accompany(&file));
        written.map_err(LockError::io("write", &path))?;
        failpoint("lock-taken");
        Ok((Self { file, path, holder }, previous))
    }

    /// The runs that were cut off here, oldest first.
    pub fn unfinished(&self) -> &[Unfinished] {
        &self.holder.unfinished
    }

    /// Says that every run that was cut off has been brought to an end.
    pub fn forget_unfinished(&mut self) -> Result<(), LockError> {
        failpoint("lock-forget");
        self.holder.unfinished.clear();
        write(&self.file, &self.holder).map_err(LockError::io("write", &self.path))
    }

    /// Begins to show that this process is alive.
    pub fn beat(&self) -> Result<Heartbeat, LockError> {
        let file = self.file.try_clone().map_err(LockError::io("open", &self.path))?;
        touch(&file).map_err(LockError::io("touch", &self.path))?;
        let (stop, stopped) = mpsc::channel::<()>();
        let beat = move || {
            while stopped.recv_timeout(BEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                // A beat that fails only makes the time of death less exact.
                let _ = touch(&file);
            }
        };
        Ok(Heartbeat { stop: Some(stop), thread: Some(thread::spawn(beat)) })
    }

    /// Frees the worktree as it was found: whoever comes next still has to recover what was cut off here.
    pub fn give_back(self, previous: Option<&Holder>) -> Result<(), LockError> {
        let (Some(previous), Some(last)) = (previous, self.holder.unfinished.last()) else { return self.release() };
        let died = Timespec { tv_sec: last.died.as_second(), tv_nsec: last.died.subsec_nanosecond().into() };
        let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        // The time of the file is when that run died.
        let times = Timestamps { last_access: keep, last_modification: died };
        let written = write(&self.file, previous).and_then(|()| Ok(futimens(&self.file, &times)?));
        written.map_err(LockError::io("write", &self.path))
    }

    /// Says that the run has ended and nothing is left to recover, and frees the worktree.
    pub fn release(self) -> Result<(), LockError> {
        failpoint("lock-release");
        self.file.set_len(0).map_err(LockError::io("empty", &self.path))
    }
}

impl Explain for LockError {
    fn code(&self) -> Code {
        match self {
            Self::Held { .. } => Code::Locked,
            Self::Io { .. } => Code::LockFailed,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Held { .. } => {
                Some("wait for it (`--lock-timeout`), or work in a worktree of its own (`git worktree add`)".into())
            }
            Self::Io { .. } => None,
        }
    }
}

impl LockError {
    fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.into(), source }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, pid, host, started, .. } = self;
        write!(formatter, "run `{run}`, process {pid} on `{host}`, since {started}")
    }
}

/// Who holds the lock of a worktree now, as far as can be told without touching it.
pub fn current_holder(folder: &Path) -> Option<Holder> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(folder.join(FILE)).ok()?;
    written(&file).filter(Holder::may_be_alive)
}

fn shown(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(": {holder}"))
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only sleeps and touches a file.
            let _ = thread.join();
        }
    }
}

/// When the lock was last touched.
fn last_beat(file: &File) -> Option<Timestamp> {
    Timestamp::try_from(file.metadata().ok()?.modified().ok()?).ok()
}

fn touch(file: &File) -> io::Result<()> {
    // Only with both times may a user do this who can write the file and does not own it.
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(futimens(file, &Timestamps { last_access: now, last_modification: now })?)
}

/// The holder that the file names.
fn written(file: &File) -> Option<Holder> {
    let mut bytes = vec![0; MAX_SIZE];
    let size = file.read_at(&mut bytes, 0).ok()?;
    let line = bytes.get(..size)?.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}

/// Names the holder. At no moment does the file name nobody: killed in between, the first line is
/// still whole.
fn write(file: &File, holder: &Holder) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(holder)?;
    bytes.push(b'\n');
    file.write_all_at(&bytes, 0)?;
    file.set_len(bytes.len() as u64)
}

#[cfg(test)]
mod tests;
