//! Writing what an item step came to.
//!
//! Every folder on the way is opened without following links, so that nothing outside of `.ai/` is ever
//! reached; each file appears whole, under its own name, by a rename. The user's `~/.ai` itself may
//! be a link: people keep their items elsewhere. A project's may not.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{self as system, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Home, ItemStepError, Write};
use crate::context::{Context, ITEMS};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A file on its way; always the same name, so that what a death left is gone with the next write there.
const UNFINISHED: &str = ".piton-unfinished.tmp";

/// Writes and removes files, in order; stops at the first that cannot be.
pub(in crate::run) fn apply(ctx: &Context, writes: &[Write]) -> Result<(), ItemStepError> {
    for write in writes {
        let names = names(&write.path).ok_or_else(|| ItemStepError::Outside(write.path.clone()))?;
        one(ctx, write, &names).map_err(|errno| match errno {
            Failure::NoHome => ItemStepError::NoHome,
            Failure::System(source) => ItemStepError::Unwritable { path: write.path.clone(), source },
        })?;
    }
    Ok(())
}

/// Why a file was not written.
enum Failure {
    NoHome,
    System(io::Error),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

/// The folders and the name of a path below `.ai/`.
fn names(path: &Path) -> Option<Vec<&OsStr>> {
    let names: Option<Vec<&OsStr>> = path
        .components()
        .map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    names.filter(|names| names.len() > 1 && names.first() == Some(&OsStr::new(ITEMS)))
}

fn one(ctx: &Context, write: &Write, names: &[&OsStr]) -> Result<(), Failure> {
    let Some((name, folders)) = names.split_last() else { return Ok(()) };
    let (top, is_linked) = match write.home {
        Home::Project => (&ctx.root, OFlags::NOFOLLOW),
        Home::User => (ctx.home.as_ref().ok_or(Failure::NoHome)?, OFlags::empty()),
    };
    let mut folder = system::open(top.as_path(), FOLDER, Mode::empty())?;
    for (depth, part) in folders.iter().enumerate() {
        let flags = FOLDER | if depth == 0 { is_linked } else { OFlags::NOFOLLOW };
        folder = match system::openat(&folder, *part, flags, Mode::empty()) {
            Err(Errno::NOENT) if write.content.is_some() => {
                match system::mkdirat(&folder, *part, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                system::openat(&folder, *part, flags, Mode::empty())?
            }
            // What lies in a folder that does not exist is removed already.
            Err(Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
    }
    match &write.content {
        Some(content) => replace(&folder, name, content, write.executable),
        None => match system::unlinkat(&folder, *name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        },
    }
}

fn replace(folder: &OwnedFd, name: &OsStr, content: &[u8], executable: bool) -> Result<(), Failure> {
    let present = system::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let present = present.filter(|found| system::FileType::from_raw_mode(found.st_mode).is_file());
    let mode = Mode::from_raw_mode(if executable { 0o777 } else { 0o666 });
    // One that is there is from a process that was killed: the lock of the worktree lets in one at a time.
    let _ = system::unlinkat(folder, UNFINISHED, AtFlags::empty());
    let mut file = File::from(system::openat(folder, UNFINISHED, NEW_FILE, mode)?);
    let mut finish = || {
        file.write_all(content)?;
        if let Some(found) = present {
            system::fchmod(&file, Mode::from_raw_mode(found.st_mode & 0o7777))?;
        }
        file.sync_all()?;
        Ok(system::renameat(folder, UNFINISHED, folder, name)?)
    };
    finish().map_err(|err| {
        let _ = system::unlinkat(folder, UNFINISHED, AtFlags::empty());
        Failure::System(err)
    })
}
