//! Seccomp notifications of system calls that change files, before they are executed.
//!
//! A kernel filter selects them; all others cost almost nothing. The first process of a tool
//! installs the filter and sends the listener to its supervisor; every process that the tool starts
//! inherits it. Every call is allowed to continue. All `unsafe` code for this is in this file.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long,
    sock_filter,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::checkpoint::attribution::Doubt;

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    id: u64,
    pub(super) thread: u32,
    pub(super) number: c_long,
    pub(super) arguments: [u64; 6],
    /// Whether the call uses this program's architecture, so that its number has the same meaning.
    pub(super) is_native: bool,
}

/// The kernel's id of the architecture; `None` disables watching.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// Numbers from here on belong to the x32 ABI.
const X32: u32 = 0x4000_0000;

/// Missing in older C libraries.
pub(super) const SYS_FCHMODAT2: c_long = 452;

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`, which the C library lacks.
const SYNC_WAKE_UP: libc::c_ulong = 1;

const WRITING: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC).unsigned_abs();

/// Whether open flags allow writing.
pub(super) fn is_writing(flags: u64) -> bool {
    flags & u64::from(WRITING) != 0
}

const EVERYWHERE: [c_long; 13] = [
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
    // After a mount, a path may mean another file than its name says.
    libc::SYS_mount,
    libc::SYS_move_mount,
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

/// Jump targets of the filter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "others have no `open`")
    )]
    Open,
    OpenAt,
    Allow,
    Notify,
    Refuse,
}

/// The filter; `None` for an unknown architecture.
pub(super) fn filter() -> Option<Vec<sock_filter>> {
    let architecture = ARCHITECTURE?;
    let load = |offset| (BPF_LD | BPF_W | BPF_ABS, offset, To::Next, To::Next);
    let is = |number: c_long, to| {
        Some((
            BPF_JMP | BPF_JEQ | BPF_K,
            u32::try_from(number).ok()?,
            to,
            To::Next,
        ))
    };
    let answer = |value| (BPF_RET | BPF_K, value, To::Next, To::Next);
    let if_writing = (BPF_JMP | BPF_JSET | BPF_K, WRITING, To::Notify, To::Allow);
    let mut steps = vec![
        // Offsets in `seccomp_data`: the architecture, then the number.
        load(4),
        (
            BPF_JMP | BPF_JEQ | BPF_K,
            architecture,
            To::Next,
            To::Notify,
        ),
        load(0),
        (BPF_JMP | BPF_JGE | BPF_K, X32, To::Notify, To::Next),
        // `io_uring` could change files without further system calls.
        is(libc::SYS_io_uring_setup, To::Refuse)?,
        is(libc::SYS_openat, To::OpenAt)?,
    ];
    #[cfg(target_arch = "x86_64")]
    steps.push(is(libc::SYS_open, To::Open)?);
    for number in EVERYWHERE.into_iter().chain(OLDER) {
        steps.push(is(number, To::Notify)?);
    }
    steps.push(answer(libc::SECCOMP_RET_ALLOW));
    // The low halves of the second and third argument: the open flags.
    let open = steps.len();
    steps.extend([load(24), if_writing]);
    let open_at = steps.len();
    steps.extend([load(32), if_writing]);
    let allow = steps.len();
    steps.push(answer(libc::SECCOMP_RET_ALLOW));
    let notify = steps.len();
    steps.push(answer(libc::SECCOMP_RET_USER_NOTIF));
    let refuse = steps.len();
    steps.push(answer(
        libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
    ));
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
            target
                .checked_sub(at + 1)
                .and_then(|offset| u8::try_from(offset).ok())
        };
        Some(sock_filter {
            code: u16::try_from(code).ok()?,
            jt: offset(yes)?,
            jf: offset(no)?,
            k,
        })
    };
    steps.into_iter().enumerate().map(assemble).collect()
}

/// Applies the filter to this process and its children, and sends the listener.
///
/// Allocates nothing, so it may be called between fork and exec.
#[expect(unsafe_code, reason = "no crate wraps the listener of a filter")]
pub(super) fn install(filter: &mut [sock_filter], to: impl AsFd) -> io::Result<()> {
    let Ok(len) = libc::c_ushort::try_from(filter.len()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let program = libc::sock_fprog {
        len,
        filter: filter.as_mut_ptr(),
    };
    let plain = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // With this flag harmless signals do not interrupt a waiting call. Older kernels lack it.
    let patient = plain | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the program is valid for the call, which copies it.
    let set = |flags: libc::c_ulong| unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    let failed_with =
        |listener, errno| listener < 0 && io::Error::last_os_error().raw_os_error() == Some(errno);
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
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
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
    // If this fails too, the receiver finds nothing.
    let _ = rustix::io::write(to, &errno.to_ne_bytes());
}

/// The listener that [`install`] sent, or why there is none.
pub(super) fn receive_listener(from: impl AsFd) -> Result<OwnedFd, Doubt> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 4];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    if recvmsg(
        from,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut message,
        flags,
    )
    .is_err()
    {
        return Err(Doubt::Platform);
    }
    let listener = message.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    listener.ok_or(Doubt::Kernel(i32::from_ne_bytes(bytes)))
}

/// The next waiting call. Blocks unless the listener is readable.
#[expect(unsafe_code, reason = "no crate wraps the listener of a filter")]
pub(super) fn next(listener: &OwnedFd) -> io::Result<Notice> {
    // SAFETY: plain numbers, for which zero is a value; the kernel wants to see zeros.
    let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one notice to where there is room for one.
    if unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            &raw mut notice,
        )
    } != 0
    {
        return Err(io::Error::last_os_error());
    }
    let number = notice.data.nr;
    let is_native = Some(notice.data.arch) == ARCHITECTURE
        && u32::try_from(number).is_ok_and(|number| number < X32);
    Ok(Notice {
        id: notice.id,
        thread: notice.pid,
        number: number.into(),
        arguments: notice.data.args,
        is_native,
    })
}

/// Whether the call still waits, so that what was read about its thread was not about another one.
#[expect(unsafe_code, reason = "no crate wraps the listener of a filter")]
pub(super) fn is_waiting(listener: &OwnedFd, notice: &Notice) -> bool {
    // SAFETY: the kernel reads one number.
    unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw const notice.id,
        ) == 0
    }
}

/// Lets a reported call and its answer wake the other side on the same core, at once: both only wait
/// for each other. Older kernels lack it, where a call takes longer.
#[expect(unsafe_code, reason = "no crate wraps the listener of a filter")]
pub(super) fn hand_over_directly(listener: &OwnedFd) {
    // SAFETY: takes numbers only.
    unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
            SYNC_WAKE_UP,
        )
    };
}

#[expect(unsafe_code, reason = "no crate wraps the listener of a filter")]
pub(super) fn let_go(listener: &OwnedFd, notice: &Notice) {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
    let mut answer = libc::seccomp_notif_resp {
        id: notice.id,
        val: 0,
        error: 0,
        flags,
    };
    // SAFETY: the kernel reads one answer. Who died meanwhile needs none.
    unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw mut answer,
        )
    };
}
