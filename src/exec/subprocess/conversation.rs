//! Runs a command with an input and captured output.
//!
//! One loop waits for the command, its three streams and requests to stop. A command that never
//! reads, never stops writing or passes its streams to others cannot block piton.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, read, write};

use super::{CommandLine, CommandOutcome, RunningCommand, SubprocessError, Wiring};
use crate::exec::interrupt::Interrupts;
use crate::exec::supervisor::{Capture, Captured, Stream};

const KEPT: usize = 1024 * 1024;
/// How long to read the streams after all processes have ended.
const DRAINING_TIME: Duration = Duration::from_millis(200);
/// The most to read then: more than a pipe holds.
const DRAINED: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub outcome: CommandOutcome,
    pub stdout: Captured,
}

/// Runs a command with an input; `on_output` gets its output as it arrives.
///
/// `on_start` gets the process id as soon as it exists; if it fails, the command is killed.
pub fn converse<E: From<SubprocessError>>(
    command: &CommandLine,
    input: &[u8],
    interrupts: &mut Interrupts,
    on_start: impl FnOnce(u32) -> Result<(), E>,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Conversation, E> {
    let mut running = RunningCommand::start(command, Wiring::Pipes)?;
    on_start(running.child.id())?;
    let mut pipes = Pipes {
        stdin: running.child.stdin.take().map(OwnedFd::from),
        input,
        stdout: running.child.stdout.take().map(OwnedFd::from),
        stderr: running.child.stderr.take().map(OwnedFd::from),
        kept: Capture::new(KEPT),
        buffer: vec![0; 64 * 1024],
        on_output,
    };
    pipes.prepare().map_err(|source| SubprocessError::Lost {
        program: command.program.clone(),
        source,
    })?;
    let outcome = running.end(command, interrupts, &mut |interrupts, limit| {
        pipes.wait(interrupts, limit)
    })?;
    pipes.drain();
    Ok(Conversation {
        outcome,
        stdout: pipes.kept.finish(),
    })
}

/// Our ends of a command's pipes; `None` after a stream has ended.
struct Pipes<'c> {
    stdin: Option<OwnedFd>,
    /// The rest of the input.
    input: &'c [u8],
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    kept: Capture,
    buffer: Vec<u8>,
    on_output: &'c mut dyn FnMut(Stream, &[u8]),
}

#[derive(Default)]
struct Ready {
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl Pipes<'_> {
    fn prepare(&mut self) -> io::Result<()> {
        match &self.stdin {
            Some(stdin) if !self.input.is_empty() => Ok(ioctl_fionbio(stdin, true)?),
            _ => {
                self.stdin = None;
                Ok(())
            }
        }
    }

    /// Waits for the command or its streams, and transfers what is ready.
    fn wait(&mut self, interrupts: &mut Interrupts, limit: Option<Duration>) -> io::Result<()> {
        let ready = self.poll(Some(interrupts), limit)?;
        interrupts.take_news();
        if ready.stdin {
            self.give();
        }
        self.take(&ready);
        Ok(())
    }

    /// Reads the rest of the pipes after all processes have ended.
    fn drain(&mut self) {
        self.stdin = None;
        let mut drained = 0;
        while (self.stdout.is_some() || self.stderr.is_some()) && drained < DRAINED {
            match self.poll(None, Some(DRAINING_TIME)) {
                Ok(ready) if ready.stdout || ready.stderr => drained += self.take(&ready),
                _ => return,
            }
        }
    }

    fn poll(&self, interrupts: Option<&Interrupts>, limit: Option<Duration>) -> io::Result<Ready> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let news = interrupts.map(Interrupts::news);
        let streams = [
            (news, PollFlags::IN),
            (self.stdin.as_ref().map(AsFd::as_fd), PollFlags::OUT),
            (self.stdout.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (self.stderr.as_ref().map(AsFd::as_fd), PollFlags::IN),
        ];
        let mut waiting: Vec<PollFd<'_>> = streams
            .iter()
            .filter_map(|(fd, flags)| Some(PollFd::from_borrowed_fd((*fd)?, *flags)))
            .collect();
        match poll(&mut waiting, limit.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(err) => return Err(err.into()),
        }
        let mut answers = waiting.iter().map(|fd| !fd.revents().is_empty());
        let [_, stdin, stdout, stderr] =
            streams.map(|(fd, _)| fd.is_some() && answers.next().unwrap_or_default());
        Ok(Ready {
            stdin,
            stdout,
            stderr,
        })
    }

    /// Writes as much input as the command accepts now.
    fn give(&mut self) {
        let Some(stdin) = &self.stdin else { return };
        match write(stdin, self.input) {
            Ok(written) => self.input = self.input.get(written..).unwrap_or_default(),
            Err(Errno::INTR | Errno::AGAIN) => {}
            // The command has closed its input.
            Err(_) => self.input = &[],
        }
        if self.input.is_empty() {
            self.stdin = None;
        }
    }

    fn take(&mut self, ready: &Ready) -> usize {
        let mut taken = 0;
        if ready.stdout {
            let bytes = next(&mut self.stdout, &mut self.buffer);
            self.kept.add(bytes);
            taken += bytes.len();
            (self.on_output)(Stream::Stdout, bytes);
        }
        if ready.stderr {
            let bytes = next(&mut self.stderr, &mut self.buffer);
            taken += bytes.len();
            (self.on_output)(Stream::Stderr, bytes);
        }
        taken
    }
}

/// Reads once from a stream, and drops it at its end.
fn next<'b>(stream: &mut Option<OwnedFd>, buffer: &'b mut [u8]) -> &'b [u8] {
    let Some(fd) = stream else { return &[] };
    match read(fd, &mut *buffer) {
        Ok(length) if length > 0 => buffer.get(..length).unwrap_or_default(),
        Err(Errno::INTR) => &[],
        Ok(_) | Err(_) => {
            *stream = None;
            &[]
        }
    }
}

#[cfg(test)]
mod tests;
