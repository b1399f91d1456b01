//! Separates the changes of a step from concurrent changes of other processes.
//!
//! People edit files of the work tree while a tool runs. If it is known which files the step
//! touched, all others are removed from its delta and from the snapshot after it, so that they are
//! neither committed in its name nor rolled back. The next step starts with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rustix::io::Errno;

use super::checkpointer::Checkpointer;
use super::delta::{Change, Delta};
use super::error::CheckpointError;
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::snapshot::Snapshot;
use super::tree::{self, Edits};

/// The changes of a step, without concurrent changes of others.
#[derive(Debug)]
pub struct Attributed {
    /// The work tree as if only the step had changed it.
    pub after: Snapshot,
    pub delta: Delta,
    /// The files that another process changed.
    pub outside: Vec<RepoPath>,
    /// Why some changes may belong to another process; `None` if all are the step's.
    pub doubt: Option<Doubt>,
}

/// Which changes belong to a step.
#[derive(Clone, Copy)]
pub struct Ownership<'o> {
    /// Whether it touched a file or folder.
    pub has: &'o dyn Fn(&RepoPath) -> bool,
    /// Whether it touched the index.
    pub index: bool,
    /// The only paths whose entries in the index it changed, if known.
    pub staged: Option<&'o BTreeSet<RepoPath>>,
    /// Whether it touched the definition of the sparse checkout.
    pub definition: bool,
    /// The exact content that it left at its paths, if known: any other content there is the work of
    /// another process.
    pub left: Option<&'o BTreeMap<RepoPath, Option<Entry>>>,
    /// Why this is unknown; then everything is attributed to the step, and a roll back asks first.
    pub doubt: Option<Doubt>,
}

impl Ownership<'_> {
    /// Everything belongs to the step.
    pub const EVERYTHING: Self = Self {
        has: &|_| true,
        index: true,
        staged: None,
        definition: true,
        left: None,
        doubt: None,
    };

    /// The ownership is unknown.
    pub fn unknown(doubt: Doubt) -> Self {
        Self {
            doubt: Some(doubt),
            ..Self::EVERYTHING
        }
    }
}

/// Why it is unknown which files a step changed and which another process changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The platform is not Linux, or has system calls that piton does not know.
    Platform,
    /// The kernel refused to observe the step; the error number.
    Kernel(i32),
    /// The step touched more files than piton records.
    TooMany,
    /// A process of the step had another root folder, changed what is mounted, or used system calls of
    /// another architecture.
    OtherPlace,
    /// The memory of a process of the step could not be read.
    Unreadable,
    /// The program is setuid, which does not work for an observed program.
    SetUser,
    /// The log is gone: the machine was restarted, or the file was removed.
    Lost,
}

impl fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Platform => {
                formatter.write_str("watching a command needs Linux on x86-64 or ARM64")
            }
            Self::Kernel(errno) => {
                let err = Errno::from_raw_os_error(*errno);
                let why = match err {
                    Errno::BUSY => "another program already watches its system calls",
                    Errno::ACCESS | Errno::PERM => "the system forbids seccomp filters",
                    _ => "the kernel has no seccomp notifications (Linux 5.5 or newer)",
                };
                write!(formatter, "{why}: {err}")
            }
            Self::TooMany => {
                formatter.write_str("the command touched too many files to remember them")
            }
            Self::OtherPlace => formatter.write_str(
                "a process of the command had another root folder or another kind of system calls",
            ),
            Self::Unreadable => formatter.write_str(
                "the memory of a process of the command could not be read (no `ptrace` permission)",
            ),
            Self::SetUser => {
                formatter.write_str("the program runs with the rights of another user")
            }
            Self::Lost => {
                formatter.write_str("the record of the files that the command touched is gone")
            }
        }
    }
}

