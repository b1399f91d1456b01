//! What a Python script imports from its surroundings, and whether it can move too.
//!
//! Python searches the folder of the script first. A module beside a script that no other file
//! imports moves with it; one of `.ai/scripts/lib/` moves to `.ai/tools/lib/`, and the manifest
//! names it. Anything else prevents the migration with a clear reason: nothing is guessed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::MigrationError;
use crate::item::directive::StepAction;
use crate::item::source::{MAX_TEXT, files_below, read_bytes};
use crate::item::store::{ItemKind, ItemStore, Layer};
use crate::item::tool::Spelling;
use crate::item::tool::python::imports::{Import, imports};

/// The folder of shared modules.
pub(super) const LIB: &str = "lib";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Modules beside it that only it imports.
    pub(super) helpers: Vec<PathBuf>,
    pub(super) library: BTreeSet<String>,
}

/// All Python files below `.ai/scripts/` with their imports.
pub(super) struct Modules<'s> {
    store: &'s ItemStore,
    /// `.ai/scripts/` as an absolute path.
    scripts: PathBuf,
    files: BTreeMap<PathBuf, ImportedModule>,
}

struct ImportedModule {
    text: String,
    /// `None` when the file is not valid Python.
    imports: Option<Vec<Import>>,
}

impl<'s> Modules<'s> {
    pub(super) fn read(store: &'s ItemStore) -> Self {
        let scripts = store
            .roots()
            .project
            .clone()
            .unwrap_or_default()
            .join(".ai/scripts");
        let mut files = BTreeMap::new();
        for (path, listed) in files_below(&scripts) {
            let is_python =
                path.extension().is_some_and(|ending| ending == "py") && !path.is_symlink();
            let Some(bytes) = listed
                .ok()
                .filter(|()| is_python)
                .and_then(|()| read_bytes(&path, MAX_TEXT).ok())
            else {
                continue;
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            files.insert(
                path,
                ImportedModule {
                    imports: imports(&text),
                    text,
                },
            );
        }
        Self {
            store,
            scripts,
            files,
        }
    }

    /// What a script needs, or why that cannot move.
    pub(super) fn needs(&self, script: &Path) -> Result<Needs, MigrationError> {
        let Some(folder) = script.parent().filter(|_| self.files.contains_key(script)) else {
            return Ok(Needs::default());
        };
        let mut needs = Needs::default();
        let mut waiting = vec![script.to_path_buf()];
        let mut seen = BTreeSet::from([script.to_path_buf()]);
        while let Some(file) = waiting.pop() {
            for name in self.imported(&file, folder)? {
                let module = folder.join(format!("{name}.py"));
                let refused = |reason| self.obstacle(&file, &name, reason);
                if name == LIB && self.is_library_of(folder) {
                    needs.library.extend(self.taken_from_library(&file)?);
                } else if module == script {
                    return Err(refused("imports it in turn"));
                } else if !self.files.contains_key(&module) {
                    return Err(refused("is a folder beside it"));
                } else if seen.insert(module.clone()) {
                    if let Some(reason) = self.why_not_a_helper(&module) {
                        return Err(refused(reason));
                    }
                    waiting.push(module);
                }
            }
        }
        seen.remove(script);
        for (file, name) in self.importers(folder, &seen) {
            if file != script && !seen.contains(&file) {
                return Err(self.obstacle(script, &name, "other scripts import too"));
            }
        }
        if let Some((file, name)) = self
            .importers(folder, &BTreeSet::from([script.to_path_buf()]))
            .into_iter()
            .next()
        {
            return Err(self.obstacle(&file, &name, "lies beside it"));
        }
        if let Some(err) = self.as_part_of_a_package(script) {
            return Err(err);
        }
        needs.library = self.with_what_it_imports(needs.library)?;
        needs.helpers = seen.into_iter().collect();
        Ok(needs)
    }

    /// The library modules that remaining files need, including those they name; all of them if
    /// that is unclear.
    pub(super) fn kept_in_library(
        &self,
        gone: &BTreeSet<PathBuf>,
        moved: &BTreeSet<String>,
        named: BTreeSet<String>,
    ) -> BTreeSet<String> {
        let lib = self.scripts.join(LIB);
        let mut kept = named;
        for (file, module) in self.files.iter().filter(|(file, _)| !gone.contains(*file)) {
            let own = file
                .strip_prefix(&lib)
                .ok()
                .and_then(|inside| inside.iter().next());
            let is_moved = own
                .and_then(|name| Path::new(name).file_stem()?.to_str())
                .is_some_and(|it| moved.contains(it));
            if is_moved {
                continue;
            }
            let Some(imports) = module
                .imports
                .as_ref()
                .filter(|_| !module.text.contains("sys.path"))
            else {
                return moved.clone();
            };
            for import in imports
                .iter()
                .filter(|import| import.head() == LIB || import.level > 0)
            {
                let parts = import.module.split('.').map(str::to_owned);
                kept.extend(parts.chain(import.names.iter().cloned()));
            }
        }
        match self.with_what_it_imports(
            kept.into_iter()
                .filter(|name| moved.contains(name))
                .collect(),
        ) {
            Ok(kept) => kept,
            Err(_) => moved.clone(),
        }
    }

    pub(super) fn files_of_library(&self, name: &str) -> Vec<PathBuf> {
        let lib = self.scripts.join(LIB);
        let single = lib.join(format!("{name}.py"));
        if self.files.contains_key(&single) {
            return vec![single];
        }
        let is_cache = |path: &Path| {
            path.components()
                .any(|part| part.as_os_str() == "__pycache__")
        };
        files_below(&lib.join(name))
            .into_iter()
            .map(|(path, _)| path)
            .filter(|path| !is_cache(path))
            .collect()
    }

    /// Whether a file is imported by others beside it.
    pub(super) fn is_imported(&self, file: &Path) -> bool {
        file.parent().is_some_and(|folder| {
            !self
                .importers(folder, &BTreeSet::from([file.to_path_buf()]))
                .is_empty()
        })
    }

    /// Whether `lib` means the library for scripts of a folder, and not a module beside them.
    fn is_library_of(&self, folder: &Path) -> bool {
        folder == self.scripts
            || !self.files.contains_key(&folder.join("lib.py")) && !folder.join(LIB).is_dir()
    }

    /// The imported names that exist in a folder; those of the library as `lib`.
    fn imported(&self, file: &Path, folder: &Path) -> Result<BTreeSet<String>, MigrationError> {
        let Some(module) = self.files.get(file) else {
            return Ok(BTreeSet::new());
        };
        let lies_there = |name: &str| {
            !name.is_empty()
                && (name == LIB && self.is_library_of(folder) && self.scripts.join(LIB).is_dir()
                    || self.files.contains_key(&folder.join(format!("{name}.py")))
                    || folder.join(name).is_dir())
        };
        let Some(imports) = &module.imports else {
            // Reading by lines may find a name too many, never one too few.
            return match by_lines(&module.text)
                .into_iter()
                .find(|name| lies_there(name))
            {
                Some(name) => Err(self.obstacle(
                    file,
                    name,
                    "lies beside it; the file itself cannot be read as Python",
                )),
                None => Ok(BTreeSet::new()),
            };
        };
        if let Some(import) = imports.iter().find(|import| import.level > 0) {
            let name = format!("{}{}", ".".repeat(import.level), import.module);
            return Err(self.obstacle(file, &name, "is relative to a package"));
        }
        let heads = imports
            .iter()
            .map(Import::head)
            .filter(|name| lies_there(name));
        Ok(heads.map(str::to_owned).collect())
    }

    /// The files of a folder that import one of some modules, with its name.
    fn importers(&self, folder: &Path, modules: &BTreeSet<PathBuf>) -> Vec<(PathBuf, String)> {
        let names: Vec<&str> = modules
            .iter()
            .filter_map(|path| path.file_stem()?.to_str())
            .collect();
        let mut found = Vec::new();
        for (file, module) in self
            .files
            .iter()
            .filter(|(file, _)| file.parent() == Some(folder))
        {
            let heads: Vec<&str> = match &module.imports {
                Some(imports) => imports.iter().map(Import::head).collect(),
                None => by_lines(&module.text),
            };
            let own = file.file_stem().and_then(|stem| stem.to_str());
            let hit = names
                .iter()
                .find(|name| heads.contains(name) && own != Some(**name));
            found.extend(hit.map(|name| (file.clone(), (*name).to_owned())));
        }
        found
    }

    /// A file further up may import the folder of a script as a package.
    fn as_part_of_a_package(&self, script: &Path) -> Option<MigrationError> {
        self.files.iter().find_map(|(file, module)| {
            let inside = script.strip_prefix(file.parent()?).ok()?;
            let package = inside.parent()?.iter().next()?.to_str()?;
            let imports = module.imports.as_ref()?;
            let hit = imports
                .iter()
                .find(|import| import.level == 0 && import.head() == package)?;
            Some(self.obstacle(file, &hit.module, "lies in a folder beside it"))
        })
    }

    /// Why an imported module is more than a helper of this script.
    fn why_not_a_helper(&self, module: &Path) -> Option<&'static str> {
        let item = self
            .store
            .items()
            .iter()
            .find(|item| item.layer == Layer::Project && item.file == module);
        let text = self
            .files
            .get(module)
            .map(|module| module.text.as_str())
            .unwrap_or_default();
        if module.file_name().is_some_and(|name| name == "main.py") {
            return Some("has the name that the script itself will have");
        }
        if module.file_name().is_some_and(|name| name == "__init__.py") {
            return Some("makes the folder a package");
        }
        let speaks = item
            .and_then(|item| item.as_tool())
            .is_some_and(|tool| tool.spelling != Spelling::LegacyScript);
        let runs = text.contains("__main__")
            || text
                .lines()
                .any(|line| line.starts_with("def main(") || line.starts_with("async def main("));
        if speaks || runs {
            return Some("is a tool of its own");
        }
        item.is_some_and(|item| self.is_named(item.id.as_str()))
            .then_some("a directive calls as a tool")
    }

