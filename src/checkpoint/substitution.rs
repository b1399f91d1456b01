//! Objects that git shows in the place of others: `refs/replace/` and `info/grafts`.
//!
//! piton reads objects as they are stored, so what it verifies is not what `git log` shows there.

use super::error::CheckpointError;
use super::files::read_if_there;
use super::object::ObjectId;
use super::repository::Repository;

/// Where git looks for objects that replace others.
const REPLACE: &str = "refs/replace/";

/// An object that git shows as another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Substitution {
    /// The object.
    pub object: ObjectId,
    /// What makes git do so.
    pub by: Substitute,
}

/// What makes git show an object as another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Substitute {
    /// A ref below `refs/replace/`.
    Replacement,
    /// A line of `info/grafts`.
    Graft,
}

impl Substitute {
    /// Its name, as a user can look for it.
    pub fn place(self) -> &'static str {
        match self {
            Self::Replacement => "refs/replace",
            Self::Graft => "info/grafts",
        }
    }
}

impl Repository {
    /// The objects that git shows as others.
    pub fn substitutions(&self) -> Result<Vec<Substitution>, CheckpointError> {
        let mut found = Vec::new();
        for pin in self.refs_like(&format!("{REPLACE}*"))? {
            let object = pin.name.strip_prefix(REPLACE).and_then(|name| name.parse().ok());
            found.extend(object.map(|object| Substitution { object, by: Substitute::Replacement }));
        }
        let grafts = read_if_there(&self.git.commondir().join("info").join("grafts"))?.unwrap_or_default();
        for line in String::from_utf8_lossy(&grafts).lines().filter(|line| !line.starts_with('#')) {
            let object = line.split_ascii_whitespace().next().and_then(|name| name.parse().ok());
            found.extend(object.map(|object| Substitution { object, by: Substitute::Graft }));
        }
        Ok(found)
    }
}
