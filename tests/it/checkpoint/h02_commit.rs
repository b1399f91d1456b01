//! H2: the user's dirty work is never committed under another name.

use serde_json::{Value, json};

use super::{committed, dirty, exec, finished, told};
use crate::harness::TestProject;
use crate::repository_guard::Guard;

#[test]
fn h2_only_the_delta_is_committed() {
    let project = dirty();
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo four >> c.txt; echo new > n.txt; rm d.txt");
    assert_eq!(told(&project, &ran), committed(3, 2, 1));
    assert_eq!(
        project.git(["diff", "HEAD", "--", "c.txt", "n.txt", "d.txt"]),
        ""
    );
    guard.committed(&["c.txt", "n.txt", "d.txt"]);
}

#[test]
fn h2_what_the_step_staged_is_committed_and_the_users_staging_is_kept() {
    let project = dirty();
    let guard = Guard::of(&project);
    let ran = exec(
        &project,
        "echo four >> c.txt; echo new > n.txt; git add c.txt n.txt; git rm --quiet d.txt",
    );
    assert_eq!(told(&project, &ran), committed(3, 2, 1));
    assert_eq!(
        project.git(["diff", "HEAD", "--", "c.txt", "n.txt", "d.txt"]),
        ""
    );
    guard.committed(&["c.txt", "n.txt", "d.txt"]);
}

#[test]
fn h2_a_step_without_changes_makes_no_commit_and_no_objects() {
    let project = dirty();
    let before = project.git(["count-objects"]);
    let first = exec(&project, "true");
    assert_eq!(first.code(), Some(0), "{first}");
    let objects = project.git(["count-objects"]);
    let guard = Guard::of(&project);
    let ran = exec(&project, "true");
    let checkpoint = json!({ "status": "no_changes", "commit_sha": null, "files_changed": 0, "insertions": 0, "deletions": 0 });
    assert_eq!(
        told(&project, &ran),
        (
            Some(0),
            finished("succeeded", &json!(0), &checkpoint, &Value::Null)
        )
    );
    assert_eq!(project.git(["count-objects"]), objects, "at first {before}");
    guard.refused();
}

#[test]
fn h2_lines_of_the_tool_are_committed_without_the_users_lines_in_the_same_file() {
    let lines = |marks: [&str; 3]| {
        format!(
            "{}\n2\n3\n4\n{}\n6\n7\n8\n{}\n",
            marks[0], marks[1], marks[2]
        )
    };
    let project = TestProject::new()
        .file("a.txt", lines(["1", "5", "9"]))
        .committed();
    project.bash("sed -i s/1/mine/ a.txt");
    let guard = Guard::of(&project);
    let ran = exec(&project, "sed -i s/9/tool/ a.txt");
    assert_eq!(told(&project, &ran), committed(1, 1, 1));
    assert_eq!(
        project.git(["show", "HEAD:a.txt"]),
        lines(["1", "5", "tool"])
    );
    assert_eq!(project.git(["show", ":a.txt"]), lines(["1", "5", "tool"]));
    assert_eq!(project.read("a.txt"), lines(["mine", "5", "tool"]));
    guard.committed(&["a.txt"]);
}

#[test]
fn h2_partial_staging_of_a_file_is_kept_around_the_tools_lines() {
    let lines = |marks: [&str; 3]| {
        format!(
            "{}\n2\n3\n4\n{}\n6\n7\n8\n{}\n",
            marks[0], marks[1], marks[2]
        )
    };
    let project = TestProject::new()
        .file("p.txt", lines(["1", "5", "9"]))
        .committed();
    project.bash("sed -i s/1/staged/ p.txt; git add p.txt; sed -i s/5/unstaged/ p.txt");
    let guard = Guard::of(&project);
    let ran = exec(&project, "sed -i s/9/tool/ p.txt");
    assert_eq!(told(&project, &ran), committed(1, 1, 1));
    assert_eq!(
        project.git(["show", "HEAD:p.txt"]),
        lines(["1", "5", "tool"])
    );
    assert_eq!(
        project.git(["show", ":p.txt"]),
        lines(["staged", "5", "tool"])
    );
    assert_eq!(project.read("p.txt"), lines(["staged", "unstaged", "tool"]));
    guard.committed(&["p.txt"]);
}

#[test]
fn h2_a_partly_staged_file_that_fails_is_rolled_back_with_its_staging() {
    let project = TestProject::new()
        .file("p.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
        .committed();
    project.bash("sed -i s/1/staged/ p.txt; git add p.txt; sed -i s/5/unstaged/ p.txt");
    let guard = Guard::of(&project);
    let ran = exec(&project, "sed -i s/9/tool/ p.txt; git add p.txt; exit 3");
    assert_eq!(told(&project, &ran), super::rolled_back(1, 1, 1));
    guard.rolled_back(&["p.txt"]);
}

#[test]
fn h2_the_tool_finishes_what_the_user_began_to_delete() {
    let project = TestProject::new()
        .file("gone.txt", "as committed\n")
        .committed();
    project.bash("rm gone.txt");
    let guard = Guard::of(&project);
    let ran = exec(&project, "echo 'as committed' > gone.txt");
    let checkpoint = json!({ "status": "no_changes", "commit_sha": null, "files_changed": 0, "insertions": 0, "deletions": 0 });
    assert_eq!(
        told(&project, &ran),
        (
            Some(0),
            finished("succeeded", &json!(0), &checkpoint, &Value::Null)
        )
    );
    project.assert_clean();
    guard.left(&["gone.txt"]);
}

#[test]
fn h2_a_mode_is_committed_without_the_users_lines() {
    let project = TestProject::new().file("x.sh", "true\n").committed();
    project.bash("echo mine >> x.sh");
    let guard = Guard::of(&project);
    let ran = exec(&project, "chmod +x x.sh");
    assert_eq!(told(&project, &ran), committed(1, 0, 0));
    assert_eq!(
        project.git(["ls-tree", "--format=%(objectmode)", "HEAD"]),
        "100755\n"
    );
    assert_eq!(project.git(["show", "HEAD:x.sh"]), "true\n");
    assert_eq!(project.read("x.sh"), "true\nmine\n");
    guard.committed(&["x.sh"]);
}

#[test]
fn h2_lines_in_a_file_of_windows_line_ends_are_committed_without_the_users() {
    let project = TestProject::new()
        .file(".gitattributes", "*.txt text eol=crlf\n")
        .file("a.txt", "1\r\n2\r\n3\r\n4\r\n5\r\n");
    let project = project.committed();
    project.bash("sed -i s/1/mine/ a.txt");
    let guard = Guard::of(&project);
    let ran = exec(&project, "sed -i s/5/tool/ a.txt");
    assert_eq!(told(&project, &ran), committed(1, 1, 1));
    assert_eq!(project.git(["show", "HEAD:a.txt"]), "1\n2\n3\n4\ntool\n");
    assert_eq!(project.read("a.txt"), "mine\r\n2\r\n3\r\n4\r\ntool\r\n");
    guard.committed(&["a.txt"]);
}
