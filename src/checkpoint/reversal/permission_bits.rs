//! The permission bits of files and folders while operations are reverted.

use std::collections::BTreeMap;

use crate::checkpoint::delta::{PermissionChange, kind_at};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::objects::Objects;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;

/// The permission bits of files and folders while operations are reverted, newest first.
pub(super) struct Bits<'a, 'repo> {
    pub(super) objects: &'a Objects<'repo>,
    pub(super) now: &'a Snapshot,
    pub(super) reached: BTreeMap<RepoPath, u32>,
}

impl Bits<'_, '_> {
    /// Reverts the change of the bits of a path by an operation. Bits that it did not change stay
    /// as they are now.
    pub(super) fn take_back(
        &mut self,
        path: &RepoPath,
        left: Option<u32>,
        found: Option<u32>,
    ) -> Result<(), CheckpointError> {
        let Some(found) = found else {
            self.reached.remove(path);
            return Ok(());
        };
        let current = match self.reached.get(path) {
            Some(bits) => Some(*bits),
            None => self.now(path)?,
        };
        let bits = match (current, left) {
            (Some(current), Some(left)) => {
                let changed = left ^ found;
                (current & !changed) | (found & changed)
            }
            _ => found,
        };
        self.reached.insert(path.clone(), bits);
        Ok(())
    }

    /// The current bits of a path; `None` if it is a link or missing.
    fn now(&self, path: &RepoPath) -> Result<Option<u32>, CheckpointError> {
        Ok(kind_at(self.objects, self.now, path)?.map(|kind| self.now.permissions.of(path, kind)))
    }

    /// The bits to set, if they differ from the current ones.
    pub(super) fn changes(
        &self,
        counts: impl Fn(&RepoPath) -> bool,
    ) -> Result<Vec<PermissionChange>, CheckpointError> {
        let mut changes = Vec::new();
        for (path, after) in self.reached.iter().filter(|(path, _)| counts(path)) {
            if let Some(before) = self.now(path)?.filter(|before| before != after) {
                changes.push(PermissionChange {
                    path: path.clone(),
                    before,
                    after: *after,
                });
            }
        }
        Ok(changes)
    }
}
