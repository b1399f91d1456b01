//! No hook or a plain one: installed, chained, and restored by the uninstallation.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use super::{USUAL, Yard, all, link, states};
use crate::harness::cmd_snapshot;

/// A hook that records its calls, like the witness.
const OWN: &str = r#"#!/bin/sh
{ printf 'own'; printf ' [%s]' "$@"; echo; cat; } >> "$PWD/../calls"
exit ${OWN_STATUS:-0}
"#;

#[test]
fn hooks_are_installed_where_none_is() {
    let yard = Yard::new();
    cmd_snapshot!(yard.piton(&["hooks", "install"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    pre-commit          installed
    prepare-commit-msg  installed
    commit-msg          installed
    post-commit         installed
    post-rewrite        installed
    pre-push            installed
    ----- stderr -----
    ");
    assert_eq!(yard.states(&["status"]), all(&USUAL, "installed"));
    yard.witness();
    assert_eq!(yard.commit().code(), Some(0));
    assert_eq!(
        yard.calls(),
        "piton [hooks] [run] [pre-commit] [--]\n\
         piton [hooks] [run] [prepare-commit-msg] [--] [.git/COMMIT_EDITMSG] [message]\n\
         piton [hooks] [run] [commit-msg] [--] [.git/COMMIT_EDITMSG]\n\
         piton [hooks] [run] [post-commit] [--]\n"
    );
}

#[test]
fn outside_of_a_run_two_hooks_do_not_start_piton() {
    let yard = Yard::new();
    yard.piton(&["hooks", "install"]);
    yard.witness();
    let own = yard.project.root().join(".git/piton");
    // No process holds the lock, and no run waits.
    fs::write(own.join("lock"), "").unwrap();
    assert_eq!(yard.commit().code(), Some(0));
    let quiet = "piton [hooks] [run] [pre-commit] [--]\npiton [hooks] [run] [commit-msg] [--] [.git/COMMIT_EDITMSG]\n";
    assert_eq!(yard.calls(), quiet);
    fs::write(own.join("run"), "a run that waits\n").unwrap();
    assert_eq!(yard.commit().code(), Some(0));
    assert_eq!(yard.calls().lines().count(), 4);
    // Without a folder of piton there is nothing to check.
    fs::remove_dir_all(own).unwrap();
    assert_eq!(yard.commit().code(), Some(0));
    assert_eq!(yard.calls(), quiet);
}

#[test]
fn installing_again_changes_nothing() {
    let yard = Yard::new();
    yard.hook("pre-commit", OWN);
    yard.piton(&["hooks", "install"]);
    let inodes = || -> Vec<u64> {
        let files = fs::read_dir(yard.hooks())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().ino());
        let mut files: Vec<u64> = files.collect();
        files.sort_unstable();
        files
    };
    let before = (yard.picture(), inodes());
    assert_eq!(yard.states(&["install"]), all(&USUAL, "unchanged"));
    assert_eq!((yard.picture(), inodes()), before);
}

#[test]
fn only_the_hooks_asked_for_are_installed() {
    let yard = Yard::new();
    let ran = yard.piton(&[
        "hooks",
        "install",
        "--hook",
        "pre-push",
        "--hook",
        "commit-msg",
        "--format",
        "json",
    ]);
    assert_eq!(states(&ran), ["commit-msg installed", "pre-push installed"]);
    let ran = yard.piton(&["hooks", "status", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "what was asked for is there: {ran}");
    assert_eq!(
        states(&ran),
        [
            "pre-commit not_installed",
            "prepare-commit-msg not_installed",
            "commit-msg installed",
            "post-commit not_installed",
            "post-rewrite not_installed",
            "pre-push installed"
        ]
    );
    let ran = yard.piton(&[
        "hooks",
        "status",
        "--hook",
        "pre-push",
        "--hook",
        "pre-commit",
    ]);
    assert_eq!(ran.code(), Some(1), "asked for by name: {ran}");
}

#[test]
fn nothing_installed_needs_attention() {
    let yard = Yard::new();
    cmd_snapshot!(yard.piton(&["hooks", "status"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    pre-commit          not installed
    prepare-commit-msg  not installed
    commit-msg          not installed
    post-commit         not installed
    post-rewrite        not installed
    pre-push            not installed
    ----- stderr -----
    hint: `piton hooks install` installs them
    ");
    assert_eq!(yard.states(&["uninstall"]), all(&USUAL, "not_installed"));
    assert_eq!(yard.piton(&["hooks", "uninstall"]).code(), Some(0));
}

#[test]
fn a_hook_that_is_there_runs_first_with_the_same_arguments() {
    let yard = Yard::new();
    yard.hook("commit-msg", OWN);
    cmd_snapshot!(yard.piton(&["hooks", "install", "--hook", "commit-msg"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    commit-msg  installed  the hook in `[PROJECT]/.git/hooks/commit-msg.before-piton` runs first
    ----- stderr -----
    ");
    yard.witness();
    assert_eq!(yard.commit().code(), Some(0));
    assert_eq!(
        yard.calls(),
        "own [.git/COMMIT_EDITMSG]\npiton [hooks] [run] [commit-msg] [--] [.git/COMMIT_EDITMSG]\n"
    );
}

#[test]
fn a_hook_that_fails_ends_it_with_its_own_exit_code() {
    let yard = Yard::new();
    yard.hook("pre-commit", "#!/bin/sh\necho own >> ../calls\nexit 7\n");
    yard.piton(&["hooks", "install"]);
    yard.witness();
    assert_eq!(yard.commit().code(), Some(1));
    assert_eq!(
        (yard.calls().as_str(), yard.commits()),
        ("own\n", 0),
        "piton is not asked any more"
    );
    let stub = yard.hooks().join("pre-commit");
    let ended = yard
        .project
        .hermetic(stub.to_str().unwrap(), &yard.project.root())
        .status()
        .unwrap();
    assert_eq!(ended.code(), Some(7));
}

#[test]
fn git_refuses_what_piton_refuses() {
    let yard = Yard::new();
    yard.piton(&["hooks", "install"]);
    yard.pretend("#!/bin/sh\nexit 1\n");
    assert_eq!((yard.commit().code(), yard.commits()), (Some(1), 0));
    // Ctrl-C also refuses the commit.
    yard.pretend("#!/bin/sh\nexit 130\n");
    assert_eq!((yard.commit().code(), yard.commits()), (Some(1), 0));
}

#[test]
fn both_hooks_read_all_of_gits_input() {
    let yard = Yard::new();
    for name in ["pre-push", "post-rewrite"] {
        yard.hook(name, OWN);
    }
    yard.piton(&[
        "hooks",
        "install",
        "--hook",
        "pre-push",
        "--hook",
        "post-rewrite",
    ]);
    yard.witness();
    yard.commit();
    let old = yard.git(&["rev-parse", "HEAD"]).stdout();
    yard.git(&["commit", "--quiet", "--amend", "--message", "another"]);
    let new = yard.git(&["rev-parse", "HEAD"]).stdout();
    let pair = format!("{} {}", old.trim(), new);
    assert_eq!(
        yard.calls(),
        format!("own [amend]\n{pair}piton [hooks] [run] [post-rewrite] [--] [amend]\n{pair}")
    );

    yard.project
        .git(["init", "--quiet", "--bare", "../remote.git"]);
    yard.project
        .git(["push", "--quiet", "../remote.git", "main", "main:other"]);
    let zero = "0".repeat(40);
    let refs = format!(
        "refs/heads/main {0} refs/heads/main {zero}\nrefs/heads/main {0} refs/heads/other {zero}\n",
        new.trim()
    );
    let remote = "../remote.git";
    assert_eq!(
        yard.calls(),
        format!(
            "own [{remote}] [{remote}]\n{refs}piton [hooks] [run] [pre-push] [--] [{remote}] [{remote}]\n{refs}"
        )
    );
}

#[test]
fn input_reaches_both_byte_for_byte() {
    let yard = Yard::new();
    yard.hook("pre-push", OWN);
    yard.piton(&["hooks", "install", "--hook", "pre-push"]);
    yard.witness();
    let stub = yard.hooks().join("pre-push");
    let large = "x".repeat(300_000);
    for input in [
        "",
        "\n",
        "one\n\n\n",
        "no end",
        "a\\b %s $HOME 'q' \"q\"\n",
        "\u{fc}\u{1F600}\n",
        &large,
    ] {
        let file = yard.project.root().join("input");
        fs::write(&file, input).unwrap();
        let mut command = yard
            .project
            .hermetic(stub.to_str().unwrap(), &yard.project.root());
        let ended = command
            .args(["a b", "", "*"])
            .stdin(fs::File::open(&file).unwrap())
            .output()
            .unwrap();
        assert!(
            ended.status.success() && ended.stderr.is_empty(),
            "{ended:?}"
        );
        let expected = format!(
            "own [a b] [] [*]\n{input}piton [hooks] [run] [pre-push] [--] [a b] [] [*]\n{input}"
        );
        assert!(yard.calls() == expected, "{:?}", input.get(..20));
    }
    // A hook that does not read its input must not fail.
    yard.hook("pre-push.before-piton", "#!/bin/sh\nexit 0\n");
    yard.pretend("#!/bin/sh\nexit 0\n");
    let mut command = yard
        .project
        .hermetic(stub.to_str().unwrap(), &yard.project.root());
    let file = fs::File::open(yard.project.root().join("input")).unwrap();
    let ended = command.stdin(file).output().unwrap();
    assert!(
        ended.status.success() && ended.stderr.is_empty(),
        "{ended:?}"
    );
}

#[test]
fn uninstalling_restores_every_byte_and_mode() {
    let yard = Yard::new();
    let scripts = yard.project.root().join("scripts");
    super::program(&scripts.join("check"), OWN);
    yard.hook("pre-commit", OWN);
    fs::set_permissions(
        yard.hooks().join("pre-commit"),
        fs::Permissions::from_mode(0o751),
    )
    .unwrap();
    yard.hook("commit-msg", "no interpreter is named\r\n\u{0}\u{1}binary");
    fs::set_permissions(
        yard.hooks().join("commit-msg"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    link("../../scripts/check", &yard.hooks().join("post-commit"));
    link("nowhere", &yard.hooks().join("pre-push"));
    let before = yard.picture();
    let ran = yard.piton(&["hooks", "install"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_ne!(yard.picture(), before);
    yard.witness();
    assert_eq!(
        yard.commit().code(),
        Some(0),
        "a hook that may not be executed is not run, as before"
    );
    assert_eq!(
        yard.calls(),
        "own []\npiton [hooks] [run] [pre-commit] [--]\n\
         piton [hooks] [run] [prepare-commit-msg] [--] [.git/COMMIT_EDITMSG] [message]\n\
         piton [hooks] [run] [commit-msg] [--] [.git/COMMIT_EDITMSG]\n\
         own []\npiton [hooks] [run] [post-commit] [--]\n"
    );
    cmd_snapshot!(yard.piton(&["hooks", "uninstall"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    pre-commit          restored  the previous hook was restored
    prepare-commit-msg  removed
    commit-msg          restored  the previous hook was restored
    post-commit         restored  the previous hook was restored
    post-rewrite        removed
    pre-push            restored  the previous hook was restored
    ----- stderr -----
    ");
    assert_eq!(yard.picture(), before);
    assert!(!yard.project.root().join(".git/piton/hooks.json").exists());
}

#[test]
fn what_was_edited_is_left_alone() {
    let yard = Yard::new();
    yard.hook("commit-msg", OWN);
    yard.piton(&["hooks", "install"]);
    let stub = yard.hooks().join("pre-commit");
    let text = fs::read_to_string(&stub).unwrap();
    fs::write(&stub, format!("{text}echo mine\n")).unwrap();
    fs::write(
        yard.hooks().join("commit-msg.before-piton"),
        "#!/bin/sh\necho edited\n",
    )
    .unwrap();
    let before = yard.picture();
    cmd_snapshot!(yard.piton(&["hooks", "status", "--hook", "pre-commit", "--hook", "commit-msg"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    pre-commit  edited               the stub was edited
    commit-msg  former hook changed  `[PROJECT]/.git/hooks/commit-msg.before-piton` was edited; it is run as it is now
    ----- stderr -----
    hint: remove `[PROJECT]/.git/hooks/pre-commit` and install again, if this is unintended
    hint: `piton hooks install --hook commit-msg` updates it
    ");
    cmd_snapshot!(yard.piton(&["hooks", "uninstall", "--hook", "pre-commit", "--hook", "commit-msg"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    pre-commit  refused  the stub was edited, and piton does not remove your changes
    commit-msg  refused  `[PROJECT]/.git/hooks/commit-msg.before-piton` is not the previous hook
    ----- stderr -----
    hint: take your lines out of `[PROJECT]/.git/hooks/pre-commit`, remove it, and uninstall again
    hint: `piton hooks install --hook commit-msg` accepts it as it is now; then uninstall again
    ");
    assert_eq!(yard.picture(), before);
    let ran = yard.piton(&["hooks", "install", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "one of them is refused: {ran}");
    assert_eq!(
        states(&ran)[..3],
        [
            "pre-commit refused",
            "prepare-commit-msg unchanged",
            "commit-msg updated"
        ]
    );
    assert_eq!(
        fs::read_to_string(&stub).unwrap(),
        format!("{text}echo mine\n")
    );
    assert_eq!(
        yard.states(&["uninstall", "--hook", "commit-msg"]),
        ["commit-msg restored"]
    );
    assert_eq!(
        fs::read_to_string(yard.hooks().join("commit-msg")).unwrap(),
        "#!/bin/sh\necho edited\n"
    );
}

#[test]
fn a_former_hook_that_is_gone_is_said() {
    let yard = Yard::new();
    yard.hook("pre-commit", OWN);
    yard.piton(&["hooks", "install", "--hook", "pre-commit"]);
    fs::remove_file(yard.hooks().join("pre-commit.before-piton")).unwrap();
    assert_eq!(
        yard.states(&["status", "--hook", "pre-commit"]),
        ["pre-commit before_missing"]
    );
    assert_eq!(
        yard.states(&["install", "--hook", "pre-commit"]),
        ["pre-commit updated"]
    );
    assert_eq!(
        yard.states(&["status", "--hook", "pre-commit"]),
        ["pre-commit installed"]
    );
    // A user may put a hook there at any time.
    yard.hook("pre-commit.before-piton", OWN);
    assert_eq!(
        yard.states(&["status", "--hook", "pre-commit"]),
        ["pre-commit before_edited"]
    );
    yard.witness();
    yard.commit();
    assert_eq!(
        yard.calls(),
        "own []\npiton [hooks] [run] [pre-commit] [--]\n"
    );
}

#[test]
fn another_hook_in_the_place_of_the_stub_is_noticed() {
    let yard = Yard::new();
    yard.hook("commit-msg", OWN);
    yard.piton(&["hooks", "install"]);
    for name in ["pre-commit", "commit-msg"] {
        yard.hook(name, "#!/bin/sh\necho new\n");
    }
    fs::remove_file(yard.hooks().join("pre-push")).unwrap();
    let ran = yard.piton(&["hooks", "status"]);
    cmd_snapshot!(ran, @"
    success: false
    exit_code: 1
    ----- stdout -----
    pre-commit          replaced   another hook is in its place
    prepare-commit-msg  installed
    commit-msg          replaced   another hook is in its place; the previous hook is still in `[PROJECT]/.git/hooks/commit-msg.before-piton`
    post-commit         installed
    post-rewrite        installed
    pre-push            replaced   the stub is gone
    ----- stderr -----
    hint: `piton hooks install` restores it, or shows what to write instead
    ");
    let ran = yard.piton(&["hooks", "install", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(
        states(&ran),
        [
            "pre-commit installed",
            "prepare-commit-msg unchanged",
            "commit-msg refused",
            "post-commit unchanged",
            "post-rewrite unchanged",
            "pre-push installed"
        ]
    );
    let ran = yard.piton(&["hooks", "uninstall", "--hook", "commit-msg"]);
    assert_eq!(ran.code(), Some(5), "neither of the two is lost: {ran}");
}

#[test]
fn an_older_stub_is_brought_up_to_date() {
    let yard = Yard::new();
    yard.hook("pre-commit", OWN);
    yard.piton(&["hooks", "install", "--hook", "pre-commit"]);
    let stub = yard.hooks().join("pre-commit");
    let new = fs::read_to_string(&stub).unwrap();
    fs::write(&stub, new.replace("hook stub 3 ", "hook stub 1 ")).unwrap();
    assert_eq!(
        yard.states(&["status", "--hook", "pre-commit"]),
        ["pre-commit outdated"]
    );
    assert_eq!(
        yard.states(&["install", "--hook", "pre-commit"]),
        ["pre-commit updated"]
    );
    assert_eq!(fs::read_to_string(&stub).unwrap(), new);
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(
        yard.states(&["status", "--hook", "pre-commit"]),
        ["pre-commit edited"]
    );
    assert_eq!(
        yard.states(&["install", "--hook", "pre-commit"]),
        ["pre-commit updated"]
    );
    assert_eq!(yard.states(&["uninstall"])[0], "pre-commit restored");
    assert_eq!(fs::read_to_string(&stub).unwrap(), OWN);
}

#[test]
fn a_folder_in_the_place_of_a_hook_is_refused() {
    let yard = Yard::new();
    fs::create_dir_all(yard.hooks().join("pre-push")).unwrap();
    let ran = yard.piton(&["hooks", "install", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(states(&ran)[5], "pre-push refused");
    let ran = yard.piton(&["hooks", "install", "--hook", "pre-push"]);
    assert_eq!(ran.code(), Some(5), "{ran}");
}

#[test]
fn a_hook_that_git_does_not_have_is_wrong_usage() {
    let ran = Yard::new().piton(&["hooks", "install", "--hook", "pre-comit"]);
    assert_eq!(ran.code(), Some(2));
    assert!(
        ran.stderr()
            .contains("a similar value exists: 'pre-commit'"),
        "{ran}"
    );
}
