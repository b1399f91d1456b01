//! JSON Schemas in items, and the files of `.ai/schemas/` that tools name.
//!
//! [`report`] reports the problems of a schema at its position; every kind of item uses it.
//! [`check_files`] checks the files, [`exists`] whether a name has one.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::place_of;
use crate::item::finding::{Finding, Findings, Strength};
use crate::item::id::ItemId;
use crate::item::json;
use crate::item::node::Node;
use crate::item::params::{self, SchemaProblem};
use crate::item::position::Position;
use crate::item::source::{MAX_DOCUMENT, SourceFile, files_below, leaves};
use crate::item::store::Roots;
use crate::problem::Code;

/// Reports the problems of a schema; `locate` turns a JSON pointer into a field and its position.
pub(super) fn report(
    schema: &Value,
    locate: impl Fn(&str) -> (String, Position),
    findings: &mut Findings,
) {
    for problem in params::check_schema(schema) {
        let (path, place) = locate(&problem.pointer);
        let suggestion = way_out(&problem);
        findings
            .add(problem.code, place, path, problem.message)
            .suggest(suggestion);
    }
}

/// The field below `base` for a JSON pointer, and its position.
pub(super) fn locate(node: &Node, base: &str, pointer: &str) -> (String, Position) {
    let path = format!("{base}{}", pointer.replace('/', "."));
    let place = place_of(node, &path);
    (path, place)
}

/// Whether `.ai/schemas/` has a file of this name.
pub(super) fn exists(project: &Path, name: &str) -> bool {
    name.parse::<ItemId>().is_ok() && file_of(project, name).is_file()
}

/// Checks every file of `.ai/schemas/`.
pub fn check_files(roots: &Roots, strength: Strength) -> Vec<Finding> {
    let Some(project) = &roots.project else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (path, listed) in files_below(&project.join(".ai/schemas")) {
        let mut findings = Findings::new(&roots.display(&path), strength);
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        if let Err(unread) = listed {
            unread.report(&mut findings);
        } else if is_json && leaves(&path, project) {
            findings
                .add(
                    Code::PathEscape,
                    Position::START,
                    "",
                    "the link leaves the project",
                )
                .suggest("copy the file into the project");
        } else if is_json
            && let Some(source) = SourceFile::load(&path, MAX_DOCUMENT, &mut findings)
            && let Some(node) = json::parse(&source.text, Position::START, &mut findings)
        {
            let locate = |pointer: &str| {
                let (path, place) = locate(&node, "", pointer);
                (path.trim_start_matches('.').to_owned(), place)
            };
            report(&node.to_json(), locate, &mut findings);
        }
        found.extend(findings.into_vec());
    }
    found
}

fn file_of(project: &Path, name: &str) -> PathBuf {
    project.join(".ai/schemas").join(format!("{name}.json"))
}

fn way_out(problem: &SchemaProblem) -> &'static str {
    match problem.code {
        Code::RemoteReference if problem.pointer.ends_with("/$schema") => {
            "remove `$schema`, or write \"https://json-schema.org/draft/2020-12/schema\""
        }
        Code::RemoteReference => {
            "copy what is needed below `$defs` and refer to it as `#/$defs/NAME`"
        }
        Code::InvalidDefault => "change the default, or what the schema allows",
        _ if problem.pointer.ends_with("/type") => {
            "types are string, integer, number, boolean, array, object and null"
        }
        _ => "compare it with https://json-schema.org/understanding-json-schema",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn finding_lines(files: &[(&str, &str)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let schemas = dir.path().join(".ai/schemas");
        fs::create_dir_all(&schemas).unwrap();
        for (name, text) in files {
            fs::write(schemas.join(name), text).unwrap();
        }
        let roots = Roots {
            project: Some(dir.path().to_path_buf()),
            user: None,
        };
        let findings = check_files(&roots, Strength::Lenient);
        assert!(
            findings.iter().all(|finding| finding.suggestion.is_some()),
            "{findings:?}"
        );
        let line = |it: &Finding| {
            format!(
                "{} {}:{}:{} {}",
                it.code,
                it.file.display(),
                it.line,
                it.column,
                it.path
            )
        };
        findings.iter().map(line).collect()
    }

    #[test]
    fn every_schema_file_is_judged_at_its_place() {
        let files = [
            ("good.json", r#"{"type": "object"}"#),
            ("notes.md", "not a schema"),
            ("syntax.json", "{\n  \"type\": }"),
            (
                "type.json",
                "{\n  \"properties\": {\"a\": {\"type\": \"text\"}}\n}",
            ),
            ("remote.json", r#"{"$ref": "https://example.com/x.json"}"#),
        ];
        assert_eq!(
            finding_lines(&files),
            [
                "REMOTE_REFERENCE .ai/schemas/remote.json:1:10 $ref",
                "JSON_SYNTAX .ai/schemas/syntax.json:2:11 ",
                "INVALID_SCHEMA .ai/schemas/type.json:2:32 properties.a.type",
            ]
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_link_out_of_the_project_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        fs::create_dir_all(project.join(".ai/schemas")).unwrap();
        fs::write(dir.path().join("secret.json"), "secret").unwrap();
        std::os::unix::fs::symlink(
            dir.path().join("secret.json"),
            project.join(".ai/schemas/a.json"),
        )
        .unwrap();
        let findings = check_files(
            &Roots {
                project: Some(project),
                user: None,
            },
            Strength::Lenient,
        );
        assert_eq!(
            findings
                .iter()
                .map(|finding| finding.code)
                .collect::<Vec<_>>(),
            [Code::PathEscape]
        );
    }

    #[test]
    fn a_name_never_leaves_the_folder_of_schemas() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".ai/schemas")).unwrap();
        fs::write(dir.path().join(".ai/schemas/report.json"), "{}").unwrap();
        fs::write(dir.path().join("outside.json"), "{}").unwrap();
        assert!(exists(dir.path(), "report"));
        assert!(!exists(dir.path(), "../../outside"));
        assert!(!exists(dir.path(), "reprot"));
    }
}
