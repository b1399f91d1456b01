//! Why a call could not be made, or its result not be read.

use std::io;
use std::path::PathBuf;

use crate::exec::python::bootstrap::Raised;
use crate::exec::subprocess::SubprocessError;
use crate::exec::supervisor::SupervisorError;
use crate::exec::worker::Failure;
use crate::item::source::Unread;
use crate::item::wording::shown;
use crate::problem::{Code, Explain, Hint};

/// Why a call could not be made or its result not be read.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The supervisor could not do it.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// The script is not the one that was judged.
    #[error("the script `{}` changed after it was checked", .script.display())]
    ScriptChanged {
        /// The file.
        script: PathBuf,
    },
    /// The script cannot be read.
    #[error("cannot read the script `{}`", .script.display())]
    ScriptUnreadable {
        /// The file.
        script: PathBuf,
        /// Why.
        #[source]
        source: Unread,
    },
    /// There is no such program.
    #[error(transparent)]
    Program {
        /// What is wrong with it.
        #[from]
        source: SubprocessError,
    },
    /// No private home could be made.
    #[error("cannot make a private home below `{}`", .folder.display())]
    Home {
        /// Where.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A package is not named but is an option of the installer.
    #[error("`{}` is not the name of a package", shown(.dependency))]
    BadDependency {
        /// What was written.
        dependency: String,
    },
    /// The packages of a tool could not be installed.
    #[error("cannot {what} for `{tool}`{}", lines(.said))]
    Dependencies {
        /// The tool.
        tool: String,
        /// What was tried.
        what: String,
        /// The last lines of the installer.
        said: Vec<String>,
    },
    /// The folder of environments cannot be used.
    #[error("cannot keep environments in `{}`", .folder.display())]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Somebody asked piton to stop.
    #[error("interrupted")]
    Interrupted,
    /// The script raised an exception.
    #[error("{}: {}", shown(&.0.kind), first_line(&.0.message))]
    Raised(Raised),
    /// What piton does itself for a tool went wrong.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// The process ended without handing over a result.
    #[error("the process ended before `{function}` returned")]
    NoResult {
        /// The function that was called.
        function: &'static str,
    },
    /// The result is larger than is taken.
    #[error("the result is too large: {bytes} bytes")]
    TooLarge {
        /// How large.
        bytes: u64,
    },
    /// The result is not what the manifest promises.
    #[error("the result is not what the tool promises{}", lines(.problems))]
    Contract {
        /// Everything that is wrong.
        problems: Vec<String>,
    },
    /// The parser could not read the output.
    #[error("the parser `{}` cannot read the output: {reason}", shown(.parser))]
    Parser {
        /// Its name.
        parser: String,
        /// Why.
        reason: String,
    },
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
            Self::Dependencies { .. } => Code::DependenciesFailed,
            Self::Cache { .. } => Code::CacheFailed,
            Self::Interrupted => Code::Interrupted,
            Self::Raised(_) => Code::ToolRaised,
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
            Self::ScriptChanged { .. } => Some("run it again, to have it checked as it is now".into()),
            Self::ScriptUnreadable { .. } => Some("see that it is there, a plain file and readable".into()),
            Self::Program { source } => source.hint(),
            Self::Home { .. } => Some("see that there is space, or set `TMPDIR` to another folder".into()),
            Self::BadDependency { .. } => {
                Some("name packages only, e.g. `requests>=2`; options of the installer are not taken".into())
            }
            Self::Dependencies { said, .. } => Some(install_hint(said).into()),
            Self::Cache { .. } => Some("see that the folder can be written".into()),
            Self::Interrupted | Self::Raised(_) => None,
            Self::Failed(failure) => failure.suggestion.clone(),
            Self::NoResult { .. } => {
                Some("it may have called `os._exit` or crashed; see what it wrote to stderr".into())
            }
            Self::TooLarge { .. } => Some("write large data to a file and return its path".into()),
            Self::Contract { .. } => Some("correct the tool, or `outputs` in its manifest".into()),
            Self::Parser { .. } => Some("correct the output or the parser, or name another in `outputs`".into()),
        }
    }
}

fn install_hint(said: &[String]) -> &'static str {
    let says = |word: &str| said.iter().any(|line| line.contains(word));
    if says("ensurepip") {
        "install the `venv` module of Python (`python3-venv` on Debian), or `uv`"
    } else if says("No matching distribution") || says("No solution found") || says("Invalid requirement") {
        "see that the names and versions under `dependencies` exist"
    } else {
        "see that the package index can be reached; nothing half-made was kept"
    }
}

/// The first line of what an exception says, without anything that a terminal would obey.
fn first_line(message: &str) -> String {
    const LONGEST: usize = 300;
    let line = message.lines().next().unwrap_or_default();
    let mut shown: String =
        line.chars().take(LONGEST).map(|character| if character.is_control() { ' ' } else { character }).collect();
    if line.len() < message.trim_end().len() || line.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// Lines below a message.
fn lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| ["\n  ", line]).collect()
}
