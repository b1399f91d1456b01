//! The command line: arguments in, results and exit codes out.
//!
//! One file per command, each with its arguments and a `run`; [`Ui`] is the only printer. Commands
//! return an [`Error`], or the [`ExitStatus`] of a failed check.

mod blame;
mod checkpoint;
mod command_list;
mod completions;
mod config;
mod diagnostic;
mod diff;
mod directive;
mod doctor;
mod drive;
mod exec;
mod fetch;
mod finish;
mod gc;
mod help;
mod history;
mod hook_entry;
mod hooks;
mod init;
mod items;
mod load;
mod log;
mod man;
mod mcp;
mod migrate;
mod new;
mod overview;
mod plan;
mod push;
mod quickstart;
mod recover;
mod reference;
mod render;
mod resume;
mod rollback;
mod run;
mod sarif;
mod search;
mod selftest;
mod show;
mod sign;
mod tool;
mod trust;
mod ui;
mod undo;
mod validate;
mod verify;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub use ui::{Format, Paging, Ui, Verbosity, clean};

use crate::config::{ColorSetting, SettingKey, Value};
use crate::context::principal::{PersonChannel, Principal};
use crate::context::{self, Context, Environment};
use crate::error::{Error, ExitStatus};
use crate::exec::process;
use crate::exec::supervisor::{self, Supervisor};
use crate::exec::worker;
use crate::failpoint;

/// Run tools and directives in a git repository, with a checkpoint after every step.
#[derive(Debug, Parser)]
#[command(
    name = "piton",
    version,
    arg_required_else_help = true,
    subcommand_required = true
)]
#[command(disable_help_subcommand = true)]
#[command(after_help = "\
Examples:
  piton quickstart            Try piton in a temporary repository
  piton exec -- make fmt      Run a command and commit what it changes
  piton undo                  Undo it
  piton init                  Create `.ai/` with a working example
  piton run hello             Run the example directive
  piton log                   List what was run

`piton help COMMAND` explains a command, `piton help` lists topics.

Exit codes: 0 success, 1 failure, 2 wrong usage or invalid file, 3 denied,
4 waiting, 5 refused for safety, 130 interrupted")]
struct CliArguments {
    #[command(flatten)]
    global: GlobalArguments,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Args)]
struct GlobalArguments {
    /// Run as if piton was started in this folder.
    #[arg(
        short = 'C',
        value_name = "DIR",
        global = true,
        help_heading = "Global options"
    )]
    folder: Option<PathBuf>,
    /// Print only errors.
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Global options"
    )]
    quiet: bool,
    /// Print more, such as where the project was found.
    #[arg(short, long, action = ArgAction::SetTrue, global = true, help_heading = "Global options")]
    verbose: bool,
    /// Output format.
    #[arg(
        long,
        value_enum,
        default_value_t,
        global = true,
        help_heading = "Global options"
    )]
    format: Format,
    /// When to use colours.
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        global = true,
        help_heading = "Global options"
    )]
    color: Option<ColorSetting>,
    /// Do not use a pager.
    #[arg(long, global = true, help_heading = "Global options")]
    no_pager: bool,
}

