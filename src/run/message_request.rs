//! The text that an author of a commit message receives, and the check of the message that comes
//! back.

use super::settle::Wording;
use crate::checkpoint::delta::{Change, ChangeKind, stat};
use crate::checkpoint::message;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::secret::redacted;
use crate::context::Context;
use crate::item::wording::shown;
use crate::workspace::open_repository;

/// How many files the text lists.
const FILES: usize = 50;
/// How many lines and bytes of the diff the text contains.
const LINES: usize = 300;
const BYTES: usize = 12 * 1024;
/// The longest subject, in characters.
const SUBJECT: usize = 100;
/// The longest message, in bytes.
const LENGTH: usize = 4 * 1024;

/// A message from the context's author (a model), if there is one. Skipped if the caller gave a
/// message or the commit is an undo.
pub(super) fn written(
    ctx: &Context,
    git: &Repository,
    wording: Wording<'_>,
    changes: &[Change],
) -> Option<String> {
    if wording.given.is_some() || !wording.undoes.is_empty() {
        return None;
    }
    let about = wording.operation.unwrap_or(wording.name);
    ctx.message_writer.write(|| of(Some(git), about, changes))
}

/// Describes a planned commit: its purpose, its files and the beginning of its diff.
pub fn describe(ctx: &Context, about: &str, changes: &[Change]) -> String {
    open_repository(ctx).map_or_else(
        |_| of(None, about, changes),
        |repository| of(Some(&repository), about, changes),
    )
}

fn of(repository: Option<&Repository>, about: &str, changes: &[Change]) -> String {
    let sum = |count: fn(&Change) -> u64| changes.iter().map(count).sum::<u64>();
    let stat = stat(
        changes.len() as u64,
        sum(|change| change.insertions),
        sum(|change| change.deletions),
    );
    let word = |change: &Change| match change.kind() {
        ChangeKind::Added => "added",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
    };
    let files = changes
        .iter()
        .take(FILES)
        .map(|change| format!("{} {}\n", word(change), change.path));
    let files: String = files.collect();
    let more = changes.len().saturating_sub(FILES);
    let rest = if more > 0 {
        format!("and {more} more files\n")
    } else {
        String::new()
    };
    // If the diff is not available, describe the change by its file names.
    let diff = repository
        .and_then(|repository| repository.diff(changes, Some(LINES)).ok())
        .unwrap_or_default();
    let text = String::from_utf8_lossy(diff.bytes.get(..BYTES).unwrap_or(&diff.bytes)).into_owned();
    redacted(&format!(
        "What was done: {}\n\n{stat}\n{files}{rest}\n{text}",
        shown(about)
    ))
}

/// The message in `text`, if it is a conventional commit of acceptable length.
pub fn accepted(text: &str) -> Option<String> {
    let text = text.trim();
    // Models often wrap their answer in a code fence.
    let text = match text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
    {
        Some(fenced) => fenced
            .split_once('\n')
            .map_or("", |(_, inside)| inside)
            .trim(),
        None => text,
    };
    let text = redacted(text);
    let subject = text.lines().next().unwrap_or_default();
    let is_usable = text.len() <= LENGTH
        && subject.chars().count() <= SUBJECT
        && is_conventional(subject)
        && message::check(Some(&text), "message").is_ok();
    is_usable.then_some(text)
}

/// Whether a line is `type(scope)!: summary`.
fn is_conventional(subject: &str) -> bool {
    let Some((head, summary)) = subject.split_once(": ") else {
        return false;
    };
    let head = head.strip_suffix('!').unwrap_or(head);
    let kind = match head.split_once('(') {
        Some((kind, scope)) => scope
            .strip_suffix(')')
            .filter(|scope| !scope.trim().is_empty())
            .map(|_| kind),
        None => Some(head),
    };
    let is_word =
        |kind: &str| !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase());
    kind.is_some_and(is_word) && !summary.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conventional_messages_are_taken_with_or_without_a_fence() {
        for (text, message) in [
            ("docs: name Bob\n", "docs: name Bob"),
            (
                "feat(notes)!: name Bob\n\nHe was missing.",
                "feat(notes)!: name Bob\n\nHe was missing.",
            ),
            ("```\nfix(a/b): mend it\n```", "fix(a/b): mend it"),
            ("```text\nfix: mend it\n```\n", "fix: mend it"),
        ] {
            assert_eq!(accepted(text).as_deref(), Some(message));
        }
    }

    #[test]
    fn other_messages_are_refused() {
        let long = format!("docs: {}", "x".repeat(SUBJECT));
        let endless = format!("docs: x\n\n{}", "x ".repeat(LENGTH));
        for text in [
            "",
            "Here is your message:\n\ndocs: x",
            "docs:x",
            "docs: ",
            ": x",
            "Docs: x",
            "docs(): x",
            "docs(a: x",
            "```docs: x```",
            &long,
            &endless,
        ] {
            assert_eq!(accepted(text), None, "{text}");
        }
    }
}
