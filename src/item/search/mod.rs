//! Finding items by words.
//!
//! [`search`] looks among items that were read already, an [`Index`] among those on disk, with a cache
//! that spares reading what did not change. Both make an `image` of `document`s and ask `ranking`, so
//! that they always agree: the answer depends on nothing but the items and the query.

mod bytes;
mod document;
mod image;
mod index;
mod likeness;
mod ranking;
mod reading;
mod record;
mod rows;
mod shelf;
mod terms;
mod words;

use jiff::Timestamp;
use serde::Serialize;

use super::footprint::{Links, Sight};
use super::store::{Item, ItemKind, ItemStore, Layer};
use document::Document;
use image::{Facts, Image};
pub use index::{Freshness, Index};
pub use shelf::{Cache, remove_unused, unused};

/// How many results there are when nobody says how many.
pub const DEFAULT_LIMIT: usize = 10;

/// What is looked for.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The words; without any, everything is listed that passes the filters.
    pub text: String,
    /// Only items of this kind.
    pub kind: Option<ItemKind>,
    /// Where to look.
    pub scope: Scope,
    /// Only tools of this type.
    pub tool_type: Option<String>,
    /// Only items of this category, or below it.
    pub category: Option<String>,
    /// Only items with all of these tags.
    pub tags: Vec<String>,
    /// What comes first.
    pub order: Order,
    /// The most results.
    pub limit: Option<usize>,
}

/// Where to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// In the project and in the user's own items.
    #[default]
    Local,
    /// Among the built-in items as well.
    All,
    /// In one layer.
    #[serde(untagged)]
    Only(Layer),
}

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The best.
    #[default]
    Score,
    /// The newest: by what an item says itself, else its stamp, else its file.
    Date,
    /// The first in the alphabet.
    Name,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// The best, in order.
    pub results: Vec<Hit>,
    /// How many there are without the limit.
    pub total: usize,
    /// The query as it was given.
    pub query: String,
    /// Where was looked.
    pub source: Scope,
}

/// One item that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// Its id, without category.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where it comes from.
    pub source: Layer,
    /// Its file, relative to the project where it lies inside.
    pub path: String,
    /// How well it fits, above 0 and at most 1.
    pub score: f64,
    /// The type of a tool.
    pub tool_type: Option<String>,
    /// What it is.
    pub item_type: ItemKind,
    /// Its category; may be empty.
    pub category: String,
    /// When it was changed, by its own words, its stamp or its file.
    pub date: Option<Timestamp>,
}

/// Looks for items among those that were read already.
pub fn search(store: &ItemStore, query: &Query) -> Results {
    let named = store.items().iter().filter(|item| item.is_named());
    let documents: Vec<Document> = named
        .map(|item| {
            let mut document = Document::of(item, store.roots());
            document.file_date = file_date(&Sight::of(&item.file, Links::Followed));
            document
        })
        .collect();
    ranking::search(&Image::build(Facts::default(), &documents, &[]), query)
}

/// What an item is for, in its own words.
pub fn description(item: &Item) -> &str {
    document::description(item)
}

/// When a file was changed, in seconds.
fn file_date(sight: &Sight) -> Option<i64> {
    sight.footprint().map(|footprint| footprint.modified.div_euclid(1_000_000_000))
}

#[cfg(test)]
mod tests;
