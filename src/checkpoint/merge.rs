//! Three-way merging of one file: what a step did, on top of what somebody else has there.

use git2::{MergeFileInput, ObjectType, Oid, merge_file};

use super::error::CheckpointError;
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;

/// What came out of merging one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merged {
    /// Both sides fit; this is to be there.
    Clean(Option<Entry>),
    /// Both sides changed the same lines, or one side is not a text.
    Overlap,
}

/// Applies the change `base` → `theirs` to `ours`.
pub(crate) fn three_way(
    objects: &Objects<'_>,
    base: Option<Entry>,
    ours: Option<Entry>,
    theirs: Option<Entry>,
) -> Result<Merged, CheckpointError> {
    merge(objects, base, ours, theirs, &|merged| objects.write_blob(merged))
}

/// As [`three_way`], to compare the result with something: nothing is stored.
pub(crate) fn three_way_name(
    objects: &Objects<'_>,
    base: Option<Entry>,
    ours: Option<Entry>,
    theirs: Option<Entry>,
) -> Result<Merged, CheckpointError> {
    merge(objects, base, ours, theirs, &|merged| {
        let name = Oid::hash_object(ObjectType::Blob, merged);
        Ok(name.map_err(CheckpointError::git("name an object"))?.into())
    })
}

fn merge(
    objects: &Objects<'_>,
    base: Option<Entry>,
    ours: Option<Entry>,
    theirs: Option<Entry>,
    named: &dyn Fn(&[u8]) -> Result<ObjectId, CheckpointError>,
) -> Result<Merged, CheckpointError> {
    if base == theirs || ours == theirs {
        return Ok(Merged::Clean(ours));
    }
    if ours == base {
        return Ok(Merged::Clean(theirs));
    }
    let (Some(base), Some(ours), Some(theirs)) = (base, ours, theirs) else { return Ok(Merged::Overlap) };
    if ![base, ours, theirs].iter().all(|entry| entry.mode.is_file()) {
        return Ok(Merged::Overlap);
    }
    let mode = merge_modes(base.mode, ours.mode, theirs.mode);
    let id = if base.id == theirs.id || ours.id == theirs.id {
        ours.id
    } else if ours.id == base.id {
        theirs.id
    } else {
        let contents = [objects.read(base.id)?, objects.read(ours.id)?, objects.read(theirs.id)?];
        match merge_text(&contents)? {
            Some(merged) => named(&merged)?,
            None => return Ok(Merged::Overlap),
        }
    };
    Ok(Merged::Clean(Some(Entry { mode, id })))
}

/// Two kinds of file leave no room for a conflict: if both sides changed it, they agree.
fn merge_modes(base: FileMode, ours: FileMode, theirs: FileMode) -> FileMode {
    if ours == base { theirs } else { ours }
}

pub(super) fn merge_text(contents: &[Vec<u8>; 3]) -> Result<Option<Vec<u8>>, CheckpointError> {
    // As git does: a NUL in the beginning makes a file binary.
    if contents.iter().any(|content| content.iter().take(8000).any(|byte| *byte == 0)) {
        return Ok(None);
    }
    let [base, ours, theirs] = contents;
    let inputs = [base, ours, theirs].map(|content| {
        let mut input = MergeFileInput::new();
        input.content(content);
        input
    });
    let merged = merge_file(&inputs[0], &inputs[1], &inputs[2], None).map_err(CheckpointError::git("merge a file"))?;
    Ok(merged.is_automergeable().then(|| merged.content().to_vec()))
}
