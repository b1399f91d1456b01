//! Why nothing is taken back, or applied again.

use crate::checkpoint::path::{RepoPath, listed};
use crate::journal::{RunId, StepId};
use crate::problem::{Call, Code, Explain, Hint, hint};

/// Why nothing is taken back, or applied again. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// There is nothing to undo.
    #[error("there is no step to undo in this work tree")]
    NothingToUndo,
    /// No step was done after the one that is to be the last.
    #[error("nothing was done in this work tree after step `{0}`, or it is undone already")]
    NothingAfter(StepId),
    /// There is nothing to redo.
    #[error("nothing was undone that could be redone")]
    NothingToRedo,
    /// New work was done after the last undo.
    #[error("there is nothing to redo: step `{step}` (`{name}`) was done after the last undo")]
    RedoCleared {
        /// The newest step that is new work.
        step: StepId,
        /// What it is called.
        name: String,
        /// The step that was undone last.
        undone: StepId,
    },
    /// The step has no effect that could be undone.
    #[error("step `{step}` cannot be undone: {reason}")]
    NotUndoable {
        /// The step.
        step: StepId,
        /// Why.
        reason: String,
    },
    /// The step may have changed files, and what it did could not be recorded.
    #[error("step `{}` (`{}`) cannot be undone: what it changed could not be recorded ({})", .0.step, .0.name, .0.reason)]
    Unrecorded(Box<Unrecorded>),
    /// The step cannot be applied again.
    #[error("step `{step}` cannot be applied again: {reason}")]
    NotRedoable {
        /// The step.
        step: StepId,
        /// Why.
        reason: &'static str,
    },
    /// The run cannot be taken back as a whole, or applied again.
    #[error("run `{run}` cannot be {verb}: {reason}")]
    OfRun {
        /// The run.
        run: RunId,
        /// `undone` or `applied again`.
        verb: &'static str,
        /// Why.
        reason: String,
    },
    /// The run goes on, or waits to go on.
    #[error("run `{0}` has not ended")]
    RunOpen(RunId),
    /// The step belongs to the history of another branch.
    #[error("step `{step}` was made on {there}; {here} does not have it")]
    OtherBranch {
        /// The step.
        step: StepId,
        /// The branch that it was made on, in words.
        there: String,
        /// What is checked out, in words.
        here: String,
    },
    /// Files are not as the step left them.
    #[error("files have changed since: {}", listed(.0))]
    Conflict(Vec<RepoPath>),
}

/// A step that may have changed files, of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// The step.
    pub step: StepId,
    /// What it is called.
    pub name: String,
    /// Why it was not recorded.
    pub reason: String,
    /// The newest operation before it that counts, with its name.
    pub older: Option<(StepId, String)>,
}

impl Explain for UndoError {
    fn code(&self) -> Code {
        match self {
            Self::NothingToUndo | Self::NothingAfter(_) => Code::NothingToUndo,
            Self::NothingToRedo | Self::RedoCleared { .. } => Code::NothingToRedo,
            Self::NotUndoable { .. } | Self::Unrecorded(_) | Self::OfRun { verb: "undone", .. } => Code::NotUndoable,
            Self::NotRedoable { .. } | Self::OfRun { .. } => Code::NotRedoable,
            Self::RunOpen(_) => Code::RunWaits,
            Self::OtherBranch { .. } => Code::OtherBranch,
            Self::Conflict(_) => Code::ChangedSince,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NothingToUndo
            | Self::NothingAfter(_)
            | Self::NothingToRedo
            | Self::NotUndoable { .. }
            | Self::NotRedoable { .. }
            | Self::OfRun { .. } => hint!["see what happened with ", Call::Log],
            Self::Unrecorded(unrecorded) => match &unrecorded.older {
                None => "see what is there now with `git status`".into(),
                Some((older, name)) => hint![
                    Call::Undo(Some(older.to_string())),
                    format!(" takes back `{name}`, the step before it; `git status` shows what is there")
                ],
            },
            Self::RedoCleared { undone, .. } => format!("`piton redo {undone}` applies the undone step again").into(),
            Self::RunOpen(run) => hint![Call::Cancel(Some(run.to_string())), " ends it; then it can be undone"],
            Self::OtherBranch { .. } => "nothing was changed: switch to that branch, or name a step of this one".into(),
            Self::Conflict(_) => {
                "nothing was changed: undo or commit the later changes first, see them with `piton diff`".into()
            }
        })
    }
}

impl UndoError {
    pub(super) fn not_undoable(step: StepId, reason: impl Into<String>) -> Self {
        Self::NotUndoable { step, reason: reason.into() }
    }
}
