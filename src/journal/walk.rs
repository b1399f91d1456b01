//! Reads a journal line by line, without keeping all of it in memory.
//!
//! [`walk`] checks the chain on the way and passes on a [`Brief`] per line: its public part and the
//! few fields that a table of contents needs.

use std::io::{BufRead, BufReader};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::chain::{self, Digest};
use super::error::JournalError;
use super::id::RunId;
use super::record::{self, FIRST, LineParts, read};

/// The public part of a line and its most important fields.
#[derive(Clone, Debug)]
pub struct Brief {
    pub at: Timestamp,
    pub public: String,
    /// Whether the line is of the first format, which has no private parts.
    pub is_first_format: bool,
    pub kind: String,
    event: WalkedEvent,
    digest: Digest,
}

#[derive(Deserialize)]
struct WalkedLine {
    v: u64,
    at: Timestamp,
    run: RunId,
    prev: Digest,
    #[serde(default)]
    sealed: Option<Digest>,
    event: WalkedEvent,
}

/// Fields that several events share. A newer piton may give them other types.
#[derive(Clone, Debug, Deserialize)]
struct WalkedEvent {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    step: Value,
    #[serde(default)]
    name: Value,
    #[serde(default)]
    mode: Value,
    #[serde(default)]
    commit: Value,
    #[serde(default)]
    status: Value,
}

impl Brief {
    pub fn step(&self) -> Option<u64> {
        self.event.step.as_u64()
    }

    /// The name of the step or run that begins.
    pub fn name(&self) -> Option<&str> {
        self.event.name.as_str()
    }

    /// The mode of the run that begins.
    pub fn mode(&self) -> Option<&str> {
        self.event.mode.as_str()
    }

    pub fn commit(&self) -> Option<&str> {
        self.event.commit.as_str()
    }

    pub fn status(&self) -> Option<&str> {
        self.event.status.as_str()
    }

    /// The digest of its public part.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// Passes every line of a journal to `see`, in order. Fails at the first line that breaks the chain
/// or whose private part was changed.
pub fn walk(path: &Path, run: RunId, see: &mut dyn FnMut(Brief)) -> Result<(), JournalError> {
    let mut lines = BufReader::new(record::open(path).map_err(JournalError::io("read", path))?);
    let mut head = Digest::of_run(run);
    let mut text = Vec::new();
    loop {
        text.clear();
        lines
            .read_until(b'\n', &mut text)
            .map_err(JournalError::io("read", path))?;
        // A line without an end was being written when piton was killed.
        let Some(line) = text.strip_suffix(b"\n") else {
            return Ok(());
        };
        let Some(brief) = brief(line, run, head) else {
            return explain(path, run);
        };
        head = brief.digest;
        see(brief);
    }
}

/// Parses a line; none if it does not follow `head`.
fn brief(bytes: &[u8], run: RunId, head: Digest) -> Option<Brief> {
    let text = str::from_utf8(bytes).ok()?;
    let LineParts {
        public, private, ..
    } = LineParts::of(text);
    let line: WalkedLine = serde_json::from_str(public).ok()?;
    let is_whole = line.sealed == private.map(|private| Digest::of(private.as_bytes()));
    (line.run == run && line.prev == head && is_whole).then(|| Brief {
        at: line.at,
        public: public.to_owned(),
        is_first_format: line.v == FIRST,
        kind: line.event.kind.clone(),
        event: line.event,
        digest: Digest::of(public.as_bytes()),
    })
}

/// Reads all lines to describe the break; succeeds if only the last line is torn.
fn explain(path: &Path, run: RunId) -> Result<(), JournalError> {
    let contents = read(path)?;
    let verified = chain::verify(&contents.records, run);
    verified.map(|_| ()).map_err(|found| JournalError::Broken {
        path: path.to_path_buf(),
        found,
    })
}
