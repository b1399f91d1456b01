//! Turning candidate files into items, in parallel.

use std::ffi::OsStr;
use std::path::Path;

use rayon::prelude::*;

use super::walk::{self, Candidate, ItemKind};
use super::{Content, Item, ItemStore, Layer};
use crate::item::code::Code;
use crate::item::extractor::{self, Extractor};
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::id::ItemId;
use crate::item::place::Place;
use crate::item::signature::{self, Integrity};
use crate::item::source::{MAX_DOCUMENT, MAX_TEXT, SourceFile};
use crate::item::tool::{self, LoadedTool, Reading, Root, Surroundings};
use crate::item::{directive, knowledge};

/// The ids of the primitives, which no file may describe.
pub(crate) const PRIMITIVES: [&str; 2] = ["subprocess", "http_client"];

/// Reads one layer into the store.
pub(super) fn layer(store: &mut ItemStore, layer: Layer, strength: Strength) {
    let root = match layer {
        Layer::Project => store.roots.project.clone(),
        Layer::User => store.roots.user.clone(),
        Layer::Builtin => None,
    };
    let Some(root) = root else { return };
    let ai = root.join(".ai");
    let (candidates, mut findings) = walk::candidates(&ai, &root, strength);
    let extractors = extractors(store, &ai, strength, &mut findings);
    // A project's rules come first: they were read first.
    store.extractors.extend(extractors);
    let loaded: Vec<(Option<Item>, Vec<Finding>)> =
        candidates.par_iter().map(|candidate| load(store, layer, candidate, strength)).collect();
    for (candidate, (item, found)) in candidates.iter().zip(loaded) {
        if item.is_none()
            && let Some(first) = found.iter().find(|finding| finding.severity == Severity::Error)
        {
            store.broken.push((candidate.kind, suggested_name(candidate), first.clone()));
        }
        store.items.extend(item);
        findings.extend(found);
    }
    // Other people's mistakes in the user's layer are not findings of this project.
    if layer == Layer::Project {
        store.findings.extend(findings);
    }
}

/// Reads a file, a tool folder or a folder of such that lies outside the folders of items.
pub(super) fn adopt(store: &mut ItemStore, path: &Path, strength: Strength, depth: usize) -> bool {
    let (file, folder) = match walk::folder_manifest(path) {
        Some(manifest) => (manifest, Some(path.to_path_buf())),
        None if path.is_dir() => return adopt_each(store, path, strength, depth),
        None => (path.to_path_buf(), None),
    };
    let kind = guess_kind(&file);
    let candidate = Candidate { kind, root: Root::Tools, path: file, folder, in_lib: false, category: String::new() };
    let (item, findings) = load(store, Layer::Project, &candidate, strength);
    let adopted = item.is_some() || !findings.is_empty();
    store.items.extend(item);
    store.findings.extend(findings);
    adopted
}

fn adopt_each(store: &mut ItemStore, folder: &Path, strength: Strength, depth: usize) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(|path| !path.is_symlink()).collect();
    paths.sort();
    let mut adopted = false;
    for path in paths {
        if depth < walk::MAX_DEPTH {
            adopted |= adopt(store, &path, strength, depth + 1);
        }
    }
    adopted
}

fn guess_kind(path: &Path) -> ItemKind {
    if !path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md")) {
        return ItemKind::Tool;
    }
    let mut ignored = Findings::new(path, Strength::Lenient);
    match SourceFile::load(path, MAX_TEXT, &mut ignored) {
        Some(source) if source.text[signature::after_stamp(&source.text)..].trim_start().starts_with("---") => {
            ItemKind::Knowledge
        }
        _ => ItemKind::Directive,
    }
}

fn extractors(store: &ItemStore, ai: &Path, strength: Strength, found: &mut Vec<Finding>) -> Vec<Extractor> {
    let mut list = Vec::new();
    for path in walk::plain_files(&ai.join("extractors")) {
        let mut findings = Findings::new(&store.roots.display(&path), strength);
        match path.extension().and_then(OsStr::to_str) {
            Some("yaml" | "yml") => {
                if let Some(source) = SourceFile::load(&path, MAX_DOCUMENT, &mut findings) {
                    list.extend(extractor::parse(&source, &mut findings));
                }
            }
            Some("py") => {
                findings
                    .add(Code::CodeNotExecuted, Place::START, "", "an extractor written in Python is not executed")
                    .suggest("write its rules as YAML: `field: {pattern: …, source: content}`");
            }
            _ => {}
        }
        found.extend(findings.into_vec());
    }
    list
}

