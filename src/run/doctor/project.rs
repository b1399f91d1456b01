//! The project around the working folder: looked at, never changed.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::Surroundings;
use super::probe::Outcome;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::repository::Repository;
use crate::config::Key;
use crate::context::{Context, ContextError, FoundBy};
use crate::item::finding::{Finding, Severity};
use crate::item::wording::{nearest, shown};
use crate::journal::lock;
use crate::problem::{Explain, with_causes};
use crate::run::marker;
use crate::run::session::{Session, open_repository};

/// Where the project is.
pub(super) fn found(around: &Surroundings) -> Outcome {
    match &around.patient.found {
        Ok(ctx) if ctx.found_by == FoundBy::WorkingFolder => Outcome::warning(
            format!("`{}` is neither inside of a git repository nor has it `.ai/`", ctx.root.display()),
            "go to a project, or make one of this folder: `git init && piton init`",
        ),
        Ok(ctx) => {
            let items = ctx.project_items();
            let shown = items.display();
            match fs::metadata(&items) {
                Err(_) if fs::symlink_metadata(&items).is_err() => {
                    Outcome::ok(format!("`{}`, without items of its own", ctx.root.display()))
                }
                Ok(found) if found.is_dir() => match rustix::fs::access(&items, rustix::fs::Access::WRITE_OK) {
                    Ok(()) => Outcome::ok(format!("`{}`, {}", ctx.root.display(), ctx.found_by.reason())),
                    Err(err) => Outcome::warning(
                        format!("`{shown}` cannot be written: {err}; items and results of tools cannot be kept"),
                        "make it writable",
                    ),
                },
                _ => Outcome::warning(format!("`{shown}` is not a folder: there can be no items"), "rename it"),
            }
        }
        Err(ContextError::Variable(_)) => {
            Outcome::warning("not looked for, because the settings are not valid", "see `settings`")
        }
        Err(err) => Outcome::warning(with_causes(err), err.hint().map(String::from).unwrap_or_default()),
    }
}

/// Whether the settings are valid.
pub(super) fn settings(around: &Surroundings) -> Outcome {
    let findings = match &around.patient.found {
        Err(err @ ContextError::Variable(_)) => {
            return Outcome::missing(err.to_string(), err.hint().map(String::from).unwrap_or_default());
        }
        Err(_) => around.own.config.findings(),
        Ok(ctx) => ctx.config.findings(),
    };
    let told = |finding: &Finding| format!("{}:{}: {}", finding.file.display(), finding.line, finding.message);
    let worst = findings.iter().find(|finding| finding.severity == Severity::Error).or_else(|| findings.first());
    let ignored = around.patient.found.as_ref().ok().and_then(|ctx| ctx.config.ignored_variables().first());
    match worst {
        None => match (ignored, misspelt(around)) {
            (Some(ignored), _) => Outcome::warning(
                format!("`{}` is ignored: {}", ignored.variable, ignored.reason),
                "set it in `~/.ai/config.yaml` if it is meant",
            ),
            (None, Some((name, meant))) => {
                Outcome::warning(format!("the variable `{name}` sets nothing"), format!("did you mean `{meant}`?"))
            }
            (None, None) => Outcome::ok("every value is one that its setting can have"),
        },
        Some(finding) if finding.severity == Severity::Error => {
            Outcome::missing(told(finding), "`piton config` shows all of them")
        }
        Some(finding) => Outcome::warning(told(finding), "`piton config` shows all of them"),
    }
}

/// A variable that looks like that of a setting, and is not.
fn misspelt(around: &Surroundings) -> Option<(String, &'static str)> {
    let names = around.patient.environment.variables().keys().filter_map(|name| name.to_str());
    names.filter(|name| name.starts_with("PITON_")).find_map(|name| {
        let meant = nearest(name, Key::ALL.into_iter().map(Key::variable))?;
        (meant != name).then(|| (shown(name), meant))
    })
}

/// What kind of repository it is.
pub(super) fn repository(around: &Surroundings) -> Outcome {
    in_repository(around, |repository, _| {
        let head = match repository.head() {
            Ok(head) => head,
            Err(err) => return refused(&err),
        };
        let mut kind = vec![format!("`{}`", repository.git_dir().display())];
        kind.extend(repository.is_linked().then(|| "a linked worktree".to_owned()));
        kind.extend(repository.is_shallow().then(|| "a shallow clone, whose history ends early".to_owned()));
        kind.extend(head.commit.is_none().then(|| "without commits so far".to_owned()));
        kind.extend(head.branch.is_none().then(|| "with a detached HEAD".to_owned()));
        Outcome::ok(kind.join(", "))
    })
}

/// Whom commits would be attributed to.
pub(super) fn identity(around: &Surroundings) -> Outcome {
    in_repository(around, |repository, ctx| match repository.committer(ctx.environment.variables(), around.own.now()) {
        Ok(name) => Outcome::ok(name),
        Err(err) => refused(&err),
    })
}

