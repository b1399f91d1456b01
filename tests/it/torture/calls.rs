//! The system calls at which a process is killed.

use std::fmt;

use libc::c_long;

/// Calls that change files, or make a change permanent. Of the calls that open a file only those that may create one
/// count.
const CHANGES: [(&str, c_long); 22] = [
    ("openat", libc::SYS_openat),
    ("write", libc::SYS_write),
    ("pwrite64", libc::SYS_pwrite64),
    ("writev", libc::SYS_writev),
    ("pwritev", libc::SYS_pwritev),
    ("renameat", libc::SYS_renameat),
    ("renameat2", libc::SYS_renameat2),
    ("unlinkat", libc::SYS_unlinkat),
    ("linkat", libc::SYS_linkat),
    ("symlinkat", libc::SYS_symlinkat),
    ("mkdirat", libc::SYS_mkdirat),
    ("fsync", libc::SYS_fsync),
    ("fdatasync", libc::SYS_fdatasync),
    ("syncfs", libc::SYS_syncfs),
    ("sync_file_range", libc::SYS_sync_file_range),
    ("ftruncate", libc::SYS_ftruncate),
    ("fchmod", libc::SYS_fchmod),
    ("fchmodat", libc::SYS_fchmodat),
    ("utimensat", libc::SYS_utimensat),
    ("flock", libc::SYS_flock),
    ("copy_file_range", libc::SYS_copy_file_range),
    ("fallocate", libc::SYS_fallocate),
];

/// Older calls, which newer machines do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: [(&str, c_long); 9] = [
    ("open", libc::SYS_open),
    ("creat", libc::SYS_creat),
    ("rename", libc::SYS_rename),
    ("unlink", libc::SYS_unlink),
    ("link", libc::SYS_link),
    ("symlink", libc::SYS_symlink),
    ("mkdir", libc::SYS_mkdir),
    ("rmdir", libc::SYS_rmdir),
    ("chmod", libc::SYS_chmod),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [(&str, c_long); 0] = [];

/// What else a supervisor or a guard does for the processes and locks that it answers for.
const HELPERS: [(&str, c_long); 8] = [
    ("setsid", libc::SYS_setsid),
    ("setpgid", libc::SYS_setpgid),
    ("close_range", libc::SYS_close_range),
    ("clone", libc::SYS_clone),
    ("clone3", libc::SYS_clone3),
    ("kill", libc::SYS_kill),
    ("sendmsg", libc::SYS_sendmsg),
    ("recvmsg", libc::SYS_recvmsg),
];

/// A call that is counted.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SystemCall {
    name: &'static str,
    kind: Kind,
    path: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It changes a file.
    Change,
    /// It opens a file that exists.
    Opening,
    /// One of [`HELPERS`].
    Other,
}

impl SystemCall {
    /// A call with its number and arguments; `text` reads a path of the process.
    pub(super) fn of(
        number: u64,
        arguments: &[u64],
        text: &dyn Fn(u64) -> Vec<u8>,
    ) -> Option<Self> {
        let known = |calls: &[(&'static str, c_long)]| {
            let found = calls
                .iter()
                .find(|(_, known)| u64::try_from(*known) == Ok(number));
            found.map(|(name, _)| *name)
        };
        let Some(name) = known(&CHANGES).or_else(|| known(&OLDER)) else {
            return known(&HELPERS).map(|name| Self {
                name,
                kind: Kind::Other,
                path: String::new(),
            });
        };
        let at = match name {
            "open" => 0,
            "openat" => 1,
            _ => {
                return Some(Self {
                    name,
                    kind: Kind::Change,
                    path: String::new(),
                });
            }
        };
        let creating = u64::try_from(libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY);
        let flags = arguments[at + 1];
        let is_creating = creating.is_ok_and(|creating| flags & creating != 0);
        let path = String::from_utf8_lossy(&text(arguments[at])).into_owned();
        // Files of the kernel and the terminal are not on any disk.
        let is_device = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
        let is_on_disk = !is_device && !path.starts_with("/proc/");
        Some(Self {
            name,
            kind: if is_creating && is_on_disk {
                Kind::Change
            } else {
                Kind::Opening
            },
            path,
        })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn changes_a_file(&self) -> bool {
        self.kind == Kind::Change
    }
}

impl fmt::Debug for SystemCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}({:?})", self.name, self.path)
    }
}
