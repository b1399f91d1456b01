//! Placeholders in text: `{input:name}`, `{step:name.path}`, `{run:id}`, `{env:VAR}`.
//!
//! [`Template::parse`] splits a text into literal parts and placeholders with their byte offsets; a
//! run fills them in once and never scans the result again. Braces without one of the four prefixes
//! are literal. Inside a step with `foreach … as x`, `{input:x}` is the element.

use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// In order; no two texts in a row.
    pub parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    Text(String),
    Placeholder(Placeholder),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// In bytes, braces included.
    pub range: Range<usize>,
    pub reference: Reference,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// `{input:name}`, or the element of the `foreach` around it.
    Input {
        name: String,
        /// The path into its value; usually empty.
        path: Vec<String>,
        missing: MissingInput,
    },
    /// `{step:name.path}`: the result of an earlier step.
    Step {
        name: String,
        /// The path into its result; empty means all of it.
        path: Vec<String>,
    },
    /// `{run:id}`.
    RunId,
    /// `{env:VAR}`.
    Env { name: String },
}

/// What happens if an input was not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingInput {
    /// `{input:name}`: it is an error.
    Error,
    /// `{input:name?}`: the placeholder becomes empty.
    Empty,
    /// `{input:name:text}`: the text is used.
    Default(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidPlaceholder {
    pub offset: usize,
    pub message: String,
}

/// In bytes.
const MAX_LENGTH: usize = 512;
const PREFIXES: [&str; 4] = ["{input:", "{step:", "{run:", "{env:"];

impl Template {
    /// Splits a text; reports every malformed placeholder.
    pub fn parse(text: &str) -> Result<Self, Vec<InvalidPlaceholder>> {
        let mut parts = Vec::new();
        let mut errors = Vec::new();
        let mut literal = 0;
        let mut at = 0;
        while let Some(brace) = text.get(at..).and_then(|rest| rest.find('{')) {
            let start = at + brace;
            match placeholder_at(text, start) {
                None => at = start + 1,
                Some(Err(message)) => {
                    errors.push(InvalidPlaceholder {
                        offset: start,
                        message,
                    });
                    at = start + 1;
                }
                Some(Ok(placeholder)) => {
                    push_text(&mut parts, text.get(literal..start));
                    at = placeholder.range.end;
                    literal = at;
                    parts.push(TemplatePart::Placeholder(placeholder));
                }
            }
        }
        push_text(&mut parts, text.get(literal..));
        if errors.is_empty() {
            Ok(Self { parts })
        } else {
            Err(errors)
        }
    }

    pub fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Placeholder(placeholder) => Some(placeholder),
            TemplatePart::Text(_) => None,
        })
    }

    /// The placeholder, if the text is exactly one; its value then keeps its JSON type.
    pub fn single(&self) -> Option<&Placeholder> {
        match self.parts.as_slice() {
            [TemplatePart::Placeholder(placeholder)] => Some(placeholder),
            _ => None,
        }
    }
}

/// Reads the placeholder at a brace; `None` if it is a literal brace.
pub(super) fn placeholder_at(text: &str, start: usize) -> Option<Result<Placeholder, String>> {
    let rest = text.get(start..)?;
    let prefix = PREFIXES.iter().find(|prefix| rest.starts_with(**prefix))?;
    // Bounded, so that many starts without an end stay cheap.
    let stop = rest
        .bytes()
        .take(MAX_LENGTH)
        .position(|byte| matches!(byte, b'}' | b'\n'));
    let Some(end) = stop.filter(|end| rest.as_bytes().get(*end) == Some(&b'}')) else {
        return Some(Err(format!("the placeholder `{prefix}…` is never closed")));
    };
    let inside = rest.get(prefix.len()..end)?;
    let range = start..start + end + 1;
    Some(reference(prefix, inside).map(|reference| Placeholder { range, reference }))
}

fn reference(prefix: &str, inside: &str) -> Result<Reference, String> {
    match prefix {
        "{input:" => {
            let (written, missing) = match inside.split_once(':') {
                Some((name, default)) => (name, MissingInput::Default(default.to_owned())),
                None => match inside.strip_suffix('?') {
                    Some(name) => (name, MissingInput::Empty),
                    None => (inside, MissingInput::Error),
                },
            };
            let (name, path) =
                dotted(written).ok_or_else(|| malformed(prefix, inside, "{input:name}"))?;
            Ok(Reference::Input {
                name,
                path,
                missing,
            })
        }
        "{step:" => {
            let (name, path) =
                dotted(inside).ok_or_else(|| malformed(prefix, inside, "{step:name.path}"))?;
            Ok(Reference::Step { name, path })
        }
        "{run:" if inside == "id" => Ok(Reference::RunId),
        "{run:" => Err(malformed(prefix, inside, "{run:id}")),
        _ if is_word(inside) && !inside.contains('-') => Ok(Reference::Env {
            name: inside.to_owned(),
        }),
        _ => Err(malformed(prefix, inside, "{env:VAR}")),
    }
}

