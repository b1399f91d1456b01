//! The current step: its name, its callers, and the values that its texts refer to.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Run;
use super::state::DirectiveFrame;
use crate::item::directive::{Directive, Step};
use crate::item::wording::shown;
use crate::policy::{self, Authority, PolicyCaller};
use crate::problem::Problem;
use crate::run::error::RunError;
use crate::values::{EnvironmentProblem, ValueError, ValueScope};

impl Run<'_> {
    /// The full name of the current step.
    pub(super) fn position(&self) -> String {
        self.state()
            .and_then(|state| state.frames.last())
            .map(DirectiveFrame::position)
            .unwrap_or_default()
    }

    /// A copy of the current step.
    pub(super) fn step(&self) -> Option<Step> {
        self.state()
            .and_then(|state| state.turn())
            .map(|(_, step)| step.clone())
    }

    /// The directives that authorize a step, outermost first.
    pub(super) fn callers(&self) -> Vec<Arc<Directive>> {
        let frames = self
            .state()
            .map(|state| state.frames.as_slice())
            .unwrap_or_default();
        frames
            .iter()
            .map(|frame| Arc::clone(&frame.directive))
            .collect()
    }

    /// Evaluates something in the scope of the current step.
    pub(super) fn with_scope<T>(
        &self,
        variables: Option<&Map<String, Value>>,
        evaluate: impl FnOnce(&ValueScope<'_>) -> Result<T, ValueError>,
    ) -> Result<T, ValueError> {
        let (inputs, results) = (Map::new(), Map::new());
        let frame = self.state().and_then(|state| state.frames.last());
        let callers = self.callers();
        let authority = authority(&callers);
        let environment = |name: &str| {
            if !policy::may_see_variable(&authority, name) {
                return Err(EnvironmentProblem::NotGranted);
            }
            let value = self
                .session
                .recorder
                .ctx
                .environment
                .find(name)
                .ok_or(EnvironmentProblem::NotSet)?;
            let value = value.to_string_lossy().into_owned();
            self.revealed.borrow_mut().hide(name, &value);
            Ok(value)
        };
        evaluate(&ValueScope {
            inputs: frame.map_or(&inputs, |frame| &frame.inputs),
            element: frame.and_then(DirectiveFrame::element),
            results: frame.map_or(&results, |frame| &frame.results),
            run: self.session.run(),
            environment: &environment,
            variables,
        })
    }

    /// A text without the variables that the directive has named, for journals and commits.
    pub(super) fn redacted(&self, text: &str) -> String {
        self.revealed.borrow().removed(text)
    }

    /// A problem for a value that could not be evaluated: what it was for, and where it is written.
    pub(super) fn placed(&self, what: &str, err: ValueError) -> Problem {
        let place = self
            .origin(&err)
            .map(|it| format!(", at `{}:{}:{}`", it.file.display(), it.line, it.column))
            .unwrap_or_default();
        let error = Problem::of(&RunError::from(err));
        let message = format!("{what}: {}{place}", error.message());
        error.with_message(message)
    }

    /// The current step, for messages.
    pub(super) fn in_step(&self) -> String {
        format!("step `{}`", shown(&self.position()))
    }
}

/// Directives as an authority.
pub(super) fn authority(callers: &[Arc<Directive>]) -> Authority<'_> {
    Authority::Directives(
        callers
            .iter()
            .map(|it| PolicyCaller {
                name: it.name.as_str(),
                grants: &it.permissions,
            })
            .collect(),
    )
}
