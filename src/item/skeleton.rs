//! The text of new items.
//!
//! [`skeleton`] returns the files of a new item: valid and runnable as they are, and short enough
//! to read before editing. They have no stamp, which the first edit would break. Nothing is written
//! here; the caller checks that the path and the id are free.

mod kind;
mod quote;

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::id::ItemId;
use super::store::{ItemKind, PRIMITIVES};

pub use kind::{SkeletonError, SkeletonKind, SkeletonLanguage, TYPES};
use quote::{title, xml, yaml};

#[derive(Clone, Debug)]
pub struct SkeletonFields {
    /// Without category.
    pub id: ItemId,
    /// May be empty.
    pub category: String,
    /// One line; the default describes the skeleton.
    pub description: Option<String>,
    /// `None` uses the default executor.
    pub executor: Option<ItemId>,
    /// `None` uses the default for the kind.
    pub layout: Option<SkeletonLayout>,
    pub author: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkeletonLayout {
    File,
    /// A folder with a `tool.yaml` and its files.
    Folder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skeleton {
    pub kind: ItemKind,
    /// For tools, as written.
    pub tool_type: Option<&'static str>,
    /// Relative to the folder with `.ai/`; the file that makes it an item comes last.
    pub files: Vec<SkeletonFile>,
    /// The file to edit first.
    pub edit: PathBuf,
    pub usage: Usage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkeletonFile {
    /// Relative to the folder with `.ai/`.
    pub path: PathBuf,
    pub content: String,
    pub executable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It is called, e.g. with this parameter.
    Call(&'static str),
    /// It is run, e.g. with this input.
    Run(&'static str),
    /// Other tools name it as their executor.
    Executor,
    Read,
}

pub fn skeleton(kind: SkeletonKind, fields: &SkeletonFields) -> Result<Skeleton, SkeletonError> {
    if let Some(text) = fields
        .description
        .as_deref()
        .filter(|text| !quote::is_line(text))
    {
        return Err(SkeletonError::Description(text.to_owned()));
    }
    let what = match kind {
        SkeletonKind::Directive => Some("a directive"),
        SkeletonKind::Knowledge => Some("an entry of knowledge"),
        _ => None,
    };
    match (what, fields.layout, &fields.executor) {
        (Some(what), Some(SkeletonLayout::Folder), _) => return Err(SkeletonError::NoFolder(what)),
        (Some(what), _, Some(_)) => return Err(SkeletonError::NoExecutor(what)),
        (None, _, Some(_)) if kind == SkeletonKind::Meta => {
            return Err(SkeletonError::NoExecutor("a meta tool"));
        }
        _ => {}
    }
    match kind {
        SkeletonKind::Directive => Ok(document(
            ItemKind::Directive,
            include_str!("skeleton/text/directive.md"),
            fields,
        )),
        SkeletonKind::Knowledge => Ok(document(
            ItemKind::Knowledge,
            include_str!("skeleton/text/knowledge.md"),
            fields,
        )),
        SkeletonKind::Script { language, written } => Ok(script(language, written, fields)),
        described => Ok(manifest(described, fields)),
    }
}

fn document(kind: ItemKind, text: &str, fields: &SkeletonFields) -> Skeleton {
    let path = folder(kind, fields).join(format!("{}.md", fields.id));
    let description = fields.description.as_deref();
    let title = match (kind, description) {
        (ItemKind::Knowledge, Some(description)) => description.to_owned(),
        _ => title(fields.id.as_str()),
    };
    let (category_text, title_text, prose, told) = if kind == ItemKind::Directive {
        let told = description.unwrap_or("See which items there are on a topic");
        let prose = "Say here, for people, what it is for and when to use it.";
        (
            format!("<category>{}</category>", xml(category(fields))),
            title,
            prose,
            xml(told),
        )
    } else {
        let prose = "Write here what readers should know.";
        (
            format!("category: {}\n", yaml(category(fields))),
            title,
            prose,
            String::new(),
        )
    };
    let heading = if kind == ItemKind::Knowledge {
        yaml(&title_text)
    } else {
        title_text.clone()
    };
    // The first title of a knowledge entry is a field, the second a heading.
    let text = text
        .replacen("@title@", &heading, 1)
        .replace("@title@", &title_text);
    let content = text
        .replace("@id@", fields.id.as_str())
        .replace("@category@", &category_text)
        .replace("@author@", &xml(&fields.author))
        .replace("@prose@", prose)
        .replace("@description@", &told);
    let usage = if kind == ItemKind::Directive {
        Usage::Run("topic=hello")
    } else {
        Usage::Read
    };
    let files = vec![SkeletonFile {
        path: path.clone(),
        content,
        executable: false,
    }];
    Skeleton {
        kind,
        tool_type: None,
        files,
        edit: path,
        usage,
    }
}

fn script(language: SkeletonLanguage, written: &'static str, fields: &SkeletonFields) -> Skeleton {
    let is_local = written == "local";
    let (body, mark, ending, runtime) = match language {
        SkeletonLanguage::Python if is_local => (
            include_str!("skeleton/text/local.py"),
            "#",
            "py",
            "python_runtime",
        ),
        SkeletonLanguage::Python => (
            include_str!("skeleton/text/main.py"),
            "#",
            "py",
            "python_runtime",
        ),
        SkeletonLanguage::Bash => (
            include_str!("skeleton/text/main.sh"),
            "#",
            "sh",
            "bash_runtime",
        ),
        SkeletonLanguage::Node => (
            include_str!("skeleton/text/main.js"),
            "//",
            "js",
            "node_runtime",
        ),
    };
    let declared = match language {
        SkeletonLanguage::Python if !is_local => "",
        _ => include_str!("skeleton/text/declared.yaml"),
    };
    let fill = |text: &str, entrypoint: &str| filled(text, written, runtime, entrypoint, fields);
    let folder = folder(ItemKind::Tool, fields);
    let (path, header, manifest) = if fields.layout == Some(SkeletonLayout::File) {
        let header = fill(
            &format!("{}{declared}", include_str!("skeleton/text/header.yaml")),
            "",
        );
        let header = in_comments(&header, mark, language);
        (folder.join(format!("{}.{ending}", fields.id)), header, None)
    } else {
        let folder = folder.join(fields.id.as_str());
        let name = format!("main.{ending}");
        let inputs = inputs_text(language, is_local, declared);
        let manifest = fill(
            &format!("{}{inputs}", include_str!("skeleton/text/script.yaml")),
            &name,
        );
        let manifest = SkeletonFile {
            path: folder.join("tool.yaml"),
            content: manifest,
            executable: false,
        };
        (folder.join(name), String::new(), Some(manifest))
    };
    let script = SkeletonFile {
        path: path.clone(),
        content: body.replacen("@header@", &header, 1),
        executable: language != SkeletonLanguage::Python,
    };
    Skeleton {
        kind: ItemKind::Tool,
        tool_type: Some(written),
        files: std::iter::once(script).chain(manifest).collect(),
        edit: path,
        usage: Usage::Call("who=Ada"),
    }
}

/// The header of a script that is a tool by itself.
fn in_comments(header: &str, mark: &str, language: SkeletonLanguage) -> String {
    let commented = std::iter::once("---")
        .chain(header.lines())
        .chain(std::iter::once("---"))
        .map(|line| format!("{mark} {line}\n"));
    let gap = if language == SkeletonLanguage::Python {
        "\n\n"
    } else {
        "\n"
    };
    commented.chain([gap.to_owned()]).collect()
}

/// The inputs in a manifest, with how the script gets them.
fn inputs_text(language: SkeletonLanguage, is_local: bool, declared: &str) -> String {
    let how = match language {
        SkeletonLanguage::Python if is_local => "Each comes as an option: `--who world`.",
        SkeletonLanguage::Python => return include_str!("skeleton/text/python.yaml").to_owned(),
        SkeletonLanguage::Bash => "Each comes as `PITON_PARAM_NAME`, all of them as JSON on stdin.",
        SkeletonLanguage::Node => "All of them come as one JSON object on stdin.",
    };
    format!("# {how}\n{declared}")
}

/// A tool that consists of a manifest only.
fn manifest(kind: SkeletonKind, fields: &SkeletonFields) -> Skeleton {
    let (text, executor, usage) = match kind {
        SkeletonKind::Cli => (
            include_str!("skeleton/text/cli.yaml"),
            "subprocess",
            Usage::Call("folder=."),
        ),
        SkeletonKind::Runtime => (
            include_str!("skeleton/text/runtime.yaml"),
            "subprocess",
            Usage::Executor,
        ),
        SkeletonKind::Api => (
            include_str!("skeleton/text/api.yaml"),
            "http_client",
            Usage::Call("repo=git"),
        ),
        SkeletonKind::McpServer => (
            include_str!("skeleton/text/mcp_server.yaml"),
            "subprocess",
            Usage::Call(""),
        ),
        // A tool that names a server does not configure one; otherwise it contains its own.
        SkeletonKind::McpTool
            if fields
                .executor
                .as_ref()
                .is_some_and(|id| !PRIMITIVES.contains(&id.as_str())) =>
        {
            (
                include_str!("skeleton/text/mcp_tool_of_server.yaml"),
                "server",
                Usage::Call("message=hello"),
            )
        }
        SkeletonKind::McpTool => (
            include_str!("skeleton/text/mcp_tool.yaml"),
            "subprocess",
            Usage::Call("message=hello"),
        ),
        SkeletonKind::Docker => (
            include_str!("skeleton/text/docker.yaml"),
            "docker_runtime",
            Usage::Call("who=Ada"),
        ),
        _ => (
            include_str!("skeleton/text/meta.yaml"),
            "",
            Usage::Call("who=Ada"),
        ),
    };
    let written = kind.as_str();
    let folder = folder(ItemKind::Tool, fields);
    let path = match fields.layout {
        Some(SkeletonLayout::Folder) => folder.join(fields.id.as_str()).join("tool.yaml"),
        Some(SkeletonLayout::File) | None => folder.join(format!("{}.yaml", fields.id)),
    };
    let content = filled(text, written, executor, "", fields);
    let files = vec![SkeletonFile {
        path: path.clone(),
        content,
        executable: false,
    }];
    Skeleton {
        kind: ItemKind::Tool,
        tool_type: Some(written),
        files,
        edit: path,
        usage,
    }
}

/// Fills in a manifest. The user's text comes last, so that nothing in it is replaced.
fn filled(
    text: &str,
    written: &str,
    usual: &str,
    entrypoint: &str,
    fields: &SkeletonFields,
) -> String {
    let executor = fields.executor.as_ref().map_or(usual, ItemId::as_str);
    let described = match written {
        "cli" => "Lists the files of a folder",
        "runtime" => "Runs scripts with bash, which stops at variables that are not set",
        "api" => "Looks up a repository on GitHub",
        "mcp_server" => "Offers the tools of an MCP server",
        "mcp_tool" => "Says something through an MCP server",
        "docker" => "Greets a person from a container",
        "meta" => "Greets a person, and could call other tools first",
        _ => "Greets a person",
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
        .replace(
            "@description@",
            &yaml(fields.description.as_deref().unwrap_or(described)),
        )
}

/// Documents have a category even without a folder.
fn category(fields: &SkeletonFields) -> &str {
    if fields.category.is_empty() {
        "general"
    } else {
        &fields.category
    }
}

fn folder(kind: ItemKind, fields: &SkeletonFields) -> PathBuf {
    Path::new(".ai").join(kind.folder()).join(&fields.category)
}

#[cfg(test)]
mod tests;
