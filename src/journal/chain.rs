//! The chain that ties the lines of a journal together.
//!
//! Each line names the hash of the one before it, the first that of the run's name. [`verify`] says
//! which line is the first that does not fit and what probably happened. A chain cannot show that
//! its end was cut off or that its last line was changed: for that its head is in the trailers of
//! commits, to be compared with what `verify` returns.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::id::RunId;
use super::record::{Privacy, Record};

/// The SHA-256 of a line: `sha256:` and 64 digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

/// The first line that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// The line, from 1; for dropped lines the one that follows them.
    pub line: usize,
    /// What happened to it.
    pub reason: BreakReason,
}

/// What was done to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakReason {
    /// Its content changed.
    Edited,
    /// Lines before it are missing.
    Dropped,
    /// It was not there.
    Inserted,
    /// It was somewhere else.
    Reordered,
    /// It is from another run.
    WrongRun,
    /// Its private part is not the one that was written.
    PrivateEdited,
    /// Its private part is gone.
    PrivateDropped,
}

/// Checks that the records are those of a run from its beginning, with their private parts; returns
/// the head of the chain.
pub fn verify(records: &[Record], run: RunId) -> Result<Digest, Break> {
    let head = verify_public(records, run)?;
    for (at, record) in records.iter().enumerate() {
        let reason = match record.privacy {
            Privacy::Changed => BreakReason::PrivateEdited,
            Privacy::Withheld => BreakReason::PrivateDropped,
            Privacy::Unknown | Privacy::Nothing | Privacy::Kept(_) => continue,
        };
        return Err(Break { line: at + 1, reason });
    }
    Ok(head)
}

/// As [`verify`], for records whose private parts are elsewhere.
pub fn verify_public(records: &[Record], run: RunId) -> Result<Digest, Break> {
    let mut head = Digest::of_run(run);
    for (at, record) in records.iter().enumerate() {
        if record.run != run {
            return Err(Break { line: at + 1, reason: BreakReason::WrongRun });
        }
        if record.prev != head || record.seq != at as u64 + 1 {
            return Err(explain(records, at, head));
        }
        head = record.digest;
    }
    Ok(head)
}

/// Whether a record, with its private part, is the next after so many lines whose chain ends at a head.
pub(super) fn follows(record: &Record, run: RunId, lines: u64, head: Digest) -> bool {
    record.run == run && record.prev == head && record.seq == lines + 1 && !record.lost_its_private_part()
}

/// Names what happened, given that the record at a place is the first that does not fit.
fn explain(records: &[Record], at: usize, head: Digest) -> Break {
    let line = at + 1;
    let found = |line, reason| Break { line, reason };
    let Some(record) = records.get(at) else { return found(line, BreakReason::Dropped) };
    let expected = line as u64;
    let next_fits = records.get(line).is_none_or(|next| next.prev == record.digest);
    let is_known = |digest| records.iter().any(|other| other.digest == digest);
    if record.seq == expected {
        // Either the line before is another than the one named here, or the name itself was changed;
        // then this line is not the one that the next names.
        return found(if next_fits && at > 0 { at } else { line }, BreakReason::Edited);
    }
    if record.prev == head {
        return found(line, BreakReason::Edited);
    }
    if record.seq < expected {
        // It has the number of an earlier line. If it follows what that one follows, it is genuine
        // and the earlier one is the stranger.
        let twin = usize::try_from(record.seq).unwrap_or_default();
        let genuine = records
            .get(twin.wrapping_sub(1))
            .is_some_and(|other| other.prev == record.prev && other.digest != record.digest && twin > 0);
        return found(if genuine { twin } else { line }, BreakReason::Inserted);
    }
    let expected_is_later = records.iter().skip(line).any(|other| other.seq == expected && other.prev == head);
    match (expected_is_later, is_known(record.prev)) {
        (true, true) => found(line, BreakReason::Reordered),
        (true, false) => found(line, BreakReason::Inserted),
        (false, _) => found(line, BreakReason::Dropped),
    }
}

impl Digest {
    /// The digest of the bytes of a line, without its end.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// What the first line names.
    pub(super) fn of_run(run: RunId) -> Self {
        Self::of(run.to_string().as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// Text that is not the digest of a line.
#[derive(Debug, thiserror::Error)]
#[error("a digest is `sha256:` and 64 hexadecimal digits in lower case")]
pub struct InvalidDigest;

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("sha256:").ok_or(InvalidDigest)?.as_bytes();
        let value = |digit: &u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(InvalidDigest),
        };
        let (pairs, rest) = digits.as_chunks::<2>();
        let bytes =
            pairs.iter().map(|[high, low]| Ok(value(high)? << 4 | value(low)?)).collect::<Result<Vec<_>, _>>()?;
        match bytes.try_into() {
            Ok(bytes) if rest.is_empty() => Ok(Self(bytes)),
            _ => Err(InvalidDigest),
        }
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Break {
    /// What happened, where lines are called something else.
    pub fn told(&self, one: &str, several: &str) -> String {
        let line = self.line;
        match self.reason {
            BreakReason::Edited => format!("{one} {line} was edited"),
            BreakReason::Dropped => format!("{several} before {one} {line} are missing"),
            BreakReason::Inserted => format!("{one} {line} was inserted"),
            BreakReason::Reordered => format!("{one} {line} is not at its place"),
            BreakReason::WrongRun => format!("{one} {line} is from another run"),
            BreakReason::PrivateEdited => format!("the private part of {one} {line} was edited"),
            BreakReason::PrivateDropped => format!("the private part of {one} {line} is missing"),
        }
    }
}

impl fmt::Display for Break {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.told("line", "lines"))
    }
}
