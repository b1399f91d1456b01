//! Resolves ids, paths and patterns to items.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::Unsignable;
use crate::authoring::{ItemName, ItemStepError, SignItems, Verb, load, shown};
use crate::context::{Context, ITEMS};
use crate::item::search::SearchScope;
use crate::item::store::{BrokenItem, Item, ItemKind, ItemStore, Layer, LookupError};
use crate::item::wording;

/// The selected items.
#[derive(Default)]
pub(super) struct SignSelection<'s> {
    /// The items, each once, in the order of the store.
    pub(super) items: Vec<&'s Item>,
    /// Files that cannot be read as items.
    pub(super) broken: Vec<Unsignable>,
}

/// Resolves ids, paths and patterns in one layer; each must match something.
pub(super) fn select<'s>(
    ctx: &Context,
    store: &'s ItemStore,
    request: &SignItems,
) -> Result<SignSelection<'s>, ItemStepError> {
    let (kind, layer) = (request.item_type, request.source.layer());
    let mut files: BTreeSet<&Path> = BTreeSet::new();
    let mut broken: Vec<Unsignable> = Vec::new();
    for word in &request.item_id {
        if let Some(item) = at_path(ctx, store, word, layer)
            .filter(|item| kind.is_none_or(|kind| kind == item.kind()))
        {
            files.insert(&item.file);
        } else if word.contains(['*', '?', '[', '{']) {
            let (items, unread) = matching(store, kind, word, layer)?;
            files.extend(items);
            broken.extend(
                unread
                    .into_iter()
                    .filter(|new| broken.iter().all(|old| old.path != new.path))
                    .collect::<Vec<_>>(),
            );
        } else {
            let name = ItemName {
                item_id: word.clone(),
                item_type: kind,
                location: request.source,
                category: None,
            };
            match named(store, &name, Verb::Sign) {
                Ok(item) => drop(files.insert(&item.file)),
                // A path is not an id.
                Err(ItemStepError::Lookup(LookupError::Invalid { .. }))
                    if word.contains(['/', '.']) =>
                {
                    let (items, unread) = below(ctx, store, kind, word, layer);
                    if items.is_empty() && unread.is_empty() {
                        return Err(ItemStepError::NothingMatches {
                            pattern: word.clone(),
                            layer,
                        });
                    }
                    files.extend(items);
                    broken.extend(unread);
                }
                Err(err) => return Err(err),
            }
        }
    }
    let items = store
        .items()
        .iter()
        .filter(|item| item.layer == layer && files.contains(item.file.as_path()))
        .collect();
    Ok(SignSelection { items, broken })
}

/// The item with this file or folder, or with a file in its folder.
fn at_path<'s>(ctx: &Context, store: &'s ItemStore, word: &str, layer: Layer) -> Option<&'s Item> {
    if !word.contains(['/', '.']) {
        return None;
    }
    let path = real_path(ctx, word)?;
    store
        .items()
        .iter()
        .filter(|item| item.layer == layer)
        .find(|item| {
            let folder = item.as_tool().and_then(|tool| tool.folder.as_deref());
            let same =
                |file: &Path| file == path || fs::canonicalize(file).is_ok_and(|file| file == path);
            folder.is_some_and(|folder| path.starts_with(folder) || same(folder))
                || same(&item.file)
        })
}

/// The items of the layer below a path, and the files there that are not readable as items.
fn below<'s>(
    ctx: &Context,
    store: &'s ItemStore,
    kind: Option<ItemKind>,
    word: &str,
    layer: Layer,
) -> (Vec<&'s Path>, Vec<Unsignable>) {
    let Some(path) = real_path(ctx, word) else {
        return Default::default();
    };
    let is_wanted = |of: ItemKind| kind.is_none_or(|kind| kind == of);
    let items = store
        .items()
        .iter()
        .filter(|item| item.layer == layer && is_wanted(item.kind()));
    let items = items
        .map(|item| item.file.as_path())
        .filter(|file| file.starts_with(&path))
        .collect();
    let broken = store
        .broken_in(layer)
        .filter(|broken| is_wanted(broken.kind) && broken.file.starts_with(&path));
    (
        items,
        broken.map(|broken| unreadable(store, broken)).collect(),
    )
}

