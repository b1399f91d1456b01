//! The part of the fold that restarts a run which ended without success.
//!
//! When such a run ends, the stopped directives are put back on the stack
//! ([`RunState::stay_where_it_ended`]), so that the state shows which step failed.
//! [`RunState::repin`] replaces their texts, and [`RunState::begin_again`] goes to the step that
//! the journal names. Steps are matched by name, because their positions may differ in another
//! text.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{DirectiveFrame, RunState};
use crate::item::directive::Directive;
use crate::journal::event::{HookPhase, Restart};
use crate::journal::summary::RunStatus;
use crate::values;

impl RunState {
    /// Puts the stopped directives back on the stack, and clears their failures.
    pub(super) fn stay_where_it_ended(&mut self, status: RunStatus) {
        while let Some(inner) = self.frames.last_mut().and_then(|frame| frame.fallen.take()) {
            self.frames.push(*inner);
        }
        // A failure hook belongs to the failure, which is cleared.
        if let Some(at) = self
            .frames
            .iter()
            .position(|frame| frame.hook == Some(HookPhase::Error))
        {
            self.frames.truncate(at);
        }
        for frame in &mut self.frames {
            frame.failure = None;
            frame.stopped = None;
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.attempts = 0;
            frame.hooked = false;
        }
        self.aborted = None;
        self.open = None;
        self.ended = Some(status);
    }

    /// Replaces the texts of the entered directives. A step is found again by its name.
    pub(super) fn repin(&mut self, contents: &[String]) {
        for (frame, content) in self.frames.iter_mut().zip(contents) {
            let Some(known) = self
                .known
                .get(content)
                .filter(|_| frame.content != *content)
            else {
                continue;
            };
            frame.at = frame.place_in(&known.directive);
            let goes_through = known
                .directive
                .steps
                .get(frame.at)
                .is_some_and(|step| step.foreach.is_some());
            frame.looped = frame.looped.take().filter(|_| goes_through);
            frame.inputs = inputs_for(&known.directive, &frame.inputs)
                .unwrap_or_else(|_| frame.inputs.clone());
            frame.content.clone_from(content);
            frame.directive = known.directive.clone();
            frame.referred = known.referred.clone();
        }
    }

    /// Goes to the step at which a run restarts.
    pub(super) fn begin_again(&mut self, at: Timestamp, restart: &Restart) {
        self.ended = None;
        self.unanswered = None;
        self.frames.truncate(restart.depth);
        let now = self.cost_at(at).seconds;
        for frame in &mut self.frames {
            frame.called_at = now;
        }
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        frame.go_to(&restart.step, restart.element);
        for name in &restart.passed_over {
            frame.results.insert(name.clone(), Value::Null);
        }
        if restart.skip {
            frame.advance(restart.result.clone().unwrap_or_default());
        }
    }

    /// Goes back to a manual step that a person rejected.
    pub(super) fn send_back(&mut self, to: &str, reason: &str) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        frame.failure = None;
        frame.go_to(to, None);
        frame.sent_back = Some(reason.to_owned());
    }
}

impl DirectiveFrame {
    /// The same directive, ready to restart at the current step.
    pub(super) fn stopped_here(self) -> Self {
        Self {
            failure: None,
            stopped: None,
            attempts: 0,
            hooked: false,
            ..self
        }
    }

    /// Makes a step the current one; it and all later steps count as not done.
    fn go_to(&mut self, name: &str, element: Option<usize>) {
        let found = self
            .directive
            .steps
            .iter()
            .position(|step| step.name == name);
        let to = found.unwrap_or(self.directive.steps.len());
        match (&mut self.looped, element) {
            (Some(looped), Some(element)) if to == self.at => {
                looped.done = element.min(looped.done);
                looped.results.truncate(looped.done);
            }
            _ => self.looped = None,
        }
        if to != self.at {
            self.just_done = None;
        }
        self.at = to;
        self.attempts = 0;
        self.hooked = false;
        self.failure = None;
        self.fallen = None;
        self.sent_back = None;
        let directive = &self.directive;
        self.results.retain(|name, _| {
            directive
                .steps
                .iter()
                .position(|step| step.name == *name)
                .is_none_or(|at| at < to)
        });
    }

    /// How many elements of its loop are done; `None` outside of a loop.
    pub(in crate::run) fn elements_done(&self) -> Option<usize> {
        self.looped.as_ref().map(|looped| looped.done)
    }

    /// The index of the current step in another text of the directive.
    pub(in crate::run) fn place_in(&self, directive: &Directive) -> usize {
        let place_of = |name: &str| directive.steps.iter().position(|step| step.name == name);
        let own = self.step().and_then(|step| place_of(&step.name));
        let after_last = || {
            let last = self
                .directive
                .steps
                .iter()
                .take(self.at)
                .rev()
                .find_map(|step| place_of(&step.name));
            last.map_or(0, |last| last + 1)
        };
        own.unwrap_or_else(after_last)
    }

    /// The nearest completed manual step before the current step.
    pub(in crate::run) fn manual_step_before(&self) -> Option<&str> {
        let mut before = self.directive.steps.get(..self.at)?.iter().rev();
        before
            .find(|step| self.manual.contains(&step.name))
            .map(|step| step.name.as_str())
    }
}

/// The inputs for another text of the directive: unknown inputs are dropped, defaults filled in.
pub(in crate::run) fn inputs_for(
    directive: &Directive,
    given: &Map<String, Value>,
) -> Result<Map<String, Value>, Vec<crate::item::params::ParamProblem>> {
    let declared = crate::item::params::DeclaredParameters::of_directive(directive);
    let known = given
        .iter()
        .filter(|(name, _)| declared.unknown(name).is_none());
    values::inputs(
        directive,
        known
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        &[],
    )
}
