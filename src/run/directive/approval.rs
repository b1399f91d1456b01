//! A person says yes: to a question, or to the changes of a step.
//!
//! An approval is for content. It names the tree that was shown, is refused where the disk has changed since, and
//! takes along what the person edited in the files of the run while it waited.

use serde_json::Value;

use super::Run;
use super::act::HUMAN_ACTION;
use crate::audit::history::{History, StepRecord};
use crate::checkpoint::attribution::Attributed;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::snapshot::Snapshot;
use crate::item::directive::{CheckpointMode, StepAction};
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::StepStatus;
use crate::problem::Code;
use crate::run::checkpoint::Chosen;
use crate::run::error::RunError;
use crate::run::review::{Review, Reviewed, look};
use crate::run::session::Session;
use crate::run::settle::{Settlement, Wording};
use crate::run::values;

impl Run<'_, '_> {
    /// What the waiting step is about, from the disk; none where nothing would be committed by an approval.
    pub fn review(&mut self) -> Result<Option<Review>, RunError> {
        Ok(self.reviewed()?.map(|reviewed| reviewed.review))
    }

    /// The changes of a review as a diff.
    pub fn diff_of(&self, review: &Review) -> Result<Vec<u8>, RunError> {
        Ok(self.session.repository()?.diff(&review.changes, None)?.bytes)
    }

    fn reviewed(&mut self) -> Result<Option<Reviewed>, RunError> {
        let Some(open) = self.state().and_then(|state| state.open.clone()) else { return Ok(None) };
        if open.before.is_none() {
            return Ok(None);
        }
        let (history, _) = History::load(&self.session.folders().runs)?;
        let id = self.id();
        let Some(run) = history.run(id) else { return Ok(None) };
        let Some(checkpointer) = &mut self.session.checkpointer else { return Ok(None) };
        Ok(look(checkpointer, &history, run, &open)?)
    }

    /// Writes an approval down, if it is for what is on disk.
    pub(super) fn approve(&mut self, open: &StepRecord, shown: Option<&str>) -> Result<Option<Reviewed>, RunError> {
        let reviewed = match self.reviewed() {
            // The checkpoint fails for the same reason, and says it.
            Err(RunError::Checkpoint(_)) if shown.is_none() => return Ok(None),
            reviewed => reviewed?,
        };
        let found = reviewed.as_ref().map(|reviewed| reviewed.review.tree);
        if let Some(shown) = shown
            && !found.is_some_and(|found| found.to_string().starts_with(shown))
        {
            return Err(RunError::ShownChanged { run: self.id(), shown: shown.to_owned(), found });
        }
        if let Some(Reviewed { review, .. }) = &reviewed {
            let (step, tree, edits) = (open.id.step, review.tree, review.edits.clone());
            self.session.record(&Event::Approved { step, tree, edits })?;
        }
        Ok(reviewed)
    }

    /// A person says yes to a question.
    pub(super) fn take_yes(
        &mut self,
        open: &StepRecord,
        gate: &str,
        result: Value,
        reviewed: Option<Reviewed>,
    ) -> Result<(), RunError> {
        if gate == HUMAN_ACTION {
            return self.settle_work(open.id.step, &open.name, open.before.as_ref(), &[], Ok(result), "", &[]);
        }
        let (step, name) = (open.id.step, open.name.as_str());
        self.session.record(&Event::Answered { step, result, error: None, paths: Vec::new() })?;
        let reviewed = reviewed.filter(|reviewed| !reviewed.found.delta.changes.is_empty());
        let (Some(reviewed), Some(before)) = (reviewed, open.before.as_ref()) else {
            return self.session.finish_step(step, name, StepStatus::Succeeded, None, None, None);
        };
        let given = self.pinned.options.message.clone();
        let wording = Wording { name, given: given.as_deref(), ..Wording::default() };
        let settlement = self.session.take_edits(step, wording, before, reviewed)?;
        self.end_decided(open, settlement, None)
    }

