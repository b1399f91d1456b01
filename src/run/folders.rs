//! The folders of journals and of the lock.

use std::path::PathBuf;

use super::session::open_repository;
use crate::checkpoint::repository::Repository;
use crate::context::Context;
use crate::disk::Disk;
use crate::journal::KeyFile;

/// The folders of journals and of the lock.
#[derive(Clone, Debug)]
pub(super) struct RunFolders {
    /// The folder of all journals.
    pub(super) runs: PathBuf,
    /// The folder of the worktree, with its lock.
    pub(super) own: PathBuf,
    /// The file system of both.
    pub(super) disk: Disk,
}

/// The key that authenticates the journals of this user.
pub(super) fn key_file(ctx: &Context) -> KeyFile {
    KeyFile::of(ctx.settings_folder().as_deref())
}

impl RunFolders {
    /// The folders in a repository, or without one in the state folder of the project.
    pub(super) fn of(ctx: &Context, repository: Option<&Repository>) -> Self {
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
    pub(super) fn of_project(ctx: &Context) -> Self {
        Self::of(ctx, open_repository(ctx).ok().as_ref())
    }

    /// The folder of the pinned definitions of MCP tools.
    pub(super) fn definitions(&self) -> PathBuf {
        self.runs.with_file_name("mcp")
    }
}
