//! One directive that was entered: its current step, its results and its failures.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Cost, FailedStep, KnownDirective};
use crate::item::directive::{Directive, OnFailure, Step, StepAction};
use crate::journal::event::HookPhase;
use crate::journal::summary::StepStatus;

/// A directive that was entered.
#[derive(Debug)]
pub(in crate::run) struct DirectiveFrame {
    pub(in crate::run) content: String,
    pub(in crate::run) directive: Arc<Directive>,
    pub(super) referred: Arc<BTreeSet<String>>,
    /// The step that called it; empty for the outermost.
    pub(in crate::run) name: String,
    /// The phase, if it is a hook.
    pub(in crate::run) hook: Option<HookPhase>,
    pub(in crate::run) inputs: Map<String, Value>,
    /// The results of its steps; null if nothing refers to them.
    pub(in crate::run) results: Map<String, Value>,
    /// The index of the current step.
    pub(in crate::run) at: usize,
    pub(in crate::run) looped: Option<Loop>,
    /// How often the current step has failed.
    pub(in crate::run) attempts: u32,
    /// A failure that is not handled yet.
    pub(in crate::run) failure: Option<FailedStep>,
    /// Why it ends without its remaining steps.
    pub(in crate::run) stopped: Option<FailedStep>,
    /// The last successful step, by its name in the directive, until its hooks were evaluated.
    pub(in crate::run) just_done: Option<String>,
    /// Whether a hook has run for the current phase of this step.
    pub(in crate::run) hooked: bool,
    /// The usage of the run when this directive began.
    pub(in crate::run) since: Cost,
    /// The second of the run at which the time limit of the calling step started.
    pub(in crate::run) called_at: f64,
    /// The state of the nested directive that failed in the current step.
    pub(super) fallen: Option<Box<Self>>,
    /// The completed manual steps.
    pub(super) manual: BTreeSet<String>,
    /// Why a person rejected the current step.
    pub(in crate::run) sent_back: Option<String>,
}

/// A step that runs once for each element of a list.
#[derive(Debug)]
pub(in crate::run) struct Loop {
    pub(in crate::run) elements: Vec<Value>,
    /// How many elements are done.
    pub(super) done: usize,
    /// The results of the elements; empty if nothing refers to them.
    pub(super) results: Vec<Value>,
}

impl DirectiveFrame {
    pub(super) fn new(
        known: KnownDirective,
        name: String,
        inputs: Map<String, Value>,
        hook: Option<HookPhase>,
        since: Cost,
    ) -> Self {
        Self {
            content: known.content,
            directive: known.directive,
            referred: known.referred,
            name,
            hook,
            inputs,
            results: Map::new(),
            at: 0,
            looped: None,
            attempts: 0,
            failure: None,
            stopped: None,
            just_done: None,
            hooked: false,
            called_at: since.seconds,
            since,
            fallen: None,
            manual: BTreeSet::new(),
            sent_back: None,
        }
    }

    pub(in crate::run) fn step(&self) -> Option<&Step> {
        self.directive.steps.get(self.at)
    }

    /// The failure policy of the step, or of its directive.
    pub(in crate::run) fn policy(&self) -> Option<OnFailure> {
        self.step()
            .and_then(|step| step.on_failure)
            .or(self.directive.git_checkpoint.on_failure)
    }

    /// The current element, with its name in the step.
    pub(in crate::run) fn element(&self) -> Option<(&str, &Value)> {
        let looped = self.looped.as_ref()?;
        let name = self
            .step()
            .and_then(|step| step.element.as_deref())
            .unwrap_or("item");
        Some((name, looped.elements.get(looped.done)?))
    }

    /// The full name of the current step, e.g. `release/build[2]`.
    pub(in crate::run) fn position(&self) -> String {
        let step = self
            .step()
            .map(|step| step.name.as_str())
            .unwrap_or_default();
        let element = self
            .looped
            .as_ref()
            .map(|looped| format!("[{}]", looped.done))
            .unwrap_or_default();
        self.below(&format!("{step}{element}"))
    }

    /// The full name of something in this directive.
    pub(in crate::run) fn below(&self, name: &str) -> String {
        if self.name.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.name)
        }
    }

    pub(super) fn begin_loop(&mut self, elements: Vec<Value>) {
        let is_empty = elements.is_empty();
        self.just_done = None;
        self.looped = Some(Loop {
            elements,
            done: 0,
            results: Vec::new(),
        });
        if is_empty {
            self.end_loop();
        }
    }

    pub(super) fn end(&mut self, ended: FailedStep, result: Value) {
        if ended.status == StepStatus::Succeeded {
            let name = self.step().map(|step| step.name.clone());
            if let Some(step) = self
                .step()
                .filter(|step| matches!(step.action, StepAction::Prose { .. }))
            {
                self.manual.insert(step.name.clone());
            }
            self.advance(result);
            self.just_done = name;
        } else {
            self.hooked = false;
            self.failure = Some(ended);
        }
    }

    /// Moves to the next element or the next step.
    pub(super) fn advance(&mut self, result: Value) {
        self.attempts = 0;
        self.hooked = false;
        self.just_done = None;
        self.fallen = None;
        self.sent_back = None;
        let is_referred = self
            .step()
            .is_some_and(|step| self.referred.contains(&step.name));
        let Some(looped) = &mut self.looped else {
            self.keep(if is_referred { result } else { Value::Null });
            return;
        };
        looped.done += 1;
        if is_referred {
            looped.results.push(result);
        }
        if looped.done >= looped.elements.len() {
            self.end_loop();
        }
    }

    pub(super) fn end_loop(&mut self) {
        let results = self
            .looped
            .take()
            .map(|looped| looped.results)
            .unwrap_or_default();
        self.keep(Value::Array(results));
    }

    pub(super) fn keep(&mut self, result: Value) {
        if let Some(step) = self.directive.steps.get(self.at) {
            self.results.insert(step.name.clone(), result);
        }
        self.at += 1;
    }

    pub(super) fn forget_done(&mut self) {
        self.just_done = None;
    }
}
