//! The state of a project when an agent connected, to tell the agent's edits from earlier changes.
//!
//! A front door that serves an agent takes a [`Baseline`] when it first sees a project. Later
//! differences count as the agent's edits, together with uncommitted changes of steps. A name in
//! the private store protects the snapshot from `piton gc`; the name identifies the process that
//! needs it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::checkpoint::{CheckpointRequest, CommitSelection, GitCheckpoint, git_checkpoint};
use super::error::RunError;
use super::remainder::{KeptStep, kept_here, left_of};
use super::session::{Observer, RunRequest};
use super::undo::combine;
use crate::audit::history::{History, StepRecord};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::remainder::{EditsSince, RecordedChanges, Remainder};
use crate::checkpoint::repository::Repository;
use crate::checkpoint::snapshot::{Head, Snapshot};
use crate::context::Context;
use crate::encoding::hex;
use crate::exec::process;
use crate::journal::event::{Event, StepKind};
use crate::journal::{RunId, StepId};
use crate::workspace::{open_checkpointer, open_repository};

/// The prefix of the names of baselines.
const NAMES: &str = "baselines/";

/// The files of a project at the moment after which changes count as the agent's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The name in the private store that protects the snapshot.
    name: String,
    snapshot: Snapshot,
    taken: Timestamp,
    /// Steps whose changes were on disk and uncommitted at that moment.
    known: Vec<StepId>,
}

/// The result of a checkpoint of an agent's edits.
#[derive(Clone, Debug)]
pub struct BaselineCheckpoint {
    pub checkpoint: GitCheckpoint,
    /// A note for the agent.
    pub note: Option<&'static str>,
}

/// The note when the history has changed since the baseline.
const MOVED: &str = "the branch was switched or its history rewritten since piton first saw this project: only recorded \
changes of steps and your later edits count; `piton checkpoint PATH` commits earlier edits";

impl Baseline {
    /// Records the current files; `None` without a repository.
    pub fn take(ctx: &Context) -> Result<Option<Self>, RunError> {
        let mut checkpointer = match open_checkpointer(ctx) {
            Ok(checkpointer) => checkpointer,
            Err(CheckpointError::NoRepository(_)) => return Ok(None),
            Err(err) => return Err(err.into()),
        };
        let snapshot = checkpointer.before()?;
        let known = pending(checkpointer.repository())?;
        let baseline = Self {
            name: name_of_process(ctx),
            snapshot,
            taken: ctx.now(),
            known,
        };
        checkpointer
            .repository()
            .keep_snapshot(&baseline.name, &baseline.snapshot)?;
        Ok(Some(baseline))
    }

    /// Stops protecting the snapshot.
    pub fn release(&self, ctx: &Context) -> Result<(), RunError> {
        Ok(open_repository(ctx)?.release(&self.name)?)
    }

    /// Commits the uncommitted changes of steps and all changes since the baseline; then moves the
    /// baseline to now.
    pub fn checkpoint(
        &mut self,
        ctx: &Context,
        request: &CheckpointRequest,
        run: &RunRequest,
        observer: &mut Observer<'_>,
    ) -> Result<BaselineCheckpoint, RunError> {
        let (selection, note) = self.selection(ctx)?;
        let request = CheckpointRequest {
            selection,
            ..request.clone()
        };
        let mut now = None;
        let checkpoint = git_checkpoint(ctx, &request, run, &mut |event| {
            if let Event::StepStarted {
                before: Some(before),
                ..
            } = event
            {
                now = Some(before.clone());
            }
            observer(event);
        })?;
        if let (Some(now), GitCheckpoint::Committed { .. } | GitCheckpoint::NoChanges) =
            (now, &checkpoint)
        {
            self.move_to(ctx, now, &checkpoint)?;
        }
        Ok(BaselineCheckpoint { checkpoint, note })
    }

