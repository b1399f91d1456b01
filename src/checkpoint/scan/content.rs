//! The names of contents that neither the index nor the cache knows.
//!
//! Files are read and hashed on all cores in batches, so that only so many bytes are in memory at
//! once; each batch is then handed to the caller on the caller's own thread.

use rayon::prelude::*;

use super::super::error::CheckpointError;
use super::super::object::{FileMode, ObjectFormat, ObjectId};
use super::super::path::RepoPath;
use super::super::snapshot::{LeftOut, LeftOutReason};
use super::super::stat::Stat;
use super::super::worktree::{Folders, Found, WorkTree};
use super::tracked::Tracked;
use super::walk::file_mode;
use super::{Options, Seen};

/// So many bytes, and so many files, are in memory at once.
const BATCH_SIZE: u64 = 64 << 20;
const BATCH_FILES: usize = 4096;
/// So many neighbours are read by one core.
const NEIGHBOURS: usize = 64;
/// How often a file is read that is written to meanwhile.
const ATTEMPTS: usize = 3;

/// Where new content goes.
pub(crate) struct Sink<'s> {
    /// Whether an object is stored already; asked about ids from the cache.
    pub(crate) holds: &'s mut dyn FnMut(ObjectId) -> bool,
    /// Stores contents that the index does not name.
    pub(crate) store: &'s mut dyn FnMut(&[Blob]) -> Result<(), CheckpointError>,
    /// Whether a file over the limit is not left out, given what git stores for it by the index.
    pub(crate) keep_large: KeepLarge<'s>,
}

/// Decides about a file over the limit; its content is read when that is asked for.
pub(crate) type KeepLarge<'s> = &'s mut dyn FnMut(&LargeFile<'_>) -> Result<Option<Seen>, CheckpointError>;

/// A file over the limit.
pub(crate) struct LargeFile<'f> {
    pub(crate) path: &'f RepoPath,
    pub(crate) size: u64,
    /// What was found in the file, which is read once more each time.
    pub(crate) read: &'f dyn Fn() -> Result<Option<Seen>, CheckpointError>,
    /// What git stores for the file, if the index vouches for it in this state.
    pub(crate) vouched: &'f dyn Fn(&Seen) -> Option<ObjectId>,
}

/// A content and its name.
#[derive(Debug)]
pub(crate) struct Blob {
    pub(crate) id: ObjectId,
    pub(crate) bytes: Vec<u8>,
}

/// A file that the index could not answer for.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) path: RepoPath,
    /// Where it is in the index.
    pub(super) tracked: Option<usize>,
    pub(super) mode: FileMode,
    pub(super) stat: Stat,
    pub(super) permissions: u32,
    pub(super) size: u64,
    /// What the cache says.
    pub(super) known: Option<ObjectId>,
}

/// The files with their ids.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) files: Vec<ResolvedFile>,
    /// Tracked files that went away before they could be read.
    pub(super) gone: Vec<usize>,
    pub(super) left_out: Vec<LeftOut>,
    /// Files over the limit that are not left out, with their permission bits.
    pub(super) large: Vec<(RepoPath, u32)>,
}

#[derive(Debug)]
pub(super) struct ResolvedFile {
    pub(super) path: RepoPath,
    pub(super) tracked: Option<usize>,
    pub(super) seen: Seen,
}

/// What came of reading a file.
enum Read {
    File(Seen, Vec<u8>),
    Gone,
    LeftOut(LeftOutReason),
}

/// Finds the id of each file, and hands over the contents that are new.
pub(super) fn resolve(
    work_tree: &WorkTree,
    tracked: Tracked<'_>,
    options: &Options,
    pending: Vec<Pending>,
    sink: &mut Sink<'_>,
) -> Result<Resolved, CheckpointError> {
    let mut resolved = Resolved::default();
    let mut to_hash = Vec::new();
    for file in pending {
        let in_index = |id| index_id(tracked, file.tracked) == Some(id);
        match file.known.filter(|id| in_index(*id) || (sink.holds)(*id)) {
            Some(id) => {
                let seen = Seen { mode: file.mode, id, stat: file.stat, permissions: file.permissions };
                if is_large(options, &file) {
                    resolved.large.push((file.path.clone(), file.permissions));
                }
                resolved.files.push(ResolvedFile { path: file.path, tracked: file.tracked, seen });
            }
            None if is_large(options, &file) => resolve_large(work_tree, tracked, options, file, sink, &mut resolved)?,
            None => to_hash.push(file),
        }
    }
    let mut rest = to_hash.as_slice();
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(batch_length(rest));
        rest = after;
        // Files of one folder stand next to each other: its path is opened once.
        let neighbours = batch.par_chunks(NEIGHBOURS).map(|files| {
            let mut folders = Folders::of(work_tree);
            files.iter().map(|file| read(&mut folders, tracked, options, file)).collect::<Result<_, _>>()
        });
        let read = neighbours.collect::<Result<Vec<Vec<Read>>, _>>()?;
        let mut blobs = Vec::new();
        for (file, outcome) in batch.iter().zip(read.into_iter().flatten()) {
            match outcome {
                Read::File(seen, bytes) => {
                    if index_id(tracked, file.tracked) != Some(seen.id) {
                        blobs.push(Blob { id: seen.id, bytes });
                    }
                    resolved.files.push(ResolvedFile { path: file.path.clone(), tracked: file.tracked, seen });
                }
                Read::Gone => resolved.gone.extend(file.tracked),
                Read::LeftOut(reason) => resolved.left_out.push(LeftOut { path: file.path.clone(), reason }),
            }
        }
        if !blobs.is_empty() {
            (sink.store)(&blobs)?;
        }
    }
    Ok(resolved)
}

