//! The text of new items.
//!
//! [`skeleton`] gives the files of an item that somebody is about to write: valid as they are, runnable
//! as they are, and short enough to be read before they are edited. They carry
//! no stamp, which the first edit would break. Nothing is written here; whether a place or an id is
//! free is decided by whoever writes.

mod kind;
mod quote;

use std::path::{Path, PathBuf};

use super::id::ItemId;
use super::store::{ItemKind, PRIMITIVES};

pub use kind::{Kind, Language, SkeletonError, TYPES};
use quote::{title, xml, yaml};

/// What is known about an item that does not exist yet.
#[derive(Clone, Debug)]
pub struct Fields {
    /// Its id, without category.
    pub id: ItemId,
    /// Its category; may be empty.
    pub category: String,
    /// What it does, in one line; without one, what the skeleton does.
    pub description: Option<String>,
    /// The tool that runs it; without one, the usual one.
    pub executor: Option<ItemId>,
    /// One file or a folder; without a wish, what suits the kind.
    pub layout: Option<Layout>,
    /// Who writes it.
    pub author: String,
}

/// How the files of a tool lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One file with everything.
    File,
    /// A folder with a `tool.yaml` and what belongs to it.
    Folder,
}

/// An item to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skeleton {
    /// What it is.
    pub kind: ItemKind,
    /// The type as it is written, for tools.
    pub tool_type: Option<&'static str>,
    /// Its files, relative to the folder with `.ai/`; the one that makes it an item comes last.
    pub files: Vec<SkeletonFile>,
    /// The file to edit first.
    pub edit: PathBuf,
    /// How it is used.
    pub usage: Usage,
}

/// One file of a new item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkeletonFile {
    /// Where, relative to the folder with `.ai/`.
    pub path: PathBuf,
    /// Its whole content.
    pub content: String,
    /// Whether it can be started by its name.
    pub executable: bool,
}

