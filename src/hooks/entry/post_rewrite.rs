//! `post-rewrite`: records which commit replaced a checkpoint after a rebase or an amend.

use super::{HookAnswer, HookCall};
use crate::checkpoint::object::ObjectId;
use crate::context::Context;
use crate::error::Error;
use crate::run::error::RunError;
use crate::run::rewrite::{self, RewriteOutcome};

pub(super) fn run(call: &HookCall<'_>) -> Result<HookAnswer, Error> {
    let told = call.arguments.first().map(std::ffi::OsString::as_os_str);
    let cause = told.or_else(|| call.environment.find("PRE_COMMIT_REWRITE_COMMAND"));
    let cause = cause
        .and_then(|cause| cause.to_str())
        .unwrap_or("rebase")
        .to_owned();
    let place = call.place()?;
    let repository = call.open(&place)?;
    let mut pairs = pairs(call.input);
    if pairs.is_empty() {
        // A hook manager may not pass git's input on to us.
        pairs = repository.guess_replaced(&cause).map_err(RunError::from)?;
    }
    let replaced = repository.replacements(&pairs).map_err(RunError::from)?;
    if replaced.is_empty() {
        return Ok(HookAnswer::default());
    }
    let ctx = Context::anywhere(call.environment.clone(), None)?;
    let mut answer = HookAnswer::default();
    if let RewriteOutcome::Run { changed, .. } =
        rewrite::record(&ctx, &repository, &cause, &replaced)?
    {
        answer.notes = changed
            .iter()
            .map(|(step, new)| {
                format!(
                    "commit {} changes something else than the checkpoint of `{step}`",
                    new.short()
                )
            })
            .collect();
    }
    Ok(answer)
}

/// Parses the old and new commit of each line that git writes.
fn pairs(input: &[u8]) -> Vec<(ObjectId, ObjectId)> {
    let text = String::from_utf8_lossy(input);
    let pair = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}
