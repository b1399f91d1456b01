//! The child process that owns the process tree of one tool, or of one `piton exec` command.
//!
//! piton starts itself as `piton __supervise`, or makes a copy of its process; a [`Supervisor`] waits on its stdin, a socket, for
//! [`Work`]. It inherits the orphans of the tool and kills the whole tree when the tool ends, times
//! out or is cancelled, or when piton is gone. For a tool it leads a new session. For a command it
//! stays in piton's session, so that the command can use the terminal, and passes it piton's own
//! streams.

mod capture;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod handover;
#[cfg(target_os = "linux")]
mod launch;
mod parent;
#[cfg(target_os = "linux")]
mod path_walk;
mod process;
mod protocol;
#[cfg(target_os = "linux")]
mod refusals;
#[cfg(target_os = "linux")]
mod result;
#[cfg(target_os = "linux")]
mod seccomp;
mod stream;
mod touched;
#[cfg(target_os = "linux")]
mod write_monitor;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub(in crate::exec) use capture::Capture;
pub use capture::Captured;
pub use parent::Supervisor;
pub use touched::{Touched, TouchedLog, TouchedPaths};

use super::invocation::ResourceLimits;
use super::isolation::Confinement;
use super::process::own_name;
use super::subprocess::CommandOutcome;
use crate::problem::{Code, Explain, Hint};

/// The argument that makes piton a supervisor.
const MODE: &str = "__supervise";

/// The second argument of a supervisor whose work uses piton's terminal and streams.
const TERMINAL: &str = "terminal";

/// The variable with the run of a process, so that it can be found after a crash.
pub const MARK: &str = "PITON_RUN_ID";

/// The variable with the piton process that started a marked process. While that lives, the process is no leftover, even
/// if a copy of the repository has a journal with the same run.
pub(super) const OWNER: &str = "PITON_PROCESS";

/// The default number of captured bytes per stream.
const KEPT: usize = 1024 * 1024;

/// The default limit of remembered touched files.
const MOST_TOUCHED: usize = 500_000;

/// How long a tool may take to end after a timeout before it is killed.
const TIMEOUT_GRACE: Duration = Duration::from_secs(5);

/// How long a tool may take to end on request before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The resolved program file.
    pub program: PathBuf,
    /// The arguments, starting with the program name.
    pub argv: Vec<OsString>,
    pub folder: PathBuf,
    /// All variables of the process.
    pub environment: BTreeMap<OsString, OsString>,
    /// Written to its standard input.
    pub input: Vec<u8>,
    /// Whether it has a private channel for its result, at descriptor 3.
    pub channel: Channel,
    /// Whether to record which files it changes.
    pub watch: Watch,
    /// The folders to record, without symlinks; empty means all.
    pub within: Vec<PathBuf>,
    /// The limit of recorded files; beyond it nothing is known.
    pub most_touched: usize,
    /// An existing log that gets each recorded file at once.
    pub log: Option<PathBuf>,
    /// Whether it has the terminal from the start.
    pub foreground: Foreground,
    pub timeout: Option<Duration>,
    /// How it ends when piton is gone.
    pub farewell: Farewell,
    pub limits: ResourceLimits,
    /// What the kernel lets it do; `None` means everything that the user may do.
    pub confinement: Option<Confinement>,
    /// How many bytes of each stream are kept: one half from the start, one half from the end.
    pub kept: usize,
}

impl Work {
    /// The work with the name of this process, if it belongs to a run.
    fn with_owner(&self) -> Self {
        let mut work = self.clone();
        if work.environment.contains_key(OsStr::new(MARK)) {
            let owner = (OWNER.into(), own_name().into());
            work.environment.extend([owner]);
        }
        work
    }
}

impl Default for Work {
    fn default() -> Self {
        Self {
            program: PathBuf::new(),
            argv: Vec::new(),
            folder: PathBuf::from("/"),
            environment: BTreeMap::new(),
            input: Vec::new(),
            channel: Channel::None,
            watch: Watch::No,
            within: Vec::new(),
            most_touched: MOST_TOUCHED,
            log: None,
            foreground: Foreground::No,
            timeout: None,
            farewell: Farewell::Kill,
            limits: ResourceLimits::default(),
            confinement: None,
            kept: KEPT,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    None,
    /// Descriptor 3 of the tool.
    Private,
}

/// Whether to record which files a tool changes. It makes each such system call a little slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    No,
    /// Where the kernel supports it.
    Yes,
}

/// Whether a command has the terminal from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreground {
    /// If it reads from the terminal it is stopped, and piton decides.
    No,
    /// Its process group is in the foreground.
    Yes,
}

/// How a tool ends when piton is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    Kill,
    /// It gets a signal first, because it has something to clean up elsewhere, and is killed soon
    /// after.
    Ask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// `None` when a signal ended it.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub duration: Duration,
    pub timed_out: bool,
    /// Whether the tool or piton was asked to stop.
    pub interrupted: bool,
    pub stdout: Captured,
    pub stderr: Captured,
    pub result: Option<Vec<u8>>,
    /// Why an incomplete result is missing.
    pub result_fault: Option<ResultFault>,
    pub touched: Touched,
    /// Paths outside of its confinement that it tried to change, as far as they were watched.
    pub refused: Vec<PathBuf>,
    /// How many remaining processes were killed.
    pub leftovers: u32,
    pub cpu: Duration,
    /// The largest resident set of a process, in bytes.
    pub peak_memory: u64,
}

impl Ended {
    /// How it ended, without what it left.
    pub fn outcome(&self) -> CommandOutcome {
        CommandOutcome {
            exit_code: self.exit_code,
            signal: self.signal,
            duration: self.duration,
            timed_out: self.timed_out,
            interrupted: self.interrupted,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultFault {
    /// Its size in bytes.
    TooLarge(u64),
    CutOff,
}

#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    #[error("cannot start the supervisor")]
    NotStarted(#[source] io::Error),
    #[error("cannot start `{}`", .program.display())]
    Program {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The supervisor died; everything it had started was killed.
    #[error("the supervisor was killed")]
    Lost,
}

impl Explain for SupervisorError {
    fn code(&self) -> Code {
        match self {
            Self::NotStarted(_) | Self::Lost => Code::SupervisorFailed,
            Self::Program { .. } => Code::ProgramFailed,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotStarted(_) | Self::Program { .. } => None,
            Self::Lost => {
                Some("the command may have killed it; all of its processes were killed too".into())
            }
        }
    }
}

/// Whether these arguments start a supervisor.
pub fn is_meant(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|word| word == MODE)
}

#[cfg(target_os = "linux")]
pub fn serve(arguments: &[OsString]) -> ExitCode {
    let is_terminal = arguments.get(2).is_some_and(|word| word == TERMINAL);
    let served = child::serve(if is_terminal {
        child::SupervisorSession::Terminal
    } else {
        child::SupervisorSession::Apart
    });
    served.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

#[cfg(not(target_os = "linux"))]
pub fn serve(_: &[OsString]) -> ExitCode {
    ExitCode::FAILURE
}
