//! Lines of a journal: reading and writing them.
//!
//! A line has a public part, which the chain covers, then optionally a private part and the tag that
//! authenticates both, each after a tab. JSON never contains a bare tab. Lines of the first format
//! have no private part, lines of earlier versions have no tag. A last line without a
//! line break or without valid JSON was being written when piton was killed, and it is ignored. Any
//! other unreadable line is damage.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::chain::Digest;
use super::error::JournalError;
use super::event::Event;
use super::id::RunId;
use super::key::{JournalKey, LineTag};
use super::seal::{self, Private, Salt};

/// The format that is written. The first format had no private part.
const VERSION: u64 = 2;
pub(super) const FIRST: u64 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counted from 1.
    pub seq: u64,
    pub at: Timestamp,
    pub run: RunId,
    pub prev: Digest,
    /// The digest of its public part.
    pub digest: Digest,
    /// `Event::Unknown` for types of a newer piton.
    pub event: Event,
    /// The text as it was written, without the line break.
    pub line: String,
    pub privacy: Privacy,
    /// None in journals of earlier versions, in logs, and where there was no key.
    pub tag: Option<LineTag>,
}

/// The state of a line's private part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// The line is of the first format, which has no private parts.
    Unknown,
    /// The event has nothing private.
    Nothing,
    /// The private part is intact.
    Kept(Salt),
    /// The private part is not the one that was written.
    Changed,
    /// The private part is missing.
    Withheld,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    pub records: Vec<Record>,
    /// The rest of a line that was being written when piton was killed.
    pub torn: Option<Torn>,
}

/// An incomplete last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The byte offset in the file.
    pub offset: u64,
    /// The length in bytes.
    pub bytes: u64,
}

/// The public part of a line, for writing.
#[derive(Serialize)]
struct WrittenLine<'e, E> {
    v: u64,
    seq: u64,
    at: Timestamp,
    run: RunId,
    prev: Digest,
    event: &'e E,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<Digest>,
}

/// The public part of a line, for reading.
#[derive(Deserialize)]
struct RecordLine<E> {
    seq: u64,
    at: Timestamp,
    run: RunId,
    prev: Digest,
    event: E,
    #[serde(default)]
    sealed: Option<Digest>,
}

impl<E> RecordLine<E> {
    fn with(self, event: Event) -> RecordLine<Event> {
        let Self {
            seq,
            at,
            run,
            prev,
            sealed,
            ..
        } = self;
        RecordLine {
            seq,
            at,
            run,
            prev,
            event,
            sealed,
        }
    }
}

/// The fields of an event that show whether it starts a loop.
#[derive(Deserialize)]
struct LoopName {
    #[serde(rename = "type")]
    kind: String,
    name: String,
}

/// The parts of a line, which tabs separate.
pub(super) struct LineParts<'l> {
    pub(super) public: &'l str,
    pub(super) private: Option<&'l str>,
    tag: Option<&'l str>,
}

impl<'l> LineParts<'l> {
    pub(super) fn of(line: &'l str) -> Self {
        let (public, rest) = line.split_once('\t').unwrap_or((line, ""));
        let (private, tag) = match rest.split_once('\t') {
            Some((private, tag)) => (private, Some(tag)),
            None => (rest, None),
        };
        Self {
            public,
            private: (!private.is_empty()).then_some(private),
            tag,
        }
    }
}

/// A line that is about to be written.
pub(super) struct NewLine {
    /// Without the tag and the line break.
    pub(super) text: String,
    has_private_part: bool,
    pub(super) digest: Digest,
}

/// The position of a line in its journal.
#[derive(Clone, Copy)]
pub(super) struct ChainPosition {
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) run: RunId,
    pub(super) prev: Digest,
}

impl NewLine {
    /// Builds the line for an event, in the first format if there is no salt.
    pub(super) fn new(
        place: ChainPosition,
        event: &Event,
        salt: Option<&Salt>,
    ) -> io::Result<Self> {
        let Some(salt) = salt else {
            return Self::public(FIRST, place, event);
        };
        // A list may be long, so its hashes are computed one at a time while the line is written.
        if let Some((shown, kept)) = seal::seal_loop(event, salt) {
            return Self::sealed(place, &shown, &kept);
        }
        match seal::seal(event, salt)? {
            None => Self::public(VERSION, place, event),
            Some((public, private)) => Self::sealed(place, &public, &private),
        }
    }