    /// Whether a directive step calls a tool.
    fn is_named(&self, id: &str) -> bool {
        let directives = self
            .store
            .items()
            .iter()
            .filter(|item| item.kind() == ItemKind::Directive);
        let mut steps = directives
            .filter_map(|item| item.as_directive())
            .flat_map(|directive| &directive.steps);
        steps.any(
            |step| matches!(&step.action, StepAction::Tool { item_id, .. } if item_id.rsplit('/').next() == Some(id)),
        )
    }

    /// The library modules that a file imports.
    fn taken_from_library(&self, file: &Path) -> Result<BTreeSet<String>, MigrationError> {
        let mut taken = BTreeSet::new();
        let imports = self
            .files
            .get(file)
            .and_then(|module| module.imports.as_ref());
        for import in imports
            .into_iter()
            .flatten()
            .filter(|import| import.level == 0 && import.head() == LIB)
        {
            let second = import.module.split('.').nth(1);
            let names: Vec<&str> = second.map_or_else(
                || import.names.iter().map(String::as_str).collect(),
                |it| vec![it],
            );
            if names.is_empty() {
                return Err(self.obstacle(file, LIB, "is the whole library"));
            }
            for name in names {
                if self.files_of_library(name).is_empty() {
                    return Err(self.obstacle(
                        file,
                        &format!("{LIB}.{name}"),
                        "is no module of `.ai/scripts/lib/`",
                    ));
                }
                taken.insert(name.to_owned());
            }
        }
        Ok(taken)
    }

