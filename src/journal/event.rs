//! The events of a run.
//!
//! [`Event`] is stored, streamed and rendered; there is no second shape. An action is written down
//! before it is done. Readers turn unknown types into [`Event::Unknown`] and ignore unknown fields,
//! because the chain covers the text of the line and not the parsed event.

mod approver;
mod call;
mod commits;
mod control_flow;
mod kind;
mod origin;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::chain::Digest;
use super::id::{RunId, StepId};
use super::summary::{RunSummary, StepStatus};
use crate::checkpoint::delta::{Change, Delta, Oversized};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::item::directive::CheckpointMode;
use crate::policy::Denial;
use crate::problem::{Code, Hint, Problem};

pub use approver::{Approver, Consent, ConsentTo, ConsentedItem};
pub use call::{AfterFailure, SignedBy, StreamDigest, ToolCall};
pub use commits::{
    Acceptance, AcceptedCommit, CommitMaker, FinishHow, HandCommit, RewrittenCommit,
};
pub use control_flow::{ChangedItem, HookPhase, Resolution, Restart, Wait};
pub use kind::StepKind;
pub use origin::RepositoryIdentity;

/// Something that is about to happen or has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    RunStarted {
        /// The directive's id, or the name of the command.
        name: String,
        /// The command line; bytes that are not UTF-8 are replaced.
        #[serde(default)]
        command: Vec<String>,
        mode: CheckpointMode,
        /// None for a single command.
        directive: Option<String>,
        /// The top folder of the work tree; bytes that are not UTF-8 are replaced.
        #[serde(default)]
        root: String,
        /// The name of the linked worktree below `worktrees/` in the git directory, or empty for
        /// the main one. The name stays valid when the folder is moved. None without a repository
        /// and in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worktree: Option<String>,
        /// The sha256 of the file that pins the items and inputs of the run; none for a single
        /// command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pinned: Option<String>,
        /// The step of a waiting run during which this run was started. Changes of both must be
        /// counted once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beside: Option<StepId>,
        /// The step names of the directive, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steps: Vec<String>,
        /// Whether all changes are rolled back if the run does not succeed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        atomic: bool,
        /// The session's number in the repository; none in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<u64>,
        /// The repository; none without one and in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repository: Option<RepositoryIdentity>,
    },
    /// A directive begins: the directive of the run, a nested one that a step names, or a hook.
    DirectiveStarted {
        /// The step that runs it, e.g. `release/build[2]`; empty for the directive of the run.
        name: String,
        /// As `id@version`.
        directive: String,
        /// The sha256 of its text, under which it is pinned.
        #[serde(default)]
        content: String,
        #[serde(default)]
        inputs: Map<String, Value>,
        /// The phase of a hook; none for other directives.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hook: Option<HookPhase>,
    },
    /// A nested directive or a hook has ended.
    DirectiveFinished {
        name: String,
        status: StepStatus,
        #[serde(default)]
        outputs: Map<String, Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
    },
    StepSkipped {
        name: String,
        reason: String,
    },
    /// A step is about to run once for each element.
    LoopStarted {
        name: String,
        #[serde(default)]
        elements: Vec<Value>,
    },
    /// The result of a step is known; its changes are not settled yet.
    Answered {
        step: u32,
        #[serde(default)]
        result: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
        /// The files that belong to it, if the answer named them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<RepoPath>,
        /// The person who answered; none if it is the result of a tool or an agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approver: Option<Approver>,
    },
    /// The run has decided how to continue after a failure.
    Resolved {
        name: String,
        then: Resolution,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
    },
    /// A step waits for a person or an agent.
    Waiting {
        step: u32,
        wait: Wait,
    },
    /// The base snapshot of a waiting step now includes the changes of runs that were started
    /// meanwhile.
    BaseMoved {
        step: u32,
        /// The work tree before the step, with the changes of those runs.
        before: Snapshot,
        /// The work tree after the step, with the changes of those runs, if it was recorded
        /// already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Box<Snapshot>>,
        /// The difference, if it was recorded already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delta: Option<Delta>,
        runs: Vec<RunId>,
    },
    /// A person rejected a gate, so the manual step before it is done again.
    SentBack {
        name: String,
        /// The name of the manual step in the same directive.
        to: String,
        #[serde(default)]
        reason: String,
    },
    /// A run that has ended is about to start again, with the items as they are now.
    Repinned {
        /// The sha256 of the file that pins the items.
        pinned: String,
        /// The sha256 of the text of each directive that has begun, the outermost first.
        #[serde(default)]
        frames: Vec<String>,
        #[serde(default)]
        changed: Vec<ChangedItem>,
    },
    /// A waiting, interrupted or ended run continues.
    RunResumed {
        /// A phrase that says how it continues.
        with: String,
        /// Where it starts again, if it had ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restart: Option<Box<Restart>>,
    },
    /// A step is about to run; nothing has happened yet.
    StepStarted {
        /// Counted from 1.
        step: u32,
        name: String,
        kind: StepKind,
        tool: Option<String>,
        /// The work tree before the step; none without checkpoints.
        before: Option<Snapshot>,
        /// The globs of files that the step declares to write.
        #[serde(default)]
        writes: Vec<String>,
        /// The number of the session that runs the step; none in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<u64>,
    },
    /// The process of a tool was started.
    ToolStarted {
        step: u32,
        /// The process id, which is also the id of its process group.
        #[serde(default)]
        pid: u32,
        /// When the kernel started the process, in ticks since boot; zero if unknown.
        #[serde(default)]
        started: u64,
        /// The boot id that `pid` and `started` belong to; empty if unknown.
        #[serde(default)]
        boot: String,
        /// Whether the process is a supervisor, which ends all its descendants when piton is gone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        supervised: bool,
    },
    /// The process of a tool and its process group have ended.
    ToolFinished {
        step: u32,
        /// None when a signal ended the process.
        exit_code: Option<i32>,
        signal: Option<i32>,
        duration_ms: u64,
        /// Whether it was ended at its time limit.
        timed_out: bool,
        /// None if its standard output was not captured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdout: Option<StreamDigest>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<StreamDigest>,
        /// How many leftover processes were killed.
        #[serde(default, skip_serializing_if = "is_zero")]
        leftovers: u32,
        /// Git settings and hooks that changed while the tool ran; a roll back does not restore
        /// them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        git_changed: Vec<String>,
    },
    /// The tool call is not allowed; nothing has happened.
    ToolDenied {
        step: u32,
        /// The missing permissions, and the lines that would grant them.
        denials: Vec<Denial>,
    },
    /// A step that consists of tool calls is about to make one.
    CallStarted {
        step: u32,
        /// The number of the call within the step, counted from 1.
        number: u32,
        /// The number of the enclosing call; none if the step itself makes the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<u32>,
        call: ToolCall,
    },
    /// A call within a step has ended.
    CallFinished {
        step: u32,
        number: u32,
        status: StepStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
    },
    /// The work tree was compared with the snapshot before the step.
    ChangesFound {
        step: u32,
        /// The work tree after the step.
        after: Snapshot,
        delta: Delta,
        /// Files that other processes changed meanwhile; they are not in `delta`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outside: Vec<RepoPath>,
    },
    /// A checkpoint compared the recorded changes of earlier steps with the disk and with HEAD.
    RemainderFound {
        step: u32,
        /// Steps of which nothing is left to commit: their changes are in HEAD or were discarded.
        /// This event settles them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dropped: Vec<StepId>,
        /// Files that are committed with the edits that a person made after the steps.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edits: Vec<RepoPath>,
    },
    /// A person approved a waiting step; nothing has been done yet.
    Approved {
        step: u32,
        /// The tree of the files that the person was shown.
        tree: ObjectId,
        /// Files that a person edited while the run waited; `tree` includes these edits.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edits: Vec<RepoPath>,
        /// None in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approver: Option<Approver>,
    },
    /// Commits were made with git, not by piton, while the step was open.
    HandCommitted {
        step: u32,
        /// Oldest first.
        commits: Vec<HandCommit>,
    },
    /// The user's hooks are about to run for a commit that piton makes.
    HooksStarted {
        step: u32,
        /// The hash of the token that the hooks are given. Piton's own hooks recognise the commit
        /// by it.
        token: Digest,
    },
    /// It is decided what happens to the changes. After a crash, recovery carries the decision out.
    Decided {
        step: u32,
        decision: Decision,
    },
    /// The changes were committed.
    Committed {
        step: u32,
        commit: ObjectId,
        message: String,
        files_changed: u64,
        insertions: u64,
        deletions: u64,
        /// Commits that the tool made itself and that count as the step's.
        #[serde(default)]
        adopted: Vec<ObjectId>,
        /// Remarks for the reader, e.g. that hooks were skipped.
        #[serde(default)]
        notes: Vec<String>,
    },
    /// The changes were rolled back.
    RolledBack {
        step: u32,
        /// The number of restored files.
        paths: u64,
        /// Files that were not restored because they had changed since.
        #[serde(default)]
        kept: Vec<RepoPath>,
        /// Submodules that have moved and were not reset: their files belong to another repository.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repositories: Vec<RepoPath>,
        /// The step from which `piton restore` brings the undone work back; a ref in journals of
        /// earlier versions.
        rescue: Option<String>,
    },
    NoChanges {
        step: u32,
        /// Changed files that checkpoints do not capture.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        not_captured: Vec<RepoPath>,
        /// Those that were left out because of their size.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        too_large: Vec<Oversized>,
    },
    /// The changes should have been committed and are still on disk.
    CheckpointFailed {
        step: u32,
        /// The stable code of the reason.
        code: Code,
        /// The reason.
        message: String,
        /// The way out.
        suggestion: Option<Hint>,
    },
    /// The changes were left on disk.
    CheckpointSkipped {
        step: u32,
        reason: String,
    },
    /// A later start of piton found this run unfinished and recovered it.
    Recovered {
        /// The step that had not ended.
        step: Option<u32>,
        found: String,
        did: String,
        /// The last heartbeat of the process that died.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        died: Option<Timestamp>,
    },
    /// The contents of old runs are about to be removed; their steps can no longer be undone or
    /// shown.
    SnapshotsDropped {
        /// The refs that kept them, in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refs: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runs: Vec<RunId>,
    },
    /// The contents that refs of earlier versions kept are in the private store now; the refs are
    /// about to be removed.
    SnapshotsMoved {
        /// The number of refs.
        refs: u64,
    },
    /// Git replaced commits of checkpoints.
    Rewritten {
        /// `amend` or `rebase`, or `found` if the new commits were found later.
        cause: String,
        commits: Vec<RewrittenCommit>,
    },
    /// A person accepts what happened to a checkpoint.
    Accepted(Acceptance),
    /// A person agrees to what an agent cannot decide.
    Consented(Consent),
    StepFinished {
        step: u32,
        status: StepStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
    },
    /// The run ended or waits.
    RunFinished(RunSummary),
    /// An event type of a newer piton.
    #[serde(other)]
    Unknown,
}

