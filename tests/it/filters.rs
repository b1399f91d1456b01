//! Repositories with content filters, compared with git: the same edits are made in a copy of the
//! repository and committed with `git add -A && git commit`. Trees, index and `git status` must be
//! the same.

mod failure;
mod large;
mod lfs;
mod reading;
mod unreadable;

use crate::harness::{Ran, TestProject};

/// A typical filter that converts letters and records each run.
fn upper(attributes: &str) -> TestProject {
    let project = TestProject::new()
        .file(".gitattributes", attributes)
        .file("plain.txt", "plain\n");
    project.bash(
        "git config filter.up.clean 'echo clean >> ../trace; tr a-z A-Z'
         git config filter.up.smudge 'echo smudge >> ../trace; tr A-Z a-z'
         echo one > a.up; touch -d '5 minutes ago' * .gitattributes; git add -A; git commit -qm start; rm -f ../trace",
    );
    project
}

/// How often filters ran since the last call.
fn traces(project: &TestProject) -> usize {
    project
        .bash("cat ../trace 2>/dev/null || true; rm -f ../trace")
        .lines()
        .count()
}

#[track_caller]
fn exec(project: &TestProject, script: &str) -> Ran {
    let ran = project.piton(["exec", "--", "bash", "-euc", script]);
    assert_eq!(ran.code(), Some(0), "{script}: {ran}");
    ran
}

/// Makes the same edits in the project, as one step, and in the copy with git alone.
#[track_caller]
fn assert_as_git(project: &TestProject, script: &str) -> Ran {
    twin(project);
    let ran = exec(project, script);
    project.bash(&format!(
        "cd ../twin; {script}\ngit add -A; git commit -qm twin"
    ));
    assert_same_as_twin(project);
    ran
}

/// Copies the repository. The copy has other inodes, which must not make its files look changed.
fn twin(project: &TestProject) {
    project.bash("rm -rf ../twin; cp -a . ../twin; git -C ../twin config core.checkStat minimal");
}

#[track_caller]
fn assert_same_as_twin(project: &TestProject) {
    for question in [
        "git rev-parse 'HEAD^{tree}'",
        "git ls-files -s",
        "git status --porcelain",
    ] {
        let (ours, theirs) = (
            project.bash(question),
            project.bash(&format!("cd ../twin; {question}")),
        );
        assert_eq!(
            ours,
            theirs,
            "{question}\n{}",
            project.bash("git diff HEAD; git show HEAD")
        );
    }
    project.git(["fsck", "--full", "--strict"]);
}

#[track_caller]
fn piton(project: &TestProject, arguments: &[&str]) -> Ran {
    let ran = project.piton(arguments);
    assert_eq!(ran.code(), Some(0), "{arguments:?}: {ran}");
    ran
}

#[test]
fn a_step_commits_what_the_filter_makes_of_its_files() {
    let project = upper("*.up filter=up\n");
    assert_as_git(
        &project,
        "echo two >> a.up; echo new > b.up; mkdir d; echo deep > d/c.up; echo p >> plain.txt",
    );
    assert_eq!(project.git(["show", "HEAD:b.up"]), "NEW\n");
    assert_eq!(
        project.read("b.up"),
        "new\n",
        "the file on disk stays as the step wrote it"
    );
    assert_as_git(&project, "rm a.up; git mv b.up e.up; chmod +x d/c.up");
    assert_as_git(
        &project,
        "printf 'x\\n' > 'd/a name.up'; ln -s a.up link.up",
    );
    project.assert_clean();
}

#[test]
fn no_filter_runs_for_files_that_no_step_changed() {
    let project = upper("*.up filter=up\n");
    exec(&project, "echo p >> plain.txt");
    exec(&project, "true");
    assert_eq!(project.exec("echo q >> plain.txt; exit 1").code(), Some(1));
    piton(&project, &["undo"]);
    piton(&project, &["status"]);
    assert_eq!(traces(&project), 0);
    exec(&project, "echo 1 > x.up; echo 2 > y.up; echo 3 > z.up");
    assert_eq!(traces(&project), 3, "each changed file is converted once");
}

#[test]
fn a_failing_step_is_rolled_back_byte_by_byte_without_a_filter() {
    let project = upper("*.up filter=up\n");
    project
        .bash("printf 'MiXed\\n' > a.up; git add a.up; printf 'Dirty\\n' > a.up; rm -f ../trace");
    let ran = project.exec("echo gone > a.up; echo n > n.up; exit 7");
    assert_eq!(ran.code(), Some(7), "{ran}");
    assert_eq!(project.read("a.up"), "Dirty\n");
    assert_eq!(project.files(), [".gitattributes", "a.up", "plain.txt"]);
    assert_eq!(traces(&project), 0);
    assert_eq!(project.git(["show", ":a.up"]), "MIXED\n");
}

