//! What search knows about one item.
//!
//! A [`Document`] is made from one item alone; other items do not affect it. Each word has a
//! strength: a word of the id counts more than one of a tag, and so on down to the body, in bands
//! that do not overlap, so that many words in a long text never outweigh a name.

use std::path::Path;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::terms::{self, Counts, Tally, Terms};
use super::words::words;
use crate::item::directive::{Directive, StepAction};
use crate::item::node::Node;
use crate::item::signature::Integrity;
use crate::item::store::{Item, ItemContent, ItemKind, Layer, Roots};

/// In bytes.
const MAX_DESCRIPTION: usize = 4_000;
/// In bytes.
const MAX_BODY: usize = 16_000;

/// Fields with the date of the last change, best first.
const DATES: [&str; 4] = ["updated_at", "updated", "date", "created_at"];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document {
    pub(super) layer: Layer,
    pub(super) kind: ItemKind,
    /// Without category.
    pub(super) name: String,
    pub(super) category: String,
    pub(super) description: String,
    /// As shown to users.
    pub(super) path: String,
    pub(super) tool_type: Option<String>,
    pub(super) tags: Vec<String>,
    /// The date that the item itself states, in seconds.
    pub(super) date: Option<i64>,
    /// The modification time of its file, in seconds.
    pub(super) file_date: Option<i64>,
    /// Sorted, each with its strength.
    pub(super) terms: Terms,
}

/// How strongly a word represents an item, in steps of 1/10,000; always below 1.
pub(super) type Strength = u16;

/// The steps of a [`Strength`].
pub(super) const STEPS: u16 = 10_000;

/// A part of an item that contains words.
struct SearchField {
    /// The minimum weight of a word in it.
    least: f64,
    /// The bonus for short fields and repeated words.
    more: f64,
    /// The number of words from which a field counts as long.
    long: f64,
}

const ID: usize = 0;
const TITLE: usize = 1;
const CATEGORY: usize = 2;
const DESCRIPTION: usize = 3;
const BODY: usize = 4;

const FIELDS: [SearchField; terms::FIELDS] = [
    SearchField {
        least: 0.84,
        more: 0.12,
        long: 4.0,
    },
    SearchField {
        least: 0.62,
        more: 0.16,
        long: 8.0,
    },
    SearchField {
        least: 0.50,
        more: 0.10,
        long: 4.0,
    },
    SearchField {
        least: 0.34,
        more: 0.14,
        long: 20.0,
    },
    SearchField {
        least: 0.16,
        more: 0.14,
        long: 400.0,
    },
];

/// How far further fields with the same word raise the best one towards 1.
const LIFT: f64 = 0.15;

impl Document {
    /// Extracts what search needs from an item. The caller sets the date of the file.
    pub(super) fn of(item: &Item, roots: &Roots) -> Self {
        Self {
            layer: item.layer,
            kind: item.kind(),
            name: item.id.to_string(),
            category: item.category.clone(),
            description: description(item).to_owned(),
            path: shown_path(roots, &item.file),
            tool_type: tool_type(item),
            tags: tags(item).to_vec(),
            date: date(item),
            file_date: None,
            terms: terms(item),
        }
    }
}

pub(super) fn shown_path(roots: &Roots, file: &Path) -> String {
    roots.display(file).to_string_lossy().into_owned()
}

/// The description of an item.
pub(super) fn description(item: &Item) -> &str {
    match &item.content {
        ItemContent::Tool(tool) => &tool.manifest.description,
        ItemContent::Directive(directive) => &directive.description,
        ItemContent::Knowledge(entry) => &entry.title,
    }
}

fn tags(item: &Item) -> &[String] {
    match &item.content {
        ItemContent::Tool(tool) => &tool.manifest.tags,
        ItemContent::Directive(directive) => &directive.tags,
        ItemContent::Knowledge(entry) => &entry.tags,
    }
}

/// The type of a tool as written, or its kind if none is written.
fn tool_type(item: &Item) -> Option<String> {
    let manifest = &item.as_tool()?.manifest;
    if !manifest.tool_type.is_empty() {
        return Some(manifest.tool_type.clone());
    }
    serde_json::to_value(manifest.kind)
        .ok()?
        .as_str()
        .map(str::to_owned)
}

/// The strength of a word: that of its best field, raised a little by the others.
fn strength(counts: &Counts, lengths: &Counts) -> Strength {
    let mut best: f64 = 0.0;
    let mut without: f64 = 1.0;
    for ((count, length), field) in counts.iter().zip(lengths).zip(&FIELDS) {
        if *count == 0 {
            continue;
        }
        let often = f64::from(*count) / (f64::from(*count) + 1.0);
        let brief = 1.0 / (1.0 + f64::from(length.saturating_sub(1)) / field.long);
        let strength = field.least + field.more * often * brief;
        without *= 1.0 - best.min(strength);
        best = best.max(strength);
    }
    let lifted = best + (1.0 - best) * LIFT * (1.0 - without);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 10,000"
    )]
    let steps = (lifted * f64::from(STEPS)).round() as u16;
    steps
}

