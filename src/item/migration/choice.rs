//! Which scripts are selected: ids, `category/id`, files, folders and patterns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::{Caution, MigrationError, MigrationSelection, SCRIPTS, destination, modules, script};
use crate::item::id::ItemId;
use crate::item::store::{Item, ItemKind, ItemStore, Layer, LookupError};

/// The selected items by file, and how they were selected.
pub(super) type Chosen<'s> = BTreeMap<PathBuf, (&'s Item, Caution)>;

/// The selected items, and the folders that are selected completely.
pub(super) fn choose<'s>(
    store: &'s ItemStore,
    wanted: &MigrationSelection,
) -> Result<(Chosen<'s>, Vec<PathBuf>), MigrationError> {
    let legacy: Vec<&Item> = legacy(store)
        .filter(|item| item.layer == Layer::Project)
        .collect();
    let mut chosen = Chosen::new();
    let mut folders = Vec::new();
    let mut add = |item: &'s Item, caution: Caution| {
        let entry = chosen.entry(item.file.clone()).or_insert((item, caution));
        entry.1 = entry.1.min(caution);
    };
    let names = match wanted {
        MigrationSelection::All => {
            folders.push(PathBuf::from(SCRIPTS));
            for item in legacy {
                add(item, Caution::Swept);
            }
            return Ok((chosen, folders));
        }
        MigrationSelection::These(names) => names,
    };
    for name in names {
        let path = Path::new(name.trim_start_matches("./").trim_end_matches('/'));
        let below = |item: &&&Item| store.roots().display(&item.file).starts_with(path);
        if path.starts_with(SCRIPTS)
            && script::root(store).join(path).is_dir()
            && !is_item(store, path)
        {
            folders.push(path.to_path_buf());
            legacy
                .iter()
                .filter(below)
                .for_each(|item| add(item, Caution::Swept));
        } else if name.contains(['*', '?', '[', '{']) {
            let glob = pattern(name)?;
            let mut hits = legacy
                .iter()
                .filter(|item| matches(&glob, store, item))
                .peekable();
            if hits.peek().is_none() {
                return Err(MigrationError::NothingMatches(name.clone()));
            }
            hits.for_each(|item| add(item, Caution::Swept));
        } else {
            add(find(store, name)?, Caution::Named);
        }
    }
    Ok((chosen, folders))
}

fn is_item(store: &ItemStore, path: &Path) -> bool {
    let folder = script::root(store).join(path);
    store.items().iter().any(|item| {
        item.as_tool()
            .is_some_and(|tool| tool.folder.as_ref() == Some(&folder))
    })
}

fn pattern(text: &str) -> Result<GlobMatcher, MigrationError> {
    // `ops/*` also matches in subfolders of `ops/`.
    let glob = GlobBuilder::new(text).literal_separator(false).build();
    let wrong = |err: globset::Error| MigrationError::Pattern {
        pattern: text.to_owned(),
        reason: err.kind().to_string(),
    };
    Ok(glob.map_err(wrong)?.compile_matcher())
}

fn matches(glob: &GlobMatcher, store: &ItemStore, item: &Item) -> bool {
    glob.is_match(item.id.as_str())
        || !item.category.is_empty() && glob.is_match(format!("{}/{}", item.category, item.id))
        || glob.is_match(store.roots().display(&item.file))
}

fn legacy(store: &ItemStore) -> impl Iterator<Item = &Item> {
    store
        .items()
        .iter()
        .filter(|item| item.is_legacy() && item.kind() == ItemKind::Tool)
}

pub(super) fn find<'s>(store: &'s ItemStore, wanted: &str) -> Result<&'s Item, MigrationError> {
    let path = Path::new(wanted.trim_start_matches("./").trim_end_matches('/'));
    let of_file = |item: &&Item| {
        let folder = item
            .as_tool()
            .and_then(|tool| tool.folder.as_deref())
            .map(|folder| store.roots().display(folder));
        store.roots().display(&item.file) == path || folder.as_deref() == Some(path)
    };
    if let Some(item) = legacy(store)
        .filter(|item| item.layer == Layer::Project)
        .find(of_file)
    {
        return Ok(item);
    }
    refuse_other(store, path)?;
    let id: ItemId = match wanted.parse() {
        Ok(id) => id,
        Err(reason) => {
            return Err(LookupError::Invalid {
                id: wanted.to_owned(),
                reason,
            }
            .into());
        }
    };
    let found: Vec<&Item> = legacy(store).filter(|item| item.answers_to(&id)).collect();
    let mut ours: Vec<&Item> = found
        .iter()
        .copied()
        .filter(|item| item.layer == Layer::Project)
        .collect();
    // `x.yaml` with entrypoint `x.py` is one tool, not two.
    if ours.len() > 1 {
        ours.retain(|item| destination::claimant(store, item).is_none());
    }
    match (ours.as_slice(), found.first()) {
        ([item], _) => Ok(item),
        ([], Some(other)) => Err(MigrationError::NotOfTheProject {
            id: other.id.clone(),
            layer: other.layer,
        }),
        ([], None) => {
            let item = store
                .find(ItemKind::Tool, wanted)
                .map_err(|err| match err {
                    // The usual hint names the folder of tools, which has no scripts.
                    LookupError::NotFound {
                        similar: None,
                        instead: None,
                        ..
                    } => MigrationError::NothingMatches(wanted.to_owned()),
                    err => err.into(),
                })?;
            Err(MigrationError::NotLegacy {
                id: item.id.clone(),
                file: store.roots().display(&item.file),
            })
        }
        (several, _) => {
            let files = several
                .iter()
                .map(|item| store.roots().display(&item.file))
                .collect();
            Err(LookupError::Ambiguous {
                kind: ItemKind::Tool,
                id,
                files,
            }
            .into())
        }
    }
}

/// Reports a path below the scripts that is not a script.
fn refuse_other(store: &ItemStore, path: &Path) -> Result<(), MigrationError> {
    let there = script::root(store).join(path).symlink_metadata();
    let Some(found) = there.ok().filter(|_| path.starts_with(SCRIPTS)) else {
        return Ok(());
    };
    let path = path.to_path_buf();
    Err(if found.is_symlink() {
        MigrationError::Link(path)
    } else if path.starts_with(Path::new(SCRIPTS).join(modules::LIB)) {
        MigrationError::Shared(path)
    } else {
        MigrationError::NotAScript(path)
    })
}
