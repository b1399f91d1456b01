//! How a directive goes on: hooks, failures, waits.

use serde::{Deserialize, Serialize};

use crate::checkpoint::path::RepoPath;

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
