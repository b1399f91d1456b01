//! What agents wrote and no person has seen.
//!
//! Items that changed since a server first saw their project, by a call or by an editor, are not run
//! for as long as the server lives, unless a person has seen them: in a question of the client, or in
//! a terminal with `piton approve --item`. What tools load from the project without naming it counts
//! as part of each. A consent covers the content that was shown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::checkpoint::delta::Delta;
use crate::context::{Context, ITEMS};
use crate::encoding::hex;
use crate::item::finding::Strength;
use crate::item::id::ItemId;
use crate::item::source::{files_below, read_bytes};
use crate::item::store::{Item, ItemKind, ItemStore, Layer, LookupError};
use crate::journal::event::{ConsentTo, ConsentedItem, Event};
use crate::journal::{Authenticity, TagCheck, list, path_of, read_each};
use crate::workspace::{RunFolders, key_file};

/// An upper limit for the size of an item file.
const MAX_FILE: u64 = 256 * 1024 * 1024;
/// The folders below `.ai/` whose files tools load without naming them.
const BORROWED: [&str; 3] = ["tools/lib", "parsers", "extractors"];

/// An item that an agent wrote and no person has allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreviewedItem {
    pub kind: ItemKind,
    pub id: ItemId,
    /// Its file, as shown to people.
    pub file: PathBuf,
    /// The sha256 of its files.
    pub content: String,
    /// Its files, for a person to read.
    pub text: String,
    /// Whether an agent may have changed them.
    is_changed: bool,
}

impl UnreviewedItem {
    /// The item as the journal names it.
    pub fn consented(&self) -> ConsentedItem {
        ConsentedItem {
            item_type: self.kind.to_string(),
            id: self.id.to_string(),
            content: self.content.clone(),
        }
    }
}

/// Keeps which items a step has changed on behalf of an agent.
pub(crate) fn note_changes(ctx: &Context, delta: &Delta) {
    let is_item = |path: &Path| path.components().any(|part| part.as_os_str() == ITEMS);
    let mut changed = delta
        .changes
        .iter()
        .map(|change| change.path.as_path())
        .filter(|path| is_item(path))
        .peekable();
    if changed.peek().is_none() {
        return;
    }
    let mut folders = ctx.root.ancestors();
    let top = folders
        .find(|folder| folder.join(".git").exists())
        .unwrap_or(&ctx.root);
    ctx.unreviewed.add(changed.map(|path| top.join(path)));
}

/// The items that an agent may have written and that no person has allowed with their current
/// content.
pub(crate) fn unreviewed<'i>(
    ctx: &Context,
    items: impl IntoIterator<Item = &'i Item>,
) -> Vec<UnreviewedItem> {
    if !ctx.unreviewed.is_served() {
        return Vec::new();
    }
    remember(ctx);
    let mut found: Vec<UnreviewedItem> = items
        .into_iter()
        .filter(|item| item.layer != Layer::Builtin)
        .map(|item| describe(ctx, item))
        .filter(|item| item.is_changed)
        .collect();
    if ctx.unreviewed.is_pinned() {
        return found;
    }
    found.retain(|item| !ctx.unreviewed.is_allowed(&item.content));
    if !found.is_empty() {
        // A person may have allowed them in a terminal meanwhile.
        allowed_in_terminal(ctx);
        found.retain(|item| !ctx.unreviewed.is_allowed(&item.content));
    }
    found
}

/// The tool with an id, or else the directive, for a person to look at.
pub fn find(ctx: &Context, id: &str) -> Result<UnreviewedItem, LookupError> {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let item = match store.find(ItemKind::Tool, id) {
        Err(LookupError::NotFound { .. }) => store.find(ItemKind::Directive, id),
        found => found,
    };
    Ok(describe(ctx, item?))
}

/// Keeps the files of the items of a project as they are now, if a server has not seen them yet.
pub fn remember(ctx: &Context) {
    ctx.unreviewed.see(&ctx.root, || {
        let store = ItemStore::open(ctx.roots(), Strength::Lenient);
        let own = store.items().iter();
        let own = own.filter(|item| item.layer != Layer::Builtin);
        let files: BTreeSet<PathBuf> = own.flat_map(Item::files).chain(borrowed(ctx)).collect();
        files
            .into_iter()
            .map(|file| {
                let digest = digest_of(&content_of(&file));
                (file, digest)
            })
            .collect()
    });
}

/// The files of the project that each of its tools may load: modules, parsers, extractors.
fn borrowed(ctx: &Context) -> Vec<PathBuf> {
    let items = ctx.root.join(ITEMS);
    BORROWED
        .iter()
        .flat_map(|folder| files_below(&items.join(folder)))
        .map(|(file, _)| file)
        .collect()
}

/// Read once: what the person sees must be what is hashed. An unreadable file is reported when the
/// item is run.
fn content_of(file: &Path) -> Vec<u8> {
    read_bytes(file, MAX_FILE).unwrap_or_default()
}

fn digest_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn describe(ctx: &Context, item: &Item) -> UnreviewedItem {
    let own = item.files();
    let borrowed = match item.kind() {
        ItemKind::Tool => borrowed(ctx),
        ItemKind::Directive | ItemKind::Knowledge => Vec::new(),
    };
    let (mut hash, mut texts, mut digests) = (Sha256::new(), Vec::new(), BTreeMap::new());
    for file in own.iter().chain(&borrowed) {
        let shown = ctx.shown_path(file).to_string_lossy().into_owned();
        let bytes = content_of(file);
        let digest = digest_of(&bytes);
        hash.update(shown.as_bytes());
        hash.update([0]);
        hash.update(&digest);
        let text = format!("{shown}:\n{}\n", String::from_utf8_lossy(&bytes));
        texts.push((file.clone(), text));
        digests.insert(file.clone(), digest);
    }
    let folder = item.as_tool().and_then(|tool| tool.folder.as_deref());
    let changed = ctx.unreviewed.changed(&ctx.root, &digests, folder);
    // Of what the item borrows a question shows what changed; a terminal shows all of it.
    let is_shown = |file: &PathBuf| {
        !ctx.unreviewed.is_served() || own.contains(file) || changed.contains(file.as_path())
    };
    let text = texts.into_iter().filter(|(file, _)| is_shown(file));
    UnreviewedItem {
        kind: item.kind(),
        id: item.id.clone(),
        file: ctx.shown_path(&item.file),
        content: hex(&hash.finalize()),
        text: text.map(|(_, text)| text).collect(),
        is_changed: !changed.is_empty(),
    }
}

/// Takes up the consents that are in journals of this project since the server began. A journal
/// counts only if every line is authenticated: agents may be able to write journals.
fn allowed_in_terminal(ctx: &Context) {
    let Ok(Some(key)) = key_file(ctx).read() else {
        return;
    };
    let runs = RunFolders::of_project(ctx).runs;
    let since = ctx.unreviewed.since();
    let recent = list(&runs).unwrap_or_default().into_iter();
    for run in recent.take_while(|run| since.is_none_or(|since| run.started() >= since)) {
        let (mut given, mut tags) = (Vec::new(), TagCheck::new(Some(&key)));
        let read = read_each(&path_of(&runs, run), &mut |record| {
            tags.take(&record);
            if let Event::Consented(consent) = record.event
                && consent.to == ConsentTo::Run
            {
                given.extend(consent.items);
            }
        });
        if read.is_ok() && tags.found() == Some(Authenticity::Authenticated) {
            for item in &given {
                ctx.unreviewed.allow(&item.content);
            }
        }
    }
}
