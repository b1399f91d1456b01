//! Which repository a run belongs to.
//!
//! A run continues in the repository where it began, also after that was renamed or moved. A copy
//! of the repository has a copy of its runs: those are read there, and can be ended, but never
//! continued, or one approval would count twice.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::error::RunError;
use crate::audit::history::RunRecord;
use crate::checkpoint::repository::Repository;
use crate::item::source::read_bytes;
use crate::journal::RunId;
use crate::journal::event::RepositoryIdentity;

/// The file with the id of a repository, in piton's folder.
const FILE: &str = "id";
/// Longer than an id.
const MOST: u64 = 256;

/// The identity of a repository for the start of a run, which gives it an id if it has none yet.
pub(super) fn identify(
    repository: &Repository,
    run: RunId,
) -> Result<RepositoryIdentity, RunError> {
    let git_dir = common_dir(repository);
    let file = git_dir.join("piton").join(FILE);
    if read_id(&git_dir).is_none() {
        // The id of the first run is as random as an id has to be.
        let new = tempfile::NamedTempFile::new_in(git_dir.join("piton"))
            .and_then(|new| fs::write(new.path(), format!("{run}\n")).map(|()| new))
            .map_err(RunError::Marker)?;
        // Another run may have given one meanwhile: then that one counts.
        let _ = new.persist_noclobber(&file);
    }
    let found = fs::metadata(&git_dir).map_err(RunError::Marker)?;
    Ok(RepositoryIdentity {
        id: read_id(&git_dir).unwrap_or_default(),
        device: found.dev(),
        inode: found.ino(),
        git_dir: git_dir.to_string_lossy().into_owned(),
    })
}

/// Refuses to continue a run that began in another repository.
pub(super) fn require_own(repository: &Repository, record: &RunRecord) -> Result<(), RunError> {
    match &record.repository {
        Some(origin) if !is_at(origin, &common_dir(repository)) => Err(RunError::Copied {
            run: record.id,
            original: PathBuf::from(&origin.git_dir),
        }),
        _ => Ok(()),
    }
}

/// Whether a git directory is the one where a run began.
fn is_at(origin: &RepositoryIdentity, git_dir: &Path) -> bool {
    let Ok(found) = fs::metadata(git_dir) else {
        return false;
    };
    if (found.dev(), found.ino()) == (origin.device, origin.inode) {
        return true;
    }
    if read_id(git_dir).is_none_or(|id| id != origin.id) {
        return false;
    }
    let recorded = Path::new(&origin.git_dir);
    if recorded == git_dir {
        // Put back from a backup, or the system numbers its devices anew.
        return true;
    }
    // A move on one file system keeps the inode, so this is a copy. On another one it is a copy as
    // long as the original is where it was.
    found.dev() != origin.device && read_id(recorded).is_none_or(|id| id != origin.id)
}

fn common_dir(repository: &Repository) -> PathBuf {
    let runs = repository.runs_folder();
    let folder = runs.parent().and_then(Path::parent).unwrap_or(&runs);
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf())
}

fn read_id(git_dir: &Path) -> Option<String> {
    let bytes = read_bytes(&git_dir.join("piton").join(FILE), MOST).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}
