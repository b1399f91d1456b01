//! Commits made with git itself while a step is open: noted by the hook, taken up by the run.
//!
//! A hook must not write into a journal that another process holds. It leaves a note in the worktree's own folder, and
//! the session that settles the step writes down what it finds there. Notes are nobody's word: only commits that are
//! between where HEAD was and where it is count. Also here: how hooks of piton are told which commits are its own.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::RunError;
use super::session::Session;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::snapshot::Head;
use crate::failpoint::failpoint;
use crate::item::source::read_bytes;
use crate::journal::event::{Event, HandCommit, Maker};
use crate::journal::{Digest, RunId, StepId};

const FOLDER: &str = "commits";
/// More than a note ever holds.
const MOST: u64 = 1024;

/// What a note says, beside its name, which is the commit.
#[derive(Serialize, Deserialize)]
struct Note {
    run: RunId,
    by: Maker,
}

/// Leaves a note about a commit in the folder of a worktree.
pub fn note(own: &Path, run: RunId, made: HandCommit) -> io::Result<()> {
    let folder = own.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    serde_json::to_writer(&mut file, &Note { run, by: made.by })?;
    file.write_all(b"\n")?;
    failpoint("commit-noted");
    file.persist(folder.join(made.commit.to_string())).map_err(|err| err.error)?;
    Ok(())
}

/// The notes about commits that were made during a run, each with its file.
fn notes(own: &Path, run: RunId) -> Vec<(PathBuf, HandCommit)> {
    let Ok(entries) = fs::read_dir(own.join(FOLDER)) else { return Vec::new() };
    let read = |path: PathBuf| {
        let commit: ObjectId = path.file_name()?.to_str()?.parse().ok()?;
        let note: Note = serde_json::from_slice(&read_bytes(&path, MOST).ok()?).ok()?;
        (note.run == run).then_some((path, HandCommit { commit, by: note.by }))
    };
    entries.filter_map(|entry| read(entry.ok()?.path())).collect()
}

impl Session<'_, '_> {
    /// Keeps the commit that a step moved the branch away from, unless the branch still leads to it.
    pub(super) fn keep_old_tip(
        &self,
        checkpointer: &Checkpointer,
        step: u32,
        before: &Head,
        after: &Head,
    ) -> Result<(), RunError> {
        let (repository, Some(old)) = (checkpointer.repository(), before.commit) else { return Ok(()) };
        if after.commit.is_some_and(|new| repository.leads_to(new, old)) {
            return Ok(());
        }
        let left = repository.commits_left_behind(old)?;
        Ok(repository.keep_commits(&StepId { run: self.run, step }.kept("head"), &left)?)
    }

    /// Writes down which of the commits between two states of HEAD were made by hand, as far as a hook has noted them.
    pub(super) fn take_hand_commits(
        &mut self,
        checkpointer: &Checkpointer,
        step: u32,
        before: &Head,
        after: &Head,
    ) -> Result<(), RunError> {
        let notes = notes(&self.folders().own, self.run);
        if notes.is_empty() {
            return Ok(());
        }
        let made = checkpointer.repository().commits_between(before.commit, after.commit).unwrap_or_default();
        let found = |commit: &ObjectId| notes.iter().find(|(_, note)| note.commit == *commit).map(|(_, note)| *note);
        let commits: Vec<HandCommit> = made.iter().filter_map(found).collect();
        if !commits.is_empty() {
            self.record(&Event::HandCommitted { step, commits })?;
        }
        for (path, _) in notes {
            // One that stays is read again and says nothing new.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Says that hooks of the user are about to run, so that those of piton among them know the commit for its own.
    pub(super) fn announce_hooks(&mut self, checkpointer: &mut Checkpointer, step: u32) -> Result<(), RunError> {
        if !checkpointer.expects_hooks(step) {
            return Ok(());
        }
        let token = format!("{:032x}", self.ctx.random_bits());
        self.record(&Event::HooksStarted { step, token: Digest::of(token.as_bytes()) })?;
        checkpointer.arm_hooks(step, token);
        Ok(())
    }
}
