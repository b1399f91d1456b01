//! Writes a pack: entries first, then the checksum, then the index.
//!
//! A pack is invisible until its index gets its final name, which happens last. A killed process
//! leaves a file with the prefix [`UNFINISHED`], or a pack without an index; the sweep removes
//! both.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use flate2::{Compress, Compression, FlushCompress, Status};
use git2::ObjectType;
use rayon::prelude::*;

use super::super::error::CheckpointError;
use super::super::object::{ObjectFormat, ObjectId};
use super::super::store::temporary_name;
use super::{INDEX_MAGIC, LARGE_OFFSET, PACK_MAGIC, PREFIX, UNFINISHED, decode};
use crate::disk::Disk;
use crate::failpoint::failpoint;

/// The size of a write.
const CHUNK: usize = 1 << 20;

/// An object in its packed form.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) id: ObjectId,
    /// Its kind and size, then its compressed content.
    pub(crate) bytes: Vec<u8>,
}

/// Compresses many objects on all cores.
pub(crate) fn pack_all(objects: &[(ObjectId, ObjectType, &[u8])]) -> Vec<Packed> {
    let compressor = || Compress::new(Compression::fast(), true);
    let pack = |compress: &mut Compress, (id, kind, data): &(ObjectId, ObjectType, &[u8])| Packed {
        id: *id,
        bytes: encode(*kind, data, compress),
    };
    objects
        .par_iter()
        .with_min_len(32)
        .map_init(compressor, pack)
        .collect()
}

fn encode(kind: ObjectType, data: &[u8], compress: &mut Compress) -> Vec<u8> {
    let number: u8 = match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        ObjectType::Tag => 4,
        _ => 3,
    };
    let mut bytes = Vec::with_capacity(data.len() / 2 + 64);
    let mut size = data.len();
    let low = |size: usize, bits: u32| u8::try_from(size & ((1 << bits) - 1)).unwrap_or(0);
    let mut byte = (number << 4) | low(size, 4);
    size >>= 4;
    while size > 0 {
        bytes.push(byte | 0x80);
        byte = low(size, 7);
        size >>= 7;
    }
    bytes.push(byte);
    compress.reset();
    let mut rest = data;
    loop {
        // Reserve more than is ever needed at once: the compressor fills the available space.
        bytes.reserve(rest.len() / 2 + 64);
        let before = compress.total_in();
        let status = compress.compress_vec(rest, &mut bytes, FlushCompress::Finish);
        let taken = usize::try_from(compress.total_in() - before).unwrap_or(usize::MAX);
        rest = rest.get(taken..).unwrap_or_default();
        if matches!(status, Ok(Status::StreamEnd) | Err(_)) {
            return bytes;
        }
    }
}

/// A pack that is being written.
#[derive(Debug)]
pub(crate) struct PackWriter {
    folder: PathBuf,
    temporary: PathBuf,
    file: File,
    /// Bytes that are not in the file yet.
    buffer: Vec<u8>,
    written: u64,
    items: Vec<PackedObject>,
    places: HashMap<ObjectId, usize>,
}

#[derive(Debug)]
struct PackedObject {
    id: ObjectId,
    offset: u64,
    sum: u32,
}

