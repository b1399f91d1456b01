//! What git stores: names of objects, kinds of files, and one file of a tree.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The SHA-1 name of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 20]);

/// What kind of file a tree names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileMode {
    /// An ordinary file.
    Regular,
    /// A file that may be executed.
    Executable,
    /// A symbolic link; its content is the target.
    Symlink,
    /// A commit of another repository.
    Gitlink,
}

/// One file of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// Its kind.
    pub mode: FileMode,
    /// Its content.
    pub id: ObjectId,
}

impl ObjectId {
    /// No object: what git writes where there is none.
    pub const ZERO: Self = Self([0; 20]);
    /// The tree without files.
    pub const EMPTY_TREE: Self =
        Self(*b"\x4b\x82\x5d\xc6\x42\xcb\x6e\xb9\xa0\x60\xe5\x4b\xf8\xd6\x92\x88\xfb\xee\x49\x04");

    /// Takes over the bytes of a name.
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The bytes of the name.
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The beginning of the name, as people quote it.
    pub fn short(&self) -> String {
        self.to_string().chars().take(10).collect()
    }
}

impl From<git2::Oid> for ObjectId {
    fn from(oid: git2::Oid) -> Self {
        let mut bytes = [0; 20];
        bytes.copy_from_slice(oid.as_bytes());
        Self(bytes)
    }
}

impl From<ObjectId> for git2::Oid {
    #[expect(clippy::expect_used, reason = "20 bytes are always the name of an object")]
    fn from(id: ObjectId) -> Self {
        Self::from_bytes(&id.0).expect("20 bytes")
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// Text that is not the name of an object.
#[derive(Debug, thiserror::Error)]
#[error("an object is named by 40 hexadecimal digits")]
pub struct InvalidObjectId;

impl FromStr for ObjectId {
    type Err = InvalidObjectId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 20];
        if text.len() != 40 || !text.is_ascii() {
            return Err(InvalidObjectId);
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| InvalidObjectId)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| InvalidObjectId)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl FileMode {
    /// The number in trees and in the index.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Regular => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Symlink => 0o120_000,
            Self::Gitlink => 0o160_000,
        }
    }

    /// The kind of a number in a tree or index; folders and unknown kinds have none.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits & 0o170_000 {
            0o100_000 if bits & 0o100 != 0 => Some(Self::Executable),
            0o100_000 => Some(Self::Regular),
            0o120_000 => Some(Self::Symlink),
            0o160_000 => Some(Self::Gitlink),
            _ => None,
        }
    }

    /// Whether it is a file with content of its own, executable or not.
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
