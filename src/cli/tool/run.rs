//! `piton tool run`: one tool as one step.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::checkpoint::secret::redacted;
use crate::cli::exec::parse_mode;
use crate::cli::{Format, Ui, render};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::exec::call::Progress;
use crate::exec::supervisor::{Stream, Supervisor};
use crate::item::directive::CheckpointMode;
use crate::item::finding::Strength;
use crate::item::params;
use crate::item::store::ItemStore;
use crate::policy::Authority;
use crate::run::error::RunError;
use crate::run::session::Session;
use crate::run::tool::{self, Called, Planner, ToolCommand, ToolPlan, ToolRequest, ToolResult, ToolStatus};

/// From how many milliseconds on a person wonders how long it took.
const LONG: u64 = 2000;

/// Calls a tool as one step, with a checkpoint around it
///
/// The work tree is recorded before and after. In the mode `auto` what the tool changed becomes one
/// commit, or is put back when it fails; in `explicit`, the default, it stays for `piton checkpoint`.
/// The result goes to stdout and is saved below `.ai/outputs/`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton tool run greet --param who=Ada
  piton tool run report --params input.json --checkpoint auto
  piton tool run tickets create_task --param title='Mend the roof'
  piton tool run greet --dry-run              Show what would be done, and why
  piton tool run greet --as release_notes     With no more than this directive allows
  piton tool run greet --format json          Events, then the result, one JSON value per line")]
pub(super) struct RunArguments {
    /// The tool: `id` or `category/id`.
    #[arg(value_name = "ID")]
    id: String,
    /// The command of a tool that has several.
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
    /// A parameter; its text is converted to the declared type.
    #[arg(short, long = "param", value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// A JSON or YAML file with parameters; `--param` wins.
    #[arg(long = "params", value_name = "FILE")]
    file: Option<PathBuf>,
    /// When changes are checkpointed: `auto` at once, `explicit` with `piton checkpoint`, `disabled` never.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    checkpoint: Option<CheckpointMode>,
    /// Shows what would be done, and does nothing.
    #[arg(long)]
    dry_run: bool,
    /// Fails, and puts everything back, when a tool changes files that says it does not.
    #[arg(long)]
    strict: bool,
    /// Allows no more than this directive does; otherwise whoever types this has allowed it.
    #[arg(long = "as", value_name = "DIRECTIVE")]
    directive: Option<String>,
    /// What the step is called in the log and the commit; the tool by default.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The message of the commit, instead of a generated one.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Goes on with less isolation than the tool asks for; this is written down.
    #[arg(long)]
    allow_degraded: bool,
    /// How many seconds to wait for another run in this worktree.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    lock_timeout: u64,
}

pub(super) fn run(arguments: &RunArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    // It takes as long to start as everything else takes: both happen at once.
    let supervisor = (!arguments.dry_run).then(|| Supervisor::start(&ctx.program));
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let request = request(arguments, ctx)?;
    let authority = tool::authority_of(&store, arguments.directive.as_deref(), Authority::Person)?;
    let plan = tool::plan(ctx, &store, &request, &authority)?;
    let Some(supervisor) = supervisor else { return dry_run(&plan, ui) };
    let supervisor = supervisor.map_err(RunError::from)?;
    if let Some(degraded) = plan.degraded.as_ref().filter(|_| arguments.allow_degraded) {
        ui.warning(&format!("isolation: {degraded}"));
    }
    // In JSON the result lists them.
    let is_told = plan.denials.is_empty() && ui.format() == Format::Human;
    if let Some(note) = plan.unsigned_note().filter(|_| is_told) {
        ui.warning(&note);
    }
    let command = ToolCommand {
        name: arguments.name.clone(),
        message: arguments.message.clone(),
        command: words(arguments),
        mode: arguments.checkpoint,
        lock_timeout: Duration::from_secs(arguments.lock_timeout),
    };
    let shared = RefCell::new(&mut *ui);
    let mut show = |event: &_| render::event(&mut shared.borrow_mut(), event);
    let mut warn = |session: &Session<'_, '_>| {
        if session.lacks_git() {
            shared.borrow_mut().warning("there is no git repository: what the tool changes cannot be undone");
        }
    };
    // What a Python function prints is not its result, nor is what a parser makes one of.
    let prints_result = plan.invocation.prints_result() && plan.invocation.outputs.parser.is_none();
    let mut listener = |progress: Progress<'_>| {
        let mut ui = shared.borrow_mut();
        match progress {
            Progress::Preparing(text) => ui.note(text),
            Progress::Output(Stream::Stdout, bytes) if ui.format() == Format::Human && prints_result => {
                ui.relay_data(bytes);
            }
            Progress::Output(Stream::Stdout, _) if ui.format() == Format::Json => {}
            Progress::Output(_, bytes) => ui.relay_talk(bytes),
        }
    };
    let planner = Planner { store: &store, authority: &authority };
    match tool::perform(ctx, (&plan, planner), &command, supervisor, &mut show, &mut warn, &mut listener)? {
        Called::Ended { result, summary } => {
            if ui.format() == Format::Json {
                ui.json(&result)?;
            } else {
                human(ui, &result, prints_result)?;
            }
            Ok(render::end(ui, &summary))
        }
        Called::CutOff { error, .. } if ui.format() == Format::Json => Err(error.into()),
        Called::CutOff { error, summary } => {
            render::end(ui, &summary);
            Ok(Error::from(error).exit_status())
        }
    }
}

