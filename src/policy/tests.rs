//! The tests parse grants with the real parser, so that they hold for real files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Map;

use super::*;
use crate::exec::invocation::{
    Action, ChainLink, Container, ContainerImage, ContainerNetwork, MaskedText, Process,
    ResourceLimits, User,
};
use crate::item::directive;
use crate::item::finding::{Findings, Severity, Strength};
use crate::item::signature::Integrity;
use crate::item::source::SourceFile;
use crate::item::store::Layer;
use crate::item::tool::{Isolation, Requires, ToolKind, ToolOutputs};

mod containers;
mod endpoints;
mod grants;
mod mcp;
mod properties;
mod writes;

fn grants(permissions: &str) -> Vec<Grant> {
    let text = format!(
        "```xml\n<directive name=\"d\" version=\"1.0.0\">\n<permissions>{permissions}</permissions>\n\
         <process><step name=\"a\"><action>x</action></step></process>\n</directive>\n```\n"
    );
    let mut findings = Findings::new(Path::new("d.md"), Strength::Lenient);
    let source = SourceFile {
        path: PathBuf::from("d.md"),
        text,
        marked: false,
    };
    let directive = directive::parse(&source, &mut findings).expect("a directive");
    let errors: Vec<_> = findings
        .as_slice()
        .iter()
        .filter(|it| it.severity == Severity::Error)
        .collect();
    assert!(errors.is_empty(), "{permissions}: {errors:?}");
    directive.permissions
}

fn link(id: &str, tool_type: &str, kind: ToolKind, layer: Layer) -> ChainLink {
    ChainLink {
        id: id.parse().expect("an id"),
        categories: Vec::new(),
        version: "1.0.0".to_owned(),
        tool_type: tool_type.to_owned(),
        kind,
        layer,
        file: PathBuf::from("tool.yaml"),
        signature: Integrity::Unsigned,
    }
}

fn invocation(chain: Vec<ChainLink>) -> Invocation {
    Invocation {
        chain,
        command: None,
        parameters: Map::new(),
        action: Action::Process(Process {
            program: MaskedText::plain("bash"),
            arguments: Vec::new(),
            folder: PathBuf::from("/project"),
            environment: std::collections::BTreeMap::new(),
            input: Vec::new(),
            script: None,
            python: None,
            node_packages: Vec::new(),
            limits: ResourceLimits::default(),
            install_check: None,
            install_guide: None,
            program_place: None,
        }),
        timeout: Duration::from_secs(1),
        isolation: Isolation::Standard,
        isolation_asked: false,
        requires: Requires::default(),
        variables: Vec::new(),
        mutates_state: None,
        writes: None,
        caches: Vec::new(),
        outputs: ToolOutputs::default(),
        output_schema: None,
        origins: std::collections::BTreeMap::new(),
    }
}

/// A project script on a built-in runtime.
fn script(id: &str, tool_type: &str, runtime: &str) -> Invocation {
    invocation(vec![
        link(id, tool_type, ToolKind::Script, Layer::Project),
        link(runtime, "runtime", ToolKind::Runtime, Layer::Builtin),
        link(
            "subprocess",
            "primitive",
            ToolKind::Primitive,
            Layer::Builtin,
        ),
    ])
}

fn container(network: ContainerNetwork) -> Invocation {
    let mut invocation = invocation(vec![
        link("box", "docker", ToolKind::Docker, Layer::Project),
        link(
            "docker_runtime",
            "runtime",
            ToolKind::Runtime,
            Layer::Builtin,
        ),
        link(
            "http_client",
            "primitive",
            ToolKind::Primitive,
            Layer::Builtin,
        ),
    ]);
    invocation.action = Action::Container(Box::new(Container {
        engines: Vec::new(),
        image: ContainerImage::Named("alpine:3".to_owned()),
        command: Vec::new(),
        entrypoint: None,
        folder: None,
        volumes: Vec::new(),
        network,
        user: User::Caller,
        environment: std::collections::BTreeMap::new(),
        input: Vec::new(),
        limits: ResourceLimits::default(),
    }));
    invocation
}

fn judge_by(permissions: &str, invocation: &Invocation) -> Verdict {
    let grants = grants(permissions);
    judge(
        &Authority::Directives(vec![PolicyCaller {
            name: "d",
            grants: &grants,
        }]),
        invocation,
    )
}

fn allows(permissions: &str, invocation: &Invocation) -> bool {
    judge_by(permissions, invocation).is_allowed()
}
