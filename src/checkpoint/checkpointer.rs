//! The engine behind all checkpoint operations: snapshots, deltas, commits and roll backs of one
//! work tree.
//!
//! A [`Checkpointer`] keeps between calls what makes the next snapshot cheap (the parsed index, the
//! stat cache) and what makes it right (the ignore rules from before the step).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use git2::ObjectType;
use jiff::Timestamp;

use super::attributes::Conversion;
use super::commit::{self, CommitPlan, LeftAlone, PreparedCommit, StepSide};
use super::content;
use super::delta::{self, Delta, Oversized};
use super::error::CheckpointError;
use super::filter::{FilterMemory, FilterSettings};
use super::identity::Identity;
use super::ignore::IgnoreRules;
use super::index::lock::{self, IndexLock, set_date};
use super::index::{Index, IndexEntry};
use super::no_follow::WorkTree;
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::{RepoPath, listed};
use super::reference::RefHook;
use super::repository::Repository;
use super::restore::{RestorePlan, RestoreReport};
use super::scan::StatCache;
use super::snapshot::{Head, LeftOut, LeftOutReason, PermissionKind, Snapshot};
use super::sparse::{SparseCheckout, SparseDefinition};
use super::staging::{self, OnOverlap};
use super::stat::Stat;
use crate::config::{HookPolicy, SecretPolicy};
use crate::disk::create_private_folder;
use crate::failpoint::failpoint;

/// The settings of checkpoints.
#[derive(Clone, Debug)]
pub struct CheckpointOptions {
    /// The largest file in a snapshot.
    pub max_file_size: u64,
    /// The maximum size of new content in one snapshot.
    pub max_total_size: u64,
    /// How long to wait for git's lock on the index.
    pub lock_wait: Duration,
    /// Whether the user's hooks run.
    pub hooks: HookPolicy,
    /// What to do if a commit would contain a secret.
    pub secrets: SecretPolicy,
    /// Exceptions for secrets: globs of paths, and fingerprints.
    pub secrets_allowed: Vec<String>,
    /// The environment: identity, search path.
    pub environment: BTreeMap<OsString, OsString>,
}

/// Starts to listen for an interrupt; the returned function tells whether there was one.
pub type Listener = Box<dyn Fn() -> Box<dyn Fn() -> bool> + Send>;

/// Makes and undoes checkpoints in one work tree.
pub struct Checkpointer {
    pub(crate) repository: Repository,
    pub(crate) work_tree: WorkTree,
    pub(crate) options: CheckpointOptions,
    pub(super) index: Index,
    /// What git wants on disk, if that is not everything.
    pub(super) sparse: Option<SparseCheckout>,
    /// The sparse definition before the step.
    pub(super) definition: Option<SparseDefinition>,
    /// The files that git kept off the disk at the last snapshot, and at the one before it.
    pub(super) off_disk: BTreeSet<RepoPath>,
    pub(super) off_disk_before: BTreeSet<RepoPath>,
    pub(super) cache: StatCache,
    /// When the scan began whose cache is on disk.
    pub(super) stored_cache: (u32, u32),
    pub(super) rules: Option<IgnoreRules>,
    pub(super) conversion: Conversion,
    /// Known results of git's conversions.
    pub(super) filters: FilterMemory,
    /// How git signed commits before the first step of the run.
    pub(super) signing: Option<FilterSettings>,
    /// Files that did not match the index in the last scan.
    pub(super) unproved: BTreeSet<RepoPath>,
    /// Untracked files and folders that the last scan could not read.
    pub(super) unreadable: Vec<RepoPath>,
    /// The files that an undo, a redo or a restore brings back, which count even if git ignores
    /// them, with the contents that git stored for them.
    pub(super) returning: BTreeMap<RepoPath, BTreeSet<ObjectId>>,
    /// Whether hooks are skipped because a step changed them.
    pub(super) hooks_distrusted: bool,
    /// The token by which piton's own hooks recognize the commit of a step.
    pub(super) hook_token: Option<(u32, String)>,
    /// How to interrupt filters.
    pub(super) listener: Option<Listener>,
}

