//! What a call gives back: JSON, as text and as structured content.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

use super::failure::Failure;

/// What a call gives back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The result, or what went wrong.
    pub(crate) value: Value,
    /// Which of both.
    pub(crate) kind: AnswerKind,
}

/// Whether a call came to what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// It did.
    Result,
    /// It did not, and says why.
    Error,
}

impl Answer {
    /// The result of a call.
    pub(crate) fn result(value: &impl Serialize) -> Result<Self, Failure> {
        let value = serde_json::to_value(value).map_err(|err| Failure::internal(&err))?;
        Ok(Self { value, kind: AnswerKind::Result })
    }

    /// What went wrong, in the shape of the call's own result.
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
