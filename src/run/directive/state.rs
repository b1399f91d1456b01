//! Where the run of a directive stands: a pure fold of its events.
//!
//! Nothing is evaluated here. The events carry what was decided, so that a run that is taken up again
//! after a wait or a crash stands exactly where its journal says, whatever the world looks like by then.
//! A run that ended without success keeps its place, too: [`restart`] is what happens when it begins again.

mod restart;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::audit::history::{Outcome, StepRecord};
use crate::item::directive::{Directive, OnFailure, Step, StepAction};
use crate::journal::event::{Event, HookPhase, Resolution, StepKind, Wait};
use crate::journal::summary::{RunStatus, StepStatus};
use crate::journal::{Digest, RunId, StepId};
use crate::problem::{Code, Problem};
use crate::run::remainder::KeptStep;

pub(in crate::run) use restart::inputs_for;

/// Where a run stands.
#[derive(Debug)]
pub(in crate::run) struct RunState {
    run: RunId,
    /// The directives that may be entered, by the hash of their text.
    known: BTreeMap<String, Known>,
    /// The directives that have begun and not ended, the outermost first.
    pub(in crate::run) frames: Vec<Frame>,
    /// The step that has begun and not ended.
    pub(in crate::run) open: Option<StepRecord>,
    /// What steps of this run left on disk and no checkpoint holds yet.
    pub(in crate::run) pending: Vec<KeptStep>,
    /// Why the whole run ends, whatever its directives say.
    pub(in crate::run) aborted: Option<Ended>,
    /// How the run ended, if it can begin again.
    pub(in crate::run) ended: Option<RunStatus>,
    /// The name of an external call that ended without an answer, until another step begins: it may have had its effect.
    pub(in crate::run) unanswered: Option<String>,
    /// What has been done so far.
    pub(in crate::run) cost: Cost,
    started: Timestamp,
    waited: f64,
    waiting_since: Option<Timestamp>,
}

/// A directive that may be entered.
#[derive(Clone, Debug)]
struct Known {
    content: String,
    directive: Arc<Directive>,
    /// The steps whose results its texts refer to. Those of others are not kept: a loop may have thousands.
    referred: Arc<BTreeSet<String>>,
}

/// What a run, or a part of it, has done.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::run) struct Cost {
    pub(in crate::run) steps: u32,
    pub(in crate::run) tool_calls: u32,
    /// Directives inside that of the run, hooks as well.
    pub(in crate::run) spawns: u32,
    /// Without the time that it waited for somebody.
    pub(in crate::run) seconds: f64,
}

/// A directive that has begun.
#[derive(Debug)]
pub(in crate::run) struct Frame {
    /// The hash of its text.
    pub(in crate::run) content: String,
    pub(in crate::run) directive: Arc<Directive>,
    referred: Arc<BTreeSet<String>>,
    /// The step that runs it; empty for the outermost.
    pub(in crate::run) name: String,
    /// Why it runs, if it is a hook.
    pub(in crate::run) hook: Option<HookPhase>,
    pub(in crate::run) inputs: Map<String, Value>,
    /// What its steps returned; null where nothing refers to it.
    pub(in crate::run) results: Map<String, Value>,
    /// The step whose turn it is.
    pub(in crate::run) at: usize,
    pub(in crate::run) looped: Option<Loop>,
    /// How often this step was tried and failed.
    pub(in crate::run) attempts: u32,
    /// A failure about which nothing is decided yet.
    pub(in crate::run) failure: Option<Ended>,
    /// Why it ends without its remaining steps.
    pub(in crate::run) stopped: Option<Ended>,
    /// The step that succeeded last, by the name its directive gives it, until the hooks after it were looked at.
    pub(in crate::run) just_done: Option<String>,
    /// Whether a hook has run for the moment that this step has reached.
    pub(in crate::run) hooked: bool,
    /// What the run had done when it began.
    pub(in crate::run) since: Cost,
    /// At which second of the run the time of the step that called it began to count.
    pub(in crate::run) called_at: f64,
    /// The directive that failed as the step whose turn it is, where it stopped.
    fallen: Option<Box<Self>>,
    /// The manual steps that were done.
    manual: BTreeSet<String>,
    /// Why a person sent the step whose turn it is back.
    pub(in crate::run) sent_back: Option<String>,
}

