//! A cache of hashes that the user's index cannot provide: of untracked and changed files, and of
//! files that git converts.
//!
//! An invalid file counts as empty. Its format, all numbers big-endian: `PITONSC1`; seconds and
//! nanoseconds of the start of the scan; the number of entries; per entry nine stat fields, the
//! mode, the bytes of the id, the length of the path, the path; at the end the SHA-1 of all that.
//! `PITONSC2` begins a file with SHA-256 ids. Entries are sorted by path.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::super::error::CheckpointError;
use super::super::object::{FileMode, ObjectFormat, ObjectId};
use super::super::path::RepoPath;
use super::super::scratch;
use super::super::stat::Stat;
use crate::disk::create_private_folder;
use crate::system_call::open;

/// The magic number, by the format of the ids.
const MAGIC: [(ObjectFormat, &[u8; 8]); 2] = [
    (ObjectFormat::Sha1, b"PITONSC1"),
    (ObjectFormat::Sha256, b"PITONSC2"),
];
/// The sum at the end is a checksum and not an object id.
const SUM: ObjectFormat = ObjectFormat::Sha1;
/// A file of a million entries stays well below this.
const MAX_SIZE: u64 = 1 << 30;

/// The ids of hashed files, with their stat fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StatCache {
    /// When the scan began. A file that changed at that time or later may have changed again after
    /// it was read, with the same timestamp.
    began: (u32, u32),
    entries: Vec<CachedFile>,
}

#[derive(Debug, PartialEq, Eq)]
struct CachedFile {
    path: RepoPath,
    stat: Stat,
    mode: FileMode,
    id: ObjectId,
}

impl StatCache {
    /// An empty cache for a scan that begins now, by the clock of the file system.
    pub(crate) fn new(began: (u32, u32)) -> Self {
        Self {
            began,
            entries: Vec::new(),
        }
    }

    /// Reads a cache; empty if there is none or it is invalid.
    pub(crate) fn load(path: &Path) -> Self {
        read(path)
            .and_then(|bytes| Self::decode(&bytes))
            .unwrap_or_default()
    }

    /// Writes the cache, replacing the old one.
    pub(crate) fn store(&self, path: &Path) -> Result<(), CheckpointError> {
        let write = || {
            // The recovery removes leftovers of killed processes from this folder.
            let folder = path.parent().unwrap_or(Path::new(".")).join("tmp");
            create_private_folder(&folder)?;
            let mut file = tempfile::Builder::new()
                .prefix(&scratch::prefix())
                .tempfile_in(&folder)?;
            file.write_all(&self.encode())?;
            file.persist(path).map_err(|err| err.error)?;
            Ok(())
        };
        write().map_err(CheckpointError::io("write", path))
    }

    /// All files, with their stat fields and ids.
    pub(super) fn files(&self) -> impl Iterator<Item = (&RepoPath, &Stat, ObjectId)> {
        self.entries
            .iter()
            .map(|entry| (&entry.path, &entry.stat, entry.id))
    }

    /// The id of a file that has certainly not changed since it was hashed.
    pub(super) fn find(&self, path: &[u8], mode: FileMode, stat: &Stat) -> Option<ObjectId> {
        let at = self
            .entries
            .binary_search_by(|entry| entry.path.as_bytes().cmp(path))
            .ok()?;
        let entry = self.entries.get(at)?;
        let racy = (entry.stat.modified_seconds, entry.stat.modified_nanos) >= self.began;
        let same_kind = (entry.mode == FileMode::Symlink) == (mode == FileMode::Symlink);
        (!racy && same_kind && entry.stat == *stat).then_some(entry.id)
    }

    /// The stat fields of a file with this content, for an index with the time [`Self::began`]: git
    /// checks files that are not older than its index.
    pub(crate) fn stat_of(
        &self,
        path: &RepoPath,
        is_meant: impl Fn(ObjectId) -> bool,
    ) -> Option<Stat> {
        self.recorded(path)
            .filter(|(id, _)| self.began.0 > 0 && is_meant(*id))
            .map(|(_, stat)| stat)
    }

