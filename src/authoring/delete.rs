//! `delete`: removes an item with all files that belong only to it.
//!
//! In the project it is a step like any other, and `piton undo` restores everything. Copies of
//! deleted user items are kept in `~/.ai/replaced/`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::sign::selection;
use super::{
    DeleteItem, Home, ItemAnswer, ItemEffect, ItemStepError, Verb, Write, load, shown, sign,
};
use crate::context::Context;
use crate::item::directive::StepAction;
use crate::item::signature::{author_file, detached_file, stamp};
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::validate;

/// A deleted item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// Its id, without category.
    pub name: String,
    pub item_type: ItemKind,
    /// The file that defined the item.
    pub path: String,
    pub files: Vec<String>,
    pub source: Layer,
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

pub(super) fn delete(
    ctx: &Context,
    store: &ItemStore,
    request: &DeleteItem,
) -> Result<ItemEffect, ItemStepError> {
    let home = request.name.location;
    let item = selection::named(store, &request.name, Verb::Delete)?;
    if !request.confirm {
        return Err(ItemStepError::Unconfirmed(item.id.to_string()));
    }
    let top = sign::top(ctx, home)?;
    let mut writes = Vec::new();
    for file in files(store, item)? {
        let Some(path) = load::place(store, item.layer, &file)? else {
            continue;
        };
        if top.join(&path).symlink_metadata().is_ok() {
            writes.push(Write::removal(home, path));
        }
    }
    let mut notes = left(item);
    notes.extend(users(store, item));
    let files = writes.iter().map(|write| shown(&write.path)).collect();
    if home == Home::User {
        let kept = load::replaced(ctx, &writes)?;
        notes.extend(load::where_kept(&kept));
        writes.splice(0..0, kept);
    }
    let deleted = Deleted {
        name: item.id.to_string(),
        item_type: item.kind(),
        path: shown(&store.roots().display(&item.file)),
        files,
        source: item.layer,
        message: format!("deleted {} `{}`", item.kind(), item.id),
        notes,
    };
    Ok(ItemEffect {
        answer: ItemAnswer::Delete(Box::new(deleted)),
        writes,
    })
}

/// All files of an item. The defining file comes first, so that a partly deleted tool never runs.
fn files(store: &ItemStore, item: &Item) -> Result<Vec<PathBuf>, ItemStepError> {
    let mut files = vec![item.file.clone()];
    if let Some(folder) = item.as_tool().and_then(|tool| tool.folder.as_deref()) {
        files.extend(
            load::listed(folder)?
                .into_iter()
                .map(|(file, _)| file)
                .filter(|file| *file != item.file),
        );
        return Ok(files);
    }
    // Other programs use that name for their own signatures.
    files.extend(Some(detached_file(&item.file)).filter(|file| stamp::holds_stamp(file)));
    files.push(author_file(&item.file));
    let script = item
        .as_tool()
        .and_then(validate::entrypoint)
        .filter(|script| *script != item.file);
    let is_shared = |script: &PathBuf| {
        let starts_it = |other: &Item| {
            other.file != item.file
                && other.as_tool().and_then(validate::entrypoint).as_ref() == Some(script)
        };
        store.items().iter().any(starts_it)
    };
    files.extend(script.filter(|script| !is_shared(script)));
    Ok(files)
}

/// A note about generated folders of a tool that stay.
fn left(item: &Item) -> Vec<String> {
    let Some(folder) = item.as_tool().and_then(|tool| tool.folder.as_deref()) else {
        return Vec::new();
    };
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let stay = crate::item::signature::UNSTAMPED_FOLDERS
        .iter()
        .filter(|name| folder.join(name).is_dir());
    stay.map(|made| {
        format!(
            "`{made}` stays in the folder of `{}`: it is generated",
            name(folder)
        )
    })
    .collect()
}

/// A note about items that refer to the deleted item.
fn users(store: &ItemStore, item: &Item) -> Vec<String> {
    let is_other = |other: &&Item| other.file != item.file && other.layer != Layer::Builtin;
    // Another item with the same id may replace it.
    let stays = store
        .items()
        .iter()
        .any(|other| other.file != item.file && other.kind() == item.kind() && other.id == item.id);
    let means = |wanted: &str| wanted.parse().is_ok_and(|wanted| item.answers_to(&wanted));
    let uses = |other: &&Item| {
        let runs_through = other
            .as_tool()
            .and_then(|tool| tool.manifest.executor.as_ref())
            .is_some_and(|executor| item.kind() == ItemKind::Tool && item.answers_to(executor));
        let calls = other.as_directive().is_some_and(|directive| {
            directive.steps.iter().any(|step| match &step.action {
                StepAction::Tool { item_id, .. } => item.kind() == ItemKind::Tool && means(item_id),
                StepAction::Directive { item_id, .. } => {
                    item.kind() == ItemKind::Directive && means(item_id)
                }
                _ => false,
            })
        });
        runs_through || calls
    };
    let callers = store
        .items()
        .iter()
        .filter(is_other)
        .filter(|_| !stays)
        .filter(uses);
    callers
        .map(|caller| {
            format!(
                "{} `{}` refers to it and will not find it",
                caller.kind(),
                caller.id
            )
        })
        .collect()
}
