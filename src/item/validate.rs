//! The rules for valid items.
//!
//! Each rule checks one item and the store around it and adds findings; none stops at the first. A
//! new rule needs one function here and one section in `docs/reference/codes.md`. Rules that need
//! executor chains or interpreters are in [`crate::validation`].

mod directive;
mod knowledge;
pub mod schema;
mod tool;
pub mod tool_root;

use std::path::{Path, PathBuf};

use super::finding::{Finding, Findings, Severity, Strength};
use super::node::Node;
use super::position::Position;
use super::signature::{Integrity, UNSTAMPED_FOLDERS};
use super::store::{Item, ItemContent, ItemKind, ItemStore};
use super::tool::{LoadedTool, ToolKind};
use super::wording::shown;
use crate::problem::{Code, HintCall, hint};

pub(crate) use tool_root::place_in_function;

/// Findings about stamps, which do not prevent stamping anew.
pub const STAMPS: [Code; 5] = [
    Code::Unsigned,
    Code::HashMismatch,
    Code::ForeignStamp,
    Code::InvalidStamp,
    Code::UncoveredScript,
];

/// How an unsigned item is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsigned {
    #[default]
    Warned,
    Refused,
}

impl Unsigned {
    fn severity(self) -> Severity {
        match self {
            Self::Warned => Severity::Warning,
            Self::Refused => Severity::Error,
        }
    }
}

pub fn check(item: &Item, store: &ItemStore, unsigned: Unsigned, findings: &mut Findings) {
    category(item, findings);
    match &item.content {
        ItemContent::Tool(tool) => {
            tool::check(tool, store.roots().project.as_deref(), findings);
            tool_root::check(tool, findings);
            tool_root::check_aggregates(tool, store, findings);
            servers(tool, store, findings);
        }
        ItemContent::Directive(directive) => directive::check(directive, store, findings),
        ItemContent::Knowledge(entry) => knowledge::check(entry, findings),
    }
    integrity(item, unsigned, findings);
}

/// The errors because of which a tool does not run: those in its files, and those against the rules of its kind. Its stamp
/// and its executors are judged apart.
pub fn errors_of_tool(item: &Item, store: &ItemStore) -> Vec<Finding> {
    let mut findings = Findings::new(&store.roots().display(&item.file), Strength::Lenient);
    if let Some(tool) = item.as_tool() {
        tool::check(tool, store.roots().project.as_deref(), &mut findings);
        tool_root::check(tool, &mut findings);
        tool_root::check_aggregates(tool, store, &mut findings);
    }
    let broken = findings
        .into_vec()
        .into_iter()
        .filter(|found| found.severity == Severity::Error);
    item.errors.iter().cloned().chain(broken).collect()
}

/// The entrypoint of a tool, if it has one that can be read.
pub fn entrypoint(tool: &LoadedTool) -> Option<PathBuf> {
    // `check` has reported any problem with it.
    find_entrypoint(tool).ok().flatten()
}

/// The entrypoint, if the tool's stamp does not cover it: a script beside a single-file manifest,
/// or in an uncovered folder.
pub fn uncovered_script(item: &Item) -> Option<PathBuf> {
    let tool = item.as_tool()?;
    let script = entrypoint(tool).filter(|script| *script != tool.file)?;
    let is_covered = tool.folder.as_ref().is_some_and(|folder| {
        let inside = script.strip_prefix(folder).map(Path::to_path_buf);
        inside.is_ok_and(|inside| {
            inside
                .iter()
                .all(|part| UNSTAMPED_FOLDERS.iter().all(|folder| part != *folder))
        })
    });
    (!is_covered).then_some(script)
}

/// The entrypoint of a tool, or what is wrong with it.
pub fn find_entrypoint(tool: &LoadedTool) -> Result<Option<PathBuf>, Box<Finding>> {
    let mut findings = Findings::new(&tool.file, Strength::Lenient);
    let found = tool::entrypoint::find_entrypoint(tool, &mut findings);
    match findings.into_vec().pop() {
        Some(finding) if found.is_none() => Err(Box::new(finding)),
        _ => Ok(found),
    }
}

