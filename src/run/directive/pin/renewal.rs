//! The current items for a restarted run.
//!
//! The first manifest stays beside the journal; each renewal has its own manifest, named by its
//! hash. It is written before the journal refers to it, so after a crash in between the run uses
//! the earlier one.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::storage::{LATER, hash_of, write};
use super::{LoadedPin, Pinned};
use crate::checkpoint::diff;
use crate::context::Context;
use crate::item::directive::{Directive, OnFailure};
use crate::item::store::ItemStore;
use crate::journal::RunId;
use crate::journal::event::ChangedItem;
use crate::run::directive::state::inputs_for;
use crate::run::error::RunError;

/// The file name of the manifest with a hash.
pub(super) fn manifest(hash: &str) -> String {
    format!("pinned-{hash}.json")
}

impl Pinned {
    /// The same run with the current items; inputs and options stay.
    pub(in crate::run) fn renewed(
        &self,
        ctx: &Context,
        store: &ItemStore,
        label: &str,
    ) -> Result<Self, RunError> {
        let id = self
            .root_id(label)
            .ok_or_else(|| RunError::ItemChanged(label.to_owned()))?;
        let mut now = Self::of(ctx, store, id)?;
        let root = now.find(ctx, store, id)?;
        // Reuse a directive that was pinned during the run only if it still exists.
        for id in self
            .later
            .directives
            .keys()
            .filter(|id| !now.directives.contains_key(*id))
            .cloned()
            .collect::<Vec<_>>()
        {
            let _ = now.pin_directive(ctx, store, &id);
        }
        now.inputs =
            inputs_for(&root.directive, &self.inputs).map_err(|problems| RunError::Inputs {
                directive: root.label.clone(),
                problems,
            })?;
        now.options = self.options.clone();
        if self.changes_to(&now).is_empty() && now.inputs == self.inputs {
            return Ok(self.clone());
        }
        Ok(now)
    }

    /// The differences from another set of pinned items, directives first.
    pub(in crate::run) fn changes_to(&self, now: &Self) -> Vec<ChangedItem> {
        let mut changed = Vec::new();
        let ids: BTreeSet<&String> = self
            .directives
            .keys()
            .chain(now.directives.keys())
            .collect();
        for id in ids {
            let content = |pinned: &Self| {
                pinned
                    .directives
                    .get(id)
                    .map(|directive| directive.content.clone())
            };
            changed.extend(changed_item("directive", id, content(self), content(now)));
        }
        let ids: BTreeSet<&String> = self.tools.keys().chain(now.tools.keys()).collect();
        for id in ids
            .into_iter()
            .filter(|id| !self.later.tools.contains_key(*id))
        {
            changed.extend(changed_item(
                "tool",
                id,
                self.tools.get(id).cloned(),
                now.tools.get(id).cloned(),
            ));
        }
        changed
    }

    /// The differences between the texts of directives that both contain, as unified diffs.
    pub(in crate::run) fn diff_to(&self, now: &Self) -> Result<Vec<u8>, RunError> {
        let mut text = Vec::new();
        for (id, old) in &self.directives {
            let Some(new) = now
                .directives
                .get(id)
                .filter(|new| new.content != old.content)
            else {
                continue;
            };
            if let (Some(one), Some(other)) =
                (self.texts.get(&old.content), now.texts.get(&new.content))
            {
                text.extend(diff::of_texts(&new.file, one.as_bytes(), other.as_bytes())?);
            }
        }
        Ok(text)
    }

    /// The current directive for a pinned text; `None` if it is no longer used.
    pub(in crate::run) fn today_of(&self, content: &str, now: &Self) -> Option<LoadedPin> {
        let mut ids = self
            .directives
            .iter()
            .filter(|(_, pinned)| pinned.content == content);
        ids.find_map(|(id, _)| now.found(id))
    }

    /// Whether the run is all-or-nothing, by its options or by its directive.
    pub(in crate::run) fn is_atomic(&self, label: &str) -> bool {
        let root: Option<Arc<Directive>> = self.root(label).map(|found| found.directive);
        let by_directive =
            root.and_then(|root| root.git_checkpoint.on_failure) == Some(OnFailure::RollbackRun);
        self.options.atomic || by_directive
    }

    /// Saves renewed items beside the journal; returns the hash of the manifest.
    pub(in crate::run) fn save_renewed(&mut self, runs: &Path, run: RunId) -> io::Result<String> {
        let home = runs.join(run.to_string());
        self.save_texts(&home)?;
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        let hash = hash_of(&text);
        write(&home, &home.join(manifest(&hash)), &text)?;
        self.renewed = Some(hash.clone());
        Ok(hash)
    }

    /// The file name for items that were pinned later.
    pub(super) fn later_file(&self) -> String {
        self.renewed.as_ref().map_or_else(
            || LATER.to_owned(),
            |hash| format!("pinned-{hash}-later.json"),
        )
    }
}

fn changed_item(
    kind: &str,
    id: &str,
    before: Option<String>,
    after: Option<String>,
) -> Option<ChangedItem> {
    (before != after).then(|| ChangedItem {
        kind: kind.to_owned(),
        id: id.to_owned(),
        before,
        after,
    })
}
