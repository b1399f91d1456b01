//! What remains below `.ai/scripts/`, and which files name moved ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::modules::{LIB, Modules};
use super::names::{Namers, is_foreign, is_prose};
use super::{
    Migration, MigrationAction, MigrationSurvey, SCRIPTS, Skipped, TOOLS, destination, script,
};
use crate::item::source::{MAX_TEXT, files_below, read_bytes};
use crate::item::store::ItemStore;

/// Folders with texts about scripts.
const DOCUMENTS: [&str; 6] = [
    ".ai/directives",
    ".ai/knowledge",
    SCRIPTS,
    TOOLS,
    "docs",
    ".",
];

/// Reports every file of some folders that is not migrated.
pub(super) fn report(
    store: &ItemStore,
    modules: &Modules<'_>,
    namers: &Namers,
    folders: &[PathBuf],
    survey: &mut MigrationSurvey,
) {
    let root = script::root(store);
    let changes = || {
        survey
            .migrations
            .iter()
            .flat_map(|migration| &migration.changes)
            .chain(&survey.library)
    };
    let gone: BTreeSet<PathBuf> = changes()
        .filter(|change| change.action == MigrationAction::Move)
        .filter_map(|change| change.from.clone())
        .collect();
    let mut told: BTreeSet<PathBuf> = changes().filter_map(|change| change.from.clone()).collect();
    told.extend(survey.skipped.iter().map(|skipped| skipped.path.clone()));
    let unusable: BTreeSet<PathBuf> = store
        .broken()
        .map(|(_, file)| store.roots().display(file))
        .collect();
    for folder in folders {
        for (file, _) in files_below(&root.join(folder)) {
            let path = store.roots().display(&file);
            // A skipped folder covers its files.
            if is_foreign(&path)
                || told.iter().any(|known| path.starts_with(known))
                || is_beside_skipped(&path, &told)
            {
                continue;
            }
            told.insert(path.clone());
            let (reason, suggestion) = if file.is_symlink() {
                (
                    "it is a link",
                    "replace it by what it leads to, or remove it",
                )
            } else if is_needed_in_library(store, modules, &path, &gone) {
                (
                    "scripts that are left alone may import it",
                    "leave it where it is until they are migrated",
                )
            } else {
                why(
                    &path,
                    unusable.iter().any(|broken| path.starts_with(broken)),
                )
            };
            let mut skipped = Skipped {
                path,
                code: None,
                reason: reason.to_owned(),
                suggestion: Some(suggestion.into()),
            };
            if reason == UNCLAIMED.0
                && let Some(namer) = namers.mentioning(&skipped.path, &gone)
            {
                skipped.reason = format!("`{}` names it", namer.file.display());
                skipped.suggestion =
                    Some("leave it where it is as long as it is used there".into());
            }
            survey.skipped.push(skipped);
        }
    }
}

/// A skipped manifest covers its folder.
fn is_beside_skipped(path: &Path, told: &BTreeSet<PathBuf>) -> bool {
    let manifests = ["tool.yaml", "tool.yml", "tool.json"];
    path.ancestors().skip(1).any(|folder| {
        manifests
            .iter()
            .any(|name| told.contains(&folder.join(name)))
    })
}

/// The message for a file that no script uses.
const UNCLAIMED: (&str, &str) = (
    "it is no script, and no script claims it",
    "move it to where it is used, or remove it",
);

/// Whether a library file belongs to a module that a remaining file imports.
fn is_needed_in_library(
    store: &ItemStore,
    modules: &Modules<'_>,
    path: &Path,
    gone: &BTreeSet<PathBuf>,
) -> bool {
    let inside = path
        .strip_prefix(Path::new(SCRIPTS).join(LIB))
        .ok()
        .and_then(|inside| inside.iter().next());
    let Some(name) = inside.and_then(|name| Path::new(name).file_stem()?.to_str()) else {
        return false;
    };
    let gone = gone
        .iter()
        .map(|path| script::root(store).join(path))
        .collect();
    !modules
        .kept_in_library(&gone, &BTreeSet::from([name.to_owned()]), BTreeSet::new())
        .is_empty()
}

fn why(path: &Path, is_broken: bool) -> (&'static str, &'static str) {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if name == "requirements.txt" {
        return (
            "no script reads it, and it lists packages for all of them",
            "add what a tool needs to the `dependencies` of its `tool.yaml`",
        );
    }
    if path.starts_with(Path::new(SCRIPTS).join(LIB)) {
        return (
            "no script that is migrated imports it",
            "move it to `.ai/tools/lib/`, or remove it",
        );
    }
    if is_broken {
        return ("it cannot be read as a tool", "`piton validate` says why");
    }
    match name {
        "__init__.py" => (
            "it makes its folder a package, and is no script",
            "remove it with the last script beside it",
        ),
        _ => UNCLAIMED,
    }
}

/// Adds a note to each migration about files that name its old path; they are not rewritten.
pub(super) fn references(
    store: &ItemStore,
    namers: &Namers,
    gone: &BTreeSet<PathBuf>,
    migrations: &mut [Migration],
) {
    for migration in &mut *migrations {
        let notes = migration
            .moved()
            .flat_map(|from| namers.of(from, gone).map(move |namer| namer.note(from)));
        let notes: Vec<String> = notes.collect();
        migration.notes.extend(notes);
    }
    let root = script::root(store);
    let mut documents = BTreeSet::new();
    for folder in DOCUMENTS {
        let folder = root.join(folder);
        let found: Vec<PathBuf> = if folder.ends_with(".") {
            std::fs::read_dir(&root)
                .into_iter()
                .flatten()
                .filter_map(Result::ok)
                .map(|entry| entry.path())
                .collect()
        } else {
            files_below(&folder)
                .into_iter()
                .filter(|(_, listed)| listed.is_ok())
                .map(|(path, _)| path)
                .collect()
        };
        documents.extend(found.into_iter().filter(|path| {
            is_prose(path) && !is_foreign(&store.roots().display(path)) && !path.is_symlink()
        }));
    }
    for document in documents {
        let Ok(bytes) = read_bytes(&document, MAX_TEXT) else {
            continue;
        };
        for (number, line) in (1..).zip(String::from_utf8_lossy(&bytes).lines()) {
            for named in destination::named_paths(line) {
                let is_moved = |migration: &&mut Migration| {
                    migration
                        .changes
                        .iter()
                        .any(|change| change.from.as_deref() == Some(Path::new(&named)))
                };
                if let Some(migration) = migrations.iter_mut().find(is_moved) {
                    let place = store.roots().display(&document);
                    migration
                        .notes
                        .push(format!("`{}:{number}` names `{named}`", place.display()));
                }
            }
        }
    }
}
