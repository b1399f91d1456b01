//! Which files a step may change.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

fn rules(permissions: &str, declared: Option<&[&str]>) -> WriteRules {
    let grants = grants(permissions);
    let mut call = script("greet", "bash", "bash_runtime");
    call.writes = declared.map(|globs| globs.iter().map(|it| (*it).to_owned()).collect());
    WriteRules::of(
        &Authority::Directives(vec![PolicyCaller {
            name: "d",
            grants: &grants,
        }]),
        &call,
    )
}

fn granted(glob: &str) -> WriteRules {
    rules(
        &format!("<write resource=\"filesystem\" path=\"{glob}\"/>"),
        None,
    )
}

fn by_person(declared: Option<&[&str]>) -> WriteRules {
    let mut call = script("greet", "bash", "bash_runtime");
    call.writes = declared.map(|globs| globs.iter().map(|it| (*it).to_owned()).collect());
    WriteRules::of(&Authority::Person, &call)
}

#[test]
fn a_glob_covers_what_it_says() {
    for (glob, path, covered) in [
        ("docs/**", "docs/a.md", true),
        ("docs/**", "docs/a/b/c.md", true),
        ("docs/**", "docs/.hidden", true),
        ("docs/**", "docs", false),
        ("docs/**", "docsx/a", false),
        ("docs", "docs", true),
        ("docs", "docs/a/b", true),
        ("docs", "docsx", false),
        ("docs/", "docs/a", true),
        ("docs/", "docs", false),
        ("./docs/**", "docs/a", true),
        ("././docs//**", "docs/a", true),
        (".", "docs/a", true),
        (".", "a", true),
        ("./", "a", true),
        ("src/*", "src/a", true),
        ("src/*", "src/.a", true),
        ("src/*", "src/a/b", false),
        ("src/?", "src/a", true),
        ("src?a", "src/a", false),
        ("src/**", "src/../etc/passwd", false),
        ("src/**", "src/./a", false),
        ("**", "../a", false),
        ("**", "/etc/passwd", false),
        ("**", "a//b", false),
        ("**", "", false),
        ("**", ".env", true),
        ("**", "a/b/c", true),
        ("*", "a/b", false),
        ("**/*.md", "a.md", true),
        ("**/*.md", "x/y/a.md", true),
        ("{docs,src}/**", "src/a", true),
        ("[ab]", "a", true),
        ("Docs/**", "docs/a", false),
    ] {
        assert_eq!(
            granted(glob).allows(Path::new(path)),
            covered,
            "{glob} {path}"
        );
    }
}

#[test]
fn items_are_covered_only_by_a_glob_that_names_them() {
    for (glob, path, covered) in [
        ("**", ".ai/tools/a.yaml", false),
        ("**", ".ai", false),
        ("**", ".AI/tools/a.yaml", false),
        ("*/**", ".ai/tools/a.yaml", false),
        (".a?/**", ".ai/tools/a.yaml", false),
        ("{.ai,docs}/**", ".ai/tools/a.yaml", false),
        ("**/*.yaml", ".ai/tools/a.yaml", false),
        (".", ".ai/tools/a.yaml", false),
        (".ai/**", ".ai/tools/a.yaml", true),
        ("./.ai/tools/**", ".ai/tools/a.yaml", true),
        (".ai", ".ai/tools/a.yaml", true),
        (".ai/", ".ai/tools/a.yaml", true),
        ("**", "sub/.ai/a", true),
        ("**", ".aix/a", true),
    ] {
        assert_eq!(
            granted(glob).allows(Path::new(path)),
            covered,
            "{glob} {path}"
        );
    }
}

#[test]
fn git_is_never_grantable() {
    for path in [
        ".git/config",
        ".GIT/config",
        ".git",
        "git~1/config",
        "sub/.git/hooks/x",
        ".git./x",
        ".g\u{200c}it/x",
    ] {
        for glob in [".git/**", "**", ".", "sub/**", "{.git,.GIT}/**", "git~1/**"] {
            let rules = granted(glob);
            assert!(!rules.allows(Path::new(path)), "{glob} {path}");
            assert_eq!(rules.allow_with(Path::new(path)), None, "{glob} {path}");
        }
        assert!(!by_person(None).allows(Path::new(path)), "{path}");
    }
    assert!(granted("**").allows(Path::new(".gitignore")));
    assert!(granted("**").allows(Path::new(".github/x")));
}

