//! What can be done with items.

use std::fmt;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Finding items by words.
    Search,
    /// Reading an item, or copying it between project and user.
    Load,
    /// Stamping items.
    Sign,
    /// Making a legacy script a tool folder.
    Migrate,
    /// Making an item.
    Create,
    /// Giving an item another text.
    Update,
    /// Removing an item with everything that belongs to it.
    Delete,
}

impl Verb {
    const ALL: [Self; 7] =
        [Self::Search, Self::Load, Self::Sign, Self::Migrate, Self::Create, Self::Update, Self::Delete];

    /// The verb as directives and journals write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Load => "load",
            Self::Sign => "sign",
            Self::Migrate => "migrate",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// The verb with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == name)
    }

    /// The parameters that it takes.
    pub(super) fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Search => {
                &["query", "item_type", "source", "limit", "sort_by", "tool_type", "category", "tags", "project_path"]
            }
            Self::Load => &["item_id", "item_type", "source", "destination", "overwrite", "project_path"],
            Self::Sign => &["item_id", "item_type", "source", "project_path"],
            Self::Migrate => &["item_id", "items", "all", "item_type", "project_path"],
            Self::Create => &[
                "item_id",
                "item_type",
                "tool_type",
                "category",
                "description",
                "executor",
                "layout",
                "location",
                "content",
                "fields",
                "project_path",
            ],
            Self::Update => &["item_id", "item_type", "location", "category", "content", "updates", "project_path"],
            Self::Delete => &["item_id", "item_type", "location", "category", "confirm", "project_path"],
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
