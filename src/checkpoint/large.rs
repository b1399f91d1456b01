//! Files over `checkpoint.max_file_size` whose content a filter stores elsewhere, as Git LFS does.
//!
//! The private store does not copy such content. It holds a [`StandIn`] under the id of the
//! content: what git stores for the file, and the commands of the filter at that time. Reading the
//! content runs the filter again and compares the id of the result, so that a stand-in never yields
//! other bytes than those that were on disk.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::attributes::{Conversion, Filtering};
use super::checkpointer::Checkpointer;
use super::error::CheckpointError;
use super::filter::{clean_in_place, private_folder};
use super::git_cli::filter::{Converted, FilterPlace};
use super::index::{Index, IndexEntry};
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::repository::Repository;
use super::scan::Seen;
use super::stat::Stat;

/// Larger files are skipped even with a filter: a file is in memory while it is read.
const MOST: u64 = 1 << 30;
const KEYS: [&str; 4] = ["clean", "smudge", "process", "required"];

/// How to get content that is not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StandIn {
    /// The file, because a filter may receive its name.
    path: RepoPath,
    filter: String,
    /// Its settings: a later step must not choose which program runs.
    settings: BTreeMap<String, String>,
    /// What git stores for the file.
    pub(crate) stored: ObjectId,
}

impl Checkpointer {
    /// The filter that stores the content of a large file elsewhere; `None` if the file has to be
    /// skipped.
    pub(super) fn filter_of_large(
        &self,
        path: &RepoPath,
        size: u64,
    ) -> Result<Option<String>, CheckpointError> {
        if self.conversion < Conversion::Filtered || size > MOST {
            return Ok(None);
        }
        let Some(Filtering::Filter(name)) = self.filtering(path)? else {
            return Ok(None);
        };
        let settings = settings_of(&self.repository, &name);
        let has_program = settings.contains_key("process") || settings.contains_key("clean");
        // A program in the work tree may have changed when the content is read.
        let top = self.repository.top();
        let words = settings
            .values()
            .flat_map(|command| command.split(|c: char| !is_part_of_name(c)));
        let is_inside = words
            .filter(|word| !word.is_empty())
            .any(|word| top.join(word).is_file());
        Ok((has_program && !is_inside).then_some(name))
    }

    /// Keeps a stand-in for a large file, given what the index confirms; returns whether the
    /// content can be restored from it, and what git stores for it.
    pub(super) fn keep_large(
        &self,
        objects: &Objects<'_>,
        path: &RepoPath,
        filter: &str,
        seen: &Seen,
        vouched: Option<ObjectId>,
    ) -> Result<Option<ObjectId>, CheckpointError> {
        let stored = match vouched {
            Some(stored) => stored,
            None => match self.clean_large(objects, path, seen) {
                Ok(Some(stored)) => stored,
                // The file is skipped, as if it had no filter; its commit reports the cause.
                Ok(None)
                | Err(CheckpointError::FilterFailed { .. } | CheckpointError::FilterChanged(_)) => {
                    return Ok(None);
                }
                Err(err) => return Err(err),
            },
        };
        let settings = settings_of(&self.repository, filter);
        let stand_in = StandIn {
            path: path.clone(),
            filter: filter.to_owned(),
            settings,
            stored,
        };
        objects.copy(stored)?;
        // The filter has checked out or cleaned what the index confirms. Anything else has to be
        // tried.
        if vouched.is_none() && stand_in.read(&self.repository, objects, seen.id).is_err() {
            return Ok(None);
        }
        let text = serde_json::to_vec(&stand_in).unwrap_or_default();
        self.repository.store.write_stand_in(seen.id, &text)?;
        self.filters.note_large(path, seen.id, stored);
        Ok(Some(stored))
    }

    /// What git stores for a large file on disk; `None` if it changes meanwhile.
    fn clean_large(
        &self,
        objects: &Objects<'_>,
        path: &RepoPath,
        seen: &Seen,
    ) -> Result<Option<ObjectId>, CheckpointError> {
        let found = clean_in_place(self, objects, path)?;
        let same = found.filter(|entry| {
            Stat {
                device: seen.stat.device,
                ..entry.stat
            } == seen.stat
        });
        Ok(same.map(|entry| entry.id))
    }
}

impl StandIn {
    /// The content, which must have this id.
    pub(crate) fn read(
        &self,
        repository: &Repository,
        objects: &Objects<'_>,
        id: ObjectId,
    ) -> Result<Vec<u8>, CheckpointError> {
        let failed = |reason: String| CheckpointError::FilterFailed {
            path: self.path.clone(),
            filter: format!("filter={}", self.filter),
            reason,
            missing: None,
        };
        let folder = private_folder(repository)?;
        let attributes = folder.path().join("attributes");
        let line = format!("* filter={} -text -ident\n", self.filter);
        write(&attributes, line.as_bytes())?;
        let mut settings = vec![(
            "core.attributesFile".to_owned(),
            attributes.to_string_lossy().into_owned(),
        )];
        settings.extend(
            self.settings
                .iter()
                .map(|(key, value)| (format!("filter.{}.{key}", self.filter), value.clone())),
        );
        let settings = settings
            .into_iter()
            .flat_map(|(key, value)| ["-c".into(), OsString::from(format!("{key}={value}"))]);
        let no_attributes = repository.empty_tree().to_string();
        let place = FilterPlace {
            index: folder.path().join("index"),
            objects: folder.path().join("objects"),
            other_objects: vec![
                repository.git.commondir().join("objects"),
                repository.store.objects(),
            ],
            attributes: Some(&no_attributes),
            settings: settings.collect(),
            is_stopped: Box::new(|| false),
        };
        // Git must find objects that only this process can read so far.
        objects.stage()?;
        let entry = IndexEntry::new(
            Entry {
                mode: FileMode::Regular,
                id: self.stored,
            },
            Stat::default(),
        );
        let edits = BTreeMap::from([(self.path.clone(), Some(entry))]);
        write(
            &place.index,
            &Index::empty(repository.format()).edited(&edits).to_bytes(),
        )?;
        let out = folder.path().join("out");
        std::fs::create_dir(&out).map_err(CheckpointError::io("make the folder", &out))?;
        match repository
            .program()
            .write_files(&place, &[&self.path], &out)?
        {
            Converted::Done { .. } => {}
            Converted::Failed(reason) => return Err(failed(reason)),
        }
        let file = out.join(self.path.as_path());
        let content = std::fs::read(&file).map_err(CheckpointError::io("read", &file))?;
        let name = repository.format().name(git2::ObjectType::Blob, &content);
        let name = name.map_err(CheckpointError::git("name a content"))?;
        if name == id {
            Ok(content)
        } else {
            Err(failed("it returns other content than before".to_owned()))
        }
    }
}

fn settings_of(repository: &Repository, filter: &str) -> BTreeMap<String, String> {
    let value = |key: &str| {
        Some((
            key.to_owned(),
            repository.text(&format!("filter.{filter}.{key}"))?,
        ))
    };
    KEYS.into_iter().filter_map(value).collect()
}

fn is_part_of_name(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '"' | '\'' | ';' | '|' | '&' | '(' | ')')
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    std::fs::write(path, bytes).map_err(CheckpointError::io("write", path))
}
