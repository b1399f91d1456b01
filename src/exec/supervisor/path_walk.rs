//! Follows a path as another process sees it.
//!
//! The kernel follows most symlinks alike for every process. `/proc/self` and `/proc/thread-self` are
//! different: they lead to the process that looks. `/dev/fd` and many other names lead there. A
//! [`PathWalk`] goes from name to name and takes the caller's place at each of them, so that it does
//! not matter how a path gets there.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, openat2, statfs};
use rustix::process::getpid;

use super::touched::TouchedPaths;
use crate::exec::process::process_of_thread;

/// How many symlinks the kernel follows for one path.
const MOST_LINKS: usize = 40;

/// How a call treats a symlink as the last part of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// It changes the link itself.
    Itself,
    /// It changes the target.
    Followed,
}

/// Follows the paths of one call. It answers `None` when it cannot tell where a path leads.
#[derive(Debug)]
pub(super) struct PathWalk<'w> {
    thread: u32,
    process: &'w Path,
    touched: &'w mut TouchedPaths,
}

/// What a name in a folder is.
enum NameKind {
    /// A file, a folder, or nothing.
    Entry,
    /// A symlink with a text.
    Link(PathBuf),
    /// A link of `/proc` that leads to an open file or folder, not to a name.
    Open,
}

impl<'w> PathWalk<'w> {
    /// `process` is the folder of the thread in `/proc`.
    pub(super) fn new(thread: u32, process: &'w Path, touched: &'w mut TouchedPaths) -> Self {
        Self {
            thread,
            process,
            touched,
        }
    }

    /// Records what a path means, and its targets if the call follows them; returns its own name.
    /// The path starts at a link of the process in `/proc`, such as `cwd`, unless it is absolute.
    pub(super) fn record(&mut self, start: &Path, path: &Path, last: Last) -> Option<PathBuf> {
        let nowhere = PathBuf::from("/dev/null");
        let start = self.process.join(start);
        if path.as_os_str().is_empty() {
            let open = self.record_open(&start)?;
            return Some(open.unwrap_or(nowhere));
        }
        let from = if path.is_absolute() {
            Some(PathBuf::from("/"))
        } else {
            open_path(&start)?
        };
        // With an invalid descriptor the call fails, so the path does not matter.
        let Some(mut at) = from else {
            return Some(nowhere);
        };
        let mut own_name = None;
        let mut links_left = MOST_LINKS;
        let mut rest = Vec::new();
        if let Some(folder) = folder_without_links(&at, path)
            && let Some(name) = path.file_name()
        {
            at = folder;
            rest.push(PathPart::Name(name.to_owned()));
        } else {
            push(&mut rest, path);
        }
        while let Some(part) = rest.pop() {
            match part {
                PathPart::Root => at = PathBuf::from("/"),
                PathPart::Up => {
                    at.pop();
                }
                PathPart::Name(name) => {
                    let is_last = rest.is_empty();
                    let here = at.join(&name);
                    if is_last {
                        self.add(&here);
                        own_name.get_or_insert_with(|| here.clone());
                        if last == Last::Itself {
                            return own_name;
                        }
                    }
                    match self.find(&at, &name, &here)? {
                        NameKind::Entry => at = here,
                        NameKind::Link(target) => {
                            links_left = links_left.checked_sub(1)?;
                            push(&mut rest, &target);
                        }
                        NameKind::Open if is_last => {
                            self.record_open(&here)?;
                            return own_name;
                        }
                        NameKind::Open => match open_path(&here)? {
                            Some(folder) => at = folder,
                            None => return Some(nowhere),
                        },
                    }
                }
            }
        }
        if own_name.is_none() {
            self.add(&at);
        }
        own_name.or(Some(at))
    }

