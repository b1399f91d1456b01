//! What a run would do, without doing it: every step with its resolved call, its permissions and how each is enforced.
//!
//! What only a run can know, such as the result of an earlier step, is shown as it is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::course::authority;
use super::pin::{GIT_CHECKPOINT, Pinned};
use super::{DirectiveRequest, Prepared};
use crate::context::Context;
use crate::item::directive::{CheckpointMode, Directive, Limit, OnFailure, Param, Retry, Step, StepAction};
use crate::item::finding::{Finding, Strength};
use crate::item::store::{ItemKind, ItemStore};
use crate::item::template::{Reference, Template};
use crate::journal::RunId;
use crate::policy::{self, WriteRules};
use crate::problem::Problem;
use crate::run::agent::AgentCommands;
use crate::run::error::RunError;
use crate::run::tool::{self, ToolPlan, ToolRequest};
use crate::run::values::{self, EnvironmentProblem, Scope};
use crate::validation::forecast;

/// How deep sub-directives are shown.
const MAX_DEPTH: usize = 16;

/// What a run would do.
#[derive(Debug, Serialize)]
pub struct Preview {
    /// The directive, as `id@version`.
    pub directive: String,
    /// What it is for; may be empty.
    pub description: String,
    /// When changes are checkpointed.
    pub mode: CheckpointMode,
    /// What follows a failure, where the directive says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// What it is given, defaults included.
    pub inputs: Map<String, Value>,
    /// Where it stops.
    pub limits: Vec<Limit>,
    /// What it would do, in order.
    pub steps: Vec<PlannedStep>,
    /// What would run beside the steps.
    pub hooks: Vec<PlannedHook>,
    /// What is missing or wrong in all that the run can reach; an error stops it for sure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Whether the run is sure to be denied something or to fail.
    #[serde(skip)]
    pub worst: Worst,
}

/// The worst that can be known before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worst {
    /// Nothing.
    #[default]
    Nothing,
    /// A step would fail.
    Failure,
    /// A step would be denied.
    Denial,
}

/// One step of a plan.
#[derive(Debug, Serialize)]
pub struct PlannedStep {
    /// Its full name.
    pub name: String,
    /// What it does: `tool`, `directive`, `checkpoint`, `item`, `human` or `prose`.
    pub kind: &'static str,
    /// What it is about: a tool, a directive, an instruction, a question.
    pub what: String,
    /// What it is for; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Runs only when this holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether that is known not to hold: the step is skipped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// Runs once for each of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreach: Option<String>,
    /// The elements of that list, where they are known; the rest is shown for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<Vec<Value>>,
    /// How often a failure is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long it may take, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// What follows a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// What it is given: values where they are known, texts as they are written where not.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// The message of its commit, where it gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What a person decides: `human-verify`, `decision` or `human-action`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// What has to hold afterwards, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The programs that would do it, one after the other; none when it waits for somebody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Which files work in words may change, as globs with whose they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub may_write: Vec<String>,
    /// The call, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<ToolPlan>,
    /// Whether only the run knows which tool or directive this is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub decided_at_run_time: bool,
    /// Values that are known only when it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<String>,
    /// Why it would fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
    /// Where the directive that it runs stops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// The steps of the directive that it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PlannedStep>,
    /// The hooks of the directive that it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<PlannedHook>,
}

/// A directive that would run beside the steps.
#[derive(Debug, Serialize)]
pub struct PlannedHook {
    /// Runs when this holds.
    pub when: String,
    /// The directive.
    pub directive: String,
    /// What it is given, as it is written.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// What it would do.
    pub steps: Vec<PlannedStep>,
}

/// Works out what a run would do. Writes nothing.
pub fn preview(ctx: &Context, request: &DirectiveRequest, prepared: Prepared) -> Preview {
    let Prepared { store, mut pinned, root, mode, agents } = prepared;
    let inputs = pinned.inputs.clone();
    let (label, directive) = (root.label.clone(), Arc::clone(&root.directive));
    let (worst, skipped) = (Worst::Nothing, BTreeSet::new());
    let mut planner =
        Planner { ctx, request, store: &store, pinned: &mut pinned, agents: &agents, worst, is_certain: true, skipped };
    let mut callers = vec![Arc::clone(&directive)];
    let given = Given { inputs: inputs.clone(), unknown: Vec::new() };
    let steps = planner.steps(&mut callers, "", &given);
    let hooks = planner.hooks(&mut callers, "");
    let found = store.find(ItemKind::Directive, &request.id).ok();
    let forecast = found.map(|root| forecast::of_run(&store, root, &planner.skipped)).unwrap_or_default();
    let foreseen = match () {
        () if forecast.is_denied() => Worst::Denial,
        () if forecast.is_invalid() => Worst::Failure,
        () => Worst::Nothing,
    };
    Preview {
        directive: label,
        description: directive.description.clone(),
        mode,
        on_failure: directive.git_checkpoint.on_failure,
        inputs,
        limits: directive.limits.clone(),
        steps,
        hooks,
        findings: forecast.findings,
        worst: planner.worst.max(foreseen),
    }
}

