//! Files that no snapshot covers: ignored files, too large files, files of nested repositories, and
//! all files without git.
//!
//! Such a file may be created, and the answer says that it cannot be undone. It may be replaced or
//! moved only if the user turned checkpoints off. A signature may always be written: it leaves the
//! content as it is.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Home, ItemAnswer, ItemEffect, Write};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::coverage::Uncovered;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::path::RepoPath;
use crate::context::Context;
use crate::item::directive::CheckpointMode;
use crate::item::source::read_bytes;
use crate::workspace::open_checkpointer;

/// What to do with a change that cannot be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Refuse it.
    Refused,
    /// Make it: the user turned checkpoints off.
    Accepted,
}

/// A file that no snapshot holds; results show its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct UncoveredFile {
    /// The path relative to the project.
    pub path: PathBuf,
    pub why: Uncovered,
}

impl From<UncoveredFile> for String {
    fn from(file: UncoveredFile) -> Self {
        super::shown(&file.path)
    }
}

impl Loss {
    /// The rule for a checkpoint mode.
    pub(crate) fn of(mode: CheckpointMode) -> Self {
        match mode {
            CheckpointMode::Disabled => Self::Accepted,
            CheckpointMode::Auto | CheckpointMode::Explicit => Self::Refused,
        }
    }
}

/// Refuses changes that could not be undone although checkpoints are on; returns the other files
/// without a snapshot.
pub(crate) fn refuse_loss(
    ctx: &Context,
    effect: &ItemEffect,
) -> Result<Vec<UncoveredFile>, CheckpointError> {
    match open_checkpointer(ctx) {
        Ok(checkpointer) => refuse_loss_by(ctx, &checkpointer, effect),
        Err(err @ CheckpointError::NoRepository(_))
            if effect.at_stake(&ctx.root).next().is_some() =>
        {
            Err(err)
        }
        Err(CheckpointError::NoRepository(_)) => Ok(Vec::new()),
        Err(err) => Err(err),
    }
}

/// As [`refuse_loss`], for a step of a run.
pub(crate) fn refuse_loss_in(
    ctx: &Context,
    checkpointer: Option<&Checkpointer>,
    effect: &ItemEffect,
) -> Result<(), CheckpointError> {
    checkpointer.map_or(Ok(()), |checkpointer| {
        refuse_loss_by(ctx, checkpointer, effect).map(drop)
    })
}

fn refuse_loss_by(
    ctx: &Context,
    checkpointer: &Checkpointer,
    effect: &ItemEffect,
) -> Result<Vec<UncoveredFile>, CheckpointError> {
    let mut found = Vec::new();
    for write in effect
        .writes
        .iter()
        .filter(|write| write.home == Home::Project)
    {
        let size = write
            .content
            .as_ref()
            .map_or(0, |content| content.len() as u64);
        if let Some(why) = why_uncovered(ctx, checkpointer, &write.path, size)? {
            found.push(UncoveredFile {
                path: write.path.clone(),
                why,
            });
        }
    }
    match effect
        .at_stake(&ctx.root)
        .find_map(|path| found.iter().find(|file| file.path == path))
    {
        Some(UncoveredFile { path, why }) => Err(CheckpointError::Uncovered {
            path: path.clone(),
            why: *why,
        }),
        None => Ok(found),
    }
}

/// Why no snapshot holds a file of the project, as it is or with `size` bytes.
pub(super) fn why_uncovered(
    ctx: &Context,
    checkpointer: &Checkpointer,
    path: &Path,
    size: u64,
) -> Result<Option<Uncovered>, CheckpointError> {
    let whole = ctx.root.join(path);
    let Some(inside) = RepoPath::find_below(checkpointer.repository().top(), &whole) else {
        return Ok(None);
    };
    let present = whole.symlink_metadata().map_or(0, |found| found.len());
    checkpointer.uncovered(&inside, size.max(present))
}

impl ItemEffect {
    /// The project files whose content would be moved or deleted. A move must be covered at both
    /// places, or an undo would lose or duplicate the file.
    fn at_stake<'e>(&'e self, root: &'e Path) -> impl Iterator<Item = &'e Path> {
        let keeps_content = matches!(self.answer, ItemAnswer::Sign(_));
        let moves = matches!(
            self.answer,
            ItemAnswer::Migrate(_) | ItemAnswer::MigrateTree(_)
        );
        let is_replaced = move |write: &Write| {
            let path = root.join(&write.path);
            let is_same = || {
                write
                    .content
                    .as_ref()
                    .is_some_and(|content| is_now(&path, content))
            };
            !keeps_content && path.symlink_metadata().is_ok() && !is_same()
        };
        let ours = || {
            self.writes
                .iter()
                .filter(|write| write.home == Home::Project)
        };
        // Existing files first: they are what the user would lose.
        let there = ours().filter(move |write| is_replaced(write));
        let new = ours().filter(move |write| moves && !is_replaced(write));
        there.chain(new).map(|write| write.path.as_path())
    }
}

fn is_now(path: &Path, content: &[u8]) -> bool {
    read_bytes(path, content.len() as u64).is_ok_and(|present| present == content)
}
