//! What `.gitattributes` and the settings say about content: converted, filtered, or left alone.
//!
//! Snapshots hold the bytes on disk and commits what git would store. The two are the same unless
//! line ends or `$Id$` are converted; then an index entry says nothing about the bytes on disk.
//! Filters are other people's programs, and refused by name for now.

use std::path::PathBuf;

use super::error::CheckpointError;
use super::ident;
use super::index::Index;
use super::object::Entry;
use super::objects::Objects;
use super::path::RepoPath;
use super::repository::Repository;
use super::worktree::WorkTree;

pub(crate) const FILE: &[u8] = b".gitattributes";

/// Whether git stores other bytes than those on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Conversion {
    /// What is on disk is what git stores.
    None,
    /// Line ends or `$Id$` may be converted.
    Possible,
}

/// Finds out how content is treated, from the attribute files that the index and a scan know of.
pub(crate) fn find_conversion(
    repository: &Repository,
    index: &Index,
    work_tree: &WorkTree,
    untracked: &[RepoPath],
) -> Result<Conversion, CheckpointError> {
    let mut conversion = Conversion::None;
    let automatic =
        repository.text("core.autocrlf").is_some_and(|value| !matches!(value.as_str(), "false" | "0" | "no"));
    // A blob that git shows as another is on disk as the other, and in the index as itself.
    if automatic || !repository.substitutes()?.is_empty() {
        conversion = Conversion::Possible;
    }
    for path in outside_files(repository) {
        if let Some(text) = super::files::read_if_there(&path)? {
            conversion = conversion.max(judge(&text, &path.display().to_string())?);
        }
    }
    let tracked = (0..index.len()).map(|at| index.path(at)).filter(|path| is_attributes_file(path));
    let mut inside: Vec<RepoPath> = tracked.map(RepoPath::from_bytes).collect();
    inside.push(RepoPath::from_bytes(FILE));
    inside.extend(untracked.iter().cloned());
    inside.sort();
    inside.dedup();
    for path in inside {
        // As git does it: where the file is not on disk, the one in the index counts.
        let (text, name) = match work_tree.read_if_file(&path)? {
            Some(text) => (text, path.to_string()),
            None => match index.entry_at(&path).filter(|entry| entry.mode.is_file() && !entry.intent_to_add) {
                Some(entry) => match Objects::of(repository)?.read(entry.id) {
                    // Not fetched in a partial clone: it is about files outside of the sparse checkout only.
                    Err(CheckpointError::Missing { promisor: Some(_), .. }) if entry.skip_worktree => continue,
                    text => (text?, format!("{path} (in the index)")),
                },
                None => continue,
            },
        };
        conversion = conversion.max(judge(&text, &name)?);
    }
    Ok(conversion)
}

/// What git would store for a file of the work tree, given its bytes on disk.
pub(crate) fn clean(
    repository: &Repository,
    objects: &Objects<'_>,
    conversion: Conversion,
    path: &RepoPath,
    raw: Option<Entry>,
) -> Result<Option<Entry>, CheckpointError> {
    let Some(entry) = raw.filter(|entry| conversion == Conversion::Possible && entry.mode.is_file()) else {
        return Ok(raw);
    };
    let content = objects.read(entry.id)?;
    let id = if has_ident(repository, path)? {
        // Libgit2 mistakes every `$Id…` for `$Id$` and sees only the first one: it is kept from it.
        let Some(stand_in) = ident::stand_in(&content) else {
            return Err(CheckpointError::Unsupported { feature: "`ident`", found: format!("`{path}`") });
        };
        let converted = convert(repository, path, &ident::replaced(&content, ident::KEYWORD, stand_in))?;
        let converted = ident::replaced(&converted, stand_in, ident::KEYWORD);
        objects.write_blob(&ident::cleaned(&converted))?
    } else {
        objects.write_blob(&convert(repository, path, &content)?)?
    };
    Ok(Some(Entry { mode: entry.mode, id }))
}

