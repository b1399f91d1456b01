//! Completes an interrupted commit that was decided.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use super::attributes::{self, Conversion, find_filtering};
use super::checkpointer::Checkpointer;
use super::commit::{CommitPlan, LeftAlone};
use super::delta::{Change, Delta};
use super::error::CheckpointError;
use super::index::lock;
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::reference;
use super::scratch;
use super::snapshot::Head;
use super::tree;

/// The state of a decided commit.
#[derive(Debug)]
pub enum Redo {
    /// The branch has it, and the index is updated.
    Done,
    /// The branch is neither at its old place nor at the commit: nothing was touched.
    Moved(CheckpointError),
}

impl Checkpointer {
    /// The plan of a commit, from its record.
    pub fn plan_of(
        &self,
        target: &str,
        old: Option<ObjectId>,
        tree: ObjectId,
        changes: &[Change],
        delta: &Delta,
    ) -> Result<CommitPlan, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let old_tree = self.repository.tree_of(old)?;
        let find = |tree: ObjectId, path: &RepoPath| tree::find(&objects, tree, path);
        // A recovery may have written the index since this was opened.
        let index = self.repository.load_index()?;
        let mut cleaned = BTreeMap::new();
        for change in &delta.changes {
            // Without a snapshot, assume that conversions are possible.
            let conversion = Conversion::Possible;
            let known = [find(old_tree, &change.path)?, find(tree, &change.path)?];
            // The commit contains the output of the filter, so it need not run again.
            if find_filtering(&self.repository, &change.path)?.is_some() {
                let [old, new] = known;
                cleaned.insert(change.path.clone(), (old, new));
                continue;
            }
            let clean = |raw: Option<Entry>| {
                let stored = |known: &Entry| {
                    raw.is_some_and(|raw| known.mode.is_file() && known.id == raw.id)
                };
                if known.iter().flatten().any(stored) {
                    return Ok(raw);
                }
                let repository = &self.repository;
                attributes::clean(repository, &objects, &index, conversion, &change.path, raw)
            };
            cleaned.insert(
                change.path.clone(),
                (clean(change.before)?, clean(change.after)?),
            );
        }
        let branch = (target != "HEAD").then(|| target.to_owned());
        let head = Head {
            branch,
            commit: old,
        };
        let parents = old.into_iter().collect();
        let (adopted, left_alone, warnings) = (Vec::new(), LeftAlone::default(), Vec::new());
        Ok(CommitPlan {
            head,
            parents,
            adopted,
            changes: changes.to_vec(),
            tree,
            left_alone,
            warnings,
            cleaned,
        })
    }

    /// Moves the branch if needed, and updates the index.
    pub fn redo(&self, plan: &CommitPlan, commit: ObjectId) -> Result<Redo, CheckpointError> {
        let now = self.repository.head()?;
        let reading = || CheckpointError::git("read the branch");
        let tip = self.repository.find_ref(plan.target(), "read the branch")?;
        let is_checked_out = now.branch == plan.head.branch;
        if tip == Some(commit) {
            if is_checked_out {
                self.finish_index(plan)?;
            }
            return Ok(Redo::Done);
        }
        let has_it = match tip {
            Some(tip) => self
                .repository
                .git
                .graph_descendant_of(tip.into(), commit.into())
                .map_err(reading())?,
            None => false,
        };
        if has_it {
            return Ok(Redo::Done);
        }
        if tip != plan.head.commit || !is_checked_out {
            return Ok(Redo::Moved(CheckpointError::HeadMoved {
                expected: plan.head.commit,
                found: tip,
            }));
        }
        let message = self.message_of(commit)?;
        let prepared = self.prepare_existing(plan, commit, &message)?;
        prepared.move_branch()?;
        prepared.finish()?;
        Ok(Redo::Done)
    }

    /// Removes the locks of git that piton left: it was killed, or the disk failed when it removed them. A lock of
    /// another program is not touched.
    pub fn clear_git_locks(&self) -> Result<(), CheckpointError> {
        let own = self.repository.own_folder();
        lock::clear_stale(&self.repository.index_file(), &own)?;
        reference::clear_stale_locks(&self.repository)
    }

    /// Removes the temporary files that a killed run of piton left.
    pub fn clear_temporary_files(&self) -> Result<(), CheckpointError> {
        let own = self.repository.own_folder();
        self.repository
            .store
            .clear_unfinished_packs(&self.repository.git.commondir().join("objects"));
        let temporary = own.join("tmp");
        let reading = || CheckpointError::io("read the folder", &temporary);
        for entry in std::fs::read_dir(&temporary).map_err(reading())? {
            let path = entry.map_err(reading())?.path();
            let removed = if path.is_dir() {
                std::fs::remove_dir_all(&path)
            } else {
                std::fs::remove_file(&path)
            };
            match removed {
                Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                    return Err(CheckpointError::io("remove", &path)(err));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes temporary files of killed processes that did not hold the lock of the worktree.
    pub fn clear_abandoned(&self) {
        scratch::clear_abandoned(&self.repository.own_folder().join("tmp"));
    }

    pub fn message_of(&self, commit: ObjectId) -> Result<String, CheckpointError> {
        let found = self
            .repository
            .git
            .find_commit(commit.into())
            .map_err(CheckpointError::git("read a commit"))?;
        Ok(String::from_utf8_lossy(found.message_bytes()).into_owned())
    }

    /// When git's index was last written, in seconds since 1970.
    pub fn index_changed_at(&self) -> Option<i64> {
        std::fs::metadata(self.repository.index_file())
            .ok()
            .map(|found| found.ctime())
    }

    /// When a file was last changed, in seconds since 1970; `None` if it is gone.
    pub fn changed_at(&self, path: &RepoPath) -> Result<Option<i64>, CheckpointError> {
        Ok(self
            .work_tree
            .state(path)?
            .and_then(|found| found.changed_seconds()))
    }
}
