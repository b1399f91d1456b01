//! Refs in a reftable (`extensions.refStorage`), read and moved by the `git` program.
//!
//! libgit2 cannot read a reftable and sees an invalid HEAD. [`RefListing`] has all refs from `git
//! for-each-ref`. Git replaces `tables.list` whenever it changes a ref, so a listing is valid until
//! that file changes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::super::error::CheckpointError;
use super::super::git_cli::GitProgram;
use super::super::object::ObjectId;
use super::super::repository::Repository;

/// The time limit for reading refs.
const LIMIT: Duration = Duration::from_mins(1);

/// All refs of a worktree at one moment.
#[derive(Debug)]
pub(crate) struct RefListing {
    stamps: [Option<Stamp>; 2],
    refs: BTreeMap<String, RefEntry>,
    /// The branch of HEAD, even without a commit.
    head: Option<String>,
}

#[derive(Clone, Debug)]
struct RefEntry {
    id: ObjectId,
    /// Its target, if it is symbolic.
    target: Option<String>,
}

/// Identifies a `tables.list`: inode, size and time of change.
type Stamp = (u64, u64, i64, i64);

impl RefListing {
    /// The object that a ref leads to.
    pub(super) fn find(&self, name: &str) -> Option<ObjectId> {
        self.refs.get(name).map(|found| found.id)
    }

    pub(super) fn branch(&self) -> Option<String> {
        self.head.clone()
    }

    /// The refs that are not symbolic.
    pub(super) fn direct(&self) -> impl Iterator<Item = (&str, ObjectId)> {
        self.refs
            .iter()
            .filter(|(_, found)| found.target.is_none())
            .map(|(name, found)| (name.as_str(), found.id))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, ObjectId)> {
        self.refs
            .iter()
            .map(|(name, found)| (name.as_str(), found.id))
    }
}

/// The current refs; read again only if git has changed one.
pub(super) fn listing(repository: &Repository) -> Result<Arc<RefListing>, CheckpointError> {
    let stamps = [repository.git.commondir(), repository.git.path()].map(stamp);
    if let Some(known) = repository
        .listing
        .borrow()
        .as_ref()
        .filter(|known| known.stamps == stamps)
    {
        return Ok(Arc::clone(known));
    }
    let git = repository.program();
    // Include HEAD and other root refs: `--include-root-refs`.
    let words = [
        "for-each-ref",
        "--include-root-refs",
        "--format=%(objectname) %(refname) %(symref)",
    ];
    let text = answer(&git, "read the refs", &words)?;
    let mut refs = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let id = words.next().and_then(|id| id.parse().ok());
        let (Some(id), Some(name)) = (id, words.next()) else {
            continue;
        };
        let target = words
            .next()
            .filter(|target| !target.is_empty())
            .map(str::to_owned);
        refs.insert(name.to_owned(), RefEntry { id, target });
    }
    let head = match refs.get("HEAD") {
        Some(found) => found.target.clone(),
        // The branch has no commit yet.
        None => Some(
            answer(&git, "read HEAD", &["symbolic-ref", "HEAD"])?
                .trim_end()
                .to_owned(),
        ),
    };
    // Use the stamps from before the reading: a change meanwhile is read the next time.
    let listing = Arc::new(RefListing { stamps, refs, head });
    *repository.listing.borrow_mut() = Some(Arc::clone(&listing));
    Ok(listing)
}

/// The commit with a name.
pub(super) fn find_named(repository: &Repository, name: &str) -> Option<ObjectId> {
    let commit = format!("{name}^{{commit}}");
    let words = [
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        &commit,
    ];
    answer(&repository.program(), "read a ref", &words)
        .ok()?
        .trim_end()
        .parse()
        .ok()
}

/// The last two entries of HEAD's reflog, newest first, each with its reason.
pub(super) fn last_moves(repository: &Repository) -> Option<Vec<(ObjectId, String)>> {
    let words = [
        "log",
        "--walk-reflogs",
        "--max-count=2",
        "--format=%H %gs",
        "HEAD",
        "--",
    ];
    let text = answer(&repository.program(), "read the log of HEAD", &words).ok()?;
    text.lines()
        .map(|line| {
            line.split_once(' ')
                .and_then(|(id, why)| Some((id.parse().ok()?, why.to_owned())))
        })
        .collect()
}

/// The output of git; an error if it fails.
pub(super) fn answer(
    git: &GitProgram,
    doing: &'static str,
    words: &[&str],
) -> Result<String, CheckpointError> {
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    let output = git.read(doing, &words, LIMIT)?;
    if !output.succeeded {
        return Err(CheckpointError::GitProgram {
            doing,
            reason: output.reason,
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn stamp(git_dir: &Path) -> Option<Stamp> {
    let found = fs::metadata(git_dir.join("reftable").join("tables.list")).ok()?;
    Some((found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
}
