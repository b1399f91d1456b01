//! Runs a command under `ptrace` and kills one of its processes at one of its system calls.
//!
//! Unlike `strace`, this counts the calls of all threads of a process together, so that a process can be killed
//! while its threads write. Copies that piton makes of itself (the supervisor of a command, the guard of a lock)
//! are counted by themselves. All other programs are let go as soon as they start.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Output};
use std::thread;
use std::time::{Duration, Instant};

use super::calls::SystemCall;

/// How long the last process may take to end after piton itself has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// All kinds of tracees, but only those of this thread.
const WAIT_FLAGS: i32 = libc::__WALL | libc::__WNOTHREAD;

const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_EXITKILL;

/// A process of piton, in the order in which they were started: 0 is piton itself.
pub(super) type Member = usize;

/// Kills a member before its call with this number, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strike {
    pub(super) member: Member,
    pub(super) number: usize,
}

/// A run of a command.
pub(super) struct Traced {
    pub(super) output: Output,
    /// The counted calls of each member.
    pub(super) calls: Vec<Vec<SystemCall>>,
    pub(super) was_struck: bool,
}

/// Whether a call of a member is counted.
pub(super) type IsCounted = fn(Member, &SystemCall) -> bool;

/// Runs a command to the end of its last process.
pub(super) fn run(
    mut command: Command,
    tmp: &Path,
    is_counted: IsCounted,
    strike: Option<Strike>,
) -> Traced {
    let said = ["stdout", "stderr"].map(|name| tmp.join(format!("traced-{name}")));
    let [stdout, stderr] = said
        .each_ref()
        .map(|path| File::create(path).expect("a file for the output"));
    command.stdout(stdout).stderr(stderr);
    // Only the thread that starts a process may trace it, and waits for no child of another thread.
    let (status, tracer) = thread::scope(|scope| {
        let traced = scope.spawn(|| {
            let mut tracer = Tracer::start(&mut command, is_counted, strike);
            (tracer.follow(), tracer)
        });
        traced.join().expect("the tracer")
    });
    let [stdout, stderr] = said.map(|path| {
        let text = fs::read(&path).expect("the output");
        fs::remove_file(&path).expect("a file for the output");
        text
    });
    Traced {
        output: Output {
            status,
            stdout,
            stderr,
        },
        calls: tracer.calls,
        was_struck: tracer.was_struck,
    }
}

struct Tracer {
    root: i32,
    is_counted: IsCounted,
    strike: Option<Strike>,
    was_struck: bool,
    /// The threads that are traced.
    threads: HashMap<i32, Thread>,
    /// Threads that stopped before the thread that started them told so.
    early: Vec<i32>,
    members: usize,
    calls: Vec<Vec<SystemCall>>,
    memory: HashMap<i32, File>,
}

/// A thread of a traced process.
#[derive(Clone, Copy)]
struct Thread {
    process: i32,
    /// A copy becomes one with its first counted call: most copies only start another program.
    member: Option<Member>,
    is_in_call: bool,
}

impl Tracer {
    #[expect(clippy::zombie_processes, reason = "`follow` waits for it")]
    fn start(command: &mut Command, is_counted: IsCounted, strike: Option<Strike>) -> Self {
        trace_me(command);
        let child = command.spawn().expect("piton starts");
        let root = i32::try_from(child.id()).expect("a pid");
        let (pid, _) = wait(root, 0).expect("piton stops at its start");
        assert_eq!(pid, root);
        request(libc::PTRACE_SETOPTIONS, root, OPTIONS as usize).expect("options");
        let thread = Thread {
            process: root,
            member: Some(0),
            is_in_call: false,
        };
        let tracer = Self {
            root,
            is_counted,
            strike,
            was_struck: false,
            threads: HashMap::from([(root, thread)]),
            early: Vec::new(),
            members: 1,
            calls: vec![Vec::new()],
            memory: HashMap::new(),
        };
        go_on(root, 0);
        tracer
    }

    /// Waits for everything that happens; returns how piton ended.
    fn follow(&mut self) -> ExitStatus {
        let mut ended: Option<(ExitStatus, Instant)> = None;
        loop {
            let flags = if ended.is_some() { libc::WNOHANG } else { 0 };
            match wait(-1, flags) {
                Ok((0, _)) => thread::sleep(Duration::from_micros(200)),
                Ok((pid, status)) if libc::WIFSTOPPED(status) => self.stopped(pid, status),
                Ok((pid, status)) => {
                    self.threads.remove(&pid);
                    self.memory.remove(&pid);
                    if pid == self.root {
                        ended = Some((ExitStatus::from_raw(status), Instant::now()));
                    }
                }
                Err(_) => break,
            }
            if let Some((_, moment)) = ended
                && (self.threads.is_empty() || moment.elapsed() > PATIENCE)
            {
                break;
            }
        }
        for process in self.threads.values().map(|thread| thread.process) {
            kill(process);
        }
        ended.expect("piton has ended").0
    }

