//! Reads a repository: commits, reachability, and piton's own refs.
//!
//! Objects may be missing or damaged: a missing object is `None`, a damaged one is an error. The
//! only write is [`Repository::remove_pins`], for migrated refs.

use std::collections::BTreeSet;

use git2::{ErrorCode, Oid, Sort};

use super::delta::{self, Change};
use super::error::CheckpointError;
use super::files::read_if_there;
use super::message::Trailers;
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::reference::remove_refs;
use super::repository::Repository;
use super::snapshot::Snapshot;
use super::tree;

/// The data of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitFacts {
    pub tree: ObjectId,
    pub parents: Vec<ObjectId>,
    /// The message; invalid UTF-8 is replaced.
    pub message: String,
}

/// One of piton's refs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PinRef {
    pub name: String,
    /// Its target.
    pub commit: ObjectId,
}

/// A commit that claims to be a checkpoint.
#[derive(Clone, Debug)]
pub struct Claim {
    pub commit: ObjectId,
    pub(crate) trailers: Trailers,
}

/// A differing file: the entries before and after.
pub type FileDifference = (RepoPath, Option<Entry>, Option<Entry>);

impl Repository {
    /// Whether a path is on disk or in the last commit.
    pub fn has_path(&self, path: &RepoPath) -> Result<bool, CheckpointError> {
        if std::fs::symlink_metadata(self.top.join(path.as_path())).is_ok() {
            return Ok(true);
        }
        let objects = Objects::of(self)?;
        let tree = self.tree_of(self.head()?.commit)?;
        Ok(tree::find(&objects, tree, path)?.is_some() || tree::has_folder(&objects, tree, path)?)
    }

    /// Whether a commit has a folder.
    pub fn has_committed_folder(
        &self,
        commit: ObjectId,
        path: &RepoPath,
    ) -> Result<bool, CheckpointError> {
        tree::has_folder(&Objects::of(self)?, self.tree_of(Some(commit))?, path)
    }

    /// Whether the committed version of a file equals the one on disk; `None` if it is not
    /// committed.
    pub fn is_committed(
        &self,
        commit: ObjectId,
        path: &RepoPath,
    ) -> Result<Option<bool>, CheckpointError> {
        let objects = Objects::of(self)?;
        let Some(entry) = tree::find(&objects, self.tree_of(Some(commit))?, path)? else {
            return Ok(None);
        };
        let on_disk = read_if_there(&self.top.join(path.as_path()))?;
        Ok(Some(on_disk.is_some_and(|bytes| {
            objects.read(entry.id).is_ok_and(|stored| stored == bytes)
        })))
    }

    /// The data of a commit; `None` if it does not exist.
    pub fn find_commit(&self, id: ObjectId) -> Result<Option<CommitFacts>, CheckpointError> {
        let commit = match self.git.find_commit(id.into()) {
            Ok(commit) => commit,
            Err(err) if err.code() == ErrorCode::NotFound => return Ok(None),
            Err(err) => return Err(CheckpointError::git("read a commit")(err)),
        };
        Ok(Some(CommitFacts {
            tree: commit.tree_id().into(),
            parents: commit.parent_ids().map(ObjectId::from).collect(),
            message: String::from_utf8_lossy(commit.message_raw_bytes()).into_owned(),
        }))
    }

    pub fn has_object(&self, id: ObjectId) -> Result<bool, CheckpointError> {
        Ok(id.is_empty_tree() || Objects::of(self)?.is_readable(id))
    }

    /// All commits that are reachable from the HEAD of any worktree, a local branch or a tag.
    /// Remote-tracking branches do not count: they show what another repository had.
    pub fn reachable(&self) -> Result<BTreeSet<ObjectId>, CheckpointError> {
        let reading = || CheckpointError::git("read the history");
        let mut walk = self.git.revwalk().map_err(reading())?;
        walk.set_sorting(Sort::NONE).map_err(reading())?;
        for tip in self.tips()? {
            walk.push(tip).map_err(reading())?;
        }
        walk.map(|id| id.map(ObjectId::from))
            .collect::<Result<_, _>>()
            .map_err(reading())
    }

    /// The commits that are reachable only from remote-tracking branches.
    pub fn reachable_by_remotes(&self) -> Result<BTreeSet<ObjectId>, CheckpointError> {
        let remote = self.targets(|name| name.starts_with("refs/remotes/"))?;
        let local: Vec<ObjectId> = self.tips()?.into_iter().map(ObjectId::from).collect();
        Ok(self
            .commits_leading_to(&remote, &local)?
            .into_iter()
            .collect())
    }

