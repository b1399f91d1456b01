//! Whether a path can be replaced or removed, as far as that can be told without trying.
//!
//! A refusal that is found here stops an undo before its first write. What is not found here (another user's file in
//! a sticky folder, a security module) shows when the file is written.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{self as system, Access, AtFlags, Mode};
use rustix::io::Errno;

use super::{FILE, FOLDER, WorkTree};
use crate::checkpoint::path::RepoPath;

impl WorkTree {
    /// Why a file cannot be put at a path or removed from it; none when nothing speaks against it.
    pub(crate) fn refusal(&self, path: &RepoPath) -> Option<io::Error> {
        let mut folder = self.fd.as_fd().try_clone_to_owned().ok()?;
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return locked_in(folder.as_fd(), name).or_else(|| refused_in(folder.as_fd()));
            }
            match system::openat(&folder, OsStr::from_bytes(name), FOLDER, Mode::empty()) {
                Ok(next) => folder = next,
                // It is going to be made in the last folder that is there; a link in its place is found by others.
                Err(Errno::NOENT) => return refused_in(folder.as_fd()),
                Err(_) => return None,
            }
        }
        None
    }
}

/// Why what a folder holds under a name cannot be replaced or removed.
pub(super) fn locked_in(folder: BorrowedFd<'_>, name: &[u8]) -> Option<io::Error> {
    let file = system::openat(folder, OsStr::from_bytes(name), FILE, Mode::empty()).ok()?;
    locked(file.as_fd())
}

/// Why nothing can be made, replaced or removed in a folder.
pub(super) fn refused_in(folder: BorrowedFd<'_>) -> Option<io::Error> {
    if let Some(locked) = locked(folder) {
        return Some(locked);
    }
    match system::accessat(folder, c".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty()) {
        Ok(()) => None,
        // The owner may open it, and piton does while it writes.
        Err(Errno::ACCESS) if is_own(folder) => None,
        Err(err) => Some(err.into()),
    }
}

fn is_own(folder: BorrowedFd<'_>) -> bool {
    system::fstat(folder).is_ok_and(|found| found.st_uid == rustix::process::geteuid().as_raw())
}

/// Whether `chattr` has locked a file or folder.
#[cfg(target_os = "linux")]
fn locked(file: BorrowedFd<'_>) -> Option<io::Error> {
    use system::IFlags;
    // File systems without such flags refuse the question.
    let flags = system::ioctl_getflags(file).ok()?;
    flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND).then(|| Errno::PERM.into())
}

#[cfg(not(target_os = "linux"))]
fn locked(_: BorrowedFd<'_>) -> Option<io::Error> {
    None
}
