//! Reads what a tool prints: waits for several descriptors, and takes what has arrived.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

use super::Stream;
use super::capture::Capture;

pub(super) fn as_fd(fd: Option<&OwnedFd>) -> Option<BorrowedFd<'_>> {
    fd.map(AsFd::as_fd)
}

/// Waits until a descriptor is readable; returns the state of each.
pub(super) fn await_any<const N: usize>(
    fds: [Option<BorrowedFd<'_>>; N],
    deadline: Option<Instant>,
) -> [bool; N] {
    let limit = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let mut waiting: Vec<PollFd<'_>> = fds
        .iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let is_known = poll(&mut waiting, limit.as_ref()).is_ok();
    let mut answers = waiting
        .iter()
        .map(|fd| is_known && !fd.revents().is_empty());
    fds.map(|fd| fd.is_some() && answers.next().unwrap_or_default())
}

/// Reads once from a stream, and drops it at its end; returns the number of bytes.
pub(super) fn take(
    stream: &mut Option<OwnedFd>,
    buffer: &mut [u8],
    capture: &mut Capture,
    which: Stream,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> usize {
    let Some(fd) = stream else { return 0 };
    match read(fd, &mut *buffer) {
        Ok(length) if length > 0 => {
            let bytes = buffer.get(..length).unwrap_or_default();
            capture.add(bytes);
            on_output(which, bytes);
            length
        }
        Err(Errno::INTR) => 0,
        Ok(_) | Err(_) => {
            *stream = None;
            0
        }
    }
}
