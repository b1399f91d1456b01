//! Reads a file into its document, or finds that it is unchanged.
//!
//! Everything that a document depends on is examined before it is read, so that a concurrent change
//! is noticed next time. A file that may have changed is read and compared by hash before it is
//! parsed. Files that search does not show are not read: neither the scripts behind manifests nor
//! their requirements.

use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use super::document::Document;
use super::file_date;
use super::record::{EntryRecord, EntryState};
use crate::item::extractor::Extractor;
use crate::item::file_stat::{FileStat, Links};
use crate::item::finding::{Findings, Severity, Strength};
use crate::item::signature::{self, Integrity, StampLocation, UNSTAMPED_FOLDERS};
use crate::item::source::{SourceFile, Unread};
use crate::item::store::walk::FileCandidate;
use crate::item::store::{Item, ItemKind, Layer, Roots, load, parse};
use crate::problem::Code;

/// A stamped folder tool with more files is examined anew each time.
const MAX_FILES: usize = 2_000;
/// Files beside a script that an extractor rule may read.
const SETTINGS: [&str; 4] = ["json", "yaml", "yml", "toml"];
/// The hash of a file that was not read.
const NO_HASH: [u8; 32] = [0; 32];

pub(super) struct ReadEntry {
    pub(super) entry: EntryRecord,
    pub(super) document: Option<Document>,
    /// Whether the file was not even opened.
    pub(super) is_proven: bool,
}

pub(super) struct KnownEntry<'k> {
    pub(super) entry: &'k EntryRecord,
    pub(super) document: Option<&'k Document>,
    /// When it was read.
    pub(super) moment: i64,
}

/// The surroundings of a file.
pub(super) struct FileSurroundings<'a> {
    pub(super) layer: Layer,
    pub(super) roots: &'a Roots,
    pub(super) extractors: &'a [Extractor],
    /// The folder in which it was listed.
    pub(super) base: &'a Path,
}

/// Examines a file, and reads it if needed.
pub(super) fn read(
    candidate: &FileCandidate,
    around: &FileSurroundings<'_>,
    known: Option<&KnownEntry<'_>>,
) -> ReadEntry {
    let mut content = None;
    if let Some(known) = known.filter(|known| known.others_are_unchanged(around.base))
        && let Some((_, then)) = known.entry.depends_on.first()
    {
        let stat = FileStat::of(&candidate.path, Links::Followed);
        if stat.proves_unchanged(then, known.moment) {
            return ReadEntry {
                is_proven: true,
                ..known.again(stat)
            };
        }
        if known.entry.hash != NO_HASH {
            let (stat, bytes) = load::content(candidate);
            if let Ok(bytes) = &bytes
                && hash(bytes) == known.entry.hash
            {
                return known.again(stat);
            }
            content = Some((stat, bytes));
        }
    }
    parse(candidate, around, content)
}

impl KnownEntry<'_> {
    fn others_are_unchanged(&self, base: &Path) -> bool {
        let mut others = self.entry.depends_on.iter().skip(1);
        others.all(|(path, then)| {
            FileStat::of(&base.join(path), Links::Followed).proves_unchanged(then, self.moment)
        })
    }

    fn again(&self, stat: FileStat) -> ReadEntry {
        let mut entry = self.entry.clone();
        if let Some((_, then)) = entry.depends_on.first_mut() {
            *then = stat;
        }
        let mut document = self.document.cloned();
        if let Some(document) = &mut document {
            document.file_date = file_date(&stat);
        }
        ReadEntry {
            entry,
            document,
            is_proven: false,
        }
    }
}

