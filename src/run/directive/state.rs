//! The state of a directive run: a pure fold of its events.
//!
//! Nothing is evaluated here. The events carry the decisions, so a resumed run has exactly the
//! state of its journal, even if files or settings have changed. A run that ended without success
//! keeps its position; [`restart`] handles its restart.

mod frame;
mod restart;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::audit::history::{StepOutcome, StepRecord};
use crate::item::directive::{Directive, Step};
use crate::journal::event::{Event, HookPhase, Resolution, StepKind, Wait};
use crate::journal::summary::{RunStatus, StepStatus};
use crate::journal::{Digest, RunId, StepId};
use crate::problem::{Code, Problem};
use crate::run::remainder::KeptStep;

pub(in crate::run) use frame::DirectiveFrame;
pub(in crate::run) use restart::inputs_for;

#[derive(Debug)]
pub(in crate::run) struct RunState {
    run: RunId,
    /// The directives that may be entered, by the hash of their text.
    known: BTreeMap<String, KnownDirective>,
    /// The entered directives, outermost first.
    pub(in crate::run) frames: Vec<DirectiveFrame>,
    /// The open step.
    pub(in crate::run) open: Option<StepRecord>,
    /// The steps of this run with uncommitted changes.
    pub(in crate::run) pending: Vec<KeptStep>,
    /// Why the whole run ends, regardless of the policies of its directives.
    pub(in crate::run) aborted: Option<FailedStep>,
    /// How the run ended, if it can be restarted.
    pub(in crate::run) ended: Option<RunStatus>,
    /// The name of an external call without an answer, until another step begins: it may have taken
    /// effect.
    pub(in crate::run) unanswered: Option<String>,
    /// What the run has used so far.
    pub(in crate::run) cost: Cost,
    started: Timestamp,
    waited: f64,
    waiting_since: Option<Timestamp>,
}

/// A directive that may be entered.
#[derive(Clone, Debug)]
struct KnownDirective {
    content: String,
    directive: Arc<Directive>,
    /// The steps whose results its texts refer to. Other results are not kept: a loop may have
    /// thousands.
    referred: Arc<BTreeSet<String>>,
}

/// What a run, or a part of it, has used.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::run) struct Cost {
    pub(in crate::run) steps: u32,
    pub(in crate::run) tool_calls: u32,
    /// Nested directives, including hooks.
    pub(in crate::run) spawns: u32,
    /// Without the time spent waiting.
    pub(in crate::run) seconds: f64,
}

/// The end of a step or directive that did not succeed.
#[derive(Clone, Debug)]
pub(in crate::run) struct FailedStep {
    pub(in crate::run) name: String,
    pub(in crate::run) status: StepStatus,
    pub(in crate::run) error: Option<Problem>,
    /// Whether no policy or retry applies: a promised checkpoint could not be made.
    pub(in crate::run) is_final: bool,
}

impl RunState {
    pub(in crate::run) fn new(run: RunId) -> Self {
        Self {
            run,
            known: BTreeMap::new(),
            frames: Vec::new(),
            open: None,
            pending: Vec::new(),
            aborted: None,
            ended: None,
            unanswered: None,
            cost: Cost::default(),
            started: run.started(),
            waited: 0.0,
            waiting_since: None,
        }
    }

    /// Registers a directive before it is entered.
    pub(in crate::run) fn know(&mut self, content: String, directive: Arc<Directive>) {
        let mut referred = referred_steps(&directive);
        // A restarted run may use another text of the same directive, which refers to other steps.
        for known in self
            .known
            .values_mut()
            .filter(|known| known.directive.name == directive.name)
        {
            referred.extend(known.referred.iter().cloned());
        }
        let referred = Arc::new(referred);
        for known in self
            .known
            .values_mut()
            .filter(|known| known.directive.name == directive.name)
        {
            known.referred = Arc::clone(&referred);
        }
        self.known.insert(
            content.clone(),
            KnownDirective {
                content,
                directive,
                referred,
            },
        );
    }

    pub(in crate::run) fn knows(&self, content: &str) -> bool {
        self.known.contains_key(content)
    }

    /// The usage at a time, without waits.
    pub(in crate::run) fn cost_at(&self, now: Timestamp) -> Cost {
        let end = self.waiting_since.unwrap_or(now);
        let seconds = (seconds_between(self.started, end) - self.waited).max(0.0);
        Cost {
            seconds,
            ..self.cost
        }
    }

    /// The current step, with its frame.
    pub(in crate::run) fn turn(&self) -> Option<(&DirectiveFrame, &Step)> {
        let frame = self.frames.last()?;
        Some((frame, frame.step()?))
    }

