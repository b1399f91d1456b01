//! Messages as the real git parses them.

use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;
use crate::checkpoint::object::{Entry, FileMode};
use crate::checkpoint::path::RepoPath;

#[expect(clippy::disallowed_methods, reason = "tests ask the real git")]
fn git(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("git")
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", "/")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn git_trailers(message: &str) -> String {
    git(&["interpret-trailers", "--parse"], message)
}

fn trailers() -> Trailers {
    Trailers {
        run: "01JRUN".into(),
        step: "build".into(),
        tool: Some("bundler@1.2.0".into()),
        directive: Some("deploy@2.0.0".into()),
        journal: "sha256:0123".into(),
        undoes: Vec::new(),
    }
}

const OURS: &str = "Piton-Run: 01JRUN\nPiton-Step: build\nPiton-Tool: bundler@1.2.0\n\
                    Piton-Directive: deploy@2.0.0\nPiton-Journal: sha256:0123\n";

fn id(byte: u8) -> ObjectId {
    ObjectId::from_bytes(&[byte; 20]).unwrap()
}

fn entry(byte: u8) -> Entry {
    Entry {
        mode: FileMode::Regular,
        id: id(byte),
    }
}

fn change(path: &str, before: Option<Entry>, after: Option<Entry>) -> Change {
    Change {
        path: RepoPath::from(path),
        before,
        after,
        insertions: 2,
        deletions: 1,
    }
}

fn added(path: &str) -> Change {
    Change {
        deletions: 0,
        ..change(path, None, Some(entry(9)))
    }
}

fn updated(path: &str) -> Change {
    change(path, Some(entry(1)), Some(entry(2)))
}

fn deleted(path: &str) -> Change {
    change(path, Some(entry(3)), None)
}

fn parts<'a>(given: Option<&'a str>, changes: &'a [Change]) -> MessageParts<'a> {
    MessageParts {
        given,
        operation: None,
        changes,
        directive: Some("deploy"),
        trailers: trailers(),
    }
}

fn subject(operation: Option<&str>, changes: &[Change]) -> String {
    let message = compose(&MessageParts {
        operation,
        ..parts(None, changes)
    })
    .unwrap();
    message.lines().next().unwrap().to_owned()
}

#[test]
fn a_message_has_all_its_paragraphs_in_order() {
    let changes = [updated("src/a.rs"), added("src/b.rs")];
    let message = compose(&parts(
        Some("fix: mend it\n\nBecause it was broken."),
        &changes,
    ))
    .unwrap();
    assert_eq!(
        message,
        "fix: mend it\n\nBecause it was broken.\n\n2 files changed, 4 insertions(+), 1 deletion(-)\n\n\
         [directive: deploy]\n\nPiton-Run: 01JRUN\nPiton-Step: build\nPiton-Tool: bundler@1.2.0\n\
         Piton-Directive: deploy@2.0.0\nPiton-Journal: sha256:0123\n"
    );
    assert_eq!(git_trailers(&message), OURS);
    assert_eq!(Trailers::find(&message), Some(trailers()));
}

#[test]
fn without_a_caller_there_is_no_footer() {
    let mut bare = parts(None, &[]);
    bare.directive = None;
    bare.trailers = Trailers {
        tool: None,
        directive: None,
        undoes: vec![id(0xab)],
        ..trailers()
    };
    let message = compose(&bare).unwrap();
    assert_eq!(
        message,
        format!(
            "chore: record the state\n\nPiton-Run: 01JRUN\nPiton-Step: build\nPiton-Undoes: {}\nPiton-Journal: sha256:0123\n",
            "ab".repeat(20)
        )
    );
    assert_eq!(Trailers::find(&message), Some(bare.trailers));
}

