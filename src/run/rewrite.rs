//! Records that git has replaced commits of checkpoints, in a journal of its own.
//!
//! It takes no lock, because a run may be active or waiting in this worktree. The journal is built
//! elsewhere and moved into place as a whole, so a crash leaves nothing behind.

use std::fs;
use std::path::Path;

use super::error::RunError;
use crate::audit::fate::{BranchReading, Fates};
use crate::audit::history::History;
use crate::audit::trail;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::rewriting::CommitReplacement;
use crate::context::Context;
use crate::disk::{Disk, create_private_folder};
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::journal::event::{Event, RewrittenCommit};
use crate::journal::summary::{RunStatus, RunSummary};
use crate::journal::{Durability, Journal, JournalError, RunId, Salt, StepId, sequence};
use crate::workspace::key_file;

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewriteOutcome {
    /// None of the commits names a step.
    Nothing,
    /// A journal was written.
    Run {
        run: RunId,
        /// Steps whose commits were replaced by commits with other changes.
        changed: Vec<(StepId, ObjectId)>,
    },
}

/// Records which commits `cause` has replaced.
pub fn record(
    ctx: &Context,
    repository: &Repository,
    cause: &str,
    replaced: &[CommitReplacement],
) -> Result<RewriteOutcome, RunError> {
    let commits: Vec<RewrittenCommit> = replaced.iter().filter_map(rewritten).collect();
    if commits.is_empty() {
        return Ok(RewriteOutcome::Nothing);
    }
    let changed = commits
        .iter()
        .filter(|commit| !commit.same_changes)
        .map(|commit| (commit.step, commit.new));
    let changed = changed.collect();
    let command = ["piton", "hooks", "run", "post-rewrite", cause]
        .map(str::to_owned)
        .to_vec();
    let events = vec![Event::Rewritten {
        cause: cause.to_owned(),
        commits,
    }];
    let run = write(ctx, repository, &format!("git {cause}"), command, events)?;
    Ok(RewriteOutcome::Run { run, changed })
}

/// Records rewritten checkpoints that no hook has reported; returns their number.
pub fn record_found(ctx: &Context, repository: &Repository) -> Result<usize, RunError> {
    let (history, _) = History::load_all(repository)?;
    let mut commits = Vec::new();
    for (step, old, new) in Fates::find(repository, &history, BranchReading::IfNeeded)?.unrecorded()
    {
        let Some(facts) = repository.find_commit(new)? else {
            continue;
        };
        let delta = repository.changes(repository.base_of(&facts)?, facts.tree)?;
        commits.push(RewrittenCommit {
            step,
            old,
            new,
            delta,
            same_changes: true,
        });
    }
    let count = commits.len();
    if count > 0 {
        let command = ["piton", "push"].map(str::to_owned).to_vec();
        write(
            ctx,
            repository,
            "found",
            command,
            vec![Event::Rewritten {
                cause: "found".to_owned(),
                commits,
            }],
        )?;
    }
    Ok(count)
}

/// Writes events to a new journal and publishes it; returns its run.
pub(super) fn write(
    ctx: &Context,
    repository: &Repository,
    name: &str,
    command: Vec<String>,
    events: Vec<Event>,
) -> Result<RunId, RunError> {
    let run = RunId::new(ctx.now(), ctx.random_bits());
    let mut all = vec![Event::RunStarted {
        name: name.to_owned(),
        command,
        mode: CheckpointMode::Explicit,
        directive: None,
        root: repository.top().to_string_lossy().into_owned(),
        worktree: Some(repository.worktree_name()),
        pinned: None,
        beside: None,
        steps: Vec::new(),
        atomic: false,
        order: Some(sequence::next(&repository.runs_folder())?),
        repository: None,
    }];
    all.extend(events);
    all.push(Event::RunFinished(RunSummary {
        run_id: run,
        directive: None,
        status: RunStatus::Succeeded,
        steps: Vec::new(),
        steps_omitted: 0,
        step_totals: None,
        outputs: serde_json::Map::new(),
        uncommitted: Vec::new(),
        error: None,
    }));
    let runs = repository.runs_folder();
    appear(ctx, &runs, run, &all)?;
    failpoint("rewrite-recorded");
    // If it cannot be published now, `push` publishes it later; the journal has the events.
    let _ = trail::publish(repository, &runs, run);
    Ok(run)
}

/// Creates the journal of a run with all of its events at once.
fn appear(ctx: &Context, runs: &Path, run: RunId, events: &[Event]) -> Result<(), RunError> {
    create_private_folder(runs).map_err(JournalError::io("create", runs))?;
    let draft = tempfile::Builder::new()
        .prefix("draft-")
        .tempdir_in(runs)
        .map_err(JournalError::io("create", runs))?;
    let disk = Disk::of(draft.path(), ctx.config.fsync());
    let key = key_file(ctx).read_or_create(run.started())?;
    let mut journal = Journal::create(
        draft.path(),
        run,
        Salt::new(ctx.random_bits()),
        Durability::LastLine,
        &disk,
    )?
    .authenticated(key);
    for event in events {
        journal.append(ctx.now(), event)?;
    }
    failpoint("rewrite-written");
    let (from, to) = (
        draft.path().join(run.to_string()),
        runs.join(run.to_string()),
    );
    fs::rename(&from, &to).map_err(JournalError::io("move", &from))?;
    Ok(())
}

fn rewritten(replaced: &CommitReplacement) -> Option<RewrittenCommit> {
    let number = replaced.trailers.step.split(' ').next()?.parse().ok()?;
    Some(RewrittenCommit {
        step: StepId {
            run: replaced.trailers.run.parse().ok()?,
            step: number,
        },
        old: replaced.old,
        new: replaced.new,
        delta: replaced.delta.clone(),
        same_changes: replaced.same_changes,
    })
}
