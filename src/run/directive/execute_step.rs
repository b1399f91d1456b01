//! Executes a step: calls a tool, enters a directive, commits, or asks a person.

use serde_json::{Map, Value};

use super::scope::authority;
use super::{Run, StepProgress};
use crate::authoring::{self, Home, ItemCommand, Loss};
use crate::exec::supervisor::Supervisor;
use crate::item::directive::{OnFailure, Param, StepAction};
use crate::item::finding::Strength;
use crate::item::store::ItemStore;
use crate::item::template::Template;
use crate::journal::event::{Event, StepKind, ToolCall, Wait};
use crate::journal::summary::StepStatus;
use crate::policy::WriteRules;
use crate::problem::{Code, Hint, Problem};
use crate::run::checkpoint;
use crate::run::error::RunError;
use crate::run::items;
use crate::run::settle::{ChangesVerdict, Fate, Wording};
use crate::run::tool::{self, Listener, ToolPlan, ToolPlanner, ToolRequest, ToolStep};
use crate::values::{self, ValueError};

impl Run<'_> {
    /// Executes the current step.
    pub(super) fn act(&mut self, listener: &mut Listener<'_>) -> Result<StepProgress, RunError> {
        let Some(step) = self.step() else {
            return Ok(StepProgress::Stepped);
        };
        let name = self.position();
        if !matches!(
            step.action,
            StepAction::Item { .. } | StepAction::Directive { .. }
        ) {
            self.items = None;
        }
        match &step.action {
            StepAction::Tool {
                item_id,
                command,
                params,
            } => {
                self.act_tool(&name, item_id, command.as_deref(), params, listener)?;
            }
            StepAction::Directive { item_id, params } => {
                if let Err(err) = self.act_directive(&name, item_id, params) {
                    self.fail_unbegun(
                        &name,
                        StepKind::Directive {
                            id: item_id.clone(),
                        },
                        &err,
                    )?;
                }
            }
            StepAction::Checkpoint { operation, message } => {
                self.act_checkpoint(&name, operation, message.as_deref())?;
            }
            StepAction::Item { verb, params } => self.act_item(&name, verb, params)?,
            StepAction::Human { gate, question } => self.ask_person(&name, gate, question)?,
            StepAction::Prose {
                instruction,
                quoted,
            } => {
                self.act_prose(&name, instruction, quoted, &step, listener)?;
            }
        }
        Ok(match self.waiting() {
            Some(waiting) => StepProgress::Waiting(Box::new(waiting)),
            None => StepProgress::Stepped,
        })
    }

    fn act_tool(
        &mut self,
        name: &str,
        id: &str,
        command: Option<&str>,
        params: &[Param],
        listener: &mut Listener<'_>,
    ) -> Result<(), RunError> {
        let supervisor = Supervisor::start(&self.session.recorder.ctx.program);
        let plan = match self.plan_tool(id, command, params) {
            Ok(plan) => plan,
            Err(err) => {
                let call = ToolCall::unresolved(id, command);
                return self.fail_unbegun(name, StepKind::Tool(call), &err);
            }
        };
        let message = self.pinned.options.message.clone();
        let fate = Some(self.fate());
        let callers = self.callers();
        let planner = ToolPlanner {
            store: &self.store,
            authority: &authority(&callers),
        };
        let step = ToolStep {
            name,
            plan: &plan,
            planner,
            message: message.as_deref(),
            fate,
        };
        match tool::call_tool(
            &mut self.session,
            step,
            supervisor.map_err(RunError::from)?,
            listener,
        ) {
            Ok(_) => Ok(()),
            // Nothing has happened yet, e.g. its packages could not be installed.
            Err(err)
                if self.session.recorder.open_step.is_none()
                    && !err.is_interrupted()
                    && !err.ends_run() =>
            {
                self.fail_unbegun(
                    name,
                    StepKind::Tool(ToolCall::unresolved(id, command)),
                    &err,
                )
            }
            Err(err) => Err(err),
        }
    }

    /// The plan of a call, with the current values.
    pub(super) fn plan_tool(
        &mut self,
        id: &str,
        command: Option<&str>,
        params: &[Param],
    ) -> Result<ToolPlan, RunError> {
        let id = self.with_scope(None, |scope| values::fill_text(id, scope))?;
        self.pinned.check_tool(&self.store, &id)?;
        self.keep_pinned()?;
        let (parameters, words) = self.with_scope(None, |scope| split(params, scope))?;
        let request = ToolRequest {
            id,
            command: command.map(str::to_owned),
            parameters,
            words,
            strict: self.pinned.options.strict,
            allow_degraded: self.pinned.options.allow_degraded,
        };
        let callers = self.callers();
        let mut plan = tool::plan(
            self.session.recorder.ctx,
            &self.store,
            &request,
            &authority(&callers),
        )?;
        plan.revealed = self.revealed.borrow().clone();
        if let Some(left) = self.time_left() {
            plan.invocation.timeout = plan.invocation.timeout.min(left);
        }
        Ok(plan)
    }

    /// The intended outcome for the changes of the current step.
    pub(super) fn fate(&self) -> Fate {
        let policy = self.policy_for_changes();
        let mode = self.session.recorder.mode;
        let of_mode = Fate::of_tool(mode);
        let success = match of_mode.success {
            ChangesVerdict::Commit if self.pinned.options.ask => ChangesVerdict::Ask,
            ChangesVerdict::Keep(_) => {
                ChangesVerdict::Keep("left uncommitted until the next checkpoint step")
            }
            other => other,
        };
        let failure = match policy {
            // The next attempt starts from the same files.
            _ if self.may_retry() => {
                ChangesVerdict::RollBack("the step failed and will be tried again")
            }
            Some(OnFailure::Rollback | OnFailure::RollbackRun) => {
                ChangesVerdict::RollBack("the step failed, and `on_failure` says `rollback`")
            }
            Some(OnFailure::Keep) => {
                ChangesVerdict::Keep("the step failed, and `on_failure` says `keep`")
            }
            Some(OnFailure::Continue) => {
                ChangesVerdict::Keep("the step failed, and `on_failure` says `continue`")
            }
            Some(OnFailure::Abort) | None => of_mode.failure,
        };
        Fate { success, failure }
    }

    fn act_directive(&mut self, name: &str, id: &str, params: &[Param]) -> Result<(), RunError> {
        let id = self.with_scope(None, |scope| values::fill_text(id, scope))?;
        let (inputs, words) = self.with_scope(None, |scope| split(params, scope))?;
        self.enter(name.to_owned(), &id, inputs, &words, None)
    }

    fn act_checkpoint(
        &mut self,
        name: &str,
        operation: &str,
        message: Option<&str>,
    ) -> Result<(), RunError> {
        let filled = self.with_scope(None, |scope| {
            let message = message
                .map(|text| values::fill_text(text, scope))
                .transpose()?;
            Ok((values::fill_text(operation, scope)?, message))
        });
        let filled = filled.map(|(operation, message)| {
            let message = message.map(|text| self.redacted(&text));
            (self.redacted(&operation), message)
        });
        let (operation, message) = match filled {
            Ok(filled) => filled,
            Err(err) => {
                return self.fail_unbegun(
                    name,
                    StepKind::Checkpoint { covers: Vec::new() },
                    &err.into(),
                );
            }
        };
        let message = message.or_else(|| self.pinned.options.message.clone());
        let pending = self
            .session
            .recorder
            .state
            .as_ref()
            .map(|state| state.pending.clone())
            .unwrap_or_default();
        let verdict = if self.pinned.options.ask {
            ChangesVerdict::Ask
        } else {
            ChangesVerdict::Commit
        };
        let (operation, given) = (Some(operation.as_str()), message.as_deref());
        let wording = Wording {
            name,
            operation,
            given,
            ..Wording::default()
        };
        checkpoint::commit_pending(&mut self.session, wording, &pending, verdict)
    }

    fn act_item(&mut self, name: &str, verb: &str, params: &[Param]) -> Result<(), RunError> {
        let parameters = self.with_scope(None, |scope| {
            let filled = |param: &Param| {
                values::fill(&param.value, scope).map_err(|err| err.near(param.place))
            };
            params
                .iter()
                .map(|param| Ok((param.name.clone(), filled(param)?)))
                .collect()
        });
        let parameters: Map<String, Value> = match parameters {
            Ok(parameters) => parameters,
            Err(err) => {
                let kind = StepKind::Item {
                    verb: verb.to_owned(),
                    parameters: Map::new(),
                };
                return self.fail_unbegun(name, kind, &err.into());
            }
        };
        let kind = StepKind::Item {
            verb: verb.to_owned(),
            parameters: tool::journal_parameters(&parameters),
        };
        // An earlier step of this run may have created the item.
        let store = self.items.take().unwrap_or_else(|| {
            ItemStore::open(self.session.recorder.ctx.roots(), Strength::Lenient)
        });
        let loss = if self.session.checkpointer.is_some() {
            Loss::Refused
        } else {
            Loss::Accepted
        };
        let ctx = self.session.recorder.ctx;
        let command = verb
            .parse()
            .and_then(|verb| ItemCommand::read(ctx, verb, &parameters));
        let carried = command.and_then(|command| authoring::carry_out(ctx, &store, &command, loss));
        let effect = match carried {
            Ok(effect) => effect,
            Err(err) => return self.fail_unbegun(name, kind, &err.into()),
        };
        self.items = effect.writes.is_empty().then_some(store);
        let callers = self.callers();
        let rules = WriteRules::for_directives(&authority(&callers));
        // Files outside of the project cannot be rolled back, and no directive can grant them.
        let may_write =
            |write: &&authoring::Write| write.home == Home::Project && rules.allows(&write.path);
        if let Some(write) = effect.writes.iter().find(|write| !may_write(write)) {
            let hint = match write.home {
                Home::Project => rules.hint(&write.path).map(Hint::from),
                Home::User => Some("only a person may write into `~/.ai`, not a directive".into()),
            };
            let message = format!("the step may not change `{}`", write.path.display());
            let error = Problem::new(Code::WriteDenied, message).with_hint_of(hint);
            return self.session.recorder.refuse_step(name, kind, &error);
        }
        let fate = self.fate();
        let given = self.pinned.options.message.clone();
        let wording = Wording {
            name,
            given: given.as_deref(),
            ..Wording::default()
        };
        items::write_items(&mut self.session, wording, kind, &effect, fate).map(drop)
    }

    fn ask_person(&mut self, name: &str, gate: &str, question: &str) -> Result<(), RunError> {
        let kind = StepKind::Human {
            gate: gate.to_owned(),
        };
        let question = match self.with_scope(None, |scope| values::fill_text(question, scope)) {
            Ok(question) => question,
            Err(err) => return self.fail_unbegun(name, kind, &err.into()),
        };
        let number = self.session.recorder.next_step();
        // From here on the person's edits belong to the run.
        self.session.start_step(number, name, kind, &[])?;
        let wait = Wait::Person {
            gate: gate.to_owned(),
            question,
        };
        self.session
            .recorder
            .record(&Event::Waiting { step: number, wait })?;
        Ok(())
    }

    /// Records a step that failed before it did anything.
    pub(super) fn fail_unbegun(
        &mut self,
        name: &str,
        kind: StepKind,
        err: &RunError,
    ) -> Result<(), RunError> {
        let number = self.session.recorder.next_step();
        self.session.recorder.open(number, name, kind, None, &[])?;
        let error = match err {
            RunError::Value(err) => self.placed(&self.in_step(), err.clone()),
            err => Problem::of(err),
        };
        let status = if err.is_denied() {
            StepStatus::Denied
        } else {
            StepStatus::Failed
        };
        self.session
            .recorder
            .finish_step(number, name, status, None, None, Some(&error))
    }
}

/// The gate that asks a person to do something.
pub(in crate::run) const HUMAN_ACTION: &str = "human-action";
/// The gate that asks a person to check the result.
pub(super) const HUMAN_VERIFY: &str = "human-verify";

/// Splits parameters into values that already have a type and texts that get their declared type.
pub(super) fn split(
    params: &[Param],
    scope: &values::ValueScope<'_>,
) -> Result<(Map<String, Value>, Vec<String>), ValueError> {
    let mut typed = Map::new();
    let mut words = Vec::new();
    for param in params {
        let value = values::fill(&param.value, scope).map_err(|err| err.near(param.place))?;
        let keeps_type = Template::parse(&param.value).is_ok_and(|template| {
            template
                .single()
                .is_some_and(|placeholder| values::has_type(placeholder, scope))
        });
        match value {
            Value::String(text) if !keeps_type => words.push(format!("{}={text}", param.name)),
            value => {
                typed.insert(param.name.clone(), value);
            }
        }
    }
    Ok((typed, words))
}
