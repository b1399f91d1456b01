//! `piton log`: lists runs, newest first.

use std::ffi::OsString;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};

use super::history::{self, ProjectHistory};
use super::ui::paint::{self, padded, width_of};
use super::ui::{Format, Ui, clean};
use crate::audit::fate::Fates;
use crate::audit::history::{RecordSource, RunRecord, StepRecord};
use crate::audit::reference;
use crate::checkpoint::path::RepoPath;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::journal::RunId;
use crate::run::error::RunError;
use crate::run::json::LoggedRun;
use crate::run::project_history::repo_paths;
use crate::run::situation::{Life, Situation};

/// List runs, newest first
///
/// One line per run: short id, start time, what was run, status, and what happened to its changes. An
/// unfinished run is `running` while its process is alive, `interrupted` when the process has exited,
/// or `waiting`, with its step, branch and process. piton lists the steps of a run that has several, or
/// that you name. Runs from `piton fetch` are marked `elsewhere`; only the name of their command is
/// known.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton log -n 5                    The five newest runs
  piton log 01k9x2bf                One run with its steps
  piton log --since '3 days' --path src
  piton log --status failed --format json")]
pub(super) struct LogArguments {
    /// Run id or a prefix of it.
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Only runs of this directive.
    #[arg(long, value_name = "NAME")]
    directive: Option<String>,
    /// Only runs with a step of this tool.
    #[arg(long, value_name = "ID")]
    tool: Option<String>,
    /// Only runs that changed this file, or a file in this folder.
    #[arg(long, value_name = "PATH")]
    path: Option<OsString>,
    /// Only runs started on or after a date (`2026-01-02`), or in the last `2h`, `3 days`.
    #[arg(long, value_name = "DATE")]
    since: Option<String>,
    /// Only runs started on or before a date, or longer ago than a span.
    #[arg(long, value_name = "DATE")]
    until: Option<String>,
    /// Only runs with this status.
    #[arg(long, value_enum)]
    status: Option<StatusFilter>,
    /// Show at most N runs.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StatusFilter {
    Succeeded,
    Failed,
    Denied,
    Waiting,
    Cancelled,
    /// Its process is alive.
    Running,
    /// Its process is gone.
    Interrupted,
    /// Running or interrupted.
    Unfinished,
}

/// How many steps of a run are listed; all of them if the run is named.
const MOST_STEPS: usize = 20;
/// The maximum column width; longer texts overflow.
const WIDEST: usize = 48;

struct Filter<'a> {
    run: Option<RunId>,
    directive: Option<&'a str>,
    tool: Option<&'a str>,
    path: Option<RepoPath>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    status: Option<StatusFilter>,
}

pub(super) fn run(
    arguments: &LogArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let past = history::load_with_disk(ctx, ui)?;
    let filter = Filter::of(arguments, ctx, &past)?;
    let root = past.root(ctx);
    let fates = past.fates()?;
    let limit = arguments.limit.unwrap_or(usize::MAX);
    let mut shown = 0;
    let mut rows = Vec::new();
    for run in past
        .history
        .runs
        .iter()
        .filter(|run| filter.fits(run, &past))
        .take(limit)
    {
        shown += 1;
        match ui.format() {
            Format::Json => {
                let logged = LoggedRun::new(run, &past);
                match &fates {
                    Some(fates) => ui.json(&logged.with_fates(fates))?,
                    None => ui.json(&logged)?,
                }
            }
            _ => rows.push(LogRow::new(
                &past,
                fates.as_ref(),
                run,
                &root,
                arguments.run.is_some(),
            )),
        }
    }
    if !rows.is_empty() {
        ui.page(&ctx.environment, past.repository.as_ref());
    }
    print(ui, &rows)?;
    if shown == 0 && ui.format() == Format::Human {
        let nothing = past.history.runs.is_empty();
        ui.note(if nothing {
            "no runs yet"
        } else {
            "no run matches"
        });
    }
    Ok(ExitStatus::Success)
}

/// A run in the list, with its listed steps.
struct LogRow {
    id: String,
    started: String,
    what: String,
    status: &'static str,
    details: String,
    steps: Vec<StepRow>,
}

struct StepRow {
    number: String,
    name: String,
    status: &'static str,
    outcome: String,
}

