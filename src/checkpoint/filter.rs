//! Converts paths with a filter or an encoding by the `git` program.
//!
//! A [`Checkpointer`] records in [`StoredForms`] what git stores for which bytes. If the user's
//! index confirms a file, the result is the index entry and nothing runs, as with git. Other files
//! are converted by git in a private folder ([`super::git_cli::filter`]) and copied to piton's
//! store. The program of a filter comes from git's settings; after a step it runs only if the
//! settings are those from before the step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use git2::Odb;
use tempfile::TempDir;

use super::attributes::{self, Conversion, Filtering};
use super::checkpointer::Checkpointer;
use super::delta::{Change, Delta};
use super::error::CheckpointError;
use super::git_cli::filter::{Converted, FilterPlace, printed_id};
use super::index::{Index, IndexEntry};
use super::object::{Entry, ObjectFormat, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::repository::Repository;
use super::scratch;
use super::snapshot::Snapshot;
use super::staging::IndexEdits;
use super::stat::Stat;
use super::tree;

/// The number of snapshots for which confirmations by the index are remembered.
const SNAPSHOTS: usize = 4;

/// What git stores for bytes on disk, as far as known since the last snapshot.
#[derive(Debug, Default)]
pub(super) struct StoredForms {
    forms: BTreeMap<(RepoPath, ObjectId), ObjectId>,
    /// Merged contents, already in the form that git stores.
    merged: BTreeSet<(RepoPath, ObjectId)>,
    /// Attributes files in the index whose removal will be committed: they do not apply.
    removed: BTreeSet<RepoPath>,
    /// Messages of git and filters that did not fail.
    warnings: Vec<String>,
}

/// For each file that the index confirmed at a snapshot: the bytes on disk, and what git stored for
/// them.
pub(super) type Vouched = BTreeMap<RepoPath, (ObjectId, ObjectId)>;

/// The settings that define filters.
const FILTERS: &str = r"^filter\.";

/// Settings of git that name programs.
pub(super) type FilterSettings = BTreeMap<String, Vec<String>>;

/// What is remembered about conversions between snapshots.
#[derive(Debug, Default)]
pub(super) struct FilterMemory {
    stored: std::cell::RefCell<StoredForms>,
    /// By the trees of the last snapshots.
    vouched: VecDeque<(ObjectId, Vouched)>,
    /// What git stores for large files of the current scan.
    large: std::cell::RefCell<Vec<(RepoPath, ObjectId, ObjectId)>>,
    /// Tracked files with the bytes of the index whose stat fields have changed.
    touched: BTreeSet<RepoPath>,
    /// The settings before the first step of the run.
    expected: Option<FilterSettings>,
    /// The files that the steps of the run changed; a filter program may be among them.
    changed: std::cell::RefCell<BTreeSet<RepoPath>>,
}

/// A file to convert.
struct ToClean<'f> {
    path: &'f RepoPath,
    raw: ObjectId,
    filtering: Filtering,
}

impl FilterMemory {
    /// Forgets conversions by the attributes of the last snapshot.
    pub(super) fn renew(&mut self, tree: ObjectId, vouched: Vouched, touched: BTreeSet<RepoPath>) {
        let mut forms = forms_of(&vouched);
        forms.extend(
            self.large
                .borrow_mut()
                .drain(..)
                .map(|(path, raw, stored)| ((path, raw), stored)),
        );
        *self.stored.borrow_mut() = StoredForms {
            forms,
            ..StoredForms::default()
        };
        self.vouched.push_back((tree, vouched));
        while self.vouched.len() > SNAPSHOTS {
            self.vouched.pop_front();
        }
        self.touched = touched;
    }

    /// What git stores for bytes, if known.
    pub(super) fn find(&self, path: &RepoPath, raw: ObjectId) -> Option<ObjectId> {
        let (stored, key) = (self.stored.borrow(), (path.clone(), raw));
        if stored.merged.contains(&key) {
            Some(raw)
        } else {
            stored.forms.get(&key).copied()
        }
    }

    /// Records a merged content, which no filter must convert again.
    pub(super) fn note_merged(&self, path: &RepoPath, merged: ObjectId) {
        self.stored
            .borrow_mut()
            .merged
            .insert((path.clone(), merged));
    }

