//! Why a step could not be run, kept or undone.

mod conversion;
mod kind;
mod restart;
mod words;

use std::io;
use std::path::PathBuf;

use super::acceptance::AcceptanceError;
use super::caches::CacheError;
use super::finish::FinishError;
use super::linked_worktree::WorktreeError;
use super::pinned_authority::ConfinementError;
use crate::audit::error::AuditError;
use crate::audit::reference::ReferenceError;
use crate::authoring::ItemStepError;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::exec::ResolveError;
use crate::exec::call::CallError;
use crate::exec::subprocess::SubprocessError;
use crate::exec::supervisor::SupervisorError;
use crate::item::finding::Finding;
use crate::item::params::ParamProblem;
use crate::item::store::LookupError;
use crate::item::tool::Isolation;
use crate::item::tool::Origin;
use crate::item::wording::shown as item_shown;
use crate::journal::lock::LockError;
use crate::journal::{JournalError, RunId};
use crate::problem::{Code, Explain, Hint, HintCall, hint, with_causes};

use crate::trust::author::AuthorError;
use crate::values::ValueError;

use super::directive::Waiting;
use super::undo::error::UndoError;
use super::unfinished_note::WaitingRun;
use super::unsettled::RecoveryAction;

pub use restart::RestartError;
use words::{needs, problem_list, tree_name, waiting_in};
pub use words::{way_on, way_on_in};

