//! Writes a ref as a file, under a lock that piton can recognize as its own.
//!
//! Git's lock of a ref is `<ref>.lock`. Here it is a hard link to a file in piton's own folder: if
//! this process is killed, the next one recognizes the lock and removes it ([`clear_stale`]).
//! libgit2 would leave a lock that blocks git and piton until a person removes it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::super::error::CheckpointError;
use super::super::files::remove_if_there;
use super::super::index::lock::remove_lock;
use super::super::lock_guard::{LockGuard, guard};
use super::super::object::ObjectId;
use super::super::repository::Repository;
use super::loose_path;
use crate::failpoint::failpoint;
use crate::system_call::flock;

/// The folder of piton's own files for locks, below `<git dir>/piton`.
const MARKS: &str = "ref-locks";
/// How long another process may hold the lock; git itself waits a tenth of this.
const WAIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The lock of one ref, removed on drop.
struct RefLock {
    /// This process holds an `flock` on it while it lives; a process that gets the `flock` knows
    /// that the lock is stale.
    file: File,
    mark: PathBuf,
    lock: PathBuf,
    /// Dropped after the lock was removed.
    _guard: Option<Arc<LockGuard>>,
}

/// Moves or creates a ref, if it has the expected value.
pub(super) fn write(
    repository: &Repository,
    name: &str,
    old: Option<ObjectId>,
    new: ObjectId,
    message: &str,
) -> Result<(), CheckpointError> {
    let path = loose_path(repository, name);
    let mut lock = RefLock::acquire(repository, name, &path)?;
    // Under the lock no other process changes it.
    let found = repository.ref_now(name);
    if found != old {
        return Err(CheckpointError::HeadMoved {
            expected: old,
            found,
        });
    }
    if old.is_none() {
        refuse_blocked(repository, name)?;
    }
    let writing = || CheckpointError::io("write", &lock.lock);
    // In one write: formatting would make a call for each byte of the hash.
    lock.file
        .write_all(format!("{new}\n").as_bytes())
        .and_then(|()| repository.disk.stage(&lock.file))
        .map_err(writing())?;
    failpoint("ref-locked");
    write_log(repository, name, old, new, message)?;
    // Git leaves folders behind when it removes the last ref in them.
    remove_empty_folders(&path);
    fs::rename(&lock.lock, &path).map_err(CheckpointError::io("replace", &path))
}

/// Removes the locks that killed piton processes left.
pub(super) fn clear_stale(repository: &Repository) -> Result<(), CheckpointError> {
    for entry in fs::read_dir(repository.own_folder().join(MARKS))
        .into_iter()
        .flatten()
        .flatten()
    {
        let mark = entry.path();
        let Ok(file) = OpenOptions::new().read(true).open(&mark) else {
            continue;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = name
            .split_once('.')
            .map(|(_, name)| name.replace(':', "/"))
            .unwrap_or_default();
        let lock = lock_of(&loose_path(repository, &name));
        // Once the lock has become the ref, the mark is a hard link to the ref.
        if is_same_file(&mark, &lock) {
            remove_if_there(&lock)?;
        }
        remove_if_there(&mark)?;
    }
    Ok(())
}

impl RefLock {
    fn acquire(repository: &Repository, name: &str, path: &Path) -> Result<Self, CheckpointError> {
        let marks = repository.own_folder().join(MARKS);
        fs::create_dir_all(&marks).map_err(CheckpointError::io("make the folder", &marks))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Ref names never contain a colon.
        let mark = marks.join(format!(
            "{}-{number}.{}",
            std::process::id(),
            name.replace('/', ":")
        ));
        let making = || CheckpointError::io("make", &mark);
        // A process with the same id may have been killed here; its file may be a ref by now.
        remove_if_there(&mark)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&mark)
            .map_err(making())?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|err| making()(err.into()))?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(CheckpointError::io("make the folder", folder))?;
        }
        let lock = lock_of(path);
        let guard = guard(&mark, &lock);
        let taken = Self {
            file,
            mark,
            lock,
            _guard: guard,
        };
        let start = Instant::now();
        loop {
            match fs::hard_link(&taken.mark, &taken.lock) {
                Ok(()) => return Ok(taken),
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
                Err(err) => return Err(CheckpointError::io("make", &taken.lock)(err)),
            }
            if start.elapsed() > WAIT {
                return Err(CheckpointError::RefLocked(taken.lock.clone()));
            }
            clear_stale(repository)?;
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        // After the rename there is none, or that of another process.
        if !is_same_file(&self.mark, &self.lock) || remove_lock(&self.lock) {
            remove_lock(&self.mark);
        }
    }
}

