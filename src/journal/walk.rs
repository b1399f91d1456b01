//! A journal line by line, without all of it in memory.
//!
//! For what looks at every line once and needs little of it: [`walk`] checks the chain as it goes, and
//! a [`Brief`] is the public part of a line with the few fields that a table of contents is made of.

use std::io::{BufRead, BufReader};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::chain::{self, Digest};
use super::error::JournalError;
use super::id::RunId;
use super::record::{self, FIRST, read};

/// A line, in brief.
#[derive(Clone, Debug)]
pub struct Brief {
    /// When it was written.
    pub at: Timestamp,
    /// Its public part.
    pub public: String,
    /// Whether it is of the first format, in which nothing is private.
    pub is_first_format: bool,
    /// The type of its event.
    pub kind: String,
    event: Event,
    digest: Digest,
}

#[derive(Deserialize)]
struct Line {
    v: u64,
    at: Timestamp,
    run: RunId,
    prev: Digest,
    #[serde(default)]
    sealed: Option<Digest>,
    event: Event,
}

/// Fields that several events have. A newer piton may give them other types.
#[derive(Clone, Debug, Deserialize)]
struct Event {
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
    /// The step that it belongs to.
    pub fn step(&self) -> Option<u64> {
        self.event.step.as_u64()
    }

    /// The name of a step or a run that begins.
    pub fn name(&self) -> Option<&str> {
        self.event.name.as_str()
    }

    /// The mode of a run that begins.
    pub fn mode(&self) -> Option<&str> {
        self.event.mode.as_str()
    }

    /// The commit that was made.
    pub fn commit(&self) -> Option<&str> {
        self.event.commit.as_str()
    }

    /// How something ended.
    pub fn status(&self) -> Option<&str> {
        self.event.status.as_str()
    }
}

/// Shows every line of a journal, in order. Lines that were shown belong together, with their private
/// parts; the first that does not is an error.
pub fn walk(path: &Path, run: RunId, see: &mut dyn FnMut(Brief)) -> Result<(), JournalError> {
    let mut lines = BufReader::new(record::open(path).map_err(JournalError::io("read", path))?);
    let mut head = Digest::of_run(run);
    let mut text = Vec::new();
    loop {
        text.clear();
        lines.read_until(b'\n', &mut text).map_err(JournalError::io("read", path))?;
        // What has no end was being written when piton was killed.
        let Some(line) = text.strip_suffix(b"\n") else { return Ok(()) };
        let Some(brief) = brief(line, run, head) else { return explain(path, run) };
        head = brief.digest;
        see(brief);
    }
}

/// A line that follows another; none when it does not.
fn brief(bytes: &[u8], run: RunId, head: Digest) -> Option<Brief> {
    let text = str::from_utf8(bytes).ok()?;
    let (public, private) = text.split_once('\t').map_or((text, None), |(public, private)| (public, Some(private)));
    let line: Line = serde_json::from_str(public).ok()?;
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

/// Says what is wrong, for which all lines are needed; nothing when the last line is torn.
fn explain(path: &Path, run: RunId) -> Result<(), JournalError> {
    let contents = read(path)?;
    let verified = chain::verify(&contents.records, run);
    verified.map(|_| ()).map_err(|found| JournalError::Broken { path: path.to_path_buf(), found })
}
