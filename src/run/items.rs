//! Item commands: one verb, requested by a person.
//!
//! Writes to the project are one step of a run of its own, so that they can be undone and are in
//! the log; a verb that writes nothing makes no run. No snapshot covers the user's `~/.ai`, so
//! writes there happen at once.

mod step;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::authoring::coverage::{self, UncoveredFile};
use crate::authoring::sign::authored::{self, Signatures};
use crate::authoring::{
    Effort, Home, ItemAnswer, ItemCommand, ItemEffect, Loss, agent, apply, carry_out,
};
use crate::context::Context;
use crate::exec::ssh::Talk;
use crate::item::directive::CheckpointMode;
use crate::item::finding::Strength;
use crate::item::store::ItemStore;
use crate::journal::event::StepKind;
use crate::journal::summary::{RunSummary, StepStatus};
use crate::run::error::RunError;
use crate::run::session::{Observer, RunRequest, Session};
use crate::run::settle::{ChangesVerdict, Fate, Wording};
use crate::run::step::StepEnd;
use crate::run::tool::journal_parameters;

pub(super) use step::write_items;

/// A request for an item verb.
#[derive(Clone, Debug)]
pub struct ItemRequest {
    pub command: ItemCommand,
    /// The command line, for the journal.
    pub command_line: Vec<String>,
    /// The checkpoint mode; by default that of the settings.
    pub mode: Option<CheckpointMode>,
    pub message: Option<String>,
    pub effort: Effort,
    /// How long to wait for another run in this worktree.
    pub lock_timeout: Duration,
}

/// The signature to add.
#[derive(Clone, Copy)]
enum SigningAuthor<'a> {
    /// None, only a stamp.
    StampOnly,
    /// A planned signature with this key.
    Foreseen(&'a Path),
    /// Signatures that were made.
    Signed(&'a Signatures),
}

/// The result of an item verb.
#[derive(Clone, Debug, Serialize)]
pub struct ItemOutcome {
    /// The answer; `None` if it failed and was rolled back.
    #[serde(flatten)]
    pub answer: Option<ItemAnswer>,
    /// Whether it was only planned.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The run that wrote; `None` if nothing was written to the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSummary>,
    /// Whether there is no repository, so that it cannot be undone.
    #[serde(skip)]
    pub lacks_git: bool,
    /// Files that no checkpoint holds, so that they cannot be undone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncovered: Vec<UncoveredFile>,
}

impl ItemRequest {
    /// A request that writes, with the defaults of the settings.
    pub fn new(command: ItemCommand, command_line: Vec<String>) -> Self {
        Self {
            command,
            command_line,
            mode: None,
            message: None,
            effort: Effort::Do,
            lock_timeout: Duration::ZERO,
        }
    }
}

/// Performs an item verb, as a run of its own if it writes to the project.
pub fn perform(
    ctx: &Context,
    request: &ItemRequest,
    observer: &mut Observer<'_>,
) -> Result<ItemOutcome, RunError> {
    carry(ctx, request, SigningAuthor::StampOnly, observer)
}

/// Signs items with the key of a person at the terminal. Only the terminal may call this.
pub fn sign_as(
    ctx: &Context,
    request: &ItemRequest,
    key: &Path,
    talk: &mut Talk<'_>,
    observer: &mut Observer<'_>,
) -> Result<ItemOutcome, RunError> {
    if request.effort == Effort::Plan {
        return carry(ctx, request, SigningAuthor::Foreseen(key), observer);
    }
    let signatures = authored::make(
        ctx,
        key,
        &plan(ctx, request, SigningAuthor::StampOnly)?,
        talk,
    )?;
    carry(ctx, request, SigningAuthor::Signed(&signatures), observer)
}

fn carry(
    ctx: &Context,
    request: &ItemRequest,
    author: SigningAuthor<'_>,
    observer: &mut Observer<'_>,
) -> Result<ItemOutcome, RunError> {
    let mode = mode(ctx, request);
    let mut effect = plan(ctx, request, author)?;
    let writes_project = effect
        .writes
        .iter()
        .any(|write| write.home == Home::Project);
    let uncovered = match Loss::of(mode) {
        Loss::Refused if writes_project => coverage::refuse_loss(ctx, &effect)?,
        Loss::Refused | Loss::Accepted => Vec::new(),
    };
    if request.effort == Effort::Plan || !writes_project {
        match request.effort {
            Effort::Do => apply(ctx, &effect.writes)?,
            Effort::Plan => effect.answer.only_planned(),
        }
        let dry_run = request.effort == Effort::Plan;
        return Ok(ItemOutcome {
            answer: Some(effect.answer),
            dry_run,
            run: None,
            lacks_git: false,
            uncovered,
        });
    }
    let run_request = RunRequest {
        name: request.command.verb().to_string(),
        command: request.command_line.clone(),
        mode,
        lock_timeout: request.lock_timeout,
        directive: None,
    };
    let mut session = Session::begin(ctx, &run_request, observer)?;
    let lacks_git = session.lacks_git();
    match write(ctx, request, author, &mut session, mode) {
        Ok((answer, end)) => {
            let answer = Some(answer).filter(|_| end.status == StepStatus::Succeeded);
            let run = session.finish(end.run_status(), end.error)?;
            Ok(ItemOutcome {
                answer,
                dry_run: false,
                run: Some(run),
                lacks_git,
                uncovered,
            })
        }
        Err(err) => {
            session.abandon(&err)?;
            Err(err)
        }
    }
}

fn mode(ctx: &Context, request: &ItemRequest) -> CheckpointMode {
    request
        .mode
        .or_else(|| ctx.config.checkpoint_mode())
        .unwrap_or(CheckpointMode::Explicit)
}

fn plan(
    ctx: &Context,
    request: &ItemRequest,
    author: SigningAuthor<'_>,
) -> Result<ItemEffect, RunError> {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let mut effect = carry_out(ctx, &store, &request.command, Loss::of(mode(ctx, request)))?;
    agent::require_allowed(ctx, &store, &effect)?;
    agent::require_project(ctx, &effect.writes)?;
    match author {
        SigningAuthor::StampOnly => {}
        SigningAuthor::Foreseen(key) => authored::foresee(ctx, key, &mut effect)?,
        SigningAuthor::Signed(signatures) => authored::add(ctx, &mut effect, signatures)?,
    }
    Ok(effect)
}

/// Plans again under the lock, since another process may have changed the items, and writes.
fn write(
    ctx: &Context,
    request: &ItemRequest,
    author: SigningAuthor<'_>,
    session: &mut Session<'_>,
    mode: CheckpointMode,
) -> Result<(ItemAnswer, StepEnd), RunError> {
    let effect = plan(ctx, request, author)?;
    let verb = request.command.verb().to_string();
    let kind = StepKind::Item {
        verb: verb.clone(),
        parameters: journal_parameters(&request.command.parameters()),
    };
    let wording = Wording {
        name: &verb,
        given: request.message.as_deref(),
        ..Wording::default()
    };
    let fate = Fate {
        success: match mode {
            CheckpointMode::Auto => ChangesVerdict::Commit,
            CheckpointMode::Explicit | CheckpointMode::Disabled => {
                ChangesVerdict::Keep("left uncommitted; run `piton checkpoint` to commit it")
            }
        },
        failure: ChangesVerdict::RollBack("not everything could be written"),
    };
    let end = write_items(session, wording, kind, &effect, fate)?;
    // The user typed the command, so no approval is needed.
    let end = end.unwrap_or(StepEnd {
        status: StepStatus::Cancelled,
        error: None,
        interrupted: false,
        command_status: None,
    });
    Ok((effect.answer, end))
}
