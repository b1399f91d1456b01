//! `piton new`: creates a tool, a directive or a knowledge entry.

use clap::builder::NonEmptyStringValueParser;

use super::items::{self, Writing};
use super::{Format, Ui};
use crate::authoring::{CreateItem, Created, Home, ItemAnswer, ItemCommand, ItemName, NextStep};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::skeleton::SkeletonLayout;
use crate::item::store::{ItemKind, Layer};

/// Create a tool, directive or knowledge entry
///
/// The new item is valid, and it runs as it is if piton can run items of its type. It is not signed,
/// because your first edit would break the stamp. piton never overwrites a file, and `piton undo`
/// removes the item.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton new tool count_words                       A Python tool in its own folder
  piton new tool ops/clean --type bash --file      A single bash file with metadata
  piton new tool weather --type api --to user      For all your projects, in `~/.ai`
  piton new directive release/notes --description 'Write the notes of a release'
  piton new knowledge release/voice
  piton new tool count_words --dry-run             Show what would be created")]
pub(super) struct NewArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Create a tool
    ///
    /// Types: script (Python, or the runtime of `--executor`), python, bash, node, cli, local, runtime,
    /// api, `mcp_server`, `mcp_tool`, docker, meta; also directive and knowledge, as `piton new directive`
    /// and `piton new knowledge` do.
    #[command(after_help = "\
Examples:
  piton new tool count_words
  piton new tool ops/clean --type bash --file
  piton new tool list_files --type cli --description 'Lists files'
  piton new tool ruby --type runtime
  piton new tool report --type bash --executor ruby")]
    Tool(NewToolArguments),
    /// Create a directive.
    #[command(after_help = "\
Examples:
  piton new directive release/notes --description 'Write the notes of a release'")]
    Directive(ItemArguments),
    /// Create a knowledge entry.
    #[command(after_help = "\
Examples:
  piton new knowledge release/voice --description 'How release notes speak'")]
    Knowledge(ItemArguments),
}

#[derive(Debug, clap::Args)]
struct NewToolArguments {
    #[command(flatten)]
    item: ItemArguments,
    /// Tool type; a Python script by default.
    #[arg(long = "type", value_name = "TYPE")]
    tool_type: Option<String>,
    /// Runtime, primitive or MCP server that runs the tool.
    #[arg(long, value_name = "ID")]
    executor: Option<String>,
    /// Create a single self-contained file.
    #[arg(long = "file", conflicts_with = "as_folder")]
    as_file: bool,
    /// Create a folder with a `tool.yaml`.
    #[arg(long = "folder")]
    as_folder: bool,
}

#[derive(Debug, clap::Args)]
struct ItemArguments {
    /// Id, or `category/id`.
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// Category (folders) of the item, such as `ops` or `ops/db`.
    #[arg(long, value_name = "CATEGORY")]
    category: Option<String>,
    /// One-line description.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Create it for this project, or for you in all projects.
    #[arg(long, value_name = "WHERE", default_value = "project", value_parser = items::parse_home())]
    to: Home,
    #[command(flatten)]
    writing: Writing,
}

impl NewArguments {
    fn item(&self) -> &ItemArguments {
        match &self.what {
            What::Tool(tool) => &tool.item,
            What::Directive(item) | What::Knowledge(item) => item,
        }
    }

    /// Whether the new item belongs to a project.
    pub(super) fn needs_project(&self) -> bool {
        self.item().to == Home::Project
    }
}

pub(super) fn run(
    arguments: &NewArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let item = arguments.item();
    let (kind, tool) = match &arguments.what {
        What::Tool(tool) => (ItemKind::Tool, Some(tool)),
        What::Directive(_) => (ItemKind::Directive, None),
        What::Knowledge(_) => (ItemKind::Knowledge, None),
    };
    let command = ItemCommand::Create(Box::new(CreateItem {
        name: ItemName {
            item_id: item.name.clone(),
            item_type: Some(kind),
            location: item.to,
            category: item.category.clone(),
        },
        tool_type: tool.and_then(|tool| tool.tool_type.clone()),
        description: item.description.clone(),
        executor: tool.and_then(|tool| tool.executor.clone()),
        layout: tool.and_then(|tool| match (tool.as_file, tool.as_folder) {
            (true, _) => Some(SkeletonLayout::File),
            (_, true) => Some(SkeletonLayout::Folder),
            _ => None,
        }),
        content: None,
    }));
    if item.to != Home::Project {
        item.writing.refuse_checkpoint()?;
    }
    let outcome = items::perform(command, &item.writing, None, ctx, ui)?;
    let status = items::end(&outcome, ui);
    if status == ExitStatus::Success && outcome.lacks_git {
        ui.warning("there is no git repository: `piton undo` cannot revert this");
    }
    if ui.format() == Format::Json {
        ui.json(&outcome)?;
    } else if let Some(ItemAnswer::Create(created)) = &outcome.answer {
        human(ui, created, &item.writing)?;
    }
    Ok(status)
}

fn human(ui: &mut Ui, created: &Created, writing: &Writing) -> Result<(), Error> {
    let (did, home) = (
        if writing.dry_run {
            "would create"
        } else {
            "created"
        },
        if created.source == Layer::User {
            "~/"
        } else {
            ""
        },
    );
    for file in &created.files {
        ui.line(&format!("{did} {home}{file}"))?;
    }
    for note in &created.notes {
        ui.warning(note);
    }
    if !writing.dry_run {
        ui.hint(&next_hint(&created.next));
    }
    Ok(())
}

/// For example ``edit `FILE`, then `COMMAND`; once it is right, `piton sign ID` ``.
fn next_hint(steps: &[NextStep]) -> String {
    let (mut edits, mut tries, mut signs) = (Vec::new(), Vec::new(), Vec::new());
    for step in steps {
        match step {
            NextStep::Edit(path) => edits.push(format!("edit `{path}`")),
            NextStep::Try(command) => tries.push(format!("`{command}`")),
            NextStep::Sign(command) => signs.push(format!("`{command}`")),
        }
    }
    let mut hint = edits.join(" and ");
    if !tries.is_empty() {
        hint = format!("{hint}, then {}", tries.join(" and "));
    }
    if !signs.is_empty() {
        hint = format!("{hint}; once it is right, {}", signs.join(" and "));
    }
    hint
}
