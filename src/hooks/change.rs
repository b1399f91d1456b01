//! Writing hooks, so that at no instant there is none, and taking back what was written.
//!
//! A hook of somebody else first gets a second name; then the stub is renamed over the first one. Killed in between,
//! the old hook is still in force, and installing again goes on from there. [`Changes`] remembers what was done, so that
//! a call that cannot be finished leaves everything as it was.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::retry_on_intr;
use tempfile::NamedTempFile;

use super::error::HooksError;
use super::slot::{Found, Kind, Other, Slot};
use crate::failpoint::{fail, failpoint};

/// How the names of drafts begin.
const DRAFT: &str = ".piton-hook-";

/// The folder while it is changed; nobody else changes it through piton meanwhile.
pub(super) struct Changes {
    folder: PathBuf,
    /// Open as long as the lock is needed.
    lock: Option<OwnedFd>,
    made_folder: bool,
    done: Vec<Undo>,
}

/// How something that was done is taken back.
enum Undo {
    /// A second name goes.
    Forget(PathBuf),
    /// A new file goes.
    Remove(PathBuf),
    /// The hook that was kept goes back to its place.
    Restore { before: PathBuf, file: PathBuf },
    /// A stub gets its old text, and the hook that it runs first its second name.
    Rewrite { file: PathBuf, text: Vec<u8>, before: Option<PathBuf> },
}

impl Changes {
    /// Makes the folder, if it is not there, and waits for whoever changes it now.
    pub(super) fn begin(folder: &Path) -> Result<Self, HooksError> {
        let made_folder = !folder.exists();
        fs::create_dir_all(folder).map_err(HooksError::unwritable(folder))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Where folders cannot be locked, e.g. on some network file systems, two at once are not told apart.
        let lock = rustix::fs::open(folder, flags, Mode::empty()).ok();
        if lock
            .as_ref()
            .is_some_and(|lock| retry_on_intr(|| rustix::fs::flock(lock, FlockOperation::LockExclusive)).is_ok())
        {
            sweep(folder);
        }
        Ok(Self { folder: folder.to_path_buf(), lock, made_folder, done: Vec::new() })
    }

    /// Writes the text of a stub beside the hooks.
    pub(super) fn draft(&self, text: &[u8]) -> Result<NamedTempFile, HooksError> {
        // The name of the draft means nothing to anybody.
        let plain = |err: io::Error| HooksError::unwritable(&self.folder)(err.kind().into());
        draft(&self.folder, text).map_err(plain)
    }

    /// Puts a stub in the place of whatever was seen there.
    pub(super) fn put(&mut self, slot: &Slot, draft: NamedTempFile) -> Result<(), HooksError> {
        let undo = match &slot.now {
            Found::Nothing | Found::Odd(_) => Undo::Remove(slot.file.clone()),
            Found::Stub(stub) => Undo::Rewrite { file: slot.file.clone(), text: stub.text.clone(), before: None },
            Found::Other(other) => {
                if !matches!(&slot.before, Found::Other(kept) if kept.fingerprint == other.fingerprint) {
                    keep(&slot.file, &slot.before_file, other).map_err(HooksError::unwritable(&slot.before_file))?;
                    self.done.push(Undo::Forget(slot.before_file.clone()));
                }
                Undo::Restore { before: slot.before_file.clone(), file: slot.file.clone() }
            }
        };
        failpoint("hook-kept");
        // A moment remains, but not that of writing and keeping.
        if !is_as_seen(slot) {
            return Err(HooksError::Changed(slot.file.clone()));
        }
        fail("hook-put").map_err(HooksError::unwritable(&slot.file))?;
        draft.persist(&slot.file).map_err(|err| HooksError::unwritable(&slot.file)(err.error))?;
        // Restoring takes the second name away as well.
        if matches!(undo, Undo::Restore { .. }) && matches!(self.done.last(), Some(Undo::Forget(_))) {
            self.done.pop();
        }
        self.done.push(undo);
        failpoint("hook-put");
        Ok(())
    }

