//! Predicts what a run of a directive will be denied, without running anything.
//!
//! [`of_directive`] walks everything that a directive can reach (steps, sub-directives, hooks, the
//! tools of meta tools) and compares it with the directive's own grants. In a run every directive
//! on the way to a step has to allow it, so each is checked by itself. [`of_run`] checks every
//! directive that a run can reach. `piton validate` and `--dry-run` use the same walk. A step with
//! a `when`, and a hook, may not run at all, so a missing grant there is a warning.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::exec::invocation::Invocation;
use crate::exec::{CallEnvironment, CallRequest, Outline, outline, parameters, resolve_call};
use crate::item::directive::{Directive, Grant, OnFailure, Param, Step, StepAction};
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::id::ItemId;
use crate::item::params::ParameterText;
use crate::item::position::Position;
use crate::item::store::{Item, ItemKind, ItemStore};
use crate::item::template::{Reference, Template};
use crate::item::validate::{self, Unsigned};
use crate::policy::foresight::{Foreknown, foresee, is_about_calls, is_used};
use crate::policy::{self, Authority, Denial, PolicyCaller};
use crate::problem::Code;

/// The directive that piton implements itself.
const GIT_CHECKPOINT: &str = "git_checkpoint";
/// How deeply meta tools are followed. A deeper chain cannot run.
const MAX_META_DEPTH: usize = 8;

#[derive(Clone, Debug, Default)]
pub struct RunForecast {
    /// Missing grants and mistakes. An error means that the run certainly stops.
    pub findings: Vec<Finding>,
}

impl RunForecast {
    pub fn is_denied(&self) -> bool {
        self.errors()
            .any(|finding| finding.code == Code::MissingGrant)
    }

    pub fn is_invalid(&self) -> bool {
        self.errors().next().is_some()
    }

    fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
    }
}

/// Predicts a run: checks the file, the references and the grants of every directive it can reach.
///
/// `skipped` are the steps of the outermost directive that will not run.
pub fn of_run(store: &ItemStore, root: &Item, skipped: &BTreeSet<String>) -> RunForecast {
    let mut open = vec![(root, Certainty::Certain)];
    let mut seen: HashMap<PathBuf, Certainty> = HashMap::new();
    let mut findings: BTreeMap<PathBuf, Vec<Finding>> = BTreeMap::new();
    let none = BTreeSet::new();
    while let Some((item, certainty)) = open.pop() {
        let Some(directive) = item.as_directive() else {
            continue;
        };
        if seen
            .get(&item.file)
            .is_some_and(|before| *before >= certainty)
        {
            continue;
        }
        seen.insert(item.file.clone(), certainty);
        let is_root = item.file == root.file;
        let skipped = if is_root { skipped } else { &none };
        let mut found = of_directive(store, item, Strength::Lenient, skipped);
        found.extend(of_file(store, item));
        if certainty == Certainty::Possible {
            for finding in &mut found {
                finding.severity = Severity::Warning;
            }
        }
        findings.insert(item.file.clone(), found);
        for step in directive
            .steps
            .iter()
            .filter(|step| !skipped.contains(&step.name))
        {
            if let StepAction::Directive { item_id, .. } = &step.action
                && item_id != GIT_CHECKPOINT
                && let Ok(callee) = store.find(ItemKind::Directive, item_id)
            {
                open.push((callee, certainty.min(Certainty::of(step))));
            }
        }
        for hook in &directive.hooks {
            open.extend(
                store
                    .find(ItemKind::Directive, &hook.directive)
                    .map(|callee| (callee, Certainty::Possible)),
            );
        }
    }
    let (_, findings) = super::sorted(findings.into_values().flatten().collect());
    RunForecast { findings }
}

/// Mistakes in a directive's file and its references, as far as they stop a run.
fn of_file(store: &ItemStore, item: &Item) -> Vec<Finding> {
    let file = store.roots().display(&item.file);
    let mut found = Findings::new(&file, Strength::Lenient);
    validate::check(item, store, Unsigned::Warned, &mut found);
    let mut all = found.into_vec();
    all.extend(
        store
            .findings()
            .filter(|finding| finding.file == file)
            .cloned(),
    );
    for finding in &mut all {
        if finding.code == Code::UnknownItem {
            // Only a warning while a project is being written, but a run cannot start without it.
            finding.severity = Severity::Error;
        }
    }
    for (at, step) in item
        .as_directive()
        .iter()
        .flat_map(|directive| directive.steps.iter().enumerate())
    {
        // A step that may be skipped, or whose failure is ignored, does not stop the run for
        // certain.
        let may_pass = step.when.is_some() || step.on_failure == Some(OnFailure::Continue);
        let is_its = |finding: &&mut Finding| {
            finding.code == Code::InvalidParameter && finding.path == format!("process.step[{at}]")
        };
        all.iter_mut()
            .filter(|_| may_pass)
            .filter(is_its)
            .for_each(|finding| finding.severity = Severity::Warning);
    }
    let is_kept = |finding: &Finding| {
        finding.severity == Severity::Error || finding.code == Code::InvalidParameter
    };
    all.retain(|finding| is_kept(finding) && !validate::STAMPS.contains(&finding.code));
    all
}

