//! Why the changes of a step are rolled back, and whether that is allowed when it is unclear who
//! made them.
//!
//! One rule for tools, commands and recoveries: without attribution, a roll back could discard
//! concurrent changes of the user. So piton asks the person at the terminal. Without a terminal it
//! keeps the files, lists them, and fails the step.

use super::error::RunError;
use super::recorder::Recorder;
use super::settle::{self, Settlement};
use crate::checkpoint::attribution::Doubt;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::path::{RepoPath, listed};
use crate::journal::summary::StepStatus;
use crate::problem::{Code, HintCall, Problem, hint};

/// How many files the question lists.
const SHOWN: usize = 50;

/// Why the changes of a step are rolled back, and the status of the step if its own result does not
/// decide it.
#[derive(Clone, Debug)]
pub(super) struct Reversal<'r> {
    pub(super) reason: &'r str,
    pub(super) status: Option<StepStatus>,
    pub(super) error: Option<Problem>,
    /// Why some of the changes may be the user's.
    pub(super) doubt: Option<Doubt>,
}

impl<'r> Reversal<'r> {
    /// The result of the step requires it.
    pub(super) fn by_answer(reason: &'r str) -> Self {
        Self {
            reason,
            status: None,
            error: None,
            doubt: None,
        }
    }

    /// The step fails with this error.
    pub(super) fn failure(reason: &'r str, error: Problem) -> Self {
        Self {
            reason,
            status: Some(StepStatus::Failed),
            error: Some(error),
            doubt: None,
        }
    }

    /// The step will be repeated.
    pub(super) const CUT_OFF: Self = Self {
        reason: "the run was interrupted",
        status: Some(StepStatus::CutOff),
        error: None,
        doubt: None,
    };
}

/// Asks whether to roll back changes that may be the user's; without a terminal they are kept.
///
/// Returns the outcome if they are kept, and `None` if they may be rolled back.
pub(super) fn keep_doubtful(
    recorder: &mut Recorder<'_>,
    step: u32,
    doubt: Doubt,
    delta: &Delta,
) -> Result<Option<Settlement>, RunError> {
    let mut paths: Vec<RepoPath> = delta
        .changes
        .iter()
        .map(|change| change.path.clone())
        .collect();
    paths.extend(delta.permissions.iter().map(|change| change.path.clone()));
    paths.extend(
        delta
            .folders_added
            .iter()
            .chain(&delta.folders_removed)
            .cloned(),
    );
    paths.sort();
    paths.dedup();
    let question = || {
        let mut files: Vec<String> = paths.iter().take(SHOWN).map(ToString::to_string).collect();
        if paths.len() > SHOWN {
            files.push(format!("and {} more", paths.len() - SHOWN));
        }
        format!(
            "piton cannot tell which of these files the step changed and which you or another process changed \
             meanwhile ({doubt}):\n  {}\nRoll back all of them?",
            files.join("\n  ")
        )
    };
    if recorder.ctx.person.agrees(question) {
        return Ok(None);
    }
    let reason = format!("it is unknown who made these changes: {doubt}");
    let settlement = settle::keep(recorder, step, &reason, delta)?;
    let id = recorder.step_id(step);
    let message = format!(
        "nothing was rolled back, because {reason}; kept: {}",
        listed(&paths)
    );
    let undo = HintCall::Undo(Some(id.to_string()));
    let error = Problem::new(Code::NotAttributed, message).with_hint(hint![
        "see `piton diff`; ",
        undo,
        " rolls back all of them"
    ]);
    Ok(Some(Settlement {
        error: Some(error),
        ..settlement
    }))
}
