//! The `<metadata>` of a directive, and the same elements at the root, where some files have them.

use super::params::read_params;
use super::quantity::{CHECKPOINT_MODE, ON_FAILURE_OF_ANY, amount, boolean, choice, parse_seconds};
use super::reading::{DirectiveReading, PlaceholderScope, UseKind, join, split_list};
use super::xml::{Attribute, Element, XmlText};
use super::{CheckpointSettings, DirectiveHook, Grant, Limit, Model, Relationships, grant};
use crate::item::position::Position;
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::Code;

pub(super) const ELEMENTS: [&str; 23] = [
    "name",
    "version",
    "description",
    "category",
    "author",
    "model",
    "model_class",
    "permissions",
    "relationships",
    "limits",
    "hooks",
    "git_checkpoint",
    "tags",
    "context_budget",
    "mcps",
    "tools",
    "cost",
    "execution",
    "context",
    "deviation_rules",
    "parallel_capable",
    "subagent_strategy",
    "preferred_subagent",
];

const TIERS: [&str; 6] = [
    "fast",
    "balanced",
    "general",
    "reasoning",
    "expert",
    "orchestrator",
];

const LIMITS: [&str; 8] = [
    "steps",
    "tool_calls",
    "duration_seconds",
    "spend",
    "turns",
    "tokens",
    "spawns",
    "depth",
];

#[derive(Default)]
pub(super) struct Metadata {
    pub(super) name: Option<XmlText>,
    pub(super) version: Option<XmlText>,
    pub(super) description: String,
    pub(super) category: String,
    pub(super) author: String,
    pub(super) model: Option<Model>,
    pub(super) git_checkpoint: CheckpointSettings,
    pub(super) permissions: Vec<Grant>,
    pub(super) relationships: Relationships,
    pub(super) limits: Vec<Limit>,
    pub(super) hooks: Vec<DirectiveHook>,
    pub(super) tags: Vec<String>,
}

pub(super) fn is_known(name: &str) -> bool {
    ELEMENTS.contains(&name)
}

pub(super) fn read(element: &Element, reading: &mut DirectiveReading<'_>, metadata: &mut Metadata) {
    reading.check_attributes(element, "metadata", &[]);
    for single in [
        "name",
        "version",
        "description",
        "category",
        "author",
        "limits",
        "git_checkpoint",
    ] {
        reading.check_single(element, "metadata", &[single]);
    }
    reading.check_single(element, "metadata", &["model", "model_class"]);
    for child in element.children() {
        if child.is_opaque() {
            reading.keep_note(child, "metadata");
        } else if is_known(&child.name) {
            read_element(child, "metadata", reading, metadata);
        } else {
            reading.keep_unknown(child, "metadata", &ELEMENTS);
        }
    }
}

pub(super) fn read_element(
    element: &Element,
    parent: &str,
    reading: &mut DirectiveReading<'_>,
    metadata: &mut Metadata,
) {
    let path = join(parent, &element.name);
    match &*element.name {
        "name" => {
            metadata.name =
                Some(reading.text(element, &path).trimmed()).filter(|text| !text.is_blank());
        }
        "version" => {
            metadata.version =
                Some(reading.text(element, &path).trimmed()).filter(|text| !text.is_blank());
        }
        "description" => metadata.description = reading.text(element, &path).trimmed().value,
        "category" => metadata.category = reading.text(element, &path).trimmed().value,
        "author" => metadata.author = reading.text(element, &path).trimmed().value,
        "model" | "model_class" => {
            metadata.model = read_model(element, &path, reading).or(metadata.model.take());
        }
        "permissions" => grant::read(element, &path, reading, &mut metadata.permissions),
        "relationships" => read_relationships(element, &path, reading, &mut metadata.relationships),
        "limits" => read_limits(element, &path, reading, &mut metadata.limits),
        "hooks" => read_hooks(element, &path, reading, &mut metadata.hooks),
        "git_checkpoint" => metadata.git_checkpoint = read_git_checkpoint(element, &path, reading),
        "tags" => {
            metadata.tags.extend(split_list(&element.own_text().value));
            metadata
                .tags
                .extend(element.children().map(|tag| tag.own_text().trimmed().value));
        }
        _ => reading.keep_note(element, parent),
    }
}

