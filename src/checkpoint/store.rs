//! The private object store: contents that undo needs, invisible to git commands.
//!
//! Objects are below `piton/store/objects` in the common git folder, in git's formats: one file
//! each, which can be shared with the user's object database by a hard link, or many in one pack
//! ([`packs`]). No ref points to them: they are kept because a journal or a file below `kept/`
//! refers to them, and only [`Store::sweep`] removes them. [`Store`] handles files and ids, not
//! their meaning.

mod encoder;
mod guard;
mod packs;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flate2::read::ZlibDecoder;
use git2::ObjectType;
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};

use super::error::CheckpointError;
use super::files::{is_without_links, read_if_there};
use super::large::StandIn;
use super::object::{ObjectFormat, ObjectId};
use crate::disk::{Disk, create_private_folder};
use crate::failpoint::failpoint;
use crate::system_call::flock;

use encoder::compressed;
use packs::Packs;

/// An object is kept at least this long: a run in another worktree may have written it without
/// having recorded that it needs it.
const GRACE: Duration = Duration::from_hours(1);

/// Ids are as good as random: this folder contains one in 256 objects. This many old ones in it
/// mean 2,000 in all.
const SAMPLE: &str = "17";
const MANY_IN_SAMPLE: usize = 8;

/// The version of the store's layout.
const FORMAT: &str = "1\n";

/// The prefix of temporary files, followed by the process id.
const TEMPORARY_PREFIX: &str = "tmp_";

static TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// A file that keeps objects which no journal refers to: commits without a branch, or the baseline
/// of a server's project.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct KeptObjects {
    /// Its purpose, e.g. `RUN/STEP/commit`.
    pub name: String,
    /// The objects; for commits the newest.
    pub objects: Vec<ObjectId>,
}

/// What a sweep removed, or would remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Swept {
    pub objects: u64,
    pub bytes: u64,
}

impl Swept {
    /// Counts a file that is not recent, and removes it if asked; returns whether it is removed.
    fn take_old(
        &mut self,
        entry: &walkdir::DirEntry,
        sweep: Sweep,
    ) -> Result<bool, CheckpointError> {
        let Ok(found) = entry.metadata() else {
            return Ok(false);
        };
        let age = found.modified().ok().and_then(|at| at.elapsed().ok());
        if age.is_none_or(|age| age < GRACE) {
            return Ok(false);
        }
        if sweep == Sweep::Remove {
            fs::remove_file(entry.path()).map_err(CheckpointError::io("remove", entry.path()))?;
        }
        self.objects += 1;
        self.bytes += found.len();
        Ok(sweep == Sweep::Remove)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    Remove,
    /// Only count them.
    Count,
}

/// The folder of the private objects.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    disk: Disk,
    /// The id format, as in the repository.
    format: ObjectFormat,
    packs: Packs,
    /// Files that keep `git repack` from dropping packs without a ref.
    guards: RefCell<Vec<PathBuf>>,
    /// Whether there may be stand-ins for large contents.
    has_stand_ins: Cell<Option<bool>>,
}

