use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

#[expect(clippy::disallowed_methods, reason = "the real git is the oracle")]
fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    command
}

/// The paths that git ignores among those that exist.
fn ignored_by_git(folder: &Path, paths: &[&str]) -> BTreeSet<String> {
    let mut child = git(folder)
        .args(["check-ignore", "--no-index", "-z", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(paths.join("\0").as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "git check-ignore failed"
    );
    output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| String::from_utf8(path.to_vec()).unwrap())
        .collect()
}

const FILES: [&str; 12] = [
    "a", "b.o", "d/a", "d/b.o", "d/e/a", "d/e/b.o", "d/e/f/ab", "x y/a ", "x y/[a]", "x y/b\\c",
    "ab/d/b.o", "ab/#c",
];
const FOLDERS: [&str; 6] = ["d", "d/e", "d/e/f", "x y", "ab", "ab/d"];

#[derive(Clone, Debug)]
struct Case {
    shared: Option<String>,
    exclude: String,
    files: Vec<(&'static str, String)>,
}

fn pattern() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => Just("a"), 3 => Just("b.o"), 4 => Just("d"), 3 => Just("e"), 2 => Just("f"), 2 => Just("ab"),
        4 => Just("*"), 3 => Just("**"), 2 => Just("?"), 2 => Just("[ab]"), 1 => Just("[!a]"), 1 => Just("*.o"),
        1 => Just("\\a"), 1 => Just("x y"), 1 => Just("a\\ "), 1 => Just("[[]a]"), 1 => Just("b\\\\c"), 1 => Just("\\#c"),
        1 => Just("[a-"), 1 => Just("a*"), 1 => Just("[[:alpha:]]"), 1 => Just("**b"), 1 => Just("a\\"), 1 => Just("#c"),
    ];
    let body = proptest::collection::vec(piece, 1..4).prop_map(|pieces| pieces.join("/"));
    let start = prop_oneof![5 => Just(""), 3 => Just("!"), 2 => Just("/"), 1 => Just("!/"), 1 => Just("**/")];
    let end = prop_oneof![6 => Just(""), 3 => Just("/"), 1 => Just("/**"), 1 => Just("/*"), 1 => Just("  "), 1 => Just("\r")];
    (start, body, end).prop_map(|(start, body, end)| format!("{start}{body}{end}"))
}

fn rules_file() -> impl Strategy<Value = String> {
    (
        proptest::collection::vec(pattern(), 0..5),
        prop_oneof![Just("\n"), Just("")],
    )
        .prop_map(|(lines, end)| lines.join("\n") + end)
}

fn case() -> impl Strategy<Value = Case> {
    let folder = prop_oneof![3 => Just(""), 2 => Just("d"), 1 => Just("d/e"), 1 => Just("ab"), 1 => Just("x y")];
    (
        proptest::option::of(rules_file()),
        rules_file(),
        proptest::collection::btree_map(folder, rules_file(), 0..4),
    )
        .prop_map(|(shared, exclude, files)| Case {
            shared,
            exclude,
            files: files.into_iter().collect(),
        })
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    assert!(
        git(folder.path())
            .args(["init", "-q", "top"])
            .status()
            .unwrap()
            .success()
    );
    for file in FILES {
        fs::create_dir_all(top.join(file).parent().unwrap()).unwrap();
        fs::write(top.join(file), "").unwrap();
    }
    fs::create_dir_all(top.join(".git/info")).unwrap();
    fs::write(top.join(".git/info/exclude"), &case.exclude).unwrap();
    if let Some(shared) = &case.shared {
        fs::write(folder.path().join("shared"), shared).unwrap();
        let file = folder.path().join("shared");
        assert!(
            git(&top)
                .args(["config", "core.excludesFile"])
                .arg(file)
                .status()
                .unwrap()
                .success()
        );
    }
    for (at, rules) in &case.files {
        fs::write(top.join(at).join(".gitignore"), rules).unwrap();
    }
    let paths: Vec<&str> = FILES.iter().chain(&FOLDERS).copied().collect();
    let expected = ignored_by_git(&top, &paths);

    let shared = case.shared.as_ref().map(String::as_bytes);
    let rules = IgnoreRules::to_collect(shared, Some(case.exclude.as_bytes()), Letters::Distinct)
        .with_files(
            case.files
                .iter()
                .map(|(at, rules)| (RepoPath::from(*at), rules)),
            UnknownFolder::NoRules,
        );
    let kind = |path: &str| {
        if FOLDERS.contains(&path) {
            PathKind::Folder
        } else {
            PathKind::File
        }
    };
    let found: BTreeSet<String> = paths
        .iter()
        .filter(|path| rules.is_ignored(&RepoPath::from(**path), kind(path)))
        .map(|path| (*path).to_owned())
        .collect();
    prop_assert_eq!(found, expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
    #[test]
    fn paths_are_ignored_as_git_ignores_them(case in case()) {
        check(&case)?;
    }
}

#[test]
fn a_deeper_file_and_a_later_line_win_but_not_below_an_ignored_folder() {
    check(&Case {
        shared: Some("*.o\nd/e\n".to_owned()),
        exclude: "!*.o\na\n".to_owned(),
        files: vec![
            ("", "*.o\n!d\nab/\n".to_owned()),
            ("ab", "!d\n!b.o".to_owned()),
            ("d", "!b.o\r\n!e\na\n!a".to_owned()),
        ],
    })
    .unwrap();
}

#[test]
fn folders_that_were_not_known_before_have_no_rules_once_frozen() {
    let rules = IgnoreRules::to_collect(None, None, Letters::Distinct);
    assert!(rules.wants_file_of(b"d"));
    let frozen = rules.frozen([(RepoPath::from("d"), Arc::new(Patterns::parse(b"a")))]);
    assert!(!frozen.wants_file_of(b"d"));
    assert!(!frozen.wants_file_of(b"new"));
    assert!(frozen.is_ignored(&"d/x/a".into(), PathKind::File));
    assert!(!frozen.is_ignored(&"new/a".into(), PathKind::File));
    let partly = rules.with_files([(RepoPath::from("d"), "a")], UnknownFolder::Read);
    assert!(!partly.wants_file_of(b"d"));
    assert!(partly.wants_file_of(b"new"));
}

#[test]
fn letters_are_folded_only_when_told() {
    let rules = |letters| IgnoreRules::to_collect(Some(b"*.O"), None, letters);
    assert!(!rules(Letters::Distinct).is_ignored(&"b.o".into(), PathKind::File));
    assert!(rules(Letters::Folded).is_ignored(&"b.o".into(), PathKind::File));
}
