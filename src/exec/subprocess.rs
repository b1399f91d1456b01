//! Runs one command line and leaves no process of it behind.
//!
//! A [`CommandLine`] exists only if its program does, so that a mistyped name never begins a step.
//! [`run`] is for systems without supervisors: it gives the command its own process group, lends it
//! the terminal, and passes on requests to stop. When the first process has ended, it kills the
//! rest of the group and every daemon that left it: they could change files after the comparison.
//! [`converse`] does the same with an input and captured output.

mod conversation;

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, geteuid, kill_process_group, waitid,
};

pub use conversation::{Conversation, converse};

use super::interrupt::Interrupts;
use super::process::{Adoption, adopt_orphans, await_end, kill_orphans, own_children};
use super::supervisor::Work;
use super::terminal::Terminal;
use crate::problem::{Code, Explain, Hint};

/// How long a command may take to stop before it is killed.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    program: PathBuf,
    argv: Vec<OsString>,
    folder: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    pub streams: Streams,
    pub timeout: Option<Duration>,
}

/// Where the output of a command goes. Its input and stderr are piton's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// To piton's stdout.
    Inherit,
    /// To piton's stderr, because piton's stdout is used for events.
    OutputToStderr,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wiring {
    /// The streams of piton.
    Inherited,
    Pipes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    /// `None` when a signal ended it.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub duration: Duration,
    pub timed_out: bool,
    /// Whether the command or piton was asked to stop.
    pub interrupted: bool,
}

