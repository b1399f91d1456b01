//! A split index: a small file with changes, linked to a shared file with the other entries.
//!
//! The extension `link` names the shared file by its checksum, and has two compressed bitmaps
//! (EWAH) of its deleted and replaced entries. Replacements come first in the small file, without a
//! path. Piton writes one full file; git splits it again when needed.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::super::error::CheckpointError;
use super::super::object::{ObjectFormat, ObjectId};
use super::parse::{BrokenIndex, take, torn};
use super::{Index, IndexEntry};

/// More entries than any index has: they do not fit into four gigabytes.
const MOST: u64 = 1 << 27;

/// The link from the small file to the shared one.
#[derive(Debug)]
pub(super) struct SharedIndexLink {
    shared: ObjectId,
    deleted: Vec<Range<usize>>,
    replaced: Vec<Range<usize>>,
}

impl SharedIndexLink {
    /// Parses the extension; `None` if there is no shared file.
    pub(super) fn parse(
        mut data: &[u8],
        format: ObjectFormat,
    ) -> Result<Option<Self>, BrokenIndex> {
        let shared = format.take(&mut data).ok_or_else(torn)?;
        let (mut deleted, mut replaced) = (Vec::new(), Vec::new());
        if !data.is_empty() {
            deleted = take_bitmap(&mut data)?;
            replaced = take_bitmap(&mut data)?;
        }
        if !data.is_empty() {
            return Err(BrokenIndex::Invalid(
                "its link to a shared index is too long".into(),
            ));
        }
        Ok((!shared.is_zero()).then_some(Self {
            shared,
            deleted,
            replaced,
        }))
    }

    /// The full index, from the small file and the shared one beside it.
    pub(super) fn join(&self, path: &Path, own: &Index) -> Result<Index, CheckpointError> {
        let shared = shared_file(path, self.shared);
        let bytes = std::fs::read(&shared).map_err(CheckpointError::io("read", &shared))?;
        if !bytes.ends_with(self.shared.as_bytes()) {
            return Err(
                BrokenIndex::Invalid("it is not the one that the index links to".into())
                    .at(&shared),
            );
        }
        let base = Index::parse(&bytes, own.format).map_err(|broken| broken.at(&shared))?;
        self.joined(&base, own).map_err(|broken| broken.at(path))
    }

    fn joined(&self, base: &Index, own: &Index) -> Result<Index, BrokenIndex> {
        let mut kept: Vec<Option<IndexEntry>> = base.entries.iter().copied().map(Some).collect();
        let beyond =
            || BrokenIndex::Invalid("it changes entries that the shared index has not".into());
        let mut next = 0;
        for at in self.replaced.iter().cloned().flatten() {
            let place = kept.get_mut(at).ok_or_else(beyond)?;
            let entry = own.get(next).filter(|_| own.path(next).is_empty());
            *place = Some(
                *entry.ok_or_else(|| BrokenIndex::Invalid("a replaced entry is missing".into()))?,
            );
            next += 1;
        }
        for at in self.deleted.iter().cloned().flatten() {
            *kept.get_mut(at).ok_or_else(beyond)? = None;
        }
        let old = kept
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| Some((base.path(at), (*entry)?)));
        let new = own
            .entries(next..own.len())
            .map(|(path, entry)| (path, *entry));
        let (trees, resolved) = (own.trees.clone(), own.resolved.clone());
        let mut index = Index {
            layout: own.layout,
            trees,
            resolved,
            ..Index::empty(own.format)
        };
        let key = |(path, entry): &(&[u8], IndexEntry)| (path.to_vec(), entry.stage);
        let (mut old, mut new) = (old.peekable(), new.peekable());
        let mut last = None;
        loop {
            let (ours, theirs) = (new.peek().map(key), old.peek().map(key));
            let taken = match (&ours, &theirs) {
                (Some(one), Some(other)) if one == other => {
                    old.next();
                    new.next()
                }
                (Some(one), Some(other)) if one < other => new.next(),
                (Some(_), None) => new.next(),
                (_, Some(_)) => old.next(),
                (None, None) => break,
            };
            let Some((path, entry)) = taken else { break };
            let this = Some(key(&(path, entry)));
            if path.is_empty() || this <= last {
                return Err(BrokenIndex::Invalid("its entries are out of order".into()));
            }
            last = this;
            index
                .push(path, entry)
                .map_err(|_| BrokenIndex::Invalid("its paths are too long".into()))?;
        }
        Ok(index)
    }
}

/// The path of the shared file, beside the index.
fn shared_file(index: &Path, checksum: ObjectId) -> PathBuf {
    index.with_file_name(format!("sharedindex.{checksum}"))
}

/// Reads a compressed bitmap, as ranges of set bits.
fn take_bitmap(data: &mut &[u8]) -> Result<Vec<Range<usize>>, BrokenIndex> {
    let size = u64::from(u32::from_be_bytes(*take::<4>(data)?));
    let count = u32::from_be_bytes(*take::<4>(data)?);
    let mut words = Vec::new();
    for _ in 0..count {
        words.push(u64::from_be_bytes(*take::<8>(data)?));
    }
    // The position of the last marker: only a writer that appends needs it.
    take::<4>(data)?;
    let mut set: Vec<Range<usize>> = Vec::new();
    let mut bit = 0_u64;
    let mut words = words.into_iter();
    while let Some(marker) = words.next() {
        // A repeated bit, how many words of it, and how many literal words follow.
        let repeated = 64 * (marker >> 1 & 0xffff_ffff);
        if marker & 1 == 1 {
            add(&mut set, bit..bit + repeated, size)?;
        }
        bit += repeated;
        for _ in 0..marker >> 33 {
            let word = words.next().ok_or_else(torn)?;
            for place in (0..64).filter(|place| word >> place & 1 == 1) {
                add(&mut set, bit + place..bit + place + 1, size)?;
            }
            bit += 64;
        }
        if bit > MOST {
            return Err(torn());
        }
    }
    Ok(set)
}

/// Appends a range of bits. Bits beyond the size pad the last word.
fn add(set: &mut Vec<Range<usize>>, bits: Range<u64>, size: u64) -> Result<(), BrokenIndex> {
    let place = |bit: u64| usize::try_from(bit.min(size)).map_err(|_| torn());
    let bits = place(bits.start)?..place(bits.end)?;
    match set.last_mut() {
        Some(last) if last.end == bits.start => last.end = bits.end,
        _ if bits.is_empty() => {}
        _ => set.push(bits),
    }
    Ok(())
}
