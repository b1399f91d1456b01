//! What kind of work a step does.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AfterFailure, FinishHow, ToolCall};
use crate::checkpoint::object::ObjectId;
use crate::journal::{RunId, StepId};

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepKind {
    /// Runs a command line.
    Command {
        /// Its words; bytes that are not UTF-8 are replaced.
        #[serde(default)]
        argv: Vec<String>,
        /// What becomes of its changes if it fails, where the user said so; otherwise the mode decides.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_failure: Option<AfterFailure>,
    },
    /// Calls a tool.
    Tool(ToolCall),
    /// Undoes a step, or several as one.
    Undo {
        /// The step; of several, the newest.
        of: StepId,
        /// The other steps, newest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<StepId>,
        /// The commit of that step; none when it was not committed.
        commit: Option<ObjectId>,
    },
    /// Undoes an undo.
    Redo {
        /// The step that undid.
        of: StepId,
        /// The commit of that step; none when it was not committed.
        commit: Option<ObjectId>,
    },
    /// Applies undone steps again, as new work.
    Apply {
        /// The step; of several, the oldest.
        of: StepId,
        /// The other steps, oldest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<StepId>,
    },
    /// Puts back everything that its own run did.
    RollBackRun {
        /// The steps that are put back, newest first.
        #[serde(default)]
        steps: Vec<StepId>,
        /// The commits that hold their changes, newest first; none when nothing was committed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        commits: Vec<ObjectId>,
    },
    /// Brings files back to how they were after a step.
    Restore {
        /// The step.
        to: StepId,
    },
    /// Work for an agent or a person, in words.
    Prose {
        /// The instruction.
        #[serde(default)]
        instruction: String,
    },
    /// Runs another directive, which could not begin.
    Directive {
        /// The directive.
        id: String,
    },
    /// Waits for a person.
    Human {
        /// `human-verify`, `decision` or `human-action`.
        gate: String,
    },
    /// Searches, loads, signs or rewrites items.
    Item {
        /// `search`, `load`, `sign` or `migrate`.
        verb: String,
        /// Its parameters, without secrets; long ones are shortened.
        #[serde(default)]
        parameters: Map<String, Value>,
    },
    /// Commits what earlier steps left.
    Checkpoint {
        /// The steps whose changes it commits.
        #[serde(default)]
        covers: Vec<StepId>,
    },
    /// Closes a run and brings its commits home.
    Finish {
        /// The run.
        of: RunId,
        /// How.
        how: FinishHow,
        /// The newest commit of the run's branch; none when there is nothing to bring home.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tip: Option<ObjectId>,
    },
    /// Branch, index and tracked files as they were at a commit.
    RollBack {
        /// The commit.
        to: ObjectId,
    },
    /// Something that a newer piton does.
    #[serde(other)]
    Unknown,
}

impl StepKind {
    /// The tool that it calls, as `id@version`.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::Tool(call) => call.chain.first().map(String::as_str),
            _ => None,
        }
    }
}
