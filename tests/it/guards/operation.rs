//! `undo` is about operations: steps, checkpoints, restores, whole runs; `redo` is that of an editor.

use super::{Picture, Told, count_runs, effects, exec, exec_with, files_of, simple, told};
use crate::harness::TestProject;

const EXPLICIT: [&str; 2] = ["--checkpoint", "explicit"];

/// The tree of the last commit.
fn head(project: &TestProject) -> String {
    project.git(["rev-parse", "HEAD^{tree}"])
}

fn exists(project: &TestProject, path: &str) -> bool {
    project.root().join(path).exists()
}

fn status(project: &TestProject) -> String {
    project.git(["status", "--porcelain"])
}

#[track_caller]
fn refused(project: &TestProject, words: &[&str], code: &str, message: &str) -> Told {
    let before = Picture::of(project);
    let ran = told(project, words);
    ran.assert_end(&format!("1 - {code}"));
    assert!(ran.message().contains(message), "{}", ran.ran);
    before.assert_same(project);
    ran
}

#[test]
fn r4_undo_after_a_checkpoint_undoes_the_checkpoint() {
    let project = simple();
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    project.bash("echo own > own.txt");
    let before = (head(&project), Picture::of(&project));
    let made = told(&project, &["checkpoint", "own.txt"]);
    made.assert_end("0 committed -");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(head(&project), before.0);
    assert_eq!(Picture::of(&project).status, before.1.status);
    before.1.assert_only(&project, &[]);
    assert_eq!(project.read("a.txt"), "a\n");
    let message = project.git(["log", "-1", "--format=%B"]);
    assert!(
        message.contains(&format!("Piton-Undoes: {}", made.commit())),
        "{message}"
    );
    // The next one goes further back, and both come again.
    told(&project, &["undo"]).assert_end("0 committed -");
    assert!(!exists(&project, "a.txt") && exists(&project, "own.txt"));
    told(&project, &["redo"]).assert_end("0 committed -");
    told(&project, &["redo"]).assert_end("0 committed -");
    project.assert_clean();
    assert_eq!(project.git(["show", "HEAD:own.txt"]), "own\n");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn r5_new_work_clears_the_redo_stack() {
    let project = simple();
    let first = exec(&project, "echo a > a.txt");
    told(&project, &["undo"]).assert_end("0 committed -");
    let second = exec(&project, "echo b > b.txt");
    let cleared = refused(&project, &["redo"], "NOTHING_TO_REDO", &second.step());
    assert!(
        cleared.last()["error"]["suggestion"]
            .as_str()
            .is_some_and(|it| it.contains(&first.step()))
    );
    told(&project, &["undo"]).assert_end("0 committed -");
    assert!(!exists(&project, "a.txt") && !exists(&project, "b.txt"));
    // What was undone last can be redone, and only that.
    told(&project, &["redo"]).assert_end("0 committed -");
    assert!(!exists(&project, "a.txt") && exists(&project, "b.txt"));
    refused(&project, &["redo"], "NOTHING_TO_REDO", &second.step());
    project.assert_clean();
}

#[test]
fn a_checkpoint_of_kept_changes_is_undone_before_the_step() {
    let project = simple();
    project.bash("echo mine >> notes.txt");
    exec_with(
        &project,
        &EXPLICIT,
        "echo a > a.txt; sed -i 's/one/ONE/' notes.txt",
    )
    .assert_end("0 skipped -");
    let before = Picture::of(&project);
    told(&project, &["checkpoint"]).assert_end("0 committed -");
    let shown = project
        .piton(["undo", "--dry-run", "--format", "json"])
        .json();
    assert_eq!(
        effects(&shown),
        ["uncommitted a.txt", "uncommitted notes.txt"]
    );
    told(&project, &["undo"]).assert_end("0 committed -");
    before.assert_only(&project, &[]);
    assert_eq!(status(&project), " M notes.txt\n?? a.txt\n");
    // The changes are pending again: a checkpoint commits them, an undo reverts them.
    told(&project, &["undo"]).assert_end("0 skipped -");
    assert_eq!(
        (status(&project).as_str(), exists(&project, "a.txt")),
        (" M notes.txt\n", false)
    );
    assert_eq!(project.read("notes.txt"), "one\ntwo\nthree\nmine\n");
    told(&project, &["redo"]).assert_end("0 skipped -");
    let again = told(&project, &["checkpoint"]);
    again.assert_end("0 committed -");
    assert_eq!(files_of(&project, &again.commit()), ["a.txt", "notes.txt"]);
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn what_was_staged_before_a_checkpoint_is_staged_again() {
    let project = TestProject::new()
        .file("f.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
        .committed();
    project.bash(
        "echo new > new.txt; git add new.txt; echo only > announced.txt; git add -N announced.txt",
    );
    project.bash(
        "sed -i s/1/one/ f.txt; git add f.txt; sed -i s/9/nine/ f.txt; echo loose > loose.txt",
    );
    let before = Picture::of(&project);
    told(&project, &["checkpoint", "--all"]).assert_end("0 committed -");
    project.assert_clean();
    told(&project, &["undo"]).assert_end("0 committed -");
    let now = Picture::of(&project);
    assert_eq!(now.staged, before.staged);
    before.assert_only(&project, &[]);
    told(&project, &["redo"]).assert_end("0 committed -");
    project.assert_clean();
}

#[test]
fn a_checkpoint_is_undone_below_later_edits() {
    let project = TestProject::new()
        .file("f.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
        .committed();
    project.bash("sed -i s/1/one/ f.txt");
    let made = told(&project, &["checkpoint", "f.txt"]);
    exec(&project, "sed -i s/9/nine/ f.txt").assert_end("0 committed -");
    told(&project, &["undo", &made.commit()]).assert_end("0 committed -");
    assert_eq!(
        project.git(["show", "HEAD:f.txt"]),
        "1\n2\n3\n4\n5\n6\n7\n8\nnine\n"
    );
    assert_eq!(project.read("f.txt"), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    assert_eq!(status(&project), " M f.txt\n");
    // In the same lines nothing is guessed.
    project.bash("git checkout -q f.txt; sed -i s/1/eins/ f.txt");
    let made = told(&project, &["checkpoint", "f.txt"]);
    project.bash("sed -i s/eins/uno/ f.txt; git commit -qam mine");
    refused(
        &project,
        &["undo", &made.commit()],
        "CHANGED_SINCE",
        "`f.txt`",
    );
}

/// A run of two tools and a checkpoint step, in a mode.
fn directed(mode: &str) -> TestProject {
    let steps = r#"<step name="one"><execute item_type="tool" item_id="one"/></step>
<step name="two"><execute item_type="tool" item_id="two"/></step>"#;
    TestProject::new()
        .file("notes.txt", "one\n")
        .tool(
            "one",
            "mutates_state: true",
            "echo two >> notes.txt; echo 1 > one.txt",
        )
        .tool(
            "two",
            "mutates_state: true",
            "echo three >> notes.txt; mkdir -p deep; echo 2 > deep/two.txt",
        )
        .file(
            ".ai/directives/both.md",
            crate::mcp_runs::directive("both", mode, steps),
        )
        .committed()
}

#[test]
fn a_whole_run_is_undone_as_one_commit() {
    let project = directed("auto");
    let (tree, before) = (head(&project), Picture::of(&project));
    let ran = told(&project, &["run", "both"]);
    assert_eq!(ran.ran.code(), Some(0), "{}", ran.ran);
    let run = ran.last()["run_id"].as_str().expect("a run").to_owned();
    let count = project.git(["rev-list", "--count", "HEAD"]);
    let shown = project
        .piton(["undo", &run, "--dry-run", "--format", "json"])
        .json();
    assert_eq!(
        effects(&shown),
        [
            "removed deep/two.txt",
            "restored notes.txt",
            "removed one.txt"
        ]
    );
    assert_eq!(shown["steps"].as_array().map(Vec::len), Some(2), "{shown}");
    told(&project, &["undo", &run]).assert_end("0 committed -");
    assert_eq!(head(&project), tree);
    assert_eq!(Picture::of(&project).status, before.status);
    let commits = |text: &str| text.trim().parse::<u32>().expect("a number");
    assert_eq!(
        commits(&project.git(["rev-list", "--count", "HEAD"])),
        commits(&count) + 1
    );
    refused(
        &project,
        &["undo", &run],
        "NOT_UNDOABLE",
        "it is already undone",
    );
    // All of it comes again, and `undo` takes all of it back again.
    told(&project, &["redo"]).assert_end("0 committed -");
    assert_eq!(project.read("notes.txt"), "one\ntwo\nthree\n");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(head(&project), tree);
    // As new work, too.
    told(&project, &["redo", &run]).assert_end("0 committed -");
    assert_eq!(project.read("deep/two.txt"), "2\n");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(head(&project), tree);
    project.assert_clean();
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn a_run_with_one_conflict_is_refused_as_a_whole() {
    let project = directed("auto");
    let ran = told(&project, &["run", "both"]);
    let run = ran.last()["run_id"].as_str().expect("a run").to_owned();
    project.bash("sed -i 's/two/zwei/' notes.txt; git commit -qam mine");
    let shown = project.piton(["undo", &run, "--dry-run", "--format", "json"]);
    assert_eq!(shown.code(), Some(1), "{shown}");
    assert_eq!(
        effects(&shown.json()),
        [
            "removed deep/two.txt",
            "conflict notes.txt",
            "removed one.txt"
        ]
    );
    refused(&project, &["undo", &run], "CHANGED_SINCE", "`notes.txt`");
}

#[test]
fn a_run_in_explicit_mode_is_undone_without_a_commit() {
    let project = directed("explicit");
    let before = Picture::of(&project);
    let ran = told(&project, &["run", "both"]);
    let run = ran.last()["run_id"].as_str().expect("a run").to_owned();
    told(&project, &["undo", &run]).assert_end("0 skipped -");
    assert_eq!(Picture::of(&project).status, before.status);
    assert_eq!(Picture::of(&project).refs, before.refs);
    project.assert_clean();
}

#[test]
fn everything_after_a_step_is_undone_as_one() {
    let project = simple();
    let first = exec(&project, "echo a > a.txt");
    let (tree, count) = (head(&project), project.git(["rev-list", "--count", "HEAD"]));
    exec(&project, "echo b > b.txt; echo a2 > a.txt").assert_end("0 committed -");
    exec_with(&project, &EXPLICIT, "echo c > c.txt").assert_end("0 skipped -");
    told(&project, &["checkpoint"]).assert_end("0 committed -");
    exec_with(&project, &EXPLICIT, "echo d > d.txt; echo a3 > a.txt").assert_end("0 skipped -");
    told(&project, &["undo", "--to", &first.step()]).assert_end("0 committed -");
    assert_eq!(head(&project), tree);
    assert_eq!(project.read("a.txt"), "a\n");
    project.assert_clean();
    let commits = |text: &str| text.trim().parse::<u32>().expect("a number");
    assert_eq!(
        commits(&project.git(["rev-list", "--count", "HEAD"])),
        commits(&count) + 3
    );
    refused(
        &project,
        &["undo", "--to", &first.step()],
        "NOTHING_TO_UNDO",
        &first.step(),
    );
    told(&project, &["redo"]).assert_end("0 committed -");
    assert_eq!(project.read("a.txt"), "a3\n");
    assert_eq!(status(&project), " M a.txt\n?? d.txt\n");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn a_step_goes_by_every_name_that_show_takes() {
    for name in [
        "sha",
        "HEAD",
        "HEAD~1",
        "run",
        "step trailer",
        "both trailers",
        "pasted",
    ] {
        let project = simple();
        let made = exec(&project, "echo a > a.txt");
        if name == "HEAD~1" {
            project.bash("echo mine > mine.txt; git add mine.txt; git commit -qm mine");
        }
        let trailer = |key: &str| {
            let format = format!("--format=%(trailers:key={key})");
            project
                .git(["log", "-1", &format, &made.commit()])
                .trim()
                .to_owned()
        };
        let (run, step) = (trailer("Piton-Run"), trailer("Piton-Step"));
        let value = |line: &str| line.split_once(": ").expect("a trailer").1.to_owned();
        let name = match name {
            "sha" => made.commit(),
            "run" => run.clone(),
            "step trailer" => step.clone(),
            "both trailers" => format!("{run}\n{step}"),
            "pasted" => format!("{}/{}", value(&run), value(&step)),
            other => other.to_owned(),
        };
        let shown = project.piton(["show", "--no-diff", &name]);
        assert_eq!(shown.code(), Some(0), "{name}: {shown}");
        told(&project, &["undo", &name]).assert_end("0 committed -");
        assert!(!exists(&project, "a.txt"), "{name}");
        project.assert_clean();
    }
}

#[test]
fn an_undone_step_is_applied_again_as_new_work() {
    let project = simple();
    let first = exec(&project, "sed -i 's/one/ONE/' notes.txt; echo a > a.txt");
    refused(
        &project,
        &["redo", &first.step()],
        "NOT_REDOABLE",
        "it is not undone",
    );
    told(&project, &["undo"]).assert_end("0 committed -");
    exec(&project, "sed -i 's/three/THREE/' notes.txt").assert_end("0 committed -");
    let shown = project
        .piton(["redo", &first.step(), "--dry-run", "--format", "json"])
        .json();
    assert_eq!(effects(&shown), ["restored a.txt", "written notes.txt"]);
    let again = told(&project, &["redo", &first.step()]);
    again.assert_end("0 committed -");
    assert_eq!(project.read("notes.txt"), "ONE\ntwo\nTHREE\n");
    project.assert_clean();
    // It is a step of its own, and the newest one.
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(project.read("notes.txt"), "one\ntwo\nTHREE\n");
    refused(
        &project,
        &["undo", &again.step()],
        "NOT_UNDOABLE",
        "it is already undone",
    );
    // What was never committed is applied without a commit.
    let kept = exec_with(&project, &EXPLICIT, "echo k > k.txt");
    told(&project, &["undo"]).assert_end("0 skipped -");
    told(&project, &["redo", &kept.step()]).assert_end("0 skipped -");
    assert_eq!(status(&project), "?? k.txt\n");
    told(&project, &["checkpoint"]).assert_end("0 committed -");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn a_step_of_another_branch_is_refused_by_the_name_of_the_branch() {
    let project = simple();
    let made = exec(&project, "echo a > a.txt");
    project.bash("git checkout -q -b other HEAD~1");
    let ran = refused(&project, &["undo"], "OTHER_BRANCH", "branch `main`");
    assert!(
        ran.message().contains("branch `other`"),
        "{}",
        ran.message()
    );
    refused(
        &project,
        &["undo", &made.step()],
        "OTHER_BRANCH",
        "branch `main`",
    );
    // A branch that has its commit is the same history: merged, renamed, or no branch at all.
    project.bash("git merge -q --ff-only main; git branch -q -D main; git checkout -q --detach");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert!(!exists(&project, "a.txt"));
    project.assert_clean();
}

#[test]
fn kept_changes_that_were_taken_along_to_a_new_branch_are_undone_there() {
    let project = simple();
    exec_with(&project, &EXPLICIT, "echo a > a.txt").assert_end("0 skipped -");
    project.bash("git checkout -q -b feature");
    told(&project, &["undo"]).assert_end("0 skipped -");
    project.assert_clean();
}

#[test]
fn what_the_user_discarded_already_is_noted_and_the_next_undo_continues() {
    let project = simple();
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    exec_with(
        &project,
        &EXPLICIT,
        "echo b > b.txt; echo four >> notes.txt",
    )
    .assert_end("0 skipped -");
    project.bash("git checkout -q notes.txt; rm b.txt");
    let before = Picture::of(&project);
    let ran = project.piton(["undo"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr().contains("nothing to do, its changes are gone"),
        "{ran}"
    );
    before.assert_same(&project);
    told(&project, &["undo"]).assert_end("0 committed -");
    assert!(!exists(&project, "a.txt"));
    // Nothing was taken back by the first of them.
    told(&project, &["redo"]).assert_end("0 committed -");
    told(&project, &["redo"]).assert_end("1 - NOTHING_TO_REDO");
    project.assert_clean();
}

#[test]
fn a_commit_that_the_user_reset_is_gone_and_the_next_undo_continues() {
    let project = simple();
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    exec(&project, "echo b > b.txt").assert_end("0 committed -");
    project.bash("git reset -q --hard HEAD~1");
    told(&project, &["undo"]).assert_end("0 no_changes -");
    assert!(exists(&project, "a.txt"));
    told(&project, &["undo"]).assert_end("0 committed -");
    assert!(!exists(&project, "a.txt"));
    project.assert_clean();
}

#[test]
fn a_commit_that_was_reset_softly_is_undone_on_disk() {
    let project = simple();
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    project.bash("git reset -q --soft HEAD~1");
    let count = project.git(["rev-list", "--count", "HEAD"]);
    told(&project, &["undo"]).assert_end("0 skipped -");
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), count);
    project.assert_clean();
}

#[test]
fn an_amended_commit_is_undone_all_the_same() {
    for more in ["", "echo mine > mine.txt; git add mine.txt;"] {
        let project = simple();
        exec(&project, "echo a > a.txt; echo four >> notes.txt").assert_end("0 committed -");
        project.bash(&format!(
            "{more} git commit -q --amend -m 'another message'"
        ));
        told(&project, &["undo"]).assert_end("0 committed -");
        assert!(!exists(&project, "a.txt"));
        assert_eq!(project.read("notes.txt"), "one\ntwo\nthree\n");
        assert_eq!(exists(&project, "mine.txt"), !more.is_empty());
        project.assert_clean();
    }
}

#[test]
fn work_of_the_user_since_then_stays() {
    let project = TestProject::new()
        .file("f.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
        .committed();
    exec(&project, "sed -i s/1/one/ f.txt; echo a > a.txt").assert_end("0 committed -");
    project.bash("sed -i s/5/five/ f.txt; git commit -qam five; sed -i s/9/nine/ f.txt; git add f.txt; echo x > x.txt");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(
        project.git(["show", "HEAD:f.txt"]),
        "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"
    );
    assert_eq!(
        project.git(["show", ":f.txt"]),
        "1\n2\n3\n4\nfive\n6\n7\n8\nnine\n"
    );
    assert_eq!(project.read("f.txt"), "1\n2\n3\n4\nfive\n6\n7\n8\nnine\n");
    assert_eq!(status(&project), "M  f.txt\n?? x.txt\n");
    // What is staged in the same lines stops it before anything is changed.
    exec(&project, "sed -i s/4/four/ f.txt").assert_end("0 committed -");
    project.bash("sed -i s/four/vier/ f.txt; git add f.txt; sed -i s/vier/four/ f.txt");
    refused(&project, &["undo"], "CHANGED_SINCE", "`f.txt`");
}

#[test]
fn a_committed_step_whose_files_the_user_rolled_back_is_taken_out_of_the_branch() {
    let project = simple();
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    project.bash("rm a.txt");
    told(&project, &["undo"]).assert_end("0 committed -");
    project.assert_clean();
    assert_eq!(project.git(["ls-files"]), "notes.txt\n");
}

#[test]
fn an_undo_is_undone_by_its_name() {
    let project = simple();
    let made = exec(&project, "echo a > a.txt");
    let undone = told(&project, &["undo"]);
    told(&project, &["undo", &undone.step()]).assert_end("0 committed -");
    assert_eq!(project.read("a.txt"), "a\n");
    refused(
        &project,
        &["undo", &undone.step()],
        "NOT_UNDOABLE",
        "it is already undone",
    );
    // The step counts again.
    told(&project, &["undo", &made.step()]).assert_end("0 committed -");
    assert!(!exists(&project, "a.txt"));
    project.assert_clean();
}

#[test]
fn a_restore_and_a_hard_roll_back_are_operations() {
    let project = simple();
    let first = exec(&project, "echo a1 > a.txt");
    exec(&project, "echo a2 > a.txt").assert_end("0 committed -");
    told(&project, &["restore", &first.step()]).assert_end("0 committed -");
    assert_eq!(project.read("a.txt"), "a1\n");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(project.read("a.txt"), "a2\n");
    assert_eq!(
        project
            .piton(["rollback", "--hard", "HEAD~2", "--yes"])
            .code(),
        Some(0)
    );
    assert_eq!(project.read("a.txt"), "a2\n");
    project.bash("echo dirty > a.txt");
    assert_eq!(
        project
            .piton(["rollback", "--hard", "HEAD", "--yes"])
            .code(),
        Some(0)
    );
    told(&project, &["undo"]).assert_end("0 skipped -");
    assert_eq!(project.read("a.txt"), "dirty\n");
}

#[test]
fn the_first_commit_of_a_repository_can_be_undone() {
    let project = TestProject::new();
    exec_with(&project, &EXPLICIT, "echo a > a.txt").assert_end("0 skipped -");
    told(&project, &["undo"]).assert_end("0 skipped -");
    told(&project, &["redo"]).assert_end("0 skipped -");
    told(&project, &["checkpoint"]).assert_end("0 committed -");
    told(&project, &["undo"]).assert_end("0 committed -");
    assert_eq!(status(&project), "?? a.txt\n");
    told(&project, &["undo"]).assert_end("0 skipped -");
    told(&project, &["undo"]).assert_end("1 - NOTHING_TO_UNDO");
    project.assert_clean();
}

#[test]
fn runs_that_cannot_be_undone_say_why() {
    let waiting = r#"<step name="one"><execute item_type="tool" item_id="one"/></step>
<step name="wait"><action>Wait for an answer.</action></step>"#;
    let project = directed("auto")
        .tool("nothing", "mutates_state: false", "true")
        .directive("idle", ["nothing"])
        .file(
            ".ai/directives/waits.md",
            crate::mcp_runs::directive("waits", "auto", waiting),
        )
        .committed();
    let idle = told(&project, &["run", "idle"]);
    let run = idle.last()["run_id"].as_str().expect("a run").to_owned();
    refused(
        &project,
        &["undo", &run],
        "NOT_UNDOABLE",
        "it changed nothing",
    );
    let waits = told(&project, &["run", "waits"]);
    let run = waits.last()["run_id"].as_str().expect("a run").to_owned();
    assert_eq!(waits.ran.code(), Some(4), "{}", waits.ran);
    let open = refused(&project, &["undo", &run], "RUN_WAITS", &run);
    assert!(
        open.last()["error"]["suggestion"]
            .as_str()
            .is_some_and(|it| it.contains("piton cancel"))
    );
    assert_eq!(project.piton(["cancel", &run]).code(), Some(0));
    told(&project, &["undo", &run]).assert_end("0 committed -");
    // A run of another work tree belongs there.
    project.bash("git worktree add -q ../side");
    let runs = count_runs(&project);
    let side = project.root().join("../side");
    let ran = project.piton([
        "-C",
        side.to_str().expect("UTF-8"),
        "exec",
        "--",
        "sh",
        "-c",
        "echo s > s.txt",
    ]);
    assert_eq!(
        (ran.code(), count_runs(&project)),
        (Some(0), runs + 1),
        "{ran}"
    );
    let log = project.piton(["log", "--format", "json"]).stdout();
    let newest: serde_json::Value =
        serde_json::from_str(log.lines().next().expect("a run")).expect("JSON");
    let other = newest["id"].as_str().expect("a name").to_owned();
    refused(
        &project,
        &["undo", &other],
        "NOT_UNDOABLE",
        "another work tree",
    );
}

#[test]
fn a_preview_is_for_people_too() {
    let project = simple();
    let made = exec(&project, "echo a > a.txt; echo four >> notes.txt");
    let before = (Picture::of(&project), count_runs(&project));
    let shown = project.piton(["undo", "--dry-run"]);
    assert_eq!(shown.code(), Some(0), "{shown}");
    assert_eq!(shown.stdout(), "removed     a.txt\nrestored    notes.txt\n");
    let short = &made.commit()[..10];
    assert_eq!(
        shown.stderr(),
        format!("{} bash\na new commit would undo {short}\n", made.step())
    );
    before.0.assert_same(&project);
    assert_eq!(count_runs(&project), before.1);
    assert_eq!(
        project
            .piton(["undo", &made.step(), "--to", &made.step()])
            .code(),
        Some(2)
    );
}
