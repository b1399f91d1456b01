//! `piton run`: a directive, step by step.

use std::path::PathBuf;
use std::time::Duration;

use super::drive::{self, Driver};
use super::exec::parse_mode;
use super::plan;
use super::tool::read_values;
use super::ui::Ui;
use crate::checkpoint::secret::redacted;
use crate::config::AgentCommand;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::directive::CheckpointMode;
use crate::journal::RunId;
use crate::run::directive::pin::RunOptions;
use crate::run::directive::preview;
use crate::run::directive::{DirectiveRequest, Input, Prepared, Run, Worker};
use crate::run::worktree::{self, Committed};

/// Runs a directive, with a checkpoint after each step that changes something
///
/// A step is a tool, another directive, a checkpoint, a question to a person, or work in words. In the
/// mode `auto` what a step changed becomes one commit, and a step that fails is put back; in `explicit`
/// the checkpoint steps commit. A step in words waits for you, or is given to `--agent-cmd`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton run hello --input who=Ada
  piton run release_notes --inputs release.yaml --checkpoint auto
  piton run release_notes --dry-run           Show every step, and what it may do
  piton run refactor --agent-cmd 'claude -p'  Steps in words go to a program
  piton run migrate --ask                     Look at each change before it is kept
  piton run migrate --atomic                  If it fails, put back everything that it did
  piton run migrate --worktree                Beside your own work; `piton finish` brings it in
  piton run hello --format json               Events, one JSON value per line")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct RunArguments {
    /// The directive: `id` or `category/id`.
    #[arg(value_name = "DIRECTIVE")]
    id: String,
    /// An input; its text is converted to the declared type.
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    /// A JSON or YAML file with inputs; `--input` wins.
    #[arg(long = "inputs", value_name = "FILE")]
    file: Option<PathBuf>,
    /// When changes are checkpointed: `auto` after each step, `explicit` at checkpoint steps, `disabled` never.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    checkpoint: Option<CheckpointMode>,
    /// Shows what would be done, and does nothing.
    #[arg(long)]
    dry_run: bool,
    /// Shows each change before it is committed, and lets you decide.
    #[arg(long)]
    ask: bool,
    /// Put back everything that the run did if it does not succeed.
    #[arg(long)]
    atomic: bool,
    /// Works in a linked worktree of its own.
    #[arg(long)]
    worktree: bool,
    /// Fails, and puts everything back, when a tool that says it changes nothing changes files.
    #[arg(long)]
    strict: bool,
    /// The message of its commits, instead of generated ones.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// The program that does steps in words; the instruction is on its standard input.
    #[arg(long, value_name = "COMMAND")]
    agent_cmd: Option<String>,
    /// Goes on with less isolation than a tool asks for; this is written down.
    #[arg(long)]
    allow_degraded: bool,
    /// How many seconds to wait for another run in this worktree.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    lock_timeout: u64,
}

pub(super) fn run(arguments: &RunArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let request = request(arguments, ctx)?;
    if arguments.worktree && !arguments.dry_run {
        return run_apart(request, ctx, ui);
    }
    let prepared = match Prepared::new(ctx, &request) {
        Err(err) if arguments.dry_run => return Err(preview::explained(ctx, &request, err).into()),
        prepared => prepared?,
    };
    prepared.notes().iter().chain(&prepared.unsigned_note()).for_each(|note| ui.warning(note));
    if arguments.dry_run {
        return plan::show(&preview::preview(ctx, &request, prepared), ui);
    }
    let driver = Driver::new(ui);
    let mut show = |event: &_| driver.event(event);
    let mode = prepared.mode();
    let run = Run::start(ctx, &request, prepared, &mut show)?;
    if run.lacks_git() {
        driver.warn("there is no git repository: what the steps change cannot be undone");
    } else if mode == CheckpointMode::Disabled {
        driver.warn("checkpoints are disabled: what the steps change cannot be undone");
    }
    drive::to_the_end(&driver, run, Input::Go)
}

