//! The journal of a run: every event, written to disk before and after each side effect.
//!
//! Each run has one [`Journal`]: lines of JSON, each with the hash of the line before it. A line
//! holds one [`event::Event`], and [`record::read`] reads the lines back. [`seal`] separates the
//! private part of a line, [`chain::verify`] detects tampering, [`key`] authenticates each line, and
//! [`lock::RunLock`] keeps a second run out of a worktree.

pub mod authenticity;
pub mod chain;
pub mod ends;
pub mod error;
pub mod event;
pub mod id;
pub mod key;
pub mod lock;
pub mod public;
pub mod record;
mod reliance;
pub mod seal;
pub mod sequence;
pub mod summary;
pub mod tail;
pub mod walk;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

pub use authenticity::{is_of_another_user, require_authentic};
pub use chain::{Break, BreakReason, Digest, Link, verify, verify_links, verify_public};
pub use ends::{KnownEnd, KnownEnds};
pub use error::JournalError;
pub use event::Event;
pub use id::{RunId, StepId};
pub use key::{Authenticity, Continuation, JournalKey, KeyFile, TagCheck, TagDemand};
pub use public::{PublicLines, UnreadableEntry};
pub use record::{Contents, Privacy, Record, Torn, read, read_each};
pub use seal::Salt;
pub use tail::read_back;
pub use walk::{Brief, walk};

use ends::EndNote;
use record::{ChainPosition, NewLine};
use reliance::Reliance;

use crate::disk::Disk;
use crate::failpoint::{fail, failpoint};

const FILE: &str = "journal.jsonl";

/// The journal of a run, open for appending. The caller must hold the lock of the worktree.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    run: RunId,
    lines: u64,
    length: u64,
    head: Digest,
    /// Salts the hashes of private values; none in a journal of the first format, which has no
    /// private parts.
    salt: Option<Salt>,
    /// Authenticates new lines; none in a journal whose lines have no tags.
    key: Option<JournalKey>,
    /// Where it ends, noted outside of the repository; none without a key.
    end: Option<EndNote>,
    state: TailState,
    durability: Durability,
    disk: Disk,
}

/// When journal lines must be on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Each decision is on disk before it is carried out, so that recovery also works after a power
    /// loss.
    Decisions,
    /// All lines are synced with the last one. This is enough for runs without anything to recover:
    /// a killed process loses nothing, and a power loss only loses the lines.
    LastLine,
}

/// Whether the content at the end of the file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TailState {
    Known,
    Unsure,
}

