//! The objects of a repository, with what libgit2 leaves out: two places, and surviving a power loss.
//!
//! Everything is read from the user's object database and from piton's private store. What is written goes
//! to one of them: [`Objects::of`] writes to the store, [`Objects::of_user`] to the user's object database.
//! libgit2 would not write an object that the other place has; here each place is asked by itself.
//!
//! [`Objects`] remembers what it wrote. A caller stages all of it ([`Objects::stage`]) before it writes a line of
//! the journal that names any of it, and syncs it ([`Objects::sync`]) before it writes anything else that does.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{ErrorCode, ObjectType, Odb, OdbLookupFlags, Oid};

use super::error::CheckpointError;
use super::object::ObjectId;
use super::repository::Repository;
use super::store::{Store, loose_path};
use super::substitution::{Replacements, shown};
use crate::disk::Disk;

/// Where new objects go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    /// Piton's own store.
    Store,
    /// The user's object database.
    User,
}

/// Reads and writes objects of a repository.
pub(crate) struct Objects<'repo> {
    repository: &'repo Repository,
    /// The user's objects, and the private ones as its alternate.
    odb: Odb<'repo>,
    /// The user's objects alone.
    users_alone: OnceCell<Odb<'static>>,
    store: &'repo Store,
    disk: &'repo Disk,
    destination: Destination,
    /// The user's loose objects.
    users: PathBuf,
    /// What git shows in the place of objects.
    replacements: Arc<Replacements>,
    /// The files that are not on disk yet.
    written: RefCell<BTreeSet<PathBuf>>,
    /// The folders in which files that are on disk got another name.
    linked: RefCell<BTreeSet<PathBuf>>,
}

impl<'repo> Objects<'repo> {
    /// The objects of a repository; new ones go to the private store.
    pub(crate) fn of(repository: &'repo Repository) -> Result<Self, CheckpointError> {
        Self::with(repository, Destination::Store)
    }

    /// The objects of a repository; new ones go to the user's object database. Only for what a commit, the user's
    /// index or the log of a run needs.
    pub(crate) fn of_user(repository: &'repo Repository) -> Result<Self, CheckpointError> {
        Self::with(repository, Destination::User)
    }

