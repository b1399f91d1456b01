//! What the kernel enforces, found by a child process that tries forbidden acts.

use std::ffi::CStr;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::thread;

use libc::sock_filter;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, getppid, test_kill_process, waitpid};
use rustix::thread::UnshareFlags;

use super::filter::filter;
use super::kernel::{close, ruleset};
use super::mounts::{
    NamespaceUser, attach, c_path, clone_tree, make_read_only, own_folder, with_own_files,
};
use super::{Confinement, MountView, SandboxSupport, Support, TcpRule};
use crate::system_call::openat;

const WRITES: u8 = 1;
const MOUNTS: u8 = 2;
const TCP: u8 = 4;
const SIGNALS: u8 = 8;
const CALLS: u8 = 16;

/// Tries in a child process what a confined process must not be able to do.
pub(super) fn probe(folder: &Path) -> Support {
    let no_tcp = TcpRule::Ports(std::collections::BTreeSet::new());
    let nothing = Confinement::new(&[], &[], &[], MountView::Shared, no_tcp);
    let (Ok(ruleset), Ok(folder)) = (ruleset(&nothing, &[]), c_path(folder)) else {
        return Support::default();
    };
    let mut filter = filter(&nothing.tcp);
    let identity = NamespaceUser::of_this_process();
    let refused = in_child(|| try_acts(&identity, ruleset.as_ref(), &mut filter, &folder));
    Support {
        writes: refused & WRITES != 0,
        mounts: refused & MOUNTS != 0,
        tcp: refused & TCP != 0,
        signals: refused & SIGNALS != 0,
        calls: refused & CALLS != 0,
    }
}

/// Tries in child processes what the levels above `standard` need.
pub(super) fn probe_sandbox() -> SandboxSupport {
    let identity = NamespaceUser::of_this_process();
    let homes = in_child(|| {
        let left = identity.leave_mounts(UnshareFlags::empty());
        u8::from(left.and_then(|()| own_folder()).is_ok())
    });
    let networks = in_child(|| u8::from(identity.leave_mounts(UnshareFlags::NEWNET).is_ok()));
    SandboxSupport {
        homes: homes != 0,
        networks: networks != 0,
    }
}

/// What a function finds in a child process; 0 without one. The function must not allocate.
#[expect(unsafe_code, reason = "only a child process can try it")]
fn in_child(find: impl FnOnce() -> u8) -> u8 {
    let Ok((ours, theirs)) = pipe_with(PipeFlags::CLOEXEC) else {
        return 0;
    };
    // SAFETY: the child only makes system calls, allocates nothing and ends without running
    // destructors, so it does not matter which locks other threads hold.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let found = find();
        let _ = write(&theirs, &[found]);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    drop(theirs);
    if child < 0 {
        return 0;
    }
    let mut answer = [0];
    let found = match retry_on_intr(|| read(&ours, &mut answer)) {
        Ok(1) => answer[0],
        _ => 0,
    };
    reap(child);
    found
}

/// Reaps the child in the background: the kernel takes a while to remove its mount namespace.
fn reap(child: i32) {
    let Some(child) = Pid::from_raw(child) else {
        return;
    };
    let wait = move || {
        let _ = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()));
    };
    // Without a thread it is reaped when this process ends.
    let _ = thread::Builder::new().spawn(wait);
}

/// The acts that the kernel refused. Allocates nothing.
fn try_acts(
    identity: &NamespaceUser,
    ruleset: Option<&OwnedFd>,
    filter: &mut [sock_filter],
    folder: &CStr,
) -> u8 {
    let mut refused = 0;
    if let Some(piton) = getppid() {
        if identity.leave_mounts(UnshareFlags::empty()).is_ok()
            && clone_tree(folder)
                .and_then(|tree| make_read_only(tree.as_raw_fd(), c"").map(|()| tree))
                .and_then(|tree| attach(&tree, folder))
                .is_ok()
        {
            // Does not follow the name: it opens the folder through the new mount.
            let file = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            if openat(CWD, folder, file, Mode::RUSR).err() == Some(Errno::ROFS) {
                refused |= MOUNTS;
            }
        }
        if close(ruleset, filter).is_err() {
            return refused;
        }
        // Its own name, which every process may otherwise change.
        let write = OFlags::WRONLY | OFlags::CLOEXEC;
        let opened = with_own_files(|| openat(CWD, c"/proc/self/comm", write, Mode::empty()));
        if opened.err() == Some(Errno::ACCESS) {
            refused |= WRITES;
        }
        // Port 1 of this machine: without Landlock the kernel answers that nothing listens there.
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        let connected = socket(AddressFamily::INET, SocketType::STREAM, None)
            .and_then(|socket| connect(&socket, &address));
        if connected.err() == Some(Errno::ACCESS) {
            refused |= TCP;
        }
        if test_kill_process(piton).err() == Some(Errno::PERM) {
            refused |= SIGNALS;
        }
        if is_call_refused() {
            refused |= CALLS;
        }
    }
    refused
}

/// Whether `add_key` is refused. Without a filter the kernel answers that it cannot read the name.
#[expect(unsafe_code, reason = "no crate has `add_key`")]
fn is_call_refused() -> bool {
    // SAFETY: the kernel refuses null pointers.
    let answer = unsafe { libc::syscall(libc::SYS_add_key, 0, 0, 0, 0, 0) };
    let errno = std::io::Error::last_os_error().raw_os_error();
    answer < 0 && matches!(errno, Some(libc::EPERM | libc::ENOSYS))
}
