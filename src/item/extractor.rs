//! A project's rules for extracting metadata from scripts.
//!
//! Rules are data: a YAML file in `.ai/extractors/` says which pattern finds which field. Two forms
//! are read: `field: {pattern, source: filename|content|config, default}` and `extraction_rules`
//! with a `type` per field. An extractor written in code is never executed.

mod values;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder};

use super::finding::Findings;
use super::node::{Data, Node, NodeEntry};
use super::position::Position;
use super::source::{MAX_DOCUMENT, SourceFile};
use super::tool::KEYS as FIELDS;
use super::wording::{did_you_mean, nearest};
use super::yaml;
use crate::problem::Code;

/// In bytes of a compiled pattern.
const PATTERN_LIMIT: usize = 1 << 20;

/// Known keys of a structured extractor besides its rules.
const SETTINGS: [&str; 15] = [
    "extensions",
    "parser",
    "signature_format",
    "rules",
    "extraction_rules",
    "search_fields",
    "validation_schema",
    "structure",
    "executor_id",
    "tool_id",
    "tool_type",
    "version",
    "name",
    "description",
    "category",
];

/// The rules for scripts with certain extensions.
#[derive(Clone, Debug)]
pub struct Extractor {
    file: PathBuf,
    /// Extensions without dot, in lower case; empty means every script.
    extensions: Vec<String>,
    rules: Vec<ExtractRule>,
}

#[derive(Clone, Debug)]
struct ExtractRule {
    field: String,
    method: Option<ExtractMethod>,
    default: Option<Node>,
}

#[derive(Clone, Debug)]
enum ExtractMethod {
    /// The first match of a pattern.
    First(PatternSearch),
    /// All matches of a pattern, as a list.
    All(PatternSearch),
    /// The folders between a base folder and the file.
    Folders(String),
    /// A literal assigned in a Python module.
    Variable(String),
    Docstring,
}

#[derive(Clone, Debug)]
struct PatternSearch {
    subject: Subject,
    pattern: Regex,
    group: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The file name without its extension.
    Stem,
    Content,
    /// The settings file beside the script, or its comment header.
    Config,
}

/// Loads a file of `.ai/extractors/`; problems go to `findings`.
pub fn load(file: &Path, findings: &mut Findings) -> Option<Extractor> {
    match file.extension().and_then(OsStr::to_str) {
        Some("yaml" | "yml") => parse(&SourceFile::load(file, MAX_DOCUMENT, findings)?, findings),
        Some("py") => {
            findings
                .add(
                    Code::CodeNotExecuted,
                    Position::START,
                    "",
                    "an extractor written in Python is not executed",
                )
                .suggest("write its rules as YAML: `field: {pattern: …, source: content}`");
            None
        }
        _ => None,
    }
}

pub fn parse(source: &SourceFile, findings: &mut Findings) -> Option<Extractor> {
    let node = yaml::parse(&source.text, Position::START, findings)?;
    let Some(entries) = node.entries() else {
        let message = format!("an extractor must be a mapping, not a {}", node.type_name());
        findings
            .add(Code::InvalidType, node.place, "", message)
            .suggest("write rules: `field: {pattern: …, source: content}`");
        return None;
    };
    let nested = ["extraction_rules", "rules"]
        .into_iter()
        .find_map(|key| node.find_entry(key));
    let extensions = extensions(&node, findings);
    let (prefix, rules) = match nested {
        Some(nested) => {
            for entry in entries
                .iter()
                .filter(|entry| !SETTINGS.contains(&entry.key.as_str()))
            {
                report_unknown(entry, &entry.key, &SETTINGS, findings);
            }
            let Some(rules) = nested.value.entries() else {
                let message = format!("{} must be a mapping", nested.key);
                findings
                    .add(
                        Code::InvalidType,
                        nested.value.place,
                        nested.key.clone(),
                        message,
                    )
                    .suggest("write rules: `field: {pattern: …, source: content}`");
                return None;
            };
            (format!("{}.", nested.key), rules)
        }
        None => (String::new(), entries),
    };
    let parser = nested.and(node.find("parser")).and_then(Node::as_text);
    let rules = rules
        .iter()
        .filter(|entry| nested.is_some() || entry.key != "extensions")
        .filter_map(|entry| rule(entry, parser, &format!("{prefix}{}", entry.key), findings))
        .collect();
    Some(Extractor {
        file: source.path.clone(),
        extensions,
        rules,
    })
}

