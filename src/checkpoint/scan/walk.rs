//! The walk over all folders, each against its own stretch of the index.
//!
//! Every folder is a task of its own with an open descriptor; its entries are put in the order of
//! the index, so that both are read side by side once. A folder that goes away meanwhile is gone;
//! what turns from a folder into a file is looked at again.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::Scope;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::super::error::CheckpointError;
use super::super::ignore::{FolderRules, IgnoreRules, Kind, Patterns};
use super::super::object::FileMode;
use super::super::path::RepoPath;
use super::super::snapshot::{LeftOut, LeftOutReason};
use super::super::worktree::{Found, WorkTree, is_safe_name};
use super::cache::StatCache;
use super::content::Pending;
use super::listing::{Item, ItemFound, Listing, order};
use super::permission::{FolderNotes, PermissionNotes};
use super::tracked::{Tracked, TrackedFile};
use super::{Executable, Large, Options, Symlinks, TrustIndex};

/// Git does not read larger files of patterns either.
const MAX_IGNORE_FILE: u64 = 100 << 20;

/// What the walk found out.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Tracked files that are not there, by their place in the index.
    pub(super) gone: Vec<usize>,
    /// Files that the index cannot answer for.
    pub(super) pending: Vec<Pending>,
    pub(super) permissions: PermissionNotes,
    pub(super) empty_folders: Vec<RepoPath>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) submodules: Vec<RepoPath>,
    pub(super) attribute_files: Vec<RepoPath>,
    /// The `.gitignore` files that were read.
    pub(super) rules: Vec<(RepoPath, Arc<Patterns>)>,
}

struct Walk<'w> {
    tracked: Tracked<'w>,
    cache: &'w StatCache,
    rules: &'w IgnoreRules,
    options: &'w Options,
    outcome: Mutex<Result<Findings, CheckpointError>>,
}

/// A folder to go into.
struct Folder {
    parent: Arc<OwnedFd>,
    /// With a `/` at the end.
    prefix: Vec<u8>,
    /// The tracked files below it.
    range: Range<usize>,
    above: FolderRules,
    reach: Reach,
}

/// What counts in a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Everything,
    /// The folder is ignored, or a repository of its own, and holds tracked files nevertheless.
    TrackedOnly,
}

/// One folder that is being compared.
struct Visit<'v> {
    prefix: &'v [u8],
    range: Range<usize>,
    rules: FolderRules,
    reach: Reach,
    notes: FolderNotes,
    findings: Findings,
    below: Vec<Folder>,
}

