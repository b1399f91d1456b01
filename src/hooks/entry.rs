//! Entry points for git: one file per hook.
//!
//! [`run`] is called for every commit made here, so it first finds out whether there is anything to
//! do, and reads only what it needs: no settings, no items, no history. It returns an [`HookAnswer`]
//! and prints nothing. A hook that cannot read something does not stop git, except on a server that
//! receives a push.

mod commit_message;
mod guard;
mod post_commit;
mod post_rewrite;
mod pre_commit;
mod pre_push;
mod pre_receive;
mod prepare_message;

use std::ffi::OsString;
use std::path::PathBuf;

use super::Hook;
use crate::checkpoint::hook_environment::HookEnvironment;
use crate::checkpoint::repository::Repository;
use crate::context::Environment;
use crate::disk::Fsync;
use crate::error::Error;
use crate::exec::supervisor::MARK;
use crate::item::source::{Unread, read_bytes};
use crate::problem::Code;
use crate::run::active_run::{self, ActiveRun};
use crate::run::error::RunError;

pub use pre_commit::StagedItems;

/// Messages over this size are not read.
const LONGEST_MESSAGE: u64 = 16 * 1024 * 1024;

#[derive(Clone, Copy, Debug)]
pub struct HookCall<'c> {
    pub hook: Hook,
    pub arguments: &'c [OsString],
    pub input: &'c [u8],
    pub environment: &'c Environment,
}

#[derive(Debug, Default)]
pub struct HookAnswer {
    /// Why git must stop; empty when it may go on.
    pub refusals: Vec<HookRefusal>,
    pub items: Option<StagedItems>,
    /// Shown to the user; they do not stop git.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRefusal {
    /// In one word.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    pub hint: Option<String>,
}

impl HookAnswer {
    pub fn is_refused(&self) -> bool {
        !self.refusals.is_empty() || self.items.as_ref().is_some_and(|items| !items.report.valid)
    }

    fn refused(code: Code, message: String, hint: impl Into<String>) -> Self {
        let refusal = HookRefusal {
            code,
            message,
            hint: Some(hint.into()),
        };
        Self {
            refusals: vec![refusal],
            ..Self::default()
        }
    }
}

pub fn run(call: &HookCall<'_>) -> Result<HookAnswer, Error> {
    if call.is_of_own_commit() {
        return Ok(HookAnswer::default());
    }
    match call.hook {
        Hook::PreCommit => pre_commit::run(call),
        Hook::CommitMessage => commit_message::run(call),
        Hook::PrepareCommitMessage => prepare_message::run(call),
        Hook::PostCommit => post_commit::run(call),
        Hook::PostRewrite => post_rewrite::run(call),
        Hook::PrePush => pre_push::run(call),
        Hook::PreReceive => guard::within(call, pre_receive::run),
    }
}

impl HookCall<'_> {
    fn place(&self) -> Result<HookEnvironment, Error> {
        let cwd = self.environment.enter(None)?;
        let found = HookEnvironment::find(&cwd, |name| self.environment.find(name));
        found.ok_or_else(|| {
            RunError::from(crate::checkpoint::error::CheckpointError::NoRepository(cwd)).into()
        })
    }

    /// Returns true when piton itself is making the commit. The hook then has nothing to add or
    /// check.
    fn is_of_own_commit(&self) -> bool {
        let is_of_commit = !self.hook.reads_input();
        let Some(token) = self.environment.hook_token().filter(|_| is_of_commit) else {
            return false;
        };
        let is_own = |place: HookEnvironment| {
            active_run::is_own_commit(&place.own_folder(), &place.runs_folder(), token)
        };
        self.place().is_ok_and(is_own)
    }

    /// The run that is executing in this worktree or waits there for manual work.
    fn active_run(&self, place: &HookEnvironment) -> Result<Option<ActiveRun>, Error> {
        let own = place.own_folder();
        // No folder means that piton never ran here.
        if !own.is_dir() {
            return Ok(None);
        }
        let candidate = self
            .environment
            .find(MARK)
            .map(|mark| mark.to_string_lossy());
        Ok(active_run::find(
            &own,
            &place.runs_folder(),
            candidate.as_deref(),
        )?)
    }

    fn open(&self, place: &HookEnvironment) -> Result<Repository, Error> {
        let home = self.environment.home();
        let opened = Repository::open_for_hook(
            place,
            home.as_deref(),
            self.environment.variables(),
            Fsync::Auto,
        );
        Ok(opened.map_err(RunError::from)?)
    }

    /// The message file named by the first argument, and its text.
    fn message(&self) -> Result<Option<(PathBuf, String)>, Error> {
        let Some(file) = self.arguments.first() else {
            return Ok(None);
        };
        let file = self.environment.enter(None)?.join(file);
        match read_bytes(&file, LONGEST_MESSAGE) {
            // piton writes UTF-8 only, so a message in another encoding is not ours and stays
            // unchanged.
            Ok(bytes) => Ok(String::from_utf8(bytes).ok().map(|text| (file, text))),
            Err(Unread::Failed(source)) => Err(Error::Read { file, source }),
            Err(err) => Err(Error::Read {
                file,
                source: std::io::Error::other(err),
            }),
        }
    }
}
