//! Hashes contents that neither the index nor the cache has.
//!
//! Files are read and hashed on all cores in batches, to limit the memory; each batch is then
//! passed to the caller on the caller's thread.

use rayon::prelude::*;

use super::super::error::CheckpointError;
use super::super::no_follow::{OpenFolders, PathState, WorkTree};
use super::super::object::{FileMode, ObjectFormat, ObjectId};
use super::super::path::RepoPath;
use super::super::snapshot::{LeftOut, LeftOutReason};
use super::super::stat::Stat;
use super::tracked::TrackedFiles;
use super::walk::file_mode;
use super::{ScanOptions, Seen};

/// How many bytes, and how many files, are in memory at once.
const BATCH_SIZE: u64 = 64 << 20;
const BATCH_FILES: usize = 4096;
/// How many adjacent files one core reads.
const NEIGHBOURS: usize = 64;
/// How often to read a file that keeps changing.
const ATTEMPTS: usize = 3;

/// Where new content goes.
pub(crate) struct Sink<'s> {
    /// Whether an object is already stored; called with ids from the cache.
    pub(crate) holds: &'s mut dyn FnMut(ObjectId) -> bool,
    /// Stores contents that the index does not have.
    pub(crate) store: &'s mut dyn FnMut(&[Blob]) -> Result<(), CheckpointError>,
    /// Whether to keep a file over the limit, given what git stores for it according to the index.
    pub(crate) keep_large: KeepLarge<'s>,
}

/// Decides about a file over the limit; reads its content on request.
pub(crate) type KeepLarge<'s> =
    &'s mut dyn FnMut(&LargeFile<'_>) -> Result<Option<Seen>, CheckpointError>;

/// A file over the limit.
pub(crate) struct LargeFile<'f> {
    pub(crate) path: &'f RepoPath,
    pub(crate) size: u64,
    /// Reads the file; each call reads it again.
    pub(crate) read: &'f dyn Fn() -> Result<Option<Seen>, CheckpointError>,
    /// What git stores for the file, if the index confirms this state.
    pub(crate) vouched: &'f dyn Fn(&Seen) -> Option<ObjectId>,
}

#[derive(Debug)]
pub(crate) struct Blob {
    pub(crate) id: ObjectId,
    pub(crate) bytes: Vec<u8>,
}

/// A file that the index cannot confirm.
#[derive(Debug)]
pub(super) struct PendingFile {
    pub(super) path: RepoPath,
    /// Its position in the index.
    pub(super) tracked: Option<usize>,
    pub(super) mode: FileMode,
    pub(super) stat: Stat,
    pub(super) permissions: u32,
    pub(super) size: u64,
    /// The id in the cache.
    pub(super) known: Option<ObjectId>,
}

/// The files with their ids.
#[derive(Debug, Default)]
pub(super) struct ResolvedFiles {
    pub(super) files: Vec<ResolvedFile>,
    /// Tracked files that disappeared before they could be read.
    pub(super) gone: Vec<usize>,
    pub(super) left_out: Vec<LeftOut>,
    /// Kept files over the limit, with their permission bits.
    pub(super) large: Vec<(RepoPath, u32)>,
}

#[derive(Debug)]
pub(super) struct ResolvedFile {
    pub(super) path: RepoPath,
    pub(super) tracked: Option<usize>,
    pub(super) seen: Seen,
}

/// The result of reading a file.
enum ReadFile {
    File(Seen, Vec<u8>),
    Gone,
    LeftOut(LeftOutReason),
}

/// Determines the id of each file, and passes new contents to the sink.
pub(super) fn resolve(
    work_tree: &WorkTree,
    tracked: TrackedFiles<'_>,
    options: &ScanOptions,
    pending: Vec<PendingFile>,
    sink: &mut Sink<'_>,
) -> Result<ResolvedFiles, CheckpointError> {
    let mut resolved = ResolvedFiles::default();
    let mut to_hash = Vec::new();
    for file in pending {
        let in_index = |id| index_id(tracked, file.tracked) == Some(id);
        match file.known.filter(|id| in_index(*id) || (sink.holds)(*id)) {
            Some(id) => {
                let seen = Seen {
                    mode: file.mode,
                    id,
                    stat: file.stat,
                    permissions: file.permissions,
                };
                if is_large(options, &file) {
                    resolved.large.push((file.path.clone(), file.permissions));
                }
                resolved.files.push(ResolvedFile {
                    path: file.path,
                    tracked: file.tracked,
                    seen,
                });
            }
            None if is_large(options, &file) => {
                resolve_large(work_tree, tracked, options, file, sink, &mut resolved)?;
            }
            None => to_hash.push(file),
        }
    }
    let mut rest = to_hash.as_slice();
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(batch_length(rest));
        rest = after;
        // Files of one folder are adjacent: open its path once.
        let read_all = |files: &[PendingFile]| {
            let mut folders = OpenFolders::of(work_tree);
            files
                .iter()
                .map(|file| read(&mut folders, tracked, options, file))
                .collect::<Result<Vec<ReadFile>, _>>()
        };
        let read = if batch.len() <= NEIGHBOURS {
            // No thread has to be started for them.
            vec![read_all(batch)?]
        } else {
            let neighbours = batch.par_chunks(NEIGHBOURS).map(read_all);
            neighbours.collect::<Result<Vec<_>, _>>()?
        };
        let mut blobs = Vec::new();
        for (file, outcome) in batch.iter().zip(read.into_iter().flatten()) {
            match outcome {
                ReadFile::File(seen, bytes) => {
                    if index_id(tracked, file.tracked) != Some(seen.id) {
                        blobs.push(Blob { id: seen.id, bytes });
                    }
                    resolved.files.push(ResolvedFile {
                        path: file.path.clone(),
                        tracked: file.tracked,
                        seen,
                    });
                }
                ReadFile::Gone => resolved.gone.extend(file.tracked),
                ReadFile::LeftOut(reason) => resolved.left_out.push(LeftOut {
                    path: file.path.clone(),
                    held: false,
                    reason,
                }),
            }
        }
        if !blobs.is_empty() {
            (sink.store)(&blobs)?;
        }
    }
    Ok(resolved)
}

