//! What is left of recorded changes, judged by the disk and by HEAD as they are now.
//!
//! A step records what it changed; the user may commit, discard or edit that afterwards. [`judge`] decides for
//! one file: what HEAD has or the disk no longer has is dropped, what is as the step left it is to be
//! committed, and of a file that was edited since, the step's own lines are, where they can be told apart.
//! [`Checkpointer::remainder`] does that for every file of a row of recorded changes and changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::checkpointer::Checkpointer;
use super::delta::{Change, Delta, count_lines};
use super::error::CheckpointError;
use super::merge::merge_text;
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::provenance::{Author, Provenance};
use super::snapshot::{LeftOutReason, Snapshot};
use super::tree;

/// Changes that were recorded and that no checkpoint of piton holds.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// Where HEAD was before them.
    pub head: Option<ObjectId>,
    /// The changes.
    pub delta: &'a Delta,
}

/// What happens to edits that a person made in a step's files after the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditsSince {
    /// They stay out; where they cannot be told from the step's lines, the file is named.
    LeaveOut,
    /// The files are taken as they are on disk.
    Include,
}

/// What is left of recorded changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remainder {
    /// From what HEAD has to what a commit would have, in the order of the paths.
    pub changes: Vec<Change>,
    /// Files in which a step's lines cannot be told from edits made since.
    pub edited: Vec<RepoPath>,
    /// Files in which a step's lines cannot be told from the user's own from before it.
    pub overlaps: Vec<RepoPath>,
    /// Files whose edits since were included.
    pub included: Vec<RepoPath>,
    /// Which of the recorded changes something is left of, as positions in what was given.
    pub left: BTreeSet<usize>,
}

impl Remainder {
    /// Refuses a commit that would hold a part of a file only because the rest cannot be told apart.
    pub fn require_clear(&self) -> Result<(), CheckpointError> {
        match (self.overlaps.is_empty(), self.edited.is_empty()) {
            (true, true) => Ok(()),
            (false, _) => Err(CheckpointError::DirtyOverlap(self.overlaps.clone())),
            (true, false) => Err(CheckpointError::EditedSince(self.edited.clone())),
        }
    }

    /// Every file of which something is left.
    pub fn paths(&self) -> Vec<RepoPath> {
        let changed = self.changes.iter().map(|change| &change.path);
        let paths: BTreeSet<&RepoPath> = changed.chain(&self.edited).chain(&self.overlaps).collect();
        paths.into_iter().cloned().collect()
    }
}

