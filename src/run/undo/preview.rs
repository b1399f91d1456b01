//! What an undo, a redo or a restore would do, file by file.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::audit::history::StepRecord;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reversal::{Inverse, Operation, Reach};
use crate::journal::StepId;

/// What an undo, a redo or a restore would do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Preview {
    /// The steps that it is about, in the order in which they are taken back or applied.
    pub steps: Vec<PreviewedStep>,
    /// The commits that a new commit would take back.
    pub commits: Vec<ObjectId>,
    /// What would happen to each file.
    pub files: Vec<PreviewedFile>,
}

/// A step that a preview is about.
#[derive(Clone, Debug, Serialize)]
pub struct PreviewedStep {
    /// The step.
    pub step: StepId,
    /// What it is called.
    pub name: String,
}

/// What would happen to one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreviewedFile {
    /// The file.
    pub path: RepoPath,
    /// What would happen to it.
    pub effect: Effect,
}

/// What would happen to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It would be as it was.
    Restored,
    /// It would be written with the step taken back and later edits of other lines kept.
    Written,
    /// It would be removed.
    Removed,
    /// It would stay on disk as it is, and not be committed any more.
    Uncommitted,
    /// It would stay on disk as it is, and be committed again.
    Committed,
    /// It is as it would be already.
    Unchanged,
    /// It has changed in the same lines since: nothing would be done at all.
    Conflict,
}

impl Effect {
    /// In one word.
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

impl Preview {
    /// `committed` is what happens to files that only the commit changes; none when the commit follows from the files.
    pub(super) fn of(inverse: &Inverse, operations: &[Operation], committed: Option<Effect>) -> Self {
        let mut files: BTreeMap<&RepoPath, Effect> = BTreeMap::new();
        for operation in operations.iter().filter(|operation| operation.reach == Reach::Files) {
            files.extend(operation.delta.changes.iter().map(|change| (&change.path, Effect::Unchanged)));
        }
        if let (Some(effect), Some(commit)) = (committed, &inverse.commit) {
            files.extend(commit.changes.iter().map(|change| (&change.path, effect)));
        }
        for file in &inverse.plan.files {
            let effect = match file.target {
                None => Effect::Removed,
                Some(_) if inverse.merged.contains(&file.path) => Effect::Written,
                Some(_) => Effect::Restored,
            };
            files.insert(&file.path, effect);
        }
        files.extend(inverse.conflicts.iter().map(|path| (path, Effect::Conflict)));
        let files = files.into_iter().map(|(path, effect)| PreviewedFile { path: path.clone(), effect }).collect();
        Self { files, ..Self::default() }
    }

    pub(super) fn name_steps<'s>(&mut self, steps: impl IntoIterator<Item = &'s StepRecord>) {
        let named = |step: &StepRecord| PreviewedStep { step: step.id, name: step.name.clone() };
        self.steps = steps.into_iter().map(named).collect();
    }

    /// Whether it would be refused.
    pub fn has_conflicts(&self) -> bool {
        self.files.iter().any(|file| file.effect == Effect::Conflict)
    }
}
