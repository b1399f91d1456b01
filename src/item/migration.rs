//! From a legacy script to a tool folder.
//!
//! [`plan`] says which files to write and which to remove so that a script of `.ai/scripts/` becomes
//! `.ai/tools/<category>/<id>/` with a `tool.yaml`. The tool is the same one: what was planned is read
//! back and compared before it is offered. The script keeps its bytes but for an old stamp, which
//! would not hold any more. Nothing is written here.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::finding::{Finding, Findings, Strength};
use super::id::ItemId;
use super::signature::{Integrity, stamp};
use super::source::{MAX_TEXT, SourceFile};
use super::store::{Item, ItemKind, ItemStore, Layer, LookupError};
use super::tool::{self, LoadedTool, Reading, Root, Spelling, Surroundings, ToolKind, ToolManifest};
use super::wording::shown;
use super::yaml;

/// Fields of a tool that its manifest does not hold, and its file must not lose.
const KEPT: [&str; 7] =
    ["config_schema", "env_config", "validation", "anchor", "verify_deps", "required_scope", "created_at"];

/// What makes a legacy script a tool folder; every path is relative to the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The id, which stays.
    pub tool_id: ItemId,
    /// The script, which is to be removed once the files are written.
    pub from: PathBuf,
    /// The folder, which does not exist yet.
    pub to: PathBuf,
    /// The entrypoint.
    pub script: NewFile,
    /// The manifest, to be written last: it makes the folder a tool.
    pub manifest: NewFile,
    /// Whether people may start the script by its name.
    pub executable: bool,
    /// What to look at, in words.
    pub notes: Vec<String>,
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Where.
    pub path: PathBuf,
    /// Its whole content.
    pub content: String,
}

/// Why a script cannot become a tool folder.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// Nothing, or more than one thing, has this id.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// It is a tool already.
    #[error("tool `{id}` is no legacy script: it lies at `{}`", .file.display())]
    NotLegacy {
        /// The tool.
        id: ItemId,
        /// Its file.
        file: PathBuf,
    },
    /// It belongs to the user or is built in.
    #[error("script `{id}` is not the project's but comes from the {layer} layer")]
    NotOfTheProject {
        /// The script.
        id: ItemId,
        /// Where it comes from.
        layer: Layer,
    },
    /// It is described by a document, or is something else than a script.
    #[error("`{}` is not a script", .0.display())]
    NotAScript(PathBuf),
    /// Its stamp does not hold.
    #[error("`{}` is not what was stamped", .0.display())]
    Tampered(PathBuf),
    /// Another tool has the same id.
    #[error("tool `{id}` exists already at `{}`", .file.display())]
    Clash {
        /// The id.
        id: ItemId,
        /// The file of the other tool.
        file: PathBuf,
    },
    /// Something lies where the folder would be.
    #[error("`{}` exists already", .0.display())]
    Occupied(PathBuf),
    /// It needs, or is needed by, a module beside it, which a folder of its own would part it from.
    #[error("`{}` imports `{module}`, which lies beside it", .file.display())]
    Imports {
        /// The file with the import.
        file: PathBuf,
        /// The module.
        module: String,
    },
    /// The script cannot be read.
    #[error("{}: {}", .0.file.display(), .0.message)]
    Unreadable(Box<Finding>),
    /// A `tool.yaml` cannot say everything that the script says about itself.
    #[error("a `tool.yaml` cannot say the {field} of `{}` in the same way", .file.display())]
    Different {
        /// What would differ.
        field: &'static str,
        /// The script.
        file: PathBuf,
    },
}

impl MigrationError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Lookup(err) => err.code(),
            Self::NotLegacy { .. } | Self::NotOfTheProject { .. } | Self::NotAScript(_) => "NOT_A_LEGACY_SCRIPT",
            Self::Tampered(_) => "HASH_MISMATCH",
            Self::Clash { .. } | Self::Occupied(_) => "ITEM_EXISTS",
            Self::Imports { .. } | Self::Different { .. } => "NOT_MIGRATABLE",
            Self::Unreadable(_) => "UNREADABLE_FILE",
        }
    }

    /// The way out.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Lookup(err) => err.hint(),
            Self::NotLegacy { .. } => Some("only scripts below `.ai/scripts/` are migrated".to_owned()),
            Self::NotOfTheProject { .. } => {
                Some("copy it into the project first, with `<load … destination=\"project\"/>`".to_owned())
            }
            Self::NotAScript(_) => Some("move it below `.ai/tools/` as it is".to_owned()),
            Self::Tampered(_) => Some("look at what changed since it was signed, then sign it again".to_owned()),
            Self::Clash { file, .. } => Some(format!("remove the script if `{}` replaces it", file.display())),
            Self::Occupied(path) => Some(format!("move `{}` away, or remove it", path.display())),
            Self::Imports { module, .. } => Some(format!(
                "move `{}` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand",
                shown(module)
            )),
            Self::Unreadable(finding) => finding.suggestion.clone(),
            Self::Different { .. } => {
                Some("write the tool folder by hand; `piton tool show` says what it has".to_owned())
            }
        }
    }
}