/// A step that runs once for each element of a list.
#[derive(Debug)]
pub(in crate::run) struct Loop {
    pub(in crate::run) elements: Vec<Value>,
    /// How many elements have had their turn.
    done: usize,
    /// What the step returned for each of them; nothing where nothing refers to it.
    results: Vec<Value>,
}

/// How a step or directive ended that did not succeed.
#[derive(Clone, Debug)]
pub(in crate::run) struct Ended {
    pub(in crate::run) name: String,
    pub(in crate::run) status: StepStatus,
    pub(in crate::run) error: Option<Problem>,
    /// Whether no policy and no further attempt can help: there is no checkpoint where one was promised.
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

    /// Makes a directive known, before it is entered.
    pub(in crate::run) fn know(&mut self, content: String, directive: Arc<Directive>) {
        let mut referred = referred_steps(&directive);
        // A run that begins again may use another text of the same directive, which refers to other steps.
        for known in self.known.values_mut().filter(|known| known.directive.name == directive.name) {
            referred.extend(known.referred.iter().cloned());
        }
        let referred = Arc::new(referred);
        for known in self.known.values_mut().filter(|known| known.directive.name == directive.name) {
            known.referred = Arc::clone(&referred);
        }
        self.known.insert(content.clone(), Known { content, directive, referred });
    }

    pub(in crate::run) fn knows(&self, content: &str) -> bool {
        self.known.contains_key(content)
    }

    /// What has been done, with the time that has passed, waits left out.
    pub(in crate::run) fn cost_at(&self, now: Timestamp) -> Cost {
        let end = self.waiting_since.unwrap_or(now);
        let seconds = (seconds_between(self.started, end) - self.waited).max(0.0);
        Cost { seconds, ..self.cost }
    }

    /// The step whose turn it is, with the frame it belongs to.
    pub(in crate::run) fn turn(&self) -> Option<(&Frame, &Step)> {
        let frame = self.frames.last()?;
        Some((frame, frame.step()?))
    }

    /// Takes an event in. `previous` is the journal's head before it.
    pub(in crate::run) fn apply(&mut self, at: Timestamp, previous: Digest, event: &Event) {
        match event {
            Event::RunStarted { .. } => self.started = at,
            Event::DirectiveStarted { name, content, inputs, hook, .. } => self.enter(at, name, content, inputs, *hook),
            Event::DirectiveFinished { status, outputs, error, .. } => self.leave(*status, outputs, error.as_ref()),
            Event::StepSkipped { .. } => self.on_top(|frame| frame.advance(Value::Null)),
            Event::LoopStarted { elements, .. } => self.on_top(|frame| frame.begin_loop(elements.clone())),
            Event::StepStarted { step, name, kind, tool, before, .. } => {
                self.cost.steps += 1;
                self.cost.tool_calls += u32::from(matches!(kind, StepKind::Tool(_)));
                self.on_top(Frame::forget_done);
                // What runs because a step failed leaves the place where the run begins again as it is.
                let is_aftermath = matches!(kind, StepKind::RollBackRun { .. })
                    || self.frames.iter().any(|frame| frame.hook == Some(HookPhase::Error));
                if !is_aftermath {
                    self.unanswered = None;
                }
                let id = StepId { run: self.run, step: *step };
                self.open = Some(StepRecord::begun(id, name, kind, tool.as_deref(), before.as_ref(), at));
            }
            Event::StepFinished { status, error, .. } => self.end_step(*status, error.as_ref()),
            Event::Resolved { name, then, error } => self.resolve(name, *then, error.as_ref()),
            // Nothing was done between a death and the recovery.
            Event::Recovered { died: Some(died), .. } => {
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
                if let Event::Waiting { wait: Wait::Work { rejected: Some(reason), .. }, .. } = event {
                    self.on_top(|frame| frame.sent_back = Some(reason.clone()));
                }
                self.cost.tool_calls += u32::from(matches!(event, Event::CallStarted { .. }));
                if let Some(open) = self.open.as_mut().filter(|open| event.step() == Some(open.id.step)) {
                    open.take(event, previous);
                }
            }
        }
    }

