//! Packs: many objects in one file, in git's format and without deltas.
//!
//! One file with an index replaces a file per object, so that storing, syncing and removing a
//! hundred thousand objects needs only a few system calls. git and libgit2 can read these packs.
//! [`Pack`] reads one, [`PackWriter`] writes one, [`Gathering`] decides whether objects go into a
//! pack or into separate files.

mod gather;
mod write;

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use flate2::read::ZlibDecoder;
use git2::ObjectType;

use super::object::{ObjectFormat, ObjectId};

pub(crate) use gather::{Gathered, Gathering};
pub(crate) use write::{PackWriter, Packed, pack_all};

/// From this number of objects on a pack is used. Each pack makes later lookups a little slower,
/// and a separate file can be shared with git by a hard link.
pub(crate) const MANY: usize = 100;

/// The prefix of piton's pack files. Git accepts any name.
pub(crate) const PREFIX: &str = "piton-";
/// The prefix of an unfinished pack. `git prune` removes such files when they are old.
pub(crate) const UNFINISHED: &str = "tmp_pack_";

const PACK_MAGIC: &[u8; 8] = b"PACK\0\0\0\x02";
const INDEX_MAGIC: &[u8; 8] = b"\xfftOc\0\0\0\x02";
/// An offset with this bit is an index into the table of large offsets.
const LARGE_OFFSET: u32 = 1 << 31;
const FANOUT: usize = 256 * 4;
/// The start of the tables of an index, which begin with the ids.
const NAMES_AT: usize = INDEX_MAGIC.len() + FANOUT;

/// How long the last check of a pack file is trusted.
const BELIEVED: Duration = Duration::from_mins(1);

/// A pack that piton wrote, with its index in memory.
#[derive(Debug)]
pub(crate) struct Pack {
    path: PathBuf,
    file: File,
    size: u64,
    index: Vec<u8>,
    count: usize,
    /// The format of its ids and checksums.
    format: ObjectFormat,
    /// The sorted start offsets of the objects, and the end of the last one.
    offsets: OnceLock<Vec<u64>>,
    looked_at: Mutex<Option<Instant>>,
}

impl Pack {
    /// Opens a pack by its `.idx` file; `None` if it is incomplete, for example after a power loss.
    pub(crate) fn open(index_path: &Path, format: ObjectFormat) -> Option<Self> {
        let name = format.size();
        let index = fs::read(index_path).ok()?;
        let path = index_path.with_extension("pack");
        let file = File::open(&path).ok()?;
        let size = file.metadata().ok()?.len();
        let (content, sum) = index.split_at_checked(index.len().checked_sub(name)?)?;
        let count = usize::try_from(number(content, NAMES_AT - 4)?).ok()?;
        let is_long_enough = content.len() >= NAMES_AT + count * (name + 4 + 4) + name;
        if !content.starts_with(INDEX_MAGIC)
            || !is_long_enough
            || format.digest(content).as_bytes() != sum
        {
            return None;
        }
        // The index repeats the checksum at the end of the pack; a truncated file has another end.
        let mut end = vec![0; name];
        file.read_exact_at(&mut end, size.checked_sub(name as u64)?)
            .ok()?;
        if content.get(content.len() - name..)? != end {
            return None;
        }
        let (offsets, looked_at) = (OnceLock::new(), Mutex::new(None));
        Some(Self {
            path,
            file,
            size,
            index,
            count,
            format,
            offsets,
            looked_at,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The size of the pack and its index.
    pub(crate) fn bytes(&self) -> u64 {
        self.size + self.index.len() as u64
    }

    /// Whether the file was checked recently. If not, the caller is about to check it.
    pub(crate) fn was_looked_at(&self) -> bool {
        let mut looked_at = self
            .looked_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_fresh = looked_at.is_some_and(|at| at.elapsed() < BELIEVED);
        if !is_fresh {
            *looked_at = Some(Instant::now());
        }
        is_fresh
    }

    /// Its objects, sorted by id.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ObjectId> + '_ {
        (0..self.count).filter_map(|at| self.id(at))
    }

    pub(crate) fn holds(&self, id: ObjectId) -> bool {
        self.find(id).is_some()
    }

    /// An object with its kind; `None` if it is missing or damaged.
    pub(crate) fn read(&self, id: ObjectId) -> Option<(ObjectType, Vec<u8>)> {
        decode(&self.raw(id)?)
    }

    /// The encoded bytes of an object, which can be copied to another pack.
    pub(crate) fn raw(&self, id: ObjectId) -> Option<Vec<u8>> {
        let offset = self.offset(self.find(id)?)?;
        let offsets = self.offsets.get_or_init(|| {
            let mut offsets: Vec<u64> = (0..self.count).filter_map(|at| self.offset(at)).collect();
            offsets.push(self.size.saturating_sub(self.format.size() as u64));
            offsets.sort_unstable();
            offsets
        });
        let end = offsets.get(offsets.partition_point(|begin| *begin <= offset))?;
        let mut bytes = vec![0; usize::try_from(end.checked_sub(offset)?).ok()?];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    fn id(&self, at: usize) -> Option<ObjectId> {
        self.format
            .take(&mut self.index.get(NAMES_AT + at * self.format.size()..)?)
    }

    /// The position of an object in the sorted ids.
    fn find(&self, id: ObjectId) -> Option<usize> {
        let first = usize::from(*id.as_bytes().first()?);
        let fanout = |at: usize| {
            number(&self.index, INDEX_MAGIC.len() + at * 4).and_then(|at| usize::try_from(at).ok())
        };
        let (mut low, mut high) = (
            if first == 0 { 0 } else { fanout(first - 1)? },
            fanout(first)?,
        );
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.id(middle)?.cmp(&id) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn offset(&self, at: usize) -> Option<u64> {
        let small_at = NAMES_AT + self.count * (self.format.size() + 4);
        let small = number(&self.index, small_at + at * 4)?;
        if small & LARGE_OFFSET == 0 {
            return Some(u64::from(small));
        }
        let large_at = small_at + self.count * 4 + usize::try_from(small & !LARGE_OFFSET).ok()? * 8;
        Some(u64::from_be_bytes(
            self.index.get(large_at..large_at + 8)?.try_into().ok()?,
        ))
    }
}

/// Decodes an object; `None` for a delta, which piton never writes.
fn decode(bytes: &[u8]) -> Option<(ObjectType, Vec<u8>)> {
    let mut at = 0;
    let first = *bytes.first()?;
    let kind = match (first >> 4) & 7 {
        1 => ObjectType::Commit,
        2 => ObjectType::Tree,
        3 => ObjectType::Blob,
        4 => ObjectType::Tag,
        _ => return None,
    };
    let mut size = u64::from(first & 0x0f);
    let mut shift = 4;
    while bytes.get(at)? & 0x80 != 0 {
        at += 1;
        size |= u64::from(bytes.get(at)? & 0x7f).checked_shl(shift)?;
        shift += 7;
    }
    let size = usize::try_from(size).ok()?;
    let mut data = Vec::with_capacity(size.min(1 << 24));
    ZlibDecoder::new(bytes.get(at + 1..)?)
        .read_to_end(&mut data)
        .ok()?;
    (data.len() == size).then_some((kind, data))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