// Each command line uses only one of them: describing all would take longer than many commands run.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Command {
    Init(init::InitArguments),
    Run(run::RunArguments),
    Resume(resume::ResumeArguments),
    Approve(resume::ApproveArguments),
    Reject(resume::RejectArguments),
    Status(resume::StatusArguments),
    Cancel(resume::CancelArguments),
    Exec(exec::ExecArguments),
    Checkpoint(checkpoint::CheckpointArguments),
    Undo(undo::UndoArguments),
    Redo(undo::RedoArguments),
    Restore(undo::RestoreArguments),
    Rollback(rollback::RollbackArguments),
    Recover(recover::RecoverArguments),
    Finish(finish::FinishArguments),
    Log(log::LogArguments),
    Show(show::ShowArguments),
    Diff(diff::DiffArguments),
    Blame(blame::BlameArguments),
    Verify(verify::VerifyArguments),
    Push(push::PushArguments),
    Fetch(fetch::FetchArguments),
    Gc(gc::GcArguments),
    Search(search::SearchArguments),
    Load(load::LoadArguments),
    New(new::NewArguments),
    Validate(validate::ValidateArguments),
    Sign(sign::SignArguments),
    Trust(trust::TrustArguments),
    Migrate(migrate::MigrateArguments),
    Tool(tool::ToolArguments),
    Directive(directive::DirectiveArguments),
    Config(config::ConfigArguments),
    Hooks(hooks::HooksArguments),
    Mcp(mcp::McpArguments),
    Doctor(doctor::DoctorArguments),
    Selftest(selftest::SelftestArguments),
    Quickstart(quickstart::QuickstartArguments),
    Completions(completions::CompletionsArguments),
    Man(man::ManArguments),
    Reference(reference::ReferenceArguments),
    Help(help::HelpArguments),
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Self::Init(_) => "init",
            Self::Run(_) => "run",
            Self::Resume(_) => "resume",
            Self::Approve(_) => "approve",
            Self::Reject(_) => "reject",
            Self::Status(_) => "status",
            Self::Cancel(_) => "cancel",
            Self::Exec(_) => "exec",
            Self::Checkpoint(_) => "checkpoint",
            Self::Undo(_) => "undo",
            Self::Redo(_) => "redo",
            Self::Restore(_) => "restore",
            Self::Rollback(_) => "rollback",
            Self::Recover(_) => "recover",
            Self::Finish(_) => "finish",
            Self::Log(_) => "log",
            Self::Show(_) => "show",
            Self::Diff(_) => "diff",
            Self::Blame(_) => "blame",
            Self::Verify(_) => "verify",
            Self::Push(_) => "push",
            Self::Fetch(_) => "fetch",
            Self::Gc(_) => "gc",
            Self::Load(_) => "load",
            Self::Search(_) => "search",
            Self::Validate(_) => "validate",
            Self::New(_) => "new",
            Self::Migrate(_) => "migrate",
            Self::Tool(_) => "tool",
            Self::Directive(_) => "directive",
            Self::Sign(_) => "sign",
            Self::Trust(_) => "trust",
            Self::Config(_) => "config",
            Self::Hooks(_) => "hooks",
            Self::Mcp(_) => "mcp",
            Self::Doctor(_) => "doctor",
            Self::Selftest(_) => "selftest",
            Self::Quickstart(_) => "quickstart",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
            Self::Reference(_) => "reference",
            Self::Help(_) => "help",
        }
    }

    /// Whether it concerns the program itself, and works anywhere.
    fn is_about_piton(&self) -> bool {
        matches!(
            self,
            Self::Doctor(_)
                | Self::Selftest(_)
                | Self::Completions(_)
                | Self::Man(_)
                | Self::Reference(_)
                | Self::Help(_)
        )
    }

    /// Whether it needs a project; commands for the user's own items, settings and trust do not.
    fn needs_project(&self) -> bool {
        match self {
            // A bare repository has hooks without being a project.
            Self::Trust(_) | Self::Hooks(_) | Self::Config(_) => false,
            Self::New(command) => command.needs_project(),
            Self::Search(command) => command.source.needs_project(),
            Self::Load(command) => command.needs_project(),
            Self::Sign(command) => command.needs_project(),
            // Clients start it anywhere; then each call names its project.
            Self::Mcp(command) => command.needs_project(),
            _ => true,
        }
    }

    /// Whether it fails on invalid settings; other commands report them in their result.
    fn needs_settings(&self) -> bool {
        !matches!(self, Self::Config(_) | Self::Validate(_))
    }

    /// The supported output formats.
    fn formats(&self) -> &'static [Format] {
        match self {
            Self::Validate(_) => &[Format::Human, Format::Json, Format::Sarif],
            Self::Tool(command) => command.formats(),
            _ => &[Format::Human, Format::Json],
        }
    }
}

