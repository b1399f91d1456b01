//! Walks over all folders, each compared with its range of the index.
//!
//! Every folder is a separate step with an open descriptor; its entries are sorted like the index,
//! so that both are read in parallel once. A folder that disappears meanwhile is gone; a folder
//! that turns into a file is checked again.

mod visit;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::Scope;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, statat};
use rustix::io::Errno;

use super::super::error::CheckpointError;
use super::super::ignore::{FolderRules, IgnoreRules, PathKind, Patterns};
use super::super::no_follow::{PathState, WorkTree, is_safe_name};
use super::super::object::{FileMode, ObjectId};
use super::super::path::RepoPath;
use super::super::snapshot::{LeftOut, LeftOutReason};
use super::super::stat::Stat;
use super::cache::StatCache;
use super::content::PendingFile;
use super::listing::{FolderListing, ItemFound, ListedEntry, order, read_in};
use super::permission::FolderNotes;
use super::tracked::{TrackedFile, TrackedFiles};
use super::{Executable, Large, ScanOptions, Symlinks, TrustIndex};
use crate::system_call::openat;

use visit::Visit;
pub(super) use visit::WalkFindings;

/// How many entries of folders one thread looks at before others help: starting them costs as much.
const FEW: usize = 1500;

/// Git does not read larger ignore files either.
const MAX_IGNORE_FILE: u64 = 100 << 20;

struct ScanWalk<'w> {
    tracked: TrackedFiles<'w>,
    cache: &'w StatCache,
    rules: &'w IgnoreRules,
    options: &'w ScanOptions,
    /// The positions of files that an earlier scan found with other bytes than those in the index: git converted them when
    /// they were staged, by attributes that may be gone since.
    converted: BTreeSet<usize>,
    outcome: Mutex<Result<WalkFindings, CheckpointError>>,
    /// How many entries of folders were looked at.
    looked_at: AtomicUsize,
}

/// The result of one folder, and the folders in it that remain to be walked.
type Visited = Result<(WalkFindings, Vec<PendingFolder>), CheckpointError>;

/// A folder to walk.
struct PendingFolder {
    parent: Arc<OwnedFd>,
    /// With a trailing `/`.
    prefix: Vec<u8>,
    /// The tracked files below it.
    range: Range<usize>,
    above: FolderRules,
    reach: WalkScope,
}

/// Which files count in a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WalkScope {
    Everything,
    /// The folder is ignored, or a nested repository, but contains tracked files.
    TrackedOnly,
}

