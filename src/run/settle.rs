//! What becomes of the changes of a step: a commit, nothing, or everything put back.
//!
//! Each way writes its decision down before the first side effect and its result after the last, so
//! that [`super::recovery`] can finish what a crash left open.

use super::error::RunError;
pub(super) use super::reversal::Reversal;
use super::session::Session;
use super::step::{skipped, summary};
use super::undo::combine;
use crate::checkpoint::attribution::{Attributed, Ownership};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::commit::{CommitPlan, PreparedCommit};
use crate::checkpoint::delta::Delta;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::message::{self, MessageParts, Trailers};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::{RepoPath, listed};
use crate::checkpoint::snapshot::{Head, Snapshot};
use crate::checkpoint::user_hooks::HookRun;
use crate::config::HookPolicy;
use crate::failpoint::failpoint;
use crate::item::directive::CheckpointMode;
use crate::journal::StepId;
use crate::journal::event::{Decision, Event, Wait};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, StepStatus};
use crate::problem::{Code, Problem};

/// What is wanted for the changes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Commit them.
    Commit,
    /// Put everything back.
    RollBack(&'static str),
    /// Leave them on disk.
    Keep(&'static str),
    /// Let somebody decide.
    Ask,
}

/// What is wanted for the changes of a step, by how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) success: Verdict,
    pub(super) failure: Verdict,
}

impl Fate {
    /// What a mode wants for the changes of a tool.
    pub(super) fn of_tool(mode: CheckpointMode) -> Self {
        match mode {
            CheckpointMode::Auto => Self { success: Verdict::Commit, failure: Verdict::RollBack("the tool failed") },
            CheckpointMode::Explicit | CheckpointMode::Disabled => Self {
                success: Verdict::Keep("explicit mode: `piton checkpoint` commits it"),
                failure: Verdict::Keep("the tool failed; its changes stay: `piton undo` takes them back"),
            },
        }
    }
}

/// What follows when a step changed files that it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// Everything that it did is put back.
    RollBack,
    /// Nothing is decided: somebody has done it who can be asked.
    Tell,
}

/// What became of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Settlement {
    /// For the summary of the step.
    pub(super) checkpoint: Option<CheckpointSummary>,
    /// Why it is not as wanted.
    pub(super) error: Option<Problem>,
    /// Files that the step was not allowed to change.
    pub(super) denied: Vec<RepoPath>,
    /// Files that a step changed which said that it changes nothing.
    pub(super) undeclared: Vec<RepoPath>,
    /// Files that somebody else changed meanwhile; they are left alone.
    pub(super) outside: Vec<RepoPath>,
    /// Whether there is anything in the work tree that no commit holds.
    pub(super) kept: bool,
    /// Whether somebody has to decide.
    pub(super) asked: bool,
    /// Whether the user stopped piton while it made the checkpoint.
    pub(super) interrupted: bool,
}

/// What is expected of a step, apart from that it ends well.
#[derive(Clone, Copy)]
pub(super) struct Rules<'r> {
    /// Whether the step itself has changed a file, or somebody else meanwhile.
    pub(super) own: Ownership<'r>,
    /// Whether it may change a file.
    pub(super) may_change: &'r dyn Fn(&RepoPath) -> bool,
    /// What to do about files that it may not change.
    pub(super) way_out: &'r dyn Fn(&[RepoPath]) -> String,
    /// What whoever changed a file says about changing files.
    pub(super) declared: &'r dyn Fn(&RepoPath) -> Declared,
    /// What follows when it changed others.
    pub(super) violation: Violation,
}

/// What a step says about changing files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    /// That it does, or nothing.
    Anything,
    /// That it changes nothing; if it does, that is told.
    Nothing,
    /// That it changes nothing; if it does, that is put back.
    NothingStrictly,
}

impl Rules<'_> {
    /// For steps of piton's own.
    pub(super) const NONE: Self = Self {
        own: Ownership::EVERYTHING,
        may_change: &|_| true,
        way_out: &|_| String::new(),
        declared: &|_| Declared::Anything,
        violation: Violation::RollBack,
    };
}

/// What a commit is to say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wording<'a> {
    /// The name of the step.
    pub(super) name: &'a str,
    /// What was done, where that is another word.
    pub(super) operation: Option<&'a str>,
    /// The message that was asked for.
    pub(super) given: Option<&'a str>,
    /// The tool that did it, as `id@version`.
    pub(super) tool: Option<&'a str>,
    /// The directive that asked for it.
    pub(super) directive: Option<&'a str>,
    /// The commits that this one undoes.
    pub(super) undoes: &'a [ObjectId],
    /// What the user should know about it.
    pub(super) notes: &'a [String],
}

