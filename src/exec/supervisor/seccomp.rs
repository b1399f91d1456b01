//! Being told of the system calls that change files, before they are made.
//!
//! A filter in the kernel picks them out; all others cost next to nothing. The first process of a tool
//! installs it and sends its supervisor the listener; whatever the tool starts is under it as well.
//! Every call is answered with "go on". What needs `unsafe` for this is in this file.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::{BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long, sock_filter};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use crate::checkpoint::attribution::Doubt;

/// A system call that somebody waits to make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    id: u64,
    /// The thread that makes it.
    pub(super) thread: u32,
    /// Its number.
    pub(super) number: c_long,
    /// Its arguments.
    pub(super) arguments: [u64; 6],
    /// Whether the number means what it means for this program, and not what it means for one of
    /// another architecture.
    pub(super) is_native: bool,
}

/// The name of the architecture for the kernel; without it nothing is watched.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// Numbers from here on are those of the x32 kind of programs.
const X32: u32 = 0x4000_0000;

/// Newer than some C libraries.
pub(super) const SYS_FCHMODAT2: c_long = 452;

const WRITING: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC).unsigned_abs();

/// Whether a file opened with these flags may be changed.
pub(super) fn is_writing(flags: u64) -> bool {
    flags & u64::from(WRITING) != 0
}

const EVERYWHERE: [c_long; 11] = [
    libc::SYS_openat2,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    libc::SYS_fchmod,
    SYS_FCHMODAT2,
];

#[cfg(target_arch = "x86_64")]
const OLDER: [c_long; 11] = [
    libc::SYS_creat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_open_by_handle_at,
];

#[cfg(target_arch = "aarch64")]
const OLDER: [c_long; 2] = [libc::SYS_renameat, libc::SYS_open_by_handle_at];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OLDER: [c_long; 0] = [];

/// Where a filter goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "others have no `open`"))]
    Open,
    OpenAt,
    Allow,
    Notify,
    Refuse,
}

/// The filter; none where nothing is known about the architecture.
pub(super) fn filter() -> Option<Vec<sock_filter>> {
    let architecture = ARCHITECTURE?;
    let load = |offset| (BPF_LD | BPF_W | BPF_ABS, offset, To::Next, To::Next);
    let is = |number: c_long, to| Some((BPF_JMP | BPF_JEQ | BPF_K, u32::try_from(number).ok()?, to, To::Next));
    let answer = |value| (BPF_RET | BPF_K, value, To::Next, To::Next);
    let if_writing = (BPF_JMP | BPF_JSET | BPF_K, WRITING, To::Notify, To::Allow);
    let mut steps = vec![
        // Of `seccomp_data`: the architecture, then the number.
        load(4),
        (BPF_JMP | BPF_JEQ | BPF_K, architecture, To::Next, To::Notify),
        load(0),
        (BPF_JMP | BPF_JGE | BPF_K, X32, To::Notify, To::Next),
        // It could change files without any further system call.
        is(libc::SYS_io_uring_setup, To::Refuse)?,
        is(libc::SYS_openat, To::OpenAt)?,
    ];
    #[cfg(target_arch = "x86_64")]
    steps.push(is(libc::SYS_open, To::Open)?);
    for number in EVERYWHERE.into_iter().chain(OLDER) {
        steps.push(is(number, To::Notify)?);
    }
    steps.push(answer(libc::SECCOMP_RET_ALLOW));
    // The lower halves of the second and of the third argument, which are flags.
    let open = steps.len();
    steps.extend([load(24), if_writing]);
    let open_at = steps.len();
    steps.extend([load(32), if_writing]);
    let allow = steps.len();
    steps.push(answer(libc::SECCOMP_RET_ALLOW));
    let notify = steps.len();
    steps.push(answer(libc::SECCOMP_RET_USER_NOTIF));
    let refuse = steps.len();
    steps.push(answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()));
    let assemble = |(at, (code, k, yes, no)): (usize, (u32, u32, To, To))| {
        let offset = |to| {
            let target = match to {
                To::Next => return Some(0),
                To::Open => open,
                To::OpenAt => open_at,
                To::Allow => allow,
                To::Notify => notify,
                To::Refuse => refuse,
            };
            target.checked_sub(at + 1).and_then(|offset| u8::try_from(offset).ok())
        };
        Some(sock_filter { code: u16::try_from(code).ok()?, jt: offset(yes)?, jf: offset(no)?, k })
    };
    steps.into_iter().enumerate().map(assemble).collect()
}

