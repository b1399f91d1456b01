//! Authenticates the lines of journals with a key of the user.
//!
//! Every process that can write a journal can also recompute its chain. Each line therefore ends
//! with a [`LineTag`]: an HMAC-SHA-256 over the rest of the line. The key is in the user's settings
//! folder, outside of what confined tools can read. A tag is not covered by the chain and never
//! leaves the repository. [`TagCheck`] checks the tags of a journal line by line.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::error::JournalError;
use super::record::Record;
use crate::context::fresh_secret;
use crate::disk::create_private_folder;
use crate::encoding::hex;
use crate::item::source::{Unread, read_bytes};

/// The name of the key file in the user's settings folder.
pub const KEY_FILE: &str = "keys/journal.key";

/// The first word of a key file.
const FORMAT: &str = "piton-journal-key-1";
/// The first word of a tag.
const ALGORITHM: &str = "hmac-sha256";
const LONGEST_FILE: u64 = 1024;
/// The size of a block of SHA-256, in bytes.
const BLOCK: usize = 64;

/// Authenticates the lines of the journals of one user.
#[derive(Clone, PartialEq, Eq)]
pub struct JournalKey {
    bytes: [u8; 32],
    /// The start of the run that created the key. Later runs of this user have tags.
    since: Timestamp,
    /// The folder with its file.
    folder: Option<PathBuf>,
}

/// The path of the user's key; none without a home.
#[derive(Clone, Debug)]
pub struct KeyFile(Option<PathBuf>);

/// The last part of a line: which key authenticates it, and the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTag {
    key: [u8; 8],
    code: [u8; 32],
}

/// What the tags of a journal show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticity {
    /// Every line was written with the key.
    Authenticated,
    /// No line has a tag.
    Unauthenticated,
    /// The journal begins with a tag of another key, or the key is not here.
    OtherKey,
    /// This line, counted from 1, was not written with the key of the lines before it.
    Foreign(u64),
}

/// Which journals may be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagDemand {
    /// Every line has a valid tag.
    Authenticated,
    /// No line is foreign. A journal without tags is accepted if it is older than the key.
    NoForeignLine,
    /// The journal is continued only to record that the run ends.
    Nothing,
}

/// The key and the demand for a journal that is continued.
#[derive(Clone, Debug)]
pub struct Continuation {
    pub key: Option<JournalKey>,
    pub demand: TagDemand,
}

/// Checks the tags of the records of one journal, in order.
#[derive(Debug)]
pub struct TagCheck<'k> {
    key: Option<&'k JournalKey>,
    lines: u64,
    found: Option<Authenticity>,
}

impl KeyFile {
    /// The key below a user's settings folder.
    pub fn of(settings: Option<&Path>) -> Self {
        Self(settings.map(|folder| folder.join(KEY_FILE)))
    }

    /// The key, if there is one.
    pub fn read(&self) -> Result<Option<JournalKey>, JournalError> {
        let Some(path) = &self.0 else {
            return Ok(None);
        };
        let bytes = match read_bytes(path, LONGEST_FILE) {
            Ok(bytes) => bytes,
            Err(Unread::Failed(err)) if is_absent(&err) => return Ok(None),
            Err(err) => {
                return Err(JournalError::io("read", path)(io::Error::other(
                    err.to_string(),
                )));
            }
        };
        let key = str::from_utf8(&bytes).ok().and_then(JournalKey::parse);
        let folder = path.parent().map(Path::to_path_buf);
        key.map(|key| Some(JournalKey { folder, ..key }))
            .ok_or_else(|| JournalError::InvalidKey(path.clone()))
    }

    /// The key; creates it if there is none. `None` where no key can be kept: without a home, or in
    /// one that this user cannot write.
    pub fn read_or_create(&self, since: Timestamp) -> Result<Option<JournalKey>, JournalError> {
        if let Some(key) = self.read()? {
            return Ok(Some(key));
        }
        let Some((path, folder)) = self
            .0
            .as_ref()
            .and_then(|path| Some((path, path.parent()?)))
        else {
            return Ok(None);
        };
        let created = fresh_secret().and_then(|bytes| {
            let key = JournalKey {
                bytes,
                since,
                folder: None,
            };
            create_private_folder(folder)?;
            // Readable for this user only, and complete before it has its name.
            let mut draft = tempfile::NamedTempFile::new_in(folder)?;
            draft.write_all(key.render().as_bytes())?;
            draft.as_file().sync_all()?;
            match draft.persist_noclobber(path) {
                Ok(_) => OpenOptions::new().read(true).open(folder)?.sync_all(),
                Err(err) if err.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                Err(err) => Err(err.error),
            }
        });
        match created {
            // Another process may have been first.
            Ok(()) => self.read(),
            Err(err) if is_unwritable(&err) => Ok(None),
            Err(err) => Err(JournalError::io("create", path)(err)),
        }
    }
}

fn is_absent(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn is_unwritable(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotADirectory
    )
}

