//! From legacy scripts to tools.
//!
//! [`plan`] says what has to be written, moved and removed so that a script of `.ai/scripts/` becomes
//! `.ai/tools/<category>/<id>/` with a `tool.yaml`; [`survey`] does so for many at once. The tool is the
//! same one: what was planned is read back and compared before it is offered. The script keeps its
//! bytes but for an old stamp, which would not hold any more. What cannot be done exactly is not done, and
//! named. Nothing is written here.

mod document;
mod error;
mod leftover;
mod modules;
mod place;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use serde::Serialize;

use super::finding::{Findings, Strength};
use super::id::ItemId;
use super::signature::Integrity;
use super::source::{MAX_TEXT, SourceFile};
use super::store::{Item, ItemKind, ItemStore, Layer, LookupError};

pub use error::MigrationError;
use modules::{Modules, Needs};

/// Where legacy scripts lie.
const SCRIPTS: &str = ".ai/scripts";
/// Where tools lie.
const TOOLS: &str = ".ai/tools";

/// What makes something of `.ai/scripts/` a tool; every path is relative to the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The id, which stays.
    pub tool_id: ItemId,
    /// The script, or the folder or document that describes it.
    pub from: PathBuf,
    /// The folder or file that it becomes, which does not exist yet.
    pub to: PathBuf,
    /// What has to be done, in this order: the file that makes it a tool comes last.
    pub changes: Vec<Change>,
    /// What to look at, in words.
    pub notes: Vec<String>,
}

/// A file to be written, and what to remove in its stead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// How it comes to be.
    pub action: Action,
    /// Where it will be.
    pub path: PathBuf,
    /// Where it comes from.
    pub from: Option<PathBuf>,
    /// Its whole content.
    pub content: Vec<u8>,
}

/// How a file comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is new.
    Create,
    /// It was elsewhere, and is not there any more.
    Move,
    /// It was elsewhere, and is needed there as well.
    Copy,
}

/// Many migrations at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// What becomes a tool.
    pub migrations: Vec<Migration>,
    /// Modules that several of them share.
    pub library: Vec<Change>,
    /// Modules that are where they belong already.
    pub unchanged: Vec<PathBuf>,
    /// What is left alone.
    pub skipped: Vec<Skipped>,
}

/// Something that is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it lies.
    pub path: PathBuf,
    /// The code of the error, for a script that cannot become a tool.
    pub code: Option<&'static str>,
    /// Why.
    pub reason: String,
    /// What a person can do about it.
    pub suggestion: Option<String>,
}

/// What is to be migrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Everything below `.ai/scripts/`.
    All,
    /// Ids, `category/id`, files, folders and patterns.
    These(Vec<String>),
}

/// How closely somebody looks at a script that is migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Caution {
    /// It was asked for by its name.
    Named,
    /// It is one of many.
    Swept,
}

/// Plans how the legacy script `wanted` (its id, `category/id` or file) becomes a tool folder.
pub fn plan(store: &ItemStore, wanted: &str) -> Result<Migration, MigrationError> {
    let item = find(store, wanted)?;
    let modules = Modules::read(store);
    let (mut migration, needs) = one(store, &modules, item, Caution::Named)?;
    let (library, _) = library(store, &modules, &needs.library, std::slice::from_ref(&migration))?;
    migration.changes.splice(..0, library);
    Ok(migration)
}

