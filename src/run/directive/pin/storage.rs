//! The files beside the journal that keep the pinned items.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::{Later, Pinned, renewal};
use crate::encoding::hex;
use crate::item::directive::{self, Directive};
use crate::item::finding::{Findings, Strength};
use crate::item::source::{MAX_TEXT, SourceFile, files_below, read_bytes};
use crate::item::store::{Item, ItemStore, Layer};
use crate::journal::RunId;
use crate::run::error::RunError;

const MANIFEST: &str = "pinned.json";
/// The file for items that were pinned during the run.
pub(super) const LATER: &str = "pinned-later.json";
const FOLDER: &str = "pinned";
/// An upper limit for the size of an item file.
pub(super) const MAX_FILE: u64 = 256 * 1024 * 1024;

impl Pinned {
    /// Writes everything beside the journal; returns the hash of the manifest.
    pub(in crate::run) fn save(&self, runs: &Path, run: RunId) -> io::Result<String> {
        let home = runs.join(run.to_string());
        self.save_texts(&home)?;
        let manifest = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        write(&home, &home.join(MANIFEST), &manifest)?;
        Ok(hash_of(&manifest))
    }

    /// Saves items that were pinned during the run before they are used, so that a resumed run uses
    /// the same.
    pub(in crate::run) fn save_later(&mut self, runs: &Path, run: RunId) -> io::Result<()> {
        if self.later.is_unsaved {
            let home = runs.join(run.to_string());
            self.save_texts(&home)?;
            let later = serde_json::to_vec_pretty(&self.later).map_err(io::Error::other)?;
            write(&home, &home.join(self.later_file()), &later)?;
            self.later.is_unsaved = false;
        }
        Ok(())
    }

    pub(super) fn save_texts(&self, home: &Path) -> io::Result<()> {
        let folder = home.join(FOLDER);
        fs::create_dir_all(&folder)?;
        for (content, text) in &self.texts {
            let path = folder.join(content);
            if !path.exists() {
                write(home, &path, text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Reads the pinned items; `hash` is the hash in the journal.
    pub(in crate::run) fn load(
        store: &ItemStore,
        runs: &Path,
        run: RunId,
        hash: &str,
    ) -> Result<Self, RunError> {
        let home = runs.join(run.to_string());
        let path = home.join(MANIFEST);
        let damaged = |path: &Path| RunError::PinDamaged {
            run,
            path: path.to_path_buf(),
        };
        let matches = |path: &Path| {
            read_bytes(path, MAX_FILE)
                .ok()
                .filter(|bytes| hash_of(bytes) == hash)
        };
        let (bytes, renewed) = match matches(&path) {
            Some(bytes) => (bytes, None),
            None => (
                matches(&home.join(renewal::manifest(hash))).ok_or_else(|| damaged(&path))?,
                Some(hash.to_owned()),
            ),
        };
        let mut pinned: Self = serde_json::from_slice(&bytes).map_err(|_| damaged(&path))?;
        pinned.renewed = renewed;
        let path = home.join(pinned.later_file());
        if path.exists() {
            let bytes = read_bytes(&path, MAX_FILE).map_err(|_| damaged(&path))?;
            let later: Later = serde_json::from_slice(&bytes).map_err(|_| damaged(&path))?;
            // Items from the beginning take precedence.
            for (id, directive) in &later.directives {
                pinned
                    .directives
                    .entry(id.clone())
                    .or_insert_with(|| directive.clone());
            }
            for (id, tool) in &later.tools {
                pinned
                    .tools
                    .entry(id.clone())
                    .or_insert_with(|| tool.clone());
            }
            pinned.later = later;
        }
        let folder = home.join(FOLDER);
        for (file, result) in files_below(&folder) {
            result.map_err(|_| damaged(&file))?;
            let content = file
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let bytes = read_bytes(&file, MAX_TEXT).map_err(|_| damaged(&file))?;
            if hash_of(&bytes) != content {
                return Err(damaged(&file));
            }
            let text = String::from_utf8(bytes).map_err(|_| damaged(&file))?;
            let directive = match parse(&file, &text) {
                Some(directive) => directive,
                None => {
                    find_builtin(store, &text).ok_or_else(|| RunError::ItemChanged(text.clone()))?
                }
            };
            pinned.parsed.insert(content.clone(), Arc::new(directive));
            pinned.texts.insert(content, text);
        }
        Ok(pinned)
    }
}

/// The built-in directive with a label.
fn find_builtin(store: &ItemStore, label: &str) -> Option<Directive> {
    let mut builtin = store
        .items()
        .iter()
        .filter(|item| item.layer == Layer::Builtin)
        .filter_map(Item::as_directive);
    builtin
        .find(|it| format!("{}@{}", it.name, it.version) == label)
        .cloned()
}

pub(super) fn parse(file: &Path, text: &str) -> Option<Directive> {
    let mut findings = Findings::new(file, Strength::Lenient);
    let source = SourceFile::decode(file, text.as_bytes().to_vec(), &mut findings)?;
    directive::parse(&source, &mut findings)
}

pub(super) fn hash_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Writes a file that only its owner can read, atomically and synced: a truncated directive would
/// make its run impossible to resume.
pub(super) fn write(home: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NamedTempFile::new_in(home)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
}
