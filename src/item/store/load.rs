//! Reads candidate files into items, in parallel.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::walk::{self, Candidate, ItemKind, Listing, Refused};
use super::{BrokenItem, Content, Item, ItemStore, Layer, Roots};
use crate::item::extractor::{self, Extractor};
use crate::item::file_stat::{FileStat, Links};
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::id::ItemId;
use crate::item::place::Place;
use crate::item::signature::{self, Integrity, StampLocation};
use crate::item::source::{
    MAX_DEPTH, MAX_DOCUMENT, MAX_TEXT, SourceFile, Unread, files_below, leaves, read_bytes, read_seen,
};
use crate::item::tool::{self, LoadedTool, Origin, Reading, Root, Surroundings};
use crate::item::{directive, knowledge, validate};
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
    let Listing { found: candidates, refused, .. } = walk::candidates(&ai, &root, strength);
    let mut findings = refuse(store, layer, refused);
    let extractors = extractors(&store.roots, &ai, strength, &mut findings);
    // The project's rules come first, because its layer is read first.
    store.extractors.extend(extractors);
    let load_one = |candidate: &Candidate| load(store, layer, candidate, strength);
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
    let tools = store.items.iter().filter(|item| item.layer == layer).filter_map(Item::as_tool);
    let single = tools.filter(|tool| tool.folder.is_none());
    let started: HashSet<PathBuf> = single.filter_map(validate::entrypoint).collect();
    store.broken.retain(|broken| broken.finding.code != Code::MissingMetadata || !started.contains(&broken.file));
    let shown: HashSet<PathBuf> = started.iter().map(|path| store.roots.display(path)).collect();
    findings.retain(|finding| finding.code != Code::MissingMetadata || !shown.contains(&finding.file));
}

/// Keeps an item, or records that its file is broken.
fn keep(store: &mut ItemStore, layer: Layer, candidate: &Candidate, item: Option<Item>, found: &[Finding]) {
    if item.as_ref().is_none_or(|item| !item.named)
        && let Some(first) = found.iter().find(|finding| finding.severity == Severity::Error)
    {
        store.broken.push(BrokenItem {
            layer,
            kind: candidate.kind,
            name: suggested_name(candidate),
            file: candidate.folder.clone().unwrap_or_else(|| candidate.path.clone()),
            finding: first.clone(),
        });
    }
    store.items.extend(item);
}

/// Records refused files as broken; returns why.
fn refuse(store: &mut ItemStore, layer: Layer, refused: Vec<Refused>) -> Vec<Finding> {
    let findings = refused.iter().map(|refused| refused.finding.clone()).collect();
    store.broken.extend(refused.into_iter().map(|Refused { kind, path: file, finding }| {
        let name = id_of(file.file_stem());
        BrokenItem { layer, kind, name, file, finding }
    }));
    findings
}

fn escape(link: &Path, strength: Strength) -> Vec<Finding> {
    let mut findings = Findings::new(link, strength);
    findings
        .add(Code::PathEscape, Place::START, "", "the link leaves the project")
        .suggest("copy what it leads to into the project");
    findings.into_vec()
}

