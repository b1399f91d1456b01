//! Starts the tool from inside its supervisor.
//!
//! Between `fork` and `exec` the tool's first process resets what piton had set, applies its limits
//! and asks the kernel to die with the supervisor. That needs `unsafe`; all of it is in this file.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getppid, getrlimit, set_parent_process_death_signal,
    setrlimit,
};
use rustix::stdio::stdin;
use rustix::termios::tcsetpgrp;

use super::seccomp::{filter, install, receive_listener, send_failure};
use super::touched::TouchedLog;
use super::write_monitor::WriteMonitor;
use super::{Channel, Foreground, Watch, Work};
use crate::exec::invocation::ResourceLimits;
use crate::exec::isolation::kernel::Lock;
use crate::system_call::open;

/// The tool's descriptor of the private channel.
const CHANNEL: RawFd = 3;

/// A running tool, and our ends of its pipes.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) pid: u32,
    /// Connected to its stdin.
    pub(super) input: Option<OwnedFd>,
    /// Connected to its private channel.
    pub(super) channel: Option<OwnedFd>,
    /// Records which files it changes.
    pub(super) monitor: Option<WriteMonitor>,
}

/// Closes everything but the standard streams; inherited descriptors are not for a supervisor.
///
/// Then occupies descriptor 3, so that the standard library cannot use it before the tool's channel
/// takes its place.
#[expect(
    unsafe_code,
    reason = "no safe wrapper closes descriptors of unknown owners"
)]
pub(super) fn close_inherited() -> io::Result<OwnedFd> {
    // SAFETY: called first thing in a process of one thread. Nothing owns a descriptor yet, or in a copy
    // of piton the owners are those of the original and are neither used nor dropped.
    unsafe {
        if libc::syscall(libc::SYS_close_range, CHANNEL, libc::c_uint::MAX, 0) != 0 {
            for fd in CHANNEL..1024 {
                libc::close(fd);
            }
        }
    }
    let null = open(
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    Ok(null)
}

/// Starts the tool. A `piton exec` command gets the streams that were passed on.
///
/// The log is open already: a confined supervisor cannot open it for writing.
pub(super) fn launch(
    work: &Work,
    streams: Option<&[OwnedFd; 3]>,
    lock: Option<&Lock>,
    log: Option<TouchedLog>,
) -> io::Result<Launched> {
    let (stdin, input) = match streams {
        Some([input, ..]) => (Stdio::from(input.try_clone()?), None),
        None if work.input.is_empty() => (Stdio::null(), None),
        None => {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
            fcntl_setfl(&ours, OFlags::NONBLOCK)?;
            (Stdio::from(theirs), Some(ours))
        }
    };
    let mut input_end = Some(stdin);
    let manner = match (streams, work.foreground) {
        (None, _) => Manner::Tool(resources(&work.limits)),
        (Some(_), Foreground::Yes) => Manner::Foreground,
        (Some(_), Foreground::No) => Manner::Background,
    };
    let (channel, theirs) = match work.channel {
        Channel::None => (None, None),
        Channel::Private => {
            let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
            fcntl_setfl(&ours, OFlags::NONBLOCK)?;
            // Move it away from the descriptor that it will become.
            (Some(ours), Some(fcntl_dupfd_cloexec(&theirs, CHANNEL + 1)?))
        }
    };
    let watching = match work.watch {
        Watch::No => None,
        Watch::Yes => Some(UnixStream::pair()?),
    };
    let words = work.argv.get(1..).unwrap_or_default();
    let name = work
        .argv
        .first()
        .cloned()
        .unwrap_or_else(|| work.program.clone().into());
    let mut start = |program: &Path, name: OsString, words: &[OsString]| {
        let mut command = process(program);
        command
            .arg0(name)
            .args(words)
            .current_dir(&work.folder)
            .env_clear()
            .envs(&work.environment);
        command.stdin(input_end.take().unwrap_or_else(Stdio::null));
        match streams {
            Some([_, output, errors]) => {
                command
                    .stdout(output.try_clone()?)
                    .stderr(errors.try_clone()?);
            }
            None => {
                command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
            }
        }
        let listener = watching.as_ref().map(|(_, theirs)| theirs);
        prepare(
            command.process_group(0),
            manner.clone(),
            theirs.as_ref(),
            listener,
            lock,
        )?
        .spawn()
    };
    let child = match start(&work.program, name, words) {
        // A script without `#!`: shells and `execvp` pass it to `sh`. The failed attempt has closed
        // the input pipe, so everything is set up again.
        Err(err)
            if Errno::from_io_error(&err) == Some(Errno::NOEXEC)
                && work.program != Path::new("/bin/sh") =>
        {
            let mut argv = vec![OsString::from("sh"), work.program.clone().into()];
            argv.extend_from_slice(words);
            return launch(
                &Work {
                    program: "/bin/sh".into(),
                    argv,
                    ..work.clone()
                },
                streams,
                lock,
                log,
            );
        }
        started => started?,
    };
    // The first process has already sent it before `exec`, or never will.
    let monitor = watching.map(|(ours, _)| WriteMonitor::new(receive_listener(ours), work, log));
    Ok(Launched {
        pid: child.id(),
        input,
        channel,
        monitor,
    })
}

/// What a process resets and applies before it becomes the tool or the command.
#[derive(Clone)]
enum Manner {
    /// A tool: default signal handling, and these limits.
    Tool(Vec<(Resource, Rlimit)>),
    /// A command: signals that its caller ignores stay ignored, and it gets the terminal at once.
    Foreground,
    /// The same without the terminal.
    Background,
}

/// Sets up what the process does between `fork` and `exec`.
#[expect(unsafe_code, reason = "what happens between fork and exec")]
fn prepare<'c>(
    command: &'c mut Command,
    manner: Manner,
    channel: Option<&OwnedFd>,
    listener: Option<&UnixStream>,
    lock: Option<&Lock>,
) -> io::Result<&'c mut Command> {
    let mut lock = lock.map(Lock::try_clone).transpose()?;
    let channel = channel.map(AsRawFd::as_raw_fd);
    let supervisor = getpid();
    let mut watch = match (listener, filter()) {
        (Some(listener), Some(filter)) => Some((filter, listener.try_clone()?)),
        _ => None,
    };
    // SAFETY: the supervisor has one thread, so that the new process may do anything that the old one
    // could. All the same the closure only makes system calls and allocates nothing.
    let command = unsafe {
        command.pre_exec(move || {
            become_tool(supervisor, &manner, channel)?;
            if let Some(lock) = &mut lock {
                lock.close()?;
            }
            if let Some((filter, to)) = &mut watch
                && let Err(err) = install(filter, &*to)
            {
                // Without a listener the touched files are unknown; report why.
                send_failure(&err, &*to);
            }
            Ok(())
        })
    };
    Ok(command)
}

