//! `piton directive`: lists directives, and shows one as piton understands it.

use std::path::Path;

use serde::Serialize;

use super::items::SourceArgument;
use super::tool::{author_of, signature_text, with_author};
use super::{Format, Ui, search};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::directive::{Directive, Step, StepAction};
use crate::item::finding::{Strength, serialize_path};
use crate::item::signature::Integrity;
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::trust::author::Authorship;

/// List and show directives.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton directive list          List the directives of this project
  piton directive show hello    Show a directive
  piton run hello               Run a directive")]
pub(super) struct DirectiveArguments {
    #[command(subcommand)]
    command: DirectiveCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DirectiveCommand {
    List(DirectiveListArguments),
    Show(DirectiveShowArguments),
}

/// List directives
///
/// Lists the directives of the project and your own, by name. `piton search` finds directives by words and has more
/// filters.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton directive list                  Directives of this project and your own
  piton directive list --source all     Include built-in directives
  piton directive list --format json    Print JSON")]
struct DirectiveListArguments {
    /// Where to look.
    #[arg(long, value_enum, default_value_t)]
    source: SourceArgument,
}

/// Show inputs, permissions and steps of a directive.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton directive show hello                  Show its steps
  piton directive show hello --format json    Print JSON
  piton directive show core/git_checkpoint    Show a built-in directive")]
pub(super) struct DirectiveShowArguments {
    /// Directive: `name` or `category/name`.
    #[arg(value_name = "ID")]
    id: String,
}

/// A directive with its source.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    directive: &'a Directive,
    source: Layer,
    #[serde(serialize_with = "serialize_path")]
    path: &'a Path,
    signature: &'a Integrity,
}

pub(super) fn run(
    arguments: &DirectiveArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    match &arguments.command {
        DirectiveCommand::List(list) => search::list(ItemKind::Directive, list.source, ctx, ui),
        DirectiveCommand::Show(show) => self::show(&show.id, ctx, ui),
    }
}

pub(super) fn show(id: &str, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let item = store.find(ItemKind::Directive, id)?;
    let Some(directive) = item.as_directive() else {
        return Ok(ExitStatus::Success);
    };
    let author = author_of(item, ctx, ui);
    if ui.format() == Format::Json {
        let shown = Shown {
            directive,
            source: item.layer,
            path: &item.file,
            signature: &item.integrity,
        };
        ui.json(&with_author(&shown, author.as_ref())?)?;
    } else {
        human(directive, item, author.as_ref(), ctx, ui)?;
    }
    Ok(ExitStatus::Success)
}

fn human(
    directive: &Directive,
    item: &Item,
    author: Option<&Authorship>,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<(), Error> {
    ui.line(&format!(
        "{} {} (directive, {})",
        directive.name, directive.version, item.layer
    ))?;
    if !directive.description.is_empty() {
        ui.line(&directive.description)?;
    }
    ui.line(&format!("{}", ctx.shown_path(&item.file).display()))?;
    // Most items have neither a stamp nor a signature.
    if item.integrity != Integrity::Unsigned {
        ui.line(&format!(
            "signature: {}",
            signature_text(&item.integrity, author)
        ))?;
    }
    if !directive.inputs.is_empty() {
        ui.line("\nInputs")?;
    }
    for input in &directive.inputs {
        let need = match &input.default {
            Some(default) => format!("default {default}"),
            None if input.required => "required".to_owned(),
            None => "optional".to_owned(),
        };
        ui.line(&format!(
            "  {} ({}, {need})  {}",
            input.name,
            input.kind,
            input.description.trim()
        ))?;
    }
    if !directive.permissions.is_empty() {
        ui.line("\nPermissions")?;
    }
    for grant in &directive.permissions {
        ui.line(&format!("  {grant}"))?;
    }
    ui.line("\nSteps")?;
    for (number, step) in (1..).zip(&directive.steps) {
        ui.line(&format!("  {number}. {}  {}", step.name, what(step)))?;
        if let Some(when) = &step.when {
            ui.line(&format!("     when {when}"))?;
        }
    }
    Ok(())
}

fn what(step: &Step) -> String {
    let subject = match &step.action {
        StepAction::Tool {
            item_id,
            command: Some(command),
            ..
        } => format!("tool `{item_id}` {command}"),
        StepAction::Tool { item_id, .. } => format!("tool `{item_id}`"),
        StepAction::Directive { item_id, .. } => format!("directive `{item_id}`"),
        StepAction::Checkpoint { operation, .. } => format!("checkpoint: {operation}"),
        StepAction::Item { verb, .. } => format!("{verb} items"),
        StepAction::Human { gate, .. } => format!("waits for a person ({gate})"),
        StepAction::Prose { .. } => "work for an agent or a person".to_owned(),
    };
    if step.description.is_empty() {
        subject
    } else {
        format!("{subject}: {}", first_line(&step.description))
    }
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}
