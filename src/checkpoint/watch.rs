//! Detects that a step changed git's own behaviour: its settings, hooks and attributes.
//!
//! No snapshot covers these files and no permission grants them. A [`GitWatch`] records their
//! state. It restores nothing, because a person may have changed them at the same time.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::git_cli::hook::hooks_folder;
use super::repository::Repository;

/// Files above this size are compared by size only.
const MAX_READ: u64 = 1024 * 1024;

/// The state of the files that control git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitWatch {
    files: BTreeMap<PathBuf, [u8; 32]>,
}

impl GitWatch {
    /// Records the current state.
    pub fn of(repository: &Repository) -> Self {
        let common = repository.git.commondir();
        let mut files = BTreeMap::new();
        for folder in ["hooks", "info"] {
            for entry in fs::read_dir(common.join(folder))
                .into_iter()
                .flatten()
                .flatten()
            {
                let name = entry.file_name();
                // Skip samples: git does not run them, and every repository has a dozen.
                let is_sample = Path::new(&name)
                    .extension()
                    .is_some_and(|extension| extension == "sample");
                if !is_sample {
                    look(&mut files, &entry.path(), Path::new(folder).join(name));
                }
            }
        }
        // Hooks may be anywhere, e.g. in the work tree.
        let hooks = hooks_folder(&repository.git);
        if hooks != common.join("hooks") {
            for entry in fs::read_dir(&hooks).into_iter().flatten().flatten() {
                look(
                    &mut files,
                    &entry.path(),
                    Path::new("hooks").join(entry.file_name()),
                );
            }
        }
        for name in ["config", "objects/info/alternates"] {
            look(&mut files, &common.join(name), name.into());
        }
        look(
            &mut files,
            &repository.git_dir().join("config.worktree"),
            "config.worktree".into(),
        );
        Self { files }
    }

    /// The changed files, with the prefix `.git/`.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let mut names: Vec<&PathBuf> = self.files.keys().chain(before.files.keys()).collect();
        names.retain(|name| self.files.get(*name) != before.files.get(*name));
        names.sort();
        names.dedup();
        names
            .into_iter()
            .map(|name| format!(".git/{}", name.display()))
            .collect()
    }
}

/// Records a file if it exists: its kind, its mode and its content.
fn look(files: &mut BTreeMap<PathBuf, [u8; 32]>, path: &Path, name: PathBuf) {
    let Ok(found) = fs::symlink_metadata(path) else {
        return;
    };
    let mut hash = Sha256::new();
    hash.update(found.permissions().mode().to_le_bytes());
    if found.is_symlink() {
        hash.update(
            fs::read_link(path)
                .unwrap_or_default()
                .as_os_str()
                .as_bytes(),
        );
    } else if found.is_file() && found.len() <= MAX_READ {
        hash.update(fs::read(path).unwrap_or_default());
    } else {
        hash.update(found.len().to_le_bytes());
    }
    files.insert(name, hash.finalize().into());
}
