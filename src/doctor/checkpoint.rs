//! A real checkpoint and a real roll back, in a throw-away repository.

use std::fs;
use std::time::Duration;

use super::ProbeContext;
use super::probe::ProbeOutcome;
use crate::audit::verification::{self, VerificationScope};
use crate::checkpoint::repository::create_repository;
use crate::context::Context;
use crate::exec::subprocess::Streams;
use crate::exec::supervisor::Watch;
use crate::item::directive::CheckpointMode;
use crate::item::source::read_bytes;
use crate::item::tool::Isolation;
use crate::journal::summary::{CheckpointStatus, RunSummary};
use crate::problem::{Explain, with_causes};
use crate::run::error::RunError;
use crate::run::session::{RunRequest, Session};
use crate::run::step::{self, CommandStep};
use crate::workspace::{key_file, open_repository};

/// Commits one step and rolls back another, and checks that the user's own file is unchanged.
pub(super) fn checkpoint(around: &ProbeContext) -> ProbeOutcome {
    match try_it(around) {
        Ok(None) => ProbeOutcome::ok(
            "a step was committed, a failing one was rolled back, and the record verifies",
        ),
        Ok(Some(wrong)) => ProbeOutcome::missing(
            wrong,
            "this is a bug: please report it, with the kind of your file system",
        ),
        Err(err) => {
            let hint = err
                .hint()
                .unwrap_or_else(|| "see `piton quickstart -v` for more".into());
            ProbeOutcome::missing(with_causes(&err), hint)
        }
    }
}

/// Returns what is wrong; `None` if everything is right.
fn try_it(around: &ProbeContext) -> Result<Option<String>, RunError> {
    let ctx = around.project("rope")?;
    create_repository(&ctx.root)?;
    let own = ctx.root.join("own.txt");
    fs::write(&own, "mine\n").map_err(RunError::Marker)?;
    let kept = step(&ctx, "printf 'kept\\n' > kept.txt")?;
    if status(&kept) != Some(CheckpointStatus::Committed) {
        return Ok(Some(
            "a step that changed a file was not committed".to_owned(),
        ));
    }
    let undone = step(
        &ctx,
        "printf 'harm\\n' > own.txt; rm kept.txt; : > junk.txt; exit 3",
    )?;
    let holds = |name: &str, text: &str| {
        read_bytes(&ctx.root.join(name), 64).is_ok_and(|it| it == text.as_bytes())
    };
    let is_back = holds("own.txt", "mine\n")
        && holds("kept.txt", "kept\n")
        && !ctx.root.join("junk.txt").exists();
    if status(&undone) != Some(CheckpointStatus::RolledBack) || !is_back {
        return Ok(Some("a failed step was not rolled back".to_owned()));
    }
    let key = key_file(&ctx).read()?;
    let scope = VerificationScope::All;
    let verified = verification::verify(&open_repository(&ctx)?, &scope, key.as_ref())?;
    let broken = verified
        .breaks
        .first()
        .map(|it| format!("the record does not verify: {}", it.message));
    Ok(broken)
}

fn status(summary: &RunSummary) -> Option<CheckpointStatus> {
    summary
        .steps
        .first()
        .and_then(|step| step.checkpoint.as_ref())
        .map(|checkpoint| checkpoint.status)
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
        isolation: Isolation::Trusted,
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
    let end = step::run_command(&mut session, &command, supervisor)?;
    session.finish(end.run_status(), end.error)
}
