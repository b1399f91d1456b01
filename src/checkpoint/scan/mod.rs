//! What the work tree holds now, told as a difference from the user's index.
//!
//! One walk over all folders on all cores ([`walk`]); a file whose stat is the recorded one costs one
//! system call and is not opened. What the index and the [`cache`] cannot answer is read and hashed
//! ([`content`]). Nothing in the work tree is written and no link is followed. [`Scan`] is the type to read first.

mod cache;
mod content;
mod listing;
mod permission;
#[cfg(test)]
mod tests;
mod tracked;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use super::error::CheckpointError;
use super::ignore::IgnoreRules;
use super::index::Index;
use super::object::{FileMode, ObjectId};
use super::path::RepoPath;
use super::snapshot::{LeftOut, Permissions};
use super::stat::Stat;
use super::worktree::WorkTree;

pub(crate) use cache::StatCache;
pub(crate) use content::{Blob, LargeFile, Sink};
use tracked::Tracked;

/// What a scan found.
#[derive(Debug)]
pub(crate) struct Scan {
    /// What differs from the index: what is on disk (changed or untracked); none for a tracked file that is gone.
    pub(crate) files: BTreeMap<RepoPath, Option<Seen>>,
    /// The permission bits of all files and folders but the top.
    pub(crate) permissions: Permissions,
    /// The folders with nothing in them, in order.
    pub(crate) empty_folders: Vec<RepoPath>,
    /// What is neither held nor touched, in order.
    pub(crate) left_out: Vec<LeftOut>,
    /// The submodules that are checked out, in order; which commit they are at is for the caller to find out.
    pub(crate) submodules: Vec<RepoPath>,
    /// Every `.gitattributes` that was met, in order.
    pub(crate) attribute_files: Vec<RepoPath>,
    /// The rules by which files were ignored, for the scans after this one.
    pub(crate) ignore_rules: IgnoreRules,
    /// Tracked files that the index vouches for although it names other bytes, because git converts them: the bytes on
    /// disk, and what git stored for them.
    pub(crate) vouched: BTreeMap<RepoPath, (ObjectId, ObjectId)>,
    /// Tracked files with the bytes of the index, but another stat.
    pub(crate) touched: BTreeSet<RepoPath>,
    /// What the next scan should be given.
    pub(crate) cache: StatCache,
}

/// A file on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) mode: FileMode,
    /// The name of the bytes as they are on disk; of the target for a link.
    pub(crate) id: ObjectId,
    pub(crate) stat: Stat,
    /// Zero for a link.
    pub(crate) permissions: u32,
}

/// How to scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Larger files are left out, or the sink is asked about them.
    pub(crate) max_file_size: u64,
    pub(crate) large: Large,
    pub(crate) executable: Executable,
    pub(crate) symlinks: Symlinks,
    pub(crate) trust_index: TrustIndex,
}

/// What becomes of files over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Large {
    /// They are left out.
    LeaveOut,
    /// A filter may keep their content: the sink decides.
    Ask,
}

/// How symbolic links of the repository are kept on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symlinks {
    /// As links.
    Links,
    /// As files that hold the target (`core.symlinks=false`).
    Files,
}

/// How kinds of files are known and written on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskKinds {
    pub(crate) executable: Executable,
    pub(crate) symlinks: Symlinks,
}

/// Where it is known from whether a file is executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executable {
    /// From its permission bits.
    FromDisk,
    /// From the index, since the bits mean nothing (`core.fileMode=false`).
    FromIndex,
}

/// What a matching stat says about the bytes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrustIndex {
    /// They are the blob that the index names.
    Trust,
    /// Little: the index names content that git has converted. Raw ids come from the cache, or from hashing.
    RawOnly,
}

/// Compares the work tree with the index. New content is handed to the sink.
pub(crate) fn scan(
    work_tree: &WorkTree,
    index: &Index,
    cache: &StatCache,
    rules: &IgnoreRules,
    options: &Options,
    sink: &mut Sink<'_>,
) -> Result<Scan, CheckpointError> {
    let tracked = Tracked::of(index);
    let mut new_cache = StatCache::new(work_tree.now()?);
    let mut findings = walk::walk(work_tree, tracked, cache, rules, options)?;
    let pending = std::mem::take(&mut findings.pending);
    let resolved = content::resolve(work_tree, tracked, options, pending, sink)?;

    let mut files: BTreeMap<RepoPath, Option<Seen>> =
        findings.gone.iter().map(|at| (RepoPath::from_bytes(tracked.path(*at)), None)).collect();
    let (mut vouched, mut touched) = (BTreeMap::new(), BTreeSet::new());
    for file in resolved.files {
        new_cache.push(file.path.clone(), file.seen.mode, file.seen.stat, file.seen.id);
        let known = file.tracked.and_then(|at| tracked.entry(at)).filter(|entry| !entry.intent_to_add);
        let is_proved = known.is_some_and(|entry| entry.is_proved_by(file.seen.mode, &file.seen.stat));
        match known {
            Some(entry) if is_proved && entry.id != file.seen.id => {
                vouched.insert(file.path.clone(), (file.seen.id, entry.id));
            }
            Some(entry) if !is_proved && entry.id == file.seen.id => {
                touched.insert(file.path.clone());
            }
            _ => {}
        }
        if known.is_some_and(|entry| (entry.mode, entry.id) == (file.seen.mode, file.seen.id)) {
            // A folder may have come and gone at this place during the walk.
            files.remove(&file.path);
        } else {
            files.insert(file.path, Some(file.seen));
        }
    }
    for at in resolved.gone {
        files.insert(RepoPath::from_bytes(tracked.path(at)), None);
    }
    new_cache.finish();
    for (path, permissions) in resolved.large {
        let name = path.file_name();
        let prefix = path.as_bytes().strip_suffix(name).unwrap_or_default();
        let mut notes = permission::FolderNotes::new(prefix, None);
        notes.file(name, permissions);
        findings.permissions.push(notes);
    }
    findings.left_out.extend(resolved.left_out);
    findings.left_out.sort();
    findings.empty_folders.sort();
    findings.submodules.sort();
    findings.attribute_files.sort();
    Ok(Scan {
        files,
        permissions: findings.permissions.fold(options.executable),
        empty_folders: findings.empty_folders,
        left_out: findings.left_out,
        submodules: findings.submodules,
        attribute_files: findings.attribute_files,
        ignore_rules: rules.frozen(findings.rules),
        vouched,
        touched,
        cache: new_cache,
    })
}
