//! What a process may do, enforced by the kernel: the levels `standard`, `sandboxed` and `restricted`.
//!
//! A [`Confinement`] is data: it travels to the supervisor in `Work`, which applies it before the
//! program starts ([`kernel`]). Landlock restricts writes, TCP, signals and abstract sockets. A mount
//! namespace makes everything else read-only, also folders inside a writable one, and covers sockets,
//! which Landlock cannot express. A seccomp filter refuses system calls. Above `standard`, the mount
//! namespace also hides homes, and `restricted` adds a network namespace. [`Support`] and
//! [`SandboxSupport`] are what the kernel of this machine enforces, found by trying.

#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
pub(super) mod kernel;
#[cfg(target_os = "linux")]
pub(super) mod mounts;
#[cfg(target_os = "linux")]
mod probe;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Serialize;

use crate::failpoint::fail;
use crate::item::source::read_bytes;
use crate::item::tool::Isolation;

/// The largest file that names another folder of git.
const LONGEST_POINTER: u64 = 64 * 1024;

/// Shared memory, which counts as temporary.
const SHARED_MEMORY: &str = "/dev/shm";

/// What a confined process may do. Everything may be read but what is hidden.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Confinement {
    /// Folders below which files may be written, without symlinks.
    pub writable: Vec<PathBuf>,
    /// Files and folders inside of those that are read-only all the same.
    pub read_only: Vec<PathBuf>,
    /// Sockets, folders with sockets, and files that it does not see.
    pub hidden: Vec<PathBuf>,
    /// Homes, in which it sees only what it may write and what is `visible`.
    pub homes: Vec<PathBuf>,
    /// Files and folders in the homes that it may read.
    pub visible: Vec<PathBuf>,
    pub view: MountView,
    pub tcp: TcpRule,
    pub network: NetworkView,
}

/// How a confined process sees the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MountView {
    /// Like other processes, apart from read-only folders.
    Shared,
    /// Read-only but for the writable folders, and without what is hidden.
    Own,
}

/// Whether a confined process has the network of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkView {
    Shared,
    /// A network namespace of its own, without any connection.
    Empty,
}

/// Which TCP ports a process may connect to, and whether it may listen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TcpRule {
    /// Everything.
    Any,
    /// Connections to these ports only.
    Ports(BTreeSet<u16>),
}

/// A file or folder that gets a mount of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnMount<'c> {
    pub(super) path: &'c Path,
    pub(super) is_read_only: bool,
}

impl Confinement {
    /// Confines a process to some writable folders. Paths that do not exist are left out: there is
    /// nothing to write or to guard.
    pub fn new(
        writable: &[PathBuf],
        read_only: &[PathBuf],
        hidden: &[PathBuf],
        view: MountView,
        tcp: TcpRule,
    ) -> Self {
        let writable = real(writable);
        // A folder in which the process works cannot be hidden.
        let mut hidden = real(hidden);
        hidden.retain(|path| !writable.iter().any(|root| root.starts_with(path)));
        Self {
            writable,
            read_only: real(read_only),
            hidden,
            homes: Vec::new(),
            visible: Vec::new(),
            view,
            tcp,
            network: NetworkView::Shared,
        }
    }

    /// Hides a home but for what the process may write and these paths.
    #[must_use]
    pub fn without_home(mut self, home: &Path, visible: &[PathBuf]) -> Self {
        self.homes = real(&[home.to_path_buf()]);
        self.visible = real(visible);
        self
    }

    /// Lets it read one more file or folder, if that lies in a hidden home.
    #[must_use]
    pub fn and_visible(mut self, path: &Path) -> Self {
        self.visible.extend(path.canonicalize());
        self
    }

    /// Whether a path, or the file that it leads to, lies in a hidden home.
    pub fn hides(&self, path: &Path) -> bool {
        let is_hidden = |path: &Path| {
            let is_seen = |home| self.seen_in(home).iter().any(|seen| path.starts_with(seen));
            let mut homes = self.homes.iter();
            homes.any(|home| path.starts_with(home) && !is_seen(home))
        };
        is_hidden(path) || path.canonicalize().is_ok_and(|path| is_hidden(&path))
    }