#[test]
fn a_subject_says_what_happened_and_where() {
    let cases: [(&[Change], &str); 17] = [
        (&[updated("README.md")], "docs: update `README.md`"),
        (
            &[updated("docs/guide/a.md"), added("docs/guide/b/c.md")],
            "docs(docs/guide): update `a.md`, add `b/c.md`",
        ),
        (
            &[added("tests/it/a.rs"), updated("tests/b.rs")],
            "test(tests): add `it/a.rs`, update `b.rs`",
        ),
        (&[added("src/lib.rs")], "feat(src): add `lib.rs`"),
        (&[updated("src/lib.rs")], "chore(src): update `lib.rs`"),
        (&[deleted("src/lib.rs")], "chore(src): delete `lib.rs`"),
        (
            &[added("src/tests.rs"), updated("src/a.rs")],
            "chore(src): add `tests.rs`, update `a.rs`",
        ),
        (
            &[updated("web/app.test.ts")],
            "test(web): update `app.test.ts`",
        ),
        (
            &[added("a"), added("b"), added("c")],
            "chore: add `a`, `b` and `c`",
        ),
        (
            &[added("x/a"), added("x/b"), added("x/c"), added("x/d")],
            "chore(x): add 4 files",
        ),
        (
            &[added("x/a"), updated("x/b"), deleted("x/c"), added("x/d")],
            "chore(x): change 4 files (2 added, 1 updated, 1 deleted)",
        ),
        (
            &[
                updated("src/a"),
                updated("src/b"),
                updated("lib/a"),
                updated("lib/b"),
            ],
            "chore: update 4 files in `lib` and `src`",
        ),
        (
            &[
                updated("a"),
                updated("src/b"),
                updated("lib/a"),
                updated("lib/b"),
            ],
            "chore: update 4 files",
        ),
        (
            &[
                change("old.rs", Some(entry(7)), None),
                change("new.rs", None, Some(entry(7))),
            ],
            "feat: rename `old.rs` to `new.rs`",
        ),
        (
            &[change(
                "x.sh",
                Some(entry(7)),
                Some(Entry {
                    mode: FileMode::Executable,
                    id: id(7),
                }),
            )],
            "chore: make `x.sh` executable",
        ),
        (
            &[updated(".github/workflows/ci.yml")],
            "chore(github/workflows): update `ci.yml`",
        ),
        (&[updated("a) evil: (/x")], "chore(a--evil---): update `x`"),
    ];
    for (changes, expected) in cases {
        assert_eq!(subject(None, changes), expected);
    }
}

#[test]
fn the_operation_or_the_step_goes_into_the_subject() {
    let changes = [
        updated("src/a.rs"),
        updated("src/b.rs"),
        updated("src/c.rs"),
        updated("src/d.rs"),
    ];
    assert_eq!(
        subject(Some("format the sources"), &changes),
        "chore(src): format the sources"
    );
    assert_eq!(
        subject(Some("format"), &changes),
        "chore(src): update 4 files by `format`"
    );
    assert_eq!(
        subject(Some("fix(api)!: close the file"), &changes),
        "fix(api)!: close the file"
    );
    assert_eq!(
        subject(Some("note: a thing"), &changes),
        "chore(src): note: a thing"
    );
}

#[test]
fn a_generated_subject_is_one_short_line_for_any_names() {
    let long = "x".repeat(300);
    let odd = RepoPath::from_bytes(&b"a\nb\xff\xe2\x80\xae"[..]);
    let odd = Change {
        path: odd,
        ..updated("x")
    };
    for changes in [
        vec![updated(&long)],
        vec![updated(&format!("{long}/{long}"))],
        vec![odd.clone()],
        vec![odd, updated("y")],
    ] {
        for operation in [None, Some(&long[..200]), Some("several words")] {
            let message = compose(&MessageParts {
                operation,
                ..parts(None, &changes)
            })
            .unwrap();
            let subject = message.lines().next().unwrap();
            assert!(subject.chars().count() <= SUBJECT, "{subject}");
            assert!(!subject.chars().any(is_deceptive), "{subject}");
            assert_eq!(git_trailers(&message), OURS);
        }
    }
}

