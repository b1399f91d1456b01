//! Why an undo or redo is not possible.

use crate::checkpoint::path::{RepoPath, listed};
use crate::journal::{RunId, StepId};
use crate::problem::{Code, Explain, Hint, HintCall, hint};

/// Why an undo or redo is not possible. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    #[error("there is no step to undo in this work tree")]
    NothingToUndo,
    /// There is no step after the given one.
    #[error("there is nothing to undo after step `{0}` in this work tree")]
    NothingAfter(StepId),
    #[error("there is no undo to redo")]
    NothingToRedo,
    /// A new step was made after the last undo.
    #[error("there is nothing to redo: step `{step}` (`{name}`) was done after the last undo")]
    RedoCleared {
        /// That step.
        step: StepId,
        name: String,
        /// The step that was undone last.
        undone: StepId,
    },
    /// The step has no effect to undo.
    #[error("step `{step}` cannot be undone: {reason}")]
    NotUndoable { step: StepId, reason: String },
    /// The step may have changed files, but its changes were not recorded.
    #[error("step `{}` (`{}`) cannot be undone: its changes could not be recorded ({})", .0.step, .0.name, .0.reason)]
    Unrecorded(Box<Unrecorded>),
    /// The step cannot be applied again.
    #[error("step `{step}` cannot be applied again: {reason}")]
    NotRedoable { step: StepId, reason: &'static str },
    /// The run cannot be undone or applied again as a whole.
    #[error("run `{run}` cannot be {verb}: {reason}")]
    OfRun {
        run: RunId,
        /// `undone` or `applied again`.
        verb: &'static str,
        reason: String,
    },
    /// The run has not ended.
    #[error("run `{0}` has not ended")]
    RunOpen(RunId),
    /// The step belongs to the history of another branch.
    #[error("step `{step}` was made on {there}; {here} does not have it")]
    OtherBranch {
        step: StepId,
        /// A description of the branch of the step.
        there: String,
        /// A description of the current branch.
        here: String,
    },
    /// Files are not as the step left them.
    #[error("files have changed since: {}", listed(.0))]
    Conflict(Vec<RepoPath>),
}

/// A step that may have changed files without a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    pub step: StepId,
    pub name: String,
    /// Why it was not recorded.
    pub reason: String,
    /// The newest earlier operation that is still in effect, with its name.
    pub older: Option<(StepId, String)>,
}

impl Explain for UndoError {
    fn code(&self) -> Code {
        match self {
            Self::NothingToUndo | Self::NothingAfter(_) => Code::NothingToUndo,
            Self::NothingToRedo | Self::RedoCleared { .. } => Code::NothingToRedo,
            Self::NotUndoable { .. } | Self::Unrecorded(_) | Self::OfRun { verb: "undone", .. } => {
                Code::NotUndoable
            }
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
            | Self::OfRun { .. } => hint!["see what happened with ", HintCall::Log],
            Self::Unrecorded(unrecorded) => match &unrecorded.older {
                None => "see what is there now with `git status`".into(),
                Some((older, name)) => hint![
                    HintCall::Undo(Some(older.to_string())),
                    format!(" undoes `{name}`, the step before it; `git status` shows what is there")
                ],
            },
            Self::RedoCleared { undone, .. } => format!("`piton redo {undone}` applies the undone step again").into(),
            Self::RunOpen(run) => hint![HintCall::Cancel(Some(run.to_string())), " ends it; then it can be undone"],
            Self::OtherBranch { .. } => "nothing was changed: switch to that branch, or name a step of this one".into(),
            Self::Conflict(_) => {
                "nothing was changed: undo or commit the later changes first, see them with `piton diff`".into()
            }
        })
    }
}

impl UndoError {
    pub(super) fn not_undoable(step: StepId, reason: impl Into<String>) -> Self {
        Self::NotUndoable {
            step,
            reason: reason.into(),
        }
    }
}
