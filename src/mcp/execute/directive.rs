//! Starts the run of a directive.

use std::sync::Arc;

use serde_json::{Value, json};

use super::checkpoint::{self, Effect};
use super::led::{self, Stage};
use super::tool::{PATIENCE, mode};
use crate::checkpoint::secret::redacted;
use crate::mcp::answer::Answer;
use crate::mcp::arguments::Arguments;
use crate::mcp::call::{Caller, Reply, Work};
use crate::mcp::desk::{Desk, lock};
use crate::mcp::failure::Failure;
use crate::problem::Code;
use crate::run::directive::pin::RunOptions;
use crate::run::directive::preview::{explained, preview};
use crate::run::directive::{DirectiveRequest, Prepared, Worker};

/// The directive that is built into piton.
const GIT_CHECKPOINT: &str = "git_checkpoint";

/// Runs a directive until it ends or waits for a person or an agent.
pub(super) async fn run(desk: &Arc<Desk>, arguments: Arguments, caller: &Caller) -> Result<Reply, Failure> {
    let id = arguments.text("item_id")?.unwrap_or_default();
    if id.rsplit('/').next() == Some(GIT_CHECKPOINT) {
        return checkpoint::run(desk, arguments, caller).await;
    }
    // The client repeats the call with the person's answer; the run exists already.
    if let Some(sealed) = &caller.state {
        return led::answered(desk, caller, sealed, arguments.text("project_path")?).await;
    }
    let here = Arc::clone(desk);
    let stage = caller.work(move |work| begin(&here, &arguments, &work)).await?;
    led::follow(desk, caller, stage).await
}

fn begin(desk: &Desk, arguments: &Arguments, work: &Work) -> Result<Stage, Failure> {
    let id = arguments.required("item_id")?.to_owned();
    let (project, ctx) = desk.project(arguments.text("project_path")?)?;
    let ctx = work.equip(ctx);
    let inputs = arguments.object("parameters")?;
    let effect = Effect::of(arguments)?;
    let request = DirectiveRequest {
        command: vec!["piton".to_owned(), "mcp".to_owned(), "run".to_owned(), redacted(&id)],
        id,
        inputs,
        words: Vec::new(),
        mode: mode(arguments)?,
        options: RunOptions { ask: arguments.flag("ask")?, atomic: arguments.flag("atomic")?, ..RunOptions::default() },
        lock_timeout: PATIENCE,
        run: None,
        worker: Worker::Driver,
    };
    let prepared = match Prepared::new(&ctx, &request) {
        Err(err) if effect == Effect::Shown => return Err(explained(&ctx, &request, err).into()),
        prepared => prepared?,
    };
    if effect == Effect::Shown {
        return planned(&Answer::result(&preview(&ctx, &request, prepared))?).map(Stage::Told);
    }
    let turn = lock(&project.turn);
    refuse_cancelled(work)?;
    project.remember();
    prepared.notes().into_iter().for_each(|note| work.tell(note));
    let stage = led::begin(&ctx, &request, prepared, work);
    drop(turn);
    stage
}

/// The preview, with the fields that every answer has.
fn planned(shown: &Answer) -> Result<Answer, Failure> {
    let mut told = json!({"action": "run", "status": "planned", "dry_run": true});
    if let (Value::Object(told), Value::Object(shown)) = (&mut told, &shown.value) {
        told.extend(shown.clone());
    }
    Answer::result(&told)
}

/// Stops a call that was cancelled while it waited for its turn.
pub(super) fn refuse_cancelled(work: &Work) -> Result<(), Failure> {
    if work.stop.is_asked() {
        return Err(Failure::new("Cancelled", Code::Interrupted, "the call was cancelled").with("status", "cancelled"));
    }
    Ok(())
}
