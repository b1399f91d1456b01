//! Parts of the messages of run errors.

use crate::checkpoint::object::ObjectId;
use crate::item::params::ParamProblem;
use crate::journal::event::Wait;
use crate::problem::{Hint, HintCall, hint};
use crate::run::directive::Waiting;
use crate::run::unfinished_note::WaitingRun;

/// The commands that answer a waiting step.
pub fn way_on(waiting: &Waiting) -> Hint {
    way_on_in(waiting, None)
}

/// As [`way_on`], for a run that waits in another work tree.
pub fn way_on_in(waiting: &Waiting, folder: Option<&str>) -> Hint {
    let run = waiting.run;
    let resume = folder.map_or_else(
        || format!("piton resume {run}"),
        |it| format!("piton -C '{it}' resume {run}"),
    );
    match &waiting.wait {
        Wait::Work { .. } => {
            let resume = if folder.is_some() {
                format!("`{resume}`").into()
            } else {
                Hint::from(HintCall::Resume(Some(run.to_string())))
            };
            hint!["do it, then ", resume, "; or `--failed WHY` if you cannot do it"]
        }
        Wait::Person { .. } => format!("`piton approve {run}` or `piton reject {run}`").into(),
        Wait::Changes => format!("`piton approve {run}` keeps the changes, `piton reject {run}` rolls them back").into(),
        Wait::Indeterminate { .. } => format!(
            "`{resume} --retry` runs it again, `--result JSON` marks it as done, `--failed WHY` as failed"
        )
        .into(),
        Wait::Unknown => "a newer piton knows".into(),
    }
}

/// A phrase for where a run waits.
pub(super) fn waiting_in(waiting: &WaitingRun) -> String {
    match (&waiting.step_name, &waiting.wait) {
        (Some(step), Some(_)) => format!(": it waits in step `{step}`"),
        (Some(step), None) => format!(": it was interrupted in step `{step}`"),
        (None, _) => ": it was interrupted between two steps".to_owned(),
    }
}

/// All problems of inputs.
pub(super) fn problem_list(problems: &[ParamProblem]) -> String {
    problems
        .iter()
        .map(|problem| problem.message.clone())
        .collect::<Vec<_>>()
        .join("; ")
}

/// The missing requirements of a tool.
pub(super) fn needs(commands: &[String], variables: &[String], servers: &[String]) -> String {
    let list = |what: &str, names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let plural = if names.len() == 1 { "" } else { "s" };
        (!names.is_empty()).then(|| format!("the {what}{plural} {}", names.join(", ")))
    };
    let parts = [
        list("command", commands),
        list("environment variable", variables),
        list("MCP server", servers),
    ];
    parts
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" and ")
}

/// The short id of a tree.
pub(super) fn tree_name(tree: Option<ObjectId>) -> String {
    tree.map_or_else(|| "nothing".to_owned(), |tree| tree.short())
}
