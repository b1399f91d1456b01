//! Shared parts of the commands that look back: loading journals, and describing their content.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::render::{files, stat};
use super::ui::Ui;
use super::ui::paint::{padded, width_of};
use crate::audit::history::{RecordSource, RunRecord, StepOutcome, StepRecord};
use crate::checkpoint::delta::{Change, ChangeKind};
use crate::context::Context;
use crate::error::Error;
use crate::journal::event::StepKind;
use crate::journal::summary::StepStatus;
pub(super) use crate::run::project_history::ProjectHistory;

/// Reads all journals of the project; reports unreadable ones.
pub(super) fn load(ctx: &Context, ui: &mut Ui) -> Result<ProjectHistory, Error> {
    let past = ProjectHistory::load(ctx)?;
    for err in &past.unreadable {
        ui.warning(&format!("{err}; `piton verify --all` has details"));
    }
    Ok(past)
}

/// As [`load`], with the uncommitted changes of steps.
pub(super) fn load_with_disk(ctx: &Context, ui: &mut Ui) -> Result<ProjectHistory, Error> {
    let mut past = load(ctx, ui)?;
    // Records can be shown even if the files cannot be read.
    let _ = past.look_at_disk(ctx);
    Ok(past)
}

/// A time in the reader's time zone.
pub(super) fn time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system())
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// The command line of a run.
pub(super) fn command_line(run: &RunRecord) -> String {
    match &run.directive {
        Some(directive) => format!("directive {directive}"),
        None if run.source == RecordSource::Log => run.name.clone(),
        None => shell_words(run.command.get(1..).unwrap_or_default()),
    }
}

pub(super) fn shell_words(words: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:@%+,~^".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

pub(super) fn step_status(step: &StepRecord) -> &'static str {
    match step.status {
        Some(status) => status_word(status),
        None if step.wait.is_some() => "waiting",
        None => "unfinished",
    }
}

/// A status in a word or two.
pub(super) fn status_word(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Succeeded => "succeeded",
        StepStatus::Failed => "failed",
        StepStatus::Denied => "denied",
        StepStatus::Cancelled => "cancelled",
        StepStatus::Skipped => "skipped",
        StepStatus::Waiting => "waiting",
        StepStatus::CutOff => "cut off",
    }
}

/// The outcome of the changes of a step.
pub(super) fn outcome(step: &StepRecord) -> String {
    let found = || {
        step.delta.as_ref().map(|delta| {
            (
                delta.changes.len() as u64,
                delta.insertions(),
                delta.deletions(),
            )
        })
    };
    let counted = |what: &str| match found() {
        Some((count, insertions, deletions)) => {
            format!("{what}  {}", stat(count, insertions, deletions))
        }
        None => what.to_owned(),
    };
    match (&step.outcome, &step.kind) {
        (StepOutcome::Open, _) if step.status.is_some() || step.wait.is_some() => String::new(),
        (StepOutcome::Open, _) => "unfinished".to_owned(),
        (StepOutcome::NoChanges, _) => "no changes".to_owned(),
        (StepOutcome::RolledBack { .. }, _) => counted("rolled back"),
        (
            StepOutcome::Committed {
                commit,
                files_changed,
                insertions,
                deletions,
                ..
            },
            _,
        ) => {
            format!(
                "{}  {}",
                commit.short(),
                stat(*files_changed, *insertions, *deletions)
            )
        }
        (_, StepKind::RollBack { to }) => counted(&format!("branch moved to {}", to.short())),
        (StepOutcome::Failed { .. } | StepOutcome::Kept { .. }, _) if step.before.is_none() => {
            "no checkpoints".to_owned()
        }
        (StepOutcome::Failed { .. } | StepOutcome::Kept { .. }, _) => counted("on disk"),
    }
}

impl ProjectHistory {
    /// The outcome of the changes of a step, including later checkpoints and edits by a person.
    pub(super) fn outcome(&self, step: &StepRecord) -> String {
        let outcome = self.outcome_alone(step);
        if step.edits.is_empty() {
            outcome
        } else {
            format!("{outcome}  (with edits of a person)")
        }
    }

    fn outcome_alone(&self, step: &StepRecord) -> String {
        match (&step.outcome, self.commit_covering(step.id)) {
            (StepOutcome::Kept { .. }, Some(commit)) => {
                outcome(step).replacen("on disk", &commit.short(), 1)
            }
            (StepOutcome::Kept { .. } | StepOutcome::Failed { .. }, None)
                if self.settled.contains(&step.id) =>
            {
                outcome(step).replacen("on disk", "committed or discarded since", 1)
            }
            _ => outcome(step),
        }
    }
}

/// One line per file: the kind of change, and the number of lines.
pub(super) fn stat_lines(ui: &mut Ui, changes: &[Change]) -> Result<(), Error> {
    let paths: Vec<String> = changes
        .iter()
        .map(|change| change.path.to_string())
        .collect();
    let width = width_of(paths.iter().map(String::as_str), 60);
    for (change, path) in changes.iter().zip(&paths) {
        let letter = match change.kind() {
            ChangeKind::Added => 'A',
            ChangeKind::Deleted => 'D',
            ChangeKind::Modified => 'M',
        };
        ui.line(&format!(
            "{letter} {}  +{} −{}",
            padded(path, width),
            change.insertions,
            change.deletions
        ))?;
    }
    let sum = |count: fn(&Change) -> u64| changes.iter().map(count).sum::<u64>();
    let (insertions, deletions) = (
        sum(|change| change.insertions),
        sum(|change| change.deletions),
    );
    ui.line(&if changes.is_empty() {
        files(0)
    } else {
        stat(changes.len() as u64, insertions, deletions)
    })?;
    Ok(())
}

/// A remote for git: a path is relative to the current folder, not to the top.
pub(super) fn remote_address(ctx: &Context, name: &str) -> String {
    let path = ctx.cwd.join(name);
    if name.contains('/') && !name.contains(':') && path.exists() {
        return path.to_string_lossy().into_owned();
    }
    name.to_owned()
}

/// A number of runs with its unit.
pub(super) fn runs(count: usize) -> String {
    format!("{count} {}", if count == 1 { "run" } else { "runs" })
}

/// A number of runs, and of attestations if there are any.
pub(super) fn travellers(count: usize, attestations: usize) -> String {
    match attestations {
        0 => runs(count),
        1 => format!("{} and 1 attestation", runs(count)),
        more => format!("{} and {more} attestations", runs(count)),
    }
}
