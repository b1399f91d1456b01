//! Which files the processes of a step have touched, kept until the step has ended.
//!
//! A log beside the journal of the run is made before the step begins. The supervisors of the step write to it while
//! they watch, so that a recovery can tell the changes of a step that was cut off from those of the user.

use std::fs;
use std::path::{Path, PathBuf};

use super::session::Session;
use crate::audit::history::StepRecord;
use crate::checkpoint::attribution::Doubt;
use crate::exec::supervisor::{Touched, TouchedLog, Watch, Work};
use crate::journal::event::StepKind;

impl Session<'_, '_> {
    /// Begins the log of a step, before the step is written down. `unwatched` is what holds for a step that is not
    /// watched.
    pub(super) fn begin_touched(&self, step: u32, unwatched: Option<&Touched>) {
        if self.checkpointer.is_none() {
            return;
        }
        // Without a log nothing is known after a crash, and that is what a recovery then finds.
        if let (Ok(mut log), Some(unwatched)) = (TouchedLog::create(&self.touched_log(step)), unwatched) {
            log.give_up(unwatched);
        }
    }

    /// Has work watched, as far as it changes files of the work tree or of git.
    pub(super) fn watch(&self, step: u32, work: &mut Work) {
        let Some(checkpointer) = &self.checkpointer else { return };
        let repository = checkpointer.repository();
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        work.watch = Watch::Yes;
        work.within = vec![real(repository.top()), real(repository.git_dir())];
        work.log = Some(self.touched_log(step));
    }

    /// Everything that changes counts as the step's from now on: a process is about to run that is not watched.
    pub(super) fn give_up_touched(&self, step: u32) {
        if let Ok(mut log) = TouchedLog::open(&self.touched_log(step)) {
            log.give_up(&Touched::Everything);
        }
    }

    /// What a step has touched so far, where its supervisor cannot say it any more.
    pub(super) fn touched_so_far(&self, step: u32) -> Touched {
        TouchedLog::read(&self.touched_log(step))
    }

    /// Forgets what a step has touched, because it has ended.
    pub(super) fn forget_touched(&self, step: u32) {
        // A log that stays is never read again: the journal says that the step has ended.
        let _ = fs::remove_file(self.touched_log(step));
    }

    /// What a step touched that was cut off.
    pub(super) fn recall_touched(&self, step: &StepRecord) -> Touched {
        if !matches!(step.kind, StepKind::Command { .. } | StepKind::Tool(_)) {
            return Touched::Everything;
        }
        match self.touched_so_far(step.id.step) {
            // What it changed was found and written down before.
            Touched::Unknown(Doubt::Lost) if step.after.is_some() => Touched::Everything,
            touched => touched,
        }
    }

    fn touched_log(&self, step: u32) -> PathBuf {
        self.folders().runs.join(self.run.to_string()).join(format!("touched-{step}"))
    }
}