/// Checks the grants of a directive against everything that it can reach.
pub fn of_directive(
    store: &ItemStore,
    item: &Item,
    strength: Strength,
    skipped: &BTreeSet<String>,
) -> Vec<Finding> {
    let Some(directive) = item.as_directive() else {
        return Vec::new();
    };
    let mut findings = Findings::new(&store.roots().display(&item.file), strength);
    let mut walk = ForecastWalk {
        store,
        found: ReachableUses::default(),
        seen: HashMap::new(),
        skipped,
        root: &item.file,
        via: None,
    };
    walk.directive(item, directive, Certainty::Certain, Inside::Run);
    let ReachableUses {
        uses,
        variables,
        cycle,
        is_open,
    } = walk.found;

    let caller = PolicyCaller {
        name: directive.name.as_str(),
        grants: &directive.permissions,
    };
    for used in &uses {
        let denials = foresee(caller, used.foreknown());
        if !denials.is_empty() {
            report(
                &denials,
                &used.place,
                &used.description(),
                used.certainty,
                &mut findings,
            );
        }
    }
    let authority = Authority::Directives(vec![caller]);
    for (name, place, certainty) in &variables {
        if !policy::may_see_variable(&authority, name) {
            let denial = policy::denied_variable(caller.name, name);
            report(
                &[denial],
                place,
                &place.description(),
                *certainty,
                &mut findings,
            );
        }
    }
    if let Some(via) = cycle {
        let message = format!(
            "directive `{}` calls itself endlessly: no step of the loop has a `when`",
            caller.name
        );
        findings
            .add(Code::DirectiveCycle, via.place, via.path, message)
            .suggest("give the step a `when` that ends it");
    }
    if !is_open {
        unused(directive, &uses, &variables, &mut findings);
    }
    findings.into_vec()
}

/// Whether something happens in every run; later is more certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    Possible,
    Certain,
}

impl Certainty {
    fn of(step: &Step) -> Self {
        if step.when.is_some() {
            Self::Possible
        } else {
            Self::Certain
        }
    }
}

/// Whether a directive runs as a hook. Hooks have no hooks of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Inside {
    Run,
    Hook,
}

/// A step or hook of the checked directive.
#[derive(Clone, Debug)]
struct Via {
    path: String,
    place: Position,
}

/// Where something is used: the step of the checked directive that leads there, and the nested step
/// itself.
#[derive(Clone, Debug)]
struct UsePlace {
    via: Via,
    step: String,
    directive: Option<ItemId>,
}

impl UsePlace {
    fn description(&self) -> String {
        match &self.directive {
            None => format!("step `{}`", self.step),
            Some(directive) => format!("step `{}` of directive `{directive}`", self.step),
        }
    }
}

/// A reachable tool call.
struct ToolUse {
    place: UsePlace,
    /// The meta tool that may make the call.
    within: Option<ItemId>,
    outline: Outline,
    invocation: Option<Invocation>,
    certainty: Certainty,
}

impl ToolUse {
    fn foreknown(&self) -> Foreknown<'_> {
        Foreknown {
            outline: &self.outline,
            invocation: self.invocation.as_ref(),
        }
    }

    fn description(&self) -> String {
        match &self.within {
            None => self.place.description(),
            Some(meta) => format!("the tool `{meta}` in {}", self.place.description()),
        }
    }
}

#[derive(Default)]
struct ReachableUses {
    uses: Vec<ToolUse>,
    /// Environment variables that templates name.
    variables: Vec<(String, UsePlace, Certainty)>,
    /// The step that leads back to the directive without any condition.
    cycle: Option<Via>,
    /// Whether any grant could be in use: manual work, and tools that are only known at run time.
    is_open: bool,
}