    /// Takes a stub away; what was there before comes back.
    pub(super) fn take(&mut self, slot: &Slot) -> Result<(), HooksError> {
        if !is_as_seen(slot) {
            return Err(HooksError::Changed(slot.file.clone()));
        }
        let failed = |err| HooksError::unwritable(&slot.file)(err);
        fail("hook-taken").map_err(failed)?;
        let before = matches!(slot.before, Found::Other(_)).then(|| slot.before_file.clone());
        match &before {
            Some(before) => fs::rename(before, &slot.file),
            None => fs::remove_file(&slot.file),
        }
        .map_err(failed)?;
        self.done.push(match (&slot.now, before) {
            (Found::Stub(stub), before) => Undo::Rewrite { file: slot.file.clone(), text: stub.text.clone(), before },
            _ => Undo::Restore { before: slot.file.clone(), file: slot.before_file.clone() },
        });
        failpoint("hook-taken");
        Ok(())
    }

    /// Removes the second name of a hook that is still, or again, in its place.
    pub(super) fn forget(slot: &Slot) -> Result<(), HooksError> {
        fs::remove_file(&slot.before_file).map_err(HooksError::unwritable(&slot.before_file))
    }

    /// What was done stays.
    pub(super) fn finish(self) {
        if let Some(lock) = &self.lock {
            // The names are there, whatever the disk says about them.
            let _ = rustix::fs::fsync(lock);
        }
    }

    /// Takes back what was done, for a reason.
    pub(super) fn undo(self, cause: HooksError) -> HooksError {
        for step in self.done.into_iter().rev() {
            let (file, result) = match step {
                Undo::Forget(file) | Undo::Remove(file) => (file.clone(), fs::remove_file(file)),
                Undo::Restore { before, file } => (file.clone(), fs::rename(before, file)),
                Undo::Rewrite { file, text, before } => (file.clone(), rewrite(&file, &text, before.as_deref())),
            };
            if let Err(source) = result {
                return HooksError::HalfDone { cause: Box::new(cause), file, source };
            }
        }
        if self.made_folder {
            // Fails when somebody has put something there, and then it has to stay.
            let _ = fs::remove_dir(&self.folder);
        }
        cause
    }
}

/// Gives a hook a second name.
fn keep(file: &Path, before: &Path, other: &Other) -> io::Result<()> {
    // Links to links are links on Linux; elsewhere, and where there are no hard links, the hook is copied.
    match (fs::hard_link(file, before), other.kind) {
        (Err(err), _) if err.kind() == io::ErrorKind::AlreadyExists => Err(err),
        (Err(_), Kind::Link) => symlink(fs::read_link(file)?, before),
        (Err(_), Kind::File) => {
            let folder = before.parent().unwrap_or(Path::new("."));
            let copy = draft(folder, &other.text)?;
            copy.as_file().set_permissions(fs::symlink_metadata(file)?.permissions())?;
            copy.persist_noclobber(before).map_err(|err| err.error)?;
            Ok(())
        }
        (Ok(()), _) => match Found::at(before) {
            Found::Other(kept) if kept.fingerprint == other.fingerprint => Ok(()),
            // The system followed the link.
            _ => {
                fs::remove_file(before)?;
                symlink(fs::read_link(file)?, before)
            }
        },
    }
}

fn rewrite(file: &Path, text: &[u8], before: Option<&Path>) -> io::Result<()> {
    if let (Some(before), Found::Other(other)) = (before, Found::at(file)) {
        keep(file, before, &other)?;
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    draft(folder, text)?.persist(file).map_err(|err| err.error)?;
    Ok(())
}

fn draft(folder: &Path, text: &[u8]) -> io::Result<NamedTempFile> {
    // Whoever may read the folder may run the hook, as far as the user's mask lets them.
    let everybody = fs::Permissions::from_mode(0o777);
    let mut draft = tempfile::Builder::new().permissions(everybody).prefix(DRAFT).tempfile_in(folder)?;
    draft.write_all(text)?;
    draft.as_file().sync_all()?;
    Ok(draft)
}

/// Removes drafts of calls that were killed.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(DRAFT.as_bytes()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_as_seen(slot: &Slot) -> bool {
    match (&slot.now, Found::at(&slot.file)) {
        (Found::Nothing, Found::Nothing) => true,
        (Found::Stub(seen), Found::Stub(found)) => *seen == found,
        (Found::Other(seen), Found::Other(found)) => seen.fingerprint == found.fingerprint,
        _ => false,
    }
}
