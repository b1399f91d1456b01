//! The tool `search`: finds items by words, with an index that is kept between calls.

use super::answer::ToolAnswer;
use super::arguments::CallArguments;
use super::call::Answered;
use super::failure::ToolFailure;
use super::projects::Projects;
use crate::item::search::{Query, SearchOrder, SearchScope};
use crate::item::store::ItemKind;
use crate::item::wording::shown;
use crate::problem::Code;
use crate::run::error_titles::ErrorTitle;

pub(crate) const ARGUMENTS: [&str; 10] = [
    "item_type",
    "query",
    "source",
    "limit",
    "sort_by",
    "project_path",
    "tool_type",
    "category",
    "tags",
    "dry_run",
];

const SOURCES: &str = "`source` is `local`, the project and the user's own items, or `all`, which adds built-in items";

/// The default number of results.
const LIMIT: usize = 10;

pub(crate) fn answer(projects: &Projects, arguments: &CallArguments) -> Answered {
    let kind = arguments.kind()?;
    let query = query(kind, arguments).map_err(|failure| failure.about(kind))?;
    let (project, ctx) = projects
        .project(arguments.text("project_path")?)
        .map_err(|failure| failure.about(kind))?;
    let mut found = project.with_index(&ctx, |index| index.search(&query));
    for hit in &mut found.results {
        hit.path = super::load::absolute(&ctx, &hit.path)
            .to_string_lossy()
            .into_owned();
    }
    ToolAnswer::result(&found)
}

fn query(kind: ItemKind, arguments: &CallArguments) -> Result<Query, ToolFailure> {
    Ok(Query {
        // An empty query lists everything, so it must be given explicitly.
        text: match arguments.value("query") {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(_) => return Err(ToolFailure::argument("`query` must be text")),
            None => return Err(super::arguments::missing("query")),
        },
        kind: Some(kind),
        scope: match arguments.text("source")? {
            None | Some("local") => SearchScope::Local,
            Some("all") => SearchScope::All,
            Some("registry") => {
                let message = "piton has no registry of items";
                return Err(
                    ToolFailure::new(ErrorTitle::NoRegistry, Code::NoRegistry, message)
                        .with_suggestion(SOURCES),
                );
            }
            Some(other) => {
                return Err(
                    ToolFailure::argument(format!("`{}` is not a source", shown(other)))
                        .with_suggestion(SOURCES),
                );
            }
        },
        order: match arguments.text("sort_by")? {
            None | Some("score") => SearchOrder::Score,
            Some("date") => SearchOrder::Date,
            Some("name") => SearchOrder::Name,
            Some(other) => {
                return Err(ToolFailure::argument(format!(
                    "results cannot be sorted by `{}`",
                    shown(other)
                ))
                .with_suggestion("`sort_by` is `score`, `date` or `name`"));
            }
        },
        limit: Some(limit(arguments)?),
        tool_type: arguments.text("tool_type")?.map(str::to_owned),
        category: arguments.text("category")?.map(str::to_owned),
        tags: tags(arguments)?,
    })
}

fn limit(arguments: &CallArguments) -> Result<usize, ToolFailure> {
    let Some(value) = arguments.value("limit") else {
        return Ok(LIMIT);
    };
    let count = value
        .as_u64()
        .and_then(|count| usize::try_from(count).ok())
        .filter(|count| *count > 0);
    count.ok_or_else(|| ToolFailure::argument("`limit` must be a whole number above 0"))
}

fn tags(arguments: &CallArguments) -> Result<Vec<String>, ToolFailure> {
    let wrong = || ToolFailure::argument("`tags` must be a list of texts");
    match arguments.value("tags") {
        None => Ok(Vec::new()),
        Some(serde_json::Value::Array(tags)) => tags
            .iter()
            .map(|tag| tag.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect(),
        Some(_) => Err(wrong()),
    }
}
