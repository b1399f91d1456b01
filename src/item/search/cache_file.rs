//! Where indexes are stored between searches.
//!
//! One file per pair of folders, in the user's cache: written atomically, read only by its owner
//! and by the program that wrote it. Its modification time is its last use. A failure here costs
//! time and nothing else.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::bytes::{ByteReader, ByteWriter};
use super::image::{FORMAT, SearchImage};
use crate::disk::create_private_folder;
use crate::encoding::hex;
use crate::item::file_stat::{FileStat, Links};
use crate::item::source::open_regular;
use crate::item::store::Roots;

/// Larger indexes are neither stored nor read.
const MAX_KEPT: u64 = 1 << 30;

#[derive(Clone, Copy, Debug)]
pub struct Cache<'c> {
    /// The user's cache folder.
    pub folder: &'c Path,
    /// The searching program: another build may read items differently.
    pub program: &'c Path,
}

/// The file of one index.
#[derive(Clone, Debug)]
pub(super) struct CacheFile {
    file: PathBuf,
    program: FileStat,
}

impl CacheFile {
    /// The file for the index of some folders, or why there is none.
    pub(super) fn of(roots: &Roots, cache: Option<Cache<'_>>) -> Result<Self, &'static str> {
        let cache = cache.ok_or("there is no folder for it")?;
        if roots
            .project
            .as_ref()
            .is_some_and(|project| cache.folder.starts_with(project))
        {
            return Err("there is no folder for it outside the project");
        }
        let program = FileStat::of(cache.program, Links::Followed);
        if program.footprint().is_none() {
            return Err("it cannot be said which program makes it");
        }
        Ok(Self {
            file: folder(cache.folder).join(file_name(roots)),
            program,
        })
    }

    /// Reads the stored index if this user owns it: other users could put anything there.
    pub(super) fn take(&self) -> Option<SearchImage> {
        if !self.file.parent().is_some_and(is_own) || !is_own(&self.file) {
            return None;
        }
        let image = open(&self.file)?;
        // The last use, for the cleanup. If this fails, the index is only rebuilt earlier.
        let at = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
        let used = Timestamps {
            last_access: at(UTIME_OMIT),
            last_modification: at(UTIME_NOW),
        };
        let _ = utimensat(CWD, &self.file, &used, AtFlags::SYMLINK_NOFOLLOW);
        Some(image)
    }

    pub(super) fn clear(&self) {
        // Another process may have removed it or stored a newer one; that only costs time.
        let _ = fs::remove_file(&self.file);
    }

    /// Creates a temporary file beside the old index.
    pub(super) fn start_draft(&self) -> io::Result<NamedTempFile> {
        let folder = self.file.parent().unwrap_or(&self.file);
        create_private_folder(folder)?;
        NamedTempFile::new_in(folder)
    }

    /// Replaces the old index atomically.
    pub(super) fn keep(&self, mut draft: NamedTempFile, image: &SearchImage) -> io::Result<()> {
        let parts = image.parts();
        if parts.iter().map(|part| part.len() as u64).sum::<u64>() > MAX_KEPT {
            return Err(io::Error::other("it is too large"));
        }
        for part in parts {
            io::Write::write_all(&mut draft, part)?;
        }
        draft.persist(&self.file)?;
        Ok(())
    }
}

/// The start of the key: for which program and folders an index was made.
pub(super) fn label(cache_file: Option<&CacheFile>, roots: &Roots) -> ByteWriter {
    let mut out = ByteWriter::default();
    out.number(u64::from(FORMAT));
    out.stat(&cache_file.map_or(FileStat::Absent, |cache_file| cache_file.program));
    for root in [&roots.project, &roots.user] {
        out.byte(u8::from(root.is_some()));
        out.path(root.as_deref().unwrap_or_else(|| Path::new("")));
    }
    out
}

/// The project of an index, from its key.
fn project(image: &SearchImage) -> Option<PathBuf> {
    let mut label = ByteReader::at(&image.facts.key, 0);
    if label.number()? != u64::from(FORMAT) {
        return None;
    }
    label.stat()?;
    let has_project = label.byte()? == 1;
    label.owned_path().filter(|_| has_project)
}

/// The indexes in a cache that were last used before a time, or whose project is gone.
pub fn unused(cache: &Path, before: SystemTime) -> Vec<PathBuf> {
    let folder = folder(cache);
    if !is_own(&folder) {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|file| is_unused(file, before))
        .collect();
    files.sort();
    files
}

/// Removes them and returns the removed ones.
pub fn remove_unused(cache: &Path, before: SystemTime) -> Vec<PathBuf> {
    unused(cache, before)
        .into_iter()
        .filter(|file| fs::remove_file(file).is_ok())
        .collect()
}

fn is_unused(file: &Path, before: SystemTime) -> bool {
    let Ok(found) = file.symlink_metadata() else {
        return false;
    };
    if !found.is_file() || !is_own(file) {
        return false;
    }
    let is_orphan = || {
        let project = open(file).as_ref().and_then(project);
        project.is_some_and(|project| matches!(project.try_exists(), Ok(false)))
    };
    found.modified().is_ok_and(|time| time < before) || is_orphan()
}

fn open(path: &Path) -> Option<SearchImage> {
    let (file, length) = open_regular(path).ok()?;
    if length > MAX_KEPT {
        None
    } else {
        SearchImage::read(file, length)
    }
}

fn folder(cache: &Path) -> PathBuf {
    cache.join("search")
}

/// The file name for some folders.
fn file_name(roots: &Roots) -> String {
    let mut digest = Sha256::new();
    for root in [&roots.project, &roots.user] {
        digest.update(
            root.as_ref()
                .map(|root| root.as_os_str().as_encoded_bytes())
                .unwrap_or_default(),
        );
        digest.update([0]);
    }
    let name = digest.finalize();
    format!("{}.idx", hex(name.get(..12).unwrap_or(&name)))
}

fn is_own(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    path.symlink_metadata()
        .is_ok_and(|it| it.uid() == user && !it.is_symlink())
}