/// The result of a call that could not be made: the last line of JSON has one shape, come what may.
pub(super) fn failure(arguments: &RunArguments, err: &Error) -> ToolResult {
    err.as_tool_result(&arguments.id)
}

fn human(ui: &mut Ui, result: &ToolResult, printed: bool) -> Result<(), Error> {
    if let Some(value) = result.result.as_ref().filter(|_| !printed) {
        ui.line(&format!("{value:#}"))?;
    }
    for warning in &result.warnings {
        ui.warning(warning);
    }
    if !result.undeclared_mutation.is_empty() && result.status == ToolStatus::Success {
        let changed = crate::checkpoint::path::listed(&result.undeclared_mutation);
        ui.warning(&format!("the tool says that it changes nothing, and changed {changed}"));
    }
    if let Some(path) = &result.output_path {
        ui.detail(&format!("saved as `{path}`"));
    }
    if result.execution_time_ms >= LONG {
        ui.aside(&format!("took {:.1} s", Duration::from_millis(result.execution_time_ms).as_secs_f64()));
    }
    Ok(())
}

/// What would be done, and where each value comes from.
fn dry_run(plan: &ToolPlan, ui: &mut Ui) -> Result<ExitStatus, Error> {
    if ui.format() == Format::Json {
        ui.json(plan)?;
    } else {
        plan_lines(plan, ui)?;
    }
    Ok(if plan.denials.is_empty() { ExitStatus::Success } else { ExitStatus::Denied })
}

/// A call in lines: what will be done, where each value comes from, and what allows it.
fn plan_lines(plan: &ToolPlan, ui: &mut Ui) -> Result<(), Error> {
    for row in plan.invocation.rows() {
        let origin = row.origin.map(|origin| format!("  # {origin}")).unwrap_or_default();
        ui.line(&format!("{}: {}{origin}", row.name, row.value))?;
    }
    if let Some(degraded) = &plan.degraded {
        ui.line(&format!("isolation given: {}  # {degraded}", plan.isolation.as_str()))?;
    }
    for permission in &plan.permissions {
        let how = permission.enforcement.as_str();
        ui.line(&format!("allowed: {}  # {}, enforced: {how}", permission.need, permission.granted_by))?;
    }
    for denial in &plan.denials {
        let way_out = denial.allow_with.as_ref().or(denial.denied_by.as_ref());
        ui.line(&format!("denied: {}  # {denial}", way_out.map(String::as_str).unwrap_or_default()))?;
    }
    Ok(())
}

fn request(arguments: &RunArguments, ctx: &Context) -> Result<ToolRequest, Error> {
    Ok(ToolRequest {
        id: arguments.id.clone(),
        command: arguments.command.clone(),
        parameters: arguments.file.as_deref().map(|file| read_values(file, ctx)).transpose()?.unwrap_or_default(),
        words: arguments.parameters.clone(),
        strict: arguments.strict,
        allow_degraded: arguments.allow_degraded,
    })
}

/// Reads named values from a JSON or YAML file.
pub(in crate::cli) fn read_values(file: &Path, ctx: &Context) -> Result<Map<String, Value>, Error> {
    let path = ctx.cwd.join(file);
    path.metadata().map_err(|source| Error::Read { file: file.to_path_buf(), source })?;
    params::load_file(&path, file).map_err(|findings| Error::InvalidFile { file: file.to_path_buf(), findings })
}

/// How the run was started, for the journal. The values of parameters are written down with the step.
fn words(arguments: &RunArguments) -> Vec<String> {
    let words = ["piton", "tool", "run", arguments.id.as_str()].into_iter().chain(arguments.command.as_deref());
    let mut words: Vec<String> = words.map(redacted).collect();
    for parameter in &arguments.parameters {
        words.extend(["--param".to_owned(), redacted(parameter)]);
    }
    if let Some(file) = &arguments.file {
        words.extend(["--params".to_owned(), redacted(&file.to_string_lossy())]);
    }
    if let Some(directive) = &arguments.directive {
        words.extend(["--as".to_owned(), redacted(directive)]);
    }
    words.extend(arguments.strict.then(|| "--strict".to_owned()));
    words
}
