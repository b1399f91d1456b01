//! Drives a run from the terminal until it is done or needs an answer from elsewhere.

mod tail;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::render;
use super::show::dedented;
use super::ui::{Format, Ui, clean, elapsed};
use crate::error::{Error, ExitStatus};
use crate::exec::call::CallProgress;
use crate::exec::supervisor::Stream;
use crate::journal::RunId;
use crate::journal::event::{ChangedItem, Event, Resolution, StepKind, Wait};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus};
use crate::run::directive::drive::RunHalt;
use crate::run::directive::{Restarted, Run, RunInput, Waiting};
use crate::run::error::way_on;
use crate::run::narration::StepNarrator;
use tail::Tail;

/// In logs, show the duration of steps from this length on.
const LONG: Duration = Duration::from_secs(10);

/// A terminal that drives a run.
pub(super) struct Driver<'u> {
    ui: RefCell<&'u mut Ui>,
    narrator: RefCell<StepNarrator>,
    /// When the running step started.
    step_started: Cell<Option<Instant>>,
    /// The message and answer for an approval that the user is about to give.
    approval: RefCell<Option<Approval>>,
    /// The step of that approval.
    approved_step: Cell<Option<u32>>,
    started: Instant,
    /// The run, and the step names of its directive.
    run: RefCell<Option<(RunId, Vec<String>)>>,
    /// The end of the stdout of the current step's tool.
    tail: RefCell<Tail>,
    /// Why tools are isolated less than they should be; each reason is shown once.
    isolation_notes: RefCell<BTreeSet<String>>,
}

/// The texts of an approval.
#[derive(Clone, Debug, Default)]
pub(super) struct Approval {
    pub(super) message: Option<String>,
    /// The answer for later steps.
    pub(super) answer: Option<String>,
}

impl<'u> Driver<'u> {
    pub(super) fn new(ui: &'u mut Ui) -> Self {
        Self {
            ui: RefCell::new(ui),
            narrator: RefCell::default(),
            step_started: Cell::default(),
            approval: RefCell::default(),
            approved_step: Cell::default(),
            started: Instant::now(),
            run: RefCell::default(),
            tail: RefCell::default(),
            isolation_notes: RefCell::default(),
        }
    }

    /// The name of a step with its number in the directive, for a person at a terminal.
    fn counted(&self, name: &str, ui: &Ui) -> String {
        let run = self.run.borrow();
        let Some((_, names)) = run
            .as_ref()
            .filter(|(_, names)| ui.is_live() && names.len() > 1)
        else {
            return name.to_owned();
        };
        let outermost = name.split(['/', '[']).next().unwrap_or_default();
        match names.iter().position(|known| known == outermost) {
            Some(at) => format!("step {}/{}  {name}", at + 1, names.len()),
            None => name.to_owned(),
        }
    }

    /// Shows the last stdout lines of a failed tool; its stderr was already shown.
    fn show_tail(&self, ui: &mut Ui, step: u32, status: StepStatus) {
        let (lines, dropped) = self.tail.borrow_mut().take();
        if status == StepStatus::Succeeded || lines.iter().all(String::is_empty) {
            return;
        }
        let run = self.run.borrow();
        let more = run.as_ref().filter(|_| dropped > 0).map(|(run, _)| {
            format!(
                " (last {} of {} lines; `piton show {run}/{step}` shows all)",
                lines.len(),
                lines.len() + dropped
            )
        });
        ui.note(&format!("  stdout{}:", more.unwrap_or_default()));
        for line in &lines {
            ui.note(format!("    {line}").trim_end());
        }
    }

    /// Shows what an approval would commit and asks for confirmation.
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

