//! Why a step could not be run, kept or undone.

mod conversion;
mod kind;
mod restart;
mod words;

use std::io;
use std::path::PathBuf;

use super::acceptance::AcceptanceError;
use super::author::AuthorError;
use super::finish::FinishError;
use super::worktree::WorktreeError;
use crate::audit::error::AuditError;
use crate::audit::reference::ReferenceError;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::exec::ResolveError;
use crate::exec::call::CallError;
use crate::exec::subprocess::SubprocessError;
use crate::exec::supervisor::SupervisorError;
use crate::item::finding::Finding;
use crate::item::params::ParamProblem;
use crate::item::store::LookupError;
use crate::item::tool::Origin;
use crate::item::wording::shown as item_shown;
use crate::journal::lock::LockError;
use crate::journal::{JournalError, RunId};
use crate::problem::{Call, Code, Explain, Hint, hint, with_causes};

use super::directive::Waiting;
use super::items::ItemStepError;
use super::marker::WaitingRun;
use super::undo::error::UndoError;
use super::unsettled::RecoveryAction;
use super::values::ValueError;

pub use restart::RestartError;
use words::{needs, problems_in_words, tree_name, waiting_in};
pub use words::{way_on, way_on_in};

/// Everything that can stop a run before or between its steps.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The repository cannot be served, or git failed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// What happened cannot be read back, or cannot travel.
    #[error(transparent)]
    Audit(AuditError),
    /// Another run is at work in this worktree.
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
    /// A call could not be made ready.
    #[error(transparent)]
    Call(#[from] CallError),
    /// What looks after the processes of a tool could not be started.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// The signature policy does not let it run, or nobody can say who signed it.
    #[error(transparent)]
    Author(#[from] AuthorError),
    /// Something that a tool needs is not there.
    #[error("tool `{tool}` needs {}", needs(.commands, .variables))]
    Requirements {
        /// The tool.
        tool: String,
        /// Commands that are not on the search path.
        commands: Vec<String>,
        /// Variables that are not set.
        variables: Vec<String>,
        /// How to get the program that the tool is.
        guide: Option<String>,
    },
    /// An isolation level that was asked for cannot be given.
    #[error("tool `{tool}` asks for isolation `{level}`, which {}", network.map_or_else(|| "is not available".to_owned(), |it| format!("a container with the network `{it}` does not have")))]
    Sandbox {
        /// The tool.
        tool: String,
        /// The level.
        level: &'static str,
        /// The network of its container that does not go with it.
        network: Option<&'static str>,
    },
    /// The commit was made, and the index could not follow.
    #[error("the commit was made, but the index could not be brought up to date")]
    Unfinished(#[source] CheckpointError),
    /// The disk failed in the middle of a step, which stays open: a recovery brings it to an end.
    #[error("the step could not be finished")]
    Unsettled {
        /// What the recovery is going to do with its changes.
        recovery: RecoveryAction,
        /// What failed.
        #[source]
        source: Box<RunError>,
    },
    /// Signals could not be listened for.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    /// A run that was cut off could not be brought to an end.
    #[error("run `{run}` was cut off and cannot be recovered")]
    Recovery {
        /// The run.
        run: String,
        /// Why.
        #[source]
        source: Box<RunError>,
    },
    /// A directive that is to limit a call does not exist or cannot be used.
    #[error(transparent)]
    NoDirective(LookupError),
    /// A directive that is to limit a call has mistakes of its own.
    #[error("directive `{id}` is not valid, so that nobody knows what it allows")]
    InvalidDirective {
        /// The directive.
        id: String,
        /// What is wrong with it.
        findings: Vec<Finding>,
    },
    /// A glob of `--writes` is not valid.
    #[error("`{glob}` is not a pattern for paths: {reason}")]
    InvalidGlob {
        /// The pattern.
        glob: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A roll back was asked for where no snapshots are taken.
    #[error("`--on-failure rollback` needs snapshots, and `--checkpoint disabled` takes none")]
    NothingToRollBack,
    /// What was named does not exist, or may be several things.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// Nothing can be taken back, or applied again.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// A path that was named is neither on disk nor in the last commit.
    #[error("there is no file or folder `{0}`")]
    NoSuchPath(String),
    /// There was no such file at that moment.
    #[error("there is no file `{path}` at `{moment}`")]
    NoSuchFile {
        /// The path, as it was typed.
        path: String,
        /// The step or commit, as it was typed.
        moment: String,
    },
    /// A path that was named is outside of the work tree.
    #[error("`{0}` is outside of the work tree")]
    OutsidePath(String),
    /// A run of a directive is not finished in this worktree.
    #[error("run `{}` of `{}` is not finished here{}", .0.run, .0.name, waiting_in(.0))]
    RunWaits(Box<WaitingRun>),
    /// A run cannot be taken up.
    #[error("run `{run}` cannot be taken up: {reason}")]
    NotResumable {
        /// The run.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// A run cannot begin again, or not there.
    #[error(transparent)]
    Restart(#[from] RestartError),
    /// A waiting step was given something that it does not wait for.
    #[error("step `{}` does not wait for this", .0.name)]
    WrongAnswer(Box<Waiting>),
    /// No run waits in this worktree.
    #[error("no run waits here")]
    NothingWaits,
    /// A person approved something else than what is on disk.
    #[error("the files have changed since they were shown: tree {shown} was approved, {} is on disk", tree_name(*.found))]
    ShownChanged {
        /// The run.
        run: RunId,
        /// What was approved.
        shown: String,
        /// What is there; none where there is nothing to approve.
        found: Option<ObjectId>,
    },
    /// A run was given an answer and waits for none.
    #[error("run `{0}` waits for no answer")]
    NothingAsked(RunId),
    /// What a directive was given does not fit.
    #[error("directive `{directive}` cannot be run with these inputs: {}", problems_in_words(.problems))]
    Inputs {
        /// The directive.
        directive: String,
        /// What does not fit.
        problems: Vec<ParamProblem>,
    },
    /// A value of a directive could not be worked out.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// An item step failed.
    #[error(transparent)]
    Item(#[from] ItemStepError),
    /// The command of an agent is not one.
    #[error("`{}` is not a command line", item_shown(.0))]
    AgentCommand(String),
    /// The settings name the program of an agent relative to a folder.
    #[error("`{key}` names its program relative to a folder: `{}`", item_shown(.command))]
    RelativeAgent {
        /// The setting.
        key: &'static str,
        /// What it says.
        command: String,
    },
    /// A step of a run uses piton itself.
    #[error("this command was started by a step of run `{0}`, which has not ended")]
    InsideRun(RunId),
    /// A directive needs another one that does not exist.
    #[error("directive `{directive}` requires `{required}`")]
    Required {
        /// The directive.
        directive: String,
        /// The one that it needs.
        required: String,
        /// Why that cannot be used.
        #[source]
        source: LookupError,
    },
    /// A step names something that cannot be used.
    #[error("step `{step}` cannot be run")]
    InStep {
        /// The step.
        step: String,
        /// Where it stands.
        origin: Origin,
        /// What is wrong.
        #[source]
        source: Box<RunError>,
    },
    /// Directives call each other too deeply.
    #[error("more than {most} directives are inside each other")]
    TooDeep {
        /// How many may be.
        most: usize,
    },
    /// A tool is not what it was when the run began.
    #[error("`{0}` has changed since the run began")]
    ItemChanged(String),
    /// What a run was started with cannot be written down.
    #[error("cannot keep what the run was started with")]
    Pin(#[source] io::Error),
    /// What a run was started with is not what it was.
    #[error("what run `{run}` was started with was changed or removed: `{}`", .path.display())]
    PinDamaged {
        /// The run.
        run: RunId,
        /// The file.
        path: PathBuf,
    },
    /// The note about an unfinished run cannot be read or written.
    #[error("cannot keep the note about the run of this worktree")]
    Marker(#[source] io::Error),
    /// The repository of a self-test cannot be made.
    #[error("cannot make a repository to test in `{}`", folder.display())]
    SelfTestFolder {
        /// Where it was to be made.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no worktree for a run, or it stays.
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    /// A run cannot be closed.
    #[error(transparent)]
    Finish(#[from] FinishError),
    /// What became of a checkpoint cannot be accepted.
    #[error(transparent)]
    Acceptance(#[from] AcceptanceError),
    /// A run waits in another work tree, for edits that are made there.
    #[error("run `{run}` waits in `{}`, for what is changed there", .root.display())]
    Elsewhere {
        /// The run.
        run: RunId,
        /// Its work tree.
        root: PathBuf,
    },
    /// A run cannot begin; with everything that is wrong, not only the first of it.
    #[error("{}", with_causes(.first.as_ref()))]
    Foreseen {
        /// The error that a run would meet first.
        first: Box<RunError>,
        /// What is missing or wrong in all that it can reach.
        findings: Vec<Finding>,
    },
    /// Something that cannot be taken back needs to be confirmed.
    #[error("{0} needs to be confirmed")]
    NotConfirmed(&'static str),
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
            Self::Unfinished(_) => Code::Unfinished,
            Self::Signals(_) => Code::SignalsFailed,
            Self::Recovery { .. } => Code::RecoveryFailed,
            Self::InvalidDirective { .. } => Code::InvalidItem,
            Self::InvalidGlob { .. } => Code::InvalidPattern,
            Self::NothingToRollBack | Self::AgentCommand(_) => Code::Usage,
            Self::Reference(ReferenceError::Unknown(_) | ReferenceError::NotOurs(_)) => Code::NotFound,
            Self::Reference(ReferenceError::NoCommit(_)) => Code::NoCommit,
            Self::Reference(ReferenceError::NoSnapshot(_) | ReferenceError::SnapshotDropped(_)) => Code::NoSnapshot,
            Self::Reference(ReferenceError::Ambiguous { .. }) => Code::Ambiguous,
            Self::Undo(err) => err.code(),
            Self::NoSuchPath(_) | Self::NoSuchFile { .. } => Code::NoSuchPath,
            Self::OutsidePath(_) => Code::OutsidePath,
            Self::RunWaits(_) => Code::RunWaits,
            Self::NotResumable { .. } => Code::NotResumable,
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
                err.hint().map(|hint| hint![hint, "; `piton init` makes an example"])
            }
            Self::Lookup(err) | Self::NoDirective(err) => err.hint(),
            Self::Lower(err) => err.hint(),
            Self::Call(err) => err.hint(),
            Self::Supervisor(err) => err.hint(),
            Self::Author(err) => err.hint(),
            Self::Requirements { guide: Some(guide), .. } => Some(guide.as_str().into()),
            Self::Requirements { commands, variables, .. } => Some(match (commands.len(), variables.len()) {
                (0, 1) => "set it in the environment of piton".into(),
                (0, _) => "set them in the environment of piton".into(),
                (1, 0) => "install it, or put it on the search path".into(),
                (_, 0) => "install them, or put them on the search path".into(),
                _ => "install the commands and set the variables".into(),
            }),
            Self::Sandbox { network: Some(_), .. } => Some("write `network: none`, or ask for less".into()),
            Self::Sandbox { .. } => {
                Some("`--allow-degraded` runs it supervised only, which is written down; or ask for `trusted`".into())
            }
            Self::Unfinished(_) => Some("`piton recover` finishes it, as the next command does".into()),
            Self::Unsettled { recovery, .. } => Some(recovery.hint().into()),
            Self::Signals(_) => None,
            Self::Recovery { source, .. } | Self::InStep { source, .. } => source.hint(),
            Self::InvalidDirective { .. } => Some(hint!["correct the file; ", Call::Validate, " checks all of them"]),
            Self::InvalidGlob { .. } => Some(
                "write patterns such as `docs/**` or `src/*.rs`, relative to the current folder and inside the project"
                    .into(),
            ),
            Self::NothingToRollBack => Some("choose `--checkpoint auto` or `explicit`, or `--on-failure keep`".into()),
            Self::Reference(ReferenceError::Unknown(_)) => Some(hint!["list runs and steps with ", Call::Log]),
            Self::Reference(ReferenceError::NotOurs(_)) => Some("`git show` shows any commit".into()),
            Self::Reference(ReferenceError::NoCommit(_)) => {
                Some(hint!["name a commit; ", Call::Log, " shows which steps have one"])
            }
            Self::Reference(ReferenceError::NoSnapshot(_)) => Some("it ran with checkpoints disabled".into()),
            Self::Reference(ReferenceError::SnapshotDropped(_)) => {
                Some("`piton gc` dropped them; if the step was committed, name its commit".into())
            }
            Self::Reference(ReferenceError::Ambiguous { .. }) => Some("use a longer prefix".into()),
            Self::Undo(err) => err.hint(),
            Self::NoSuchPath(_) => Some("see what has changed with `git status`".into()),
            Self::NoSuchFile { .. } => Some("`piton show STEP --stat` lists the files that a step changed".into()),
            Self::OutsidePath(_) => Some("name files below the top of the work tree".into()),
            Self::RunWaits(waiting) => {
                let run = || Some(waiting.run.to_string());
                Some(hint![
                    Call::Status(run()),
                    " shows it, ",
                    Call::Resume(run()),
                    " goes on, ",
                    Call::Cancel(run()),
                    " ends it",
                    Hint::Command("; or work in a worktree of its own with `--worktree`".to_owned())
                ])
            }
            Self::NotResumable { .. } | Self::NothingWaits => Some(hint!["list runs with ", Call::Log]),
            Self::Restart(err) => err.hint(),
            Self::WrongAnswer(waiting) => Some(way_on(waiting)),
            Self::ShownChanged { run, .. } => Some(hint![
                "look again with ",
                Call::Status(Some(run.to_string())),
                " and `piton diff`; nothing was approved and the run still waits"
            ]),
            Self::NothingAsked(run) => Some(hint![Call::Resume(Some(run.to_string())), " goes on"]),
            Self::Inputs { directive, problems } => {
                let suggested = problems.iter().find_map(|problem| problem.suggestion.clone());
                let id = directive.split('@').next().unwrap_or_default();
                Some(suggested.map_or_else(
                    || hint!["give them with ", Call::Inputs, "; ", Call::ShowDirective(id.to_owned()), " lists them"],
                    Hint::from,
                ))
            }
            Self::Value(err) => err.hint(),
            Self::Item(err) => err.hint(),
            Self::AgentCommand(_) => {
                Some("name a program and close every quote, e.g. `--agent-cmd 'my-agent --print'`".into())
            }
            Self::RelativeAgent { .. } => {
                Some("give the full path, or a name on the search path: any project could put a program there".into())
            }
            Self::InsideRun(_) => Some(
                "let the step change the files themselves: what it changes becomes its checkpoint; a step that waits \
                 for a person may use piton"
                    .into(),
            ),
            Self::Required { source, .. } => source.hint(),
            Self::Elsewhere { run, root } => {
                Some(format!("go there, or run `piton -C '{}' resume {run}`", root.display()).into())
            }
            Self::Foreseen { first, .. } => first.hint(),
            Self::TooDeep { .. } => Some("look for directives that call each other in a circle".into()),
            Self::ItemChanged(id) => Some(hint![
                format!("bring `{id}` back to what it was, or "),
                Call::Cancel(None),
                " the run and start a new one"
            ]),
            Self::Pin(_) | Self::Marker(_) => {
                Some("see that there is space on the disk, and that you may write into `.git/piton`".into())
            }
            Self::PinDamaged { run, .. } => Some(hint![Call::Cancel(Some(run.to_string())), " ends the run"]),
            Self::SelfTestFolder { .. } => Some("name a folder that you may write with `--in FOLDER`".into()),
            Self::Worktree(err) => err.hint(),
            Self::Finish(err) => err.hint(),
            Self::Acceptance(err) => err.hint(),
            Self::NotConfirmed(_) => Some("add `--yes`".into()),
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
    /// What is wrong in files, place by place, where that is the reason.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Lookup(err) | Self::NoDirective(err) => err.finding().map(std::slice::from_ref).unwrap_or_default(),
            Self::InvalidDirective { findings, .. } | Self::Foreseen { findings, .. } => findings,
            Self::InStep { source, .. } => source.findings(),
            _ => &[],
        }
    }
}
