//! How `.gitattributes` and the settings treat content: converted, filtered, or left alone.
//!
//! Snapshots hold the bytes on disk, and commits hold what git would store. The two differ only if
//! line ends or `$Id$` are converted or a filter is set; then an index entry does not identify the
//! bytes on disk. Line ends ([`super::line_ends`]) and `$Id$` are converted here, in memory;
//! [`super::filter`] lets the `git` program convert filtered paths.

use std::path::PathBuf;

use super::error::CheckpointError;
use super::ident;
use super::index::Index;
use super::line_ends::{AutoCrlf, LineEndSettings, LineEnds};
use super::no_follow::WorkTree;
use super::object::{Entry, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::repository::Repository;

pub(crate) const FILE: &[u8] = b".gitattributes";

/// Whether git stores other bytes than those on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Conversion {
    /// Git stores the bytes on disk.
    None,
    /// Line ends or `$Id$` may be converted.
    Possible,
    /// As `Possible`, and some paths may have a filter or another encoding, which libgit2 does not
    /// support.
    Filtered,
    /// libgit2 misreads a pattern (quoted, or with a backslash): the `git` program converts every
    /// changed file.
    ByGit,
}

/// How git converts a path that libgit2 cannot convert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filtering {
    /// A filter with this name from git's settings.
    Filter(String),
    /// An encoding of the file on disk.
    Encoding(String),
    /// Unknown: libgit2 would read other attributes than git.
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

/// Determines how content is treated, from the attribute files in the index and in a scan.
pub(crate) fn find_conversion(
    repository: &Repository,
    index: &Index,
    work_tree: &WorkTree,
    untracked: &[RepoPath],
) -> Result<Conversion, CheckpointError> {
    let mut conversion = Conversion::None;
    let automatic = repository
        .text("core.autocrlf")
        .is_some_and(|value| !matches!(value.as_str(), "false" | "0" | "no"));
    // With a replaced blob, the disk has the replacement and the index has the original.
    if automatic || !repository.substitutes()?.is_empty() {
        conversion = Conversion::Possible;
    }
    for path in outside_files(repository) {
        if let Some(text) = super::files::read_if_there(&path)? {
            conversion = conversion.max(judge(&text));
        }
    }
    let tracked = (0..index.len())
        .map(|at| index.path(at))
        .filter(|path| is_attributes_file(path));
    let mut inside: Vec<RepoPath> = tracked.map(RepoPath::from_bytes).collect();
    inside.push(RepoPath::from_bytes(FILE));
    inside.extend(untracked.iter().cloned());
    inside.sort();
    inside.dedup();
    for path in inside {
        let on_disk = work_tree.read_if_file(&path)?;
        if let Some(text) = &on_disk {
            conversion = conversion.max(judge(text));
        }
        // Like git: if the file is not on disk, use the version in the index. If it is, the entries of the index were
        // still converted by that version.
        let staged = index
            .entry_at(&path)
            .filter(|entry| entry.mode.is_file() && !entry.intent_to_add);
        let Some(entry) = staged.filter(|entry| !is_same(on_disk.as_deref(), entry.id)) else {
            continue;
        };
        let text = match Objects::of(repository)?.read(entry.id) {
            // Not fetched in a partial clone: the file is outside of the sparse checkout.
            Err(CheckpointError::Missing {
                promisor: Some(_), ..
            }) if entry.skip_worktree || on_disk.is_some() => continue,
            text => text?,
        };
        conversion = conversion.max(judge(&text));
    }
    Ok(conversion)
}

/// Whether a file on disk has this content.
fn is_same(on_disk: Option<&[u8]>, id: ObjectId) -> bool {
    let name = |text| id.format().name(git2::ObjectType::Blob, text).ok();
    on_disk.and_then(name) == Some(id)
}

/// The content that git would store for the bytes of an unfiltered file.
pub(crate) fn clean(
    repository: &Repository,
    objects: &Objects<'_>,
    index: &Index,
    conversion: Conversion,
    path: &RepoPath,
    raw: Option<Entry>,
) -> Result<Option<Entry>, CheckpointError> {
    let Some(entry) = raw.filter(|entry| conversion != Conversion::None && entry.mode.is_file())
    else {
        return Ok(raw);
    };
    let settings = line_end_settings(repository);
    let line_ends = line_ends_of(repository, path, settings)?;
    let content = objects.read(entry.id)?;
    let in_index = if line_ends.depends_on_index(&content) {
        content_in_index(objects, index, path)?
    } else {
        None
    };
    let stored = line_ends
        .stored(&content, in_index.as_deref(), settings)
        .map_err(|why| CheckpointError::FilterFailed {
            path: path.clone(),
            filter: "core.safecrlf".to_owned(),
            reason: why.to_string(),
            missing: None,
        })?;
    let id = if attribute(repository, path, "ident")? == git2::AttrValue::True {
        objects.write_blob(&ident::cleaned(&stored))?
    } else {
        objects.write_blob(&stored)?
    };
    Ok(Some(Entry {
        mode: entry.mode,
        id,
    }))
}

/// The content that git writes to disk for an unfiltered file of a commit.
pub(crate) fn checked_out(
    repository: &Repository,
    objects: &Objects<'_>,
    path: &RepoPath,
    stored: ObjectId,
) -> Result<ObjectId, CheckpointError> {
    let mut content = objects.read(objects.shown(stored))?;
    let line_ends = line_ends_of(repository, path, line_end_settings(repository))?;
    if attribute(repository, path, "ident")? == git2::AttrValue::True {
        let name = stored.format().name(git2::ObjectType::Blob, &content);
        let name = name.map_err(CheckpointError::git("name the content of a file"))?;
        content = ident::expanded(&content, name);
    }
    objects.write_blob(&line_ends.checked_out(&content))
}

