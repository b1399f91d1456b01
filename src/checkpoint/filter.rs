//! Converts paths with a filter or an encoding by the `git` program.
//!
//! A [`Checkpointer`] records in [`StoredForms`] what git stores for which bytes. If the user's
//! index confirms a file, the result is the index entry and nothing runs, as with git. Other files
//! are converted by git in a private folder ([`super::git_cli::filter`]) and copied to piton's
//! store. The program of a filter comes from git's settings; after a step it runs only if the
//! settings are those from before the step.

mod conversion;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::attributes::{self, Conversion, Filtering};
use super::checkpointer::Checkpointer;
use super::delta::{Change, Delta};
use super::error::CheckpointError;
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::repository::Repository;
use super::snapshot::Snapshot;
use super::tree;

pub(super) use conversion::{clean_in_place, private_folder};
use conversion::{import, made_in};

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
