//! The hooks `pre-push` and, on the server, `pre-receive`: good runs are accepted, tampered ones
//! are not.

use std::fs;

use crate::harness::{Ran, TestProject, cmd_snapshot};

/// A project with two checkpoints, and a remote with piton's hook that has the commits from before.
fn project() -> TestProject {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .committed();
    project.bash("git init -q --bare --initial-branch=main ../remote.git; git remote add origin ../remote.git; git push -q origin main");
    project.hook("../remote.git", "pre-receive");
    for (name, script) in [
        ("first", "echo two >> a.txt"),
        ("second", "echo new > new.txt"),
    ] {
        project
            .piton(["exec", "--name", name, "--", "sh", "-c", script])
            .succeeded();
    }
    project
}

fn push(project: &TestProject) -> Ran {
    project.try_git(["push", "-q", "origin", "main"])
}

fn refused(ran: &Ran, because: &str) {
    assert!(
        ran.code() == Some(1) && ran.stderr().contains(because),
        "{because}: {ran}"
    );
}

/// The newest commit on `main` of the remote.
fn landed(project: &TestProject) -> String {
    project.git(["-C", "../remote.git", "log", "--format=%s", "-1", "main"])
}

fn runs(project: &TestProject) -> Vec<String> {
    let text = project.git([
        "log",
        "--reverse",
        "--format=%(trailers:key=Piton-Run,valueonly)",
    ]);
    text.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Replaces the local log of a run by an edited one.
fn edit_log(project: &TestProject, run: &str, change: &str) {
    project.bash(&format!(
        "log=refs/piton/runs/{run}/log
         for id in $(git rev-list --reverse $log); do git cat-file blob $id:events.jsonl; done | {change} > ../lines
         tree=$(printf '100644 blob %s\\tevents.jsonl\\n' $(git hash-object -w ../lines) | git mktree)
         git update-ref $log $(git commit-tree -m forged $tree)"
    ));
}

#[test]
fn good_runs_land_once_their_logs_are_there() {
    let project = project();
    cmd_snapshot!(push(&project), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    remote: error: piton: commit [SHA] cannot land: the log of run `01kdyabkw0000e485875xhvkdf` is not here [LOG_MISSING]        
    remote: hint: `piton push REMOTE` sends the logs of runs: do that first, then push again        
    remote: error: piton: commit [SHA] cannot land: the log of run `01kdyadef0fgz2syhf4d156af1` is not here [LOG_MISSING]        
    To ../remote.git
     ! [remote rejected] main -> main (pre-receive hook declined)
    error: failed to push some refs to '../remote.git'
    ");
    assert_eq!(landed(&project), "start\n");
    project.piton(["push", "origin"]).succeeded();
    push(&project).succeeded();
    assert_eq!(landed(&project), project.git(["log", "--format=%s", "-1"]));
    // Branches, tags and commits without run trailers are accepted.
    project.bash(
        "git tag -a -m tag v1; git push -q origin v1 main:other; git push -q origin --delete other
         git commit -q --allow-empty -m plain; git push -q origin main; git push -q origin HEAD^{tree}:refs/tags/tree",
    );
    // Logs and commits in one push.
    project.bash("git init -q --bare ../second.git");
    project.hook("../second.git", "pre-receive");
    refused(
        &project.try_git(["push", "-q", "../second.git", "main"]),
        "LOG_MISSING",
    );
    project
        .try_git([
            "push",
            "-q",
            "../second.git",
            "main",
            "refs/piton/runs/*:refs/piton/runs/*",
        ])
        .succeeded();
}

#[test]
fn an_amended_checkpoint_does_not_land() {
    let project = project();
    project.piton(["push", "origin"]).succeeded();
    project.bash("echo evil >> new.txt; git commit -q -a --amend --no-edit");
    refused(&push(&project), "REWRITTEN");
    // A changed message alone leaves the changes as they were.
    project.bash("git reset -q --hard ORIG_HEAD 2> /dev/null || git reset -q --hard HEAD@{1}; git commit -q --amend -m \"$(git log -1 --format=%B | sed 1s/.*/words/)\"");
    push(&project).succeeded();
    // A rebase is accepted too, with a record of it, although the server does not have the old
    // contents.
    let project = self::project().hooked(["post-rewrite"]);
    project.bash("GIT_EDITOR=\"sed -i 1s/.*/words/\" git commit -q --amend; git switch -q -c base HEAD~2; echo b > b.txt; git add b.txt; git commit -qm base; git switch -q main; git rebase -q base");
    project.piton(["verify", "--all"]).succeeded();
    project.piton(["push", "origin"]).succeeded();
    push(&project).succeeded();
    assert_eq!(landed(&project), "words\n");
}

#[test]
fn what_was_done_to_a_log_is_noticed() {
    let newest = |project: &TestProject| runs(project).pop().expect("a run");
    for (change, because) in [
        ("sed '2d'", "LOG_BROKEN"),
        ("sed '2s/second/seconds/'", "LOG_BROKEN"),
        ("sed '$d'", "LOG_BROKEN"),
    ] {
        let project = project();
        project.piton(["push", "origin"]).succeeded();
        // A log on the server can be neither replaced nor removed.
        let run = newest(&project);
        edit_log(&project, &run, change);
        let name = format!("refs/piton/runs/{run}/log");
        refused(
            &project.try_git(["push", "-q", "--force", "origin", &name]),
            "can only be continued",
        );
        refused(
            &project.try_git(["push", "-q", "origin", &format!(":{name}")]),
            "can only be continued",
        );
        // A tampered log is refused, and so are its commits.
        project.bash(&format!("git -C ../remote.git update-ref -d {name}"));
        refused(&project.try_git(["push", "-q", "origin", &name]), because);
        refused(&push(&project), "LOG_MISSING");
        refused(
            &project.try_git(["push", "-q", "origin", "main", &name]),
            because,
        );
        assert_eq!(landed(&project), "start\n");
    }
}

#[test]
fn footers_without_trailers_and_half_of_the_trailers_do_not_land() {
    let project = project();
    project.piton(["push", "origin"]).succeeded();
    push(&project).succeeded();
    let run = runs(&project).remove(0);
    for (message, because) in [
        (
            "words\n\n[directive: release]".to_owned(),
            "names a directive and has no trailers",
        ),
        (format!("words\n\nPiton-Run: {run}"), "not complete"),
        ("words\n\npiton-tool: x".to_owned(), "not complete"),
        (
            format!(
                "words\n\nPiton-Run: {run}\nPiton-Step: 1 first\nPiton-Journal: sha256:{}",
                "0".repeat(64)
            ),
            "does not know it",
        ),
    ] {
        project.git(["commit", "-q", "--allow-empty", "-m", message.as_str()]);
        refused(&push(&project), because);
        refused(
            &project.try_git(["push", "-q", "origin", "HEAD:refs/tags/hidden"]),
            because,
        );
        project.git(["reset", "-q", "--hard", "HEAD~1"]);
    }
    // A ref of piton that points to a commit cannot bring it in.
    project.git([
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "words\n\n[directive: release]",
    ]);
    refused(
        &project.try_git(["push", "-q", "origin", "HEAD:refs/piton/local/x"]),
        "LOCAL_REF",
    );
    refused(
        &project.try_git([
            "push",
            "-q",
            "origin",
            &format!("HEAD:refs/piton/runs/{}/log", "01k9x2bf000000000000000000"),
        ]),
        "LOG_BROKEN",
    );
    project
        .try_git(["push", "-q", "origin", "HEAD:refs/attestations/x"])
        .succeeded();
    refused(&push(&project), "names a directive");
}

#[test]
fn before_a_push_the_runs_that_are_pushed_are_verified() {
    let project = project().hooked(["pre-push"]);
    project.piton(["push", "origin"]).succeeded();
    push(&project).succeeded();
    // A run whose journal was tampered with, and whose commits are pushed.
    project
        .piton([
            "exec",
            "--name",
            "third",
            "--",
            "sh",
            "-c",
            "echo third > third.txt",
        ])
        .succeeded();
    project.piton(["push", "origin"]).succeeded();
    let run = runs(&project).pop().expect("a run");
    let journal = project
        .root()
        .join(format!(".git/piton/runs/{run}/journal.jsonl"));
    let genuine = fs::read_to_string(&journal).expect("a journal");
    fs::write(&journal, genuine.replace("third.txt", "other.txt")).expect("written");
    cmd_snapshot!(push(&project), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: piton: run `01kdyah3n0n5navbrh4t87k53v` does not verify: the journal is not as it was written: line 6 was edited [JOURNAL_BROKEN]
    hint: `piton verify 01kdyah3n0n5navbrh4t87k53v` has details; `git push --no-verify` skips this check
    error: failed to push some refs to '../remote.git'
    ");
    // Other runs do not matter: a branch without the commits is accepted.
    project.bash("git switch -q -c side HEAD~1; git commit -q --allow-empty -m plain");
    project
        .try_git(["push", "-q", "origin", "side"])
        .succeeded();
    project
        .try_git(["push", "-q", "origin", "--delete", "side"])
        .succeeded();
    // The variables of hook managers are used if git's own input is not passed on.
    let ask = |from: &str, to: &str| {
        let mut command =
            project.command(["hooks", "run", "pre-push", "--", "origin", "../remote.git"]);
        let id = |name: &str| project.git(["rev-parse", name]).trim().to_owned();
        command
            .env("PRE_COMMIT_FROM_REF", id(from))
            .env("PRE_COMMIT_TO_REF", id(to));
        project.ran(command.output().expect("piton starts"))
    };
    refused(&ask("main~1", "main"), "JOURNAL_BROKEN");
    ask("main~1", "side").succeeded();
    fs::write(&journal, genuine).expect("written");
    project
        .try_git(["push", "-q", "origin", "main"])
        .succeeded();
    // Snapshots are not refs, so a mirror push works like any other. Refs of earlier versions are
    // refused.
    project
        .try_git(["push", "-q", "--mirror", "origin"])
        .succeeded();
    assert!(
        !project
            .bash("git -C ../remote.git for-each-ref")
            .contains("refs/piton/local")
    );
    project.git(["update-ref", "refs/piton/local/x", "HEAD"]);
    refused(
        &project.try_git(["push", "-q", "--mirror", "origin"]),
        "LOCAL_REF",
    );
}

#[test]
fn a_push_from_a_linked_worktree_to_a_remote_with_unknown_commits_is_judged() {
    let project = project().hooked(["pre-push"]);
    project.piton(["push", "origin"]).succeeded();
    // Another user has pushed a commit that is not here.
    project.bash("git clone -q ../remote.git ../clone; cd ../clone; git commit -q --allow-empty -m theirs; git push -q origin main");
    project.bash("git worktree add -q -b linked '../linked\ntree'");
    let folder = project.root().join("../linked\ntree");
    let git = |words: &[&str]| {
        project.ran(
            project
                .hermetic("git", &folder)
                .args(words)
                .output()
                .expect("git starts"),
        )
    };
    git(&["push", "-q", "origin", "linked"]).succeeded();
    git(&["push", "-q", "--force", "origin", "linked:main"]).succeeded();
    // A shallow repository without any object of the remote's commits.
    project
        .bash("git clone -q --depth 1 \"file://$PWD\" ../shallow; cd ../shallow; git commit -q --allow-empty -m plain");
    project.hook("../shallow/.git", "pre-push");
    project
        .try_git([
            "-C",
            "../shallow",
            "push",
            "-q",
            "origin",
            "HEAD:refs/heads/x",
        ])
        .succeeded();
}

#[test]
fn hooks_as_they_are_installed_do_all_of_it() {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .committed();
    project.bash("git init -q --bare --initial-branch=main ../remote.git; git remote add origin ../remote.git; git push -q origin main");
    project.piton(["hooks", "install"]).succeeded();
    project
        .piton(["-C", "../remote.git", "hooks", "install"])
        .succeeded();
    project
        .piton([
            "exec",
            "--name",
            "first",
            "--",
            "sh",
            "-c",
            "echo two >> a.txt",
        ])
        .succeeded();
    // Forged, then rewritten, then tampered with.
    let forged = format!(
        "x\n\nPiton-Run: 01k9x2bf000000000000000000\nPiton-Step: 1 x\nPiton-Journal: sha256:{}",
        "0".repeat(64)
    );
    refused(
        &project.try_git(["commit", "-q", "--allow-empty", "-m", &forged]),
        "FORGED_TRAILER",
    );
    refused(&push(&project), "LOG_MISSING");
    project.bash("git switch -q -c base HEAD~1; echo b > b.txt; git add b.txt; git commit -qm base; git switch -q main; git rebase -q base");
    project.piton(["verify", "--all"]).succeeded();
    project.piton(["push", "origin"]).succeeded();
    push(&project).succeeded();
    project.bash("echo evil >> a.txt; git commit -qa --amend --no-edit");
    refused(
        &project.try_git(["push", "-q", "--force", "origin", "main"]),
        "REWRITTEN",
    );
    refused(
        &project.try_git(["push", "-q", "--force", "--no-verify", "origin", "main"]),
        "REWRITTEN",
    );
}

#[test]
fn a_log_that_would_fill_the_memory_is_refused_and_read_by_no_command() {
    let project = project();
    project.piton(["push", "origin"]).succeeded();
    // 300 MB of text are a pack of less than 2 MB.
    let run = "01k9x2bf000000000000000000";
    project.bash(&format!(
        "blob=$(head -c 300000000 /dev/zero | tr '\\0' a | git -c core.compression=1 hash-object -w --stdin)
         tree=$(printf '100644 blob %s\\tevents.jsonl\\n' $blob | git mktree)
         git update-ref refs/piton/runs/{run}/log $(git commit-tree -m huge $tree)"
    ));
    let name = format!("refs/piton/runs/{run}/log");
    refused(
        &project.try_git(["push", "-q", "origin", &name]),
        "hold more than a log may hold",
    );
    // A server without the hook accepts it; the clients that fetch it go on.
    project.bash(&format!(
        "rm ../remote.git/hooks/pre-receive; git push -q origin {name}; git update-ref -d {name}"
    ));
    project.limited(["fetch", "origin"]).succeeded();
    let log = project.limited(["log"]).succeeded();
    assert!(
        log.stdout().contains("echo new > new.txt")
            && log.stderr().contains("hold more than a log may hold"),
        "{log}"
    );
    let verified = project.limited(["verify", "--all"]);
    assert_eq!(verified.code(), Some(1), "{verified}");
    assert!(
        verified
            .to_string()
            .contains("hold more than a log may hold"),
        "{verified}"
    );
}

#[test]
fn a_server_refuses_what_a_failing_piton_could_not_check() {
    let project = project();
    project.bash("rm ../remote.git/hooks/pre-receive");
    project
        .piton(["-C", "../remote.git", "hooks", "install"])
        .succeeded();
    let stub = project.root().join("../remote.git/hooks/pre-receive");
    let text = fs::read_to_string(&stub).expect("a stub");
    let own = text
        .lines()
        .find(|line| line.starts_with("piton_program="))
        .expect("the program");
    for end in ["exit 101", "kill -ABRT $$", "kill -KILL $$"] {
        project.bash(&format!(
            "printf '#!/bin/sh\\n%s\\n' '{end}' > ../broken; chmod +x ../broken"
        ));
        let broken = format!(
            "piton_program={}",
            project.root().join("../broken").display()
        );
        fs::write(&stub, text.replace(own, &broken)).expect("a stub");
        refused(&push(&project), "and the push is refused");
        assert_eq!(landed(&project), "start\n");
    }
    // A server without piton refuses too.
    project.bash("rm ../broken");
    let alone = project
        .hermetic("git", &project.root())
        .args(["push", "-q", "origin", "main"])
        .env("PATH", "/usr/bin:/bin")
        .output()
        .expect("git starts");
    refused(&project.ran(alone), "piton is not there");
    assert_eq!(landed(&project), "start\n");
}
