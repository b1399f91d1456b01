//! A run that an agent is led through: its progress, its waits and its result.
//!
//! A call starts or resumes a run, and [`lead`] continues it until it ends or waits. Work for the
//! agent is the answer of the call. A question goes to the person behind the client. The run is
//! paused first, so that it does not hold the lock while the person thinks.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::tool::PATIENCE;
use crate::audit::history::StepRecord;
use crate::checkpoint::delta::{Change, stat};
use crate::context::Context;
use crate::exec::call::Progress;
use crate::item::store::ItemKind;
use crate::journal::RunId;
use crate::journal::event::{Event, StepKind, Wait};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus};
use crate::mcp::answer::{Answer, AnswerKind};
use crate::mcp::call::{Caller, Reply, Work};
use crate::mcp::decision::{self, Choice, Decided, Question};
use crate::mcp::desk::{Desk, lock};
use crate::mcp::failure::Failure;
use crate::mcp::tale::Tale;
use crate::run::directive::drive::Halt;
use crate::run::directive::{DirectiveRequest, Input, Prepared, Run, StartAt, TakeUp, Waiting, Worker};
use crate::run::error::{RunError, way_on};
use crate::run::past::{Past, Report, is_running, waiting_in};
use crate::run::review::Review;

/// The limits of a diff in a question.
const SHOWN_LINES: usize = 120;
const SHOWN_BYTES: usize = 8 * 1024;

/// How far a call has brought a run.
pub(super) enum Stage {
    /// The call has an answer.
    Told(Answer),
    /// A person has to decide.
    Question(Box<Question>),
}

pub(super) fn begin(
    ctx: &Context,
    request: &DirectiveRequest,
    prepared: Prepared,
    work: &Work,
) -> Result<Stage, Failure> {
    let mut tale = Tale::new(work);
    let mut observe = |event: &Event| tale.event(event);
    let run = Run::start(ctx, request, prepared, &mut observe)?;
    lead(ctx, run, Input::Go, work)
}

/// Resumes a run. An answer is dropped if the run is no longer at the step that was asked about.
pub(super) fn take_up(
    ctx: &Context,
    id: RunId,
    input: Input,
    start: StartAt,
    asked: Option<u32>,
    work: &Work,
) -> Result<Stage, Failure> {
    let mut tale = Tale::new(work);
    let mut observe = |event: &Event| tale.event(event);
    let take_up = TakeUp { worker: Worker::Driver, agent_command: None, lock_timeout: PATIENCE, start, input };
    let (run, input) = Run::resume(ctx, id, take_up, &mut observe)?;
    if let Some(restarted) = run.restarted() {
        let changed = restarted.changed.iter().map(|item| format!("{} `{}` has changed", item.kind, item.id));
        changed.chain(restarted.warnings.iter().chain(&restarted.notes).cloned()).for_each(|note| work.tell(note));
    }
    if asked.is_some() && run.waiting().map(|waiting| waiting.step) != asked {
        let summary = run.pause()?;
        return stage_of(ctx, summary.run_id);
    }
    lead(ctx, run, input, work)
}

fn lead(ctx: &Context, run: Run<'_, '_>, input: Input, work: &Work) -> Result<Stage, Failure> {
    let mut listen = |progress: Progress<'_>| {
        if let Progress::Preparing(text) = progress {
            work.tell(text);
        }
    };
    match run.drive::<RunError>(input, &mut listen, |_, _| Ok(None))? {
        Halt::Done(summary) => finished("run", &summary).map(Stage::Told),
        Halt::Waits(waiting, summary) => waits(ctx, &waiting, Some(&summary)),
        // The files changed after they were shown, so the person is asked again.
        Halt::Stuck(err, summary) if err.is_asked_again() => stage_of(ctx, summary.run_id),
        Halt::Stuck(err, summary) => {
            let status = if err.is_interrupted() { "cancelled" } else { "error" };
            let failure = Failure::from(err);
            let way = format!("once that is settled, `continue` goes on with run {}", summary.run_id);
            let suggestion = failure.problem.hint.clone().unwrap_or_else(|| way.into());
            Err(failure
                .with_suggestion(suggestion)
                .with("status", status)
                .with("run_id", summary.run_id.to_string())
                .with("run", told(&summary)))
        }
    }
}

