//! Turns settings into a call of a meta tool.
//!
//! Every named tool must exist and be callable, and meta tools must not form a cycle: such mistakes
//! are reported before the first call.

use std::collections::BTreeMap;
use std::path::Path;

use super::environment::CallVariables;
use super::error::ResolveError;
use super::placeholder::Used;
use super::settings::{SettingData, ToolSetting};
use super::{ResolveContext, ResolvedAction, bounds, origin};
use crate::exec::invocation::{Action, Meta};
use crate::item::id::ItemId;
use crate::item::javascript::{self, Dialect};
use crate::item::node::{Node, NodeEntry};
use crate::item::store::{Item, ItemKind, ItemStore};
use crate::item::tool::{LoadedTool, Origin, Spelling, ToolKind};
use crate::item::validate::place_in_function;
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::Explain;

const MAX_DEPTH: usize = 8;

pub(super) fn resolve(
    context: &ResolveContext<'_>,
    wanted_timeout: Option<f64>,
    origins: &mut BTreeMap<String, String>,
) -> Result<ResolvedAction, ResolveError> {
    let words = context.vocabulary(context.tool, None)?;
    let mut used = Used::default();
    let aggregates = aggregates(context, origins)?;
    let function = function(context, origins)?;
    let mut environment = CallVariables::scrubbed(context.around);
    environment.declare(&context.requires.environment, context.around)?;
    let timeout = bounds::timeout(
        context.settings,
        bounds::PROCESS,
        wanted_timeout,
        &words,
        &mut used,
        origins,
    )?;
    let meta = Meta {
        aggregates,
        helper: function.id,
        source: function.source,
        place: function.place,
        environment: environment.values,
    };
    Ok(ResolvedAction {
        action: Action::Meta(Box::new(meta)),
        timeout,
        variables: used.variables,
    })
}

struct Function {
    id: String,
    source: String,
    place: Option<(String, u32)>,
}

/// The name of the settings section in the tool's file.
fn section(tool: &LoadedTool) -> &'static str {
    if tool.spelling == Spelling::ToolRoot {
        "meta_specific"
    } else {
        "config"
    }
}

fn wrong(field: String, reason: String, hint: String, at: Origin) -> ResolveError {
    ResolveError::Setting {
        field,
        reason,
        hint,
        at: Some(Box::new(at)),
    }
}

/// The tools that may be called; all of them must exist.
fn aggregates(
    context: &ResolveContext<'_>,
    origins: &mut BTreeMap<String, String>,
) -> Result<Vec<String>, ResolveError> {
    let Some(setting) = context.settings.find("aggregates") else {
        return Ok(Vec::new());
    };
    let field = format!("{}.aggregates", section(context.tool));
    let hint = "name the tools by their ids, e.g. `aggregates: [collect, publish]`";
    let SettingData::List(elements) = &setting.data else {
        let reason = format!("is {}; it must be a list", setting.type_name());
        return Err(wrong(
            field,
            reason,
            hint.to_owned(),
            setting.source.origin(),
        ));
    };
    let mut ids = Vec::new();
    for (at, element) in elements.iter().enumerate() {
        let field = format!("{field}[{at}]");
        let Some(id) = element.as_text() else {
            let reason = format!("is {}; it must be the id of a tool", element.type_name());
            return Err(wrong(
                field,
                reason,
                hint.to_owned(),
                element.source.origin(),
            ));
        };
        check_aggregate(context, element, &field, id)?;
        ids.push(id.to_owned());
    }
    origins.insert("action.aggregates".to_owned(), setting.source.describe());
    Ok(ids)
}

fn check_aggregate(
    context: &ResolveContext<'_>,
    element: &ToolSetting<'_>,
    field: &str,
    id: &str,
) -> Result<(), ResolveError> {
    let refuse = |reason: String, hint: String| {
        Err(wrong(
            field.to_owned(),
            reason,
            hint,
            element.source.origin(),
        ))
    };
    let item = match context.store.find(ItemKind::Tool, id) {
        Ok(item) => item,
        Err(err) => {
            let hint = err.hint().map_or_else(
                || "`piton search --type tool` lists the tools".to_owned(),
                String::from,
            );
            return refuse(format!("names `{}`: {err}", shown(id)), hint);
        }
    };
    let kind = item.as_tool().map(|tool| tool.manifest.kind);
    if matches!(
        kind,
        Some(ToolKind::Primitive | ToolKind::Runtime | ToolKind::Directive | ToolKind::Knowledge)
    ) {
        let reason = format!("names `{}`, which is no tool that can be called", item.id);
        return refuse(reason, "name tools that `piton tool run` runs".to_owned());
    }
    let mut path = vec![(context.tool.file.as_path(), &context.tool.manifest.tool_id)];
    match depth(context.store, item, &mut path, &mut BTreeMap::new()) {
        Ok(depth) if depth < MAX_DEPTH => Ok(()),
        Ok(depth) => {
            let reason = format!(
                "nests meta tools {} deep; {MAX_DEPTH} is the most",
                depth + 1
            );
            refuse(
                reason,
                "let one of them name the tools themselves".to_owned(),
            )
        }
        Err(path) => {
            let reason = format!("leads back to where it began: {}", path.join(" → "));
            refuse(reason, "take one of them out".to_owned())
        }
    }
}

