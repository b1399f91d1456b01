//! The files that the processes of a step have touched, kept until the step has ended.
//!
//! A log beside the journal is created before the step begins. The supervisors of the step write to
//! it, so that a recovery can tell the changes of an interrupted step from those of the user.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::recorder::Recorder;
use crate::audit::history::StepRecord;
use crate::checkpoint::attribution::Doubt;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::repository::Repository;
use crate::disk::Disk;
use crate::exec::supervisor::{Touched, TouchedLog, Watch, Work};
use crate::item::source::read_bytes;
use crate::journal::event::StepKind;

/// The largest definition of a sparse checkout that is read.
const LARGEST_DEFINITION: u64 = 64 * 1024 * 1024;

/// Starts the log of a step with snapshots, before the step is recorded. `unwatched` is the content
/// for a step without a write monitor.
pub(super) fn begin(recorder: &Recorder<'_>, step: u32, unwatched: Option<&Touched>) {
    // Without a log, a recovery finds that nothing is known.
    if let (Ok(mut log), Some(unwatched)) =
        (TouchedLog::create(&log_file(recorder, step)), unwatched)
    {
        log.give_up(unwatched);
    }
}

/// Begins the log of a step of piton's own that writes these paths and the index.
pub(super) fn log_written(
    recorder: &Recorder<'_>,
    step: u32,
    paths: impl IntoIterator<Item = PathBuf>,
) {
    if let Ok(mut log) = TouchedLog::create(&log_file(recorder, step)) {
        log.note(paths);
    }
}

/// Turns on the write monitor if the work may change files of the work tree or of git.
pub(super) fn watch(recorder: &Recorder<'_>, repository: &Repository, step: u32, work: &mut Work) {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    work.watch = Watch::Yes;
    work.within = vec![real(repository.top()), real(repository.git_dir())];
    work.within.extend(repository.other_worktrees());
    work.log = Some(log_file(recorder, step));
}

/// From now on every change counts as the step's: a process without a write monitor is about to
/// run.
pub(super) fn give_up(recorder: &Recorder<'_>, step: u32) {
    if let Ok(mut log) = TouchedLog::open(&log_file(recorder, step)) {
        log.give_up(&Touched::Everything);
    }
}

/// The files that a step has touched so far, from the log; used when the supervisor cannot
/// report them.
pub(super) fn so_far(recorder: &Recorder<'_>, step: u32) -> Touched {
    TouchedLog::read(&log_file(recorder, step))
}

/// Deletes the log of a step that has ended.
pub(super) fn forget(recorder: &Recorder<'_>, step: u32) {
    // A leftover log is never read: the journal says that the step has ended.
    let _ = fs::remove_file(log_file(recorder, step));
    let _ = fs::remove_file(definition_file(recorder, step));
}

/// Saves the definition of the sparse checkout before a step that could change it, for a recovery.
pub(super) fn save_definition(
    recorder: &Recorder<'_>,
    checkpointer: &Checkpointer,
    step: u32,
    kind: &StepKind,
) {
    if is_watched(kind) {
        // Without the file a recovery leaves the definition as it is.
        if let Some(saved) = checkpointer.saved_definition() {
            let file = definition_file(recorder, step);
            let _ = if checkpointer.is_sparse() {
                // It is on disk before the step begins, so that it survives a power loss.
                write_staged(&recorder.folders.disk, &file, &saved)
            } else {
                fs::write(&file, saved)
            };
        }
    }
}

fn write_staged(disk: &Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    disk.stage(&file)?;
    disk.stage_folder(path.parent().unwrap_or(path))
}

/// Lets a roll back put the definition of the sparse checkout back that an interrupted step changed.
pub(super) fn recall_definition(
    recorder: &Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: &StepRecord,
) {
    let git_dir = checkpointer.repository().git_dir().to_path_buf();
    let is_own =
        is_watched(&step.kind) && touches_definition(&so_far(recorder, step.id.step), &git_dir);
    // That of a run which was recovered before says nothing about this one.
    checkpointer.leave_definition();
    let saved = read_bytes(&definition_file(recorder, step.id.step), LARGEST_DEFINITION);
    if is_own && let Ok(saved) = saved {
        checkpointer.expect_definition(&saved);
    }
}

/// The files that an interrupted step has touched.
pub(super) fn recall(recorder: &Recorder<'_>, step: &StepRecord) -> Touched {
    if is_reversal(&step.kind) {
        // Earlier versions kept no log of these steps, and a restart of the machine loses it.
        return match so_far(recorder, step.id.step) {
            Touched::Unknown(_) => Touched::Everything,
            touched => touched,
        };
    }
    if !is_watched(&step.kind) {
        return Touched::Everything;
    }
    match so_far(recorder, step.id.step) {
        // Its changes were determined and recorded before.
        Touched::Unknown(Doubt::Lost) if step.after.is_some() => Touched::Everything,
        touched => touched,
    }
}

fn log_file(recorder: &Recorder<'_>, step: u32) -> PathBuf {
    recorder
        .folders
        .runs
        .join(recorder.run.to_string())
        .join(format!("touched-{step}"))
}

fn definition_file(recorder: &Recorder<'_>, step: u32) -> PathBuf {
    log_file(recorder, step).with_file_name(format!("sparse-{step}"))
}

/// Whether a supervisor watches which files a step touches.
fn is_watched(kind: &StepKind) -> bool {
    matches!(kind, StepKind::Command { .. } | StepKind::Tool(_))
}

/// Whether a step takes others back or applies them again: it knows what it writes.
fn is_reversal(kind: &StepKind) -> bool {
    matches!(
        kind,
        StepKind::Undo { .. }
            | StepKind::Redo { .. }
            | StepKind::Apply { .. }
            | StepKind::Restore { .. }
    )
}

/// Whether a step touched what defines the sparse checkout.
pub(super) fn touches_definition(touched: &Touched, git_dir: &Path) -> bool {
    ["info/sparse-checkout", "config.worktree", "config"]
        .iter()
        .any(|name| touched.has(&git_dir.join(name)))
}
