//! Which files an index was made from, and what they looked like.
//!
//! A [`FolderRecord`] is a folder whose entries decide which files are looked at; its [`EntryRecord`]s
//! are those files, each with everything that its document depends on. As long as all of them look
//! the same, and did so long enough before they were read, the index is right.

use std::path::PathBuf;

use super::bytes::{Reader, Writer};
use crate::item::footprint::Sight;
use crate::item::store::Layer;

/// A folder that was listed.
#[derive(Clone, Debug)]
pub(super) struct FolderRecord {
    pub(super) layer: Layer,
    pub(super) path: PathBuf,
    /// What it looked like before it was listed.
    pub(super) sight: Sight,
    /// The files in it that may be items.
    pub(super) entries: Vec<EntryRecord>,
}

/// A file that may be an item.
#[derive(Clone, Debug)]
pub(super) struct EntryRecord {
    /// The number of its document, if it is an item.
    pub(super) document: Option<u32>,
    /// What is wrong with it.
    pub(super) state: EntryState,
    /// The sha256 of its content.
    pub(super) hash: [u8; 32],
    /// The script that a tool in a single file starts with.
    pub(super) starts: Option<PathBuf>,
    /// Everything its document depends on, below the folder, the file itself first.
    pub(super) depends_on: Vec<(PathBuf, Sight)>,
}

/// Whether a file could be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    /// It is an item, or is not meant to be one.
    Fine,
    /// It should be an item and is none that can be found.
    Broken,
    /// It is a script that does not say what it is, which is fine if a manifest beside it does.
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
    pub(super) fn write(&self, out: &mut Writer) {
        out.byte(layer_code(self.layer));
        out.path(&self.path);
        out.sight(&self.sight);
        out.count(self.entries.len());
        for entry in &self.entries {
            entry.write(out);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let layer = layer_of(reader.byte()?);
        let path = reader.owned_path()?;
        let sight = reader.sight()?;
        let count = reader.count()?;
        let entries = (0..count).map(|_| EntryRecord::read(reader)).collect::<Option<_>>()?;
        Some(Self { layer, path, sight, entries })
    }
}

impl EntryRecord {
    fn write(&self, out: &mut Writer) {
        out.maybe(self.document.map(i64::from));
        out.byte(self.state.code());
        out.0.extend(self.hash);
        out.path(self.starts.as_deref().unwrap_or_else(|| "".as_ref()));
        out.count(self.depends_on.len());
        for (path, sight) in &self.depends_on {
            out.path(path);
            out.sight(sight);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let document = reader.maybe()?.and_then(|number| u32::try_from(number).ok());
        let state = EntryState::of_code(reader.byte()?);
        let hash = reader.hash()?;
        let starts = Some(reader.owned_path()?).filter(|path| !path.as_os_str().is_empty());
        let count = reader.count()?;
        let depends_on = (0..count).map(|_| Some((reader.owned_path()?, reader.sight()?))).collect::<Option<_>>()?;
        Some(Self { document, state, hash, starts, depends_on })
    }

    /// Passes over what is known about a file, up to what it depends on; says how much that is.
    pub(super) fn skip_to_dependencies(reader: &mut Reader<'_>) -> Option<u32> {
        reader.maybe()?;
        reader.byte()?;
        reader.hash()?;
        reader.bytes()?;
        reader.count()
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
