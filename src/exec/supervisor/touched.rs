//! Which files a tool may have changed.
//!
//! Collected by the supervisor from the system calls of the whole tree; too many rather than too few:
//! a call that failed counts as well. It tells the work of a tool from that of somebody else at the
//! same time. It is no wall: a tool that wants to hide a change from it can. [`TouchedLog`] keeps it on disk,
//! for a recovery after piton or the supervisor was killed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::protocol::{Reader, Writer};
use crate::checkpoint::attribution::Doubt;
use crate::exec::process::boot_id;
use crate::item::source::read_bytes;

/// The largest log that is read: that of many more files than are remembered.
const LARGEST_LOG: u64 = 1024 * 1024 * 1024;

/// What a tool may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Touched {
    /// Whatever has changed counts as its work: it was not to be watched.
    #[default]
    Everything,
    /// It was to be watched and could not be.
    Unknown(Doubt),
    /// These.
    Paths(TouchedPaths),
}

/// The files and folders that a tool may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedPaths {
    /// Each by its path without symbolic links on the way.
    pub(super) paths: BTreeSet<PathBuf>,
    /// Folders that were moved with all that is in them.
    pub(super) trees: BTreeSet<PathBuf>,
    /// Files that have other names as well, by device and inode.
    pub(super) inodes: BTreeSet<(u64, u64)>,
}

impl Touched {
    /// Whether the tool may have changed what is at an absolute path.
    pub fn has(&self, path: &Path) -> bool {
        match self {
            Self::Everything | Self::Unknown(_) => true,
            Self::Paths(touched) => touched.has(path) || touched.has(&without_links(path)),
        }
    }

    /// Why it is not known what it may have changed.
    pub fn doubt(&self) -> Option<Doubt> {
        match self {
            Self::Unknown(doubt) => Some(*doubt),
            Self::Everything | Self::Paths(_) => None,
        }
    }

    /// What either may have changed.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Paths(mut one), Self::Paths(other)) => {
                one.paths.extend(other.paths);
                one.trees.extend(other.trees);
                one.inodes.extend(other.inodes);
                Self::Paths(one)
            }
            (Self::Everything, _) | (_, Self::Everything) => Self::Everything,
            (Self::Unknown(doubt), _) | (_, Self::Unknown(doubt)) => Self::Unknown(doubt),
        }
    }
}

impl TouchedPaths {
    /// How much is known, to keep it bounded.
    pub(super) fn len(&self) -> usize {
        self.paths.len() + self.trees.len() + self.inodes.len()
    }

    /// Adds what is below one of some folders, or above one; returns what is new, as it is written to a log.
    pub(super) fn absorb(&mut self, more: Self, within: &[PathBuf]) -> Vec<u8> {
        let is_near = |path: &PathBuf| within.is_empty() || within.iter().any(|top| path.starts_with(top));
        let is_above = |path: &PathBuf| within.iter().any(|top| top.starts_with(path));
        let mut writer = Writer::default();
        for path in more.paths.into_iter().filter(is_near) {
            if !self.paths.contains(&path) {
                writer.byte(b'p');
                writer.bytes(path.as_os_str().as_bytes());
                self.paths.insert(path);
            }
        }
        for path in more.trees.into_iter().filter(|path| is_near(path) || is_above(path)) {
            if !self.trees.contains(&path) {
                writer.byte(b't');
                writer.bytes(path.as_os_str().as_bytes());
                self.trees.insert(path);
            }
        }
        for (device, inode) in more.inodes {
            if self.inodes.insert((device, inode)) {
                writer.byte(b'i');
                writer.number(device);
                writer.number(inode);
            }
        }
        writer.into_body()
    }

    fn has(&self, path: &Path) -> bool {
        let is_known = self.paths.contains(path) || path.ancestors().any(|above| self.trees.contains(above));
        is_known
            || (!self.inodes.is_empty()
                && fs::symlink_metadata(path).is_ok_and(|file| self.inodes.contains(&(file.dev(), file.ino()))))
    }
}

/// A file that says what the processes of a step have touched so far.
///
/// An entry is written before the system call that it is about goes on, so that the log is complete whenever
/// piton, the supervisor or both are killed. It is not synced: it counts only until the machine is restarted, and
/// begins with the name of the boot.
#[derive(Debug)]
pub struct TouchedLog {
    file: File,
    path: PathBuf,
}

impl TouchedLog {
    /// Makes an empty log: nothing has been touched yet.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut log = Self { file: File::create(path)?, path: path.to_path_buf() };
        let mut writer = Writer::default();
        writer.bytes(boot_id().unwrap_or_default().as_bytes());
        log.add(&writer.into_body());
        Ok(log)
    }

    /// Opens a log that was made before.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().append(true).open(path)?, path: path.to_path_buf() })
    }

    /// Adds entries. A log that cannot be complete is removed, because a missing log means that nothing is known.
    pub(super) fn add(&mut self, entries: &[u8]) {
        if !entries.is_empty() && self.file.write_all(entries).is_err() {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Says that the paths in this log are not all; what holds instead is that everything is the step's, or unknown.
    pub fn give_up(&mut self, instead: &Touched) {
        let mut writer = Writer::default();
        match instead {
            Touched::Paths(_) => {}
            Touched::Everything => writer.byte(b'e'),
            Touched::Unknown(doubt) => {
                writer.byte(b'u');
                writer.doubt(*doubt);
            }
        }
        self.add(&writer.into_body());
    }

    /// Reads a log; unknown when there is none of this boot.
    pub fn read(path: &Path) -> Touched {
        let bytes = read_bytes(path, LARGEST_LOG).unwrap_or_default();
        let mut reader = Reader::new(&bytes);
        let boot = reader.word().filter(|boot| !boot.is_empty());
        if boot.is_none_or(|boot| boot_id().is_none_or(|now| boot != now.as_str())) {
            return Touched::Unknown(Doubt::Lost);
        }
        let mut touched = Touched::Paths(TouchedPaths::default());
        // An entry that was cut off is about a call that was never made.
        while let Some(entry) = entry(&mut reader) {
            touched = touched.or(entry);
        }
        touched
    }
}

fn entry(reader: &mut Reader<'_>) -> Option<Touched> {
    let mut paths = TouchedPaths::default();
    match reader.byte()? {
        b'p' => {
            paths.paths.insert(reader.word()?.into());
        }
        b't' => {
            paths.trees.insert(reader.word()?.into());
        }
        b'i' => {
            paths.inodes.insert((reader.number()?, reader.number()?));
        }
        b'e' => return Some(Touched::Everything),
        b'u' => return Some(Touched::Unknown(reader.doubt()?)),
        _ => return None,
    }
    Some(Touched::Paths(paths))
}

/// The path with the symbolic links on its way replaced, the last part as it is.
pub(super) fn without_links(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => match fs::canonicalize(parent) {
            Ok(parent) => parent.join(name),
            Err(_) => without_links(parent).join(name),
        },
        _ => fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()),
    }
}
