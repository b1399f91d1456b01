//! Whether the journals, the commits and the refs still tell the same story.
//!
//! Everything is worked out again from the lines of the journals and the objects of git, offline.
//! A [`Finding`] is a break: something was changed, dropped or made up. A note is something that a
//! reader should know and that nobody did wrong. The commits hold the head of the journal from
//! before each decision, so even a journal whose chain was written anew does not fit them.

mod claims;
mod landing;
mod substitutes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::error::AuditError;
use super::fate::{CommitFate, Fates, Reading};
use super::history::{History, Outcome, RunRecord, Source, StepRecord, fold};
use super::trail;
use crate::checkpoint::delta::Change;
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::reading::{CommitFacts, FileDifference};
use crate::checkpoint::repository::Repository;
use crate::checkpoint::snapshot::Snapshot;
use crate::journal::event::{Decision, StepKind};
use crate::journal::{self, JournalError, Record, RunId, StepId};
use crate::problem::Code;

pub use landing::{judge_landing, judge_log};

/// Which runs to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One run.
    Run(RunId),
    /// Some runs.
    Runs(BTreeSet<RunId>),
    /// The runs of one work tree.
    WorkTree(String),
    /// Every run of the repository.
    All,
}

impl Scope {
    /// Whether a run is out of the question by its name.
    fn leaves_out(&self, run: Option<RunId>) -> bool {
        match self {
            Self::Run(wanted) => run != Some(*wanted),
            Self::Runs(wanted) => run.is_none_or(|run| !wanted.contains(&run)),
            Self::WorkTree(_) | Self::All => false,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verification {
    /// How many runs were looked at.
    pub runs: u64,
    /// How many committed checkpoints were looked at.
    pub checkpoints: u64,
    /// How many runs were passed over because they happened elsewhere.
    #[serde(skip)]
    pub elsewhere: u64,
    /// What does not fit, the first break first.
    pub breaks: Vec<Finding>,
    /// What is good to know.
    pub notes: Vec<String>,
    /// The checkpoints whose own commits are in no branch, and what became of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fates: Vec<StepFate>,
}

/// A checkpoint whose own commit is in no branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepFate {
    /// The step.
    pub step: StepId,
    /// The commit that was recorded.
    pub commit: ObjectId,
    /// What became of it.
    pub fate: CommitFate,
}

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// In one word.
    pub code: Code,
    /// The run, where it is about one.
    pub run: Option<RunId>,
    /// The step, where it is about one.
    pub step: Option<StepId>,
    /// What does not fit.
    pub message: String,
    /// The commits that name the step and are not what was recorded, where it is about such.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<ObjectId>,
    /// The way out, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// Looks at the runs of a repository.
pub fn verify(repository: &Repository, scope: &Scope) -> Result<Verification, AuditError> {
    let folder = repository.runs_folder();
    let (history, _) = History::load_all(repository)?;
    let dropped = history.runs.iter().flat_map(|run| run.dropped.iter().copied()).collect();
    let logs = trail::list(repository)?.into_iter().collect();
    let found = Verification::default();
    let fates = Fates::find(repository, &history, Reading::Everything)?;
    let known = history.runs.iter().map(|run| (run.id, run)).collect();
    let mut verifier = Verifier { repository, history: &history, runs: known, fates, dropped, logs, found };
    let mut runs: BTreeSet<RunId> = journal::list(&folder)?.into_iter().collect();
    runs.extend(verifier.logs.keys());
    // Oldest first: the first break that is named is where the trouble began.
    for run in runs.iter().filter(|run| !scope.leaves_out(Some(**run))) {
        let path = journal::path_of(&folder, *run);
        match (verifier.logs.get(run).copied(), path.exists()) {
            (Some(tip), false) => verifier.foreign_run(*run, tip, scope)?,
            _ => verifier.run(&path, *run, scope)?,
        }
    }
    verifier.claims(&runs, scope)?;
    verifier.substitutes(scope)?;
    Ok(verifier.found)
}

struct Verifier<'a> {
    repository: &'a Repository,
    history: &'a History,
    runs: BTreeMap<RunId, &'a RunRecord>,
    fates: Fates<'a>,
    /// The runs whose contents `piton gc` has dropped.
    dropped: BTreeSet<RunId>,
    /// The runs that have a log, and where it ends.
    logs: BTreeMap<RunId, ObjectId>,
    found: Verification,
}

impl Verifier<'_> {
    fn run(&mut self, path: &Path, run: RunId, scope: &Scope) -> Result<(), AuditError> {
        let contents = match journal::read(path) {
            Ok(contents) => contents,
            Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                self.found.notes.push(format!("run `{run}` has a folder and no journal"));
                return Ok(());
            }
            Err(err) => {
                self.found.runs += 1;
                self.broken(Code::JournalBroken, Some(run), None, format!("the journal cannot be read: {err}"));
                return Ok(());
            }
        };
        let record = fold(&contents.records);
        // The work tree is private: who changes that must not get out of sight by it.
        let names_its_place = !contents.records.first().is_some_and(Record::lost_its_private_part);
        if let (Scope::WorkTree(root), Some(record)) = (scope, &record)
            && record.root != *root
            && names_its_place
        {
            return Ok(());
        }
        self.found.runs += 1;
        if let Err(found) = journal::verify(&contents.records, run) {
            self.broken(Code::JournalBroken, Some(run), None, format!("the journal is not as it was written: {found}"));
            // What follows from such a journal is not worth telling.
            return Ok(());
        }
        if contents.torn.is_some() {
            self.found.notes.push(format!("run `{run}` was cut off while a line was written"));
        }
        let Some(record) = record else {
            if !contents.records.is_empty() {
                let message = "the journal does not begin with the start of the run".to_owned();
                self.broken(Code::JournalInconsistent, Some(run), None, message);
            }
            return Ok(());
        };
        if record.summary.is_none() {
            self.found.notes.push(format!("run `{run}` has not ended; `piton recover` brings it to an end"));
        }
        if let Some(tip) = self.logs.get(&run) {
            self.log_of(run, *tip, &contents.records);
        }
        for step in &record.steps {
            self.step(&record, step)?;
        }
        Ok(())
    }

    /// The log of a run is what its journal says, as far as it goes.
    fn log_of(&mut self, run: RunId, tip: ObjectId, records: &[Record]) {
        let found = self.repository.read_trail(tip);
        if let Some(fault) = found.fault {
            let message = format!("the log cannot be read: {fault}");
            self.broken(Code::LogMismatch, Some(run), None, message);
            return;
        }
        let count = found.lines.split_inclusive(|byte| *byte == b'\n').count();
        let entry = trail::first_difference(&found.lines, records);
        if entry <= count {
            let step = records.get(entry - 1).and_then(|record| record.event.step());
            let message = format!("entry {entry} of the log is not line {entry} of the journal");
            self.broken(Code::LogMismatch, Some(run), step.map(|step| StepId { run, step }), message);
        }
    }

    /// A run that is known by its log only.
    fn foreign_run(&mut self, run: RunId, tip: ObjectId, scope: &Scope) -> Result<(), AuditError> {
        if let Scope::WorkTree(_) = scope {
            self.found.elsewhere += 1;
            return Ok(());
        }
        self.found.runs += 1;
        let (log, record) = match read_log(self.repository, run, tip) {
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
        // Told last: where the commits do not fit either, that says more.
        if self.found.breaks.len() == steps_before {
            self.found.breaks.extend(missing_end(&log, &record));
        }
        Ok(())
    }

    fn step(&mut self, run: &RunRecord, step: &StepRecord) -> Result<(), AuditError> {
        // Snapshots stay where they were taken.
        if run.source == Source::Journal {
            for snapshot in [&step.before, &step.after].into_iter().flatten() {
                self.snapshot(step, snapshot)?;
            }
            // A checkpoint commits what other steps did: its changes are not those of its own time.
            if !matches!(step.kind, StepKind::Checkpoint { .. }) {
                self.continuity(step)?;
            }
            self.content_of(step)?;
        }
        let Outcome::Committed { commit, message, .. } = &step.outcome else { return Ok(()) };
        self.found.checkpoints += 1;
        let facts = match self.repository.find_commit(*commit) {
            Ok(facts) => facts,
            Err(err) => {
                self.step_broken(Code::ObjectDamaged, step, format!("commit {} cannot be read: {err}", commit.short()));
                return Ok(());
            }
        };
        if let Some(facts) = &facts {
            self.commit(run, step, *commit, message, facts)?;
        }
        self.reachability(run, step, *commit, facts.is_some());
        Ok(())
    }

    /// The commit that keeps a snapshot holds the tree of that snapshot.
    fn snapshot(&mut self, step: &StepRecord, snapshot: &Snapshot) -> Result<(), AuditError> {
        let Some(commit) = snapshot.commit else { return Ok(()) };
        if let Some(facts) = self.repository.find_commit(commit)?
            && facts.tree != snapshot.tree
        {
            let message = format!("snapshot {} does not hold the recorded tree", commit.short());
            self.step_broken(Code::DeltaMismatch, step, message);
        }
        Ok(())
    }

    fn continuity(&mut self, step: &StepRecord) -> Result<(), AuditError> {
        let (Some(before), Some(after), Some(delta)) = (&step.before, &step.after, &step.delta) else { return Ok(()) };
        // What is missing cannot be compared; whether it may be is told by `content_of`.
        if self.repository.find_missing(before, after)?.is_some() {
            return Ok(());
        }
        match self.repository.captured_differences(before, after) {
            Ok(found) if same(&found, &delta.changes) => {}
            Ok(found) => {
                let path = first_difference(&found, &delta.changes);
                let message = format!("the recorded changes are not those between its snapshots: `{path}`");
                self.step_broken(Code::DeltaMismatch, step, message);
            }
            Err(err) => self.step_broken(Code::ObjectDamaged, step, format!("its snapshots cannot be compared: {err}")),
        }
        Ok(())
    }

    fn commit(
        &mut self,
        run: &RunRecord,
        step: &StepRecord,
        commit: ObjectId,
        message: &str,
        facts: &CommitFacts,
    ) -> Result<(), AuditError> {
        if facts.message != message {
            let text = format!("commit {} has another message than the recorded one", commit.short());
            self.step_broken(Code::CommitMismatch, step, text);
        }
        let Some(Decision::Commit { old, new, tree, delta, parents, .. }) = &step.decision else {
            return self.adopted(run, step, commit, facts);
        };
        if *new != commit {
            let text = format!("commit {} was recorded, but {} was decided", commit.short(), new.short());
            self.step_broken(Code::JournalInconsistent, step, text);
            return Ok(());
        }
        // The commits that a branch was only moved to were made, and are verified, elsewhere.
        let is_made_here = !step.is_fast_forward();
        let parents = parents.clone().unwrap_or_else(|| old.iter().copied().collect());
        if (is_made_here && facts.parents != parents) || facts.tree != *tree {
            let text = format!("commit {} has another parent or tree than the recorded one", commit.short());
            self.step_broken(Code::CommitMismatch, step, text);
        }
        let base = match parents.first() {
            None => Some(self.repository.empty_tree()),
            Some(old) => self.repository.find_commit(*old)?.map(|facts| facts.tree),
        };
        if let Some(base) = base {
            let found = self.repository.differences(base, facts.tree)?;
            // As with git, the commit after `git replace` holds what git shows in the place of its parent.
            let shown = match parents.first() {
                Some(parent) if !same(&found, delta) => self.repository.substituted_tree(*parent)?,
                _ => None,
            };
            let is_built_on_shown = match shown {
                Some(shown) => same(&self.repository.differences(shown, facts.tree)?, delta),
                None => false,
            };
            if is_built_on_shown {
                let text = format!(
                    "commit {} is built on what git shows in the place of its parent (refs/replace)",
                    commit.short()
                );
                self.found.notes.push(text);
            } else if !same(&found, delta) {
                let path = first_difference(&found, delta);
                let text = format!("commit {} is not its parent and the recorded changes: `{path}`", commit.short());
                self.step_broken(Code::CommitMismatch, step, text);
            }
        }
        if let Some(wrong) = wrong_trailer(run.id, step, &facts.message).filter(|_| is_made_here) {
            self.step_broken(Code::TrailerMismatch, step, format!("commit {}: {wrong}", commit.short()));
        }
        Ok(())
    }

    /// The commit is in a branch or tag, or its changes are, or something recorded says why not.
    fn reachability(&mut self, run: &RunRecord, step: &StepRecord, commit: ObjectId, exists: bool) {
        let Some(fate) = self.fates.of(step).filter(|fate| *fate != CommitFate::InPlace) else { return };
        self.found.notes.extend(fate.note(commit, step.id));
        self.found.fates.push(StepFate { step: step.id, commit, fate: fate.clone() });
        let CommitFate::Rewritten { instead, difference } = fate else { return };
        let short = commit.short();
        let message = match (instead.first(), difference) {
            (Some(new), Some(difference)) => format!("commit {short} was rewritten as {}: {difference}", new.short()),
            _ if run.source == Source::Log && !exists => {
                format!("commit {short} is not here: its branch was rewritten, or neither pushed nor fetched")
            }
            _ if exists => format!("commit {short} is in no branch or tag any more, and nothing recorded says why"),
            _ => format!("commit {short} is gone, and nothing recorded says why"),
        };
        let found = Finding::new(Code::Rewritten, Some(step.id.run), Some(step.id), message);
        self.found.breaks.push(Finding { commits: instead, ..found });
    }

    /// What a step can be led back with is there, unless `piton gc` has dropped it.
    fn content_of(&mut self, step: &StepRecord) -> Result<(), AuditError> {
        let Some((before, after)) = step.expected_states().filter(|_| !self.dropped.contains(&step.id.run)) else {
            return Ok(());
        };
        if let Some(missing) = self.repository.find_missing(before, after)? {
            let message =
                format!("object {} of its snapshots is gone, and `piton gc` did not drop it", missing.short());
            self.step_broken(Code::SnapshotMissing, step, message);
        }
        Ok(())
    }

    fn step_broken(&mut self, code: Code, step: &StepRecord, message: String) {
        self.broken(code, Some(step.id.run), Some(step.id), message);
    }

    fn broken(&mut self, code: Code, run: Option<RunId>, step: Option<StepId>, message: String) {
        self.found.breaks.push(Finding::new(code, run, step, message));
    }
}

