//! The ids of runs and steps.
//!
//! A run id is a ULID: 26 digits of Crockford's base 32, in lower case. It starts with the start
//! time of the run, so ids sort by time; the rest is random.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = 26;
const RANDOM_BITS: u32 = 80;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u128);

/// The id of a step: `<run>/<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    pub run: RunId,
    /// Counted from 1.
    pub step: u32,
}

impl StepId {
    /// The key under which the private store keeps additional data of the step.
    pub fn kept(&self, what: &str) -> String {
        format!("{self}/{what}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    #[error("a run is named by 26 digits and small letters without `i`, `l`, `o` and `u`")]
    Run,
    #[error("a step is named by its run, `/` and its number")]
    Step,
}

impl RunId {
    /// Builds an id from the start time and 80 of the random bits.
    pub fn new(at: Timestamp, random: u128) -> Self {
        // Times before 1970 come from a wrong clock; such ids sort first.
        let time = u128::try_from(at.as_millisecond()).unwrap_or_default() & ((1 << 48) - 1);
        Self(time << RANDOM_BITS | random & ((1 << RANDOM_BITS) - 1))
    }

    /// The start time of the run, in milliseconds.
    pub fn started(&self) -> Timestamp {
        let time = i64::try_from(self.0 >> RANDOM_BITS).unwrap_or_default();
        Timestamp::from_millisecond(time).unwrap_or_default()
    }

    /// Whether `prefix` is a prefix of the id, ignoring case.
    pub fn matches_prefix(&self, prefix: &str) -> bool {
        let name = self.to_string();
        name.get(..prefix.len())
            .is_some_and(|start| !prefix.is_empty() && start.eq_ignore_ascii_case(prefix))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |at: usize| {
            DIGITS
                .get((self.0 >> (5 * at)) as usize & 31)
                .copied()
                .unwrap_or_default()
        };
        let text: String = (0..LENGTH).rev().map(|at| char::from(digit(at))).collect();
        formatter.pad(&text)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl FromStr for RunId {
    type Err = InvalidId;

    /// Parses a whole id. Capital letters are rejected, because the id is also a folder name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut value: u128 = 0;
        for byte in text.bytes() {
            let digit = DIGITS
                .iter()
                .position(|digit| *digit == byte)
                .ok_or(InvalidId::Run)?;
            value = value << 5 | digit as u128;
        }
        // 26 digits hold 130 bits, so the first digit must not use its upper two bits.
        let fits =
            text.len() == LENGTH && text.as_bytes().first().is_some_and(|first| *first <= b'7');
        if fits {
            Ok(Self(value))
        } else {
            Err(InvalidId::Run)
        }
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.run, self.step)
    }
}

impl FromStr for StepId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (run, step) = text.split_once('/').ok_or(InvalidId::Step)?;
        let number = step
            .parse()
            .ok()
            .filter(|number: &u32| *number > 0 && number.to_string() == step);
        Ok(Self {
            run: run.parse()?,
            step: number.ok_or(InvalidId::Step)?,
        })
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl Serialize for StepId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StepId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_that_of_the_ulid_specification() {
        let id = RunId::new(Timestamp::from_millisecond(1_469_922_850_259).unwrap(), 0);
        assert_eq!(id.to_string(), "01arz3ndek0000000000000000");
        let most = RunId::new(at("1970-01-01T00:00:00Z"), u128::MAX);
        assert_eq!(most.to_string(), "0000000000zzzzzzzzzzzzzzzz");
    }

    #[test]
    fn names_sort_by_time_and_a_wrong_clock_sorts_first() {
        let early = RunId::new(at("2026-01-02T03:04:05.001Z"), u128::MAX);
        let late = RunId::new(at("2026-01-02T03:04:05.002Z"), 0);
        assert!(early < late);
        assert!(early.to_string() < late.to_string());
        assert_eq!(
            RunId::new(at("1960-01-01T00:00:00Z"), 0).started(),
            at("1970-01-01T00:00:00Z")
        );
    }

    #[test]
    fn other_texts_are_no_names() {
        for text in [
            "",
            "01arz3ndek000000000000000",
            "01arz3ndek00000000000000000",
            "01ARZ3NDEK0000000000000000",
            "81arz3ndek0000000000000000",
            "01arz3ndek000000000000000i",
            "../../../../../../../../x/",
            "01arz3ndek00000000000000ü0",
        ] {
            assert_eq!(text.parse::<RunId>(), Err(InvalidId::Run), "{text}");
        }
        for text in [
            "",
            "01arz3ndek0000000000000000",
            "01arz3ndek0000000000000000/0",
            "01arz3ndek0000000000000000/+1",
        ] {
            assert_eq!(text.parse::<StepId>(), Err(InvalidId::Step), "{text}");
        }
    }

    #[test]
    fn an_abbreviation_is_a_beginning() {
        let id: RunId = "01arz3ndek0000000000000001".parse().unwrap();
        for prefix in ["0", "01arz", "01ARZ3", "01arz3ndek0000000000000001"] {
            assert!(id.matches_prefix(prefix), "{prefix}");
        }
        for prefix in ["", "1", "01arz3ndek00000000000000010", "ü"] {
            assert!(!id.matches_prefix(prefix), "{prefix}");
        }
    }

    proptest! {
        #[test]
        fn names_read_back(milliseconds in 0i64..=253_402_207_200_000, random: u128, step in 1u32..) {
            let started = Timestamp::from_millisecond(milliseconds).unwrap();
            let run = RunId::new(started, random);
            prop_assert_eq!(run.started(), started);
            prop_assert_eq!(run.to_string().parse(), Ok(run));
            let step = StepId { run, step };
            let json = serde_json::to_string(&step).unwrap();
            prop_assert_eq!(serde_json::from_str::<StepId>(&json).unwrap(), step);
        }
    }
}
