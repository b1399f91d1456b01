//! Carries out a planned finish as one step: writes the files, then moves the branch and the index.

use std::collections::BTreeSet;

use super::judgement::{BranchOutcome, Judgement};
use super::{FinishRequest, judge_now, judged_state, plan_home};
use crate::audit::retention::kept_steps;
use crate::checkpoint::attribution::Ownership;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::commit::CommitPlan;
use crate::checkpoint::delta::{Change, Delta};
use crate::checkpoint::integration::Integration;
use crate::checkpoint::message::{self, MessageParts, Trailers};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::snapshot::Snapshot;
use crate::failpoint::failpoint;
use crate::journal::event::{Event, FinishHow, StepKind};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, StepStatus};
use crate::problem::Problem;
use crate::run::error::RunError;
use crate::run::recorder::Recorder;
use crate::run::session::Session;
use crate::run::settle::{self, Reversal, Settlement, decided};
use crate::run::step::{StepEnd, summary};
use crate::run::{manual_commits, unsettled};

pub(super) fn finish_run(
    session: &mut Session<'_>,
    request: &FinishRequest,
) -> Result<(StepEnd, Judgement), RunError> {
    let (recorder, checkpointer) = session.with_git()?;
    // Plan again, now with the lock held and interrupted runs recovered.
    let done = judge_now(checkpointer, request).and_then(|judgement| {
        failpoint("finish-judged");
        let settlement = carry_out_finish(recorder, checkpointer, request, &judgement)?;
        Ok((settlement, judgement))
    });
    let (settlement, judgement) = done.map_err(|err| unsettled::explain(recorder, err))?;
    let status = if settlement.error.is_none() {
        StepStatus::Succeeded
    } else {
        StepStatus::Failed
    };
    let step = recorder.next_step();
    let error = settlement.error;
    recorder.finish_step(
        step,
        &judgement.step_name(),
        status,
        None,
        settlement.checkpoint,
        error.as_ref(),
    )?;
    Ok((
        StepEnd {
            status,
            error,
            interrupted: false,
            command_status: None,
        },
        judgement,
    ))
}

fn carry_out_finish(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    request: &FinishRequest,
    judgement: &Judgement,
) -> Result<Settlement, RunError> {
    let kind = StepKind::Finish {
        of: judgement.run,
        how: request.how,
        tip: judgement.tip,
    };
    match &judgement.way {
        BranchOutcome::Close | BranchOutcome::MakeBranch { .. } => {
            only_close(recorder, checkpointer, request, judgement, kind)
        }
        BranchOutcome::Replace { tree, parents } => {
            let before = judged_state(checkpointer, judgement)?;
            begin_finish(recorder, checkpointer, request, judgement, kind, &before)?;
            replace_commits(
                recorder,
                checkpointer,
                request,
                judgement,
                &before,
                *tree,
                parents,
            )
        }
        BranchOutcome::FastForward { .. } | BranchOutcome::Commit { .. } => {
            let now = judged_state(checkpointer, judgement)?;
            let integration = plan_home(checkpointer, &now, judgement)?;
            let mut notes = Vec::new();
            if matches!(judgement.way, BranchOutcome::Commit { .. }) {
                notes.extend(checkpointer.check_secrets(&integration.commit)?);
            }
            begin_finish(recorder, checkpointer, request, judgement, kind, &now)?;
            bring_home(
                recorder,
                checkpointer,
                request,
                judgement,
                &now,
                &integration,
                notes,
            )
        }
    }
}

/// Records the decision, and protects the commits that are squashed.
fn begin_finish(
    recorder: &mut Recorder<'_>,
    checkpointer: &Checkpointer,
    request: &FinishRequest,
    judgement: &Judgement,
    kind: StepKind,
    before: &Snapshot,
) -> Result<(), RunError> {
    let step = recorder.next_step();
    recorder.open(
        step,
        &judgement.step_name(),
        kind,
        Some(before.clone()),
        &[],
    )?;
    keep_steps(checkpointer, request, judgement)
}

