//! Merges the commits of another branch: one tree for the branch, the index and the work tree.
//!
//! The merge happens in memory. Uncommitted user changes stay on top, by a three-way merge in the
//! same file; if that conflicts, the file is reported and nothing is written.

use std::collections::{BTreeMap, BTreeSet};

use git2::{ErrorCode, MergeOptions};

use super::attributes::{Conversion, is_attributes_file};
use super::checkpointer::Checkpointer;
use super::commit::{CommitPlan, LeftAlone};
use super::delta::Change;
use super::error::CheckpointError;
use super::merge::{Merged, three_way};
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::repository::Repository;
use super::reset::permissions;
use super::restore::{Instead, Placement, RestorePlan};
use super::reversal::blocked;
use super::snapshot::{Head, PermissionKind, Snapshot};
use super::staging::{self, OnOverlap};
use super::tree::{self, Edits};

/// The result of merging two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The merged tree.
    Clean(ObjectId),
    /// The files that both changed, in the same lines or in incompatible ways.
    Conflicts(Vec<RepoPath>),
}

/// The plan to give a branch a tree.
#[derive(Clone, Debug)]
pub struct Integration {
    /// The writes to the work tree.
    pub plan: RestorePlan,
    pub commit: CommitPlan,
    /// Files with uncommitted or staged user changes that conflict.
    pub overlaps: Vec<RepoPath>,
}

impl Repository {
    /// The merge base of two commits.
    pub fn merge_base(
        &self,
        one: ObjectId,
        other: ObjectId,
    ) -> Result<Option<ObjectId>, CheckpointError> {
        match self.git.merge_base(one.into(), other.into()) {
            Ok(id) => Ok(Some(id.into())),
            Err(err) if err.code() == ErrorCode::NotFound => Ok(None),
            Err(err) => Err(CheckpointError::git("read the history")(err)),
        }
    }

    /// Merges two commits in memory.
    pub fn merge(&self, ours: ObjectId, theirs: ObjectId) -> Result<Merge, CheckpointError> {
        let merging = || CheckpointError::git("merge two commits");
        let commit = |id: ObjectId| self.git.find_commit(id.into()).map_err(merging());
        let mut options = MergeOptions::new();
        options.find_renames(true);
        let mut index = self
            .git
            .merge_commits(&commit(ours)?, &commit(theirs)?, Some(&options))
            .map_err(merging())?;
        if index.has_conflicts() {
            let mut paths = BTreeSet::new();
            for conflict in index.conflicts().map_err(merging())? {
                let conflict = conflict.map_err(merging())?;
                let sides = [conflict.ancestor, conflict.our, conflict.their]
                    .into_iter()
                    .flatten();
                paths.extend(sides.map(|entry| RepoPath::from_bytes(entry.path)));
            }
            return Ok(Merge::Conflicts(paths.into_iter().collect()));
        }
        let merged = ObjectId::from(index.write_tree_to(&self.git).map_err(merging())?);
        let objects = Objects::of(self)?;
        let base = self.tree_of(Some(ours))?;
        // Files that neither side changed keep their entries, including old spellings of modes.
        let edits: Edits = tree::differences(&objects, base, merged)?
            .into_iter()
            .filter(|(_, before, after)| before != after)
            .map(|(path, _, after)| (path, after))
            .collect();
        let tree = tree::edit(&objects, base, &edits)?;
        // libgit2 wrote these objects itself and does not sync them to disk.
        for (path, entry) in &edits {
            for id in tree::folders_to(&objects, tree, path)?
                .into_iter()
                .chain(entry.map(|entry| entry.id))
            {
                objects.adopt(id);
            }
        }
        objects.stage()?;
        Ok(Merge::Clean(tree))
    }

    /// A remote branch that contains a commit.
    pub fn published_by(&self, commit: ObjectId) -> Result<Option<String>, CheckpointError> {
        let remote = self.commits_of_refs(|name| name.starts_with("refs/remotes/"))?;
        let found = remote
            .into_iter()
            .find(|(_, tip)| self.leads_to(*tip, commit));
        Ok(found.map(|(name, _)| {
            name.strip_prefix("refs/remotes/")
                .unwrap_or(&name)
                .to_owned()
        }))
    }
}

