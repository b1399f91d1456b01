//! `git_checkpoint`: commits uncommitted changes of steps and the agent's own edits.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::agent_loop;
use super::directive::refuse_cancelled;
use super::tool::PATIENCE;
use crate::checkpoint::delta::Change;
use crate::checkpoint::remainder::EditsSince;
use crate::checkpoint::secret::redacted;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::item::wording::shown;
use crate::journal::event::Event;
use crate::journal::summary::RunSummary;
use crate::mcp::answer::ToolAnswer;
use crate::mcp::arguments::CallArguments;
use crate::mcp::call::{CallReply, CallWork, Caller, Era};
use crate::mcp::decision::{self, Asked};
use crate::mcp::failure::ToolFailure;
use crate::mcp::progress::RunProgress;
use crate::mcp::projects::{Project, Projects, lock};
use crate::mcp::sampling;
use crate::problem::Code;
use crate::run::baseline::BaselineCheckpoint;
use crate::run::checkpoint::{CheckpointRequest, CommitSelection, GitCheckpoint, git_checkpoint};
use crate::run::error::RunError;
use crate::run::error_titles::ErrorTitle;
use crate::run::message_request;
use crate::run::project_history::{ProjectHistory, run_here};
use crate::run::session::RunRequest;
use crate::workspace::open_repository;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEffect {
    Real,
    /// Dry run: nothing is changed.
    Shown,
}

impl CallEffect {
    pub(super) fn of(arguments: &CallArguments) -> Result<Self, ToolFailure> {
        Ok(if arguments.flag("dry_run")? {
            Self::Shown
        } else {
            Self::Real
        })
    }
}

/// Makes a checkpoint, or shows what it would contain.
pub(super) async fn run(
    projects: &Arc<Projects>,
    arguments: CallArguments,
    caller: &Caller,
) -> Result<CallReply, ToolFailure> {
    let effect = CallEffect::of(&arguments)?;
    let request = request(&arguments, effect)?;
    let named = arguments.text("project_path")?.map(str::to_owned);
    let mut message = None;
    let asks = arguments.flag("ask")? && effect == CallEffect::Real;
    let mut approved = None;
    if asks {
        match approve(projects, named.as_deref(), caller).await? {
            CheckpointApproval::Given(shown) => approved = Some(shown),
            CheckpointApproval::Asked(reply) => return Ok(reply),
        }
    }
    // A client answers one question per call, and the person's comes first.
    if effect == CallEffect::Real
        && !asks
        && request.message.is_none()
        && sampling::is_offered(caller, Era::Stateless)
    {
        let (here, named, about) = (
            Arc::clone(projects),
            named.clone(),
            request.operation.clone(),
        );
        let shown = caller
            .work(move |work| describe(&here, named.as_deref(), &about, &work))
            .await?;
        message = match (shown, &caller.state) {
            (None, _) => None,
            (Some((_, shown)), Some(sealed)) => {
                sampling::answer_of(projects, caller, sealed, &shown)
            }
            (Some((root, shown)), None) => {
                return Ok(CallReply::Asked(Box::new(sampling::question(
                    projects, caller, root, shown,
                )?)));
            }
        };
    }
    let request = CheckpointRequest {
        message: request.message.clone().or(message),
        within: projects.confinement().cloned(),
        ..request
    };
    let projects = Arc::clone(projects);
    caller
        .work(move |work| {
            let shown = approved.as_deref();
            make(
                &projects,
                named.as_deref(),
                &request,
                (effect, shown),
                &work,
            )
        })
        .await
        .map(CallReply::Done)
}

/// The outcome of asking a person before a commit.
enum CheckpointApproval {
    /// The hash of what was approved; the commit must have exactly this.
    Given(String),
    /// The client must ask the person and call again.
    Asked(CallReply),
}

/// The subject of the question, as it travels through a client.
#[derive(Serialize, Deserialize)]
struct CheckpointSubject {
    root: PathBuf,
    /// The hash of the changes that were shown.
    checkpoint: String,
}

