//! Names that must never be written: ways out of the work tree, and every spelling that some file
//! system treats as `.git`.

use super::super::path::RepoPath;

/// Whether git would accept this path in a work tree: no `..`, no empty component, no variant of
/// `.git`.
pub(crate) fn is_safe(path: &RepoPath) -> bool {
    path.as_bytes()
        .split(|byte| *byte == b'/')
        .all(is_safe_name)
}

/// As [`is_safe`], for one component.
pub(crate) fn is_safe_name(name: &[u8]) -> bool {
    if name.is_empty() || name == b"." || name == b".." || name.contains(&0) || name.contains(&b'/')
    {
        return false;
    }
    // As git does with `core.protectNTFS`: a backslash separates names on other systems.
    !name.split(|byte| *byte == b'\\').any(is_git_on_windows) && !is_git_on_mac(name)
}

/// `.git` and its short name `git~1`, with what Windows ignores: trailing dots, spaces, streams.
fn is_git_on_windows(name: &[u8]) -> bool {
    let rest = [&b".git"[..], b"git~1"].iter().find_map(|git| {
        let (start, rest) = name.split_at_checked(git.len())?;
        start.eq_ignore_ascii_case(git).then_some(rest)
    });
    let Some(rest) = rest else { return false };
    let tail = rest.iter().find(|byte| !matches!(byte, b'.' | b' '));
    matches!(tail, None | Some(b':'))
}

/// `.git` with characters between that HFS+ ignores.
fn is_git_on_mac(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else {
        return false;
    };
    let seen = name.chars().filter(
        |c| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'),
    );
    seen.map(|c| c.to_ascii_lowercase()).eq(".git".chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_out_and_disguises_of_git_are_refused() {
        for path in [
            "",
            "/etc/passwd",
            "a//b",
            "a/",
            "..",
            "a/../b",
            "./a",
            ".git",
            ".git/config",
            "sub/.git/hooks/pre-commit",
            ".GIT",
            ".Git/x",
            "git~1",
            "GIT~1/x",
            ".git ",
            ".git...",
            ".git. .",
            ".git::$INDEX_ALLOCATION",
            "a\\.git",
            "a\\.git\\config",
            ".g\u{200c}it",
            "\u{feff}.GiT/config",
            "a\0b",
        ] {
            assert!(!is_safe(&RepoPath::from(path)), "{path:?}");
        }
    }

    #[test]
    fn names_that_only_look_like_git_are_fine() {
        for path in [
            ".gitignore",
            ".gitattributes",
            "git",
            "git~2",
            "a/.github/x",
            ".git-x",
            "...",
            "a\\b",
            "g\u{200c}it",
        ] {
            assert!(is_safe(&RepoPath::from(path)), "{path:?}");
        }
        assert!(is_safe(&RepoPath::from_bytes(&b"bad\xff"[..])));
    }
}