/// What can be done with a new item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It is called, for instance with this parameter.
    Call(&'static str),
    /// It is run, for instance with this input.
    Run(&'static str),
    /// Other tools name it as their executor.
    Executor,
    /// It is read.
    Read,
}

/// Writes the files of a new item.
pub fn skeleton(kind: Kind, fields: &Fields) -> Result<Skeleton, SkeletonError> {
    if let Some(text) = fields.description.as_deref().filter(|text| !quote::is_line(text)) {
        return Err(SkeletonError::Description(text.to_owned()));
    }
    let what = match kind {
        Kind::Directive => Some("a directive"),
        Kind::Knowledge => Some("an entry of knowledge"),
        _ => None,
    };
    match (what, fields.layout, &fields.executor) {
        (Some(what), Some(Layout::Folder), _) => return Err(SkeletonError::NoFolder(what)),
        (Some(what), _, Some(_)) => return Err(SkeletonError::NoExecutor(what)),
        (None, _, Some(_)) if kind == Kind::Meta => return Err(SkeletonError::NoExecutor("a meta tool")),
        _ => {}
    }
    match kind {
        Kind::Directive => Ok(document(ItemKind::Directive, include_str!("text/directive.md"), fields)),
        Kind::Knowledge => Ok(document(ItemKind::Knowledge, include_str!("text/knowledge.md"), fields)),
        Kind::Script { language, written } => Ok(script(language, written, fields)),
        described => Ok(manifest(described, fields)),
    }
}

fn document(kind: ItemKind, text: &str, fields: &Fields) -> Skeleton {
    let path = folder(kind, fields).join(format!("{}.md", fields.id));
    let description = fields.description.as_deref();
    let title = match (kind, description) {
        (ItemKind::Knowledge, Some(description)) => description.to_owned(),
        _ => title(fields.id.as_str()),
    };
    let (category_text, title_text, prose, told) = if kind == ItemKind::Directive {
        let told = description.unwrap_or("See which items there are on a topic");
        let prose = "Say here, for people, what it is for and when to use it.";
        (format!("<category>{}</category>", xml(category(fields))), title, prose, xml(told))
    } else {
        let prose = "Write here what is worth remembering.";
        (format!("category: {}\n", yaml(category(fields))), title, prose, String::new())
    };
    let heading = if kind == ItemKind::Knowledge { yaml(&title_text) } else { title_text.clone() };
    // The first title of an entry of knowledge is a field, the second a heading.
    let text = text.replacen("@title@", &heading, 1).replace("@title@", &title_text);
    let content = text
        .replace("@id@", fields.id.as_str())
        .replace("@category@", &category_text)
        .replace("@author@", &xml(&fields.author))
        .replace("@prose@", prose)
        .replace("@description@", &told);
    let usage = if kind == ItemKind::Directive { Usage::Run("topic=hello") } else { Usage::Read };
    let files = vec![SkeletonFile { path: path.clone(), content, executable: false }];
    Skeleton { kind, tool_type: None, files, edit: path, usage }
}

fn script(language: Language, written: &'static str, fields: &Fields) -> Skeleton {
    let is_local = written == "local";
    let (body, mark, ending, runtime) = match language {
        Language::Python if is_local => (include_str!("text/local.py"), "#", "py", "python_runtime"),
        Language::Python => (include_str!("text/main.py"), "#", "py", "python_runtime"),
        Language::Bash => (include_str!("text/main.sh"), "#", "sh", "bash_runtime"),
        Language::Node => (include_str!("text/main.js"), "//", "js", "node_runtime"),
    };
    let declared = match language {
        Language::Python if !is_local => "",
        _ => include_str!("text/declared.yaml"),
    };
    let fill = |text: &str, entrypoint: &str| filled(text, written, runtime, entrypoint, fields);
    let executable = language != Language::Python;
    let folder = folder(ItemKind::Tool, fields);
    let (files, edit) = if fields.layout == Some(Layout::File) {
        let header = fill(&format!("{}{declared}", include_str!("text/header.yaml")), "");
        let commented: Vec<String> = std::iter::once("---")
            .chain(header.lines())
            .chain(std::iter::once("---"))
            .map(|line| format!("{mark} {line}\n"))
            .collect();
        let gap = if language == Language::Python { "\n\n" } else { "\n" };
        let content = body.replacen("@header@", &format!("{}{gap}", commented.concat()), 1);
        let path = folder.join(format!("{}.{ending}", fields.id));
        (vec![SkeletonFile { path: path.clone(), content, executable }], path)
    } else {
        let folder = folder.join(fields.id.as_str());
        let name = format!("main.{ending}");
        let hint = match language {
            Language::Python if is_local => format!("# Each comes as an option: `--who world`.\n{declared}"),
            Language::Python => include_str!("text/python.yaml").to_owned(),
            Language::Bash => format!("# Each comes as `PITON_PARAM_NAME`, all of them as JSON on stdin.\n{declared}"),
            Language::Node => format!("# All of them come as one JSON object on stdin.\n{declared}"),
        };
        let manifest = fill(&format!("{}{hint}", include_str!("text/script.yaml")), &name);
        let path = folder.join(name);
        let content = body.replacen("@header@", "", 1);
        let files = vec![
            SkeletonFile { path: path.clone(), content, executable },
            SkeletonFile { path: folder.join("tool.yaml"), content: manifest, executable: false },
        ];
        (files, path)
    };
    Skeleton { kind: ItemKind::Tool, tool_type: Some(written), files, edit, usage: Usage::Call("who=Ada") }
}

/// A tool that is described by a manifest and nothing else.
fn manifest(kind: Kind, fields: &Fields) -> Skeleton {
    let (text, executor, usage) = match kind {
        Kind::Cli => (include_str!("text/cli.yaml"), "subprocess", Usage::Call("folder=.")),
        Kind::Runtime => (include_str!("text/runtime.yaml"), "subprocess", Usage::Executor),
        Kind::Api => (include_str!("text/api.yaml"), "http_client", Usage::Call("repo=git")),
        Kind::McpServer => (include_str!("text/mcp_server.yaml"), "subprocess", Usage::Call("")),
        // One that names a server says nothing about it; by itself it brings one along.
        Kind::McpTool if fields.executor.as_ref().is_some_and(|id| !PRIMITIVES.contains(&id.as_str())) => {
            (include_str!("text/mcp_tool_of_server.yaml"), "server", Usage::Call("message=hello"))
        }
        Kind::McpTool => (include_str!("text/mcp_tool.yaml"), "subprocess", Usage::Call("message=hello")),
        Kind::Docker => (include_str!("text/docker.yaml"), "docker_runtime", Usage::Call("who=Ada")),
        _ => (include_str!("text/meta.yaml"), "", Usage::Call("who=Ada")),
    };
    let written = kind.as_str();
    let folder = folder(ItemKind::Tool, fields);
    let path = match fields.layout {
        Some(Layout::Folder) => folder.join(fields.id.as_str()).join("tool.yaml"),
        Some(Layout::File) | None => folder.join(format!("{}.yaml", fields.id)),
    };
    let content = filled(text, written, executor, "", fields);
    let files = vec![SkeletonFile { path: path.clone(), content, executable: false }];
    Skeleton { kind: ItemKind::Tool, tool_type: Some(written), files, edit: path, usage }
}

/// Fills in a manifest. What people wrote comes last: nothing in it is filled in.
fn filled(text: &str, written: &str, usual: &str, entrypoint: &str, fields: &Fields) -> String {
    let executor = fields.executor.as_ref().map_or(usual, ItemId::as_str);
    let described = match written {
        "cli" => "Lists the files of a folder",
        "runtime" => "Runs scripts with bash, which stops at variables that are not set",
        "api" => "Looks up a repository on GitHub",
        "mcp_server" => "Offers the tools of an MCP server",
        "mcp_tool" => "Says something by way of an MCP server",
        "docker" => "Greets somebody from a container",
        "meta" => "Greets somebody, and could ask other tools first",
        _ => "Greets somebody",
    };
    let category = match fields.category.as_str() {
        "" => String::new(),
        category => format!("category: {}\n", yaml(category)),
    };
    text.replace("@id@", fields.id.as_str())
        .replace("@type@", written)
        .replace("@executor@", executor)
        .replace("@entrypoint@", entrypoint)
        .replace("@title@", &yaml(&title(fields.id.as_str())))
        .replace("@category@", &category)
        .replace("@description@", &yaml(fields.description.as_deref().unwrap_or(described)))
}

/// Documents have a category even where no folder gives them one.
fn category(fields: &Fields) -> &str {
    if fields.category.is_empty() { "general" } else { &fields.category }
}

fn folder(kind: ItemKind, fields: &Fields) -> PathBuf {
    Path::new(".ai").join(kind.folder()).join(&fields.category)
}

#[cfg(test)]
mod tests;