/// Plans how many become tools. What was asked for by its name and cannot become one is an error, anything else is
/// skipped.
pub fn survey(store: &ItemStore, wanted: &Wanted) -> Result<Survey, MigrationError> {
    let modules = Modules::read(store);
    let (chosen, folders) = choose(store, wanted)?;
    let mut survey = Survey::default();
    let mut shared = BTreeSet::new();
    let mut refused = Vec::new();
    // What others import comes last: by then it may have gone along with them.
    let (imported, first): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|(file, _)| modules.is_imported(file));
    for (file, (item, caution)) in first.into_iter().chain(imported) {
        let shown = store.roots().display(&file);
        let is_gone = |change: &Change| change.from.as_ref() == Some(&shown);
        if survey.migrations.iter().flat_map(|migration| &migration.changes).any(is_gone) {
            continue;
        }
        let planned = one(store, &modules, item, caution).and_then(|planned| apart(planned, &survey.migrations));
        match planned {
            Ok((migration, needs)) => {
                shared.extend(needs.library);
                survey.migrations.push(migration);
            }
            Err(err) if caution == Caution::Named => return Err(err),
            Err(err) => refused.push((shown, err)),
        }
    }
    survey.migrations.sort_by(|one, other| one.from.cmp(&other.from));
    (survey.library, survey.unchanged) = library(store, &modules, &shared, &survey.migrations)?;
    // What another one starts with went along with it.
    let gone: BTreeSet<&PathBuf> = survey
        .migrations
        .iter()
        .flat_map(|migration| &migration.changes)
        .filter_map(|change| change.from.as_ref())
        .collect();
    refused.retain(|(path, _)| !gone.contains(path));
    survey.skipped = refused
        .into_iter()
        .map(|(path, err)| Skipped { path, code: Some(err.code()), suggestion: err.hint(), reason: err.to_string() })
        .collect();
    leftover::report(store, &folders, &mut survey);
    survey.skipped.sort_by(|one, other| one.path.cmp(&other.path));
    leftover::references(store, &mut survey.migrations);
    Ok(survey)
}

/// Plans one item, whatever it is written as.
fn one(
    store: &ItemStore,
    modules: &Modules<'_>,
    item: &Item,
    caution: Caution,
) -> Result<(Migration, Needs), MigrationError> {
    place::refuse_link(store, &item.file)?;
    if matches!(item.integrity, Integrity::Mismatch { .. } | Integrity::Invalid { .. }) {
        return Err(MigrationError::Tampered(store.roots().display(&item.file)));
    }
    place::refuse_claimed(store, item)?;
    place::refuse_clash(store, item)?;
    match item.as_tool() {
        Some(tool) if !script::is_script(tool) => document::moved(store, modules, item, tool, caution),
        _ => script::folder(store, modules, item, caution),
    }
}

/// A tool folder must not lie in another one.
fn apart(planned: (Migration, Needs), others: &[Migration]) -> Result<(Migration, Needs), MigrationError> {
    let to = &planned.0.to;
    match others.iter().find(|other| to.starts_with(&other.to) || other.to.starts_with(to)) {
        Some(other) => Err(MigrationError::Occupied(other.to.clone())),
        None => Ok(planned),
    }
}

/// The modules of the library that go along, and those that are there already; what others still need is copied.
fn library(
    store: &ItemStore,
    modules: &Modules<'_>,
    names: &BTreeSet<String>,
    migrations: &[Migration],
) -> Result<(Vec<Change>, Vec<PathBuf>), MigrationError> {
    let root = script::root(store);
    let moved = migrations.iter().flat_map(|migration| &migration.changes).filter_map(|change| change.from.as_ref());
    let gone: BTreeSet<PathBuf> = moved.map(|from| root.join(from)).collect();
    let kept = modules.kept_in_library(&gone, names);
    let (mut changes, mut unchanged) = (Vec::new(), Vec::new());
    for name in names {
        for file in modules.files_of_library(name) {
            let path = script::library_place(store, &file);
            let is_there = root.join(&path).symlink_metadata().is_ok();
            let path_there = path.clone();
            let change = Change::moved(store, &file, path)?;
            match kept.contains(name) {
                true if is_there => unchanged.push(path_there),
                true => changes.push(Change { action: Action::Copy, ..change }),
                false => changes.push(change),
            }
        }
    }
    Ok((changes, unchanged))
}

/// What was chosen, by file, and how.
type Chosen<'s> = BTreeMap<PathBuf, (&'s Item, Caution)>;

