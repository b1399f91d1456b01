//! Colours for data: the status of runs and steps.
//!
//! The printer strips them if output is not coloured, so callers need not check.

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use super::clean;

const PLAIN: Style = Style::new();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_texts_do_not_widen_a_column() {
        assert_eq!(width_of(["ab", "äöü", "much too long"], 5), 3);
        assert_eq!(padded("äö", 4), "äö  ");
    }
}
