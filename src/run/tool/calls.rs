//! The calls of one step, and the rules for the changes of each.
//!
//! There is one snapshot before all calls and one after. If the kernel reports which process
//! touched a file, every tool that touched it must be allowed to change it. Otherwise at least one
//! of the possible tools must be allowed to.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::plan::ToolPlan;
use crate::checkpoint::path::RepoPath;
use crate::exec::invocation::Action;
use crate::exec::supervisor::{Touched, TouchedPaths};
use crate::journal::summary::StepStatus;
use crate::problem::Problem;
use crate::run::secrecy::Secrets;
use crate::run::settle::DeclaredChanges;

/// The calls of a step.
#[derive(Debug, Default)]
pub(super) struct StepCalls {
    /// How many calls began.
    pub(super) begun: u32,
    /// The calls that have ended.
    pub(super) told: Vec<CallTold>,
    /// The values that no call may show.
    pub(super) secrets: Secrets,
    pub(super) warnings: Vec<String>,
    /// Settings and hooks of git that changed meanwhile.
    pub(super) git_changed: Vec<String>,
    /// The total duration.
    pub(super) duration: Duration,
    /// Each called tool, once, with the files that it may have changed.
    tools: Vec<(ToolPlan, Touched)>,
    /// The files that the calls of each active meta tool may have changed, outermost first.
    open: Vec<Touched>,
}

/// A call by a meta tool, as shown in its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallTold {
    /// The tool, as `id@version`.
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    pub status: StepStatus,
    pub execution_time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

impl StepCalls {
    /// A meta tool starts to make calls.
    pub(super) fn enter(&mut self) {
        self.open.push(Touched::Paths(TouchedPaths::default()));
    }

    /// A meta tool has made its calls: it is responsible for their changes.
    pub(super) fn leave(&mut self, plan: ToolPlan) {
        if let Some(touched) = self.open.pop() {
            self.answers_for(plan, touched);
        }
    }

    /// Records the files that a call may have changed.
    pub(super) fn answers_for(&mut self, plan: ToolPlan, touched: Touched) {
        for open in &mut self.open {
            *open = std::mem::take(open).or(touched.clone());
        }
        let tool = plan.invocation.tool();
        match self
            .tools
            .iter_mut()
            .find(|(known, _)| known.invocation.tool() == tool)
        {
            Some((_, known)) => *known = std::mem::take(known).or(touched),
            None => self.tools.push((plan, touched)),
        }
    }

    /// An error without the secrets of the calls.
    pub(super) fn redacted(&self, error: &Problem) -> Problem {
        error.clone().map_texts(|text| self.secrets.removed(text))
    }

    /// Records changed settings and hooks of git.
    pub(super) fn record_git_changes(&mut self, changed: Vec<String>) {
        let new: Vec<String> = changed
            .into_iter()
            .filter(|name| !self.git_changed.contains(name))
            .collect();
        self.git_changed.extend(new);
    }

    /// The files that any call may have changed.
    pub(super) fn touched(&self) -> Touched {
        let nothing = Touched::Paths(TouchedPaths::default());
        self.tools
            .iter()
            .fold(nothing, |known, (_, touched)| known.or(touched.clone()))
    }

    /// Whether the called tools may change a file.
    pub(super) fn may_change(&self, top: &Path, prefix: &Path, path: &RepoPath) -> bool {
        self.suspects(top, path)
            .holds(|plan| plan.may_change(prefix, path))
    }

    /// The tool that may not change one of these files.
    pub(super) fn culprit(
        &self,
        top: &Path,
        prefix: &Path,
        paths: &[RepoPath],
    ) -> Option<&ToolPlan> {
        let path = paths
            .iter()
            .find(|path| !self.may_change(top, prefix, path))?;
        self.suspects(top, path)
            .plans
            .into_iter()
            .find(|plan| !plan.may_change(prefix, path))
    }

    /// What the tools that may have changed a file declare.
    pub(super) fn declared(&self, top: &Path, path: &RepoPath) -> DeclaredChanges {
        let suspects = self.suspects(top, path);
        if suspects.holds(|plan| plan.declared() == DeclaredChanges::Anything) {
            return DeclaredChanges::Anything;
        }
        let strictly = |plan: &&ToolPlan| plan.declared() == DeclaredChanges::NothingStrictly;
        if suspects.plans.iter().any(strictly) {
            DeclaredChanges::NothingStrictly
        } else {
            DeclaredChanges::Nothing
        }
    }

    fn suspects(&self, top: &Path, path: &RepoPath) -> CallSuspects<'_> {
        let file = top.join(path.as_path());
        let known = self
            .tools
            .iter()
            .filter(|(_, touched)| matches!(touched, Touched::Paths(_)) && touched.has(&file));
        let known: Vec<&ToolPlan> = known.map(|(plan, _)| plan).collect();
        if !known.is_empty() {
            return CallSuspects {
                plans: known,
                are_known: true,
            };
        }
        let unknown = self
            .tools
            .iter()
            .filter(|(_, touched)| !matches!(touched, Touched::Paths(_)));
        CallSuspects {
            plans: unknown.map(|(plan, _)| plan).collect(),
            are_known: false,
        }
    }
}

/// The tools that may have changed a file.
struct CallSuspects<'c> {
    plans: Vec<&'c ToolPlan>,
    /// Whether all of them changed it; otherwise at least one did.
    are_known: bool,
}

impl CallSuspects<'_> {
    /// Whether a condition holds for the tools that changed the file and for their callers.
    fn holds(&self, what: impl Fn(&ToolPlan) -> bool) -> bool {
        let is_meta = |plan: &&ToolPlan| matches!(plan.invocation.action, Action::Meta(_));
        let (asking, asked): (Vec<&ToolPlan>, Vec<&ToolPlan>) =
            self.plans.iter().partition(|plan| is_meta(plan));
        let every = self.are_known || asked.is_empty();
        let is_meant = if every {
            asked.into_iter().all(&what)
        } else {
            asked.into_iter().any(&what)
        };
        is_meant && asking.into_iter().all(&what)
    }
}
