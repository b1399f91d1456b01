//! Restores many files.
//!
//! Files are checked on all cores, written to temporary files, synced together, and renamed one
//! after the other. A file that changes between the check and the rename is checked again alone. A
//! path that is not a plain file (a link, a folder in the way) is handled alone too.

use std::collections::BTreeMap;

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
    let neighbours = files.par_chunks(NEIGHBOURS);
    let judged = neighbours.map(|files| {
        let mut folders = OpenFolders::of(work_tree);
        files
            .iter()
            .map(|file| judge(&mut folders, file, kinds))
            .collect::<Vec<_>>()
    });
    judged.flatten_iter().collect()
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
        let mut folders = OpenFolders::of(work_tree);
        for (file, judged) in batch.iter().zip(judge_all(work_tree, batch, kinds)) {
            let removed = match judged {
                Ok(Judged {
                    judgement: FileCondition::Expected,
                    found,
                    ..
                }) => match folders.state(&file.path) {
                    Ok(now) if now == found => folders
                        .remove_file(&file.path)
                        .map(|()| PlacementState::Yes),
                    Ok(_) => alone(file),
                    Err(err) => Err(err),
                },
                judged => judged.map(|judged| PlacementState::of(judged.judgement)),
            };
            failpoint("restore-path");
            report.note(&file.path, removed)?;
        }
    }
    Ok(())
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
    let mut folders = OpenFolders::of(work_tree);
    for (at, (file, judged)) in files.iter().zip(judged).enumerate() {
        let placed = match (written.remove(&at), judged) {
            (Some(Ok(draft)), Ok(judged)) => {
                failpoint("file-written");
                let is_unchanged = folders
                    .state(&file.path)
                    .is_ok_and(|now| now == judged.found);
                if is_unchanged && folders.put(drafts, &draft, &file.path).is_ok() {
                    Ok(PlacementState::Yes)
                } else {
                    drafts.remove(&draft);
                    alone(file)
                }
            }
            (Some(Err(err)), _) | (_, Err(err)) => Err(err),
            (
                _,
                Ok(Judged {
                    judgement: FileCondition::Expected,
                    ..
                }),
            ) => alone(file),
            (_, Ok(judged)) => Ok(PlacementState::of(judged.judgement)),
        };
        failpoint("restore-path");
        if let Err(err) = report.note(&file.path, placed) {
            written
                .values()
                .flatten()
                .for_each(|draft| drafts.remove(draft));
            return Err(err);
        }
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
