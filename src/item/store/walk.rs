//! Which files below `.ai/` may be items.
//!
//! A folder with a `tool.yaml` is one tool, with everything below it. Symlinks are followed only if
//! they stay inside the project; pipes, devices and caches are skipped.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::item::file_stat::{FileStat, Links};
use crate::item::finding::{Finding, Findings, Strength};
use crate::item::position::Position;
use crate::item::signature::{UNSTAMPED_FOLDERS, is_companion};
use crate::item::source::MAX_DEPTH;
use crate::item::tool::Root;
use crate::problem::Code;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    Tool,
    Directive,
    Knowledge,
}

impl ItemKind {
    /// The folder for this kind below `.ai/`.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Directive => "directives",
            Self::Knowledge => "knowledge",
        }
    }
}

impl fmt::Display for ItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Directive => "directive",
            Self::Knowledge => "knowledge",
        })
    }
}

#[derive(Clone, Debug)]
pub(in crate::item) struct FileCandidate {
    pub(in crate::item) kind: ItemKind,
    pub(in crate::item) root: Root,
    pub(in crate::item) path: PathBuf,
    /// The folder of a folder tool.
    pub(in crate::item) folder: Option<PathBuf>,
    pub(in crate::item) in_lib: bool,
    /// The folders between that of the kind and the item, joined by `/`.
    pub(in crate::item) category: String,
    /// Whether it was listed as a regular file and not a symlink.
    pub(in crate::item) is_regular: bool,
    /// The index of its folder in the listing.
    pub(in crate::item) listed_in: usize,
}

/// A file or folder that is skipped because of its name, its link target or a read error.
#[derive(Debug)]
pub(in crate::item) struct Refused {
    pub(in crate::item) kind: ItemKind,
    pub(in crate::item) path: PathBuf,
    /// Its file is relative to the folder with `.ai/`.
    pub(in crate::item) finding: Finding,
}

#[derive(Debug, Default)]
pub(in crate::item) struct StoreListing {
    /// Sorted by path.
    pub(in crate::item) found: Vec<FileCandidate>,
    pub(in crate::item) refused: Vec<Refused>,
    /// The folders whose entries decide what is found, with their metadata from before the listing.
    /// A missing folder is included, because it may be created.
    pub(in crate::item) folders: Vec<(PathBuf, FileStat)>,
    /// Whether there are symlinks: their targets can change without changing the folder.
    pub(in crate::item) has_links: bool,
}

pub(in crate::item) fn candidates(ai: &Path, project: &Path, strength: Strength) -> StoreListing {
    let mut walk = StoreWalk {
        project,
        ai,
        strength,
        seen: HashSet::new(),
        listing: StoreListing::default(),
    };
    for (kind, root, folder) in [
        (ItemKind::Directive, Root::Tools, "directives"),
        (ItemKind::Tool, Root::Tools, "tools"),
        (ItemKind::Tool, Root::Scripts, "scripts"),
        (ItemKind::Knowledge, Root::Tools, "knowledge"),
    ] {
        let folder = ai.join(folder);
        let is_link = folder.is_symlink();
        walk.listing.has_links |= is_link;
        if !is_link || walk.stays_inside(kind, &folder) {
            walk.folder(kind, root, &folder, "", 0);
        }
    }
    if !walk.seen.is_empty() {
        drop_second_ways(&mut walk.listing.found);
    }
    walk.listing
}

/// Keeps one candidate per file if symlinks lead to the same file, preferring the direct path.
fn drop_second_ways(found: &mut Vec<FileCandidate>) {
    let targets: Vec<Option<PathBuf>> = found
        .iter()
        .map(|candidate| fs::canonicalize(&candidate.path).ok())
        .collect();
    let direct = |at: usize| {
        targets
            .get(at)
            .is_some_and(|target| target.as_ref() == found.get(at).map(|c| &c.path))
    };
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|at| !direct(*at));
    let mut taken = HashSet::new();
    let kept: HashSet<usize> = order
        .into_iter()
        .filter(|at| {
            targets
                .get(*at)
                .is_some_and(|target| taken.insert(target.clone()))
        })
        .collect();
    let mut at = 0;
    found.retain(|_| {
        at += 1;
        kept.contains(&(at - 1))
    });
}