impl Checkpointer {
    /// What is left of changes that were recorded one after the other.
    pub fn remainder(
        &self,
        now: &Snapshot,
        recorded: &[Recorded<'_>],
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
        self.filters.expect_removed(self.removed_attributes(files.keys().copied())?);
        self.clean_together_in(&objects, now.tree, files.keys().copied())?;
        let mut known_trees = BTreeMap::new();
        let mut remainder = Remainder::default();
        for (path, changes) in files {
            let head = tree::find(&objects, head_tree, path)?;
            let on_disk = tree::find(&objects, now.tree, path)?;
            let disk = self.stored_form(&objects, path, on_disk, &[head])?;
            let unseen = now.left_out.iter().find(|left| left.path == *path || path.is_inside(&left.path));
            if (unseen.is_none() && disk == head) || self.is_overlooked(path) {
                continue;
            }
            let positions: Vec<usize> = changes.iter().map(|(at, _)| *at).collect();
            if let Some(unseen) = unseen {
                // Too large by now to be read; other such places belong to another repository, or hold no file.
                if matches!(unseen.reason, LeftOutReason::TooLarge { .. }) {
                    remainder.edited.push(path.clone());
                    remainder.left.extend(positions);
                }
                continue;
            }
            let first = positions.first().and_then(|at| recorded.get(*at)).and_then(|recorded| recorded.head);
            let tree_then = match known_trees.get(&first) {
                Some(tree) => *tree,
                None => *known_trees.entry(first).or_insert(self.tree_if_there(first, head_tree)?),
            };
            let head_then = tree::find(&objects, tree_then, path)?;
            let clean = |raw| self.stored_form(&objects, path, raw, &[head, head_then]);
            let mut steps = Vec::new();
            for (at, change) in &changes {
                let before = match recorded.get(*at).and_then(|recorded| recorded.delta.stored_before(change)) {
                    Some(known) => Some(known),
                    None => clean(change.before)?,
                };
                steps.push((before, clean(change.after)?));
            }
            let story = Story { head_then, steps: &steps, head, disk };
            let (judgement, counted) = judge(&story, &|entry| objects.read(entry.id))?;
            if judgement == Judgement::Dropped {
                continue;
            }
            remainder.left.extend(positions.get(counted.clone()).unwrap_or_default());
            let is_edited = steps.get(counted).unwrap_or_default().last().is_none_or(|(_, after)| *after != disk);
            let after = match judgement {
                Judgement::Edited | Judgement::Left(_) if edits == EditsSince::Include && is_edited => {
                    remainder.included.push(path.clone());
                    on_disk
                }
                Judgement::Edited => {
                    remainder.edited.push(path.clone());
                    continue;
                }
                Judgement::Overlap => {
                    remainder.overlaps.push(path.clone());
                    continue;
                }
                Judgement::Dropped | Judgement::Left(Content::Disk) => on_disk,
                Judgement::Left(Content::Gone) => None,
                Judgement::Left(Content::Merged { mode, bytes }) => {
                    let id = objects.write_blob(&bytes)?;
                    // These are merged as git stores them: a filter must not convert them again.
                    self.filters.note_merged(path, id);
                    Some(Entry { mode, id })
                }
            };
            let (insertions, deletions) = count_lines(&objects, head, after)?;
            remainder.changes.push(Change { path: path.clone(), before: head, after, insertions, deletions });
        }
        objects.stage()?;
        Ok(remainder)
    }

    /// The files of a commit; those of HEAD where git has dropped it.
    fn tree_if_there(&self, commit: Option<ObjectId>, otherwise: ObjectId) -> Result<ObjectId, CheckpointError> {
        let Some(commit) = commit else { return Ok(self.repository.empty_tree()) };
        if self.repository.find_commit(commit)?.is_none() {
            return Ok(otherwise);
        }
        self.repository.tree_of(Some(commit))
    }
}

/// One file: what steps made of it, and what it is now. All of it as git stores it.
struct Story<'a> {
    /// What HEAD had before the first step.
    head_then: Option<Entry>,
    /// What the file was before and after each step, oldest first.
    steps: &'a [(Option<Entry>, Option<Entry>)],
    head: Option<Entry>,
    disk: Option<Entry>,
}

/// What becomes of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Judgement {
    /// Nothing is left: HEAD has it, or it was discarded.
    Dropped,
    /// A commit is to have this.
    Left(Content),
    /// Edited since, in the lines of a step.
    Edited,
    /// The step changed lines that the user had changed before it, or a file that no commit has.
    Overlap,
}

/// What a commit is to have of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// What is on disk.
    Disk,
    /// Nothing.
    Gone,
    /// What HEAD has and the steps did, without what others did.
    Merged { mode: FileMode, bytes: Vec<u8> },
}

/// Reads what a file holds.
type Read<'r> = dyn Fn(Entry) -> Result<Vec<u8>, CheckpointError> + 'r;

