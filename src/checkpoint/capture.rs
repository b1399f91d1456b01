//! Takes a snapshot: the result of a scan as a tree, with everything that is needed to restore it.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use super::attributes::{self, Conversion};
use super::checkpointer::Checkpointer;
use super::content;
use super::delta::{Change, ChangeKind, Delta};
use super::error::CheckpointError;
use super::files::read_if_there;
use super::ignore::{IgnoreRules, Letters, PathKind, UnknownFolder};
use super::index::IndexEntry;
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::scan::{
    self, Blob, DiskKinds, Executable, Large, LargeFile, Sink, Symlinks, TrustIndex, WorkTreeScan,
};
use super::snapshot::{LeftOut, LeftOutReason, Snapshot};
use super::sparse::{SparseCheckout, SparseDefinition};
use super::tree::{self, Edits};

const IGNORE_FILE: &[u8] = b".gitignore";

impl Checkpointer {
    /// The work tree before a step. The current ignore rules apply until the next call.
    pub fn before(&mut self) -> Result<Snapshot, CheckpointError> {
        let rules = self.shared_rules()?;
        let before = self.take(&rules, None)?;
        self.definition = Some(SparseDefinition::load(&self.repository, &self.index)?);
        Ok(before)
    }

    /// The work tree after a step, with the ignore rules from before it.
    pub fn after(&mut self, before: &Snapshot) -> Result<Snapshot, CheckpointError> {
        if self.rules.is_none() {
            self.remember_rules(before)?;
        }
        let after = match self.rules.take() {
            Some(rules) => self.take(&rules, Some(before))?,
            None => self.before()?,
        };
        self.refuse_closed(before, &after)?;
        Ok(after)
    }

    /// Refuses user files and folders that became unreadable during a step: the commit would
    /// silently miss the step's changes. Files of other users are ignored.
    fn refuse_closed(&self, before: &Snapshot, after: &Snapshot) -> Result<(), CheckpointError> {
        let new = |left: &&LeftOut| {
            left.reason == LeftOutReason::Unreadable && !before.left_out.contains(left)
        };
        for left in after.left_out.iter().filter(new) {
            let path = self.repository.top().join(left.path.as_path());
            // If a folder may be listed but not entered, use the owner of the folder.
            let owner = path
                .ancestors()
                .find_map(|path| path.symlink_metadata().ok())
                .map(|found| found.uid());
            if owner == Some(rustix::process::geteuid().as_raw()) {
                let source = std::io::ErrorKind::PermissionDenied.into();
                return Err(CheckpointError::Unreadable {
                    path: left.path.clone(),
                    source,
                });
            }
        }
        Ok(())
    }

