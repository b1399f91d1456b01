//! Reads the metadata of a Python file without running it.
//!
//! [`read`] parses the file and finds the module's docstring, its assignments of literals and the
//! parameters of `main`. Nothing is evaluated: a value that is not a literal is reported and left
//! out. A budget bounds the work, so that hostile nesting costs neither time nor stack.

mod annotation;
pub(crate) mod imports;
mod literal;

use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, Parser, Tree};

use crate::item::finding::Findings;
use crate::item::node::{Data, Node, NodeEntry};
use crate::item::position::{LineIndex, Position};
use crate::problem::Code;

use super::comment::CommentLine;

/// How much of a file is parsed: trees are many times larger than their text.
const MAX_SEARCHED: usize = 128 * 1024;

/// How often the parser may report progress before it is stopped; it does so every hundred steps.
const PARSE_BUDGET: u32 = 10_000;

/// The metadata of a Python module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PythonModule {
    /// The lines of the docstring.
    pub(crate) docstring: Vec<CommentLine>,
    /// The requested names with their literal values; the last assignment of each.
    pub(crate) assignments: Vec<NodeEntry>,
    /// The parameters of `main` as a JSON Schema.
    pub(crate) main: Option<Node>,
    /// The lines of the docstring of `main`.
    pub(crate) main_docstring: Vec<CommentLine>,
    /// Whether there is a function `execute`, which RYE calls.
    pub(crate) has_execute: bool,
    /// The position of the first syntax error.
    pub(crate) broken: Option<Position>,
}

/// Reads a module; only names that `wanted` accepts are collected.
pub(crate) fn read(
    text: &str,
    wanted: impl Fn(&str) -> bool,
    findings: &mut Findings,
) -> PythonModule {
    let text = match text.get(..text.floor_char_boundary(MAX_SEARCHED)) {
        Some(head) if head.len() < text.len() => {
            let message = format!(
                "only the first {} KiB are searched for metadata",
                MAX_SEARCHED / 1024
            );
            findings
                .add(Code::MissingRecommendedField, Position::START, "", message)
                .suggest("describe the tool at the top of the file, or in a `tool.yaml` beside it");
            head.rfind('\n')
                .and_then(|end| head.get(..=end))
                .unwrap_or(head)
        }
        _ => text,
    };
    let Some(tree) = parse(text) else {
        findings
            .add(
                Code::SyntaxError,
                Position::START,
                "",
                "the file is too complicated to be read as Python",
            )
            .suggest("describe the tool in a `tool.yaml` beside it");
        return PythonModule::default();
    };
    let source = PythonSource::new(text);
    let root = tree.root_node();
    let mut module = PythonModule {
        broken: find_error(root).map(|offset| source.index.place(offset)),
        ..PythonModule::default()
    };
    let mut statements = Vec::new();
    let mut cursor = tree.walk();
    for statement in root.children(&mut cursor) {
        // A statement that could not be parsed as a whole may contain valid ones.
        if statement.is_error() {
            statements.extend(statement.children(&mut statement.walk()));
        } else {
            statements.push(statement);
        }
    }
    let mut first = true;
    for statement in statements {
        match statement.kind() {
            "comment" => continue,
            "expression_statement" => {
                let Some(expression) = statement.named_child(0) else {
                    continue;
                };
                match expression.kind() {
                    "string" | "concatenated_string" if first => {
                        module.docstring = docstring(expression, &source);
                    }
                    "assignment" => assignment(expression, &source, &wanted, &mut module, findings),
                    _ => {}
                }
            }
            "function_definition" => read_main(statement, &source, &mut module, findings),
            "decorated_definition" => {
                if let Some(function) = statement.child_by_field_name("definition") {
                    read_main(function, &source, &mut module, findings);
                }
            }
            _ => {}
        }
        first = false;
    }
    module
}

