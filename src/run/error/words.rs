//! The sentences that errors of runs are made of.

use std::fmt::Write as _;

use crate::checkpoint::object::ObjectId;
use crate::item::params::ParamProblem;
use crate::journal::event::Wait;
use crate::run::directive::Waiting;
use crate::run::marker::WaitingRun;

/// The commands that a waiting step takes.
pub fn way_on(waiting: &Waiting) -> String {
    let run = waiting.run;
    match &waiting.wait {
        Wait::Work { .. } => format!("do it, then `piton resume {run}`; `--failed WHY` if it cannot be done"),
        Wait::Person { .. } => format!("`piton approve {run}` or `piton reject {run}`"),
        Wait::Changes => format!("`piton approve {run}` keeps the changes, `piton reject {run}` puts them back"),
        Wait::Indeterminate { .. } => format!(
            "`piton resume {run} --retry` runs it again, `--result JSON` says that it is done, `--failed WHY` that it failed"
        ),
        Wait::Unknown => "a newer piton knows".to_owned(),
    }
}

/// Where a run waits.
pub(super) fn waiting_in(waiting: &WaitingRun) -> String {
    match (&waiting.step_name, &waiting.wait) {
        (Some(step), Some(_)) => format!(": it waits in step `{step}`"),
        (Some(step), None) => format!(": it was cut off in step `{step}`"),
        (None, _) => ": it was cut off between two steps".to_owned(),
    }
}

/// Everything that is wrong with inputs.
pub(super) fn problems_in_words(problems: &[ParamProblem]) -> String {
    problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
}

/// What happened, and why, in one line.
pub fn with_causes(err: &dyn std::error::Error) -> String {
    let mut message = err.to_string();
    let mut cause = err.source();
    while let Some(source) = cause {
        let _ = write!(message, ": {source}");
        cause = source.source();
    }
    message
}

/// What a tool lacks.
pub(super) fn needs(commands: &[String], variables: &[String]) -> String {
    let list = |what: &str, names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let plural = if names.len() == 1 { "" } else { "s" };
        (!names.is_empty()).then(|| format!("the {what}{plural} {}", names.join(", ")))
    };
    let parts = [list("command", commands), list("environment variable", variables)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// The short name of a tree.
pub(super) fn tree_name(tree: Option<ObjectId>) -> String {
    tree.map_or_else(|| "nothing".to_owned(), |tree| tree.short())
}
