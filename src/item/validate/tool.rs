//! What each kind of tool must say, beyond what every tool must say.
//!
//! One function per kind, in the words of the design where it has them. Who runs whom is checked
//! where chains are resolved, not here.

use std::path::{Component, Path, PathBuf};

use regex::Regex;
use serde_json::Value;

use super::{place_of, required, schema};
use crate::item::code::Code;
use crate::item::finding::Findings;
use crate::item::node::{Data, Node};
use crate::item::place::Place;
use crate::item::source::leaves;
use crate::item::tool::{LoadedTool, Spelling, ToolKind};
use crate::item::wording::shown;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const TRANSPORTS: [&str; 5] = ["stdio", "sse", "websocket", "http", "streamable_http"];

/// Checks what the kind of a tool asks for.
pub(super) fn check(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    match tool.manifest.kind {
        ToolKind::Script => script(tool, project, findings),
        ToolKind::Api => api(tool, findings),
        ToolKind::McpServer => mcp_server(tool, findings),
        ToolKind::McpTool => mcp_tool(tool, findings),
        ToolKind::Runtime => runtime(tool, findings),
        ToolKind::Docker => docker(tool, project, findings),
        ToolKind::Cli => cli(tool, findings),
        ToolKind::Local => local(tool, findings),
        ToolKind::Primitive | ToolKind::Meta | ToolKind::Directive | ToolKind::Knowledge => {}
    }
    requirements(tool, project, findings);
    schemas(tool, project, findings);
}

fn script(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    match tool.manifest.config.get("entrypoint") {
        Some(Value::String(_)) => {
            find_entrypoint(tool, "config.entrypoint", findings);
        }
        Some(_) => {
            let place = place_of(&tool.node, "config.entrypoint");
            findings
                .add(Code::InvalidType, place, "config.entrypoint", "config.entrypoint must be a string")
                .suggest("name the file to run: `entrypoint: main.py`");
        }
        None => {
            findings
                .add(
                    Code::MissingRequiredField,
                    place_of(&tool.node, "config"),
                    "config.entrypoint",
                    "Script tools must specify config.entrypoint",
                )
                .suggest("name the file to run: `config: {entrypoint: main.py}`");
        }
    }
    lib_imports(tool, project, findings);
}

/// The file a tool starts with; what is wrong with it goes to `findings`.
pub(super) fn find_entrypoint(tool: &LoadedTool, path: &str, findings: &mut Findings) -> Option<PathBuf> {
    let place = place_of(&tool.node, path);
    let entrypoint = tool.manifest.config.get("entrypoint")?.as_str()?;
    let folder = tool.folder.as_deref().or_else(|| tool.file.parent())?;
    if entrypoint.is_empty() || entrypoint.chars().any(char::is_control) {
        findings
            .add(
                Code::InvalidPath,
                place,
                path,
                format!("Entrypoint '{}' is empty or holds control characters", entrypoint.escape_debug()),
            )
            .suggest("name a file beside the manifest");
        return None;
    }
    if !is_inside(entrypoint) {
        findings
            .add(
                Code::PathEscape,
                place,
                path,
                format!("Entrypoint '{}' leaves the tool's folder", entrypoint.escape_debug()),
            )
            .suggest("keep the file beside the manifest and name it by a relative path");
        return None;
    }
    let file = folder.join(entrypoint);
    let Ok(metadata) = file.metadata() else {
        findings.add(Code::MissingEntrypoint, place, path, format!("Entrypoint '{entrypoint}' not found")).suggest(
            format!(
                "create it in `{}`",
                folder.file_name().map_or("the tool's folder".into(), |name| name.to_string_lossy())
            ),
        );
        return None;
    };
    if leaves(&file, folder) {
        findings
            .add(
                Code::PathEscape,
                place,
                path,
                format!("Entrypoint '{entrypoint}' is a link that leaves the tool's folder"),
            )
            .suggest("copy the file into the tool's folder");
        return None;
    }
    if !metadata.is_file() {
        findings
            .add(Code::NotARegularFile, place, path, format!("Entrypoint '{entrypoint}' is not a regular file"))
            .suggest("name the file to run, not its folder");
        return None;
    }
    Some(file)
}

