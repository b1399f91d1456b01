//! Notices requests to stop: Ctrl-C, `kill`, a closed terminal.
//!
//! Code that runs tools listens for the whole run, including checkpoints. A signal then never ends
//! piton in the middle of an operation; it is only recorded and read at the next safe point.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

use super::process;
use crate::context::stop::{Stop, StopListener};

/// Listens for signals while it lives. There may be several: each sees every signal.
#[derive(Debug)]
pub struct Interrupts {
    received: Arc<AtomicUsize>,
    /// Contains a byte per signal, so that a signal just before a wait ends that wait.
    wake: UnixStream,
    bell: Arc<UnixStream>,
    registered: Vec<SigId>,
}

/// For example `signal 9 (SIGKILL)`.
pub fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
}

impl Interrupts {
    /// Starts listening. Signals that piton inherited as ignored stay ignored.
    pub fn listen() -> io::Result<Self> {
        let (wake, bell) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let bell = Arc::new(bell);
        let mut interrupts = Self {
            received: Arc::default(),
            wake,
            bell: Arc::clone(&bell),
            registered: Vec::new(),
        };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if process::ignores(signal) {
                continue;
            }
            let number = usize::try_from(signal).unwrap_or_default();
            // Register the flag first: it must be set when the pipe wakes a waiter.
            let note = signal_hook::flag::register_usize(
                signal,
                Arc::clone(&interrupts.received),
                number,
            )?;
            interrupts.registered.push(note);
            interrupts
                .registered
                .push(pipe::register(signal, bell.try_clone()?)?);
        }
        interrupts
            .registered
            .push(pipe::register(SIGCHLD, bell.try_clone()?)?);
        Ok(interrupts)
    }

    /// The same, and also reacts when a client cancels its call.
    pub fn listen_for(stop: &Stop) -> io::Result<Self> {
        let interrupts = Self::listen()?;
        stop.attach(&interrupts.ear());
        Ok(interrupts)
    }

    /// The last signal that asked piton to stop.
    pub fn received(&self) -> Option<i32> {
        i32::try_from(self.received.load(Ordering::SeqCst))
            .ok()
            .filter(|signal| *signal != 0)
    }

    /// A handle to request the end from another thread, like a signal.
    pub fn ear(&self) -> StopListener {
        StopListener::new(&self.received, &self.bell)
    }

    /// Sleeps until the time is over or a signal asks piton to stop.
    pub fn sleep(&mut self, time: Duration) -> io::Result<()> {
        let end = Instant::now() + time;
        while self.received().is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait(Some(left))?;
        }
        Ok(())
    }

    /// Readable after a signal, for callers that also poll other descriptors.
    pub(super) fn news(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Drains the wake-up bytes.
    pub(super) fn take_news(&mut self) {
        let mut bytes = [0; 64];
        while self
            .wake
            .read(&mut bytes)
            .is_ok_and(|read| read == bytes.len())
        {}
    }

    /// Waits for a signal, or for a child that ended or stopped, up to a limit.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(
            &mut [PollFd::new(&self.wake, PollFlags::IN)],
            limit.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(err) => return Err(err.into()),
        }
        self.take_news();
        Ok(())
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}