#[test]
fn the_stat_line_is_that_of_git() {
    let stat = |insertions, deletions| {
        stat_line(&[Change {
            insertions,
            deletions,
            ..updated("a")
        }])
    };
    assert_eq!(stat(1, 2), "1 file changed, 1 insertion(+), 2 deletions(-)");
    assert_eq!(stat(3, 0), "1 file changed, 3 insertions(+)");
    assert_eq!(stat(0, 1), "1 file changed, 1 deletion(-)");
    assert_eq!(
        stat(0, 0),
        "1 file changed, 0 insertions(+), 0 deletions(-)"
    );
}

#[test]
fn a_name_that_could_forge_is_refused() {
    let hostile = [
        "",
        " a",
        "a ",
        "a\nSigned-off-by: x",
        "a\rb",
        "a\0",
        "a\u{1b}[31m",
        "a\u{202e}b",
        "a\u{2028}b",
        "\u{feff}",
    ];
    for text in hostile.into_iter().chain(["a".repeat(201).as_str()]) {
        let changed: [fn(&mut MessageParts<'_>, &str); 5] = [
            |parts, text| parts.trailers.run = text.into(),
            |parts, text| parts.trailers.step = text.into(),
            |parts, text| parts.trailers.tool = Some(text.into()),
            |parts, text| parts.trailers.directive = Some(text.into()),
            |parts, text| parts.trailers.journal = text.into(),
        ];
        for change in changed {
            let mut parts = parts(None, &[]);
            change(&mut parts, text);
            assert!(
                matches!(compose(&parts), Err(CheckpointError::InvalidMessage { .. })),
                "{text:?}"
            );
        }
        let directive = MessageParts {
            directive: Some(text),
            ..parts(None, &[])
        };
        assert!(
            matches!(
                compose(&directive),
                Err(CheckpointError::InvalidMessage { .. })
            ),
            "{text:?}"
        );
        let operation = MessageParts {
            operation: Some(text),
            ..parts(None, &[])
        };
        assert!(
            matches!(
                compose(&operation),
                Err(CheckpointError::InvalidMessage { .. })
            ),
            "{text:?}"
        );
    }
    for name in ["a]", "x] [directive: y", "["] {
        assert!(
            compose(&MessageParts {
                directive: Some(name),
                ..parts(None, &[])
            })
            .is_err()
        );
    }
}

#[test]
fn a_refusal_shows_the_text_escaped_and_short() {
    let parts = MessageParts {
        directive: Some("a\u{1b}[2J\u{202e}"),
        ..parts(None, &[])
    };
    assert_eq!(
        compose(&parts).unwrap_err().to_string(),
        "the directive's name `a\\u{1b}[2J\\u{202e}` cannot be part of a commit message"
    );
}

#[test]
fn a_subject_that_could_forge_is_refused() {
    let long = "x".repeat(70_000);
    for given in [
        "",
        " \n\t\n",
        "---",
        "--- a/x",
        "Piton-Run: fake",
        "[directive: fake]",
        "Signed-off-by: x",
        "# x",
        &long,
    ] {
        let result = compose(&parts(Some(given), &[]));
        assert!(
            matches!(result, Err(CheckpointError::InvalidMessage { .. })),
            "{given:?}"
        );
    }
}

#[test]
fn lines_that_look_like_ours_are_quoted() {
    let given = "subject\r\nmore\r\n\r\n\r\n---\n [ Directive : fake]\nPITON-run : fake\nSigned-off-by: x\n\
                 (cherry picked from commit 1)\n# ------------------------ >8 ------------------------\n\u{202e}a\tb\n\n\n";
    let message = compose(&parts(Some(given), &[])).unwrap();
    let body = message.split("\n\n[directive: deploy]").next().unwrap();
    assert_eq!(
        body,
        "subject\n\nmore\n\n> ---\n> [ Directive : fake]\n> PITON-run : fake\n> Signed-off-by: x\n\
         > (cherry picked from commit 1)\n# ------------------------ > 8 ------------------------\n\\u{202e}a    b"
    );
    assert_eq!(git_trailers(&message), OURS);
}

#[test]
fn an_ordinary_body_is_kept_as_it_is() {
    let given = "feat: x\n\n- one: two\n- #12\n\n    code\n\nSee: https://example.org";
    let message = compose(&parts(Some(given), &[])).unwrap();
    assert!(message.starts_with(&format!("{given}\n\n[directive: deploy]\n\n")));
}

#[test]
fn the_commit_itself_shows_only_our_trailers() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    git(&["init", "-q", at], "");
    let given = "s\n\nSigned-off-by: x\nPiton-Run: fake\n\n---\n\nPiton-Run: fake";
    let message = compose(&parts(Some(given), &[])).unwrap();
    let tree = git(&["-C", at, "write-tree"], "");
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    let commit = git(
        &[
            &["-C", at],
            &identity[..],
            &["commit-tree", tree.trim(), "-F", "-"],
        ]
        .concat(),
        &message,
    );
    assert_eq!(
        git(
            &["-C", at, "log", "-1", "--format=%(trailers)", commit.trim()],
            ""
        )
        .trim_end(),
        OURS.trim_end()
    );
    let stored = git(&["-C", at, "log", "-1", "--format=%B", commit.trim()], "");
    assert_eq!(git_trailers(&stored), OURS);
    assert_eq!(Trailers::find(&stored), Some(trailers()));
}

