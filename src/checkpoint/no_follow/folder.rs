//! Many operations on files of one folder after another, without opening its path for each.
//!
//! If another process moves the folder, the descriptor still refers to the opened folder; no link
//! leads out of it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{self as system, AtFlags, Mode};
use rustix::io::Errno;

use super::super::error::CheckpointError;
use super::super::path::RepoPath;
use super::access::{locked_in, refused_in};
use super::{
    MissingFolders, NEW_FILE, PathState, WorkTree, absent_as_none, found, read_in, read_link_in,
    temporary_name,
};
use crate::system_call::openat;

/// The last opened folder, for files that are sorted by path.
pub(crate) struct OpenFolders<'t> {
    work_tree: &'t WorkTree,
    last: Option<(RepoPath, OwnedFd)>,
    /// Whether no reason against writing to it is known.
    is_writable: bool,
}

/// Written files that are not in place yet.
pub(crate) struct Drafts<'t> {
    work_tree: &'t WorkTree,
    folder: OwnedFd,
}

impl<'t> OpenFolders<'t> {
    pub(crate) fn of(work_tree: &'t WorkTree) -> Self {
        Self {
            work_tree,
            last: None,
            is_writable: false,
        }
    }

    /// The current state; as [`WorkTree::state`].
    pub(crate) fn state(&mut self, path: &RepoPath) -> Result<Option<PathState>, CheckpointError> {
        let work_tree = self.work_tree;
        work_tree.attempt("look at", path, || {
            absent_as_none(self.parent(path).and_then(|fd| found(fd, path.file_name())))
        })
    }

    /// The bytes of a regular file with its state; as [`WorkTree::read`].
    pub(crate) fn read(
        &mut self,
        path: &RepoPath,
    ) -> Result<Option<(Vec<u8>, PathState)>, CheckpointError> {
        read_in(path, self.parent(path))
    }

    /// The target of a link; as [`WorkTree::read_link`].
    pub(crate) fn read_link(
        &mut self,
        path: &RepoPath,
    ) -> Result<Option<Vec<u8>>, CheckpointError> {
        read_link_in(path, self.parent(path))
    }

    /// Removes a file or link; as [`WorkTree::remove_file`].
    pub(crate) fn remove_file(&mut self, path: &RepoPath) -> Result<(), CheckpointError> {
        let work_tree = self.work_tree;
        work_tree.attempt("remove", path, || {
            match system::unlinkat(
                self.parent(path)?,
                OsStr::from_bytes(path.file_name()),
                AtFlags::empty(),
            ) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(err) => Err(err.into()),
            }
        })
    }

    /// Renames a draft into place.
    pub(crate) fn put(
        &mut self,
        drafts: &Drafts<'_>,
        draft: &str,
        path: &RepoPath,
    ) -> Result<(), CheckpointError> {
        let work_tree = self.work_tree;
        work_tree.attempt("write", path, || {
            let name = OsStr::from_bytes(path.file_name());
            Ok(system::renameat(
                &drafts.folder,
                draft,
                self.parent(path)?,
                name,
            )?)
        })
    }

    /// Why a file cannot be written or removed at a path; as [`WorkTree::refusal`].
    pub(crate) fn refusal(&mut self, path: &RepoPath) -> Option<io::Error> {
        let work_tree = self.work_tree;
        let Ok(folder) = self.parent(path) else {
            return work_tree.refusal(path);
        };
        if let Some(locked) = locked_in(folder.as_fd(), path.file_name()) {
            return Some(locked);
        }
        if self.is_writable {
            return None;
        }
        let refused = self
            .last
            .as_ref()
            .and_then(|(_, folder)| refused_in(folder.as_fd()));
        self.is_writable = refused.is_none();
        refused
    }

    fn parent(&mut self, path: &RepoPath) -> io::Result<&OwnedFd> {
        let folder = path.parent();
        WorkTree::require_safe(path)?;
        if self.last.as_ref().is_none_or(|(last, _)| *last != folder) {
            self.last = None;
            self.is_writable = false;
            let (fd, _) = self.work_tree.parent(path, MissingFolders::Keep)?;
            self.last = Some((folder, fd));
        }
        self.last
            .as_ref()
            .map(|(_, fd)| fd)
            .ok_or_else(|| Errno::NOENT.into())
    }
}

impl<'t> Drafts<'t> {
    /// Drafts are in the git folder; `None` if that is on another file system.
    pub(crate) fn of(work_tree: &'t WorkTree) -> Result<Option<Self>, CheckpointError> {
        let opening = || CheckpointError::io("open", &work_tree.temporary);
        let folder = work_tree.temporary_folder().map_err(opening())?;
        let device = |fd: &OwnedFd| system::fstat(fd).map(|stat| stat.st_dev);
        let same = device(&folder).and_then(|one| Ok(one == device(&work_tree.fd)?));
        let same = same.map_err(|err| opening()(err.into()))?;
        Ok(same.then_some(Self { work_tree, folder }))
    }

    /// Writes a draft of a file; returns its name. It is not synced before [`Self::bring`].
    pub(crate) fn write(
        &self,
        path: &RepoPath,
        bytes: &[u8],
        permissions: u32,
    ) -> Result<String, CheckpointError> {
        let name = temporary_name();
        let written = self.work_tree.attempt("write", path, || {
            let mode = Mode::from_bits_truncate(0o600);
            let file = openat(&self.folder, &name, NEW_FILE, mode)?;
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

    /// Syncs all drafts.
    pub(crate) fn bring(&self) -> Result<(), CheckpointError> {
        let bringing = CheckpointError::io("write to disk", &self.work_tree.temporary);
        self.work_tree.disk.bring_others().map_err(bringing)
    }

    /// Removes an unused draft.
    pub(crate) fn remove(&self, draft: &str) {
        // The next recovery removes leftovers with piton's name.
        let _ = system::unlinkat(&self.folder, draft, AtFlags::empty());
    }
}