impl Checkpointer {
    /// Prepares to work in a repository. Writes nothing except piton's own folder.
    pub fn open(
        repository: Repository,
        options: CheckpointOptions,
    ) -> Result<Self, CheckpointError> {
        if options.hooks == HookPolicy::Skip {
            repository.ref_hook.set(RefHook::Skip);
        }
        let own = repository.own_folder();
        let temporary = own.join("tmp");
        create_private_folder(&temporary)
            .map_err(CheckpointError::io("make the folder", &temporary))?;
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
            stored_cache: cache.began(),
            cache,
            rules: None,
            conversion: Conversion::None,
            filters: FilterMemory::default(),
            signing: None,
            unproved: BTreeSet::new(),
            unreadable: Vec::new(),
            returning: BTreeMap::new(),
            hooks_distrusted: false,
            hook_token: None,
            listener: None,
        })
    }

    /// Lets the user interrupt slow filters.
    #[must_use]
    pub fn listening(mut self, listener: Listener) -> Self {
        self.listener = Some(listener);
        self
    }

    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Refuses states that would make a commit wrong or impossible, before anything runs.
    pub fn require_ready(&mut self, now: Timestamp) -> Result<(), CheckpointError> {
        self.require_undoable()?;
        self.secret_scanner()?;
        Identity::find(&self.repository, &self.options.environment, now)?;
        IndexLock::await_free(&self.repository.index_file(), self.options.lock_wait)
    }

    /// Refuses states that would make a snapshot or a roll back wrong.
    pub fn require_undoable(&mut self) -> Result<(), CheckpointError> {
        self.repository.refuse_operation_in_progress()?;
        lock::require_links(&self.repository.own_folder())?;
        self.refresh_index()?;
        let unmerged = self.index.unmerged();
        if unmerged.is_empty() {
            Ok(())
        } else {
            Err(CheckpointError::Unmerged(unmerged))
        }
    }

    /// The changes between two snapshots.
    pub fn delta(&self, before: &Snapshot, after: &Snapshot) -> Result<Delta, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let mut delta = delta::between(&objects, before, after)?;
        let forced: BTreeSet<RepoPath> = self
            .forced_in(&objects, before, &delta)?
            .into_iter()
            .collect();
        delta
            .changes
            .retain(|change| !forced.contains(&change.path));
        delta.not_captured.extend(forced);
        delta.not_captured.sort();
        let limit = self.options.max_file_size;
        let oversized = |left: &LeftOut| match left.reason {
            LeftOutReason::TooLarge { size, .. }
                if delta.not_captured.binary_search(&left.path).is_ok() =>
            {
                Some(Oversized {
                    path: left.path.clone(),
                    size,
                    limit,
                })
            }
            _ => None,
        };
        delta.too_large = after.left_out.iter().filter_map(oversized).collect();
        delta.stored_before = self.filters.stored_before(before, &delta.changes);
        // Keep both sides, so that the delta can be reverted even if git prunes objects.
        content::keep_difference(&objects, before, after)?;
        objects.stage()?;
        Ok(delta)
    }

    /// Plans the commit of a delta on top of HEAD.
    pub fn plan_commit(&self, before: &Head, delta: &Delta) -> Result<CommitPlan, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        objects.gather();
        let ignored: BTreeSet<RepoPath> = self.newly_ignored(delta)?.into_iter().collect();
        let excluded = |path: &RepoPath| {
            ignored.contains(path) || delta.not_captured.contains(path) || self.is_overlooked(path)
        };
        let base_tree = self.repository.tree_of(before.commit)?;
        let delta = &*self.with_converted(&objects, delta, base_tree)?;
        self.filters.note_changed(delta);
        self.filters.expect_removed(
            self.removed_attributes(delta.changes.iter().map(|change| &change.path))?,
        );
        self.convert_again(delta);
        let committed = delta
            .changes
            .iter()
            .filter(|change| !excluded(&change.path));
        self.clean_together(
            &objects,
            committed.map(|change| (&change.path, change.after)),
        )?;
        let changes_attributes = delta.changes_attributes();
        let stored = |path: &RepoPath,
                      side: StepSide,
                      raw: Option<Entry>,
                      known: &[Option<Entry>]| match side {
            // The step itself wrote the file to disk, by widening the sparse checkout: the user
            // had no changes in it.
            _ if raw.is_none() && self.off_disk_before.contains(path) => {
                Ok(known.first().copied().flatten())
            }
            // Like `git add`: store a changed file as its filter converts it, regardless of
            // what was stored before.
            StepSide::After if self.filtering(path)?.is_some() => {
                self.stored_form(&objects, path, raw, &[])
            }
            StepSide::Before if changes_attributes && !is_known(&objects, raw, known) => {
                self.clean_as_of(&objects, base_tree, path, raw)
            }
            StepSide::Before | StepSide::After => self.stored_form(&objects, path, raw, known),
        };
        let mut plan = commit::plan(
            &self.repository,
            &objects,
            before,
            delta,
            &excluded,
            &stored,
        )?;
        plan.warnings = self.filters.warnings();
        if !self.unreadable.is_empty() {
            plan.warnings.push(format!(
                "left out, because it cannot be read: {}",
                listed(&self.unreadable)
            ));
        }
        plan.left_alone = self.left_alone(delta);
        let head_tree = self.repository.tree_of(plan.head.commit)?;
        content::keep_changes(&objects, delta, head_tree, plan.tree)?;
        objects.stage()?;
        Ok(plan)
    }

    /// The changed files that git overlooks. A file that only left the disk, because the step
    /// narrowed the sparse checkout, has not changed for git.
    fn left_alone(&self, delta: &Delta) -> LeftAlone {
        let mut left = LeftAlone::default();
        for change in &delta.changes {
            let entry = self.index.entry_at(&change.path);
            let is_skipped = entry.is_some_and(|entry| entry.skip_worktree);
            if change.after.is_none()
                && is_skipped
                && change.before.map(|old| old.id) == entry.map(|entry| entry.id)
            {
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

    /// The user's index with the files of a commit updated. It refers to objects in the user's
    /// database.
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
        // A file that the scan found unchanged in a later second than it was written is unchanged.
        // Git checks any younger file itself, because the new index has the time of the scan.
        let scanned = index.is_same_file(&self.index);
        let (began, _) = self.cache.began();
        let is_vouched = |path: &[u8], entry: &IndexEntry| {
            let is_older = entry.stat.modified_seconds < began;
            if is_older {
                scanned && !self.unproved.contains(path)
            } else {
                began > 0
            }
        };
        let mut staged = index.edited_vouching(&edits, &is_vouched);
        staged.fill_trees(&|tree| objects.user_has(tree).unwrap_or(false));
        Ok(staged)
    }

    /// The stat fields of a committed file, if its bytes on disk are those of the entry.
    fn trusted_stat(&self, plan: &CommitPlan, path: &RepoPath, entry: Entry) -> Option<Stat> {
        let (_, after) = plan.cleaned.get(path)?;
        // If git converts the file, the content on disk has another id.
        let is_stored =
            |raw: ObjectId| raw == entry.id || self.filters.find(path, raw) == Some(entry.id);
        if *after == Some(entry) {
            let read = self.cache.stat_of(path, is_stored);
            read.or_else(|| self.proved_stat(path, entry))
        } else {
            None
        }
    }

    /// The stat fields in the index, if the last scan found the file as the index has it.
    fn proved_stat(&self, path: &RepoPath, entry: Entry) -> Option<Stat> {
        let staged = self.index.entry_at(path)?;
        let is_same = (staged.mode, staged.id) == (entry.mode, entry.id);
        (is_same && !self.unproved.contains(path)).then_some(staged.stat)
    }

    /// Writes a private index with the content of the commit, for hooks. Hooks read it with git, so
    /// the content must be in the user's database.
    pub(crate) fn write_private_index(
        &mut self,
        plan: &CommitPlan,
    ) -> Result<PathBuf, CheckpointError> {
        self.refresh_index()?;
        let published = Objects::of_user(&self.repository)?;
        self.repository
            .publish(&published, &plan.parents, plan.tree)?;
        // Stage them here, so that the commit does not write them again.
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

    /// Creates the commit object and writes the new index to git's lock file. The branch has not
    /// moved yet.
    pub fn prepare_commit(
        &self,
        plan: &CommitPlan,
        message: &str,
        now: Timestamp,
    ) -> Result<PreparedCommit<'_>, CheckpointError> {
        let objects = Objects::of_user(&self.repository)?;
        self.repository
            .publish(&objects, &plan.parents, plan.tree)?;
        let commit = self.create_commit(&objects, plan, message, now)?;
        failpoint("commit-published");
        self.prepare(&objects, plan, commit, message, OnOverlap::Refuse)
    }

    /// As [`Self::prepare_commit`] for an existing commit: an interrupted decision.
    pub fn prepare_existing(
        &self,
        plan: &CommitPlan,
        commit: ObjectId,
        message: &str,
    ) -> Result<PreparedCommit<'_>, CheckpointError> {
        let objects = Objects::of_user(&self.repository)?;
        self.prepare(&objects, plan, commit, message, OnOverlap::KeepStaged)
    }

    /// As [`Self::prepare_commit`] for existing commits: the branch moves forward to them.
    pub fn prepare_onto(
        &self,
        plan: &CommitPlan,
        commit: ObjectId,
        message: &str,
    ) -> Result<PreparedCommit<'_>, CheckpointError> {
        let objects = Objects::of_user(&self.repository)?;
        self.prepare(&objects, plan, commit, message, OnOverlap::Refuse)
    }

    /// The objects in `objects` are on disk when this returns.
    fn prepare(
        &self,
        objects: &Objects<'_>,
        plan: &CommitPlan,
        commit: ObjectId,
        message: &str,
        on_overlap: OnOverlap,
    ) -> Result<PreparedCommit<'_>, CheckpointError> {
        let lock = self.lock_index()?.dated(self.cache.began());
        // Hooks and signing take time: the user may have switched the branch meanwhile.
        if let Some(err) = plan.head.moved_to(&self.repository.head()?) {
            return Err(err);
        }
        // Under the lock no other process changes it.
        let index = self.current_index()?;
        let staged = self.staged_for(objects, &index, plan, on_overlap)?;
        let summary = format!("piton: {}", message.lines().next().unwrap_or_default());
        commit::prepare(
            &self.repository,
            objects,
            plan,
            commit,
            &summary,
            lock,
            &staged,
        )
    }

    /// Updates only the index, for a commit that the branch already has.
    pub fn finish_index(&self, plan: &CommitPlan) -> Result<(), CheckpointError> {
        let objects = Objects::of_user(&self.repository)?;
        let lock = self.lock_index()?.dated(self.cache.began());
        let index = self.current_index()?;
        let staged = self.staged_for(&objects, &index, plan, OnOverlap::KeepStaged)?;
        objects.stage()?;
        lock.write(&staged.to_bytes())?.commit()
    }

    /// Rolls back the changes of a step, except files that another process has changed since.
    pub fn roll_back(
        &self,
        before: &Snapshot,
        delta: &Delta,
    ) -> Result<RestoreReport, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let plan = RestorePlan::inverse(&objects, before, delta)?;
        self.apply(&plan, before, delta)
    }

    /// Carries out a plan that restores `before`, including the index.
    pub fn apply(
        &self,
        plan: &RestorePlan,
        before: &Snapshot,
        delta: &Delta,
    ) -> Result<RestoreReport, CheckpointError> {
        let objects = Objects::of(&self.repository)?;
        let bits = |folder: &RepoPath| before.permissions.of(folder, PermissionKind::Folder);
        let mut report = plan.apply(&objects, &self.work_tree, self.disk_kinds(), bits)?;
        if delta.changes_index() || self.clears_outside(plan) || self.has_new_definition()? {
            let lock = self.lock_index()?;
            let index = self.current_index()?;
            let objects = Objects::of_user(&self.repository)?;
            let (mut edits, kept) = staging::of_roll_back(&objects, &index, before, delta)?;
            self.skip_outside(&index, &mut edits)?;
            // Staged content may have been pruned since.
            staging::publish(&objects, &edits)?;
            objects.stage()?;
            self.skip_cleared(&index, plan, &mut edits)?;
            for (path, edit) in self.marks_of_definition(&index, plan)? {
                edits.entry(path).or_insert(edit);
            }
            let lock = lock.dated(self.add_stats(&mut edits));
            lock.write(&index.edited(&edits).to_bytes())?.commit()?;
            self.put_definition_back()?;
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
        self.require_known_signing()?;
        if self.repository.flag("commit.gpgsign") == Some(true) {
            let commit = self.create_signed_commit(plan, message, &identity)?;
            objects.adopt(commit);
            return Ok(commit);
        }
        let git = &self.repository.git;
        let tree = git
            .find_tree(plan.tree.into())
            .map_err(CheckpointError::git(doing))?;
        let parents = plan.parents.iter().map(|id| git.find_commit((*id).into()));
        let parents: Vec<git2::Commit<'_>> = parents
            .collect::<Result<_, _>>()
            .map_err(CheckpointError::git(doing))?;
        let parents: Vec<&git2::Commit<'_>> = parents.iter().collect();
        let text = git
            .commit_create_buffer(
                &identity.author,
                &identity.committer,
                message,
                &tree,
                &parents,
            )
            .map_err(CheckpointError::git(doing))?;
        objects.write(ObjectType::Commit, &text)
    }

    /// The user's index as it is now, read again only if another process has replaced it.
    pub(super) fn current_index(&self) -> Result<Cow<'_, Index>, CheckpointError> {
        if self.index.is_current(&self.repository.index_file())? {
            Ok(Cow::Borrowed(&self.index))
        } else {
            self.repository.load_index().map(Cow::Owned)
        }
    }

    /// Reads the user's index again if another process has replaced it.
    pub(super) fn refresh_index(&mut self) -> Result<(), CheckpointError> {
        let path = self.repository.index_file();
        if !self.index.is_current(&path)? {
            self.index = self.repository.load_index()?;
            self.repository.show_index_to_libgit2(&self.index)?;
        }
        Ok(())
    }
}

/// Whether git has stored the bytes on disk unchanged.
fn is_known(objects: &Objects<'_>, raw: Option<Entry>, known: &[Option<Entry>]) -> bool {
    let Some(raw) = raw.filter(|raw| raw.mode.is_file()) else {
        return true;
    };
    known
        .iter()
        .flatten()
        .any(|known| known.mode.is_file() && objects.shown(known.id) == raw.id)
}
