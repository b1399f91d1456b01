//! The public lines of journals as logs in git, which can leave the repository.
//!
//! [`publish`] writes or continues the log of a run from its journal; nothing private goes into it.
//! [`load`] reads the logs of runs whose journals are elsewhere. The lines are exactly those that
//! the hash chain covers, so a log can be verified like a journal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::error::AuditError;
use super::history::{RunRecord, Source, fold};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::trail::{Batch, run_of_trail, trail_name};
use crate::item::directive::CheckpointMode;
use crate::journal::{self, Brief, JournalError, Record, RunId};

/// The maximum number of commits per log.
const MOST_COMMITS: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// The log has every line of the journal.
    Complete,
    /// There is no log, or only an older one; the text says why.
    Withheld(&'static str),
}

#[derive(Clone, Debug)]
pub struct Log {
    /// The run in its ref name.
    pub run: RunId,
    /// The readable entries.
    pub records: Vec<Record>,
    /// Why the log cannot be read completely.
    pub fault: Option<String>,
}

/// Brings the log of a run up to date with its journal.
///
/// A run that has not ended, or that ran without checkpoints, has no log. The journal is read twice
/// and never held in memory as a whole.
pub fn publish(repository: &Repository, folder: &Path, run: RunId) -> Result<Publication, AuditError> {
    let path = journal::path_of(folder, run);
    let mut survey = Survey::default();
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
    let published = old.map(|tip| repository.read_trail(tip)).unwrap_or_default();
    let mut known = published.lines.split_inclusive(|byte| *byte == b'\n').fuse();
    let mut writer = repository.extend_trail(old)?;
    let mut batch = Draft::default();
    let (mut entry, mut result) = (0, Ok(()));
    journal::walk(&path, run, &mut |brief| {
        entry += 1;
        // Lines written meanwhile are left for the next call.
        if result.is_err() || entry > survey.lines {
            return;
        }
        if let Some(line) = known.next() {
            let is_same = line.strip_suffix(b"\n") == Some(brief.public.as_bytes());
            result = if is_same { Ok(()) } else { Err(AuditError::Diverged { run, entry }) };
            return;
        }
        batch.take(&brief);
        if batch.steps == survey.steps_at_once() {
            result = writer.add(&std::mem::take(&mut batch).finish()).map_err(AuditError::from);
        }
    })?;
    result?;
    if published.fault.is_some() || known.next().is_some() {
        return Err(AuditError::Diverged { run, entry: survey.lines + 1 });
    }
    if !batch.lines.is_empty() {
        writer.add(&batch.finish())?;
    }
    writer.finish(&run.to_string())?;
    Ok(Publication::Complete)
}

/// What must be known about a journal before its log is written.
#[derive(Default)]
struct Survey {
    lines: usize,
    steps: usize,
    is_first_format: bool,
    is_disabled: bool,
    has_ended: bool,
}

impl Survey {
    fn take(&mut self, brief: &Brief) {
        self.lines += 1;
        self.steps += usize::from(brief.kind == STEP_FINISHED);
        self.is_first_format |= brief.is_first_format;
        self.is_disabled |= self.lines == 1 && brief.mode() == Some(CheckpointMode::Disabled.as_str());
        self.has_ended = brief.kind == RUN_FINISHED;
    }

    /// Why a run has no log; `None` if it may have one.
    fn reason_to_stay(&self) -> Option<&'static str> {
        match self {
            Self { is_first_format: true, .. } => {
                Some("its journal is of an older format, in which private values cannot be left out")
            }
            Self { has_ended: false, .. } => Some("it has not ended"),
            Self { is_disabled: true, .. } => Some("it ran without checkpoints"),
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
struct Draft {
    lines: Vec<u8>,
    at: i64,
    steps: usize,
    /// The first and the last step that ended.
    ended: Option<(u64, u64)>,
    name: String,
    outcome: String,
}

impl Draft {
    fn take(&mut self, brief: &Brief) {
        self.lines.extend_from_slice(brief.public.as_bytes());
        self.lines.push(b'\n');
        self.at = brief.at.as_second();
        let status = || brief.status().unwrap_or("ended").replace('_', " ");
        match brief.kind.as_str() {
            "run_started" | "step_started" => {
                self.name = brief.name().unwrap_or_default().chars().filter(|c| !c.is_control()).take(60).collect();
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
        Batch { subject, at: self.at, lines: self.lines }
    }
}

pub fn list(repository: &Repository) -> Result<Vec<(RunId, ObjectId)>, AuditError> {
    let run = |name: &str| run_of_trail(name)?.parse::<RunId>().ok();
    let logs = repository.trails()?;
    Ok(logs.into_iter().filter_map(|pin| Some((run(&pin.name)?, pin.commit))).collect())
}

pub fn load(repository: &Repository, run: RunId, tip: ObjectId) -> Log {
    let trail = repository.read_trail(tip);
    let place = PathBuf::from(trail_name(&run.to_string()));
    match journal::read_public(&trail.lines, &place) {
        Ok(contents) => {
            let torn = contents.torn.map(|_| format!("entry {} has no end", contents.records.len() + 1));
            Log { run, records: contents.records, fault: trail.fault.or(torn) }
        }
        Err(err) => Log { run, records: Vec::new(), fault: Some(trail.fault.unwrap_or_else(|| err.to_string())) },
    }
}

impl Log {
    /// The run described by the log, if its hash chain is valid.
    pub fn told(&self) -> Result<RunRecord, JournalError> {
        let path = PathBuf::from(trail_name(&self.run.to_string()));
        let damaged = |reason| JournalError::Damaged { path: path.clone(), line: self.records.len() + 1, reason };
        if let Some(fault) = &self.fault {
            return Err(damaged(fault.clone()));
        }
        journal::verify_public(&self.records, self.run)
            .map_err(|found| JournalError::Broken { path: path.clone(), found })?;
        let told =
            fold(&self.records).ok_or_else(|| damaged("it does not begin with the start of the run".to_owned()))?;
        Ok(RunRecord { source: Source::Log, ..told })
    }
}

/// The runs with a log whose journals are not here.
pub fn foreign(repository: &Repository, own: &[RunId]) -> Result<Vec<(RunId, ObjectId)>, AuditError> {
    let own: BTreeSet<&RunId> = own.iter().collect();
    Ok(list(repository)?.into_iter().filter(|(run, _)| !own.contains(run)).collect())
}

/// The first entry, from 1, where the log differs from the journal.
pub(super) fn first_difference(lines: &[u8], records: &[Record]) -> usize {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut own = records.iter().map(|record| record.public().as_bytes());
    lines.zip(std::iter::from_fn(|| Some(own.next()))).take_while(|(line, own)| Some(*line) == *own).count() + 1
}

#[cfg(test)]
mod tests;
