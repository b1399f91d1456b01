//! The requirements and writes of a tool: `requires` and `writes`.

use globset::GlobBuilder;

use crate::item::finding::Findings;
use crate::problem::Code;

use super::Requires;
use super::draft::ToolDraft;
use super::fields::{texts, wrong_type};
use crate::item::wording::{did_you_mean, nearest, shown};

/// Reads the mapping `requires: {commands, environment, mcp}`.
pub(super) fn requires(draft: &ToolDraft, findings: &mut Findings) -> Requires {
    const FIELDS: [&str; 3] = ["commands", "environment", "mcp"];
    let path = draft.path("requires");
    let Some(value) = draft.node.find("requires") else {
        return Requires::default();
    };
    let Some(entries) = value.entries() else {
        wrong_type(
            value,
            &path,
            "a mapping with commands, environment and mcp",
            findings,
        );
        return Requires::default();
    };
    for entry in entries
        .iter()
        .filter(|entry| !FIELDS.contains(&entry.key.as_str()))
    {
        let finding = findings.add(
            Code::UnknownField,
            entry.place,
            format!("{path}.{}", entry.key),
            format!("requires has no field `{}`", entry.key.escape_debug()),
        );
        let meant = if entry.key == "env" {
            Some("environment")
        } else {
            nearest(&entry.key, FIELDS)
        };
        finding.suggest(did_you_mean(meant, "use commands, environment and mcp"));
    }
    let mut list =
        |key: &str| texts(value, key, &format!("{path}.{key}"), findings).unwrap_or_default();
    Requires {
        commands: list("commands"),
        environment: list("environment"),
        mcp: list("mcp"),
    }
}

/// Reads `writes`: globs relative to the project.
pub(super) fn writes(draft: &ToolDraft, findings: &mut Findings) -> Option<Vec<String>> {
    let path = draft.path("writes");
    let globs = texts(&draft.node, "writes", &path, findings)?;
    let elements = draft
        .node
        .find("writes")
        .and_then(|value| value.elements())
        .unwrap_or_default();
    for (at, element) in elements.iter().enumerate() {
        let Some(glob) = element.as_text() else {
            continue;
        };
        let path = format!("{path}[{at}]");
        if glob.is_empty() {
            findings
                .add(
                    Code::InvalidPath,
                    element.place,
                    path,
                    "a glob must not be empty",
                )
                .suggest("name files below the project, e.g. `docs/**`");
        } else if glob.contains(char::is_control) {
            let message = format!(
                "`{}` contains characters that are not allowed in a path",
                shown(glob)
            );
            findings
                .add(Code::InvalidPath, element.place, path, message)
                .suggest("write `/` between folders; in double quotes `\\` begins an escape");
        } else if glob.starts_with(['/', '~', '\\'])
            || glob.split(['/', '\\']).any(|part| part == "..")
        {
            findings
                .add(
                    Code::PathEscape,
                    element.place,
                    path,
                    format!("`{glob}` leaves the project"),
                )
                .suggest("write a glob relative to the project, e.g. `docs/**`");
        } else if let Err(err) = GlobBuilder::new(glob).literal_separator(true).build() {
            findings
                .add(
                    Code::InvalidPattern,
                    element.place,
                    path,
                    format!("`{glob}` is not a glob: {}", err.kind()),
                )
                .suggest("use `*`, `**`, `?`, `[…]` and `{a,b}`; escape others with `\\`");
        }
    }
    Some(globs)
}
