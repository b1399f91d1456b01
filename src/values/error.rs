//! Why a template or expression has no value.

use crate::item::position::Position;
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::{Code, Explain, Hint};

/// How many names a hint lists.
const MAX_NAMES: usize = 10;

/// A template or expression without a value, and the position in its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ValueError {
    /// The byte offset of the placeholder or name.
    pub offset: usize,
    pub problem: ValueProblem,
    /// The text, if known.
    pub context: Option<Box<SourceText>>,
}

/// A text in a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    pub text: String,
    /// Where it begins, or where its parent begins, if known.
    pub near: Option<Position>,
}

/// The problem of a template or expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueProblem {
    #[error("{message}")]
    Malformed {
        message: String,
        /// A correction.
        suggestion: Option<String>,
    },
    /// An input that is undeclared or missing.
    #[error("input `{}` has no value", shown(.name))]
    NoInput {
        name: String,
        /// The inputs with a value.
        known: Vec<String>,
    },
    /// A step without a result.
    #[error("step `{}` has no result", shown(.name))]
    NoResult {
        name: String,
        /// The steps with a result.
        known: Vec<String>,
    },
    /// A path that does not exist.
    #[error("{} has no `{}`: it is {}", shown(.whole), shown(.word), .there)]
    NoPath {
        /// The value as it is written, e.g. `step:collect.files`.
        whole: String,
        /// The missing part of the path.
        word: String,
        /// What exists instead.
        there: ValueShape,
    },
    /// A path into the result of a step that did not run.
    #[error("step `{}` was skipped, so its result has no `{}`", shown(.name), shown(.word))]
    Skipped { name: String, word: String },
    /// An environment variable that may not be read or is not set.
    #[error("the environment variable `{}` {problem}", shown(.name))]
    Environment {
        name: String,
        problem: EnvironmentProblem,
    },
    /// Values that have no order.
    #[error("{left} and {right} cannot be compared by order")]
    Unordered {
        /// The type on the left.
        left: &'static str,
        /// The type on the right.
        right: &'static str,
    },
    /// A value that cannot contain others.
    #[error("nothing can be `in` {found}")]
    NoContainer {
        /// The type on the right.
        found: &'static str,
    },
    /// A text can only contain texts.
    #[error("{found} cannot be `in` a text")]
    NoPart {
        /// The type on the left.
        found: &'static str,
    },
    /// The value of a `foreach` is not a list.
    #[error("the value of `foreach` is {found}, not a list")]
    NoList {
        /// Its type.
        found: &'static str,
    },
    /// The text of a `foreach` is neither a placeholder nor a list.
    #[error("`{}` is neither one placeholder nor a JSON list", shown(.text))]
    NoListLiteral { text: String },
}

/// The value at which a path ends too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueShape {
    /// An object with these keys.
    Object(Vec<String>),
    /// A list of this length.
    List(usize),
    /// A value without parts, by its type.
    Plain(&'static str),
}

/// Why an environment variable cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentProblem {
    /// No grant allows reading it.
    #[error("is not granted")]
    NotGranted,
    #[error("is not set")]
    NotSet,
    /// It is not valid UTF-8.
    #[error("is not valid UTF-8")]
    NotText,
}

impl std::fmt::Display for ValueShape {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object(keys) if keys.is_empty() => formatter.write_str("an empty object"),
            Self::Object(keys) => write!(formatter, "an object with {}", listed(keys)),
            Self::List(0) => formatter.write_str("an empty list"),
            Self::List(length) => write!(formatter, "a list of {length}"),
            Self::Plain(kind) => formatter.write_str(kind),
        }
    }
}

