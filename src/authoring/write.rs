//! Writes the planned files of items: all or none.
//!
//! Every folder is opened without following links, so that nothing outside of `.ai/` is ever
//! reached; each file appears complete, by a rename. The user's `~/.ai` itself may be a link,
//! because users keep their items elsewhere. A project's may not.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self as system, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::agent::require_project;
use super::{FileAccess, Home, ItemStepError, Write};
use crate::context::{Context, ITEMS};
use crate::failpoint::{fail, failpoint};
use crate::system_call::{open, openat};

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The prefix of temporary files. They are in `.ai` itself, where items are not read and stamps do
/// not cover them.
const UNFINISHED: &str = ".unfinished-";

/// Writes and removes files, in order. On the first failure the earlier files are restored, because
/// a snapshot does not cover all of them.
pub(crate) fn apply(ctx: &Context, writes: &[Write]) -> Result<(), ItemStepError> {
    require_project(ctx, writes)?;
    ctx.unreviewed
        .add(writes.iter().map(|write| match write.home {
            Home::Project => ctx.root.join(&write.path),
            Home::User => ctx.home.clone().unwrap_or_default().join(&write.path),
        }));
    let mut replaced = Vec::new();
    for write in writes {
        match fail("item-write")
            .map_err(WriteFailure::System)
            .and_then(|()| one(ctx, write))
        {
            Ok(old) => {
                replaced.push(old);
                failpoint("item-written");
            }
            Err(failure) => {
                if let WriteFailure::FolderStays { old, .. } = &failure {
                    replaced.push(Some(old.as_ref().clone()));
                }
                // Report the original failure, not errors of the restore.
                for old in replaced.iter().rev().flatten() {
                    let _ = one(ctx, old);
                }
                let shown = |path: &Path| match write.home {
                    Home::Project => path.to_path_buf(),
                    Home::User => Path::new("~").join(path),
                };
                let path = shown(&write.path);
                return Err(match failure {
                    WriteFailure::NoHome => ItemStepError::NoHome,
                    WriteFailure::Outside => ItemStepError::Outside(path),
                    WriteFailure::System(source) => ItemStepError::Unwritable { path, source },
                    WriteFailure::FolderStays { folder, source, .. } => ItemStepError::Unwritable {
                        path: shown(&folder),
                        source,
                    },
                });
            }
        }
    }
    Ok(())
}

/// Why a file was not written.
enum WriteFailure {
    NoHome,
    Outside,
    System(io::Error),
    /// The file was removed, and a folder that is empty now cannot be.
    FolderStays {
        folder: PathBuf,
        source: io::Error,
        /// What undoes the removal of the file.
        old: Box<Write>,
    },
}

