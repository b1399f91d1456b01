//! The result of a tool call: JSON, sent as text and as structured content.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

use super::failure::Failure;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The result, or a description of the error.
    pub(crate) value: Value,
    pub(crate) kind: AnswerKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    Result,
    Error,
}

impl Answer {
    pub(crate) fn result(value: &impl Serialize) -> Result<Self, Failure> {
        let value = serde_json::to_value(value).map_err(|err| Failure::internal(&err))?;
        Ok(Self { value, kind: AnswerKind::Result })
    }

    /// An error in the same shape as the result of the call.
    pub(crate) fn error(value: &impl Serialize) -> Result<Self, Failure> {
        Ok(Self { kind: AnswerKind::Error, ..Self::result(value)? })
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self { value: failure.into_value(), kind: AnswerKind::Error }
    }
}

impl From<Answer> for CallToolResult {
    fn from(answer: Answer) -> Self {
        let text = vec![ContentBlock::text(answer.value.to_string())];
        let mut result = match answer.kind {
            AnswerKind::Result => Self::success(text),
            AnswerKind::Error => Self::error(text),
        };
        result.structured_content = Some(answer.value);
        result
    }
}