    /// The id of a file in the last scan, with its stat fields.
    pub(crate) fn recorded(&self, path: &RepoPath) -> Option<(ObjectId, Stat)> {
        let at = self
            .entries
            .binary_search_by(|entry| entry.path.cmp(path))
            .ok()?;
        self.entries.get(at).map(|entry| (entry.id, entry.stat))
    }

    /// When the scan began, in seconds and nanoseconds: older files that it found unchanged are
    /// unchanged.
    pub(crate) fn began(&self) -> (u32, u32) {
        self.began
    }

    /// Whether the file on disk serves the next scan as well as this cache would: `before` is part
    /// of that file, whose scan began at `stored`, and has every entry of this cache, not racy.
    pub(crate) fn adds_nothing_to(&self, before: &Self, stored: (u32, u32)) -> bool {
        self.entries.iter().all(|entry| {
            let stat = &entry.stat;
            (stat.modified_seconds, stat.modified_nanos) < stored
                && before
                    .entries
                    .binary_search_by(|other| other.path.cmp(&entry.path))
                    .is_ok_and(|at| before.entries.get(at) == Some(entry))
        })
    }

    /// Adds a hashed file.
    pub(super) fn push(&mut self, path: RepoPath, mode: FileMode, stat: Stat, id: ObjectId) {
        self.entries.push(CachedFile {
            path,
            stat,
            mode,
            id,
        });
    }

    /// Sorts the entries.
    pub(super) fn finish(&mut self) {
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
    }

    fn encode(&self) -> Vec<u8> {
        let format = self
            .entries
            .first()
            .map(|entry| entry.id.format())
            .unwrap_or_default();
        let magic = MAGIC.iter().find(|(known, _)| *known == format);
        let mut bytes = magic.map(|(_, magic)| magic.to_vec()).unwrap_or_default();
        let mut number = |value: u32| bytes.extend_from_slice(&value.to_be_bytes());
        number(self.began.0);
        number(self.began.1);
        number(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
        for entry in &self.entries {
            for value in fields(&entry.stat) {
                bytes.extend_from_slice(&value.to_be_bytes());
            }
            bytes.extend_from_slice(&entry.mode.bits().to_be_bytes());
            bytes.extend_from_slice(entry.id.as_bytes());
            let path = entry.path.as_bytes();
            bytes.extend_from_slice(&u32::try_from(path.len()).unwrap_or(u32::MAX).to_be_bytes());
            bytes.extend_from_slice(path);
        }
        let sum = SUM.digest(&bytes);
        bytes.extend_from_slice(sum.as_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM.size())?)?;
        if SUM.digest(content).as_bytes() != sum {
            return None;
        }
        let begins = |(format, magic): &(ObjectFormat, &[u8; 8])| {
            Some((*format, content.strip_prefix(*magic)?))
        };
        let (format, mut rest) = MAGIC.iter().find_map(begins)?;
        let began = (number(&mut rest)?, number(&mut rest)?);
        let count = number(&mut rest)?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let mut values = [0; 9];
            for value in &mut values {
                *value = number(&mut rest)?;
            }
            let mode = FileMode::from_bits(number(&mut rest)?)?;
            let id = format.take(&mut rest)?;
            let length = usize::try_from(number(&mut rest)?).ok()?;
            let path = RepoPath::from_bytes(take(&mut rest, length)?);
            entries.push(CachedFile {
                path,
                stat: stat_of(values),
                mode,
                id,
            });
        }
        let sorted = entries.is_sorted_by(|a: &CachedFile, b| a.path < b.path);
        (rest.is_empty() && sorted).then_some(Self { began, entries })
    }
}

fn fields(stat: &Stat) -> [u32; 9] {
    let Stat {
        changed_seconds,
        changed_nanos,
        modified_seconds,
        modified_nanos,
        device,
        inode,
        user,
        group,
        size,
    } = *stat;
    [
        changed_seconds,
        changed_nanos,
        modified_seconds,
        modified_nanos,
        device,
        inode,
        user,
        group,
        size,
    ]
}

