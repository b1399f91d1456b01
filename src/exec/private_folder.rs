//! Private folders in the temporary folder, or in the user's cache, which confined processes cannot
//! write. No crash leaves them behind for long.
//!
//! Each [`PrivateFolder`] has its process in its name and holds a lock on itself. A killed process
//! leaves its folders; [`sweep`] removes them at the next start. It removes a folder only if the
//! process in its name is gone and the lock is free: process ids are used again, and differ between
//! containers that share a temporary folder.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};
use tempfile::TempDir;

use crate::disk::create_private_folder;
use crate::system_call::{flock, open};

/// What a private folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateUse<'r> {
    /// The home of the processes of a run, by its id.
    Home(&'r str),
    /// The files that `ssh-keygen` reads and writes.
    Signatures,
    /// The items that a commit will hold.
    Staged,
    /// What the probes of `piton doctor` try out.
    Doctor,
}

/// The first parts of the names of all private folders.
const PREFIXES: [&str; 4] = [
    "piton-home-",
    "piton-ssh-",
    "piton-staged-",
    "piton-doctor-",
];

/// A folder that only this user can read; dropping it deletes it.
#[derive(Debug)]
pub struct PrivateFolder {
    folder: TempDir,
    /// Held until the folder is gone. Some file systems have no locks.
    _lock: Option<OwnedFd>,
}

impl PrivateUse<'_> {
    /// What the names of these folders begin with.
    pub(super) fn prefix(self) -> String {
        match self {
            Self::Home(run) => format!("piton-home-{run}-"),
            Self::Signatures => "piton-ssh-".to_owned(),
            Self::Staged => "piton-staged-".to_owned(),
            Self::Doctor => "piton-doctor-".to_owned(),
        }
    }
}

/// Where private folders are created.
#[derive(Clone, Copy, Debug)]
pub struct PrivatePlaces<'p> {
    /// The user's cache folder.
    pub cache: &'p Path,
    pub temporary: &'p Path,
}

impl PrivatePlaces<'_> {
    /// Removes the private folders of this user that killed processes left.
    pub fn sweep(self) {
        sweep(self.temporary);
        sweep(&self.apart());
    }

    /// Where confined processes cannot write.
    pub(super) fn apart(self) -> PathBuf {
        self.cache.join("private")
    }
}

impl PrivateFolder {
    /// Creates a folder in which only this process and programs that it trusts write: for what is
    /// checked there or run from there. Without a cache it is in the temporary folder.
    pub fn create_apart(places: PrivatePlaces<'_>, purpose: PrivateUse<'_>) -> io::Result<Self> {
        let apart = places.apart();
        // As for the other folders, so that none of them is left.
        sweep_once(places.temporary);
        create_private_folder(&apart)
            .and_then(|()| Self::create(&apart, purpose))
            .or_else(|_| Self::create(places.temporary, purpose))
    }

    /// Creates a folder. The first one of a process removes abandoned ones before.
    pub fn create(temporary: &Path, purpose: PrivateUse<'_>) -> io::Result<Self> {
        sweep_once(temporary);
        let folder = tempfile::Builder::new()
            .prefix(&format!("{}{}-", purpose.prefix(), std::process::id()))
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(temporary)?;
        let lock = lock(folder.path()).ok();
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes what is abandoned when this process uses a folder for the first time.
fn sweep_once(folder: &Path) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let is_first = SWEPT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(folder.to_path_buf());
    if is_first {
        sweep(folder);
    }
}

fn sweep(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(is_abandoned_name) {
            continue;
        }
        if let Ok(_lock) = lock(&entry.path()) {
            // Ignore failures: the system cleans its temporary folder.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a name is that of a private folder whose process is gone.
fn is_abandoned_name(name: &str) -> bool {
    let process = name.rsplit('-').nth(1);
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && process
            .and_then(|process| process.parse().ok())
            .and_then(Pid::from_raw)
            .is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

/// Locks a folder of this user, unless it is locked. Never follows a symlink.
fn lock(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = open(folder, flags, Mode::empty())?;
    if fstat(&opened)?.st_uid != geteuid().as_raw() {
        return Err(Errno::PERM.into());
    }
    flock(&opened, FlockOperation::NonBlockingLockExclusive)?;
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No process has this id: Linux uses none above 2^22.
    const GONE: i32 = i32::MAX;

    #[test]
    fn only_folders_of_processes_that_are_gone_are_removed() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        let removed = [
            format!("piton-home-01ABC-{GONE}-x1"),
            format!("piton-ssh-{GONE}-x1"),
            format!("piton-staged-{GONE}-x1"),
            format!("piton-doctor-{GONE}-x1"),
        ];
        for name in &removed {
            fs::create_dir_all(at(name).join("below")).unwrap();
            fs::write(at(name).join("below/file"), "").unwrap();
        }
        let kept = [
            format!("piton-home-01ABC-{}-x1", std::process::id()),
            format!("piton-staged-{GONE}-locked"),
            format!("piton-other-{GONE}-x1"),
            "piton-home-01ABC-x1".to_owned(),
            "target".to_owned(),
        ];
        for name in &kept {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("target").join("file"), "").unwrap();
        let (link, file) = (
            format!("piton-ssh-{GONE}-link"),
            format!("piton-ssh-{GONE}-file"),
        );
        std::os::unix::fs::symlink(at("target"), at(&link)).unwrap();
        fs::write(at(&file), "").unwrap();
        let held = lock(&at(&kept[1])).unwrap();

        sweep(temporary.path());

        for name in &removed {
            assert!(!at(name).exists(), "{name}");
        }
        for name in kept.iter().chain([&link, &file]) {
            assert!(at(name).exists(), "{name}");
        }
        assert!(at("target").join("file").exists());
        drop(held);
        sweep(temporary.path());
        assert!(!at(&kept[1]).exists());
    }

    #[test]
    fn a_folder_is_locked_while_it_is_there_and_then_gone() {
        let temporary = tempfile::tempdir().unwrap();
        for purpose in [
            PrivateUse::Home("01ABC"),
            PrivateUse::Signatures,
            PrivateUse::Staged,
            PrivateUse::Doctor,
        ] {
            let made = PrivateFolder::create(temporary.path(), purpose).unwrap();
            let path = made.path().to_path_buf();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
            let id = std::process::id().to_string();
            assert_eq!(name.rsplit('-').nth(1), Some(id.as_str()));
            assert!(lock(&path).is_err());
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o700
            );
            drop(made);
            assert!(!path.exists());
        }
    }
}
