//! Which runs still need their contents.
//!
//! Pure: [`plan`] decides from the journals. The caller records what it will drop before it does,
//! so that verification can tell. Journals are never dropped.

use std::collections::BTreeSet;

use super::history::{History, RecordSource, RunRecord, StepOutcome, StepRecord};
use crate::checkpoint::content::Needed;
use crate::checkpoint::delta::Change;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::store::KeptObjects;
use crate::journal::event::{Decision, StepKind};
use crate::journal::{RunId, StepId};
use jiff::{SignedDuration, Timestamp};

/// What is always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Runs younger than this.
    pub days: u32,
    /// This many of the newest runs.
    pub runs: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The runs whose contents are no longer needed.
    pub drop: Vec<RunId>,
    /// The number of runs with contents that stay.
    pub kept: u64,
    /// Names in the store that are no longer needed.
    pub release: Vec<String>,
    /// What the remaining runs need.
    pub needed: Vec<Needed>,
}

/// Plans for runs and for named objects in the store. `reachable` are the commits of branches and
/// tags.
pub fn plan(
    history: &History,
    kept: &[KeptObjects],
    reachable: &BTreeSet<ObjectId>,
    limits: RetentionLimits,
    now: Timestamp,
) -> Retention {
    let needed = needed_runs(history, limits, now);
    let dropped: BTreeSet<RunId> = history
        .runs
        .iter()
        .flat_map(|run| run.dropped.iter().copied())
        .collect();
    let mut retention = Retention::default();
    for run in history
        .runs
        .iter()
        .filter(|run| run.source == RecordSource::Journal)
    {
        if needed.contains(&run.id) {
            retention.kept += u64::from(run.has_snapshots());
            retention
                .needed
                .extend(run.steps.iter().flat_map(StepRecord::contents));
        } else if run.has_snapshots() && !dropped.contains(&run.id) {
            retention.drop.push(run.id);
        }
    }
    for name in kept {
        let run = name.name.split('/').next().and_then(|run| run.parse().ok());
        let is_old =
            run.is_some_and(|run: RunId| history.run(run).is_some() && !needed.contains(&run));
        // A commit from a detached HEAD, or one that was squashed, exists only here.
        let is_only_copy = name.name.ends_with("/steps")
            || (name.name.ends_with("/commit")
                && !name.objects.iter().all(|id| reachable.contains(id)));
        if is_old && !is_only_copy {
            retention.release.push(name.name.clone());
        }
    }
    retention
}

/// The name that keeps the commits of a squashed run.
pub fn kept_steps(run: RunId) -> String {
    format!("{run}/steps")
}

/// The runs whose snapshots stay.
fn needed_runs(history: &History, limits: RetentionLimits, now: Timestamp) -> BTreeSet<RunId> {
    let age = SignedDuration::from_hours(24 * i64::from(limits.days));
    let young = |run: &RunRecord| now.duration_since(run.last) <= age;
    let roots: BTreeSet<&str> = history.runs.iter().map(|run| run.root.as_str()).collect();
    let pending: BTreeSet<RunId> = roots
        .into_iter()
        .flat_map(|root| history.pending(root))
        .map(|step| step.id.run)
        .collect();
    // Runs without snapshots (`gc` itself, or with nothing to keep) do not count toward the number.
    let newest: BTreeSet<RunId> = history
        .runs
        .iter()
        .filter(|run| run.has_snapshots())
        .take(limits.runs)
        .map(|run| run.id)
        .collect();
    let mut needed: BTreeSet<RunId> = history
        .runs
        .iter()
        .filter(|run| {
            run.is_open() || young(run) || newest.contains(&run.id) || pending.contains(&run.id)
        })
        .map(|run| run.id)
        .collect();
    // Undo and redo need the contents of the steps they refer to. Such steps are newer than those,
    // so one pass from newest to oldest finds them all.
    for run in &history.runs {
        if needed.contains(&run.id) {
            needed.extend(
                run.steps
                    .iter()
                    .flat_map(StepRecord::about)
                    .map(|step| step.run),
            );
        }
    }
    needed
}

impl RunRecord {
    fn has_snapshots(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.expected_states().is_some())
    }
}

impl StepRecord {
    /// The two snapshots that must be in the store, with their difference; `None` when nothing must
    /// be there.
    pub(super) fn expected_states(&self) -> Option<(&Snapshot, &Snapshot)> {
        if matches!(self.outcome, StepOutcome::Open | StepOutcome::NoChanges) {
            return None;
        }
        Some((self.before.as_ref()?, self.after.as_ref()?))
    }

    /// The objects that it needs in the store.
    fn contents(&self) -> Vec<Needed> {
        if self.outcome == StepOutcome::NoChanges {
            return Vec::new();
        }
        let states = [&self.before, &self.after].into_iter().flatten();
        let mut needed: Vec<Needed> = states
            .flat_map(|state| [Needed::Tree(state.tree), Needed::Tree(state.index_tree)])
            .collect();
        let delta = self.delta.as_ref();
        let mut changes: Vec<&Change> = delta.iter().flat_map(|delta| &delta.changes).collect();
        if let Some(Decision::Commit { tree, delta, .. }) = &self.decision {
            needed.push(Needed::Tree(*tree));
            changes.extend(delta);
        }
        if let Some(index) = delta.and_then(|delta| delta.index) {
            needed.extend([Needed::Tree(index.before), Needed::Tree(index.after)]);
        }
        let entries = changes
            .into_iter()
            .flat_map(|change| [change.before, change.after])
            .flatten();
        needed.extend(entries.map(|entry| Needed::File(entry.id)));
        needed
    }

    /// The steps that this one refers to.
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
