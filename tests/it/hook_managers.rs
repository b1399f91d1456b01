//! Other hook managers, each the real program: piton writes nothing, the snippets it prints work,
//! and it notices what the managers do to its stubs.
//!
//! `scripts/lib/hook-managers` installs them below cargo's target folder; without them these tests
//! fail.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::TestProject;
use crate::hooks_install::{USUAL, Yard, all, states};

/// The command that each manager runs itself.
const THEIRS: &str = "echo theirs >> ../calls";

/// A manager, and how it is set up in a project.
struct Manager {
    name: &'static str,
    /// Its configuration file, and the text with its own `pre-commit` hook.
    file: &'static str,
    text: &'static str,
    install: &'static str,
    /// Where it moves a stub that was installed before it.
    moves_to: Option<&'static str>,
}

const HUSKY: Manager = Manager {
    name: "husky",
    file: ".husky/pre-commit",
    text: "echo theirs >> ../calls\n",
    install: "husky",
    moves_to: None,
};
const LEFTHOOK: Manager = Manager {
    name: "lefthook",
    file: "lefthook.yml",
    text: "pre-commit:\n  commands:\n    own:\n      run: echo theirs >> ../calls\n",
    install: "lefthook install",
    moves_to: Some("old"),
};
const LEFTHOOK_TOML: Manager = Manager {
    file: "lefthook.toml",
    text: "[pre-commit.commands.own]\nrun = 'echo theirs >> ../calls'\n",
    ..LEFTHOOK
};
const PRE_COMMIT: Manager = Manager {
    name: "pre-commit",
    file: ".pre-commit-config.yaml",
    text: "repos:\n  - repo: local\n    hooks:\n      - id: own\n        name: own\n        entry: sh -c 'echo theirs >> ../calls'\n        \
           language: system\n        always_run: true\n        pass_filenames: false\n        stages: [pre-commit]\n",
    install: "pre-commit install",
    moves_to: Some("legacy"),
};
const PREK: Manager = Manager {
    name: "prek",
    install: "prek install",
    ..PRE_COMMIT
};
const PREK_TOML: Manager = Manager {
    file: "prek.toml",
    text: "[[repos]]\nrepo = \"local\"\nhooks = [{ id = \"own\", name = \"own\", language = \"system\", always_run = true, \
           entry = \"sh -c 'echo theirs >> ../calls'\", pass_filenames = false, stages = [\"pre-commit\"] }]\n",
    ..PREK
};

/// A repository without a manager.
fn yard() -> Yard {
    let target = Path::new(env!("CARGO_BIN_EXE_piton"))
        .ancestors()
        .nth(2)
        .expect("a target folder");
    let programs = target.join("peers/hook-managers/bin");
    for name in ["husky", "lefthook", "pre-commit", "prek"] {
        assert!(
            programs.join(name).exists(),
            "`{name}` is missing: run scripts/lib/hook-managers, as ./scripts/test does"
        );
    }
    Yard::with_path(TestProject::new(), programs.to_str().expect("text"))
}

impl Manager {
    /// Installs the manager in a repository.
    fn set_up(&self, yard: &Yard) {
        let file = yard.project.root().join(self.file);
        fs::create_dir_all(file.parent().expect("it is there")).expect("it is there");
        fs::write(file, self.text).expect("it is there");
        yard.project.bash(self.install);
    }

    /// Pastes the snippets that piton prints.
    fn paste(&self, yard: &Yard) {
        let report = yard.piton(&["hooks", "install", "--format", "json"]).json();
        let snippets = report["snippets"].as_array().expect("it is there");
        assert!(!snippets.is_empty(), "{report}");
        for snippet in snippets {
            let (file, text) = (
                PathBuf::from(snippet["file"].as_str().expect("it is there")),
                snippet["text"].as_str().expect("it is there"),
            );
            let old = fs::read_to_string(&file).unwrap_or_default();
            let new = match self.name {
                "husky" => format!("{text}{old}"),
                "lefthook" if self.file.ends_with("yml") => merged(&old, text),
                _ => format!("{old}{text}"),
            };
            fs::write(&file, new).expect("it is there");
            if let Some(then) = snippet["then"].as_str() {
                yard.project.bash(then);
            }
        }
    }
}

/// Merges hook lines into a configuration: below `commands` if the hook exists already.
fn merged(old: &str, text: &str) -> String {
    let mut new = old.to_owned();
    for block in text
        .split_inclusive('\n')
        .fold(Vec::<String>::new(), |mut blocks, line| {
            if line.starts_with(' ') {
                blocks.last_mut().expect("it is there").push_str(line);
            } else {
                blocks.push(line.to_owned());
            }
            blocks
        })
    {
        let (head, rest) = block.split_once("    piton:").expect("it is there");
        let rest = format!("    piton:{rest}");
        // The name of one hook ends with that of another.
        let there = format!("\n{new}")
            .find(&format!("\n{head}"))
            .map(|at| at + head.len());
        new.insert_str(
            there.unwrap_or(new.len()),
            &if there.is_some() {
                rest
            } else {
                format!("{head}{rest}")
            },
        );
    }
    new
}

