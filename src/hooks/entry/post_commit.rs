//! `post-commit`: notes a commit made by hand while a step is open, so that the run can adopt it.

use super::{Answer, HookCall};
use crate::error::Error;
use crate::journal::event::HandCommit;
use crate::run::error::RunError;
use crate::run::hand;

pub(super) fn run(call: &HookCall<'_>) -> Result<Answer, Error> {
    let place = call.place()?;
    let Some(presence) = call.presence(&place)? else { return Ok(Answer::default()) };
    let head = call.open(&place)?.head().map_err(RunError::from)?;
    if let Some(commit) = head.commit {
        let own = place.own_folder();
        hand::note(&own, presence.step.run, HandCommit { commit, by: presence.by })
            .map_err(|source| Error::Write { file: own, source })?;
    }
    Ok(Answer::default())
}
