//! Reads an index file: versions 2 to 4, with every length checked and the checksum verified.
//!
//! Refuses what git refuses, and names unknown mandatory extensions. A split index is joined with
//! its shared part, and the folders of a sparse index are expanded to files, so that callers always
//! see a full index. The format is in `git help format-index`.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::super::error::CheckpointError;
use super::super::object::{FileMode, ObjectFormat};
use super::super::stat::Stat;
use super::sparse::FilesOf;
use super::split::SharedIndexLink;
use super::tree_cache::TreeCache;
use super::{EntryLayout, Index, IndexEntry, Stamp};

/// The bytes of an entry before its object id.
const NUMBERS: usize = 40;
/// The length in the flags that means "this or more".
const LONG: usize = 0xfff;
/// The mode of a folder in a sparse index.
const FOLDER: u32 = 0o040_000;
/// From this size on, the checksum is computed in a separate thread.
const LARGE: usize = 1 << 18;

impl Index {
    /// Loads an index file; a missing one is empty. `files_of` lists the files of a tree, for the
    /// folders of a sparse index.
    pub(crate) fn load(
        path: &Path,
        format: ObjectFormat,
        files_of: &FilesOf<'_>,
    ) -> Result<Self, CheckpointError> {
        let Some((bytes, stamp)) = read(path)? else {
            return Ok(Self::empty(format));
        };
        let mut parsed = parse(&bytes, format).map_err(|broken| broken.at(path))?;
        let is_folded = parsed.link.is_some() || !parsed.folders.is_empty();
        if let Some(link) = parsed.link.take() {
            parsed.index = link.join(path, &parsed.index)?;
        }
        let index = if parsed.folders.is_empty() {
            parsed.index
        } else {
            parsed.index.expanded(&parsed.folders, files_of)?
        };
        Ok(Self {
            stamp: Some(stamp),
            is_folded,
            ..index
        })
    }

    /// Parses an index file that is neither split nor sparse.
    pub(super) fn parse(bytes: &[u8], format: ObjectFormat) -> Result<Self, BrokenIndex> {
        let parsed = parse(bytes, format)?;
        let refuse = |feature, extension: &str| {
            Err(BrokenIndex::Unsupported {
                feature,
                extension: extension.to_owned(),
            })
        };
        match (parsed.link, parsed.folders.is_empty()) {
            (Some(_), _) => refuse("a split index", "link"),
            (None, false) => refuse("a sparse index", "sdir"),
            (None, true) => Ok(parsed.index),
        }
    }
}

/// The bytes of an index file and its identity; `None` if there is no file.
fn read(path: &Path) -> Result<Option<(Vec<u8>, Stamp)>, CheckpointError> {
    let unreadable = || CheckpointError::io("read", path);
    let mut options = OpenOptions::new();
    // Opening a pipe in its place must not block.
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(unreadable()(err)),
    };
    let found = file.metadata().map_err(unreadable())?;
    if !found.is_file() {
        return Err(CheckpointError::InvalidIndex {
            path: path.into(),
            reason: "it is not a file".into(),
        });
    }
    let mut bytes = Vec::with_capacity(
        usize::try_from(found.len())
            .unwrap_or_default()
            .saturating_add(1),
    );
    file.read_to_end(&mut bytes).map_err(unreadable())?;
    Ok(Some((bytes, Stamp::of(&found))))
}

/// The content of one file.
pub(super) struct Parsed {
    /// The entries. Those in `folders` are folders of a sparse index, regardless of their mode;
    /// with a `link` the first ones have no path.
    pub(super) index: Index,
    pub(super) folders: Vec<usize>,
    /// The shared part of a split index.
    pub(super) link: Option<SharedIndexLink>,
}