impl Finding {
    fn new(code: Code, run: Option<RunId>, step: Option<StepId>, message: String) -> Self {
        let suggestion = match (code, step) {
            (Code::Rewritten | Code::NotRecorded, Some(step)) => Some(format!(
                "if that is as it should be, `piton verify --accept {step} --reason TEXT` records that you accept it"
            )),
            (Code::LogMissing, _) => Some("`piton fetch REMOTE` brings the logs of runs".to_owned()),
            (Code::Replaced, _) => {
                Some("`git replace --list` and `.git/info/grafts` show it; `git replace -d OBJECT` ends it".to_owned())
            }
            _ => None,
        };
        Self { code, run, step, message, commits: Vec::new(), suggestion }
    }
}

/// The run that a log tells of, or why it cannot be believed.
fn read_log(repository: &Repository, run: RunId, tip: ObjectId) -> Result<(trail::Log, RunRecord), Box<Finding>> {
    let broken = |step: Option<u32>, message: String| {
        let step = step.map(|step| StepId { run, step });
        Box::new(Finding::new(Code::LogBroken, Some(run), step, message))
    };
    let log = trail::load(repository, run, tip);
    // Where something is missing at the beginning, what is left does not begin with the first entry.
    if let Err(found) = journal::verify_public(&log.records, run) {
        let step = log.records.get(found.line - 1).and_then(|record| record.event.step());
        let message = format!("the log is not as it was written: {}", found.told("entry", "entries"));
        return Err(broken(step, message));
    }
    if let Some(fault) = &log.fault {
        return Err(broken(None, format!("the log cannot be read: {fault}")));
    }
    match log.told() {
        Ok(record) => Ok((log, record)),
        Err(err) => Err(broken(None, err.to_string())),
    }
}

