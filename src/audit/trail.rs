//! The public lines of journals as logs in git, which can leave the repository.
//!
//! [`publish`] writes or continues the log of a run from its journal; nothing private goes into it.
//! [`load`] reads the logs of runs whose journals are elsewhere. The lines are exactly those that
//! the hash chain covers, so a log can be verified like a journal.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::error::AuditError;
use super::history::{Folding, RecordSource, RunRecord};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::trail::limit::{MOST_BYTES, MOST_LINE, MOST_LINES, TrailBudget, TrailFault};
use crate::checkpoint::trail::{Batch, run_of_trail, trail_name};
use crate::item::directive::CheckpointMode;
use crate::journal::{
    self, Break, Brief, Digest, JournalError, Link, PublicLines, Record, RunId, StepId,
    UnreadableEntry,
};
use crate::problem::Code;

/// The maximum number of commits per log.
const MOST_COMMITS: usize = 200;
/// From this size on the lines of a commit are enough, because readers hold them in memory.
const LARGE_BATCH: usize = 8 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// The log has every line of the journal.
    Complete,
    /// There is no log, or only an older one; the text says why.
    Withheld(&'static str),
}

/// What the log of a run says. Its lines are not kept.
#[derive(Clone, Debug)]
pub struct Log {
    /// The run in its ref name.
    pub run: RunId,
    /// The readable entries: their links, and the steps that they are about.
    entries: Vec<(Link, Option<u32>)>,
    record: Option<RunRecord>,
    /// Why the log cannot be read completely.
    pub fault: Option<LogFault>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogFault {
    #[error(transparent)]
    Trail(#[from] TrailFault),
    #[error(transparent)]
    Entry(#[from] UnreadableEntry),
}

/// Brings the log of a run up to date with its journal.
///
/// A run that has not ended, or that ran without checkpoints, has no log. The journal is read twice
/// and never held in memory as a whole.
pub fn publish(
    repository: &Repository,
    folder: &Path,
    run: RunId,
) -> Result<Publication, AuditError> {
    let path = journal::path_of(folder, run);
    let mut survey = JournalSurvey::default();
    match journal::walk(&path, run, &mut |brief| survey.take(&brief)) {
        Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Publication::Withheld("it has no journal"));
        }
        walked => walked?,
    }
    if let Some(reason) = survey.reason_to_stay() {
        return Ok(Publication::Withheld(reason));
    }
    let old = repository.find_trail(&run.to_string())?;
    let published = old
        .map(|tip| PublishedLines::read(repository, tip))
        .unwrap_or_default();
    let mut known = published.digests.into_iter();
    let mut writer = repository.extend_trail(old)?;
    let mut batch = LogDraft::default();
    let (mut entry, mut result) = (0, Ok(()));
    journal::walk(&path, run, &mut |brief| {
        entry += 1;
        // Lines written meanwhile are left for the next call.
        if result.is_err() || entry > survey.lines {
            return;
        }
        if let Some(digest) = known.next() {
            result = if digest == brief.digest() {
                Ok(())
            } else {
                Err(AuditError::Diverged { run, entry })
            };
            return;
        }
        batch.take(&brief);
        if batch.steps == survey.steps_at_once() || batch.lines.len() >= LARGE_BATCH {
            result = writer
                .add(&std::mem::take(&mut batch).finish())
                .map_err(AuditError::from);
        }
    })?;
    result?;
    if published.is_damaged || known.next().is_some() {
        return Err(AuditError::Diverged {
            run,
            entry: survey.lines + 1,
        });
    }
    if !batch.lines.is_empty() {
        writer.add(&batch.finish())?;
    }
    writer.finish(&run.to_string())?;
    Ok(Publication::Complete)
}

/// What must be known about a journal before its log is written.
#[derive(Default)]
struct JournalSurvey {
    lines: usize,
    bytes: u64,
    longest: u64,
    steps: usize,
    is_first_format: bool,
    is_disabled: bool,
    has_ended: bool,
}

impl JournalSurvey {
    fn take(&mut self, brief: &Brief) {
        self.lines += 1;
        let length = brief.public.len() as u64 + 1;
        self.bytes += length;
        self.longest = self.longest.max(length);
        self.steps += usize::from(brief.kind == STEP_FINISHED);
        self.is_first_format |= brief.is_first_format;
        self.is_disabled |=
            self.lines == 1 && brief.mode() == Some(CheckpointMode::Disabled.as_str());
        self.has_ended = brief.kind == RUN_FINISHED;
    }

