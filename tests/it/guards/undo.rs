//! Undo and redo: each a step of its own, on top of what is there now.

use super::{Picture, count_runs, exec, exec_with, files_of, simple, told};
use crate::harness::TestProject;

/// A project in which the user has staged one change and not staged another.
fn dirty() -> TestProject {
    let project = simple().file("mine.txt", "mine\n").committed();
    project.bash("echo staged >> mine.txt; git add mine.txt; echo unstaged >> mine.txt; echo new > untracked.txt");
    project
}

#[test]
fn h23_undo_undoes_the_newest_step_with_a_new_commit() {
    let project = dirty();
    let first = exec(&project, "echo a > a.txt");
    let before = Picture::of(&project);
    let second = exec(&project, "echo four >> notes.txt; echo b > b.txt");
    let undone = told(&project, &["undo"]);
    undone.assert_end("0 committed -");
    assert_eq!(project.read("notes.txt"), "one\ntwo\nthree\n");
    assert!(!project.root().join("b.txt").exists());
    assert_eq!(project.read("a.txt"), "a\n");
    let parent = project.git(["rev-parse", "HEAD^"]);
    assert_eq!(
        parent.trim_end(),
        second.commit(),
        "the branch goes forward"
    );
    assert_eq!(
        project.git(["rev-parse", "HEAD^{tree}"]),
        project.git(["rev-parse", &format!("{}^{{tree}}", first.commit())])
    );
    let message = project.git(["log", "-1", "--format=%B"]);
    assert!(
        message.contains(&format!("Piton-Undoes: {}", second.commit())),
        "{message}"
    );
    before.assert_only(&project, &["notes.txt", "b.txt"]);
    assert_eq!(Picture::of(&project).status, before.status);
}

#[test]
fn h23_undo_of_a_middle_step_keeps_the_later_ones() {
    let project = simple();
    exec(&project, "sed -i 's/one/ONE/' notes.txt");
    let middle = exec(&project, "echo b > b.txt");
    exec(&project, "echo four >> notes.txt");
    let before = Picture::of(&project);
    told(&project, &["undo", &middle.step()]).assert_end("0 committed -");
    assert_eq!(project.read("notes.txt"), "ONE\ntwo\nthree\nfour\n");
    assert!(!project.root().join("b.txt").exists());
    before.assert_only(&project, &["b.txt"]);
    project.assert_clean();
}

