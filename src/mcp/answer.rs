//! The result of a tool call: JSON, sent as text and as structured content.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

use super::failure::ToolFailure;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolAnswer {
    /// The result, or a description of the error.
    pub(crate) value: Value,
    pub(crate) kind: AnswerKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    Result,
    Error,
}

impl ToolAnswer {
    pub(crate) fn result(value: &impl Serialize) -> Result<Self, ToolFailure> {
        let value = serde_json::to_value(value).map_err(|err| ToolFailure::internal(&err))?;
        Ok(Self {
            value,
            kind: AnswerKind::Result,
        })
    }

    /// An error in the same shape as the result of the call.
    pub(crate) fn error(value: &impl Serialize) -> Result<Self, ToolFailure> {
        Ok(Self {
            kind: AnswerKind::Error,
            ..Self::result(value)?
        })
    }
}

impl From<ToolFailure> for ToolAnswer {
    fn from(failure: ToolFailure) -> Self {
        Self {
            value: failure.into_value(),
            kind: AnswerKind::Error,
        }
    }
}

impl From<ToolAnswer> for CallToolResult {
    fn from(answer: ToolAnswer) -> Self {
        let text = vec![ContentBlock::text(answer.value.to_string())];
        let mut result = match answer.kind {
            AnswerKind::Result => Self::success(text),
            AnswerKind::Error => Self::error(text),
        };
        result.structured_content = Some(answer.value);
        result
    }
}
