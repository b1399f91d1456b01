//! `piton migrate`: turns legacy scripts into tools.

use super::items::{self, Writing};
use super::{Format, Ui};
use crate::authoring::{
    Effort, ItemAnswer, ItemCommand, MigrateScripts, MigratedFile, MigratedTree,
};
use crate::context::{Context, ITEMS};
use crate::error::{Error, ExitStatus};
use crate::item::directive::CheckpointMode;
use crate::item::migration::MigrationAction;

/// Turn legacy scripts in `.ai/scripts/` into tools
///
/// Each script becomes a folder below `.ai/tools/` with a `tool.yaml` made from the script's own
/// metadata. Ids, parameters and file contents stay the same. piton also moves modules of
/// `.ai/scripts/lib/` and helpers that only one script imports. It names scripts that it cannot move
/// exactly and leaves them alone. The migration is one step: `piton undo` restores every file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton migrate --all --dry-run             Show what would be done with each script
  piton migrate --all --checkpoint auto     Migrate all scripts in one commit
  piton migrate count_words                 One script; `piton undo` reverts it
  piton migrate 'ops/*' .ai/scripts/text    Several scripts")]
pub(super) struct MigrateArguments {
    /// Ids, `category/id`, files, folders below `.ai/scripts/`, or patterns such as `ops/*`.
    #[arg(value_name = "SCRIPT", required_unless_present = "all")]
    scripts: Vec<String>,
    /// Migrate everything below `.ai/scripts/`.
    #[arg(long, conflicts_with = "scripts")]
    all: bool,
    #[command(flatten)]
    writing: Writing,
}

pub(super) fn run(
    arguments: &MigrateArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let writing = &arguments.writing;
    let mode = writing
        .checkpoint
        .or_else(|| ctx.config.checkpoint_mode())
        .unwrap_or(CheckpointMode::Explicit);
    if mode == CheckpointMode::Disabled && !writing.dry_run {
        ui.warning("without checkpoints piton cannot undo this");
    }
    let scripts = arguments.scripts.iter().map(|name| named(name, ctx));
    let command = ItemCommand::Migrate(if arguments.all {
        MigrateScripts::All
    } else {
        MigrateScripts::Items(scripts.collect())
    });
    let outcome = items::perform(command, writing, None, ctx, ui)?;
    let status = items::end(&outcome, ui);
    if ui.format() == Format::Json {
        ui.json(&outcome)?;
    }
    let Some(ItemAnswer::MigrateTree(tree)) = &outcome.answer else {
        return Ok(status);
    };
    if ui.format() == Format::Human && status == ExitStatus::Success {
        human(
            ui,
            tree,
            if writing.dry_run {
                Effort::Plan
            } else {
                Effort::Do
            },
            mode,
        )?;
    }
    let nothing =
        tree.migrated.is_empty() && tree.skipped.iter().any(|skipped| skipped.code.is_some());
    Ok(if nothing && status == ExitStatus::Success {
        ExitStatus::Failure
    } else {
        status
    })
}

/// Converts a path relative to the current folder to one relative to the project; leaves other
/// names alone.
fn named(name: &str, ctx: &Context) -> String {
    let is_path = name.contains('/') || name.contains('.');
    let found = ctx
        .cwd
        .join(name)
        .canonicalize()
        .ok()
        .filter(|_| is_path && (ctx.cwd != ctx.root || name.starts_with('/')));
    let inside = found
        .as_deref()
        .and_then(|path| path.strip_prefix(&ctx.root).ok());
    inside
        .filter(|path| path.starts_with(ITEMS))
        .and_then(|path| path.to_str())
        .unwrap_or(name)
        .to_owned()
}

fn human(
    ui: &mut Ui,
    tree: &MigratedTree,
    effort: Effort,
    mode: CheckpointMode,
) -> Result<(), Error> {
    for tool in &tree.migrated {
        ui.line(&format!("{}  {} → {}", tool.tool_id, tool.from, tool.to))?;
        for file in &tool.changes {
            ui.line(&change(file, effort))?;
        }
        for note in &tool.notes {
            ui.line(&format!("  note     {note}"))?;
        }
    }
    if !tree.library.is_empty() || !tree.unchanged.is_empty() {
        ui.line("modules that tools share")?;
        for file in &tree.library {
            ui.line(&change(file, effort))?;
        }
        for path in &tree.unchanged {
            ui.line(&format!("  {:<8} {path}", "is there"))?;
        }
    }
    if !tree.skipped.is_empty() {
        ui.line("left alone")?;
    }
    for skipped in &tree.skipped {
        let named = format!("`{}`", skipped.path);
        let reason = skipped
            .reason
            .strip_prefix(&named)
            .map_or_else(|| format!(": {}", skipped.reason), str::to_owned);
        ui.line(&format!("  {}{reason}", skipped.path))?;
        if let Some(suggestion) = &skipped.suggestion {
            ui.line(&format!("    {suggestion}"))?;
        }
    }
    match effort {
        Effort::Plan => ui.note(&format!("dry run, nothing was changed: {}", tree.message)),
        Effort::Do if tree.migrated.is_empty() => ui.note(&tree.message),
        Effort::Do => {
            ui.success(&tree.message);
            let them = if tree.migrated.len() == 1 {
                "it"
            } else {
                "them"
            };
            let undo = match mode {
                CheckpointMode::Disabled => "",
                _ => "; `piton undo` restores everything",
            };
            ui.hint(&format!("check {them} with `piton validate`{undo}"));
        }
    }
    Ok(())
}

fn change(file: &MigratedFile, effort: Effort) -> String {
    let (word, done) = match file.action {
        MigrationAction::Create => ("create", "created"),
        MigrationAction::Move => ("move", "moved"),
        MigrationAction::Copy => ("copy", "copied"),
    };
    let word = if effort == Effort::Plan { word } else { done };
    match &file.from {
        Some(from) => format!("  {word:<8} {from} → {}", file.path),
        None => format!("  {word:<8} {}", file.path),
    }
}
