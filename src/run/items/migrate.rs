//! Legacy scripts become tools: one of them, or many, in one step.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::parameters::Given;
use super::{Access, Effort, Home, ItemAnswer, ItemEffect, ItemStepError, Loss, Write, coverage, shown};
use crate::checkpoint::error::CheckpointError;
use crate::context::Context;
use crate::item::migration::{self, Action, Change, Migration, MigrationError, Survey, Wanted};
use crate::item::store::{ItemKind, ItemStore};
use crate::problem::{Code, Explain, Hint};
use crate::run::session::open_checkpointer;

/// A script that became a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Migrated {
    /// The id, which stays.
    pub tool_id: String,
    /// The script.
    pub from: String,
    /// The folder.
    pub to: String,
    /// What was written.
    pub files: Vec<String>,
    /// Where each file comes from; left out where only one script was asked for, by a step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<MigratedFile>,
    /// What to look at, in words.
    pub notes: Vec<String>,
}

/// A file that was created, moved or copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MigratedFile {
    /// What became of it.
    pub action: Action,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Where it is.
    pub path: String,
}

/// What became of many scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MigratedTree {
    /// What became a tool.
    pub migrated: Vec<Migrated>,
    /// Modules that they share.
    pub library: Vec<MigratedFile>,
    /// Modules that are where they belong already, as they are.
    pub unchanged: Vec<String>,
    /// What was left alone, and why.
    pub skipped: Vec<SkippedFile>,
    /// Files that do not exist any more where they were.
    pub removed: Vec<String>,
    /// All of it in one line.
    pub message: String,
}

/// Something that was left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    /// Where it lies.
    pub path: String,
    /// The code of the error, for a script that cannot become a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Why.
    pub reason: String,
    /// What a person can do about it.
    pub suggestion: Option<Hint>,
}

/// Migrates what an id names, or what is listed.
pub(super) fn migrate(
    ctx: &Context,
    store: &ItemStore,
    given: &Given<'_>,
    loss: Loss,
) -> Result<ItemEffect, ItemStepError> {
    if given.kind()?.is_some_and(|kind| kind != ItemKind::Tool) {
        return Err(given.wrong("item_type", "must be `tool`: only scripts are migrated"));
    }
    let names = given.list("items")?;
    if given.flag("all")? || !names.is_empty() {
        let wanted = if given.flag("all")? { Wanted::All } else { Wanted::These(names) };
        // Where there is no git all of it is refused later, or none.
        let checkpointer = (loss == Loss::Refused).then(|| open_checkpointer(ctx).ok()).flatten();
        let outside = |path: &Path, size: usize| {
            let why = coverage::why_uncovered(ctx, checkpointer.as_ref()?, path, size as u64).ok()??;
            let err = CheckpointError::Uncovered { path: path.to_path_buf(), why };
            Some(MigrationError::Outside { code: err.code(), reason: err.to_string(), hint: err.hint() })
        };
        return Ok(many(store, migration::survey(store, &wanted, &outside)?));
    }
    let plan = migration::plan(store, &given.required("item_id")?)?;
    let writes = writes(store, &plan.changes.iter().collect::<Vec<_>>());
    let answer = Migrated { changes: Vec::new(), ..Migrated::of(plan) };
    Ok(ItemEffect { answer: ItemAnswer::Migrate(answer), writes })
}

fn many(store: &ItemStore, survey: Survey) -> ItemEffect {
    let Survey { migrations, library, unchanged, skipped } = survey;
    let changes: Vec<&Change> =
        library.iter().chain(migrations.iter().flat_map(|migration| &migration.changes)).collect();
    let writes = writes(store, &changes);
    let mut removed: Vec<String> = gone(&changes).iter().map(|path| shown(path)).collect();
    removed.sort();
    let message = message(migrations.len(), skipped.len(), Effort::Do);
    let tree = MigratedTree {
        library: library.iter().map(MigratedFile::of).collect(),
        unchanged: unchanged.iter().map(|path| shown(path)).collect(),
        migrated: migrations.into_iter().map(Migrated::of).collect(),
        skipped: skipped
            .into_iter()
            .map(|it| SkippedFile {
                path: shown(&it.path),
                code: it.code,
                reason: it.reason,
                suggestion: it.suggestion,
            })
            .collect(),
        removed,
        message,
    };
    ItemEffect { answer: ItemAnswer::MigrateTree(Box::new(tree)), writes }
}

fn message(migrated: usize, skipped: usize, effort: Effort) -> String {
    let (tools, alone) = match effort {
        Effort::Do => {
            (["script became a tool", "scripts became tools"], ["file was left alone", "files were left alone"])
        }
        Effort::Plan => (
            ["script would become a tool", "scripts would become tools"],
            ["file would be left alone", "files would be left alone"],
        ),
    };
    let counted = |count: usize, [one, more]: [&str; 2]| format!("{count} {}", if count == 1 { one } else { more });
    let scripts = |count| counted(count, tools);
    let files = |count| counted(count, alone);
    match (migrated, skipped) {
        (0, 0) => "there is nothing to migrate".to_owned(),
        (migrated, 0) => scripts(migrated),
        (0, skipped) => files(skipped),
        (migrated, skipped) => format!("{}, {}", scripts(migrated), files(skipped)),
    }
}

/// What has to be written: new files first, so that at no moment anything is nowhere.
fn writes(store: &ItemStore, changes: &[&Change]) -> Vec<Write> {
    let root = store.roots().project.clone().unwrap_or_default();
    let new = changes.iter().map(|change| Write {
        home: Home::Project,
        path: change.path.clone(),
        content: Some(change.content.clone()),
        access: change.from.as_ref().map_or(Access::Plain, |from| Access::of(&root.join(from))),
    });
    let old = gone(changes).into_iter().map(|path| Write {
        home: Home::Project,
        path: path.clone(),
        content: None,
        access: Access::Plain,
    });
    new.chain(old).collect()
}

/// The files that are elsewhere afterwards.
fn gone<'c>(changes: &[&'c Change]) -> Vec<&'c PathBuf> {
    changes.iter().filter(|change| change.action == Action::Move).filter_map(|change| change.from.as_ref()).collect()
}

impl ItemAnswer {
    /// Says of what was only planned that it was not done.
    pub(super) fn only_planned(&mut self) {
        if let Self::MigrateTree(tree) = self {
            tree.message = message(tree.migrated.len(), tree.skipped.len(), Effort::Plan);
        }
    }
}

impl Migrated {
    fn of(plan: Migration) -> Self {
        Self {
            tool_id: plan.tool_id.to_string(),
            from: shown(&plan.from),
            to: shown(&plan.to),
            files: plan.changes.iter().map(|change| shown(&change.path)).collect(),
            changes: plan.changes.iter().map(MigratedFile::of).collect(),
            notes: plan.notes,
        }
    }
}

impl MigratedFile {
    fn of(change: &Change) -> Self {
        let from = change.from.as_deref().map(|path: &Path| shown(path));
        Self { action: change.action, from, path: shown(&change.path) }
    }
}
