//! The object database, with what libgit2 leaves out: objects that survive a power loss.
//!
//! [`Objects`] remembers what it wrote; [`Objects::sync`] puts all of it on disk at once, which a
//! caller does before it writes a ref or a journal entry that names any of it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Odb, OdbLookupFlags, Oid, Repository};

use super::error::CheckpointError;
use super::object::ObjectId;

/// So many objects are synced one by one; for more, the whole file system at once is faster.
#[cfg(target_os = "linux")]
const FEW: usize = 64;

/// Reads and writes objects of a repository.
pub(crate) struct Objects<'repo> {
    odb: Odb<'repo>,
    folder: PathBuf,
    written: RefCell<BTreeSet<ObjectId>>,
}

impl<'repo> Objects<'repo> {
    pub(crate) fn of(repository: &'repo Repository) -> Result<Self, CheckpointError> {
        let odb = repository.odb().map_err(CheckpointError::git("open the object database"))?;
        let folder = repository.commondir().join("objects");
        Ok(Self { odb, folder, written: RefCell::default() })
    }

    /// Stores an object unless it is there already.
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
        if self.odb.exists_ext(name.into(), OdbLookupFlags::NO_REFRESH) {
            return Ok(name);
        }
        let id = ObjectId::from(self.odb.write(kind, data).map_err(CheckpointError::git("write an object"))?);
        self.written.borrow_mut().insert(id);
        Ok(id)
    }

    /// Stores the content of a file.
    pub(crate) fn write_blob(&self, data: &[u8]) -> Result<ObjectId, CheckpointError> {
        self.write(ObjectType::Blob, data)
    }

    /// Counts an object that libgit2 wrote by itself among those to be synced.
    pub(crate) fn adopt(&self, id: ObjectId) {
        self.written.borrow_mut().insert(id);
    }

    pub(crate) fn exists(&self, id: ObjectId) -> bool {
        self.odb.exists(id.into())
    }

    pub(crate) fn read(&self, id: ObjectId) -> Result<Vec<u8>, CheckpointError> {
        let object = self.odb.read(id.into()).map_err(CheckpointError::git("read an object"))?;
        Ok(object.data().to_vec())
    }

    /// Puts everything written so far on disk.
    ///
    /// A packed object has no file of its own; git's own process wrote and synced it.
    pub(crate) fn sync(&self) -> Result<(), CheckpointError> {
        let written = std::mem::take(&mut *self.written.borrow_mut());
        #[cfg(target_os = "linux")]
        if written.len() > FEW {
            let folder = OpenOptions::new().read(true).open(&self.folder);
            let synced = folder.and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
            return synced.map_err(CheckpointError::io("write to disk", &self.folder));
        }
        let mut folders = BTreeSet::new();
        for id in written {
            let name = id.to_string();
            let (folder, file) = name.split_at(2);
            let folder = self.folder.join(folder);
            let path = folder.join(file);
            if path.exists() {
                sync_path(&path)?;
                folders.insert(folder);
            }
        }
        folders.iter().try_for_each(|folder| sync_path(folder))
    }
}

/// Puts a file or the names in a folder on disk.
pub(crate) fn sync_path(path: &Path) -> Result<(), CheckpointError> {
    let file = OpenOptions::new().read(true).open(path).map_err(CheckpointError::io("open", path))?;
    file.sync_all().map_err(CheckpointError::io("write to disk", path))
}
