//! Sparse checkouts: git keeps only part of the files on disk.

use super::life::{Twins, exec_in, live, piton, said};
use crate::harness::TestProject;
use crate::linked_worktree::linked;

const FILES: &str = "git init -q -b main; mkdir -p in out/deep other; echo top > top.txt; echo a > in/a.txt; \
     echo b > out/b.txt; echo c > out/deep/c.txt; echo d > other/d.txt; git add .; git commit -qm start; ";

/// The kinds of sparse checkouts, each with only the folder `in` and the top on disk.
const KINDS: [&str; 4] = [
    "git sparse-checkout set --cone --no-sparse-index in",
    "git sparse-checkout set --cone --sparse-index in",
    "git sparse-checkout set --no-cone '/in/' '/top.txt'",
    "git config core.sparseCheckout true; printf '/*\\n!/out/\\n!/other\\n' > .git/info/sparse-checkout; git read-tree -mu HEAD",
];

fn made(kind: &str) -> String {
    format!("{FILES}{kind}; test ! -e out; test ! -e other; test -e in/a.txt")
}

#[test]
fn a_cone_is_supported() {
    live(&made(KINDS[0]));
}

#[test]
fn a_sparse_index_is_supported() {
    live(&made(KINDS[1]));
}

#[test]
fn patterns_of_ones_own_are_supported() {
    live(&made(KINDS[2]));
    live(&made(KINDS[3]));
}

#[test]
fn a_sparse_index_is_folded_again_by_git() {
    let project = TestProject::without_git();
    project.bash(&made(KINDS[1]));
    piton(
        &project,
        &["exec", "--", "sh", "-c", "echo more >> in/a.txt"],
    );
    project.bash("git sparse-checkout reapply");
    let folded = project.git(["ls-files", "--sparse"]);
    assert!(folded.contains("out/\n"), "{folded}");
    piton(&project, &["undo"]);
    assert_eq!(project.read("in/a.txt"), "a\n");
    project.assert_clean();
}

#[test]
fn what_a_step_writes_outside_is_kept_and_named_and_in_no_commit() {
    for kind in KINDS {
        let twins = Twins::of(&made(kind));
        let start = said(&twins.piton);
        let ran = twins.step(
            "mkdir out; echo changed > out/b.txt; echo new > out/new.txt; echo more >> in/a.txt",
        );
        let told = ran.stderr();
        assert!(
            told.contains("outside of the sparse checkout: `out/b.txt`, `out/new.txt`"),
            "{kind}: {told}"
        );
        assert_eq!(
            twins
                .piton
                .git(["show", "--format=", "--name-only", "HEAD"]),
            "in/a.txt\n"
        );
        assert_eq!(twins.piton.read("out/b.txt"), "changed\n");
        let with_files = said(&twins.piton);
        piton(&twins.piton, &["undo"]);
        assert_eq!(said(&twins.piton), start, "{kind}");
        piton(&twins.piton, &["redo"]);
        assert_eq!(said(&twins.piton), with_files, "{kind}");
        assert_eq!(twins.piton.read("out/new.txt"), "new\n");
    }
}

#[test]
fn a_failing_step_that_wrote_outside_is_rolled_back() {
    for kind in KINDS {
        let project = TestProject::without_git();
        project.bash(&made(kind));
        // The user also keeps a file outside of the sparse checkout.
        project.bash("mkdir other; echo mine > other/d.txt; echo mine > other/own.txt");
        let before = said(&project);
        let step = "mkdir out; echo x > out/b.txt; echo x > other/d.txt; rm other/own.txt; exit 1";
        let failed = project.exec(step);
        assert_eq!(failed.code(), Some(1), "{failed}");
        assert_eq!(said(&project), before, "{kind}");
        assert_eq!(project.read("other/d.txt"), "mine\n");
        assert_eq!(project.read("other/own.txt"), "mine\n");
        // A checkpoint of everything ignores it, as `git add -A` does.
        project.bash("echo more >> in/a.txt");
        piton(&project, &["checkpoint", "--all"]);
        assert_eq!(
            project.git(["show", "--format=", "--name-only", "HEAD"]),
            "in/a.txt\n"
        );
        assert_eq!(project.read("other/d.txt"), "mine\n");
    }
}

