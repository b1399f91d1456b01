//! `delete`: an item goes, with everything that belongs to it and to nothing else.
//!
//! In the project it is a step like any other, and `piton undo` brings everything back. Of the user's items a copy
//! stays in `~/.ai/replaced/`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::parameters::Given;
use super::sign::selection;
use super::{Home, ItemAnswer, ItemEffect, ItemStepError, Write, load, shown, sign};
use crate::context::Context;
use crate::item::directive::StepAction;
use crate::item::signature::{author_file, detached_file, stamp};
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::validate;

/// An item that was deleted, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// Its id, without category.
    pub name: String,
    /// What it was.
    pub item_type: ItemKind,
    /// The file that made it an item.
    pub path: String,
    /// Every file that goes.
    pub files: Vec<String>,
    /// Whose it was.
    pub source: Layer,
    /// What was done, in words.
    pub message: String,
    /// What to know about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Deletes an item.
pub(super) fn delete(ctx: &Context, store: &ItemStore, given: &Given<'_>) -> Result<ItemEffect, ItemStepError> {
    let home = given.location()?;
    let item = selection::named(store, given.kind()?, &given.full_id()?, home.layer(), given)?;
    if !given.flag("confirm")? {
        return Err(ItemStepError::Unconfirmed(item.id.to_string()));
    }
    let top = sign::top(ctx, home)?;
    let mut writes = Vec::new();
    for file in files(store, item)? {
        let Some(path) = load::place(store, item.layer, &file)? else { continue };
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
    Ok(ItemEffect { answer: ItemAnswer::Delete(Box::new(deleted)), writes })
}

/// Everything that belongs to an item. The file that makes it one comes first: half a tool is never run.
fn files(store: &ItemStore, item: &Item) -> Result<Vec<PathBuf>, ItemStepError> {
    let mut files = vec![item.file.clone()];
    if let Some(folder) = item.as_tool().and_then(|tool| tool.folder.as_deref()) {
        files.extend(load::listed(folder)?.into_iter().map(|(file, _)| file).filter(|file| *file != item.file));
        return Ok(files);
    }
    // Others use that name for signatures of their own.
    files.extend(Some(detached_file(&item.file)).filter(|file| stamp::holds_stamp(file)));
    files.push(author_file(&item.file));
    let script = item.as_tool().and_then(validate::entrypoint).filter(|script| *script != item.file);
    let is_shared = |script: &PathBuf| {
        let starts_it = |other: &Item| {
            other.file != item.file && other.as_tool().and_then(validate::entrypoint).as_ref() == Some(script)
        };
        store.items().iter().any(starts_it)
    };
    files.extend(script.filter(|script| !is_shared(script)));
    Ok(files)
}

/// Folders of a tool that are nobody's work and stay, in words.
fn left(item: &Item) -> Vec<String> {
    let Some(folder) = item.as_tool().and_then(|tool| tool.folder.as_deref()) else { return Vec::new() };
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stay = crate::item::signature::UNSTAMPED_FOLDERS.iter().filter(|name| folder.join(name).is_dir());
    stay.map(|made| format!("`{made}` stays in the folder of `{}`: it was made, not written", name(folder))).collect()
}

/// What names the item and will not find it any more, in words.
fn users(store: &ItemStore, item: &Item) -> Vec<String> {
    let is_other = |other: &&Item| other.file != item.file && other.layer != Layer::Builtin;
    // Another one of the same name may take its place.
    let stays =
        store.items().iter().any(|other| other.file != item.file && other.kind() == item.kind() && other.id == item.id);
    let means = |wanted: &str| wanted.parse().is_ok_and(|wanted| item.answers_to(&wanted));
    let uses = |other: &&Item| {
        let runs_through = other
            .as_tool()
            .and_then(|tool| tool.manifest.executor.as_ref())
            .is_some_and(|executor| item.kind() == ItemKind::Tool && item.answers_to(executor));
        let calls = other.as_directive().is_some_and(|directive| {
            directive.steps.iter().any(|step| match &step.action {
                StepAction::Tool { item_id, .. } => item.kind() == ItemKind::Tool && means(item_id),
                StepAction::Directive { item_id, .. } => item.kind() == ItemKind::Directive && means(item_id),
                _ => false,
            })
        });
        runs_through || calls
    };
    let callers = store.items().iter().filter(is_other).filter(|_| !stays).filter(uses);
    callers.map(|caller| format!("{} `{}` names it and will not find it", caller.kind(), caller.id)).collect()
}