#[test]
fn without_a_grant_nothing_may_be_written_and_read_grants_do_not_help() {
    assert!(!rules("", None).allows(Path::new("a")));
    assert!(!rules("<read path=\"**\"/><allow>*</allow>", None).allows(Path::new("a")));
    let call = script("greet", "bash", "bash_runtime");
    assert!(!WriteRules::of(&Authority::Directives(vec![]), &call).allows(Path::new("a")));
}

#[test]
fn a_tool_that_says_what_it_writes_is_bound_by_it() {
    let rules = rules("<write path=\"**\"/>", Some(&["docs/**", "b"]));
    assert!(rules.allows(Path::new("docs/a")));
    assert!(rules.allows(Path::new("b")));
    assert!(!rules.allows(Path::new("a")));
    assert_eq!(rules.allow_with(Path::new("a")), None);
    assert_eq!(
        rules.hint(Path::new("a")).as_deref(),
        Some("the tool `greet@1.0.0` says that it writes `docs/**, b`; add `a` to `writes`")
    );
    assert!(
        !self::rules("<write path=\"**\"/>", Some(&[])).allows(Path::new("a")),
        "it says that it writes nothing"
    );
}

#[test]
fn a_person_is_bound_by_what_the_tool_says_only() {
    assert!(by_person(None).allows(Path::new(".ai/tools/a")));
    assert!(by_person(Some(&["docs/**"])).allows(Path::new("docs/a")));
    assert!(!by_person(Some(&["docs/**"])).allows(Path::new("a")));
    assert_eq!(by_person(None).globs(), [""; 0]);
}

#[test]
fn a_deny_wins_below_items_too() {
    let rules = rules(
        "<write path=\"**\"/><write path=\".ai/**\"/><deny path=\"docs/secret*\"/><deny path=\"**/x\"/>",
        None,
    );
    assert!(rules.allows(Path::new("docs/a")));
    assert!(!rules.allows(Path::new("docs/secret.md")));
    assert!(rules.allows(Path::new(".ai/a")));
    assert!(!rules.allows(Path::new(".ai/x")));
    assert_eq!(rules.allow_with(Path::new(".ai/x")), None);
    assert_eq!(
        rules.hint(Path::new("x")).as_deref(),
        Some("a <deny> of directive `d` forbids to write `x`")
    );
    let nothing = self::rules("<write path=\"**\"/><deny>*</deny>", None);
    assert!(!nothing.allows(Path::new("a")));
    let read_only = self::rules(
        "<write path=\"**\"/><deny action=\"read\" path=\"a\"/>",
        None,
    );
    assert!(read_only.allows(Path::new("a")));
}

#[test]
fn every_caller_has_to_grant_a_file() {
    let (outer, inner) = (
        grants("<write path=\"docs/**\"/>"),
        grants("<write path=\"**/*.md\"/>"),
    );
    let callers = vec![
        PolicyCaller {
            name: "outer",
            grants: &outer,
        },
        PolicyCaller {
            name: "inner",
            grants: &inner,
        },
    ];
    let rules = WriteRules::of(
        &Authority::Directives(callers),
        &script("greet", "bash", "bash_runtime"),
    );
    assert!(rules.allows(Path::new("docs/a.md")));
    assert!(!rules.allows(Path::new("docs/a.txt")));
    assert!(!rules.allows(Path::new("a.md")));
    assert_eq!(rules.globs(), ["docs/** (outer)", "**/*.md (inner)"]);
    assert_eq!(
        rules.hint(Path::new("a.txt")).as_deref(),
        Some(
            "add <write resource=\"filesystem\" path=\"a.txt\"/> to the <permissions> of `outer` and `inner`"
        )
    );
}

#[test]
fn the_rules_are_listed_with_whose_they_are() {
    let rules = rules(
        "<write path=\"docs/**\"/><deny path=\"docs/x\"/>",
        Some(&["docs/*"]),
    );
    assert_eq!(
        rules.globs(),
        ["docs/* (greet@1.0.0)", "docs/** (d)", "!docs/x (d)"]
    );
    assert_eq!(self::rules("", None).globs(), ["nothing (d)"]);
}