    /// Why a run has no log; `None` if it may have one.
    fn reason_to_stay(&self) -> Option<&'static str> {
        match self {
            Self {
                is_first_format: true,
                ..
            } => Some(
                "its journal is of an older format, in which private values cannot be left out",
            ),
            Self {
                has_ended: false, ..
            } => Some("it has not ended"),
            Self {
                is_disabled: true, ..
            } => Some("it ran without checkpoints"),
            _ if self.longest > MOST_LINE => Some("one of its lines is longer than a log may hold"),
            _ if self.bytes > MOST_BYTES || self.lines as u64 > MOST_LINES => {
                Some("its journal has more lines than a log may hold")
            }
            _ => None,
        }
    }

    /// One commit per step; fewer in a long run.
    fn steps_at_once(&self) -> usize {
        self.steps.div_ceil(MOST_COMMITS).max(1)
    }
}

const STEP_FINISHED: &str = "step_finished";
const RUN_FINISHED: &str = "run_finished";

#[derive(Default)]
struct LogDraft {
    lines: Vec<u8>,
    at: i64,
    steps: usize,
    /// The first and the last step that ended.
    ended: Option<(u64, u64)>,
    name: String,
    outcome: String,
}

impl LogDraft {
    fn take(&mut self, brief: &Brief) {
        self.lines.extend_from_slice(brief.public.as_bytes());
        self.lines.push(b'\n');
        self.at = brief.at.as_second();
        let status = || brief.status().unwrap_or("ended").replace('_', " ");
        match brief.kind.as_str() {
            "run_started" | "step_started" => {
                self.name = brief
                    .name()
                    .unwrap_or_default()
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(60)
                    .collect();
                self.outcome.clear();
            }
            "committed" => {
                let commit = brief.commit().unwrap_or_default();
                self.outcome = format!("committed {}", commit.get(..10).unwrap_or(commit));
            }
            "rolled_back" => "rolled back".clone_into(&mut self.outcome),
            "no_changes" => "no changes".clone_into(&mut self.outcome),
            "checkpoint_failed" => "checkpoint failed".clone_into(&mut self.outcome),
            "checkpoint_skipped" => "changes kept".clone_into(&mut self.outcome),
            STEP_FINISHED => {
                self.steps += 1;
                let step = brief.step().unwrap_or_default();
                self.ended = Some((self.ended.map_or(step, |(first, _)| first), step));
                if self.outcome.is_empty() {
                    self.outcome = status();
                }
            }
            RUN_FINISHED if self.ended.is_none() => self.outcome = status(),
            _ => {}
        }
    }

    fn finish(self) -> Batch {
        let Self { name, outcome, .. } = &self;
        let subject = match self.ended {
            None => format!("run: {outcome}\n"),
            Some((first, last)) if first == last => format!("step {first} {name}: {outcome}\n"),
            Some((first, last)) => format!("steps {first} to {last}\n"),
        };
        Batch {
            subject,
            at: self.at,
            lines: self.lines,
        }
    }
}

pub fn list(repository: &Repository) -> Result<Vec<(RunId, ObjectId)>, AuditError> {
    let run = |name: &str| run_of_trail(name)?.parse::<RunId>().ok();
    let logs = repository.trails()?;
    Ok(logs
        .into_iter()
        .filter_map(|pin| Some((run(&pin.name)?, pin.commit)))
        .collect())
}

