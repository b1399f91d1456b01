//! What every front door gives back for the call of a tool.

use serde::Serialize;
use serde_json::Value;

use super::calls::CallTold;
use super::secrecy::Secrets;
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
use crate::run::headline::headline;
use crate::run::settle::Settlement;
use crate::run::step::milliseconds;

/// What came of the call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolResult {
    /// The tool.
    pub tool_id: String,
    /// Always `run`.
    pub action: &'static str,
    /// In one word.
    pub status: ToolStatus,
    /// What it returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What went wrong, in few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// The stable code of what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What went wrong, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Hint>,
    /// The place in a file that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Origin>,
    /// Everything that is wrong in files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// How long it took.
    pub execution_time_ms: u64,
    /// Where this is saved, relative to the project.
    pub output_path: Option<String>,
    /// The run that the call was, or was a part of; none when it did not begin.
    pub run_id: Option<RunId>,
    /// What became of its changes.
    pub checkpoint: Option<CheckpointSummary>,
    /// Whether a checkpoint should be made now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint_recommended: bool,
    /// How to make it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_hint: Option<String>,
    /// Files that it changed although it says that it changes nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undeclared_mutation: Vec<RepoPath>,
    /// Files that it changed and may not change; they were put back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_paths: Vec<RepoPath>,
    /// Files that somebody else changed meanwhile; they were left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside_changes: Vec<RepoPath>,
    /// Settings and hooks of git that changed while it ran; they were left as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub git_changed: Vec<String>,
    /// The calls that it was made of, where it is a meta tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallTold>,
    /// The status that its process ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What it wrote besides its result.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    /// What it wrote to its standard error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// Whether a part of what it wrote was left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// What it needed, who allowed it, and by what that is enforced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// Files of the tool, and of what runs it, that carry no stamp.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsigned: Vec<String>,
    /// What deserves attention.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How the call of a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It was done.
    Success,
    /// It failed.
    Error,
    /// A permission or the signature policy forbade it.
    Denied,
    /// It was interrupted.
    Cancelled,
    /// Somebody has to decide about its changes.
    Waiting,
}

impl ToolResult {
    pub(super) fn new(invocation: &Invocation, run: RunId) -> Self {
        Self { run_id: Some(run), ..Self::of(invocation.id()) }
    }

    /// Of a call about which nothing is known yet.
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
        // What is the result need not be said twice.
        if value.get("stdout").and_then(Value::as_str) == Some(&self.stdout)
            || serde_json::from_str::<Value>(&self.stdout).is_ok_and(|printed| printed == value)
        {
            self.stdout.clear();
        }
        self.result = Some(value);
    }

    /// Takes over why there is no result.
    pub fn fail(&mut self, status: ToolStatus, error: &Problem) {
        self.status = status;
        self.error = Some(match headline(error.code, Some(ItemKind::Tool)) {
            // Whatever the reason is called, it was not allowed.
            "Execution failed" if status == ToolStatus::Denied => "Permission denied",
            words => words,
        });
        self.code = Some(error.code);
        self.message = Some(error.message());
        self.suggestion.clone_from(&error.hint);
        self.place = error.place.as_deref().cloned();
    }

    pub(super) fn tell(&mut self, ended: &Ended, secrets: &Secrets) {
        self.execution_time_ms = milliseconds(ended.duration);
        self.exit_code = ended.exit_code;
        self.stdout = secrets.removed(&ended.stdout.text());
        self.stderr = secrets.removed(&ended.stderr.text());
        self.truncated = ended.stdout.is_truncated() || ended.stderr.is_truncated();
        for (name, stream) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
            if !stream.is_text() {
                self.warnings.push(format!("{name} is not valid UTF-8: what is not was replaced"));
            }
        }
        match ended.leftovers {
            0 => {}
            1 => self.warnings.push("1 process that it left behind was killed".to_owned()),
            count => self.warnings.push(format!("{count} processes that it left behind were killed")),
        }
    }

    /// Tells that git is not as it was.
    pub(super) fn tell_git(&mut self, changed: Vec<String>) {
        if !changed.is_empty() {
            let names: Vec<String> = changed.iter().map(|name| format!("`{}`", shown(name))).collect();
            self.warnings.push(format!("{} changed while it ran, which no permission allows", names.join(", ")));
        }
        self.git_changed = changed;
    }

    pub(super) fn settled(&mut self, settlement: &Settlement, mode: CheckpointMode, mutates_state: Option<bool>) {
        self.checkpoint.clone_from(&settlement.checkpoint);
        self.denied_paths.clone_from(&settlement.denied);
        self.undeclared_mutation.clone_from(&settlement.undeclared);
        self.outside_changes.clone_from(&settlement.outside);
        let mutates = settlement.kept || mutates_state == Some(true);
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
