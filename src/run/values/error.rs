//! Why a template or expression has no value.

use crate::item::place::Place;
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::{Code, Explain, Hint};

/// How many names a hint lists.
const MAX_NAMES: usize = 10;

/// A template or expression that has no value, and where in its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ValueError {
    /// The byte of the text at which the placeholder or name begins.
    pub offset: usize,
    /// What is wrong.
    pub problem: ValueProblem,
    /// The text, where it is known.
    pub context: Option<Box<Written>>,
}

/// A text as its directive has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The text.
    pub text: String,
    /// Where it begins, or what it belongs to does, as far as that is known.
    pub near: Option<Place>,
}

/// What is wrong with a template or expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueProblem {
    /// It cannot be parsed.
    #[error("{message}")]
    Malformed {
        /// What is wrong.
        message: String,
        /// What to write instead.
        suggestion: Option<String>,
    },
    /// An input that is not declared or was not given.
    #[error("input `{}` has no value", shown(.name))]
    NoInput {
        /// The input.
        name: String,
        /// The inputs that have one.
        known: Vec<String>,
    },
    /// A step without a result.
    #[error("step `{}` has no result", shown(.name))]
    NoResult {
        /// The step.
        name: String,
        /// The steps that have one.
        known: Vec<String>,
    },
    /// A path that leads to nothing.
    #[error("{} has no `{}`: it is {}", shown(.whole), shown(.word), .there)]
    NoPath {
        /// The value as it is written, e.g. `step:collect.files`.
        whole: String,
        /// The part of the path that is not there.
        word: String,
        /// What is there.
        there: There,
    },
    /// A path into the result of a step that did not run.
    #[error("step `{}` was skipped, so its result has no `{}`", shown(.name), shown(.word))]
    Skipped {
        /// The step.
        name: String,
        /// The path.
        word: String,
    },
    /// A variable of the environment that may not be read or is not there.
    #[error("the environment variable `{}` {problem}", shown(.name))]
    Environment {
        /// The variable.
        name: String,
        /// Why it cannot be used.
        problem: EnvironmentProblem,
    },
    /// Values that have no order.
    #[error("{left} and {right} cannot be compared by order")]
    Unordered {
        /// What stands on the left.
        left: &'static str,
        /// What stands on the right.
        right: &'static str,
    },
    /// Something that contains nothing.
    #[error("nothing can be `in` {found}")]
    NoContainer {
        /// What stands on the right.
        found: &'static str,
    },
    /// A text can only contain texts.
    #[error("{found} cannot be `in` a text")]
    NoPart {
        /// What stands on the left.
        found: &'static str,
    },
    /// The value of a `foreach` is not a list.
    #[error("the value to go through is {found}, not a list")]
    NoList {
        /// What it is.
        found: &'static str,
    },
    /// The text of a `foreach` is neither a placeholder nor a list.
    #[error("`{}` is neither one placeholder nor a JSON list", shown(.text))]
    NoListLiteral {
        /// The text.
        text: String,
    },
}

/// What is where a path ends too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum There {
    /// An object with these keys.
    Object(Vec<String>),
    /// A list of this length.
    List(usize),
    /// Something without parts.
    Plain(&'static str),
}

/// Why a variable of the environment cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentProblem {
    /// No grant allows to read it.
    #[error("is not granted")]
    NotGranted,
    /// It is not set.
    #[error("is not set")]
    NotSet,
    /// It is not text.
    #[error("is not valid UTF-8")]
    NotText,
}

impl std::fmt::Display for There {
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
            ValueProblem::Environment { problem: EnvironmentProblem::NotGranted, .. } => Code::PermissionDenied,
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
                let otherwise = format!("give it, or write `{{input:{name}?}}` or `{{input:{name}:default}}`");
                Some(did_you_mean(nearest(name, known.iter().map(String::as_str)), &otherwise).into())
            }
            ValueProblem::NoResult { name, known } => {
                let otherwise = if known.is_empty() {
                    "no step has a result yet".to_owned()
                } else {
                    format!("steps with a result are {}", listed(known))
                };
                Some(did_you_mean(nearest(name, known.iter().map(String::as_str)), &otherwise).into())
            }
            ValueProblem::NoPath { word, there, .. } => match there {
                There::Object(keys) => nearest(word, keys.iter().map(String::as_str))
                    .map(|meant| format!("did you mean `{}`?", shown(meant)).into()),
                There::List(length) => {
                    length.checked_sub(1).map(|last| format!("use an index from 0 to {last}").into())
                }
                There::Plain(_) => None,
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
            ValueProblem::Unordered { .. } => Some("compare two numbers or two texts, or use `==`".into()),
            ValueProblem::NoContainer { .. } => Some("use a list, an object or a text on the right of `in`".into()),
            ValueProblem::NoPart { .. } => Some("quote it, or compare with a list".into()),
            ValueProblem::NoList { .. } | ValueProblem::NoListLiteral { .. } => {
                Some("write e.g. foreach=\"{step:collect.files}\"".into())
            }
        }
    }
}

impl ValueError {
    pub(super) fn new(offset: usize, problem: ValueProblem) -> Self {
        Self { offset, problem, context: None }
    }

    /// The same, in the text that was evaluated.
    pub(super) fn within(mut self, text: &str) -> Self {
        self.context.get_or_insert_with(|| Box::new(Written { text: text.to_owned(), near: None }));
        self
    }

    /// The same, in a text that stands at a place of its directive.
    #[must_use]
    pub fn near(mut self, place: Place) -> Self {
        if let Some(context) = &mut self.context {
            context.near.get_or_insert(place);
        }
        self
    }

    /// Whether a permission is missing.
    pub fn is_denied(&self) -> bool {
        matches!(&self.problem, ValueProblem::Environment { problem: EnvironmentProblem::NotGranted, .. })
    }
}

fn listed(names: &[String]) -> String {
    let mut shown_names: Vec<String> = names.iter().take(MAX_NAMES).map(|name| format!("`{}`", shown(name))).collect();
    if names.len() > MAX_NAMES {
        shown_names.push("…".to_owned());
    }
    shown_names.join(", ")
}
