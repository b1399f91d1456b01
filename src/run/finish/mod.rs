//! Closing a run: its commits come home, or stay on a branch of their own.
//!
//! A finish is a run of its own with one step, decided before it is carried out like any other. First
//! everything is judged in memory; a conflict, or work of the user's in the same lines, stops it
//! before anything moves. [`FinishRequest`] is what is asked for, [`finish`] does it.

mod error;
mod judgement;
mod tidy;

pub use error::{Clash, FinishError};
pub use tidy::tidy_after;

use std::collections::BTreeSet;

use serde::Serialize;

use super::error::RunError;
use super::session::{Observer, RunRequest, Session, open_checkpointer};
use super::settle::{Reversal, Settlement, decided};
use super::step::{StepEnd, summary};
use super::undo::error::UndoError;
use crate::audit::history::History;
use crate::audit::retention::kept_steps;
use crate::checkpoint::attribution::Ownership;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::commit::CommitPlan;
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::integration::Integration;
use crate::checkpoint::message::{self, MessageParts, Trailers};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::context::Context;
use crate::failpoint::failpoint;
use crate::journal::RunId;
use crate::journal::event::{Event, FinishHow, StepKind};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, RunSummary, StepStatus};
use crate::problem::{Problem, with_causes};
use judgement::{Judgement, Way, judge};

/// A run to close.
#[derive(Clone, Debug)]
pub struct FinishRequest {
    /// The run.
    pub run: RunId,
    /// What becomes of its commits.
    pub how: FinishHow,
    /// The message of the commit, instead of a generated one.
    pub message: Option<String>,
}

/// What closing a run would do.
#[derive(Clone, Debug, Serialize)]
pub struct FinishPreview {
    /// The run.
    pub run: RunId,
    /// What becomes of its commits.
    pub how: FinishHow,
    /// What happens to the current branch, in words.
    pub way: String,
    /// The commits that come home or give way, oldest first.
    pub commits: Vec<ObjectId>,
    /// The files that change.
    pub files: Vec<RepoPath>,
    /// What is good to know.
    pub notes: Vec<String>,
}

/// What closing a run did.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How the run of the finish ended.
    pub summary: RunSummary,
    /// What happened to the current branch, in words.
    pub way: String,
    /// What is good to know.
    pub notes: Vec<String>,
}

/// Looks at what closing a run would do.
pub fn preview(ctx: &Context, request: &FinishRequest) -> Result<FinishPreview, RunError> {
    let mut checkpointer = open_checkpointer(ctx)?;
    let judgement = judge_now(&checkpointer, request)?;
    let mut changes = Vec::new();
    if judgement.home().is_some() {
        checkpointer.require_undoable()?;
        let now = judged_state(&mut checkpointer, &judgement)?;
        changes = plan_home(&mut checkpointer, &now, &judgement)?.commit.changes;
    }
    let files = changes.into_iter().map(|change: Change| change.path).collect();
    let (run, how, way) = (judgement.run, request.how, judgement.in_words());
    Ok(FinishPreview { run, how, way, commits: judgement.commits, files, notes: judgement.notes })
}

/// Closes a run.
pub fn finish(
    ctx: &Context,
    request: &FinishRequest,
    run: &RunRequest,
    observer: &mut Observer<'_>,
) -> Result<Finished, RunError> {
    message::check(request.message.as_deref(), "finish")?;
    // What cannot be finished leaves no trace in the log.
    judge_now(&open_checkpointer(ctx)?, request)?;
    let mut session = Session::begin(ctx, run, observer)?;
    let judged = session.finish_run(request);
    let (end, judgement) = match judged {
        Ok(done) => done,
        Err(err) => {
            session.abandon(&err)?;
            return Err(err);
        }
    };
    let mut notes = judgement.notes.clone();
    if end.status == StepStatus::Succeeded {
        failpoint("finish-closed");
        match tidy::tidy(ctx, session.repository()?, request) {
            Ok(told) => notes.extend(told),
            // The run is closed; what is left of it is in nobody's way.
            Err(err) => notes.push(with_causes(&err)),
        }
    }
    let summary = session.finish(end.run_status(), end.error)?;
    Ok(Finished { summary, way: judgement.in_words(), notes })
}

fn judge_now(checkpointer: &Checkpointer, request: &FinishRequest) -> Result<Judgement, RunError> {
    let repository = checkpointer.repository();
    let (history, _) = History::load(&repository.runs_folder())?;
    judge(repository, &history, request)
}

