//! Reading an item's file, safely.
//!
//! [`SourceFile::load`] is the only way in: regular files only, capped, valid UTF-8, without a byte
//! order mark. A pipe or device is refused before it is opened, so that reading can never hang.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::code::Code;
use super::finding::Findings;
use super::place::{LineIndex, Place};

/// The most that a manifest, front matter or settings file may hold.
pub const MAX_DOCUMENT: u64 = 256 * 1024;
/// The most that a script, directive or knowledge entry may hold.
pub const MAX_TEXT: u64 = 1024 * 1024;

const MARK: char = '\u{feff}';

/// The text of one file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Where it was read from.
    pub path: PathBuf,
    /// What it says, without byte order mark.
    pub text: String,
    /// Whether a byte order mark preceded the text.
    pub marked: bool,
}

impl SourceFile {
    /// The bytes as they stand in the file, which is what stamps cover.
    pub fn raw(&self) -> Cow<'_, [u8]> {
        if self.marked {
            Cow::Owned(format!("{MARK}{}", self.text).into_bytes())
        } else {
            Cow::Borrowed(self.text.as_bytes())
        }
    }

    /// Loads a file of at most `limit` bytes; what is wrong with it goes to `findings`.
    pub fn load(path: &Path, limit: u64, findings: &mut Findings) -> Option<Self> {
        let unreadable = |findings: &mut Findings, err: std::io::Error| {
            findings
                .add(Code::UnreadableFile, Place::START, "", format!("cannot read the file: {err}"))
                .suggest("check that it is there and its permissions");
        };
        let kind = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(err) => {
                unreadable(findings, err);
                return None;
            }
        };
        if !kind.is_file() {
            findings
                .add(Code::NotARegularFile, Place::START, "", "not a regular file")
                .suggest("replace it with a plain file");
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(kind.len().min(limit)).unwrap_or(0));
        // One byte more than allowed: a file that grows while it is read is caught as well.
        if let Err(err) = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)) {
            unreadable(findings, err);
            return None;
        }
        if bytes.len() as u64 > limit {
            findings
                .add(Code::FileTooLarge, Place::START, "", format!("larger than {} KiB", limit / 1024))
                .suggest("split it, or keep data outside the item");
            return None;
        }
        Self::decode(path, bytes, findings)
    }

    /// Decodes bytes that were read elsewhere, e.g. from the git index.
    pub fn decode(path: &Path, bytes: Vec<u8>, findings: &mut Findings) -> Option<Self> {
        match String::from_utf8(bytes) {
            Ok(text) => {
                let (text, marked) = match text.strip_prefix(MARK) {
                    Some(rest) => (rest.to_owned(), true),
                    None => (text, false),
                };
                Some(Self { path: path.to_path_buf(), text, marked })
            }
            Err(err) => {
                let offset = err.utf8_error().valid_up_to();
                let valid = String::from_utf8_lossy(&err.as_bytes()[..offset]).into_owned();
                let place = LineIndex::new(&valid).place(offset);
                findings
                    .add(Code::NotUtf8, place, "", format!("not valid UTF-8 at byte {offset}"))
                    .suggest("save the file as UTF-8");
                None
            }
        }
    }
}
