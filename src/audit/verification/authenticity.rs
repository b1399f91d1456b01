//! Checks that all lines of the journals here were written by piton for this user.

use std::path::Path;

use super::Verifier;
use crate::journal::error::{FOREIGN_HINT, OTHER_KEY_HINT, SHORTENED_HINT, UNAUTHENTICATED_HINT};
use crate::journal::{Authenticity, Record, RunId, TagCheck, is_of_another_user};
use crate::problem::Code;

impl Verifier<'_> {
    /// Checks the tags of a whole journal. Reports a break and returns false if it cannot be relied
    /// on.
    pub(super) fn is_authentic(&mut self, run: RunId, path: &Path, records: &[Record]) -> bool {
        let mut tags = TagCheck::new(self.key);
        for record in records {
            tags.take(record);
        }
        let must_have_tags = self.key.is_some_and(|key| key.covers(run.started()));
        let (code, message, hint) = match tags.found() {
            None | Some(Authenticity::Authenticated) => return self.has_its_end(run, records),
            Some(Authenticity::Unauthenticated) if !must_have_tags => {
                self.unauthenticated += 1;
                return true;
            }
            Some(Authenticity::Unauthenticated) => (
                Code::JournalUnauthenticated,
                "no line of the journal is authenticated, although piton had a key when the run began"
                    .to_owned(),
                UNAUTHENTICATED_HINT,
            ),
            Some(Authenticity::OtherKey) if is_of_another_user(path) => {
                self.of_other_users += 1;
                return true;
            }
            Some(Authenticity::OtherKey) => (
                Code::JournalKeyMissing,
                "the key that authenticates the journal is not here".to_owned(),
                OTHER_KEY_HINT,
            ),
            Some(Authenticity::Foreign(line)) => (
                Code::JournalForeignLine,
                format!("line {line} of the journal was not written by piton"),
                FOREIGN_HINT,
            ),
        };
        self.broken(code, Some(run), None, message);
        if let Some(found) = self.found.breaks.last_mut() {
            found.suggestion = Some(hint.to_owned());
        }
        false
    }

    /// Checks that no lines at the end were removed. Reports a break and returns false otherwise.
    fn has_its_end(&mut self, run: RunId, records: &[Record]) -> bool {
        let Some(known) = self.ends.of(run) else {
            return true;
        };
        let at = usize::try_from(known.lines).unwrap_or(usize::MAX);
        let record = records.get(at.saturating_sub(1));
        if record.is_some_and(|record| record.digest == known.head) {
            return true;
        }
        let message = format!(
            "the journal ends with line {}, and line {} was written",
            records.len(),
            known.lines
        );
        self.broken(Code::JournalShortened, Some(run), None, message);
        if let Some(found) = self.found.breaks.last_mut() {
            found.suggestion = Some(SHORTENED_HINT.to_owned());
        }
        false
    }

    /// Names the journals that are accepted although their lines could not be authenticated.
    pub(super) fn tell_unauthenticated(&mut self) {
        let others = match self.of_other_users {
            0 => None,
            1 => Some("1 run is of another user".to_owned()),
            count => Some(format!("{count} runs are of other users")),
        };
        self.found.notes.extend(
            others.map(|runs| format!("{runs}: only that user's piton can authenticate the lines")),
        );
        let runs = match self.unauthenticated {
            0 => return,
            1 => "1 run is",
            count => &format!("{count} runs are"),
        };
        self.found.notes.push(format!(
            "{runs} unauthenticated: made by an earlier version, or without a home folder"
        ));
    }
}
