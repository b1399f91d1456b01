//! Shared by the YAML and JSON readers.
//!
//! [`ParseReporter`] formats the findings of both, maps positions to the file, and limits how much one
//! hostile document can report. Every quoted text is shortened.

use super::finding::Findings;
use super::position::Position;
use super::source::MAX_DOCUMENT;
use super::wording::shown;
use crate::problem::Code;

/// The maximum nesting of lists and maps.
pub const MAX_DEPTH: usize = 64;

/// More findings would not help the user, and a hostile document could cause millions.
const MAX_FINDINGS: usize = 100;

pub(super) struct ParseReporter<'f> {
    findings: &'f mut Findings,
    origin: Position,
    left: usize,
}

impl<'f> ParseReporter<'f> {
    pub(super) fn new(origin: Position, findings: &'f mut Findings) -> Self {
        Self {
            findings,
            origin,
            left: MAX_FINDINGS,
        }
    }

    /// Maps a line and column of the text to the file.
    pub(super) fn locate(&self, line: usize, column: usize) -> Position {
        let number = |value: usize| u32::try_from(value.max(1)).unwrap_or(u32::MAX);
        self.moved(Position {
            line: number(line),
            column: number(column),
        })
    }

    /// Maps a position of the text to the file.
    pub(super) fn moved(&self, place: Position) -> Position {
        place.within(self.origin)
    }

    pub(super) fn add(
        &mut self,
        code: Code,
        place: Position,
        path: String,
        message: String,
        suggestion: &str,
    ) {
        if self.left > 0 {
            self.left -= 1;
            self.findings
                .add(code, place, path, message)
                .suggest(suggestion);
        }
    }

    pub(super) fn is_too_large(&mut self, text: &str) -> bool {
        let too_large = text.len() as u64 > MAX_DOCUMENT;
        if too_large {
            let message = format!("larger than {} KiB", MAX_DOCUMENT / 1024);
            self.add(
                Code::FileTooLarge,
                self.origin,
                String::new(),
                message,
                "keep data outside the item",
            );
        }
        too_large
    }

    pub(super) fn empty(&mut self) {
        let suggestion = "describe the item, or remove the file";
        self.add(
            Code::EmptyFile,
            self.origin,
            String::new(),
            "there is no content".to_owned(),
            suggestion,
        );
    }

    pub(super) fn too_deep(&mut self, place: Position, path: String) {
        let message = format!("nested more than {MAX_DEPTH} levels deep");
        self.add(
            Code::NestingLimit,
            place,
            path,
            message,
            "flatten the structure",
        );
    }

    pub(super) fn duplicate_key(
        &mut self,
        key: &str,
        first: Position,
        again: Position,
        path: String,
    ) {
        let message = format!(
            "key `{}` is given twice, first at line {}, column {}",
            shown(key),
            first.line,
            first.column
        );
        self.add(
            Code::DuplicateKey,
            again,
            path,
            message,
            "keep one of the two",
        );
    }

    pub(super) fn invalid_number(&mut self, written: &str, place: Position, path: String) {
        let message = format!("`{}` is not a number that can be used", shown(written));
        let suggestion = "use a finite number, at most 64 bits wide if whole; put quotes around it if it is text";
        self.add(Code::InvalidNumber, place, path, message, suggestion);
    }
}

pub(super) fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() && !key.is_empty() {
        path.push('.');
    }
    path.push_str(&shown(key));
}

pub(super) fn push_index(path: &mut String, index: usize) {
    path.push('[');
    path.push_str(&index.to_string());
    path.push(']');
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::item::finding::Strength;

    #[test]
    fn a_hostile_document_cannot_say_more_than_its_share() {
        let mut findings = Findings::new(Path::new("tool.yaml"), Strength::Lenient);
        let mut report = ParseReporter::new(Position::START, &mut findings);
        for _ in 0..1000 {
            report.empty();
        }
        assert_eq!(findings.as_slice().len(), MAX_FINDINGS);
    }
}
