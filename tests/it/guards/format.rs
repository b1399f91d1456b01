//! Kinds of repositories: what piton cannot serve is refused by name before the command runs.

use super::{Picture, count_runs, exec, exec_with, simple, told};
use crate::harness::TestProject;

/// The command is refused with exit code 5, the name of what is in the way, and nothing happened.
#[track_caller]
fn assert_refused(project: &TestProject, named: &str) {
    let before = Picture::of(project);
    for mode in ["auto", "explicit"] {
        let refused = exec_with(project, &["--checkpoint", mode], "touch ran");
        refused.assert_end("5 - UNSUPPORTED_REPOSITORY");
        assert!(refused.message().contains(named), "{}", refused.message());
        let suggestion = refused.last()["error"]["suggestion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(suggestion.contains("--checkpoint disabled"), "{suggestion}");
    }
    before.assert_same(project);
    assert_eq!(count_runs(project), 0, "no run is recorded");
    assert_eq!(project.git(["for-each-ref", "refs/piton"]), "");
    // Where no checkpoint is wanted the kind of repository does not matter.
    exec_with(project, &["--checkpoint", "disabled"], "touch ran").assert_end("0 skipped -");
    before.assert_only(project, &["ran"]);
}

#[test]
fn g101_an_extension_that_only_git_knows_is_refused_by_name() {
    let project = TestProject::without_git();
    project.bash(
        "git init -q -b main --object-format=sha256; git config extensions.compatObjectFormat sha1; \
         echo a > a.txt; git add .; git commit -qm start",
    );
    assert_refused(&project, "an extension of git's format");
}

#[test]
fn g101_an_unknown_extension_is_refused_by_name() {
    for (setting, named) in [
        ("extensions.fromTheFuture true", "extensions.fromthefuture"),
        ("extensions.objectFormat sha3", "extensions.objectFormat"),
    ] {
        let project = simple();
        project.bash(&format!(
            "git config core.repositoryFormatVersion 1; git config {setting}"
        ));
        let refused = exec(&project, "touch ran");
        refused.assert_end("5 - UNSUPPORTED_REPOSITORY");
        assert!(
            refused.last().to_string().contains(named),
            "{}",
            refused.last()
        );
        assert!(!project.root().join("ran").exists(), "{setting}");
    }
}

#[test]
fn g101_a_shallow_clone_is_supported() {
    let project = TestProject::without_git();
    project.bash(
        "git init -q -b main ../origin; cd ../origin; for n in 1 2 3; do echo $n > a.txt; git add .; \
         git commit -qm $n; done; cd ../project; git clone -q --depth 1 file://$PWD/../origin .",
    );
    let before = Picture::of(&project);
    exec(&project, "echo b > b.txt; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    before.assert_same(&project);
    let made = exec(&project, "echo b > b.txt");
    made.assert_end("0 committed -");
    before.assert_only(&project, &["b.txt"]);
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(
        project.git(["rev-parse", "--is-shallow-repository"]),
        "true\n"
    );
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "3\n");
    project.assert_clean();
}

#[test]
fn g101_a_filter_that_git_does_not_know_converts_nothing() {
    let project = simple().file(".gitattributes", "*.txt filter=none\n");
    project.bash("git add .; git commit -qm attributes");
    exec(&project, "echo x > a.txt").assert_end("0 committed -");
    assert_eq!(project.git(["show", "HEAD:a.txt"]), "x\n");
    project.assert_clean();
}

#[test]
fn g101_content_filters_count_wherever_they_are_set() {
    for attributes in [
        "mkdir -p .git/info; echo '*.bin filter=case' > .git/info/attributes",
        "echo '*.bin filter=case' > ../home/attributes; git config core.attributesFile $PWD/../home/attributes",
        "mkdir sub; echo '*.bin filter=case' > sub/.gitattributes",
    ] {
        let project = simple();
        project.bash(attributes);
        project.bash(
            "git config filter.case.clean 'tr a-z A-Z'; git config filter.case.smudge 'tr A-Z a-z'",
        );
        let before = Picture::of(&project);
        exec(&project, "mkdir -p sub; echo x > sub/a.bin").assert_end("0 committed -");
        assert_eq!(
            project.git(["show", "HEAD:sub/a.bin"]),
            "X\n",
            "{attributes}"
        );
        assert_eq!(project.read("sub/a.bin"), "x\n");
        before.assert_only(&project, &["sub"]);
    }
}

#[test]
fn g101_a_bare_repository_is_refused() {
    let project = simple();
    project.bash("git clone -q --bare . ../bare.git");
    let bare = project.root().join("../bare.git");
    let ran = project.piton(["-C", &bare.to_string_lossy(), "exec", "--", "touch", "ran"]);
    assert!(matches!(ran.code(), Some(2 | 5)), "{ran}");
    assert!(!bare.join("ran").exists());
}

#[test]
fn index_formats_of_git_are_kept() {
    for version in ["2", "3", "4"] {
        let project = simple().file("other.txt", "o\n").committed();
        project.bash(&format!(
            "git update-index --index-version {version}; echo n > new.txt; git add -N new.txt; git update-index --untracked-cache"
        ));
        let before = Picture::of(&project);
        exec(&project, "echo four >> notes.txt").assert_end("0 committed -");
        before.assert_only(&project, &["notes.txt"]);
        let kept = project.git(["update-index", "--show-index-version"]);
        let expected = if version == "2" { "3" } else { version };
        assert_eq!(kept.trim_end(), expected, "version {version}");
        assert_eq!(Picture::of(&project).status, before.status);
    }
}
