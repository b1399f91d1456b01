//! Parses one file into an item, and checks its stamp.

use std::ffi::OsStr;

use super::load::PRIMITIVES;
use super::walk::{FileCandidate, ItemKind};
use super::{Item, ItemContent, Layer, Roots};
use crate::item::extractor::Extractor;
use crate::item::finding::{Findings, Strength};
use crate::item::id::ItemId;
use crate::item::position::Position;
use crate::item::signature::{self, Integrity, StampLocation};
use crate::item::source::{MAX_DOCUMENT, MAX_TEXT, SourceFile, Unread, leaves, read_bytes};
use crate::item::tool::{self, LoadedTool, Origin, Root, ToolLocation, ToolReading};
use crate::item::{directive, knowledge, validate};
use crate::problem::Code;

/// Reads an item without any other file; [`integrity`] checks its stamp.
pub(in crate::item) fn parse(
    layer: Layer,
    candidate: &FileCandidate,
    source: &SourceFile,
    extractors: &[Extractor],
    findings: &mut Findings,
) -> Option<Item> {
    let mut named = true;
    let (id, category, content) = match candidate.kind {
        ItemKind::Directive => {
            let directive = directive::parse(source, findings)?;
            (
                directive.name.clone(),
                directive.category.clone(),
                ItemContent::Directive(Box::new(directive)),
            )
        }
        ItemKind::Knowledge => {
            let entry = knowledge::parse(source, findings)?;
            (
                entry.id.clone(),
                entry.category.clone(),
                ItemContent::Knowledge(Box::new(entry)),
            )
        }
        ItemKind::Tool => {
            let around = ToolLocation {
                folder: candidate.folder.as_deref(),
                root: candidate.root,
                in_lib: candidate.in_lib,
                extractors,
            };
            let tool = match tool::read(source, &around, findings) {
                ToolReading::Tool(tool) => tool,
                ToolReading::Unnamed(tool) => {
                    named = false;
                    tool
                }
                ToolReading::NotATool | ToolReading::Broken => return None,
            };
            if named && shadows_primitive(&tool, findings) {
                return None;
            }
            (
                tool.manifest.tool_id.clone(),
                tool.manifest.category.clone(),
                ItemContent::Tool(tool),
            )
        }
    };
    let category = if category.is_empty() {
        candidate.category.clone()
    } else {
        category
    };
    Some(Item {
        layer,
        id,
        category,
        folder_category: candidate.category.clone(),
        file: candidate.path.clone(),
        integrity: Integrity::Unsigned,
        content,
        errors: Vec::new(),
        legacy_root: candidate.root == Root::Scripts,
        named,
    })
}

pub(in crate::item) fn integrity(
    item: &Item,
    source: &SourceFile,
    candidate: &FileCandidate,
    findings: &mut Findings,
) -> Integrity {
    match &item.content {
        ItemContent::Directive(directive) => signature::check_directive(
            &candidate.path,
            &source.raw(),
            directive.name.as_str(),
            &directive.version,
        ),
        ItemContent::Knowledge(_) => signature::check(&candidate.path, &source.raw()),
        ItemContent::Tool(_) => tool_integrity(source, candidate, findings),
    }
}

/// A `requirements.txt` in a tool folder lists dependencies like the manifest.
pub(super) fn listed_requirements(tool: &mut LoadedTool, roots: &Roots, findings: &mut Findings) {
    let Some(path) = tool
        .folder
        .as_ref()
        .map(|folder| folder.join("requirements.txt"))
    else {
        return;
    };
    if std::fs::symlink_metadata(&path).is_err() {
        return;
    }
    let mut own = Findings::new(&roots.display(&path), findings.strength());
    let source = if tool
        .folder
        .as_ref()
        .is_some_and(|folder| leaves(&path, folder))
    {
        own.add(
            Code::PathEscape,
            Position::START,
            "",
            "the link leaves the tool's folder",
        )
        .suggest("copy the file into the tool's folder");
        None
    } else {
        SourceFile::load(&path, MAX_DOCUMENT, &mut own)
    };
    findings.extend(
        own.into_vec()
            .into_iter()
            .filter(|finding| finding.code != Code::EmptyFile),
    );
    let Some(source) = source else { return };
    for (number, line) in (1..).zip(source.text.lines()) {
        let line = line
            .split(" #")
            .next()
            .unwrap_or_default()
            .trim_end_matches('\\')
            .trim();
        // Lines with a dash are options of pip, not packages.
        if line.is_empty()
            || line.starts_with(['#', '-'])
            || tool.manifest.dependencies.iter().any(|d| d == line)
        {
            continue;
        }
        let place = Position {
            line: number,
            column: 1,
        };
        let key = format!("dependencies[{}]", tool.manifest.dependencies.len());
        tool.elsewhere.insert(key, Origin::new(path.clone(), place));
        tool.manifest.dependencies.push(line.to_owned());
    }
}

