//! Converts files with the `git` program, in a private folder.
//!
//! Git stages files from disk, stores content that is no longer there, or writes the files of a
//! commit; what it made is copied to piton's store.

use std::collections::BTreeMap;
use std::path::Path;

use git2::Odb;
use tempfile::TempDir;

use super::ToClean;
use crate::checkpoint::attributes::{self, Filtering};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::git_cli::filter::{Converted, FilterPlace, printed_id};
use crate::checkpoint::index::{Index, IndexEntry};
use crate::checkpoint::object::{Entry, ObjectFormat, ObjectId};
use crate::checkpoint::objects::Objects;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::scratch;
use crate::checkpoint::staging::IndexEdits;
use crate::checkpoint::stat::Stat;

impl Checkpointer {
    pub(super) fn clean_by_git(
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
    pub(super) fn clean_content(
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
    pub(in crate::checkpoint) fn smudged(
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

    pub(super) fn place_in<'p>(
        &self,
        folder: &TempDir,
        attributes: Option<&'p str>,
    ) -> FilterPlace<'p> {
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
pub(in crate::checkpoint) fn clean_in_place(
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
pub(in crate::checkpoint) fn private_folder(
    repository: &Repository,
) -> Result<TempDir, CheckpointError> {
    let own = repository.own_folder().join("tmp");
    let folder = tempfile::Builder::new()
        .prefix(&scratch::prefix())
        .tempdir_in(&own);
    let folder = folder.map_err(CheckpointError::io("make a folder in", &own))?;
    let objects = folder.path().join("objects");
    std::fs::create_dir(&objects).map_err(CheckpointError::io("make the folder", &objects))?;
    Ok(folder)
}

/// The objects that git wrote to its private folder.
pub(super) fn made_in(
    place: &FilterPlace<'_>,
    format: ObjectFormat,
) -> Result<Odb<'static>, CheckpointError> {
    let opening = || CheckpointError::git("open the objects that git made");
    let odb = Odb::new_ext(format.into()).map_err(opening())?;
    if let Some(objects) = place.objects.to_str() {
        odb.add_disk_alternate(objects).map_err(opening())?;
    }
    Ok(odb)
}

/// Copies an object that git created, unless it exists.
pub(super) fn import(
    objects: &Objects<'_>,
    made: &Odb<'_>,
    id: ObjectId,
) -> Result<(), CheckpointError> {
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
