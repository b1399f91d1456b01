//! Which snapshots are still needed.
//!
//! Pure: [`plan`] judges the refs that keep snapshots by what the journals say. Whoever removes them
//! writes that into a journal first, so that a verification can tell. Journals are never dropped.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::history::{History, Outcome, RunRecord, StepRecord};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::reading::Pin;
use crate::journal::event::StepKind;
use crate::journal::{RunId, StepId};

/// What is kept whatever else is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Runs that are younger than so many days.
    pub days: u32,
    /// So many of the newest runs.
    pub runs: usize,
}

/// What would be dropped and kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retention {
    /// The refs that nobody needs.
    pub drop: Vec<Pin>,
    /// How many refs stay.
    pub kept: u64,
    /// How many runs the dropped refs belong to.
    pub runs: u64,
}

/// Judges refs. `reachable` are the commits that branches and tags have.
pub fn plan(
    history: &History,
    pins: Vec<Pin>,
    reachable: &BTreeSet<ObjectId>,
    limits: Limits,
    now: Timestamp,
) -> Retention {
    let needed = needed_runs(history, limits, now);
    let mut retention = Retention::default();
    let mut runs = BTreeSet::new();
    for pin in pins {
        let run = run_of(&pin.name).filter(|run| history.run(*run).is_some());
        // A commit that was made on a detached HEAD has no other ref.
        let only_ref = pin.name.ends_with("/commit") && !reachable.contains(&pin.commit);
        match run {
            Some(run) if !needed.contains(&run) && !only_ref => {
                runs.insert(run);
                retention.drop.push(pin);
            }
            // Whatever no journal explains is not ours to judge.
            _ => retention.kept += 1,
        }
    }
    retention.runs = runs.len() as u64;
    retention
}

/// The runs whose snapshots stay.
fn needed_runs(history: &History, limits: Limits, now: Timestamp) -> BTreeSet<RunId> {
    let age = SignedDuration::from_hours(24 * i64::from(limits.days));
    let young = |run: &RunRecord| now.duration_since(run.last) <= age;
    let roots: BTreeSet<&str> = history.runs.iter().map(|run| run.root.as_str()).collect();
    let pending: BTreeSet<RunId> =
        roots.into_iter().flat_map(|root| history.pending(root)).map(|step| step.id.run).collect();
    // Runs without snapshots (of `gc` itself, or with nothing to keep) do not use up the number.
    let newest: BTreeSet<RunId> =
        history.runs.iter().filter(|run| run.has_snapshots()).take(limits.runs).map(|run| run.id).collect();
    let mut needed: BTreeSet<RunId> = history
        .runs
        .iter()
        .filter(|run| run.is_open() || young(run) || newest.contains(&run.id) || pending.contains(&run.id))
        .map(|run| run.id)
        .collect();
    // To undo or redo a step, what it is about has to be there as well. Such steps come later than
    // those they are about, so one pass from the newest run to the oldest finds all of them.
    for run in &history.runs {
        if needed.contains(&run.id) {
            needed.extend(run.steps.iter().flat_map(StepRecord::about).map(|step| step.run));
        }
    }
    needed
}

impl RunRecord {
    fn has_snapshots(&self) -> bool {
        self.steps.iter().any(|step| !step.expected_pins().is_empty())
    }
}

impl StepRecord {
    /// The name of a ref that keeps something of this step.
    pub fn pin(&self, what: &str) -> String {
        format!("refs/piton/local/{}/{}/{what}", self.id.run, self.id.step)
    }

    /// The refs that have to be there, and what they keep.
    pub(super) fn expected_pins(&self) -> Vec<(String, ObjectId)> {
        if matches!(self.outcome, Outcome::Open | Outcome::NoChanges) {
            return Vec::new();
        }
        let commit = |snapshot: &Option<crate::checkpoint::snapshot::Snapshot>| snapshot.as_ref()?.commit;
        let mut pins = Vec::new();
        pins.extend(commit(&self.before).map(|id| (self.pin("before"), id)));
        // A checkpoint takes no snapshot after: nothing but a commit came into being.
        if !matches!(self.kind, StepKind::Checkpoint { .. }) {
            pins.extend(commit(&self.after).map(|id| (self.pin("after"), id)));
        }
        if let (Outcome::RolledBack { rescue: Some(name), .. }, Some(id)) = (&self.outcome, commit(&self.after)) {
            pins.push((name.clone(), id));
        }
        pins
    }

    /// The steps that this one is about.
    fn about(&self) -> Vec<StepId> {
        match &self.kind {
            StepKind::Undo { of, .. } | StepKind::Redo { of, .. } => vec![*of],
            StepKind::Restore { to } => vec![*to],
            StepKind::Checkpoint { covers } => covers.clone(),
            StepKind::RollBackRun { steps, .. } => steps.clone(),
            StepKind::Command { .. }
            | StepKind::Tool(_)
            | StepKind::Prose { .. }
            | StepKind::Human { .. }
            | StepKind::Directive { .. }
            | StepKind::Item { .. }
            | StepKind::RollBack { .. }
            | StepKind::Finish { .. }
            | StepKind::Unknown => Vec::new(),
        }
    }
}

fn run_of(name: &str) -> Option<RunId> {
    name.strip_prefix("refs/piton/local/")?.split('/').next()?.parse().ok()
}
