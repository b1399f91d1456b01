//! The script of a tool: its file, its hash, and what Python needs to run it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::ResolveError;
use super::settings::{SettingData, ToolSettings};
use crate::encoding::hex;
use crate::exec::invocation::{Beside, Python, PythonEntry, ScriptFile};
use crate::item::finding::{Findings, Strength};
use crate::item::node::Node;
use crate::item::source::{MAX_TEXT, read_bytes};
use crate::item::store::Roots;
use crate::item::tool::{LoadedTool, python};
use crate::item::validate;
use crate::item::wording::shown;

#[derive(Debug)]
pub(super) struct Entrypoint {
    pub(super) script: ScriptFile,
    pub(super) path: String,
    bytes: Vec<u8>,
}

/// Reads the script of a tool, if it has one.
pub(super) fn read(tool: &LoadedTool, roots: &Roots) -> Result<Option<Entrypoint>, ResolveError> {
    let found = validate::find_entrypoint(tool).map_err(|mut finding| {
        finding.file = roots.display(&finding.file);
        ResolveError::Entrypoint(finding)
    })?;
    let Some(file) = found else { return Ok(None) };
    let bytes = read_bytes(&file, MAX_TEXT).map_err(|source| ResolveError::Unreadable {
        path: roots.display(&file),
        source,
    })?;
    let path = file
        .to_str()
        .ok_or_else(|| ResolveError::NotUnicode(roots.display(&file)))?
        .to_owned();
    let script = ScriptFile {
        path: file,
        sha256: hex(&Sha256::digest(&bytes)),
    };
    Ok(Some(Entrypoint {
        script,
        path,
        bytes,
    }))
}

impl Entrypoint {
    /// Its text, for a runtime elsewhere.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// What Python needs to run it.
    pub(super) fn python(
        &self,
        settings: &ToolSettings<'_>,
        tools: &[&LoadedTool],
        roots: &Roots,
    ) -> Result<Python, ResolveError> {
        let mut dependencies: Vec<String> = Vec::new();
        for dependency in tools.iter().flat_map(|tool| &tool.manifest.dependencies) {
            if !dependencies.contains(dependency) {
                dependencies.push(dependency.clone());
            }
        }
        let venv = match settings
            .find("venv")
            .map(|setting| (&setting.data, setting))
        {
            None => !dependencies.is_empty(),
            Some((SettingData::Scalar(serde_json::Value::Bool(wanted)), _)) => *wanted,
            // Older files describe the environment here; doing so requests one.
            Some((SettingData::Map(_), _)) => true,
            Some((_, setting)) => {
                return Err(ResolveError::Setting {
                    field: "config.venv".to_owned(),
                    reason: format!("is {}; it must be true or false", setting.type_name()),
                    hint: "write `venv: true`".to_owned(),
                    at: Some(Box::new(setting.source.origin())),
                });
            }
        };
        let has_folder = tools.first().is_some_and(|tool| tool.folder.is_some());
        Ok(Python {
            entry: self.entry(),
            reads_options: self.reads_options(),
            venv,
            dependencies,
            lib_imports: match tools.first() {
                Some(tool) if settings.find("lib_imports").is_none() => {
                    self.legacy_imports(tool, roots)
                }
                _ => lib_imports(settings, roots)?,
            },
            beside: if has_folder {
                Beside::Own
            } else {
                Beside::Others
            },
        })
    }

    /// Whether `main` takes its parameters from the command line, as scripts with `argparse` do.
    fn reads_options(&self) -> bool {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut ignored = Findings::new(&self.script.path, Strength::Lenient);
        let has_parameters = |main: &Node| {
            let properties = main.find("properties").and_then(Node::entries);
            properties.is_none_or(|properties| !properties.is_empty())
                || main.find("additionalProperties").is_some()
        };
        let main = python::read(&text, |_| false, &mut ignored).main;
        main.is_some_and(|main| !has_parameters(&main)) && python::reads_command_line(&text)
    }