/// The manifest names of a folder tool; the first existing one counts.
const MANIFESTS: [&str; 3] = ["tool.yaml", "tool.yml", "tool.json"];

pub(super) fn folder_manifest(folder: &Path) -> Option<PathBuf> {
    find_manifest(folder).map(|(path, _)| path)
}

/// The manifest of a folder tool, and whether it is a symlink.
fn find_manifest(folder: &Path) -> Option<(PathBuf, bool)> {
    MANIFESTS
        .iter()
        .map(|name| folder.join(name))
        .find_map(|path| {
            let found = path.symlink_metadata().ok()?;
            let is_link = found.is_symlink();
            (found.is_file() || is_link && path.is_file()).then_some((path, is_link))
        })
}

/// Whether a file is probably meant as a document with another ending. Data and pictures beside documents are not.
fn is_text(name: &str) -> bool {
    const ENDINGS: [&str; 8] = [
        "markdown", "mdown", "mkd", "mdx", "txt", "rst", "adoc", "org",
    ];
    const OTHERS: [&str; 5] = ["readme", "license", "notice", "changelog", "requirements"];
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
        && !OTHERS.contains(&stem.to_ascii_lowercase().as_str())
}

struct StoreWalk<'a> {
    project: &'a Path,
    ai: &'a Path,
    strength: Strength,
    seen: HashSet<PathBuf>,
    listing: StoreListing,
}

