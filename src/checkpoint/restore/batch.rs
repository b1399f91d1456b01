//! Restores many files.
//!
//! Files are checked on all cores, written to temporary files, synced together, and renamed several at
//! once. A file that changes between the check and the rename is checked again alone. A path that is
//! not a plain file (a link, a folder in the way) is handled alone too.

use std::collections::BTreeMap;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use super::super::error::CheckpointError;
use super::super::no_follow::{Drafts, OpenFolders, PathState, WorkTree};
use super::super::object::{Entry, FileMode};
use super::super::objects::Objects;
use super::super::path::RepoPath;
use super::super::scan::{DiskKinds, Symlinks};
use super::{
    FileCondition, OnDisk, Placement, PlacementState, RestoreReport, blob_id, judge_found,
    make_parents,
};
use crate::failpoint::failpoint;

/// From this number on, files are restored in batches.
pub(super) const MANY: usize = 64;
/// How many files, and how many bytes, are written before a sync.
const BATCH_FILES: usize = 8192;
const BATCH_SIZE: usize = 64 << 20;
/// How many adjacent files one core checks.
const NEIGHBOURS: usize = 128;
/// How many files are renamed or removed at once: where the file system discards freed blocks, each of
/// these calls waits for the disk and needs no core meanwhile.
const AT_ONCE: usize = 8;
/// How many adjacent files one thread renames or removes.
const NEXT_NEIGHBOURS: usize = 16;

/// The checked state of a file.
pub(super) struct Judged {
    pub(super) judgement: FileCondition,
    found: Option<PathState>,
    /// Its entry, if it is a file or link.
    entry: Option<Entry>,
}

/// Checks files that are sorted by path.
pub(super) fn judge_all(
    work_tree: &WorkTree,
    files: &[&Placement],
    kinds: DiskKinds,
) -> Vec<Result<Judged, CheckpointError>> {
    by_neighbours(work_tree, files, NEIGHBOURS, |folders, file| {
        judge(folders, file, kinds)
    })
}