#[test]
fn a_step_is_undone_after_its_files_left_the_disk() {
    for kind in KINDS {
        let project = TestProject::without_git();
        project.bash(FILES);
        let step =
            "echo more >> out/b.txt; rm -r out/deep; echo n > other/n.txt; echo more >> in/a.txt";
        piton(&project, &["exec", "--", "sh", "-c", step]);
        // Nothing has to look at the files of the step first.
        project.bash(kind);
        assert!(!project.root().join("out").exists());
        let narrowed = said(&project);
        piton(&project, &["undo"]);
        assert_eq!(
            project.git(["rev-parse", "HEAD^{tree}"]),
            project.git(["rev-parse", "HEAD~2^{tree}"]),
            "{kind}"
        );
        assert_eq!(project.read("in/a.txt"), "a\n");
        assert!(!project.root().join("out").exists(), "{kind}");
        project.assert_clean();
        assert!(
            project
                .git(["ls-files", "-v"])
                .contains("S out/deep/c.txt\n"),
            "{kind}"
        );
        piton(&project, &["redo"]);
        assert_eq!(said(&project), narrowed, "{kind}");
        project.assert_clean();
        piton(&project, &["rollback", "--hard", "HEAD~1", "--yes"]);
        project.assert_clean();
        assert!(!project.root().join("out").exists(), "{kind}");
        // The files come back as git has them.
        project.git(["sparse-checkout", "disable"]);
        assert_eq!(project.read("out/deep/c.txt"), "c\n");
        assert_eq!(project.read("out/b.txt"), "b\n");
        project.assert_clean();
        piton(
            &project,
            &["exec", "--", "sh", "-c", "echo full >> out/b.txt"],
        );
        project.assert_clean();
    }
}

#[test]
fn a_step_may_narrow_and_widen_the_checkout_itself() {
    for flag in ["--no-sparse-index", "--sparse-index"] {
        let twins = Twins::of(FILES);
        let ran = twins.step(&format!(
            "git sparse-checkout set --cone {flag} in; echo more >> in/a.txt"
        ));
        assert!(
            !ran.stderr().contains("out/b.txt"),
            "a file that only left the disk has not changed: {ran}"
        );
        twins.step(&format!(
            "git sparse-checkout set --cone {flag} out; echo more >> out/b.txt"
        ));
        twins.step("git sparse-checkout disable; echo more >> other/d.txt");
        let failed = twins
            .piton
            .exec("git sparse-checkout set in; echo x >> in/a.txt; exit 1");
        assert_eq!(failed.code(), Some(1), "{failed}");
        assert_eq!(
            twins.piton.read("other/d.txt"),
            "d\nmore\n",
            "the files are back"
        );
        twins.piton.assert_clean();
        twins.assert_same();
    }
}

/// Prints what defines a sparse checkout.
const DEFINITION: &str = "set +e; cat .git/info/sparse-checkout .git/config.worktree 2>/dev/null; git sparse-checkout list 2>/dev/null; \
     git config --get-regexp '^(core.sparse|index.sparse)'; true";

#[test]
fn a_failing_step_that_changed_the_definition_gives_it_back() {
    let definition = DEFINITION;
    for kind in KINDS.iter().copied().chain(["true"]) {
        for step in [
            "git sparse-checkout set --cone out",
            "git sparse-checkout disable",
            "git sparse-checkout set --no-cone /top.txt",
        ] {
            let project = TestProject::without_git();
            project.bash(&format!("{FILES}{kind}"));
            let (before, defined) = (said(&project), project.bash(definition));
            let failed = project.exec(&format!("{step}; echo x > x.txt; exit 1"));
            assert_eq!(failed.code(), Some(1), "{failed}");
            assert_eq!(project.bash(definition), defined, "{kind}; {step}");
            assert_eq!(said(&project), before, "{kind}; {step}");
            project.bash("git sparse-checkout reapply 2>/dev/null || true");
            assert_eq!(said(&project), before, "{kind}; {step}");
        }
    }
}

