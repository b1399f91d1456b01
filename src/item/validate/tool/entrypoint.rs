//! The entrypoint and the imports of a script.

use std::path::{Path, PathBuf};

use super::is_inside;
use crate::item::finding::Findings;
use crate::item::source::leaves;
use crate::item::tool::LoadedTool;
use crate::item::validate::place_of;
use crate::problem::Code;

/// The entrypoint of a tool; problems go to `findings`.
pub(in crate::item::validate) fn find_entrypoint(
    tool: &LoadedTool,
    findings: &mut Findings,
) -> Option<PathBuf> {
    let path = "config.entrypoint";
    let place = place_of(&tool.node, path);
    let entrypoint = tool.manifest.config.get("entrypoint")?.as_str()?;
    let folder = tool.folder.as_deref().or_else(|| tool.file.parent())?;
    if entrypoint.is_empty() || entrypoint.chars().any(char::is_control) {
        findings
            .add(
                Code::InvalidPath,
                place,
                path,
                format!(
                    "Entrypoint '{}' is empty or holds control characters",
                    entrypoint.escape_debug()
                ),
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
                format!(
                    "Entrypoint '{}' leaves the tool's folder",
                    entrypoint.escape_debug()
                ),
            )
            .suggest("keep the file beside the manifest and name it by a relative path");
        return None;
    }
    let file = folder.join(entrypoint);
    let Ok(metadata) = file.metadata() else {
        findings
            .add(
                Code::MissingEntrypoint,
                place,
                path,
                format!("Entrypoint '{entrypoint}' not found"),
            )
            .suggest(format!(
                "create it in `{}`",
                folder
                    .file_name()
                    .map_or("the tool's folder".into(), |name| name.to_string_lossy())
            ));
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
            .add(
                Code::NotARegularFile,
                place,
                path,
                format!("Entrypoint '{entrypoint}' is not a regular file"),
            )
            .suggest("name the file to run, not its folder");
        return None;
    }
    Some(file)
}

/// Checks that the imported library modules exist.
pub(super) fn lib_imports(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    let Some(list) = tool
        .node
        .find("config")
        .and_then(|config| config.find("lib_imports"))
    else {
        return;
    };
    let (Some(names), Some(project)) = (list.elements(), project) else {
        return;
    };
    for (at, name) in names.iter().enumerate() {
        let path = format!("config.lib_imports[{at}]");
        let Some(module) = name.as_text() else {
            findings
                .add(
                    Code::InvalidType,
                    name.place,
                    path,
                    "a module must be named by a string",
                )
                .suggest("name a file of `.ai/tools/lib/` without its ending");
            continue;
        };
        let lib = project.join(".ai/tools/lib");
        let exists = is_inside(module)
            && (lib.join(format!("{module}.py")).is_file() || lib.join(module).is_dir());
        if !exists {
            findings
                .add(
                    Code::UnknownItem,
                    name.place,
                    path,
                    format!("library module '{}' not found", module.escape_debug()),
                )
                .suggest(format!(
                    "create `.ai/tools/lib/{}.py`",
                    module.escape_debug()
                ));
        }
    }
}