    fn on_top(&mut self, act: impl FnOnce(&mut Frame)) {
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
        let Some(known) = self.known.get(content).cloned() else { return };
        if hook != Some(HookPhase::After) {
            self.on_top(Frame::forget_done);
        }
        self.cost.spawns += u32::from(!self.frames.is_empty());
        let since = self.cost_at(at);
        self.frames.push(Frame::new(known, name.to_owned(), inputs.clone(), hook, since));
    }

    fn leave(&mut self, status: StepStatus, outputs: &Map<String, Value>, error: Option<&Problem>) {
        let Some(left) = self.frames.pop() else { return };
        let Some(caller) = self.frames.last_mut() else { return };
        let ended = Ended { name: left.name.clone(), status, error: error.cloned(), is_final: false };
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
        // It is run again: nothing of it counts.
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
            // It is no step of the directive: what it put back is gone, and the directive stands where it stood.
            if open.took_effect() {
                self.pending.retain(|kept| !steps.contains(&kept.id));
            }
            return;
        }
        if status != StepStatus::Succeeded && open.is_external() && was_cut_short(&open, status) {
            self.unanswered = Some(open.name.clone());
        }
        match (&open.kind, &open.outcome) {
            (StepKind::Checkpoint { covers }, Outcome::Committed { .. }) => {
                self.pending.retain(|kept| !covers.contains(&kept.id));
            }
            (StepKind::Checkpoint { .. }, _) => {}
            (_, Outcome::Kept { .. } | Outcome::Failed { .. }) => self.pending.extend(KeptStep::of(&open)),
            _ => {}
        }
        let (result, error) = match &open.kind {
            StepKind::Checkpoint { .. } => (made(&open.outcome), None),
            _ => open.answer.unwrap_or_default(),
        };
        let error = why.cloned().or(error);
        let is_final = matches!(open.outcome, Outcome::Failed { .. });
        self.on_top(|frame| frame.end(Ended { name: open.name, status, error, is_final }, result));
    }

    fn resolve(&mut self, name: &str, then: Resolution, error: Option<&Problem>) {
        let Some(frame) = self.frames.last_mut() else { return };
        let failure = frame.failure.take();
        let status = match error.map(|error| error.code) {
            Some(Code::Interrupted) => StepStatus::Cancelled,
            Some(Code::PermissionDenied) => StepStatus::Denied,
            _ => StepStatus::Failed,
        };
        let mut ended = failure.unwrap_or_else(|| Ended { name: name.to_owned(), status, error: None, is_final: true });
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
                let told = error.map(|error| json!({"code": error.code, "message": error.message()}));
                frame.advance(json!({"error": told}));
            }
            Resolution::Stop => frame.stopped = Some(ended),
            Resolution::Abort => self.aborted = Some(ended),
        }
    }
}

