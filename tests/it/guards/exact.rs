//! H22: a roll back restores modes, links, folders, names and times exactly.

use std::fs;

use super::{Picture, exec, exec_with, simple, told};
use crate::harness::TestProject;

/// Runs a script that fails: everything is as before, the given files rewritten at most.
#[track_caller]
fn assert_rolled_back(project: &TestProject, script: &str, rewritten: &[&str]) {
    let before = Picture::of(project);
    exec(project, &format!("{script}; exit 7")).assert_end("7 rolled_back COMMAND_FAILED");
    let mut now = Picture::of(project);
    for path in rewritten {
        let time = before.files.get(*path).map(|node| node.modified);
        if let (Some(node), Some(time)) = (now.files.get_mut(*path), time) {
            node.modified = time;
        }
    }
    assert_eq!(now, before, "{script}");
    super::assert_whole(project, &project.root());
}

/// Runs a script that succeeds, and undoes it.
#[track_caller]
fn assert_undone(project: &TestProject, script: &str, rewritten: &[&str]) {
    let before = Picture::of(project);
    exec_with(project, &["--checkpoint", "explicit"], script).assert_end("0 skipped -");
    told(project, &["undo"]).assert_end("0 skipped -");
    let mut now = Picture::of(project);
    for path in rewritten {
        let time = before.files.get(*path).map(|node| node.modified);
        if let (Some(node), Some(time)) = (now.files.get_mut(*path), time) {
            node.modified = time;
        }
    }
    assert_eq!(now, before, "{script}");
    super::assert_whole(project, &project.root());
}

fn both(project: &TestProject, script: &str, rewritten: &[&str]) {
    assert_rolled_back(project, script, rewritten);
    assert_undone(project, script, rewritten);
}

#[test]
fn h22_permission_bits_come_back() {
    let project = simple()
        .file("tool.sh", "#!/bin/sh\n")
        .file("private.key.txt", "x\n")
        .file("shared/a.txt", "a\n");
    project.bash("chmod 755 tool.sh; chmod 600 private.key.txt; chmod 2775 shared; git add .; git commit -qm modes");
    both(&project, "chmod +x notes.txt", &[]);
    both(&project, "chmod -x tool.sh", &[]);
    both(&project, "chmod 644 private.key.txt", &[]);
    both(&project, "chmod 755 shared", &[]);
    both(&project, "chmod 400 notes.txt", &[]);
    both(
        &project,
        "rm private.key.txt tool.sh",
        &["private.key.txt", "tool.sh"],
    );
    both(&project, "rm -r shared", &["shared/a.txt"]);
    both(
        &project,
        "rm -r shared; mkdir shared; echo b > shared/a.txt",
        &["shared/a.txt"],
    );
    project.assert_clean();
}

#[test]
fn h22_an_executable_bit_is_committed_and_undone() {
    let project = simple();
    let before = Picture::of(&project);
    exec(&project, "chmod +x notes.txt").assert_end("0 committed -");
    assert!(
        project
            .git(["ls-tree", "HEAD", "notes.txt"])
            .starts_with("100755 ")
    );
    project.assert_clean();
    told(&project, &["undo"]).assert_end("0 committed -");
    before.assert_only(&project, &[]);
    project.assert_clean();
    // Bits that git does not record make no commit.
    exec(&project, "chmod 600 notes.txt").assert_end("0 no_changes -");
}

#[test]
fn h22_files_links_and_folders_change_places_and_come_back() {
    let project = simple()
        .file("dir/a.txt", "a\n")
        .file("dir/deep/b.txt", "b\n");
    project.bash("ln -s notes.txt link; ln -s /nowhere dangling; ln -s dir dirlink; git add .; git commit -qm links");
    both(
        &project,
        "rm notes.txt; ln -s /etc/passwd notes.txt",
        &["notes.txt"],
    );
    both(&project, "rm link; echo file > link", &["link"]);
    both(
        &project,
        "ln -sfn elsewhere link; ln -sfn other dangling",
        &["link", "dangling"],
    );
    both(
        &project,
        "rm -r dir; echo file > dir",
        &["dir/a.txt", "dir/deep/b.txt"],
    );
    both(
        &project,
        "rm -r dir; ln -s ../home dir",
        &["dir/a.txt", "dir/deep/b.txt"],
    );
    both(
        &project,
        "rm notes.txt; mkdir -p notes.txt/deep; echo x > notes.txt/deep/x",
        &["notes.txt"],
    );
    both(&project, "rm link; mkdir link; echo x > link/x", &["link"]);
    both(&project, "rm dirlink; cp -r dir dirlink", &["dirlink"]);
    let written = fs::read_dir(project.home())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        // The first run makes the key of journals.
        .filter(|name| name != ".config");
    assert_eq!(written.count(), 0, "nothing was written through a link");
    project.assert_clean();
}

#[test]
fn h22_a_folder_replaced_by_a_link_does_not_lead_the_roll_back_outside() {
    let project = simple()
        .file("dir/a.txt", "a\n")
        .committed()
        .home_file("a.txt", "outside\n")
        .home_file("b.txt", "b\n");
    assert_rolled_back(&project, "rm -r dir; ln -s ../home dir", &["dir/a.txt"]);
    assert_rolled_back(
        &project,
        "rm -r dir; ln -s ../home dir; echo changed > dir/b.txt",
        &["dir/a.txt"],
    );
    assert_eq!(
        fs::read_to_string(project.home().join("a.txt")).expect("it stays"),
        "outside\n"
    );
    project.assert_clean();
}

