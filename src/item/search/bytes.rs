//! Binary encoding of an index.
//!
//! Numbers are little-endian; texts and paths have their length before them. Reading never trusts a
//! length: data that does not fit gives `None`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::item::file_stat::{FileStat, Footprint};

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const UNKNOWN: u8 = 2;

#[derive(Debug, Default)]
pub(super) struct ByteWriter(pub(super) Vec<u8>);

impl ByteWriter {
    pub(super) fn position(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn short(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    /// A count; it always fits because the counted items are in memory.
    pub(super) fn count(&mut self, value: usize) {
        self.0
            .extend(u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
    }

    pub(super) fn number(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn signed(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn maybe(&mut self, value: Option<i64>) {
        self.byte(u8::from(value.is_some()));
        self.signed(value.unwrap_or_default());
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.count(value.len());
        self.0.extend(value);
    }

    pub(super) fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub(super) fn path(&mut self, value: &Path) {
        self.bytes(value.as_os_str().as_bytes());
    }

    pub(super) fn stat(&mut self, stat: &FileStat) {
        self.byte(match stat {
            FileStat::Absent => ABSENT,
            FileStat::Present(_) => PRESENT,
            FileStat::Unknown => UNKNOWN,
        });
        let Footprint {
            size,
            modified,
            changed,
            inode,
            device,
            mode,
        } = stat.footprint().copied().unwrap_or_default();
        self.number(size);
        self.signed(modified);
        self.signed(changed);
        self.number(inode);
        self.number(device);
        self.number(u64::from(mode));
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ByteReader<'b> {
    bytes: &'b [u8],
}

impl<'b> ByteReader<'b> {
    pub(super) fn at(bytes: &'b [u8], position: u64) -> Self {
        let rest = usize::try_from(position)
            .ok()
            .and_then(|position| bytes.get(position..));
        Self {
            bytes: rest.unwrap_or_default(),
        }
    }

    pub(super) fn range(&self, at: u32, length: u32) -> Option<&'b [u8]> {
        let (at, length) = (usize::try_from(at).ok()?, usize::try_from(length).ok()?);
        self.bytes.get(at..)?.get(..length)
    }

    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn short(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn count(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    #[expect(
        clippy::option_option,
        reason = "what is missing in the bytes is not what was left out on purpose"
    )]
    pub(super) fn maybe(&mut self) -> Option<Option<i64>> {
        let is_there = self.byte()? == 1;
        let value = self.signed()?;
        Some(is_there.then_some(value))
    }

    pub(super) fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.count()?).ok()?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Option<&'b str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(super) fn path(&mut self) -> Option<&'b Path> {
        self.bytes()
            .map(|bytes| Path::new(OsStr::from_bytes(bytes)))
    }

    pub(super) fn owned_path(&mut self) -> Option<PathBuf> {
        self.path().map(Path::to_path_buf)
    }

    pub(super) fn hash(&mut self) -> Option<[u8; 32]> {
        self.array()
    }

    pub(super) fn stat(&mut self) -> Option<FileStat> {
        let tag = self.byte()?;
        let footprint = Footprint {
            size: self.number()?,
            modified: self.signed()?,
            changed: self.signed()?,
            inode: self.number()?,
            device: self.number()?,
            mode: u32::try_from(self.number()?).ok()?,
        };
        match tag {
            ABSENT => Some(FileStat::Absent),
            PRESENT => Some(FileStat::Present(footprint)),
            _ => Some(FileStat::Unknown),
        }
    }
}
