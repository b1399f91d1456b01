//! Packs in the user's object database that no ref leads to yet, and what killed processes leave of packs.
//!
//! `git repack -a -d` drops packed objects that nothing leads to. Between a pack and the branch that needs it lie the
//! user's hooks; meanwhile a `.keep` file stands beside the pack, as `git fetch` puts one there.

use std::fs;
use std::path::Path;

use super::super::error::CheckpointError;
use super::super::pack::{PREFIX, UNFINISHED};
use super::super::scratch::is_gone;
use super::{Store, TEMPORARY_PREFIX};
use crate::failpoint::failpoint;

/// What the text of a guard begins with; the number of its process follows.
const GUARD: &str = "piton";

impl Store {
    /// Keeps `git repack` from dropping a pack of the user's object database, until a ref leads to its objects.
    pub(crate) fn guard(&self, pack: &Path) -> Result<(), CheckpointError> {
        let path = pack.with_extension("keep");
        let text = format!("{GUARD} {}\n", std::process::id());
        fs::write(&path, text).map_err(CheckpointError::io("write", &path))?;
        self.guards.borrow_mut().push(path);
        failpoint("pack-guarded");
        Ok(())
    }

    /// Lets `git repack` have the packs: refs lead to what was written.
    pub(crate) fn release_guards(&self) {
        for path in self.guards.take() {
            // A guard that stays only keeps git from joining this pack with others.
            let _ = fs::remove_file(path);
        }
    }

    /// Removes what killed processes left of packs in this store and in the user's object database.
    pub(crate) fn clear_unfinished_packs(&self, users: &Path) {
        for objects in [self.objects().as_path(), users] {
            for entry in fs::read_dir(objects.join("pack")).into_iter().flatten().flatten() {
                clear_unfinished(&entry.path());
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.release_guards();
    }
}

/// Removes a file in a folder of packs if a process made it that is gone. What cannot be removed does no harm.
fn clear_unfinished(path: &Path) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let unfinished = name.strip_prefix(UNFINISHED).and_then(|rest| rest.strip_prefix(TEMPORARY_PREFIX));
    if let Some(unfinished) = unfinished {
        let mut parts = unfinished.split('_');
        if parts.next().is_some_and(is_gone) {
            // The index of a pack names the pack, after the number of the file.
            if let Some(sum) = parts.nth(1) {
                let pack = path.with_file_name(format!("{PREFIX}{sum}.pack"));
                if !pack.with_extension("idx").exists() {
                    let _ = fs::remove_file(pack);
                }
            }
            let _ = fs::remove_file(path);
        }
    } else if path.extension().is_some_and(|end| end == "keep") {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.strip_prefix(GUARD).is_some_and(|process| is_gone(process.trim())) {
            // Killed before the pack had its index: git would call it garbage.
            if !path.with_extension("idx").exists() {
                let _ = fs::remove_file(path.with_extension("pack"));
            }
            let _ = fs::remove_file(path);
        }
    }
}