fn extensions(node: &Node, findings: &mut Findings) -> Vec<String> {
    let Some(value) = node.find("extensions") else {
        return Vec::new();
    };
    let elements = match &value.data {
        Data::List(elements) => elements.as_slice(),
        _ => std::slice::from_ref(value),
    };
    let mut endings = Vec::new();
    for element in elements {
        match element
            .as_text()
            .map(|text| text.trim_start_matches('.').to_ascii_lowercase())
        {
            Some(ending) if !ending.is_empty() => endings.push(ending),
            _ => {
                findings
                    .add(
                        Code::InvalidType,
                        element.place,
                        "extensions",
                        "extensions must be a list of endings",
                    )
                    .suggest("write `extensions: [\".rb\"]`");
            }
        }
    }
    endings
}

fn report_unknown(entry: &NodeEntry, path: &str, known: &[&str], findings: &mut Findings) {
    let message = format!("extractors have no field `{}`", entry.key.escape_debug());
    let finding = findings.add(Code::UnknownField, entry.place, path, message);
    finding.suggest(did_you_mean(
        nearest(&entry.key, known.iter().copied()),
        "remove it",
    ));
}

fn rule(
    entry: &NodeEntry,
    parser: Option<&str>,
    path: &str,
    findings: &mut Findings,
) -> Option<ExtractRule> {
    const KEYS: [&str; 14] = [
        "pattern",
        "source",
        "default",
        "type",
        "group",
        "multiline",
        "key",
        "fallback",
        "base_folder",
        "name",
        "ignorecase",
        "dotall",
        "description",
        "required",
    ];
    if !FIELDS.contains(&entry.key.as_str()) {
        report_unknown(entry, path, &FIELDS, findings);
        return None;
    }
    let field = if entry.key == "executor_id" {
        "executor".to_owned()
    } else {
        entry.key.clone()
    };
    let spec = &entry.value;
    let Some(entries) = spec.entries() else {
        findings
            .add(
                Code::InvalidType,
                spec.place,
                path,
                format!("{path} must be a mapping with pattern and source"),
            )
            .suggest(format!(
                "write `{}: {{default: …}}` for a fixed value",
                entry.key
            ));
        return None;
    };
    for unknown in entries
        .iter()
        .filter(|entry| !KEYS.contains(&entry.key.as_str()))
    {
        report_unknown(unknown, &format!("{path}.{}", unknown.key), &KEYS, findings);
    }
    let default = spec.find("default").cloned();
    let method = method(spec, parser, path, findings);
    if method.is_none() && default.is_none() {
        // Other problems of the rule have been reported; an empty rule has not.
        if spec.find("pattern").is_none() && spec.find("type").is_none() {
            findings
                .add(
                    Code::MissingRequiredField,
                    entry.place,
                    path,
                    format!("{path} has neither pattern nor default"),
                )
                .suggest("add `pattern:` or `default:`");
        }
        return None;
    }
    Some(ExtractRule {
        field,
        method,
        default,
    })
}

fn method(
    spec: &Node,
    parser: Option<&str>,
    path: &str,
    findings: &mut Findings,
) -> Option<ExtractMethod> {
    const TYPES: [&str; 7] = [
        "filename",
        "regex",
        "regex_all",
        "path",
        "category_path",
        "ast_var",
        "ast_docstring",
    ];
    let Some(kind) = spec.find("type") else {
        spec.find("pattern")?;
        let subject = subject(spec, path, findings)?;
        return search(spec, subject, path, findings).map(ExtractMethod::First);
    };
    let text = |key: &str| spec.find(key).and_then(Node::as_text).map(str::to_owned);
    match kind.as_text() {
        Some("filename") if spec.find("pattern").is_none() => {
            let pattern = Regex::new(".+").ok()?;
            Some(ExtractMethod::First(PatternSearch {
                subject: Subject::Stem,
                pattern,
                group: 0,
            }))
        }
        Some("filename") => search(spec, Subject::Stem, path, findings).map(ExtractMethod::First),
        Some("regex") => search(spec, Subject::Content, path, findings).map(ExtractMethod::First),
        Some("regex_all") => search(spec, Subject::Content, path, findings).map(ExtractMethod::All),
        Some("category_path") => Some(ExtractMethod::Folders(
            text("base_folder").unwrap_or_else(|| "tools".to_owned()),
        )),
        Some("ast_var") => {
            let name = text("name");
            if name.is_none() {
                findings.add(
                    Code::MissingRequiredField,
                    spec.place,
                    format!("{path}.name"),
                    format!("{path}.name is required: the variable to read"),
                );
            }
            name.map(ExtractMethod::Variable)
        }
        Some("ast_docstring") => Some(ExtractMethod::Docstring),
        // The only parser of the `path` form that needs no project code.
        Some("path") if parser == Some("python_ast") && spec.find("key").is_some() => {
            match text("key") {
                Some(key) if key == "__docstring__" => Some(ExtractMethod::Docstring),
                key => key.map(ExtractMethod::Variable),
            }
        }
        Some("path") => {
            findings
                .add(
                    Code::UnknownEnumValue,
                    kind.place,
                    format!("{path}.type"),
                    "type `path` needs a parser of the project, which is not executed; the rule has no effect",
                )
                .suggest("use `type: regex` with a pattern");
            None
        }
        written => {
            let finding = findings.add(
                Code::InvalidEnumValue,
                kind.place,
                format!("{path}.type"),
                format!("type must be one of {}", TYPES.join(", ")),
            );
            let meant = written.and_then(|written| nearest(written, TYPES));
            finding.suggest(did_you_mean(meant, "use `type: regex` with a pattern"));
            None
        }
    }
}

