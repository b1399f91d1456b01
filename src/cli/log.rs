//! `piton log`: what was run, newest first.

use std::ffi::OsString;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};

use super::past::{self, Past};
use super::ui::{Format, Ui};
use crate::audit::fate::Fates;
use crate::audit::history::{RunRecord, Source, StepRecord};
use crate::audit::reference;
use crate::checkpoint::path::RepoPath;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::journal::RunId;
use crate::run::account::LoggedRun;
use crate::run::error::RunError;
use crate::run::past::repo_paths;
use crate::run::situation::{Life, Situation};

/// Lists runs, newest first
///
/// One line per run: the beginning of its name, when it began, what was run, how it ended, and what
/// became of its changes. A run that is not over is `running` while its process is alive, `interrupted` when
/// that is gone, or `waiting`, with its step, branch and process. Steps are listed when a run has several, or when it is named. Runs that
/// `piton fetch` brought are marked as `elsewhere`; of their command lines only the name is known.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton log -n 5                    The five newest runs
  piton log 01k9x2bf                One run with its steps
  piton log --since '3 days' --path src
  piton log --status failed --format json")]
pub(super) struct LogArguments {
    /// A run, or the beginning of its name.
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Only runs of this directive.
    #[arg(long, value_name = "NAME")]
    directive: Option<String>,
    /// Only runs with a step of this tool.
    #[arg(long, value_name = "ID")]
    tool: Option<String>,
    /// Only runs that changed this file, or something in this folder.
    #[arg(long, value_name = "PATH")]
    path: Option<OsString>,
    /// Only runs that began at or after a date (`2026-01-02`), or in the last `2h`, `3 days`.
    #[arg(long, value_name = "DATE")]
    since: Option<String>,
    /// Only runs that began at or before a date, or longer ago than a span.
    #[arg(long, value_name = "DATE")]
    until: Option<String>,
    /// Only runs that ended like this.
    #[arg(long, value_enum)]
    status: Option<StatusFilter>,
    /// At most so many runs.
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

/// Steps of a run that are listed among those of others; more are listed when it is named.
const MOST_STEPS: usize = 20;

/// What runs have to be like.
struct Filter<'a> {
    run: Option<RunId>,
    directive: Option<&'a str>,
    tool: Option<&'a str>,
    path: Option<RepoPath>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    status: Option<StatusFilter>,
}

pub(super) fn run(arguments: &LogArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let past = past::load_with_disk(ctx, ui)?;
    let filter = Filter::of(arguments, ctx, &past)?;
    let root = past.root(ctx);
    let fates = past.fates()?;
    let limit = arguments.limit.unwrap_or(usize::MAX);
    let mut shown = 0;
    for run in past.history.runs.iter().filter(|run| filter.fits(run, &past)).take(limit) {
        shown += 1;
        match ui.format() {
            Format::Json => {
                let logged = LoggedRun::new(run, &past);
                match &fates {
                    Some(fates) => ui.json(&logged.with_fates(fates))?,
                    None => ui.json(&logged)?,
                }
            }
            _ => show(ui, &past, fates.as_ref(), run, &root, arguments.run.is_some())?,
        }
    }
    if shown == 0 && ui.format() == Format::Human {
        let nothing = past.history.runs.is_empty();
        ui.note(if nothing { "nothing was run here yet" } else { "no run is like that" });
    }
    Ok(ExitStatus::Success)
}

fn show(
    ui: &mut Ui,
    past: &Past,
    fates: Option<&Fates<'_>>,
    run: &RunRecord,
    root: &str,
    is_named: bool,
) -> Result<(), Error> {
    let mark = |step: &StepRecord| {
        let fate = fates.and_then(|fates| fates.of(step)).map(|fate| fate.label()).filter(|label| !label.is_empty());
        let fate = fate.map(|label| format!("  ({label})")).unwrap_or_default();
        format!("{fate}{}", if past.undone.contains(&step.id) { "  (undone)" } else { "" })
    };
    let situation = past.situation(run);
    let is_long = run.steps.len() > MOST_STEPS;
    let with_steps = is_named || (run.steps.len() > 1 && !is_long);
    let mut parts =
        vec![run.short_id(&past.history), past::time(run.started), past::words(run), situation.word(run).to_owned()];
    if let ([step], false) = (run.steps.as_slice(), with_steps) {
        parts.push(format!("{}{}", past.outcome(step), mark(step)));
    }
    if is_long && !is_named {
        parts.push(format!("{} steps", run.steps.len()));
    }
    if !run.dropped.is_empty() {
        parts.push(format!("contents of {} runs dropped", run.dropped.len()));
    }
    if situation.life != Life::Ended {
        // The folder is told below, also of runs that are over.
        parts.extend(Situation { is_here: true, ..situation }.details(past::time));
    } else if let Some(branch) = situation.branch.filter(|_| is_named) {
        parts.push(format!("branch `{branch}`"));
    }
    if run.source == Source::Log {
        parts.push("elsewhere".to_owned());
    } else if run.root != root {
        parts.push(format!("in {}", run.root));
    }
    ui.line(&one_line(parts.join("  ").trim_end()))?;
    for step in run.steps.iter().filter(|_| with_steps) {
        let outcome = past.outcome(step);
        let line = format!("  {}  {}  {}  {outcome}{}", step.id.step, step.name, past::step_status(step), mark(step));
        ui.line(&one_line(line.trim_end()))?;
    }
    for skipped in run.skipped.iter().filter(|_| is_named) {
        ui.line(&one_line(&format!("  -  {}  skipped  {}", skipped.name, skipped.reason)))?;
    }
    Ok(())
}

