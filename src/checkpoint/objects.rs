//! Access to objects in two places, with the durability that libgit2 lacks.
//!
//! Objects are read from the user's object database and from piton's private store. Writes go to
//! one of them: [`Objects::of`] writes to the store, [`Objects::of_user`] to the user's object
//! database. libgit2 would not write an object that the other place has; here each place is checked
//! separately.
//!
//! Many objects go into one pack: [`Objects::copy_all`] decides that for copies, and after
//! [`Objects::gather`] all written objects wait until they are staged.
//!
//! [`Objects`] remembers what it wrote. A caller stages all of it ([`Objects::stage`]) before it
//! writes a journal line that refers to it, and syncs it ([`Objects::sync`]) before it writes
//! anything else that does.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{ErrorCode, ObjectType, Odb, OdbLookupFlags};

use super::delta::LineCounts;
use super::error::CheckpointError;
use super::object::{ObjectFormat, ObjectId};
use super::pack::{Gathered, Gathering, MANY, PackWriter, Packed, pack_all};
use super::repository::Repository;
use super::scan::Blob;
use super::store::{Store, loose_path, write_loose};
use super::substitution::{Replacements, shown};
use super::tree::ReadTrees;
use crate::disk::Disk;

/// An object of this size gets its own file, which can be shared by a hard link, even in a large
/// batch.
const LARGE: usize = 1 << 20;
/// How many bytes are compressed at once.
const BATCH: usize = 16 << 20;

/// Where new objects go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    /// Piton's private store.
    Store,
    /// The user's object database.
    User,
}

/// Reads and writes objects of a repository.
pub(crate) struct Objects<'repo> {
    repository: &'repo Repository,
    /// The user's objects, with the private store as an alternate.
    odb: Odb<'repo>,
    /// The user's objects alone.
    users_alone: OnceCell<Odb<'static>>,
    store: &'repo Store,
    disk: &'repo Disk,
    destination: Destination,
    /// The user's loose objects.
    users: PathBuf,
    /// Git's replacement objects.
    replacements: Arc<Replacements>,
    /// The files that are not synced yet.
    written: RefCell<BTreeSet<PathBuf>>,
    /// The folders with new hard links to synced files.
    linked: RefCell<BTreeSet<PathBuf>>,
    /// Objects that this value wrote to packs of the user and that libgit2 has not seen yet.
    packed: RefCell<HashSet<ObjectId>>,
    /// Objects that are stored together when they are staged; `None` if each is stored at once.
    gathering: RefCell<Option<Gathering>>,
    /// A cache of trees.
    pub(super) trees: ReadTrees,
}

impl<'repo> Objects<'repo> {
    /// The objects of a repository; new ones go to the private store.
    pub(crate) fn of(repository: &'repo Repository) -> Result<Self, CheckpointError> {
        Self::with(repository, Destination::Store)
    }

    /// The objects of a repository; new ones go to the user's object database. Only for objects
    /// that a commit, the user's index or the log of a run needs.
    pub(crate) fn of_user(repository: &'repo Repository) -> Result<Self, CheckpointError> {
        Self::with(repository, Destination::User)
    }

    fn with(
        repository: &'repo Repository,
        destination: Destination,
    ) -> Result<Self, CheckpointError> {
        repository.attach_store()?;
        let odb = repository
            .git
            .odb()
            .map_err(CheckpointError::git("open the object database"))?;
        let users = repository.git.commondir().join("objects");
        let (store, disk) = (&repository.store, &repository.disk);
        let (written, linked) = (RefCell::default(), RefCell::default());
        let replacements = repository.substitutes()?;
        Ok(Self {
            repository,
            odb,
            users_alone: OnceCell::new(),
            store,
            disk,
            destination,
            users,
            replacements,
            written,
            linked,
            packed: RefCell::default(),
            gathering: RefCell::default(),
            trees: ReadTrees::default(),
        })
    }

    pub(crate) fn format(&self) -> ObjectFormat {
        self.repository.format()
    }