impl CliArguments {
    /// Parses a command line.
    fn parse_words(
        words: impl IntoIterator<Item = impl Into<OsString> + Clone> + Clone,
    ) -> Result<Self, clap::Error> {
        match Self::try_parse_from(words.clone()) {
            // Help and suggestions may concern any command.
            Err(err) if err.kind() != ErrorKind::DisplayVersion => {
                let mut root = Self::described();
                let typed = words
                    .clone()
                    .into_iter()
                    .map(|word| word.into().to_string_lossy().into_owned());
                let typed: Vec<String> = typed.collect();
                let matches = root
                    .try_get_matches_from_mut(words)
                    .map_err(|err| command_list::with_meaning(err, &typed))?;
                Self::from_arg_matches(&matches).map_err(|err| err.format(&mut root))
            }
            parsed => parsed,
        }
    }

    /// All commands with their full descriptions.
    fn described() -> clap::Command {
        let mut root = Self::command();
        root.build();
        let template = command_list::template(&root);
        root.help_template(template)
    }
}

pub fn main() -> ExitCode {
    process::hide_memory();
    let words = context::arguments();
    // First of all, because a tool waits for it.
    if supervisor::is_meant(&words) {
        return supervisor::serve(&words);
    }
    if worker::is_meant(&words) {
        return worker::serve();
    }
    if tool::is_call(&words) {
        Supervisor::start_ahead(&context::own_program());
    }
    let environment = Environment::of_process();
    failpoint::arm(environment.find("PITON_FAILPOINT"));
    if let Some((hook, arguments)) = hook_entry::meant(&words) {
        return hook_entry::run(hook, arguments, &environment).into();
    }
    if let Some(shell) = environment.find(completions::VARIABLE) {
        return completions::answer(&shell.to_string_lossy(), words, &environment).into();
    }
    let parsed = CliArguments::parse_words(&words);
    let arguments = match parsed.or_else(|err| help::asked_below(&words, err)) {
        Ok(arguments) => arguments,
        Err(err) => return report_usage(&err, &words, &environment).into(),
    };
    let GlobalArguments {
        quiet,
        verbose,
        format,
        color,
        no_pager,
        ..
    } = arguments.global;
    let verbosity = match (quiet, verbose) {
        (true, _) => Verbosity::Quiet,
        (false, true) => Verbosity::Verbose,
        (false, false) => Verbosity::Normal,
    };
    // The settings may change colours, but they are not read yet and reading may fail.
    let mut ui = Ui::new(
        format,
        verbosity,
        color.unwrap_or(ColorSetting::Auto),
        &environment,
    );
    ui.set_paging(if no_pager { Paging::Off } else { Paging::Auto });
    let result = run(&arguments, environment, &mut ui)
        .and_then(|status| Ok(ui.finish().map(|()| status)?));
    let status = match result {
        Ok(status) => status,
        Err(err) => {
            // A result that cannot be printed is an error; an error that cannot be printed is
            // ignored.
            let _ = match err.exit_status() {
                ExitStatus::Success => Ok(()),
                _ => report(&err, &arguments.command, &mut ui).and_then(|()| ui.finish()),
            };
            err.exit_status()
        }
    };
    status.into()
}

/// Reports why a command failed.
fn report(err: &Error, command: &Command, ui: &mut Ui) -> std::io::Result<()> {
    match command {
        Command::Tool(tool) if ui.format() == Format::Json => match tool.failure(err) {
            Some(result) => ui.json(&result),
            None => ui.error(err),
        },
        _ => ui.error(err),
    }
}