/// Where a pattern searches.
fn subject(spec: &Node, path: &str, findings: &mut Findings) -> Option<Subject> {
    match spec.find("source").map(|source| (source, source.as_text())) {
        None | Some((_, Some("content"))) => Some(Subject::Content),
        Some((_, Some("filename"))) => Some(Subject::Stem),
        Some((_, Some("config"))) => Some(Subject::Config),
        Some((source, _)) => {
            findings.add(
                Code::InvalidEnumValue,
                source.place,
                format!("{path}.source"),
                "source must be filename, content or config",
            );
            None
        }
    }
}

fn search(
    spec: &Node,
    subject: Subject,
    path: &str,
    findings: &mut Findings,
) -> Option<PatternSearch> {
    let path = format!("{path}.pattern");
    let Some(value) = spec.find("pattern") else {
        findings
            .add(
                Code::MissingRequiredField,
                spec.place,
                path.clone(),
                format!("{path} is required"),
            )
            .suggest("add `pattern:` with a regular expression");
        return None;
    };
    let Some(written) = value.as_text() else {
        findings
            .add(
                Code::InvalidType,
                value.place,
                path.clone(),
                format!("{path} must be a string"),
            )
            .suggest("write a regular expression in single quotes");
        return None;
    };
    let pattern = match compile(spec, written) {
        Ok(pattern) => pattern,
        Err(reason) => {
            findings
                .add(
                    Code::InvalidPattern,
                    value.place,
                    path,
                    format!("the pattern cannot be compiled: {reason}"),
                )
                .suggest("look-around and back references are not available");
            return None;
        }
    };
    let groups = pattern.captures_len() - 1;
    let group = match spec.find("group").map(|group| (group, &group.data)) {
        None => usize::from(groups > 0),
        Some((_, Data::Int(group)))
            if usize::try_from(*group).is_ok_and(|group| group <= groups) =>
        {
            usize::try_from(*group).unwrap_or(0)
        }
        Some((group, _)) => {
            let message = format!("the pattern has no such group, only {groups}");
            findings
                .add(
                    Code::InvalidPattern,
                    group.place,
                    path.replace(".pattern", ".group"),
                    message,
                )
                .suggest("put parentheses around what is wanted; 0 is the whole match");
            return None;
        }
    };
    Some(PatternSearch {
        subject,
        pattern,
        group,
    })
}

/// The pattern with the flags of its rule; fails with the reason.
fn compile(spec: &Node, written: &str) -> Result<Regex, String> {
    let is_set = |key: &str| spec.find(key).and_then(Node::as_bool).unwrap_or(false);
    RegexBuilder::new(written)
        .size_limit(PATTERN_LIMIT)
        .dfa_size_limit(PATTERN_LIMIT)
        .nest_limit(64)
        .multi_line(is_set("multiline"))
        .case_insensitive(is_set("ignorecase"))
        .dot_matches_new_line(is_set("dotall"))
        .build()
        .map_err(|err| {
            let text = err.to_string();
            let reason = text.lines().last().unwrap_or_default();
            reason.trim_start_matches("error: ").to_owned()
        })
}

impl Extractor {
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether a rule reads the settings beside a script.
    pub fn reads_settings(&self) -> bool {
        self.rules.iter().any(|rule| {
            matches!(
                &rule.method,
                Some(ExtractMethod::First(search) | ExtractMethod::All(search))
                    if search.subject == Subject::Config
            )
        })
    }

    /// Whether the rules apply to scripts with this extension.
    pub fn claims(&self, ending: &str) -> bool {
        self.extensions.is_empty() || self.names(ending)
    }

    /// Whether the extension is listed, which makes such a file a script.
    pub fn names(&self, ending: &str) -> bool {
        self.extensions.iter().any(|known| known == ending)
    }
}

#[cfg(test)]
mod tests;
