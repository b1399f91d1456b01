//! The marker of the unfinished run of a directive in a worktree.
//!
//! It exists from the start of such a run to its end, even while the run waits and no process holds
//! the lock. It keeps other directives from starting, and tells other commands which step is open.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::error::RunError;
use super::resume_point::ResumePoint;
use crate::audit::history::RunRecord;
use crate::item::source::{Unread, read_bytes};
use crate::journal::event::Wait;
use crate::journal::{JournalError, RunId, StepId};
use crate::workspace::RunFolders;

/// The file name. Hooks rely on this: the file exists only while a run is unfinished.
pub const FILE: &str = "run";
/// An upper limit for the size of a marker.
const MOST: u64 = 1024;

/// An unfinished run.
#[derive(Clone, Debug)]
pub struct WaitingRun {
    pub run: RunId,
    pub name: String,
    /// The waiting step.
    pub step: Option<StepId>,
    pub step_name: Option<String>,
    /// What it waits for; `None` if the run was interrupted between two steps.
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

/// The unfinished run of a directive in this worktree.
pub(crate) fn find(folders: &RunFolders) -> Result<Option<WaitingRun>, RunError> {
    let Some(run) = named(&folders.own)? else {
        return Ok(None);
    };
    let resume_point = match ResumePoint::load(&folders.runs, run) {
        Err(JournalError::NoRun(_)) => return Ok(None),
        loaded => loaded?,
    };
    // The run ended or never began, and the process died before it could remove the marker.
    Ok(resume_point
        .run()
        .filter(|record| record.is_open())
        .map(WaitingRun::of))
}

pub(super) fn named(own: &Path) -> Result<Option<RunId>, RunError> {
    match read_bytes(&own.join(FILE), MOST) {
        Ok(bytes) => Ok(std::str::from_utf8(&bytes)
            .ok()
            .and_then(|text| text.trim().parse().ok())),
        Err(Unread::Failed(err)) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(RunError::Marker(io::Error::other(err))),
    }
}

/// Marks a run as begun. The caller must hold the lock of the worktree.
pub(super) fn set(folders: &RunFolders, run: RunId) -> Result<(), RunError> {
    let mut file = tempfile::NamedTempFile::new_in(&folders.own).map_err(RunError::Marker)?;
    writeln!(file, "{run}")
        .and_then(|()| folders.disk.stage(file.as_file()))
        .map_err(RunError::Marker)?;
    file.persist(folders.own.join(FILE))
        .map_err(|err| RunError::Marker(err.error))?;
    Ok(())
}

/// Removes the marker of a run.
pub(super) fn clear(folders: &RunFolders, run: RunId) -> Result<(), RunError> {
    if named(&folders.own)? != Some(run) {
        return Ok(());
    }
    match fs::remove_file(folders.own.join(FILE)) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(RunError::Marker(err)),
        _ => Ok(()),
    }
}
