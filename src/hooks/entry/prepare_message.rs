//! `prepare-commit-msg`: adds piton's trailers to a commit made inside a run.

use std::io::Write;

use super::{HookAnswer, HookCall};
use crate::checkpoint::message::MessageDraft;
use crate::error::Error;
use crate::failpoint::failpoint;
use crate::journal::event::CommitMaker;
use crate::run::error::RunError;

pub(super) fn run(call: &HookCall<'_>) -> Result<HookAnswer, Error> {
    let place = call.place()?;
    let Some(active_run) = call.active_run(&place)? else {
        return Ok(HookAnswer::default());
    };
    // A user who commits while a tool runs is not the tool.
    if active_run.by != CommitMaker::Step && !active_run.waits {
        return Ok(HookAnswer::default());
    }
    // A merge contains other people's commits, and a replayed commit already has its message.
    let source = call.arguments.get(1).and_then(|source| source.to_str());
    if matches!(source, Some("merge" | "squash")) || place.is_replaying() {
        return Ok(HookAnswer::default());
    }
    let Some((file, text)) = call.message()? else {
        return Ok(HookAnswer::default());
    };
    let repository = call.open(&place)?;
    // In a reftable these are refs, not files.
    if repository.is_picking().map_err(RunError::from)? {
        return Ok(HookAnswer::default());
    }
    let draft = MessageDraft::new(&text, &repository.comment_mark());
    if !draft.claims().is_empty() {
        return Ok(HookAnswer::default());
    }
    let text = draft
        .with_trailers(active_run.directive(), &active_run.trailers())
        .map_err(RunError::from)?;
    // Write to a temporary file and rename it: if the hook is killed, the message stays as it was.
    let folder = file.parent().unwrap_or(&place.git_dir);
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut new| {
        new.write_all(text.as_bytes())?;
        failpoint("message-written");
        new.persist(&file).map_err(|err| err.error)
    });
    written.map_err(|source| Error::Write { file, source })?;
    Ok(HookAnswer::default())
}
