//! `post-commit`: notes a commit made by hand while a step is open, so that the run can adopt it.

use super::{HookAnswer, HookCall};
use crate::error::Error;
use crate::journal::event::HandCommit;
use crate::run::error::RunError;
use crate::run::manual_commits;

pub(super) fn run(call: &HookCall<'_>) -> Result<HookAnswer, Error> {
    let place = call.place()?;
    let Some(active_run) = call.active_run(&place)? else {
        return Ok(HookAnswer::default());
    };
    let head = call.open(&place)?.head().map_err(RunError::from)?;
    if let Some(commit) = head.commit {
        let own = place.own_folder();
        manual_commits::note(
            &own,
            active_run.step.run,
            HandCommit {
                commit,
                by: active_run.by,
            },
        )
        .map_err(|source| Error::Write { file: own, source })?;
    }
    Ok(HookAnswer::default())
}