fn stat_of(fields: [u32; 9]) -> Stat {
    let [
        changed_seconds,
        changed_nanos,
        modified_seconds,
        modified_nanos,
        device,
        inode,
        user,
        group,
        size,
    ] = fields;
    Stat {
        changed_seconds,
        changed_nanos,
        modified_seconds,
        modified_nanos,
        device,
        inode,
        user,
        group,
        size,
    }
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(take(rest, 4)?.try_into().ok()?))
}

fn take<'b>(rest: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    let mut bytes = Vec::new();
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_SIZE {
        return None;
    }
    file.take(MAX_SIZE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> StatCache {
        let mut cache = StatCache::new((100, 5));
        let stat = Stat {
            modified_seconds: 99,
            modified_nanos: 7,
            inode: 3,
            size: 4,
            ..Stat::default()
        };
        cache.push(
            "b".into(),
            FileMode::Executable,
            stat,
            ObjectId::empty_tree(ObjectFormat::Sha1),
        );
        cache.push(
            RepoPath::from_bytes(&b"a\n\xff"[..]),
            FileMode::Symlink,
            stat,
            ObjectId::zero(ObjectFormat::Sha1),
        );
        cache.push(
            "c".into(),
            FileMode::Regular,
            Stat {
                modified_seconds: 100,
                modified_nanos: 5,
                ..stat
            },
            ObjectId::zero(ObjectFormat::Sha1),
        );
        cache.finish();
        cache
    }

    #[test]
    fn a_cache_is_read_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("piton/index");
        assert_eq!(StatCache::load(&path), StatCache::default());
        sample().store(&path).unwrap();
        assert_eq!(StatCache::load(&path), sample());
        StatCache::default().store(&path).unwrap();
        assert_eq!(StatCache::load(&path), StatCache::default());
        // No temporary file remains.
        assert_eq!(
            std::fs::read_dir(folder.path().join("piton/tmp"))
                .unwrap()
                .count(),
            0
        );
    }

    #[test]
    fn a_cache_is_written_again_only_for_what_the_old_one_lacks() {
        let before = sample();
        let with = |entries: Vec<usize>, began| {
            let mut cache = StatCache::new(began);
            for at in entries {
                let CachedFile {
                    path,
                    mode,
                    stat,
                    id,
                } = &before.entries[at];
                cache.push(path.clone(), *mode, *stat, *id);
            }
            cache
        };
        let is_kept = |cache: &StatCache| cache.adds_nothing_to(&before, before.began());
        assert!(is_kept(&StatCache::new((200, 0))));
        assert!(is_kept(&with(vec![0, 1], (200, 0))));
        // The third was racy, and a later scan proves it.
        assert!(!is_kept(&with(vec![0, 1, 2], (200, 0))));
        let mut new = with(vec![0], (200, 0));
        new.entries[0].stat.size += 1;
        assert!(!is_kept(&new));
        new = with(vec![0], (200, 0));
        new.entries[0].path = "new".into();
        assert!(!is_kept(&new));
        // Nothing is on disk.
        assert!(!with(vec![0], (200, 0)).adds_nothing_to(&StatCache::default(), (0, 0)));
    }

    #[test]
    fn every_broken_byte_and_every_cut_is_noticed() {
        let bytes = sample().encode();
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert_eq!(StatCache::decode(&broken), None, "byte {at}");
            assert_eq!(StatCache::decode(&bytes[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn only_an_equal_stat_of_a_settled_file_is_an_answer() {
        let cache = sample();
        let stat = Stat {
            modified_seconds: 99,
            modified_nanos: 7,
            inode: 3,
            size: 4,
            ..Stat::default()
        };
        assert_eq!(
            cache.find(b"b", FileMode::Regular, &stat),
            Some(ObjectId::empty_tree(ObjectFormat::Sha1))
        );
        assert_eq!(cache.find(b"b", FileMode::Symlink, &stat), None);
        assert_eq!(
            cache.find(
                b"b",
                FileMode::Regular,
                &Stat {
                    changed_nanos: 1,
                    ..stat
                }
            ),
            None
        );
        assert_eq!(cache.find(b"x", FileMode::Regular, &stat), None);
        let racy = Stat {
            modified_seconds: 100,
            modified_nanos: 5,
            ..stat
        };
        assert_eq!(cache.find(b"c", FileMode::Regular, &racy), None);
    }
}
