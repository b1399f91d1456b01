//! Whether the records of a journal may be relied on.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::geteuid;

use super::chain::{self, Digest};
use super::ends::{KnownEnd, KnownEnds};
use super::error::JournalError;
use super::id::RunId;
use super::key::{Authenticity, JournalKey, TagCheck, TagDemand};
use super::record::{read, read_each};

/// Fails if a journal was changed by another process: its chain, its tags or its end. Journals of
/// other users of a shared repository are accepted, because only they have the keys.
pub fn require_authentic(
    runs: &Path,
    run: RunId,
    key: Option<&JournalKey>,
) -> Result<(), JournalError> {
    let path = super::path_of(runs, run);
    let known = key.and_then(|key| KnownEnds::read(key, runs).of(run));
    let (mut lines, mut head) = (0, Digest::of_run(run));
    let (mut is_whole, mut reaches_end) = (true, known.is_none());
    let mut tags = TagCheck::new(key);
    read_each(&path, &mut |record| {
        is_whole &= chain::follows(&record, run, lines, head);
        tags.take(&record);
        (lines, head) = (lines + 1, record.digest);
        reaches_end |= known == Some(KnownEnd { lines, head });
    })?;
    if !is_whole {
        return match chain::verify(&read(&path)?.records, run) {
            Err(found) => Err(JournalError::Broken { path, found }),
            Ok(_) => Err(JournalError::Changed(path)),
        };
    }
    if tags.found() == Some(Authenticity::OtherKey) && is_of_another_user(&path) {
        return Ok(());
    }
    tags.demand(TagDemand::NoForeignLine, run.started(), &path)?;
    match known {
        Some(KnownEnd { lines: known, .. }) if !reaches_end => {
            Err(JournalError::Shortened { path, lines, known })
        }
        _ => Ok(()),
    }
}

/// Whether a journal belongs to another user of a shared repository. Tools cannot give files away.
pub fn is_of_another_user(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.uid() != geteuid().as_raw())
}