    /// A person says yes to the changes of a step: they are committed.
    pub(super) fn keep_changes(
        &mut self,
        open: &StepRecord,
        message: Option<&str>,
        reviewed: Option<Reviewed>,
    ) -> Result<(), RunError> {
        let (operation, worded) = match (&open.kind, self.step().map(|step| step.action)) {
            (StepKind::Checkpoint { .. }, Some(StepAction::Checkpoint { operation, message })) => {
                let filled = |text: &str| self.with_scope(None, |scope| values::fill_text(text, scope)).ok();
                (filled(&operation), message.and_then(|text| filled(&text)))
            }
            _ => (None, None),
        };
        let given = message.map(str::to_owned).or(worded).or_else(|| self.pinned.options.message.clone());
        let wording = Wording {
            name: &open.name,
            operation: operation.as_deref(),
            given: given.as_deref(),
            tool: open.tool.as_deref(),
            ..Wording::default()
        };
        let mut open = open.clone();
        if open.answer.as_ref().is_some_and(|(_, error)| error.as_ref().is_some_and(|it| it.code == Code::Rejected)) {
            // A no that was cut off before it had any effect; the last word counts.
            let (step, result, paths) = (open.id.step, Value::Null, Vec::new());
            self.session.record(&Event::Answered { step, result, error: None, paths })?;
            open.answer = None;
        }
        let settlement = match reviewed {
            Some(reviewed) => self.session.commit_reviewed(&open, wording, reviewed)?,
            None => self.session.with_found(&open, |session, checkpointer, before, found| {
                session.commit_or_explain(checkpointer, open.id.step, wording, before, found)
            })?,
        };
        self.end_decided(&open, settlement, None)
    }
}

impl Session<'_, '_> {
    /// What a person edited while they were asked becomes the step's: committed, or left for the next checkpoint.
    fn take_edits(
        &mut self,
        step: u32,
        wording: Wording<'_>,
        before: &Snapshot,
        reviewed: Reviewed,
    ) -> Result<Settlement, RunError> {
        self.with_checkpointer(|session, checkpointer| {
            let Reviewed { found, .. } = reviewed;
            session.record_found(step, &found)?;
            if session.mode == CheckpointMode::Auto {
                session.commit_or_explain(checkpointer, step, wording, before, found)
            } else {
                session.keep(step, "explicit mode: a checkpoint step commits it", &found.delta)
            }
        })
    }

    /// Commits what was approved, and nothing else.
    fn commit_reviewed(
        &mut self,
        open: &StepRecord,
        wording: Wording<'_>,
        reviewed: Reviewed,
    ) -> Result<Settlement, RunError> {
        let step = open.id.step;
        let Some(before) = &open.before else { return self.skip_checkpoint(step) };
        self.with_checkpointer(|session, checkpointer| {
            let Reviewed { review, now, found, left } = reviewed;
            match left.map(Chosen::of) {
                None => {
                    if !review.edits.is_empty() {
                        session.record_found(step, &found)?;
                    }
                    session.commit_or_explain(checkpointer, step, wording, before, found)
                }
                Some(Ok(chosen)) => {
                    let chosen = Chosen { edits: review.edits, ..chosen };
                    session.commit_selected(checkpointer, step, wording, &now, now.clone(), chosen)
                }
                Some(Err(err)) => session.failed(step, err),
            }
        })
    }

    fn record_found(&mut self, step: u32, found: &Attributed) -> Result<(), RunError> {
        let (after, delta, outside) = (found.after.clone(), found.delta.clone(), Vec::new());
        self.record(&Event::ChangesFound { step, after, delta, outside })?;
        Ok(())
    }

    fn with_checkpointer(
        &mut self,
        act: impl FnOnce(&mut Self, &mut Checkpointer) -> Result<Settlement, RunError>,
    ) -> Result<Settlement, RunError> {
        let Some(mut checkpointer) = self.checkpointer.take() else {
            return Err(CheckpointError::NoRepository(self.ctx.root.clone()).into());
        };
        let settled = act(self, &mut checkpointer);
        self.checkpointer = Some(checkpointer);
        settled
    }
}