/// Asks the person whether the changes may be committed. An answer is for these changes only.
async fn approve(
    projects: &Arc<Projects>,
    named: Option<&str>,
    caller: &Caller,
) -> Result<CheckpointApproval, ToolFailure> {
    let (here, project) = (Arc::clone(projects), named.map(str::to_owned));
    let (root, changes, text) = caller
        .work(move |work| {
            let (project, ctx) = here.project(project.as_deref())?;
            let _turn = lock(&project.turn);
            refuse_cancelled(&work)?;
            refuse_owned(&ctx)?;
            let (changes, _) = preview(&project, &ctx)?;
            let text = if changes.is_empty() {
                String::new()
            } else {
                let repository = open_repository(&ctx).map_err(RunError::from)?;
                agent_loop::shown_changes(&repository, &changes, &[])?
            };
            Ok((ctx.root, changes, text))
        })
        .await?;
    let shown = fingerprint(&changes);
    if changes.is_empty() {
        return Ok(CheckpointApproval::Given(shown));
    }
    let subject = CheckpointSubject {
        root,
        checkpoint: shown.clone(),
    };
    let answered = caller
        .state
        .as_deref()
        .and_then(|sealed| decision::unseal::<CheckpointSubject>(projects, caller, sealed).ok())
        .filter(|asked| asked.checkpoint == subject.checkpoint && asked.root == subject.root);
    let is_allowed = if answered.is_some() {
        decision::consent_of(caller.answered.as_ref())
    } else {
        let text = format!("Commit these changes?{text}");
        let titles = ["Commit these changes", "Do not commit them"];
        match decision::ask_consent(projects, caller, (&text, titles), &subject).await? {
            Asked::Reply(question) => {
                return Ok(CheckpointApproval::Asked(CallReply::Asked(question)));
            }
            Asked::Answer(is_allowed) => is_allowed,
        }
    };
    if is_allowed {
        return Ok(CheckpointApproval::Given(shown));
    }
    let reason = "the person did not approve these changes; nothing was committed";
    Err(
        ToolFailure::new(ErrorTitle::PersonNeeded, Code::PersonNeeded, reason)
            .with_suggestion("ask the person; `piton checkpoint` in a terminal commits them")
            .with("status", "denied")
            .with("reason", reason)
            .with("state", "unchanged")
            .with("terminal", "piton checkpoint"),
    )
}

/// The hash of changes: their paths, and what they are before and after.
fn fingerprint(changes: &[Change]) -> String {
    let lines: Vec<String> = changes.iter().map(|change| format!("{change:?}")).collect();
    decision::digest(&lines.join("\n"))
}

/// Reads the inputs of the directive. A call that only shows the changes needs none.
fn request(
    arguments: &CallArguments,
    effect: CallEffect,
) -> Result<CheckpointRequest, ToolFailure> {
    let inputs = CallArguments::new(
        Some(arguments.object("parameters")?),
        &["operation", "caller_directive", "message"],
    )?;
    Ok(CheckpointRequest {
        selection: CommitSelection::Recorded,
        operation: redacted(match effect {
            CallEffect::Real => inputs.required("operation")?,
            CallEffect::Shown => inputs.text("operation")?.unwrap_or("checkpoint"),
        }),
        message: inputs.text("message")?.map(redacted),
        directive: inputs.text("caller_directive")?.map(redacted),
        edits: EditsSince::LeaveOut,
        within: None,
    })
}

/// The project root and the text from which the model writes a message; none if there is nothing to
/// commit.
fn describe(
    projects: &Projects,
    named: Option<&str>,
    about: &str,
    work: &CallWork,
) -> Result<Option<(PathBuf, String)>, ToolFailure> {
    let (project, ctx) = projects.project(named)?;
    let _turn = lock(&project.turn);
    refuse_cancelled(work)?;
    refuse_owned(&ctx)?;
    let (changes, _) = preview(&project, &ctx)?;
    let shown = (!changes.is_empty()).then(|| message_request::describe(&ctx, about, &changes));
    Ok(shown.map(|shown| (ctx.root, shown)))
}

fn preview(
    project: &Project,
    ctx: &Context,
) -> Result<(Vec<Change>, Option<&'static str>), ToolFailure> {
    Ok(project.with_baseline(|baseline| match baseline {
        Some(baseline) => baseline.preview(ctx),
        None => Ok((Vec::new(), None)),
    })??)
}

