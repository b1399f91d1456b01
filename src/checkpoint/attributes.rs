//! What `.gitattributes` and the settings say about content: converted, filtered, or left alone.
//!
//! Snapshots hold the bytes on disk and commits what git would store. The two are the same unless
//! line ends or `$Id$` are converted or a filter is set; then an index entry says nothing about the bytes on disk.
//! libgit2 converts line ends and `$Id$` here; [`super::filter`] has the `git` program convert filtered paths.

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
    /// The same, and some paths may have a filter or another encoding, which libgit2 does not know.
    Filtered,
    /// Libgit2 misreads a pattern (quoted, or with a backslash): the `git` program converts every changed file.
    ByGit,
}

/// What converts a path that libgit2 cannot convert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filtering {
    /// The filter with this name, which git's settings define.
    Filter(String),
    /// An encoding of the file on disk.
    Encoding(String),
    /// Only git can tell: libgit2 would read other attributes.
    Unclear,
}

impl std::fmt::Display for Filtering {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Filter(name) => write!(formatter, "filter={name}"),
            Self::Encoding(name) => write!(formatter, "working-tree-encoding={name}"),
            Self::Unclear => formatter.write_str("git"),
        }
    }
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
            conversion = conversion.max(judge(&text));
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
        let text = match work_tree.read_if_file(&path)? {
            Some(text) => text,
            None => match index.entry_at(&path).filter(|entry| entry.mode.is_file() && !entry.intent_to_add) {
                Some(entry) => match Objects::of(repository)?.read(entry.id) {
                    // Not fetched in a partial clone: it is about files outside of the sparse checkout only.
                    Err(CheckpointError::Missing { promisor: Some(_), .. }) if entry.skip_worktree => continue,
                    text => text?,
                },
                None => continue,
            },
        };
        conversion = conversion.max(judge(&text));
    }
    Ok(conversion)
}

/// What git would store for a file without a filter, given its bytes on disk.
pub(crate) fn clean(
    repository: &Repository,
    objects: &Objects<'_>,
    conversion: Conversion,
    path: &RepoPath,
    raw: Option<Entry>,
) -> Result<Option<Entry>, CheckpointError> {
    let Some(entry) = raw.filter(|entry| conversion != Conversion::None && entry.mode.is_file()) else {
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
    let folder = repository.git.commondir().join("objects");
    let converting = || CheckpointError::converting(&folder);
    let git = repository.scratch()?;
    // Whether a file keeps its line ends hangs on what the index has of it.
    let _ = git.index().and_then(|mut index| index.read(false));
    let memory = git2::Odb::new_ext(repository.format().into()).map_err(converting())?;
    // Attributes may have to be read from a file that is only in the index.
    if let Some(users) = folder.to_str() {
        memory.add_disk_alternate(users).map_err(converting())?;
    }
    memory.add_new_mempack_backend(i32::MAX).map_err(converting())?;
    git.set_odb(&memory).map_err(converting())?;
    let mut writer = git.blob_writer(Some(path.as_path())).map_err(converting())?;
    std::io::Write::write_all(&mut writer, content).map_err(CheckpointError::converting_stream(&folder))?;
    let id = writer.commit().map_err(converting())?;
    let converted = memory.read(id).map_err(converting())?;
    Ok(converted.data().to_vec())
}

fn has_ident(repository: &Repository, path: &RepoPath) -> Result<bool, CheckpointError> {
    Ok(attribute(repository, path, "ident")? == git2::AttrValue::True)
}

fn attribute<'r>(
    repository: &'r Repository,
    path: &RepoPath,
    name: &str,
) -> Result<git2::AttrValue<'r>, CheckpointError> {
    let flags = git2::AttrCheckFlags::FILE_THEN_INDEX;
    let found = repository.git.get_attr_bytes(path.as_path(), name, flags);
    let found = found.map_err(CheckpointError::git("read the attributes of a file"))?;
    Ok(git2::AttrValue::from_bytes(found))
}

/// What converts a path besides libgit2; none where git has no filter by the name that the attributes give.
pub(crate) fn find_filtering(repository: &Repository, path: &RepoPath) -> Result<Option<Filtering>, CheckpointError> {
    let text = |name: &str| {
        Ok::<_, CheckpointError>(match attribute(repository, path, name)? {
            git2::AttrValue::String(text) => Some(text.to_owned()),
            git2::AttrValue::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        })
    };
    if let Some(name) = text("filter")?.filter(|name| is_defined(repository, name)) {
        return Ok(Some(Filtering::Filter(name)));
    }
    Ok(text("working-tree-encoding")?.map(Filtering::Encoding))
}

