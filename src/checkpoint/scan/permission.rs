//! Condenses the permission bits of a work tree to defaults and exceptions.

use std::collections::BTreeMap;

use super::super::path::RepoPath;
use super::super::snapshot::Permissions;
use super::Executable;

/// The bits in a scan, folder by folder.
#[derive(Debug, Default)]
pub(super) struct PermissionNotes {
    folders: Vec<FolderNotes>,
}

/// The bits of one folder and its direct entries.
///
/// The defaults are known only at the end, so every name is kept; all in one allocation, since
/// nearly all will have the default.
#[derive(Debug, Default)]
pub(super) struct FolderNotes {
    /// The folder with a trailing `/`.
    prefix: Vec<u8>,
    /// The bits of the folder; `None` for the top.
    folder: Option<u32>,
    names: Vec<u8>,
    /// The ends of the names and the bits.
    files: Vec<(usize, u32)>,
}

impl FolderNotes {
    pub(super) fn new(prefix: &[u8], folder: Option<u32>) -> Self {
        Self {
            prefix: prefix.to_owned(),
            folder,
            ..Self::default()
        }
    }

    /// Adds a file in the folder.
    pub(super) fn file(&mut self, name: &[u8], permissions: u32) {
        self.names.extend_from_slice(name);
        self.files.push((self.names.len(), permissions));
    }

    fn files(&self) -> impl Iterator<Item = (&[u8], u32)> {
        let mut start = 0;
        self.files.iter().map(move |(end, permissions)| {
            let name = self.names.get(start..*end).unwrap_or_default();
            start = *end;
            (name, *permissions)
        })
    }
}

impl PermissionNotes {
    pub(super) fn push(&mut self, notes: FolderNotes) {
        self.folders.push(notes);
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.folders.extend(more.folders);
    }

    /// The most frequent value of each class (the smallest of equally frequent ones), and the
    /// exceptions. If the bits do not tell what is executable, all files are one class.
    pub(super) fn fold(&self, executable: Executable) -> Permissions {
        let is_executable = |bits: u32| executable == Executable::FromDisk && bits & 0o100 != 0;
        let mut files = BTreeMap::<u32, usize>::new();
        let mut folders = BTreeMap::<u32, usize>::new();
        for notes in &self.folders {
            if let Some(permissions) = notes.folder {
                *folders.entry(permissions).or_default() += 1;
            }
            for (_, permissions) in &notes.files {
                *files.entry(*permissions).or_default() += 1;
            }
        }
        let mut folded = Permissions {
            file: most_frequent(&files, |bits| !is_executable(bits)).unwrap_or(0o644),
            executable: most_frequent(&files, is_executable).unwrap_or(0o755),
            folder: most_frequent(&folders, |_| true).unwrap_or(0o755),
            exceptions: BTreeMap::new(),
        };
        if executable == Executable::FromIndex {
            folded.executable = folded.file;
        }
        for notes in &self.folders {
            if let Some(permissions) = notes.folder.filter(|bits| *bits != folded.folder) {
                let path = notes.prefix.strip_suffix(b"/").unwrap_or(&notes.prefix);
                folded
                    .exceptions
                    .insert(RepoPath::from_bytes(path), permissions);
            }
            for (name, permissions) in notes.files() {
                let usual = if is_executable(permissions) {
                    folded.executable
                } else {
                    folded.file
                };
                if permissions != usual {
                    folded.exceptions.insert(
                        RepoPath::from_bytes([&notes.prefix, name].concat()),
                        permissions,
                    );
                }
            }
        }
        folded
    }
}

fn most_frequent(counts: &BTreeMap<u32, usize>, class: impl Fn(u32) -> bool) -> Option<u32> {
    let members = counts
        .iter()
        .filter(|(permissions, _)| class(**permissions));
    members
        .rev()
        .max_by_key(|(_, count)| **count)
        .map(|(permissions, _)| *permissions)
}
