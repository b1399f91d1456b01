//! What the machine and the file system offer, and what that means for piton.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::Check;
use super::lab::Lab;
use crate::disk::{Disk, Fsync};
use crate::exec::supervisor::{Touched, Watch};
use crate::item::source::read_bytes;
use crate::run::error::RunError;

/// Files are written so often to see how fine their times are.
const TICKS: u32 = 5;
/// Longer than the tick of any kernel.
const TICK: Duration = Duration::from_millis(11);

/// Whether piton can tell the edits of a step from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribution {
    Works,
    Impossible,
}

/// Looks at everything.
pub(super) fn look(lab: &mut Lab, tell: &mut dyn FnMut(Vec<Check>)) -> Result<Attribution, RunError> {
    tell(vec![git(lab)?]);
    let folder = lab.work();
    tell(vec![kind(&folder), times(&folder), cases(&folder), links(&folder), bits(&folder)]);
    let (check, attribution) = attribution(lab)?;
    tell(vec![check]);
    Ok(attribution)
}

fn git(lab: &mut Lab) -> Result<Check, RunError> {
    let answer = lab.sh("git --version")?;
    Ok(match answer.code {
        Some(0) => Check::ok("git", answer.stdout.trim()),
        _ => Check { hint: Some("install git".to_owned()), ..Check::failed("git", answer.words()) },
    })
}

/// The kind of the file system, and what `checkpoint.fsync: auto` does there.
fn kind(folder: &Path) -> Check {
    let name = kind_of(folder).unwrap_or_else(|| "unknown kind".to_owned());
    let barrier = Disk::of(folder, Fsync::Auto).barrier_in_words();
    Check::ok("file system", format!("{name}; `checkpoint.fsync: auto` {barrier}"))
}

/// The kind as the kernel names it.
fn kind_of(folder: &Path) -> Option<String> {
    let device = fs::metadata(folder).ok()?.dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = read_bytes(Path::new("/proc/self/mountinfo"), 1 << 20).ok()?;
    let mounts = String::from_utf8_lossy(&mounts).into_owned();
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(number.as_str()))?;
    line.split_once(" - ")?.1.split(' ').next().map(ToOwned::to_owned)
}

/// How fine the times of files are.
fn times(folder: &Path) -> Check {
    let name = "file times";
    let file = folder.join("ticks");
    let mut parts = Vec::new();
    for tick in 0..TICKS {
        let written = fs::write(&file, tick.to_string()).and_then(|()| fs::metadata(&file));
        match written {
            Ok(found) => parts.push(found.mtime_nsec()),
            Err(err) => return Check::failed(name, err.to_string()),
        }
        thread::sleep(TICK);
    }
    let _ = fs::remove_file(&file);
    if parts.iter().all(|part| *part == 0) {
        let detail = "whole seconds: files that were changed within the last seconds are read again";
        return Check::limited(name, detail, "steps take longer here; a file system with finer times avoids that");
    }
    Check::ok(name, "finer than a second")
}

fn cases(folder: &Path) -> Check {
    let name = "upper and lower case";
    let (upper, lower) = (folder.join("CASE"), folder.join("case"));
    if let Err(err) = fs::write(&upper, "") {
        return Check::failed(name, err.to_string());
    }
    let is_same = fs::symlink_metadata(&lower).is_ok();
    let _ = fs::remove_file(&upper);
    if is_same {
        let hint = "keep names apart by more than their case; git needs `core.ignoreCase` here";
        return Check::limited(name, "names that differ in case only are one file", hint);
    }
    Check::ok(name, "names that differ in case only are two files")
}

fn links(folder: &Path) -> Check {
    let name = "symbolic links";
    let link = folder.join("link");
    let made = symlink("nowhere", &link);
    let is_link = made.is_ok() && fs::read_link(&link).is_ok();
    let _ = fs::remove_file(&link);
    if is_link {
        return Check::ok(name, "can be made");
    }
    let hint = "git needs `core.symlinks=false` here, which `git init` sets";
    Check::limited(name, "cannot be made: links are files with the name of the target", hint)
}

fn bits(folder: &Path) -> Check {
    let name = "executable bit";
    let file = folder.join("bit");
    let bits = [0o644, 0o755].map(|mode| {
        let set = fs::write(&file, "").and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(mode)));
        set.and_then(|()| fs::metadata(&file)).map(|found| found.mode() & 0o100 != 0).ok()
    });
    let _ = fs::remove_file(&file);
    if bits == [Some(false), Some(true)] {
        return Check::ok(name, "is kept");
    }
    let hint = "git needs `core.fileMode=false` here, which `git init` sets";
    Check::limited(name, "is not kept: changes of it are not seen", hint)
}

/// Whether the kernel tells which files a step touches.
fn attribution(lab: &mut Lab) -> Result<(Check, Attribution), RunError> {
    let name = "attribution";
    let file = lab.work().join("touched");
    let answer = lab.sh_with(": > touched", &[], Watch::Yes)?;
    let _ = fs::remove_file(&file);
    Ok(match &answer.ended.touched {
        Touched::Paths(_) if answer.ended.touched.has(&file) => {
            (Check::ok(name, "the files of a step are told from edits at the same time"), Attribution::Works)
        }
        touched => {
            let why = touched.doubt().map(|doubt| format!(": {doubt}")).unwrap_or_default();
            let detail = format!("not possible{why}; a failing step is put back only when a person agrees");
            let hint = "use `--worktree`, or a Linux of 5.5 or newer that allows seccomp filters";
            (Check::limited(name, detail, hint), Attribution::Impossible)
        }
    })
}