struct ForecastWalk<'w> {
    store: &'w ItemStore,
    found: ReachableUses,
    seen: HashMap<(PathBuf, Inside), Certainty>,
    skipped: &'w BTreeSet<String>,
    /// The file of the checked directive.
    root: &'w Path,
    /// The step or hook of the checked directive that is being followed.
    via: Option<Via>,
}

impl ForecastWalk<'_> {
    fn directive(
        &mut self,
        item: &Item,
        directive: &Directive,
        certainty: Certainty,
        inside: Inside,
    ) {
        let key = (item.file.clone(), inside);
        if self
            .seen
            .get(&key)
            .is_some_and(|before| *before >= certainty)
        {
            return;
        }
        self.seen.insert(key, certainty);
        let is_root = self.via.is_none();
        for (at, step) in directive.steps.iter().enumerate() {
            if is_root && self.skipped.contains(&step.name) {
                continue;
            }
            let own = Via {
                path: format!("process.step[{at}]"),
                place: step.place,
            };
            let via = self.via.clone().unwrap_or(own);
            let place = UsePlace {
                via,
                step: step.name.clone(),
                directive: (!is_root).then(|| directive.name.clone()),
            };
            self.step(step, place, certainty.min(Certainty::of(step)), inside);
        }
        if inside == Inside::Hook {
            return;
        }
        for hook in &directive.hooks {
            let own = Via {
                path: "metadata.hooks.hook".to_owned(),
                place: hook.place,
            };
            let via = self.via.clone().unwrap_or(own);
            self.enter(&hook.directive, via, Certainty::Possible, Inside::Hook);
        }
    }

    /// Follows a step or hook into another directive.
    fn enter(&mut self, id: &str, via: Via, certainty: Certainty, inside: Inside) {
        match self.store.find(ItemKind::Directive, id) {
            Ok(callee) => {
                let Some(directive) = callee.as_directive() else {
                    return;
                };
                let outer = self.via.replace(via);
                self.directive(callee, directive, certainty, inside);
                self.via = outer;
            }
            Err(_) => self.found.is_open = true,
        }
    }

    fn step(&mut self, step: &Step, place: UsePlace, certainty: Certainty, inside: Inside) {
        self.variables(step, &place, certainty);
        match &step.action {
            StepAction::Tool {
                item_id,
                command,
                params,
            } => {
                self.tool(
                    item_id,
                    command.as_deref(),
                    Some(params),
                    &place,
                    certainty,
                    &mut Vec::new(),
                );
            }
            StepAction::Directive { item_id, .. } if item_id == GIT_CHECKPOINT => {}
            StepAction::Directive { item_id, .. } => {
                if self.leads_back(item_id, step, certainty) {
                    self.found.cycle.get_or_insert(place.via.clone());
                }
                self.enter(item_id, place.via, certainty, inside);
            }
            // A person or an agent doing manual work may need any of the grants.
            StepAction::Prose { .. } | StepAction::Item { .. } => self.found.is_open = true,
            StepAction::Human { gate, .. } => self.found.is_open |= gate == "human-action",
            StepAction::Checkpoint { .. } => {}
        }
    }

    /// Whether a step that always runs enters the checked directive again.
    fn leads_back(&self, id: &str, step: &Step, certainty: Certainty) -> bool {
        let callee = self.store.find(ItemKind::Directive, id).ok();
        let judged = callee.is_some_and(|callee| callee.file == self.root);
        judged && certainty == Certainty::Certain && step.foreach.is_none()
    }

    /// Adds a tool call, and the calls that a meta tool may make.
    fn tool(
        &mut self,
        id: &str,
        command: Option<&str>,
        params: Option<&[Param]>,
        place: &UsePlace,
        certainty: Certainty,
        above: &mut Vec<ItemId>,
    ) {
        let found = self.store.find(ItemKind::Tool, id).ok();
        let Some((item, outline)) =
            found.and_then(|item| Some((item, outline(self.store, item).ok()?)))
        else {
            // The tool is chosen at run time, or it is missing or its chain is broken, which is
            // reported elsewhere.
            self.found.is_open = true;
            return;
        };
        let invocation = params.and_then(|params| self.invocation(item, command, params));
        let aggregates = outline.aggregates.clone();
        let within = above.last().cloned();
        self.found.uses.push(ToolUse {
            place: place.clone(),
            within,
            outline,
            invocation,
            certainty,
        });
        if above.len() < MAX_META_DEPTH && !above.contains(&item.id) {
            above.push(item.id.clone());
            for id in aggregates {
                self.tool(&id, None, None, place, certainty, above);
            }
            above.pop();
        }
    }

    /// The resolved call, if no parameter is open. The caller's environment is not read.
    fn invocation(
        &self,
        item: &Item,
        command: Option<&str>,
        params: &[Param],
    ) -> Option<Invocation> {
        let is_literal = |param: &Param| {
            Template::parse(&param.value).is_ok_and(|it| it.placeholders().next().is_none())
        };
        if !params.iter().all(is_literal) {
            return None;
        }
        let texts: Vec<ParameterText> = params
            .iter()
            .map(|param| ParameterText::new(&param.name, &param.value))
            .collect();
        let parameters = parameters::convert(&item.as_tool()?.manifest, &texts).ok()?;
        let call = CallRequest {
            command: command.map(str::to_owned),
            parameters,
        };
        let roots = self.store.roots();
        let around = CallEnvironment {
            root: roots.project.clone().unwrap_or_default(),
            home: roots.user.clone(),
            environment: BTreeMap::new(),
        };
        resolve_call(self.store, item, &call, &around).ok()
    }

    /// Adds the environment variables that the texts of a step name.
    fn variables(&mut self, step: &Step, place: &UsePlace, certainty: Certainty) {
        let (texts, params): (Vec<&str>, &[Param]) = match &step.action {
            StepAction::Tool {
                item_id, params, ..
            }
            | StepAction::Directive { item_id, params } => (vec![item_id], params),
            StepAction::Checkpoint { operation, message } => (
                std::iter::once(operation)
                    .chain(message)
                    .map(String::as_str)
                    .collect(),
                &[],
            ),
            StepAction::Item { params, .. } => (Vec::new(), params),
            StepAction::Human { question: text, .. }
            | StepAction::Prose {
                instruction: text, ..
            } => (vec![text], &[]),
        };
        let conditions = step.when.iter().chain(&step.foreach).map(String::as_str);
        let all = texts
            .into_iter()
            .chain(params.iter().map(|param| param.value.as_str()))
            .chain(conditions);
        let mut named = BTreeSet::new();
        for template in all.filter_map(|text| Template::parse(text).ok()) {
            for placeholder in template.placeholders() {
                if let Reference::Env { name } = &placeholder.reference {
                    named.insert(name.clone());
                }
            }
        }
        self.found.variables.extend(
            named
                .into_iter()
                .map(|name| (name, place.clone(), certainty)),
        );
    }
}