impl Session<'_, '_> {
    /// Finds out what a step changed and does what is wanted with it.
    pub(super) fn settle(
        &mut self,
        step: u32,
        wording: Wording<'_>,
        before: &Snapshot,
        verdict: Verdict,
        rules: Rules<'_>,
    ) -> Result<Settlement, RunError> {
        let Some(mut checkpointer) = self.checkpointer.take() else { return Ok(Settlement::of(skipped())) };
        let settled = self.settle_with(&mut checkpointer, step, wording, before, verdict, rules);
        self.checkpointer = Some(checkpointer);
        settled.map_err(|err| self.unsettled(err))
    }

    fn settle_with(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        wording: Wording<'_>,
        before: &Snapshot,
        verdict: Verdict,
        rules: Rules<'_>,
    ) -> Result<Settlement, RunError> {
        let found = match self.find_own(checkpointer, step, before, rules.own) {
            Ok(found) => found,
            Err(RunError::Checkpoint(err)) => return self.failed(step, err),
            Err(err) => return Err(err),
        };
        let (Attributed { after, delta, doubt, .. }, outside) = (&found, found.outside.clone());
        if delta.is_empty() && before.head == after.head {
            return Ok(Settlement { outside, ..self.nothing_changed(step, delta)? });
        }
        let changed = || delta.changes.iter().map(|change| &change.path);
        let modes = delta.permissions.iter().map(|change| &change.path);
        let judged = changed().chain(modes).chain(delta.not_captured.iter().filter(|path| (rules.own.has)(path)));
        let denied: Vec<RepoPath> = judged.filter(|path| !(rules.may_change)(path)).cloned().collect();
        let is_announced = |path: &RepoPath| (rules.declared)(path) == Declared::Anything;
        let undeclared: Vec<RepoPath> = changed().filter(|path| !is_announced(path)).cloned().collect();
        if !denied.is_empty() && rules.violation == Violation::Tell {
            return Ok(Settlement { checkpoint: None, denied, outside, asked: true, ..Settlement::of(skipped()) });
        }
        let is_refused = undeclared.iter().any(|path| (rules.declared)(path) == Declared::NothingStrictly);
        let verdict = match verdict {
            _ if !denied.is_empty() => Verdict::RollBack("it changed files that it may not"),
            _ if is_refused => Verdict::RollBack("it changed files although it says that it changes none"),
            verdict => verdict,
        };
        let refusal = if denied.is_empty() {
            is_refused.then(|| {
                let message = format!("the tool says `mutates_state: false` and changed {}", listed(&undeclared));
                Problem::new(Code::UndeclaredMutation, message)
                    .with_hint("write `mutates_state: true` into its manifest if that is meant")
            })
        } else {
            let message = format!("the step changed files that it may not change: {}", listed(&denied));
            Some(Problem::new(Code::WriteDenied, message).with_hint((rules.way_out)(&denied)))
        };
        let status = if denied.is_empty() { StepStatus::Failed } else { StepStatus::Denied };
        let mut settlement = match verdict {
            Verdict::Keep(reason) => match checkpointer.refuse_changed_filters(delta) {
                Ok(()) => self.keep(step, reason, delta),
                Err(err) => self.failed(step, err),
            },
            Verdict::Ask => {
                self.record(&Event::Waiting { step, wait: Wait::Changes })?;
                Ok(Settlement { asked: true, ..Settlement::of(counted(CheckpointStatus::Skipped, None, delta)) })
            }
            Verdict::RollBack(reason) => {
                let (status, error) = (refusal.as_ref().map(|_| status), refusal.clone());
                let why = Reversal { reason, status, error, doubt: *doubt };
                self.roll_back(checkpointer, step, why, before, after, delta)
            }
            Verdict::Commit => self.commit_or_explain(checkpointer, step, wording, before, found),
        }?;
        settlement.error = settlement.error.or(refusal);
        Ok(Settlement { denied, undeclared, outside, ..settlement })
    }

    /// Takes the snapshot after a step and writes down what it changed, without what somebody else did meanwhile.
    pub(super) fn find_own(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        before: &Snapshot,
        own: Ownership<'_>,
    ) -> Result<Attributed, RunError> {
        let after = checkpointer.after(before)?;
        let delta = checkpointer.delta(before, &after)?;
        let found = checkpointer.attribute(before, after, delta, own)?;
        failpoint("after-taken");
        if !found.delta.is_empty() || before.head != found.after.head || !found.outside.is_empty() {
            let (after, delta, outside) = (found.after.clone(), found.delta.clone(), found.outside.clone());
            self.record(&Event::ChangesFound { step, after, delta, outside })?;
        }
        if before.head != found.after.head {
            self.keep_old_tip(checkpointer, step, &before.head, &found.after.head)?;
            self.take_hand_commits(checkpointer, step, &before.head, &found.after.head)?;
        }
        Ok(found)
    }