/// That a log has no end, if it has none.
fn missing_end(log: &trail::Log, record: &RunRecord) -> Option<Finding> {
    if record.summary.is_some() {
        return None;
    }
    let (run, entries) = (log.run, log.records.len());
    let step = log.records.last().and_then(|record| record.event.step()).map(|step| StepId { run, step });
    let message = format!("the log ends with entry {entries}, before the end of the run: the rest was dropped");
    Some(Finding::new(Code::LogBroken, Some(run), step, message))
}

/// What is wrong about the trailers of a commit.
fn wrong_trailer(run: RunId, step: &StepRecord, message: &str) -> Option<String> {
    match Trailers::find(message) {
        Some(trailers) => difference(run, step, &trailers),
        None => Some("it has no trailers of piton".to_owned()),
    }
}

fn difference(run: RunId, step: &StepRecord, trailers: &Trailers) -> Option<String> {
    let journal = step.decided_after.map(|digest| digest.to_string()).unwrap_or_default();
    let expected = [
        ("Piton-Run", &trailers.run, run.to_string()),
        ("Piton-Step", &trailers.step, format!("{} {}", step.id.step, step.name)),
        ("Piton-Journal", &trailers.journal, journal),
    ];
    let (name, found, wanted) = expected.into_iter().find(|(_, found, wanted)| *found != wanted)?;
    Some(format!("`{name}` is `{found}` and not `{wanted}`"))
}

fn same(found: &[FileDifference], recorded: &[Change]) -> bool {
    found.len() == recorded.len() && found.iter().zip(recorded).all(|(found, recorded)| is_same(found, recorded))
}

fn is_same((path, before, after): &FileDifference, recorded: &Change) -> bool {
    (path, before, after) == (&recorded.path, &recorded.before, &recorded.after)
}

fn first_difference(found: &[FileDifference], recorded: &[Change]) -> String {
    let differs = found.iter().zip(recorded).find(|(found, recorded)| !is_same(found, recorded));
    let longer = found.get(recorded.len()).map(|(path, ..)| path);
    let path = differs
        .map(|(found, recorded)| (&found.0).min(&recorded.path))
        .or(longer)
        .or_else(|| recorded.get(found.len()).map(|change| &change.path));
    path.map(ToString::to_string).unwrap_or_default()
}
