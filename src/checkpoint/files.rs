//! Reading and removing git's own files, and reading the user's settings beside them.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::unix::fs::OpenOptionsExt;

use super::error::CheckpointError;

/// The size limit for files with git's rules.
const MOST: u64 = 100 * 1024 * 1024;

/// Removes a file if it exists.
pub(crate) fn remove_if_there(path: &Path) -> Result<(), CheckpointError> {
    match std::fs::remove_file(path) {
        Err(err) if err.kind() != ErrorKind::NotFound => {
            Err(CheckpointError::io("remove", path)(err))
        }
        _ => Ok(()),
    }
}

/// Whether the file system does not support this hard link, or not between these folders.
pub(crate) fn is_without_links(err: &io::Error) -> bool {
    let refusals = [
        Errno::XDEV,
        Errno::PERM,
        Errno::ACCESS,
        Errno::MLINK,
        Errno::OPNOTSUPP,
        Errno::NOSYS,
    ];
    Errno::from_io_error(err).is_some_and(|found| refusals.contains(&found))
}

/// The bytes of a file; `None` if it does not exist. Does not block on a pipe.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, CheckpointError> {
    let reading = || CheckpointError::io("read", path);
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(err) => return Err(reading()(err)),
    };
    if !file.metadata().map_err(reading())?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).map_err(reading())?;
    Ok(Some(bytes))
}