    /// Records the changes of a step: it may have changed the program of a filter.
    pub(super) fn note_changed(&self, delta: &Delta) {
        if self.expected.is_some() {
            let paths = delta.changes.iter().map(|change| change.path.clone());
            self.changed.borrow_mut().extend(paths);
        }
    }

    /// Ignores attributes files whose removal will be committed.
    pub(super) fn expect_removed(&self, removed: BTreeSet<RepoPath>) {
        let mut stored = self.stored.borrow_mut();
        if stored.removed != removed {
            stored.removed = removed;
            stored.forms = self
                .vouched
                .back()
                .map(|(_, vouched)| forms_of(vouched))
                .unwrap_or_default();
        }
    }

    /// Forgets what git stored for bytes: they have to be converted again.
    fn forget(&self, path: &RepoPath, raw: ObjectId) {
        self.stored.borrow_mut().forms.remove(&(path.clone(), raw));
    }

    /// Records what git stores for bytes.
    pub(super) fn note(&self, path: &RepoPath, raw: ObjectId, stored: ObjectId) {
        self.stored
            .borrow_mut()
            .forms
            .insert((path.clone(), raw), stored);
    }

    /// The bytes on disk for which git stored something else, if known.
    pub(super) fn raw_of(&self, path: &RepoPath, stored: ObjectId) -> Option<ObjectId> {
        let forms = self.stored.borrow();
        let all = forms
            .forms
            .range((path.clone(), ObjectId::zero(stored.format()))..)
            .take_while(|((other, _), _)| other == path);
        let noted = all
            .filter(|(_, form)| **form == stored)
            .map(|((_, raw), _)| *raw)
            .next();
        let vouched = || {
            self.vouched
                .iter()
                .rev()
                .find_map(|(_, vouched)| vouched.get(path))
        };
        noted.or_else(|| {
            vouched()
                .filter(|(_, form)| *form == stored)
                .map(|(raw, _)| *raw)
        })
    }

    /// Records what git stores for a large file, during a scan.
    pub(super) fn note_large(&self, path: &RepoPath, raw: ObjectId, stored: ObjectId) {
        self.large.borrow_mut().push((path.clone(), raw, stored));
    }

    /// Messages of git and filters during successful conversions.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.stored.borrow().warnings.clone()
    }

    /// The files that the steps of the run changed and that these settings name.
    pub(super) fn changed_files(&self, settings: &FilterSettings) -> impl Iterator<Item = String> {
        let changed = self.changed.borrow();
        let is_named = |path: &&RepoPath| {
            let mut commands = settings.values().flatten();
            commands.any(|command| names_file(command, path))
        };
        let named: Vec<String> = changed
            .iter()
            .filter(is_named)
            .map(ToString::to_string)
            .collect();
        named.into_iter()
    }

    /// What git stored for the changed files before a step, if it differs from the bytes on disk.
    pub(super) fn stored_before(
        &self,
        before: &Snapshot,
        changes: &[Change],
    ) -> BTreeMap<RepoPath, ObjectId> {
        let Some((_, vouched)) = self
            .vouched
            .iter()
            .rev()
            .find(|(tree, _)| *tree == before.tree)
        else {
            return BTreeMap::new();
        };
        let known = changes.iter().filter_map(|change| {
            let (raw, stored) = vouched.get(&change.path)?;
            (change.before.map(|entry| entry.id) == Some(*raw))
                .then(|| (change.path.clone(), *stored))
        });
        known.collect()
    }

    fn warn(&self, said: &str) {
        let mut stored = self.stored.borrow_mut();
        let warning = format!("git said while it converted files: {said}");
        if !said.is_empty() && !stored.warnings.contains(&warning) {
            stored.warnings.push(warning);
        }
    }
}

impl Checkpointer {
    /// From now on, filters run only if git's settings still name the programs from before the first
    /// step of the run: a filter that one step changed must not run after the next step.
    pub fn fix_filters(&mut self) {
        let repository = &self.repository;
        let expected = &mut self.filters.expected;
        expected.get_or_insert_with(|| settings(repository, FILTERS));
    }

