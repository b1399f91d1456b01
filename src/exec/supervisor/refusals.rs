//! Which writes the kernel refuses to a confined tool.
//!
//! A call is seen before it is executed, so that its answer is unknown. A call that would fail anyway,
//! such as `mkdir` for a folder that exists, is left out: programs make many of these.

use std::fs;
use std::path::{Path, PathBuf};

use super::seccomp::{Notice, SYS_FCHMODAT2};
use super::touched::TouchedPaths;
use crate::exec::isolation::Confinement;

/// How many paths are kept. A hint needs the first ones.
const MOST: usize = 32;

#[derive(Debug)]
pub(super) struct Refusals {
    confinement: Option<Confinement>,
    paths: Vec<PathBuf>,
}

/// Which state of a path lets a call do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Present,
    Absent,
    Either,
}

impl Refusals {
    pub(super) fn of(confinement: Option<&Confinement>) -> Self {
        Self {
            confinement: confinement.cloned(),
            paths: Vec::new(),
        }
    }

    /// Notes the paths of a call that waits.
    pub(super) fn note(&mut self, notice: &Notice, touched: &TouchedPaths) {
        let Some(confinement) = &self.confinement else {
            return;
        };
        let (wanted, follows) = wanted(notice);
        // Everything below `/dev` that is noted is shared memory, which may be written.
        let outside = touched
            .paths
            .iter()
            .filter(|path| !path.starts_with("/dev"));
        for path in outside {
            if self.paths.len() >= MOST {
                return;
            }
            let is_refused = confinement.refuses(path) && is_possible(path, wanted, follows);
            if is_refused && !self.paths.contains(path) {
                self.paths.push(path.clone());
            }
        }
    }

    pub(super) fn finish(self) -> Vec<PathBuf> {
        self.paths
    }
}

/// Whether a call could change a path if it was allowed to.
fn is_possible(path: &Path, wanted: Wanted, follows: bool) -> bool {
    let found = fs::symlink_metadata(path);
    let has_folder = || path.parent().is_some_and(Path::is_dir);
    match found {
        // The call changes the target, which is among the paths too.
        Ok(file) if follows && file.is_symlink() => false,
        Ok(_) => wanted != Wanted::Absent,
        Err(_) => wanted != Wanted::Present && has_folder(),
    }
}

/// What a call needs, and whether it follows a symlink at the end of its path.
fn wanted(notice: &Notice) -> (Wanted, bool) {
    let opened = |flags: usize| {
        let flags = notice.arguments.get(flags).copied().unwrap_or_default();
        let creates = flags & u64::from(libc::O_CREAT.unsigned_abs()) != 0;
        (
            if creates {
                Wanted::Either
            } else {
                Wanted::Present
            },
            true,
        )
    };
    #[cfg(target_arch = "x86_64")]
    match notice.number {
        libc::SYS_open => return opened(1),
        libc::SYS_creat => return (Wanted::Either, true),
        libc::SYS_chmod => return (Wanted::Present, true),
        libc::SYS_mkdir | libc::SYS_mknod | libc::SYS_link | libc::SYS_symlink => {
            return (Wanted::Absent, false);
        }
        libc::SYS_unlink | libc::SYS_rmdir => return (Wanted::Present, false),
        _ => {}
    }
    match notice.number {
        libc::SYS_openat => opened(2),
        libc::SYS_openat2 => (Wanted::Either, true),
        libc::SYS_truncate | libc::SYS_fchmodat | libc::SYS_fchmod | SYS_FCHMODAT2 => {
            (Wanted::Present, true)
        }
        libc::SYS_mkdirat | libc::SYS_mknodat | libc::SYS_linkat | libc::SYS_symlinkat => {
            (Wanted::Absent, false)
        }
        libc::SYS_unlinkat => (Wanted::Present, false),
        // A call that moves one path to the other.
        _ => (Wanted::Either, false),
    }
}