impl LogRow {
    fn new(
        past: &ProjectHistory,
        fates: Option<&Fates<'_>>,
        run: &RunRecord,
        root: &str,
        is_named: bool,
    ) -> Self {
        let mark = |step: &StepRecord| {
            let fate = fates
                .and_then(|fates| fates.of(step))
                .map(|fate| fate.label());
            let fate = fate
                .filter(|label| !label.is_empty())
                .map(|label| format!("  ({label})"))
                .unwrap_or_default();
            format!(
                "{fate}{}",
                if past.undone.contains(&step.id) {
                    "  (undone)"
                } else {
                    ""
                }
            )
        };
        let outcome =
            |step: &StepRecord| one_line(&format!("{}{}", past.outcome(step), mark(step)));
        let situation = past.situation(run);
        let status = situation.word(run);
        let is_long = run.steps.len() > MOST_STEPS;
        let with_steps = is_named || (run.steps.len() > 1 && !is_long);
        let mut details = Vec::new();
        if let ([step], false) = (run.steps.as_slice(), with_steps) {
            details.push(outcome(step));
        }
        if is_long && !is_named {
            details.push(format!("{} steps", run.steps.len()));
        }
        if !run.dropped.is_empty() {
            details.push(format!("contents of {} runs dropped", run.dropped.len()));
        }
        if situation.life != Life::Ended {
            // The folder is printed below, also for runs that have ended.
            details.extend(
                Situation {
                    is_here: true,
                    ..situation
                }
                .details(history::time),
            );
        } else if let Some(branch) = situation.branch.filter(|_| is_named) {
            details.push(format!("branch `{branch}`"));
        }
        if run.source == RecordSource::Log {
            details.push("elsewhere".to_owned());
        } else if run.root != root {
            details.push(format!("in {}", run.root));
        }
        let shown = run.steps.iter().filter(|_| with_steps);
        let skipped = run.skipped.iter().filter(|_| is_named);
        let steps = shown.map(|step| StepRow {
            number: step.id.step.to_string(),
            name: one_line(&step.name),
            status: history::step_status(step),
            outcome: outcome(step),
        });
        let steps = steps.chain(skipped.map(|skipped| StepRow {
            number: "-".to_owned(),
            name: one_line(&skipped.name),
            status: "skipped",
            outcome: one_line(&skipped.reason),
        }));
        Self {
            id: run.short_id(&past.history),
            started: history::time(run.started),
            what: one_line(&history::command_line(run)),
            status,
            details: one_line(&details.join("  ")),
            steps: steps.collect(),
        }
    }
}

/// Prints runs in columns; the steps of each run have their own column widths.
fn print(ui: &mut Ui, rows: &[LogRow]) -> std::io::Result<()> {
    let id_width = width_of(rows.iter().map(|row| row.id.as_str()), usize::MAX);
    let what_width = width_of(rows.iter().map(|row| row.what.as_str()), WIDEST);
    let status_width = width_of(rows.iter().map(|row| row.status), WIDEST);
    for LogRow {
        id,
        started,
        what,
        status,
        details,
        steps,
    } in rows
    {
        let id = format!(
            "{}{}",
            paint::id(id),
            " ".repeat(id_width.saturating_sub(id.len()))
        );
        let (started, what) = (paint::dim(started), padded(what, what_width));
        let line = [
            id,
            started,
            what,
            end_of_line(status, status_width, details),
        ];
        ui.rendered(&format!("{}\n", line.join("  ")))?;
        let number_width = width_of(steps.iter().map(|step| step.number.as_str()), WIDEST);
        let name_width = width_of(steps.iter().map(|step| step.name.as_str()), WIDEST);
        let status_width = width_of(steps.iter().map(|step| step.status), WIDEST);
        for StepRow {
            number,
            name,
            status,
            outcome,
        } in steps
        {
            let end = end_of_line(status, status_width, outcome);
            ui.rendered(&format!(
                "  {number:>number_width$}  {}  {end}\n",
                padded(name, name_width)
            ))?;
        }
    }
    Ok(())
}

/// The last two columns, without trailing blanks.
fn end_of_line(status: &str, width: usize, details: &str) -> String {
    let details = clean(details);
    match details.trim_end() {
        "" => paint::status(status, 0),
        details => format!("{}  {details}", paint::status(status, width)),
    }
}

/// Joins the lines of a command line: the list has one line per run.
fn one_line(text: &str) -> String {
    text.replace('\n', "\\n")
}

impl<'a> Filter<'a> {
    fn of(
        arguments: &'a LogArguments,
        ctx: &Context,
        past: &ProjectHistory,
    ) -> Result<Self, Error> {
        let now = ctx.now();
        let runs: Vec<RunId> = past.history.runs.iter().map(|run| run.id).collect();
        let run = arguments
            .run
            .as_deref()
            .map(|name| reference::find_run(&runs, name))
            .transpose();
        let path = match &arguments.path {
            Some(path) => repo_paths(ctx, std::slice::from_ref(path))?.pop(),
            None => None,
        };
        let date = |text: &Option<String>, edge| {
            text.as_deref()
                .map(|text| {
                    moment(text, now, edge).ok_or_else(|| Error::InvalidDate(text.to_owned()))
                })
                .transpose()
        };
        Ok(Self {
            run: run.map_err(RunError::from)?,
            directive: arguments.directive.as_deref(),
            tool: arguments.tool.as_deref(),
            path,
            since: date(&arguments.since, DayEdge::Start)?,
            until: date(&arguments.until, DayEdge::End)?,
            status: arguments.status,
        })
    }

