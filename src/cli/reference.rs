//! `piton reference`: writes the generated pages of `docs/reference/`.
//!
//! The command is hidden, because it is for developers: `scripts/reference` writes the pages, and a
//! test compares them. They are generated from the descriptions of the arguments and the table of
//! settings, so that a new command needs no change here.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::help::examples_of;
use super::{CliArguments, Ui};
use crate::config::SettingKey;
use crate::error::{Error, ExitStatus};
use crate::item::source::{MAX_TEXT, read_bytes};
use crate::mcp::dispatch;

/// Write the generated reference pages.
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "\
Examples:
  piton reference docs/reference"
)]
pub(super) struct ReferenceArguments {
    /// Folder to write to.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// The page for agents, in the folder where the command runs.
const AGENTS: &str = "AGENTS.md";
const BEGIN: &str =
    "<!-- dispatch: made by `./scripts/reference`; a test compares it with the program -->";
const END: &str = "<!-- end of dispatch -->";

const NOTE: &str = "<!-- Made by `./scripts/reference`; a test compares it with the program. -->";

pub(super) fn run(
    arguments: &ReferenceArguments,
    cwd: &Path,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let folder = cwd.join(&arguments.dir);
    for (name, text) in [
        ("commands.md", commands()),
        ("settings.md", settings()),
        ("exit-codes.md", exit_codes()),
    ] {
        let file = folder.join(name);
        fs::write(&file, text).map_err(|source| Error::Write { file, source })?;
        ui.line(name)?;
    }
    let page = cwd.join(AGENTS);
    if let Ok(bytes) = read_bytes(&page, MAX_TEXT)
        && let Some(text) = with_dispatch(&String::from_utf8_lossy(&bytes))
    {
        fs::write(&page, text).map_err(|source| Error::Write { file: page, source })?;
        ui.line(AGENTS)?;
    }
    Ok(ExitStatus::Success)
}

/// The page for agents with the table between its marks; `None` if it has none.
fn with_dispatch(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{BEGIN}\n{}{END}{after}",
        dispatch::table()
    ))
}

fn commands() -> String {
    let mut root = CliArguments::command().term_width(0);
    root.build();
    let mut page = format!(
        "# Commands\n\n{NOTE}\n\n{}. `piton help COMMAND` shows the same in the terminal.\n\n## Options of every command\n\n",
        about(&root)
    );
    let global: Vec<&Arg> = root
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .collect();
    for arg in global {
        page.push_str(&argument(arg));
    }
    page.push_str("- `-h`, `--help`: shows the help of a command\n");
    page.push_str("- `-V`, `--version`: shows the version, of `piton` itself\n");
    let names: Vec<String> = root
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    for name in names {
        if let Some(command) = root.find_subcommand_mut(&name) {
            section(command, &format!("piton {name}"), &mut page);
        }
    }
    page
}

/// A command and its subcommands.
fn section(command: &mut Command, words: &str, page: &mut String) {
    if command.is_hide_set() {
        return;
    }
    let usage = command.render_usage().to_string();
    let usage = usage
        .strip_prefix("Usage: ")
        .unwrap_or(&usage)
        .replace("\n       ", "\n");
    // Writing to a `String` cannot fail.
    let _ = write!(
        page,
        "\n## {words}\n\n{}\n\n```text\n{}\n```\n",
        about(command),
        usage.trim_end()
    );
    let arguments = command
        .get_arguments()
        .filter(|arg| !arg.is_global_set() && !arg.is_hide_set());
    let arguments: Vec<String> = arguments
        .filter(|arg| !is_help(arg))
        .map(argument)
        .collect();
    if !arguments.is_empty() {
        let _ = write!(page, "\n{}", arguments.concat());
    }
    let examples = examples_of(command);
    if !examples.is_empty() {
        page.push_str("\n```console\n");
        for (line, remark) in examples {
            let remark = if remark.is_empty() {
                remark
            } else {
                format!("  # {remark}")
            };
            let _ = writeln!(page, "$ {line}{remark}");
        }
        page.push_str("```\n");
    }
    let below: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    for name in below.into_iter().filter(|name| name != "help") {
        if let Some(below) = command.find_subcommand_mut(&name) {
            section(below, &format!("{words} {name}"), page);
        }
    }
}

