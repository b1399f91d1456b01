//! The project around the working folder. These probes change nothing.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::ProbeContext;
use super::probe::ProbeOutcome;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::repository::Repository;
use crate::config::SettingKey;
use crate::context::{Context, ContextError, FoundBy};
use crate::item::finding::{Finding, Severity};
use crate::item::wording::{nearest, shown};
use crate::journal::lock;
use crate::problem::{Explain, with_causes};
use crate::run::unfinished_note;
use crate::workspace::{RunFolders, open_repository};

/// Where the project is.
pub(super) fn found(around: &ProbeContext) -> ProbeOutcome {
    match &around.patient.found {
        Ok(ctx) if ctx.found_by == FoundBy::WorkingFolder => ProbeOutcome::warning(
            format!(
                "`{}` is not in a git repository and has no `.ai/`",
                ctx.root.display()
            ),
            "go to a project, or create one here: `git init && piton init`",
        ),
        Ok(ctx) => {
            let items = ctx.project_items();
            let shown = items.display();
            match fs::metadata(&items) {
                Err(_) if fs::symlink_metadata(&items).is_err() => ProbeOutcome::ok(format!(
                    "`{}`, without items of its own",
                    ctx.root.display()
                )),
                Ok(found) if found.is_dir() => {
                    match rustix::fs::access(&items, rustix::fs::Access::WRITE_OK) {
                        Ok(()) => ProbeOutcome::ok(format!(
                            "`{}`, {}",
                            ctx.root.display(),
                            ctx.found_by.reason()
                        )),
                        Err(err) => ProbeOutcome::warning(
                            format!(
                                "`{shown}` cannot be written: {err}; items and tool results cannot be saved"
                            ),
                            "make it writable",
                        ),
                    }
                }
                _ => ProbeOutcome::warning(
                    format!("`{shown}` is not a folder: there can be no items"),
                    "rename it",
                ),
            }
        }
        Err(ContextError::Variable(_)) => ProbeOutcome::warning(
            "not checked, because the settings are invalid",
            "see `settings`",
        ),
        Err(err) => ProbeOutcome::warning(
            with_causes(err),
            err.hint().map(String::from).unwrap_or_default(),
        ),
    }
}

/// Whether the settings are valid.
pub(super) fn settings(around: &ProbeContext) -> ProbeOutcome {
    let findings = match &around.patient.found {
        Err(err @ ContextError::Variable(_)) => {
            return ProbeOutcome::missing(
                err.to_string(),
                err.hint().map(String::from).unwrap_or_default(),
            );
        }
        Err(_) => around.own.config.findings(),
        Ok(ctx) => ctx.config.findings(),
    };
    let told = |finding: &Finding| {
        format!(
            "{}:{}: {}",
            finding.file.display(),
            finding.line,
            finding.message
        )
    };
    let worst = findings
        .iter()
        .find(|finding| finding.severity == Severity::Error)
        .or_else(|| findings.first());
    let ignored = around
        .patient
        .found
        .as_ref()
        .ok()
        .and_then(|ctx| ctx.config.ignored_variables().first());
    match worst {
        None => match (ignored, misspelt(around)) {
            (Some(ignored), _) => ProbeOutcome::warning(
                format!("`{}` is ignored: {}", ignored.variable, ignored.reason),
                "set it in `~/.ai/config.yaml` if you want this",
            ),
            (None, Some((name, meant))) => ProbeOutcome::warning(
                format!("the variable `{name}` sets nothing"),
                format!("did you mean `{meant}`?"),
            ),
            (None, None) => ProbeOutcome::ok("every value is valid"),
        },
        Some(finding) if finding.severity == Severity::Error => {
            ProbeOutcome::missing(told(finding), "`piton config` shows all of them")
        }
        Some(finding) => ProbeOutcome::warning(told(finding), "`piton config` shows all of them"),
    }
}

/// A variable that looks like a setting but is none.
fn misspelt(around: &ProbeContext) -> Option<(String, &'static str)> {
    let names = around
        .patient
        .environment
        .variables()
        .keys()
        .filter_map(|name| name.to_str());
    names
        .filter(|name| name.starts_with("PITON_"))
        .find_map(|name| {
            let meant = nearest(name, SettingKey::ALL.into_iter().map(SettingKey::variable))?;
            (meant != name).then(|| (shown(name), meant))
        })
}

/// What kind of repository it is.
pub(super) fn repository(around: &ProbeContext) -> ProbeOutcome {
    in_repository(around, |repository, _| {
        let head = match repository.head() {
            Ok(head) => head,
            Err(err) => return refused(&err),
        };
        let mut kind = vec![format!("`{}`", repository.git_dir().display())];
        kind.extend(
            repository
                .is_linked()
                .then(|| "a linked worktree".to_owned()),
        );
        kind.extend(
            repository
                .is_shallow()
                .then(|| "a shallow clone".to_owned()),
        );
        kind.extend(
            head.commit
                .is_none()
                .then(|| "without commits so far".to_owned()),
        );
        kind.extend(
            head.branch
                .is_none()
                .then(|| "with a detached HEAD".to_owned()),
        );
        ProbeOutcome::ok(kind.join(", "))
    })
}

