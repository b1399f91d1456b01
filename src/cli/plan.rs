//! `piton run --dry-run`: the plan as text.
//!
//! Values that are the same in every call, such as the environment, are shown only with `-v`;
//! `--format json` has everything.

use serde_json::{Map, Value};

use super::history::shell_words;
use super::show::dedented;
use super::ui::{Format, Ui};
use crate::error::{Error, ExitStatus};
use crate::item::directive::{CheckpointMode, Limit, OnFailure};
use crate::policy::Enforcement;
use crate::run::directive::preview::{PlannedHook, PlannedStep, RunPreview, Worst};
use crate::run::tool::ToolPlan;

/// How many elements of a list are shown.
const MOST_ELEMENTS: usize = 10;

/// Shows what a run would do.
pub(super) fn show(preview: &RunPreview, ui: &mut Ui) -> Result<ExitStatus, Error> {
    if ui.format() == Format::Json {
        ui.json(&preview.to_json())?;
        return Ok(status(preview.worst));
    }
    let mut page = PlanPage {
        ui,
        number: 0,
        writes: preview.writes,
    };
    let description = preview
        .description
        .trim()
        .lines()
        .next()
        .unwrap_or_default();
    page.ui
        .line(format!("{}  {description}", preview.directive).trim_end())?;
    let mode = match preview.mode {
        CheckpointMode::Auto => "auto: a commit after each step that changes files",
        CheckpointMode::Explicit => "explicit: only checkpoint steps commit",
        CheckpointMode::Disabled => "disabled: nothing is committed, nothing can be undone",
    };
    page.row("", "checkpoints", mode)?;
    if let Some(policy) = preview.on_failure {
        page.row("", "on failure", policy_text(policy))?;
    }
    page.values("", "inputs", &preview.inputs)?;
    page.limits("", &preview.limits)?;
    page.steps(&preview.steps, "")?;
    page.hooks(&preview.hooks, "")?;
    match preview.worst {
        Worst::Nothing => page.ui.success("nothing was changed; the run can start"),
        Worst::Failure => page.ui.failure("nothing was changed; a step would fail"),
        Worst::Refusal => page
            .ui
            .failure("nothing was changed; a step would be refused"),
        Worst::Denial => page
            .ui
            .failure("nothing was changed; a step would be denied"),
    }
    preview
        .findings
        .iter()
        .for_each(|finding| page.ui.finding(finding));
    Ok(status(preview.worst))
}

fn status(worst: Worst) -> ExitStatus {
    match worst {
        Worst::Nothing => ExitStatus::Success,
        Worst::Failure => ExitStatus::Invalid,
        Worst::Refusal => ExitStatus::Unsafe,
        Worst::Denial => ExitStatus::Denied,
    }
}

struct PlanPage<'u> {
    ui: &'u mut Ui,
    number: u32,
    writes: Enforcement,
}

