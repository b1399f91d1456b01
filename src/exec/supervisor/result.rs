//! The private channel: four bytes that say a length, and as many bytes of result.
//!
//! It is complete when the length is reached. What comes after it is read and forgotten, so that
//! nobody waits for a pipe to be emptied; whether anybody still holds the other end does not matter.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, read};

use super::ResultFault;
use super::protocol::Report;

/// The largest result that is taken.
pub(super) const LARGEST: usize = 16 * 1024 * 1024;

/// A result on its way.
#[derive(Debug)]
pub(super) struct Incoming {
    fd: OwnedFd,
    is_open: bool,
    bytes: Vec<u8>,
}

impl Incoming {
    /// Begins to read a pipe, which must not block.
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd, is_open: true, bytes: Vec::new() }
    }

    /// Whether more may come.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes in what is there.
    pub(super) fn take(&mut self) {
        let mut buffer = vec![0; 64 * 1024];
        // Bounded, because a tool that never stops writing must not keep its supervisor busy.
        for _ in 0..64 {
            match read(&self.fd, &mut buffer) {
                Ok(0) => {
                    self.is_open = false;
                    return;
                }
                Ok(length) if self.wants_more() => {
                    self.bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
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

    /// What there is to tell in the end; nothing when nothing came.
    pub(super) fn finish(self) -> Option<Report> {
        let length = match self.length() {
            Some(length) => length,
            None if self.bytes.is_empty() => return None,
            None => return Some(Report::NoResult(ResultFault::CutOff)),
        };
        if length > LARGEST {
            return Some(Report::NoResult(ResultFault::TooLarge(length as u64)));
        }
        Some(match self.bytes.get(4..4 + length) {
            Some(result) => Report::Result(result.to_vec()),
            None => Report::NoResult(ResultFault::CutOff),
        })
    }

    fn wants_more(&self) -> bool {
        self.length().is_none_or(|length| length <= LARGEST && self.bytes.len() < length + 4)
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
