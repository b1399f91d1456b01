//! The process of a supervisor: piton started anew, or a copy of this process.
//!
//! A copy needs no program to be loaded, which is most of the start of a supervisor. It is made only
//! while this process has a single thread, because the locks of other threads would stay held in the
//! copy forever. All `unsafe` code for this is in this file.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A supervisor as a child of this process.
#[derive(Debug)]
pub(super) enum SupervisorProcess {
    /// A program of its own.
    Started(Child),
    /// A copy of this process, with its exit status once it was reaped.
    Forked(Pid, Option<ExitStatus>),
}

impl SupervisorProcess {
    pub(super) fn id(&self) -> u32 {
        match self {
            Self::Started(child) => child.id(),
            Self::Forked(pid, _) => pid.as_raw_nonzero().get().cast_unsigned(),
        }
    }

    /// Kills it, unless it was reaped: its id may be that of another process by then.
    pub(super) fn kill(&mut self) {
        let _ = match self {
            Self::Started(child) => child.kill(),
            Self::Forked(pid, None) => kill_process(*pid, Signal::KILL).map_err(io::Error::from),
            Self::Forked(_, Some(_)) => Ok(()),
        };
    }

    /// Reaps it if it has exited.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Self::Started(child) => child.try_wait(),
            Self::Forked(pid, status) => reap(*pid, status, WaitOptions::NOHANG),
        }
    }

    /// Waits until it has exited.
    pub(super) fn wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Self::Started(child) => child.wait().map(Some),
            Self::Forked(pid, status) => reap(*pid, status, WaitOptions::empty()),
        }
    }
}

fn reap(
    pid: Pid,
    known: &mut Option<ExitStatus>,
    options: WaitOptions,
) -> io::Result<Option<ExitStatus>> {
    while known.is_none() {
        match waitpid(Some(pid), options) {
            Ok(Some((_, status))) => *known = Some(ExitStatus::from_raw(status.as_raw())),
            Ok(None) => break,
            Err(Errno::INTR) => {}
            Err(err) => return Err(err.into()),
        }
    }
    Ok(*known)
}

#[cfg(target_os = "linux")]
pub(super) use linux::fork;

#[cfg(target_os = "linux")]
mod linux {
    //! Copies this process.

    use std::ffi::CStr;
    use std::io;
    use std::os::unix::net::UnixStream;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
    use rustix::fs::{Mode, OFlags};
    use rustix::process::{Pid, setpgid};
    use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
    use rustix::thread::set_name;

    use super::SupervisorProcess;
    use crate::exec::supervisor::child::{self, SupervisorSession};
    use crate::system_call::open;

    /// The name of the copy, which has the arguments of this process.
    const NAME: &CStr = c"piton-supervise";

    /// Makes a copy of this process that supervises a command; `None` if this process has more than
    /// one thread. The copy leads its own process group and reads orders from `control`.
    #[expect(
        unsafe_code,
        reason = "a copy of the process starts at once and needs no program of its own"
    )]
    pub(in crate::exec::supervisor) fn fork(
        control: &UnixStream,
    ) -> io::Result<Option<SupervisorProcess>> {
        if std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count) != 1 {
            return Ok(None);
        }
        let mut before = SigSet::empty();
        // Ctrl-C must not reach the copy before it has its own group.
        pthread_sigmask(
            SigmaskHow::SIG_SETMASK,
            Some(&SigSet::all()),
            Some(&mut before),
        )?;
        // SAFETY: there is no other thread that could hold a lock, and the copy never returns to the
        // caller.
        let process = unsafe { libc::fork() };
        if process == 0 {
            // Unwinding would continue with the work of the original.
            let served = catch_unwind(AssertUnwindSafe(|| supervise(control)));
            let is_done = matches!(served, Ok(Ok(())));
            // SAFETY: what the original owns must not be flushed or dropped here.
            unsafe { libc::_exit(i32::from(!is_done)) }
        }
        let failure = (process < 0).then(io::Error::last_os_error);
        before.thread_set_mask()?;
        if let Some(err) = failure {
            return Err(err);
        }
        let Some(pid) = Pid::from_raw(process) else {
            return Ok(None);
        };
        // Both set it, so that it is set whichever comes first.
        let _ = setpgid(Some(pid), Some(pid));
        Ok(Some(SupervisorProcess::Forked(pid, None)))
    }

    /// The work of the copy.
    fn supervise(control: &UnixStream) -> io::Result<()> {
        setpgid(None, None)?;
        let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        dup2_stdin(control)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        // The supervisor closes it with all others; the owner must not close it again.
        std::mem::forget(null);
        // For people who look for it.
        let _ = set_name(NAME);
        child::serve(SupervisorSession::Terminal)
    }
}