/// A command line may hold line ends; a list has one line per run.
fn one_line(text: &str) -> String {
    text.replace('\n', "\\n")
}

impl<'a> Filter<'a> {
    fn of(arguments: &'a LogArguments, ctx: &Context, past: &Past) -> Result<Self, Error> {
        let now = ctx.now();
        let runs: Vec<RunId> = past.history.runs.iter().map(|run| run.id).collect();
        let run = arguments.run.as_deref().map(|name| reference::find_run(&runs, name)).transpose();
        let path = match &arguments.path {
            Some(path) => repo_paths(ctx, std::slice::from_ref(path))?.pop(),
            None => None,
        };
        let date = |text: &Option<String>, edge| {
            text.as_deref()
                .map(|text| moment(text, now, edge).ok_or_else(|| Error::InvalidDate(text.to_owned())))
                .transpose()
        };
        Ok(Self {
            run: run.map_err(RunError::from)?,
            directive: arguments.directive.as_deref(),
            tool: arguments.tool.as_deref(),
            path,
            since: date(&arguments.since, Edge::Start)?,
            until: date(&arguments.until, Edge::End)?,
            status: arguments.status,
        })
    }

    fn fits(&self, run: &RunRecord, past: &Past) -> bool {
        let is_version_of = |wanted: &str, found: &str| found.split('@').next() == Some(wanted) || found == wanted;
        let changed = |path: &RepoPath| {
            let inside = |other: &RepoPath| other == path || other.is_inside(path);
            run.steps.iter().filter_map(|step| step.delta.as_ref()).any(|delta| {
                delta.changes.iter().any(|change| inside(&change.path)) || delta.not_captured.iter().any(inside)
            })
        };
        self.run.is_none_or(|id| id == run.id)
            && self.directive.is_none_or(|name| run.directive.as_ref().is_some_and(|found| is_version_of(name, found)))
            && self.tool.is_none_or(|id| {
                let calls = |step: &StepRecord| step.calls.iter().any(|call| is_version_of(id, call.call.tool()));
                let is_tool = |step: &StepRecord| step.tool.as_ref().is_some_and(|found| is_version_of(id, found));
                run.steps.iter().any(|step| is_tool(step) || calls(step))
            })
            && self.path.as_ref().is_none_or(changed)
            && self.since.is_none_or(|since| run.started >= since)
            && self.until.is_none_or(|until| run.started <= until)
            && self.status.is_none_or(|status| status.fits(past.situation(run).word(run)))
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

/// Which end of a day a date means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Start,
    End,
}

/// The time that a text means: a time with an offset, a local time, a local day, or a span before now.
fn moment(text: &str, now: Timestamp, edge: Edge) -> Option<Timestamp> {
    let zone = TimeZone::system();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    // A date parses as a time as well, that of its beginning.
    if let Ok(day) = text.parse::<Date>()
        && !text.contains(['T', ':'])
    {
        let start = day.to_zoned(zone).ok()?;
        return match edge {
            Edge::Start => Some(start.timestamp()),
            Edge::End => start.tomorrow().ok()?.timestamp().checked_sub(1.millisecond()).ok(),
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
            assert_eq!(moment(text, now(), Edge::Start).map(|at| at.to_string()).as_deref(), Some(expected), "{text}");
        }
        let days = moment("3 days", now(), Edge::Start).unwrap();
        assert!((now().duration_since(days).as_hours() - 72).abs() <= 1, "a day may have 23 or 25 hours");
    }

    #[test]
    fn a_day_is_meant_as_a_whole() {
        let start = moment("2026-01-02", now(), Edge::Start).unwrap();
        let end = moment("2026-01-02", now(), Edge::End).unwrap();
        assert_eq!(end.duration_since(start).as_millis(), 24 * 3600 * 1000 - 1);
    }

    #[test]
    fn other_texts_mean_nothing() {
        for text in ["", "soon", "2026-13-01", "2026-01", "3 parsecs", "12"] {
            assert_eq!(moment(text, now(), Edge::Start), None, "{text}");
        }
    }

    #[test]
    fn a_time_with_an_offset_is_exact() {
        let at = moment("2026-01-02T03:04:05+02:00", now(), Edge::Start).unwrap();
        assert_eq!(at.to_string(), "2026-01-02T01:04:05Z");
    }
}
