//! Why a call could not be done: `{error, item_type, message, suggestion}`, in words that agents know.

use super::hints::for_agents;
use serde_json::{Map, Value, json};

use crate::audit::reference::ReferenceError;
use crate::error::Error;
use crate::item::store::ItemKind;
use crate::journal::summary::{RunStatus, RunSummary};
use crate::problem::{Call, Code, Explain, Hint, Problem, hint};
use crate::run::error::RunError;

use crate::run::headline::headline;

/// Why a call could not be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    /// In few words, the same ones every time.
    pub(crate) error: String,
    /// What went wrong.
    pub(crate) problem: Box<Problem>,
    /// What the call was about.
    pub(crate) item_type: Option<ItemKind>,
    /// What else belongs to it, such as the tool that was called.
    pub(crate) more: Box<Map<String, Value>>,
}

impl Failure {
    /// A failure that no other error describes.
    pub(crate) fn new(error: &str, code: Code, message: impl Into<String>) -> Self {
        Self::titled(error, Problem::new(code, message))
    }

    /// An argument that cannot be meant.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new("Invalid argument", Code::InvalidArgument, message)
    }

    /// Something that cannot happen, and did.
    pub(crate) fn internal(err: &dyn std::error::Error) -> Self {
        let hint = hint!["this is a fault of piton; ", Call::Status(None), " and ", Call::Log, " say what was done"];
        Self::new("Internal error", Code::Internal, err.to_string()).with_suggestion(hint)
    }

    /// Why a run did not succeed.
    pub(crate) fn of_run(error: &Problem) -> Self {
        Self::titled(headline(error.code, None), error.clone())
    }

    fn titled(error: &str, problem: Problem) -> Self {
        Self { error: error.to_owned(), problem: Box::new(problem), item_type: None, more: Box::default() }
    }

    /// The same with a way out.
    #[must_use]
    pub(crate) fn with_suggestion(mut self, suggestion: impl Into<Hint>) -> Self {
        self.problem.hint = Some(suggestion.into());
        self
    }

    /// The same about a kind of items.
    #[must_use]
    pub(crate) fn about(mut self, kind: ItemKind) -> Self {
        if self.item_type.is_none() {
            self.item_type = Some(kind);
            // Only now it is known what was not found.
            if self.error == headline(self.problem.code, None) {
                headline(self.problem.code, Some(kind)).clone_into(&mut self.error);
            }
        }
        self
    }

    /// Why a run that was begun came to nothing, with what became of it.
    pub(crate) fn of_summary(summary: &RunSummary) -> Self {
        let failure = match (&summary.error, summary.status) {
            (Some(error), _) => Self::of_run(error),
            (None, RunStatus::Cancelled) => {
                Self::new("Cancelled", Code::Interrupted, "it was interrupted and put back")
            }
            (None, _) => Self::new("Execution failed", Code::Unfinished, "the run was not finished"),
        };
        failure.with("run_id", summary.run_id.to_string()).with("run", json!(summary))
    }

    /// The same with something else that belongs to it.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// The same with what every failed call says about itself, where it does not yet.
    #[must_use]
    pub(crate) fn of_call(mut self, action: &str) -> Self {
        let status = match self.problem.code {
            code if code.is_denial() => "denied",
            code if code.is_cancellation() => "cancelled",
            _ => "error",
        };
        for (name, value) in [("action", action), ("status", status)] {
            self.more.entry(name).or_insert_with(|| value.into());
        }
        self
    }

    /// What clients see.
    pub(crate) fn into_value(self) -> Value {
        let mut value = Map::new();
        value.insert("error".to_owned(), self.error.into());
        value.insert("code".to_owned(), self.problem.code.as_str().into());
        value.insert("item_type".to_owned(), self.item_type.map(|kind| kind.to_string()).into());
        value.insert("message".to_owned(), self.problem.message().into());
        value.insert("suggestion".to_owned(), self.problem.hint.as_ref().map(for_agents).into());
        value.extend(*self.more);
        Value::Object(value)
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(err: E) -> Self {
        let err: Error = err.into();
        let words = match &err {
            Error::Run(err) if is_unknown_run(err) => "Run not found",
            err => headline(err.code(), None),
        };
        let failure = Self::titled(words, Problem::of(&err));
        match err.findings() {
            [] => failure,
            // What is wrong in files, place by place.
            findings => failure.with("findings", json!(findings)),
        }
    }
}

fn is_unknown_run(err: &RunError) -> bool {
    matches!(err, RunError::Reference(ReferenceError::Unknown(_) | ReferenceError::NotOurs(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::store::LookupError;

    #[test]
    fn what_was_not_found_is_named_once_the_kind_is_known() {
        let lookup = LookupError::NotFound {
            kind: ItemKind::Knowledge,
            id: "facts".parse().unwrap(),
            similar: None,
            instead: None,
        };
        let failure = Failure::from(lookup).about(ItemKind::Knowledge);
        let value = failure.into_value();
        assert_eq!((&value["error"], &value["item_type"]), (&json!("Knowledge not found"), &json!("knowledge")));
        assert_eq!(value["message"], "knowledge `facts` does not exist");
        let run = Failure::from(RunError::Reference(ReferenceError::Unknown("01k9".to_owned())));
        assert_eq!(run.about(ItemKind::Directive).error, "Run not found");
    }
}
