//! Accesses the files of a work tree from its top without passing through a link.
//!
//! Every operation opens the folders of a path one after the other with `O_NOFOLLOW`, so that a
//! folder that became a link is an error and never a way out (`HAZARDS.md` H3). All of them refuse
//! paths that are not [`is_safe`]. [`WorkTree`] is the type to read first.

mod access;
mod folder;
mod name;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self as system, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::CheckpointError;
use super::path::RepoPath;
use super::scratch;
use super::stat::Stat;
use crate::disk::{Disk, Fsync, create_private_folder};
use crate::failpoint::failpoint;
use crate::system_call::{open, openat};

pub(crate) use folder::{Drafts, OpenFolders};
pub(crate) use name::{is_safe, is_safe_name};

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Non-blocking, so that opening a pipe in the place of a file does not hang.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Numbers the temporary files of this process.
static TEMPORARY_FILES: AtomicU64 = AtomicU64::new(0);

/// A work tree that is open for reading and writing below its top.
#[derive(Debug)]
pub(crate) struct WorkTree {
    top: PathBuf,
    fd: OwnedFd,
    /// The folder for files before they are renamed into place: `<git dir>/piton/tmp`.
    temporary: PathBuf,
    disk: Disk,
}

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathState {
    File {
        permissions: u32,
        stat: Stat,
        /// The full size; [`Stat::size`] is truncated to 32 bits.
        size: u64,
        /// When it was last changed, in nanoseconds since 1970.
        modified: i64,
    },
    Symlink {
        stat: Stat,
    },
    Folder {
        permissions: u32,
    },
    /// A pipe, socket or device.
    Special,
}

/// What to do if a parent folder is missing.
#[derive(Clone, Copy)]
enum MissingFolders {
    Make,
    Keep,
}