pub(super) fn walk(
    work_tree: &WorkTree,
    tracked: TrackedFiles<'_>,
    cache: &StatCache,
    rules: &IgnoreRules,
    options: &ScanOptions,
) -> Result<WalkFindings, CheckpointError> {
    let outcome = Mutex::new(Ok(WalkFindings::default()));
    let walk = ScanWalk {
        tracked,
        cache,
        rules,
        options,
        converted: converted(tracked, cache, options),
        outcome,
        looked_at: AtomicUsize::new(0),
    };
    // Open it again: reading a folder moves a position that all copies of a descriptor share.
    let top = openat(work_tree.fd(), c".", FOLDER, Mode::empty());
    let seen = top.map_err(|err| unreadable(b"", err)).and_then(|fd| {
        let (range, rules) = (0..tracked.len(), FolderRules::default());
        let visit = Visit::new(b"", None, range, rules, WalkScope::Everything);
        walk.visit(&Arc::new(fd), visit)
    });
    walk.all_below(walk.note(seen));
    walk.outcome
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

/// The mode of a file in a tree.
pub(super) fn file_mode(
    options: &ScanOptions,
    permissions: u32,
    tracked: Option<TrackedFile>,
) -> FileMode {
    if options.symlinks == Symlinks::Files
        && tracked.is_some_and(|entry| entry.mode == FileMode::Symlink)
    {
        return FileMode::Symlink;
    }
    let is_executable = match (options.executable, tracked) {
        (Executable::FromDisk, _) => permissions & 0o100 != 0,
        (Executable::FromIndex, tracked) => {
            tracked.is_some_and(|entry| entry.mode == FileMode::Executable)
        }
    };
    if is_executable {
        FileMode::Executable
    } else {
        FileMode::Regular
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl ScanWalk<'_> {
    /// Walks all folders below: a few on this thread, more on all cores.
    fn all_below(&self, mut rest: Vec<PendingFolder>) {
        let are_few = self.tracked.len() <= FEW;
        while are_few && self.looked_at.load(Ordering::Relaxed) <= FEW {
            let Some(folder) = rest.pop() else { return };
            rest.extend(self.folder(&folder));
        }
        rayon::scope(|scope| self.spawn(scope, rest));
    }

    fn spawn<'s>(&'s self, scope: &Scope<'s>, folders: Vec<PendingFolder>) {
        for folder in folders {
            scope.spawn(move |scope| self.spawn(scope, self.folder(&folder)));
        }
    }

    /// Records the result of a folder; returns the folders in it.
    fn note(&self, visited: Visited) -> Vec<PendingFolder> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *outcome, visited) {
            (Ok(all), Ok((more, below))) => {
                all.extend(more);
                return below;
            }
            (Ok(_), Err(err)) => *outcome = Err(err),
            (Err(_), _) => {}
        }
        Vec::new()
    }

    fn has_failed(&self) -> bool {
        self.outcome
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_err()
    }

    /// Opens a folder and compares it; returns the folders in it.
    fn folder(&self, folder: &PendingFolder) -> Vec<PendingFolder> {
        if self.has_failed() {
            return Vec::new();
        }
        let path = folder.prefix.strip_suffix(b"/").unwrap_or(&folder.prefix);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let start = |permissions| {
            Visit::new(
                &folder.prefix,
                permissions,
                folder.range.clone(),
                folder.above.clone(),
                folder.reach,
            )
        };
        let opened = openat(
            &*folder.parent,
            OsStr::from_bytes(name),
            FOLDER,
            Mode::empty(),
        )
        .and_then(|fd| Ok((fstat(&fd)?.st_mode & 0o7777, fd)));
        self.note(match opened {
            Ok((permissions, fd)) => self.visit(&Arc::new(fd), start(Some(permissions))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                let mut visit = start(None);
                self.gone_below(&mut visit, folder.range.clone());
                // The folder may be a file by now.
                let found = statat(
                    &*folder.parent,
                    OsStr::from_bytes(name),
                    AtFlags::SYMLINK_NOFOLLOW,
                );
                if let Ok(found @ (PathState::File { .. } | PathState::Symlink { .. })) =
                    found.map(|stat| PathState::of(&stat))
                {
                    let prefix = path.strip_suffix(name).unwrap_or_default();
                    let (above, notes) = (visit.rules.clone(), FolderNotes::new(prefix, None));
                    let mut parent = Visit {
                        prefix,
                        rules: above,
                        notes,
                        ..visit
                    };
                    self.file(&mut parent, name, found, self.tracked.find(path));
                    visit = parent;
                }
                visit.findings.permissions.push(visit.notes);
                Ok((visit.findings, Vec::new()))
            }
            // Git cannot read it either, and skips it.
            Err(Errno::ACCESS | Errno::PERM) if folder.range.is_empty() => {
                let mut visit = start(None);
                visit.left_out(path.to_vec(), LeftOutReason::Unreadable);
                Ok((visit.findings, Vec::new()))
            }
            Err(err) => Err(unreadable(path, err)),
        })
    }

    /// Compares an open folder with the index.
    fn visit(&self, fd: &Arc<OwnedFd>, mut visit: Visit<'_>) -> Visited {
        let listing = FolderListing::read(fd).map_err(|err| unreadable(visit.prefix, err))?;
        self.looked_at
            .fetch_add(listing.items.len(), Ordering::Relaxed);
        let path = RepoPath::from_bytes(visit.prefix.strip_suffix(b"/").unwrap_or(visit.prefix));
        let holds_git = [PathKind::File, PathKind::Folder]
            .iter()
            .any(|kind| listing.find(b".git", *kind).is_some());
        if !visit.prefix.is_empty() && holds_git {
            visit.findings.left_out.push(LeftOut {
                path: path.clone(),
                held: false,
                reason: LeftOutReason::NestedRepository,
            });
            visit.reach = WalkScope::TrackedOnly;
            if visit.range.is_empty() {
                return Ok((visit.findings, Vec::new()));
            }
        }
        if listing.items.is_empty() && visit.reach == WalkScope::Everything && !path.is_top() {
            visit.findings.empty_folders.push(path.clone());
        }
        let attributes = listing
            .find(b".gitattributes", PathKind::File)
            .and_then(|at| listing.items.get(at));
        if matches!(
            attributes,
            Some(ListedEntry {
                found: ItemFound::Other(PathState::File { .. }),
                ..
            })
        ) {
            visit
                .findings
                .attribute_files
                .push(path.join(b".gitattributes"));
        }
        self.enter_rules(fd, &listing, &path, &mut visit)?;
        self.compare(&listing, fd, &mut visit)?;
        visit.findings.permissions.push(visit.notes);
        Ok((visit.findings, visit.below))
    }

    fn enter_rules(
        &self,
        fd: &Arc<OwnedFd>,
        listing: &FolderListing,
        path: &RepoPath,
        visit: &mut Visit<'_>,
    ) -> Result<(), CheckpointError> {
        let mut read = None;
        if let Some(item) = listing
            .find(b".gitignore", PathKind::File)
            .and_then(|at| listing.items.get(at))
            && let ItemFound::Other(PathState::File { size, .. }) = item.found
            && size <= MAX_IGNORE_FILE
            && self.rules.wants_file_of(path.as_bytes())
        {
            let file = path.join(b".gitignore");
            let bytes = read_in(fd, b".gitignore", MAX_IGNORE_FILE)
                .map_err(|err| unreadable(file.as_bytes(), err))?;
            read = bytes.map(|bytes| Arc::new(Patterns::parse(&bytes)));
        }
        visit.rules = self.rules.enter(&visit.rules, visit.prefix, read.as_ref());
        visit
            .findings
            .rules
            .extend(read.map(|patterns| (path.clone(), patterns)));
        Ok(())
    }

    /// Reads the entries of the folder and of the index in parallel.
    fn compare(
        &self,
        listing: &FolderListing,
        fd: &Arc<OwnedFd>,
        visit: &mut Visit<'_>,
    ) -> Result<(), CheckpointError> {
        let end = visit.range.end;
        let mut at = visit.range.start;
        // Folders with an index entry of their own: submodules, and overlooked paths.
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for (number, item) in listing.items.iter().enumerate() {
            let name = listing.name(item);
            let mut matched = None;
            while at < end {
                let (tracked_name, kind) = self.child(at, visit.prefix);
                match order((tracked_name, kind), (name, item.kind())) {
                    std::cmp::Ordering::Less => {
                        at = self.missing(at, tracked_name, kind, listing, &mut taken, visit);
                    }
                    std::cmp::Ordering::Equal => {
                        let next = self.after(at, tracked_name, kind, visit);
                        matched = Some(at..next);
                        at = next;
                        break;
                    }
                    std::cmp::Ordering::Greater => break,
                }
            }
            match &item.found {
                ItemFound::Nothing => self.gone_below(visit, matched.unwrap_or(0..0)),
                ItemFound::Failed(Errno::ACCESS | Errno::PERM) if matched.is_none() => {
                    if visit.reach == WalkScope::Everything {
                        visit.left_out([visit.prefix, name].concat(), LeftOutReason::Unreadable);
                    }
                }
                ItemFound::Failed(err) => {
                    return Err(unreadable(&[visit.prefix, name].concat(), *err));
                }
                ItemFound::Other(_) | ItemFound::Folder if name == b".git" => {}
                ItemFound::Other(found) => {
                    self.file(visit, name, *found, matched.map(|range| range.start));
                }
                ItemFound::Folder => {
                    let own = taken
                        .iter()
                        .find(|(item, _)| *item == number)
                        .map(|(_, at)| *at);
                    self.go_below(visit, fd, name, matched.unwrap_or(0..0), own);
                }
            }
        }
        while at < end {
            let (name, kind) = self.child(at, visit.prefix);
            at = self.missing(at, name, kind, listing, &mut taken, visit);
        }
        Ok(())
    }

    /// The first component of a tracked file below a folder, and whether there are more.
    fn child(&self, at: usize, prefix: &[u8]) -> (&[u8], PathKind) {
        let below = self
            .tracked
            .path(at)
            .get(prefix.len()..)
            .unwrap_or_default();
        match below.iter().position(|byte| *byte == b'/') {
            Some(slash) => (below.get(..slash).unwrap_or_default(), PathKind::Folder),
            None => (below, PathKind::File),
        }
    }

    /// The position in the index after a file, or after all files below a folder.
    fn after(&self, at: usize, name: &[u8], kind: PathKind, visit: &Visit<'_>) -> usize {
        match kind {
            PathKind::File => at + 1,
            PathKind::Folder => {
                self.tracked
                    .below(&[visit.prefix, name].concat(), at..visit.range.end)
                    .end
            }
        }
    }

    /// Handles a tracked file or folder that is not on disk with the same kind; returns the
    /// position after it.
    fn missing(
        &self,
        at: usize,
        name: &[u8],
        kind: PathKind,
        listing: &FolderListing,
        taken: &mut Vec<(usize, usize)>,
        visit: &mut Visit<'_>,
    ) -> usize {
        let next = self.after(at, name, kind, visit);
        let entry = self.tracked.entry(at).filter(|_| kind == PathKind::File);
        if entry.is_some_and(|entry| entry.overlooked || entry.mode == FileMode::Gitlink)
            && let Some(folder) = listing.find(name, PathKind::Folder)
        {
            taken.push((folder, at));
        } else {
            self.gone_below(visit, at..next);
        }
        next
    }

    fn gone_below(&self, visit: &mut Visit<'_>, range: Range<usize>) {
        let counts = |at: &usize| {
            self.tracked
                .entry(*at)
                .is_some_and(|entry| !entry.intent_to_add)
        };
        visit.findings.gone.extend(range.filter(counts));
    }

    /// Decides whether to walk a folder. `own` is the index entry with the folder's own name.
    fn go_below(
        &self,
        visit: &mut Visit<'_>,
        fd: &Arc<OwnedFd>,
        name: &[u8],
        range: Range<usize>,
        own: Option<usize>,
    ) {
        let path = [visit.prefix, name].concat();
        match own.and_then(|at| self.tracked.entry(at)) {
            Some(entry) if entry.overlooked => {
                visit.left_out(path, LeftOutReason::Overlooked);
                return;
            }
            Some(_) => {
                // A submodule that is not checked out counts as unchanged, as in git.
                let git = [name, b"/.git"].concat();
                if statat(fd, OsStr::from_bytes(&git), AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                    visit.findings.submodules.push(RepoPath::from_bytes(path));
                }
                return;
            }
            None => {}
        }
        let mut reach = visit.reach;
        if range.is_empty() {
            if reach == WalkScope::TrackedOnly {
                return;
            }
            if !is_safe_name(name) {
                visit.left_out(path, LeftOutReason::SpecialFile);
                return;
            }
        }
        if reach == WalkScope::Everything
            && self.rules.ignores(&visit.rules, &path, PathKind::Folder)
        {
            reach = WalkScope::TrackedOnly;
            if range.is_empty() {
                return;
            }
        }
        let prefix = [&path, &b"/"[..]].concat();
        visit.below.push(PendingFolder {
            parent: Arc::clone(fd),
            prefix,
            range,
            above: visit.rules.clone(),
            reach,
        });
    }

    /// Compares one file, link or special file; `at` is its position in the index.
    fn file(&self, visit: &mut Visit<'_>, name: &[u8], found: PathState, at: Option<usize>) {
        let entry = at.and_then(|at| self.tracked.entry(at));
        let (mode, stat, permissions, size) = match found {
            PathState::File {
                permissions,
                stat,
                size,
                ..
            } => (
                file_mode(self.options, permissions, entry),
                stat,
                permissions,
                size,
            ),
            PathState::Symlink { stat } => (FileMode::Symlink, stat, 0, 0),
            PathState::Folder { .. } | PathState::Special => {
                self.special(visit, name, at);
                return;
            }
        };
        // Overlooked files are recorded too: a step may write to them, and they may have
        // uncommitted user content.
        if let Some(entry) = entry {
            let trusted = self.options.trust_index == TrustIndex::Trust && !entry.intent_to_add;
            if trusted
                && entry.is_proved_by(mode, &stat)
                && !at.is_some_and(|at| self.converted.contains(&at))
            {
                visit.note_file(name, found);
                return;
            }
        }
        let path = [visit.prefix, name].concat();
        if entry.is_none() && !self.counts(visit, name, &path) {
            return;
        }
        match found {
            PathState::File { size, modified, .. } if size > self.options.max_file_size => {
                if self.options.large == Large::LeaveOut {
                    visit.left_out(path, LeftOutReason::TooLarge { size, modified });
                    return;
                }
            }
            // The bits of a large file count only if it is not skipped.
            found => visit.note_file(name, found),
        }
        let known = self.cache.find(&path, mode, &stat);
        let path = RepoPath::from_bytes(path);
        visit.findings.pending.push(PendingFile {
            path,
            tracked: at,
            mode,
            stat,
            permissions,
            size,
            known,
        });
    }

    /// Whether an untracked file is part of the work tree.
    fn counts(&self, visit: &mut Visit<'_>, name: &[u8], path: &[u8]) -> bool {
        if visit.reach == WalkScope::TrackedOnly
            || self.rules.ignores(&visit.rules, path, PathKind::File)
        {
            return false;
        }
        if !is_safe_name(name) {
            visit.left_out(path.to_owned(), LeftOutReason::SpecialFile);
            return false;
        }
        // A tree cannot contain both this file and index entries below it.
        let mut below = self.tracked.below(path, visit.range.clone());
        if below.any(|at| self.tracked.entry(at).is_some_and(|entry| entry.overlooked)) {
            visit.left_out(path.to_owned(), LeftOutReason::Overlooked);
            return false;
        }
        true
    }

    fn special(&self, visit: &mut Visit<'_>, name: &[u8], at: Option<usize>) {
        let path = [visit.prefix, name].concat();
        match at {
            Some(at) => self.gone_below(visit, at..at + 1),
            None if visit.reach == WalkScope::TrackedOnly => return,
            None if self.rules.ignores(&visit.rules, &path, PathKind::File) => return,
            None => {}
        }
        visit.left_out(path, LeftOutReason::SpecialFile);
    }
}

fn converted(
    tracked: TrackedFiles<'_>,
    cache: &StatCache,
    options: &ScanOptions,
) -> BTreeSet<usize> {
    if options.trust_index != TrustIndex::Trust {
        return BTreeSet::new();
    }
    let position = |(path, stat, id): (&RepoPath, &Stat, ObjectId)| {
        let at = tracked.find(path.as_bytes())?;
        let entry = tracked.entry(at)?;
        (entry.id != id && entry.looks_like(stat)).then_some(at)
    };
    cache.files().filter_map(position).collect()
}

fn unreadable(path: &[u8], err: Errno) -> CheckpointError {
    let path = RepoPath::from_bytes(path.strip_suffix(b"/").unwrap_or(path));
    CheckpointError::Unreadable {
        path,
        source: err.into(),
    }
}