    /// Adds the library modules that these import.
    fn with_what_it_imports(
        &self,
        names: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, MigrationError> {
        let lib = self.scripts.join(LIB);
        if !names.is_empty()
            && let Some(text) = self
                .files
                .get(&lib.join("__init__.py"))
                .map(|module| &module.text)
            && !text
                .lines()
                .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        {
            return Err(self.obstacle(
                &lib.join("__init__.py"),
                LIB,
                "does something when it is imported",
            ));
        }
        let mut all = BTreeSet::new();
        let mut waiting: Vec<String> = names.into_iter().collect();
        while let Some(name) = waiting.pop() {
            if !all.insert(name.clone()) {
                continue;
            }
            for file in self.files_of_library(&name) {
                let Some(module) = self.files.get(&file) else {
                    continue;
                };
                let depth = file
                    .strip_prefix(&lib)
                    .map_or(1, |inside| inside.components().count());
                let Some(imports) = &module.imports else {
                    return Err(self.obstacle(&file, &name, "cannot be read as Python"));
                };
                for import in imports {
                    if import.level == 0 && import.head() == LIB {
                        waiting.extend(self.taken_from_library(&file)?);
                        continue;
                    }
                    for name in self.named_modules(&file, depth, import)? {
                        if self.files_of_library(&name).is_empty() {
                            let reason = "is no module of `.ai/scripts/lib/`";
                            return Err(self.obstacle(&file, &name, reason));
                        }
                        waiting.push(name);
                    }
                }
            }
        }
        Ok(all)
    }

    /// The library modules that an import in a library file names; `depth` is that of the file.
    fn named_modules(
        &self,
        file: &Path,
        depth: usize,
        import: &Import,
    ) -> Result<Vec<String>, MigrationError> {
        let beside = || self.scripts.join(format!("{}.py", import.head()));
        match import.level {
            0 if self.files.contains_key(&beside()) => {
                Err(self.obstacle(file, import.head(), "lies beside the scripts"))
            }
            0 => Ok(Vec::new()),
            // A relative import within a library package.
            level if level < depth => Ok(Vec::new()),
            level if level == depth && !import.module.is_empty() => {
                Ok(vec![import.head().to_owned()])
            }
            level if level == depth => Ok(import.names.clone()),
            _ => Err(self.obstacle(file, &import.module, "is relative to a package")),
        }
    }

    fn obstacle(&self, file: &Path, module: &str, reason: &'static str) -> MigrationError {
        MigrationError::Imports {
            file: self.store.roots().display(file),
            module: module.to_owned(),
            reason,
        }
    }
}

/// The first parts of imported names, read by lines; may include a name too many.
fn by_lines(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for line in text.lines().map(str::trim) {
        let listed = match line.strip_prefix("from ") {
            Some(rest) => rest.split_once(" import").map_or("", |(module, _)| module),
            None => line.strip_prefix("import ").unwrap_or_default(),
        };
        for name in listed.split(',') {
            let name = name.trim().trim_start_matches('.');
            names.extend(
                name.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .next()
                    .filter(|it| !it.is_empty()),
            );
        }
    }
    names
}