    pub(super) fn line_counts(&self) -> &LineCounts {
        &self.repository.line_counts
    }

    /// Delays writes to the store until they are staged, so that many objects become one pack.
    /// Until then only this value can read them; libgit2 cannot.
    pub(crate) fn gather(&self) {
        if self.destination == Destination::Store {
            self.gathering.borrow_mut().get_or_insert_default();
        }
    }

    /// Stores an object unless its destination already has it.
    pub(crate) fn write(&self, kind: ObjectType, data: &[u8]) -> Result<ObjectId, CheckpointError> {
        let name = self
            .format()
            .name(kind, data)
            .map_err(CheckpointError::git("name an object"))?;
        self.write_named(name, kind, data)
    }

    /// As [`Self::write`] for an object whose id is known.
    pub(crate) fn write_named(
        &self,
        name: ObjectId,
        kind: ObjectType,
        data: &[u8],
    ) -> Result<ObjectId, CheckpointError> {
        match self.destination {
            Destination::Store if self.is_stored(name) => {}
            Destination::Store => self.put(&[(name, kind, data)])?,
            Destination::User if self.user_has(name)? => {}
            Destination::User => {
                if !self.give(name)? {
                    write_loose(&self.users, name, kind, data)?;
                    self.adopt(name);
                }
            }
        }
        Ok(name)
    }

    /// Stores the content of a file.
    pub(crate) fn write_blob(&self, data: &[u8]) -> Result<ObjectId, CheckpointError> {
        self.write(ObjectType::Blob, data)
    }

    /// Stores the contents of many files in the private store.
    pub(crate) fn write_blobs(&self, blobs: &[Blob]) -> Result<(), CheckpointError> {
        let new = blobs.iter().filter(|blob| !self.is_stored(blob.id));
        self.put(
            &new.map(|blob| (blob.id, ObjectType::Blob, blob.bytes.as_slice()))
                .collect::<Vec<_>>(),
        )
    }

    /// Stores objects that the store does not have.
    fn put(&self, objects: &[(ObjectId, ObjectType, &[u8])]) -> Result<(), CheckpointError> {
        let mut gathering = self.gathering.borrow_mut();
        let Some(gathering) = gathering.as_mut() else {
            return objects
                .iter()
                .try_for_each(|(id, kind, data)| self.put_file(*id, *kind, data));
        };
        let (large, small): (Vec<_>, Vec<_>) =
            objects.iter().partition(|(.., data)| data.len() >= LARGE);
        gathering.add(&small, &self.store.objects())?;
        large
            .iter()
            .try_for_each(|(id, kind, data)| self.put_file(*id, *kind, data))
    }

    fn put_file(&self, id: ObjectId, kind: ObjectType, data: &[u8]) -> Result<(), CheckpointError> {
        self.store.write(id, kind, data)?;
        self.written
            .borrow_mut()
            .insert(loose_path(&self.store.objects(), id));
        Ok(())
    }

    /// Stores the gathered objects.
    fn put_gathered(&self) -> Result<(), CheckpointError> {
        let Some(gathering) = self.gathering.borrow_mut().as_mut().map(std::mem::take) else {
            return Ok(());
        };
        match gathering.finish() {
            Gathered::Few(few) => few
                .iter()
                .try_for_each(|(id, kind, data)| self.put_file(*id, *kind, data)),
            Gathered::Pack(pack) => {
                let path = pack.finish(self.disk, &|_| Ok(()))?;
                self.store.add_pack(&path);
                Ok(())
            }
        }
    }

