//! One process with a cap on its output and a limit on its time.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::checkpoint::lock_guard::GroupGuard;

/// How much is kept of what a process writes.
const KEPT: usize = 64 * 1024;
/// How much is kept of a list that another repository sends.
const KEPT_OF_LISTS: usize = 64 * 1024 * 1024;
/// How long the output may stay open after the end: something in the background may hold it.
const AFTERMATH: Duration = Duration::from_millis(200);

/// A process that has ended, one way or the other.
pub(super) struct Finished {
    pub(super) ended: Ended,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// How a process ended.
pub(super) enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// It was killed with its group, because its time was over.
    TimedOut,
    /// It was killed with its group, because a signal asked piton to stop.
    Interrupted,
}

/// Runs a command, gives it the input and waits for its end, at most for the limit.
pub(super) fn run(command: Command, input: Option<&[u8]>, limit: Duration) -> io::Result<Finished> {
    run_keeping(command, input, limit, KEPT)
}

/// Runs a command that prints a list.
pub(super) fn run_listing(command: Command, limit: Duration) -> io::Result<Finished> {
    run_keeping(command, None, limit, KEPT_OF_LISTS)
}

fn run_keeping(mut command: Command, input: Option<&[u8]>, limit: Duration, most: usize) -> io::Result<Finished> {
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(&mut command)?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        let input = input.to_vec();
        // A process that does not read ends with its pipe; what it wanted to say is in its status.
        thread::spawn(move || pipe.write_all(&input));
    }
    let stdout = child.stdout.take().map(|pipe| Kept::of(pipe, most));
    let stderr = child.stderr.take().map(|pipe| Kept::of(pipe, KEPT));
    let ended = wait(&mut child, limit, &|| false)?;
    let taken = |kept: Option<Kept>| kept.map(Kept::take).unwrap_or_default();
    Ok(Finished { ended, stdout: taken(stdout), stderr: taken(stderr) })
}

/// As [`run`], for a program that may take long and that ends when the user asks piton to stop.
pub(super) fn run_until_stopped(
    mut command: Command,
    input: &[u8],
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<Finished> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, _guard) = start_guarded(&mut command)?;
    if let Some(mut pipe) = child.stdin.take() {
        let input = input.to_vec();
        thread::spawn(move || pipe.write_all(&input));
    }
    let stdout = child.stdout.take().map(|pipe| Kept::of(pipe, KEPT));
    let stderr = child.stderr.take().map(|pipe| Kept::of(pipe, KEPT));
    let ended = wait(&mut child, limit, is_stopped)?;
    let taken = |kept: Option<Kept>| kept.map(Kept::take).unwrap_or_default();
    Ok(Finished { ended, stdout: taken(stdout), stderr: taken(stderr) })
}

/// Runs a command in our own group, so that it may ask at the terminal and Ctrl-C ends it with us.
pub(super) fn run_in_front(mut command: Command) -> io::Result<Finished> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().map(|pipe| Kept::of(pipe, KEPT_OF_LISTS));
    let stderr = child.stderr.take().map(|pipe| Kept::of(pipe, KEPT));
    let ended = Ended::Exited(child.wait()?);
    let taken = |kept: Option<Kept>| kept.map(Kept::take).unwrap_or_default();
    Ok(Finished { ended, stdout: taken(stdout), stderr: taken(stderr) })
}

/// Runs a command whose output is talk: all of it counts as its errors, in the order it was written.
pub(super) fn run_merged(mut command: Command, limit: Duration) -> io::Result<Finished> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let (mut child, _guard) = start_guarded(&mut command)?;
    // Its copies of the pipe would keep it open for ever.
    drop(command);
    let output = Kept::of(reader, KEPT);
    let ended = wait(&mut child, limit, &|| false)?;
    Ok(Finished { ended, stdout: Vec::new(), stderr: output.take() })
}

fn start(command: &mut Command) -> io::Result<Child> {
    // A group of its own, so that it can be killed with all that it started, and so that a program
    // that reads the terminal behind our back is stopped by the system until its time is over.
    command.process_group(0).spawn()
}

/// As [`start`], for programs of the user, which may take long: they do not outlive a piton that is killed.
fn start_guarded(command: &mut Command) -> io::Result<(Child, Option<GroupGuard>)> {
    // Where no guard can be started, they end by themselves.
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

fn wait(child: &mut Child, limit: Duration, is_stopped: &dyn Fn() -> bool) -> io::Result<Ended> {
    const LONGEST_PAUSE: Duration = Duration::from_millis(20);
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended::Exited(status));
        }
        let is_stopped = is_stopped();
        if is_stopped || started.elapsed() >= limit {
            // The child is not reaped yet, so the number is still its own.
            if let Some(group) = group_of(child) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(if is_stopped { Ended::Interrupted } else { Ended::TimedOut });
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The last bytes of a pipe that is read to its end on a thread of its own.
struct Kept {
    bytes: Arc<Mutex<Vec<u8>>>,
    done: Receiver<()>,
}

impl Kept {
    fn of(mut pipe: impl Read + Send + 'static, most: usize) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, done) = mpsc::channel::<()>();
        let shared = Arc::clone(&bytes);
        thread::spawn(move || {
            // Dropped at the end of the pipe, which is all that the other side waits for.
            let _sender = sender;
            let mut buffer = [0; 8192];
            loop {
                let read = match pipe.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(0) | Err(_) => return,
                    Ok(read) => read,
                };
                let (Some(new), Ok(mut bytes)) = (buffer.get(..read), shared.lock()) else { return };
                bytes.extend_from_slice(new);
                // The last words matter most; what a hook printed first is dropped.
                let over = bytes.len().saturating_sub(most);
                bytes.drain(..over);
            }
        });
        Self { bytes, done }
    }

    fn take(self) -> Vec<u8> {
        let _: Result<(), RecvTimeoutError> = self.done.recv_timeout(AFTERMATH);
        self.bytes.lock().map(|mut bytes| std::mem::take(&mut *bytes)).unwrap_or_default()
    }
}