impl Checkpointer {
    /// Removes changes of others from a delta.
    pub fn attribute(
        &self,
        before: &Snapshot,
        after: Snapshot,
        delta: Delta,
        own: Ownership<'_>,
    ) -> Result<Attributed, CheckpointError> {
        // Writes inside a nested repository are not observed at the path of its gitlink.
        let is_link = |change: &Change| {
            [change.before, change.after]
                .iter()
                .flatten()
                .any(|it| it.mode == FileMode::Gitlink)
        };
        // If git stops tracking an ignored file, it leaves the snapshot although the file was not
        // touched.
        let is_untracked = |change: &Change| {
            let file = self.repository().top().join(change.path.as_path());
            own.index && change.after.is_none() && file.symlink_metadata().is_ok()
        };
        let (own_changes, foreign): (Vec<&Change>, Vec<&Change>) = delta
            .changes
            .iter()
            .partition(|change| (own.has)(&change.path) || is_link(change) || is_untracked(change));
        // A folder became empty or non-empty because of changes inside it.
        let own_paths: BTreeSet<&RepoPath> =
            own_changes.iter().map(|change| &change.path).collect();
        // Sorted paths: the content of a folder follows right after it, except for names with the
        // same prefix.
        let is_own_folder = |folder: &RepoPath| {
            let below = folder.join(b"");
            (own.has)(folder)
                || own_paths
                    .range::<RepoPath, _>(&below..)
                    .next()
                    .is_some_and(|path| path.is_inside(folder))
        };
        let foreign_permissions = delta
            .permissions
            .iter()
            .map(|change| &change.path)
            .filter(|path| !(own.has)(path));
        let folders = delta.folders_added.iter().chain(&delta.folders_removed);
        let mut outside: Vec<RepoPath> = foreign
            .iter()
            .map(|change| &change.path)
            .chain(foreign_permissions)
            .cloned()
            .collect();
        outside.extend(folders.filter(|folder| !is_own_folder(folder)).cloned());
        outside.sort();
        outside.dedup();
        let objects = Objects::of(self.repository())?;
        let edited = self.edited_since(&objects, before, &delta, own)?;
        let (index_tree, announced) = own_index(&objects, before, &after, own)?;
        let stages = index_tree != after.index_tree || announced != after.announced;
        if outside.is_empty() && edited.is_empty() && !stages {
            return Ok(Attributed {
                after,
                delta,
                outside,
                doubt: own.doubt,
            });
        }
        let mut edits: Edits = foreign
            .iter()
            .map(|change| (change.path.clone(), change.before))
            .collect();
        edits.extend(edited.iter().cloned());
        let tree = tree::edit(&objects, after.tree, &edits)?;
        objects.stage()?;
        let mut permissions = after.permissions.clone();
        for path in &outside {
            permissions.exceptions.remove(path);
            if let Some(bits) = before.permissions.exceptions.get(path) {
                permissions.exceptions.insert(path.clone(), *bits);
            }
        }
        let after = Snapshot {
            tree,
            index_tree,
            commit: None,
            permissions,
            announced,
            ..after
        };
        let mut found = self.delta(before, &after)?;
        let is_outside = |path: &RepoPath| outside.binary_search(path).is_ok();
        found.permissions.retain(|change| !is_outside(&change.path));
        found.folders_added.retain(|folder| !is_outside(folder));
        found.folders_removed.retain(|folder| !is_outside(folder));
        // The step wrote these files, and another process did so after it.
        outside.extend(edited.into_iter().map(|(path, _)| path));
        outside.sort();
        outside.dedup();
        Ok(Attributed {
            after,
            delta: found,
            outside,
            doubt: own.doubt,
        })
    }

    /// The files of a step that have other content than the step left there, with what it left.
    fn edited_since(
        &self,
        objects: &Objects<'_>,
        before: &Snapshot,
        delta: &Delta,
        own: Ownership<'_>,
    ) -> Result<Vec<(RepoPath, Option<Entry>)>, CheckpointError> {
        let mut edited = Vec::new();
        for (path, left) in own.left.into_iter().flatten() {
            let changes = &delta.changes;
            let now = match changes.binary_search_by(|change| change.path.cmp(path)) {
                Ok(at) => changes.get(at).and_then(|change| change.after),
                Err(_) => tree::find(objects, before.tree, path)?,
            };
            let file = self.repository().top().join(path.as_path());
            let is_not_captured = || now.is_none() && file.symlink_metadata().is_ok();
            // Modes are not compared: not every file system keeps them.
            if now.map(|entry| entry.id) != left.map(|entry| entry.id) && !is_not_captured() {
                edited.push((path.clone(), *left));
            }
        }
        Ok(edited)
    }
}

/// The index as if only the step had changed it: its tree, and the files of `git add -N`.
fn own_index(
    objects: &Objects<'_>,
    before: &Snapshot,
    after: &Snapshot,
    own: Ownership<'_>,
) -> Result<(ObjectId, Vec<RepoPath>), CheckpointError> {
    if !own.index {
        return Ok((before.index_tree, before.announced.clone()));
    }
    let Some(staged) = own.staged else {
        return Ok((after.index_tree, after.announced.clone()));
    };
    let mut edits = Edits::new();
    for path in staged {
        edits.insert(path.clone(), tree::find(objects, after.index_tree, path)?);
    }
    let kept = before
        .announced
        .iter()
        .filter(|path| !staged.contains(*path));
    let made = after.announced.iter().filter(|path| staged.contains(*path));
    let mut announced: Vec<RepoPath> = kept.chain(made).cloned().collect();
    announced.sort();
    Ok((tree::edit(objects, before.index_tree, &edits)?, announced))
}
