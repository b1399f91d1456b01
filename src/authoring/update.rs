//! `update`: replaces the text of an item, or changes some of its fields.
//!
//! The new text is validated before it is written. An existing stamp is renewed; an author's
//! signature was for another text and is removed. A stamp is never renewed over files that the
//! caller has not seen.

use serde::Serialize;

use super::sign::selection;
use super::{
    Home, ItemAnswer, ItemChange, ItemEffect, ItemStepError, UpdateItem, Verb, Write, fields, load,
    review, shown, sign,
};
use crate::context::Context;
use crate::item::signature::stamp::{self, Tidied};
use crate::item::signature::{Integrity, author_file, detached_file};
use crate::item::store::{Item, ItemKind, ItemStore, Layer};

/// An updated item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpdatedItem {
    /// Its id, without category.
    pub name: String,
    pub item_type: ItemKind,
    /// The file that defines the item.
    pub path: String,
    /// All files that are written or removed.
    pub files: Vec<String>,
    pub source: Layer,
    /// The new stamp, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The sha256 in the stamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

pub(super) fn update(
    ctx: &Context,
    store: &ItemStore,
    request: &UpdateItem,
) -> Result<ItemEffect, ItemStepError> {
    let home = request.name.location;
    let item = selection::named(store, &request.name, Verb::Update)?;
    let old = load::content(item)?;
    let new = match &request.change {
        ItemChange::Content(content) => content.clone(),
        ItemChange::Updates(updates) => fields::changed(item, &old, updates)?,
    };
    let is_part = item.as_tool().is_some_and(|tool| tool.folder.is_some())
        || matches!(request.change, ItemChange::Updates(_));
    if is_part
        && matches!(
            item.integrity,
            Integrity::Mismatch { .. } | Integrity::Invalid { .. }
        )
    {
        return Err(ItemStepError::Tampered(item.id.to_string()));
    }
    review::require_valid(ctx, store, item, &new)?;
    let mut updated = UpdatedItem {
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
        updated.message = format!("{} `{}` already has this content", item.kind(), item.id);
        return Ok(ItemEffect {
            answer: ItemAnswer::Update(Box::new(updated)),
            writes: Vec::new(),
        });
    }
    let mut writes = writes(ctx, store, item, new, home, &mut updated)?;
    updated.files = writes.iter().map(|write| shown(&write.path)).collect();
    if home == Home::User {
        let kept = load::replaced(ctx, &writes)?;
        updated.notes.extend(load::where_kept(&kept));
        writes.splice(0..0, kept);
    }
    Ok(ItemEffect {
        answer: ItemAnswer::Update(Box::new(updated)),
        writes,
    })
}

fn writes(
    ctx: &Context,
    store: &ItemStore,
    item: &Item,
    new: String,
    home: Home,
    updated: &mut UpdatedItem,
) -> Result<Vec<Write>, ItemStepError> {
    let top = sign::top(ctx, home)?;
    let outside = || ItemStepError::Outside(item.file.clone());
    let target = load::place(store, item.layer, &item.file)?.ok_or_else(outside)?;
    // Replacing a link by a file would change something outside of the item.
    if top.join(&target).is_symlink() {
        return Err(ItemStepError::InTheWay { path: target });
    }
    let mut writes = Vec::new();
    let author = author_file(&target);
    if top.join(&author).symlink_metadata().is_ok() {
        writes.push(Write::removal(home, author));
        updated
            .notes
            .push("the author's signature was for the old text and was removed".to_owned());
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
    let unreadable = |reason: String| ItemStepError::Unreadable {
        path: item.file.clone(),
        reason,
    };
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
