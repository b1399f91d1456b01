//! A delta as a commit on top of HEAD, without anything else of the user's.
//!
//! [`plan`] works out what the commit holds, [`prepare`] makes its objects and writes the new index
//! into git's lock file, and [`PreparedCommit`] then moves the branch and renames the lock. Between
//! the last two the caller writes its decision down: from then on a crash is finished, not undone.

use std::collections::BTreeMap;

use git2::Oid;

use super::delta::{Change, Delta, count_lines};
use super::error::CheckpointError;
use super::index::Index;
use super::index::lock::{IndexLock, WrittenLock};
use super::merge::{Merged, three_way};
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::{RepoPath, listed};
use super::reference::{move_ref, stage_ref};
use super::repository::Repository;
use super::snapshot::Head;
use super::tree::{self, Edits};
use crate::failpoint::failpoint;

/// What a commit is going to hold.
#[derive(Clone, Debug)]
pub struct CommitPlan {
    /// Where HEAD is.
    pub head: Head,
    /// What the commit is built on: as a rule, where HEAD is.
    pub parents: Vec<ObjectId>,
    /// Commits that the step made itself, oldest first.
    pub adopted: Vec<ObjectId>,
    /// The files, as git stores them.
    pub changes: Vec<Change>,
    /// The tree of the commit.
    pub tree: ObjectId,
    /// Files of the step that are no part of it.
    pub left_alone: LeftAlone,
    /// What else the user should know: what filters said, and what cannot be read.
    pub warnings: Vec<String>,
    /// What the step's change of each file was, as git stores it: for the index.
    pub(crate) cleaned: BTreeMap<RepoPath, (Option<Entry>, Option<Entry>)>,
}

/// Files of a step that its commit does not hold, because git does not look at them.
#[derive(Clone, Debug, Default)]
pub struct LeftAlone {
    /// The user told git to overlook them: skip-worktree, assume-unchanged.
    pub overlooked: Vec<RepoPath>,
    /// They lie outside of the sparse checkout.
    pub outside: Vec<RepoPath>,
}

/// A commit whose objects exist and whose index waits in the lock; nothing of the user's has moved.
pub struct PreparedCommit<'repo> {
    repository: &'repo Repository,
    /// The ref that is going to move.
    pub target: String,
    /// Where it is.
    pub old: Option<ObjectId>,
    /// The commit.
    pub new: ObjectId,
    /// The checksum of the new index.
    pub index: String,
    lock: WrittenLock,
    summary: String,
}

/// Whether a file is meant as it was before a step, or as the step left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

/// What git stores for the bytes of a file on disk, given what it stored for the file before.
pub(crate) type Stored<'s> =
    dyn Fn(&RepoPath, Side, Option<Entry>, &[Option<Entry>]) -> Result<Option<Entry>, CheckpointError> + 's;

/// Works out the commit of a delta on top of HEAD, leaving out `excluded` paths.
pub(crate) fn plan(
    repository: &Repository,
    objects: &Objects<'_>,
    before: &Head,
    delta: &Delta,
    excluded: &dyn Fn(&RepoPath) -> bool,
    stored: &Stored<'_>,
) -> Result<CommitPlan, CheckpointError> {
    let head = repository.head()?;
    let adopted = commits_since(repository, before, &head)?;
    let (base_tree, head_tree) = (repository.tree_of(before.commit)?, repository.tree_of(head.commit)?);
    let mut overlaps = Vec::new();
    let mut edits = Edits::new();
    let mut cleaned = BTreeMap::new();
    for change in delta.changes.iter().filter(|change| !excluded(&change.path)) {
        let committed = tree::find(objects, head_tree, &change.path)?;
        // A file that was there and in no commit is the user's alone, whatever the step made of it.
        let at_first = tree::find(objects, base_tree, &change.path)?;
        let clean = |side, raw| stored(&change.path, side, raw, &[at_first, committed]);
        let old = match delta.stored_before(change) {
            Some(known) => Some(known),
            None => clean(Side::Before, change.before)?,
        };
        let new = clean(Side::After, change.after)?;
        let was_users_own = old.is_some() && at_first.is_none();
        let merged = match (was_users_own, old == at_first) {
            (true, _) => Merged::Overlap,
            // Nothing in the file was the user's: what commits of the step have of it is its own as well.
            (false, true) => Merged::Clean(new),
            (false, false) => three_way(objects, old, committed, new)?,
        };
        match merged {
            Merged::Overlap => overlaps.push(change.path.clone()),
            Merged::Clean(entry) if entry != committed => {
                edits.insert(change.path.clone(), entry);
            }
            Merged::Clean(_) => {}
        }
        cleaned.insert(change.path.clone(), (old, new));
    }
    if !overlaps.is_empty() {
        return Err(CheckpointError::DirtyOverlap(overlaps));
    }
    let tree = tree::edit(objects, head_tree, &edits)?;
    let parents = head.commit.into_iter().collect();
    let (left_alone, warnings) = (LeftAlone::default(), Vec::new());
    let mut plan = CommitPlan { head, parents, adopted, changes: Vec::new(), tree, left_alone, warnings, cleaned };
    for (path, before, after) in tree::differences(objects, head_tree, tree)? {
        // A file in the place of a folder removes what HEAD has below it, and the other way round. Only what the step
        // removed itself may go: the rest was the user's own removal, which is in no commit.
        if !edits.contains_key(&path) {
            overlaps.extend(edits.keys().filter(|own| own.is_inside(&path) || path.is_inside(own)).cloned());
        }
        let (insertions, deletions) = count_lines(objects, before, after)?;
        plan.changes.push(Change { path, before, after, insertions, deletions });
    }
    if !overlaps.is_empty() {
        overlaps.dedup();
        return Err(CheckpointError::DirtyOverlap(overlaps));
    }
    Ok(plan)
}

