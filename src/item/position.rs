//! Positions in a file.
//!
//! [`Position`] is a 1-based line and column, as shown to users; parsers work with byte offsets and
//! convert them with a [`LineIndex`]. Columns count characters, not bytes.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    pub line: u32,
    /// In characters, starting at 1.
    pub column: u32,
}

impl Position {
    pub const START: Self = Self { line: 1, column: 1 };

    /// Maps a position inside a fragment to the file.
    ///
    /// `origin` is the position of the fragment's first character.
    #[must_use]
    pub fn within(self, origin: Self) -> Self {
        if self.line == 1 {
            Self {
                line: origin.line,
                column: origin.column + self.column - 1,
            }
        } else {
            Self {
                line: origin.line + self.line - 1,
                column: self.column,
            }
        }
    }
}

impl Default for Position {
    fn default() -> Self {
        Self::START
    }
}

/// Converts byte offsets of one text to positions.
#[derive(Clone, Debug)]
pub struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
    /// How many characters begin before each multiple of [`BLOCK`] bytes. Without it every position
    /// on a line of a megabyte would count the whole line again.
    blocks: Vec<usize>,
}

const BLOCK: usize = 1024;

impl<'t> LineIndex<'t> {
    pub fn new(text: &'t str) -> Self {
        let mut starts = vec![0];
        starts.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(at, _)| at + 1),
        );
        let blocks = text
            .as_bytes()
            .chunks(BLOCK)
            .scan(0, |before, chunk| {
                let here = *before;
                *before += count_characters(chunk);
                Some(here)
            })
            .collect();
        Self {
            text,
            starts,
            blocks,
        }
    }

    /// The byte offset of a line, counted from 0.
    pub fn start(&self, line: usize) -> Option<usize> {
        self.starts.get(line).copied()
    }

    /// The position of a byte offset; an offset past the end means the end.
    pub fn place(&self, offset: usize) -> Position {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = self.characters_before(offset) - self.characters_before(start) + 1;
        Position {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = (offset / BLOCK).min(self.blocks.len().saturating_sub(1));
        let rest = self
            .text
            .as_bytes()
            .get(block * BLOCK..offset)
            .map_or(0, count_characters);
        self.blocks.get(block).copied().unwrap_or(0) + rest
    }
}

/// Counts the bytes that begin a character.
fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let index = LineIndex::new("ä=1\nbö=2");
        assert_eq!(index.place(0), Position::START);
        assert_eq!(index.place("ä=".len()), Position { line: 1, column: 3 });
        assert_eq!(
            index.place("ä=1\nbö".len()),
            Position { line: 2, column: 3 }
        );
        assert_eq!(index.place(9999), Position { line: 2, column: 5 });
    }

    #[test]
    fn columns_on_long_lines_are_exact() {
        let text = format!("first\n{}", "ab€".repeat(1000));
        let index = LineIndex::new(&text);
        for characters in [0, 1, 203, 204, 614, 2999, 3000] {
            let offset = "first\n".len()
                + "ab€"
                    .repeat(1000)
                    .chars()
                    .take(characters)
                    .map(char::len_utf8)
                    .sum::<usize>();
            assert_eq!(
                index.place(offset),
                Position {
                    line: 2,
                    column: u32::try_from(characters).unwrap() + 1
                }
            );
        }
    }

    #[test]
    fn fragments_move_to_their_origin() {
        let origin = Position {
            line: 10,
            column: 5,
        };
        assert_eq!(
            Position { line: 1, column: 3 }.within(origin),
            Position {
                line: 10,
                column: 7
            }
        );
        assert_eq!(
            Position { line: 2, column: 3 }.within(origin),
            Position {
                line: 11,
                column: 3
            }
        );
    }
}