/// Runs a directive in a worktree of its own, which stays until `piton finish`.
fn run_apart(request: DirectiveRequest, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    // What is wrong with the directive is told before there is a worktree.
    let prepared = Prepared::new(ctx, &request)?;
    prepared.notes().iter().chain(&prepared.unsigned_note()).for_each(|note| ui.warning(note));
    for file in prepared.files() {
        if worktree::require_committed(ctx, &file)? == Committed::Differs {
            ui.warning(&format!("`{}` runs as it is in the last commit", ctx.shown_path(&file).display()));
        }
    }
    let id = RunId::new(ctx.now(), ctx.random_bits());
    let apart = worktree::create(ctx, id)?;
    let request = DirectiveRequest { run: Some(id), ..request };
    let there = apart.context(ctx)?;
    let driver = Driver::new(ui);
    let mut show = |event: &_| driver.event(event);
    let started =
        Prepared::new(&there, &request).and_then(|prepared| Run::start(&there, &request, prepared, &mut show));
    let run = match started {
        Ok(run) => run,
        Err(err) => {
            worktree::discard(ctx, &apart)?;
            return Err(err.into());
        }
    };
    apart.notes.iter().for_each(|note| driver.note(note));
    driver.note(&format!("works in `{}` on the branch `piton/{id}`", apart.path.display()));
    let status = drive::to_the_end(&driver, run, Input::Go)?;
    if status == ExitStatus::Waiting {
        let folder = apart.path.display();
        driver.hint(&format!(
            "the run waits in `{folder}`: work there, and go on with `piton -C '{folder}' resume {id}`"
        ));
    } else {
        driver.hint(&format!(
            "`piton finish {id} --keep` brings it in, `--squash` as one commit, `--branch` leaves it to you"
        ));
    }
    Ok(status)
}

fn request(arguments: &RunArguments, ctx: &Context) -> Result<DirectiveRequest, Error> {
    Ok(DirectiveRequest {
        id: arguments.id.clone(),
        inputs: arguments.file.as_deref().map(|file| read_values(file, ctx)).transpose()?.unwrap_or_default(),
        words: arguments.inputs.clone(),
        mode: arguments.checkpoint,
        options: RunOptions {
            strict: arguments.strict,
            allow_degraded: arguments.allow_degraded,
            ask: arguments.ask,
            atomic: arguments.atomic,
            message: arguments.message.as_deref().map(redacted),
            agent_command: arguments.agent_cmd.as_deref().map(|text| AgentCommand::from_folder(text, &ctx.cwd)),
        },
        command: words(arguments),
        lock_timeout: Duration::from_secs(arguments.lock_timeout),
        run: None,
        worker: Worker::Program,
    })
}

/// How the run was started, for the journal. The values of inputs are written down with it.
fn words(arguments: &RunArguments) -> Vec<String> {
    let mut words = vec!["piton".to_owned(), "run".to_owned(), redacted(&arguments.id)];
    for input in &arguments.inputs {
        words.extend(["--input".to_owned(), redacted(input)]);
    }
    if let Some(file) = &arguments.file {
        words.extend(["--inputs".to_owned(), redacted(&file.to_string_lossy())]);
    }
    words.extend(arguments.checkpoint.map(|mode| format!("--checkpoint={}", mode.as_str())));
    for (is_given, word) in [
        (arguments.ask, "--ask"),
        (arguments.atomic, "--atomic"),
        (arguments.worktree, "--worktree"),
        (arguments.strict, "--strict"),
        (arguments.allow_degraded, "--allow-degraded"),
    ] {
        words.extend(is_given.then(|| word.to_owned()));
    }
    if let Some(command) = &arguments.agent_cmd {
        words.extend(["--agent-cmd".to_owned(), redacted(command)]);
    }
    words
}
