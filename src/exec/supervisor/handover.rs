//! Passes piton's stdin, stdout and stderr to the supervisor of a command.
//!
//! They are sent as descriptors over the control socket before any order. The command then owns the
//! pipe or terminal itself, and piton need not relay it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

pub(super) fn send_streams(to: impl AsFd, streams: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    if !message.push(SendAncillaryMessage::ScmRights(&streams)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(to, &[IoSlice::new(b"s")], &mut message, SendFlags::empty())?;
    Ok(())
}

/// Waits for the three streams; `None` when piton is gone.
pub(super) fn receive_streams(from: impl AsFd) -> io::Result<Option<[OwnedFd; 3]>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut byte = [0];
    loop {
        let mut message = RecvAncillaryBuffer::new(&mut space);
        match recvmsg(
            &from,
            &mut [IoSliceMut::new(&mut byte)],
            &mut message,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(err) => return Err(err.into()),
        }
        let streams: Vec<OwnedFd> = message
            .drain()
            .flat_map(|part| match part {
                RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
                _ => Vec::new(),
            })
            .collect();
        return Ok(streams.try_into().ok());
    }
}