/// Reads the log of a run. Its lines are parsed one at a time.
pub fn load(repository: &Repository, run: RunId, tip: ObjectId, budget: &TrailBudget) -> Log {
    let mut lines = PublicLines::default();
    let (mut entries, mut folding) = (Vec::new(), Folding::default());
    let mut unreadable = None;
    let read = repository.read_trail(tip, budget, &mut |line| {
        match lines.take(line) {
            Ok(Some(record)) => {
                entries.push((Link::from(&record), record.event.step()));
                folding.take(&record);
            }
            Ok(None) => {}
            Err(err) => {
                unreadable = Some(err);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    let unreadable = unreadable.or_else(|| lines.finish().err());
    let fault = read.err().map(LogFault::Trail);
    Log {
        run,
        entries,
        record: folding.run,
        fault: fault.or(unreadable.map(LogFault::Entry)),
    }
}

impl LogFault {
    pub fn code(&self) -> Code {
        match self {
            Self::Trail(TrailFault::TooLarge { .. } | TrailFault::TooLargeTogether(_)) => {
                Code::LogTooLarge
            }
            Self::Trail(TrailFault::NotALog { .. }) | Self::Entry(_) => Code::LogBroken,
        }
    }
}

impl Log {
    /// The number of readable entries.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The step that an entry, counted from 1, is about.
    pub fn step_at(&self, entry: usize) -> Option<StepId> {
        let (_, step) = self.entries.get(entry.checked_sub(1)?)?;
        step.map(|step| StepId {
            run: self.run,
            step,
        })
    }

    /// The first break of its hash chain.
    pub fn verify(&self) -> Result<(), Break> {
        let links: Vec<Link> = self.entries.iter().map(|(link, _)| *link).collect();
        journal::verify_links(&links, self.run).map(|_| ())
    }

    /// The run described by the log, if it is complete and its hash chain is valid.
    pub fn into_record(self) -> Result<RunRecord, JournalError> {
        let path = PathBuf::from(trail_name(&self.run.to_string()));
        if let Some(fault) = self.fault {
            return Err(JournalError::UnreadLog {
                code: fault.code(),
                reason: fault.to_string(),
                path,
            });
        }
        if let Err(found) = self.verify() {
            return Err(JournalError::Broken { path, found });
        }
        let record = self.record.ok_or(JournalError::UnreadLog {
            code: Code::LogBroken,
            reason: "it does not begin with the start of the run".to_owned(),
            path,
        })?;
        Ok(RunRecord {
            source: RecordSource::Log,
            ..record
        })
    }
}

/// The digests of the lines of an existing log.
#[derive(Default)]
struct PublishedLines {
    digests: Vec<Digest>,
    /// Whether there is more that cannot be read.
    is_damaged: bool,
}

impl PublishedLines {
    fn read(repository: &Repository, tip: ObjectId) -> Self {
        let mut found = Self::default();
        let read = repository.read_trail(tip, &TrailBudget::default(), &mut |line| {
            match line.strip_suffix(b"\n") {
                Some(line) => found.digests.push(Digest::of(line)),
                None => found.is_damaged = true,
            }
            ControlFlow::Continue(())
        });
        found.is_damaged |= read.is_err();
        found
    }
}

/// The runs with a log whose journals are not here.
pub fn foreign(
    repository: &Repository,
    own: &[RunId],
) -> Result<Vec<(RunId, ObjectId)>, AuditError> {
    let own: BTreeSet<&RunId> = own.iter().collect();
    Ok(list(repository)?
        .into_iter()
        .filter(|(run, _)| !own.contains(run))
        .collect())
}

/// Compares a log with its journal: returns the first entry, from 1, that is not the line of the
/// journal, if there is one.
pub(super) fn first_difference(
    repository: &Repository,
    tip: ObjectId,
    records: &[Record],
) -> Result<Option<usize>, LogFault> {
    let mut own = records.iter();
    let (mut entry, mut differs) = (0, false);
    repository.read_trail(tip, &TrailBudget::default(), &mut |line| {
        entry += 1;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        differs = own.next().map(|record| record.public().as_bytes()) != Some(line);
        if differs {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(differs.then_some(entry))
}

#[cfg(test)]
mod tests;