/// The work tree as it is, if HEAD is where it was judged: a commit that was made since would be lost.
fn judged_state(checkpointer: &mut Checkpointer, judgement: &Judgement) -> Result<Snapshot, RunError> {
    let now = checkpointer.before()?;
    match judgement.head.moved_to(&now.head) {
        Some(err) => Err(err.into()),
        None => Ok(now),
    }
}

/// How the work tree gets what comes home, or which work of the user's excludes that.
fn plan_home(checkpointer: &mut Checkpointer, now: &Snapshot, judgement: &Judgement) -> Result<Integration, RunError> {
    let (tree, parents) = judgement.home().ok_or(UndoError::NothingToUndo)?;
    let integration = checkpointer.plan_integration(now, tree, parents)?;
    if !integration.overlaps.is_empty() {
        return Err(FinishError::Overlap(integration.overlaps).into());
    }
    Ok(integration)
}

impl Judgement {
    /// The files that come home, and what their commit is built on; none when the files stay as they are.
    fn home(&self) -> Option<(ObjectId, Vec<ObjectId>)> {
        match &self.way {
            Way::FastForward { tree } => Some((*tree, Vec::new())),
            Way::Commit { tree, parents } => Some((*tree, parents.clone())),
            Way::Close | Way::MakeBranch { .. } | Way::Replace { .. } => None,
        }
    }

    /// What happens to the current branch.
    fn in_words(&self) -> String {
        let commits = match self.commits.len() {
            1 => "1 commit".to_owned(),
            count => format!("{count} commits"),
        };
        match &self.way {
            Way::Close => "closed; no branch moves".to_owned(),
            Way::MakeBranch { name, .. } => {
                format!("closed; its commits are on `{}`", name.strip_prefix("refs/heads/").unwrap_or(name))
            }
            Way::FastForward { .. } => format!("closed; the current branch moves on by its {commits}"),
            Way::Commit { parents, .. } if parents.len() > 1 => {
                format!("closed; its {commits} are merged into the current branch")
            }
            Way::Commit { .. } => format!("closed; its {commits} come to the current branch as one"),
            Way::Replace { .. } => format!("closed; its {commits} on the current branch become one"),
        }
    }
}

impl Session<'_, '_> {
    fn finish_run(&mut self, request: &FinishRequest) -> Result<(StepEnd, Judgement), RunError> {
        let missing = || CheckpointError::NoRepository(self.ctx.root.clone());
        let mut checkpointer = self.checkpointer.take().ok_or_else(missing)?;
        // Judged again: with the lock held and everything that was cut off brought to an end.
        let done = judge_now(&checkpointer, request).and_then(|judgement| {
            failpoint("finish-judged");
            let settlement = self.carry_out_finish(&mut checkpointer, request, &judgement)?;
            Ok((settlement, judgement))
        });
        self.checkpointer = Some(checkpointer);
        let (settlement, judgement) = done.map_err(|err| self.unsettled(err))?;
        let status = if settlement.error.is_none() { StepStatus::Succeeded } else { StepStatus::Failed };
        let step = self.next_step();
        let error = settlement.error;
        self.finish_step(step, &judgement.step_name(), status, None, settlement.checkpoint, error.as_ref())?;
        Ok((StepEnd { status, error, interrupted: false, command_status: None }, judgement))
    }

    fn carry_out_finish(
        &mut self,
        checkpointer: &mut Checkpointer,
        request: &FinishRequest,
        judgement: &Judgement,
    ) -> Result<Settlement, RunError> {
        let kind = StepKind::Finish { of: judgement.run, how: request.how, tip: judgement.tip };
        match &judgement.way {
            Way::Close | Way::MakeBranch { .. } => self.only_close(checkpointer, request, judgement, kind),
            Way::Replace { tree, parents } => {
                let before = judged_state(checkpointer, judgement)?;
                self.begin_finish(checkpointer, request, judgement, kind, &before)?;
                self.replace_commits(checkpointer, request, judgement, &before, *tree, parents)
            }
            Way::FastForward { .. } | Way::Commit { .. } => {
                let now = judged_state(checkpointer, judgement)?;
                let integration = plan_home(checkpointer, &now, judgement)?;
                let mut notes = Vec::new();
                if matches!(judgement.way, Way::Commit { .. }) {
                    notes.extend(checkpointer.check_secrets(&integration.commit)?);
                }
                self.begin_finish(checkpointer, request, judgement, kind, &now)?;
                self.bring_home(checkpointer, request, judgement, &now, &integration, notes)
            }
        }
    }

