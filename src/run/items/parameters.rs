//! The parameters of an item step, checked.
//!
//! Attributes are text, placeholders keep their type, and an empty value counts as not given: `5` and
//! `"5"`, `true` and `"true"` mean the same.

use serde_json::{Map, Value};

use super::ItemStepError;
use crate::context::Context;
use crate::item::search::Scope;
use crate::item::store::{ItemKind, Layer};
use crate::item::wording::{nearest, shown};

const SEARCH: [&str; 9] =
    ["query", "item_type", "source", "limit", "sort_by", "tool_type", "category", "tags", "project_path"];
const LOAD: [&str; 6] = ["item_id", "item_type", "source", "destination", "overwrite", "project_path"];
const SIGN: [&str; 4] = ["item_id", "item_type", "source", "project_path"];
const MIGRATE: [&str; 3] = ["item_id", "item_type", "project_path"];

/// What a step was given.
pub(super) struct Given<'p> {
    verb: &'p str,
    parameters: &'p Map<String, Value>,
}

impl<'p> Given<'p> {
    /// Takes the parameters of a step; one that it does not have is refused, because it may have been meant to narrow it.
    pub(super) fn new(ctx: &Context, verb: &'p str, parameters: &'p Map<String, Value>) -> Result<Self, ItemStepError> {
        let known: &[&str] = match verb {
            "search" => &SEARCH,
            "load" => &LOAD,
            "sign" => &SIGN,
            "migrate" => &MIGRATE,
            other => return Err(ItemStepError::UnknownVerb(other.to_owned())),
        };
        if let Some(name) = parameters.keys().find(|name| !known.contains(&name.as_str())) {
            let similar = nearest(name, known.iter().copied()).map(str::to_owned);
            return Err(ItemStepError::Unknown { verb: verb.to_owned(), name: name.clone(), similar });
        }
        let given = Self { verb, parameters };
        // Directives written for servers of several projects name theirs.
        if let Some(project) = given.text("project_path")?
            && ctx.root.join(&project).canonicalize().ok().as_ref() != Some(&ctx.root)
        {
            return Err(given.wrong("project_path", "must be the project that the directive runs in"));
        }
        Ok(given)
    }

    /// The text of a parameter.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ItemStepError> {
        match self.parameters.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(self.wrong(name, "must be text")),
        }
    }

    /// The text of a parameter that has to be given.
    pub(super) fn required(&self, name: &'static str) -> Result<String, ItemStepError> {
        self.text(name)?.ok_or_else(|| ItemStepError::Missing { verb: self.verb.to_owned(), name })
    }

    /// A number of things, at least one.
    pub(super) fn count(&self, name: &str) -> Result<Option<usize>, ItemStepError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.parse() {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => Err(self.wrong(name, "must be a whole number above 0")),
        }
    }

    /// Yes or no; no when it is not given.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ItemStepError> {
        match self.parameters.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(Value::String(text)) if ["", "false"].contains(&text.trim()) => Ok(false),
            Some(Value::String(text)) if text.trim() == "true" => Ok(true),
            Some(_) => Err(self.wrong(name, "must be true or false")),
        }
    }

    /// A list of texts, or one text with commas.
    pub(super) fn list(&self, name: &str) -> Result<Vec<String>, ItemStepError> {
        if let Some(Value::Array(values)) = self.parameters.get(name) {
            let texts: Option<Vec<String>> = values.iter().map(|it| it.as_str().map(str::to_owned)).collect();
            return texts.ok_or_else(|| self.wrong(name, "must be a list of texts"));
        }
        let text = self.text(name)?.unwrap_or_default();
        Ok(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    /// The kind of items; none for every kind.
    pub(super) fn kind(&self) -> Result<Option<ItemKind>, ItemStepError> {
        match self.text("item_type")?.as_deref() {
            None | Some("any" | "all" | "*") => Ok(None),
            Some("tool" | "script") => Ok(Some(ItemKind::Tool)),
            Some("directive") => Ok(Some(ItemKind::Directive)),
            Some("knowledge") => Ok(Some(ItemKind::Knowledge)),
            Some(other) => {
                let reason = format!("must be `tool`, `directive`, `knowledge` or `any`, not `{}`", shown(other));
                Err(self.wrong("item_type", reason))
            }
        }
    }

    /// Where to look, if that is said.
    pub(super) fn scope(&self) -> Result<Option<Scope>, ItemStepError> {
        let scope = match self.text("source")?.as_deref() {
            None => return Ok(None),
            Some("local") => Scope::Local,
            Some("all") => Scope::All,
            Some("project") => Scope::Only(Layer::Project),
            Some("user") => Scope::Only(Layer::User),
            // RYE's word for what comes with the program.
            Some("builtin" | "system") => Scope::Only(Layer::Builtin),
            Some("registry") => return Err(self.wrong("source", "names a registry, which piton does not have")),
            Some(other) => {
                let reason = format!("must be `local`, `all`, `project`, `user` or `builtin`, not `{}`", shown(other));
                return Err(self.wrong("source", reason));
            }
        };
        Ok(Some(scope))
    }

    /// The complaint about a parameter.
    pub(super) fn wrong(&self, name: &str, reason: impl Into<String>) -> ItemStepError {
        ItemStepError::Wrong { verb: self.verb.to_owned(), name: name.to_owned(), reason: reason.into() }
    }
}
