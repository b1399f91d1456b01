//! The uncommitted rest of recorded changes, compared with the disk and HEAD.
//!
//! A step records its changes; the user may commit, discard or edit them afterwards. [`judge`]
//! decides for one file: a change that is in HEAD or no longer on disk is dropped; a file that is
//! as the step left it will be committed; from a file that was edited since, only the step's own
//! lines will be committed, if they can be separated. [`Checkpointer::remainder`] does that for
//! every file of a series of recorded changes, without side effects.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::checkpointer::Checkpointer;
use super::delta::{Change, Delta};
use super::error::CheckpointError;
use super::merge::merge_text;
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::provenance::{Provenance, VersionAuthor};
use super::snapshot::{LeftOutReason, Snapshot};
use super::tree;

/// Recorded changes that no checkpoint holds.
#[derive(Clone, Copy, Debug)]
pub struct RecordedChanges<'a> {
    /// HEAD before them.
    pub head: Option<ObjectId>,
    pub delta: &'a Delta,
}

/// What to do with a person's edits to the files of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditsSince {
    /// Leave them out; if they cannot be separated from the step's lines, report the file.
    LeaveOut,
    /// Include the files as they are on disk.
    Include,
}

/// The uncommitted rest of recorded changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remainder {
    /// The changes from HEAD to the commit, sorted by path.
    pub changes: Vec<Change>,
    /// Files in which the step's lines cannot be separated from later edits.
    pub edited: Vec<RepoPath>,
    /// Files in which the step's lines cannot be separated from earlier user changes.
    pub overlaps: Vec<RepoPath>,
    /// Files that include later edits.
    pub included: Vec<RepoPath>,
    /// The indexes of the recorded changes that are not completely gone.
    pub left: BTreeSet<usize>,
}

impl Remainder {
    /// Fails if a file would be committed only in part, because the rest cannot be separated.
    pub fn require_clear(&self) -> Result<(), CheckpointError> {
        match (self.overlaps.is_empty(), self.edited.is_empty()) {
            (true, true) => Ok(()),
            (false, _) => Err(CheckpointError::DirtyOverlap(self.overlaps.clone())),
            (true, false) => Err(CheckpointError::EditedSince(self.edited.clone())),
        }
    }

    /// All files with uncommitted changes.
    pub fn paths(&self) -> Vec<RepoPath> {
        let changed = self.changes.iter().map(|change| &change.path);
        let paths: BTreeSet<&RepoPath> =
            changed.chain(&self.edited).chain(&self.overlaps).collect();
        paths.into_iter().cloned().collect()
    }
}