fn make(
    projects: &Projects,
    named: Option<&str>,
    request: &CheckpointRequest,
    (effect, approved): (CallEffect, Option<&str>),
    work: &CallWork,
) -> Result<ToolAnswer, ToolFailure> {
    let (project, ctx) = projects.project(named)?;
    let ctx = &work.equip(ctx);
    let _turn = lock(&project.turn);
    refuse_cancelled(work)?;
    refuse_owned(ctx)?;
    if let Some(approved) = approved
        && fingerprint(&preview(&project, ctx)?.0) != approved
    {
        let reason = "the files changed after they were shown to the person; nothing was committed";
        return Err(
            ToolFailure::new(ErrorTitle::AnswerRefused, Code::ChangedSinceShown, reason)
                .with_suggestion(
                    "make the call again: the person is asked about the files as they are then",
                )
                .with("status", "error")
                .with("reason", reason)
                .with("state", "unchanged"),
        );
    }
    if effect == CallEffect::Shown {
        let (changes, note) = preview(&project, ctx)?;
        return show(&changes, note);
    }
    let run = RunRequest {
        name: "checkpoint".to_owned(),
        command: vec![
            "piton".to_owned(),
            "mcp".to_owned(),
            "git_checkpoint".to_owned(),
        ],
        mode: CheckpointMode::Auto,
        lock_timeout: PATIENCE,
        directive: None,
    };
    let mut progress = RunProgress::new(work);
    let mut summary = None;
    let mut observe = |event: &Event| {
        if let Event::RunFinished(ended) = event {
            summary = Some(ended.clone());
        }
        progress.event(event);
    };
    let kept = project.with_baseline(|baseline| match baseline {
        Some(baseline) => baseline.checkpoint(ctx, request, &run, &mut observe),
        None => git_checkpoint(ctx, request, &run, &mut observe).map(|(checkpoint, _)| {
            BaselineCheckpoint {
                checkpoint,
                note: None,
            }
        }),
    })??;
    answer(kept, summary)
}

/// The answer to a call that made a checkpoint.
fn answer(
    kept: BaselineCheckpoint,
    summary: Option<RunSummary>,
) -> Result<ToolAnswer, ToolFailure> {
    let run_id = summary.as_ref().map(|summary| summary.run_id);
    let note = kept.note;
    match kept.checkpoint {
        GitCheckpoint::Committed {
            commit_sha,
            commit_message,
            files_changed,
            insertions,
            deletions,
        } => ToolAnswer::result(&json!({
            "action": "run",
            "status": "success",
            "run_id": run_id,
            "commit_sha": commit_sha,
            "commit_message": commit_message,
            "files_changed": files_changed,
            "insertions": insertions,
            "deletions": deletions,
            "note": note,
        })),
        GitCheckpoint::NoChanges => ToolAnswer::result(&json!({
            "action": "run",
            "status": "no_changes",
            "run_id": run_id,
            "message": "there is nothing to commit: neither steps of piton nor you have changed anything since",
            "note": note,
        })),
        GitCheckpoint::Failed { reason, state } => {
            let error = summary.and_then(|summary| summary.error);
            let failure = match &error {
                Some(error) => ToolFailure::of_run(error),
                None => ToolFailure::new(
                    ErrorTitle::ExecutionFailed,
                    Code::CheckpointFailed,
                    reason.clone(),
                ),
            };
            let state = serde_json::to_value(state).unwrap_or_default();
            let run_id = run_id.map(|id| id.to_string());
            Err(failure
                .with("status", "error")
                .with("run_id", run_id)
                .with("reason", reason)
                .with("state", state))
        }
    }
}

fn show(changes: &[Change], note: Option<&str>) -> Result<ToolAnswer, ToolFailure> {
    let sum = |count: fn(&Change) -> u64| changes.iter().map(count).sum::<u64>();
    ToolAnswer::result(&json!({
        "action": "run",
        "status": if changes.is_empty() { "no_changes" } else { "success" },
        "dry_run": true,
        "files": changes.iter().map(|change| json!({"path": change.path, "change": change.kind()})).collect::<Vec<_>>(),
        "files_changed": changes.len(),
        "insertions": sum(|change| change.insertions),
        "deletions": sum(|change| change.deletions),
        "note": note,
    }))
}

/// Refuses a checkpoint while a step waits: changes made meanwhile belong to that step's
/// checkpoint.
fn refuse_owned(ctx: &Context) -> Result<(), ToolFailure> {
    let run = match run_here(ctx) {
        Ok((run, _)) => run,
        Err(RunError::NothingWaits) => return Ok(()),
        Err(err) => return Err(err.into()),
    };
    let past = ProjectHistory::load(ctx)?;
    let open = past
        .history
        .run(run)
        .and_then(|record| record.steps.last())
        .filter(|step| step.status.is_none());
    let Some(open) = open.filter(|step| step.before.is_some()) else {
        return Ok(());
    };
    let reason = format!(
        "run {run} waits at step `{}`, and what changes meanwhile belongs to that step",
        shown(&open.name)
    );
    Err(ToolFailure::new(ErrorTitle::RunWaits, Code::RunWaits, reason.clone())
        .with_suggestion(format!(
            "finish the step with `action: \"continue\"` and `run_id: \"{run}\"`, which makes the checkpoint"
        ))
        .with("status", "error")
        .with("run_id", run.to_string())
        .with("reason", reason)
        .with("state", "unchanged"))
}
