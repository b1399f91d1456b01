//! piton's side of a supervisor: sends the work, reads the output, learns how it ended.
//!
//! One loop waits for the supervisor, both streams and requests to stop. If the supervisor dies,
//! piton finds and kills the rest of the tool. piton also lends the terminal to a command, because
//! only piton knows the shell that started it.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustix::stdio::{stderr, stdin, stdout};

use super::capture::Capture;
#[cfg(target_os = "linux")]
use super::handover::send_streams;
use super::process::SupervisorProcess;
#[cfg(target_os = "linux")]
use super::process::fork;
use super::protocol::{EndMessage, Inbox, SupervisorMessage, SupervisorOrder};
use super::stream::{as_fd, await_any, take};
use super::{
    Ended, Foreground, MARK, MODE, ResultFault, STOP_GRACE, Stream, SupervisorError, TERMINAL,
    TIMEOUT_GRACE, Touched, Watch, Work,
};
use crate::checkpoint::attribution::Doubt;
use crate::exec::interrupt::Interrupts;
use crate::exec::process::{
    Adoption, adopt_orphans, kill_marked, kill_orphans, kill_session, own_children,
};
use crate::exec::subprocess::Streams;
use crate::exec::terminal::Terminal;

/// How long a supervisor may exceed its time before it is considered lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long to read the streams after all processes have ended.
const DRAINING_TIME: Duration = Duration::from_millis(200);

/// The most to read then: more than a pipe holds.
const DRAINED: usize = 4 * 1024 * 1024;

/// A supervisor that waits for work.
#[derive(Debug)]
pub struct Supervisor {
    child: SupervisorProcess,
    /// What a tool prints.
    output: [Option<OwnedFd>; 2],
    control: UnixStream,
    ended: Option<ExitStatus>,
    seat: WorkStdio,
}

/// What its work is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkStdio {
    /// piton, through pipes.
    Pipes,
    /// The streams and the terminal of piton.
    Terminal,
}

impl Supervisor {
    /// Starts a supervisor in advance for the next [`Supervisor::start`], to save waiting later. An
    /// unused one ends with this process.
    pub fn start_ahead(program: &Path) {
        // The next `start` will report the error.
        if let Ok(supervisor) = Self::start(program) {
            *spare() = Some(supervisor);
        }
    }

    /// Starts a supervisor. `program` is piton itself.
    pub fn start(program: &Path) -> Result<Self, SupervisorError> {
        let ready = spare().take();
        if let Some(mut supervisor) = ready
            && !supervisor.is_gone()
        {
            return Ok(supervisor);
        }
        let mut command = process(program);
        command
            .arg0("piton")
            .arg(MODE)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self::spawn(&mut command, WorkStdio::Pipes)
    }

    /// Starts a supervisor for a `piton exec` command, with the terminal and streams of this
    /// process. `None` on systems other than Linux, which have no supervisors.
    pub fn start_at_terminal(
        program: &Path,
        streams: Streams,
    ) -> Result<Option<Self>, SupervisorError> {
        if !cfg!(target_os = "linux") {
            return Ok(None);
        }
        let supervisor = match Self::fork()? {
            Some(forked) => forked,
            None => Self::spawn_at_terminal(program)?,
        };
        let output = match streams {
            Streams::Inherit => stdout(),
            Streams::OutputToStderr => stderr(),
        };
        supervisor
            .hand_over([stdin(), output, stderr()])
            .map_err(SupervisorError::NotStarted)?;
        Ok(Some(supervisor))
    }

    /// A copy of this process; `None` if it has more than one thread.
    #[cfg(target_os = "linux")]
    fn fork() -> Result<Option<Self>, SupervisorError> {
        let (control, theirs) = UnixStream::pair().map_err(SupervisorError::NotStarted)?;
        let forked = fork(&theirs).map_err(SupervisorError::NotStarted)?;
        Ok(forked.map(|child| {
            own_children().insert(child.id());
            Self {
                child,
                output: [None, None],
                control,
                ended: None,
                seat: WorkStdio::Terminal,
            }
        }))
    }

    #[cfg(not(target_os = "linux"))]
    fn fork() -> Result<Option<Self>, SupervisorError> {
        Ok(None)
    }