impl Checkpointer {
    /// The uncommitted rest of consecutive recorded changes.
    pub fn remainder(
        &self,
        now: &Snapshot,
        recorded: &[RecordedChanges<'_>],
        edits: EditsSince,
    ) -> Result<Remainder, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let head_tree = self.repository.tree_of(now.head.commit)?;
        let mut files: BTreeMap<&RepoPath, Vec<(usize, &Change)>> = BTreeMap::new();
        for (at, recorded) in recorded.iter().enumerate() {
            for change in &recorded.delta.changes {
                files.entry(&change.path).or_default().push((at, change));
            }
        }
        self.filters
            .expect_removed(self.removed_attributes(files.keys().copied())?);
        self.clean_together_in(&objects, now.tree, files.keys().copied())?;
        let mut known_trees = BTreeMap::new();
        let mut remainder = Remainder::default();
        for (path, changes) in files {
            let head = tree::find(&objects, head_tree, path)?;
            let on_disk = tree::find(&objects, now.tree, path)?;
            let disk = self.stored_form(&objects, path, on_disk, &[head])?;
            let unseen = now
                .left_out
                .iter()
                .find(|left| left.path == *path || path.is_inside(&left.path));
            if (unseen.is_none() && disk == head) || self.is_overlooked(path) {
                continue;
            }
            let positions: Vec<usize> = changes.iter().map(|(at, _)| *at).collect();
            if let Some(unseen) = unseen {
                // The file is too large by now; other such paths belong to a nested repository, or
                // are no file.
                if matches!(unseen.reason, LeftOutReason::TooLarge { .. }) {
                    remainder.edited.push(path.clone());
                    remainder.left.extend(positions);
                }
                continue;
            }
            let first = positions
                .first()
                .and_then(|at| recorded.get(*at))
                .and_then(|recorded| recorded.head);
            let tree_then = match known_trees.get(&first) {
                Some(tree) => *tree,
                None => *known_trees
                    .entry(first)
                    .or_insert(self.tree_if_there(first, head_tree)?),
            };
            let head_then = tree::find(&objects, tree_then, path)?;
            let clean = |raw| self.stored_form(&objects, path, raw, &[head, head_then]);
            let mut steps = Vec::new();
            for (at, change) in &changes {
                let before = match recorded
                    .get(*at)
                    .and_then(|recorded| recorded.delta.stored_before(change))
                {
                    Some(known) => Some(known),
                    None => clean(change.before)?,
                };
                steps.push((before, clean(change.after)?));
            }
            let story = Story {
                head_then,
                steps: &steps,
                head,
                disk,
            };
            let (judgement, counted) = judge(&story, &|entry| objects.read(entry.id))?;
            if judgement == FileRemainder::Dropped {
                continue;
            }
            remainder
                .left
                .extend(positions.get(counted.clone()).unwrap_or_default());
            let is_edited = steps
                .get(counted)
                .unwrap_or_default()
                .last()
                .is_none_or(|(_, after)| *after != disk);
            let after = match judgement {
                FileRemainder::Edited | FileRemainder::Left(_)
                    if edits == EditsSince::Include && is_edited =>
                {
                    remainder.included.push(path.clone());
                    on_disk
                }
                FileRemainder::Edited => {
                    remainder.edited.push(path.clone());
                    continue;
                }
                FileRemainder::Overlap => {
                    remainder.overlaps.push(path.clone());
                    continue;
                }
                FileRemainder::Dropped | FileRemainder::Left(CommitContent::Disk) => on_disk,
                FileRemainder::Left(CommitContent::Gone) => None,
                FileRemainder::Left(CommitContent::Merged { mode, bytes }) => {
                    let id = objects.write_blob(&bytes)?;
                    // These were merged in the stored form: a filter must not convert them again.
                    self.filters.note_merged(path, id);
                    Some(Entry { mode, id })
                }
            };
            let change = Change::counted(&objects, path.clone(), head, after)?;
            remainder.changes.push(change);
        }
        objects.stage()?;
        Ok(remainder)
    }

    /// The tree of a commit; that of HEAD if git has pruned the commit.
    fn tree_if_there(
        &self,
        commit: Option<ObjectId>,
        otherwise: ObjectId,
    ) -> Result<ObjectId, CheckpointError> {
        let Some(commit) = commit else {
            return Ok(self.repository.empty_tree());
        };
        if self.repository.find_commit(commit)?.is_none() {
            return Ok(otherwise);
        }
        self.repository.tree_of(Some(commit))
    }
}

/// The versions of one file, in the stored form.
struct Story<'a> {
    /// HEAD before the first step.
    head_then: Option<Entry>,
    /// The file before and after each step, oldest first.
    steps: &'a [(Option<Entry>, Option<Entry>)],
    head: Option<Entry>,
    disk: Option<Entry>,
}

/// The decision about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FileRemainder {
    /// Nothing is left: HEAD has it, or it was discarded.
    Dropped,
    /// Commit this.
    Left(CommitContent),
    /// Edited later, in the lines of a step.
    Edited,
    /// The step changed lines that the user had changed before, or a file that no commit has.
    Overlap,
}

/// The content to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CommitContent {
    /// The file on disk.
    Disk,
    /// The file is deleted.
    Gone,
    /// HEAD with the changes of the steps, without other changes.
    Merged { mode: FileMode, bytes: Vec<u8> },
}

/// Reads the content of an entry.
type Read<'r> = dyn Fn(Entry) -> Result<Vec<u8>, CheckpointError> + 'r;

