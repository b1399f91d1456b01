//! Records which files the tool is about to change.
//!
//! For each system call that the kernel reports, the [`WriteMonitor`] reads its path from the caller's
//! memory, resolves it there, and lets the call continue. If anything cannot be determined,
//! everything is unknown for the rest of the work.

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::pread;

use super::Work;
use super::seccomp::{self, Notice, SYS_FCHMODAT2};
use super::touched::{Touched, TouchedLog, TouchedPaths, without_links};
use crate::checkpoint::attribution::Doubt;

/// How many symlinks in a row are followed.
const LINKS: usize = 16;

#[derive(Debug)]
pub(super) struct WriteMonitor {
    listener: Option<OwnedFd>,
    touched: Touched,
    own_mounts: Option<PathBuf>,
    within: Vec<PathBuf>,
    most: usize,
    log: Option<TouchedLog>,
}

/// How a call treats a symlink as the last part of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// It changes the link itself.
    Itself,
    /// It changes the target.
    Followed,
}

/// The arguments of a call that contain the folder descriptor and the path.
#[derive(Clone, Copy, Debug)]
struct Place {
    folder: Option<usize>,
    text: Option<usize>,
    last: Last,
}

/// What a call does to its paths.
#[derive(Clone, Copy, Debug)]
enum Act {
    None,
    /// It changes what is there.
    Change(Place),
    /// It moves one to the other, or exchanges them.
    Move(Place, Place),
}

