//! Applies the rules of an extractor to a script.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::item::finding::{Findings, Strength};
use crate::item::node::{Data, Node, NodeEntry};
use crate::item::position::{LineIndex, Position};
use crate::item::source::{MAX_DOCUMENT, SourceFile};
use crate::item::tool::python::{self, PythonModule};
use crate::item::tool::{Origin, comment};

use super::{ExtractMethod, ExtractRule, Extractor, PatternSearch, Subject};

const MAX_MATCHES: usize = 1000;

impl Extractor {
    /// Adds what the rules find and the script itself does not say; `lenders` collects the files
    /// that contributed.
    pub(in crate::item) fn fill(
        &self,
        source: &SourceFile,
        map: &mut Node,
        elsewhere: &mut BTreeMap<String, Origin>,
        lenders: &mut BTreeSet<PathBuf>,
    ) {
        let mut config: Option<SourceFile> = None;
        let mut module: Option<PythonModule> = None;
        for rule in &self.rules {
            if map.find_entry(&rule.field).is_some() {
                continue;
            }
            let found = match &rule.method {
                None => None,
                Some(ExtractMethod::First(search) | ExtractMethod::All(search))
                    if search.subject == Subject::Config =>
                {
                    let config = config.get_or_insert_with(|| settings(source));
                    let found = rule.apply(search, &config.text);
                    match found {
                        Some(found) if config.path != source.path => {
                            elsewhere.insert(
                                rule.field.clone(),
                                Origin::new(config.path.clone(), found.place),
                            );
                            lenders.insert(config.path.clone());
                            Some(moved(found, Position::START))
                        }
                        found => found,
                    }
                }
                Some(ExtractMethod::First(search) | ExtractMethod::All(search))
                    if search.subject == Subject::Stem =>
                {
                    let stem = source
                        .path
                        .file_stem()
                        .and_then(|stem| stem.to_str())
                        .unwrap_or_default();
                    rule.apply(search, stem)
                        .map(|found| moved(found, Position::START))
                }
                Some(ExtractMethod::First(search) | ExtractMethod::All(search)) => {
                    rule.apply(search, &source.text)
                }
                Some(ExtractMethod::Folders(base)) => folders(source, base),
                Some(ExtractMethod::Variable(name)) => {
                    let module = module.get_or_insert_with(|| self.read_module(source));
                    module
                        .assignments
                        .iter()
                        .find(|entry| entry.key == *name)
                        .map(|entry| entry.value.clone())
                }
                Some(ExtractMethod::Docstring) => {
                    let module = module.get_or_insert_with(|| self.read_module(source));
                    comment::first_paragraph(&module.docstring)
                }
            };
            let value = found.or_else(|| {
                // A default is written in the extractor, so its position would be wrong in the
                // script.
                rule.default
                    .as_ref()
                    .map(|default| moved(default.clone(), Position::START))
            });
            if let Some(value) = value {
                lenders.insert(self.file.clone());
                map.set(&rule.field, value.place, typed(&rule.field, value));
            }
        }
    }

    /// Reads all assignments that the rules need.
    fn read_module(&self, source: &SourceFile) -> PythonModule {
        let asks = |name: &str| {
            self.rules
                .iter()
                .any(|rule| matches!(&rule.method, Some(ExtractMethod::Variable(known)) if known == name))
        };
        // Problems of the script are reported when it is read as an item.
        python::read(
            &source.text,
            asks,
            &mut Findings::new(&source.path, Strength::Lenient),
        )
    }
}

impl ExtractRule {
    fn apply(&self, search: &PatternSearch, text: &str) -> Option<Node> {
        let index = LineIndex::new(text);
        let node = |found: regex::Match<'_>| Node::text(found.as_str(), index.place(found.start()));
        if matches!(self.method, Some(ExtractMethod::All(_))) {
            let found: Vec<Node> = search
                .pattern
                .captures_iter(text)
                .filter_map(|captures| captures.get(search.group).map(node))
                .take(MAX_MATCHES)
                .collect();
            let place = found.first()?.place;
            return Some(Node::new(Data::List(found), place));
        }
        search.pattern.captures(text)?.get(search.group).map(node)
    }
}

/// The settings file beside a script, or its comment header with everything else blanked out.
fn settings(source: &SourceFile) -> SourceFile {
    for ending in ["json", "yaml", "yml", "toml"] {
        let beside = source.path.with_extension(ending);
        // Problems of that file are reported when it is read as an item.
        let mut ignored = Findings::new(&beside, Strength::Lenient);
        if beside != source.path
            && beside.is_file()
            && let Some(settings) = SourceFile::load(&beside, MAX_DOCUMENT, &mut ignored)
        {
            return settings;
        }
    }
    let mut text = String::new();
    let mut line = 1;
    for header in comment::header(&source.text) {
        while line < header.place.line {
            text.push('\n');
            line += 1;
        }
        text.push_str(&header.text);
    }
    SourceFile {
        text,
        ..source.clone()
    }
}

fn folders(source: &SourceFile, base: &str) -> Option<Node> {
    let parts: Vec<&str> = source
        .path
        .parent()?
        .iter()
        .filter_map(|part| part.to_str())
        .collect();
    let at = parts.iter().rposition(|part| *part == base)?;
    let category = parts.get(at + 1..)?.join("/");
    (!category.is_empty()).then(|| Node::text(category, Position::START))
}

/// Sets the position of a value from another file.
fn moved(node: Node, place: Position) -> Node {
    let data = match node.data {
        Data::List(elements) => Data::List(
            elements
                .into_iter()
                .map(|element| moved(element, place))
                .collect(),
        ),
        Data::Map(entries) => Data::Map(
            entries
                .into_iter()
                .map(|entry| NodeEntry {
                    place,
                    value: moved(entry.value, place),
                    ..entry
                })
                .collect(),
        ),
        scalar => scalar,
    };
    Node::new(data, place)
}

/// Patterns find text; this converts it to the type of the field.
fn typed(field: &str, value: Node) -> Node {
    let Data::Text(text) = &value.data else {
        return value;
    };
    let data = match (field, text.as_str()) {
        ("mutates_state", "true" | "True") => Data::Bool(true),
        ("mutates_state", "false" | "False") => Data::Bool(false),
        ("timeout", seconds) => seconds
            .parse()
            .map_or_else(|_| value.data.clone(), Data::Int),
        ("tags" | "dependencies" | "writes" | "caches" | "commands", words) => Data::List(
            words
                .split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(|word| Node::text(word.trim_matches(['"', '\'']), value.place))
                .collect(),
        ),
        _ => return value,
    };
    Node::new(data, value.place)
}
