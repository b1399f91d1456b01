//! Which runs still need their contents.
//!
//! Pure: [`plan`] judges by what the journals say. The caller writes into a journal what it is going to
//! drop before it does, so that a verification can tell. Journals are never dropped.

use std::collections::BTreeSet;

use super::history::{History, Outcome, RunRecord, Source, StepRecord};
use crate::checkpoint::content::Needed;
use crate::checkpoint::delta::Change;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::store::Kept;
use crate::journal::event::{Decision, StepKind};
use crate::journal::{RunId, StepId};
use jiff::{SignedDuration, Timestamp};

/// What is kept whatever else is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Runs that are younger than so many days.
    pub days: u32,
    /// So many of the newest runs.
    pub runs: usize,
}

/// What would be dropped and kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The runs whose contents are not needed any more.
    pub drop: Vec<RunId>,
    /// How many runs with contents stay.
    pub kept: u64,
    /// The names in the store that keep nothing needed.
    pub release: Vec<String>,
    /// What the runs that stay need.
    pub needed: Vec<Needed>,
}

/// Judges runs, and what is kept by names. `reachable` are the commits that branches and tags have.
pub fn plan(
    history: &History,
    kept: &[Kept],
    reachable: &BTreeSet<ObjectId>,
    limits: Limits,
    now: Timestamp,
) -> Retention {
    let needed = needed_runs(history, limits, now);
    let dropped: BTreeSet<RunId> = history.runs.iter().flat_map(|run| run.dropped.iter().copied()).collect();
    let mut retention = Retention::default();
    for run in history.runs.iter().filter(|run| run.source == Source::Journal) {
        if needed.contains(&run.id) {
            retention.kept += u64::from(run.has_snapshots());
            retention.needed.extend(run.steps.iter().flat_map(StepRecord::contents));
        } else if run.has_snapshots() && !dropped.contains(&run.id) {
            retention.drop.push(run.id);
        }
    }
    for name in kept {
        let run = name.name.split('/').next().and_then(|run| run.parse().ok());
        let is_old = run.is_some_and(|run: RunId| history.run(run).is_some() && !needed.contains(&run));
        // A commit that was made on a detached HEAD, or squashed, is nowhere else.
        let is_only_copy = name.name.ends_with("/steps")
            || (name.name.ends_with("/commit") && !name.objects.iter().all(|id| reachable.contains(id)));
        if is_old && !is_only_copy {
            retention.release.push(name.name.clone());
        }
    }
    retention
}

/// The name that keeps the commits of a run that was squashed.
pub fn kept_steps(run: RunId) -> String {
    format!("{run}/steps")
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
        self.steps.iter().any(|step| step.expected_states().is_some())
    }
}

impl StepRecord {
    /// The states that have to be in the store with what leads from one to the other; none where nothing has to be.
    pub(super) fn expected_states(&self) -> Option<(&Snapshot, &Snapshot)> {
        if matches!(self.outcome, Outcome::Open | Outcome::NoChanges) {
            return None;
        }
        Some((self.before.as_ref()?, self.after.as_ref()?))
    }

    /// What it needs of the store.
    fn contents(&self) -> Vec<Needed> {
        if self.outcome == Outcome::NoChanges {
            return Vec::new();
        }
        let states = [&self.before, &self.after].into_iter().flatten();
        let mut needed: Vec<Needed> =
            states.flat_map(|state| [Needed::Tree(state.tree), Needed::Tree(state.index_tree)]).collect();
        let delta = self.delta.as_ref();
        let mut changes: Vec<&Change> = delta.iter().flat_map(|delta| &delta.changes).collect();
        if let Some(Decision::Commit { tree, delta, .. }) = &self.decision {
            needed.push(Needed::Tree(*tree));
            changes.extend(delta);
        }
        if let Some(index) = delta.and_then(|delta| delta.index) {
            needed.extend([Needed::Tree(index.before), Needed::Tree(index.after)]);
        }
        let entries = changes.into_iter().flat_map(|change| [change.before, change.after]).flatten();
        needed.extend(entries.map(|entry| Needed::File(entry.id)));
        needed
    }

    /// The steps that this one is about.
    fn about(&self) -> Vec<StepId> {
        match &self.kind {
            StepKind::Undo { of, also, .. } | StepKind::Apply { of, also } => {
                std::iter::once(of).chain(also).copied().collect()
            }
            StepKind::Redo { of, .. } => vec![*of],
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