impl WorkTree {
    /// Opens the top folder; its own path may contain links.
    pub(crate) fn open(
        top: &Path,
        temporary: &Path,
        fsync: Fsync,
    ) -> Result<Self, CheckpointError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(top, flags, Mode::empty()).map_err(io::Error::from);
        let fd = fd.map_err(CheckpointError::io("open", top))?;
        let disk = Disk::of(top, fsync);
        Ok(Self {
            top: top.to_owned(),
            fd,
            temporary: temporary.to_owned(),
            disk,
        })
    }

    /// The open top folder.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The current state; `None` if nothing exists, or if a parent is not a folder.
    pub(crate) fn state(&self, path: &RepoPath) -> Result<Option<PathState>, CheckpointError> {
        self.attempt("look at", path, || {
            let found = self
                .parent(path, MissingFolders::Keep)
                .and_then(|(parent, name)| found(&parent, name));
            absent_as_none(found)
        })
    }

    /// The bytes of a regular file, with its state while they were read; `None` if there is no
    /// regular file.
    ///
    /// A file that was written to meanwhile is [`CheckpointError::Changing`].
    pub(crate) fn read(
        &self,
        path: &RepoPath,
    ) -> Result<Option<(Vec<u8>, PathState)>, CheckpointError> {
        read_in(
            path,
            self.parent(path, MissingFolders::Keep)
                .map(|(parent, _)| parent),
        )
    }

    /// All files and links below a folder, including ignored ones; links are not followed.
    pub(crate) fn files_below(&self, folder: &RepoPath) -> Result<Vec<RepoPath>, CheckpointError> {
        let mut found = Vec::new();
        let mut folders = vec![folder.clone()];
        while let Some(folder) = folders.pop() {
            let path = self.top.join(folder.as_path());
            let reading = || CheckpointError::io("read the folder", &path);
            for entry in std::fs::read_dir(&path).map_err(reading())? {
                let entry = entry.map_err(reading())?;
                let child = folder.join(entry.file_name().as_bytes());
                let is_folder = entry.file_type().map_err(reading())?.is_dir();
                if is_folder {
                    folders.push(child);
                } else {
                    found.push(child);
                }
            }
        }
        Ok(found)
    }

    /// The bytes of a regular file; `None` if there is none.
    pub(crate) fn read_if_file(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, CheckpointError> {
        Ok(self.read(path)?.map(|(bytes, _)| bytes))
    }

    /// The target of a link; `None` if there is no link.
    pub(crate) fn read_link(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, CheckpointError> {
        read_link_in(
            path,
            self.parent(path, MissingFolders::Keep)
                .map(|(parent, _)| parent),
        )
    }

    /// Writes a file atomically, replacing a file or link.
    pub(crate) fn write_file(
        &self,
        path: &RepoPath,
        bytes: &[u8],
        permissions: u32,
    ) -> Result<(), CheckpointError> {
        self.put(path, &|folder, name| {
            let mode = Mode::from_bits_truncate(0o600);
            let mut file = File::from(openat(folder, name, NEW_FILE, mode)?);
            file.write_all(bytes)?;
            system::fchmod(&file, Mode::from_bits_truncate(permissions))?;
            self.disk.stage(&file)
        })
    }

    /// Writes a link atomically, replacing a file or link.
    pub(crate) fn write_link(&self, path: &RepoPath, target: &[u8]) -> Result<(), CheckpointError> {
        self.put(path, &|folder, name| {
            Ok(system::symlinkat(OsStr::from_bytes(target), folder, name)?)
        })
    }

    /// Removes a file or link; a folder is an error, a missing file is not.
    pub(crate) fn remove_file(&self, path: &RepoPath) -> Result<(), CheckpointError> {
        self.attempt("remove", path, || {
            let (parent, name) = self.parent(path, MissingFolders::Keep)?;
            match system::unlinkat(&parent, OsStr::from_bytes(name), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(err) => Err(err.into()),
            }
        })
    }

    /// Removes an empty folder. Leaves everything else alone.
    pub(crate) fn remove_folder_if_empty(&self, path: &RepoPath) -> Result<(), CheckpointError> {
        self.attempt("remove", path, || {
            let removed = self
                .parent(path, MissingFolders::Keep)
                .and_then(|(parent, name)| {
                    Ok(system::unlinkat(
                        &parent,
                        OsStr::from_bytes(name),
                        AtFlags::REMOVEDIR,
                    )?)
                });
            match removed.as_ref().map_err(Errno::from_io_error) {
                Err(Some(
                    Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NOTEMPTY | Errno::EXIST,
                )) => Ok(()),
                _ => removed,
            }
        })
    }

    /// Creates a folder with these permission bits, or sets them on an existing one.
    pub(crate) fn make_folder(
        &self,
        path: &RepoPath,
        permissions: u32,
    ) -> Result<(), CheckpointError> {
        self.attempt("make the folder", path, || {
            let (parent, name) = self.parent(path, MissingFolders::Make)?;
            let folder = make_folder(&parent, name)?;
            Ok(system::fchmod(
                &folder,
                Mode::from_bits_truncate(permissions),
            )?)
        })
    }

    /// Sets the permission bits of a file or folder. Ignores links and special files.
    pub(crate) fn set_permissions(
        &self,
        path: &RepoPath,
        permissions: u32,
    ) -> Result<(), CheckpointError> {
        let mode = Mode::from_bits_truncate(permissions);
        self.attempt("change the permissions of", path, || {
            let (parent, name) = self.parent(path, MissingFolders::Keep)?;
            match found(&parent, name)? {
                Some(PathState::File { .. } | PathState::Folder { .. }) => {}
                Some(PathState::Symlink { .. } | PathState::Special) => return Ok(()),
                None => return Err(Errno::NOENT.into()),
            }
            match openat(&parent, OsStr::from_bytes(name), FILE, Mode::empty()) {
                Ok(file) => Ok(system::fchmod(&file, mode)?),
                // A file that its owner may not read can be opened as a path only.
                Err(Errno::ACCESS) => {
                    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let file = openat(&parent, OsStr::from_bytes(name), flags, Mode::empty())?;
                    match PathState::of(&system::fstat(&file)?) {
                        PathState::Symlink { .. } | PathState::Special => Ok(()),
                        _ => Ok(system::chmod(
                            format!("/proc/self/fd/{}", file.as_raw_fd()),
                            mode,
                        )?),
                    }
                }
                Err(err) => Err(err.into()),
            }
        })
    }

    /// Stages created, renamed and removed names.
    pub(crate) fn stage_names(&self) -> Result<(), CheckpointError> {
        self.disk
            .stage_folder(&self.top)
            .map_err(CheckpointError::io("write to disk", &self.top))
    }

    /// The time of the file system's clock: seconds and nanoseconds.
    ///
    /// The clock of the process is ahead of it by up to a tick, or by a second on coarse file
    /// systems.
    pub(crate) fn now(&self) -> Result<(u32, u32), CheckpointError> {
        let stamp = || {
            let (folder, name) = (self.temporary_folder()?, temporary_name());
            let mode = Mode::from_bits_truncate(0o600);
            let file = openat(&folder, &name, NEW_FILE, mode)?;
            let stat = system::fstat(&file);
            system::unlinkat(&folder, &name, AtFlags::empty())?;
            let stat = Stat::of(&stat?);
            Ok((stat.modified_seconds, stat.modified_nanos))
        };
        stamp().map_err(CheckpointError::io("write in", &self.temporary))
    }

    /// Writes a temporary file in the git folder and renames it; on another file system, beside the
    /// target.
    fn put(
        &self,
        path: &RepoPath,
        write: &dyn Fn(&OwnedFd, &str) -> io::Result<()>,
    ) -> Result<(), CheckpointError> {
        self.attempt("write", path, || {
            let (parent, name) = self.parent(path, MissingFolders::Make)?;
            let temporary = temporary_name();
            let put_from = |folder: &OwnedFd| {
                let moved = write(folder, &temporary).and_then(|()| {
                    failpoint("file-written");
                    Ok(system::renameat(
                        folder,
                        &temporary,
                        &parent,
                        OsStr::from_bytes(name),
                    )?)
                });
                if moved.is_err() {
                    // Report the first error; a leftover has piton's name.
                    let _ = system::unlinkat(folder, &temporary, AtFlags::empty());
                }
                moved
            };
            match put_from(&self.temporary_folder()?) {
                Err(err) if err.kind() == io::ErrorKind::CrossesDevices => put_from(&parent),
                result => result,
            }
        })
    }

    fn temporary_folder(&self) -> io::Result<OwnedFd> {
        let open = || open(&self.temporary, FOLDER, Mode::empty());
        match open() {
            Err(Errno::NOENT) => {
                create_private_folder(&self.temporary)?;
                Ok(open()?)
            }
            result => Ok(result?),
        }
    }

    /// Opens the parent folder of a path, component by component.
    fn parent<'p>(
        &self,
        path: &'p RepoPath,
        missing: MissingFolders,
    ) -> io::Result<(OwnedFd, &'p [u8])> {
        Self::require_safe(path)?;
        let mut folder = self.fd.as_fd().try_clone_to_owned()?;
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return Ok((folder, name));
            }
            folder = match missing {
                MissingFolders::Keep => {
                    openat(&folder, OsStr::from_bytes(name), FOLDER, Mode::empty())?
                }
                MissingFolders::Make => make_folder(&folder, name)?,
            };
        }
        Err(Errno::INVAL.into())
    }

    fn require_safe(path: &RepoPath) -> io::Result<()> {
        let refused = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "git would not touch a path of this name",
            )
        };
        if is_safe(path) {
            Ok(())
        } else {
            Err(refused())
        }
    }

    fn attempt<T>(
        &self,
        doing: &'static str,
        path: &RepoPath,
        work: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, CheckpointError> {
        work().map_err(CheckpointError::io(doing, self.top.join(path.as_path())))
    }
}