#[test]
fn h23_undo_of_a_middle_step_merges_other_lines_of_the_same_file() {
    let project = TestProject::new()
        .file("notes.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
        .committed();
    let first = exec(&project, "sed -i 's/^1$/one/' notes.txt");
    exec(&project, "sed -i 's/^9$/nine/' notes.txt");
    told(&project, &["undo", &first.step()]).assert_end("0 committed -");
    assert_eq!(project.read("notes.txt"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    project.assert_clean();
}

#[test]
fn h23_undo_takes_the_name_of_a_commit() {
    let project = simple();
    let first = exec(&project, "echo a > a.txt");
    exec(&project, "echo b > b.txt");
    told(&project, &["undo", &first.commit()[..10]]).assert_end("0 committed -");
    assert!(!project.root().join("a.txt").exists());
    assert_eq!(project.read("b.txt"), "b\n");
    project.assert_clean();
}

#[test]
fn h23_undo_twice_undoes_two_steps() {
    let project = simple();
    let start = project.git(["rev-parse", "HEAD^{tree}"]);
    exec(&project, "echo a > a.txt");
    exec(&project, "echo b > b.txt");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(project.read("a.txt"), "a\n");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(project.git(["rev-parse", "HEAD^{tree}"]), start);
    let third = told(&project, &["undo"]);
    third.assert_end("1 - NOTHING_TO_UNDO");
    assert_eq!(
        third.message(),
        "there is no step to undo in this work tree"
    );
    project.assert_clean();
}

#[test]
fn h23_redo_brings_back_what_was_undone() {
    let project = dirty();
    exec(&project, "echo a > a.txt; echo four >> notes.txt");
    let (tree, before) = (
        project.git(["rev-parse", "HEAD^{tree}"]),
        Picture::of(&project),
    );
    told(&project, &["undo"]).assert_end("0 committed -");
    told(&project, &["redo"]).assert_end("0 committed -");
    assert_eq!(project.git(["rev-parse", "HEAD^{tree}"]), tree);
    assert_eq!(project.read("a.txt"), "a\n");
    before.assert_only(&project, &["a.txt", "notes.txt"]);
    assert_eq!(Picture::of(&project).status, before.status);
    told(&project, &["redo"]).assert_end("1 - NOTHING_TO_REDO");
    // What was redone can be undone again.
    told(&project, &["undo"]).assert_end("0 committed -");
    assert!(!project.root().join("a.txt").exists());
}

#[test]
fn h23_redo_of_several_undos_goes_from_the_newest_to_the_oldest() {
    let project = simple();
    exec(&project, "echo a > a.txt");
    exec(&project, "echo b > b.txt");
    let tree = project.git(["rev-parse", "HEAD^{tree}"]);
    told(&project, &["undo"]).assert_end("0 committed -");
    told(&project, &["undo"]).assert_end("0 committed -");
    told(&project, &["redo"]).assert_end("0 committed -");
    assert_eq!(project.read("a.txt"), "a\n");
    assert!(!project.root().join("b.txt").exists());
    told(&project, &["redo"]).assert_end("0 committed -");
    assert_eq!(project.git(["rev-parse", "HEAD^{tree}"]), tree);
    told(&project, &["redo"]).assert_end("1 - NOTHING_TO_REDO");
    project.assert_clean();
}

#[test]
fn h23_undo_of_an_uncommitted_step_makes_no_commit() {
    let project = dirty();
    let before = Picture::of(&project);
    exec_with(
        &project,
        &["--checkpoint", "explicit"],
        "echo a > a.txt; echo four >> notes.txt",
    )
    .assert_end("0 skipped -");
    told(&project, &["undo"]).assert_end("0 skipped -");
    assert_eq!(project.read("notes.txt"), "one\ntwo\nthree\n");
    before.assert_only(&project, &["notes.txt"]);
    assert_eq!(Picture::of(&project).status, before.status);
    assert_eq!(Picture::of(&project).refs, before.refs);
    // Nothing of it is left to commit either.
    told(&project, &["checkpoint"]).assert_end("0 no_changes -");
    told(&project, &["redo"]).assert_end("0 skipped -");
    assert_eq!(project.read("a.txt"), "a\n");
    let made = told(&project, &["checkpoint"]);
    made.assert_end("0 committed -");
    assert_eq!(files_of(&project, &made.commit()), ["a.txt", "notes.txt"]);
}

#[test]
fn h23_undo_by_name_of_a_step_that_was_committed_later_is_a_commit() {
    let project = simple();
    let step = exec_with(&project, &["--checkpoint", "explicit"], "echo a > a.txt");
    step.assert_end("0 skipped -");
    told(&project, &["checkpoint"]).assert_end("0 committed -");
    told(&project, &["undo", &step.step()]).assert_end("0 committed -");
    assert!(!project.root().join("a.txt").exists());
    project.assert_clean();
}

#[test]
fn h23_undo_changes_nothing_where_the_same_lines_have_changed_since() {
    let project = simple();
    exec(&project, "sed -i 's/two/TWO/' notes.txt; echo a > a.txt");
    project.bash("sed -i 's/TWO/Two!/' notes.txt");
    let before = Picture::of(&project);
    let undone = told(&project, &["undo"]);
    undone.assert_end("1 - CHANGED_SINCE");
    assert!(
        undone.message().contains("`notes.txt`"),
        "{}",
        undone.message()
    );
    before.assert_same(&project);
    // With the file as the step left it, the undo works.
    project.bash("sed -i 's/Two!/TWO/' notes.txt");
    told(&project, &["undo"]).assert_end("0 committed -");
    project.assert_clean();
}

#[test]
fn h23_undo_of_a_deletion_does_not_overwrite_a_new_file() {
    let project = simple();
    exec(&project, "rm notes.txt");
    project.bash("echo 'my own' > notes.txt");
    let before = Picture::of(&project);
    told(&project, &["undo"]).assert_end("1 - CHANGED_SINCE");
    before.assert_same(&project);
}

#[test]
fn h23_undo_of_what_changed_nothing_is_refused_by_name() {
    let project = simple();
    let nothing = exec(&project, "true");
    let failed = exec(&project, "echo a > a.txt; exit 3");
    let made = exec(&project, "echo b > b.txt");
    told(&project, &["undo", &made.step()]).assert_end("0 committed -");
    let before = Picture::of(&project);
    for (step, reason) in [
        (nothing.step(), "it changed nothing"),
        (failed.step(), "it was already rolled back"),
        (made.step(), "it is already undone"),
    ] {
        let undone = told(&project, &["undo", &step]);
        undone.assert_end("1 - NOT_UNDOABLE");
        assert!(undone.message().ends_with(reason), "{}", undone.message());
    }
    let runs = count_runs(&project);
    told(&project, &["undo", "ffffffff"]).assert_end("2 - NOT_FOUND");
    told(&project, &["undo", "01"]).assert_end("2 - NOT_FOUND");
    assert_eq!(count_runs(&project), runs);
    before.assert_same(&project);
}

#[test]
fn h23_nothing_to_undo_says_so() {
    let project = simple();
    let before = Picture::of(&project);
    let ran = project.piton(["undo"]);
    assert_eq!(ran.code(), Some(1));
    assert!(
        ran.stderr()
            .starts_with("error: there is no step to undo in this work tree\n"),
        "{ran}"
    );
    assert_eq!(project.piton(["redo"]).code(), Some(1));
    before.assert_same(&project);
    assert_eq!(count_runs(&project), 0);
}
