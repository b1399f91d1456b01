//! What a run would do: every step with its resolved call, its permissions and how each is
//! enforced.
//!
//! Values that only a run can know, such as the result of an earlier step, are shown as written.

mod known;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use known::{GivenInputs, PlanScope, with_defaults};

use super::pin::{GIT_CHECKPOINT, Pinned};
use super::scope::authority;
use super::{DirectiveRequest, PreparedRun};
use crate::context::Context;
use crate::item::directive::{
    CheckpointMode, Directive, Limit, OnFailure, Param, Retry, Step, StepAction,
};
use crate::item::finding::{Finding, Strength};
use crate::item::store::{ItemKind, ItemStore};
use crate::policy::{Enforcement, WriteRules};
use crate::problem::Problem;
use crate::run::agent::AgentCommands;
use crate::run::error::RunError;
use crate::run::tool::{self, ToolPlan, ToolRequest};
use crate::validation::forecast;
use crate::values;
use crate::workspace::open_repository;

/// The maximum depth of nested directives.
const MAX_DEPTH: usize = 16;

#[derive(Debug, Serialize)]
pub struct RunPreview {
    /// The directive, as `id@version`.
    pub directive: String,
    /// The description; may be empty.
    pub description: String,
    pub mode: CheckpointMode,
    /// The failure policy of the directive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// The inputs, including defaults.
    pub inputs: Map<String, Value>,
    pub limits: Vec<Limit>,
    pub steps: Vec<PlannedStep>,
    pub hooks: Vec<PlannedHook>,
    /// All problems in the items that the run can reach; an error will certainly stop the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// How the grants of manual steps to write files are enforced.
    #[serde(skip)]
    pub writes: Enforcement,
    /// Whether the run will certainly be denied or fail.
    #[serde(skip)]
    pub worst: Worst,
}

/// The worst outcome that is certain before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worst {
    #[default]
    Nothing,
    /// A step would fail.
    Failure,
    /// A step would be denied.
    Denial,
}

/// One step of a plan.
#[derive(Debug, Default, Serialize)]
pub struct PlannedStep {
    pub name: String,
    /// What it does: `tool`, `directive`, `checkpoint`, `item`, `human` or `prose`.
    pub kind: &'static str,
    /// Its subject: a tool, a directive, an instruction or a question.
    pub what: String,
    /// The description; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The condition under which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether the condition is known to be false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// The list of a `foreach`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreach: Option<String>,
    /// The elements of that list, if known; the other fields show the first element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The time limit in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// The parameters: values if known, otherwise texts as written.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// The message of its commit, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The gate: `human-verify`, `decision` or `human-action`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// What has to be true afterwards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The agent commands that would do it, in order; empty if it waits for a person or an agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The files that a manual step may change, as globs with the directive that sets them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub may_write: Vec<String>,
    /// The call, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<ToolPlan>,
    /// Whether the tool or directive is only known at run time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub decided_at_run_time: bool,
    /// Values that are only known at run time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
    /// The limits of its nested directive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// The steps of its nested directive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PlannedStep>,
    /// The hooks of its nested directive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<PlannedHook>,
}

/// A hook: a directive that would run beside the steps.
#[derive(Debug, Serialize)]
pub struct PlannedHook {
    /// The condition under which it runs.
    pub when: String,
    pub directive: String,
    /// The inputs as written.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    pub steps: Vec<PlannedStep>,
}

