//! Finds the directive in its Markdown.
//!
//! Fences are read as in `CommonMark`, except that a fence whose content begins with `<directive`
//! ends after the *balanced* `</directive>`: CDATA inside may contain fences. Text quoted in HTML
//! comments or in fences of another language is ignored. [`find`] is the entry point.

use std::ops::Range;

use super::lexeme::instruction_end;
use super::quote;
use super::scan::{DirectiveScan, scan, scan_markdown};
use crate::item::finding::Findings;
use crate::item::position::LineIndex;
use crate::item::signature::{after_stamp, is_stamp};
use crate::problem::Code;

#[derive(Debug)]
pub(super) struct Block {
    pub(super) start: usize,
    pub(super) scan: DirectiveScan,
    /// The text between the directive and the end of its fence.
    rest: Range<usize>,
}

/// How likely a location is for a directive; better ones come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// In a fence marked `xml`.
    Fenced,
    /// In a fence marked `xml` that stands in a longer Markdown fence.
    Wrapped,
    /// In a fence without language, or in no fence at all.
    Unfenced,
}

struct BlockCandidate {
    rank: Rank,
    block: Block,
}

/// How many directives are reported.
const MAX_CANDIDATES: usize = 16;
/// How many fences are searched: each may require reading the rest of the file.
const MAX_FENCES: usize = 128;

struct BlockSearch<'t> {
    text: &'t str,
    candidates: Vec<BlockCandidate>,
    fences: usize,
}

pub(super) struct Fence<'t> {
    marker: char,
    length: usize,
    info: &'t str,
}

pub(super) fn find(text: &str, lines: &LineIndex<'_>, findings: &mut Findings) -> Option<Block> {
    let mut search = BlockSearch {
        text,
        candidates: Vec::new(),
        fences: 0,
    };
    search.collect(0..text.len(), Rank::Fenced);
    let candidates = search.candidates;
    let best = candidates.iter().map(|candidate| candidate.rank).min();
    let mut blocks = candidates
        .into_iter()
        .filter(|candidate| Some(candidate.rank) == best);
    let Some(BlockCandidate { rank, block }) = blocks.next() else {
        if text.trim().is_empty() {
            findings
                .add(Code::EmptyFile, lines.place(0), "", "the file is empty")
                .suggest("describe the directive, or remove the file");
        } else {
            let block = "a fenced ```xml block whose root is <directive name=\"…\" version=\"…\">";
            let first = text
                .get(after_stamp(text)..)
                .unwrap_or_default()
                .trim_start();
            let way = if first.starts_with("---\n") {
                format!(
                    "front matter does not describe a directive here: write {block} instead of it"
                )
            } else {
                format!("add {block}")
            };
            findings
                .add(
                    Code::NoDirective,
                    lines.place(0),
                    "",
                    "the file contains no directive",
                )
                .suggest(way);
        }
        return None;
    };
    for other in blocks {
        let first = lines.place(block.start).line;
        findings
            .add(
                Code::ManyDirectives,
                lines.place(other.block.start),
                "",
                format!("another directive begins here; the first begins on line {first}"),
            )
            .suggest(
                "keep one directive per file; quote examples in a fence with another language",
            );
    }
    if rank == Rank::Unfenced {
        findings
            .add(
                Code::UnfencedDirective,
                lines.place(block.start),
                "",
                "the directive is not in a fenced xml block",
            )
            .suggest("put ```xml on the line before it and ``` on the line after it");
    } else {
        check_rest(text, &block, lines, findings);
    }
    Some(block)
}

/// Finds an element in the prose below the directive, where newer RYE files put them.
pub(super) fn find_below(text: &str, block: &Block, name: &str) -> Option<(usize, DirectiveScan)> {
    let tag = format!("<{name}");
    let mut at = next_line(text, block.rest.end, text.len());
    while at < text.len() {
        let line = line_at(text, at, text.len());
        let trimmed = line.trim_start();
        if let Some(fence) = read_fence(line) {
            let inside = next_line(text, at, text.len())..text.len();
            at = closing_line(text, inside, &fence).unwrap_or(text.len());
        } else if begins(trimmed, &tag) {
            let start = at + line.len() - trimmed.len();
            let quoted = quote::find(text, start..text.len());
            return Some((start, scan_markdown(text, start, text.len(), quoted)));
        }
        at = next_line(text, at, text.len());
    }
    None
}

/// Reports text after the directive in its fence.
fn check_rest(text: &str, block: &Block, lines: &LineIndex<'_>, findings: &mut Findings) {
    let end = block.rest.end;
    let mut at = block.rest.start;
    loop {
        at = skip_blank(text, at, end);
        let rest = text.get(at..end).unwrap_or_default();
        if let Some(comment) = rest
            .strip_prefix("<!--")
            .and_then(|inside| inside.find("-->"))
        {
            at += comment + 7;
            continue;
        }
        if rest.is_empty() {
            return;
        }
        if begins_directive(rest) {
            findings
                .add(
                    Code::ManyDirectives,
                    lines.place(at),
                    "",
                    "another directive begins in the same block",
                )
                .suggest("keep one directive per file");
        } else if rest
            .strip_prefix('<')
            .is_some_and(|inside| inside.starts_with(|c: char| c.is_ascii_alphabetic()))
        {
            findings
                .add(
                    Code::XmlSyntax,
                    lines.place(at),
                    "",
                    "a second root element follows the directive",
                )
                .suggest("move it into the directive, or below the fence");
        } else {
            findings
                .add(
                    Code::TextAfterDirective,
                    lines.place(at),
                    "",
                    "there is text between `</directive>` and the end of its fence",
                )
                .suggest("close the fence right after `</directive>` and move the text below it");
        }
        return;
    }
}