/// Why a run cannot begin, with everything else that would stop it: what is wrong is found at once, not one by one.
pub fn explained(ctx: &Context, request: &DirectiveRequest, first: RunError) -> RunError {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let Ok(root) = store.find(ItemKind::Directive, &request.id) else { return first };
    let mut findings = forecast::of_run(&store, root, &BTreeSet::new()).findings;
    findings.extend(first.findings().iter().filter(|found| !findings.contains(found)).cloned().collect::<Vec<_>>());
    if findings.is_empty() { first } else { RunError::Foreseen { first: Box::new(first), findings } }
}

struct Planner<'p> {
    ctx: &'p Context,
    request: &'p DirectiveRequest,
    store: &'p ItemStore,
    pinned: &'p mut Pinned,
    agents: &'p AgentCommands,
    worst: Worst,
    /// Whether what is planned now runs in any case: not as a hook, nor below a condition that is not known yet.
    is_certain: bool,
    /// The steps of the outermost directive that are known not to run.
    skipped: BTreeSet<String>,
}

/// What a directive would be given.
#[derive(Clone, Default)]
struct Given {
    inputs: Map<String, Value>,
    /// The inputs that only a run knows.
    unknown: Vec<String>,
}

/// What is known when a step is planned.
#[derive(Clone, Copy)]
struct Known<'k> {
    given: &'k Given,
    element: Option<(&'k str, &'k Value)>,
    callers: &'k [Arc<Directive>],
}

