//! Replaced commits: which ones, and whether the new ones make the same changes.
//!
//! The content decides. A commit makes recorded changes if these, applied in order to its parent's
//! files, give its own files; if the parent has other lines, they are merged three-way, as git
//! does.

use std::collections::BTreeMap;

use super::delta::Change;
use super::error::CheckpointError;
use super::merge::{Merged, Scratch, three_way_in_memory};
use super::message::Trailers;
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::reading::{Claim, CommitFacts, FileDifference};
use super::repository::Repository;
use super::tree;

/// Whether a commit makes the recorded changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Likeness {
    Same,
    /// It makes other changes; the first differing file.
    Other(RepoPath),
    /// The content for the comparison is missing.
    Unknown,
}

/// What a commit may change besides the recorded changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Exactly,
    /// Other files too.
    AtLeast,
}

/// A commit that names a step, and its replacement.
#[derive(Clone, Debug)]
pub struct CommitReplacement {
    pub old: ObjectId,
    pub new: ObjectId,
    /// The trailers of the old commit.
    pub(crate) trailers: Trailers,
    /// The changes of the new commit.
    pub delta: Vec<Change>,
    /// Whether the new commit makes the same changes on another parent, alone or together with
    /// other commits that it replaces.
    pub same_changes: bool,
}

/// A file while recorded changes are applied to it.
struct Applied {
    /// The entry in the parent.
    there: Option<Entry>,
    /// The entry after the changes so far.
    now: Option<Entry>,
    /// The entry before the first change.
    first: Option<Entry>,
    /// The entry after the last change.
    last: Option<Entry>,
}

impl Repository {
    /// The replacements among pairs of old and new commits whose old commit names a step.
    pub fn replacements(
        &self,
        pairs: &[(ObjectId, ObjectId)],
    ) -> Result<Vec<CommitReplacement>, CheckpointError> {
        let mut found: Vec<(CommitReplacement, Vec<Change>, CommitFacts)> = Vec::new();
        for (old, new) in pairs.iter().filter(|(old, new)| old != new) {
            let Some(before) = self
                .find_commit(*old)?
                .filter(|facts| facts.message.contains("Piton-Run:"))
            else {
                continue;
            };
            let (Some(trailers), Some(after)) =
                (Trailers::find(&before.message), self.find_commit(*new)?)
            else {
                continue;
            };
            let recorded = self.changes(self.base_of(&before)?, before.tree)?;
            let same_changes = self.likeness(&recorded, &after)? == Likeness::Same;
            let delta = self.changes(self.base_of(&after)?, after.tree)?;
            let replacement = CommitReplacement {
                old: *old,
                new: *new,
                trailers,
                delta,
                same_changes,
            };
            found.push((replacement, recorded, after));
        }
        let mut squashed: BTreeMap<ObjectId, Vec<&[Change]>> = BTreeMap::new();
        for (replacement, recorded, _) in &found {
            squashed.entry(replacement.new).or_default().push(recorded);
        }
        let mut united = Vec::new();
        for (new, deltas) in squashed.iter().filter(|(_, deltas)| deltas.len() > 1) {
            let Some((.., facts)) = found
                .iter()
                .find(|(replacement, ..)| replacement.new == *new)
            else {
                continue;
            };
            if self.composition(deltas, facts, Extent::Exactly)? == Likeness::Same {
                united.push(*new);
            }
        }
        let judged = |(mut replacement, ..): (CommitReplacement, Vec<Change>, CommitFacts)| {
            replacement.same_changes |= united.contains(&replacement.new);
            replacement
        };
        Ok(found.into_iter().map(judged).collect())
    }

    /// Whether a commit makes recorded changes, on any parent.
    pub fn likeness(
        &self,
        recorded: &[Change],
        commit: &CommitFacts,
    ) -> Result<Likeness, CheckpointError> {
        self.composition(&[recorded], commit, Extent::Exactly)
    }

