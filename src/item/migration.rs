//! Migrates legacy scripts to tools.
//!
//! [`plan`] lists the files to write, move and remove so that a script of `.ai/scripts/` becomes
//! `.ai/tools/<category>/<id>/` with a `tool.yaml`; [`survey`] does so for many at once. The tool
//! must stay the same: the plan is read back and compared. The script keeps its bytes except for an
//! old stamp, which would no longer be valid. A migration that would not be exact is refused with a
//! reason. Nothing is written here.

mod choice;
mod destination;
mod document;
mod error;
mod leftover;
mod modules;
mod names;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::finding::{Findings, Strength};
use super::id::ItemId;
use super::signature::Integrity;
use super::source::{MAX_TEXT, SourceFile};
use super::store::{Item, ItemStore};

use crate::problem::{Code, Explain, Hint};
use choice::{Chosen, choose, find};
pub use error::MigrationError;
use modules::{Modules, Needs};
use names::Namers;

const SCRIPTS: &str = ".ai/scripts";
const TOOLS: &str = ".ai/tools";

/// The migration of one legacy item; every path is relative to the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The id does not change.
    pub tool_id: ItemId,
    /// The script, or the folder or document that describes it.
    pub from: PathBuf,
    /// The new folder or file, which does not exist yet.
    pub to: PathBuf,
    /// In this order: the file that makes it a tool comes last.
    pub changes: Vec<MigrationChange>,
    /// What the user should check.
    pub notes: Vec<String>,
}