/// Decides about one file; the range contains its steps that HEAD does not have and that are not
/// completely discarded.
fn judge(
    story: &Story<'_>,
    read: &Read<'_>,
) -> Result<(FileRemainder, Range<usize>), CheckpointError> {
    let Story {
        head_then,
        steps,
        head,
        disk,
    } = *story;
    let end = still_there(steps, disk);
    let start = in_head(steps.get(..end).unwrap_or_default(), head);
    let steps = steps.get(start..end).unwrap_or_default();
    let Some((_, last)) = steps.last().copied().filter(|_| disk != head) else {
        return Ok((FileRemainder::Dropped, 0..0));
    };
    let story = Story {
        head_then,
        steps,
        head,
        disk,
    };
    let judgement = match (head, disk) {
        _ if story.is_all_of_steps() => FileRemainder::Left(match disk {
            Some(_) => CommitContent::Disk,
            None => CommitContent::Gone,
        }),
        // The user removed the file of the step, or created a file that the step had removed.
        (_, None) if last.is_some() => FileRemainder::Dropped,
        (_, Some(_)) if last.is_none() => FileRemainder::Dropped,
        (_, None) if story.knows(head) => FileRemainder::Left(CommitContent::Gone),
        (_, None) => FileRemainder::Overlap,
        (None, Some(disk)) => story.judge_uncommitted(disk, read)?,
        (Some(head), Some(disk)) => story.judge_committed(head, disk, read)?,
    };
    Ok((judgement, start..end))
}

/// The number of steps without those at the end that were reverted.
fn still_there(steps: &[(Option<Entry>, Option<Entry>)], disk: Option<Entry>) -> usize {
    let mut count = steps.len();
    while let Some((_, after)) = count.checked_sub(1).and_then(|last| steps.get(last)) {
        if *after == disk {
            break;
        }
        let earlier = steps.get(..count).unwrap_or_default();
        let Some(at) = earlier
            .iter()
            .rposition(|(before, after)| *before == disk || *after == disk)
        else {
            break;
        };
        count = if steps.get(at).is_some_and(|(_, after)| *after == disk) {
            at + 1
        } else {
            at
        };
    }
    count
}

/// The number of steps at the beginning that HEAD has, or that were reverted before the next one.
fn in_head(steps: &[(Option<Entry>, Option<Entry>)], head: Option<Entry>) -> usize {
    match steps
        .iter()
        .rposition(|(before, after)| *before == head || *after == head)
    {
        Some(at) if steps.get(at).is_some_and(|(_, after)| *after == head) => at + 1,
        Some(at) => at,
        None => 0,
    }
}