/// A path as typed, relative to the current folder or to the project.
fn real_path(ctx: &Context, word: &str) -> Option<PathBuf> {
    let real = |folder: &Path| fs::canonicalize(folder.join(word)).ok();
    real(&ctx.cwd).or_else(|| real(&ctx.root))
}

/// The one item of the layer with this id.
pub(in crate::authoring) fn named<'s>(
    store: &'s ItemStore,
    name: &ItemName,
    verb: Verb,
) -> Result<&'s Item, ItemStepError> {
    let (id, layer) = (name.full_id(), name.location.layer());
    let find = |scope| load::find(store, name.item_type, &id, scope, verb);
    find(SearchScope::Only(layer)).map_err(|err| match err {
        ItemStepError::Wrong { .. } | ItemStepError::Lookup(LookupError::NotFound { .. }) => {
            match find(SearchScope::All) {
                Ok(item) if layer == Layer::Project => ItemStepError::NotOfTheProject {
                    name: item.id.to_string(),
                    layer: item.layer,
                },
                Ok(item) => verb.wrong(
                    "source",
                    format!(
                        "leaves `{}` out, which comes from the {} layer",
                        item.id, item.layer
                    ),
                ),
                Err(other) => other,
            }
        }
        other => other,
    })
}

/// The items of the layer that match a pattern, and the matching files that are not readable as
/// items.
fn matching<'s>(
    store: &'s ItemStore,
    kind: Option<ItemKind>,
    pattern: &str,
    layer: Layer,
) -> Result<(Vec<&'s Path>, Vec<Unsignable>), ItemStepError> {
    // `ops/*` matches everything below `ops/`, including subfolders.
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    let glob = glob
        .map_err(|err| Verb::Sign.wrong("item_id", format!("is not a pattern: {}", err.kind())))?
        .compile_matcher();
    let is_wanted = |of: ItemKind| kind.is_none_or(|kind| kind == of);
    let shown_path = |file: &Path| store.roots().display(file);
    let items: Vec<&Path> = store
        .items()
        .iter()
        .filter(|item| item.layer == layer && is_wanted(item.kind()))
        .filter(|item| {
            matches(&glob, &item.category, item.id.as_str())
                || glob.is_match(shown_path(&item.file))
        })
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
            let inside = broken
                .file
                .strip_prefix(&root)
                .ok()?
                .components()
                .skip(1)
                .collect::<PathBuf>();
            let unreadable = unreadable(store, broken);
            let category = inside.parent().map(shown).unwrap_or_default();
            let is_meant = matches(&glob, &category, &unreadable.name)
                || glob.is_match(shown_path(&broken.file));
            is_meant.then_some(unreadable)
        })
        .collect();
    if items.is_empty() && broken.is_empty() {
        return Err(ItemStepError::NothingMatches {
            pattern: pattern.to_owned(),
            layer,
        });
    }
    Ok((items, broken))
}

/// A file that cannot be read as an item.
fn unreadable(store: &ItemStore, broken: &BrokenItem) -> Unsignable {
    let finding = &broken.finding;
    Unsignable {
        name: wording::shown(
            &broken
                .file
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy(),
        ),
        item_type: broken.kind,
        path: wording::shown(&store.roots().display(&broken.file).to_string_lossy()),
        error: format!("{}: {}", finding.code, finding.message),
        suggestion: finding.suggestion.clone(),
    }
}

fn matches(glob: &GlobMatcher, category: &str, id: &str) -> bool {
    glob.is_match(id) || !category.is_empty() && glob.is_match(format!("{category}/{id}"))
}