    /// Writes down what is about to happen, and keeps what is squashed.
    fn begin_finish(
        &mut self,
        checkpointer: &Checkpointer,
        request: &FinishRequest,
        judgement: &Judgement,
        kind: StepKind,
        before: &Snapshot,
    ) -> Result<(), RunError> {
        let step = self.next_step();
        self.open(step, &judgement.step_name(), kind, Some(before.clone()), &[])?;
        keep_steps(checkpointer, request, judgement)
    }

    /// Neither branch nor files move.
    fn only_close(
        &mut self,
        checkpointer: &Checkpointer,
        request: &FinishRequest,
        judgement: &Judgement,
        kind: StepKind,
    ) -> Result<Settlement, RunError> {
        let step = self.next_step();
        self.open(step, &judgement.step_name(), kind, None, &[])?;
        keep_steps(checkpointer, request, judgement)?;
        if let Way::MakeBranch { name, at } = &judgement.way {
            checkpointer.repository().make_branch(name, *at)?;
        }
        let reason = format!("run {} is {}", judgement.short, judgement.in_words());
        self.record(&Event::CheckpointSkipped { step, reason })?;
        Ok(Settlement { checkpoint: None, ..Settlement::of(summary(CheckpointStatus::Skipped)) })
    }

    /// Puts one commit in the place of several; the files stay as they are.
    fn replace_commits(
        &mut self,
        checkpointer: &mut Checkpointer,
        request: &FinishRequest,
        judgement: &Judgement,
        before: &Snapshot,
        tree: ObjectId,
        parents: &[ObjectId],
    ) -> Result<Settlement, RunError> {
        let step = self.next_step();
        self.record(&Event::ChangesFound {
            step,
            after: before.clone(),
            delta: Delta::default(),
            outside: Vec::new(),
        })?;
        let planned = checkpointer.plan_of_tree(before.head.clone(), tree, parents.to_vec()).and_then(|plan| {
            let base = match parents.first() {
                Some(parent) => checkpointer.repository().find_commit(*parent)?.map(|facts| facts.tree),
                None => None,
            };
            let changes =
                checkpointer.repository().changes(base.unwrap_or(checkpointer.repository().empty_tree()), tree)?;
            Ok(CommitPlan { changes, ..plan })
        });
        let committed = planned
            .map_err(RunError::from)
            .and_then(|plan| self.commit_finish(checkpointer, request, judgement, &plan, Vec::new()));
        match committed {
            Err(RunError::Checkpoint(err)) => self.failed(step, err),
            settled => settled,
        }
    }

    /// Writes the files, then moves the branch and the index; if that cannot be, the files are put back.
    fn bring_home(
        &mut self,
        checkpointer: &mut Checkpointer,
        request: &FinishRequest,
        judgement: &Judgement,
        before: &Snapshot,
        integration: &Integration,
        notes: Vec<String>,
    ) -> Result<Settlement, RunError> {
        let step = self.next_step();
        let shortfall = checkpointer.apply(&integration.plan, before, &Delta::default())?.shortfall();
        failpoint("finish-applied");
        // What somebody else does meanwhile is not ours to commit or to put back.
        let own: BTreeSet<&RepoPath> = integration.plan.files.iter().map(|file| &file.path).collect();
        let own = |path: &RepoPath| own.contains(path);
        let found = self.find_own(checkpointer, step, before, Ownership { has: &own, index: false, doubt: None })?;
        if found.delta.is_empty() && before.head == found.after.head && found.outside.is_empty() {
            let (after, delta, outside) = (found.after.clone(), found.delta.clone(), Vec::new());
            self.record(&Event::ChangesFound { step, after, delta, outside })?;
        }
        let committed = match before.head.moved_to(&found.after.head).or(shortfall) {
            Some(err) => Err(err.into()),
            None => self.commit_finish(checkpointer, request, judgement, &integration.commit, notes),
        };
        match committed {
            Err(RunError::Checkpoint(err)) => {
                // The branch stays where it was, and so do the files.
                let unmoved = Snapshot { head: before.head.clone(), ..found.after.clone() };
                let reason = "the run could not be brought home";
                let mut settlement =
                    self.roll_back(checkpointer, step, Reversal::by_answer(reason), before, &unmoved, &found.delta)?;
                settlement.error.get_or_insert(Problem::of(&err));
                Ok(settlement)
            }
            settled => settled,
        }
    }

