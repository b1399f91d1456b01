//! A person accepts a journal that has lines of unknown origin.
//!
//! [`inspect`] names the lines, [`accept`] authenticates all of them with the user's key, so that
//! the run can continue. Who accepted which line is recorded in a journal of its own.

use super::consent::approver;
use super::error::RunError;
use super::rewrite;
use super::worktree_lock::{WorktreeLock, refuse_inside};
use crate::context::Context;
use crate::journal::event::{Consent, ConsentTo, ConsentedItem, Event};
use crate::journal::lock::Holder;
use crate::journal::{
    self, Authenticity, Digest, JournalError, KnownEnds, Record, RunId, TagCheck,
};
use crate::workspace::{RunFolders, key_file, open_repository};

/// The lines of a journal that are not known to be of piton.
#[derive(Clone, Debug)]
pub struct UnknownLines {
    pub run: RunId,
    /// Each with its number and its public part.
    pub lines: Vec<(u64, String)>,
    /// The number of a line that was written and is missing, if the end was removed.
    pub missing: Option<u64>,
    /// The hash of the last line.
    head: Digest,
}

/// Finds the lines that a person has to accept before a run can continue; none if there are none.
pub fn inspect(ctx: &Context, run: RunId) -> Result<Option<UnknownLines>, RunError> {
    let runs = RunFolders::of_project(ctx).runs;
    let path = journal::path_of(&runs, run);
    let records = journal::read(&path)?.records;
    let head =
        journal::verify(&records, run).map_err(|found| JournalError::Broken { path, found })?;
    let key = key_file(ctx).read()?;
    let mut tags = TagCheck::new(key.as_ref());
    for record in &records {
        tags.take(record);
    }
    let count = records.len() as u64;
    let end = key
        .as_ref()
        .and_then(|key| KnownEnds::read(key, &runs).of(run));
    let missing = end.map(|end| end.lines).filter(|lines| *lines > count);
    let known = match tags.found() {
        None | Some(Authenticity::Authenticated) if missing.is_some() => count,
        None | Some(Authenticity::Authenticated) => return Ok(None),
        Some(Authenticity::Unauthenticated | Authenticity::OtherKey) => 0,
        Some(Authenticity::Foreign(line)) => line - 1,
    };
    let shown = |record: &Record| (record.seq, record.public().to_owned());
    let lines = records.iter().filter(|record| record.seq > known);
    Ok(Some(UnknownLines {
        run,
        lines: lines.map(shown).collect(),
        missing,
        head,
    }))
}

/// Authenticates a journal as a person has seen it.
pub fn accept(ctx: &Context, unknown: &UnknownLines) -> Result<RunId, RunError> {
    let repository = open_repository(ctx)?;
    let folders = RunFolders::of(ctx, Some(&repository));
    // A tool that runs inside a run must not accept in the user's name.
    refuse_inside(ctx, &folders.own)?;
    let approver = approver(ctx, Some(&repository)).ok_or(RunError::PersonNeeded)?;
    let key = key_file(ctx).read_or_create(ctx.now())?;
    let key = key.ok_or_else(|| JournalError::OtherKey(folders.runs.clone()))?;
    let now = ctx.now();
    let holder = Holder::of_process(RunId::new(now, ctx.random_bits()), now);
    let lock = WorktreeLock::acquire(ctx, &holder, &folders, std::time::Duration::ZERO)?;
    let accepted = journal::accept_lines(&folders.runs, unknown.run, &key, unknown.head);
    if lock.unfinished().is_empty() {
        lock.release()?;
    } else {
        // Interrupted runs stay listed for the next recovery.
        drop(lock);
    }
    accepted?;
    let consent = Consent {
        to: ConsentTo::Continue,
        items: vec![ConsentedItem {
            item_type: "run".to_owned(),
            id: unknown.run.to_string(),
            content: unknown.head.to_string(),
        }],
        approver,
    };
    let command = [
        "piton",
        "recover",
        "--trust-journal",
        &unknown.run.to_string(),
    ]
    .map(str::to_owned)
    .to_vec();
    rewrite::write(
        ctx,
        &repository,
        "recover",
        command,
        vec![Event::Consented(consent)],
    )
}
