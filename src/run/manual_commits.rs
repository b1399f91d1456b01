//! Commits that the user makes with git while a step is open: a git hook notes them, and the run
//! records them.
//!
//! A hook must not write to a journal that another process holds. It leaves a note in the
//! worktree's own folder, and the session that settles the step reads it. Notes are not trusted:
//! only commits between the old and the new HEAD count. This module also lets piton's own hooks
//! recognize piton's commits.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::RunError;
use super::recorder::Recorder;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::snapshot::Head;
use crate::disk::create_private_folder;
use crate::failpoint::failpoint;
use crate::item::source::read_bytes;
use crate::journal::event::{CommitMaker, Event, HandCommit};
use crate::journal::{Digest, RunId};

const FOLDER: &str = "commits";
/// An upper limit for the size of a note.
const MOST: u64 = 1024;

/// The content of a note; its file name is the commit.
#[derive(Serialize, Deserialize)]
struct CommitNote {
    run: RunId,
    by: CommitMaker,
}

/// Leaves a note about a commit in the folder of a worktree.
pub fn note(own: &Path, run: RunId, made: HandCommit) -> io::Result<()> {
    let folder = own.join(FOLDER);
    create_private_folder(&folder)?;
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    serde_json::to_writer(&mut file, &CommitNote { run, by: made.by })?;
    file.write_all(b"\n")?;
    failpoint("commit-noted");
    file.persist(folder.join(made.commit.to_string()))
        .map_err(|err| err.error)?;
    Ok(())
}

/// The notes about commits that were made during a run, each with its file.
fn notes(own: &Path, run: RunId) -> Vec<(PathBuf, HandCommit)> {
    let Ok(entries) = fs::read_dir(own.join(FOLDER)) else {
        return Vec::new();
    };
    let read = |path: PathBuf| {
        let commit: ObjectId = path.file_name()?.to_str()?.parse().ok()?;
        let note: CommitNote = serde_json::from_slice(&read_bytes(&path, MOST).ok()?).ok()?;
        (note.run == run).then_some((
            path,
            HandCommit {
                commit,
                by: note.by,
            },
        ))
    };
    entries
        .filter_map(|entry| read(entry.ok()?.path()))
        .collect()
}

/// Protects the old tip if a step moved the branch away from it.
pub(super) fn keep_old_tip(
    recorder: &Recorder<'_>,
    checkpointer: &Checkpointer,
    step: u32,
    before: &Head,
    after: &Head,
) -> Result<(), RunError> {
    let (repository, Some(old)) = (checkpointer.repository(), before.commit) else {
        return Ok(());
    };
    if after
        .commit
        .is_some_and(|new| repository.leads_to(new, old))
    {
        return Ok(());
    }
    let left = repository.commits_left_behind(old)?;
    Ok(repository.keep_commits(&recorder.step_id(step).kept("head"), &left)?)
}

/// Records which commits between two states of HEAD were made with git itself, according to the
/// notes.
pub(super) fn take_hand_commits(
    recorder: &mut Recorder<'_>,
    checkpointer: &Checkpointer,
    step: u32,
    before: &Head,
    after: &Head,
) -> Result<(), RunError> {
    let notes = notes(&recorder.folders.own, recorder.run);
    if notes.is_empty() {
        return Ok(());
    }
    let made = checkpointer
        .repository()
        .commits_between(before.commit, after.commit)
        .unwrap_or_default();
    let found = |commit: &ObjectId| {
        notes
            .iter()
            .find(|(_, note)| note.commit == *commit)
            .map(|(_, note)| *note)
    };
    let commits: Vec<HandCommit> = made.iter().filter_map(found).collect();
    if !commits.is_empty() {
        recorder.record(&Event::HandCommitted { step, commits })?;
    }
    for (path, _) in notes {
        // A note that stays is read again, without effect.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Announces that hooks of the user are about to run, so that piton's hooks recognize the
/// commit as piton's own.
pub(super) fn announce_hooks(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    step: u32,
) -> Result<(), RunError> {
    if !checkpointer.expects_hooks(step) {
        return Ok(());
    }
    let token = format!("{:032x}", recorder.ctx.random_bits());
    recorder.record(&Event::HooksStarted {
        step,
        token: Digest::of(token.as_bytes()),
    })?;
    checkpointer.arm_hooks(step, token);
    Ok(())
}