    /// The commits that are reachable from some objects and not from others, newest first.
    pub fn commits_leading_to(
        &self,
        tips: &[ObjectId],
        known: &[ObjectId],
    ) -> Result<Vec<ObjectId>, CheckpointError> {
        let reading = || CheckpointError::git("read the history");
        let mut walk = self.git.revwalk().map_err(reading())?;
        let commit = |id: &ObjectId| {
            Some(
                self.git
                    .find_object((*id).into(), None)
                    .ok()?
                    .peel_to_commit()
                    .ok()?
                    .id(),
            )
        };
        for tip in tips.iter().filter_map(commit) {
            walk.push(tip).map_err(reading())?;
        }
        for known in known.iter().filter_map(commit) {
            walk.hide(known).map_err(reading())?;
        }
        walk.map(|id| id.map(ObjectId::from))
            .collect::<Result<_, _>>()
            .map_err(reading())
    }

    /// The ancestors of a commit that no branch, tag or HEAD reaches, oldest first.
    pub fn commits_left_behind(&self, tip: ObjectId) -> Result<Vec<ObjectId>, CheckpointError> {
        let tips: Vec<ObjectId> = self.tips()?.into_iter().map(ObjectId::from).collect();
        let mut commits = self.commits_leading_to(&[tip], &tips)?;
        commits.reverse();
        Ok(commits)
    }

    /// The targets of refs with wanted names.
    pub fn targets(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<ObjectId>, CheckpointError> {
        let found = self.refs_like("refs/*")?;
        Ok(found
            .into_iter()
            .filter(|pin| wanted(&pin.name))
            .map(|pin| pin.commit)
            .collect())
    }

    /// Whether `commit` is `tip` or one of its ancestors.
    pub fn leads_to(&self, tip: ObjectId, commit: ObjectId) -> bool {
        tip == commit
            || self
                .git
                .graph_descendant_of(tip.into(), commit.into())
                .unwrap_or(false)
    }

    /// The commits among these that claim to be checkpoints.
    pub fn claims(&self, commits: &BTreeSet<ObjectId>) -> Result<Vec<Claim>, CheckpointError> {
        let mut claims = Vec::new();
        for id in commits {
            let Some(facts) = self.find_commit(*id)? else {
                continue;
            };
            // Parsing trailers is slow, and most commits have none of piton's.
            if let Some(trailers) = Some(&facts.message)
                .filter(|text| text.contains("Piton-Run:"))
                .and_then(|text| Trailers::find(text))
            {
                claims.push(Claim {
                    commit: *id,
                    trailers,
                });
            }
        }
        Ok(claims)
    }

    /// Removes refs of piton that have not moved since they were read.
    pub fn remove_pins(&self, pins: &[PinRef]) -> Result<(), CheckpointError> {
        let refs: Vec<(&str, ObjectId)> = pins
            .iter()
            .map(|pin| (pin.name.as_str(), pin.commit))
            .collect();
        remove_refs(self, &refs)
    }

    /// The files in which two trees differ.
    pub fn differences(
        &self,
        one: ObjectId,
        other: ObjectId,
    ) -> Result<Vec<FileDifference>, CheckpointError> {
        tree::differences(&Objects::of(self)?, one, other)
    }

    /// The files in which two snapshots differ, as recorded in a delta.
    pub fn captured_differences(
        &self,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<Vec<FileDifference>, CheckpointError> {
        delta::captured_differences(&Objects::of(self)?, before, after)
    }

    /// The files in which two trees differ, with line counts.
    pub fn changes(&self, one: ObjectId, other: ObjectId) -> Result<Vec<Change>, CheckpointError> {
        let objects = Objects::of(self)?;
        let mut changes = Vec::new();
        for (path, before, after) in tree::differences(&objects, one, other)? {
            changes.push(Change::counted(&objects, path, before, after)?);
        }
        Ok(changes)
    }

    /// The lines added and removed between two versions of a file.
    pub fn count_lines(
        &self,
        old: Option<Entry>,
        new: Option<Entry>,
    ) -> Result<(u64, u64), CheckpointError> {
        delta::count_lines(&Objects::of(self)?, old, new)
    }

    /// The targets of local branches, tags and the HEADs of all worktrees.
    pub(super) fn tips(&self) -> Result<BTreeSet<Oid>, CheckpointError> {
        let is_local =
            |name: &str| name.starts_with("refs/heads/") || name.starts_with("refs/tags/");
        let found = self
            .commits_of_refs(is_local)?
            .into_iter()
            .map(|(_, commit)| commit);
        let mut tips: BTreeSet<Oid> = found.map(Oid::from).collect();
        tips.extend(self.head()?.commit.map(Oid::from));
        tips.extend(self.other_heads()?.into_iter().map(Oid::from));
        Ok(tips)
    }
}
