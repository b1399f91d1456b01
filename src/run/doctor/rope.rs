//! A real checkpoint and a real roll back, in a repository that is thrown away.

use std::fs;
use std::time::Duration;

use super::Surroundings;
use super::probe::Outcome;
use crate::audit::verification::{self, Scope};
use crate::checkpoint::repository::create_repository;
use crate::context::Context;
use crate::exec::subprocess::Streams;
use crate::exec::supervisor::Watch;
use crate::item::directive::CheckpointMode;
use crate::item::source::read_bytes;
use crate::journal::summary::{CheckpointStatus, RunSummary};
use crate::problem::{Explain, with_causes};
use crate::run::error::RunError;
use crate::run::session::{RunRequest, Session, open_repository};
use crate::run::step::CommandStep;

/// Whether a step is committed and another one put back, with the user's own file as it was.
pub(super) fn rope(around: &Surroundings) -> Outcome {
    match try_it(around) {
        Ok(None) => Outcome::ok("a step was committed, a failing one was put back, and the record holds"),
        Ok(Some(wrong)) => {
            Outcome::missing(wrong, "this is a bug: please report it, with the kind of your file system")
        }
        Err(err) => {
            let hint = err.hint().unwrap_or_else(|| "see `piton quickstart -v` for more".into());
            Outcome::missing(with_causes(&err), hint)
        }
    }
}

/// What is not as it has to be; none when all is well.
fn try_it(around: &Surroundings) -> Result<Option<String>, RunError> {
    let ctx = around.project("rope")?;
    create_repository(&ctx.root)?;
    let own = ctx.root.join("own.txt");
    fs::write(&own, "mine\n").map_err(RunError::Marker)?;
    let kept = step(&ctx, "printf 'kept\\n' > kept.txt")?;
    if status(&kept) != Some(CheckpointStatus::Committed) {
        return Ok(Some("a step that changed a file was not committed".to_owned()));
    }
    let undone = step(&ctx, "printf 'harm\\n' > own.txt; rm kept.txt; : > junk.txt; exit 3")?;
    let holds = |name: &str, text: &str| read_bytes(&ctx.root.join(name), 64).is_ok_and(|it| it == text.as_bytes());
    let is_back = holds("own.txt", "mine\n") && holds("kept.txt", "kept\n") && !ctx.root.join("junk.txt").exists();
    if status(&undone) != Some(CheckpointStatus::RolledBack) || !is_back {
        return Ok(Some("a step that failed was not put back".to_owned()));
    }
    let verified = verification::verify(&open_repository(&ctx)?, &Scope::All)?;
    let broken = verified.breaks.first().map(|it| format!("the record does not hold: {}", it.message));
    Ok(broken)
}

fn status(summary: &RunSummary) -> Option<CheckpointStatus> {
    summary.steps.first().and_then(|step| step.checkpoint.as_ref()).map(|checkpoint| checkpoint.status)
}

fn step(ctx: &Context, script: &str) -> Result<RunSummary, RunError> {
    let request = RunRequest {
        name: "probe".to_owned(),
        command: vec!["piton".to_owned(), "doctor".to_owned()],
        mode: CheckpointMode::Auto,
        lock_timeout: Duration::ZERO,
        directive: None,
    };
    let command = CommandStep {
        name: "probe".to_owned(),
        argv: vec!["/bin/sh".into(), "-c".into(), script.into()],
        folder: ctx.root.clone(),
        writes: Vec::new(),
        on_failure: None,
        message: None,
        streams: Streams::OutputToStderr,
        watch: Watch::Yes,
    };
    let mut silent = |_: &_| {};
    let mut session = Session::begin(ctx, &request, &mut silent)?;
    let supervisor = command.supervisor(ctx)?;
    let end = session.run_command(&command, supervisor)?;
    session.finish(end.run_status(), end.error)
}