impl WriteMonitor {
    /// Without a listener, everything stays unknown.
    pub(super) fn new(listener: Result<OwnedFd, Doubt>, work: &Work) -> Self {
        // A log that cannot be opened was deleted, which means that nothing is known.
        let log = work.log.as_ref().and_then(|path| TouchedLog::open(path).ok());
        let mut monitor = Self {
            listener: None,
            touched: Touched::Paths(TouchedPaths::default()),
            own_mounts: fs::read_link("/proc/self/ns/mnt").ok(),
            within: work.within.clone(),
            most: work.most_touched,
            log,
        };
        match listener {
            Ok(listener) => monitor.listener = Some(listener),
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
        let Some(listener) = &self.listener else { return };
        // The caller died before it could be read.
        let Ok(notice) = seccomp::next(listener) else { return };
        if let Touched::Paths(touched) = &mut self.touched {
            let mut fresh = TouchedPaths::default();
            let doubt = match note(&mut fresh, &notice, self.own_mounts.as_deref()) {
                Ok(()) => {
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

    pub(super) fn finish(self) -> Touched {
        self.touched
    }
}

/// Collects what a call may change.
fn note(touched: &mut TouchedPaths, notice: &Notice, own_mounts: Option<&Path>) -> Result<(), Doubt> {
    let process = PathBuf::from(format!("/proc/{}", notice.thread));
    // With another root or mount namespace, paths have another meaning.
    let root = fs::read_link(process.join("root")).map_err(|_| Doubt::Unreadable)?;
    let mounts = fs::read_link(process.join("ns/mnt")).ok();
    if !notice.is_native || root != Path::new("/") || mounts.as_deref() != own_mounts {
        return Err(Doubt::OtherPlace);
    }
    note_native(touched, notice, &process).ok_or(Doubt::Unreadable)
}

/// The same for a process with our architecture and namespace; `None` when it cannot be read.
fn note_native(touched: &mut TouchedPaths, notice: &Notice, process: &Path) -> Option<()> {
    let memory = open(process.join("mem"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    match act(notice, &memory)? {
        Act::None => {}
        Act::Change(place) => add(touched, resolve(notice, process, &memory, place)?, place.last, LINKS),
        Act::Move(from, to) => {
            let paths = [resolve(notice, process, &memory, from)?, resolve(notice, process, &memory, to)?];
            // Moving a folder moves everything in it.
            let is_tree = paths.iter().any(|path| fs::symlink_metadata(path).is_ok_and(|file| file.is_dir()));
            for path in paths {
                if is_tree {
                    touched.trees.insert(without_links(&path));
                }
                add(touched, path, Last::Itself, LINKS);
            }
        }
    }
    Some(())
}

/// What a call does; `None` when that is unknown.
fn act(notice: &Notice, memory: &OwnedFd) -> Option<Act> {
    use Last::{Followed, Itself};
    let at = |folder, text, last| Place { folder: Some(folder), text: Some(text), last };
    let here = |text, last| Place { folder: None, text: Some(text), last };
    #[cfg(target_arch = "x86_64")]
    match notice.number {
        libc::SYS_open | libc::SYS_creat | libc::SYS_chmod => return Some(Act::Change(here(0, Followed))),
        libc::SYS_unlink | libc::SYS_rmdir | libc::SYS_mkdir | libc::SYS_mknod => {
            return Some(Act::Change(here(0, Itself)));
        }
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
            let mut flags = [0; 8];
            let length = pread(memory, &mut flags, *notice.arguments.get(2)?).ok()?;
            match seccomp::is_writing(u64::from_ne_bytes(flags)) {
                true => Act::Change(at(0, 1, Followed)),
                false if length == flags.len() => Act::None,
                false => return None,
            }
        }
        libc::SYS_truncate => Act::Change(here(0, Followed)),
        libc::SYS_unlinkat | libc::SYS_mkdirat | libc::SYS_mknodat => Act::Change(at(0, 1, Itself)),
        libc::SYS_fchmod => Act::Change(Place { folder: Some(0), text: None, last: Followed }),
        libc::SYS_symlinkat => Act::Change(at(1, 2, Itself)),
        libc::SYS_linkat => Act::Change(at(2, 3, Itself)),
        _ => return None,
    })
}

/// The absolute path that a call means, as its process sees it.
fn resolve(notice: &Notice, process: &Path, memory: &OwnedFd, place: Place) -> Option<PathBuf> {
    let path = match place.text {
        Some(argument) => read_path(memory, *notice.arguments.get(argument)?)?,
        None => PathBuf::new(),
    };
    // `/proc/self` means the process, not its supervisor.
    let own = [
        ("/proc/self", ""),
        ("/proc/thread-self", ""),
        ("/dev/fd", "fd"),
        ("/dev/stdin", "fd/0"),
        ("/dev/stdout", "fd/1"),
        ("/dev/stderr", "fd/2"),
    ];
    for (name, below) in own {
        if let Ok(rest) = path.strip_prefix(name) {
            return Some(process.join(below).join(rest));
        }
    }
    if path.is_absolute() {
        return Some(path);
    }
    let descriptor = place.folder.map(|argument| number(notice, argument)).filter(|fd| *fd != libc::AT_FDCWD);
    let base = match descriptor {
        Some(descriptor) => process.join("fd").join(descriptor.to_string()),
        None => process.join("cwd"),
    };
    // With an invalid descriptor the call will fail, so the path does not matter.
    let base = fs::read_link(base).unwrap_or_else(|_| PathBuf::from("/dev"));
    Some(if path.as_os_str().is_empty() { base } else { base.join(path) })
}

/// An argument as an `int`.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the kernel looks at no more of it")]
fn number(notice: &Notice, argument: usize) -> i32 {
    notice.arguments.get(argument).copied().unwrap_or_default() as u32 as i32
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

/// Adds a path, its link target, and its other names.
fn add(touched: &mut TouchedPaths, path: PathBuf, last: Last, links: usize) {
    let is_named = matches!(path.components().next_back(), Some(Component::Normal(_)));
    let path = if is_named { without_links(&path) } else { fs::canonicalize(&path).unwrap_or(path) };
    // Devices are not files of the project.
    if path.starts_with("/dev") && !path.starts_with("/dev/shm") {
        return;
    }
    if let Ok(file) = fs::symlink_metadata(&path) {
        if file.is_symlink() && last == Last::Followed && links > 0 {
            if let (Ok(target), Some(parent)) = (fs::read_link(&path), path.parent()) {
                add(touched, parent.join(target), last, links - 1);
            }
        } else if file.is_file() && file.nlink() > 1 {
            touched.inodes.insert((file.dev(), file.ino()));
        }
    }
    if !path.starts_with("/proc") {
        touched.paths.insert(path);
    }
}
