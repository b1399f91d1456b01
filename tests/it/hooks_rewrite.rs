//! The hook `post-rewrite`: replaced checkpoints still verify, or the difference is reported.

use std::fs;

use crate::harness::TestProject;

/// A branch with two checkpoints, and `main` with another commit.
fn project() -> TestProject {
    let lines = (1..=20)
        .map(|number| format!("line {number}\n"))
        .collect::<Vec<_>>()
        .concat();
    let project = TestProject::new()
        .ticking()
        .file("a.txt", lines)
        .file("b.txt", "b\n")
        .committed();
    project.git(["switch", "-q", "-c", "work"]);
    for (name, script) in [
        ("first", "sed -i 's/line 3/LINE 3/' a.txt"),
        ("second", "echo new > new.txt"),
    ] {
        project
            .piton(["exec", "--name", name, "--", "sh", "-c", script])
            .succeeded();
    }
    project.bash("git switch -q main; sed -i 's/line 18/LINE 18/' a.txt; git commit -qam upstream; git switch -q work");
    project.hooked([
        "post-rewrite",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "pre-commit",
    ])
}

fn verified(project: &TestProject) {
    project.piton(["verify", "--all"]).succeeded();
}

/// Checks that verification fails with this code.
fn broken(project: &TestProject, code: &str) {
    let ran = project.piton(["verify", "--all"]);
    assert!(
        ran.code() == Some(1) && ran.stdout().contains(code),
        "{code}: {ran}"
    );
}

#[test]
fn a_rebase_maps_the_steps_so_that_everything_verifies() {
    let project = project();
    project.git(["rebase", "-q", "main"]);
    let ran = project.piton(["verify", "--all"]).succeeded();
    assert!(
        ran.stderr().contains(" was moved: ")
            && ran.stderr().contains("3 runs, 2 checkpoints verified"),
        "{ran}"
    );
    let log = project.piton(["log"]).succeeded();
    assert!(log.stdout().contains("post-rewrite rebase"), "{log}");
    let shown = project.piton(["show", "HEAD~1", "--no-diff"]).succeeded();
    assert!(
        shown.stdout().contains("first") && shown.stdout().contains("moved to "),
        "{shown}"
    );
    // A second rebase: commits that replaced others can be replaced too.
    project.bash("git switch -q main; echo m > m.txt; git add m.txt; git commit -qm more; git switch -q work; git rebase -q main");
    verified(&project);
    // A clone with the logs agrees, also after the old commits are pruned here.
    project.bash("git reflog expire --expire=now --all; git gc -q --prune=now");
    project.bash("git init -q --bare ../remote.git; git remote add origin ../remote.git; git push -q origin work main");
    project.piton(["push", "origin"]).succeeded();
    project.bash("git clone -q -b work ../remote.git ../clone");
    project
        .piton(["-C", "../clone", "fetch", "origin"])
        .succeeded();
    project
        .piton(["-C", "../clone", "verify", "--all"])
        .succeeded();
    verified(&project);
}

#[test]
fn another_message_is_recorded_and_other_changes_are_not_hidden() {
    let project = project();
    project.bash("GIT_EDITOR=\"sed -i '1s/.*/better words/'\" git commit -q --amend");
    verified(&project);
    // The same file with other content.
    let ran = {
        project.bash("echo evil >> new.txt");
        project.try_git(["commit", "-q", "-a", "--amend", "--no-edit"])
    };
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr()
            .contains("changes something else than the checkpoint of"),
        "{ran}"
    );
    broken(&project, "REWRITTEN");
}

#[test]
fn conflicts_that_were_resolved_and_dropped_checkpoints_are_named() {
    let resolved = project();
    resolved.bash("git switch -q main; sed -i 's/line 3/Line 3/' a.txt; git commit -qam clash; git switch -q work");
    resolved.bash("git rebase -q main || { sed -i '/^[<=>]/d' a.txt; git add a.txt; GIT_EDITOR=: git rebase --continue > /dev/null; }");
    broken(&resolved, "REWRITTEN");
    let dropped = project();
    dropped.bash("GIT_SEQUENCE_EDITOR=\"sed -i 1d\" git rebase -q -i main");
    broken(&dropped, "REWRITTEN");
    let squashed = project();
    squashed.bash(
        "GIT_EDITOR=: GIT_SEQUENCE_EDITOR=\"sed -i '2s/^pick/squash/'\" git rebase -q -i main",
    );
    verified(&squashed);
    let removed = project();
    removed.bash("git commit -q --amend -m 'no trailers'");
    verified(&removed);
}