/// The items that are wanted, and the folders of which everything is.
fn choose<'s>(store: &'s ItemStore, wanted: &Wanted) -> Result<(Chosen<'s>, Vec<PathBuf>), MigrationError> {
    let legacy: Vec<&Item> = legacy(store).filter(|item| item.layer == Layer::Project).collect();
    let mut chosen = Chosen::new();
    let mut folders = Vec::new();
    let mut add = |item: &'s Item, caution: Caution| {
        let entry = chosen.entry(item.file.clone()).or_insert((item, caution));
        entry.1 = entry.1.min(caution);
    };
    let names = match wanted {
        Wanted::All => {
            folders.push(PathBuf::from(SCRIPTS));
            for item in legacy {
                add(item, Caution::Swept);
            }
            return Ok((chosen, folders));
        }
        Wanted::These(names) => names,
    };
    for name in names {
        let path = Path::new(name.trim_start_matches("./").trim_end_matches('/'));
        let below = |item: &&&Item| store.roots().display(&item.file).starts_with(path);
        if path.starts_with(SCRIPTS) && script::root(store).join(path).is_dir() && !is_item(store, path) {
            folders.push(path.to_path_buf());
            legacy.iter().filter(below).for_each(|item| add(item, Caution::Swept));
        } else if name.contains(['*', '?', '[', '{']) {
            let glob = pattern(name)?;
            let mut hits = legacy.iter().filter(|item| matches(&glob, store, item)).peekable();
            if hits.peek().is_none() {
                return Err(MigrationError::NothingMatches(name.clone()));
            }
            hits.for_each(|item| add(item, Caution::Swept));
        } else {
            add(find(store, name)?, Caution::Named);
        }
    }
    Ok((chosen, folders))
}

/// Whether a folder is a tool itself.
fn is_item(store: &ItemStore, path: &Path) -> bool {
    let folder = script::root(store).join(path);
    store.items().iter().any(|item| item.as_tool().is_some_and(|tool| tool.folder.as_ref() == Some(&folder)))
}

fn pattern(text: &str) -> Result<GlobMatcher, MigrationError> {
    // `ops/*` means what is below `ops/`, in folders of it as well.
    let glob = GlobBuilder::new(text).literal_separator(false).build();
    let wrong =
        |err: globset::Error| MigrationError::Pattern { pattern: text.to_owned(), reason: err.kind().to_string() };
    Ok(glob.map_err(wrong)?.compile_matcher())
}

fn matches(glob: &GlobMatcher, store: &ItemStore, item: &Item) -> bool {
    glob.is_match(item.id.as_str())
        || !item.category.is_empty() && glob.is_match(format!("{}/{}", item.category, item.id))
        || glob.is_match(store.roots().display(&item.file))
}

fn legacy(store: &ItemStore) -> impl Iterator<Item = &Item> {
    store.items().iter().filter(|item| item.is_legacy() && item.kind() == ItemKind::Tool)
}

fn find<'s>(store: &'s ItemStore, wanted: &str) -> Result<&'s Item, MigrationError> {
    let path = Path::new(wanted.trim_start_matches("./").trim_end_matches('/'));
    let of_file = |item: &&Item| {
        let folder = item.as_tool().and_then(|tool| tool.folder.as_deref()).map(|folder| store.roots().display(folder));
        store.roots().display(&item.file) == path || folder.as_deref() == Some(path)
    };
    if let Some(item) = legacy(store).filter(|item| item.layer == Layer::Project).find(of_file) {
        return Ok(item);
    }
    let id: ItemId = match wanted.parse() {
        Ok(id) => id,
        Err(reason) => return Err(LookupError::Invalid { id: wanted.to_owned(), reason }.into()),
    };
    let found: Vec<&Item> = legacy(store).filter(|item| item.answers_to(&id)).collect();
    let mut ours: Vec<&Item> = found.iter().copied().filter(|item| item.layer == Layer::Project).collect();
    // `x.yaml` that starts with `x.py` is one tool, not two.
    if ours.len() > 1 {
        ours.retain(|item| place::claimant(store, item).is_none());
    }
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

fn load(file: &Path, shown_as: &Path) -> Result<SourceFile, MigrationError> {
    let mut findings = Findings::new(shown_as, Strength::Lenient);
    let source = SourceFile::load(file, MAX_TEXT, &mut findings);
    match (source, findings.into_vec().pop()) {
        (Some(source), _) => Ok(source),
        (None, Some(finding)) => Err(MigrationError::Unreadable(Box::new(finding))),
        (None, None) => Err(MigrationError::NotAScript(shown_as.to_path_buf())),
    }
}

#[cfg(test)]
mod tests;