/// Walks over the whole work tree.
pub(super) fn walk(
    work_tree: &WorkTree,
    tracked: Tracked<'_>,
    cache: &StatCache,
    rules: &IgnoreRules,
    options: &Options,
) -> Result<Findings, CheckpointError> {
    let outcome = Mutex::new(Ok(Findings::default()));
    let walk = Walk { tracked, cache, rules, options, outcome };
    rayon::scope(|scope| {
        // Opened anew: reading a folder moves a position that all copies of a descriptor share.
        let top = openat(work_tree.fd(), c".", FOLDER, Mode::empty());
        walk.note(top.map_err(|err| unreadable(b"", err)).and_then(|fd| {
            let range = 0..tracked.len();
            let visit = Visit::new(b"", None, range, FolderRules::default(), Reach::Everything);
            walk.visit(scope, &Arc::new(fd), visit)
        }));
    });
    walk.outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The mode of a file in a tree.
pub(super) fn file_mode(options: &Options, permissions: u32, tracked: Option<TrackedFile>) -> FileMode {
    if options.symlinks == Symlinks::Files && tracked.is_some_and(|entry| entry.mode == FileMode::Symlink) {
        return FileMode::Symlink;
    }
    let is_executable = match (options.executable, tracked) {
        (Executable::FromDisk, _) => permissions & 0o100 != 0,
        (Executable::FromIndex, tracked) => tracked.is_some_and(|entry| entry.mode == FileMode::Executable),
    };
    if is_executable { FileMode::Executable } else { FileMode::Regular }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Walk<'_> {
    fn note(&self, result: Result<Findings, CheckpointError>) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *outcome, result) {
            (Ok(all), Ok(more)) => all.extend(more),
            (Ok(_), Err(err)) => *outcome = Err(err),
            (Err(_), _) => {}
        }
    }

    fn has_failed(&self) -> bool {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_err()
    }

    /// Opens a folder and compares it.
    fn folder<'s>(&'s self, scope: &Scope<'s>, folder: &Folder) {
        if self.has_failed() {
            return;
        }
        let path = folder.prefix.strip_suffix(b"/").unwrap_or(&folder.prefix);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let start = |permissions| {
            Visit::new(&folder.prefix, permissions, folder.range.clone(), folder.above.clone(), folder.reach)
        };
        let opened = openat(&*folder.parent, OsStr::from_bytes(name), FOLDER, Mode::empty())
            .and_then(|fd| Ok((fstat(&fd)?.st_mode & 0o7777, fd)));
        self.note(match opened {
            Ok((permissions, fd)) => self.visit(scope, &Arc::new(fd), start(Some(permissions))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                let mut visit = start(None);
                self.gone_below(&mut visit, folder.range.clone());
                // Where it was a folder there may be a file by now.
                let found = statat(&*folder.parent, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW);
                if let Ok(found @ (Found::File { .. } | Found::Symlink { .. })) = found.map(|stat| Found::of(&stat)) {
                    let prefix = path.strip_suffix(name).unwrap_or_default();
                    let (above, notes) = (visit.rules.clone(), FolderNotes::new(prefix, None));
                    let mut parent = Visit { prefix, rules: above, notes, ..visit };
                    self.file(&mut parent, name, found, self.tracked.find(path));
                    visit = parent;
                }
                visit.findings.permissions.push(visit.notes);
                Ok(visit.findings)
            }
            // Git cannot look into it either, and leaves it out.
            Err(Errno::ACCESS | Errno::PERM) if folder.range.is_empty() => {
                let mut visit = start(None);
                visit.left_out(path.to_vec(), LeftOutReason::Unreadable);
                Ok(visit.findings)
            }
            Err(err) => Err(unreadable(path, err)),
        });
    }

    /// Compares an open folder with the index and sends others into the folders below.
    fn visit<'s>(
        &'s self,
        scope: &Scope<'s>,
        fd: &Arc<OwnedFd>,
        mut visit: Visit<'_>,
    ) -> Result<Findings, CheckpointError> {
        let listing = Listing::read(fd).map_err(|err| unreadable(visit.prefix, err))?;
        let path = RepoPath::from_bytes(visit.prefix.strip_suffix(b"/").unwrap_or(visit.prefix));
        let holds_git = [Kind::File, Kind::Folder].iter().any(|kind| listing.find(b".git", *kind).is_some());
        if !visit.prefix.is_empty() && holds_git {
            visit.findings.left_out.push(LeftOut { path: path.clone(), reason: LeftOutReason::NestedRepository });
            visit.reach = Reach::TrackedOnly;
            if visit.range.is_empty() {
                return Ok(visit.findings);
            }
        }
        if listing.items.is_empty() && visit.reach == Reach::Everything && !path.is_top() {
            visit.findings.empty_folders.push(path.clone());
        }
        let attributes = listing.find(b".gitattributes", Kind::File).and_then(|at| listing.items.get(at));
        if matches!(attributes, Some(Item { found: ItemFound::Other(Found::File { .. }), .. })) {
            visit.findings.attribute_files.push(path.join(b".gitattributes"));
        }
        self.enter_rules(fd, &listing, &path, &mut visit)?;
        self.compare(&listing, fd, &mut visit)?;
        for folder in visit.below {
            scope.spawn(move |scope| self.folder(scope, &folder));
        }
        visit.findings.permissions.push(visit.notes);
        Ok(visit.findings)
    }

    fn enter_rules(
        &self,
        fd: &Arc<OwnedFd>,
        listing: &Listing,
        path: &RepoPath,
        visit: &mut Visit<'_>,
    ) -> Result<(), CheckpointError> {
        let mut read = None;
        if let Some(item) = listing.find(b".gitignore", Kind::File).and_then(|at| listing.items.get(at))
            && let ItemFound::Other(Found::File { size, .. }) = item.found
            && size <= MAX_IGNORE_FILE
            && self.rules.wants_file_of(path.as_bytes())
        {
            let file = path.join(b".gitignore");
            let bytes = read_in(fd, b".gitignore").map_err(|err| unreadable(file.as_bytes(), err))?;
            read = bytes.map(|bytes| Arc::new(Patterns::parse(&bytes)));
        }
        visit.rules = self.rules.enter(&visit.rules, visit.prefix, read.as_ref());
        visit.findings.rules.extend(read.map(|patterns| (path.clone(), patterns)));
        Ok(())
    }

    /// Reads the entries of the folder and of the index side by side.
    fn compare(&self, listing: &Listing, fd: &Arc<OwnedFd>, visit: &mut Visit<'_>) -> Result<(), CheckpointError> {
        let end = visit.range.end;
        let mut at = visit.range.start;
        // Folders whose own name is in the index: submodules, and what the user told git to overlook.
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for (number, item) in listing.items.iter().enumerate() {
            let name = listing.name(item);
            let mut matched = None;
            while at < end {
                let (tracked_name, kind) = self.child(at, visit.prefix);
                match order((tracked_name, kind), (name, item.kind())) {
                    std::cmp::Ordering::Less => at = self.missing(at, tracked_name, kind, listing, &mut taken, visit),
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
                    if visit.reach == Reach::Everything {
                        visit.left_out([visit.prefix, name].concat(), LeftOutReason::Unreadable);
                    }
                }
                ItemFound::Failed(err) => return Err(unreadable(&[visit.prefix, name].concat(), *err)),
                ItemFound::Other(_) | ItemFound::Folder if name == b".git" => {}
                ItemFound::Other(found) => self.file(visit, name, *found, matched.map(|range| range.start)),
                ItemFound::Folder => {
                    let own = taken.iter().find(|(item, _)| *item == number).map(|(_, at)| *at);
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
    fn child(&self, at: usize, prefix: &[u8]) -> (&[u8], Kind) {
        let below = self.tracked.path(at).get(prefix.len()..).unwrap_or_default();
        match below.iter().position(|byte| *byte == b'/') {
            Some(slash) => (below.get(..slash).unwrap_or_default(), Kind::Folder),
            None => (below, Kind::File),
        }
    }

    /// The place in the index after a file, or after all files below a folder.
    fn after(&self, at: usize, name: &[u8], kind: Kind, visit: &Visit<'_>) -> usize {
        match kind {
            Kind::File => at + 1,
            Kind::Folder => self.tracked.below(&[visit.prefix, name].concat(), at..visit.range.end).end,
        }
    }

    /// Handles a tracked file or folder that is not on disk under its own kind; returns the place after it.
    fn missing(
        &self,
        at: usize,
        name: &[u8],
        kind: Kind,
        listing: &Listing,
        taken: &mut Vec<(usize, usize)>,
        visit: &mut Visit<'_>,
    ) -> usize {
        let next = self.after(at, name, kind, visit);
        let entry = self.tracked.entry(at).filter(|_| kind == Kind::File);
        if entry.is_some_and(|entry| entry.overlooked || entry.mode == FileMode::Gitlink)
            && let Some(folder) = listing.find(name, Kind::Folder)
        {
            taken.push((folder, at));
        } else {
            self.gone_below(visit, at..next);
        }
        next
    }

    fn gone_below(&self, visit: &mut Visit<'_>, range: Range<usize>) {
        let counts = |at: &usize| self.tracked.entry(*at).is_some_and(|entry| !entry.intent_to_add);
        visit.findings.gone.extend(range.filter(counts));
    }

    /// Decides whether to go into a folder. `own` is the index entry with the folder's own name.
    fn go_below(&self, visit: &mut Visit<'_>, fd: &Arc<OwnedFd>, name: &[u8], range: Range<usize>, own: Option<usize>) {
        let path = [visit.prefix, name].concat();
        match own.and_then(|at| self.tracked.entry(at)) {
            Some(entry) if entry.overlooked => {
                visit.left_out(path, LeftOutReason::Overlooked);
                return;
            }
            Some(_) => {
                // One that is not checked out counts as unchanged, as it does for git.
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
            if reach == Reach::TrackedOnly {
                return;
            }
            if !is_safe_name(name) {
                visit.left_out(path, LeftOutReason::SpecialFile);
                return;
            }
        }
        if reach == Reach::Everything && self.rules.ignores(&visit.rules, &path, Kind::Folder) {
            reach = Reach::TrackedOnly;
            if range.is_empty() {
                return;
            }
        }
        let prefix = [&path, &b"/"[..]].concat();
        visit.below.push(Folder { parent: Arc::clone(fd), prefix, range, above: visit.rules.clone(), reach });
    }

    /// Compares one file, link or special file; `at` is its place in the index.
    fn file(&self, visit: &mut Visit<'_>, name: &[u8], found: Found, at: Option<usize>) {
        let entry = at.and_then(|at| self.tracked.entry(at));
        let (mode, stat, permissions, size) = match found {
            Found::File { permissions, stat, size, .. } => {
                (file_mode(self.options, permissions, entry), stat, permissions, size)
            }
            Found::Symlink { stat } => (FileMode::Symlink, stat, 0, 0),
            Found::Folder { .. } | Found::Special => {
                self.special(visit, name, at);
                return;
            }
        };
        // Files that git overlooks are recorded as well: a step may write to them, and the user keeps content in them
        // that no commit has.
        if let Some(entry) = entry {
            let trusted = self.options.trust_index == TrustIndex::Trust && !entry.intent_to_add;
            if trusted && entry.is_proved_by(mode, &stat) {
                visit.note_file(name, found);
                return;
            }
        }
        let path = [visit.prefix, name].concat();
        if entry.is_none() && !self.counts(visit, name, &path) {
            return;
        }
        match found {
            Found::File { size, modified, .. } if size > self.options.max_file_size => {
                if self.options.large == Large::LeaveOut {
                    visit.left_out(path, LeftOutReason::TooLarge { size, modified });
                    return;
                }
            }
            // The bits of a large file count once it is known that it is not left out.
            found => visit.note_file(name, found),
        }
        let known = self.cache.find(&path, mode, &stat);
        let path = RepoPath::from_bytes(path);
        visit.findings.pending.push(Pending { path, tracked: at, mode, stat, permissions, size, known });
    }

    /// Whether an untracked file is part of the work tree.
    fn counts(&self, visit: &mut Visit<'_>, name: &[u8], path: &[u8]) -> bool {
        if visit.reach == Reach::TrackedOnly || self.rules.ignores(&visit.rules, path, Kind::File) {
            return false;
        }
        if !is_safe_name(name) {
            visit.left_out(path.to_owned(), LeftOutReason::SpecialFile);
            return false;
        }
        // A tree cannot hold both this file and what the user keeps in the index below it.
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
            None if visit.reach == Reach::TrackedOnly => return,
            None if self.rules.ignores(&visit.rules, &path, Kind::File) => return,
            None => {}
        }
        visit.left_out(path, LeftOutReason::SpecialFile);
    }
}

impl<'v> Visit<'v> {
    fn new(prefix: &'v [u8], permissions: Option<u32>, range: Range<usize>, rules: FolderRules, reach: Reach) -> Self {
        let notes = FolderNotes::new(prefix, permissions);
        Self { prefix, range, rules, reach, notes, findings: Findings::default(), below: Vec::new() }
    }

    fn left_out(&mut self, path: Vec<u8>, reason: LeftOutReason) {
        self.findings.left_out.push(LeftOut { path: RepoPath::from_bytes(path), reason });
    }

    /// Notes a file that is part of the work tree.
    fn note_file(&mut self, name: &[u8], found: Found) {
        if let Found::File { permissions, .. } = found {
            self.notes.file(name, permissions);
        }
    }
}

impl Findings {
    fn extend(&mut self, more: Self) {
        self.gone.extend(more.gone);
        self.pending.extend(more.pending);
        self.permissions.extend(more.permissions);
        self.empty_folders.extend(more.empty_folders);
        self.left_out.extend(more.left_out);
        self.submodules.extend(more.submodules);
        self.attribute_files.extend(more.attribute_files);
        self.rules.extend(more.rules);
    }
}

fn unreadable(path: &[u8], err: Errno) -> CheckpointError {
    let path = RepoPath::from_bytes(path.strip_suffix(b"/").unwrap_or(path));
    CheckpointError::Unreadable { path, source: err.into() }
}

/// The bytes of a regular file in an open folder; none if it is none any more.
fn read_in(folder: &OwnedFd, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(folder.as_fd(), OsStr::from_bytes(name), flags, Mode::empty()) {
        Ok(file) => std::fs::File::from(file),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(err) => return Err(err),
    };
    if !matches!(Found::of(&fstat(&file)?), Found::File { .. }) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    match file.take(MAX_IGNORE_FILE).read_to_end(&mut bytes) {
        Ok(_) => Ok(Some(bytes)),
        Err(err) => Err(Errno::from_io_error(&err).unwrap_or(Errno::IO)),
    }
}