/// The nesting depth of meta tools from here; an error with the path if they form a cycle.
fn depth<'s>(
    store: &'s ItemStore,
    item: &'s Item,
    path: &mut Vec<(&'s Path, &'s ItemId)>,
    known: &mut BTreeMap<&'s Path, usize>,
) -> Result<usize, Vec<String>> {
    let file = item.file.as_path();
    let is_known = path.iter().any(|(above, _)| *above == file);
    path.push((file, &item.id));
    if is_known {
        return Err(path.iter().map(|(_, id)| format!("`{id}`")).collect());
    }
    let mut deepest = known.get(file).copied().unwrap_or_default();
    if let Some(tool) = item
        .as_tool()
        .filter(|tool| tool.manifest.kind == ToolKind::Meta && deepest == 0)
    {
        deepest = 1;
        // A missing tool is reported when that meta tool is called.
        for inner in tool
            .manifest
            .aggregates()
            .into_iter()
            .filter_map(|id| store.find(ItemKind::Tool, id).ok())
        {
            deepest = deepest.max(1 + depth(store, inner, path, known)?);
        }
        known.insert(file, deepest);
    }
    path.pop();
    Ok(deepest)
}

/// The helper that `orchestration` names.
fn function(
    context: &ResolveContext<'_>,
    origins: &mut BTreeMap<String, String>,
) -> Result<Function, ResolveError> {
    let tool = context.tool;
    let field = format!("{}.orchestration", section(tool));
    let Some(setting) = context.settings.find("orchestration") else {
        return Err(no_orchestration(context));
    };
    let refuse =
        |reason: String, hint: String| wrong(field.clone(), reason, hint, setting.source.origin());
    let named = setting
        .as_text()
        .and_then(|text| text.trim().strip_prefix("helpers."));
    let Some(id) = named else {
        return Err(refuse(
            "does not name a helper".to_owned(),
            "write `orchestration: helpers.NAME`".to_owned(),
        ));
    };
    let helpers = tool
        .node
        .find("executable_knowledge")
        .and_then(|knowledge| knowledge.find("helpers"));
    let helpers = helpers.and_then(Node::elements).unwrap_or_default();
    let id_of = |helper: &'_ Node| helper.find("id").and_then(Node::as_text).map(str::to_owned);
    let Some((at, helper)) = helpers
        .iter()
        .enumerate()
        .find(|(_, helper)| id_of(helper).as_deref() == Some(id))
    else {
        let known: Vec<String> = helpers.iter().filter_map(id_of).collect();
        let meant = nearest(id, known.iter().map(String::as_str));
        let hint = did_you_mean(meant, "add it to `executable_knowledge.helpers`");
        return Err(refuse(
            format!("names the helper `{}`, which does not exist", shown(id)),
            hint,
        ));
    };
    origins.insert("action.helper".to_owned(), setting.source.describe());
    let file = context.roots.display(&tool.file);
    checked_function(id, helper, at, &file)
}

fn no_orchestration(context: &ResolveContext<'_>) -> ResolveError {
    let tool = context.tool;
    ResolveError::NothingToRun {
        id: tool.manifest.tool_id.clone(),
        missing: if tool.spelling == Spelling::ToolRoot {
            "meta_specific.orchestration"
        } else {
            "config.orchestration"
        },
        example: "`orchestration: helpers.NAME` with the helper that decides what is called",
        at: Box::new(origin(tool, "config", context.roots)),
    }
}

/// The function of the helper at a position, if it is JavaScript that can be parsed.
fn checked_function(
    id: &str,
    helper: &Node,
    at: usize,
    file: &Path,
) -> Result<Function, ResolveError> {
    let field = format!("executable_knowledge.helpers[{at}]");
    let place_at = |place| Origin::new(file.to_path_buf(), place);
    if let Some(language) = helper
        .find("language")
        .filter(|language| language.as_text() != Some("javascript"))
    {
        let reason = "is not `javascript`, the only language that helpers have".to_owned();
        return Err(wrong(
            format!("{field}.language"),
            reason,
            "write `javascript`".to_owned(),
            place_at(language.place),
        ));
    }
    let field = format!("{field}.function");
    let entry = helper.find_entry("function");
    let source = entry
        .and_then(|entry| entry.value.as_text())
        .filter(|text| !text.trim().is_empty());
    let (Some(entry), Some(source)) = (entry, source) else {
        let hint = "write the function below `function: |`".to_owned();
        return Err(wrong(
            field,
            "has no text".to_owned(),
            hint,
            place_at(entry.map_or(helper.place, |it| it.place)),
        ));
    };
    if let Some(problem) = javascript::check_syntax(source, Dialect::Function) {
        let at = place_in_function(entry, source, problem.line, problem.column);
        let hint = "fix the JavaScript; it must be a complete script".to_owned();
        return Err(wrong(
            field,
            format!("has a syntax error: {}", problem.message),
            hint,
            place_at(at),
        ));
    }
    Ok(Function {
        id: id.to_owned(),
        source: source.to_owned(),
        place: first_line(entry, source, file),
    })
}

/// The file and line where the text of a function starts, if it is a block in the file.
fn first_line(entry: &NodeEntry, source: &str, file: &Path) -> Option<(String, u32)> {
    let is_block = entry.value.place.line > entry.place.line;
    is_block.then(|| {
        (
            file.display().to_string(),
            place_in_function(entry, source, 1, 1).line,
        )
    })
}
