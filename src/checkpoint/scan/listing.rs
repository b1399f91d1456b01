//! The entries of one folder, with what the system says about each.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType, RawDir, statat};
use rustix::io::Errno;

use super::super::ignore::Kind;
use super::super::worktree::Found;

/// The entries, in the order of git's index: folders as if their names ended in `/`.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The names, each with a zero byte at its end.
    names: Vec<u8>,
    pub(super) items: Vec<Item>,
}

/// One entry.
#[derive(Debug)]
pub(super) struct Item {
    start: usize,
    end: usize,
    pub(super) found: ItemFound,
}

/// What an entry is.
#[derive(Debug)]
pub(super) enum ItemFound {
    /// A folder, as the listing said; the walk learns the rest when it opens it.
    Folder,
    /// Something else.
    Other(Found),
    /// It went away since, or the walk is not to look at it.
    Nothing,
    /// The system refused to say.
    Failed(Errno),
}

/// So many entries in one folder are worth several threads.
const MANY: usize = 1024;

impl Listing {
    /// Reads an open folder.
    pub(super) fn read(folder: &OwnedFd) -> Result<Self, Errno> {
        let mut listing = Self::default();
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut entries = RawDir::new(folder, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // The folder was removed while it was read: what is left of it is nothing.
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
            listing.items.push(Item { start, end: listing.names.len() - 1, found });
        }
        let names = &listing.names;
        let look = |item: &mut Item| {
            if matches!(item.found, ItemFound::Nothing) {
                item.found = look_at(folder, names, item);
            }
        };
        if listing.items.len() < MANY {
            listing.items.iter_mut().for_each(look);
        } else {
            listing.items.par_iter_mut().with_min_len(MANY / 4).for_each(look);
        }
        listing.items.sort_unstable_by(|a, b| order((name_in(names, a), a.kind()), (name_in(names, b), b.kind())));
        Ok(listing)
    }

    /// The name of an entry.
    pub(super) fn name(&self, item: &Item) -> &[u8] {
        name_in(&self.names, item)
    }

    /// Where a folder, or something else, of this name is.
    pub(super) fn find(&self, name: &[u8], kind: Kind) -> Option<usize> {
        self.items.binary_search_by(|item| order((self.name(item), item.kind()), (name, kind))).ok()
    }
}

impl Item {
    pub(super) fn kind(&self) -> Kind {
        match self.found {
            ItemFound::Folder => Kind::Folder,
            _ => Kind::File,
        }
    }
}

/// The order of git's index among the entries of a folder.
pub(super) fn order((a, a_kind): (&[u8], Kind), (b, b_kind): (&[u8], Kind)) -> std::cmp::Ordering {
    let common = a.len().min(b.len());
    let next = |name: &[u8], kind| name.get(common).copied().or((kind == Kind::Folder).then_some(b'/'));
    a.get(..common).cmp(&b.get(..common)).then_with(|| next(a, a_kind).cmp(&next(b, b_kind)))
}

fn name_in<'n>(names: &'n [u8], item: &Item) -> &'n [u8] {
    names.get(item.start..item.end).unwrap_or_default()
}

fn look_at(folder: &OwnedFd, names: &[u8], item: &Item) -> ItemFound {
    let name = names.get(item.start..=item.end).and_then(|name| CStr::from_bytes_with_nul(name).ok());
    match statat(folder, name.unwrap_or(c""), AtFlags::SYMLINK_NOFOLLOW).map(|stat| Found::of(&stat)) {
        Ok(Found::Folder { .. }) => ItemFound::Folder,
        Ok(found) => ItemFound::Other(found),
        Err(Errno::NOENT) => ItemFound::Nothing,
        Err(err) => ItemFound::Failed(err),
    }
}
