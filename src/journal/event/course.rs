//! How a directive goes on: hooks, failures, waits.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::path::RepoPath;
use crate::journal::summary::RunStatus;

/// At which moment a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPhase {
    /// Before a step.
    Before,
    /// After a step that succeeded.
    After,
    /// After a step that failed.
    Error,
}

/// How a run goes on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// The step is tried again.
    Retry,
    /// The next step follows.
    GoOn,
    /// The directive has failed.
    Stop,
    /// The run has failed, whatever its directives say about failures.
    Abort,
}

/// What a step waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Wait {
    /// Work of an agent or a person.
    Work {
        /// What is to be done.
        #[serde(default)]
        instruction: String,
        /// What to look at afterwards.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        checks: Vec<String>,
        /// Files that changed and that the directive does not allow to change.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outside: Vec<RepoPath>,
        /// Why a person sent the step back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rejected: Option<String>,
    },
    /// The word of a person: yes or no.
    Person {
        /// `human-verify`, `decision` or `human-action`.
        gate: String,
        /// What the person is asked.
        #[serde(default)]
        question: String,
    },
    /// Whether the changes of the step are kept.
    Changes,
    /// Whether a call that was cut off, and cannot be undone, is made again.
    Indeterminate {
        /// What is not known.
        reason: String,
    },
    /// Something that a newer piton waits for.
    #[serde(other)]
    Unknown,
}

/// Where a run that had ended begins again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// How the run had ended.
    pub ended: RunStatus,
    /// How many directives are inside each other at that place: 1 is the directive of the run.
    pub depth: usize,
    /// The name of the step that runs the innermost of them; empty for the directive of the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub within: String,
    /// The name of the step in the innermost of them; empty when all steps are done and the directive only has to end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// The element of the list, counted from 0, where the step stays inside its loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<usize>,
    /// Steps of that directive that come before the step, were never done, and are not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
    /// The step itself is not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip: bool,
    /// What the step returned, as the caller says, where it is not run because it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

impl Restart {
    /// The steps that are not run, and why.
    pub fn not_run(&self) -> impl Iterator<Item = (String, &'static str)> {
        let passed_over = self.passed_over.iter().map(|name| (self.full(name), "the run began again after it"));
        let own = (self.skip && self.result.is_none()).then(|| (self.position(), "skipped after it had failed"));
        passed_over.chain(own)
    }

    /// The full name of the step, e.g. `release/build[2]`.
    pub fn position(&self) -> String {
        let element = self.element.map(|element| format!("[{element}]")).unwrap_or_default();
        self.full(&format!("{}{element}", self.step))
    }

    fn full(&self, name: &str) -> String {
        if self.within.is_empty() { name.to_owned() } else { format!("{}/{name}", self.within) }
    }
}

/// An item that is not what it was when the run pinned it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedItem {
    /// `directive` or `tool`.
    pub kind: String,
    /// Its id, as the run asks for it.
    pub id: String,
    /// The sha256 that was pinned; none for an item that the run did not use before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The sha256 of today; none for an item that the run does not use any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}