/// Records the finish; neither branch nor files change.
fn only_close(
    recorder: &mut Recorder<'_>,
    checkpointer: &Checkpointer,
    request: &FinishRequest,
    judgement: &Judgement,
    kind: StepKind,
) -> Result<Settlement, RunError> {
    let step = recorder.next_step();
    recorder.open(step, &judgement.step_name(), kind, None, &[])?;
    keep_steps(checkpointer, request, judgement)?;
    if let BranchOutcome::MakeBranch { name, at } = &judgement.way {
        checkpointer.repository().make_branch(name, *at)?;
    }
    let reason = format!("run {} is {}", judgement.short, judgement.description());
    recorder.record(&Event::CheckpointSkipped { step, reason })?;
    Ok(Settlement {
        checkpoint: None,
        ..Settlement::of(summary(CheckpointStatus::Skipped))
    })
}

/// Replaces several commits by one; the files stay as they are.
fn replace_commits(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    request: &FinishRequest,
    judgement: &Judgement,
    before: &Snapshot,
    tree: ObjectId,
    parents: &[ObjectId],
) -> Result<Settlement, RunError> {
    let step = recorder.next_step();
    recorder.record(&Event::ChangesFound {
        step,
        after: before.clone(),
        delta: Delta::default(),
        outside: Vec::new(),
    })?;
    let planned = checkpointer
        .plan_of_tree(before.head.clone(), tree, parents.to_vec())
        .and_then(|plan| {
            let base = match parents.first() {
                Some(parent) => checkpointer
                    .repository()
                    .find_commit(*parent)?
                    .map(|facts| facts.tree),
                None => None,
            };
            let changes = checkpointer
                .repository()
                .changes(base.unwrap_or(checkpointer.repository().empty_tree()), tree)?;
            Ok(CommitPlan { changes, ..plan })
        });
    let committed = planned.map_err(RunError::from).and_then(|plan| {
        commit_finish(
            recorder,
            checkpointer,
            request,
            judgement,
            &plan,
            Vec::new(),
        )
    });
    match committed {
        Err(RunError::Checkpoint(err)) => settle::failed(recorder, step, err),
        settled => settled,
    }
}

/// Writes the files, then moves the branch and the index; on failure it restores the files.
fn bring_home(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    request: &FinishRequest,
    judgement: &Judgement,
    before: &Snapshot,
    integration: &Integration,
    notes: Vec<String>,
) -> Result<Settlement, RunError> {
    let step = recorder.next_step();
    let shortfall = checkpointer
        .apply(&integration.plan, before, &Delta::default())?
        .shortfall();
    failpoint("finish-applied");
    // Concurrent changes by other processes are neither committed nor rolled back.
    let own: BTreeSet<&RepoPath> = integration
        .plan
        .files
        .iter()
        .map(|file| &file.path)
        .collect();
    let own = |path: &RepoPath| own.contains(path);
    let found = settle::find_own(
        recorder,
        checkpointer,
        step,
        before,
        Ownership {
            has: &own,
            index: false,
            definition: false,
            ..Ownership::EVERYTHING
        },
    )?;
    if found.delta.is_empty() && before.head == found.after.head && found.outside.is_empty() {
        let (after, delta, outside) = (found.after.clone(), found.delta.clone(), Vec::new());
        recorder.record(&Event::ChangesFound {
            step,
            after,
            delta,
            outside,
        })?;
    }
    let committed = match before.head.moved_to(&found.after.head).or(shortfall) {
        Some(err) => Err(err.into()),
        None => commit_finish(
            recorder,
            checkpointer,
            request,
            judgement,
            &integration.commit,
            notes,
        ),
    };
    match committed {
        Err(RunError::Checkpoint(err)) => {
            // The branch and the files keep their old state.
            let unmoved = Snapshot {
                head: before.head.clone(),
                ..found.after.clone()
            };
            let reason = "the run could not be merged";
            let mut settlement = settle::roll_back(
                recorder,
                checkpointer,
                step,
                Reversal::by_answer(reason),
                before,
                &unmoved,
                &found.delta,
            )?;
            settlement.error.get_or_insert(Problem::of(&err));
            Ok(settlement)
        }
        settled => settled,
    }
}