impl Journal {
    /// Creates the journal of a new run below `…/piton/runs`.
    pub fn create(
        folder: &Path,
        run: RunId,
        salt: Salt,
        durability: Durability,
        disk: &Disk,
    ) -> Result<Self, JournalError> {
        let home = folder.join(run.to_string());
        ensure_folder(folder, disk)?;
        DirBuilder::new()
            .mode(0o700)
            .create(&home)
            .map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => JournalError::Exists(run),
                _ => JournalError::Io {
                    doing: "create",
                    path: home.clone(),
                    source,
                },
            })?;
        failpoint("journal-folder-made");
        let path = home.join(FILE);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(JournalError::io("create", &path))?;
        // Ordering: sync the folders too. A synced line is lost if the name of its file is not on
        // disk.
        if durability == Durability::Decisions {
            let mut folders = [home.as_path(), folder].into_iter();
            folders.try_for_each(|folder| name_on_disk(folder, disk))?;
        }
        failpoint("journal-created");
        let (salt, head, state, disk) = (
            Some(salt),
            Digest::of_run(run),
            TailState::Known,
            disk.clone(),
        );
        Ok(Self {
            file,
            path,
            run,
            lines: 0,
            length: 0,
            head,
            salt,
            key: None,
            end: None,
            state,
            durability,
            disk,
        })
    }

    /// The same journal, before its first line, with a key that authenticates its lines.
    #[must_use]
    pub fn authenticated(mut self, key: Option<JournalKey>) -> Self {
        self.key = key;
        self
    }

    /// The same journal in its final place below `runs`, with a note of where it ends.
    #[must_use]
    pub fn noting_its_end(mut self, runs: &Path) -> Self {
        let (lines, head) = (self.lines, self.head);
        self.end = self
            .key
            .as_ref()
            .and_then(|key| EndNote::begin(key, runs, self.run, KnownEnd { lines, head }));
        self
    }

    /// Opens the journal of an interrupted run and passes each record to `see`. A torn last line is
    /// cut off.
    ///
    /// The chain and the tags are checked on the way, so the records are only valid if this
    /// succeeds.
    pub fn open(
        folder: &Path,
        run: RunId,
        disk: &Disk,
        continuation: &Continuation,
        see: &mut dyn FnMut(&Record),
    ) -> Result<Self, JournalError> {
        let path = path_of(folder, run);
        let (mut head, mut lines, mut length) = (Digest::of_run(run), 0, 0);
        let (mut salt, mut is_whole) = (None, true);
        let mut tags = TagCheck::new(continuation.key.as_ref());
        let known = continuation
            .key
            .as_ref()
            .and_then(|key| KnownEnds::read(key, folder).of(run));
        let mut reaches_end = known.is_none();
        let torn = read_each(&path, &mut |record| {
            is_whole &= chain::follows(&record, run, lines, head);
            tags.take(&record);
            (head, lines, length) = (
                record.digest,
                lines + 1,
                length + record.line.len() as u64 + 1,
            );
            reaches_end |= known == Some(KnownEnd { lines, head });
            if let (None, Privacy::Kept(found)) = (&salt, &record.privacy) {
                salt = Some(found.clone());
            }
            see(&record);
        });
        let torn = torn.map_err(|err| match err {
            JournalError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                JournalError::NoRun(run)
            }
            err => err,
        })?;
        if !is_whole {
            // Describing the break needs all lines.
            let verified = verify(&read(&path)?.records, run);
            return Err(match verified {
                Err(found) => JournalError::Broken { path, found },
                Ok(_) => JournalError::Changed(path),
            });
        }
        tags.demand(continuation.demand, run.started(), &path)?;
        if let (Some(known), false) = (known, reaches_end)
            && continuation.demand != TagDemand::Nothing
        {
            let known = known.lines;
            return Err(JournalError::Shortened { path, lines, known });
        }
        // The lines of one journal all have tags, or none has.
        let key = match tags.found() {
            Some(Authenticity::Unauthenticated) => None,
            _ => continuation.key.clone(),
        };
        let file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(JournalError::io("open", &path))?;
        if let Some(torn) = torn {
            file.set_len(torn.offset)
                .and_then(|()| file.sync_all())
                .map_err(JournalError::io("mend", &path))?;
        }
        let (state, durability, disk) = (TailState::Known, Durability::Decisions, disk.clone());
        // What is known about a journal that lost its end stays known.
        let end = key.as_ref().filter(|_| reaches_end);
        let end = end.and_then(|key| EndNote::begin(key, folder, run, KnownEnd { lines, head }));
        Ok(Self {
            file,
            path,
            run,
            lines,
            length,
            head,
            salt,
            key,
            end,
            state,
            durability,
            disk,
        })
    }

    /// Appends an event. [`Event::reliance`] decides whether earlier files are synced first, and
    /// whether the line is on disk when this returns.
    pub fn append(&mut self, at: Timestamp, event: &Event) -> Result<Digest, JournalError> {
        if self.state == TailState::Unsure {
            return Err(JournalError::Unsure(self.path.clone()));
        }
        // Do not append to a file that was removed, or after text that another process wrote: the
        // next decision would not be on record.
        if !self.is_untouched() {
            self.state = TailState::Unsure;
            return Err(JournalError::Changed(self.path.clone()));
        }
        let path = self.path.clone();
        let failed = |source| JournalError::Io {
            doing: "write",
            path,
            source,
        };
        let place = ChainPosition {
            seq: self.lines + 1,
            at,
            run: self.run,
            prev: self.head,
        };
        let line = match NewLine::new(place, event, self.salt.as_ref()) {
            Ok(line) => line,
            Err(source) => return Err(failed(source)),
        };
        let digest = line.digest;
        let bytes = line.into_bytes(self.key.as_ref());
        failpoint("journal-append");
        let reliance = match self.durability {
            Durability::Decisions => event.reliance(),
            Durability::LastLine if matches!(event, Event::RunFinished(_)) => Reliance::Announces,
            Durability::LastLine => Reliance::Nothing,
        };
        if reliance != Reliance::Nothing
            && let Err(source) = self.disk.settle()
        {
            return Err(failed(source));
        }
        if let Err(source) = fail("journal-append").and_then(|()| self.file.write_all(&bytes)) {
            // The line may be written in part. Cut it off, so that the next line can follow.
            if self.file.set_len(self.length).is_err() {
                self.state = TailState::Unsure;
            }
            return Err(failed(source));
        }
        // After a failed sync the content on disk is unknown, and a second sync could wrongly
        // report success.
        let synced = match reliance {
            Reliance::Announces => {
                fail("journal-sync").and_then(|()| self.disk.barrier(&self.file))
            }
            // On file systems that keep the order of writes, the last effects may not be on disk
            // yet.
            _ if matches!(event, Event::RunFinished(_)) && self.disk.has_staged() => {
                self.disk.barrier(&self.file)
            }
            _ if matches!(event, Event::RunFinished(_)) => self.disk.accompany(&self.file),
            Reliance::Reports | Reliance::Nothing => Ok(()),
        };
        if let Err(source) = synced {
            self.state = TailState::Unsure;
            return Err(failed(source));
        }
        failpoint("journal-appended");
        self.lines += 1;
        self.length += bytes.len() as u64;
        self.head = digest;
        if let Some(note) = &mut self.end {
            let (lines, head) = (self.lines, self.head);
            note.write(KnownEnd { lines, head }, reliance == Reliance::Announces);
        }
        Ok(self.head)
    }

    /// Whether the path still names the open file and its length is unchanged.
    fn is_untouched(&self) -> bool {
        let (Ok(open), Ok(named)) = (self.file.metadata(), fs::symlink_metadata(&self.path)) else {
            return false;
        };
        (open.dev(), open.ino(), open.len()) == (named.dev(), named.ino(), self.length)
    }

    /// The digest of the last line. It covers all lines before it.
    pub fn head(&self) -> Digest {
        self.head
    }

    pub fn run(&self) -> RunId {
        self.run
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The path of a run's journal below `…/piton/runs`.
pub fn path_of(folder: &Path, run: RunId) -> PathBuf {
    folder.join(run.to_string()).join(FILE)
}

/// Writes the tags of a key into a journal that a person has accepted up to the line with the digest
/// `head`. The caller must hold the lock of the worktree.
pub fn accept_lines(
    folder: &Path,
    run: RunId,
    key: &JournalKey,
    head: Digest,
) -> Result<(), JournalError> {
    let path = path_of(folder, run);
    let contents = read(&path)?;
    let found = verify(&contents.records, run).map_err(|found| JournalError::Broken {
        path: path.clone(),
        found,
    })?;
    if found != head {
        return Err(JournalError::Changed(path));
    }
    let home = folder.join(run.to_string());
    let written = tempfile::NamedTempFile::new_in(&home).and_then(|mut draft| {
        for record in &contents.records {
            draft.write_all(&record.retagged(key))?;
        }
        draft.as_file().sync_all()?;
        draft.persist(&path)?;
        File::open(&home)?.sync_all()
    });
    written.map_err(JournalError::io("write", &path))?;
    let lines = contents.records.len() as u64;
    let end = KnownEnd { lines, head };
    if let Some(mut note) = EndNote::begin(key, folder, run, end) {
        note.write(end, true);
    }
    Ok(())
}

/// Whether a run has only an empty folder: piton was killed before it created the journal.
pub fn has_not_begun(folder: &Path, run: RunId) -> bool {
    fs::read_dir(folder.join(run.to_string())).is_ok_and(|mut entries| entries.next().is_none())
}

/// The runs below `…/piton/runs`, newest first; empty when the folder does not exist.
pub fn list(folder: &Path) -> Result<Vec<RunId>, JournalError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(JournalError::io("read", folder)(source)),
    };
    let mut runs = Vec::new();
    for entry in entries {
        let entry = entry.map_err(JournalError::io("read", folder))?;
        // Ignore other names: piton did not create them.
        runs.extend(
            entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<RunId>().ok()),
        );
    }
    runs.sort_unstable_by(|one, other| other.cmp(one));
    Ok(runs)
}

/// Creates a folder and its missing parents.
fn ensure_folder(folder: &Path, disk: &Disk) -> Result<(), JournalError> {
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|folder| !folder.exists())
        .collect();
    for folder in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => {
                return Err(JournalError::io("create", folder)(err));
            }
            _ => folder
                .parent()
                .map_or(Ok(()), |parent| name_on_disk(parent, disk))?,
        }
    }
    Ok(())
}

/// Arranges that the names in a folder are on disk no later than the first line.
fn name_on_disk(folder: &Path, disk: &Disk) -> Result<(), JournalError> {
    disk.accompany_folder(folder)
        .map_err(JournalError::io("sync", folder))
}

#[cfg(test)]
mod tests;