    /// What a name means to the caller.
    fn find(&self, folder: &Path, name: &OsStr, path: &Path) -> Option<NameKind> {
        let is_of_proc = || statfs(folder).is_ok_and(|system| system.f_type == PROC_SUPER_MAGIC);
        let target = match fs::read_link(path) {
            Ok(target) => target,
            // Other folders that this process cannot enter are closed to the caller too.
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied && is_of_proc() => {
                return None;
            }
            Err(_) => return Some(NameKind::Entry),
        };
        if !is_of_proc() {
            return Some(NameKind::Link(target));
        }
        // In the `/proc` of another process namespace, numbers have another meaning.
        let own = getpid().as_raw_nonzero();
        if name == "self" {
            let is_ours = target == Path::new(&own.to_string());
            let process = is_ours.then(|| process_of_thread(self.thread))??;
            return Some(NameKind::Link(process.to_string().into()));
        }
        if name == "thread-self" {
            let is_ours = target == Path::new(&format!("{own}/task/{own}"));
            let process = is_ours.then(|| process_of_thread(self.thread))??;
            return Some(NameKind::Link(
                format!("{process}/task/{}", self.thread).into(),
            ));
        }
        let is_of_process = folder.iter().any(|part| {
            let bytes = part.as_encoded_bytes();
            bytes.iter().all(u8::is_ascii_digit)
        });
        Some(if is_of_process {
            NameKind::Open
        } else {
            NameKind::Link(target)
        })
    }

    /// Records an open file that a link of `/proc` leads to; returns its name.
    #[expect(
        clippy::option_option,
        reason = "the file may be unknown, and it may have no name"
    )]
    fn record_open(&mut self, link: &Path) -> Option<Option<PathBuf>> {
        let Some(path) = open_path(link)? else {
            return Some(None);
        };
        if let Ok(file) = fs::metadata(link) {
            let is_there = fs::symlink_metadata(&path)
                .is_ok_and(|named| (named.dev(), named.ino()) == (file.dev(), file.ino()));
            // It was opened by a name that is gone, and may have others.
            if file.is_file() && !is_there && file.nlink() > 0 {
                self.touched.inodes.insert((file.dev(), file.ino()));
            }
        }
        self.add(&path);
        Some(Some(path))
    }

    /// Adds a path without symlinks on the way, and the other names of its file.
    fn add(&mut self, path: &Path) {
        // Devices and processes are not files of the project.
        if path.starts_with("/proc") || path.starts_with("/dev") && !path.starts_with("/dev/shm") {
            return;
        }
        if let Ok(file) = fs::symlink_metadata(path)
            && file.is_file()
            && file.nlink() > 1
        {
            self.touched.inodes.insert((file.dev(), file.ino()));
        }
        self.touched.paths.insert(path.to_path_buf());
    }
}

/// The folder of a path, if no symlink is on the way there: one system call instead of one for each
/// name. `None` if there is one, or if it is unknown.
fn folder_without_links(from: &Path, path: &Path) -> Option<PathBuf> {
    let goes_up = |part| matches!(part, Component::ParentDir);
    let folder = path.parent().filter(|_| !path.components().any(goes_up))?;
    if folder.as_os_str().is_empty() {
        return None;
    }
    let folder: PathBuf = from.join(folder).components().collect();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS;
    openat2(CWD, &folder, flags, Mode::empty(), resolve).ok()?;
    Some(folder)
}

/// One step of a path.
enum PathPart {
    Root,
    Up,
    Name(OsString),
}

/// Puts a path before the rest, which is in reverse order.
fn push(rest: &mut Vec<PathPart>, path: &Path) {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::RootDir => Some(PathPart::Root),
        Component::ParentDir => Some(PathPart::Up),
        Component::Normal(name) => Some(PathPart::Name(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    });
    rest.extend(parts);
}

/// The path of what a link of `/proc` has open. It is `Some(None)` for what has no path, such as a
/// pipe, and for a descriptor that is not open.
#[expect(
    clippy::option_option,
    reason = "the file may be unknown, and it may have no name"
)]
fn open_path(link: &Path) -> Option<Option<PathBuf>> {
    match fs::read_link(link) {
        Ok(path) if path.is_absolute() => Some(Some(path)),
        // It is not below the root of this process.
        Ok(path) if path.as_os_str().as_encoded_bytes().starts_with(b"(") => None,
        Ok(_) => Some(None),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Some(None),
        Err(_) => None,
    }
}