    fn stopped(&mut self, pid: i32, status: i32) {
        let signal = libc::WSTOPSIG(status);
        let event = status >> 16;
        let Some(thread) = self.threads.get(&pid).copied() else {
            self.early.push(pid);
            return;
        };
        match event {
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                self.started(thread, pid, event);
                go_on(pid, 0);
            }
            libc::PTRACE_EVENT_EXEC => self.executed(pid),
            _ if signal == libc::SIGTRAP | 0x80 => self.called(pid, thread),
            // The signals of the tracer itself: the start of a thread, and an event.
            _ if event != 0 || signal == libc::SIGSTOP || signal == libc::SIGTRAP => go_on(pid, 0),
            _ => go_on(pid, signal),
        }
    }

    /// A thread or a process was started.
    fn started(&mut self, parent: Thread, pid: i32, event: i32) {
        let mut message: libc::c_ulong = 0;
        let into = std::ptr::from_mut(&mut message) as usize;
        if request(libc::PTRACE_GETEVENTMSG, pid, into).is_err() {
            return;
        }
        let new = i32::try_from(message).expect("a pid");
        let is_thread = event == libc::PTRACE_EVENT_CLONE;
        let thread = Thread {
            process: if is_thread { parent.process } else { new },
            member: parent.member.filter(|_| is_thread),
            is_in_call: false,
        };
        self.threads.insert(new, thread);
        if let Some(at) = self.early.iter().position(|early| *early == new) {
            self.early.swap_remove(at);
            go_on(new, 0);
        }
    }

    /// A process runs a program: only supervisors stay traced.
    fn executed(&mut self, pid: i32) {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_supervisor = words.split(|byte| *byte == 0).nth(1) == Some(b"__supervise");
        if pid == self.root || is_supervisor {
            self.memory.remove(&pid);
            return go_on(pid, 0);
        }
        self.threads.retain(|_, thread| thread.process != pid);
        let _ = request(libc::PTRACE_DETACH, pid, 0);
    }

    /// A thread is before or after a system call.
    fn called(&mut self, pid: i32, thread: Thread) {
        let is_entry = !thread.is_in_call;
        self.threads
            .entry(pid)
            .and_modify(|thread| thread.is_in_call = is_entry);
        if is_entry
            && let Some(call) = self.call(pid)
            && (self.is_counted)(thread.member.unwrap_or(1), &call)
        {
            let member = thread.member.unwrap_or_else(|| self.joins(thread.process));
            self.calls[member].push(call);
            let here = Strike {
                member,
                number: self.calls[member].len(),
            };
            if self.strike == Some(here) {
                self.was_struck = true;
                kill(thread.process);
                return;
            }
        }
        go_on(pid, 0);
    }

    fn joins(&mut self, process: i32) -> Member {
        let member = self.members;
        self.members += 1;
        self.calls.push(Vec::new());
        for thread in self
            .threads
            .values_mut()
            .filter(|thread| thread.process == process)
        {
            thread.member = Some(member);
        }
        member
    }

    /// The call that a thread is about to make.
    fn call(&mut self, pid: i32) -> Option<SystemCall> {
        // `struct ptrace_syscall_info`: the kind of stop and the machine, two addresses, then the number and the
        // arguments of the call.
        let mut words = [0_u64; 11];
        let into = words.as_mut_ptr();
        // SAFETY: the kernel writes no more than the size that it is told.
        #[expect(unsafe_code, reason = "no crate of this project wraps the call")]
        let length = unsafe {
            libc::ptrace(
                libc::PTRACE_GET_SYSCALL_INFO,
                pid,
                size_of_val(&words),
                into,
            )
        };
        if length < 0 || words[0].to_ne_bytes()[0] != 1 {
            return None;
        }
        let memory = self.memory.entry(pid);
        let memory = match memory {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(File::open(format!("/proc/{pid}/mem")).ok()?)
            }
        };
        let text = |address: u64| {
            let mut bytes = [0; 256];
            let length = memory.read_at(&mut bytes, address).unwrap_or_default();
            let end = bytes[..length].iter().position(|byte| *byte == 0);
            bytes[..end.unwrap_or(length)].to_vec()
        };
        SystemCall::of(words[3], &words[4..10], &text)
    }
}

/// Lets the parent trace a program from its start.
#[expect(unsafe_code, reason = "one call between fork and exec")]
fn trace_me(command: &mut Command) {
    let ask = || {
        // SAFETY: the request has no pointers.
        match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

/// Lets a stopped thread go on to its next call. It may have been killed meanwhile.
fn go_on(pid: i32, signal: i32) {
    let signal = usize::try_from(signal).expect("a signal");
    let _ = request(libc::PTRACE_SYSCALL, pid, signal);
}

#[expect(unsafe_code, reason = "no crate of this project wraps the call")]
fn request(request: libc::c_uint, pid: i32, data: usize) -> io::Result<()> {
    // SAFETY: the data is a number, or the address of a variable that lives during the call.
    match unsafe { libc::ptrace(request, pid, 0, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits for a child of this thread; 0 if nothing has happened.
#[expect(
    unsafe_code,
    reason = "no safe wrapper waits for the children of one thread only"
)]
fn wait(pid: i32, flags: i32) -> io::Result<(i32, i32)> {
    loop {
        let mut status = 0;
        // SAFETY: the status lives during the call.
        let found = unsafe { libc::waitpid(pid, &raw mut status, WAIT_FLAGS | flags) };
        let err = io::Error::last_os_error();
        match found {
            -1 if err.kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(err),
            found => return Ok((found, status)),
        }
    }
}

fn kill(process: i32) {
    let pid = rustix::process::Pid::from_raw(process).expect("a pid");
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}
