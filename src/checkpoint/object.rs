//! Git's object ids, file modes, and tree entries.

use std::fmt;
use std::str::FromStr;

use git2::ObjectType;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha1::{Digest as _, Sha1};
use sha2::Sha256;

/// The object format of a repository (`extensions.objectFormat`). All ids in one repository have
/// the same format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectFormat {
    /// SHA-1: 20 bytes, 40 digits.
    #[default]
    Sha1,
    /// SHA-256: 32 bytes, 64 digits.
    Sha256,
}

/// An object id, or the checksum of a git file: a hash of either format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Zero after the last byte of a shorter id, so that ids compare like their digits.
    bytes: [u8; LONGEST],
    format: ObjectFormat,
}

/// The size of the longest id.
const LONGEST: usize = 32;

#[derive(Clone)]
pub(crate) enum Hasher {
    Sha1(Sha1),
    Sha256(Sha256),
}

/// The kind of a tree entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileMode {
    Regular,
    /// An executable file.
    Executable,
    Symlink,
    /// A commit of another repository.
    Gitlink,
}

/// A tree entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    pub mode: FileMode,
    pub id: ObjectId,
}

impl ObjectFormat {
    /// The size of an id in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// The format with this id size.
    const fn of_size(bytes: usize) -> Option<Self> {
        match bytes {
            20 => Some(Self::Sha1),
            32 => Some(Self::Sha256),
            _ => None,
        }
    }

    /// Starts a hash.
    pub(crate) fn hasher(self) -> Hasher {
        match self {
            Self::Sha1 => Hasher::Sha1(Sha1::new()),
            Self::Sha256 => Hasher::Sha256(Sha256::new()),
        }
    }

