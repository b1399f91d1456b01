//! Letting a run go on until it is done, or waits for what nobody at hand can give.

use super::{Input, Progress, Run, Waiting};
use crate::journal::event::Wait;
use crate::journal::summary::RunSummary;
use crate::run::error::RunError;
use crate::run::tool::Listener;

/// Where a run has come to a halt. Nobody holds its lock any more.
#[derive(Debug)]
pub enum Halt {
    /// It is over.
    Done(RunSummary),
    /// It waits for somebody.
    Waits(Waiting, RunSummary),
    /// It could not go on; the summary is that of a run that can be taken up again, or was interrupted.
    Stuck(RunError, RunSummary),
}

/// What whoever takes a run up says when they say nothing.
const UNSAID: Input = Input::Done { result: None, paths: Vec::new() };

impl Run<'_, '_> {
    /// Goes on until the run is done or waits; `ask` may have an answer at once.
    pub fn drive<E: From<RunError>>(
        mut self,
        first: Input,
        listener: &mut Listener<'_>,
        mut ask: impl FnMut(&mut Self, &Waiting) -> Result<Option<Input>, E>,
    ) -> Result<Halt, E> {
        let nobody_knows = self.waiting().is_some_and(|it| matches!(it.wait, Wait::Indeterminate { .. }));
        // That a step is done is said with a result where nobody can know it.
        let mut input = if nobody_knows && first == UNSAID { Input::Go } else { first };
        loop {
            match self.advance(input, listener) {
                Ok(Progress::Stepped) => input = Input::Go,
                Ok(Progress::Done(summary)) => return Ok(Halt::Done(*summary)),
                Ok(Progress::Waiting(waiting)) => match ask(&mut self, &waiting)? {
                    Some(answer) => input = answer,
                    None => return Ok(Halt::Waits(*waiting, self.pause()?)),
                },
                Err(err) => {
                    // What was approved is not what is on disk: the question is put again.
                    if let (RunError::ShownChanged { .. }, Some(waiting)) = (&err, self.waiting())
                        && let Some(answer) = ask(&mut self, &waiting)?
                    {
                        input = answer;
                        continue;
                    }
                    return match self.suspend(&err)? {
                        Some(summary) => Ok(Halt::Stuck(err, summary)),
                        None => Err(err.into()),
                    };
                }
            }
        }
    }
}