impl CommandOutcome {
    /// For a command whose end was not observed.
    pub fn unknown() -> Self {
        Self {
            exit_code: None,
            signal: None,
            duration: Duration::ZERO,
            timed_out: false,
            interrupted: false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SubprocessError {
    #[error("there is no command to run")]
    NoCommand,
    #[error("there is no program `{}`", .0.display())]
    NotFound(PathBuf),
    /// The file exists but is not executable.
    #[error("`{}` cannot be executed", .0.display())]
    NotExecutable(PathBuf),
    /// The isolation level hides the folder that it lies in.
    #[error("`{}` lies in your home folder, which this isolation level hides", .0.display())]
    Hidden(PathBuf),
    #[error("cannot start `{}`", .program.display())]
    NotStarted {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Waiting for it failed; it was killed.
    #[error("cannot wait for `{}`", .program.display())]
    Lost {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl CommandLine {
    /// Creates a command that runs in a folder with exactly these variables.
    pub fn new(
        argv: Vec<OsString>,
        folder: PathBuf,
        environment: BTreeMap<OsString, OsString>,
    ) -> Result<Self, SubprocessError> {
        let name = argv
            .first()
            .filter(|name| !name.is_empty())
            .ok_or(SubprocessError::NoCommand)?;
        let search_path = environment
            .get(OsStr::new("PATH"))
            .map(OsString::as_os_str)
            .unwrap_or_default();
        let program = resolve(name, search_path, &folder)?;
        Ok(Self {
            program,
            argv,
            folder,
            environment,
            streams: Streams::Inherit,
            timeout: None,
        })
    }

    /// Adds a variable to its environment.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.environment.insert(name.into(), value.into());
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Whether the program is setuid or setgid, like `sudo`. That does not work in a watched
    /// process.
    pub fn changes_user(&self) -> bool {
        const SET_ID: u32 = 0o6000;
        !geteuid().is_root()
            && self
                .program
                .metadata()
                .is_ok_and(|file| file.permissions().mode() & SET_ID != 0)
    }

    /// The command as work for a supervisor.
    pub fn work(&self) -> Work {
        Work {
            program: self.program.clone(),
            argv: self.argv.clone(),
            folder: self.folder.clone(),
            environment: self.environment.clone(),
            timeout: self.timeout,
            kept: 0,
            ..Work::default()
        }
    }

    fn spawn(&self, wiring: Wiring) -> io::Result<Child> {
        let name = self
            .argv
            .first()
            .map(OsString::as_os_str)
            .unwrap_or_default();
        let words = self.argv.get(1..).unwrap_or_default();
        let mut command = process(&self.program);
        command.arg0(name).args(words);
        match self.start(command, wiring) {
            // A script without `#!`: shells and `execvp` pass it to `sh`.
            Err(err) if Errno::from_io_error(&err) == Some(Errno::NOEXEC) => {
                let mut shell = process(Path::new("/bin/sh"));
                shell.arg(&self.program).args(words);
                self.start(shell, wiring)
            }
            started => started,
        }
    }

    fn start(&self, mut command: std::process::Command, wiring: Wiring) -> io::Result<Child> {
        let (input, output, errors) = match (wiring, self.streams) {
            (Wiring::Pipes, _) => (Stdio::piped(), Stdio::piped(), Stdio::piped()),
            (Wiring::Inherited, Streams::Inherit) => {
                (Stdio::inherit(), Stdio::inherit(), Stdio::inherit())
            }
            (Wiring::Inherited, Streams::OutputToStderr) => {
                let output = rustix::stdio::stderr().try_clone_to_owned()?;
                (Stdio::inherit(), Stdio::from(output), Stdio::inherit())
            }
        };
        command
            .current_dir(&self.folder)
            .env_clear()
            .envs(&self.environment);
        command
            .stdin(input)
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
    }
}

/// Finds the file for a program name like a shell in that folder would.
pub fn resolve(
    program: &OsStr,
    search_path: &OsStr,
    folder: &Path,
) -> Result<PathBuf, SubprocessError> {
    let is_path = program.as_encoded_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = if is_path {
        vec![folder.join(program)]
    } else {
        env::split_paths(search_path)
            .map(|part| folder.join(part).join(program))
            .collect()
    };
    let mut unusable = None;
    for file in candidates {
        match file.metadata() {
            Ok(metadata) if metadata.is_file() && access(&file, Access::EXEC_OK).is_ok() => {
                return Ok(file);
            }
            // A folder found on `PATH` is skipped; one named explicitly is an error.
            Ok(metadata) if metadata.is_file() || is_path => unusable = unusable.or(Some(file)),
            Err(err) if is_path && err.kind() == io::ErrorKind::PermissionDenied => {
                unusable = Some(file);
            }
            _ => {}
        }
    }
    Err(match unusable {
        Some(file) => SubprocessError::NotExecutable(file),
        None => SubprocessError::NotFound(program.into()),
    })
}

/// The path of a program on `PATH`, if that name leads to the same file.
pub fn find_on_path(program: &Path, name: &str, search_path: &OsStr) -> Option<PathBuf> {
    let found = resolve(name.as_ref(), search_path, Path::new("/")).ok()?;
    (found.canonicalize().ok()? == program.canonicalize().ok()?).then_some(found)
}

/// `PATH` with only the folders that `keeps` accepts.
pub fn kept_folders(search_path: &OsStr, keeps: impl Fn(&Path) -> bool) -> OsString {
    env::join_paths(env::split_paths(search_path).filter(|folder| keeps(folder)))
        .unwrap_or_default()
}

/// Runs a command to its end.
///
/// `on_start` gets the process id as soon as it exists; if it fails, the command is killed.
pub fn run<E: From<SubprocessError>>(
    command: &CommandLine,
    interrupts: &mut Interrupts,
    on_start: impl FnOnce(u32) -> Result<(), E>,
) -> Result<CommandOutcome, E> {
    let mut running = RunningCommand::start(command, Wiring::Inherited)?;
    on_start(running.child.id())?;
    running
        .end(command, interrupts, &mut |interrupts, limit| {
            interrupts.wait(limit)
        })
        .map_err(E::from)
}

/// Waits for a signal or a child, up to a limit.
type Pause<'p> = dyn FnMut(&mut Interrupts, Option<Duration>) -> io::Result<()> + 'p;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    ByItself,
    TimedOut,
    Interrupted,
}

/// A running command; dropping it kills its process group.
struct RunningCommand {
    started: Instant,
    child: Child,
    group: Option<Pid>,
    terminal: Option<Terminal>,
    ended: Option<ExitStatus>,
}

impl RunningCommand {
    fn start(command: &CommandLine, wiring: Wiring) -> Result<Self, SubprocessError> {
        let started = Instant::now();
        // A daemon leaves the group, but orphans are inherited by this process.
        adopt_orphans(Adoption::Here);
        let mut children = own_children();
        let child = command
            .spawn(wiring)
            .map_err(|source| SubprocessError::NotStarted {
                program: command.program.clone(),
                source,
            })?;
        children.insert(child.id());
        drop(children);
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let mut running = Self {
            started,
            child,
            group,
            terminal: Terminal::find(),
            ended: None,
        };
        // A command with piped input needs the terminal only if it opens it itself.
        if wiring == Wiring::Inherited && Terminal::is_for_the_command() {
            running.lend_terminal();
        }
        Ok(running)
    }

    /// Waits for the end and kills what is left.
    fn end(
        &mut self,
        command: &CommandLine,
        interrupts: &mut Interrupts,
        pause: &mut Pause<'_>,
    ) -> Result<CommandOutcome, SubprocessError> {
        let lost = |source| SubprocessError::Lost {
            program: command.program.clone(),
            source,
        };
        let ending = self
            .wait(command.timeout, interrupts, pause)
            .map_err(lost)?;
        let duration = self.started.elapsed();
        let status = self.finish().map_err(lost)?;
        Ok(CommandOutcome {
            exit_code: status.code(),
            signal: status.signal(),
            duration,
            timed_out: ending == Ending::TimedOut,
            interrupted: ending == Ending::Interrupted
                || (self.had_terminal() && status.signal() == Some(Signal::INT.as_raw())),
        })
    }

    /// Waits until the first process of the group has ended, without reaping it, so that its id is
    /// not reused.
    fn wait(
        &mut self,
        limit: Option<Duration>,
        interrupts: &mut Interrupts,
        pause: &mut Pause<'_>,
    ) -> io::Result<Ending> {
        let mut ending = Ending::ByItself;
        let mut deadline = limit.and_then(|limit| self.started.checked_add(limit));
        loop {
            if self
                .look(WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?
                .is_some()
            {
                return Ok(ending);
            }
            if self.terminal.is_some()
                && let Some(stopped) = self.look(WaitIdOptions::STOPPED)?
            {
                self.handle_stop(&stopped);
            }
            let is_due = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            match (
                ending,
                interrupts.received().and_then(Signal::from_named_raw),
            ) {
                (Ending::ByItself, Some(signal)) => {
                    ending = Ending::Interrupted;
                    deadline = Instant::now().checked_add(GRACE);
                    self.ask_to_stop(signal);
                }
                (Ending::ByItself, None) if is_due => {
                    ending = Ending::TimedOut;
                    deadline = Instant::now().checked_add(GRACE);
                    self.ask_to_stop(Signal::TERM);
                }
                (Ending::TimedOut | Ending::Interrupted, _) if is_due => {
                    self.signal(Signal::KILL);
                    deadline = None;
                }
                _ => {}
            }
            pause(
                interrupts,
                deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
            )?;
        }
    }

    /// Kills the rest of the group and reaps its first process.
    fn finish(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        // The group id cannot be reused before its first process is reaped.
        self.signal(Signal::KILL);
        let status = self.child.wait()?;
        self.ended = Some(status);
        if let Some(group) = self.group {
            await_end(group);
        }
        own_children().remove(&self.child.id());
        kill_orphans();
        adopt_orphans(Adoption::Elsewhere);
        if let Some(terminal) = self.terminal.as_mut().filter(|terminal| terminal.is_lent())
            && status.code().is_none()
        {
            terminal.restore_modes();
        }
        Ok(status)
    }

    fn look(&self, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        let Some(pid) = self.group else {
            return Ok(None);
        };
        match waitid(WaitId::Pid(pid), options | WaitIdOptions::NOHANG) {
            Ok(status) => Ok(status),
            Err(Errno::INTR) => Ok(None),
            Err(err) => Err(err.into()),
        }
    }

    fn handle_stop(&mut self, stopped: &WaitIdStatus) {
        if let (Some(terminal), Some(group)) = (&mut self.terminal, self.group) {
            terminal.answer_stop(group, stopped.stopping_signal());
        }
        self.signal(Signal::CONT);
    }

    fn lend_terminal(&mut self) {
        if let (Some(terminal), Some(group)) = (&mut self.terminal, self.group)
            && terminal.lend(group)
        {
            // It may have been stopped for reading before it had the terminal.
            self.signal(Signal::CONT);
        }
    }

    fn ask_to_stop(&self, signal: Signal) {
        self.signal(signal);
        // A stopped process would not react to the signal.
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may be gone.
            let _ = kill_process_group(group, signal);
        }
    }

    fn had_terminal(&self) -> bool {
        self.terminal.as_ref().is_some_and(Terminal::is_lent)
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // Only reached when waiting failed; there is no caller left to report to.
        let _ = self.finish();
    }
}

impl Explain for SubprocessError {
    fn code(&self) -> Code {
        match self {
            Self::NoCommand => Code::NoCommand,
            Self::NotFound(_) => Code::ProgramNotFound,
            Self::NotExecutable(_) => Code::ProgramNotExecutable,
            Self::Hidden(_) => Code::SandboxUnavailable,
            Self::NotStarted { .. } | Self::Lost { .. } => Code::ProgramFailed,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoCommand => Some("name it after `--`: `piton exec -- make`".into()),
            Self::NotFound(name) if name.components().count() > 1 => {
                Some("check that the file exists".into())
            }
            Self::NotFound(_) => Some(
                "check that it is installed and on the search path; shell syntax needs `sh -c '…'`"
                    .into(),
            ),
            Self::NotExecutable(file) if file.is_dir() => Some("it is a folder".into()),
            Self::NotExecutable(file) => {
                Some(format!("make it a program: `chmod +x '{}'`", file.display()).into())
            }
            Self::Hidden(_) => Some(
                "use a program of the system or of the project, the level `standard`, or a container"
                    .into(),
            ),
            Self::NotStarted { .. } | Self::Lost { .. } => None,
        }
    }
}

impl SubprocessError {
    /// The status that a shell would end with.
    pub fn shell_status(&self) -> Option<i32> {
        match self {
            Self::NotFound(_) => Some(127),
            Self::NotExecutable(_) | Self::NotStarted { .. } => Some(126),
            Self::NoCommand | Self::Hidden(_) | Self::Lost { .. } => None,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "exec is the home of processes")]
fn process(program: &Path) -> std::process::Command {
    std::process::Command::new(program)
}

#[cfg(test)]
mod tests;
