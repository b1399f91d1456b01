//! Python type annotations as JSON Schema.
//!
//! Only annotations with a JSON meaning are translated; an unknown annotation restricts nothing.

use crate::item::node::{Data, Node, NodeEntry};
use crate::item::position::Position;

use super::{PythonSource, literal};

const MAX_DEPTH: usize = 16;

pub(super) fn schema(
    annotation: tree_sitter::Node<'_>,
    source: &PythonSource<'_>,
) -> Vec<NodeEntry> {
    let place = source.place(annotation.start_byte());
    schema_from(translate(annotation, source, 0), place)
}

fn entry(key: &str, value: Node) -> NodeEntry {
    NodeEntry {
        key: key.to_owned(),
        place: value.place,
        value,
    }
}

/// The meaning of an annotation; empty lists restrict nothing.
#[derive(Default)]
struct Meaning {
    kinds: Vec<&'static str>,
    items: Option<Vec<NodeEntry>>,
    values: Vec<Node>,
}

impl Meaning {
    fn of(kind: &'static str) -> Self {
        Self {
            kinds: vec![kind],
            ..Self::default()
        }
    }
}

fn translate(node: tree_sitter::Node<'_>, source: &PythonSource<'_>, depth: usize) -> Meaning {
    if depth >= MAX_DEPTH {
        return Meaning::default();
    }
    match node.kind() {
        "type" | "parenthesized_expression" => {
            node.named_child(0).map_or_else(Meaning::default, |inner| {
                translate(inner, source, depth + 1)
            })
        }
        "none" => Meaning::of("null"),
        "identifier" | "attribute" => name(source.slice(node)),
        "binary_operator" | "union_type" => {
            let mut cursor = node.walk();
            let parts = node
                .named_children(&mut cursor)
                .map(|part| translate(part, source, depth + 1))
                .collect();
            let is_union = node.kind() == "union_type"
                || node
                    .child_by_field_name("operator")
                    .is_some_and(|operator| source.slice(operator) == "|");
            if is_union {
                union(parts)
            } else {
                Meaning::default()
            }
        }
        "generic_type" | "subscript" => generic(node, source, depth),
        _ => Meaning::default(),
    }
}

fn name(written: &str) -> Meaning {
    let kind = match written.rsplit('.').next().unwrap_or(written) {
        "str" | "Path" => "string",
        "int" => "integer",
        "float" => "number",
        "bool" => "boolean",
        "list" | "List" | "tuple" | "Tuple" | "set" | "Set" | "frozenset" | "Sequence"
        | "Iterable" => "array",
        "dict" | "Dict" | "Mapping" | "MutableMapping" => "object",
        "None" => "null",
        _ => return Meaning::default(),
    };
    Meaning::of(kind)
}

fn generic(node: tree_sitter::Node<'_>, source: &PythonSource<'_>, depth: usize) -> Meaning {
    let mut cursor = node.walk();
    let mut children = node.named_children(&mut cursor);
    let Some(base) = children.next() else {
        return Meaning::default();
    };
    let mut arguments: Vec<tree_sitter::Node<'_>> = Vec::new();
    for child in children {
        if child.kind() == "type_parameter" {
            let mut cursor = child.walk();
            arguments.extend(child.named_children(&mut cursor));
        } else {
            arguments.push(child);
        }
    }
    let base = source.slice(base);
    let base = base.rsplit('.').next().unwrap_or(base);
    let meanings = || {
        arguments
            .iter()
            .map(|argument| translate(*argument, source, depth + 1))
            .collect::<Vec<_>>()
    };
    match base {
        "Optional" => {
            let mut parts = meanings();
            parts.push(Meaning::of("null"));
            union(parts)
        }
        "Union" => union(meanings()),
        "Annotated" | "Final" | "Required" | "NotRequired" => {
            meanings().into_iter().next().unwrap_or_default()
        }
        "Literal" => choices(&arguments, source),
        _ => {
            let mut meaning = name(base);
            let lists = [
                "list",
                "List",
                "set",
                "Set",
                "frozenset",
                "Sequence",
                "Iterable",
            ];
            if let (true, [item]) = (lists.contains(&base), arguments.as_slice()) {
                let place = source.place(item.start_byte());
                meaning.items = Some(schema_from(translate(*item, source, depth + 1), place));
            }
            meaning
        }
    }
}

fn schema_from(meaning: Meaning, place: Position) -> Vec<NodeEntry> {
    let mut schema = Vec::new();
    let mut names: Vec<Node> = meaning
        .kinds
        .iter()
        .map(|kind| Node::text(*kind, place))
        .collect();
    match names.len() {
        0 => {}
        1 => schema.extend(names.pop().map(|name| entry("type", name))),
        _ => schema.push(entry("type", Node::new(Data::List(names), place))),
    }
    if let Some(items) = meaning.items.filter(|items| !items.is_empty()) {
        schema.push(entry("items", Node::map(items, place)));
    }
    if !meaning.values.is_empty() {
        schema.push(entry("enum", Node::new(Data::List(meaning.values), place)));
    }
    schema
}

/// A union; a part that restricts nothing lifts the restriction of all.
fn union(parts: Vec<Meaning>) -> Meaning {
    let mut whole = Meaning::default();
    let alone = parts.iter().filter(|part| part.kinds != ["null"]).count() == 1;
    let restricts_values = parts.iter().any(|part| !part.values.is_empty());
    for part in parts {
        if part.kinds.is_empty() && part.values.is_empty() {
            return Meaning::default();
        }
        if restricts_values && part.kinds == ["null"] {
            whole.values.push(Node::new(Data::Null, Position::START));
        }
        for kind in part.kinds {
            if !whole.kinds.contains(&kind) {
                whole.kinds.push(kind);
            }
        }
        // Restrictions of one alternative do not apply to all.
        if alone {
            whole.items = whole.items.or(part.items);
            whole.values.splice(0..0, part.values);
        } else {
            whole.values.clear();
        }
    }
    whole
}

/// The values of `Literal[…]`.
fn choices(arguments: &[tree_sitter::Node<'_>], source: &PythonSource<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    for argument in arguments {
        let expression = if argument.kind() == "type" {
            argument.named_child(0)
        } else {
            Some(*argument)
        };
        let Some(value) =
            expression.and_then(|expression| literal::read_quietly(expression, source))
        else {
            return Meaning::default();
        };
        let kind = match value.data {
            Data::Text(_) => "string",
            Data::Int(_) => "integer",
            Data::Bool(_) => "boolean",
            Data::Null => "null",
            _ => return Meaning::default(),
        };
        if !meaning.kinds.contains(&kind) {
            meaning.kinds.push(kind);
        }
        meaning.values.push(value);
    }
    meaning
}
