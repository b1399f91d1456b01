//! Checks what the machine and the file system offer, and what that means for piton.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::SelftestCheck;
use super::lab::Lab;
use crate::disk::{Disk, Fsync};
use crate::exec::supervisor::{Touched, Watch};
use crate::item::source::read_bytes;
use crate::run::error::RunError;

/// How many files are written to measure the resolution of their timestamps.
const TICKS: u32 = 5;
/// Longer than the timer tick of any kernel.
const TICK: Duration = Duration::from_millis(11);

/// Whether piton can tell the edits of a step from concurrent edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribution {
    Works,
    Impossible,
}

/// Runs all checks.
pub(super) fn look(
    lab: &mut Lab,
    tell: &mut dyn FnMut(Vec<SelftestCheck>),
) -> Result<Attribution, RunError> {
    tell(vec![git(lab)?]);
    let folder = lab.work();
    tell(vec![
        kind(&folder),
        times(&folder),
        cases(&folder),
        links(&folder),
        bits(&folder),
    ]);
    let (check, attribution) = attribution(lab)?;
    tell(vec![check]);
    Ok(attribution)
}

fn git(lab: &mut Lab) -> Result<SelftestCheck, RunError> {
    let answer = lab.sh("git --version")?;
    Ok(match answer.code {
        Some(0) => SelftestCheck::ok("git", answer.stdout.trim()),
        _ => SelftestCheck {
            hint: Some("install git".to_owned()),
            ..SelftestCheck::failed("git", answer.output_line())
        },
    })
}

/// The file system type, and the effect of `checkpoint.fsync: auto` on it.
fn kind(folder: &Path) -> SelftestCheck {
    let name = kind_of(folder).unwrap_or_else(|| "unknown kind".to_owned());
    let barrier = Disk::of(folder, Fsync::Auto).barrier_description();
    SelftestCheck::ok(
        "file system",
        format!("{name}; `checkpoint.fsync: auto` {barrier}"),
    )
}

/// The kernel's name of the type.
fn kind_of(folder: &Path) -> Option<String> {
    let device = fs::metadata(folder).ok()?.dev();
    let number = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    let mounts = read_bytes(Path::new("/proc/self/mountinfo"), 1 << 20).ok()?;
    let mounts = String::from_utf8_lossy(&mounts).into_owned();
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some(number.as_str()))?;
    line.split_once(" - ")?
        .1
        .split(' ')
        .next()
        .map(ToOwned::to_owned)
}

/// The resolution of file timestamps.
fn times(folder: &Path) -> SelftestCheck {
    let name = "file times";
    let file = folder.join("ticks");
    let mut parts = Vec::new();
    for tick in 0..TICKS {
        let written = fs::write(&file, tick.to_string()).and_then(|()| fs::metadata(&file));
        match written {
            Ok(found) => parts.push(found.mtime_nsec()),
            Err(err) => return SelftestCheck::failed(name, err.to_string()),
        }
        thread::sleep(TICK);
    }
    let _ = fs::remove_file(&file);
    if parts.iter().all(|part| *part == 0) {
        let detail = "whole seconds: recently changed files are read again";
        return SelftestCheck::limited(
            name,
            detail,
            "steps take longer here; a file system with finer times avoids that",
        );
    }
    SelftestCheck::ok(name, "finer than a second")
}

fn cases(folder: &Path) -> SelftestCheck {
    let name = "upper and lower case";
    let (upper, lower) = (folder.join("CASE"), folder.join("case"));
    if let Err(err) = fs::write(&upper, "") {
        return SelftestCheck::failed(name, err.to_string());
    }
    let is_same = fs::symlink_metadata(&lower).is_ok();
    let _ = fs::remove_file(&upper);
    if is_same {
        let hint = "keep names apart by more than their case; git needs `core.ignoreCase` here";
        return SelftestCheck::limited(name, "names that differ in case only are one file", hint);
    }
    SelftestCheck::ok(name, "names that differ in case only are two files")
}

fn links(folder: &Path) -> SelftestCheck {
    let name = "symbolic links";
    let link = folder.join("link");
    let made = symlink("nowhere", &link);
    let is_link = made.is_ok() && fs::read_link(&link).is_ok();
    let _ = fs::remove_file(&link);
    if is_link {
        return SelftestCheck::ok(name, "can be made");
    }
    let hint = "git needs `core.symlinks=false` here, which `git init` sets";
    SelftestCheck::limited(
        name,
        "cannot be made: links are files with the name of the target",
        hint,
    )
}

fn bits(folder: &Path) -> SelftestCheck {
    let name = "executable bit";
    let file = folder.join("bit");
    let bits = [0o644, 0o755].map(|mode| {
        let set = fs::write(&file, "")
            .and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(mode)));
        set.and_then(|()| fs::metadata(&file))
            .map(|found| found.mode() & 0o100 != 0)
            .ok()
    });
    let _ = fs::remove_file(&file);
    if bits == [Some(false), Some(true)] {
        return SelftestCheck::ok(name, "is kept");
    }
    let hint = "git needs `core.fileMode=false` here, which `git init` sets";
    SelftestCheck::limited(name, "is not kept: changes of it are not seen", hint)
}

/// Whether the kernel reports which files a step touches.
fn attribution(lab: &mut Lab) -> Result<(SelftestCheck, Attribution), RunError> {
    let name = "attribution";
    let file = lab.work().join("touched");
    let answer = lab.sh_with(": > touched", &[], Watch::Yes)?;
    let _ = fs::remove_file(&file);
    Ok(match &answer.ended.touched {
        Touched::Paths(_) if answer.ended.touched.has(&file) => (
            SelftestCheck::ok(name, "concurrent edits are not attributed to a step"),
            Attribution::Works,
        ),
        touched => {
            let why = touched
                .doubt()
                .map(|doubt| format!(": {doubt}"))
                .unwrap_or_default();
            let detail =
                format!("not possible{why}; a failed step is rolled back only if a person agrees");
            let hint = "use `--worktree`, or a Linux of 5.5 or newer that allows seccomp filters";
            (
                SelftestCheck::limited(name, detail, hint),
                Attribution::Impossible,
            )
        }
    })
}
