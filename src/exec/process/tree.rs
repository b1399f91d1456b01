//! Everything that descends from this process: looking at it, and killing all of it.
//!
//! A process that made itself a subreaper inherits whatever its children leave behind, so that a
//! second fork or a session of its own hides nothing. [`kill_below`] is the end of such a tree;
//! [`own_children`] says which children were started on purpose and are none of its business.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, WaitOptions, getpgrp, kill_process, waitid, waitpid};

use super::{group_of, ids, stat};

/// How long a tree may resist.
const KILLING_TIME: Duration = Duration::from_secs(10);

/// How long the living are stopped before they are killed all the same.
const STOPPING_TIME: Duration = Duration::from_millis(500);

static CHILDREN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The children that were started on purpose and lead a group: supervisors and commands. While this is
/// held none is started.
pub(in crate::exec) fn own_children() -> MutexGuard<'static, BTreeSet<u32>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a signal to all that descend from this process; returns the living among them.
///
/// Parents come first, each before its children are looked for: one that is stopped or dead makes no
/// more of them. Nobody can have taken the id of one that is found, because whoever could reap it is this
/// process or has just been signalled. Those that `is_spared` names are left out with all below them.
pub(in crate::exec) fn signal_below(signal: Option<Signal>, is_spared: impl Fn(u32) -> bool) -> BTreeSet<u32> {
    let own = std::process::id();
    let everybody = if has_children_files() { None } else { Some(parents_of_everybody()) };
    let mut found = BTreeSet::new();
    let mut open = vec![own];
    while let Some(parent) = open.pop() {
        let children = match &everybody {
            Some(everybody) => everybody.get(&parent).cloned().unwrap_or_default(),
            None => children_of(parent),
        };
        for pid in children.into_iter().filter(|pid| *pid != own && !is_spared(*pid)) {
            if stat(pid).is_some_and(|stat| stat.is_alive()) && found.insert(pid) {
                if let (Some(signal), Some(id)) = (signal, group_of(pid)) {
                    // Gone meanwhile, or somebody else's: neither can be helped.
                    let _ = kill_process(id, signal);
                }
                open.push(pid);
            }
        }
    }
    found
}

/// Kills what descends from this process until `is_done` says that nothing is left, or time is up.
///
/// Returns the ids of all that were still alive. The living are stopped first, again and again until
/// no new ones appear: those that only fork could otherwise be faster than the killing.
pub(in crate::exec) fn kill_below(is_spared: impl Fn(u32) -> bool, mut is_done: impl FnMut() -> bool) -> BTreeSet<u32> {
    let started = Instant::now();
    let mut seen = BTreeSet::new();
    let mut signal = Signal::STOP;
    let mut pause = Duration::from_micros(100);
    while !is_done() && started.elapsed() < KILLING_TIME {
        let living = signal_below(Some(signal), &is_spared);
        let known = seen.len();
        seen.extend(living);
        let is_quiet = seen.len() == known;
        if signal == Signal::STOP {
            if is_quiet || started.elapsed() > STOPPING_TIME {
                signal = Signal::KILL;
            }
        } else if is_quiet {
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
    seen
}

fn has_children_files() -> bool {
    let own = std::process::id();
    fs::exists(format!("/proc/{own}/task/{own}/children")).unwrap_or_default()
}

fn children_of(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}

/// The same for everybody, where the kernel keeps no lists of children.
fn parents_of_everybody() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, stat) in ids().filter_map(|pid| Some((pid, stat(pid)?))) {
        children.entry(u32::try_from(stat.parent).unwrap_or_default()).or_default().push(pid);
    }
    children
}

/// Whether this process inherits what its children leave behind.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux can"))]
pub(in crate::exec) fn adopt_orphans(adoption: Adoption) {
    #[cfg(target_os = "linux")]
    {
        let parent = (adoption == Adoption::Here).then(rustix::process::getpid);
        // Without it orphans escape, as they do everywhere else.
        let _ = rustix::process::set_child_subreaper(parent);
    }
}

/// Who inherits orphans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Adoption {
    /// This process.
    Here,
    /// Whoever is above it.
    Elsewhere,
}

/// Kills the orphans that this process has inherited, and nothing that it started on purpose.
pub(in crate::exec) fn kill_orphans() {
    let any_child = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
    if any_child.is_err_and(|err| err == Errno::CHILD) {
        return;
    }
    let (own, group) = (std::process::id(), getpgrp().as_raw_nonzero().get());
    // Helpers such as git stay in the group of piton; an orphan comes from the group of a command.
    let is_spared = |pid| own_children().contains(&pid) || stat(pid).is_none_or(|stat| stat.group == group);
    kill_below(is_spared, || {
        for pid in ids().filter(|pid| stat(*pid).is_some_and(|stat| u32::try_from(stat.parent) == Ok(own))) {
            if !is_spared(pid) {
                let _ = waitpid(group_of(pid), WaitOptions::NOHANG);
            }
        }
        signal_below(None, is_spared).is_empty()
    });
}
