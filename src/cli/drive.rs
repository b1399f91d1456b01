//! Driving a run from the terminal until it is done or needs a decision from elsewhere.

mod tail;

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::render;
use super::show::dedented;
use super::ui::{Format, Ui, clean, elapsed};
use crate::checkpoint::delta::Oversized;
use crate::error::{Error, ExitStatus};
use crate::exec::call::Progress as CallProgress;
use crate::exec::supervisor::Stream;
use crate::journal::RunId;
use crate::journal::event::{ChangedItem, Event, Resolution, StepKind, Wait};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus};
use crate::problem::Problem;
use crate::run::directive::drive::Halt;
use crate::run::directive::{Input, Restarted, Run, Waiting};
use crate::run::error::way_on;
use tail::Tail;

/// Steps that take this long show their time in logs as well.
const LONG: Duration = Duration::from_secs(10);

/// A terminal in front of a run.
pub(super) struct Driver<'u> {
    ui: RefCell<&'u mut Ui>,
    line: RefCell<StepLine>,
    attempt: RefCell<Attempt>,
    /// What is said with an approval that the person at the terminal is about to give.
    approval: RefCell<Option<Approval>>,
    /// The step that it is about.
    approved_step: Cell<Option<u32>>,
    started: Instant,
    /// The run, and the names of the steps of its directive.
    run: RefCell<Option<(RunId, Vec<String>)>>,
    /// What the tool of the current step wrote to its stdout last.
    tail: RefCell<Tail>,
}

/// What a person says with an approval.
#[derive(Clone, Debug, Default)]
pub(super) struct Approval {
    /// The message of the commit.
    pub(super) message: Option<String>,
    /// For the steps that follow.
    pub(super) answer: Option<String>,
}

/// What is known about the step that runs, for its line.
#[derive(Default)]
struct StepLine {
    name: String,
    started: Option<Instant>,
    is_checkpoint: bool,
    outcome: Option<String>,
    /// What it changed, in numbers.
    found: Option<String>,
    /// Why that was left as it is.
    kept: Option<String>,
    notes: Vec<String>,
    /// Files that were left out for their size.
    too_large: Vec<Oversized>,
}

/// Which attempt a step that failed before is at.
#[derive(Default)]
struct Attempt {
    name: String,
    number: u32,
}

impl<'u> Driver<'u> {
    pub(super) fn new(ui: &'u mut Ui) -> Self {
        Self {
            ui: RefCell::new(ui),
            line: RefCell::default(),
            attempt: RefCell::default(),
            approval: RefCell::default(),
            approved_step: Cell::default(),
            started: Instant::now(),
            run: RefCell::default(),
            tail: RefCell::default(),
        }
    }

    /// The name of a step as a person watching sees it: with its place among the steps of the directive.
    fn counted(&self, name: &str, ui: &Ui) -> String {
        let run = self.run.borrow();
        let Some((_, names)) = run.as_ref().filter(|(_, names)| ui.is_live() && names.len() > 1) else {
            return name.to_owned();
        };
        let outermost = name.split(['/', '[']).next().unwrap_or_default();
        match names.iter().position(|known| known == outermost) {
            Some(at) => format!("step {}/{}  {name}", at + 1, names.len()),
            None => name.to_owned(),
        }
    }

    /// Shows the last lines that a failed tool wrote to stdout; its stderr was shown as it came.
    fn show_tail(&self, ui: &mut Ui, step: u32, status: StepStatus) {
        let (lines, dropped) = self.tail.borrow_mut().take();
        if status == StepStatus::Succeeded || lines.iter().all(String::is_empty) {
            return;
        }
        let run = self.run.borrow();
        let more = run.as_ref().filter(|_| dropped > 0).map(|(run, _)| {
            format!(" (last {} of {} lines; `piton show {run}/{step}` shows all)", lines.len(), lines.len() + dropped)
        });
        ui.note(&format!("  stdout{}:", more.unwrap_or_default()));
        for line in &lines {
            ui.note(format!("    {line}").trim_end());
        }
    }

    /// Shows what an approval would commit and asks, before it is given.
    pub(super) fn confirm_with(&self, approval: Approval) {
        *self.approval.borrow_mut() = Some(approval);
    }

    pub(super) fn warn(&self, text: &str) {
        self.ui.borrow_mut().warning(text);
    }

    pub(super) fn note(&self, text: &str) {
        self.ui.borrow_mut().note(text);
    }

    pub(super) fn hint(&self, text: &str) {
        self.ui.borrow_mut().hint(text);
    }

