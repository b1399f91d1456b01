//! Reads items that do not lie in the folders of a project: files and folders that a user names.

use std::ffi::OsStr;
use std::path::Path;

use super::load::{keep, load, refuse};
use super::walk::{self, FileCandidate, ItemKind, StoreListing};
use super::{ItemStore, Layer};
use crate::item::finding::{Finding, Findings, Strength};
use crate::item::signature;
use crate::item::source::{MAX_DEPTH, MAX_TEXT, SourceFile};
use crate::item::tool::Root;
use crate::problem::Code;

/// Reads a file, a tool folder or a folder of those outside of the item folders.
pub(super) fn adopt(store: &mut ItemStore, path: &Path, strength: Strength, depth: usize) -> bool {
    let (file, folder) = match walk::folder_manifest(path) {
        Some(manifest) => (manifest, Some(path.to_path_buf())),
        None if path.is_dir() => return adopt_each(store, path, strength, depth),
        None => (path.to_path_buf(), None),
    };
    let kind = guess_kind(&file);
    let candidate = FileCandidate {
        kind,
        root: Root::Tools,
        path: file,
        folder,
        in_lib: false,
        category: String::new(),
        is_regular: false,
        listed_in: 0,
    };
    let (item, findings) = load(store, Layer::Project, &candidate, strength);
    // In an arbitrary folder, a file without any sign of an item is not meant to be one.
    if item.is_none() && (findings.is_empty() || depth > 0 && shows_no_sign(&findings)) {
        return false;
    }
    keep(store, Layer::Project, &candidate, item, &findings);
    store.findings.extend(findings);
    true
}

fn shows_no_sign(findings: &[Finding]) -> bool {
    let lacks = |field: &str| {
        findings
            .iter()
            .any(|f| f.code == Code::MissingRequiredField && f.path == field)
    };
    findings
        .iter()
        .any(|finding| matches!(finding.code, Code::NoDirective | Code::MissingMetadata))
        || lacks("tool_id") && lacks("tool_type")
}

/// Reads a nested project: a folder `.ai/` with the usual layout.
fn adopt_items(store: &mut ItemStore, ai: &Path, strength: Strength) -> bool {
    let root = ai.parent().unwrap_or(ai);
    let StoreListing {
        found: candidates,
        refused,
        ..
    } = walk::candidates(ai, root, strength);
    let mut adopted = !refused.is_empty();
    for mut finding in refuse(store, Layer::Project, refused) {
        finding.file = store.roots.display(&root.join(&finding.file));
        store.findings.push(finding);
    }
    for candidate in &candidates {
        let (item, found) = load(store, Layer::Project, candidate, strength);
        adopted |= item.is_some() || !found.is_empty();
        keep(store, Layer::Project, candidate, item, &found);
        store.findings.extend(found);
    }
    adopted
}

fn adopt_each(store: &mut ItemStore, folder: &Path, strength: Strength, depth: usize) -> bool {
    let entries = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    if folder.file_name() == Some(OsStr::new(".ai")) {
        return adopt_items(store, folder, strength);
    }
    if folder.file_name() == Some(OsStr::new(".git")) {
        return false;
    }
    let wanted = |name: &OsStr| {
        let name = name.to_string_lossy();
        name == ".ai"
            || !name.starts_with('.') && !signature::UNSTAMPED_FOLDERS.contains(&name.as_ref())
    };
    let entries = entries.filter(|entry| wanted(&entry.file_name()));
    let mut paths: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| !path.is_symlink())
        .collect();
    paths.sort();
    let mut adopted = false;
    for path in paths {
        if depth < MAX_DEPTH {
            adopted |= adopt(store, &path, strength, depth + 1);
        }
    }
    adopted
}

fn guess_kind(path: &Path) -> ItemKind {
    if !path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("md"))
    {
        return ItemKind::Tool;
    }
    let mut ignored = Findings::new(path, Strength::Lenient);
    match SourceFile::load(path, MAX_TEXT, &mut ignored) {
        Some(source)
            if source.text[signature::after_stamp(&source.text)..]
                .trim_start()
                .starts_with("---") =>
        {
            ItemKind::Knowledge
        }
        _ => ItemKind::Directive,
    }
}
