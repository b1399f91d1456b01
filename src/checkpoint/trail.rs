//! The events of runs as commits: `refs/piton/runs/RUN/log`.
//!
//! Each commit of such a log adds one file, `events.jsonl`, with the lines of one step; its parent
//! has the lines before. A commit depends only on the lines, so that writing a log twice gives the
//! same log. A fetched log may contain anything: [`Repository::read_trail`] reports what is wrong
//! and never guesses. It holds the lines of one commit at a time, within the limits of [`limit`].

pub mod limit;

use std::ops::ControlFlow;

use git2::{ObjectType, Oid, Signature, Time};

use super::error::CheckpointError;
use super::object::ObjectId;
use super::objects::Objects;
use super::reading::PinRef;
use super::reference::{move_ref, sync_ref};
use super::repository::Repository;
use crate::failpoint::failpoint;

use limit::{
    LineCounter, MOST_BATCH, MOST_BYTES, MOST_COMMITS, MOST_HEAD, TrailBudget, TrailFault,
    TrailLimit,
};

/// The refs of the logs.
const TRAILS: &str = "refs/piton/runs/*/log";
/// The only file of a commit.
const FILE: &str = "events.jsonl";

/// The lines that one commit adds to a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub subject: String,
    /// When the last of the lines was written, in seconds since 1970.
    pub at: i64,
    /// The lines, each with its line feed.
    pub lines: Vec<u8>,
}

/// The commits of a log with their files, and why there are no more.
type FoundBatches = (Vec<(Oid, Oid)>, Option<TrailFault>);

/// Where the lines of one commit are.
struct BatchFile {
    file: Oid,
    size: usize,
    parent: Option<Oid>,
}

fn damaged(err: &git2::Error) -> String {
    format!("cannot be read: {}", err.message())
}

/// The ref of the log of a run.
pub fn trail_name(run: &str) -> String {
    format!("refs/piton/runs/{run}/log")
}

/// The run in the name of a log's ref.
pub fn run_of_trail(name: &str) -> Option<&str> {
    name.strip_prefix("refs/piton/runs/")?
        .strip_suffix("/log")
        .filter(|run| !run.contains('/'))
}

impl Repository {
    /// The logs of runs, sorted by name.
    pub fn trails(&self) -> Result<Vec<PinRef>, CheckpointError> {
        self.refs_like(TRAILS)
    }

    /// The newest commit of the log of a run; `None` if it has no log.
    pub fn find_trail(&self, run: &str) -> Result<Option<ObjectId>, CheckpointError> {
        self.find_ref(&trail_name(run), "read the log of a run")
    }

