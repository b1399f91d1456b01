//! Reads an [`ItemCommand`] from a JSON object: the parameters of a directive step or of an MCP call.
//!
//! Attributes of a directive are text, placeholders keep their type, and an empty value counts as not given: `5` and
//! `"5"`, `true` and `"true"` mean the same.

use serde_json::{Map, Value};

use super::request::{
    CreateItem, DeleteItem, ItemChange, ItemCommand, ItemName, LoadItem, MigrateScripts, SignItems,
    UpdateItem, Verb,
};
use super::{Home, ItemStepError};
use crate::context::Context;
use crate::item::search::{Query, SearchOrder, SearchScope};
use crate::item::skeleton::SkeletonLayout;
use crate::item::store::{ItemKind, Layer};
use crate::item::wording::{nearest, shown};

impl ItemCommand {
    /// Reads the parameters of a verb. Unknown ones are refused, because they may have been meant to narrow it.
    pub fn read(
        ctx: &Context,
        verb: Verb,
        parameters: &Map<String, Value>,
    ) -> Result<Self, ItemStepError> {
        let given = GivenParameters { verb, parameters };
        given.refuse_unknown()?;
        // Directives written for servers of several projects name theirs.
        if let Some(project) = given.text("project_path")?
            && ctx.root.join(&project).canonicalize().ok().as_ref() != Some(&ctx.root)
        {
            return Err(verb.wrong(
                "project_path",
                "must be the project that the directive runs in",
            ));
        }
        Ok(match verb {
            Verb::Search => Self::Search(given.query()?),
            Verb::Load => Self::Load(LoadItem {
                item_id: given.required("item_id")?,
                item_type: given.kind()?,
                source: given.scope()?,
                destination: given.home("destination")?,
                overwrite: given.flag("overwrite")?,
            }),
            Verb::Sign => Self::Sign(given.sign()?),
            Verb::Migrate => Self::Migrate(given.migrate()?),
            Verb::Create => Self::Create(Box::new(given.create()?)),
            Verb::Update => Self::Update(given.update()?),
            Verb::Delete => Self::Delete(DeleteItem {
                name: given.name()?,
                confirm: given.flag("confirm")?,
            }),
        })
    }
}

impl CreateItem {
    /// Reads what a new item would be.
    pub fn read(parameters: &Map<String, Value>) -> Result<Self, ItemStepError> {
        let verb = Verb::Create;
        GivenParameters { verb, parameters }.create()
    }
}

impl SignItems {
    /// Reads the name of the one item to sign, as the other verbs have it.
    pub fn read_one(parameters: &Map<String, Value>) -> Result<Self, ItemStepError> {
        let verb = Verb::Sign;
        let name = GivenParameters { verb, parameters }.name()?;
        Ok(Self {
            item_id: vec![name.full_id()],
            item_type: name.item_type,
            source: name.location,
        })
    }
}

impl Verb {
    pub(super) fn wrong(self, name: &str, reason: impl Into<String>) -> ItemStepError {
        ItemStepError::Wrong {
            verb: self,
            name: name.to_owned(),
            reason: reason.into(),
        }
    }
}

/// The parameters of a verb, not yet checked.
struct GivenParameters<'p> {
    verb: Verb,
    parameters: &'p Map<String, Value>,
}

