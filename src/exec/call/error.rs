//! Errors of making a call or reading its result.

use std::io;
use std::path::PathBuf;

use crate::exec::python::bootstrap::Raised;
use crate::exec::subprocess::SubprocessError;
use crate::exec::supervisor::SupervisorError;
use crate::exec::worker::WorkFailure;
use crate::item::source::Unread;
use crate::item::wording::{first_line, shown};
use crate::problem::{Code, Explain, Hint};

/// The longest text of an exception that a message quotes.
const LONGEST_LINE: usize = 300;

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// The script is not the one that was checked.
    #[error("the script `{}` changed after it was checked", .script.display())]
    ScriptChanged { script: PathBuf },
    #[error("cannot read the script `{}`", .script.display())]
    ScriptUnreadable {
        script: PathBuf,
        #[source]
        source: Unread,
    },
    #[error(transparent)]
    Program {
        #[from]
        source: SubprocessError,
    },
    #[error("cannot make a private home below `{}`", .folder.display())]
    Home {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The dependency is an option for the installer, not a package.
    #[error("`{}` is not the name of a package", shown(.dependency))]
    BadDependency { dependency: String },
    /// The check of the manifest says that the program is not installed.
    #[error("tool `{tool}` is not ready: its `install_check` failed: `{}`", shown(.check))]
    NotInstalled {
        tool: String,
        check: String,
        /// How to install it.
        guide: Option<String>,
    },
    #[error("cannot {what} for `{tool}`{}", lines(.said))]
    Dependencies {
        tool: String,
        what: String,
        /// The last lines of the installer's output.
        said: Vec<String>,
    },
    #[error("cannot keep environments in `{}`", .folder.display())]
    Cache {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot make the declared cache `{}`", .folder.display())]
    DeclaredCache {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A signal or the client asked piton to stop.
    #[error("interrupted")]
    Interrupted,
    #[error("{}: {}", shown(&.0.kind), first_line(&.0.message, LONGEST_LINE))]
    Raised(Raised),
    /// A call that piton makes itself, such as HTTP, failed.
    #[error("{}", .0.message)]
    Failed(WorkFailure),
    /// The process ended without returning a result.
    #[error("the process ended before `{function}` returned")]
    NoResult { function: &'static str },
    #[error("the result is too large: {bytes} bytes")]
    TooLarge { bytes: u64 },
    /// The result has `success: false`.
    #[error("it answered `success: false`{}", .reason.as_ref().map_or_else(String::new, |reason| format!(": {}", first_line(reason, LONGEST_LINE))))]
    Unsuccessful {
        /// What the result says about it.
        reason: Option<String>,
    },
    /// The result does not match the manifest.
    #[error("the result does not match the tool's declaration{}", lines(.problems))]
    Contract { problems: Vec<String> },
    #[error("the parser `{}` cannot read the output: {reason}", shown(.parser))]
    Parser { parser: String, reason: String },
}

impl Explain for CallError {
    fn code(&self) -> Code {
        match self {
            Self::Supervisor(err) => err.code(),
            Self::ScriptChanged { .. } => Code::ScriptChanged,
            Self::ScriptUnreadable { .. } => Code::ScriptUnreadable,
            Self::Program { source } => source.code(),
            Self::Home { .. } => Code::NoPrivateHome,
            Self::BadDependency { .. } => Code::InvalidDependency,
            Self::NotInstalled { .. } => Code::RequirementsMissing,
            Self::Dependencies { .. } => Code::DependenciesFailed,
            Self::Cache { .. } | Self::DeclaredCache { .. } => Code::CacheFailed,
            Self::Interrupted => Code::Interrupted,
            Self::Raised(_) => Code::ToolRaised,
            Self::Unsuccessful { .. } => Code::ToolFailed,
            Self::Failed(failure) => failure.kind.code(),
            Self::NoResult { .. } => Code::NoResult,
            Self::TooLarge { .. } => Code::ResultTooLarge,
            Self::Contract { .. } => Code::OutputContract,
            Self::Parser { .. } => Code::ParserFailed,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Supervisor(err) => err.hint(),
            Self::ScriptChanged { .. } => {
                Some("run it again, to have it checked as it is now".into())
            }
            Self::ScriptUnreadable { .. } => {
                Some("check that it exists, is a plain file and is readable".into())
            }
            Self::Program { source } => source.hint(),
            Self::Home { .. } => {
                Some("check the disk space, or set `TMPDIR` to another folder".into())
            }
            Self::BadDependency { .. } => Some(
                "list packages only, e.g. `requests>=2`; installer options are not allowed".into(),
            ),
            Self::NotInstalled { guide, .. } => Some(match guide {
                Some(guide) => guide.trim().to_owned().into(),
                None => {
                    "install what it needs, and run the command yourself to see why it fails".into()
                }
            }),
            Self::Dependencies { said, .. } => Some(install_hint(said).into()),
            Self::Cache { .. } => Some("check that the folder is writable".into()),
            Self::DeclaredCache { .. } => {
                Some("make the folder writable, or remove it from `caches` of the tool".into())
            }
            Self::Interrupted | Self::Raised(_) => None,
            Self::Unsuccessful { .. } => Some(
                "if that is an ordinary result, write `outputs: {ignore_success: true}` in its manifest"
                    .into(),
            ),
            Self::Failed(failure) => failure.suggestion.clone(),
            Self::NoResult { .. } => {
                Some("it may have called `os._exit` or crashed; see what it wrote to stderr".into())
            }
            Self::TooLarge { .. } => Some("write large data to a file and return its path".into()),
            Self::Contract { .. } => Some("correct the tool, or `outputs` in its manifest".into()),
            Self::Parser { .. } => {
                Some("correct the output or the parser, or name another in `outputs`".into())
            }
        }
    }
}

fn install_hint(said: &[String]) -> &'static str {
    let says = |word: &str| said.iter().any(|line| line.contains(word));
    if says("ensurepip") {
        "install the `venv` module of Python (`python3-venv` on Debian), or `uv`"
    } else if says("No matching distribution")
        || says("No solution found")
        || says("Invalid requirement")
    {
        "check that the names and versions under `dependencies` exist"
    } else {
        "check that the package index is reachable; nothing was installed"
    }
}

/// Formats lines below a message.
fn lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| ["\n  ", line]).collect()
}
