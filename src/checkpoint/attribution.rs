//! Telling what a step changed from what somebody else changed at the same time.
//!
//! The work tree belongs to people, too: they edit files while a tool runs. Where it is known which
//! files the step has touched, the others are taken out of its delta and of the snapshot after it, so
//! that they are neither committed in its name nor put back. For the next step they are simply there.

use std::collections::BTreeSet;
use std::fmt;

use rustix::io::Errno;

use super::checkpointer::Checkpointer;
use super::delta::{Change, Delta};
use super::error::CheckpointError;
use super::object::FileMode;
use super::objects::Objects;
use super::path::RepoPath;
use super::snapshot::Snapshot;
use super::tree::{self, Edits};

/// What a step did, without what others did meanwhile.
#[derive(Debug)]
pub struct Attributed {
    /// The work tree as it would be if only the step had changed it.
    pub after: Snapshot,
    /// What the step changed.
    pub delta: Delta,
    /// The files that somebody else changed.
    pub outside: Vec<RepoPath>,
    /// Why some of the changes may be those of another process; none when all of them are the step's.
    pub doubt: Option<Doubt>,
}

/// What of the changes is a step's own.
#[derive(Clone, Copy)]
pub struct Ownership<'o> {
    /// Whether it touched a file or folder.
    pub has: &'o dyn Fn(&RepoPath) -> bool,
    /// Whether it touched what is staged.
    pub index: bool,
    /// Why this is not known; then everything is taken for the step's, and a roll back asks first.
    pub doubt: Option<Doubt>,
}

impl Ownership<'_> {
    /// Everything counts as the step's.
    pub const EVERYTHING: Self = Self { has: &|_| true, index: true, doubt: None };

    /// It is not known what is the step's.
    pub fn unknown(doubt: Doubt) -> Self {
        Self { doubt: Some(doubt), ..Self::EVERYTHING }
    }
}

/// Why it is not known which files a step changed and which another process changed meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// This is not Linux on a processor whose system calls piton knows.
    Platform,
    /// The kernel did not let the step be watched; the number of its error.
    Kernel(i32),
    /// The step touched more files than are remembered.
    TooMany,
    /// A process of the step had another root folder, or system calls of another architecture.
    OtherPlace,
    /// The memory of a process of the step could not be read.
    Unreadable,
    /// The program runs with the rights of another user, which a watched program cannot have.
    SetUser,
    /// What was remembered is gone: the machine was restarted, or the file was removed.
    Lost,
}

impl fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Platform => formatter.write_str("watching a command needs Linux on x86-64 or ARM64"),
            Self::Kernel(errno) => {
                let err = Errno::from_raw_os_error(*errno);
                let why = match err {
                    Errno::BUSY => "another program already watches its system calls",
                    Errno::ACCESS | Errno::PERM => "the system forbids seccomp filters",
                    _ => "the kernel has no seccomp notifications (Linux 5.5 or newer)",
                };
                write!(formatter, "{why}: {err}")
            }
            Self::TooMany => formatter.write_str("the command touched too many files to remember them"),
            Self::OtherPlace => {
                formatter.write_str("a process of the command had another root folder or another kind of system calls")
            }
            Self::Unreadable => {
                formatter.write_str("the memory of a process of the command could not be read (no `ptrace` permission)")
            }
            Self::SetUser => formatter.write_str("the program runs with the rights of another user"),
            Self::Lost => formatter.write_str("the record of the files that the command touched is gone"),
        }
    }
}

impl Checkpointer {
    /// Takes out of a delta what is not the step's own.
    pub fn attribute(
        &self,
        before: &Snapshot,
        after: Snapshot,
        delta: Delta,
        own: Ownership<'_>,
    ) -> Result<Attributed, CheckpointError> {
        // What happens inside another repository is not watched at its own path.
        let is_link =
            |change: &Change| [change.before, change.after].iter().flatten().any(|it| it.mode == FileMode::Gitlink);
        // An ignored file that git no longer tracks is gone from the snapshot, though nothing has touched the file.
        let is_untracked = |change: &Change| {
            let file = self.repository().top().join(change.path.as_path());
            own.index && change.after.is_none() && file.symlink_metadata().is_ok()
        };
        let (own_changes, foreign): (Vec<&Change>, Vec<&Change>) =
            delta.changes.iter().partition(|change| (own.has)(&change.path) || is_link(change) || is_untracked(change));
        // A folder became empty, or has something in it now, by what happened inside it.
        let own_paths: BTreeSet<&RepoPath> = own_changes.iter().map(|change| &change.path).collect();
        // What is inside a folder follows right after it, but for names that begin with that of the folder.
        let is_own_folder = |folder: &RepoPath| {
            let below = folder.join(b"");
            (own.has)(folder)
                || own_paths.range::<RepoPath, _>(&below..).next().is_some_and(|path| path.is_inside(folder))
        };
        let foreign_permissions = delta.permissions.iter().map(|change| &change.path).filter(|path| !(own.has)(path));
        let folders = delta.folders_added.iter().chain(&delta.folders_removed);
        let mut outside: Vec<RepoPath> =
            foreign.iter().map(|change| &change.path).chain(foreign_permissions).cloned().collect();
        outside.extend(folders.filter(|folder| !is_own_folder(folder)).cloned());
        outside.sort();
        outside.dedup();
        let stages = !own.index && (before.index_tree != after.index_tree || before.announced != after.announced);
        if outside.is_empty() && !stages {
            return Ok(Attributed { after, delta, outside, doubt: own.doubt });
        }
        let edits: Edits = foreign.iter().map(|change| (change.path.clone(), change.before)).collect();
        let (index_tree, announced) = if own.index {
            (after.index_tree, after.announced.clone())
        } else {
            (before.index_tree, before.announced.clone())
        };
        let objects = Objects::of(self.repository())?;
        let tree = tree::edit(&objects, after.tree, &edits)?;
        objects.stage()?;
        let mut permissions = after.permissions.clone();
        for path in &outside {
            permissions.exceptions.remove(path);
            if let Some(bits) = before.permissions.exceptions.get(path) {
                permissions.exceptions.insert(path.clone(), *bits);
            }
        }
        let after = Snapshot { tree, index_tree, commit: None, permissions, announced, ..after };
        let mut found = self.delta(before, &after)?;
        let is_outside = |path: &RepoPath| outside.binary_search(path).is_ok();
        found.permissions.retain(|change| !is_outside(&change.path));
        found.folders_added.retain(|folder| !is_outside(folder));
        found.folders_removed.retain(|folder| !is_outside(folder));
        Ok(Attributed { after, delta: found, outside, doubt: own.doubt })
    }
}
