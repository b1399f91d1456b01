//! System calls that a signal may interrupt, repeated until they end.
//!
//! `std` repeats such calls, `rustix` does not. A signal interrupts `open` on network and FUSE file
//! systems; without the repetition the caller would report a failure of the disk.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

#[expect(clippy::disallowed_methods, reason = "the home of the call")]
pub(crate) fn open(path: impl Arg + Copy, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::open(path, flags, mode))
}

#[expect(clippy::disallowed_methods, reason = "the home of the call")]
pub(crate) fn openat(
    folder: impl AsFd,
    name: impl Arg + Copy,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::openat(&folder, name, flags, mode))
}

#[expect(clippy::disallowed_methods, reason = "the home of the call")]
pub(crate) fn flock(file: impl AsFd, operation: FlockOperation) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::flock(&file, operation))
}
