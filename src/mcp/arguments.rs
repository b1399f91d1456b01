//! Checks the arguments of a call.
//!
//! Unknown arguments are refused: ignoring one that was meant to restrict the call would do too
//! much.

use rmcp::model::JsonObject;
use serde_json::{Map, Value};

use super::failure::ToolFailure;
use crate::item::store::ItemKind;
use crate::item::wording::{nearest, shown};
use crate::problem::Code;
use crate::run::error_titles::ErrorTitle;

#[derive(Clone, Debug, Default)]
pub(crate) struct CallArguments(Map<String, Value>);

impl CallArguments {
    /// Accepts the arguments of a client if all of their names are in `known`.
    pub(crate) fn new(given: Option<JsonObject>, known: &[&str]) -> Result<Self, ToolFailure> {
        let given = given.unwrap_or_default();
        if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
            let suggestion = match nearest(name, known.iter().copied()) {
                Some(similar) => format!("did you mean `{similar}`?"),
                None => format!("the arguments are {}", known.join(", ")),
            };
            let message = format!("there is no argument `{}`", shown(name));
            return Err(ToolFailure::argument(message).with_suggestion(suggestion));
        }
        Ok(Self(given))
    }

    /// The value of an argument; `null` counts as not given.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ToolFailure> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => {
                Ok(Some(text.as_str()).filter(|text| !text.trim().is_empty()))
            }
            Some(_) => Err(ToolFailure::argument(format!("`{name}` must be text"))),
        }
    }

    pub(crate) fn required(&self, name: &str) -> Result<&str, ToolFailure> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// False when not given.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, ToolFailure> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(ToolFailure::argument(format!(
                "`{name}` must be true or false"
            ))),
        }
    }

    /// Empty when not given.
    pub(crate) fn object(&self, name: &str) -> Result<Map<String, Value>, ToolFailure> {
        match self.value(name) {
            None => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object.clone()),
            Some(_) => Err(ToolFailure::argument(format!("`{name}` must be an object"))),
        }
    }

    /// The kind of item; `script` is an old name for `tool`.
    pub(crate) fn kind(&self) -> Result<ItemKind, ToolFailure> {
        match self.required("item_type")? {
            "tool" | "script" => Ok(ItemKind::Tool),
            "directive" => Ok(ItemKind::Directive),
            "knowledge" => Ok(ItemKind::Knowledge),
            other => Err(
                ToolFailure::argument(format!("`{}` is not an item type", shown(other)))
                    .with_suggestion("`item_type` is `tool`, `directive` or `knowledge`"),
            ),
        }
    }
}

/// The error for a missing argument.
pub(crate) fn missing(name: &str) -> ToolFailure {
    let suggestion = match name {
        "project_path" => "add `project_path: \"/absolute/path\"`".to_owned(),
        _ => format!("add `{name}`; `help` says what it means"),
    };
    ToolFailure::new(
        ErrorTitle::ArgumentRequired(name.to_owned()),
        Code::MissingArgument,
        format!("the argument `{name}` is missing"),
    )
    .with_suggestion(suggestion)
}
