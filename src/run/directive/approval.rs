//! Handles approvals: of a question, or of the changes of a step.
//!
//! An approval is for exact content. It names the tree that was shown, is refused if the disk has
//! changed since, and includes the person's edits to the files of the run.

use serde_json::Value;

use super::Run;
use super::answer::settle_found;
use super::execute_step::HUMAN_ACTION;
use super::prose::ManualStep;
use crate::audit::history::{History, StepRecord};
use crate::checkpoint::attribution::Attributed;
use crate::checkpoint::snapshot::Snapshot;
use crate::item::directive::{CheckpointMode, StepAction};
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::StepStatus;
use crate::problem::Code;
use crate::run::checkpoint;
use crate::run::checkpoint::Chosen;
use crate::run::error::RunError;
use crate::run::recorder::Recorder;
use crate::run::review::{Review, Reviewed, look};
use crate::run::session::Session;
use crate::run::settle::{self, Settlement, Wording};
use crate::values;

impl Run<'_> {
    /// What the waiting step asks to approve, read from disk; `None` if an approval would commit
    /// nothing.
    pub fn review(&mut self) -> Result<Option<Review>, RunError> {
        Ok(self.reviewed()?.map(|reviewed| reviewed.review))
    }

    /// The changes of a review as a diff.
    pub fn diff_of(&self, review: &Review) -> Result<Vec<u8>, RunError> {
        Ok(self
            .session
            .repository()?
            .diff(&review.changes, None)?
            .bytes)
    }

    fn reviewed(&mut self) -> Result<Option<Reviewed>, RunError> {
        let Some(open) = self.state().and_then(|state| state.open.clone()) else {
            return Ok(None);
        };
        if open.before.is_none() {
            return Ok(None);
        }
        let (history, _) = History::load(&self.session.recorder.folders.runs)?;
        let id = self.id();
        let Some(run) = history.run(id) else {
            return Ok(None);
        };
        let Some(checkpointer) = &mut self.session.checkpointer else {
            return Ok(None);
        };
        Ok(look(checkpointer, &history, run, &open)?)
    }

    /// Records an approval, if it matches the files on disk.
    pub(super) fn approve(
        &mut self,
        open: &StepRecord,
        shown: Option<&str>,
    ) -> Result<Option<Reviewed>, RunError> {
        let reviewed = match self.reviewed() {
            // The checkpoint will fail for the same reason and report it.
            Err(RunError::Checkpoint(_)) if shown.is_none() => return Ok(None),
            reviewed => reviewed?,
        };
        let found = reviewed.as_ref().map(|reviewed| reviewed.review.tree);
        if let Some(shown) = shown
            && !found.is_some_and(|found| found.to_string().starts_with(shown))
        {
            return Err(RunError::ShownChanged {
                run: self.id(),
                shown: shown.to_owned(),
                found,
            });
        }
        if let Some(Reviewed { review, .. }) = &reviewed {
            let (step, tree, edits) = (open.id.step, review.tree, review.edits.clone());
            let approver = self.approver.clone();
            self.session.recorder.record(&Event::Approved {
                step,
                tree,
                edits,
                approver,
            })?;
        }
        Ok(reviewed)
    }

    /// Handles the approval of a question.
    pub(super) fn take_yes(
        &mut self,
        open: &StepRecord,
        gate: &str,
        result: Value,
        reviewed: Option<Reviewed>,
    ) -> Result<(), RunError> {
        if gate == HUMAN_ACTION {
            return self.settle_work(&ManualStep::of(open), &[], Ok(result));
        }
        let (step, name) = (open.id.step, open.name.as_str());
        self.session.recorder.record(&Event::Answered {
            step,
            result,
            error: None,
            paths: Vec::new(),
            approver: self.approver.clone(),
        })?;
        let reviewed = reviewed.filter(|reviewed| !reviewed.found.delta.changes.is_empty());
        let (Some(reviewed), Some(before)) = (reviewed, open.before.as_ref()) else {
            return self.session.recorder.finish_step(
                step,
                name,
                StepStatus::Succeeded,
                None,
                None,
                None,
            );
        };
        let given = self.pinned.options.message.clone();
        let wording = Wording {
            name,
            given: given.as_deref(),
            ..Wording::default()
        };
        let settlement = take_edits(&mut self.session, step, wording, before, reviewed)?;
        self.end_decided(open, settlement, None)
    }

    /// Handles the approval of the changes of a step: commits them.
    pub(super) fn keep_changes(
        &mut self,
        open: &StepRecord,
        message: Option<&str>,
        reviewed: Option<Reviewed>,
    ) -> Result<(), RunError> {
        let (operation, worded) = match (&open.kind, self.step().map(|step| step.action)) {
            (StepKind::Checkpoint { .. }, Some(StepAction::Checkpoint { operation, message })) => {
                let filled = |text: &str| {
                    self.with_scope(None, |scope| values::fill_text(text, scope))
                        .ok()
                };
                (filled(&operation), message.and_then(|text| filled(&text)))
            }
            _ => (None, None),
        };
        let given = message
            .map(str::to_owned)
            .or(worded)
            .or_else(|| self.pinned.options.message.clone());
        let wording = Wording {
            name: &open.name,
            operation: operation.as_deref(),
            given: given.as_deref(),
            tool: open.tool.as_deref(),
            ..Wording::default()
        };
        let mut open = open.clone();
        if open
            .answer
            .as_ref()
            .is_some_and(|(_, error)| error.as_ref().is_some_and(|it| it.code == Code::Rejected))
        {
            // The rejection was interrupted before it took effect; the last answer counts.
            let (step, result, paths) = (open.id.step, Value::Null, Vec::new());
            self.session.recorder.record(&Event::Answered {
                step,
                result,
                error: None,
                paths,
                approver: self.approver.clone(),
            })?;
            open.answer = None;
        }
        let settlement = match reviewed {
            Some(reviewed) => commit_reviewed(&mut self.session, &open, wording, reviewed)?,
            None => commit_found(&mut self.session, &open, wording)?,
        };
        self.end_decided(&open, settlement, None)
    }
}