fn dotted(text: &str) -> Option<(String, Vec<String>)> {
    let mut words = text.split('.');
    let name = words.next().filter(|word| is_word(word))?.to_owned();
    let path: Option<Vec<String>> = words
        .map(|word| is_word(word).then(|| word.to_owned()))
        .collect();
    Some((name, path?))
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

fn malformed(prefix: &str, inside: &str, form: &str) -> String {
    let shown: String = inside.chars().take(40).collect();
    format!(
        "`{prefix}{}}}` is not of the form `{form}`",
        shown.escape_debug()
    )
}

fn push_text(parts: &mut Vec<TemplatePart>, text: Option<&str>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        parts.push(TemplatePart::Text(text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn input(range: Range<usize>, name: &str, missing: MissingInput) -> TemplatePart {
        let reference = Reference::Input {
            name: name.to_owned(),
            path: vec![],
            missing,
        };
        TemplatePart::Placeholder(Placeholder { range, reference })
    }

    #[test]
    fn malformed_placeholders_are_all_reported_where_they_begin() {
        let errors =
            Template::parse("{input:} {step:a b} {run:now} {env:A-B} {input:x").unwrap_err();
        assert_eq!(
            errors
                .iter()
                .map(|error| (error.offset, error.to_string()))
                .collect::<Vec<_>>(),
            [
                (0, "`{input:}` is not of the form `{input:name}`".to_owned()),
                (
                    9,
                    "`{step:a b}` is not of the form `{step:name.path}`".to_owned()
                ),
                (20, "`{run:now}` is not of the form `{run:id}`".to_owned()),
                (30, "`{env:A-B}` is not of the form `{env:VAR}`".to_owned()),
                (40, "the placeholder `{input:…` is never closed".to_owned()),
            ]
        );
    }

    #[test]
    fn a_placeholder_does_not_reach_over_a_line_break() {
        assert_eq!(Template::parse("{input:a\n}").unwrap_err()[0].offset, 0);
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!(
            Template::parse("v{input:a}{input:b?}-{input:c:x y:z}")
                .unwrap()
                .parts,
            [
                TemplatePart::Text("v".into()),
                input(1..10, "a", MissingInput::Error),
                input(10..20, "b", MissingInput::Empty),
                TemplatePart::Text("-".into()),
                input(21..36, "c", MissingInput::Default("x y:z".into())),
            ]
        );
        let others = Template::parse("{step:collect.files.0}{run:id}{env:HOME}").unwrap();
        assert_eq!(
            others
                .placeholders()
                .map(|it| it.reference.clone())
                .collect::<Vec<_>>(),
            [
                Reference::Step {
                    name: "collect".into(),
                    path: vec!["files".into(), "0".into()]
                },
                Reference::RunId,
                Reference::Env {
                    name: "HOME".into()
                },
            ]
        );
    }

    #[test]
    fn other_braces_are_text() {
        for text in [
            "{generated_message}",
            "{}",
            "${x}",
            "{\"a\": 1}",
            "{inputs:a}",
            "{",
        ] {
            assert_eq!(
                Template::parse(text).unwrap().parts,
                [TemplatePart::Text(text.into())]
            );
        }
    }

    #[test]
    fn a_lone_placeholder_is_told_from_one_in_text() {
        assert!(Template::parse("{input:a}").unwrap().single().is_some());
        assert!(Template::parse(" {input:a}").unwrap().single().is_none());
    }

    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "{",
            "}",
            "{input:",
            "{step:",
            "{run:id}",
            "{env:",
            "{input:a}",
            "{input:b.c?}",
            "{step:s.x.0}",
            "a",
            ".",
            ":",
            "?",
            "-",
            " ",
            "\n",
            "ü",
            "{{",
            "}}",
            "$",
        ]);
        prop::collection::vec((piece, prop_oneof![9 => Just(1), 1 => 2..600_usize]), 0..30)
            .prop_map(|pieces| {
                pieces
                    .into_iter()
                    .map(|(piece, times)| piece.repeat(times))
                    .collect()
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn the_parts_are_the_text_again(text in pieces()) {
            match Template::parse(&text) {
                Ok(template) => {
                    let mut again = String::new();
                    for part in &template.parts {
                        match part {
                            TemplatePart::Text(literal) => again.push_str(literal),
                            TemplatePart::Placeholder(placeholder) => {
                                prop_assert_eq!(placeholder.range.start, again.len());
                                again.push_str(&text[placeholder.range.clone()]);
                            }
                        }
                    }
                    prop_assert_eq!(again, text);
                }
                Err(errors) => {
                    prop_assert!(!errors.is_empty());
                    let at_braces = errors.iter().all(|error| text.as_bytes()[error.offset] == b'{');
                    prop_assert!(at_braces, "{:?}", errors);
                }
            }
        }
    }
}
