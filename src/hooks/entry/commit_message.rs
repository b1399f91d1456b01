//! `commit-msg`: refuses `Piton-*` trailers that piton did not write.
//!
//! A trailer is forged when its run is unknown here, or when piton never writes such a trailer.
//! Amended, picked and squashed commits of known runs pass: whether they still match the record is
//! checked by `verify`.

use super::{HookAnswer, HookCall};
use crate::checkpoint::hook_environment::HookEnvironment;
use crate::checkpoint::message::{MessageDraft, Trailers};
use crate::checkpoint::repository::Repository;
use crate::error::Error;
use crate::item::wording::shown;
use crate::journal::{self, RunId};
use crate::problem::Code;
use crate::run::error::RunError;

const REMOVE: &str = "remove the lines that begin with `Piton-`";

pub(super) fn run(call: &HookCall<'_>) -> Result<HookAnswer, Error> {
    let Some((_, text)) = call
        .message()?
        .filter(|(_, text)| MessageDraft::may_concern_us(text))
    else {
        return Ok(HookAnswer::default());
    };
    let place = call.place()?;
    let repository = call.open(&place)?;
    let draft = MessageDraft::new(&text, &repository.comment_mark());
    let claims = draft.claims();
    if claims.is_empty() {
        return Ok(HookAnswer::default());
    }
    if draft.is_empty() {
        let message = "the message is empty apart from the trailers of piton".to_owned();
        return Ok(HookAnswer::refused(
            Code::EmptyMessage,
            message,
            "write a subject above them",
        ));
    }
    let runs: Vec<&str> = claims
        .iter()
        .filter(|(name, _)| name == "Piton-Run")
        .map(|(_, run)| run.as_str())
        .collect();
    if let Some(message) = malformed(&draft.text(), &runs) {
        let hint = format!("{REMOVE}, or restore all of them as piton wrote them");
        return Ok(HookAnswer::refused(Code::ForgedTrailer, message, hint));
    }
    for run in runs {
        if !is_known(&repository, &place, run)? {
            let message = format!(
                "`Piton-Run: {}` names a run that is unknown here",
                shown(run)
            );
            let hint = format!(
                "`piton fetch REMOTE` brings the log of a run that happened elsewhere; otherwise {REMOVE}"
            );
            return Ok(HookAnswer::refused(Code::ForgedTrailer, message, hint));
        }
    }
    Ok(HookAnswer::default())
}

/// Returns why the trailers cannot be from piton.
fn malformed(text: &str, runs: &[&str]) -> Option<String> {
    if runs.is_empty() {
        return Some("there are `Piton-` trailers and no `Piton-Run` among them".to_owned());
    }
    if let Some(run) = runs.iter().find(|run| run.parse::<RunId>().is_err()) {
        return Some(format!(
            "`Piton-Run: {}` is not the name of a run",
            shown(run)
        ));
    }
    // A squash may combine the trailers of several commits.
    if runs.len() > 1 {
        return None;
    }
    match Trailers::find(text) {
        Some(trailers) if trailers.is_well_formed() => None,
        Some(_) => Some("`Piton-Step` or `Piton-Journal` is not as piton writes it".to_owned()),
        None => {
            Some("`Piton-Run` stands there without `Piton-Step` and `Piton-Journal`, or one of them twice".to_owned())
        }
    }
}

/// Returns true when the run was made here or its log was fetched.
fn is_known(repository: &Repository, place: &HookEnvironment, run: &str) -> Result<bool, Error> {
    let Ok(id) = run.parse::<RunId>() else {
        return Ok(false);
    };
    if journal::path_of(&place.runs_folder(), id).exists() {
        return Ok(true);
    }
    Ok(repository
        .find_trail(&id.to_string())
        .map_err(RunError::from)?
        .is_some())
}