/// Decides what becomes of one file; the range is that of its steps which HEAD does not have and which are not
/// discarded as a whole.
fn judge(story: &Story<'_>, read: &Read<'_>) -> Result<(Judgement, Range<usize>), CheckpointError> {
    let Story { head_then, steps, head, disk } = *story;
    let end = still_there(steps, disk);
    let start = in_head(steps.get(..end).unwrap_or_default(), head);
    let steps = steps.get(start..end).unwrap_or_default();
    let Some((_, last)) = steps.last().copied().filter(|_| disk != head) else {
        return Ok((Judgement::Dropped, 0..0));
    };
    let story = Story { head_then, steps, head, disk };
    let judgement = match (head, disk) {
        _ if story.is_all_of_steps() => Judgement::Left(match disk {
            Some(_) => Content::Disk,
            None => Content::Gone,
        }),
        // The user removed what the step left, or put something where the step had removed the file.
        (_, None) if last.is_some() => Judgement::Dropped,
        (_, Some(_)) if last.is_none() => Judgement::Dropped,
        (_, None) if story.knows(head) => Judgement::Left(Content::Gone),
        (_, None) => Judgement::Overlap,
        (None, Some(disk)) => story.judge_uncommitted(disk, read)?,
        (Some(head), Some(disk)) => story.judge_committed(head, disk, read)?,
    };
    Ok((judgement, start..end))
}

/// How many steps are left when those at the end are taken away whose result was put back.
fn still_there(steps: &[(Option<Entry>, Option<Entry>)], disk: Option<Entry>) -> usize {
    let mut count = steps.len();
    while let Some((_, after)) = count.checked_sub(1).and_then(|last| steps.get(last)) {
        if *after == disk {
            break;
        }
        let earlier = steps.get(..count).unwrap_or_default();
        let Some(at) = earlier.iter().rposition(|(before, after)| *before == disk || *after == disk) else { break };
        count = if steps.get(at).is_some_and(|(_, after)| *after == disk) { at + 1 } else { at };
    }
    count
}

/// How many steps at the beginning led to what HEAD has, or were put back before the next one.
fn in_head(steps: &[(Option<Entry>, Option<Entry>)], head: Option<Entry>) -> usize {
    match steps.iter().rposition(|(before, after)| *before == head || *after == head) {
        Some(at) if steps.get(at).is_some_and(|(_, after)| *after == head) => at + 1,
        Some(at) => at,
        None => 0,
    }
}

