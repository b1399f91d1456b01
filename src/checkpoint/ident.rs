//! `$Id: … $` as git stores it: `$Id$`.
//!
//! This follows `ident_to_git` of git's `convert.c`; libgit2 has another idea of it.

/// What libgit2 looks for.
pub(crate) const KEYWORD: [u8; 3] = *b"$Id";

/// Three printable bytes that a content does not hold, to stand in for the keyword.
pub(crate) fn stand_in(content: &[u8]) -> Option<[u8; 3]> {
    let letters = || b'a'..=b'z';
    let mut candidates = letters().flat_map(|one| letters().map(move |other| [b'#', one, other]));
    candidates.find(|candidate| !content.windows(3).any(|window| window == candidate))
}

/// The content with one text for another of the same length.
pub(crate) fn replaced(content: &[u8], from: [u8; 3], to: [u8; 3]) -> Vec<u8> {
    let mut bytes = content.to_vec();
    let mut at = 0;
    while let Some(window) = bytes.get_mut(at..at + 3) {
        if *window == from {
            window.copy_from_slice(&to);
            at += 3;
        } else {
            at += 1;
        }
    }
    bytes
}

/// The content with every expanded `$Id: … $` that ends on its own line as `$Id$`.
pub(crate) fn cleaned(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(dollar) = position(rest, b'$') {
        let (before, after) = rest.split_at(dollar + 1);
        bytes.extend_from_slice(before);
        rest = after;
        let Some(value) = after.strip_prefix(b"Id:").filter(|value| !value.is_empty()) else { continue };
        let Some(end) = position(value, b'$') else { break };
        let (expanded, following) = value.split_at(end + 1);
        if !expanded.contains(&b'\n') {
            bytes.extend_from_slice(b"Id$");
            rest = following;
        }
    }
    bytes.extend_from_slice(rest);
    bytes
}

fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(String::from_utf8(cleaned(raw.as_bytes())).unwrap(), stored, "{raw}");
        }
    }

    #[test]
    fn a_stand_in_is_not_in_the_content_and_is_taken_back() {
        let content = b"#aa #ab $Id: x $ #ac$Id$";
        let stand_in = stand_in(content).unwrap();
        assert_eq!(stand_in, *b"#ad");
        let hidden = replaced(content, KEYWORD, stand_in);
        assert_eq!(hidden, b"#aa #ab #ad: x $ #ac#ad$");
        assert_eq!(replaced(&hidden, stand_in, KEYWORD), content);
    }
}