    /// How a path is converted other than by libgit2.
    pub(super) fn filtering(&self, path: &RepoPath) -> Result<Option<Filtering>, CheckpointError> {
        let stored = self.filters.stored.borrow();
        let reaches = |file: &RepoPath| file.parent().is_top() || path.is_inside(&file.parent());
        match self.conversion {
            Conversion::None => Ok(None),
            Conversion::ByGit => Ok(Some(Filtering::Unclear)),
            _ if stored.removed.iter().any(reaches) => Ok(Some(Filtering::Unclear)),
            Conversion::Filtered => attributes::find_filtering(&self.repository, path),
            Conversion::Possible => Ok(None),
        }
    }

    /// The content that git would store for the bytes of a file.
    pub(super) fn clean(
        &self,
        objects: &Objects<'_>,
        path: &RepoPath,
        raw: Option<Entry>,
    ) -> Result<Option<Entry>, CheckpointError> {
        let Some(entry) = raw.filter(|entry| entry.mode.is_file()) else {
            return Ok(raw);
        };
        // The index may confirm a file that git converted by attributes that are gone since.
        if self.conversion != Conversion::None && self.filters.find(path, entry.id).is_none() {
            if let Some(filtering) = self.filtering(path)? {
                self.clean_by_git(
                    objects,
                    &[ToClean {
                        path,
                        raw: entry.id,
                        filtering,
                    }],
                )?;
            } else {
                let cleaned = attributes::clean(
                    &self.repository,
                    objects,
                    &self.index,
                    self.conversion,
                    path,
                    raw,
                )?;
                self.filters.note(
                    path,
                    entry.id,
                    cleaned.map_or(entry.id, |cleaned| cleaned.id),
                );
            }
        }
        let stored = self.filters.find(path, entry.id).unwrap_or(entry.id);
        Ok(Some(Entry {
            mode: entry.mode,
            id: stored,
        }))
    }

    /// Converts many files with one process; afterwards [`Self::clean`] knows the results.
    pub(super) fn clean_together<'f>(
        &self,
        objects: &Objects<'_>,
        files: impl IntoIterator<Item = (&'f RepoPath, Option<Entry>)>,
    ) -> Result<(), CheckpointError> {
        if self.conversion < Conversion::Filtered && self.filters.stored.borrow().removed.is_empty()
        {
            return Ok(());
        }
        let mut wanted = Vec::new();
        for (path, raw) in files {
            let Some(entry) = raw.filter(|entry| entry.mode.is_file()) else {
                continue;
            };
            let is_known = self.filters.find(path, entry.id).is_some()
                || self
                    .returning
                    .get(path)
                    .is_some_and(|stored| stored.contains(&entry.id))
                || self.is_overlooked(path);
            if !is_known && let Some(filtering) = self.filtering(path)? {
                wanted.push(ToClean {
                    path,
                    raw: entry.id,
                    filtering,
                });
            }
        }
        self.clean_by_git(objects, &wanted)
    }