fn line_ends_of(
    repository: &Repository,
    path: &RepoPath,
    settings: LineEndSettings,
) -> Result<LineEnds, CheckpointError> {
    // An attributes file may be in the index alone.
    let _ = repository
        .git
        .index()
        .and_then(|mut index| index.read(false));
    let [text, crlf, eol] = ["text", "crlf", "eol"].map(|name| attribute(repository, path, name));
    Ok(LineEnds::of(text?, crlf?, eol?, settings))
}

/// What the index has of a path, as git shows it.
fn content_in_index(
    objects: &Objects<'_>,
    index: &Index,
    path: &RepoPath,
) -> Result<Option<Vec<u8>>, CheckpointError> {
    let Some(staged) = index.entry_at(path).filter(|entry| entry.mode.is_file()) else {
        return Ok(None);
    };
    match objects.read(objects.shown(staged.id)) {
        // A partial clone may not have it.
        Err(CheckpointError::Missing { .. }) => Ok(None),
        content => content.map(Some),
    }
}

fn line_end_settings(repository: &Repository) -> LineEndSettings {
    let is = |name: &str, value: &str| {
        let found = repository.text(name);
        found.is_some_and(|found| found.eq_ignore_ascii_case(value))
    };
    let is_true = |name: &str| repository.config.get_bool(name).unwrap_or(false);
    let autocrlf = if is("core.autocrlf", "input") {
        AutoCrlf::Input
    } else if is_true("core.autocrlf") {
        AutoCrlf::True
    } else {
        AutoCrlf::False
    };
    LineEndSettings {
        autocrlf,
        is_eol_crlf: is("core.eol", "crlf"),
        is_safe: is_true("core.safecrlf"),
    }
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

/// How a path is converted other than by libgit2; `None` if git has no filter with the name in the
/// attributes.
pub(crate) fn find_filtering(
    repository: &Repository,
    path: &RepoPath,
) -> Result<Option<Filtering>, CheckpointError> {
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

/// Whether git's settings define a filter.
fn is_defined(repository: &Repository, name: &str) -> bool {
    let is_set = |key: &str| match repository.config.get_entry(&format!("filter.{name}.{key}")) {
        Err(err) => err.code() != git2::ErrorCode::NotFound,
        Ok(_) => true,
    };
    ["clean", "smudge", "process", "required"]
        .into_iter()
        .any(is_set)
}

fn outside_files(repository: &Repository) -> Vec<PathBuf> {
    let mut files = vec![
        repository.git.commondir().join("info").join("attributes"),
        PathBuf::from("/etc/gitattributes"),
    ];
    match repository.path("core.attributesFile") {
        Some(path) => files.push(path),
        None => files.extend(
            repository
                .user_git_folder()
                .map(|folder| folder.join("attributes")),
        ),
    }
    files
}

pub(crate) fn is_attributes_file(path: &[u8]) -> bool {
    path.strip_suffix(FILE)
        .is_some_and(|folder| folder.is_empty() || folder.ends_with(b"/"))
}

/// Attributes that convert nothing.
const LEAVE_ALONE: [&str; 8] = [
    "binary",
    "diff",
    "merge",
    "delta",
    "export-ignore",
    "export-subst",
    "linguist-generated",
    "linguist-vendored",
];

/// The conversions that one attributes file requests.
pub(crate) fn judge(text: &[u8]) -> Conversion {
    let mut conversion = Conversion::None;
    for line in String::from_utf8_lossy(text).lines() {
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        // The first word is the pattern, which may be quoted and contain spaces, or the name of a
        // macro. A word of a pattern that looks like an attribute only costs time: each path is
        // judged by its real attributes later.
        let quoted = line
            .strip_prefix('"')
            .and_then(|rest| rest.rsplit_once('"'));
        let (pattern, words) = quoted
            .or_else(|| line.split_once(char::is_whitespace))
            .unwrap_or((line, ""));
        let is_misread = quoted.is_some() || pattern.contains('\\');
        for word in words.split_whitespace() {
            let found = match word.split_once('=') {
                Some(("filter" | "working-tree-encoding" | "text" | "crlf" | "eol", _))
                    if is_misread =>
                {
                    Conversion::ByGit
                }
                // It may be a macro that another file defines.
                None if is_misread
                    && !word.starts_with(['-', '!'])
                    && !LEAVE_ALONE.contains(&word) =>
                {
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
        assert_eq!(
            judge(b"*.big -filter !working-tree-encoding"),
            Conversion::None
        );
    }

    #[test]
    fn line_ends_and_ident_are_conversions() {
        for line in [
            "* text=auto",
            "*.txt text",
            "*.sh eol=lf",
            "*.c ident",
            "[attr]mine text",
            "*.x crlf=input",
        ] {
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
        for line in [
            "\"a b.bin\" filter=lfs",
            "\"a b\" large",
            "a\\ b text",
            "\"x y\" eol=crlf",
        ] {
            assert_eq!(judge(line.as_bytes()), Conversion::ByGit, "{line}");
        }
        assert_eq!(judge(b"\"a b.png\" binary -text\n"), Conversion::None);
    }
}