/// The stage of a run according to its journal.
pub(super) fn stage_of(ctx: &Context, run: RunId) -> Result<Stage, Failure> {
    let past = Past::load(ctx)?;
    let record = past.history.run(run).ok_or(crate::journal::JournalError::NoRun(run)).map_err(RunError::from)?;
    match (waiting_in(record), &record.summary) {
        (Some(waiting), summary) => waits(ctx, &waiting, summary.as_ref()),
        (None, Some(summary)) if summary.status != RunStatus::Waiting => finished("run", summary).map(Stage::Told),
        _ => Ok(Stage::Told(standing(ctx, &past.report(run)?))),
    }
}

/// The answer for a run that has ended.
pub(super) fn finished(action: &str, summary: &RunSummary) -> Result<Answer, Failure> {
    let status = match summary.status {
        RunStatus::Succeeded => "success",
        RunStatus::Failed => "error",
        RunStatus::Denied => "denied",
        RunStatus::Waiting => "waiting",
        RunStatus::Cancelled => "cancelled",
    };
    let Some(error) = &summary.error else {
        let value = json!({
            "action": action,
            "status": status,
            "run_id": summary.run_id,
            "directive": summary.directive,
            "outputs": summary.outputs,
            "run": told(summary),
        });
        return if summary.status == RunStatus::Succeeded { Answer::result(&value) } else { Answer::error(&value) };
    };
    let failure = Failure::of_run(error).with("action", action).with("status", status);
    Err(failure
        .with("run_id", summary.run_id.to_string())
        .with("directive", summary.directive.clone())
        .with("outputs", Value::Object(summary.outputs.clone()))
        .with("run", told(summary)))
}

fn told(summary: &RunSummary) -> Value {
    serde_json::to_value(summary).unwrap_or_default()
}

/// The stage of a waiting run: work goes to the agent, everything else to a person.
fn waits(ctx: &Context, waiting: &Waiting, summary: Option<&RunSummary>) -> Result<Stage, Failure> {
    let mut value = Map::new();
    let mut put = |name: &str, what: Value| value.insert(name.to_owned(), what);
    put("status", "waiting".into());
    put("run_id", waiting.run.to_string().into());
    put("step", waiting.name.clone().into());
    put("next", next(ctx, waiting.run));
    if let Some(summary) = summary {
        put("directive", summary.directive.clone().into());
        put("run", told(summary));
    }
    if let Wait::Work { instruction, checks, outside, rejected } = &waiting.wait {
        put("needs", "agent".into());
        put("instruction", instruction.clone().into());
        put("checks", json!(checks));
        let mut message = "do what `instruction` says, see that `checks` hold, then call `next`; add `result` to its \
                           parameters if the step returns something, or `failed` with the reason if it cannot be done"
            .to_owned();
        if let Some(reason) = rejected {
            put("rejected", reason.clone().into());
            message = format!("a person rejected what was done for this step; `rejected` says why: {message}");
        }
        if !outside.is_empty() {
            put("outside", json!(outside));
            message = format!(
                "these files changed although the directive does not allow it: {}; put them back, or name what \
                 belongs to the step with `paths`, then call `next`",
                crate::checkpoint::path::listed(outside)
            );
        }
        value.insert("message".to_owned(), message.into());
        return Ok(Stage::Told(Answer { value: Value::Object(value), kind: AnswerKind::Result }));
    }
    put("needs", "person".into());
    put("wait", serde_json::to_value(&waiting.wait).unwrap_or_default());
    put("terminal", way_on(waiting).to_string().into());
    let past = Past::load(ctx)?;
    let review = past.review(ctx, waiting.run);
    let (text, choice) = question(waiting, review.as_ref(), &past)?;
    value.insert("question".to_owned(), text.clone().into());
    if let Some(review) = &review {
        value.insert("tree".to_owned(), review.tree.to_string().into());
    }
    Ok(Stage::Question(Box::new(Question {
        root: ctx.root.clone(),
        run: waiting.run,
        step: waiting.step,
        text,
        choice,
        tree: review.map(|review| review.tree),
        waiting: Answer { value: Value::Object(value), kind: AnswerKind::Result },
    })))
}

