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
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::repository::Repository;
use crate::context::Context;
use crate::context::principal::{PersonChannel, Principal};
use crate::exec::call::CallProgress;
use crate::item::store::ItemKind;
use crate::item::wording::clean;
use crate::journal::RunId;
use crate::journal::event::{Event, StepKind, Wait};
use crate::journal::summary::{RunStatus, RunSummary, StepStatus};
use crate::mcp::answer::{AnswerKind, ToolAnswer};
use crate::mcp::call::{CallReply, CallWork, Caller};
use crate::mcp::decision::{self, Choice, Decided, Question};
use crate::mcp::failure::ToolFailure;
use crate::mcp::progress::RunProgress;
use crate::mcp::projects::{Projects, lock};
use crate::run::directive::drive::RunHalt;
use crate::run::directive::{
    DirectiveRequest, PreparedRun, Run, RunInput, StartAt, TakeUp, Waiting, Worker,
};
use crate::run::error::{RunError, way_on};
use crate::run::pinned_authority::PinnedAuthority;
use crate::run::project_history::{ProjectHistory, RunReport, is_running, waiting_in};
use crate::run::review::Review;

/// The limits of a diff in a question.
const SHOWN_LINES: usize = 120;
const SHOWN_BYTES: usize = 8 * 1024;

/// How far a call has brought a run.
pub(super) enum Stage {
    /// The call has an answer.
    Told(ToolAnswer),
    /// A person has to decide.
    Question(Box<Question>),
}

pub(super) fn begin(
    ctx: &Context,
    request: &DirectiveRequest,
    prepared: PreparedRun,
    work: &CallWork,
) -> Result<Stage, ToolFailure> {
    let mut progress = RunProgress::new(work);
    let mut observe = |event: &Event| progress.event(event);
    let run = Run::start(ctx, request, prepared, &mut observe)?;
    lead(ctx, run, RunInput::Go, work)
}

/// Resumes a run. An answer is dropped if the run is no longer at the step that was asked about.
pub(super) fn take_up(
    (ctx, within): (&Context, Option<&PinnedAuthority>),
    id: RunId,
    input: RunInput,
    start: StartAt,
    asked: Option<u32>,
    work: &CallWork,
) -> Result<Stage, ToolFailure> {
    let mut progress = RunProgress::new(work);
    let mut observe = |event: &Event| progress.event(event);
    let take_up = TakeUp {
        worker: Worker::Driver,
        agent_command: None,
        agent_isolation: None,
        lock_timeout: PATIENCE,
        start,
        input,
        within,
    };
    let (run, input) = Run::resume(ctx, id, take_up, &mut observe)?;
    if let Some(restarted) = run.restarted() {
        let changed = restarted
            .changed
            .iter()
            .map(|item| format!("{} `{}` has changed", item.kind, item.id));
        changed
            .chain(restarted.warnings.iter().chain(&restarted.notes).cloned())
            .for_each(|note| work.report(note));
    }
    if asked.is_some() && run.waiting().map(|waiting| waiting.step) != asked {
        let summary = run.pause()?;
        return stage_of(ctx, summary.run_id);
    }
    lead(ctx, run, input, work)
}

fn lead(
    ctx: &Context,
    run: Run<'_>,
    input: RunInput,
    work: &CallWork,
) -> Result<Stage, ToolFailure> {
    let mut listen = |progress: CallProgress<'_>| {
        if let CallProgress::Preparing(text) = progress {
            work.report(text);
        }
    };
    match run.drive::<RunError>(input, &mut listen, |_, _| Ok(None))? {
        RunHalt::Done(summary) => finished("run", &summary).map(Stage::Told),
        RunHalt::Waits(waiting, summary) => waits(ctx, &waiting, Some(&summary)),
        // The files changed after they were shown, so the person is asked again.
        RunHalt::Stuck(err, summary) if err.is_asked_again() => stage_of(ctx, summary.run_id),
        RunHalt::Stuck(err, summary) => {
            let status = if err.is_interrupted() {
                "cancelled"
            } else {
                "error"
            };
            let failure = ToolFailure::from(err);
            let way = format!("then call `continue` for run {}", summary.run_id);
            let suggestion = failure.problem.hint.clone().unwrap_or_else(|| way.into());
            Err(failure
                .with_suggestion(suggestion)
                .with("status", status)
                .with("run_id", summary.run_id.to_string())
                .with("run", summary_json(&summary)))
        }
    }
}

/// The stage of a run according to its journal.
pub(super) fn stage_of(ctx: &Context, run: RunId) -> Result<Stage, ToolFailure> {
    let past = ProjectHistory::load(ctx)?;
    let record = past
        .history
        .run(run)
        .ok_or(crate::journal::JournalError::NoRun(run))
        .map_err(RunError::from)?;
    match (waiting_in(record), &record.summary) {
        (Some(waiting), summary) => waits(ctx, &waiting, summary.as_ref()),
        (None, Some(summary)) if summary.status != RunStatus::Waiting => {
            finished("run", summary).map(Stage::Told)
        }
        _ => Ok(Stage::Told(progress_answer(ctx, &past.report(run)?))),
    }
}