/// What git would store for a content. Libgit2 converts only what it writes: it writes to memory.
fn convert(repository: &Repository, path: &RepoPath, content: &[u8]) -> Result<Vec<u8>, CheckpointError> {
    let converting = || CheckpointError::git("convert a file as git would");
    let git = repository.scratch()?;
    // Whether a file keeps its line ends hangs on what the index has of it.
    let _ = git.index().and_then(|mut index| index.read(false));
    let memory = git2::Odb::new().map_err(converting())?;
    // Attributes may have to be read from a file that is only in the index.
    if let Some(users) = repository.git.commondir().join("objects").to_str() {
        memory.add_disk_alternate(users).map_err(converting())?;
    }
    memory.add_new_mempack_backend(i32::MAX).map_err(converting())?;
    git.set_odb(&memory).map_err(converting())?;
    let mut writer = git.blob_writer(Some(path.as_path())).map_err(converting())?;
    std::io::Write::write_all(&mut writer, content).map_err(CheckpointError::io("convert", path.as_path()))?;
    let id = writer.commit().map_err(converting())?;
    let converted = memory.read(id).map_err(converting())?;
    Ok(converted.data().to_vec())
}

fn has_ident(repository: &Repository, path: &RepoPath) -> Result<bool, CheckpointError> {
    let flags = git2::AttrCheckFlags::FILE_THEN_INDEX;
    let found = repository.git.get_attr_bytes(path.as_path(), "ident", flags);
    let found = found.map_err(CheckpointError::git("read the attributes of a file"))?;
    Ok(git2::AttrValue::from_bytes(found) == git2::AttrValue::True)
}

fn outside_files(repository: &Repository) -> Vec<PathBuf> {
    let mut files = vec![repository.git.commondir().join("info").join("attributes")];
    match repository.path("core.attributesFile") {
        Some(path) => files.push(path),
        None => files.extend(repository.user_git_folder().map(|folder| folder.join("attributes"))),
    }
    files
}

fn is_attributes_file(path: &[u8]) -> bool {
    path.strip_suffix(FILE).is_some_and(|folder| folder.is_empty() || folder.ends_with(b"/"))
}

/// What one attributes file asks for.
fn judge(text: &[u8], name: &str) -> Result<Conversion, CheckpointError> {
    let mut conversion = Conversion::None;
    for line in String::from_utf8_lossy(text).lines() {
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        // The first word is the pattern, which may be quoted and hold spaces; a word of a pattern
        // that looks like an attribute only costs time or a refusal, never a wrong checkpoint.
        for word in line.split_whitespace().skip(1) {
            match word.split_once('=') {
                Some(("filter", filter)) => {
                    return Err(CheckpointError::Unsupported {
                        feature: "content filters such as Git LFS",
                        found: format!("`filter={filter}` in `{name}`"),
                    });
                }
                Some(("working-tree-encoding", encoding)) => {
                    return Err(CheckpointError::Unsupported {
                        feature: "files in other encodings than git stores",
                        found: format!("`working-tree-encoding={encoding}` in `{name}`"),
                    });
                }
                Some(("text" | "crlf" | "eol", _)) => conversion = Conversion::Possible,
                None if matches!(word, "text" | "crlf" | "ident") => conversion = Conversion::Possible,
                _ => {}
            }
        }
    }
    Ok(conversion)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_leave_content_alone_cost_nothing() {
        let text =
            b"# text=auto\n*.png binary\n*.rs diff=rust\n*.bin -text\nvendor/** linguist-vendored export-ignore\n";
        assert_eq!(judge(text, "f").unwrap(), Conversion::None);
    }

    #[test]
    fn line_ends_and_ident_are_conversions() {
        for line in ["* text=auto", "*.txt text", "*.sh eol=lf", "*.c ident", "[attr]mine text", "*.x crlf=input"] {
            assert_eq!(judge(line.as_bytes(), "f").unwrap(), Conversion::Possible, "{line}");
        }
    }

    #[test]
    fn filters_and_encodings_are_refused_by_name() {
        for line in ["*.big filter=lfs diff=lfs merge=lfs -text", "*.txt working-tree-encoding=UTF-16LE"] {
            assert_eq!(judge(line.as_bytes(), "f").unwrap_err().code(), "UNSUPPORTED_REPOSITORY", "{line}");
        }
        assert_eq!(judge(b"*.big -filter", "f").unwrap(), Conversion::None);
    }
}