#[expect(
    unsafe_code,
    reason = "dispositions of signals and numbers of descriptors have no owner"
)]
fn become_tool(supervisor: Pid, manner: &Manner, channel: Option<RawFd>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(supervisor) {
        // The supervisor died before the kernel could be asked to watch it.
        return Err(Errno::SRCH.into());
    }
    match manner {
        Manner::Tool(_) => {
            for signal in 1..=64 {
                // SAFETY: the default disposition runs no code of this process. Two cannot be set, and need not.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
        }
        // The kernel would stop this process for it, but all signals are still blocked. If it
        // fails, the command is stopped when it reads, and piton lends it the terminal then.
        Manner::Foreground => {
            let _ = tcsetpgrp(stdin(), getpid());
        }
        Manner::Background => {}
    }
    // SAFETY: a set of signals is plain data, which `sigemptyset` fills before it is read.
    let is_unmasked = unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none) == 0
            && libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) == 0
    };
    if !is_unmasked {
        return Err(io::Error::last_os_error());
    }
    if let Some(channel) = channel {
        // SAFETY: descriptor 3 was taken by `close_inherited` and is used for nothing else.
        if unsafe { libc::dup2(channel, CHANNEL) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if let Manner::Tool(limits) = manner {
        for (resource, limit) in limits {
            setrlimit(*resource, *limit)?;
        }
    }
    Ok(())
}

/// The limits for the kernel, never above those of this process.
///
/// The number of processes is counted per user, and not at all for root.
fn resources(limits: &ResourceLimits) -> Vec<(Resource, Rlimit)> {
    let ResourceLimits {
        memory,
        file_size,
        cpu_seconds,
        open_files,
        processes,
    } = *limits;
    let wanted = [
        (Resource::Core, Some(0)),
        (Resource::As, memory),
        (Resource::Fsize, file_size),
        (Resource::Cpu, cpu_seconds),
        (Resource::Nofile, open_files),
        (Resource::Nproc, processes),
    ];
    let mut resources = Vec::new();
    for (resource, value) in wanted {
        let Some(value) = value else { continue };
        let highest = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let current = value.min(highest);
        // One more second: the process gets SIGXCPU before it is killed.
        let maximum = if resource == Resource::Cpu {
            current.saturating_add(1).min(highest)
        } else {
            current
        };
        resources.push((
            resource,
            Rlimit {
                current: Some(current),
                maximum: Some(maximum),
            },
        ));
    }
    resources
}

#[expect(clippy::disallowed_methods, reason = "exec is the home of processes")]
fn process(program: &Path) -> Command {
    Command::new(program)
}
