//! Git's lock on an index: `<index>.lock`, which becomes the new index.
//!
//! The process that created the lock may write; all others wait. [`IndexLock`] is the right to
//! write. [`WrittenLock`] is a complete new index; a rename puts it into place. Both remove the
//! lock when they are dropped. A lock of another program is never removed.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{Access, FlockOperation, access};

use super::super::error::CheckpointError;
use super::super::files::{is_without_links, remove_if_there};
use super::super::lock_guard::{LockGuard, guard};
use crate::disk::Disk;
use crate::failpoint::failpoint;
use crate::system_call::flock;

/// The name of piton's own file for the lock.
const MARK: &str = "index-lock";
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The lock, still empty.
#[derive(Debug)]
pub(crate) struct IndexLock {
    disk: Disk,
    lock: LockFile,
    /// When the stat fields in the new index were read.
    looked: (u32, u32),
}

/// The lock with a new index.
#[derive(Debug)]
pub(crate) struct WrittenLock {
    disk: Disk,
    lock: LockFile,
}

impl IndexLock {
    /// Takes the lock of an index, and waits for it for the given time.
    ///
    /// The lock is a hard link to a file in the folder `own`: if this process dies, the next one
    /// can tell its lock from that of another program ([`clear_stale`]), and so can its guard.
    pub(crate) fn acquire(
        index: &Path,
        own: &Path,
        wait: Duration,
        disk: &Disk,
    ) -> Result<Self, CheckpointError> {
        let (index, path) = names(index)?;
        let mark = own.join(MARK);
        // Never reuse it: it may be a hard link to the index by now, or to a lock that could not be removed.
        clear(&mark, &path, FlockOperation::NonBlockingLockExclusive)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&mark)
            .map_err(CheckpointError::io("make", &mark))?;
        // A file system without such locks has neither a guard nor a competitor: the lock of the
        // worktree is held.
        let _ = flock(&file, FlockOperation::LockExclusive);
        let guard = guard(&mark, &path);
        let lock = LockFile {
            file,
            path,
            index,
            mark,
            is_used: false,
            _guard: guard,
        };
        let mut patience = LockWait::new(wait);
        loop {
            match fs::hard_link(&lock.mark, &lock.path) {
                Ok(()) => {
                    failpoint("index-locked");
                    return Ok(Self {
                        disk: disk.clone(),
                        lock,
                        looked: (0, 0),
                    });
                }
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
                Err(err) => return Err(CheckpointError::io("make", &lock.path)(err)),
            }
            if !patience.pause() {
                return Err(CheckpointError::IndexLocked {
                    age: age_of(&lock.path),
                    path: lock.path.clone(),
                });
            }
        }
    }

    /// Waits until the index is not locked, without taking the lock. Fails early if no lock could
    /// be created.
    pub(crate) fn await_free(index: &Path, wait: Duration) -> Result<(), CheckpointError> {
        let (index, path) = names(index)?;
        if let Some(folder) = index.parent() {
            access(folder, Access::WRITE_OK)
                .map_err(|err| CheckpointError::io("make", &path)(err.into()))?;
        }
        let mut patience = LockWait::new(wait);
        while fs::symlink_metadata(&path).is_ok() {
            if !patience.pause() {
                return Err(CheckpointError::IndexLocked {
                    age: age_of(&path),
                    path,
                });
            }
        }
        Ok(())
    }

    /// Sets the time of the new index to the time when its files were read. Git checks the content
    /// of every file that is not older than its index, so that a later change within the same
    /// second is detected.
    pub(crate) fn dated(self, looked: (u32, u32)) -> Self {
        Self { looked, ..self }
    }

    /// Writes the new index and stages it.
    pub(crate) fn write(mut self, bytes: &[u8]) -> Result<WrittenLock, CheckpointError> {
        let failed = || CheckpointError::io("write", &self.lock.path);
        match fs::metadata(&self.lock.index) {
            Ok(old) => self
                .lock
                .file
                .set_permissions(old.permissions())
                .map_err(failed())?,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(CheckpointError::io("look at", &self.lock.index)(err)),
        }
        self.lock.file.write_all(bytes).map_err(failed())?;
        set_date(&self.lock.file, self.looked).map_err(failed())?;
        self.disk.stage(&self.lock.file).map_err(failed())?;
        failpoint("index-written");
        Ok(WrittenLock {
            disk: self.disk,
            lock: self.lock,
        })
    }
}