    /// Applies an event. `previous` is the journal's head before it.
    pub(in crate::run) fn apply(&mut self, at: Timestamp, previous: Digest, event: &Event) {
        match event {
            Event::RunStarted { .. } => self.started = at,
            Event::DirectiveStarted {
                name,
                content,
                inputs,
                hook,
                ..
            } => self.enter(at, name, content, inputs, *hook),
            Event::DirectiveFinished {
                status,
                outputs,
                error,
                ..
            } => self.leave(*status, outputs, error.as_ref()),
            Event::StepSkipped { .. } => self.on_top(|frame| frame.advance(Value::Null)),
            Event::LoopStarted { elements, .. } => {
                self.on_top(|frame| frame.begin_loop(elements.clone()));
            }
            Event::StepStarted {
                step,
                name,
                kind,
                tool,
                before,
                ..
            } => {
                self.cost.steps += 1;
                self.cost.tool_calls += u32::from(matches!(kind, StepKind::Tool(_)));
                self.on_top(DirectiveFrame::forget_done);
                // Steps that run because of a failure must not change the restart position.
                let is_aftermath = matches!(kind, StepKind::RollBackRun { .. })
                    || self
                        .frames
                        .iter()
                        .any(|frame| frame.hook == Some(HookPhase::Error));
                if !is_aftermath {
                    self.unanswered = None;
                }
                let id = StepId {
                    run: self.run,
                    step: *step,
                };
                self.open = Some(StepRecord::begun(
                    id,
                    name,
                    kind,
                    tool.as_deref(),
                    before.as_ref(),
                    at,
                ));
            }
            Event::StepFinished { status, error, .. } => self.end_step(*status, error.as_ref()),
            Event::Resolved { name, then, error } => self.resolve(name, *then, error.as_ref()),
            // No time counts between the crash and the recovery.
            Event::Recovered {
                died: Some(died), ..
            } => {
                self.waiting_since.get_or_insert(at.min(*died));
            }
            Event::RunFinished(summary) => {
                self.waiting_since.get_or_insert(at);
                if !matches!(summary.status, RunStatus::Waiting | RunStatus::Succeeded) {
                    self.stay_where_it_ended(summary.status);
                }
            }
            Event::Repinned { frames, .. } => self.repin(frames),
            Event::SentBack { to, reason, .. } => self.send_back(to, reason),
            Event::RunResumed { restart, .. } => {
                if let Some(since) = self.waiting_since.take() {
                    self.waited += seconds_between(since, at);
                }
                if let Some(restart) = restart {
                    self.begin_again(at, restart);
                }
            }
            event => {
                if let Event::Waiting {
                    wait:
                        Wait::Work {
                            rejected: Some(reason),
                            ..
                        },
                    ..
                } = event
                {
                    self.on_top(|frame| frame.sent_back = Some(reason.clone()));
                }
                self.cost.tool_calls += u32::from(matches!(event, Event::CallStarted { .. }));
                if let Some(open) = self
                    .open
                    .as_mut()
                    .filter(|open| event.step() == Some(open.id.step))
                {
                    open.take(event, previous);
                }
            }
        }
    }

    fn on_top(&mut self, act: impl FnOnce(&mut DirectiveFrame)) {
        if let Some(frame) = self.frames.last_mut() {
            act(frame);
        }
    }

    fn enter(
        &mut self,
        at: Timestamp,
        name: &str,
        content: &str,
        inputs: &Map<String, Value>,
        hook: Option<HookPhase>,
    ) {
        let Some(known) = self.known.get(content).cloned() else {
            return;
        };
        if hook != Some(HookPhase::After) {
            self.on_top(DirectiveFrame::forget_done);
        }
        self.cost.spawns += u32::from(!self.frames.is_empty());
        let since = self.cost_at(at);
        self.frames.push(DirectiveFrame::new(
            known,
            name.to_owned(),
            inputs.clone(),
            hook,
            since,
        ));
    }

    fn leave(&mut self, status: StepStatus, outputs: &Map<String, Value>, error: Option<&Problem>) {
        let Some(left) = self.frames.pop() else {
            return;
        };
        let Some(caller) = self.frames.last_mut() else {
            return;
        };
        let ended = FailedStep {
            name: left.name.clone(),
            status,
            error: error.cloned(),
            is_final: false,
        };
        let hook = left.hook;
        if status != StepStatus::Succeeded && hook != Some(HookPhase::Error) {
            caller.fallen = Some(Box::new(left.stopped_here()));
        }
        match hook {
            None => caller.end(ended, Value::Object(outputs.clone())),
            Some(HookPhase::Error) => caller.hooked = true,
            Some(phase) => {
                caller.hooked = phase == HookPhase::Before;
                caller.just_done = None;
                if status != StepStatus::Succeeded {
                    caller.stopped = Some(ended);
                }
            }
        }
    }