    /// Makes the commit, where there is one to make, and moves the branch.
    fn commit_finish(
        &mut self,
        checkpointer: &mut Checkpointer,
        request: &FinishRequest,
        judgement: &Judgement,
        plan: &CommitPlan,
        notes: Vec<String>,
    ) -> Result<Settlement, RunError> {
        let step = self.next_step();
        let theirs = judgement.tip.filter(|_| matches!(judgement.way, Way::FastForward { .. }));
        let (prepared, text) = if let Some(tip) = theirs {
            let text = checkpointer.message_of(tip)?;
            (checkpointer.prepare_onto(plan, tip, &text)?, text)
        } else {
            self.announce_hooks(checkpointer, step)?;
            let text = self.message_of_finish(request, judgement, plan)?;
            let text = checkpointer.edit_message(plan, text, &self.run.to_string(), self.ctx.now())?;
            (checkpointer.prepare_commit(plan, &text, self.ctx.now())?, text)
        };
        failpoint("finish-prepared");
        let is_ours = theirs.is_none();
        let parents = is_ours.then(|| plan.parents.clone());
        self.record(&Event::Decided { step, decision: decided(&prepared, plan, None, parents) })?;
        failpoint("finish-decided");
        let commit = prepared.new;
        prepared.move_branch()?;
        // No `?` into a roll back from here on: the branch has the commits.
        prepared.finish().map_err(RunError::Unfinished)?;
        failpoint("finish-moved");
        if is_ours {
            return self.committed(checkpointer, step, plan, commit, text, notes);
        }
        let sums = |count: fn(&Change) -> u64| plan.changes.iter().map(count).sum();
        let (insertions, deletions) = (sums(|change| change.insertions), sums(|change| change.deletions));
        let files_changed = plan.changes.len() as u64;
        let notes = vec![format!("the branch moved on to the commits of run {}", judgement.short)];
        let adopted = judgement.commits.clone();
        let message = text;
        self.record(&Event::Committed { step, commit, message, files_changed, insertions, deletions, adopted, notes })?;
        let (status, commit_sha) = (CheckpointStatus::Committed, Some(commit));
        Ok(Settlement::of(CheckpointSummary { status, commit_sha, files_changed, insertions, deletions }))
    }

    fn message_of_finish(
        &self,
        request: &FinishRequest,
        judgement: &Judgement,
        plan: &CommitPlan,
    ) -> Result<String, RunError> {
        let merging = format!("merge run {} {}", judgement.short, judgement.name);
        let is_merge = plan.parents.len() > 1;
        let given = request.message.as_deref().or_else(|| is_merge.then_some(merging.as_str()));
        let directive = judgement.directive.as_deref();
        Ok(message::compose(&MessageParts {
            given,
            operation: Some(&judgement.name),
            changes: &plan.changes,
            directive: directive.map(|name| name.split_once('@').map_or(name, |(id, _)| id)),
            trailers: Trailers {
                run: self.run.to_string(),
                step: format!("{} {}", self.next_step(), judgement.step_name()),
                tool: None,
                directive: directive.filter(|name| name.contains('@')).map(str::to_owned),
                journal: self.journal_head().to_string(),
                undoes: Vec::new(),
            },
        })?)
    }
}

impl Judgement {
    /// The name of the step, short enough whatever the run is called.
    fn step_name(&self) -> String {
        format!("finish {}", self.short)
    }
}

/// Keeps the commits that are squashed, under a name that is no ref.
fn keep_steps(checkpointer: &Checkpointer, request: &FinishRequest, judgement: &Judgement) -> Result<(), RunError> {
    if let (FinishHow::Squash, Some(tip)) = (request.how, judgement.tip) {
        // The commits of the run, and those of other runs and of people on its branch.
        let commits = match judgement.commits.last() {
            Some(last) if *last == tip => judgement.commits.clone(),
            _ => vec![tip],
        };
        checkpointer.repository().keep_commits(&kept_steps(judgement.run), &commits)?;
    }
    Ok(())
}
