//! A message that somebody is writing: git's comments are still in it, perhaps a whole patch below a cut line.
//!
//! [`Draft::text`] is what will be left of it, [`Draft::with_trailers`] puts our last paragraphs where git finds them
//! and where the comments stay below them.

use super::trailer::{block_start, parse_trailers};
use super::{Trailers, checked, invalid};
use crate::checkpoint::error::CheckpointError;

/// What git draws where the rest of a message does not count.
const SCISSORS: &str = "------------------------ >8 ------------------------";
/// What git may choose for comments when it is to choose by itself.
const CHOICE: &str = "#;@!$%^&|:";
/// How the names of our trailers begin.
const OURS: &str = "piton-";

/// A message as hooks find it.
#[derive(Clone, Debug)]
pub(crate) struct Draft<'t> {
    lines: Vec<&'t str>,
    mark: String,
    /// How many lines there are before the cut.
    counts: usize,
}

impl<'t> Draft<'t> {
    /// Takes a message in which comments begin with a mark. Where none does, git has chosen another.
    pub(crate) fn new(text: &'t str, mark: &str) -> Self {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        // Another one may have been given for this one commit.
        let is_used = lines.iter().any(|line| line.starts_with(mark));
        let mark = if is_used { mark.to_owned() } else { chosen(&lines) };
        let cut = format!("{mark} {SCISSORS}");
        let counts = lines.iter().position(|line| line.trim_end() == cut).unwrap_or(lines.len());
        Self { lines, mark, counts }
    }

    /// Whether a text may hold trailers of ours at all.
    pub(crate) fn may_concern_us(text: &str) -> bool {
        text.as_bytes().windows(OURS.len()).any(|word| word.eq_ignore_ascii_case(OURS.as_bytes()))
    }

    /// The message without comments.
    pub(crate) fn text(&self) -> String {
        self.before_cut().iter().filter(|line| !self.is_comment(line)).copied().collect()
    }

    /// The trailers that claim to be ours, in whatever case.
    pub(crate) fn claims(&self) -> Vec<(String, String)> {
        parse_trailers(&self.text()).into_iter().filter(|(name, _)| is_ours(name)).collect()
    }

    /// Whether nobody has written anything beside our last paragraphs.
    pub(crate) fn is_empty(&self) -> bool {
        let text = self.text();
        let claims = self.claims().len();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_footer(line));
        lines.count() <= claims
    }

    /// The message with the paragraph of a directive and our trailers, all of them before the comments at its end.
    pub(crate) fn with_trailers(
        &self,
        directive: Option<&str>,
        trailers: &Trailers,
    ) -> Result<String, CheckpointError> {
        let lines = self.before_cut();
        let end = lines.iter().rposition(|line| !line.trim().is_empty() && !self.is_comment(line));
        let end = end.map_or(0, |last| last + 1);
        let written = lines.get(..end).unwrap_or_default();
        let below: String = self.lines.get(end..).unwrap_or_default().concat();
        // Somebody's trailers and ours have to be one paragraph, or git sees only the last.
        let start = block_start(written);
        let mut text = written.get(..start).unwrap_or_default().concat().trim_end().to_owned();
        text.push_str("\n\n");
        if let Some(name) = directive {
            let name = checked("the directive's name", name)?;
            if name.contains(['[', ']']) {
                return Err(invalid("the directive's name", name));
            }
            text = format!("{text}[directive: {name}]\n\n");
        }
        let others = written.get(start..).unwrap_or_default().concat();
        if !others.is_empty() {
            text = format!("{text}{}\n", others.trim_end());
        }
        text = format!("{text}{}\n", trailers.block()?);
        let below = below.trim_start_matches(['\n', '\r', ' ', '\t']);
        Ok(if below.is_empty() { text } else { format!("{text}\n{below}") })
    }

    fn before_cut(&self) -> &[&'t str] {
        self.lines.get(..self.counts).unwrap_or_default()
    }

    fn is_comment(&self, line: &str) -> bool {
        line.starts_with(&self.mark)
    }
}

/// What a commit says about where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nothing.
    None,
    /// Something that piton would not have written, and why not.
    Invalid(&'static str),
    /// A step of a run.
    Step(Trailers),
}

/// Reads what the message of a commit says about where it comes from.
pub(crate) fn origin(message: &str) -> Origin {
    let has_claims = Draft::may_concern_us(message) && parse_trailers(message).iter().any(|(name, _)| is_ours(name));
    let has_footer = || {
        let paragraphs = message.split("\n\n").map(|paragraph| paragraph.trim_matches('\n'));
        message.contains("[directive: ") && { paragraphs }.any(|text| !text.contains('\n') && is_footer(text))
    };
    match Trailers::find(message).filter(|_| has_claims) {
        Some(trailers) if trailers.is_well_formed() => Origin::Step(trailers),
        Some(_) => Origin::Invalid("its trailers are not as piton writes them"),
        None if has_claims => Origin::Invalid("its trailers are not complete, or one of them is there twice"),
        None if has_footer() => Origin::Invalid("it names a directive and has no trailers"),
        None => Origin::None,
    }
}

