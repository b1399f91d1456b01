//! The values that are known before a run: inputs, elements of literal lists, and what follows from
//! them.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::DirectivePlanner;
use crate::item::directive::{Directive, Param};
use crate::item::template::{Reference, Template};
use crate::journal::RunId;
use crate::policy;
use crate::run::directive::scope::authority;
use crate::values::{self, EnvironmentProblem, ValueScope};

/// The inputs of a directive.
#[derive(Clone, Default)]
pub(super) struct GivenInputs {
    pub(super) inputs: Map<String, Value>,
    /// The inputs that are only known at run time.
    pub(super) unknown: Vec<String>,
}

/// The values that are known when a step is planned.
#[derive(Clone, Copy)]
pub(super) struct PlanScope<'k> {
    pub(super) given: &'k GivenInputs,
    pub(super) element: Option<(&'k str, &'k Value)>,
    pub(super) callers: &'k [Arc<Directive>],
}

impl DirectivePlanner<'_> {
    /// The inputs of a nested directive, as far as they are known, with its defaults.
    pub(super) fn given(
        &self,
        known: PlanScope<'_>,
        params: &[Param],
        directive: &Directive,
    ) -> GivenInputs {
        let mut given = GivenInputs::default();
        for param in params {
            let value = self
                .with_scope(known, |scope| values::fill(&param.value, scope))
                .ok();
            match value.filter(|_| Self::later([param.value.as_str()], known).is_empty()) {
                Some(value) => {
                    given.inputs.insert(param.name.clone(), value);
                }
                None => given.unknown.push(param.name.clone()),
            }
        }
        with_defaults(given, directive)
    }

    /// Whether a condition holds, if that is already known.
    pub(super) fn decided(&self, known: PlanScope<'_>, when: &str) -> Option<bool> {
        if !Self::later([when], known).is_empty() {
            return None;
        }
        self.with_scope(known, |scope| values::holds(when, scope))
            .ok()
    }

    /// A text with the known values filled in, or as written.
    pub(super) fn text(&self, known: PlanScope<'_>, text: &str) -> String {
        match self.value(known, text) {
            Value::String(text) => text,
            value => value.to_string(),
        }
    }

    pub(super) fn parameters(&self, known: PlanScope<'_>, params: &[Param]) -> Map<String, Value> {
        params
            .iter()
            .map(|param| (param.name.clone(), self.value(known, &param.value)))
            .collect()
    }

    /// A value, or its text as written if only a run knows it or if it is an environment variable,
    /// which may be a secret.
    pub(super) fn value(&self, known: PlanScope<'_>, text: &str) -> Value {
        let names_variable = Template::parse(text).is_ok_and(|template| {
            template
                .placeholders()
                .any(|it| matches!(it.reference, Reference::Env { .. }))
        });
        let is_shown = !names_variable && Self::later([text], known).is_empty();
        let filled = self
            .with_scope(known, |scope| values::fill(text, scope))
            .ok();
        filled
            .filter(|_| is_shown)
            .unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// The placeholders that only a run can fill in.
    pub(super) fn later<'t>(
        texts: impl IntoIterator<Item = &'t str>,
        known: PlanScope<'_>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for text in texts {
            let Ok(template) = Template::parse(text) else {
                continue;
            };
            for placeholder in template.placeholders() {
                let is_late = match &placeholder.reference {
                    Reference::Step { .. } | Reference::RunId => true,
                    Reference::Input { name, .. } => {
                        let is_element = known.element.is_some_and(|(element, _)| element == name);
                        !is_element && known.given.unknown.contains(name)
                    }
                    Reference::Env { .. } => false,
                };
                let written = text
                    .get(placeholder.range.clone())
                    .unwrap_or_default()
                    .to_owned();
                if is_late && !found.contains(&written) {
                    found.push(written);
                }
            }
        }
        found
    }

    pub(super) fn with_scope<T>(
        &self,
        known: PlanScope<'_>,
        evaluate: impl FnOnce(&ValueScope<'_>) -> Result<T, values::ValueError>,
    ) -> Result<T, values::ValueError> {
        let environment = |name: &str| {
            if !policy::may_see_variable(&authority(known.callers), name) {
                return Err(EnvironmentProblem::NotGranted);
            }
            let value = self
                .ctx
                .environment
                .find(name)
                .ok_or(EnvironmentProblem::NotSet)?;
            Ok(value.to_string_lossy().into_owned())
        };
        evaluate(&ValueScope {
            inputs: &known.given.inputs,
            element: known.element,
            results: &Map::new(),
            run: RunId::new(self.ctx.now(), 0),
            environment: &environment,
            variables: None,
        })
    }
}

/// Adds the defaults of missing inputs.
pub(super) fn with_defaults(mut given: GivenInputs, directive: &Directive) -> GivenInputs {
    for input in &directive.inputs {
        if let Some(default) = input
            .default
            .as_ref()
            .filter(|_| !given.unknown.contains(&input.name))
        {
            given
                .inputs
                .entry(input.name.clone())
                .or_insert_with(|| default.clone());
        }
    }
    given
}