impl PathState {
    /// The permission bits; a link has none.
    pub(crate) fn permissions(&self) -> Option<u32> {
        match self {
            Self::File { permissions, .. } | Self::Folder { permissions } => Some(*permissions),
            Self::Symlink { .. } | Self::Special => None,
        }
    }

    /// When a file or link was last changed, in seconds since 1970.
    pub(crate) fn changed_seconds(&self) -> Option<i64> {
        match self {
            Self::File { stat, .. } | Self::Symlink { stat } => {
                Some(i64::from(stat.changed_seconds))
            }
            Self::Folder { .. } | Self::Special => None,
        }
    }

    pub(crate) fn of(stat: &system::Stat) -> Self {
        let permissions = stat.st_mode & 0o7777;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File {
                permissions,
                stat: Stat::of(stat),
                size: stat.st_size.try_into().unwrap_or(0),
                modified: stat
                    .st_mtime
                    .saturating_mul(1_000_000_000)
                    .saturating_add(i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            },
            FileType::Symlink => Self::Symlink {
                stat: Stat::of(stat),
            },
            FileType::Directory => Self::Folder { permissions },
            _ => Self::Special,
        }
    }
}

impl Stat {
    /// The fields that git keeps, truncated to 32 bits as in git.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the format of git's index: the lower 32 bits"
    )]
    pub(crate) fn of(stat: &system::Stat) -> Self {
        Self {
            changed_seconds: stat.st_ctime as u32,
            changed_nanos: stat.st_ctime_nsec as u32,
            modified_seconds: stat.st_mtime as u32,
            modified_nanos: stat.st_mtime_nsec as u32,
            device: stat.st_dev as u32,
            inode: stat.st_ino as u32,
            user: stat.st_uid,
            group: stat.st_gid,
            size: stat.st_size as u32,
        }
    }
}

