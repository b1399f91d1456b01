//! A commit message in the editor: it still has git's comments, and perhaps a patch below a
//! scissors line.
//!
//! [`MessageDraft::text`] is the final message. [`MessageDraft::with_trailers`] adds piton's last paragraphs
//! where git finds them, above the comments.

use super::trailer::{block_start, parse_trailers};
use super::{Trailers, checked, invalid};
use crate::checkpoint::error::CheckpointError;

/// Git's scissors line; the rest below it is dropped.
const SCISSORS: &str = "------------------------ >8 ------------------------";
/// The comment characters that git chooses from with `auto`.
const CHOICE: &str = "#;@!$%^&|:";
/// The prefix of piton's trailers.
const OURS: &str = "piton-";

/// A message as hooks receive it.
#[derive(Clone, Debug)]
pub(crate) struct MessageDraft<'t> {
    lines: Vec<&'t str>,
    mark: String,
    /// How many lines are above the scissors line.
    counts: usize,
}

impl<'t> MessageDraft<'t> {
    /// A message in which comments begin with a mark. If no line does, git has chosen another mark.
    pub(crate) fn new(text: &'t str, mark: &str) -> Self {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        // Another mark may have been set for this commit only.
        let is_used = lines.iter().any(|line| line.starts_with(mark));
        let mark = if is_used {
            mark.to_owned()
        } else {
            chosen(&lines)
        };
        let cut = format!("{mark} {SCISSORS}");
        let counts = lines
            .iter()
            .position(|line| line.trim_end() == cut)
            .unwrap_or(lines.len());
        Self {
            lines,
            mark,
            counts,
        }
    }

    /// Whether a text may contain piton's trailers at all.
    pub(crate) fn may_concern_us(text: &str) -> bool {
        text.as_bytes()
            .windows(OURS.len())
            .any(|word| word.eq_ignore_ascii_case(OURS.as_bytes()))
    }

    /// The message without comments.
    pub(crate) fn text(&self) -> String {
        self.before_cut()
            .iter()
            .filter(|line| !self.is_comment(line))
            .copied()
            .collect()
    }

    /// The trailers that claim to be piton's, in any case.
    pub(crate) fn claims(&self) -> Vec<(String, String)> {
        parse_trailers(&self.text())
            .into_iter()
            .filter(|(name, _)| is_ours(name))
            .collect()
    }

    /// Whether there is no text besides piton's last paragraphs.
    pub(crate) fn is_empty(&self) -> bool {
        let text = self.text();
        let claims = self.claims().len();
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !is_footer(line));
        lines.count() <= claims
    }

    /// The message with the paragraph of a directive and piton's trailers, all above the comments
    /// at its end.
    pub(crate) fn with_trailers(
        &self,
        directive: Option<&str>,
        trailers: &Trailers,
    ) -> Result<String, CheckpointError> {
        let lines = self.before_cut();
        let end = lines
            .iter()
            .rposition(|line| !line.trim().is_empty() && !self.is_comment(line));
        let end = end.map_or(0, |last| last + 1);
        let written = lines.get(..end).unwrap_or_default();
        let below: String = self.lines.get(end..).unwrap_or_default().concat();
        // Existing trailers and piton's must be one paragraph, or git reads only the last.
        let start = block_start(written);
        let mut text = written
            .get(..start)
            .unwrap_or_default()
            .concat()
            .trim_end()
            .to_owned();
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
        Ok(if below.is_empty() {
            text
        } else {
            format!("{text}\n{below}")
        })
    }

    fn before_cut(&self) -> &[&'t str] {
        self.lines.get(..self.counts).unwrap_or_default()
    }

    fn is_comment(&self, line: &str) -> bool {
        line.starts_with(&self.mark)
    }
}

/// The origin that a commit claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommitOrigin {
    None,
    /// Something that piton would not have written, and why.
    Invalid(&'static str),
    /// A step of a run.
    Step(Trailers),
}

/// Reads the claimed origin from the message of a commit.
pub(crate) fn origin(message: &str) -> CommitOrigin {
    let has_claims = MessageDraft::may_concern_us(message)
        && parse_trailers(message)
            .iter()
            .any(|(name, _)| is_ours(name));
    let has_footer = || {
        let paragraphs = message
            .split("\n\n")
            .map(|paragraph| paragraph.trim_matches('\n'));
        message.contains("[directive: ") && { paragraphs }
            .any(|text| !text.contains('\n') && is_footer(text))
    };
    match Trailers::find(message).filter(|_| has_claims) {
        Some(trailers) if trailers.is_well_formed() => CommitOrigin::Step(trailers),
        Some(_) => CommitOrigin::Invalid("its trailers are not as piton writes them"),
        None if has_claims => {
            CommitOrigin::Invalid("its trailers are not complete, or one of them is there twice")
        }
        None if has_footer() => CommitOrigin::Invalid("it names a directive and has no trailers"),
        None => CommitOrigin::None,
    }
}

