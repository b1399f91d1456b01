//! The child that owns the process tree of one tool, or of one command of a person.
//!
//! piton starts itself again as `piton __supervise`; a [`Supervisor`] waits on its standard input, a
//! socket, for [`Work`]. It adopts what the tool leaves behind, and kills all of it when the tool ends,
//! takes too long, is cancelled, or piton itself is gone. For a tool it leads a session of its own. For a command
//! it stays in the session of piton, so that the command can have the terminal, and hands it piton's own streams.

mod capture;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod handover;
#[cfg(target_os = "linux")]
mod launch;
mod parent;
mod protocol;
#[cfg(target_os = "linux")]
mod result;
#[cfg(target_os = "linux")]
mod seccomp;
mod touched;
#[cfg(target_os = "linux")]
mod witness;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub(in crate::exec) use capture::Capture;
pub use capture::Captured;
pub use parent::Supervisor;
pub use touched::{Touched, TouchedLog, TouchedPaths};

use super::invocation::Limits;
use crate::problem::{Code, Explain, Hint};

/// The word that makes piton a supervisor.
const MODE: &str = "__supervise";

/// The second word of a supervisor whose work uses the terminal and the streams of piton.
const TERMINAL: &str = "terminal";

/// The variable that says which run a process belongs to, so that it can be found after a crash.
pub const MARK: &str = "PITON_RUN_ID";

/// How much of each stream is kept unless the work says otherwise.
const KEPT: usize = 1024 * 1024;

/// How many touched files are remembered unless the work says otherwise.
const MOST_TOUCHED: usize = 500_000;

/// How long a tool that took too long has until it is killed.
const TIMEOUT_GRACE: Duration = Duration::from_secs(5);

/// How long a tool that is to stop has until it is killed.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// What a supervisor is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The file to run, found already.
    pub program: PathBuf,
    /// Its words, the name first.
    pub argv: Vec<OsString>,
    /// Where it runs.
    pub folder: PathBuf,
    /// Exactly the variables it gets.
    pub environment: BTreeMap<OsString, OsString>,
    /// What it reads from its standard input.
    pub input: Vec<u8>,
    /// Whether it has a private channel for its result, at descriptor 3.
    pub channel: Channel,
    /// Whether it is written down which files it changes.
    pub watch: Watch,
    /// The folders that this is about, without links; none of them means all.
    pub within: Vec<PathBuf>,
    /// How many such files are remembered; beyond that nothing is known.
    pub most_touched: usize,
    /// A log that exists and gets each of them at once.
    pub log: Option<PathBuf>,
    /// Whether its first process has the terminal from its start.
    pub foreground: Foreground,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// How it ends when piton is gone.
    pub farewell: Farewell,
    /// What it may use up.
    pub limits: Limits,
    /// How many bytes of each stream are kept: half of them from its start, half from its end.
    pub kept: usize,
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
            limits: Limits::default(),
            kept: KEPT,
        }
    }
}

/// Whether there is a private channel for the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// There is none.
    None,
    /// Descriptor 3 of the tool.
    Private,
}

/// Whether it is written down which files a tool changes, which makes each such call a little slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// It is not.
    No,
    /// It is, where the kernel can tell.
    Yes,
}

/// Whether a command has the terminal from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreground {
    /// It does not; if it reads it is stopped, and piton decides.
    No,
    /// It does: its process group is the one in the foreground.
    Yes,
}

/// How a tool ends when piton is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// It is killed.
    Kill,
    /// It is asked to end first, because it has something to clear up elsewhere, and killed soon after.
    Ask,
}

/// One of the streams of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// How the work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The status of the tool's first process; none when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it took.
    pub duration: Duration,
    /// Whether it was ended because it took too long.
    pub timed_out: bool,
    /// Whether somebody asked it or piton to stop.
    pub interrupted: bool,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// What came over the private channel.
    pub result: Option<Vec<u8>>,
    /// Why there is no result, though one was begun.
    pub result_fault: Option<ResultFault>,
    /// Which files it may have changed.
    pub touched: Touched,
    /// How many processes it left behind, which were killed.
    pub leftovers: u32,
    /// The processor time of the whole tree.
    pub cpu: Duration,
    /// The largest resident set of any of its processes, in bytes.
    pub peak_memory: u64,
}

/// What was wrong with a result on the private channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultFault {
    /// It has more bytes than are taken; how many.
    TooLarge(u64),
    /// It ended before it was complete.
    CutOff,
}

/// Why work could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The supervisor could not be started or talked to.
    #[error("cannot start the supervisor")]
    NotStarted(#[source] io::Error),
    /// The program could not be started.
    #[error("cannot start `{}`", .program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// What the system said.
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
            Self::Lost => Some("the command may have killed it; everything that it had started was ended too".into()),
        }
    }
}

/// Whether piton was started to be a supervisor.
pub fn is_meant(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|word| word == MODE)
}

/// Is a supervisor, from the first to the last.
#[cfg(target_os = "linux")]
pub fn serve(arguments: &[OsString]) -> ExitCode {
    let is_terminal = arguments.get(2).is_some_and(|word| word == TERMINAL);
    child::serve(if is_terminal { child::Seat::Terminal } else { child::Seat::Apart })
}

/// Is a supervisor, from the first to the last.
#[cfg(not(target_os = "linux"))]
pub fn serve(_: &[OsString]) -> ExitCode {
    ExitCode::FAILURE
}