#[test]
fn undo_and_redo_give_the_bytes_that_were_on_disk() {
    let project = upper("*.up filter=up\n");
    let first = project.git(["rev-parse", "HEAD^{tree}"]);
    exec(&project, "printf 'Two\\n' > a.up; echo New > b.up");
    let second = project.git(["rev-parse", "HEAD^{tree}"]);
    piton(&project, &["undo"]);
    assert_eq!(
        (
            project.read("a.up").as_str(),
            project.git(["rev-parse", "HEAD^{tree}"])
        ),
        ("one\n", first)
    );
    project.assert_clean();
    piton(&project, &["redo"]);
    assert_eq!(
        (
            project.read("a.up").as_str(),
            project.git(["rev-parse", "HEAD^{tree}"])
        ),
        ("Two\n", second)
    );
    project.assert_clean();
    exec(&project, "rm a.up b.up");
    piton(&project, &["undo"]);
    assert_eq!(
        (project.read("a.up").as_str(), project.read("b.up").as_str()),
        ("Two\n", "New\n")
    );
    project.assert_clean();
}

#[test]
fn a_hard_roll_back_writes_files_as_git_checks_them_out() {
    let project = upper("*.up filter=up\n");
    exec(&project, "echo two > a.up; echo b > b.up");
    exec(&project, "git rm -q .gitattributes; echo three > a.up");
    assert_eq!(
        project.git(["show", "HEAD:a.up"]),
        "three\n",
        "without attributes nothing is converted"
    );
    project.bash("rm -rf ../twin; cp -a . ../twin; cd ../twin; git reset -q --hard HEAD~2");
    piton(&project, &["rollback", "--hard", "HEAD~2", "--yes"]);
    assert_eq!(project.read("a.up"), "one\n");
    assert_same_as_twin(&project);
}

#[test]
fn line_ends_ident_and_a_filter_work_together() {
    let project = upper("*.up filter=up text eol=crlf ident\n* text=auto\n");
    assert_as_git(
        &project,
        r"printf '$Id$ a\r\nb\r\n' > i.up; printf 'x\r\ny\n' > a.up; printf 'p\r\n' > plain.txt",
    );
    piton(&project, &["undo"]);
    assert_eq!(project.git(["diff", "HEAD~2", "--stat"]), "");
    assert_eq!(project.git(["status", "--porcelain"]), "");
}

#[test]
fn macros_and_quoted_patterns_are_no_way_around_a_filter() {
    let project = upper(
        "[attr]large filter=up\n*.big large\n\"with space.*\" filter=up\n*.up filter=up\nno.up -filter\n",
    );
    assert_as_git(
        &project,
        "echo m > m.big; echo s > 'with space.txt'; echo n > no.up",
    );
    assert_eq!(project.git(["show", "HEAD:m.big"]), "M\n");
    assert_eq!(project.git(["show", "HEAD:with space.txt"]), "S\n");
    assert_eq!(project.git(["show", "HEAD:no.up"]), "n\n");
}

#[test]
fn attributes_that_a_step_adds_changes_or_removes_count_as_with_git() {
    let project = upper("*.txt -filter\n");
    assert_eq!(project.git(["show", "HEAD:a.up"]), "one\n");
    // Git converts files again that are as young as its index, so the files of the steps are made
    // older.
    let old = "touch -d '2 minutes ago'";
    let script = "echo '*.up filter=up' > .gitattributes; echo two > b.up; echo three >> a.up";
    assert_as_git(&project, &format!("{script}; {old} a.up b.up"));
    let script = "echo '*.big filter=up' > .gitattributes; echo four >> a.up; echo five > c.big";
    assert_as_git(&project, &format!("{script}; {old} a.up c.big"));
    let script = "rm .gitattributes; echo six >> c.big; echo seven >> b.up";
    assert_as_git(&project, &format!("{script}; {old} b.up c.big"));
    piton(&project, &["undo"]);
    assert_eq!(project.read("c.big"), "five\n");
    assert_eq!(project.git(["show", "HEAD:c.big"]), "FIVE\n");
    // Disk and HEAD are as before. They have differed since the second step, which removed the
    // filter of `*.up`; git checks the content of a file that was just written, and reports it.
    assert_eq!(
        (
            project.read("b.up").as_str(),
            project.git(["show", "HEAD:b.up"]).as_str()
        ),
        ("two\n", "TWO\n")
    );
    assert_eq!(project.git(["status", "--porcelain"]), " M b.up\n");
}

#[test]
fn a_file_that_was_committed_before_its_filter_is_converted_when_it_changes() {
    let project = upper("*.txt -filter\n");
    project.bash(
        "echo '*.up filter=up' > .gitattributes; git add .gitattributes; git commit -qm filter",
    );
    assert_as_git(&project, "echo other >> plain.txt");
    assert_eq!(project.git(["show", "HEAD:a.up"]), "one\n");
    assert_as_git(&project, "echo two >> a.up");
    assert_eq!(project.git(["show", "HEAD:a.up"]), "ONE\nTWO\n");
    piton(&project, &["undo"]);
    assert_eq!(project.read("a.up"), "one\n");
    assert_eq!(
        project.git(["show", "HEAD:a.up"]),
        "one\n",
        "an undo gives HEAD back what it had"
    );
}

