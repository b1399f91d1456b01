//! Files that a snapshot would leave out, but that the snapshot before the step has.
//!
//! A step can make such a file too large, turn it into a pipe, or make its folder a nested
//! repository. The snapshot after the step holds these files all the same, so that the change is
//! judged and can be rolled back. Only files that are new to piton stay outside.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use super::checkpointer::Checkpointer;
use super::error::CheckpointError;
use super::no_follow::PathState;
use super::object::{Entry, FileMode};
use super::objects::Objects;
use super::path::RepoPath;
use super::scan::{Executable, WorkTreeScan};
use super::snapshot::{LeftOut, LeftOutReason, Snapshot};
use super::tree::{self, Edits};

/// Larger files are not held: a file is in memory while it is read.
const MOST: u64 = 1 << 30;

/// A file as it is on disk, with its permission bits unless it is a link.
pub(super) type FoundFile = (Entry, Option<u32>);

/// A moment, as files have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime {
    pub seconds: i64,
    pub nanos: i64,
}

impl FileTime {
    /// When a file was made; when it last changed if the file system does not record that.
    pub fn of_birth(file: &Metadata) -> Self {
        let made = file.created().ok();
        let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let seconds = made.and_then(|made| i64::try_from(made.as_secs()).ok());
        match (seconds, made) {
            (Some(seconds), Some(made)) => Self {
                seconds,
                nanos: made.subsec_nanos().into(),
            },
            _ => Self::of_change(file),
        }
    }

    fn of_change(file: &Metadata) -> Self {
        Self {
            seconds: file.ctime(),
            nanos: file.ctime_nsec(),
        }
    }
}

impl Checkpointer {
    /// Adds the files to a snapshot that it would leave out although the snapshot before the step
    /// has them.
    pub(super) fn hold_known(
        &self,
        objects: &Objects<'_>,
        before: &Snapshot,
        scan: &mut WorkTreeScan,
        edits: &mut Edits,
    ) -> Result<(), CheckpointError> {
        let is_new = |left: &LeftOut| {
            let known = before.left_out.iter().find(|old| old.path == left.path);
            known.is_none_or(|old| old.held)
        };
        let mut room = self.room()?;
        let mut left_out = std::mem::take(&mut scan.left_out);
        let mut unheld = Vec::new();
        for left in left_out.iter_mut().filter(|left| is_new(left)) {
            match left.reason {
                LeftOutReason::TooLarge { size, .. } => {
                    let is_known = tree::find(objects, before.tree, &left.path)?.is_some();
                    if is_known && size <= room {
                        left.held = self.hold(objects, &left.path, room, scan, edits)?;
                        room -= size;
                    }
                }
                LeftOutReason::SpecialFile => {
                    left.held = tree::find(objects, before.tree, &left.path)?.is_some();
                }
                LeftOutReason::NestedRepository => {
                    for path in self.unseen_below(objects, before, &left.path, edits)? {
                        let size = match self.work_tree.state(&path)? {
                            None | Some(PathState::Folder { .. }) => continue,
                            Some(PathState::File { size, .. }) => size,
                            Some(_) => 0,
                        };
                        let fits = size <= self.options.max_file_size.min(room);
                        room -= if fits { size } else { 0 };
                        if !fits || !self.hold(objects, &path, size, scan, edits)? {
                            unheld.push(LeftOut {
                                path,
                                held: false,
                                reason: LeftOutReason::NestedRepository,
                            });
                        }
                    }
                    left.held = tree::has_folder(objects, before.tree, &left.path)?;
                }
                LeftOutReason::Overlooked | LeftOutReason::Unreadable => {}
            }
        }
        left_out.extend(unheld);
        left_out.sort();
        scan.left_out = left_out;
        Ok(())
    }

    /// Which of these paths have a file that changed since a moment, and that none of
    /// these snapshots has: git ignores it, or it is in a nested repository.
    pub fn changed_unheld(
        &self,
        paths: Vec<RepoPath>,
        snapshots: [&Snapshot; 2],
        since: FileTime,
    ) -> Result<Vec<RepoPath>, CheckpointError> {
        let (top, git_dir) = (self.repository.top(), self.repository.git_dir());
        let is_changed = |path: &RepoPath| {
            let file = top.join(path.as_path());
            let found = file.symlink_metadata();
            !file.starts_with(git_dir)
                && found.is_ok_and(|file| !file.is_dir() && FileTime::of_change(&file) >= since)
        };
        let changed = paths.into_iter().filter(is_changed);
        self.unheld(changed, &snapshots)
    }

    /// Which of these paths, with the births of their files, had one before a moment that is gone now,
    /// and that the snapshot of that moment does not have.
    pub fn removed_unheld(
        &self,
        paths: Vec<(RepoPath, FileTime)>,
        before: &Snapshot,
        since: FileTime,
    ) -> Result<Vec<RepoPath>, CheckpointError> {
        let (top, git_dir) = (self.repository.top(), self.repository.git_dir());
        let is_removed = |path: &RepoPath| {
            let file = top.join(path.as_path());
            !file.starts_with(git_dir) && file.symlink_metadata().is_err()
        };
        let old = paths.into_iter().filter(|(_, born)| *born < since);
        let removed = old.map(|(path, _)| path).filter(is_removed);
        self.unheld(removed, &[before])
    }

