//! Which items are meant: by id, by path, by pattern.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::Unsignable;
use crate::context::{Context, ITEMS};
use crate::item::search::Scope;
use crate::item::store::{BrokenItem, Item, ItemKind, ItemStore, Layer, LookupError};
use crate::item::wording;
use crate::run::items::parameters::Given;
use crate::run::items::{ItemStepError, load, shown};

/// What is meant.
#[derive(Default)]
pub(super) struct Selection<'s> {
    /// The items, each once, in the order of the store.
    pub(super) items: Vec<&'s Item>,
    /// Files that should be items and cannot be read as such.
    pub(super) broken: Vec<Unsignable>,
}

/// Finds what ids, paths and patterns mean in one layer; each has to mean something.
pub(super) fn select<'s>(
    ctx: &Context,
    store: &'s ItemStore,
    given: &Given<'_>,
    layer: Layer,
    wanted: &[String],
) -> Result<Selection<'s>, ItemStepError> {
    let kind = given.kind()?;
    let mut files: BTreeSet<&Path> = BTreeSet::new();
    let mut broken: Vec<Unsignable> = Vec::new();
    for word in wanted {
        if let Some(item) = at_path(ctx, store, word, layer).filter(|item| kind.is_none_or(|kind| kind == item.kind()))
        {
            files.insert(&item.file);
        } else if word.contains(['*', '?', '[', '{']) {
            let (items, unread) = matching(store, kind, word, layer, given)?;
            files.extend(items);
            broken.extend(
                unread.into_iter().filter(|new| broken.iter().all(|old| old.path != new.path)).collect::<Vec<_>>(),
            );
        } else {
            match named(store, kind, word, layer, given) {
                Ok(item) => drop(files.insert(&item.file)),
                // A path is no id.
                Err(ItemStepError::Lookup(LookupError::Invalid { .. })) if word.contains(['/', '.']) => {
                    let (items, unread) = below(ctx, store, kind, word, layer);
                    if items.is_empty() && unread.is_empty() {
                        return Err(ItemStepError::NothingMatches { pattern: word.clone(), layer });
                    }
                    files.extend(items);
                    broken.extend(unread);
                }
                Err(err) => return Err(err),
            }
        }
    }
    let items =
        store.items().iter().filter(|item| item.layer == layer && files.contains(item.file.as_path())).collect();
    Ok(Selection { items, broken })
}

/// The item whose file, or folder, or a file in that, is named by a path.
fn at_path<'s>(ctx: &Context, store: &'s ItemStore, word: &str, layer: Layer) -> Option<&'s Item> {
    if !word.contains(['/', '.']) {
        return None;
    }
    let path = real_path(ctx, word)?;
    store.items().iter().filter(|item| item.layer == layer).find(|item| {
        let folder = item.as_tool().and_then(|tool| tool.folder.as_deref());
        let same = |file: &Path| file == path || fs::canonicalize(file).is_ok_and(|file| file == path);
        folder.is_some_and(|folder| path.starts_with(folder) || same(folder)) || same(&item.file)
    })
}

/// The items of the layer below a path, and the files there that hold none.
fn below<'s>(
    ctx: &Context,
    store: &'s ItemStore,
    kind: Option<ItemKind>,
    word: &str,
    layer: Layer,
) -> (Vec<&'s Path>, Vec<Unsignable>) {
    let Some(path) = real_path(ctx, word) else { return Default::default() };
    let is_wanted = |of: ItemKind| kind.is_none_or(|kind| kind == of);
    let items = store.items().iter().filter(|item| item.layer == layer && is_wanted(item.kind()));
    let items = items.map(|item| item.file.as_path()).filter(|file| file.starts_with(&path)).collect();
    let broken = store.broken_in(layer).filter(|broken| is_wanted(broken.kind) && broken.file.starts_with(&path));
    (items, broken.map(|broken| unreadable(store, broken)).collect())
}

