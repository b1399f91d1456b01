use super::*;

/// The interpreters of this machine; the tests need them.
fn interpreters() -> Interpreters {
    Interpreters::find(OsStr::new("/usr/local/bin:/usr/bin:/bin"))
}

fn script(path: &str, text: &str, language: ScriptLanguage) -> CheckedScript {
    CheckedScript {
        path: path.into(),
        text: text.to_owned(),
        language,
    }
}

fn problem(path: &str, line: u32, column: u32, message: &str) -> SyntaxProblem {
    SyntaxProblem {
        path: path.into(),
        line,
        column,
        message: message.to_owned(),
    }
}

#[test]
fn each_language_is_asked_for_its_own() {
    let scripts = [
        script("a.sh", "if true; then\n  echo x\n", ScriptLanguage::Bash),
        script("b.py", "def f(:\n    pass\n", ScriptLanguage::Python),
        script("c.js", "const = 1", ScriptLanguage::JavaScript),
        script(
            "good.sh",
            "shopt -s extglob\nls !(a)\nreturn 1\n",
            ScriptLanguage::Bash,
        ),
        script(
            "good.py",
            "import no_such_module\nprint('ä')\n",
            ScriptLanguage::Python,
        ),
        script(
            "good.mjs",
            "import x from 'y'\n",
            ScriptLanguage::JavaScript,
        ),
        script("d.sh", "echo a\nfi\n", ScriptLanguage::Bash),
    ];
    assert_eq!(
        check(&scripts, &interpreters()),
        SyntaxReport {
            problems: vec![
                problem("a.sh", 2, 1, "syntax error: unexpected end of file"),
                problem("b.py", 1, 7, "invalid syntax"),
                problem("c.js", 1, 7, "variable name expected"),
                problem("d.sh", 2, 1, "syntax error near unexpected token `fi'"),
            ],
            unchecked: Vec::new(),
        }
    );
}

#[test]
fn nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let shown = mark.display();
    let scripts = [
        script(
            "a.sh",
            &format!("touch {shown}\nx=$(touch {shown})\n"),
            ScriptLanguage::Bash,
        ),
        script(
            "b.py",
            &format!("open('{shown}', 'w')\n"),
            ScriptLanguage::Python,
        ),
        script("c.py", "while True: pass\n", ScriptLanguage::Python),
    ];
    assert_eq!(check(&scripts, &interpreters()), SyntaxReport::default());
    assert!(!mark.exists());
}

#[test]
fn a_language_without_interpreter_is_named() {
    let none = Interpreters::find(OsStr::new("relative/bin:/nonexistent"));
    assert_eq!(
        none,
        Interpreters {
            python: None,
            bash: None,
            search_path: "/nonexistent".into()
        }
    );
    let scripts = [
        script("a.sh", "fi", ScriptLanguage::Bash),
        script("c.js", "(", ScriptLanguage::JavaScript),
    ];
    let checked = check(&scripts, &none);
    assert_eq!(
        checked.unchecked,
        [(
            ScriptLanguage::Bash,
            "`bash` is not on the search path".to_owned()
        )]
    );
    assert_eq!(checked.problems.len(), 1);
    assert_eq!(check(&[], &none), SyntaxReport::default());
}

#[test]
fn an_interpreter_that_does_not_work_is_named() {
    let broken = Interpreters {
        python: Some("/bin/false".into()),
        bash: Some("/nonexistent".into()),
        search_path: "/bin".into(),
    };
    let scripts = [
        script("a.sh", "fi", ScriptLanguage::Bash),
        script("b.py", "(", ScriptLanguage::Python),
    ];
    let checked = check(&scripts, &broken);
    assert_eq!(checked.problems, []);
    assert_eq!(
        checked.unchecked,
        [
            (
                ScriptLanguage::Python,
                "`python3` does not start".to_owned()
            ),
            (
                ScriptLanguage::Bash,
                "cannot ask `bash`: No such file or directory (os error 2)".to_owned()
            ),
        ]
    );
}

#[test]
fn python_is_not_asked_about_what_would_take_too_much_memory() {
    let scripts = [
        script(
            "large.py",
            &"x = [1, 2, 3]\n".repeat(8_000),
            ScriptLanguage::Python,
        ),
        script("small.py", "(", ScriptLanguage::Python),
    ];
    let checked = check(&scripts, &interpreters());
    assert_eq!(
        checked.problems,
        [problem("small.py", 1, 1, "'(' was never closed")]
    );
    assert_eq!(
        checked.unchecked,
        [(
            ScriptLanguage::Python,
            "scripts larger than 96 KiB are not parsed".to_owned()
        )]
    );
}

