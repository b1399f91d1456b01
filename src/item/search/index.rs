//! An index of the items on disk that is always up to date.
//!
//! [`SearchIndex::open`] opens a stored index and [`SearchIndex::refresh`] updates it: if nothing changed, each
//! folder and file is only examined, and only changed files are read. A file with the same metadata
//! is trusted if it was last changed well before it was read; otherwise its content is compared. A
//! stored index that cannot be used is silently rebuilt.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::bytes::ByteReader;
use super::cache_file::{self, Cache, CacheFile};
use super::document::Document;
use super::image::{Facts, SearchImage};
use super::reading::{self, FileSurroundings, KnownEntry, ReadEntry};
use super::record::{EntryRecord, EntryState, FolderRecord};
use super::{Query, Results, ranking};
use crate::item::extractor::Extractor;
use crate::item::file_stat::{FileStat, Links};
use crate::item::finding::Strength;
use crate::item::source::{files_below, leaves, read_bytes};
use crate::item::store::walk::{self, FileCandidate, StoreListing};
use crate::item::store::{Layer, Roots, builtin_items, load};
use crate::item::wording::nearest;
use crate::system_call::open;

/// In bytes of a rules file.
const MAX_RULES: u64 = 1 << 20;
/// Up to this many files no threads are started: starting them takes longer.
const FEW: usize = 64;
/// How many files one thread examines at once.
const SHARE: usize = 128;

#[derive(Clone, Debug)]
pub struct SearchIndex {
    roots: Roots,
    /// Where it is stored, or why it is not.
    cache_file: Result<CacheFile, &'static str>,
    image: SearchImage,
    note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Nothing had changed since the last refresh.
    Unchanged,
    /// Something was read.
    Renewed,
}

impl SearchIndex {
    /// Opens the index of some folders and updates it.
    pub fn open(roots: Roots, cache: Option<Cache<'_>>) -> Self {
        let cache_file = CacheFile::of(&roots, cache);
        let kept = cache_file.as_ref().ok().and_then(CacheFile::take);
        let image = kept.unwrap_or_else(|| SearchImage::build(Facts::default(), &[], &[]));
        let mut index = Self {
            roots,
            cache_file,
            image,
            note: String::new(),
        };
        index.look();
        index
    }

    /// Updates the index after any change on disk.
    pub fn refresh(&mut self) -> Freshness {
        // A second search suggests that more will follow.
        self.image.hold();
        self.look()
    }

    fn look(&mut self) -> Freshness {
        let key = key(self.cache_file.as_ref().ok(), &self.roots);
        if self.is_right(&key) {
            "nothing changed since the last search".clone_into(&mut self.note);
            return Freshness::Unchanged;
        }
        // Create it before anything is examined: its time decides which metadata can be trusted
        // later.
        let draft = self.cache_file.as_ref().ok().map(CacheFile::start_draft);
        let moment = match &draft {
            Some(Ok(draft)) => modified(draft),
            _ => NamedTempFile::new().map_or(i64::MIN, |file| modified(&file)),
        };
        self.renew(key, moment, draft)
    }

    /// The same with a given time.
    #[cfg(test)]
    pub(super) fn refresh_at(&mut self, moment: i64) -> Freshness {
        let key = key(self.cache_file.as_ref().ok(), &self.roots);
        if self.is_right(&key) {
            return Freshness::Unchanged;
        }
        let draft = self.cache_file.as_ref().ok().map(CacheFile::start_draft);
        self.renew(key, moment, draft)
    }

    fn is_right(&self, key: &[u8]) -> bool {
        self.image.facts.key == key && !self.image.is_damaged() && is_current(&self.image)
    }

    fn renew(
        &mut self,
        key: Vec<u8>,
        moment: i64,
        draft: Option<std::io::Result<NamedTempFile>>,
    ) -> Freshness {
        let renewed = rebuild(&self.roots, &self.image, key, moment);
        self.note = format!("{} of {} files were read", renewed.read, renewed.files);
        if renewed.is_same {
            return Freshness::Unchanged;
        }
        self.image = renewed.image;
        let kept = match &self.cache_file {
            Ok(place) => draft
                .unwrap_or_else(|| place.start_draft())
                .and_then(|draft| place.keep(draft, &self.image)),
            Err(reason) => Err(std::io::Error::other(*reason)),
        };
        if let Err(err) = kept {
            // Writing to a string cannot fail.
            let _ = write!(self.note, "; the index is not kept: {err}");
        }
        Freshness::Renewed
    }

    pub fn search(&self, query: &Query) -> Results {
        let results = ranking::search(&self.image, query);
        if !self.image.is_damaged() {
            return results;
        }
        // The stored index is corrupt: search the files themselves, and let the next search store a
        // new index.
        if let Ok(cache_file) = &self.cache_file {
            cache_file.clear();
        }
        let nothing = SearchImage::build(Facts::default(), &[], &[]);
        ranking::search(
            &rebuild(&self.roots, &nothing, Vec::new(), i64::MIN).image,
            query,
        )
    }

