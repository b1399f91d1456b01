//! What happens when git runs a hook: one file for each.
//!
//! [`run`] is called for every commit that anybody makes here, so it finds out first whether there is anything to do,
//! and looks at nothing that it does not need: no settings, no items, no history. It returns an [`Answer`] and prints
//! nothing. What a hook cannot look at does not stop git, except where a server takes something in.

mod commit_message;
mod post_commit;
mod post_rewrite;
mod pre_commit;
mod pre_push;
mod pre_receive;
mod prepare_message;

use std::ffi::OsString;
use std::path::PathBuf;

use super::Hook;
use crate::checkpoint::place::HookPlace;
use crate::checkpoint::repository::Repository;
use crate::context::Environment;
use crate::disk::Fsync;
use crate::error::Error;
use crate::exec::supervisor::MARK;
use crate::item::source::{Unread, read_bytes};
use crate::problem::Code;
use crate::run::error::RunError;
use crate::run::presence::{self, Presence};

pub use pre_commit::StagedItems;

/// The longest message that is looked at; nobody writes longer ones.
const LONGEST_MESSAGE: u64 = 16 * 1024 * 1024;

/// A hook that git runs.
#[derive(Clone, Copy, Debug)]
pub struct HookCall<'c> {
    /// Which one.
    pub hook: Hook,
    /// What git gave to it.
    pub arguments: &'c [OsString],
    /// What git wrote to its standard input.
    pub input: &'c [u8],
    /// The variables and the folder that it was started with.
    pub environment: &'c Environment,
}

/// What a hook has to say.
#[derive(Debug, Default)]
pub struct Answer {
    /// Why git must not go on; nothing when it may.
    pub refusals: Vec<Refusal>,
    /// What was found about staged items.
    pub items: Option<StagedItems>,
    /// What somebody should know.
    pub notes: Vec<String>,
}

/// Why git must not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In one word.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Answer {
    /// Whether git may go on.
    pub fn is_refused(&self) -> bool {
        !self.refusals.is_empty() || self.items.as_ref().is_some_and(|items| !items.report.valid)
    }

    fn refused(code: Code, message: String, hint: impl Into<String>) -> Self {
        let refusal = Refusal { code, message, hint: Some(hint.into()) };
        Self { refusals: vec![refusal], ..Self::default() }
    }
}

/// Does what a hook is for.
pub fn run(call: &HookCall<'_>) -> Result<Answer, Error> {
    if call.is_of_own_commit() {
        return Ok(Answer::default());
    }
    match call.hook {
        Hook::PreCommit => pre_commit::run(call),
        Hook::CommitMessage => commit_message::run(call),
        Hook::PrepareCommitMessage => prepare_message::run(call),
        Hook::PostCommit => post_commit::run(call),
        Hook::PostRewrite => post_rewrite::run(call),
        Hook::PrePush => pre_push::run(call),
        Hook::PreReceive => pre_receive::run(call),
    }
}

impl HookCall<'_> {
    /// Where it runs.
    fn place(&self) -> Result<HookPlace, Error> {
        let cwd = self.environment.enter(None)?;
        let found = HookPlace::find(&cwd, |name| self.environment.find(name));
        found.ok_or_else(|| RunError::from(crate::checkpoint::error::CheckpointError::NoRepository(cwd)).into())
    }

    /// Whether piton itself is making the commit: then there is nothing to add, and nothing to judge.
    fn is_of_own_commit(&self) -> bool {
        let is_of_commit = !self.hook.reads_input();
        let Some(token) = self.environment.hook_token().filter(|_| is_of_commit) else { return false };
        let is_own = |place: HookPlace| presence::is_own_commit(&place.own_folder(), &place.runs_folder(), token);
        self.place().is_ok_and(is_own)
    }

    /// The run that is at work in the worktree, or waits there for work.
    fn presence(&self, place: &HookPlace) -> Result<Option<Presence>, Error> {
        let own = place.own_folder();
        // Where piton never ran there is nothing to look for.
        if !own.is_dir() {
            return Ok(None);
        }
        let candidate = self.environment.find(MARK).map(|mark| mark.to_string_lossy());
        Ok(presence::find(&own, &place.runs_folder(), candidate.as_deref())?)
    }

    fn open(&self, place: &HookPlace) -> Result<Repository, Error> {
        let home = self.environment.home();
        let opened = Repository::open_for_hook(place, home.as_deref(), self.environment.variables(), Fsync::Auto);
        Ok(opened.map_err(RunError::from)?)
    }

    /// The file that the first argument names, and what it holds.
    fn message(&self) -> Result<Option<(PathBuf, String)>, Error> {
        let Some(file) = self.arguments.first() else { return Ok(None) };
        let file = self.environment.enter(None)?.join(file);
        match read_bytes(&file, LONGEST_MESSAGE) {
            // A message in another encoding is none that we have written, and not ours to change.
            Ok(bytes) => Ok(String::from_utf8(bytes).ok().map(|text| (file, text))),
            Err(Unread::Failed(source)) => Err(Error::Read { file, source }),
            Err(err) => Err(Error::Read { file, source: std::io::Error::other(err) }),
        }
    }
}
