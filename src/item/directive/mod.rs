//! Directives: Markdown files with one XML block that describes a workflow.
//!
//! [`Directive`] is the parsed, immutable form; every part knows its place in the file. [`parse()`]
//! goes from `block` (finding it in the Markdown) over `scan` (guarding and mending) and `xml` (the
//! tree) to a reader per part: `metadata`, `grant`, `inputs`, `steps` with `action`, `outputs`.
//! `reference` checks placeholders last, when all names are known.

mod access;
mod action;
mod block;
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
use super::place::Place;

pub use access::{Access, Grant};
pub use parse::parse;

/// A workflow.
#[derive(Clone, Debug, Serialize)]
pub struct Directive {
    /// Its id.
    pub name: ItemId,
    /// Its version.
    pub version: String,
    /// What it is for; may be empty.
    pub description: String,
    /// Its category; may be empty.
    pub category: String,
    /// Who wrote it; may be empty.
    pub author: String,
    /// The model it asks for.
    pub model: Option<Model>,
    /// When its changes are checkpointed, where it says so.
    pub git_checkpoint: GitCheckpoint,
    /// What it allows.
    pub permissions: Vec<Grant>,
    /// Other directives it names.
    pub relationships: Relationships,
    /// Where it stops.
    pub limits: Vec<Limit>,
    /// What runs beside its steps.
    pub hooks: Vec<Hook>,
    /// Text of `<context>`, as written.
    pub context: Option<String>,
    /// What it must be given.
    pub inputs: Vec<Input>,
    /// The JSON Schema of its inputs, explicit or made from `inputs`.
    pub input_schema: Value,
    /// What it does.
    pub steps: Vec<Step>,
    /// What it returns.
    pub outputs: Outputs,
    /// When it has succeeded, in words.
    pub success_criteria: Vec<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Elements that are known and only inform, as written: `context_budget`, `mcps`, `tools`, `cost`, …
    pub notes: Vec<Extra>,
    /// Elements that are not known, as written.
    pub unknown: Vec<Extra>,
    /// Where its element begins.
    #[serde(skip)]
    pub place: Place,
}

/// The model a directive asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Model {
    /// `fast`, `balanced`, `general`, `reasoning`, `expert`, `orchestrator`, or what the file says.
    pub tier: Option<String>,
    /// The tier to fall back to.
    pub fallback: Option<String>,
    /// Whether steps may run in parallel.
    pub parallel: Option<bool>,
    /// The id of a model.
    pub id: Option<String>,
    /// Why, in words.
    pub reasoning: Option<String>,
    /// Where it stands.
    pub place: Place,
}

/// When changes are checkpointed.
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

impl CheckpointMode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Explicit, Self::Disabled];

    /// The mode as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Explicit => "explicit",
            Self::Disabled => "disabled",
        }
    }

    /// The mode of a word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

/// What happens with the changes of a step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Undo them and stop.
    Rollback,
    /// Leave them and stop.
    Keep,
    /// Leave them and go on.
    Continue,
    /// Stop at once.
    Abort,
    /// Undo them and everything else that the run did. Only a directive can say it, for the run that it is.
    RollbackRun,
}

/// The `<git_checkpoint>` element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GitCheckpoint {
    /// The mode, where given.
    pub mode: Option<CheckpointMode>,
    /// The failure policy, where given.
    pub on_failure: Option<OnFailure>,
}

/// Other directives a directive names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Relationships {
    /// Must exist.
    pub requires: Vec<String>,
    /// May help.
    pub suggests: Vec<String>,
    /// Builds on.
    pub extends: Vec<String>,
    /// Is near.
    pub related: Vec<String>,
}

/// One limit of a run, e.g. `turns` 20.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// What is limited: `steps`, `tool_calls`, `duration_seconds`, `spend`, `turns`, `tokens`, …
    pub name: String,
    /// How much of it.
    pub value: f64,
    /// Its unit, e.g. `USD`.
    pub unit: Option<String>,
    /// Where it stands.
    pub place: Place,
}

