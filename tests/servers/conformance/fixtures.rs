//! The handler that the suite talks to.

#![expect(
    deprecated,
    reason = "the suite tries logging, sampling and subscriptions of 2025-11-25"
)]

use std::sync::Mutex;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    ContentBlock, CreateMessageRequestParams, ElicitRequestParams, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel,
    LoggingMessageNotificationParam, PaginatedRequestParams, ProgressNotificationParam,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    RequestStateCodec, SamplingMessage, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::questions::{self, Outcome, Round};
use crate::shelf;

/// What changed, for those who listen.
#[derive(Clone, Copy, Debug)]
enum Change {
    Tools,
    Prompts,
}

/// The fixtures of the suite.
pub(crate) struct Fixtures {
    codec: RequestStateCodec,
    changes: broadcast::Sender<Change>,
    level: Mutex<LoggingLevel>,
}

/// Reads JSON as what rmcp has for it.
pub(crate) fn read_as<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|err| ErrorData::internal_error(err.to_string(), None))
}

/// The same for results, which say that they are complete. rmcp takes the word away for older clients.
fn result_as<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = json!("complete");
    read_as(value)
}

impl Fixtures {
    pub(crate) fn new() -> Self {
        let codec = RequestStateCodec::new("the key of a server that lives as long as a test");
        Self {
            codec,
            changes: broadcast::channel(16).0,
            level: Mutex::new(LoggingLevel::Debug),
        }
    }

    /// Writes three log messages, as far as the client wants them.
    async fn log(&self, context: &RequestContext<RoleServer>) {
        if is_modern(context) && context.meta.log_level().is_none() {
            return;
        }
        for text in [
            "Tool execution started",
            "Tool processing data",
            "Tool execution completed",
        ] {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(text));
            let _ = context.peer.notify_logging_message(message).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn progress(&self, context: &RequestContext<RoleServer>) {
        for done in [0.0, 50.0, 100.0] {
            if let Some(token) = context.meta.get_progress_token() {
                let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
                let _ = context.peer.notify_progress(progress).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn elicit(
        &self,
        context: &RequestContext<RoleServer>,
        message: &str,
        schema: Value,
    ) -> Result<String, ErrorData> {
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: message.to_owned(),
            requested_schema: read_as(schema)?,
        };
        Ok(match context.peer.create_elicitation(params).await {
            Ok(answer) => {
                let answer = json!(answer);
                format!(
                    "User response: action={}, content={}",
                    answer["action"], answer["content"]
                )
            }
            Err(err) => return Err(ErrorData::internal_error(err.to_string(), None)),
        })
    }
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("piton-conformance", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        result_as(shelf::tools())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tools: ListToolsResult = result_as(shelf::tools()).ok()?;
        tools.tools.into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(answer) = shelf::answer(&request.name) {
            return Ok(result_as::<CallToolResult>(answer)?.into());
        }
        let client = context.client_capabilities().unwrap_or_default();
        let round = Round {
            answers: request.input_responses.as_ref(),
            state: request.request_state.as_deref(),
            codec: &self.codec,
        };
        match round.tool(&request.name, &client)? {
            Some(Outcome::Asked(question)) => return Ok(question.into()),
            Some(Outcome::Told(text)) => return Ok(text_result(text).into()),
            None => {}
        }
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let argument = |name: &str| {
            arguments
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let text = match request.name.as_ref() {
            "test_tool_with_logging" | "test_logging_tool" => {
                self.log(&context).await;
                "Logged.".to_owned()
            }
            "test_tool_with_progress" => {
                self.progress(&context).await;
                "Done.".to_owned()
            }
            "test_sampling" => {
                let messages = vec![SamplingMessage::user_text(argument("prompt"))];
                let answer = context
                    .peer
                    .create_message(CreateMessageRequestParams::new(messages, 100))
                    .await;
                let answer =
                    answer.map_err(|err| ErrorData::internal_error(err.to_string(), None))?;
                format!("LLM response: {}", json!(answer)["content"]["text"])
            }
            "test_elicitation" => {
                self.elicit(&context, argument("message"), questions::for_user())
                    .await?
            }
            "test_elicitation_sep1034_defaults" => {
                self.elicit(
                    &context,
                    "Please look at the defaults",
                    questions::with_defaults(),
                )
                .await?
            }
            "test_elicitation_sep1330_enums" => {
                self.elicit(&context, "Please choose", questions::with_choices())
                    .await?
            }
            "test_missing_capability" => {
                if client.sampling.is_none() {
                    let needed = read_as(json!({ "sampling": {} }))?;
                    return Err(ErrorData::missing_required_client_capability(needed));
                }
                "The client samples.".to_owned()
            }
            "test_trigger_tool_change" => {
                let _ = self.changes.send(Change::Tools);
                "The tools have changed.".to_owned()
            }
            "test_trigger_prompt_change" => {
                let _ = self.changes.send(Change::Prompts);
                "The prompts have changed.".to_owned()
            }
            name => {
                return Err(ErrorData::invalid_params(
                    format!("there is no tool `{name}`"),
                    None,
                ));
            }
        };
        Ok(text_result(text).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        result_as(shelf::resources())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        result_as(shelf::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match shelf::resource(&request.uri) {
            Some(resource) => Ok(result_as::<ReadResourceResult>(resource)?.into()),
            None => Err(ErrorData::resource_not_found(
                "Resource not found",
                Some(json!({ "uri": request.uri })),
            )),
        }
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = context.cancelled() => return Ok(()),
            };
            // What the client did not ask for is an error here, and nothing is sent.
            let _ = match change {
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => context.sink().notify_prompt_list_changed().await,
                Err(_) => continue,
            };
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        result_as(shelf::prompts())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name == "test_input_required_result_prompt" {
            let round = Round {
                answers: request.input_responses.as_ref(),
                state: None,
                codec: &self.codec,
            };
            return Ok(match round.prompt()? {
                Outcome::Asked(question) => question.into(),
                Outcome::Told(text) => {
                    let said =
                        json!({ "role": "user", "content": { "type": "text", "text": text } });
                    result_as::<GetPromptResult>(json!({ "messages": [said] }))?.into()
                }
            });
        }
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        match shelf::prompt(&request.name, &arguments) {
            Some(prompt) => Ok(result_as::<GetPromptResult>(prompt)?.into()),
            None => Err(ErrorData::invalid_params(
                format!("there is no prompt `{}`", request.name),
                None,
            )),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let words = ["paris", "park", "party", "test"].into_iter();
        let fitting: Vec<&str> = words
            .filter(|word| word.starts_with(&request.argument.value))
            .collect();
        let total = fitting.len();
        result_as(json!({ "completion": { "values": fitting, "total": total, "hasMore": false } }))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if let Ok(mut level) = self.level.lock() {
            *level = request.level;
        }
        Ok(())
    }
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn text_result(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}
