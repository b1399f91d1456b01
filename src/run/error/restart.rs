//! Why a run cannot begin again, or not at the place that was named.

use crate::item::wording::shown;
use crate::journal::RunId;
use crate::problem::{Call, Code, Explain, Hint, hint};

/// Why a run cannot begin again, or not there. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// A place to begin at was named for a run that has not ended.
    #[error("run `{0}` has not ended: `--from` and `--skip` are for a run that has")]
    NotEnded(RunId),
    /// The step that failed is not in the directive of today.
    #[error("step `{step}` of run `{run}` is no longer in the directive")]
    StepGone {
        /// The run.
        run: RunId,
        /// The full name of the step.
        step: String,
    },
    /// The step that was named does not exist, or the run has not come that far.
    #[error("run `{run}` cannot begin at `{step}`: there is no such step")]
    NoSuchStep {
        /// The run.
        run: RunId,
        /// What was named.
        step: String,
        /// The steps that can be named.
        known: Vec<String>,
    },
    /// No step failed: all of them are done.
    #[error("all steps of run `{0}` are done, so there is none to skip")]
    NothingToSkip(RunId),
    /// An external call got no answer: only the user can say whether it is made again.
    #[error(
        "step `{step}` of run `{run}` called an external service and got no answer, so the call may have been done"
    )]
    Unanswered {
        /// The run.
        run: RunId,
        /// The step.
        step: String,
    },
    /// A manual step is to be sent back without a reason.
    #[error("a manual step needs a reason to be sent back")]
    ReasonNeeded(RunId),
    /// An all-or-nothing run could not put anything back.
    #[error("an all-or-nothing run needs a git repository, and checkpoints that are not disabled")]
    NoCheckpoints,
}

impl Explain for RestartError {
    fn code(&self) -> Code {
        match self {
            Self::NotEnded(_) => Code::NotEnded,
            Self::StepGone { .. } => Code::StepGone,
            Self::NoSuchStep { .. } => Code::NoSuchStep,
            Self::NothingToSkip(_) => Code::NothingToSkip,
            Self::Unanswered { .. } => Code::Indeterminate,
            Self::ReasonNeeded(_) => Code::ReasonNeeded,
            Self::NoCheckpoints => Code::NoCheckpoints,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotEnded(run) => hint![
                Call::Resume(Some(run.to_string())),
                " goes on where it is, ",
                Call::Cancel(Some(run.to_string())),
                " ends it"
            ],
            Self::StepGone { run, .. } => format!("name the step to begin at: `piton resume {run} --from STEP`").into(),
            Self::NoSuchStep { known, .. } => {
                let names: Vec<String> = known.iter().map(|name| format!("`{}`", shown(name))).collect();
                format!("name one of {}", names.join(", ")).into()
            }
            Self::NothingToSkip(run) => {
                hint![Call::Resume(Some(run.to_string())), " evaluates the outputs of the directive again"]
            }
            Self::Unanswered { run, .. } => format!(
                "find out whether the call was done; then `piton resume {run} --retry` makes it again, `--result JSON` \
                 says that it was done, `--skip` goes on without it"
            )
            .into(),
            Self::ReasonNeeded(run) => {
                format!("`piton reject {run} --reason TEXT` sends it back, `piton reject {run} --end` ends the run")
                    .into()
            }
            Self::NoCheckpoints => "use a git repository and `--checkpoint auto` or `--checkpoint explicit`".into(),
        })
    }
}