impl Store {
    /// The store of a repository. Folders are created with the first write.
    pub(crate) fn of(common_dir: &Path, disk: Disk, format: ObjectFormat) -> Self {
        let folder = common_dir.join("piton").join("store");
        Self {
            folder,
            disk,
            format,
            packs: Packs::default(),
            guards: RefCell::default(),
            has_stand_ins: Cell::default(),
        }
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// Whether an object exists; protects it from the next sweeps.
    pub(crate) fn has(&self, id: ObjectId) -> bool {
        if self.pack_with(id).is_some() {
            return true;
        }
        let path = loose_path(&self.objects(), id);
        // An empty file was truncated by a power loss: write the object again.
        let Some(found) = fs::metadata(&path).ok().filter(|found| found.len() > 0) else {
            return self.has_new_packs() && self.pack_with(id).is_some();
        };
        let is_young = found
            .modified()
            .ok()
            .and_then(|at| at.elapsed().ok())
            .is_none_or(|age| age < GRACE / 2);
        is_young || self.freshen(&path)
    }

    /// Whether an object exists, for callers that only read.
    pub(crate) fn holds(&self, id: ObjectId) -> bool {
        let has_file =
            || fs::metadata(loose_path(&self.objects(), id)).is_ok_and(|found| found.len() > 0);
        // The packs are in memory.
        self.pack_holding(id).is_some()
            || has_file()
            || (self.has_new_packs() && self.pack_holding(id).is_some())
    }

    /// Whether there is a stand-in for a large content.
    pub(crate) fn has_stand_in(&self, id: ObjectId) -> bool {
        let folder = self.stand_ins();
        let is_there = self.has_stand_ins.get().unwrap_or_else(|| folder.exists());
        self.has_stand_ins.set(Some(is_there));
        is_there && folder.join(id.to_string()).is_file()
    }

    /// The stand-in for a large content.
    pub(crate) fn stand_in(&self, id: ObjectId) -> Result<Option<StandIn>, CheckpointError> {
        if !self.has_stand_in(id) {
            return Ok(None);
        }
        let text = read_if_there(&self.stand_ins().join(id.to_string()))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// Keeps a stand-in for a large content.
    pub(crate) fn write_stand_in(&self, id: ObjectId, text: &[u8]) -> Result<(), CheckpointError> {
        let folder = self.stand_ins();
        create_private_folder(&folder).map_err(CheckpointError::io("make the folder", &folder))?;
        self.write_durably(&folder.join(id.to_string()), text)?;
        self.has_stand_ins.set(Some(true));
        Ok(())
    }

    fn stand_ins(&self) -> PathBuf {
        self.folder.join("large")
    }

    /// Removes the stand-ins that are not needed, except recent ones.
    fn sweep_stand_ins(
        &self,
        needed: &BTreeSet<ObjectId>,
        sweep: Sweep,
        swept: &mut Swept,
    ) -> Result<(), CheckpointError> {
        for entry in walkdir::WalkDir::new(self.stand_ins())
            .into_iter()
            .flatten()
        {
            let id = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<ObjectId>().ok());
            if entry.file_type().is_file() && id.is_none_or(|id| !needed.contains(&id)) {
                swept.take_old(&entry, sweep)?;
            }
        }
        Ok(())
    }

    /// Updates the time of an old object. The lock is the one of [`Self::sweep`]: the object is
    /// either recent before it is judged, or gone.
    fn freshen(&self, path: &Path) -> bool {
        let Ok(_lock) = self.lock(FlockOperation::LockShared) else {
            return false;
        };
        let at = |nanoseconds| Timespec {
            tv_sec: 0,
            tv_nsec: nanoseconds,
        };
        let times = Timestamps {
            last_access: at(UTIME_OMIT),
            last_modification: at(UTIME_NOW),
        };
        // Objects are read-only even for their owner, but only writing needs the permission.
        File::open(path).is_ok_and(|file| futimens(&file, &times).is_ok())
    }

    pub(crate) fn write(
        &self,
        id: ObjectId,
        kind: ObjectType,
        data: &[u8],
    ) -> Result<(), CheckpointError> {
        write_loose(&self.objects(), id, kind, data)
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) fn read(
        &self,
        id: ObjectId,
    ) -> Result<Option<(ObjectType, Vec<u8>)>, CheckpointError> {
        let packed = || self.pack_holding(id).and_then(|pack| pack.read(id));
        match self.read_file(id)? {
            None => Ok(packed().or_else(|| self.has_new_packs().then(packed).flatten())),
            found => Ok(found),
        }
    }

    fn read_file(&self, id: ObjectId) -> Result<Option<(ObjectType, Vec<u8>)>, CheckpointError> {
        let path = loose_path(&self.objects(), id);
        let reading = || CheckpointError::io("read", &path);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(reading()(err)),
        };
        let mut bytes = Vec::new();
        ZlibDecoder::new(file)
            .read_to_end(&mut bytes)
            .map_err(reading())?;
        let damaged = || CheckpointError::Missing {
            what: format!("the content of object {id}"),
            promisor: None,
        };
        let end = bytes
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(damaged)?;
        let header = std::str::from_utf8(bytes.get(..end).unwrap_or_default()).unwrap_or_default();
        let kind = header
            .split(' ')
            .next()
            .and_then(ObjectType::from_str)
            .ok_or_else(damaged)?;
        Ok(Some((kind, bytes.split_off(end + 1))))
    }

    /// Copies an object from another folder of loose objects; returns whether that has it.
    pub(crate) fn take(&self, id: ObjectId, from: &Path) -> Result<bool, CheckpointError> {
        let (source, target) = (loose_path(from, id), loose_path(&self.objects(), id));
        if !self.place(&source, &target)? {
            return Ok(false);
        }
        // The hard link shares the times of the source, which may be old.
        Ok(self.has(id))
    }

