//! The lock that allows one run at a time per worktree.
//!
//! It is a `flock` on a file that is never removed, so it cannot outlive its holder. The file names
//! the holder, and a run that ends properly empties it. If the lock is free and the file still
//! names a holder, that run died, and the next run must recover it first.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::id::RunId;
use crate::disk::{Disk, create_private_folder};
use crate::exec::process;
use crate::failpoint::failpoint;
use crate::problem::{Code, Explain, Hint};
use crate::system_call::flock;

/// The lock file. It is empty while no process holds the lock; hooks rely on that.
pub const FILE: &str = "lock";
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Larger than any holder record.
const MAX_SIZE: usize = 65536;
/// How often the holder updates the time of the lock file.
const BEAT: Duration = Duration::from_secs(1);

/// The lock of a worktree. Dropping it frees the worktree but leaves the holder's name in the file,
/// as if the process had died. Only [`RunLock::release`] marks the run as properly ended.
#[derive(Debug)]
pub struct RunLock {
    file: File,
    path: PathBuf,
    holder: Holder,
}

/// The current or previous holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub run: RunId,
    pub pid: u32,
    pub host: String,
    pub started: Timestamp,
    /// The boot id of the machine, if known.
    #[serde(default)]
    pub boot: Option<String>,
    /// When the kernel started the process, in ticks since boot, if known.
    #[serde(default)]
    pub process_started: Option<u64>,
    /// Interrupted runs of this worktree that still have to be recovered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<UnfinishedRun>,
}

/// A run whose process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedRun {
    pub run: RunId,
    /// The last heartbeat of its process.
    pub died: Timestamp,
}

