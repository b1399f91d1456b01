//! H23: a restore is previewed, reversible and limited to what it says.

use super::{Picture, count_runs, effects, exec, files_of, simple, told};
use crate::harness::TestProject;

/// Three steps: `a.txt` and `src/b.txt` are made, then changed, then one of them is deleted.
fn three_steps() -> (TestProject, [String; 3]) {
    let project = simple();
    let steps = [
        "echo a1 > a.txt; mkdir src; echo b1 > src/b.txt",
        "echo a2 > a.txt; echo c > src/c.txt",
        "rm src/b.txt; echo four >> notes.txt",
    ];
    let steps = steps.map(|script| {
        let made = exec(&project, script);
        made.assert_end("0 committed -");
        made.step()
    });
    (project, steps)
}

#[test]
fn h23_a_dry_run_lists_everything_and_changes_nothing() {
    let (project, steps) = three_steps();
    project.bash("echo mine > mine.txt");
    let (before, runs) = (Picture::of(&project), count_runs(&project));
    let preview = project.piton(["restore", "--format", "json", &steps[0], "--dry-run"]);
    assert_eq!(preview.code(), Some(0), "{preview}");
    assert_eq!(
        effects(&preview.json()),
        [
            "restored a.txt",
            "restored notes.txt",
            "restored src/b.txt",
            "removed src/c.txt"
        ]
    );
    let human = project.piton(["restore", &steps[0], "--dry-run"]);
    assert_eq!(
        human.stdout(),
        "restored    a.txt\nrestored    notes.txt\nrestored    src/b.txt\nremoved     src/c.txt\n",
    );
    assert_eq!(human.stderr(), format!("{} bash\n", steps[0]));
    before.assert_same(&project);
    assert_eq!(count_runs(&project), runs);
}

#[test]
fn h23_a_dry_run_names_what_is_kept_and_what_is_in_the_way() {
    let (project, steps) = three_steps();
    project.bash("echo 'my own' > a.txt; rm src/c.txt");
    let preview = project.piton(["restore", "--format", "json", &steps[0], "--dry-run"]);
    assert_eq!(preview.code(), Some(1), "it would be refused");
    assert_eq!(
        effects(&preview.json()),
        [
            "conflict a.txt",
            "restored notes.txt",
            "restored src/b.txt",
            "unchanged src/c.txt"
        ]
    );
}

#[test]
fn h23_a_restore_is_a_step_that_can_be_undone() {
    let (project, steps) = three_steps();
    project.bash("echo mine > mine.txt; echo staged > staged.txt; git add staged.txt");
    let before = Picture::of(&project);
    let (tree, tip) = (
        project.git(["rev-parse", "HEAD^{tree}"]),
        project.git(["rev-parse", "HEAD"]),
    );
    let restored = told(&project, &["restore", &steps[0]]);
    restored.assert_end("0 committed -");
    assert_eq!(
        (
            project.read("a.txt").as_str(),
            project.read("src/b.txt").as_str()
        ),
        ("a1\n", "b1\n")
    );
    assert!(!project.root().join("src/c.txt").exists());
    assert_eq!(
        project.git(["rev-parse", "HEAD^"]),
        tip,
        "the branch goes forward"
    );
    assert_eq!(
        files_of(&project, "HEAD"),
        ["a.txt", "notes.txt", "src/b.txt", "src/c.txt"]
    );
    before.assert_only(&project, &["a.txt", "notes.txt", "src"]);
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(project.git(["rev-parse", "HEAD^{tree}"]), tree);
    before.assert_only(&project, &["a.txt", "notes.txt", "src"]);
    assert_eq!(Picture::of(&project).status, before.status);
}

#[test]
fn h23_paths_limit_a_restore() {
    let (project, steps) = three_steps();
    let before = Picture::of(&project);
    told(&project, &["restore", &steps[0], "--paths", "src"]).assert_end("0 committed -");
    assert_eq!(
        (
            project.read("a.txt").as_str(),
            project.read("src/b.txt").as_str()
        ),
        ("a2\n", "b1\n")
    );
    assert_eq!(files_of(&project, "HEAD"), ["src/b.txt", "src/c.txt"]);
    before.assert_only(&project, &["src"]);
    project.assert_clean();
    told(&project, &["restore", &steps[0], "--paths", "../elsewhere"])
        .assert_end("2 - OUTSIDE_PATH");
}

#[test]
fn h23_a_file_that_was_changed_since_is_refused_by_its_name() {
    let (project, steps) = three_steps();
    project.bash("echo 'my own' > a.txt");
    let before = Picture::of(&project);
    let refused = told(&project, &["restore", &steps[0]]);
    refused.assert_end("1 - CHANGED_SINCE");
    assert!(
        refused.message().contains("`a.txt`"),
        "{}",
        refused.message()
    );
    before.assert_same(&project);
    // The others can be restored by their names.
    told(
        &project,
        &["restore", &steps[0], "--paths", "src", "notes.txt"],
    )
    .assert_end("0 committed -");
    assert_eq!(project.read("a.txt"), "my own\n");
    assert_eq!(project.git(["status", "--porcelain"]), " M a.txt\n");
}

#[test]
fn h23_a_restore_to_the_newest_step_has_nothing_to_do() {
    let (project, steps) = three_steps();
    let before = Picture::of(&project);
    let ran = project.piton(["restore", &steps[2]]);
    assert!(matches!(ran.code(), Some(0 | 1)), "{ran}");
    assert!(
        ran.stderr().contains("no later step changed anything"),
        "{ran}"
    );
    told(&project, &["restore", &steps[2], "--dry-run"]);
    told(&project, &["restore", "nothing-like-it"]).assert_end("2 - NOT_FOUND");
    before.assert_same(&project);
}

#[test]
fn h23_a_restore_knows_what_was_undone_in_between() {
    let (project, steps) = three_steps();
    told(&project, &["undo"]).assert_end("0 committed -");
    let before = Picture::of(&project);
    told(&project, &["restore", &steps[0]]).assert_end("0 committed -");
    assert_eq!(files_of(&project, "HEAD"), ["a.txt", "src/c.txt"]);
    assert_eq!(project.read("a.txt"), "a1\n");
    before.assert_only(&project, &["a.txt", "src/c.txt"]);
    project.assert_clean();
}

#[test]
fn h23_a_restore_of_uncommitted_steps_leaves_the_branch_alone() {
    let project = simple();
    let explicit = ["--checkpoint", "explicit"];
    let first = super::exec_with(&project, &explicit, "echo a1 > a.txt");
    super::exec_with(&project, &explicit, "echo a2 > a.txt; echo b > b.txt")
        .assert_end("0 skipped -");
    let before = Picture::of(&project);
    let restored = told(&project, &["restore", &first.step()]);
    assert_eq!(restored.ran.code(), Some(0), "{}", restored.ran);
    assert_eq!(project.read("a.txt"), "a1\n");
    assert!(!project.root().join("b.txt").exists());
    before.assert_only(&project, &["a.txt", "b.txt"]);
}
