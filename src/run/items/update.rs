//! `update`: another text for an item, or other values for some of its fields.
//!
//! What is written has been read and found valid before. A stamp that was there is made anew; the signature of an
//! author was about another text and goes. A stamp is never made anew over files that nobody was shown.

use serde::Serialize;

use super::parameters::Given;
use super::sign::selection;
use super::{Home, ItemAnswer, ItemEffect, ItemStepError, Write, fields, load, review, shown, sign};
use crate::context::Context;
use crate::item::signature::stamp::{self, Tidied};
use crate::item::signature::{Integrity, author_file, detached_file};
use crate::item::store::{Item, ItemKind, ItemStore, Layer};

/// An item that was updated, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Updated {
    /// Its id, without category.
    pub name: String,
    /// What it is.
    pub item_type: ItemKind,
    /// The file that makes it an item.
    pub path: String,
    /// Every file that is written or goes.
    pub files: Vec<String>,
    /// Whose it is.
    pub source: Layer,
    /// Its new stamp, where it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The sha256 in that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What was done, in words.
    pub message: String,
    /// What to know about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Updates an item.
pub(super) fn update(ctx: &Context, store: &ItemStore, given: &Given<'_>) -> Result<ItemEffect, ItemStepError> {
    let home = given.location()?;
    let item = selection::named(store, given.kind()?, &given.full_id()?, home.layer(), given)?;
    let old = load::content(item)?;
    let new = match (given.whole("content")?, given.object("updates")?) {
        (Some(content), None) => content.to_owned(),
        (None, Some(updates)) => fields::changed(item, &old, updates)?,
        (Some(_), Some(_)) => return Err(given.wrong("updates", "cannot be given together with `content`")),
        (None, None) => return Err(given.wrong("content", "or `updates` has to be given")),
    };
    let is_part = item.as_tool().is_some_and(|tool| tool.folder.is_some()) || given.object("updates")?.is_some();
    if is_part && matches!(item.integrity, Integrity::Mismatch { .. } | Integrity::Invalid { .. }) {
        return Err(ItemStepError::Tampered(item.id.to_string()));
    }
    review::require_valid(ctx, store, item, &new)?;
    let mut updated = Updated {
        name: item.id.to_string(),
        item_type: item.kind(),
        path: shown(&store.roots().display(&item.file)),
        files: Vec::new(),
        source: item.layer,
        signature: None,
        hash: None,
        message: format!("updated {} `{}`", item.kind(), item.id),
        notes: Vec::new(),
    };
    if stamp::unstamped(&new) == stamp::unstamped(&old) {
        updated.message = format!("{} `{}` says that already", item.kind(), item.id);
        return Ok(ItemEffect { answer: ItemAnswer::Update(Box::new(updated)), writes: Vec::new() });
    }
    let mut writes = writes(ctx, store, item, new, home, &mut updated)?;
    updated.files = writes.iter().map(|write| shown(&write.path)).collect();
    if home == Home::User {
        let kept = load::replaced(ctx, &writes)?;
        updated.notes.extend(load::where_kept(&kept));
        writes.splice(0..0, kept);
    }
    Ok(ItemEffect { answer: ItemAnswer::Update(Box::new(updated)), writes })
}

fn writes(
    ctx: &Context,
    store: &ItemStore,
    item: &Item,
    new: String,
    home: Home,
    updated: &mut Updated,
) -> Result<Vec<Write>, ItemStepError> {
    let top = sign::top(ctx, home)?;
    let outside = || ItemStepError::Outside(item.file.clone());
    let target = load::place(store, item.layer, &item.file)?.ok_or_else(outside)?;
    // A file in the place of a link would change something that is not the item.
    if top.join(&target).is_symlink() {
        return Err(ItemStepError::InTheWay { path: target });
    }
    let mut writes = Vec::new();
    let author = author_file(&target);
    if top.join(&author).symlink_metadata().is_ok() {
        writes.push(Write::removal(home, author));
        updated.notes.push("the signature of its author was about the text before and is gone".to_owned());
    }
    if item.integrity == Integrity::Unsigned && stamp::unstamped(&new) == new {
        writes.push(Write::text(home, target, new));
        return Ok(writes);
    }
    let time = ctx.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let folder = item.as_tool().and_then(|tool| tool.folder.as_deref());
    let stamped = match folder {
        Some(folder) => stamp::stamp_folder(folder, &item.file, &new, &time),
        None => stamp::stamp_file(&item.file, &new, &time),
    };
    let unreadable = |reason: String| ItemStepError::Unreadable { path: item.file.clone(), reason };
    let stamped = stamped.map_err(|err| unreadable(err.to_string()))?;
    updated.signature = Some(format!("kiwi-mcp:validated:{time}:{}", stamped.hash));
    updated.hash = Some(stamped.hash);
    let detached = detached_file(&target);
    if stamped.file == item.file {
        if stamp::holds_stamp(&top.join(&detached)) {
            writes.push(Write::removal(home, detached));
        }
        writes.push(Write::text(home, target, stamped.content));
        return Ok(writes);
    }
    let own = match stamped.tidied {
        Tidied::Rewritten(_, text) => text,
        Tidied::Nothing | Tidied::Removed(_) => new,
    };
    writes.push(Write::text(home, detached, stamped.content));
    writes.push(Write::text(home, target, own));
    Ok(writes)
}
