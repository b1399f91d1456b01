//! When the files that piton writes reach the disk (`checkpoint.fsync`).
//!
//! A file that is written survives the death of the process; only a sync makes it survive a power loss, and a sync
//! is slow. So files are *staged* one by one, and a *barrier* brings all of them to the disk at once. The
//! journal sets the barriers: see [`crate::journal::Journal::append`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::words::words;

/// How much piton does so that its files survive a power loss; later is stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fsync {
    /// Nothing is synced.
    Never,
    /// Files are staged, and a few barriers sync them.
    #[default]
    Auto,
    /// Every file and folder is synced separately.
    Always,
}

/// How the files of one file system are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncMethod {
    /// The file system writes its changes in order. The bytes of a staged file are written at once,
    /// and syncing any later file makes them permanent together with all names.
    Ordered,
    /// The order is unknown. A barrier syncs the whole file system.
    Whole,
    Each,
    Nothing,
}

/// The file system of a repository's git directory or work tree.
#[derive(Clone, Debug)]
pub struct Disk {
    method: SyncMethod,
    device: u64,
    /// Any file or folder of the file system; `None` where no barrier needs one.
    handle: Option<Arc<File>>,
}

/// Up to this many files are synced one by one; for more, syncing the whole file system is faster.
#[cfg(target_os = "linux")]
const FEW: usize = 64;

/// The file systems with staged files, shared by the process: a second handle on a repository may
/// stage files that the journal of the first relies on.
static STAGED: Mutex<BTreeMap<u64, Disk>> = Mutex::new(BTreeMap::new());

words!(Fsync: Auto "auto", Always "always", Never "never");

/// Creates a folder, with its parents, that other users cannot enter, whatever the umask. Journals
/// and snapshots hold what the user may keep in private files.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

impl Disk {
    /// A file system that cannot be examined gets a sync for each file.
    pub fn of(folder: &Path, fsync: Fsync) -> Self {
        let each = |method| Self {
            method,
            device: 0,
            handle: None,
        };
        match fsync {
            Fsync::Never => each(SyncMethod::Nothing),
            Fsync::Always => each(SyncMethod::Each),
            Fsync::Auto => Self::examine(folder).unwrap_or_else(|_| each(SyncMethod::Each)),
        }
    }

