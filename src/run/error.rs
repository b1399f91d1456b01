//! Why a step could not be run, kept or undone.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use crate::audit::reference::{MomentError, ReferenceError};
use crate::audit::verification::AuditError;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::path::RepoPath;
use crate::exec::LowerError;
use crate::exec::call::CallError;
use crate::exec::subprocess::SubprocessError;
use crate::exec::supervisor::SupervisorError;
use crate::item::finding::Finding;
use crate::item::store::LookupError;
use crate::item::tool::Origin;
use crate::journal::lock::LockError;
use crate::journal::{JournalError, StepId};

/// Everything that can stop a run before or between its steps.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The repository cannot be served, or git failed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
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
    Lower(Box<LowerError>),
    /// A call could not be made ready.
    #[error(transparent)]
    Call(#[from] CallError),
    /// What looks after the processes of a tool could not be started.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// The signature policy lets only signed items run.
    #[error("only signed items may run, and not signed {} {}", if .0.len() == 1 { "is" } else { "are" }, quoted(.0))]
    Unsigned(Vec<PathBuf>),
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
    #[error("tool `{tool}` asks for isolation `{level}`, which is not available")]
    Sandbox {
        /// The tool.
        tool: String,
        /// The level.
        level: &'static str,
    },
    /// The commit was made, and the index could not follow.
    #[error("the commit was made, but the index could not be brought up to date")]
    Unfinished(#[source] CheckpointError),
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
    #[error("directive `{0}` is not valid, so that nobody knows what it allows")]
    InvalidDirective(String),
    /// A glob of `--writes` is not valid.
    #[error("`{glob}` is not a pattern for paths: {reason}")]
    InvalidGlob {
        /// The pattern.
        glob: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What was named does not exist, or may be several things.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// There is nothing to undo.
    #[error("there is no step to undo in this work tree")]
    NothingToUndo,
    /// There is nothing to redo.
    #[error("nothing was undone that could be redone")]
    NothingToRedo,
    /// The step has no effect that could be undone.
    #[error("step `{step}` cannot be undone: {reason}")]
    NotUndoable {
        /// The step.
        step: StepId,
        /// Why.
        reason: &'static str,
    },
    /// A path that was named is neither on disk nor in the last commit.
    #[error("there is no file or folder `{0}`")]
    NoSuchPath(String),
    /// A path that was named is outside of the work tree.
    #[error("`{0}` is outside of the work tree")]
    OutsidePath(String),
    /// Files are not as the step left them, so that nothing was changed.
    #[error("files have changed since: {}", shown(.paths))]
    Conflict {
        /// The files.
        paths: Vec<RepoPath>,
    },
    /// Something that cannot be taken back needs to be confirmed.
    #[error("{0} needs to be confirmed")]
    NotConfirmed(&'static str),
}

impl RunError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Checkpoint(err) => err.code(),
            Self::Journal(err) => err.code(),
            Self::Lock(err) => err.code(),
            Self::Subprocess(err) => err.code(),
            Self::NoDirective(LookupError::NotFound { .. }) => "DIRECTIVE_NOT_FOUND",
            Self::Lookup(err) | Self::NoDirective(err) => err.code(),
            Self::Lower(err) => err.code(),
            Self::Call(err) => err.code(),
            Self::Supervisor(err) => err.code(),
            Self::Unsigned(_) => "SIGNATURE_REQUIRED",
            Self::Requirements { .. } => "REQUIREMENTS_MISSING",
            Self::Sandbox { .. } => "SANDBOX_UNAVAILABLE",
            Self::Unfinished(_) => "UNFINISHED",
            Self::Signals(_) => "SIGNALS_FAILED",
            Self::Recovery { .. } => "RECOVERY_FAILED",
            Self::InvalidDirective(_) => "INVALID_ITEM",
            Self::InvalidGlob { .. } => "INVALID_PATTERN",
            Self::Reference(ReferenceError::Unknown(_) | ReferenceError::NotOurs(_)) => "NOT_FOUND",
            Self::Reference(ReferenceError::NoCommit(_)) => "NO_COMMIT",
            Self::Reference(ReferenceError::NoSnapshot(_) | ReferenceError::SnapshotDropped(_)) => "NO_SNAPSHOT",
            Self::Reference(ReferenceError::Ambiguous { .. }) => "AMBIGUOUS",
            Self::NothingToUndo => "NOTHING_TO_UNDO",
            Self::NothingToRedo => "NOTHING_TO_REDO",
            Self::NotUndoable { .. } => "NOT_UNDOABLE",
            Self::NoSuchPath(_) => "NO_SUCH_PATH",
            Self::OutsidePath(_) => "OUTSIDE_PATH",
            Self::Conflict { .. } => "CHANGED_SINCE",
            Self::NotConfirmed(_) => "NOT_CONFIRMED",
        }
    }

    /// The way out.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Checkpoint(err) => err.hint(),
            Self::Journal(err) => err.hint(),
            Self::Lock(err) => err.hint(),
            Self::Subprocess(err) => err.hint(),
            Self::Lookup(err) | Self::NoDirective(err) => err.hint(),
            Self::Lower(err) => err.hint(),
            Self::Call(err) => err.hint(),
            Self::Supervisor(err) => err.hint(),
            Self::Unsigned(_) => Some("`piton config signature.require` shows where this is asked for".to_owned()),
            Self::Requirements { guide: Some(guide), .. } => Some(guide.clone()),
            Self::Requirements { commands, variables, .. } => Some(match (commands.len(), variables.len()) {
                (0, 1) => "set it in the environment of piton".to_owned(),
                (0, _) => "set them in the environment of piton".to_owned(),
                (1, 0) => "install it, or put it on the search path".to_owned(),
                (_, 0) => "install them, or put them on the search path".to_owned(),
                _ => "install the commands and set the variables".to_owned(),
            }),
            Self::Sandbox { .. } => Some(
                "`--allow-degraded` runs it supervised only, which is written down; or ask for `trusted`".to_owned(),
            ),
            Self::Unfinished(_) => Some("`piton recover` finishes it, as the next command does".to_owned()),
            Self::Signals(_) => None,
            Self::Recovery { source, .. } => source.hint(),
            Self::InvalidDirective(_) => Some("`piton validate` shows what is wrong with it".to_owned()),
            Self::InvalidGlob { .. } => Some("write patterns such as `docs/**` or `src/*.rs`".to_owned()),
            Self::Reference(ReferenceError::Unknown(_)) => Some("list runs and steps with `piton log`".to_owned()),
            Self::Reference(ReferenceError::NotOurs(_)) => Some("`git show` shows any commit".to_owned()),
            Self::Reference(ReferenceError::NoCommit(_)) => {
                Some("name a commit; `piton log` shows which steps have one".to_owned())
            }
            Self::Reference(ReferenceError::NoSnapshot(_)) => Some("it ran with checkpoints disabled".to_owned()),
            Self::Reference(ReferenceError::SnapshotDropped(_)) => {
                Some("`piton gc` dropped them; if the step was committed, name its commit".to_owned())
            }
            Self::Reference(ReferenceError::Ambiguous { .. }) => Some("write more of it".to_owned()),
            Self::NothingToUndo | Self::NothingToRedo | Self::NotUndoable { .. } => {
                Some("see what happened with `piton log`".to_owned())
            }
            Self::NoSuchPath(_) => Some("see what has changed with `git status`".to_owned()),
            Self::OutsidePath(_) => Some("name files below the top of the work tree".to_owned()),
            Self::Conflict { .. } => Some(
                "nothing was changed: undo or commit the later changes first, see them with `piton diff`".to_owned(),
            ),
            Self::NotConfirmed(_) => Some("add `--yes`".to_owned()),
        }
    }

    /// The place in a file that is at fault, where there is one.
    pub fn place(&self) -> Option<Origin> {
        match self {
            Self::Lower(err) => err.place(),
            Self::Lookup(err) | Self::NoDirective(err) => err.finding().map(Origin::of),
            _ => None,
        }
    }

    /// What is wrong in files, place by place, where that is the reason.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Lookup(err) | Self::NoDirective(err) => err.finding().map(std::slice::from_ref).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Whether the repository or the machine is the reason.
    pub fn is_unsafe(&self) -> bool {
        match self {
            Self::Checkpoint(err) => err.is_unsafe(),
            Self::Journal(_)
            | Self::Lock(_)
            | Self::Signals(_)
            | Self::Recovery { .. }
            | Self::Sandbox { .. }
            | Self::Supervisor(_) => true,
            _ => false,
        }
    }

    /// Whether somebody asked to stop.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Call(CallError::Interrupted))
    }

    /// Whether the signature policy forbids it.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Lower(err) => err.is_denied(),
            Self::Unsigned(_) => true,
            _ => false,
        }
    }

    /// Whether what was asked for does not exist or makes no sense.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::InvalidGlob { .. }
                | Self::NoDirective(_)
                | Self::InvalidDirective(_)
                | Self::Reference(_)
                | Self::OutsidePath(_)
                | Self::NoSuchPath(_)
                | Self::NotConfirmed(_)
                | Self::Subprocess(_)
                | Self::Lookup(_)
                | Self::Lower(_)
                | Self::Requirements { .. }
                | Self::Checkpoint(CheckpointError::InvalidMessage { .. } | CheckpointError::InvalidAllowance { .. })
        )
    }
}

