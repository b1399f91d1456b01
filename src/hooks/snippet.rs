//! Lines for the user to add by hand where another hook manager owns the hooks.
//!
//! Teammates without piton are not affected by them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Hook;
use super::manager::{Charge, Manager};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snippet {
    pub file: String,
    /// Where in the file to insert the text, as a sentence.
    pub place: String,
    pub text: String,
    /// The command to run afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
}

/// The lines for the hooks that another manager owns. The path of each hook is the file that
/// decides about it.
pub(super) fn snippets(charge: &Charge, hooks: &[(Hook, PathBuf)]) -> Vec<Snippet> {
    let names: Vec<Hook> = hooks.iter().map(|(hook, _)| *hook).collect();
    match charge {
        Charge::Free | Charge::Off => Vec::new(),
        Charge::Manager(Manager::Lefthook, file) => vec![lefthook(file, &names)],
        Charge::Manager(manager @ (Manager::PreCommit | Manager::Prek), file) => {
            vec![pre_commit(*manager, file, &names)]
        }
        Charge::Manager(Manager::Husky, _) => hooks
            .iter()
            .map(|(hook, file)| script(*hook, file))
            .collect(),
        Charge::EveryRepository | Charge::WorkTree => hooks
            .iter()
            .map(|(hook, file)| program(*hook, file))
            .collect(),
    }
}

/// Lines for a shell script, such as a husky hook.
fn script(hook: Hook, file: &Path) -> Snippet {
    let name = hook.name();
    let (text, place) = if hook.reads_input() {
        // Restore stdin, so that later lines of the script can read the same input.
        let text = format!(
            "if command -v piton >/dev/null 2>&1; then\n  piton_input=$(cat; echo .)\n  \
             printf %s \"${{piton_input%.}}\" | piton hooks run {name} -- \"$@\" || exit $?\n  \
             exec <<PITON_INPUT\n${{piton_input%??}}\nPITON_INPUT\n  \
             if [ \"$piton_input\" = . ]; then exec </dev/null; fi\nfi\n"
        );
        (text, "before anything that reads its input")
    } else {
        let text = format!(
            "if command -v piton >/dev/null 2>&1; then piton hooks run {name} -- \"$@\" || exit $?; fi\n"
        );
        (text, "before anything that ends it")
    };
    Snippet {
        file: file.to_string_lossy().into_owned(),
        place: place.to_owned(),
        text,
        then: None,
    }
}

/// The same for a file that git runs directly.
fn program(hook: Hook, file: &Path) -> Snippet {
    let snippet = script(hook, file);
    if file.exists() {
        return snippet;
    }
    let then = format!("chmod +x '{}'", snippet.file.replace('\'', r"'\''"));
    Snippet {
        text: format!("#!/bin/sh\n{}", snippet.text),
        then: Some(then),
        place: "as a new file".to_owned(),
        ..snippet
    }
}

/// The shell command that lefthook runs.
fn lefthook_run(hook: Hook) -> String {
    let (first, arguments) = match hook {
        Hook::PreCommit | Hook::PostCommit | Hook::PreReceive => ("", ""),
        Hook::CommitMessage | Hook::PostRewrite => ("", " \"{1}\""),
        Hook::PrePush => ("", " \"{1}\" \"{2}\""),
        // lefthook leaves a placeholder unchanged when git passes fewer than three arguments.
        Hook::PrepareCommitMessage => (
            "set -- \"{1}\" {2} {3}; case \"$2\" in \"{\"*) set -- \"$1\" ;; esac; \
             case \"$3\" in \"{\"*) set -- \"$1\" \"$2\" ;; esac; ",
            " \"$@\"",
        ),
    };
    format!(
        "if command -v piton >/dev/null 2>&1; then {first}piton hooks run {} --{arguments}; fi",
        hook.name()
    )
}

fn lefthook(file: &Path, hooks: &[Hook]) -> Snippet {
    let ending = file
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default();
    let mut text = String::new();
    let mut members = Map::new();
    for hook in hooks {
        let (name, run) = (hook.name(), lefthook_run(*hook));
        // Writing to a string cannot fail.
        let _ = match ending {
            "toml" => writeln!(text, "[{name}.commands.piton]\nrun = '{run}'"),
            _ => writeln!(text, "{name}:\n  commands:\n    piton:\n      run: '{run}'"),
        };
        let mut command = json!({ "run": run });
        if hook.reads_input() {
            text.push_str(if ending == "toml" {
                "use_stdin = true\n"
            } else {
                "      use_stdin: true\n"
            });
            command["use_stdin"] = true.into();
        }
        members.insert(name.to_owned(), json!({ "commands": { "piton": command } }));
    }
    if ending.starts_with("json") {
        text = format!("{:#}\n", Value::Object(members));
    }
    Snippet {
        file: file.to_string_lossy().into_owned(),
        place: "at its top level; where a hook is there already, only `piton` below its `commands`"
            .to_owned(),
        text,
        then: Some("lefthook install".to_owned()),
    }
}

/// The entry for pre-commit, which splits words like a shell but does not start one.
fn pre_commit_entry(hook: Hook) -> String {
    format!(
        "sh -c 'command -v piton >/dev/null 2>&1 || exit 0; exec piton hooks run {} -- \"$@\"' piton",
        hook.name()
    )
}

fn pre_commit(manager: Manager, file: &Path, hooks: &[Hook]) -> Snippet {
    let is_toml = file.extension().is_some_and(|ending| ending == "toml");
    let mut text = String::from(if is_toml {
        "[[repos]]\nrepo = \"local\"\n"
    } else {
        "  - repo: local\n    hooks:\n"
    });
    let mut types = String::new();
    for hook in hooks {
        let (name, entry) = (hook.name(), pre_commit_entry(*hook));
        // pre-commit passes the message file as its only file name, and everything else in
        // variables.
        let names = matches!(hook, Hook::PrepareCommitMessage | Hook::CommitMessage);
        // Writing to a string cannot fail.
        let _ = if is_toml {
            write!(
                text,
                "\n[[repos.hooks]]\nid = \"piton-{name}\"\nname = \"piton {name}\"\nentry = '''{entry}'''\n\
                 language = \"system\"\nstages = [\"{name}\"]\nalways_run = true\npass_filenames = {names}\n"
            )
        } else {
            write!(
                text,
                "      - id: piton-{name}\n        name: piton {name}\n        entry: {entry}\n        \
                 language: system\n        stages: [{name}]\n        always_run: true\n        \
                 pass_filenames: {names}\n"
            )
        };
        let _ = write!(types, " --hook-type {name}");
    }
    let place = if is_toml {
        "at its end"
    } else {
        "at the end of `repos:`, which comes last"
    };
    Snippet {
        file: file.to_string_lossy().into_owned(),
        place: place.to_owned(),
        text,
        then: Some(format!("{} install{types}", manager.name())),
    }
}