/// Makes the commit if one is needed, and moves the branch.
fn commit_finish(
    recorder: &mut Recorder<'_>,
    checkpointer: &mut Checkpointer,
    request: &FinishRequest,
    judgement: &Judgement,
    plan: &CommitPlan,
    notes: Vec<String>,
) -> Result<Settlement, RunError> {
    let step = recorder.next_step();
    let theirs = judgement
        .tip
        .filter(|_| matches!(judgement.way, BranchOutcome::FastForward { .. }));
    let (prepared, text) = if let Some(tip) = theirs {
        let text = checkpointer.message_of(tip)?;
        (checkpointer.prepare_onto(plan, tip, &text)?, text)
    } else {
        manual_commits::announce_hooks(recorder, checkpointer, step)?;
        let text = message_of_finish(recorder, request, judgement, plan)?;
        let text =
            checkpointer.edit_message(plan, text, &recorder.run.to_string(), recorder.ctx.now())?;
        (
            checkpointer.prepare_commit(plan, &text, recorder.ctx.now())?,
            text,
        )
    };
    failpoint("finish-prepared");
    let is_ours = theirs.is_none();
    let parents = is_ours.then(|| plan.parents.clone());
    recorder.record(&Event::Decided {
        step,
        decision: decided(&prepared, plan, None, parents),
    })?;
    failpoint("finish-decided");
    let commit = prepared.new;
    prepared.move_branch()?;
    // No `?` that leads to a roll back from here on: the branch already has the commits.
    prepared.finish().map_err(RunError::Unfinished)?;
    failpoint("finish-moved");
    if is_ours {
        return settle::committed(recorder, checkpointer, step, plan, commit, text, notes);
    }
    let sums = |count: fn(&Change) -> u64| plan.changes.iter().map(count).sum();
    let (insertions, deletions) = (
        sums(|change| change.insertions),
        sums(|change| change.deletions),
    );
    let files_changed = plan.changes.len() as u64;
    let notes = vec![format!(
        "the branch was fast-forwarded to the commits of run {}",
        judgement.short
    )];
    let adopted = judgement.commits.clone();
    let message = text;
    recorder.record(&Event::Committed {
        step,
        commit,
        message,
        files_changed,
        insertions,
        deletions,
        adopted,
        notes,
    })?;
    let (status, commit_sha) = (CheckpointStatus::Committed, Some(commit));
    Ok(Settlement::of(CheckpointSummary {
        status,
        commit_sha,
        files_changed,
        insertions,
        deletions,
    }))
}

fn message_of_finish(
    recorder: &Recorder<'_>,
    request: &FinishRequest,
    judgement: &Judgement,
    plan: &CommitPlan,
) -> Result<String, RunError> {
    let merging = format!("merge run {} {}", judgement.short, judgement.name);
    let is_merge = plan.parents.len() > 1;
    let given = request
        .message
        .as_deref()
        .or_else(|| is_merge.then_some(merging.as_str()));
    let directive = judgement.directive.as_deref();
    Ok(message::compose(&MessageParts {
        given,
        operation: Some(&judgement.name),
        changes: &plan.changes,
        directive: directive.map(|name| name.split_once('@').map_or(name, |(id, _)| id)),
        trailers: Trailers {
            run: recorder.run.to_string(),
            step: format!("{} {}", recorder.next_step(), judgement.step_name()),
            tool: None,
            directive: directive
                .filter(|name| name.contains('@'))
                .map(str::to_owned),
            journal: recorder.journal_head().to_string(),
            undoes: Vec::new(),
        },
    })?)
}

/// Protects the squashed commits by a name in the private store, not by a ref.
fn keep_steps(
    checkpointer: &Checkpointer,
    request: &FinishRequest,
    judgement: &Judgement,
) -> Result<(), RunError> {
    if let (FinishHow::Squash, Some(tip)) = (request.how, judgement.tip) {
        // The commits of the run, of other runs and of people on its branch.
        let commits = match judgement.commits.last() {
            Some(last) if *last == tip => judgement.commits.clone(),
            _ => vec![tip],
        };
        checkpointer
            .repository()
            .keep_commits(&kept_steps(judgement.run), &commits)?;
    }
    Ok(())
}