/// Updates the modification time of the lock file for as long as this value lives, as a sign that
/// the process is alive.
#[derive(Debug)]
pub struct Heartbeat {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("another run is active here{}", shown(.holder.as_deref()))]
    Held {
        /// None if the holder has not written its name yet.
        holder: Option<Box<Holder>>,
    },
    #[error("cannot {doing} `{}`", .path.display())]
    Io {
        /// A verb phrase for the message: ``cannot {doing} `{path}` ``.
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Holder {
    /// This process as the holder for a run.
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

    /// Whether the process belongs to this machine.
    pub fn is_here(&self) -> bool {
        self.host == process::host_name()
    }

    /// Whether the process may still be running. For a process of another machine this is unknown,
    /// so the answer is true.
    pub fn may_be_alive(&self) -> bool {
        let here = self.is_here();
        let rebooted = self.boot.is_some() && self.boot != process::boot_id();
        !here || (!rebooted && process::is_same(self.pid, self.process_started))
    }
}

impl RunLock {
    /// Takes the lock of a worktree, waiting at most `wait`. The folder is `<git dir>/piton`.
    ///
    /// Also returns the previous holder if it died without releasing the lock.
    pub fn acquire(
        folder: &Path,
        holder: &Holder,
        wait: Duration,
        disk: &Disk,
    ) -> Result<(Self, Option<Holder>), LockError> {
        create_private_folder(folder).map_err(LockError::io("create", folder))?;
        let path = folder.join(FILE);
        // The standard library opens files with `O_CLOEXEC`. If child processes inherited the lock,
        // a tool that outlived piton would hold it for as long as it runs.
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
                Err(Errno::WOULDBLOCK) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(LockError::Held {
                            holder: written(&file).map(Box::new),
                        });
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
            // Unfinished runs are recorded with our own name: if this process dies while
            // recovering, the next holder still recovers them.
            holder.unfinished.clone_from(&previous.unfinished);
            holder.unfinished.push(UnfinishedRun {
                run: previous.run,
                died: last_beat(&file).unwrap_or(previous.started),
            });
        }
        // If a power loss restores the earlier holder record, the next run only repeats the
        // recovery.
        let written = write(&file, &holder).and_then(|()| disk.accompany(&file));
        written.map_err(LockError::io("write", &path))?;
        failpoint("lock-taken");
        Ok((Self { file, path, holder }, previous))
    }

    /// The interrupted runs of this worktree, oldest first.
    pub fn unfinished(&self) -> &[UnfinishedRun] {
        &self.holder.unfinished
    }

    /// Records that all interrupted runs have been recovered.
    pub fn forget_unfinished(&mut self) -> Result<(), LockError> {
        failpoint("lock-forget");
        self.holder.unfinished.clear();
        write(&self.file, &self.holder).map_err(LockError::io("write", &self.path))
    }

    /// Starts the heartbeat.
    pub fn beat(&self) -> Result<Heartbeat, LockError> {
        let file = self
            .file
            .try_clone()
            .map_err(LockError::io("open", &self.path))?;
        touch(&file).map_err(LockError::io("touch", &self.path))?;
        let (stop, stopped) = mpsc::channel::<()>();
        let beat = move || {
            while stopped.recv_timeout(BEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                // A failed heartbeat only makes the recorded time of death less exact.
                let _ = touch(&file);
            }
        };
        Ok(Heartbeat {
            stop: Some(stop),
            thread: Some(thread::spawn(beat)),
        })
    }

    /// Frees the worktree in the state it was found in: the next run still has to recover the
    /// interrupted runs.
    pub fn give_back(self, previous: Option<&Holder>) -> Result<(), LockError> {
        let (Some(previous), Some(last)) = (previous, self.holder.unfinished.last()) else {
            return self.release();
        };
        let died = Timespec {
            tv_sec: last.died.as_second(),
            tv_nsec: last.died.subsec_nanosecond().into(),
        };
        let keep = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        };
        // The modification time of the file records when that run died.
        let times = Timestamps {
            last_access: keep,
            last_modification: died,
        };
        let written = write(&self.file, previous).and_then(|()| Ok(futimens(&self.file, &times)?));
        written.map_err(LockError::io("write", &self.path))
    }

    /// Records that the run has ended with nothing left to recover, and frees the worktree.
    pub fn release(self) -> Result<(), LockError> {
        failpoint("lock-release");
        self.file
            .set_len(0)
            .map_err(LockError::io("empty", &self.path))
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
            Self::Held { .. } => Some(
                "wait for it (`--lock-timeout`), or use a separate worktree (`git worktree add`)"
                    .into(),
            ),
            Self::Io { .. } => None,
        }
    }
}

impl LockError {
    fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            doing,
            path: path.into(),
            source,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            run,
            pid,
            host,
            started,
            ..
        } = self;
        write!(
            formatter,
            "run `{run}`, process {pid} on `{host}`, since {started}"
        )
    }
}

/// The current holder of the worktree's lock, read without taking the lock.
pub fn current_holder(folder: &Path) -> Option<Holder> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(folder.join(FILE))
        .ok()?;
    written(&file).filter(Holder::may_be_alive)
}

fn shown(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(": {holder}"))
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread only sleeps and touches a file, so it ends soon.
            let _ = thread.join();
        }
    }
}

fn last_beat(file: &File) -> Option<Timestamp> {
    Timestamp::try_from(file.metadata().ok()?.modified().ok()?).ok()
}

fn touch(file: &File) -> io::Result<()> {
    // A user who can write the file but does not own it may only set both times at once to the
    // current time.
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    Ok(futimens(
        file,
        &Timestamps {
            last_access: now,
            last_modification: now,
        },
    )?)
}

fn written(file: &File) -> Option<Holder> {
    let mut bytes = vec![0; MAX_SIZE];
    let size = file.read_at(&mut bytes, 0).ok()?;
    let line = bytes.get(..size)?.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}

/// Writes the holder into the file. The file is shortened only after the new line is written, so a
/// kill in between still leaves a complete first line.
fn write(file: &File, holder: &Holder) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(holder)?;
    bytes.push(b'\n');
    file.write_all_at(&bytes, 0)?;
    file.set_len(bytes.len() as u64)
}

#[cfg(test)]
mod tests;
