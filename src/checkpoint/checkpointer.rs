//! The engine that everything else calls: snapshots, deltas, commits and roll backs of one work tree.
//!
//! A [`Checkpointer`] remembers between calls what makes the next snapshot cheap (the parsed index,
//! the stat cache) and what makes it right (the ignore rules from before the step).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use git2::ObjectType;
use jiff::Timestamp;

use super::attributes::Conversion;
use super::commit::{self, CommitPlan, LeftAlone, PreparedCommit, Side};
use super::content;
use super::delta::{self, Delta, Oversized};
use super::error::CheckpointError;
use super::filter::FilterMemory;
use super::identity::Identity;
use super::ignore::IgnoreRules;
use super::index::lock::{IndexLock, set_date};
use super::index::{Index, IndexEntry};
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::{RepoPath, listed};
use super::reference::RefHook;
use super::repository::Repository;
use super::restore::{Plan, Report};
use super::scan::StatCache;
use super::snapshot::{Head, LeftOut, LeftOutReason, PermissionKind, Snapshot};
use super::sparse::{SparseCheckout, SparseDefinition};
use super::staging::{self, OnOverlap};
use super::stat::Stat;
use super::worktree::WorkTree;
use crate::config::{HookPolicy, SecretPolicy};
use crate::failpoint::failpoint;

/// How checkpoints are made here.
#[derive(Clone, Debug)]
pub struct Options {
    /// The largest file that a snapshot holds.
    pub max_file_size: u64,
    /// How much one snapshot may have to store.
    pub max_total_size: u64,
    /// How long to wait for git's lock on the index.
    pub lock_wait: Duration,
    /// Whether the user's hooks run.
    pub hooks: HookPolicy,
    /// What happens when a commit would hold a secret.
    pub secrets: SecretPolicy,
    /// What is no secret: globs of paths, and fingerprints.
    pub secrets_allowed: Vec<String>,
    /// The variables of the process: identity, search path.
    pub environment: BTreeMap<OsString, OsString>,
}

/// Begins to listen for the wish to stop; what it returns tells whether it came.
pub type Listener = Box<dyn Fn() -> Box<dyn Fn() -> bool> + Send>;

/// Makes and undoes checkpoints in one work tree.
pub struct Checkpointer {
    pub(crate) repository: Repository,
    pub(crate) work_tree: WorkTree,
    pub(crate) options: Options,
    pub(super) index: Index,
    /// What git wants on disk, where that is not everything.
    pub(super) sparse: Option<SparseCheckout>,
    /// What decided about that before the step.
    pub(super) definition: Option<SparseDefinition>,
    /// The files that git kept off the disk at the last snapshot, and at the one before it.
    pub(super) off_disk: BTreeSet<RepoPath>,
    pub(super) off_disk_before: BTreeSet<RepoPath>,
    pub(super) cache: StatCache,
    pub(super) rules: Option<IgnoreRules>,
    pub(super) conversion: Conversion,
    /// What is known about files that git converts.
    pub(super) filters: FilterMemory,
    /// What the last scan did not find as the index has it.
    pub(super) unproved: BTreeSet<RepoPath>,
    /// Untracked files and folders that the last scan could not read.
    pub(super) unreadable: Vec<RepoPath>,
    /// The files that an undo, a redo or a restore brings back, which count although git may ignore them, and the
    /// contents that git stored for them.
    pub(super) returning: BTreeMap<RepoPath, BTreeSet<ObjectId>>,
    /// Whether hooks are left out because a step changed them.
    pub(super) hooks_distrusted: bool,
    /// What our own hooks know the commit of a step by.
    pub(super) hook_token: Option<(u32, String)>,
    /// How filters learn that they are to end.
    pub(super) listener: Option<Listener>,
}

impl Checkpointer {
    /// Gets ready to work in a repository. Nothing is written except a folder of our own.
    pub fn open(repository: Repository, options: Options) -> Result<Self, CheckpointError> {
        if options.hooks == HookPolicy::Skip {
            repository.ref_hook.set(RefHook::Skip);
        }
        let own = repository.own_folder();
        let temporary = own.join("tmp");
        std::fs::create_dir_all(&temporary).map_err(CheckpointError::io("make the folder", &temporary))?;
        let work_tree = WorkTree::open(repository.top(), &temporary, repository.fsync)?;
        let index = repository.load_index()?;
        repository.show_index_to_libgit2(&index)?;
        let sparse = SparseCheckout::load(&repository)?;
        let cache = StatCache::load(&own.join("index"));
        Ok(Self {
            repository,
            work_tree,
            options,
            index,
            sparse,
            definition: None,
            off_disk: BTreeSet::new(),
            off_disk_before: BTreeSet::new(),
            cache,
            rules: None,
            conversion: Conversion::None,
            filters: FilterMemory::default(),
            unproved: BTreeSet::new(),
            unreadable: Vec::new(),
            returning: BTreeMap::new(),
            hooks_distrusted: false,
            hook_token: None,
            listener: None,
        })
    }