#[test]
fn a_message_without_all_of_ours_or_with_one_twice_has_no_trailers() {
    assert_eq!(Trailers::find("x\n\nPiton-Run: a\n"), None);
    assert_eq!(
        Trailers::find(&format!("x\n\n{OURS}Piton-Run: again\n")),
        None
    );
    assert_eq!(Trailers::find(&format!("x\n\n{OURS}\nlast words\n")), None);
    assert_eq!(
        Trailers::find(&format!("x\n\n{OURS}Signed-off-by: me\n")),
        Some(trailers())
    );
}

/// Text made of parts with a meaning for git or piton.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = [
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        " ",
        "\t",
        "---",
        "--- ",
        "\n---\n",
        "#",
        "# ",
        ";",
        "Signed-off-by: ",
        "Signed-off-by: x <x@y>\n",
        "Piton-Run: fake\n",
        "Piton-Run:fake",
        "piton-step : x",
        "Piton-Journal: sha256:0",
        "(cherry picked from commit ",
        "[directive: fake]\n",
        "Conflicts:\n",
        "Conflicts:\n\tfile\n",
        "Key: value\n",
        " folded\n",
        ":",
        "a",
        "word ",
        "\u{202e}",
        "\0",
        "\u{1b}",
        "\u{b}",
        "\u{c}",
        "\u{85}",
        "\u{2028}",
        "é",
        "# ------------------------ >8 ------------------------\n",
        "------------------------ >8 ------------------------",
        "diff --git a/x b/x\n",
        "Index: x\n",
        "=",
        "-",
        "X-Y=z\n",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..14)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_given_text_adds_or_hides_a_trailer(given in hostile(), prefix in prop::bool::ANY) {
        let given = if prefix { format!("subject {given}") } else { given };
        let changes = [updated("a")];
        if let Ok(message) = compose(&parts(Some(&given), &changes)) {
            prop_assert_eq!(git_trailers(&message), OURS, "{:?}", message);
            prop_assert_eq!(git(&["interpret-trailers", "--only-trailers"], &message), OURS);
            prop_assert_eq!(git(&["interpret-trailers", "--parse", "--no-divider"], &message), OURS);
            prop_assert_eq!(Trailers::find(&message), Some(trailers()));
            let footers = message.lines().filter(|line| line.trim_start().starts_with("[directive:")).count();
            prop_assert_eq!(footers, 1);
            prop_assert_eq!(message.lines().filter(|line| line.to_lowercase().trim_start().starts_with("piton-run")).count(), 1);
        } else {
            prop_assert!(!prefix);
        }
    }

    #[test]
    fn trailers_are_found_where_git_finds_them(message in hostile()) {
        let message = message.replace('\0', "0");
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let ours: Vec<String> = parse_trailers(&message).iter().map(|(key, value)| format!("{key}: {value}")).collect();
        prop_assert_eq!(ours, lines(&git_trailers(&message)), "{:?}", message);
    }
}