impl Checkpointer {
    /// Plans how the branch, the index and the work tree get a tree, given the current state.
    pub fn plan_integration(
        &mut self,
        now: &Snapshot,
        tree: ObjectId,
        parents: Vec<ObjectId>,
    ) -> Result<Integration, CheckpointError> {
        self.refresh_index()?;
        let objects = Objects::of(&self.repository)?;
        let head_tree = self.repository.tree_of(now.head.commit)?;
        let commit = self.plan_tree(&objects, now.head.clone(), tree, parents)?;
        self.clean_together_in(
            &objects,
            now.tree,
            commit.changes.iter().map(|change| &change.path),
        )?;
        let (old_contents, new_contents) = (
            self.on_disk(&objects, head_tree, &commit)?,
            self.on_disk(&objects, tree, &commit)?,
        );
        let mut overlaps = Vec::new();
        let mut plan = RestorePlan::default();
        for Change {
            path,
            before,
            after,
            ..
        } in &commit.changes
        {
            let is_link =
                |entry: &Option<Entry>| entry.is_some_and(|entry| entry.mode == FileMode::Gitlink);
            // Like `git merge`: a file that is not checked out changes only in HEAD and in the
            // index.
            if tree::find(&objects, now.tree, path)?.is_none() && self.belongs_off_disk(path) {
                continue;
            }
            let is_own =
                self.is_overlooked(path) && tree::find(&objects, now.tree, path)? != *before;
            let is_outside = is_own
                || now
                    .left_out
                    .iter()
                    .any(|left| left.path == *path || path.is_inside(&left.path));
            match (is_link(before), is_link(after)) {
                (false, false) if !is_outside => {}
                // Piton does not touch the files of a nested repository.
                (true, true | false) if after.is_none() || is_link(after) => {
                    plan.repositories.push(path.clone());
                    continue;
                }
                (false, true) if before.is_none() && !is_outside => {
                    plan.repositories.push(path.clone());
                    plan.folders_made.push((
                        path.clone(),
                        now.permissions.of(path, PermissionKind::Folder),
                    ));
                    continue;
                }
                _ => {
                    overlaps.push(path.clone());
                    continue;
                }
            }
            let current = tree::find(&objects, now.tree, path)?;
            let clean = self.stored_form(&objects, path, current, &[*before, *after])?;
            let (old, new) = (
                raw(&old_contents, path, *before),
                raw(&new_contents, path, *after),
            );
            let merged = match clean {
                clean if clean == *before => Merged::Clean(new),
                clean if clean == *after => Merged::Clean(current),
                _ => three_way(&objects, old, current, new)?,
            };
            match merged {
                Merged::Overlap => overlaps.push(path.clone()),
                Merged::Clean(target) if target == current => {}
                Merged::Clean(target) => {
                    let permissions =
                        target.map_or(0, |target| permissions(now, path, current, target));
                    plan.files.push(Placement {
                        path: path.clone(),
                        expected: current,
                        target,
                        permissions,
                        instead: Instead::Nothing,
                    });
                }
            }
        }
        objects.stage()?;
        overlaps.extend(blocked(&objects, now, &plan)?);
        overlaps.extend(plan.conflicts(&self.work_tree, self.disk_kinds())?);
        match staging::of_commit(
            &objects,
            &self.index,
            &commit,
            head_tree,
            &|_, _| None,
            OnOverlap::Refuse,
        ) {
            Ok(_) => {}
            Err(CheckpointError::DirtyOverlap(staged)) => overlaps.extend(staged),
            Err(err) => return Err(err),
        }
        overlaps.sort();
        overlaps.dedup();
        plan.remove_emptied_folders(&objects, tree)?;
        Ok(Integration {
            plan,
            commit,
            overlaps,
        })
    }

    /// The plan of a commit with a given tree, for the branch and the index.
    pub fn plan_of_tree(
        &self,
        head: Head,
        tree: ObjectId,
        parents: Vec<ObjectId>,
    ) -> Result<CommitPlan, CheckpointError> {
        self.plan_tree(&Objects::of(&self.repository)?, head, tree, parents)
    }

    fn plan_tree(
        &self,
        objects: &Objects<'_>,
        head: Head,
        tree: ObjectId,
        parents: Vec<ObjectId>,
    ) -> Result<CommitPlan, CheckpointError> {
        let mut changes = Vec::new();
        let mut cleaned = BTreeMap::new();
        for (path, before, after) in
            tree::differences(objects, self.repository.tree_of(head.commit)?, tree)?
        {
            cleaned.insert(path.clone(), (before, after));
            changes.push(Change::counted(objects, path, before, after)?);
        }
        let (adopted, left_alone, warnings) = (Vec::new(), LeftAlone::default(), Vec::new());
        Ok(CommitPlan {
            head,
            parents,
            adopted,
            changes,
            tree,
            left_alone,
            warnings,
            cleaned,
        })
    }

    /// The files of a commit in their form on disk, if that differs from the stored form.
    fn on_disk(
        &self,
        objects: &Objects<'_>,
        tree: ObjectId,
        commit: &CommitPlan,
    ) -> Result<BTreeMap<RepoPath, ObjectId>, CheckpointError> {
        if self.conversion_for(
            objects,
            tree,
            commit.changes.iter().map(|change| &change.path),
        )? == Conversion::None
        {
            return Ok(BTreeMap::new());
        }
        let mut files = Vec::new();
        for change in &commit.changes {
            if is_attributes_file(change.path.as_bytes())
                || tree::find(objects, tree, &change.path)?
                    .is_some_and(|entry| entry.mode.is_file())
            {
                files.push(change.path.clone());
            }
        }
        self.converted(objects, tree, &files)
    }
}

/// An entry with the content in its form on disk.
fn raw(
    contents: &BTreeMap<RepoPath, ObjectId>,
    path: &RepoPath,
    entry: Option<Entry>,
) -> Option<Entry> {
    entry.map(|entry| Entry {
        id: contents.get(path).copied().unwrap_or(entry.id),
        ..entry
    })
}
