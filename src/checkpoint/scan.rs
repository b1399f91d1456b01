//! Scans the work tree; the result is the difference from the user's index.
//!
//! One walk over all folders on all cores ([`walk`]); a file with the recorded stat fields costs
//! one system call and is not opened. Files that the index and the [`cache`] cannot confirm are
//! read and hashed ([`content`]). The scan writes nothing to the work tree and follows no link.
//! [`WorkTreeScan`] is the type to read first.

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
use super::no_follow::WorkTree;
use super::object::{FileMode, ObjectId};
use super::path::RepoPath;
use super::snapshot::{LeftOut, Permissions};
use super::stat::Stat;

pub(crate) use cache::StatCache;
pub(crate) use content::{Blob, LargeFile, Sink};
use tracked::TrackedFiles;

/// The result of a scan.
#[derive(Debug)]
pub(crate) struct WorkTreeScan {
    /// The differences from the index: the file on disk (changed or untracked); `None` for a
    /// deleted tracked file.
    pub(crate) files: BTreeMap<RepoPath, Option<Seen>>,
    /// The permission bits of all files and folders except the top.
    pub(crate) permissions: Permissions,
    /// The empty folders, sorted.
    pub(crate) empty_folders: Vec<RepoPath>,
    /// Files outside of checkpoints, sorted.
    pub(crate) left_out: Vec<LeftOut>,
    /// The checked-out submodules, sorted; the caller determines their commits.
    pub(crate) submodules: Vec<RepoPath>,
    /// All `.gitattributes` files, sorted.
    pub(crate) attribute_files: Vec<RepoPath>,
    /// The ignore rules of this scan, for later scans.
    pub(crate) ignore_rules: IgnoreRules,
    /// Tracked files that the index confirms although it has other bytes, because git converts
    /// them: the bytes on disk, and what git stored for them.
    pub(crate) vouched: BTreeMap<RepoPath, (ObjectId, ObjectId)>,
    /// Tracked files with the bytes of the index, but other stat fields.
    pub(crate) touched: BTreeSet<RepoPath>,
    /// The cache for the next scan.
    pub(crate) cache: StatCache,
}

/// A file on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) mode: FileMode,
    /// The id of the bytes on disk; for a link, of its target.
    pub(crate) id: ObjectId,
    pub(crate) stat: Stat,
    /// Zero for a link.
    pub(crate) permissions: u32,
}

/// The options of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanOptions {
    /// Larger files are skipped, or the sink decides about them.
    pub(crate) max_file_size: u64,
    pub(crate) large: Large,
    pub(crate) executable: Executable,
    pub(crate) symlinks: Symlinks,
    pub(crate) trust_index: TrustIndex,
}

/// What to do with files over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Large {
    /// Skip them.
    LeaveOut,
    /// A filter may store their content: the sink decides.
    Ask,
}

/// How symbolic links of the repository are represented on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symlinks {
    Links,
    /// As files with the target (`core.symlinks=false`).
    Files,
}

/// How file kinds are detected and written on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskKinds {
    pub(crate) executable: Executable,
    pub(crate) symlinks: Symlinks,
}

/// How to detect that a file is executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executable {
    /// From its permission bits.
    FromDisk,
    /// From the index, because the bits mean nothing (`core.fileMode=false`).
    FromIndex,
}

/// What matching stat fields say about the bytes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrustIndex {
    /// They are the blob in the index.
    Trust,
    /// Little: the index has converted content. Raw ids come from the cache, or from hashing.
    RawOnly,
}

/// Compares the work tree with the index. New content goes to the sink.
pub(crate) fn scan(
    work_tree: &WorkTree,
    index: &Index,
    cache: &StatCache,
    rules: &IgnoreRules,
    options: &ScanOptions,
    sink: &mut Sink<'_>,
) -> Result<WorkTreeScan, CheckpointError> {
    let tracked = TrackedFiles::of(index);
    let mut new_cache = StatCache::new(work_tree.now()?);
    let mut findings = walk::walk(work_tree, tracked, cache, rules, options)?;
    let pending = std::mem::take(&mut findings.pending);
    let resolved = content::resolve(work_tree, tracked, options, pending, sink)?;

    let mut files: BTreeMap<RepoPath, Option<Seen>> = findings
        .gone
        .iter()
        .map(|at| (RepoPath::from_bytes(tracked.path(*at)), None))
        .collect();
    let (mut vouched, mut touched) = (BTreeMap::new(), BTreeSet::new());
    for file in resolved.files {
        new_cache.push(
            file.path.clone(),
            file.seen.mode,
            file.seen.stat,
            file.seen.id,
        );
        let known = file
            .tracked
            .and_then(|at| tracked.entry(at))
            .filter(|entry| !entry.intent_to_add);
        let is_proved =
            known.is_some_and(|entry| entry.is_proved_by(file.seen.mode, &file.seen.stat));
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
            // A folder may have existed at this path during the walk.
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
    Ok(WorkTreeScan {
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
