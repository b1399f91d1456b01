//! Integrity stamps: recognizes and checks them.
//!
//! A stamp is the first line of a file (after a shebang), a comment of its language with
//! `kiwi-mcp:validated:<UTC time>Z:<sha256>`; the hash covers the raw bytes without that line. For
//! a folder tool it is in `tool.yaml` and covers every file; if no comment can come first, as in
//! JSON, it is in `<file>.sig`. A stamp proves that nothing changed since it was made, not who made
//! it: any user can recompute it. [`stamp`] writes stamps, [`stamp_location`](stamp_location()) decides where they are,
//! and [`author`] adds the signature of a person.

pub mod author;
pub mod stamp;
mod stamp_location;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use super::source::{Unread, leaves, open_regular, read_bytes};
use super::wording::shown;
use crate::encoding::hex;

pub use stamp_location::{
    StampLocation, author_file, detached_file, is_companion, is_program, mark, stamp_location,
};

const KIWI: &str = "kiwi-mcp:validated:";
const RYE: [&str; 3] = ["rye:signed:", "rye:validated:", "ryeos:signed:"];
const SHA256_HEX: usize = 64;
/// A longer line is something else, e.g. a whole program.
const MAX_LINE: usize = 1024;
/// The most bytes read for the stamp of a folder tool. Counted while reading, because a sparse
/// file's size says nothing.
const MAX_FOLDER: u64 = 64 * 1024 * 1024;

/// Folders that a stamp never covers: caches and installed packages.
pub const UNSTAMPED_FOLDERS: [&str; 3] = ["__pycache__", ".venv", "node_modules"];