    fn fits(&self, run: &RunRecord, past: &ProjectHistory) -> bool {
        let is_version_of =
            |wanted: &str, found: &str| found.split('@').next() == Some(wanted) || found == wanted;
        let changed = |path: &RepoPath| {
            let inside = |other: &RepoPath| other == path || other.is_inside(path);
            run.steps
                .iter()
                .filter_map(|step| step.delta.as_ref())
                .any(|delta| {
                    delta.changes.iter().any(|change| inside(&change.path))
                        || delta.not_captured.iter().any(inside)
                })
        };
        self.run.is_none_or(|id| id == run.id)
            && self.directive.is_none_or(|name| {
                run.directive
                    .as_ref()
                    .is_some_and(|found| is_version_of(name, found))
            })
            && self.tool.is_none_or(|id| {
                let calls = |step: &StepRecord| {
                    step.calls
                        .iter()
                        .any(|call| is_version_of(id, call.call.tool()))
                };
                let is_tool = |step: &StepRecord| {
                    step.tool
                        .as_ref()
                        .is_some_and(|found| is_version_of(id, found))
                };
                run.steps.iter().any(|step| is_tool(step) || calls(step))
            })
            && self.path.as_ref().is_none_or(changed)
            && self.since.is_none_or(|since| run.started >= since)
            && self.until.is_none_or(|until| run.started <= until)
            && self
                .status
                .is_none_or(|status| status.fits(past.situation(run).word(run)))
    }
}

impl StatusFilter {
    fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Waiting => "waiting",
            Self::Cancelled => "cancelled",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Unfinished => "unfinished",
        }
    }

    fn fits(self, word: &str) -> bool {
        match self {
            Self::Unfinished => matches!(word, "running" | "interrupted"),
            status => status.name() == word,
        }
    }
}

/// The start or the end of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DayEdge {
    Start,
    End,
}

/// Parses a time: with an offset, local, a local day, or a span before now.
fn moment(text: &str, now: Timestamp, edge: DayEdge) -> Option<Timestamp> {
    let zone = TimeZone::system();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    // A date parses as a time too, at its beginning.
    if let Ok(day) = text.parse::<Date>()
        && !text.contains(['T', ':'])
    {
        let start = day.to_zoned(zone).ok()?;
        return match edge {
            DayEdge::Start => Some(start.timestamp()),
            DayEdge::End => start
                .tomorrow()
                .ok()?
                .timestamp()
                .checked_sub(1.millisecond())
                .ok(),
        };
    }
    if let Ok(at) = text.parse::<DateTime>() {
        return Some(at.to_zoned(zone).ok()?.timestamp());
    }
    let span: Span = text.parse().ok()?;
    Some(now.to_zoned(zone).checked_sub(span.abs()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-10T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_span_counts_back_from_now() {
        for (text, expected) in [
            ("2h", "2026-01-10T10:00:00Z"),
            ("90m", "2026-01-10T10:30:00Z"),
            ("1 hour ago", "2026-01-10T11:00:00Z"),
            ("PT2H", "2026-01-10T10:00:00Z"),
        ] {
            assert_eq!(
                moment(text, now(), DayEdge::Start)
                    .map(|at| at.to_string())
                    .as_deref(),
                Some(expected),
                "{text}"
            );
        }
        let days = moment("3 days", now(), DayEdge::Start).unwrap();
        assert!(
            (now().duration_since(days).as_hours() - 72).abs() <= 1,
            "a day may have 23 or 25 hours"
        );
    }

    #[test]
    fn a_day_is_meant_as_a_whole() {
        let start = moment("2026-01-02", now(), DayEdge::Start).unwrap();
        let end = moment("2026-01-02", now(), DayEdge::End).unwrap();
        assert_eq!(end.duration_since(start).as_millis(), 24 * 3600 * 1000 - 1);
    }

    #[test]
    fn other_texts_mean_nothing() {
        for text in ["", "soon", "2026-13-01", "2026-01", "3 parsecs", "12"] {
            assert_eq!(moment(text, now(), DayEdge::Start), None, "{text}");
        }
    }

    #[test]
    fn a_time_with_an_offset_is_exact() {
        let at = moment("2026-01-02T03:04:05+02:00", now(), DayEdge::Start).unwrap();
        assert_eq!(at.to_string(), "2026-01-02T01:04:05Z");
    }
}
