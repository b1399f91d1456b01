//! One hook of one repository: the file where git looks, and the one that is kept beside it.
//!
//! Reads only. The content of a file decides what it is, never the record. Install, uninstall and
//! status all start from a [`Slot`].

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Hook;
use super::stub::{self, Stub};
use crate::item::source::read_bytes;

/// A hook may be a compiled program. Larger files are left alone.
const MOST: u64 = 256 << 20;

#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) hook: Hook,
    /// Where git looks.
    pub(super) file: PathBuf,
    /// The hook that was there before piton.
    pub(super) before_file: PathBuf,
    pub(super) now: SlotContent,
    pub(super) before: SlotContent,
}

/// What a path holds.
#[derive(Clone, Debug)]
pub(super) enum SlotContent {
    Nothing,
    Stub(Stub),
    Other(Other),
    /// Neither a file nor a symlink, or unreadable; the text says why.
    Odd(String),
}

/// A hook that piton did not write.
#[derive(Clone, Debug)]
pub(super) struct Other {
    /// A hash of content and mode, or the target of a symlink.
    pub(super) fingerprint: String,
    pub(super) kind: SlotKind,
    /// What git would run; empty when it cannot be read.
    pub(super) text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotKind {
    File,
    Link,
}

impl Slot {
    pub(super) fn look(folder: &Path, hook: Hook) -> Self {
        let file = folder.join(hook.name());
        let before_file = folder.join(format!("{}.before-piton", hook.name()));
        let (now, before) = (SlotContent::at(&file), SlotContent::at(&before_file));
        Self {
            hook,
            file,
            before_file,
            now,
            before,
        }
    }

    pub(super) fn stub(&self) -> Option<&Stub> {
        match &self.now {
            SlotContent::Stub(stub) => Some(stub),
            _ => None,
        }
    }

    /// The path of our stub if another hook manager renamed it.
    pub(super) fn moved_stub(&self) -> Option<PathBuf> {
        let folder = self.file.parent()?;
        ["legacy", "old"]
            .into_iter()
            .map(|ending| folder.join(format!("{}.{ending}", self.hook.name())))
            .find(|file| matches!(SlotContent::at(file), SlotContent::Stub(_)))
    }
}

impl SlotContent {
    /// Reads a file without following symlinks.
    pub(super) fn at(file: &Path) -> Self {
        let found = match fs::symlink_metadata(file) {
            Ok(found) => found,
            Err(err) if err.kind() == ErrorKind::NotFound => return Self::Nothing,
            Err(err) => return Self::Odd(err.to_string()),
        };
        if found.is_symlink() {
            let Ok(target) = fs::read_link(file) else {
                return Self::Odd("it cannot be read".to_owned());
            };
            let fingerprint = stub::digest(&[b"link\0", target.as_os_str().as_bytes()].concat());
            // A dangling symlink is kept too.
            let text = read_bytes(file, MOST).unwrap_or_default();
            return Self::Other(Other {
                fingerprint,
                kind: SlotKind::Link,
                text,
            });
        }
        if !found.is_file() {
            return Self::Odd("it is neither a file nor a link".to_owned());
        }
        let text = match read_bytes(file, MOST) {
            Ok(text) => text,
            Err(err) => return Self::Odd(format!("it cannot be read: {err}")),
        };
        if let Some(stub) = Stub::find_in(&text) {
            return Self::Stub(stub);
        }
        let mode = format!("file\0{:o}\0", found.permissions().mode() & 0o7777);
        let fingerprint = stub::digest(&[mode.as_bytes(), &text].concat());
        Self::Other(Other {
            fingerprint,
            kind: SlotKind::File,
            text,
        })
    }

    pub(super) fn fingerprint(&self) -> Option<&str> {
        match self {
            Self::Other(other) => Some(&other.fingerprint),
            _ => None,
        }
    }
}
