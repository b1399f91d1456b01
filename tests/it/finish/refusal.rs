//! Runs that cannot be finished are refused with the reason, and nothing is touched.

use super::{branches, everything, exec, finish, finished, linked, project};
use crate::harness::{Ran, TestProject, cmd_snapshot};
use crate::linked_worktree::run_id;

fn refused(project: &TestProject, run: &str, how: &str, exit: i32, word: &str) -> Ran {
    let before = everything(project);
    let ran = finish(project, run, how);
    assert_eq!(ran.code(), Some(exit), "{ran}");
    assert!(ran.stderr().contains(word), "{ran}");
    assert_eq!(everything(project), before, "{ran}");
    ran
}

#[test]
fn a_conflict_is_named_by_run_and_step() {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .file("b.txt", "b\n")
        .committed();
    let (one, two) = (linked(&project, 1), linked(&project, 2));
    let first = exec(&project, &one, "shout", "sed -i s/one/ONE/ a.txt");
    exec(&project, &two, "harmless", "echo 1 >> b.txt");
    let second = exec(&project, &two, "whisper", "sed -i s/one/psst/ a.txt");
    finished(&project, &first, "--keep");
    for how in ["--keep", "--squash"] {
        refused(&project, &second, how, 1, "changed the same");
    }
    cmd_snapshot!(finish(&project, &second, "--keep"), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: run `01kdyaf92074chwekcwbygbpfz` and the current branch changed the same lines: `a.txt` by step `01kdyaf9/1` (whisper) there and by step `01kdyabk/1` (shout) here

    hint: nothing was changed: merge the current branch in `[HOME]/.local/state/piton/[PROJECT ID]/worktrees/01kdye7w000000000000000002`, commit, and finish again; or close it with `piton finish 01kdyaf92074chwekcwbygbpfz --branch` and `git merge piton/01kdye7w000000000000000002`
    ");
    // After the conflict is resolved in the worktree of the run, the run can be finished.
    let there = two.display();
    project.bash(&format!(
        "cd '{there}'; git merge -q main || true; echo both > a.txt; git add a.txt; git commit -qm resolved"
    ));
    finished(&project, &second, "--keep");
    assert_eq!(
        (
            project.read("a.txt").as_str(),
            project.read("b.txt").as_str()
        ),
        ("both\n", "b\n1\n")
    );
    project.assert_clean();
}

#[test]
fn a_conflict_with_a_commit_of_the_user_names_that() {
    let project = project();
    let side = linked(&project, 1);
    let run = exec(
        &project,
        &side,
        "work",
        "rm b.txt; mkdir b.txt; echo x > b.txt/x",
    );
    project.bash("echo mine >> b.txt; git commit -qam 'my change'");
    refused(&project, &run, "--keep", 1, "(my change)");
}

#[test]
fn work_of_the_user_in_the_same_lines_is_not_overwritten() {
    for (mess, path) in [
        ("sed -i s/^five/mine/ a.txt", "a.txt"),
        (
            "sed -i s/^five/mine/ a.txt; git add a.txt; git show HEAD:a.txt > a.txt",
            "a.txt",
        ),
        ("echo other > w.txt", "w.txt"),
        ("echo other > w.txt; git add w.txt; rm w.txt", "w.txt"),
        (
            "echo w.txt > .git/info/exclude; echo ignored > w.txt",
            "w.txt",
        ),
        ("rm a.txt", "a.txt"),
        ("echo d > d", "d/deep.txt"),
        ("echo mine >> c.txt", "c.txt"),
    ] {
        let project = project();
        let side = linked(&project, 1);
        let script =
            "sed -i s/^five/FIVE/ a.txt; echo w > w.txt; mkdir d; echo d > d/deep.txt; rm c.txt";
        let run = exec(&project, &side, "work", script);
        project.bash(mess);
        for how in ["--keep", "--squash"] {
            refused(
                &project,
                &run,
                how,
                1,
                &format!("overlaps your uncommitted changes: `{path}`"),
            );
        }
    }
}

#[test]
fn a_run_is_finished_once() {
    let project = project();
    let side = linked(&project, 1);
    let run = exec(&project, &side, "work", "echo 1 >> b.txt");
    finished(&project, &run, "--keep");
    for how in ["--keep", "--squash", "--branch"] {
        refused(&project, &run, how, 2, "is already finished");
    }
}

#[test]
fn what_does_not_exist_or_is_not_clear_is_wrong_usage() {
    let project = project();
    let run = exec(&project, &project.root(), "work", "echo 1 >> b.txt");
    refused(
        &project,
        "01kzzzzz",
        "--keep",
        2,
        "there is no step, run or commit",
    );
    assert_eq!(project.piton(["finish", &run]).code(), Some(2));
    assert_eq!(
        project.piton(["finish", &run, "--keep", "--squash"]).code(),
        Some(2)
    );
    assert_eq!(
        project
            .piton(["finish", &run, "--keep", "-m", "Piton-Run: x"])
            .code(),
        Some(2)
    );
    assert_eq!(
        TestProject::without_git()
            .piton(["finish", "01k9", "--keep"])
            .code(),
        Some(5)
    );
}

#[test]
fn a_run_that_has_not_ended_is_refused() {
    let project = project();
    let side = linked(&project, 1);
    let folder = side.to_string_lossy().into_owned();
    let killed = project
        .command(["-C", &folder, "exec", "--", "sh", "-c", "echo 1 >> b.txt"])
        .env("PITON_FAILPOINT", "tool-ended")
        .output()
        .expect("piton starts");
    assert!(!killed.status.success());
    let log = project.piton(["log", "--format", "json"]);
    let run =
        serde_json::from_str::<serde_json::Value>(log.stdout().lines().next().expect("a run"))
            .expect("JSON");
    let run = run["id"].as_str().expect("a name");
    refused(&project, run, "--keep", 5, "has not ended");
    assert_eq!(project.piton(["-C", &folder, "recover"]).code(), Some(0));
    finished(&project, run, "--keep");
    assert!(!side.exists());
}

#[test]
fn a_run_that_waits_is_refused_with_a_hint() {
    use piton::disk::{Disk, Fsync};
    use piton::item::directive::CheckpointMode;
    use piton::journal::summary::{RunStatus, RunSummary};
    use piton::journal::{Durability, Event, Journal, Salt};
    let project = project();
    let (run, runs) = (run_id(7), project.root().join(".git/piton/runs"));
    let disk = Disk::of(&runs, Fsync::Auto);
    let mut journal =
        Journal::create(&runs, run, Salt::new(7), Durability::Decisions, &disk).expect("a journal");
    let started = Event::RunStarted {
        name: "work".to_owned(),
        command: Vec::new(),
        mode: CheckpointMode::Auto,
        directive: Some("work".to_owned()),
        root: project.root().to_string_lossy().into_owned(),
        worktree: None,
        pinned: None,
        beside: None,
        steps: Vec::new(),
        atomic: false,
        order: None,
        repository: None,
    };
    let waiting = Event::RunFinished(RunSummary {
        run_id: run,
        directive: Some("work".to_owned()),
        status: RunStatus::Waiting,
        steps: Vec::new(),
        steps_omitted: 0,
        step_totals: None,
        outputs: serde_json::Map::new(),
        uncommitted: Vec::new(),
        error: None,
    });
    for event in [started, waiting] {
        journal.append(run.started(), &event).expect("a line");
    }
    refused(
        &project,
        &run.to_string(),
        "--keep",
        5,
        &format!("`piton resume {run}`"),
    );
}

#[test]
fn from_its_own_worktree_or_a_detached_head_it_is_refused() {
    let project = project();
    let side = linked(&project, 1);
    let run = exec(&project, &side, "work", "echo 1 >> b.txt");
    let there = side.to_string_lossy();
    let ran = project.piton(["-C", &there, "finish", &run, "--keep"]);
    assert_eq!(ran.code(), Some(5), "{ran}");
    assert!(
        ran.stderr()
            .contains("the current branch is the branch of run"),
        "{ran}"
    );
    project.git(["checkout", "-q", "--detach"]);
    refused(&project, &run, "--keep", 5, "HEAD is detached");
    project.git(["checkout", "-q", "--orphan", "empty"]);
    refused(&project, &run, "--keep", 5, "no commit yet");
    assert_eq!(branches(&project).lines().count(), 2);
}

/// Starts to finish a run, stops piton after its checks, runs bash commands and lets piton
/// continue.
fn finish_while(project: &TestProject, commands: &str, run: &str, how: &str) -> Ran {
    let child = project.stopped_at(&["finish", run, how], "finish-judged");
    project.bash(commands);
    project.continued(child)
}

#[test]
fn a_commit_that_is_made_while_it_is_judged_is_not_lost() {
    let commit = "echo mine > mine.txt; git add mine.txt; git commit -qm mine";
    for (moved_on, how, is_here) in [
        ("true", "--keep", false),
        (
            "echo more > more.txt; git add more.txt; git commit -qm more",
            "--keep",
            false,
        ),
        ("true", "--squash", false),
        ("true", "--squash", true),
    ] {
        let project = project();
        let side = if is_here {
            project.root()
        } else {
            linked(&project, 1)
        };
        let script = "sed -i s/^five/FIVE/ a.txt; git commit -qam one; echo w > w.txt";
        let run = exec(&project, &side, "work", script);
        project.bash(moved_on);
        let ran = finish_while(&project, commit, &run, how);
        assert_eq!(
            project.git(["log", "-1", "--format=%s"]),
            "mine\n",
            "{how}: {ran}"
        );
        assert_ne!(ran.code(), Some(0), "{how}: {ran}");
        assert!(ran.stderr().contains("HEAD moved"), "{how}: {ran}");
        assert_eq!(project.read("mine.txt"), "mine\n");
        assert_eq!(project.git(["status", "--porcelain"]), "", "{how}: {ran}");
        assert!(side.exists(), "{how}: {ran}");
        if !is_here {
            finished(&project, &run, how);
            assert_eq!(
                (
                    project.read("w.txt").as_str(),
                    project.read("mine.txt").as_str()
                ),
                ("w\n", "mine\n")
            );
        }
    }
}
