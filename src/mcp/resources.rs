//! Resources: the runs of a project, the diffs of checkpoints, and items.
//!
//! All of them belong to one project: the one that the server was started in, or the client's only
//! root. `piton://runs` lists runs like `piton log`, `piton://runs/ID` is one run,
//! `piton://checkpoints/SHA/diff` is the diff of a checkpoint commit, and `piton://items/TYPE/ID`
//! is the file of an item.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};

use super::failure::ToolFailure;
use super::pagination::page;
use super::projects::Projects;
use crate::audit::history::{History, RunRecord, StepRecord};
use crate::audit::reference;
use crate::authoring;
use crate::checkpoint::object::ObjectId;
use crate::context::Context;
use crate::item::search::{Query, SearchOrder, SearchScope};
use crate::item::store::ItemKind;
use crate::item::wording::shown;
use crate::journal::RunId;
use crate::problem::Code;
use crate::run::error::RunError;
use crate::run::error_titles::ErrorTitle;
use crate::run::json::{LoggedRun, ShownRun};
use crate::run::project_history::ProjectHistory;

pub(super) const RUN: &str = "piton://runs/{id}";
pub(super) const DIFF: &str = "piton://checkpoints/{sha}/diff";
pub(super) const ITEM: &str = "piton://items/{item_type}/{+item_id}";
const RUNS: &str = "piton://runs";

/// How many runs `piton://runs` lists. Older ones can be read by their own URI.
const MOST_RUNS: usize = 100;
const MOST_LINES: usize = 20_000;
/// The size limit of a resource: clients silently drop much longer messages.
const MOST_BYTES: usize = 1024 * 1024;

/// The kinds of items in URIs.
pub(super) const KINDS: [(&str, ItemKind); 3] = [
    ("tool", ItemKind::Tool),
    ("directive", ItemKind::Directive),
    ("knowledge", ItemKind::Knowledge),
];

pub(super) fn list(
    projects: &Projects,
    project: Option<&str>,
    asked: Option<PaginatedRequestParams>,
) -> Result<ListResourcesResult, ErrorData> {
    let (project, ctx) = projects.project(project).map_err(refused)?;
    let everything = Query {
        kind: None,
        scope: SearchScope::All,
        order: SearchOrder::Name,
        limit: Some(usize::MAX),
        ..Query::default()
    };
    let items = project
        .with_index(&ctx, |index| index.search(&everything))
        .results;
    let past = ProjectHistory::load(&ctx).map_err(|err| refused(err.into()))?;
    let mut all = vec![
        Resource::new(RUNS, "runs")
            .with_title("Runs")
            .with_description("What was run in this project, newest first")
            .with_mime_type("application/json"),
    ];
    let mut seen = BTreeSet::new();
    for hit in items {
        let uri = address(hit.item_type, &hit.category, &hit.name);
        // The first item with an id is the one that the id resolves to.
        if seen.insert(uri.clone()) {
            all.push(
                Resource::new(uri, hit.name.clone())
                    .with_title(format!("{} {}", hit.item_type, hit.name))
                    .with_description(hit.description)
                    .with_mime_type(mime_type(hit.item_type, &hit.path)),
            );
        }
    }
    all.extend(past.history.runs.iter().map(|run| {
        Resource::new(format!("{RUNS}/{}", run.id), run.id.to_string())
            .with_title(format!(
                "Run of {}",
                run.directive.as_deref().unwrap_or(&run.name)
            ))
            .with_description(format!("Began at {}", run.started))
            .with_mime_type("application/json")
    }));
    let (resources, next) = page("resources", all, asked)?;
    let mut listed = ListResourcesResult::with_all_items(resources);
    listed.next_cursor = next;
    Ok(listed)
}

pub(super) fn templates(
    asked: Option<PaginatedRequestParams>,
) -> Result<ListResourceTemplatesResult, ErrorData> {
    let all = vec![
        ResourceTemplate::new(RUN, "run")
            .with_title("A run")
            .with_description("The inputs, steps and result of a run; `id` may be a prefix")
            .with_mime_type("application/json"),
        ResourceTemplate::new(DIFF, "checkpoint")
            .with_title("What a checkpoint changed")
            .with_description("The commit of a step as a unified diff; `sha` is the commit or its beginning")
            .with_mime_type("text/x-diff"),
        ResourceTemplate::new(ITEM, "item")
            .with_title("An item")
            .with_description("The file of a tool, directive or knowledge entry; `item_id` is `id` or `category/id`"),
    ];
    let (templates, next) = page("templates", all, asked)?;
    let mut listed = ListResourceTemplatesResult::with_all_items(templates);
    listed.next_cursor = next;
    Ok(listed)
}

