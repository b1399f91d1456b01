//! Which process is meant: ids are used again, but not with the same start in the same boot.
//!
//! Reads what the kernel says below `/proc`. Elsewhere than on Linux nothing is known, and a process
//! that cannot be told from another one is never killed.

mod tree;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group};

pub(super) use tree::{Adoption, adopt_orphans, kill_below, kill_orphans, own_children, signal_below};

/// How long killed processes may take to go.
const DYING_TIME: Duration = Duration::from_secs(2);

/// How long a supervisor may take to end its tool: as long as a tree may resist, and a little.
const ENDING_TIME: Duration = Duration::from_secs(12);

/// What the kernel says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    parent: i32,
    group: i32,
    session: i32,
    started: u64,
}

/// When the kernel started a process, in ticks since the boot; none when it is gone or not known.
pub fn start_time(pid: u32) -> Option<u64> {
    stat(pid).filter(Stat::is_alive).map(|stat| stat.started)
}

/// A name for the time since the machine was started, where there is one.
pub fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned())
}

/// The name of the machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether a process that was started at a time is still there. Without a time, whether there is
/// any process of that id.
pub fn is_same(pid: u32, started: Option<u64>) -> bool {
    match started {
        Some(started) => start_time(pid) == Some(started),
        None => group_of(pid).is_some_and(|pid| test_kill_process(pid).is_ok()),
    }
}

/// Kills what is left of the process group that a process led, if it is still that group.
///
/// Returns whether anything was killed. The leader itself may be gone: its id is not given to
/// another process for as long as its group has members.
pub fn kill_group_if_same(pid: u32, started: u64, boot: &str) -> bool {
    let Some(group) = group_of(pid).filter(|_| boot_id().is_some_and(|id| id == boot)) else { return false };
    let is_ours = match stat(pid) {
        Some(leader) => leader.started == started,
        None => members(group).iter().all(|member| member.started >= started),
    };
    let killed = is_ours && !members(group).is_empty() && kill_process_group(group, Signal::KILL).is_ok();
    if killed {
        await_end(group);
    }
    killed
}

/// Waits until a process that is about to end by itself has ended, or takes too long to.
pub fn await_end_of(pid: u32, started: u64, boot: &str) {
    let deadline = Instant::now() + ENDING_TIME;
    let mut pause = Duration::from_micros(200);
    while boot_id().is_some_and(|id| id == boot) && start_time(pid) == Some(started) && Instant::now() < deadline {
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Kills every process that was started with a variable of this value, by whatever way.
pub fn kill_marked(variable: &str, value: &str) {
    let mark = format!("{variable}={value}").into_bytes();
    let own = std::process::id();
    let deadline = Instant::now() + DYING_TIME;
    loop {
        let marked: Vec<u32> = ids().filter(|pid| *pid != own && is_marked(*pid, &mark)).collect();
        if marked.is_empty() || Instant::now() >= deadline {
            return;
        }
        for pid in marked.into_iter().filter_map(group_of) {
            // Gone meanwhile, or somebody else's: neither can be helped.
            let _ = kill_process(pid, Signal::KILL);
        }
        // Until they are gone, and what they started in their last moment as well.
        thread::sleep(Duration::from_millis(1));
    }
}

/// Kills every process of a session. Its leader may be dead, but must not have been reaped: until
/// then the session's id belongs to nobody else.
pub(super) fn kill_session(leader: u32) {
    let deadline = Instant::now() + DYING_TIME;
    loop {
        let is_member = |stat: Stat| stat.is_alive() && u32::try_from(stat.session) == Ok(leader);
        let members: Vec<u32> = ids().filter(|pid| *pid != leader && stat(*pid).is_some_and(is_member)).collect();
        if members.is_empty() || Instant::now() >= deadline {
            return;
        }
        for pid in members.into_iter().filter_map(group_of) {
            let _ = kill_process(pid, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_marked(pid: u32, mark: &[u8]) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment.split(|byte| *byte == 0).any(|variable| variable == mark)
        && stat(pid).is_some_and(|stat| stat.is_alive())
}

fn ids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Waits until nothing of a process group that was killed runs any more.
pub(super) fn await_end(group: Pid) {
    let deadline = Instant::now() + DYING_TIME;
    let mut pause = Duration::from_micros(200);
    while test_kill_process_group(group).is_ok() && Instant::now() < deadline {
        // Dead ones that nobody has reaped yet answer as well, but do no harm.
        if cfg!(target_os = "linux") && members(group).is_empty() {
            return;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The signals that this process was told to ignore by whoever started it, e.g. by `nohup`.
pub(super) fn ignores(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

fn group_of(pid: u32) -> Option<Pid> {
    // The groups 0 and 1 would mean our own group and everything.
    i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw)
}

/// The processes of a group that can still do something.
fn members(group: Pid) -> Vec<Stat> {
    ids().filter_map(stat).filter(|stat| stat.group == group.as_raw_nonzero().get() && stat.is_alive()).collect()
}

fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads `/proc/<pid>/stat`. The second field is the program's name in parentheses; it may hold
/// anything, parentheses and spaces included.
fn parse(bytes: &[u8]) -> Option<Stat> {
    let end = bytes.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = str::from_utf8(bytes.get(end + 1..)?).ok()?.split_ascii_whitespace().collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

impl Stat {
    fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
