//! The errors that the front doors report.
//!
//! [`Error`] is above the modules that it wraps: they return their own errors and never use this
//! one. Each error has a stable code, a message and often a hint, and decides the [`ExitStatus`].

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::authoring::ItemStepError;
use crate::context::ContextError;
use crate::item::finding::Finding;
use crate::item::store::LookupError;
use crate::item::tool::Origin;
use crate::item::wording::shown;
use crate::problem::{Code, Explain, Hint, HintCall, Problem, hint};
use crate::run::error::RunError;
use crate::run::tool::{AcceptError, ToolResult, ToolStatus};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no project.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// A settings file is invalid.
    #[error("the settings are not valid")]
    Settings(Vec<Finding>),
    /// The requested setting does not exist.
    #[error("`{name}` is not a setting")]
    UnknownSetting {
        name: String,
        /// The probable meaning.
        similar: Option<&'static str>,
    },
    /// There is no help page with this name.
    #[error("there is neither a topic nor a command `{}`", shown(.name))]
    UnknownTopic {
        name: String,
        /// The probable meaning.
        similar: Option<String>,
        /// All pages at this place.
        known: Vec<String>,
    },
    /// The command does not support the requested format.
    #[error("`{command}` cannot be written as `{format}`")]
    UnknownFormat {
        command: &'static str,
        format: &'static str,
        /// The supported formats.
        offered: String,
    },
    /// Files are in the way of new ones.
    #[error("{} {} in the way", quoted(.0), if .0.len() == 1 { "is" } else { "are" })]
    FilesInTheWay(Vec<PathBuf>),
    /// An item could not be found.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A given path does not exist or cannot be read.
    #[error("cannot read `{}`", .file.display())]
    Read {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A given file is not an item.
    #[error("`{}` is neither a directive, a tool nor knowledge", .0.display())]
    NotAnItem(PathBuf),
    /// A given file is invalid.
    #[error("`{}` is not valid", .file.display())]
    InvalidFile {
        file: PathBuf,
        findings: Vec<Finding>,
    },
    /// A file could not be written.
    #[error("cannot write `{}`", .file.display())]
    Write {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A value is not JSON.
    #[error("`{text}` is not JSON: {reason}")]
    InvalidJson { text: String, reason: String },
    /// A date cannot be parsed.
    #[error("`{0}` is neither a date nor a time span")]
    InvalidDate(String),
    /// `rollback` without `--hard`.
    #[error("`rollback` resets everything and requires `--hard`")]
    OnlyHard,
    /// There is no item registry.
    #[error("piton has no registry of items")]
    NoRegistry,
    /// A checkpoint flag for a command that makes no checkpoint.
    #[error("`{0}` applies only to writes to the project")]
    NothingToCheckpoint(&'static str),
    /// No item to sign was given.
    #[error("no item to sign was given")]
    NothingToSign,
    /// A run could not be started, ended or undone.
    #[error(transparent)]
    Run(Box<RunError>),
    /// Nothing was accepted.
    #[error(transparent)]
    Accept(#[from] AcceptError),
    /// A server cannot be started.
    #[error("{message}")]
    Server {
        code: Code,
        message: String,
        /// How to fix it.
        hint: Option<Hint>,
    },
    /// The settings of an MCP client cannot be changed.
    #[error("{message}")]
    ClientSettings {
        code: Code,
        message: String,
        /// How to fix it.
        hint: Option<Hint>,
    },
    /// Git hooks cannot be changed.
    #[error("{message}")]
    Hooks {
        message: String,
        /// How to fix it.
        hint: String,
    },
    /// The result could not be printed.
    #[error("cannot print the result")]
    Output(#[from] io::Error),
}

/// The exit status of the process; [`Self::number`] is its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Success,
    /// The operation failed.
    Failure,
    /// Wrong usage, an invalid file, or something that was not found.
    Invalid,
    /// Denied by a permission.
    Denied,
    /// An agent, a person or a decision is needed.
    Waiting,
    /// The repository or machine is not in a safe state.
    Unsafe,
    /// Interrupted from the keyboard.
    Interrupted,
    /// `piton exec` passes on the exit status of its command.
    Command(u8),
}

impl Explain for Error {
    fn code(&self) -> Code {
        match self {
            Self::Context(err) => err.code(),
            Self::Settings(_) => Code::InvalidSettings,
            Self::UnknownSetting { .. } => Code::UnknownSetting,
            Self::UnknownTopic { .. } => Code::UnknownTopic,
            Self::UnknownFormat { .. }
            | Self::InvalidDate(_)
            | Self::InvalidJson { .. }
            | Self::OnlyHard
            | Self::NoRegistry
            | Self::NothingToCheckpoint(_)
            | Self::NothingToSign => Code::Usage,
            Self::FilesInTheWay(_) => Code::FilesInTheWay,
            Self::Lookup(err) => err.code(),
            Self::Read { .. } => Code::CannotRead,
            Self::NotAnItem(_) => Code::NotAnItem,
            Self::InvalidFile { .. } => Code::InvalidFile,
            Self::Run(err) => err.code(),
            Self::Accept(err) => err.code(),
            Self::Server { code, .. } | Self::ClientSettings { code, .. } => *code,
            Self::Write { .. } | Self::Hooks { .. } | Self::Output(_) => Code::CannotWrite,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Context(err) => err.hint(),
            Self::Settings(_) => Some("`piton config` shows which settings apply".into()),
            Self::UnknownSetting { similar: Some(name), .. } => Some(format!("did you mean `{name}`?").into()),
            Self::UnknownSetting { similar: None, .. } => Some("list the settings with `piton config`".into()),
            Self::UnknownTopic { similar, known, .. } => {
                let meant = similar.as_ref().map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
                let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                Some(format!("{meant}There is help on {}", known.join(", ")).into())
            }
            Self::UnknownFormat { offered, .. } => Some(format!("choose {offered}").into()),
            Self::FilesInTheWay(_) => Some(
                "nothing was written, because piton never overwrites files: move the existing ones away, or keep them".into(),
            ),
            Self::InvalidDate(_) => Some("write `2026-01-02`, `2026-01-02T03:04`, `2h` or `\"3 days\"`".into()),
            Self::NothingToCheckpoint(flag) => {
                Some(format!("leave `{flag}` out: no checkpoint covers anything else").into())
            }
            Self::NoRegistry => {
                Some("`--source local` is the project and `~/.ai/`; `all` adds built-in items".into())
            }
            Self::InvalidJson { .. } => Some(r#"write e.g. '{"count": 3}', in quotes for the shell"#.into()),
            Self::OnlyHard => Some(hint![
                HintCall::Undo(None),
                " undoes one step and keeps everything else; `piton rollback --hard REF` moves the branch and \
                 discards what is not committed"
            ]),
            Self::NothingToSign => Some(
                "name items, e.g. `piton sign greet` or `piton sign 'ops/*'`, or take all of them with `--all`".into(),
            ),
            Self::Lookup(err) => err.hint(),
            Self::NotAnItem(_) => {
                Some("items are Markdown, YAML, JSON or scripts; `piton init` makes one of each".into())
            }
            Self::Read { .. } => {
                Some("name a file or folder that exists; paths are relative to the current folder".into())
            }
            Self::Run(err) => err.hint(),
            Self::Accept(err) => err.hint(),
            Self::Server { hint, .. } | Self::ClientSettings { hint, .. } => hint.clone(),
            Self::Hooks { hint, .. } => Some(hint.as_str().into()),
            Self::Write { .. } => Some("check that its folder exists and is writable, and the disk space".into()),
            Self::InvalidFile { .. } | Self::Output(_) => None,
        }
    }

    fn place(&self) -> Option<Origin> {
        match self {
            Self::Lookup(err) => err.finding().map(Origin::of),
            Self::Run(err) => err.place(),
            _ => None,
        }
    }
}

impl Error {
    /// The problems in files, if these are the cause.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Settings(findings) | Self::InvalidFile { findings, .. } => findings,
            Self::Lookup(err) => err.finding().map(std::slice::from_ref).unwrap_or_default(),
            Self::Run(err) => err.findings(),
            _ => &[],
        }
    }

    /// A tool result for a call that could not be made, in the usual form.
    pub fn as_tool_result(&self, id: &str) -> ToolResult {
        let mut result = ToolResult::of(id);
        let status = match self.exit_status() {
            ExitStatus::Denied => ToolStatus::Denied,
            ExitStatus::Interrupted => ToolStatus::Cancelled,
            _ => ToolStatus::Error,
        };
        result.fail(status, &Problem::of(self));
        result.findings = self.findings().to_vec();
        result
    }

    pub fn exit_status(&self) -> ExitStatus {
        match self {
            Self::Hooks { .. }
            | Self::Accept(AcceptError::Run(_))
            | Self::Context(
                ContextError::RootIsHome(_)
                | ContextError::RootIsSystem
                | ContextError::InsideGitData(_),
            ) => ExitStatus::Unsafe,
            // The reader closed the pipe because it has seen enough.
            Self::Output(err) if err.kind() == io::ErrorKind::BrokenPipe => ExitStatus::Success,
            Self::Run(err) if err.is_interrupted() => ExitStatus::Interrupted,
            Self::Run(err) if err.is_asked_again() => ExitStatus::Waiting,
            Self::Run(err) if err.is_denied() => ExitStatus::Denied,
            Self::Run(err) if err.is_unsafe() => ExitStatus::Unsafe,
            Self::Run(err) if err.is_usage() => ExitStatus::Invalid,
            Self::Write { .. }
            | Self::Output(_)
            | Self::Run(_)
            | Self::Accept(AcceptError::Definitions(_))
            | Self::Server { .. } => ExitStatus::Failure,
            Self::Context(_)
            | Self::Settings(_)
            | Self::UnknownSetting { .. }
            | Self::UnknownTopic { .. }
            | Self::UnknownFormat { .. }
            | Self::InvalidDate(_)
            | Self::InvalidJson { .. }
            | Self::OnlyHard
            | Self::NoRegistry
            | Self::NothingToCheckpoint(_)
            | Self::NothingToSign
            | Self::FilesInTheWay(_)
            | Self::Lookup(_)
            | Self::Accept(_)
            | Self::Read { .. }
            | Self::InvalidFile { .. }
            | Self::ClientSettings { .. }
            | Self::NotAnItem(_) => ExitStatus::Invalid,
        }
    }
}

impl ExitStatus {
    pub fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Invalid => 2,
            Self::Denied => 3,
            Self::Waiting => 4,
            Self::Unsafe => 5,
            Self::Interrupted => 130,
            Self::Command(number) => number,
        }
    }

    /// All exit codes of piton itself, smallest first.
    pub const ALL: [Self; 7] = [
        Self::Success,
        Self::Failure,
        Self::Invalid,
        Self::Denied,
        Self::Waiting,
        Self::Unsafe,
        Self::Interrupted,
    ];

    /// A one-line explanation.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "the run, check or verification failed",
            Self::Invalid => "wrong usage, an invalid file, or something that was not found",
            Self::Denied => "denied by a permission or by the policy on signatures",
            Self::Waiting => "waiting for an agent, a person or a decision",
            Self::Unsafe => "refused for safety, because of the repository or the machine",
            Self::Interrupted => "interrupted",
            Self::Command(_) => "the exit status of the command of `piton exec`",
        }
    }
}

impl From<RunError> for Error {
    fn from(err: RunError) -> Self {
        Self::Run(Box::new(err))
    }
}

impl From<ItemStepError> for Error {
    fn from(err: ItemStepError) -> Self {
        RunError::from(err).into()
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.number())
    }
}

fn quoted(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| format!("`{}`", path.display()))
        .collect::<Vec<_>>()
        .join(", ")
}
