//! Copies content that steps need to the private store, and publishes content of commits from it.
//!
//! Recorded changes can be undone and shown as long as their journal exists, even if git prunes
//! objects: both sides of every recorded difference are copied to the store, trees included. The
//! user's object database gets only the objects of commits and the index. [`Repository::sweep`]
//! cleans up the store.

use std::collections::BTreeSet;

use git2::{ObjectType, Sort};

use super::delta::Delta;
use super::error::CheckpointError;
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::reading::PinRef;
use super::repository::Repository;
use super::snapshot::Snapshot;
use super::store::{KeptObjects, Sweep, Swept};
use super::tree::{self, Child, TreeSide};

/// The refs in which earlier versions kept snapshots and squashed commits.
const OLD_SNAPSHOTS: &str = "refs/piton/local/";
const OLD_REFS: [&str; 2] = ["refs/piton/local/*", "refs/piton/runs/*/steps"];

/// How much of a file git reads to detect binary content.
const BINARY_PROBE: usize = 8000;

/// Whether git would call the content binary.
pub(super) fn is_binary(content: &[u8]) -> bool {
    content.iter().take(BINARY_PROBE).any(|byte| *byte == 0)
}

/// A needed object, with everything that it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needed {
    Tree(ObjectId),
    /// The content of a file.
    File(ObjectId),
    /// Unknown; the object has to be read.
    Any(ObjectId),
}

/// The recorded states before and after a step.
pub type Sides<'s> = (Option<&'s Snapshot>, Option<&'s Snapshot>);

/// Copies the objects of a tree that another tree does not have.
pub(crate) fn keep_new(
    objects: &Objects<'_>,
    known: ObjectId,
    new: ObjectId,
) -> Result<(), CheckpointError> {
    let mut ids = BTreeSet::new();
    tree::visit_differences(objects, known, new, &mut |side, id| {
        ids.extend((side == TreeSide::Other).then_some(id));
        Ok(())
    })?;
    objects.copy_all(&ids)
}

/// Copies the objects in which two trees differ, from both.
fn keep_both(objects: &Objects<'_>, one: ObjectId, other: ObjectId) -> Result<(), CheckpointError> {
    let mut ids = BTreeSet::new();
    tree::visit_differences(objects, one, other, &mut |_, id| {
        ids.insert(id);
        Ok(())
    })?;
    objects.copy_all(&ids)
}

/// Copies everything that is needed to go from one state to another and back.
pub(crate) fn keep_difference(
    objects: &Objects<'_>,
    before: &Snapshot,
    after: &Snapshot,
) -> Result<(), CheckpointError> {
    keep_both(objects, before.tree, after.tree)?;
    keep_both(objects, before.index_tree, after.index_tree)
}

/// Copies the contents of changes, and the objects in which the tree of a commit differs from the
/// tree before it.
pub(crate) fn keep_changes(
    objects: &Objects<'_>,
    delta: &Delta,
    head: ObjectId,
    tree: ObjectId,
) -> Result<(), CheckpointError> {
    keep_both(objects, head, tree)?;
    let entries = delta
        .changes
        .iter()
        .flat_map(|change| [change.before, change.after])
        .flatten();
    let contents = entries.filter(|entry| entry.mode != FileMode::Gitlink);
    objects.copy_all(&contents.map(|entry| entry.id).collect())
}

impl Repository {
    /// Copies the objects of a commit that its first parent lacks to the user's object database.
    pub(crate) fn publish(
        &self,
        objects: &Objects<'_>,
        parents: &[ObjectId],
        tree: ObjectId,
    ) -> Result<(), CheckpointError> {
        if tree.is_empty_tree() {
            objects.write(ObjectType::Tree, &[])?;
        }
        keep_new(objects, self.tree_of(parents.first().copied())?, tree)
    }

    /// Keeps commits under a name, oldest first, with their differences from their parents, because
    /// no branch has them, or soon will not.
    pub fn keep_commits(&self, name: &str, commits: &[ObjectId]) -> Result<(), CheckpointError> {
        let Some(tip) = commits.last() else {
            return Ok(());
        };
        let objects = Objects::of(self)?;
        self.copy_commits(&objects, commits)?;
        objects.sync()?;
        self.store.keep(name, &[*tip])
    }

    /// Keeps a snapshot that no journal refers to.
    pub fn keep_snapshot(&self, name: &str, snapshot: &Snapshot) -> Result<(), CheckpointError> {
        self.store.keep(name, &[snapshot.tree, snapshot.index_tree])
    }

