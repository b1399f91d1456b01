//! Which hooks the user requested, so that a replaced hook is noticed.
//!
//! Only a hint: the hook file itself decides whether a hook is installed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Hook;
use crate::disk::create_private_folder;
use crate::item::source::read_bytes;

/// Larger files are not read.
const MOST: u64 = 64 * 1024;

#[derive(Clone, Debug)]
pub(super) struct HookRecord {
    file: PathBuf,
    pub(super) hooks: BTreeSet<Hook>,
}

impl HookRecord {
    /// Reads the record. A damaged one counts as empty.
    pub(super) fn load(common_dir: &Path) -> Self {
        let file = common_dir.join("piton").join("hooks.json");
        let text = read_bytes(&file, MOST).unwrap_or_default();
        let value: Value = serde_json::from_slice(&text).unwrap_or_default();
        let names = value
            .get("hooks")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let hooks = names
            .filter_map(|name| Hook::ALL.into_iter().find(|hook| hook.name() == name))
            .collect();
        Self { file, hooks }
    }

    /// Writes the record atomically.
    pub(super) fn save(&self) -> io::Result<()> {
        if self.hooks.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
                _ => Ok(()),
            };
        }
        let names: Vec<&str> = self.hooks.iter().map(|hook| hook.name()).collect();
        let folder = self.file.parent().unwrap_or(Path::new("."));
        create_private_folder(folder)?;
        let mut draft = tempfile::NamedTempFile::new_in(folder)?;
        draft.write_all(format!("{}\n", json!({ "hooks": names })).as_bytes())?;
        draft.persist(&self.file).map_err(|err| err.error)?;
        Ok(())
    }
}