fn is_help(arg: &Arg) -> bool {
    matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    )
}

fn about(command: &Command) -> String {
    let text = command.get_long_about().or_else(|| command.get_about());
    text.map(ToString::to_string)
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

fn argument(arg: &Arg) -> String {
    let names = [
        arg.get_short().map(|short| format!("-{short}")),
        arg.get_long().map(|long| format!("--{long}")),
    ];
    let values: Vec<String> = match arg.get_value_names() {
        Some(names) if arg.get_action().takes_values() => {
            names.iter().map(ToString::to_string).collect()
        }
        None if arg.get_action().takes_values() => vec![arg.get_id().as_str().to_uppercase()],
        _ => Vec::new(),
    };
    let value = values.join(" ");
    let mut shown: Vec<String> = names.into_iter().flatten().collect();
    match shown.last_mut() {
        Some(last) if !value.is_empty() => *last = format!("{last} {value}"),
        Some(_) => {}
        None => shown.push(value),
    }
    let shown: Vec<String> = shown.iter().map(|name| format!("`{name}`")).collect();
    let help = arg
        .get_long_help()
        .or_else(|| arg.get_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut text = format!(
        "- {}: {}",
        shown.join(", "),
        help.trim_end().replace("\n\n", " ").replace('\n', " ")
    );
    let choices: Vec<String> = if arg.get_action().takes_values() {
        arg.get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|it| format!("`{}`", it.get_name()))
            .collect()
    } else {
        Vec::new()
    };
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if !choices.is_empty() {
        let _ = write!(text, "; one of {}", choices.join(", "));
    }
    if !defaults.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, " (default: {})", defaults.join(", "));
    }
    text.push('\n');
    text
}

fn settings() -> String {
    let mut page = format!(
        "# Settings\n\n{NOTE}\n\nLater layers win: defaults, `~/.ai/config.yaml`, `.ai/config.yaml` of the project, \
         variables, flags. `piton config` shows each value with its source.\n"
    );
    for key in SettingKey::ALL {
        let default = key.default().to_string();
        let default = if default.is_empty() {
            "none".to_owned()
        } else {
            format!("`{default}`")
        };
        let mut summary = key.summary().to_owned();
        let first: String = summary
            .drain(..summary.chars().next().map_or(0, char::len_utf8))
            .collect();
        let variable = key
            .effective_variable()
            .map(|name| format!("- variable: `{name}`\n"))
            .unwrap_or_default();
        let _ = write!(
            page,
            "\n## {}\n\n{}{summary}.\n\n- value: {}\n- default: {default}\n{variable}- set {}\n",
            key.name(),
            first.to_uppercase(),
            key.expected(),
            key.setters(),
        );
    }
    page
}

fn exit_codes() -> String {
    let mut page = format!("# Exit codes\n\n{NOTE}\n\n| code | meaning |\n|---|---|\n");
    for status in ExitStatus::ALL {
        let _ = writeln!(page, "| {} | {} |", status.number(), status.meaning());
    }
    page.push_str(
        "\n`piton exec` passes on the exit status of its command, 128 + n where signal n ended it. Where piton itself refuses \
         or cannot make the checkpoint, the codes above apply. `--format json` tells the two apart: the last line has the \
         error code `COMMAND_FAILED` exactly where the exit status is the command's, and `exit_code` or `signal` of the \
         step is how the command ended.\n",
    );
    page.push_str(
        "\nBeside its exit code every error has a stable code in capitals. With `--format json` an error is the last \
         line of stdout: `{\"error\": {\"code\", \"message\", \"suggestion\", …}}`. [Codes](codes.md) \
         explains every code, and so does `piton help CODE`.\n",
    );
    page
}
