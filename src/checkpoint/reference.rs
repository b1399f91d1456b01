//! Moving and removing refs: compare-and-swap, with the user's `reference-transaction` hook where there is one.
//!
//! Git runs that hook for every ref that it updates, and lets it refuse. libgit2 knows no such hook, so where the user has
//! one, the `git` program updates the ref and runs it.

mod loose;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use super::error::CheckpointError;
use super::git_cli::hook::find_hook_named;
use super::git_cli::{GitOutput, GitProgram};
use super::object::ObjectId;
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
        return repository.update_ref_with_git(name, old, new, message);
    }
    loose::write(repository, name, old, new, message)
}

/// Removes refs that are still where they were seen; those that have moved since stay. The `git` program does it: it
/// outlives a piton that is killed, and takes its locks away.
pub(crate) fn remove_refs(repository: &Repository, refs: &[(&str, ObjectId)]) -> Result<(), CheckpointError> {
    let unmoved = refs.iter().filter(|(name, old)| repository.ref_now(name) == Some(*old));
    let lines: Vec<String> = unmoved.map(|(name, old)| format!("delete {name} {old}\n")).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let words = ["update-ref", "--stdin", "-m", "piton: remove"].map(OsString::from);
    let output = repository.git_update_ref(&words, Some(lines.concat().as_bytes()))?;
    if output.succeeded { Ok(()) } else { Err(refused(output.reason)) }
}

/// Removes the locks of refs that processes of ours left behind when they died.
pub(crate) fn clear_stale_locks(repository: &Repository) -> Result<(), CheckpointError> {
    loose::clear_stale(repository)
}

/// Puts a loose ref on disk, and before it what is staged.
pub(crate) fn sync_ref(repository: &Repository, name: &str) -> Result<(), CheckpointError> {
    let path = loose_path(repository, name);
    if !path.is_file() {
        return Ok(());
    }
    let synced = File::open(&path).and_then(|file| repository.disk.barrier(&file));
    synced.map_err(CheckpointError::io("write to disk", &path))
}

/// A loose ref is a file: it has to be on disk before a line of the journal says that it moved.
pub(crate) fn stage_ref(repository: &Repository, name: &str) -> Result<(), CheckpointError> {
    let path = loose_path(repository, name);
    if !path.is_file() {
        return Ok(());
    }
    repository.disk.stage_path(&path).map_err(CheckpointError::io("write to disk", &path))
}

/// The file of a ref that is not packed.
fn loose_path(repository: &Repository, name: &str) -> PathBuf {
    let folder = if name == "HEAD" { repository.git.path() } else { repository.git.commondir() };
    folder.join(name)
}

/// Why git did not update a ref. Only its words say that it was the hook; they are English here (`LC_ALL=C`).
fn refused(reason: String) -> CheckpointError {
    if reason.contains("by hook") {
        CheckpointError::HookFailed { hook: HOOK, reason }
    } else {
        CheckpointError::GitProgram { doing: "update-ref", reason }
    }
}

impl Repository {
    /// Whether the user has a hook for refs that has a say here.
    pub(super) fn has_ref_hook(&self) -> bool {
        self.ref_hook.get() == RefHook::Run && find_hook_named(&self.git, HOOK).is_some()
    }

    fn ref_now(&self, name: &str) -> Option<ObjectId> {
        self.git.refname_to_id(name).ok().map(ObjectId::from)
    }

    /// Moves a ref by the `git` program, which runs the hook.
    fn update_ref_with_git(
        &self,
        name: &str,
        old: Option<ObjectId>,
        new: ObjectId,
        message: &str,
    ) -> Result<(), CheckpointError> {
        let mut words: Vec<OsString> = ["update-ref", "-m", message].map(OsString::from).to_vec();
        if name == "HEAD" {
            words.push("--no-deref".into());
        }
        words.push(name.into());
        words.push(new.to_string().into());
        // Zeros: there must be no such ref.
        words.push(old.unwrap_or(ObjectId::ZERO).to_string().into());
        let output = self.git_update_ref(&words, None)?;
        if output.succeeded {
            return Ok(());
        }
        let found = self.ref_now(name);
        if found != old {
            return Err(CheckpointError::HeadMoved { expected: old, found });
        }
        Err(refused(output.reason))
    }

    fn git_update_ref(&self, words: &[OsString], input: Option<&[u8]>) -> Result<GitOutput, CheckpointError> {
        let without_hooks = ["-c", "core.hooksPath=/dev/null"].map(OsStr::new);
        let settings = if self.ref_hook.get() == RefHook::Skip { without_hooks.as_slice() } else { &[] };
        let words: Vec<&OsStr> = settings.iter().copied().chain(words.iter().map(OsString::as_os_str)).collect();
        let git = GitProgram::new(self.environment.clone(), self.git_dir(), self.top());
        git.run("update-ref", &words, &[], input, LIMIT)
    }
}
