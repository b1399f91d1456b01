//! Turns legacy scripts into tools: one or many, in one step.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    Effort, FileAccess, Home, ItemAnswer, ItemEffect, ItemStepError, Loss, MigrateScripts, Write,
    coverage, shown,
};
use crate::checkpoint::error::CheckpointError;
use crate::context::Context;
use crate::item::migration::{
    self, Migration, MigrationAction, MigrationChange, MigrationError, MigrationSelection,
    MigrationSurvey,
};
use crate::item::store::ItemStore;
use crate::problem::{Code, Explain, Hint};
use crate::workspace::open_checkpointer;

/// A migrated script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Migrated {
    /// The id, which stays the same.
    pub tool_id: String,
    pub from: String,
    pub to: String,
    pub files: Vec<String>,
    /// The origin of each file; empty if a step migrates a single script.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<MigratedFile>,
    pub notes: Vec<String>,
}

/// A file that was created, moved or copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MigratedFile {
    pub action: MigrationAction,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub path: String,
}

/// The result of migrating many scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MigratedTree {
    pub migrated: Vec<Migrated>,
    /// Shared modules.
    pub library: Vec<MigratedFile>,
    /// Modules that are already in place.
    pub unchanged: Vec<String>,
    /// Skipped files, with reasons.
    pub skipped: Vec<SkippedFile>,
    /// Removed files.
    pub removed: Vec<String>,
    /// A summary in one line.
    pub message: String,
}

/// A skipped file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    pub path: String,
    /// The code of the error, for a script that cannot become a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    pub reason: String,
    /// How to fix it.
    pub suggestion: Option<Hint>,
}

/// Migrates the script with an id, or the listed files.
pub(super) fn migrate(
    ctx: &Context,
    store: &ItemStore,
    scripts: &MigrateScripts,
    loss: Loss,
) -> Result<ItemEffect, ItemStepError> {
    let wanted = match scripts {
        MigrateScripts::All => MigrationSelection::All,
        MigrateScripts::Items(items) => MigrationSelection::These(items.clone()),
        MigrateScripts::ItemId(id) => return one(store, id),
    };
    // Without git the whole request is decided later.
    let checkpointer = (loss == Loss::Refused)
        .then(|| open_checkpointer(ctx).ok())
        .flatten();
    let outside = |path: &Path, size: usize| {
        let why =
            coverage::why_uncovered(ctx, checkpointer.as_ref()?, path, size as u64).ok()??;
        let err = CheckpointError::Uncovered {
            path: path.to_path_buf(),
            why,
        };
        Some(MigrationError::Outside {
            code: err.code(),
            reason: err.to_string(),
            hint: err.hint(),
        })
    };
    Ok(many(store, migration::survey(store, &wanted, &outside)?))
}

fn one(store: &ItemStore, id: &str) -> Result<ItemEffect, ItemStepError> {
    let plan = migration::plan(store, id)?;
    let writes = writes(store, &plan.changes.iter().collect::<Vec<_>>());
    let answer = Migrated {
        changes: Vec::new(),
        ..Migrated::of(plan)
    };
    Ok(ItemEffect {
        answer: ItemAnswer::Migrate(answer),
        writes,
    })
}

fn many(store: &ItemStore, survey: MigrationSurvey) -> ItemEffect {
    let MigrationSurvey {
        migrations,
        library,
        unchanged,
        skipped,
    } = survey;
    let changes: Vec<&MigrationChange> = library
        .iter()
        .chain(migrations.iter().flat_map(|migration| &migration.changes))
        .collect();
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
    ItemEffect {
        answer: ItemAnswer::MigrateTree(Box::new(tree)),
        writes,
    }
}

fn message(migrated: usize, skipped: usize, effort: Effort) -> String {
    let (tools, alone) = match effort {
        Effort::Do => (
            ["script became a tool", "scripts became tools"],
            ["file was left alone", "files were left alone"],
        ),
        Effort::Plan => (
            ["script would become a tool", "scripts would become tools"],
            ["file would be left alone", "files would be left alone"],
        ),
    };
    let counted = |count: usize, [one, more]: [&str; 2]| {
        format!("{count} {}", if count == 1 { one } else { more })
    };
    let scripts = |count| counted(count, tools);
    let files = |count| counted(count, alone);
    match (migrated, skipped) {
        (0, 0) => "there is nothing to migrate".to_owned(),
        (migrated, 0) => scripts(migrated),
        (0, skipped) => files(skipped),
        (migrated, skipped) => format!("{}, {}", scripts(migrated), files(skipped)),
    }
}

/// The writes: new files first, so that no content is ever missing.
fn writes(store: &ItemStore, changes: &[&MigrationChange]) -> Vec<Write> {
    let root = store.roots().project.clone().unwrap_or_default();
    let new = changes.iter().map(|change| Write {
        home: Home::Project,
        path: change.path.clone(),
        content: Some(change.content.clone()),
        access: change
            .from
            .as_ref()
            .map_or(FileAccess::Plain, |from| FileAccess::of(&root.join(from))),
    });
    let old = gone(changes).into_iter().map(|path| Write {
        home: Home::Project,
        path: path.clone(),
        content: None,
        access: FileAccess::Plain,
    });
    new.chain(old).collect()
}

/// The files that no longer exist afterwards.
fn gone<'c>(changes: &[&'c MigrationChange]) -> Vec<&'c PathBuf> {
    changes
        .iter()
        .filter(|change| change.action == MigrationAction::Move)
        .filter_map(|change| change.from.as_ref())
        .collect()
}

impl ItemAnswer {
    /// Rewords the answer for a plan that was not carried out.
    pub(crate) fn only_planned(&mut self) {
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
            files: plan
                .changes
                .iter()
                .map(|change| shown(&change.path))
                .collect(),
            changes: plan.changes.iter().map(MigratedFile::of).collect(),
            notes: plan.notes,
        }
    }
}

impl MigratedFile {
    fn of(change: &MigrationChange) -> Self {
        let from = change.from.as_deref().map(|path: &Path| shown(path));
        Self {
            action: change.action,
            from,
            path: shown(&change.path),
        }
    }
}