/// Warns about missing fields that readers and search need.
pub(super) fn check_recommended(
    root: &Element,
    metadata: &Metadata,
    reading: &mut DirectiveReading<'_>,
) {
    let offset = root.child("metadata").unwrap_or(root).span.start;
    for (field, missing) in [
        ("description", metadata.description.is_empty()),
        ("category", metadata.category.is_empty()),
        ("author", metadata.author.is_empty()),
        ("model", metadata.model.is_none()),
    ] {
        if missing {
            let example = if field == "model" {
                "<model tier=\"fast\"/>".to_owned()
            } else {
                format!("<{field}>…</{field}>")
            };
            reading
                .report(
                    Code::MissingRecommendedField,
                    offset,
                    format!("metadata.{field}"),
                    format!("{field} is missing"),
                )
                .suggest(format!("add {example} to <metadata>"));
        }
    }
}

fn read_model(element: &Element, path: &str, reading: &mut DirectiveReading<'_>) -> Option<Model> {
    reading.check_attributes(element, path, &["tier", "fallback", "parallel", "id"]);
    let value = |name: &str| {
        element
            .attribute(name)
            .map(|attribute| attribute.value.value.trim().to_owned())
            .filter(|it| !it.is_empty())
    };
    for name in ["tier", "fallback"] {
        let Some(attribute) = element.attribute(name) else {
            continue;
        };
        let tier = attribute.value.value.trim();
        if !tier.is_empty() && !TIERS.contains(&tier) {
            let suggestion = did_you_mean(
                nearest(tier, TIERS),
                &format!("documented are: {}", TIERS.join(", ")),
            );
            let message = format!("`{}` is not a documented tier", shown(tier));
            reading
                .report(
                    Code::UnknownEnumValue,
                    attribute.value.offset_at(0),
                    join(path, name),
                    message,
                )
                .suggest(suggestion);
        }
    }
    let parallel = element
        .attribute("parallel")
        .and_then(|it| boolean(reading, &it.value, &join(path, "parallel")));
    let model = Model {
        tier: value("tier"),
        fallback: value("fallback"),
        parallel,
        id: value("id"),
        reasoning: Some(reading.text(element, path).trimmed().value)
            .filter(|text| !text.is_empty()),
        place: reading.place(element.span.start),
    };
    let says_something = model.tier.is_some() || model.id.is_some() || model.reasoning.is_some();
    says_something.then_some(model)
}