#[test]
fn the_printed_line_allows_exactly_that_file() {
    for (path, line) in [
        (
            "docs/a.md",
            Some("<write resource=\"filesystem\" path=\"docs/a.md\"/>"),
        ),
        (
            "a*b",
            Some("<write resource=\"filesystem\" path=\"a[*]b\"/>"),
        ),
        ("[x]", None),
        ("a&b<\"'>", None),
        ("~", None),
        ("~/x", None),
        ("c:", None),
        (" x ", None),
        ("a\nb", None),
        ("\\x", None),
        ("a\\..\\b", None),
        ("{input:x}", None),
        ("größe/e\u{301}\u{200b}", None),
        (".ai/tools/a", None),
        (".ai/tools/*", None),
        ("a,b;{c,d}!", None),
    ] {
        let rules = rules("", None);
        let printed = rules.allow_with(Path::new(path)).expect(path);
        if let Some(line) = line {
            assert_eq!(printed, line);
        }
        let allowed = self::rules(&printed, None);
        assert!(allowed.allows(Path::new(path)), "{path} {printed}");
        assert!(!allowed.allows(Path::new("docs/b.md")), "{path} {printed}");
        assert!(!allowed.allows(Path::new("axb")), "{path} {printed}");
        assert!(!allowed.allows(Path::new("x")), "{path} {printed}");
    }
}

#[test]
fn names_that_are_no_text_are_judged_all_the_same() {
    let path = Path::new(OsStr::from_bytes(b"docs/\xff\xfe.md"));
    assert!(granted("docs/**").allows(path));
    assert!(granted("docs/*.md").allows(path));
    assert!(!granted("src/**").allows(path));
    assert!(!granted("docs/a.md").allows(path));
    let line = granted("src/**").allow_with(path).expect("a line");
    assert!(rules(&line, None).allows(path), "{line}");
}

#[test]
fn what_is_no_glob_grants_nothing_and_denies_everything() {
    let mut broken = grants("<write path=\"docs/**\"/><write path=\"a\"/>");
    for grant in broken.iter_mut().skip(1) {
        grant.access = Access::Write {
            path: "[".to_owned(),
        };
    }
    let call = script("greet", "bash", "bash_runtime");
    let of = |grants: &[Grant]| {
        WriteRules::of(
            &Authority::Directives(vec![PolicyCaller { name: "d", grants }]),
            &call,
        )
    };
    assert!(of(&broken).allows(Path::new("docs/a")));
    assert!(!of(&broken).allows(Path::new("a")));
    for grant in broken.iter_mut().skip(1) {
        grant.deny = true;
    }
    assert!(!of(&broken).allows(Path::new("docs/a")));
    assert!(!by_person(Some(&["["])).allows(Path::new("docs/a")));
    assert_eq!(
        PathGlobs::new(["a", "["]).expect_err("no glob"),
        InvalidGlob {
            glob: "[".to_owned(),
            reason: "unclosed character class; missing ']'".to_owned()
        }
    );
}

#[test]
fn work_without_a_tool_may_change_only_what_every_directive_grants() {
    let (outer, inner) = (
        grants("<write path=\"docs/**\"/>"),
        grants("<write path=\"**\"/><deny><write path=\"docs/old/**\"/></deny>"),
    );
    let callers = vec![
        PolicyCaller {
            name: "outer",
            grants: &outer,
        },
        PolicyCaller {
            name: "inner",
            grants: &inner,
        },
    ];
    let rules = WriteRules::for_directives(&Authority::Directives(callers));
    assert!(rules.allows(Path::new("docs/a.md")));
    for path in [
        "src/a.rs",
        "docs/old/a.md",
        "docs/../a",
        ".git/config",
        "/docs/a.md",
    ] {
        assert!(!rules.allows(Path::new(path)), "{path}");
    }
    assert_eq!(
        rules.hint(Path::new("src/a.rs")).as_deref(),
        Some(
            "add <write resource=\"filesystem\" path=\"src/a.rs\"/> to the <permissions> of `outer`"
        )
    );
    assert_eq!(
        rules.globs(),
        ["docs/** (outer)", "** (inner)", "!docs/old/** (inner)"]
    );
}

#[test]
fn work_without_a_tool_may_change_nothing_by_default() {
    let none = WriteRules::for_directives(&Authority::Directives(Vec::new()));
    let silent = WriteRules::for_directives(&Authority::Directives(vec![PolicyCaller {
        name: "d",
        grants: &[],
    }]));
    for rules in [none, silent] {
        assert!(!rules.allows(Path::new("a")));
        assert!(!rules.allows(Path::new(".ai/directives/d.md")));
    }
}