/// The arguments and input of each piton call, with ids masked.
fn told(calls: &str) -> Vec<String> {
    let id = regex::Regex::new("[0-9a-f]{40}").expect("it is there");
    calls
        .lines()
        .map(|line| {
            id.replace_all(line, "ID")
                .replace("piton [hooks] [run] ", "")
        })
        .collect()
}

/// A commit, an amend and a push, and the calls for each.
fn work(yard: &Yard) -> [Vec<String>; 3] {
    let committed = yard.commit();
    assert_eq!(committed.code(), Some(0), "{committed}");
    let first = told(&yard.calls());
    let amended = yard.git(&["commit", "--quiet", "--amend", "--message", "another"]);
    assert_eq!(amended.code(), Some(0), "{amended}");
    let mut second = told(&yard.calls());
    // An amend also runs the commit hooks first, and lefthook skips `pre-commit` if nothing is
    // staged.
    let at = second
        .iter()
        .position(|line| line.starts_with("[post-rewrite]"))
        .expect("a replacement");
    second.drain(..at);
    yard.project
        .git(["init", "--quiet", "--bare", "../remote.git"]);
    let pushed = yard.git(&["push", "--quiet", "../remote.git", "main"]);
    assert_eq!(pushed.code(), Some(0), "{pushed}");
    [first, second, told(&yard.calls())]
}

/// Checks for all managers: piton writes nothing, the snippets work, and teammates without piton
/// are not affected.
fn gets_along(manager: &Manager) -> [Vec<String>; 3] {
    let yard = yard();
    manager.set_up(&yard);
    let before = (yard.picture(), yard.project.files());
    let ran = yard.piton(&["hooks", "install"]);
    assert_eq!(ran.code(), Some(5), "nothing of what was asked for: {ran}");
    let reason = format!(
        "refused  nothing was written: {} manages the hooks here",
        manager.name
    );
    assert_eq!(ran.stdout().matches(&reason).count(), USUAL.len(), "{ran}");
    assert_eq!((yard.picture(), yard.project.files()), before);
    assert!(!yard.project.root().join(".git/piton/hooks.json").exists());
    let ran = yard.piton(&["hooks", "status", "--format", "json"]);
    assert_eq!(
        (ran.code(), states(&ran)),
        (Some(1), all(&USUAL, "not_installed")),
        "{ran}"
    );

    manager.paste(&yard);
    let ran = yard.piton(&["hooks", "status", "--format", "json"]);
    assert_eq!(
        (ran.code(), states(&ran)),
        (Some(0), all(&USUAL, "delegated")),
        "{ran}"
    );
    let ran = yard.piton(&["hooks", "install", "--format", "json"]);
    assert_eq!(
        (ran.code(), states(&ran)),
        (Some(0), all(&USUAL, "delegated")),
        "{ran}"
    );
    yard.witness();
    let called = work(&yard);

    let before = yard.picture();
    assert_eq!(yard.states(&["uninstall"]), all(&USUAL, "not_installed"));
    assert_eq!(yard.picture(), before);
    let commits = yard.commits();
    yard.pretend("#!/bin/sh\necho 'piton says no' >&2\nexit 1\n");
    let refused = yard.commit();
    assert_eq!(
        (refused.code(), yard.commits()),
        (Some(1), commits),
        "{refused}"
    );
    assert!(format!("{refused}").contains("piton says no"), "{refused}");
    fs::remove_file(yard.program()).expect("it is there");
    let without = yard.commit();
    assert_eq!(
        (without.code(), yard.commits()),
        (Some(0), commits + 1),
        "{without}"
    );
    yard.project.git(["fsck", "--full", "--strict"]);
    called
}

#[test]
fn husky() {
    let called = gets_along(&HUSKY);
    let remote = "../remote.git";
    assert_eq!(
        called,
        [
            vec![
                "[pre-commit] [--]".to_owned(),
                "theirs".to_owned(),
                "[prepare-commit-msg] [--] [.git/COMMIT_EDITMSG] [message]".to_owned(),
                "[commit-msg] [--] [.git/COMMIT_EDITMSG]".to_owned(),
                "[post-commit] [--]".to_owned(),
            ],
            vec!["[post-rewrite] [--] [amend]".to_owned(), "ID ID".to_owned()],
            vec![
                format!("[pre-push] [--] [{remote}] [{remote}]"),
                "refs/heads/main ID refs/heads/main ID".to_owned()
            ],
        ]
    );
}

