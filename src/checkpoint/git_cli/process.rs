//! Runs one process with limited output and time.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::checkpoint::lock_guard::GroupGuard;

/// How much of the output is kept.
const KEPT: usize = 64 * 1024;
/// How much of a list from another repository is kept.
const KEPT_OF_LISTS: usize = 64 * 1024 * 1024;
/// How long the output may stay open after the exit, because a background process may hold it.
const AFTERMATH: Duration = Duration::from_millis(200);

pub(super) struct FinishedProcess {
    pub(super) ended: GitProcessEnd,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

pub(super) enum GitProcessEnd {
    Exited(ExitStatus),
    /// Killed with its group at the time limit.
    TimedOut,
    /// Killed with its group because piton was interrupted.
    Interrupted,
}

/// Runs a command with an input, at most for the time limit.
pub(super) fn run(
    command: Command,
    input: Option<&[u8]>,
    limit: Duration,
) -> io::Result<FinishedProcess> {
    run_keeping(command, input, limit, KEPT)
}

/// Runs a command that prints a list.
pub(super) fn run_listing(command: Command, limit: Duration) -> io::Result<FinishedProcess> {
    run_keeping(command, None, limit, KEPT_OF_LISTS)
}

fn run_keeping(
    mut command: Command,
    input: Option<&[u8]>,
    limit: Duration,
    most: usize,
) -> io::Result<FinishedProcess> {
    command.stdin(if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(&mut command)?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        let input = input.to_vec();
        // If the process does not read, its pipe breaks at its end; its status tells the rest.
        thread::spawn(move || pipe.write_all(&input));
    }
    let stdout = child.stdout.take().map(|pipe| PipeTail::of(pipe, most));
    let stderr = child.stderr.take().map(|pipe| PipeTail::of(pipe, KEPT));
    let ended = wait(&mut child, limit, &|| false)?;
    let taken = |kept: Option<PipeTail>| kept.map(PipeTail::take).unwrap_or_default();
    Ok(FinishedProcess {
        ended,
        stdout: taken(stdout),
        stderr: taken(stderr),
    })
}

/// As [`run`], for a slow program that ends when piton is interrupted.
pub(super) fn run_until_stopped(
    mut command: Command,
    input: &[u8],
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<FinishedProcess> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (mut child, _guard) = start_guarded(&mut command)?;
    if let Some(mut pipe) = child.stdin.take() {
        let input = input.to_vec();
        thread::spawn(move || pipe.write_all(&input));
    }
    let stdout = child.stdout.take().map(|pipe| PipeTail::of(pipe, KEPT));
    let stderr = child.stderr.take().map(|pipe| PipeTail::of(pipe, KEPT));
    let ended = wait(&mut child, limit, is_stopped)?;
    let taken = |kept: Option<PipeTail>| kept.map(PipeTail::take).unwrap_or_default();
    Ok(FinishedProcess {
        ended,
        stdout: taken(stdout),
        stderr: taken(stderr),
    })
}

/// Runs a command in piton's own group, so that it may use the terminal and Ctrl-C ends both.
pub(super) fn run_in_front(mut command: Command) -> io::Result<FinishedProcess> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdout = child
        .stdout
        .take()
        .map(|pipe| PipeTail::of(pipe, KEPT_OF_LISTS));
    let stderr = child.stderr.take().map(|pipe| PipeTail::of(pipe, KEPT));
    let ended = GitProcessEnd::Exited(child.wait()?);
    let taken = |kept: Option<PipeTail>| kept.map(PipeTail::take).unwrap_or_default();
    Ok(FinishedProcess {
        ended,
        stdout: taken(stdout),
        stderr: taken(stderr),
    })
}

/// Runs a command with stdout and stderr merged, in the order of writing.
pub(super) fn run_merged(mut command: Command, limit: Duration) -> io::Result<FinishedProcess> {
    let (reader, writer) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let (mut child, _guard) = start_guarded(&mut command)?;
    // Its copies of the pipe would keep it open forever.
    drop(command);
    let output = PipeTail::of(reader, KEPT);
    let ended = wait(&mut child, limit, &|| false)?;
    Ok(FinishedProcess {
        ended,
        stdout: Vec::new(),
        stderr: output.take(),
    })
}

fn start(command: &mut Command) -> io::Result<Child> {
    // In its own group, so that it can be killed with all of its children, and so that the system
    // stops a program that reads the terminal in the background until its time limit.
    command.process_group(0).spawn()
}

/// As [`start`], for slow programs of the user: they must not outlive a killed piton.
fn start_guarded(command: &mut Command) -> io::Result<(Child, Option<GroupGuard>)> {
    // If no guard can be started, they end on their own.
    let guard = GroupGuard::start();
    let child = start(command)?;
    if let (Some(guard), Some(group)) = (&guard, group_of(&child)) {
        guard.watch(group);
    }
    Ok((child, guard))
}

fn group_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn wait(
    child: &mut Child,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<GitProcessEnd> {
    const LONGEST_PAUSE: Duration = Duration::from_millis(20);
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(GitProcessEnd::Exited(status));
        }
        let is_stopped = is_stopped();
        if is_stopped || started.elapsed() >= limit {
            // The child is not reaped yet, so its process id is still valid.
            if let Some(group) = group_of(child) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(if is_stopped {
                GitProcessEnd::Interrupted
            } else {
                GitProcessEnd::TimedOut
            });
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The last bytes of a pipe that a thread reads to its end.
struct PipeTail {
    bytes: Arc<Mutex<Vec<u8>>>,
    done: Receiver<()>,
}

impl PipeTail {
    fn of(mut pipe: impl Read + Send + 'static, most: usize) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, done) = mpsc::channel::<()>();
        let shared = Arc::clone(&bytes);
        thread::spawn(move || {
            // Dropped at the end of the pipe, for which the receiver waits.
            let _sender = sender;
            let mut buffer = [0; 8192];
            loop {
                let read = match pipe.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(0) | Err(_) => return,
                    Ok(read) => read,
                };
                let (Some(new), Ok(mut bytes)) = (buffer.get(..read), shared.lock()) else {
                    return;
                };
                bytes.extend_from_slice(new);
                // Keep the end: the last messages matter most.
                let over = bytes.len().saturating_sub(most);
                bytes.drain(..over);
            }
        });
        Self { bytes, done }
    }

    fn take(self) -> Vec<u8> {
        let _: Result<(), RecvTimeoutError> = self.done.recv_timeout(AFTERMATH);
        self.bytes
            .lock()
            .map(|mut bytes| std::mem::take(&mut *bytes))
            .unwrap_or_default()
    }
}
