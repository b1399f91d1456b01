//! `piton load`: prints an item, or copies it between project and user.

use super::items::{self, ItemKindArgument, SourceArgument, Writing};
use super::ui::{Format, Ui};
use crate::authoring::{Home, ItemAnswer, ItemCommand, LoadItem, Loaded};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::signature::Integrity;
use crate::item::store::ItemKind;

/// Print an item, or copy it between project and user
///
/// Without `--to`, piton prints the item's file. With `--to`, piton verifies the item, copies it to the
/// same path below `.ai/` of the target, and stamps the copy. A copy into the project is a step, so
/// `piton undo` reverts it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton load greet                              Print the file of an item
  piton load ops/deploy --type directive        Pick the directive of that name
  piton load greet --to user                    Copy a tool to `~/.ai`, for all your projects
  piton load greet --to project --overwrite     Replace the project's copy with yours
  piton load core/git_checkpoint --to project   Start from a built-in directive")]
pub(super) struct LoadArguments {
    /// Item: `name` or `category/name`.
    #[arg(value_name = "ID")]
    id: String,
    /// Item type, if several items have this name.
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    kind: Option<ItemKindArgument>,
    /// Where to look; everywhere by default.
    #[arg(long, value_enum, value_name = "SOURCE")]
    source: Option<SourceArgument>,
    /// Copy the item there.
    #[arg(long, value_name = "WHERE", value_parser = items::parse_home())]
    to: Option<Home>,
    /// Replace an existing item.
    #[arg(long, requires = "to")]
    overwrite: bool,
    #[command(flatten)]
    writing: Writing,
}

impl LoadArguments {
    /// Whether it involves a project: user and built-in items do not.
    pub(super) fn needs_project(&self) -> bool {
        self.source.is_none_or(SourceArgument::needs_project) || self.to == Some(Home::Project)
    }
}

pub(super) fn run(
    arguments: &LoadArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let command = ItemCommand::Load(LoadItem {
        item_id: arguments.id.clone(),
        item_type: arguments.kind.map(ItemKind::from),
        source: arguments.source.map(SourceArgument::scope).transpose()?,
        destination: arguments.to,
        overwrite: arguments.overwrite,
    });
    if arguments.to != Some(Home::Project) {
        arguments.writing.refuse_checkpoint()?;
    }
    let outcome = items::perform(command, &arguments.writing, None, ctx, ui)?;
    let status = items::end(&outcome, ui);
    if ui.format() == Format::Json {
        ui.json(&outcome)?;
        return Ok(status);
    }
    if let Some(ItemAnswer::Load(loaded)) = &outcome.answer {
        show(loaded, arguments, ui)?;
    }
    Ok(status)
}

fn show(loaded: &Loaded, arguments: &LoadArguments, ui: &mut Ui) -> Result<(), Error> {
    match &loaded.integrity {
        Integrity::Mismatch { .. } => {
            ui.warning("Content hash mismatch: this is not what was stamped");
        }
        Integrity::Invalid { reason, .. } => {
            ui.warning(&format!("its stamp is malformed: {reason}"));
        }
        Integrity::Unsigned | Integrity::Valid { .. } | Integrity::Foreign { .. } => {}
    }
    match (&arguments.to, &loaded.message) {
        (None, _) => {
            ui.detail(&format!(
                "{} `{}` from {}: {}",
                loaded.item_type, loaded.name, loaded.source, loaded.path
            ));
            ui.contents(loaded.content.as_bytes())?;
        }
        (Some(to), None) => ui.note(&format!(
            "`{}` is already an item of the {}: nothing to copy",
            loaded.name,
            to.layer()
        )),
        (Some(_), Some(message)) => {
            for file in &loaded.files {
                ui.line(file)?;
            }
            let words = if arguments.writing.dry_run {
                "would be "
            } else {
                ""
            };
            ui.success(&format!("{words}{message}"));
            for note in &loaded.notes {
                ui.note(note);
            }
        }
    }
    Ok(())
}
