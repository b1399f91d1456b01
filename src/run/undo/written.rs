//! Which paths an undo, a redo or a restore writes, and what it leaves there.
//!
//! These steps know that exactly. Everything else that changes meanwhile is of another process, and so is other content
//! at a path that the step has written.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::attribution::Ownership;
use crate::checkpoint::object::Entry;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::restore::{RestorePlan, RestoreReport};

/// What a step that takes others back writes.
#[derive(Debug, Default)]
pub(in crate::run) struct WrittenPaths {
    /// Files and folders, and the folders around them.
    paths: BTreeSet<RepoPath>,
    /// What it leaves at the files.
    left: BTreeMap<RepoPath, Option<Entry>>,
    /// The entries of the index that it changed, once that is known.
    staged: Option<BTreeSet<RepoPath>>,
}

impl WrittenPaths {
    /// What a plan is going to write.
    pub(in crate::run) fn of(plan: &RestorePlan) -> Self {
        let left: BTreeMap<RepoPath, Option<Entry>> = plan
            .files
            .iter()
            .map(|file| (file.path.clone(), file.target))
            .collect();
        let mut paths: BTreeSet<RepoPath> = plan.paths().cloned().collect();
        for path in plan.paths() {
            let mut folder = path.parent();
            while !folder.is_top() && paths.insert(folder.clone()) {
                folder = folder.parent();
            }
        }
        Self {
            paths,
            left,
            staged: None,
        }
    }

    /// The same, with the entries of the index that were changed.
    #[must_use]
    pub(in crate::run) fn with_staged(self, report: &RestoreReport) -> Self {
        Self {
            staged: Some(report.staged.clone()),
            ..self
        }
    }

    /// What of it was written, where not everything could be.
    #[must_use]
    pub(in crate::run) fn limited_to(mut self, report: Option<&RestoreReport>) -> Self {
        let restored: BTreeSet<&RepoPath> =
            report.iter().flat_map(|report| &report.restored).collect();
        let given_up: Vec<RepoPath> = self
            .left
            .keys()
            .filter(|path| !restored.contains(path))
            .cloned()
            .collect();
        for path in given_up {
            self.left.remove(&path);
            // Without a report it is not known which files were written.
            if report.is_some() {
                self.paths.remove(&path);
            }
        }
        self
    }

    /// Files and folders, and the folders around them.
    pub(in crate::run) fn paths(&self) -> impl Iterator<Item = &RepoPath> {
        self.paths.iter()
    }

    /// Whether it writes a path.
    pub(in crate::run) fn has(&self, path: &RepoPath) -> bool {
        self.paths.contains(path)
    }

    /// What of the changes is the step's own; `has` is [`Self::has`].
    pub(in crate::run) fn ownership<'o>(
        &'o self,
        has: &'o dyn Fn(&RepoPath) -> bool,
    ) -> Ownership<'o> {
        Ownership {
            has,
            staged: self.staged.as_ref(),
            definition: false,
            left: Some(&self.left),
            ..Ownership::EVERYTHING
        }
    }
}
