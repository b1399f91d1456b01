//! Looks at the files of git's settings before libgit2 opens them.
//!
//! A pipe among them would make libgit2 wait for ever, as it makes git. [`check`] follows
//! `include.path` and, whatever their condition, `includeIf.*.path`. Reading is bounded; libgit2
//! judges everything else about the files.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::CheckpointError;
use super::hook_environment::HookEnvironment;
use crate::item::source::{Unread, read_bytes};

/// The most bytes of one file. Git's own limit is far above what settings need.
const MAX_SETTINGS: u64 = 4 * 1024 * 1024;
/// The most files; git follows ten levels.
const MAX_FILES: usize = 200;

/// Fails if a file of the settings of a repository is a pipe, a socket or a device.
pub(super) fn check(place: &HookEnvironment, home: Option<&Path>) -> Result<(), CheckpointError> {
    let mut waiting = vec![
        place.common_dir.join("config"),
        place.git_dir.join("config.worktree"),
    ];
    let mut seen = BTreeSet::new();
    while let Some(file) = waiting.pop() {
        if seen.len() >= MAX_FILES || !seen.insert(file.clone()) {
            continue;
        }
        match read_bytes(&file, MAX_SETTINGS) {
            Ok(bytes) => {
                let folder = file.parent().unwrap_or(Path::new("/"));
                let included = paths_in(&String::from_utf8_lossy(&bytes))
                    .into_iter()
                    .filter_map(|path| located(&path, folder, home));
                waiting.extend(included);
            }
            Err(Unread::NotRegular) if would_block(&file) => {
                let source = io::Error::new(io::ErrorKind::InvalidInput, Unread::NotRegular);
                return Err(CheckpointError::io("read the settings of git in", file)(
                    source,
                ));
            }
            // Git skips what is missing, and libgit2 reports what it cannot read.
            Err(_) => {}
        }
    }
    Ok(())
}

/// Whether reading may wait or never end. `/dev/null` is a common stand-in for no settings.
fn would_block(file: &Path) -> bool {
    let is_null = fs::canonicalize(file).is_ok_and(|path| path == Path::new("/dev/null"));
    !is_null && !file.is_dir()
}

fn located(path: &str, folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(below) => home.map(|home| home.join(below)),
        None => Some(folder.join(path)),
    }
}

/// The values of `path` in the sections `include` and `includeIf`.
fn paths_in(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut includes = false;
    // A backslash at the end of a line continues it.
    let joined = text.replace("\r\n", "\n").replace("\\\n", "");
    for line in joined.lines() {
        let mut rest = line.trim_start();
        if let Some(header) = rest.strip_prefix('[') {
            let (name, after) = section(header);
            includes =
                name.eq_ignore_ascii_case("include") || name.eq_ignore_ascii_case("includeif");
            rest = after.trim_start();
        }
        let Some((key, value)) = rest.split_once('=').filter(|_| includes) else {
            continue;
        };
        if key.trim().eq_ignore_ascii_case("path") {
            paths.push(value_of(value));
        }
    }
    paths
}

/// The name of a section, without its quoted part, and what follows the header.
fn section(header: &str) -> (&str, &str) {
    let end = header
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .unwrap_or(header.len());
    let (name, rest) = header.split_at(end);
    let mut quoted = false;
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return (name, rest.get(at + 1..).unwrap_or_default()),
            _ => {}
        }
    }
    (name, "")
}

/// A value without quotes, escapes and comment.
fn value_of(text: &str) -> String {
    let mut value = String::new();
    let mut quoted = false;
    let mut characters = text.trim().chars();
    while let Some(c) = characters.next() {
        match c {
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => break,
            '\\' => value.extend(characters.next()),
            _ => value.push(c),
        }
    }
    value.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_paths_are_found_in_every_spelling() {
        let text = "[user]\n\tpath = no\n[include]\n\tpath = a ; comment\n\tname = no\n\
             [Include] PATH=\"b c\"\n[includeIf \"gitdir:~/x]\\\"/\"]\n path = ~/d\\\\e\n\
             path = \"f#\\\ng\"\n[includes]\npath = no\n[core]path = no\n";
        assert_eq!(paths_in(text), ["a", "b c", "~/d\\e", "f#g"]);
    }
}
