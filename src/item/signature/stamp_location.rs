//! Where the stamp of a file is: in a comment on its first line, or in `<file>.sig` beside it.
//!
//! [`stamp_location`] decides by the extension, and for unknown ones by a shebang, so that signing, checking,
//! copying and hashing agree. A file that cannot begin with a comment (JSON, PHP, unknown
//! languages) has its stamp beside it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const MARK: char = '\u{feff}';
const BLANKS: [char; 2] = [' ', '\t'];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampLocation {
    /// On the first line, after a shebang, as a comment with this start and end.
    Comment(&'static str, &'static str),
    /// In a file of its own.
    Beside,
}

impl StampLocation {
    /// The content of a comment line of this language; `None` if the line has anything else.
    ///
    /// Only blanks that no language treats as a line end are accepted.
    pub(super) fn body(self, line: &str) -> Option<&str> {
        let Self::Comment(opening, closing) = self else {
            return None;
        };
        let line = line
            .strip_suffix('\n')
            .map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
        // Older tools wrote `#kiwi-mcp:`; `--` without a blank is not a comment everywhere.
        let opening = if opening == "-- " {
            opening
        } else {
            opening.trim_end()
        };
        let inner = line
            .strip_prefix(opening)?
            .trim_end_matches(BLANKS)
            .strip_suffix(closing.trim_start())?;
        let body = inner.trim_matches(BLANKS);
        // A backslash at the end would make the next line part of the comment.
        let is_plain = |c: char| c.is_ascii_graphic() || BLANKS.contains(&c);
        (body.chars().all(is_plain) && !body.ends_with('\\')).then_some(body)
    }
}

/// File extensions of programs, by the comment syntax that may come first.
const LANGUAGES: [(&str, &[&str]); 5] = [
    (
        "# ",
        &[
            "py", "sh", "bash", "zsh", "fish", "rb", "pl", "pm", "r", "ps1", "jl", "ex", "exs",
            "tcl", "awk", "nu",
        ],
    ),
    (
        "// ",
        &[
            "js", "mjs", "cjs", "ts", "mts", "cts", "go", "rs", "swift", "kt", "kts", "scala",
            "java", "c", "cpp", "cs", "dart", "zig",
        ],
    ),
    ("-- ", &["lua", "sql", "hs", "elm"]),
    ("; ", &["lisp", "el", "clj", "scm"]),
    // Text before `<?php` is printed, `.m` belongs to two languages, and the others are not
    // supported yet.
    (
        "",
        &[
            "php", "m", "bat", "cmd", "erl", "ml", "fs", "fsx", "f90", "vb", "vbs", "groovy",
            "nim", "cr", "cljs", "rkt", "coffee", "h", "cc", "hpp", "d", "v", "pas", "ada", "adb",
            "raku", "gd", "sed", "jq",
        ],
    ),
];

/// Whether files with this extension are programs, whose comments may describe a tool.
pub fn is_program(ending: &str) -> bool {
    mark(ending).is_some()
}

/// The comment syntax for an extension; `None` if a comment cannot come first.
pub fn mark(ending: &str) -> Option<&'static str> {
    LANGUAGES
        .iter()
        .find(|(_, endings)| endings.contains(&ending))
        .map(|(mark, _)| *mark)
}

/// Decides where the stamp of a file is; `raw` is its content.
pub fn stamp_location(file: &Path, raw: &str) -> StampLocation {
    let ending = file
        .extension()
        .and_then(OsStr::to_str)
        .unwrap_or_default()
        .to_ascii_lowercase();
    match (mark(&ending), ending.as_str()) {
        (Some(mark), _) if !mark.is_empty() => StampLocation::Comment(mark, ""),
        (_, "md" | "markdown" | "html" | "xml") => StampLocation::Comment("<!-- ", " -->"),
        (_, "yaml" | "yml" | "toml") => StampLocation::Comment("# ", ""),
        (_, "css") => StampLocation::Comment("/* ", " */"),
        // JSON has no comments.
        (_, "json" | "php") => StampLocation::Beside,
        // Interpreters named in a shebang treat that line as a comment.
        _ if raw.trim_start_matches(MARK).starts_with("#!") => StampLocation::Comment("# ", ""),
        _ => StampLocation::Beside,
    }
}

