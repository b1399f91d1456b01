//! All items that can be named: those of the project, of the user and built in.
//!
//! [`ItemStore::open`] reads all layers once, in parallel; nothing is executed. Items are found by
//! id, never by file name: project beats user beats built-in, and within a layer `.ai/tools/` beats
//! the legacy `.ai/scripts/`. Two items with one id at the same rank are an error, and so is an
//! item that would replace a broken one of a higher layer.

mod adoption;
mod builtin;
mod clash;
pub(super) mod load;
pub(super) mod parse;
pub(super) mod walk;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::directive::Directive;
use super::extractor::Extractor;
use super::finding::{Finding, Strength};
use super::id::{InvalidItemId, ItemId};
use super::knowledge::Knowledge;
use super::position::Position;
use super::signature::{Integrity, UNSTAMPED_FOLDERS};
use super::source::files_below;
use super::tool::LoadedTool;
use super::validate;
use super::wording::{nearest, shown};
use crate::problem::{Code, Explain, Hint, HintCall, hint};

pub(super) use builtin::items as builtin_items;
pub(crate) use builtin::text as builtin_text;
pub(crate) use load::PRIMITIVES;
pub use walk::ItemKind;

/// The origin of an item; the first layer that has an id wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    Project,
    User,
    Builtin,
}

/// The folders that contain `.ai/`.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    pub project: Option<PathBuf>,
    pub user: Option<PathBuf>,
}

impl Roots {
    /// A path as shown to users: relative to the project if it is inside.
    pub fn display(&self, path: &Path) -> PathBuf {
        let inside = self
            .project
            .as_ref()
            .and_then(|root| path.strip_prefix(root).ok());
        inside
            .filter(|rest| !rest.as_os_str().is_empty())
            .unwrap_or(path)
            .to_path_buf()
    }
}

#[derive(Clone, Debug)]
pub struct Item {
    pub layer: Layer,
    /// Without category.
    pub id: ItemId,
    /// The stated category, or else its folder.
    pub category: String,
    /// The folder, relative to the folder of its kind.
    pub folder_category: String,
    /// Built-in items have a name in angle brackets.
    pub file: PathBuf,
    pub integrity: Integrity,
    pub content: ItemContent,
    /// The errors in its files: it cannot run with them.
    pub errors: Vec<Finding>,
    /// Whether it ranks below others of its layer, like legacy scripts.
    pub(crate) legacy_root: bool,
    /// Whether it has its own id; an item without can be validated, but not found.
    named: bool,
}

#[derive(Clone, Debug)]
pub enum ItemContent {
    Tool(Box<LoadedTool>),
    Directive(Box<Directive>),
    Knowledge(Box<Knowledge>),
}

impl Item {
    pub fn kind(&self) -> ItemKind {
        match self.content {
            ItemContent::Tool(_) => ItemKind::Tool,
            ItemContent::Directive(_) => ItemKind::Directive,
            ItemContent::Knowledge(_) => ItemKind::Knowledge,
        }
    }

