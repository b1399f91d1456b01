//! State shared by the readers of a directive's parts.

use super::Extra;
use super::xml::{Attribute, Element, XmlText};
use crate::item::finding::{Finding, Findings, Strength};
use crate::item::position::{LineIndex, Position};
use crate::item::wording::{nearest, shown};
use crate::problem::Code;

/// Elements of other programs that only tell a reader something.
const DOCUMENTATION: [&str; 16] = [
    "note",
    "notes",
    "title",
    "summary",
    "usage",
    "examples",
    "references",
    "see_also",
    "changelog",
    "history",
    "license",
    "status",
    "created",
    "updated",
    "documentation",
    "progressive_disclosure",
];

pub(super) struct DirectiveReading<'r> {
    pub(super) text: &'r str,
    pub(super) lines: LineIndex<'r>,
    pub(super) findings: &'r mut Findings,
    /// Elements that are only informative.
    pub(super) notes: Vec<Extra>,
    pub(super) unknown: Vec<Extra>,
    /// Texts that may contain placeholders; checked when all inputs and steps are known.
    pub(super) uses: Vec<PlaceholderText>,
    /// What placeholders may refer to at the current point.
    pub(super) scope: PlaceholderScope,
}

/// What placeholders may refer to, besides the inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceholderScope {
    /// The number of earlier steps.
    pub(super) earlier: usize,
    /// The name of a `foreach` element.
    pub(super) element: Option<String>,
}

/// A text that may contain placeholders.
#[derive(Debug)]
pub(super) struct PlaceholderText {
    pub(super) text: XmlText,
    pub(super) kind: UseKind,
    pub(super) scope: PlaceholderScope,
    pub(super) path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UseKind {
    Template,
    Expression,
    Hook,
    List,
}

impl DirectiveReading<'_> {
    pub(super) fn place(&self, offset: usize) -> Position {
        self.lines.place(offset)
    }

    pub(super) fn report(
        &mut self,
        code: Code,
        offset: usize,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Finding {
        let place = self.place(offset);
        self.findings.add(code, place, path, message)
    }

    /// Adds a finding about a missing attribute or element.
    pub(super) fn missing(&mut self, element: &Element, path: &str, field: &str) -> &mut Finding {
        let path = join(path, field);
        let message = format!("{field} is required");
        let suggestion = format!("add {field}=\"…\" to `<{}>`", element.name);
        self.report(
            Code::MissingRequiredField,
            element.span.start,
            path,
            message,
        )
        .suggest(suggestion)
    }

    /// Reads a single text: the trimmed content of an element.
    ///
    /// Nested elements are kept verbatim. Except for `template` and the like, they were probably
    /// meant as text and cause a warning.
    pub(super) fn text(&mut self, element: &Element, path: &str) -> XmlText {
        for child in element.children().filter(|child| !child.is_opaque()) {
            self.report(
                Code::UnescapedMarkup,
                child.span.start,
                path,
                format!(
                    "`<{}>` inside `<{}>` is taken as text",
                    shown(&child.name),
                    element.name
                ),
            )
            .suggest("wrap it in CDATA: <![CDATA[ … ]]>");
        }
        element.flat_text(self.text)
    }

    pub(super) fn check_attributes(&mut self, element: &Element, path: &str, known: &[&str]) {
        for attribute in &element.attributes {
            if !known.contains(&&*attribute.name) {
                self.unknown_attribute(element, attribute, path, known);
            }
        }
    }

    pub(super) fn unknown_attribute(
        &mut self,
        element: &Element,
        attribute: &Attribute,
        path: &str,
        known: &[&str],
    ) -> &mut Finding {
        let message = format!(
            "`{}` is not a known attribute of `<{}>`",
            shown(&attribute.name),
            element.name
        );
        let suggestion = match nearest(&attribute.name, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if known.is_empty() => "remove it".to_owned(),
            None => format!("known are: {}", known.join(", ")),
        };
        let path = join(path, &shown(&attribute.name));
        self.report(Code::UnknownField, attribute.offset, path, message)
            .suggest(suggestion)
    }

    /// Keeps an unknown element, with a warning unless it only tells a reader something.
    pub(super) fn keep_unknown(&mut self, element: &Element, path: &str, known: &[&str]) {
        let is_lenient = self.findings.strength() == Strength::Lenient;
        if is_lenient && DOCUMENTATION.contains(&&*element.name) {
            return self.keep_note(element, path);
        }
        let path = join(path, &shown(&element.name));
        let message = format!(
            "`<{}>` is not known; it is kept and has no effect",
            shown(&element.name)
        );
        let suggestion = match nearest(&element.name, known.iter().copied()) {
            Some(meant) => format!("did you mean `<{meant}>`?"),
            None => "remove it, or move it into the Markdown around the directive".to_owned(),
        };
        self.report(Code::UnknownElement, element.span.start, &path, message)
            .suggest(suggestion);
        let extra = self.extra(element, &path);
        self.unknown.push(extra);
    }

    /// Keeps an element that is only informative.
    pub(super) fn keep_note(&mut self, element: &Element, path: &str) {
        let extra = self.extra(element, &join(path, &element.name));
        self.notes.push(extra);
    }

    /// Records a text that may contain placeholders.
    pub(super) fn uses(&mut self, text: &XmlText, kind: UseKind, path: impl Into<String>) {
        if kind != UseKind::Template || text.value.contains('{') {
            self.uses.push(PlaceholderText {
                text: text.clone(),
                kind,
                scope: self.scope.clone(),
                path: path.into(),
            });
        }
    }

    /// Reports a repeated element that may occur only once.
    pub(super) fn check_single(&mut self, parent: &Element, path: &str, names: &[&str]) {
        for child in parent
            .children()
            .filter(|child| names.contains(&&*child.name))
            .skip(1)
        {
            self.report(
                Code::DuplicateKey,
                child.span.start,
                join(path, &child.name),
                format!("`<{}>` is given twice", child.name),
            )
            .suggest("keep one of the two");
        }
    }

    fn extra(&self, element: &Element, path: &str) -> Extra {
        Extra {
            path: path.replace('.', "/"),
            content: self
                .text
                .get(element.inner.clone())
                .unwrap_or_default()
                .trim()
                .to_owned(),
            place: self.place(element.span.start),
        }
    }
}

pub(super) fn join(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

/// Splits a list at commas and blanks.
pub(super) fn split_list(text: &str) -> Vec<String> {
    text.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}
