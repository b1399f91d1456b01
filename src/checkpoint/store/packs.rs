//! The packs of the private store: lookup, freshening and sweeping.
//!
//! A pack is removed as a whole when none of its objects are needed. A pack of which less than half
//! is needed is rewritten with the needed objects; many loose objects and many packs are joined
//! too.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use git2::ObjectType;

use super::super::error::CheckpointError;
use super::super::object::{ObjectFormat, ObjectId};
use super::super::pack::{self, Pack, PackWriter, Packed, pack_all};
use super::{GRACE, Store, Sweep, Swept, age_of, loose_path, named_by};
use crate::failpoint::failpoint;

/// From this number on packs are joined, because every lookup searches all of them.
const MANY_PACKS: usize = 20;
/// From this number on loose objects are packed.
const MANY_FILES: usize = 1000;
/// How many bytes are compressed at once.
const BATCH: usize = 16 << 20;

/// How long the clock of a file system may stand still.
const TICK: Duration = Duration::from_millis(100);

/// The packs, once listed.
#[derive(Debug, Default)]
pub(super) struct Packs(RefCell<Option<Listed>>);

/// The packs of a folder.
#[derive(Debug)]
struct Listed {
    packs: Vec<Arc<Pack>>,
    /// When the folder was last changed; `None` if that was just now, so that it proves nothing
    /// yet.
    changed: Option<Changed>,
}

/// When a folder was last changed; `None` if it does not exist.
type Changed = Option<SystemTime>;

impl Listed {
    /// Lists a folder; keeps open packs.
    fn read(folder: &Path, format: ObjectFormat, open: &[Arc<Pack>]) -> Self {
        let at = changed_at(folder);
        let is_settled = at.is_none_or(|at| at.elapsed().is_ok_and(|age| age >= TICK));
        Self {
            packs: open_all(folder, format, open),
            changed: is_settled.then_some(at),
        }
    }
}

impl Store {
    /// The pack that contains an object; protects it from the next sweeps.
    pub(super) fn pack_with(&self, id: ObjectId) -> Option<Arc<Pack>> {
        let found = self.pack_holding(id)?;
        if found.was_looked_at() {
            return Some(found);
        }
        let stays = match age_of(found.path()) {
            None => false,
            Some(age) => age < GRACE / 2 || self.freshen(found.path()),
        };
        if !stays {
            // Another process has swept it.
            self.forget_packs();
            return None;
        }
        Some(found)
    }

    /// The pack that contains an object, for callers that only read.
    pub(super) fn pack_holding(&self, id: ObjectId) -> Option<Arc<Pack>> {
        let mut packs = self.packs.0.borrow_mut();
        let listed = packs
            .get_or_insert_with(|| Listed::read(&self.objects().join("pack"), self.format, &[]));
        listed.packs.iter().find(|pack| pack.holds(id)).cloned()
    }

    /// Whether there are new packs, because another process may have packed loose objects. Loads
    /// them.
    pub(super) fn has_new_packs(&self) -> bool {
        let folder = self.objects().join("pack");
        let mut packs = self.packs.0.borrow_mut();
        let Some(listed) = packs.as_mut() else {
            return false;
        };
        if listed.changed == Some(changed_at(&folder)) {
            return false;
        }
        *listed = Listed::read(&folder, self.format, &listed.packs);
        true
    }

    /// An object in its packed form; `None` if it is loose or missing.
    pub(crate) fn packed(&self, id: ObjectId) -> Option<Packed> {
        let bytes = self.pack_holding(id)?.raw(id)?;
        Some(Packed { id, bytes })
    }

    /// Adds a pack that was just written.
    pub(crate) fn add_pack(&self, path: &Path) {
        let mut packs = self.packs.0.borrow_mut();
        if let (Some(listed), Some(pack)) = (
            packs.as_mut(),
            Pack::open(&path.with_extension("idx"), self.format),
        ) {
            listed.packs.push(Arc::new(pack));
        }
    }

    /// Lists the packs again the next time.
    pub(super) fn forget_packs(&self) {
        *self.packs.0.borrow_mut() = None;
    }

    /// Removes the packs that are not needed, except recent ones, and rewrites those that are
    /// mostly not needed. The caller holds the lock.
    pub(super) fn sweep_packs(
        &self,
        needed: &BTreeSet<ObjectId>,
        sweep: Sweep,
        swept: &mut Swept,
    ) -> Result<(), CheckpointError> {
        let packs = open_all(&self.objects().join("pack"), self.format, &[]);
        let is_old = |pack: &Arc<Pack>| age_of(pack.path()).is_some_and(|age| age >= GRACE);
        let old: Vec<Arc<Pack>> = packs.into_iter().filter(is_old).collect();
        let join = old.len() >= MANY_PACKS;
        let mut again: Vec<(Arc<Pack>, Vec<ObjectId>)> = Vec::new();
        let mut unneeded = Vec::new();
        for pack in old {
            let kept: Vec<ObjectId> = pack.ids().filter(|id| needed.contains(id)).collect();
            if kept.is_empty() {
                swept.objects += pack.count() as u64;
                swept.bytes += pack.bytes();
                unneeded.push(pack);
            } else if join || kept.len() * 2 < pack.count() {
                swept.objects += (pack.count() - kept.len()) as u64;
                again.push((pack, kept));
            }
        }
        if sweep == Sweep::Count {
            return Ok(());
        }
        unneeded
            .iter()
            .try_for_each(|pack| remove_pack(pack.path()))?;
        if !again.is_empty() {
            let mut writer = PackWriter::begin(&self.objects())?;
            for (pack, kept) in &again {
                for id in kept {
                    let missing = || CheckpointError::Missing {
                        what: format!("object {id}"),
                        promisor: None,
                    };
                    writer.add(&Packed {
                        id: *id,
                        bytes: pack.raw(*id).ok_or_else(missing)?,
                    })?;
                }
            }
            let bytes: u64 = again.iter().map(|(pack, _)| pack.bytes()).sum();
            let new = self.finish_pack(writer)?;
            let left =
                Pack::open(&new.with_extension("idx"), self.format).map_or(0, |pack| pack.bytes());
            // Packs with the same objects have the same name.
            let gone = again
                .iter()
                .map(|(pack, _)| pack.path())
                .filter(|path| *path != new);
            gone.into_iter().try_for_each(remove_pack)?;
            swept.bytes += bytes.saturating_sub(left);
        }
        self.forget_packs();
        Ok(())
    }

