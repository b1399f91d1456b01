//! Turns a legacy script into a tool folder: the manifest states what the script declared about
//! itself.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::modules::{LIB, Modules, Needs};
use super::{
    Caution, Migration, MigrationAction, MigrationChange, MigrationError, TOOLS, destination, load,
};
use crate::item::finding::{Findings, Strength};
use crate::item::signature::stamp;
use crate::item::source::{MAX_TEXT, SourceFile, read_bytes};
use crate::item::store::{Item, ItemStore};
use crate::item::tool::{
    self, LoadedTool, Root, Spelling, ToolKind, ToolLocation, ToolManifest, ToolReading,
};
use crate::item::yaml;

/// Fields of a tool file that the manifest type lacks but that must not be lost.
const KEPT: [&str; 7] = [
    "config_schema",
    "env_config",
    "validation",
    "anchor",
    "verify_deps",
    "required_scope",
    "created_at",
];

/// Whether a tool is a script without a separate manifest.
pub(super) fn is_script(tool: &LoadedTool) -> bool {
    tool.manifest.kind == ToolKind::Script
        && matches!(tool.spelling, Spelling::Embedded | Spelling::LegacyScript)
}

/// Plans the tool folder of a script; also returns the library modules it needs.
pub(super) fn folder(
    store: &ItemStore,
    modules: &Modules<'_>,
    item: &Item,
    caution: Caution,
) -> Result<(Migration, Needs), MigrationError> {
    let from = store.roots().display(&item.file);
    let Some(tool) = item.as_tool().filter(|tool| is_script(tool)) else {
        return Err(MigrationError::NotAScript(from));
    };
    let to = Path::new(TOOLS)
        .join(category_of(item))
        .join(item.id.name());
    destination::free(store, &to)?;
    let source = load(&item.file, &from)?;
    let needs = modules.needs(&item.file)?;
    let mut notes = destination::cares(store, &item.file, &source.text, caution)?;
    let mut changes = Vec::new();
    for helper in &needs.helpers {
        let name = helper.file_name().unwrap_or_default();
        let moved = MigrationChange::moved(store, helper, to.join(name))?;
        // The helper must also find the files it reads.
        notes.extend(destination::cares(
            store,
            helper,
            &String::from_utf8_lossy(&moved.content),
            caution,
        )?);
        changes.push(moved);
    }
    for name in &needs.library {
        for file in modules.files_of_library(name) {
            destination::unlike(store, &file, &library_place(store, &file))?;
        }
        let other = Path::new(TOOLS).join(LIB).join(format!("{name}.py"));
        let is_package = modules.files_of_library(name).len() != 1;
        if is_package && root(store).join(&other).symlink_metadata().is_ok() {
            let file = Path::new(super::SCRIPTS).join(LIB).join(name);
            return Err(MigrationError::Differs { file, there: other });
        }
    }
    let ending = item
        .file
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or("py");
    let script = MigrationChange {
        action: MigrationAction::Move,
        path: to.join(format!("main.{ending}")),
        from: Some(from.clone()),
        content: stamp::unstamped(&source.raw()).into_bytes(),
    };
    let text = describe(tool, item, &needs, &script, &source, &from)?;
    changes.push(script);
    changes.push(MigrationChange {
        action: MigrationAction::Create,
        path: to.join("tool.yaml"),
        from: None,
        content: text.into_bytes(),
    });
    Ok((
        Migration {
            tool_id: item.id.clone(),
            from,
            to,
            changes,
            notes,
        },
        needs,
    ))
}

/// The new path of a library file.
pub(super) fn library_place(store: &ItemStore, file: &Path) -> PathBuf {
    let shown = store.roots().display(file);
    Path::new(TOOLS).join(shown.strip_prefix(super::SCRIPTS).unwrap_or(&shown))
}

pub(super) fn root(store: &ItemStore) -> PathBuf {
    store.roots().project.clone().unwrap_or_default()
}