/// The author of commits.
pub(super) fn identity(around: &ProbeContext) -> ProbeOutcome {
    in_repository(around, |repository, ctx| {
        match repository.committer(ctx.environment.variables(), around.own.now()) {
            Ok(name) => ProbeOutcome::ok(name),
            Err(err) => refused(&err),
        }
    })
}

/// Whether a git operation such as a merge is in progress.
pub(super) fn operation(around: &ProbeContext) -> ProbeOutcome {
    in_repository(around, |repository, _| {
        match repository
            .refuse_operation_in_progress()
            .and_then(|()| repository.refuse_conflicts())
        {
            Ok(()) => ProbeOutcome::ok("no git operation is in progress"),
            Err(err) => refused(&err),
        }
    })
}

/// Whether another process holds a lock.
pub(super) fn locks(around: &ProbeContext) -> ProbeOutcome {
    in_repository(around, |repository, ctx| {
        if let Err(err) = repository.refuse_locked_index(around.own.now()) {
            return refused(&err);
        }
        if let Some(holder) = lock::current_holder(&repository.own_folder()) {
            return ProbeOutcome::warning(
                format!("a run is active here: {holder}"),
                "wait for it; `piton log` shows it",
            );
        }
        match unfinished_note::find(&RunFolders::of_project(ctx)) {
            Ok(None) => ProbeOutcome::ok("no other process is active here"),
            Ok(Some(waiting)) => ProbeOutcome::warning(
                format!("run `{}` is unfinished", waiting.run),
                "`piton status` shows what it waits for, `piton resume` continues it",
            ),
            Err(err) => ProbeOutcome::warning(
                with_causes(&err),
                err.hint().map(String::from).unwrap_or_default(),
            ),
        }
    })
}

/// What the file system of the repository supports.
pub(super) fn file_system(around: &ProbeContext) -> ProbeOutcome {
    in_repository(around, |repository, ctx| {
        if let Err(err) = rustix::fs::access(&ctx.root, rustix::fs::Access::WRITE_OK) {
            return ProbeOutcome::missing(
                format!("`{}` cannot be written: {err}", ctx.root.display()),
                "make it writable",
            );
        }
        // In git's folder: the same file system as the work tree, without touching the user's
        // files.
        let folder = tempfile::Builder::new()
            .prefix("piton-doctor-")
            .tempdir_in(repository.git_dir());
        let abilities = folder.and_then(|folder| abilities(folder.path()));
        match abilities {
            Err(err) => {
                let detail = format!(
                    "`{}` cannot be written: {err}",
                    repository.git_dir().display()
                );
                ProbeOutcome::missing(detail, "make it writable, or free some disk space")
            }
            Ok(lacks) if lacks.is_empty() => {
                ProbeOutcome::ok("keeps modes and links, is case-sensitive, renames atomically")
            }
            Ok(lacks) if lacks.contains(&"hard links") => ProbeOutcome::missing(
                format!("has no {}", lacks.join(", no ")),
                "use a native Linux file system",
            ),
            Ok(lacks) if lacks == ["executable bits"] && !repository.trusts_file_modes() => {
                ProbeOutcome::ok(
                    "has no executable bits, and git is set up for that (`core.fileMode`)",
                )
            }
            Ok(lacks) => ProbeOutcome::warning(
                format!("has no {}", lacks.join(", no ")),
                "such changes cannot be detected or rolled back here",
            ),
        }
    })
}

/// The features that a file system lacks.
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

pub(super) fn has_repository(around: &ProbeContext) -> bool {
    around
        .patient
        .found
        .as_ref()
        .is_ok_and(|ctx| open_repository(ctx).is_ok())
}

/// Checks something in the repository of the project, if there is one.
fn in_repository(
    around: &ProbeContext,
    ask: impl FnOnce(&Repository, &Context) -> ProbeOutcome,
) -> ProbeOutcome {
    let Ok(ctx) = &around.patient.found else {
        return ProbeOutcome::warning("there is no project here", "");
    };
    match open_repository(ctx) {
        Ok(repository) => ask(&repository, ctx),
        Err(err @ CheckpointError::NoRepository(_)) if ctx.config.git_required() => {
            ProbeOutcome::warning(
                err.to_string(),
                err.hint().map(String::from).unwrap_or_default(),
            )
        }
        Err(CheckpointError::NoRepository(_)) => {
            ProbeOutcome::ok("none, and `git.required` is off: nothing can be undone")
        }
        Err(err) => refused(&err),
    }
}

fn refused(err: &CheckpointError) -> ProbeOutcome {
    ProbeOutcome::missing(
        with_causes(err),
        err.hint()
            .unwrap_or_else(|| "see what `git status` says".into()),
    )
}