fn is_ours(name: &str) -> bool {
    name.get(..OURS.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(OURS))
}

fn is_footer(line: &str) -> bool {
    line.trim()
        .strip_prefix("[directive: ")
        .is_some_and(|rest| rest.ends_with(']'))
}

/// The comment mark that git has chosen: the first character of the last lines, if they look like
/// git's comments.
fn chosen(lines: &[&str]) -> String {
    let scissors = lines
        .iter()
        .find_map(|line| line.trim_end().strip_suffix(SCISSORS)?.strip_suffix(' '));
    let mut last = lines
        .iter()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(2);
    let mut start = || last.next()?.split(|c: char| c.is_ascii_whitespace()).next();
    let both = start()
        .zip(start())
        .filter(|(one, other)| one == other)
        .map(|(mark, _)| mark);
    let mark = scissors
        .or(both)
        .filter(|mark| CHOICE.contains(*mark) && mark.len() == 1);
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

    const OWN: &str =
        "Piton-Run: 01k\nPiton-Step: 1 write\nPiton-Tool: write@1.0.0\nPiton-Journal: sha256:00\n";

    fn added(text: &str, mark: &str) -> String {
        MessageDraft::new(text, mark)
            .with_trailers(Some("notes"), &trailers())
            .expect("a message")
    }

    #[test]
    fn trailers_are_the_last_paragraph_and_comments_stay_below_them() {
        let cases = [
            ("fix it\n", format!("fix it\n\n[directive: notes]\n\n{OWN}")),
            (
                "fix it\n\nBecause.\n",
                format!("fix it\n\nBecause.\n\n[directive: notes]\n\n{OWN}"),
            ),
            (
                "fix it\n\nSigned-off-by: A <a@b>\n",
                format!("fix it\n\n[directive: notes]\n\nSigned-off-by: A <a@b>\n{OWN}"),
            ),
            (
                "\n# Please enter\n#\n",
                format!("\n\n[directive: notes]\n\n{OWN}\n# Please enter\n#\n"),
            ),
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
            let named: Vec<String> = MessageDraft::new(&wanted, "#")
                .claims()
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            assert_eq!(
                named,
                ["Piton-Run", "Piton-Step", "Piton-Tool", "Piton-Journal"],
                "{text:?}"
            );
        }
    }

    #[test]
    fn another_mark_of_comments_is_understood() {
        let text = "@1 is fixed\n\n; Please\n;\n";
        let wanted = format!("@1 is fixed\n\n[directive: notes]\n\n{OWN}\n; Please\n;\n");
        assert_eq!(added(text, ";"), wanted);
        assert_eq!(added(text, "auto"), wanted);
        assert_eq!(added(text, "#"), wanted);
        assert_eq!(MessageDraft::new(&wanted, "#").claims().len(), 4);
        assert_eq!(
            added("fix\n\n! note\n", "#"),
            format!("fix\n\n! note\n\n[directive: notes]\n\n{OWN}")
        );
    }

    #[test]
    fn a_message_of_trailers_and_comments_is_empty() {
        let untouched = added("\n# Please enter\n", "#");
        assert!(MessageDraft::new(&untouched, "#").is_empty(), "{untouched}");
        assert!(!MessageDraft::new(&format!("words{untouched}"), "#").is_empty());
    }

    #[test]
    fn claims_are_found_in_any_case_and_only_where_git_finds_trailers() {
        assert_eq!(
            MessageDraft::new("a\n\npiton-run: x\n", "#").claims(),
            [("piton-run".to_owned(), "x".to_owned())]
        );
        assert_eq!(
            MessageDraft::new("a\n\nPiton-Run: x\n\nmore\n", "#").claims(),
            []
        );
        assert_eq!(MessageDraft::new("a\n\n# Piton-Run: x\n", "#").claims(), []);
        assert!(
            MessageDraft::may_concern_us("x PITON-RUN") && !MessageDraft::may_concern_us("pitons")
        );
    }
}
