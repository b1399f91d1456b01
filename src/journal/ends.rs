//! Where the journals of a repository end, noted beside the user's key.
//!
//! Neither the chain nor the tags show that the last lines of a journal were removed. While a
//! journal is written, its newest line is therefore noted in a file that confined tools cannot
//! write. The file is never synced: after a power loss a note may be older than the journal, and a
//! note of an earlier boot counts only up to the last line that a barrier had put on disk. A note is
//! a lower bound, and without one nothing is known.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::chain::Digest;
use super::id::RunId;
use super::key::{JournalKey, LineTag};
use crate::disk::create_private_folder;
use crate::exec::process;
use crate::item::source::read_bytes;

/// The folder beside the key file, with a file per repository.
const FOLDER: &str = "ends";
/// A note with its line feed. All notes have the same length, so that one can be replaced.
const LENGTH: usize = 344;
const MOST: u64 = 64 * 1024 * 1024;

/// A line of a journal, and the head of the chain there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEnd {
    pub lines: u64,
    pub head: Digest,
}

/// The notes of a repository.
#[derive(Debug, Default)]
pub struct KnownEnds(HashMap<RunId, KnownEnd>);

impl KnownEnds {
    /// Reads the notes for the journals below `…/piton/runs`. Notes of others do not count.
    pub fn read(key: &JournalKey, runs: &Path) -> Self {
        let bytes = path_of(key, runs).and_then(|path| read_bytes(&path, MOST).ok());
        let bytes = bytes.unwrap_or_default();
        let (notes, _) = bytes.as_chunks::<LENGTH>();
        // The last note of a run is from its last session.
        Self(notes.iter().filter_map(|note| parse(note, key)).collect())
    }

    /// A line that the journal of a run must have.
    pub fn of(&self, run: RunId) -> Option<KnownEnd> {
        self.0.get(&run).copied()
    }
}

/// The note of a session about its journal.
#[derive(Debug)]
pub(super) struct EndNote {
    key: JournalKey,
    run: RunId,
    boot: String,
    path: PathBuf,
    /// The file and the place in it; none before the first line.
    place: Option<(File, u64)>,
    synced: KnownEnd,
}

impl EndNote {
    /// None where no notes are kept. `end` is where the journal ends now.
    pub(super) fn begin(key: &JournalKey, runs: &Path, run: RunId, end: KnownEnd) -> Option<Self> {
        Some(Self {
            key: key.clone(),
            run,
            boot: process::boot_id().filter(|boot| boot.len() == 36)?,
            path: path_of(key, runs)?,
            place: None,
            synced: end,
        })
    }

    /// Notes that the journal ends here now. A failure leaves an older note, which is still true.
    pub(super) fn write(&mut self, end: KnownEnd, is_synced: bool) {
        if is_synced {
            self.synced = end;
        }
        let note = self.render(end);
        let written = match &self.place {
            Some((file, at)) => file.write_all_at(note.as_bytes(), *at),
            None => match append(&self.path, &note) {
                Ok(place) => {
                    self.place = Some(place);
                    Ok(())
                }
                Err(err) => Err(err),
            },
        };
        let _ = written;
    }

    fn render(&self, end: KnownEnd) -> String {
        let Self {
            run, boot, synced, ..
        } = self;
        let text = format!(
            "{run} {boot} {:020} {} {:020} {}",
            end.lines, end.head, synced.lines, synced.head
        );
        let tag = self.key.tag(text.as_bytes());
        format!("{text} {tag}\n")
    }
}

/// Appends a note with one write, because several worktrees share the file.
fn append(path: &Path, note: &str) -> std::io::Result<(File, u64)> {
    if let Some(folder) = path.parent() {
        create_private_folder(folder)?;
    }
    let open = |is_new: bool| {
        OpenOptions::new()
            .append(is_new)
            .write(true)
            .create(is_new)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
    };
    let mut appending = open(true)?;
    appending.write_all(note.as_bytes())?;
    let end = appending.stream_position()?;
    // At a place in a file that was opened for appending nothing can be replaced.
    Ok((open(false)?, end.saturating_sub(note.len() as u64)))
}

fn parse(note: &[u8; LENGTH], key: &JournalKey) -> Option<(RunId, KnownEnd)> {
    let text = str::from_utf8(note).ok()?.strip_suffix('\n')?;
    let (text, tag) = text.rsplit_once(' ')?;
    if tag.parse::<LineTag>().ok()? != key.tag(text.as_bytes()) {
        return None;
    }
    let mut words = text.split(' ');
    let (run, boot) = (words.next()?.parse().ok()?, words.next()?);
    let mut end = || {
        Some(KnownEnd {
            lines: words.next()?.parse().ok()?,
            head: words.next()?.parse().ok()?,
        })
    };
    let (newest, synced) = (end()?, end()?);
    let is_of_this_boot = process::boot_id().is_some_and(|now| now == boot);
    Some((run, if is_of_this_boot { newest } else { synced }))
}

/// The file for a repository, by the folder of piton in its git directory: a copy has another one.
fn path_of(key: &JournalKey, runs: &Path) -> Option<PathBuf> {
    let own = runs.parent()?.metadata().ok()?;
    let name = format!("{:x}-{:x}", own.dev(), own.ino());
    Some(key.folder()?.join(FOLDER).join(name))
}
