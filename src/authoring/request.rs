//! What to do with items: one verb with its parameters, typed.
//!
//! The terminal builds an [`ItemCommand`] from its arguments. Directive steps and the MCP server read one from a JSON
//! object with [`ItemCommand::read`]. `carry_out` executes it and does not know where it came from.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Home, ItemStepError};
use crate::item::search::{Query, SearchScope};
use crate::item::skeleton::SkeletonLayout;
use crate::item::store::ItemKind;
use crate::words::words;

/// One verb with its parameters; serializes as the parameters that a directive step would have.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ItemCommand {
    /// Find items by words.
    #[serde(skip)]
    Search(Query),
    /// Read an item, or copy it between project and user.
    Load(LoadItem),
    /// Stamp items.
    Sign(SignItems),
    /// Turn legacy scripts into tools.
    Migrate(MigrateScripts),
    /// Create an item.
    Create(Box<CreateItem>),
    /// Change the text of an item.
    Update(UpdateItem),
    /// Delete an item with all of its files.
    Delete(DeleteItem),
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct LoadItem {
    pub item_id: String,
    /// Needed when several kinds of items have this id.
    pub item_type: Option<ItemKind>,
    /// Where to look; everywhere by default.
    pub source: Option<SearchScope>,
    /// Where to copy the item; it is only read when not given.
    pub destination: Option<Home>,
    /// Replace an item that exists at the destination.
    pub overwrite: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct SignItems {
    /// Ids, paths and patterns.
    pub item_id: Vec<String>,
    pub item_type: Option<ItemKind>,
    pub source: Home,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrateScripts {
    All,
    /// Ids, paths and patterns.
    Items(Vec<String>),
    /// One script; an error if it cannot be migrated.
    ItemId(String),
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct CreateItem {
    #[serde(flatten)]
    pub name: ItemName,
    pub tool_type: Option<String>,
    pub description: Option<String>,
    pub executor: Option<String>,
    pub layout: Option<SkeletonLayout>,
    /// The text of its file; a skeleton when not given.
    pub content: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct UpdateItem {
    #[serde(flatten)]
    pub name: ItemName,
    #[serde(flatten)]
    pub change: ItemChange,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemChange {
    /// The new text of its file.
    Content(String),
    /// New values of some fields; `null` removes a field.
    Updates(Map<String, Value>),
}

#[derive(Clone, Debug, Serialize)]
pub struct DeleteItem {
    #[serde(flatten)]
    pub name: ItemName,
    /// Nothing is deleted without it.
    pub confirm: bool,
}

/// Names one item of the project or the user.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ItemName {
    pub item_id: String,
    pub item_type: Option<ItemKind>,
    pub location: Home,
    pub category: Option<String>,
}

impl ItemName {
    /// The id with the category, if that was given apart from it.
    pub(super) fn full_id(&self) -> String {
        match &self.category {
            Some(category) if !self.item_id.contains('/') => {
                format!("{category}/{}", self.item_id)
            }
            _ => self.item_id.clone(),
        }
    }
}

impl ItemCommand {
    pub fn verb(&self) -> Verb {
        match self {
            Self::Search(_) => Verb::Search,
            Self::Load(_) => Verb::Load,
            Self::Sign(_) => Verb::Sign,
            Self::Migrate(_) => Verb::Migrate,
            Self::Create(_) => Verb::Create,
            Self::Update(_) => Verb::Update,
            Self::Delete(_) => Verb::Delete,
        }
    }

    /// The parameters that were given, as a directive step would have them.
    pub(crate) fn parameters(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(mut parameters)) => {
                parameters.retain(|_, value| !matches!(value, Value::Null | Value::Bool(false)));
                parameters
            }
            // A variant without data is a flag.
            Ok(Value::String(flag)) => Map::from_iter([(flag, true.into())]),
            _ => Map::new(),
        }
    }
}

/// The name of an [`ItemCommand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Search,
    Load,
    Sign,
    Migrate,
    Create,
    Update,
    Delete,
}

// As directives and journals write them.
words!(Verb:
    Search "search",
    Load "load",
    Sign "sign",
    Migrate "migrate",
    Create "create",
    Update "update",
    Delete "delete"
);

impl Verb {
    /// The names of its parameters.
    pub fn parameters(self) -> Vec<&'static str> {
        let names = match self {
            Self::Search => "query item_type source limit sort_by tool_type category tags",
            Self::Load => "item_id item_type source destination overwrite",
            Self::Sign => "item_id item_type source",
            Self::Migrate => "item_id item_type items all",
            Self::Create => {
                "item_id item_type tool_type category description executor layout location content fields"
            }
            Self::Update => "item_id item_type location category content updates",
            Self::Delete => "item_id item_type location category confirm",
        };
        names.split(' ').chain(["project_path"]).collect()
    }
}

impl FromStr for Verb {
    type Err = ItemStepError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::parse(name).ok_or_else(|| ItemStepError::UnknownVerb(name.to_owned()))
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Plan and write.
    #[default]
    Do,
    /// Only plan.
    Plan,
}
