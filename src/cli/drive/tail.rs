//! The last lines of a tool's stdout, kept in case the tool fails.
//!
//! While a directive runs, a tool's stdout is its result and is not shown. But many tools (test
//! runners, compilers, linters) report errors there.

use std::collections::VecDeque;

/// How many lines of a failed tool are shown.
const LINES: usize = 40;
/// The longest kept line; a line of a minified file must not fill the memory.
const LONGEST: usize = 4096;

/// The end of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<Vec<u8>>,
    open: Vec<u8>,
    dropped: usize,
}

impl Tail {
    /// Adds the next bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LONGEST.saturating_sub(self.open.len());
            let content = part.strip_suffix(b"\n").unwrap_or(part);
            self.open
                .extend_from_slice(content.get(..room).unwrap_or(content));
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    /// The last lines, and the number of lines before them.
    pub(super) fn take(&mut self) -> (Vec<String>, usize) {
        if !self.open.is_empty() {
            self.end_line();
        }
        let Self { lines, dropped, .. } = std::mem::take(self);
        let lines = lines
            .into_iter()
            .map(|line| String::from_utf8_lossy(&line).trim_end().to_owned())
            .collect();
        (lines, dropped)
    }

    fn end_line(&mut self) {
        self.lines.push_back(std::mem::take(&mut self.open));
        if self.lines.len() > LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_however_the_output_is_split() {
        let mut tail = Tail::default();
        let lines: Vec<String> = (1..=50).map(|number| format!("line {number}")).collect();
        let text = lines.join("\n") + "\n";
        text.as_bytes().chunks(7).for_each(|piece| tail.add(piece));
        tail.add(b"the end");
        let (lines, dropped) = tail.take();
        assert_eq!((lines.len(), dropped), (40, 11));
        assert_eq!(
            (lines[0].as_str(), lines[39].as_str()),
            ("line 12", "the end")
        );
        assert_eq!(tail.take(), (Vec::new(), 0));
    }

    #[test]
    fn a_long_line_is_cut() {
        let mut tail = Tail::default();
        tail.add(&[b'x'; 3000]);
        tail.add(&[b'x'; 3000]);
        assert_eq!(tail.take().0, ["x".repeat(LONGEST)]);
    }
}