    /// Reads the ignore rules from a snapshot, because the process that had them is gone.
    ///
    /// A `.gitignore` that was itself ignored is in no snapshot; such files are read from disk,
    /// since an additional rule can only leave a file alone.
    pub fn remember_rules(&mut self, before: &Snapshot) -> Result<(), CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let mut files = Vec::new();
        for (path, entry) in tree::files_named(&objects, before.tree, IGNORE_FILE)? {
            if entry.mode.is_file() {
                files.push((path.parent(), objects.read(entry.id)?));
            }
        }
        self.rules = Some(self.shared_rules()?.with_files(files, UnknownFolder::Read));
        Ok(())
    }

    /// All differences between HEAD and a snapshot, as one delta.
    pub fn delta_to_head(&self, snapshot: &Snapshot) -> Result<Delta, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let head_tree = self.repository.tree_of(snapshot.head.commit)?;
        let mut delta = Delta::default();
        let outside = |path: &RepoPath| {
            self.is_overlooked(path)
                || snapshot
                    .left_out
                    .iter()
                    .any(|left| left.path == *path || path.is_inside(&left.path))
        };
        let mut differences = tree::differences(&objects, head_tree, snapshot.tree)?;
        differences.retain(|(path, ..)| !outside(path));
        self.clean_together(
            &objects,
            differences.iter().map(|(path, _, after)| (path, *after)),
        )?;
        for (path, before, after) in differences {
            // Git converts the bytes on disk to the content in HEAD.
            let same = self.clean(&objects, &path, after)? == before;
            if !same {
                let change = Change::counted(&objects, path, before, after)?;
                delta.changes.push(change);
            }
        }
        objects.stage()?;
        Ok(delta)
    }

    /// Whether git ignores changes of a file (skip-worktree, assume-unchanged, outside of the
    /// sparse checkout), so that no commit takes it from disk.
    pub(super) fn is_overlooked(&self, path: &RepoPath) -> bool {
        self.index
            .entry_at(path)
            .is_some_and(IndexEntry::is_overlooked)
            || self.is_outside_sparse(path)
    }

    /// Files that a step created and that git ignores now: `git add` would leave them out too.
    pub(super) fn newly_ignored(&self, delta: &Delta) -> Result<Vec<RepoPath>, CheckpointError> {
        if !delta
            .changes
            .iter()
            .any(|change| change.path.file_name() == IGNORE_FILE)
        {
            return Ok(Vec::new());
        }
        let is_new = |change: &&Change| {
            change.kind() == ChangeKind::Added && !self.returning.contains_key(&change.path)
        };
        let added = delta.changes.iter().filter(is_new);
        self.ignored_among(added.map(|change| &change.path))
    }

    /// The untracked paths that git ignores now; snapshots leave them out.
    pub fn ignored_among<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p RepoPath>,
    ) -> Result<Vec<RepoPath>, CheckpointError> {
        let mut ignored = Vec::new();
        let mut last: Option<(RepoPath, IgnoreRules)> = None;
        for path in paths
            .into_iter()
            .filter(|path| self.index.find(path.as_bytes()).is_none())
        {
            let folder = path.parent();
            let rules = match last.take_if(|(known, _)| *known == folder) {
                Some((_, rules)) => rules,
                None => self.rules_in(&folder)?,
            };
            if rules.is_ignored(path, PathKind::File) {
                ignored.push(path.clone());
            }
            last = Some((folder, rules));
        }
        Ok(ignored)
    }

    /// The rules for the files of a folder, as they are on disk now.
    fn rules_in(&self, folder: &RepoPath) -> Result<IgnoreRules, CheckpointError> {
        let mut files = Vec::new();
        let mut folder = folder.clone();
        loop {
            if let Some(bytes) = self.work_tree.read_if_file(&folder.join(IGNORE_FILE))? {
                files.push((folder.clone(), bytes));
            }
            if folder.is_top() {
                return Ok(self
                    .shared_rules()?
                    .with_files(files, UnknownFolder::NoRules));
            }
            folder = folder.parent();
        }
    }

    /// Ignored files that a step staged with `git add --force`: no snapshot shows whether they
    /// existed before, so they belong to the user.
    pub(super) fn forced_in(
        &self,
        objects: &Objects<'_>,
        before: &Snapshot,
        delta: &Delta,
    ) -> Result<Vec<RepoPath>, CheckpointError> {
        let Some(rules) = self.rules.as_ref().filter(|_| delta.changes_index()) else {
            return Ok(Vec::new());
        };
        let mut forced = Vec::new();
        for change in delta
            .changes
            .iter()
            .filter(|change| change.kind() == ChangeKind::Added)
        {
            if !self.returning.contains_key(&change.path)
                && rules.is_ignored(&change.path, PathKind::File)
                && tree::find(objects, before.index_tree, &change.path)?.is_none()
            {
                forced.push(change.path.clone());
            }
        }
        Ok(forced)
    }

    /// Takes a snapshot. Files that `earlier` has are part of it even if they would be left out.
    fn take(
        &mut self,
        rules: &IgnoreRules,
        earlier: Option<&Snapshot>,
    ) -> Result<Snapshot, CheckpointError> {
        self.refresh_index()?;
        self.sparse = SparseCheckout::load(&self.repository)?;
        self.repository.forget_replacements();
        self.conversion =
            attributes::find_conversion(&self.repository, &self.index, &self.work_tree, &[])?;
        let objects = Objects::of(&self.repository)?;
        objects.gather();
        let mut scan = self.scan(&objects, rules)?;
        let unknown: Vec<RepoPath> = scan
            .attribute_files
            .iter()
            .filter(|path| self.index.find(path.as_bytes()).is_none())
            .cloned()
            .collect();
        if !unknown.is_empty() {
            let found = attributes::find_conversion(
                &self.repository,
                &self.index,
                &self.work_tree,
                &unknown,
            )?;
            let was_trusted = self.conversion == Conversion::None;
            self.conversion = self.conversion.max(found);
            if was_trusted && self.conversion != Conversion::None {
                scan = self.scan(&objects, rules)?;
            }
        }
        let mut edits: Edits = scan
            .files
            .iter()
            .map(|(path, seen)| {
                (
                    path.clone(),
                    seen.map(|seen| Entry {
                        mode: seen.mode,
                        id: seen.id,
                    }),
                )
            })
            .collect();
        for path in &scan.submodules {
            if let Some(id) = self.commit_of_submodule(path) {
                edits.insert(
                    path.clone(),
                    Some(Entry {
                        mode: FileMode::Gitlink,
                        id,
                    }),
                );
            }
        }
        self.add_returning(&objects, &mut scan, &mut edits)?;
        if let Some(earlier) = earlier {
            self.hold_known(&objects, earlier, &mut scan, &mut edits)?;
        }
        let index_tree = tree::of_index(&objects, &self.index)?;
        let tree = tree::edit(&objects, index_tree, &edits)?;
        let head = self.repository.head()?;
        // Content that exists only in the index would be lost once it is unstaged.
        content::keep_new(&objects, self.repository.tree_of(head.commit)?, index_tree)?;
        objects.stage()?;
        let off_disk = self.find_off_disk(&scan);
        self.off_disk_before = std::mem::replace(&mut self.off_disk, off_disk);
        let is_stored = scan.cache.adds_nothing_to(&self.cache, self.stored_cache);
        self.cache = scan.cache;
        let changed = scan
            .files
            .into_keys()
            .filter(|path| !scan.vouched.contains_key(path));
        self.unproved = changed
            .chain(scan.left_out.iter().map(|left| left.path.clone()))
            .collect();
        let unreadable = scan
            .left_out
            .iter()
            .filter(|left| left.reason == LeftOutReason::Unreadable);
        self.unreadable = unreadable.map(|left| left.path.clone()).collect();
        self.filters.renew(tree, scan.vouched, scan.touched);
        if self.conversion >= Conversion::Filtered {
            // libgit2 reads attributes from the index if they are not on disk. If it cannot read
            // the index, there are none.
            let _ = self
                .repository
                .git
                .index()
                .and_then(|mut index| index.read(false));
        }
        if !is_stored {
            // Without the cache the next scan is slower, not wrong.
            let stored = self
                .cache
                .store(&self.repository.own_folder().join("index"));
            self.stored_cache = stored.map_or((0, 0), |()| self.cache.began());
        }
        self.rules = Some(scan.ignore_rules);
        Ok(Snapshot {
            tree,
            index_tree,
            head,
            commit: None,
            permissions: scan.permissions,
            empty_folders: scan.empty_folders,
            announced: self.index.announced(),
            left_out: scan.left_out,
        })
    }

    /// The files that a sparse checkout keeps off the disk.
    fn find_off_disk(&self, scan: &WorkTreeScan) -> BTreeSet<RepoPath> {
        if self.sparse.is_none() {
            return BTreeSet::new();
        }
        let gone = scan
            .files
            .iter()
            .filter(|(_, seen)| seen.is_none())
            .map(|(path, _)| path);
        gone.filter(|path| {
            self.index
                .entry_at(path)
                .is_some_and(|entry| entry.skip_worktree)
        })
        .cloned()
        .collect()
    }

    /// Adds restored files that the scan skipped because git ignores and does not track them now.
    fn add_returning(
        &self,
        objects: &Objects<'_>,
        scan: &mut WorkTreeScan,
        edits: &mut Edits,
    ) -> Result<(), CheckpointError> {
        for path in self.returning.keys() {
            let is_outside = scan
                .left_out
                .iter()
                .any(|left| left.path == *path || path.is_inside(&left.path));
            if is_outside || edits.contains_key(path) || self.index.entry_at(path).is_some() {
                continue;
            }
            let most = self.options.max_file_size;
            if let Some((entry, permissions)) = self.file_on_disk(objects, path, most)? {
                if let Some(permissions) = permissions {
                    let exceptions = &mut scan.permissions.exceptions;
                    exceptions.insert(path.clone(), permissions);
                }
                edits.insert(path.clone(), Some(entry));
            }
        }
        Ok(())
    }

    /// The content that git stores for the bytes of a file. Bytes that git has stored unchanged for
    /// this path (`known`, and restored files) stay unchanged, even if the current attributes would
    /// convert them.
    pub(super) fn stored_form(
        &self,
        objects: &Objects<'_>,
        path: &RepoPath,
        raw: Option<Entry>,
        known: &[Option<Entry>],
    ) -> Result<Option<Entry>, CheckpointError> {
        let Some(entry) =
            raw.filter(|entry| self.conversion != Conversion::None && entry.mode.is_file())
        else {
            return Ok(raw);
        };
        let same = known
            .iter()
            .flatten()
            .find(|known| known.mode.is_file() && objects.shown(known.id) == entry.id);
        if let Some(same) = same {
            return Ok(Some(Entry {
                mode: entry.mode,
                id: same.id,
            }));
        }
        if self
            .returning
            .get(path)
            .is_some_and(|stored| stored.contains(&entry.id))
        {
            return Ok(raw);
        }
        self.clean(objects, path, raw)
    }

    fn scan(
        &self,
        objects: &Objects<'_>,
        rules: &IgnoreRules,
    ) -> Result<WorkTreeScan, CheckpointError> {
        let DiskKinds {
            executable,
            symlinks,
        } = self.disk_kinds();
        let options = scan::ScanOptions {
            max_file_size: self.options.max_file_size,
            large: if self.conversion < Conversion::Filtered {
                Large::LeaveOut
            } else {
                Large::Ask
            },
            executable,
            symlinks,
            trust_index: match self.conversion {
                Conversion::None => TrustIndex::Trust,
                Conversion::Possible | Conversion::Filtered | Conversion::ByGit => {
                    TrustIndex::RawOnly
                }
            },
        };
        let mut budget = Budget {
            files: 0,
            size: 0,
            most: self.options.max_total_size,
        };
        let folder = self.repository.git_dir();
        let mut store = |blobs: &[Blob]| {
            budget.take(folder, blobs)?;
            objects.write_blobs(blobs)
        };
        let mut holds = |id: ObjectId| objects.is_stored(id);
        let mut keep_large = |file: &LargeFile<'_>| {
            let Some(filter) = self.filter_of_large(file.path, file.size)? else {
                return Ok(None);
            };
            let Some(seen) = (file.read)()? else {
                return Ok(None);
            };
            let kept =
                self.keep_large(objects, file.path, &filter, &seen, (file.vouched)(&seen))?;
            Ok(kept.map(|_| seen))
        };
        let mut sink = Sink {
            holds: &mut holds,
            store: &mut store,
            keep_large: &mut keep_large,
        };
        scan::scan(
            &self.work_tree,
            &self.index,
            &self.cache,
            rules,
            &options,
            &mut sink,
        )
    }

    /// How file kinds are detected and written on this file system.
    pub(super) fn disk_kinds(&self) -> DiskKinds {
        let executable = match self.repository.flag("core.fileMode") {
            Some(false) => Executable::FromIndex,
            _ => Executable::FromDisk,
        };
        let symlinks = match self.repository.flag("core.symlinks") {
            Some(false) => Symlinks::Files,
            _ => Symlinks::Links,
        };
        DiskKinds {
            executable,
            symlinks,
        }
    }

    /// The ignore rules outside of the work tree.
    fn shared_rules(&self) -> Result<IgnoreRules, CheckpointError> {
        let excludes = self.repository.path("core.excludesFile").or_else(|| {
            self.repository
                .user_git_folder()
                .map(|folder| folder.join("ignore"))
        });
        let excludes = match excludes {
            Some(path) => read_if_there(&path)?,
            None => None,
        };
        let exclude = read_if_there(&self.repository.git.commondir().join("info").join("exclude"))?;
        let letters = match self.repository.flag("core.ignoreCase") {
            Some(true) => Letters::Folded,
            _ => Letters::Distinct,
        };
        Ok(IgnoreRules::to_collect(
            excludes.as_deref(),
            exclude.as_deref(),
            letters,
        ))
    }

    /// The HEAD of a submodule; `None` if it is not checked out.
    fn commit_of_submodule(&self, path: &RepoPath) -> Option<ObjectId> {
        self.repository
            .head_of_submodule(&self.repository.top().join(path.as_path()))
    }
}

/// How much one snapshot may store.
struct Budget {
    files: u64,
    size: u64,
    most: u64,
}

impl Budget {
    fn take(&mut self, folder: &std::path::Path, blobs: &[Blob]) -> Result<(), CheckpointError> {
        let size: u64 = blobs.iter().map(|blob| blob.bytes.len() as u64).sum();
        self.files += blobs.len() as u64;
        self.size += size;
        if self.size > self.most {
            return Err(CheckpointError::OverBudget {
                files: self.files,
                size: self.size,
            });
        }
        // Space for the objects, and the same again for a restore.
        let room = rustix::fs::statvfs(folder)
            .map_err(|err| CheckpointError::io("look at", folder)(err.into()))?;
        let available = room.f_bavail.saturating_mul(room.f_frsize);
        if available < size.saturating_mul(2) {
            return Err(CheckpointError::DiskFull {
                available,
                needed: size,
            });
        }
        Ok(())
    }
}
