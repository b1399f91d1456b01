//! Which step made each line of a file.
//!
//! Git says which commit made a line. If the commit belongs to one step, that step is the answer. A
//! commit with several steps (a checkpoint of kept changes, `piton finish --squash`, a squash by
//! git) is split by the recorded contents: a line belongs to the newest of its steps that added it.
//! Uncommitted lines are handled in the same way, with the steps whose changes were left on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::error::AuditError;
use super::fate::{CommitFate, Fates};
use super::history::{History, StepRecord};
use crate::checkpoint::blame::{CommitHeading, CommitLine, split_lines};
use crate::checkpoint::object::{Entry, ObjectId};
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::repository::Repository;
use crate::journal::StepId;
use crate::journal::event::StepKind;

#[derive(Debug, Serialize)]
pub struct Blame {
    pub path: RepoPath,
    pub lines: Vec<BlamedLine>,
    pub commits: BTreeMap<ObjectId, CommitHeading>,
}

#[derive(Debug, Serialize)]
pub struct BlamedLine {
    pub number: usize,
    /// `None` while the line is not committed.
    pub commit: Option<ObjectId>,
    /// `None` when no step made the line.
    pub step: Option<StepId>,
    /// Without the line end; invalid UTF-8 is replaced.
    pub text: String,
}

/// The steps whose lines a commit, or the work tree, may contain.
#[derive(Default)]
struct BlameSuspects<'h> {
    /// The step that gets every line that no other step made.
    owner: Option<StepId>,
    /// Newest first.
    steps: Vec<&'h StepRecord>,
}

/// Finds the step that made each line of a file; `None` when neither the work tree nor HEAD has the
/// file.
pub fn blame(
    repository: &Repository,
    history: &History,
    fates: &Fates<'_>,
    root: &str,
    path: &RepoPath,
    range: Option<&RangeInclusive<usize>>,
) -> Result<Option<Blame>, AuditError> {
    if let Some(range) = range {
        let content = match repository.disk_content(path)? {
            Some(content) => Some(content),
            None => repository
                .file_at(repository.tree_of(repository.head()?.commit)?, path)?
                .map(|found| found.1),
        };
        let lines = content.map(|content| split_lines(&content).len());
        if let Some(lines) = lines.filter(|lines| lines < range.start()) {
            return Err(AuditError::NoSuchLine {
                path: path.clone(),
                lines,
            });
        }
    }
    let Some(found) = repository.blame(path, range)? else {
        return Ok(None);
    };
    let mut groups: BTreeMap<(Option<ObjectId>, &RepoPath), Vec<&CommitLine>> = BTreeMap::new();
    for line in &found.lines {
        groups
            .entry((line.commit, &line.path))
            .or_default()
            .push(line);
    }
    let mut steps = BTreeMap::new();
    for ((commit, there), lines) in groups {
        let suspects = match commit {
            Some(commit) => BlameSuspects::of_commit(history, fates, commit)?,
            None => BlameSuspects {
                owner: None,
                steps: history.pending(root).into_iter().rev().collect(),
            },
        };
        let origins = suspects.trace(repository, commit, there, &lines)?;
        steps.extend(
            lines
                .iter()
                .zip(origins)
                .filter_map(|(line, step)| Some((line.number, step?))),
        );
    }
    let lines = found.lines.iter().map(|line| BlamedLine {
        number: line.number,
        commit: line.commit,
        step: steps.get(&line.number).copied(),
        text: String::from_utf8_lossy(&line.text).into_owned(),
    });
    Ok(Some(Blame {
        path: path.clone(),
        lines: lines.collect(),
        commits: found.commits,
    }))
}

