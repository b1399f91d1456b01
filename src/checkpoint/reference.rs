//! Moving and removing refs: compare-and-swap, with the user's `reference-transaction` hook where there is one.
//!
//! Git runs that hook for every ref that it updates, and lets it refuse. libgit2 knows no such hook, so where the user has
//! one, the `git` program updates the ref and runs it.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use git2::ErrorCode;

use super::error::CheckpointError;
use super::git_cli::GitProgram;
use super::git_cli::hook::find_hook_named;
use super::object::ObjectId;
use super::objects::sync_path;
use super::repository::Repository;

/// The name of the hook.
const HOOK: &str = "reference-transaction";
/// A hook may ask a server; one that takes longer than this hangs.
const LIMIT: Duration = Duration::from_mins(5);

/// Whether the user's `reference-transaction` hook has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefHook {
    /// It runs, if there is one.
    Run,
    /// It is left out: the user's settings say so, or a step changed the hooks.
    Skip,
}

/// Compare-and-swap of a ref.
pub(crate) fn move_ref(
    repository: &Repository,
    name: &str,
    old: Option<ObjectId>,
    new: ObjectId,
    message: &str,
) -> Result<(), CheckpointError> {
    if repository.has_ref_hook() {
        return repository.update_ref_with_git(name, old, Some(new), message);
    }
    let moved = match old {
        Some(old) => repository.git.reference_matching(name, new.into(), true, old.into(), message),
        None => repository.git.reference(name, new.into(), false, message),
    };
    match moved {
        Ok(_) => Ok(()),
        Err(err) if matches!(err.code(), ErrorCode::Modified | ErrorCode::Exists | ErrorCode::NotFound) => {
            Err(CheckpointError::HeadMoved { expected: old, found: repository.ref_now(name) })
        }
        Err(err) => Err(CheckpointError::Git { doing: "move the branch", source: err }),
    }
}

/// Removes a ref that is still where it was seen; one that has moved since stays.
pub(crate) fn remove_ref(repository: &Repository, name: &str, old: ObjectId) -> Result<(), CheckpointError> {
    let removing = || CheckpointError::git("remove a ref");
    match repository.git.find_reference(name) {
        // Deleting compares once more with what was read.
        Ok(mut found) if found.target() == Some(old.into()) => {
            if repository.has_ref_hook() {
                return repository.update_ref_with_git(name, Some(old), None, "piton: remove");
            }
            found.delete().map_err(removing())
        }
        Ok(_) => Ok(()),
        Err(err) if err.code() == ErrorCode::NotFound => Ok(()),
        Err(err) => Err(removing()(err)),
    }
}

/// A loose ref is a file: it has to be on disk before anything relies on it.
pub(crate) fn sync_ref(repository: &Repository, name: &str) -> Result<(), CheckpointError> {
    let folder = if name == "HEAD" { repository.git.path() } else { repository.git.commondir() };
    let path = folder.join(name);
    if path.is_file() { sync_path(&path) } else { Ok(()) }
}

impl Repository {
    /// Whether the user has a hook for refs that has a say here.
    pub(super) fn has_ref_hook(&self) -> bool {
        self.ref_hook.get() == RefHook::Run && find_hook_named(&self.git, HOOK).is_some()
    }

    fn ref_now(&self, name: &str) -> Option<ObjectId> {
        self.git.refname_to_id(name).ok().map(ObjectId::from)
    }

    /// Moves a ref, or removes it, by the `git` program, which runs the hook.
    fn update_ref_with_git(
        &self,
        name: &str,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        message: &str,
    ) -> Result<(), CheckpointError> {
        let mut words: Vec<OsString> = ["update-ref", "-m", message].map(OsString::from).to_vec();
        if name == "HEAD" {
            words.push("--no-deref".into());
        }
        if new.is_none() {
            words.push("-d".into());
        }
        words.push(name.into());
        words.extend(new.map(|id| id.to_string().into()));
        // Zeros: there must be no such ref.
        words.push(old.unwrap_or(ObjectId::ZERO).to_string().into());
        let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
        let git = GitProgram::new(self.environment.clone(), self.git_dir(), self.top());
        let output = git.run("update-ref", &words, &[], None, LIMIT)?;
        if output.succeeded {
            return Ok(());
        }
        let found = self.ref_now(name);
        if found != old {
            return Err(CheckpointError::HeadMoved { expected: old, found });
        }
        // Git says no otherwise why it failed; its words are English here (`LC_ALL=C`).
        Err(if output.reason.contains("by hook") {
            CheckpointError::HookFailed { hook: HOOK, reason: output.reason }
        } else {
            CheckpointError::GitProgram { doing: "update-ref", reason: output.reason }
        })
    }
}
