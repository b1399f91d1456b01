//! Runs the user's hooks around a commit as `git commit` does, but on a private index.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;

use super::process::{self, GitProcessEnd};
use super::{GitProgram, identity, is_executable};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::hook::Hook;
use crate::context::HOOK_TOKEN;

/// The input of a hook.
pub(crate) struct UserHookCall<'a> {
    pub(crate) arguments: &'a [&'a OsStr],
    /// The private index of the commit; absolute.
    pub(crate) index: &'a Path,
    /// The run, for hooks that use it.
    pub(crate) run: &'a str,
    /// The token by which piton's own hooks recognize the commit and ignore it.
    pub(crate) token: Option<&'a str>,
    pub(crate) author: &'a git2::Signature<'a>,
    /// The time limit.
    pub(crate) limit: Duration,
}

/// The result of a hook that does not stop the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookOutcome {
    /// It does not exist, or is not executable.
    Absent,
    Passed,
    /// It failed after the commit was made.
    Ignored {
        /// The end of its output, or its exit status.
        reason: String,
    },
}

/// The hooks folder of the repository: `core.hooksPath`, else `hooks` in the common git folder.
pub(crate) fn hooks_folder(repository: &git2::Repository) -> PathBuf {
    let set = repository
        .config()
        .and_then(|config| config.get_path("core.hooksPath"));
    match set {
        // A relative path starts at the top of the work tree, where hooks run.
        Ok(path) => repository.workdir().unwrap_or(repository.path()).join(path),
        Err(_) => repository.commondir().join("hooks"),
    }
}

/// The file of a hook, if git would run it.
pub(crate) fn find_hook(repository: &git2::Repository, hook: Hook) -> Option<PathBuf> {
    find_hook_named(repository, hook.name())
}

/// As [`find_hook`], for a hook that is not in [`Hook`].
pub(crate) fn find_hook_named(repository: &git2::Repository, name: &str) -> Option<PathBuf> {
    Some(hooks_folder(repository).join(name)).filter(|path| is_executable(path))
}

/// Runs a hook if there is one.
pub(crate) fn run_hook(
    git: &GitProgram,
    repository: &git2::Repository,
    hook: Hook,
    call: &UserHookCall<'_>,
) -> Result<HookOutcome, CheckpointError> {
    let Some(path) = find_hook(repository, hook) else {
        return Ok(HookOutcome::Absent);
    };
    let failed = match finish(git, &path, call) {
        Ok(None) => return Ok(HookOutcome::Passed),
        Ok(Some(reason)) => reason,
        Err(error) => format!("it cannot be run: {error}"),
    };
    match hook {
        Hook::PostCommit => Ok(HookOutcome::Ignored { reason: failed }),
        _ => Err(CheckpointError::HookFailed {
            hook: hook.name(),
            reason: failed,
        }),
    }
}

/// Runs the file; returns why it failed, if it did.
fn finish(git: &GitProgram, path: &Path, call: &UserHookCall<'_>) -> io::Result<Option<String>> {
    let finished = match process::run_merged(prepared(git, path, &[], call), call.limit) {
        // Like git, run a hook without an interpreter line with the shell.
        Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            process::run_merged(
                prepared(git, Path::new("/bin/sh"), &[path.as_os_str()], call),
                call.limit,
            )?
        }
        other => other?,
    };
    match &finished.ended {
        GitProcessEnd::Exited(status) if status.success() => Ok(None),
        _ => Ok(Some(finished.reason())),
    }
}

fn prepared(
    git: &GitProgram,
    program: &Path,
    first: &[&OsStr],
    call: &UserHookCall<'_>,
) -> Command {
    let mut command = git.command(program);
    command.args(first).args(call.arguments);
    command.envs(identity("AUTHOR", call.author));
    command
        .env("GIT_INDEX_FILE", call.index)
        .env("GIT_EDITOR", ":")
        .env("GIT_PREFIX", "")
        .env("PITON_RUN_ID", call.run)
        .envs(call.token.map(|token| (HOOK_TOKEN, token)));
    // Git finds the repository from the top of the work tree, and a hook that works in another
    // repository must not be pointed back here. Only a work tree without `.git` needs the variable.
    if !git.work_tree.join(".git").exists() {
        command
            .env("GIT_DIR", &git.git_dir)
            .env("GIT_WORK_TREE", &git.work_tree);
    }
    command
}