fn lib_imports(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    let Some(list) = tool.node.find("config").and_then(|config| config.find("lib_imports")) else { return };
    let (Some(names), Some(project)) = (list.elements(), project) else { return };
    for (at, name) in names.iter().enumerate() {
        let path = format!("config.lib_imports[{at}]");
        let Some(module) = name.as_text() else {
            findings
                .add(Code::InvalidType, name.place, path, "a module must be named by a string")
                .suggest("name a file of `.ai/tools/lib/` without its ending");
            continue;
        };
        let lib = project.join(".ai/tools/lib");
        let exists = is_inside(module) && (lib.join(format!("{module}.py")).is_file() || lib.join(module).is_dir());
        if !exists {
            findings
                .add(
                    Code::UnknownItem,
                    name.place,
                    path,
                    format!("library module '{}' not found", module.escape_debug()),
                )
                .suggest(format!("create `.ai/tools/lib/{}.py`", module.escape_debug()));
        }
    }
}

fn api(tool: &LoadedTool, findings: &mut Findings) {
    let config = &tool.manifest.config;
    match config.get("method").and_then(Value::as_str) {
        None => required(tool, "config.method", "API tools must specify config.method", findings),
        Some(method) if METHODS.contains(&method) => {}
        Some(method) => {
            let place = place_of(&tool.node, "config.method");
            findings
                .add(Code::InvalidEnumValue, place, "config.method", format!("Invalid HTTP method: {method}"))
                .suggest(format!("use one of {}", METHODS.join(", ")));
        }
    }
    match config.get("url").and_then(Value::as_str) {
        None => required(tool, "config.url", "API tools must specify config.url_template or config.url", findings),
        Some(url) => url_template(tool, url, findings),
    }
    auth(tool, findings);
}

fn auth(tool: &LoadedTool, findings: &mut Findings) {
    let Some(auth) = tool.node.find("config").and_then(|config| config.find("auth")) else { return };
    match auth.find("type").and_then(Node::as_text) {
        Some("bearer" | "basic" | "header" | "api_key") => {}
        Some(other) => {
            findings
                .add(
                    Code::InvalidEnumValue,
                    auth.place,
                    "config.auth.type",
                    format!("unknown authentication '{other}'"),
                )
                .suggest("use one of bearer, basic, header, api_key");
        }
        None => {
            findings
                .add(Code::MissingRequiredField, auth.place, "config.auth.type", "config.auth.type is required")
                .suggest("add `type:` with one of bearer, basic, header, api_key");
        }
    }
    if auth.find("env_var").is_none() {
        findings
            .add(Code::MissingRequiredField, auth.place, "config.auth.env_var", "config.auth.env_var is required")
            .suggest("name the environment variable that holds the secret");
    }
}

/// A URL must be one once its placeholders are filled, and each placeholder must be a parameter.
fn url_template(tool: &LoadedTool, url: &str, findings: &mut Findings) {
    let place = place_of(&tool.node, "config.url");
    let mut filled = String::with_capacity(url.len());
    let mut rest = url;
    while let Some(open) = rest.find('{') {
        let (before, from_brace) = rest.split_at(open);
        let Some(close) = from_brace.find('}') else { break };
        let name = &from_brace[1..close];
        let from_environment = before.ends_with('$');
        filled.push_str(if from_environment { &before[..before.len() - 1] } else { before });
        filled.push('1');
        if !from_environment && !tool.manifest.parameters.iter().any(|parameter| parameter.name == name) {
            findings
                .add(
                    Code::UnknownTemplateVariable,
                    place,
                    "config.url",
                    format!("template variable '{}' is not a parameter", name.escape_debug()),
                )
                .suggest(format!(
                    "add it to `parameters`, or use `${{{}}}` for an environment variable",
                    name.escape_debug()
                ));
        }
        rest = &from_brace[close + 1..];
    }
    filled.push_str(rest);
    // A host that comes from the environment as a whole cannot be judged before it is known.
    if url.starts_with("${") {
        return;
    }
    let example = "write it as a whole, e.g. `https://api.example.com/v1/items`";
    let (problem, suggestion) = match url::Url::parse(&filled) {
        Err(err) => (err.to_string(), example),
        Ok(parsed) if !matches!(parsed.scheme(), "http" | "https") => {
            (format!("scheme '{}' is not http or https", parsed.scheme()), example)
        }
        Ok(parsed) if !parsed.username().is_empty() || parsed.password().is_some() => (
            "credentials do not belong in a URL".to_owned(),
            "remove them; `config.auth` names the environment variable that holds the secret",
        ),
        Ok(_) => return,
    };
    findings.add(Code::InvalidUrl, place, "config.url", format!("invalid URL: {problem}")).suggest(suggestion);
}

