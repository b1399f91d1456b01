//! Finds items by words.
//!
//! [`search`] uses items in memory, an [`SearchIndex`] those on disk, with a cache that avoids reading
//! unchanged files. Both build an `image` of `document`s and use `ranking`, so they always agree:
//! the result depends only on the items and the query.

mod bytes;
mod cache_file;
mod document;
mod image;
mod index;
mod likeness;
mod ranking;
mod reading;
mod record;
mod rows;
mod terms;
mod words;

use jiff::Timestamp;
use serde::Serialize;

use super::file_stat::{FileStat, Links};
use super::store::{Item, ItemKind, ItemStore, Layer};
pub use cache_file::{Cache, remove_unused, unused};
use document::Document;
use image::{Facts, SearchImage};
pub use index::{Freshness, SearchIndex};

pub const DEFAULT_LIMIT: usize = 10;

#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Without words, everything that passes the filters is listed.
    pub text: String,
    pub kind: Option<ItemKind>,
    pub scope: SearchScope,
    pub tool_type: Option<String>,
    /// This category and those below it.
    pub category: Option<String>,
    /// All of these tags.
    pub tags: Vec<String>,
    pub order: SearchOrder,
    pub limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchScope {
    /// The project's and the user's own items.
    #[default]
    Local,
    /// Also the built-in items.
    All,
    #[serde(untagged)]
    Only(Layer),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchOrder {
    /// Best first.
    #[default]
    Score,
    /// Newest first: by the date in the item, else its stamp, else its file.
    Date,
    Name,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// Sorted, up to the limit.
    pub results: Vec<Hit>,
    /// The number of matches without the limit.
    pub total: usize,
    pub query: String,
    pub source: SearchScope,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// Without category.
    pub name: String,
    pub description: String,
    pub source: Layer,
    /// Relative to the project if it is inside.
    pub path: String,
    /// Above 0 and at most 1.
    pub score: f64,
    pub tool_type: Option<String>,
    pub item_type: ItemKind,
    /// May be empty.
    pub category: String,
    /// From the item, its stamp or its file.
    pub date: Option<Timestamp>,
}

/// Searches items in memory.
pub fn search(store: &ItemStore, query: &Query) -> Results {
    let named = store.items().iter().filter(|item| item.is_named());
    let documents: Vec<Document> = named
        .map(|item| {
            let mut document = Document::of(item, store.roots());
            document.file_date = file_date(&FileStat::of(&item.file, Links::Followed));
            document
        })
        .collect();
    ranking::search(
        &SearchImage::build(Facts::default(), &documents, &[]),
        query,
    )
}

pub fn description(item: &Item) -> &str {
    document::description(item)
}

/// In seconds.
fn file_date(stat: &FileStat) -> Option<i64> {
    stat.footprint()
        .map(|footprint| footprint.modified.div_euclid(1_000_000_000))
}

#[cfg(test)]
mod tests;
