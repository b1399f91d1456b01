//! Directives: Markdown files with one XML block that describes a workflow.
//!
//! [`Directive`] is the parsed, immutable form; every part has its position in the file.
//! [`parse()`] uses `block` (finds it in the Markdown), `scan` (guards and repairs), `xml` (the
//! tree) and a reader per part: `metadata`, `grant`, `inputs`, `steps` with `action` and `call`, `outputs`.
//! `reference` checks placeholders last, when all names are known.

mod access;
mod action;
mod block;
mod call;
mod grant;
mod inputs;
mod lexeme;
mod metadata;
mod outputs;
mod params;
mod parse;
mod pattern;
mod quantity;
mod quote;
mod reading;
mod reference;
mod scan;
mod steps;
mod xml;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::id::ItemId;
use super::position::Position;
use crate::words::words;

pub use access::{Access, Grant};
pub use parse::parse;

#[derive(Clone, Debug, Serialize)]
pub struct Directive {
    pub name: ItemId,
    pub version: String,
    /// May be empty.
    pub description: String,
    /// May be empty.
    pub category: String,
    /// May be empty.
    pub author: String,
    pub model: Option<Model>,
    /// `None` fields where the directive does not say.
    pub git_checkpoint: CheckpointSettings,
    pub permissions: Vec<Grant>,
    pub relationships: Relationships,
    pub limits: Vec<Limit>,
    /// Directives that run beside its steps.
    pub hooks: Vec<DirectiveHook>,
    /// Text of `<context>`, as written.
    pub context: Option<String>,
    pub inputs: Vec<DirectiveInput>,
    /// The JSON Schema of its inputs, explicit or made from `inputs`.
    pub input_schema: Value,
    pub steps: Vec<Step>,
    pub outputs: DirectiveOutputs,
    /// As sentences.
    pub success_criteria: Vec<String>,
    pub tags: Vec<String>,
    /// Known elements that are only informative, as written: `context_budget`, `mcps`, `tools`,
    /// `cost`, …
    pub notes: Vec<Extra>,
    /// Unknown elements, as written.
    pub unknown: Vec<Extra>,
    #[serde(skip)]
    pub place: Position,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Model {
    /// `fast`, `balanced`, `general`, `reasoning`, `expert`, `orchestrator`, or what the file says.
    pub tier: Option<String>,
    pub fallback: Option<String>,
    pub parallel: Option<bool>,
    pub id: Option<String>,
    pub reasoning: Option<String>,
    pub place: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointMode {
    /// After each mutating tool call.
    Auto,
    /// At checkpoint steps only.
    Explicit,
    /// Never.
    Disabled,
}

words!(CheckpointMode: Auto "auto", Explicit "explicit", Disabled "disabled");

/// What happens with the changes of a failed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Roll them back and stop.
    Rollback,
    /// Keep them and stop.
    Keep,
    /// Keep them and go on.
    Continue,
    Abort,
    /// Roll back everything that the run did. Only the run's own directive can set it.
    RollbackRun,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckpointSettings {
    pub mode: Option<CheckpointMode>,
    pub on_failure: Option<OnFailure>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Relationships {
    /// Must exist.
    pub requires: Vec<String>,
    pub suggests: Vec<String>,
    pub extends: Vec<String>,
    pub related: Vec<String>,
}

/// One limit of a run, e.g. `turns` 20.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// `steps`, `tool_calls`, `duration_seconds`, `spend`, `turns`, `tokens`, …
    pub name: String,
    pub value: f64,
    /// For example `USD`.
    pub unit: Option<String>,
    pub place: Position,
}

/// A directive that runs beside the steps when an expression holds.
#[derive(Clone, Debug, Serialize)]
pub struct DirectiveHook {
    pub when: String,
    pub directive: String,
    pub inputs: Vec<Param>,
    pub place: Position,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectiveInput {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty", rename = "enum")]
    pub choices: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    pub description: String,
    #[serde(skip)]
    pub place: Position,
}

#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Unique in the directive.
    pub name: String,
    /// May be empty.
    pub description: String,
    pub action: StepAction,
    /// What to check afterwards, as sentences.
    pub verification: Vec<String>,
    /// Runs only if this expression is true.
    pub when: Option<String>,
    /// Runs once for each element of this list.
    pub foreach: Option<String>,
    /// The name of the element inside the step.
    #[serde(rename = "as")]
    pub element: Option<String>,
    pub retry: Option<Retry>,
    /// In seconds.
    pub timeout: Option<f64>,
    pub on_failure: Option<OnFailure>,
    pub place: Position,
}

/// How often a failed step is retried, and how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Retry {
    /// The number of retries.
    pub count: u32,
    /// The wait before the first retry, in seconds; doubles each time.
    pub backoff: f64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepAction {
    Tool {
        item_id: String,
        /// For a tool with several commands.
        command: Option<String>,
        params: Vec<Param>,
    },
    Directive {
        item_id: String,
        params: Vec<Param>,
    },
    /// Commits the work since the last checkpoint.
    Checkpoint {
        /// A description of the work.
        operation: String,
        message: Option<String>,
    },
    Item {
        verb: String,
        /// Attributes and parameters.
        params: Vec<Param>,
    },
    Human {
        /// `human-verify`, `decision` or `human-action`.
        gate: String,
        question: String,
    },
    /// Manual work for an agent or a person.
    Prose {
        /// With its indentation.
        instruction: String,
        /// Templates and examples that belong to it, verbatim: placeholders are not filled in.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        quoted: Vec<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Param {
    pub name: String,
    /// As written.
    pub value: String,
    #[serde(skip)]
    pub place: Position,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectiveOutputs {
    pub success: Vec<OutputField>,
    pub failure: Vec<OutputField>,
    /// Text that is neither a declaration nor an assignment, as written.
    pub prose: Vec<String>,
}

/// `name: type` declares, `name: {template}` assigns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutputField {
    pub name: String,
    /// The type or template, as written.
    pub value: String,
    #[serde(skip)]
    pub place: Position,
}

/// An unknown element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Extra {
    /// For example `metadata/cost`.
    pub path: String,
    pub content: String,
    #[serde(skip)]
    pub place: Position,
}
