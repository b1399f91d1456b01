//! Finds the hooks folder of a repository, and its owner.
//!
//! [`HookSite::find`] only reads. It gives the same answer as `git rev-parse --git-path hooks`,
//! also in a linked worktree, in a bare repository, and in repositories that checkpoints do not
//! support.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::ConfigLevel;

use super::error::CheckpointError;
use super::git_cli::hook::hooks_folder;
pub(crate) use super::git_cli::is_executable;
use super::index::Index;
use super::repository::{open_git, settings};

/// The hooks folder of a repository.
#[derive(Clone, Debug)]
pub struct HookSite {
    /// The folder; it may not exist.
    pub folder: PathBuf,
    pub chosen_by: ChosenBy,
    /// Whether the repository tracks files in it.
    pub tracked: IsTracked,
    /// The git folder that all worktrees share.
    pub common_dir: PathBuf,
    /// The top of the work tree; none in a bare repository.
    pub top: Option<PathBuf>,
}

/// Where the hooks folder is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenBy {
    /// Not configured: the default folder.
    Default,
    /// `core.hooksPath` of this repository or worktree.
    Repository,
    /// `core.hooksPath` of the user or the system, for all repositories.
    User,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsTracked {
    Yes,
    No,
}

impl HookSite {
    /// Finds the hooks folder for the repository that contains `folder`.
    pub fn find(
        folder: &Path,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Result<Self, CheckpointError> {
        let home = environment.get(OsStr::new("HOME")).map(Path::new);
        let git = open_git(folder, home)?;
        let config = settings(&git, environment)?;
        git.set_config(&config)
            .map_err(CheckpointError::git("read the settings of git"))?;
        let chosen_by = match config
            .get_entry("core.hooksPath")
            .map(|entry| entry.level())
        {
            Err(_) => ChosenBy::Default,
            Ok(ConfigLevel::Local | ConfigLevel::Worktree) => ChosenBy::Repository,
            Ok(_) => ChosenBy::User,
        };
        let top = match git.workdir() {
            Some(top) if !git.is_bare() => Some(
                std::fs::canonicalize(top).map_err(CheckpointError::io("find the folder", top))?,
            ),
            _ => None,
        };
        let folder = hooks_folder(&git);
        let tracked = match &top {
            Some(top) => tracked_below(&git, top, &folder)?,
            None => IsTracked::No,
        };
        Ok(Self {
            folder,
            chosen_by,
            tracked,
            common_dir: git.commondir().to_path_buf(),
            top,
        })
    }

    /// The default folder of git.
    pub fn usual_folder(&self) -> PathBuf {
        self.common_dir.join("hooks")
    }
}

/// Whether the index has a file in a folder, with links resolved.
fn tracked_below(
    git: &git2::Repository,
    top: &Path,
    folder: &Path,
) -> Result<IsTracked, CheckpointError> {
    let Ok(folder) = std::fs::canonicalize(folder) else {
        return Ok(IsTracked::No);
    };
    let Ok(inside) = folder.strip_prefix(top) else {
        return Ok(IsTracked::No);
    };
    // Hooks in a folder that is not checked out are not on disk.
    let index = Index::load(
        &git.path().join("index"),
        git.object_format().into(),
        &|_| Ok(Vec::new()),
    )?;
    let known = index.below(0..index.len(), inside.as_os_str().as_bytes());
    Ok(if known.is_empty() {
        IsTracked::No
    } else {
        IsTracked::Yes
    })
}