pub(super) fn read(
    projects: &Projects,
    project: Option<&str>,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || {
        let data = json!({"uri": shown(uri), "templates": [RUNS, RUN, DIFF, ITEM]});
        ErrorData::resource_not_found(format!("there is no resource `{}`", shown(uri)), Some(data))
    };
    let place = uri.strip_prefix("piton://").ok_or_else(unknown)?;
    let (_, ctx) = projects.project(project).map_err(refused)?;
    let failed = |err: RunError| refused(err.into());
    let (text, mime) = match place.split('/').collect::<Vec<_>>().as_slice() {
        ["runs"] => (
            runs(&ProjectHistory::load(&ctx).map_err(failed)?),
            "application/json",
        ),
        ["runs", id] => {
            let past = ProjectHistory::load(&ctx).map_err(failed)?;
            let run = find_run(&past.history, id).ok_or_else(unknown)?;
            (json!(ShownRun::new(run, &past)), "application/json")
        }
        ["checkpoints", sha, "diff"] => {
            let past = ProjectHistory::load(&ctx).map_err(failed)?;
            let text = diff(&past, sha).map_err(failed)?.ok_or_else(unknown)?;
            (Value::String(text), "text/x-diff")
        }
        ["items", kind, id @ ..] if !id.is_empty() => {
            let (_, kind) = KINDS
                .iter()
                .find(|(name, _)| name == kind)
                .ok_or_else(unknown)?;
            let (text, mime) = item(&ctx, *kind, &id.join("/")).ok_or_else(unknown)?;
            (Value::String(text), mime)
        }
        _ => return Err(unknown()),
    };
    let text = match text {
        Value::String(text) => text,
        value => value.to_string(),
    };
    if text.len() > MOST_BYTES {
        let message = format!(
            "`{}` has {} bytes; at most {MOST_BYTES} are sent",
            shown(uri),
            text.len()
        );
        let suggestion = "read it where it lies: an item in its file, which `search` names; a run with `piton show`";
        return Err(refused(
            ToolFailure::new(ErrorTitle::ResourceTooLarge, Code::TooLarge, message)
                .with_suggestion(suggestion),
        ));
    }
    let contents = ResourceContents::text(text, uri).with_mime_type(mime);
    Ok(ReadResourceResult::new(vec![contents]))
}

fn runs(past: &ProjectHistory) -> Value {
    let runs = &past.history.runs;
    let listed = runs
        .iter()
        .take(MOST_RUNS)
        .map(|run| LoggedRun::new(run, past));
    json!({"runs": listed.collect::<Vec<_>>(), "total": runs.len()})
}

fn find_run<'h>(history: &'h History, name: &str) -> Option<&'h RunRecord> {
    let runs: Vec<RunId> = history.runs.iter().map(|run| run.id).collect();
    history.run(reference::find_run(&runs, name).ok()?)
}

/// The diff of a checkpoint commit against its parent.
fn diff(past: &ProjectHistory, name: &str) -> Result<Option<String>, RunError> {
    let Some(git) = &past.repository else {
        return Ok(None);
    };
    let is_hash = name.len() >= 7 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut found = checkpoints(&past.history)
        .filter(|id| is_hash && id.to_string().starts_with(&name.to_lowercase()));
    let (Some(commit), None) = (found.next(), found.next()) else {
        return Ok(None);
    };
    let Some(facts) = git.find_commit(commit)? else {
        return Ok(None);
    };
    let before = match facts.parents.first() {
        Some(parent) => git.find_commit(*parent)?.map(|facts| facts.tree),
        None => Some(git.empty_tree()),
    };
    let Some(before) = before else {
        return Ok(None);
    };
    let text = git.diff(&git.changes(before, facts.tree)?, Some(MOST_LINES))?;
    let mut shown = String::from_utf8_lossy(&text.bytes).into_owned();
    let kept = shown.floor_char_boundary(MOST_BYTES - 256);
    if text.left_out > 0 || kept < shown.len() {
        shown.truncate(kept);
        let _ = writeln!(shown, "\n# truncated: `git show {commit}` has the rest");
    }
    Ok(Some(shown))
}

/// The commits that steps made, newest first, without repetitions.
pub(super) fn checkpoints(history: &History) -> impl Iterator<Item = ObjectId> {
    let mut seen = BTreeSet::new();
    let steps = history.runs.iter().flat_map(|run| run.steps.iter().rev());
    steps
        .filter_map(StepRecord::commit)
        .filter(move |commit| seen.insert(*commit))
}

/// The text of an item and its MIME type.
fn item(ctx: &Context, kind: ItemKind, id: &str) -> Option<(String, &'static str)> {
    let loaded = authoring::load_one(ctx, kind, id).ok()?;
    let mime = mime_type(kind, &loaded.path);
    Some((loaded.content, mime))
}

/// The URI of an item.
pub(super) fn address(kind: ItemKind, category: &str, id: &str) -> String {
    format!("piton://items/{kind}/{}", full_id(category, id))
}

/// `category/id` if that is a valid id, otherwise the bare id.
pub(super) fn full_id(category: &str, id: &str) -> String {
    let full = format!("{category}/{id}");
    if full.parse::<crate::item::id::ItemId>().is_ok() {
        full
    } else {
        id.to_owned()
    }
}

fn mime_type(kind: ItemKind, path: &str) -> &'static str {
    let ending = path
        .trim_end_matches('>')
        .rsplit('.')
        .next()
        .unwrap_or_default();
    match (kind, ending) {
        (ItemKind::Directive | ItemKind::Knowledge, _) => "text/markdown",
        (ItemKind::Tool, "yaml" | "yml") => "application/yaml",
        (ItemKind::Tool, "json") => "application/json",
        (ItemKind::Tool, "py") => "text/x-python",
        (ItemKind::Tool, "sh" | "bash") => "text/x-shellscript",
        (ItemKind::Tool, "js" | "mjs" | "cjs") => "text/javascript",
        (ItemKind::Tool, _) => "text/plain",
    }
}

/// A failure of a call that is not one of a tool.
pub(super) fn refused(failure: ToolFailure) -> ErrorData {
    ErrorData::internal_error(failure.problem.message(), Some(failure.into_value()))
}
