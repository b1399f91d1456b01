//! The private store: git never transfers it, it survives pruning by git, and refs of earlier
//! versions are moved into it.

use std::collections::BTreeSet;

use piton::audit::history::History;
use piton::checkpoint::snapshot::Snapshot;

use crate::harness::TestProject;

/// Prunes everything that is unreachable from refs and the index.
const PRUNE: &str = "git reflog expire --expire=now --expire-unreachable=now --all; git gc --quiet --prune=now --aggressive";
/// Replaces the current branch by one with another history; the files stay as they are.
const REPLACE: &str = "git checkout -q --orphan fresh; git commit -qm replaced; git branch -D main -q; git branch -m main; \
     git reflog expire --expire=now --expire-unreachable=now --all; git gc --quiet --prune=now";

fn exec(project: &TestProject, script: &str) {
    project
        .piton(["exec", "--", "bash", "-c", script])
        .succeeded();
}

fn explicit(project: &TestProject, script: &str) {
    project
        .piton([
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "bash",
            "-c",
            script,
        ])
        .succeeded();
}

/// The newest run.
fn newest(project: &TestProject) -> String {
    let log = project.piton(["log", "--format", "json"]).stdout();
    let run: serde_json::Value =
        serde_json::from_str(log.lines().next().expect("a run")).expect("JSON");
    run["id"].as_str().expect("a name").to_owned()
}

/// A tracked file, an untracked file, and a file with uncommitted changes.
fn project() -> TestProject {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("b/b.txt", "1\n2\n3\n4\n5\n")
        .committed();
    project.bash(
        "echo untracked > private.txt; sed -i 's/^1/mine/' b/b.txt; echo staged > staged.txt; git add staged.txt",
    );
    project
}

#[test]
fn r8_private_files_do_not_leave_with_any_form_of_push_clone_or_bundle() {
    let project = project();
    let refs = || project.git(["for-each-ref", "--format=%(refname)"]);
    let before = refs();
    let mut private = BTreeSet::new();
    for step in 0..50 {
        project.bash(&format!(
            "echo private {step} > private.txt; echo mine {step} >> b/b.txt"
        ));
        private.insert(project.git(["hash-object", "private.txt"]));
        private.insert(project.git(["hash-object", "b/b.txt"]));
        match step % 10 {
            3 => explicit(&project, &format!("echo kept {step} > kept{step}.txt")),
            6 => assert_eq!(
                project
                    .piton(["exec", "--", "bash", "-c", "echo no > c.txt; exit 3"])
                    .code(),
                Some(3)
            ),
            9 => drop(project.piton(["undo"]).succeeded()),
            _ => exec(&project, &format!("echo {step} >> a.txt")),
        }
    }
    assert_eq!(refs(), before, "no ref is listed that was not there before");
    assert_eq!(
        project.git(["log", "--all", "--format=%H"]),
        project.git(["log", "main", "--format=%H"])
    );
    project.bash(
        "git init -q --bare ../mirror.git; git push -q --mirror ../mirror.git; git clone -q --mirror . ../clone.git
         git bundle create -q ../all.bundle --all; git clone -q --mirror ../all.bundle ../bundle.git
         git init -q --bare ../fetched.git; git -C ../fetched.git fetch -q ../project '+refs/*:refs/*'",
    );
    for folder in [
        ".",
        "../mirror.git",
        "../clone.git",
        "../bundle.git",
        "../fetched.git",
    ] {
        let listed = project.bash(&format!(
            "git -C {folder} cat-file --batch-all-objects --batch-check='%(objectname)'"
        ));
        let found: BTreeSet<String> = listed.lines().map(|line| format!("{line}\n")).collect();
        assert!(
            found.is_disjoint(&private),
            "{folder} has {:?}",
            found.intersection(&private)
        );
    }
}

