//! Parses the public lines of a run that came without its journal, one at a time.
//!
//! The lines come from another repository and may be anything. Nothing is kept here, so that a
//! caller decides how much of a log is in memory.

use super::record::{self, Record, Unreadable};

/// The parser of one log. Pass it each line in order, then call [`Self::finish`].
#[derive(Debug, Default)]
pub struct PublicLines {
    entries: usize,
    /// The last line, which is damage if another line follows.
    torn: Option<String>,
}

/// An entry of a log that is not a line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableEntry {
    #[error("entry {0} has no end")]
    Torn(usize),
    #[error("entry {entry} cannot be read: {reason}")]
    Damaged { entry: usize, reason: String },
    #[error("entry {entry} has format {version}, which this piton does not know")]
    Newer { entry: usize, version: u64 },
}

impl PublicLines {
    /// Parses the next line, which has its line feed unless it is the last one. None for a line that
    /// is readable only if it is the last.
    pub fn take(&mut self, line: &[u8]) -> Result<Option<Record>, UnreadableEntry> {
        if let Some(reason) = self.torn.take() {
            let entry = self.entries;
            return Err(UnreadableEntry::Damaged { entry, reason });
        }
        self.entries += 1;
        let entry = self.entries;
        let parsed = match line.strip_suffix(b"\n") {
            Some(line) => record::parse(line),
            None => Err(Unreadable::NotJson("it has no end".to_owned())),
        };
        match parsed {
            Ok(record) => Ok(Some(record)),
            Err(Unreadable::NotJson(reason)) => {
                self.torn = Some(reason);
                Ok(None)
            }
            Err(Unreadable::Newer(version)) => Err(UnreadableEntry::Newer { entry, version }),
            Err(Unreadable::NotARecord(reason)) => Err(UnreadableEntry::Damaged { entry, reason }),
        }
    }

    /// Fails if the last line is incomplete.
    pub fn finish(self) -> Result<(), UnreadableEntry> {
        match self.torn {
            Some(_) => Err(UnreadableEntry::Torn(self.entries)),
            None => Ok(()),
        }
    }
}
