//! Colours for data: the status of runs and steps, and the lines of a diff.
//!
//! The printer strips them if output is not coloured, so callers need not check.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use super::clean;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();

/// A cleaned text, padded to a width.
pub(in crate::cli) fn padded(text: &str, width: usize) -> String {
    let text = clean(text);
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// The width of the widest text, at most `limit`; wider texts overflow.
pub(in crate::cli) fn width_of<'t>(
    texts: impl IntoIterator<Item = &'t str>,
    limit: usize,
) -> usize {
    texts
        .into_iter()
        .map(|text| clean(text).width())
        .filter(|width| *width <= limit)
        .max()
        .unwrap_or_default()
}

/// The status of a run or a step, padded to a width.
pub(in crate::cli) fn status(word: &str, width: usize) -> String {
    let style = match word {
        "succeeded" => GREEN,
        "failed" | "denied" => RED,
        "waiting" | "interrupted" | "unfinished" | "cut off" => YELLOW,
        "running" => CYAN,
        _ => PLAIN,
    };
    let blanks = " ".repeat(width.saturating_sub(word.width()));
    format!("{style}{word}{style:#}{blanks}")
}

/// An identifier, such as the id of a run.
pub(in crate::cli) fn id(text: &str) -> String {
    format!("{YELLOW}{}{YELLOW:#}", clean(text))
}

/// Less important text.
pub(in crate::cli) fn dim(text: &str) -> String {
    format!("{DIM}{}{DIM:#}", clean(text))
}

/// A diff in git's colours.
pub(in crate::cli) fn patch(text: &str) -> String {
    let mut painted = String::with_capacity(text.len() * 2);
    let mut in_header = false;
    for line in text.split_inclusive('\n') {
        let (content, end) = line
            .strip_suffix('\n')
            .map_or((line, ""), |content| (content, "\n"));
        in_header =
            content.starts_with("diff --git ") || (in_header && !content.starts_with("@@ "));
        let style = match content.chars().next() {
            _ if in_header => BOLD,
            Some('@') => CYAN,
            Some('+') => GREEN,
            Some('-') => RED,
            _ => PLAIN,
        };
        // Writing to a `String` cannot fail.
        let _ = write!(painted, "{style}{}{style:#}{end}", clean(content));
    }
    painted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_looks_like_a_header_is_a_header_only_before_the_first_hunk() {
        let painted =
            patch("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- gone\n+new\n same\n");
        let expected = "\u{1b}[1mdiff --git a/x b/x\u{1b}[0m\n\u{1b}[1m--- a/x\u{1b}[0m\n\u{1b}[1m+++ b/x\u{1b}[0m\n\
                        \u{1b}[36m@@ -1 +1 @@\u{1b}[0m\n\u{1b}[31m--- gone\u{1b}[0m\n\u{1b}[32m+new\u{1b}[0m\n same\n";
        assert_eq!(painted, expected);
    }

    #[test]
    fn wide_texts_do_not_widen_a_column() {
        assert_eq!(width_of(["ab", "äöü", "much too long"], 5), 3);
        assert_eq!(padded("äö", 4), "äö  ");
    }
}
