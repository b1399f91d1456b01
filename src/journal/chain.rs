//! The hash chain that links the lines of a journal.
//!
//! Each line holds the hash of the line before it; the first line holds the hash of the run id.
//! [`verify`] reports the first line that does not fit and what probably happened to it. A chain
//! alone cannot show that its end was interrupted or that its last line was edited. For that, commit
//! trailers hold the head of the chain, and callers compare it with what `verify` returns.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::id::RunId;
use super::record::{Privacy, Record};

/// The SHA-256 of a line, written as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

/// The first line that breaks the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// Counted from 1; for dropped lines, the line that follows them.
    pub line: usize,
    pub reason: BreakReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakReason {
    Edited,
    /// Lines before it are missing.
    Dropped,
    /// The line was added later.
    Inserted,
    /// The line was moved.
    Reordered,
    WrongRun,
    /// The private part is not the one that was written.
    PrivateEdited,
    /// The private part is missing.
    PrivateDropped,
}

/// Checks that the records are all lines of a run from its beginning, with their private parts.
/// Returns the head of the chain.
pub fn verify(records: &[Record], run: RunId) -> Result<Digest, Break> {
    let head = verify_public(records, run)?;
    for (at, record) in records.iter().enumerate() {
        let reason = match record.privacy {
            Privacy::Changed => BreakReason::PrivateEdited,
            Privacy::Withheld => BreakReason::PrivateDropped,
            Privacy::Unknown | Privacy::Nothing | Privacy::Kept(_) => continue,
        };
        return Err(Break {
            line: at + 1,
            reason,
        });
    }
    Ok(head)
}

/// What the chain needs of a record. Logs are verified with these, because they are small.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    seq: u64,
    run: RunId,
    prev: Digest,
    digest: Digest,
}

impl From<&Record> for Link {
    fn from(record: &Record) -> Self {
        Self {
            seq: record.seq,
            run: record.run,
            prev: record.prev,
            digest: record.digest,
        }
    }
}

/// Like [`verify`], for records whose private parts are elsewhere.
pub fn verify_public(records: &[Record], run: RunId) -> Result<Digest, Break> {
    let links: Vec<Link> = records.iter().map(Link::from).collect();
    verify_links(&links, run)
}

/// Like [`verify_public`], for records that are not kept.
pub fn verify_links(links: &[Link], run: RunId) -> Result<Digest, Break> {
    let mut head = Digest::of_run(run);
    for (at, link) in links.iter().enumerate() {
        if link.run != run {
            return Err(Break {
                line: at + 1,
                reason: BreakReason::WrongRun,
            });
        }
        if link.prev != head || link.seq != at as u64 + 1 {
            return Err(explain(links, at, head));
        }
        head = link.digest;
    }
    Ok(head)
}

/// Returns true if the record is intact and is line `lines + 1` of a chain that ends at `head`.
pub(super) fn follows(record: &Record, run: RunId, lines: u64, head: Digest) -> bool {
    record.run == run
        && record.prev == head
        && record.seq == lines + 1
        && !record.lost_its_private_part()
}

/// Explains why the record at `at`, the first that does not fit, breaks the chain.
fn explain(links: &[Link], at: usize, head: Digest) -> Break {
    let line = at + 1;
    let found = |line, reason| Break { line, reason };
    let Some(record) = links.get(at) else {
        return found(line, BreakReason::Dropped);
    };
    let expected = line as u64;
    let next_fits = links
        .get(line)
        .is_none_or(|next| next.prev == record.digest);
    let is_known = |digest| links.iter().any(|other| other.digest == digest);
    if record.seq == expected {
        // Either the previous line was edited, so that its hash no longer matches, or the link in
        // this line was edited. In the second case the next line does not fit either.
        return found(
            if next_fits && at > 0 { at } else { line },
            BreakReason::Edited,
        );
    }
    if record.prev == head {
        return found(line, BreakReason::Edited);
    }
    if record.seq < expected {
        // This line repeats an earlier sequence number. If both lines have the same predecessor,
        // this one is genuine and the earlier one was inserted.
        let twin = usize::try_from(record.seq).unwrap_or_default();
        let genuine = links.get(twin.wrapping_sub(1)).is_some_and(|other| {
            other.prev == record.prev && other.digest != record.digest && twin > 0
        });
        return found(if genuine { twin } else { line }, BreakReason::Inserted);
    }
    let expected_is_later = links
        .iter()
        .skip(line)
        .any(|other| other.seq == expected && other.prev == head);
    match (expected_is_later, is_known(record.prev)) {
        (true, true) => found(line, BreakReason::Reordered),
        (true, false) => found(line, BreakReason::Inserted),
        (false, _) => found(line, BreakReason::Dropped),
    }
}

impl Digest {
    /// Hashes the bytes of a line without its line break.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The `prev` of the first line.
    pub(super) fn of_run(run: RunId) -> Self {
        Self::of(run.to_string().as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("sha256:")?;
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a digest is `sha256:` and 64 hexadecimal digits in lower case")]
pub struct InvalidDigest;

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text
            .strip_prefix("sha256:")
            .ok_or(InvalidDigest)?
            .as_bytes();
        let value = |digit: &u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(InvalidDigest),
        };
        let (pairs, rest) = digits.as_chunks::<2>();
        let bytes = pairs
            .iter()
            .map(|[high, low]| Ok(value(high)? << 4 | value(low)?))
            .collect::<Result<Vec<_>, _>>()?;
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
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl Break {
    /// Describes the break, with other words for "line" and "lines".
    pub fn describe(&self, one: &str, several: &str) -> String {
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
        formatter.write_str(&self.describe("line", "lines"))
    }
}