    /// Shows an event: as JSON, or as the line of a step once it has ended.
    pub(super) fn event(&self, event: &Event) {
        let mut ui = self.ui.borrow_mut();
        if ui.format() == Format::Json {
            ui.json_now(event);
            return;
        }
        let mut line = self.line.borrow_mut();
        match event {
            Event::StepStarted { name, kind, .. } => {
                let name = self.counted(&self.attempt.borrow_mut().label(name), &ui);
                ui.begin_live(&name);
                self.tail.take();
                let is_checkpoint = matches!(kind, StepKind::Checkpoint { .. });
                *line = StepLine { name, started: Some(Instant::now()), is_checkpoint, ..StepLine::default() };
            }
            Event::Committed { commit, message, files_changed, insertions, deletions, notes, .. } => {
                let stat = render::stat(*files_changed, *insertions, *deletions);
                let summary = message.lines().next().unwrap_or_default();
                line.outcome = Some(format!("{} {summary} ({stat})", commit.short()));
                line.notes.extend(notes.iter().cloned());
            }
            Event::RolledBack { paths, .. } => {
                line.outcome = Some(format!("rolled back {}", render::files(*paths)));
                line.notes.extend(render::roll_back_notes(event));
            }
            Event::ChangesFound { delta, outside, .. } => {
                let count = delta.changes.len() as u64;
                line.found = (count > 0).then(|| render::stat(count, delta.insertions(), delta.deletions()));
                line.notes.extend(render::found_notes(delta, outside));
                line.too_large.clone_from(&delta.too_large);
            }
            Event::Approved { edits, .. } if !edits.is_empty() => {
                let paths = crate::checkpoint::path::listed(edits);
                line.notes.push(format!("with what you edited while the run waited: {paths}"));
            }
            Event::NoChanges { too_large, .. } if !too_large.is_empty() => line.too_large.clone_from(too_large),
            Event::NoChanges { .. } if line.is_checkpoint => line.outcome = Some("nothing to commit".to_owned()),
            Event::CheckpointFailed { .. } => line.outcome = Some("no checkpoint; the changes stay".to_owned()),
            Event::CheckpointSkipped { reason, .. } => line.kept = Some(reason.clone()),
            Event::Waiting { .. } => {
                // The tool succeeded; a person who rejects its changes has seen them.
                self.tail.take();
                ui.end_live();
            }
            Event::RunFinished(_) => ui.end_live(),
            Event::StepFinished { step, status, .. } => {
                line.end(&mut ui, *status);
                self.show_tail(&mut ui, *step, *status);
            }
            Event::StepSkipped { name, reason } => ui.note(&format!("- {name}  skipped: {reason}")),
            Event::LoopStarted { name, elements } if elements.is_empty() => {
                ui.note(&format!("- {name}  nothing to do: the list is empty"));
            }
            Event::Resolved { name, then, error } => self.resolved(&mut ui, name, *then, error.as_ref()),
            Event::DirectiveStarted { name, directive, hook, .. } if !name.is_empty() => {
                let why = if hook.is_some() { "hook" } else { "directive" };
                let name = self.attempt.borrow_mut().label(name);
                ui.note(&format!("> {name}  {why} {directive}"));
            }
            Event::Recovered { .. } | Event::SnapshotsMoved { .. } => render::event(&mut ui, event),
            Event::SentBack { to, .. } => ui.note(&format!("  rejected; step `{to}` is done again")),
            _ => {}
        }
    }

    /// Shows how a run that had ended begins again, before it goes on.
    pub(super) fn restarted(&self, restarted: &Restarted) {
        let mut ui = self.ui.borrow_mut();
        for ChangedItem { kind, id, before, after } in &restarted.changed {
            let what = match (before, after) {
                (None, _) => "is used now and was not before",
                (_, None) => "is not used any more",
                _ => "has changed",
            };
            ui.note(&format!("{kind} `{id}` {what}"));
        }
        String::from_utf8_lossy(&restarted.diff).lines().for_each(|line| ui.note(&format!("  {}", clean(line))));
        restarted.warnings.iter().for_each(|warning| ui.warning(warning));
        restarted.notes.iter().for_each(|note| ui.note(note));
    }

    fn resolved(&self, ui: &mut Ui, name: &str, then: Resolution, error: Option<&Problem>) {
        let why = error.map(Problem::message).unwrap_or_default();
        match then {
            Resolution::Retry => {
                let mut attempt = self.attempt.borrow_mut();
                attempt.failed(name);
                ui.note(&format!("  {why}; it is tried again"));
                // There may be a pause before.
                ui.begin_live(&attempt.label(name));
            }
            Resolution::GoOn => ui.note(&format!("  {why}; the run goes on")),
            // The failure that ends a run is told at its end.
            Resolution::Stop | Resolution::Abort => {}
        }
    }