impl Story<'_> {
    /// Whether steps alone lead from HEAD to the version on disk.
    fn is_all_of_steps(&self) -> bool {
        let mut at = self.head;
        self.steps
            .iter()
            .all(|(before, after)| std::mem::replace(&mut at, *after) == *before)
            && at == self.disk
    }

    /// Whether a version is one that a step found or left.
    fn knows(&self, version: Option<Entry>) -> bool {
        self.steps
            .iter()
            .any(|(before, after)| *before == version || *after == version)
    }

    /// Decides about a file that HEAD does not have.
    fn judge_uncommitted(
        &self,
        disk: Entry,
        read: &Read<'_>,
    ) -> Result<FileRemainder, CheckpointError> {
        let is_left = match self.provenance(read)? {
            Some(provenance) => provenance.reaches(b"")? || read(disk)?.is_empty(),
            None => true,
        };
        if !is_left {
            return Ok(FileRemainder::Dropped);
        }
        // The step that created the file, if it did not exist before.
        let made = self
            .steps
            .iter()
            .rposition(|(before, after)| before.is_none() && after.is_some());
        let was_there = self
            .steps
            .first()
            .is_some_and(|(before, _)| before.is_some());
        let since = made.map_or(0, |at| at + 1);
        let mut at = made
            .and_then(|at| self.steps.get(at))
            .and_then(|(_, after)| *after);
        let later = self.steps.get(since..).unwrap_or_default();
        let is_pure = later
            .iter()
            .all(|(before, after)| std::mem::replace(&mut at, *after) == *before);
        Ok(match made {
            Some(_) if !was_there && is_pure && at == Some(disk) => {
                FileRemainder::Left(CommitContent::Disk)
            }
            Some(_) if !was_there => FileRemainder::Edited,
            _ => FileRemainder::Overlap,
        })
    }

    /// Decides about a file that HEAD has in another version.
    fn judge_committed(
        &self,
        head: Entry,
        disk: Entry,
        read: &Read<'_>,
    ) -> Result<FileRemainder, CheckpointError> {
        let is_edited = self
            .steps
            .last()
            .is_none_or(|(_, after)| *after != Some(disk));
        let Some(provenance) = self.provenance(read)? else {
            return Ok(self.judge_opaque(head, is_edited));
        };
        let (head_text, disk_text) = (read(head)?, read(disk)?);
        if let Some(without) = self.without_steps(&disk_text, read)?
            && let Some(bytes) = merge(&without, &head_text, &disk_text)?
        {
            let mode = self.mode(head.mode, disk.mode);
            return Ok(if (mode, &bytes) == (head.mode, &head_text) {
                FileRemainder::Dropped
            } else if (mode, &bytes) == (disk.mode, &disk_text) {
                FileRemainder::Left(CommitContent::Disk)
            } else {
                FileRemainder::Left(CommitContent::Merged { mode, bytes })
            });
        }
        if !provenance.reaches(&head_text)? && self.mode(head.mode, disk.mode) == head.mode {
            return Ok(FileRemainder::Dropped);
        }
        Ok(if is_edited && !self.overlaps_head(&head_text, read)? {
            FileRemainder::Edited
        } else {
            FileRemainder::Overlap
        })
    }

    /// Decides about links, gitlinks and binary files, which are committed as a whole or not at
    /// all.
    fn judge_opaque(&self, head: Entry, is_edited: bool) -> FileRemainder {
        let found = |version| self.steps.iter().any(|(before, _)| *before == version);
        if !is_edited {
            return if self.knows(Some(head)) {
                FileRemainder::Left(CommitContent::Disk)
            } else {
                FileRemainder::Overlap
            };
        }
        // The user may have committed their own version, or that of the step.
        let is_committed = Some(head) != self.head_then && !found(Some(head));
        if is_committed {
            FileRemainder::Dropped
        } else {
            FileRemainder::Edited
        }
    }

    /// The file on disk without the steps; `None` if they cannot be separated.
    fn without_steps(
        &self,
        disk: &[u8],
        read: &Read<'_>,
    ) -> Result<Option<Vec<u8>>, CheckpointError> {
        let mut text = disk.to_vec();
        for (before, after) in self.steps.iter().rev() {
            match merge(&content(*after, read)?, &text, &content(*before, read)?)? {
                Some(merged) => text = merged,
                None => return Ok(None),
            }
        }
        Ok(Some(text))
    }

    /// Whether the changes of the steps conflict with HEAD, regardless of later edits.
    fn overlaps_head(&self, head: &[u8], read: &Read<'_>) -> Result<bool, CheckpointError> {
        let mut text = head.to_vec();
        for (before, after) in self.steps {
            match merge(&content(*before, read)?, &text, &content(*after, read)?)? {
                Some(merged) => text = merged,
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// The mode for the commit: that on disk if a step set it, else that of HEAD.
    fn mode(&self, head: FileMode, disk: FileMode) -> FileMode {
        let mode = |entry: Option<Entry>| entry.map(|entry| entry.mode);
        let is_set = self
            .steps
            .iter()
            .any(|(before, after)| mode(*before) != mode(*after) && mode(*after) == Some(disk));
        let is_last = self
            .steps
            .last()
            .is_some_and(|(_, after)| mode(*after) == Some(disk));
        if is_set && is_last { disk } else { head }
    }

    /// The authors of the lines on disk; `None` if a version is not text.
    fn provenance(&self, read: &Read<'_>) -> Result<Option<Provenance>, CheckpointError> {
        let states = self
            .steps
            .iter()
            .flat_map(|(before, after)| [*before, *after]);
        let versions = states.chain([self.head, self.disk]).flatten();
        for entry in versions {
            if !entry.mode.is_file() || read(entry)?.iter().take(8000).any(|byte| *byte == 0) {
                return Ok(None);
            }
        }
        let first = self.steps.first().and_then(|(before, _)| *before);
        let mut found = Provenance::new(&content(first, read)?);
        for (before, after) in self.steps {
            found.advance(&content(*before, read)?, VersionAuthor::Person)?;
            found.advance(&content(*after, read)?, VersionAuthor::Step)?;
        }
        found.advance(&content(self.disk, read)?, VersionAuthor::Person)?;
        Ok(Some(found))
    }
}

fn content(entry: Option<Entry>, read: &Read<'_>) -> Result<Vec<u8>, CheckpointError> {
    entry.map_or_else(|| Ok(Vec::new()), read)
}

/// Applies the change from `base` to `theirs` to `ours`; `None` if both changed the same lines.
fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Option<Vec<u8>>, CheckpointError> {
    if base == theirs || ours == theirs {
        return Ok(Some(ours.to_vec()));
    }
    if ours == base {
        return Ok(Some(theirs.to_vec()));
    }
    merge_text(&[base.to_vec(), ours.to_vec(), theirs.to_vec()])
}

#[cfg(test)]
mod tests;