    /// Whether the view of files keeps the process from changing a path.
    pub fn refuses(&self, path: &Path) -> bool {
        let depth = |roots: &[PathBuf]| {
            let above = roots.iter().filter(|root| path.starts_with(root));
            above.map(|root| root.components().count()).max()
        };
        // As in `mounts`: the innermost folder counts, and read-only wins.
        self.view == MountView::Own && depth(&self.read_only) >= depth(&self.writable)
    }

    /// The outermost paths in a home that the process sees all the same.
    pub(super) fn seen_in(&self, home: &Path) -> Vec<&Path> {
        let mut paths: Vec<&Path> = self.writable.iter().map(PathBuf::as_path).collect();
        paths.extend(self.visible.iter().map(PathBuf::as_path));
        paths.retain(|path| path.starts_with(home) && *path != home);
        paths.sort_by_key(|path| path.components().count());
        let mut outermost: Vec<&Path> = Vec::new();
        for path in paths {
            if !outermost.iter().any(|above| path.starts_with(above)) {
                outermost.push(path);
            }
        }
        outermost
    }

    /// Hides a file, if it exists when a process starts.
    #[must_use]
    pub fn and_hidden(mut self, file: &Path) -> Self {
        self.hidden.push(file.to_path_buf());
        self
    }

    /// Allows writing below one more folder.
    #[must_use]
    pub fn and_writable(mut self, folder: &Path) -> Self {
        if let Ok(folder) = folder.canonicalize()
            && !self.writable.contains(&folder)
        {
            self.writable.push(folder);
        }
        self
    }

    /// Makes a folder of piton's own read-only, where the process has a view of files of its own.
    pub fn guard(&mut self, folder: &Path) {
        if self.view == MountView::Own
            && let Ok(folder) = folder.canonicalize()
        {
            self.read_only.push(folder);
        }
    }

    /// Shows a socket that would be hidden.
    pub fn reveal(&mut self, socket: &Path) {
        if let Ok(socket) = socket.canonicalize() {
            self.hidden.retain(|hidden| *hidden != socket);
        }
    }

    /// The mounts that it needs, outermost first: read-only ones inside of a writable folder, writable
    /// ones inside of those, and the folders between both.
    pub(super) fn mounts(&self) -> Vec<OwnMount<'_>> {
        // The project may lie in it. Not every system has it.
        let memory = Path::new(SHARED_MEMORY);
        let memory = (self.view == MountView::Own && memory.is_dir()).then_some(memory);
        let writable = self.writable.iter().map(PathBuf::as_path).chain(memory);
        let all = writable.map(|path| (path, false));
        let all = all.chain(self.read_only.iter().map(|path| (&**path, true)));
        let mut all: Vec<(&Path, bool)> = all.collect();
        // At the same path, read-only wins: it is the later mount.
        all.sort_by_key(|(path, is_read_only)| (path.components().count(), *is_read_only));
        let mut mounts: Vec<OwnMount<'_>> = Vec::new();
        for (path, is_read_only) in &all {
            let above = mounts
                .iter()
                .rev()
                .find(|mount| path.starts_with(mount.path));
            let is_reached = self.writable.iter().any(|root| path.starts_with(root));
            let is_needed = match above {
                Some(above) => above.is_read_only != *is_read_only,
                None if self.view == MountView::Own => !*is_read_only,
                None => *is_read_only && is_reached,
            };
            if is_needed {
                mounts.push(OwnMount {
                    path,
                    is_read_only: *is_read_only,
                });
            }
        }
        let between = between(&mounts);
        mounts.extend(between);
        mounts.sort_by_key(|mount| mount.path.components().count());
        mounts
    }
}

/// The folders between a writable mount and a read-only one inside of it. As mounts they cannot be moved:
/// a process could otherwise move the read-only one away with its folder, and put another in its place.
fn between<'c>(mounts: &[OwnMount<'c>]) -> Vec<OwnMount<'c>> {
    let mut folders = BTreeSet::new();
    for guarded in mounts.iter().filter(|mount| mount.is_read_only) {
        let is_mount = |folder: &&Path| mounts.iter().any(|mount| mount.path == *folder);
        let above = guarded.path.ancestors().skip(1);
        // Nothing outside of a mount can be moved.
        if above.clone().any(|folder| is_mount(&folder)) {
            folders.extend(above.take_while(|folder| !is_mount(folder)));
        }
    }
    let writable = |path| OwnMount {
        path,
        is_read_only: false,
    };
    folders.into_iter().map(writable).collect()
}