impl JournalKey {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.trim_end().split(' ');
        let (format, bytes, since) = (words.next()?, words.next()?, words.next()?);
        (format == FORMAT).then_some(())?;
        Some(Self {
            bytes: from_hex(bytes)?,
            since: since.parse().ok()?,
            folder: None,
        })
    }

    fn render(&self) -> String {
        format!("{FORMAT} {} {}\n", hex(&self.bytes), self.since)
    }

    /// Whether a run that started then must have tags.
    pub fn covers(&self, started: Timestamp) -> bool {
        started >= self.since
    }

    /// The folder with its file, where other data can be kept.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The tag of a line without it.
    pub(super) fn tag(&self, line: &[u8]) -> LineTag {
        LineTag {
            key: self.id(),
            code: hmac(&self.bytes, line),
        }
    }

    /// Tells keys apart without showing them.
    fn id(&self) -> [u8; 8] {
        let code = hmac(&self.bytes, b"the name of this key");
        let mut id = [0; 8];
        id.copy_from_slice(code.split_at(8).0);
        id
    }
}

impl fmt::Debug for JournalKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "JournalKey({})", hex(&self.id()))
    }
}

impl fmt::Display for LineTag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{ALGORITHM}:{}:{}",
            hex(&self.key),
            hex(&self.code)
        )
    }
}

/// The text is no tag.
#[derive(Debug, thiserror::Error)]
#[error("a tag is `hmac-sha256`, the name of a key and 64 hexadecimal digits")]
pub struct InvalidTag;

impl FromStr for LineTag {
    type Err = InvalidTag;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(':');
        let parsed = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(ALGORITHM), Some(key), Some(code), None) => from_hex(key).zip(from_hex(code)),
            _ => None,
        };
        let (key, code) = parsed.ok_or(InvalidTag)?;
        Ok(Self { key, code })
    }
}

impl<'k> TagCheck<'k> {
    pub fn new(key: Option<&'k JournalKey>) -> Self {
        Self {
            key,
            lines: 0,
            found: None,
        }
    }

    /// Checks the next record.
    pub fn take(&mut self, record: &Record) {
        self.lines += 1;
        let own = || {
            let (key, tag) = self.key.zip(record.tag)?;
            (tag.key == key.id())
                .then(|| is_equal(&key.tag(record.authenticated()).code, &tag.code))
        };
        let foreign = Authenticity::Foreign(self.lines);
        self.found = Some(match (self.found, record.tag) {
            (None | Some(Authenticity::Unauthenticated), None) => Authenticity::Unauthenticated,
            (None, Some(_)) => match own() {
                None => Authenticity::OtherKey,
                Some(true) => Authenticity::Authenticated,
                Some(false) => foreign,
            },
            (Some(Authenticity::Authenticated), Some(_)) if own() == Some(true) => {
                Authenticity::Authenticated
            }
            (Some(known @ (Authenticity::OtherKey | Authenticity::Foreign(_))), _) => known,
            _ => foreign,
        });
    }

    /// The result; none for a journal without lines.
    pub fn found(&self) -> Option<Authenticity> {
        self.found
    }

    /// Fails if the journal, which was checked, does not meet the demand. `started` is the start of
    /// its run.
    pub fn demand(
        &self,
        demand: TagDemand,
        started: Timestamp,
        path: &Path,
    ) -> Result<(), JournalError> {
        let path = path.to_path_buf();
        let may_lack_tags =
            |key: &JournalKey| demand == TagDemand::NoForeignLine && !key.covers(started);
        match self.found {
            _ if demand == TagDemand::Nothing => Ok(()),
            None | Some(Authenticity::Authenticated) => Ok(()),
            // Without a key, this user's journals never have tags.
            Some(Authenticity::Unauthenticated) if self.key.is_none_or(may_lack_tags) => Ok(()),
            Some(Authenticity::Unauthenticated) => Err(JournalError::Unauthenticated(path)),
            Some(Authenticity::OtherKey) => Err(JournalError::OtherKey(path)),
            Some(Authenticity::Foreign(line)) => Err(JournalError::ForeignLine { path, line }),
        }
    }
}

/// HMAC-SHA-256 (RFC 2104) with a key that is shorter than a block.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let padded = |with: u8| {
        let mut block = [with; BLOCK];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let inner = Sha256::new()
        .chain_update(padded(0x36))
        .chain_update(message);
    let outer = Sha256::new()
        .chain_update(padded(0x5c))
        .chain_update(inner.finalize());
    outer.finalize().into()
}

/// Compares all bytes, so that the time does not show where the first difference is.
fn is_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differences = one.iter().zip(other).map(|(one, other)| one ^ other);
    differences.fold(0, |all, bits| all | bits) == 0
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs
        .iter()
        .map(|[high, low]| Some(value(*high)? << 4 | value(*low)?))
        .collect::<Option<_>>()?;
    bytes.try_into().ok().filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests;
