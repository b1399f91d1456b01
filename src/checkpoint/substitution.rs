//! Objects that git shows in place of others: `refs/replace/` and `info/grafts`.
//!
//! Verification reads the stored objects, which may differ from what `git log` shows. New commits
//! start from what git shows: the index and the files on disk come from there, and so would git's
//! next commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::CheckpointError;
use super::files::read_if_there;
use super::object::ObjectId;
use super::reference::RefStorage;
use super::repository::Repository;

/// The prefix of replacement refs.
const REPLACE: &str = "refs/replace/";

/// Git does not follow longer chains either.
const MAX_DEPTH: usize = 5;

/// The objects with a ref below `refs/replace/`, and their replacements.
pub(crate) type Replacements = BTreeMap<ObjectId, ObjectId>;

/// The replacement that git shows for an object; usually the object itself.
pub(crate) fn shown(replacements: &Replacements, id: ObjectId) -> ObjectId {
    let mut id = id;
    for _ in 0..MAX_DEPTH {
        match replacements.get(&id) {
            Some(other) => id = *other,
            None => break,
        }
    }
    id
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Substitution {
    pub object: ObjectId,
    pub by: Substitute,
}

/// Why git shows another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Substitute {
    /// A ref below `refs/replace/`.
    Replacement,
    /// A line of `info/grafts`.
    Graft,
}

impl Substitute {
    /// Its name, for messages.
    pub fn place(self) -> &'static str {
        match self {
            Self::Replacement => "refs/replace",
            Self::Graft => "info/grafts",
        }
    }
}

impl Repository {
    /// The replacements. Loaded once; [`Self::forget_replacements`] drops the cache.
    pub(crate) fn substitutes(&self) -> Result<Arc<Replacements>, CheckpointError> {
        if let Some(known) = self.substitutes.borrow().as_ref() {
            return Ok(Arc::clone(known));
        }
        let mut found = Replacements::new();
        if self.has_replacements()? {
            for pin in self.refs_like(&format!("{REPLACE}*"))? {
                let object = pin
                    .name
                    .strip_prefix(REPLACE)
                    .and_then(|name| name.parse().ok());
                found.extend(object.map(|object| (object, pin.commit)));
            }
        }
        let found = Arc::new(found);
        *self.substitutes.borrow_mut() = Some(Arc::clone(&found));
        Ok(found)
    }

    /// The tree that git shows for a commit, if it differs from the stored one.
    pub fn substituted_tree(&self, commit: ObjectId) -> Result<Option<ObjectId>, CheckpointError> {
        if self.substitutes()?.is_empty() {
            return Ok(None);
        }
        let (shown, stored) = (self.tree_of(Some(commit))?, self.stored_tree_of(commit)?);
        Ok((shown != stored).then_some(shown))
    }

    /// Drops the cached replacements, because a step may have added some.
    pub(crate) fn forget_replacements(&self) {
        *self.substitutes.borrow_mut() = None;
    }

    /// Whether there may be any, without reading every ref.
    fn has_replacements(&self) -> Result<bool, CheckpointError> {
        if self.flag("core.useReplaceRefs") == Some(false) {
            return Ok(false);
        }
        if self.storage == RefStorage::Table {
            return Ok(true);
        }
        let common = self.git.commondir();
        if common
            .join(REPLACE)
            .read_dir()
            .is_ok_and(|mut entries| entries.next().is_some())
        {
            return Ok(true);
        }
        let packed = read_if_there(&common.join("packed-refs"))?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&packed).contains(&format!(" {REPLACE}")))
    }

    /// The objects that git shows as others.
    pub fn substitutions(&self) -> Result<Vec<Substitution>, CheckpointError> {
        let mut found = Vec::new();
        for pin in self.refs_like(&format!("{REPLACE}*"))? {
            let object = pin
                .name
                .strip_prefix(REPLACE)
                .and_then(|name| name.parse().ok());
            found.extend(object.map(|object| Substitution {
                object,
                by: Substitute::Replacement,
            }));
        }
        let grafts =
            read_if_there(&self.git.commondir().join("info").join("grafts"))?.unwrap_or_default();
        for line in String::from_utf8_lossy(&grafts)
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            let object = line
                .split_ascii_whitespace()
                .next()
                .and_then(|name| name.parse().ok());
            found.extend(object.map(|object| Substitution {
                object,
                by: Substitute::Graft,
            }));
        }
        Ok(found)
    }
}