    fn nothing_changed(&mut self, step: u32, delta: &Delta) -> Result<Settlement, RunError> {
        let (not_captured, too_large) = (delta.not_captured.clone(), delta.too_large.clone());
        self.record(&Event::NoChanges { step, not_captured, too_large })?;
        Ok(Settlement::of(summary(CheckpointStatus::NoChanges)))
    }

    pub(super) fn keep(&mut self, step: u32, reason: &str, delta: &Delta) -> Result<Settlement, RunError> {
        self.record(&Event::Decided { step, decision: Decision::Keep { reason: reason.to_owned() } })?;
        self.record(&Event::CheckpointSkipped { step, reason: reason.to_owned() })?;
        Ok(Settlement { kept: true, ..Settlement::of(counted(CheckpointStatus::Skipped, None, delta)) })
    }

    /// Puts back what a step did.
    pub(super) fn roll_back(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        why: Reversal<'_>,
        before: &Snapshot,
        after: &Snapshot,
        delta: &Delta,
    ) -> Result<Settlement, RunError> {
        if let Some(err) = before.head.moved_to(&after.head) {
            return self.failed(step, err);
        }
        // A merge or rebase that the step began: putting its files back would leave git in the middle of it.
        if let Err(err) = checkpointer.require_undoable() {
            return self.failed(step, err);
        }
        let Reversal { reason, status, error, doubt } = why;
        if let Some(doubt) = doubt
            && let Some(kept) = self.keep_doubtful(step, doubt, delta)?
        {
            return Ok(kept);
        }
        let decision = Decision::RollBack { reason: reason.to_owned(), status, error };
        self.record(&Event::Decided { step, decision })?;
        failpoint("roll-back-decided");
        self.carry_out_roll_back(checkpointer, step, before, delta)
    }

    /// The part of a roll back that is done again after a crash.
    pub(super) fn carry_out_roll_back(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        before: &Snapshot,
        delta: &Delta,
    ) -> Result<Settlement, RunError> {
        let report = checkpointer.roll_back(before, delta)?;
        if let Some(err) = report.shortfall().filter(CheckpointError::is_fault_of_system) {
            // No end is recorded: the next recovery tries again.
            return Err(err.into());
        }
        failpoint("rolled-back");
        self.record(&Event::RolledBack {
            step,
            paths: report.restored.len() as u64,
            kept: report.not_restored(),
            repositories: report.repositories.clone(),
            rescue: Some(StepId { run: self.run, step }.to_string()),
        })?;
        let mut settlement = Settlement::of(counted(CheckpointStatus::RolledBack, None, delta));
        settlement.error = report.shortfall().as_ref().map(Problem::of);
        Ok(settlement)
    }

    /// Commits what was found, with the user's hooks, or says why not.
    pub(super) fn commit_or_explain(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        wording: Wording<'_>,
        before: &Snapshot,
        found: Attributed,
    ) -> Result<Settlement, RunError> {
        // The step itself may have begun a merge: a commit would end it, markers and all.
        if let Err(err) = checkpointer.require_undoable() {
            return self.failed(step, err);
        }
        let (outside, doubt) = (found.outside.clone(), found.doubt);
        let index = stages(before, &found.after);
        let committed = match self.run_pre_commit(checkpointer, step, before, found) {
            Ok((delta, mut notes)) => {
                notes.extend(doubt.map(|doubt| format!("it may hold changes of another process: {doubt}")));
                self.commit(checkpointer, step, wording, &before.head, &delta, notes)
            }
            Err(err) => Err(err),
        };
        match committed {
            Err(RunError::Checkpoint(err @ CheckpointError::HookFailed { .. })) => {
                // The hook may have changed files as well: they are put back with the rest.
                let own = Ownership { has: &|path| outside.binary_search(path).is_err(), index, doubt };
                let Attributed { after, delta, .. } = self.find_own(checkpointer, step, before, own)?;
                if delta.is_empty() {
                    return self.failed(step, err);
                }
                let why = Reversal { doubt, ..Reversal::failure("a hook refused the commit", Problem::of(&err)) };
                let mut settlement = self.roll_back(checkpointer, step, why, before, &after, &delta)?;
                settlement.error.get_or_insert(Problem::of(&err));
                Ok(settlement)
            }
            Err(RunError::Checkpoint(err)) => self.failed(step, err),
            settled => settled,
        }
    }

