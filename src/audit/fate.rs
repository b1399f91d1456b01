//! What became of the commits of checkpoints: where their changes are in today's branches.
//!
//! [`Fates`] checks every committed step once; `verify`, `log` and `show` report the result. A
//! checkpoint whose own commit is in no local branch or tag is searched by trailer and by content,
//! and content decides: naming a step is not enough. A checkpoint that is not found needs a
//! recorded reason, or a person's acceptance.

mod index;
mod matching;
mod reason;
mod survey;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::error::AuditError;
use super::history::{History, RecordSource, StepRecord};
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::reading::{Claim, CommitFacts};
use crate::checkpoint::repository::Repository;
use crate::journal::StepId;
use crate::journal::event::Acceptance;

use index::FateIndex;
use matching::Match;
use survey::BranchSurvey;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CommitFate {
    /// HEAD, a local branch or a tag contains it.
    InPlace,
    /// Another commit makes the same changes on another parent.
    Moved { to: ObjectId },
    /// Another commit has the same parent and files, but a different message, author or date.
    Reworded { to: ObjectId },
    /// One commit contains its changes together with those of other steps or of the user.
    Squashed {
        into: ObjectId,
        /// The steps whose changes are in it.
        steps: Vec<StepId>,
    },
    /// `piton finish --squash` combined it with others; piton keeps the original.
    Finished { by: StepId },
    /// The commit and the one that undid it are both gone.
    Undone { by: StepId },
    /// `piton rollback --hard` removed it from the branch.
    LeftBehind { by: StepId },
    /// It was made on a detached HEAD, and only piton keeps it.
    Detached,
    /// The run happened in another clone, and only a remote-tracking branch contains the commit
    /// here.
    Remote,
    /// The run happened in another clone on a detached HEAD, and its commit was not pushed.
    Elsewhere,
    /// Its changes were not found, and a person accepted that.
    Accepted {
        by: String,
        at: Timestamp,
        reason: String,
        /// The commits accepted in its place.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        instead: Vec<ObjectId>,
    },
    /// Its changes were not found.
    Rewritten {
        /// Commits that name the step but change something else.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        instead: Vec<ObjectId>,
        /// How the first of them differs.
        #[serde(skip_serializing_if = "Option::is_none")]
        difference: Option<String>,
    },
}

/// How a commit that names a step relates to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimFate {
    /// No step has such trailers.
    Unknown,
    /// It holds the step's changes today.
    Holds(StepId),
    /// It repeats the step's changes, which are elsewhere as well.
    Copy(StepId),
    /// It changes something else, and a person accepted that.
    Accepted(StepId, Acceptance),
    /// It changes something else; the step's own fate already reports that.
    Told(StepId),
    /// It changes something else, though the step's changes are elsewhere.
    Changed(StepId, String),
}

/// Which commits of the branches to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchReading {
    Everything,
    /// None, as long as every checkpoint's own commit is in a branch.
    IfNeeded,
}

pub struct Fates<'a> {
    pub(super) repository: &'a Repository,
    index: FateIndex<'a>,
    /// The commits of HEAD, local branches and tags.
    pub(super) reachable: BTreeSet<ObjectId>,
    survey: BranchSurvey,
    /// For the steps whose own commits are not reachable.
    by_step: BTreeMap<StepId, CommitFate>,
    /// Commits already assigned to one step; they cannot hold the changes of another as well.
    taken: BTreeSet<ObjectId>,
}

impl<'a> Fates<'a> {
    pub fn find(
        repository: &'a Repository,
        history: &'a History,
        reading: BranchReading,
    ) -> Result<Self, AuditError> {
        let reachable = repository.reachable()?;
        let mut fates = Self::indexed(repository, history, &reachable)?;
        let lost: BTreeSet<StepId> = fates
            .index
            .recorded()
            .filter(|it| !reachable.contains(&it.commit))
            .map(|it| it.step.id)
            .collect();
        if !lost.is_empty() || reading == BranchReading::Everything {
            fates.survey = BranchSurvey::of(repository, &fates.index, &reachable, &lost)?;
        }
        fates.reachable = reachable;
        fates.settle(history, lost)?;
        Ok(fates)
    }

    /// For commits that are in no branch yet. Only [`Self::judge_claim`] may be called.
    pub(super) fn of_logs(
        repository: &'a Repository,
        history: &'a History,
    ) -> Result<Self, AuditError> {
        Self::indexed(repository, history, &BTreeSet::new())
    }

    fn indexed(
        repository: &'a Repository,
        history: &'a History,
        in_place: &BTreeSet<ObjectId>,
    ) -> Result<Self, AuditError> {
        let index = FateIndex::new(repository, history, in_place)?;
        let (reachable, survey, by_step) =
            (BTreeSet::new(), BranchSurvey::default(), BTreeMap::new());
        Ok(Self {
            repository,
            index,
            reachable,
            survey,
            by_step,
            taken: BTreeSet::new(),
        })
    }

