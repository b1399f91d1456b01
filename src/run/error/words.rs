//! The sentences that errors of runs are made of.

use crate::checkpoint::object::ObjectId;
use crate::item::params::ParamProblem;
use crate::journal::event::Wait;
use crate::problem::{Call, Hint, hint};
use crate::run::directive::Waiting;
use crate::run::marker::WaitingRun;

/// The commands that a waiting step takes.
pub fn way_on(waiting: &Waiting) -> Hint {
    way_on_in(waiting, None)
}

/// The same for a run that waits in another work tree.
pub fn way_on_in(waiting: &Waiting, folder: Option<&str>) -> Hint {
    let run = waiting.run;
    let resume = folder.map_or_else(|| format!("piton resume {run}"), |it| format!("piton -C '{it}' resume {run}"));
    match &waiting.wait {
        Wait::Work { .. } => {
            let resume = if folder.is_some() {
                format!("`{resume}`").into()
            } else {
                Hint::from(Call::Resume(Some(run.to_string())))
            };
            hint!["do it, then ", resume, "; `--failed WHY` if it cannot be done"]
        }
        Wait::Person { .. } => format!("`piton approve {run}` or `piton reject {run}`").into(),
        Wait::Changes => format!("`piton approve {run}` keeps the changes, `piton reject {run}` puts them back").into(),
        Wait::Indeterminate { .. } => format!(
            "`{resume} --retry` runs it again, `--result JSON` says that it is done, `--failed WHY` that it failed"
        )
        .into(),
        Wait::Unknown => "a newer piton knows".into(),
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
