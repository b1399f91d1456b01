//! Rows of bytes, in memory or read one by one from an open file.
//!
//! A search needs few rows of a stored index, so only those are read. Each has a checksum. A
//! corrupt row reads as empty and sets [`SearchRows::are_damaged`]: the caller must then discard its
//! result.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::bytes::{ByteReader, ByteWriter};

#[derive(Clone, Debug)]
pub(super) struct SearchRows {
    place: RowSource,
    are_damaged: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
enum RowSource {
    Held(Vec<u8>),
    // A file that replaces this one has another inode; the open one does not change.
    Kept(Arc<File>),
}

/// The position and checksum of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLocation {
    at: u64,
    length: u32,
    checksum: u32,
}

impl SearchRows {
    pub(super) fn held(bytes: Vec<u8>) -> Self {
        Self {
            place: RowSource::Held(bytes),
            are_damaged: Arc::default(),
        }
    }

    pub(super) fn kept(file: File) -> Self {
        Self {
            place: RowSource::Kept(Arc::new(file)),
            are_damaged: Arc::default(),
        }
    }

    /// The bytes of a row; empty if they are corrupt.
    pub(super) fn read(&self, row: RowLocation) -> Cow<'_, [u8]> {
        let found = match &self.place {
            RowSource::Held(bytes) => range(bytes, row.at, row.length).map(Cow::Borrowed),
            RowSource::Kept(file) => {
                read_range(file, row.at, u64::from(row.length)).map(Cow::Owned)
            }
        };
        found
            .filter(|bytes| checksum(bytes) == row.checksum)
            .unwrap_or_else(|| {
                self.are_damaged.store(true, Ordering::Relaxed);
                Cow::Borrowed(&[])
            })
    }

    /// Reads all rows into memory, up to `length`, for repeated searches.
    pub(super) fn hold(&mut self, length: u64) {
        if let RowSource::Kept(file) = &self.place
            && let Some(bytes) = read_range(file, 0, length)
        {
            self.place = RowSource::Held(bytes);
        }
    }

    /// Whether a requested row was corrupt.
    pub(super) fn are_damaged(&self) -> bool {
        self.are_damaged.load(Ordering::Relaxed)
    }

    /// All bytes, if they are in memory.
    pub(super) fn as_bytes(&self) -> &[u8] {
        match &self.place {
            RowSource::Held(bytes) => bytes,
            RowSource::Kept(_) => &[],
        }
    }
}

impl RowLocation {
    /// The size of its entry in a table.
    pub(super) const SIZE: u64 = 8 + 4 + 4;

    /// The row of what was written since a position.
    pub(super) fn since(position: u64, out: &ByteWriter) -> Self {
        let bytes = usize::try_from(position)
            .ok()
            .and_then(|at| out.0.get(at..))
            .unwrap_or_default();
        Self {
            at: position,
            length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            checksum: checksum(bytes),
        }
    }

    /// How many entries of a size it contains.
    pub(super) fn count(self, size: u32) -> u32 {
        self.length / size
    }

    pub(super) fn write(self, out: &mut ByteWriter) {
        out.number(self.at);
        out.0.extend(self.length.to_le_bytes());
        out.0.extend(self.checksum.to_le_bytes());
    }

    pub(super) fn from_table(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            at: reader.number()?,
            length: reader.count()?,
            checksum: reader.count()?,
        })
    }
}

/// Reads a part of a file completely, or `None`.
pub(super) fn read_range(file: &File, at: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

/// The checksum detects accidents, not attacks.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

fn range(bytes: &[u8], at: u64, length: u32) -> Option<&[u8]> {
    let (at, length) = (usize::try_from(at).ok()?, usize::try_from(length).ok()?);
    bytes.get(at..)?.get(..length)
}
