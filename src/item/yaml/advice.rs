//! Advice for YAML syntax errors.
//!
//! The parser says where it failed, not what was meant. Most mistakes are a tab, an unquoted value
//! that YAML reads differently, or an unclosed quote or bracket.

use saphyr_parser::ScanError;

/// The line and column of the cause of an error, both starting at 1.
///
/// For a tab, the parser reports the start of the interrupted value.
pub(super) fn find_cause(text: &str, error: &ScanError) -> (usize, usize) {
    let line = error.marker().line().max(1);
    // The parser counts bytes in a line that begins with `%`, so limit the column to the line.
    let length = text.lines().nth(line - 1).unwrap_or(text).chars().count();
    let column = error.marker().col().min(length) + 1;
    if !error.info().contains("found a tab") {
        return (line, column);
    }
    let tabs = text
        .lines()
        .enumerate()
        .skip(line)
        .find_map(|(index, line)| Some((index + 1, indentation(line).find('\t')? + 1)));
    tabs.unwrap_or((line, column))
}

pub(super) fn on(error: &str, line: &str) -> &'static str {
    if indentation(line).contains('\t') || error.contains("tab") {
        "indent with spaces, not tabs"
    } else if error.contains("mapping values are not allowed") {
        "put quotes around a value that contains `: `"
    } else if error.contains("unknown anchor") || error.contains("anchor or alias") {
        "put quotes around a value that begins with `*` or `&`"
    } else if error.contains("in quoted scalar")
        || error.contains("quoted scalar, found unexpected")
    {
        "close the quote"
    } else if error.contains("escape") || error.contains("hexadecimal") {
        "write `\\\\` for a backslash, or use single quotes"
    } else if error.contains("trailing content") {
        "put quotes around the whole value"
    } else if error.contains("unexpected character") {
        "put quotes around a value that begins with `@`, `%` or a backtick"
    } else if error.contains("flow")
        || error.contains("bracket")
        || error.contains("illegal placement")
    {
        "close each `[` and `{`, and put quotes around a value that begins with one"
    } else if error.contains("simple key") {
        "write `key: value`, with a space after the colon"
    } else {
        "check the indentation, and that quotes and brackets are closed"
    }
}

fn indentation(line: &str) -> &str {
    let content = line.trim_start_matches([' ', '\t']);
    line.get(..line.len() - content.len()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tab_explains_any_parser_error() {
        assert_eq!(
            on("invalid indentation", "\tb: 2"),
            "indent with spaces, not tabs"
        );
        assert_eq!(
            on("invalid indentation", "b:\t2"),
            "check the indentation, and that quotes and brackets are closed"
        );
    }
}
