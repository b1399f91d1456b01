//! Where git looks for the hooks of a repository, and whose folder that is.
//!
//! [`HookSite::find`] only looks. It answers as `git rev-parse --git-path hooks` does, also in a linked worktree, in a bare
//! repository, and in those that no checkpoint can be made in.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::ConfigLevel;

use super::error::CheckpointError;
use super::git_cli::hook::hooks_folder;
pub(crate) use super::git_cli::is_executable;
use super::index::Index;
use super::repository::{open_git, settings};

/// The folder with the hooks of a repository.
#[derive(Clone, Debug)]
pub struct HookSite {
    /// The folder; it need not exist.
    pub folder: PathBuf,
    /// Who chose it.
    pub chosen_by: ChosenBy,
    /// Whether it holds files that the repository tracks.
    pub tracked: Tracked,
    /// The data that all worktrees share.
    pub common_dir: PathBuf,
    /// The top of the work tree; none in a bare repository.
    pub top: Option<PathBuf>,
}

/// Who chose the folder with the hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenBy {
    /// Nobody: it is the usual one.
    Default,
    /// `core.hooksPath` of this repository, or of this worktree.
    Repository,
    /// `core.hooksPath` of the user or the machine, for every repository.
    User,
}

/// Whether files are part of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// They are.
    Yes,
    /// They are not.
    No,
}

impl HookSite {
    /// Finds the folder of the repository that `folder` lies in.
    pub fn find(folder: &Path, environment: &BTreeMap<OsString, OsString>) -> Result<Self, CheckpointError> {
        let git = open_git(folder)?;
        let config = settings(&git, environment)?;
        git.set_config(&config).map_err(CheckpointError::git("read the settings of git"))?;
        let chosen_by = match config.get_entry("core.hooksPath").map(|entry| entry.level()) {
            Err(_) => ChosenBy::Default,
            Ok(ConfigLevel::Local | ConfigLevel::Worktree) => ChosenBy::Repository,
            Ok(_) => ChosenBy::User,
        };
        let top = match git.workdir() {
            Some(top) if !git.is_bare() => {
                Some(std::fs::canonicalize(top).map_err(CheckpointError::io("find the folder", top))?)
            }
            _ => None,
        };
        let folder = hooks_folder(&git);
        let tracked = match &top {
            Some(top) => tracked_below(&git, top, &folder)?,
            None => Tracked::No,
        };
        Ok(Self { folder, chosen_by, tracked, common_dir: git.commondir().to_path_buf(), top })
    }

    /// The folder that git uses unless it is told otherwise.
    pub fn usual_folder(&self) -> PathBuf {
        self.common_dir.join("hooks")
    }
}

/// Whether the index knows a file in a folder, whatever links lead there.
fn tracked_below(git: &git2::Repository, top: &Path, folder: &Path) -> Result<Tracked, CheckpointError> {
    let Ok(folder) = std::fs::canonicalize(folder) else { return Ok(Tracked::No) };
    let Ok(inside) = folder.strip_prefix(top) else { return Ok(Tracked::No) };
    // Hooks in a folder that is not checked out are not on disk.
    let index = Index::load(&git.path().join("index"), git.object_format().into(), &|_| Ok(Vec::new()))?;
    let known = index.below(0..index.len(), inside.as_os_str().as_bytes());
    Ok(if known.is_empty() { Tracked::No } else { Tracked::Yes })
}