    /// Shows an event: as JSON, or as the line of a step at its end.
    pub(super) fn event(&self, event: &Event) {
        let mut ui = self.ui.borrow_mut();
        if ui.format() == Format::Json {
            ui.json_now(event);
            return;
        }
        let mut narrator = self.narrator.borrow_mut();
        match event {
            Event::StepStarted { name, kind, .. } => {
                if let StepKind::Tool(call) = kind {
                    for why in call.degraded.iter().chain(&call.raised) {
                        if self.isolation_notes.borrow_mut().insert(why.clone()) {
                            ui.warning(&format!("isolation: {why}"));
                        }
                    }
                }
                let name = self.counted(&narrator.label(name), &ui);
                ui.begin_live(&name);
                self.tail.take();
                self.step_started.set(Some(Instant::now()));
                narrator.begin(name, Some(kind));
            }
            Event::Waiting { .. } => {
                // The tool succeeded; a person who rejects its changes has seen them.
                self.tail.take();
                ui.end_live();
            }
            Event::RunFinished(_) => ui.end_live(),
            Event::StepFinished { step, status, .. } => {
                ui.end_live();
                let started = self.step_started.take();
                let took = started.map(|started| shown_duration(&ui, started.elapsed()));
                let lines = narrator.end(*status, &took.unwrap_or_default());
                render::lines(&mut ui, &lines);
                self.show_tail(&mut ui, *step, *status);
            }
            _ => {
                render::lines(&mut ui, &narrator.event(event));
                if let Event::Resolved {
                    name,
                    then: Resolution::Retry,
                    ..
                } = event
                {
                    // There may be a pause before the attempt.
                    ui.begin_live(&narrator.label(name));
                }
            }
        }
    }

    /// Shows how an ended run is restarted, before it continues.
    pub(super) fn restarted(&self, restarted: &Restarted) {
        let mut ui = self.ui.borrow_mut();
        for ChangedItem {
            kind,
            id,
            before,
            after,
        } in &restarted.changed
        {
            let what = match (before, after) {
                (None, _) => "is new in this run",
                (_, None) => "is no longer used",
                _ => "has changed",
            };
            ui.note(&format!("{kind} `{id}` {what}"));
        }
        String::from_utf8_lossy(&restarted.diff)
            .lines()
            .for_each(|line| ui.note(&format!("  {}", clean(line))));
        restarted
            .warnings
            .iter()
            .for_each(|warning| ui.warning(warning));
        restarted.notes.iter().for_each(|note| ui.note(note));
    }

    /// Sets the step at which a run is resumed.
    pub(super) fn begin(&self, name: String) {
        self.narrator.borrow_mut().begin(name, None);
        self.step_started.set(None);
    }

    fn listen(&self, progress: CallProgress<'_>) {
        let mut ui = self.ui.borrow_mut();
        match progress {
            CallProgress::Preparing(text) => {
                ui.note(text);
                ui.begin_live(text);
            }
            // The stdout of a tool is its result, for later steps.
            CallProgress::Output(Stream::Stdout, bytes) => self.tail.borrow_mut().add(bytes),
            CallProgress::Output(Stream::Stderr, bytes) => ui.relay_talk(bytes),
        }
    }
}

/// The duration, if a person watches or it is long.
fn shown_duration(ui: &Ui, took: Duration) -> String {
    if ui.is_live() || took >= LONG {
        elapsed(took)
    } else {
        String::new()
    }
}

/// Drives a run until it is done, or waits for an answer that this terminal cannot give.
pub(super) fn to_the_end(
    driver: &Driver<'_>,
    run: Run<'_>,
    first: RunInput,
) -> Result<ExitStatus, Error> {
    let id = run.id();
    *driver.run.borrow_mut() = Some((id, run.step_names()));
    let ask = |run: &mut Run<'_>, waiting: &Waiting| driver.ask(run, waiting);
    match run.drive(first, &mut |progress| driver.listen(progress), ask)? {
        RunHalt::Done(summary) => driver.done(&summary),
        RunHalt::Waits(waiting, summary) => Ok(driver.waits(&waiting, &summary)),
        RunHalt::Stuck(err, summary) if err.is_interrupted() => {
            driver.done(&summary)?;
            Ok(Error::from(err).exit_status())
        }
        // The last JSON line already contains the error.
        RunHalt::Stuck(err, _) if driver.ui.borrow().format() == Format::Json => {
            Ok(Error::from(err).exit_status())
        }
        RunHalt::Stuck(err, _) => {
            // A mistyped command has changed nothing, and a question that is asked again reports it
            // itself.
            if !err.is_usage() && !err.is_asked_again() {
                driver.hint(&format!("to resume the run: `piton resume {id}`"));
            }
            Err(err.into())
        }
    }
}

