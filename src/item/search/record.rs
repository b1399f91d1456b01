//! The files that an index was made from, and their metadata.
//!
//! A [`FolderRecord`] is a folder whose entries decide which files are examined; its
//! [`EntryRecord`]s are those files, each with everything that its document depends on. The index
//! is up to date as long as their metadata is unchanged and was old enough when they were read.

use std::path::PathBuf;

use super::bytes::{ByteReader, ByteWriter};
use crate::item::file_stat::FileStat;
use crate::item::store::Layer;

#[derive(Clone, Debug)]
pub(super) struct FolderRecord {
    pub(super) layer: Layer,
    pub(super) path: PathBuf,
    /// Its metadata before it was listed.
    pub(super) stat: FileStat,
    /// The files in it that may be items.
    pub(super) entries: Vec<EntryRecord>,
}

#[derive(Clone, Debug)]
pub(super) struct EntryRecord {
    /// The number of its document, if it is an item.
    pub(super) document: Option<u32>,
    pub(super) state: EntryState,
    /// The SHA-256 of its content.
    pub(super) hash: [u8; 32],
    /// The entrypoint of a single-file tool.
    pub(super) starts: Option<PathBuf>,
    /// Everything its document depends on, relative to the folder, the file itself first.
    pub(super) depends_on: Vec<(PathBuf, FileStat)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    /// It is an item, or is not meant to be one.
    Fine,
    /// It should be an item but has no usable one.
    Broken,
    /// A script without metadata, which is fine if a manifest beside it describes it.
    Silent,
}

impl EntryState {
    fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Broken => 1,
            Self::Silent => 2,
        }
    }

    fn of_code(code: u8) -> Self {
        match code {
            0 => Self::Fine,
            1 => Self::Broken,
            _ => Self::Silent,
        }
    }
}

impl FolderRecord {
    /// Writes what must be unchanged: the metadata of the folder and of the files that each entry
    /// depends on.
    pub(super) fn write_looks(&self, out: &mut ByteWriter) {
        out.path(&self.path);
        out.stat(&self.stat);
        out.count(self.entries.len());
        for entry in &self.entries {
            out.count(entry.depends_on.len());
            for (path, stat) in &entry.depends_on {
                out.path(path);
                out.stat(stat);
            }
        }
    }

    pub(super) fn write_records(&self, out: &mut ByteWriter) {
        out.byte(layer_code(self.layer));
        for entry in &self.entries {
            out.maybe(entry.document.map(i64::from));
            out.byte(entry.state.code());
            out.0.extend(entry.hash);
            out.path(entry.starts.as_deref().unwrap_or_else(|| "".as_ref()));
        }
    }

    pub(super) fn read(looks: &mut ByteReader<'_>, records: &mut ByteReader<'_>) -> Option<Self> {
        let layer = layer_of(records.byte()?);
        let path = looks.owned_path()?;
        let stat = looks.stat()?;
        let count = looks.count()?;
        let entries = (0..count)
            .map(|_| EntryRecord::read(looks, records))
            .collect::<Option<_>>()?;
        Some(Self {
            layer,
            path,
            stat,
            entries,
        })
    }
}

impl EntryRecord {
    fn read(looks: &mut ByteReader<'_>, records: &mut ByteReader<'_>) -> Option<Self> {
        let count = looks.count()?;
        let depends_on = (0..count)
            .map(|_| Some((looks.owned_path()?, looks.stat()?)))
            .collect::<Option<_>>()?;
        Some(Self {
            document: records
                .maybe()?
                .and_then(|number| u32::try_from(number).ok()),
            state: EntryState::of_code(records.byte()?),
            hash: records.hash()?,
            starts: Some(records.owned_path()?).filter(|path| !path.as_os_str().is_empty()),
            depends_on,
        })
    }
}

pub(super) fn layer_code(layer: Layer) -> u8 {
    match layer {
        Layer::Project => 0,
        Layer::User => 1,
        Layer::Builtin => 2,
    }
}

pub(super) fn layer_of(code: u8) -> Layer {
    match code {
        0 => Layer::Project,
        1 => Layer::User,
        _ => Layer::Builtin,
    }
}