/// A file to write, and the one it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationChange {
    pub action: MigrationAction,
    pub path: PathBuf,
    pub from: Option<PathBuf>,
    pub content: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationAction {
    Create,
    /// From another path, where it is removed.
    Move,
    /// From another path, where it is still needed.
    Copy,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationSurvey {
    pub migrations: Vec<Migration>,
    /// Modules that several of them share.
    pub library: Vec<MigrationChange>,
    /// Modules that are already in place.
    pub unchanged: Vec<PathBuf>,
    pub skipped: Vec<Skipped>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    /// The code of the error, for a script that cannot become a tool.
    pub code: Option<Code>,
    /// Why.
    pub reason: String,
    /// What a person can do about it.
    pub suggestion: Option<Hint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationSelection {
    All,
    /// Ids, `category/id`, files, folders and patterns.
    These(Vec<String>),
}

/// How the user selected a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Caution {
    /// By its name.
    Named,
    /// As one of many.
    Swept,
}

/// Returns why a file could not be restored, as it is or with this many bytes; `None` if it could.
pub type Outside<'o> = dyn Fn(&Path, usize) -> Option<MigrationError> + 'o;

/// Plans how the legacy script `wanted` (its id, `category/id` or file) becomes a tool folder.
pub fn plan(store: &ItemStore, wanted: &str) -> Result<Migration, MigrationError> {
    let item = find(store, wanted)?;
    let (modules, namers) = (Modules::read(store), Namers::read(store));
    let (mut migration, needs) = one(store, &modules, item, Caution::Named)?;
    let gone = gone(std::slice::from_ref(&migration));
    let (library, _) = library(store, &modules, &namers, &needs.library, &gone)?;
    leftover::references(store, &namers, &gone, std::slice::from_mut(&mut migration));
    migration.changes.splice(..0, library);
    Ok(migration)
}

/// Plans many migrations. An item requested by name that cannot be migrated is an error; others are
/// skipped.
pub fn survey(
    store: &ItemStore,
    wanted: &MigrationSelection,
    outside: &Outside<'_>,
) -> Result<MigrationSurvey, MigrationError> {
    let (modules, namers) = (Modules::read(store), Namers::read(store));
    let (chosen, folders) = choose(store, wanted)?;
    let mut barred = BTreeMap::new();
    // A named item stays, and others that it refers to by position have to stay as well: repeat
    // until stable.
    let mut attempt = loop {
        let attempt = attempt(store, &modules, &chosen, &barred, outside)?;
        let named = attempt.named(&namers);
        if named.is_empty() {
            break attempt;
        }
        barred.extend(named);
    };
    attempt.refused.extend(barred);
    attempt
        .planned
        .sort_by(|one, other| one.migration.from.cmp(&other.migration.from));
    let migrations: Vec<Migration> = attempt
        .planned
        .into_iter()
        .map(|planned| planned.migration)
        .collect();
    let gone = gone(&migrations);
    let (library, unchanged) = library(store, &modules, &namers, &attempt.shared, &gone)?;
    // A file that another item starts with was migrated together with it.
    attempt.refused.retain(|path, _| !gone.contains(path));
    let skipped = attempt
        .refused
        .into_iter()
        .map(|(path, err)| Skipped {
            path,
            code: Some(err.code()),
            suggestion: err.hint(),
            reason: err.to_string(),
        })
        .collect();
    let mut survey = MigrationSurvey {
        migrations,
        library,
        unchanged,
        skipped,
    };
    leftover::report(store, &modules, &namers, &folders, &mut survey);
    survey
        .skipped
        .sort_by(|one, other| one.path.cmp(&other.path));
    leftover::references(store, &namers, &gone, &mut survey.migrations);
    Ok(survey)
}

/// The plan for all chosen items.
#[derive(Default)]
struct MigrationAttempt {
    planned: Vec<Planned>,
    /// The library modules that are needed.
    shared: BTreeSet<String>,
    /// Items that cannot be migrated, by file.
    refused: BTreeMap<PathBuf, MigrationError>,
}

struct Planned {
    /// Relative to the project.
    file: PathBuf,
    caution: Caution,
    migration: Migration,
}

impl MigrationAttempt {
    /// Items that must not move because others name them. For a script requested by name this is
    /// only a note.
    fn named(&self, namers: &Namers) -> Vec<(PathBuf, MigrationError)> {
        let gone: BTreeSet<PathBuf> = self
            .planned
            .iter()
            .flat_map(|planned| planned.migration.moved())
            .cloned()
            .collect();
        let swept = self
            .planned
            .iter()
            .filter(|planned| planned.caution == Caution::Swept);
        swept
            .filter_map(|planned| {
                let named =
                    |from: &PathBuf| Some(namers.of(from, &gone).next()?.obstacle(from.clone()));
                Some((
                    planned.file.clone(),
                    planned.migration.moved().find_map(named)?,
                ))
            })
            .collect()
    }
}

/// Plans all chosen items except the barred ones.
fn attempt(
    store: &ItemStore,
    modules: &Modules<'_>,
    chosen: &Chosen<'_>,
    barred: &BTreeMap<PathBuf, MigrationError>,
    outside: &Outside<'_>,
) -> Result<MigrationAttempt, MigrationError> {
    let mut attempt = MigrationAttempt::default();
    // Imported files come last: by then they may have been migrated with their importer.
    let (imported, first): (Vec<_>, Vec<_>) = chosen
        .iter()
        .partition(|(file, _)| modules.is_imported(file));
    for (file, (item, caution)) in first.into_iter().chain(imported) {
        let file = store.roots().display(file);
        let is_gone = |planned: &Planned| planned.migration.moved().any(|from| *from == file);
        if barred.contains_key(&file) || attempt.planned.iter().any(is_gone) {
            continue;
        }
        let planned = one(store, modules, item, *caution).and_then(|(migration, needs)| {
            apart(&migration, &attempt.planned)?;
            if *caution == Caution::Swept {
                covered(store, modules, &migration, &needs, outside)?;
            }
            Ok((migration, needs))
        });
        match planned {
            Ok((migration, needs)) => {
                attempt.shared.extend(needs.library);
                attempt.planned.push(Planned {
                    file,
                    caution: *caution,
                    migration,
                });
            }
            Err(err) if *caution == Caution::Named => return Err(err),
            Err(err) => drop(attempt.refused.insert(file, err)),
        }
    }
    Ok(attempt)
}

fn one(
    store: &ItemStore,
    modules: &Modules<'_>,
    item: &Item,
    caution: Caution,
) -> Result<(Migration, Needs), MigrationError> {
    destination::refuse_link(store, &item.file)?;
    if matches!(
        item.integrity,
        Integrity::Mismatch { .. } | Integrity::Invalid { .. }
    ) {
        return Err(MigrationError::Tampered(store.roots().display(&item.file)));
    }
    destination::refuse_claimed(store, item)?;
    destination::refuse_clash(store, item)?;
    match item.as_tool() {
        Some(tool) if !script::is_script(tool) => {
            document::moved(store, modules, item, tool, caution)
        }
        _ => script::folder(store, modules, item, caution),
    }
}

/// Checks that no tool folder lies inside another one.
fn apart(migration: &Migration, others: &[Planned]) -> Result<(), MigrationError> {
    let to = &migration.to;
    let touches = |other: &&Planned| {
        to.starts_with(&other.migration.to) || other.migration.to.starts_with(to)
    };
    match others.iter().find(touches) {
        Some(other) => Err(MigrationError::Apart {
            to: to.clone(),
            other: other.migration.from.clone(),
        }),
        None => Ok(()),
    }
}

/// Checks that every move can be undone in both places.
fn covered(
    store: &ItemStore,
    modules: &Modules<'_>,
    migration: &Migration,
    needs: &Needs,
    outside: &Outside<'_>,
) -> Result<(), MigrationError> {
    let mut files: Vec<(PathBuf, usize)> =
        migration.moved().map(|from| (from.clone(), 0)).collect();
    files.extend(
        migration
            .changes
            .iter()
            .map(|change| (change.path.clone(), change.content.len())),
    );
    for file in needs
        .library
        .iter()
        .flat_map(|name| modules.files_of_library(name))
    {
        let change = MigrationChange::moved(store, &file, script::library_place(store, &file))?;
        files.extend(change.from.map(|from| (from, 0)));
        files.push((change.path, change.content.len()));
    }
    files
        .into_iter()
        .find_map(|(path, size)| outside(&path, size))
        .map_or(Ok(()), Err)
}

/// The files that some migrations move away.
fn gone(migrations: &[Migration]) -> BTreeSet<PathBuf> {
    migrations
        .iter()
        .flat_map(Migration::moved)
        .cloned()
        .collect()
}

/// The library modules to move, and those already in place; modules that others still need are
/// copied.
fn library(
    store: &ItemStore,
    modules: &Modules<'_>,
    namers: &Namers,
    shared: &BTreeSet<String>,
    gone: &BTreeSet<PathBuf>,
) -> Result<(Vec<MigrationChange>, Vec<PathBuf>), MigrationError> {
    let root = script::root(store);
    let is_named = |file: &PathBuf| {
        namers
            .of(&store.roots().display(file), gone)
            .next()
            .is_some()
    };
    let named = shared
        .iter()
        .filter(|name| modules.files_of_library(name).iter().any(is_named))
        .cloned()
        .collect();
    let kept = modules.kept_in_library(
        &gone.iter().map(|from| root.join(from)).collect(),
        shared,
        named,
    );
    let (mut changes, mut unchanged) = (Vec::new(), Vec::new());
    for name in shared {
        for file in modules.files_of_library(name) {
            let path = script::library_place(store, &file);
            let is_there = root.join(&path).symlink_metadata().is_ok();
            let path_there = path.clone();
            let change = MigrationChange::moved(store, &file, path)?;
            match kept.contains(name) {
                true if is_there => unchanged.push(path_there),
                true => changes.push(MigrationChange {
                    action: MigrationAction::Copy,
                    ..change
                }),
                false => changes.push(change),
            }
        }
    }
    Ok((changes, unchanged))
}

impl Migration {
    /// The files that are moved away.
    fn moved(&self) -> impl Iterator<Item = &PathBuf> {
        self.changes
            .iter()
            .filter(|change| change.action == MigrationAction::Move)
            .filter_map(|change| change.from.as_ref())
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