#[test]
fn every_step_can_be_undone_after_git_prunes_objects() {
    for prune in [PRUNE, "git repack -adq; git prune --expire=now", REPLACE] {
        let project = project();
        let prune = |told: &str| {
            project.bash(prune);
            let verified = project.piton(["verify", "--all"]);
            assert!(
                !verified.to_string().contains("SNAPSHOT_MISSING"),
                "{told}: {verified}"
            );
        };
        exec(&project, "echo two >> a.txt; echo n > new.txt");
        prune("after the first step");
        explicit(
            &project,
            "sed -i 's/^5/five/' b/b.txt; echo k > kept.txt; echo p >> private.txt; git add kept.txt",
        );
        prune("after the second step");
        let failed = project.piton([
            "exec",
            "--",
            "bash",
            "-c",
            "echo lost > lost.txt; rm a.txt; exit 3",
        ]);
        assert_eq!(failed.code(), Some(3), "{failed}");
        let lost = newest(&project);
        prune("after the third step");
        assert_eq!(
            project
                .piton(["show", &format!("lost.txt@{lost}")])
                .stdout(),
            "lost\n"
        );
        project
            .piton(["restore", &lost, "--paths", "lost.txt"])
            .succeeded();
        assert_eq!(project.read("lost.txt"), "lost\n");
        prune("after the restore");
        project.piton(["undo"]).succeeded();
        assert!(!project.root().join("lost.txt").exists());
        prune("after the undo of the restore");
        project.piton(["undo"]).succeeded();
        assert_eq!(project.read("b/b.txt"), "mine\n2\n3\n4\n5\n");
        assert_eq!(project.read("private.txt"), "untracked\n");
        assert!(!project.root().join("kept.txt").exists());
        project.git(["fsck", "--full", "--strict"]);
    }
}

#[test]
fn a_committed_step_is_undone_after_its_history_was_replaced() {
    let project = project();
    exec(&project, "echo two >> a.txt; echo n > new.txt");
    project.bash(&format!(
        "git stash -q --include-untracked; {REPLACE}; git stash pop -q"
    ));
    project.piton(["undo"]).succeeded();
    assert_eq!(project.read("a.txt"), "one\n");
    assert!(!project.root().join("new.txt").exists());
    assert_eq!(project.read("private.txt"), "untracked\n");
    project.git(["fsck", "--full", "--strict"]);
}

#[test]
fn a_secret_that_is_not_committed_is_not_in_the_object_database() {
    // Split, so that secret scanners do not report this file.
    let token = ["ghp_wWPw5k4aXcaT4fNP", "0UcnZwJUVFk6LO0pINUx"].concat();
    for hook in [
        "",
        "printf '#!/bin/sh\\nexit 0\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    ] {
        let project = TestProject::new()
            .file("a.txt", "one\n")
            .file(".gitattributes", "*.txt text\n")
            .committed();
        project.bash(hook);
        let script = format!("echo token = {token} > token.txt");
        let ran = project.piton(["exec", "--", "bash", "-c", &script]);
        assert_eq!(ran.code(), Some(1), "{ran}");
        assert!(ran.to_string().contains("SECRET_FOUND"), "{ran}");
        let id = project.git(["hash-object", "token.txt"]);
        let found = project.try_git(["cat-file", "-e", id.trim()]);
        assert_ne!(found.code(), Some(0), "the blob of the secret is there");
    }
}

#[test]
fn a_hook_and_a_signature_find_the_files_of_the_commit() {
    let project = project();
    let hook = "#!/bin/sh\\ngit diff --cached --name-only > ../tmp/seen; git cat-file -p :a.txt >> ../tmp/seen\\n";
    project.bash(&format!(
        "printf '{hook}' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
    ));
    project.bash("git config checkpoint.hooks run");
    let project = project.variable("PITON_CHECKPOINT_HOOKS", "run");
    exec(&project, "echo two >> a.txt");
    assert_eq!(project.bash("cat ../tmp/seen"), "a.txt\none\ntwo\n");
    project.git(["fsck", "--full", "--strict"]);
}

#[test]
fn a_file_is_shown_as_it_was_at_a_step() {
    let project = project();
    exec(
        &project,
        "echo two >> a.txt; printf '\\000\\377raw' > raw.bin; ln -s a.txt link",
    );
    let run = newest(&project);
    let show = |reference: &str| project.piton(["show", reference]);
    assert_eq!(show(&format!("a.txt@{run}")).stdout(), "one\ntwo\n");
    assert_eq!(show(&format!("a.txt@{run}/1:before")).stdout(), "one\n");
    assert_eq!(show(&format!("private.txt@{run}")).stdout(), "untracked\n");
    assert_eq!(show(&format!("link@{run}")).stdout(), "a.txt");
    assert_eq!(show("a.txt@HEAD").stdout(), "one\ntwo\n");
    assert_eq!(show(&format!("raw.bin@{run}")).output.stdout, b"\0\xffraw");
    let json = project
        .piton(["show", &format!("a.txt@{run}"), "--format", "json"])
        .json();
    assert_eq!(
        (&json["path"], &json["content"], &json["size"]),
        (&"a.txt".into(), &"one\ntwo\n".into(), &8.into())
    );
    for wrong in [
        format!("nothing.txt@{run}"),
        format!("b@{run}"),
        "a.txt@nothing".to_owned(),
        "../x@HEAD".to_owned(),
    ] {
        let ran = show(&wrong);
        assert_eq!(ran.code(), Some(2), "{ran}");
    }
    assert_eq!(
        show("HEAD@{0}").code(),
        Some(0),
        "a name of git with `@` is a commit"
    );
}

