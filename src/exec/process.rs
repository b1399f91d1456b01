//! Identifies processes: ids are reused, but not with the same start time in the same boot.
//!
//! Reads `/proc`. On other systems than Linux nothing is known, and a process that cannot be
//! identified is never killed.

mod tree;

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group,
};

use super::supervisor::OWNER;
pub(super) use tree::{
    Adoption, adopt_orphans, kill_below, kill_orphans, own_children, signal_below,
};

/// How long to wait for killed processes.
const DYING_TIME: Duration = Duration::from_secs(2);

/// How long a supervisor may take to end its tool: the limit for killing a tree, plus a margin.
const ENDING_TIME: Duration = Duration::from_secs(12);

/// How many parents of a process are looked at.
const MOST_ANCESTORS: usize = 4096;

/// From `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcStat {
    state: u8,
    parent: i32,
    group: i32,
    session: i32,
    started: u64,
}

/// Start time in ticks since boot; `None` when the process is gone or unknown.
pub fn start_time(pid: u32) -> Option<u64> {
    stat(pid)
        .filter(ProcStat::is_alive)
        .map(|stat| stat.started)
}

/// Keeps other processes of this user from reading the memory and the environment of this process,
/// and from tracing it. Programs that it starts can be read again.
pub fn hide_memory() {
    // A kernel that refuses this leaves the process as it was.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Identifies the current boot; `None` where unsupported.
pub fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()
        .map(|text| text.trim().to_owned())
}

/// The bytes of this process that count for the limit of its data; none where the system does not
/// tell.
pub fn data_size() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmData:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Whether a process is a parent of this one, its parent, and so on. Orphans of a tool are adopted
/// by its supervisor.
pub fn is_ancestor(ancestor: u32) -> bool {
    let parent_of = |pid: u32| stat(pid).and_then(|stat| u32::try_from(stat.parent).ok());
    let mut pid = parent_of(std::process::id());
    // A chain of living processes is shorter than this, whatever is changed while it is read.
    for _ in 0..MOST_ANCESTORS {
        match pid {
            Some(found) if found == ancestor => return true,
            Some(found) if found > 1 => pid = parent_of(found),
            _ => return false,
        }
    }
    false
}

pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Whether the process with this start time still exists. Without a start time: whether any process
/// has the id.
pub fn is_same(pid: u32, started: Option<u64>) -> bool {
    match started {
        Some(started) => start_time(pid) == Some(started),
        None => group_of(pid).is_some_and(|pid| test_kill_process(pid).is_ok()),
    }
}

/// Kills the rest of the process group that a process led, if it is still that group.
///
/// Returns whether anything was killed. The leader may be gone: its id is not reused while its
/// group has members.
pub fn kill_group_if_same(pid: u32, started: u64, boot: &str) -> bool {
    let Some(group) = group_of(pid).filter(|_| boot_id().is_some_and(|id| id == boot)) else {
        return false;
    };
    let is_ours = match stat(pid) {
        Some(leader) => leader.started == started,
        None => members(group)
            .iter()
            .all(|member| member.started >= started),
    };
    let killed =
        is_ours && !members(group).is_empty() && kill_process_group(group, Signal::KILL).is_ok();
    if killed {
        await_end(group);
    }
    killed
}

/// Waits until a process that is ending has ended, up to a limit.
pub fn await_end_of(pid: u32, started: u64, boot: &str) {
    let deadline = Instant::now() + ENDING_TIME;
    let mut pause = Duration::from_micros(200);
    while boot_id().is_some_and(|id| id == boot)
        && start_time(pid) == Some(started)
        && Instant::now() < deadline
    {
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// A name of this process that no other one of this boot has.
pub(super) fn own_name() -> String {
    let own = std::process::id();
    format!("{own}-{}", start_time(own).unwrap_or_default())
}

/// Whether a supervisor works for another piton process that is alive, by the environment of its command. Its own is that
/// of the process which it is a copy of.
pub fn has_living_owner(supervisor: u32) -> bool {
    let is_child =
        |pid: &u32| stat(*pid).is_some_and(|stat| u32::try_from(stat.parent) == Ok(supervisor));
    let is_owned = |pid: u32| match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environment) => names_living(&environment),
        // A worker hides its environment. Its supervisor is a child of a piton that lives.
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => is_child_of_piton(supervisor),
        Err(_) => false,
    };
    ids().filter(is_child).any(is_owned)
}