impl BlockSearch<'_> {
    fn collect(&mut self, range: Range<usize>, rank: Rank) {
        let text = self.text;
        let mut at = range.start;
        let mut comment_without_end = false;
        while at < range.end && self.candidates.len() < MAX_CANDIDATES {
            let line = line_at(text, at, range.end);
            let next = (at + line.len() + 1).min(range.end);
            let trimmed = line.trim_start();
            if let Some(fence) = read_fence(line) {
                at = self.collect_fence(next..range.end, &fence, rank);
            } else if is_stamp(line) {
                // Some of other programs are comments without an end.
                at = next;
            } else if trimmed.starts_with("<!--") && !comment_without_end {
                let end = text.get(at..range.end).and_then(|rest| rest.find("-->"));
                comment_without_end = end.is_none();
                at = end.map_or(next, |end| next_line(text, at + end, range.end));
            } else if rank == Rank::Fenced && begins_directive(trimmed) {
                let start = at + line.len() - trimmed.len();
                let block = measure(text, start, range.end, None);
                at = next_line(text, block.rest.start.max(at), range.end);
                self.candidates.push(BlockCandidate {
                    rank: Rank::Unfenced,
                    block,
                });
            } else {
                at = next;
            }
        }
    }

    /// Reads the content of a fence and returns the offset after its closing line.
    fn collect_fence(&mut self, range: Range<usize>, fence: &Fence<'_>, rank: Rank) -> usize {
        let text = self.text;
        self.fences += 1;
        let language = fence
            .info
            .split([' ', '\t', '{', ','])
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        if (language == "xml" || language.is_empty())
            && self.fences <= MAX_FENCES
            && let Some(start) = find_root(text, range.clone())
        {
            let block = measure(text, start, range.end, Some(fence));
            let end = block.rest.end;
            let rank = if language == "xml" {
                rank
            } else {
                Rank::Unfenced
            };
            self.candidates.push(BlockCandidate { rank, block });
            return next_line(text, end, range.end);
        }
        let close = closing_line(text, range.clone(), fence).unwrap_or(range.end);
        if matches!(&*language, "" | "markdown" | "md") && fence.length > 3 && rank == Rank::Fenced
        {
            self.collect(range.start..close, Rank::Wrapped);
        }
        next_line(text, close, range.end)
    }
}

/// Returns the offset of `<directive` (or of a DTD before it) if that is what a fence begins with.
fn find_root(text: &str, range: Range<usize>) -> Option<usize> {
    let mut at = range.start;
    loop {
        at = skip_blank(text, at, range.end);
        let rest = text.get(at..range.end)?;
        if let Some(inside) = rest.strip_prefix("<!--") {
            at += inside.find("-->")? + 7;
        } else if rest.starts_with("<?") {
            at = instruction_end(text, at)?;
        } else if rest.starts_with("<!DOCTYPE") {
            return rest.contains("<directive").then_some(at);
        } else {
            return begins_directive(rest).then_some(at);
        }
    }
}

fn measure(text: &str, start: usize, limit: usize, fence: Option<&Fence<'_>>) -> Block {
    let found = scan(text, start, limit);
    let closing = |from: usize| {
        fence
            .and_then(|fence| closing_line(text, from..limit, fence))
            .unwrap_or(limit)
    };
    if let Some(end) = found.end {
        return Block {
            start,
            scan: found,
            rest: end..closing(end),
        };
    }
    // Without a balanced end the scan continued into the prose: limit it to the likeliest fence.
    let end = likely_end(text, start, limit);
    let close = closing(end);
    Block {
        start,
        scan: scan(text, start, close),
        rest: close..close,
    }
}

/// Guesses where an unbalanced directive ends: after the first `</directive>` that is followed by a
/// fence, else after the last one, else at its beginning.
fn likely_end(text: &str, start: usize, limit: usize) -> usize {
    const END: &str = "</directive>";
    let rest = text.get(start..limit).unwrap_or_default();
    let mut last = start;
    for (position, _) in rest.match_indices(END) {
        last = start + position + END.len();
        let behind = text.get(last..limit).unwrap_or_default().trim_start();
        if behind.starts_with("```") || behind.starts_with("~~~") {
            return last;
        }
    }
    last
}

pub(super) fn closing_line(text: &str, range: Range<usize>, fence: &Fence<'_>) -> Option<usize> {
    let mut at = range.start;
    while at < range.end {
        let line = line_at(text, at, range.end);
        let trimmed = line.trim();
        if trimmed.chars().count() >= fence.length && trimmed.chars().all(|c| c == fence.marker) {
            return Some(at);
        }
        at += line.len() + 1;
    }
    None
}

pub(super) fn read_fence(line: &str) -> Option<Fence<'_>> {
    let trimmed = line.trim_start();
    let marker = trimmed.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = trimmed.trim_start_matches(marker);
    let length = trimmed.len() - info.len();
    let info = info.trim();
    (length >= 3 && !(marker == '`' && info.contains('`'))).then_some(Fence {
        marker,
        length,
        info,
    })
}

fn begins_directive(text: &str) -> bool {
    begins(text, "<directive")
}

fn begins(text: &str, tag: &str) -> bool {
    text.strip_prefix(tag)
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_whitespace() || "/>".contains(c)))
}

pub(super) fn line_at(text: &str, at: usize, end: usize) -> &str {
    let rest = text.get(at..end).unwrap_or_default();
    rest.split_once('\n').map_or(rest, |(line, _)| line)
}

pub(super) fn next_line(text: &str, at: usize, end: usize) -> usize {
    (at + line_at(text, at, end).len() + 1).min(end)
}

fn skip_blank(text: &str, at: usize, end: usize) -> usize {
    let rest = text.get(at..end).unwrap_or_default();
    at + rest.len() - rest.trim_start().len()
}
