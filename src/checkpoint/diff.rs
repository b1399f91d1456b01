//! Formats changes as text that `git apply` understands.
//!
//! Contents are bytes and stay bytes. A file with a NUL near its beginning is binary, as for git.
//! Missing content is reported in the text and does not stop the rest.

use git2::{DiffOptions, Patch};

use super::content::is_binary;
use super::delta::Change;
use super::error::CheckpointError;
use super::object::{Entry, FileMode, ObjectFormat, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::repository::Repository;

/// Changes as a diff.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffText {
    /// The text; contains the raw bytes of files.
    pub bytes: Vec<u8>,
    /// How many lines were truncated at the end.
    pub left_out: usize,
}

impl Repository {
    /// The changes as a unified diff with a maximum number of lines.
    pub fn diff(
        &self,
        changes: &[Change],
        limit: Option<usize>,
    ) -> Result<DiffText, CheckpointError> {
        let objects = Objects::of(self)?;
        let mut text = DiffText::default();
        let mut lines = 0;
        for change in changes {
            let part = file(&objects, change)?;
            for line in part.split_inclusive(|byte| *byte == b'\n') {
                if limit.is_some_and(|limit| lines >= limit) {
                    text.left_out += 1;
                } else {
                    text.bytes.extend_from_slice(line);
                }
                lines += 1;
            }
        }
        Ok(text)
    }
}

/// Two versions of a text as a unified diff.
pub fn of_texts(
    file: &std::path::Path,
    old: &[u8],
    new: &[u8],
) -> Result<Vec<u8>, CheckpointError> {
    let shown = file.display();
    let mut text = format!("--- a/{shown}\n+++ b/{shown}\n").into_bytes();
    text.extend(hunks(old, new)?);
    Ok(text)
}

fn file(objects: &Objects<'_>, change: &Change) -> Result<Vec<u8>, CheckpointError> {
    // Git shows a link that became a file as a deletion and an addition.
    if let (Some(before), Some(after)) = (change.before, change.after)
        && kind(before.mode) != kind(after.mode)
    {
        let mut text = file(
            objects,
            &Change {
                after: None,
                ..change.clone()
            },
        )?;
        text.extend(file(
            objects,
            &Change {
                before: None,
                ..change.clone()
            },
        )?);
        return Ok(text);
    }
    let mut text = header(change).into_bytes();
    let (old, new) = (
        content(objects, change.before)?,
        content(objects, change.after)?,
    );
    let (Some(old), Some(new)) = (old, new) else {
        text.extend_from_slice(b"Content is no longer stored\n");
        return Ok(text);
    };
    if old == new {
        return Ok(text);
    }
    let (a, b) = (
        name("a", change, change.before),
        name("b", change, change.after),
    );
    if is_binary(&old) || is_binary(&new) {
        text.extend_from_slice(format!("Binary files {a} and {b} differ\n").as_bytes());
        return Ok(text);
    }
    // Like git, end a name that contains a space with a tab, to mark its end.
    let end = |name: &str| if name.contains(' ') { "\t" } else { "" };
    text.extend_from_slice(format!("--- {a}{}\n+++ {b}{}\n", end(&a), end(&b)).as_bytes());
    text.extend(hunks(&old, &new)?);
    Ok(text)
}

fn header(change: &Change) -> String {
    let side = |prefix: &str| RepoPath::from(prefix).join(change.path.as_bytes());
    let short = |entry: Option<Entry>| {
        entry
            .map_or(ObjectId::zero(ObjectFormat::default()), |entry| entry.id)
            .short()
    };
    let (old, new) = (short(change.before), short(change.after));
    let rest = match (change.before, change.after) {
        (None, Some(after)) => format!("new file mode {}\nindex {old}..{new}\n", after.mode),
        (Some(before), None) => format!("deleted file mode {}\nindex {old}..{new}\n", before.mode),
        (Some(before), Some(after)) if before.mode == after.mode => {
            format!("index {old}..{new} {}\n", after.mode)
        }
        (Some(before), Some(after)) if old == new => {
            format!("old mode {}\nnew mode {}\n", before.mode, after.mode)
        }
        (Some(before), Some(after)) => {
            format!(
                "old mode {}\nnew mode {}\nindex {old}..{new}\n",
                before.mode, after.mode
            )
        }
        (None, None) => String::new(),
    };
    format!("diff --git {} {}\n{rest}", side("a"), side("b"))
}

fn name(prefix: &str, change: &Change, entry: Option<Entry>) -> String {
    match entry {
        None => "/dev/null".to_owned(),
        Some(_) => RepoPath::from(prefix)
            .join(change.path.as_bytes())
            .to_string(),
    }
}

/// The content of a file; `None` if it is no longer stored.
fn content(
    objects: &Objects<'_>,
    entry: Option<Entry>,
) -> Result<Option<Vec<u8>>, CheckpointError> {
    match entry {
        None => Ok(Some(Vec::new())),
        Some(Entry {
            mode: FileMode::Gitlink,
            id,
        }) => Ok(Some(format!("Subproject commit {id}\n").into_bytes())),
        Some(entry) if objects.exists(entry.id) => objects.read(entry.id).map(Some),
        Some(_) => Ok(None),
    }
}

fn hunks(old: &[u8], new: &[u8]) -> Result<Vec<u8>, CheckpointError> {
    let comparing = || CheckpointError::git("compare two versions of a file");
    let mut options = DiffOptions::new();
    options.force_text(true);
    let mut patch =
        Patch::from_buffers(old, None, new, None, Some(&mut options)).map_err(comparing())?;
    let text = patch.to_buf().map_err(comparing())?;
    // Skip its header, which lacks the file name.
    let start = text
        .windows(4)
        .position(|window| window == b"\n@@ ")
        .map_or(text.len(), |at| at + 1);
    Ok(text.get(start..).unwrap_or_default().to_vec())
}

fn kind(mode: FileMode) -> u32 {
    mode.bits() & 0o170_000
}