impl Explain for ValueError {
    fn code(&self) -> Code {
        match &self.problem {
            ValueProblem::Malformed { .. } => Code::InvalidTemplate,
            ValueProblem::NoInput { .. }
            | ValueProblem::NoResult { .. }
            | ValueProblem::NoPath { .. }
            | ValueProblem::Skipped { .. } => Code::UndefinedName,
            ValueProblem::Environment {
                problem: EnvironmentProblem::NotGranted,
                ..
            } => Code::PermissionDenied,
            ValueProblem::Environment { .. } => Code::EnvironmentMissing,
            ValueProblem::Unordered { .. }
            | ValueProblem::NoContainer { .. }
            | ValueProblem::NoPart { .. }
            | ValueProblem::NoList { .. }
            | ValueProblem::NoListLiteral { .. } => Code::InvalidValue,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match &self.problem {
            ValueProblem::Malformed { suggestion, .. } => suggestion.as_deref().map(Hint::from),
            ValueProblem::NoInput { name, known } => {
                let otherwise =
                    format!("give it, or write `{{input:{name}?}}` or `{{input:{name}:default}}`");
                Some(
                    did_you_mean(nearest(name, known.iter().map(String::as_str)), &otherwise)
                        .into(),
                )
            }
            ValueProblem::NoResult { name, known } => {
                let otherwise = if known.is_empty() {
                    "no step has a result yet".to_owned()
                } else {
                    format!("steps with a result are {}", listed(known))
                };
                Some(
                    did_you_mean(nearest(name, known.iter().map(String::as_str)), &otherwise)
                        .into(),
                )
            }
            ValueProblem::NoPath { word, there, .. } => match there {
                ValueShape::Object(keys) => nearest(word, keys.iter().map(String::as_str))
                    .map(|meant| format!("did you mean `{}`?", shown(meant)).into()),
                ValueShape::List(length) => length
                    .checked_sub(1)
                    .map(|last| format!("use an index from 0 to {last}").into()),
                ValueShape::Plain(_) => None,
            },
            ValueProblem::Skipped { name, .. } => {
                Some(format!("give this step the same `when` as `{}`", shown(name)).into())
            }
            ValueProblem::Environment { name, problem } => Some(match problem {
                EnvironmentProblem::NotGranted => {
                    format!("add <env vars=\"{}\"/> to <permissions>", shown(name)).into()
                }
                EnvironmentProblem::NotSet | EnvironmentProblem::NotText => {
                    format!("set `{}` and run again", shown(name)).into()
                }
            }),
            ValueProblem::Unordered { .. } => {
                Some("compare two numbers or two texts, or use `==`".into())
            }
            ValueProblem::NoContainer { .. } => {
                Some("use a list, an object or a text on the right of `in`".into())
            }
            ValueProblem::NoPart { .. } => Some("quote it, or compare with a list".into()),
            ValueProblem::NoList { .. } | ValueProblem::NoListLiteral { .. } => {
                Some("write e.g. foreach=\"{step:collect.files}\"".into())
            }
        }
    }
}

impl ValueError {
    pub(super) fn new(offset: usize, problem: ValueProblem) -> Self {
        Self {
            offset,
            problem,
            context: None,
        }
    }

    /// Adds the evaluated text.
    pub(super) fn within(mut self, text: &str) -> Self {
        self.context.get_or_insert_with(|| {
            Box::new(SourceText {
                text: text.to_owned(),
                near: None,
            })
        });
        self
    }

    /// Adds the position of the text in its directive.
    #[must_use]
    pub fn near(mut self, place: Position) -> Self {
        if let Some(context) = &mut self.context {
            context.near.get_or_insert(place);
        }
        self
    }

    /// Whether a permission is missing.
    pub fn is_denied(&self) -> bool {
        matches!(
            &self.problem,
            ValueProblem::Environment {
                problem: EnvironmentProblem::NotGranted,
                ..
            }
        )
    }
}

fn listed(names: &[String]) -> String {
    let mut shown_names: Vec<String> = names
        .iter()
        .take(MAX_NAMES)
        .map(|name| format!("`{}`", shown(name)))
        .collect();
    if names.len() > MAX_NAMES {
        shown_names.push("…".to_owned());
    }
    shown_names.join(", ")
}
