//! Why the changes of a step are put back, and whether they may be where it is not known whose they are.
//!
//! One rule for tools, commands and recoveries: without attribution a roll back could take what the user changed
//! meanwhile. So a person at a terminal is asked; without one the files are kept, named, and the step fails by that.

use super::error::RunError;
use super::session::Session;
use super::settle::Settlement;
use crate::checkpoint::attribution::Doubt;
use crate::checkpoint::delta::Delta;
use crate::checkpoint::path::{RepoPath, listed};
use crate::journal::StepId;
use crate::journal::summary::StepStatus;
use crate::problem::{Call, Code, Problem, hint};

/// How many files a question lists.
const SHOWN: usize = 50;

/// Why what a step did is put back, and how the step ends by that where its answer does not say it.
#[derive(Clone, Debug)]
pub(super) struct Reversal<'r> {
    pub(super) reason: &'r str,
    pub(super) status: Option<StepStatus>,
    pub(super) error: Option<Problem>,
    /// Why some of the changes may be those of the user.
    pub(super) doubt: Option<Doubt>,
}

impl<'r> Reversal<'r> {
    /// Because of what the step has answered.
    pub(super) fn by_answer(reason: &'r str) -> Self {
        Self { reason, status: None, error: None, doubt: None }
    }

    /// The step fails by this.
    pub(super) fn failure(reason: &'r str, error: Problem) -> Self {
        Self { reason, status: Some(StepStatus::Failed), error: Some(error), doubt: None }
    }

    /// The step is run again.
    pub(super) const CUT_OFF: Self =
        Self { reason: "the run was cut off", status: Some(StepStatus::CutOff), error: None, doubt: None };
}

impl Session<'_, '_> {
    /// Asks whether changes may be put back that may be the user's; without a person to ask they are kept.
    ///
    /// Returns what became of them if they are kept, and nothing if they may be put back.
    pub(super) fn keep_doubtful(
        &mut self,
        step: u32,
        doubt: Doubt,
        delta: &Delta,
    ) -> Result<Option<Settlement>, RunError> {
        let mut paths: Vec<RepoPath> = delta.changes.iter().map(|change| change.path.clone()).collect();
        paths.extend(delta.permissions.iter().map(|change| change.path.clone()));
        paths.extend(delta.folders_added.iter().chain(&delta.folders_removed).cloned());
        paths.sort();
        paths.dedup();
        let question = || {
            let mut files: Vec<String> = paths.iter().take(SHOWN).map(ToString::to_string).collect();
            if paths.len() > SHOWN {
                files.push(format!("and {} more", paths.len() - SHOWN));
            }
            format!(
                "piton cannot tell which of these files the step changed and which you or another process changed \
                 meanwhile ({doubt}):\n  {}\nPut all of them back?",
                files.join("\n  ")
            )
        };
        if self.ctx.person.agrees(question) {
            return Ok(None);
        }
        let reason = format!("it is not known whose changes these are: {doubt}");
        let settlement = self.keep(step, &reason, delta)?;
        let id = StepId { run: self.run, step };
        let message = format!("nothing was put back, because {reason}; kept: {}", listed(&paths));
        let undo = Call::Undo(Some(id.to_string()));
        let error = Problem::new(Code::NotAttributed, message).with_hint(hint![
            "see `piton diff`; ",
            undo,
            " puts all of them back"
        ]);
        Ok(Some(Settlement { error: Some(error), ..settlement }))
    }
}
