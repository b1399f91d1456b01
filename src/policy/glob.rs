//! Globs for project files, as used in grants, tools and `--writes`.
//!
//! Globs are relative to the project. `*` and `?` do not cross folders and match dotfiles; `**`
//! crosses folders. `docs` and `docs/` mean everything below the folder. No glob matches `.git` in
//! any spelling, an absolute path or one with `..`. Only a glob that starts with `.ai/` matches
//! below `.ai/`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::checkpoint::path::RepoPath;

const ITEMS: &str = ".ai";

#[derive(Clone, Debug)]
pub struct PathGlobs {
    written: Vec<String>,
    all: GlobSet,
    /// The globs that start with `.ai`.
    items: GlobSet,
}

/// The folder in which all files of a glob lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobRoot {
    /// The glob as it was written.
    pub glob: String,
    /// Relative to the project.
    pub folder: PathBuf,
    pub reach: GlobReach,
}

/// How much of its folder a glob covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobReach {
    Everything,
    /// Everything if it is a folder; otherwise the glob names a file.
    Named,
    Part,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{glob}` is not a glob: {reason}")]
pub struct InvalidGlob {
    pub glob: String,
    pub reason: String,
}

impl PathGlobs {
    pub fn new<'g>(globs: impl IntoIterator<Item = &'g str>) -> Result<Self, InvalidGlob> {
        let (mut all, mut items) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let mut written = Vec::new();
        for text in globs {
            for glob in compile(text)? {
                if glob.glob().split('/').next() == Some(ITEMS) {
                    items.add(glob.clone());
                }
                all.add(glob);
            }
            written.push(text.to_owned());
        }
        let build = |set: GlobSetBuilder| {
            set.build().map_err(|err| InvalidGlob {
                glob: written.join(", "),
                reason: err.kind().to_string(),
            })
        };
        let (all, items) = (build(all)?, build(items)?);
        Ok(Self {
            written,
            all,
            items,
        })
    }

    /// Compiles the valid globs and ignores the others.
    pub(super) fn of_valid<'g>(globs: impl IntoIterator<Item = &'g str>) -> Self {
        let valid = globs.into_iter().filter(|glob| compile(glob).is_ok());
        let nothing = |_| Self {
            written: Vec::new(),
            all: GlobSet::empty(),
            items: GlobSet::empty(),
        };
        Self::new(valid).unwrap_or_else(nothing)
    }

    /// Whether one of them names files below `.ai/`.
    pub(super) fn names_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// The folder of each of them that can match a file.
    pub(super) fn roots(&self) -> Vec<GlobRoot> {
        let roots = self.written.iter().map(|text| GlobRoot::of(text));
        roots.flatten().collect()
    }

    pub fn written(&self) -> &[String] {
        &self.written
    }

    /// Whether one of them covers a file; `path` is relative to the project.
    pub fn covers(&self, path: &Path) -> bool {
        let name = RepoPath::from_bytes(path.as_os_str().as_bytes());
        let set = if is_item(&name) {
            &self.items
        } else {
            &self.all
        };
        name.is_safe() && set.is_match(path)
    }

    /// Whether one of them matches a file, also below `.ai/`: a deny needs no `.ai/` prefix.
    pub(super) fn touches(&self, path: &Path) -> bool {
        self.all.is_match(path)
    }
}

impl GlobRoot {
    /// `None` if the glob matches no file.
    fn of(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect();
        let is_name = |part: &&&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let folder: PathBuf = parts.iter().take_while(is_name).collect();
        let reach = match parts.get(folder.components().count()..).unwrap_or_default() {
            [] if parts.is_empty() || text.ends_with('/') || text.ends_with("/.") => {
                GlobReach::Everything
            }
            [] => GlobReach::Named,
            ["**"] => GlobReach::Everything,
            _ => GlobReach::Part,
        };
        let name = RepoPath::from_bytes(folder.as_os_str().as_bytes());
        let is_safe = folder.as_os_str().is_empty() || name.is_safe();
        (is_safe && !text.is_empty()).then(|| Self {
            glob: text.to_owned(),
            folder,
            reach,
        })
    }
}

/// Turns a glob typed in `folder` into one relative to the project. Both folders are absolute and
/// free of symlinks.
///
/// `.` and `..` are resolved at the start and after plain names. A glob that leaves the project is
/// refused.
pub fn glob_in_project(text: &str, folder: &Path, project: &Path) -> Result<String, InvalidGlob> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let leaves = || InvalidGlob {
        glob: text.to_owned(),
        reason: "it leaves the project".to_owned(),
    };
    let plain = |path: &Path| -> Vec<String> {
        path.components()
            .filter(|part| *part != Component::RootDir)
            .map(|part| escaped(part.as_os_str()))
            .collect()
    };
    let start = if text.starts_with('/') {
        Vec::new()
    } else {
        plain(folder)
    };
    let mut parts = start;
    for part in text.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match (part, parts.last()) {
            ("..", None) => return Err(leaves()),
            ("..", Some(last)) if last != ".." && !is_pattern(last) => drop(parts.pop()),
            _ => parts.push(part.to_owned()),
        }
    }
    let top = plain(project);
    let inside = parts
        .strip_prefix(top.as_slice())
        .ok_or_else(leaves)?
        .join("/");
    let is_folder = text.ends_with('/') || matches!(text.rsplit('/').next(), Some("." | ".."));
    Ok(match inside.as_str() {
        "" => ".".to_owned(),
        _ if is_folder => format!("{inside}/"),
        _ => inside,
    })
}

/// Whether a part of a glob is more than a literal name.
fn is_pattern(part: &str) -> bool {
    let mut rest = part.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '*' | '?' | '[' | ']' | '{' | '}' => return true,
            '\\' => drop(rest.next()),
            _ => {}
        }
    }
    false
}

/// Escapes a name, so that the glob matches only it.
fn escaped(name: &OsStr) -> String {
    let escape = |letter: char| match letter {
        '*' | '?' | '[' | ']' | '{' | '}' | '\\' => vec!['\\', letter],
        _ => vec![letter],
    };
    name.to_string_lossy().chars().flat_map(escape).collect()
}

/// Whether a path lies in `.ai`, compared without case for case-insensitive file systems.
fn is_item(path: &RepoPath) -> bool {
    path.components()
        .next()
        .is_some_and(|first| first.eq_ignore_ascii_case(ITEMS.as_bytes()))
}

/// The globs that a text expands to.
fn compile(text: &str) -> Result<Vec<Glob>, InvalidGlob> {
    let parts: Vec<&str> = text
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    let is_folder = text.ends_with('/') || text.ends_with("/.");
    let is_glob = is_pattern(text);
    let glob = parts.join("/");
    let meant = match &*glob {
        _ if text.is_empty() => vec![],
        "" => vec!["**".to_owned()],
        _ if is_folder => vec![format!("{glob}/**")],
        _ if is_glob => vec![glob],
        _ => vec![format!("{glob}/**"), glob],
    };
    // An absolute path would have lost its first `/` above, and `..` never matches a checked path.
    // Reject both: a deny that can never match gives false safety.
    if text.starts_with('/') || parts.contains(&"..") {
        return Err(InvalidGlob {
            glob: text.to_owned(),
            reason: "it leaves the project".to_owned(),
        });
    }
    let build = |glob: &String| {
        let built = GlobBuilder::new(glob)
            .literal_separator(true)
            .backslash_escape(true)
            .build();
        built.map_err(|err| InvalidGlob {
            glob: text.to_owned(),
            reason: err.kind().to_string(),
        })
    };
    meant.iter().map(build).collect()
}