    /// `None` when the step has no commit.
    pub fn of(&self, step: &StepRecord) -> Option<CommitFate> {
        let commit = step.commit()?;
        if self.reachable.contains(&commit) {
            return Some(CommitFate::InPlace);
        }
        // A fast-forward to the commits of another run shares their fate.
        let owner = if step.is_fast_forward() {
            self.index.owner(commit)
        } else {
            Some(step.id)
        };
        let fate = owner.and_then(|owner| self.by_step.get(&owner).cloned());
        Some(fate.unwrap_or(CommitFate::Rewritten {
            instead: Vec::new(),
            difference: None,
        }))
    }

    /// The commits that claim to be checkpoints. Complete after [`BranchReading::Everything`].
    pub(super) fn claims(&self) -> &[Claim] {
        &self.survey.claims
    }

    /// Checkpoints of this repository that were found in other commits without a record: the step,
    /// its own commit and the commit that has its changes today. A clone lacks the old contents and
    /// needs such a record.
    pub fn unrecorded(&self) -> Vec<(StepId, ObjectId, ObjectId)> {
        let mut found = Vec::new();
        for (id, fate) in &self.by_step {
            let (CommitFate::Moved { to: place } | CommitFate::Squashed { into: place, .. }) = fate
            else {
                continue;
            };
            let recorded = self
                .index
                .get(*id)
                .filter(|recorded| recorded.source == RecordSource::Journal);
            let is_known = self.index.linked_to(*place).contains(id);
            found.extend(
                recorded
                    .filter(|_| !is_known)
                    .map(|recorded| (*id, recorded.commit, *place)),
            );
        }
        found
    }

    /// The steps whose changes are in a commit that is not their own: moved, reworded, squashed or
    /// copied.
    pub fn steps_in(&self, commit: ObjectId) -> Result<Vec<StepId>, AuditError> {
        let is_there = |(_, fate): &(&StepId, &CommitFate)| fate.place() == Some(commit);
        let steps: Vec<StepId> = self
            .by_step
            .iter()
            .filter(is_there)
            .map(|(step, _)| *step)
            .collect();
        if !steps.is_empty() {
            return Ok(steps);
        }
        let Some(facts) = self.repository.find_commit(commit)? else {
            return Ok(Vec::new());
        };
        let Some(trailers) = Trailers::find(&facts.message) else {
            return Ok(Vec::new());
        };
        Ok(
            match self.judge_claim(&Claim { commit, trailers }, &facts)? {
                ClaimFate::Holds(step) | ClaimFate::Copy(step) | ClaimFate::Accepted(step, _) => {
                    vec![step]
                }
                ClaimFate::Unknown | ClaimFate::Told(_) | ClaimFate::Changed(..) => Vec::new(),
            },
        )
    }

    pub fn judge_claim(&self, claim: &Claim, facts: &CommitFacts) -> Result<ClaimFate, AuditError> {
        let Some(id) = self.index.step_named(&claim.trailers) else {
            return Ok(ClaimFate::Unknown);
        };
        if let Some(fate) = self.by_step.get(&id) {
            if fate.place() == Some(claim.commit) {
                return Ok(ClaimFate::Holds(id));
            }
            if let CommitFate::Rewritten { instead, .. } | CommitFate::Accepted { instead, .. } =
                fate
                && instead.contains(&claim.commit)
            {
                return Ok(ClaimFate::Told(id));
            }
        }
        let difference = match self.judge(id, claim.commit, facts)? {
            Match::Same | Match::Squash(_) => return Ok(ClaimFate::Copy(id)),
            Match::Other(path) => format!("it changes something else: `{path}`"),
            Match::Unknown => "its content cannot be compared: objects are missing".to_owned(),
        };
        Ok(match self.acceptance_of(id, claim.commit, Some(facts))? {
            Some(acceptance) => ClaimFate::Accepted(id, acceptance.clone()),
            None => ClaimFate::Changed(id, difference),
        })
    }

    /// A person's acceptance of a commit in place of a step's own; its trailers do not matter.
    pub(super) fn acceptance_of(
        &self,
        id: StepId,
        commit: ObjectId,
        facts: Option<&CommitFacts>,
    ) -> Result<Option<&'a Acceptance>, AuditError> {
        for acceptance in self.index.acceptances(id) {
            for accepted in &acceptance.instead {
                if accepted.commit == commit || self.is_same(&accepted.delta, facts)? {
                    return Ok(Some(acceptance));
                }
            }
        }
        Ok(None)
    }

    /// Searches for steps whose commits are in no branch, most certain method first.
    fn settle(&mut self, history: &History, mut lost: BTreeSet<StepId>) -> Result<(), AuditError> {
        self.find_reworded(&mut lost);
        self.find_squashed_trees(&mut lost)?;
        self.find_named(&mut lost)?;
        self.find_recorded(&mut lost)?;
        self.explain(history, &mut lost)?;
        self.find_content(&mut lost)?;
        for id in lost {
            let fate = self.last_resort(id)?;
            self.by_step.insert(id, fate);
        }
        Ok(())
    }

    /// The result for a step that was not found.
    fn last_resort(&self, id: StepId) -> Result<CommitFate, AuditError> {
        let mut instead = self.survey.named(id).to_vec();
        instead.extend(
            self.index
                .replaced_by(id)
                .filter(|new| self.reachable.contains(new)),
        );
        instead.sort_unstable();
        instead.dedup();
        let mut difference = None;
        let mut accepted = Vec::new();
        for commit in &instead {
            let facts = self.repository.find_commit(*commit)?;
            accepted.extend(self.acceptance_of(id, *commit, facts.as_ref())?);
            if let (None, Some(facts)) = (&difference, &facts) {
                difference = match self.judge(id, *commit, facts)? {
                    Match::Other(path) => Some(format!("it changes something else: `{path}`")),
                    _ => Some("its content cannot be compared".to_owned()),
                };
            }
        }
        let gone = || {
            self.index
                .acceptances(id)
                .find(|acceptance| acceptance.instead.is_empty())
        };
        let acceptance = if instead.is_empty() {
            gone()
        } else {
            accepted.first().copied()
        };
        Ok(
            match acceptance.filter(|_| accepted.len() == instead.len()) {
                Some(Acceptance { by, at, reason, .. }) => CommitFate::Accepted {
                    by: by.clone(),
                    at: *at,
                    reason: reason.clone(),
                    instead,
                },
                None => CommitFate::Rewritten {
                    instead,
                    difference,
                },
            },
        )
    }
}

