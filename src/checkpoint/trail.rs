//! The events of runs as commits: `refs/piton/runs/RUN/log`.
//!
//! Each commit of such a log adds one file, `events.jsonl`, with the lines of one step; its parent is
//! the commit with the lines before. They are made of nothing but the lines, so that a log that is
//! written twice is the same log. Whatever comes from elsewhere may be anything:
//! [`Repository::read_trail`] says what is wrong with it and never guesses.

use git2::{ObjectType, Oid, Signature, Time};

use super::error::CheckpointError;
use super::object::ObjectId;
use super::objects::Objects;
use super::reading::Pin;
use super::reference::{move_ref, sync_ref};
use super::repository::Repository;
use crate::failpoint::failpoint;

/// Where the logs are.
const TRAILS: &str = "refs/piton/runs/*/log";
/// The one file of a commit.
const FILE: &str = "events.jsonl";

/// The lines that one commit of a log adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// What the commit is called.
    pub subject: String,
    /// When the last of the lines was written, in seconds since 1970.
    pub at: i64,
    /// The lines, each with its end.
    pub lines: Vec<u8>,
}

/// What a log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// All of its lines, in order.
    pub lines: Vec<u8>,
    /// Why nothing can be read before, or at all: it is not what piton writes.
    pub fault: Option<String>,
}

/// The name of the log of a run.
pub fn trail_name(run: &str) -> String {
    format!("refs/piton/runs/{run}/log")
}

/// The run that a ref is the log of, as it stands in the name.
pub fn run_of_trail(name: &str) -> Option<&str> {
    name.strip_prefix("refs/piton/runs/")?.strip_suffix("/log").filter(|run| !run.contains('/'))
}

impl Repository {
    /// The logs of runs, in the order of their names.
    pub fn trails(&self) -> Result<Vec<Pin>, CheckpointError> {
        self.refs_like(TRAILS)
    }

    /// Where the log of a run ends; none when it has none.
    pub fn find_trail(&self, run: &str) -> Result<Option<ObjectId>, CheckpointError> {
        self.find_ref(&trail_name(run), "read the log of a run")
    }

    /// The lines of a log that ends at an object.
    pub fn read_trail(&self, tip: ObjectId) -> Trail {
        let mut batches = Vec::new();
        let mut fault = None;
        let mut next = Some(Oid::from(tip));
        while let Some(id) = next {
            match self.read_batch(id) {
                Ok((lines, parent)) => {
                    batches.push(lines);
                    next = parent;
                }
                Err(why) => {
                    fault = Some(format!("{} {why}", ObjectId::from(id).short()));
                    break;
                }
            }
        }
        batches.reverse();
        Trail { lines: batches.concat(), fault }
    }

    /// The lines of one commit, and the commit before it.
    fn read_batch(&self, id: Oid) -> Result<(Vec<u8>, Option<Oid>), String> {
        let damaged = |err: git2::Error| format!("cannot be read: {}", err.message());
        let commit = self.git.find_commit(id).map_err(damaged)?;
        let tree = commit.tree().map_err(damaged)?;
        let file = match (tree.len(), tree.get_name(FILE)) {
            (1, Some(entry)) if entry.kind() == Some(ObjectType::Blob) => entry.id(),
            _ => return Err(format!("holds something else than `{FILE}`")),
        };
        if commit.parent_count() > 1 {
            return Err("has several parents".to_owned());
        }
        let lines = self.git.find_blob(file).map_err(damaged)?.content().to_vec();
        Ok((lines, commit.parent_ids().next()))
    }

    /// Begins to continue the log of a run that ends at a commit, or a new one.
    pub fn extend_trail(&self, old: Option<ObjectId>) -> Result<TrailWriter<'_>, CheckpointError> {
        Ok(TrailWriter { repository: self, objects: Objects::of_user(self)?, old, tip: old })
    }
}

/// Commits that are added to a log. Until [`Self::finish`] it is as it was.
pub struct TrailWriter<'r> {
    repository: &'r Repository,
    objects: Objects<'r>,
    old: Option<ObjectId>,
    tip: Option<ObjectId>,
}

impl TrailWriter<'_> {
    /// Makes one more commit.
    pub fn add(&mut self, batch: &Batch) -> Result<(), CheckpointError> {
        let making = || CheckpointError::git("write the log of a run");
        let git = &self.repository.git;
        let blob = self.objects.write_blob(&batch.lines)?;
        let tree = [b"100644 ", FILE.as_bytes(), b"\0", blob.as_bytes()].concat();
        let tree = self.objects.write(ObjectType::Tree, &tree)?;
        let author = Signature::new("piton", "piton@localhost", &Time::new(batch.at, 0)).map_err(making())?;
        let tree = git.find_tree(tree.into()).map_err(making())?;
        let parent = self.tip.map(|tip| git.find_commit(tip.into())).transpose().map_err(making())?;
        let parents: Vec<_> = parent.iter().collect();
        let commit = git.commit_create_buffer(&author, &author, &batch.subject, &tree, &parents).map_err(making())?;
        self.tip = Some(self.objects.write(ObjectType::Commit, &commit)?);
        Ok(())
    }

    /// Puts the commits on disk and moves the log, if it still ends where it was seen.
    pub fn finish(self, run: &str) -> Result<(), CheckpointError> {
        let Some(tip) = self.tip.filter(|tip| Some(*tip) != self.old) else { return Ok(()) };
        // Objects first, all of them, then the ref: killed in between, the log is as it was.
        self.objects.sync()?;
        failpoint("trail-written");
        let name = trail_name(run);
        match move_ref(self.repository, &name, self.old, tip, "piton: log of a run") {
            // Somebody else has written the same.
            Err(CheckpointError::HeadMoved { found, .. }) if found == Some(tip) => {}
            moved => moved?,
        }
        failpoint("trail-moved");
        sync_ref(self.repository, &name)
    }
}
