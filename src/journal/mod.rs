//! What a run did, event by event, on disk before and after each side effect.
//!
//! One [`Journal`] per run: lines of JSON, appended and synced one by one, each naming the hash of
//! the one before. [`event::Event`] is what a line says, [`record::read`] reads it back,
//! [`seal`] keeps part of it at home, [`chain::verify`] shows tampering, [`lock::RunLock`] keeps a second run out of a worktree.

pub mod chain;
pub mod error;
pub mod event;
pub mod id;
pub mod lock;
pub mod record;
mod reliance;
pub mod seal;
pub mod sequence;
pub mod summary;
pub mod tail;
pub mod walk;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

pub use chain::{Break, BreakReason, Digest, verify, verify_public};
pub use error::JournalError;
pub use event::Event;
pub use id::{RunId, StepId};
pub use record::{Contents, Privacy, Record, Torn, read, read_each, read_public};
pub use seal::Salt;
pub use tail::read_back;
pub use walk::{Brief, walk};

use record::{NewLine, Place};
use reliance::Reliance;

use crate::disk::Disk;
use crate::failpoint::{fail, failpoint};

const FILE: &str = "journal.jsonl";

/// The journal of a run, open for appending. The lock of the worktree must be held.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    run: RunId,
    lines: u64,
    length: u64,
    head: Digest,
    /// What hides private values; none in a journal of the first format, which hides nothing.
    salt: Option<Salt>,
    state: State,
    durability: Durability,
    disk: Disk,
}

/// When the lines of a journal have to be on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A line before the thing that it announces is done: a recovery relies on it, also after a power loss.
    Decisions,
    /// With the last line. Enough where there is nothing to recover: a death of the process loses
    /// nothing, a power loss the lines of a run that promised nothing.
    LastLine,
}

/// Whether the end of the file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Known,
    Unsure,
}