fn read_git_checkpoint(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> CheckpointSettings {
    reading.check_attributes(element, path, &["mode", "on_failure"]);
    let text = element.own_text().trimmed();
    let mode = element
        .attribute("mode")
        .map(|it| it.value.clone())
        .or((!text.is_blank()).then_some(text));
    CheckpointSettings {
        mode: mode.and_then(|text| choice(reading, &text, &join(path, "mode"), &CHECKPOINT_MODE)),
        on_failure: element.attribute("on_failure").and_then(|it| {
            choice(
                reading,
                &it.value,
                &join(path, "on_failure"),
                &ON_FAILURE_OF_ANY,
            )
        }),
    }
}

fn read_relationships(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
    relationships: &mut Relationships,
) {
    for child in element.children() {
        let list = match &*child.name {
            "requires" => &mut relationships.requires,
            "suggests" => &mut relationships.suggests,
            "extends" => &mut relationships.extends,
            "related" => &mut relationships.related,
            _ => {
                reading.keep_unknown(child, path, &["requires", "suggests", "extends", "related"]);
                continue;
            }
        };
        let before = list.len();
        list.extend(
            child
                .attribute("directive")
                .map(|it| it.value.value.trim().to_owned()),
        );
        list.extend(split_list(&child.own_text().value));
        list.extend(child.children().map(|it| it.own_text().trimmed().value));
        list.retain(|name| !name.is_empty());
        if list.len() == before {
            reading.missing(child, &join(path, &child.name), "directive");
        }
    }
}

fn read_limits(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
    limits: &mut Vec<Limit>,
) {
    let currency = element
        .attribute("spend_currency")
        .map(|it| it.value.value.trim().to_owned());
    for Attribute {
        name,
        offset,
        value,
    } in &element.attributes
    {
        if name != "spend_currency" {
            let unit = currency.clone().filter(|_| name.contains("spend"));
            let place = reading.place(*offset);
            limits.extend(read_limit(name, value, unit, place, path, reading));
        }
    }
    for child in element.children() {
        let unit = child
            .attribute("currency")
            .or(child.attribute("unit"))
            .map(|it| it.value.value.trim().to_owned());
        let value = child
            .attribute("max")
            .or(child.attribute("value"))
            .map(|it| it.value.clone());
        let value = value.unwrap_or_else(|| child.own_text().trimmed());
        let place = reading.place(child.span.start);
        limits.extend(read_limit(&child.name, &value, unit, place, path, reading));
    }
}

fn read_limit(
    written: &str,
    value: &XmlText,
    unit: Option<String>,
    place: Position,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> Option<Limit> {
    let path = join(path, &shown(written));
    let name = match written.strip_prefix("max_").unwrap_or(written) {
        "duration" => "duration_seconds",
        other => other,
    };
    let seconds = (name == "duration_seconds")
        .then(|| parse_seconds(value.value.trim()))
        .flatten();
    if !LIMITS.contains(&name) {
        let suggestion = did_you_mean(
            nearest(name, LIMITS),
            &format!("known are: {}", LIMITS.join(", ")),
        );
        let message = format!("`{}` is not a known limit", shown(written));
        reading
            .findings
            .add(Code::UnknownField, place, &path, message)
            .suggest(suggestion);
    }
    let value = seconds.or_else(|| amount(reading, value, &path))?;
    Some(Limit {
        name: name.to_owned(),
        value,
        unit,
        place,
    })
}

/// Reads `<hooks>`. The `when` of a hook may also refer to the run (`cost.steps > 10`).
fn read_hooks(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
    hooks: &mut Vec<DirectiveHook>,
) {
    // A hook may run after any step.
    reading.scope = PlaceholderScope {
        earlier: usize::MAX,
        element: None,
    };
    for (index, child) in element.children().enumerate() {
        let path = format!("{path}.hook[{index}]");
        let part = |name: &str| {
            let attribute = child.attribute(name).map(|it| it.value.trimmed());
            attribute
                .or_else(|| child.child(name).map(Element::own_text))
                .map(|text| text.trimmed())
        };
        // Newer files write <execute item_type="directive">id</execute>.
        let executed = child
            .child("execute")
            .filter(|it| is_value(it, "item_type", "directive"));
        let executed = executed.map(|it| {
            it.attribute("item_id")
                .map_or_else(|| it.own_text(), |id| id.value.clone())
        });
        let (when, directive) = (
            part("when"),
            part("directive").or(executed.map(|text| text.trimmed())),
        );
        if child.name != "hook" || (when.is_none() && directive.is_none()) {
            reading.keep_unknown(
                child,
                path.trim_end_matches(|c| c != '.').trim_end_matches('.'),
                &["hook"],
            );
            continue;
        }
        reading.check_attributes(child, &path, &["when", "directive"]);
        for (field, value) in [("when", &when), ("directive", &directive)] {
            if value.as_ref().is_none_or(XmlText::is_blank) {
                reading
                    .missing(child, &path, field)
                    .suggest(format!("add <{field}>…</{field}> to `<hook>`"));
            }
        }
        for other in child.children() {
            if !matches!(
                &*other.name,
                "when" | "directive" | "inputs" | "params" | "execute"
            ) {
                reading.keep_unknown(other, &path, &["when", "directive", "inputs"]);
            }
        }
        let inputs = child.child("inputs").or(child.child("params"));
        let inputs = inputs
            .map(|inputs| read_params(inputs, &join(&path, "inputs"), reading))
            .unwrap_or_default();
        if let (Some(when), Some(directive)) = (when, directive) {
            if !when.is_blank() {
                reading.uses(&when, UseKind::Hook, join(&path, "when"));
            }
            let place = reading.place(child.span.start);
            hooks.push(DirectiveHook {
                when: when.value,
                directive: directive.value,
                inputs,
                place,
            });
        }
    }
}

fn is_value(element: &Element, attribute: &str, value: &str) -> bool {
    element
        .attribute(attribute)
        .is_some_and(|it| it.value.value.trim() == value)
}