impl PackWriter {
    /// Starts a pack in the `pack` folder of an object database.
    pub(crate) fn begin(objects: &Path) -> Result<Self, CheckpointError> {
        let folder = objects.join("pack");
        fs::create_dir_all(&folder).map_err(CheckpointError::io("make the folder", &folder))?;
        let temporary = folder.join(UNFINISHED.to_owned() + &temporary_name());
        let file = create(&temporary)?;
        let buffer = [PACK_MAGIC.as_slice(), &[0; 4]].concat();
        Ok(Self {
            folder,
            temporary,
            file,
            buffer,
            written: 0,
            items: Vec::new(),
            places: HashMap::new(),
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The objects that were added.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.items.iter().map(|item| item.id)
    }

    pub(crate) fn holds(&self, id: ObjectId) -> bool {
        self.places.contains_key(&id)
    }

    /// Adds an object, unless it was added before.
    pub(crate) fn add(&mut self, object: &Packed) -> Result<(), CheckpointError> {
        if self.holds(object.id) {
            return Ok(());
        }
        self.places.insert(object.id, self.items.len());
        let offset = self.written + self.buffer.len() as u64;
        self.items.push(PackedObject {
            id: object.id,
            offset,
            sum: crc32fast::hash(&object.bytes),
        });
        self.buffer.extend_from_slice(&object.bytes);
        if self.buffer.len() >= CHUNK {
            self.flush()
        } else {
            Ok(())
        }
    }

    pub(crate) fn read(&self, id: ObjectId) -> Option<(ObjectType, Vec<u8>)> {
        let at = *self.places.get(&id)?;
        let begin = self.items.get(at)?.offset;
        let end = self
            .items
            .get(at + 1)
            .map_or(self.written + self.buffer.len() as u64, |next| next.offset);
        let length = usize::try_from(end - begin).ok()?;
        if begin >= self.written {
            let at = usize::try_from(begin - self.written).ok()?;
            return decode(self.buffer.get(at..at + length)?);
        }
        // The buffer is written as a whole, so that an object is either in the buffer or in the
        // file.
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, begin).ok()?;
        decode(&bytes)
    }

    /// Finishes the pack: both files are on disk and have their names. Returns the `.pack` file.
    ///
    /// `guard` is called with that file before git can find it.
    pub(crate) fn finish(
        mut self,
        disk: &Disk,
        guard: &dyn Fn(&Path) -> Result<(), CheckpointError>,
    ) -> Result<PathBuf, CheckpointError> {
        self.flush()?;
        // Sort by id from here on, as in the index.
        self.items.sort_unstable_by_key(|item| item.id);
        let writing = || CheckpointError::io("write", &self.temporary);
        let count = u32::try_from(self.items.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        self.file
            .write_all_at(&count, PACK_MAGIC.len() as u64)
            .map_err(writing())?;
        let sum = self.sum().map_err(writing())?;
        self.file
            .write_all_at(sum.as_bytes(), self.written)
            .map_err(writing())?;
        let pack = self.folder.join(format!("{PREFIX}{sum}.pack"));
        let index = pack.with_extension("idx");
        // Its name contains the pack, so that the pack of a killed process can be removed.
        let unfinished_index = self
            .folder
            .join(format!("{UNFINISHED}{}_{sum}", temporary_name()));
        let mut index_file = create(&unfinished_index)?;
        let indexing = || CheckpointError::io("write", &unfinished_index);
        index_file.write_all(&self.index(sum)).map_err(indexing())?;
        // Sync the bytes before the names: a truncated file with its final name would look like a
        // damaged pack.
        disk.bring(&self.file).map_err(writing())?;
        disk.bring(&index_file).map_err(indexing())?;
        failpoint("pack-written");
        guard(&pack)?;
        fs::rename(&self.temporary, &pack).map_err(CheckpointError::io("write", &pack))?;
        failpoint("pack-named");
        fs::rename(&unfinished_index, &index).map_err(CheckpointError::io("write", &index))?;
        failpoint("pack-indexed");
        disk.stage_folder(&self.folder)
            .map_err(CheckpointError::io("write to disk", &self.folder))?;
        Ok(pack)
    }

    fn flush(&mut self) -> Result<(), CheckpointError> {
        self.file
            .write_all_at(&self.buffer, self.written)
            .map_err(CheckpointError::io("write", &self.temporary))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// The common format of the ids.
    fn format(&self) -> ObjectFormat {
        self.items
            .first()
            .map(|item| item.id.format())
            .unwrap_or_default()
    }

    /// The checksum of the file. The file begins with the number of objects, which is known only
    /// now.
    fn sum(&self) -> std::io::Result<ObjectId> {
        let mut sum = self.format().hasher();
        let mut chunk = vec![0; CHUNK];
        let mut file = File::open(&self.temporary)?;
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(sum.finish()),
                read => sum.update(chunk.get(..read).unwrap_or_default()),
            }
        }
    }

    /// The bytes of the index, version 2.
    fn index(&self, pack_sum: ObjectId) -> Vec<u8> {
        let mut bytes = INDEX_MAGIC.to_vec();
        let mut at = 0;
        for first in 0..=u8::MAX {
            at += self
                .items
                .iter()
                .skip(at)
                .take_while(|item| item.id.as_bytes().first() == Some(&first))
                .count();
            bytes.extend(u32::try_from(at).unwrap_or(u32::MAX).to_be_bytes());
        }
        self.items
            .iter()
            .for_each(|item| bytes.extend(item.id.as_bytes()));
        bytes.extend(self.items.iter().flat_map(|item| item.sum.to_be_bytes()));
        let mut large: Vec<u64> = Vec::new();
        for item in &self.items {
            let small = u32::try_from(item.offset)
                .ok()
                .filter(|offset| offset & LARGE_OFFSET == 0);
            bytes.extend(small.map_or_else(
                || {
                    large.push(item.offset);
                    (u32::try_from(large.len() - 1).unwrap_or(0) | LARGE_OFFSET).to_be_bytes()
                },
                u32::to_be_bytes,
            ));
        }
        bytes.extend(large.iter().flat_map(|offset| offset.to_be_bytes()));
        bytes.extend(pack_sum.as_bytes());
        let sum = pack_sum.format().digest(&bytes);
        bytes.extend(sum.as_bytes());
        bytes
    }
}

impl Drop for PackWriter {
    /// Removes an unfinished file; after `finish` it has another name.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

fn create(path: &Path) -> Result<File, CheckpointError> {
    let open = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o444)
            .open(path)
    };
    let opened = match open() {
        // A killed process had the same id.
        Err(err) if err.kind() == std::io::ErrorKind::PermissionDenied => {
            fs::remove_file(path).and_then(|()| open())
        }
        opened => opened,
    };
    opened.map_err(CheckpointError::io("write", path))
}
