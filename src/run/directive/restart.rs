//! Restarts a run that has ended without success.
//!
//! The run starts at the failed step, at a named step, or after the failed step. It uses the
//! current directives and tools; completed steps are matched by name. [`Restarted`] tells a person
//! what to know before anything runs; the journal has the rest.

use serde_json::Value;

use super::state::{DirectiveFrame, RunState};
use super::{Run, RunInput};
use crate::audit::history::{StepOutcome, StepRecord};
use crate::checkpoint::path::listed;
use crate::context::principal::Principal;
use crate::failpoint::failpoint;
use crate::item::directive::{Directive, Step, StepAction};
use crate::journal::RunId;
use crate::journal::event::{ChangedItem, Event, Restart};
use crate::journal::summary::{RunStatus, StepStatus, StepSummary};
use crate::run::directive::pin::LoadedPin;
use crate::run::error::{RestartError, RunError};
use crate::run::session::EndedRun;
use crate::run::unfinished_note;

/// Where an ended run restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StartAt {
    #[default]
    Failed,
    /// At the step with this name.
    Step(String),
    Skip,
}

/// How a run was restarted, for a person.
#[derive(Clone, Debug, Default)]
pub struct Restarted {
    /// The first step; empty if only the end of the directive is left.
    pub step: String,
    /// The items that have changed.
    pub changed: Vec<ChangedItem>,
    /// The changes of directives, as a unified diff.
    pub diff: Vec<u8>,
    /// What happens to the earlier work.
    pub notes: Vec<String>,
    pub warnings: Vec<String>,
}

impl Run<'_> {
    /// Records where an ended run restarts; writes nothing if it cannot. Returns the rest of the
    /// input.
    pub(super) fn begin_again(
        &mut self,
        ended: &EndedRun,
        start: &StartAt,
        input: RunInput,
    ) -> Result<RunInput, RunError> {
        let run = self.id();
        let (is_retry, result) = answer_to_ended(run, ended.status, input)?;
        let Some(state) = self.state() else {
            return Err(RunError::NothingAsked(run));
        };
        let today: Vec<Option<LoadedPin>> = state
            .frames
            .iter()
            .map(|frame| ended.before.today_of(&frame.content, &self.pinned))
            .collect();
        let directives: Vec<Option<&Directive>> = today
            .iter()
            .map(|found| found.as_ref().map(|found| &*found.directive))
            .collect();
        let mut restart = place(state, &directives, start, run)?;
        restart.ended = ended.status;
        self.require_gates(&restart, &directives)?;
        let is_at_unanswered = state.unanswered.is_some() && *start == StartAt::Failed;
        match (&state.unanswered, result) {
            (Some(step), None) if is_at_unanswered && !is_retry => {
                return Err(RestartError::Unanswered {
                    run,
                    step: step.clone(),
                }
                .into());
            }
            (Some(_), Some(result)) if is_at_unanswered => {
                restart.skip = true;
                restart.result = Some(result);
            }
            (_, Some(_)) => return Err(RunError::NothingAsked(run)),
            (_, None) => {}
        }
        let changed = ended.before.changes_to(&self.pinned);
        let mut told = explain(state, &directives, &restart, ended.newest.as_ref());
        told.diff = ended.before.diff_to(&self.pinned)?;
        told.changed.clone_from(&changed);
        let frames = today.iter().zip(&state.frames);
        let frames = frames.map(|(found, frame)| {
            found
                .as_ref()
                .map_or(&frame.content, |found| &found.content)
                .clone()
        });
        let frames: Vec<String> = frames.collect();
        self.pin_again(frames, changed)?;
        let recorder = &self.session.recorder;
        unfinished_note::set(&recorder.folders, recorder.run)?;
        failpoint("run-marked");
        let not_run: Vec<String> = restart.not_run().map(|(name, _)| name).collect();
        self.session.recorder.record(&Event::RunResumed {
            with: String::new(),
            restart: Some(Box::new(restart)),
        })?;
        let skipped = |name| StepSummary::without_changes(name, StepStatus::Skipped);
        self.session
            .recorder
            .steps
            .extend(not_run.into_iter().map(skipped));
        self.restarted = Some(told);
        Ok(RunInput::Go)
    }

    /// Saves the current items of the run, if they changed.
    fn pin_again(
        &mut self,
        frames: Vec<String>,
        changed: Vec<ChangedItem>,
    ) -> Result<(), RunError> {
        let recorder = &mut self.session.recorder;
        if !changed.is_empty() {
            let pinned = self
                .pinned
                .save_renewed(&recorder.folders.runs, recorder.run)
                .map_err(RunError::Pin)?;
            recorder.record(&Event::Repinned {
                pinned,
                frames,
                changed,
            })?;
            failpoint("run-repinned");
        }
        if let Some(label) = recorder.directive.take() {
            let root = self.pinned.root(&label).map(|root| root.label);
            recorder.directive = root.or(Some(label));
        }
        Ok(())
    }

    /// Refuses an agent that leaves out a question to a person, or a nested directive, which may
    /// contain one.
    fn require_gates(
        &self,
        restart: &Restart,
        directives: &[Option<&Directive>],
    ) -> Result<(), RunError> {
        let today = directives
            .get(restart.depth.saturating_sub(1))
            .copied()
            .flatten();
        let skipped = Some(&restart.step).filter(|_| restart.skip);
        let mut left_out = restart.passed_over.iter().chain(skipped);
        let asks = |name: &String| {
            let action = today
                .and_then(|today| find_step(today, name))
                .map(|step| &step.action);
            matches!(
                action,
                Some(StepAction::Human { .. } | StepAction::Directive { .. })
            )
        };
        if self.session.recorder.ctx.principal == Principal::Agent && left_out.any(asks) {
            return Err(RunError::PersonNeeded);
        }
        Ok(())
    }

    /// How the run was restarted; `None` if it had not ended.
    pub fn restarted(&self) -> Option<&Restarted> {
        self.restarted.as_ref()
    }
}

