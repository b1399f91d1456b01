//! Where indexes are kept between searches.
//!
//! One file for each pair of folders, below the cache of the user: written whole or not at all, taken up
//! only by its owner and by the program that wrote it. Its time is that of its last use. Whatever
//! goes wrong here costs time and nothing else.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::bytes::{Reader, Writer};
use super::image::{FORMAT, Image};
use crate::item::footprint::{Links, Sight};
use crate::item::signature::hex;
use crate::item::source::open_regular;
use crate::item::store::Roots;

/// More than this is not kept, and not taken up.
const MAX_KEPT: u64 = 1 << 30;

/// Where indexes are kept, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Cache<'c> {
    /// The folder for what can be made again.
    pub folder: &'c Path,
    /// The file of the program that searches: another build may read items in another way.
    pub program: &'c Path,
}

/// The place of one index.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    file: PathBuf,
    program: Sight,
}

impl Shelf {
    /// The place for the index of some folders, or why there is none.
    pub(super) fn of(roots: &Roots, cache: Option<Cache<'_>>) -> Result<Self, &'static str> {
        let cache = cache.ok_or("there is no folder for it")?;
        if roots.project.as_ref().is_some_and(|project| cache.folder.starts_with(project)) {
            return Err("there is no folder for it outside the project");
        }
        let program = Sight::of(cache.program, Links::Followed);
        if program.footprint().is_none() {
            return Err("it cannot be said which program makes it");
        }
        Ok(Self { file: folder(cache.folder).join(file_name(roots)), program })
    }

    /// Reads what was kept, if it is one's own: others could put anything there.
    pub(super) fn take(&self) -> Option<Image> {
        if !self.file.parent().is_some_and(is_own) || !is_own(&self.file) {
            return None;
        }
        let image = open(&self.file)?;
        // For whoever clears up. Without it the index is only made anew some day.
        let at = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
        let used = Timestamps { last_access: at(UTIME_OMIT), last_modification: at(UTIME_NOW) };
        let _ = utimensat(CWD, &self.file, &used, AtFlags::SYMLINK_NOFOLLOW);
        Some(image)
    }

    /// Forgets what was kept.
    pub(super) fn clear(&self) {
        // Another process may have done so, or have kept a better one: either costs time only.
        let _ = fs::remove_file(&self.file);
    }

    /// Begins a new index beside the old one.
    pub(super) fn start_draft(&self) -> io::Result<NamedTempFile> {
        let folder = self.file.parent().unwrap_or(&self.file);
        fs::create_dir_all(folder)?;
        NamedTempFile::new_in(folder)
    }

    /// Puts an index in the place of the old one, whole or not at all.
    pub(super) fn keep(&self, mut draft: NamedTempFile, image: &Image) -> io::Result<()> {
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

/// The beginning of what says for which program and folders an index was made.
pub(super) fn label(shelf: Option<&Shelf>, roots: &Roots) -> Writer {
    let mut out = Writer::default();
    out.number(u64::from(FORMAT));
    out.sight(&shelf.map_or(Sight::Absent, |shelf| shelf.program));
    for root in [&roots.project, &roots.user] {
        out.byte(u8::from(root.is_some()));
        out.path(root.as_deref().unwrap_or_else(|| Path::new("")));
    }
    out
}

/// The project of an index, by its label.
fn project(image: &Image) -> Option<PathBuf> {
    let mut label = Reader::at(&image.facts.key, 0);
    if label.number()? != u64::from(FORMAT) {
        return None;
    }
    label.sight()?;
    let has_project = label.byte()? == 1;
    label.owned_path().filter(|_| has_project)
}

/// The indexes below a cache that were last used before a time, or whose project is gone.
pub fn unused(cache: &Path, before: SystemTime) -> Vec<PathBuf> {
    let folder = folder(cache);
    if !is_own(&folder) {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|file| is_unused(file, before)).collect();
    files.sort();
    files
}

/// Removes them; returns those that are gone.
pub fn remove_unused(cache: &Path, before: SystemTime) -> Vec<PathBuf> {
    unused(cache, before).into_iter().filter(|file| fs::remove_file(file).is_ok()).collect()
}

fn is_unused(file: &Path, before: SystemTime) -> bool {
    let Ok(found) = file.symlink_metadata() else { return false };
    if !found.is_file() || !is_own(file) {
        return false;
    }
    let is_orphan = || {
        let project = open(file).as_ref().and_then(project);
        project.is_some_and(|project| matches!(project.try_exists(), Ok(false)))
    };
    found.modified().is_ok_and(|time| time < before) || is_orphan()
}

/// Takes up a file that was kept.
fn open(path: &Path) -> Option<Image> {
    let (file, length) = open_regular(path).ok()?;
    if length > MAX_KEPT { None } else { Image::read(file, length) }
}

fn folder(cache: &Path) -> PathBuf {
    cache.join("search")
}

/// The name of the file for some folders.
fn file_name(roots: &Roots) -> String {
    let mut digest = Sha256::new();
    for root in [&roots.project, &roots.user] {
        digest.update(root.as_ref().map(|root| root.as_os_str().as_encoded_bytes()).unwrap_or_default());
        digest.update([0]);
    }
    let name = digest.finalize();
    format!("{}.idx", hex(name.get(..12).unwrap_or(&name)))
}

fn is_own(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    path.symlink_metadata().is_ok_and(|it| it.uid() == user && !it.is_symlink())
}
