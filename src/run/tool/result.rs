//! The result of a tool call, for every front door.

use serde::Serialize;
use serde_json::Value;

use super::calls::CallTold;
use crate::checkpoint::path::RepoPath;
use crate::exec::invocation::Invocation;
use crate::exec::supervisor::Ended;
use crate::item::directive::CheckpointMode;
use crate::item::finding::Finding;
use crate::item::store::ItemKind;
use crate::item::tool::Origin;
use crate::item::wording::shown;
use crate::journal::RunId;
use crate::journal::summary::{CheckpointSummary, StepStatus};
use crate::policy::Permission;
use crate::problem::{Code, Hint, Problem};
use crate::run::error_titles::ErrorTitle;
use crate::run::secrecy::Secrets;
use crate::run::settle::Settlement;
use crate::run::step::milliseconds;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolResult {
    pub tool_id: String,
    /// Always `run`.
    pub action: &'static str,
    pub status: ToolStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The short, stable title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorTitle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Hint>,
    /// The faulty position in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Origin>,
    /// All problems in files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    pub execution_time_ms: u64,
    /// The saved output, relative to the project.
    pub output_path: Option<String>,
    /// The run of the call; `None` if it did not begin.
    pub run_id: Option<RunId>,
    /// What happened to its changes.
    pub checkpoint: Option<CheckpointSummary>,
    /// Whether a checkpoint should be made now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint_recommended: bool,
    /// How to make it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_hint: Option<String>,
    /// Files that it changed although it declares no changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undeclared_mutation: Vec<RepoPath>,
    /// Files that it changed without permission; they were rolled back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_paths: Vec<RepoPath>,
    /// Files that another process changed meanwhile; they were left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside_changes: Vec<RepoPath>,
    /// Settings and hooks of git that changed meanwhile; they were left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub git_changed: Vec<String>,
    /// The inner calls of a meta tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallTold>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Its stdout, apart from its result.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// Whether stdout or stderr is truncated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The permissions that it needed, their grants and how each is enforced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// Files of the tool and its runtimes without a stamp.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsigned: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Success,
    Error,
    /// A permission or the signature policy forbade it.
    Denied,
    Cancelled,
    /// A person has to decide about its changes.
    Waiting,
}

impl ToolResult {
    pub(super) fn new(invocation: &Invocation, run: RunId) -> Self {
        Self {
            run_id: Some(run),
            ..Self::of(invocation.id())
        }
    }

    /// An empty result.
    pub fn of(tool_id: impl Into<String>) -> Self {
        Self {
            tool_id: tool_id.into(),
            action: "run",
            status: ToolStatus::Error,
            result: None,
            error: None,
            code: None,
            message: None,
            suggestion: None,
            place: None,
            findings: Vec::new(),
            execution_time_ms: 0,
            output_path: None,
            run_id: None,
            checkpoint: None,
            checkpoint_recommended: false,
            checkpoint_hint: None,
            undeclared_mutation: Vec::new(),
            denied_paths: Vec::new(),
            outside_changes: Vec::new(),
            git_changed: Vec::new(),
            calls: Vec::new(),
            exit_code: None,
            stdout: String::new(),
            stderr: String::new(),
            truncated: false,
            permissions: Vec::new(),
            unsigned: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn succeed(&mut self, value: Value) {
        self.status = ToolStatus::Success;
        // Do not repeat the result as stdout.
        if value.get("stdout").and_then(Value::as_str) == Some(&self.stdout)
            || serde_json::from_str::<Value>(&self.stdout).is_ok_and(|printed| printed == value)
        {
            self.stdout.clear();
        }
        self.result = Some(value);
    }

    /// Sets the error.
    pub fn fail(&mut self, status: ToolStatus, error: &Problem) {
        self.status = status;
        self.error = Some(match ErrorTitle::of(error.code, Some(ItemKind::Tool)) {
            // The call was denied, even if its code has another title.
            ErrorTitle::ExecutionFailed if status == ToolStatus::Denied => {
                ErrorTitle::PermissionDenied
            }
            title => title,
        });
        self.code = Some(error.code);
        self.message = Some(error.message());
        self.suggestion.clone_from(&error.hint);
        self.place = error.place.as_deref().cloned();
    }

    pub(super) fn record_output(&mut self, ended: &Ended, secrets: &Secrets) {
        self.execution_time_ms = milliseconds(ended.duration);
        self.exit_code = ended.exit_code;
        self.stdout = secrets.removed(&ended.stdout.text());
        self.stderr = secrets.removed(&ended.stderr.text());
        self.truncated = ended.stdout.is_truncated() || ended.stderr.is_truncated();
        for (name, stream) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
            if !stream.is_text() {
                self.warnings.push(format!(
                    "{name} is not valid UTF-8: invalid bytes were replaced"
                ));
            }
        }
        match ended.leftovers {
            0 => {}
            1 => self
                .warnings
                .push("1 leftover process was killed".to_owned()),
            count => self
                .warnings
                .push(format!("{count} leftover processes were killed")),
        }
    }

    /// Adds changed settings and hooks of git.
    pub(super) fn record_git_changes(&mut self, changed: Vec<String>) {
        if !changed.is_empty() {
            let names: Vec<String> = changed
                .iter()
                .map(|name| format!("`{}`", shown(name)))
                .collect();
            self.warnings.push(format!(
                "{} changed while it ran, which no permission allows",
                names.join(", ")
            ));
        }
        self.git_changed = changed;
    }

    pub(super) fn settled(
        &mut self,
        settlement: &Settlement,
        mode: CheckpointMode,
        // What the manifest says; `None` without a repository: then no checkpoint can be made.
        mutates_state: Option<bool>,
    ) {
        self.checkpoint.clone_from(&settlement.checkpoint);
        self.denied_paths.clone_from(&settlement.denied);
        self.undeclared_mutation.clone_from(&settlement.undeclared);
        self.outside_changes.clone_from(&settlement.outside);
        let mutates = mutates_state.is_some_and(|declared| settlement.kept || declared);
        if mode == CheckpointMode::Explicit && mutates && self.status == ToolStatus::Success {
            self.checkpoint_recommended = true;
            self.checkpoint_hint = Some(format!(
                "This tool mutates state. Consider running git_checkpoint directive: execute(item_type='directive', \
                 action='run', item_id='git_checkpoint', parameters={{'operation': '{}'}})",
                self.tool_id
            ));
        }
    }
}

impl From<StepStatus> for ToolStatus {
    fn from(status: StepStatus) -> Self {
        match status {
            StepStatus::Succeeded | StepStatus::Skipped => Self::Success,
            StepStatus::Failed | StepStatus::CutOff => Self::Error,
            StepStatus::Waiting => Self::Waiting,
            StepStatus::Denied => Self::Denied,
            StepStatus::Cancelled => Self::Cancelled,
        }
    }
}
