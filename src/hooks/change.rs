//! Writes and removes hook files so that git always finds a hook, and undoes a change that fails
//! half-way.
//!
//! A hook that is not ours first gets a second name; then the stub is renamed over the first one.
//! If piton is killed in between, the old hook is still in force, and the next install continues
//! from there. [`Changes`] remembers what was done, so that a call that cannot finish leaves
//! everything as it was.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use tempfile::NamedTempFile;

use super::error::HooksError;
use super::slot::{Other, Slot, SlotContent, SlotKind};
use crate::failpoint::{fail, failpoint};
use crate::system_call::{flock, open};

const DRAFT: &str = ".piton-hook-";

/// The hooks folder while it is changed. The lock keeps other piton processes out.
pub(super) struct Changes {
    folder: PathBuf,
    lock: Option<OwnedFd>,
    made_folder: bool,
    done: Vec<Undo>,
}

/// How to undo one change.
enum Undo {
    /// Delete the second name of a hook.
    Forget(PathBuf),
    /// Delete a file that is new.
    Remove(PathBuf),
    /// Rename the kept hook back to its original name.
    Restore { before: PathBuf, file: PathBuf },
    /// Write the old text of a stub, and rename the hook it runs first back to its second name.
    Rewrite {
        file: PathBuf,
        text: Vec<u8>,
        before: Option<PathBuf>,
    },
}

impl Changes {
    /// Creates the folder if it is missing, and waits until no other piton process changes it.
    pub(super) fn begin(folder: &Path) -> Result<Self, HooksError> {
        let made_folder = !folder.exists();
        fs::create_dir_all(folder).map_err(HooksError::unwritable(folder))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Some network file systems cannot lock folders. Two concurrent installs are not serialized
        // there.
        let lock = open(folder, flags, Mode::empty()).ok();
        if lock
            .as_ref()
            .is_some_and(|lock| flock(lock, FlockOperation::LockExclusive).is_ok())
        {
            sweep(folder);
        }
        Ok(Self {
            folder: folder.to_path_buf(),
            lock,
            made_folder,
            done: Vec::new(),
        })
    }

    pub(super) fn draft(&self, text: &[u8]) -> Result<NamedTempFile, HooksError> {
        // Name the folder in the error; the name of the temporary file would mean nothing to the
        // user.
        let plain = |err: io::Error| HooksError::unwritable(&self.folder)(err.kind().into());
        draft(&self.folder, text).map_err(plain)
    }

    /// Replaces the file that was seen at this slot with a stub.
    pub(super) fn put(&mut self, slot: &Slot, draft: NamedTempFile) -> Result<(), HooksError> {
        let undo = match &slot.now {
            SlotContent::Nothing | SlotContent::Odd(_) => Undo::Remove(slot.file.clone()),
            SlotContent::Stub(stub) => Undo::Rewrite {
                file: slot.file.clone(),
                text: stub.text.clone(),
                before: None,
            },
            SlotContent::Other(other) => {
                if !matches!(&slot.before, SlotContent::Other(kept) if kept.fingerprint == other.fingerprint)
                {
                    keep(&slot.file, &slot.before_file, other)
                        .map_err(HooksError::unwritable(&slot.before_file))?;
                    self.done.push(Undo::Forget(slot.before_file.clone()));
                }
                Undo::Restore {
                    before: slot.before_file.clone(),
                    file: slot.file.clone(),
                }
            }
        };
        failpoint("hook-kept");
        // Check again as late as possible: another process may have changed the hook since it was
        // read. Only the time between this check and the rename remains unprotected.
        if !is_as_seen(slot) {
            return Err(HooksError::Changed(slot.file.clone()));
        }
        fail("hook-put").map_err(HooksError::unwritable(&slot.file))?;
        draft
            .persist(&slot.file)
            .map_err(|err| HooksError::unwritable(&slot.file)(err.error))?;
        // `Restore` also removes the second name, so its own undo step is not needed.
        if matches!(undo, Undo::Restore { .. }) && matches!(self.done.last(), Some(Undo::Forget(_)))
        {
            self.done.pop();
        }
        self.done.push(undo);
        failpoint("hook-put");
        Ok(())
    }