#[test]
fn an_encoding_is_stored_as_utf8() {
    let project = TestProject::new().file(
        ".gitattributes",
        "*.u text working-tree-encoding=UTF-16LE-BOM eol=crlf\n",
    );
    project.bash(r"printf '\xff\xfea\0\r\0\n\0' > a.u; git add -A; git commit -qm start");
    assert_as_git(
        &project,
        r"printf '\xff\xfea\0\r\0\n\0b\0\r\0\n\0' > a.u; printf '\xff\xfec\0\r\0\n\0' > b.u",
    );
    assert_eq!(project.git(["show", "HEAD:a.u"]), "a\nb\n");
    piton(&project, &["undo"]);
    assert_eq!(
        project.bash("od -An -tx1 a.u").trim(),
        "ff fe 61 00 0d 00 0a 00"
    );
    project.assert_clean();
    project.bash("rm -rf ../twin; cp -a . ../twin; cd ../twin; git reset -q --hard HEAD~1");
    piton(&project, &["rollback", "--hard", "HEAD~1", "--yes"]);
    assert_same_as_twin(&project);
    assert_eq!(
        project.bash("od -An -c a.u"),
        project.bash("od -An -c ../twin/a.u")
    );
}

#[test]
fn a_filter_that_is_a_process_converts_many_files_with_one_start() {
    let project = TestProject::new().file(".gitattributes", "*.p filter=proc\n");
    let script = project.home().join("proc.py");
    std::fs::write(&script, include_str!("filters/process.py")).expect("a filter");
    project.bash(&format!(
        "git config filter.proc.process 'python3 {} {}'; git config filter.proc.required true",
        script.display(),
        project.home().join("starts").display()
    ));
    project.bash("echo a > a.p; git add -A; git commit -qm start; rm ../home/starts");
    assert_as_git(
        &project,
        "for i in 1 2 3 4 5; do echo $i > $i.p; done; echo b >> a.p",
    );
    assert_eq!(
        project.git(["show", "HEAD:3.p"]),
        "3\n".chars().rev().collect::<String>()
    );
    project.bash("rm ../home/starts");
    exec(&project, "for i in 1 2 3; do echo more $i > $i.p; done");
    assert_eq!(project.bash("cat ../home/starts").lines().count(), 1);
    piton(&project, &["undo"]);
    assert_eq!(project.read("3.p"), "3\n");
}

#[test]
fn kept_changes_are_committed_by_a_later_checkpoint() {
    let project = upper("*.up filter=up\n");
    twin(&project);
    for script in [
        "echo two >> a.up; echo b > b.up",
        "echo three >> a.up",
        "rm .gitattributes; echo raw > c.up",
    ] {
        let ran = project.piton(["exec", "--checkpoint", "explicit", "--", "sh", "-c", script]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        project.bash(&format!("cd ../twin; {script}"));
    }
    piton(&project, &["checkpoint"]);
    project.bash("cd ../twin; git add -A; git commit -qm twin");
    assert_same_as_twin(&project);
    piton(&project, &["undo"]);
}

#[test]
fn a_checkpoint_of_paths_and_of_everything_is_as_with_git() {
    let project = upper("*.up filter=up\n");
    project.bash("echo two >> a.up; echo b > b.up");
    twin(&project);
    piton(&project, &["checkpoint", "a.up"]);
    project.bash("cd ../twin; git add a.up; git commit -qm twin");
    assert_same_as_twin(&project);
    piton(&project, &["checkpoint", "--all"]);
    project.bash("cd ../twin; git add -A; git commit -qm twin");
    assert_same_as_twin(&project);
}

#[test]
fn edits_of_the_user_in_filtered_files_stay_theirs() {
    let project = upper("*.up filter=up\n");
    project.bash("printf 'one\\n2\\n3\\n4\\n5\\nsix\\n' > a.up; git commit -qam lines; printf 'mine\\n2\\n3\\n4\\n5\\nsix\\n' > a.up");
    exec(&project, "sed -i 's/six/seven/' a.up");
    assert_eq!(
        project.git(["show", "HEAD:a.up"]),
        "ONE\n2\n3\n4\n5\nSEVEN\n"
    );
    assert_eq!(project.read("a.up"), "mine\n2\n3\n4\n5\nseven\n");
    assert_eq!(project.git(["diff", "--numstat"]), "1\t1\ta.up\n");
}

#[test]
fn the_index_knows_the_size_on_disk() {
    let project = TestProject::new().file(".gitattributes", "*.w filter=wide\n");
    project
        .bash("git config filter.wide.clean 'sed s/$/aaaaaaaaaaaaaaaa/'; git config filter.wide.smudge 'sed s/a*$//'");
    project.bash("git add -A; git commit -qm start");
    // The index can only rely on the stat data of files older than a second.
    exec(&project, "echo x > f.w; touch -d '2 minutes ago' f.w");
    let entry = project.bash("git ls-files --debug f.w");
    assert!(entry.contains("size: 2\t"), "{entry}");
    project.assert_clean();
}