/// The folders of the category; if they are not valid folder names, those of the script.
fn category_of(item: &Item) -> &str {
    if item.category.parse::<crate::item::id::ItemId>().is_ok() {
        &item.category
    } else {
        &item.folder_category
    }
}

/// Writes the manifest, and checks that it declares the same.
fn describe(
    tool: &LoadedTool,
    item: &Item,
    needs: &Needs,
    script: &MigrationChange,
    source: &SourceFile,
    from: &Path,
) -> Result<String, MigrationError> {
    let file_name = script
        .path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let mut wanted = tool.manifest.clone();
    wanted.legacy = false;
    wanted.category.clone_from(&item.category);
    wanted
        .config
        .insert("entrypoint".to_owned(), json!(file_name));
    if !needs.library.is_empty() {
        wanted
            .config
            .insert("lib_imports".to_owned(), json!(needs.library));
    }
    // `main` declares the parameters; a second copy could diverge.
    let mut silent = wanted.clone();
    silent.parameters = Vec::new();
    silent.input_schema = json!({"type": "object", "properties": {}});
    let mut differs = "fields";
    for manifest in [&silent, &wanted] {
        let text = with_kept(manifest, tool);
        match read_back(&text, &script.path, source)
            .as_ref()
            .map(|read| difference(read, &wanted))
        {
            Some(None) => return Ok(text),
            Some(Some(field)) => differs = field,
            None => {}
        }
    }
    Err(MigrationError::Different {
        field: differs,
        file: from.to_path_buf(),
    })
}

fn with_kept(manifest: &ToolManifest, tool: &LoadedTool) -> String {
    let kept: Map<String, Value> = KEPT
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), tool.node.find(key)?.to_json())))
        .collect();
    let text = manifest.to_yaml();
    // The writer falls back to JSON for text that YAML would fold.
    if kept.is_empty() || text.starts_with('{') {
        text
    } else {
        format!("{text}{}", yaml::to_yaml(&Value::Object(kept)))
    }
}

fn read_back(text: &str, script: &Path, source: &SourceFile) -> Option<ToolManifest> {
    let folder = script.parent()?;
    let manifest = SourceFile {
        path: folder.join("tool.yaml"),
        text: text.to_owned(),
        marked: false,
    };
    let around = ToolLocation {
        folder: Some(folder),
        root: Root::Tools,
        in_lib: false,
        extractors: &[],
    };
    let mut ignored = Findings::new(&manifest.path, Strength::Lenient);
    let ToolReading::Tool(mut tool) = tool::read(&manifest, &around, &mut ignored) else {
        return None;
    };
    let is_python = script.extension().is_some_and(|ending| ending == "py");
    if is_python && tool::entrypoint::speaks_for(&tool) {
        let script = SourceFile {
            path: script.to_path_buf(),
            ..source.clone()
        };
        tool::entrypoint::read_main(&mut tool, &script);
    }
    Some(tool.manifest)
}

fn difference(one: &ToolManifest, other: &ToolManifest) -> Option<&'static str> {
    let fields = [
        ("id", one.tool_id == other.tool_id),
        ("version", one.version == other.version),
        (
            "parameters",
            one.parameters == other.parameters && one.input_schema == other.input_schema,
        ),
        ("settings", one.config == other.config),
    ];
    let named = fields
        .into_iter()
        .find(|(_, same)| !same)
        .map(|(field, _)| field);
    named.or_else(|| (one != other).then_some("fields"))
}

impl MigrationChange {
    /// A file that moves unchanged.
    pub(super) fn moved(
        store: &ItemStore,
        file: &Path,
        path: PathBuf,
    ) -> Result<Self, MigrationError> {
        let from = store.roots().display(file);
        let content =
            read_bytes(file, MAX_TEXT).map_err(|_| MigrationError::NotAScript(from.clone()))?;
        Ok(Self {
            action: MigrationAction::Move,
            path,
            from: Some(from),
            content,
        })
    }
}
