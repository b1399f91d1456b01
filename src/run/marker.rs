//! The note that says which run of a directive is not finished in a worktree.
//!
//! It is there from the start of such a run to its end, also while the run waits and no process holds the lock:
//! no other directive may begin meanwhile, and commands beside it know which step they are beside.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::error::RunError;
use super::session::Folders;
use super::standing::Standing;
use crate::audit::history::RunRecord;
use crate::item::source::{Unread, read_bytes};
use crate::journal::event::Wait;
use crate::journal::{JournalError, RunId, StepId};

/// Its name; there only while a run is not finished, which hooks rely on.
pub const FILE: &str = "run";
/// More than a note ever holds.
const MOST: u64 = 1024;

/// A run that is not finished.
#[derive(Clone, Debug)]
pub struct WaitingRun {
    /// The run.
    pub run: RunId,
    /// What it is called.
    pub name: String,
    /// The step that waits.
    pub step: Option<StepId>,
    /// The name of that step.
    pub step_name: Option<String>,
    /// What it waits for; none when it was cut off between two steps.
    pub wait: Option<Wait>,
}

impl WaitingRun {
    fn of(record: &RunRecord) -> Self {
        let open = record.steps.last().filter(|step| step.status.is_none());
        Self {
            run: record.id,
            name: record.name.clone(),
            step: open.map(|step| step.id),
            step_name: open.map(|step| step.name.clone()),
            wait: open.and_then(|step| step.wait.clone()),
        }
    }
}

/// The run of a directive that is not finished here.
pub(super) fn find(folders: &Folders) -> Result<Option<WaitingRun>, RunError> {
    let Some(run) = named(&folders.own)? else { return Ok(None) };
    let standing = match Standing::load(&folders.runs, run) {
        Err(JournalError::NoRun(_)) => return Ok(None),
        loaded => loaded?,
    };
    // One that ended, or never began, and died before it could take the note away.
    Ok(standing.run().filter(|record| record.is_open()).map(WaitingRun::of))
}

pub(super) fn named(own: &Path) -> Result<Option<RunId>, RunError> {
    match read_bytes(&own.join(FILE), MOST) {
        Ok(bytes) => Ok(std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok())),
        Err(Unread::Failed(err)) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(RunError::Marker(io::Error::other(err))),
    }
}

/// Says that a run has begun. The lock of the worktree must be held.
pub(super) fn set(folders: &Folders, run: RunId) -> Result<(), RunError> {
    let mut file = tempfile::NamedTempFile::new_in(&folders.own).map_err(RunError::Marker)?;
    writeln!(file, "{run}").and_then(|()| folders.disk.stage(file.as_file())).map_err(RunError::Marker)?;
    file.persist(folders.own.join(FILE)).map_err(|err| RunError::Marker(err.error))?;
    Ok(())
}

/// Says that a run has ended.
pub(super) fn clear(folders: &Folders, run: RunId) -> Result<(), RunError> {
    if named(&folders.own)? != Some(run) {
        return Ok(());
    }
    match fs::remove_file(folders.own.join(FILE)) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(RunError::Marker(err)),
        _ => Ok(()),
    }
}