    fn public(
        v: u64,
        ChainPosition { seq, at, run, prev }: ChainPosition,
        event: &Event,
    ) -> io::Result<Self> {
        let text = serde_json::to_string(&WrittenLine {
            v,
            seq,
            at,
            run,
            prev,
            event,
            sealed: None,
        })?;
        Ok(Self {
            digest: Digest::of(text.as_bytes()),
            text,
            has_private_part: false,
        })
    }

    fn sealed(
        ChainPosition { seq, at, run, prev }: ChainPosition,
        event: &impl Serialize,
        private: &impl Serialize,
    ) -> io::Result<Self> {
        let private = serde_json::to_string(private)?;
        let sealed = Some(Digest::of(private.as_bytes()));
        let public = serde_json::to_string(&WrittenLine {
            v: VERSION,
            seq,
            at,
            run,
            prev,
            event,
            sealed,
        })?;
        Ok(Self {
            digest: Digest::of(public.as_bytes()),
            text: public + "\t" + &private,
            has_private_part: true,
        })
    }

    /// The whole line with its line break, and with a tag if there is a key.
    pub(super) fn into_bytes(self, key: Option<&JournalKey>) -> Vec<u8> {
        let tag = key.map(|key| key.tag(self.text.as_bytes()));
        tagged(self.text, self.has_private_part, tag)
    }
}

/// A line with its line break. Replaces the tag.
fn tagged(mut text: String, has_private_part: bool, tag: Option<LineTag>) -> Vec<u8> {
    if let Some(tag) = tag {
        text.push_str(if has_private_part { "\t" } else { "\t\t" });
        text.push_str(&tag.to_string());
    }
    text.push('\n');
    text.into_bytes()
}

/// Read first: it decides whether the rest can be parsed.
#[derive(Deserialize)]
struct LineVersion {
    v: u64,
}

/// Reads a journal. Call [`super::chain::verify`] to check the chain.
pub fn read(path: &Path) -> Result<Contents, JournalError> {
    let mut records = Vec::new();
    let torn = read_each(path, &mut |record| records.push(record))?;
    Ok(Contents { records, torn })
}

/// Like [`read`], with one line in memory at a time. Passes each record to `see` and returns a torn
/// last line.
pub fn read_each(path: &Path, see: &mut dyn FnMut(Record)) -> Result<Option<Torn>, JournalError> {
    parse_lines(
        BufReader::new(open(path).map_err(JournalError::io("read", path))?),
        path,
        see,
    )
}

fn parse_lines(
    mut lines: impl BufRead,
    path: &Path,
    see: &mut dyn FnMut(Record),
) -> Result<Option<Torn>, JournalError> {
    let mut offset = 0;
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let bytes = lines
            .read_until(b'\n', &mut text)
            .map_err(JournalError::io("read", path))? as u64;
        if bytes == 0 {
            break;
        }
        let parsed = match text.strip_suffix(b"\n") {
            Some(text) => parse(text),
            None => Err(Unreadable::NotJson("it has no end".to_owned())),
        };
        match parsed {
            Ok(record) => see(record),
            Err(Unreadable::NotJson(_))
                if lines
                    .fill_buf()
                    .map_err(JournalError::io("read", path))?
                    .is_empty() =>
            {
                return Ok(Some(Torn { offset, bytes }));
            }
            Err(Unreadable::Newer(version)) => {
                return Err(JournalError::Newer {
                    path: path.to_path_buf(),
                    version,
                });
            }
            Err(Unreadable::NotJson(reason) | Unreadable::NotARecord(reason)) => {
                return Err(JournalError::Damaged {
                    path: path.to_path_buf(),
                    line,
                    reason,
                });
            }
        }
        offset += bytes;
    }
    Ok(None)
}

impl Record {
    /// Whether the private part is missing or not the one that was written.
    pub fn lost_its_private_part(&self) -> bool {
        matches!(self.privacy, Privacy::Changed | Privacy::Withheld)
    }

    /// The part of the line that the chain covers.
    ///
    /// For a line of the first format this is the whole line, including private values, so it must
    /// not leave the repository.
    pub fn public(&self) -> &str {
        LineParts::of(&self.line).public
    }

