//! The MCP server: tools, resources, prompts and completions.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    ErrorData, GetPromptRequestParams, GetPromptResponse, Implementation, JsonObject,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use super::answer::ToolAnswer;
use super::arguments::CallArguments;
use super::call::{CallReply, Caller};
use super::decision::digest;
use super::failure::ToolFailure;
use super::pagination::page;
use super::projects::Projects;
use super::roots::{self, FilledArguments};
use super::{completions, execute, help, hints, load, prompts, resources, search, size, toolbox};
use crate::journal::seal::canonical;
use crate::problem::Code;
use crate::run::error_titles::ErrorTitle;

/// The instructions that agents read first.
const INSTRUCTIONS: &str = "piton runs tools and directives of a project with checkpoints: what changes is committed, \
kept or put back, and can be undone. Find items with `search`, read them with `load`, run them with `execute`. A directive \
may stop at a step for you: do what `instruction` says, then call `execute` with `action: \"continue\"`. After edits of your own, run \
the directive `git_checkpoint`. `help` explains more.";

#[derive(Clone, Debug)]
pub struct Server {
    projects: Arc<Projects>,
}

impl Server {
    pub fn new(projects: Projects) -> Self {
        let projects = Arc::new(projects);
        projects.look_around();
        Self { projects }
    }
}

impl Server {
    /// Runs a read request for the client's project on a separate thread.
    async fn read<T: Send + 'static>(
        &self,
        context: RequestContext<RoleServer>,
        job: impl FnOnce(&Projects, Option<&str>) -> Result<T, ErrorData> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let caller = Caller {
            request: context,
            answered: None,
            state: None,
            asked: String::new(),
        };
        let projects = Arc::clone(&self.projects);
        let project = roots::only(&projects, &caller).await;
        if project.is_none() && !projects.has_home() {
            return Err(resources::refused(no_project()));
        }
        caller
            .work(move |_| Ok(job(&projects, project.as_deref())))
            .await
            .map_err(resources::refused)?
    }
}

/// The error when neither the server nor the client determines a project.
fn no_project() -> ToolFailure {
    let message =
        "the server was started in no project, and the client does not say which one it works in";
    ToolFailure::new(ErrorTitle::ProjectNotFound, Code::NotAProject, message)
        .with_suggestion("call the tools with `project_path`, or start the server in a project")
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let offered = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources();
        let capabilities = offered.enable_completions().build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("piton", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        asked: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (tools, next) = page("tools", toolbox::tools(), asked)?;
        let mut listed = ListToolsResult::with_all_items(tools);
        listed.next_cursor = next;
        Ok(listed)
    }

    async fn list_resources(
        &self,
        asked: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.read(context, move |projects, project| {
            resources::list(projects, project, asked)
        })
        .await
    }

    async fn list_resource_templates(
        &self,
        asked: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        resources::templates(asked)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.read(context, move |projects, project| {
            resources::read(projects, project, &request.uri)
        })
        .await
        .map(Into::into)
    }

    async fn list_prompts(
        &self,
        asked: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.read(context, move |projects, project| {
            prompts::list(projects, project, asked)
        })
        .await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.read(context, move |projects, project| {
            prompts::get(projects, project, &request.name, request.arguments)
        })
        .await
        .map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.read(context, move |projects, project| {
            completions::complete(projects, project, &request)
        })
        .await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let asked = match &*request.name {
            "execute" => digest_of(&request.name, request.arguments.as_ref()),
            // The other tools never ask the client anything.
            _ => String::new(),
        };
        let (answered, state) = (request.input_responses, request.request_state);
        let caller = Caller {
            request: context,
            answered,
            state,
            asked,
        };
        let projects = Arc::clone(&self.projects);
        let given = match &*request.name {
            "help" => request.arguments,
            _ => match roots::fill(&projects, &caller, request.arguments).await {
                FilledArguments::Arguments(given) => given,
                FilledArguments::Asked(question) => return Ok((*question).into()),
            },
        };
        let project = given
            .as_ref()
            .and_then(|given| given.get("project_path")?.as_str().map(str::to_owned));
        let answered = match &*request.name {
            // Returned directly: a thread and the later processing would take longer than the page.
            "help" => match CallArguments::new(given, &help::ARGUMENTS)
                .and_then(|arguments| help::answer(&arguments))
            {
                Ok(page) => return Ok(page.into()),
                Err(failure) => Err(failure),
            },
            "search" => match CallArguments::new(given, &search::ARGUMENTS) {
                Ok(arguments) => {
                    caller
                        .work(move |_| search::answer(&projects, &arguments))
                        .await
                }
                Err(failure) => Err(failure),
            },
            "load" => match CallArguments::new(given, &load::ARGUMENTS) {
                Ok(arguments) => {
                    caller
                        .work(move |work| load::answer(&projects, &arguments, &work))
                        .await
                }
                Err(failure) => Err(failure),
            },
            "execute" => match CallArguments::new(given, &execute::ARGUMENTS) {
                Ok(arguments) => match execute::answer(&projects, arguments, &caller).await {
                    Ok(CallReply::Asked(question)) => return Ok((*question).into()),
                    Ok(CallReply::Done(answer)) => Ok(answer),
                    Err(failure) => Err(failure),
                },
                Err(failure) => Err(failure),
            },
            other => {
                return Err(ErrorData::invalid_params(
                    format!("there is no tool `{other}`; there are search, load, execute and help"),
                    None,
                ));
            }
        };
        let answer = hints::answer_for_agents(answered.unwrap_or_else(ToolAnswer::from));
        let answer = size::fit(answer, &self.projects, &request.name, project.as_deref());
        Ok(CallToolResult::from(answer).into())
    }
}

/// The hash of a call, independent of the order of its arguments.
fn digest_of(tool: &str, arguments: Option<&JsonObject>) -> String {
    let mut text = format!("{tool}\n");
    canonical(
        &Value::Object(arguments.cloned().unwrap_or_default()),
        &mut text,
    );
    digest(&text)
}
