//! Hostile and broken input, end to end: an error with a code and a place, within limits.
//!
//! Every test writes a real project and runs the real binary with limited CPU time and memory
//! ([`TestProject::limited`]). Its name begins with the number of the hazard. A test compares every
//! finding except `UNSIGNED`, which all projects here have.

mod directive;
mod file;
mod grant;
mod path;
mod process;
mod schema;
mod template;
mod unheld;
pub(crate) mod unprivileged;
mod yaml;

use std::fmt::Write as _;

use crate::harness::{Ran, TestProject};

/// More findings than this are counted, not listed.
const MAX_LISTED: usize = 12;

/// Compares exit code and findings of `piton validate` with an inline snapshot.
macro_rules! validated {
    ($project:expr, @$snapshot:literal) => {
        $crate::hazards::told!($project, ["validate", "--format", "json"], @$snapshot)
    };
}
use validated;

/// Compares exit code and findings, or the error, of a command that prints JSON.
macro_rules! told {
    ($project:expr, $arguments:expr, @$snapshot:literal) => {{
        let ran = $project.limited($arguments);
        insta::with_settings!({ filters => ran.filters(), omit_expression => true }, {
            insta::assert_snapshot!($crate::hazards::summary(&ran), @$snapshot);
        });
    }};
}
use told;

/// A project with one tool manifest, `.ai/tools/t.yaml`.
fn manifest(text: impl AsRef<[u8]>) -> TestProject {
    TestProject::new().file(".ai/tools/t.yaml", text)
}

/// A valid manifest, with more lines.
fn tool(more: &str) -> String {
    format!(
        "tool_id: t\ntool_type: cli\nversion: \"1.0.0\"\ndescription: A tool\nexecutor: subprocess\n\
         config:\n  command: echo\n{more}\n"
    )
}

/// A project with one directive file, `.ai/directives/d.md`.
fn directive(text: impl AsRef<[u8]>) -> TestProject {
    TestProject::new().file(".ai/directives/d.md", text)
}

/// A directive in a fence, with a first line for each part.
fn fenced(metadata: &str, rest: &str) -> String {
    format!("# D\n\n```xml\n{}\n```\n", xml(metadata, rest))
}

/// A directive, with more in its metadata and after it.
fn xml(metadata: &str, rest: &str) -> String {
    format!(
        "<directive name=\"d\" version=\"1.0.0\">\n<metadata>\n<description>D</description>\n\
         <category>c</category>\n<author>a</author>\n<model tier=\"fast\"/>\n{metadata}\n</metadata>\n{rest}\n</directive>"
    )
}

/// A process with one step.
fn process(action: &str) -> String {
    format!(
        "<process>\n<step name=\"one\"><description>x</description>\n{action}\n</step>\n</process>"
    )
}

/// Exit code and findings, one per line; the plain output if it is not a report.
fn summary(ran: &Ran) -> String {
    let mut text = format!(
        "exit {}\n",
        ran.code()
            .map_or("none".to_owned(), |code| code.to_string())
    );
    let report: serde_json::Value = match serde_json::from_str(&ran.stdout()) {
        Ok(report) => report,
        Err(_) => return format!("{text}{}{}", ran.stdout(), ran.stderr()),
    };
    let Some(findings) = report["findings"].as_array() else {
        return format!("{text}{report}\n{}", ran.stderr());
    };
    let shown: Vec<_> = findings
        .iter()
        .filter(|finding| finding["code"] != "UNSIGNED")
        .collect();
    for finding in shown.iter().take(MAX_LISTED) {
        let field = |name: &str| {
            finding[name]
                .as_str()
                .unwrap_or_default()
                .escape_debug()
                .to_string()
        };
        let message: String = field("message").chars().take(120).collect();
        writeln!(
            text,
            "{} {} {}:{}:{} {message}",
            field("severity"),
            field("code"),
            field("file"),
            finding["line"],
            finding["column"],
        )
        .expect("a string takes everything");
    }
    if shown.len() > MAX_LISTED {
        writeln!(text, "and {} more", shown.len() - MAX_LISTED).expect("a string takes everything");
    }
    text
}