    /// Removes a stub and puts the previous hook back.
    pub(super) fn take(&mut self, slot: &Slot) -> Result<(), HooksError> {
        if !is_as_seen(slot) {
            return Err(HooksError::Changed(slot.file.clone()));
        }
        let failed = |err| HooksError::unwritable(&slot.file)(err);
        fail("hook-taken").map_err(failed)?;
        let before = matches!(slot.before, SlotContent::Other(_)).then(|| slot.before_file.clone());
        match &before {
            Some(before) => fs::rename(before, &slot.file),
            None => fs::remove_file(&slot.file),
        }
        .map_err(failed)?;
        self.done.push(match (&slot.now, before) {
            (SlotContent::Stub(stub), before) => Undo::Rewrite {
                file: slot.file.clone(),
                text: stub.text.clone(),
                before,
            },
            _ => Undo::Restore {
                before: slot.file.clone(),
                file: slot.before_file.clone(),
            },
        });
        failpoint("hook-taken");
        Ok(())
    }

    /// Removes the second name of a hook that still has, or has again, its original name.
    pub(super) fn forget(slot: &Slot) -> Result<(), HooksError> {
        fs::remove_file(&slot.before_file).map_err(HooksError::unwritable(&slot.before_file))
    }

    pub(super) fn finish(self) {
        if let Some(lock) = &self.lock {
            // The renames took effect even if the sync fails, so a failure is not reported.
            let _ = rustix::fs::fsync(lock);
        }
    }

    /// Undoes all changes and returns the error to report: `cause`, or the undo failure.
    pub(super) fn undo(self, cause: HooksError) -> HooksError {
        for step in self.done.into_iter().rev() {
            let (file, result) = match step {
                Undo::Forget(file) | Undo::Remove(file) => (file.clone(), fs::remove_file(file)),
                Undo::Restore { before, file } => (file.clone(), fs::rename(before, file)),
                Undo::Rewrite { file, text, before } => {
                    (file.clone(), rewrite(&file, &text, before.as_deref()))
                }
            };
            if let Err(source) = result {
                return HooksError::HalfDone {
                    cause: Box::new(cause),
                    file,
                    source,
                };
            }
        }
        if self.made_folder {
            // Fails when another process has put a file there. The folder must stay then.
            let _ = fs::remove_dir(&self.folder);
        }
        cause
    }
}

fn keep(file: &Path, before: &Path, other: &Other) -> io::Result<()> {
    // A hard link to a symlink is a symlink on Linux. Other systems follow it, and some file
    // systems have no hard links: the hook is copied there.
    match (fs::hard_link(file, before), other.kind) {
        (Err(err), _) if err.kind() == io::ErrorKind::AlreadyExists => Err(err),
        (Err(_), SlotKind::Link) => symlink(fs::read_link(file)?, before),
        (Err(_), SlotKind::File) => {
            let folder = before.parent().unwrap_or(Path::new("."));
            let copy = draft(folder, &other.text)?;
            copy.as_file()
                .set_permissions(fs::symlink_metadata(file)?.permissions())?;
            copy.persist_noclobber(before).map_err(|err| err.error)?;
            Ok(())
        }
        (Ok(()), _) => match SlotContent::at(before) {
            SlotContent::Other(kept) if kept.fingerprint == other.fingerprint => Ok(()),
            // The system followed the symlink.
            _ => {
                fs::remove_file(before)?;
                symlink(fs::read_link(file)?, before)
            }
        },
    }
}

fn rewrite(file: &Path, text: &[u8], before: Option<&Path>) -> io::Result<()> {
    if let (Some(before), SlotContent::Other(other)) = (before, SlotContent::at(file)) {
        keep(file, before, &other)?;
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    draft(folder, text)?
        .persist(file)
        .map_err(|err| err.error)?;
    Ok(())
}

fn draft(folder: &Path, text: &[u8]) -> io::Result<NamedTempFile> {
    // Every user who can read the folder may run the hook, limited by the umask.
    let executable = fs::Permissions::from_mode(0o777);
    let mut draft = tempfile::Builder::new()
        .permissions(executable)
        .prefix(DRAFT)
        .tempfile_in(folder)?;
    draft.write_all(text)?;
    draft.as_file().sync_all()?;
    Ok(draft)
}

/// Removes temporary files of calls that were killed.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(DRAFT.as_bytes())
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_as_seen(slot: &Slot) -> bool {
    match (&slot.now, SlotContent::at(&slot.file)) {
        (SlotContent::Nothing, SlotContent::Nothing) => true,
        (SlotContent::Stub(seen), SlotContent::Stub(found)) => *seen == found,
        (SlotContent::Other(seen), SlotContent::Other(found)) => {
            seen.fingerprint == found.fingerprint
        }
        _ => false,
    }
}
