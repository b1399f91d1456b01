//! Refuses a signing program or key that a step has chosen.
//!
//! Git's settings name the program that signs commits. piton runs it outside of the step, with the
//! user's environment, so these settings must be those from before the first step of the run.

use super::checkpointer::Checkpointer;
use super::error::CheckpointError;
use super::filter::{self, FilterSettings};

/// Whether commits are signed, by which program and with which key.
const SETTINGS: &str = r"^(commit\.gpgsign|gpg\.|user\.signingkey)";

impl Checkpointer {
    /// From now on, commits are made only if git's settings for signatures are those of this moment.
    pub fn fix_signing(&mut self) {
        let repository = &self.repository;
        self.signing
            .get_or_insert_with(|| filter::settings(repository, SETTINGS));
    }

    /// Refuses to commit if a step has changed how git signs, or a program that it signs with.
    pub(super) fn require_known_signing(&self) -> Result<(), CheckpointError> {
        let Some(expected) = &self.signing else {
            return Ok(());
        };
        let now: FilterSettings = filter::settings(&self.repository, SETTINGS);
        let mut changed = filter::changed_settings(expected, &now);
        let signs = self.repository.flag("commit.gpgsign") == Some(true);
        changed.extend(self.filters.changed_files(&now).filter(|_| signs));
        if changed.is_empty() {
            Ok(())
        } else {
            Err(CheckpointError::SigningChanged(changed))
        }
    }
}
