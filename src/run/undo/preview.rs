//! A preview of an undo, a redo or a restore, file by file.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::audit::history::StepRecord;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reversal::{Inverse, ReversalScope, StepOperation};
use crate::journal::StepId;

/// What an undo, a redo or a restore would do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct UndoPreview {
    /// The steps, in the order in which they are undone or applied.
    pub steps: Vec<PreviewedStep>,
    /// The commits that a new commit would undo.
    pub commits: Vec<ObjectId>,
    pub files: Vec<PreviewedFile>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PreviewedStep {
    pub step: StepId,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreviewedFile {
    pub path: RepoPath,
    pub effect: FileEffect,
}

/// What would happen to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileEffect {
    /// It would get its earlier content.
    Restored,
    /// It would be merged: the step is undone, and later edits of other lines stay.
    Written,
    Removed,
    /// It would stay on disk, but not be committed.
    Uncommitted,
    /// It would stay on disk, and be committed again.
    Committed,
    /// It already has the intended content.
    Unchanged,
    /// It has later changes in the same lines: nothing would be done at all.
    Conflict,
}

impl FileEffect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::Written => "written",
            Self::Removed => "removed",
            Self::Uncommitted => "uncommitted",
            Self::Committed => "committed",
            Self::Unchanged => "unchanged",
            Self::Conflict => "conflict",
        }
    }
}

impl UndoPreview {
    /// `committed` is the effect on files that only the commit changes; `None` if the commit
    /// matches the files.
    pub(super) fn of(
        inverse: &Inverse,
        operations: &[StepOperation],
        committed: Option<FileEffect>,
    ) -> Self {
        let mut files: BTreeMap<&RepoPath, FileEffect> = BTreeMap::new();
        for operation in operations
            .iter()
            .filter(|operation| operation.reach == ReversalScope::Files)
        {
            files.extend(
                operation
                    .delta
                    .changes
                    .iter()
                    .map(|change| (&change.path, FileEffect::Unchanged)),
            );
        }
        if let (Some(effect), Some(commit)) = (committed, &inverse.commit) {
            files.extend(commit.changes.iter().map(|change| (&change.path, effect)));
        }
        for file in &inverse.plan.files {
            let effect = match file.target {
                None => FileEffect::Removed,
                Some(_) if inverse.merged.contains(&file.path) => FileEffect::Written,
                Some(_) => FileEffect::Restored,
            };
            files.insert(&file.path, effect);
        }
        files.extend(
            inverse
                .conflicts
                .iter()
                .map(|path| (path, FileEffect::Conflict)),
        );
        let files = files
            .into_iter()
            .map(|(path, effect)| PreviewedFile {
                path: path.clone(),
                effect,
            })
            .collect();
        Self {
            files,
            ..Self::default()
        }
    }

    pub(super) fn name_steps<'s>(&mut self, steps: impl IntoIterator<Item = &'s StepRecord>) {
        let named = |step: &StepRecord| PreviewedStep {
            step: step.id,
            name: step.name.clone(),
        };
        self.steps = steps.into_iter().map(named).collect();
    }

    /// Whether it would be refused.
    pub fn has_conflicts(&self) -> bool {
        self.files
            .iter()
            .any(|file| file.effect == FileEffect::Conflict)
    }
}
