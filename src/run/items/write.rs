//! Writing what was planned for items: all of it, or nothing.
//!
//! Every folder on the way is opened without following links, so that nothing outside of `.ai/` is ever
//! reached; each file appears whole, under its own name, by a rename. The user's `~/.ai` itself may
//! be a link: people keep their items elsewhere. A project's may not.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{self as system, AtFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::{Access, Home, ItemStepError, Write};
use crate::context::{Context, ITEMS};
use crate::failpoint::{fail, failpoint};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The beginning of the name of a file on its way. It lies in `.ai` itself, where nobody looks for items and no stamp
/// covers what a death leaves.
const UNFINISHED: &str = ".unfinished-";

/// Writes and removes files, in order. At the first that cannot be, those before it are put back: not everything
/// that is written here is covered by a snapshot.
pub(in crate::run) fn apply(ctx: &Context, writes: &[Write]) -> Result<(), ItemStepError> {
    let mut replaced = Vec::new();
    for write in writes {
        match fail("item-write").map_err(Failure::System).and_then(|()| one(ctx, write)) {
            Ok(old) => {
                replaced.push(old);
                failpoint("item-written");
            }
            Err(failure) => {
                // The failure that led here is what is reported.
                for old in replaced.iter().rev().flatten() {
                    let _ = one(ctx, old);
                }
                let path = match write.home {
                    Home::Project => write.path.clone(),
                    Home::User => Path::new("~").join(&write.path),
                };
                return Err(match failure {
                    Failure::NoHome => ItemStepError::NoHome,
                    Failure::Outside => ItemStepError::Outside(path),
                    Failure::System(source) => ItemStepError::Unwritable { path, source },
                });
            }
        }
    }
    Ok(())
}

/// Why a file was not written.
enum Failure {
    NoHome,
    Outside,
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

/// Writes or removes a file; returns what undoes that, if there is anything to undo. What cannot be written leaves no
/// folder either.
fn one(ctx: &Context, write: &Write) -> Result<Option<Write>, Failure> {
    let names = names(&write.path).ok_or(Failure::Outside)?;
    let (name, folders) = names.split_last().ok_or(Failure::Outside)?;
    let (top, is_linked) = match write.home {
        Home::Project => (&ctx.root, OFlags::NOFOLLOW),
        Home::User => (ctx.home.as_ref().ok_or(Failure::NoHome)?, OFlags::empty()),
    };
    let mut made = None;
    let done = in_folders(ctx, write, (top, is_linked), (folders, name), &mut made);
    if let (Err(_), Some(first)) = (&done, made) {
        remove_empty(top, folders, is_linked, first);
    }
    done
}

/// Writes or removes a file in folders; `made` is set to the first of them that had to be made.
fn in_folders(
    ctx: &Context,
    write: &Write,
    (top, is_linked): (&Path, OFlags),
    (folders, name): (&[&OsStr], &OsStr),
    made: &mut Option<usize>,
) -> Result<Option<Write>, Failure> {
    let mut folder = system::open(top, FOLDER, Mode::empty())?;
    let mut items = None;
    for (depth, part) in folders.iter().enumerate() {
        let flags = FOLDER | if depth == 0 { is_linked } else { OFlags::NOFOLLOW };
        folder = match system::openat(&folder, *part, flags, Mode::empty()) {
            Err(Errno::NOENT) if write.content.is_some() => {
                match system::mkdirat(&folder, *part, Mode::from_raw_mode(0o777)) {
                    Ok(()) => {
                        made.get_or_insert(depth);
                    }
                    Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                system::openat(&folder, *part, flags, Mode::empty())?
            }
            // What lies in a folder that does not exist is removed already.
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        if items.is_none() {
            items = Some(folder.try_clone().map_err(Failure::System)?);
        }
    }
    let old = present(&folder, name)?;
    match &write.content {
        Some(content) => {
            let draft = (items.as_ref().unwrap_or(&folder), format!("{UNFINISHED}{:032x}.tmp", ctx.random_bits()));
            replace(&folder, name, content, write.access, &draft)?;
        }
        None => match system::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => remove_empty(top, folders, is_linked, 1),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        },
    }
    let (content, access) = old.map_or((None, Access::Plain), |(content, access)| (Some(content), access));
    Ok(Some(Write { content, access, ..write.clone() }))
}

/// Removes the folders from the `first` on that a removed file leaves empty, as git does.
fn remove_empty(top: &Path, folders: &[&OsStr], is_linked: OFlags, first: usize) {
    for end in (first..folders.len()).rev() {
        let Some((name, way)) = folders.get(..=end).and_then(|folders| folders.split_last()) else { return };
        let Ok(mut folder) = system::open(top, FOLDER, Mode::empty()) else { return };
        for (depth, part) in way.iter().enumerate() {
            let flags = FOLDER | if depth == 0 { is_linked } else { OFlags::NOFOLLOW };
            let Ok(next) = system::openat(&folder, *part, flags, Mode::empty()) else { return };
            folder = next;
        }
        // One that is not empty stays, and so do those above it.
        if system::unlinkat(&folder, *name, AtFlags::REMOVEDIR).is_err() {
            return;
        }
    }
}

/// What a file holds now, and who may do what with it; a link counts as nothing.
fn present(folder: &OwnedFd, name: &OsStr) -> Result<Option<(Vec<u8>, Access)>, Failure> {
    match system::openat(
        folder,
        name,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(file) => {
            let found = system::fstat(&file)?;
            if !system::FileType::from_raw_mode(found.st_mode).is_file() {
                return Ok(None);
            }
            let mut content = Vec::new();
            File::from(file).read_to_end(&mut content).map_err(Failure::System)?;
            Ok(Some((content, Access::Exactly(found.st_mode & 0o777))))
        }
        Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes a file under another name and puts it in its place, so that it is there as a whole or not at all.
fn replace(
    folder: &OwnedFd,
    name: &OsStr,
    content: &[u8],
    access: Access,
    (place, draft): &(&OwnedFd, String),
) -> Result<(), Failure> {
    let present = system::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let present = present.filter(|found| system::FileType::from_raw_mode(found.st_mode).is_file());
    let exactly = match (access, present) {
        (Access::Exactly(mode), _) => Some(mode),
        (Access::Plain | Access::Executable, found) => found.map(|found| found.st_mode & 0o7777),
    };
    let mode = Mode::from_raw_mode(if access == Access::Executable { 0o777 } else { 0o666 });
    let mut file = File::from(retry_on_intr(|| system::openat(place, draft.as_str(), NEW_FILE, mode))?);
    let mut finish = || {
        file.write_all(content)?;
        if let Some(mode) = exactly {
            system::fchmod(&file, Mode::from_raw_mode(mode))?;
        }
        file.sync_all()?;
        failpoint("item-drafted");
        Ok(system::renameat(place, draft.as_str(), folder, name)?)
    };
    finish().map_err(|err| {
        let _ = system::unlinkat(place, draft.as_str(), AtFlags::empty());
        Failure::System(err)
    })
}
