//! What happens in a run.
//!
//! [`Event`] is stored, streamed and rendered; there is no second shape. What is about to be done is
//! written before it is done. Readers take types that they do not know as [`Event::Unknown`] and
//! overlook fields that they do not know: the line itself is what the chain covers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::StepId;
use super::summary::{RunSummary, StepStatus};
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::item::directive::CheckpointMode;
use crate::policy::{Denial, Permission};

/// Something that is about to happen or has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A run begins.
    RunStarted {
        /// What people call it: a directive's id, or the name of a command.
        name: String,
        /// The words it was started with; bytes that are not UTF-8 are replaced.
        command: Vec<String>,
        /// When changes are checkpointed.
        mode: CheckpointMode,
        /// The directive; none for a single command.
        directive: Option<String>,
        /// The top of the work tree; bytes that are not UTF-8 are replaced.
        root: String,
    },
    /// A step is about to run; nothing of it has happened yet.
    StepStarted {
        /// Its number, from 1.
        step: u32,
        /// Its name.
        name: String,
        /// What it does.
        kind: StepKind,
        /// The tool it runs.
        tool: Option<String>,
        /// The work tree before it; none without checkpoints.
        before: Option<Snapshot>,
        /// Globs of the files it says it will write.
        #[serde(default)]
        writes: Vec<String>,
    },
    /// The process of a tool exists.
    ToolStarted {
        /// The step.
        step: u32,
        /// Its id, which is that of its process group as well.
        pid: u32,
        /// When the kernel started it, in ticks since the boot; zero where that is not known.
        started: u64,
        /// The boot that both belong to; empty where that is not known.
        boot: String,
    },
    /// The process of a tool is gone, and its group with it.
    ToolFinished {
        /// The step.
        step: u32,
        /// The status it ended with; none when a signal ended it.
        exit_code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// How long it took.
        duration_ms: u64,
        /// Whether it was ended because it took too long.
        timed_out: bool,
        /// What it wrote to its standard output; none where that was not looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdout: Option<Written>,
        /// What it wrote to its standard error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<Written>,
        /// How many processes it left behind, which were killed.
        #[serde(default, skip_serializing_if = "is_zero")]
        leftovers: u32,
        /// Settings and hooks of git that changed while it ran; nobody puts them back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        git_changed: Vec<String>,
    },
    /// The call of a tool is not allowed; nothing of it has happened.
    ToolDenied {
        /// The step.
        step: u32,
        /// What is not allowed, and which lines would allow it.
        denials: Vec<Denial>,
    },
    /// The work tree was compared with the one before.
    ChangesFound {
        /// The step.
        step: u32,
        /// The work tree after it.
        after: Snapshot,
        /// The difference.
        delta: Delta,
        /// Files that somebody else changed meanwhile; they are not in the difference.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outside: Vec<RepoPath>,
    },
    /// It is decided what becomes of the changes; from here on it is done, crash or not.
    Decided {
        /// The step.
        step: u32,
        /// What is to be done.
        decision: Decision,
    },
    /// The changes are a commit.
    Committed {
        /// The step.
        step: u32,
        /// The commit.
        commit: ObjectId,
        /// Its message.
        message: String,
        /// How many files.
        files_changed: u64,
        /// Lines added.
        insertions: u64,
        /// Lines removed.
        deletions: u64,
        /// Commits that the tool made itself and that count as the step's.
        #[serde(default)]
        adopted: Vec<ObjectId>,
        /// What a reader should know, e.g. that hooks were skipped.
        #[serde(default)]
        notes: Vec<String>,
    },
    /// The changes were undone.
    RolledBack {
        /// The step.
        step: u32,
        /// How many files were put back.
        paths: u64,
        /// Files that were left because they changed since.
        #[serde(default)]
        kept: Vec<RepoPath>,
        /// Submodules that are not where they were: their files are those of another repository.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repositories: Vec<RepoPath>,
        /// The ref that keeps the undone work.
        rescue: Option<String>,
    },
    /// Nothing changed.
    NoChanges {
        /// The step.
        step: u32,
        /// What changed outside of checkpoints.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        not_captured: Vec<RepoPath>,
    },
    /// The changes should have been a commit and are still on disk.
    CheckpointFailed {
        /// The step.
        step: u32,
        /// The stable code of the reason.
        code: String,
        /// The reason.
        message: String,
        /// The way out.
        suggestion: Option<String>,
    },
    /// The changes were left as they are.
    CheckpointSkipped {
        /// The step.
        step: u32,
        /// Why.
        reason: String,
    },
    /// A start of piton found this run unfinished and put things in order.
    Recovered {
        /// The step that had not ended.
        step: Option<u32>,
        /// What was found.
        found: String,
        /// What was done about it.
        did: String,
    },
    /// Refs that keep snapshots are about to be removed, because nobody needs them any more.
    SnapshotsDropped {
        /// Their names.
        refs: Vec<String>,
    },
    /// A step ended.
    StepFinished {
        /// The step.
        step: u32,
        /// How.
        status: StepStatus,
    },
    /// The run ended, or waits.
    RunFinished(RunSummary),
    /// Something that a newer piton wrote.
    #[serde(other)]
    Unknown,
}