impl From<Errno> for WriteFailure {
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

/// Writes or removes a file; returns the write that undoes it, if any. A failed write leaves no new
/// folder.
fn one(ctx: &Context, write: &Write) -> Result<Option<Write>, WriteFailure> {
    let names = names(&write.path).ok_or(WriteFailure::Outside)?;
    let (name, folders) = names.split_last().ok_or(WriteFailure::Outside)?;
    let (top, is_linked) = match write.home {
        Home::Project => (&ctx.root, OFlags::NOFOLLOW),
        Home::User => (
            ctx.home.as_ref().ok_or(WriteFailure::NoHome)?,
            OFlags::empty(),
        ),
    };
    let mut made = None;
    let done = in_folders(ctx, write, (top, is_linked), (folders, name), &mut made);
    if let (Err(_), Some(first)) = (&done, made) {
        // Report the first error, not one of the cleanup.
        let _ = remove_empty(top, folders, is_linked, first);
    }
    done
}

/// Writes or removes a file in folders; `made` is set to the first folder that was created.
fn in_folders(
    ctx: &Context,
    write: &Write,
    (top, is_linked): (&Path, OFlags),
    (folders, name): (&[&OsStr], &OsStr),
    made: &mut Option<usize>,
) -> Result<Option<Write>, WriteFailure> {
    let mut folder = open(top, FOLDER, Mode::empty())?;
    let mut items = None;
    for (depth, part) in folders.iter().enumerate() {
        let flags = FOLDER
            | if depth == 0 {
                is_linked
            } else {
                OFlags::NOFOLLOW
            };
        folder = match openat(&folder, *part, flags, Mode::empty()) {
            Err(Errno::NOENT) if write.content.is_some() => {
                match system::mkdirat(&folder, *part, Mode::from_raw_mode(0o777)) {
                    Ok(()) => {
                        made.get_or_insert(depth);
                    }
                    Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                openat(&folder, *part, flags, Mode::empty())?
            }
            // A file in a missing folder is already removed.
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        if items.is_none() {
            items = Some(folder.try_clone().map_err(WriteFailure::System)?);
        }
    }
    let old = present(&folder, name)?;
    let (content, access) = old.map_or((None, FileAccess::Plain), |(content, access)| {
        (Some(content), access)
    });
    let old = Write {
        content,
        access,
        ..write.clone()
    };
    match &write.content {
        Some(content) => {
            let draft = (
                items.as_ref().unwrap_or(&folder),
                format!("{UNFINISHED}{:032x}.tmp", ctx.random_bits()),
            );
            replace(&folder, name, content, write.access, &draft)?;
        }
        None => match system::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => {
                remove_empty(top, folders, is_linked, 1).map_err(|(folder, errno)| {
                    WriteFailure::FolderStays {
                        folder,
                        source: errno.into(),
                        old: Box::new(old.clone()),
                    }
                })?;
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        },
    }
    Ok(Some(old))
}

/// Removes empty folders after a removed file, from the `first` on, as git does. Fails with the
/// folder that the system does not remove.
fn remove_empty(
    top: &Path,
    folders: &[&OsStr],
    is_linked: OFlags,
    first: usize,
) -> Result<(), (PathBuf, Errno)> {
    for end in (first..folders.len()).rev() {
        let Some((name, way)) = folders.get(..=end).and_then(|folders| folders.split_last()) else {
            return Ok(());
        };
        let Ok(mut folder) = open(top, FOLDER, Mode::empty()) else {
            return Ok(());
        };
        for (depth, part) in way.iter().enumerate() {
            let flags = FOLDER
                | if depth == 0 {
                    is_linked
                } else {
                    OFlags::NOFOLLOW
                };
            let Ok(next) = openat(&folder, *part, flags, Mode::empty()) else {
                return Ok(());
            };
            folder = next;
        }
        match system::unlinkat(&folder, *name, AtFlags::REMOVEDIR) {
            Ok(()) => {}
            // A folder that is not empty, or a mount point, stays, and so do its parents.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR | Errno::BUSY) => {
                return Ok(());
            }
            Err(errno) => return Err((way.iter().chain([name]).collect(), errno)),
        }
    }
    Ok(())
}

/// The content and permission bits of a file; a link counts as missing.
fn present(folder: &OwnedFd, name: &OsStr) -> Result<Option<(Vec<u8>, FileAccess)>, WriteFailure> {
    match openat(
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
            File::from(file)
                .read_to_end(&mut content)
                .map_err(WriteFailure::System)?;
            Ok(Some((content, FileAccess::Exactly(found.st_mode & 0o777))))
        }
        Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes a temporary file and renames it, so that the file is complete or absent.
fn replace(
    folder: &OwnedFd,
    name: &OsStr,
    content: &[u8],
    access: FileAccess,
    (place, draft): &(&OwnedFd, String),
) -> Result<(), WriteFailure> {
    let present = system::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let present = present.filter(|found| system::FileType::from_raw_mode(found.st_mode).is_file());
    let exactly = match (access, present) {
        (FileAccess::Exactly(mode), _) => Some(mode),
        (FileAccess::Plain | FileAccess::Executable, found) => {
            found.map(|found| found.st_mode & 0o7777)
        }
    };
    let mode = Mode::from_raw_mode(if access == FileAccess::Executable {
        0o777
    } else {
        0o666
    });
    let mut file = File::from(openat(place, draft.as_str(), NEW_FILE, mode)?);
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
        WriteFailure::System(err)
    })
}