/// The commits between where HEAD was and where it is, or why they cannot be the step's.
fn commits_since(repository: &Repository, before: &Head, now: &Head) -> Result<Vec<ObjectId>, CheckpointError> {
    match before.moved_to(now) {
        None => return Ok(Vec::new()),
        Some(err @ CheckpointError::BranchSwitched { .. }) => return Err(err),
        Some(_) => {}
    }
    let moved = || CheckpointError::HeadMoved { expected: before.commit, found: now.commit };
    let tip: Oid = now.commit.ok_or_else(moved)?.into();
    if let Some(base) = before.commit {
        let reading = CheckpointError::git("read the history");
        if !repository.git.graph_descendant_of(tip, base.into()).map_err(reading)? {
            return Err(moved());
        }
    }
    repository.commits_between(before.commit, now.commit)
}

impl CommitPlan {
    /// Whether there is nothing left to commit.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// What the user should know: files of the step that the commit does not hold, and what filters said.
    pub fn notes(&self) -> Vec<String> {
        let LeftAlone { overlooked, outside } = &self.left_alone;
        let note = |why: &str, paths: &[RepoPath]| {
            (!paths.is_empty()).then(|| format!("not in the commit, because {why}: {}", listed(paths)))
        };
        let notes = [
            note("git was told to overlook it", overlooked),
            note("it is outside of the sparse checkout", outside)
                .map(|note| format!("{note}; `git add --sparse` adds it")),
        ];
        notes.into_iter().flatten().chain(self.warnings.iter().cloned()).collect()
    }

    /// Why there is nothing to commit although the step changed something.
    pub fn why_empty(&self) -> String {
        let LeftAlone { overlooked, outside } = &self.left_alone;
        let mut reasons = Vec::new();
        if !overlooked.is_empty() {
            reasons.push(format!("git was told to overlook {}", listed(overlooked)));
        }
        if !outside.is_empty() {
            reasons.push(format!("outside of the sparse checkout: {}", listed(outside)));
        }
        if reasons.is_empty() {
            return "only what no commit records has changed".to_owned();
        }
        format!("{}; `piton undo` puts back what was there", reasons.join("; "))
    }

    /// The ref that the commit moves: the branch, or HEAD itself when detached.
    pub fn target(&self) -> &str {
        self.head.branch.as_deref().unwrap_or("HEAD")
    }
}

/// Writes the new index into the lock of the user's index. The branch is still where it was.
pub(crate) fn prepare<'repo>(
    repository: &'repo Repository,
    objects: &Objects<'_>,
    plan: &CommitPlan,
    commit: ObjectId,
    summary: &str,
    lock: IndexLock,
    index: &Index,
) -> Result<PreparedCommit<'repo>, CheckpointError> {
    objects.adopt(commit);
    objects.stage()?;
    let bytes = index.to_bytes();
    let checksum =
        bytes.split_at_checked(bytes.len() - index.format().size()).and_then(|(_, sum)| ObjectId::from_bytes(sum));
    let checksum = checksum.unwrap_or(ObjectId::zero(index.format()));
    let lock = lock.write(&bytes)?;
    Ok(PreparedCommit {
        repository,
        target: plan.target().to_owned(),
        old: plan.head.commit,
        new: commit,
        index: checksum.to_string(),
        lock,
        summary: summary.to_owned(),
    })
}

impl PreparedCommit<'_> {
    /// Moves the branch if it is still where it was. From here on the commit is made.
    pub fn move_branch(&self) -> Result<(), CheckpointError> {
        move_ref(self.repository, &self.target, self.old, self.new, &self.summary)
    }

    /// Puts the index in place. If that fails it is still to be done, and a redo of the commit does it.
    pub fn finish(self) -> Result<(), CheckpointError> {
        failpoint("commit-ref-moved");
        self.repository.store.release_guards();
        stage_ref(self.repository, &self.target)?;
        self.lock.commit()
    }
}