/// What a process wrote: how much, and a hash of all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// How many bytes.
    pub bytes: u64,
    /// Their sha256.
    pub sha256: String,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepKind {
    /// Runs a command line.
    Command {
        /// Its words; bytes that are not UTF-8 are replaced.
        argv: Vec<String>,
    },
    /// Calls a tool.
    Tool(ToolCall),
    /// Undoes a step.
    Undo {
        /// The step.
        of: StepId,
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
    /// Brings files back to how they were after a step.
    Restore {
        /// The step.
        to: StepId,
    },
    /// Commits what earlier steps left.
    Checkpoint {
        /// The steps whose changes it commits.
        #[serde(default)]
        covers: Vec<StepId>,
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

/// A call of a tool, as it is written down before it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Everything that takes part, as `id@version`, the tool first.
    pub chain: Vec<String>,
    /// The command of a tool that has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its parameters, without secrets; long ones are shortened.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// What it needs, who allows it, and by what that is enforced.
    #[serde(default)]
    pub permissions: Vec<Permission>,
    /// How far it is kept from the machine.
    pub isolation: String,
    /// Why that is less than was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
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

/// What is to become of a step's changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Decision {
    /// They become a commit. Everything is there already; only the ref and the index are to move.
    Commit {
        /// The full name of the ref that moves, or `HEAD` when it is detached.
        target: String,
        /// Where the ref has to be; none on an unborn branch.
        old: Option<ObjectId>,
        /// The commit.
        new: ObjectId,
        /// Its tree.
        tree: ObjectId,
        /// The checksum at the end of the new index, which tells it from any other.
        index: String,
        /// What the commit changes against its parent.
        delta: Vec<Change>,
        /// The commit that this one undoes.
        #[serde(default)]
        undoes: Option<ObjectId>,
    },
    /// They are undone.
    RollBack {
        /// Why.
        reason: String,
    },
    /// They stay as they are.
    Keep {
        /// Why.
        reason: String,
    },
    /// Something that a newer piton does; only it can finish this.
    #[serde(other)]
    Unknown,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Event {
    /// The step it belongs to.
    pub fn step(&self) -> Option<u32> {
        match self {
            Self::StepStarted { step, .. }
            | Self::ToolStarted { step, .. }
            | Self::ToolFinished { step, .. }
            | Self::ToolDenied { step, .. }
            | Self::ChangesFound { step, .. }
            | Self::Decided { step, .. }
            | Self::Committed { step, .. }
            | Self::RolledBack { step, .. }
            | Self::NoChanges { step, .. }
            | Self::CheckpointFailed { step, .. }
            | Self::CheckpointSkipped { step, .. }
            | Self::StepFinished { step, .. } => Some(*step),
            Self::Recovered { step, .. } => *step,
            Self::RunStarted { .. } | Self::SnapshotsDropped { .. } | Self::RunFinished(_) | Self::Unknown => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