    /// Knows the step that a run is taken up in.
    pub(super) fn begin(&self, name: String) {
        *self.line.borrow_mut() = StepLine { name, ..StepLine::default() };
    }

    fn listen(&self, progress: CallProgress<'_>) {
        let mut ui = self.ui.borrow_mut();
        match progress {
            CallProgress::Preparing(text) => {
                ui.note(text);
                ui.begin_live(text);
            }
            // What a tool prints is its result, for the steps after it.
            CallProgress::Output(Stream::Stdout, bytes) => self.tail.borrow_mut().add(bytes),
            CallProgress::Output(Stream::Stderr, bytes) => ui.relay_talk(bytes),
        }
    }
}

impl Attempt {
    fn failed(&mut self, name: &str) {
        self.number = if self.name == name { self.number + 1 } else { 2 };
        name.clone_into(&mut self.name);
    }

    /// The name of a step, with the number of the attempt from the second on.
    fn label(&mut self, name: &str) -> String {
        let is_inside = name.strip_prefix(&*self.name).is_some_and(|rest| rest.starts_with('/'));
        if self.name == name {
            return format!("{name} (attempt {})", self.number);
        }
        if !is_inside {
            *self = Self::default();
        }
        name.to_owned()
    }
}

impl StepLine {
    fn end(&mut self, ui: &mut Ui, status: StepStatus) {
        ui.end_live();
        let Self { name, started, outcome, found, kept, notes, too_large, .. } = std::mem::take(self);
        let is_done = status == StepStatus::Succeeded;
        let (left, why) = match (found, kept) {
            (Some(stat), Some(_)) if is_done => (Some(format!("changed {stat}, not committed yet")), None),
            (Some(stat), Some(why)) => (Some(format!("changed {stat}, kept")), Some(why)),
            _ => (None, None),
        };
        let outcome = outcome.or(left).map(|text| format!("  {text}")).unwrap_or_default();
        let took = started.map(|started| told_time(ui, started.elapsed())).unwrap_or_default();
        let took = if took.is_empty() { took } else { format!("  {took}") };
        let line = format!("{name}{outcome}{took}");
        match status {
            StepStatus::Succeeded => ui.success(&line),
            StepStatus::CutOff => ui.note(&format!("- {line}  is run again")),
            _ => ui.failure(&line),
        }
        for note in notes {
            ui.note(&format!("  {note}"));
        }
        render::left_out(ui, &too_large);
        if let Some(why) = why {
            ui.detail(&format!("  {why}"));
        }
    }
}

/// How long something took, where a person watches or may wonder.
fn told_time(ui: &Ui, took: Duration) -> String {
    if ui.is_live() || took >= LONG { elapsed(took) } else { String::new() }
}

/// Lets a run go on until it is done, or waits for what this terminal cannot give.
pub(super) fn to_the_end(driver: &Driver<'_>, run: Run<'_, '_>, first: Input) -> Result<ExitStatus, Error> {
    let id = run.id();
    *driver.run.borrow_mut() = Some((id, run.step_names()));
    let ask = |run: &mut Run<'_, '_>, waiting: &Waiting| driver.ask(run, waiting);
    match run.drive(first, &mut |progress| driver.listen(progress), ask)? {
        Halt::Done(summary) => driver.done(&summary),
        Halt::Waits(waiting, summary) => Ok(driver.waits(&waiting, &summary)),
        Halt::Stuck(err, summary) if err.is_interrupted() => {
            driver.done(&summary)?;
            Ok(Error::from(err).exit_status())
        }
        // Its last line has said it.
        Halt::Stuck(err, _) if driver.ui.borrow().format() == Format::Json => Ok(Error::from(err).exit_status()),
        Halt::Stuck(err, _) => {
            // A mistyped command has changed nothing, and a question that is open again says so itself.
            if !err.is_usage() && !err.is_asked_again() {
                driver.hint(&format!("the run can be taken up again: `piton resume {id}`"));
            }
            Err(err.into())
        }
    }
}

