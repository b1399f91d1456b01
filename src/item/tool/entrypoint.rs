//! Parameters that a manifest leaves to its Python entrypoint.
//!
//! A manifest without parameters uses those of `main`, like a self-describing script. The script is
//! parsed, never run.

use crate::item::finding::Findings;
use crate::item::node::Node;
use crate::item::source::SourceFile;

use super::origin::collect_origins;
use super::{LoadedTool, Origin, Spelling, ToolKind, parameters, python};

/// Whether the parameters of a tool are those of its script.
pub(crate) fn speaks_for(tool: &LoadedTool) -> bool {
    let silent = ["parameters", "inputs"]
        .iter()
        .all(|key| tool.node.find(key).is_none_or(Node::is_null));
    tool.manifest.kind == ToolKind::Script
        && matches!(
            tool.spelling,
            Spelling::Manifest | Spelling::ExecutorBlock | Spelling::JsonSchema
        )
        && silent
}

pub(crate) fn read_main(tool: &mut LoadedTool, script: &SourceFile) {
    // The interpreter checks whether the script can be parsed.
    let mut ignored = Findings::new(&script.path, crate::item::finding::Strength::Lenient);
    let Some(main) = python::read(&script.text, |_| false, &mut ignored).main else {
        return;
    };
    let mut map = Node::map(Vec::new(), main.place);
    map.set("inputs", main.place, main);
    let interface = parameters::read(&map, str::to_owned, &mut ignored);
    tool.manifest.parameters = interface.parameters;
    tool.manifest.input_schema = interface.input_schema;
    collect_origins(&map, "", 0, &mut |path, place| {
        tool.elsewhere
            .insert(path, Origin::new(script.path.clone(), place));
    });
}