/// What is to happen to the changes of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Decision {
    /// They are committed. All objects exist already; only the ref and the index have to be
    /// updated.
    Commit {
        /// The full name of the ref, or `HEAD` when it is detached.
        target: String,
        /// The expected current value of the ref; none on an unborn branch.
        old: Option<ObjectId>,
        new: ObjectId,
        tree: ObjectId,
        /// The trailing checksum of the new index, which identifies it.
        index: String,
        /// What the commit changes against its parent.
        delta: Vec<Change>,
        /// The commit that this one undoes.
        #[serde(default)]
        undoes: Option<ObjectId>,
        /// The parents, if they are not just `old`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parents: Option<Vec<ObjectId>>,
    },
    /// They are rolled back.
    RollBack {
        reason: String,
        /// The resulting status of the step, if its own answer does not determine it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<StepStatus>,
        /// The reason for that status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
    },
    /// They stay on disk.
    Keep { reason: String },
    /// A decision of a newer piton, which only that version can carry out.
    #[serde(other)]
    Unknown,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Event {
    /// The step that the event belongs to.
    pub fn step(&self) -> Option<u32> {
        match self {
            Self::StepStarted { step, .. }
            | Self::ToolStarted { step, .. }
            | Self::ToolFinished { step, .. }
            | Self::ToolDenied { step, .. }
            | Self::CallStarted { step, .. }
            | Self::CallFinished { step, .. }
            | Self::ChangesFound { step, .. }
            | Self::RemainderFound { step, .. }
            | Self::Approved { step, .. }
            | Self::HandCommitted { step, .. }
            | Self::HooksStarted { step, .. }
            | Self::Decided { step, .. }
            | Self::Committed { step, .. }
            | Self::RolledBack { step, .. }
            | Self::NoChanges { step, .. }
            | Self::CheckpointFailed { step, .. }
            | Self::CheckpointSkipped { step, .. }
            | Self::Answered { step, .. }
            | Self::Waiting { step, .. }
            | Self::BaseMoved { step, .. }
            | Self::StepFinished { step, .. } => Some(*step),
            Self::Recovered { step, .. } => *step,
            Self::RunStarted { .. }
            | Self::DirectiveStarted { .. }
            | Self::DirectiveFinished { .. }
            | Self::StepSkipped { .. }
            | Self::LoopStarted { .. }
            | Self::Resolved { .. }
            | Self::RunResumed { .. }
            | Self::SentBack { .. }
            | Self::Repinned { .. }
            | Self::SnapshotsDropped { .. }
            | Self::SnapshotsMoved { .. }
            | Self::Rewritten { .. }
            | Self::Accepted(_)
            | Self::Consented(_)
            | Self::RunFinished(_)
            | Self::Unknown => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