/// A path as it was typed, from the current folder or from the project.
fn real_path(ctx: &Context, word: &str) -> Option<PathBuf> {
    let real = |folder: &Path| fs::canonicalize(folder.join(word)).ok();
    real(&ctx.cwd).or_else(|| real(&ctx.root))
}

/// The one item of the layer with this id.
pub(in crate::run::items) fn named<'s>(
    store: &'s ItemStore,
    kind: Option<ItemKind>,
    wanted: &str,
    layer: Layer,
    given: &Given<'_>,
) -> Result<&'s Item, ItemStepError> {
    load::find(store, kind, wanted, Scope::Only(layer), given).map_err(|err| match err {
        ItemStepError::Wrong { .. } | ItemStepError::Lookup(LookupError::NotFound { .. }) => {
            match load::find(store, kind, wanted, Scope::All, given) {
                Ok(item) if layer == Layer::Project => {
                    ItemStepError::NotOfTheProject { name: item.id.to_string(), layer: item.layer }
                }
                Ok(item) => given
                    .wrong("source", format!("leaves `{}` out, which comes from the {} layer", item.id, item.layer)),
                Err(other) => other,
            }
        }
        other => other,
    })
}

/// The items of the layer that a pattern means, and those of its files that hold none.
fn matching<'s>(
    store: &'s ItemStore,
    kind: Option<ItemKind>,
    pattern: &str,
    layer: Layer,
    given: &Given<'_>,
) -> Result<(Vec<&'s Path>, Vec<Unsignable>), ItemStepError> {
    // `ops/*` means what is below `ops/`, in folders of it as well.
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    let glob =
        glob.map_err(|err| given.wrong("item_id", format!("is not a pattern: {}", err.kind())))?.compile_matcher();
    let is_wanted = |of: ItemKind| kind.is_none_or(|kind| kind == of);
    let shown_path = |file: &Path| store.roots().display(file);
    let items: Vec<&Path> = store
        .items()
        .iter()
        .filter(|item| item.layer == layer && is_wanted(item.kind()))
        .filter(|item| matches(&glob, &item.category, item.id.as_str()) || glob.is_match(shown_path(&item.file)))
        .map(|item| item.file.as_path())
        .collect();
    let known: BTreeSet<&Path> = items.iter().copied().collect();
    let root = match layer {
        Layer::User => store.roots().user.clone(),
        _ => store.roots().project.clone(),
    };
    let root = root.unwrap_or_default().join(ITEMS);
    let broken: Vec<Unsignable> = store
        .broken_in(layer)
        .filter(|broken| is_wanted(broken.kind) && !known.contains(broken.file.as_path()))
        .filter_map(|broken| {
            let inside = broken.file.strip_prefix(&root).ok()?.components().skip(1).collect::<PathBuf>();
            let unreadable = unreadable(store, broken);
            let category = inside.parent().map(shown).unwrap_or_default();
            let is_meant = matches(&glob, &category, &unreadable.name) || glob.is_match(shown_path(&broken.file));
            is_meant.then_some(unreadable)
        })
        .collect();
    if items.is_empty() && broken.is_empty() {
        return Err(ItemStepError::NothingMatches { pattern: pattern.to_owned(), layer });
    }
    Ok((items, broken))
}

/// A file that should be an item and cannot be read as such.
fn unreadable(store: &ItemStore, broken: &BrokenItem) -> Unsignable {
    let finding = &broken.finding;
    Unsignable {
        name: wording::shown(&broken.file.file_stem().unwrap_or_default().to_string_lossy()),
        item_type: broken.kind,
        path: wording::shown(&store.roots().display(&broken.file).to_string_lossy()),
        error: format!("{}: {}", finding.code, finding.message),
        suggestion: finding.suggestion.clone(),
    }
}

fn matches(glob: &GlobMatcher, category: &str, id: &str) -> bool {
    glob.is_match(id) || !category.is_empty() && glob.is_match(format!("{category}/{id}"))
}