fn is_large(options: &Options, file: &Pending) -> bool {
    file.mode != FileMode::Symlink && file.size > options.max_file_size
}

/// Asks the sink about a file over the limit.
fn resolve_large(
    work_tree: &WorkTree,
    tracked: Tracked<'_>,
    options: &Options,
    file: Pending,
    sink: &mut Sink<'_>,
    resolved: &mut Resolved,
) -> Result<(), CheckpointError> {
    let entry = || file.tracked.and_then(|at| tracked.entry(at)).filter(|entry| !entry.intent_to_add);
    let unlimited = Options { max_file_size: u64::MAX, ..*options };
    let read = || match read(&mut Folders::of(work_tree), tracked, &unlimited, &file)? {
        Read::File(seen, _) => Ok(Some(seen)),
        Read::Gone | Read::LeftOut(_) => Ok(None),
    };
    let vouched = |seen: &Seen| entry().filter(|entry| entry.is_proved_by(seen.mode, &seen.stat)).map(|entry| entry.id);
    let asked = LargeFile { path: &file.path, size: file.size, read: &read, vouched: &vouched };
    if let Some(seen) = (sink.keep_large)(&asked)? {
        resolved.large.push((file.path.clone(), seen.permissions));
        resolved.files.push(ResolvedFile { path: file.path, tracked: file.tracked, seen });
        return Ok(());
    }
    match work_tree.state(&file.path)? {
        Some(Found::File { size, modified, .. }) => {
            let reason = LeftOutReason::TooLarge { size, modified };
            resolved.left_out.push(LeftOut { path: file.path, reason });
        }
        _ => resolved.gone.extend(file.tracked),
    }
    Ok(())
}

/// The content that the index names, which is stored therefore.
fn index_id(tracked: Tracked<'_>, at: Option<usize>) -> Option<ObjectId> {
    at.and_then(|at| tracked.entry(at)).filter(|entry| !entry.intent_to_add).map(|entry| entry.id)
}

/// How many of the files fit into a batch; at least one.
fn batch_length(files: &[Pending]) -> usize {
    let mut size = 0;
    let fitting = files.iter().take(BATCH_FILES).take_while(|file| {
        size += file.size;
        size <= BATCH_SIZE
    });
    fitting.count().max(1)
}

/// Reads a file that holds still, with the state it has then.
fn read(
    folders: &mut Folders<'_>,
    tracked: Tracked<'_>,
    options: &Options,
    file: &Pending,
) -> Result<Read, CheckpointError> {
    for _ in 0..ATTEMPTS {
        match folders.state(&file.path)? {
            None | Some(Found::Folder { .. }) => return Ok(Read::Gone),
            Some(Found::Special) => return Ok(Read::LeftOut(LeftOutReason::SpecialFile)),
            Some(Found::File { size, modified, .. }) if size > options.max_file_size => {
                return Ok(Read::LeftOut(LeftOutReason::TooLarge { size, modified }));
            }
            Some(Found::File { .. }) => match folders.read(&file.path) {
                Ok(Some((bytes, Found::File { permissions, stat, .. }))) => {
                    let mode = file_mode(options, permissions, file.tracked.and_then(|at| tracked.entry(at)));
                    return Ok(Read::File(
                        Seen { mode, id: blob_id(tracked.format(), &bytes), stat, permissions },
                        bytes,
                    ));
                }
                // It is something else by now, or it was written to: look again.
                Ok(_) | Err(CheckpointError::Changing(_)) => {}
                Err(CheckpointError::Unreadable { source, .. })
                    if file.tracked.is_none() && source.kind() == std::io::ErrorKind::PermissionDenied =>
                {
                    return Ok(Read::LeftOut(LeftOutReason::Unreadable));
                }
                Err(err) => return Err(err),
            },
            Some(before @ Found::Symlink { stat }) => {
                let target = folders.read_link(&file.path)?;
                if let (Some(target), true) = (target, folders.state(&file.path)? == Some(before)) {
                    let seen =
                        Seen { mode: FileMode::Symlink, id: blob_id(tracked.format(), &target), stat, permissions: 0 };
                    return Ok(Read::File(seen, target));
                }
            }
        }
    }
    Err(CheckpointError::Changing(file.path.clone()))
}

/// The name that git gives to a content.
fn blob_id(format: ObjectFormat, bytes: &[u8]) -> ObjectId {
    let mut hash = format.hasher();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hash.finish()
}
