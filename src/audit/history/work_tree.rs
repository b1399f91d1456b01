//! Where the work tree of a run is now.

use std::path::Path;

use super::RunRecord;
use crate::checkpoint::linked_worktree;

impl RunRecord {
    /// Finds the current work tree of a run from `…/piton/runs`: the repository may have been moved
    /// or copied.
    pub(crate) fn locate(&mut self, runs: &Path) {
        let common_dir = runs.parent().and_then(Path::parent);
        let now = self
            .worktree
            .as_deref()
            .zip(common_dir)
            .and_then(|(name, common)| linked_worktree::root_of(common, name));
        if let Some(now) = now {
            self.root = now.to_string_lossy().into_owned();
        }
    }
}
