//! The file system as a confined process sees it: a mount namespace of its own.
//!
//! [`enter`] runs in a supervisor, which has one thread. Everything becomes read-only but the writable
//! folders of the [`Confinement`], so that modes, owners and times cannot be changed outside of them
//! either, which Landlock does not restrict. Sockets through which a process could act outside are
//! covered, and terminals are those of the tool only. Above `standard`, an empty folder takes the place of
//! the home, and holds only what the process works with.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
    open_tree,
};
use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::{Confinement, MountView, NetworkView};
use crate::system_call::openat;

/// What a folder of the process's own does not allow.
const OWN_FOLDER: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// Whose terminals a process can open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum TerminalView {
    /// Those of the user: it runs in one of them.
    Users,
    /// Only those that it makes itself.
    Own,
}

/// Whether a process may open the terminals of its `/dev/pts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedTerminals {
    Yes,
    No,
}

/// The user of this process, as the kernel wants it for a user namespace.
pub(super) struct NamespaceUser {
    is_root: bool,
    user: String,
    group: String,
}

impl NamespaceUser {
    pub(super) fn of_this_process() -> Self {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        Self {
            is_root: user == 0,
            user: format!("{user} {user} 1"),
            group: format!("{group} {group} 1"),
        }
    }

    /// Leaves the mount namespace of the other processes, with the rights to change its own, the shared
    /// memory and the queues of System V, and the other namespaces that these flags name. Allocates
    /// nothing.
    pub(super) fn leave_mounts(&self, others: UnshareFlags) -> io::Result<()> {
        let left = UnshareFlags::NEWNS | UnshareFlags::NEWIPC | others;
        let is_alone = self.is_root
            && match unshare(left) {
                Ok(()) => true,
                // In many containers root has no right to mount.
                Err(err) if Errno::from_io_error(&err) == Some(Errno::PERM) => false,
                Err(err) => return Err(err),
            };
        if !is_alone {
            unshare(left | UnshareFlags::NEWUSER)?;
            with_own_files(|| {
                write_file(c"/proc/self/setgroups", b"deny")?;
                write_file(c"/proc/self/uid_map", self.user.as_bytes())?;
                write_file(c"/proc/self/gid_map", self.group.as_bytes())
            })?;
        }
        // Mounts of the system still arrive here; those of this process stay here.
        let down = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        mount_change(c"/", down)?;
        Ok(())
    }
}

/// Gives this process the mounts of a confinement, and says whether it may open terminals then.
///
/// This process must have one thread.
pub(super) fn enter(
    confinement: &Confinement,
    terminals: TerminalView,
) -> io::Result<AllowedTerminals> {
    let mounts = confinement.mounts();
    let without_own = match terminals {
        TerminalView::Users => AllowedTerminals::Yes,
        TerminalView::Own => AllowedTerminals::No,
    };
    if confinement.view == MountView::Shared && mounts.is_empty() {
        return Ok(without_own);
    }
    let others = match confinement.network {
        NetworkView::Shared => UnshareFlags::empty(),
        NetworkView::Empty => UnshareFlags::NEWNET,
    };
    NamespaceUser::of_this_process().leave_mounts(others)?;
    let mut cloned = Vec::new();
    for mount in &mounts {
        let path = c_path(mount.path)?;
        let tree = clone_tree(&path)?;
        if mount.is_read_only {
            make_read_only(tree.as_raw_fd(), c"")?;
        }
        cloned.push((path, tree));
    }
    if confinement.view == MountView::Own {
        make_read_only(libc::AT_FDCWD, c"/")?;
    }
    for (path, tree) in cloned {
        attach(&tree, &path)?;
    }
    if confinement.view == MountView::Shared {
        return Ok(without_own);
    }
    cover(confinement)?;
    for home in &confinement.homes {
        empty(home, &confinement.seen_in(home))?;
    }
    Ok(match terminals {
        TerminalView::Own if own_terminals().is_ok() => AllowedTerminals::Yes,
        TerminalView::Own | TerminalView::Users => without_own,
    })
}