    /// The part of the line that the tag covers.
    pub(super) fn authenticated(&self) -> &[u8] {
        let LineParts {
            public, private, ..
        } = LineParts::of(&self.line);
        let length = public.len() + private.map_or(0, |private| private.len() + 1);
        self.line.as_bytes().split_at(length).0
    }

    /// The line with its line break, with the tag of a key.
    pub(super) fn retagged(&self, key: &JournalKey) -> Vec<u8> {
        let covered = self.authenticated();
        let text = String::from_utf8_lossy(covered).into_owned();
        let has_private_part = LineParts::of(&self.line).private.is_some();
        tagged(text, has_private_part, Some(key.tag(covered)))
    }
}

/// Why a line is not a record.
pub(super) enum Unreadable {
    NotJson(String),
    Newer(u64),
    NotARecord(String),
}

pub(super) fn parse(bytes: &[u8]) -> Result<Record, Unreadable> {
    let text = str::from_utf8(bytes).map_err(|err| Unreadable::NotJson(err.to_string()))?;
    let LineParts {
        public,
        private,
        tag,
    } = LineParts::of(text);
    let LineVersion { v } = serde_json::from_str(public).map_err(not_a_record)?;
    if !(FIRST..=VERSION).contains(&v) {
        return Err(Unreadable::Newer(v));
    }
    let tag = tag
        .map(|tag| {
            let tag = tag.parse::<LineTag>();
            tag.map_err(|err| Unreadable::NotARecord(err.to_string()))
        })
        .transpose()?;
    let (fields, privacy) = match private {
        Some(private) => unseal_line(public, private)?,
        None => {
            let fields: RecordLine<Event> = serde_json::from_str(public).map_err(not_a_record)?;
            let privacy = match (v, fields.sealed) {
                (FIRST, _) => Privacy::Unknown,
                (_, None) => Privacy::Nothing,
                (_, Some(_)) => Privacy::Withheld,
            };
            (fields, privacy)
        }
    };
    let RecordLine {
        seq,
        at,
        run,
        prev,
        event,
        ..
    } = fields;
    Ok(Record {
        seq,
        at,
        run,
        prev,
        digest: Digest::of(public.as_bytes()),
        event,
        line: text.to_owned(),
        privacy,
        tag,
    })
}

fn not_a_record(err: serde_json::Error) -> Unreadable {
    match err.classify() {
        serde_json::error::Category::Data => Unreadable::NotARecord(err.to_string()),
        _ => Unreadable::NotJson(err.to_string()),
    }
}

/// The fields of a line with its private part.
fn unseal_line(
    public: &str,
    private_text: &str,
) -> Result<(RecordLine<Event>, Privacy), Unreadable> {
    let Private { salt, mut private } = serde_json::from_str(private_text).map_err(not_a_record)?;
    let fields = if let Some(found) = long_list(public, &mut private) {
        found
    } else {
        let mut fields: RecordLine<Value> = serde_json::from_str(public).map_err(not_a_record)?;
        let mut value = std::mem::take(&mut fields.event);
        seal::unseal(&mut value, private).map_err(Unreadable::NotARecord)?;
        let event =
            serde_json::from_value(value).map_err(|err| Unreadable::NotARecord(err.to_string()))?;
        fields.with(event)
    };
    let is_as_written = fields.sealed == Some(Digest::of(private_text.as_bytes()));
    let privacy = if is_as_written {
        Privacy::Kept(salt)
    } else {
        Privacy::Changed
    };
    Ok((fields, privacy))
}

/// Reads a loop without parsing the hashes of its elements, which need ten times the memory of
/// numbers.
fn long_list(public: &str, private: &mut Map<String, Value>) -> Option<RecordLine<Event>> {
    if !private.get(seal::ELEMENTS).is_some_and(Value::is_array) {
        return None;
    }
    let line: RecordLine<LoopName> = serde_json::from_str(public)
        .ok()
        .filter(|line: &RecordLine<LoopName>| line.event.is_loop())?;
    let Some(Value::Array(elements)) = private.remove(seal::ELEMENTS) else {
        return None;
    };
    let event = Event::LoopStarted {
        name: line.event.name.clone(),
        elements,
    };
    Some(line.with(event))
}

impl LoopName {
    fn is_loop(&self) -> bool {
        self.kind == seal::LOOP
    }
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    // A tool may have replaced the file: do not block on a pipe and do not follow a link.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    Ok(file)
}
