//! A counter that orders the sessions of a repository.
//!
//! Clocks can go back, so the start times in run ids are not enough to order steps. Each session
//! takes one number under the lock of its worktree and records it with what it starts. A session
//! works on one run at a time, so the session number and the step number order all steps of a
//! repository. The counter file is only a cache: if it is missing, or after a reboot, which may
//! have lost the last write, the journals tell the last number.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags};

use super::{Event, JournalError, list, path_of, read_each};
use crate::disk::create_private_folder;
use crate::exec::process;
use crate::system_call::flock;

/// The counter file, beside the folder with the journals.
const FILE: &str = "order";
/// Longer than a number and a boot id.
const MAX_SIZE: usize = 256;

/// Takes the next number. `runs` is the folder with the journals.
pub fn next(runs: &Path) -> Result<u64, JournalError> {
    let path = runs.with_file_name(FILE);
    let failed = |doing| JournalError::io(doing, &path);
    if let Some(folder) = path.parent() {
        create_private_folder(folder).map_err(failed("create the folder of"))?;
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path)
        .map_err(failed("open"))?;
    // The worktrees of a repository share the journals but not the run lock.
    flock(&file, FlockOperation::LockExclusive).map_err(|err| failed("lock")(err.into()))?;
    let mut bytes = vec![0; MAX_SIZE];
    let size = file.read_at(&mut bytes, 0).map_err(failed("read"))?;
    let boot = process::boot_id().unwrap_or_default();
    let written = bytes
        .get(..size)
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .and_then(parse);
    let last = match written {
        Some((number, of)) if of == boot => number,
        written => written
            .map_or(0, |(number, _)| number)
            .max(last_written(runs)?),
    };
    let next = last.saturating_add(1);
    let line = format!("{next} {boot}\n");
    let put = || -> io::Result<()> {
        file.write_all_at(line.as_bytes(), 0)?;
        file.set_len(line.len() as u64)
    };
    put().map_err(failed("write"))?;
    Ok(next)
}

fn parse(text: &str) -> Option<(u64, &str)> {
    let (number, boot) = text.strip_suffix('\n')?.split_once(' ')?;
    Some((number.parse().ok()?, boot))
}

fn last_written(runs: &Path) -> Result<u64, JournalError> {
    let mut last = 0;
    for run in list(runs)? {
        // The commands that use a journal report that it cannot be read.
        let _ = read_each(&path_of(runs, run), &mut |record| {
            if let Event::RunStarted { order, .. } | Event::StepStarted { order, .. } =
                &record.event
            {
                last = last.max(order.unwrap_or_default());
            }
        });
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_up_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("piton").join("runs");
        assert_eq!(
            [
                next(&runs).unwrap(),
                next(&runs).unwrap(),
                next(&runs).unwrap()
            ],
            [1, 2, 3]
        );
    }

    #[test]
    fn a_number_of_another_boot_is_only_a_lower_bound() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        std::fs::write(folder.path().join(FILE), "7 another-boot\n").unwrap();
        assert_eq!(next(&runs).unwrap(), 8);
    }

    #[test]
    fn a_damaged_file_restarts_after_what_the_journals_say() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        std::fs::write(folder.path().join(FILE), "99").unwrap();
        assert_eq!(next(&runs).unwrap(), 1);
    }
}