/// Covers what the process must not see: a folder by an empty one, anything else by a device.
fn cover(confinement: &Confinement) -> io::Result<()> {
    let mut empty: Option<CString> = None;
    for path in &confinement.hidden {
        let Ok(path) = path.canonicalize() else {
            continue;
        };
        let Ok(file) = path.symlink_metadata() else {
            continue;
        };
        let target = c_path(&path)?;
        let tree = match (file.is_dir(), &empty) {
            (false, _) => clone_tree(c"/dev/null")?,
            (true, Some(empty)) => clone_tree(empty)?,
            (true, None) => {
                let attributes = OWN_FOLDER | MountAttrFlags::MOUNT_ATTR_RDONLY;
                new_file_system(c"tmpfs", &[(c"mode", c"0555")], attributes)?
            }
        };
        match attach(&tree, &target) {
            Ok(()) if file.is_dir() => {
                empty.get_or_insert(target);
            }
            Ok(()) => {}
            // It was removed meanwhile.
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(err),
        }
    }
    Ok(())
}

/// Replaces a home by a folder that holds only these paths of it, as this process sees them now.
fn empty(home: &Path, seen: &[&Path]) -> io::Result<()> {
    let mut trees = Vec::new();
    for path in seen {
        let c_path = c_path(path)?;
        trees.push((path, clone_tree(&c_path)?, c_path));
    }
    let own = own_folder()?;
    let kinds: Vec<bool> = seen.iter().map(|path| path.is_dir()).collect();
    attach(&own, &c_path(home)?)?;
    for ((path, tree, c_path), is_folder) in trees.iter().zip(kinds) {
        if is_folder {
            fs::create_dir_all(path)?;
        } else {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::File::create(path)?;
        }
        attach(tree, c_path)?;
    }
    set_read_only(own.as_raw_fd(), c"", Depth::Alone)
}

/// A new, empty folder, mounted nowhere. Allocates nothing.
pub(super) fn own_folder() -> io::Result<OwnedFd> {
    new_file_system(c"tmpfs", &[(c"mode", c"0755")], OWN_FOLDER)
}

/// Replaces `/dev/pts` by one without the terminals of other processes.
fn own_terminals() -> io::Result<()> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let options = [(c"ptmxmode", c"0666"), (c"mode", c"0620")];
    let terminals = new_file_system(c"devpts", &options, attributes)?;
    attach(&terminals, c"/dev/pts")
}

fn new_file_system(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(context.as_fd(), *name, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// Does something with the files of this process in `/proc`. They belong to root while the memory of
/// this process is hidden. Allocates nothing.
pub(super) fn with_own_files<T>(act: impl FnOnce() -> T) -> T {
    // If it fails, so does the act.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    let done = act();
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    done
}

#[expect(unsafe_code, reason = "rustix marks it for its flag FILES")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the table of descriptors stays shared.
    unsafe { unshare_unsafe(flags) }.map_err(Into::into)
}

fn write_file(path: &CStr, bytes: &[u8]) -> io::Result<()> {
    let file = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, bytes)?;
    Ok(())
}

/// A copy of the mount at a path, with all mounts below it.
pub(super) fn clone_tree(path: &CStr) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}

/// Makes a mount and all mounts below it read-only. An empty path means the descriptor itself.
pub(super) fn make_read_only(folder: i32, path: &CStr) -> io::Result<()> {
    set_read_only(folder, path, Depth::WithMountsBelow)
}

/// Which mounts a change is for.
#[derive(Clone, Copy)]
enum Depth {
    Alone,
    WithMountsBelow,
}

#[expect(unsafe_code, reason = "rustix has no mount_setattr")]
fn set_read_only(folder: i32, path: &CStr, depth: Depth) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = match depth {
        Depth::Alone => libc::AT_EMPTY_PATH,
        Depth::WithMountsBelow => libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
    };
    // SAFETY: the path and the attributes are valid for the call, which copies them.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            folder,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

pub(super) fn attach(tree: &OwnedFd, path: &CStr) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(tree.as_fd(), c"", CWD, path, flags)?)
}

pub(super) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}
