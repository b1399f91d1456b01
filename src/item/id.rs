//! The identifiers of items.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

const MAX_LENGTH: usize = 128;

/// The id of an item: `name` or `category/name`.
///
/// Letters, digits, `_`, `-` and `.` in parts separated by `/`. It is never a path that leaves a
/// folder and contains no invisible or shell characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidItemId {
    #[error("an id must not be empty")]
    Empty,
    #[error("an id has at most {MAX_LENGTH} characters, this one has {0}")]
    TooLong(usize),
    /// A part between slashes is empty or does not begin with a letter or digit.
    #[error("`{0}` is not an id: each part must begin with a letter or digit")]
    Part(String),
    #[error("an id may hold letters, digits, `_`, `-`, `.` and `/`, not {0}")]
    Character(String),
}

impl ItemId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part, without category.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The part before the last slash.
    pub fn category(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(category, _)| category)
    }
}

impl FromStr for ItemId {
    type Err = InvalidItemId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(InvalidItemId::Empty);
        }
        let length = text.chars().count();
        if length > MAX_LENGTH {
            return Err(InvalidItemId::TooLong(length));
        }
        if let Some(bad) = text
            .chars()
            .find(|c| !(c.is_ascii_alphanumeric() || "_-./".contains(*c)))
        {
            return Err(InvalidItemId::Character(describe(bad)));
        }
        if text
            .split('/')
            .any(|part| !part.starts_with(|c: char| c.is_ascii_alphanumeric()))
        {
            return Err(InvalidItemId::Part(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for ItemId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Describes a character, so that an invisible one can be recognized.
fn describe(character: char) -> String {
    match character {
        ' ' => "a space".to_owned(),
        visible if visible.is_ascii_graphic() => format!("`{visible}`"),
        hidden => format!("U+{:04X}", u32::from(hidden)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_names_with_optional_categories() {
        for good in [
            "deploy",
            "03_search",
            "core/git_checkpoint",
            "rye/core/runtimes/python_runtime",
            "github-cli",
            "a.b",
        ] {
            assert_eq!(
                good.parse::<ItemId>().map(|id| id.to_string()),
                Ok(good.to_owned())
            );
        }
        let id: ItemId = "a/b/c".parse().unwrap();
        assert_eq!((id.category(), id.name()), (Some("a/b"), "c"));
    }

    #[test]
    fn ids_never_leave_a_folder_or_hide_characters() {
        for bad in [
            "",
            "../x",
            "a/../b",
            "/abs",
            "a//b",
            "a/",
            "-x",
            ".hidden",
            "a b",
            "a\0",
            "a\u{200c}b",
            "dеploy",
            "a;b",
            "a\n",
        ] {
            assert!(bad.parse::<ItemId>().is_err(), "{bad:?}");
        }
        assert_eq!(
            "a\u{202e}".parse::<ItemId>().unwrap_err().to_string(),
            "an id may hold letters, digits, `_`, `-`, `.` and `/`, not U+202E"
        );
        assert_eq!(
            "send mail".parse::<ItemId>().unwrap_err().to_string(),
            "an id may hold letters, digits, `_`, `-`, `.` and `/`, not a space"
        );
    }
}