    /// As [`Self::clean_together`], for files of a tree.
    pub(super) fn clean_together_in<'f>(
        &self,
        objects: &Objects<'_>,
        tree: ObjectId,
        paths: impl Iterator<Item = &'f RepoPath>,
    ) -> Result<(), CheckpointError> {
        if self.conversion < Conversion::Filtered {
            return Ok(());
        }
        let mut files = Vec::new();
        for path in paths {
            files.push((path, tree::find(objects, tree, path)?));
        }
        self.clean_together(objects, files)
    }

    /// What git stored for a file before a step that changes attributes: uses the attributes of a
    /// commit.
    pub(super) fn clean_as_of(
        &self,
        objects: &Objects<'_>,
        tree: ObjectId,
        path: &RepoPath,
        raw: Option<Entry>,
    ) -> Result<Option<Entry>, CheckpointError> {
        let Some(entry) = raw.filter(|entry| entry.mode.is_file()) else {
            return Ok(raw);
        };
        self.require_known_filters()?;
        let folder = private_folder(&self.repository)?;
        let attributes = tree.to_string();
        let place = self.place_in(&folder, Some(&attributes));
        let filtering = Filtering::Unclear;
        let id = self.clean_content(
            objects,
            &place,
            &ToClean {
                path,
                raw: entry.id,
                filtering,
            },
        )?;
        import(objects, &made_in(&place, objects.format())?, id)?;
        Ok(Some(Entry {
            mode: entry.mode,
            id,
        }))
    }

    /// Deleted attributes files among these changes that the index still has.
    pub(super) fn removed_attributes<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c RepoPath>,
    ) -> Result<BTreeSet<RepoPath>, CheckpointError> {
        let mut removed = BTreeSet::new();
        for path in changes
            .into_iter()
            .filter(|path| attributes::is_attributes_file(path.as_bytes()))
        {
            if self.index.entry_at(path).is_some() && self.work_tree.state(path)?.is_none() {
                removed.insert(path.clone());
            }
        }
        Ok(removed)
    }

    /// A delta including unchanged tracked files that `git add` would read again and store by the new attributes. `git lfs
    /// track` touches such files. Git also reads files that were written in the second of their index.
    pub(super) fn with_converted<'d>(
        &self,
        objects: &Objects<'_>,
        delta: &'d Delta,
        head_tree: ObjectId,
    ) -> Result<std::borrow::Cow<'d, Delta>, CheckpointError> {
        if self.conversion < Conversion::Filtered || !delta.changes_attributes() {
            return Ok(std::borrow::Cow::Borrowed(delta));
        }
        let mut all = delta.clone();
        let known: BTreeSet<&RepoPath> = delta.changes.iter().map(|change| &change.path).collect();
        for (path, raw) in self.read_again() {
            let staged = self.index.entry_at(&path);
            let Some(staged) = staged.filter(|entry| !entry.is_overlooked()) else {
                continue;
            };
            let entry = Entry {
                mode: staged.mode,
                id: staged.id,
            };
            let may_differ = raw != staged.id || self.filtering(&path)?.is_some();
            if !known.contains(&path)
                && may_differ
                && tree::find(objects, head_tree, &path)? == Some(entry)
            {
                let on_disk = Some(Entry { id: raw, ..entry });
                // The index does not prove it: it may have changes of the user.
                if self.unproved.contains(&path)
                    && self.clean_as_of(objects, head_tree, &path, on_disk)? != Some(entry)
                {
                    continue;
                }
                all.stored_before.insert(path.clone(), staged.id);
                all.changes.push(Change {
                    path,
                    before: on_disk,
                    after: on_disk,
                    insertions: 0,
                    deletions: 0,
                });
            }
        }
        all.changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(std::borrow::Cow::Owned(all))
    }

    /// The tracked files that git does not trust its index about, with the bytes on disk.
    fn read_again(&self) -> BTreeMap<RepoPath, ObjectId> {
        let mut files = BTreeMap::new();
        for path in &self.filters.touched {
            let staged = self.index.entry_at(path);
            files.extend(staged.map(|entry| (path.clone(), entry.id)));
        }
        for (path, entry) in self.index.entries(0..self.index.len()) {
            if entry.mode.is_file() && self.index.is_racy_to_git(entry) {
                let path = RepoPath::from_bytes(path);
                let raw = self.cache.recorded(&path).map(|(id, _)| id);
                files.extend(raw.map(|raw| (path, raw)));
            }
        }
        files
    }

    /// Lets the unchanged files of [`Self::with_converted`] be converted by the new attributes.
    pub(super) fn convert_again(&self, delta: &Delta) {
        for change in &delta.changes {
            if let (Some(raw), true) = (change.after, change.before == change.after) {
                self.filters.forget(&change.path, raw.id);
            }
        }
    }

    /// Refuses to keep changes for a later commit that would run a filter program which the step
    /// itself changed.
    pub fn refuse_changed_filters(&self, delta: &Delta) -> Result<(), CheckpointError> {
        self.filters.note_changed(delta);
        if self.conversion < Conversion::Filtered {
            return Ok(());
        }
        for change in delta
            .changes
            .iter()
            .filter(|change| change.after.is_some_and(|entry| entry.mode.is_file()))
        {
            if self.filtering(&change.path)?.is_some() {
                return self.require_known_filters();
            }
        }
        Ok(())
    }

    /// Refuses filter programs that a step has put into git's settings, or changed in the work
    /// tree.
    fn require_known_filters(&self) -> Result<(), CheckpointError> {
        let Some(expected) = &self.filters.expected else {
            return Ok(());
        };
        let now = settings(&self.repository, FILTERS);
        let mut changed = changed_settings(expected, &now);
        changed.extend(self.filters.changed_files(&now));
        if changed.is_empty() {
            Ok(())
        } else {
            Err(CheckpointError::FilterChanged(changed))
        }
    }

    fn clean_by_git(
        &self,
        objects: &Objects<'_>,
        files: &[ToClean<'_>],
    ) -> Result<(), CheckpointError> {
        if files.is_empty() {
            return Ok(());
        }
        self.require_known_filters()?;
        let folder = private_folder(&self.repository)?;
        let place = self.place_in(&folder, None);
        let is_on_disk = |file: &&ToClean<'_>| {
            self.cache
                .recorded(file.path)
                .is_some_and(|(id, _)| id == file.raw)
        };
        let on_disk: Vec<&ToClean<'_>> = files.iter().filter(is_on_disk).collect();
        let mut stored: BTreeMap<&RepoPath, ObjectId> = BTreeMap::new();
        if !on_disk.is_empty() {
            // Without their stat fields, git converts the files instead of trusting the index.
            let unproved = |file: &&ToClean<'_>| {
                let entry = self.index.entry_at(file.path)?;
                Some((
                    file.path.clone(),
                    Some(IndexEntry {
                        stat: Stat::default(),
                        ..*entry
                    }),
                ))
            };
            let mut edits: IndexEdits = on_disk.iter().filter_map(unproved).collect();
            edits.extend(
                self.filters
                    .stored
                    .borrow()
                    .removed
                    .iter()
                    .map(|path| (path.clone(), None)),
            );
            write(&place.index, &self.index.edited(&edits).to_bytes())?;
            let paths: Vec<&RepoPath> = on_disk.iter().map(|file| file.path).collect();
            let convert = |paths: &[&RepoPath]| self.git_program().stage_files(&place, paths);
            self.one_by_one_if_failed(&place, &paths, &convert)?;
            let index = self.repository.load_index_at(&place.index)?;
            for file in &on_disk {
                let scanned = self.cache.recorded(file.path).map(|(_, stat)| stat);
                let entry = index.entry_at(file.path).filter(|entry| {
                    // Another process may have written to the file since the scan.
                    scanned.is_some_and(|stat| {
                        Stat {
                            device: stat.device,
                            ..entry.stat
                        } == stat
                    })
                });
                stored.extend(entry.map(|entry| (file.path, entry.id)));
            }
        }
        let made = made_in(&place, objects.format())?;
        for file in files {
            let id = match stored.get(file.path).copied().filter(|_| is_on_disk(&file)) {
                Some(id) => id,
                None => self.clean_content(objects, &place, file)?,
            };
            import(objects, &made, id)?;
            self.filters.note(file.path, file.raw, id);
        }
        Ok(())
    }

    /// What git stores for bytes that are no longer on disk.
    fn clean_content(
        &self,
        objects: &Objects<'_>,
        place: &FilterPlace<'_>,
        file: &ToClean<'_>,
    ) -> Result<ObjectId, CheckpointError> {
        let failed = |reason: String| self.filter_failed(file.path, &file.filtering, reason);
        match self
            .git_program()
            .store_content(place, file.path, &objects.read(file.raw)?)?
        {
            Converted::Done { stdout, said } => {
                self.filters.warn(&said);
                printed_id(&stdout)
                    .ok_or_else(|| failed("`git hash-object` did not name an object".to_owned()))
            }
            Converted::Failed(reason) => Err(failed(reason)),
        }
    }

    /// Files of a commit or tree with the content that git writes to disk.
    pub(super) fn smudged(
        &self,
        objects: &Objects<'_>,
        of: ObjectId,
        files: &BTreeMap<RepoPath, Entry>,
    ) -> Result<BTreeMap<RepoPath, ObjectId>, CheckpointError> {
        let mut contents = BTreeMap::new();
        if files.is_empty() {
            return Ok(contents);
        }
        self.require_known_filters()?;
        let folder = private_folder(&self.repository)?;
        let attributes = of.to_string();
        let place = self.place_in(&folder, Some(&attributes));
        let edits: IndexEdits = files
            .iter()
            .map(|(path, entry)| (path.clone(), Some(IndexEntry::new(*entry, Stat::default()))))
            .collect();
        write(
            &place.index,
            &Index::empty(objects.format()).edited(&edits).to_bytes(),
        )?;
        let out = folder.path().join("out");
        std::fs::create_dir(&out).map_err(CheckpointError::io("make the folder", &out))?;
        let paths: Vec<&RepoPath> = files.keys().collect();
        let convert = |paths: &[&RepoPath]| self.git_program().write_files(&place, paths, &out);
        self.one_by_one_if_failed(&place, &paths, &convert)?;
        for path in files.keys() {
            let file = out.join(path.as_path());
            let content = std::fs::read(&file).map_err(CheckpointError::io("read", &file))?;
            contents.insert(path.clone(), objects.write_blob(&content)?);
        }
        Ok(contents)
    }

    /// Converts files with one process; on failure one by one, to find the failing file.
    fn one_by_one_if_failed(
        &self,
        place: &FilterPlace<'_>,
        paths: &[&RepoPath],
        convert: &dyn Fn(&[&RepoPath]) -> Result<Converted, CheckpointError>,
    ) -> Result<(), CheckpointError> {
        match convert(paths)? {
            Converted::Done { said, .. } => {
                self.filters.warn(&said);
                return Ok(());
            }
            Converted::Failed(reason) => {
                if let [path] = paths {
                    return Err(self.filter_failed_on(path, reason)?);
                }
            }
        }
        for path in paths {
            // A killed process leaves the lock on its private index behind.
            let _ = std::fs::remove_file(place.index.with_extension("lock"));
            match convert(&[path])? {
                Converted::Done { said, .. } => self.filters.warn(&said),
                Converted::Failed(reason) => return Err(self.filter_failed_on(path, reason)?),
            }
        }
        Ok(())
    }

    fn filter_failed_on(
        &self,
        path: &RepoPath,
        reason: String,
    ) -> Result<CheckpointError, CheckpointError> {
        let filtering = attributes::find_filtering(&self.repository, path)?;
        Ok(match filtering {
            Some(filtering) => self.filter_failed(path, &filtering, reason),
            None => CheckpointError::GitProgram {
                doing: "checkout-index",
                reason,
            },
        })
    }

    fn filter_failed(
        &self,
        path: &RepoPath,
        filtering: &Filtering,
        reason: String,
    ) -> CheckpointError {
        let missing = match filtering {
            Filtering::Filter(name) => self.missing_program(name),
            Filtering::Encoding(_) | Filtering::Unclear => None,
        };
        CheckpointError::FilterFailed {
            path: path.clone(),
            filter: filtering.to_string(),
            reason,
            missing,
        }
    }

    /// The program of a filter if it is not on the search path.
    fn missing_program(&self, filter: &str) -> Option<String> {
        let command = |key: &str| self.repository.text(&format!("filter.{filter}.{key}"));
        let commands = ["process", "clean", "smudge"]
            .into_iter()
            .filter_map(command);
        let mut programs =
            commands.filter_map(|command| command.split_whitespace().next().map(str::to_owned));
        programs.find(|program| {
            !program.contains(['/', '$', '"', '\'']) && !self.git_program().has_program(program)
        })
    }

    fn place_in<'p>(&self, folder: &TempDir, attributes: Option<&'p str>) -> FilterPlace<'p> {
        FilterPlace {
            index: folder.path().join("index"),
            objects: folder.path().join("objects"),
            other_objects: vec![
                self.repository.git.commondir().join("objects"),
                self.repository.store.objects(),
            ],
            attributes,
            settings: Vec::new(),
            is_stopped: self
                .listener
                .as_ref()
                .map_or_else(|| Box::new(|| false) as Box<_>, |listen| listen()),
        }
    }
}

