//! Ordinary git between a step and its checkpoint: changes that were committed, discarded or edited
//! since, and approvals.

mod approval;

use serde_json::{Value, json};

use crate::harness::{Ran, TestProject};
use crate::repository_guard::Guard;
use crate::run::assert_sound;

/// Makes a checkpoint, which must succeed.
fn checkpoint(project: &TestProject) -> Ran {
    let ran = project.piton(["checkpoint"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    ran
}

/// The files that HEAD changed.
fn committed(project: &TestProject) -> String {
    project.git(["show", "--name-only", "--format=", "HEAD"])
}

fn left(project: &TestProject) -> Value {
    let found = project.piton(["diff", "--stat", "--format", "json"]).json();
    let files = found["changes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|change| change["path"].clone());
    json!({"from": found["from"], "files": files.collect::<Vec<_>>()})
}

fn commits(project: &TestProject) -> usize {
    project.git(["rev-list", "HEAD"]).lines().count()
}

const NUMBERS: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

fn numbers() -> TestProject {
    TestProject::new()
        .file("f", NUMBERS)
        .file("g", "one\n")
        .committed()
}

#[test]
fn r1_what_the_user_has_committed_is_no_longer_a_steps() {
    let project = TestProject::new().file("f", "one\n").committed();
    let ran = project.piton(["new", "tool", "g"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    project.bash("for file in $(git ls-files -o); do echo '# mine' >> $file; done; git add -A; git commit -qm mine");
    project.keep("echo two >> f");
    checkpoint(&project);
    assert_eq!(committed(&project), "f\n");
    project.assert_clean();
    assert_sound(&project);
}

#[test]
fn r1_a_file_that_was_untracked_before_the_step_overlaps_until_it_is_committed() {
    let project = TestProject::new()
        .file("f", "one\n")
        .committed()
        .file("mine", "mine\n");
    project.keep("echo tool >> mine");
    let ran = project.piton(["checkpoint"]);
    assert!(
        ran.code() == Some(1) && ran.stderr().contains("DIRTY_OVERLAP"),
        "{ran}"
    );
    project.bash("git add mine; git commit -qm mine; echo later >> mine");
    project.keep("echo two >> f");
    checkpoint(&project);
    assert_eq!(committed(&project), "f\n");
    assert_eq!(project.git(["status", "--porcelain"]), " M mine\n");
}

#[test]
fn r2_what_was_discarded_is_gone() {
    let project = numbers();
    project.keep("echo tool > f; echo gone > gone.txt");
    project.bash("git checkout -q -- f; rm gone.txt");
    assert_eq!(left(&project)["files"], json!([]));
    project.keep("echo two >> g");
    assert_eq!(left(&project), json!({"from": "HEAD", "files": ["g"]}));
    checkpoint(&project);
    assert_eq!(committed(&project), "g\n");
    project.assert_clean();
    assert_sound(&project);
    // A new file with the same name does not count as the step's.
    project.bash("echo gone > gone.txt");
    let before = commits(&project);
    checkpoint(&project);
    assert_eq!(commits(&project), before);
    assert_eq!(project.git(["status", "--porcelain"]), "?? gone.txt\n");
}

#[test]
fn log_and_show_say_that_nothing_is_left() {
    let project = numbers();
    project.keep("echo tool > f");
    let ran = project.piton(["log"]);
    assert!(ran.stdout().contains("on disk"), "{ran}");
    project.bash("git checkout -q -- f");
    let ran = project.piton(["log"]);
    assert!(
        ran.stdout().contains("committed or discarded since"),
        "{ran}"
    );
    let logged = project.piton(["log", "--format", "json"]);
    let run: Value =
        serde_json::from_str(logged.stdout().lines().next().expect("a line")).expect("JSON");
    assert_eq!(run["settled"], json!([1]), "{logged}");
    checkpoint(&project);
    let ran = project.piton(["show", "--no-diff", run["id"].as_str().expect("an id")]);
    assert!(
        ran.stdout().contains("committed or discarded since"),
        "{ran}"
    );
}

#[test]
fn a_checkpoint_of_discarded_changes_says_that_there_is_nothing() {
    let project = numbers();
    project.keep("echo tool > f");
    project.bash("git checkout -q -- f");
    let ran = checkpoint(&project);
    assert!(
        ran.stderr().contains("steps left no uncommitted changes"),
        "{ran}"
    );
    assert_eq!(commits(&project), 1);
    assert_sound(&project);
}

#[test]
fn of_two_steps_in_one_file_the_discarded_one_stays_out() {
    let project = numbers();
    project.keep("sed -i 's/^1$/one/' f");
    project.bash("git checkout -q -- f");
    project.keep("sed -i 's/^9$/nine/' f");
    checkpoint(&project);
    assert_eq!(
        project.git(["show", "HEAD:f"]),
        NUMBERS.replace('9', "nine")
    );
    project.assert_clean();
}

#[test]
fn a_part_that_was_discarded_or_committed_by_hand_stays_out() {
    let project = numbers();
    project.keep("sed -i 's/^1$/one/; s/^9$/nine/' f");
    project.bash("sed -i 's/^one$/1/' f");
    checkpoint(&project);
    assert_eq!(
        project.git(["show", "HEAD:f"]),
        NUMBERS.replace('9', "nine")
    );
    project.assert_clean();
    project.keep("sed -i 's/^1$/one/; s/^5$/five/' f");
    project.bash(
        "cp f all; git show HEAD:f | sed 's/^1$/one/' > f; git commit -qam 'by hand'; mv all f",
    );
    checkpoint(&project);
    assert_eq!(
        project
            .git(["show", "--format=", "--unified=0", "HEAD"])
            .matches("\n+")
            .count(),
        2,
        "one line"
    );
    project.assert_clean();
    assert_sound(&project);
}

#[test]
fn edits_in_other_lines_stay_dirty_on_disk() {
    let project = numbers();
    project.keep("sed -i 's/^1$/one/' f");
    project.bash("sed -i 's/^9$/mine/' f");
    checkpoint(&project);
    assert_eq!(project.git(["show", "HEAD:f"]), NUMBERS.replace('1', "one"));
    assert_eq!(
        project.read("f"),
        NUMBERS.replace('1', "one").replace('9', "mine")
    );
    assert_eq!(project.git(["status", "--porcelain"]), " M f\n");
    assert_sound(&project);
}

#[test]
fn edits_in_the_same_lines_are_named_and_can_be_included() {
    let project = numbers();
    project.keep("sed -i 's/^1$/one/' f; echo new > new");
    project.bash("sed -i 's/^one$/uno/' f");
    let guard = Guard::of(&project);
    let ran = project.piton(["checkpoint"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(
        ran.stderr(),
        "✗ no checkpoint was made; the changes stay on disk\n\
         error: edited since a step changed them, in the same lines: `f` [EDITED_SINCE]\n\
         hint: `piton checkpoint --include-edits` commits these files as they are on disk; `piton diff` shows them\n"
    );
    guard.left(&[]);
    assert_eq!(left(&project)["files"], json!(["f", "new"]));
    let ran = project.piton(["checkpoint", "--include-edits"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["show", "HEAD:f"]), NUMBERS.replace('1', "uno"));
    project.assert_clean();
    let ran = project.piton(["show", "HEAD", "--no-diff"]);
    assert!(ran.stdout().contains("a person edited `f`"), "{ran}");
    assert_sound(&project);
}

#[test]
fn a_file_that_the_step_made_and_the_user_edited_is_named() {
    let project = numbers();
    project.keep("echo step > new");
    project.bash("echo mine >> new");
    let ran = project.piton(["checkpoint"]);
    assert!(
        ran.code() == Some(1) && ran.stderr().contains("EDITED_SINCE"),
        "{ran}"
    );
    project.bash("git add new; git commit -qm mine; echo more >> new");
    checkpoint(&project);
    assert_eq!(commits(&project), 2);
    assert_eq!(project.git(["status", "--porcelain"]), " M new\n");
}

#[test]
fn a_file_that_the_step_removed_and_the_user_created_again_is_the_users() {
    let project = numbers();
    project.keep("rm g; echo two > f");
    project.bash("echo mine > g");
    checkpoint(&project);
    assert_eq!(committed(&project), "f\n");
    assert_eq!(project.git(["status", "--porcelain"]), " M g\n");
}

#[test]
fn renames_and_modes_are_judged_like_any_change() {
    let project = TestProject::new()
        .file("old", NUMBERS)
        .file("run.sh", "true\n")
        .committed();
    project.keep("mv old new; chmod +x run.sh");
    checkpoint(&project);
    assert_eq!(
        project
            .git(["ls-files", "--stage", "run.sh"])
            .split(' ')
            .next(),
        Some("100755")
    );
    assert_eq!(
        project.git(["show", "--name-status", "--no-renames", "--format=", "HEAD"]),
        "A\tnew\nD\told\nM\trun.sh\n"
    );
    project.assert_clean();
    project.keep("chmod -x run.sh; mv new newer");
    project.bash("chmod +x run.sh; mv newer new");
    checkpoint(&project);
    assert_eq!(commits(&project), 2);
    project.assert_clean();
}

#[test]
fn what_the_user_staged_of_a_step_is_committed_once() {
    let project = numbers();
    project.keep("sed -i 's/^1$/one/' f; echo new > new");
    project.bash("git add -A");
    checkpoint(&project);
    assert_eq!(committed(&project), "f\nnew\n");
    project.assert_clean();
    assert_sound(&project);
}

#[test]
fn amend_reset_and_another_branch_between_step_and_checkpoint() {
    let project = numbers();
    project.keep("sed -i 's/^1$/one/' f");
    project.bash("echo mine >> g; git add g; git commit -q --amend --no-edit");
    checkpoint(&project);
    assert_eq!(committed(&project), "f\n");
    project.assert_clean();
    project.keep("sed -i 's/^9$/nine/' f");
    project.bash("git reset -q --soft HEAD~1");
    checkpoint(&project);
    // The user took the first checkpoint back; its line is staged and is now the user's to commit.
    assert_eq!(
        project.git(["show", "HEAD:f"]),
        NUMBERS.replace('9', "nine")
    );
    assert_eq!(
        project.read("f"),
        NUMBERS.replace('1', "one").replace('9', "nine")
    );
    project.bash("git commit -qam rest; git switch -qc other");
    project.keep("echo step >> g");
    project.bash("git switch -q main");
    checkpoint(&project);
    assert_eq!(committed(&project), "g\n");
    project.keep("echo step >> g");
    project.bash("git reset -q --hard");
    let before = commits(&project);
    checkpoint(&project);
    assert_eq!(commits(&project), before);
}

#[test]
fn line_ends_that_git_converts_are_no_edits() {
    let project = TestProject::new()
        .file(".gitattributes", "* text=auto\n")
        .file("f", "one\ntwo\n")
        .committed();
    project.keep("printf 'one\\r\\nzwei\\r\\n' > f");
    assert_eq!(left(&project)["files"], json!(["f"]));
    checkpoint(&project);
    assert_eq!(project.git(["show", "HEAD:f"]), "one\nzwei\n");
    project.assert_clean();
    project.keep("printf 'one\\r\\ndrei\\r\\n' > f");
    project.bash("printf 'one\\nzwei\\n' > f");
    checkpoint(&project);
    assert_eq!(commits(&project), 2);
}

#[test]
fn the_end_of_a_run_names_only_what_is_left() {
    let back = "<step name=\"back\"><execute item_type=\"tool\" item_id=\"back\"/></step>";
    let all = format!("{}{back}", crate::run::call("a", "add", "", "a"));
    let project = crate::run::directive("both", "", &all)(crate::run::project().tool(
        "back",
        "isolation: trusted",
        "git checkout -q out.txt",
    ));
    let project = project.committed();
    let ran = project.piton(["run", "both", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        crate::run::summary(&ran)["uncommitted"],
        Value::Null,
        "{ran}"
    );
}

const OUTPUTS: &str = "<outputs><success>sha: {step:keep.commit_sha}\nfiles: {step:keep.files_changed}\n\
                       text: made [{step:keep.commit_message}]</success></outputs>";

#[test]
fn r10_a_checkpoint_with_nothing_to_commit_has_empty_outputs() {
    let keep = "<step name=\"keep\"><checkpoint operation=\"keep\"/></step>\n";
    let say = crate::run::call("say", "list", "", "");
    for (all, mode) in [
        (
            format!("{}{keep}{say}", crate::run::call("a", "add", "", "a")),
            "auto",
        ),
        (format!("{keep}{say}"), "explicit"),
        (
            format!("{}{keep}{say}", crate::run::call("a", "add", "", "a")),
            "disabled",
        ),
    ] {
        let make = crate::run::directive("outputs", "", &all)(crate::run::project());
        let text = make
            .read(".ai/directives/outputs.md")
            .replace("</process>\n", &format!("</process>\n{OUTPUTS}\n"));
        let project = make.file(".ai/directives/outputs.md", text).committed();
        let ran = project.piton(["run", "outputs", "--checkpoint", mode, "--format", "json"]);
        assert_eq!(ran.code(), Some(0), "{mode}: {ran}");
        let outputs = &crate::run::summary(&ran)["outputs"];
        assert_eq!(
            *outputs,
            json!({"sha": null, "files": 0, "text": "made []"}),
            "{mode}: {ran}"
        );
        let ran = project.piton(["run", "outputs", "--checkpoint", mode]);
        assert!(ran.stdout().contains("sha:\n"), "{ran}");
    }
}

#[test]
fn status_names_what_steps_left_and_nothing_that_was_discarded_or_committed() {
    let project = numbers();
    assert_eq!(project.piton(["status"]).stdout(), "no run waits here\n");
    project.keep("sed -i 's/^2/two/' f; echo new > made.txt");
    project.keep("echo two >> g");
    project.bash("echo mine > mine.txt");
    let uncommitted =
        || project.piton(["status", "--format", "json"]).json()["uncommitted"].clone();
    let shown = project.piton(["status"]);
    assert!(
        shown.stdout().contains("left uncommitted by ")
            && shown.stdout().ends_with("  f\n  g\n  made.txt\n"),
        "{shown}"
    );
    for command in ["piton diff", "piton checkpoint", "piton undo"] {
        assert!(shown.stderr().contains(command), "{shown}");
    }
    assert_eq!(uncommitted(), json!(["f", "g", "made.txt"]));
    project.bash("rm made.txt; git add g; git commit -qm mine");
    assert_eq!(uncommitted(), json!(["f"]));
    project.bash("git checkout -q -- f");
    let shown = project.piton(["status"]);
    assert_eq!(
        (shown.stdout(), shown.stderr()),
        ("no run waits here\n".to_owned(), String::new())
    );
    assert_eq!(
        project.piton(["status", "--format", "json"]).stdout(),
        "null\n"
    );
}

#[test]
fn over_mcp_the_status_names_what_steps_left_too() {
    let project = numbers();
    project.keep("echo two >> g");
    let mut client = crate::mcp_client::McpClient::start(&project);
    client.initialize();
    let status = |client: &mut crate::mcp_client::McpClient| {
        let arguments = json!({"item_type": "directive", "action": "status"});
        client.call("execute", arguments)["structuredContent"].clone()
    };
    assert_eq!(status(&mut client)["uncommitted"], json!(["g"]));
    project.bash("git checkout -q -- g");
    assert_eq!(status(&mut client)["uncommitted"], Value::Null);
}