impl Driver<'_> {
    /// Asks the person at the terminal, if there is one, with the current files.
    fn ask(&self, run: &mut Run<'_>, waiting: &Waiting) -> Result<Option<RunInput>, Error> {
        let about = self.approved_step.get().unwrap_or(waiting.step);
        self.approved_step.set(Some(about));
        // A later question of the same run is a different one.
        let approval = self
            .approval
            .borrow_mut()
            .take()
            .filter(|_| about == waiting.step);
        if !Ui::can_ask() || !matches!(waiting.wait, Wait::Changes | Wait::Person { .. }) {
            return Ok(None);
        }
        let is_decision = waiting.wait == Wait::Changes;
        if approval.is_none() && !is_decision {
            return Ok(None);
        }
        // If the files cannot be read, the checkpoint reports why.
        let review = run.review().ok().flatten();
        let Some(Approval { message, answer }) = approval.clone() else {
            let Some(review) = review else {
                return Ok(None);
            };
            let diff = run.diff_of(&review)?;
            return self
                .ui
                .borrow_mut()
                .decide(&waiting.name, &diff, &review.tree.to_string());
        };
        let Some(review) = review.filter(|review| !review.changes.is_empty()) else {
            return Ok(Some(RunInput::Approve {
                message,
                answer,
                tree: None,
            }));
        };
        // If the files change while the person reads, ask again.
        *self.approval.borrow_mut() = approval;
        let diff = run.diff_of(&review)?;
        let is_approved = self.ui.borrow_mut().approve(&waiting.name, &diff)?;
        let tree = Some(review.tree.to_string());
        Ok(is_approved.then_some(RunInput::Approve {
            message,
            answer,
            tree,
        }))
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
            ui.hint("`piton checkpoint` commits uncommitted changes of steps, `piton undo` reverts them");
        }
        let line = summary_line(summary, &shown_duration(&ui, self.started.elapsed()));
        match summary.status {
            RunStatus::Succeeded => ui.success(&line),
            _ => ui.failure(&line),
        }
        Ok(render::end(&mut ui, summary))
    }
}

/// Shows what a run waits for and how to continue.
pub(super) fn show_waiting(ui: &mut Ui, waiting: &Waiting) {
    let name = &waiting.name;
    match &waiting.wait {
        Wait::Work {
            instruction,
            checks,
            outside,
            rejected,
        } => {
            if let Some(reason) = rejected {
                ui.warning(&format!("step `{name}` was sent back: {}", clean(reason)));
            }
            ui.note(&format!("step `{name}` waits for you:\n"));
            for line in dedented(instruction).lines() {
                ui.note(&format!("    {line}"));
            }
            if !checks.is_empty() {
                ui.note("\n  afterwards this must be true:");
                for check in checks {
                    ui.note(&format!("    - {}", check.trim()));
                }
            }
            if !outside.is_empty() {
                let paths = crate::checkpoint::path::listed(outside);
                ui.warning(&format!(
                    "changed, although the directive does not allow it: {paths}"
                ));
                ui.hint("revert them, allow them with <write>, or select the step's files with `--paths`");
            }
            ui.note("");
        }
        Wait::Person { gate, question } => {
            ui.note(&format!("step `{name}` waits for a person ({gate}):\n"));
            dedented(question)
                .lines()
                .for_each(|line| ui.note(&format!("    {line}")));
            ui.note("");
        }
        Wait::Changes => {
            ui.note(&format!(
                "step `{name}` waits for a decision about its changes: `piton diff` shows them"
            ));
        }
        Wait::Indeterminate { reason } => ui.warning(&format!("step `{name}`: {reason}")),
        Wait::Unknown => ui.note(&format!(
            "step `{name}` waits for something that needs a newer piton"
        )),
    }
    ui.hint(&way_on(waiting).to_string());
}

/// "release succeeded: 3 steps, 2 commits, 4.2 s (run …)".
fn summary_line(summary: &RunSummary, took: &str) -> String {
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
    let count =
        |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let took = if took.is_empty() {
        String::new()
    } else {
        format!(", {took}")
    };
    format!(
        "{name} {status}: {}, {}{took} (run {})",
        count(totals.ran(), "step"),
        count(totals.committed, "commit"),
        summary.run_id
    )
}
