//! Resumes a run that waits, was interrupted, or ended without success.
//!
//! [`Session::reopen`] takes the lock and reads how far the run got. For a run that has ended it
//! loads the current items and records nothing: the caller decides where to restart, and records
//! that.

use std::path::Path;
use std::time::Duration;

use super::{Observer, Session, find_checkpointer};
use crate::audit::history::{RunRecord, StepRecord};
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::error::CheckpointError;
use crate::context::Context;
use crate::exec::mcp::Servers;
use crate::item::directive::CheckpointMode;
use crate::item::store::ItemStore;
use crate::journal::event::Event;
use crate::journal::lock::Holder;
use crate::journal::summary::RunStatus;
use crate::journal::{Continuation, Journal, RunId, TagDemand};
use crate::run::belonging;
use crate::run::directive::StartAt;
use crate::run::directive::pin::Pinned;
use crate::run::directive::state::RunState;
use crate::run::error::{RestartError, RunError};
use crate::run::pinned_authority::PinnedAuthority;
use crate::run::recorder::Recorder;
use crate::run::recovery::{self, OnFault};
use crate::run::resume_point::ResumePoint;
use crate::run::unfinished_note;
use crate::run::worktree_lock::WorktreeLock;
use crate::workspace::{RunFolders, key_file, open_checkpointer, open_repository};

/// A resumed run.
pub(in crate::run) struct Reopened<'a> {
    pub(in crate::run) session: Session<'a>,
    pub(in crate::run) pinned: Pinned,
    /// If the run had ended. The restart is not recorded yet.
    pub(in crate::run) ended: Option<EndedRun>,
}

/// A run that had ended.
pub(in crate::run) struct EndedRun {
    pub(in crate::run) status: RunStatus,
    /// The items that it ran.
    pub(in crate::run) before: Pinned,
    pub(in crate::run) newest: Option<StepRecord>,
}

