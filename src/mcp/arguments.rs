//! Checks the arguments of a call.
//!
//! Unknown arguments are refused: ignoring one that was meant to restrict the call would do too
//! much.

use rmcp::model::JsonObject;
use serde_json::{Map, Value};

use super::failure::Failure;
use crate::item::store::ItemKind;
use crate::item::wording::{nearest, shown};
use crate::problem::Code;

#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Accepts the arguments of a client if all of their names are in `known`.
    pub(crate) fn new(given: Option<JsonObject>, known: &[&str]) -> Result<Self, Failure> {
        let given = given.unwrap_or_default();
        if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
            let suggestion = match nearest(name, known.iter().copied()) {
                Some(similar) => format!("did you mean `{similar}`?"),
                None => format!("the arguments are {}", known.join(", ")),
            };
            let message = format!("there is no argument `{}`", shown(name));
            return Err(Failure::argument(message).with_suggestion(suggestion));
        }
        Ok(Self(given))
    }

    /// The value of an argument; `null` counts as not given.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Failure> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(Failure::argument(format!("`{name}` must be text"))),
        }
    }

    pub(crate) fn required(&self, name: &str) -> Result<&str, Failure> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// False when not given.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Failure> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(Failure::argument(format!("`{name}` must be true or false"))),
        }
    }

    /// Empty when not given.
    pub(crate) fn object(&self, name: &str) -> Result<Map<String, Value>, Failure> {
        match self.value(name) {
            None => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object.clone()),
            Some(_) => Err(Failure::argument(format!("`{name}` must be an object"))),
        }
    }

    /// The kind of item; `script` is an old name for `tool`.
    pub(crate) fn kind(&self) -> Result<ItemKind, Failure> {
        match self.required("item_type")? {
            "tool" | "script" => Ok(ItemKind::Tool),
            "directive" => Ok(ItemKind::Directive),
            "knowledge" => Ok(ItemKind::Knowledge),
            other => Err(Failure::argument(format!("`{}` is no kind of items", shown(other)))
                .with_suggestion("`item_type` is `tool`, `directive` or `knowledge`")),
        }
    }
}

/// The error for a missing argument.
pub(crate) fn missing(name: &str) -> Failure {
    let suggestion = match name {
        "project_path" => "add `project_path: \"/absolute/path\"`".to_owned(),
        _ => format!("add `{name}`; `help` says what it means"),
    };
    Failure::new(&format!("{name} is required"), Code::MissingArgument, format!("the argument `{name}` is missing"))
        .with_suggestion(suggestion)
}