/// The bytes of a regular file in an open folder, with its state while they were read; `None` if
/// there is no regular file.
fn read_in(
    path: &RepoPath,
    folder: io::Result<impl AsFd>,
) -> Result<Option<(Vec<u8>, PathState)>, CheckpointError> {
    let read = folder.and_then(|folder| {
        let name = OsStr::from_bytes(path.file_name());
        let mut file = File::from(openat(folder, name, FILE, Mode::empty())?);
        let before = PathState::of(&system::fstat(&file)?);
        let PathState::File { size, .. } = before else {
            return Ok(None);
        };
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(1));
        // Read at most one byte more than expected, because a growing file could be endless.
        (&mut file)
            .take(size.saturating_add(1))
            .read_to_end(&mut bytes)?;
        let after = PathState::of(&system::fstat(&file)?);
        let settled = before == after && bytes.len() as u64 == size;
        Ok(Some((bytes, before, settled)))
    });
    match absent_as_none(read.map(Option::Some)) {
        Ok(Some(Some((bytes, state, true)))) => Ok(Some((bytes, state))),
        Ok(Some(Some(_))) => Err(CheckpointError::Changing(path.clone())),
        Ok(Some(None) | None) => Ok(None),
        Err(source) => Err(CheckpointError::Unreadable {
            path: path.clone(),
            source,
        }),
    }
}

/// The target of a link in an open folder; `None` if there is no link.
fn read_link_in(
    path: &RepoPath,
    folder: io::Result<impl AsFd>,
) -> Result<Option<Vec<u8>>, CheckpointError> {
    let read = folder.and_then(|folder| {
        match system::readlinkat(folder, OsStr::from_bytes(path.file_name()), Vec::new()) {
            Ok(target) => Ok(Some(target.into_bytes())),
            Err(Errno::INVAL) => Ok(None),
            Err(err) => Err(err.into()),
        }
    });
    absent_as_none(read).map_err(|source| CheckpointError::Unreadable {
        path: path.clone(),
        source,
    })
}

/// The entry with a name in a folder; `None` if there is none.
fn found(folder: &OwnedFd, name: &[u8]) -> io::Result<Option<PathState>> {
    match system::statat(folder, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(PathState::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(err) => Err(err.into()),
    }
}

/// Opens a folder, after creating it if it is missing.
fn make_folder(parent: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    let name = OsStr::from_bytes(name);
    match openat(parent, name, FOLDER, Mode::empty()) {
        Err(Errno::NOENT) => {
            match system::mkdirat(parent, name, Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(err) => return Err(err.into()),
            }
            Ok(openat(parent, name, FOLDER, Mode::empty())?)
        }
        result => Ok(result?),
    }
}

/// If a path is missing, or a parent is a link or a file, there is no such file.
fn absent_as_none<T>(result: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match result.as_ref().map_err(Errno::from_io_error) {
        Err(Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO)) => Ok(None),
        _ => result,
    }
}

fn temporary_name() -> String {
    let number = TEMPORARY_FILES.fetch_add(1, Ordering::Relaxed);
    format!("{}{number}", scratch::prefix())
}