fn load(store: &ItemStore, layer: Layer, candidate: &Candidate, strength: Strength) -> (Option<Item>, Vec<Finding>) {
    let mut findings = Findings::new(&store.roots.display(&candidate.path), strength);
    let item = read(store, layer, candidate, &mut findings);
    (item, findings.into_vec())
}

fn read(store: &ItemStore, layer: Layer, candidate: &Candidate, findings: &mut Findings) -> Option<Item> {
    let limit = match candidate.path.extension().and_then(OsStr::to_str) {
        Some("yaml" | "yml" | "json") => MAX_DOCUMENT,
        _ => MAX_TEXT,
    };
    if candidate.kind == ItemKind::Tool && !tool::may_be_tool(&candidate.path, &store.extractors) {
        return None;
    }
    let source = SourceFile::load(&candidate.path, limit, findings)?;
    let (id, category, content, integrity) = match candidate.kind {
        ItemKind::Directive => {
            let directive = directive::parse(&source, findings)?;
            let integrity = signature::check_directive(&source.raw(), directive.name.as_str(), &directive.version);
            (directive.name.clone(), directive.category.clone(), Content::Directive(Box::new(directive)), integrity)
        }
        ItemKind::Knowledge => {
            let entry = knowledge::parse(&source, findings)?;
            (
                entry.id.clone(),
                entry.category.clone(),
                Content::Knowledge(Box::new(entry)),
                signature::check(&source.raw()),
            )
        }
        ItemKind::Tool => {
            let around = Surroundings {
                folder: candidate.folder.as_deref(),
                root: candidate.root,
                in_lib: candidate.in_lib,
                extractors: &store.extractors,
            };
            let Reading::Tool(tool) = tool::read(&source, &around, findings) else { return None };
            if shadows_primitive(&tool, findings) {
                return None;
            }
            let integrity = tool_integrity(&source, candidate, findings);
            (tool.manifest.tool_id.clone(), tool.manifest.category.clone(), Content::Tool(tool), integrity)
        }
    };
    let category = if category.is_empty() { candidate.category.clone() } else { category };
    Some(Item {
        layer,
        id,
        category,
        folder_category: candidate.category.clone(),
        file: candidate.path.clone(),
        integrity,
        content,
        legacy_root: candidate.root == Root::Scripts,
    })
}

fn shadows_primitive(tool: &LoadedTool, findings: &mut Findings) -> bool {
    let id = tool.manifest.tool_id.as_str();
    if !PRIMITIVES.contains(&id) {
        return false;
    }
    let place = tool.node.find("tool_id").map_or(Place::START, |node| node.place);
    findings
        .add(Code::PrimitiveShadowed, place, "tool_id", format!("`{id}` is a primitive: this file is ignored"))
        .suggest("remove the file, or give the tool another id");
    true
}

fn tool_integrity(source: &SourceFile, candidate: &Candidate, findings: &mut Findings) -> Integrity {
    if let Some(folder) = &candidate.folder {
        return signature::check_folder(folder, &candidate.path, &source.raw()).unwrap_or_else(|err| {
            findings
                .add(Code::UnreadableFile, Place::START, "", format!("cannot read every file of the tool: {err}"))
                .suggest("check that they are there and their permissions");
            Integrity::Unsigned
        });
    }
    if candidate.path.extension().is_some_and(|ending| ending == "json") {
        let mut detached = candidate.path.clone().into_os_string();
        detached.push(".sig");
        return match std::fs::read(&detached) {
            Ok(stamp) => signature::check_detached(&String::from_utf8_lossy(&stamp), &source.raw()),
            Err(_) => Integrity::Unsigned,
        };
    }
    signature::check(&source.raw())
}

/// The id a file's name suggests, so that a broken file is not reported as a missing one.
fn suggested_name(candidate: &Candidate) -> String {
    let path = candidate.folder.as_deref().unwrap_or(&candidate.path);
    let stem = if candidate.folder.is_some() { path.file_name() } else { path.file_stem() };
    let name = stem.and_then(OsStr::to_str).unwrap_or_default();
    name.parse::<ItemId>().map(|id| id.to_string()).unwrap_or_default()
}
