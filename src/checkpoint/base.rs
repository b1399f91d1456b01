//! Moves the state before a step over later recorded changes.

use super::checkpointer::Checkpointer;
use super::delta::Change;
use super::error::CheckpointError;
use super::merge::{Merged, three_way};
use super::object::ObjectId;
use super::objects::Objects;
use super::snapshot::{Head, Snapshot};
use super::tree::{self, Edits};

impl Checkpointer {
    /// The state before a step as if these changes and commits had already been there.
    ///
    /// If the step had changed the same file before them, its own lines are left out, if they can
    /// be separated.
    pub fn move_base(
        &self,
        before: &Snapshot,
        changes: &[Change],
        commits: &[ObjectId],
    ) -> Result<Snapshot, CheckpointError> {
        let repository = self.repository();
        let now = repository.head()?;
        let is_there = |commit: &&ObjectId| {
            now.commit
                .is_some_and(|tip| repository.leads_to(tip, **commit))
        };
        let commit = commits
            .iter()
            .rev()
            .find(is_there)
            .copied()
            .or(before.head.commit);
        let head = Head {
            commit,
            ..before.head.clone()
        };
        let objects = Objects::of(repository)?;
        let edited = |base: ObjectId| -> Result<ObjectId, CheckpointError> {
            let mut edits = Edits::new();
            for change in changes {
                let there = tree::find(&objects, base, &change.path)?;
                let entry = match three_way(&objects, change.before, there, change.after)? {
                    Merged::Clean(entry) => entry,
                    Merged::Overlap => change.after,
                };
                edits.insert(change.path.clone(), entry);
            }
            tree::edit(&objects, base, &edits)
        };
        let tree = edited(before.tree)?;
        let index_tree = if commits.is_empty() {
            before.index_tree
        } else {
            edited(before.index_tree)?
        };
        objects.stage()?;
        Ok(Snapshot {
            tree,
            index_tree,
            head,
            commit: None,
            ..before.clone()
        })
    }
}
