//! Faults: the program is missing, fails or is killed; the installation is killed or cannot write.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;

use super::{USUAL, Yard, all, states};
use crate::harness::cmd_snapshot;

const OWN: &str = "#!/bin/sh\necho own >> ../calls\n";

/// Removes piton, also from the search path.
fn without_piton(yard: &Yard) {
    fs::remove_file(yard.program()).expect("it is there");
}

#[test]
fn without_piton_git_continues() {
    let yard = Yard::new();
    yard.hook("pre-commit", OWN);
    yard.piton(&["hooks", "install"]);
    without_piton(&yard);
    cmd_snapshot!(yard.commit(), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    piton: piton is not there: nothing was checked by `pre-commit`, and git goes on
    piton: piton is not there: nothing was checked by `prepare-commit-msg`, and git goes on
    piton: piton is not there: nothing was checked by `commit-msg`, and git goes on
    piton: piton is not there: nothing was checked by `post-commit`, and git goes on
    ");
    assert_eq!((yard.calls().as_str(), yard.commits()), ("own\n", 1));
    yard.project.assert_clean();
}

#[test]
fn without_piton_git_stops_if_required() {
    let yard = Yard::new();
    let settings = yard.project.home().join(".ai/config.yaml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, "hooks:\n  fail_closed: true\n").unwrap();
    yard.piton(&["hooks", "install"]);
    without_piton(&yard);
    cmd_snapshot!(yard.commit(), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    piton: piton is not there: nothing was checked by `pre-commit`, and `hooks.fail_closed` stops git
    hint: install piton; or leave hooks out this time: git -c core.hooksPath=/dev/null ...
    ");
    assert_eq!(yard.commits(), 0);
    let hint = yard.git(&[
        "-c",
        "core.hooksPath=/dev/null",
        "commit",
        "--quiet",
        "--message",
        "as the hint says",
    ]);
    assert_eq!((hint.code(), yard.commits()), (Some(0), 1), "{hint}");
    yard.project.assert_clean();
    fs::remove_file(&settings).unwrap();
    cmd_snapshot!(yard.piton(&["hooks", "status", "--hook", "pre-commit"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    pre-commit  setting differs  without piton it stops git, unlike the setting `hooks.fail_closed`
    ----- stderr -----
    hint: `piton hooks install --hook pre-commit` updates it
    ");
    assert_eq!(yard.states(&["install"]), all(&USUAL, "updated"));
    without_piton(&yard);
    assert_eq!((yard.commit().code(), yard.commits()), (Some(0), 2));
}

#[test]
fn a_project_may_require_it_but_not_relax_it() {
    let yard = Yard::new();
    let settings = yard.project.root().join(".ai/config.yaml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, "hooks:\n  fail_closed: true\n").unwrap();
    yard.piton(&["hooks", "install"]);
    without_piton(&yard);
    assert_eq!((yard.commit().code(), yard.commits()), (Some(1), 0));
    fs::write(&settings, "hooks:\n  fail_closed: false\n").unwrap();
    let user = yard.project.home().join(".ai/config.yaml");
    fs::create_dir_all(user.parent().unwrap()).unwrap();
    fs::write(user, "hooks:\n  fail_closed: true\n").unwrap();
    let ran = yard.piton(&["hooks", "install"]);
    assert!(
        ran.stderr()
            .contains("a project may tighten `hooks.fail_closed`, not loosen it"),
        "{ran}"
    );
    without_piton(&yard);
    assert_eq!((yard.commit().code(), yard.commits()), (Some(1), 0));
}

#[test]
fn a_failing_piton_does_not_block_git() {
    let yard = Yard::new();
    yard.piton(&["hooks", "install"]);
    let ends = [
        "exit 101",
        "exit 126",
        "exit 127",
        "kill -ABRT $$",
        "kill -SEGV $$",
        "kill -KILL $$",
        "exit 255",
    ];
    for (at, end) in ends.iter().enumerate() {
        yard.pretend(&format!("#!/bin/sh\n{end}\n"));
        let ran = yard.commit();
        assert_eq!(
            (ran.code(), yard.commits()),
            (Some(0), at + 1),
            "{end}: {ran}"
        );
        assert!(
            ran.stderr()
                .contains("nothing was checked by `pre-commit`, and git goes on\n"),
            "{end}: {ran}"
        );
    }
    // Not a program of this machine.
    yard.pretend("\u{7f}ELF is not all it takes");
    assert_eq!(
        (yard.commit().code(), yard.commits()),
        (Some(0), ends.len() + 1)
    );
    yard.project.assert_clean();
}

#[test]
fn a_failing_piton_blocks_git_if_required() {
    let yard = Yard::new();
    let mut command = yard.command(&yard.project.root());
    command
        .args(["hooks", "install"])
        .env("PITON_HOOKS_FAIL_CLOSED", "true")
        .output()
        .unwrap();
    for end in [
        "exit 101",
        "kill -ABRT $$",
        "kill -SEGV $$",
        "kill -KILL $$",
    ] {
        yard.pretend(&format!("#!/bin/sh\n{end}\n"));
        let ran = yard.commit();
        assert_eq!((ran.code(), yard.commits()), (Some(1), 0), "{end}: {ran}");
        assert!(
            ran.stderr()
                .contains("`hooks.fail_closed` stops git\nhint: "),
            "{end}: {ran}"
        );
    }
}

#[test]
fn a_program_that_has_moved_is_searched_on_the_search_path() {
    let yard = Yard::new();
    let elsewhere = yard.project.home().join("elsewhere");
    super::program(&elsewhere, "");
    fs::remove_file(&elsewhere).unwrap();
    yard.real();
    fs::rename(yard.program(), &elsewhere).unwrap();
    let mut command = yard
        .project
        .hermetic(elsewhere.to_str().unwrap(), &yard.project.root());
    assert!(
        command
            .args(["hooks", "install"])
            .output()
            .unwrap()
            .status
            .success()
    );
    fs::remove_file(&elsewhere).unwrap();
    cmd_snapshot!(yard.piton(&["hooks", "status", "--hook", "pre-commit"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    pre-commit  program missing  there is no `[HOME]/elsewhere`, so `piton` on the search path is used
    ----- stderr -----
    hint: `piton hooks install --hook pre-commit` updates it
    ");
    yard.witness();
    yard.commit();
    assert!(
        yard.calls()
            .starts_with("piton [hooks] [run] [pre-commit] [--]\n")
    );
}

#[test]
fn a_killed_installation_always_leaves_a_working_hook() {
    for place in ["hook-kept", "hook-put"] {
        for pass in 1..=6 {
            let yard = Yard::new();
            yard.hook("pre-commit", OWN);
            yard.hook("commit-msg", OWN);
            let before = yard.picture();
            let mut command = yard.command(&yard.project.root());
            command
                .args(["hooks", "install"])
                .env("PITON_FAILPOINT", format!("{place}:{pass}"));
            let ended = command.output().unwrap();
            assert_eq!(ended.status.signal(), Some(9), "{place}:{pass}: {ended:?}");
            // The earlier hooks run exactly once, with or without a stub.
            yard.witness();
            assert_eq!(yard.commit().code(), Some(0));
            let calls = yard.calls();
            assert_eq!(calls.matches("own\n").count(), 2, "{place}:{pass}: {calls}");
            if pass % 2 == 0 {
                let ran = yard.piton(&["hooks", "install", "--format", "json"]);
                assert_eq!(ran.code(), Some(0), "{place}:{pass}: {ran}");
                assert_eq!(yard.states(&["status"]), all(&USUAL, "installed"));
            }
            let ran = yard.piton(&["hooks", "uninstall"]);
            assert_eq!(ran.code(), Some(0), "{place}:{pass}: {ran}");
            let after: Vec<_> = yard
                .picture()
                .into_iter()
                .filter(|(name, ..)| !name.starts_with(".piton-hook-"))
                .collect();
            assert_eq!(after, before, "{place}:{pass}");
        }
    }
}

#[test]
fn a_killed_uninstallation_can_be_finished() {
    for pass in 1..=6 {
        let yard = Yard::new();
        yard.hook("pre-commit", OWN);
        yard.hook("commit-msg", OWN);
        let before = yard.picture();
        yard.piton(&["hooks", "install"]);
        let mut command = yard.command(&yard.project.root());
        command
            .args(["hooks", "uninstall"])
            .env("PITON_FAILPOINT", format!("hook-taken:{pass}"));
        assert_eq!(command.output().unwrap().status.signal(), Some(9));
        yard.witness();
        assert_eq!(yard.commit().code(), Some(0));
        assert_eq!(yard.calls().matches("own\n").count(), 2);
        assert_eq!(yard.piton(&["hooks", "uninstall"]).code(), Some(0));
        assert_eq!(yard.picture(), before);
    }
}

#[test]
fn an_installation_that_fails_is_reverted() {
    for (command, place) in [("install", "hook-put"), ("uninstall", "hook-taken")] {
        for pass in 1..=6 {
            let yard = Yard::new();
            yard.hook("pre-commit", OWN);
            yard.hook("post-rewrite", OWN);
            if command == "uninstall" {
                yard.piton(&["hooks", "install"]);
            }
            let before = yard.picture();
            let mut failing = yard.command(&yard.project.root());
            failing
                .args(["hooks", command])
                .env("PITON_FAILPOINT", format!("{place}:{pass}=error"));
            let ran = yard.project.ran(failing.output().unwrap());
            assert_eq!(ran.code(), Some(5), "{ran}");
            assert!(ran.stderr().contains("hint: nothing was changed"), "{ran}");
            assert_eq!(yard.picture(), before, "{command} {place}:{pass}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_written_stays_as_it_is() {
    let yard = Yard::new();
    yard.hook("pre-commit", OWN);
    let before = yard.picture();
    let set = |mode| fs::set_permissions(yard.hooks(), fs::Permissions::from_mode(mode)).unwrap();
    set(0o555);
    cmd_snapshot!(yard.project.piton_bound(["hooks", "install"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    ----- stderr -----
    error: cannot write `[PROJECT]/.git/hooks`: permission denied

    hint: nothing was changed: make the folder writable for you, or let its owner do it
    ");
    assert_eq!(yard.picture(), before);
    assert!(!yard.project.root().join(".git/piton/hooks.json").exists());
    set(0o755);
    yard.piton(&["hooks", "install"]);
    let installed = yard.picture();
    set(0o555);
    let ran = yard.project.piton_bound(["hooks", "uninstall"]);
    assert_eq!(ran.code(), Some(5), "{ran}");
    assert_eq!(yard.picture(), installed);
    let ran = yard
        .project
        .piton_bound(["hooks", "status", "--format", "json"]);
    assert_eq!(states(&ran), all(&USUAL, "installed"));
    set(0o755);
}

#[test]
fn several_at_once_do_not_get_in_each_others_way() {
    let yard = Yard::new();
    yard.hook("pre-commit", OWN);
    let before = yard.picture();
    let start = || {
        yard.command(&yard.project.root())
            .args(["hooks", "install"])
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    yard.witness();
    yard.commit();
    assert_eq!(yard.calls().matches("own\n").count(), 1);
    assert_eq!(yard.piton(&["hooks", "uninstall"]).code(), Some(0));
    assert_eq!(yard.picture(), before);
}
