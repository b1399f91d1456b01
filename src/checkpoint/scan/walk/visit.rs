//! What a walk finds, folder by folder.

use std::ops::Range;
use std::sync::Arc;

use super::{PendingFolder, WalkScope};
use crate::checkpoint::ignore::{FolderRules, Patterns};
use crate::checkpoint::no_follow::PathState;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::scan::content::PendingFile;
use crate::checkpoint::scan::permission::{FolderNotes, PermissionNotes};
use crate::checkpoint::snapshot::{LeftOut, LeftOutReason};

/// The results of the walk.
#[derive(Debug, Default)]
pub(in crate::checkpoint::scan) struct WalkFindings {
    /// Missing tracked files, by their position in the index.
    pub(in crate::checkpoint::scan) gone: Vec<usize>,
    /// Files that the index cannot confirm.
    pub(in crate::checkpoint::scan) pending: Vec<PendingFile>,
    pub(in crate::checkpoint::scan) permissions: PermissionNotes,
    pub(in crate::checkpoint::scan) empty_folders: Vec<RepoPath>,
    pub(in crate::checkpoint::scan) left_out: Vec<LeftOut>,
    pub(in crate::checkpoint::scan) submodules: Vec<RepoPath>,
    pub(in crate::checkpoint::scan) attribute_files: Vec<RepoPath>,
    /// The `.gitignore` files that were read.
    pub(in crate::checkpoint::scan) rules: Vec<(RepoPath, Arc<Patterns>)>,
}

/// One folder that is being compared.
pub(super) struct Visit<'v> {
    pub(super) prefix: &'v [u8],
    pub(super) range: Range<usize>,
    pub(super) rules: FolderRules,
    pub(super) reach: WalkScope,
    pub(super) notes: FolderNotes,
    pub(super) findings: WalkFindings,
    pub(super) below: Vec<PendingFolder>,
}

impl<'v> Visit<'v> {
    pub(super) fn new(
        prefix: &'v [u8],
        permissions: Option<u32>,
        range: Range<usize>,
        rules: FolderRules,
        reach: WalkScope,
    ) -> Self {
        let notes = FolderNotes::new(prefix, permissions);
        Self {
            prefix,
            range,
            rules,
            reach,
            notes,
            findings: WalkFindings::default(),
            below: Vec::new(),
        }
    }

    pub(super) fn left_out(&mut self, path: Vec<u8>, reason: LeftOutReason) {
        self.findings.left_out.push(LeftOut {
            path: RepoPath::from_bytes(path),
            held: false,
            reason,
        });
    }

    /// Records a file that is part of the work tree.
    pub(super) fn note_file(&mut self, name: &[u8], found: PathState) {
        if let PathState::File { permissions, .. } = found {
            self.notes.file(name, permissions);
        }
    }
}

impl WalkFindings {
    pub(super) fn extend(&mut self, more: Self) {
        self.gone.extend(more.gone);
        self.pending.extend(more.pending);
        self.permissions.extend(more.permissions);
        self.empty_folders.extend(more.empty_folders);
        self.left_out.extend(more.left_out);
        self.submodules.extend(more.submodules);
        self.attribute_files.extend(more.attribute_files);
        self.rules.extend(more.rules);
    }
}
