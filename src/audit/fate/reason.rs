//! Recorded reasons why the commit of a checkpoint is in no branch.

use std::collections::{BTreeMap, BTreeSet};

use super::index::RecordedCheckpoint;
use super::{CommitFate, Fates};
use crate::audit::error::AuditError;
use crate::audit::history::{History, RecordSource, StepRecord};
use crate::audit::retention::kept_steps;
use crate::checkpoint::object::ObjectId;
use crate::journal::event::{FinishHow, StepKind};
use crate::journal::summary::StepStatus;
use crate::journal::{RunId, StepId};

struct Reasons {
    /// `piton rollback --hard`: the step, and the commits it removed.
    left: Vec<(StepId, BTreeSet<ObjectId>)>,
    /// `piton finish --squash`: the step, and the original commits that piton keeps.
    squashed: Vec<(StepId, BTreeSet<ObjectId>)>,
    /// The squashed runs, even if their commits are not here.
    finished: BTreeMap<RunId, StepId>,
    /// Undone steps, and the undo that still counts.
    undone_by: BTreeMap<StepId, StepId>,
    /// Commits that only remote-tracking branches contain.
    remote: BTreeSet<ObjectId>,
}

impl Fates<'_> {
    /// Removes steps with a recorded reason from `lost`.
    pub(super) fn explain(
        &mut self,
        history: &History,
        lost: &mut BTreeSet<StepId>,
    ) -> Result<(), AuditError> {
        if lost.is_empty() {
            return Ok(());
        }
        let reasons = self.reasons(history, lost)?;
        let gone = lost.clone();
        for id in &gone {
            let Some(recorded) = self.index.get(*id) else {
                continue;
            };
            if let Some(fate) = self.reason(recorded, &reasons, &gone)? {
                self.by_step.insert(*id, fate);
                lost.remove(id);
            }
        }
        Ok(())
    }

    fn reason(
        &self,
        recorded: &RecordedCheckpoint<'_>,
        reasons: &Reasons,
        gone: &BTreeSet<StepId>,
    ) -> Result<Option<CommitFate>, AuditError> {
        let RecordedCheckpoint {
            step,
            commit,
            source,
            ..
        } = recorded;
        let holds = |(_, commits): &&(StepId, BTreeSet<ObjectId>)| commits.contains(commit);
        if let Some((by, _)) = reasons.squashed.iter().find(holds) {
            return Ok(Some(CommitFate::Finished { by: *by }));
        }
        if let Some((by, _)) = reasons
            .left
            .iter()
            .filter(|(by, _)| *by > step.id)
            .find(holds)
        {
            return Ok(Some(CommitFate::LeftBehind { by: *by }));
        }
        // A step and its undo cancel out, so nothing is missing when both are gone.
        let by = match &step.kind {
            StepKind::Undo { of, .. } | StepKind::Redo { of, .. } => {
                let all_gone = step.reverses().iter().all(|id| gone.contains(id));
                reasons
                    .undone_by
                    .get(of)
                    .filter(|by| **by == step.id && all_gone)
            }
            _ => None,
        };
        let by = by.or_else(|| {
            reasons
                .undone_by
                .get(&step.id)
                .filter(|by| gone.contains(by))
        });
        if let Some(by) = by {
            return Ok(Some(CommitFate::Undone { by: *by }));
        }
        if self.repository.kept_commit(&step.id.kept("commit"))? == Some(*commit) {
            return Ok(Some(CommitFate::Detached));
        }
        if *source == RecordSource::Journal {
            return Ok(None);
        }
        if reasons.remote.contains(commit) {
            return Ok(Some(CommitFate::Remote));
        }
        // A commit that exists here but is in no branch was dropped here.
        if !self
            .repository
            .find_commit(*commit)
            .is_ok_and(|found| found.is_none())
        {
            return Ok(None);
        }
        let finished = reasons
            .finished
            .get(&step.id.run)
            .map(|by| CommitFate::Finished { by: *by });
        Ok(finished.or_else(|| step.was_detached().then_some(CommitFate::Elsewhere)))
    }

    fn reasons(&self, history: &History, lost: &BTreeSet<StepId>) -> Result<Reasons, AuditError> {
        let undone = history.undone();
        let has_foreign = lost.iter().any(|id| {
            self.index
                .get(*id)
                .is_some_and(|it| it.source == RecordSource::Log)
        });
        let mut reasons = Reasons {
            left: Vec::new(),
            squashed: Vec::new(),
            finished: BTreeMap::new(),
            undone_by: BTreeMap::new(),
            remote: if has_foreign {
                self.repository.reachable_by_remotes()?
            } else {
                BTreeSet::new()
            },
        };
        for step in history.runs.iter().flat_map(|run| &run.steps) {
            match &step.kind {
                StepKind::RollBack { .. } => {
                    let tip = step.before.as_ref().and_then(|before| before.head.commit);
                    reasons
                        .left
                        .extend(tip.map(|tip| (step.id, self.unreachable_from(tip))));
                }
                StepKind::Finish {
                    of,
                    how: FinishHow::Squash,
                    tip,
                } if step.status == Some(StepStatus::Succeeded) => {
                    reasons.finished.insert(*of, step.id);
                    // A branch may contain the commits of several runs. All of them are kept.
                    let kept = self
                        .repository
                        .kept_commit(&kept_steps(*of))?
                        .filter(|kept| *tip == Some(*kept));
                    reasons
                        .squashed
                        .extend(kept.map(|tip| (step.id, self.unreachable_from(tip))));
                }
                StepKind::Undo { .. } | StepKind::Redo { .. }
                    if step.counts_as_reversal() && !undone.contains(&step.id) =>
                {
                    reasons
                        .undone_by
                        .extend(step.reverses().into_iter().map(|of| (of, step.id)));
                }
                _ => {}
            }
        }
        Ok(reasons)
    }

    /// The ancestors of a commit, with itself, that no branch contains.
    fn unreachable_from(&self, tip: ObjectId) -> BTreeSet<ObjectId> {
        let mut found = BTreeSet::new();
        let mut next = vec![tip];
        while let Some(commit) = next.pop() {
            if self.reachable.contains(&commit) || !found.insert(commit) {
                continue;
            }
            if let Ok(Some(facts)) = self.repository.find_commit(commit) {
                next.extend(facts.parents);
            }
        }
        found
    }
}

impl StepRecord {
    fn was_detached(&self) -> bool {
        use crate::journal::event::Decision;
        matches!(&self.decision, Some(Decision::Commit { target, .. }) if target == "HEAD")
    }
}
