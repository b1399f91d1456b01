//! A diff as a person reads it: in git's colours, with the changed words of changed lines highlighted.
//!
//! [`painted`] reads the text of git. Lines that were removed and the lines that took their place are compared
//! word by word; without colours the changed words stand in `[-…-]` and `{+…+}`, as in git's word diff.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Effects, Style};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::clean;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();

/// How many pairs of words of one diff are compared; later lines are shown without highlights.
const MAX_PAIRS: usize = 20_000_000;
/// Longer lines are not compared.
const MAX_WORDS: usize = 400;

/// How changed words are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    Colors,
    Brackets,
}

impl Marks {
    /// The marks for a stream.
    pub(super) fn on(choice: anstream::ColorChoice) -> Self {
        match choice {
            anstream::ColorChoice::Never => Self::Brackets,
            _ => Self::Colors,
        }
    }
}

/// Which side of a change a line is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Removed,
    Added,
}

impl Side {
    fn sign(self) -> char {
        match self {
            Self::Removed => '-',
            Self::Added => '+',
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Removed => RED,
            Self::Added => GREEN,
        }
    }

    /// Puts a changed part of a line between marks.
    fn mark(self, part: &str, marks: Marks, into: &mut String) {
        let style = self.style();
        let strong = style.effects(Effects::INVERT);
        // Writing to a `String` cannot fail.
        let _ = match (marks, self) {
            (Marks::Colors, _) => write!(into, "{style:#}{strong}{part}{strong:#}{style}"),
            (Marks::Brackets, Self::Removed) => write!(into, "[-{part}-]"),
            (Marks::Brackets, Self::Added) => write!(into, "{{+{part}+}}"),
        };
    }
}

/// A diff for a person.
pub(super) fn painted(text: &str, marks: Marks) -> String {
    let mut painter = Painter {
        painted: String::with_capacity(text.len() * 2),
        marks,
        removed: Vec::new(),
        added: Vec::new(),
        left: MAX_PAIRS,
    };
    let mut in_header = false;
    for line in text.split_inclusive('\n') {
        let content = line.strip_suffix('\n').unwrap_or(line);
        in_header =
            content.starts_with("diff --git ") || (in_header && !content.starts_with("@@ "));
        match content.chars().next() {
            _ if in_header => painter.plain(line, BOLD),
            Some('-') => painter.removed(line),
            Some('+') => painter.added.push(line.to_owned()),
            Some('@') => painter.plain(line, CYAN),
            // It belongs to the line before.
            Some('\\') if !painter.added.is_empty() => painter.added.push(line.to_owned()),
            Some('\\') if !painter.removed.is_empty() => painter.removed.push(line.to_owned()),
            _ => painter.plain(line, PLAIN),
        }
    }
    painter.settle();
    painter.painted
}

struct Painter {
    painted: String,
    marks: Marks,
    /// The lines of the change that is being read.
    removed: Vec<String>,
    added: Vec<String>,
    /// How many pairs of words may still be compared.
    left: usize,
}

impl Painter {
    fn removed(&mut self, line: &str) {
        if !self.added.is_empty() {
            self.settle();
        }
        self.removed.push(line.to_owned());
    }

    fn plain(&mut self, line: &str, style: Style) {
        self.settle();
        self.write(line, style);
    }

    fn write(&mut self, line: &str, style: Style) {
        let (content, end) = split_end(line);
        let _ = match self.marks {
            Marks::Colors => write!(self.painted, "{style}{}{style:#}{end}", clean(content)),
            Marks::Brackets => write!(self.painted, "{}{end}", clean(content)),
        };
    }

    /// Writes the change that was read. As many lines on both sides are compared in pairs.
    fn settle(&mut self) {
        let (removed, added) = (
            std::mem::take(&mut self.removed),
            std::mem::take(&mut self.added),
        );
        let is_paired = removed.len() == added.len();
        for (lines, others, side) in [
            (&removed, &added, Side::Removed),
            (&added, &removed, Side::Added),
        ] {
            for (at, line) in lines.iter().enumerate() {
                let other = others.get(at).filter(|_| is_paired);
                let parts = other.and_then(|other| self.changed(line, other));
                match parts {
                    Some(parts) => self.write_parts(line, &parts, side),
                    None => self.write(line, side.style()),
                }
            }
        }
    }

