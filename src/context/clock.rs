//! Time and randomness: the only reader of the clock and of the system's random numbers.
//!
//! Debug builds take both from variables, so that tests see the same ids and times on every run.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};

use super::Environment;
use crate::config::InvalidVariable;

/// The start of a test's clock; each reading is a second later.
const CLOCK: &str = "PITON_TEST_CLOCK";
/// The seed of a test's random bits.
const SEED: &str = "PITON_TEST_SEED";

/// The source of times and random bits. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    start: Option<Timestamp>,
    seed: Option<u64>,
    readings: Arc<AtomicU64>,
    draws: Arc<AtomicU64>,
}

impl Clock {
    /// The real clock, unless this is a debug build and a test has set one.
    pub(super) fn of(environment: &Environment) -> Result<Self, InvalidVariable> {
        if !cfg!(debug_assertions) {
            return Ok(Self::default());
        }
        let parsed = |variable, expected: &str, value: &OsStr| {
            let value = value.to_string_lossy().into_owned();
            InvalidVariable {
                variable,
                expected: expected.to_owned(),
                value,
            }
        };
        let start = environment.find(CLOCK).map(|value| {
            let time = value.to_str().and_then(|text| text.parse().ok());
            time.ok_or_else(|| parsed(CLOCK, "a time such as `2026-01-02T03:04:05Z`", value))
        });
        let seed = environment.find(SEED).map(|value| {
            let number = value.to_str().and_then(|text| text.parse().ok());
            number.ok_or_else(|| parsed(SEED, "a number", value))
        });
        Ok(Self {
            start: start.transpose()?,
            seed: seed.transpose()?,
            ..Self::default()
        })
    }

    /// To the millisecond, which run ids can hold.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the clock"
    )]
    pub(super) fn now(&self) -> Timestamp {
        let now = match self.start {
            Some(start) => {
                let seconds = self.readings.fetch_add(1, Ordering::Relaxed);
                start
                    .saturating_add(SignedDuration::from_secs(seconds.cast_signed()))
                    .unwrap_or(start)
            }
            None => Timestamp::now(),
        };
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    pub(super) fn random_bits(&self) -> u128 {
        if let Some(seed) = self.seed {
            let draw = self.draws.fetch_add(1, Ordering::Relaxed).wrapping_mul(2);
            let half =
                |number: u64| u128::from(mixed(seed.wrapping_add(draw).wrapping_add(number)));
            return half(0) << 64 | half(1);
        }
        let mut bytes = [0; 16];
        if getrandom::fill(&mut bytes).is_ok() {
            return u128::from_le_bytes(bytes);
        }
        // The keys of hash maps are random too, and creating them cannot fail.
        let half = || u128::from(RandomState::new().hash_one(std::process::id()));
        half() << 64 | half()
    }
}

/// Bytes that no other process can guess; none of a test's seed.
pub(super) fn fresh_secret() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// The output function of `SplitMix64`: it maps similar numbers to very different ones.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn clock(variables: &[(&str, &str)]) -> Result<Clock, InvalidVariable> {
        let variables: BTreeMap<_, _> = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Clock::of(&Environment::new(variables, "/".into()))
    }

    #[test]
    fn a_test_clock_goes_a_second_per_reading_in_all_clones() {
        let clock = clock(&[(CLOCK, "2026-01-02T03:04:59.5Z")]).unwrap();
        assert_eq!(clock.now().to_string(), "2026-01-02T03:04:59.5Z");
        assert_eq!(clock.clone().now().to_string(), "2026-01-02T03:05:00.5Z");
        assert_eq!(clock.now().to_string(), "2026-01-02T03:05:01.5Z");
    }

    #[test]
    fn the_same_seed_gives_the_same_bits_and_none_twice() {
        let draw = |seed| {
            let clock = clock(&[(SEED, seed)]).unwrap();
            (0..100).map(|_| clock.random_bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw("7"), draw("7"));
        assert_eq!(draw("7").into_iter().collect::<BTreeSet<_>>().len(), 100);
        assert_ne!(draw("7"), draw("1000"));
    }

    #[test]
    fn without_variables_time_continues_and_bits_are_new() {
        let clock = clock(&[]).unwrap();
        let first = clock.now();
        assert!(first.as_millisecond() > 1_600_000_000_000);
        assert!(clock.now() >= first);
        assert_eq!(first.subsec_nanosecond() % 1_000_000, 0);
        assert_ne!(clock.random_bits(), clock.random_bits());
    }

    #[test]
    fn a_wrong_variable_is_an_error() {
        let err = clock(&[(CLOCK, "yesterday")]).unwrap_err();
        assert_eq!(
            err.to_string(),
            "the variable `PITON_TEST_CLOCK` must be a time such as `2026-01-02T03:04:05Z`, not `yesterday`"
        );
        let err = clock(&[(SEED, "-1")]).unwrap_err();
        assert_eq!(
            err.to_string(),
            "the variable `PITON_TEST_SEED` must be a number, not `-1`"
        );
    }
}
