//! The stub: the small shell script that git runs as a hook and that calls piton.
//!
//! Its text is `hooks/stub.sh`. The settings of the installation and a checksum over the whole are
//! written into it, so that the file alone says who wrote it, what it does, and whether it was
//! edited.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::Hook;
use crate::context::Context;
use crate::encoding::hex;
use crate::journal::lock;
use crate::run::unfinished_note;

/// The newest stub. Every change of `hooks/stub.sh` needs a new version.
const VERSION: &str = "3";
const TEMPLATE: &str = include_str!("../../hooks/stub.sh");
/// The start of the second line of every stub, in all versions.
const MARK: &[u8] = b"# piton hook stub ";
/// How many characters of a checksum are kept.
const DIGITS: usize = 32;

/// What git does when piton is missing or crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureMode {
    /// Git goes on.
    Open,
    /// Git stops.
    Closed,
}

impl FailureMode {
    /// What git has to do if this hook fails: [`Hook::is_guard`], otherwise `hooks.fail_closed`.
    pub(super) fn of(hook: Hook, ctx: &Context) -> Self {
        if hook.is_guard() || ctx.config.hooks_fail_closed() {
            Self::Closed
        } else {
            Self::Open
        }
    }
}

/// Settings fixed at installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StubSettings {
    /// The piton program to use while it exists; otherwise the one on `PATH` is used.
    pub(super) program: Option<PathBuf>,
    pub(super) failure: FailureMode,
    /// The fingerprint of the hook that was there before.
    pub(super) before: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stub {
    pub(super) settings: StubSettings,
    pub(super) age: Age,
    pub(super) text: Vec<u8>,
}

/// Compares a stub with the text that piton would write now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Current,
    /// Another version of piton wrote it.
    Other,
    Edited,
}

impl Stub {
    /// Recognizes a stub of any version.
    pub(super) fn find_in(text: &[u8]) -> Option<Self> {
        let mark = text.strip_prefix(b"#!/bin/sh\n")?.strip_prefix(MARK)?;
        let end = mark.iter().position(|byte| *byte == b'\n')?;
        let (line, rest) = mark.split_at(end);
        let rest = rest.get(1..).unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let (version, checksum) = line.split_once(' ').unwrap_or((&line, ""));
        let age = match (checksum == digest(rest), version == VERSION) {
            (false, _) => Age::Edited,
            (true, true) => Age::Current,
            (true, false) => Age::Other,
        };
        let value = |name: &str, until: &str| between(rest, name.as_bytes(), until.as_bytes());
        let program = value("\npiton_program=", "\n# end of settings\n").map(unquoted);
        let failure = match value("\npiton_fail_closed=", "\n") {
            Some(b"yes") => FailureMode::Closed,
            _ => FailureMode::Open,
        };
        let before = value("\n# before: ", "\n").filter(|it| *it != b"nothing");
        let settings = StubSettings {
            program: program
                .filter(|it| !it.is_empty())
                .map(|it| PathBuf::from(OsString::from_vec(it))),
            failure,
            before: before.map(|it| String::from_utf8_lossy(it).into_owned()),
        };
        Some(Self {
            settings,
            age,
            text: text.to_vec(),
        })
    }
}

pub(super) fn render(hook: Hook, settings: &StubSettings) -> Vec<u8> {
    let yes = |is: bool| if is { "yes" } else { "no" };
    let text = TEMPLATE
        .replace("@VERSION@", VERSION)
        .replace("@HOOK@", hook.name())
        .replace("@READS_INPUT@", yes(hook.reads_input()))
        .replace("@WITHIN_RUNS@", yes(hook.is_about_runs()))
        .replace("@LOCK@", lock::FILE)
        .replace("@WAITING@", unfinished_note::FILE)
        .replace(
            "@FAIL_CLOSED@",
            yes(settings.failure == FailureMode::Closed),
        )
        .replace("@BEFORE@", settings.before.as_deref().unwrap_or("nothing"));
    let (head, tail) = text.split_once("@PROGRAM@").unwrap_or((&text, ""));
    let mut text = head.as_bytes().to_vec();
    text.extend(quoted(settings.program.as_deref().unwrap_or(Path::new(""))));
    text.extend(tail.as_bytes());
    let marked = text
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .nth(1)
        .map_or(0, |(at, _)| at + 1);
    let checksum = digest(text.get(marked..).unwrap_or_default());
    let (mark, rest) = text.split_at(marked);
    let mark = String::from_utf8_lossy(mark).replace("@CHECKSUM@", &checksum);
    [mark.as_bytes(), rest].concat()
}

