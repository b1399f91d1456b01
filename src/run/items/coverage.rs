//! What no snapshot covers: files that git ignores, and everything where there is no git.
//!
//! Such a file may be made, and the answer says that nothing will take it back. It is replaced or moved
//! away only by somebody who goes without checkpoints on purpose. A signature may always be written:
//! it leaves the content as it is.

use std::path::{Path, PathBuf};

use super::{Home, ItemAnswer, ItemEffect, Write};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::path::RepoPath;
use crate::context::Context;
use crate::item::source::read_bytes;
use crate::run::session::open_checkpointer;

/// The files of the project that would be written and that git ignores; none where there is no git.
pub(super) fn ignored(ctx: &Context, effect: &ItemEffect) -> Result<Vec<PathBuf>, CheckpointError> {
    match open_checkpointer(ctx) {
        Ok(checkpointer) => ignored_by(ctx, &checkpointer, effect),
        Err(CheckpointError::NoRepository(_)) => Ok(Vec::new()),
        Err(err) => Err(err),
    }
}

/// As [`ignored`], in a repository that is open.
fn ignored_by(
    ctx: &Context,
    checkpointer: &Checkpointer,
    effect: &ItemEffect,
) -> Result<Vec<PathBuf>, CheckpointError> {
    let top = checkpointer.repository().top();
    let mut found = Vec::new();
    for write in effect.writes.iter().filter(|write| write.home == Home::Project) {
        let Some(path) = RepoPath::find_below(top, &ctx.root.join(&write.path)) else { continue };
        if !checkpointer.ignored_among([&path])?.is_empty() {
            found.push(write.path.clone());
        }
    }
    Ok(found)
}

/// Refuses what would be gone for good although checkpoints are wanted.
pub(super) fn refuse_loss(ctx: &Context, effect: &ItemEffect, ignored: &[PathBuf]) -> Result<(), CheckpointError> {
    match effect.replaced(&ctx.root).find(|path| ignored.iter().any(|ignored| ignored == path)) {
        Some(path) => Err(CheckpointError::Ignored(path.to_path_buf())),
        None => Ok(()),
    }
}

/// As [`refuse_loss`], where there may be no git at all.
pub(super) fn refuse_loss_without_git(ctx: &Context, effect: &ItemEffect) -> Result<(), CheckpointError> {
    match open_checkpointer(ctx) {
        Err(err @ CheckpointError::NoRepository(_)) if effect.replaced(&ctx.root).next().is_some() => Err(err),
        _ => Ok(()),
    }
}

/// As [`refuse_loss`], for a step of a run.
pub(super) fn refuse_loss_in(
    ctx: &Context,
    checkpointer: Option<&Checkpointer>,
    effect: &ItemEffect,
) -> Result<(), CheckpointError> {
    let Some(checkpointer) = checkpointer else { return Ok(()) };
    refuse_loss(ctx, effect, &ignored_by(ctx, checkpointer, effect)?)
}

impl ItemEffect {
    /// The files of the project whose content would be somewhere else or nowhere.
    fn replaced<'e>(&'e self, root: &'e Path) -> impl Iterator<Item = &'e Path> {
        let keeps_content = matches!(self.answer, ItemAnswer::Sign(_));
        let is_replaced = move |write: &&Write| {
            let path = root.join(&write.path);
            let is_same = || write.content.as_ref().is_some_and(|content| is_now(&path, content));
            write.home == Home::Project && !keeps_content && path.symlink_metadata().is_ok() && !is_same()
        };
        self.writes.iter().filter(is_replaced).map(|write| write.path.as_path())
    }
}

fn is_now(path: &Path, content: &[u8]) -> bool {
    read_bytes(path, content.len() as u64).is_ok_and(|present| present == content)
}
