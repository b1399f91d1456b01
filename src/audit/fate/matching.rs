//! Finds the commit that has the changes of a lost checkpoint.
//!
//! The most certain signs come first: same parent and files; same files at the end of the same line
//! of commits; commits that name the step; commits reported by git's `post-rewrite`; finally any
//! commit that makes the changes. The first two compare content by definition; the others are
//! compared file by file.

use std::collections::{BTreeMap, BTreeSet};

use super::{CommitFate, Fates};
use crate::audit::error::AuditError;
use crate::checkpoint::delta::Change;
use crate::checkpoint::object::{Entry, ObjectId};
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reading::CommitFacts;
use crate::checkpoint::rewriting::{Extent, Likeness};
use crate::journal::StepId;

/// How many commits to follow back to the base of a squashed commit.
const LINE: usize = 1000;
/// How many steps before and after a step to try as parts of one squashed commit.
const NEIGHBOURS: usize = 32;

/// How a commit relates to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It makes the same changes.
    Same,
    /// It makes the changes of these steps, including the one searched for.
    Squash(Vec<StepId>),
    /// It makes other changes; the path is the first difference.
    Other(RepoPath),
    /// Content to compare is missing here.
    Unknown,
}

impl Fates<'_> {
    pub(super) fn judge(
        &self,
        id: StepId,
        commit: ObjectId,
        facts: &CommitFacts,
    ) -> Result<Match, AuditError> {
        let Some(recorded) = self.index.get(id) else {
            return Ok(Match::Unknown);
        };
        let is_single = facts.parents.len() <= 1;
        let named = self.index.steps_named_in(&facts.message);
        if is_single
            && named.len() > 1
            && named.contains(&id)
            && self.composes(&named, facts, Extent::Exactly)?
        {
            return Ok(Match::Squash(named));
        }
        let likeness = if facts.parents.len().max(1) == recorded.parents.len().max(1) {
            self.repository.likeness(&recorded.delta, facts)?
        } else {
            Likeness::Unknown
        };
        if likeness == Likeness::Same {
            return Ok(Match::Same);
        }
        let branch = self.index.branch_of(id);
        if is_single
            && let Ok(at) = branch.binary_search(&id)
            && let Some(steps) = self.squash_around(branch, at, facts, Extent::Exactly)?
        {
            return Ok(Match::Squash(steps));
        }
        // If contents are missing, trust the record from the time when they existed, as elsewhere.
        let linked = self.index.linked_to(commit);
        let extent = if named.is_empty() {
            Extent::AtLeast
        } else {
            Extent::Exactly
        };
        if linked.contains(&id) && self.compose(&linked, facts, extent)? == Likeness::Unknown {
            return Ok(if linked.len() == 1 {
                Match::Same
            } else {
                Match::Squash(linked)
            });
        }
        Ok(match likeness {
            Likeness::Other(path) => Match::Other(path),
            Likeness::Same | Likeness::Unknown => Match::Unknown,
        })
    }

    pub(super) fn is_same(
        &self,
        delta: &[Change],
        facts: Option<&CommitFacts>,
    ) -> Result<bool, AuditError> {
        let Some(facts) = facts else { return Ok(false) };
        Ok(self.repository.likeness(delta, facts)? == Likeness::Same)
    }

    /// Same parent and files: only message, author or date differ.
    pub(super) fn find_reworded(&mut self, lost: &mut BTreeSet<StepId>) {
        // Newest first: of two identical steps, the later one is the one that is still there.
        for id in lost.clone().into_iter().rev() {
            let Some(recorded) = self.index.get(id) else {
                continue;
            };
            let Some(to) = recorded
                .tree
                .and_then(|tree| self.survey.twin(&recorded.parents, tree))
            else {
                continue;
            };
            if self.may_hold(to, &[id]) && self.taken.insert(to) {
                self.by_step.insert(id, CommitFate::Reworded { to });
                lost.remove(&id);
            }
        }
    }

    /// Finds commits with the files of a checkpoint, made directly on the base of its line of
    /// commits.
    pub(super) fn find_squashed_trees(
        &mut self,
        lost: &mut BTreeSet<StepId>,
    ) -> Result<(), AuditError> {
        for id in lost.clone().into_iter().rev() {
            let Some(tree) = self.index.get(id).and_then(|recorded| recorded.tree) else {
                continue;
            };
            for (into, parent) in self.survey.with_tree(tree).to_vec() {
                if !lost.contains(&id) {
                    break;
                }
                if !self.taken.contains(&into)
                    && let Some(steps) = self.line_between(parent, into, id)?
                    && self.may_hold(into, &steps)
                    && self.is_newer(into, id)?
                {
                    self.squash(into, &steps, lost);
                }
            }
        }
        Ok(())
    }

    /// Finds commits that name the step.
    pub(super) fn find_named(&mut self, lost: &mut BTreeSet<StepId>) -> Result<(), AuditError> {
        for id in lost.clone() {
            for commit in self.survey.named(id).to_vec() {
                if !lost.contains(&id) {
                    break;
                }
                self.settle_by(id, commit, lost)?;
            }
        }
        Ok(())
    }

    /// Finds commits that `post-rewrite` recorded.
    pub(super) fn find_recorded(&mut self, lost: &mut BTreeSet<StepId>) -> Result<(), AuditError> {
        for id in lost.clone() {
            let here = |new: &ObjectId| self.reachable.contains(new);
            let links: Vec<ObjectId> = self.index.replaced_by(id).filter(here).collect();
            for commit in links {
                if !lost.contains(&id) {
                    break;
                }
                self.settle_by(id, commit, lost)?;
            }
        }
        Ok(())
    }

    fn settle_by(
        &mut self,
        id: StepId,
        commit: ObjectId,
        lost: &mut BTreeSet<StepId>,
    ) -> Result<(), AuditError> {
        let Some(facts) = self.repository.find_commit(commit)? else {
            return Ok(());
        };
        match self.judge(id, commit, &facts)? {
            Match::Same => {
                let is_reworded = self
                    .index
                    .get(id)
                    .is_some_and(|it| it.parents == facts.parents);
                let fate = if is_reworded {
                    CommitFate::Reworded { to: commit }
                } else {
                    CommitFate::Moved { to: commit }
                };
                self.taken.insert(commit);
                self.by_step.insert(id, fate);
                lost.remove(&id);
            }
            Match::Squash(steps) => self.squash(commit, &steps, lost),
            Match::Other(_) | Match::Unknown => {}
        }
        Ok(())
    }

    fn squash(&mut self, into: ObjectId, steps: &[StepId], lost: &mut BTreeSet<StepId>) {
        for id in steps {
            if lost.remove(id) {
                self.by_step.insert(
                    *id,
                    CommitFate::Squashed {
                        into,
                        steps: steps.to_vec(),
                    },
                );
            }
        }
    }

    /// Whether a commit names one of these steps, or no step at all.
    fn may_hold(&self, commit: ObjectId, steps: &[StepId]) -> bool {
        let Ok(Some(facts)) = self.repository.find_commit(commit) else {
            return false;
        };
        let named = self.index.steps_named_in(&facts.message);
        named.is_empty() || named.iter().any(|id| steps.contains(id))
    }

    /// The steps from `base` to `last`, oldest first; `None` when other commits lie in between.
    fn line_between(
        &self,
        base: Option<ObjectId>,
        other: ObjectId,
        last: StepId,
    ) -> Result<Option<Vec<StepId>>, AuditError> {
        let parent_of = |id: StepId| {
            self.index
                .get(id)
                .and_then(|recorded| recorded.parents.first().copied())
        };
        let mut steps = vec![last];
        let mut at = parent_of(last);
        for _ in 0..LINE {
            if at == base {
                steps.reverse();
                return Ok(Some(steps));
            }
            let Some(commit) = at.filter(|commit| *commit != other) else {
                return Ok(None);
            };
            if let Some(id) = self.index.owner(commit) {
                steps.push(id);
                at = parent_of(id);
            } else {
                let Some(facts) = self.repository.find_commit(commit)? else {
                    return Ok(None);
                };
                at = facts.parents.first().copied();
            }
        }
        Ok(None)
    }

    fn composes(
        &self,
        steps: &[StepId],
        facts: &CommitFacts,
        extent: Extent,
    ) -> Result<bool, AuditError> {
        Ok(self.compose(steps, facts, extent)? == Likeness::Same)
    }

    fn compose(
        &self,
        steps: &[StepId],
        facts: &CommitFacts,
        extent: Extent,
    ) -> Result<Likeness, AuditError> {
        let recorded: Option<Vec<_>> = steps.iter().map(|id| self.index.get(*id)).collect();
        let Some(recorded) = recorded else {
            return Ok(Likeness::Unknown);
        };
        let deltas: Vec<&[Change]> = recorded.iter().map(|it| it.delta.as_ref()).collect();
        Ok(self.repository.composition(&deltas, facts, extent)?)
    }

    /// The largest set of steps around one whose changes together equal those of a commit.
    fn squash_around(
        &self,
        steps: &[StepId],
        at: usize,
        facts: &CommitFacts,
        extent: Extent,
    ) -> Result<Option<Vec<StepId>>, AuditError> {
        let Ok(base) = self.repository.base_of(facts) else {
            return Ok(None);
        };
        let Ok(differences) = self.repository.differences(base, facts.tree) else {
            return Ok(None);
        };
        let touched: BTreeSet<RepoPath> = differences.into_iter().map(|(path, ..)| path).collect();
        let end = steps.len().min(at + NEIGHBOURS + 1);
        for from in at.saturating_sub(NEIGHBOURS)..=at {
            for to in (at + 1..=end).rev() {
                let Some(window) = steps.get(from..to) else {
                    continue;
                };
                let is_alone = window.len() == 1 && extent == Extent::Exactly;
                if !is_alone
                    && self.could_be(window, &touched, extent)
                    && self.composes(window, facts, extent)?
                {
                    return Ok(Some(window.to_vec()));
                }
            }
        }
        Ok(None)
    }

    /// Cheap check by file names: whether the changes of some steps together affect the files that
    /// a commit changes.
    fn could_be(&self, steps: &[StepId], touched: &BTreeSet<RepoPath>, extent: Extent) -> bool {
        let mut files: BTreeMap<&RepoPath, (Option<Entry>, Option<Entry>)> = BTreeMap::new();
        for change in steps
            .iter()
            .filter_map(|id| self.index.get(*id))
            .flat_map(|recorded| recorded.delta.iter())
        {
            files
                .entry(&change.path)
                .or_insert((change.before, change.after))
                .1 = change.after;
        }
        match extent {
            Extent::Exactly => touched.iter().all(|path| files.contains_key(path)),
            Extent::AtLeast => files
                .iter()
                .all(|(path, (first, last))| first == last || touched.contains(*path)),
        }
    }

    /// Finds commits without trailers that make the changes, alone or with those of other steps.
    pub(super) fn find_content(&mut self, lost: &mut BTreeSet<StepId>) -> Result<(), AuditError> {
        if lost.is_empty() {
            return Ok(());
        }
        let by_path = self.free_by_path(lost)?;
        for id in lost.clone() {
            let Some(recorded) = self.index.get(id) else {
                continue;
            };
            let paths = recorded
                .delta
                .iter()
                .filter_map(|change| by_path.get(&change.path));
            let candidates: BTreeSet<ObjectId> = paths.flatten().copied().collect();
            let open: Vec<StepId> = self
                .index
                .branch_of(id)
                .iter()
                .filter(|it| lost.contains(it))
                .copied()
                .collect();
            let Ok(at) = open.binary_search(&id) else {
                continue;
            };
            for commit in candidates {
                let Some(facts) = self.repository.find_commit(commit)? else {
                    continue;
                };
                if self.taken.contains(&commit) || !self.is_newer(commit, id)? {
                    continue;
                }
                if self.is_same(&recorded.delta, Some(&facts))? {
                    self.taken.insert(commit);
                    self.by_step.insert(id, CommitFate::Moved { to: commit });
                    lost.remove(&id);
                    break;
                }
                if let Some(steps) = self.squash_around(&open, at, &facts, Extent::AtLeast)? {
                    self.squash(commit, &steps, lost);
                    break;
                }
            }
        }
        Ok(())
    }

    /// The commits that name no step, by the files that lost steps changed.
    fn free_by_path(
        &self,
        lost: &BTreeSet<StepId>,
    ) -> Result<BTreeMap<RepoPath, Vec<ObjectId>>, AuditError> {
        let recorded = lost.iter().filter_map(|id| self.index.get(*id));
        let wanted: BTreeSet<&RepoPath> = recorded
            .flat_map(|recorded| recorded.delta.iter().map(|change| &change.path))
            .collect();
        let mut by_path: BTreeMap<RepoPath, Vec<ObjectId>> = BTreeMap::new();
        for commit in &self.survey.free {
            let Some(facts) = self.repository.find_commit(*commit)? else {
                continue;
            };
            let Ok(base) = self.repository.base_of(&facts) else {
                continue;
            };
            let Ok(differences) = self.repository.differences(base, facts.tree) else {
                continue;
            };
            for (path, ..) in differences
                .into_iter()
                .filter(|(path, ..)| wanted.contains(path))
            {
                by_path.entry(path).or_default().push(*commit);
            }
        }
        Ok(by_path)
    }

    /// Whether a commit is not an ancestor of the step: an ancestor cannot contain the step's work.
    /// Returns false when this is unknown.
    fn is_newer(&self, commit: ObjectId, id: StepId) -> Result<bool, AuditError> {
        if self
            .index
            .get(id)
            .is_some_and(|recorded| recorded.parents.is_empty())
        {
            return Ok(true);
        }
        let base = self.known_base(id)?;
        Ok(base.is_some_and(|base| !self.repository.leads_to(base, commit)))
    }

    /// The nearest ancestor of a step that exists here, skipping those of other lost steps.
    fn known_base(&self, id: StepId) -> Result<Option<ObjectId>, AuditError> {
        let mut at = id;
        for _ in 0..LINE {
            let Some(parent) = self
                .index
                .get(at)
                .and_then(|recorded| recorded.parents.first().copied())
            else {
                return Ok(None);
            };
            if self.repository.has_object(parent)? {
                return Ok(Some(parent));
            }
            match self.index.owner(parent) {
                Some(owner) => at = owner,
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}
