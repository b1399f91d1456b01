//! Records which files the tool is about to change.
//!
//! For each system call that the kernel reports, the [`WriteMonitor`] reads its path from the caller's
//! memory, follows it as the caller would ([`PathWalk`]), and lets the call continue. If anything cannot be determined,
//! everything is unknown for the rest of the work.

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::pread;

use super::Work;
use super::path_walk::{Last, PathWalk};
use super::refusals::Refusals;
use super::seccomp::{self, Notice, SYS_FCHMODAT2};
use super::touched::{Touched, TouchedLog, TouchedPaths};
use crate::checkpoint::attribution::Doubt;
use crate::checkpoint::held::FileTime;
use crate::system_call::open;

/// A flag of `openat2`: the folder takes the place of the root. Missing in the C library for some
/// targets.
const RESOLVE_IN_ROOT: u64 = 0x10;

#[derive(Debug)]
pub(super) struct WriteMonitor {
    listener: Option<OwnedFd>,
    touched: Touched,
    refusals: Refusals,
    own_mounts: Option<PathBuf>,
    within: Vec<PathBuf>,
    most: usize,
    log: Option<TouchedLog>,
}

/// The arguments of a call that contain the folder descriptor and the path.
#[derive(Clone, Copy, Debug)]
struct PathArguments {
    folder: Option<usize>,
    text: Option<usize>,
    last: Last,
}

/// What a call does to its paths.
#[derive(Clone, Copy, Debug)]
enum Act {
    None,
    /// It changes what is there.
    Change(PathArguments),
    /// It removes a file.
    Remove(PathArguments),
    /// It moves one to the other, or exchanges them.
    Move(PathArguments, PathArguments),
}

impl WriteMonitor {
    /// Without a listener, everything stays unknown.
    pub(super) fn new(
        listener: Result<OwnedFd, Doubt>,
        work: &Work,
        log: Option<TouchedLog>,
    ) -> Self {
        let mut monitor = Self {
            listener: None,
            touched: Touched::Paths(TouchedPaths::default()),
            refusals: Refusals::of(work.confinement.as_ref()),
            own_mounts: fs::read_link("/proc/self/ns/mnt").ok(),
            within: work.within.clone(),
            most: work.most_touched,
            log,
        };
        match listener {
            Ok(listener) => {
                seccomp::hand_over_directly(&listener);
                monitor.listener = Some(listener);
            }
            Err(doubt) => monitor.give_up(doubt),
        }
        monitor
    }

    /// Readable when a call waits.
    pub(super) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Closes the listener after all watched processes have ended.
    pub(super) fn leave(&mut self) {
        self.listener = None;
    }

    /// Handles a waiting call.
    pub(super) fn look(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        // The caller died before it could be read.
        let Ok(notice) = seccomp::next(listener) else {
            return;
        };
        if let Touched::Paths(touched) = &mut self.touched {
            let mut fresh = TouchedPaths::default();
            let doubt = match note(&mut fresh, &notice, self.own_mounts.as_deref()) {
                Ok(()) => {
                    self.refusals.note(&notice, &fresh);
                    let entries = touched.absorb(fresh, &self.within);
                    // Write before the call continues: a log that lacks a change is worse than
                    // none.
                    if let Some(log) = &mut self.log {
                        log.add(&entries);
                    }
                    (touched.len() > self.most).then_some(Doubt::TooMany)
                }
                // A process that was killed meanwhile changes nothing.
                Err(_) if !seccomp::is_waiting(listener, &notice) => None,
                Err(doubt) => Some(doubt),
            };
            if let Some(doubt) = doubt {
                self.give_up(doubt);
            }
        }
        if let Some(listener) = &self.listener {
            seccomp::let_go(listener, &notice);
        }
    }

    fn give_up(&mut self, doubt: Doubt) {
        self.touched = Touched::Unknown(doubt);
        if let Some(log) = &mut self.log {
            log.give_up(&self.touched);
        }
    }

    /// What was touched, and which writes were refused.
    pub(super) fn finish(self) -> (Touched, Vec<PathBuf>) {
        (self.touched, self.refusals.finish())
    }
}

/// Collects what a call may change.
fn note(
    touched: &mut TouchedPaths,
    notice: &Notice,
    own_mounts: Option<&Path>,
) -> Result<(), Doubt> {
    let process = PathBuf::from(format!("/proc/{}", notice.thread));
    // With another root or mount namespace, paths have another meaning.
    let root = fs::read_link(process.join("root")).map_err(|_| Doubt::Unreadable)?;
    let mounts = fs::read_link(process.join("ns/mnt")).ok();
    if !notice.is_native || root != Path::new("/") || mounts.as_deref() != own_mounts {
        return Err(Doubt::OtherPlace);
    }
    if matches!(notice.number, libc::SYS_mount | libc::SYS_move_mount) {
        return Err(Doubt::OtherPlace);
    }
    let memory = process.join("mem");
    let memory = open(&memory, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|_| Doubt::Unreadable)?;
    if replaces_root(notice, &memory) {
        return Err(Doubt::OtherPlace);
    }
    note_native(touched, notice, &process, &memory).ok_or(Doubt::Unreadable)
}

