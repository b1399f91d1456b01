//! Completion of prompt arguments and of resource URI variables.

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, Reference};

use super::projects::Projects;
use super::prompts::{self, plain};
use super::resources::{self, DIFF, ITEM, KINDS, RUN};
use crate::item::search::{Query, SearchOrder, SearchScope};
use crate::item::wording::shown;
use crate::run::project_history::ProjectHistory;

/// Returns the values that start with the given text, at most as many as the protocol allows.
pub(super) fn complete(
    projects: &Projects,
    project: Option<&str>,
    asked: &CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let name = asked.argument.name.as_str();
    let all = match &asked.r#ref {
        Reference::Prompt(prompt) => {
            let store = prompts::store(projects, project)?;
            let (_, directive) = prompts::find(&store, &prompt.name)?;
            let input = directive
                .inputs
                .iter()
                .find(|input| input.name == name)
                .ok_or_else(|| unknown(name))?;
            match input.kind.as_str() {
                "boolean" if input.choices.is_empty() => {
                    vec!["true".to_owned(), "false".to_owned()]
                }
                _ => input.choices.iter().map(plain).collect(),
            }
        }
        Reference::Resource(template) => match (template.uri.as_str(), name) {
            (RUN, "id") => past(projects, project)?
                .history
                .runs
                .iter()
                .map(|run| run.id.to_string())
                .collect(),
            (DIFF, "sha") => resources::checkpoints(&past(projects, project)?.history)
                .map(|it| it.to_string())
                .collect(),
            (ITEM, "item_type") => KINDS.iter().map(|(name, _)| (*name).to_owned()).collect(),
            (ITEM, "item_id") => ids(projects, project, asked)?,
            (RUN | DIFF | ITEM, _) => return Err(unknown(name)),
            (other, _) => {
                let words = format!(
                    "there is no template `{}`; there are {RUN}, {DIFF} and {ITEM}",
                    shown(other)
                );
                return Err(ErrorData::invalid_params(words, None));
            }
        },
        _ => Vec::new(),
    };
    let begun = asked.argument.value.to_lowercase();
    let mut fitting: Vec<String> = all
        .into_iter()
        .filter(|value| value.to_lowercase().starts_with(&begun))
        .collect();
    let total = fitting.len();
    fitting.truncate(CompletionInfo::MAX_VALUES);
    let has_more = total > fitting.len();
    let info = CompletionInfo::with_pagination(fitting, u32::try_from(total).ok(), has_more);
    Ok(CompleteResult::new(
        info.map_err(|words| ErrorData::internal_error(words, None))?,
    ))
}

/// The ids of the items of the chosen kind, with and without category.
fn ids(
    projects: &Projects,
    project: Option<&str>,
    asked: &CompleteRequestParams,
) -> Result<Vec<String>, ErrorData> {
    let chosen = asked
        .context
        .as_ref()
        .and_then(|context| context.get_argument("item_type"));
    let kind = match chosen {
        None => None,
        Some(chosen) => {
            let known = KINDS.iter().find(|(name, _)| name == chosen);
            Some(known.map(|(_, kind)| *kind).ok_or_else(|| {
                ErrorData::invalid_params(format!("`{}` is not an item type", shown(chosen)), None)
            })?)
        }
    };
    let (project, ctx) = projects.project(project).map_err(resources::refused)?;
    let query = Query {
        kind,
        scope: SearchScope::All,
        order: SearchOrder::Name,
        limit: Some(usize::MAX),
        ..Query::default()
    };
    let found = project
        .with_index(&ctx, |index| index.search(&query))
        .results;
    let mut ids: Vec<String> = found.iter().map(|hit| hit.name.clone()).collect();
    ids.extend(
        found
            .iter()
            .map(|hit| resources::full_id(&hit.category, &hit.name)),
    );
    ids.sort();
    ids.dedup();
    Ok(ids)
}

fn past(projects: &Projects, project: Option<&str>) -> Result<ProjectHistory, ErrorData> {
    let (_, ctx) = projects.project(project).map_err(resources::refused)?;
    ProjectHistory::load(&ctx).map_err(|err| resources::refused(err.into()))
}

fn unknown(name: &str) -> ErrorData {
    ErrorData::invalid_params(format!("there is no argument `{}`", shown(name)), None)
}
