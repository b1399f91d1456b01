//! Reads YAML into [`Node`]s, and writes values as YAML.
//!
//! The only module that uses the YAML crates. [`parse`] takes the events of a pull parser one by
//! one, so that nesting and repetition are bounded before anything is built: tags, merge keys and
//! second documents are refused, duplicate keys reported, numbers never rounded (see [`scalar`]).

mod advice;
mod scalar;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::mem;
use std::ops::ControlFlow;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::document::{MAX_DEPTH, ParseReporter, push_index, push_key};
use super::finding::Findings;
use super::node::{Data, Node, NodeEntry};
use super::position::{LineIndex, Position};
use super::wording::shown;
use crate::problem::Code;
use scalar::Plain;

/// How much aliases may copy, in nodes; long texts count for several.
const MAX_COPIED: usize = 20_000;

/// The limit of commas and colons in a document.
const MAX_INDICATORS: usize = 100_000;
/// Up to this many keys a map is searched linearly.
const FEW_KEYS: usize = 32;
const UNTAGGED: &str = "remove the tag; put quotes around a value to make it text";

/// Reads a document; `origin` is the position of the text in its file.
///
/// Returns `None` when there is no root to check further.
pub fn parse(text: &str, origin: Position, findings: &mut Findings) -> Option<Node> {
    let mut report = ParseReporter::new(origin, findings);
    if report.is_too_large(text)
        || is_too_dense(text, &mut report)
        || has_unprintable(text, &mut report)
    {
        return None;
    }
    let mut builder = Builder::new(report);
    for step in Parser::new_from_str(text) {
        let flow = match step {
            Ok((event, span)) => builder.take(event, span.start),
            Err(error) => builder.give_up(text, &error),
        };
        if let ControlFlow::Break(root) = flow {
            return root;
        }
    }
    builder.finish()
}

pub fn to_yaml(value: &serde_json::Value) -> String {
    const BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];
    // The writer follows YAML 1.1, where these characters are line breaks that it folds. JSON is
    // YAML too, and has them only inside quotes.
    match serde_yaml::to_string(value) {
        Ok(text) if !text.contains(BREAKS) => text,
        _ => {
            let mut text = format!("{value:#}\n").replace('\u{7f}', "\\u007f");
            for character in BREAKS {
                text = text.replace(character, &format!("\\u{:04x}", u32::from(character)));
            }
            text
        }
    }
}

/// Whether there is more structure than any item needs.
///
/// Inside brackets the scanner reads ahead to the last one and keeps several tokens for each comma
/// and colon, a hundred times the size of the text.
fn is_too_dense(text: &str, report: &mut ParseReporter<'_>) -> bool {
    let indicators = text
        .bytes()
        .filter(|byte| matches!(byte, b',' | b':'))
        .count();
    let too_dense = indicators > MAX_INDICATORS;
    if too_dense {
        let message = format!("more than {MAX_INDICATORS} commas and colons");
        let place = report.locate(1, 1);
        report.add(
            Code::FileTooLarge,
            place,
            String::new(),
            message,
            "keep data outside the item",
        );
    }
    too_dense
}

/// Reports the first character that YAML does not allow; the parser takes a NUL for the end.
fn has_unprintable(text: &str, report: &mut ParseReporter<'_>) -> bool {
    let unprintable =
        |c: char| matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}');
    let Some((offset, character)) = text.char_indices().find(|(_, c)| unprintable(*c)) else {
        return false;
    };
    let place = report.moved(LineIndex::new(text).place(offset));
    let message = format!(
        "the control character U+{:04X} may not stand in YAML",
        u32::from(character)
    );
    report.add(
        Code::YamlSyntax,
        place,
        String::new(),
        message,
        "remove it, or escape it inside double quotes",
    );
    true
}

struct Builder<'f> {
    report: ParseReporter<'f>,
    /// The open lists and maps, outermost first.
    frames: Vec<YamlFrame>,
    anchors: HashMap<usize, Anchor>,
    kept: usize,
    copied: usize,
    root: Option<Node>,
    /// Whether a second document has begun; it must be empty.
    second: bool,
}