fn report(
    denials: &[Denial],
    place: &UsePlace,
    what: &str,
    certainty: Certainty,
    findings: &mut Findings,
) {
    let message = match certainty {
        Certainty::Certain => format!("{what} will be denied: {}", policy::message(denials)),
        Certainty::Possible => format!("{what} would be denied: {}", policy::message(denials)),
    };
    let finding = findings.add(
        Code::MissingGrant,
        place.via.place,
        place.via.path.clone(),
        message,
    );
    finding.suggest(policy::way_out(denials));
    if certainty == Certainty::Possible {
        finding.with_severity(Severity::Warning);
    }
}

/// Warns about grants that nothing reachable uses.
fn unused(
    directive: &Directive,
    uses: &[ToolUse],
    variables: &[(String, UsePlace, Certainty)],
    findings: &mut Findings,
) {
    let is_variable = |grant: &Grant| {
        let caller = PolicyCaller {
            name: directive.name.as_str(),
            grants: std::slice::from_ref(grant),
        };
        let authority = Authority::Directives(vec![caller]);
        variables
            .iter()
            .any(|(name, ..)| policy::may_see_variable(&authority, name))
    };
    let is_useful = |grant: &Grant| {
        !is_about_calls(&grant.access)
            || is_variable(grant)
            || uses.iter().any(|used| is_used(grant, used.foreknown()))
    };
    let given = || directive.permissions.iter().filter(|grant| !grant.deny);
    // One element may produce several grants.
    let useful: BTreeSet<(u32, u32)> = given()
        .filter(|grant| is_useful(grant))
        .map(|grant| (grant.place.line, grant.place.column))
        .collect();
    let mut told = BTreeSet::new();
    for grant in given() {
        let at = (grant.place.line, grant.place.column);
        if !useful.contains(&at) && told.insert(at) {
            let message = format!(
                "no step that can be reached uses {}",
                policy::line_of(grant)
            );
            findings
                .add(Code::UnusedGrant, grant.place, "permissions", message)
                .suggest("remove or correct it: an unused grant gives a run too many permissions");
        }
    }
}
