//! Reads candidate files into items, in parallel.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::parse::{id_of, integrity, listed_requirements, main_parameters, parse, suggested_name};
use super::walk::{self, FileCandidate, ItemKind, Refused, StoreListing};
use super::{BrokenItem, Item, ItemContent, ItemStore, Layer, Roots};
use crate::item::extractor::{self, Extractor};
use crate::item::file_stat::{FileStat, Links};
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::position::Position;
use crate::item::source::{
    MAX_DOCUMENT, MAX_TEXT, SourceFile, Unread, files_below, leaves, read_bytes, read_seen,
};
use crate::item::tool::{self, Root};
use crate::item::validate;
use crate::problem::Code;

/// Up to this many files no threads are started.
const FEW: usize = 24;

/// The ids of the primitives, which no file may use.
pub(crate) const PRIMITIVES: [&str; 2] = ["subprocess", "http_client"];

pub(super) fn layer(store: &mut ItemStore, layer: Layer, strength: Strength) {
    let root = match layer {
        Layer::Project => store.roots.project.clone(),
        Layer::User => store.roots.user.clone(),
        Layer::Builtin => None,
    };
    let Some(root) = root else { return };
    let ai = root.join(".ai");
    // Users may keep their own items elsewhere and link to them; a project's `.ai/` must be inside
    // the project.
    if layer == Layer::Project && leaves(&ai, &root) {
        store.findings.extend(escape(Path::new(".ai"), strength));
        return;
    }
    let StoreListing {
        found: candidates,
        refused,
        ..
    } = walk::candidates(&ai, &root, strength);
    let mut findings = refuse(store, layer, refused);
    let extractors = extractors(&store.roots, &ai, strength, &mut findings);
    // The project's rules come first, because its layer is read first.
    store.extractors.extend(extractors);
    let load_one = |candidate: &FileCandidate| load(store, layer, candidate, strength);
    // Starting threads takes longer than reading a few files.
    let loaded: Vec<(Option<Item>, Vec<Finding>)> = match candidates.len() {
        ..FEW => candidates.iter().map(load_one).collect(),
        _ => candidates.par_iter().map(load_one).collect(),
    };
    for (candidate, (item, found)) in candidates.iter().zip(loaded) {
        keep(store, layer, candidate, item, &found);
        findings.extend(found);
    }
    forgive_entrypoints(store, layer, &mut findings);
    // Mistakes in the user's layer are not findings of this project.
    if layer == Layer::Project {
        store.findings.extend(findings);
    }
}

/// A script that is the entrypoint of a manifest beside it needs no metadata of its own.
fn forgive_entrypoints(store: &mut ItemStore, layer: Layer, findings: &mut Vec<Finding>) {
    let tools = store
        .items
        .iter()
        .filter(|item| item.layer == layer)
        .filter_map(Item::as_tool);
    let single = tools.filter(|tool| tool.folder.is_none());
    let started: HashSet<PathBuf> = single.filter_map(validate::entrypoint).collect();
    store.broken.retain(|broken| {
        broken.finding.code != Code::MissingMetadata || !started.contains(&broken.file)
    });
    let shown: HashSet<PathBuf> = started
        .iter()
        .map(|path| store.roots.display(path))
        .collect();
    findings
        .retain(|finding| finding.code != Code::MissingMetadata || !shown.contains(&finding.file));
}

/// Keeps an item, or records that its file is broken.
pub(super) fn keep(
    store: &mut ItemStore,
    layer: Layer,
    candidate: &FileCandidate,
    item: Option<Item>,
    found: &[Finding],
) {
    if item.as_ref().is_none_or(|item| !item.named)
        && let Some(first) = found
            .iter()
            .find(|finding| finding.severity == Severity::Error)
    {
        store.broken.push(BrokenItem {
            layer,
            kind: candidate.kind,
            name: suggested_name(candidate),
            file: candidate
                .folder
                .clone()
                .unwrap_or_else(|| candidate.path.clone()),
            finding: first.clone(),
        });
    }
    store.items.extend(item);
}

/// Records refused files as broken; returns why.
pub(super) fn refuse(store: &mut ItemStore, layer: Layer, refused: Vec<Refused>) -> Vec<Finding> {
    let findings = refused
        .iter()
        .map(|refused| refused.finding.clone())
        .collect();
    store.broken.extend(refused.into_iter().map(
        |Refused {
             kind,
             path: file,
             finding,
         }| {
            let name = id_of(file.file_stem());
            BrokenItem {
                layer,
                kind,
                name,
                file,
                finding,
            }
        },
    ));
    findings
}

fn escape(link: &Path, strength: Strength) -> Vec<Finding> {
    let mut findings = Findings::new(link, strength);
    findings
        .add(
            Code::PathEscape,
            Position::START,
            "",
            "the link leaves the project",
        )
        .suggest("copy what it leads to into the project");
    findings.into_vec()
}

/// Reads the extractor rules of one `.ai/`.
pub(in crate::item) fn extractors(
    roots: &Roots,
    ai: &Path,
    strength: Strength,
    found: &mut Vec<Finding>,
) -> Vec<Extractor> {
    let mut list = Vec::new();
    let folder = ai.join("extractors");
    if leaves(&folder, ai) && leaves(&folder, ai.parent().unwrap_or(ai)) {
        found.extend(escape(&roots.display(&folder), strength));
        return list;
    }
    for (path, listed) in files_below(&folder) {
        let mut findings = Findings::new(&roots.display(&path), strength);
        match listed {
            Ok(()) if path.is_symlink() && leaves(&path, ai) => {
                findings.extend(escape(findings.file(), strength));
            }
            Ok(()) => list.extend(extractor::load(&path, &mut findings)),
            Err(unread) => unread.report(&mut findings),
        }
        found.extend(findings.into_vec());
    }
    list
}

