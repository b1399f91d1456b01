//! `piton completions`: shell completions.
//!
//! The script for a shell has only a few lines: it calls piton itself with [`VARIABLE`] set, so
//! that it stays up to date and knows the items and runs of the project. The value name of an
//! argument decides its completion: an argument with the value name `RUN` is completed with runs.

use std::path::Path;

use std::ffi::OsString;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;

use super::{CliArguments, Format, Ui, Verbosity};
use crate::audit::history::History;
use crate::config::{ColorSetting, SettingKey};
use crate::context::{self, Context, Environment};
use crate::error::{Error, ExitStatus};
use crate::item::finding::Strength;
use crate::item::skeleton::TYPES;
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::tool::ToolKind;
use crate::item::topic::TOPICS;
use crate::workspace::open_repository;

/// The variable that a shell sets to ask for completions; its value is the shell.
pub(super) const VARIABLE: &str = "PITON_COMPLETE";

/// The maximum number of offered runs.
const MOST_RUNS: usize = 50;

/// Print shell completions
///
/// They complete commands, options, and the names of directives, tools, runs, settings and help topics.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton completions bash > ~/.local/share/bash-completion/completions/piton
  piton completions zsh > ~/.zsh/completions/_piton      In a folder of your `fpath`
  piton completions fish > ~/.config/fish/completions/piton.fish
  eval \"$(piton completions bash)\"                       For this shell only")]
pub(super) struct CompletionsArguments {
    /// Shell.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

impl Shell {
    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Elvish => "elvish",
            Self::Powershell => "powershell",
        }
    }
}

pub(super) fn run(arguments: &CompletionsArguments, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let shells = Shells::builtins();
    let name = arguments.shell.name();
    let mut script = Vec::new();
    if let Some(shell) = shells.completer(name) {
        shell.write_registration(VARIABLE, "piton", "piton", "piton", &mut script)?;
    }
    if ui.format() == Format::Json {
        ui.json(&serde_json::json!({"shell": name, "script": String::from_utf8_lossy(&script)}))?;
    } else {
        ui.contents(&script)?;
    }
    Ok(ExitStatus::Success)
}

/// Answers a completion request. Errors must not appear on the command line.
pub(super) fn answer(shell: &str, words: Vec<OsString>, environment: &Environment) -> ExitStatus {
    let mut ui = Ui::new(
        Format::Human,
        Verbosity::Quiet,
        ColorSetting::Never,
        environment,
    );
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(shell) else {
        return ExitStatus::Invalid;
    };
    let mut command = with_candidates(CliArguments::described(), &[]);
    // The shell's own words follow a `--`.
    let line = words
        .into_iter()
        .skip_while(|word| word != "--")
        .skip(1)
        .collect();
    let mut candidates = Vec::new();
    let folder = environment.enter(None).ok();
    let written = shell.write_complete(&mut command, line, folder.as_deref(), &mut candidates);
    match written
        .and_then(|()| ui.contents(&candidates))
        .and_then(|()| ui.finish())
    {
        Ok(()) => ExitStatus::Success,
        Err(_) => ExitStatus::Failure,
    }
}

/// Adds candidates to every argument of a command and its subcommands.
fn with_candidates(command: Command, above: &[String]) -> Command {
    let mut path = above.to_vec();
    path.push(command.get_name().to_owned());
    let words = path.get(1..).unwrap_or_default().join(" ");
    let command = command.mut_args(|arg| match candidates_of(&arg, &words) {
        Some(candidates) => arg.add(candidates),
        None => arg,
    });
    command.mut_subcommands(|below| with_candidates(below, &path))
}

