//! Reads and replaces the settings file of a client.
//!
//! The new text is written to a temporary file that is renamed, so a reader sees the old or the new
//! text. A symbolic link stays a link and its target is replaced, because some people keep their
//! settings elsewhere.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{InstallError, InstallScope};
use crate::item::source::{Unread, leaves, read_bytes};

/// The largest file that is read. Some clients keep their history in the same file.
const MOST: u64 = 64 * 1024 * 1024;

/// The text of a file; none if it does not exist.
pub(super) fn read(file: &Path) -> Result<Option<String>, InstallError> {
    let unclear = |problem: String| InstallError::Unclear {
        file: file.to_path_buf(),
        problem,
    };
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

/// Refuses project settings outside the project: a cloned project must not choose where piton
/// writes.
pub(super) fn require_inside(file: &Path, root: &Path) -> Result<(), InstallError> {
    let folder = file.parent().unwrap_or(root);
    match [folder, file].into_iter().find(|path| leaves(path, root)) {
        Some(path) => Err(InstallError::Leaves(path.to_path_buf())),
        None => Ok(()),
    }
}

/// Replaces the text that was read before.
pub(super) fn replace(
    file: &Path,
    old: Option<&str>,
    new: &str,
    scope: InstallScope,
) -> Result<(), InstallError> {
    let unwritable = |source| InstallError::Unwritable {
        file: file.to_path_buf(),
        source,
    };
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let mode = match fs::metadata(&target) {
        Ok(found) if found.permissions().readonly() => return Err(InstallError::ReadOnly(target)),
        Ok(found) => Some(found.permissions()),
        Err(_) => None,
    };
    let folder = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(unwritable)?;
    // User settings may hold secrets of other servers. Project settings are ordinary files.
    let fresh = Permissions::from_mode(if scope == InstallScope::User {
        0o600
    } else {
        0o666
    });
    let prepared = || -> io::Result<tempfile::NamedTempFile> {
        let mut draft = tempfile::Builder::new()
            .permissions(fresh)
            .prefix(".piton-")
            .tempfile_in(folder)?;
        draft.write_all(new.as_bytes())?;
        if let Some(mode) = mode {
            draft.as_file().set_permissions(mode)?;
        }
        draft.as_file().sync_all()?;
        Ok(draft)
    };
    // Drop the error's path: the name of the temporary file does not help the user.
    let draft = prepared().map_err(|err| unwritable(err.kind().into()))?;
    // Running clients write their settings too. Checking this late keeps the time for a lost update
    // short.
    if read(file)?.as_deref() != old {
        return Err(InstallError::Changed(file.to_path_buf()));
    }
    draft
        .persist(&target)
        .map_err(|err| unwritable(err.error))?;
    Ok(())
}

/// The first dangling symbolic link on the path.
fn dangling(file: &Path) -> Option<PathBuf> {
    let link = file
        .ancestors()
        .find(|part| fs::symlink_metadata(part).is_ok())?;
    fs::metadata(link).is_err().then(|| link.to_path_buf())
}
