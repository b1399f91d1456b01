//! Whether a path can be replaced or removed, as far as this can be known without trying.
//!
//! A refusal that is found here stops an undo before its first write. Other refusals (another
//! user's file in a sticky folder, a security module) are reported by the write.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{self as system, Access, AtFlags, Mode};
use rustix::io::Errno;

use super::{FILE, FOLDER, WorkTree};
use crate::checkpoint::path::RepoPath;
use crate::system_call::openat;

impl WorkTree {
    /// Why a file cannot be written or removed at a path; `None` if no reason is known.
    pub(crate) fn refusal(&self, path: &RepoPath) -> Option<io::Error> {
        let mut folder = self.fd.as_fd().try_clone_to_owned().ok()?;
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return locked_in(folder.as_fd(), name).or_else(|| refused_in(folder.as_fd()));
            }
            match openat(&folder, OsStr::from_bytes(name), FOLDER, Mode::empty()) {
                Ok(next) => folder = next,
                // It will be created in the last existing folder; other code detects a link in its
                // place.
                Err(Errno::NOENT) => return refused_in(folder.as_fd()),
                Err(_) => return None,
            }
        }
        None
    }
}

/// Why an entry of a folder cannot be replaced or removed.
pub(super) fn locked_in(folder: BorrowedFd<'_>, name: &[u8]) -> Option<io::Error> {
    let file = openat(folder, OsStr::from_bytes(name), FILE, Mode::empty()).ok()?;
    locked(file.as_fd())
}

/// Why nothing can be created, replaced or removed in a folder.
pub(super) fn refused_in(folder: BorrowedFd<'_>) -> Option<io::Error> {
    if let Some(locked) = locked(folder) {
        return Some(locked);
    }
    match system::accessat(
        folder,
        c".",
        Access::WRITE_OK | Access::EXEC_OK,
        AtFlags::empty(),
    ) {
        Ok(()) => None,
        // The owner may make it writable, and piton does so while it writes.
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
    // File systems without such flags return an error.
    let flags = system::ioctl_getflags(file).ok()?;
    flags
        .intersects(IFlags::IMMUTABLE | IFlags::APPEND)
        .then(|| Errno::PERM.into())
}

#[cfg(not(target_os = "linux"))]
fn locked(_: BorrowedFd<'_>) -> Option<io::Error> {
    None
}
