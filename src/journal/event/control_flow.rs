//! Events about how a directive continues: hooks, failures, waits.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::path::RepoPath;
use crate::journal::summary::RunStatus;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPhase {
    Before,
    /// After a step that succeeded.
    After,
    /// After a step that failed.
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// The step is tried again.
    Retry,
    /// The run continues with the next step.
    GoOn,
    /// The directive has failed.
    Stop,
    /// The run has failed; the error handling of its directives is ignored.
    Abort,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Wait {
    /// Work of an agent or a person.
    Work {
        #[serde(default)]
        instruction: String,
        /// What to check afterwards.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        checks: Vec<String>,
        /// Changed files that the directive does not allow to change.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outside: Vec<RepoPath>,
        /// Why a person sent the step back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rejected: Option<String>,
    },
    /// A person's approval or rejection.
    Person {
        /// `human-verify`, `decision` or `human-action`.
        gate: String,
        #[serde(default)]
        question: String,
    },
    /// A decision whether the changes of the step are kept.
    Changes,
    /// A decision whether an interrupted call that cannot be undone is made again.
    Indeterminate { reason: String },
    /// A wait of a newer piton.
    #[serde(other)]
    Unknown,
}

/// Where a run that had ended starts again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    pub ended: RunStatus,
    /// The nesting depth of the directive: 1 is the directive of the run.
    pub depth: usize,
    /// The name of the step that runs the innermost directive; empty for the directive of the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub within: String,
    /// The name of the step in the innermost directive; empty when all steps are done and the
    /// directive only has to end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// The index of the list element, counted from 0, if the run stays inside a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<usize>,
    /// Earlier steps of the directive that were never done and are not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
    /// Whether the step itself is not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip: bool,
    /// The result that the caller supplies for a step that is done and therefore not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

impl Restart {
    /// The steps that are not run, each with the reason.
    pub fn not_run(&self) -> impl Iterator<Item = (String, &'static str)> {
        let passed_over = self
            .passed_over
            .iter()
            .map(|name| (self.full(name), "the run began again after it"));
        let own = (self.skip && self.result.is_none())
            .then(|| (self.position(), "skipped after it had failed"));
        passed_over.chain(own)
    }

    /// The full name of the step, e.g. `release/build[2]`.
    pub fn position(&self) -> String {
        let element = self
            .element
            .map(|element| format!("[{element}]"))
            .unwrap_or_default();
        self.full(&format!("{}{element}", self.step))
    }

    fn full(&self, name: &str) -> String {
        if self.within.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.within)
        }
    }
}

/// An item that has changed since the run pinned it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedItem {
    /// `directive` or `tool`.
    pub kind: String,
    /// The id that the run asks for.
    pub id: String,
    /// The pinned sha256; none if the run did not use the item before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The current sha256; none if the run no longer uses the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}