fn parse(bytes: &[u8], format: ObjectFormat) -> Result<Parsed, BrokenIndex> {
    let split = bytes
        .len()
        .checked_sub(format.size())
        .and_then(|at| bytes.split_at_checked(at));
    let Some((content, trailer)) = split else {
        return Err(BrokenIndex::Invalid(format!(
            "it is only {} bytes long",
            bytes.len()
        )));
    };
    let is_intact =
        || trailer.iter().all(|byte| *byte == 0) || format.digest(content).as_bytes() == trailer;
    let (is_intact, parsed) = if content.len() < LARGE {
        (is_intact(), parse_content(content, format))
    } else {
        rayon::join(is_intact, || parse_content(content, format))
    };
    // Report a truncated file as such, before other errors.
    if is_intact {
        parsed
    } else {
        Err(BrokenIndex::Invalid("its checksum does not match".into()))
    }
}

/// Why bytes are not a supported index.
#[derive(Debug)]
pub(super) enum BrokenIndex {
    Invalid(String),
    Unsupported {
        feature: &'static str,
        extension: String,
    },
}

impl BrokenIndex {
    pub(super) fn at(self, path: &Path) -> CheckpointError {
        match self {
            Self::Invalid(reason) => CheckpointError::InvalidIndex {
                path: path.into(),
                reason,
            },
            Self::Unsupported { feature, extension } => CheckpointError::Unsupported {
                feature,
                found: format!("`{}` (extension `{extension}`)", path.display()),
            },
        }
    }
}

fn parse_content(content: &[u8], format: ObjectFormat) -> Result<Parsed, BrokenIndex> {
    let mut rest = content;
    let header = take::<12>(&mut rest)?;
    let [magic, version, count] = [header[..4].as_ref(), &header[4..8], &header[8..]];
    if magic != b"DIRC" {
        return Err(BrokenIndex::Invalid("it does not begin with `DIRC`".into()));
    }
    let version = number(version);
    let layout = match version {
        2 | 3 => EntryLayout::Padded,
        4 => EntryLayout::Compressed,
        other => {
            return Err(BrokenIndex::Invalid(format!(
                "it has the unknown version {other}"
            )));
        }
    };
    let count = number(count) as usize;
    let fixed = fixed_size(format);
    if count > rest.len() / fixed || u32::try_from(content.len()).is_err() {
        return Err(BrokenIndex::Invalid(format!(
            "it cannot hold {count} entries"
        )));
    }
    let mut reader = IndexReader {
        format,
        entries: Vec::with_capacity(count),
        // Version 4 omits shared prefixes, so its arena grows beyond this.
        paths: Vec::with_capacity(rest.len() - count * fixed),
        ends: Vec::with_capacity(count),
        folders: Vec::new(),
        flaw: None,
        disorder: None,
    };
    for _ in 0..count {
        match layout {
            EntryLayout::Padded => reader.padded(&mut rest, version)?,
            EntryLayout::Compressed => reader.compressed(&mut rest)?,
        }
    }
    let Extensions {
        trees,
        resolved,
        link,
        has_folders,
    } = parse_extensions(rest, format)?;
    let stray = reader
        .folders
        .first()
        .filter(|_| !has_folders || link.is_some());
    let stray = stray.map(|_| format!("an entry has the mode {FOLDER:o}"));
    let IndexReader {
        entries,
        paths,
        ends,
        folders,
        flaw,
        disorder,
        ..
    } = reader;
    if let Some(flaw) = stray.or(flaw).or(disorder.filter(|_| link.is_none())) {
        return Err(BrokenIndex::Invalid(flaw));
    }
    Ok(Parsed {
        index: Index {
            format,
            layout,
            entries,
            paths,
            ends,
            trees,
            resolved,
            stamp: None,
            is_folded: false,
        },
        folders,
        link,
    })
}

/// The entries read so far.
struct IndexReader {
    format: ObjectFormat,
    entries: Vec<IndexEntry>,
    paths: Vec<u8>,
    ends: Vec<u32>,
    folders: Vec<usize>,
    /// The first error in the entries. It is reported after the extensions were read.
    flaw: Option<String>,
    /// The first error in their order. In a split index, entries without a path come first.
    disorder: Option<String>,
}

/// The part of an entry before its path.
struct Fixed {
    entry: IndexEntry,
    /// The length of the path, if it fits into the flags.
    length: Option<usize>,
    /// Its size in bytes.
    size: usize,
}

