//! `piton tool show`: shows the normalised manifest of a tool and the source of each field.

use std::fmt::Write as _;

use serde_json::Value;

use crate::cli::{Format, Ui, clean};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::exec::description::ToolDescription;
use crate::item::finding::Strength;
use crate::item::signature::Integrity;
use crate::item::store::{Item, ItemKind, ItemStore};
use crate::trust::author::{self, Authorship};

/// Show a tool's manifest and where each field comes from.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton tool show greet                     Show each field and its origin
  piton tool show greet --format json       Print JSON
  piton tool show greet --format markdown   Print documentation
  piton tool show greet --format yaml       Print it as a plain tool.yaml
  piton tool show python_runtime            Show a built-in tool")]
pub(super) struct ToolShowArguments {
    /// Tool: `id` or `category/id`.
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) fn run(
    arguments: &ToolShowArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    show(&arguments.id, ctx, ui)
}

pub(in crate::cli) fn show(id: &str, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let item = store.find(ItemKind::Tool, id)?;
    let Some(tool) = item.as_tool() else {
        return Ok(ExitStatus::Success);
    };
    let description = ToolDescription::of(item, tool, &store);
    let author = author_of(item, ctx, ui);
    match ui.format() {
        Format::Json => ui.json(&with_author(&description, author.as_ref())?)?,
        Format::Markdown => ui.rendered(&clean(&markdown(&description)))?,
        Format::Yaml => ui.rendered(&clean(&description.manifest.to_yaml()))?,
        Format::Human | Format::Sarif => human(&description, author.as_ref(), ctx, ui)?,
    }
    if let Some(problem) = &description.chain_error {
        ui.warning(problem);
    }
    Ok(ExitStatus::Success)
}

/// The verdict on an author's signature; an error is reported and counts as unknown.
pub(in crate::cli) fn author_of(item: &Item, ctx: &Context, ui: &mut Ui) -> Option<Authorship> {
    author::of_item(ctx, item).unwrap_or_else(|err| {
        ui.warning(&format!("the author's signature was not checked: {err}"));
        None
    })
}

/// An item with its author as a part of `signature`.
pub(in crate::cli) fn with_author(
    shown: &impl serde::Serialize,
    author: Option<&Authorship>,
) -> Result<Value, Error> {
    let mut shown = serde_json::to_value(shown).map_err(std::io::Error::from)?;
    if let (Some(author), Some(Value::Object(signature))) = (author, shown.get_mut("signature")) {
        signature.insert(
            "author".to_owned(),
            serde_json::to_value(author).map_err(std::io::Error::from)?,
        );
    }
    Ok(shown)
}

/// A description of stamp and signature.
pub(in crate::cli) fn signature_text(integrity: &Integrity, author: Option<&Authorship>) -> String {
    let stamp = text(integrity);
    author.map_or_else(
        || stamp.clone(),
        |author| format!("{stamp}, {}", author.reason()),
    )
}

