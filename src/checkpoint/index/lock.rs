//! Git's lock on an index: `<index>.lock`, which becomes the new index.
//!
//! Whoever made the lock may write; everybody else waits. [`IndexLock`] is the right to write,
//! [`WrittenLock`] is a new index that lies ready: taking it into use is one rename. Either one
//! takes the lock away when it is dropped. A lock of somebody else is never removed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::super::error::CheckpointError;
use super::super::files::remove_if_there;
use crate::disk::Disk;
use crate::failpoint::failpoint;

/// The name of our own in the folder of piton.
const MARK: &str = "index-lock";
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The lock, with nothing in it.
#[derive(Debug)]
pub(crate) struct IndexLock {
    file: File,
    disk: Disk,
    lock: LockFile,
}

/// The lock, with a new index in it.
#[derive(Debug)]
pub(crate) struct WrittenLock {
    disk: Disk,
    lock: LockFile,
}

impl IndexLock {
    /// Takes the lock of an index, waiting for as long as given.
    ///
    /// The lock is a second name of a file of ours in the folder `own`: should this process die, the
    /// next one can tell its lock from anybody else's ([`clear_stale`]).
    pub(crate) fn acquire(index: &Path, own: &Path, wait: Duration, disk: &Disk) -> Result<Self, CheckpointError> {
        // As git does it: a link stays a link, the file behind it is replaced.
        let index = if index.is_symlink() {
            index.canonicalize().map_err(CheckpointError::io("follow", index))?
        } else {
            index.to_path_buf()
        };
        let mut name = OsString::from(&index);
        name.push(".lock");
        let path = PathBuf::from(name);
        let mark = own.join(MARK);
        // Never opened again: it may be another name of the index by now.
        remove_if_there(&mark)?;
        let file =
            OpenOptions::new().write(true).create_new(true).open(&mark).map_err(CheckpointError::io("make", &mark))?;
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            match fs::hard_link(&mark, &path) {
                Ok(()) => {
                    failpoint("index-locked");
                    return Ok(Self { file, disk: disk.clone(), lock: LockFile { path, index, mark, is_used: false } });
                }
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
                Err(err) => return Err(CheckpointError::io("make", path)(err)),
            }
            let left = wait.saturating_sub(start.elapsed());
            if left.is_zero() {
                let age = age_of(&path);
                remove_if_there(&mark)?;
                return Err(CheckpointError::IndexLocked { path, age });
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Writes the new index, and stages it.
    pub(crate) fn write(mut self, bytes: &[u8]) -> Result<WrittenLock, CheckpointError> {
        let failed = || CheckpointError::io("write", &self.lock.path);
        match fs::metadata(&self.lock.index) {
            Ok(old) => self.file.set_permissions(old.permissions()).map_err(failed())?,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(CheckpointError::io("look at", &self.lock.index)(err)),
        }
        self.file.write_all(bytes).map_err(failed())?;
        self.disk.stage(&self.file).map_err(failed())?;
        failpoint("index-written");
        Ok(WrittenLock { disk: self.disk, lock: self.lock })
    }
}

impl WrittenLock {
    /// Takes the new index into use.
    pub(crate) fn commit(mut self) -> Result<(), CheckpointError> {
        let LockFile { path, index, is_used, .. } = &mut self.lock;
        fs::rename(&*path, &*index).map_err(CheckpointError::io("replace", &*index))?;
        *is_used = true;
        failpoint("index-replaced");
        // The name must survive a loss of power, as the content does.
        let folder = index.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.disk.stage_folder(folder).map_err(CheckpointError::io("write", folder))
    }
}

/// The file, removed when dropped unless it has become the index.
#[derive(Debug)]
struct LockFile {
    path: PathBuf,
    index: PathBuf,
    mark: PathBuf,
    is_used: bool,
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if !self.is_used {
            // Nobody is left to tell; the next one to lock will name the file.
            let _ = fs::remove_file(&self.path);
        }
        let _ = fs::remove_file(&self.mark);
    }
}

/// Removes a lock that a process of ours left behind when it died. A lock of anybody else stays.
pub(crate) fn clear_stale(index: &Path, own: &Path) -> Result<(), CheckpointError> {
    let mark = own.join(MARK);
    let mut name = OsString::from(index);
    name.push(".lock");
    let lock = PathBuf::from(name);
    if let (Ok(ours), Ok(found)) = (fs::symlink_metadata(&mark), fs::symlink_metadata(&lock))
        && (ours.dev(), ours.ino()) == (found.dev(), found.ino())
    {
        remove_if_there(&lock)?;
    }
    remove_if_there(&mark)
}

/// How long ago a file was written; nothing when it is gone or from the future.
fn age_of(path: &Path) -> Duration {
    let written = fs::symlink_metadata(path).and_then(|found| found.modified());
    written.ok().and_then(|written| written.elapsed().ok()).unwrap_or_default()
}
