//! Limits of reading logs: a small pack from another repository can hold gigabytes of text.
//!
//! Every size is compared with its limit before the content is read. [`TrailBudget`] is what all
//! logs of one command may hold together; a log that exceeds it is not read.

use std::cell::Cell;
use std::fmt;

use crate::checkpoint::delta::size_text;
use crate::checkpoint::object::ObjectId;

const MIB: u64 = 1024 * 1024;

/// Limit of a commit or a tree of a log, which piton writes with a few hundred bytes.
pub(super) const MOST_HEAD: usize = 1024 * 1024;
pub(super) const MOST_COMMITS: usize = 20_000;
/// The lines of one commit are in memory together.
pub const MOST_BATCH: u64 = 48 * MIB;
pub const MOST_LINE: u64 = 32 * MIB;
pub const MOST_LINES: u64 = 500_000;
pub const MOST_BYTES: u64 = 256 * MIB;
/// A parsed value may need forty times the memory of its text, so values are counted too.
const MOST_VALUES: u64 = 8_000_000;
const MOST_LINE_VALUES: u64 = 4_000_000;
/// The limits of all logs that a command reads.
const MOST_LOGS: u64 = 50_000;
const MOST_COMMITS_TOGETHER: u64 = 500_000;
const MOST_BYTES_TOGETHER: u64 = 512 * MIB;
const MOST_VALUES_TOGETHER: u64 = 16_000_000;

/// What a log, or all logs of a command, may not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailLimit {
    Bytes(u64),
    Commits(u64),
    /// Bytes in one commit.
    Batch(u64),
    /// Bytes in one line.
    Line(u64),
    Lines(u64),
    Values(u64),
    /// Values in one line.
    LineValues(u64),
    Logs(u64),
}

impl fmt::Display for TrailLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(most) => f.write_str(&size_text(*most)),
            Self::Commits(most) => write!(f, "{most} commits"),
            Self::Batch(most) => write!(f, "{} in a commit", size_text(*most)),
            Self::Line(most) => write!(f, "{} in a line", size_text(*most)),
            Self::Lines(most) => write!(f, "{most} lines"),
            Self::Values(most) => write!(f, "{most} values"),
            Self::LineValues(most) => write!(f, "{most} values in a line"),
            Self::Logs(most) => write!(f, "{most} logs"),
        }
    }
}

/// Why a log cannot be read completely.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrailFault {
    /// It is not what piton writes.
    #[error("{} {reason}", .commit.short())]
    NotALog { commit: ObjectId, reason: String },
    #[error("{} and the commits before it hold more than a log may hold: {limit}", .tip.short())]
    TooLarge { tip: ObjectId, limit: TrailLimit },
    /// The logs before it have used what one command reads.
    #[error("the logs together hold more than one command reads: {0}")]
    TooLargeTogether(TrailLimit),
}

/// What is left of the limits for one command.
#[derive(Debug)]
pub struct TrailBudget {
    logs: Cell<u64>,
    commits: Cell<u64>,
    bytes: Cell<u64>,
    values: Cell<u64>,
}

impl Default for TrailBudget {
    fn default() -> Self {
        Self {
            logs: Cell::new(MOST_LOGS),
            commits: Cell::new(MOST_COMMITS_TOGETHER),
            bytes: Cell::new(MOST_BYTES_TOGETHER),
            values: Cell::new(MOST_VALUES_TOGETHER),
        }
    }
}

impl TrailBudget {
    pub(super) fn take_log(&self) -> Result<(), TrailFault> {
        spend(&self.logs, 1, TrailLimit::Logs(MOST_LOGS))
    }

    /// Counts the commits of a log and the bytes in them before these are read.
    pub(super) fn take(&self, commits: u64, bytes: u64) -> Result<(), TrailFault> {
        let limit = TrailLimit::Commits(MOST_COMMITS_TOGETHER);
        spend(&self.commits, commits, limit)?;
        spend(&self.bytes, bytes, TrailLimit::Bytes(MOST_BYTES_TOGETHER))
    }
}

/// After the first log that did not fit, smaller ones are not read either: which runs are listed
/// must not depend on their sizes.
fn spend(left: &Cell<u64>, needed: u64, limit: TrailLimit) -> Result<(), TrailFault> {
    if let Some(rest) = left.get().checked_sub(needed) {
        left.set(rest);
        return Ok(());
    }
    left.set(0);
    Err(TrailFault::TooLargeTogether(limit))
}

