//! Temporary files and folders in piton's folder of a worktree, named after their process.
//!
//! Read-only commands, such as a preview, create them without the lock of the worktree. So the lock
//! does not show that such a process was killed; the name does.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The prefix of all names, followed by the process id.
const PREFIX: &str = ".piton-tmp-";

/// The prefix of the names of this process.
pub(super) fn prefix() -> String {
    format!("{PREFIX}{}-", std::process::id())
}

/// Removes files of processes that have exited. Files that cannot be removed are harmless.
pub(super) fn clear_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(|rest| rest.split('-').next());
        if process.is_some_and(is_gone) {
            let path = entry.path();
            let _ = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
        }
    }
}

/// Whether no process with this id exists.
pub(super) fn is_gone(process: &str) -> bool {
    let process = process.parse().ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_process_left_that_is_gone_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        // No process has this id: Linux uses none above 2^22.
        let (gone, ours) = (format!("{PREFIX}{}-0", i32::MAX), prefix() + "0");
        for name in [gone.as_str(), ours.as_str(), "COMMIT_EDITMSG"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join(format!("{gone}-folder"))).unwrap();
        clear_abandoned(folder.path());
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [ours.as_str(), "COMMIT_EDITMSG"]);
    }
}
