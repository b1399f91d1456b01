//! Putting many files back.
//!
//! Files are judged on all cores, written beside the work tree, brought to the disk together, and moved into place one
//! after the other. A file that changed between judging and moving is judged again by itself. What is not an ordinary
//! file in an ordinary place (a link, a folder in the way) goes the way of a single file.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::super::error::CheckpointError;
use super::super::object::{Entry, FileMode};
use super::super::objects::Objects;
use super::super::path::RepoPath;
use super::super::scan::{DiskKinds, Symlinks};
use super::super::worktree::{Drafts, Folders, Found, WorkTree};
use super::{Judgement, OnDisk, Placed, Placement, Report, blob_id, judge_found, make_parents};
use crate::failpoint::failpoint;

/// From so many files on they are put back in batches.
pub(super) const MANY: usize = 64;
/// So many files, and so many bytes, are written before they are brought to the disk.
const BATCH_FILES: usize = 8192;
const BATCH_SIZE: usize = 64 << 20;
/// So many neighbours are judged by one core.
const NEIGHBOURS: usize = 128;

/// How a file was found.
pub(super) struct Judged {
    pub(super) judgement: Judgement,
    found: Option<Found>,
    /// The name of its content, if it is a file or link.
    entry: Option<Entry>,
}

/// Judges files that are in the order of their paths.
pub(super) fn judge_all(
    work_tree: &WorkTree,
    files: &[&Placement],
    kinds: DiskKinds,
) -> Vec<Result<Judged, CheckpointError>> {
    let neighbours = files.par_chunks(NEIGHBOURS);
    let judged = neighbours.map(|files| {
        let mut folders = Folders::of(work_tree);
        files.iter().map(|file| judge(&mut folders, file, kinds)).collect::<Vec<_>>()
    });
    judged.flatten_iter().collect()
}

fn judge(folders: &mut Folders<'_>, file: &Placement, kinds: DiskKinds) -> Result<Judged, CheckpointError> {
    let mut found = folders.state(&file.path)?;
    let now = match found {
        None => OnDisk::Nothing,
        Some(Found::Folder { .. }) => OnDisk::Folder,
        Some(Found::Special) => OnDisk::Special,
        Some(Found::Symlink { .. }) => match folders.read_link(&file.path)? {
            None => OnDisk::Nothing,
            Some(target) => OnDisk::File(Entry { mode: FileMode::Symlink, id: blob_id(file.format(), &target)? }, 0),
        },
        Some(Found::File { .. }) => match folders.read(&file.path)? {
            Some((bytes, state @ Found::File { permissions, .. })) => {
                found = Some(state);
                let mode = if permissions & 0o100 == 0 { FileMode::Regular } else { FileMode::Executable };
                OnDisk::File(Entry { mode, id: blob_id(file.format(), &bytes)? }, permissions)
            }
            _ => OnDisk::Nothing,
        },
    };
    let entry = match now {
        OnDisk::File(entry, _) => Some(entry),
        _ => None,
    };
    Ok(Judged { judgement: judge_found(&now, file, kinds), found, entry })
}

/// Removes files; `alone` removes one that has changed since it was judged.
pub(super) fn remove(
    work_tree: &WorkTree,
    files: &[&Placement],
    kinds: DiskKinds,
    report: &mut Report,
    alone: &dyn Fn(&Placement) -> Result<Placed, CheckpointError>,
) -> Result<(), CheckpointError> {
    for batch in files.chunks(BATCH_FILES) {
        let mut folders = Folders::of(work_tree);
        for (file, judged) in batch.iter().zip(judge_all(work_tree, batch, kinds)) {
            let removed = match judged {
                Ok(Judged { judgement: Judgement::Expected, found, .. }) => match folders.state(&file.path) {
                    Ok(now) if now == found => folders.remove_file(&file.path).map(|()| Placed::Yes),
                    Ok(_) => alone(file),
                    Err(err) => Err(err),
                },
                judged => judged.map(|judged| Placed::of(judged.judgement)),
            };
            failpoint("restore-path");
            report.note(&file.path, removed)?;
        }
    }
    Ok(())
}