fn run(
    arguments: &CliArguments,
    environment: Environment,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let global = &arguments.global;
    require_format(&arguments.command, global.format)?;
    if arguments.command.is_about_piton() {
        return about_piton(&arguments.command, &environment, global, ui);
    }
    let mut ctx = match &arguments.command {
        // It creates its own project, so the current folder does not matter.
        Command::Quickstart(_) => quickstart::make_project(environment)?,
        command if command.needs_project() => {
            Context::discover(environment, global.folder.as_deref())?
        }
        _ => Context::anywhere(environment, global.folder.as_deref())?,
    };
    if !Ui::can_ask() {
        ctx = ctx.on_behalf_of(Principal::Person(PersonChannel::Script));
    }
    for ignored in ctx.config.ignored_variables() {
        ui.warning(&format!(
            "`{}` is ignored: {}",
            ignored.variable, ignored.reason
        ));
        ui.hint("set it in `~/.ai/config.yaml` if you want this");
    }
    if let Some(color) = global.color {
        ctx.config
            .set_flag(SettingKey::UiColor, Value::Color(color), "--color");
    }
    if let Command::Validate(command) = &arguments.command
        && command.strict
    {
        ctx.config
            .set_flag(SettingKey::ValidateStrict, Value::Bool(true), "--strict");
    }
    ui.set_color(ctx.config.color(), &ctx.environment);
    ctx.person = ui.person();
    match ctx.project() {
        Some(root) => ui.detail(&format!(
            "project `{}`, {}",
            root.display(),
            ctx.found_by.reason()
        )),
        None => ui.detail("there is no project here"),
    }
    if arguments.command.needs_settings() {
        require_settings(&ctx, ui)?;
    }
    dispatch(&arguments.command, &ctx, ui)
}

fn dispatch(command: &Command, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    match command {
        Command::Init(_) => init::run(ctx, ui),
        Command::Run(command) => run::run(command, ctx, ui),
        Command::Resume(command) => resume::resume(command, ctx, ui),
        Command::Approve(command) => resume::approve(command, ctx, ui),
        Command::Reject(command) => resume::reject(command, ctx, ui),
        Command::Status(command) => resume::status(command, ctx, ui),
        Command::Cancel(command) => resume::cancel(command, ctx, ui),
        Command::Exec(command) => exec::run(command, ctx, ui),
        Command::Checkpoint(command) => checkpoint::run(command, ctx, ui),
        Command::Undo(command) => undo::run_undo(command, ctx, ui),
        Command::Redo(command) => undo::run_redo(command, ctx, ui),
        Command::Restore(command) => undo::run_restore(command, ctx, ui),
        Command::Rollback(command) => rollback::run(command, ctx, ui),
        Command::Recover(command) => recover::run(command, ctx, ui),
        Command::Finish(command) => finish::run(command, ctx, ui),
        Command::Log(command) => log::run(command, ctx, ui),
        Command::Show(command) => show::run(command, ctx, ui),
        Command::Diff(command) => diff::run(command, ctx, ui),
        Command::Blame(command) => blame::run(command, ctx, ui),
        Command::Verify(command) => verify::run(command, ctx, ui),
        Command::Push(command) => push::run(command, ctx, ui),
        Command::Fetch(command) => fetch::run(command, ctx, ui),
        Command::Gc(command) => gc::run(command, ctx, ui),
        Command::Load(command) => load::run(command, ctx, ui),
        Command::Search(command) => search::run(command, ctx, ui),
        Command::Validate(command) => validate::run(command, ctx, ui),
        Command::Migrate(command) => migrate::run(command, ctx, ui),
        Command::New(command) => new::run(command, ctx, ui),
        Command::Tool(command) => tool::run(command, ctx, ui),
        Command::Directive(command) => directive::run(command, ctx, ui),
        Command::Sign(command) => sign::run(command, ctx, ui),
        Command::Trust(command) => trust::run(command, ctx, ui),
        Command::Config(command) => config::run(command, ctx, ui),
        Command::Hooks(command) => hooks::run(command, ctx, ui),
        Command::Quickstart(_) => quickstart::run(ctx, ui),
        Command::Mcp(command) => mcp::run(command, ctx, ui),
        Command::Doctor(command) => doctor::run(command, &ctx.environment, Ok(ctx.clone()), ui),
        Command::Selftest(command) => selftest::run(command, ctx, ui),
        Command::Completions(command) => completions::run(command, ui),
        Command::Man(command) => man::run(command, &ctx.cwd, ui),
        Command::Reference(command) => reference::run(command, &ctx.cwd, ui),
        Command::Help(command) => help::run(command, ui),
    }
}

