//! Why a run cannot be restarted, or not at the named step.

use crate::item::wording::shown;
use crate::journal::RunId;
use crate::problem::{Code, Explain, Hint, HintCall, hint};

/// Why a run cannot be restarted, or not at this step. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// A start step was named for a run that has not ended.
    #[error("run `{0}` has not ended: `--from` and `--skip` restart ended runs")]
    NotEnded(RunId),
    /// The failed step is not in the current directive.
    #[error("step `{step}` of run `{run}` is no longer in the directive")]
    StepGone { run: RunId, step: String },
    /// The named step does not exist, or the run has not reached it.
    #[error("run `{run}` cannot restart at `{step}`: there is no such step")]
    NoSuchStep {
        run: RunId,
        step: String,
        /// The valid names.
        known: Vec<String>,
    },
    /// No step has failed: all are done.
    #[error("all steps of run `{0}` are done, so there is none to skip")]
    NothingToSkip(RunId),
    /// An external call got no answer: only the user can decide whether to repeat it.
    #[error(
        "step `{step}` of run `{run}` called an external service and got no answer, so the call may have taken effect"
    )]
    Unanswered { run: RunId, step: String },
    /// A manual step is rejected without a reason.
    #[error("a manual step needs a reason to be sent back")]
    ReasonNeeded(RunId),
    /// An all-or-nothing run without checkpoints could not be rolled back.
    #[error("an all-or-nothing run needs a git repository and enabled checkpoints")]
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
                HintCall::Resume(Some(run.to_string())),
                " continues it, ",
                HintCall::Cancel(Some(run.to_string())),
                " ends it"
            ],
            Self::StepGone { run, .. } => format!("choose the first step: `piton resume {run} --from STEP`").into(),
            Self::NoSuchStep { known, .. } => {
                let names: Vec<String> = known.iter().map(|name| format!("`{}`", shown(name))).collect();
                format!("name one of {}", names.join(", ")).into()
            }
            Self::NothingToSkip(run) => {
                hint![HintCall::Resume(Some(run.to_string())), " evaluates the outputs of the directive again"]
            }
            Self::Unanswered { run, .. } => format!(
                "check whether the call took effect; then `piton resume {run} --retry` repeats it, `--result JSON` \
                 marks it as done, `--skip` continues without it"
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
