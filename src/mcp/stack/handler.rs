//! Forwards every method of rmcp's handler through the protection.
//!
//! Requests that may take long (calls, lists, reads) count against the limit. Handshakes, pings and
//! task requests do not, so a busy server still answers pings and can be told to stop.

#![expect(
    deprecated,
    reason = "clients of 2025-11-25 still subscribe to resources and set log levels"
)]

use std::borrow::Cow;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
    CompleteRequestParams, CompleteResult, CustomNotification, CustomRequest, CustomResult,
    DiscoverResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
    SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};

use super::Stack;
use super::panic::{attempted, caught};

/// Requests that count against the limit.
macro_rules! placed {
    ($($method:ident($request:ty) -> $answer:ty;)*) => {$(
        async fn $method(
            &self,
            request: $request,
            context: RequestContext<RoleServer>,
        ) -> Result<$answer, ErrorData> {
            let _call = self.begin(&context.ct)?;
            let _place = self.place(&context.ct).await?;
            match caught(async { self.handler.$method(request, context).await }).await {
                Ok(answer) => answer,
                Err(panic) => Err(panic.into_error()),
            }
        }
    )*};
}

/// Requests that are answered at once, even if the server is busy.
macro_rules! prompt {
    ($($method:ident($($request:ident: $type:ty)?) -> $answer:ty;)*) => {$(
        async fn $method(
            &self,
            $($request: $type,)?
            context: RequestContext<RoleServer>,
        ) -> Result<$answer, ErrorData> {
            match caught(async { self.handler.$method($($request,)? context).await }).await {
                Ok(answer) => answer,
                Err(panic) => Err(panic.into_error()),
            }
        }
    )*};
}

/// Notifications, which have no answer.
macro_rules! noted {
    ($($method:ident($($notification:ident: $type:ty)?);)*) => {$(
        async fn $method(&self, $($notification: $type,)? context: NotificationContext<RoleServer>) {
            let _ = caught(async { self.handler.$method($($notification,)? context).await }).await;
        }
    )*};
}

impl<H: ServerHandler> ServerHandler for Stack<H> {
    placed! {
        complete(CompleteRequestParams) -> CompleteResult;
        get_prompt(GetPromptRequestParams) -> GetPromptResponse;
        list_prompts(Option<PaginatedRequestParams>) -> ListPromptsResult;
        list_resources(Option<PaginatedRequestParams>) -> ListResourcesResult;
        list_resource_templates(Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
        read_resource(ReadResourceRequestParams) -> ReadResourceResponse;
        list_tools(Option<PaginatedRequestParams>) -> ListToolsResult;
    }

    prompt! {
        ping() -> ();
        initialize(request: InitializeRequestParams) -> InitializeResult;
        discover() -> DiscoverResult;
        subscribe(request: SubscribeRequestParams) -> ();
        unsubscribe(request: UnsubscribeRequestParams) -> ();
        get_task(request: GetTaskParams) -> GetTaskResult;
        update_task(request: UpdateTaskParams) -> ();
        cancel_task(request: CancelTaskParams) -> ();
    }

    noted! {
        on_cancelled(notification: CancelledNotificationParam);
        on_progress(notification: ProgressNotificationParam);
        on_initialized();
        on_roots_list_changed();
        on_custom_notification(notification: CustomNotification);
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _call = self.begin(&context.ct)?;
        let _place = self.place(&context.ct).await?;
        let name = request.name.clone();
        match caught(async { self.handler.call_tool(request, context).await }).await {
            Ok(answer) => answer,
            Err(panic) => Ok(panic.into_result(&name).into()),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // rmcp reports a known method with invalid parameters as an unknown method.
        let method = request.method.as_str();
        if METHODS.contains(&method) || (LEGACY_METHODS.contains(&method) && !is_modern(&context)) {
            let message = format!(
                "the parameters of `{}` are missing or do not have its shape",
                request.method
            );
            return Err(ErrorData::invalid_params(message, None));
        }
        let _call = self.begin(&context.ct)?;
        let _place = self.place(&context.ct).await?;
        match caught(async { self.handler.on_custom_request(request, context).await }).await {
            Ok(answer) => answer,
            Err(panic) => Err(panic.into_error()),
        }
    }

    // 2026-07-28 removed this method, but rmcp still passes it to the handler.
    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        match caught(async { self.handler.set_level(request, context).await }).await {
            Ok(answer) => answer,
            Err(panic) => Err(panic.into_error()),
        }
    }

    // A subscription lasts as long as its client wants, so it does not count as a running call, and
    // a shutdown does not wait for it.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            outcome = caught(async { self.handler.listen(context).await }) => match outcome {
                Ok(answer) => answer,
                Err(panic) => Err(panic.into_error()),
            },
            () = self.end.cancelled() => Ok(()),
        }
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        attempted(|| self.handler.accepted_subscription_filter(requested))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        attempted(|| self.handler.get_tool(name))
    }

    fn negotiate_initialize(
        &self,
        request: &InitializeRequestParams,
    ) -> Result<InitializeResult, ErrorData> {
        self.handler.negotiate_initialize(request)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.handler.supported_protocol_versions()
    }

    fn get_info(&self) -> ServerConfig {
        self.handler.get_info()
    }
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// The requests that a server knows.
const METHODS: [&str; 13] = [
    "server/discover",
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
];

/// Requests that only 2025-11-25 clients send.
const LEGACY_METHODS: [&str; 5] = [
    "ping",
    "initialize",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
];