fn find_error(root: tree_sitter::Node<'_>) -> Option<usize> {
    let mut node = root;
    while node.has_error() {
        if node.is_error() || node.is_missing() {
            return Some(node.start_byte());
        }
        let mut cursor = node.walk();
        let below = node
            .children(&mut cursor)
            .find(tree_sitter::Node::has_error);
        node = below?;
    }
    None
}

fn parse(text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_python::LANGUAGE.into())
        .ok()?;
    let bytes = text.as_bytes();
    let mut steps = 0;
    let mut progress = |_: &tree_sitter::ParseState| {
        steps += 1;
        if steps > PARSE_BUDGET {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(
        &mut |at, _| bytes.get(at..).unwrap_or_default(),
        None,
        Some(options),
    )
}

pub(super) struct PythonSource<'t> {
    text: &'t str,
    index: LineIndex<'t>,
}

impl<'t> PythonSource<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            index: LineIndex::new(text),
        }
    }

    fn slice(&self, node: tree_sitter::Node<'_>) -> &'t str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn place(&self, offset: usize) -> Position {
        self.index.place(offset)
    }
}

fn docstring(expression: tree_sitter::Node<'_>, source: &PythonSource<'_>) -> Vec<CommentLine> {
    let Some((start, end)) = literal::content(expression) else {
        return Vec::new();
    };
    let place = source.place(start);
    source
        .text
        .get(start..end)
        .unwrap_or_default()
        .lines()
        .zip(place.line..)
        .map(|(text, line)| CommentLine {
            place: Position {
                line,
                column: if line == place.line { place.column } else { 1 },
            },
            text: text.to_owned(),
        })
        .collect()
}

fn assignment(
    expression: tree_sitter::Node<'_>,
    source: &PythonSource<'_>,
    wanted: &impl Fn(&str) -> bool,
    module: &mut PythonModule,
    findings: &mut Findings,
) {
    let (Some(left), Some(right)) = (
        expression.child_by_field_name("left"),
        expression.child_by_field_name("right"),
    ) else {
        return;
    };
    // `a = b = 1` is an assignment of an assignment.
    let (mut targets, mut right) = (vec![left], right);
    while right.kind() == "assignment" {
        let inner = (
            right.child_by_field_name("left"),
            right.child_by_field_name("right"),
        );
        let (Some(left), Some(value)) = inner else {
            return;
        };
        targets.push(left);
        right = value;
    }
    for target in targets {
        assign(target, right, source, wanted, module, findings);
    }
}

fn assign(
    left: tree_sitter::Node<'_>,
    right: tree_sitter::Node<'_>,
    source: &PythonSource<'_>,
    wanted: &impl Fn(&str) -> bool,
    module: &mut PythonModule,
    findings: &mut Findings,
) {
    let name = source.slice(left);
    if left.kind() != "identifier" || !wanted(name) {
        return;
    }
    let place = source.place(left.start_byte());
    let Some(value) = literal::read(right, source, name, findings) else {
        return;
    };
    if module.assignments.iter().any(|entry| entry.key == name) {
        // Once per name: a hostile file could cause thousands.
        if !findings
            .as_slice()
            .iter()
            .any(|found| found.code == Code::ConflictingField && found.path == name)
        {
            findings
                .add(
                    Code::ConflictingField,
                    place,
                    name,
                    format!("`{name}` is assigned twice; the last value counts"),
                )
                .suggest("keep one of them");
        }
        module.assignments.retain(|entry| entry.key != name);
    }
    module.assignments.push(NodeEntry {
        key: name.to_owned(),
        place,
        value,
    });
}

/// The docstring of a function.
fn first_string(function: tree_sitter::Node<'_>, source: &PythonSource<'_>) -> Vec<CommentLine> {
    let Some(body) = function.child_by_field_name("body") else {
        return Vec::new();
    };
    let mut cursor = body.walk();
    let first = body
        .named_children(&mut cursor)
        .find(|statement| statement.kind() != "comment");
    let expression = first
        .filter(|statement| statement.kind() == "expression_statement")
        .and_then(|statement| statement.named_child(0));
    expression
        .filter(|it| matches!(it.kind(), "string" | "concatenated_string"))
        .map(|it| docstring(it, source))
        .unwrap_or_default()
}

