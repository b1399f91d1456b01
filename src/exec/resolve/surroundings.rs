//! What the runtimes of RYE say about their surroundings: `env_config` (the interpreter and variables) and
//! `anchor` (where modules are searched).
//!
//! [`Surroundings::of`] reads both along the chain, the tool last. It looks which of the named files exist and
//! runs nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path};

use super::CallEnvironment;
use crate::item::node::Node;
use crate::item::tool::LoadedTool;

#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    /// The variables of interpreters, by name: a path, or a program on `PATH`.
    pub(super) interpreters: BTreeMap<String, String>,
    /// The placeholders for folders.
    pub(super) folders: BTreeMap<&'static str, String>,
    /// Variables for the process, as written.
    pub(super) variables: BTreeMap<String, String>,
    /// Folders to add to variables such as `PYTHONPATH`: before and after, as written.
    pub(super) paths: BTreeMap<String, (Vec<String>, Vec<String>)>,
}

impl Surroundings {
    /// `tools` begin with the tool; `folder` is its folder.
    pub(super) fn of(tools: &[&LoadedTool], folder: &Path, around: &CallEnvironment) -> Self {
        let mut found = Self::default();
        for tool in tools.iter().rev() {
            if let Some(settings) = tool.node.find("env_config") {
                found.read_environment(settings, folder, around);
            }
            if let Some(anchor) = tool.node.find("anchor") {
                found.read_anchor(anchor, tool, folder, around);
            }
        }
        found
    }

    fn read_environment(&mut self, settings: &Node, folder: &Path, around: &CallEnvironment) {
        if let Some(interpreter) = settings.find("interpreter")
            && let Some(name) = interpreter.find("var").and_then(Node::as_text)
            && let Some(program) = find_interpreter(interpreter, folder, around)
        {
            self.interpreters.insert(name.to_owned(), program);
        }
        let entries = settings.find("env").and_then(Node::entries);
        for entry in entries.unwrap_or_default() {
            // Every tool has the `PATH` of the caller.
            if entry.key != "PATH"
                && let Some(value) = entry.value.scalar()
            {
                self.variables.insert(entry.key.clone(), value);
            }
        }
    }

    fn read_anchor(
        &mut self,
        anchor: &Node,
        owner: &LoadedTool,
        folder: &Path,
        around: &CallEnvironment,
    ) {
        let text = |key: &str| anchor.find(key).and_then(Node::as_text);
        if anchor.find("enabled").and_then(Node::as_bool) == Some(false)
            || text("mode") == Some("never")
        {
            return;
        }
        let root = match text("root") {
            Some("tool_parent") => folder.parent().unwrap_or(folder),
            Some("project_path") => &around.root,
            _ => folder,
        };
        let markers = texts(anchor, "markers_any");
        let is_marked = markers
            .iter()
            .any(|marker| is_plain(marker) && root.join(marker).exists());
        if text("mode") != Some("always") && !is_marked {
            return;
        }
        let home = owner.folder.as_deref().or_else(|| owner.file.parent());
        let lib =
            home.map(|home| home.join(text("lib").filter(|lib| is_plain(lib)).unwrap_or("lib")));
        for (name, path) in [
            ("anchor_path", Some(root.to_path_buf())),
            ("runtime_lib", lib),
        ] {
            if let Some(path) = path.as_deref().and_then(Path::to_str) {
                self.folders.insert(name, path.to_owned());
            }
        }
        let entries = anchor.find("env_paths").and_then(Node::entries);
        for entry in entries.unwrap_or_default() {
            let both = (
                texts(&entry.value, "prepend"),
                texts(&entry.value, "append"),
            );
            self.paths.insert(entry.key.clone(), both);
        }
    }
}

/// The interpreter that a runtime names: in a folder of the project or beside the tool, else on `PATH`.
fn find_interpreter(node: &Node, folder: &Path, around: &CallEnvironment) -> Option<String> {
    let text = |key: &str| node.find(key).and_then(Node::as_text).map(str::to_owned);
    let default = match text("type").as_deref() {
        Some("venv_python") => Some("python".to_owned()),
        Some("node_modules") => Some("node".to_owned()),
        _ => None,
    };
    let names: Vec<String> = text("binary")
        .or(default)
        .into_iter()
        .chain(texts(node, "candidates"))
        .collect();
    let mut places = texts(node, "search_paths");
    places.extend(texts(node, "search"));
    places.extend(text("venv_path").map(|path| format!("{path}/bin")));
    let places = places.iter().filter(|place| is_plain(place));
    for place in places {
        for root in [around.root.as_path(), folder] {
            for name in names.iter().filter(|name| is_plain(name)) {
                let file = root.join(place).join(name);
                if file.is_file() {
                    return file.to_str().map(str::to_owned);
                }
            }
        }
    }
    let fallback = text("fallback");
    let on_path = names
        .iter()
        .chain(&fallback)
        .find(|name| is_on_path(name, around));
    on_path
        .cloned()
        .or(fallback)
        .or_else(|| names.first().cloned())
}

fn is_on_path(name: &str, around: &CallEnvironment) -> bool {
    let path = around.environment.get(OsStr::new("PATH"));
    let path = path.and_then(|path| path.to_str()).unwrap_or_default();
    path.split(':')
        .map(Path::new)
        .any(|folder| folder.is_absolute() && !name.contains('/') && folder.join(name).is_file())
}

fn texts(node: &Node, key: &str) -> Vec<String> {
    let elements = node.find(key).and_then(Node::elements);
    let texts = elements.unwrap_or_default().iter();
    texts
        .filter_map(|it| it.as_text().map(str::to_owned))
        .collect()
}

/// A relative path that stays in its folder.
fn is_plain(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}
