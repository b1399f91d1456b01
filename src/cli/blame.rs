//! `piton blame`: shows which step wrote each line of a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::str::FromStr;

use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::{Map, Value};

use super::history::{self, ProjectHistory};
use super::ui::{Format, Ui, clean};
use crate::audit::blame::{self, Blame, BlamedLine};
use crate::audit::history::StepRecord;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::journal::StepId;
use crate::journal::event::{StepKind, ToolCall};
use crate::run::error::RunError;
use crate::run::project_history::repo_paths;

/// The maximum length of a command or an author's name.
const MOST_LETTERS: usize = 32;

/// Show which step wrote each line of a file
///
/// piton shows each line with the step that wrote it, what the step ran, and when. A line that no step
/// wrote shows its commit and author, as `git blame` does. piton recognises amended, rebased,
/// cherry-picked and squashed commits by their content, and splits the lines of a squash between the
/// steps by the recorded contents.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton blame src/main.rs              Every line
  piton blame src/main.rs:12           One line
  piton blame src/main.rs -L 10,20     Some lines
  piton blame src/main.rs --format json    Include directive, tool and parameters of each step")]
pub(super) struct BlameArguments {
    /// File, or `FILE:LINE` for one line.
    #[arg(value_name = "FILE")]
    file: OsString,
    /// Only these lines, counted from 1.
    #[arg(short = 'L', long, value_name = "START,END")]
    lines: Option<LineRange>,
}

/// Some lines of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LineRange(RangeInclusive<usize>);

impl FromStr for LineRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (start, end) = text.split_once(',').unwrap_or((text, text));
        match (start.trim().parse(), end.trim().parse()) {
            (Ok(start @ 1..), Ok(end)) if start <= end => Ok(Self(start..=end)),
            _ => Err("expected START,END or one number, from 1"),
        }
    }
}

/// The result as JSON.
#[derive(Serialize)]
struct ShownBlame<'a> {
    #[serde(flatten)]
    blame: &'a Blame,
    /// The steps of the lines.
    steps: BTreeMap<StepId, BlamedStep<'a>>,
}

/// A step that wrote a line.
#[derive(Serialize)]
struct BlamedStep<'a> {
    name: &'a str,
    directive: Option<&'a str>,
    tool: Option<&'a str>,
    parameters: Option<&'a Map<String, Value>>,
    command: &'a [String],
    started: jiff::Timestamp,
}

pub(super) fn run(
    arguments: &BlameArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let past = history::load(ctx, ui)?;
    let git = past.git(ctx)?;
    let (file, line) = split(ctx, &arguments.file);
    let range = arguments
        .lines
        .clone()
        .or(line)
        .map(|LineRange(range)| range);
    let typed = || file.to_string_lossy().into_owned();
    let missing = || RunError::NoSuchFile {
        path: typed(),
        moment: "HEAD".to_owned(),
    };
    let path = repo_paths(ctx, std::slice::from_ref(&file))?
        .into_iter()
        .next()
        .ok_or_else(missing)?;
    let fates = past.fates()?.ok_or_else(missing)?;
    let found = blame::blame(
        git,
        &past.history,
        &fates,
        &past.root(ctx),
        &path,
        range.as_ref(),
    );
    let found = found.map_err(RunError::from)?.ok_or_else(missing)?;
    if ui.format() == Format::Json {
        let steps = found
            .lines
            .iter()
            .filter_map(|line| past.history.step(line.step?));
        let steps = steps.map(|step| (step.id, describe(&past, step))).collect();
        ui.json(&ShownBlame {
            blame: &found,
            steps,
        })?;
        return Ok(ExitStatus::Success);
    }
    let rows: Vec<[String; 3]> = found
        .lines
        .iter()
        .map(|line| columns(&past, &found, line))
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    let digits = found
        .lines
        .last()
        .map_or(1, |line| line.number.to_string().len());
    for (line, [who, what, when]) in found.lines.iter().zip(&rows) {
        let text = clean(&line.text);
        ui.line(
            format!(
                "{who:first$}  {what:second$}  {when:16}  {:digits$}) {text}",
                line.number
            )
            .trim_end(),
        )?;
    }
    Ok(ExitStatus::Success)
}

/// Splits `FILE:LINE`. A file whose name contains the colon takes precedence.
fn split(ctx: &Context, typed: &OsString) -> (OsString, Option<LineRange>) {
    let whole = (typed.clone(), None);
    if ctx.cwd.join(typed).symlink_metadata().is_ok() {
        return whole;
    }
    let Some((file, line)) = typed.to_str().and_then(|typed| typed.rsplit_once(':')) else {
        return whole;
    };
    line.parse().map_or(whole, |line| (file.into(), Some(line)))
}

/// The step or commit of a line, its command or author, and its time.
fn columns(past: &ProjectHistory, found: &Blame, line: &BlamedLine) -> [String; 3] {
    let time = |at: jiff::Timestamp| {
        at.to_zoned(TimeZone::system())
            .strftime("%Y-%m-%d %H:%M")
            .to_string()
    };
    if let Some((run, step)) = line
        .step
        .and_then(|id| Some((past.history.run(id.run)?, past.history.step(id)?)))
    {
        let id = format!("{}/{}", run.short_id(&past.history), step.id.step);
        let what = match (&run.directive, &step.tool) {
            (Some(directive), Some(tool)) => format!("{directive} {tool}"),
            (Some(directive), None) => format!("{directive} {}", step.name),
            (None, Some(tool)) => tool.clone(),
            (None, None) => history::command_line(run),
        };
        return [id, shortened(&what), time(step.started)];
    }
    let Some((commit, heading)) = line
        .commit
        .and_then(|id| Some((id, found.commits.get(&id)?)))
    else {
        return [String::new(), "not committed".to_owned(), String::new()];
    };
    [
        commit.short(),
        shortened(&heading.author),
        heading.time.map(time).unwrap_or_default(),
    ]
}

fn describe<'a>(past: &'a ProjectHistory, step: &'a StepRecord) -> BlamedStep<'a> {
    let run = past.history.run(step.id.run);
    let parameters = match &step.kind {
        StepKind::Tool(ToolCall { parameters, .. }) | StepKind::Item { parameters, .. } => {
            Some(parameters)
        }
        _ => None,
    };
    BlamedStep {
        name: &step.name,
        directive: run.and_then(|run| run.directive.as_deref()),
        tool: step.tool.as_deref(),
        parameters,
        command: run.map(|run| run.command.as_slice()).unwrap_or_default(),
        started: step.started,
    }
}

fn shortened(text: &str) -> String {
    let text = clean(text);
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= MOST_LETTERS {
        return line.to_owned();
    }
    line.chars().take(MOST_LETTERS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_1() {
        assert_eq!("3".parse(), Ok(LineRange(3..=3)));
        assert_eq!("3, 5".parse(), Ok(LineRange(3..=5)));
        for wrong in ["0", "5,3", "", "a", "1,", "-1"] {
            assert!(wrong.parse::<LineRange>().is_err(), "{wrong}");
        }
    }
}
