//! The limits of directives: steps, tool calls, nested directives and time.

use std::time::Duration;

use serde_json::Map;

use super::Run;
use super::state::DirectiveFrame;
use crate::item::directive::StepAction;
use crate::journal::event::Event;
use crate::journal::summary::StepStatus;
use crate::problem::{Code, Problem};
use crate::run::error::RunError;

impl Run<'_> {
    /// The limit that the next step would exceed.
    pub(super) fn exceeded(&self) -> Option<Problem> {
        let state = self.state()?;
        let cost = self.session.recorder.cost();
        let calls_tool = state
            .turn()
            .is_some_and(|(_, step)| matches!(step.action, StepAction::Tool { .. }));
        state.frames.iter().find_map(|frame| {
            frame.reached(|limit| match limit {
                "steps" => Some(f64::from(cost.steps.saturating_sub(frame.since.steps))),
                "tool_calls" if calls_tool => Some(f64::from(
                    cost.tool_calls.saturating_sub(frame.since.tool_calls),
                )),
                "duration_seconds" => Some(cost.seconds - frame.since.seconds),
                _ => None,
            })
        })
    }

    /// The limit that another nested directive would exceed.
    pub(super) fn spawn_exceeds(&self) -> Option<Problem> {
        let state = self.state()?;
        let spawns = state.cost.spawns;
        // The innermost directive has none inside it.
        (0u32..)
            .zip(state.frames.iter().rev())
            .find_map(|(inside, frame)| {
                frame.reached(|limit| match limit {
                    "spawns" => Some(f64::from(spawns.saturating_sub(frame.since.spawns))),
                    "depth" => Some(f64::from(inside)),
                    _ => None,
                })
            })
    }

    /// Ends the run if the current step would exceed the limit of nested directives.
    pub(super) fn spawns_too_much(&mut self) -> Result<bool, RunError> {
        let action = self
            .state()
            .and_then(|state| state.turn())
            .map(|(_, step)| &step.action);
        if !matches!(action, Some(StepAction::Directive { .. })) {
            return Ok(false);
        }
        let Some(error) = self.spawn_exceeds() else {
            return Ok(false);
        };
        self.abort(error).map(|()| true)
    }

    /// The outermost directive whose calling step has no time left, as the number of frames around
    /// it.
    pub(super) fn overdue(&self) -> Option<usize> {
        let frames = &self.state()?.frames;
        let seconds = self.session.recorder.cost().seconds;
        let is_over = |at: &usize| {
            let limit = time_of(frames, *at);
            limit
                .zip(frames.get(*at))
                .is_some_and(|(limit, frame)| seconds - frame.called_at >= limit)
        };
        (1..frames.len()).find(is_over)
    }

    /// The remaining time of the current step.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let state = self.state()?;
        let now = self.session.recorder.cost().seconds;
        let inherited =
            state.frames.iter().enumerate().filter_map(|(at, frame)| {
                Some(time_of(&state.frames, at)? - (now - frame.called_at))
            });
        let limits = state.frames.iter().filter_map(|frame| {
            let limit = frame
                .directive
                .limits
                .iter()
                .find(|limit| limit.name == "duration_seconds")?;
            Some(limit.value - (now - frame.since.seconds))
        });
        let own = state.turn().and_then(|(_, step)| step.timeout);
        let left = own
            .into_iter()
            .chain(inherited)
            .chain(limits)
            .reduce(f64::min)?;
        Some(Duration::from_secs_f64(left.clamp(0.001, 1e9)))
    }

    /// Ends the directives that exceeded their time limit, innermost first.
    pub(super) fn time_out(&mut self, depth: usize) -> Result<(), RunError> {
        while let Some(frame) = self
            .state()
            .filter(|state| state.frames.len() > depth)
            .and_then(|it| it.frames.last())
        {
            let name = frame.name.clone();
            let message = format!("step `{name}` took longer than its `timeout` allows");
            let error = Problem::new(Code::TimedOut, message)
                .with_hint("give the step more time, or do less in it");
            let (status, outputs) = (StepStatus::Failed, Map::new());
            self.session.recorder.record(&Event::DirectiveFinished {
                name,
                status,
                outputs,
                error: Some(error),
            })?;
        }
        Ok(())
    }
}

/// The time limit from the step that called a directive. No step calls a hook, so a hook has its
/// own limit.
fn time_of(frames: &[DirectiveFrame], at: usize) -> Option<f64> {
    let called = frames.get(at).filter(|frame| frame.hook.is_none());
    called.and(frames.get(at.checked_sub(1)?)?.step()?.timeout)
}

impl DirectiveFrame {
    /// The first limit that is used up; `used` returns `None` for limits to ignore.
    pub(in crate::run) fn reached(&self, used: impl Fn(&str) -> Option<f64>) -> Option<Problem> {
        let limits = &self.directive.limits;
        let limit = limits
            .iter()
            .find(|limit| used(&limit.name).is_some_and(|used| used >= limit.value))?;
        let (name, value) = (&self.directive.name, limit.value);
        let what = limit.name.trim_end_matches("_seconds").replace('_', " ");
        let unit = if limit.name == "duration_seconds" {
            " s"
        } else {
            ""
        };
        let message = format!("directive `{name}` reached its limit: {what} {value}{unit}");
        let hint = "raise it in <limits>, or do less; the work so far stays";
        Some(Problem::new(Code::LimitReached, message).with_hint(hint))
    }
}
