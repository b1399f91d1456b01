//! Folders, disk, clock and terminal.

use std::fs;
use std::io;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use super::probe::ProbeOutcome;
use super::{ProbeContext, TerminalKind};
use crate::exec::private_folder::{PrivateFolder, PrivateUse};
use crate::item::wording::shown;

/// Warn below this much free space.
const LITTLE: u64 = 1 << 30;
/// The allowed difference between the clocks of a file system and of the machine.
const SKEW: SignedDuration = SignedDuration::from_secs(5);

pub(super) fn home(around: &ProbeContext) -> ProbeOutcome {
    match &around.own.home {
        None => {
            let fault = match around.patient.environment.find("HOME") {
                None => "`HOME` is not set".to_owned(),
                Some(home) => format!(
                    "`HOME` is `{}`, which is not an absolute path",
                    shown(&home.to_string_lossy())
                ),
            };
            let consequence =
                "you have no own items and settings, and caches go to the temporary folder";
            ProbeOutcome::warning(format!("{fault}: {consequence}"), "set `HOME`")
        }
        Some(home) if !home.is_dir() => ProbeOutcome::warning(
            format!(
                "`{}` is not a folder: you have no own items and settings",
                home.display()
            ),
            "create it, or set `HOME`",
        ),
        Some(home) => match writable(home) {
            Ok(()) => ProbeOutcome::ok(format!("`{}`", home.display())),
            Err(err) => ProbeOutcome::warning(
                format!("`{}` cannot be written: {err}", home.display()),
                "your own items cannot be saved; make it writable, or set `HOME`",
            ),
        },
    }
}

/// The folder of virtual environments and the search index.
pub(super) fn cache(around: &ProbeContext) -> ProbeOutcome {
    kept(
        &around.own.cache_folder(),
        "virtual environments and the search index are rebuilt each time",
        "XDG_CACHE_HOME",
    )
}

/// The folder of journals without a repository.
pub(super) fn state(around: &ProbeContext) -> ProbeOutcome {
    let folder = around.own.state_folder();
    kept(
        folder.parent().unwrap_or(&folder),
        "runs outside of git cannot be recorded",
        "XDG_STATE_HOME",
    )
}

fn kept(folder: &Path, consequence: &str, variable: &str) -> ProbeOutcome {
    match writable(folder) {
        Ok(()) => ProbeOutcome::ok(format!("`{}`", folder.display())),
        Err(err) => ProbeOutcome::missing(
            format!(
                "`{}` cannot be written: {err}; {consequence}",
                folder.display()
            ),
            format!("make it writable, or set another folder in `{variable}`"),
        ),
    }
}

/// Creates a file in a folder and removes it; if the folder does not exist, in its nearest existing
/// parent.
fn writable(folder: &Path) -> io::Result<()> {
    let nearest = folder
        .ancestors()
        .find(|it| fs::symlink_metadata(it).is_ok())
        .unwrap_or(folder);
    tempfile::Builder::new()
        .prefix(".piton-doctor-")
        .tempfile_in(nearest)?
        .close()
}

pub(super) fn temporary(around: &ProbeContext) -> ProbeOutcome {
    let folder = around.patient.environment.temporary_folder();
    let made = PrivateFolder::create(&folder, PrivateUse::Doctor);
    match made.and_then(|made| writable(made.path())) {
        Ok(()) => ProbeOutcome::ok(format!("`{}`", folder.display())),
        Err(err) => unwritable(&folder, &err),
    }
}

/// The outcome for a temporary folder that is not writable.
pub(super) fn unwritable(folder: &Path, reason: &dyn std::fmt::Display) -> ProbeOutcome {
    ProbeOutcome::missing(
        format!("cannot create a folder in `{}`: {reason}", folder.display()),
        "free some space there, or set `TMPDIR` to another folder",
    )
}

/// Free space for the project and for temporary files.
pub(super) fn disk(around: &ProbeContext) -> ProbeOutcome {
    let project = around
        .patient
        .found
        .as_ref()
        .map_or(&around.workshop, |ctx| &ctx.root);
    let mut told = Vec::new();
    let mut least = u64::MAX;
    for (name, folder) in [("project", project), ("temporary files", &around.workshop)] {
        match rustix::fs::statvfs(folder.as_path()) {
            Ok(disk) => {
                let free = disk.f_bavail.saturating_mul(disk.f_frsize);
                least = least.min(free);
                told.push(format!("{name}: {} free", size(free)));
            }
            Err(err) => told.push(format!("{name}: unknown ({err})")),
        }
    }
    let told = told.join(", ");
    if least < LITTLE {
        ProbeOutcome::warning(told, "free some space; `piton gc` deletes old snapshots")
    } else {
        ProbeOutcome::ok(told)
    }
}

fn size(bytes: u64) -> String {
    if bytes >= LITTLE {
        format!("{} GiB", bytes >> 30)
    } else {
        format!("{} MiB", bytes >> 20)
    }
}

/// Whether the clock is plausible, and matches the clock of the file system.
pub(super) fn clock(around: &ProbeContext) -> ProbeOutcome {
    let file = around.workshop.join("clock");
    let now = around.own.now();
    let written = fs::write(&file, "tick").and_then(|()| fs::metadata(&file)?.modified());
    let Some(written) = written.ok().and_then(|time| Timestamp::try_from(time).ok()) else {
        return ProbeOutcome::warning("the file system has no modification times", "");
    };
    let skew = written.duration_since(now);
    if now < Timestamp::from_second(1_735_689_600).unwrap_or_default() {
        return ProbeOutcome::warning(
            format!("the clock says {now}"),
            "set it: run ids are based on it",
        );
    }
    if skew.abs() > SKEW {
        return ProbeOutcome::warning(
            format!("the file system's clock is {} s off", skew.as_secs()),
            "use the same time server for both: recovery compares these times",
        );
    }
    ProbeOutcome::ok(format!(
        "{}, as the file system's",
        now.strftime("%Y-%m-%d %H:%M UTC")
    ))
}

/// How output is shown.
pub(super) fn terminal(around: &ProbeContext) -> ProbeOutcome {
    let environment = &around.patient.environment;
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| environment.find(name))
        .unwrap_or_default();
    let locale = locale.to_string_lossy().to_lowercase();
    let kind = match around.patient.terminal.kind {
        TerminalKind::Terminal => "a terminal",
        TerminalKind::Pipe => "a file or pipe",
    };
    let detail = format!("{kind}; {}", around.patient.terminal.colours);
    if locale.contains("utf-8") || locale.contains("utf8") {
        ProbeOutcome::ok(detail)
    } else {
        let hint = "set `LANG`, e.g. to `C.UTF-8`, if you see odd signs instead of ✓ and ✗";
        ProbeOutcome::warning(format!("{detail}; the locale is not UTF-8"), hint)
    }
}
