//! Item commands: one verb, asked for by a person.
//!
//! What is written into the project is one step of a run of its own, so that it can be undone and is
//! in the log; what nobody has to write makes no run. What goes to the user's `~/.ai` is covered by no snapshot and
//! is written at once.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::coverage::{self, UncoveredFile};
use super::sign::authored::{self, Signatures};
use super::{Home, ItemAnswer, ItemEffect, Loss, Verb, apply, carry_out};
use crate::context::Context;
use crate::exec::ssh::Talk;
use crate::item::directive::CheckpointMode;
use crate::item::finding::Strength;
use crate::item::store::ItemStore;
use crate::journal::event::StepKind;
use crate::journal::summary::{RunSummary, StepStatus};
use crate::run::error::RunError;
use crate::run::session::{Observer, RunRequest, Session};
use crate::run::settle::{Fate, Verdict, Wording};
use crate::run::step::StepEnd;
use crate::run::tool::told_parameters;

/// What is to be done with items.
#[derive(Clone, Debug)]
pub struct ItemRequest {
    /// What.
    pub verb: Verb,
    /// With which, and how.
    pub parameters: Map<String, Value>,
    /// How it was started, for the journal.
    pub command: Vec<String>,
    /// When changes are checkpointed; what the settings say, by default.
    pub mode: Option<CheckpointMode>,
    /// The message of the commit, instead of a generated one.
    pub message: Option<String>,
    /// Whether to write anything.
    pub effort: Effort,
    /// How long to wait for another run in this worktree.
    pub lock_timeout: Duration,
}

/// How far to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// To the end.
    #[default]
    Do,
    /// Up to writing.
    Plan,
}

/// The person who signs.
#[derive(Clone, Copy)]
enum Author<'a> {
    /// There is none: a stamp is all that is asked for.
    Nobody,
    /// Somebody who would sign with this key.
    Foreseen(&'a Path),
    /// Somebody who has signed.
    Signed(&'a Signatures),
}

/// What became of it.
#[derive(Clone, Debug, Serialize)]
pub struct ItemOutcome {
    /// What was done, or would be; none when it failed and was put back.
    #[serde(flatten)]
    pub answer: Option<ItemAnswer>,
    /// Whether nothing was written, because nobody wanted that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The run that wrote it; none when nothing was written into the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSummary>,
    /// Whether there is no repository, so that no undo takes it back.
    #[serde(skip)]
    pub lacks_git: bool,
    /// Files that no checkpoint holds, and no undo takes back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncovered: Vec<UncoveredFile>,
}

impl ItemRequest {
    /// A request that goes to the end, as the settings say.
    pub fn new(verb: Verb, parameters: Map<String, Value>, command: Vec<String>) -> Self {
        Self { verb, parameters, command, mode: None, message: None, effort: Effort::Do, lock_timeout: Duration::ZERO }
    }
}

/// Does something with items, as a run of its own where it writes into the project.
pub fn perform(ctx: &Context, request: &ItemRequest, observer: &mut Observer<'_>) -> Result<ItemOutcome, RunError> {
    carry(ctx, request, Author::Nobody, observer)
}

/// Signs items with the key of a person, who has to be at the terminal: nothing else may call this.
pub fn sign_as(
    ctx: &Context,
    request: &ItemRequest,
    key: &Path,
    talk: &mut Talk<'_>,
    observer: &mut Observer<'_>,
) -> Result<ItemOutcome, RunError> {
    if request.effort == Effort::Plan {
        return carry(ctx, request, Author::Foreseen(key), observer);
    }
    let signatures = authored::make(ctx, key, &plan(ctx, request, Author::Nobody)?, talk)?;
    carry(ctx, request, Author::Signed(&signatures), observer)
}

fn carry(
    ctx: &Context,
    request: &ItemRequest,
    author: Author<'_>,
    observer: &mut Observer<'_>,
) -> Result<ItemOutcome, RunError> {
    let mode = mode(ctx, request);
    let mut effect = plan(ctx, request, author)?;
    let writes_project = effect.writes.iter().any(|write| write.home == Home::Project);
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
        return Ok(ItemOutcome { answer: Some(effect.answer), dry_run, run: None, lacks_git: false, uncovered });
    }
    let run_request = RunRequest {
        name: request.verb.to_string(),
        command: request.command.clone(),
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
            Ok(ItemOutcome { answer, dry_run: false, run: Some(run), lacks_git, uncovered })
        }
        Err(err) => {
            session.abandon(&err)?;
            Err(err)
        }
    }
}

fn mode(ctx: &Context, request: &ItemRequest) -> CheckpointMode {
    request.mode.or_else(|| ctx.config.checkpoint_mode()).unwrap_or(CheckpointMode::Explicit)
}

fn plan(ctx: &Context, request: &ItemRequest, author: Author<'_>) -> Result<ItemEffect, RunError> {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let mut effect = carry_out(ctx, &store, request.verb, &request.parameters, Loss::of(mode(ctx, request)))?;
    match author {
        Author::Nobody => {}
        Author::Foreseen(key) => authored::foresee(ctx, key, &mut effect)?,
        Author::Signed(signatures) => authored::add(ctx, &mut effect, signatures)?,
    }
    Ok(effect)
}

/// Plans again under the lock, since somebody may have changed the items meanwhile, and writes.
fn write(
    ctx: &Context,
    request: &ItemRequest,
    author: Author<'_>,
    session: &mut Session<'_, '_>,
    mode: CheckpointMode,
) -> Result<(ItemAnswer, StepEnd), RunError> {
    let effect = plan(ctx, request, author)?;
    let (verb, parameters) = (request.verb.to_string(), told_parameters(&request.parameters));
    let kind = StepKind::Item { verb: verb.clone(), parameters };
    let wording = Wording { name: &verb, given: request.message.as_deref(), ..Wording::default() };
    let fate = Fate {
        success: match mode {
            CheckpointMode::Auto => Verdict::Commit,
            CheckpointMode::Explicit | CheckpointMode::Disabled => {
                Verdict::Keep("explicit mode: `piton checkpoint` commits it")
            }
        },
        failure: Verdict::RollBack("not everything could be written"),
    };
    let end = session.write_items(wording, kind, &effect, fate)?;
    // Nobody is asked about a command that somebody has just typed.
    let end =
        end.unwrap_or(StepEnd { status: StepStatus::Cancelled, error: None, interrupted: false, command_status: None });
    Ok((effect.answer, end))
}