fn parse(
    candidate: &FileCandidate,
    around: &FileSurroundings<'_>,
    content: Option<(FileStat, Result<Vec<u8>, Unread>)>,
) -> ReadEntry {
    let mut findings = Findings::new(&candidate.path, Strength::Lenient);
    let mut others = beside(candidate, around.extractors);
    let mut own_hash = NO_HASH;
    let mut item = None;
    // If the first bytes decide, examine the file before reading them.
    let is_by_name = load::is_item_by_name(candidate, around.extractors);
    let before = (!is_by_name).then(|| FileStat::of(&candidate.path, Links::Followed));
    let mut stat = before.unwrap_or(FileStat::Unknown);
    if is_by_name || load::may_be_item(candidate, around.extractors) {
        let (at_opening, bytes) = content.unwrap_or_else(|| load::content(candidate));
        stat = before.unwrap_or(at_opening);
        match bytes {
            Ok(bytes) => {
                own_hash = hash(&bytes);
                if let Some(source) = SourceFile::decode(&candidate.path, bytes, &mut findings) {
                    item = parse::parse(
                        around.layer,
                        candidate,
                        &source,
                        around.extractors,
                        &mut findings,
                    );
                    if let Some(item) = &mut item {
                        item.integrity =
                            stamp(item, &source, candidate, &mut others, &mut findings);
                    }
                }
            }
            Err(unread) => {
                unread.report(&mut findings);
                // The cause of a read error may go away without changing the file's metadata.
                if matches!(unread, Unread::Failed(_)) {
                    stat = FileStat::Unknown;
                }
            }
        }
    }
    let document = item.as_ref().filter(|item| item.is_named()).map(|item| {
        let mut document = Document::of(item, around.roots);
        document.file_date = file_date(&stat);
        document
    });
    let error = findings
        .as_slice()
        .iter()
        .find(|finding| finding.severity == Severity::Error);
    let state = match error {
        Some(error) if document.is_none() && error.code == Code::MissingMetadata => {
            EntryState::Silent
        }
        Some(_) if document.is_none() => EntryState::Broken,
        _ => EntryState::Fine,
    };
    let relative = |path: PathBuf| {
        path.strip_prefix(around.base)
            .map(Path::to_path_buf)
            .unwrap_or(path)
    };
    let files = std::iter::once((candidate.path.clone(), stat)).chain(others);
    let entry = EntryRecord {
        document: None,
        state,
        hash: own_hash,
        starts: item.as_ref().and_then(started),
        depends_on: files.map(|(path, stat)| (relative(path), stat)).collect(),
    };
    ReadEntry {
        entry,
        document,
        is_proven: false,
    }
}

/// The files beside a candidate that its document may depend on, examined before it is read.
fn beside(candidate: &FileCandidate, extractors: &[Extractor]) -> Vec<(PathBuf, FileStat)> {
    let seen = |path: PathBuf| {
        let stat = FileStat::of(&path, Links::Followed);
        (path, stat)
    };
    let ending = candidate
        .path
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default();
    let mut files = Vec::new();
    if candidate.kind == ItemKind::Tool {
        if signature::stamp_location(&candidate.path, "") == StampLocation::Beside {
            files.push(seen(signature::detached_file(&candidate.path)));
        }
        if !extractors.is_empty() && !SETTINGS.contains(&ending) {
            files.extend(
                SETTINGS
                    .iter()
                    .map(|ending| seen(candidate.path.with_extension(ending))),
            );
        }
    }
    files
}

/// Compares an item with its stamp. The stamp of a folder covers every file in it.
fn stamp(
    item: &Item,
    source: &SourceFile,
    candidate: &FileCandidate,
    others: &mut Vec<(PathBuf, FileStat)>,
    findings: &mut Findings,
) -> Integrity {
    let detached = others.iter().any(|(path, stat)| {
        stat.footprint().is_some() && signature::detached_file(&candidate.path) == *path
    });
    if signature::check(&candidate.path, &source.raw()) == Integrity::Unsigned && !detached {
        return Integrity::Unsigned;
    }
    if let Some(folder) = &candidate.folder {
        let walk = walkdir::WalkDir::new(folder)
            .into_iter()
            .filter_entry(|entry| {
                entry.depth() == 0
                    || !UNSTAMPED_FOLDERS
                        .iter()
                        .any(|folder| entry.file_name() == *folder)
            });
        let before = others.len();
        for entry in walk {
            match entry {
                // The target of a link may change unnoticed.
                Ok(entry) if entry.path_is_symlink() => {
                    others.push((entry.into_path(), FileStat::Unknown));
                }
                Ok(entry) => {
                    let stat = FileStat::of(entry.path(), Links::Followed);
                    others.push((entry.into_path(), stat));
                }
                Err(_) => others.push((folder.clone(), FileStat::Unknown)),
            }
            if others.len() - before > MAX_FILES {
                others.truncate(before);
                others.push((folder.clone(), FileStat::Unknown));
                break;
            }
        }
    }
    parse::integrity(item, source, candidate, findings)
}

/// The entrypoint of a single-file tool.
fn started(item: &Item) -> Option<PathBuf> {
    let tool = item.as_tool().filter(|tool| tool.folder.is_none())?;
    let entrypoint = Path::new(tool.manifest.config.get("entrypoint")?.as_str()?);
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    entrypoint
        .components()
        .all(is_inside)
        .then(|| tool.file.parent().map(|folder| folder.join(entrypoint)))?
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
