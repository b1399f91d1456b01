//! Many operations on the files of one folder after another, without opening its path again for each.
//!
//! A folder that another process moves meanwhile stays the folder that was opened; nothing is followed out of it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{self as system, AtFlags, Mode};
use rustix::io::{Errno, retry_on_intr};

use super::super::error::CheckpointError;
use super::super::path::RepoPath;
use super::access::{locked_in, refused_in};
use super::{Found, Missing, NEW_FILE, WorkTree, absent_as_none, found, read_in, read_link_in, temporary_name};

/// The folder that was opened last, for files that come in the order of their paths.
pub(crate) struct Folders<'t> {
    work_tree: &'t WorkTree,
    last: Option<(RepoPath, OwnedFd)>,
    /// Whether nothing speaks against writing in the last one.
    is_writable: bool,
}

/// Files that are written and not in their places yet.
pub(crate) struct Drafts<'t> {
    work_tree: &'t WorkTree,
    folder: OwnedFd,
}

impl<'t> Folders<'t> {
    pub(crate) fn of(work_tree: &'t WorkTree) -> Self {
        Self { work_tree, last: None, is_writable: false }
    }

    /// What is there now; as [`WorkTree::state`].
    pub(crate) fn state(&mut self, path: &RepoPath) -> Result<Option<Found>, CheckpointError> {
        let work_tree = self.work_tree;
        work_tree
            .attempt("look at", path, || absent_as_none(self.parent(path).and_then(|fd| found(fd, path.file_name()))))
    }

    /// The bytes of a regular file with its state; as [`WorkTree::read`].
    pub(crate) fn read(&mut self, path: &RepoPath) -> Result<Option<(Vec<u8>, Found)>, CheckpointError> {
        read_in(path, self.parent(path))
    }

    /// The target of a link; as [`WorkTree::read_link`].
    pub(crate) fn read_link(&mut self, path: &RepoPath) -> Result<Option<Vec<u8>>, CheckpointError> {
        read_link_in(path, self.parent(path))
    }

    /// Removes a file or link; as [`WorkTree::remove_file`].
    pub(crate) fn remove_file(&mut self, path: &RepoPath) -> Result<(), CheckpointError> {
        let work_tree = self.work_tree;
        work_tree.attempt("remove", path, || {
            match system::unlinkat(self.parent(path)?, OsStr::from_bytes(path.file_name()), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(err) => Err(err.into()),
            }
        })
    }

    /// Moves a draft into its place.
    pub(crate) fn put(&mut self, drafts: &Drafts<'_>, draft: &str, path: &RepoPath) -> Result<(), CheckpointError> {
        let work_tree = self.work_tree;
        work_tree.attempt("write", path, || {
            let name = OsStr::from_bytes(path.file_name());
            Ok(system::renameat(&drafts.folder, draft, self.parent(path)?, name)?)
        })
    }

    /// Why a file cannot be put at a path or removed from it; as [`WorkTree::refusal`].
    pub(crate) fn refusal(&mut self, path: &RepoPath) -> Option<io::Error> {
        let work_tree = self.work_tree;
        let Ok(folder) = self.parent(path) else { return work_tree.refusal(path) };
        if let Some(locked) = locked_in(folder.as_fd(), path.file_name()) {
            return Some(locked);
        }
        if self.is_writable {
            return None;
        }
        let refused = self.last.as_ref().and_then(|(_, folder)| refused_in(folder.as_fd()));
        self.is_writable = refused.is_none();
        refused
    }

    fn parent(&mut self, path: &RepoPath) -> io::Result<&OwnedFd> {
        let folder = path.parent();
        WorkTree::require_safe(path)?;
        if self.last.as_ref().is_none_or(|(last, _)| *last != folder) {
            self.last = None;
            self.is_writable = false;
            let (fd, _) = self.work_tree.parent(path, Missing::Keep)?;
            self.last = Some((folder, fd));
        }
        self.last.as_ref().map(|(_, fd)| fd).ok_or_else(|| Errno::NOENT.into())
    }
}

impl<'t> Drafts<'t> {
    /// Drafts lie beside the work tree, in the git directory; none if that is another file system.
    pub(crate) fn of(work_tree: &'t WorkTree) -> Result<Option<Self>, CheckpointError> {
        let opening = || CheckpointError::io("open", &work_tree.temporary);
        let folder = work_tree.temporary_folder().map_err(opening())?;
        let device = |fd: &OwnedFd| system::fstat(fd).map(|stat| stat.st_dev);
        let same = device(&folder).and_then(|one| Ok(one == device(&work_tree.fd)?));
        let same = same.map_err(|err| opening()(err.into()))?;
        Ok(same.then_some(Self { work_tree, folder }))
    }

    /// Writes a draft of a file; returns its name. Its bytes are not on disk before [`Self::bring`].
    pub(crate) fn write(&self, path: &RepoPath, bytes: &[u8], permissions: u32) -> Result<String, CheckpointError> {
        let name = temporary_name();
        let written = self.work_tree.attempt("write", path, || {
            let mode = Mode::from_bits_truncate(0o600);
            let file = retry_on_intr(|| system::openat(&self.folder, &name, NEW_FILE, mode))?;
            let mut file = File::from(file);
            file.write_all(bytes)?;
            system::fchmod(&file, Mode::from_bits_truncate(permissions))?;
            self.work_tree.disk.stage_with_others(&file)
        });
        if written.is_err() {
            self.remove(&name);
        }
        written.map(|()| name)
    }

    /// Brings all drafts to the disk.
    pub(crate) fn bring(&self) -> Result<(), CheckpointError> {
        let bringing = CheckpointError::io("write to disk", &self.work_tree.temporary);
        self.work_tree.disk.bring_others().map_err(bringing)
    }

    /// Removes a draft that is not needed.
    pub(crate) fn remove(&self, draft: &str) {
        // What is left over is named as piton's, and removed by the next recovery.
        let _ = system::unlinkat(&self.folder, draft, AtFlags::empty());
    }
}