struct YamlFrame {
    content: YamlContainer,
    place: Position,
    anchor: usize,
}

enum YamlContainer {
    List(Vec<Node>),
    Map {
        entries: Vec<NodeEntry>,
        many: HashMap<String, Position>,
        key: MapKeyState,
    },
}

/// The state of a map between a key and its value.
enum MapKeyState {
    Awaited,
    Given(String, Position),
    /// The next value is read for its findings and dropped.
    Refused,
}

/// Content that aliases may repeat.
struct Anchor {
    /// `None` when it is too large to be repeated.
    node: Option<Node>,
    size: usize,
    height: usize,
}

impl<'f> Builder<'f> {
    fn new(report: ParseReporter<'f>) -> Self {
        Self {
            report,
            frames: Vec::new(),
            anchors: HashMap::new(),
            kept: 0,
            copied: 0,
            root: None,
            second: false,
        }
    }

    fn take(&mut self, event: Event<'_>, mark: Marker) -> ControlFlow<Option<Node>> {
        let place = self.report.locate(mark.line(), mark.col() + 1);
        if self.second && is_content(&event) {
            return self.refuse_second(place);
        }
        match event {
            Event::DocumentStart(_) => self.second = self.root.is_some(),
            Event::Scalar(text, style, anchor, tag) => {
                let blank =
                    text.is_empty() && style == ScalarStyle::Plain && anchor == 0 && tag.is_none();
                if blank && self.frames.is_empty() {
                    return ControlFlow::Continue(());
                }
                if let Some(tag) = tag {
                    self.refuse_tag(&tag, place);
                }
                self.scalar(&text, style, anchor, place);
            }
            Event::Alias(id) => {
                let node = self.repeat(id, place);
                self.attach(node);
            }
            Event::SequenceStart(anchor, tag) => {
                if let Some(tag) = tag {
                    self.refuse_tag(&tag, place);
                }
                return self.open(YamlContainer::List(Vec::new()), anchor, place);
            }
            Event::MappingStart(anchor, tag) => {
                if let Some(tag) = tag {
                    self.refuse_tag(&tag, place);
                }
                let map = YamlContainer::Map {
                    entries: Vec::new(),
                    many: HashMap::new(),
                    key: MapKeyState::Awaited,
                };
                return self.open(map, anchor, place);
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        ControlFlow::Continue(())
    }

    fn finish(mut self) -> Option<Node> {
        if self.root.is_none() {
            self.report.empty();
        }
        self.root
    }

    /// Reports a syntax error; the parser cannot continue after it.
    fn give_up(&mut self, text: &str, error: &ScanError) -> ControlFlow<Option<Node>> {
        let (line, column) = advice::find_cause(text, error);
        let place = self.report.locate(line, column);
        if self.second {
            return self.refuse_second(place);
        }
        let path = self.path();
        // The scanner reads ahead inside brackets and may reach its own limit before ours.
        if error.info() == "recursion limit exceeded" {
            self.report.too_deep(place, path);
        } else if error.info() == "the handle wasn't declared" {
            let message = "a tag with an unknown handle is not accepted".to_owned();
            self.report
                .add(Code::YamlTag, place, path, message, UNTAGGED);
        } else {
            let suggestion = advice::on(error.info(), text.lines().nth(line - 1).unwrap_or(""));
            self.report.add(
                Code::YamlSyntax,
                place,
                path,
                error.info().to_owned(),
                suggestion,
            );
        }
        ControlFlow::Break(None)
    }

    fn refuse_second(&mut self, place: Position) -> ControlFlow<Option<Node>> {
        let message = "a second document begins here".to_owned();
        let suggestion = "keep one document per file; `---` may only stand before and after it";
        self.report.add(
            Code::YamlManyDocuments,
            place,
            String::new(),
            message,
            suggestion,
        );
        ControlFlow::Break(self.root.take())
    }

    fn refuse_tag(&mut self, tag: &Tag, place: Position) {
        let path = self.path();
        let handle = if tag.is_yaml_core_schema() {
            "!!"
        } else {
            &tag.handle
        };
        let message = format!(
            "the tag `{}` is not accepted",
            shown(&format!("{handle}{}", tag.suffix))
        );
        self.report
            .add(Code::YamlTag, place, path, message, UNTAGGED);
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, anchor: usize, place: Position) {
        if let Some(YamlFrame {
            content:
                YamlContainer::Map {
                    key: MapKeyState::Awaited,
                    ..
                },
            ..
        }) = self.frames.last()
        {
            if anchor != 0 {
                self.remember(anchor, &Node::text(text, place));
            }
            self.key(text, style, place);
            return;
        }
        let data = match style {
            ScalarStyle::Plain => match scalar::read(text) {
                Plain::Value(data) => data,
                Plain::Unusable => {
                    let path = self.path();
                    self.report.invalid_number(text, place, path);
                    // Still a number, so that no other rule also reports the type.
                    Data::Float(0.0, text.to_owned())
                }
            },
            _ => Data::Text(text.to_owned()),
        };
        let node = Node::new(data, place);
        if anchor != 0 {
            self.remember(anchor, &node);
        }
        self.attach(node);
    }

    /// Takes a key as its written text.
    fn key(&mut self, text: &str, style: ScalarStyle, place: Position) {
        let Some(YamlFrame {
            content: YamlContainer::Map { entries, many, key },
            ..
        }) = self.frames.last_mut()
        else {
            return;
        };
        let is_plain = style == ScalarStyle::Plain;
        let first = find_key(entries, many, text);
        let acceptable = first.is_none() && !(is_plain && matches!(text, "" | "<<"));
        if acceptable {
            *key = MapKeyState::Given(text.to_owned(), place);
            return;
        }
        *key = MapKeyState::Refused;
        let mut path = self.path();
        push_key(&mut path, text);
        if let Some(first) = first {
            self.report.duplicate_key(text, first, place, path);
        } else if text.is_empty() {
            let message = "a key is missing before `:`".to_owned();
            self.report.add(
                Code::YamlSyntax,
                place,
                path,
                message,
                "name the key, or put quotes around the text",
            );
        } else {
            let message = "merge keys are not accepted".to_owned();
            self.report.add(
                Code::YamlMergeKey,
                place,
                path,
                message,
                "write the merged entries out",
            );
        }
    }

    fn open(
        &mut self,
        content: YamlContainer,
        anchor: usize,
        place: Position,
    ) -> ControlFlow<Option<Node>> {
        if self.frames.len() == MAX_DEPTH {
            let path = self.path();
            self.report.too_deep(place, path);
            return ControlFlow::Break(None);
        }
        self.frames.push(YamlFrame {
            content,
            place,
            anchor,
        });
        ControlFlow::Continue(())
    }

    fn close(&mut self) {
        let Some(YamlFrame {
            content,
            place,
            anchor,
        }) = self.frames.pop()
        else {
            return;
        };
        let data = match content {
            YamlContainer::List(elements) => Data::List(elements),
            YamlContainer::Map { entries, .. } => Data::Map(entries),
        };
        let node = Node::new(data, place);
        if anchor != 0 {
            self.remember(anchor, &node);
        }
        self.attach(node);
    }

    /// Adds a finished node to its parent.
    fn attach(&mut self, node: Node) {
        match self.frames.last_mut().map(|frame| &mut frame.content) {
            None => self.root = Some(node),
            Some(YamlContainer::List(elements)) => elements.push(node),
            Some(YamlContainer::Map { entries, key, .. }) => {
                match mem::replace(key, MapKeyState::Awaited) {
                    MapKeyState::Given(key, place) => entries.push(NodeEntry {
                        key,
                        place,
                        value: node,
                    }),
                    MapKeyState::Refused => {}
                    // Scalars never get here: the key is a list, a map or an alias.
                    MapKeyState::Awaited => {
                        *key = MapKeyState::Refused;
                        let path = self.path();
                        let message = "a key must be text".to_owned();
                        let suggestion =
                            "put quotes around a value that begins with `{`, `[`, `*` or `?`";
                        self.report
                            .add(Code::YamlSyntax, node.place, path, message, suggestion);
                    }
                }
            }
        }
    }

    fn remember(&mut self, id: usize, node: &Node) {
        let Measure { size, height } = measure(node);
        // Nested anchors would each keep a copy of the same content.
        self.kept = self.kept.saturating_add(size);
        let node = (self.kept <= MAX_COPIED).then(|| node.clone());
        self.anchors.insert(id, Anchor { node, size, height });
    }

    /// Copies the content of an anchor; null replaces what may not be copied.
    fn repeat(&mut self, id: usize, place: Position) -> Node {
        let spent = self.copied;
        let (message, suggestion) = match self.anchors.get(&id) {
            Some(anchor) if self.frames.len() + anchor.height > MAX_DEPTH => {
                let path = self.path();
                self.report.too_deep(place, path);
                return Node::new(Data::Null, place);
            }
            Some(Anchor {
                node: Some(node),
                size,
                ..
            }) if spent + size <= MAX_COPIED => {
                self.copied += size;
                return Node::new(node.data.clone(), place);
            }
            // Reported once, when the limit is exceeded; nothing is copied after that.
            Some(_) if spent > MAX_COPIED => return Node::new(Data::Null, place),
            Some(_) => {
                self.copied = MAX_COPIED + 1;
                (
                    format!("aliases repeat more than {MAX_COPIED} values"),
                    "repeat less, or write it out",
                )
            }
            None => (
                "an alias repeats the content it stands in".to_owned(),
                "write the content out",
            ),
        };
        let path = self.path();
        self.report
            .add(Code::RepetitionLimit, place, path, message, suggestion);
        Node::new(Data::Null, place)
    }

    /// The path of the current field.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in &self.frames {
            match &frame.content {
                YamlContainer::List(elements) => push_index(&mut path, elements.len()),
                YamlContainer::Map {
                    key: MapKeyState::Given(key, _),
                    ..
                } => push_key(&mut path, key),
                YamlContainer::Map { .. } => {}
            }
        }
        path
    }
}

