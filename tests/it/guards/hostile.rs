//! G92 and G94: odd places of `.git`, and settings of a repository that want to run programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Picture, exec, simple, told};
use crate::harness::TestProject;

/// A program that leaves a trace when it runs.
fn trap(project: &TestProject) -> String {
    let path = project.home().join("trap");
    fs::write(
        &path,
        format!(
            "#!/bin/sh\necho sprung >> '{}'\ncat\n",
            project.home().join("sprung").display()
        ),
    )
    .expect("a trap");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    path.to_string_lossy().into_owned()
}

fn assert_not_sprung(project: &TestProject) {
    assert!(
        !project.home().join("sprung").exists(),
        "a program of the repository's choice ran"
    );
}

#[test]
fn g94_settings_of_the_repository_run_no_programs() {
    let project = simple();
    let trap = trap(&project);
    project.bash("git config commit.template ../home/none");
    for key in [
        "core.fsmonitor",
        "core.editor",
        "core.pager",
        "core.sshCommand",
        "core.askPass",
        "diff.external",
        "merge.x.driver",
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "gpg.program",
        "credential.helper",
        "sequence.editor",
        "core.gitProxy",
        "diff.x.textconv",
        "alias.commit",
        "uploadpack.packObjectsHook",
    ] {
        project.git(["config", key, &trap]);
    }
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    exec(&project, "echo b > b.txt; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_not_sprung(&project);
    project.bash("git config --unset core.fsmonitor");
    project.assert_clean();
}

#[test]
fn g94_a_filter_that_no_changed_file_has_does_not_run() {
    let project = simple()
        .file(".gitattributes", "*.evil filter=evil\n")
        .file("a.evil", "a\n");
    let trap = trap(&project);
    project.bash("git add .; git commit -qm attributes; sleep 0.02; touch .git/index");
    project.bash(&format!(
        "git config filter.evil.clean '{trap}'; git config filter.evil.smudge '{trap}'"
    ));
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    exec(&project, "echo b > b.txt; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_not_sprung(&project);
}

#[test]
fn g92_git_may_be_a_file() {
    let project = simple();
    project.bash("mv .git ../data; echo 'gitdir: ../data' > .git");
    let before = Picture::of(&project);
    exec(&project, "echo a > a.txt; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    before.assert_same(&project);
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    before.assert_only(&project, &["a.txt"]);
    assert_eq!(project.read(".git"), "gitdir: ../data\n");
    project.assert_clean();
}

#[test]
fn g92_git_may_be_a_link() {
    let project = simple();
    project.bash("mv .git ../data; ln -s ../data .git");
    let before = Picture::of(&project);
    exec(&project, "echo a > a.txt; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    before.assert_same(&project);
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    before.assert_only(&project, &["a.txt"]);
    assert_eq!(
        fs::read_link(project.root().join(".git"))
            .expect("still a link")
            .to_string_lossy(),
        "../data"
    );
    project.assert_clean();
}

#[test]
fn g92_a_git_file_that_leads_nowhere_is_refused() {
    let project = TestProject::without_git().file(".git", "gitdir: ../nowhere\n");
    let refused = exec(&project, "touch ran");
    assert_eq!(refused.ran.code(), Some(5), "{}", refused.ran);
    assert!(!project.root().join("ran").exists());
    let project = TestProject::without_git().file(".git", "nonsense");
    let refused = exec(&project, "touch ran");
    assert_eq!(refused.ran.code(), Some(5), "{}", refused.ran);
    assert_eq!(project.files(), [] as [String; 0]);
}

#[test]
fn g92_worktrees_are_apart_from_each_other() {
    let project = simple();
    project.git(["worktree", "add", "-q", "-b", "side", "../linked"]);
    let linked = fs::canonicalize(project.root().join("../linked")).expect("it was made");
    let place = linked.to_string_lossy().into_owned();
    let before = Picture::of(&project);
    let ran = project.piton(["-C", &place, "exec", "--", "bash", "-c", "echo a > a.txt"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let now = Picture::of(&project);
    assert_eq!(
        (now.files, now.staged, now.status),
        (before.files, before.staged, before.status)
    );
    assert_eq!(project.git(["log", "-1", "--format=%s", "main"]), "start\n");
    // The newest step of the other worktree is not this one's to undo.
    told(&project, &["undo"]).assert_end("1 - NOTHING_TO_UNDO");
    assert_eq!(project.piton(["-C", &place, "undo"]).code(), Some(0));
    assert!(!linked.join("a.txt").exists());
    super::assert_whole(&project, &linked);
}

#[test]
fn g94_a_step_cannot_move_the_repository_away() {
    let project = simple();
    // The journal names the process of a command right after it was started. A command that takes the journal away
    // before that is killed, so this one waits until it is named.
    let ran = exec(
        &project,
        "until grep -q tool_started .git/piton/runs/*/journal.jsonl; do sleep 0.01; done; mv .git ../stolen; echo a > a.txt",
    );
    assert_eq!(ran.ran.code(), Some(5), "{}", ran.ran);
    assert_eq!(project.read("a.txt"), "a\n");
    project.bash("rm -rf .git; mv ../stolen .git");
    super::assert_whole(&project, &project.root());
    let recovered = told(&project, &["recover"]);
    assert_eq!(recovered.ran.code(), Some(0), "{}", recovered.ran);
}

#[test]
fn g94_a_command_that_moves_the_repository_away_at_once_is_refused_as_well() {
    let project = simple();
    let ran = exec(&project, "mv .git ../stolen");
    assert_eq!(ran.ran.code(), Some(5), "{}", ran.ran);
    project.bash("rm -rf .git; mv ../stolen .git");
    super::assert_whole(&project, &project.root());
    let recovered = told(&project, &["recover"]);
    assert_eq!(recovered.ran.code(), Some(0), "{}", recovered.ran);
}

#[test]
fn g94_piton_inside_of_git_data_is_refused() {
    let project = simple().within(".git/objects");
    let ran = project.piton(["exec", "--", "touch", "ran"]);
    assert!(matches!(ran.code(), Some(2 | 5)), "{ran}");
    assert!(!project.root().join(".git/objects/ran").exists());
    let home = TestProject::without_git();
    home.bash("git init -q -b main ../home");
    let place = home.home().to_string_lossy().into_owned();
    let ran = home.piton(["-C", &place, "exec", "--", "touch", "ran"]);
    assert!(matches!(ran.code(), Some(2 | 5)), "{ran}");
    assert!(!home.home().join("ran").exists());
}
