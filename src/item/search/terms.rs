//! The words of one item, counted.
//!
//! A [`Tally`] collects the words of each field; [`Terms`] are the sorted and weighted result. Both
//! keep their words in one string: an item has dozens, and there are thousands of items.

use super::document::Strength;
use super::words::each_word;

pub(super) const FIELDS: usize = 5;

/// How often a word occurs in each field, or how many words each field has.
pub(super) type Counts = [u32; FIELDS];

/// Sorted words with their strengths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Terms {
    text: String,
    /// Where each word ends.
    ends: Vec<(usize, Strength)>,
}

impl Terms {
    /// Adds a word that sorts after all others.
    pub(super) fn push(&mut self, word: &str, strength: Strength) {
        self.text.push_str(word);
        self.ends.push((self.text.len(), strength));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Strength)> {
        let mut start = 0;
        self.ends.iter().map(move |(end, strength)| {
            let word = self.text.get(start..*end).unwrap_or_default();
            start = *end;
            (word, *strength)
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    text: String,
    marks: Vec<WordMark>,
    lengths: Counts,
}

#[derive(Clone, Copy, Debug)]
struct WordMark {
    /// Its first bytes as a number: most words differ there, and numbers compare fast.
    beginning: u64,
    start: usize,
    end: usize,
    field: usize,
}

impl Tally {
    /// Adds the words of a text to a field, up to `most` bytes.
    pub(super) fn add(&mut self, field: usize, text: &str, most: usize) {
        let text = text
            .get(..text.floor_char_boundary(most))
            .unwrap_or_default();
        each_word(text, |word| {
            if let Some(length) = self.lengths.get_mut(field) {
                *length += 1;
            }
            push(&mut self.text, &mut self.marks, field, word);
        });
    }

    /// Adds a word to a field without increasing the field's length.
    pub(super) fn add_spelling(&mut self, field: usize, word: &str) {
        push(&mut self.text, &mut self.marks, field, word);
    }

    /// Counts the words; `strength` weighs them.
    pub(super) fn into_terms(mut self, strength: impl Fn(&Counts, &Counts) -> Strength) -> Terms {
        let text = self.text.as_str();
        let word = |mark: &WordMark| text.get(mark.start..mark.end).unwrap_or_default();
        self.marks.sort_unstable_by(|a, b| {
            a.beginning
                .cmp(&b.beginning)
                .then_with(|| word(a).cmp(word(b)))
        });
        let mut terms = Terms::default();
        for same in self
            .marks
            .chunk_by(|a, b| a.beginning == b.beginning && word(a) == word(b))
        {
            let mut counts = Counts::default();
            for mark in same {
                if let Some(count) = counts.get_mut(mark.field) {
                    *count += 1;
                }
            }
            terms.push(
                same.first().map(word).unwrap_or_default(),
                strength(&counts, &self.lengths),
            );
        }
        terms
    }
}

fn push(text: &mut String, marks: &mut Vec<WordMark>, field: usize, word: &str) {
    let mut beginning = [0; 8];
    for (place, byte) in beginning.iter_mut().zip(word.bytes()) {
        *place = byte;
    }
    let start = text.len();
    text.push_str(word);
    marks.push(WordMark {
        beginning: u64::from_be_bytes(beginning),
        start,
        end: text.len(),
        field,
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::words::words;
    use super::*;

    proptest! {
        #[test]
        fn words_are_counted_by_field_and_sorted(texts in prop::collection::vec((0..FIELDS, "[a-c é_]{0,40}"), 0..6)) {
            let mut tally = Tally::default();
            let mut expected: BTreeMap<String, u32> = BTreeMap::new();
            let mut lengths = Counts::default();
            for (field, text) in &texts {
                tally.add(*field, text, usize::MAX);
                for word in words(text) {
                    *expected.entry(word).or_default() += 10_u32.pow(u32::try_from(*field).unwrap());
                    lengths[*field] += 1;
                }
            }
            let code = |counts: &Counts, all: &Counts| {
                assert_eq!(*all, lengths);
                u16::try_from(counts.iter().rev().fold(0, |sum, count| sum * 10 + count) % 60_000).unwrap()
            };
            let terms = tally.into_terms(code);
            let found: Vec<(String, u16)> = terms.iter().map(|(word, count)| (word.to_owned(), count)).collect();
            let expected: Vec<(String, u16)> =
                expected.into_iter().map(|(word, count)| (word, u16::try_from(count % 60_000).unwrap())).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
