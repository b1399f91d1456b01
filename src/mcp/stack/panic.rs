//! Answers for a handler that panics.
//!
//! rmcp runs each request as a task; if the task panics, the client never gets an answer. Catching
//! the panic while the future is polled costs nothing otherwise.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;

use crate::item::wording;
use crate::problem::Code;

const SUGGESTION: &str =
    "this is a bug: please report it; the server goes on, and other calls are not affected";

/// The message of a panic.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Panic(String);

impl Panic {
    fn of(payload: &(dyn Any + Send)) -> Self {
        let words = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self(wording::shown(words.unwrap_or("it did not say why")))
    }

    /// The answer to a request that is not a tool call.
    pub(super) fn into_error(self) -> ErrorData {
        ErrorData::internal_error(
            format!("the server panicked: {}", self.0),
            Some(json!({ "suggestion": SUGGESTION })),
        )
    }

    /// The answer to a tool call, in the same shape as every failed call.
    pub(super) fn into_result(self, tool: &str) -> CallToolResult {
        let tool = wording::shown(tool);
        let body = json!({
            "error": "Internal error",
            "code": Code::Internal,
            "message": format!("`{tool}` panicked: {}", self.0),
            "suggestion": SUGGESTION,
        });
        let mut result = CallToolResult::error(vec![ContentBlock::text(body.to_string())]);
        result.structured_content = Some(body);
        result
    }
}

/// Awaits a future and catches its panic.
pub(super) async fn caught<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => Poll::Pending,
            // A future that has panicked must not be polled again.
            Err(payload) => Poll::Ready(Err(Panic::of(payload.as_ref()))),
        },
    )
    .await
}

/// Calls a function; none if it panics.
pub(super) fn attempted<T>(function: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or(None)
}