/// A manifest without parameters uses those of its Python entrypoint.
pub(super) fn main_parameters(tool: &mut LoadedTool) {
    if !tool::entrypoint::speaks_for(tool) {
        return;
    }
    let script = validate::entrypoint(tool)
        .filter(|path| path.extension().is_some_and(|ending| ending == "py"));
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
    let place = tool
        .node
        .find("tool_id")
        .map_or(Position::START, |node| node.place);
    findings
        .add(
            Code::PrimitiveShadowed,
            place,
            "tool_id",
            format!("`{id}` is a primitive: this file is ignored"),
        )
        .suggest("remove the file, or give the tool another id");
    true
}

fn tool_integrity(
    source: &SourceFile,
    candidate: &FileCandidate,
    findings: &mut Findings,
) -> Integrity {
    let raw = source.raw();
    let stamp = match signature::stamp_location(&candidate.path, &raw) {
        StampLocation::Comment(..) => None,
        StampLocation::Beside => {
            match read_bytes(&signature::detached_file(&candidate.path), MAX_DOCUMENT) {
                Ok(stamp) => Some(String::from_utf8_lossy(&stamp).into_owned()),
                Err(Unread::Failed(err)) if err.kind() == std::io::ErrorKind::NotFound => {
                    let is_json = candidate
                        .path
                        .extension()
                        .is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
                    // Another program may have put a stamp into the file anyway; in JSON such a line is
                    // data.
                    return if is_json {
                        Integrity::Unsigned
                    } else {
                        signature::check(&candidate.path, &raw)
                    };
                }
                Err(_) => {
                    return Integrity::Invalid {
                        reason: "the file of the stamp cannot be read",
                        line: 1,
                    };
                }
            }
        }
    };
    let is_beside = stamp.is_some();
    let checked = match (&candidate.folder, stamp) {
        (None, None) => return signature::check(&candidate.path, &raw),
        (None, Some(stamp)) => return signature::check_detached(&stamp, &raw),
        (Some(folder), None) => signature::check_folder(folder, &candidate.path, &raw),
        (Some(folder), Some(stamp)) => {
            signature::check_folder_detached(folder, &candidate.path, &stamp, &raw)
        }
    };
    checked.unwrap_or_else(|err| {
        findings
            .add(
                Code::UnreadableFile,
                Position::START,
                "",
                format!("cannot read every file of the tool: {err}"),
            )
            .suggest("check that they exist, and their permissions");
        // An item that was once stamped must not count as unsigned.
        match signature::check(&candidate.path, &raw) {
            Integrity::Unsigned if !is_beside => Integrity::Unsigned,
            _ => Integrity::Invalid {
                reason: "not every file that the stamp covers can be read",
                line: 1,
            },
        }
    })
}

/// The id suggested by the file name, so that a broken file is not reported as missing.
pub(super) fn suggested_name(candidate: &FileCandidate) -> String {
    let path = candidate.folder.as_deref().unwrap_or(&candidate.path);
    let stem = if candidate.folder.is_some() {
        path.file_name()
    } else {
        path.file_stem()
    };
    id_of(stem)
}

pub(super) fn id_of(name: Option<&OsStr>) -> String {
    let name = name.and_then(OsStr::to_str).unwrap_or_default();
    name.parse::<ItemId>()
        .map(|id| id.to_string())
        .unwrap_or_default()
}