/// Whether git is in the middle of something.
pub(super) fn operation(around: &Surroundings) -> Outcome {
    in_repository(around, |repository, _| {
        match repository.refuse_operation_in_progress().and_then(|()| repository.refuse_conflicts()) {
            Ok(()) => Outcome::ok("git is not in the middle of anything"),
            Err(err) => refused(&err),
        }
    })
}

/// Whether somebody else is at work.
pub(super) fn locks(around: &Surroundings) -> Outcome {
    in_repository(around, |repository, ctx| {
        if let Err(err) = repository.refuse_locked_index(around.own.now()) {
            return refused(&err);
        }
        if let Some(holder) = lock::current_holder(&repository.own_folder()) {
            return Outcome::warning(format!("a run is at work here: {holder}"), "wait for it; `piton log` shows it");
        }
        match marker::find(&Session::folders_of(ctx)) {
            Ok(None) => Outcome::ok("nobody else is at work here"),
            Ok(Some(waiting)) => Outcome::warning(
                format!("the run `{}` is not finished", waiting.run),
                "`piton status` says what it waits for, `piton resume` goes on with it",
            ),
            Err(err) => Outcome::warning(with_causes(&err), err.hint().map(String::from).unwrap_or_default()),
        }
    })
}

/// What the file system of the repository can do.
pub(super) fn file_system(around: &Surroundings) -> Outcome {
    in_repository(around, |repository, ctx| {
        if let Err(err) = rustix::fs::access(&ctx.root, rustix::fs::Access::WRITE_OK) {
            return Outcome::missing(format!("`{}` cannot be written: {err}", ctx.root.display()), "make it writable");
        }
        // Beside git's data: the same file system as that of the work tree, and nobody's files.
        let folder = tempfile::Builder::new().prefix("piton-doctor-").tempdir_in(repository.git_dir());
        let abilities = folder.and_then(|folder| abilities(folder.path()));
        match abilities {
            Err(err) => {
                let detail = format!("`{}` cannot be written: {err}", repository.git_dir().display());
                Outcome::missing(detail, "make it writable, or make room on the disk")
            }
            Ok(lacks) if lacks.is_empty() => {
                Outcome::ok("keeps modes and links, tells upper case from lower case, renames at once")
            }
            Ok(lacks) if lacks.contains(&"hard links") => {
                Outcome::missing(format!("has no {}", lacks.join(", no ")), "work on a file system of Linux")
            }
            Ok(lacks) if lacks == ["executable bits"] && !repository.trusts_file_modes() => {
                Outcome::ok("has no executable bits, and git knows (`core.fileMode`)")
            }
            Ok(lacks) => Outcome::warning(
                format!("has no {}", lacks.join(", no ")),
                "changes of this kind cannot be seen or put back here",
            ),
        }
    })
}

/// What a file system lacks.
fn abilities(folder: &Path) -> io::Result<Vec<&'static str>> {
    let mut lacks = Vec::new();
    let file = folder.join("file");
    fs::write(&file, "text")?;
    fs::rename(&file, folder.join("renamed"))?;
    let file = folder.join("renamed");
    let modes: Vec<u32> = [0o755, 0o644]
        .into_iter()
        .filter_map(|mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).ok()?;
            Some(fs::metadata(&file).ok()?.permissions().mode() & 0o100)
        })
        .collect();
    if modes != [0o100, 0] {
        lacks.push("executable bits");
    }
    if symlink("renamed", folder.join("link")).is_err() {
        lacks.push("symbolic links");
    }
    if fs::hard_link(&file, folder.join("hard")).is_err() {
        lacks.push("hard links");
    }
    if fs::symlink_metadata(folder.join("RENAMED")).is_ok() {
        lacks.push("difference between upper and lower case");
    }
    Ok(lacks)
}

/// Whether there is a repository to ask about.
pub(super) fn has_repository(around: &Surroundings) -> bool {
    around.patient.found.as_ref().is_ok_and(|ctx| open_repository(ctx).is_ok())
}

/// Asks something about the repository of the project, where there is one.
fn in_repository(around: &Surroundings, ask: impl FnOnce(&Repository, &Context) -> Outcome) -> Outcome {
    let Ok(ctx) = &around.patient.found else {
        return Outcome::warning("there is no project here", "");
    };
    match open_repository(ctx) {
        Ok(repository) => ask(&repository, ctx),
        Err(err @ CheckpointError::NoRepository(_)) if ctx.config.git_required() => {
            Outcome::warning(err.to_string(), err.hint().map(String::from).unwrap_or_default())
        }
        Err(CheckpointError::NoRepository(_)) => Outcome::ok("none, and `git.required` is off: nothing can be undone"),
        Err(err) => refused(&err),
    }
}

fn refused(err: &CheckpointError) -> Outcome {
    Outcome::missing(with_causes(err), err.hint().unwrap_or_else(|| "see what `git status` says".into()))
}