impl<'a> Session<'a> {
    /// Resumes the run of a directive that waits, was interrupted, or ended without success.
    pub(in crate::run) fn reopen(
        ctx: &'a Context,
        store: &ItemStore,
        run: RunId,
        lock_timeout: Duration,
        (start, within): (&StartAt, Option<&PinnedAuthority>),
        observer: &'a mut Observer<'_>,
    ) -> Result<Reopened<'a>, RunError> {
        let repository = open_repository(ctx);
        let lacks_git = matches!(repository, Err(CheckpointError::NoRepository(_)));
        let folders = RunFolders::of(ctx, repository.as_ref().ok());
        let continuation = Continuation {
            key: key_file(ctx).read()?,
            demand: TagDemand::Authenticated,
        };
        let (_, record) = require_unfinished(&folders, run, None, &continuation)?;
        if let Ok(repository) = &repository {
            belonging::require_own(repository, &record)?;
        }
        let mut checkpointer = find_checkpointer(ctx, record.mode)?;
        let now = ctx.now();
        let holder = Holder::of_process(run, now);
        let mut lock = WorktreeLock::acquire(ctx, &holder, &folders, lock_timeout)?;
        recovery::recover_all(
            ctx,
            checkpointer.as_mut(),
            &folders.runs,
            &mut lock,
            OnFault::Retry,
            observer,
        )?;
        let root = top_of(ctx, checkpointer.as_ref())
            .to_string_lossy()
            .into_owned();
        if record.mode == CheckpointMode::Disabled {
            checkpointer = None;
        }
        // Another process may have resumed it meanwhile.
        let found = require_unfinished(&folders, run, Some(&root), &continuation).and_then(
            |(resume_point, record)| {
                let ended = record
                    .status()
                    .filter(|status| *status != RunStatus::Waiting);
                if ended.is_none() && *start != StartAt::Failed {
                    return Err(RestartError::NotEnded(run).into());
                }
                require_free(&folders, run, ended)?;
                match &mut checkpointer {
                    Some(checkpointer) if record.mode == CheckpointMode::Auto => {
                        checkpointer.require_ready(now)?;
                    }
                    Some(checkpointer) => checkpointer.require_undoable()?,
                    None => {}
                }
                let pinned = resume_point.pinned.unwrap_or_default();
                let pinned = Pinned::load(store, &folders.runs, run, &pinned)?;
                allowed_items(ctx, store, pinned, &record, ended, within)
            },
        );
        let (pinned, ended) = match found {
            Ok(found) => found,
            Err(err) => {
                lock.release()?;
                return Err(err);
            }
        };
        let mut state = RunState::new(run);
        let before = ended.as_ref().map(|ended| ended.before.directives());
        for (content, found) in before.into_iter().flatten().chain(pinned.directives()) {
            state.know(content.clone(), found.clone());
        }
        let mut resume_point = ResumePoint::default();
        let (runs, disk) = (&folders.runs, &folders.disk);
        let journal = Journal::open(runs, run, disk, &continuation, &mut |record| {
            resume_point.take(record);
            state.apply(record.at, record.prev, &record.event);
        })?;
        let record = resume_point.run().unwrap_or(&record);
        let mut recorder = Recorder::new(ctx, record.mode, journal, folders, observer);
        recorder.state = Some(Box::new(state));
        recorder.resume(record, resume_point.steps.clone());
        if let Some(open) = record.steps.last().filter(|step| step.status.is_none()) {
            recorder.open_step = Some(open.id.step);
            recorder.open_tool.clone_from(&open.tool);
            if let (Some(checkpointer), Some(before)) = (&mut checkpointer, &open.before) {
                checkpointer.remember_rules(before)?;
            }
        }
        if checkpointer.is_some() {
            lock.beat()?;
        }
        if ended.is_none() {
            recorder.record(&Event::RunResumed {
                with: String::new(),
                restart: None,
            })?;
        }
        let session = Self {
            recorder,
            checkpointer,
            found: None,
            servers: Servers::default(),
            atomic: record.atomic,
            lacks_git,
            lock: Some(lock),
        };
        Ok(Reopened {
            session,
            pinned,
            ended,
        })
    }

    /// Resumes the run of a directive only to end it. Problems with the repository or with the
    /// items of the run must not keep it open. If its worktree is gone, any other worktree can end
    /// it.
    pub(in crate::run) fn reopen_to_end(
        ctx: &'a Context,
        run: RunId,
        observer: &'a mut Observer<'_>,
    ) -> Result<(Self, Option<StepRecord>), RunError> {
        let folders = RunFolders::of_project(ctx);
        // Also a run whose journal has lines of other processes can be ended.
        let continuation = Continuation {
            key: key_file(ctx).read()?,
            demand: TagDemand::Nothing,
        };
        let (_, record) = require_waiting(&folders, run, None, &continuation)?;
        let holder = Holder::of_process(run, ctx.now());
        let mut lock = WorktreeLock::acquire(ctx, &holder, &folders, Duration::ZERO)?;
        let mut checkpointer = open_checkpointer(ctx).ok();
        recovery::recover_all(
            ctx,
            checkpointer.as_mut(),
            &folders.runs,
            &mut lock,
            OnFault::Retry,
            observer,
        )?;
        let top = top_of(ctx, checkpointer.as_ref()).to_string_lossy();
        let is_copy = checkpointer.as_ref().is_some_and(|checkpointer| {
            belonging::require_own(checkpointer.repository(), &record).is_err()
        });
        let is_elsewhere = !is_copy && record.root != top && Path::new(&record.root).exists();
        let root = is_elsewhere.then_some(&*top);
        let (resume_point, record) = match require_waiting(&folders, run, root, &continuation) {
            Ok(found) => found,
            Err(err) => {
                lock.release()?;
                return Err(err);
            }
        };
        let (runs, disk) = (&folders.runs, &folders.disk);
        let journal = Journal::open(runs, run, disk, &continuation, &mut |_| {})?;
        let mut recorder = Recorder::new(ctx, record.mode, journal, folders, observer);
        recorder.resume(&record, resume_point.steps);
        let open = record
            .steps
            .into_iter()
            .next_back()
            .filter(|step| step.status.is_none());
        recorder.open_step = open.as_ref().map(|step| step.id.step);
        let session = Self {
            recorder,
            checkpointer,
            found: None,
            servers: Servers::default(),
            atomic: record.atomic,
            lacks_git: false,
            lock: Some(lock),
        };
        Ok((session, open))
    }
}