/// Runs a command that concerns the program itself and has to work without a project and with
/// invalid settings.
fn about_piton(
    command: &Command,
    environment: &Environment,
    global: &GlobalArguments,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let folder = environment.enter(global.folder.as_deref());
    let found = Context::discover(environment.clone(), global.folder.as_deref());
    let color = global
        .color
        .or_else(|| found.as_ref().ok().map(|ctx| ctx.config.color()));
    ui.set_color(color.unwrap_or(ColorSetting::Auto), environment);
    match command {
        Command::Man(command) => man::run(command, &folder?, ui),
        Command::Reference(command) => reference::run(command, &folder?, ui),
        // A folder given with `-C` must exist; without it, the command reports a missing folder
        // itself.
        Command::Doctor(command) if global.folder.is_some() => folder
            .map_err(Error::from)
            .and_then(|_| doctor::run(command, environment, found, ui)),
        Command::Doctor(command) => doctor::run(command, environment, found, ui),
        // It works outside of a project too.
        Command::Selftest(command) => match found {
            Ok(ctx) => selftest::run(command, &ctx, ui),
            Err(_) => selftest::run(command, &Context::at(environment.clone(), &folder?)?, ui),
        },
        Command::Completions(command) => completions::run(command, ui),
        Command::Help(command) => help::run(command, ui),
        other => dispatch(other, &found?, ui),
    }
}

/// Runs a piton command line inside this process.
fn run_words(words: &[&str], ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let words = ["piton"].iter().chain(words);
    match CliArguments::parse_words(words) {
        Ok(arguments) => dispatch(&arguments.command, ctx, ui),
        Err(err) => Err(Error::Output(std::io::Error::other(err.to_string()))),
    }
}

/// Fails on invalid settings; prints warnings about the others.
fn require_settings(ctx: &Context, ui: &mut Ui) -> Result<(), Error> {
    if ctx.config.has_errors() {
        return Err(Error::Settings(ctx.config.findings().to_vec()));
    }
    for finding in ctx.config.findings() {
        ui.finding(finding);
    }
    Ok(())
}

fn require_format(command: &Command, format: Format) -> Result<(), Error> {
    if command.formats().contains(&format) {
        return Ok(());
    }
    let offered: Vec<String> = command
        .formats()
        .iter()
        .map(|format| format!("`{}`", format.name()))
        .collect();
    Err(Error::UnknownFormat {
        command: command.name(),
        format: format.name(),
        offered: offered.join(" or "),
    })
}

fn report_usage(err: &clap::Error, words: &[OsString], environment: &Environment) -> ExitStatus {
    // The arguments could not be parsed, so read the output options by hand.
    let format = find_option::<Format>(words, "--format").unwrap_or_default();
    let color = find_option::<ColorSetting>(words, "--color").unwrap_or(ColorSetting::Auto);
    let mut ui = Ui::new(format, Verbosity::Normal, color, environment);
    let printed = ui
        .usage(err, words)
        .and_then(|()| ui.finish())
        .map_err(Error::from);
    match printed {
        _ if err.use_stderr() => ExitStatus::Invalid,
        Ok(()) => ExitStatus::Success,
        Err(err) => err.exit_status(),
    }
}

fn find_option<T: ValueEnum>(words: &[OsString], name: &str) -> Option<T> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let at = words
        .iter()
        .position(|word| word == name || word.starts_with(&format!("{name}=")))?;
    let value = match words.get(at)?.split_once('=') {
        Some((_, value)) => value,
        None => words.get(at + 1)?,
    };
    T::from_str(value, false).ok()
}