    /// As [`Self::copy`] for many objects.
    pub(crate) fn copy_all(&self, ids: &BTreeSet<ObjectId>) -> Result<(), CheckpointError> {
        if ids.len() < MANY {
            return ids.iter().try_for_each(|id| self.copy(*id));
        }
        let mut missing = Vec::new();
        for id in ids {
            let has = match self.destination {
                Destination::Store => self.is_stored(*id),
                Destination::User => self.user_has(*id)?,
            };
            missing.extend((!has).then_some(*id));
        }
        if missing.len() < MANY {
            return missing.into_iter().try_for_each(|id| self.copy(id));
        }
        let objects = match self.destination {
            Destination::Store => self.store.objects(),
            Destination::User => self.users.clone(),
        };
        let mut pack = PackWriter::begin(&objects)?;
        let mut batch: Vec<(ObjectId, ObjectType, Vec<u8>)> = Vec::new();
        let mut size = 0;
        for id in missing {
            if let Some(packed) = self.packed(id) {
                pack.add(&packed)?;
                continue;
            }
            let (kind, data) = self.read_any(id)?;
            if data.len() >= LARGE {
                self.copy(id)?;
                continue;
            }
            size += data.len();
            batch.push((id, kind, data));
            if size >= BATCH {
                add_batch(&mut pack, &batch)?;
                (batch, size) = (Vec::new(), 0);
            }
        }
        add_batch(&mut pack, &batch)?;
        if pack.is_empty() {
            return Ok(());
        }
        match self.destination {
            Destination::Store => self.store.add_pack(&pack.finish(self.disk, &|_| Ok(()))?),
            Destination::User => {
                self.packed.borrow_mut().extend(pack.ids());
                pack.finish(self.disk, &|path| self.store.guard(path))?;
            }
        }
        Ok(())
    }

    /// An object in its packed form, to copy it to the user's object database.
    fn packed(&self, id: ObjectId) -> Option<Packed> {
        match self.destination {
            Destination::Store => None,
            Destination::User => self.store.packed(id),
        }
    }

    /// Copies a readable object to the destination for new objects.
    pub(crate) fn copy(&self, id: ObjectId) -> Result<(), CheckpointError> {
        match self.destination {
            Destination::Store if self.is_stored(id) => Ok(()),
            Destination::Store => {
                if self.store.take(id, &self.users)? {
                    self.written
                        .borrow_mut()
                        .insert(loose_path(&self.store.objects(), id));
                    return Ok(());
                }
                let (kind, data) = self.read_any(id)?;
                self.write_named(id, kind, &data).map(|_| ())
            }
            Destination::User if self.user_has(id)? => Ok(()),
            Destination::User if self.give(id)? => Ok(()),
            Destination::User if self.store.holds(id) => {
                let (kind, data) = self.read_any(id)?;
                self.write_named(id, kind, &data).map(|_| ())
            }
            // Git may have packed it since the packs were last listed.
            Destination::User if self.odb.exists(id.into()) => Ok(()),
            Destination::User => Err(missing(self.repository, id)),
        }
    }

    /// Copies a synced object of the store to the user's object database; returns whether the store
    /// has it.
    fn give(&self, id: ObjectId) -> Result<bool, CheckpointError> {
        let is_there = self.store.give(id, &self.users)?;
        if is_there {
            self.linked
                .borrow_mut()
                .extend(loose_path(&self.users, id).parent().map(Path::to_path_buf));
        }
        Ok(is_there)
    }

    /// Marks an object that libgit2 or git wrote to the user's object database for the next sync.
    pub(crate) fn adopt(&self, id: ObjectId) {
        self.written
            .borrow_mut()
            .insert(loose_path(&self.users, id));
    }

    /// Whether an object can be used; protects an object of the store from the next sweeps.
    pub(crate) fn exists(&self, id: ObjectId) -> bool {
        self.is_stored(id) || self.odb.exists(id.into())
    }

    /// As [`Self::exists`], for callers that only read.
    pub(crate) fn is_readable(&self, id: ObjectId) -> bool {
        self.is_gathered(id)
            || self.store.holds(id)
            || self.odb.exists(id.into())
            || self.store.has_stand_in(id)
    }

    /// Whether the private store has an object; protects it from the next sweeps.
    pub(crate) fn is_stored(&self, id: ObjectId) -> bool {
        self.is_gathered(id) || self.store.has(id) || self.store.has_stand_in(id)
    }