/// The text of a question, with the current changes.
fn question(waiting: &Waiting, review: Option<&Review>, past: &Past) -> Result<(String, Choice), Failure> {
    let name = &waiting.name;
    let shown = match review.filter(|review| !review.changes.is_empty()) {
        Some(review) => shown_changes(review, past)?,
        None => String::new(),
    };
    Ok(match &waiting.wait {
        Wait::Person { gate, question } => {
            let choice = if follows_manual_step(waiting, gate, past) { Choice::Manual } else { Choice::Gate };
            let about = if shown.is_empty() { "" } else { "\n\nWhat you approve:" };
            (format!("Step `{name}` asks ({gate}):\n\n{}{about}{shown}", clean(question.trim())), choice)
        }
        Wait::Changes => {
            let text = format!("Step `{name}` has changed files. Keep the changes, or undo them?{shown}");
            (text, Choice::Changes)
        }
        Wait::Indeterminate { reason } => {
            let text = format!("Step `{name}`: {}. It is unknown whether it was done.", clean(reason));
            (text, Choice::Unknown)
        }
        Wait::Work { .. } | Wait::Unknown => {
            (format!("Step `{name}` waits for something that a newer piton knows."), Choice::Gate)
        }
    })
}

/// The changes that an approval is for, as statistics and a diff.
fn shown_changes(review: &Review, past: &Past) -> Result<String, Failure> {
    let Some(repository) = &past.repository else { return Ok(String::new()) };
    let sum = |count: fn(&Change) -> u64| review.changes.iter().map(count).sum::<u64>();
    let (insertions, deletions) = (sum(|change| change.insertions), sum(|change| change.deletions));
    let diff = repository.diff(&review.changes, Some(SHOWN_LINES)).map_err(RunError::from)?;
    let shown = String::from_utf8_lossy(diff.bytes.get(..SHOWN_BYTES).unwrap_or(&diff.bytes)).into_owned();
    let is_cut = diff.left_out > 0 || diff.bytes.len() > SHOWN_BYTES;
    let rest = if is_cut { "\n… `piton diff` shows the rest" } else { "" };
    let edits = match review.edits.as_slice() {
        [] => String::new(),
        edits => format!("\nedited while the run waited: {}", crate::checkpoint::path::listed(edits)),
    };
    let count = stat(review.changes.len() as u64, insertions, deletions);
    Ok(format!("\n\n{count}{edits}\n\n{}{rest}", clean(&shown)))
}

/// Whether the same directive did a manual step before this gate, which can then be done again.
fn follows_manual_step(waiting: &Waiting, gate: &str, past: &Past) -> bool {
    let directive = |name: &str| name.rsplit_once('/').map(|(directive, _)| directive.to_owned());
    let is_manual = |step: &StepRecord| {
        let is_done = step.status == Some(StepStatus::Succeeded);
        is_done && matches!(step.kind, StepKind::Prose { .. }) && directive(&step.name) == directive(&waiting.name)
    };
    let steps = past.history.run(waiting.run).map(|run| run.steps.as_slice()).unwrap_or_default();
    gate == "human-verify" && steps.iter().any(is_manual)
}

/// Replaces control characters, which could move the cursor or hide text.
fn clean(text: &str) -> String {
    text.chars().map(|it| if it.is_control() && it != '\n' && it != '\t' { '\u{fffd}' } else { it }).collect()
}

/// The call that continues a run.
fn next(ctx: &Context, run: RunId) -> Value {
    call(ctx, ItemKind::Directive, "continue", &json!({"parameters": {"run_id": run}}))
}

