//! Tools below `.ai/scripts/` with a manifest: they move unchanged.

use std::path::{Path, PathBuf};

use super::modules::{Modules, Needs};
use super::{Caution, Change, Migration, MigrationError, SCRIPTS, TOOLS, load, place};
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
    place::free(store, &to)?;
    let script = validate::entrypoint(tool);
    let mut notes = Vec::new();
    if let Some(script) = &script {
        let source = load(script, &store.roots().display(script))?;
        // In a folder everything moves together, to the same depth.
        if tool.folder.is_none() {
            notes = place::cares(store, script, &source.text, caution)?;
            let needs = modules.needs(script)?;
            if let Some(helper) = needs.helpers.first() {
                let module = helper.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let file = store.roots().display(script);
                return Err(MigrationError::Imports { file, module, reason: "lies beside it" });
            }
            // The user's manifest is not rewritten, and without `lib_imports` the module would not
            // be found.
            if let Some(module) = needs.library.first() {
                let (file, module) = (store.roots().display(script), module.clone());
                return Err(MigrationError::Imports { file, module, reason: "belongs to the library of the scripts" });
            }
        }
    }
    let files: Vec<PathBuf> = if let Some(folder) = &tool.folder {
        if let Some(name) = PACKAGES.iter().find(|name| folder.join(name).symlink_metadata().is_ok()) {
            return Err(MigrationError::Packages { folder: from, name });
        }
        let is_cache = |path: &Path| {
            let inside = path.strip_prefix(folder).unwrap_or(path);
            inside.iter().any(|part| UNSTAMPED_FOLDERS.iter().any(|name| part == *name))
        };
        files_below(folder).into_iter().map(|(path, _)| path).filter(|path| !is_cache(path)).collect()
    } else {
        let companions = [detached_file(&item.file), author_file(&item.file)].into_iter();
        companions.filter(|file| file.is_file()).chain(script).collect()
    };
    let mut changes = Vec::new();
    for file in files.iter().filter(|file| **file != item.file) {
        place::refuse_link(store, file)?;
        let to = place_of(&store.roots().display(file));
        if tool.folder.is_none() {
            place::free(store, &to)?;
        }
        changes.push(Change::moved(store, file, to)?);
    }
    changes.push(Change::moved(store, &item.file, place_of(&store.roots().display(&item.file)))?);
    Ok((Migration { tool_id: item.id.clone(), from, to, changes, notes }, Needs::default()))
}

/// The same path below the tools.
fn place_of(from: &Path) -> PathBuf {
    Path::new(TOOLS).join(from.strip_prefix(SCRIPTS).unwrap_or(from))
}
