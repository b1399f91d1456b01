//! Three-way merge of one file: the changes of a step on top of concurrent changes.

use std::cell::RefCell;
use std::collections::BTreeMap;

use git2::{MergeFileInput, ObjectType, merge_file};

use super::error::CheckpointError;
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;

/// The result of merging one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merged {
    /// Both sides fit; the merged entry.
    Clean(Option<Entry>),
    /// Both sides changed the same lines, or one side is not text.
    Overlap,
}

/// Applies the change `base` → `theirs` to `ours`.
pub(crate) fn three_way(
    objects: &Objects<'_>,
    base: Option<Entry>,
    ours: Option<Entry>,
    theirs: Option<Entry>,
) -> Result<Merged, CheckpointError> {
    merge(base, ours, theirs, &|id| objects.read(id), &|merged| {
        objects.write_blob(merged)
    })
}

/// Merged texts in memory, so that further merges can use them.
#[derive(Default)]
pub(crate) struct Scratch(RefCell<BTreeMap<ObjectId, Vec<u8>>>);

/// As [`three_way`], without storing the result.
pub(crate) fn three_way_in_memory(
    objects: &Objects<'_>,
    scratch: &Scratch,
    base: Option<Entry>,
    ours: Option<Entry>,
    theirs: Option<Entry>,
) -> Result<Merged, CheckpointError> {
    let read = |id: ObjectId| match scratch.0.borrow().get(&id) {
        Some(text) => Ok(text.clone()),
        None => objects.read(id),
    };
    merge(base, ours, theirs, &read, &|merged| {
        let name = objects
            .format()
            .name(ObjectType::Blob, merged)
            .map_err(CheckpointError::git("name an object"))?;
        scratch.0.borrow_mut().insert(name, merged.to_vec());
        Ok(name)
    })
}

fn merge(
    base: Option<Entry>,
    ours: Option<Entry>,
    theirs: Option<Entry>,
    read: &dyn Fn(ObjectId) -> Result<Vec<u8>, CheckpointError>,
    named: &dyn Fn(&[u8]) -> Result<ObjectId, CheckpointError>,
) -> Result<Merged, CheckpointError> {
    if base == theirs || ours == theirs {
        return Ok(Merged::Clean(ours));
    }
    if ours == base {
        return Ok(Merged::Clean(theirs));
    }
    let (Some(base), Some(ours), Some(theirs)) = (base, ours, theirs) else {
        return Ok(Merged::Overlap);
    };
    if ![base, ours, theirs]
        .iter()
        .all(|entry| entry.mode.is_file())
    {
        return Ok(Merged::Overlap);
    }
    let mode = merge_modes(base.mode, ours.mode, theirs.mode);
    let id = if base.id == theirs.id || ours.id == theirs.id {
        ours.id
    } else if ours.id == base.id {
        theirs.id
    } else {
        let contents = [read(base.id)?, read(ours.id)?, read(theirs.id)?];
        match merge_text(&contents)? {
            Some(merged) => named(&merged)?,
            None => return Ok(Merged::Overlap),
        }
    };
    Ok(Merged::Clean(Some(Entry { mode, id })))
}

/// Merges modes. There are only two kinds of file, so if both sides changed the mode, they agree.
fn merge_modes(base: FileMode, ours: FileMode, theirs: FileMode) -> FileMode {
    if ours == base { theirs } else { ours }
}

pub(super) fn merge_text(contents: &[Vec<u8>; 3]) -> Result<Option<Vec<u8>>, CheckpointError> {
    // Like git: a NUL near the beginning makes a file binary.
    if contents
        .iter()
        .any(|content| content.iter().take(8000).any(|byte| *byte == 0))
    {
        return Ok(None);
    }
    let [base, ours, theirs] = contents;
    let inputs = [base, ours, theirs].map(|content| {
        let mut input = MergeFileInput::new();
        input.content(content);
        input
    });
    let merged = merge_file(&inputs[0], &inputs[1], &inputs[2], None)
        .map_err(CheckpointError::git("merge a file"))?;
    Ok(merged.is_automergeable().then(|| merged.content().to_vec()))
}