/// A folder of a tool that its stamp does not cover but that programs would run code from. Python
/// bytecode is excluded: it is not read where that matters.
pub fn uncovered_folder(folder: &Path) -> Option<PathBuf> {
    let is_named = |entry: &walkdir::DirEntry, names: &[&str]| {
        names.iter().any(|name| entry.file_name() == *name)
    };
    WalkDir::new(folder)
        .into_iter()
        .filter_entry(|entry| entry.depth() == 0 || !is_named(entry, &["__pycache__"]))
        .filter_map(Result::ok)
        .find(|entry| {
            entry.depth() > 0
                && !entry.file_type().is_file()
                && is_named(entry, &[".venv", "node_modules"])
        })
        .map(walkdir::DirEntry::into_path)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Integrity {
    Unsigned,
    /// The content matches the stamp.
    Valid {
        time: String,
        hash: String,
    },
    /// The content does not match the stamp.
    Mismatch {
        stamped: String,
        actual: String,
    },
    /// A stamp of another kind, which proves less, or nothing here.
    Foreign {
        /// A description of it.
        kind: &'static str,
    },
    /// It looks like a stamp but is malformed.
    Invalid {
        reason: &'static str,
        line: u32,
    },
}

/// Whether a line is meant as a stamp, of any kind and in any language.
///
/// Such a line is never content. [`check`] decides whether it is valid and a comment at all.
pub fn is_stamp(line: &str) -> bool {
    let body = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    line.len() <= MAX_LINE
        && (body.starts_with(KIWI) || RYE.iter().any(|prefix| body.starts_with(prefix)))
}

/// The byte offset where content begins: after an optional stamp on the first line.
///
/// A shebang is content, since the stamp comes after it.
pub fn after_stamp(text: &str) -> usize {
    match stamp_line(text) {
        Some(range) if range.start == 0 => range.end,
        _ => 0,
    }
}

/// Checks the stamp inside a file, which must be a comment of its language and nothing else.
pub fn check(file: &Path, content: &str) -> Integrity {
    check_with(stamp_location(file, content), content, |without| {
        hex(&Sha256::digest(without))
    })
}

/// Checks the stamp of a directive, which older tools computed over its XML block only.
pub fn check_directive(file: &Path, content: &str, name: &str, version: &str) -> Integrity {
    let integrity = check(file, content);
    if let Integrity::Mismatch { stamped, .. } = &integrity
        && kiwi_directive_hash(content, name, version).as_ref() == Some(stamped)
    {
        return Integrity::Foreign {
            kind: "a Kiwi stamp that covers the XML block only",
        };
    }
    integrity
}

/// Checks the stamp in the manifest of a folder tool against all files of the folder.
pub fn check_folder(
    folder: &Path,
    manifest: &Path,
    manifest_content: &str,
) -> io::Result<Integrity> {
    let mut failure = None;
    let integrity = check_with(
        stamp_location(manifest, manifest_content),
        manifest_content,
        |without| {
            folder_hash(folder, manifest, without).unwrap_or_else(|err| {
                failure = Some(err);
                String::new()
            })
        },
    );
    failure.map_or(Ok(integrity), Err)
}

/// Checks a detached stamp (`<file>.sig`) against the content of its file.
pub fn check_detached(stamp: &str, content: &str) -> Integrity {
    check_detached_with(stamp, || hex(&Sha256::digest(content)))
}

fn check_detached_with(stamp: &str, hash: impl FnOnce() -> String) -> Integrity {
    let mut lines = stamp.lines().filter(|line| !line.trim().is_empty());
    match (lines.next(), lines.next()) {
        (Some(line), None) => judge(line.trim(), 1, hash),
        (None, _) => Integrity::Invalid {
            reason: "the file of the stamp is empty",
            line: 1,
        },
        (Some(_), Some(_)) => Integrity::Invalid {
            reason: "the file of the stamp contains more than a stamp",
            line: 2,
        },
    }
}

/// Checks the detached stamp of a folder tool whose manifest is JSON.
pub fn check_folder_detached(
    folder: &Path,
    manifest: &Path,
    stamp: &str,
    manifest_content: &str,
) -> io::Result<Integrity> {
    let hash = folder_hash(folder, manifest, manifest_content)?;
    Ok(check_detached_with(stamp, || hash))
}

/// Whether a stamp covers the script of a tool as it was read, by its SHA-256: the file may have
/// been another one when the stamp was checked.
pub fn covers(
    folder: Option<&Path>,
    manifest: &Path,
    stamped: &str,
    (script, sha256): (&Path, &str),
) -> bool {
    let (Ok(bytes), Ok(script)) = (read_bytes(manifest, MAX_FOLDER), script.canonicalize()) else {
        return false;
    };
    let text = String::from_utf8_lossy(&bytes);
    let Some(folder) = folder else {
        // A script that is its own manifest; any other file is not covered by the stamp.
        let is_own = manifest.canonicalize().is_ok_and(|own| own == script);
        return !is_own
            || (hex(&Sha256::digest(&bytes)) == sha256
                && matches!(check(manifest, &text), Integrity::Valid { hash, .. } if hash == stamped));
    };
    // The walk names files by the folder as it was given.
    let Ok(Ok(script)) = folder
        .canonicalize()
        .map(|real| script.strip_prefix(real).map(|file| folder.join(file)))
    else {
        return true;
    };
    let hash = |without: &str| {
        folder_hash_with(folder, manifest, without, Some((&script, sha256))).unwrap_or_default()
    };
    match stamp_location(manifest, &text) {
        StampLocation::Beside => hash(&text) == stamped,
        location @ StampLocation::Comment(..) => {
            matches!(check_with(location, &text, hash), Integrity::Valid { hash, .. } if hash == stamped)
        }
    }
}

/// The hash that the stamp of a folder tool covers: that of the lines `<sha256>  <path>`, sorted by
/// path.
///
/// `sha256sum` prints the same, so it can be recomputed by hand. A symlink counts as its target,
/// which must lie in the folder as well. The manifest's detached stamp and author signature do not
/// count.
pub fn folder_hash(
    folder: &Path,
    manifest: &Path,
    manifest_without_stamp: &str,
) -> io::Result<String> {
    folder_hash_with(folder, manifest, manifest_without_stamp, None)
}

/// The same, with the hash of one file as it was read before.
fn folder_hash_with(
    folder: &Path,
    manifest: &Path,
    manifest_without_stamp: &str,
    read: Option<(&Path, &str)>,
) -> io::Result<String> {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut budget = MAX_FOLDER;
    let is_beside = stamp_location(manifest, manifest_without_stamp) == StampLocation::Beside;
    let companions = [
        Some(author_file(manifest)),
        is_beside.then(|| detached_file(manifest)),
    ];
    let walk = WalkDir::new(folder).into_iter().filter_entry(|entry| {
        let is_unstamped = UNSTAMPED_FOLDERS
            .iter()
            .any(|folder| entry.file_name() == *folder);
        entry.depth() == 0 || entry.file_type().is_file() || !is_unstamped
    });
    for entry in walk {
        let entry = entry?;
        if !entry.file_type().is_file() && !entry.path_is_symlink() {
            continue;
        }
        let file = entry.path();
        if companions
            .iter()
            .flatten()
            .any(|companion| companion == file)
        {
            continue;
        }
        // The target could be changed without invalidating the stamp.
        if entry.path_is_symlink() && (leaves(file, folder) || file.is_dir()) {
            return Err(io::Error::other(format!(
                "the link `{}` points to something that no stamp covers",
                shown_in(folder, file)
            )));
        }
        let digest = match read {
            _ if file == manifest => hex(&Sha256::digest(manifest_without_stamp)),
            Some((path, digest)) if path == file => digest.to_owned(),
            _ => file_hash(file, &mut budget)?,
        };
        lines.push((relative(folder, file)?, digest));
    }
    lines.sort();
    let mut all = Sha256::new();
    for (path, digest) in lines {
        all.update(format!("{digest}  {path}\n"));
    }
    Ok(hex(&all.finalize()))
}

/// The stamp of another program, or a shortened one, among the first lines: it proves nothing here, however
/// it is written and wherever it stands. `None` beside a whole stamp of ours, which must be right.
fn foreign(text: &str) -> Option<&'static str> {
    let mut found = None;
    for line in text.lines().take(3).filter(|line| is_stamp(line)) {
        let body = line.trim_matches(|c: char| !c.is_alphanumeric());
        let kind = match body.strip_prefix(KIWI) {
            None => "a RYE signature, which needs RYE's keys",
            Some(stamp) => {
                let hash = stamp.rsplit(':').next().unwrap_or_default();
                if hash.is_empty() || hash.len() >= SHA256_HEX || !is_hex(hash) {
                    return None;
                }
                "a Kiwi stamp with a short hash"
            }
        };
        found.get_or_insert(kind);
    }
    found
}

