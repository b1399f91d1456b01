//! The verbs of items: search, load, sign, migrate, create, update and delete. They start no
//! process.
//!
//! [`carry_out`] reads items and returns the answer with the files to write; it writes nothing, so
//! that permissions can be checked first. [`apply`] writes each file atomically, below `.ai/` only
//! and never through a symbolic link. The store must include the writes of earlier steps.
//! `run::items` does both as a step of a run.

pub(crate) mod agent;
pub(crate) mod coverage;
mod create;
mod delete;
mod error;
mod fields;
mod load;
mod migrate;
mod parameters;
mod request;
mod review;
pub(crate) mod sign;
mod update;
mod write;

use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::item::finding::Strength;
use crate::item::search::{self, SearchScope};
use crate::item::store::{ItemKind, ItemStore, Layer};
use serde::Serialize;

pub(crate) use coverage::Loss;
pub use coverage::UncoveredFile;
pub use create::{Created, NextStep};
pub use delete::Deleted;
pub use error::ItemStepError;
pub use load::Loaded;
pub use migrate::{Migrated, MigratedFile, MigratedTree, SkippedFile};
pub use request::{
    CreateItem, DeleteItem, Effort, ItemChange, ItemCommand, ItemName, LoadItem, MigrateScripts,
    SignItems, UpdateItem, Verb,
};
pub use review::{review, review_all};
pub use sign::check::{CheckedItem, SignatureReport, check_signatures};
pub use sign::{Signed, SignedItem, SignedTool, Unsignable};
pub use update::UpdatedItem;
pub(crate) use write::apply;

/// The answer of an item verb.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ItemAnswer {
    Search(search::Results),
    /// The item, and the path of its copy.
    Load(Box<Loaded>),
    Sign(Signed),
    Migrate(Migrated),
    /// The result of migrating a folder.
    MigrateTree(Box<MigratedTree>),
    Create(Box<Created>),
    Update(Box<UpdatedItem>),
    Delete(Box<Deleted>),
}

/// The planned effect of a verb, before anything is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ItemEffect {
    /// The result that later steps can read.
    pub(crate) answer: ItemAnswer,
    /// The files to write, in order.
    pub(crate) writes: Vec<Write>,
}

/// A file to write or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) home: Home,
    /// The path relative to the project or the user's home; always below `.ai/`.
    pub(crate) path: PathBuf,
    /// The content; `None` removes the file.
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) access: FileAccess,
}

/// The permission bits of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileAccess {
    /// The default bits under the user's umask; an existing file keeps its bits.
    Plain,
    /// As `Plain`, but a new file is executable.
    Executable,
    /// Exactly these bits, even for an existing file: the bits of the copied file.
    Exactly(u32),
}

impl FileAccess {
    /// The bits of an existing file.
    fn of(file: &Path) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(file).map_or(Self::Plain, |found| {
            Self::Exactly(found.permissions().mode() & 0o777)
        })
    }
}

/// The layer that a file belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    #[default]
    Project,
    /// The user's layer, which no snapshot covers.
    User,
}

impl Home {
    pub fn layer(self) -> Layer {
        match self {
            Self::Project => Layer::Project,
            Self::User => Layer::User,
        }
    }
}

impl Write {
    fn removal(home: Home, path: PathBuf) -> Self {
        Self {
            home,
            path,
            content: None,
            access: FileAccess::Plain,
        }
    }

    fn text(home: Home, path: PathBuf, content: String) -> Self {
        Self {
            home,
            path,
            content: Some(content.into_bytes()),
            access: FileAccess::Plain,
        }
    }
}

/// Plans a verb without writing.
pub(crate) fn carry_out(
    ctx: &Context,
    store: &ItemStore,
    command: &ItemCommand,
    loss: Loss,
) -> Result<ItemEffect, ItemStepError> {
    match command {
        ItemCommand::Search(query) => Ok(ItemEffect {
            answer: ItemAnswer::Search(search::search(store, query)),
            writes: Vec::new(),
        }),
        ItemCommand::Load(load) => load::load(ctx, store, load),
        ItemCommand::Sign(sign) => sign::sign(ctx, store, sign),
        ItemCommand::Migrate(scripts) => migrate::migrate(ctx, store, scripts, loss),
        ItemCommand::Create(create) => create::create(ctx, store, create),
        ItemCommand::Update(update) => update::update(ctx, store, update),
        ItemCommand::Delete(delete) => delete::delete(ctx, store, delete),
    }
}

/// Reads one item, from wherever it is found first.
pub fn load_one(ctx: &Context, kind: ItemKind, id: &str) -> Result<Loaded, ItemStepError> {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let request = LoadItem {
        item_id: id.to_owned(),
        item_type: Some(kind),
        ..LoadItem::default()
    };
    Ok(load::read(ctx, &store, &request)?.0)
}

/// A path as shown in results.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The layers that a search covers.
fn layers(scope: SearchScope) -> Vec<Layer> {
    match scope {
        SearchScope::All => vec![Layer::Project, Layer::User, Layer::Builtin],
        SearchScope::Local => vec![Layer::Project, Layer::User],
        SearchScope::Only(layer) => vec![layer],
    }
}

#[cfg(test)]
mod tests;