    /// Lets the user stop filters that take long.
    #[must_use]
    pub fn listening(mut self, listener: Listener) -> Self {
        self.listener = Some(listener);
        self
    }

    /// The repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Refuses what would make a commit wrong or impossible, before anything is run.
    pub fn require_ready(&mut self, now: Timestamp) -> Result<(), CheckpointError> {
        self.require_undoable()?;
        self.secret_scanner()?;
        Identity::find(&self.repository, &self.options.environment, now)?;
        IndexLock::await_free(&self.repository.index_file(), self.options.lock_wait)
    }

    /// Refuses what would make a snapshot or a roll back wrong.
    pub fn require_undoable(&mut self) -> Result<(), CheckpointError> {
        self.repository.refuse_operation_in_progress()?;
        self.refresh_index()?;
        let unmerged = self.index.unmerged();
        if unmerged.is_empty() { Ok(()) } else { Err(CheckpointError::Unmerged(unmerged)) }
    }

    /// What changed from one snapshot to another.
    pub fn delta(&self, before: &Snapshot, after: &Snapshot) -> Result<Delta, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let mut delta = delta::between(&objects, before, after)?;
        let forced: BTreeSet<RepoPath> = self.forced_in(&objects, before, &delta)?.into_iter().collect();
        delta.changes.retain(|change| !forced.contains(&change.path));
        delta.not_captured.extend(forced);
        delta.not_captured.sort();
        let limit = self.options.max_file_size;
        let oversized = |left: &LeftOut| match left.reason {
            LeftOutReason::TooLarge { size, .. } if delta.not_captured.binary_search(&left.path).is_ok() => {
                Some(Oversized { path: left.path.clone(), size, limit })
            }
            _ => None,
        };
        delta.too_large = after.left_out.iter().filter_map(oversized).collect();
        delta.stored_before = self.filters.stored_before(before, &delta.changes);
        // Both sides, so that the delta can be led back whatever git prunes.
        content::keep_difference(&objects, before, after)?;
        objects.stage()?;
        Ok(delta)
    }

    /// Works out the commit of a delta on top of where HEAD is.
    pub fn plan_commit(&self, before: &Head, delta: &Delta) -> Result<CommitPlan, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        objects.gather();
        let ignored: BTreeSet<RepoPath> = self.newly_ignored(delta)?.into_iter().collect();
        let excluded = |path: &RepoPath| ignored.contains(path) || self.is_overlooked(path);
        let base_tree = self.repository.tree_of(before.commit)?;
        let delta = &*self.with_converted(&objects, delta, base_tree)?;
        self.filters.note_changed(delta);
        self.filters.expect_removed(self.removed_attributes(delta.changes.iter().map(|change| &change.path))?);
        let committed = delta.changes.iter().filter(|change| !excluded(&change.path));
        self.clean_together(&objects, committed.map(|change| (&change.path, change.after)))?;
        let changes_attributes = delta.changes_attributes();
        let stored = |path: &RepoPath, side: Side, raw: Option<Entry>, known: &[Option<Entry>]| match side {
            // The step itself got the file on disk, by widening the sparse checkout: nothing of it was the user's.
            _ if raw.is_none() && self.off_disk_before.contains(path) => Ok(known.first().copied().flatten()),
            // As `git add`: a changed file is stored as its filter makes it, whatever was stored before.
            Side::After if self.filtering(path)?.is_some() => self.stored_form(&objects, path, raw, &[]),
            Side::Before if changes_attributes && !is_known(&objects, raw, known) => {
                self.clean_as_of(&objects, base_tree, path, raw)
            }
            Side::Before | Side::After => self.stored_form(&objects, path, raw, known),
        };
        let mut plan = commit::plan(&self.repository, &objects, before, delta, &excluded, &stored)?;
        plan.warnings = self.filters.warnings();
        if !self.unreadable.is_empty() {
            plan.warnings.push(format!("left out, because it cannot be read: {}", listed(&self.unreadable)));
        }
        plan.left_alone = self.left_alone(delta);
        let head_tree = self.repository.tree_of(plan.head.commit)?;
        content::keep_changes(&objects, delta, head_tree, plan.tree)?;
        objects.stage()?;
        Ok(plan)
    }

    /// The files of a step that git does not look at. One that only went off the disk, because the step narrowed the
    /// sparse checkout, has not changed for git.
    fn left_alone(&self, delta: &Delta) -> LeftAlone {
        let mut left = LeftAlone::default();
        for change in &delta.changes {
            let entry = self.index.entry_at(&change.path);
            let is_skipped = entry.is_some_and(|entry| entry.skip_worktree);
            if change.after.is_none() && is_skipped && change.before.map(|old| old.id) == entry.map(|entry| entry.id) {
                continue;
            }
            if self.is_outside_sparse(&change.path) {
                left.outside.push(change.path.clone());
            } else if self.is_overlooked(&change.path) {
                left.overlooked.push(change.path.clone());
            }
        }
        left
    }

    /// The user's index with the files of a commit brought up to date. Their contents are the user's then.
    fn staged_for(
        &self,
        objects: &Objects<'_>,
        index: &Index,
        plan: &CommitPlan,
        on_overlap: OnOverlap,
    ) -> Result<Index, CheckpointError> {
        let head_tree = self.repository.tree_of(plan.head.commit)?;
        let stat_of = |path: &RepoPath, entry: Entry| self.trusted_stat(plan, path, entry);
        let mut edits = staging::of_commit(objects, index, plan, head_tree, &stat_of, on_overlap)?;
        self.skip_outside(index, &mut edits)?;
        staging::publish(objects, &edits)?;
        // What the scan found unchanged in a later second than it was written in is unchanged. Into anything younger git
        // looks by itself, because the new index is dated by the scan.
        let scanned = index.is_same_file(&self.index);
        let (began, _) = self.cache.began();
        let is_vouched = |path: &[u8], entry: &IndexEntry| {
            let is_older = entry.stat.modified_seconds < began;
            if is_older { scanned && !self.unproved.contains(path) } else { began > 0 }
        };
        Ok(index.edited_vouching(&edits, &is_vouched))
    }

    /// The state of a file of a commit, if its bytes on disk are those of the entry.
    fn trusted_stat(&self, plan: &CommitPlan, path: &RepoPath, entry: Entry) -> Option<Stat> {
        let (_, after) = plan.cleaned.get(path)?;
        // The content on disk has another name where git converts it.
        let is_stored = |raw: ObjectId| raw == entry.id || self.filters.find(path, raw) == Some(entry.id);
        if *after == Some(entry) { self.cache.stat_of(path, is_stored) } else { None }
    }

    /// Where a private index with the content of the commit is written, for hooks to look at. They read it with git, so
    /// that the content has to be the user's by now.
    pub(crate) fn write_private_index(&mut self, plan: &CommitPlan) -> Result<PathBuf, CheckpointError> {
        self.refresh_index()?;
        let published = Objects::of_user(&self.repository)?;
        self.repository.publish(&published, &plan.parents, plan.tree)?;
        // The commit finds them there, and does not write them again.
        published.stage()?;
        let objects = Objects::of(&self.repository)?;
        let stat_of = |path: &RepoPath, entry: Entry| self.trusted_stat(plan, path, entry);
        let mut edits = staging::of_tree(&objects, &self.index, plan.tree, &stat_of)?;
        self.skip_outside(&self.index, &mut edits)?;
        let bytes = self.index.edited(&edits).to_bytes();
        let path = self.repository.own_folder().join("tmp").join("hook-index");
        let written = std::fs::File::create(&path).and_then(|mut file| {
            file.write_all(&bytes)?;
            set_date(&file, self.cache.began())
        });
        written.map_err(CheckpointError::io("write", &path))?;
        Ok(path)
    }

    /// Makes the commit object and puts the new index into git's lock. The branch has not moved yet.
    pub fn prepare_commit(
        &self,
        plan: &CommitPlan,
        message: &str,
        now: Timestamp,
    ) -> Result<PreparedCommit<'_>, CheckpointError> {
        let objects = Objects::of_user(&self.repository)?;
        self.repository.publish(&objects, &plan.parents, plan.tree)?;
        let commit = self.create_commit(&objects, plan, message, now)?;
        failpoint("commit-published");
        self.prepare(&objects, plan, commit, message, OnOverlap::Refuse)
    }

    /// As [`Self::prepare_commit`] for a commit that exists already: a decision that was cut off.
    pub fn prepare_existing(
        &self,
        plan: &CommitPlan,
        commit: ObjectId,
        message: &str,
    ) -> Result<PreparedCommit<'_>, CheckpointError> {
        self.prepare(&Objects::of_user(&self.repository)?, plan, commit, message, OnOverlap::KeepStaged)
    }

    /// As [`Self::prepare_commit`] for commits that exist already: the branch moves on to them.
    pub fn prepare_onto(
        &self,
        plan: &CommitPlan,
        commit: ObjectId,
        message: &str,
    ) -> Result<PreparedCommit<'_>, CheckpointError> {
        self.prepare(&Objects::of_user(&self.repository)?, plan, commit, message, OnOverlap::Refuse)
    }

    /// What `objects` has written is on disk when this returns.
    fn prepare(
        &self,
        objects: &Objects<'_>,
        plan: &CommitPlan,
        commit: ObjectId,
        message: &str,
        on_overlap: OnOverlap,
    ) -> Result<PreparedCommit<'_>, CheckpointError> {
        let lock = self.lock_index()?.dated(self.cache.began());
        // Hooks and signing take their time: meanwhile somebody may have switched the branch.
        if let Some(err) = plan.head.moved_to(&self.repository.head()?) {
            return Err(err);
        }
        // Under the lock nobody changes it any more.
        let index = self.repository.load_index()?;
        let staged = self.staged_for(objects, &index, plan, on_overlap)?;
        let summary = format!("piton: {}", message.lines().next().unwrap_or_default());
        commit::prepare(&self.repository, objects, plan, commit, &summary, lock, &staged)
    }

    /// Brings only the index up to date with a commit that the branch already has.
    pub fn finish_index(&self, plan: &CommitPlan) -> Result<(), CheckpointError> {
        let objects = Objects::of_user(&self.repository)?;
        let lock = self.lock_index()?.dated(self.cache.began());
        let index = self.repository.load_index()?;
        let staged = self.staged_for(&objects, &index, plan, OnOverlap::KeepStaged)?;
        objects.stage()?;
        lock.write(&staged.to_bytes())?.commit()
    }

    /// Puts back what a step did, except what somebody else has changed since.
    pub fn roll_back(&self, before: &Snapshot, delta: &Delta) -> Result<Report, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let plan = Plan::inverse(&objects, before, delta)?;
        self.apply(&plan, before, delta)
    }

    /// Carries out a plan that leads back to `before`, index included.
    pub fn apply(&self, plan: &Plan, before: &Snapshot, delta: &Delta) -> Result<Report, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let bits = |folder: &RepoPath| before.permissions.of(folder, PermissionKind::Folder);
        let mut report = plan.apply(&objects, &self.work_tree, self.disk_kinds(), bits)?;
        if delta.changes_index() || self.clears_outside(plan) || self.has_new_definition()? {
            let lock = self.lock_index()?;
            let index = self.repository.load_index()?;
            let objects = Objects::of_user(&self.repository)?;
            let (mut edits, kept) = staging::of_roll_back(&objects, &index, before, delta)?;
            self.skip_outside(&index, &mut edits)?;
            // What was staged may have been pruned since.
            staging::publish(&objects, &edits)?;
            objects.stage()?;
            self.skip_cleared(&index, plan, &mut edits)?;
            for (path, edit) in self.put_definition_back(&index)? {
                edits.entry(path).or_insert(edit);
            }
            lock.write(&index.edited(&edits).to_bytes())?.commit()?;
            report.kept.extend(kept);
        }
        Ok(report)
    }

    pub(super) fn lock_index(&self) -> Result<IndexLock, CheckpointError> {
        let (index, own) = (self.repository.index_file(), self.repository.own_folder());
        IndexLock::acquire(&index, &own, self.options.lock_wait, &self.repository.disk)
    }

    fn create_commit(
        &self,
        objects: &Objects<'_>,
        plan: &CommitPlan,
        message: &str,
        now: Timestamp,
    ) -> Result<ObjectId, CheckpointError> {
        let identity = Identity::find(&self.repository, &self.options.environment, now)?;
        let doing = "make the commit";
        if self.repository.flag("commit.gpgsign") == Some(true) {
            let commit = self.create_signed_commit(plan, message, &identity)?;
            objects.adopt(commit);
            return Ok(commit);
        }
        let git = &self.repository.git;
        let tree = git.find_tree(plan.tree.into()).map_err(CheckpointError::git(doing))?;
        let parents = plan.parents.iter().map(|id| git.find_commit((*id).into()));
        let parents: Vec<git2::Commit<'_>> = parents.collect::<Result<_, _>>().map_err(CheckpointError::git(doing))?;
        let parents: Vec<&git2::Commit<'_>> = parents.iter().collect();
        let text = git
            .commit_create_buffer(&identity.author, &identity.committer, message, &tree, &parents)
            .map_err(CheckpointError::git(doing))?;
        objects.write(ObjectType::Commit, &text)
    }

    /// Reads the user's index again if somebody has replaced it.
    pub(super) fn refresh_index(&mut self) -> Result<(), CheckpointError> {
        let path = self.repository.index_file();
        if !self.index.is_current(&path)? {
            self.index = self.repository.load_index()?;
            self.repository.show_index_to_libgit2(&self.index)?;
        }
        Ok(())
    }
}

/// Whether git has stored a content as it is on disk.
fn is_known(objects: &Objects<'_>, raw: Option<Entry>, known: &[Option<Entry>]) -> bool {
    let Some(raw) = raw.filter(|raw| raw.mode.is_file()) else { return true };
    known.iter().flatten().any(|known| known.mode.is_file() && objects.shown(known.id) == raw.id)
}
