//! Commits a delta on top of HEAD, without any other changes of the user.
//!
//! [`plan`] computes the content of the commit, [`prepare`] creates its objects and writes the new
//! index to git's lock file, and [`PreparedCommit`] moves the branch and renames the lock. The
//! caller records its decision between the last two: from then on a crash is completed, not undone.

use std::collections::BTreeMap;

use git2::Oid;

use super::delta::{Change, Delta};
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

/// The content of a planned commit.
#[derive(Clone, Debug)]
pub struct CommitPlan {
    pub head: Head,
    /// The parents: usually HEAD.
    pub parents: Vec<ObjectId>,
    /// Commits that the step made itself, oldest first.
    pub adopted: Vec<ObjectId>,
    /// The files, as git stores them.
    pub changes: Vec<Change>,
    /// The tree of the commit.
    pub tree: ObjectId,
    /// Files of the step that are not part of the commit.
    pub left_alone: LeftAlone,
    /// Warnings for the user: messages of filters, and unreadable files.
    pub warnings: Vec<String>,
    /// The step's change of each file as git stores it, for the index.
    pub(crate) cleaned: BTreeMap<RepoPath, (Option<Entry>, Option<Entry>)>,
}

/// Files of a step that the commit leaves out, because git overlooks them.
#[derive(Clone, Debug, Default)]
pub struct LeftAlone {
    /// The user told git to overlook them: skip-worktree, assume-unchanged.
    pub overlooked: Vec<RepoPath>,
    /// They are outside of the sparse checkout.
    pub outside: Vec<RepoPath>,
}

/// A commit whose objects exist and whose index is in the lock file; nothing visible has changed
/// yet.
pub struct PreparedCommit<'repo> {
    repository: &'repo Repository,
    /// The ref to move.
    pub target: String,
    pub old: Option<ObjectId>,
    pub new: ObjectId,
    /// The checksum of the new index.
    pub index: String,
    lock: WrittenLock,
    summary: String,
}

/// Before or after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepSide {
    Before,
    After,
}

/// The content that git stores for the bytes of a file on disk, given what it stored for the file
/// before.
pub(crate) type Stored<'s> = dyn Fn(
        &RepoPath,
        StepSide,
        Option<Entry>,
        &[Option<Entry>],
    ) -> Result<Option<Entry>, CheckpointError>
    + 's;

/// Plans the commit of a delta on top of HEAD, without the `excluded` paths.
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
    let (base_tree, head_tree) = (
        repository.tree_of(before.commit)?,
        repository.tree_of(head.commit)?,
    );
    let mut overlaps = Vec::new();
    let mut edits = Edits::new();
    let mut cleaned = BTreeMap::new();
    for change in delta
        .changes
        .iter()
        .filter(|change| !excluded(&change.path))
    {
        let committed = tree::find(objects, head_tree, &change.path)?;
        // A file that existed before the step and is in no commit belongs to the user, even if the
        // step changed it.
        let at_first = tree::find(objects, base_tree, &change.path)?;
        let clean = |side, raw| stored(&change.path, side, raw, &[at_first, committed]);
        let old = match delta.stored_before(change) {
            Some(known) => Some(known),
            None => clean(StepSide::Before, change.before)?,
        };
        let new = clean(StepSide::After, change.after)?;
        let was_users_own = old.is_some() && at_first.is_none();
        let merged = match (was_users_own, old == at_first) {
            (true, _) => Merged::Overlap,
            // The file had no user changes: commits that the step made contain only its own
            // changes.
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
    let mut plan = CommitPlan {
        head,
        parents,
        adopted,
        changes: Vec::new(),
        tree,
        left_alone,
        warnings,
        cleaned,
    };
    for (path, before, after) in tree::differences(objects, head_tree, tree)? {
        // A file that replaces a folder removes what HEAD has below it, and vice versa. Remove only
        // what the step removed itself: other removals are uncommitted changes of the user.
        if !edits.contains_key(&path) {
            overlaps.extend(
                edits
                    .keys()
                    .filter(|own| own.is_inside(&path) || path.is_inside(own))
                    .cloned(),
            );
        }
        let change = Change::counted(objects, path, before, after)?;
        plan.changes.push(change);
    }
    if !overlaps.is_empty() {
        overlaps.dedup();
        return Err(CheckpointError::DirtyOverlap(overlaps));
    }
    Ok(plan)
}

/// The commits between the old and the current HEAD, or why they cannot be the step's.
pub(super) fn commits_since(
    repository: &Repository,
    before: &Head,
    now: &Head,
) -> Result<Vec<ObjectId>, CheckpointError> {
    match before.moved_to(now) {
        None => return Ok(Vec::new()),
        Some(err @ CheckpointError::BranchSwitched { .. }) => return Err(err),
        Some(_) => {}
    }
    let moved = || CheckpointError::HeadMoved {
        expected: before.commit,
        found: now.commit,
    };
    let tip: Oid = now.commit.ok_or_else(moved)?.into();
    if let Some(base) = before.commit {
        let reading = CheckpointError::git("read the history");
        if !repository
            .git
            .graph_descendant_of(tip, base.into())
            .map_err(reading)?
        {
            return Err(moved());
        }
    }
    repository.commits_between(before.commit, now.commit)
}

impl CommitPlan {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Notes for the user: files of the step that the commit leaves out, and messages of filters.
    pub fn notes(&self) -> Vec<String> {
        let LeftAlone {
            overlooked,
            outside,
        } = &self.left_alone;
        let note = |why: &str, paths: &[RepoPath]| {
            (!paths.is_empty())
                .then(|| format!("not in the commit, because {why}: {}", listed(paths)))
        };
        let notes = [
            note("git was told to overlook it", overlooked),
            note("it is outside of the sparse checkout", outside)
                .map(|note| format!("{note}; `git add --sparse` adds it")),
        ];
        notes
            .into_iter()
            .flatten()
            .chain(self.warnings.iter().cloned())
            .collect()
    }

    /// Why there is nothing to commit although the step changed files.
    pub fn why_empty(&self) -> String {
        let LeftAlone {
            overlooked,
            outside,
        } = &self.left_alone;
        let mut reasons = Vec::new();
        if !overlooked.is_empty() {
            reasons.push(format!("git was told to overlook {}", listed(overlooked)));
        }
        if !outside.is_empty() {
            reasons.push(format!(
                "outside of the sparse checkout: {}",
                listed(outside)
            ));
        }
        if reasons.is_empty() {
            return "nothing to commit".to_owned();
        }
        format!(
            "{}; `piton undo` restores the earlier content",
            reasons.join("; ")
        )
    }

    /// The ref that the commit moves: the branch, or HEAD itself if detached.
    pub fn target(&self) -> &str {
        self.head.branch.as_deref().unwrap_or("HEAD")
    }
}

/// Writes the new index to the lock file of the user's index. The branch has not moved.
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
    let checksum = bytes
        .split_at_checked(bytes.len() - index.format().size())
        .and_then(|(_, sum)| ObjectId::from_bytes(sum));
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
    /// Moves the branch if it has not moved meanwhile. From here on the commit exists.
    pub fn move_branch(&self) -> Result<(), CheckpointError> {
        move_ref(
            self.repository,
            &self.target,
            self.old,
            self.new,
            &self.summary,
        )
    }

    /// Renames the index into place. If that fails, repeating the commit does it.
    pub fn finish(self) -> Result<(), CheckpointError> {
        failpoint("commit-ref-moved");
        self.repository.store.release_guards();
        stage_ref(self.repository, &self.target)?;
        self.lock.commit()
    }
}