#[test]
fn lefthook() {
    for manager in [LEFTHOOK, LEFTHOOK_TOML] {
        let [mut first, second, third] = gets_along(&manager);
        // lefthook runs the commands of one hook in its own order.
        first.get_mut(..2).expect("both").sort();
        let remote = "../remote.git";
        assert_eq!(
            [first, second, third],
            [
                vec![
                    "[pre-commit] [--]".to_owned(),
                    "theirs".to_owned(),
                    "[prepare-commit-msg] [--] [.git/COMMIT_EDITMSG] [message]".to_owned(),
                    "[commit-msg] [--] [.git/COMMIT_EDITMSG]".to_owned(),
                    "[post-commit] [--]".to_owned(),
                ],
                vec!["[post-rewrite] [--] [amend]".to_owned(), "ID ID".to_owned()],
                vec![
                    format!("[pre-push] [--] [{remote}] [{remote}]"),
                    "refs/heads/main ID refs/heads/main ID".to_owned()
                ],
            ]
        );
    }
}

/// They pass arguments and input of git in variables, except for the message file.
fn of_pre_commit() -> [Vec<String>; 3] {
    let lines = |lines: &[&str]| {
        lines
            .iter()
            .map(|&line| line.to_owned())
            .collect::<Vec<_>>()
    };
    [
        lines(&[
            "theirs",
            "[pre-commit] [--]",
            "[prepare-commit-msg] [--] [.git/COMMIT_EDITMSG]",
            "[commit-msg] [--] [.git/COMMIT_EDITMSG]",
            "[post-commit] [--]",
        ]),
        lines(&["[post-rewrite] [--]"]),
        lines(&["[pre-push] [--]"]),
    ]
}

#[test]
fn pre_commit() {
    assert_eq!(gets_along(&PRE_COMMIT), of_pre_commit());
}

#[test]
fn prek() {
    assert_eq!(gets_along(&PREK), of_pre_commit());
    assert_eq!(gets_along(&PREK_TOML), of_pre_commit());
}

#[test]
fn pre_commit_tells_a_push_in_variables() {
    for manager in [PRE_COMMIT, PREK] {
        let yard = yard();
        manager.set_up(&yard);
        manager.paste(&yard);
        yard.pretend("#!/bin/sh\n[ \"$3\" != pre-push ] || env | grep ^PRE_COMMIT_ | sort > \"${0%/*}/../calls\"\n");
        yard.commit();
        yard.calls();
        yard.project
            .git(["init", "--quiet", "--bare", "../remote.git"]);
        yard.project
            .git(["push", "--quiet", "../remote.git", "main"]);
        let calls = yard.calls();
        for variable in [
            "LOCAL_BRANCH=refs/heads/main",
            "REMOTE_BRANCH=refs/heads/main",
            "REMOTE_NAME=../remote.git",
        ] {
            assert!(
                calls.contains(&format!("PRE_COMMIT_{variable}\n")),
                "{}: {calls}",
                manager.name
            );
        }
    }
}

#[test]
fn a_message_in_a_folder_with_spaces_reaches_piton() {
    for manager in [HUSKY, LEFTHOOK, PRE_COMMIT, PREK] {
        let yard = yard();
        manager.set_up(&yard);
        manager.paste(&yard);
        yard.witness();
        yard.project.git(["add", "--all"]);
        yard.project
            .git(["commit", "--quiet", "--message", "start"]);
        yard.calls();
        let worktree = yard.project.root().parent().unwrap().join("work tree");
        yard.project.git([
            "worktree",
            "add",
            "--quiet",
            "-b",
            "there",
            worktree.to_str().unwrap(),
        ]);
        if manager.name == "husky" {
            // Husky creates its scripts at each installation.
            let mut again = yard.project.hermetic("bash", &worktree);
            assert!(again.args(["-c", "husky"]).status().unwrap().success());
        }
        fs::rename(
            yard.project.root(),
            yard.project.root().with_file_name("pro ject"),
        )
        .unwrap();
        let moved = yard.project.root().with_file_name("pro ject");
        let mut repair = yard.project.hermetic("git", &moved);
        assert!(
            repair
                .args(["worktree", "repair"])
                .arg(&worktree)
                .output()
                .unwrap()
                .status
                .success()
        );
        fs::write(worktree.join("file.txt"), "line\n").unwrap();
        let mut commit = yard.project.hermetic("bash", &worktree);
        let ran = yard.project.ran(
            commit
                .args(["-c", "git add . && git commit --message there"])
                .output()
                .unwrap(),
        );
        let calls = yard.calls();
        let message = "/pro ject/.git/worktrees/work-tree/COMMIT_EDITMSG]";
        for hook in ["prepare-commit-msg", "commit-msg"] {
            let call = calls
                .lines()
                .find(|line| line.contains(&format!("[{hook}]")))
                .unwrap_or_default();
            assert!(
                call.contains(message),
                "{} {hook}: {calls}\n{ran}",
                manager.name
            );
        }
        fs::rename(moved, yard.project.root()).unwrap();
    }
}