fn human(
    tool: &ToolDescription,
    author: Option<&Authorship>,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<(), Error> {
    let manifest = &tool.manifest;
    ui.line(&format!(
        "{} {} ({}, {})",
        manifest.tool_id,
        manifest.version,
        text(&manifest.kind),
        tool.source
    ))?;
    if !manifest.description.is_empty() {
        ui.line(manifest.description.trim())?;
    }
    ui.line("")?;
    ui.line(&format!(
        "path       {}",
        ctx.shown_path(&tool.path).display()
    ))?;
    ui.line(&format!("spelling   {}", text(&tool.spelling)))?;
    if !tool.chain.is_empty() {
        let chain: Vec<_> = tool.chain.iter().map(ToString::to_string).collect();
        ui.line(&format!("chain      {}", chain.join(" → ")))?;
    }
    ui.line(&format!(
        "signature  {}",
        signature_text(&tool.signature, author)
    ))?;
    ui.line("")?;
    for (field, value) in fields(tool) {
        let from = tool
            .origins
            .get(&field)
            .map(|origin| format!("  # {}:{}", origin.file.display(), origin.line));
        ui.line(&format!("{field}: {value}{}", from.unwrap_or_default()))?;
    }
    Ok(())
}

/// The manifest as dotted fields with their values, in order.
fn fields(tool: &ToolDescription) -> Vec<(String, String)> {
    const SHOWN_ABOVE: [&str; 10] = [
        "chain",
        "chain_error",
        "source",
        "path",
        "spelling",
        "signature",
        "origins",
        "input_schema",
        "legacy",
        "knowledge",
    ];
    let Ok(Value::Object(all)) = serde_json::to_value(tool) else {
        return Vec::new();
    };
    let mut fields = Vec::new();
    for (key, value) in all
        .iter()
        .filter(|(key, _)| !SHOWN_ABOVE.contains(&key.as_str()))
    {
        flatten(key, value, &mut fields);
    }
    fields
}

fn flatten(path: &str, value: &Value, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Null if !is_value(path) => {}
        Value::String(_) if is_value(path) => fields.push((path.to_owned(), value.to_string())),
        Value::Object(entries) if path == "output_schema" || is_value(path) => {
            fields.push((path.to_owned(), Value::Object(entries.clone()).to_string()));
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                flatten(&format!("{path}.{key}"), value, fields);
            }
        }
        Value::Array(elements) if path == "parameters" => {
            for (at, element) in elements.iter().enumerate() {
                flatten(&format!("parameters[{at}]"), element, fields);
            }
        }
        Value::Array(elements) if path == "dependencies" => {
            for (at, element) in elements.iter().enumerate() {
                flatten(&format!("dependencies[{at}]"), element, fields);
            }
        }
        Value::Array(elements) if elements.is_empty() => {}
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => {
            fields.push((path.to_owned(), text.trim_end().replace('\n', "\n    ")));
        }
        other => fields.push((path.to_owned(), other.to_string())),
    }
}

/// Whether a parameter field is shown unchanged: a default may be any value, even `null`.
fn is_value(path: &str) -> bool {
    path.starts_with("parameters[") && path.ends_with(".default")
}

/// The documentation of a tool.
fn markdown(description: &ToolDescription) -> String {
    let tool = &description.manifest;
    let mut page = format!(
        "# {}\n\n",
        tool.name.as_deref().unwrap_or(tool.tool_id.as_str())
    );
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        page,
        "`{}` {} ({})\n",
        tool.tool_id,
        tool.version,
        text(&tool.kind)
    );
    if !tool.description.is_empty() {
        let _ = writeln!(page, "{}\n", tool.description.trim());
    }
    if !tool.parameters.is_empty() {
        page.push_str("## Parameters\n\n| name | type | required | default | description |\n|---|---|---|---|---|\n");
        for parameter in &tool.parameters {
            let default = parameter
                .default
                .as_ref()
                .map(|value| format!("`{value}`"))
                .unwrap_or_default();
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} |",
                cell(&parameter.name),
                cell(&parameter.kind),
                if parameter.required { "yes" } else { "no" },
                cell(&default),
                cell(parameter.description.as_deref().unwrap_or_default()),
            );
        }
        page.push('\n');
    }
    list(&mut page, "Commands", &tool.commands);
    list(&mut page, "Required commands", &tool.requires.commands);
    list(
        &mut page,
        "Required environment",
        &tool.requires.environment,
    );
    list(&mut page, "Required MCP servers", &tool.requires.mcp);
    list(&mut page, "Dependencies", &tool.dependencies);
    if let Some(schema) = &tool.output_schema {
        let _ = writeln!(page, "## Result\n\n```json\n{schema:#}\n```\n");
    }
    if !description.chain.is_empty() {
        let chain: Vec<_> = description
            .chain
            .iter()
            .map(|id| format!("`{id}`"))
            .collect();
        let _ = writeln!(page, "## Runs through\n\n{}", chain.join(" → "));
    }
    page
}

fn list(page: &mut String, title: &str, entries: &[String]) {
    if !entries.is_empty() {
        let _ = writeln!(page, "## {title}\n");
        for entry in entries {
            let _ = writeln!(page, "- `{entry}`");
        }
        page.push('\n');
    }
}

fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace('\n', " ")
}

/// The serialized name of a variant.
fn text(value: &impl serde::Serialize) -> String {
    match value.serialize(serde_json::value::Serializer) {
        Ok(Value::String(text)) => text,
        Ok(Value::Object(entries)) => entries
            .get("status")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        _ => String::new(),
    }
}