fn terms(item: &Item) -> Terms {
    let mut tally = Tally::default();
    let id = words(item.id.name());
    tally.add(ID, item.id.name(), usize::MAX);
    if id.len() > 1 {
        // People also write names as one word. It does not count as a further word of the id.
        tally.add_spelling(ID, &id.concat());
    }
    for tag in tags(item) {
        tally.add(TITLE, tag, MAX_DESCRIPTION);
    }
    tally.add(CATEGORY, &item.category, MAX_DESCRIPTION);
    match &item.content {
        ItemContent::Tool(tool) => {
            let manifest = &tool.manifest;
            tally.add(
                TITLE,
                manifest.name.as_deref().unwrap_or_default(),
                MAX_DESCRIPTION,
            );
            tally.add(DESCRIPTION, &manifest.description, MAX_DESCRIPTION);
            tally.add(BODY, &manifest.commands.join(" "), MAX_BODY);
        }
        ItemContent::Directive(directive) => {
            tally.add(DESCRIPTION, &directive.description, MAX_DESCRIPTION);
            tally.add(BODY, &steps_text(directive), MAX_BODY);
        }
        ItemContent::Knowledge(entry) => {
            tally.add(TITLE, &entry.title, MAX_DESCRIPTION);
            tally.add(
                DESCRIPTION,
                entry
                    .fields
                    .find("description")
                    .and_then(Node::as_text)
                    .unwrap_or_default(),
                MAX_DESCRIPTION,
            );
            tally.add(BODY, &entry.entry_type, MAX_DESCRIPTION);
            tally.add(BODY, &entry.body, MAX_BODY);
        }
    }
    tally.into_terms(strength)
}

/// The texts of a directive's steps, up to a limit.
fn steps_text(directive: &Directive) -> String {
    let mut text = directive.context.clone().unwrap_or_default();
    for step in &directive.steps {
        if text.len() > MAX_BODY {
            break;
        }
        let action = match &step.action {
            StepAction::Tool { item_id, .. } | StepAction::Directive { item_id, .. } => item_id,
            StepAction::Checkpoint { operation, .. } => operation,
            StepAction::Item { verb, .. } => verb,
            StepAction::Human { question, .. } => question,
            StepAction::Prose { instruction, .. } => instruction,
        };
        for part in [&step.name, &step.description, action] {
            text.push('\n');
            text.push_str(part);
        }
    }
    text
}

/// The date that the item states, or else that of its stamp.
fn date(item: &Item) -> Option<i64> {
    let said = DATES.iter().find_map(|key| {
        let written = match &item.content {
            ItemContent::Tool(tool) => tool.node.find(key)?.scalar(),
            ItemContent::Knowledge(entry) => entry.fields.find(key)?.scalar(),
            ItemContent::Directive(directive) => {
                let mut elements = directive.notes.iter().chain(&directive.unknown);
                let element = elements.find(|element| element.path.rsplit('/').next() == Some(key));
                element.map(|element| without_tags(&element.content))
            }
        };
        parse_date(written?.trim())
    });
    said.or_else(|| match &item.integrity {
        Integrity::Valid { time, .. } => parse_date(time),
        _ => None,
    })
}

fn without_tags(content: &str) -> String {
    content
        .split('<')
        .map(|part| part.rsplit('>').next().unwrap_or_default())
        .collect()
}

/// A date or time in seconds; without a zone it is UTC.
fn parse_date(text: &str) -> Option<i64> {
    let zoned = |time: DateTime| {
        time.to_zoned(TimeZone::UTC)
            .ok()
            .map(|time| time.timestamp())
    };
    let moment = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| text.parse::<DateTime>().ok().and_then(zoned))
        .or_else(|| {
            text.parse::<Date>()
                .ok()
                .and_then(|date| zoned(date.to_datetime(jiff::civil::Time::midnight())))
        });
    moment.map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_do_not_overlap() {
        let lengths = [9, 30, 5, 80, 4_000];
        let most = [1, 1, 1, 1, 1];
        for field in 0..4 {
            let (mut once, mut often) = ([0; 5], [0; 5]);
            once[field] = 1;
            often[field + 1] = 1_000;
            assert!(
                strength(&once, &lengths) > strength(&often, &most),
                "field {field}"
            );
        }
        assert!(strength(&[9, 9, 9, 9, 9], &most) < 10_000);
    }

    #[test]
    fn dates_are_read_as_people_write_them() {
        assert_eq!(parse_date("2026-01-28T12:00:00Z"), Some(1_769_601_600));
        assert_eq!(parse_date("2026-01-28T13:00:00+01:00"), Some(1_769_601_600));
        assert_eq!(parse_date("2026-01-28 12:00"), Some(1_769_601_600));
        assert_eq!(parse_date("2026-01-28"), Some(1_769_558_400));
        assert_eq!(parse_date("yesterday"), None);
        assert_eq!(
            without_tags("<updated_at>2026-01-28</updated_at>"),
            "2026-01-28"
        );
    }
}