fn mcp_server(tool: &LoadedTool, findings: &mut Findings) {
    let config = &tool.manifest.config;
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    match text("transport") {
        // Schema 1.0 files often name no server at all; running one says so.
        None if tool.spelling == Spelling::ToolRoot => {}
        None => required(tool, "config.transport", "MCP servers must specify config.transport", findings),
        Some("stdio") if text("command").is_none() => {
            required(tool, "config.command", "stdio transport requires config.command", findings);
        }
        Some("stdio") => {}
        Some(transport) if TRANSPORTS.contains(&transport) => {
            if text("url").is_none() {
                required(tool, "config.url", &format!("{transport} transport requires config.url"), findings);
            }
        }
        Some(transport) => {
            let place = place_of(&tool.node, "config.transport");
            findings
                .add(Code::InvalidEnumValue, place, "config.transport", format!("Invalid transport: {transport}"))
                .suggest("use one of stdio, sse, websocket, http");
        }
    }
}

fn mcp_tool(tool: &LoadedTool, findings: &mut Findings) {
    if tool.manifest.config.get("mcp_tool_name").and_then(Value::as_str).is_none_or(str::is_empty) {
        required(tool, "config.mcp_tool_name", "MCP tools must specify config.mcp_tool_name", findings);
    }
}

fn runtime(tool: &LoadedTool, findings: &mut Findings) {
    let config = &tool.manifest.config;
    if !config.contains_key("command") && !config.contains_key("url") {
        required(tool, "config.command", "Runtimes must specify config.command or config.url", findings);
    }
}

fn docker(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    let config = &tool.manifest.config;
    if !config.contains_key("image") && !config.contains_key("build_context") {
        required(tool, "config.image", "Docker tools must specify config.image or config.build_context", findings);
    }
    if let Some(context) = config.get("build_context").and_then(Value::as_str)
        && !is_inside(context)
    {
        let place = place_of(&tool.node, "config.build_context");
        let message = format!("build context '{context}' leaves the tool's folder");
        findings
            .add(Code::PathEscape, place, "config.build_context", message)
            .suggest("keep what is built beside the manifest, e.g. `build_context: .`");
    }
    let volumes = tool.node.find("config").and_then(|config| config.find("volumes")).and_then(Node::elements);
    for (at, volume) in volumes.unwrap_or_default().iter().enumerate() {
        let path = format!("config.volumes[{at}]");
        let source = match &volume.data {
            Data::Text(text) => text.split(':').next().map(str::to_owned),
            _ => volume.find("source").and_then(Node::as_text).map(str::to_owned),
        };
        let Some(source) = source else {
            findings
                .add(Code::MissingRequiredField, volume.place, path, "a volume needs a source and a target")
                .suggest("write `data:/data`, or a mapping with `source` and `target`");
            continue;
        };
        let absolute_inside = project.is_some_and(|root| Path::new(&source).starts_with(root));
        if !is_inside(&source) && !absolute_inside {
            findings
                .add(Code::PathEscape, volume.place, path, format!("volume '{source}' lies outside the project"))
                .suggest("mount folders of the project only, by a relative path");
        }
    }
}

fn cli(tool: &LoadedTool, findings: &mut Findings) {
    let config = &tool.manifest.config;
    let named = config.contains_key("executable") || config.contains_key("command");
    if !named && tool.spelling != Spelling::ToolRoot {
        required(tool, "config.command", "CLI tools must specify config.executable or config.command", findings);
    }
}

fn local(tool: &LoadedTool, findings: &mut Findings) {
    if tool.manifest.config.contains_key("entrypoint") {
        find_entrypoint(tool, "config.entrypoint", findings);
    }
}

