//! What is done with items: searching, loading, signing, migrating, creating, updating and deleting them, without any
//! process.
//!
//! [`carry_out`] reads items and says what came of it and which files are to be written; it writes
//! nothing, so that permissions can be judged first. [`apply`] writes them, each whole or not at
//! all, below `.ai/` only and never through a link. The store has to be as fresh as the step: what an
//! earlier step wrote is part of it. [`perform`] is the same as a command of its own.

mod command;
mod coverage;
mod create;
mod delete;
mod error;
mod fields;
mod load;
mod migrate;
mod parameters;
mod review;
mod sign;
mod step;
mod update;
mod verb;
mod write;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::context::Context;
use crate::item::search::{self, Order, Query, Scope};
use crate::item::store::{ItemStore, Layer};

pub use command::{Effort, ItemOutcome, ItemRequest, perform, sign_as};
pub(super) use coverage::Loss;
pub use coverage::UncoveredFile;
pub use create::Created;
pub use delete::Deleted;
pub use error::ItemStepError;
pub use load::Loaded;
pub use migrate::{Migrated, MigratedFile, MigratedTree, SkippedFile};
use parameters::Given;
pub use review::{review, review_text};
pub use sign::check::{CheckRequest, Checked, CheckedItem, check_signatures, parameters as sign_parameters};
pub use sign::{Signed, SignedItem, SignedTool, Unsignable};
pub use update::Updated;
pub use verb::Verb;
pub(super) use write::apply;

/// What was done with items, or would be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ItemAnswer {
    /// What was found.
    Search(search::Results),
    /// The item, and where it was copied to.
    Load(Box<Loaded>),
    /// What was signed.
    Sign(Signed),
    /// What was migrated.
    Migrate(Migrated),
    /// What was migrated of many.
    MigrateTree(Box<MigratedTree>),
    /// What was created.
    Create(Box<Created>),
    /// What was updated.
    Update(Box<Updated>),
    /// What was deleted.
    Delete(Box<Deleted>),
}

/// What a verb came to, before any of it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ItemEffect {
    /// What later steps see of it.
    pub(super) answer: ItemAnswer,
    /// What it wants to write, in this order.
    pub(super) writes: Vec<Write>,
}

/// A file to be written or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// Whose items it belongs to.
    pub(super) home: Home,
    /// Where, relative to the project or to the user's home; always below `.ai/`.
    pub(super) path: PathBuf,
    /// Its content; none to remove it.
    pub(super) content: Option<Vec<u8>>,
    /// Who may do what with it.
    pub(super) access: Access,
}

/// Who may do what with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// What the user's mask leaves; a file that is there keeps what it has.
    Plain,
    /// The same, and a new one may be started by its name.
    Executable,
    /// Exactly this, also where there is a file: it is that of the one which is copied.
    Exactly(u32),
}

impl Access {
    /// As that of a file that is there.
    fn of(file: &Path) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(file).map_or(Self::Plain, |found| Self::Exactly(found.permissions().mode() & 0o777))
    }
}

/// Whose items a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The project's.
    Project,
    /// The user's, which no snapshot covers.
    User,
}

impl Home {
    fn layer(self) -> Layer {
        match self {
            Self::Project => Layer::Project,
            Self::User => Layer::User,
        }
    }
}

impl Write {
    fn removal(home: Home, path: PathBuf) -> Self {
        Self { home, path, content: None, access: Access::Plain }
    }

    fn text(home: Home, path: PathBuf, content: String) -> Self {
        Self { home, path, content: Some(content.into_bytes()), access: Access::Plain }
    }
}

/// Carries out a verb, up to writing.
pub(super) fn carry_out(
    ctx: &Context,
    store: &ItemStore,
    verb: Verb,
    parameters: &Map<String, Value>,
    loss: Loss,
) -> Result<ItemEffect, ItemStepError> {
    let given = Given::new(ctx, verb, parameters)?;
    match verb {
        Verb::Search => look_for(store, &given),
        Verb::Load => load::load(ctx, store, &given),
        Verb::Sign => sign::sign(ctx, store, &given),
        Verb::Migrate => migrate::migrate(ctx, store, &given, loss),
        Verb::Create => create::create(ctx, store, &given),
        Verb::Update => update::update(ctx, store, &given),
        Verb::Delete => delete::delete(ctx, store, &given),
    }
}

fn look_for(store: &ItemStore, given: &Given<'_>) -> Result<ItemEffect, ItemStepError> {
    let query = Query {
        text: given.required("query")?,
        kind: given.kind()?,
        scope: given.scope()?.unwrap_or_default(),
        tool_type: given.text("tool_type")?,
        category: given.text("category")?,
        tags: given.list("tags")?,
        order: match given.text("sort_by")?.as_deref() {
            None | Some("score") => Order::Score,
            Some("date") => Order::Date,
            Some("name") => Order::Name,
            Some(_) => return Err(given.wrong("sort_by", "must be `score`, `date` or `name`")),
        },
        limit: given.count("limit")?,
    };
    Ok(ItemEffect { answer: ItemAnswer::Search(search::search(store, &query)), writes: Vec::new() })
}

/// A path as results show it.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The layers a search goes through.
fn layers(scope: Scope) -> Vec<Layer> {
    match scope {
        Scope::All => vec![Layer::Project, Layer::User, Layer::Builtin],
        Scope::Local => vec![Layer::Project, Layer::User],
        Scope::Only(layer) => vec![layer],
    }
}

#[cfg(test)]
mod tests;
