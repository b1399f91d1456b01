//! The groups of commands for `piton --help`, and other common names for commands.
//!
//! The most used commands come first. A test checks that each visible command is in exactly one
//! group.

use std::fmt::Write as _;

use anstyle::Style;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::item::wording::nearest;

/// The groups in their order.
pub(super) const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Common commands",
        &[
            "init", "run", "exec", "undo", "log", "show", "diff", "status", "tool", "search",
        ],
    ),
    ("Runs", &["resume", "approve", "reject", "cancel", "finish"]),
    (
        "Checkpoints",
        &["checkpoint", "redo", "restore", "rollback", "recover"],
    ),
    ("History", &["blame", "verify", "push", "fetch", "gc"]),
    (
        "Items",
        &[
            "directive",
            "new",
            "load",
            "validate",
            "sign",
            "trust",
            "migrate",
        ],
    ),
    (
        "Setup and help",
        &[
            "config",
            "hooks",
            "mcp",
            "doctor",
            "selftest",
            "quickstart",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// Other common names: the words before, the word, and the matching commands.
const MEANINGS: [(&str, &str, &[&str]); 36] = [
    ("", "history", &["log"]),
    ("", "runs", &["log", "status"]),
    ("", "ps", &["status"]),
    ("", "list", &["tool list", "directive list"]),
    ("", "ls", &["tool list", "directive list"]),
    ("", "tools", &["tool list"]),
    ("", "directives", &["directive list"]),
    ("", "workflows", &["directive list"]),
    ("", "revert", &["undo", "rollback"]),
    ("", "reset", &["rollback", "undo"]),
    ("", "commit", &["checkpoint"]),
    ("", "save", &["checkpoint"]),
    ("", "snapshot", &["checkpoint"]),
    ("", "start", &["run", "init"]),
    ("", "execute", &["exec", "run"]),
    ("", "call", &["tool run"]),
    ("", "continue", &["resume"]),
    ("", "abort", &["cancel"]),
    ("", "stop", &["cancel"]),
    ("", "kill", &["cancel"]),
    ("", "accept", &["approve", "tool accept"]),
    ("", "merge", &["finish"]),
    ("", "checkout", &["restore"]),
    ("", "cat", &["load", "show"]),
    ("", "create", &["new"]),
    ("", "add", &["new"]),
    ("", "check", &["validate", "doctor"]),
    ("", "lint", &["validate"]),
    ("", "find", &["search"]),
    ("", "settings", &["config"]),
    ("", "pull", &["fetch"]),
    ("", "annotate", &["blame"]),
    ("tool", "ls", &["tool list"]),
    ("tool", "call", &["tool run"]),
    ("directive", "ls", &["directive list"]),
    ("directive", "run", &["run"]),
];

const HEADING: Style = Style::new().bold().underline();
const NAME: Style = Style::new().bold();

/// The template of `piton --help`, with the commands in groups.
pub(super) fn template(root: &Command) -> String {
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "\n{HEADING}{title}:{HEADING:#}");
        for name in names {
            let about = root.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {NAME}{name:<width$}{NAME:#}  {about}");
        }
    }
    let _ = write!(
        text,
        "\n{HEADING}Global options:{HEADING:#}\n{{options}}{{after-help}}"
    );
    text
}

/// Suggests commands for an unknown word: by meaning, else by the most similar spelling.
pub(super) fn with_meaning(mut err: clap::Error, words: &[String]) -> clap::Error {
    if err.kind() != ErrorKind::InvalidSubcommand {
        return err;
    }
    let Some(ContextValue::String(word)) = err.get(ContextKind::InvalidSubcommand) else {
        return err;
    };
    let word = word.clone();
    let before = words
        .iter()
        .skip(1)
        .take_while(|typed| **typed != word)
        .filter(|typed| !typed.starts_with('-'));
    // A word before it may be the value of a global option.
    let parent = before
        .last()
        .map(String::as_str)
        .filter(|typed| ["tool", "directive"].contains(typed));
    let parent = parent.unwrap_or_default();
    let meaning = MEANINGS
        .iter()
        .find(|(at, name, _)| *at == parent && name.eq_ignore_ascii_case(&word));
    let names = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
    let suggested = match meaning.map(|(_, _, commands)| *commands) {
        Some([only]) => ContextValue::String((*only).to_owned()),
        Some(commands) => ContextValue::Strings(
            commands
                .iter()
                .map(|command| (*command).to_owned())
                .collect(),
        ),
        // The parser already finds similar longer words.
        None if err.get(ContextKind::SuggestedSubcommand).is_some() || !parent.is_empty() => {
            return err;
        }
        None => match nearest(&word, names) {
            Some(name) => ContextValue::String(name.to_owned()),
            None => return err,
        },
    };
    err.insert(ContextKind::SuggestedSubcommand, suggested);
    err
}
