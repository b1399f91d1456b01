//! Commits that others have taken the place of: which ones, and whether they still make the same changes.

use std::collections::BTreeSet;

use super::delta::Change;
use super::error::CheckpointError;
use super::merge::{Merged, three_way_name};
use super::message::Trailers;
use super::object::ObjectId;
use super::objects::Objects;
use super::path::RepoPath;
use super::reading::{Claim, CommitFacts};
use super::repository::Repository;
use super::tree;

/// Whether a commit makes changes that were made somewhere else before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// It does.
    Same,
    /// It makes others; this is the first file in which they differ.
    Other(RepoPath),
    /// Content that would have to be compared is not here.
    Unknown,
}

/// A commit that names a step, and the one in its place.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// The commit that was replaced.
    pub old: ObjectId,
    /// The commit in its place.
    pub new: ObjectId,
    /// What the old one says about where it comes from.
    pub(crate) trailers: Trailers,
    /// What the new one changes against its parent.
    pub delta: Vec<Change>,
    /// Whether the new one says the same, and changes the same, on another base.
    pub same_changes: bool,
}

impl Repository {
    /// Those of some pairs of commits, old and new, whose old one names a step.
    pub fn replacements(&self, pairs: &[(ObjectId, ObjectId)]) -> Result<Vec<Replacement>, CheckpointError> {
        let mut found = Vec::new();
        for (old, new) in pairs.iter().filter(|(old, new)| old != new) {
            let Some(before) = self.find_commit(*old)?.filter(|facts| facts.message.contains("Piton-Run:")) else {
                continue;
            };
            let (Some(trailers), Some(after)) = (Trailers::find(&before.message), self.find_commit(*new)?) else {
                continue;
            };
            let recorded = self.changes(self.base_of(&before)?, before.tree)?;
            let is_same = Trailers::find(&after.message).as_ref() == Some(&trailers)
                && self.likeness(&recorded, &after)? == Likeness::Same;
            let delta = self.changes(self.base_of(&after)?, after.tree)?;
            found.push(Replacement { old: *old, new: *new, trailers, delta, same_changes: is_same });
        }
        Ok(found)
    }

    /// Whether a commit makes recorded changes, on whatever base it is built.
    pub fn likeness(&self, recorded: &[Change], commit: &CommitFacts) -> Result<Likeness, CheckpointError> {
        let objects = Objects::of(self)?;
        let Ok(base) = self.base_of(commit) else { return Ok(Likeness::Unknown) };
        for change in recorded {
            let there = tree::find(&objects, base, &change.path)?;
            let made = tree::find(&objects, commit.tree, &change.path)?;
            match three_way_name(&objects, change.before, there, change.after) {
                Ok(Merged::Clean(expected)) if expected == made => {}
                Ok(_) => return Ok(Likeness::Other(change.path.clone())),
                Err(_) => return Ok(Likeness::Unknown),
            }
        }
        let known: BTreeSet<&RepoPath> = recorded.iter().map(|change| &change.path).collect();
        let more = self.differences(base, commit.tree)?.into_iter().find(|(path, ..)| !known.contains(path));
        Ok(more.map_or(Likeness::Same, |(path, ..)| Likeness::Other(path)))
    }

    /// The files that a commit is built on.
    pub(crate) fn base_of(&self, commit: &CommitFacts) -> Result<ObjectId, CheckpointError> {
        self.tree_of(commit.parents.first().copied())
    }

    /// What the last rewriting of HEAD replaced, where nobody says so: an amended commit is the one that HEAD has left
    /// just now, and after a rebase the trailers, which are nobody else's, tell which commit is which.
    pub fn guess_replaced(&self, cause: &str) -> Result<Vec<(ObjectId, ObjectId)>, CheckpointError> {
        let Some(head) = self.head()?.commit else { return Ok(Vec::new()) };
        if cause == "amend" {
            return Ok(self.amended(head).map(|old| (old, head)).into_iter().collect());
        }
        let Some(left) = self.find_named("ORIG_HEAD") else { return Ok(Vec::new()) };
        let claims = |base, tip| -> Result<Vec<Claim>, CheckpointError> {
            self.claims(&self.commits_between(Some(base), Some(tip))?.into_iter().collect())
        };
        let new = claims(left, head)?;
        let same =
            |old: &Claim| new.iter().find(|new| new.trailers == old.trailers).map(|new| (old.commit, new.commit));
        Ok(claims(head, left)?.iter().filter_map(same).collect())
    }

    /// The commit that HEAD left when its last commit was amended.
    fn amended(&self, head: ObjectId) -> Option<ObjectId> {
        let log = self.git.reflog("HEAD").ok()?;
        let last = log.get(0)?;
        let is_amended = last.message_bytes().is_some_and(|text| text.starts_with(b"commit (amend)"));
        (is_amended && ObjectId::from(last.id_new()) == head).then(|| last.id_old().into())
    }
}