/// The position of a dotted path in a document, or of its nearest existing parent.
pub fn place_of(node: &Node, path: &str) -> Position {
    let mut current = node;
    for part in path.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
        let next = match part.parse::<usize>() {
            Ok(at) => current.elements().and_then(|elements| elements.get(at)),
            Err(_) => current.find_entry(part).map(|entry| &entry.value),
        };
        match next {
            Some(value) => current = value,
            None => break,
        }
    }
    current.place
}

fn required(tool: &LoadedTool, path: &str, message: &str, findings: &mut Findings) {
    findings
        .add(
            Code::MissingRequiredField,
            place_of(&tool.node, path),
            path,
            message,
        )
        .suggest(format!("add `{path}`"));
}

/// Checks that the required MCP servers exist.
fn servers(tool: &LoadedTool, store: &ItemStore, findings: &mut Findings) {
    for (at, id) in tool.manifest.requires.mcp.iter().enumerate() {
        if is_server(store, id) {
            continue;
        }
        let path = format!("requires.mcp[{at}]");
        let message = format!("there is no MCP server `{}`", shown(id));
        findings
            .add(
                Code::UnknownItem,
                place_of(&tool.node, &path),
                path,
                message,
            )
            .suggest("name a tool of type `mcp_server`");
    }
}

/// Whether an id is that of an MCP server.
pub fn is_server(store: &ItemStore, id: &str) -> bool {
    let item = store.find(ItemKind::Tool, id).ok();
    item.and_then(Item::as_tool)
        .is_some_and(|tool| tool.manifest.kind == ToolKind::McpServer)
}

fn category(item: &Item, findings: &mut Findings) {
    if !item.folder_category.is_empty() && item.category != item.folder_category {
        findings
            .add(
                Code::CategoryMismatch,
                item.place_of("category"),
                "category",
                format!(
                    "category '{}' differs from the folder '{}'",
                    item.category, item.folder_category
                ),
            )
            .suggest(format!(
                "write `{}`, or move the file",
                item.folder_category
            ));
    }
}

fn integrity(item: &Item, unsigned: Unsigned, findings: &mut Findings) {
    let sign = || HintCall::Sign(Some(item.id.to_string()));
    let (code, line, message, hint) = match &item.integrity {
        Integrity::Valid { .. } => {
            let Some(script) = uncovered_script(item) else {
                return;
            };
            let name = script.file_name().unwrap_or_default().to_string_lossy();
            (
                Code::UncoveredScript,
                1,
                format!("the stamp does not cover `{}`", shown(&name)),
                "put both into a folder of their own, with the manifest as `tool.yaml`, and sign that".into(),
            )
        }
        Integrity::Unsigned => (
            Code::Unsigned,
            1,
            format!("{} `{}` is not signed", item.kind(), item.id),
            hint!["read it, then ", sign()],
        ),
        Integrity::Mismatch { stamped, actual } => (
            Code::HashMismatch,
            1,
            format!(
                "Content hash mismatch: stamped {}…, found {}…",
                head(stamped),
                head(actual)
            ),
            hint!["look at what changed since it was signed, then ", sign()],
        ),
        Integrity::Foreign { kind } => (
            Code::ForeignStamp,
            1,
            format!("{kind}: integrity not checked"),
            hint![sign(), " covers its whole content"],
        ),
        Integrity::Invalid { reason, line } => (
            Code::InvalidStamp,
            *line,
            (*reason).to_owned(),
            hint!["read the item, then ", sign()],
        ),
    };
    let mut finding = findings.add(code, Position { line, column: 1 }, "", message);
    if matches!(code, Code::UncoveredScript | Code::Unsigned) {
        finding = finding.with_severity(unsigned.severity());
    }
    finding.suggest(hint);
}

fn head(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