/// The answer for a run that has ended.
pub(super) fn finished(action: &str, summary: &RunSummary) -> Result<ToolAnswer, ToolFailure> {
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
            "run": summary_json(summary),
        });
        return if summary.status == RunStatus::Succeeded {
            ToolAnswer::result(&value)
        } else {
            ToolAnswer::error(&value)
        };
    };
    let failure = ToolFailure::of_run(error)
        .with("action", action)
        .with("status", status);
    Err(failure
        .with("run_id", summary.run_id.to_string())
        .with("directive", summary.directive.clone())
        .with("outputs", Value::Object(summary.outputs.clone()))
        .with("run", summary_json(summary)))
}

fn summary_json(summary: &RunSummary) -> Value {
    serde_json::to_value(summary).unwrap_or_default()
}

/// The stage of a waiting run: work goes to the agent, everything else to a person.
fn waits(
    ctx: &Context,
    waiting: &Waiting,
    summary: Option<&RunSummary>,
) -> Result<Stage, ToolFailure> {
    let mut value = Map::new();
    let mut put = |name: &str, what: Value| value.insert(name.to_owned(), what);
    put("status", "waiting".into());
    put("run_id", waiting.run.to_string().into());
    put("step", waiting.name.clone().into());
    put("next", next(ctx, waiting.run));
    if let Some(summary) = summary {
        put("directive", summary.directive.clone().into());
        put("run", summary_json(summary));
    }
    if let Wait::Work {
        instruction,
        checks,
        outside,
        rejected,
    } = &waiting.wait
    {
        put("needs", "agent".into());
        put("instruction", instruction.clone().into());
        put("checks", json!(checks));
        let mut message = "do what `instruction` says, see that `checks` hold, then call `next`; add `result` to its \
                           parameters if the step returns something, or `failed` with the reason if it cannot be done"
            .to_owned();
        if let Some(reason) = rejected {
            put("rejected", reason.clone().into());
            message = format!(
                "a person rejected what was done for this step; `rejected` says why: {message}"
            );
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
        return Ok(Stage::Told(ToolAnswer {
            value: Value::Object(value),
            kind: AnswerKind::Result,
        }));
    }
    put("needs", "person".into());
    put(
        "wait",
        serde_json::to_value(&waiting.wait).unwrap_or_default(),
    );
    put("terminal", way_on(waiting).to_string().into());
    let past = ProjectHistory::load(ctx)?;
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
        waiting: ToolAnswer {
            value: Value::Object(value),
            kind: AnswerKind::Result,
        },
    })))
}

/// The text of a question, with the current changes.
fn question(
    waiting: &Waiting,
    review: Option<&Review>,
    past: &ProjectHistory,
) -> Result<(String, Choice), ToolFailure> {
    let name = &waiting.name;
    let shown = match review.filter(|review| !review.changes.is_empty()) {
        Some(review) => match &past.repository {
            Some(repository) => shown_changes(repository, &review.changes, &review.edits)?,
            None => String::new(),
        },
        None => String::new(),
    };
    Ok(match &waiting.wait {
        Wait::Person { gate, question } => {
            let choice = if follows_manual_step(waiting, gate, past) {
                Choice::Manual
            } else {
                Choice::Gate
            };
            let about = if shown.is_empty() {
                ""
            } else {
                "\n\nWhat you approve:"
            };
            (
                format!(
                    "Step `{name}` asks ({gate}):\n\n{}{about}{shown}",
                    clean(question.trim())
                ),
                choice,
            )
        }
        Wait::Changes => {
            let text =
                format!("Step `{name}` has changed files. Keep the changes, or undo them?{shown}");
            (text, Choice::Changes)
        }
        Wait::Indeterminate { reason } => {
            let text = format!(
                "Step `{name}`: {}. It is unknown whether it was done.",
                clean(reason)
            );
            (text, Choice::Unknown)
        }
        Wait::Work { .. } | Wait::Unknown => (
            format!("Step `{name}` waits for something that needs a newer piton."),
            Choice::Gate,
        ),
    })
}

/// The changes that an approval is for, as statistics and a diff.
pub(super) fn shown_changes(
    repository: &Repository,
    changes: &[Change],
    edits: &[RepoPath],
) -> Result<String, ToolFailure> {
    let sum = |count: fn(&Change) -> u64| changes.iter().map(count).sum::<u64>();
    let (insertions, deletions) = (
        sum(|change| change.insertions),
        sum(|change| change.deletions),
    );
    let diff = repository
        .diff(changes, Some(SHOWN_LINES))
        .map_err(RunError::from)?;
    let shown =
        String::from_utf8_lossy(diff.bytes.get(..SHOWN_BYTES).unwrap_or(&diff.bytes)).into_owned();
    let is_cut = diff.left_out > 0 || diff.bytes.len() > SHOWN_BYTES;
    let rest = if is_cut {
        "\n… `piton diff` shows the rest"
    } else {
        ""
    };
    let edits = match edits {
        [] => String::new(),
        edits => format!(
            "\nedited while the run waited: {}",
            crate::checkpoint::path::listed(edits)
        ),
    };
    let count = stat(changes.len() as u64, insertions, deletions);
    Ok(format!("\n\n{count}{edits}\n\n{}{rest}", clean(&shown)))
}

