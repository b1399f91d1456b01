//! Errors of calls, as agents see them: `{error, code, item_type, message, suggestion}`.

use super::hints::for_agents;
use serde_json::{Map, Value, json};

use crate::audit::reference::ReferenceError;
use crate::error::Error;
use crate::item::store::ItemKind;
use crate::journal::summary::{RunStatus, RunSummary};
use crate::problem::{Code, Explain, Hint, HintCall, Problem, hint};
use crate::run::error::RunError;
use crate::run::error_titles::ErrorTitle;

/// The error of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolFailure {
    /// Short, stable title.
    pub(crate) title: ErrorTitle,
    pub(crate) problem: Box<Problem>,
    /// The kind of item.
    pub(crate) item_type: Option<ItemKind>,
    /// Further fields, such as the tool.
    pub(crate) more: Box<Map<String, Value>>,
}

impl ToolFailure {
    /// A failure without an error type.
    pub(crate) fn new(title: ErrorTitle, code: Code, message: impl Into<String>) -> Self {
        Self::titled(title, Problem::new(code, message))
    }

    /// An invalid argument.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorTitle::InvalidArgument, Code::InvalidArgument, message)
    }

    /// An internal error.
    pub(crate) fn internal(err: &dyn std::error::Error) -> Self {
        let hint = hint![
            "this is a bug in piton; ",
            HintCall::Status(None),
            " and ",
            HintCall::Log,
            " show what was done"
        ];
        Self::new(ErrorTitle::Internal, Code::Internal, err.to_string()).with_suggestion(hint)
    }

    /// The failure of a run.
    pub(crate) fn of_run(error: &Problem) -> Self {
        Self::titled(ErrorTitle::of(error.code, None), error.clone())
    }

    fn titled(title: ErrorTitle, problem: Problem) -> Self {
        Self {
            title,
            problem: Box::new(problem),
            item_type: None,
            more: Box::default(),
        }
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn with_suggestion(mut self, suggestion: impl Into<Hint>) -> Self {
        self.problem.hint = Some(suggestion.into());
        self
    }

    /// Sets the item kind, if there is none.
    #[must_use]
    pub(crate) fn about(mut self, kind: ItemKind) -> Self {
        if self.item_type.is_none() {
            self.item_type = Some(kind);
            if self.title == ErrorTitle::NotFound(None) {
                self.title = ErrorTitle::NotFound(Some(kind));
            }
        }
        self
    }

    /// The failure of a started run, with its summary.
    pub(crate) fn of_summary(summary: &RunSummary) -> Self {
        let failure = match (&summary.error, summary.status) {
            (Some(error), _) => Self::of_run(error),
            (None, RunStatus::Cancelled) => Self::new(
                ErrorTitle::Cancelled,
                Code::Interrupted,
                "the run was interrupted and rolled back",
            ),
            (None, _) => Self::new(
                ErrorTitle::ExecutionFailed,
                Code::Unfinished,
                "the run was not finished",
            ),
        };
        failure
            .with("run_id", summary.run_id.to_string())
            .with("run", json!(summary))
    }

    /// Adds a field.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Adds `action` and `status` if they are missing.
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

    /// The answer for clients.
    pub(crate) fn into_value(self) -> Value {
        let mut value = Map::new();
        value.insert("error".to_owned(), self.title.to_string().into());
        value.insert("code".to_owned(), self.problem.code.as_str().into());
        value.insert(
            "item_type".to_owned(),
            self.item_type.map(|kind| kind.to_string()).into(),
        );
        value.insert("message".to_owned(), self.problem.message().into());
        value.insert(
            "suggestion".to_owned(),
            self.problem.hint.as_ref().map(for_agents).into(),
        );
        value.extend(*self.more);
        Value::Object(value)
    }
}

impl<E: Into<Error>> From<E> for ToolFailure {
    fn from(err: E) -> Self {
        let err: Error = err.into();
        let title = match &err {
            Error::Run(err) if is_unknown_run(err) => ErrorTitle::RunNotFound,
            err => ErrorTitle::of(err.code(), None),
        };
        let failure = Self::titled(title, Problem::of(&err));
        match err.findings() {
            [] => failure,
            findings => failure.with("findings", json!(findings)),
        }
    }
}

fn is_unknown_run(err: &RunError) -> bool {
    matches!(
        err,
        RunError::Reference(ReferenceError::Unknown(_) | ReferenceError::NotOurs(_))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::store::LookupError;

    #[test]
    fn the_title_of_a_missing_item_names_its_kind() {
        let lookup = LookupError::NotFound {
            kind: ItemKind::Knowledge,
            id: "facts".parse().unwrap(),
            similar: None,
            instead: None,
        };
        let failure = ToolFailure::from(lookup).about(ItemKind::Knowledge);
        let value = failure.into_value();
        assert_eq!(
            (&value["error"], &value["item_type"]),
            (&json!("Knowledge not found"), &json!("knowledge"))
        );
        assert_eq!(value["message"], "knowledge `facts` does not exist");
        let run = ToolFailure::from(RunError::Reference(ReferenceError::Unknown(
            "01k9".to_owned(),
        )));
        assert_eq!(
            run.about(ItemKind::Directive).title,
            ErrorTitle::RunNotFound
        );
    }
}