#[test]
fn h22_commits_hold_links_as_links() {
    let project = simple().file("dir/a.txt", "a\n").committed();
    let before = Picture::of(&project);
    exec(
        &project,
        "rm -r dir; ln -s notes.txt dir; rm notes.txt; mkdir notes.txt; echo x > notes.txt/x",
    )
    .assert_end("0 committed -");
    assert!(
        project
            .git(["ls-tree", "HEAD", "dir"])
            .starts_with("120000 blob ")
    );
    project.assert_clean();
    told(&project, &["undo"]).assert_end("0 committed -");
    before.assert_only(&project, &["dir", "notes.txt"]);
    project.assert_clean();
    assert_eq!(project.read("dir/a.txt"), "a\n");
}

#[test]
fn h22_empty_folders_come_and_go() {
    let project = simple();
    project.bash("mkdir -p empty/inner; chmod 700 empty/inner");
    both(&project, "rm -r empty", &[]);
    both(&project, "mkdir -p made/by/step", &[]);
    both(&project, "echo x > empty/inner/file", &[]);
    both(&project, "chmod 755 empty/inner", &[]);
    both(&project, "rmdir empty/inner; echo file > empty/inner", &[]);
    both(
        &project,
        "mkdir -p new; echo x > new/x; mkdir new/empty",
        &[],
    );
    project.assert_clean();
}

#[test]
fn h22_names_that_differ_in_case_or_form_only() {
    let project = simple()
        .file("Readme", "r\n")
        .file("folder/x.txt", "x\n")
        .committed();
    both(&project, "mv Readme README", &["Readme"]);
    both(&project, "mv folder FOLDER", &["folder/x.txt"]);
    both(&project, "echo 2 > readme; echo 3 > README", &[]);
    exec(&project, "mv Readme README").assert_end("0 committed -");
    assert_eq!(project.git(["ls-files", "README", "Readme"]), "README\n");
    project.assert_clean();
    // The same letter composed and decomposed: two names.
    exec(
        &project,
        "echo nfc > $'caf\\xc3\\xa9'; echo nfd > $'cafe\\xcc\\x81'",
    )
    .assert_end("0 committed -");
    assert_eq!(
        project
            .git(["ls-tree", "-z", "--name-only", "HEAD"])
            .matches("caf")
            .count(),
        2
    );
    both(
        &project,
        "mv $'caf\\xc3\\xa9' plain; rm $'cafe\\xcc\\x81'",
        &["caf\\xc3\\xa9", "cafe\\xcc\\x81"],
    );
    project.assert_clean();
}

#[test]
fn h22_files_that_a_step_does_not_touch_keep_their_times() {
    let project = simple().file("other.txt", "o\n").committed();
    project.bash("touch -d '2001-02-03 04:05:06' notes.txt other.txt; echo mine > mine.txt; git status > /dev/null");
    let before = Picture::of(&project);
    exec(&project, "echo a > a.txt; echo x >> other.txt").assert_end("0 committed -");
    before.assert_only(&project, &["a.txt", "other.txt"]);
    exec(&project, "echo b > a.txt; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    before.assert_only(&project, &["a.txt", "other.txt"]);
    told(&project, &["undo"]).assert_end("0 committed -");
    before.assert_only(&project, &["a.txt", "other.txt"]);
    // A step that only touches a file has changed nothing.
    exec(&project, "touch notes.txt").assert_end("0 no_changes -");
    assert_eq!(project.git(["status", "--porcelain"]), "?? mine.txt\n");
}

#[test]
fn h22_same_size_changes_in_the_same_instant_are_seen() {
    let project = simple();
    let script = "stamp=$(stat -c %y notes.txt); sed -i 's/two/TWO/' notes.txt; touch -d \"$stamp\" notes.txt";
    both(&project, script, &["notes.txt"]);
    exec(&project, script).assert_end("0 committed -");
    assert_eq!(project.git(["show", "HEAD:notes.txt"]), "one\nTWO\nthree\n");
    project.assert_clean();
}

#[test]
fn h22_what_was_staged_by_a_failing_step_is_unstaged() {
    let project = simple().file("mine.txt", "mine\n").committed();
    project.bash("echo staged >> mine.txt; git add mine.txt");
    both(
        &project,
        "echo a > a.txt; git add a.txt; git rm -q --cached notes.txt",
        &[],
    );
    both(
        &project,
        "git reset -q; echo four >> notes.txt; git add -A",
        &["notes.txt"],
    );
    assert_eq!(project.git(["status", "--porcelain"]), "M  mine.txt\n");
}

#[test]
fn h22_bits_that_mean_nothing_to_git_come_back_all_the_same() {
    let project = simple().file("tool.sh", "#!/bin/sh\n");
    project
        .bash("chmod 755 tool.sh; git add .; git commit -qm tool; git config core.fileMode false");
    project.bash(
        "chmod 755 notes.txt; chmod 644 tool.sh; echo u > untracked.sh; chmod 755 untracked.sh",
    );
    assert_eq!(project.git(["status", "--porcelain"]), "?? untracked.sh\n");
    both(
        &project,
        "echo four >> notes.txt; echo x >> tool.sh",
        &["notes.txt", "tool.sh"],
    );
    both(
        &project,
        "rm notes.txt tool.sh; echo v >> untracked.sh",
        &["notes.txt", "tool.sh", "untracked.sh"],
    );
    both(
        &project,
        "echo n > new.sh; chmod 755 new.sh; chmod 600 notes.txt",
        &[],
    );
    exec(
        &project,
        "echo four >> notes.txt; echo n > new.sh; chmod 755 new.sh",
    )
    .assert_end("0 committed -");
    assert_eq!(
        project.git(["ls-tree", "--format=%(objectmode) %(path)", "HEAD"]),
        "100644 new.sh\n100644 notes.txt\n100755 tool.sh\n"
    );
    assert_eq!(project.git(["status", "--porcelain"]), "?? untracked.sh\n");
}