/// What an input means for a run that has ended: whether to retry, and a result.
fn answer_to_ended(
    run: RunId,
    ended: RunStatus,
    input: RunInput,
) -> Result<(bool, Option<Value>), RunError> {
    match input {
        RunInput::Go => Ok((false, None)),
        RunInput::Retry => Ok((true, None)),
        RunInput::Done { result, paths } if paths.is_empty() => Ok((false, result)),
        RunInput::Done { .. } | RunInput::Failed(_) => Err(RunError::NothingAsked(run)),
        RunInput::Approve { .. } | RunInput::Reject(_) | RunInput::End(_) => {
            let reason = format!("it has {}", ended.as_participle());
            Err(RunError::NotResumable { run, reason })
        }
    }
}

/// Finds the step at which a run restarts, in the current directives.
fn place(
    state: &RunState,
    today: &[Option<&Directive>],
    start: &StartAt,
    run: RunId,
) -> Result<Restart, RunError> {
    let frames = &state.frames;
    let at = |depth: usize, step: &str, element: Option<usize>| {
        let frame = frames.get(depth.saturating_sub(1));
        let known = today.get(depth.saturating_sub(1)).copied().flatten();
        Restart {
            ended: RunStatus::Failed,
            depth,
            within: frame.map(|frame| frame.name.clone()).unwrap_or_default(),
            step: step.to_owned(),
            element,
            passed_over: frame
                .zip(known)
                .map(|(frame, known)| passed_over(frame, known, step))
                .unwrap_or_default(),
            skip: *start == StartAt::Skip,
            result: None,
        }
    };
    if let StartAt::Step(name) = start {
        let found =
            frames
                .iter()
                .zip(today)
                .enumerate()
                .rev()
                .find_map(|(index, (frame, known))| {
                    let (step, element) = step_of(frame, (*known)?, name)?;
                    Some((index, step, element))
                });
        let missing = || RestartError::NoSuchStep {
            run,
            step: name.clone(),
            known: names(frames, today),
        };
        let (index, step, element) = found.ok_or_else(missing)?;
        follow(frames, today, index, run)?;
        return Ok(at(index + 1, &step, element));
    }
    let depth = follow(frames, today, frames.len().saturating_sub(1), run)?;
    let (Some(frame), Some(known)) = (frames.get(depth), today.get(depth).copied().flatten())
    else {
        let step = state
            .frames
            .last()
            .map(DirectiveFrame::position)
            .unwrap_or_default();
        return Err(RestartError::StepGone { run, step }.into());
    };
    let own = frame.step().map(|step| step.name.as_str());
    let step = match own {
        Some(name) => find_step(known, name).ok_or_else(|| RestartError::StepGone {
            run,
            step: frame.position(),
        })?,
        // All steps were done: continue with steps that were added since, or with the end.
        None => match known.steps.get(frame.place_in(known)) {
            Some(step) => step,
            None if *start == StartAt::Skip => return Err(RestartError::NothingToSkip(run).into()),
            None => return Ok(at(depth + 1, "", None)),
        },
    };
    let is_innermost = depth + 1 == frames.len();
    let element = frame
        .elements_done()
        .filter(|_| is_innermost && step.foreach.is_some());
    Ok(at(depth + 1, &step.name, element))
}