    /// Copies an object to another folder of loose objects; returns whether the store has it.
    pub(crate) fn give(&self, id: ObjectId, to: &Path) -> Result<bool, CheckpointError> {
        self.place(&loose_path(&self.objects(), id), &loose_path(to, id))
    }

    /// Puts a file into place, by a hard link if the file system allows it.
    fn place(&self, source: &Path, target: &Path) -> Result<bool, CheckpointError> {
        let link = || fs::hard_link(source, target);
        let linked = match link() {
            Err(err) if err.kind() == ErrorKind::NotFound && source.exists() => {
                make_parent(target)?;
                link()
            }
            linked => linked,
        };
        match linked {
            Ok(()) => return Ok(true),
            Err(err) if err.kind() == ErrorKind::AlreadyExists => return Ok(true),
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(false),
            // Hard links are not possible here, or not between these folders: copy the object.
            Err(err) if is_without_links(&err) => {}
            Err(err) => return Err(CheckpointError::io("write", target)(err)),
        }
        let temporary = temporary_file(&self.objects())?;
        let bytes = fs::read(source).map_err(CheckpointError::io("read", source))?;
        (&temporary.1)
            .write_all(&bytes)
            .map_err(CheckpointError::io("write", &temporary.0))?;
        if fs::rename(&temporary.0, target).is_err() {
            // On another file system: rename at the end, so that git never reads an incomplete
            // file.
            let beside = target.with_extension("piton");
            make_parent(target)?;
            fs::write(&beside, &bytes).map_err(CheckpointError::io("write", &beside))?;
            rename(&beside, target)?;
        }
        Ok(true)
    }

    /// Keeps objects under a name until it is released.
    pub(crate) fn keep(&self, name: &str, objects: &[ObjectId]) -> Result<(), CheckpointError> {
        let path = self.folder.join("kept").join(name);
        make_parent(&path)?;
        let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
        let text = names.join("\n") + "\n";
        self.write_durably(&path, text.as_bytes())?;
        failpoint("commit-kept");
        Ok(())
    }

    /// Removes a name.
    pub(crate) fn release(&self, name: &str) -> Result<(), CheckpointError> {
        let path = self.folder.join("kept").join(name);
        match fs::remove_file(&path) {
            Err(err) if err.kind() != ErrorKind::NotFound => {
                Err(CheckpointError::io("remove", &path)(err))
            }
            _ => Ok(()),
        }
    }

    /// The objects of a name.
    pub(crate) fn kept(&self, name: &str) -> Result<Option<KeptObjects>, CheckpointError> {
        let bytes = read_if_there(&self.folder.join("kept").join(name))?;
        let objects = |bytes: Vec<u8>| {
            let text = String::from_utf8_lossy(&bytes);
            text.lines().filter_map(|line| line.parse().ok()).collect()
        };
        Ok(bytes.map(|bytes| KeptObjects {
            name: name.to_owned(),
            objects: objects(bytes),
        }))
    }

    /// All names that keep objects, sorted.
    pub(crate) fn all_kept(&self) -> Result<Vec<KeptObjects>, CheckpointError> {
        let folder = self.folder.join("kept");
        let mut found = Vec::new();
        let files = walkdir::WalkDir::new(&folder)
            .sort_by_file_name()
            .into_iter()
            .flatten();
        for entry in files.filter(|entry| entry.file_type().is_file()) {
            let name = entry
                .path()
                .strip_prefix(&folder)
                .ok()
                .and_then(Path::to_str);
            // A file with this suffix is incomplete.
            if let Some(name) = name.filter(|name| !name.ends_with(UNFINISHED)) {
                found.extend(self.kept(name)?);
            }
        }
        Ok(found)
    }

    /// Whether the refs of earlier versions were migrated.
    pub(crate) fn is_settled(&self) -> bool {
        self.folder.join("format").exists()
    }

    /// Records that there is nothing left to migrate.
    pub(crate) fn settle(&self) -> Result<(), CheckpointError> {
        let path = self.folder.join("format");
        make_parent(&path)?;
        self.write_durably(&path, FORMAT.as_bytes())
    }