impl Frame {
    fn new(known: Known, name: String, inputs: Map<String, Value>, hook: Option<HookPhase>, since: Cost) -> Self {
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

    /// The step whose turn it is.
    pub(in crate::run) fn step(&self) -> Option<&Step> {
        self.directive.steps.get(self.at)
    }

    /// What the step, or its directive, says about its failure.
    pub(in crate::run) fn policy(&self) -> Option<OnFailure> {
        self.step().and_then(|step| step.on_failure).or(self.directive.git_checkpoint.on_failure)
    }

    /// The element whose turn it is, with the name that it has in the step.
    pub(in crate::run) fn element(&self) -> Option<(&str, &Value)> {
        let looped = self.looped.as_ref()?;
        let name = self.step().and_then(|step| step.element.as_deref()).unwrap_or("item");
        Some((name, looped.elements.get(looped.done)?))
    }

    /// The full name of the step whose turn it is, e.g. `release/build[2]`.
    pub(in crate::run) fn position(&self) -> String {
        let step = self.step().map(|step| step.name.as_str()).unwrap_or_default();
        let element = self.looped.as_ref().map(|looped| format!("[{}]", looped.done)).unwrap_or_default();
        self.below(&format!("{step}{element}"))
    }

    /// The full name of something in this directive.
    pub(in crate::run) fn below(&self, name: &str) -> String {
        if self.name.is_empty() { name.to_owned() } else { format!("{}/{name}", self.name) }
    }

    fn begin_loop(&mut self, elements: Vec<Value>) {
        let is_empty = elements.is_empty();
        self.just_done = None;
        self.looped = Some(Loop { elements, done: 0, results: Vec::new() });
        if is_empty {
            self.end_loop();
        }
    }

    fn end(&mut self, ended: Ended, result: Value) {
        if ended.status == StepStatus::Succeeded {
            let name = self.step().map(|step| step.name.clone());
            if let Some(step) = self.step().filter(|step| matches!(step.action, StepAction::Prose { .. })) {
                self.manual.insert(step.name.clone());
            }
            self.advance(result);
            self.just_done = name;
        } else {
            self.hooked = false;
            self.failure = Some(ended);
        }
    }

    /// Goes on with the next element, or the next step.
    fn advance(&mut self, result: Value) {
        self.attempts = 0;
        self.hooked = false;
        self.just_done = None;
        self.fallen = None;
        self.sent_back = None;
        let is_referred = self.step().is_some_and(|step| self.referred.contains(&step.name));
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

    fn end_loop(&mut self) {
        let results = self.looped.take().map(|looped| looped.results).unwrap_or_default();
        self.keep(Value::Array(results));
    }

    fn keep(&mut self, result: Value) {
        if let Some(step) = self.directive.steps.get(self.at) {
            self.results.insert(step.name.clone(), result);
        }
        self.at += 1;
    }

    fn forget_done(&mut self) {
        self.just_done = None;
    }
}

/// The steps that any text of a directive refers to.
fn referred_steps(directive: &Directive) -> BTreeSet<String> {
    // As JSON all its texts are there, and nothing that a name consists of is written in another way.
    let text = serde_json::to_string(directive).unwrap_or_default();
    let names = text.split("{step:").skip(1).filter_map(|rest| rest.split(['.', '}', '"']).next());
    names.map(str::to_owned).collect()
}

/// What a checkpoint returns; the same names where there is no commit, so that a template can use them.
fn made(outcome: &Outcome) -> Value {
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
        Outcome::Committed { commit, message, files_changed, insertions, deletions } => json!({
            "commit_sha": commit,
            "commit_message": message,
            "files_changed": files_changed,
            "insertions": insertions,
            "deletions": deletions,
        }),
        Outcome::NoChanges => without_commit("no_changes"),
        _ => without_commit("skipped"),
    }
}

/// Whether a step ended before its call had an answer.
fn was_cut_short(open: &StepRecord, status: StepStatus) -> bool {
    let is_undecided = matches!(open.wait, Some(Wait::Indeterminate { .. }));
    let error = open.answer.as_ref().map(|(_, error)| error.as_ref());
    // Other errors are answers: the other side said no, or was never asked.
    let is_unheard = open.has_unrepeatable_call()
        && error.flatten().is_some_and(|error| matches!(error.code, Code::TimedOut | Code::NoAnswer));
    open.started_process
        && error.is_none_or(|error| error.is_some())
        && (status == StepStatus::Cancelled || is_undecided || is_unheard)
}

fn seconds_between(one: Timestamp, other: Timestamp) -> f64 {
    other.duration_since(one).as_secs_f64()
}

#[cfg(test)]
mod tests;
