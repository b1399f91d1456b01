//! The system calls behind a [`Confinement`]: Landlock, capabilities, and in which order they and the
//! other parts are applied.
//!
//! [`Lock::new`] runs in a supervisor, which has one thread, and moves it to a mount namespace of
//! its own; [`Lock::close`] runs in its child between `fork` and `exec`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope, make_bitflags,
};
use libc::sock_filter;
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set, set_no_new_privs};

use super::filter::{filter, install};
use super::mounts::{self, AllowedTerminals, TerminalView};
use super::{Confinement, SHARED_MEMORY, TcpRule};

/// Devices that programs expect to write to.
const DEVICES: [&str; 7] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
];

/// Terminals, by number.
const TERMINALS: [&str; 1] = ["/dev/pts"];

/// What root loses: with these it could undo the confinement, or reach other processes.
const DROPPED: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::SYS_MODULE)
    .union(CapabilitySet::SYS_RAWIO)
    .union(CapabilitySet::SYS_BOOT)
    .union(CapabilitySet::SYS_TIME)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::MAC_ADMIN)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::CHECKPOINT_RESTORE);

/// A confinement that is ready to be applied.
pub(in crate::exec) struct Lock {
    /// `None` when the kernel has no Landlock.
    ruleset: Option<OwnedFd>,
    filter: Vec<sock_filter>,
}

impl Lock {
    /// Makes a confinement ready and moves this process to a mount namespace of its own if it needs
    /// one. This process must have one thread.
    ///
    /// Restrictions that the kernel does not have are left out: `Support` has told the user. Anything
    /// else that fails is an error.
    pub(in crate::exec) fn new(
        confinement: &Confinement,
        terminals: TerminalView,
    ) -> io::Result<Self> {
        let terminals: &[&str] = match mounts::enter(confinement, terminals)? {
            AllowedTerminals::Yes => &TERMINALS,
            AllowedTerminals::No => &[],
        };
        Ok(Self {
            ruleset: ruleset(confinement, terminals)?,
            filter: filter(&confinement.tcp),
        })
    }

    pub(in crate::exec) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            ruleset: self.ruleset.as_ref().map(OwnedFd::try_clone).transpose()?,
            filter: self.filter.clone(),
        })
    }

    /// Confines this process and all its children for good. Allocates nothing.
    pub(in crate::exec) fn close(&mut self) -> io::Result<()> {
        close(self.ruleset.as_ref(), &mut self.filter)
    }
}

/// The rules as a descriptor; `None` when the kernel has no Landlock.
pub(super) fn ruleset(
    confinement: &Confinement,
    terminals: &[&str],
) -> io::Result<Option<OwnedFd>> {
    let writes = AccessFs::from_write(ABI::V3);
    let on_files = make_bitflags!(AccessFs::{WriteFile | Truncate});
    let mut wanted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(writes)
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .map_err(io::Error::other)?;
    if let TcpRule::Ports(_) = &confinement.tcp {
        wanted = wanted
            .handle_access(AccessNet::from_all(ABI::V4))
            .map_err(io::Error::other)?;
    }
    let mut rules = wanted.create().map_err(io::Error::other)?;
    let folders = confinement.writable.iter().map(|path| (&**path, writes));
    let folders = folders.chain([(Path::new(SHARED_MEMORY), writes)]);
    let devices = DEVICES.iter().map(|path| (Path::new(path), on_files));
    let terminals = terminals.iter().map(|path| (Path::new(path), on_files));
    let devices = devices.chain(terminals);
    for (path, access) in folders.chain(devices) {
        // A device or folder may be missing.
        if let Ok(file) = PathFd::new(path) {
            let access: BitFlags<AccessFs> = access;
            rules = rules
                .add_rule(PathBeneath::new(file, access))
                .map_err(io::Error::other)?;
        }
    }
    if let TcpRule::Ports(ports) = &confinement.tcp {
        for port in ports {
            rules = rules
                .add_rule(NetPort::new(*port, AccessNet::ConnectTcp))
                .map_err(io::Error::other)?;
        }
    }
    Ok(rules.into())
}

/// Applies a ruleset and a filter to this process for good. Allocates nothing.
pub(super) fn close(ruleset: Option<&OwnedFd>, filter: &mut [sock_filter]) -> io::Result<()> {
    set_no_new_privs(true)?;
    for capability in DROPPED {
        // Only processes that have capabilities may drop them.
        let _ = remove_capability_from_bounding_set(capability);
    }
    if let Some(ruleset) = ruleset {
        restrict(ruleset)?;
    }
    install(filter)
}

#[expect(unsafe_code, reason = "the crate would take and close the descriptor")]
fn restrict(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes numbers only.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