impl PlanPage<'_> {
    fn steps(&mut self, steps: &[PlannedStep], space: &str) -> Result<(), Error> {
        steps.iter().try_for_each(|step| self.step(step, space))
    }

    fn step(&mut self, step: &PlannedStep, space: &str) -> Result<(), Error> {
        self.number += 1;
        let what = match step.kind {
            "tool" | "directive" => format!("{} {}", step.kind, step.what),
            "checkpoint" => format!("checkpoint: {}", step.what),
            "item" => format!("items: {}", step.what),
            "human" => "a person decides".to_owned(),
            _ => "manual step".to_owned(),
        };
        self.ui.line("")?;
        self.ui
            .line(&format!("{space}{}. {}  {what}", self.number, step.name))?;
        let inner = format!("{space}   ");
        self.terms(step, &inner)?;
        match step.kind {
            "human" | "prose" => self.instruction(step, &inner)?,
            "checkpoint" => {
                if let Some(message) = &step.message {
                    self.row(&inner, "message", message)?;
                }
            }
            _ => self.values(&inner, "with", &step.parameters)?,
        }
        if !step.later.is_empty() {
            self.row(&inner, "filled in later", &step.later.join(", "))?;
        }
        if let Some(call) = &step.call {
            self.call(call, &inner)?;
        }
        if let Some(error) = &step.error {
            self.row(
                &inner,
                "would fail",
                &format!("{} [{}]", error.message(), error.code),
            )?;
            if let Some(hint) = &error.hint {
                self.row(&inner, "", &hint.to_string())?;
            }
        }
        self.limits(&inner, &step.limits)?;
        self.steps(&step.steps, &inner)?;
        self.hooks(&step.hooks, &inner)
    }

    /// When a step runs, how often, and what follows.
    fn terms(&mut self, step: &PlannedStep, space: &str) -> Result<(), Error> {
        let description = step.description.trim();
        if !description.is_empty() {
            self.row(space, "about", description)?;
        }
        if let Some(list) = &step.foreach {
            let elements = step.elements.as_ref().map(|elements| {
                let named: Vec<String> = elements.iter().take(MOST_ELEMENTS).map(text_of).collect();
                let more = if elements.len() > MOST_ELEMENTS {
                    ", …"
                } else {
                    ""
                };
                format!(": {}{more} ({} times)", named.join(", "), elements.len())
            });
            self.row(
                space,
                "for each of",
                &format!("{}{}", list.trim(), elements.unwrap_or_default()),
            )?;
        }
        if let Some(when) = &step.when {
            let skipped = if step.skipped {
                "  # false: the step is skipped"
            } else {
                ""
            };
            self.row(space, "only when", &format!("{}{skipped}", when.trim()))?;
        }
        if step.decided_at_run_time {
            self.row(space, "which one", "decided at run time")?;
        }
        if let Some(retry) = step.retry {
            let pause = format!("{} s pause, doubled each time", retry.backoff);
            self.row(space, "retries", &format!("{} ({pause})", retry.count))?;
        }
        if let Some(timeout) = step.timeout {
            self.row(space, "timeout", &format!("{timeout} s"))?;
        }
        if let Some(policy) = step.on_failure {
            self.row(space, "on failure", policy_text(policy))?;
        }
        Ok(())
    }

    /// The instruction of a step, and who does it.
    fn instruction(&mut self, step: &PlannedStep, space: &str) -> Result<(), Error> {
        self.row(
            space,
            if step.kind == "human" {
                "question"
            } else {
                "task"
            },
            &dedented(&step.what),
        )?;
        for (at, check) in step.checks.iter().enumerate() {
            self.row(space, if at == 0 { "afterwards" } else { "" }, check.trim())?;
        }
        if step.kind == "human" {
            let gate = step.gate.as_deref().unwrap_or_default();
            return self.row(
                space,
                "done by",
                &format!("a person, with `piton approve` or `reject` ({gate})"),
            );
        }
        if step.agents.is_empty() {
            self.row(space, "done by", "you: the run waits for `piton resume`")?;
        } else {
            let agents: Vec<String> = step
                .agents
                .iter()
                .map(|agent| format!("`{agent}`"))
                .collect();
            self.row(space, "done by", &agents.join(", if that fails "))?;
        }
        let globs = if step.may_write.is_empty() {
            "any file".to_owned()
        } else {
            step.may_write.join(", ")
        };
        self.row(
            space,
            "may write",
            &format!("{globs}  # enforced: {}", self.writes.as_str()),
        )
    }

    fn call(&mut self, call: &ToolPlan, space: &str) -> Result<(), Error> {
        self.row(space, "runs", &shell_words(&call.invocation.action.argv()))?;
        let why = call.degraded.iter().chain(&call.raised);
        let why: Vec<String> = why.map(|why| format!("  # {why}")).collect();
        self.row(
            space,
            "isolation",
            &format!("{}{}", call.isolation.as_str(), why.concat()),
        )?;
        for (at, permission) in call.permissions.iter().enumerate() {
            let how = permission.enforcement.as_str();
            let need = permission.need.clone();
            // A grant often equals the need; do not print it twice.
            let by = permission
                .granted_by
                .strip_prefix(&need)
                .unwrap_or(&permission.granted_by)
                .trim();
            let told = format!("{need}  # {by}, enforced: {how}");
            self.row(space, if at == 0 { "allowed" } else { "" }, &told)?;
        }
        for denial in &call.denials {
            self.row(space, "denied", &denial.to_string())?;
            self.row(space, "", &denial.hint())?;
        }
        let detail: Vec<String> = call
            .invocation
            .rows()
            .into_iter()
            .map(|row| {
                let origin = row
                    .origin
                    .map(|origin| format!("  # {origin}"))
                    .unwrap_or_default();
                format!("{space}{}: {}{origin}", row.name, row.value)
            })
            .collect();
        self.ui.detail_lines(&detail)?;
        Ok(())
    }

    fn hooks(&mut self, hooks: &[PlannedHook], space: &str) -> Result<(), Error> {
        for hook in hooks {
            self.ui.line("")?;
            self.ui
                .line(&format!("{space}hook  directive {}", hook.directive))?;
            let inner = format!("{space}   ");
            self.row(&inner, "only when", hook.when.trim())?;
            self.values(&inner, "with", &hook.inputs)?;
            self.steps(&hook.steps, &inner)?;
        }
        Ok(())
    }

    fn limits(&mut self, space: &str, limits: &[Limit]) -> Result<(), Error> {
        let told = limits.iter().map(|limit| {
            let unit = limit
                .unit
                .as_ref()
                .map(|unit| format!(" {unit}"))
                .unwrap_or_default();
            format!("{} {}{unit}", limit.name, limit.value)
        });
        let told: Vec<String> = told.collect();
        if told.is_empty() {
            Ok(())
        } else {
            self.row(space, "limits", &told.join(", "))
        }
    }

    fn values(
        &mut self,
        space: &str,
        label: &str,
        values: &Map<String, Value>,
    ) -> Result<(), Error> {
        for (at, (name, value)) in values.iter().enumerate() {
            self.row(
                space,
                if at == 0 { label } else { "" },
                &format!("{name} = {value}"),
            )?;
        }
        Ok(())
    }

    /// A label and its text; further lines are aligned below.
    fn row(&mut self, space: &str, label: &str, text: &str) -> Result<(), Error> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        self.ui
            .line(format!("{space}  {label:<15} {first}").trim_end())?;
        for line in lines {
            self.ui
                .line(format!("{space}  {:<15} {line}", "").trim_end())?;
        }
        Ok(())
    }
}

fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn policy_text(policy: OnFailure) -> &'static str {
    match policy {
        OnFailure::Rollback => "rollback: its changes are rolled back, the run stops",
        OnFailure::Keep => "keep: its changes stay, the run stops",
        OnFailure::Continue => "continue: its changes stay, the run continues",
        OnFailure::RollbackRun => "rollback_run: the whole run is rolled back",
        OnFailure::Abort => "abort: the whole run stops",
    }
}
