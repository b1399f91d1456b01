//! Hints for agents: what piton can do about a problem is a call of a tool or a resource, not a command line.

use serde_json::Value;

use super::answer::{Answer, AnswerKind};
use crate::problem::{Call, Code, Hint};

/// A hint for agents.
pub(super) fn for_agents(hint: &Hint) -> String {
    hint.render(&call, &|_| None)
}

/// The same answer with the hints of runs and tool results for agents.
///
/// These values come from the journal and from results that the terminal shows as well, where a hint is in the words
/// of the terminal.
pub(super) fn answer_for_agents(mut answer: Answer) -> Answer {
    if answer.kind == AnswerKind::Error && answer.value.get("suggestion").is_some_and(Value::is_null) {
        let code = answer.value.get("code").and_then(Value::as_str).and_then(Code::find);
        answer.value["suggestion"] = otherwise(code).into();
    }
    render_in(&mut answer.value);
    if let Some(error) = answer.value.get_mut("run").and_then(|run| run.get_mut("error")) {
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
fn call(call: &Call) -> String {
    let action = |name: &str, field: &str, about: Option<&String>| match about {
        Some(about) => format!("`action: \"{name}\"` with `{field}: \"{about}\"`"),
        None => format!("`action: \"{name}\"`"),
    };
    let load = |kind: &str, id: &str| format!("`load` with `item_type: \"{kind}\", item_id: \"{id}\"`");
    match call {
        Call::Status(run) => action("status", "run_id", run.as_ref()),
        Call::Resume(run) => action("continue", "run_id", run.as_ref()),
        Call::Cancel(run) => action("cancel", "run_id", run.as_ref()),
        Call::Undo(step) => action("undo", "step", step.as_ref()),
        Call::Sign(id) => action("sign", "item_id", id.as_ref()),
        Call::Validate => action("validate", "item_id", None),
        Call::New => action("create", "item_id", None),
        Call::ShowTool(id) => load("tool", id),
        Call::ShowDirective(id) => load("directive", id),
        Call::LoadToProject(_) => "`load` with `destination: \"project\"`".to_owned(),
        Call::Search => "`search`".to_owned(),
        Call::Log => "the resource `piton://runs`".to_owned(),
        Call::ShowRun(run) => format!("the resource `piton://runs/{run}`"),
        Call::Checkpoint => "the directive `git_checkpoint`".to_owned(),
        Call::Inputs => "`parameters`".to_owned(),
        Call::Overwrite => "`overwrite: true`".to_owned(),
        Call::DryRun => "`dry_run: true`".to_owned(),
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
                    Call::Status(run()),
                    " shows it, ",
                    Call::Resume(run()),
                    " goes on, ",
                    Call::Cancel(run()),
                    " ends it"
                ],
                "`action: \"status\"` with `run_id: \"01k9\"` shows it, `action: \"continue\"` with `run_id: \"01k9\"` goes \
                 on, `action: \"cancel\"` with `run_id: \"01k9\"` ends it",
            ),
            (
                hint![Call::ShowTool("greet".to_owned()), " lists what it takes"],
                "`load` with `item_type: \"tool\", item_id: \"greet\"` lists what it takes",
            ),
            (
                hint!["its changes stay: ", Call::Undo(None), " takes them back"],
                "its changes stay: `action: \"undo\"` takes them back",
            ),
            (
                hint!["copy it into the project first, with ", Call::LoadToProject(Some("ID".to_owned()))],
                "copy it into the project first, with `load` with `destination: \"project\"`",
            ),
            (hint!["list runs with ", Call::Log], "list runs with the resource `piton://runs`"),
            (hint![Call::Checkpoint, " commits it"], "the directive `git_checkpoint` commits it"),
            (hint!["give them with ", Call::Inputs], "give them with `parameters`"),
        ] {
            assert_eq!(for_agents(&hint), expected);
        }
    }

    #[test]
    fn a_command_of_the_terminal_is_left_out() {
        let hint = hint!["wait for it", Hint::Command("; or use a worktree with `--worktree`".to_owned())];
        assert_eq!(for_agents(&hint), "wait for it");
        assert_eq!(hint.to_string(), "wait for it; or use a worktree with `--worktree`");
    }
}
