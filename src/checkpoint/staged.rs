//! The changes of the next commit in some folders, and a copy of these folders as committed.
//!
//! All data comes from the index of the commit, nothing from the work tree. [`Staged::find`]
//! compares it with HEAD, [`Staged::export`] lets git write a copy elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::CheckpointError;
use super::git_cli::GitProgram;
use super::hook_environment::HookEnvironment;
use super::index::{Index, IndexEntry};
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::repository::Repository;
use super::tree;

/// The time limit, because filters may fetch content.
const LIMIT: Duration = Duration::from_mins(1);
/// The maximum number of chained links.
const MOST_LINKS: usize = 8;

/// The staged content of folders with one name.
pub struct Staged {
    index: Index,
    file: PathBuf,
    /// The folders with staged changes, with the files that differ from HEAD.
    pub changed: BTreeMap<RepoPath, Vec<RepoPath>>,
}

impl Staged {
    /// Finds staged content below all folders with a name.
    pub fn find(
        repository: &Repository,
        place: &HookEnvironment,
        name: &str,
    ) -> Result<Self, CheckpointError> {
        let index = repository.load_index_at(&place.index)?;
        let mut staged = Self {
            index,
            file: place.index.clone(),
            changed: BTreeMap::new(),
        };
        let folders = staged.folders(name);
        if folders.is_empty() {
            return Ok(staged);
        }
        let head = repository.tree_of(repository.head()?.commit)?;
        if staged.index.cached_tree() == Some(head) {
            return Ok(staged);
        }
        let objects = Objects::of(repository)?;
        for folder in folders {
            let committed = tree::find_folder(&objects, head, &folder)?;
            let cached = staged.index.cached_tree_of(folder.as_bytes());
            if committed.is_some() && cached == committed {
                continue;
            }
            let changed = staged.differences(&objects, committed, &folder)?;
            if !changed.is_empty() {
                staged.changed.insert(folder, changed);
            }
        }
        Ok(staged)
    }

    /// Lets git write a copy of folders, and of the targets of links in them.
    pub fn export(
        &self,
        repository: &Repository,
        environment: &BTreeMap<OsString, OsString>,
        target: &Path,
    ) -> Result<(), CheckpointError> {
        let objects = Objects::of(repository)?;
        let mut wanted: BTreeSet<RepoPath> = BTreeSet::new();
        let mut next: Vec<RepoPath> = self.changed.keys().cloned().collect();
        for _ in 0..MOST_LINKS {
            let new: Vec<(RepoPath, IndexEntry)> = next
                .iter()
                .flat_map(|folder| self.below(folder))
                .filter(|(path, _)| !wanted.contains(path))
                .collect();
            let is_link = |(_, entry): &&(RepoPath, IndexEntry)| entry.mode == FileMode::Symlink;
            next = Vec::new();
            for (path, entry) in new.iter().filter(is_link) {
                next.extend(link_target(path, &objects.read(entry.id)?));
            }
            wanted.extend(new.into_iter().map(|(path, _)| path));
        }
        let mut list = Vec::new();
        for path in wanted.iter().filter(|path| path.is_safe()) {
            list.extend_from_slice(path.as_bytes());
            list.push(0);
        }
        let mut prefix = OsString::from("--prefix=");
        prefix.push(target);
        prefix.push("/");
        let words = [
            OsStr::new("checkout-index"),
            OsStr::new("-z"),
            OsStr::new("--stdin"),
            &prefix,
        ];
        let program = GitProgram::new(environment.clone(), repository.git_dir(), repository.top());
        let variables = [("GIT_INDEX_FILE", self.file.clone().into_os_string())];
        let doing = "checkout-index";
        let output = program.run(doing, &words, &variables, Some(&list), LIMIT)?;
        if output.succeeded {
            Ok(())
        } else {
            Err(CheckpointError::GitProgram {
                doing,
                reason: output.reason,
            })
        }
    }

    /// The folders with a name that have staged content; for nested ones only the outer.
    fn folders(&self, name: &str) -> BTreeSet<RepoPath> {
        let inside = [name.as_bytes(), b"/"].concat();
        let mut found = BTreeSet::new();
        let mut last: Option<RepoPath> = None;
        for (path, _) in self.index.entries(0..self.index.len()) {
            if last
                .as_ref()
                .is_some_and(|last| lies_in(path, last.as_bytes()))
            {
                continue;
            }
            let at = path.windows(inside.len()).enumerate();
            let mut at = at.filter(|(at, word)| {
                *word == inside && (*at == 0 || path.get(*at - 1) == Some(&b'/'))
            });
            if let Some((at, _)) = at.next() {
                let folder = RepoPath::from_bytes(path.get(..at + name.len()).unwrap_or(path));
                found.insert(folder.clone());
                last = Some(folder);
            }
        }
        found
    }

    /// The staged entries at or below a path, without `git add -N` entries and conflicts.
    fn below(&self, path: &RepoPath) -> Vec<(RepoPath, IndexEntry)> {
        let own = self
            .index
            .find(path.as_bytes())
            .map(|at| at..at + 1)
            .unwrap_or_default();
        let inside = self.index.below(0..self.index.len(), path.as_bytes());
        let entries = self.index.entries(own).chain(self.index.entries(inside));
        let counts = |entry: &IndexEntry| entry.stage == 0 && !entry.intent_to_add;
        entries
            .filter(|(_, entry)| counts(entry))
            .map(|(path, entry)| (RepoPath::from_bytes(path), *entry))
            .collect()
    }

    /// The files of a folder whose staged version differs from the committed one.
    fn differences(
        &self,
        objects: &Objects<'_>,
        committed: Option<ObjectId>,
        folder: &RepoPath,
    ) -> Result<Vec<RepoPath>, CheckpointError> {
        let mut old: BTreeMap<RepoPath, Entry> = BTreeMap::new();
        if let Some(tree) = committed {
            for (path, _, entry) in
                tree::differences(objects, ObjectId::empty_tree(tree.format()), tree)?
            {
                let path =
                    RepoPath::from_bytes([folder.as_bytes(), b"/", path.as_bytes()].concat());
                old.extend(entry.map(|entry| (path, entry)));
            }
        }
        let mut changed = Vec::new();
        for (path, entry) in self.below(folder) {
            if old.remove(&path)
                != Some(Entry {
                    mode: entry.mode,
                    id: entry.id,
                })
            {
                changed.push(path);
            }
        }
        changed.extend(old.into_keys());
        Ok(changed)
    }
}

fn lies_in(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// The target of a link, if it is inside the work tree.
fn link_target(link: &RepoPath, target: &[u8]) -> Option<RepoPath> {
    if Path::new(OsStr::from_bytes(target)).is_absolute() {
        return None;
    }
    let mut found = link.parent();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if found.is_top() => return None,
            b".." => found = found.parent(),
            name => found = found.join(name),
        }
    }
    (!found.is_top()).then_some(found)
}