impl Planner<'_> {
    fn steps(&mut self, callers: &mut Vec<Arc<Directive>>, above: &str, given: &Given) -> Vec<PlannedStep> {
        let Some(directive) = callers.last().cloned() else { return Vec::new() };
        directive.steps.iter().map(|step| self.step(callers, above, given, step)).collect()
    }

    fn hooks(&mut self, callers: &mut Vec<Arc<Directive>>, above: &str) -> Vec<PlannedHook> {
        let Some(directive) = callers.last().cloned() else { return Vec::new() };
        let mut planned = Vec::new();
        for hook in &directive.hooks {
            let name = below(above, &format!("hook:{}", hook.directive));
            let written = |param: &Param| (param.name.clone(), Value::String(param.value.clone()));
            let mut steps = Vec::new();
            if callers.len() < MAX_DEPTH
                && let Ok(found) = self.pinned.find(self.ctx, self.store, &hook.directive)
            {
                // Its inputs may speak of the step that it runs beside.
                let inputs = Map::new();
                let given = Given { inputs, unknown: hook.inputs.iter().map(|it| it.name.clone()).collect() };
                let given = with_defaults(given, &found.directive);
                callers.push(found.directive);
                let outer = std::mem::replace(&mut self.is_certain, false);
                steps = self.steps(callers, &name, &given);
                self.is_certain = outer;
                callers.pop();
            }
            planned.push(PlannedHook {
                when: hook.when.clone(),
                directive: hook.directive.clone(),
                inputs: hook.inputs.iter().map(written).collect(),
                steps,
            });
        }
        planned
    }

    fn step(&mut self, callers: &mut Vec<Arc<Directive>>, above: &str, given: &Given, step: &Step) -> PlannedStep {
        let name = below(above, &step.name);
        let around = callers.clone();
        let outside = Known { given, element: None, callers: &around };
        let elements = step.foreach.as_ref().and_then(|list| {
            let elements = self.with_scope(outside, |scope| values::elements(list, scope)).ok();
            elements.filter(|_| Self::later([list.as_str()], outside).is_empty())
        });
        let element_name = step.element.as_deref().unwrap_or("item");
        let element = elements.as_ref().and_then(|elements| elements.first()).map(|value| (element_name, value));
        let mut given = given.clone();
        if step.foreach.is_some() && element.is_none() {
            given.unknown.push(element_name.to_owned());
        }
        let known = Known { given: &given, element, callers: &around };
        let (kind, what, params): (_, _, &[Param]) = match &step.action {
            StepAction::Tool { item_id, params, .. } => ("tool", item_id, params),
            StepAction::Directive { item_id, params } => ("directive", item_id, params),
            StepAction::Checkpoint { operation, .. } => ("checkpoint", operation, &[]),
            StepAction::Item { verb, params } => ("item", verb, params),
            StepAction::Human { question, .. } => ("human", question, &[]),
            StepAction::Prose { instruction, .. } => ("prose", instruction, &[]),
        };
        let texts = std::iter::once(what.as_str()).chain(params.iter().map(|param| param.value.as_str()));
        let mut planned = PlannedStep {
            name,
            kind,
            what: self.text(known, what),
            description: step.description.clone(),
            when: step.when.clone(),
            skipped: false,
            foreach: step.foreach.clone(),
            retry: step.retry,
            timeout: step.timeout,
            on_failure: step.on_failure,
            parameters: tool::told_parameters(&self.parameters(known, params)),
            message: None,
            gate: None,
            checks: step.verification.iter().map(|check| self.text(known, check)).collect(),
            agents: Vec::new(),
            may_write: Vec::new(),
            call: None,
            decided_at_run_time: false,
            later: Self::later(texts, known),
            error: None,
            limits: Vec::new(),
            steps: Vec::new(),
            hooks: Vec::new(),
            elements: None,
        };
        let outer = self.is_certain;
        match step.when.as_deref().map(|when| self.decided(known, when)) {
            Some(Some(false)) => {
                planned.skipped = true;
                if callers.len() == 1 {
                    self.skipped.insert(step.name.clone());
                }
                planned.elements = elements;
                return planned;
            }
            Some(None) => self.is_certain = false,
            Some(Some(true)) | None => {}
        }
        if let StepAction::Tool { item_id, .. } | StepAction::Directive { item_id, .. } = &step.action {
            planned.decided_at_run_time = !Self::later([item_id.as_str()], known).is_empty();
        }
        match &step.action {
            StepAction::Tool { item_id, command, params } => {
                self.tool(&mut planned, known, item_id, command.as_deref(), params);
            }
            StepAction::Directive { item_id, params } if item_id != GIT_CHECKPOINT => {
                self.directive(&mut planned, callers, known, item_id, params);
            }
            StepAction::Checkpoint { message, .. } => {
                let message = message.as_ref().map(|text| self.text(known, text));
                planned.message = message.or_else(|| self.request.options.message.clone());
            }
            StepAction::Human { gate, .. } => planned.gate = Some(gate.clone()),
            StepAction::Prose { .. } => {
                let model = callers.last().and_then(|directive| directive.model.as_ref());
                planned.agents = self.agents.for_model(model).iter().map(|it| it.text().to_owned()).collect();
                planned.may_write = WriteRules::for_directives(&authority(callers)).globs();
            }
            StepAction::Item { .. } | StepAction::Directive { .. } => {}
        }
        self.is_certain = outer;
        planned.elements = elements;
        planned
    }

    fn tool(&mut self, planned: &mut PlannedStep, known: Known<'_>, id: &str, command: Option<&str>, params: &[Param]) {
        if !planned.later.is_empty() {
            // With texts as they are written the call is an example; what is wrong with it says nothing.
            let parameters = self.parameters(known, params);
            let example = self.call(known.callers, &planned.what, command, parameters, Vec::new());
            planned.call = example.ok().filter(|call| call.denials.is_empty());
            return;
        }
        let filled = self
            .with_scope(known, |scope| Ok((values::fill_text(id, scope)?, super::act::split(params, scope)?)))
            .map_err(RunError::from);
        let called =
            filled.and_then(|(id, (parameters, words))| self.call(known.callers, &id, command, parameters, words));
        match called {
            Ok(call) => {
                if !call.denials.is_empty() && self.is_certain {
                    self.worst = Worst::Denial;
                }
                planned.call = Some(call);
            }
            Err(err) => self.fails(planned, &err),
        }
    }

    fn directive(
        &mut self,
        planned: &mut PlannedStep,
        callers: &mut Vec<Arc<Directive>>,
        known: Known<'_>,
        id: &str,
        params: &[Param],
    ) {
        if callers.len() >= MAX_DEPTH || id.contains('{') {
            return;
        }
        match self.pinned.find(self.ctx, self.store, id) {
            Ok(found) => {
                let given = self.given(known, params, &found.directive);
                planned.limits.clone_from(&found.directive.limits);
                callers.push(found.directive);
                planned.steps = self.steps(callers, &planned.name, &given);
                planned.hooks = self.hooks(callers, &planned.name);
                callers.pop();
            }
            Err(err) => self.fails(planned, &err),
        }
    }

    fn fails(&mut self, planned: &mut PlannedStep, err: &RunError) {
        let goes_on = planned.on_failure == Some(OnFailure::Continue) && !err.is_denied();
        if self.is_certain && !goes_on {
            self.worst = self.worst.max(if err.is_denied() { Worst::Denial } else { Worst::Failure });
        }
        planned.error = Some(Problem::of(err));
    }

    fn call(
        &self,
        callers: &[Arc<Directive>],
        id: &str,
        command: Option<&str>,
        parameters: Map<String, Value>,
        words: Vec<String>,
    ) -> Result<ToolPlan, RunError> {
        let options = &self.request.options;
        let request = ToolRequest {
            id: id.to_owned(),
            command: command.map(str::to_owned),
            parameters,
            words,
            strict: options.strict,
            allow_degraded: options.allow_degraded,
        };
        tool::plan(self.ctx, self.store, &request, &authority(callers))
    }

    /// The inputs of a sub-directive, as far as they are known, with its defaults.
    fn given(&self, known: Known<'_>, params: &[Param], directive: &Directive) -> Given {
        let mut given = Given::default();
        for param in params {
            let value = self.with_scope(known, |scope| values::fill(&param.value, scope)).ok();
            match value.filter(|_| Self::later([param.value.as_str()], known).is_empty()) {
                Some(value) => {
                    given.inputs.insert(param.name.clone(), value);
                }
                None => given.unknown.push(param.name.clone()),
            }
        }
        with_defaults(given, directive)
    }

    /// Whether a condition holds, where that is known already.
    fn decided(&self, known: Known<'_>, when: &str) -> Option<bool> {
        if !Self::later([when], known).is_empty() {
            return None;
        }
        self.with_scope(known, |scope| values::holds(when, scope)).ok()
    }

    /// A text with what is known filled in, or as it is written.
    fn text(&self, known: Known<'_>, text: &str) -> String {
        match self.value(known, text) {
            Value::String(text) => text,
            value => value.to_string(),
        }
    }

    fn parameters(&self, known: Known<'_>, params: &[Param]) -> Map<String, Value> {
        params.iter().map(|param| (param.name.clone(), self.value(known, &param.value))).collect()
    }

    /// A value, or its text as it is written: where only a run knows it, and where it is a variable of the
    /// environment, which may be a secret.
    fn value(&self, known: Known<'_>, text: &str) -> Value {
        let names_variable = Template::parse(text)
            .is_ok_and(|template| template.placeholders().any(|it| matches!(it.reference, Reference::Env { .. })));
        let is_shown = !names_variable && Self::later([text], known).is_empty();
        let filled = self.with_scope(known, |scope| values::fill(text, scope)).ok();
        filled.filter(|_| is_shown).unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// The placeholders of some texts that only a run can fill in.
    fn later<'t>(texts: impl IntoIterator<Item = &'t str>, known: Known<'_>) -> Vec<String> {
        let mut found = Vec::new();
        for text in texts {
            let Ok(template) = Template::parse(text) else { continue };
            for placeholder in template.placeholders() {
                let is_late = match &placeholder.reference {
                    Reference::Step { .. } | Reference::RunId => true,
                    Reference::Input { name, .. } => {
                        let is_element = known.element.is_some_and(|(element, _)| element == name);
                        !is_element && known.given.unknown.contains(name)
                    }
                    Reference::Env { .. } => false,
                };
                let written = text.get(placeholder.range.clone()).unwrap_or_default().to_owned();
                if is_late && !found.contains(&written) {
                    found.push(written);
                }
            }
        }
        found
    }

    fn with_scope<T>(
        &self,
        known: Known<'_>,
        evaluate: impl FnOnce(&Scope<'_>) -> Result<T, values::ValueError>,
    ) -> Result<T, values::ValueError> {
        let environment = |name: &str| {
            if !policy::may_see_variable(&authority(known.callers), name) {
                return Err(EnvironmentProblem::NotGranted);
            }
            let value = self.ctx.environment.find(name).ok_or(EnvironmentProblem::NotSet)?;
            Ok(value.to_string_lossy().into_owned())
        };
        evaluate(&Scope {
            inputs: &known.given.inputs,
            element: known.element,
            results: &Map::new(),
            run: RunId::new(self.ctx.now(), 0),
            environment: &environment,
            variables: None,
        })
    }
}

/// Inputs that nobody gives have their defaults.
fn with_defaults(mut given: Given, directive: &Directive) -> Given {
    for input in &directive.inputs {
        if let Some(default) = input.default.as_ref().filter(|_| !given.unknown.contains(&input.name)) {
            given.inputs.entry(input.name.clone()).or_insert_with(|| default.clone());
        }
    }
    given
}

fn below(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}