    fn end_step(&mut self, status: StepStatus, why: Option<&Problem>) {
        let Some(open) = self.open.take() else { return };
        // The step is repeated: its changes do not count.
        if status == StepStatus::CutOff {
            self.cost.steps = self.cost.steps.saturating_sub(1);
            let inner = u32::try_from(open.calls.len()).unwrap_or(u32::MAX);
            let calls = u32::from(matches!(open.kind, StepKind::Tool(_))).saturating_add(inner);
            self.cost.tool_calls = self.cost.tool_calls.saturating_sub(calls);
            return;
        }
        if status == StepStatus::Succeeded {
            self.pending.retain(|kept| !open.dropped.contains(&kept.id));
        }
        if let StepKind::RollBackRun { steps, .. } = &open.kind {
            // It is not a step of the directive: the changes are gone, and the position in the
            // directive stays.
            if open.took_effect() {
                self.pending.retain(|kept| !steps.contains(&kept.id));
            }
            return;
        }
        if status != StepStatus::Succeeded && open.is_external() && was_cut_short(&open, status) {
            self.unanswered = Some(open.name.clone());
        }
        match (&open.kind, &open.outcome) {
            (StepKind::Checkpoint { covers }, StepOutcome::Committed { .. }) => {
                self.pending.retain(|kept| !covers.contains(&kept.id));
            }
            (StepKind::Checkpoint { .. }, _) => {}
            (_, StepOutcome::Kept { .. } | StepOutcome::Failed { .. }) => {
                self.pending.extend(KeptStep::of(&open));
            }
            _ => {}
        }
        let (result, error) = match &open.kind {
            StepKind::Checkpoint { .. } => (made(&open.outcome), None),
            _ => open.answer.unwrap_or_default(),
        };
        let error = why.cloned().or(error);
        let is_final = matches!(open.outcome, StepOutcome::Failed { .. });
        self.on_top(|frame| {
            frame.end(
                FailedStep {
                    name: open.name,
                    status,
                    error,
                    is_final,
                },
                result,
            );
        });
    }

    fn resolve(&mut self, name: &str, then: Resolution, error: Option<&Problem>) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        let failure = frame.failure.take();
        let status = match error.map(|error| error.code) {
            Some(Code::Interrupted) => StepStatus::Cancelled,
            Some(Code::PermissionDenied) => StepStatus::Denied,
            _ => StepStatus::Failed,
        };
        let mut ended = failure.unwrap_or_else(|| FailedStep {
            name: name.to_owned(),
            status,
            error: None,
            is_final: true,
        });
        if error.is_some() {
            ended.error = error.cloned();
        }
        match then {
            Resolution::Retry => {
                frame.attempts += 1;
                frame.hooked = false;
                frame.fallen = None;
            }
            Resolution::GoOn => {
                let error = ended.error.as_ref();
                let told =
                    error.map(|error| json!({"code": error.code, "message": error.message()}));
                frame.advance(json!({"error": told}));
            }
            Resolution::Stop => frame.stopped = Some(ended),
            Resolution::Abort => self.aborted = Some(ended),
        }
    }
}

/// The steps that any text of a directive refers to.
fn referred_steps(directive: &Directive) -> BTreeSet<String> {
    // JSON contains all texts, and never escapes the characters of a name.
    let text = serde_json::to_string(directive).unwrap_or_default();
    let names = text
        .split("{step:")
        .skip(1)
        .filter_map(|rest| rest.split(['.', '}', '"']).next());
    names.map(str::to_owned).collect()
}

/// The result of a checkpoint step; it has the same fields without a commit, so that templates can
/// use them.
fn made(outcome: &StepOutcome) -> Value {
    let without_commit = |status: &str| {
        json!({
            "status": status,
            "commit_sha": null,
            "commit_message": null,
            "files_changed": 0,
            "insertions": 0,
            "deletions": 0,
        })
    };
    match outcome {
        StepOutcome::Committed {
            commit,
            message,
            files_changed,
            insertions,
            deletions,
        } => json!({
            "commit_sha": commit,
            "commit_message": message,
            "files_changed": files_changed,
            "insertions": insertions,
            "deletions": deletions,
        }),
        StepOutcome::NoChanges => without_commit("no_changes"),
        _ => without_commit("skipped"),
    }
}

/// Whether a step ended before its call was answered.
fn was_cut_short(open: &StepRecord, status: StepStatus) -> bool {
    let is_undecided = matches!(open.wait, Some(Wait::Indeterminate { .. }));
    let error = open.answer.as_ref().map(|(_, error)| error.as_ref());
    // Other errors are answers: the service refused, or was never called.
    let is_unheard = open.has_unrepeatable_call()
        && error
            .flatten()
            .is_some_and(|error| matches!(error.code, Code::TimedOut | Code::NoAnswer));
    open.started_process
        && error.is_none_or(|error| error.is_some())
        && (status == StepStatus::Cancelled || is_undecided || is_unheard)
}

fn seconds_between(one: Timestamp, other: Timestamp) -> f64 {
    other.duration_since(one).as_secs_f64()
}

#[cfg(test)]
mod tests;
