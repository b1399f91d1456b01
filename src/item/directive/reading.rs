//! What the readers of a directive's parts share: the source, the findings, what they kept aside.

use super::Extra;
use super::xml::{Attribute, Element, Text};
use crate::item::finding::{Finding, Findings};
use crate::item::place::{LineIndex, Place};
use crate::item::wording::{nearest, shown};
use crate::problem::Code;

/// One directive while it is read.
pub(super) struct Reading<'r> {
    /// The text of the file.
    pub(super) text: &'r str,
    /// Its lines.
    pub(super) lines: LineIndex<'r>,
    /// What is wrong so far.
    pub(super) findings: &'r mut Findings,
    /// Elements that only inform.
    pub(super) notes: Vec<Extra>,
    /// Elements that are not known.
    pub(super) unknown: Vec<Extra>,
    /// Texts in which placeholders may stand; checked when all inputs and steps are known.
    pub(super) uses: Vec<Use>,
    /// What placeholders may refer to at the current point.
    pub(super) scope: Scope,
}

/// What placeholders may refer to, apart from the inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// How many steps come before.
    pub(super) earlier: usize,
    /// What the element of a `foreach` is called.
    pub(super) element: Option<String>,
}

/// A text in which placeholders may stand.
#[derive(Debug)]
pub(super) struct Use {
    /// The text.
    pub(super) text: Text,
    /// What it is.
    pub(super) kind: UseKind,
    /// What its placeholders may refer to.
    pub(super) scope: Scope,
    /// The field it is in.
    pub(super) path: String,
}

/// What a text with placeholders is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UseKind {
    /// A template.
    Template,
    /// An expression.
    Expression,
    /// The expression of a hook.
    Hook,
    /// The list of a `foreach`.
    List,
}

impl Reading<'_> {
    /// The place of an offset in the file.
    pub(super) fn place(&self, offset: usize) -> Place {
        self.lines.place(offset)
    }

    /// Adds a finding at an offset in the file.
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

    /// Adds a finding about a required attribute or element that is not there.
    pub(super) fn missing(&mut self, element: &Element, path: &str, field: &str) -> &mut Finding {
        let path = join(path, field);
        let message = format!("{field} is required");
        let suggestion = format!("add {field}=\"…\" to `<{}>`", element.name);
        self.report(Code::MissingRequiredField, element.span.start, path, message).suggest(suggestion)
    }

    /// Reads a singular text: the trimmed content of an element.
    ///
    /// Elements in it are kept as they are written; other than `template` and the like, they were
    /// probably meant as text and are warned about.
    pub(super) fn text(&mut self, element: &Element, path: &str) -> Text {
        for child in element.children().filter(|child| !child.is_opaque()) {
            self.report(
                Code::UnescapedMarkup,
                child.span.start,
                path,
                format!("`<{}>` inside `<{}>` is taken as text", shown(&child.name), element.name),
            )
            .suggest("wrap it in CDATA: <![CDATA[ … ]]>");
        }
        element.flat_text(self.text)
    }

    /// Warns about attributes other than the known ones.
    pub(super) fn check_attributes(&mut self, element: &Element, path: &str, known: &[&str]) {
        for attribute in &element.attributes {
            if !known.contains(&&*attribute.name) {
                self.unknown_attribute(element, attribute, path, known);
            }
        }
    }

    /// Warns about an attribute.
    pub(super) fn unknown_attribute(
        &mut self,
        element: &Element,
        attribute: &Attribute,
        path: &str,
        known: &[&str],
    ) -> &mut Finding {
        let message = format!("`{}` is not a known attribute of `<{}>`", shown(&attribute.name), element.name);
        let suggestion = match nearest(&attribute.name, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if known.is_empty() => "remove it".to_owned(),
            None => format!("known are: {}", known.join(", ")),
        };
        let path = join(path, &shown(&attribute.name));
        self.report(Code::UnknownField, attribute.offset, path, message).suggest(suggestion)
    }

    /// Keeps an element that is not known, with a warning.
    pub(super) fn keep_unknown(&mut self, element: &Element, path: &str, known: &[&str]) {
        let path = join(path, &shown(&element.name));
        let message = format!("`<{}>` is not known; it is kept and has no effect", shown(&element.name));
        let suggestion = match nearest(&element.name, known.iter().copied()) {
            Some(meant) => format!("did you mean `<{meant}>`?"),
            None => "remove it, or move it into the Markdown around the directive".to_owned(),
        };
        self.report(Code::UnknownElement, element.span.start, &path, message).suggest(suggestion);
        let extra = self.extra(element, &path);
        self.unknown.push(extra);
    }

    /// Keeps an element that only informs.
    pub(super) fn keep_note(&mut self, element: &Element, path: &str) {
        let extra = self.extra(element, &join(path, &element.name));
        self.notes.push(extra);
    }

    /// Notes a text in which placeholders may stand.
    pub(super) fn uses(&mut self, text: &Text, kind: UseKind, path: impl Into<String>) {
        if kind != UseKind::Template || text.value.contains('{') {
            self.uses.push(Use { text: text.clone(), kind, scope: self.scope.clone(), path: path.into() });
        }
    }

    /// Reports an element that may occur once and occurs again.
    pub(super) fn check_single(&mut self, parent: &Element, path: &str, names: &[&str]) {
        for child in parent.children().filter(|child| names.contains(&&*child.name)).skip(1) {
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
            content: self.text.get(element.inner.clone()).unwrap_or_default().trim().to_owned(),
            place: self.place(element.span.start),
        }
    }
}

/// The path of a field in a field.
pub(super) fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The words of a list that is separated by commas or blanks.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