    /// Removes the objects that are not needed, except recent ones.
    pub(crate) fn sweep(
        &self,
        needed: &BTreeSet<ObjectId>,
        sweep: Sweep,
    ) -> Result<Swept, CheckpointError> {
        let mut swept = Swept::default();
        let objects = self.objects();
        if !objects.exists() {
            return Ok(swept);
        }
        let _lock = self.lock(FlockOperation::LockExclusive)?;
        self.sweep_unfinished_packs(&mut swept, sweep)?;
        self.sweep_packs(needed, sweep, &mut swept)?;
        self.sweep_stand_ins(needed, sweep, &mut swept)?;
        let packs = objects.join("pack");
        let files = walkdir::WalkDir::new(&objects)
            .into_iter()
            .filter_entry(|entry| entry.path() != packs);
        for entry in files.flatten() {
            if !entry.file_type().is_file()
                || named_by(&objects, entry.path()).is_some_and(|id| needed.contains(&id))
            {
                continue;
            }
            if swept.take_old(&entry, sweep)? {
                failpoint("object-swept");
            }
        }
        if sweep == Sweep::Remove {
            self.pack_files(&|id| needed.contains(&id))?;
        }
        Ok(swept)
    }

    /// Packs old loose objects if there are very many. Recent ones must stay: a process that has
    /// just seen one may share its file.
    pub(crate) fn tidy(&self) -> Result<(), CheckpointError> {
        let is_old = |entry: &fs::DirEntry| age_of(&entry.path()).is_some_and(|age| age >= GRACE);
        let sample = fs::read_dir(self.objects().join(SAMPLE))
            .into_iter()
            .flatten()
            .flatten();
        if sample.filter(is_old).take(MANY_IN_SAMPLE).count() < MANY_IN_SAMPLE {
            return Ok(());
        }
        let _lock = self.lock(FlockOperation::NonBlockingLockExclusive)?;
        self.pack_files(&|_| true)
    }

    /// Replaces a file atomically and syncs it, after everything that is staged.
    fn write_durably(&self, path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
        // Two runs in different worktrees may write the same file at once.
        let temporary = path.with_file_name(temporary_name() + UNFINISHED);
        let writing = || CheckpointError::io("write", &temporary);
        self.disk.settle().map_err(writing())?;
        let mut file = File::create(&temporary).map_err(writing())?;
        file.write_all(bytes)
            .and_then(|()| self.disk.stage(&file))
            .map_err(writing())?;
        rename(&temporary, path)?;
        let folder = path
            .parent()
            .map_or(Ok(()), |folder| self.disk.stage_folder(folder));
        folder
            .and_then(|()| self.disk.barrier(&file))
            .map_err(writing())
    }

    /// Locks the store between checking the age of objects and acting on it.
    fn lock(&self, operation: FlockOperation) -> Result<File, CheckpointError> {
        let path = self.folder.join("lock");
        let locking = || CheckpointError::io("lock", &path);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(locking())?;
        flock(&file, operation).map_err(|err| locking()(err.into()))?;
        Ok(file)
    }
}

/// The suffix of incomplete files.
const UNFINISHED: &str = ".tmp";

/// The file of a loose object.
pub(crate) fn loose_path(objects: &Path, id: ObjectId) -> PathBuf {
    let name = id.to_string();
    let (folder, file) = name.split_at(2);
    objects.join(folder).join(file)
}

/// Stores an object as a loose file. Git removes the leftovers of a killed process.
pub(crate) fn write_loose(
    objects: &Path,
    id: ObjectId,
    kind: ObjectType,
    data: &[u8],
) -> Result<(), CheckpointError> {
    let target = loose_path(objects, id);
    let (path, mut file) = temporary_file(objects)?;
    let writing = || CheckpointError::io("write", &path);
    // Compress in memory first: the encoder does not repeat a write that a signal interrupted.
    let header = format!("{kind} {}\0", data.len());
    let bytes = compressed(&[header.as_bytes(), data]).map_err(writing())?;
    let written = file
        .write_all(&bytes)
        .map_err(writing())
        .and_then(|()| rename(&path, &target));
    if written.is_err() {
        // A leftover file is harmless; report the original error.
        let _ = fs::remove_file(&path);
    }
    written
}

fn temporary_file(folder: &Path) -> Result<(PathBuf, File), CheckpointError> {
    let path = folder.join(temporary_name());
    let open = || {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o444)
            .open(&path)
    };
    let opened = match open() {
        Err(err) if err.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(folder).map_err(CheckpointError::io("make the folder", folder))?;
            open()
        }
        // A process with the same id was killed here.
        Err(err) if err.kind() == ErrorKind::PermissionDenied => {
            fs::remove_file(&path).and_then(|()| open())
        }
        opened => opened,
    };
    opened
        .map_err(CheckpointError::io("write", &path))
        .map(|file| (path.clone(), file))
}

