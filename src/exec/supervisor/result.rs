//! The private channel: a length in four bytes, then the bytes of the result.
//!
//! It is complete when the length is reached. Later bytes are read and dropped, so that the writer
//! does not block. Other processes that still hold the pipe do not matter.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, read};

use super::ResultFault;
use super::protocol::SupervisorMessage;

/// The largest result.
pub(super) const LARGEST: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Incoming {
    fd: OwnedFd,
    is_open: bool,
    bytes: Vec<u8>,
}

impl Incoming {
    /// Reads from a non-blocking pipe.
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            is_open: true,
            bytes: Vec::new(),
        }
    }

    /// Whether more data may arrive.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(super) fn take(&mut self) {
        let mut buffer = vec![0; 64 * 1024];
        // Bounded: a tool that writes forever must not keep its supervisor busy.
        for _ in 0..64 {
            match read(&self.fd, &mut buffer) {
                Ok(0) => {
                    self.is_open = false;
                    return;
                }
                Ok(length) if self.wants_more() => {
                    self.bytes
                        .extend_from_slice(buffer.get(..length).unwrap_or_default());
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.is_open = false;
                    return;
                }
            }
        }
    }

    /// The report at the end; `None` when nothing arrived.
    pub(super) fn finish(self) -> Option<SupervisorMessage> {
        let length = match self.length() {
            Some(length) => length,
            None if self.bytes.is_empty() => return None,
            None => return Some(SupervisorMessage::NoResult(ResultFault::CutOff)),
        };
        if length > LARGEST {
            return Some(SupervisorMessage::NoResult(ResultFault::TooLarge(
                length as u64,
            )));
        }
        Some(match self.bytes.get(4..4 + length) {
            Some(result) => SupervisorMessage::Result(result.to_vec()),
            None => SupervisorMessage::NoResult(ResultFault::CutOff),
        })
    }

    fn wants_more(&self) -> bool {
        self.length()
            .is_none_or(|length| length <= LARGEST && self.bytes.len() < length + 4)
    }

    fn length(&self) -> Option<usize> {
        usize::try_from(u32::from_be_bytes(*self.bytes.first_chunk::<4>()?)).ok()
    }
}

impl AsFd for Incoming {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