/// A call of `execute` that the agent may make next.
pub(super) fn call(ctx: &Context, kind: ItemKind, action: &str, more: &Value) -> Value {
    let mut arguments = json!({"item_type": kind, "action": action});
    if let (Value::Object(arguments), Value::Object(more)) = (&mut arguments, more) {
        arguments.extend(more.clone());
        arguments.insert("project_path".to_owned(), json!(ctx.root));
    }
    json!({"tool": "execute", "arguments": arguments})
}

/// The answer for a run that does not wait for a person or an agent, or has ended.
pub(super) fn standing(ctx: &Context, report: &Report) -> Answer {
    let status = match report.status {
        Some(RunStatus::Succeeded) => "success",
        Some(RunStatus::Failed) => "error",
        Some(RunStatus::Denied) => "denied",
        Some(RunStatus::Cancelled) => "cancelled",
        Some(RunStatus::Waiting) | None => "waiting",
    };
    let mut value = serde_json::to_value(report).unwrap_or_default();
    if let Value::Object(value) = &mut value {
        value.insert("status".to_owned(), status.into());
        if status == "waiting" {
            let message = if is_running(ctx, report.run_id) {
                "it is at work in another call or process; `status` says how far it is, `continue` takes it up when that is gone"
            } else {
                "it was interrupted, and no process is working on it; `next` recovers and continues it"
            };
            value.insert("message".to_owned(), message.into());
            value.insert("next".to_owned(), next(ctx, report.run_id));
        }
    }
    Answer { value, kind: AnswerKind::Result }
}

/// Turns a stage into a reply: asks the person and passes the answers on until there are no more
/// questions.
pub(super) async fn follow(desk: &Arc<Desk>, caller: &Caller, mut stage: Stage) -> Result<Reply, Failure> {
    loop {
        let question = match stage {
            Stage::Told(answer) => return Ok(answer.into()),
            Stage::Question(question) => question,
        };
        let input = match decision::ask(desk, caller, &question).await? {
            Decided::Asked(asked) => return Ok(Reply::Asked(asked)),
            Decided::Open(why) => return Ok(with_message(question.waiting, why).into()),
            Decided::Input(input) => input,
        };
        stage = give(desk, caller, &question, input).await?;
    }
}

/// Passes on the person's answer in the stateless era, if the run still waits for it.
pub(super) async fn answered(
    desk: &Arc<Desk>,
    caller: &Caller,
    sealed: &str,
    project: Option<&str>,
) -> Result<Reply, Failure> {
    let asked = decision::open(desk, caller, sealed)?;
    let (_, here) = desk.project(project)?;
    let (_, ctx) = desk.project(asked.root.to_str())?;
    let run = asked.run;
    let reached = caller.work(move |_| {
        // All worktrees of a repository know its runs, also those in a worktree of their own.
        let is_here = Past::load(&here)?.history.run(run).is_some();
        if is_here { stage_of(&ctx, run) } else { Err(decision::refused("it is about another project")) }
    });
    let stage = reached.await?;
    let question = match stage {
        Stage::Question(question) if asked.is_about(&question) => question,
        // The run has continued meanwhile: report where it is, and ask again if it waits.
        stage => return follow(desk, caller, stage).await,
    };
    match decision::answer_of(caller, &question) {
        Decided::Input(input) => {
            let stage = give(desk, caller, &question, input).await?;
            follow(desk, caller, stage).await
        }
        Decided::Open(why) => Ok(with_message(question.waiting, why).into()),
        Decided::Asked(asked) => Ok(Reply::Asked(asked)),
    }
}

/// Passes the person's answer to the run.
async fn give(desk: &Arc<Desk>, caller: &Caller, question: &Question, input: Input) -> Result<Stage, Failure> {
    let (run, step) = (question.run, question.step);
    let (project, ctx) = desk.project(question.root.to_str())?;
    caller
        .work(move |work| {
            let ctx = work.equip(ctx);
            let _turn = lock(&project.turn);
            take_up(&ctx, run, input, StartAt::Failed, Some(step), &work)
        })
        .await
}

fn with_message(mut answer: Answer, message: &str) -> Answer {
    if let Value::Object(value) = &mut answer.value {
        value.insert("message".to_owned(), message.into());
    }
    answer
}
