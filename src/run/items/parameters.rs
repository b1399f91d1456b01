//! The parameters of an item step, checked.
//!
//! Attributes are text, placeholders keep their type, and an empty value counts as not given: `5` and
//! `"5"`, `true` and `"true"` mean the same.

use serde_json::{Map, Value};

use super::{Home, ItemStepError, Verb};
use crate::context::Context;
use crate::item::search::Scope;
use crate::item::store::{ItemKind, Layer};
use crate::item::wording::{nearest, shown};

/// What a step was given.
pub(super) struct Given<'p> {
    verb: Verb,
    parameters: &'p Map<String, Value>,
}

impl<'p> Given<'p> {
    /// Takes the parameters of a step; one that it does not have is refused, because it may have been meant to narrow it.
    pub(super) fn new(ctx: &Context, verb: Verb, parameters: &'p Map<String, Value>) -> Result<Self, ItemStepError> {
        let known = verb.parameters();
        if let Some(name) = parameters.keys().find(|name| !known.contains(&name.as_str())) {
            let similar = nearest(name, known.iter().copied()).map(str::to_owned);
            return Err(ItemStepError::Unknown { verb, name: name.clone(), similar });
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
        self.text(name)?.ok_or(ItemStepError::Missing { verb: self.verb, name })
    }

    /// One text or several, each as it is; at least one has to be given.
    pub(super) fn texts(&self, name: &'static str) -> Result<Vec<String>, ItemStepError> {
        let Some(Value::Array(values)) = self.parameters.get(name) else { return Ok(vec![self.required(name)?]) };
        let texts: Option<Vec<String>> = values.iter().map(|value| value.as_str().map(str::to_owned)).collect();
        let texts = texts.ok_or_else(|| self.wrong(name, "must be a list of texts"))?;
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
        if texts.is_empty() { Err(ItemStepError::Missing { verb: self.verb, name }) } else { Ok(texts) }
    }

    /// The text of a parameter, byte for byte.
    pub(super) fn whole(&self, name: &str) -> Result<Option<&'p str>, ItemStepError> {
        match self.parameters.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(self.wrong(name, "must be text")),
        }
    }

    /// The text of a parameter, which may also stand in the object `fields`.
    pub(super) fn field(&self, name: &str) -> Result<Option<String>, ItemStepError> {
        if let Some(text) = self.text(name)? {
            return Ok(Some(text));
        }
        match self.parameters.get("fields") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(fields)) => match fields.get(name) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
                Some(_) => Err(self.wrong(name, "must be text")),
            },
            Some(_) => Err(self.wrong("fields", "must be an object")),
        }
    }

    /// A number of things, at least one.
    pub(super) fn count(&self, name: &str) -> Result<Option<usize>, ItemStepError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.parse() {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => Err(self.wrong(name, "must be a whole number above 0")),
        }
    }

    /// Names with values.
    pub(super) fn object(&self, name: &str) -> Result<Option<&'p Map<String, Value>>, ItemStepError> {
        match self.parameters.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object).filter(|object| !object.is_empty())),
            Some(_) => Err(self.wrong(name, "must be an object")),
        }
    }

    /// Whose item is meant; the project's when nobody says.
    pub(super) fn location(&self) -> Result<Home, ItemStepError> {
        match self.text("location")?.as_deref() {
            None | Some("project") => Ok(Home::Project),
            Some("user") => Ok(Home::User),
            Some(_) => Err(self.wrong("location", "must be `project` or `user`")),
        }
    }

    /// The id of an item, with the category that may be given apart from it.
    pub(super) fn full_id(&self) -> Result<String, ItemStepError> {
        let id = self.required("item_id")?;
        Ok(match self.text("category")? {
            Some(category) if !id.contains('/') => format!("{category}/{id}"),
            _ => id,
        })
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
            Some("registry") => return Err(ItemStepError::NoRegistry),
            Some(other) => {
                let reason = format!("must be `local`, `all`, `project`, `user` or `builtin`, not `{}`", shown(other));
                return Err(self.wrong("source", reason));
            }
        };
        Ok(Some(scope))
    }

    /// The complaint about a parameter.
    pub(super) fn wrong(&self, name: &str, reason: impl Into<String>) -> ItemStepError {
        ItemStepError::Wrong { verb: self.verb, name: name.to_owned(), reason: reason.into() }
    }
}