/// Writes files; `alone` writes one that is not ordinary, or has changed since it was judged.
pub(super) fn write(
    (objects, work_tree, drafts): (&Objects<'_>, &WorkTree, &Drafts<'_>),
    files: &[&Placement],
    kinds: DiskKinds,
    permissions_of_folder: &impl Fn(&RepoPath) -> u32,
    report: &mut Report,
    alone: &dyn Fn(&Placement) -> Result<Placed, CheckpointError>,
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
                        // What cannot be made shows when the file is written.
                        let _ = make_parents(work_tree, &file.path, permissions_of_folder);
                        made = Some(parent);
                    }
                    // What cannot be read is reported when the file is tried by itself.
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

/// Writes the drafts of a batch and brings them to the disk. If the disk is full none of them stays.
fn write_drafts(
    drafts: &Drafts<'_>,
    files: &[&Placement],
    contents: &[(usize, Vec<u8>)],
) -> Result<BTreeMap<usize, Result<String, CheckpointError>>, CheckpointError> {
    let write = |(at, content): &(usize, Vec<u8>)| {
        let file = files.get(*at)?;
        Some((*at, drafts.write(&file.path, content, file.permissions)))
    };
    let written: BTreeMap<usize, _> = contents.par_iter().with_min_len(NEIGHBOURS).filter_map(write).collect();
    match drafts.bring() {
        Ok(()) => Ok(written),
        Err(err) => {
            written.values().flatten().for_each(|draft| drafts.remove(draft));
            Err(err)
        }
    }
}

/// Moves the drafts of a batch into place.
fn put(
    work_tree: &WorkTree,
    drafts: &Drafts<'_>,
    files: &[&Placement],
    judged: Vec<Result<Judged, CheckpointError>>,
    mut written: BTreeMap<usize, Result<String, CheckpointError>>,
    report: &mut Report,
    alone: &dyn Fn(&Placement) -> Result<Placed, CheckpointError>,
) -> Result<(), CheckpointError> {
    let mut folders = Folders::of(work_tree);
    for (at, (file, judged)) in files.iter().zip(judged).enumerate() {
        let placed = match (written.remove(&at), judged) {
            (Some(Ok(draft)), Ok(judged)) => {
                failpoint("file-written");
                let is_unchanged = folders.state(&file.path).is_ok_and(|now| now == judged.found);
                if is_unchanged && folders.put(drafts, &draft, &file.path).is_ok() {
                    Ok(Placed::Yes)
                } else {
                    drafts.remove(&draft);
                    alone(file)
                }
            }
            (Some(Err(err)), _) | (_, Err(err)) => Err(err),
            (_, Ok(Judged { judgement: Judgement::Expected, .. })) => alone(file),
            (_, Ok(judged)) => Ok(Placed::of(judged.judgement)),
        };
        failpoint("restore-path");
        if let Err(err) = report.note(&file.path, placed) {
            written.values().flatten().for_each(|draft| drafts.remove(draft));
            return Err(err);
        }
    }
    Ok(())
}

/// What to write, if a file takes the place of a file or of nothing.
fn ordinary(judged: &Result<Judged, CheckpointError>, file: &Placement, kinds: DiskKinds) -> Option<Entry> {
    let Ok(Judged { judgement: Judgement::Expected, found, entry }) = judged else { return None };
    let is_free = matches!(found, None | Some(Found::File { .. } | Found::Symlink { .. }));
    let target = file.target.filter(|target| is_free && target.mode != FileMode::Gitlink)?;
    let as_link = target.mode == FileMode::Symlink && kinds.symlinks == Symlinks::Links;
    // Only its permission bits changed: its time has not, and stays.
    let same = entry.is_some_and(|now| now.id == target.id && now.mode.is_file());
    (!as_link && !same).then_some(target)
}