/// Errors that stop a run before or between its steps.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The repository is not supported, or git failed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The records cannot be read, pushed or fetched.
    #[error(transparent)]
    Audit(AuditError),
    /// Another run holds the lock of this worktree.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The command cannot be started.
    #[error(transparent)]
    Subprocess(#[from] SubprocessError),
    /// An item does not exist or cannot be used.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A call cannot be resolved.
    #[error(transparent)]
    Lower(Box<ResolveError>),
    /// A call could not be prepared.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The supervisor of a tool could not be started.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// The signature policy does not allow it, or the signer cannot be determined.
    #[error(transparent)]
    Author(#[from] AuthorError),
    /// A requirement of a tool is missing.
    #[error("tool `{tool}` needs {}", needs(.commands, .variables, .servers))]
    Requirements {
        tool: String,
        /// Commands that are not on the search path.
        commands: Vec<String>,
        /// Variables that are not set.
        variables: Vec<String>,
        /// MCP servers that do not exist.
        servers: Box<[String]>,
        /// How to install the program.
        guide: Option<Box<str>>,
    },
    /// The requested isolation level is not available.
    #[error("{subject} asks for isolation `{}`, which {}", level.as_str(), network.map_or_else(|| "is not available".to_owned(), |it| format!("a container with the network `{it}` does not have")))]
    Sandbox {
        /// The tool or command, e.g. "tool `build`".
        subject: String,
        level: Isolation,
        /// What the kernel does not prevent.
        missing: Vec<&'static str>,
        /// The container network that contradicts the level.
        network: Option<&'static str>,
    },
    /// A declared cache is not allowed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The commit was made, but the index could not be updated.
    #[error("the commit was made, but the index could not be updated")]
    Unfinished(#[source] CheckpointError),
    /// The disk failed in the middle of a step. The step stays open until a recovery ends it.
    #[error("the step could not be finished")]
    Unsettled {
        /// What the recovery will do with the changes of the step.
        recovery: RecoveryAction,
        #[source]
        source: Box<RunError>,
    },
    /// The signal handlers could not be installed.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    /// An interrupted run could not be recovered.
    #[error("interrupted run `{run}` could not be recovered")]
    Recovery {
        run: String,
        #[source]
        source: Box<RunError>,
    },
    /// A directive that restricts a call does not exist or cannot be used.
    #[error(transparent)]
    NoDirective(LookupError),
    /// A directive that restricts a call is invalid.
    #[error("directive `{id}` is invalid, so its permissions are unknown")]
    InvalidDirective { id: String, findings: Vec<Finding> },
    /// The directive only serves others, or its steps are missing.
    #[error("directive `{id}` has no steps, so it cannot run")]
    NoSteps { id: String },
    /// A glob of `--writes` is not valid.
    #[error("`{glob}` is not a pattern for paths: {reason}")]
    InvalidGlob { glob: String, reason: String },
    /// A roll back was requested without snapshots.
    #[error("`--on-failure rollback` needs snapshots, and `--checkpoint disabled` takes none")]
    NothingToRollBack,
    /// The reference does not exist or is ambiguous.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// There is nothing to undo or redo.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// A given path is neither on disk nor in the last commit.
    #[error("there is no file or folder `{0}`")]
    NoSuchPath(String),
    /// The file did not exist at that point.
    #[error("there is no file `{path}` at `{moment}`")]
    NoSuchFile {
        /// The path as typed.
        path: String,
        /// The step or commit as typed.
        moment: String,
    },
    /// A given path is outside of the work tree.
    #[error("`{0}` is outside of the work tree")]
    OutsidePath(String),
    /// Another run of a directive is unfinished in this worktree.
    #[error("run `{}` of `{}` is unfinished here{}", .0.run, .0.name, waiting_in(.0))]
    RunWaits(Box<WaitingRun>),
    /// A run cannot be resumed.
    #[error("cannot resume run `{run}`: {reason}")]
    NotResumable { run: RunId, reason: String },
    /// A run cannot be restarted, or not at this step.
    #[error(transparent)]
    Restart(#[from] RestartError),
    /// The answer does not fit what the step waits for.
    #[error("step `{}` needs another kind of answer", .0.name)]
    WrongAnswer(Box<Waiting>),
    /// No run waits in this worktree.
    #[error("no run waits here")]
    NothingWaits,
    /// The files changed after they were shown to the person who approved them.
    #[error("the files have changed since they were shown: tree {shown} was approved, {} is on disk", tree_name(*.found))]
    ShownChanged {
        run: RunId,
        /// The tree that was approved.
        shown: String,
        /// The tree on disk; `None` if there is nothing to approve.
        found: Option<ObjectId>,
    },
    /// An agent tried to decide for a person.
    #[error("only a person can decide this")]
    PersonNeeded,
    /// A run received an answer but does not wait.
    #[error("run `{0}` is not waiting for an answer")]
    NothingAsked(RunId),
    /// The inputs do not fit the directive.
    #[error("directive `{directive}` cannot be run with these inputs: {}", problem_list(.problems))]
    Inputs {
        directive: String,
        problems: Vec<ParamProblem>,
    },
    /// A value of a directive could not be evaluated.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// An item step failed.
    #[error(transparent)]
    Item(ItemStepError),
    /// The agent command cannot be parsed.
    #[error("`{}` is not a command line", item_shown(.0))]
    AgentCommand(String),
    /// The settings give a relative path for the agent program.
    #[error("`{key}` must not use a relative path: `{}`", item_shown(.command))]
    RelativeAgent { key: &'static str, command: String },
    /// A step of a run starts piton in the same worktree.
    #[error("this command was started by a step of run `{0}`, which has not ended")]
    InsideRun(RunId),
    /// A directive requires another directive that does not exist.
    #[error("directive `{directive}` requires `{required}`")]
    Required {
        directive: String,
        required: String,
        #[source]
        source: LookupError,
    },
    /// A step references something that cannot be used.
    #[error("step `{step}` cannot be run")]
    InStep {
        step: String,
        /// Where the step is defined.
        origin: Origin,
        #[source]
        source: Box<RunError>,
    },
    /// Calls between directives are nested too deeply.
    #[error("directives are nested more than {most} levels deep")]
    TooDeep {
        /// The limit.
        most: usize,
    },
    /// A tool has changed since the run began.
    #[error("`{0}` has changed since the run began")]
    ItemChanged(String),
    /// The pinned items of a run cannot be written.
    #[error("cannot save the items of the run")]
    Pin(#[source] io::Error),
    /// The pinned items of a run are damaged.
    #[error("the saved items of run `{run}` were changed or removed: `{}`", .path.display())]
    PinDamaged { run: RunId, path: PathBuf },
    /// The marker of an unfinished run cannot be read or written.
    #[error("cannot write the marker of the unfinished run")]
    Marker(#[source] io::Error),
    /// The folder of a self-test cannot be created.
    #[error("cannot create a test repository in `{}`", folder.display())]
    SelfTestFolder {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The worktree of a run cannot be created or removed.
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    /// A run cannot be finished.
    #[error(transparent)]
    Finish(#[from] FinishError),
    /// A rewritten checkpoint cannot be accepted.
    #[error(transparent)]
    Acceptance(#[from] AcceptanceError),
    /// A run waits in another work tree, where the edits have to be made.
    #[error("run `{run}` waits in `{}` for changes made there", .root.display())]
    Elsewhere {
        run: RunId,
        /// Its work tree.
        root: PathBuf,
    },
    /// A run cannot begin; lists all problems, not only the first.
    #[error("{}", with_causes(.first.as_ref()))]
    Foreseen {
        /// The error that the run would hit first.
        first: Box<RunError>,
        /// All problems in the items that the run can reach.
        findings: Vec<Finding>,
    },
    /// An irreversible action needs confirmation.
    #[error("{0} needs to be confirmed")]
    NotConfirmed(&'static str),
    /// The run began in a repository of which this one is a copy.
    #[error("run `{run}` belongs to the repository `{}`, of which this one is a copy", .original.display())]
    Copied { run: RunId, original: PathBuf },
    /// A server that is limited to a directive does not do this.
    #[error(transparent)]
    Confinement(#[from] ConfinementError),
}

impl Explain for RunError {
    fn code(&self) -> Code {
        match self {
            Self::Checkpoint(err) => err.code(),
            Self::Journal(err) => err.code(),
            Self::Audit(err) => err.code(),
            Self::Lock(err) => err.code(),
            Self::Subprocess(err) => err.code(),
            Self::NoDirective(LookupError::NotFound { .. }) => Code::DirectiveNotFound,
            Self::Lookup(err) | Self::NoDirective(err) => err.code(),
            Self::Lower(err) => err.code(),
            Self::Call(err) => err.code(),
            Self::Supervisor(err) => err.code(),
            Self::Author(err) => err.code(),
            Self::Elsewhere { .. } => Code::WaitsElsewhere,
            Self::Foreseen { first, .. } => first.code(),
            Self::Requirements { .. } => Code::RequirementsMissing,
            Self::Sandbox { .. } => Code::SandboxUnavailable,
            Self::Cache(err) => err.code(),
            Self::Unfinished(_) => Code::Unfinished,
            Self::Signals(_) => Code::SignalsFailed,
            Self::Recovery { .. } => Code::RecoveryFailed,
            Self::InvalidDirective { .. } => Code::InvalidItem,
            Self::NoSteps { .. } => Code::NotRunnable,
            Self::InvalidGlob { .. } => Code::InvalidPattern,
            Self::NothingToRollBack | Self::AgentCommand(_) => Code::Usage,
            Self::Reference(ReferenceError::Unknown(_) | ReferenceError::NotOurs(_)) => {
                Code::NotFound
            }
            Self::Reference(ReferenceError::NoCommit(_)) => Code::NoCommit,
            Self::Reference(ReferenceError::NoSnapshot(_) | ReferenceError::SnapshotDropped(_)) => {
                Code::NoSnapshot
            }
            Self::Reference(ReferenceError::Ambiguous { .. }) => Code::Ambiguous,
            Self::Undo(err) => err.code(),
            Self::NoSuchPath(_) | Self::NoSuchFile { .. } => Code::NoSuchPath,
            Self::OutsidePath(_) => Code::OutsidePath,
            Self::PersonNeeded => Code::PersonNeeded,
            Self::RunWaits(_) => Code::RunWaits,
            Self::NotResumable { .. } | Self::Copied { .. } => Code::NotResumable,
            Self::Restart(err) => err.code(),
            Self::NothingWaits => Code::NothingWaits,
            Self::WrongAnswer(_) | Self::NothingAsked(_) => Code::WrongAnswer,
            Self::ShownChanged { .. } => Code::ChangedSinceShown,
            Self::Inputs { .. } => Code::InvalidInputs,
            Self::Value(err) => err.code(),
            Self::Item(err) => err.code(),
            Self::RelativeAgent { .. } => Code::InvalidSettings,
            Self::InsideRun(_) => Code::Locked,
            Self::Required { .. } => Code::RequirementNotFound,
            Self::Unsettled { source, .. } | Self::InStep { source, .. } => source.code(),
            Self::TooDeep { .. } => Code::TooDeep,
            Self::ItemChanged(_) => Code::ItemChanged,
            Self::Pin(_) | Self::SelfTestFolder { .. } => Code::WriteFailed,
            Self::PinDamaged { .. } => Code::PinDamaged,
            Self::Marker(_) => Code::LockFailed,
            Self::Worktree(err) => err.code(),
            Self::Finish(err) => err.code(),
            Self::Acceptance(err) => err.code(),
            Self::NotConfirmed(_) => Code::NotConfirmed,
            Self::Confinement(err) => err.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Checkpoint(err) => err.hint(),
            Self::Journal(err) => err.hint(),
            Self::Audit(err) => err.hint(),
            Self::Lock(err) => err.hint(),
            Self::Subprocess(err) => err.hint(),
            Self::NoDirective(err @ LookupError::NotFound { similar: None, instead: None, .. }) => {
                err.hint().map(|hint| hint![hint, "; `piton init` creates an example"])
            }
            Self::Lookup(err) | Self::NoDirective(err) => err.hint(),
            Self::Lower(err) => err.hint(),
            Self::Call(err) => err.hint(),
            Self::Supervisor(err) => err.hint(),
            Self::Author(err) => err.hint(),
            Self::Requirements { guide: Some(guide), .. } => Some((**guide).into()),
            Self::Requirements { commands, variables, servers, .. } => Some(match (commands.len(), variables.len()) {
                _ if !servers.is_empty() => "add a tool of type `mcp_server` with that id, or correct `requires.mcp`".into(),
                (0, 1) => "set it in the environment of piton".into(),
                (0, _) => "set them in the environment of piton".into(),
                (1, 0) => "install it, or put it on the search path".into(),
                (_, 0) => "install them, or put them on the search path".into(),
                _ => "install the commands and set the variables".into(),
            }),
            Self::Sandbox { network: Some(_), .. } => Some("set `network: none`, or a lower level".into()),
            Self::Sandbox { missing, .. } if !missing.is_empty() => Some(
                format!("the kernel does not prevent {}; `--allow-degraded` of `run` and `tool run` accepts that and records it", missing.join(", "))
                    .into(),
            ),
            Self::Sandbox { .. } => {
                Some("piton makes this call itself: use the level `standard`; `--allow-degraded` of `run` and `tool run` accepts less and records that".into())
            }
            Self::Cache(err) => err.hint(),
            Self::Unfinished(_) => Some("run `piton recover` or any other command to complete it".into()),
            Self::Unsettled { recovery, .. } => Some(recovery.hint().into()),
            Self::Signals(_) => None,
            Self::Recovery { source, .. } if source.is_fault_of_disk() => Some(
                "once the disk works, `piton recover` or the next command tries again; if it never will, `piton recover \
                 --give-up` ends the step, leaves these files as they are and names them"
                    .into(),
            ),
            Self::Recovery { source, .. } | Self::InStep { source, .. } => source.hint(),
            Self::InvalidDirective { .. } => Some(hint!["correct the file; ", HintCall::Validate, " checks all of them"]),
            Self::NoSteps { .. } => Some("give it a <process> with a <step>".into()),
            Self::InvalidGlob { .. } => Some(
                "write patterns such as `docs/**` or `src/*.rs`, relative to the current folder and inside the project"
                    .into(),
            ),
            Self::NothingToRollBack => Some("choose `--checkpoint auto` or `explicit`, or `--on-failure keep`".into()),
            Self::Reference(ReferenceError::Unknown(_)) => Some(hint!["list runs and steps with ", HintCall::Log]),
            Self::Reference(ReferenceError::NotOurs(_)) => Some("`git show` shows any commit".into()),
            Self::Reference(ReferenceError::NoCommit(_)) => {
                Some(hint!["name a commit; ", HintCall::Log, " shows which steps have one"])
            }
            Self::Reference(ReferenceError::NoSnapshot(_)) => Some("it ran with checkpoints disabled".into()),
            Self::Reference(ReferenceError::SnapshotDropped(_)) => {
                Some("`piton gc` deleted them; if the step was committed, use its commit".into())
            }
            Self::Reference(ReferenceError::Ambiguous { .. }) => Some("use a longer prefix".into()),
            Self::Undo(err) => err.hint(),
            Self::NoSuchPath(_) => Some("see what has changed with `git status`".into()),
            Self::NoSuchFile { .. } => Some("`piton show STEP --stat` lists the files that a step changed".into()),
            Self::OutsidePath(_) => Some("use paths inside the work tree".into()),
            Self::RunWaits(waiting) => {
                let run = || Some(waiting.run.to_string());
                Some(hint![
                    HintCall::Status(run()),
                    " shows it, ",
                    HintCall::Resume(run()),
                    " continues it, ",
                    HintCall::Cancel(run()),
                    " ends it",
                    Hint::Command("; or use a separate worktree with `--worktree`".to_owned())
                ])
            }
            Self::NotResumable { .. } | Self::NothingWaits => Some(hint!["list runs with ", HintCall::Log]),
            Self::Restart(err) => err.hint(),
            Self::WrongAnswer(waiting) => Some(way_on(waiting)),
            Self::ShownChanged { run, .. } => Some(hint![
                "look again with ",
                HintCall::Status(Some(run.to_string())),
                " and `piton diff`; nothing was approved and the run still waits"
            ]),
            Self::NothingAsked(run) => Some(hint![HintCall::Resume(Some(run.to_string())), " continues it"]),
            Self::Inputs { directive, problems } => {
                let suggested = problems.iter().find_map(|problem| problem.suggestion.clone());
                let id = directive.split('@').next().unwrap_or_default();
                Some(suggested.map_or_else(
                    || hint!["give them with ", HintCall::Inputs, "; ", HintCall::ShowDirective(id.to_owned()), " lists them"],
                    Hint::from,
                ))
            }
            Self::Value(err) => err.hint(),
            Self::Item(err) => err.hint(),
            Self::AgentCommand(_) => {
                Some("name a program and close every quote, e.g. `--agent-cmd 'my-agent --print'`".into())
            }
            Self::RelativeAgent { .. } => {
                Some("use the full path or a name on the search path: any project could put a program at a relative path".into())
            }
            Self::PersonNeeded => Some(hint!["ask the person; ", HintCall::Status(None), " shows what waits for them"]),
            Self::InsideRun(_) => Some(
                "let the step change the files directly: its changes become its checkpoint; only a step that waits \
                 for a person may use piton"
                    .into(),
            ),
            Self::Required { source, .. } => source.hint(),
            Self::Elsewhere { run, root } => {
                Some(format!("go there, or run `piton -C '{}' resume {run}`", root.display()).into())
            }
            Self::Foreseen { first, .. } => first.hint(),
            Self::TooDeep { .. } => Some("look for directives that call each other in a loop".into()),
            Self::ItemChanged(id) => Some(hint![
                format!("restore `{id}`, or "),
                HintCall::Cancel(None),
                " the run and start a new one"
            ]),
            Self::Pin(_) | Self::Marker(_) => {
                Some("check the disk space and the permissions of `.git/piton`".into())
            }
            Self::PinDamaged { run, .. } => Some(hint![HintCall::Cancel(Some(run.to_string())), " ends the run"]),
            Self::SelfTestFolder { .. } => Some("use a writable folder: `--in FOLDER`".into()),
            Self::Worktree(err) => err.hint(),
            Self::Finish(err) => err.hint(),
            Self::Acceptance(err) => err.hint(),
            Self::NotConfirmed(_) => Some("add `--yes`".into()),
            Self::Confinement(err) => err.hint(),
            Self::Copied { run, .. } => Some(hint![
                "continue it there; here, ",
                HintCall::Cancel(Some(run.to_string())),
                " ends the copy of the run"
            ]),
        }
    }

    fn place(&self) -> Option<Origin> {
        match self {
            Self::Lower(err) => err.place(),
            Self::Foreseen { first, .. } => first.place(),
            Self::InStep { origin, source, .. } => source.place().or_else(|| Some(origin.clone())),
            Self::Lookup(err) | Self::NoDirective(err) => err.finding().map(Origin::of),
            _ => None,
        }
    }
}

impl RunError {
    /// The problems in files, if these are the cause of the error.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Lookup(err) | Self::NoDirective(err) => {
                err.finding().map(std::slice::from_ref).unwrap_or_default()
            }
            Self::InvalidDirective { findings, .. } | Self::Foreseen { findings, .. } => findings,
            Self::Lower(err) => err.findings(),
            Self::InStep { source, .. } => source.findings(),
            _ => &[],
        }
    }

    /// Whether the disk or the system failed.
    fn is_fault_of_disk(&self) -> bool {
        match self {
            Self::Checkpoint(err) => err.is_fault_of_system(),
            Self::Unsettled { source, .. } => source.is_fault_of_disk(),
            _ => false,
        }
    }
}