    /// The number of project files that should contain an item but have no usable one.
    pub fn broken(&self) -> u64 {
        self.image.facts.broken
    }

    /// The closest id, if it is close enough.
    pub fn nearest(&self, text: &str) -> Option<String> {
        let count = u32::try_from(self.image.len()).unwrap_or(u32::MAX);
        let names = (0..count).filter_map(|number| Some(self.image.document(number)?.name));
        nearest(text, names).map(str::to_owned)
    }

    /// Describes the last refresh.
    pub fn note(&self) -> &str {
        &self.note
    }
}

/// What documents depend on besides their files: the program, the folders and the rules for
/// scripts.
fn key(cache_file: Option<&CacheFile>, roots: &Roots) -> Vec<u8> {
    let mut out = cache_file::label(cache_file, roots);
    for root in [&roots.project, &roots.user].into_iter().flatten() {
        let rules = root.join(".ai").join("extractors");
        if rules.is_symlink() {
            out.path(&rules.canonicalize().unwrap_or_default());
        }
        for (path, _) in files_below(&rules) {
            let mut digest = Sha256::new();
            match read_bytes(&path, MAX_RULES) {
                Ok(bytes) => digest.update(bytes),
                Err(err) => digest.update(err.to_string()),
            }
            if path.is_symlink() {
                digest.update(
                    path.canonicalize()
                        .unwrap_or_default()
                        .as_os_str()
                        .as_encoded_bytes(),
                );
            }
            out.path(&path);
            out.bytes(&digest.finalize());
        }
    }
    out.0
}

fn modified(file: &NamedTempFile) -> i64 {
    FileStat::of(file.path(), Links::Seen)
        .footprint()
        .map_or(i64::MIN, |footprint| footprint.modified)
}

/// Whether the metadata of every folder and file proves that nothing changed.
fn is_current(image: &SearchImage) -> bool {
    if !image.facts.is_provable {
        return false;
    }
    let numbers = 0..image.folder_count();
    let is_current = |number: u64| folder_is_current(image, number).unwrap_or(false);
    if image.len() < FEW {
        numbers.into_iter().all(is_current)
    } else {
        numbers.into_par_iter().all(is_current)
    }
}

fn folder_is_current(image: &SearchImage, number: u64) -> Option<bool> {
    let row = image.look(number);
    let mut reader = ByteReader::at(&row, 0);
    let path = reader.path()?;
    let then = reader.stat()?;
    let moment = image.facts.moment;
    if !FileStat::of(path, Links::Followed).proves_unchanged(&then, moment) {
        return Some(false);
    }
    let count = reader.count()?;
    if count == 0 {
        return Some(true);
    }
    let folder = open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()?;
    for _ in 0..count {
        for _ in 0..reader.count()? {
            let (path, then) = (reader.path()?, reader.stat()?);
            if is_absent_by_folder(path, &then) {
                continue;
            }
            if !FileStat::below(&folder, path, Links::Seen).proves_unchanged(&then, moment) {
                return Some(false);
            }
        }
    }
    Some(true)
}

/// Whether an unchanged folder proves that a file is still absent: adding a file changes its
/// folder. Files in subfolders do not change this one.
fn is_absent_by_folder(path: &Path, then: &FileStat) -> bool {
    let mut parts = path.components();
    matches!(then, FileStat::Absent)
        && matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(_)), None)
        )
}

struct Renewed {
    image: SearchImage,
    /// Whether the new index equals the old one.
    is_same: bool,
    files: usize,
    read: usize,
}

/// Examines everything and reads what may have changed.
fn rebuild(roots: &Roots, old: &SearchImage, key: Vec<u8>, moment: i64) -> Renewed {
    let usable = Some(old).filter(|old| old.facts.key == key);
    let usable = usable.and_then(|old| Some((old.to_documents()?, old.to_folders()?)));
    let is_usable = usable.is_some();
    let (old_documents, old_folders) = usable.unwrap_or_default();
    let known = known(&old_folders, &old_documents, old.facts.moment);
    let mut facts = Facts {
        key,
        moment,
        broken: 0,
        is_provable: true,
    };
    let mut extractors = Vec::new();
    let mut documents = Vec::new();
    let mut folders = Vec::new();
    let mut read = 0;
    let mut files = 0;
    for (layer, root) in [(Layer::Project, &roots.project), (Layer::User, &roots.user)] {
        let Some(root) = root else { continue };
        let ai = root.join(".ai");
        if layer == Layer::Project && leaves(&ai, root) {
            facts.is_provable = false;
            continue;
        }
        let listing = walk::candidates(&ai, root, Strength::Lenient);
        facts.is_provable &= !listing.has_links && listing.refused.is_empty();
        extractors.extend(load::extractors(
            roots,
            &ai,
            Strength::Lenient,
            &mut Vec::new(),
        ));
        let readings = read_all(layer, roots, &listing, &extractors, &known);
        files += readings.len();
        read += readings.iter().filter(|reading| !reading.is_proven).count();
        facts.broken += broken(&listing.found, &readings) + listing.refused.len() as u64;
        record(layer, listing, readings, &mut documents, &mut folders);
    }
    let is_same = is_usable
        && read == 0
        && facts.broken == old.facts.broken
        && same_folders(&old_folders, &folders, old.facts.moment);
    documents.extend(builtin_items().iter().map(|item| Document::of(item, roots)));
    Renewed {
        image: SearchImage::build(facts, &documents, &folders),
        is_same,
        files,
        read,
    }
}