/// Lets git store one file from disk, without trusting the index; returns its entry.
pub(super) fn clean_in_place(
    checkpointer: &Checkpointer,
    objects: &Objects<'_>,
    path: &RepoPath,
) -> Result<Option<IndexEntry>, CheckpointError> {
    checkpointer.require_known_filters()?;
    let folder = private_folder(&checkpointer.repository)?;
    let place = checkpointer.place_in(&folder, None);
    let unproved = checkpointer.index.entry_at(path).map(|entry| IndexEntry {
        stat: Stat::default(),
        ..*entry
    });
    let edits: IndexEdits = unproved
        .map(|entry| (path.clone(), Some(entry)))
        .into_iter()
        .collect();
    write(&place.index, &checkpointer.index.edited(&edits).to_bytes())?;
    let convert = |paths: &[&RepoPath]| checkpointer.git_program().stage_files(&place, paths);
    checkpointer.one_by_one_if_failed(&place, &[path], &convert)?;
    let entry = checkpointer
        .repository
        .load_index_at(&place.index)?
        .entry_at(path)
        .copied();
    if let Some(entry) = entry {
        import(objects, &made_in(&place, entry.id.format())?, entry.id)?;
    }
    Ok(entry)
}

/// A folder in which git converts files.
pub(super) fn private_folder(repository: &Repository) -> Result<TempDir, CheckpointError> {
    let own = repository.own_folder().join("tmp");
    let folder = tempfile::Builder::new()
        .prefix(&scratch::prefix())
        .tempdir_in(&own);
    let folder = folder.map_err(CheckpointError::io("make a folder in", &own))?;
    let objects = folder.path().join("objects");
    std::fs::create_dir(&objects).map_err(CheckpointError::io("make the folder", &objects))?;
    Ok(folder)
}

