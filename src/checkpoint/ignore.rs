//! What git ignores: the patterns of `core.excludesFile`, `info/exclude` and every `.gitignore`.
//!
//! Rules are those from before a step (`HAZARDS.md` H4): the first scan reads each folder's
//! `.gitignore` as it enters the folder and freezes them all; later scans use the frozen ones, so
//! that a tool which edits a `.gitignore` neither hides nor exposes files. Nothing here opens
//! files: whoever walks the folders hands the bytes in.

use std::collections::BTreeMap;
use std::sync::Arc;

use gix_ignore::Kind as Expendable;
use gix_ignore::glob::pattern::Case;
use gix_ignore::glob::wildmatch;

use super::path::RepoPath;

/// The rules of a work tree.
#[derive(Clone, Debug)]
pub(crate) struct IgnoreRules {
    /// `core.excludesFile`, then `info/exclude`: the later wins.
    shared: Vec<Arc<Patterns>>,
    folders: BTreeMap<RepoPath, Arc<Patterns>>,
    unknown: UnknownFolder,
    case: Case,
}

/// What to do about a folder whose rules are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownFolder {
    /// Read its `.gitignore`.
    Read,
    /// It has come into being since: its `.gitignore` does not count.
    NoRules,
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file or link.
    File,
    /// A folder.
    Folder,
}

/// Whether names differ by case (`core.ignorecase`).
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

/// The patterns of one file, in its order.
#[derive(Debug)]
pub(crate) struct Patterns(Vec<gix_ignore::glob::Pattern>);

/// The rules that count inside one folder: those of the folder and of all above it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FolderRules(Option<Arc<Level>>);

#[derive(Debug)]
struct Level {
    patterns: Arc<Patterns>,
    /// The length of the folder's path with its last `/`.
    base: usize,
    above: FolderRules,
}

impl IgnoreRules {
    /// Rules whose `.gitignore` files are still to be read; the arguments are the bytes of the shared files.
    pub(crate) fn to_collect(excludes_file: Option<&[u8]>, info_exclude: Option<&[u8]>, letters: Letters) -> Self {
        let shared = excludes_file.into_iter().chain(info_exclude).map(|bytes| Arc::new(Patterns::parse(bytes)));
        Self { shared: shared.collect(), folders: BTreeMap::new(), unknown: UnknownFolder::Read, case: letters.case() }
    }

    /// The same shared files with the `.gitignore` files of a tree: each with the path of its folder.
    #[must_use]
    pub(crate) fn with_files<B: AsRef<[u8]>>(
        &self,
        files: impl IntoIterator<Item = (RepoPath, B)>,
        unknown: UnknownFolder,
    ) -> Self {
        let folders = files.into_iter().map(|(folder, bytes)| (folder, Arc::new(Patterns::parse(bytes.as_ref()))));
        Self { shared: self.shared.clone(), folders: folders.collect(), unknown, case: self.case }
    }

    /// These rules and what a scan has read, for good.
    #[must_use]
    pub(crate) fn frozen(&self, read: impl IntoIterator<Item = (RepoPath, Arc<Patterns>)>) -> Self {
        let mut folders = self.folders.clone();
        folders.extend(read);
        Self { shared: self.shared.clone(), folders, unknown: UnknownFolder::NoRules, case: self.case }
    }

    /// Whether git ignores a path, by the rules known so far: itself or a folder that holds it.
    pub(crate) fn is_ignored(&self, path: &RepoPath, kind: Kind) -> bool {
        let bytes = path.as_bytes();
        let mut rules = self.enter(&FolderRules::default(), b"", None);
        for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let (Some(folder), Some(prefix)) = (bytes.get(..at), bytes.get(..=at)) else { continue };
            if self.ignores(&rules, folder, Kind::Folder) {
                return true;
            }
            rules = self.enter(&rules, prefix, None);
        }
        self.ignores(&rules, bytes, kind)
    }

    /// What a scan has to do about the `.gitignore` of a folder before it goes in.
    pub(crate) fn wants_file_of(&self, folder: &[u8]) -> bool {
        self.unknown == UnknownFolder::Read && !self.folders.contains_key(folder)
    }

    /// The rules inside a folder, from those above it and what was read in it.
    ///
    /// The folder is given with a `/` at its end, the top as nothing.
    pub(crate) fn enter(&self, above: &FolderRules, prefix: &[u8], read: Option<&Arc<Patterns>>) -> FolderRules {
        let folder = prefix.strip_suffix(b"/").unwrap_or(prefix);
        match self.folders.get(folder).or(read) {
            Some(patterns) if !patterns.0.is_empty() => FolderRules(Some(Arc::new(Level {
                patterns: Arc::clone(patterns),
                base: prefix.len(),
                above: above.clone(),
            }))),
            _ => above.clone(),
        }
    }

    /// Whether a path directly inside the folder of these rules is ignored.
    pub(crate) fn ignores(&self, rules: &FolderRules, path: &[u8], kind: Kind) -> bool {
        let mut level = &rules.0;
        while let Some(current) = level {
            let below = path.get(current.base..).unwrap_or_default();
            if let Some(ignored) = current.patterns.judge(below, kind, self.case) {
                return ignored;
            }
            level = &current.above.0;
        }
        self.shared.iter().rev().find_map(|patterns| patterns.judge(path, kind, self.case)).unwrap_or(false)
    }
}

impl Patterns {
    /// Reads the lines of an ignore file.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        // Git takes away the carriage return of a last line without a line feed as well.
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        Self(gix_ignore::parse(bytes, false).map(|(pattern, _, _): (_, _, Expendable)| pattern).collect())
    }

    /// What the last pattern that matches says; none if no pattern does.
    pub(crate) fn decide(&self, path: &[u8], kind: Kind, letters: Letters) -> Option<bool> {
        self.judge(path, kind, letters.case())
    }

    fn judge(&self, path: &[u8], kind: Kind, case: Case) -> Option<bool> {
        let name_start = path.iter().rposition(|byte| *byte == b'/').map(|at| at + 1);
        let is_folder = Some(kind == Kind::Folder);
        let mode = wildmatch::Mode::NO_MATCH_SLASH_LITERAL;
        self.0
            .iter()
            .rev()
            .find(|pattern| pattern.matches_repo_relative_path(path.into(), name_start, is_folder, case, mode))
            .map(|pattern| !pattern.is_negative())
    }
}

#[cfg(test)]
mod tests;