    pub(crate) fn digest(self, bytes: &[u8]) -> ObjectId {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The id of an object.
    pub(crate) fn name(self, kind: ObjectType, data: &[u8]) -> Result<ObjectId, git2::Error> {
        git2::Oid::hash_object_ext(kind, data, self.into()).map(ObjectId::from)
    }

    /// Takes an id off the beginning of some bytes; `None` if there are too few.
    pub(crate) fn take(self, rest: &mut &[u8]) -> Option<ObjectId> {
        // An index has thousands of ids: copies of a constant length need no call.
        match self {
            Self::Sha1 => take_sized::<20>(self, rest),
            Self::Sha256 => take_sized::<32>(self, rest),
        }
    }
}

fn take_sized<const SIZE: usize>(format: ObjectFormat, rest: &mut &[u8]) -> Option<ObjectId> {
    let (name, after) = rest.split_first_chunk::<SIZE>()?;
    *rest = after;
    let mut bytes = [0; LONGEST];
    *bytes.first_chunk_mut()? = *name;
    Some(ObjectId { bytes, format })
}

impl From<git2::ObjectFormat> for ObjectFormat {
    fn from(format: git2::ObjectFormat) -> Self {
        match format {
            git2::ObjectFormat::Sha1 => Self::Sha1,
            git2::ObjectFormat::Sha256 => Self::Sha256,
        }
    }
}

impl From<ObjectFormat> for git2::ObjectFormat {
    fn from(format: ObjectFormat) -> Self {
        match format {
            ObjectFormat::Sha1 => Self::Sha1,
            ObjectFormat::Sha256 => Self::Sha256,
        }
    }
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: impl AsRef<[u8]>) {
        match self {
            Self::Sha1(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> ObjectId {
        match self {
            Self::Sha1(hash) => ObjectId::padded(ObjectFormat::Sha1, &hash.finalize()),
            Self::Sha256(hash) => ObjectId::padded(ObjectFormat::Sha256, &hash.finalize()),
        }
    }
}

impl ObjectId {
    /// The empty tree in SHA-1.
    const EMPTY_TREE_SHA1: Self = Self::padded(
        ObjectFormat::Sha1,
        b"\x4b\x82\x5d\xc6\x42\xcb\x6e\xb9\xa0\x60\xe5\x4b\xf8\xd6\x92\x88\xfb\xee\x49\x04",
    );
    /// The empty tree in SHA-256.
    const EMPTY_TREE_SHA256: Self = Self::padded(
        ObjectFormat::Sha256,
        b"\x6e\xf1\x9b\x41\x22\x5c\x53\x69\xf1\xc1\x04\xd4\x5d\x8d\x85\xef\xa9\xb0\x57\xb5\x3b\x14\xb4\xb9\xb9\x39\xdd\x74\xde\xcc\x53\x21",
    );
    /// The empty blob in SHA-1.
    const EMPTY_BLOB_SHA1: Self = Self::padded(
        ObjectFormat::Sha1,
        b"\xe6\x9d\xe2\x9b\xb2\xd1\xd6\x43\x4b\x8b\x29\xae\x77\x5a\xd8\xc2\xe4\x8c\x53\x91",
    );
    /// The empty blob in SHA-256.
    const EMPTY_BLOB_SHA256: Self = Self::padded(
        ObjectFormat::Sha256,
        b"\x47\x3a\x0f\x4c\x3b\xe8\xa9\x36\x81\xa2\x67\xe3\xb1\xe9\xa7\xdc\xda\x11\x85\x43\x6f\xe1\x41\xf7\x74\x91\x20\xa3\x03\x72\x18\x13",
    );

    /// The null id, which git writes for no object.
    pub const fn zero(format: ObjectFormat) -> Self {
        Self {
            bytes: [0; LONGEST],
            format,
        }
    }

    pub const fn empty_tree(format: ObjectFormat) -> Self {
        match format {
            ObjectFormat::Sha1 => Self::EMPTY_TREE_SHA1,
            ObjectFormat::Sha256 => Self::EMPTY_TREE_SHA256,
        }
    }

    /// An id from bytes; `None` if their number is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self::padded(ObjectFormat::of_size(bytes.len())?, bytes))
    }

    /// An id from the right number of bytes.
    const fn padded(format: ObjectFormat, name: &[u8]) -> Self {
        let mut bytes = [0; LONGEST];
        bytes.split_at_mut(format.size()).0.copy_from_slice(name);
        Self { bytes, format }
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.split_at(self.format.size()).0
    }

    pub const fn format(&self) -> ObjectFormat {
        self.format
    }

    /// Whether it is the null id.
    pub fn is_zero(&self) -> bool {
        self.bytes == [0; LONGEST]
    }

    pub fn is_empty_tree(&self) -> bool {
        *self == Self::empty_tree(self.format)
    }

    pub fn is_empty_blob(&self) -> bool {
        *self == Self::EMPTY_BLOB_SHA1 || *self == Self::EMPTY_BLOB_SHA256
    }

    /// The abbreviated id.
    pub fn short(&self) -> String {
        self.to_string().chars().take(10).collect()
    }
}

impl From<git2::Oid> for ObjectId {
    fn from(oid: git2::Oid) -> Self {
        Self::padded(oid.object_format().into(), oid.as_bytes())
    }
}

impl From<ObjectId> for git2::Oid {
    #[expect(
        clippy::expect_used,
        reason = "20 or 32 bytes are always the name of an object"
    )]
    fn from(id: ObjectId) -> Self {
        Self::from_bytes(id.as_bytes()).expect("20 or 32 bytes")
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// The text is not an object id.
#[derive(Debug, thiserror::Error)]
#[error("an object is named by 40 or 64 hexadecimal digits")]
pub struct InvalidObjectId;

impl FromStr for ObjectId {
    type Err = InvalidObjectId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let format = ObjectFormat::of_size(text.len() / 2)
            .filter(|_| text.len().is_multiple_of(2) && text.is_ascii());
        let format = format.ok_or(InvalidObjectId)?;
        let mut bytes = [0; LONGEST];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| InvalidObjectId)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| InvalidObjectId)?;
        }
        Ok(Self { bytes, format })
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl FileMode {
    /// The mode in trees and in the index.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Regular => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Symlink => 0o120_000,
            Self::Gitlink => 0o160_000,
        }
    }

    /// The kind for a mode in a tree or index; `None` for folders and unknown modes.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits & 0o170_000 {
            0o100_000 if bits & 0o100 != 0 => Some(Self::Executable),
            0o100_000 => Some(Self::Regular),
            0o120_000 => Some(Self::Symlink),
            0o160_000 => Some(Self::Gitlink),
            _ => None,
        }
    }

    /// Whether it is a file with its own content, executable or not.
    pub const fn is_file(self) -> bool {
        matches!(self, Self::Regular | Self::Executable)
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:06o}", self.bits())
    }
}

impl Serialize for FileMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u32::from_str_radix(&text, 8)
            .ok()
            .and_then(Self::from_bits)
            .ok_or_else(|| D::Error::custom("not a mode of git"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_those_that_git_computes() {
        for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
            assert_eq!(
                format.name(ObjectType::Tree, b"").unwrap(),
                ObjectId::empty_tree(format)
            );
            let blob = format.name(ObjectType::Blob, b"").unwrap();
            assert!(blob.is_empty_blob() && !blob.is_empty_tree() && !blob.is_zero());
            assert_eq!(format.digest(b"blob 0\0"), blob, "both ways of hashing");
        }
    }

    #[test]
    fn names_of_both_formats_are_read_back_and_differ() {
        for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
            let id = format.digest(b"x");
            assert_eq!(id.to_string().len(), 2 * format.size());
            assert_eq!(id.to_string().parse::<ObjectId>().unwrap(), id);
            assert_eq!(ObjectId::from(git2::Oid::from(id)), id);
            assert_eq!(ObjectId::from_bytes(id.as_bytes()), Some(id));
            let mut rest = id.as_bytes();
            assert_eq!(
                (format.take(&mut rest), rest.len(), format.take(&mut rest)),
                (Some(id), 0, None)
            );
        }
        assert_ne!(
            ObjectId::zero(ObjectFormat::Sha1),
            ObjectId::zero(ObjectFormat::Sha256)
        );
        for length in [0, 39, 41, 63, 65] {
            assert!("a".repeat(length).parse::<ObjectId>().is_err(), "{length}");
        }
        assert!("g".repeat(64).parse::<ObjectId>().is_err());
    }
}
