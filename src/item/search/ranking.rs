//! Which documents match a query, and how well.
//!
//! A score is the weighted mean of how well each word of the query is matched, where rare words
//! count more: `Σ idf·likeness / Σ idf`. The content of an item decides its likeness; other items
//! matter only through the rarity of words, so for one word they do not matter at all. The result
//! does not depend on the order of items or words.

use std::cmp::Ordering;

use jiff::Timestamp;

use super::document::STEPS;
use super::image::{Details, SearchImage, View};
use super::likeness::{SAME, SoughtWord};
use super::words::{span, words};
use super::{DEFAULT_LIMIT, Hit, Query, Results, SearchOrder, SearchScope};
use crate::item::store::Layer;

/// A query is a few words, not a document.
const MAX_WORDS: usize = 32;
/// The steps of a score.
const DIGITS: u32 = 10_000;
/// The steps of a word's weight.
const WEIGHTS: f64 = 65_536.0;
/// The value of a fully matched word.
const FULL: u64 = SAME as u64 * STEPS as u64;

pub(super) fn search(image: &SearchImage, query: &Query) -> Results {
    let text = query.text.trim();
    let scored: Vec<(u32, f64)> = if text.is_empty() {
        (0..u32::try_from(image.len()).unwrap_or(u32::MAX))
            .map(|number| (number, 1.0))
            .collect()
    } else {
        scores(image, text)
    };
    let mut found: Vec<(f64, View<'_>)> = scored
        .into_iter()
        .filter_map(|(number, score)| Some((score, image.document(number)?)))
        .filter(|(_, view)| passes(view, query))
        .map(|(score, view)| (if is_named(&view, text) { 1.0 } else { score }, view))
        .collect();
    let total = found.len();
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let order = if text.is_empty() && query.order == SearchOrder::Score {
        SearchOrder::Name
    } else {
        query.order
    };
    // A common word has thousands of hits, of which ten are shown.
    if limit < total {
        found.select_nth_unstable_by(limit, |a, b| compare(image, order, a, b));
        found.truncate(limit);
    }
    found.sort_unstable_by(|a, b| compare(image, order, a, b));
    let results = found
        .into_iter()
        .map(|(score, view)| hit(image, &view, score))
        .collect();
    Results {
        results,
        total,
        query: query.text.clone(),
        source: query.scope,
    }
}

/// Total order: ties are broken by path, which is unique.
fn compare(
    image: &SearchImage,
    order: SearchOrder,
    (score_a, a): &(f64, View<'_>),
    (score_b, b): &(f64, View<'_>),
) -> Ordering {
    let kind = |view: &View<'_>| (view.kind, view.layer);
    let by_name = || {
        small_letters(a.name)
            .cmp(small_letters(b.name))
            .then_with(|| a.name.cmp(b.name))
            .then_with(|| kind(a).cmp(&kind(b)))
            .then_with(|| a.category.cmp(b.category))
            .then_with(|| image.details(a).path.cmp(&image.details(b).path))
    };
    match order {
        SearchOrder::Score => score_b.total_cmp(score_a).then_with(by_name),
        SearchOrder::Date => date(b).cmp(&date(a)).then_with(by_name),
        SearchOrder::Name => by_name(),
    }
}

fn small_letters(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|letter| letter.to_ascii_lowercase())
}

/// The documents that match any word, with their scores.
fn scores(image: &SearchImage, text: &str) -> Vec<(u32, f64)> {
    let count = image.len();
    let mut sums = vec![0_u64; count];
    let mut whole = 0;
    for word in wanted(text) {
        let likeness = likeness(image, &word, count);
        let having = likeness.iter().filter(|value| **value > 0).count();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small and positive"
        )]
        let weight = (rarity(count, having) * WEIGHTS).round().max(1.0) as u64;
        whole += weight;
        for (sum, value) in sums.iter_mut().zip(&likeness) {
            *sum += weight * u64::from(*value);
        }
    }
    (0..)
        .zip(sums)
        .filter(|(_, sum)| *sum > 0)
        .map(|(number, sum)| (number, score(sum, whole * FULL)))
        .collect()
}

/// A rounded share; never 0, and 1 only for an exact id.
fn score(sum: u64, whole: u64) -> f64 {
    let (sum, whole) = (u128::from(sum), u128::from(whole.max(1)));
    let steps = (sum * u128::from(DIGITS) * 2 + whole) / (whole * 2);
    let steps = u32::try_from(steps).unwrap_or(DIGITS).clamp(1, DIGITS - 1);
    f64::from(steps) / f64::from(DIGITS)
}

/// The unique words of a query in a fixed order; the longest ones if there are too many.
fn wanted(text: &str) -> Vec<SoughtWord> {
    let mut words = words(text);
    words.sort_unstable_by(|a, b| span(b).cmp(&span(a)).then_with(|| a.cmp(b)));
    words.dedup();
    words.truncate(MAX_WORDS);
    words.into_iter().map(SoughtWord::new).collect()
}

/// How well each document matches one word.
fn likeness(image: &SearchImage, word: &SoughtWord, count: usize) -> Vec<u32> {
    let mut best = vec![0; count];
    for term in image.terms() {
        // Most words differ so much that they need not be read.
        if !word.may_be_like(term.letters) {
            continue;
        }
        let alike = term
            .word()
            .map_or(0, |other| word.likeness(other, term.letters));
        if alike == 0 {
            continue;
        }
        image.each_mention(&term, |number, strength| {
            let value = alike * u32::from(strength);
            if let Some(best) = usize::try_from(number)
                .ok()
                .and_then(|number| best.get_mut(number))
                && value > *best
            {
                *best = value;
            }
        });
    }
    best
}

/// The weight of a word: the fewer documents have it, the higher; highest if no document has it.
pub(super) fn rarity(count: usize, having: usize) -> f64 {
    let number = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
    let (count, having) = (number(count), number(having));
    (1.0 + (count - having + 0.5) / (having + 0.5)).ln()
}

fn passes(view: &View<'_>, query: &Query) -> bool {
    let layer = match query.scope {
        SearchScope::Local => view.layer != Layer::Builtin,
        SearchScope::All => true,
        SearchScope::Only(layer) => view.layer == layer,
    };
    let tool_type = || {
        query
            .tool_type
            .as_deref()
            .is_none_or(|wanted| view.tool_type == Some(wanted))
    };
    let category = || {
        query
            .category
            .as_deref()
            .map(|wanted| wanted.trim_end_matches('/'))
            .is_none_or(|wanted| {
                view.category
                    .strip_prefix(wanted)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
    };
    let tags = || {
        query
            .tags
            .iter()
            .all(|tag| view.tags().any(|own| own == tag))
    };
    layer && query.kind.is_none_or(|kind| kind == view.kind) && tool_type() && category() && tags()
}

/// Whether a query is the id of an item, with or without its category.
fn is_named(view: &View<'_>, text: &str) -> bool {
    let of_category = || text.strip_suffix(view.name)?.strip_suffix('/');
    text == view.name || !text.is_empty() && of_category() == Some(view.category)
}

fn date(view: &View<'_>) -> Option<i64> {
    view.date.or(view.file_date)
}

fn hit(image: &SearchImage, view: &View<'_>, score: f64) -> Hit {
    let Details { description, path } = image.details(view);
    Hit {
        name: view.name.to_owned(),
        description,
        source: view.layer,
        path,
        score,
        tool_type: view.tool_type.map(str::to_owned),
        item_type: view.kind,
        category: view.category.to_owned(),
        date: date(view).and_then(|seconds| Timestamp::from_second(seconds).ok()),
    }
}