type KnownFiles<'k> = HashMap<(Layer, PathBuf), KnownEntry<'k>>;

fn known<'k>(
    folders: &'k [FolderRecord],
    documents: &'k [Document],
    moment: i64,
) -> KnownFiles<'k> {
    let mut known = HashMap::new();
    for folder in folders {
        for entry in &folder.entries {
            let Some((path, _)) = entry.depends_on.first() else {
                continue;
            };
            let document = entry
                .document
                .and_then(|number| documents.get(usize::try_from(number).ok()?));
            known.insert(
                (folder.layer, folder.path.join(path)),
                KnownEntry {
                    entry,
                    document,
                    moment,
                },
            );
        }
    }
    known
}

fn read_all(
    layer: Layer,
    roots: &Roots,
    listing: &StoreListing,
    extractors: &[Extractor],
    known: &KnownFiles<'_>,
) -> Vec<ReadEntry> {
    let read_one = |candidate: &FileCandidate| {
        let base = listing
            .folders
            .get(candidate.listed_in)
            .map_or(Path::new("/"), |(path, _)| path.as_path());
        let around = FileSurroundings {
            layer,
            roots,
            extractors,
            base,
        };
        reading::read(
            candidate,
            &around,
            known.get(&(layer, candidate.path.clone())),
        )
    };
    match listing.found.len() {
        ..FEW => listing.found.iter().map(read_one).collect(),
        _ => listing.found.par_iter().map(read_one).collect(),
    }
}

/// The number of files without a usable item. A script with a manifest beside it needs no metadata
/// of its own.
fn broken(found: &[FileCandidate], readings: &[ReadEntry]) -> u64 {
    let started: HashSet<&Path> = readings
        .iter()
        .filter_map(|reading| reading.entry.starts.as_deref())
        .collect();
    let is_started = |file: &Path| {
        let folder = started.get(file).and_then(|_| file.parent());
        folder.is_some_and(|folder| !leaves(file, folder))
    };
    let is_broken = |(candidate, reading): &(&FileCandidate, &ReadEntry)| match reading.entry.state
    {
        EntryState::Fine => false,
        EntryState::Broken => true,
        EntryState::Silent => !is_started(&candidate.path),
    };
    found.iter().zip(readings).filter(is_broken).count() as u64
}

/// Records what was read, by folder, in parts that threads can examine in parallel.
fn record(
    layer: Layer,
    listing: StoreListing,
    readings: Vec<ReadEntry>,
    documents: &mut Vec<Document>,
    folders: &mut Vec<FolderRecord>,
) {
    let mut by_folder: Vec<Vec<EntryRecord>> = listing.folders.iter().map(|_| Vec::new()).collect();
    for (
        candidate,
        ReadEntry {
            mut entry,
            document,
            ..
        },
    ) in listing.found.iter().zip(readings)
    {
        entry.document = document.map(|document| {
            documents.push(document);
            u32::try_from(documents.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(entries) = by_folder.get_mut(candidate.listed_in) {
            entries.push(entry);
        }
    }
    for ((path, stat), mut entries) in listing.folders.into_iter().zip(by_folder) {
        while entries.len() > SHARE {
            let rest = entries.split_off(SHARE);
            folders.push(FolderRecord {
                layer,
                path: path.clone(),
                stat,
                entries,
            });
            entries = rest;
        }
        folders.push(FolderRecord {
            layer,
            path,
            stat,
            entries,
        });
    }
}

/// Whether the same folders contain as many files as before, and all of that is proven.
fn same_folders(old: &[FolderRecord], new: &[FolderRecord], moment: i64) -> bool {
    let same = |(old, new): (&FolderRecord, &FolderRecord)| {
        (old.layer, &old.path, old.entries.len()) == (new.layer, &new.path, new.entries.len())
            && new.stat.proves_unchanged(&old.stat, moment)
    };
    old.len() == new.len() && old.iter().zip(new).all(same)
}