    /// Whether a commit makes the changes of several consecutive deltas, on any parent.
    pub fn composition(
        &self,
        deltas: &[&[Change]],
        commit: &CommitFacts,
        extent: Extent,
    ) -> Result<Likeness, CheckpointError> {
        let Ok(base) = self.base_of(commit) else {
            return Ok(Likeness::Unknown);
        };
        let Ok(differences) = self.differences(base, commit.tree) else {
            return Ok(Likeness::Unknown);
        };
        let (objects, scratch) = (Objects::of(self)?, Scratch::default());
        let mut files: BTreeMap<&RepoPath, Applied> = BTreeMap::new();
        for change in deltas.iter().copied().flatten() {
            if !files.contains_key(&change.path) {
                let Ok(there) = tree::find(&objects, base, &change.path) else {
                    return Ok(Likeness::Unknown);
                };
                files.insert(
                    &change.path,
                    Applied {
                        there,
                        now: there,
                        first: change.before,
                        last: change.after,
                    },
                );
            }
            let Some(file) = files.get_mut(&change.path) else {
                continue;
            };
            match three_way_in_memory(&objects, &scratch, change.before, file.now, change.after) {
                Ok(Merged::Clean(merged)) => (file.now, file.last) = (merged, change.after),
                Ok(Merged::Overlap) => return Ok(Likeness::Other(change.path.clone())),
                Err(_) => return Ok(Likeness::Unknown),
            }
        }
        Ok(compare(&files, &differences, extent)
            .map_or(Likeness::Same, |path| Likeness::Other(path.clone())))
    }

    /// The tree of a commit's parent.
    pub(crate) fn base_of(&self, commit: &CommitFacts) -> Result<ObjectId, CheckpointError> {
        commit
            .parents
            .first()
            .map_or(Ok(self.empty_tree()), |parent| self.stored_tree_of(*parent))
    }

    /// Guesses what the last rewrite of HEAD replaced, if no hook reported it: an amended commit is
    /// the previous HEAD, and after a rebase the unique trailers identify the commits.
    pub fn guess_replaced(
        &self,
        cause: &str,
    ) -> Result<Vec<(ObjectId, ObjectId)>, CheckpointError> {
        let Some(head) = self.head()?.commit else {
            return Ok(Vec::new());
        };
        if cause == "amend" {
            return Ok(self
                .amended(head)
                .map(|old| (old, head))
                .into_iter()
                .collect());
        }
        let Some(left) = self.find_named("ORIG_HEAD") else {
            return Ok(Vec::new());
        };
        let claims = |base, tip| -> Result<Vec<Claim>, CheckpointError> {
            self.claims(
                &self
                    .commits_between(Some(base), Some(tip))?
                    .into_iter()
                    .collect(),
            )
        };
        let new = claims(left, head)?;
        let same = |old: &Claim| {
            new.iter()
                .find(|new| new.trailers == old.trailers)
                .map(|new| (old.commit, new.commit))
        };
        Ok(claims(head, left)?.iter().filter_map(same).collect())
    }

    /// The commit that HEAD left when its last commit was amended.
    fn amended(&self, head: ObjectId) -> Option<ObjectId> {
        let (old, new, why) = self.last_move_of_head()?;
        (why.starts_with("commit (amend)") && new == head).then_some(old)
    }
}

/// The first file in which a commit differs from its parent plus the recorded changes.
fn compare<'p>(
    files: &BTreeMap<&'p RepoPath, Applied>,
    differences: &'p [FileDifference],
    extent: Extent,
) -> Option<&'p RepoPath> {
    let made: BTreeMap<&RepoPath, Option<Entry>> = differences
        .iter()
        .map(|(path, _, after)| (path, *after))
        .collect();
    let mut unmade = None;
    let mut makes_something = false;
    for (path, file) in files {
        if made.get(path).copied().unwrap_or(file.there) != file.now {
            return Some(*path);
        }
        let is_made = file.there != file.now;
        makes_something |= is_made;
        // The parent already contains this change: another commit made it.
        if !is_made && file.first != file.last {
            unmade = unmade.or(Some(*path));
        }
    }
    match extent {
        Extent::Exactly if unmade.is_some() && !makes_something => unmade,
        Extent::Exactly => made.into_keys().find(|path| !files.contains_key(path)),
        Extent::AtLeast if unmade.is_some() => unmade,
        Extent::AtLeast if makes_something => None,
        Extent::AtLeast => files
            .keys()
            .next()
            .copied()
            .or_else(|| differences.first().map(|(path, ..)| path)),
    }
}