/// The file with the detached stamp.
pub fn detached_file(file: &Path) -> PathBuf {
    with_ending(file, ".sig")
}

/// The file with the author's signature.
pub fn author_file(file: &Path) -> PathBuf {
    with_ending(file, ".sshsig")
}

/// Whether a file is the stamp or signature of another one, by its name.
pub fn is_companion(file: &Path) -> bool {
    file.extension()
        .is_some_and(|ending| ending == "sig" || ending == "sshsig")
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_a_place_for_its_stamp() {
        for (name, raw, expected) in [
            ("a.py", "", StampLocation::Comment("# ", "")),
            ("a.PY", "", StampLocation::Comment("# ", "")),
            (
                "a.ts",
                "#!/usr/bin/env deno\n",
                StampLocation::Comment("// ", ""),
            ),
            ("a.lua", "", StampLocation::Comment("-- ", "")),
            ("a.json", "", StampLocation::Beside),
            (
                "a.php",
                "#!/usr/bin/env php\n<?php\n",
                StampLocation::Beside,
            ),
            ("a.what", "x", StampLocation::Beside),
            ("a.what", "#!/bin/what\n", StampLocation::Comment("# ", "")),
            (
                "a",
                "\u{feff}#!/bin/what\n",
                StampLocation::Comment("# ", ""),
            ),
            ("a", "x", StampLocation::Beside),
        ] {
            assert_eq!(
                stamp_location(Path::new(name), raw),
                expected,
                "{name} {raw:?}"
            );
        }
    }

    #[test]
    fn a_stamp_is_a_whole_comment_and_nothing_else() {
        let python = StampLocation::Comment("# ", "");
        for line in ["# x:1", "#x:1", "#\tx:1 \t", "# x:1\n", "# x:1\r\n"] {
            assert_eq!(python.body(line), Some("x:1"), "{line:?}");
        }
        for line in [
            ":<<x:1",
            "// x:1",
            "\"\"\"x:1",
            " # x:1",
            "# x:1\\",
            "# x:1 \\\r\n",
            "# x:1\0",
            "# x:1\u{b}",
            "# x:1\u{c}",
            "# x:1\r",
            "# x:1\r\r\n",
            "# a\rx:1\n",
            "# x:1\u{85}",
            "# x:1\u{2028}",
            "#\u{2029}x:1",
            "#\u{a0}x:1",
            "x:1",
        ] {
            assert_eq!(python.body(line), None, "{line:?}");
        }
        let page = StampLocation::Comment("<!-- ", " -->");
        assert_eq!(
            (page.body("<!--x:1-->"), page.body("<!-- x:1 --> ")),
            (Some("x:1"), Some("x:1"))
        );
        assert_eq!(
            (
                page.body("<!-- x:1"),
                page.body("<!-- x:1 --> y"),
                page.body("# x:1")
            ),
            (None, None, None)
        );
        assert_eq!(StampLocation::Comment("/* ", " */").body("/* x:1"), None);
        assert_eq!(StampLocation::Comment("-- ", "").body("--x:1"), None);
        assert_eq!(StampLocation::Beside.body("# x:1"), None);
    }

    #[test]
    fn companions_are_known_by_their_names() {
        assert_eq!(
            detached_file(Path::new("a/t.json")),
            Path::new("a/t.json.sig")
        );
        assert_eq!(author_file(Path::new("a/t.md")), Path::new("a/t.md.sshsig"));
        assert!(is_companion(Path::new("a/t.json.sig")) && is_companion(Path::new("t.md.sshsig")));
        assert!(!is_companion(Path::new("a/sig")) && !is_companion(Path::new("t.md")));
    }
}