pub(super) fn load(
    store: &ItemStore,
    layer: Layer,
    candidate: &FileCandidate,
    strength: Strength,
) -> (Option<Item>, Vec<Finding>) {
    let mut findings = Findings::new(&store.roots.display(&candidate.path), strength);
    let item = read(store, layer, candidate, &mut findings);
    (item, findings.into_vec())
}

fn read(
    store: &ItemStore,
    layer: Layer,
    candidate: &FileCandidate,
    findings: &mut Findings,
) -> Option<Item> {
    if !may_be_item(candidate, &store.extractors) {
        return None;
    }
    let source = match content(candidate).1 {
        Ok(bytes) => SourceFile::decode(&candidate.path, bytes, findings)?,
        Err(unread) => {
            unread.report(findings);
            return None;
        }
    };
    let mut item = complete(store, layer, candidate, &source, findings)?;
    item.integrity = integrity(&item, &source, candidate, findings);
    Some(item)
}

/// Reads an item from its file, and what the files beside it add.
fn complete(
    store: &ItemStore,
    layer: Layer,
    candidate: &FileCandidate,
    source: &SourceFile,
    findings: &mut Findings,
) -> Option<Item> {
    let mut item = parse(layer, candidate, source, &store.extractors, findings)?;
    if let ItemContent::Tool(tool) = &mut item.content {
        listed_requirements(tool, &store.roots, findings);
        main_parameters(tool);
    }
    let errors = findings
        .as_slice()
        .iter()
        .filter(|found| found.severity == Severity::Error);
    item.errors = errors.cloned().collect();
    Some(item)
}

/// Whether the file name alone makes it worth reading.
pub(in crate::item) fn is_item_by_name(
    candidate: &FileCandidate,
    extractors: &[Extractor],
) -> bool {
    candidate.kind != ItemKind::Tool || tool::is_tool_by_name(&candidate.path, extractors)
}

/// Reads an item as if its file contained `text`. Its stamp is not checked.
pub(super) fn reread(
    store: &ItemStore,
    item: &Item,
    text: &str,
    strength: Strength,
) -> (Option<Item>, Vec<Finding>) {
    let candidate = FileCandidate {
        kind: item.kind(),
        root: if item.legacy_root {
            Root::Scripts
        } else {
            Root::Tools
        },
        path: item.file.clone(),
        folder: item.as_tool().and_then(|tool| tool.folder.clone()),
        in_lib: item.folder_category.split('/').any(|part| part == "lib"),
        category: item.folder_category.clone(),
        listed_in: 0,
        is_regular: false,
    };
    read_text(store, item.layer, &candidate, text, strength)
}

/// Reads a text as if it were in this file of the project.
pub(super) fn preview(
    store: &ItemStore,
    kind: ItemKind,
    path: &Path,
    text: &str,
    strength: Strength,
) -> (Option<Item>, Vec<Finding>) {
    let is_folder = kind == ItemKind::Tool && path.file_stem().is_some_and(|name| name == "tool");
    let candidate = FileCandidate {
        kind,
        root: Root::Tools,
        path: path.to_path_buf(),
        folder: path.parent().filter(|_| is_folder).map(Path::to_path_buf),
        in_lib: false,
        category: String::new(),
        listed_in: 0,
        is_regular: false,
    };
    read_text(store, Layer::Project, &candidate, text, strength)
}

fn read_text(
    store: &ItemStore,
    layer: Layer,
    candidate: &FileCandidate,
    text: &str,
    strength: Strength,
) -> (Option<Item>, Vec<Finding>) {
    let mut findings = Findings::new(&store.roots.display(&candidate.path), strength);
    let limit = size_limit(candidate);
    let item = if text.len() as u64 > limit {
        Unread::TooLarge { limit }.report(&mut findings);
        None
    } else {
        let source = SourceFile::decode(&candidate.path, text.as_bytes().to_vec(), &mut findings);
        source.and_then(|source| complete(store, layer, candidate, &source, &mut findings))
    };
    (item, findings.into_vec())
}

pub(in crate::item) fn may_be_item(candidate: &FileCandidate, extractors: &[Extractor]) -> bool {
    candidate.kind != ItemKind::Tool || tool::may_be_tool(&candidate.path, extractors)
}

/// The content of a candidate, and its metadata from before the read.
pub(in crate::item) fn content(candidate: &FileCandidate) -> (FileStat, Result<Vec<u8>, Unread>) {
    let (path, limit) = (&candidate.path, size_limit(candidate));
    if candidate.is_regular {
        return read_seen(path, limit);
    }
    (FileStat::of(path, Links::Followed), read_bytes(path, limit))
}

fn size_limit(candidate: &FileCandidate) -> u64 {
    match candidate.path.extension().and_then(OsStr::to_str) {
        Some("yaml" | "yml" | "json") => MAX_DOCUMENT,
        _ => MAX_TEXT,
    }
}
