//! Writing items as one step of a run: everything that was planned, or nothing.

use serde_json::{Value, json};

use super::{ItemEffect, apply, coverage};
use crate::checkpoint::attribution::Ownership;
use crate::journal::event::{Event, StepKind};
use crate::journal::summary::StepStatus;
use crate::problem::Problem;
use crate::run::error::RunError;
use crate::run::session::Session;
use crate::run::settle::{Declared, Fate, Rules, Violation, Wording};
use crate::run::step::StepEnd;

impl Session<'_, '_> {
    /// Writes what was planned as one step. Only the files of the plan count as its own. Returns nothing where
    /// somebody has to say what becomes of its changes.
    pub(in crate::run) fn write_items(
        &mut self,
        wording: Wording<'_>,
        kind: StepKind,
        effect: &ItemEffect,
        fate: Fate,
    ) -> Result<Option<StepEnd>, RunError> {
        let number = self.next_step();
        let before = self.start_step(number, wording.name, kind, &[])?;
        let covered = coverage::refuse_loss_in(self.ctx, self.checkpointer.as_ref(), effect).map_err(RunError::from);
        let (result, error) = match covered.and_then(|()| Ok(apply(self.ctx, &effect.writes)?)) {
            Ok(()) => (json!(effect.answer), None),
            Err(err) => (Value::Null, Some(Problem::of(&err))),
        };
        if self.state.is_some() {
            self.record(&Event::Answered { step: number, result, error: error.clone(), paths: Vec::new() })?;
        }
        let prefix = self.prefix();
        let is_written = |path: &std::path::Path| {
            let inside = path.strip_prefix(&prefix).ok();
            inside.is_some_and(|inside| effect.writes.iter().any(|write| write.path == inside))
        };
        let name = wording.name;
        let settlement = match &before {
            None => self.skip_checkpoint(number)?,
            Some(before) => {
                let rules = Rules {
                    own: Ownership { has: &|path| is_written(path.as_path()), index: false, doubt: None },
                    may_change: &|_| true,
                    way_out: &|_| String::new(),
                    declared: &|_| Declared::Anything,
                    violation: Violation::RollBack,
                };
                let verdict = if error.is_none() { fate.success } else { fate.failure };
                self.settle(number, wording, before, verdict, rules)?
            }
        };
        if settlement.asked {
            return Ok(None);
        }
        let error = settlement.error.or(error);
        let status = if error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
        self.finish_step(number, name, status, None, settlement.checkpoint, error.as_ref())?;
        Ok(Some(StepEnd { status, error, interrupted: false, command_status: None }))
    }
}