/// The first [`DIGITS`] characters of the SHA-256 hash.
pub(super) fn digest(bytes: &[u8]) -> String {
    let mut text = hex(&Sha256::digest(bytes));
    text.truncate(DIGITS);
    text
}

/// Quotes a path as one shell word.
fn quoted(path: &Path) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'\'' => word.extend(b"'\\''"),
            byte => word.push(*byte),
        }
    }
    word.push(b'\'');
    word
}

/// Reverses [`quoted`].
fn unquoted(word: &[u8]) -> Vec<u8> {
    let inner = word
        .strip_prefix(b"'")
        .and_then(|rest| rest.strip_suffix(b"'"))
        .unwrap_or(word);
    let mut path = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((byte, after)) = rest.split_first() {
        path.push(*byte);
        rest = rest.strip_prefix(b"'\\''").unwrap_or(after);
    }
    path
}

/// The bytes between two markers.
fn between<'t>(text: &'t [u8], start: &[u8], end: &[u8]) -> Option<&'t [u8]> {
    let find =
        |text: &[u8], part: &[u8]| text.windows(part.len()).position(|window| window == part);
    let rest = text.get(find(text, start)? + start.len()..)?;
    rest.get(..find(rest, end)?)
}

/// The command that a stub runs, for messages and searches.
pub(super) fn call(hook: Hook) -> String {
    format!("hooks run {}", hook.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(program: &[u8]) -> StubSettings {
        let program = Some(PathBuf::from(OsString::from_vec(program.to_vec())));
        StubSettings {
            program,
            failure: FailureMode::Closed,
            before: Some("0123".to_owned()),
        }
    }

    #[test]
    fn a_stub_says_what_it_was_told() {
        for program in [
            &b"/usr/bin/piton"[..],
            b"/a b/it's\n'' \"$HOME\"/piton",
            b"/\xff\n# end/piton",
            b"'",
        ] {
            for hook in Hook::ALL {
                let text = render(hook, &settings(program));
                let found = Stub::find_in(&text).unwrap();
                assert_eq!(
                    (found.settings, found.age),
                    (settings(program), Age::Current)
                );
            }
        }
        let bare = StubSettings {
            program: None,
            failure: FailureMode::Open,
            before: None,
        };
        assert_eq!(
            Stub::find_in(&render(Hook::PrePush, &bare))
                .unwrap()
                .settings,
            bare
        );
    }

    #[test]
    fn an_edited_stub_and_one_of_another_version_are_recognised() {
        let text = render(Hook::PreCommit, &settings(b"/piton"));
        let mut edited = text.clone();
        edited.extend(b"echo more\n");
        assert_eq!(Stub::find_in(&edited).unwrap().age, Age::Edited);
        let older = String::from_utf8(text)
            .unwrap()
            .replace("stub 3 ", "stub 1 ");
        assert_eq!(Stub::find_in(older.as_bytes()).unwrap().age, Age::Other);
        assert_eq!(Stub::find_in(b"#!/bin/sh\necho hello\n"), None);
        assert_eq!(Stub::find_in(b""), None);
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        let text = String::from_utf8(render(Hook::PreReceive, &settings(b"/piton"))).unwrap();
        let left = text.replace("$@", "");
        assert!(!left.contains('@'), "{text}");
        let settings = "\npiton_hook=pre-receive\npiton_reads_input=yes\npiton_within_runs=no\npiton_fail_closed=yes\n";
        assert!(text.contains(settings), "{text}");
    }
}