impl WrittenLock {
    /// Puts the new index into place.
    pub(crate) fn commit(mut self) -> Result<(), CheckpointError> {
        let LockFile {
            path,
            index,
            is_used,
            ..
        } = &mut self.lock;
        fs::rename(&*path, &*index).map_err(CheckpointError::io("replace", &*index))?;
        *is_used = true;
        failpoint("index-replaced");
        // The name must survive a power loss, like the content.
        let folder = index
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        self.disk
            .stage_folder(folder)
            .map_err(CheckpointError::io("write", folder))
    }
}

/// The lock file, removed on drop unless it has become the index.
#[derive(Debug)]
struct LockFile {
    /// This process holds an `flock` on it while it lives.
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
        // Not the lock of another program, for which this one may have waited in vain.
        let is_ours = !self.is_used && is_same_file(&self.mark, &self.path);
        // The mark stays beside a lock that cannot be removed: the next command knows it by that.
        if !is_ours || remove_lock(&self.path) {
            remove_lock(&self.mark);
        }
    }
}

/// How long to wait for the lock of another process.
struct LockWait {
    start: Instant,
    wait: Duration,
    pause: Duration,
}

impl LockWait {
    fn new(wait: Duration) -> Self {
        Self {
            start: Instant::now(),
            wait,
            pause: FIRST_PAUSE,
        }
    }

    /// Sleeps for a moment; returns false after the deadline.
    fn pause(&mut self) -> bool {
        let left = self.wait.saturating_sub(self.start.elapsed());
        thread::sleep(self.pause.min(left));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        !left.is_zero()
    }
}

/// Fails on a file system without hard links, where a lock of piton could not be told from that
/// of another program.
pub(crate) fn require_links(own: &Path) -> Result<(), CheckpointError> {
    let temporary = own.join("tmp");
    let file = temporary.join(format!("link-{}", std::process::id()));
    let link = file.with_extension("second");
    File::create(&file).map_err(CheckpointError::io("make", &file))?;
    let linked = fs::hard_link(&file, &link);
    remove_if_there(&link)?;
    remove_if_there(&file)?;
    match linked {
        Err(err) if is_without_links(&err) => Err(CheckpointError::Unsupported {
            feature: "a file system without hard links",
            found: format!("`{}`", own.display()),
        }),
        _ => Ok(()),
    }
}

/// The file of an index, and its lock. Like git: a link stays a link, and its target is replaced.
fn names(index: &Path) -> Result<(PathBuf, PathBuf), CheckpointError> {
    let index = if index.is_symlink() {
        index
            .canonicalize()
            .map_err(CheckpointError::io("follow", index))?
    } else {
        index.to_path_buf()
    };
    let mut name = OsString::from(&index);
    name.push(".lock");
    Ok((index, PathBuf::from(name)))
}

/// Sets the time of a new index; zero means unknown.
pub(crate) fn set_date(file: &File, (seconds, nanos): (u32, u32)) -> io::Result<()> {
    if seconds == 0 {
        return Ok(());
    }
    let date = SystemTime::UNIX_EPOCH + Duration::new(seconds.into(), nanos);
    file.set_times(FileTimes::new().set_modified(date))
}

/// Removes a lock or its mark, at the second attempt if the disk fails once.
pub(crate) fn remove_lock(lock: &Path) -> bool {
    (0..2).any(|_| remove_if_there(lock).is_ok())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Removes a lock that a killed piton process left. A lock of another program stays.
pub(crate) fn clear_stale(index: &Path, own: &Path) -> Result<(), CheckpointError> {
    let (_, lock) = names(index)?;
    // A guard needs only a moment.
    clear(&own.join(MARK), &lock, FlockOperation::LockExclusive)
}

/// Removes a mark, and the lock if it is a hard link to the mark.
fn clear(mark: &Path, lock: &Path, wait: FlockOperation) -> Result<(), CheckpointError> {
    match OpenOptions::new().read(true).open(mark) {
        Ok(file) => {
            let _ = flock(&file, wait);
            if is_same_file(mark, lock) {
                remove_if_there(lock)?;
            }
            remove_if_there(mark)
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => remove_if_there(mark),
    }
}

/// The age of a file; zero if it is gone or from the future.
fn age_of(path: &Path) -> Duration {
    let written = fs::symlink_metadata(path).and_then(|found| found.modified());
    written
        .ok()
        .and_then(|written| written.elapsed().ok())
        .unwrap_or_default()
}
