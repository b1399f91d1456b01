//! One line of a journal, and all lines of one.
//!
//! A last line that has no end or is no JSON was being written when piton was killed: it never
//! counted. Any other line that cannot be read is damage.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::chain::Digest;
use super::error::JournalError;
use super::event::Event;
use super::id::RunId;

/// The format that is written.
const VERSION: u64 = 1;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number, from 1.
    pub seq: u64,
    /// When it was written.
    pub at: Timestamp,
    /// The run it belongs to.
    pub run: RunId,
    /// The digest of the line before it.
    pub prev: Digest,
    /// The digest of its own bytes.
    pub digest: Digest,
    /// What it says.
    pub event: Event,
    /// The line as it was written, without its end.
    pub line: String,
}

/// What a journal holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Its lines, in order.
    pub records: Vec<Record>,
    /// What is left of a line that was being written when piton was killed.
    pub torn: Option<Torn>,
}

/// The rest of a line that was never finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// How many bytes there are of it.
    pub bytes: u64,
}

/// The line as JSON, to be written.
#[derive(Serialize)]
struct Written<'e> {
    v: u64,
    seq: u64,
    at: Timestamp,
    run: RunId,
    prev: Digest,
    event: &'e Event,
}

/// The line as JSON, as it is read.
#[derive(Deserialize)]
struct Line {
    seq: u64,
    at: Timestamp,
    run: RunId,
    prev: Digest,
    event: Event,
}

/// What tells whether the rest can be understood.
#[derive(Deserialize)]
struct Version {
    v: u64,
}

/// Reads a journal; whether its lines belong together is for [`super::chain::verify`] to say.
pub fn read(path: &Path) -> Result<Contents, JournalError> {
    let bytes = load(path).map_err(JournalError::io("read", path))?;
    let mut records = Vec::new();
    let mut offset = 0;
    for (line, bytes_of_line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let is_last = offset + bytes_of_line.len() == bytes.len();
        let parsed = match bytes_of_line.strip_suffix(b"\n") {
            Some(text) => parse(text),
            None => Err(Unreadable::NotJson("it has no end".to_owned())),
        };
        match parsed {
            Ok(record) => records.push(record),
            Err(Unreadable::NotJson(_)) if is_last => {
                let torn = Torn { offset: offset as u64, bytes: bytes_of_line.len() as u64 };
                return Ok(Contents { records, torn: Some(torn) });
            }
            Err(Unreadable::Newer(version)) => {
                return Err(JournalError::Newer { path: path.to_path_buf(), version });
            }
            Err(Unreadable::NotJson(reason) | Unreadable::NotARecord(reason)) => {
                return Err(JournalError::Damaged { path: path.to_path_buf(), line, reason });
            }
        }
        offset += bytes_of_line.len();
    }
    Ok(Contents { records, torn: None })
}

impl Record {
    /// Makes the record that follows a line.
    pub(super) fn new(seq: u64, at: Timestamp, run: RunId, prev: Digest, event: &Event) -> io::Result<Self> {
        let line = serde_json::to_string(&Written { v: VERSION, seq, at, run, prev, event })?;
        Ok(Self { seq, at, run, prev, digest: Digest::of(line.as_bytes()), event: event.clone(), line })
    }
}

/// Why a line is no record.
enum Unreadable {
    NotJson(String),
    Newer(u64),
    NotARecord(String),
}

fn parse(bytes: &[u8]) -> Result<Record, Unreadable> {
    let text = str::from_utf8(bytes).map_err(|err| Unreadable::NotJson(err.to_string()))?;
    let not_a_record = |err: serde_json::Error| match err.classify() {
        serde_json::error::Category::Data => Unreadable::NotARecord(err.to_string()),
        _ => Unreadable::NotJson(err.to_string()),
    };
    let Version { v } = serde_json::from_str(text).map_err(not_a_record)?;
    if v != VERSION {
        return Err(Unreadable::Newer(v));
    }
    let Line { seq, at, run, prev, event } = serde_json::from_str(text).map_err(not_a_record)?;
    Ok(Record { seq, at, run, prev, digest: Digest::of(bytes), event, line: text.to_owned() })
}

fn load(path: &Path) -> io::Result<Vec<u8>> {
    // A tool may have put something else in its place: do not wait on a pipe, do not follow a link.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
