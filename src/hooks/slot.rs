//! One hook of one repository: what stands where git looks, and what is kept beside it.
//!
//! Only looks. What a file is, is decided by what it holds, never by a record: a [`Slot`] is the truth that
//! installing, uninstalling and the status start from.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Hook;
use super::stub::{self, Stub};
use crate::item::source::read_bytes;

/// A hook may be a program; a larger one is not touched.
const MOST: u64 = 256 << 20;

/// The files of one hook.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) hook: Hook,
    /// Where git looks.
    pub(super) file: PathBuf,
    /// Where the hook is kept that was there before.
    pub(super) before_file: PathBuf,
    pub(super) now: Found,
    pub(super) before: Found,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Nothing,
    Stub(Stub),
    Other(Other),
    /// Neither a file nor a link, or one that cannot be read; why, in words.
    Odd(String),
}

/// A hook of somebody else.
#[derive(Clone, Debug)]
pub(super) struct Other {
    /// What it holds and its mode, or what it leads to.
    pub(super) fingerprint: String,
    pub(super) kind: Kind,
    /// What git would run; empty when it cannot be read.
    pub(super) text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Link,
}

impl Slot {
    /// Looks at a hook in a folder.
    pub(super) fn look(folder: &Path, hook: Hook) -> Self {
        let file = folder.join(hook.name());
        let before_file = folder.join(format!("{}.before-piton", hook.name()));
        let (now, before) = (Found::at(&file), Found::at(&before_file));
        Self { hook, file, before_file, now, before }
    }

    /// The stub, if there is one.
    pub(super) fn stub(&self) -> Option<&Stub> {
        match &self.now {
            Found::Stub(stub) => Some(stub),
            _ => None,
        }
    }

    /// Our stub under the name that another manager gave it, and that name.
    pub(super) fn moved_stub(&self) -> Option<PathBuf> {
        let folder = self.file.parent()?;
        ["legacy", "old"]
            .into_iter()
            .map(|ending| folder.join(format!("{}.{ending}", self.hook.name())))
            .find(|file| matches!(Found::at(file), Found::Stub(_)))
    }
}

impl Found {
    /// Looks at a file without following a link.
    pub(super) fn at(file: &Path) -> Self {
        let found = match fs::symlink_metadata(file) {
            Ok(found) => found,
            Err(err) if err.kind() == ErrorKind::NotFound => return Self::Nothing,
            Err(err) => return Self::Odd(err.to_string()),
        };
        if found.is_symlink() {
            let Ok(target) = fs::read_link(file) else { return Self::Odd("it cannot be read".to_owned()) };
            let fingerprint = stub::digest(&[b"link\0", target.as_os_str().as_bytes()].concat());
            // A link that leads to nothing is kept all the same.
            let text = read_bytes(file, MOST).unwrap_or_default();
            return Self::Other(Other { fingerprint, kind: Kind::Link, text });
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
        Self::Other(Other { fingerprint, kind: Kind::File, text })
    }

    /// The fingerprint of somebody else's hook.
    pub(super) fn fingerprint(&self) -> Option<&str> {
        match self {
            Self::Other(other) => Some(&other.fingerprint),
            _ => None,
        }
    }
}
