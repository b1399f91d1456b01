//! What happens in a run.
//!
//! [`Event`] is stored, streamed and rendered; there is no second shape. What is about to be done is
//! written before it is done. Readers take types that they do not know as [`Event::Unknown`] and
//! overlook fields that they do not know: the line itself is what the chain covers.

mod call;
mod commits;
mod course;
mod kind;

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

pub use call::{AfterFailure, SignedBy, ToolCall, Written};
pub use commits::{Acceptance, AcceptedCommit, FinishHow, HandCommit, Maker, RewrittenCommit};
pub use course::{ChangedItem, HookPhase, Resolution, Restart, Wait};
pub use kind::StepKind;

/// Something that is about to happen or has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A run begins.
    RunStarted {
        /// What people call it: a directive's id, or the name of a command.
        name: String,
        /// The words it was started with; bytes that are not UTF-8 are replaced.
        #[serde(default)]
        command: Vec<String>,
        /// When changes are checkpointed.
        mode: CheckpointMode,
        /// The directive; none for a single command.
        directive: Option<String>,
        /// The top of the work tree; bytes that are not UTF-8 are replaced.
        #[serde(default)]
        root: String,
        /// The linked worktree by its name below `worktrees/` of the git directory, empty for the main one: the folder may
        /// be moved. None without a repository, and in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worktree: Option<String>,
        /// The sha256 of the file that pins its items and inputs; none for a single command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pinned: Option<String>,
        /// The step of a waiting run that it was started beside; its changes count only once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beside: Option<StepId>,
        /// The names of the steps of its directive, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steps: Vec<String>,
        /// Whether everything is put back if it does not succeed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        atomic: bool,
        /// Its number among the sessions of the repository; none in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<u64>,
    },
    /// A directive begins: that of the run, one that a step names, or a hook.
    DirectiveStarted {
        /// The step that runs it, e.g. `release/build[2]`; empty for that of the run.
        name: String,
        /// The directive, as `id@version`.
        directive: String,
        /// The sha256 of its text, under which it is pinned.
        #[serde(default)]
        content: String,
        /// What it is given.
        #[serde(default)]
        inputs: Map<String, Value>,
        /// Why a hook runs; none for any other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hook: Option<HookPhase>,
    },
    /// A directive that a step or a hook ran has ended.
    DirectiveFinished {
        /// The step that ran it.
        name: String,
        /// How.
        status: StepStatus,
        /// What it returns.
        #[serde(default)]
        outputs: Map<String, Value>,
        /// Why it did not succeed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
    },
    /// A step is not run.
    StepSkipped {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A step is about to run once for each of these.
    LoopStarted {
        /// Its name.
        name: String,
        /// The elements.
        #[serde(default)]
        elements: Vec<Value>,
    },
    /// What a step came to is known; its changes are not settled yet.
    Answered {
        /// The step.
        step: u32,
        /// What it returns.
        #[serde(default)]
        result: Value,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
        /// The files that belong to it, where somebody has named them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<RepoPath>,
    },
    /// It is decided how a run goes on after a failure.
    Resolved {
        /// The step that failed.
        name: String,
        /// How.
        then: Resolution,
        /// The failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
    },
    /// A step needs somebody; until then nothing happens.
    Waiting {
        /// The step.
        step: u32,
        /// Whom, and for what.
        wait: Wait,
    },
    /// The state before a waiting step includes what was run beside it.
    BaseMoved {
        /// The step.
        step: u32,
        /// The work tree before it, with their changes.
        before: Snapshot,
        /// The work tree after it, with their changes, where that was recorded already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Snapshot>,
        /// The difference, where that was recorded already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delta: Option<Delta>,
        /// The runs.
        runs: Vec<RunId>,
    },
    /// A person rejected a gate, and the manual step before it is done again.
    SentBack {
        /// The gate.
        name: String,
        /// The name of the manual step in the same directive.
        to: String,
        /// What the person said.
        #[serde(default)]
        reason: String,
    },
    /// A run that has ended is about to begin again, with its items as they are now.
    Repinned {
        /// The sha256 of the file that pins them.
        pinned: String,
        /// The sha256 of the text of each directive that has begun, the outermost first.
        #[serde(default)]
        frames: Vec<String>,
        /// What is not as it was.
        #[serde(default)]
        changed: Vec<ChangedItem>,
    },
    /// A run that waited, was cut off or had ended goes on.
    RunResumed {
        /// What it goes on with, in words.
        with: String,
        /// Where it begins, if it had ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restart: Option<Box<Restart>>,
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
        /// The number of the session that runs it; none in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<u64>,
    },
    /// The process of a tool exists.
    ToolStarted {
        /// The step.
        step: u32,
        /// Its id, which is that of its process group as well.
        #[serde(default)]
        pid: u32,
        /// When the kernel started it, in ticks since the boot; zero where that is not known.
        #[serde(default)]
        started: u64,
        /// The boot that both belong to; empty where that is not known.
        #[serde(default)]
        boot: String,
        /// Whether it is a supervisor, which ends all that it has started when piton is gone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        supervised: bool,
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
    /// A step that is made of calls of other tools is about to make one.
    CallStarted {
        /// The step.
        step: u32,
        /// Its number within the step, from 1.
        number: u32,
        /// The number of the call that asks for it, where that is not the step itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<u32>,
        /// What will be called.
        call: ToolCall,
    },
    /// Such a call has ended.
    CallFinished {
        /// The step.
        step: u32,
        /// Its number within the step.
        number: u32,
        /// How.
        status: StepStatus,
        /// Why it did not succeed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
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
    /// A checkpoint compared what earlier steps had recorded with the disk and with HEAD.
    RemainderFound {
        /// The step.
        step: u32,
        /// Steps of which nothing is left: HEAD has it, or it was discarded. They are settled by this.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dropped: Vec<StepId>,
        /// Files that are committed with the edits that a person made after the steps.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edits: Vec<RepoPath>,
    },
    /// A person has approved what a waiting step is about; nothing has come of it yet.
    Approved {
        /// The step.
        step: u32,
        /// The files that were shown: the tree that a commit of them has.
        tree: ObjectId,
        /// Files that a person edited while the run waited; their edits are in the tree.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edits: Vec<RepoPath>,
    },
    /// Commits were made with git itself while the step was open.
    HandCommitted {
        /// The step.
        step: u32,
        /// The commits, oldest first.
        commits: Vec<HandCommit>,
    },
    /// The user's hooks are about to run for a commit of piton's own.
    HooksStarted {
        /// The step.
        step: u32,
        /// The hash of what they are given, by which hooks of piton among them know such a commit.
        token: Digest,
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
        /// The step by which `piton restore` brings the undone work back; a ref in journals of earlier versions.
        rescue: Option<String>,
    },
    /// Nothing changed.
    NoChanges {
        /// The step.
        step: u32,
        /// What changed outside of checkpoints.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        not_captured: Vec<RepoPath>,
        /// Which of these files were left out for their size.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        too_large: Vec<Oversized>,
    },
    /// The changes should have been a commit and are still on disk.
    CheckpointFailed {
        /// The step.
        step: u32,
        /// The stable code of the reason.
        code: Code,
        /// The reason.
        message: String,
        /// The way out.
        suggestion: Option<Hint>,
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
        /// The last sign of life of the process that died.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        died: Option<Timestamp>,
    },
    /// The contents of old runs are about to be removed: their steps cannot be undone or shown any more.
    SnapshotsDropped {
        /// The refs that kept them, in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refs: Vec<String>,
        /// The runs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runs: Vec<RunId>,
    },
    /// What refs of earlier versions kept is in the private store now; the refs are about to be removed.
    SnapshotsMoved {
        /// How many refs.
        refs: u64,
    },
    /// Git has replaced commits of checkpoints.
    Rewritten {
        /// What replaced them: `amend` or `rebase`; `found` where they were found later.
        cause: String,
        /// The commits.
        commits: Vec<RewrittenCommit>,
    },
    /// A person accepts what became of a checkpoint.
    Accepted(Acceptance),
    /// A step ended.
    StepFinished {
        /// The step.
        step: u32,
        /// How.
        status: StepStatus,
        /// Why it did not succeed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
    },
    /// The run ended, or waits.
    RunFinished(RunSummary),
    /// Something that a newer piton wrote.
    #[serde(other)]
    Unknown,
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
        /// What the commit is built on, where that is not just where the ref was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parents: Option<Vec<ObjectId>>,
    },
    /// They are undone.
    RollBack {
        /// Why.
        reason: String,
        /// How the step ends by that, where its own answer does not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<StepStatus>,
        /// Why it ends so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
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
            | Self::RunFinished(_)
            | Self::Unknown => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