#[test]
fn large_and_hostile_scripts_are_answered() {
    let big_python = "x = [1, 2, 3]\n".repeat(7_000);
    let texts = [
        "(".repeat(90_000),
        "-".repeat(90_000) + "1",
        "x = 'a\0b'\n".to_owned(),
        "a".to_owned() + &".b".repeat(45_000),
        "[".repeat(90) + &"]".repeat(90),
        "# -*- coding: nonsense -*-\n".to_owned(),
        "lambda: ".repeat(5_000) + "1",
        "f'".to_owned() + &"{f'".repeat(50),
        "def f():\n".to_owned()
            + &(1..400)
                .map(|n| " ".repeat(n) + "if x:\n")
                .collect::<String>(),
        big_python,
    ];
    let mut scripts: Vec<CheckedScript> = texts
        .iter()
        .map(|text| script("x.py", text, ScriptLanguage::Python))
        .collect();
    for text in [
        "$(".repeat(2_000),
        "(".repeat(50_000),
        "echo \"".to_owned(),
        "{ ".repeat(50_000),
        "a\0b\n".to_owned(),
        "${a:-".repeat(5_000),
        "echo hello\n".repeat(90_000),
        "cat <<E\n".repeat(100),
    ] {
        scripts.push(script("x.sh", &text, ScriptLanguage::Bash));
    }
    let checked = check(&scripts, &interpreters());
    assert_eq!(checked.unchecked, []);
    assert!(
        checked
            .problems
            .iter()
            .all(|problem| problem.line >= 1 && problem.column >= 1 && !problem.message.is_empty())
    );
    assert!(checked.problems.len() >= 8, "{:#?}", checked.problems);
}

#[test]
fn many_shell_scripts_are_sifted_and_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let shown = mark.display();
    let mut scripts: Vec<CheckedScript> = (0..20)
        .map(|at| {
            script(
                &format!("{at}.sh"),
                &format!("touch {shown}\nset +n\ntouch {shown}\n"),
                ScriptLanguage::Bash,
            )
        })
        .collect();
    let broken = [
        ("if true; then\n", 1, "syntax error: unexpected end of file"),
        (
            &format!("fi; touch {shown}\n"),
            1,
            "syntax error near unexpected token `fi'",
        ),
        (
            "echo a\n) touch x\n",
            2,
            "syntax error near unexpected token `)'",
        ),
    ];
    for (at, (text, ..)) in broken.iter().enumerate() {
        scripts.insert(
            at * 5,
            script(&format!("bad{at}.sh"), text, ScriptLanguage::Bash),
        );
    }
    scripts.push(script("nul.sh", "echo 'a\0b'\n", ScriptLanguage::Bash));
    let expected: Vec<SyntaxProblem> = (0..)
        .zip(broken)
        .map(|(at, (_, line, message))| problem(&format!("bad{at}.sh"), line, 1, message))
        .collect();
    assert_eq!(
        check(&scripts, &interpreters()),
        SyntaxReport {
            problems: expected,
            unchecked: Vec::new()
        }
    );
    assert!(!mark.exists());
}

#[cfg(unix)]
#[test]
fn a_fork_that_outlives_bash_is_not_waited_for() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (bash, pid) = (folder.path().join("bash"), folder.path().join("pid"));
    let text = format!(
        "#!/bin/sh\n[ \"$3\" = -n ] || {{ sleep 3600 & echo $! >>'{}'; }}\n",
        pid.display()
    );
    std::fs::write(&bash, text).unwrap();
    std::fs::set_permissions(&bash, std::fs::Permissions::from_mode(0o755)).unwrap();
    let forking = Interpreters {
        bash: Some(bash),
        ..interpreters()
    };
    let scripts = [(); 8].map(|()| script("a.sh", "true\n", ScriptLanguage::Bash));
    assert_eq!(check(&scripts, &forking), SyntaxReport::default());
    let forks = std::fs::read_to_string(pid).unwrap();
    let mut kill = interpreter(Path::new("/bin/kill"), &forking.search_path);
    assert!(kill.args(forks.lines()).status().unwrap().success());
}
