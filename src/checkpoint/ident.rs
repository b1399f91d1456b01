//! Converts `$Id: … $` to the form that git stores, `$Id$`, and back to the form on disk.
//!
//! This follows `ident_to_git` and `ident_to_worktree` of git's `convert.c`; libgit2 behaves differently.

use super::object::ObjectId;

/// The content with every expanded `$Id: … $` within a line replaced by `$Id$`.
pub(crate) fn cleaned(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(dollar) = position(rest, b'$') {
        let (before, after) = rest.split_at(dollar + 1);
        bytes.extend_from_slice(before);
        rest = after;
        let Some(value) = after.strip_prefix(b"Id:").filter(|value| !value.is_empty()) else {
            continue;
        };
        let Some(end) = position(value, b'$') else {
            break;
        };
        let (expanded, following) = value.split_at(end + 1);
        if !expanded.contains(&b'\n') {
            bytes.extend_from_slice(b"Id$");
            rest = following;
        }
    }
    bytes.extend_from_slice(rest);
    bytes
}

/// The content with every `$Id$` replaced by `$Id: ID $`, where the id is that of the stored content. Keywords with
/// spaces inside, which other programs write, stay.
pub(crate) fn expanded(stored: &[u8], id: ObjectId) -> Vec<u8> {
    let keyword = format!("Id: {id} $");
    let mut bytes = Vec::with_capacity(stored.len());
    let mut rest = stored;
    while let Some(dollar) = position(rest, b'$') {
        let (before, after) = rest.split_at(dollar + 1);
        bytes.extend_from_slice(before);
        rest = after;
        if let Some(following) = after.strip_prefix(b"Id$") {
            bytes.extend_from_slice(keyword.as_bytes());
            rest = following;
        } else if let Some(value) = after.strip_prefix(b"Id:") {
            let Some(end) = position(value, b'$') else {
                break;
            };
            let (old, following) = value.split_at(end + 1);
            if !old.contains(&b'\n') && !is_of_another_program(old) {
                bytes.extend_from_slice(keyword.as_bytes());
                rest = following;
            }
        }
    }
    bytes.extend_from_slice(rest);
    bytes
}

/// Whether the value of a keyword, with its last `$`, has a space between the first and the last two characters.
fn is_of_another_program(value: &[u8]) -> bool {
    let inner = value.get(1..value.len().saturating_sub(2));
    inner.is_some_and(|inner| inner.contains(&b' '))
}

fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_expanded_as_git_does() {
        let id = ObjectId::zero(super::super::object::ObjectFormat::Sha1);
        for (stored, raw) in [
            ("$Id$", "$Id: 0 $"),
            ("$Id: old $ x", "$Id: 0 $ x"),
            ("$Id:$", "$Id: 0 $"),
            ("a$Id$b$Id$", "a$Id: 0 $b$Id: 0 $"),
            ("$Id: f.c,v 1.2 me $", "$Id: f.c,v 1.2 me $"),
            ("$Id: never ends", "$Id: never ends"),
            ("$Id: line\nbreak $Id$", "$Id: line\nbreak $Id: 0 $"),
            ("$Identity$ $I", "$Identity$ $I"),
        ] {
            let raw = raw.replace('0', &id.to_string());
            let made = String::from_utf8(expanded(stored.as_bytes(), id)).unwrap();
            assert_eq!(made, raw, "{stored}");
        }
    }

    #[test]
    fn expanded_keywords_are_cleaned_and_nothing_else() {
        for (raw, stored) in [
            ("$Id$", "$Id$"),
            ("$Id: abc $", "$Id$"),
            ("a $Id: 1 $ b $Id: 2 $ c", "a $Id$ b $Id$ c"),
            ("$Id: never ends", "$Id: never ends"),
            ("$Id: line\nbreak $ $Id: x $", "$Id: line\nbreak $ $Id$"),
            ("$Identity $x = $Id;", "$Identity $x = $Id;"),
            ("$$Id: x $$", "$$Id$$"),
            ("$Id:$", "$Id$"),
            ("$Id:", "$Id:"),
        ] {
            assert_eq!(
                String::from_utf8(cleaned(raw.as_bytes())).unwrap(),
                stored,
                "{raw}"
            );
        }
    }
}