    fn spawn_at_terminal(program: &Path) -> Result<Self, SupervisorError> {
        let mut command = process(program);
        // In its own group from the start, so that Ctrl-C does not reach it.
        command
            .arg0("piton")
            .args([MODE, TERMINAL])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        Self::spawn(&mut command, WorkStdio::Terminal)
    }

    #[cfg(target_os = "linux")]
    fn hand_over(&self, streams: [BorrowedFd<'_>; 3]) -> io::Result<()> {
        send_streams(&self.control, streams)
    }

    #[cfg(not(target_os = "linux"))]
    fn hand_over(&self, _: [BorrowedFd<'_>; 3]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn spawn(command: &mut Command, seat: WorkStdio) -> Result<Self, SupervisorError> {
        let (control, theirs) = UnixStream::pair().map_err(SupervisorError::NotStarted)?;
        command.env_clear().stdin(OwnedFd::from(theirs));
        leaving().retain_mut(|supervisor| !supervisor.is_gone());
        let mut children = own_children();
        let mut child = command.spawn().map_err(SupervisorError::NotStarted)?;
        children.insert(child.id());
        let output = [
            child.stdout.take().map(OwnedFd::from),
            child.stderr.take().map(OwnedFd::from),
        ];
        Ok(Self {
            child: SupervisorProcess::Started(child),
            output,
            control,
            ended: None,
            seat,
        })
    }

    /// The process id, which is also its process group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs work to its end; `on_output` gets the tool's output as it arrives.
    pub fn run(
        self,
        work: &Work,
        interrupts: &mut Interrupts,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Ended, SupervisorError> {
        let work = &work.with_owner();
        match self.seat {
            WorkStdio::Pipes => self.work_through(work, None, interrupts, on_output),
            WorkStdio::Terminal => {
                // If the supervisor is killed, this process inherits its children.
                adopt_orphans(Adoption::Here);
                let ended = self.run_at_terminal(work, interrupts, on_output);
                if matches!(ended, Err(SupervisorError::Lost)) {
                    kill_orphans();
                }
                adopt_orphans(Adoption::Elsewhere);
                ended
            }
        }
    }

    /// The same for a command that may use the terminal.
    fn run_at_terminal(
        self,
        work: &Work,
        interrupts: &mut Interrupts,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Ended, SupervisorError> {
        let mut terminal = Terminal::find();
        let is_lent = terminal.as_mut().is_some_and(Terminal::promise);
        let foreground = if is_lent {
            Foreground::Yes
        } else {
            Foreground::No
        };
        let work = Work {
            foreground,
            ..work.clone()
        };
        let mut ended = self.work_through(&work, terminal.as_mut(), interrupts, on_output);
        if let (Ok(ended), Some(terminal)) = (
            &mut ended,
            terminal.as_mut().filter(|terminal| terminal.is_lent()),
        ) {
            // Ctrl-C at the terminal reached only the command.
            ended.interrupted |= ended.signal == Some(Signal::INT.as_raw());
            if ended.exit_code.is_none() {
                terminal.restore_modes();
            }
        }
        ended
    }

    fn work_through(
        mut self,
        work: &Work,
        terminal: Option<&mut Terminal>,
        interrupts: &mut Interrupts,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Ended, SupervisorError> {
        if interrupts.received().is_some() {
            return Ok(SupervisorTalk::new(work).ended(&EndMessage {
                stopped: true,
                ..EndMessage::default()
            }));
        }
        let order = SupervisorOrder::Work(Box::new(work.clone())).encode();
        let order =
            order.ok_or_else(|| SupervisorError::NotStarted(io::ErrorKind::FileTooLarge.into()))?;
        let sent = self
            .control
            .set_write_timeout(Some(PATIENCE))
            .and_then(|()| self.control.write_all(&order));
        drop(order);
        let mut talk = SupervisorTalk::new(work);
        let outcome = match sent {
            Ok(()) => talk.listen(&mut self, terminal, interrupts, on_output),
            Err(err) => Err(SupervisorError::NotStarted(err)),
        };
        match outcome {
            Ok(Some(end)) => {
                self.leave();
                Ok(talk.ended(&end))
            }
            Ok(None) => {
                self.bury(work);
                // Ctrl-C may reach it before it has its own session.
                let was_killed = self.ended.is_some_and(|status| status.signal().is_some());
                match (talk.has_started, was_killed, interrupts.received()) {
                    (false, true, Some(_)) => Ok(talk.ended(&EndMessage {
                        stopped: true,
                        ..EndMessage::default()
                    })),
                    (false, false, _) => Err(SupervisorError::NotStarted(
                        io::ErrorKind::UnexpectedEof.into(),
                    )),
                    _ => Err(SupervisorError::Lost),
                }
            }
            Err(err) => Err(err),
        }
    }

    /// Sends an order. If that fails the supervisor is gone, which the next read notices.
    fn send(&mut self, order: &SupervisorOrder) {
        let _ = self.control.write_all(&order.encode().unwrap_or_default());
    }

    /// Kills what a dead supervisor has left behind.
    fn bury(&mut self, work: &Work) {
        self.child.kill();
        // Its id, and so the session id, cannot be reused before it is reaped.
        kill_session(self.child.id());
        let run = work
            .environment
            .iter()
            .find(|(name, _)| name.as_os_str() == MARK);
        if let Some(run) = run.and_then(|(_, value)| value.to_str()) {
            kill_marked(MARK, run);
        }
        self.reap();
    }

    /// Lets the supervisor exit in the background: its tool is gone, so nothing has to wait for it.
    fn leave(mut self) {
        self.child.kill();
        leaving().push(self);
    }

    /// Whether it has exited; reaps it.
    fn is_gone(&mut self) -> bool {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some(status);
            own_children().remove(&self.child.id());
        }
        self.ended.is_some()
    }

    fn reap(&mut self) {
        if self.ended.is_none() {
            self.ended = self.child.wait().ok().flatten();
            own_children().remove(&self.child.id());
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // It kills its work and exits.
        let _ = self.control.shutdown(Shutdown::Both);
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_micros(200);
        while !self.is_gone() {
            if Instant::now() >= deadline {
                self.child.kill();
                return self.reap();
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

/// A supervisor that was started in advance.
fn spare() -> MutexGuard<'static, Option<Supervisor>> {
    static SPARE: Mutex<Option<Supervisor>> = Mutex::new(None);
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Supervisors whose work is done but that have not exited yet.
fn leaving() -> MutexGuard<'static, Vec<Supervisor>> {
    static LEAVING: Mutex<Vec<Supervisor>> = Mutex::new(Vec::new());
    LEAVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known so far about running work.
struct SupervisorTalk {
    began: Instant,
    deadline: Option<Instant>,
    program: std::path::PathBuf,
    inbox: Inbox,
    has_started: bool,
    /// The process group of the tool.
    group: Option<Pid>,
    /// The signal that stopped it.
    stopped: Option<i32>,
    failed: Option<i32>,
    end: Option<EndMessage>,
    result: Option<Vec<u8>>,
    result_fault: Option<ResultFault>,
    touched: Touched,
    refused: Vec<PathBuf>,
    stdout: Capture,
    stderr: Capture,
}

impl SupervisorTalk {
    fn new(work: &Work) -> Self {
        let began = Instant::now();
        let patience = work
            .timeout
            .and_then(|limit| limit.checked_add(TIMEOUT_GRACE + PATIENCE));
        Self {
            began,
            deadline: patience.and_then(|patience| began.checked_add(patience)),
            program: work.program.clone(),
            inbox: Inbox::default(),
            has_started: false,
            group: None,
            stopped: None,
            failed: None,
            end: None,
            result: None,
            result_fault: None,
            touched: match work.watch {
                Watch::No => Touched::Everything,
                Watch::Yes => Touched::Unknown(Doubt::Lost),
            },
            refused: Vec::new(),
            stdout: Capture::new(work.kept),
            stderr: Capture::new(work.kept),
        }
    }

    /// Reads reports until the end; `None` when the supervisor died before that.
    fn listen(
        &mut self,
        supervisor: &mut Supervisor,
        mut terminal: Option<&mut Terminal>,
        interrupts: &mut Interrupts,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Option<EndMessage>, SupervisorError> {
        let [mut stdout, mut stderr] = std::mem::take(&mut supervisor.output);
        let mut asked = false;
        let mut buffer = vec![0; 64 * 1024];
        while self.end.is_none() {
            if let Some(errno) = self.failed {
                let source = io::Error::from_raw_os_error(errno);
                return Err(SupervisorError::Program {
                    program: self.program.clone(),
                    source,
                });
            }
            if let Some(signal) = interrupts.received().filter(|_| !asked) {
                asked = true;
                self.deadline = Instant::now().checked_add(STOP_GRACE + PATIENCE);
                // A `piton exec` command gets the same signal that piton got.
                let signal = if supervisor.seat == WorkStdio::Terminal {
                    signal
                } else {
                    Signal::TERM.as_raw()
                };
                supervisor.send(&SupervisorOrder::Stop(signal));
            }
            if let Some(signal) = self.stopped.take()
                && let (Some(terminal), Some(group)) = (terminal.as_deref_mut(), self.group)
            {
                terminal.answer_stop(group, Some(signal));
                supervisor.send(&SupervisorOrder::Continue);
            }
            if self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
            {
                return Ok(None);
            }
            let control = supervisor.control.as_fd();
            let fds = [
                Some(control),
                Some(interrupts.news()),
                as_fd(stdout.as_ref()),
                as_fd(stderr.as_ref()),
            ];
            let [control, news, has_stdout, has_stderr] = await_any(fds, self.deadline);
            if has_stdout {
                take(
                    &mut stdout,
                    &mut buffer,
                    &mut self.stdout,
                    Stream::Stdout,
                    on_output,
                );
            }
            if has_stderr {
                take(
                    &mut stderr,
                    &mut buffer,
                    &mut self.stderr,
                    Stream::Stderr,
                    on_output,
                );
            }
            if news {
                interrupts.take_news();
            }
            if control && !self.hear(&mut supervisor.control, &mut buffer) {
                break;
            }
        }
        let mut drained = 0;
        let deadline = Instant::now().checked_add(DRAINING_TIME);
        while (stdout.is_some() || stderr.is_some()) && drained < DRAINED {
            let [has_stdout, has_stderr] =
                await_any([as_fd(stdout.as_ref()), as_fd(stderr.as_ref())], deadline);
            if has_stdout {
                drained += take(
                    &mut stdout,
                    &mut buffer,
                    &mut self.stdout,
                    Stream::Stdout,
                    on_output,
                );
            }
            if has_stderr {
                drained += take(
                    &mut stderr,
                    &mut buffer,
                    &mut self.stderr,
                    Stream::Stderr,
                    on_output,
                );
            }
            if !has_stdout && !has_stderr {
                break;
            }
        }
        Ok(self.end.take())
    }

    /// Reads from the supervisor; returns false when it is gone.
    fn hear(&mut self, control: &mut UnixStream, buffer: &mut [u8]) -> bool {
        match control.read(buffer) {
            Ok(0) => return false,
            Ok(length) => self.inbox.add(buffer.get(..length).unwrap_or_default()),
            Err(err) => return err.kind() == io::ErrorKind::Interrupted,
        }
        while let Some(message) = self.inbox.next() {
            match SupervisorMessage::decode(&message) {
                Some(SupervisorMessage::Started(pid)) => {
                    self.has_started = true;
                    self.group = i32::try_from(pid).ok().and_then(Pid::from_raw);
                }
                Some(SupervisorMessage::Stopped(signal)) => self.stopped = Some(signal),
                Some(SupervisorMessage::Failed(errno)) => self.failed = Some(errno),
                Some(SupervisorMessage::Result(bytes)) => self.result = Some(bytes),
                Some(SupervisorMessage::NoResult(fault)) => self.result_fault = Some(fault),
                Some(SupervisorMessage::Touched(paths)) => self.touched = Touched::Paths(paths),
                Some(SupervisorMessage::Refused(paths)) => self.refused = paths,
                Some(SupervisorMessage::Unwatched(doubt)) => self.touched = Touched::Unknown(doubt),
                Some(SupervisorMessage::Ended(end)) => self.end = Some(end),
                None => return false,
            }
        }
        true
    }

    fn ended(self, end: &EndMessage) -> Ended {
        let duration = if end.duration.is_zero() {
            self.began.elapsed()
        } else {
            end.duration
        };
        Ended {
            exit_code: end.exit_code,
            signal: end.signal,
            duration,
            timed_out: end.timed_out,
            interrupted: end.stopped,
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            result: self.result,
            result_fault: self.result_fault,
            touched: self.touched,
            refused: self.refused,
            leftovers: end.leftovers,
            cpu: end.cpu,
            peak_memory: end.peak_memory,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "exec is the home of processes")]
fn process(program: &Path) -> Command {
    Command::new(program)
}
