//! `piton help`: shows pages about topics, and the help of commands.
//!
//! For a name that is both a command and a topic, the help of the command comes first, as in `git
//! help`, and the page below it.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt::Write as _;

use anstyle::Style;
use clap::Command;
use clap::error::ErrorKind;

use super::{CliArguments, Format, Ui};
use crate::error::{Error, ExitStatus};
use crate::item::topic::{TOPICS, Topic, TopicPage};
use crate::item::wording::nearest;
use crate::problem::Code;

/// The topic with the list of all codes; each code is a topic too.
pub(super) const CODES: &str = "codes";

const BOLD: Style = Style::new().bold();

/// Explain a command, a topic or an error code.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton help                  Overview and list of topics
  piton help permissions      A topic
  piton help tool run         A command
  piton help checkpoint       Both: the command, then the topic
  piton help NOT_UTF8         A code that piton reports
  piton help codes            All codes")]
pub(super) struct HelpArguments {
    /// A topic, the words of a command, or a code that piton reports.
    #[arg(value_name = "TOPIC")]
    words: Vec<String>,
}

pub(super) fn run(arguments: &HelpArguments, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let mut root = CliArguments::described();
    let name = match arguments.words.as_slice() {
        [] => "overview".to_owned(),
        words => words.join(" "),
    };
    if let Some(text) = about_codes(&name) {
        if ui.format() == Format::Json {
            ui.json(&TopicPage {
                help: text,
                topic: name,
                examples: Vec::new(),
            })?;
        } else {
            ui.rendered(&styled(&text))?;
        }
        return Ok(ExitStatus::Success);
    }
    let topic = Topic::find(&name);
    let command = find(&mut root, &arguments.words).filter(|_| !arguments.words.is_empty());
    if command.is_none() && topic.is_none() {
        return Err(unknown(&arguments.words));
    }
    if ui.format() == Format::Json {
        // Every front door shows the same page for a topic.
        let page = topic
            .map(Topic::page)
            .or_else(|| command.map(|command| page_of(&name, command)));
        ui.json(&page)?;
        return Ok(ExitStatus::Success);
    }
    let is_command = command.is_some();
    if let Some(command) = command {
        ui.rendered(&command.render_long_help().ansi().to_string())?;
    }
    if let Some(topic) = topic {
        ui.rendered(if is_command { "\n" } else { "" })?;
        ui.rendered(&styled(topic.text))?;
    }
    if name == "overview" {
        ui.rendered(&format!("\n{BOLD}Topics{BOLD:#}\n\n"))?;
        for topic in TOPICS {
            ui.line(&format!("  {:<12} {}", topic.name, topic.summary))?;
        }
    }
    Ok(ExitStatus::Success)
}

/// The list of all codes, or the explanation of one.
fn about_codes(name: &str) -> Option<String> {
    if name != CODES {
        return Code::find(name).map(|code| format!("{}\n", code.section()));
    }
    let width = Code::ALL
        .iter()
        .map(|code| code.as_str().len())
        .max()
        .unwrap_or_default();
    let lines = Code::ALL
        .iter()
        .map(|code| format!("{:<width$}  {}\n", code.as_str(), code.summary()));
    Some(lines.collect())
}

/// Reads `piton tool help run` as `piton help tool run`, after a parse error.
pub(super) fn asked_below(
    words: &[OsString],
    err: clap::Error,
) -> Result<CliArguments, clap::Error> {
    let at = words
        .iter()
        .position(|word| word == "help")
        .filter(|_| err.kind() == ErrorKind::InvalidSubcommand);
    let Some((before, rest)) = at.and_then(|at| words.split_at_checked(at)) else {
        return Err(err);
    };
    let program = before.iter().take(1);
    let moved = program
        .chain(rest.first())
        .chain(before.iter().skip(1))
        .chain(rest.iter().skip(1));
    CliArguments::parse_words(moved).map_err(|_| err)
}

fn find<'c>(root: &'c mut Command, words: &[String]) -> Option<&'c mut Command> {
    words.iter().try_fold(root, |command, word| {
        command
            .find_subcommand(word)
            .filter(|found| !found.is_hide_set())?;
        command.find_subcommand_mut(word)
    })
}

/// Lists the available help at the first unknown word.
fn unknown(words: &[String]) -> Error {
    let mut root = CliArguments::described();
    let known_words = (0..words.len())
        .rev()
        .find(|count| find(&mut root, words.get(..*count).unwrap_or_default()).is_some());
    let (before, rest) = words.split_at(known_words.unwrap_or_default());
    let names: Vec<String> = find(&mut root, before)
        .map(|command| visible(command))
        .unwrap_or_default();
    let similar = rest.first().and_then(|word| {
        let topics = TOPICS.iter().map(|topic| topic.name).chain([CODES]);
        let topics = topics
            .chain(Code::ALL.iter().map(|code| code.as_str()))
            .filter(|_| before.is_empty());
        nearest(word, names.iter().map(String::as_str).chain(topics)).map(str::to_owned)
    });
    let known = if before.is_empty() {
        TOPICS.iter().map(|topic| topic.name.to_owned()).collect()
    } else {
        names
    };
    Error::UnknownTopic {
        name: words.join(" "),
        similar,
        known,
    }
}

/// The visible subcommands.
fn visible(command: &Command) -> Vec<String> {
    command
        .get_subcommands()
        .filter(|it| !it.is_hide_set())
        .map(|it| it.get_name().to_owned())
        .collect()
}

/// The help of a command as a page.
fn page_of(name: &str, command: &mut Command) -> TopicPage {
    let examples = examples_of(command)
        .into_iter()
        .map(|(line, _)| line)
        .collect();
    TopicPage {
        help: command.render_long_help().to_string(),
        topic: name.to_owned(),
        examples,
    }
}

/// The examples of a command, each with its explanation.
pub(super) fn examples_of(command: &Command) -> Vec<(String, String)> {
    let text = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let lines = text.lines().skip_while(|line| *line != "Examples:").skip(1);
    let lines = lines
        .map_while(|line| line.strip_prefix("  "))
        .map(str::trim);
    lines
        .map(|line| line.split_once("  ").unwrap_or((line, "")))
        .map(|(a, b)| (a.to_owned(), b.trim().to_owned()))
        .collect()
}

/// Markdown for a terminal: headings in bold, code indented, everything else unchanged.
fn styled(text: &str) -> String {
    let mut out = String::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
            continue;
        }
        // Writing to a `String` cannot fail.
        let _ = match line.strip_prefix('#') {
            _ if in_code && line.is_empty() => writeln!(out),
            _ if in_code => writeln!(out, "    {line}"),
            Some(heading) => writeln!(
                out,
                "{BOLD}{}{BOLD:#}",
                heading.trim_start_matches('#').trim()
            ),
            None => writeln!(out, "{line}"),
        };
    }
    out
}