fn forms_of(vouched: &Vouched) -> BTreeMap<(RepoPath, ObjectId), ObjectId> {
    vouched
        .iter()
        .map(|(path, (raw, stored))| ((path.clone(), *raw), *stored))
        .collect()
}

/// The names of the settings that differ.
pub(super) fn changed_settings(before: &FilterSettings, now: &FilterSettings) -> Vec<String> {
    let names: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    let changed = names
        .into_iter()
        .filter(|name| now.get(*name) != before.get(*name));
    changed.cloned().collect()
}

/// The settings whose names match a pattern.
pub(super) fn settings(repository: &Repository, pattern: &str) -> FilterSettings {
    let mut settings = FilterSettings::new();
    let Ok(mut entries) = repository.config.entries(Some(pattern)) else {
        return settings;
    };
    while let Some(entry) = entries.next() {
        let Ok(entry) = entry else { continue };
        let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
        let value = String::from_utf8_lossy(entry.value_bytes()).into_owned();
        settings.entry(name).or_default().push(value);
    }
    settings
}

/// Whether a command line refers to a file of the work tree.
fn names_file(command: &str, path: &RepoPath) -> bool {
    let words = command.split(|c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '|' | '&' | '(' | ')')
    });
    words
        .map(|word| word.trim_start_matches("./"))
        .any(|word| word.as_bytes() == path.as_bytes())
}

/// The objects that git wrote to its private folder.
fn made_in(place: &FilterPlace<'_>, format: ObjectFormat) -> Result<Odb<'static>, CheckpointError> {
    let opening = || CheckpointError::git("open the objects that git made");
    let odb = Odb::new_ext(format.into()).map_err(opening())?;
    if let Some(objects) = place.objects.to_str() {
        odb.add_disk_alternate(objects).map_err(opening())?;
    }
    Ok(odb)
}

/// Copies an object that git created, unless it exists.
fn import(objects: &Objects<'_>, made: &Odb<'_>, id: ObjectId) -> Result<(), CheckpointError> {
    match made.read(id.into()) {
        Ok(object) => objects
            .write_named(id, object.kind(), object.data())
            .map(|_| ()),
        Err(_) if objects.exists(id) => Ok(()),
        Err(err) => Err(CheckpointError::git("read an object that git made")(err)),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    std::fs::write(path, bytes).map_err(CheckpointError::io("write", path))
}