fn is_ours(name: &str) -> bool {
    name.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
}

/// Whether a line is the paragraph of a directive.
fn is_footer(line: &str) -> bool {
    line.trim().strip_prefix("[directive: ").is_some_and(|rest| rest.ends_with(']'))
}

/// The mark that git has chosen: what the last lines of the message begin with, if they look like its comments.
fn chosen(lines: &[&str]) -> String {
    let scissors = lines.iter().find_map(|line| line.trim_end().strip_suffix(SCISSORS)?.strip_suffix(' '));
    let mut last = lines.iter().rev().filter(|line| !line.trim().is_empty()).take(2);
    let mut start = || last.next()?.split(|c: char| c.is_ascii_whitespace()).next();
    let both = start().zip(start()).filter(|(one, other)| one == other).map(|(mark, _)| mark);
    let mark = scissors.or(both).filter(|mark| CHOICE.contains(*mark) && mark.len() == 1);
    mark.unwrap_or("#").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trailers() -> Trailers {
        Trailers {
            run: "01k".to_owned(),
            step: "1 write".to_owned(),
            tool: Some("write@1.0.0".to_owned()),
            directive: None,
            journal: "sha256:00".to_owned(),
            undoes: Vec::new(),
        }
    }

    const OWN: &str = "Piton-Run: 01k\nPiton-Step: 1 write\nPiton-Tool: write@1.0.0\nPiton-Journal: sha256:00\n";

    fn added(text: &str, mark: &str) -> String {
        Draft::new(text, mark).with_trailers(Some("notes"), &trailers()).expect("a message")
    }

    #[test]
    fn trailers_are_the_last_paragraph_and_comments_stay_below_them() {
        let cases = [
            ("fix it\n", format!("fix it\n\n[directive: notes]\n\n{OWN}")),
            ("fix it\n\nBecause.\n", format!("fix it\n\nBecause.\n\n[directive: notes]\n\n{OWN}")),
            (
                "fix it\n\nSigned-off-by: A <a@b>\n",
                format!("fix it\n\n[directive: notes]\n\nSigned-off-by: A <a@b>\n{OWN}"),
            ),
            ("\n# Please enter\n#\n", format!("\n\n[directive: notes]\n\n{OWN}\n# Please enter\n#\n")),
            (
                "fix it\n\n# Please\n# ------------------------ >8 ------------------------\n# Do not\ndiff --git a b\n",
                format!(
                    "fix it\n\n[directive: notes]\n\n{OWN}\n# Please\n\
                     # ------------------------ >8 ------------------------\n# Do not\ndiff --git a b\n"
                ),
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(added(text, "#"), wanted);
            let named: Vec<String> = Draft::new(&wanted, "#").claims().into_iter().map(|(name, _)| name).collect();
            assert_eq!(named, ["Piton-Run", "Piton-Step", "Piton-Tool", "Piton-Journal"], "{text:?}");
        }
    }

    #[test]
    fn another_mark_of_comments_is_understood() {
        let text = "@1 is fixed\n\n; Please\n;\n";
        let wanted = format!("@1 is fixed\n\n[directive: notes]\n\n{OWN}\n; Please\n;\n");
        assert_eq!(added(text, ";"), wanted);
        assert_eq!(added(text, "auto"), wanted);
        assert_eq!(added(text, "#"), wanted);
        assert_eq!(Draft::new(&wanted, "#").claims().len(), 4);
        assert_eq!(added("fix\n\n! note\n", "#"), format!("fix\n\n! note\n\n[directive: notes]\n\n{OWN}"));
    }

    #[test]
    fn a_message_that_nobody_wrote_is_empty() {
        let untouched = added("\n# Please enter\n", "#");
        assert!(Draft::new(&untouched, "#").is_empty(), "{untouched}");
        assert!(!Draft::new(&format!("words{untouched}"), "#").is_empty());
    }

    #[test]
    fn claims_are_found_in_any_case_and_only_where_git_finds_trailers() {
        assert_eq!(Draft::new("a\n\npiton-run: x\n", "#").claims(), [("piton-run".to_owned(), "x".to_owned())]);
        assert_eq!(Draft::new("a\n\nPiton-Run: x\n\nmore\n", "#").claims(), []);
        assert_eq!(Draft::new("a\n\n# Piton-Run: x\n", "#").claims(), []);
        assert!(Draft::may_concern_us("x PITON-RUN") && !Draft::may_concern_us("pitons"));
    }
}
