//! rmcp's own server with one tool that answers what it is told: what `benches/mcp.rs` measures piton against.
//!
//!     echo            rmcp's pipe transport, nothing of piton
//!     echo guarded    the same tool behind piton's stack and transport

use std::error::Error;
use std::sync::Arc;

use piton::mcp::stack::Stack;
use piton::mcp::stdio;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::json;

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("echo", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object", "properties": { "message": { "type": "string" } } });
        let schema = schema.as_object().cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new(
            "echo",
            "Answers what it is told",
            schema,
        )]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let message = arguments
            .get("message")
            .and_then(|message| message.as_str())
            .unwrap_or_default();
        Ok(CallToolResult::success(vec![ContentBlock::text(message)]).into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let is_guarded = std::env::args().any(|argument| argument == "guarded");
    runtime.block_on(async {
        if is_guarded {
            stdio::serve(Arc::new(Stack::new(Echo))).await?;
        } else {
            Echo.serve(rmcp::transport::stdio_pipes())
                .await?
                .waiting()
                .await?;
        }
        Ok(())
    })
}
