//! Which files a tool may have changed.
//!
//! Collected by the supervisor from the system calls of the whole tree; too many rather than too few:
//! a call that failed counts as well. It tells the work of a tool from that of somebody else at the
//! same time. It is no wall: a tool that wants to hide a change from it can.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a tool may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Touched {
    /// Nobody knows; it may be anything.
    #[default]
    Unknown,
    /// These.
    Paths(TouchedPaths),
}

/// The files and folders that a tool may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedPaths {
    /// Each by its path without symbolic links on the way.
    pub(super) paths: BTreeSet<PathBuf>,
    /// Folders that were moved with all that is in them.
    pub(super) trees: BTreeSet<PathBuf>,
    /// Files that have other names as well, by device and inode.
    pub(super) inodes: BTreeSet<(u64, u64)>,
}

impl Touched {
    /// Whether the tool may have changed what is at an absolute path.
    pub fn has(&self, path: &Path) -> bool {
        match self {
            Self::Unknown => true,
            Self::Paths(touched) => touched.has(path) || touched.has(&without_links(path)),
        }
    }
}

impl Touched {
    /// What either may have changed.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Paths(mut one), Self::Paths(other)) => {
                one.paths.extend(other.paths);
                one.trees.extend(other.trees);
                one.inodes.extend(other.inodes);
                Self::Paths(one)
            }
            _ => Self::Unknown,
        }
    }
}

impl TouchedPaths {
    /// How much is known, to keep it bounded.
    pub(super) fn len(&self) -> usize {
        self.paths.len() + self.trees.len() + self.inodes.len()
    }

    fn has(&self, path: &Path) -> bool {
        let is_known = self.paths.contains(path) || path.ancestors().any(|above| self.trees.contains(above));
        is_known
            || (!self.inodes.is_empty()
                && fs::symlink_metadata(path).is_ok_and(|file| self.inodes.contains(&(file.dev(), file.ino()))))
    }
}

/// The path with the symbolic links on its way replaced, the last part as it is.
pub(super) fn without_links(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => match fs::canonicalize(parent) {
            Ok(parent) => parent.join(name),
            Err(_) => without_links(parent).join(name),
        },
        _ => fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()),
    }
}