impl Driver<'_> {
    /// Asks the person at the terminal, if there is one, with what is on disk now.
    fn ask(&self, run: &mut Run<'_, '_>, waiting: &Waiting) -> Result<Option<Input>, Error> {
        let about = self.approved_step.get().unwrap_or(waiting.step);
        self.approved_step.set(Some(about));
        // A later question of the same run is another one.
        let approval = self.approval.borrow_mut().take().filter(|_| about == waiting.step);
        if !Ui::can_ask() || !matches!(waiting.wait, Wait::Changes | Wait::Person { .. }) {
            return Ok(None);
        }
        let is_decision = waiting.wait == Wait::Changes;
        if approval.is_none() && !is_decision {
            return Ok(None);
        }
        // Where the files cannot be read, the checkpoint says why.
        let review = run.review().ok().flatten();
        let Some(Approval { message, answer }) = approval.clone() else {
            let Some(review) = review else { return Ok(None) };
            let diff = run.diff_of(&review)?;
            return self.ui.borrow_mut().decide(&waiting.name, &diff, &review.tree.to_string());
        };
        let Some(review) = review.filter(|review| !review.changes.is_empty()) else {
            return Ok(Some(Input::Approve { message, answer, tree: None }));
        };
        // Should the files change while the person reads, they are asked again.
        *self.approval.borrow_mut() = approval;
        let diff = run.diff_of(&review)?;
        let is_approved = self.ui.borrow_mut().approve(&waiting.name, &diff)?;
        let tree = Some(review.tree.to_string());
        Ok(is_approved.then_some(Input::Approve { message, answer, tree }))
    }

    fn waits(&self, waiting: &Waiting, summary: &RunSummary) -> ExitStatus {
        let mut ui = self.ui.borrow_mut();
        if ui.format() == Format::Human {
            show_waiting(&mut ui, waiting);
        }
        render::end(&mut ui, summary)
    }

    fn done(&self, summary: &RunSummary) -> Result<ExitStatus, Error> {
        let mut ui = self.ui.borrow_mut();
        if ui.format() == Format::Json {
            return Ok(render::end(&mut ui, summary));
        }
        for (name, value) in &summary.outputs {
            let text = match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            ui.line(format!("{name}: {text}").trim_end())?;
        }
        if !summary.uncommitted.is_empty() {
            let paths = crate::checkpoint::path::listed(&summary.uncommitted);
            ui.warning(&format!("changed and not committed: {paths}"));
            ui.hint("`piton checkpoint` commits what steps have left, `piton undo` takes it back");
        }
        let line = told(summary, &told_time(&ui, self.started.elapsed()));
        match summary.status {
            RunStatus::Succeeded => ui.success(&line),
            _ => ui.failure(&line),
        }
        Ok(render::end(&mut ui, summary))
    }
}

/// Says what a run waits for and how it goes on.
pub(super) fn show_waiting(ui: &mut Ui, waiting: &Waiting) {
    let name = &waiting.name;
    match &waiting.wait {
        Wait::Work { instruction, checks, outside, rejected } => {
            if let Some(reason) = rejected {
                ui.warning(&format!("step `{name}` was sent back: {}", clean(reason)));
            }
            ui.note(&format!("step `{name}` waits for you:\n"));
            for line in dedented(instruction).lines() {
                ui.note(&format!("    {line}"));
            }
            if !checks.is_empty() {
                ui.note("\n  afterwards this has to hold:");
                for check in checks {
                    ui.note(&format!("    - {}", check.trim()));
                }
            }
            if !outside.is_empty() {
                let paths = crate::checkpoint::path::listed(outside);
                ui.warning(&format!("changed, although the directive does not allow it: {paths}"));
                ui.hint("put them back, allow them with <write>, or name what belongs to the step with `--paths`");
            }
            ui.note("");
        }
        Wait::Person { gate, question } => {
            ui.note(&format!("step `{name}` waits for a person ({gate}):\n"));
            dedented(question).lines().for_each(|line| ui.note(&format!("    {line}")));
            ui.note("");
        }
        Wait::Changes => {
            ui.note(&format!("step `{name}` waits for a decision about its changes: `piton diff` shows them"));
        }
        Wait::Indeterminate { reason } => ui.warning(&format!("step `{name}`: {reason}")),
        Wait::Unknown => ui.note(&format!("step `{name}` waits for something that a newer piton knows")),
    }
    ui.hint(&way_on(waiting).to_string());
}

/// "release succeeded: 3 steps, 2 commits, 4.2 s (run …)".
fn told(summary: &RunSummary, took: &str) -> String {
    let directive = summary.directive.as_deref().unwrap_or_default();
    let name = directive.split('@').next().unwrap_or_default();
    let status = match summary.status {
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed => "failed",
        RunStatus::Denied => "was denied",
        RunStatus::Waiting => "waits",
        RunStatus::Cancelled => "was cancelled",
    };
    let totals = summary.totals();
    let count = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let took = if took.is_empty() { String::new() } else { format!(", {took}") };
    format!(
        "{name} {status}: {}, {}{took} (run {})",
        count(totals.ran(), "step"),
        count(totals.committed, "commit"),
        summary.run_id
    )
}
