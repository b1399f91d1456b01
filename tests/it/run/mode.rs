//! Checkpoint modes.

use super::{
    assert_sound, assert_unharmed, call, directive, dirty, project, steps, subjects, summary,
};
use crate::harness::TestProject;

const CHECKPOINT: &str = "<step name=\"keep\"><checkpoint operation=\"keep it\"/></step>\n";

fn two_and_a_checkpoint(metadata: &str) -> TestProject {
    let all = format!(
        "{}{}{CHECKPOINT}{}",
        call("a", "add", "", "a"),
        call("b", "add", "", "b"),
        call("c", "add", "", "c")
    );
    directive("modes", metadata, &all)(project()).committed()
}

#[test]
fn explicit_mode_commits_at_checkpoint_steps_and_reports_what_is_left() {
    let project = two_and_a_checkpoint("");
    dirty(&project);
    let ran = project.piton(["run", "modes", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(subjects(&project), ["chore: keep it"]);
    assert_eq!(project.git(["show", "HEAD:out.txt"]), "first\na\nb\n");
    assert_eq!(project.read("out.txt"), "first\na\nb\nc\n");
    assert_eq!(summary(&ran)["uncommitted"], serde_json::json!(["out.txt"]));
    assert_unharmed(&project);
    let ran = project.piton(["checkpoint"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.git(["show", "HEAD:out.txt"]), "first\na\nb\nc\n");
    assert_unharmed(&project);
}

#[test]
fn auto_mode_commits_each_step_and_its_checkpoint_steps_find_nothing() {
    let project = two_and_a_checkpoint("<git_checkpoint mode=\"auto\"/>");
    dirty(&project);
    let ran = project.piton(["run", "modes", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(subjects(&project).len(), 3);
    assert_eq!(
        summary(&ran)["steps"][2]["checkpoint"]["status"],
        "no_changes"
    );
    assert_unharmed(&project);
}

#[test]
fn disabled_mode_commits_nothing() {
    let project = two_and_a_checkpoint("<git_checkpoint mode=\"disabled\"/>");
    dirty(&project);
    let ran = project.piton(["run", "modes", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(subjects(&project), Vec::<String>::new());
    assert_eq!(project.read("out.txt"), "first\na\nb\nc\n");
    assert_unharmed(&project);
}

#[test]
fn flag_beats_directive_beats_project_beats_user() {
    let mode = |project: &TestProject, more: &[&str]| {
        let ran =
            project.piton([&["run", "modes", "--format", "json", "--dry-run"], more].concat());
        ran.json()["mode"].as_str().unwrap_or_default().to_owned()
    };
    let project = two_and_a_checkpoint("");
    assert_eq!(mode(&project, &[]), "explicit");
    let project = project.home_file(".ai/config.yaml", "checkpoint:\n  mode: disabled\n");
    assert_eq!(mode(&project, &[]), "disabled");
    let project = project.file(".ai/config.yaml", "checkpoint:\n  mode: auto\n");
    assert_eq!(mode(&project, &[]), "auto");
    let project = directive(
        "modes",
        "<git_checkpoint mode=\"disabled\"/>",
        &call("a", "add", "", "a"),
    )(project);
    assert_eq!(mode(&project, &[]), "disabled");
    assert_eq!(mode(&project, &["--checkpoint", "explicit"]), "explicit");
}

#[test]
fn the_old_spelling_of_a_checkpoint_works() {
    let old = "<step name=\"keep\"><execute item_type=\"directive\" item_id=\"git_checkpoint\">\
               <param name=\"operation\" value=\"release {input:who}\"/></execute></step>";
    let told = call("told", "add", "", "{step:keep.files_changed} file");
    let project = directive(
        "old",
        "",
        &format!("{}{old}{told}", call("a", "add", "", "a")),
    )(project())
    .committed();
    let ran = project.piton(["run", "old"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(subjects(&project), ["chore: release world"]);
    assert_eq!(project.read("out.txt"), "first\na\n1 file\n");
    assert_sound(&project);
}

#[test]
fn without_git_auto_is_refused_and_explicit_continues_with_a_warning() {
    let tool = |project: TestProject| project.tool("add", "", "echo line >> out.txt");
    let project = tool(directive("plain", "", &call("a", "add", "", ""))(
        TestProject::without_git(),
    ));
    let ran = project.piton(["run", "plain", "--checkpoint", "auto"]);
    assert_eq!(ran.code(), Some(5), "{ran}");
    let ran = project.piton(["run", "plain"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("there is no git repository"), "{ran}");
    assert_eq!(project.read("out.txt"), "line\n");
}

#[test]
fn an_undeclared_change_is_committed_and_told_and_refused_when_strict() {
    let sly =
        |project: TestProject| project.tool("sly", "mutates_state: false", "echo sly >> out.txt");
    let project = sly(directive(
        "quiet",
        "<git_checkpoint mode=\"auto\"/>",
        &call("a", "sly", "", ""),
    )(project()))
    .committed();
    let ran = project.piton(["run", "quiet", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(subjects(&project).len(), 1);
    let ran = project.piton(["run", "quiet", "--strict", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "UNDECLARED_MUTATION");
    assert_eq!(project.read("out.txt"), "first\nsly\n");
    assert_eq!(steps(&ran), [("a".into(), "failed".into())]);
}