#[test]
fn a_commit_on_a_detached_head_survives_a_kill_at_every_point() {
    for place in ["commit-kept", "commit-applied", "commit-published"] {
        let project = project();
        project.git(["checkout", "-q", "--detach"]);
        let mut command = project.command(["exec", "--", "bash", "-c", "echo two >> a.txt"]);
        let output = command
            .env("PITON_FAILPOINT", place)
            .output()
            .expect("piton starts");
        assert_eq!(output.status.code(), None, "{place}");
        project.piton(["recover"]).succeeded();
        project.piton(["verify", "--all"]).succeeded();
        let head = project.git(["rev-parse", "HEAD"]);
        if place == "commit-published" {
            assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
        } else {
            assert_eq!(
                project.bash("cat .git/piton/store/kept/*/1/commit"),
                head,
                "{place}"
            );
        }
    }
}

/// Converts the repository to the layout of an earlier version: every snapshot is a commit below
/// `refs/piton/local/`, and there is no store.
fn age(project: &TestProject) -> usize {
    let (history, _) = History::load(&project.root().join(".git/piton/runs")).expect("journals");
    project.bash("cp -r .git/piton/store/objects/?? .git/objects/ 2> /dev/null || true");
    let mut refs = 0;
    let mut pin = |name: String, snapshot: &Snapshot| {
        let parent = snapshot
            .head
            .commit
            .map(|commit| format!("-p {commit}"))
            .unwrap_or_default();
        let staged = format!("git commit-tree {} {parent} -m staged", snapshot.index_tree);
        project.bash(&format!(
            "git update-ref refs/piton/local/{name} $(git commit-tree {} {parent} -p $({staged}) -m snapshot)",
            snapshot.tree
        ));
        refs += 1;
    };
    for step in history.runs.iter().flat_map(|run| &run.steps) {
        for (what, snapshot) in [
            ("before", &step.before),
            ("after", &step.after),
            ("rescue", &step.after),
        ] {
            if let Some(snapshot) = snapshot {
                pin(format!("{}/{what}", step.id), snapshot);
            }
        }
    }
    project.bash(
        "for kept in $(cd .git/piton/store/kept 2> /dev/null && find . -type f | sed 's,^./,,'); do
           git update-ref refs/piton/local/$kept $(cat .git/piton/store/kept/$kept); done; rm -rf .git/piton/store; git gc -q --prune=now",
    );
    refs
}

/// A repository of an earlier version: a commit, kept changes, rolled-back changes, and a commit
/// that is on no branch.
fn aged() -> TestProject {
    let project = project();
    exec(&project, "echo two >> a.txt");
    explicit(&project, "sed -i 's/^5/five/' b/b.txt; echo k > kept.txt");
    project.piton(["exec", "--", "bash", "-c", "echo lost > lost.txt; exit 3"]);
    age(&project);
    project
}

fn assert_taken_over(project: &TestProject) {
    assert_eq!(project.git(["for-each-ref", "refs/piton"]), "");
    project.bash(PRUNE);
    project.piton(["verify", "--all"]).succeeded();
    let log = project.piton(["log", "--format", "json"]).stdout();
    let mut failed = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let failed = failed
        .rfind(|run| run.to_string().contains("exit 3"))
        .expect("the failed run");
    let lost = failed["id"].as_str().expect("a name").to_owned();
    assert_eq!(
        project
            .piton(["show", &format!("lost.txt@{lost}")])
            .stdout(),
        "lost\n"
    );
    project.piton(["undo"]).succeeded();
    assert_eq!(project.read("b/b.txt"), "mine\n2\n3\n4\n5\n");
    assert!(!project.root().join("kept.txt").exists());
    assert_eq!(project.read("private.txt"), "untracked\n");
    project.git(["fsck", "--full", "--strict"]);
}