/// The candidates of an argument; `words` is the command.
fn candidates_of(arg: &Arg, words: &str) -> Option<ArgValueCandidates> {
    let name = arg
        .get_value_names()
        .and_then(|names| names.first())
        .map(ToString::to_string)?;
    let find: fn() -> Vec<CompletionCandidate> = match (name.as_str(), arg.get_id().as_str(), words)
    {
        ("DIRECTIVE", ..) | (_, "directive", _) | ("ID", _, "directive show") => {
            || items(|item| item.kind() == ItemKind::Directive)
        }
        (_, "executor", _) => || items(runs_others),
        ("ID", _, "tool run") => || {
            items(|item| item.kind() == ItemKind::Tool && (is_of_mcp(item) || !runs_others(item)))
        },
        ("ID", _, "tool accept") => {
            || items(|item| item.kind() == ItemKind::Tool && is_of_mcp(item))
        }
        ("TOOL", ..) | (_, "tool", _) | ("ID", _, "tool show") => {
            || items(|item| item.kind() == ItemKind::Tool)
        }
        ("TYPE", _, "new tool") => || TYPES.into_iter().map(CompletionCandidate::new).collect(),
        ("SCRIPT", _, "migrate") => {
            || items(|item| item.legacy_root && item.layer == Layer::Project)
        }
        ("PATTERN", _, "sign") => || items(|item| item.layer == Layer::Project),
        ("ITEM" | "ID", ..) => || items(|_| true),
        ("RUN" | "STEP" | "REF" | "A" | "B", ..) => runs,
        ("KEY", _, "config") => settings,
        ("TOPIC", ..) => topics,
        ("MODE", ..) => {
            || Vec::from(["auto", "explicit", "disabled"].map(CompletionCandidate::new))
        }
        _ => return None,
    };
    Some(ArgValueCandidates::new(find))
}

/// The project around the working folder, or that of a `-C` on the line; without one there are no
/// candidates.
fn project() -> Option<Context> {
    let words = context::arguments();
    let after = words
        .iter()
        .position(|word| word == "-C")
        .and_then(|at| words.get(at + 1));
    Context::discover(Environment::of_process(), after.map(Path::new)).ok()
}

/// Whether it is an MCP server or an MCP tool.
fn is_of_mcp(item: &Item) -> bool {
    let kind = item.as_tool().map(|tool| tool.manifest.kind);
    matches!(kind, Some(ToolKind::McpServer | ToolKind::McpTool))
}

/// Whether tools can use it as their executor.
fn runs_others(item: &Item) -> bool {
    let kind = item.as_tool().map(|tool| tool.manifest.kind);
    matches!(
        kind,
        Some(ToolKind::Runtime | ToolKind::Primitive | ToolKind::McpServer)
    )
}

fn items(wanted: fn(&Item) -> bool) -> Vec<CompletionCandidate> {
    let Some(ctx) = project() else {
        return Vec::new();
    };
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let mut ids: Vec<&str> = store
        .items()
        .iter()
        .filter(|item| wanted(item))
        .map(|item| item.id.as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(CompletionCandidate::new).collect()
}

fn runs() -> Vec<CompletionCandidate> {
    let Some(ctx) = project() else {
        return Vec::new();
    };
    let history = match open_repository(&ctx) {
        Ok(repository) => History::load_all(&repository).ok(),
        Err(_) => History::load(&ctx.state_folder().join("runs")).ok(),
    };
    let Some((history, _)) = history else {
        return Vec::new();
    };
    let mut runs: Vec<_> = history
        .runs
        .iter()
        .map(|run| (run.id.to_string(), run.name.clone()))
        .collect();
    runs.sort_by(|a, b| b.cmp(a));
    let offered = runs.into_iter().take(MOST_RUNS);
    offered
        .map(|(id, name)| {
            CompletionCandidate::new(id).help(Some(super::clean(&name).into_owned().into()))
        })
        .collect()
}

fn settings() -> Vec<CompletionCandidate> {
    SettingKey::ALL
        .into_iter()
        .map(|key| CompletionCandidate::new(key.name()).help(Some(key.summary().into())))
        .collect()
}

fn topics() -> Vec<CompletionCandidate> {
    let root = CliArguments::described();
    let commands = root
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let commands =
        commands.map(|command| (command.get_name().to_owned(), command.get_about().cloned()));
    let codes = [(
        super::help::CODES.to_owned(),
        Some("the codes that piton reports".into()),
    )];
    let topics = TOPICS
        .iter()
        .map(|topic| (topic.name.to_owned(), Some(topic.summary.into())))
        .chain(codes);
    topics
        .chain(commands)
        .map(|(name, help)| CompletionCandidate::new(name).help(help))
        .collect()
}