impl From<MomentError> for RunError {
    fn from(err: MomentError) -> Self {
        match err {
            MomentError::Reference(err) => err.into(),
            MomentError::Checkpoint(err) => err.into(),
        }
    }
}

impl From<AuditError> for RunError {
    fn from(err: AuditError) -> Self {
        match err {
            AuditError::Checkpoint(err) => err.into(),
            AuditError::Journal(err) => err.into(),
        }
    }
}

/// What happened, and why, in one line.
pub(super) fn with_causes(err: &dyn std::error::Error) -> String {
    let mut message = err.to_string();
    let mut cause = err.source();
    while let Some(source) = cause {
        let _ = write!(message, ": {source}");
        cause = source.source();
    }
    message
}

fn quoted(files: &[PathBuf]) -> String {
    files.iter().map(|file| format!("`{}`", file.display())).collect::<Vec<_>>().join(", ")
}

fn needs(commands: &[String], variables: &[String]) -> String {
    let list = |what: &str, names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let plural = if names.len() == 1 { "" } else { "s" };
        (!names.is_empty()).then(|| format!("the {what}{plural} {}", names.join(", ")))
    };
    let parts = [list("command", commands), list("environment variable", variables)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

impl From<LowerError> for RunError {
    fn from(err: LowerError) -> Self {
        Self::Lower(Box::new(err))
    }
}

fn shown(paths: &[RepoPath]) -> String {
    crate::checkpoint::path::listed(paths)
}
