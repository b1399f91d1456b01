//! What checkpoints must never do to a user's work, end to end. Each test name begins with its
//! hazard.
//!
//! Every test records the repository with a [`Guard`](crate::guard::Guard), runs the real binary
//! and lets the guard compare, with the real git. Scripts are run by `bash -euc`.

mod coverage;
mod h01_rollback;
mod h02_commit;
mod h02_later;
mod h02_overlap;
mod h03_outside;
mod h04_untracked;
mod h05_loud;
mod h09_concurrent_users;
mod h11_in_progress;
mod h13_head;
mod h19_budget;
mod h20_nested;
mod h21_heads;

use serde_json::{Value, json};

use crate::harness::{Ran, TestProject};

/// Runs a script as one step, with its events as JSON.
fn exec(project: &TestProject, script: &str) -> Ran {
    project.piton([
        "--format", "json", "exec", "--name", "act", "--", "bash", "-euc", script,
    ])
}

/// The exit code and the last line of JSON without the run id. The commit is shown as `HEAD` if it
/// is HEAD.
fn told(project: &TestProject, ran: &Ran) -> (Option<i32>, Value) {
    let stdout = ran.stdout();
    let line = stdout
        .lines()
        .last()
        .unwrap_or_else(|| panic!("nothing was printed\n{ran}"));
    let parse = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|err| panic!("not JSON: {err}\n{ran}"))
    };
    let mut last: Value = parse(line);
    if let Some(run) = last["run_id"].as_str() {
        assert_eq!(run.len(), 26, "{ran}");
        last = parse(&line.replace(run, "[RUN]"));
    }
    for step in last
        .get_mut("steps")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(commit) = step
            .pointer_mut("/checkpoint/commit_sha")
            .filter(|commit| commit.is_string())
        {
            let head = project.git(["rev-parse", "HEAD"]);
            if *commit == head.trim() {
                *commit = json!("HEAD");
            }
        }
    }
    (ran.code(), last)
}

/// The expected result of a committed step.
fn committed(files: u64, insertions: u64, deletions: u64) -> (Option<i32>, Value) {
    let checkpoint = json!({
        "status": "committed", "commit_sha": "HEAD",
        "files_changed": files, "insertions": insertions, "deletions": deletions,
    });
    (
        Some(0),
        finished("succeeded", &json!(0), &checkpoint, &Value::Null),
    )
}

/// The expected result of a step that exited with status 3 and was rolled back.
fn rolled_back(files: u64, insertions: u64, deletions: u64) -> (Option<i32>, Value) {
    let checkpoint = json!({
        "status": "rolled_back", "commit_sha": null,
        "files_changed": files, "insertions": insertions, "deletions": deletions,
    });
    let error = json!({
        "code": "COMMAND_FAILED", "message": "`bash` exited with status 3",
        "suggestion": "see what it did with `piton show [RUN]`",
    });
    (Some(3), finished("failed", &json!(3), &checkpoint, &error))
}

/// The expected result of a step whose checkpoint failed.
fn failed(exit_code: i32, code: &str, message: &str, suggestion: &str) -> (Option<i32>, Value) {
    let checkpoint = json!({ "status": "failed", "commit_sha": null, "files_changed": 0, "insertions": 0, "deletions": 0 });
    let error = json!({ "code": code, "message": message, "suggestion": suggestion });
    (
        Some(1),
        finished("failed", &json!(exit_code), &checkpoint, &error),
    )
}

fn finished(status: &str, exit_code: &Value, checkpoint: &Value, error: &Value) -> Value {
    json!({
        "type": "run_finished", "run_id": "[RUN]", "directive": null, "status": status,
        "steps": [{
            "name": "act", "status": status, "tool": null, "exit_code": exit_code, "checkpoint": checkpoint,
        }],
        "outputs": {}, "error": error,
    })
}

/// The expected result of a refusal before the command runs.
fn refused(code: &str, message: &str, suggestion: &str) -> (Option<i32>, Value) {
    (
        Some(5),
        json!({ "error": { "code": code, "message": message, "suggestion": suggestion } }),
    )
}

const OVERLAP_HINT: &str = "`piton undo` undoes the step: commit or stash your own part and run it again; or commit both together with \
     `piton checkpoint PATH`";

/// A project with the user's work in every state that git knows, all from before the run: `a.txt`
/// modified, `b.txt` new and staged, `p.txt` partly staged, `u.txt` untracked, `announced.txt`
/// added with `-N`, `gone.txt` deleted, `dropped.txt` deleted and staged, `x.sh` made executable; a
/// stash, another branch, a tag, a hook and ignored files.
fn dirty() -> TestProject {
    let project = TestProject::new()
        .file("a.txt", "one\ntwo\nthree\n")
        .file("c.txt", "one\ntwo\nthree\n")
        .file("d.txt", "to be deleted\n")
        .file("p.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
        .file("gone.txt", "gone\n")
        .file("dropped.txt", "dropped\n")
        .file("x.sh", "true\n")
        .file(".gitignore", ".env\nnode_modules/\n")
        .file(".git/hooks/post-checkout", "#!/bin/sh\n")
        .committed();
    project.bash(
        "git branch other; git tag v1
        echo stashed >> c.txt; git stash --quiet
        echo mine >> a.txt
        echo new > b.txt; git add b.txt
        sed -i s/1/staged/ p.txt; git add p.txt; sed -i s/9/unstaged/ p.txt
        echo untracked > u.txt
        echo announced > announced.txt; git add --intent-to-add announced.txt
        rm gone.txt; git rm --quiet dropped.txt
        chmod +x x.sh
        echo SECRET=1 > .env; mkdir -p node_modules/m; echo 'x = 1' > node_modules/m/index.js
        mkdir empty",
    );
    project
}
