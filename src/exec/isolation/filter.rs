//! System calls that a confined process may not make, as a seccomp filter.
//!
//! What Landlock does not restrict: interfaces of the kernel that tools do not need and that have often
//! been used to gain rights, the limits of other processes, input for a terminal, and, while TCP is
//! restricted, other kinds of sockets. The filter is made before `fork`; [`install`] allocates nothing.

use std::io;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W,
    c_long, sock_filter,
};

use super::TcpRule;

/// A kind of system calls: its id, and the numbers that differ between kinds.
struct CallNumbers {
    architecture: u32,
    /// Calls that fail as if they were not allowed.
    refused: &'static [c_long],
    /// Sets the limits of a process; 0 is the caller.
    limits: c_long,
    ioctl: c_long,
    socket: c_long,
    /// A call that contains all calls for sockets, whose arguments a filter cannot see.
    socketcall: Option<c_long>,
}

#[cfg(target_arch = "x86_64")]
const KINDS: [CallNumbers; 2] = [
    CallNumbers {
        architecture: 0xc000_003e,
        refused: &NATIVE,
        limits: libc::SYS_prlimit64,
        ioctl: libc::SYS_ioctl,
        socket: libc::SYS_socket,
        socketcall: None,
    },
    CallNumbers {
        architecture: 0x4000_0003,
        // mount, umount, umount2, pivot_root, add_key, request_key, keyctl, bpf, userfaultfd
        refused: &[21, 22, 52, 217, 286, 287, 288, 357, 374],
        limits: 340,
        ioctl: 54,
        socket: 359,
        socketcall: Some(102),
    },
];

#[cfg(target_arch = "aarch64")]
const KINDS: [CallNumbers; 2] = [
    CallNumbers {
        architecture: 0xc000_00b7,
        refused: &NATIVE,
        limits: libc::SYS_prlimit64,
        ioctl: libc::SYS_ioctl,
        socket: libc::SYS_socket,
        socketcall: None,
    },
    CallNumbers {
        architecture: 0x4000_0028,
        // mount, umount2, pivot_root, add_key, request_key, keyctl, bpf, userfaultfd
        refused: &[21, 52, 218, 309, 310, 311, 386, 388],
        limits: 369,
        ioctl: 54,
        socket: 281,
        socketcall: Some(102),
    },
];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const KINDS: [CallNumbers; 0] = [];

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const NATIVE: [c_long; 8] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
];

/// The mount calls `open_tree` to `fspick`, `mount_setattr` and `open_tree_attr`, which have the same
/// numbers in every kind.
const REFUSED_EVERYWHERE: [c_long; 8] = [428, 429, 430, 431, 432, 433, 442, 467];

/// `io_uring_setup`, which has the same number in every kind. Programs do without it if it is missing.
const MISSING: c_long = 425;

/// Requests of `ioctl` that put text into the input of a terminal, as if its user had typed it, or act on
/// the console: `TIOCSTI` and `TIOCLINUX`.
const TYPED: [c_long; 2] = [0x5412, 0x541c];

/// Numbers from here on belong to the x32 ABI of x86-64.
const X32: u32 = 0x4000_0000;

/// The bits of the type of a socket; the others are flags.
const SOCKET_TYPE: u32 = 0xf;

/// Which sockets a process may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketRule {
    Any,
    /// TCP, UDP, Unix sockets, and netlink for routes: names are resolved by UDP.
    TcpAndUdp,
    /// The same without UDP.
    Tcp,
}

/// Places in the checks of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Next,
    Allow,
    Refuse,
    Close,
    Missing,
    Limits,
    Terminal,
    Socket,
    Netlink,
    Internet,
    Stream,
    Datagram,
}

/// An instruction at a place: its code, its value, and where it leads if it is true and if not.
struct CheckStep(Place, u32, u32, Place, Place);

/// The filter for a rule of TCP; empty for an architecture that piton does not know.
pub(super) fn filter(tcp: &TcpRule) -> Vec<sock_filter> {
    let sockets = match tcp {
        TcpRule::Any => SocketRule::Any,
        TcpRule::Ports(ports) if ports.is_empty() => SocketRule::Tcp,
        TcpRule::Ports(_) => SocketRule::TcpAndUdp,
    };
    let mut filter = Vec::new();
    for kind in &KINDS {
        let Some(checks) = assemble(&checks(kind, sockets)) else {
            return Vec::new();
        };
        // Offset 4 of `seccomp_data` is the architecture.
        let skipped = u32::try_from(checks.len()).unwrap_or(u32::MAX);
        filter.extend([
            plain(BPF_LD | BPF_W | BPF_ABS, 4, 0),
            plain(BPF_JMP | BPF_JEQ | BPF_K, kind.architecture, 1),
            plain(BPF_JMP | BPF_JA, skipped, 0),
        ]);
        filter.extend(checks);
    }
    if !filter.is_empty() {
        // A kind that the kernel has and piton does not know.
        filter.push(plain(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW, 0));
    }
    filter
}

