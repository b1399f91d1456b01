//! Writes integrity stamps: content in, content out.
//!
//! [`stamp_file`] and [`stamp_folder`] return the one file to write so that
//! [`check`](super::check), [`check_folder`](super::check_folder) and their detached forms find the
//! content unchanged. Any earlier stamp is replaced; every other byte stays. Nothing is written
//! here, and a stamp does not say who made it.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{
    KIWI, StampLocation, detached_file, folder_hash, is_stamp, moved, stamp_location, without,
};
use crate::encoding::hex;
use crate::item::source::read_bytes;
use crate::problem::{Code, Explain, Hint};

/// Longer files are not stamps.
const MAX_STAMP: u64 = 4096;
const MARK: char = '\u{feff}';
/// Where `check` looks for a misplaced stamp.
const FIRST_LINES: usize = 3;

/// The file with a stamp, to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The item's own file, or the one beside it with a detached stamp.
    pub file: PathBuf,
    pub content: String,
    /// The SHA-256 in the stamp.
    pub hash: String,
    /// What to do with other files, so that there is only one stamp.
    pub tidied: Tidied,
}

/// What to do with an older stamp in another place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tidied {
    Nothing,
    /// Delete the file beside the item with an older stamp, if it exists.
    Removed(PathBuf),
    /// Rewrite the item's own file without its stamp.
    Rewritten(PathBuf, String),
}

#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// The files of a tool's folder cannot be hashed.
    #[error("cannot read every file of the tool: {0}")]
    Folder(#[from] io::Error),
}

impl Explain for StampError {
    fn code(&self) -> Code {
        match self {
            Self::Folder(_) => Code::UnreadableFile,
        }
    }

    fn hint(&self) -> Option<Hint> {
        let hint = match self {
            Self::Folder(_) => {
                "check that they exist, their permissions, and that no link leads out of the folder"
            }
        };
        Some(hint.into())
    }
}

/// Stamps a single-file item; `raw` is its content with any byte order mark.
pub fn stamp_file(file: &Path, raw: &str, time: &str) -> Result<Stamped, StampError> {
    place(file, raw, time, |content| Ok(hex(&Sha256::digest(content))))
}

/// Stamps a folder tool in its manifest, over every file of the folder.
pub fn stamp_folder(
    folder: &Path,
    manifest: &Path,
    raw: &str,
    time: &str,
) -> Result<Stamped, StampError> {
    place(manifest, raw, time, |content| {
        Ok(folder_hash(folder, manifest, content)?)
    })
}

/// Whether a file contains a stamp and nothing else.
pub fn holds_stamp(file: &Path) -> bool {
    let text = read_bytes(file, MAX_STAMP)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    text.is_some_and(|text| is_stamp(text.trim()) && !text.trim().contains('\n'))
}

/// The content without any stamp at its top.
pub fn unstamped(raw: &str) -> String {
    let (mark, text) = if let Some(rest) = raw.strip_prefix(MARK) {
        (&raw[..MARK.len_utf8()], rest)
    } else {
        ("", raw)
    };
    let mut kept = 0;
    let lines = text.split_inclusive('\n').filter(|line| {
        // A byte order mark after a removed stamp would otherwise become the start of the file.
        let stays = kept >= FIRST_LINES || !is_stamp(line.trim_start_matches(MARK));
        kept += usize::from(stays);
        stays
    });
    std::iter::once(mark).chain(lines).collect()
}

fn place(
    file: &Path,
    raw: &str,
    time: &str,
    hash: impl Fn(&str) -> Result<String, StampError>,
) -> Result<Stamped, StampError> {
    let content = unstamped(raw);
    // The file's own stamp further down must not stay as content.
    let content = match moved(stamp_location(file, &content), &content, |content| {
        hash(content).unwrap_or_default()
    }) {
        Some(range) => without(&content, &range),
        None => content,
    };
    let (opening, closing) = match stamp_location(file, &content) {
        StampLocation::Comment(opening, closing) => (opening, closing),
        // In JSON a line that looks like a stamp is data.
        StampLocation::Beside if is_json(file) => return beside(file, raw, raw, time, hash),
        StampLocation::Beside => return beside(file, raw, &content, time, hash),
    };
    // A file may end in half a line end.
    let first = content.split_inclusive('\n').next().unwrap_or_default();
    let line_end = if first.ends_with("\r\n") || first.ends_with('\r') {
        "\r\n"
    } else {
        "\n"
    };
    let start = if content.starts_with(MARK) {
        MARK.len_utf8()
    } else {
        0
    };
    let (mut head, body) = match content.get(start..).filter(|text| text.starts_with("#!")) {
        Some(text) => content.split_at(start + text.find('\n').map_or(text.len(), |at| at + 1)),
        None => content.split_at(start),
    };
    // A shebang without a line end needs one before the stamp.
    let ended = format!("{}{line_end}", head.trim_end_matches('\r'));
    if head.len() > start && !head.ends_with('\n') {
        head = &ended;
    }
    let hash = hash(&format!("{head}{body}"))?;
    let content = format!("{head}{opening}{KIWI}{time}:{hash}{closing}{line_end}{body}");
    Ok(Stamped {
        file: file.to_path_buf(),
        content,
        hash,
        tidied: Tidied::Removed(detached_file(file)),
    })
}

fn beside(
    file: &Path,
    raw: &str,
    content: &str,
    time: &str,
    hash: impl FnOnce(&str) -> Result<String, StampError>,
) -> Result<Stamped, StampError> {
    let hash = hash(content)?;
    let tidied = if content == raw {
        Tidied::Nothing
    } else {
        Tidied::Rewritten(file.to_path_buf(), content.to_owned())
    };
    Ok(Stamped {
        file: detached_file(file),
        content: format!("{KIWI}{time}:{hash}\n"),
        hash,
        tidied,
    })
}

fn is_json(file: &Path) -> bool {
    file.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
}

#[cfg(test)]
mod tests;
