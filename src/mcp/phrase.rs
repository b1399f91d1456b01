//! The way out of an error, in words for somebody who has calls and no terminal.
//!
//! Hints are written once, for the terminal, beside their errors. Where a command line in one of them has a call
//! that does the same, an agent reads the call; whatever only a person may do stays a command line.

use serde_json::Value;

use super::answer::{Answer, AnswerKind};

/// What is said in the terminal, and what is meant by it here.
const FLAGS: [(&str, &str); 5] = [
    ("stamp it again only", "stamp it again, with `action: \"sign\"`, only"),
    ("`--input NAME=VALUE`", "`parameters`"),
    ("`--overwrite`", "`overwrite: true`"),
    ("`--dry-run`", "`dry_run: true`"),
    ("; or work in a worktree of its own with `--worktree`", ""),
];

/// The same answer with its suggestions in words of calls.
pub(super) fn for_agents(mut answer: Answer) -> Answer {
    let told = |value: &mut Value| {
        if let Some(Value::String(text)) = value.get_mut("suggestion") {
            *text = as_calls(text);
        }
    };
    told(&mut answer.value);
    if answer.kind == AnswerKind::Error && answer.value.get("suggestion").is_some_and(Value::is_null) {
        answer.value["suggestion"] = otherwise(answer.value.get("code").and_then(Value::as_str)).into();
    }
    if let Some(error) = answer.value.get_mut("run").and_then(|run| run.get_mut("error")) {
        told(error);
    }
    answer
}

/// What to do where nobody knows better.
fn otherwise(code: Option<&str>) -> Option<&'static str> {
    matches!(code, Some("INVALID_ARGUMENT" | "INVALID_PARAMETER"))
        .then_some("`help` says what each tool takes; its topics are named after them")
}

/// A hint with the command lines in it as calls.
pub(super) fn as_calls(hint: &str) -> String {
    let hint = FLAGS.iter().fold(hint.to_owned(), |text, (flag, meant)| text.replace(flag, meant));
    if !hint.matches('`').count().is_multiple_of(2) {
        return hint;
    }
    // Every second piece stands between backticks.
    let mut said = String::with_capacity(hint.len());
    for (at, piece) in hint.split('`').enumerate() {
        match (at % 2, piece.strip_prefix("piton ").and_then(call)) {
            (0, _) => said.push_str(piece),
            (_, Some(call)) => said.push_str(&call),
            (_, None) => said.extend(["`", piece, "`"]),
        }
    }
    said
}

/// The call that does what a command line does.
fn call(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let about = |action: &str, name: &str, id: &[&str]| match id {
        [] => Some(format!("`action: \"{action}\"`")),
        [id] if !id.starts_with('-') => Some(format!("`action: \"{action}\"` with `{name}: \"{id}\"`")),
        _ => None,
    };
    match words.as_slice() {
        ["status", run @ ..] => about("status", "run_id", run),
        ["resume", run @ ..] => about("continue", "run_id", run),
        ["cancel", run @ ..] => about("cancel", "run_id", run),
        ["undo", step @ ..] => about("undo", "step", step),
        ["sign", id @ ..] => about("sign", "item_id", id),
        ["validate"] => about("validate", "item_id", &[]),
        ["new"] => about("create", "item_id", &[]),
        [kind @ ("tool" | "directive"), "show", id] => {
            Some(format!("`load` with `item_type: \"{kind}\", item_id: \"{id}\"`"))
        }
        ["load", _, "--to", place] | ["load", "--to", place] => Some(format!("`load` with `destination: \"{place}\"`")),
        ["search"] => Some("`search`".to_owned()),
        ["log"] => Some("the resource `piton://runs`".to_owned()),
        ["show", run] if !run.contains('/') => Some(format!("the resource `piton://runs/{run}`")),
        ["checkpoint"] => Some("the directive `git_checkpoint`".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_that_have_a_call_are_calls() {
        for (hint, meant) in [
            (
                "`piton status 01k9` shows it, `piton resume 01k9` goes on, `piton cancel 01k9` ends it; or work in a \
              worktree of its own with `--worktree`",
                "`action: \"status\"` with `run_id: \"01k9\"` shows it, `action: \"continue\"` with `run_id: \"01k9\"` goes \
              on, `action: \"cancel\"` with `run_id: \"01k9\"` ends it",
            ),
            (
                "`piton tool show greet` lists what it takes",
                "`load` with `item_type: \"tool\", item_id: \"greet\"` lists what it takes",
            ),
            ("its changes stay: `piton undo` takes them back", "its changes stay: `action: \"undo\"` takes them back"),
            (
                "copy it into the project first, with `piton load ID --to project`",
                "copy it into the project first, with `load` with `destination: \"project\"`",
            ),
            ("list runs with `piton log`", "list runs with the resource `piton://runs`"),
            (
                "explicit mode: `piton checkpoint` commits it",
                "explicit mode: the directive `git_checkpoint` commits it",
            ),
            (
                "give them with `--input NAME=VALUE`; `piton directive show x` lists them",
                "give them with `parameters`; `load` with `item_type: \"directive\", item_id: \"x\"` lists them",
            ),
        ] {
            assert_eq!(as_calls(hint), meant);
        }
    }

    #[test]
    fn what_only_a_person_may_do_stays_a_command_line() {
        for hint in [
            "`piton approve 01k9` or `piton reject 01k9`",
            "`piton resume 01k9 --retry` runs it again, `--result JSON` says that it is done",
            "if you know whose key it is: `piton trust add 'k' --as NAME`",
            "sign it with `piton sign --key KEY ITEM`",
            "commit both together with `piton checkpoint PATH`",
            "see `piton config checkpoint.secrets_allowed`",
            "a hint without any, or with one ` alone",
        ] {
            assert_eq!(as_calls(hint), hint);
        }
    }
}
