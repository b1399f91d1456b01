//! Answering for a handler that panics.
//!
//! rmcp runs each request as a task of its own; one that panics is gone, and its client waits for ever.
//! Catching it where the future is polled costs nothing while all is well.

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

const SUGGESTION: &str = "this is a bug: please report it; the server goes on, and other calls are not affected";

/// What a handler said when it panicked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Panic(String);

impl Panic {
    fn of(payload: &(dyn Any + Send)) -> Self {
        let words =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self(wording::shown(words.unwrap_or("it did not say why")))
    }

    /// The answer to a request that is not a call of a tool.
    pub(super) fn into_error(self) -> ErrorData {
        ErrorData::internal_error(format!("the server panicked: {}", self.0), Some(json!({ "suggestion": SUGGESTION })))
    }

    /// The answer to a call of a tool: one that a model reads, in the shape that every failed call of piton has.
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

/// What a future comes to, or what it said when it panicked.
pub(super) async fn caught<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        // A future that has panicked is not polled again.
        Err(payload) => Poll::Ready(Err(Panic::of(payload.as_ref()))),
    })
    .await
}

/// What a function returns, or nothing when it panicked.
pub(super) fn attempted<T>(function: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or(None)
}