impl CommitFate {
    /// The commit that has the changes today, if it is not the recorded one.
    pub fn place(&self) -> Option<ObjectId> {
        match self {
            Self::Moved { to } | Self::Reworded { to } => Some(*to),
            Self::Squashed { into, .. } => Some(*into),
            _ => None,
        }
    }

    /// A short label for lists; empty for `InPlace`.
    pub fn label(&self) -> String {
        match self {
            Self::InPlace => String::new(),
            Self::Moved { to } => format!("moved to {}", to.short()),
            Self::Reworded { to } => format!("reworded as {}", to.short()),
            Self::Squashed { into, .. } => format!("squashed into {}", into.short()),
            Self::Finished { by } => format!("squashed by {by}"),
            Self::Undone { by } => format!("gone with its undo {by}"),
            Self::LeftBehind { by } => format!("left behind by {by}"),
            Self::Detached => "on no branch".to_owned(),
            Self::Remote => "only in a remote-tracking branch".to_owned(),
            Self::Elsewhere => "not here".to_owned(),
            Self::Accepted { by, .. } => format!("rewritten, accepted by {by}"),
            Self::Rewritten { .. } => "rewritten".to_owned(),
        }
    }

    /// A sentence about the commit of a step; `None` for `InPlace` and for breaks, which are
    /// reported as findings.
    pub(super) fn note(&self, commit: ObjectId, step: StepId) -> Option<String> {
        let commit = format!("commit {} of `{step}`", commit.short());
        Some(match self {
            Self::InPlace | Self::Rewritten { .. } => return None,
            Self::Moved { to } => {
                format!("{commit} was moved: {} makes the same changes", to.short())
            }
            Self::Reworded { to } => format!("{commit} was reworded as {}", to.short()),
            Self::Squashed { into, steps } => {
                let others: Vec<String> = steps
                    .iter()
                    .filter(|other| **other != step)
                    .map(|other| format!("`{other}`"))
                    .collect();
                let with = if others.is_empty() {
                    String::new()
                } else {
                    format!(" with {}", others.join(", "))
                };
                format!("{commit} was squashed into {}{with}", into.short())
            }
            Self::Finished { by } => format!("{commit} was squashed by `{by}`"),
            Self::Undone { by } => format!("{commit} was undone by `{by}`, and both are gone"),
            Self::LeftBehind { by } => format!("{commit} was dropped by `{by}`"),
            Self::Detached => format!("{commit} was made on a detached HEAD: only piton keeps it"),
            Self::Remote => {
                format!("{commit} is in no local branch: only a remote-tracking branch has it")
            }
            Self::Elsewhere => format!("{commit} was made in another clone and is not here"),
            Self::Accepted { by, at, reason, .. } => {
                format!("{commit} was rewritten; {by} accepted that at {at}: {reason}")
            }
        })
    }
}

/// The commit that has the changes of a step today: its own, or its replacement.
pub fn commit_today(
    repository: &Repository,
    history: &History,
    step: &StepRecord,
) -> Result<Option<ObjectId>, AuditError> {
    let Some(commit) = history.commit_of(step) else {
        return Ok(None);
    };
    let mut steps = history.runs.iter().flat_map(|run| &run.steps);
    let Some(owner) = steps.find(|it| it.commit() == Some(commit) && !it.is_fast_forward()) else {
        return Ok(Some(commit));
    };
    let fate = Fates::find(repository, history, BranchReading::IfNeeded)?.of(owner);
    Ok(Some(fate.and_then(|fate| fate.place()).unwrap_or(commit)))
}

/// The first step whose changes are in a commit that is not its own.
pub fn step_in(
    repository: &Repository,
    history: &History,
    commit: ObjectId,
) -> Result<Option<StepId>, AuditError> {
    let fates = Fates::find(repository, history, BranchReading::IfNeeded)?;
    Ok(fates.steps_in(commit)?.first().copied())
}