/// The checks of one kind of system calls, of which only the number is known to fit.
fn checks(kind: &CallNumbers, sockets: SocketRule) -> Vec<CheckStep> {
    let mut steps = vec![
        load(Place::Next, 0),
        CheckStep(
            Place::Next,
            BPF_JMP | BPF_JGE | BPF_K,
            X32,
            Place::Refuse,
            Place::Next,
        ),
        is(MISSING, Place::Missing),
    ];
    let refused = kind.refused.iter().copied().chain(REFUSED_EVERYWHERE);
    steps.extend(refused.map(|number| is(number, Place::Refuse)));
    steps.push(is(kind.limits, Place::Limits));
    steps.push(is(kind.ioctl, Place::Terminal));
    if sockets != SocketRule::Any {
        steps.extend(kind.socketcall.map(|number| is(number, Place::Close)));
        steps.push(is(kind.socket, Place::Socket));
    }
    steps.push(answer(Place::Next, libc::SECCOMP_RET_ALLOW));
    if sockets != SocketRule::Any {
        steps.extend(socket_checks(sockets));
    }
    steps.extend([
        load(Place::Limits, 16),
        is_or(0, Place::Allow, Place::Refuse),
        load(Place::Terminal, 24),
    ]);
    steps.extend(TYPED.map(|request| is(request, Place::Refuse)));
    steps.push(answer(Place::Next, libc::SECCOMP_RET_ALLOW));
    let failure = |errno: i32| libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
    steps.extend([
        answer(Place::Allow, libc::SECCOMP_RET_ALLOW),
        answer(Place::Close, failure(libc::EACCES)),
        answer(Place::Refuse, failure(libc::EPERM)),
        answer(Place::Missing, failure(libc::ENOSYS)),
    ]);
    steps
}

/// Checks the domain, the type and the protocol of a new socket, in this order.
fn socket_checks(sockets: SocketRule) -> Vec<CheckStep> {
    let datagrams = match sockets {
        SocketRule::Any | SocketRule::TcpAndUdp => Place::Datagram,
        SocketRule::Tcp => Place::Close,
    };
    vec![
        load(Place::Socket, 16),
        is(libc::AF_UNIX.into(), Place::Allow),
        is(libc::AF_INET.into(), Place::Internet),
        is(libc::AF_INET6.into(), Place::Internet),
        is_or(libc::AF_NETLINK.into(), Place::Netlink, Place::Close),
        load(Place::Netlink, 32),
        is_or(libc::NETLINK_ROUTE.into(), Place::Allow, Place::Close),
        load(Place::Internet, 24),
        CheckStep(
            Place::Next,
            BPF_ALU | BPF_AND | BPF_K,
            SOCKET_TYPE,
            Place::Next,
            Place::Next,
        ),
        is(libc::SOCK_STREAM.into(), Place::Stream),
        is_or(libc::SOCK_DGRAM.into(), datagrams, Place::Close),
        load(Place::Stream, 32),
        is(0, Place::Allow),
        is_or(libc::IPPROTO_TCP.into(), Place::Allow, Place::Close),
        load(Place::Datagram, 32),
        is(0, Place::Allow),
        is_or(libc::IPPROTO_UDP.into(), Place::Allow, Place::Close),
    ]
}

/// Loads a part of `seccomp_data`: 0 is the number, 16, 24 and 32 are the low halves of arguments.
fn load(place: Place, offset: u32) -> CheckStep {
    let code = BPF_LD | BPF_W | BPF_ABS;
    CheckStep(place, code, offset, Place::Next, Place::Next)
}

fn is(value: c_long, then: Place) -> CheckStep {
    is_or(value, then, Place::Next)
}

fn is_or(value: c_long, then: Place, otherwise: Place) -> CheckStep {
    // All numbers here are small and positive.
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    CheckStep(
        Place::Next,
        BPF_JMP | BPF_JEQ | BPF_K,
        value,
        then,
        otherwise,
    )
}

fn answer(place: Place, value: u32) -> CheckStep {
    CheckStep(place, BPF_RET | BPF_K, value, Place::Next, Place::Next)
}

fn plain(code: u32, value: u32, jump: u8) -> sock_filter {
    sock_filter {
        // The codes fit: they are constants.
        code: u16::try_from(code).unwrap_or_default(),
        jt: jump,
        jf: 0,
        k: value,
    }
}

fn assemble(steps: &[CheckStep]) -> Option<Vec<sock_filter>> {
    let offset = |from: usize, to: Place| {
        if to == Place::Next {
            return Some(0);
        }
        let at = steps.iter().position(|step| step.0 == to)?;
        u8::try_from(at.checked_sub(from + 1)?).ok()
    };
    let assembled = steps.iter().enumerate().map(|(at, step)| {
        let CheckStep(_, code, value, yes, no) = *step;
        Some(sock_filter {
            jf: offset(at, no)?,
            ..plain(code, value, offset(at, yes)?)
        })
    });
    assembled.collect()
}

/// Applies a filter to this process and its children for good. Allocates nothing.
#[expect(
    unsafe_code,
    reason = "no safe wrapper takes a filter without allocating"
)]
pub(super) fn install(filter: &mut [sock_filter]) -> io::Result<()> {
    let Some(len) = libc::c_ushort::try_from(filter.len())
        .ok()
        .filter(|len| *len > 0)
    else {
        return Ok(());
    };
    let program = libc::sock_fprog {
        len,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program is valid for the call, which copies it.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    let err = io::Error::last_os_error();
    // A kernel may have no filters: `Support` has told the user.
    if answer == 0 || matches!(err.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) {
        Ok(())
    } else {
        Err(err)
    }
}
