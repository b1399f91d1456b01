//! Renders a finding: the message, the source line with a caret, the suggestion.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::clean;
use crate::item::finding::{Finding, Severity};
use crate::item::source::{MAX_TEXT, leaves, read_bytes};

/// How much of a long line is shown around the caret.
const WINDOW: usize = 100;

/// Renders findings; caches the files.
pub(super) struct Diagnostics<'r> {
    root: &'r Path,
    files: HashMap<PathBuf, Vec<String>>,
    renderer: Renderer,
}

impl<'r> Diagnostics<'r> {
    /// The files of findings are relative to `root`.
    pub(super) fn new(root: &'r Path) -> Self {
        Self {
            root,
            files: HashMap::new(),
            renderer: Renderer::styled(),
        }
    }

    /// Renders one finding, with a line feed.
    pub(super) fn render(&mut self, finding: &Finding) -> String {
        let level = match finding.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level
            .primary_title(clean(&finding.message).into_owned())
            .id(finding.code.as_str());
        let shown_path = clean(&finding.file.to_string_lossy()).into_owned();
        let (line, caret) = self.line(finding);
        let line_number = usize::try_from(finding.line).unwrap_or(usize::MAX);
        let mut group = Group::with_title(title).element(
            Snippet::source(line.as_str())
                .line_start(line_number)
                .path(shown_path)
                .annotation(AnnotationKind::Primary.span(caret)),
        );
        if let Some(suggestion) = &finding.suggestion {
            group = group.element(
                Level::HELP
                    .with_name("hint")
                    .message(clean(&suggestion.to_string()).into_owned()),
            );
        }
        format!("{}\n\n", self.renderer.render(&[group]))
    }

    /// The source line, shortened around the caret, and the caret's range in it.
    fn line(&mut self, finding: &Finding) -> (String, std::ops::Range<usize>) {
        let path = self.root.join(&finding.file);
        let lines = self
            .files
            .entry(path)
            .or_insert_with_key(|path| read_lines(path, self.root));
        let at = usize::try_from(finding.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let line = lines.get(at).map_or("", String::as_str);
        let column = usize::try_from(finding.column.saturating_sub(1)).unwrap_or(0);
        let characters: Vec<char> = line.chars().collect();
        let column = column.min(characters.len());
        let from = column.saturating_sub(WINDOW);
        let shown: String = characters.iter().skip(from).take(2 * WINDOW).collect();
        let start: usize = shown.chars().take(column - from).map(char::len_utf8).sum();
        let word = shown.get(start..).unwrap_or_default();
        let ends = |c: char| c.is_whitespace() || ",:;\"'(){}[]<>=".contains(c);
        let end = start
            + word
                .char_indices()
                .skip(1)
                .find(|(_, c)| ends(*c))
                .map_or(word.len(), |(at, _)| at);
        (shown, start..end)
    }
}

fn read_lines(path: &Path, root: &Path) -> Vec<String> {
    // A symlink in a project could point to secrets, which would then be printed to a public log.
    if path.starts_with(root) && leaves(path, root) {
        return Vec::new();
    }
    let bytes = read_bytes(path, MAX_TEXT).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.trim_start_matches('\u{feff}')
        .lines()
        .map(|line| clean(line).into_owned())
        .collect()
}