/// Follows the stack from the root directive to an inner one, as far as the current directives
/// allow; returns where that ends.
fn follow(
    frames: &[DirectiveFrame],
    today: &[Option<&Directive>],
    to: usize,
    run: RunId,
) -> Result<usize, RunError> {
    for (index, inner) in frames.iter().enumerate().take(to + 1).skip(1) {
        let (Some(caller), Some(known)) = (
            frames.get(index - 1),
            today.get(index - 1).copied().flatten(),
        ) else {
            return Ok(index - 1);
        };
        let is_known = today.get(index).copied().flatten().is_some();
        let leads_on = if inner.hook.is_some() {
            known
                .hooks
                .iter()
                .any(|hook| inner.name == caller.below(&format!("hook:{}", hook.directive)))
        } else {
            let Some(old) = caller.step() else {
                return Ok(index - 1);
            };
            let gone = || RestartError::StepGone {
                run,
                step: caller.position(),
            };
            let new = find_step(known, &old.name).ok_or_else(gone)?;
            called(&new.action).is_some() && called(&new.action) == called(&old.action)
        };
        if !leads_on || !is_known {
            return Ok(index - 1);
        }
    }
    Ok(to)
}

fn called(action: &StepAction) -> Option<&str> {
    match action {
        StepAction::Directive { item_id, .. } => Some(item_id),
        _ => None,
    }
}

fn find_step<'d>(directive: &'d Directive, name: &str) -> Option<&'d Step> {
    directive.steps.iter().find(|step| step.name == name)
}

/// The step with a full name, e.g. `release/build[2]`.
fn step_of(
    frame: &DirectiveFrame,
    today: &Directive,
    name: &str,
) -> Option<(String, Option<usize>)> {
    let local = if frame.name.is_empty() {
        name
    } else {
        name.strip_prefix(&frame.name)?.strip_prefix('/')?
    };
    if find_step(today, local).is_some() {
        return Some((local.to_owned(), None));
    }
    let (step, element) = local.strip_suffix(']')?.rsplit_once('[')?;
    let element: usize = element.parse().ok()?;
    let is_inside =
        frame.step().is_some_and(|own| own.name == step) && frame.elements_done()? >= element;
    let loops = find_step(today, step).is_some_and(|step| step.foreach.is_some());
    (is_inside && loops).then(|| (step.to_owned(), Some(element)))
}

/// Steps before a step that were never done.
fn passed_over(frame: &DirectiveFrame, today: &Directive, step: &str) -> Vec<String> {
    let before = today.steps.iter().take_while(|other| other.name != step);
    before
        .filter(|other| !frame.results.contains_key(&other.name))
        .map(|other| other.name.clone())
        .collect()
}

fn names(frames: &[DirectiveFrame], today: &[Option<&Directive>]) -> Vec<String> {
    let each = frames
        .iter()
        .zip(today)
        .filter_map(|(frame, known)| Some((frame, (*known)?)));
    each.flat_map(|(frame, known)| known.steps.iter().map(|step| frame.below(&step.name)))
        .collect()
}

/// The notes for a person before the run continues.
fn explain(
    state: &RunState,
    today: &[Option<&Directive>],
    restart: &Restart,
    newest: Option<&StepRecord>,
) -> Restarted {
    let mut told = Restarted {
        step: restart.position(),
        ..Restarted::default()
    };
    for (frame, known) in state.frames.iter().take(restart.depth).zip(today) {
        let Some(known) = known else { continue };
        for name in frame
            .results
            .keys()
            .filter(|name| find_step(known, name).is_none())
        {
            told.warnings.push(format!(
                "step `{}` was done and is no longer in the directive",
                frame.below(name)
            ));
        }
    }
    let frame = restart
        .depth
        .checked_sub(1)
        .and_then(|index| Some((state.frames.get(index)?, (*today.get(index)?)?)));
    if let Some((frame, known)) = frame {
        for name in &restart.passed_over {
            let name = frame.below(name);
            told.warnings.push(format!(
                "step `{name}` was never done and will not run: `--from {name}` starts there"
            ));
        }
        let later = known
            .steps
            .iter()
            .skip_while(|step| step.name != restart.step)
            .skip(usize::from(restart.skip));
        let again = later.filter(|step| frame.results.contains_key(&step.name));
        told.notes.extend(again.map(|step| {
            format!(
                "step `{}` was done and will run again",
                frame.below(&step.name)
            )
        }));
    }
    let failed = newest.filter(|step| restart.result.is_none() && step.name == told.step);
    if let Some(step) = failed {
        let paths = step
            .delta
            .iter()
            .flat_map(|delta| &delta.changes)
            .map(|change| change.path.clone());
        let paths: Vec<_> = paths.collect();
        let name = &step.name;
        match &step.outcome {
            StepOutcome::RolledBack { .. } => {
                told.notes
                    .push(format!("the changes of step `{name}` were rolled back"));
            }
            StepOutcome::Kept { .. } | StepOutcome::Failed { .. } if !paths.is_empty() => {
                let then = if restart.skip {
                    "it stays"
                } else {
                    "the step runs again on top of them"
                };
                told.notes.push(format!(
                    "the changes of step `{name}` are still there ({}); {then}",
                    listed(&paths)
                ));
            }
            _ => {}
        }
    }
    told
}
