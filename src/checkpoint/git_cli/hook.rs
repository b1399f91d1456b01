//! The user's hooks around a commit, run as `git commit` runs them, but on a private index.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;

use super::process::{self, Ended};
use super::{GitProgram, identity, is_executable};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::hook::Hook;
use crate::context::HOOK_TOKEN;

/// What a hook is told.
pub(crate) struct HookCall<'a> {
    /// The arguments.
    pub(crate) arguments: &'a [&'a OsStr],
    /// The private index that the commit is made of; absolute.
    pub(crate) index: &'a Path,
    /// The run, for hooks that want to know.
    pub(crate) run: &'a str,
    /// What our own hooks know such a commit by, and leave it alone.
    pub(crate) token: Option<&'a str>,
    /// Who the author will be.
    pub(crate) author: &'a git2::Signature<'a>,
    /// How long it may take.
    pub(crate) limit: Duration,
}

/// What came of a hook that does not stop the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookOutcome {
    /// There is none, or it may not be executed.
    Absent,
    /// It agreed.
    Passed,
    /// It failed when it could not stop anything any more.
    Ignored {
        /// Its last words, or how it ended.
        reason: String,
    },
}

/// The folder with the repository's hooks: `core.hooksPath`, else `hooks` of the common folder.
pub(crate) fn hooks_folder(repository: &git2::Repository) -> PathBuf {
    let set = repository.config().and_then(|config| config.get_path("core.hooksPath"));
    match set {
        // A relative path starts where hooks run, and that is the top of the work tree.
        Ok(path) => repository.workdir().unwrap_or(repository.path()).join(path),
        Err(_) => repository.commondir().join("hooks"),
    }
}

/// The file of a hook, if git would run it.
pub(crate) fn find_hook(repository: &git2::Repository, hook: Hook) -> Option<PathBuf> {
    find_hook_named(repository, hook.name())
}

/// As [`find_hook`], for a hook that piton has nothing else to do with.
pub(crate) fn find_hook_named(repository: &git2::Repository, name: &str) -> Option<PathBuf> {
    Some(hooks_folder(repository).join(name)).filter(|path| is_executable(path))
}

/// Runs a hook if there is one.
pub(crate) fn run_hook(
    git: &GitProgram,
    repository: &git2::Repository,
    hook: Hook,
    call: &HookCall<'_>,
) -> Result<HookOutcome, CheckpointError> {
    let Some(path) = find_hook(repository, hook) else { return Ok(HookOutcome::Absent) };
    let failed = match finish(git, &path, call) {
        Ok(None) => return Ok(HookOutcome::Passed),
        Ok(Some(reason)) => reason,
        Err(error) => format!("it cannot be run: {error}"),
    };
    match hook {
        Hook::PostCommit => Ok(HookOutcome::Ignored { reason: failed }),
        _ => Err(CheckpointError::HookFailed { hook: hook.name(), reason: failed }),
    }
}

/// Runs the file to its end; returns why it failed, if it did.
fn finish(git: &GitProgram, path: &Path, call: &HookCall<'_>) -> io::Result<Option<String>> {
    let finished = match process::run_merged(prepared(git, path, &[], call), call.limit) {
        // Git lets a shell read a hook that names no interpreter.
        Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            process::run_merged(prepared(git, Path::new("/bin/sh"), &[path.as_os_str()], call), call.limit)?
        }
        other => other?,
    };
    match &finished.ended {
        Ended::Exited(status) if status.success() => Ok(None),
        _ => Ok(Some(finished.reason())),
    }
}

fn prepared(git: &GitProgram, program: &Path, first: &[&OsStr], call: &HookCall<'_>) -> Command {
    let mut command = git.command(program);
    command.args(first).args(call.arguments);
    command.envs(identity("AUTHOR", call.author));
    command
        .env("GIT_INDEX_FILE", call.index)
        .env("GIT_EDITOR", ":")
        .env("GIT_PREFIX", "")
        .env("PITON_RUN_ID", call.run)
        .envs(call.token.map(|token| (HOOK_TOKEN, token)));
    // Git finds the repository from the top of the work tree by itself, and a hook that works in
    // another repository must not be led back here. Only a work tree without `.git` needs the hint.
    if !git.work_tree.join(".git").exists() {
        command.env("GIT_DIR", &git.git_dir).env("GIT_WORK_TREE", &git.work_tree);
    }
    command
}