    /// Whether an object is a large content that a filter stores; reading it starts a process.
    pub(crate) fn is_elsewhere(&self, id: ObjectId) -> bool {
        self.store.has_stand_in(id)
    }

    fn is_gathered(&self, id: ObjectId) -> bool {
        self.gathering
            .borrow()
            .as_ref()
            .is_some_and(|gathering| gathering.holds(id))
    }

    /// The replacement that git shows for an object; usually the object itself.
    pub(crate) fn shown(&self, id: ObjectId) -> ObjectId {
        shown(&self.replacements, id)
    }

    pub(crate) fn read(&self, id: ObjectId) -> Result<Vec<u8>, CheckpointError> {
        self.read_any(id).map(|(_, data)| data)
    }

    /// An object with its kind.
    pub(crate) fn read_any(&self, id: ObjectId) -> Result<(ObjectType, Vec<u8>), CheckpointError> {
        if let Some(found) = self
            .gathering
            .borrow()
            .as_ref()
            .and_then(|gathering| gathering.read(id))
        {
            return Ok(found);
        }
        match self.odb.read(id.into()) {
            Ok(object) => Ok((object.kind(), object.data().to_vec())),
            Err(err) if err.code() == ErrorCode::NotFound => {
                if let Some(found) = self.store.read(id)? {
                    return Ok(found);
                }
                let stand_in = self
                    .store
                    .stand_in(id)?
                    .ok_or_else(|| missing(self.repository, id))?;
                stand_in
                    .read(self.repository, self, id)
                    .map(|content| (ObjectType::Blob, content))
            }
            Err(err) => Err(CheckpointError::git("read an object")(err)),
        }
    }

    /// Whether the user's object database itself has an object.
    pub(crate) fn user_has(&self, id: ObjectId) -> Result<bool, CheckpointError> {
        if self.packed.borrow().contains(&id) {
            return Ok(true);
        }
        if !self.store.has(id) {
            return Ok(self.odb.exists_ext(id.into(), OdbLookupFlags::NO_REFRESH));
        }
        if loose_path(&self.users, id).exists() {
            return Ok(true);
        }
        if self.users_alone.get().is_none() {
            let opening = || CheckpointError::git("open the object database");
            let odb = Odb::new_ext(self.format().into()).map_err(opening())?;
            if let Some(users) = self.users.to_str() {
                odb.add_disk_alternate(users).map_err(opening())?;
            }
            let _ = self.users_alone.set(odb);
        }
        // If the folder's path is not UTF-8, the object is stored again, which is harmless.
        Ok(self
            .users_alone
            .get()
            .is_some_and(|odb| odb.exists_ext(id.into(), OdbLookupFlags::NO_REFRESH)))
    }

    /// Syncs all written objects to disk.
    ///
    /// A packed object has no file of its own; git's process wrote and synced it.
    pub(crate) fn sync(&self) -> Result<(), CheckpointError> {
        self.stage()?;
        self.disk
            .settle()
            .map_err(CheckpointError::io("write to disk", &self.users))
    }

    /// Stages all written objects: they are on disk before the next journal line that relies on
    /// them.
    pub(crate) fn stage(&self) -> Result<(), CheckpointError> {
        self.put_gathered()?;
        let written = std::mem::take(&mut *self.written.borrow_mut());
        let linked = std::mem::take(&mut *self.linked.borrow_mut());
        self.disk
            .stage_paths(&written, &linked)
            .map_err(CheckpointError::io("write to disk", &self.users))
    }
}

fn add_batch(
    pack: &mut PackWriter,
    batch: &[(ObjectId, ObjectType, Vec<u8>)],
) -> Result<(), CheckpointError> {
    let objects: Vec<_> = batch
        .iter()
        .map(|(id, kind, data)| (*id, *kind, data.as_slice()))
        .collect();
    pack_all(&objects)
        .iter()
        .try_for_each(|object| pack.add(object))
}

fn missing(repository: &Repository, id: ObjectId) -> CheckpointError {
    CheckpointError::Missing {
        what: format!("object {id}"),
        promisor: repository.promisor(),
    }
}