/// Dependencies are package requirements, wherever they were written.
fn requirements(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    let is_python = tool.manifest.executor.as_ref().is_none_or(|id| id.as_str() == "python_runtime");
    for (at, dependency) in tool.manifest.dependencies.iter().enumerate().filter(|(_, text)| !is_requirement(text)) {
        let path = format!("dependencies[{at}]");
        match tool.elsewhere.get(&path) {
            Some(origin) => {
                let inside = project.and_then(|root| origin.file.strip_prefix(root).ok());
                let mut own = Findings::new(inside.unwrap_or(&origin.file), findings.strength());
                bad_requirement(dependency, Place { line: origin.line, column: origin.column }, "", &mut own);
                findings.extend(own.into_vec());
            }
            None if is_python => bad_requirement(dependency, place_of(&tool.node, &path), &path, findings),
            None => {}
        }
    }
}

fn bad_requirement(text: &str, place: Place, path: &str, findings: &mut Findings) {
    findings
        .add(Code::InvalidRequirement, place, path, format!("'{}' is not a valid requirement", text.escape_debug()))
        .suggest("write `name`, `name>=1.2` or `name[extra]==1.2`");
}

fn is_requirement(text: &str) -> bool {
    static PATTERN: std::sync::LazyLock<Option<Regex>> = std::sync::LazyLock::new(|| {
        let name = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?";
        let version = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9._*+!-]+";
        let versions = format!(r"(?:\(?\s*{version}(?:\s*,\s*{version})*\s*\)?)?");
        Regex::new(&format!(r"^{name}(?:\s*\[[A-Za-z0-9._,\s-]*\])?\s*(?:{versions}|@\s*\S+)\s*(?:;.+)?$")).ok()
    });
    text.len() < 1024 && PATTERN.as_ref().is_some_and(|pattern| pattern.is_match(text.trim()))
}

fn schemas(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    let input = if tool.node.find("inputs").is_some() { "inputs" } else { "parameters" };
    let list = tool.node.find(input).and_then(Node::elements);
    let locate = |pointer: &str| match list.and_then(|list| in_list(list, input, pointer)) {
        Some(found) => found,
        None => schema::locate(&tool.node, input, pointer),
    };
    schema::report(&tool.manifest.input_schema, locate, findings);
    if let Some(output) = &tool.manifest.output_schema {
        let inline = tool.node.find("outputs").and_then(|outputs| outputs.find("schema")).and_then(Node::entries);
        let base = if inline.is_some() { "outputs.schema" } else { "outputs" };
        schema::report(output, |pointer| schema::locate(&tool.node, base, pointer), findings);
    }
    if let (Some(name), Some(project)) = (&tool.manifest.outputs.schema, project)
        && !schema::exists(project, name)
    {
        let place = place_of(&tool.node, "outputs.schema");
        findings
            .add(Code::UnknownSchema, place, "outputs.schema", format!("schema '{}' does not exist", shown(name)))
            .suggest(format!("create `.ai/schemas/{}.json`, or write the schema in its place", shown(name)));
    }
}

/// Parameters given as a list become properties of a schema; leads back from there.
fn in_list(list: &[Node], base: &str, pointer: &str) -> Option<(String, Place)> {
    let (name, rest) = pointer.strip_prefix("/properties/").map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
    let at = list.iter().position(|element| element.find("name").and_then(Node::as_text) == Some(name))?;
    let field = if rest.is_empty() { String::new() } else { format!(".{}", rest.replace('/', ".")) };
    let place = place_of(list.get(at)?, &field);
    Some((format!("{base}[{at}]{field}"), place))
}

/// A relative path that stays in its folder, without characters that no path may hold.
fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.chars().any(char::is_control)
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_names_with_versions() {
        for good in [
            "httpx",
            "httpx>=0.24.0",
            "pydantic>=2.0,<3",
            "uvicorn[standard]==0.30",
            "a @ https://x.example/a.whl",
            "b; python_version<'3.9'",
            "zope.interface ~= 5.0",
        ] {
            assert!(is_requirement(good), "{good}");
        }
        for bad in ["", "-", "http x", "a>>1", "a==", "../a", "a\nb", "$(x)"] {
            assert!(!is_requirement(bad), "{bad}");
        }
    }

    #[test]
    fn paths_inside_a_folder_are_relative_and_plain() {
        for good in ["main.py", "./main.py", "lib/x.py"] {
            assert!(is_inside(good), "{good}");
        }
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "a\0b", "a\nb"] {
            assert!(!is_inside(bad), "{bad}");
        }
    }
}