/// Reads a file, a tool folder or a folder of those outside of the item folders.
pub(super) fn adopt(store: &mut ItemStore, path: &Path, strength: Strength, depth: usize) -> bool {
    let (file, folder) = match walk::folder_manifest(path) {
        Some(manifest) => (manifest, Some(path.to_path_buf())),
        None if path.is_dir() => return adopt_each(store, path, strength, depth),
        None => (path.to_path_buf(), None),
    };
    let kind = guess_kind(&file);
    let candidate = Candidate {
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
    let lacks = |field: &str| findings.iter().any(|f| f.code == Code::MissingRequiredField && f.path == field);
    findings.iter().any(|finding| matches!(finding.code, Code::NoDirective | Code::MissingMetadata))
        || lacks("tool_id") && lacks("tool_type")
}

/// Reads a nested project: a folder `.ai/` with the usual layout.
fn adopt_items(store: &mut ItemStore, ai: &Path, strength: Strength) -> bool {
    let root = ai.parent().unwrap_or(ai);
    let Listing { found: candidates, refused, .. } = walk::candidates(ai, root, strength);
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
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    if folder.file_name() == Some(OsStr::new(".ai")) {
        return adopt_items(store, folder, strength);
    }
    if folder.file_name() == Some(OsStr::new(".git")) {
        return false;
    }
    let wanted = |name: &OsStr| {
        let name = name.to_string_lossy();
        name == ".ai" || !name.starts_with('.') && !signature::UNSTAMPED_FOLDERS.contains(&name.as_ref())
    };
    let entries = entries.filter(|entry| wanted(&entry.file_name()));
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(|path| !path.is_symlink()).collect();
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
            Ok(()) if path.is_symlink() && leaves(&path, ai) => findings.extend(escape(findings.file(), strength)),
            Ok(()) => list.extend(extractor::load(&path, &mut findings)),
            Err(unread) => unread.report(&mut findings),
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
    candidate: &Candidate,
    source: &SourceFile,
    findings: &mut Findings,
) -> Option<Item> {
    let mut item = parse(layer, candidate, source, &store.extractors, findings)?;
    if let Content::Tool(tool) = &mut item.content {
        listed_requirements(tool, &store.roots, findings);
        main_parameters(tool);
    }
    Some(item)
}

/// Whether the file name alone makes it worth reading.
pub(in crate::item) fn is_item_by_name(candidate: &Candidate, extractors: &[Extractor]) -> bool {
    candidate.kind != ItemKind::Tool || tool::is_tool_by_name(&candidate.path, extractors)
}

/// Reads an item as if its file contained `text`. Its stamp is not checked.
pub(super) fn reread(store: &ItemStore, item: &Item, text: &str, strength: Strength) -> (Option<Item>, Vec<Finding>) {
    let candidate = Candidate {
        kind: item.kind(),
        root: if item.legacy_root { Root::Scripts } else { Root::Tools },
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
    let candidate = Candidate {
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
    candidate: &Candidate,
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

pub(in crate::item) fn may_be_item(candidate: &Candidate, extractors: &[Extractor]) -> bool {
    candidate.kind != ItemKind::Tool || tool::may_be_tool(&candidate.path, extractors)
}

/// The content of a candidate, and its metadata from before the read.
pub(in crate::item) fn content(candidate: &Candidate) -> (FileStat, Result<Vec<u8>, Unread>) {
    let (path, limit) = (&candidate.path, size_limit(candidate));
    if candidate.is_regular {
        return read_seen(path, limit);
    }
    (FileStat::of(path, Links::Followed), read_bytes(path, limit))
}

fn size_limit(candidate: &Candidate) -> u64 {
    match candidate.path.extension().and_then(OsStr::to_str) {
        Some("yaml" | "yml" | "json") => MAX_DOCUMENT,
        _ => MAX_TEXT,
    }
}

/// Reads an item without any other file; [`integrity`] checks its stamp.
pub(in crate::item) fn parse(
    layer: Layer,
    candidate: &Candidate,
    source: &SourceFile,
    extractors: &[Extractor],
    findings: &mut Findings,
) -> Option<Item> {
    let mut named = true;
    let (id, category, content) = match candidate.kind {
        ItemKind::Directive => {
            let directive = directive::parse(source, findings)?;
            (directive.name.clone(), directive.category.clone(), Content::Directive(Box::new(directive)))
        }
        ItemKind::Knowledge => {
            let entry = knowledge::parse(source, findings)?;
            (entry.id.clone(), entry.category.clone(), Content::Knowledge(Box::new(entry)))
        }
        ItemKind::Tool => {
            let around = Surroundings {
                folder: candidate.folder.as_deref(),
                root: candidate.root,
                in_lib: candidate.in_lib,
                extractors,
            };
            let tool = match tool::read(source, &around, findings) {
                Reading::Tool(tool) => tool,
                Reading::Unnamed(tool) => {
                    named = false;
                    tool
                }
                Reading::NotATool | Reading::Broken => return None,
            };
            if named && shadows_primitive(&tool, findings) {
                return None;
            }
            (tool.manifest.tool_id.clone(), tool.manifest.category.clone(), Content::Tool(tool))
        }
    };
    let category = if category.is_empty() { candidate.category.clone() } else { category };
    Some(Item {
        layer,
        id,
        category,
        folder_category: candidate.category.clone(),
        file: candidate.path.clone(),
        integrity: Integrity::Unsigned,
        content,
        legacy_root: candidate.root == Root::Scripts,
        named,
    })
}

pub(in crate::item) fn integrity(
    item: &Item,
    source: &SourceFile,
    candidate: &Candidate,
    findings: &mut Findings,
) -> Integrity {
    match &item.content {
        Content::Directive(directive) => {
            signature::check_directive(&candidate.path, &source.raw(), directive.name.as_str(), &directive.version)
        }
        Content::Knowledge(_) => signature::check(&candidate.path, &source.raw()),
        Content::Tool(_) => tool_integrity(source, candidate, findings),
    }
}

/// A `requirements.txt` in a tool folder lists dependencies like the manifest.
fn listed_requirements(tool: &mut LoadedTool, roots: &Roots, findings: &mut Findings) {
    let Some(path) = tool.folder.as_ref().map(|folder| folder.join("requirements.txt")) else { return };
    if std::fs::symlink_metadata(&path).is_err() {
        return;
    }
    let mut own = Findings::new(&roots.display(&path), findings.strength());
    let source = if tool.folder.as_ref().is_some_and(|folder| leaves(&path, folder)) {
        own.add(Code::PathEscape, Place::START, "", "the link leaves the tool's folder")
            .suggest("copy the file into the tool's folder");
        None
    } else {
        SourceFile::load(&path, MAX_DOCUMENT, &mut own)
    };
    findings.extend(own.into_vec().into_iter().filter(|finding| finding.code != Code::EmptyFile));
    let Some(source) = source else { return };
    for (number, line) in (1..).zip(source.text.lines()) {
        let line = line.split(" #").next().unwrap_or_default().trim_end_matches('\\').trim();
        // Lines with a dash are options of pip, not packages.
        if line.is_empty() || line.starts_with(['#', '-']) || tool.manifest.dependencies.iter().any(|d| d == line) {
            continue;
        }
        let place = Place { line: number, column: 1 };
        let key = format!("dependencies[{}]", tool.manifest.dependencies.len());
        tool.elsewhere.insert(key, Origin::new(path.clone(), place));
        tool.manifest.dependencies.push(line.to_owned());
    }
}

/// A manifest without parameters uses those of its Python entrypoint.
fn main_parameters(tool: &mut LoadedTool) {
    if !tool::entrypoint::speaks_for(tool) {
        return;
    }
    let script = validate::entrypoint(tool).filter(|path| path.extension().is_some_and(|ending| ending == "py"));
    let Some(script) = script else { return };
    let mut unread = Findings::new(&script, Strength::Lenient);
    if let Some(source) = SourceFile::load(&script, MAX_TEXT, &mut unread) {
        tool::entrypoint::read_main(tool, &source);
    }
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
    let raw = source.raw();
    let stamp = match signature::stamp_location(&candidate.path, &raw) {
        StampLocation::Comment(..) => None,
        StampLocation::Beside => match read_bytes(&signature::detached_file(&candidate.path), MAX_DOCUMENT) {
            Ok(stamp) => Some(String::from_utf8_lossy(&stamp).into_owned()),
            Err(Unread::Failed(err)) if err.kind() == std::io::ErrorKind::NotFound => {
                let is_json = candidate.path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
                // Another program may have put a stamp into the file anyway; in JSON such a line is
                // data.
                return if is_json { Integrity::Unsigned } else { signature::check(&candidate.path, &raw) };
            }
            Err(_) => return Integrity::Invalid { reason: "the file of the stamp cannot be read", line: 1 },
        },
    };
    let is_beside = stamp.is_some();
    let checked = match (&candidate.folder, stamp) {
        (None, None) => return signature::check(&candidate.path, &raw),
        (None, Some(stamp)) => return signature::check_detached(&stamp, &raw),
        (Some(folder), None) => signature::check_folder(folder, &candidate.path, &raw),
        (Some(folder), Some(stamp)) => signature::check_folder_detached(folder, &candidate.path, &stamp, &raw),
    };
    checked.unwrap_or_else(|err| {
        findings
            .add(Code::UnreadableFile, Place::START, "", format!("cannot read every file of the tool: {err}"))
            .suggest("check that they are there and their permissions");
        // An item that was once stamped must not count as unsigned.
        match signature::check(&candidate.path, &raw) {
            Integrity::Unsigned if !is_beside => Integrity::Unsigned,
            _ => Integrity::Invalid { reason: "not every file that the stamp covers can be read", line: 1 },
        }
    })
}

/// The id suggested by the file name, so that a broken file is not reported as missing.
fn suggested_name(candidate: &Candidate) -> String {
    let path = candidate.folder.as_deref().unwrap_or(&candidate.path);
    let stem = if candidate.folder.is_some() { path.file_name() } else { path.file_stem() };
    id_of(stem)
}

fn id_of(name: Option<&OsStr>) -> String {
    let name = name.and_then(OsStr::to_str).unwrap_or_default();
    name.parse::<ItemId>().map(|id| id.to_string()).unwrap_or_default()
}
