//! The built-in items: primitives, runtimes and core directives.
//!
//! They are ordinary item files, read by the same parsers; a test proves that none has a finding.

use std::path::{Path, PathBuf};

use super::{Item, ItemContent, Layer};
use crate::item::directive;
use crate::item::finding::{Findings, Strength};
use crate::item::signature::Integrity;
use crate::item::source::SourceFile;
use crate::item::tool::{self, Root, ToolLocation, ToolReading};

/// The folder name of built-in items.
const BUILTIN: &str = "<builtin>";

const TOOLS: [(&str, &str); 6] = [
    (
        "subprocess.yaml",
        include_str!("../builtin/tools/subprocess.yaml"),
    ),
    (
        "http_client.yaml",
        include_str!("../builtin/tools/http_client.yaml"),
    ),
    (
        "python_runtime.yaml",
        include_str!("../builtin/tools/python_runtime.yaml"),
    ),
    (
        "bash_runtime.yaml",
        include_str!("../builtin/tools/bash_runtime.yaml"),
    ),
    (
        "node_runtime.yaml",
        include_str!("../builtin/tools/node_runtime.yaml"),
    ),
    (
        "docker_runtime.yaml",
        include_str!("../builtin/tools/docker_runtime.yaml"),
    ),
];

const DIRECTIVES: [(&str, &str); 3] = [
    (
        "git_checkpoint.md",
        include_str!("../builtin/directives/git_checkpoint.md"),
    ),
    (
        "migrate_script_to_tool.md",
        include_str!("../builtin/directives/migrate_script_to_tool.md"),
    ),
    (
        "sign_items.md",
        include_str!("../builtin/directives/sign_items.md"),
    ),
];

/// The text of a built-in item, by its `<builtin>` path.
pub(crate) fn text(file: &Path) -> Option<&'static str> {
    let inside = file.strip_prefix(BUILTIN).ok()?;
    let named = |folder: &str, files: &[(&str, &'static str)]| {
        files
            .iter()
            .find(|(name, _)| Path::new(folder).join(name) == inside)
            .map(|(_, text)| *text)
    };
    named("tools", &TOOLS).or_else(|| named("directives", &DIRECTIVES))
}

pub(in crate::item) fn items() -> Vec<Item> {
    let tools = TOOLS.iter().filter_map(|(name, text)| {
        let (source, mut findings) = source("tools", name, text);
        let around = ToolLocation {
            folder: None,
            root: Root::Tools,
            in_lib: false,
            extractors: &[],
        };
        let ToolReading::Tool(tool) = tool::read(&source, &around, &mut findings) else {
            return None;
        };
        let manifest = &tool.manifest;
        Some(item(
            manifest.tool_id.clone(),
            manifest.category.clone(),
            source.path,
            ItemContent::Tool(tool.clone()),
        ))
    });
    let directives = DIRECTIVES.iter().filter_map(|(name, text)| {
        let (source, mut findings) = source("directives", name, text);
        let directive = directive::parse(&source, &mut findings)?;
        Some(item(
            directive.name.clone(),
            directive.category.clone(),
            source.path,
            ItemContent::Directive(Box::new(directive)),
        ))
    });
    tools.chain(directives).collect()
}

fn item(
    id: crate::item::id::ItemId,
    category: String,
    file: PathBuf,
    content: ItemContent,
) -> Item {
    let folder_category = category.clone();
    Item {
        layer: Layer::Builtin,
        id,
        category,
        folder_category,
        file,
        integrity: Integrity::Unsigned,
        content,
        errors: Vec::new(),
        legacy_root: false,
        named: true,
    }
}

fn source(folder: &str, name: &str, text: &str) -> (SourceFile, Findings) {
    let path = Path::new(BUILTIN).join(folder).join(name);
    let findings = Findings::new(&path, Strength::Strict);
    (
        SourceFile {
            path,
            text: text.to_owned(),
            marked: false,
        },
        findings,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_item_has_its_text() {
        for item in items() {
            assert!(
                text(&item.file).is_some_and(|text| text.contains(item.id.as_str())),
                "{}",
                item.file.display()
            );
        }
        assert_eq!(text(Path::new("<builtin>/tools/none.yaml")), None);
    }

    #[test]
    fn every_builtin_item_loads_without_a_finding() {
        assert_eq!(items().len(), TOOLS.len() + DIRECTIVES.len());
        for (name, text) in TOOLS {
            let (source, mut findings) = source("tools", name, text);
            let around = ToolLocation {
                folder: None,
                root: Root::Tools,
                in_lib: false,
                extractors: &[],
            };
            tool::read(&source, &around, &mut findings);
            assert_eq!(findings.as_slice(), []);
        }
        for (name, text) in DIRECTIVES {
            let (source, mut findings) = source("directives", name, text);
            directive::parse(&source, &mut findings);
            assert_eq!(findings.as_slice(), []);
        }
    }
}
