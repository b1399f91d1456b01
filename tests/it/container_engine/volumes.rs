//! Project folders mounted in a container, and checkpoints of the changes in them.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::{Engine, assert_nothing_left, container, run};

#[test]
fn changes_in_a_volume_become_a_commit_and_are_rolled_back_when_it_fails() {
    let engine = Engine::start();
    let config = "image: alpine:3\nvolumes: [\"docs:/docs\"]\nworking_dir: /docs\ncommand: [sh, -c, \
                  'echo two >> notes.txt; mkdir sub; echo new > sub/new.txt; exit \"$PITON_PARAM_STATUS\"']";
    let more = "mutates_state: true\nparameters:\n  - {name: status, type: integer, default: 0}\n";
    let project = container(
        engine
            .project()
            .file("docs/notes.txt", "one\n")
            .file("mine.txt", "mine\n"),
        "note",
        config,
        more,
    )
    .committed()
    .file("mine.txt", "mine, changed\n");
    let (ran, result) = run(
        &project,
        &["note", "--checkpoint", "auto", "--param", "status=4"],
    );
    assert_eq!(
        (ran.code(), &result["exit_code"]),
        (Some(1), &json!(4)),
        "{ran}"
    );
    assert_eq!(result["checkpoint"]["status"], "rolled_back", "{ran}");
    assert_eq!(project.read("docs/notes.txt"), "one\n");
    assert!(!project.root().join("docs/sub").exists());
    let (ran, result) = run(&project, &["note", "--checkpoint", "auto"]);
    assert_eq!(
        (ran.code(), &result["checkpoint"]["status"]),
        (Some(0), &json!("committed")),
        "{ran}"
    );
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "docs/notes.txt\ndocs/sub/new.txt\n"
    );
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt\n");
    // The files belong to the user who called piton.
    let (own, made) = (
        project.root().join("mine.txt"),
        project.root().join("docs/sub/new.txt"),
    );
    let owner = |path| {
        fs::metadata(path)
            .map(|it| (it.uid(), it.gid()))
            .expect("a file")
    };
    assert_eq!(owner(made), owner(own));
    assert_nothing_left(&engine, &project);
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert_eq!(project.read("docs/notes.txt"), "one\n");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn what_a_directive_does_not_let_it_write_is_rolled_back() {
    let engine = Engine::start();
    let config = "image: alpine:3\nvolumes: [\".:/project\"]\ncommand: [sh, -c, 'echo x > /project/outside.txt']";
    let project = container(
        engine.project().file("docs/a.txt", "a\n"),
        "write",
        config,
        "",
    )
    .directive("go", ["write"]);
    let text = project
        .read(".ai/directives/go.md")
        .replace("path=\"**\"", "path=\"docs/**\"");
    let project = project.file(".ai/directives/go.md", text).committed();
    let ran = project.piton(["run", "go", "--checkpoint", "auto", "--format", "json"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(ran.stdout().contains("outside.txt"), "{ran}");
    project.assert_clean();
}

#[test]
fn a_read_only_volume_cannot_be_written_and_the_project_path_is_passed_on() {
    let engine = Engine::start();
    let config = "image: alpine:3\nvolumes:\n  - {source: ./docs, target: /docs, read_only: true}\n  - docs/more:/more:rw\n  \
                  - .:/project:ro\ncommand: [sh, -c, 'cat \"$PITON_PROJECT/docs/a.txt\"; echo x > /docs/b 2>/dev/null || echo refused; \
                  echo y > /more/b; echo x > /project/b 2>/dev/null || echo refused']";
    let project = container(engine.project(), "look", config, "")
        .file("docs/a.txt", "a\n")
        .file("docs/more/keep", "")
        .committed();
    let (ran, result) = run(&project, &["look"]);
    assert_eq!(result["result"]["stdout"], "a\nrefused\nrefused\n", "{ran}");
    assert_eq!(project.git(["status", "--porcelain"]), "?? docs/more/b\n");
}

#[test]
fn the_git_folder_cannot_be_written_through_any_mount() {
    let engine = Engine::start();
    let attack = "for git in /all/.git /all/nested/.git; do echo x > $git/config 2>/dev/null && echo broken; \
                  echo x > $git/hooks/pre-commit 2>/dev/null && echo broken; rm -rf $git 2>/dev/null && echo broken; \
                  mv $git /all/moved 2>/dev/null && echo broken; done; echo ok > /all/file";
    let config =
        format!("image: alpine:3\nvolumes: [\".:/all\"]\ncommand: [sh, -c, \"{attack}; true\"]");
    let project = container(engine.project(), "attack", &config, "").committed();
    project.bash("git init -q nested; git -C nested commit -q --allow-empty -m start");
    let before = fs::read(project.root().join(".git/config")).expect("a file");
    let (ran, result) = run(&project, &["attack"]);
    assert_eq!(
        (ran.code(), &result["result"]["stdout"]),
        (Some(0), &json!("")),
        "{ran}"
    );
    assert_eq!(project.read("file"), "ok\n");
    assert_eq!(
        fs::read(project.root().join(".git/config")).expect("a file"),
        before
    );
    project.git(["fsck", "--strict"]);
    project.bash("git -C nested fsck --strict");
}