/// Whether the paths of a call begin at a root of its own.
fn replaces_root(notice: &Notice, memory: &OwnedFd) -> bool {
    let resolve = notice.arguments.get(2).and_then(|how| how.checked_add(16));
    notice.number == libc::SYS_openat2
        && resolve
            .and_then(|address| word(memory, address))
            .is_some_and(|resolve| resolve & RESOLVE_IN_ROOT != 0)
}

/// The same for a process with our architecture and namespace; `None` when it cannot be read.
fn note_native(
    touched: &mut TouchedPaths,
    notice: &Notice,
    process: &Path,
    memory: &OwnedFd,
) -> Option<()> {
    match act(notice, memory)? {
        Act::None => {}
        Act::Change(place) => {
            record(touched, notice, process, memory, place)?;
        }
        Act::Remove(place) => {
            let path = record(touched, notice, process, memory, place)?;
            if let Ok(file) = fs::symlink_metadata(&path)
                && !file.is_dir()
            {
                touched.note_removed(path, FileTime::of_birth(&file));
            }
        }
        Act::Move(from, to) => {
            let paths = [
                record(touched, notice, process, memory, from)?,
                record(touched, notice, process, memory, to)?,
            ];
            if let [from, _] = &paths
                && let Ok(file) = fs::symlink_metadata(from)
            {
                touched.note_removed(from.clone(), FileTime::of_birth(&file));
            }
            // Moving a folder moves everything in it.
            let is_tree = paths
                .iter()
                .any(|path| fs::symlink_metadata(path).is_ok_and(|file| file.is_dir()));
            if is_tree {
                touched.trees.extend(paths);
            }
        }
    }
    Some(())
}

/// What a call does; `None` when that is unknown.
fn act(notice: &Notice, memory: &OwnedFd) -> Option<Act> {
    use Last::{Followed, Itself};
    let at = |folder, text, last| PathArguments {
        folder: Some(folder),
        text: Some(text),
        last,
    };
    let here = |text, last| PathArguments {
        folder: None,
        text: Some(text),
        last,
    };
    #[cfg(target_arch = "x86_64")]
    match notice.number {
        libc::SYS_open | libc::SYS_creat | libc::SYS_chmod => {
            return Some(Act::Change(here(0, Followed)));
        }
        libc::SYS_rmdir | libc::SYS_mkdir | libc::SYS_mknod => {
            return Some(Act::Change(here(0, Itself)));
        }
        libc::SYS_unlink => return Some(Act::Remove(here(0, Itself))),
        libc::SYS_link | libc::SYS_symlink => return Some(Act::Change(here(1, Itself))),
        libc::SYS_rename => return Some(Act::Move(here(0, Itself), here(1, Itself))),
        _ => {}
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if notice.number == libc::SYS_renameat {
        return Some(Act::Move(at(0, 1, Itself), at(2, 3, Itself)));
    }
    Some(match notice.number {
        libc::SYS_renameat2 => Act::Move(at(0, 1, Itself), at(2, 3, Itself)),
        libc::SYS_openat | libc::SYS_fchmodat | SYS_FCHMODAT2 => Act::Change(at(0, 1, Followed)),
        libc::SYS_openat2 => {
            if seccomp::is_writing(word(memory, *notice.arguments.get(2)?)?) {
                Act::Change(at(0, 1, Followed))
            } else {
                Act::None
            }
        }
        libc::SYS_truncate => Act::Change(here(0, Followed)),
        libc::SYS_unlinkat => Act::Remove(at(0, 1, Itself)),
        libc::SYS_mkdirat | libc::SYS_mknodat => Act::Change(at(0, 1, Itself)),
        libc::SYS_fchmod => Act::Change(PathArguments {
            folder: Some(0),
            text: None,
            last: Followed,
        }),
        libc::SYS_symlinkat => Act::Change(at(1, 2, Itself)),
        libc::SYS_linkat => Act::Change(at(2, 3, Itself)),
        _ => return None,
    })
}

/// Records the path that a call means, as its process sees it; returns it without following its
/// last part.
fn record(
    touched: &mut TouchedPaths,
    notice: &Notice,
    process: &Path,
    memory: &OwnedFd,
    place: PathArguments,
) -> Option<PathBuf> {
    let path = match place.text {
        Some(argument) => read_path(memory, *notice.arguments.get(argument)?)?,
        None => PathBuf::new(),
    };
    let descriptor = place
        .folder
        .map(|argument| number(notice, argument))
        .filter(|fd| *fd != libc::AT_FDCWD);
    let start = match descriptor {
        Some(descriptor) => PathBuf::from(format!("fd/{descriptor}")),
        None => PathBuf::from("cwd"),
    };
    PathWalk::new(notice.thread, process, touched).record(&start, &path, place.last)
}

/// An argument as an `int`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the kernel looks at no more of it"
)]
fn number(notice: &Notice, argument: usize) -> i32 {
    notice.arguments.get(argument).copied().unwrap_or_default() as u32 as i32
}

/// Reads a number from the memory of a process.
fn word(memory: &OwnedFd, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let length = pread(memory, &mut bytes, address).ok()?;
    (length == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

/// Reads a path from the memory of a process.
fn read_path(memory: &OwnedFd, address: u64) -> Option<PathBuf> {
    let mut bytes = vec![0; 4096];
    let length = pread(memory, &mut bytes, address).ok()?;
    bytes.truncate(length);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    Some(PathBuf::from(OsString::from_vec(bytes)))
}
