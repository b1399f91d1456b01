//! Hints for agents: what piton can do about a problem is a call of a tool or a resource, not a command line.

use serde_json::Value;

use super::answer::{AnswerKind, ToolAnswer};
use crate::problem::{Code, Hint, HintCall};

/// A hint for agents.
pub(super) fn for_agents(hint: &Hint) -> String {
    hint.render(&call, &|_| None)
}

/// The same answer with the hints of runs and tool results for agents.
///
/// These values come from the journal and from results that the terminal shows as well, where a hint is in the words
/// of the terminal.
pub(super) fn answer_for_agents(mut answer: ToolAnswer) -> ToolAnswer {
    if answer.kind == AnswerKind::Error
        && answer.value.get("suggestion").is_some_and(Value::is_null)
    {
        let code = answer
            .value
            .get("code")
            .and_then(Value::as_str)
            .and_then(Code::find);
        answer.value["suggestion"] = otherwise(code).into();
    }
    render_in(&mut answer.value);
    if let Some(error) = answer
        .value
        .get_mut("run")
        .and_then(|run| run.get_mut("error"))
    {
        render_in(error);
    }
    answer
}

fn render_in(value: &mut Value) {
    if let Some(Value::String(text)) = value.get_mut("suggestion") {
        *text = for_agents(&Hint::read(text));
    }
}

/// The hint for a problem that has none of its own.
fn otherwise(code: Option<Code>) -> Option<&'static str> {
    matches!(code, Some(Code::InvalidArgument | Code::InvalidParameter))
        .then_some("`help` says what each tool takes; its topics are named after them")
}

/// What a client calls or reads.
fn call(call: &HintCall) -> String {
    let action = |name: &str, field: &str, about: Option<&String>| match about {
        Some(about) => format!("`action: \"{name}\"` with `{field}: \"{about}\"`"),
        None => format!("`action: \"{name}\"`"),
    };
    let load =
        |kind: &str, id: &str| format!("`load` with `item_type: \"{kind}\", item_id: \"{id}\"`");
    match call {
        HintCall::Status(run) => action("status", "run_id", run.as_ref()),
        HintCall::Resume(run) => action("continue", "run_id", run.as_ref()),
        HintCall::Cancel(run) => action("cancel", "run_id", run.as_ref()),
        HintCall::Undo(step) => action("undo", "step", step.as_ref()),
        HintCall::Sign(id) => action("sign", "item_id", id.as_ref()),
        HintCall::Validate => action("validate", "item_id", None),
        HintCall::New => action("create", "item_id", None),
        HintCall::ShowTool(id) => load("tool", id),
        HintCall::ShowDirective(id) => load("directive", id),
        HintCall::LoadToProject(_) => "`load` with `destination: \"project\"`".to_owned(),
        HintCall::Search => "`search`".to_owned(),
        HintCall::Log => "the resource `piton://runs`".to_owned(),
        HintCall::ShowRun(run) => format!("the resource `piton://runs/{run}`"),
        HintCall::Checkpoint => "the directive `git_checkpoint`".to_owned(),
        HintCall::Inputs => "`parameters`".to_owned(),
        HintCall::Overwrite => "`overwrite: true`".to_owned(),
        HintCall::DryRun => "`dry_run: true`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::hint;

    #[test]
    fn what_an_agent_can_do_is_a_call() {
        let run = || Some("01k9".to_owned());
        for (hint, expected) in [
            (
                hint![
                    HintCall::Status(run()),
                    " shows it, ",
                    HintCall::Resume(run()),
                    " continues it, ",
                    HintCall::Cancel(run()),
                    " ends it"
                ],
                "`action: \"status\"` with `run_id: \"01k9\"` shows it, `action: \"continue\"` with `run_id: \"01k9\"` \
                 continues it, `action: \"cancel\"` with `run_id: \"01k9\"` ends it",
            ),
            (
                hint![
                    HintCall::ShowTool("greet".to_owned()),
                    " lists what it takes"
                ],
                "`load` with `item_type: \"tool\", item_id: \"greet\"` lists what it takes",
            ),
            (
                hint!["its changes stay: ", HintCall::Undo(None), " reverts them"],
                "its changes stay: `action: \"undo\"` reverts them",
            ),
            (
                hint![
                    "copy it into the project first, with ",
                    HintCall::LoadToProject(Some("ID".to_owned()))
                ],
                "copy it into the project first, with `load` with `destination: \"project\"`",
            ),
            (
                hint!["list runs with ", HintCall::Log],
                "list runs with the resource `piton://runs`",
            ),
            (
                hint![HintCall::Checkpoint, " commits it"],
                "the directive `git_checkpoint` commits it",
            ),
            (
                hint!["give them with ", HintCall::Inputs],
                "give them with `parameters`",
            ),
        ] {
            assert_eq!(for_agents(&hint), expected);
        }
    }

    #[test]
    fn a_command_of_the_terminal_is_left_out() {
        let hint = hint![
            "wait for it",
            Hint::Command("; or use a worktree with `--worktree`".to_owned())
        ];
        assert_eq!(for_agents(&hint), "wait for it");
        assert_eq!(
            hint.to_string(),
            "wait for it; or use a worktree with `--worktree`"
        );
    }
}