/// Plans how the legacy script `wanted` (its id, `category/id` or file) becomes a tool folder.
pub fn plan(store: &ItemStore, wanted: &str) -> Result<Migration, MigrationError> {
    let root = store.roots().project.clone().unwrap_or_default();
    let item = find(store, wanted)?;
    let from = store.roots().display(&item.file);
    let Some(tool) = item.as_tool().filter(|tool| is_script(tool)) else {
        return Err(MigrationError::NotAScript(from));
    };
    if matches!(item.integrity, Integrity::Mismatch { .. } | Integrity::Invalid { .. }) {
        return Err(MigrationError::Tampered(from));
    }
    let to = Path::new(".ai/tools").join(folder_of(item)).join(item.id.name());
    refuse_clash(store, item)?;
    if root.join(&to).symlink_metadata().is_ok() {
        return Err(MigrationError::Occupied(to));
    }
    let source = load(&item.file, &from)?;
    let imports = neighbours(&item.file, &source.text)?;
    if let Some((file, module)) = imports.into_iter().next() {
        return Err(MigrationError::Imports { file: store.roots().display(&file), module });
    }
    let ending = item.file.extension().and_then(|ending| ending.to_str()).unwrap_or("py");
    let script = NewFile { path: to.join(format!("main.{ending}")), content: stamp::unstamped(&source.raw()) };
    let manifest = NewFile { path: to.join("tool.yaml"), content: describe(tool, item, &script, &from)? };
    let mut notes = Vec::new();
    if source.text.contains("__file__") || source.text.contains("BASH_SOURCE") {
        notes.push("the script asks where it lies, which is another place now".to_owned());
    }
    let executable = is_executable(&item.file);
    Ok(Migration { tool_id: item.id.clone(), from, to, script, manifest, executable, notes })
}

fn find<'s>(store: &'s ItemStore, wanted: &str) -> Result<&'s Item, MigrationError> {
    let legacy = store.items().iter().filter(|item| item.is_legacy() && item.kind() == ItemKind::Tool);
    let of_file = |item: &&Item| store.roots().display(&item.file) == Path::new(wanted);
    if let Some(item) = legacy.clone().filter(|item| item.layer == Layer::Project).find(of_file) {
        return Ok(item);
    }
    let id: ItemId = match wanted.parse() {
        Ok(id) => id,
        Err(reason) => return Err(LookupError::Invalid { id: wanted.to_owned(), reason }.into()),
    };
    let found: Vec<&Item> = legacy.filter(|item| item.answers_to(&id)).collect();
    let ours: Vec<&Item> = found.iter().copied().filter(|item| item.layer == Layer::Project).collect();
    match (ours.as_slice(), found.first()) {
        ([item], _) => Ok(item),
        ([], Some(other)) => Err(MigrationError::NotOfTheProject { id: other.id.clone(), layer: other.layer }),
        ([], None) => {
            let item = store.find(ItemKind::Tool, wanted)?;
            Err(MigrationError::NotLegacy { id: item.id.clone(), file: store.roots().display(&item.file) })
        }
        (several, _) => {
            let files = several.iter().map(|item| store.roots().display(&item.file)).collect();
            Err(LookupError::Ambiguous { kind: ItemKind::Tool, id, files }.into())
        }
    }
}

fn is_script(tool: &LoadedTool) -> bool {
    tool.manifest.kind == ToolKind::Script && matches!(tool.spelling, Spelling::Embedded | Spelling::LegacyScript)
}

/// The folders of the category; where they cannot be folders, those the script lies in.
fn folder_of(item: &Item) -> &str {
    if item.category.parse::<ItemId>().is_ok() { &item.category } else { &item.folder_category }
}

fn refuse_clash(store: &ItemStore, item: &Item) -> Result<(), MigrationError> {
    let same = |other: &&Item| {
        other.layer == Layer::Project
            && other.kind() == ItemKind::Tool
            && other.file != item.file
            && other.id.as_str().eq_ignore_ascii_case(item.id.as_str())
    };
    match store.items().iter().find(same) {
        Some(other) => Err(MigrationError::Clash { id: item.id.clone(), file: store.roots().display(&other.file) }),
        None => Ok(()),
    }
}