/// Fails if a parent of the ref is a ref. Folders in the way are reported by the rename.
fn refuse_blocked(repository: &Repository, name: &str) -> Result<(), CheckpointError> {
    let parents = Path::new(name)
        .ancestors()
        .skip(1)
        .filter_map(Path::to_str)
        .take_while(|name| name.contains('/'));
    for parent in parents {
        if repository.git.refname_to_id(parent).is_ok() {
            let path = loose_path(repository, parent);
            return Err(CheckpointError::io("make a ref below", path)(
                io::ErrorKind::AlreadyExists.into(),
            ));
        }
    }
    Ok(())
}

/// Appends to the reflog of a ref, and of HEAD if HEAD points to the ref, by git's rules.
fn write_log(
    repository: &Repository,
    name: &str,
    old: Option<ObjectId>,
    new: ObjectId,
    message: &str,
) -> Result<(), CheckpointError> {
    let who = repository
        .git
        .signature()
        .or_else(|_| git2::Signature::now("unknown", "unknown"));
    let who = who.map_err(CheckpointError::git("write the log of a ref"))?;
    let (name_of, email) = (
        String::from_utf8_lossy(who.name_bytes()),
        String::from_utf8_lossy(who.email_bytes()),
    );
    let at = who.when();
    let (sign, offset) = (at.sign(), at.offset_minutes().abs());
    let old = old.unwrap_or(ObjectId::zero(new.format()));
    let message = message.replace('\n', " ");
    let line = format!(
        "{old} {new} {name_of} <{email}> {} {sign}{:02}{:02}\t{message}\n",
        at.seconds(),
        offset / 60,
        offset % 60
    );
    let is_heads = name != "HEAD" && repository.head()?.branch.as_deref() == Some(name);
    for name in std::iter::once(name).chain(is_heads.then_some("HEAD")) {
        let folder = if name == "HEAD" {
            repository.git.path()
        } else {
            repository.git.commondir()
        };
        let path = folder.join("logs").join(name);
        let is_logged = path.is_file() || is_logged(repository, name);
        if !is_logged {
            continue;
        }
        let writing = || CheckpointError::io("write", &path);
        if let Some(folder) = path.parent() {
            remove_empty_folders(&path);
            fs::create_dir_all(folder).map_err(writing())?;
        }
        let mut log = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .map_err(writing())?;
        log.write_all(line.as_bytes()).map_err(writing())?;
    }
    Ok(())
}

/// Whether git creates a reflog for a ref (`core.logAllRefUpdates`).
fn is_logged(repository: &Repository, name: &str) -> bool {
    let is_ordinary = name == "HEAD"
        || ["refs/heads/", "refs/remotes/", "refs/notes/"]
            .iter()
            .any(|kind| name.starts_with(kind));
    match repository.text("core.logAllRefUpdates").as_deref() {
        Some("always") => true,
        Some(_) => repository.flag("core.logAllRefUpdates") == Some(true) && is_ordinary,
        None => is_ordinary,
    }
}

fn lock_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    PathBuf::from(name)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Removes a folder that contains only folders; any other stays.
fn remove_empty_folders(path: &Path) {
    if !path.is_dir() {
        return;
    }
    for entry in walkdir::WalkDir::new(path)
        .contents_first(true)
        .into_iter()
        .flatten()
    {
        // A folder with a file in it is not removed, and neither are its parents.
        let _ = fs::remove_dir(entry.path());
    }
}