/// Counts the lines of one log.
pub(super) struct LineCounter<'b> {
    tip: ObjectId,
    budget: &'b TrailBudget,
    lines: u64,
    values: u64,
}

impl<'b> LineCounter<'b> {
    pub(super) fn new(tip: ObjectId, budget: &'b TrailBudget) -> Self {
        Self {
            tip,
            budget,
            lines: 0,
            values: 0,
        }
    }

    /// Fails if a part of a line is longer than a line may be.
    pub(super) fn check_length(&self, bytes: usize) -> Result<(), TrailFault> {
        self.require(bytes as u64 <= MOST_LINE, TrailLimit::Line(MOST_LINE))
    }

    /// Counts a line before it is parsed.
    pub(super) fn take(&mut self, line: &[u8]) -> Result<(), TrailFault> {
        self.check_length(line.len())?;
        self.lines += 1;
        self.require(self.lines <= MOST_LINES, TrailLimit::Lines(MOST_LINES))?;
        let values = values(line);
        self.require(
            values <= MOST_LINE_VALUES,
            TrailLimit::LineValues(MOST_LINE_VALUES),
        )?;
        self.values += values;
        self.require(self.values <= MOST_VALUES, TrailLimit::Values(MOST_VALUES))?;
        let limit = TrailLimit::Values(MOST_VALUES_TOGETHER);
        spend(&self.budget.values, values, limit)
    }

    fn require(&self, is_within: bool, limit: TrailLimit) -> Result<(), TrailFault> {
        let tip = self.tip;
        if is_within {
            Ok(())
        } else {
            Err(TrailFault::TooLarge { tip, limit })
        }
    }
}

/// An upper bound for the values in a line of JSON, each of which needs up to 80 bytes. An object
/// needs as much as eight of them.
fn values(line: &[u8]) -> u64 {
    let weight = |byte: &u8| match byte {
        b',' | b'[' => 1,
        b'{' => 8,
        _ => 0,
    };
    line.iter().map(weight).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::object::ObjectFormat;

    fn tip() -> ObjectId {
        ObjectId::empty_tree(ObjectFormat::Sha1)
    }

    #[test]
    fn a_log_has_a_limit_of_lines() {
        let budget = TrailBudget::default();
        let mut counter = LineCounter::new(tip(), &budget);
        for _ in 0..MOST_LINES {
            counter.take(b"\n").unwrap();
        }
        let limit = TrailLimit::Lines(MOST_LINES);
        let tip = tip();
        assert_eq!(
            counter.take(b"\n"),
            Err(TrailFault::TooLarge { tip, limit })
        );
    }

    #[test]
    fn values_are_counted_in_a_line_in_a_log_and_in_all_logs() {
        let line = |values: u64| vec![b','; usize::try_from(values).unwrap()];
        let budget = TrailBudget::default();
        let mut counter = LineCounter::new(tip(), &budget);
        let limit = TrailLimit::LineValues(MOST_LINE_VALUES);
        let tip = tip();
        assert_eq!(
            counter.take(&line(MOST_LINE_VALUES + 1)),
            Err(TrailFault::TooLarge { tip, limit })
        );
        let many = line(MOST_LINE_VALUES);
        for _ in 0..MOST_VALUES_TOGETHER / MOST_VALUES {
            let mut counter = LineCounter::new(tip, &budget);
            for _ in 0..MOST_VALUES / MOST_LINE_VALUES {
                counter.take(&many).unwrap();
            }
            let limit = TrailLimit::Values(MOST_VALUES);
            assert_eq!(
                counter.take(b",\n"),
                Err(TrailFault::TooLarge { tip, limit })
            );
        }
        let mut counter = LineCounter::new(tip, &budget);
        let limit = TrailLimit::Values(MOST_VALUES_TOGETHER);
        assert_eq!(
            counter.take(b",\n"),
            Err(TrailFault::TooLargeTogether(limit))
        );
        // An object needs as much memory as eight values.
        assert_eq!(values(b"{\"a\":[1,2]}"), 10);
    }

    #[test]
    fn after_the_first_log_that_is_too_much_no_other_is_read() {
        let budget = TrailBudget::default();
        budget.take(1, MOST_BYTES_TOGETHER - 10).unwrap();
        assert!(budget.take(1, 11).is_err());
        assert!(budget.take(1, 1).is_err());
        for _ in 0..MOST_LOGS {
            budget.take_log().unwrap();
        }
        let limit = TrailLimit::Logs(MOST_LOGS);
        assert_eq!(budget.take_log(), Err(TrailFault::TooLargeTogether(limit)));
    }
}
