//! Which files a tool may have changed.
//!
//! The supervisor collects them from the system calls of the whole tree. The list errs on the side
//! of too many: failed calls count as well. It separates the tool's work from concurrent changes by
//! others. It is not a security boundary: a tool can evade it. [`TouchedLog`] keeps it on disk for
//! recovery after piton or the supervisor was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::protocol::{FrameReader, FrameWriter};
use crate::checkpoint::attribution::Doubt;
use crate::checkpoint::held::FileTime;
use crate::exec::process::boot_id;
use crate::item::source::read_bytes;

/// The largest log that is read, far above the limit of recorded files.
const LARGEST_LOG: u64 = 1024 * 1024 * 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Touched {
    /// Every change counts as the tool's: watching was not requested.
    #[default]
    Everything,
    /// Watching was requested but failed.
    Unknown(Doubt),
    Paths(TouchedPaths),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedPaths {
    /// Absolute paths without symlinks on the way.
    pub(super) paths: BTreeSet<PathBuf>,
    /// Folders that were moved with their content.
    pub(super) trees: BTreeSet<PathBuf>,
    /// Files with several hard links, by device and inode.
    pub(super) inodes: BTreeSet<(u64, u64)>,
    /// Files that were about to be removed, and files and folders that were about to be moved away,
    /// with their births. The log does not have them: no recovery judges them.
    pub(super) removed: BTreeMap<PathBuf, FileTime>,
}

impl Touched {
    /// Whether the tool may have changed an absolute path.
    pub fn has(&self, path: &Path) -> bool {
        match self {
            Self::Everything | Self::Unknown(_) => true,
            Self::Paths(touched) => touched.has(path) || touched.has(&without_links(path)),
        }
    }

    /// The paths below a folder that the tool has tried to change, relative to it; empty if they are
    /// not known.
    pub fn below(&self, folder: &Path) -> Vec<&Path> {
        let Self::Paths(touched) = self else {
            return Vec::new();
        };
        let inside = touched.paths.iter().chain(&touched.trees);
        inside
            .filter_map(|path| path.strip_prefix(folder).ok())
            .collect()
    }

    /// What the tool has tried to remove or to move away below a folder, with paths relative to it.
    pub fn removed_below(&self, folder: &Path) -> Vec<(&Path, FileTime)> {
        let Self::Paths(touched) = self else {
            return Vec::new();
        };
        let removed = touched.removed.iter();
        removed
            .filter_map(|(path, born)| Some((path.strip_prefix(folder).ok()?, *born)))
            .collect()
    }

    /// Why it is unknown what was changed.
    pub fn doubt(&self) -> Option<Doubt> {
        match self {
            Self::Unknown(doubt) => Some(*doubt),
            Self::Everything | Self::Paths(_) => None,
        }
    }

    /// The union of both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Paths(mut one), Self::Paths(other)) => {
                one.paths.extend(other.paths);
                one.trees.extend(other.trees);
                one.inodes.extend(other.inodes);
                for (path, born) in other.removed {
                    one.note_removed(path, born);
                }
                Self::Paths(one)
            }
            (Self::Everything, _) | (_, Self::Everything) => Self::Everything,
            (Self::Unknown(doubt), _) | (_, Self::Unknown(doubt)) => Self::Unknown(doubt),
        }
    }
}

impl TouchedPaths {
    /// The number of entries, to keep it bounded.
    pub(super) fn len(&self) -> usize {
        self.paths.len() + self.trees.len() + self.inodes.len()
    }

    /// Notes what is about to be removed or moved away. A file that is made there later is another one.
    pub(super) fn note_removed(&mut self, path: PathBuf, born: FileTime) {
        let known = self.removed.entry(path).or_insert(born);
        *known = born.min(*known);
    }

    /// Adds entries below or above one of the folders; returns the new ones, encoded for the log.
    pub(super) fn absorb(&mut self, more: Self, within: &[PathBuf]) -> Vec<u8> {
        let is_near =
            |path: &PathBuf| within.is_empty() || within.iter().any(|top| path.starts_with(top));
        let is_above = |path: &PathBuf| within.iter().any(|top| top.starts_with(path));
        let mut writer = FrameWriter::default();
        for path in more.paths.into_iter().filter(is_near) {
            if !self.paths.contains(&path) {
                writer.byte(b'p');
                writer.bytes(path.as_os_str().as_bytes());
                self.paths.insert(path);
            }
        }
        for path in more
            .trees
            .into_iter()
            .filter(|path| is_near(path) || is_above(path))
        {
            if !self.trees.contains(&path) {
                writer.byte(b't');
                writer.bytes(path.as_os_str().as_bytes());
                self.trees.insert(path);
            }
        }
        for (path, born) in more.removed {
            if is_near(&path) {
                self.note_removed(path, born);
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
        let is_known =
            self.paths.contains(path) || path.ancestors().any(|above| self.trees.contains(above));
        is_known
            || (!self.inodes.is_empty()
                && fs::symlink_metadata(path)
                    .is_ok_and(|file| self.inodes.contains(&(file.dev(), file.ino()))))
    }
}

/// A file with the paths that the processes of a step have touched so far.
///
/// An entry is written before its system call continues, so the log is complete even if piton, the
/// supervisor or both are killed. It is not synced: it is valid only until a reboot, and begins
/// with the boot id.
#[derive(Debug)]
pub struct TouchedLog {
    file: File,
    path: PathBuf,
}

impl TouchedLog {
    /// Creates an empty log: nothing was touched yet.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut log = Self {
            file: File::create(path)?,
            path: path.to_path_buf(),
        };
        let mut writer = FrameWriter::default();
        writer.bytes(boot_id().unwrap_or_default().as_bytes());
        log.add(&writer.into_body());
        Ok(log)
    }

    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: OpenOptions::new().append(true).open(path)?,
            path: path.to_path_buf(),
        })
    }

    /// Adds entries. A log that cannot be completed is deleted, because a missing log means that
    /// nothing is known.
    pub(super) fn add(&mut self, entries: &[u8]) {
        if !entries.is_empty() && self.file.write_all(entries).is_err() {
            // An empty log says the same: a confined supervisor cannot remove the file.
            let _ = self.file.set_len(0);
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Adds paths.
    pub fn note(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        let paths = paths.into_iter().collect();
        let more = TouchedPaths {
            paths,
            ..TouchedPaths::default()
        };
        self.add(&TouchedPaths::default().absorb(more, &[]));
    }

    /// Marks the log as incomplete: `instead` holds, everything or unknown.
    pub fn give_up(&mut self, instead: &Touched) {
        let mut writer = FrameWriter::default();
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
        let mut reader = FrameReader::new(&bytes);
        let boot = reader.word().filter(|boot| !boot.is_empty());
        if boot.is_none_or(|boot| boot_id().is_none_or(|now| boot != now.as_str())) {
            return Touched::Unknown(Doubt::Lost);
        }
        let mut touched = Touched::Paths(TouchedPaths::default());
        // A truncated entry belongs to a call that was never executed.
        while let Some(entry) = entry(&mut reader) {
            touched = touched.or(entry);
        }
        touched
    }
}

fn entry(reader: &mut FrameReader<'_>) -> Option<Touched> {
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

/// Resolves symlinks in all parts of the path except the last.
fn without_links(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => match fs::canonicalize(parent) {
            Ok(parent) => parent.join(name),
            Err(_) => without_links(parent).join(name),
        },
        _ => fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()),
    }
}