#[test]
fn a_killed_step_that_changed_the_definition_gives_it_back() {
    for kind in KINDS.iter().copied().chain(["true"]) {
        for (step, place) in [
            ("git sparse-checkout set --cone out", "tool-ended"),
            ("git sparse-checkout disable", "roll-back-decided"),
            ("git sparse-checkout set --no-cone /top.txt", "rolled-back"),
        ] {
            let project = TestProject::without_git();
            project.bash(&format!("{FILES}{kind}"));
            let (before, defined) = (said(&project), project.bash(DEFINITION));
            let script = format!("{step}; echo x > x.txt; exit 1");
            let mut killed = project.command(["exec", "--", "sh", "-c", &script]);
            let killed = killed.env("PITON_FAILPOINT", place).output();
            assert_eq!(killed.expect("piton starts").status.code(), None);
            let ran = project.piton(["recover"]);
            assert_eq!(ran.code(), Some(0), "{kind}; {step}: {ran}");
            assert_eq!(
                project.bash(DEFINITION),
                defined,
                "{kind}; {step}; {place}: {ran}"
            );
            assert_eq!(said(&project), before, "{kind}; {step}; {place}: {ran}");
            project.bash("git sparse-checkout reapply 2>/dev/null || true");
            assert_eq!(said(&project), before, "{kind}; {step}; {place}");
        }
    }
}

#[test]
fn a_definition_that_the_user_changes_during_a_failing_step_stays() {
    for (kind, change) in [
        (KINDS[0], "git sparse-checkout set --cone out"),
        (KINDS[0], "git sparse-checkout disable"),
        ("true", "git sparse-checkout set --cone --sparse-index out"),
    ] {
        for is_killed in [false, true] {
            let project = TestProject::without_git();
            project.bash(&format!("{FILES}{kind}"));
            let script = "echo x > x.txt; echo more >> top.txt; exit 1";
            let mut child = project.stopped_at(&["exec", "--", "sh", "-c", script], "tool-ended");
            project.bash(change);
            let defined = project.bash(DEFINITION);
            if is_killed {
                child.kill().expect("it is killed");
                child.wait().expect("it has ended");
                let ran = project.piton(["recover"]);
                assert_eq!(ran.code(), Some(0), "{kind}; {change}: {ran}");
            } else {
                let ran = project.continued(child);
                assert_eq!(ran.code(), Some(1), "{kind}; {change}: {ran}");
            }
            assert_eq!(project.bash(DEFINITION), defined, "{kind}; {change}");
            assert_eq!(project.git(["status", "--porcelain"]), "");
            assert!(!project.root().join("x.txt").exists());
            assert_eq!(project.read("top.txt"), "top\n");
        }
    }
}

#[test]
fn a_run_in_a_full_worktree_is_merged_into_a_sparse_one() {
    for (kind, how) in KINDS
        .iter()
        .zip(["--keep", "--squash", "--keep", "--squash"])
    {
        let project = TestProject::without_git();
        project.bash(&made(kind));
        let folder = linked(&project, 1);
        project.bash(&format!(
            "cd {}; git sparse-checkout disable",
            folder.display()
        ));
        let step = "echo side >> out/b.txt; rm -r out/deep; echo n > other/n.txt; echo side >> in/a.txt; echo t > t.txt";
        let run = exec_in(&project, &folder, step);
        piton(&project, &["finish", &run, how]);
        project.assert_clean();
        assert_eq!(project.read("in/a.txt"), "a\nside\n", "{kind}");
        assert!(
            !project.root().join("out").exists() && !project.root().join("other").exists(),
            "{kind}"
        );
        let listed = project.git(["ls-files", "-v"]);
        assert!(
            listed.contains("S other/n.txt\n") && !listed.contains("deep/c.txt"),
            "{kind}: {listed}"
        );
        project.git(["sparse-checkout", "disable"]);
        assert_eq!(project.read("out/b.txt"), "b\nside\n", "{kind}");
        project.assert_clean();
    }
}

#[test]
fn patterns_decide_as_they_do_for_git() {
    let patterns = [
        "'/*' '!/*/' '/in/'",
        "'in' '!in/deep'",
        "'*.txt' '!out'",
        "'/in/**/x' 'top.txt' '!*.txt'",
        "'!/in' '/*'",
        "'deep/' '!/new'",
    ];
    for patterns in patterns {
        let twins = Twins::of(&format!(
            "{FILES} git sparse-checkout set --no-cone {patterns}"
        ));
        twins.step(
            "mkdir -p in/deep out/deep new/in; for f in in/a in/b.txt in/deep/x in/deep/b.txt out/n.txt out/deep/x new/a \
             new/in/c.txt t.txt t; do echo $f > $f; done; echo more >> in/a.txt",
        );
    }
}