/// Computes what a run would do. Writes nothing.
pub fn preview(ctx: &Context, request: &DirectiveRequest, prepared: PreparedRun) -> RunPreview {
    let PreparedRun {
        store,
        mut pinned,
        root,
        mode,
        agents,
    } = prepared;
    let inputs = pinned.inputs.clone();
    let (label, directive) = (root.label.clone(), Arc::clone(&root.directive));
    let (worst, skipped) = (Worst::Nothing, BTreeSet::new());
    // Without snapshots, changes are not compared with the grants.
    let writes = if mode == CheckpointMode::Disabled || open_repository(ctx).is_err() {
        Enforcement::DeclaredOnly
    } else {
        Enforcement::AfterTheFact
    };
    let mut planner = DirectivePlanner {
        ctx,
        request,
        store: &store,
        pinned: &mut pinned,
        agents: &agents,
        writes,
        worst,
        is_certain: true,
        skipped,
    };
    let mut callers = vec![Arc::clone(&directive)];
    let given = GivenInputs {
        inputs: inputs.clone(),
        unknown: Vec::new(),
    };
    let steps = planner.steps(&mut callers, "", &given);
    let hooks = planner.hooks(&mut callers, "");
    let found = store.find(ItemKind::Directive, &request.id).ok();
    let forecast = found
        .map(|root| forecast::of_run(&store, root, &planner.skipped))
        .unwrap_or_default();
    let foreseen = match () {
        () if forecast.is_denied() => Worst::Denial,
        () if forecast.is_invalid() => Worst::Failure,
        () => Worst::Nothing,
    };
    RunPreview {
        directive: label,
        description: directive.description.clone(),
        mode,
        on_failure: directive.git_checkpoint.on_failure,
        inputs,
        limits: directive.limits.clone(),
        steps,
        hooks,
        findings: forecast.findings,
        writes,
        worst: planner.worst.max(foreseen),
    }
}

/// Why a run cannot begin, with all other problems, so that the user can fix them at once.
pub fn explained(ctx: &Context, request: &DirectiveRequest, first: RunError) -> RunError {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let Ok(root) = store.find(ItemKind::Directive, &request.id) else {
        return first;
    };
    let mut findings = forecast::of_run(&store, root, &BTreeSet::new()).findings;
    findings.extend(
        first
            .findings()
            .iter()
            .filter(|found| !findings.contains(found))
            .cloned()
            .collect::<Vec<_>>(),
    );
    if findings.is_empty() {
        first
    } else {
        RunError::Foreseen {
            first: Box::new(first),
            findings,
        }
    }
}

struct DirectivePlanner<'p> {
    ctx: &'p Context,
    request: &'p DirectiveRequest,
    store: &'p ItemStore,
    pinned: &'p mut Pinned,
    agents: &'p AgentCommands,
    writes: Enforcement,
    worst: Worst,
    /// Whether the current part certainly runs: not in a hook, and not under an unknown condition.
    is_certain: bool,
    /// The steps of the outermost directive that certainly do not run.
    skipped: BTreeSet<String>,
}