/// Whether git's settings say anything about a filter.
fn is_defined(repository: &Repository, name: &str) -> bool {
    let is_set = |key: &str| match repository.config.get_entry(&format!("filter.{name}.{key}")) {
        Err(err) => err.code() != git2::ErrorCode::NotFound,
        Ok(_) => true,
    };
    ["clean", "smudge", "process", "required"].into_iter().any(is_set)
}

fn outside_files(repository: &Repository) -> Vec<PathBuf> {
    let mut files =
        vec![repository.git.commondir().join("info").join("attributes"), PathBuf::from("/etc/gitattributes")];
    match repository.path("core.attributesFile") {
        Some(path) => files.push(path),
        None => files.extend(repository.user_git_folder().map(|folder| folder.join("attributes"))),
    }
    files
}

/// Whether a path is that of an attributes file.
pub(crate) fn is_attributes_file(path: &[u8]) -> bool {
    path.strip_suffix(FILE).is_some_and(|folder| folder.is_empty() || folder.ends_with(b"/"))
}

/// Attributes that convert nothing.
const LEAVE_ALONE: [&str; 8] =
    ["binary", "diff", "merge", "delta", "export-ignore", "export-subst", "linguist-generated", "linguist-vendored"];

/// What one attributes file asks for.
pub(crate) fn judge(text: &[u8]) -> Conversion {
    let mut conversion = Conversion::None;
    for line in String::from_utf8_lossy(text).lines() {
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        // The first word is the pattern, which may be quoted and hold spaces, or the name of a macro. A word of a
        // pattern that looks like an attribute only costs time: each path is judged by its real attributes later.
        let quoted = line.strip_prefix('"').and_then(|rest| rest.rsplit_once('"'));
        let (pattern, words) = quoted.or_else(|| line.split_once(char::is_whitespace)).unwrap_or((line, ""));
        let is_misread = quoted.is_some() || pattern.contains('\\');
        for word in words.split_whitespace() {
            let found = match word.split_once('=') {
                Some(("filter" | "working-tree-encoding" | "text" | "crlf" | "eol", _)) if is_misread => {
                    Conversion::ByGit
                }
                // It may be a macro, which another file defines.
                None if is_misread && !word.starts_with(['-', '!']) && !LEAVE_ALONE.contains(&word) => {
                    Conversion::ByGit
                }
                Some(("filter" | "working-tree-encoding", _)) => Conversion::Filtered,
                Some(("text" | "crlf" | "eol", _)) => Conversion::Possible,
                None if matches!(word, "text" | "crlf" | "ident") => Conversion::Possible,
                _ => Conversion::None,
            };
            conversion = conversion.max(found);
        }
    }
    conversion
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_leave_content_alone_cost_nothing() {
        let text =
            b"# text=auto\n*.png binary\n*.rs diff=rust\n*.bin -text\nvendor/** linguist-vendored export-ignore\n";
        assert_eq!(judge(text), Conversion::None);
        assert_eq!(judge(b"*.big -filter !working-tree-encoding"), Conversion::None);
    }

    #[test]
    fn line_ends_and_ident_are_conversions() {
        for line in ["* text=auto", "*.txt text", "*.sh eol=lf", "*.c ident", "[attr]mine text", "*.x crlf=input"] {
            assert_eq!(judge(line.as_bytes()), Conversion::Possible, "{line}");
        }
    }

    #[test]
    fn filters_and_encodings_are_found_also_in_macros_and_quoted_patterns() {
        for line in [
            "*.big filter=lfs diff=lfs merge=lfs -text",
            "*.txt text working-tree-encoding=UTF-16LE",
            "[attr]large filter=lfs",
            "  *.x\tfilter=lfs\r",
        ] {
            assert_eq!(judge(line.as_bytes()), Conversion::Filtered, "{line}");
        }
        for line in ["\"a b.bin\" filter=lfs", "\"a b\" large", "a\\ b text", "\"x y\" eol=crlf"] {
            assert_eq!(judge(line.as_bytes()), Conversion::ByGit, "{line}");
        }
        assert_eq!(judge(b"\"a b.png\" binary -text\n"), Conversion::None);
    }
}