    /// What [`Self::checkpoint`] would commit.
    pub fn preview(&self, ctx: &Context) -> Result<(Vec<Change>, Option<&'static str>), RunError> {
        let (selection, note) = self.selection(ctx)?;
        let mut checkpointer = open_checkpointer(ctx)?;
        checkpointer.require_undoable()?;
        let now = checkpointer.before()?;
        let (history, _) = History::load(&checkpointer.repository().runs_folder())?;
        let root = checkpointer
            .repository()
            .top()
            .to_string_lossy()
            .into_owned();
        let kept = kept_here(&history, &root);
        let left = match &selection {
            CommitSelection::Since(baseline) => {
                baseline.remainder(&checkpointer, &now, &history, &kept)?
            }
            _ => left_of(&checkpointer, &now, &kept, None, EditsSince::LeaveOut)?.files,
        };
        left.require_clear()?;
        let plan = checkpointer.plan_commit(
            &now.head,
            &Delta {
                changes: left.changes,
                ..Delta::default()
            },
        )?;
        Ok((plan.changes, note))
    }

    /// Everything since the baseline, unless the baseline can no longer be compared with HEAD.
    fn selection(
        &self,
        ctx: &Context,
    ) -> Result<(CommitSelection, Option<&'static str>), RunError> {
        let repository = open_repository(ctx)?;
        if !self.leads_to(&repository, &repository.head()?) {
            return Ok((CommitSelection::Recorded, Some(MOVED)));
        }
        Ok((CommitSelection::Since(Box::new(self.clone())), None))
    }

    /// Whether HEAD is a descendant of the HEAD of the baseline.
    fn leads_to(&self, repository: &Repository, now: &Head) -> bool {
        let before = &self.snapshot.head;
        before.branch == now.branch
            && match (before.commit, now.commit) {
                (None, _) => true,
                (Some(before), Some(now)) => before == now || repository.leads_to(now, before),
                (Some(_), None) => false,
            }
    }

    fn move_to(
        &mut self,
        ctx: &Context,
        now: Snapshot,
        made: &GitCheckpoint,
    ) -> Result<(), RunError> {
        let checkpointer = open_checkpointer(ctx)?;
        let mut snapshot = now;
        if let GitCheckpoint::Committed { commit_sha, .. } = made {
            snapshot.head.commit = Some(*commit_sha);
        }
        checkpointer
            .repository()
            .keep_snapshot(&self.name, &snapshot)?;
        self.known = pending(checkpointer.repository())?;
        self.taken = ctx.now();
        self.snapshot = snapshot;
        Ok(())
    }

    /// The uncommitted rest of the changes since the baseline and of the steps before it.
    pub(super) fn remainder(
        &self,
        checkpointer: &Checkpointer,
        now: &Snapshot,
        history: &History,
        kept: &[KeptStep],
    ) -> Result<Remainder, CheckpointError> {
        let base = self.moved_over_commits(checkpointer, history)?;
        let mut delta = checkpointer.delta(&base, now)?;
        // The file was unmodified at the baseline and was committed since, so every difference from
        // HEAD is new.
        let repository = checkpointer.repository();
        let (then, head) = (
            repository.tree_of(self.snapshot.head.commit)?,
            repository.tree_of(now.head.commit)?,
        );
        let committed = repository.differences(then, head)?;
        if !committed.is_empty() {
            let dirty = checkpointer.delta_to_head(&self.snapshot)?.changes;
            let ahead = checkpointer.delta_to_head(now)?.changes;
            let committed: BTreeSet<&RepoPath> = committed.iter().map(|(path, ..)| path).collect();
            let dirty: BTreeSet<&RepoPath> = dirty.iter().map(|change| &change.path).collect();
            let is_settled =
                |change: &Change| committed.contains(&change.path) && !dirty.contains(&change.path);
            delta.changes.retain(|change| !is_settled(change));
            delta.changes.extend(ahead.into_iter().filter(is_settled));
            delta
                .changes
                .sort_by(|one, other| one.path.cmp(&other.path));
        }
        let earlier: Vec<KeptStep> = kept
            .iter()
            .filter(|step| self.known.contains(&step.id))
            .cloned()
            .collect();
        let since = RecordedChanges {
            head: base.head.commit,
            delta: &delta,
        };
        Ok(left_of(
            checkpointer,
            now,
            &earlier,
            Some(since),
            EditsSince::LeaveOut,
        )?
        .files)
    }

