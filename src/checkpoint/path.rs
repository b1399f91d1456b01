//! The path of a file in a repository, as git stores it.
//!
//! Bytes with `/` between folders, relative to the top of the work tree; not necessarily UTF-8 or
//! printable. JSON contains such a path literally if possible, and otherwise quoted as git does
//! (`"bad\377"`); both are read as the same bytes.

use std::borrow::Borrow;
use std::ffi::OsStr;
use std::fmt;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The path of a file or folder below the top of a work tree.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    /// A path from git's bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The path of a file below the top of a work tree, without following links; `None` if it is
    /// outside. Both must be absolute.
    pub fn find_below(top: &Path, path: &Path) -> Option<Self> {
        let mut plain = std::path::PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    plain.pop();
                }
                Component::CurDir => {}
                part => plain.push(part),
            }
        }
        Some(Self(
            plain
                .strip_prefix(top)
                .ok()?
                .as_os_str()
                .as_bytes()
                .to_vec(),
        ))
    }

    /// Git's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path for the file system, relative to the top of the work tree.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Whether this is the top itself.
    pub fn is_top(&self) -> bool {
        self.0.is_empty()
    }

    /// Its folder; the top for a name without `/`.
    #[must_use]
    pub fn parent(&self) -> Self {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(at) => Self(self.0[..at].to_vec()),
            None => Self::default(),
        }
    }

    /// The last component.
    pub fn file_name(&self) -> &[u8] {
        self.0
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or_default()
    }

    /// The components, top first.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0
            .split(|byte| *byte == b'/')
            .filter(|part| !part.is_empty())
    }

    /// The path of something inside this folder.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        let mut bytes = self.0.clone();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self(bytes)
    }

    /// Whether it lies inside a folder (not the folder itself).
    pub fn is_inside(&self, folder: &Self) -> bool {
        folder.is_top()
            || (self.0.len() > folder.0.len()
                && self.0.starts_with(&folder.0)
                && self.0.get(folder.0.len()) == Some(&b'/'))
    }

    /// Whether git would accept it in a work tree: no `..`, no empty component, no variant of
    /// `.git`.
    pub fn is_safe(&self) -> bool {
        super::no_follow::is_safe(self)
    }

    /// The text for JSON.
    fn encoded(&self) -> String {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.starts_with('"') => text.to_owned(),
            _ => quote(&self.0),
        }
    }
}

impl Borrow<[u8]> for RepoPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for RepoPath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

/// The form that git prints: quoted if it contains control characters, quotes or bytes that are not
/// UTF-8.
impl fmt::Display for RepoPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text)
                if !text
                    .chars()
                    .any(|c| c.is_control() || c == '"' || c == '\\') =>
            {
                formatter.write_str(text)
            }
            _ => formatter.write_str(&quote(&self.0)),
        }
    }
}

impl RepoPath {
    /// Parses a path as git prints it: in quotes if it contains special characters.
    pub(crate) fn from_git(text: &[u8]) -> Option<Self> {
        if text.starts_with(b"\"") {
            unquote(text).map(Self)
        } else {
            Some(Self(text.to_vec()))
        }
    }
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RepoPath({self})")
    }
}

impl Serialize for RepoPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encoded())
    }
}

impl<'de> Deserialize<'de> for RepoPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_git(text.as_bytes())
            .ok_or_else(|| D::Error::custom("a path is not quoted as git quotes it"))
    }
}

/// The first paths of a list and the number of the others.
pub fn listed(paths: &[RepoPath]) -> String {
    const SHOWN: usize = 5;
    let mut text = paths
        .iter()
        .take(SHOWN)
        .map(|path| format!("`{path}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if paths.len() > SHOWN {
        let _ = write!(text, " and {} more", paths.len() - SHOWN);
    }
    text
}

fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                c if c.is_control() => {
                    let mut buffer = [0; 4];
                    for byte in c.encode_utf8(&mut buffer).bytes() {
                        let _ = write!(text, "\\{byte:03o}");
                    }
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\{byte:03o}");
        }
    }
    text.push('"');
    text
}

fn unquote(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = bytes.strip_prefix(b"\"")?.strip_suffix(b"\"")?.iter();
    let mut plain = Vec::with_capacity(bytes.len());
    while let Some(byte) = rest.next() {
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        plain.push(match rest.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 0x07,
            b'b' => 0x08,
            b'v' => 0x0b,
            b'f' => 0x0c,
            escaped @ (b'"' | b'\\') => *escaped,
            first @ b'0'..=b'3' => {
                let mut value = first - b'0';
                for _ in 0..2 {
                    let digit = rest.next().filter(|digit| matches!(digit, b'0'..=b'7'))?;
                    value = value * 8 + (digit - b'0');
                }
                value
            }
            _ => return None,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_plain_name_is_shown_and_stored_as_it_is() {
        let path = RepoPath::from("src/größe.rs");
        assert_eq!(path.to_string(), "src/größe.rs");
        assert_eq!(serde_json::to_string(&path).unwrap(), "\"src/größe.rs\"");
    }

    #[test]
    fn an_odd_name_is_shown_on_one_line() {
        assert_eq!(RepoPath::from("a\nb\u{1b}").to_string(), "\"a\\nb\\033\"");
        assert_eq!(
            RepoPath::from_bytes(&b"bad\xff"[..]).to_string(),
            "\"bad\\377\""
        );
    }

    #[test]
    fn inside_is_by_component() {
        let folder = RepoPath::from("a");
        assert!(RepoPath::from("a/b").is_inside(&folder));
        assert!(!RepoPath::from("ab").is_inside(&folder));
        assert!(!RepoPath::from("a").is_inside(&folder));
    }

    proptest! {
        #[test]
        fn any_name_survives_json(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let path = RepoPath::from_bytes(bytes);
            let json = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<RepoPath>(&json).unwrap(), path);
        }
    }
}
