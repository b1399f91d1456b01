//! Text quoted by Markdown: fenced blocks and code spans.
//!
//! Newer RYE directives have their steps in Markdown below their fence. Quoted text there (``
//! `<branch>` ``, a block of YAML) is for the reader, even if it looks like XML.

use std::ops::Range;

use super::block::{closing_line, line_at, next_line, read_fence};

/// How many fences may turn out not to quote: each requires reading the rest of the file.
const MAX_REFUSED: usize = 64;
/// How many runs of backticks per line are examined.
const MAX_RUNS: usize = 128;

/// The quoted ranges of a text, in order.
pub(super) fn find(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut quoted = Vec::new();
    let mut refused = 0;
    let mut at = range.start;
    while at < range.end {
        let line = line_at(text, at, range.end);
        let next = next_line(text, at, range.end);
        let fence = read_fence(line).filter(|_| refused < MAX_REFUSED);
        let close = fence
            .as_ref()
            .and_then(|fence| closing_line(text, next..range.end, fence));
        match close {
            Some(close) if !leaves_step(text.get(next..close).unwrap_or_default()) => {
                quoted.push(next..close);
                at = next_line(text, close, range.end);
            }
            _ => {
                refused += usize::from(fence.is_some());
                spans(line, at, &mut quoted);
                at = next;
            }
        }
    }
    quoted
}

/// Whether the step around a fence ends inside it: then the fence was never closed, and its
/// supposed end opens the fence of a later step.
fn leaves_step(content: &str) -> bool {
    let end = content
        .find("</step>")
        .or_else(|| content.find("</process>"));
    end.is_some_and(|end| content.find("<step").is_none_or(|start| end < start))
}

/// Finds the code spans of a line: text between two equally long runs of backticks.
fn spans(line: &str, offset: usize, quoted: &mut Vec<Range<usize>>) {
    let runs = runs(line);
    let mut index = 0;
    while let Some(open) = runs.get(index) {
        let close = runs
            .iter()
            .enumerate()
            .skip(index + 1)
            .find(|(_, run)| run.len() == open.len());
        match close {
            Some((found, close)) => {
                quoted.push(offset + open.end..offset + close.start);
                index = found + 1;
            }
            None => index += 1,
        }
    }
}

fn runs(line: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, _) in line.match_indices('`') {
        if let Some(run) = runs.last_mut().filter(|run| run.end == at) {
            run.end += 1;
        } else if runs.len() < MAX_RUNS {
            runs.push(at..at + 1);
        } else {
            break;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> Vec<&str> {
        find(text, 0..text.len())
            .into_iter()
            .map(|range| &text[range])
            .collect()
    }

    #[test]
    fn code_spans_end_at_as_many_backticks_on_their_line() {
        assert_eq!(quoted("a `b` ``c ` d`` `e"), ["b", "c ` d"]);
        assert_eq!(quoted("`a\nb`"), [""; 0]);
        assert_eq!(quoted("``` `<a>` b"), ["<a>"]);
    }

    #[test]
    fn fenced_blocks_are_quoted_as_a_whole() {
        assert_eq!(
            quoted("  ```yaml\n  a: `b`\n  ```\n`c`"),
            ["  a: `b`\n", "c"]
        );
        assert_eq!(quoted("```\n`a`\n~~~\nb"), ["a"]);
    }

    #[test]
    fn a_fence_that_is_never_closed_does_not_swallow_the_next_step() {
        let text = "<step name=\"a\">\n```\nx\n</step>\n<step name=\"b\">\n```\n<y>\n```\n</step>";
        assert_eq!(quoted(text), ["<y>\n"]);
    }
}
