//! A document in which every value has a position.
//!
//! YAML, JSON, front matter and literals in scripts are all read into [`Node`]s, so that later
//! rules can point at a line. [`Node::to_json`] drops the positions.

use serde_json::{Map, Number, Value};

use super::position::Position;

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub data: Data,
    pub place: Position,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    Null,
    Bool(bool),
    Int(i64),
    /// A finite number, with its original text (`1.10` is not `1.1`).
    Float(f64, String),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file; keys are unique.
    Map(Vec<NodeEntry>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeEntry {
    pub key: String,
    pub place: Position,
    pub value: Node,
}

impl Node {
    pub fn new(data: Data, place: Position) -> Self {
        Self { data, place }
    }

    pub fn text(text: impl Into<String>, place: Position) -> Self {
        Self::new(Data::Text(text.into()), place)
    }

    pub fn map(entries: Vec<NodeEntry>, place: Position) -> Self {
        Self::new(Data::Map(entries), place)
    }

    pub fn entries(&self) -> Option<&[NodeEntry]> {
        match &self.data {
            Data::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn elements(&self) -> Option<&[Node]> {
        match &self.data {
            Data::List(elements) => Some(elements),
            _ => None,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self.data {
            Data::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self.data, Data::Null)
    }

    pub fn find_entry(&self, key: &str) -> Option<&NodeEntry> {
        self.entries()?.iter().find(|entry| entry.key == key)
    }

    /// Finds the value of a key in a map; an explicit null counts as absent.
    pub fn find(&self, key: &str) -> Option<&Node> {
        self.find_entry(key)
            .map(|entry| &entry.value)
            .filter(|value| !value.is_null())
    }

    /// Removes an entry from a map.
    pub fn take(&mut self, key: &str) -> Option<NodeEntry> {
        let Data::Map(entries) = &mut self.data else {
            return None;
        };
        let at = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(at))
    }

    /// Sets an entry of a map, replacing one with the same key.
    pub fn set(&mut self, key: &str, place: Position, value: Node) {
        let Data::Map(entries) = &mut self.data else {
            return;
        };
        match entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => {
                *entry = NodeEntry {
                    key: key.to_owned(),
                    place,
                    value,
                }
            }
            None => entries.push(NodeEntry {
                key: key.to_owned(),
                place,
                value,
            }),
        }
    }

    /// The type for error messages.
    pub fn type_name(&self) -> &'static str {
        match self.data {
            Data::Null => "null",
            Data::Bool(_) => "boolean",
            Data::Int(_) => "integer",
            Data::Float(..) => "number",
            Data::Text(_) => "string",
            Data::List(_) => "list",
            Data::Map(_) => "mapping",
        }
    }

    /// The scalar as it would be written, for messages.
    pub fn scalar(&self) -> Option<String> {
        match &self.data {
            Data::Bool(value) => Some(value.to_string()),
            Data::Int(value) => Some(value.to_string()),
            Data::Float(_, written) => Some(written.clone()),
            Data::Text(text) => Some(text.clone()),
            Data::Null | Data::List(_) | Data::Map(_) => None,
        }
    }

    /// The value without positions.
    pub fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Int(value) => Value::from(*value),
            Data::Float(value, _) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(elements) => Value::Array(elements.iter().map(Self::to_json).collect()),
            Data::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}