/// Whether the same directive did a manual step before this gate, which can then be done again.
fn follows_manual_step(waiting: &Waiting, gate: &str, past: &ProjectHistory) -> bool {
    let directive = |name: &str| {
        name.rsplit_once('/')
            .map(|(directive, _)| directive.to_owned())
    };
    let is_manual = |step: &StepRecord| {
        let is_done = step.status == Some(StepStatus::Succeeded);
        is_done
            && matches!(step.kind, StepKind::Prose { .. })
            && directive(&step.name) == directive(&waiting.name)
    };
    let steps = past
        .history
        .run(waiting.run)
        .map(|run| run.steps.as_slice())
        .unwrap_or_default();
    gate == "human-verify" && steps.iter().any(is_manual)
}

/// The call that continues a run.
fn next(ctx: &Context, run: RunId) -> Value {
    call(
        ctx,
        ItemKind::Directive,
        "continue",
        &json!({"parameters": {"run_id": run}}),
    )
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
pub(super) fn progress_answer(ctx: &Context, report: &RunReport) -> ToolAnswer {
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
                "another call or process is running it; `status` shows its progress, and `continue` resumes it afterwards"
            } else {
                "it was interrupted, and no process is working on it; `next` recovers and continues it"
            };
            value.insert("message".to_owned(), message.into());
            value.insert("next".to_owned(), next(ctx, report.run_id));
        }
    }
    ToolAnswer {
        value,
        kind: AnswerKind::Result,
    }
}

/// Turns a stage into a reply: asks the person and passes the answers on until there are no more
/// questions.
pub(super) async fn follow(
    projects: &Arc<Projects>,
    caller: &Caller,
    mut stage: Stage,
) -> Result<CallReply, ToolFailure> {
    loop {
        let question = match stage {
            Stage::Told(answer) => return Ok(answer.into()),
            Stage::Question(question) => question,
        };
        let input = match decision::ask(projects, caller, &question).await? {
            Decided::Asked(asked) => return Ok(CallReply::Asked(asked)),
            Decided::Open(why) => return Ok(with_message(question.waiting, why).into()),
            Decided::Input(input) => input,
        };
        stage = give(projects, caller, &question, input).await?;
    }
}

/// Passes on the person's answer in the stateless era, if the run still waits for it.
pub(super) async fn answered(
    projects: &Arc<Projects>,
    caller: &Caller,
    sealed: &str,
    project: Option<&str>,
) -> Result<CallReply, ToolFailure> {
    let asked = decision::open(projects, caller, sealed)?;
    let (_, here) = projects.project(project)?;
    let (_, ctx) = projects.project(asked.root.to_str())?;
    let run = asked.run;
    let reached = caller.work(move |_| {
        // All worktrees of a repository know its runs, also those in a worktree of their own.
        let is_here = ProjectHistory::load(&here)?.history.run(run).is_some();
        if is_here {
            stage_of(&ctx, run)
        } else {
            Err(decision::refused("it is about another project"))
        }
    });
    let stage = reached.await?;
    let question = match stage {
        Stage::Question(question) if asked.is_about(&question) => question,
        // The run has continued meanwhile: report where it is, and ask again if it waits.
        stage => return follow(projects, caller, stage).await,
    };
    match decision::answer_of(caller, &question) {
        Decided::Input(input) => {
            let stage = give(projects, caller, &question, input).await?;
            follow(projects, caller, stage).await
        }
        Decided::Open(why) => Ok(with_message(question.waiting, why).into()),
        Decided::Asked(asked) => Ok(CallReply::Asked(asked)),
    }
}

/// Passes the person's answer to the run.
async fn give(
    projects: &Arc<Projects>,
    caller: &Caller,
    question: &Question,
    input: RunInput,
) -> Result<Stage, ToolFailure> {
    let (run, step) = (question.run, question.step);
    let (project, ctx) = projects.project(question.root.to_str())?;
    let projects = Arc::clone(projects);
    caller
        .work(move |work| {
            // Only the person's own answer gets here; see `decision`.
            let ctx = ctx.on_behalf_of(Principal::Person(PersonChannel::Elicitation));
            let ctx = work.equip(ctx);
            let _turn = lock(&project.turn);
            let confined = (&ctx, projects.confinement());
            take_up(confined, run, input, StartAt::Failed, Some(step), &work)
        })
        .await
}

fn with_message(mut answer: ToolAnswer, message: &str) -> ToolAnswer {
    if let Value::Object(value) = &mut answer.value {
        value.insert("message".to_owned(), message.into());
    }
    answer
}
