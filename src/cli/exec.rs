//! `piton exec`: any command line as one step.

use std::cell::RefCell;
use std::ffi::OsString;
use std::time::Duration;

use super::render;
use super::ui::{Format, Ui};
use crate::checkpoint::secret::redacted;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::exec::subprocess::Streams;
use crate::exec::supervisor::Watch;
use crate::item::directive::CheckpointMode;
use crate::journal::event::AfterFailure;
use crate::run::session::{RunRequest, Session};
use crate::run::step::CommandStep;

/// Run a command as one step: commit what it changes, or put it back if the command fails
///
/// The work tree is recorded before and after, and piton watches which files the command and everything
/// that it starts open for writing. What the command changed, and nothing else, becomes one commit on the
/// current branch; your own uncommitted work stays as it is, staged or not, and so does what you edit while
/// the command runs. If the command fails, exactly its changes are put back and the undone work stays
/// reachable.
///
/// The exit status is that of the command, 128 + n where signal n ended it. Where piton itself refuses, or cannot make
/// the checkpoint, it is one of piton's own codes (1, 2, 3, 5 or 130), and the last line of `--format json` has another
/// error code than `COMMAND_FAILED`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton exec -- cargo fmt
  piton exec --name upgrade -m 'chore: upgrade' -- npm update
  piton exec --writes 'docs/**' -- ./generate-docs
  piton exec --on-failure keep -- make test            Keep what it wrote, to look at it
  piton exec --checkpoint explicit -- ./experiment     Commit later with `piton checkpoint`")]
pub(super) struct ExecArguments {
    /// When changes are checkpointed: `auto` at once, `explicit` with `piton checkpoint`, `disabled` never.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    checkpoint: Option<CheckpointMode>,
    /// What the step is called in the log and the commit; the program by default.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Files that the command may change, as a pattern relative to the current folder; if it changes others, everything
    /// is put back and the exit status is 3.
    #[arg(long, value_name = "GLOB")]
    writes: Vec<String>,
    /// What becomes of its changes if the command fails: `rollback` (as in mode `auto`) or `keep` (as in the others).
    #[arg(long, value_name = "WHAT", value_parser = parse_after_failure)]
    on_failure: Option<AfterFailure>,
    /// The message of the commit, instead of a generated one.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Do not watch which files the command changes: everything that changes while it runs counts as its work. Needed
    /// for `sudo` inside a script, and for commands that leave their work to a server (a daemon of Gradle, Docker).
    #[arg(long)]
    unwatched: bool,
    /// How many seconds to wait for another run in this worktree.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    lock_timeout: u64,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn parse_mode(text: &str) -> Result<CheckpointMode, String> {
    CheckpointMode::parse(text).ok_or_else(|| "choose `auto`, `explicit` or `disabled`".to_owned())
}

fn parse_after_failure(text: &str) -> Result<AfterFailure, String> {
    AfterFailure::parse(text).ok_or_else(|| "choose `rollback` or `keep`".to_owned())
}

pub(super) fn run(arguments: &ExecArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let program = arguments.command.first().cloned().unwrap_or_default();
    let base = std::path::Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    let name = redacted(&arguments.name.clone().or(base).unwrap_or_default());
    let mode = arguments.checkpoint.or_else(|| ctx.config.checkpoint_mode()).unwrap_or(CheckpointMode::Auto);
    let request = RunRequest {
        name: name.clone(),
        command: words("exec", &arguments.command),
        mode,
        lock_timeout: Duration::from_secs(arguments.lock_timeout),
        directive: None,
    };
    let step = CommandStep {
        name,
        argv: arguments.command.clone(),
        folder: ctx.cwd.clone(),
        writes: arguments.writes.clone(),
        on_failure: arguments.on_failure,
        message: arguments.message.as_deref().map(redacted),
        streams: if ui.format() == Format::Json { Streams::OutputToStderr } else { Streams::Inherit },
        watch: if arguments.unwatched { Watch::No } else { Watch::Yes },
    };
    step.check(ctx, mode)?;
    // It takes as long to start as the first look at the work tree: both happen at once.
    let supervisor = step.supervisor(ctx)?;
    let shared = RefCell::new(&mut *ui);
    let mut show = |event: &_| render::event(&mut shared.borrow_mut(), event);
    let mut session = Session::begin(ctx, &request, &mut show)?;
    if session.lacks_git() {
        shared.borrow_mut().warning("there is no git repository: what the command changes cannot be undone");
    }
    let end = match session.run_command(&step, supervisor) {
        Ok(end) => end,
        Err(err) => {
            let Some(summary) = session.abandon(&err)? else { return Err(err.into()) };
            render::end(ui, &summary);
            return Ok(Error::from(err).exit_status());
        }
    };
    let command_status = end.command_status;
    let summary = session.finish(end.run_status(), end.error)?;
    let status = render::end(ui, &summary);
    Ok(command_status.map_or(status, ExitStatus::Command))
}

/// How a run was started, for the journal.
pub(super) fn words(command: &str, arguments: &[OsString]) -> Vec<String> {
    let rest = arguments.iter().map(|word| redacted(&word.to_string_lossy()));
    ["piton".to_owned(), command.to_owned()].into_iter().chain(rest).collect()
}
