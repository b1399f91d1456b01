//! Finding items by words.
//!
//! [`search`] compares the words of a query with what each item says about itself: its id,
//! description, category and tags. The answer depends on nothing but the items and the query: equal
//! scores are ordered by id. How well an item fits is decided by [`score`] alone.

use serde::Serialize;

use super::store::{Content, Item, ItemKind, ItemStore, Layer};

/// How many results there are when nobody says how many.
pub const DEFAULT_LIMIT: usize = 10;
/// A query is words, not a document.
const MAX_WORDS: usize = 32;
/// How much of a description is looked at.
const MAX_DESCRIPTION: usize = 2_000;
/// Shorter beginnings are those of too many words.
const MIN_PREFIX: usize = 3;

/// What is looked for.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The words.
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
}

/// What an item says about itself, as words in lower case.
#[derive(Clone, Debug, Default)]
struct Words {
    id: Vec<String>,
    tags: Vec<String>,
    category: Vec<String>,
    description: Vec<String>,
}

/// Looks for items.
pub fn search(store: &ItemStore, query: &Query) -> Results {
    let mut wanted = words(&query.text);
    wanted.truncate(MAX_WORDS);
    let mut results: Vec<Hit> = store
        .items()
        .iter()
        .filter(|item| passes(item, query))
        .filter_map(|item| {
            let fit = score(&wanted, &query.text, item);
            (fit > 0.0).then(|| hit(store, item, fit))
        })
        .collect();
    let by_name = |a: &Hit, b: &Hit| {
        (&a.name, a.item_type, a.source, &a.category, &a.path).cmp(&(
            &b.name,
            b.item_type,
            b.source,
            &b.category,
            &b.path,
        ))
    };
    results.sort_by(|a, b| match query.order {
        Order::Score => b.score.total_cmp(&a.score).then_with(|| by_name(a, b)),
        Order::Name => by_name(a, b),
    });
    let total = results.len();
    results.truncate(query.limit.unwrap_or(DEFAULT_LIMIT));
    Results { results, total, query: query.text.clone(), source: query.scope }
}

/// What an item is for, in its own words.
pub fn description(item: &Item) -> &str {
    match &item.content {
        Content::Tool(tool) => &tool.manifest.description,
        Content::Directive(directive) => &directive.description,
        Content::Knowledge(entry) => &entry.title,
    }
}

fn passes(item: &Item, query: &Query) -> bool {
    let layer = match query.scope {
        Scope::Local => item.layer != Layer::Builtin,
        Scope::All => true,
        Scope::Only(layer) => item.layer == layer,
    };
    let kind = query.kind.is_none_or(|kind| kind == item.kind());
    let tool_type = query.tool_type.as_deref().is_none_or(|wanted| tool_type(item).as_deref() == Some(wanted));
    let category = query.category.as_deref().is_none_or(|wanted| {
        item.category.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    layer && kind && tool_type && category && query.tags.iter().all(|tag| tags(item).contains(tag))
}

/// How well an item fits a query, from 0 to 1: the mean over the query's words of the best that each
/// word finds, where an id says more than a tag, and a tag more than a description.
///
/// A query that is the item's whole id fits perfectly.
fn score(wanted: &[String], text: &str, item: &Item) -> f64 {
    let text = text.trim();
    if text == item.id.as_str() || text.strip_suffix(item.id.as_str()) == Some(&format!("{}/", item.category)) {
        return 1.0;
    }
    let said = Words::of(item);
    let best = |word: &String| {
        let fields = [(&said.id, 0.95), (&said.tags, 0.7), (&said.category, 0.55), (&said.description, 0.45)];
        fields.iter().map(|(words, weight)| weight * likeness(word, words)).fold(0.0, f64::max)
    };
    let sum: f64 = wanted.iter().map(best).sum();
    // Two digits more than anybody looks at; sums in another order would differ behind them.
    let count = u32::try_from(wanted.len().max(1)).map_or(f64::MAX, f64::from);
    (sum / count * 1e4).round() / 1e4
}

/// How much a word is like the nearest of others: the same, the beginning of it, or a part.
fn likeness(word: &str, others: &[String]) -> f64 {
    let length = word.chars().count();
    let like = |other: &String| {
        if word == other {
            1.0
        } else if length >= MIN_PREFIX && other.starts_with(word) {
            0.75
        } else if length >= MIN_PREFIX && other.contains(word) {
            0.4
        } else {
            0.0
        }
    };
    others.iter().map(like).fold(0.0, f64::max)
}

impl Words {
    fn of(item: &Item) -> Self {
        let described = description(item);
        let described = described.get(..described.floor_char_boundary(MAX_DESCRIPTION)).unwrap_or_default();
        Self {
            id: words(item.id.as_str()),
            tags: tags(item).iter().flat_map(|tag| words(tag)).collect(),
            category: words(&item.category),
            description: words(described),
        }
    }
}

/// The words in a text, in lower case: `deploy_app`, `deployApp` and `Deploy app!` are two.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut characters = text.chars().peekable();
    let mut before = ' ';
    while let Some(character) = characters.next() {
        // `HTTPClient` is `http client`: the last of several capitals begins a word.
        let begins = character.is_uppercase()
            && (before.is_lowercase()
                || before.is_numeric()
                || before.is_uppercase() && characters.peek().is_some_and(|next| next.is_lowercase()));
        if (begins || !character.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn tags(item: &Item) -> &[String] {
    match &item.content {
        Content::Tool(tool) => &tool.manifest.tags,
        Content::Directive(directive) => &directive.tags,
        Content::Knowledge(entry) => &entry.tags,
    }
}

/// The type of a tool as it was written, or what it is where nothing was.
fn tool_type(item: &Item) -> Option<String> {
    let manifest = &item.as_tool()?.manifest;
    if !manifest.tool_type.is_empty() {
        return Some(manifest.tool_type.clone());
    }
    serde_json::to_value(manifest.kind).ok()?.as_str().map(str::to_owned)
}

fn hit(store: &ItemStore, item: &Item, fit: f64) -> Hit {
    Hit {
        name: item.id.to_string(),
        description: description(item).to_owned(),
        source: item.layer,
        path: store.roots().display(&item.file).to_string_lossy().into_owned(),
        score: fit,
        tool_type: tool_type(item),
        item_type: item.kind(),
        category: item.category.clone(),
    }
}

#[cfg(test)]
mod tests;