/// Whether a module reads the options of its command line.
pub(crate) fn reads_command_line(text: &str) -> bool {
    const READERS: [&str; 7] = [
        "argparse", "optparse", "getopt", "docopt", "click", "typer", "fire",
    ];
    let imports = |line: &str| {
        let mut words = line.split([' ', '\t', ',', '.']);
        matches!(words.next(), Some("import" | "from")) && words.any(|word| READERS.contains(&word))
    };
    text.contains("sys.argv") || text.lines().any(|line| imports(line.trim()))
}

/// A parameter of `main`.
enum MainParameter<'t> {
    /// The node of its name.
    Named(tree_sitter::Node<'t>),
    /// `**others`.
    Others,
}

/// The name of a parameter; `None` if callers cannot give it by name.
fn parameter_name(parameter: tree_sitter::Node<'_>) -> Option<MainParameter<'_>> {
    let name = match parameter.kind() {
        "default_parameter" | "typed_default_parameter" => parameter.child_by_field_name("name")?,
        "typed_parameter" => parameter.named_child(0)?,
        _ => parameter,
    };
    match name.kind() {
        "identifier" => Some(MainParameter::Named(name)),
        "dictionary_splat_pattern" => Some(MainParameter::Others),
        _ => None,
    }
}

/// Reads the signature of `main` into a JSON Schema.
fn read_main(
    function: tree_sitter::Node<'_>,
    source: &PythonSource<'_>,
    module: &mut PythonModule,
    findings: &mut Findings,
) {
    let name = function
        .child_by_field_name("name")
        .map(|name| source.slice(name));
    let is_main = name == Some("main");
    module.has_execute |= name == Some("execute");
    let (true, Some(list)) = (is_main, function.child_by_field_name("parameters")) else {
        return;
    };
    module.main_docstring = first_string(function, source);
    let place = source.place(function.start_byte());
    let mut properties = Vec::new();
    let mut required = Vec::new();
    let mut open = false;
    let mut cursor = list.walk();
    for parameter in list.named_children(&mut cursor) {
        let name = match parameter_name(parameter) {
            Some(MainParameter::Named(name)) => name,
            Some(MainParameter::Others) => {
                open = true;
                continue;
            }
            None => continue,
        };
        let at = source.place(name.start_byte());
        let name = source.slice(name);
        let mut schema = parameter
            .child_by_field_name("type")
            .map_or_else(Vec::new, |declared| annotation::schema(declared, source));
        match parameter.child_by_field_name("value") {
            None => required.push(Node::text(name, at)),
            Some(default) => {
                let path = format!("parameters.{name}.default");
                if let Some(value) = literal::read(default, source, &path, findings) {
                    schema.push(NodeEntry {
                        key: "default".to_owned(),
                        place: value.place,
                        value,
                    });
                }
            }
        }
        properties.push(NodeEntry {
            key: name.to_owned(),
            place: at,
            value: Node::map(schema, at),
        });
    }
    let entry = |key: &str, value: Node| NodeEntry {
        key: key.to_owned(),
        place,
        value,
    };
    let mut schema = vec![
        entry("type", Node::text("object", place)),
        entry("properties", Node::map(properties, place)),
    ];
    if !required.is_empty() {
        schema.push(entry("required", Node::new(Data::List(required), place)));
    }
    // A tool without parameters takes any, but Python's `main()` takes none, unless it reads its command line.
    let closed = list.named_child_count() == 0 && !reads_command_line(source.text);
    if open || closed {
        schema.push(entry(
            "additionalProperties",
            Node::new(Data::Bool(open), place),
        ));
    }
    module.main = Some(Node::map(schema, place));
}

#[cfg(test)]
mod tests;
