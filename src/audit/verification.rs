//! Checks that journals, commits and refs agree.
//!
//! Everything is recomputed offline from the journals and git's objects. A [`VerificationFinding`] is a break:
//! something was changed, dropped or forged. A note is information and no fault. Each commit
//! contains the journal head before its decision, so even a journal with a recomputed chain does
//! not match the commits. Of journals that are here, the tags of all lines are checked as well.

mod authenticity;
mod claims;
mod commit;
mod landing;
mod substitutes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::error::AuditError;
use super::fate::{BranchReading, CommitFate, Fates};
use super::history::{History, RecordSource, RunRecord, StepOutcome, StepRecord, fold};
use super::trail;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::trail::limit::TrailBudget;
use crate::checkpoint::trail::trail_name;
use crate::journal::event::StepKind;
use crate::journal::{self, JournalError, JournalKey, KnownEnds, Record, RunId, StepId};
use crate::problem::Code;

use commit::{first_difference, same};
pub use landing::{judge_landing, judge_log};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerificationScope {
    Run(RunId),
    Runs(BTreeSet<RunId>),
    WorkTree(String),
    All,
}

impl VerificationScope {
    /// Whether the scope excludes a run by its id.
    fn leaves_out(&self, run: Option<RunId>) -> bool {
        match self {
            Self::Run(wanted) => run != Some(*wanted),
            Self::Runs(wanted) => run.is_none_or(|run| !wanted.contains(&run)),
            Self::WorkTree(_) | Self::All => false,
        }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Verification {
    pub runs: u64,
    pub checkpoints: u64,
    /// Runs that were skipped because they happened elsewhere.
    #[serde(skip)]
    pub elsewhere: u64,
    /// Oldest first.
    pub breaks: Vec<VerificationFinding>,
    pub notes: Vec<String>,
    /// Checkpoints whose own commits are in no branch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fates: Vec<StepFate>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepFate {
    pub step: StepId,
    /// The recorded commit.
    pub commit: ObjectId,
    pub fate: CommitFate,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerificationFinding {
    pub code: Code,
    pub run: Option<RunId>,
    pub step: Option<StepId>,
    pub message: String,
    /// Commits that name the step but are not what was recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<ObjectId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// Looks at the runs of a repository.
pub fn verify(
    repository: &Repository,
    scope: &VerificationScope,
    key: Option<&JournalKey>,
) -> Result<Verification, AuditError> {
    let folder = repository.runs_folder();
    let (history, _) = History::load_all(repository)?;
    let dropped = history
        .runs
        .iter()
        .flat_map(|run| run.dropped.iter().copied())
        .collect();
    let logs = trail::list(repository)?.into_iter().collect();
    let found = Verification::default();
    let fates = Fates::find(repository, &history, BranchReading::Everything)?;
    let known = history.runs.iter().map(|run| (run.id, run)).collect();
    let mut verifier = Verifier {
        repository,
        history: &history,
        runs: known,
        fates,
        dropped,
        logs,
        key,
        ends: key
            .map(|key| KnownEnds::read(key, &folder))
            .unwrap_or_default(),
        unauthenticated: 0,
        of_other_users: 0,
        found,
    };
    let mut runs: BTreeSet<RunId> = journal::list(&folder)?.into_iter().collect();
    runs.extend(verifier.logs.keys());
    // Oldest first: the first reported break is where the damage began.
    for run in runs.iter().filter(|run| !scope.leaves_out(Some(**run))) {
        let path = journal::path_of(&folder, *run);
        match (verifier.logs.get(run).copied(), path.exists()) {
            (Some(tip), false) => verifier.foreign_run(*run, tip, scope)?,
            _ => verifier.run(&path, *run, scope)?,
        }
    }
    verifier.tell_unauthenticated();
    verifier.claims(&runs, scope)?;
    verifier.substitutes(scope)?;
    Ok(verifier.found)
}

struct Verifier<'a> {
    repository: &'a Repository,
    history: &'a History,
    runs: BTreeMap<RunId, &'a RunRecord>,
    fates: Fates<'a>,
    /// The runs whose contents `piton gc` dropped.
    dropped: BTreeSet<RunId>,
    /// The runs with a log, and its tip.
    logs: BTreeMap<RunId, ObjectId>,
    key: Option<&'a JournalKey>,
    /// Where the journals end, as far as that is noted.
    ends: KnownEnds,
    /// Runs of earlier versions, whose lines have no tags.
    unauthenticated: u64,
    /// Runs whose journals belong to other users, who have keys of their own.
    of_other_users: u64,
    found: Verification,
}

impl Verifier<'_> {
    fn run(
        &mut self,
        path: &Path,
        run: RunId,
        scope: &VerificationScope,
    ) -> Result<(), AuditError> {
        let contents = match journal::read(path) {
            Ok(contents) => contents,
            Err(JournalError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                self.found
                    .notes
                    .push(format!("run `{run}` has a folder and no journal"));
                return Ok(());
            }
            Err(err) => {
                self.found.runs += 1;
                self.broken(
                    Code::JournalBroken,
                    Some(run),
                    None,
                    format!("the journal cannot be read: {err}"),
                );
                return Ok(());
            }
        };
        let record = fold(&contents.records);
        // The work tree is in the private part. Removing that part must not hide the run from this
        // scope.
        let names_its_place = !contents
            .records
            .first()
            .is_some_and(Record::lost_its_private_part);
        if let (VerificationScope::WorkTree(root), Some(record)) = (scope, &record)
            && record.root != *root
            && names_its_place
        {
            return Ok(());
        }
        self.found.runs += 1;
        if let Err(found) = journal::verify(&contents.records, run) {
            self.broken(
                Code::JournalBroken,
                Some(run),
                None,
                format!("the journal is not as it was written: {found}"),
            );
            // Everything else derived from a broken journal would be noise.
            return Ok(());
        }
        if !self.is_authentic(run, path, &contents.records) {
            return Ok(());
        }
        if contents.torn.is_some() {
            self.found.notes.push(format!(
                "run `{run}` was interrupted while a line was written"
            ));
        }
        let Some(record) = record else {
            if !contents.records.is_empty() {
                let message = "the journal does not begin with the start of the run".to_owned();
                self.broken(Code::JournalInconsistent, Some(run), None, message);
            }
            return Ok(());
        };
        if record.summary.is_none() {
            self.found.notes.push(format!(
                "run `{run}` has not ended; `piton recover` brings it to an end"
            ));
        }
        if let Some(tip) = self.logs.get(&run) {
            self.log_of(run, *tip, &contents.records);
        }
        for step in &record.steps {
            self.step(&record, step)?;
        }
        Ok(())
    }

    /// Checks that the log of a run is a prefix of its journal.
    fn log_of(&mut self, run: RunId, tip: ObjectId, records: &[Record]) {
        let entry = match trail::first_difference(self.repository, tip, records) {
            Ok(None) => return,
            Ok(Some(entry)) => entry,
            Err(fault) => {
                let code = match fault.code() {
                    Code::LogTooLarge => Code::LogTooLarge,
                    _ => Code::LogMismatch,
                };
                let message = format!("the log cannot be read: {fault}");
                self.broken(code, Some(run), None, message);
                return;
            }
        };
        let step = records
            .get(entry - 1)
            .and_then(|record| record.event.step());
        let message = format!("entry {entry} of the log is not line {entry} of the journal");
        self.broken(
            Code::LogMismatch,
            Some(run),
            step.map(|step| StepId { run, step }),
            message,
        );
    }

    /// Verifies a run that is known only by its log.
    fn foreign_run(
        &mut self,
        run: RunId,
        tip: ObjectId,
        scope: &VerificationScope,
    ) -> Result<(), AuditError> {
        if let VerificationScope::WorkTree(_) = scope {
            self.found.elsewhere += 1;
            return Ok(());
        }
        self.found.runs += 1;
        // Only one log is in memory at a time.
        let (end, record) = match read_log(self.repository, run, tip, &TrailBudget::default()) {
            Ok(found) => found,
            Err(found) => {
                self.found.breaks.push(*found);
                return Ok(());
            }
        };
        let steps_before = self.found.breaks.len();
        for step in &record.steps {
            self.step(&record, step)?;
        }
        // Report the missing end only if nothing else is wrong: mismatching commits say more.
        if self.found.breaks.len() == steps_before {
            self.found.breaks.extend(end.finding(&record));
        }
        Ok(())
    }

    fn step(&mut self, run: &RunRecord, step: &StepRecord) -> Result<(), AuditError> {
        // Snapshots exist only where they were taken.
        if run.source == RecordSource::Journal {
            for snapshot in [&step.before, &step.after].into_iter().flatten() {
                self.snapshot(step, snapshot)?;
            }
            // A checkpoint commits the work of other steps, so its changes differ from its own
            // snapshots.
            if !matches!(step.kind, StepKind::Checkpoint { .. }) {
                self.continuity(step)?;
            }
            self.content_of(step)?;
        }
        let StepOutcome::Committed {
            commit, message, ..
        } = &step.outcome
        else {
            return Ok(());
        };
        self.found.checkpoints += 1;
        let facts = match self.repository.find_commit(*commit) {
            Ok(facts) => facts,
            Err(err) => {
                self.step_broken(
                    Code::ObjectDamaged,
                    step,
                    format!("commit {} cannot be read: {err}", commit.short()),
                );
                return Ok(());
            }
        };
        if let Some(facts) = &facts {
            self.commit(run, step, *commit, message, facts)?;
        }
        self.reachability(run, step, *commit, facts.is_some());
        Ok(())
    }

    /// Checks that the commit of a snapshot has the recorded tree.
    fn snapshot(&mut self, step: &StepRecord, snapshot: &Snapshot) -> Result<(), AuditError> {
        let Some(commit) = snapshot.commit else {
            return Ok(());
        };
        if let Some(facts) = self.repository.find_commit(commit)?
            && facts.tree != snapshot.tree
        {
            let message = format!(
                "snapshot {} does not hold the recorded tree",
                commit.short()
            );
            self.step_broken(Code::DeltaMismatch, step, message);
        }
        Ok(())
    }

    fn continuity(&mut self, step: &StepRecord) -> Result<(), AuditError> {
        let (Some(before), Some(after), Some(delta)) = (&step.before, &step.after, &step.delta)
        else {
            return Ok(());
        };
        // Missing objects cannot be compared. `content_of` reports whether they may be missing.
        if self.repository.find_missing(before, after)?.is_some() {
            return Ok(());
        }
        match self.repository.captured_differences(before, after) {
            Ok(found) if same(&found, &delta.changes) => {}
            Ok(found) => {
                let path = first_difference(&found, &delta.changes);
                let message =
                    format!("the recorded changes are not those between its snapshots: `{path}`");
                self.step_broken(Code::DeltaMismatch, step, message);
            }
            Err(err) => self.step_broken(
                Code::ObjectDamaged,
                step,
                format!("its snapshots cannot be compared: {err}"),
            ),
        }
        Ok(())
    }

    /// Checks that the commit or its changes are in a branch or tag, or that a recorded reason says
    /// why not.
    fn reachability(&mut self, run: &RunRecord, step: &StepRecord, commit: ObjectId, exists: bool) {
        let Some(fate) = self
            .fates
            .of(step)
            .filter(|fate| *fate != CommitFate::InPlace)
        else {
            return;
        };
        self.found.notes.extend(fate.note(commit, step.id));
        self.found.fates.push(StepFate {
            step: step.id,
            commit,
            fate: fate.clone(),
        });
        let CommitFate::Rewritten {
            instead,
            difference,
        } = fate
        else {
            return;
        };
        let short = commit.short();
        let message = match (instead.first(), difference) {
            (Some(new), Some(difference)) => format!(
                "commit {short} was rewritten as {}: {difference}",
                new.short()
            ),
            _ if run.source == RecordSource::Log && !exists => {
                format!(
                    "commit {short} is not here: its branch was rewritten, or neither pushed nor fetched"
                )
            }
            _ if exists => format!(
                "commit {short} is in no branch or tag any more, and no record explains why"
            ),
            _ => format!("commit {short} is gone, and no record explains why"),
        };
        let found =
            VerificationFinding::new(Code::Rewritten, Some(step.id.run), Some(step.id), message);
        self.found.breaks.push(VerificationFinding {
            commits: instead,
            ..found
        });
    }

    /// Checks that the content needed to undo a step exists, unless `piton gc` dropped it.
    fn content_of(&mut self, step: &StepRecord) -> Result<(), AuditError> {
        let Some((before, after)) = step
            .expected_states()
            .filter(|_| !self.dropped.contains(&step.id.run))
        else {
            return Ok(());
        };
        if let Some(missing) = self.repository.find_missing(before, after)? {
            let message = format!(
                "object {} of its snapshots is gone, and `piton gc` did not drop it",
                missing.short()
            );
            self.step_broken(Code::SnapshotMissing, step, message);
        }
        Ok(())
    }

    fn step_broken(&mut self, code: Code, step: &StepRecord, message: String) {
        self.broken(code, Some(step.id.run), Some(step.id), message);
    }

    fn broken(&mut self, code: Code, run: Option<RunId>, step: Option<StepId>, message: String) {
        self.found
            .breaks
            .push(VerificationFinding::new(code, run, step, message));
    }
}

impl VerificationFinding {
    fn new(code: Code, run: Option<RunId>, step: Option<StepId>, message: String) -> Self {
        let suggestion = match (code, step) {
            (Code::Rewritten | Code::NotRecorded, Some(step)) => Some(format!(
                "if that is correct, `piton verify --accept {step} --reason TEXT` records that you accept it"
            )),
            (Code::LogMissing, _) => Some("`piton fetch REMOTE` fetches the logs of runs".to_owned()),
            (Code::LogTooLarge, _) => run.map(|run| {
                format!("`git update-ref -d {}` removes the log", trail_name(&run.to_string()))
            }),
            (Code::Replaced, _) => {
                Some("`git replace --list` and `.git/info/grafts` show it; `git replace -d OBJECT` ends it".to_owned())
            }
            _ => None,
        };
        Self {
            code,
            run,
            step,
            message,
            commits: Vec::new(),
            suggestion,
        }
    }
}

/// The run that a log tells of, or why it cannot be believed.
fn read_log(
    repository: &Repository,
    run: RunId,
    tip: ObjectId,
    budget: &TrailBudget,
) -> Result<(LogEnd, RunRecord), Box<VerificationFinding>> {
    let broken = |code: Code, step: Option<StepId>, message: String| {
        Box::new(VerificationFinding::new(code, Some(run), step, message))
    };
    let log = trail::load(repository, run, tip, budget);
    // A log that lost its beginning does not start with the first entry.
    if let Err(found) = log.verify() {
        let message = format!(
            "the log is not as it was written: {}",
            found.describe("entry", "entries")
        );
        return Err(broken(Code::LogBroken, log.step_at(found.line), message));
    }
    if let Some(fault) = &log.fault {
        let message = format!("the log cannot be read: {fault}");
        return Err(broken(fault.code(), None, message));
    }
    let entries = log.entries();
    let end = LogEnd {
        run,
        entries,
        step: log.step_at(entries),
    };
    match log.into_record() {
        Ok(record) => Ok((end, record)),
        Err(err) => Err(broken(Code::LogBroken, None, err.to_string())),
    }
}

/// Where a log ends.
struct LogEnd {
    run: RunId,
    entries: usize,
    step: Option<StepId>,
}

impl LogEnd {
    /// The finding for a log without the end of its run.
    fn finding(&self, record: &RunRecord) -> Option<VerificationFinding> {
        let Self { run, entries, step } = *self;
        let message = format!(
            "the log ends with entry {entries}, before the end of the run: the rest was dropped"
        );
        let found = || VerificationFinding::new(Code::LogBroken, Some(run), step, message);
        record.summary.is_none().then(found)
    }
}