impl IndexReader {
    fn padded(&mut self, rest: &mut &[u8], version: u32) -> Result<(), BrokenIndex> {
        let fixed = self.fixed(rest)?;
        if version == 2 && fixed.size > fixed_size(self.format) {
            self.flaw("an entry has flags that version 2 does not know");
        }
        let path = match fixed.length {
            Some(length) => rest.get(..length).ok_or_else(torn)?,
            None => until_nul(rest)?,
        };
        if path.contains(&0) {
            self.flaw("a path has a wrong length");
        }
        // One to eight zero bytes end the path and pad the entry to a multiple of eight.
        let padding = 8 - (fixed.size + path.len()) % 8;
        let (padding, after) = rest
            .get(path.len()..)
            .and_then(|rest| rest.split_at_checked(padding))
            .ok_or_else(torn)?;
        if padding.iter().any(|byte| *byte != 0) {
            self.flaw("a path has a wrong length");
        }
        *rest = after;
        self.paths.extend_from_slice(path);
        self.finish(fixed.entry)
    }

    fn compressed(&mut self, rest: &mut &[u8]) -> Result<(), BrokenIndex> {
        let fixed = self.fixed(rest)?;
        let dropped = take_offset(rest)?;
        let before = self.path_range(self.entries.len());
        let Some(kept) = before.len().checked_sub(dropped) else {
            return Err(BrokenIndex::Invalid(
                "a path drops more than the one before has".into(),
            ));
        };
        let start = self.paths.len();
        self.paths
            .extend_from_within(before.start..before.start + kept);
        let added = until_nul(rest)?;
        self.paths.extend_from_slice(added);
        *rest = rest.get(added.len() + 1..).ok_or_else(torn)?;
        if fixed
            .length
            .is_some_and(|length| length != self.paths.len() - start)
        {
            self.flaw("a path has a wrong length");
        }
        self.finish(fixed.entry)
    }

    /// Reads the part before the path.
    fn fixed(&mut self, rest: &mut &[u8]) -> Result<Fixed, BrokenIndex> {
        let numbers = take::<NUMBERS>(rest)?;
        let mut fields = numbers
            .as_chunks::<4>()
            .0
            .iter()
            .map(|field| u32::from_be_bytes(*field));
        let mut field = || fields.next().unwrap_or_default();
        let changed = (field(), field());
        let modified = (field(), field());
        let (device, inode, bits, user, group, size) =
            (field(), field(), field(), field(), field(), field());
        let id = self.format.take(rest).ok_or_else(torn)?;
        let flags = u16::from_be_bytes(*take::<2>(rest)?);
        let second = if flags & 0x4000 == 0 {
            0
        } else {
            u16::from_be_bytes(*take::<2>(rest)?)
        };
        if second & 0x9fff != 0 {
            self.flaw("an entry has unknown flags");
        }
        let mode = FileMode::from_bits(bits).unwrap_or_else(|| {
            if bits == FOLDER {
                self.folders.push(self.entries.len());
            } else {
                self.flaw(&format!("an entry has the mode {bits:o}"));
            }
            FileMode::Regular
        });
        let entry = IndexEntry {
            stat: Stat {
                changed_seconds: changed.0,
                changed_nanos: changed.1,
                modified_seconds: modified.0,
                modified_nanos: modified.1,
                device,
                inode,
                user,
                group,
                size,
            },
            mode,
            id,
            stage: (flags >> 12 & 3).to_be_bytes()[1],
            assume_unchanged: flags & 0x8000 != 0,
            skip_worktree: second & 0x4000 != 0,
            intent_to_add: second & 0x2000 != 0,
        };
        let length = usize::from(flags) & LONG;
        let size = fixed_size(self.format) + if flags & 0x4000 == 0 { 0 } else { 2 };
        Ok(Fixed {
            entry,
            length: (length < LONG).then_some(length),
            size,
        })
    }