#[test]
fn refs_of_an_earlier_version_are_taken_over_once_and_in_the_open() {
    let project = aged();
    assert_ne!(project.git(["for-each-ref", "refs/piton/local"]), "");
    project.piton(["verify", "--all"]).succeeded();
    let ran = project.piton(["exec", "--", "true"]).succeeded();
    assert!(
        ran.stderr()
            .contains("moved the snapshots of 9 refs below `refs/piton/` to piton's own store"),
        "{ran}"
    );
    let run = newest(&project);
    let journal = project.bash(&format!(
        "cat .git/piton/runs/{run}*/journal.jsonl || cat .git/piton/runs/{run}*"
    ));
    assert!(
        journal.contains(r#""type":"snapshots_moved","refs":9"#),
        "{journal}"
    );
    let again = project.piton(["exec", "--", "true"]).succeeded();
    assert!(!again.stderr().contains("moved the snapshots"), "{again}");
    assert_taken_over(&project);
}

#[test]
fn a_migration_that_is_interrupted_is_done_by_the_next_run() {
    for place in ["refs-copied", "refs-told"] {
        let project = aged();
        project.bash("cd .git; mkdir -p refs/piton/local/x; touch refs/piton/local/x/y.lock");
        let mut command = project.command(["exec", "--", "true"]);
        let output = command
            .env("PITON_FAILPOINT", place)
            .output()
            .expect("piton starts");
        assert_eq!(output.status.code(), None, "{place}");
        project.bash(PRUNE);
        project.piton(["exec", "--", "true"]).succeeded();
        assert_taken_over(&project);
    }
}

#[test]
fn commits_that_only_an_old_ref_kept_are_taken_over_as_well() {
    let project = project();
    project.git(["checkout", "-q", "--detach"]);
    exec(&project, "echo two >> a.txt");
    let commit = project.git(["rev-parse", "HEAD"]);
    age(&project);
    project.git(["checkout", "-q", "main"]);
    project.piton(["gc"]).succeeded();
    assert_eq!(project.git(["for-each-ref", "refs/piton"]), "");
    project.bash(PRUNE);
    assert_eq!(project.bash("cat .git/piton/store/kept/*/1/commit"), commit);
    project.piton(["verify", "--all"]).succeeded();
    assert_eq!(
        project
            .piton(["show", &format!("a.txt@{}", commit.trim())])
            .stdout(),
        "one\ntwo\n"
    );
}

#[test]
fn a_run_that_continues_takes_the_refs_over_as_well() {
    let waits = "# words\n\n```xml\n<directive name=\"words\" version=\"1.0.0\">\n<metadata><description>Words</description>\
        <git_checkpoint mode=\"auto\"/><permissions><execute resource=\"tool\" id=\"*\"/>\
        <write resource=\"filesystem\" path=\"**\"/></permissions></metadata>\n<process>\n\
        <step name=\"note\"><execute item_type=\"tool\" item_id=\"note\"/></step>\n\
        <step name=\"write\"><action>Write words.txt.</action></step>\n\
        <step name=\"last\"><execute item_type=\"tool\" item_id=\"fail\"/></step>\n</process>\n</directive>\n```\n";
    let project = project().file(".ai/directives/words.md", waits);
    let project = project
        .tool("note", "", "echo note > note.txt")
        .tool("fail", "", "exit 3");
    project.bash("git add .ai; git commit -qm items");
    explicit(&project, "echo k > kept.txt");
    let ran = project.piton(["run", "words"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    // In a repository of an earlier version, a waiting run and then an ended one are resumed.
    let run = newest(&project);
    for (code, file) in [(1, "words.txt"), (0, "none.txt")] {
        age(&project);
        assert_ne!(project.git(["for-each-ref", "refs/piton/local"]), "");
        project.bash(&format!("echo words > {file}"));
        let ran = project.piton(["resume", &run]);
        assert_eq!(ran.code(), Some(code), "{ran}");
        assert!(ran.stderr().contains("to piton's own store"), "{ran}");
        assert_eq!(
            project.git(["for-each-ref", "refs/piton/local"]),
            "",
            "{ran}"
        );
        project.bash(PRUNE);
        project.piton(["verify", "--all"]).succeeded();
        project.bash("echo true > .ai/tools/fail/run.sh");
    }
    assert_eq!(
        project.piton(["show", "words.txt@HEAD"]).stdout(),
        "words\n"
    );
    project.piton(["undo", &run]).succeeded();
    assert!(!project.root().join("note.txt").exists());
    assert_eq!(project.read("private.txt"), "untracked\n");
}
