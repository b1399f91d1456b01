//! Lists the entries of one folder with their stat fields.

use std::ffi::{CStr, OsStr};
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, fstat, statat};
use rustix::io::Errno;

use super::super::ignore::PathKind;
use super::super::no_follow::PathState;
use crate::system_call::openat;

/// The entries, in the order of git's index: folders sort as if their names ended in `/`.
#[derive(Debug, Default)]
pub(super) struct FolderListing {
    /// The names, each with a trailing zero byte.
    names: Vec<u8>,
    pub(super) items: Vec<ListedEntry>,
}

#[derive(Debug)]
pub(super) struct ListedEntry {
    start: usize,
    end: usize,
    pub(super) found: ItemFound,
}

/// What an entry is.
#[derive(Debug)]
pub(super) enum ItemFound {
    /// A folder; the walk gets its details when it opens it.
    Folder,
    Other(PathState),
    /// It disappeared, or the walk does not need it.
    Nothing,
    /// The system returned an error.
    Failed(Errno),
}

/// From this number of entries on, a folder is split between threads.
const MANY: usize = 1024;

impl FolderListing {
    pub(super) fn read(folder: &OwnedFd) -> Result<Self, Errno> {
        let mut listing = Self::default();
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut entries = RawDir::new(folder, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // The folder was removed while it was read: treat it as empty.
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let start = listing.names.len();
            listing.names.extend_from_slice(name.to_bytes_with_nul());
            let found = match entry.file_type() {
                FileType::Directory => ItemFound::Folder,
                _ => ItemFound::Nothing,
            };
            listing.items.push(ListedEntry {
                start,
                end: listing.names.len() - 1,
                found,
            });
        }
        let names = &listing.names;
        let look = |item: &mut ListedEntry| {
            if matches!(item.found, ItemFound::Nothing) {
                item.found = look_at(folder, names, item);
            }
        };
        if listing.items.len() < MANY {
            listing.items.iter_mut().for_each(look);
        } else {
            listing
                .items
                .par_iter_mut()
                .with_min_len(MANY / 4)
                .for_each(look);
        }
        listing.items.sort_unstable_by(|a, b| {
            order((name_in(names, a), a.kind()), (name_in(names, b), b.kind()))
        });
        Ok(listing)
    }

    /// The name of an entry.
    pub(super) fn name(&self, item: &ListedEntry) -> &[u8] {
        name_in(&self.names, item)
    }

    /// The position of a folder, or of another entry, with this name.
    pub(super) fn find(&self, name: &[u8], kind: PathKind) -> Option<usize> {
        self.items
            .binary_search_by(|item| order((self.name(item), item.kind()), (name, kind)))
            .ok()
    }
}

impl ListedEntry {
    pub(super) fn kind(&self) -> PathKind {
        match self.found {
            ItemFound::Folder => PathKind::Folder,
            _ => PathKind::File,
        }
    }
}

/// The order of git's index among the entries of a folder.
pub(super) fn order(
    (a, a_kind): (&[u8], PathKind),
    (b, b_kind): (&[u8], PathKind),
) -> std::cmp::Ordering {
    let common = a.len().min(b.len());
    let next = |name: &[u8], kind| {
        name.get(common)
            .copied()
            .or((kind == PathKind::Folder).then_some(b'/'))
    };
    a.get(..common)
        .cmp(&b.get(..common))
        .then_with(|| next(a, a_kind).cmp(&next(b, b_kind)))
}

fn name_in<'n>(names: &'n [u8], item: &ListedEntry) -> &'n [u8] {
    names.get(item.start..item.end).unwrap_or_default()
}

fn look_at(folder: &OwnedFd, names: &[u8], item: &ListedEntry) -> ItemFound {
    let name = names
        .get(item.start..=item.end)
        .and_then(|name| CStr::from_bytes_with_nul(name).ok());
    match statat(folder, name.unwrap_or(c""), AtFlags::SYMLINK_NOFOLLOW)
        .map(|stat| PathState::of(&stat))
    {
        Ok(PathState::Folder { .. }) => ItemFound::Folder,
        Ok(found) => ItemFound::Other(found),
        Err(Errno::NOENT) => ItemFound::Nothing,
        Err(err) => ItemFound::Failed(err),
    }
}

/// The first bytes of a regular file in an open folder; `None` if it is no longer one.
pub(super) fn read_in(folder: &OwnedFd, name: &[u8], most: u64) -> Result<Option<Vec<u8>>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(
        folder.as_fd(),
        OsStr::from_bytes(name),
        flags,
        Mode::empty(),
    ) {
        Ok(file) => std::fs::File::from(file),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(err) => return Err(err),
    };
    if !matches!(PathState::of(&fstat(&file)?), PathState::File { .. }) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    match file.take(most).read_to_end(&mut bytes) {
        Ok(_) => Ok(Some(bytes)),
        Err(err) => Err(Errno::from_io_error(&err).unwrap_or(Errno::IO)),
    }
}
