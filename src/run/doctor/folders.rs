//! Folders, disk, clock and terminal.

use std::fs;
use std::io;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use super::probe::Outcome;
use super::{Surroundings, TerminalKind};
use crate::item::wording::shown;

/// Less free space than this is worth a word.
const LITTLE: u64 = 1 << 30;
/// The clocks of a file system and of the machine may differ by so much.
const SKEW: SignedDuration = SignedDuration::from_secs(5);

/// The user's home.
pub(super) fn home(around: &Surroundings) -> Outcome {
    match &around.own.home {
        None => {
            let fault = match around.patient.environment.find("HOME") {
                None => "`HOME` is not set".to_owned(),
                Some(home) => format!("`HOME` is `{}`, which is no absolute path", shown(&home.to_string_lossy())),
            };
            let consequence = "there are no items and settings of your own, and caches go to the temporary folder";
            Outcome::warning(format!("{fault}: {consequence}"), "set `HOME`")
        }
        Some(home) if !home.is_dir() => Outcome::warning(
            format!("`{}` is not a folder: there are no items and settings of your own", home.display()),
            "make it, or set `HOME`",
        ),
        Some(home) => match writable(home) {
            Ok(()) => Outcome::ok(format!("`{}`", home.display())),
            Err(err) => Outcome::warning(
                format!("`{}` cannot be written: {err}", home.display()),
                "items of your own cannot be kept; make it writable, or set `HOME`",
            ),
        },
    }
}

/// Where virtual environments and the index of search are kept.
pub(super) fn cache(around: &Surroundings) -> Outcome {
    kept(
        &around.own.cache_folder(),
        "virtual environments and the index of search are made anew each time",
        "XDG_CACHE_HOME",
    )
}

/// Where journals are kept that have no repository.
pub(super) fn state(around: &Surroundings) -> Outcome {
    let folder = around.own.state_folder();
    kept(folder.parent().unwrap_or(&folder), "runs outside of git cannot be written down", "XDG_STATE_HOME")
}

fn kept(folder: &Path, consequence: &str, variable: &str) -> Outcome {
    match writable(folder) {
        Ok(()) => Outcome::ok(format!("`{}`", folder.display())),
        Err(err) => Outcome::missing(
            format!("`{}` cannot be written: {err}; {consequence}", folder.display()),
            format!("make it writable, or name another folder in `{variable}`"),
        ),
    }
}

/// Makes a file in a folder and removes it; where the folder is not there yet, in what it would be made in.
fn writable(folder: &Path) -> io::Result<()> {
    let nearest = folder.ancestors().find(|it| fs::symlink_metadata(it).is_ok()).unwrap_or(folder);
    tempfile::Builder::new().prefix(".piton-doctor-").tempfile_in(nearest)?.close()
}

/// The temporary folder.
pub(super) fn temporary(around: &Surroundings) -> Outcome {
    let folder = around.patient.environment.temporary_folder();
    let made = tempfile::Builder::new().prefix("piton-doctor-").tempdir_in(&folder);
    match made.and_then(|made| writable(made.path())) {
        Ok(()) => Outcome::ok(format!("`{}`", folder.display())),
        Err(err) => unwritable(&folder, &err),
    }
}

/// A temporary folder in which nothing can be made.
pub(super) fn unwritable(folder: &Path, reason: &dyn std::fmt::Display) -> Outcome {
    Outcome::missing(
        format!("cannot make a folder in `{}`: {reason}", folder.display()),
        "make room there, or name another folder in `TMPDIR`",
    )
}

/// Free space, where the project and temporary files are.
pub(super) fn disk(around: &Surroundings) -> Outcome {
    let project = around.patient.found.as_ref().map_or(&around.workshop, |ctx| &ctx.root);
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
    if least < LITTLE { Outcome::warning(told, "make room; `piton gc` drops old snapshots") } else { Outcome::ok(told) }
}

fn size(bytes: u64) -> String {
    if bytes >= LITTLE { format!("{} GiB", bytes >> 30) } else { format!("{} MiB", bytes >> 20) }
}

/// Whether the clock is plausible, and the file system has the same one.
pub(super) fn clock(around: &Surroundings) -> Outcome {
    let file = around.workshop.join("clock");
    let now = around.own.now();
    let written = fs::write(&file, "tick").and_then(|()| fs::metadata(&file)?.modified());
    let Some(written) = written.ok().and_then(|time| Timestamp::try_from(time).ok()) else {
        return Outcome::warning("the file system does not tell when a file was written", "");
    };
    let skew = written.duration_since(now);
    if now < Timestamp::from_second(1_735_689_600).unwrap_or_default() {
        return Outcome::warning(format!("the clock says {now}"), "set it: runs are named and sorted by it");
    }
    if skew.abs() > SKEW {
        return Outcome::warning(
            format!("the file system's clock is {} s off", skew.as_secs()),
            "let both follow the same time server: what changed last is told by it",
        );
    }
    Outcome::ok(format!("{}, as the file system's", now.strftime("%Y-%m-%d %H:%M UTC")))
}

/// How results are shown.
pub(super) fn terminal(around: &Surroundings) -> Outcome {
    let environment = &around.patient.environment;
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| environment.find(name)).unwrap_or_default();
    let locale = locale.to_string_lossy().to_lowercase();
    let kind = match around.patient.terminal.kind {
        TerminalKind::Terminal => "a terminal",
        TerminalKind::Pipe => "a file or pipe",
    };
    let detail = format!("{kind}; {}", around.patient.terminal.colours);
    if locale.contains("utf-8") || locale.contains("utf8") {
        Outcome::ok(detail)
    } else {
        let hint = "set `LANG`, e.g. to `C.UTF-8`, if you see odd signs instead of ✓ and ✗";
        Outcome::warning(format!("{detail}; the locale is not UTF-8"), hint)
    }
}
