//! Removes piton's git locks, and ends its filters and hooks, when piton is killed.
//!
//! While a git lock is held, a [`LockGuard`] is alive: a forked process that only waits for the end
//! of piton. If piton is killed, it removes the locks, so that the user's git is not blocked until
//! the next piton command. The recovery handles everything else. If no process can be forked, the
//! recovery removes the locks too. A [`GroupGuard`] does the same for a process group, which it
//! kills.
//!
//! A lock is a hard link to a file of piton's own, the mark, which the holder has locked with
//! `flock`. The guard locks the mark before it checks: neither the guard nor a recovery removes a
//! lock that has another holder by then.

use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::fs::{FlockOperation, Mode, OFlags, fstat, lstat, unlink};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, setsid, waitpid,
};
use rustix::stdio::stdin;

use crate::system_call::{flock, open};

/// The size of an atomic write to a pipe.
const LONGEST: usize = 4096;
/// Enough for the names of all locks that are ever held at once.
const NAMES: usize = 3 * LONGEST;

/// The guard of all locks that are currently held.
static CURRENT: Mutex<Weak<LockGuard>> = Mutex::new(Weak::new());

/// A process that removes locks when this one is killed. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct LockGuard(Copied);

/// A process that kills a process group when this one is killed. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct GroupGuard(Copied);

/// A forked process that waits for the end of this one.
#[derive(Debug)]
struct Copied {
    pipe: OwnedFd,
    process: Pid,
}

/// Removes a lock if this process is killed while the returned guard is held. Call it before the
/// lock is created.
pub(super) fn guard(mark: &Path, lock: &Path) -> Option<Arc<LockGuard>> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let guard = match current.upgrade() {
        Some(guard) => guard,
        None => Arc::new(LockGuard(Copied::start(remove_locks)?)),
    };
    *current = Arc::downgrade(&guard);
    let names: Vec<u8> = [mark, lock]
        .iter()
        .flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat())
        .collect();
    if names.len() > LONGEST {
        return None;
    }
    write(&guard.0.pipe, &names).ok()?;
    Some(guard)
}

impl GroupGuard {
    /// Call this before the processes are started.
    pub(super) fn start() -> Option<Self> {
        Copied::start(kill_group).map(Self)
    }

    /// Sets the group.
    pub(super) fn watch(&self, group: Pid) {
        let _ = write(&self.0.pipe, &group.as_raw_nonzero().get().to_ne_bytes());
    }
}

impl Copied {
    /// Forks a process that runs `serve` at the end of this one. `serve` must only make system
    /// calls and must not allocate.
    #[expect(
        unsafe_code,
        reason = "a copy of the process starts at once and needs no program of its own"
    )]
    fn start(at_end: fn()) -> Option<Self> {
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let mut before = SigSet::empty();
        // No signal handler of piton may run in the child.
        nix::sys::signal::pthread_sigmask(
            SigmaskHow::SIG_SETMASK,
            Some(&SigSet::all()),
            Some(&mut before),
        )
        .ok()?;
        // SAFETY: `serve` only makes system calls and does not allocate, as required after a fork
        // of a process with threads.
        let process = unsafe { libc::fork() };
        if process == 0 {
            serve(theirs.as_raw_fd(), at_end);
        }
        let _ = before.thread_set_mask();
        Some(Self {
            pipe: ours,
            process: Pid::from_raw(process).filter(|_| process > 0)?,
        })
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // Nothing is left to do. Wait for it, so that no zombie remains.
        let _ = kill_process(self.process, Signal::KILL);
        while waitpid(Some(self.process), WaitOptions::empty()).is_err_and(|err| err == Errno::INTR)
        {
        }
    }
}

/// The main function of a guard.
#[expect(
    unsafe_code,
    reason = "descriptors of other owners are closed, and the process ends without their farewells"
)]
fn serve(pipe: RawFd, at_end: fn()) -> ! {
    // A kill of piton's process group must not reach the guard.
    let _ = setsid();
    // SAFETY: in this forked process only this function runs. It uses no descriptor but the pipe,
    // and owners of other descriptors are never dropped.
    unsafe {
        libc::dup2(pipe, 0);
        close_from(1);
    }
    at_end();
    // SAFETY: nothing has to be cleaned up before the exit.
    unsafe { libc::_exit(0) }
}

/// Reads the names of locks until piton ends, then removes them.
fn remove_locks() {
    let mut names = [0; NAMES];
    let mut length = 0;
    let mut rest = [0; LONGEST];
    loop {
        let room = names.get_mut(length..).unwrap_or_default();
        match read(stdin(), if room.is_empty() { &mut rest[..] } else { room }) {
            Ok(0) => break,
            Ok(more) => length = (length + more).min(NAMES),
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    let mut left = names.get(..length).unwrap_or_default();
    while let Some((mark, lock)) = next(&mut left).and_then(|mark| Some((mark, next(&mut left)?))) {
        let _ = remove_lock(mark, lock);
    }
}

/// Reads a group id; kills the group when piton ends.
fn kill_group() {
    let mut number = [0; size_of::<i32>()];
    let mut rest = [0; 1];
    let mut length = 0;
    loop {
        let room = number.get_mut(length..).unwrap_or_default();
        match read(stdin(), if room.is_empty() { &mut rest[..] } else { room }) {
            Ok(0) => break,
            Ok(more) => length = (length + more).min(number.len()),
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    if let Some(group) = Pid::from_raw(i32::from_ne_bytes(number)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Takes the next name.
fn next<'n>(names: &mut &'n [u8]) -> Option<&'n CStr> {
    let name = CStr::from_bytes_until_nul(names).ok()?;
    *names = names.get(name.count_bytes() + 1..).unwrap_or_default();
    Some(name)
}

/// Removes a lock if it is a hard link to the mark.
fn remove_lock(mark: &CStr, lock: &CStr) -> Result<(), Errno> {
    let file = open(
        mark,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    flock(&file, FlockOperation::LockExclusive)?;
    let (ours, found) = (fstat(&file)?, lstat(lock)?);
    if (ours.st_dev, ours.st_ino) == (found.st_dev, found.st_ino) {
        unlink(lock)
    } else {
        Ok(())
    }
}

/// Closes all descriptors from a number on.
#[expect(
    unsafe_code,
    reason = "no safe wrapper closes descriptors of unknown owners"
)]
unsafe fn close_from(first: RawFd) {
    // SAFETY: the caller no longer uses them.
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        for descriptor in first..4096 {
            libc::close(descriptor);
        }
    }
}
