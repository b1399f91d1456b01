//! Similarity of two words.
//!
//! The same word is [`SAME`]; a prefix, a typo and a word inside a word are less, in this order.
//! [`SoughtWord`] is a word of a query, prepared for comparison with many words.

use super::words::span;

/// Shorter prefixes and parts match too many words.
const MIN_PART: usize = 3;
/// Shorter words have too many neighbours to count as typos.
const MIN_TYPO: usize = 4;
/// Words with a common prefix of this length are related, if it is most of both.
const MIN_STEM: usize = 5;
/// From this length on two typos are allowed.
const MIN_TWO_TYPOS: usize = 8;

/// Two typos change at most four letters.
const MAX_DIFFERING: u32 = 4;

/// The similarity of a word to itself. Integers make sums exact in any order.
pub(super) const SAME: u32 = 1_000;
const BEGINNING: u32 = 700;
const BEGINNING_WHOLE: u32 = 200;
const ONE_TYPO: u32 = 620;
const STEM: u32 = 500;
const TWO_TYPOS: u32 = 480;
const INSIDE: u32 = 300;
const INSIDE_WHOLE: u32 = 150;

#[derive(Clone, Debug)]
pub(super) struct SoughtWord {
    word: String,
    length: usize,
    span: usize,
    letters: u32,
    first: u32,
    is_number: bool,
}

impl SoughtWord {
    pub(super) fn new(word: String) -> Self {
        let length = word.chars().count();
        let (span, letters, is_number) = (span(&word), letters(&word), is_number(&word));
        let first = word
            .chars()
            .take(1)
            .fold(0, |set, letter| set | bit(letter));
        Self {
            word,
            length,
            span,
            letters,
            first,
            is_number,
        }
    }

    /// Whether a word can be similar, judged by its set of letters only.
    pub(super) fn may_be_like(&self, other_letters: u32) -> bool {
        let has_all = self.letters & !other_letters == 0;
        let is_near =
            !self.is_number && (self.letters ^ other_letters).count_ones() <= MAX_DIFFERING;
        // Related words begin with the same letter.
        let may_be_related = !self.is_number && self.first & other_letters != 0;
        has_all || is_near || may_be_related
    }

    /// The similarity of another word, from 0 to [`SAME`]; `other_letters` is its set of letters.
    pub(super) fn likeness(&self, other: &str, other_letters: u32) -> u32 {
        let word = self.word.as_str();
        if word == other {
            return SAME;
        }
        // A word with letters that the other lacks is neither a part nor a typo of it.
        let missing = (self.letters & !other_letters).count_ones();
        let differing = (self.letters ^ other_letters).count_ones();
        let may_be_part = self.span >= MIN_PART && missing == 0 && word.len() < other.len();
        if may_be_part && other.starts_with(word) {
            return BEGINNING + self.share_of(other, BEGINNING_WHOLE);
        }
        let typo = self.typo(other, differing);
        if self.is_related(other) {
            return typo.max(STEM);
        }
        if typo == 0 && may_be_part && other.contains(word) {
            return INSIDE + self.share_of(other, INSIDE_WHOLE);
        }
        typo
    }

    fn typo(&self, other: &str, differing: u32) -> u32 {
        // A number with another digit is another number.
        if self.length < MIN_TYPO || differing > MAX_DIFFERING || self.is_number || is_number(other)
        {
            return 0;
        }
        let allowed = if self.length >= MIN_TWO_TYPOS { 2 } else { 1 };
        let length = other.chars().count();
        if length.abs_diff(self.length) > allowed || length < MIN_TYPO {
            return 0;
        }
        match strsim::osa_distance(&self.word, other) {
            1 => ONE_TYPO,
            2 if allowed == 2 => TWO_TYPOS,
            _ => 0,
        }
    }

    /// Whether both words seem to be forms of one: `migrate` and `migration`, `test` and `testing`.
    fn is_related(&self, other: &str) -> bool {
        if self.is_number || self.word.as_bytes().first() != other.as_bytes().first() {
            return false;
        }
        let common = self
            .word
            .chars()
            .zip(other.chars())
            .take_while(|(a, b)| a == b)
            .count();
        let length = other.chars().count();
        let is_beginning = common == length && common >= MIN_TYPO && common * 2 >= self.length;
        is_beginning || common >= MIN_STEM && common * 5 >= length.max(self.length) * 3
    }

    /// `number`, scaled by the length of this word relative to the other.
    fn share_of(&self, other: &str, number: u32) -> u32 {
        let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        number.saturating_mul(length(self.length)) / length(other.chars().count().max(1))
    }
}

/// The letters of a word as a set in which some share a bit: enough to see that words differ.
pub(super) fn letters(word: &str) -> u32 {
    word.chars().fold(0, |set, letter| set | bit(letter))
}

fn bit(letter: char) -> u32 {
    1 << (u32::from(letter) % 32)
}

fn is_number(word: &str) -> bool {
    word.chars().all(char::is_numeric)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_word_that_is_passed_over_is_not_alike(word in "[a-f0-9éß移]{1,9}", other in "[a-f0-9éß移]{1,12}") {
            let wanted = SoughtWord::new(word);
            let letters = letters(&other);
            prop_assert!(wanted.may_be_like(letters) || wanted.likeness(&other, letters) == 0);
        }
    }

    fn alike(word: &str, other: &str) -> u32 {
        SoughtWord::new(word.to_owned()).likeness(other, letters(other))
    }

    #[test]
    fn the_nearer_the_more_alike() {
        let order = [
            alike("deploy", "deploy"),
            alike("deplo", "deploy"),
            alike("dep", "deploy"),
            alike("deplyo", "deploy"),
            alike("deployment", "deploy"),
            alike("databsae", "databases"),
            alike("ploy", "deploy"),
            alike("dew", "deploy"),
        ];
        assert!(order.windows(2).all(|pair| pair[0] > pair[1]), "{order:?}");
        assert_eq!(order[7], 0);
    }

    #[test]
    fn slips_count_by_the_length_of_the_word() {
        assert_eq!(alike("deplpy", "deploy"), 620);
        assert_eq!(alike("edploy", "deploy"), 620);
        assert_eq!(alike("dploy", "deploy"), 620);
        assert_eq!(alike("dpoly", "deploy"), 0);
        assert_eq!(alike("igratoion", "migration"), 480);
        assert_eq!(alike("map", "mop"), 0);
        assert_eq!(alike("2024", "2025"), 0);
    }

    #[test]
    fn forms_of_a_word_are_related() {
        assert_eq!(alike("migration", "migrate"), 500);
        assert_eq!(alike("migrate", "migration"), 500);
        assert_eq!(alike("testing", "test"), 500);
        assert_eq!(alike("restart", "restore"), 0);
        assert_eq!(alike("production", "prose"), 0);
    }

    #[test]
    fn short_words_are_no_parts_of_others() {
        assert_eq!((alike("de", "deploy"), alike("lo", "deploy")), (0, 0));
        assert!(alike("移行", "テータ移行") > 0);
        assert_eq!(alike("test", "te"), 0);
    }
}
