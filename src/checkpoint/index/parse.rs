//! Reading an index file: versions 2 to 4, with every length checked and the checksum verified.
//!
//! What git would refuse is refused, and unknown mandatory extensions are refused by name. A split index is joined with
//! its shared part, the folders of a sparse index become the files in them: everything else sees a full index. The
//! format is in `git help format-index`.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::super::error::CheckpointError;
use super::super::object::{FileMode, ObjectFormat};
use super::super::stat::Stat;
use super::sparse::FilesOf;
use super::split::Link;
use super::tree_cache::TreeCache;
use super::{Index, IndexEntry, Layout, Stamp};

/// The bytes of an entry before the name of its content.
const NUMBERS: usize = 40;
/// The length in the flags that stands for "this or more".
const LONG: usize = 0xfff;
/// The mode of a folder in a sparse index.
const FOLDER: u32 = 0o040_000;
/// From this size on the checksum is worth a thread of its own.
const LARGE: usize = 1 << 18;

impl Index {
    /// Loads an index file; one that does not exist holds nothing. `files_of` lists the files of a tree: it is asked for the
    /// folders of a sparse index.
    pub(crate) fn load(path: &Path, format: ObjectFormat, files_of: &FilesOf<'_>) -> Result<Self, CheckpointError> {
        let Some((bytes, stamp)) = read(path)? else { return Ok(Self::empty(format)) };
        let mut parsed = parse(&bytes, format).map_err(|broken| broken.at(path))?;
        let is_folded = parsed.link.is_some() || !parsed.folders.is_empty();
        if let Some(link) = parsed.link.take() {
            parsed.index = link.join(path, &parsed.index)?;
        }
        let index =
            if parsed.folders.is_empty() { parsed.index } else { parsed.index.expanded(&parsed.folders, files_of)? };
        Ok(Self { stamp: Some(stamp), is_folded, ..index })
    }

    /// Reads the bytes of an index file that is neither split nor sparse.
    pub(super) fn parse(bytes: &[u8], format: ObjectFormat) -> Result<Self, Broken> {
        let parsed = parse(bytes, format)?;
        let refuse = |feature, extension: &str| Err(Broken::Unsupported { feature, extension: extension.to_owned() });
        match (parsed.link, parsed.folders.is_empty()) {
            (Some(_), _) => refuse("a split index", "link"),
            (None, false) => refuse("a sparse index", "sdir"),
            (None, true) => Ok(parsed.index),
        }
    }
}

/// The bytes of an index file and what tells it from another; none when there is no file.
fn read(path: &Path) -> Result<Option<(Vec<u8>, Stamp)>, CheckpointError> {
    let unreadable = || CheckpointError::io("read", path);
    let mut options = OpenOptions::new();
    // A pipe in its place must not make the opening wait.
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(unreadable()(err)),
    };
    let found = file.metadata().map_err(unreadable())?;
    if !found.is_file() {
        return Err(CheckpointError::InvalidIndex { path: path.into(), reason: "it is not a file".into() });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default().saturating_add(1));
    file.read_to_end(&mut bytes).map_err(unreadable())?;
    Ok(Some((bytes, Stamp::of(&found))))
}

/// What the bytes of one file say.
pub(super) struct Parsed {
    /// The entries. Those at `folders` are folders of a sparse index, whatever their mode says; with a `link` the first
    /// ones have no path.
    pub(super) index: Index,
    /// Which entries are folders.
    pub(super) folders: Vec<usize>,
    /// Where the other entries of a split index are.
    pub(super) link: Option<Link>,
}

fn parse(bytes: &[u8], format: ObjectFormat) -> Result<Parsed, Broken> {
    let split = bytes.len().checked_sub(format.size()).and_then(|at| bytes.split_at_checked(at));
    let Some((content, trailer)) = split else {
        return Err(Broken::Invalid(format!("it is only {} bytes long", bytes.len())));
    };
    let is_intact = || trailer.iter().all(|byte| *byte == 0) || format.digest(content).as_bytes() == trailer;
    let (is_intact, parsed) = if content.len() < LARGE {
        (is_intact(), parse_content(content, format))
    } else {
        rayon::join(is_intact, || parse_content(content, format))
    };
    // A torn file is torn, whatever its parts look like.
    if is_intact { parsed } else { Err(Broken::Invalid("its checksum does not match".into())) }
}