/// Paths without symlinks. Those that do not exist are left out.
fn real(paths: &[PathBuf]) -> Vec<PathBuf> {
    let real: BTreeSet<PathBuf> = paths
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    real.into_iter().collect()
}

/// What the kernel enforces on this machine.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// Writes are restricted to folders.
    pub writes: bool,
    /// Folders inside of a writable one can be read-only.
    pub mounts: bool,
    pub tcp: bool,
    /// Signals to other processes are refused.
    pub signals: bool,
    /// System calls are refused that tools do not need.
    pub calls: bool,
}

impl Support {
    /// What this machine enforces. The first call tries it out in `folder`, which must be writable,
    /// in a child process.
    pub fn of_this_machine(folder: &Path) -> Self {
        static FOUND: OnceLock<Support> = OnceLock::new();
        *FOUND.get_or_init(|| match fail("isolation:support") {
            Ok(()) => Self::probed(folder),
            Err(_) => Self::default(),
        })
    }

    #[cfg(target_os = "linux")]
    fn probed(folder: &Path) -> Self {
        probe::probe(folder)
    }

    #[cfg(not(target_os = "linux"))]
    fn probed(_: &Path) -> Self {
        Self::default()
    }

    /// What is missing for `standard`; empty if nothing is.
    pub fn missing(self) -> Vec<&'static str> {
        [
            (self.writes, "writes outside of the project"),
            (self.mounts, "writes into the git directory and `.ai`"),
            (self.tcp, "TCP"),
            (self.signals, "signals to other processes"),
            (
                self.calls,
                "system calls such as `io_uring_setup` and `bpf`",
            ),
        ]
        .into_iter()
        .filter(|(is_enforced, _)| !is_enforced)
        .map(|(_, what)| what)
        .collect()
    }
}

/// What the kernel of this machine adds for the levels above `standard`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxSupport {
    /// A home can be covered by an empty folder.
    pub homes: bool,
    /// A process can be without any network.
    pub networks: bool,
}

impl SandboxSupport {
    /// What this machine adds. The first call tries it out in a child process.
    pub fn of_this_machine() -> Self {
        static FOUND: OnceLock<SandboxSupport> = OnceLock::new();
        *FOUND.get_or_init(|| match fail("isolation:sandbox") {
            Ok(()) => Self::probed(),
            Err(_) => Self::default(),
        })
    }

    #[cfg(target_os = "linux")]
    fn probed() -> Self {
        probe::probe_sandbox()
    }

    #[cfg(not(target_os = "linux"))]
    fn probed() -> Self {
        Self::default()
    }

    /// What is missing for a level above `standard`; empty if nothing is.
    pub fn missing(self, level: Isolation) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if level >= Isolation::Sandboxed && !self.homes {
            missing.push("reading your home folder");
        }
        if level >= Isolation::Restricted && !self.networks {
            missing.push("the use of the network");
        }
        missing
    }
}

/// The files and folders of git that a project uses: `.git`, and where it leads.
pub fn git_folders(root: &Path) -> Vec<PathBuf> {
    let found = root
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|path| path.symlink_metadata().is_ok());
    let Some(entry) = found else {
        return Vec::new();
    };
    let mut folders = vec![entry.clone()];
    let git_dir = entry.parent().and_then(git_folder);
    if let Some(git_dir) = &git_dir {
        folders.push(git_dir.clone());
    }
    let git_dir = git_dir.unwrap_or(entry);
    if let Some(common) = pointer(&git_dir.join("commondir")) {
        folders.extend(git_dir.join(common.trim()).canonicalize().ok());
    }
    folders
}

/// The git folder if the `.git` of a folder is a file that names it.
pub(super) fn git_folder(root: &Path) -> Option<PathBuf> {
    let text = pointer(&root.join(".git"))?;
    root.join(text.strip_prefix("gitdir:")?.trim())
        .canonicalize()
        .ok()
}

fn pointer(file: &Path) -> Option<String> {
    String::from_utf8(read_bytes(file, LONGEST_POINTER).ok()?).ok()
}

#[cfg(test)]
mod tests;
