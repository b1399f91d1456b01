//! Protects packs in the user's object database that no ref reaches yet, and removes leftovers of
//! killed processes.
//!
//! `git repack -a -d` drops unreachable packed objects. The user's hooks run between writing a pack
//! and moving the branch; meanwhile a `.keep` file beside the pack protects it, as `git fetch`
//! does.

use std::fs;
use std::path::Path;

use super::super::error::CheckpointError;
use super::super::pack::{PREFIX, UNFINISHED};
use super::super::scratch::is_gone;
use super::{Store, TEMPORARY_PREFIX};
use crate::failpoint::failpoint;

/// The prefix of the text of a guard, followed by its process id.
const GUARD: &str = "piton";

impl Store {
    /// Protects a pack of the user's object database from `git repack` until a ref reaches its
    /// objects.
    pub(crate) fn guard(&self, pack: &Path) -> Result<(), CheckpointError> {
        let path = pack.with_extension("keep");
        let text = format!("{GUARD} {}\n", std::process::id());
        fs::write(&path, text).map_err(CheckpointError::io("write", &path))?;
        self.guards.borrow_mut().push(path);
        failpoint("pack-guarded");
        Ok(())
    }

    /// Removes the guards, because refs reach the objects now.
    pub(crate) fn release_guards(&self) {
        for path in self.guards.take() {
            // A leftover guard only keeps git from joining this pack with others.
            let _ = fs::remove_file(path);
        }
    }

    /// Removes what killed processes left of packs in this store and in the user's object database.
    pub(crate) fn clear_unfinished_packs(&self, users: &Path) {
        for objects in [self.objects().as_path(), users] {
            for entry in fs::read_dir(objects.join("pack"))
                .into_iter()
                .flatten()
                .flatten()
            {
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

/// Removes a file in a folder of packs if its process is gone. Files that cannot be removed are
/// harmless.
fn clear_unfinished(path: &Path) {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let unfinished = name
        .strip_prefix(UNFINISHED)
        .and_then(|rest| rest.strip_prefix(TEMPORARY_PREFIX));
    if let Some(unfinished) = unfinished {
        let mut parts = unfinished.split('_');
        if parts.next().is_some_and(is_gone) {
            // The name of the index contains the pack, after the number of the file.
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
        if text
            .strip_prefix(GUARD)
            .is_some_and(|process| is_gone(process.trim()))
        {
            // Killed before the pack had its index: git would report it as garbage.
            if !path.with_extension("idx").exists() {
                let _ = fs::remove_file(path.with_extension("pack"));
            }
            let _ = fs::remove_file(path);
        }
    }
}