/// Why bytes are no index that can be served.
#[derive(Debug)]
pub(super) enum Broken {
    Invalid(String),
    Unsupported { feature: &'static str, extension: String },
}

impl Broken {
    pub(super) fn at(self, path: &Path) -> CheckpointError {
        match self {
            Self::Invalid(reason) => CheckpointError::InvalidIndex { path: path.into(), reason },
            Self::Unsupported { feature, extension } => CheckpointError::Unsupported {
                feature,
                found: format!("`{}` (extension `{extension}`)", path.display()),
            },
        }
    }
}

fn parse_content(content: &[u8], format: ObjectFormat) -> Result<Parsed, Broken> {
    let mut rest = content;
    let header = take::<12>(&mut rest)?;
    let [magic, version, count] = [header[..4].as_ref(), &header[4..8], &header[8..]];
    if magic != b"DIRC" {
        return Err(Broken::Invalid("it does not begin with `DIRC`".into()));
    }
    let version = number(version);
    let layout = match version {
        2 | 3 => Layout::Padded,
        4 => Layout::Compressed,
        other => return Err(Broken::Invalid(format!("it has the unknown version {other}"))),
    };
    let count = number(count) as usize;
    let fixed = fixed_size(format);
    if count > rest.len() / fixed || u32::try_from(content.len()).is_err() {
        return Err(Broken::Invalid(format!("it cannot hold {count} entries")));
    }
    let mut reader = Reader {
        format,
        entries: Vec::with_capacity(count),
        // Version 4 leaves out what paths share, so its arena grows beyond this.
        paths: Vec::with_capacity(rest.len() - count * fixed),
        ends: Vec::with_capacity(count),
        folders: Vec::new(),
        flaw: None,
        disorder: None,
    };
    for _ in 0..count {
        match layout {
            Layout::Padded => reader.padded(&mut rest, version)?,
            Layout::Compressed => reader.compressed(&mut rest)?,
        }
    }
    let Extensions { trees, resolved, link, has_folders } = parse_extensions(rest, format)?;
    let stray = reader.folders.first().filter(|_| !has_folders || link.is_some());
    let stray = stray.map(|_| format!("an entry has the mode {FOLDER:o}"));
    let Reader { entries, paths, ends, folders, flaw, disorder, .. } = reader;
    if let Some(flaw) = stray.or(flaw).or(disorder.filter(|_| link.is_none())) {
        return Err(Broken::Invalid(flaw));
    }
    Ok(Parsed {
        index: Index { format, layout, entries, paths, ends, trees, resolved, stamp: None, is_folded: false },
        folders,
        link,
    })
}

/// The entries read so far.
struct Reader {
    format: ObjectFormat,
    entries: Vec<IndexEntry>,
    paths: Vec<u8>,
    ends: Vec<u32>,
    /// Which of them are folders.
    folders: Vec<usize>,
    /// The first thing that is wrong with the entries. It is reported after the extensions were seen.
    flaw: Option<String>,
    /// The first thing that is wrong with their order. In a split index, entries without a path come first.
    disorder: Option<String>,
}

/// What precedes the path of an entry.
struct Fixed {
    entry: IndexEntry,
    /// The length of the path, where it is short enough for the flags.
    length: Option<usize>,
    /// How many bytes it took.
    size: usize,
}

impl Reader {
    fn padded(&mut self, rest: &mut &[u8], version: u32) -> Result<(), Broken> {
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
        // One to eight zero bytes end the path and fill the entry up to a multiple of eight.
        let padding = 8 - (fixed.size + path.len()) % 8;
        let (padding, after) =
            rest.get(path.len()..).and_then(|rest| rest.split_at_checked(padding)).ok_or_else(torn)?;
        if padding.iter().any(|byte| *byte != 0) {
            self.flaw("a path has a wrong length");
        }
        *rest = after;
        self.paths.extend_from_slice(path);
        self.finish(fixed.entry)
    }

    fn compressed(&mut self, rest: &mut &[u8]) -> Result<(), Broken> {
        let fixed = self.fixed(rest)?;
        let dropped = take_offset(rest)?;
        let before = self.path_range(self.entries.len());
        let Some(kept) = before.len().checked_sub(dropped) else {
            return Err(Broken::Invalid("a path drops more than the one before has".into()));
        };
        let start = self.paths.len();
        self.paths.extend_from_within(before.start..before.start + kept);
        let added = until_nul(rest)?;
        self.paths.extend_from_slice(added);
        *rest = rest.get(added.len() + 1..).ok_or_else(torn)?;
        if fixed.length.is_some_and(|length| length != self.paths.len() - start) {
            self.flaw("a path has a wrong length");
        }
        self.finish(fixed.entry)
    }