fn check_with(location: StampLocation, text: &str, hash: impl FnOnce(&str) -> String) -> Integrity {
    if let Some(kind) = foreign(text) {
        return Integrity::Foreign { kind };
    }
    let line_of = |range: &Range<usize>| {
        1 + u32::try_from(text[..range.start].matches('\n').count()).unwrap_or(0)
    };
    let Some(range) = stamp_line(text) else {
        let line =
            misplaced(text).or_else(|| moved(location, text, hash).map(|range| line_of(&range)));
        return match line {
            Some(line) => Integrity::Invalid {
                reason: "a stamp must be the first line",
                line,
            },
            None => Integrity::Unsigned,
        };
    };
    let line_number = line_of(&range);
    let rest = text.get(range.end..).unwrap_or_default();
    if line_number == 1 && rest.starts_with("#!") {
        return Integrity::Invalid {
            reason: "a stamp must come after the shebang",
            line: line_number,
        };
    }
    if rest.lines().next().is_some_and(is_stamp) {
        return Integrity::Invalid {
            reason: "there are two stamps",
            line: line_number + 1,
        };
    }
    // No hash covers this line: if it were not a comment, it would run, or hide what follows.
    let Some(body) = location.body(text.get(range.clone()).unwrap_or_default()) else {
        let reason = match location {
            StampLocation::Comment(..) => {
                "a stamp must be a comment of the file's language, with nothing else on its line"
            }
            StampLocation::Beside => {
                "the stamp of such a file is beside it, in a file with the ending `.sig`"
            }
        };
        return Integrity::Invalid {
            reason,
            line: line_number,
        };
    };
    judge(body, line_number, || hash(&without(text, &range)))
}

/// Checks a stamp without its comment syntax.
fn judge(body: &str, line_number: u32, hash: impl FnOnce() -> String) -> Integrity {
    if RYE.iter().any(|prefix| body.starts_with(prefix)) {
        return Integrity::Foreign {
            kind: "a RYE signature, which needs RYE's keys",
        };
    }
    let Some(stamp) = body.strip_prefix(KIWI) else {
        return Integrity::Invalid {
            reason: "this is not a stamp",
            line: line_number,
        };
    };
    let Some((time, stamped)) = time_and_hash(stamp) else {
        return Integrity::Invalid {
            reason: "a stamp reads kiwi-mcp:validated:<UTC time>Z:<sha256>",
            line: line_number,
        };
    };
    match stamped.len() {
        SHA256_HEX if is_hex(stamped) => {
            let actual = hash();
            if actual == stamped {
                Integrity::Valid {
                    time: time.to_owned(),
                    hash: actual,
                }
            } else {
                Integrity::Mismatch {
                    stamped: stamped.to_owned(),
                    actual,
                }
            }
        }
        ..SHA256_HEX if is_hex(stamped) => Integrity::Foreign {
            kind: "a Kiwi stamp with a short hash",
        },
        _ => Integrity::Invalid {
            reason: "the hash of a stamp has 64 hexadecimal digits",
            line: line_number,
        },
    }
}

