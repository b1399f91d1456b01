//! What clients see: the tools, and who answers their calls.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use super::answer::Answer;
use super::arguments::Arguments;
use super::call::{Caller, Reply};
use super::desk::Desk;
use super::{execute, help, load, search, size, toolbox};

/// What an agent reads first.
const INSTRUCTIONS: &str = "piton runs tools and directives of a project with checkpoints: what changes is committed, \
kept or put back, and can be undone. Find items with `search`, read them with `load`, run them with `execute`. A directive \
may stop at a step for you: do what `instruction` says, then call `execute` with `action: \"continue\"`. After edits of your own, run \
the directive `git_checkpoint`. `help` explains more.";

/// The server of piton.
#[derive(Clone, Debug)]
pub struct Server {
    desk: Arc<Desk>,
}

impl Server {
    /// A server over some projects.
    pub fn new(desk: Desk) -> Self {
        let desk = Arc::new(desk);
        desk.look_around();
        Self { desk }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("piton", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(toolbox::tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = Caller { request: context, answered: request.input_responses, state: request.request_state };
        let desk = Arc::clone(&self.desk);
        let given = request.arguments;
        let project = given.as_ref().and_then(|given| given.get("project_path")?.as_str().map(str::to_owned));
        let answered = match &*request.name {
            // Handed out at once: a thread would take longer than the page.
            "help" => Arguments::new(given, &help::ARGUMENTS).and_then(|arguments| help::answer(&arguments)),
            "search" => match Arguments::new(given, &search::ARGUMENTS) {
                Ok(arguments) => caller.work(move |_| search::answer(&desk, &arguments)).await,
                Err(failure) => Err(failure),
            },
            "load" => match Arguments::new(given, &load::ARGUMENTS) {
                Ok(arguments) => caller.work(move |work| load::answer(&desk, &arguments, &work)).await,
                Err(failure) => Err(failure),
            },
            "execute" => match Arguments::new(given, &execute::ARGUMENTS) {
                Ok(arguments) => match execute::answer(&desk, arguments, &caller).await {
                    Ok(Reply::Asked(question)) => return Ok((*question).into()),
                    Ok(Reply::Done(answer)) => Ok(answer),
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
        let answer = answered.unwrap_or_else(Answer::from);
        let answer = size::fit(answer, &self.desk, &request.name, project.as_deref());
        Ok(CallToolResult::from(answer).into())
    }
}