    pub fn as_tool(&self) -> Option<&LoadedTool> {
        match &self.content {
            ItemContent::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    pub fn as_directive(&self) -> Option<&Directive> {
        match &self.content {
            ItemContent::Directive(directive) => Some(directive),
            _ => None,
        }
    }

    /// Its own files: of a tool folder, every file that its stamp covers.
    pub fn files(&self) -> Vec<PathBuf> {
        let Some(tool) = self.as_tool() else {
            return vec![self.file.clone()];
        };
        match &tool.folder {
            None => std::iter::once(self.file.clone())
                .chain(validate::entrypoint(tool))
                .collect(),
            Some(folder) => {
                let is_overlooked = |path: &Path| {
                    let inside = path.strip_prefix(folder).unwrap_or(path);
                    inside.components().any(|part| {
                        UNSTAMPED_FOLDERS
                            .iter()
                            .any(|name| part.as_os_str() == *name)
                    })
                };
                files_below(folder)
                    .into_iter()
                    .map(|(path, _)| path)
                    .filter(|path| !is_overlooked(path))
                    .collect()
            }
        }
    }

    /// The name of its id field.
    fn id_field(&self) -> &'static str {
        match self.kind() {
            ItemKind::Tool => "tool_id",
            ItemKind::Directive => "name",
            ItemKind::Knowledge => "id",
        }
    }

    /// The position of a field, where known.
    pub fn place_of(&self, field: &str) -> Position {
        let node = match &self.content {
            ItemContent::Tool(tool) => Some(&tool.node),
            ItemContent::Knowledge(entry) => Some(&entry.fields),
            ItemContent::Directive(directive) => return directive.place,
        };
        node.and_then(|node| node.find(field))
            .map_or(Position::START, |value| value.place)
    }

    /// Whether it is a tool whose file states no id.
    fn is_named_by_file(&self) -> bool {
        self.kind() == ItemKind::Tool && self.place_of("tool_id") == Position::START
    }

    /// Whether it is in `.ai/scripts/`.
    pub fn is_legacy(&self) -> bool {
        self.legacy_root && self.named
    }

    /// Whether it has its own id, by which it can be found.
    pub(super) fn is_named(&self) -> bool {
        self.named
    }

    /// Whether an id, with or without category, refers to this item.
    pub fn answers_to(&self, wanted: &ItemId) -> bool {
        self.id == *wanted
            || wanted.name() == self.id.as_str()
                && self
                    .categories()
                    .any(|category| wanted.category() == Some(category))
    }

    /// The stated category, and the folder if it differs.
    pub fn categories(&self) -> impl Iterator<Item = &str> {
        let folder = Some(&*self.folder_category).filter(|folder| *folder != self.category);
        std::iter::once(&*self.category)
            .chain(folder)
            .filter(|category| !category.is_empty())
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum LookupError {
    #[error("{}", not_an_id(.id, .reason))]
    Invalid { id: String, reason: InvalidItemId },
    #[error("{kind} `{id}` does not exist")]
    NotFound {
        kind: ItemKind,
        id: ItemId,
        /// The closest existing id.
        similar: Option<ItemId>,
        /// Another kind of item with this id.
        instead: Option<ItemKind>,
    },
    #[error("{kind} `{id}` cannot be loaded: {message}", id = .id, message = .finding.message)]
    Broken {
        kind: ItemKind,
        id: ItemId,
        /// The first problem.
        finding: Box<Finding>,
    },
    #[error("{kind} `{id}` is defined {} times: {}", .files.len(), list(.files))]
    Ambiguous {
        kind: ItemKind,
        id: ItemId,
        files: Vec<PathBuf>,
    },
}

impl Explain for LookupError {
    fn code(&self) -> Code {
        match self {
            Self::Invalid { .. } => Code::InvalidId,
            Self::NotFound { .. } => Code::NotFound,
            Self::Broken { .. } => Code::InvalidItem,
            Self::Ambiguous { .. } => Code::DuplicateId,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Invalid { .. } => {
                Some("use letters, digits, `_` and `-`; `/` after a category".into())
            }
            Self::NotFound {
                id,
                instead: Some(kind),
                ..
            } => Some(format!("there is a {kind} `{id}`").into()),
            Self::NotFound {
                similar: Some(id), ..
            } => Some(format!("did you mean `{id}`?").into()),
            Self::NotFound {
                kind,
                similar: None,
                ..
            } => Some(
                format!(
                    "those of a project live in `.ai/{}/`, those of a user in `~/.ai/{}/`",
                    kind.folder(),
                    kind.folder()
                )
                .into(),
            ),
            Self::Broken { finding, .. } => Some(match &finding.suggestion {
                Some(suggestion) => suggestion.clone(),
                None => hint!["see everything that is wrong with ", HintCall::Validate],
            }),
            Self::Ambiguous { .. } => Some("give each item of a layer an id of its own".into()),
        }
    }
}

impl LookupError {
    /// What is wrong in the file that should hold the item.
    pub fn finding(&self) -> Option<&Finding> {
        match self {
            Self::Broken { finding, .. } => Some(finding),
            _ => None,
        }
    }
}

/// The id in a path: `.ai/directives/core/init.md` is `core/init`.
fn as_reference(kind: ItemKind, written: &str) -> Option<&str> {
    let folder = kind.folder();
    let inside = written.strip_prefix("./").unwrap_or(written);
    let inside = inside.strip_prefix("~/").unwrap_or(inside);
    let in_folder = inside
        .strip_prefix(".ai/")
        .and_then(|inside| inside.strip_prefix(folder))
        .and_then(|inside| inside.strip_prefix('/'));
    let path = in_folder.unwrap_or(written);
    let stem = path
        .strip_suffix("/tool.yaml")
        .or_else(|| match path.rsplit_once('.')? {
            (stem, "md") if kind != ItemKind::Tool => Some(stem),
            (stem, "yaml" | "yml" | "json" | "py" | "sh" | "js") if kind == ItemKind::Tool => {
                Some(stem)
            }
            _ => None,
        });
    match (in_folder, stem) {
        (_, Some(stem)) => Some(stem),
        (Some(path), None) => Some(path),
        (None, None) => None,
    }
}

/// The message for an invalid id.
pub(crate) fn not_an_id(id: &str, reason: &InvalidItemId) -> String {
    match reason {
        // This reason already contains the id.
        InvalidItemId::Part(_) => reason.to_string(),
        _ => format!("`{}` is not an id: {reason}", shown(id)),
    }
}

fn list(files: &[PathBuf]) -> String {
    files
        .iter()
        .map(|file| file.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

#[derive(Debug)]
pub struct BrokenItem {
    layer: Layer,
    pub kind: ItemKind,
    /// The id that its name suggests.
    name: String,
    /// The path that selects it: its folder for a folder tool.
    pub file: PathBuf,
    /// The first problem.
    pub finding: Finding,
}

#[derive(Debug)]
pub struct ItemStore {
    roots: Roots,
    items: Vec<Item>,
    by_name: HashMap<(ItemKind, String), Vec<usize>>,
    /// Files without a usable item, by the id that their name suggests.
    broken: Vec<BrokenItem>,
    findings: Vec<Finding>,
    /// Duplicate ids; known once everything is read.
    clashes: Vec<Finding>,
    extractors: Vec<Extractor>,
}

impl ItemStore {
    /// Reads the items of all layers; problems of project files go to [`findings`](Self::findings).
    pub fn open(roots: Roots, strength: Strength) -> Self {
        let mut store = Self {
            roots,
            items: Vec::new(),
            by_name: HashMap::new(),
            broken: Vec::new(),
            findings: Vec::new(),
            clashes: Vec::new(),
            extractors: Vec::new(),
        };
        load::layer(&mut store, Layer::Project, strength);
        load::layer(&mut store, Layer::User, strength);
        store.items.extend(builtin::items());
        store.index(strength);
        store
    }

    /// Reads a file or folder outside of the item folders, so that it can be validated.
    ///
    /// Returns whether there was an item to read.
    pub fn adopt(&mut self, path: &Path, strength: Strength) -> bool {
        let adopted = adoption::adopt(self, path, strength, 0);
        self.index(strength);
        adopted
    }

    /// Reads an item as if its file contained `text`; its stamp is not checked. Does not change the
    /// store.
    pub fn reread(
        &self,
        item: &Item,
        text: &str,
        strength: Strength,
    ) -> (Option<Item>, Vec<Finding>) {
        load::reread(self, item, text, strength)
    }

    /// Reads a text as if it were in this file of the project. Does not change the store.
    pub fn preview(
        &self,
        kind: ItemKind,
        path: &Path,
        text: &str,
        strength: Strength,
    ) -> (Option<Item>, Vec<Finding>) {
        load::preview(self, kind, path, text, strength)
    }

    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    pub fn tool_folder(&self, path: &Path) -> Option<&Path> {
        let of_items = self
            .items
            .iter()
            .filter_map(|item| item.as_tool()?.folder.as_deref());
        let of_broken = self.broken.iter().map(|broken| broken.file.as_path());
        of_items
            .chain(of_broken)
            .find(|folder| path != *folder && path.starts_with(folder))
    }

    /// Whether a file is an item, or has a finding that says why not.
    pub fn knows(&self, file: &Path) -> bool {
        let shown = self.roots.display(file);
        self.items.iter().any(|item| item.file == file)
            || self.findings().any(|finding| finding.file == shown)
    }

    /// In a stable order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Problems of the files: syntax, structure, duplicates.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().chain(&self.clashes)
    }

    /// The project's files without a usable item.
    pub fn broken(&self) -> impl Iterator<Item = (ItemKind, &Path)> {
        self.broken_in(Layer::Project)
            .map(|broken| (broken.kind, broken.file.as_path()))
    }

    /// The files of a layer without a usable item.
    pub fn broken_in(&self, layer: Layer) -> impl Iterator<Item = &BrokenItem> {
        self.broken
            .iter()
            .filter(move |broken| broken.layer == layer)
    }

    /// Finds an item by `id` or `category/id`.
    pub fn find(&self, kind: ItemKind, id: &str) -> Result<&Item, LookupError> {
        self.find_in(kind, id, &[Layer::Project, Layer::User, Layer::Builtin])
    }

    /// Finds an item by `id` or `category/id` in some of the layers.
    pub fn find_in(
        &self,
        kind: ItemKind,
        id: &str,
        layers: &[Layer],
    ) -> Result<&Item, LookupError> {
        let reference = as_reference(kind, id);
        let written = id.parse().or_else(|err| match reference {
            Some(inside) => inside.parse(),
            None => Err(err),
        });
        let wanted: ItemId = written.map_err(|reason| LookupError::Invalid {
            id: id.to_owned(),
            reason,
        })?;
        let mut candidates = self.candidates(kind, &wanted);
        if candidates.is_empty() {
            // Other programs also write paths, and `rye.file-system.write`.
            let others = [reference.map(str::to_owned), Some(id.replace('.', "/"))];
            let others = others.into_iter().flatten();
            candidates = others
                .filter_map(|other| Some(self.candidates(kind, &other.parse().ok()?)))
                .find(|found| !found.is_empty())
                .unwrap_or_default();
        }
        candidates.retain(|item| layers.contains(&item.layer));
        candidates.sort_by_key(|item| (item.layer, item.legacy_root));
        let Some(first) = candidates.first() else {
            return Err(self.not_found(kind, wanted));
        };
        // A broken file of a higher layer must not be silently replaced by this item.
        if let Some(broken) = self
            .find_broken(kind, &wanted)
            .filter(|broken| broken.layer < first.layer && layers.contains(&broken.layer))
        {
            return Err(LookupError::Broken {
                kind,
                id: wanted,
                finding: Box::new(broken.finding.clone()),
            });
        }
        let rank = (first.layer, first.legacy_root);
        let same: Vec<_> = candidates
            .iter()
            .filter(|item| (item.layer, item.legacy_root) == rank)
            .collect();
        if same.len() > 1 {
            let files = same
                .iter()
                .map(|item| self.roots.display(&item.file))
                .collect();
            return Err(LookupError::Ambiguous {
                kind,
                id: wanted,
                files,
            });
        }
        Ok(first)
    }

    fn candidates(&self, kind: ItemKind, wanted: &ItemId) -> Vec<&Item> {
        let named = |name: &str| {
            self.by_name
                .get(&(kind, name.to_owned()))
                .into_iter()
                .flatten()
        };
        let mut found: Vec<usize> = named(wanted.as_str())
            .chain(named(wanted.name()))
            .copied()
            .collect();
        found.sort_unstable();
        found.dedup();
        found
            .into_iter()
            .filter_map(|at| self.items.get(at))
            .filter(|item| item.answers_to(wanted))
            .collect()
    }

    /// The broken file for an id, by its name.
    fn find_broken(&self, kind: ItemKind, id: &ItemId) -> Option<&BrokenItem> {
        self.broken
            .iter()
            .find(|broken| broken.kind == kind && broken.name == id.name())
    }

    fn not_found(&self, kind: ItemKind, id: ItemId) -> LookupError {
        if let Some(broken) = self.find_broken(kind, &id) {
            return LookupError::Broken {
                kind,
                id,
                finding: Box::new(broken.finding.clone()),
            };
        }
        let known = self
            .items
            .iter()
            .filter(|item| item.kind() == kind)
            .map(|item| item.id.as_str());
        let similar = nearest(id.name(), known).and_then(|name| name.parse().ok());
        let other = |item: &&Item| item.kind() != kind && item.answers_to(&id);
        let instead = self.items.iter().find(other).map(Item::kind);
        LookupError::NotFound {
            kind,
            id,
            similar,
            instead,
        }
    }

    fn index(&mut self, strength: Strength) {
        self.by_name.clear();
        for (at, item) in self.items.iter().enumerate().filter(|(_, item)| item.named) {
            self.by_name
                .entry((item.kind(), item.id.as_str().to_owned()))
                .or_default()
                .push(at);
        }
        self.clashes = clash::find(
            self.items.iter().filter(|item| item.named),
            &self.roots,
            strength,
        );
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Builtin => "builtin",
        })
    }
}
