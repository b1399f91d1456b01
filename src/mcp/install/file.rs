//! A settings file of somebody else, read and replaced as a whole.
//!
//! The new text is written beside the file and moved there, so that a reader sees the old one or the new one.
//! A file that is a link stays one: what it leads to is replaced, as people keep their settings elsewhere.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{InstallError, Scope};
use crate::item::source::{Unread, leaves, read_bytes};

/// The most that is read: some clients keep their history in the same file.
const MOST: u64 = 64 * 1024 * 1024;

/// The text of a file; nothing where there is none.
pub(super) fn read(file: &Path) -> Result<Option<String>, InstallError> {
    let unclear = |problem: String| InstallError::Unclear { file: file.to_path_buf(), problem };
    match read_bytes(file, MOST) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(unclear("it is not UTF-8".to_owned())),
        },
        Err(Unread::Failed(err)) if err.kind() == io::ErrorKind::NotFound => match dangling(file) {
            Some(link) => Err(InstallError::Dangling(link)),
            None => Ok(None),
        },
        Err(err) => Err(unclear(err.to_string())),
    }
}

/// Refuses settings of a project that are elsewhere: a cloned project must not choose what is written to.
pub(super) fn require_inside(file: &Path, root: &Path) -> Result<(), InstallError> {
    let folder = file.parent().unwrap_or(root);
    match [folder, file].into_iter().find(|path| leaves(path, root)) {
        Some(path) => Err(InstallError::Leaves(path.to_path_buf())),
        None => Ok(()),
    }
}

/// Replaces the text that was read before with another.
pub(super) fn replace(file: &Path, old: Option<&str>, new: &str, scope: Scope) -> Result<(), InstallError> {
    let unwritable = |source| InstallError::Unwritable { file: file.to_path_buf(), source };
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let mode = match fs::metadata(&target) {
        Ok(found) if found.permissions().readonly() => return Err(InstallError::ReadOnly(target)),
        Ok(found) => Some(found.permissions()),
        Err(_) => None,
    };
    let folder = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(unwritable)?;
    // Settings of a user may hold secrets of other servers; those of a project are as any file in it.
    let fresh = Permissions::from_mode(if scope == Scope::User { 0o600 } else { 0o666 });
    let prepared = || -> io::Result<tempfile::NamedTempFile> {
        let mut draft = tempfile::Builder::new().permissions(fresh).prefix(".piton-").tempfile_in(folder)?;
        draft.write_all(new.as_bytes())?;
        if let Some(mode) = mode {
            draft.as_file().set_permissions(mode)?;
        }
        draft.as_file().sync_all()?;
        Ok(draft)
    };
    // The name of the draft, which the error tells, would tell nobody anything.
    let draft = prepared().map_err(|err| unwritable(err.kind().into()))?;
    // Clients that are running write their settings too. A moment remains, but no longer that of parsing and syncing.
    if read(file)?.as_deref() != old {
        return Err(InstallError::Changed(file.to_path_buf()));
    }
    draft.persist(&target).map_err(|err| unwritable(err.error))?;
    Ok(())
}

/// The link on the way to a file, or the file itself, that leads to nothing.
fn dangling(file: &Path) -> Option<PathBuf> {
    let link = file.ancestors().find(|part| fs::symlink_metadata(part).is_ok())?;
    fs::metadata(link).is_err().then(|| link.to_path_buf())
}