impl<'h> BlameSuspects<'h> {
    fn of_commit(
        history: &'h History,
        fates: &Fates<'_>,
        commit: ObjectId,
    ) -> Result<Self, AuditError> {
        let made = |step: &&StepRecord| {
            (step.commit() == Some(commit) && !step.is_fast_forward())
                || step.adopted.contains(&commit)
        };
        let owner = history.steps().find(made).map(|step| step.id);
        let held = match owner {
            Some(step) => vec![step],
            None => fates.steps_in(commit)?,
        };
        let held = if held.is_empty() {
            history.step_behind(commit).into_iter().collect()
        } else {
            held
        };
        let mut wanted = BTreeSet::new();
        for step in held.iter().filter_map(|step| history.step(*step)) {
            match &step.kind {
                StepKind::Checkpoint { covers } if !covers.is_empty() => {
                    wanted.extend(covers.iter().copied());
                }
                StepKind::Finish { of, .. } => {
                    wanted.extend(
                        history
                            .run(*of)
                            .into_iter()
                            .flat_map(|run| &run.steps)
                            .map(|step| step.id),
                    );
                }
                _ => {
                    wanted.insert(step.id);
                }
            }
        }
        // A squash may contain the user's own changes too; only its content tells.
        let is_alone = |step: &&StepRecord| {
            matches!(
                fates.of(step),
                Some(CommitFate::Moved { .. } | CommitFate::Reworded { .. })
            )
        };
        let alone = held
            .iter()
            .filter_map(|step| history.step(*step))
            .find(is_alone)
            .map(|step| step.id);
        let owner = owner.or(alone);
        let steps = history
            .steps()
            .filter(|step| wanted.contains(&step.id))
            .collect();
        Ok(Self { owner, steps })
    }

    /// The step that made each line of a file in a commit, or on disk if there is no commit.
    fn trace(
        &self,
        repository: &Repository,
        commit: Option<ObjectId>,
        path: &RepoPath,
        lines: &[&CommitLine],
    ) -> Result<Vec<Option<StepId>>, AuditError> {
        let mut origins = vec![self.owner; lines.len()];
        if self.steps.iter().all(|step| Some(step.id) == self.owner) {
            return Ok(origins);
        }
        let content = match commit {
            Some(commit) => repository
                .file_at(repository.tree_of(Some(commit))?, path)?
                .map(|(_, content)| content),
            None => repository.disk_content(path)?,
        };
        let mut content = content.unwrap_or_default();
        // The position of each line in the version that is being compared; `None` once its origin
        // is known.
        let mut places: Vec<Option<usize>> = lines
            .iter()
            .map(|line| line.number_there.checked_sub(1))
            .collect();
        for step in &self.steps {
            let changes = step.delta.iter().flat_map(|delta| &delta.changes);
            let Some(change) = changes.into_iter().find(|change| change.path == *path) else {
                continue;
            };
            let side = |entry: Option<Entry>| {
                entry.map_or(Ok(Vec::new()), |entry| repository.content_of(entry))
            };
            // Contents that are no longer stored tell nothing.
            let (Ok(before), Ok(after)) = (side(change.before), side(change.after)) else {
                continue;
            };
            let (later, own) = (
                matching_lines(&after, &content),
                matching_lines(&before, &after),
            );
            for (place, origin) in places.iter_mut().zip(&mut origins) {
                // A line that is missing after the step was added later, by no step in this list.
                let in_after = place.and_then(|at| later.get(&at).copied());
                *place = in_after.and_then(|at| own.get(&at).copied());
                if in_after.is_some() && place.is_none() {
                    *origin = Some(step.id);
                }
            }
            content = before;
        }
        Ok(origins)
    }
}

/// Maps each line of the newer content that the older one also has to its position there.
fn matching_lines(older: &[u8], newer: &[u8]) -> BTreeMap<usize, usize> {
    let (older, newer) = (split_lines(older), split_lines(newer));
    let mut places = BTreeMap::new();
    for part in capture_diff_slices(Algorithm::Myers, &older, &newer) {
        if let DiffOp::Equal {
            old_index,
            new_index,
            len,
        } = part
        {
            places.extend((0..len).map(|at| (new_index + at, old_index + at)));
        }
    }
    places
}
