//! Dependencies: package requirements from all sources.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::item::finding::Findings;
use crate::item::position::Position;
use crate::item::tool::LoadedTool;
use crate::item::validate::place_of;
use crate::problem::Code;

pub(super) fn check(tool: &LoadedTool, project: Option<&Path>, findings: &mut Findings) {
    let is_python = tool
        .manifest
        .executor
        .as_ref()
        .is_none_or(|id| id.as_str() == "python_runtime");
    for (at, dependency) in tool
        .manifest
        .dependencies
        .iter()
        .enumerate()
        .filter(|(_, text)| !is_requirement(text))
    {
        let path = format!("dependencies[{at}]");
        match tool.elsewhere.get(&path) {
            Some(origin) => {
                let inside = project.and_then(|root| origin.file.strip_prefix(root).ok());
                let mut own = Findings::new(inside.unwrap_or(&origin.file), findings.strength());
                bad_requirement(
                    dependency,
                    Position {
                        line: origin.line,
                        column: origin.column,
                    },
                    "",
                    &mut own,
                );
                findings.extend(own.into_vec());
            }
            None if is_python => {
                bad_requirement(dependency, place_of(&tool.node, &path), &path, findings);
            }
            None => {}
        }
    }
}

fn bad_requirement(text: &str, place: Position, path: &str, findings: &mut Findings) {
    findings
        .add(
            Code::InvalidRequirement,
            place,
            path,
            format!("'{}' is not a valid requirement", text.escape_debug()),
        )
        .suggest("write `name`, `name>=1.2` or `name[extra]==1.2`");
}

fn is_requirement(text: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let name = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?";
        let version = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9._*+!-]+";
        let versions = format!(r"(?:\(?\s*{version}(?:\s*,\s*{version})*\s*\)?)?");
        Regex::new(&format!(
            r"^{name}(?:\s*\[[A-Za-z0-9._,\s-]*\])?\s*(?:{versions}|@\s*\S+)\s*(?:;.+)?$"
        ))
        .ok()
    });
    text.len() < 1024
        && PATTERN
            .as_ref()
            .is_some_and(|pattern| pattern.is_match(text.trim()))
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
}