/// The position of an earlier key. A few entries are searched faster than hashed; `many` indexes
/// the entries of larger maps.
fn find_key(
    entries: &[NodeEntry],
    many: &mut HashMap<String, Position>,
    key: &str,
) -> Option<Position> {
    if entries.len() <= FEW_KEYS {
        return entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| entry.place);
    }
    // Keys are unique, so the entries not indexed yet are the last ones.
    let new = entries.get(many.len()..).unwrap_or_default();
    many.extend(new.iter().map(|entry| (entry.key.clone(), entry.place)));
    many.get(key).copied()
}

/// Whether an event shows that a document is not empty.
fn is_content(event: &Event<'_>) -> bool {
    match event {
        Event::Scalar(text, style, anchor, tag) => {
            !text.is_empty() || *style != ScalarStyle::Plain || *anchor != 0 || tag.is_some()
        }
        Event::Alias(_) | Event::SequenceStart(..) | Event::MappingStart(..) => true,
        _ => false,
    }
}

struct Measure {
    size: usize,
    height: usize,
}

/// Weighs a node; the depth of the tree bounds the recursion.
fn measure(node: &Node) -> Measure {
    let weight = |text: &str| 1 + text.len() / 64;
    let children: Vec<Measure> = match &node.data {
        Data::Text(text) | Data::Float(_, text) => {
            return Measure {
                size: weight(text),
                height: 0,
            };
        }
        Data::Null | Data::Bool(_) | Data::Int(_) => return Measure { size: 1, height: 0 },
        Data::List(elements) => elements.iter().map(measure).collect(),
        Data::Map(entries) => entries
            .iter()
            .map(|entry| {
                let Measure { size, height } = measure(&entry.value);
                Measure {
                    size: size + weight(&entry.key),
                    height,
                }
            })
            .collect(),
    };
    children
        .iter()
        .fold(Measure { size: 1, height: 1 }, |sum, child| Measure {
            size: sum.size.saturating_add(child.size),
            height: sum.height.max(child.height + 1),
        })
}
