//! Collects objects to store them together: in a pack if there are many, else in separate files.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use git2::ObjectType;

use super::super::error::CheckpointError;
use super::super::object::ObjectId;
use super::{MANY, PackWriter, pack_all};

/// Objects that are collected until there are many.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    few: Vec<(ObjectId, ObjectType, Vec<u8>)>,
    places: HashMap<ObjectId, usize>,
    pack: Option<PackWriter>,
}

/// The result.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// Too few for a pack.
    Few(Vec<(ObjectId, ObjectType, Vec<u8>)>),
    /// A pack to finish.
    Pack(PackWriter),
}

impl Gathering {
    pub(crate) fn holds(&self, id: ObjectId) -> bool {
        self.places.contains_key(&id) || self.pack.as_ref().is_some_and(|pack| pack.holds(id))
    }

    pub(crate) fn read(&self, id: ObjectId) -> Option<(ObjectType, Vec<u8>)> {
        let few = self.places.get(&id).and_then(|at| self.few.get(*at));
        let found = few.map(|(_, kind, data)| (*kind, data.clone()));
        found.or_else(|| self.pack.as_ref().and_then(|pack| pack.read(id)))
    }

    /// Adds objects that are not here yet; a pack would be written to this object database.
    pub(crate) fn add(
        &mut self,
        objects: &[(ObjectId, ObjectType, &[u8])],
        database: &Path,
    ) -> Result<(), CheckpointError> {
        if self.pack.is_none() && self.few.len() + objects.len() < MANY {
            for (id, kind, data) in objects {
                if let Entry::Vacant(place) = self.places.entry(*id) {
                    place.insert(self.few.len());
                    self.few.push((*id, *kind, data.to_vec()));
                }
            }
            return Ok(());
        }
        let pack = self.pack(database)?;
        pack_all(objects)
            .iter()
            .try_for_each(|object| pack.add(object))
    }

    pub(crate) fn finish(self) -> Gathered {
        self.pack.map_or(Gathered::Few(self.few), Gathered::Pack)
    }

    /// The pack, started on the first call.
    fn pack(&mut self, database: &Path) -> Result<&mut PackWriter, CheckpointError> {
        let pack = match self.pack.take() {
            Some(pack) => pack,
            None => PackWriter::begin(database)?,
        };
        let pack = self.pack.insert(pack);
        let few: Vec<_> = self
            .few
            .iter()
            .map(|(id, kind, data)| (*id, *kind, data.as_slice()))
            .collect();
        pack_all(&few)
            .iter()
            .try_for_each(|object| pack.add(object))?;
        self.few.clear();
        self.places.clear();
        Ok(pack)
    }
}