    /// Takes what precedes the path.
    fn fixed(&mut self, rest: &mut &[u8]) -> Result<Fixed, Broken> {
        let numbers = take::<NUMBERS>(rest)?;
        let mut fields = numbers.as_chunks::<4>().0.iter().map(|field| u32::from_be_bytes(*field));
        let mut field = || fields.next().unwrap_or_default();
        let changed = (field(), field());
        let modified = (field(), field());
        let (device, inode, bits, user, group, size) = (field(), field(), field(), field(), field(), field());
        let id = self.format.take(rest).ok_or_else(torn)?;
        let flags = u16::from_be_bytes(*take::<2>(rest)?);
        let second = if flags & 0x4000 == 0 { 0 } else { u16::from_be_bytes(*take::<2>(rest)?) };
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
        Ok(Fixed { entry, length: (length < LONG).then_some(length), size })
    }

    /// Adds the entry whose path was just appended.
    fn finish(&mut self, entry: IndexEntry) -> Result<(), Broken> {
        let Ok(end) = u32::try_from(self.paths.len()) else {
            return Err(Broken::Invalid("its paths are too long".into()));
        };
        let at = self.entries.len();
        let before = self.path_range(at);
        self.ends.push(end);
        self.entries.push(entry);
        let is_folder = self.folders.last() == Some(&at);
        if is_folder && (!self.paths.ends_with(b"/") || !entry.skip_worktree || entry.stage != 0) {
            self.flaw("a folder is not outside of the sparse checkout");
        }
        let paths = [before, self.path_range(at + 1)].map(|range| self.paths.get(range).unwrap_or_default());
        if paths[1].is_empty() {
            self.disorder("an entry has no path");
        } else if paths[0] >= paths[1] {
            // Only the sides of a conflict share a path, and nothing settled stands beside them.
            let stage = at.checked_sub(1).and_then(|before| self.entries.get(before)).map_or(0, |entry| entry.stage);
            if paths[0] > paths[1] {
                self.disorder("its entries are out of order");
            } else if stage == 0 || stage >= entry.stage {
                self.disorder("an entry is there twice");
            }
        }
        Ok(())
    }

    /// Where the path of the entry before this one is.
    fn path_range(&self, at: usize) -> std::ops::Range<usize> {
        let end =
            |at: usize, back| at.checked_sub(back).and_then(|at| self.ends.get(at)).map_or(0, |end| *end as usize);
        end(at, 2)..end(at, 1)
    }

    fn flaw(&mut self, what: &str) {
        self.flaw.get_or_insert_with(|| what.to_owned());
    }

    fn disorder(&mut self, what: &str) {
        self.disorder.get_or_insert_with(|| what.to_owned());
    }
}

/// What follows the entries.
#[derive(Default)]
struct Extensions {
    trees: Option<TreeCache>,
    resolved: Option<Vec<u8>>,
    link: Option<Link>,
    /// Whether entries may be folders.
    has_folders: bool,
}

fn parse_extensions(mut rest: &[u8], format: ObjectFormat) -> Result<Extensions, Broken> {
    let mut found = Extensions::default();
    while !rest.is_empty() {
        let name = take::<4>(&mut rest)?;
        let size = u32::from_be_bytes(*take::<4>(&mut rest)?) as usize;
        let (data, after) = rest.split_at_checked(size).ok_or_else(torn)?;
        rest = after;
        match name {
            b"TREE" => found.trees = TreeCache::parse(data, format),
            b"REUC" => found.resolved = Some(data.to_vec()),
            b"link" => found.link = Link::parse(data, format)?,
            b"sdir" => found.has_folders = true,
            // The others that git knows describe the file as it was; the next git makes them anew.
            [b'A'..=b'Z', ..] => {}
            _ => {
                let feature = "an unknown extension of the index";
                return Err(Broken::Unsupported { feature, extension: name.escape_ascii().to_string() });
            }
        }
    }
    Ok(found)
}

/// The bytes of an entry before its path, without the second flags of version 3.
fn fixed_size(format: ObjectFormat) -> usize {
    NUMBERS + format.size() + 2
}

pub(super) fn take<'a, const SIZE: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; SIZE], Broken> {
    let (taken, after) = rest.split_first_chunk().ok_or_else(torn)?;
    *rest = after;
    Ok(taken)
}

/// Takes a number in the encoding of pack offsets.
fn take_offset(rest: &mut &[u8]) -> Result<usize, Broken> {
    let mut value = 0_usize;
    loop {
        let [byte] = *take::<1>(rest)?;
        value |= usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        value = value.checked_add(1).and_then(|value| value.checked_mul(128)).ok_or_else(torn)?;
    }
}

fn until_nul(bytes: &[u8]) -> Result<&[u8], Broken> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or_else(torn)?;
    bytes.get(..end).ok_or_else(torn)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

pub(super) fn torn() -> Broken {
    Broken::Invalid("it ends in the middle".into())
}