    /// The baseline with the later commits of steps applied: in files that had uncommitted changes
    /// before, the committed lines are not the agent's.
    fn moved_over_commits(
        &self,
        checkpointer: &Checkpointer,
        history: &History,
    ) -> Result<Snapshot, CheckpointError> {
        let root = checkpointer
            .repository()
            .top()
            .to_string_lossy()
            .into_owned();
        // A step that began in the same instant may already be in the snapshot; applying it again
        // changes nothing.
        let is_new = |step: &&StepRecord| {
            step.took_effect() && step.started >= self.taken && !self.known.contains(&step.id)
        };
        let mut steps: Vec<&StepRecord> = history.steps_in(&root).filter(is_new).collect();
        steps.reverse();
        let is_written = |step: &&&StepRecord| !matches!(step.kind, StepKind::Checkpoint { .. });
        let committed = steps
            .iter()
            .filter(is_written)
            .filter(|step| history.commit_of(step).is_some());
        let changes = combine(committed.filter_map(|step| step.delta.as_ref())).changes;
        if changes.is_empty() {
            return Ok(self.snapshot.clone());
        }
        let commits: Vec<_> = steps.iter().filter_map(|step| step.commit()).collect();
        checkpointer.move_base(&self.snapshot, &changes, &commits)
    }
}

/// Whether a name protects a baseline of a process that has exited.
pub(super) fn is_abandoned_baseline(name: &str) -> bool {
    name.strip_prefix(NAMES).is_some_and(is_abandoned)
}

/// Whether the process in this name has exited. A process on another machine counts as alive.
fn is_abandoned(name: &str) -> bool {
    let owner = name.split('/').next().unwrap_or_default();
    let [host, boot, pid, started] = owner.split('-').collect::<Vec<_>>()[..] else {
        return false;
    };
    let (Ok(pid), Ok(started)) = (pid.parse(), started.parse()) else {
        return false;
    };
    host == short(&process::host_name())
        && (boot != short_boot() || !process::is_same(pid, Some(started)))
}

fn name_of_process(ctx: &Context) -> String {
    let pid = std::process::id();
    let started = process::start_time(pid).unwrap_or_default();
    let id = RunId::new(ctx.now(), ctx.random_bits());
    format!(
        "{NAMES}{}-{}-{pid}-{started}/{id}",
        short(&process::host_name()),
        short_boot()
    )
}

fn short_boot() -> String {
    short(&process::boot_id().unwrap_or_default())
}

/// Shortens any text to a valid file name.
fn short(text: &str) -> String {
    hex(Sha256::digest(text.as_bytes()).get(..4).unwrap_or_default())
}

/// The steps of this work tree whose changes are in no commit.
fn pending(repository: &Repository) -> Result<Vec<StepId>, RunError> {
    let (history, _) = History::load(&repository.runs_folder())?;
    let root = repository.top().to_string_lossy().into_owned();
    Ok(history
        .pending(&root)
        .into_iter()
        .map(|step| step.id)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_process_of_this_machine_left_behind_is_abandoned() {
        let (host, boot, pid) = (
            short(&process::host_name()),
            short_boot(),
            std::process::id(),
        );
        let started = process::start_time(pid).unwrap_or_default();
        assert!(!is_abandoned(&format!("{host}-{boot}-{pid}-{started}/x")));
        assert!(is_abandoned(&format!(
            "{host}-{boot}-{pid}-{}/x",
            started + 1
        )));
        assert!(is_abandoned(&format!("{host}-00000000-{pid}-{started}/x")));
        assert!(!is_abandoned(&format!(
            "00000000-{boot}-{pid}-{}/x",
            started + 1
        )));
        assert!(!is_abandoned("anything else"));
    }
}
