//! Item steps: searching, loading, signing and migrating items, without any process.
//!
//! [`carry_out`] reads items and says what a step came to and which files it wants to write; it writes
//! nothing, so that permissions can be judged first. [`apply`] writes them, each whole or not at
//! all, below `.ai/` only and never through a link. The store has to be as fresh as the step: what an
//! earlier step wrote is part of it.

mod error;
mod load;
mod parameters;
mod sign;
mod write;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::item::migration;
use crate::item::search::{self, Order, Query, Scope};
use crate::item::store::{ItemKind, ItemStore, Layer};

pub(super) use error::ItemStepError;
use parameters::Given;
pub(super) use write::apply;

/// What an item step came to, before any of it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ItemEffect {
    /// What later steps see of it.
    pub(super) result: Value,
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
    /// Whether a new file may be started by its name; one that is there keeps its permissions.
    pub(super) executable: bool,
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
    fn text(home: Home, path: PathBuf, content: String) -> Self {
        Self { home, path, content: Some(content.into_bytes()), executable: false }
    }
}

/// Carries out `search`, `load`, `sign` or `migrate`, up to writing.
pub(super) fn carry_out(
    ctx: &Context,
    store: &ItemStore,
    verb: &str,
    parameters: &Map<String, Value>,
) -> Result<ItemEffect, ItemStepError> {
    let given = Given::new(ctx, verb, parameters)?;
    match verb {
        "search" => look_for(store, &given),
        "load" => load::load(ctx, store, &given),
        "sign" => sign::sign(ctx, store, &given),
        _ => migrate(store, &given),
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
            Some("name") => Order::Name,
            Some(_) => return Err(given.wrong("sort_by", "must be `score` or `name`")),
        },
        limit: given.count("limit")?,
    };
    Ok(ItemEffect { result: json!(search::search(store, &query)), writes: Vec::new() })
}

fn migrate(store: &ItemStore, given: &Given<'_>) -> Result<ItemEffect, ItemStepError> {
    if given.kind()?.is_some_and(|kind| kind != ItemKind::Tool) {
        return Err(given.wrong("item_type", "must be `tool`: only scripts are migrated"));
    }
    let plan = migration::plan(store, &given.required("item_id")?)?;
    let result = json!({
        "tool_id": plan.tool_id,
        "from": shown(&plan.from),
        "to": shown(&plan.to),
        "files": [shown(&plan.script.path), shown(&plan.manifest.path)],
        "notes": plan.notes,
    });
    let script =
        Write { executable: plan.executable, ..Write::text(Home::Project, plan.script.path, plan.script.content) };
    let manifest = Write::text(Home::Project, plan.manifest.path, plan.manifest.content);
    let old = Write { home: Home::Project, path: plan.from, content: None, executable: false };
    Ok(ItemEffect { result, writes: vec![script, manifest, old] })
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