    /// Passes the lines of a log that ends at an object to `see`, each with its line feed, until
    /// `see` breaks. All sizes are compared with the limits before any content is read. If an older
    /// part of the log is missing, the lines after it are passed on before the error is returned.
    pub fn read_trail(
        &self,
        tip: ObjectId,
        budget: &TrailBudget,
        see: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), TrailFault> {
        budget.take_log()?;
        let (batches, fault) = self.find_batches(tip, budget)?;
        let mut counter = LineCounter::new(tip, budget);
        // A line may begin in one commit and end in another, although piton does not write that.
        let mut begun: Vec<u8> = Vec::new();
        for (commit, file) in batches.into_iter().rev() {
            let blob = self.git.find_blob(file).map_err(|err| {
                let (commit, reason) = (commit.into(), damaged(&err));
                TrailFault::NotALog { commit, reason }
            })?;
            for part in blob.content().split_inclusive(|byte| *byte == b'\n') {
                counter.check_length(begun.len() + part.len())?;
                if begun.is_empty() && part.ends_with(b"\n") {
                    counter.take(part)?;
                    if see(part).is_break() {
                        return Ok(());
                    }
                    continue;
                }
                begun.extend_from_slice(part);
                if begun.ends_with(b"\n") {
                    counter.take(&begun)?;
                    if see(&begun).is_break() {
                        return Ok(());
                    }
                    begun.clear();
                }
            }
        }
        if !begun.is_empty() {
            counter.take(&begun)?;
            if see(&begun).is_break() {
                return Ok(());
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// The commits of a log with their files, newest first, and why the walk ended early.
    fn find_batches(
        &self,
        tip: ObjectId,
        budget: &TrailBudget,
    ) -> Result<FoundBatches, TrailFault> {
        let too_large = |limit| TrailFault::TooLarge { tip, limit };
        let mut files = Vec::new();
        let (mut next, mut bytes) = (Some(Oid::from(tip)), 0);
        while let Some(id) = next {
            let batch = match self.find_batch(id) {
                Ok(batch) => batch,
                Err(reason) => {
                    budget.take(files.len() as u64, bytes)?;
                    let commit = id.into();
                    return Ok((files, Some(TrailFault::NotALog { commit, reason })));
                }
            };
            bytes += batch.size as u64;
            if batch.size as u64 > MOST_BATCH {
                return Err(too_large(TrailLimit::Batch(MOST_BATCH)));
            }
            if bytes > MOST_BYTES {
                return Err(too_large(TrailLimit::Bytes(MOST_BYTES)));
            }
            if files.len() == MOST_COMMITS {
                return Err(too_large(TrailLimit::Commits(MOST_COMMITS as u64)));
            }
            files.push((id, batch.file));
            next = batch.parent;
        }
        budget.take(files.len() as u64, bytes)?;
        Ok((files, None))
    }

    /// The file of one commit, its size, and the parent of the commit.
    fn find_batch(&self, id: Oid) -> Result<BatchFile, String> {
        let objects = self.git.odb().map_err(|err| damaged(&err))?;
        let is_large = |id: Oid| match objects.read_header(id) {
            Ok((size, _)) if size > MOST_HEAD => Err("is too large for a log".to_owned()),
            Ok(_) => Ok(()),
            Err(err) => Err(damaged(&err)),
        };
        is_large(id)?;
        let commit = self.git.find_commit(id).map_err(|err| damaged(&err))?;
        is_large(commit.tree_id())?;
        let tree = commit.tree().map_err(|err| damaged(&err))?;
        let file = match (tree.len(), tree.get_name(FILE)) {
            (1, Some(entry)) if entry.kind() == Some(ObjectType::Blob) => entry.id(),
            _ => return Err(format!("holds something else than `{FILE}`")),
        };
        if commit.parent_count() > 1 {
            return Err("has several parents".to_owned());
        }
        let (size, _) = objects.read_header(file).map_err(|err| damaged(&err))?;
        Ok(BatchFile {
            file,
            size,
            parent: commit.parent_ids().next(),
        })
    }

    /// Starts to extend the log of a run at a commit, or a new log.
    pub fn extend_trail(&self, old: Option<ObjectId>) -> Result<TrailWriter<'_>, CheckpointError> {
        Ok(TrailWriter {
            repository: self,
            objects: Objects::of_user(self)?,
            old,
            tip: old,
        })
    }
}

/// New commits of a log. The log changes only in [`Self::finish`].
pub struct TrailWriter<'r> {
    repository: &'r Repository,
    objects: Objects<'r>,
    old: Option<ObjectId>,
    tip: Option<ObjectId>,
}

impl TrailWriter<'_> {
    pub fn add(&mut self, batch: &Batch) -> Result<(), CheckpointError> {
        let making = || CheckpointError::git("write the log of a run");
        let git = &self.repository.git;
        let blob = self.objects.write_blob(&batch.lines)?;
        let tree = [b"100644 ", FILE.as_bytes(), b"\0", blob.as_bytes()].concat();
        let tree = self.objects.write(ObjectType::Tree, &tree)?;
        let author =
            Signature::new("piton", "piton@localhost", &Time::new(batch.at, 0)).map_err(making())?;
        let tree = git.find_tree(tree.into()).map_err(making())?;
        let parent = self
            .tip
            .map(|tip| git.find_commit(tip.into()))
            .transpose()
            .map_err(making())?;
        let parents: Vec<_> = parent.iter().collect();
        let commit = git
            .commit_create_buffer(&author, &author, &batch.subject, &tree, &parents)
            .map_err(making())?;
        self.tip = Some(self.objects.write(ObjectType::Commit, &commit)?);
        Ok(())
    }

    /// Syncs the commits and moves the log, if it has not moved meanwhile.
    pub fn finish(self, run: &str) -> Result<(), CheckpointError> {
        let Some(tip) = self.tip.filter(|tip| Some(*tip) != self.old) else {
            return Ok(());
        };
        // Sync all objects first, then the ref: after a kill in between, the log is unchanged.
        self.objects.sync()?;
        failpoint("trail-written");
        let name = trail_name(run);
        match move_ref(self.repository, &name, self.old, tip, "piton: log of a run") {
            // Another process has written the same.
            Err(CheckpointError::HeadMoved { found, .. }) if found == Some(tip) => {}
            moved => moved?,
        }
        failpoint("trail-moved");
        sync_ref(self.repository, &name)
    }
}