impl GivenParameters<'_> {
    fn refuse_unknown(&self) -> Result<(), ItemStepError> {
        let (verb, known) = (self.verb, self.verb.parameters());
        let is_unknown = |name: &&String| !known.contains(&name.as_str());
        match self.parameters.keys().find(is_unknown) {
            None => Ok(()),
            Some(name) => Err(ItemStepError::Unknown {
                verb,
                name: name.clone(),
                similar: nearest(name, known).map(str::to_owned),
            }),
        }
    }

    fn query(&self) -> Result<Query, ItemStepError> {
        Ok(Query {
            text: self.required("query")?,
            kind: self.kind()?,
            scope: self.scope()?.unwrap_or_default(),
            tool_type: self.text("tool_type")?,
            category: self.text("category")?,
            tags: self.list("tags")?,
            order: match self.text("sort_by")?.as_deref() {
                None | Some("score") => SearchOrder::Score,
                Some("date") => SearchOrder::Date,
                Some("name") => SearchOrder::Name,
                Some(_) => return Err(self.wrong("sort_by", "must be `score`, `date` or `name`")),
            },
            limit: match self.text("limit")?.map(|text| text.parse()) {
                None => None,
                Some(Ok(count)) if count > 0 => Some(count),
                Some(_) => return Err(self.wrong("limit", "must be a whole number above 0")),
            },
        })
    }

    fn sign(&self) -> Result<SignItems, ItemStepError> {
        Ok(SignItems {
            item_id: match self.value("item_id") {
                Some(Value::Array(_)) => Some(self.list("item_id")?)
                    .filter(|wanted| !wanted.is_empty())
                    .ok_or_else(|| self.missing("item_id"))?,
                _ => vec![self.required("item_id")?],
            },
            item_type: self.kind()?,
            source: match self.scope()? {
                None
                | Some(SearchScope::Local | SearchScope::All | SearchScope::Only(Layer::Project)) => {
                    Home::Project
                }
                Some(SearchScope::Only(Layer::User)) => Home::User,
                Some(SearchScope::Only(Layer::Builtin)) => {
                    return Err(self.wrong(
                        "source",
                        "must be `project` or `user`: only their items are signed",
                    ));
                }
            },
        })
    }

    fn migrate(&self) -> Result<MigrateScripts, ItemStepError> {
        if self.kind()?.is_some_and(|kind| kind != ItemKind::Tool) {
            return Err(self.wrong("item_type", "must be `tool`: only scripts are migrated"));
        }
        let items = self.list("items")?;
        Ok(if self.flag("all")? {
            MigrateScripts::All
        } else if items.is_empty() {
            MigrateScripts::ItemId(self.required("item_id")?)
        } else {
            MigrateScripts::Items(items)
        })
    }

    fn create(&self) -> Result<CreateItem, ItemStepError> {
        Ok(CreateItem {
            name: ItemName {
                category: self.field("category")?,
                ..self.name()?
            },
            tool_type: self.field("tool_type")?,
            description: self.field("description")?,
            executor: self.field("executor")?,
            layout: match self.field("layout")?.as_deref() {
                None => None,
                Some("file") => Some(SkeletonLayout::File),
                Some("folder") => Some(SkeletonLayout::Folder),
                Some(_) => return Err(self.wrong("layout", "must be `file` or `folder`")),
            },
            content: self.content()?,
        })
    }

    fn update(&self) -> Result<UpdateItem, ItemStepError> {
        let updates = self
            .object("updates")?
            .filter(|updates| !updates.is_empty());
        let change = match (self.content()?, updates) {
            (Some(content), None) => ItemChange::Content(content),
            (None, Some(updates)) => ItemChange::Updates(updates.clone()),
            (Some(_), Some(_)) => {
                return Err(self.wrong("updates", "cannot be given together with `content`"));
            }
            (None, None) => return Err(self.wrong("content", "or `updates` has to be given")),
        };
        Ok(UpdateItem {
            name: self.name()?,
            change,
        })
    }

    fn name(&self) -> Result<ItemName, ItemStepError> {
        Ok(ItemName {
            item_id: self.required("item_id")?,
            item_type: self.kind()?,
            location: self.home("location")?.unwrap_or_default(),
            category: self.text("category")?,
        })
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.parameters.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, ItemStepError> {
        self.text_of(name, self.value(name))
    }

    fn text_of(&self, name: &str, value: Option<&Value>) -> Result<Option<String>, ItemStepError> {
        match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => {
                Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
            }
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(self.wrong(name, "must be text")),
        }
    }

    fn required(&self, name: &'static str) -> Result<String, ItemStepError> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &'static str) -> ItemStepError {
        let verb = self.verb;
        ItemStepError::Missing { verb, name }
    }

    /// The parameter `content`, byte for byte.
    fn content(&self) -> Result<Option<String>, ItemStepError> {
        match self.value("content") {
            None => Ok(None),
            Some(Value::String(text)) => {
                Ok(Some(text.clone()).filter(|text| !text.trim().is_empty()))
            }
            Some(_) => Err(self.wrong("content", "must be text")),
        }
    }

    /// The text of a parameter that may also be in the object `fields`.
    fn field(&self, name: &str) -> Result<Option<String>, ItemStepError> {
        match (self.text(name)?, self.object("fields")?) {
            (None, Some(fields)) => self.text_of(name, fields.get(name)),
            (text, _) => Ok(text),
        }
    }

    fn object(&self, name: &str) -> Result<Option<&Map<String, Value>>, ItemStepError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(self.wrong(name, "must be an object")),
        }
    }

    fn home(&self, name: &str) -> Result<Option<Home>, ItemStepError> {
        match self.text(name)?.as_deref() {
            None => Ok(None),
            Some("project") => Ok(Some(Home::Project)),
            Some("user") => Ok(Some(Home::User)),
            Some(_) => Err(self.wrong(name, "must be `project` or `user`")),
        }
    }

    fn flag(&self, name: &str) -> Result<bool, ItemStepError> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(Value::String(text)) if ["", "false"].contains(&text.trim()) => Ok(false),
            Some(Value::String(text)) if text.trim() == "true" => Ok(true),
            Some(_) => Err(self.wrong(name, "must be true or false")),
        }
    }

    /// A list of texts, or one text with commas.
    fn list(&self, name: &str) -> Result<Vec<String>, ItemStepError> {
        if let Some(Value::Array(values)) = self.value(name) {
            let texts = values.iter().map(|it| it.as_str().map(str::to_owned));
            let texts: Option<Vec<String>> = texts.collect();
            let texts = texts.ok_or_else(|| self.wrong(name, "must be a list of texts"))?;
            let is_given = |text: &String| !text.trim().is_empty();
            return Ok(texts.into_iter().filter(is_given).collect());
        }
        let text = self.text(name)?.unwrap_or_default();
        let parts = text.split(',').map(str::trim).map(str::to_owned);
        Ok(parts.filter(|part| !part.is_empty()).collect())
    }

    /// The kind of items; none for every kind.
    fn kind(&self) -> Result<Option<ItemKind>, ItemStepError> {
        match self.text("item_type")?.as_deref() {
            None | Some("any" | "all" | "*") => Ok(None),
            Some("tool" | "script") => Ok(Some(ItemKind::Tool)),
            Some("directive") => Ok(Some(ItemKind::Directive)),
            Some("knowledge") => Ok(Some(ItemKind::Knowledge)),
            Some(other) => {
                let reason = format!(
                    "must be `tool`, `directive`, `knowledge` or `any`, not `{}`",
                    shown(other)
                );
                Err(self.wrong("item_type", reason))
            }
        }
    }

    fn scope(&self) -> Result<Option<SearchScope>, ItemStepError> {
        let scope = match self.text("source")?.as_deref() {
            None => return Ok(None),
            Some("local") => SearchScope::Local,
            Some("all") => SearchScope::All,
            Some("project") => SearchScope::Only(Layer::Project),
            Some("user") => SearchScope::Only(Layer::User),
            // RYE's name for built-in items.
            Some("builtin" | "system") => SearchScope::Only(Layer::Builtin),
            Some("registry") => return Err(ItemStepError::NoRegistry),
            Some(other) => {
                let reason = format!(
                    "must be `local`, `all`, `project`, `user` or `builtin`, not `{}`",
                    shown(other)
                );
                return Err(self.wrong("source", reason));
            }
        };
        Ok(Some(scope))
    }

    fn wrong(&self, name: &str, reason: impl Into<String>) -> ItemStepError {
        self.verb.wrong(name, reason)
    }
}
