//! Cleans a message by a tool, an agent or a person.
//!
//! Nothing is dropped: characters that hide or move text are escaped, and lines that git or a
//! reader could mistake for piton's are quoted with `> `. Only such a subject is refused.

use super::{escaped, invalid};
use crate::checkpoint::error::CheckpointError;

/// The longest message, in bytes.
const LENGTH: usize = 64 * 1024;
/// Git's scissors line for `commit.verbose`, with any comment character.
const SCISSORS: &str = "------------------------ >8";

pub(super) struct GivenMessage {
    pub(super) subject: String,
    /// The rest, without surrounding blank lines.
    pub(super) body: Option<String>,
}

pub(super) fn clean(text: &str) -> Result<GivenMessage, CheckpointError> {
    if text.len() > LENGTH {
        return Err(invalid("the message", text));
    }
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = text.trim().lines();
    let subject = visible(lines.next().unwrap_or_default()).trim().to_owned();
    // Git drops a line that starts with `#` when the message is edited again.
    if subject.is_empty() || subject.starts_with('#') || is_reserved(&subject) {
        return Err(invalid("the subject", &subject));
    }
    let mut body: Vec<String> = Vec::new();
    for line in lines {
        let line = visible(line);
        let line = line.trim_end();
        // At most one blank line between paragraphs, and none before the first.
        if line.is_empty() && body.last().is_none_or(String::is_empty) {
            continue;
        }
        body.push(if is_reserved(line) {
            format!("> {}", line.trim_start())
        } else {
            line.to_owned()
        });
    }
    let body = body.join("\n").trim_end().to_owned();
    Ok(GivenMessage {
        subject,
        body: Some(body).filter(|body| !body.is_empty()),
    })
}

fn visible(line: &str) -> String {
    escaped(&line.replace('\t', "    ")).replace(SCISSORS, "------------------------ > 8")
}

/// Whether a line could be mistaken for piton's, for a sign-off, or for the end of the message.
fn is_reserved(line: &str) -> bool {
    let line = line.trim_start().to_lowercase();
    let footer = line.strip_prefix('[').is_some_and(|rest| {
        rest.trim_start()
            .strip_prefix("directive")
            .is_some_and(|rest| rest.trim_start().starts_with(':'))
    });
    let token = line.split_once(':').map(|(token, _)| token.trim_end());
    let signature = token.is_some_and(|token| {
        let is_token = token.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        is_token && (token.starts_with("piton-") || token.ends_with("-by"))
    });
    footer || signature || line.starts_with("---") || line.starts_with("(cherry picked from commit")
}
