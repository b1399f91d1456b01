//! Ignore rules: the patterns of `core.excludesFile`, `info/exclude` and every `.gitignore`.
//!
//! The rules are those from before a step (`HAZARDS.md` H4): the first scan reads each folder's
//! `.gitignore` when it enters the folder and freezes them all. Later scans use the frozen rules,
//! so that a tool which edits a `.gitignore` neither hides nor exposes files. This module opens no
//! files: the caller that walks the folders passes the bytes in.

use std::collections::BTreeMap;
use std::sync::Arc;

use gix_ignore::Kind as Expendable;
use gix_ignore::glob::pattern::Case;
use gix_ignore::glob::wildmatch;

use super::path::RepoPath;

/// The rules of a work tree.
#[derive(Clone, Debug)]
pub(crate) struct IgnoreRules {
    /// `core.excludesFile`, then `info/exclude`: later patterns win.
    shared: Vec<Arc<Patterns>>,
    folders: BTreeMap<RepoPath, Arc<Patterns>>,
    unknown: UnknownFolder,
    case: Case,
}

/// What to do with a folder whose rules are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownFolder {
    /// Read its `.gitignore`.
    Read,
    /// It was created later: its `.gitignore` does not count.
    NoRules,
}

/// The kind of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    File,
    Folder,
}

/// Whether names are case-sensitive (`core.ignorecase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letters {
    Distinct,
    Folded,
}

impl Letters {
    fn case(self) -> Case {
        match self {
            Self::Distinct => Case::Sensitive,
            Self::Folded => Case::Fold,
        }
    }
}

/// The patterns of one file, in order.
#[derive(Debug)]
pub(crate) struct Patterns(Vec<gix_ignore::glob::Pattern>);

/// The rules inside one folder: its own and those of all parents.
#[derive(Clone, Debug, Default)]
pub(crate) struct FolderRules(Option<Arc<IgnoreLevel>>);

#[derive(Debug)]
struct IgnoreLevel {
    patterns: Arc<Patterns>,
    /// The length of the folder's path with the trailing `/`.
    base: usize,
    above: FolderRules,
}

impl IgnoreRules {
    /// Rules whose `.gitignore` files are not read yet; the arguments are the bytes of the shared
    /// files.
    pub(crate) fn to_collect(
        excludes_file: Option<&[u8]>,
        info_exclude: Option<&[u8]>,
        letters: Letters,
    ) -> Self {
        let shared = excludes_file
            .into_iter()
            .chain(info_exclude)
            .map(|bytes| Arc::new(Patterns::parse(bytes)));
        Self {
            shared: shared.collect(),
            folders: BTreeMap::new(),
            unknown: UnknownFolder::Read,
            case: letters.case(),
        }
    }

    /// The same shared files with the `.gitignore` files of a tree, each with the path of its
    /// folder.
    #[must_use]
    pub(crate) fn with_files<B: AsRef<[u8]>>(
        &self,
        files: impl IntoIterator<Item = (RepoPath, B)>,
        unknown: UnknownFolder,
    ) -> Self {
        let folders = files
            .into_iter()
            .map(|(folder, bytes)| (folder, Arc::new(Patterns::parse(bytes.as_ref()))));
        Self {
            shared: self.shared.clone(),
            folders: folders.collect(),
            unknown,
            case: self.case,
        }
    }

    /// Adds the files of a scan and freezes the rules.
    #[must_use]
    pub(crate) fn frozen(&self, read: impl IntoIterator<Item = (RepoPath, Arc<Patterns>)>) -> Self {
        let mut folders = self.folders.clone();
        folders.extend(read);
        Self {
            shared: self.shared.clone(),
            folders,
            unknown: UnknownFolder::NoRules,
            case: self.case,
        }
    }

    /// Whether git ignores a path or one of its parents, by the rules known so far.
    pub(crate) fn is_ignored(&self, path: &RepoPath, kind: PathKind) -> bool {
        let bytes = path.as_bytes();
        let mut rules = self.enter(&FolderRules::default(), b"", None);
        for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let (Some(folder), Some(prefix)) = (bytes.get(..at), bytes.get(..=at)) else {
                continue;
            };
            if self.ignores(&rules, folder, PathKind::Folder) {
                return true;
            }
            rules = self.enter(&rules, prefix, None);
        }
        self.ignores(&rules, bytes, kind)
    }

    /// Whether a scan has to read the `.gitignore` of a folder.
    pub(crate) fn wants_file_of(&self, folder: &[u8]) -> bool {
        self.unknown == UnknownFolder::Read && !self.folders.contains_key(folder)
    }

    /// The rules inside a folder, from those of its parent and its own file.
    ///
    /// The folder has a trailing `/`; the top is empty.
    pub(crate) fn enter(
        &self,
        above: &FolderRules,
        prefix: &[u8],
        read: Option<&Arc<Patterns>>,
    ) -> FolderRules {
        let folder = prefix.strip_suffix(b"/").unwrap_or(prefix);
        match self.folders.get(folder).or(read) {
            Some(patterns) if !patterns.0.is_empty() => FolderRules(Some(Arc::new(IgnoreLevel {
                patterns: Arc::clone(patterns),
                base: prefix.len(),
                above: above.clone(),
            }))),
            _ => above.clone(),
        }
    }

    /// Whether a path directly inside the folder of these rules is ignored.
    pub(crate) fn ignores(&self, rules: &FolderRules, path: &[u8], kind: PathKind) -> bool {
        let mut level = &rules.0;
        while let Some(current) = level {
            let below = path.get(current.base..).unwrap_or_default();
            if let Some(ignored) = current.patterns.judge(below, kind, self.case) {
                return ignored;
            }
            level = &current.above.0;
        }
        self.shared
            .iter()
            .rev()
            .find_map(|patterns| patterns.judge(path, kind, self.case))
            .unwrap_or(false)
    }
}

impl Patterns {
    /// Parses an ignore file.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        // Git also strips the carriage return of a last line without a line feed.
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        Self(
            gix_ignore::parse(bytes, false)
                .map(|(pattern, _, _): (_, _, Expendable)| pattern)
                .collect(),
        )
    }

    /// The result of the last matching pattern; `None` if no pattern matches.
    pub(crate) fn decide(&self, path: &[u8], kind: PathKind, letters: Letters) -> Option<bool> {
        self.judge(path, kind, letters.case())
    }

    fn judge(&self, path: &[u8], kind: PathKind, case: Case) -> Option<bool> {
        let name_start = path.iter().rposition(|byte| *byte == b'/').map(|at| at + 1);
        let is_folder = Some(kind == PathKind::Folder);
        let mode = wildmatch::Mode::NO_MATCH_SLASH_LITERAL;
        self.0
            .iter()
            .rev()
            .find(|pattern| {
                pattern.matches_repo_relative_path(path.into(), name_start, is_folder, case, mode)
            })
            .map(|pattern| !pattern.is_negative())
    }
}

#[cfg(test)]
mod tests;