#[test]
fn commits_that_belong_to_no_run_are_not_recorded() {
    let project = project();
    let count = || {
        fs::read_dir(project.root().join(".git/piton/runs"))
            .expect("runs")
            .count()
    };
    let before = count();
    project.bash("git switch -q main; git commit -q --amend -m other; git switch -q -c third; git rebase -q work");
    assert_eq!(count(), before);
    verified(&project);
}

#[test]
fn it_works_while_a_run_waits_or_is_active() {
    let directive = "# n\n\n```xml\n<directive name=\"notes\" version=\"1.0.0\">\n<metadata><description>d</description>\n\
                     <permissions><write resource=\"filesystem\" path=\"**\"/></permissions></metadata>\n\
                     <process><step name=\"write\"><action>Write.</action></step></process>\n</directive>\n```\n";
    let project = project().file(".ai/directives/notes.md", directive);
    project.bash("git add .; git commit -qm directive");
    let ran = project.piton(["run", "notes", "--checkpoint", "auto"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    project.git(["rebase", "-q", "main"]);
    verified(&project);
    // Replayed commits did not get the trailers of the waiting run.
    assert_eq!(
        project
            .git(["log", "--format=%(trailers:key=Piton-Step,valueonly)", "-1"])
            .trim(),
        ""
    );
}

#[test]
fn without_input_from_git_the_trailers_identify_the_steps() {
    let project = project();
    let hook = project.root().join(".git/hooks/post-rewrite");
    let text = fs::read_to_string(&hook)
        .expect("a hook")
        .replace("\"$@\"", "\"$@\" < /dev/null");
    fs::write(&hook, text).expect("a hook");
    project.git(["rebase", "-q", "main"]);
    verified(&project);
    project.bash("GIT_EDITOR=\"sed -i '1s/.*/better words/'\" git commit -q --amend");
    verified(&project);
}

#[test]
fn a_kill_during_the_hook_leaves_nothing_half_done() {
    for place in [
        "rewrite-written",
        "rewrite-recorded",
        "trail-written",
        "trail-moved",
        "journal-append:2",
    ] {
        let project = project();
        let hook = project.root().join(".git/hooks/post-rewrite");
        let text = fs::read_to_string(&hook)
            .expect("a hook")
            .replace("exec ", &format!("PITON_FAILPOINT={place} "));
        fs::write(&hook, text).expect("a hook");
        // The rebase succeeds.
        project.git(["rebase", "-q", "main"]);
        // The commits verify, whether or not the replacement is recorded.
        verified(&project);
        let log = project.piton(["log"]).succeeded();
        let is_recorded = !matches!(place, "rewrite-written" | "journal-append:2");
        assert_eq!(
            log.stdout().contains("post-rewrite rebase"),
            is_recorded,
            "{place}: {log}"
        );
        project.assert_clean();
        project.exec("echo next > next.txt").succeeded();
    }
}

#[test]
fn a_failure_to_record_is_reported_and_does_not_stop_git() {
    let project = project();
    project.bash("chmod 555 .git/piton/runs");
    let mut command = project.hermetic("setpriv", &project.root());
    if rustix::process::geteuid().is_root() {
        command.args(["--bounding-set=-dac_override,-dac_read_search", "git"]);
    } else {
        command = project.hermetic("git", &project.root());
    }
    let ran = project.ran(
        command
            .args(["rebase", "-q", "main"])
            .output()
            .expect("git starts"),
    );
    project.bash("chmod 755 .git/piton/runs");
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr().contains("piton's `post-rewrite` hook failed"),
        "{ran}"
    );
    verified(&project);
}
