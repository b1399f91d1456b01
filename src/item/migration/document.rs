//! Tools below `.ai/scripts/` with a manifest: they move unchanged.

use std::path::{Path, PathBuf};

use super::modules::{Modules, Needs};
use super::{
    Caution, Migration, MigrationChange, MigrationError, SCRIPTS, TOOLS, destination, load,
};
use crate::item::signature::{UNSTAMPED_FOLDERS, author_file, detached_file};
use crate::item::source::files_below;
use crate::item::store::{Item, ItemStore};
use crate::item::tool::LoadedTool;
use crate::item::validate;

/// Folders that a tool needs at run time but that are not part of it.
const PACKAGES: [&str; 2] = [".venv", "node_modules"];

/// Moves a tool folder, or a manifest with its script, to the same place below `.ai/tools/`.
pub(super) fn moved(
    store: &ItemStore,
    modules: &Modules<'_>,
    item: &Item,
    tool: &LoadedTool,
    caution: Caution,
) -> Result<(Migration, Needs), MigrationError> {
    let whole = tool.folder.as_deref().unwrap_or(&item.file);
    let from = store.roots().display(whole);
    let to = place_of(&from);
    destination::free(store, &to)?;
    let script = validate::entrypoint(tool);
    let mut notes = Vec::new();
    if let Some(script) = &script {
        let source = load(script, &store.roots().display(script))?;
        // In a folder everything moves together, to the same depth.
        if tool.folder.is_none() {
            notes = destination::cares(store, script, &source.text, caution)?;
            refuse_imports(store, modules, script)?;
        }
    }
    let files: Vec<PathBuf> = if let Some(folder) = &tool.folder {
        files_to_move(folder, &from)?
    } else {
        let companions = [detached_file(&item.file), author_file(&item.file)].into_iter();
        companions
            .filter(|file| file.is_file())
            .chain(script)
            .collect()
    };
    let mut changes = Vec::new();
    for file in files.iter().filter(|file| **file != item.file) {
        destination::refuse_link(store, file)?;
        let to = place_of(&store.roots().display(file));
        if tool.folder.is_none() {
            destination::free(store, &to)?;
        }
        changes.push(MigrationChange::moved(store, file, to)?);
    }
    changes.push(MigrationChange::moved(
        store,
        &item.file,
        place_of(&store.roots().display(&item.file)),
    )?);
    Ok((
        Migration {
            tool_id: item.id.clone(),
            from,
            to,
            changes,
            notes,
        },
        Needs::default(),
    ))
}

/// Refuses a script that would not find its modules elsewhere.
fn refuse_imports(
    store: &ItemStore,
    modules: &Modules<'_>,
    script: &Path,
) -> Result<(), MigrationError> {
    let needs = modules.needs(script)?;
    let refuse = |module: String, reason| MigrationError::Imports {
        file: store.roots().display(script),
        module,
        reason,
    };
    if let Some(helper) = needs.helpers.first() {
        let stem = helper.file_stem().unwrap_or_default();
        return Err(refuse(
            stem.to_string_lossy().into_owned(),
            "lies beside it",
        ));
    }
    // The user's manifest is not rewritten, and without `lib_imports` the module would not be
    // found.
    match needs.library.first() {
        Some(module) => Err(refuse(
            module.clone(),
            "belongs to the library of the scripts",
        )),
        None => Ok(()),
    }
}

/// The files of a tool folder, without caches.
fn files_to_move(folder: &Path, from: &Path) -> Result<Vec<PathBuf>, MigrationError> {
    if let Some(name) = PACKAGES
        .iter()
        .find(|name| folder.join(name).symlink_metadata().is_ok())
    {
        let folder = from.to_path_buf();
        return Err(MigrationError::Packages { folder, name });
    }
    let is_cache = |path: &Path| {
        let inside = path.strip_prefix(folder).unwrap_or(path);
        inside
            .iter()
            .any(|part| UNSTAMPED_FOLDERS.iter().any(|name| part == *name))
    };
    Ok(files_below(folder)
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| !is_cache(path))
        .collect())
}

/// The same path below the tools.
fn place_of(from: &Path) -> PathBuf {
    Path::new(TOOLS).join(from.strip_prefix(SCRIPTS).unwrap_or(from))
}
