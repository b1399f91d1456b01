//! Serializes an index file as git does.

use super::{EntryLayout, Index, IndexEntry};

/// The length in the flags that means "this or more".
const LONG: u16 = 0xfff;

impl Index {
    /// The file in its original layout, with its checksum.
    ///
    /// It keeps the entries, the cached trees and the resolved conflicts. Extensions that describe
    /// the file itself or the work tree are dropped; git recreates them.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let has_more_flags = self.entries.iter().any(|entry| more_flags(entry) != 0);
        let version: u32 = match self.layout {
            EntryLayout::Compressed => 4,
            EntryLayout::Padded if has_more_flags => 3,
            EntryLayout::Padded => 2,
        };
        let mut out = Vec::with_capacity(
            self.paths.len() + self.entries.len() * (52 + self.format.size()) + 4096,
        );
        out.extend_from_slice(b"DIRC");
        out.extend_from_slice(&version.to_be_bytes());
        out.extend_from_slice(&length(self.entries.len()));
        let mut before: &[u8] = b"";
        for (path, entry) in self.entries(0..self.len()) {
            let start = out.len();
            write_fixed(&mut out, path, entry);
            match self.layout {
                EntryLayout::Padded => {
                    out.extend_from_slice(path);
                    let padding = 8 - (out.len() - start) % 8;
                    out.extend_from_slice([0; 8].get(..padding).unwrap_or_default());
                }
                EntryLayout::Compressed => {
                    let shared = shared_length(before, path);
                    write_offset(&mut out, before.len() - shared);
                    out.extend_from_slice(path.get(shared..).unwrap_or_default());
                    out.push(0);
                    before = path;
                }
            }
        }
        if let Some(trees) = &self.trees {
            write_extension(&mut out, *b"TREE", |out| trees.write(out));
        }
        if let Some(resolved) = &self.resolved {
            write_extension(&mut out, *b"REUC", |out| out.extend_from_slice(resolved));
        }
        let checksum = self.format.digest(&out);
        out.extend_from_slice(checksum.as_bytes());
        out
    }
}

/// The length of the common prefix of two paths; compares eight bytes at a time, because neighbours
/// share most.
fn shared_length(one: &[u8], two: &[u8]) -> usize {
    let chunks = one.as_chunks::<8>().0.iter().zip(two.as_chunks::<8>().0);
    let start = 8 * chunks.take_while(|(one, two)| one == two).count();
    let rest = one.iter().zip(two).skip(start);
    start + rest.take_while(|(one, two)| one == two).count()
}

/// Writes the part before the path.
fn write_fixed(out: &mut Vec<u8>, path: &[u8], entry: &IndexEntry) {
    let stat = &entry.stat;
    let fields = [
        stat.changed_seconds,
        stat.changed_nanos,
        stat.modified_seconds,
        stat.modified_nanos,
        stat.device,
        stat.inode,
        entry.mode.bits(),
        stat.user,
        stat.group,
        stat.size,
    ];
    let mut bytes = [0; 40];
    for (place, field) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(fields) {
        *place = field.to_be_bytes();
    }
    let more = more_flags(entry);
    let mut flags =
        u16::try_from(path.len()).unwrap_or(LONG).min(LONG) | u16::from(entry.stage & 3) << 12;
    if more != 0 {
        flags |= 0x4000;
    }
    if entry.assume_unchanged {
        flags |= 0x8000;
    }
    out.extend_from_slice(&bytes);
    out.extend_from_slice(entry.id.as_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    if more != 0 {
        out.extend_from_slice(&more.to_be_bytes());
    }
}

/// The flags that version 2 lacks.
fn more_flags(entry: &IndexEntry) -> u16 {
    u16::from(entry.skip_worktree) << 14 | u16::from(entry.intent_to_add) << 13
}

/// Appends a number in the encoding of pack offsets: seven bits a byte, without redundancy.
fn write_offset(out: &mut Vec<u8>, number: usize) {
    let mut digits = [0_u8; 10];
    let mut rest = number;
    let mut start = digits.len();
    for place in digits.iter_mut().rev() {
        let is_last = start == 10;
        start -= 1;
        *place = (rest & 0x7f).to_le_bytes()[0] | if is_last { 0 } else { 0x80 };
        rest >>= 7;
        if rest == 0 {
            break;
        }
        rest -= 1;
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

fn write_extension(out: &mut Vec<u8>, name: [u8; 4], write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&name);
    let place = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let size = length(out.len() - place - 4);
    if let Some(place) = out.get_mut(place..place + 4) {
        place.copy_from_slice(&size);
    }
}

/// A length in the file. A longer one cannot have been read, and no edit is that large.
fn length(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes()
}