    /// The modules of the shared libraries, for a script below `.ai/scripts/` that imports `lib`: it cannot name them in a
    /// manifest.
    fn legacy_imports(&self, tool: &LoadedTool, roots: &Roots) -> BTreeMap<String, PathBuf> {
        let scripts = tool
            .file
            .ancestors()
            .find(|folder| folder.ends_with(".ai/scripts"));
        let imports = python::imports::imports(&String::from_utf8_lossy(&self.bytes));
        let mut found = BTreeMap::new();
        let Some(scripts) = scripts.filter(|_| {
            let imports = imports.unwrap_or_default();
            imports.iter().any(|it| it.level == 0 && it.head() == "lib")
        }) else {
            return found;
        };
        for lib in std::iter::once(scripts.join("lib")).chain(libraries(roots)) {
            for entry in std::fs::read_dir(&lib).into_iter().flatten().flatten() {
                let path = entry.path();
                let stem = path.file_stem().and_then(|stem| stem.to_str());
                let Some(name) = stem.filter(|name| is_module_name(name)) else {
                    continue;
                };
                if let Some(file) = module_in(&lib, name) {
                    found.entry(name.to_owned()).or_insert(file);
                }
            }
        }
        found
    }

    /// What is called in the file: a function, async or not, or the file itself.
    fn entry(&self) -> PythonEntry {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut ignored = Findings::new(&self.script.path, Strength::Lenient);
        let module = python::read(&text, |_| false, &mut ignored);
        // Only the head of a long file is parsed.
        let defines = |name: &str| {
            text.lines().any(|line| {
                let line = line.strip_prefix("async ").unwrap_or(line);
                line.strip_prefix("def ")
                    .and_then(|line| line.strip_prefix(name))
                    .is_some_and(|rest| rest.starts_with('('))
            })
        };
        if module.main.is_some() || defines("main") {
            PythonEntry::Main
        } else if module.has_execute || defines("execute") {
            PythonEntry::Execute
        } else {
            PythonEntry::Script
        }
    }
}

/// The modules of `.ai/tools/lib/` that a script may import.
fn lib_imports(
    settings: &ToolSettings<'_>,
    roots: &Roots,
) -> Result<BTreeMap<String, PathBuf>, ResolveError> {
    let Some(setting) = settings.find("lib_imports") else {
        return Ok(BTreeMap::new());
    };
    let wrong =
        |field: &str, reason: String, hint: String, at: &super::settings::ToolSetting<'_>| {
            ResolveError::Setting {
                field: field.to_owned(),
                reason,
                hint,
                at: Some(Box::new(at.source.origin())),
            }
        };
    let SettingData::List(names) = &setting.data else {
        let reason = format!("is {}; it must be a list", setting.type_name());
        return Err(wrong(
            "config.lib_imports",
            reason,
            "e.g. `lib_imports: [helpers]`".to_owned(),
            setting,
        ));
    };
    let mut imports = BTreeMap::new();
    for (at, element) in names.iter().enumerate() {
        let field = format!("config.lib_imports[{at}]");
        let name = element.as_text().unwrap_or_default();
        let found = is_module_name(name)
            .then(|| find_module(name, roots))
            .flatten();
        let Some(file) = found else {
            let reason = format!("names the module `{}`, which does not exist", shown(name));
            let hint = format!("create `.ai/tools/lib/{}.py`", shown(name));
            return Err(wrong(&field, reason, hint, element));
        };
        imports.insert(name.to_owned(), file);
    }
    Ok(imports)
}

fn find_module(name: &str, roots: &Roots) -> Option<PathBuf> {
    libraries(roots).find_map(|lib| module_in(&lib, name))
}

/// The libraries of the project and of the user.
fn libraries(roots: &Roots) -> impl Iterator<Item = PathBuf> + use<> {
    let roots = [roots.project.clone(), roots.user.clone()];
    roots
        .into_iter()
        .flatten()
        .map(|root| root.join(".ai/tools/lib"))
}

/// A module of a library. A package is its `__init__.py`; a namespace package is its folder.
fn module_in(lib: &Path, name: &str) -> Option<PathBuf> {
    let places = [
        lib.join(format!("{name}.py")),
        lib.join(name).join("__init__.py"),
        lib.join(name),
    ];
    places
        .into_iter()
        .find(|path| is_module(path) && !crate::item::source::leaves(path, lib))
}

fn is_module_name(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.is_empty()
        && name != "__pycache__"
}

fn is_module(path: &Path) -> bool {
    if path.extension().is_some() {
        path.is_file()
    } else {
        path.is_dir()
    }
}