/// The object id of a file, from its path.
fn named_by(objects: &Path, file: &Path) -> Option<ObjectId> {
    let path = file.strip_prefix(objects).ok()?.to_str()?;
    path.replace('/', "").parse().ok()
}

/// The age of a file; `None` if it is gone.
fn age_of(path: &Path) -> Option<Duration> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    Some(modified.elapsed().unwrap_or_default())
}

/// A name that is unique among running processes.
pub(super) fn temporary_name() -> String {
    format!(
        "{TEMPORARY_PREFIX}{}_{}",
        std::process::id(),
        TEMPORARY.fetch_add(1, Ordering::Relaxed)
    )
}

fn make_parent(path: &Path) -> Result<(), CheckpointError> {
    match path.parent() {
        Some(folder) => {
            fs::create_dir_all(folder).map_err(CheckpointError::io("make the folder", folder))
        }
        None => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), CheckpointError> {
    let renamed = match fs::rename(from, to) {
        Err(err) if err.kind() == ErrorKind::NotFound => {
            make_parent(to)?;
            fs::rename(from, to)
        }
        renamed => renamed,
    };
    renamed.map_err(CheckpointError::io("write", to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Fsync;

    fn id(data: &[u8]) -> ObjectId {
        git2::Oid::hash_object(ObjectType::Blob, data)
            .unwrap()
            .into()
    }

    fn age(path: &Path) {
        let long_ago = fs::metadata(path).unwrap().modified().unwrap() - 2 * GRACE;
        File::open(path)
            .unwrap()
            .set_times(fs::FileTimes::new().set_modified(long_ago))
            .unwrap();
    }

    #[test]
    fn git_reads_what_is_written_here() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::of(
            folder.path(),
            Disk::of(folder.path(), Fsync::Auto),
            ObjectFormat::Sha1,
        );
        for data in [b"".as_slice(), b"one\n", &vec![0_u8; 100_000]] {
            store.write(id(data), ObjectType::Blob, data).unwrap();
            let odb = git2::Odb::new().unwrap();
            odb.add_disk_alternate(store.objects().to_str().unwrap())
                .unwrap();
            assert_eq!(odb.read(id(data).into()).unwrap().data(), data);
            assert_eq!(
                store.read(id(data)).unwrap(),
                Some((ObjectType::Blob, data.to_vec()))
            );
        }
    }

    #[test]
    fn only_old_objects_that_nothing_needs_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::of(
            folder.path(),
            Disk::of(folder.path(), Fsync::Auto),
            ObjectFormat::Sha1,
        );
        let [needed, old, young, used] = [b"needed", b"oldest", b"youngs", b"reused"].map(|data| {
            store.write(id(data), ObjectType::Blob, data).unwrap();
            id(data)
        });
        for id in [needed, old, used] {
            age(&loose_path(&store.objects(), id));
        }
        assert!(store.has(used), "looking for it makes it young again");
        let kept = BTreeSet::from([needed]);
        assert_eq!(store.sweep(&kept, Sweep::Count).unwrap().objects, 1);
        assert_eq!(store.sweep(&kept, Sweep::Remove).unwrap().objects, 1);
        assert_eq!(
            [needed, old, young, used].map(|id| store.has(id)),
            [true, false, true, true]
        );
    }

    #[test]
    fn a_file_that_a_power_loss_emptied_counts_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::of(
            folder.path(),
            Disk::of(folder.path(), Fsync::Auto),
            ObjectFormat::Sha1,
        );
        let data = b"content";
        store.write(id(data), ObjectType::Blob, data).unwrap();
        let path = loose_path(&store.objects(), id(data));
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"").unwrap();
        assert!(!store.has(id(data)));
        store.write(id(data), ObjectType::Blob, data).unwrap();
        assert!(store.has(id(data)));
    }

    #[test]
    fn names_are_kept_until_they_are_released() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::of(
            folder.path(),
            Disk::of(folder.path(), Fsync::Auto),
            ObjectFormat::Sha1,
        );
        assert_eq!(store.all_kept().unwrap(), []);
        let objects = vec![id(b"one"), id(b"two")];
        store.keep("01k/1/commit", &objects).unwrap();
        assert_eq!(
            store.kept("01k/1/commit").unwrap().unwrap().objects,
            objects
        );
        assert_eq!(store.all_kept().unwrap().len(), 1);
        store.release("01k/1/commit").unwrap();
        store.release("01k/1/commit").unwrap();
        assert_eq!(store.all_kept().unwrap(), []);
    }
}