/// Refuses to restart an ended run while another run of a directive waits.
fn require_free(
    folders: &RunFolders,
    run: RunId,
    ended: Option<RunStatus>,
) -> Result<(), RunError> {
    match unfinished_note::find(folders)? {
        Some(waiting) if ended.is_some() && waiting.run != run => {
            Err(RunError::RunWaits(Box::new(waiting)))
        }
        _ => Ok(()),
    }
}

/// The items of a resumed run, if they may run: the pinned ones, or the current ones for a run that
/// has ended.
fn allowed_items(
    ctx: &Context,
    store: &ItemStore,
    pinned: Pinned,
    record: &RunRecord,
    ended: Option<RunStatus>,
    within: Option<&PinnedAuthority>,
) -> Result<(Pinned, Option<EndedRun>), RunError> {
    let label = record.directive.clone().unwrap_or_default();
    let judge = |pinned: &Pinned| within.map_or(Ok(()), |it| it.require_same(ctx, pinned, &label));
    let Some(status) = ended else {
        judge(&pinned)?;
        pinned.judge_again(ctx)?;
        return Ok((pinned, None));
    };
    let renewed = pinned.renewed(ctx, store, &label)?;
    judge(&renewed)?;
    let ended = EndedRun {
        status,
        before: pinned,
        newest: record.steps.last().cloned(),
    };
    Ok((renewed, Some(ended)))
}

/// The top folder of the work tree, or without a repository that of the project.
fn top_of<'c>(ctx: &'c Context, checkpointer: Option<&'c Checkpointer>) -> &'c Path {
    checkpointer.map_or(ctx.root.as_path(), |found| found.repository().top())
}

/// The record of a resumable run, with its newest step only, and how far it got.
fn require_waiting(
    folders: &RunFolders,
    run: RunId,
    root: Option<&str>,
    continuation: &Continuation,
) -> Result<(ResumePoint, RunRecord), RunError> {
    let resume_point = ResumePoint::load_authenticated(&folders.runs, run, continuation)?;
    let refuse = |reason: String| Err(RunError::NotResumable { run, reason });
    let Some(record) = resume_point.run().cloned() else {
        return refuse("it never began".to_owned());
    };
    if record.directive.is_none() {
        return refuse("it runs no directive".to_owned());
    }
    match record.status() {
        None | Some(RunStatus::Waiting) => {}
        Some(status) => return refuse(format!("it has {}", status.as_participle())),
    }
    match root {
        Some(root) if record.root != root => {
            refuse(format!("it belongs to the work tree `{}`", record.root))
        }
        _ => Ok((resume_point, record)),
    }
}

/// As [`require_waiting`], but the run may have ended without success.
fn require_unfinished(
    folders: &RunFolders,
    run: RunId,
    root: Option<&str>,
    continuation: &Continuation,
) -> Result<(ResumePoint, RunRecord), RunError> {
    let resume_point = ResumePoint::load_authenticated(&folders.runs, run, continuation)?;
    let ended = resume_point
        .run()
        .filter(|record| record.directive.is_some())
        .and_then(RunRecord::status);
    match ended {
        None | Some(RunStatus::Waiting | RunStatus::Succeeded) => {
            require_waiting(folders, run, root, continuation)
        }
        Some(_) if resume_point.is_put_back => {
            let reason = "it was rolled back; run the directive again".to_owned();
            Err(RunError::NotResumable { run, reason })
        }
        Some(_) => match (root, resume_point.run().cloned()) {
            (Some(root), Some(record)) if record.root != root => {
                let reason = format!("it belongs to the work tree `{}`", record.root);
                Err(RunError::NotResumable { run, reason })
            }
            (_, Some(record)) => Ok((resume_point, record)),
            (_, None) => require_waiting(folders, run, root, continuation),
        },
    }
}