    /// Lets the user's `pre-commit` hook have its say; what it changes becomes part of the step.
    pub(super) fn run_pre_commit(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        before: &Snapshot,
        found: Attributed,
    ) -> Result<(Delta, Vec<String>), RunError> {
        let Attributed { after, delta, outside, doubt } = found;
        if !checkpointer.has_pre_commit() {
            return Ok((delta, Vec::new()));
        }
        if !outside.is_empty() && self.ctx.config.hooks() == HookPolicy::Auto {
            let reason = "`pre-commit` was skipped: somebody else is at work, whose changes it might stash or rewrite";
            return Ok((delta, vec![reason.to_owned()]));
        }
        let plan = checkpointer.plan_commit(&before.head, &delta)?;
        if plan.is_empty() {
            return Ok((delta, Vec::new()));
        }
        self.announce_hooks(checkpointer, step)?;
        match checkpointer.run_pre_commit(&plan, &after, &self.run.to_string(), self.ctx.now())? {
            HookRun::None => Ok((delta, Vec::new())),
            HookRun::Skipped(reason) => Ok((delta, vec![reason])),
            HookRun::Ran => {
                let hooked = checkpointer.after(before)?;
                let changes = checkpointer.delta(before, &hooked)?;
                // What others had changed before the hook ran does not become the step's by it.
                let own = Ownership {
                    has: &|path| outside.binary_search(path).is_err(),
                    index: stages(before, &after),
                    doubt,
                };
                let Attributed { after: hooked, delta: all, outside, .. } =
                    checkpointer.attribute(before, hooked, changes, own)?;
                let more = checkpointer.delta(&after, &hooked)?;
                if more.is_empty() {
                    return Ok((delta, Vec::new()));
                }
                let changes = combine([&delta, &more].into_iter()).changes;
                let delta = Delta { changes, ..all };
                self.record(&Event::ChangesFound { step, after: hooked, delta: delta.clone(), outside })?;
                Ok((delta, vec!["`pre-commit` changed files, which are part of the commit".to_owned()]))
            }
        }
    }

    /// Commits a delta on top of HEAD.
    pub(super) fn commit(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        wording: Wording<'_>,
        head: &Head,
        delta: &Delta,
        notes: Vec<String>,
    ) -> Result<Settlement, RunError> {
        let plan = checkpointer.plan_commit(head, delta)?;
        self.commit_planned(checkpointer, step, wording, &plan, delta, notes)
    }

    /// Makes a commit that was planned.
    pub(super) fn commit_planned(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        wording: Wording<'_>,
        plan: &CommitPlan,
        delta: &Delta,
        mut notes: Vec<String>,
    ) -> Result<Settlement, RunError> {
        notes.extend(checkpointer.check_secrets(plan)?);
        notes.extend(plan.notes().into_iter().chain(wording.notes.iter().cloned()));
        if plan.is_empty() {
            return self.nothing_to_commit(checkpointer, step, plan, delta);
        }
        self.announce_hooks(checkpointer, step)?;
        let asked_by = self.state.as_ref().and_then(|state| state.frames.last()).map(|frame| &frame.directive);
        let written = self.written(checkpointer.repository(), wording, &plan.changes);
        let text = message::compose(&MessageParts {
            given: wording.given.or(written.as_deref()),
            operation: wording.operation.or(Some(wording.name)),
            changes: &plan.changes,
            directive: asked_by.map(|directive| directive.name.as_str()).or(wording.directive),
            trailers: Trailers {
                run: self.run.to_string(),
                step: format!("{step} {}", wording.name),
                tool: wording.tool.map(str::to_owned),
                directive: asked_by.map(|directive| format!("{}@{}", directive.name, directive.version)),
                journal: self.journal_head().to_string(),
                undoes: wording.undoes.to_vec(),
            },
        })?;
        let text = checkpointer.edit_message(plan, text, &self.run.to_string(), self.ctx.now())?;
        let prepared = checkpointer.prepare_commit(plan, &text, self.ctx.now())?;
        failpoint("commit-prepared");
        self.record(&Event::Decided {
            step,
            decision: decided(&prepared, plan, wording.undoes.first().copied(), None),
        })?;
        failpoint("commit-decided");
        let commit = prepared.new;
        prepared.move_branch()?;
        // No `?` into a failed checkpoint from here on: the branch has the commit.
        prepared.finish().map_err(RunError::Unfinished)?;
        failpoint("commit-applied");
        self.committed(checkpointer, step, plan, commit, text, notes)
    }