fn load(file: &Path, shown_as: &Path) -> Result<SourceFile, MigrationError> {
    let mut findings = Findings::new(shown_as, Strength::Lenient);
    let source = SourceFile::load(file, MAX_TEXT, &mut findings);
    match (source, findings.into_vec().pop()) {
        (Some(source), _) => Ok(source),
        (None, Some(finding)) => Err(MigrationError::Unreadable(Box::new(finding))),
        (None, None) => Err(MigrationError::NotAScript(shown_as.to_path_buf())),
    }
}

/// The imports between a Python script and what lies beside it, in either direction, with the file that has them.
fn neighbours(script: &Path, text: &str) -> Result<Vec<(PathBuf, String)>, MigrationError> {
    let is_python = |path: &Path| path.extension().is_some_and(|ending| ending == "py");
    let (Some(folder), true) = (script.parent(), is_python(script)) else { return Ok(Vec::new()) };
    let own = script.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()).collect();
    entries.sort();
    let mut found = Vec::new();
    let wanted = imported(text);
    for entry in entries.iter().filter(|entry| *entry != script) {
        let Some(name) = entry.file_stem().and_then(|stem| stem.to_str()) else { continue };
        if (is_python(entry) || entry.is_dir()) && wanted.contains(&name) {
            found.push((script.to_path_buf(), name.to_owned()));
        }
        if is_python(entry) && imported(&load(entry, entry)?.text).contains(&own) {
            found.push((entry.clone(), own.to_owned()));
        }
    }
    Ok(found)
}

/// The first parts of the names that a Python file imports; read by lines, so that it may be one too many.
fn imported(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for line in text.lines().map(str::trim) {
        let listed = match line.strip_prefix("from ") {
            Some(rest) => rest.split_once(" import").map_or("", |(module, _)| module),
            None => line.strip_prefix("import ").unwrap_or_default(),
        };
        for name in listed.split(',') {
            let name = name.trim().trim_start_matches('.');
            names.extend(name.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().filter(|it| !it.is_empty()));
        }
    }
    names
}

/// Writes the manifest, and makes sure that it says the same.
fn describe(tool: &LoadedTool, item: &Item, script: &NewFile, from: &Path) -> Result<String, MigrationError> {
    let file_name = script.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut wanted = tool.manifest.clone();
    wanted.legacy = false;
    wanted.category.clone_from(&item.category);
    wanted.config.insert("entrypoint".to_owned(), json!(file_name));
    // `main` says what its parameters are; said twice, they would part one day.
    let mut silent = wanted.clone();
    silent.parameters = Vec::new();
    silent.input_schema = json!({"type": "object", "properties": {}});
    let mut differs = "fields";
    for manifest in [&silent, &wanted] {
        let text = with_kept(manifest, tool);
        match read_back(&text, script).as_ref().map(|read| difference(read, &wanted)) {
            Some(None) => return Ok(text),
            Some(Some(field)) => differs = field,
            None => {}
        }
    }
    Err(MigrationError::Different { field: differs, file: from.to_path_buf() })
}

fn with_kept(manifest: &ToolManifest, tool: &LoadedTool) -> String {
    let kept: Map<String, Value> =
        KEPT.iter().filter_map(|key| Some(((*key).to_owned(), tool.node.find(key)?.to_json()))).collect();
    let text = manifest.to_yaml();
    // JSON is what the writer falls back to for text that YAML would fold.
    if kept.is_empty() || text.starts_with('{') {
        text
    } else {
        format!("{text}{}", yaml::to_yaml(&Value::Object(kept)))
    }
}

fn read_back(text: &str, script: &NewFile) -> Option<ToolManifest> {
    let folder = script.path.parent()?;
    let source = SourceFile { path: folder.join("tool.yaml"), text: text.to_owned(), marked: false };
    let around = Surroundings { folder: Some(folder), root: Root::Tools, in_lib: false, extractors: &[] };
    let mut ignored = Findings::new(&source.path, Strength::Lenient);
    let Reading::Tool(mut tool) = tool::read(&source, &around, &mut ignored) else { return None };
    let is_python = script.path.extension().is_some_and(|ending| ending == "py");
    if is_python && tool::entrypoint::speaks_for(&tool) {
        let text = script.content.trim_start_matches('\u{feff}').to_owned();
        let script = SourceFile { path: script.path.clone(), text, marked: false };
        tool::entrypoint::read_main(&mut tool, &script);
    }
    Some(tool.manifest)
}

/// The first field in which two manifests differ.
fn difference(one: &ToolManifest, other: &ToolManifest) -> Option<&'static str> {
    let fields = [
        ("id", one.tool_id == other.tool_id),
        ("version", one.version == other.version),
        ("parameters", one.parameters == other.parameters && one.input_schema == other.input_schema),
        ("settings", one.config == other.config),
    ];
    let named = fields.into_iter().find(|(_, same)| !same).map(|(field, _)| field);
    named.or_else(|| (one != other).then_some("fields"))
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o100 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests;