    /// Packs many old loose objects. The caller holds the lock.
    pub(super) fn pack_files(
        &self,
        is_needed: &dyn Fn(ObjectId) -> bool,
    ) -> Result<(), CheckpointError> {
        let objects = self.objects();
        let mut files: Vec<(ObjectId, PathBuf)> = Vec::new();
        for entry in walkdir::WalkDir::new(&objects)
            .min_depth(2)
            .into_iter()
            .flatten()
        {
            let id = named_by(&objects, entry.path()).filter(|id| is_needed(*id));
            let is_old = || age_of(entry.path()).is_some_and(|age| age >= GRACE);
            files.extend(id.filter(|_| is_old()).map(|id| (id, entry.into_path())));
        }
        if files.len() < MANY_FILES {
            return Ok(());
        }
        let mut writer = PackWriter::begin(&objects)?;
        let mut batch: Vec<(ObjectId, ObjectType, Vec<u8>)> = Vec::new();
        let mut size = 0;
        for (at, (id, _)) in files.iter().enumerate() {
            if let Ok(Some((kind, data))) = self.read_file(*id) {
                size += data.len();
                batch.push((*id, kind, data));
            }
            if size >= BATCH || at + 1 == files.len() {
                let all: Vec<_> = batch
                    .iter()
                    .map(|(id, kind, data)| (*id, *kind, data.as_slice()))
                    .collect();
                pack_all(&all)
                    .iter()
                    .try_for_each(|object| writer.add(object))?;
                (batch, size) = (Vec::new(), 0);
            }
        }
        let pack = self.finish_pack(writer)?;
        let Some(pack) = Pack::open(&pack.with_extension("idx"), self.format) else {
            return Ok(());
        };
        for (id, path) in files.iter().filter(|(id, _)| pack.holds(*id)) {
            debug_assert_eq!(*path, loose_path(&objects, *id));
            fs::remove_file(path).map_err(CheckpointError::io("remove", path))?;
            failpoint("object-packed");
        }
        self.forget_packs();
        Ok(())
    }

    /// Finishes a pack whose objects will be removed from other places.
    fn finish_pack(&self, writer: PackWriter) -> Result<PathBuf, CheckpointError> {
        let path = writer.finish(&self.disk, &|_| Ok(()))?;
        self.disk
            .settle()
            .map_err(CheckpointError::io("write to disk", &path))?;
        Ok(path)
    }

    /// Removes what killed processes left of packs: unfinished files, and packs without an index.
    pub(super) fn sweep_unfinished_packs(
        &self,
        swept: &mut Swept,
        sweep: Sweep,
    ) -> Result<(), CheckpointError> {
        for entry in fs::read_dir(self.objects().join("pack"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            let name = entry.file_name();
            let is_unfinished = name
                .to_str()
                .is_some_and(|name| name.starts_with(pack::UNFINISHED))
                || (path.extension().is_some_and(|end| end == "pack")
                    && !path.with_extension("idx").exists())
                || (path.extension().is_some_and(|end| end == "idx")
                    && !path.with_extension("pack").exists());
            if is_unfinished && age_of(&path).is_some_and(|age| age >= GRACE) {
                swept.bytes += entry.metadata().map_or(0, |found| found.len());
                if sweep == Sweep::Remove {
                    fs::remove_file(&path).map_err(CheckpointError::io("remove", &path))?;
                }
            }
        }
        Ok(())
    }
}

fn changed_at(folder: &Path) -> Changed {
    fs::metadata(folder).ok()?.modified().ok()
}

fn open_all(folder: &Path, format: ObjectFormat, open: &[Arc<Pack>]) -> Vec<Arc<Pack>> {
    let files = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let indexes = files.filter(|path| path.extension().is_some_and(|end| end == "idx"));
    let opened = |path: PathBuf| {
        let known = open
            .iter()
            .find(|pack| pack.path() == path.with_extension("pack"));
        known
            .cloned()
            .or_else(|| Pack::open(&path, format).map(Arc::new))
    };
    indexes.filter_map(opened).collect()
}

/// Removes a pack, its index first: a pack without an index is not used.
fn remove_pack(path: &Path) -> Result<(), CheckpointError> {
    let index = path.with_extension("idx");
    fs::remove_file(&index).map_err(CheckpointError::io("remove", &index))?;
    failpoint("pack-index-swept");
    fs::remove_file(path).map_err(CheckpointError::io("remove", path))
}
