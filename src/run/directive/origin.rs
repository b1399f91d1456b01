//! Finds where a placeholder of a directive is written in its file.
//!
//! A directive keeps its texts unescaped, so an error has an offset in such a text and not in the
//! file. This module searches the pinned source for the placeholder, starting at the step or
//! parameter.

use std::sync::Arc;

use super::Run;
use super::pin::Pinned;
use crate::item::directive::Directive;
use crate::item::position::{LineIndex, Position};
use crate::item::tool::Origin;
use crate::values::ValueError;

/// How much of an expression to search for.
const MOST: usize = 200;

impl Run<'_> {
    /// Where the placeholder of an error is written; `None` for built-in directives.
    pub(super) fn origin(&self, err: &ValueError) -> Option<Origin> {
        let frame = self.state()?.frames.last()?;
        let step = frame.step().map(|step| step.place);
        self.pinned
            .origin(&frame.directive, step.unwrap_or(frame.directive.place), err)
    }
}

impl Pinned {
    /// Where the placeholder of an error is written in a directive, at or after `from`.
    fn origin(
        &self,
        directive: &Arc<Directive>,
        from: Position,
        err: &ValueError,
    ) -> Option<Origin> {
        let (file, source) = self.text_of(directive)?;
        let context = err.context.as_ref()?;
        let near = context.near.unwrap_or(from);
        Some(Origin::new(
            file.to_path_buf(),
            locate(source, near, &context.text, err.offset),
        ))
    }
}

/// The position of an offset in a text that is written somewhere after `near` in a source.
fn locate(source: &str, near: Position, text: &str, offset: usize) -> Position {
    let lines = LineIndex::new(source);
    let start = offset_of(source, &lines, near);
    let rest = source.get(start..).unwrap_or_default();
    let rest = rest
        .find("</step>")
        .and_then(|end| rest.get(..end))
        .unwrap_or(rest);
    let line = text
        .get(..offset)
        .and_then(|before| before.rfind('\n'))
        .map_or(0, |at| at + 1);
    let end = offset + written(text.get(offset..).unwrap_or_default());
    let found = |from: usize| {
        let part = text.get(from..end).filter(|part| !part.is_empty())?;
        Some(start + rest.find(part)? + offset - from)
    };
    // Search with the preceding part of its line, because the same placeholder may occur earlier.
    found(line)
        .or_else(|| found(offset))
        .map_or(near, |at| lines.place(at))
}

/// The length of the placeholder or name at the beginning of a text, in bytes.
fn written(text: &str) -> usize {
    let line = text.find('\n').unwrap_or(text.len());
    let end = text.find('}').map_or(line, |at| (at + 1).min(line));
    (0..=end.min(MOST))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

fn offset_of(source: &str, lines: &LineIndex<'_>, place: Position) -> usize {
    let line = usize::try_from(place.line)
        .unwrap_or(usize::MAX)
        .saturating_sub(1);
    let start = lines.start(line).unwrap_or(0);
    let column = usize::try_from(place.column)
        .unwrap_or(usize::MAX)
        .saturating_sub(1);
    let rest = source.get(start..).unwrap_or_default();
    start
        + rest
            .char_indices()
            .nth(column)
            .map_or(rest.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "<step name=\"a\"><param value=\"{input:é}\"/></step>\n<step name=\"b\">\n  <action>{input:x}, then\n  ünd {input:x}</action></step>\n";

    fn at(line: u32, column: u32) -> Position {
        Position { line, column }
    }

    #[test]
    fn a_placeholder_is_found_in_its_step_and_line() {
        assert_eq!(locate(SOURCE, at(1, 1), "{input:é}", 0), at(1, 30));
        let text = "{input:x}, then\n  ünd {input:x}";
        assert_eq!(locate(SOURCE, at(2, 1), text, 0), at(3, 11));
        assert_eq!(
            locate(SOURCE, at(2, 1), text, text.rfind('{').unwrap()),
            at(4, 7)
        );
    }

    #[test]
    fn what_is_written_with_escapes_is_where_its_step_is() {
        assert_eq!(locate(SOURCE, at(1, 1), "{input:x}", 0), at(1, 1));
        assert_eq!(locate("", at(9, 9), "{input:x", 0), at(9, 9));
        assert_eq!(locate(SOURCE, at(2, 1), "é", 9), at(2, 1));
    }
}
