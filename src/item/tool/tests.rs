//! Whole tools: equal manifests from every spelling, the examples of the specification, wrong
//! input.

mod equal;
mod hostile;
mod render;
mod seeds;
mod wrong;

use std::path::Path;

use super::*;
use crate::item::extractor::{self, Extractor};
use crate::item::finding::{Findings, Strength};
use crate::item::source::SourceFile;

/// Reads a text as a file and lists the findings as `CODE line:column path`.
struct Case {
    reading: ToolReading,
    findings: Findings,
}

impl Case {
    fn tool(&self) -> &LoadedTool {
        match &self.reading {
            ToolReading::Tool(tool) => tool,
            other => panic!("not a tool: {other:?} {:?}", self.findings.as_slice()),
        }
    }

    fn finding_lines(&self) -> Vec<String> {
        self.findings
            .as_slice()
            .iter()
            .map(|finding| {
                format!(
                    "{} {}:{} {}",
                    finding.code, finding.line, finding.column, finding.path
                )
            })
            .collect()
    }

    fn messages(&self) -> Vec<&str> {
        self.findings
            .as_slice()
            .iter()
            .map(|finding| finding.message.as_str())
            .collect()
    }

    fn suggestions(&self) -> Vec<String> {
        self.findings
            .as_slice()
            .iter()
            .filter_map(|finding| finding.suggestion.clone().map(String::from))
            .collect()
    }
}

const TOOLS: ToolLocation<'static> = ToolLocation {
    folder: None,
    root: Root::Tools,
    in_lib: false,
    extractors: &[],
};
const SCRIPTS: ToolLocation<'static> = ToolLocation {
    root: Root::Scripts,
    ..TOOLS
};
const LIB: ToolLocation<'static> = ToolLocation {
    in_lib: true,
    ..TOOLS
};

fn read_in(around: &ToolLocation<'_>, strength: Strength, name: &str, text: &str) -> Case {
    let source = SourceFile {
        path: name.into(),
        text: text.to_owned(),
        marked: false,
    };
    let mut findings = Findings::new(Path::new(name), strength);
    let reading = read(&source, around, &mut findings);
    Case { reading, findings }
}

fn lenient(name: &str, text: &str) -> Case {
    read_in(&TOOLS, Strength::Lenient, name, text)
}

fn strict(name: &str, text: &str) -> Case {
    read_in(&TOOLS, Strength::Strict, name, text)
}

fn extractor(text: &str) -> (Option<Extractor>, Findings) {
    let source = SourceFile {
        path: "rules.yaml".into(),
        text: text.to_owned(),
        marked: false,
    };
    let mut findings = Findings::new(Path::new("rules.yaml"), Strength::Lenient);
    (extractor::parse(&source, &mut findings), findings)
}
