//! Finds the repository for which git runs a hook.
//!
//! Unlike all other code, a hook trusts `GIT_DIR` and similar variables, because git itself has set
//! them. It does not use libgit2, because most hooks have nothing to do once they know their
//! repository. [`HookEnvironment`] is the type to read first.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// An upper limit for the size of a file that contains a path.
const MOST: u64 = 64 * 1024;

/// The repository of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookEnvironment {
    /// The top of the work tree; in a bare repository the git folder.
    pub top: PathBuf,
    /// The git folder of this worktree.
    pub git_dir: PathBuf,
    /// The git folder that all worktrees share.
    pub common_dir: PathBuf,
    /// The index of the commit, which may differ from that of the worktree.
    pub index: PathBuf,
    /// The folder of incoming objects, during a push.
    pub incoming: Option<PathBuf>,
}

impl HookEnvironment {
    /// Finds the repository around the working folder of a hook; `variable` reads its environment.
    pub fn find<'e>(cwd: &Path, variable: impl Fn(&str) -> Option<&'e OsStr>) -> Option<Self> {
        let named = |name: &str| variable(name).map(|value| cwd.join(value));
        let (top, git_dir) = match named("GIT_DIR") {
            // If `GIT_DIR` is set without a work tree, git uses the current folder as the top.
            Some(git_dir) => (
                named("GIT_WORK_TREE").unwrap_or_else(|| cwd.to_path_buf()),
                git_dir,
            ),
            None => cwd
                .ancestors()
                .find_map(|folder| Some((folder.to_path_buf(), data_of(folder)?)))?,
        };
        let git_dir = fs::canonicalize(git_dir).ok()?;
        let common_dir = match named_in(&git_dir.join("commondir"), b"") {
            Some(folder) => fs::canonicalize(git_dir.join(folder)).ok()?,
            None => git_dir.clone(),
        };
        let index = named("GIT_INDEX_FILE").unwrap_or_else(|| git_dir.join("index"));
        // Git keeps pushed objects in a separate folder until the hook accepts them.
        let incoming = named("GIT_QUARANTINE_PATH");
        Some(Self {
            top: fs::canonicalize(&top).unwrap_or(top),
            git_dir,
            common_dir,
            index,
            incoming,
        })
    }

    /// The folder of the journals of all worktrees.
    pub fn runs_folder(&self) -> PathBuf {
        self.common_dir.join("piton").join("runs")
    }

    /// The folder of piton's lock and notes for this worktree.
    pub fn own_folder(&self) -> PathBuf {
        self.git_dir.join("piton")
    }

    /// Whether git is in an operation that creates commits from others.
    pub fn is_replaying(&self) -> bool {
        [
            "rebase-merge",
            "rebase-apply",
            "CHERRY_PICK_HEAD",
            "REVERT_HEAD",
            "MERGE_HEAD",
            "SQUASH_MSG",
            "sequencer",
        ]
        .iter()
        .any(|name| fs::symlink_metadata(self.git_dir.join(name)).is_ok())
    }
}

/// The git folder of a folder, if it is the top of a work tree or a git folder itself.
fn data_of(folder: &Path) -> Option<PathBuf> {
    let inside = folder.join(".git");
    match fs::metadata(&inside) {
        Ok(found) if found.is_dir() => Some(inside),
        Ok(_) => named_in(&inside, b"gitdir: ").map(|target| folder.join(target)),
        Err(_) => (folder.join("objects").is_dir() && folder.join("HEAD").is_file())
            .then(|| folder.to_path_buf()),
    }
}

/// The folder that a git file names after a prefix.
fn named_in(file: &Path, words: &[u8]) -> Option<PathBuf> {
    let found = fs::metadata(file)
        .ok()
        .filter(|found| found.is_file() && found.len() <= MOST)?;
    let bytes = (found.len() > 0).then(|| fs::read(file).ok())??;
    let name = bytes.strip_prefix(words)?.trim_ascii_end();
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cwd: &Path, variables: &[(&str, &str)]) -> Option<HookEnvironment> {
        HookEnvironment::find(cwd, |name| {
            variables
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, value)| OsStr::new(*value))
        })
    }

    #[test]
    fn the_data_of_a_work_tree_are_found_from_its_top_and_from_below() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = fs::canonicalize(folder.path()).expect("a folder");
        fs::create_dir_all(top.join(".git")).expect("a folder");
        fs::create_dir_all(top.join("a b")).expect("a folder");
        for cwd in [top.clone(), top.join("a b")] {
            let found = place(&cwd, &[]).expect("a place");
            assert_eq!(
                (found.top, found.git_dir.clone()),
                (top.clone(), top.join(".git"))
            );
            assert_eq!(
                (found.common_dir, found.index),
                (found.git_dir.clone(), found.git_dir.join("index"))
            );
        }
        let found = place(&top, &[("GIT_INDEX_FILE", ".git/next-index-1.lock")]).expect("a place");
        assert_eq!(found.index, top.join(".git/next-index-1.lock"));
    }

    #[test]
    fn what_git_says_about_a_linked_worktree_or_a_bare_repository_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = fs::canonicalize(folder.path()).expect("a folder");
        let own = top.join("main/.git/worktrees/w");
        fs::create_dir_all(&own).expect("a folder");
        fs::write(own.join("commondir"), "../..\n").expect("a file");
        fs::create_dir_all(top.join("w")).expect("a folder");
        fs::write(top.join("w/.git"), format!("gitdir: {}\n", own.display())).expect("a file");
        let found = place(&top.join("w"), &[]).expect("a place");
        assert_eq!(
            (found.git_dir, found.common_dir),
            (own, top.join("main/.git"))
        );
        let found = place(
            &top.join("main/.git"),
            &[("GIT_DIR", "."), ("GIT_QUARANTINE_PATH", "objects/tmp")],
        );
        assert_eq!(
            found.expect("a place").incoming,
            Some(top.join("main/.git/objects/tmp"))
        );
        assert_eq!(place(&top, &[("GIT_DIR", "nowhere")]), None);
    }
}