    pub fn barrier_description(&self) -> &'static str {
        match self.method {
            SyncMethod::Ordered => "syncs one file for all changes before it",
            SyncMethod::Whole => "syncs the whole file system at each barrier",
            SyncMethod::Each => "syncs each file by itself",
            SyncMethod::Nothing => "syncs nothing",
        }
    }

    /// For tests that do not need syncs.
    #[cfg(test)]
    pub(crate) fn unsynced() -> Self {
        Self {
            method: SyncMethod::Nothing,
            device: 0,
            handle: None,
        }
    }

    #[cfg(target_os = "linux")]
    fn examine(folder: &Path) -> io::Result<Self> {
        let handle = File::open(folder)?;
        let device = handle.metadata()?.dev();
        let method = if linux::keeps_order(&handle, device) {
            SyncMethod::Ordered
        } else {
            SyncMethod::Whole
        };
        Ok(Self {
            method,
            device,
            handle: Some(Arc::new(handle)),
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn examine(_: &Path) -> io::Result<Self> {
        Ok(Self {
            method: SyncMethod::Each,
            device: 0,
            handle: None,
        })
    }

    /// Stages a file: it is on disk before the next journal line that relies on it.
    pub fn stage(&self, file: &File) -> io::Result<()> {
        match self.method {
            SyncMethod::Nothing => return Ok(()),
            SyncMethod::Each => return file.sync_all(),
            // A symlink may lead to another file system.
            SyncMethod::Ordered | SyncMethod::Whole if file.metadata()?.dev() != self.device => {
                return file.sync_all();
            }
            SyncMethod::Ordered => write_out(file)?,
            SyncMethod::Whole => {}
        }
        self.mark();
        Ok(())
    }

    /// Syncs the bytes of a file now, before it gets its final name.
    pub fn bring(&self, file: &File) -> io::Result<()> {
        if self.method == SyncMethod::Nothing {
            Ok(())
        } else {
            file.sync_data()
        }
    }

    /// Stages one of many files: it is on disk after [`Self::bring_others`].
    pub fn stage_with_others(&self, file: &File) -> io::Result<()> {
        if self.method == SyncMethod::Each {
            file.sync_all()
        } else {
            Ok(())
        }
    }

    /// Syncs many files whose bytes must be on disk before their names.
    pub fn bring_others(&self) -> io::Result<()> {
        match self.method {
            SyncMethod::Nothing | SyncMethod::Each => return Ok(()),
            SyncMethod::Ordered => self.sync_all()?,
            SyncMethod::Whole => {}
        }
        self.mark();
        Ok(())
    }

    /// Stages many closed files, and the names in their folders. Missing files are skipped.
    pub fn stage_paths(
        &self,
        paths: &BTreeSet<PathBuf>,
        folders: &BTreeSet<PathBuf>,
    ) -> io::Result<()> {
        if self.method == SyncMethod::Nothing || (paths.is_empty() && folders.is_empty()) {
            return Ok(());
        }
        #[cfg(target_os = "linux")]
        if self.method != SyncMethod::Whole && paths.len() + folders.len() > FEW {
            let any = paths
                .iter()
                .chain(folders)
                .find_map(|path| File::open(path).ok());
            return any.map_or(Ok(()), |file| Ok(rustix::fs::syncfs(file)?));
        }
        for path in paths {
            match self.stage_path(path) {
                Err(err) if err.kind() == io::ErrorKind::NotFound => {}
                staged => staged?,
            }
        }
        let parents: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        let mut folders = parents
            .into_iter()
            .chain(folders.iter().map(PathBuf::as_path));
        folders.try_for_each(|folder| self.stage_folder(folder))
    }

    /// Like [`Self::stage`] for a closed file of this file system.
    pub fn stage_path(&self, path: &Path) -> io::Result<()> {
        match self.method {
            SyncMethod::Nothing => Ok(()),
            SyncMethod::Each | SyncMethod::Ordered => self.stage(&File::open(path)?),
            SyncMethod::Whole if std::fs::metadata(path)?.dev() != self.device => {
                File::open(path)?.sync_all()
            }
            SyncMethod::Whole => {
                self.mark();
                Ok(())
            }
        }
    }

    /// Stages the names in a folder of this file system.
    pub fn stage_folder(&self, folder: &Path) -> io::Result<()> {
        match self.method {
            SyncMethod::Nothing => return Ok(()),
            SyncMethod::Each => return File::open(folder)?.sync_all(),
            SyncMethod::Ordered | SyncMethod::Whole => self.mark(),
        }
        Ok(())
    }

    /// Writes a file that must be on disk no later than the next synced journal line; nothing
    /// relies on it earlier.
    pub fn accompany(&self, file: &File) -> io::Result<()> {
        match self.method {
            SyncMethod::Nothing | SyncMethod::Whole => Ok(()),
            SyncMethod::Each => file.sync_data(),
            SyncMethod::Ordered => write_out(file),
        }
    }

    /// Like [`Self::accompany`] for the names in a folder.
    pub fn accompany_folder(&self, folder: &Path) -> io::Result<()> {
        if self.method == SyncMethod::Each {
            File::open(folder)?.sync_all()
        } else {
            Ok(())
        }
    }

    /// Syncs everything staged, before anything that is written later.
    pub fn settle(&self) -> io::Result<()> {
        match self.method {
            SyncMethod::Nothing | SyncMethod::Each => Ok(()),
            // This file system keeps the order itself.
            SyncMethod::Ordered => sync_staged(&|device| device != self.device),
            SyncMethod::Whole => sync_staged(&|_| true),
        }
    }

    /// Syncs a file and everything that was staged before.
    pub fn barrier(&self, file: &File) -> io::Result<()> {
        match self.method {
            SyncMethod::Nothing => Ok(()),
            SyncMethod::Each => file.sync_data(),
            SyncMethod::Ordered => {
                file.sync_data()?;
                staged().remove(&self.device);
                sync_staged(&|_| true)
            }
            SyncMethod::Whole => {
                self.mark();
                sync_staged(&|_| true)
            }
        }
    }

    /// Whether a barrier would sync more than its file.
    pub fn has_staged(&self) -> bool {
        matches!(self.method, SyncMethod::Ordered | SyncMethod::Whole) && !staged().is_empty()
    }

    #[cfg(target_os = "linux")]
    fn sync_all(&self) -> io::Result<()> {
        self.handle
            .as_ref()
            .map_or(Ok(()), |handle| Ok(rustix::fs::syncfs(handle)?))
    }

    /// No method of this system stages anything.
    #[cfg(not(target_os = "linux"))]
    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn mark(&self) {
        staged().entry(self.device).or_insert_with(|| self.clone());
    }
}

fn staged() -> std::sync::MutexGuard<'static, BTreeMap<u64, Disk>> {
    // The map is consistent even if another thread panicked.
    STAGED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Syncs the chosen file systems with staged files. After an error they stay staged.
fn sync_staged(is_chosen: &dyn Fn(u64) -> bool) -> io::Result<()> {
    let chosen: Vec<Disk> = staged()
        .values()
        .filter(|disk| is_chosen(disk.device))
        .cloned()
        .collect();
    for disk in chosen {
        // Files staged from now on are not part of this sync.
        staged().remove(&disk.device);
        if let Err(err) = disk.sync_all() {
            disk.mark();
            return Err(err);
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn write_out(file: &File) -> io::Result<()> {
    file.sync_all()
}

#[cfg(target_os = "linux")]
use linux::write_out;

#[cfg(target_os = "linux")]
mod linux {
    //! Properties of Linux file systems.

    use std::fs::{self, File};
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;

    const EXT4: u64 = 0xEF53;
    const XFS: u64 = 0x5846_5342;

    /// Whether syncing one file makes every earlier name change permanent too. This holds if one
    /// journal takes all of them in order: XFS, and ext4 unless it was created without a journal.
    pub(super) fn keeps_order(handle: &File, device: u64) -> bool {
        let kind = rustix::fs::fstatfs(handle).map(|found| found.f_type.cast_unsigned());
        match kind {
            Ok(XFS) => true,
            Ok(EXT4) => has_journal(device),
            _ => false,
        }
    }

    /// Whether an ext4 file system has a journal: the kernel names the process that writes it.
    fn has_journal(device: u64) -> bool {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let target = fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
        let name = target.as_ref().ok().and_then(|path| path.file_name());
        let task = name.map(|name| {
            fs::read_to_string(Path::new("/sys/fs/ext4").join(name).join("journal_task"))
        });
        task.and_then(Result::ok)
            .is_some_and(|task| task.trim().parse::<u32>().is_ok())
    }

    /// Writes the bytes of a file to the disk and waits for it. They are permanent after the next
    /// sync of any file there.
    #[expect(unsafe_code, reason = "no crate wraps this call")]
    pub(super) fn write_out(file: &File) -> io::Result<()> {
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: the call reads numbers only, and the file is open.
        let result = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