fn is_large(options: &ScanOptions, file: &PendingFile) -> bool {
    file.mode != FileMode::Symlink && file.size > options.max_file_size
}

/// Asks the sink about a file over the limit.
fn resolve_large(
    work_tree: &WorkTree,
    tracked: TrackedFiles<'_>,
    options: &ScanOptions,
    file: PendingFile,
    sink: &mut Sink<'_>,
    resolved: &mut ResolvedFiles,
) -> Result<(), CheckpointError> {
    let entry = || {
        file.tracked
            .and_then(|at| tracked.entry(at))
            .filter(|entry| !entry.intent_to_add)
    };
    let unlimited = ScanOptions {
        max_file_size: u64::MAX,
        ..*options
    };
    let read = || match read(&mut OpenFolders::of(work_tree), tracked, &unlimited, &file)? {
        ReadFile::File(seen, _) => Ok(Some(seen)),
        ReadFile::Gone | ReadFile::LeftOut(_) => Ok(None),
    };
    let vouched = |seen: &Seen| {
        entry()
            .filter(|entry| entry.is_proved_by(seen.mode, &seen.stat))
            .map(|entry| entry.id)
    };
    let asked = LargeFile {
        path: &file.path,
        size: file.size,
        read: &read,
        vouched: &vouched,
    };
    if let Some(seen) = (sink.keep_large)(&asked)? {
        resolved.large.push((file.path.clone(), seen.permissions));
        resolved.files.push(ResolvedFile {
            path: file.path,
            tracked: file.tracked,
            seen,
        });
        return Ok(());
    }
    match work_tree.state(&file.path)? {
        Some(PathState::File { size, modified, .. }) => {
            let reason = LeftOutReason::TooLarge { size, modified };
            resolved.left_out.push(LeftOut {
                path: file.path,
                held: false,
                reason,
            });
        }
        _ => resolved.gone.extend(file.tracked),
    }
    Ok(())
}

/// The content in the index, which is therefore stored.
fn index_id(tracked: TrackedFiles<'_>, at: Option<usize>) -> Option<ObjectId> {
    at.and_then(|at| tracked.entry(at))
        .filter(|entry| !entry.intent_to_add)
        .map(|entry| entry.id)
}

/// How many files fit into a batch; at least one.
fn batch_length(files: &[PendingFile]) -> usize {
    let mut size = 0;
    let fitting = files.iter().take(BATCH_FILES).take_while(|file| {
        size += file.size;
        size <= BATCH_SIZE
    });
    fitting.count().max(1)
}

/// Reads a file consistently, with its state.
fn read(
    folders: &mut OpenFolders<'_>,
    tracked: TrackedFiles<'_>,
    options: &ScanOptions,
    file: &PendingFile,
) -> Result<ReadFile, CheckpointError> {
    for _ in 0..ATTEMPTS {
        match folders.state(&file.path)? {
            None | Some(PathState::Folder { .. }) => return Ok(ReadFile::Gone),
            Some(PathState::Special) => return Ok(ReadFile::LeftOut(LeftOutReason::SpecialFile)),
            Some(PathState::File { size, modified, .. }) if size > options.max_file_size => {
                return Ok(ReadFile::LeftOut(LeftOutReason::TooLarge {
                    size,
                    modified,
                }));
            }
            Some(PathState::File { .. }) => match folders.read(&file.path) {
                Ok(Some((
                    bytes,
                    PathState::File {
                        permissions, stat, ..
                    },
                ))) => {
                    let mode = file_mode(
                        options,
                        permissions,
                        file.tracked.and_then(|at| tracked.entry(at)),
                    );
                    return Ok(ReadFile::File(
                        Seen {
                            mode,
                            id: blob_id(tracked.format(), &bytes),
                            stat,
                            permissions,
                        },
                        bytes,
                    ));
                }
                // It became something else, or was written to: try again.
                Ok(_) | Err(CheckpointError::Changing(_)) => {}
                Err(CheckpointError::Unreadable { source, .. })
                    if file.tracked.is_none()
                        && source.kind() == std::io::ErrorKind::PermissionDenied =>
                {
                    return Ok(ReadFile::LeftOut(LeftOutReason::Unreadable));
                }
                Err(err) => return Err(err),
            },
            Some(before @ PathState::Symlink { stat }) => {
                let target = folders.read_link(&file.path)?;
                if let (Some(target), true) = (target, folders.state(&file.path)? == Some(before)) {
                    let seen = Seen {
                        mode: FileMode::Symlink,
                        id: blob_id(tracked.format(), &target),
                        stat,
                        permissions: 0,
                    };
                    return Ok(ReadFile::File(seen, target));
                }
            }
        }
    }
    Err(CheckpointError::Changing(file.path.clone()))
}

/// The object id of a content.
fn blob_id(format: ObjectFormat, bytes: &[u8]) -> ObjectId {
    let mut hash = format.hasher();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hash.finish()
}
