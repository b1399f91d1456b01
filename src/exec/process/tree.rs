//! The descendants of this process: listing and killing them.
//!
//! A subreaper inherits the orphans of its children, so a double fork or a new session hides
//! nothing. [`kill_below`] kills such a tree; [`own_children`] lists the children that were started
//! on purpose and must be spared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Signal, WaitId, WaitIdOptions, WaitOptions, getpgrp, kill_process, waitid, waitpid,
};

use super::{group_of, ids, stat};

/// How long to try to kill a tree.
const KILLING_TIME: Duration = Duration::from_secs(10);

/// How long to stop processes before they are killed anyway.
const STOPPING_TIME: Duration = Duration::from_millis(500);

static CHILDREN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Children that were started on purpose and lead a group: supervisors and commands. Holding the
/// lock keeps new ones from starting.
pub(in crate::exec) fn own_children() -> MutexGuard<'static, BTreeSet<u32>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals all descendants of this process; returns those that are alive.
///
/// Parents are signalled before their children are listed: a stopped or dead process creates no
/// more. The ids cannot have been reused, because only this process or one that was just signalled
/// could reap them. Processes for which `is_spared` is true are skipped with their descendants.
pub(in crate::exec) fn signal_below(
    signal: Option<Signal>,
    is_spared: impl Fn(u32) -> bool,
) -> BTreeSet<u32> {
    let own = std::process::id();
    let children_by_parent = if has_children_files() {
        None
    } else {
        Some(processes_by_parent())
    };
    let mut found = BTreeSet::new();
    let mut open = vec![own];
    while let Some(parent) = open.pop() {
        let children = match &children_by_parent {
            Some(children_by_parent) => {
                children_by_parent.get(&parent).cloned().unwrap_or_default()
            }
            None => children_of(parent),
        };
        for pid in children
            .into_iter()
            .filter(|pid| *pid != own && !is_spared(*pid))
        {
            if stat(pid).is_some_and(|stat| stat.is_alive()) && found.insert(pid) {
                if let (Some(signal), Some(id)) = (signal, group_of(pid)) {
                    // It is gone, or belongs to another user; there is nothing to do in either
                    // case.
                    let _ = kill_process(id, signal);
                }
                open.push(pid);
            }
        }
    }
    found
}

/// Kills all descendants until `is_done` returns true or time is up.
///
/// Returns the ids of all that were alive. Processes are stopped first, repeatedly until no new
/// ones appear; otherwise a fork bomb could be faster than the kill.
pub(in crate::exec) fn kill_below(
    is_spared: impl Fn(u32) -> bool,
    mut is_done: impl FnMut() -> bool,
) -> BTreeSet<u32> {
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
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_ascii_whitespace()
                .filter_map(|id| id.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The children of every process, for kernels without `/proc/<pid>/task/*/children`.
fn processes_by_parent() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, stat) in ids().filter_map(|pid| Some((pid, stat(pid)?))) {
        children
            .entry(u32::try_from(stat.parent).unwrap_or_default())
            .or_default()
            .push(pid);
    }
    children
}

/// Sets whether this process inherits orphans.
#[cfg_attr(
    not(target_os = "linux"),
    expect(unused_variables, reason = "only Linux can")
)]
pub(in crate::exec) fn adopt_orphans(adoption: Adoption) {
    #[cfg(target_os = "linux")]
    {
        let parent = (adoption == Adoption::Here).then(rustix::process::getpid);
        // If this fails, orphans escape, as on other systems.
        let _ = rustix::process::set_child_subreaper(parent);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Adoption {
    Here,
    /// A process above this one.
    Elsewhere,
}

/// Kills inherited orphans, but no child that was started on purpose.
pub(in crate::exec) fn kill_orphans() {
    let any_child = waitid(
        WaitId::All,
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
    );
    if any_child.is_err_and(|err| err == Errno::CHILD) {
        return;
    }
    let (own, group) = (std::process::id(), getpgrp().as_raw_nonzero().get());
    // Helpers such as git stay in piton's process group; orphans come from a command's group.
    let is_spared =
        |pid| own_children().contains(&pid) || stat(pid).is_none_or(|stat| stat.group == group);
    kill_below(is_spared, || {
        for pid in
            ids().filter(|pid| stat(*pid).is_some_and(|stat| u32::try_from(stat.parent) == Ok(own)))
        {
            if !is_spared(pid) {
                let _ = waitpid(group_of(pid), WaitOptions::NOHANG);
            }
        }
        signal_below(None, is_spared).is_empty()
    });
}