/// Whether the parent of a supervisor is another process of this program, by its name.
fn is_child_of_piton(supervisor: u32) -> bool {
    let parent = stat(supervisor).and_then(|stat| u32::try_from(stat.parent).ok());
    let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let own = std::process::id();
    parent
        .is_some_and(|parent| parent != own && name(parent).is_some_and(|it| name(own) == Some(it)))
}

/// Whether an environment names another piton process that is alive.
fn names_living(environment: &[u8]) -> bool {
    let value = |variable: &[u8]| {
        let value = variable
            .strip_prefix(OWNER.as_bytes())?
            .strip_prefix(b"=")?;
        let (pid, started) = str::from_utf8(value).ok()?.split_once('-')?;
        Some((pid.parse().ok()?, started.parse().ok()?))
    };
    let owner: Option<(u32, u64)> = environment.split(|byte| *byte == 0).find_map(value);
    owner
        .is_some_and(|(pid, started)| pid != std::process::id() && start_time(pid) == Some(started))
}

/// Kills every process that was started with this environment variable, unless its piton is alive: a copy of a
/// repository has the journal of a run that goes on elsewhere.
pub fn kill_marked(variable: &str, value: &str) {
    let mark = format!("{variable}={value}").into_bytes();
    let own = std::process::id();
    let deadline = Instant::now() + DYING_TIME;
    loop {
        let marked: Vec<u32> = ids()
            .filter(|pid| *pid != own && is_marked(*pid, &mark))
            .collect();
        if marked.is_empty() || Instant::now() >= deadline {
            return;
        }
        for pid in marked.into_iter().filter_map(group_of) {
            // It is gone, or belongs to another user; there is nothing to do in either case.
            let _ = kill_process(pid, Signal::KILL);
        }
        // Repeat until they are gone, including children forked at the last moment.
        thread::sleep(Duration::from_millis(1));
    }
}

/// Kills every process of a session. Its leader may be dead but must not be reaped: until then the
/// session id cannot be reused.
pub(super) fn kill_session(leader: u32) {
    let deadline = Instant::now() + DYING_TIME;
    loop {
        let is_member =
            |stat: ProcStat| stat.is_alive() && u32::try_from(stat.session) == Ok(leader);
        let members: Vec<u32> = ids()
            .filter(|pid| *pid != leader && stat(*pid).is_some_and(is_member))
            .collect();
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
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable == mark)
        && !names_living(&environment)
        && stat(pid).is_some_and(|stat| stat.is_alive())
}

fn ids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Waits until all processes of a killed group have ended.
pub(super) fn await_end(group: Pid) {
    let deadline = Instant::now() + DYING_TIME;
    let mut pause = Duration::from_micros(200);
    while test_kill_process_group(group).is_ok() && Instant::now() < deadline {
        // Zombies still answer, but are harmless.
        if cfg!(target_os = "linux") && members(group).is_empty() {
            return;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Whether this process inherited the signal as ignored, e.g. from `nohup`.
pub(super) fn ignores(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

fn group_of(pid: u32) -> Option<Pid> {
    // 0 would mean our own group, and 1 every process.
    i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 1)
        .and_then(Pid::from_raw)
}

/// The processes of a group that are not zombies.
fn members(group: Pid) -> Vec<ProcStat> {
    ids()
        .filter_map(stat)
        .filter(|stat| stat.group == group.as_raw_nonzero().get() && stat.is_alive())
        .collect()
}

/// The process that a thread belongs to.
pub(super) fn process_of_thread(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let id = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    id.trim().parse().ok()
}

fn stat(pid: u32) -> Option<ProcStat> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses `/proc/<pid>/stat`. The second field is the program name in parentheses, which may itself
/// contain parentheses and spaces.
fn parse(bytes: &[u8]) -> Option<ProcStat> {
    let end = bytes.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = str::from_utf8(bytes.get(end + 1..)?)
        .ok()?
        .split_ascii_whitespace()
        .collect();
    Some(ProcStat {
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

impl ProcStat {
    fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
