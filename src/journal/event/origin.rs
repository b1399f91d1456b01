//! The repository in which a run began.

use serde::{Deserialize, Serialize};

/// What tells a repository from its copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryIdentity {
    /// A random id, kept in the git directory.
    pub id: String,
    /// The device and the inode of the git directory: a move keeps them, a copy does not.
    pub device: u64,
    pub inode: u64,
    /// The git directory; bytes that are not UTF-8 are replaced.
    pub git_dir: String,
}