    /// The parts of a line in order, and whether each has changed; `None` where highlights would not help: a
    /// line that is new as a whole.
    fn changed(&mut self, line: &str, other: &str) -> Option<Vec<(String, bool)>> {
        let text = |line: &str| clean(split_end(line).0.get(1..).unwrap_or_default()).into_owned();
        if line.starts_with('\\') || other.starts_with('\\') {
            return None;
        }
        let (line, other) = (text(line), text(other));
        let (words, others) = (words(&line), words(&other));
        let pairs = words.len() * others.len();
        if words.len().max(others.len()) > MAX_WORDS || pairs > self.left {
            return None;
        }
        self.left -= pairs;
        let mut parts: Vec<(String, bool)> = Vec::new();
        let mut same = 0;
        for part in capture_diff_slices(Algorithm::Myers, &words, &others) {
            let text: String = words.get(part.old_range()).unwrap_or_default().concat();
            let is_changed = !matches!(part, DiffOp::Equal { .. });
            if !is_changed {
                same += text.trim().len();
            }
            if !text.is_empty() {
                parts.push((text, is_changed));
            }
        }
        (same > 0 && parts.iter().any(|(_, is_changed)| *is_changed)).then_some(parts)
    }

    fn write_parts(&mut self, line: &str, parts: &[(String, bool)], side: Side) {
        let (_, end) = split_end(line);
        let style = side.style();
        if self.marks == Marks::Colors {
            let _ = write!(self.painted, "{style}");
        }
        self.painted.push(side.sign());
        for (part, is_changed) in parts {
            if *is_changed {
                side.mark(part, self.marks, &mut self.painted);
            } else {
                self.painted.push_str(part);
            }
        }
        if self.marks == Marks::Colors {
            let _ = write!(self.painted, "{style:#}");
        }
        self.painted.push_str(end);
    }
}

fn split_end(line: &str) -> (&str, &str) {
    line.strip_suffix('\n')
        .map_or((line, ""), |content| (content, "\n"))
}

/// The words of a line: runs of letters and digits, runs of blanks, and every other character by itself.
fn words(line: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        c if c.is_whitespace() => 1,
        _ => 2,
    };
    let mut words = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, c) in line.char_indices() {
        let now = kind(c);
        if before.is_some_and(|before| before != now || now == 2) {
            words.extend(line.get(start..at));
            start = at;
        }
        before = Some(now);
    }
    words.extend(line.get(start..).filter(|rest| !rest.is_empty()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_looks_like_a_header_is_a_header_only_before_the_first_hunk() {
        let text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- gone\n+new\n same\n";
        let expected = "\u{1b}[1mdiff --git a/x b/x\u{1b}[0m\n\u{1b}[1m--- a/x\u{1b}[0m\n\u{1b}[1m+++ b/x\u{1b}[0m\n\
                        \u{1b}[36m@@ -1 +1 @@\u{1b}[0m\n\u{1b}[31m--- gone\u{1b}[0m\n\u{1b}[32m+new\u{1b}[0m\n same\n";
        assert_eq!(painted(text, Marks::Colors), expected);
        assert_eq!(painted(text, Marks::Brackets), text);
    }

    #[test]
    fn changed_words_are_marked_in_lines_that_took_the_place_of_others() {
        let text =
            "@@ -1,3 +1,3 @@\n one\n-limit = 10 # lines\n-keep\n+limit = 25 # lines\n+keep it\n";
        assert_eq!(
            painted(text, Marks::Brackets),
            "@@ -1,3 +1,3 @@\n one\n-limit = [-10-] # lines\n-keep\n+limit = {+25+} # lines\n+keep{+ it+}\n"
        );
        let colored = painted(text, Marks::Colors);
        assert!(
            colored.contains(
                "\u{1b}[31m-limit = \u{1b}[0m\u{1b}[7m\u{1b}[31m10\u{1b}[0m\u{1b}[31m # lines\u{1b}[0m\n"
            ),
            "{colored:?}"
        );
    }

    #[test]
    fn lines_without_a_counterpart_or_anything_in_common_are_not_marked() {
        for text in [
            "@@ -1 +1,2 @@\n-one two\n+one\n+two\n",
            "@@ -1 +1 @@\n-alpha\n+beta\n",
            "@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+one\n",
        ] {
            assert_eq!(painted(text, Marks::Brackets), text);
        }
    }

    #[test]
    fn a_huge_change_takes_no_time() {
        let old = "-word ".to_owned() + &"a b ".repeat(100_000);
        let new = "+word ".to_owned() + &"b a ".repeat(100_000);
        let text = format!("@@ -1 +1 @@\n{old}\n{new}\n");
        assert_eq!(painted(&text, Marks::Brackets), text);
    }
}