/// A directive that runs beside the steps when an expression holds.
#[derive(Clone, Debug, Serialize)]
pub struct Hook {
    /// The expression.
    pub when: String,
    /// The directive.
    pub directive: String,
    /// Its inputs, by name.
    pub inputs: Vec<Param>,
    /// Where it stands.
    pub place: Place,
}

/// One input of a directive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its JSON type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it must be given.
    pub required: bool,
    /// What is used when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The values it may have.
    #[serde(skip_serializing_if = "Vec::is_empty", rename = "enum")]
    pub choices: Vec<Value>,
    /// The pattern its text must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// What it means.
    pub description: String,
    /// Where it stands.
    #[serde(skip)]
    pub place: Place,
}

/// One step.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Its name, unique in the directive.
    pub name: String,
    /// What it is for; may be empty.
    pub description: String,
    /// What it does.
    pub action: StepAction,
    /// What to look at afterwards, in words.
    pub verification: Vec<String>,
    /// Runs only when this expression holds.
    pub when: Option<String>,
    /// Runs once for each element of this list.
    pub foreach: Option<String>,
    /// What the element is called inside.
    #[serde(rename = "as")]
    pub element: Option<String>,
    /// How often a failure is tried again.
    pub retry: Option<Retry>,
    /// How long it may take, in seconds.
    pub timeout: Option<f64>,
    /// What a failure leads to.
    pub on_failure: Option<OnFailure>,
    /// Where it stands.
    pub place: Place,
}

/// How often and how patiently a failed step is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Retry {
    /// How many more times.
    pub count: u32,
    /// How long to wait before the first repetition, in seconds; doubles each time.
    pub backoff: f64,
}

/// What a step does.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepAction {
    /// Runs a tool.
    Tool {
        /// The tool.
        item_id: String,
        /// The command of a tool that offers several.
        command: Option<String>,
        /// Its parameters.
        params: Vec<Param>,
    },
    /// Runs another directive.
    Directive {
        /// The directive.
        item_id: String,
        /// Its inputs.
        params: Vec<Param>,
    },
    /// Commits what was done since the last checkpoint.
    Checkpoint {
        /// What was done, in words.
        operation: String,
        /// The commit message, where one is given.
        message: Option<String>,
    },
    /// Searches, loads, signs or migrates items.
    Item {
        /// `search`, `load`, `sign` or `migrate`.
        verb: String,
        /// Attributes and parameters.
        params: Vec<Param>,
    },
    /// Waits for a person.
    Human {
        /// `human-verify`, `decision` or `human-action`.
        gate: String,
        /// What the person is asked.
        question: String,
    },
    /// Work for an agent or a person, in words.
    Prose {
        /// The instruction, indentation kept.
        instruction: String,
        /// Texts that go with it as they are written: templates and examples, in which no placeholder is filled in.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        quoted: Vec<String>,
    },
}

/// A named value; text may hold placeholders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its value, as written.
    pub value: String,
    /// Where the value stands.
    #[serde(skip)]
    pub place: Place,
}

/// What a directive returns.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outputs {
    /// When it succeeded.
    pub success: Vec<OutputField>,
    /// When it failed.
    pub failure: Vec<OutputField>,
    /// Text that declares and assigns nothing, as written.
    pub prose: Vec<String>,
}

/// `name: type` declares, `name: {template}` assigns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutputField {
    /// Its name.
    pub name: String,
    /// The type or template, as written.
    pub value: String,
    /// Where it stands.
    #[serde(skip)]
    pub place: Place,
}

/// An element that is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Extra {
    /// Its path, e.g. `metadata/cost`.
    pub path: String,
    /// Its content, as written.
    pub content: String,
    /// Where it stands.
    #[serde(skip)]
    pub place: Place,
}
