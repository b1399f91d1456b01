//! Drives a run until it is done, or waits for an answer that the caller cannot give.

use super::{Run, RunInput, StepProgress, Waiting};
use crate::journal::event::Wait;
use crate::journal::summary::RunSummary;
use crate::run::error::RunError;
use crate::run::tool::Listener;

/// Why a run has stopped. Its lock is released.
#[derive(Debug)]
pub enum RunHalt {
    Done(RunSummary),
    /// It waits for an answer.
    Waits(Waiting, RunSummary),
    /// It could not continue; the run can be resumed, or was interrupted.
    Stuck(RunError, RunSummary),
}

/// The input of a `resume` without arguments.
const UNSAID: RunInput = RunInput::Done {
    result: None,
    paths: Vec::new(),
};

impl Run<'_> {
    /// Continues until the run is done or waits; `ask` may answer at once.
    pub fn drive<E: From<RunError>>(
        mut self,
        first: RunInput,
        listener: &mut Listener<'_>,
        mut ask: impl FnMut(&mut Self, &Waiting) -> Result<Option<RunInput>, E>,
    ) -> Result<RunHalt, E> {
        let nobody_knows = self
            .waiting()
            .is_some_and(|it| matches!(it.wait, Wait::Indeterminate { .. }));
        // An indeterminate step needs an explicit result; a bare resume means "go on".
        let mut input = if nobody_knows && first == UNSAID {
            RunInput::Go
        } else {
            first
        };
        loop {
            match self.advance(input, listener) {
                Ok(StepProgress::Stepped) => input = RunInput::Go,
                Ok(StepProgress::Done(summary)) => return Ok(RunHalt::Done(*summary)),
                Ok(StepProgress::Waiting(waiting)) => match ask(&mut self, &waiting)? {
                    Some(answer) => input = answer,
                    None => return Ok(RunHalt::Waits(*waiting, self.pause()?)),
                },
                Err(err) => {
                    // The disk differs from what was approved: ask again.
                    if let (RunError::ShownChanged { .. }, Some(waiting)) = (&err, self.waiting())
                        && let Some(answer) = ask(&mut self, &waiting)?
                    {
                        input = answer;
                        continue;
                    }
                    return match self.suspend(&err)? {
                        Some(summary) => Ok(RunHalt::Stuck(err, summary)),
                        None => Err(err.into()),
                    };
                }
            }
        }
    }
}