impl Story<'_> {
    /// Whether steps alone lead from what HEAD has to what is on disk.
    fn is_all_of_steps(&self) -> bool {
        let mut at = self.head;
        self.steps.iter().all(|(before, after)| std::mem::replace(&mut at, *after) == *before) && at == self.disk
    }

    /// Whether a version is one that a step found or left.
    fn knows(&self, version: Option<Entry>) -> bool {
        self.steps.iter().any(|(before, after)| *before == version || *after == version)
    }

    /// A file that HEAD does not have.
    fn judge_uncommitted(&self, disk: Entry, read: &Read<'_>) -> Result<Judgement, CheckpointError> {
        let is_left = match self.provenance(read)? {
            Some(provenance) => provenance.reaches(b"")? || read(disk)?.is_empty(),
            None => true,
        };
        if !is_left {
            return Ok(Judgement::Dropped);
        }
        // The step that made the file, if no other process or person had it there first.
        let made = self.steps.iter().rposition(|(before, after)| before.is_none() && after.is_some());
        let was_there = self.steps.first().is_some_and(|(before, _)| before.is_some());
        let since = made.map_or(0, |at| at + 1);
        let mut at = made.and_then(|at| self.steps.get(at)).and_then(|(_, after)| *after);
        let later = self.steps.get(since..).unwrap_or_default();
        let is_pure = later.iter().all(|(before, after)| std::mem::replace(&mut at, *after) == *before);
        Ok(match made {
            Some(_) if !was_there && is_pure && at == Some(disk) => Judgement::Left(Content::Disk),
            Some(_) if !was_there => Judgement::Edited,
            _ => Judgement::Overlap,
        })
    }

    /// A file that HEAD has in another version.
    fn judge_committed(&self, head: Entry, disk: Entry, read: &Read<'_>) -> Result<Judgement, CheckpointError> {
        let is_edited = self.steps.last().is_none_or(|(_, after)| *after != Some(disk));
        let Some(provenance) = self.provenance(read)? else {
            return Ok(self.judge_opaque(head, is_edited));
        };
        let (head_text, disk_text) = (read(head)?, read(disk)?);
        if let Some(without) = self.without_steps(&disk_text, read)?
            && let Some(bytes) = merge(&without, &head_text, &disk_text)?
        {
            let mode = self.mode(head.mode, disk.mode);
            return Ok(if (mode, &bytes) == (head.mode, &head_text) {
                Judgement::Dropped
            } else if (mode, &bytes) == (disk.mode, &disk_text) {
                Judgement::Left(Content::Disk)
            } else {
                Judgement::Left(Content::Merged { mode, bytes })
            });
        }
        if !provenance.reaches(&head_text)? && self.mode(head.mode, disk.mode) == head.mode {
            return Ok(Judgement::Dropped);
        }
        Ok(if is_edited && !self.overlaps_head(&head_text, read)? { Judgement::Edited } else { Judgement::Overlap })
    }

    /// Links, other repositories and binary files: they are taken as a whole or not at all.
    fn judge_opaque(&self, head: Entry, is_edited: bool) -> Judgement {
        let found = |version| self.steps.iter().any(|(before, _)| *before == version);
        if !is_edited {
            return if self.knows(Some(head)) { Judgement::Left(Content::Disk) } else { Judgement::Overlap };
        }
        // The user may have committed a version of their own, or that of the step.
        let is_committed = Some(head) != self.head_then && !found(Some(head));
        if is_committed { Judgement::Dropped } else { Judgement::Edited }
    }

    /// What would be on disk without the steps; none where that cannot be told.
    fn without_steps(&self, disk: &[u8], read: &Read<'_>) -> Result<Option<Vec<u8>>, CheckpointError> {
        let mut text = disk.to_vec();
        for (before, after) in self.steps.iter().rev() {
            match merge(&content(*after, read)?, &text, &content(*before, read)?)? {
                Some(merged) => text = merged,
                None => return Ok(None),
            }
        }
        Ok(Some(text))
    }

    /// Whether what the steps did does not fit on top of HEAD, whatever was edited since.
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

    /// The mode for a commit: that on disk where a step set it, else that of HEAD.
    fn mode(&self, head: FileMode, disk: FileMode) -> FileMode {
        let mode = |entry: Option<Entry>| entry.map(|entry| entry.mode);
        let is_set =
            self.steps.iter().any(|(before, after)| mode(*before) != mode(*after) && mode(*after) == Some(disk));
        let is_last = self.steps.last().is_some_and(|(_, after)| mode(*after) == Some(disk));
        if is_set && is_last { disk } else { head }
    }

    /// Who wrote which lines on disk; none where a version is no text.
    fn provenance(&self, read: &Read<'_>) -> Result<Option<Provenance>, CheckpointError> {
        let states = self.steps.iter().flat_map(|(before, after)| [*before, *after]);
        let versions = states.chain([self.head, self.disk]).flatten();
        for entry in versions {
            if !entry.mode.is_file() || read(entry)?.iter().take(8000).any(|byte| *byte == 0) {
                return Ok(None);
            }
        }
        let first = self.steps.first().and_then(|(before, _)| *before);
        let mut found = Provenance::new(&content(first, read)?);
        for (before, after) in self.steps {
            found.advance(&content(*before, read)?, Author::Person)?;
            found.advance(&content(*after, read)?, Author::Step)?;
        }
        found.advance(&content(self.disk, read)?, Author::Person)?;
        Ok(Some(found))
    }
}

fn content(entry: Option<Entry>, read: &Read<'_>) -> Result<Vec<u8>, CheckpointError> {
    entry.map_or_else(|| Ok(Vec::new()), read)
}

/// Applies the change from `base` to `theirs` to `ours`; none where both changed the same lines.
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