/// The range of the stamp's line with its line end: the first line, or the second after a shebang.
fn stamp_line(text: &str) -> Option<Range<usize>> {
    let start = text
        .strip_prefix('\u{feff}')
        .map_or(0, |_| '\u{feff}'.len_utf8());
    let first = line_range(text, start);
    let range = if text.get(first.clone())?.starts_with("#!") {
        line_range(text, first.end)
    } else {
        first
    };
    is_stamp(text.get(range.clone())?).then_some(range)
}

/// Finds a stamp that moved down by a line or two, which would otherwise count as content.
fn misplaced(text: &str) -> Option<u32> {
    (1u32..)
        .zip(text.lines().take(3))
        .find(|(_, line)| is_stamp(line))
        .map(|(number, _)| number)
}

/// A line further down that is the file's own stamp: its hash matches the rest. Without a match it
/// is content, e.g. a quotation.
fn moved(
    location: StampLocation,
    text: &str,
    hash: impl FnOnce(&str) -> String,
) -> Option<Range<usize>> {
    let mut start = 0;
    let mut lines = text.split_inclusive('\n').map(|line| {
        start += line.len();
        (start - line.len()..start, line)
    });
    // Only the first is tried: hashing the whole file for each of many would take too long.
    let (range, stamped) = lines.find_map(|(range, line)| {
        let body = location.body(line).filter(|_| is_stamp(line))?;
        let (_, stamped) = time_and_hash(body.strip_prefix(KIWI)?)?;
        (stamped.len() == SHA256_HEX && is_hex(stamped)).then_some((range, stamped))
    })?;
    (hash(&without(text, &range)) == stamped).then_some(range)
}

fn without(text: &str, range: &Range<usize>) -> String {
    [text.get(..range.start), text.get(range.end..)]
        .map(Option::unwrap_or_default)
        .concat()
}

fn time_and_hash(stamp: &str) -> Option<(&str, &str)> {
    stamp.rsplit_once(':').filter(|(time, _)| is_time(time))
}

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn line_range(text: &str, start: usize) -> Range<usize> {
    let end = text
        .get(start..)
        .and_then(|rest| rest.find('\n'))
        .map_or(text.len(), |at| start + at + 1);
    start..end
}

fn is_time(text: &str) -> bool {
    // `2026-01-28T12:00:00Z`
    let pattern = "0000-00-00T00:00:00Z";
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, want)| {
            if want == b'0' {
                byte.is_ascii_digit()
            } else {
                byte == want
            }
        })
}

/// Kiwi's formula for directives: a hash of name, version and the hash of the XML block.
fn kiwi_directive_hash(text: &str, name: &str, version: &str) -> Option<String> {
    let start = text.find("<directive")?;
    let end = text.rfind("</directive>")? + "</directive>".len();
    let block = text.get(start..end)?.trim();
    let payload = format!(
        r#"{{"directive_name":{},"metadata":{{}},"version":{},"xml_hash":"{}"}}"#,
        serde_json::Value::from(name),
        serde_json::Value::from(version),
        hex(&Sha256::digest(block)),
    );
    Some(hex(&Sha256::digest(payload)))
}

fn file_hash(path: &Path, budget: &mut u64) -> io::Result<String> {
    let (mut file, _) = open_regular(path).map_err(|unread| match unread {
        Unread::Failed(err) => err,
        other => io::Error::other(other),
    })?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match io::Read::read(&mut file, &mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            count => {
                digest.update(buffer.get(..count).unwrap_or_default());
                let Some(rest) = budget.checked_sub(count as u64) else {
                    let limit = MAX_FOLDER / (1024 * 1024);
                    return Err(io::Error::other(format!(
                        "the files of the tool hold more than {limit} MiB"
                    )));
                };
                *budget = rest;
            }
        }
    }
}

/// The hashed name of a file. A name with a line end could look like two files, so it is refused.
fn relative(folder: &Path, file: &Path) -> io::Result<String> {
    let path = file.strip_prefix(folder).unwrap_or(file);
    match path
        .to_str()
        .filter(|path| !path.chars().any(char::is_control))
    {
        Some(path) => Ok(path.replace(std::path::MAIN_SEPARATOR, "/")),
        None => Err(io::Error::other(format!(
            "`{}` is not a name that can be stamped",
            shown_in(folder, file)
        ))),
    }
}

fn shown_in(folder: &Path, file: &Path) -> String {
    shown(&file.strip_prefix(folder).unwrap_or(file).to_string_lossy())
}

#[cfg(test)]
mod tests;