#[test]
fn a_configuration_that_is_not_installed_is_left_to_its_manager() {
    for manager in [LEFTHOOK, PRE_COMMIT] {
        let yard = yard();
        fs::write(yard.project.root().join(manager.file), manager.text).unwrap();
        let before = yard.picture();
        let ran = yard.piton(&["hooks", "install"]);
        assert_eq!(ran.code(), Some(5), "{ran}");
        assert_eq!(yard.picture(), before);
        // Pasted, but not installed.
        let report = yard
            .piton(&[
                "hooks",
                "install",
                "--hook",
                "commit-msg",
                "--format",
                "json",
            ])
            .json();
        let text = report["snippets"][0]["text"].as_str().unwrap();
        fs::write(
            yard.project.root().join(manager.file),
            format!("{}{text}", manager.text),
        )
        .unwrap();
        let ran = yard.piton(&[
            "hooks",
            "status",
            "--hook",
            "commit-msg",
            "--format",
            "json",
        ]);
        assert_eq!(
            (ran.code(), states(&ran)),
            (Some(1), vec!["commit-msg not_reached".to_owned()]),
            "{ran}"
        );
        let hint = ran.json()["hooks"][0]["hint"].as_str().unwrap().to_owned();
        assert!(
            hint.starts_with(&format!("run `{} install", manager.name)),
            "{hint}"
        );
        yard.project.bash(
            hint.strip_prefix("run `")
                .unwrap()
                .strip_suffix('`')
                .unwrap(),
        );
        assert_eq!(
            yard.states(&["status", "--hook", "commit-msg"]),
            ["commit-msg delegated"]
        );
    }
}

#[test]
fn a_manager_that_comes_later_is_noticed() {
    for manager in [HUSKY, LEFTHOOK, PRE_COMMIT, PREK] {
        let yard = yard();
        yard.hook(
            "pre-commit",
            &format!("#!/bin/sh\n{}\n", THEIRS.replace("theirs", "own")),
        );
        let before = yard.picture();
        yard.piton(&["hooks", "install"]);
        manager.set_up(&yard);
        let ran = yard.piton(&["hooks", "status", "--format", "json"]);
        assert_eq!(ran.code(), Some(1), "{ran}");
        let first = &ran.json()["hooks"][0];
        assert_eq!(first["state"], "replaced", "{ran}");
        let detail = first["detail"].as_str().unwrap();
        assert!(
            detail.starts_with(&format!("{} is in its place", manager.name)),
            "{ran}"
        );
        if let Some(ending) = manager.moves_to {
            assert!(
                detail.contains(&format!("/.git/hooks/pre-commit.{ending}`")),
                "{ran}"
            );
        }
        let doctor = yard.piton(&["doctor", "--format", "json"]).json();
        let checks = doctor["checks"].as_array().unwrap();
        let line = checks
            .iter()
            .find(|check| check["name"] == "git hooks")
            .unwrap();
        assert_eq!(line["status"], "warning", "{line}");

        // A second installation leaves the hook to the manager, and nothing is run twice.
        let ran = yard.piton(&["hooks", "install", "--hook", "pre-commit"]);
        assert_eq!(ran.code(), Some(5), "{ran}");
        yard.witness();
        yard.commit();
        let calls = yard.calls();
        assert!(
            calls.matches("own\n").count() <= 1 && calls.matches("[pre-commit]").count() <= 1,
            "{calls}"
        );
        assert_eq!(calls.matches("theirs\n").count(), 1, "{calls}");

        // After removing both in the other order, everything is as before.
        match manager.name {
            "husky" => yard.project.bash("git config --unset core.hooksPath"),
            name => yard.project.bash(&format!("{name} uninstall")),
        };
        let ran = yard.piton(&["hooks", "uninstall"]);
        assert_eq!(ran.code(), Some(0), "{} {ran}", manager.name);
        assert_eq!(yard.picture(), before, "{}", manager.name);
    }
}

#[test]
fn stubs_that_husky_leaves_behind_can_be_taken_away() {
    let yard = yard();
    yard.hook("pre-commit", &format!("#!/bin/sh\n{THEIRS}\n"));
    let before = yard.picture();
    yard.piton(&["hooks", "install"]);
    HUSKY.set_up(&yard);
    let husky = yard.picture();
    let ran = yard.piton(&["hooks", "uninstall", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(states(&ran)[0], "pre-commit restored", "{ran}");
    assert_eq!(yard.picture(), husky);
    assert_eq!(
        crate::hooks_install::picture(&yard.project.root().join(".git/hooks")),
        before
    );
}
