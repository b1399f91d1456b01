//! Git's lock on an index: `<index>.lock`, which becomes the new index.
//!
//! Whoever made the lock may write; everybody else waits. [`IndexLock`] is the right to write,
//! [`WrittenLock`] is a new index that lies ready: taking it into use is one rename. Either one
//! takes the lock away when it is dropped. A lock of somebody else is never removed.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::retry_on_intr;

use super::super::error::CheckpointError;
use super::super::files::remove_if_there;
use super::super::lock_guard::{LockGuard, guard};
use crate::disk::Disk;
use crate::failpoint::failpoint;

/// The name of our own in the folder of piton.
const MARK: &str = "index-lock";
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The lock, with nothing in it.
#[derive(Debug)]
pub(crate) struct IndexLock {
    disk: Disk,
    lock: LockFile,
    /// When the files were looked at whose stat the new index holds.
    looked: (u32, u32),
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
    /// next one can tell its lock from that of another program ([`clear_stale`]), and so can its guard.
    pub(crate) fn acquire(index: &Path, own: &Path, wait: Duration, disk: &Disk) -> Result<Self, CheckpointError> {
        let (index, path) = names(index)?;
        let mark = own.join(MARK);
        // Never opened again: it may be another name of the index by now.
        remove_if_there(&mark)?;
        let file =
            OpenOptions::new().write(true).create_new(true).open(&mark).map_err(CheckpointError::io("make", &mark))?;
        // A file system without such locks has no guard and no rival either: the lock of the worktree is held.
        let _ = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
        let guard = guard(&mark, &path);
        let lock = LockFile { file, path, index, mark, is_used: false, _guard: guard };
        let mut patience = Patience::new(wait);
        loop {
            match fs::hard_link(&lock.mark, &lock.path) {
                Ok(()) => {
                    failpoint("index-locked");
                    return Ok(Self { disk: disk.clone(), lock, looked: (0, 0) });
                }
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
                Err(err) => return Err(CheckpointError::io("make", &lock.path)(err)),
            }
            if !patience.pause() {
                return Err(CheckpointError::IndexLocked { age: age_of(&lock.path), path: lock.path.clone() });
            }
        }
    }

    /// Waits until the index is not locked, and takes no lock. Fails early where none could be made.
    pub(crate) fn await_free(index: &Path, wait: Duration) -> Result<(), CheckpointError> {
        let (index, path) = names(index)?;
        if let Some(folder) = index.parent() {
            access(folder, Access::WRITE_OK).map_err(|err| CheckpointError::io("make", &path)(err.into()))?;
        }
        let mut patience = Patience::new(wait);
        while fs::symlink_metadata(&path).is_ok() {
            if !patience.pause() {
                return Err(CheckpointError::IndexLocked { age: age_of(&path), path });
            }
        }
        Ok(())
    }

    /// Dates the new index by the moment at which its files were looked at, in seconds and nanoseconds. Git looks into
    /// every file that is not older than its index, so that a later change within the same second is seen.
    pub(crate) fn dated(self, looked: (u32, u32)) -> Self {
        Self { looked, ..self }
    }

    /// Writes the new index, and stages it.
    pub(crate) fn write(mut self, bytes: &[u8]) -> Result<WrittenLock, CheckpointError> {
        let failed = || CheckpointError::io("write", &self.lock.path);
        match fs::metadata(&self.lock.index) {
            Ok(old) => self.lock.file.set_permissions(old.permissions()).map_err(failed())?,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(CheckpointError::io("look at", &self.lock.index)(err)),
        }
        self.lock.file.write_all(bytes).map_err(failed())?;
        set_date(&self.lock.file, self.looked).map_err(failed())?;
        self.disk.stage(&self.lock.file).map_err(failed())?;
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
    /// This process holds an `flock` on it for as long as it lives.
    file: File,
    path: PathBuf,
    index: PathBuf,
    mark: PathBuf,
    is_used: bool,
    /// Dropped after the lock was removed.
    _guard: Option<Arc<LockGuard>>,
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Not that of another program, for which this one may have waited in vain.
        if !self.is_used && is_same_file(&self.mark, &self.path) {
            // If this fails, the next process to lock the index names the file.
            let _ = fs::remove_file(&self.path);
        }
        let _ = fs::remove_file(&self.mark);
    }
}

/// How long to wait for the lock of another process.
struct Patience {
    start: Instant,
    wait: Duration,
    pause: Duration,
}

impl Patience {
    fn new(wait: Duration) -> Self {
        Self { start: Instant::now(), wait, pause: FIRST_PAUSE }
    }

    /// Sleeps for a moment; false when the time is over.
    fn pause(&mut self) -> bool {
        let left = self.wait.saturating_sub(self.start.elapsed());
        thread::sleep(self.pause.min(left));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        !left.is_zero()
    }
}

/// The file of an index, and its lock. As git does it: a link stays a link, the file behind it is replaced.
fn names(index: &Path) -> Result<(PathBuf, PathBuf), CheckpointError> {
    let index = if index.is_symlink() {
        index.canonicalize().map_err(CheckpointError::io("follow", index))?
    } else {
        index.to_path_buf()
    };
    let mut name = OsString::from(&index);
    name.push(".lock");
    Ok((index, PathBuf::from(name)))
}

/// Dates a new index; zero stands for an unknown moment.
pub(crate) fn set_date(file: &File, (seconds, nanos): (u32, u32)) -> io::Result<()> {
    if seconds == 0 {
        return Ok(());
    }
    let date = SystemTime::UNIX_EPOCH + Duration::new(seconds.into(), nanos);
    file.set_times(FileTimes::new().set_modified(date))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Removes a lock that a process of ours left behind when it died. A lock of anybody else stays.
pub(crate) fn clear_stale(index: &Path, own: &Path) -> Result<(), CheckpointError> {
    let mark = own.join(MARK);
    let Ok(file) = OpenOptions::new().read(true).open(&mark) else { return remove_if_there(&mark) };
    // A guard is done within a moment.
    let _ = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
    let (_, lock) = names(index)?;
    if is_same_file(&mark, &lock) {
        remove_if_there(&lock)?;
    }
    remove_if_there(&mark)
}

/// How long ago a file was written; nothing when it is gone or from the future.
fn age_of(path: &Path) -> Duration {
    let written = fs::symlink_metadata(path).and_then(|found| found.modified());
    written.ok().and_then(|written| written.elapsed().ok()).unwrap_or_default()
}