impl DirectivePlanner<'_> {
    fn steps(
        &mut self,
        callers: &mut Vec<Arc<Directive>>,
        above: &str,
        given: &GivenInputs,
    ) -> Vec<PlannedStep> {
        let Some(directive) = callers.last().cloned() else {
            return Vec::new();
        };
        directive
            .steps
            .iter()
            .map(|step| self.step(callers, above, given, step))
            .collect()
    }

    fn hooks(&mut self, callers: &mut Vec<Arc<Directive>>, above: &str) -> Vec<PlannedHook> {
        let Some(directive) = callers.last().cloned() else {
            return Vec::new();
        };
        let mut planned = Vec::new();
        for hook in &directive.hooks {
            let name = below(above, &format!("hook:{}", hook.directive));
            let written = |param: &Param| (param.name.clone(), Value::String(param.value.clone()));
            let mut steps = Vec::new();
            if callers.len() < MAX_DEPTH
                && let Ok(found) = self.pinned.find(self.ctx, self.store, &hook.directive)
            {
                // Its inputs may refer to the step that it runs beside.
                let inputs = Map::new();
                let given = GivenInputs {
                    inputs,
                    unknown: hook.inputs.iter().map(|it| it.name.clone()).collect(),
                };
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

    fn step(
        &mut self,
        callers: &mut Vec<Arc<Directive>>,
        above: &str,
        given: &GivenInputs,
        step: &Step,
    ) -> PlannedStep {
        let name = below(above, &step.name);
        let around = callers.clone();
        let outside = PlanScope {
            given,
            element: None,
            callers: &around,
        };
        let elements = step.foreach.as_ref().and_then(|list| {
            let elements = self
                .with_scope(outside, |scope| values::elements(list, scope))
                .ok();
            elements.filter(|_| Self::later([list.as_str()], outside).is_empty())
        });
        let element_name = step.element.as_deref().unwrap_or("item");
        let element = elements
            .as_ref()
            .and_then(|elements| elements.first())
            .map(|value| (element_name, value));
        let mut given = given.clone();
        if step.foreach.is_some() && element.is_none() {
            given.unknown.push(element_name.to_owned());
        }
        let known = PlanScope {
            given: &given,
            element,
            callers: &around,
        };
        let (kind, what, params): (_, _, &[Param]) = match &step.action {
            StepAction::Tool {
                item_id, params, ..
            } => ("tool", item_id, params),
            StepAction::Directive { item_id, params } => ("directive", item_id, params),
            StepAction::Checkpoint { operation, .. } => ("checkpoint", operation, &[]),
            StepAction::Item { verb, params } => ("item", verb, params),
            StepAction::Human { question, .. } => ("human", question, &[]),
            StepAction::Prose { instruction, .. } => ("prose", instruction, &[]),
        };
        let texts =
            std::iter::once(what.as_str()).chain(params.iter().map(|param| param.value.as_str()));
        let mut planned = PlannedStep {
            name,
            kind,
            what: self.text(known, what),
            description: step.description.clone(),
            when: step.when.clone(),
            foreach: step.foreach.clone(),
            retry: step.retry,
            timeout: step.timeout,
            on_failure: step.on_failure,
            parameters: tool::journal_parameters(&self.parameters(known, params)),
            checks: step
                .verification
                .iter()
                .map(|check| self.text(known, check))
                .collect(),
            later: Self::later(texts, known),
            ..PlannedStep::default()
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
        if let StepAction::Tool { item_id, .. } | StepAction::Directive { item_id, .. } =
            &step.action
        {
            planned.decided_at_run_time = !Self::later([item_id.as_str()], known).is_empty();
        }
        self.action(&mut planned, callers, known, &step.action);
        self.is_certain = outer;
        planned.elements = elements;
        planned
    }

    /// Adds what the action of a step would do.
    fn action(
        &mut self,
        planned: &mut PlannedStep,
        callers: &mut Vec<Arc<Directive>>,
        known: PlanScope<'_>,
        action: &StepAction,
    ) {
        match action {
            StepAction::Tool {
                item_id,
                command,
                params,
            } => {
                self.tool(planned, known, item_id, command.as_deref(), params);
            }
            StepAction::Directive { item_id, params } if item_id != GIT_CHECKPOINT => {
                self.directive(planned, callers, known, item_id, params);
            }
            StepAction::Checkpoint { message, .. } => {
                let message = message.as_ref().map(|text| self.text(known, text));
                planned.message = message.or_else(|| self.request.options.message.clone());
            }
            StepAction::Human { gate, .. } => planned.gate = Some(gate.clone()),
            StepAction::Prose { .. } => {
                let model = callers
                    .last()
                    .and_then(|directive| directive.model.as_ref());
                planned.agents = self
                    .agents
                    .for_model(model)
                    .iter()
                    .map(|it| it.text().to_owned())
                    .collect();
                planned.may_write = WriteRules::for_directives(&authority(callers)).globs();
            }
            StepAction::Item { .. } | StepAction::Directive { .. } => {}
        }
    }

    fn tool(
        &mut self,
        planned: &mut PlannedStep,
        known: PlanScope<'_>,
        id: &str,
        command: Option<&str>,
        params: &[Param],
    ) {
        if !planned.later.is_empty() {
            // With unresolved texts the call is only an example; ignore its errors.
            let parameters = self.parameters(known, params);
            let example = self.call(
                known.callers,
                &planned.what,
                command,
                parameters,
                Vec::new(),
            );
            planned.call = example.ok().filter(|call| call.denials.is_empty());
            return;
        }
        let filled = self
            .with_scope(known, |scope| {
                Ok((
                    values::fill_text(id, scope)?,
                    super::execute_step::split(params, scope)?,
                ))
            })
            .map_err(RunError::from);
        let called = filled.and_then(|(id, (parameters, words))| {
            self.call(known.callers, &id, command, parameters, words)
        });
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
        known: PlanScope<'_>,
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
            self.worst = self.worst.max(if err.is_denied() {
                Worst::Denial
            } else {
                Worst::Failure
            });
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
        let mut plan = tool::plan(self.ctx, self.store, &request, &authority(callers))?;
        if self.writes == Enforcement::DeclaredOnly {
            tool::forgo_checks(&mut plan.permissions);
        }
        Ok(plan)
    }
}

fn below(above: &str, name: &str) -> String {
    if above.is_empty() {
        name.to_owned()
    } else {
        format!("{above}/{name}")
    }
}