    /// The newest commit under a name.
    pub fn kept_commit(&self, name: &str) -> Result<Option<ObjectId>, CheckpointError> {
        Ok(self
            .store
            .kept(name)?
            .and_then(|kept| kept.objects.first().copied()))
    }

    /// Everything that is kept under a name.
    pub fn all_kept(&self) -> Result<Vec<KeptObjects>, CheckpointError> {
        self.store.all_kept()
    }

    /// Removes a name, so that its objects can be swept.
    pub fn release(&self, name: &str) -> Result<(), CheckpointError> {
        self.store.release(name)
    }

    /// The first missing object that is needed to go from one state to the other and back.
    pub fn find_missing(
        &self,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<Option<ObjectId>, CheckpointError> {
        let objects = Objects::of(self)?;
        let mut missing = None;
        let mut look = |_: TreeSide, id: ObjectId| {
            if missing.is_none() && !objects.is_readable(id) {
                missing = Some(id);
            }
            Ok(())
        };
        let pairs = [
            (before.tree, after.tree),
            (before.index_tree, after.index_tree),
        ];
        let looked = pairs
            .into_iter()
            .try_for_each(|(one, other)| tree::visit_differences(&objects, one, other, &mut look));
        match looked {
            // A missing tree was reported before it was read.
            Err(CheckpointError::Missing { .. }) if missing.is_some() => Ok(missing),
            looked => looked.map(|()| missing),
        }
    }

    /// A file of a tree with its content; `None` if the tree has no file there.
    pub fn file_at(
        &self,
        tree: ObjectId,
        path: &RepoPath,
    ) -> Result<Option<(Entry, Vec<u8>)>, CheckpointError> {
        let objects = Objects::of(self)?;
        match tree::find(&objects, tree, path)?.filter(|entry| entry.mode != FileMode::Gitlink) {
            Some(entry) => Ok(Some((entry, objects.read(entry.id)?))),
            None => Ok(None),
        }
    }

    /// The content of an entry.
    pub fn content_of(&self, entry: Entry) -> Result<Vec<u8>, CheckpointError> {
        Objects::of(self)?.read(entry.id)
    }

    /// Removes objects from the store that neither `needed` nor a name refers to, and that are not
    /// recent.
    pub fn sweep(&self, needed: Vec<Needed>, sweep: Sweep) -> Result<Swept, CheckpointError> {
        let kept = self
            .all_kept()?
            .into_iter()
            .flat_map(|kept| kept.objects)
            .map(Needed::Any);
        let marked = self.mark(needed.into_iter().chain(kept).collect());
        if sweep == Sweep::Remove {
            self.store
                .clear_unfinished_packs(&self.git.commondir().join("objects"));
        }
        self.store.sweep(&marked, sweep)
    }

    /// Packs the store if that is worthwhile.
    pub fn tidy_store(&self) -> Result<(), CheckpointError> {
        self.store.tidy()
    }

    /// All objects in the store that are reachable from some objects. The user's own trees refer to
    /// nothing in it.
    fn mark(&self, mut next: Vec<Needed>) -> BTreeSet<ObjectId> {
        let mut marked = BTreeSet::new();
        while let Some(needed) = next.pop() {
            let (Needed::Tree(id) | Needed::File(id) | Needed::Any(id)) = needed;
            if let Ok(Some(stand_in)) = self.store.stand_in(id)
                && marked.insert(id)
            {
                next.push(Needed::File(stand_in.stored));
            }
            if !self.store.holds(id) || !marked.insert(id) || matches!(needed, Needed::File(_)) {
                continue;
            }
            // An unreadable object refers to nothing.
            let Ok(Some((kind, data))) = self.store.read(id) else {
                continue;
            };
            match kind {
                ObjectType::Tree => {
                    next.extend(
                        tree::children(&data, self.format())
                            .into_iter()
                            .map(|child| match child {
                                Child::Folder(id) => Needed::Tree(id),
                                Child::File(id) => Needed::File(id),
                            }),
                    );
                }
                ObjectType::Commit => {
                    next.extend(named_by_commit(&data).into_iter().map(Needed::Any));
                }
                _ => {}
            }
        }
        marked
    }

    /// The refs in which earlier versions kept snapshots and commits.
    pub fn old_refs(&self) -> Result<Vec<PinRef>, CheckpointError> {
        let folder = self.git.commondir().join(OLD_SNAPSHOTS);
        let is_file = |entry: &walkdir::DirEntry| entry.file_type().is_file();
        let has_loose = walkdir::WalkDir::new(folder)
            .into_iter()
            .flatten()
            .any(|entry| is_file(&entry));
        if self.store.is_settled() && !has_loose {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for pattern in OLD_REFS {
            found.extend(self.refs_like(pattern)?);
        }
        Ok(found)
    }

    /// Copies the objects of such refs, as far as steps need them. The refs stay; this can be
    /// repeated.
    pub fn take_over(&self, refs: &[PinRef], steps: &[Sides<'_>]) -> Result<(), CheckpointError> {
        let objects = Objects::of(self)?;
        let reading = || CheckpointError::git("read the history");
        let mut walk = self.git.revwalk().map_err(reading())?;
        walk.set_sorting(Sort::NONE).map_err(reading())?;
        for pin in refs
            .iter()
            .filter(|pin| self.git.find_commit(pin.commit.into()).is_ok())
        {
            walk.push(pin.commit.into()).map_err(reading())?;
        }
        for tip in self.tips()? {
            walk.hide(tip).map_err(reading())?;
        }
        let commits: Vec<ObjectId> = walk
            .map(|id| id.map(ObjectId::from))
            .collect::<Result<_, _>>()
            .map_err(reading())?;
        self.copy_commits(&objects, &commits)?;
        for (before, after) in steps {
            for snapshot in [before, after].into_iter().flatten() {
                let head = self
                    .tree_of(snapshot.head.commit)
                    .unwrap_or(self.empty_tree());
                gone_is_gone(keep_new(&objects, head, snapshot.tree))?;
                gone_is_gone(keep_new(&objects, head, snapshot.index_tree))?;
            }
            if let (Some(before), Some(after)) = (before, after) {
                gone_is_gone(keep_difference(&objects, before, after))?;
            }
        }
        objects.sync()?;
        for pin in refs.iter().filter(|pin| !is_snapshot_of_step(&pin.name)) {
            let name = pin
                .name
                .strip_prefix(OLD_SNAPSHOTS)
                .or_else(|| pin.name.strip_prefix("refs/piton/runs/"));
            self.store.keep(name.unwrap_or(&pin.name), &[pin.commit])?;
        }
        Ok(())
    }

    /// Removes refs whose objects were copied. They are not searched again unless an earlier
    /// version runs.
    pub fn forget_old_refs(&self, refs: &[PinRef]) -> Result<(), CheckpointError> {
        let folder = self.git.commondir().join(OLD_SNAPSHOTS);
        // Stale locks of a killed earlier version would prevent the removal.
        for entry in walkdir::WalkDir::new(folder).into_iter().flatten() {
            if entry.file_type().is_file()
                && entry.path().extension().is_some_and(|end| end == "lock")
            {
                std::fs::remove_file(entry.path())
                    .map_err(CheckpointError::io("remove", entry.path()))?;
            }
        }
        self.remove_pins(refs)?;
        if self.store.is_settled() {
            Ok(())
        } else {
            self.store.settle()
        }
    }

    fn copy_commits(
        &self,
        objects: &Objects<'_>,
        commits: &[ObjectId],
    ) -> Result<(), CheckpointError> {
        for id in commits {
            objects.copy(*id)?;
            let Some(facts) = self.find_commit(*id)? else {
                continue;
            };
            let parent = match facts.parents.first() {
                Some(parent) => self.find_commit(*parent)?.map(|parent| parent.tree),
                None => None,
            };
            keep_both(objects, parent.unwrap_or(self.empty_tree()), facts.tree)?;
        }
        Ok(())
    }
}

/// Ignores objects that were pruned earlier.
fn gone_is_gone(kept: Result<(), CheckpointError>) -> Result<(), CheckpointError> {
    match kept {
        Err(CheckpointError::Missing { .. }) => Ok(()),
        kept => kept,
    }
}

/// Whether a journal refers to the objects of a ref.
fn is_snapshot_of_step(name: &str) -> bool {
    let what = name
        .strip_prefix(OLD_SNAPSHOTS)
        .and_then(|rest| rest.split('/').nth(2));
    matches!(what, Some("before" | "after" | "rescue"))
}

/// The tree and the parents in the text of a commit.
fn named_by_commit(data: &[u8]) -> Vec<ObjectId> {
    let text = String::from_utf8_lossy(data);
    let headers = text.lines().take_while(|line| !line.is_empty());
    let named = |line: &str| {
        line.strip_prefix("tree ")
            .or_else(|| line.strip_prefix("parent "))?
            .parse()
            .ok()
    };
    headers.filter_map(named).collect()
}