/// The person's edits during the question become part of the step: committed, or kept for the
/// next checkpoint.
fn take_edits(
    session: &mut Session<'_>,
    step: u32,
    wording: Wording<'_>,
    before: &Snapshot,
    reviewed: Reviewed,
) -> Result<Settlement, RunError> {
    let (recorder, checkpointer) = session.with_git()?;
    let Reviewed { found, .. } = reviewed;
    record_found(recorder, step, &found)?;
    if recorder.mode == CheckpointMode::Auto {
        settle::commit_or_explain(recorder, checkpointer, step, wording, before, found)
    } else {
        let reason = "left uncommitted until the next checkpoint step";
        settle::keep(recorder, step, reason, &found.delta)
    }
}

/// Commits the changes that were recorded before the person was asked.
fn commit_found(
    session: &mut Session<'_>,
    open: &StepRecord,
    wording: Wording<'_>,
) -> Result<Settlement, RunError> {
    settle_found(session, open, |recorder, checkpointer, before, found| {
        let step = open.id.step;
        settle::commit_or_explain(recorder, checkpointer, step, wording, before, found)
    })
}

/// Commits exactly what was approved.
fn commit_reviewed(
    session: &mut Session<'_>,
    open: &StepRecord,
    wording: Wording<'_>,
    reviewed: Reviewed,
) -> Result<Settlement, RunError> {
    let step = open.id.step;
    let Some(before) = &open.before else {
        return session.recorder.skip_checkpoint(step);
    };
    let (recorder, checkpointer) = session.with_git()?;
    let Reviewed {
        review,
        now,
        found,
        left,
    } = reviewed;
    match left.map(Chosen::of) {
        None => {
            if !review.edits.is_empty() {
                record_found(recorder, step, &found)?;
            }
            settle::commit_or_explain(recorder, checkpointer, step, wording, before, found)
        }
        Some(Ok(chosen)) => {
            let chosen = Chosen {
                edits: review.edits,
                ..chosen
            };
            checkpoint::commit_selected(
                recorder,
                checkpointer,
                step,
                wording,
                &now,
                now.clone(),
                chosen,
            )
        }
        Some(Err(err)) => settle::failed(recorder, step, err),
    }
}

fn record_found(
    recorder: &mut Recorder<'_>,
    step: u32,
    found: &Attributed,
) -> Result<(), RunError> {
    let (after, delta, outside) = (found.after.clone(), found.delta.clone(), Vec::new());
    recorder.record(&Event::ChangesFound {
        step,
        after,
        delta,
        outside,
    })?;
    Ok(())
}
