//! `git_checkpoint`: committing what steps have left on disk, and what an agent has changed itself.

use serde_json::{Map, Value, json};

use super::directive::refuse_cancelled;
use super::tool::PATIENCE;
use crate::checkpoint::delta::Change;
use crate::checkpoint::secret::redacted;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::item::wording::shown;
use crate::journal::event::Event;
use crate::mcp::answer::Answer;
use crate::mcp::arguments::Arguments;
use crate::mcp::call::Work;
use crate::mcp::desk::{Project, lock};
use crate::mcp::failure::Failure;
use crate::mcp::tale::Tale;
use crate::run::baseline::Kept;
use crate::run::checkpoint::{CheckpointRequest, GitCheckpoint, Selection, git_checkpoint};
use crate::run::error::RunError;
use crate::run::past::{Past, run_here};
use crate::run::session::RunRequest;

/// Whether something is done, or only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It is done.
    Real,
    /// Nothing is changed.
    Shown,
}

/// Makes a checkpoint, or shows what it would hold.
pub(super) fn run(
    project: &Project,
    ctx: &Context,
    inputs: Map<String, Value>,
    effect: Effect,
    work: &Work,
) -> Result<Answer, Failure> {
    let inputs = Arguments::new(Some(inputs), &["operation", "caller_directive", "message"])?;
    let request = CheckpointRequest {
        selection: Selection::Recorded,
        operation: redacted(inputs.text("operation")?.unwrap_or("checkpoint")),
        message: inputs.text("message")?.map(redacted),
        directive: inputs.text("caller_directive")?.map(redacted),
    };
    let _turn = lock(&project.turn);
    refuse_cancelled(work)?;
    refuse_owned(ctx)?;
    if effect == Effect::Shown {
        let (changes, note) = project.with_baseline(|baseline| match baseline {
            Some(baseline) => baseline.preview(ctx),
            None => Ok((Vec::new(), None)),
        })??;
        return show(&changes, note);
    }
    let run = RunRequest {
        name: "checkpoint".to_owned(),
        command: vec!["piton".to_owned(), "mcp".to_owned(), "git_checkpoint".to_owned()],
        mode: CheckpointMode::Auto,
        lock_timeout: PATIENCE,
        directive: None,
    };
    let mut tale = Tale::new(work);
    let mut summary = None;
    let mut observe = |event: &Event| {
        if let Event::RunFinished(ended) = event {
            summary = Some(ended.clone());
        }
        tale.event(event);
    };
    let kept = project.with_baseline(|baseline| match baseline {
        Some(baseline) => baseline.checkpoint(ctx, &request, &run, &mut observe),
        None => git_checkpoint(ctx, &request, &run, &mut observe).map(|checkpoint| Kept { checkpoint, note: None }),
    })??;
    let run_id = summary.as_ref().map(|summary| summary.run_id);
    let note = kept.note;
    match kept.checkpoint {
        GitCheckpoint::Committed { commit_sha, commit_message, files_changed, insertions, deletions } => {
            Answer::result(&json!({
                "action": "run",
                "status": "success",
                "run_id": run_id,
                "commit_sha": commit_sha,
                "commit_message": commit_message,
                "files_changed": files_changed,
                "insertions": insertions,
                "deletions": deletions,
                "note": note,
            }))
        }
        GitCheckpoint::NoChanges => Answer::result(&json!({
            "action": "run",
            "status": "no_changes",
            "run_id": run_id,
            "message": "there is nothing to commit: neither steps of piton nor you have changed anything since",
            "note": note,
        })),
        GitCheckpoint::Failed { reason, state } => {
            let error = summary.and_then(|summary| summary.error);
            let failure = match &error {
                Some(error) => Failure::of_run(error),
                None => Failure::new("Execution failed", "CHECKPOINT_FAILED", reason.clone()),
            };
            let state = serde_json::to_value(state).unwrap_or_default();
            let run_id = run_id.map(|id| id.to_string());
            Err(failure.with("status", "error").with("run_id", run_id).with("reason", reason).with("state", state))
        }
    }
}

fn show(changes: &[Change], note: Option<&str>) -> Result<Answer, Failure> {
    let sum = |count: fn(&Change) -> u64| changes.iter().map(count).sum::<u64>();
    Answer::result(&json!({
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

/// What changes while a step waits is that step's, and becomes its checkpoint.
fn refuse_owned(ctx: &Context) -> Result<(), Failure> {
    let run = match run_here(ctx) {
        Ok((run, _)) => run,
        Err(RunError::NothingWaits) => return Ok(()),
        Err(err) => return Err(err.into()),
    };
    let past = Past::load(ctx)?;
    let open = past.history.run(run).and_then(|record| record.steps.last()).filter(|step| step.status.is_none());
    let Some(open) = open.filter(|step| step.before.is_some()) else { return Ok(()) };
    let reason =
        format!("run {run} waits at step `{}`, and what changes meanwhile belongs to that step", shown(&open.name));
    Err(Failure::new("Run waits", "RUN_WAITS", reason.clone())
        .with_suggestion(format!(
            "finish the step with `action: \"continue\"` and `run_id: \"{run}\"`, which makes the checkpoint"
        ))
        .with("status", "error")
        .with("run_id", run.to_string())
        .with("reason", reason)
        .with("state", "unchanged"))
}