/// Puts this process and all that it will start under a filter, and sends the listener away.
///
/// Allocates nothing, so that it may be called between fork and exec.
#[expect(unsafe_code, reason = "no crate wraps the listener of a filter")]
pub(super) fn install(filter: &mut [sock_filter], to: impl AsFd) -> io::Result<()> {
    let Ok(len) = libc::c_ushort::try_from(filter.len()) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
    let plain = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // Not interrupted by harmless signals; younger than the rest.
    let patient = plain | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the program is valid for the call, which copies it.
    let set = |flags: libc::c_ulong| unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    let failed_with = |listener, errno| listener < 0 && io::Error::last_os_error().raw_os_error() == Some(errno);
    let mut listener = set(patient);
    if failed_with(listener, libc::EACCES) {
        // Only root may do it while programs can gain rights by being started.
        // SAFETY: takes numbers only.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        listener = set(patient);
    }
    if failed_with(listener, libc::EINVAL) {
        listener = set(plain);
        if failed_with(listener, libc::EACCES) {
            // SAFETY: takes numbers only.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            listener = set(plain);
        }
    }
    let Some(listener) = RawFd::try_from(listener).ok().filter(|fd| *fd >= 0) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: the kernel has just made it, for nobody else.
    let listener = unsafe { OwnedFd::from_raw_fd(listener) };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let fds = [listener.as_fd()];
    message.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(to, &[IoSlice::new(b"l")], &mut message, SendFlags::empty())?;
    Ok(())
}

/// Sends the error of [`install`] instead of the listener. Allocates nothing.
pub(super) fn send_failure(err: &io::Error, to: impl AsFd) {
    let errno = err.raw_os_error().unwrap_or_default();
    // If this cannot be sent either, the receiver finds nothing.
    let _ = rustix::io::write(to, &errno.to_ne_bytes());
}

/// The listener that [`install`] sent, or why there is none.
pub(super) fn receive_listener(from: impl AsFd) -> Result<OwnedFd, Doubt> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 4];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    if recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut message, flags).is_err() {
        return Err(Doubt::Platform);
    }
    let listener = message.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    listener.ok_or(Doubt::Kernel(i32::from_ne_bytes(bytes)))
}

/// The next call that waits. Only to be asked when the listener can be read, or it blocks.
#[expect(unsafe_code, reason = "no crate wraps the listener of a filter")]
pub(super) fn next(listener: &OwnedFd) -> io::Result<Notice> {
    // SAFETY: plain numbers, for which zero is a value; the kernel wants to see zeros.
    let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one notice to where there is room for one.
    if unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let number = notice.data.nr;
    let is_native = Some(notice.data.arch) == ARCHITECTURE && u32::try_from(number).is_ok_and(|number| number < X32);
    Ok(Notice { id: notice.id, thread: notice.pid, number: number.into(), arguments: notice.data.args, is_native })
}

/// Whether the call still waits, so that what was read about its thread was about no other one.
#[expect(unsafe_code, reason = "no crate wraps the listener of a filter")]
pub(super) fn is_waiting(listener: &OwnedFd, notice: &Notice) -> bool {
    // SAFETY: the kernel reads one number.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const notice.id) == 0 }
}

/// Lets the call go on.
#[expect(unsafe_code, reason = "no crate wraps the listener of a filter")]
pub(super) fn let_go(listener: &OwnedFd, notice: &Notice) {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
    let mut answer = libc::seccomp_notif_resp { id: notice.id, val: 0, error: 0, flags };
    // SAFETY: the kernel reads one answer. Who died meanwhile needs none.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
}
