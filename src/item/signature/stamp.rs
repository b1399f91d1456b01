//! Writing integrity stamps: content in, content out.
//!
//! [`stamp_file`] and [`stamp_folder`] give the one file that has to be written so that
//! [`check`](super::check), [`check_folder`](super::check_folder) and their detached forms find the
//! content unchanged. Whatever stamp was there before is replaced, whoever wrote it; every other
//! byte stays. Nothing is written here, and a stamp says nothing about who made it.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{KIWI, detached_file, folder_hash, hex, is_stamp};
use crate::item::wording::shown;

const MARK: char = '\u{feff}';
/// Where `check` looks for a stamp that slipped down.
const FIRST_LINES: usize = 3;

/// The file with a stamp, as it has to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The file: the item's own, or the one beside it that holds a detached stamp.
    pub file: PathBuf,
    /// Its whole content.
    pub content: String,
    /// The sha256 in the stamp.
    pub hash: String,
}

/// Why something cannot be stamped.
#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// No comment can stand at the top of such a file.
    #[error("{}", no_comment(.ending))]
    NoComment {
        /// The ending of the file; may be empty.
        ending: String,
    },
    /// The files of a tool's folder cannot be hashed.
    #[error("cannot read every file of the tool: {0}")]
    Folder(#[from] io::Error),
}

impl StampError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoComment { .. } => "NOT_STAMPABLE",
            Self::Folder(_) => "UNREADABLE_FILE",
        }
    }

    /// The way out.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoComment { .. } => "put it into a tool folder, the `tool.yaml` of which holds the stamp",
            Self::Folder(_) => "check that they are there, their permissions, and that no link leads out of the folder",
        };
        Some(hint.to_owned())
    }
}

/// Stamps a file that is an item by itself; `raw` is its content with any byte order mark.
pub fn stamp_file(file: &Path, raw: &str, time: &str) -> Result<Stamped, StampError> {
    place(file, raw, time, |content| Ok(hex(&Sha256::digest(content))))
}

/// Stamps a folder tool by its manifest, over every file of the folder.
pub fn stamp_folder(folder: &Path, manifest: &Path, raw: &str, time: &str) -> Result<Stamped, StampError> {
    place(manifest, raw, time, |content| Ok(folder_hash(folder, manifest, content)?))
}

/// The content without any stamp at its top.
pub fn unstamped(raw: &str) -> String {
    let (mark, text) =
        if let Some(rest) = raw.strip_prefix(MARK) { (&raw[..MARK.len_utf8()], rest) } else { ("", raw) };
    let mut kept = 0;
    let lines = text.split_inclusive('\n').filter(|line| {
        // Behind a stamp that goes, a mark in the middle of a file would be at its beginning.
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
    hash: impl FnOnce(&str) -> Result<String, StampError>,
) -> Result<Stamped, StampError> {
    if let Some(detached) = detached_file(file) {
        let hash = hash(raw)?;
        return Ok(Stamped { file: detached, content: format!("{KIWI}{time}:{hash}\n"), hash });
    }
    let content = unstamped(raw);
    let (opening, closing) = comment(file, &content)?;
    // A file may end in half a line end.
    let first = content.split_inclusive('\n').next().unwrap_or_default();
    let line_end = if first.ends_with("\r\n") || first.ends_with('\r') { "\r\n" } else { "\n" };
    let start = if content.starts_with(MARK) { MARK.len_utf8() } else { 0 };
    let (mut head, body) = match content.get(start..).filter(|text| text.starts_with("#!")) {
        Some(text) => content.split_at(start + text.find('\n').map_or(text.len(), |at| at + 1)),
        None => content.split_at(start),
    };
    // A shebang without a line end has to get one before anything can follow it.
    let ended = format!("{}{line_end}", head.trim_end_matches('\r'));
    if head.len() > start && !head.ends_with('\n') {
        head = &ended;
    }
    let hash = hash(&format!("{head}{body}"))?;
    let content = format!("{head}{opening}{KIWI}{time}:{hash}{closing}{line_end}{body}");
    Ok(Stamped { file: file.to_path_buf(), content, hash })
}

/// What a comment line of a file's language begins and ends with.
fn comment(file: &Path, content: &str) -> Result<(&'static str, &'static str), StampError> {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    let marks = match ending.as_str() {
        "md" | "markdown" | "html" | "xml" => ("<!-- ", " -->"),
        "py" | "sh" | "bash" | "zsh" | "fish" | "rb" | "pl" | "pm" | "r" | "ps1" | "jl" | "ex" | "exs" | "tcl"
        | "awk" | "nu" | "yaml" | "yml" | "toml" => ("# ", ""),
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" | "go" | "rs" | "swift" | "kt" | "kts" | "scala" | "java" | "c"
        | "cpp" | "cs" | "dart" | "zig" => ("// ", ""),
        "lua" | "sql" | "hs" | "elm" => ("-- ", ""),
        "css" => ("/* ", " */"),
        "lisp" | "el" | "clj" | "scm" => ("; ", ""),
        // Whatever precedes `<?php` is printed.
        "php" => return Err(StampError::NoComment { ending }),
        // Interpreters that are named by a first line pass over it as a comment.
        _ if content.trim_start_matches(MARK).starts_with("#!") => ("# ", ""),
        _ => return Err(StampError::NoComment { ending }),
    };
    Ok(marks)
}

fn no_comment(ending: &str) -> String {
    if ending.is_empty() {
        "a file without an ending has no place for a stamp".to_owned()
    } else {
        format!("a `.{}` file has no place for a stamp", shown(ending))
    }
}

#[cfg(test)]
mod tests;