    fn with(repository: &'repo Repository, destination: Destination) -> Result<Self, CheckpointError> {
        repository.attach_store()?;
        let odb = repository.git.odb().map_err(CheckpointError::git("open the object database"))?;
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
        })
    }

    /// Stores an object unless its place has it already.
    pub(crate) fn write(&self, kind: ObjectType, data: &[u8]) -> Result<ObjectId, CheckpointError> {
        let name = Oid::hash_object(kind, data).map_err(CheckpointError::git("name an object"))?;
        self.write_named(name.into(), kind, data)
    }

    /// As [`Self::write`] for an object whose name is known.
    pub(crate) fn write_named(
        &self,
        name: ObjectId,
        kind: ObjectType,
        data: &[u8],
    ) -> Result<ObjectId, CheckpointError> {
        match self.destination {
            Destination::Store if self.store.has(name) => {}
            Destination::Store => {
                self.store.write(name, kind, data)?;
                self.written.borrow_mut().insert(loose_path(&self.store.objects(), name));
            }
            Destination::User if self.user_has(name)? => {}
            Destination::User => {
                if !self.give(name)? {
                    self.odb.write(kind, data).map_err(CheckpointError::git("write an object"))?;
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

    /// Has an object that can be read in the place where new ones go.
    pub(crate) fn copy(&self, id: ObjectId) -> Result<(), CheckpointError> {
        match self.destination {
            Destination::Store if self.store.has(id) => Ok(()),
            Destination::Store => {
                if self.store.take(id, &self.users)? {
                    self.written.borrow_mut().insert(loose_path(&self.store.objects(), id));
                    return Ok(());
                }
                let (kind, data) = self.read_any(id)?;
                self.write_named(id, kind, &data).map(|_| ())
            }
            Destination::User if self.user_has(id)? => Ok(()),
            Destination::User if self.give(id)? => Ok(()),
            // Git may have packed it since the packs were last looked for.
            Destination::User if self.odb.exists(id.into()) => Ok(()),
            Destination::User => Err(missing(self.repository, id)),
        }
    }

    /// Gives the user's object database an object of the store, which is on disk; says whether the store has it.
    fn give(&self, id: ObjectId) -> Result<bool, CheckpointError> {
        let is_there = self.store.give(id, &self.users)?;
        if is_there {
            self.linked.borrow_mut().extend(loose_path(&self.users, id).parent().map(Path::to_path_buf));
        }
        Ok(is_there)
    }

    /// Counts an object that libgit2 or git wrote into the user's object database among those to be synced.
    pub(crate) fn adopt(&self, id: ObjectId) {
        self.written.borrow_mut().insert(loose_path(&self.users, id));
    }

    /// Whether an object can be used: one of the store is not swept for a while.
    pub(crate) fn exists(&self, id: ObjectId) -> bool {
        self.store.has(id) || self.odb.exists(id.into())
    }

    /// As [`Self::exists`], for callers that only look.
    pub(crate) fn is_readable(&self, id: ObjectId) -> bool {
        self.store.holds(id) || self.odb.exists(id.into())
    }

    /// Whether the private store has an object, which is not swept for a while.
    pub(crate) fn is_stored(&self, id: ObjectId) -> bool {
        self.store.has(id)
    }

    /// What git shows in the place of an object; mostly the object itself.
    pub(crate) fn shown(&self, id: ObjectId) -> ObjectId {
        shown(&self.replacements, id)
    }

    pub(crate) fn read(&self, id: ObjectId) -> Result<Vec<u8>, CheckpointError> {
        self.read_any(id).map(|(_, data)| data)
    }

    /// An object with its kind.
    pub(crate) fn read_any(&self, id: ObjectId) -> Result<(ObjectType, Vec<u8>), CheckpointError> {
        match self.odb.read(id.into()) {
            Ok(object) => Ok((object.kind(), object.data().to_vec())),
            Err(err) if err.code() == ErrorCode::NotFound => {
                self.store.read(id)?.ok_or_else(|| missing(self.repository, id))
            }
            Err(err) => Err(CheckpointError::git("read an object")(err)),
        }
    }

    /// Whether the user's object database has an object by itself.
    fn user_has(&self, id: ObjectId) -> Result<bool, CheckpointError> {
        if !self.store.has(id) {
            return Ok(self.odb.exists_ext(id.into(), OdbLookupFlags::NO_REFRESH));
        }
        if loose_path(&self.users, id).exists() {
            return Ok(true);
        }
        if self.users_alone.get().is_none() {
            let opening = || CheckpointError::git("open the object database");
            let odb = Odb::new().map_err(opening())?;
            if let Some(users) = self.users.to_str() {
                odb.add_disk_alternate(users).map_err(opening())?;
            }
            let _ = self.users_alone.set(odb);
        }
        // Where the folder has no name in UTF-8, the object is stored once more, which does no harm.
        Ok(self.users_alone.get().is_some_and(|odb| odb.exists(id.into())))
    }

    /// Puts everything written so far on disk.
    ///
    /// A packed object has no file of its own; git's own process wrote and synced it.
    pub(crate) fn sync(&self) -> Result<(), CheckpointError> {
        self.stage()?;
        self.disk.settle().map_err(CheckpointError::io("write to disk", &self.users))
    }

    /// Stages everything written so far: it is on disk before the next line of the journal that relies on it.
    pub(crate) fn stage(&self) -> Result<(), CheckpointError> {
        let written = std::mem::take(&mut *self.written.borrow_mut());
        let linked = std::mem::take(&mut *self.linked.borrow_mut());
        self.disk.stage_paths(&written, &linked).map_err(CheckpointError::io("write to disk", &self.users))
    }
}

fn missing(repository: &Repository, id: ObjectId) -> CheckpointError {
    CheckpointError::Missing { what: format!("object {id}"), promisor: repository.promisor() }
}
