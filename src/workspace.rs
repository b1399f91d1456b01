//! What the runs of a project work with: its repository, its checkpointer, the folders of its journals,
//! and the user's key.
//!
//! [`RunFolders`] are in the repository, or without one in the state folder of the project.

use std::path::PathBuf;
use std::time::Duration;

use crate::checkpoint::checkpointer::{CheckpointOptions, Checkpointer};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::repository::Repository;
use crate::context::Context;
use crate::disk::Disk;
use crate::exec::interrupt::Interrupts;
use crate::journal::KeyFile;

/// The folders of journals and of the lock.
#[derive(Clone, Debug)]
pub(crate) struct RunFolders {
    /// The folder of all journals.
    pub(crate) runs: PathBuf,
    /// The folder of the worktree, with its lock.
    pub(crate) own: PathBuf,
    /// The file system of both.
    pub(crate) disk: Disk,
}

impl RunFolders {
    /// The folders in a repository, or without one in the state folder of the project.
    pub(crate) fn of(ctx: &Context, repository: Option<&Repository>) -> Self {
        if let Some(repository) = repository {
            return Self {
                runs: repository.runs_folder(),
                own: repository.own_folder(),
                disk: repository.disk().clone(),
            };
        }
        let own = ctx.state_folder();
        let disk = Disk::of(&own, ctx.config.fsync());
        Self {
            runs: own.join("runs"),
            own,
            disk,
        }
    }

    /// The folders of a project.
    pub(crate) fn of_project(ctx: &Context) -> Self {
        Self::of(ctx, open_repository(ctx).ok().as_ref())
    }

    /// The folder of the pinned definitions of MCP tools.
    pub(crate) fn definitions(&self) -> PathBuf {
        self.runs.with_file_name("mcp")
    }
}

/// Opens the repository of a project, ready for checkpoints.
pub fn open_checkpointer(ctx: &Context) -> Result<Checkpointer, CheckpointError> {
    let stop = ctx.stop.clone();
    // Without signal handlers, a filter ends by itself or at its time limit.
    let listen = move || {
        let interrupts = Interrupts::listen_for(&stop).ok();
        Box::new(move || {
            interrupts
                .as_ref()
                .is_some_and(|heard| heard.received().is_some())
        }) as Box<dyn Fn() -> bool>
    };
    Ok(Checkpointer::open(open_repository(ctx)?, options(ctx))?.listening(Box::new(listen)))
}

/// Opens the repository of a project.
pub fn open_repository(ctx: &Context) -> Result<Repository, CheckpointError> {
    Repository::open(
        &ctx.root,
        ctx.home.as_deref(),
        ctx.environment.variables(),
        ctx.config.fsync(),
    )
}

/// The key that authenticates the journals of this user.
pub(crate) fn key_file(ctx: &Context) -> KeyFile {
    KeyFile::of(ctx.settings_folder().as_deref())
}

fn options(ctx: &Context) -> CheckpointOptions {
    CheckpointOptions {
        max_file_size: ctx.config.max_file_size(),
        max_total_size: ctx.config.max_total_size(),
        lock_wait: Duration::from_secs(2),
        environment: ctx.environment.variables().clone(),
        hooks: ctx.config.hooks(),
        secrets: ctx.config.secrets(),
        secrets_allowed: ctx.config.secrets_allowed(),
    }
}
