//! What is left below `.ai/scripts/`, and who names what has moved.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Migration, SCRIPTS, Skipped, Survey, place, script};
use crate::item::signature::UNSTAMPED_FOLDERS;
use crate::item::source::{MAX_TEXT, files_below, read_bytes};
use crate::item::store::ItemStore;

/// Where people write about scripts.
const DOCUMENTS: [&str; 4] = [".ai/directives", ".ai/knowledge", "docs", "."];

/// Names every file of some folders that nothing is done with.
pub(super) fn report(store: &ItemStore, folders: &[PathBuf], survey: &mut Survey) {
    let root = script::root(store);
    let changes = survey.migrations.iter().flat_map(|migration| &migration.changes).chain(&survey.library);
    let mut told: BTreeSet<PathBuf> = changes.filter_map(|change| change.from.clone()).collect();
    told.extend(survey.skipped.iter().map(|skipped| skipped.path.clone()));
    let unusable: BTreeSet<PathBuf> = store.broken().map(|(_, file)| store.roots().display(file)).collect();
    for folder in folders {
        for (file, _) in files_below(&root.join(folder)) {
            let path = store.roots().display(&file);
            let is_cache = path.iter().any(|part| UNSTAMPED_FOLDERS.iter().any(|name| part == *name));
            // What lies in a folder that is skipped is skipped with it.
            if is_cache || told.iter().any(|known| path.starts_with(known)) || is_beside_skipped(&path, &told) {
                continue;
            }
            told.insert(path.clone());
            let (reason, suggestion) = why(&path, unusable.iter().any(|broken| path.starts_with(broken)));
            let (reason, suggestion) = (reason.to_owned(), Some(suggestion.to_owned()));
            survey.skipped.push(Skipped { path, code: None, reason, suggestion });
        }
    }
}

/// A manifest that is skipped stands for its folder.
fn is_beside_skipped(path: &Path, told: &BTreeSet<PathBuf>) -> bool {
    let manifests = ["tool.yaml", "tool.yml", "tool.json"];
    path.ancestors().skip(1).any(|folder| manifests.iter().any(|name| told.contains(&folder.join(name))))
}

fn why(path: &Path, is_broken: bool) -> (&'static str, &'static str) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name == "requirements.txt" {
        return (
            "no script reads it, and it lists packages for all of them",
            "add what a tool needs to the `dependencies` of its `tool.yaml`",
        );
    }
    if path.starts_with(Path::new(SCRIPTS).join(super::modules::LIB)) {
        return ("no script that is migrated imports it", "move it to `.ai/tools/lib/`, or remove it");
    }
    if is_broken {
        return ("it cannot be read as a tool", "`piton validate` says why");
    }
    match name {
        "__init__.py" => {
            ("it makes its folder a package, and is no script", "remove it with the last script beside it")
        }
        _ => ("it is no script, and no script claims it", "move it to where it is used, or remove it"),
    }
}

/// Adds to each migration who names its old place; nothing of that is rewritten.
pub(super) fn references(store: &ItemStore, migrations: &mut [Migration]) {
    let root = script::root(store);
    let is_text = |path: &Path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
    let mut documents = BTreeSet::new();
    for folder in DOCUMENTS {
        let folder = root.join(folder);
        let found: Vec<PathBuf> = if folder.ends_with(".") {
            std::fs::read_dir(&root).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()).collect()
        } else {
            files_below(&folder).into_iter().filter(|(_, listed)| listed.is_ok()).map(|(path, _)| path).collect()
        };
        documents.extend(found.into_iter().filter(|path| is_text(path) && !path.is_symlink()));
    }
    for document in documents {
        let Ok(bytes) = read_bytes(&document, MAX_TEXT) else { continue };
        for (number, line) in (1..).zip(String::from_utf8_lossy(&bytes).lines()) {
            for named in place::named_paths(line) {
                let is_moved = |migration: &&mut Migration| {
                    migration.changes.iter().any(|change| change.from.as_deref() == Some(Path::new(&named)))
                };
                if let Some(migration) = migrations.iter_mut().find(is_moved) {
                    let place = store.roots().display(&document);
                    migration.notes.push(format!("`{}:{number}` names `{named}`", place.display()));
                }
            }
        }
    }
}
