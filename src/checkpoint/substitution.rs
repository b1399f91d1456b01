//! Objects that git shows in the place of others: `refs/replace/` and `info/grafts`.
//!
//! Verification reads objects as they are stored, so what it says is not what `git log` shows there. Commits begin with
//! what git shows: the index and the files on disk come from there, and the next commit of git holds it as well.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::CheckpointError;
use super::files::read_if_there;
use super::object::ObjectId;
use super::reference::RefStorage;
use super::repository::Repository;

/// Where git looks for objects that replace others.
const REPLACE: &str = "refs/replace/";

/// Git does not follow longer chains either.
const MAX_DEPTH: usize = 5;

/// The objects of `refs/replace/`, with what git shows in their place.
pub(crate) type Replacements = BTreeMap<ObjectId, ObjectId>;

/// What git shows in the place of an object; mostly the object itself.
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
    /// What git shows in the place of objects. Looked up once; [`Self::forget_replacements`] looks again.
    pub(crate) fn substitutes(&self) -> Result<Arc<Replacements>, CheckpointError> {
        if let Some(known) = self.substitutes.borrow().as_ref() {
            return Ok(Arc::clone(known));
        }
        let mut found = Replacements::new();
        if self.has_replacements()? {
            for pin in self.refs_like(&format!("{REPLACE}*"))? {
                let object = pin.name.strip_prefix(REPLACE).and_then(|name| name.parse().ok());
                found.extend(object.map(|object| (object, pin.commit)));
            }
        }
        let found = Arc::new(found);
        *self.substitutes.borrow_mut() = Some(Arc::clone(&found));
        Ok(found)
    }

    /// The files that git shows for a commit, where those are not the files that it stores.
    pub fn substituted_tree(&self, commit: ObjectId) -> Result<Option<ObjectId>, CheckpointError> {
        if self.substitutes()?.is_empty() {
            return Ok(None);
        }
        let (shown, stored) = (self.tree_of(Some(commit))?, self.stored_tree_of(commit)?);
        Ok((shown != stored).then_some(shown))
    }

    /// Looks for replacements again when they are asked for next: a step may have made some.
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
        if common.join(REPLACE).read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Ok(true);
        }
        let packed = read_if_there(&common.join("packed-refs"))?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&packed).contains(&format!(" {REPLACE}")))
    }

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
