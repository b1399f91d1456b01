//! The calls that one step is made of, and what each of them has to answer for.
//!
//! There is one snapshot before all of them and one after. Who changed a file is known where the kernel tells which
//! files a process touched: then every tool that touched it is held to its own words. Where nobody knows, a
//! file must be one that at least one of the tools in question may change.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::plan::ToolPlan;
use super::secrecy::Secrets;
use crate::checkpoint::path::RepoPath;
use crate::exec::invocation::Action;
use crate::exec::supervisor::{Touched, TouchedPaths};
use crate::journal::summary::StepStatus;
use crate::problem::Problem;
use crate::run::settle::Declared;

/// The calls that a step is made of.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// How many were begun.
    pub(super) begun: u32,
    /// What became of each that has ended.
    pub(super) told: Vec<CallTold>,
    /// What none of them may show.
    pub(super) secrets: Secrets,
    /// What deserves attention.
    pub(super) warnings: Vec<String>,
    /// Settings and hooks of git that changed meanwhile.
    pub(super) git_changed: Vec<String>,
    /// How long all of it took.
    pub(super) duration: Duration,
    /// Each tool that was called, once, with what it may have changed.
    tools: Vec<(ToolPlan, Touched)>,
    /// What the calls of each meta tool that is at work may have changed, the outermost first.
    open: Vec<Touched>,
}

/// A call that a meta tool made, as its result tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallTold {
    /// The tool, as `id@version`.
    pub tool: String,
    /// The command of a tool that has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// How it ended.
    pub status: StepStatus,
    /// How long it took.
    pub execution_time_ms: u64,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

impl Calls {
    /// A meta tool begins to make calls.
    pub(super) fn enter(&mut self) {
        self.open.push(Touched::Paths(TouchedPaths::default()));
    }

    /// It has made them: it answers for what they have changed.
    pub(super) fn leave(&mut self, plan: ToolPlan) {
        if let Some(touched) = self.open.pop() {
            self.answers_for(plan, touched);
        }
    }

    /// Takes note of what a call may have changed.
    pub(super) fn answers_for(&mut self, plan: ToolPlan, touched: Touched) {
        for open in &mut self.open {
            *open = std::mem::take(open).or(touched.clone());
        }
        let tool = plan.invocation.tool();
        match self.tools.iter_mut().find(|(known, _)| known.invocation.tool() == tool) {
            Some((_, known)) => *known = std::mem::take(known).or(touched),
            None => self.tools.push((plan, touched)),
        }
    }

    /// An error without what none of the calls may show.
    pub(super) fn redacted(&self, error: &Problem) -> Problem {
        error.clone().map_texts(|text| self.secrets.removed(text))
    }

    /// Takes note of what of git has changed.
    pub(super) fn tell_git(&mut self, changed: Vec<String>) {
        let new: Vec<String> = changed.into_iter().filter(|name| !self.git_changed.contains(name)).collect();
        self.git_changed.extend(new);
    }

    /// What any of them may have changed.
    pub(super) fn touched(&self) -> Touched {
        let nothing = Touched::Paths(TouchedPaths::default());
        self.tools.iter().fold(nothing, |known, (_, touched)| known.or(touched.clone()))
    }

    /// Whether a file may be changed, as far as the tools that were called are concerned.
    pub(super) fn may_change(&self, top: &Path, prefix: &Path, path: &RepoPath) -> bool {
        self.suspects(top, path).holds(|plan| plan.may_change(prefix, path))
    }

    /// The tool that may not change one of these files.
    pub(super) fn culprit(&self, top: &Path, prefix: &Path, paths: &[RepoPath]) -> Option<&ToolPlan> {
        let path = paths.iter().find(|path| !self.may_change(top, prefix, path))?;
        self.suspects(top, path).plans.into_iter().find(|plan| !plan.may_change(prefix, path))
    }

    /// What those say who may have changed a file.
    pub(super) fn declared(&self, top: &Path, path: &RepoPath) -> Declared {
        let suspects = self.suspects(top, path);
        if suspects.holds(|plan| plan.declared() == Declared::Anything) {
            return Declared::Anything;
        }
        let strictly = |plan: &&ToolPlan| plan.declared() == Declared::NothingStrictly;
        if suspects.plans.iter().any(strictly) { Declared::NothingStrictly } else { Declared::Nothing }
    }

    fn suspects(&self, top: &Path, path: &RepoPath) -> Suspects<'_> {
        let file = top.join(path.as_path());
        let known = self.tools.iter().filter(|(_, touched)| matches!(touched, Touched::Paths(_)) && touched.has(&file));
        let known: Vec<&ToolPlan> = known.map(|(plan, _)| plan).collect();
        if !known.is_empty() {
            return Suspects { plans: known, are_known: true };
        }
        let unknown = self.tools.iter().filter(|(_, touched)| !matches!(touched, Touched::Paths(_)));
        Suspects { plans: unknown.map(|(plan, _)| plan).collect(), are_known: false }
    }
}

/// Those who may have changed a file.
struct Suspects<'c> {
    plans: Vec<&'c ToolPlan>,
    /// Whether each of them has; otherwise it was one of them.
    are_known: bool,
}

impl Suspects<'_> {
    /// Whether something holds of whoever changed the file, and of those on whose behalf it was.
    fn holds(&self, what: impl Fn(&ToolPlan) -> bool) -> bool {
        let is_meta = |plan: &&ToolPlan| matches!(plan.invocation.action, Action::Meta(_));
        let (asking, asked): (Vec<&ToolPlan>, Vec<&ToolPlan>) = self.plans.iter().partition(|plan| is_meta(plan));
        let every = self.are_known || asked.is_empty();
        let whoever = if every { asked.into_iter().all(&what) } else { asked.into_iter().any(&what) };
        whoever && asking.into_iter().all(&what)
    }
}