impl Journal {
    /// Begins the journal of a new run below `…/piton/runs`.
    pub fn create(
        folder: &Path,
        run: RunId,
        salt: Salt,
        durability: Durability,
        disk: &Disk,
    ) -> Result<Self, JournalError> {
        let home = folder.join(run.to_string());
        ensure_folder(folder, disk)?;
        DirBuilder::new().create(&home).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => JournalError::Exists(run),
            _ => JournalError::Io { doing: "create", path: home.clone(), source },
        })?;
        failpoint("journal-folder-made");
        let path = home.join(FILE);
        let file =
            OpenOptions::new().append(true).create_new(true).open(&path).map_err(JournalError::io("create", &path))?;
        // A line that was synced is lost all the same when the name of its file is not on disk.
        if durability == Durability::Decisions {
            let mut folders = [home.as_path(), folder].into_iter();
            folders.try_for_each(|folder| name_on_disk(folder, disk))?;
        }
        failpoint("journal-created");
        let (salt, head, state, disk) = (Some(salt), Digest::of_run(run), State::Known, disk.clone());
        Ok(Self { file, path, run, lines: 0, length: 0, head, salt, state, durability, disk })
    }

    /// Opens the journal of a run that was interrupted, and shows each of its records. A torn last line is cut off.
    ///
    /// What was shown counts only when this succeeds: the chain is checked on the way.
    pub fn open(folder: &Path, run: RunId, disk: &Disk, see: &mut dyn FnMut(&Record)) -> Result<Self, JournalError> {
        let path = path_of(folder, run);
        let (mut head, mut lines, mut length) = (Digest::of_run(run), 0, 0);
        let (mut salt, mut is_whole) = (None, true);
        let torn = read_each(&path, &mut |record| {
            is_whole &= chain::follows(&record, run, lines, head);
            (head, lines, length) = (record.digest, lines + 1, length + record.line.len() as u64 + 1);
            if let (None, Privacy::Kept(found)) = (&salt, &record.privacy) {
                salt = Some(found.clone());
            }
            see(&record);
        });
        let torn = torn.map_err(|err| match err {
            JournalError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => JournalError::NoRun(run),
            err => err,
        })?;
        if !is_whole {
            // Only all lines together show what was done to them.
            let verified = verify(&read(&path)?.records, run);
            return Err(match verified {
                Err(found) => JournalError::Broken { path, found },
                Ok(_) => JournalError::Changed(path),
            });
        }
        let file = OpenOptions::new().append(true).open(&path).map_err(JournalError::io("open", &path))?;
        if let Some(torn) = torn {
            file.set_len(torn.offset).and_then(|()| file.sync_all()).map_err(JournalError::io("mend", &path))?;
        }
        let (state, durability, disk) = (State::Known, Durability::Decisions, disk.clone());
        Ok(Self { file, path, run, lines, length, head, salt, state, durability, disk })
    }

    /// Writes an event. What it relies on is on disk before it, and it is on disk itself when this returns, as far as
    /// [`Event::reliance`] says so.
    pub fn append(&mut self, at: Timestamp, event: &Event) -> Result<Digest, JournalError> {
        if self.state == State::Unsure {
            return Err(JournalError::Unsure(self.path.clone()));
        }
        // What is decided next must be on record: not in a file that is gone, nor after somebody else's words.
        if !self.is_untouched() {
            self.state = State::Unsure;
            return Err(JournalError::Changed(self.path.clone()));
        }
        let path = self.path.clone();
        let failed = |source| JournalError::Io { doing: "write", path, source };
        let place = Place { seq: self.lines + 1, at, run: self.run, prev: self.head };
        let line = match NewLine::new(place, event, self.salt.as_ref()) {
            Ok(line) => line,
            Err(source) => return Err(failed(source)),
        };
        let mut bytes = line.text.into_bytes();
        bytes.push(b'\n');
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
            // Part of the line may be there. Without it the next line can still follow.
            if self.file.set_len(self.length).is_err() {
                self.state = State::Unsure;
            }
            return Err(failed(source));
        }
        // After a sync that failed nobody knows what is on disk, and a second one would lie.
        let synced = match reliance {
            Reliance::Announces => fail("journal-sync").and_then(|()| self.disk.barrier(&self.file)),
            // Where the file system keeps the order, the last thing that was done is not on disk yet.
            _ if matches!(event, Event::RunFinished(_)) && self.disk.has_staged() => self.disk.barrier(&self.file),
            _ if matches!(event, Event::RunFinished(_)) => self.disk.accompany(&self.file),
            Reliance::Reports | Reliance::Nothing => Ok(()),
        };
        if let Err(source) = synced {
            self.state = State::Unsure;
            return Err(failed(source));
        }
        failpoint("journal-appended");
        self.lines += 1;
        self.length += bytes.len() as u64;
        self.head = line.digest;
        Ok(self.head)
    }

    /// Whether the file is where it was and as long as it was left.
    fn is_untouched(&self) -> bool {
        let (Ok(open), Ok(named)) = (self.file.metadata(), fs::symlink_metadata(&self.path)) else { return false };
        (open.dev(), open.ino(), open.len()) == (named.dev(), named.ino(), self.length)
    }

    /// The digest of the last line, which stands for everything before it as well.
    pub fn head(&self) -> Digest {
        self.head
    }

    /// The run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The journal of a run below `…/piton/runs`.
pub fn path_of(folder: &Path, run: RunId) -> PathBuf {
    folder.join(run.to_string()).join(FILE)
}

/// Whether a run has only its folder: it was killed before it could make its journal.
pub fn has_not_begun(folder: &Path, run: RunId) -> bool {
    fs::read_dir(folder.join(run.to_string())).is_ok_and(|mut entries| entries.next().is_none())
}

/// The runs below `…/piton/runs`, newest first; none when there is no such folder.
pub fn list(folder: &Path) -> Result<Vec<RunId>, JournalError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(JournalError::io("read", folder)(source)),
    };
    let mut runs = Vec::new();
    for entry in entries {
        let entry = entry.map_err(JournalError::io("read", folder))?;
        // Names that are not those of runs are somebody else's.
        runs.extend(entry.file_name().to_str().and_then(|name| name.parse::<RunId>().ok()));
    }
    runs.sort_unstable_by(|one, other| other.cmp(one));
    Ok(runs)
}

/// Makes a folder and those around it.
fn ensure_folder(folder: &Path, disk: &Disk) -> Result<(), JournalError> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => {
                return Err(JournalError::io("create", folder)(err));
            }
            _ => folder.parent().map_or(Ok(()), |parent| name_on_disk(parent, disk))?,
        }
    }
    Ok(())
}

/// The names in a folder are on disk no later than the first line.
fn name_on_disk(folder: &Path, disk: &Disk) -> Result<(), JournalError> {
    disk.accompany_folder(folder).map_err(JournalError::io("sync", folder))
}

#[cfg(test)]
mod tests;