/// The results of an action on files that are sorted by path; each thread takes adjacent files.
fn by_neighbours<F: Sync, T: Send>(
    work_tree: &WorkTree,
    files: &[F],
    neighbours: usize,
    act: impl Fn(&mut OpenFolders<'_>, &F) -> T + Sync,
) -> Vec<T> {
    let parts = files.par_chunks(neighbours);
    let done = parts.map(|files| {
        let mut folders = OpenFolders::of(work_tree);
        files
            .iter()
            .map(|file| act(&mut folders, file))
            .collect::<Vec<_>>()
    });
    done.flatten_iter().collect()
}

/// As [`by_neighbours`] for an action that waits for the disk.
fn at_once<F: Sync, T: Send>(
    work_tree: &WorkTree,
    files: &[F],
    act: impl Fn(&mut OpenFolders<'_>, &F) -> T + Send + Sync,
) -> Vec<T> {
    let all = || by_neighbours(work_tree, files, NEXT_NEIGHBOURS, act);
    match ThreadPoolBuilder::new().num_threads(AT_ONCE).build() {
        Ok(threads) => threads.install(all),
        // The system has no more threads: the others do it.
        Err(_) => all(),
    }
}

fn judge(
    folders: &mut OpenFolders<'_>,
    file: &Placement,
    kinds: DiskKinds,
) -> Result<Judged, CheckpointError> {
    let mut found = folders.state(&file.path)?;
    let now = match found {
        None => OnDisk::Nothing,
        Some(PathState::Folder { .. }) => OnDisk::Folder,
        Some(PathState::Special) => OnDisk::Special,
        Some(PathState::Symlink { .. }) => match folders.read_link(&file.path)? {
            None => OnDisk::Nothing,
            Some(target) => OnDisk::File(
                Entry {
                    mode: FileMode::Symlink,
                    id: blob_id(file.format(), &target)?,
                },
                0,
            ),
        },
        Some(PathState::File { .. }) => match folders.read(&file.path)? {
            Some((bytes, state @ PathState::File { permissions, .. })) => {
                found = Some(state);
                let mode = if permissions & 0o100 == 0 {
                    FileMode::Regular
                } else {
                    FileMode::Executable
                };
                OnDisk::File(
                    Entry {
                        mode,
                        id: blob_id(file.format(), &bytes)?,
                    },
                    permissions,
                )
            }
            _ => OnDisk::Nothing,
        },
    };
    let entry = match now {
        OnDisk::File(entry, _) => Some(entry),
        _ => None,
    };
    Ok(Judged {
        judgement: judge_found(&now, file, kinds),
        found,
        entry,
    })
}

/// Removes files; `alone` removes one that has changed since the check.
pub(super) fn remove(
    work_tree: &WorkTree,
    files: &[&Placement],
    kinds: DiskKinds,
    report: &mut RestoreReport,
    alone: &dyn Fn(&Placement) -> Result<PlacementState, CheckpointError>,
) -> Result<(), CheckpointError> {
    for batch in files.chunks(BATCH_FILES) {
        let judged = judge_all(work_tree, batch, kinds);
        let found: Vec<_> = batch.iter().zip(&judged).collect();
        let removed = at_once(work_tree, &found, |folders, (file, judged)| {
            let Ok(Judged {
                judgement: FileCondition::Expected,
                found,
                ..
            }) = judged
            else {
                return None;
            };
            let removed = match folders.state(&file.path) {
                Ok(now) if now == *found => folders.remove_file(&file.path),
                Ok(_) => return None,
                Err(err) => Err(err),
            };
            failpoint("restore-path");
            Some(removed.map(|()| PlacementState::Yes))
        });
        for ((file, judged), removed) in batch.iter().zip(judged).zip(removed) {
            let removed = removed.unwrap_or_else(|| rest_of(judged, file, alone));
            report.note(&file.path, removed)?;
        }
    }
    Ok(())
}

/// Handles a file that was not handled with the others.
fn rest_of(
    judged: Result<Judged, CheckpointError>,
    file: &Placement,
    alone: &dyn Fn(&Placement) -> Result<PlacementState, CheckpointError>,
) -> Result<PlacementState, CheckpointError> {
    let done = match judged?.judgement {
        FileCondition::Expected => alone(file),
        judgement => Ok(PlacementState::of(judgement)),
    };
    failpoint("restore-path");
    done
}

/// Writes files; `alone` writes one that is not a plain file, or has changed since the check.
pub(super) fn write(
    (objects, work_tree, drafts): (&Objects<'_>, &WorkTree, &Drafts<'_>),
    files: &[&Placement],
    kinds: DiskKinds,
    permissions_of_folder: &impl Fn(&RepoPath) -> u32,
    report: &mut RestoreReport,
    alone: &dyn Fn(&Placement) -> Result<PlacementState, CheckpointError>,
) -> Result<(), CheckpointError> {
    for batch in files.chunks(BATCH_FILES) {
        let mut judged = judge_all(work_tree, batch, kinds).into_iter();
        let mut rest = batch;
        while !rest.is_empty() {
            let mut contents: Vec<(usize, Vec<u8>)> = Vec::new();
            let mut size = 0;
            let mut looked: Vec<Result<Judged, CheckpointError>> = Vec::new();
            let mut made: Option<RepoPath> = None;
            for (at, file) in rest.iter().enumerate() {
                let Some(judged) = judged.next() else { break };
                if let Some(target) = ordinary(&judged, file, kinds) {
                    let parent = file.path.parent();
                    if made.as_ref() != Some(&parent) {
                        // If this fails, writing the file reports it.
                        let _ = make_parents(work_tree, &file.path, permissions_of_folder);
                        made = Some(parent);
                    }
                    // If this fails, handling the file alone reports it.
                    if let Ok(content) = objects.read(target.id) {
                        size += content.len();
                        contents.push((at, content));
                    }
                }
                looked.push(judged);
                if size >= BATCH_SIZE {
                    break;
                }
            }
            let (now, later) = rest.split_at(looked.len().max(1).min(rest.len()));
            rest = later;
            let written = write_drafts(drafts, now, &contents)?;
            put(work_tree, drafts, now, looked, written, report, alone)?;
        }
    }
    Ok(())
}

/// Writes the drafts of a batch and syncs them. If the disk is full, none of them stays.
fn write_drafts(
    drafts: &Drafts<'_>,
    files: &[&Placement],
    contents: &[(usize, Vec<u8>)],
) -> Result<BTreeMap<usize, Result<String, CheckpointError>>, CheckpointError> {
    let write = |(at, content): &(usize, Vec<u8>)| {
        let file = files.get(*at)?;
        Some((*at, drafts.write(&file.path, content, file.permissions)))
    };
    let written: BTreeMap<usize, _> = contents
        .par_iter()
        .with_min_len(NEIGHBOURS)
        .filter_map(write)
        .collect();
    match drafts.bring() {
        Ok(()) => Ok(written),
        Err(err) => {
            written
                .values()
                .flatten()
                .for_each(|draft| drafts.remove(draft));
            Err(err)
        }
    }
}

/// Renames the drafts of a batch into place.
fn put(
    work_tree: &WorkTree,
    drafts: &Drafts<'_>,
    files: &[&Placement],
    judged: Vec<Result<Judged, CheckpointError>>,
    mut written: BTreeMap<usize, Result<String, CheckpointError>>,
    report: &mut RestoreReport,
    alone: &dyn Fn(&Placement) -> Result<PlacementState, CheckpointError>,
) -> Result<(), CheckpointError> {
    let found: Vec<_> = files.iter().zip(&judged).enumerate().collect();
    let put = at_once(work_tree, &found, |folders, (at, (file, judged))| {
        let (Some(Ok(draft)), Ok(judged)) = (written.get(at), judged) else {
            return false;
        };
        failpoint("file-written");
        let is_unchanged = folders
            .state(&file.path)
            .is_ok_and(|now| now == judged.found);
        let is_put = is_unchanged && folders.put(drafts, draft, &file.path).is_ok();
        if is_put {
            failpoint("restore-path");
        } else {
            drafts.remove(draft);
        }
        is_put
    });
    for (at, ((file, judged), is_put)) in files.iter().zip(judged).zip(put).enumerate() {
        let placed = match written.remove(&at) {
            _ if is_put => Ok(PlacementState::Yes),
            Some(Err(err)) => Err(err),
            Some(Ok(_)) | None => rest_of(judged, file, alone),
        };
        report.note(&file.path, placed)?;
    }
    Ok(())
}

/// The content to write, if a file replaces a file or nothing.
fn ordinary(
    judged: &Result<Judged, CheckpointError>,
    file: &Placement,
    kinds: DiskKinds,
) -> Option<Entry> {
    let Ok(Judged {
        judgement: FileCondition::Expected,
        found,
        entry,
    }) = judged
    else {
        return None;
    };
    let is_free = matches!(
        found,
        None | Some(PathState::File { .. } | PathState::Symlink { .. })
    );
    let target = file
        .target
        .filter(|target| is_free && target.mode != FileMode::Gitlink)?;
    let as_link = target.mode == FileMode::Symlink && kinds.symlinks == Symlinks::Links;
    // Only the permission bits changed: keep the timestamp.
    let same = entry.is_some_and(|now| now.id == target.id && now.mode.is_file());
    (!as_link && !same).then_some(target)
}