    /// Writes down that the branch has a commit.
    pub(super) fn committed(
        &mut self,
        checkpointer: &mut Checkpointer,
        step: u32,
        plan: &CommitPlan,
        commit: ObjectId,
        message: String,
        mut notes: Vec<String>,
    ) -> Result<Settlement, RunError> {
        if plan.head.branch.is_none() {
            let name = StepId { run: self.run, step }.kept("commit");
            checkpointer.repository().keep_commits(&name, &[commit])?;
            notes.push("HEAD is detached: no branch has this commit, but piton keeps a copy of it".to_owned());
        }
        let sums = |count: fn(&crate::checkpoint::delta::Change) -> u64| plan.changes.iter().map(count).sum();
        let (insertions, deletions) = (sums(|change| change.insertions), sums(|change| change.deletions));
        let files_changed = plan.changes.len() as u64;
        self.record(&Event::Committed {
            step,
            commit,
            message,
            files_changed,
            insertions,
            deletions,
            adopted: plan.adopted.clone(),
            notes,
        })?;
        checkpointer.run_post_commit(&self.run.to_string(), self.ctx.now());
        Ok(Settlement::of(CheckpointSummary {
            status: CheckpointStatus::Committed,
            commit_sha: Some(commit),
            files_changed,
            insertions,
            deletions,
        }))
    }

    /// The step committed everything itself, or changed only what no commit records.
    fn nothing_to_commit(
        &mut self,
        checkpointer: &Checkpointer,
        step: u32,
        plan: &CommitPlan,
        delta: &Delta,
    ) -> Result<Settlement, RunError> {
        if let Some(tip) = plan.adopted.last() {
            let message = checkpointer.message_of(*tip)?;
            let checkpoint = counted(CheckpointStatus::Committed, Some(*tip), delta);
            self.record(&Event::Committed {
                step,
                commit: *tip,
                message,
                files_changed: checkpoint.files_changed,
                insertions: checkpoint.insertions,
                deletions: checkpoint.deletions,
                adopted: plan.adopted.clone(),
                notes: vec!["the step made its commits itself".to_owned()],
            })?;
            return Ok(Settlement::of(checkpoint));
        }
        if !plan.cleaned.is_empty() {
            checkpointer.finish_index(plan)?;
        }
        self.record(&Event::CheckpointSkipped { step, reason: plan.why_empty() })?;
        Ok(Settlement::of(summary(CheckpointStatus::NoChanges)))
    }

    /// Writes down that there is no checkpoint, loudly. The changes stay on disk. Where the disk is at fault nothing is
    /// written down: a recovery brings the step to an end.
    pub(super) fn failed(&mut self, step: u32, err: CheckpointError) -> Result<Settlement, RunError> {
        if err.is_fault_of_system() {
            return Err(self.unsettled(err.into()));
        }
        let error = Problem::of(&err);
        self.record(&Event::CheckpointFailed {
            step,
            code: error.code,
            message: error.message(),
            suggestion: error.hint.clone(),
        })?;
        let interrupted = err.is_interrupted();
        Ok(Settlement { error: Some(error), interrupted, ..Settlement::of(summary(CheckpointStatus::Failed)) })
    }
}

impl Settlement {
    pub(super) fn of(checkpoint: CheckpointSummary) -> Self {
        Self { checkpoint: Some(checkpoint), ..Self::default() }
    }
}

/// That a prepared commit is to be made.
pub(super) fn decided(
    prepared: &PreparedCommit<'_>,
    plan: &CommitPlan,
    undoes: Option<ObjectId>,
    parents: Option<Vec<ObjectId>>,
) -> Decision {
    Decision::Commit {
        target: prepared.target.clone(),
        old: prepared.old,
        new: prepared.new,
        tree: plan.tree,
        index: prepared.index.clone(),
        delta: plan.changes.clone(),
        undoes,
        parents,
    }
}

/// Whether a step changed what is staged, as far as that is its own.
pub(super) fn stages(before: &Snapshot, after: &Snapshot) -> bool {
    before.index_tree != after.index_tree || before.announced != after.announced
}

fn counted(status: CheckpointStatus, commit_sha: Option<ObjectId>, delta: &Delta) -> CheckpointSummary {
    CheckpointSummary {
        status,
        commit_sha,
        files_changed: delta.changes.len() as u64,
        insertions: delta.insertions(),
        deletions: delta.deletions(),
    }
}