impl StoreWalk<'_> {
    fn folder(&mut self, kind: ItemKind, root: Root, folder: &Path, category: &str, depth: usize) {
        // Take the metadata before listing, so that later changes are visible.
        self.listing
            .folders
            .push((folder.to_path_buf(), FileStat::of(folder, Links::Followed)));
        let listed_in = self.listing.folders.len() - 1;
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => return,
            Err(err) => {
                return self.refuse(
                    kind,
                    Code::UnreadableFile,
                    folder,
                    format!("cannot read the folder: {err}"),
                    "check its permissions",
                );
            }
        };
        let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                self.refuse(
                    kind,
                    Code::InvalidPath,
                    &path,
                    "the name is not valid UTF-8".to_owned(),
                    "rename it",
                );
                continue;
            };
            if name.starts_with('.') || UNSTAMPED_FOLDERS.contains(&name.as_str()) {
                continue;
            }
            if name.chars().any(char::is_control) {
                self.refuse(
                    kind,
                    Code::InvalidPath,
                    &path,
                    "the name holds control characters".to_owned(),
                    "rename it",
                );
                continue;
            }
            let Ok(file_type) = entry.file_type() else {
                continue;
            };
            self.listing.has_links |= file_type.is_symlink();
            if file_type.is_symlink() && !self.stays_inside(kind, &path) {
                continue;
            }
            // Only a symlink needs a second look at its target.
            let is_folder = if file_type.is_symlink() {
                path.is_dir()
            } else {
                file_type.is_dir()
            };
            if is_folder {
                self.subfolder(kind, root, &path, category, &name, (depth, listed_in));
            } else {
                self.file(kind, root, path, category, &name, (file_type, listed_in));
            }
        }
    }

    fn subfolder(
        &mut self,
        kind: ItemKind,
        root: Root,
        path: &Path,
        category: &str,
        name: &str,
        (depth, listed_in): (usize, usize),
    ) {
        if depth >= MAX_DEPTH {
            self.refuse(
                kind,
                Code::NestingLimit,
                path,
                format!("more than {MAX_DEPTH} folders deep"),
                "move the items up",
            );
            return;
        }
        if kind == ItemKind::Tool
            && let Some((manifest, is_link)) = find_manifest(path)
        {
            if is_link {
                self.listing.has_links = true;
                if !self.stays_inside(kind, &manifest) {
                    return;
                }
            }
            // Of several manifests the first counts; a preferred one may have just been created.
            let (manifest, is_link) = if manifest.ends_with(MANIFESTS[0]) {
                (manifest, is_link)
            } else {
                self.listing
                    .folders
                    .push((path.to_path_buf(), FileStat::of(path, Links::Followed)));
                find_manifest(path).unwrap_or((manifest, is_link))
            };
            let in_lib = category.split('/').any(|part| part == "lib");
            let folder = Some(path.to_path_buf());
            let category = category.to_owned();
            let is_regular = !is_link;
            self.listing.found.push(FileCandidate {
                kind,
                root,
                path: manifest,
                folder,
                in_lib,
                category,
                is_regular,
                listed_in,
            });
            return;
        }
        let category = if category.is_empty() {
            name.to_owned()
        } else {
            format!("{category}/{name}")
        };
        self.folder(kind, root, path, &category, depth + 1);
    }

    fn file(
        &mut self,
        kind: ItemKind,
        root: Root,
        path: PathBuf,
        category: &str,
        name: &str,
        (file_type, listed_in): (fs::FileType, usize),
    ) {
        let is_markdown = Path::new(name)
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
        let wanted = match kind {
            ItemKind::Tool => !is_markdown && !is_companion(Path::new(name)),
            ItemKind::Directive | ItemKind::Knowledge => {
                is_markdown && !name.eq_ignore_ascii_case("readme.md")
            }
        };
        if !wanted && kind != ItemKind::Tool && is_text(name) {
            self.refuse(
                kind,
                Code::IgnoredFile,
                &path,
                "only Markdown files that end in `.md` are read here".to_owned(),
                "rename it",
            );
        }
        if wanted {
            let in_lib = category.split('/').any(|part| part == "lib");
            let category = category.to_owned();
            let is_regular = file_type.is_file();
            self.listing.found.push(FileCandidate {
                kind,
                root,
                path,
                folder: None,
                in_lib,
                category,
                is_regular,
                listed_in,
            });
        }
    }

    /// Whether a symlink may be followed; a folder is followed once.
    fn stays_inside(&mut self, kind: ItemKind, link: &Path) -> bool {
        let Ok(target) = fs::canonicalize(link) else {
            self.refuse(
                kind,
                Code::UnreadableFile,
                link,
                "the link leads nowhere".to_owned(),
                "remove it or fix its target",
            );
            return false;
        };
        let inside =
            |base: &Path| fs::canonicalize(base).is_ok_and(|base| target.starts_with(base));
        if !inside(self.project) && !inside(self.ai) {
            self.refuse(
                kind,
                Code::PathEscape,
                link,
                "the link leaves the project".to_owned(),
                "copy the file into the project",
            );
            return false;
        }
        let own = link
            .parent()
            .and_then(|folder| fs::canonicalize(folder).ok());
        if own.is_some_and(|own| own.starts_with(&target)) {
            self.refuse(
                kind,
                Code::UnreadableFile,
                link,
                "the link leads to a folder it lies in".to_owned(),
                "remove it: what it leads to is read anyway",
            );
            return false;
        }
        self.seen.insert(target)
    }

    fn refuse(
        &mut self,
        kind: ItemKind,
        code: Code,
        path: &Path,
        message: String,
        suggestion: &str,
    ) {
        let shown = path.strip_prefix(self.project).unwrap_or(path);
        let mut findings = Findings::new(shown, self.strength);
        findings
            .add(code, Position::START, "", message)
            .suggest(suggestion);
        let refused = |finding| Refused {
            kind,
            path: path.to_path_buf(),
            finding,
        };
        self.listing
            .refused
            .extend(findings.into_vec().into_iter().map(refused));
    }
}
