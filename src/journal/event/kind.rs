//! The kinds of steps.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AfterFailure, FinishHow, ToolCall};
use crate::checkpoint::object::ObjectId;
use crate::item::tool::Isolation;
use crate::journal::{RunId, StepId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepKind {
    Command {
        /// Bytes that are not UTF-8 are replaced.
        #[serde(default)]
        argv: Vec<String>,
        /// What happens to its changes if it fails, if the user chose; otherwise the mode decides.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_failure: Option<AfterFailure>,
        /// The isolation level, if the kernel limits the command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        isolation: Option<Isolation>,
    },
    Tool(ToolCall),
    /// Undoes one or several steps.
    Undo {
        /// The step; if there are several, the newest.
        of: StepId,
        /// Newest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<StepId>,
        /// The commit of `of`; none when it was not committed.
        commit: Option<ObjectId>,
    },
    /// Undoes an undo.
    Redo {
        /// The undo step.
        of: StepId,
        /// The commit of `of`; none when it was not committed.
        commit: Option<ObjectId>,
    },
    /// Applies undone steps again.
    Apply {
        /// The step; if there are several, the oldest.
        of: StepId,
        /// Oldest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<StepId>,
    },
    /// Rolls back everything that its own run did.
    RollBackRun {
        /// The steps that are rolled back, newest first.
        #[serde(default)]
        steps: Vec<StepId>,
        /// The commits with their changes, newest first; empty when nothing was committed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        commits: Vec<ObjectId>,
    },
    /// Restores files to their state after a step.
    Restore {
        to: StepId,
    },
    /// A manual step, done by an agent or a person.
    Prose {
        #[serde(default)]
        instruction: String,
    },
    /// A nested directive that could not be started.
    Directive {
        id: String,
    },
    /// Waits for a person.
    Human {
        /// `human-verify`, `decision` or `human-action`.
        gate: String,
    },
    /// Searches, loads, signs or migrates items.
    Item {
        /// `search`, `load`, `sign` or `migrate`.
        verb: String,
        /// Without secrets; long values are shortened.
        #[serde(default)]
        parameters: Map<String, Value>,
    },
    /// Commits the uncommitted changes of earlier steps.
    Checkpoint {
        #[serde(default)]
        covers: Vec<StepId>,
    },
    /// Closes a run and integrates its commits.
    Finish {
        of: RunId,
        how: FinishHow,
        /// The newest commit of the run's branch; none when there is nothing to integrate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tip: Option<ObjectId>,
    },
    /// Resets branch, index and tracked files to a commit.
    RollBack {
        to: ObjectId,
    },
    /// A kind of a newer piton.
    #[serde(other)]
    Unknown,
}

impl StepKind {
    /// The tool that the step calls, as `id@version`.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::Tool(call) => call.chain.first().map(String::as_str),
            _ => None,
        }
    }
}