    /// Adds the entry whose path was just appended.
    fn finish(&mut self, entry: IndexEntry) -> Result<(), BrokenIndex> {
        let Ok(end) = u32::try_from(self.paths.len()) else {
            return Err(BrokenIndex::Invalid("its paths are too long".into()));
        };
        let at = self.entries.len();
        let before = self.path_range(at);
        self.ends.push(end);
        self.entries.push(entry);
        let is_folder = self.folders.last() == Some(&at);
        if is_folder && (!self.paths.ends_with(b"/") || !entry.skip_worktree || entry.stage != 0) {
            self.flaw("a folder is not outside of the sparse checkout");
        }
        let paths = [before, self.path_range(at + 1)]
            .map(|range| self.paths.get(range).unwrap_or_default());
        if paths[1].is_empty() {
            self.disorder("an entry has no path");
        } else if paths[0] >= paths[1] {
            // Only the sides of a conflict share a path, without a stage 0 beside them.
            let stage = at
                .checked_sub(1)
                .and_then(|before| self.entries.get(before))
                .map_or(0, |entry| entry.stage);
            if paths[0] > paths[1] {
                self.disorder("its entries are out of order");
            } else if stage == 0 || stage >= entry.stage {
                self.disorder("an entry is there twice");
            }
        }
        Ok(())
    }

    /// The range of the path of the previous entry.
    fn path_range(&self, at: usize) -> std::ops::Range<usize> {
        let end = |at: usize, back| {
            at.checked_sub(back)
                .and_then(|at| self.ends.get(at))
                .map_or(0, |end| *end as usize)
        };
        end(at, 2)..end(at, 1)
    }

    fn flaw(&mut self, what: &str) {
        self.flaw.get_or_insert_with(|| what.to_owned());
    }

    fn disorder(&mut self, what: &str) {
        self.disorder.get_or_insert_with(|| what.to_owned());
    }
}

/// The data after the entries.
#[derive(Default)]
struct Extensions {
    trees: Option<TreeCache>,
    resolved: Option<Vec<u8>>,
    link: Option<SharedIndexLink>,
    /// Whether entries may be folders.
    has_folders: bool,
}

fn parse_extensions(mut rest: &[u8], format: ObjectFormat) -> Result<Extensions, BrokenIndex> {
    let mut found = Extensions::default();
    while !rest.is_empty() {
        let name = take::<4>(&mut rest)?;
        let size = u32::from_be_bytes(*take::<4>(&mut rest)?) as usize;
        let (data, after) = rest.split_at_checked(size).ok_or_else(torn)?;
        rest = after;
        match name {
            b"TREE" => found.trees = TreeCache::parse(data, format),
            b"REUC" => found.resolved = Some(data.to_vec()),
            b"link" => found.link = SharedIndexLink::parse(data, format)?,
            b"sdir" => found.has_folders = true,
            // The other known extensions describe the old file; git recreates them.
            [b'A'..=b'Z', ..] => {}
            _ => {
                let feature = "an unknown extension of the index";
                return Err(BrokenIndex::Unsupported {
                    feature,
                    extension: name.escape_ascii().to_string(),
                });
            }
        }
    }
    Ok(found)
}

/// The size of an entry before its path, without the extended flags of version 3.
fn fixed_size(format: ObjectFormat) -> usize {
    NUMBERS + format.size() + 2
}

pub(super) fn take<'a, const SIZE: usize>(
    rest: &mut &'a [u8],
) -> Result<&'a [u8; SIZE], BrokenIndex> {
    let (taken, after) = rest.split_first_chunk().ok_or_else(torn)?;
    *rest = after;
    Ok(taken)
}

/// Reads a number in the encoding of pack offsets.
fn take_offset(rest: &mut &[u8]) -> Result<usize, BrokenIndex> {
    let mut value = 0_usize;
    loop {
        let [byte] = *take::<1>(rest)?;
        value |= usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        value = value
            .checked_add(1)
            .and_then(|value| value.checked_mul(128))
            .ok_or_else(torn)?;
    }
}

fn until_nul(bytes: &[u8]) -> Result<&[u8], BrokenIndex> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or_else(torn)?;
    bytes.get(..end).ok_or_else(torn)
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

pub(super) fn torn() -> BrokenIndex {
    BrokenIndex::Invalid("it ends in the middle".into())
}