    /// The paths at which none of these snapshots has a file or a folder.
    fn unheld(
        &self,
        paths: impl Iterator<Item = RepoPath>,
        snapshots: &[&Snapshot],
    ) -> Result<Vec<RepoPath>, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let mut found = Vec::new();
        for path in paths {
            let mut is_held = false;
            for snapshot in snapshots {
                is_held |= tree::find(&objects, snapshot.tree, &path)?.is_some()
                    || tree::has_folder(&objects, snapshot.tree, &path)?;
            }
            if !is_held {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// The files of the work tree that changed since a moment, also those that git ignores, for a step
    /// whose touched files are not known.
    pub fn changed_since(&self, since: FileTime) -> Vec<RepoPath> {
        let (top, git_dir) = (self.repository.top(), self.repository.git_dir());
        let mut found = Vec::new();
        let mut folders = vec![RepoPath::default()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(top.join(folder.as_path()));
            for entry in entries.into_iter().flatten().flatten() {
                let path = folder.join(entry.file_name().as_bytes());
                match entry.metadata() {
                    Ok(file) if file.is_dir() && entry.path() != git_dir => folders.push(path),
                    Ok(file) if !file.is_dir() && FileTime::of_change(&file) >= since => {
                        found.push(path);
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// When the last snapshot began, by the clock of the file system.
    pub fn last_snapshot_began(&self) -> FileTime {
        let (seconds, nanos) = self.cache.began();
        FileTime {
            seconds: seconds.into(),
            nanos: nanos.into(),
        }
    }

    /// The untracked files of the snapshot before that are below a new nested repository: the scan
    /// looks at tracked files only.
    fn unseen_below(
        &self,
        objects: &Objects<'_>,
        before: &Snapshot,
        folder: &RepoPath,
        edits: &Edits,
    ) -> Result<Vec<RepoPath>, CheckpointError> {
        let Some(tree) = tree::find_folder(objects, before.tree, folder)? else {
            return Ok(Vec::new());
        };
        let below = tree::everything(objects, tree)?.into_iter();
        let below = below.map(|path| folder.join(path.as_bytes()));
        Ok(below
            .filter(|path| self.index.entry_at(path).is_none() && !edits.contains_key(path))
            .collect())
    }

    /// Adds one file; returns whether it could be read.
    fn hold(
        &self,
        objects: &Objects<'_>,
        path: &RepoPath,
        most: u64,
        scan: &mut WorkTreeScan,
        edits: &mut Edits,
    ) -> Result<bool, CheckpointError> {
        let Some((entry, permissions)) = self.file_on_disk(objects, path, most)? else {
            return Ok(false);
        };
        if let Some(permissions) = permissions {
            let exceptions = &mut scan.permissions.exceptions;
            exceptions.insert(path.clone(), permissions);
        }
        edits.insert(path.clone(), Some(entry));
        Ok(true)
    }

    /// Stores the file at a path; `None` if there is no file, or a larger one.
    pub(super) fn file_on_disk(
        &self,
        objects: &Objects<'_>,
        path: &RepoPath,
        most: u64,
    ) -> Result<Option<FoundFile>, CheckpointError> {
        let (mode, permissions, content) = match self.work_tree.state(path)? {
            Some(PathState::Symlink { .. }) => {
                (FileMode::Symlink, None, self.work_tree.read_link(path)?)
            }
            Some(PathState::File {
                size, permissions, ..
            }) if size <= most => {
                let is_executable = match self.disk_kinds().executable {
                    Executable::FromDisk => permissions & 0o100 != 0,
                    Executable::FromIndex => self
                        .index
                        .entry_at(path)
                        .is_some_and(|entry| entry.mode == FileMode::Executable),
                };
                let mode = if is_executable {
                    FileMode::Executable
                } else {
                    FileMode::Regular
                };
                (mode, Some(permissions), self.work_tree.read_if_file(path)?)
            }
            _ => return Ok(None),
        };
        let Some(content) = content else {
            return Ok(None);
        };
        let id = objects.write_blob(&content)?;
        Ok(Some((Entry { mode, id }, permissions)))
    }

    /// How many bytes may be stored: the disk needs the same room again for a restore.
    fn room(&self) -> Result<u64, CheckpointError> {
        let folder = self.repository.git_dir();
        let found = rustix::fs::statvfs(folder)
            .map_err(|err| CheckpointError::io("look at", folder)(err.into()))?;
        let available = found.f_bavail.saturating_mul(found.f_frsize) / 2;
        Ok(available.min(self.options.max_total_size).min(MOST))
    }
}
