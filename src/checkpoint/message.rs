//! The commit message of a checkpoint, readable in `git log` and parsable by git.
//!
//! A subject, a given body, a stat line, `[directive: NAME]` in its own paragraph, then piton's
//! trailers as the last paragraph: git reads trailers only there, so text above it cannot add one.
//! Text of tools and agents is cleaned ([`given`]) so that it cannot look like piton's own.
//! [`MessageParts`] is the type to read first; [`trailer`] parses messages as git does.

mod draft;
mod given;
mod summary;
mod trailer;

#[cfg(test)]
mod tests;

use super::delta::Change;
use super::error::CheckpointError;
use super::object::ObjectId;

pub(crate) use draft::{CommitOrigin, MessageDraft, origin};
pub(crate) use trailer::parse_trailers;

/// The longest generated subject, in characters.
const SUBJECT: usize = 72;
/// The longest name or trailer, in characters.
const NAME: usize = 200;

/// The parts of a message.
#[derive(Clone, Debug)]
pub(crate) struct MessageParts<'a> {
    /// The message that the user or an agent wrote; its first line is the subject.
    pub(crate) given: Option<&'a str>,
    /// The operation, or the name of the step; for a generated subject.
    pub(crate) operation: Option<&'a str>,
    pub(crate) changes: &'a [Change],
    /// The directive that asked for the checkpoint.
    pub(crate) directive: Option<&'a str>,
    pub(crate) trailers: Trailers,
}

/// The last paragraph of a message: the origin of the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trailers {
    pub(crate) run: String,
    pub(crate) step: String,
    /// The tool, as `id@version`.
    pub(crate) tool: Option<String>,
    /// The directive, as `id@version`.
    pub(crate) directive: Option<String>,
    /// The head of the journal, as `sha256:…`.
    pub(crate) journal: String,
    /// The commits that this one undoes.
    pub(crate) undoes: Vec<ObjectId>,
}

/// Builds the message. It is deterministic.
pub(crate) fn compose(parts: &MessageParts<'_>) -> Result<String, CheckpointError> {
    let mut paragraphs = Vec::new();
    if let Some(text) = parts.given {
        let given = given::clean(text)?;
        paragraphs.push(given.subject);
        paragraphs.extend(given.body);
    } else {
        let operation = parts
            .operation
            .map(|text| checked("the operation", text))
            .transpose()?;
        paragraphs.push(summary::subject(operation, parts.changes));
    }
    if !parts.changes.is_empty() {
        paragraphs.push(stat_line(parts.changes));
    }
    if let Some(name) = parts.directive {
        let name = checked("the directive's name", name)?;
        if name.contains(['[', ']']) {
            return Err(invalid("the directive's name", name));
        }
        paragraphs.push(format!("[directive: {name}]"));
    }
    paragraphs.push(parts.trailers.block()?);
    Ok(paragraphs.join("\n\n") + "\n")
}

/// Refuses a message or a step name that [`compose`] would refuse, before there is anything to
/// commit.
pub(crate) fn check(given: Option<&str>, name: &str) -> Result<(), CheckpointError> {
    // Steps that undo this one contain its name.
    checked("the step's name", &format!("{} restore {name}", u32::MAX))
        .map_err(|_| invalid("the step's name", name))?;
    checked("the step's name", name)?;
    given.map_or(Ok(()), |text| given::clean(text).map(|_| ()))
}

impl Trailers {
    /// Piton's trailers in a message; `None` if a required one is missing or one of them is
    /// repeated.
    pub(crate) fn find(message: &str) -> Option<Self> {
        let found = parse_trailers(message);
        let one = |key: &str| {
            let mut values = found
                .iter()
                .filter(|(name, _)| name == key)
                .map(|(_, value)| value.clone());
            let first = values.next();
            values.next().is_none().then_some(first)
        };
        Some(Self {
            run: one("Piton-Run")??,
            step: one("Piton-Step")??,
            tool: one("Piton-Tool")?,
            directive: one("Piton-Directive")?,
            journal: one("Piton-Journal")??,
            undoes: {
                let values = found.iter().filter(|(name, _)| name == "Piton-Undoes");
                values
                    .map(|(_, value)| value.parse().ok())
                    .collect::<Option<Vec<_>>>()?
            },
        })
    }

    /// Whether they have the form that piton writes.
    pub(crate) fn is_well_formed(&self) -> bool {
        let number = self
            .step
            .split_once(' ')
            .map_or(self.step.as_str(), |(number, _)| number);
        let digits = self.journal.strip_prefix("sha256:").unwrap_or_default();
        number.parse::<u32>().is_ok()
            && digits.len() == 64
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    fn block(&self) -> Result<String, CheckpointError> {
        let undoes: Vec<String> = self.undoes.iter().map(ToString::to_string).collect();
        let mut lines = vec![
            ("Piton-Run", "the run", Some(&self.run)),
            ("Piton-Step", "the step's name", Some(&self.step)),
            ("Piton-Tool", "the tool", self.tool.as_ref()),
            ("Piton-Directive", "the directive", self.directive.as_ref()),
        ];
        lines.extend(
            undoes
                .iter()
                .map(|id| ("Piton-Undoes", "the commit", Some(id))),
        );
        lines.push(("Piton-Journal", "the journal's hash", Some(&self.journal)));
        let lines: Result<Vec<String>, CheckpointError> = lines
            .into_iter()
            .filter_map(|(key, what, value)| Some((key, what, value?)))
            .map(|(key, what, value)| Ok(format!("{key}: {}", checked(what, value)?)))
            .collect();
        Ok(lines?.join("\n"))
    }
}

/// Checks a name for a message: one line, no hidden characters.
fn checked<'a>(what: &'static str, text: &'a str) -> Result<&'a str, CheckpointError> {
    let fits = !text.is_empty()
        && text.trim() == text
        && text.chars().count() <= NAME
        && !text.chars().any(is_deceptive);
    if fits {
        Ok(text)
    } else {
        Err(invalid(what, text))
    }
}

/// Characters that move, hide or break text: controls, line separators and bidirectional marks.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn invalid(what: &'static str, text: &str) -> CheckpointError {
    const SHOWN: usize = 40;
    let mut shown: String = escaped(text).chars().take(SHOWN).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    CheckpointError::InvalidMessage { what, text: shown }
}

/// The text with invisible characters escaped.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The last line of `git diff --stat`.
fn stat_line(changes: &[Change]) -> String {
    let count = |number: u64, one: &str, many: &str| {
        format!("{number} {}", if number == 1 { one } else { many })
    };
    let insertions: u64 = changes.iter().map(|change| change.insertions).sum();
    let deletions: u64 = changes.iter().map(|change| change.deletions).sum();
    let mut line = count(changes.len() as u64, "file changed", "files changed");
    // Git shows a zero only when both are zero.
    if insertions > 0 || deletions == 0 {
        line = format!(
            "{line}, {}",
            count(insertions, "insertion(+)", "insertions(+)")
        );
    }
    if deletions > 0 || insertions == 0 {
        line = format!(
            "{line}, {}",
            count(deletions, "deletion(-)", "deletions(-)")
        );
    }
    line
}
