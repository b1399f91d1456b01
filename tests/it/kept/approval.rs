//! An approval is for content: what was shown is committed, including the person's own edits.

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::run::terminal::at_a_terminal;
use crate::run::{
    assert_sound, assert_unharmed, call, directive, dirty, project, subjects, summary,
};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";
const GATE: &str = "<step name=\"look\"><checkpoint type=\"human-verify\" gate=\"blocking\">Is it fine?</checkpoint></step>\n";
const KEEP: &str = "<step name=\"keep\"><checkpoint operation=\"keep\"/></step>\n";

fn gated(mode: &str) -> TestProject {
    directive(
        "asks",
        mode,
        &format!("{}{GATE}{KEEP}", call("a", "add", "", "wrong")),
    )(project())
    .committed()
}

/// What an approval is for, according to `piton status`.
fn review(project: &TestProject) -> Value {
    project.piton(["status", "--format", "json"]).json()["waiting"]["review"].clone()
}

fn at_head(project: &TestProject, path: &str) -> String {
    project.git(["show", &format!("HEAD:{path}")])
}

#[test]
fn r3_what_a_person_corrects_before_they_approve_is_what_is_committed() {
    let project = gated("");
    dirty(&project);
    let ran = project.piton(["run", "asks"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    project.bash("sed -i s/wrong/right/ out.txt");
    let ran = project.piton(["approve", "--yes"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr()
            .contains("including your edits while the run waited: `out.txt`"),
        "{ran}"
    );
    assert_eq!(at_head(&project, "out.txt"), "first\nright\n");
    assert_eq!(project.git(["status", "--porcelain", "--", "out.txt"]), "");
    let runs = project.piton(["log"]);
    assert!(
        runs.stdout().contains("look") && runs.stdout().contains("(with edits of a person)"),
        "{runs}"
    );
    let run: Value = serde_json::from_str(
        project
            .piton(["log", "--format", "json"])
            .stdout()
            .lines()
            .next()
            .expect("a run"),
    )
    .expect("JSON");
    let look = run["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .find(|step| step["name"] == "look")
        .expect("the gate");
    assert_eq!(look["edits"], json!(["out.txt"]));
    assert!(look["approved"].is_string(), "{look}");
    let shown = project.piton([
        "show",
        &format!("{}/2", run["id"].as_str().expect("an id")),
        "--no-diff",
    ]);
    assert!(
        shown.stdout().contains("a person edited `out.txt`"),
        "{shown}"
    );
    assert_unharmed(&project);
}

#[test]
fn in_auto_mode_the_correction_is_a_checkpoint_of_the_gate() {
    let project = gated(AUTO);
    dirty(&project);
    project.piton(["run", "asks"]);
    project.bash("sed -i s/wrong/right/ out.txt; echo more >> mine.txt");
    let ran = project.piton(["approve", "--yes"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(at_head(&project, "out.txt"), "first\nright\n");
    assert_eq!(subjects(&project).len(), 2);
    assert_eq!(
        project.read("mine.txt"),
        "mine\nedited\nmore\n",
        "other files are the person's own"
    );
    assert_eq!(
        project.git(["status", "--porcelain", "--", "out.txt", "mine.txt"]),
        " M mine.txt\n"
    );
    assert_sound(&project);
}

#[test]
fn an_approval_names_the_tree_that_is_committed() {
    let project = gated("");
    project.piton(["run", "asks"]);
    let shown = review(&project);
    assert_eq!(shown["changes"][0]["path"], "out.txt");
    assert_eq!(shown["changes"][0]["insertions"], 1);
    let tree = shown["tree"].as_str().expect("a tree").to_owned();
    let human = project.piton(["status"]);
    assert!(
        human.stderr().contains(&format!("--tree {}", &tree[..10])),
        "{human}"
    );
    let diff = project.piton(["diff"]);
    assert!(diff.stdout().contains("+wrong"), "{diff}");
    // The files change after they were shown, so nothing is approved.
    project.bash("sed -i s/wrong/right/ out.txt");
    let ran = project.piton(["approve", "--tree", &tree]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(
        ran.stderr()
            .contains("the files have changed since they were shown"),
        "{ran}"
    );
    assert_eq!(subjects(&project), Vec::<String>::new());
    let shown = review(&project);
    assert_eq!(shown["edits"], json!(["out.txt"]));
    let tree = shown["tree"].as_str().expect("a tree").to_owned();
    let ran = project.piton(["approve", "--tree", &tree[..10], "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let approved = ran
        .stdout()
        .lines()
        .find(|line| line.contains("\"approved\"") && line.contains("\"tree\""))
        .map(str::to_owned);
    let approved: Value = serde_json::from_str(&approved.expect("the event")).expect("JSON");
    assert_eq!(
        (&approved["tree"], &approved["edits"]),
        (&json!(tree), &json!(["out.txt"]))
    );
    assert_eq!(project.git(["rev-parse", "HEAD^{tree}"]).trim(), tree);
    assert_sound(&project);
    let ran = project.piton(["approve", "--tree", "xyz"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
}

#[test]
fn changes_that_wait_for_a_decision_are_committed_as_they_are_on_disk() {
    for (mode, all) in [
        (AUTO, call("a", "add", "", "wrong")),
        ("", format!("{}{KEEP}", call("a", "add", "", "wrong"))),
    ] {
        let project = directive("asks", mode, &all)(project()).committed();
        dirty(&project);
        let ran = project.piton(["run", "asks", "--ask"]);
        assert_eq!(ran.code(), Some(4), "{ran}");
        let old = review(&project)["tree"]
            .as_str()
            .expect("a tree")
            .to_owned();
        project.bash("sed -i s/wrong/right/ out.txt; echo more >> mine.txt");
        let ran = project.piton(["approve", "--tree", &old]);
        assert_eq!(ran.code(), Some(4), "{ran}");
        let ran = project.piton(["approve", "--yes"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(at_head(&project, "out.txt"), "first\nright\n");
        assert_eq!(
            project.git(["status", "--porcelain", "--", "out.txt", "mine.txt"]),
            " M mine.txt\n"
        );
        let shown = project.piton(["show", "HEAD", "--no-diff"]);
        assert!(
            shown.stdout().contains("a person edited `out.txt`"),
            "{shown}"
        );
        assert_sound(&project);
    }
}

#[test]
fn a_person_who_rolls_everything_back_approves_nothing() {
    let project = gated("");
    project.piton(["run", "asks"]);
    project.bash("git checkout -q out.txt");
    let ran = project.piton(["approve", "--yes", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let steps = summary(&ran)["steps"].as_array().cloned().expect("steps");
    assert_eq!(
        steps.last().expect("a step")["checkpoint"]["status"],
        "no_changes",
        "{ran}"
    );
    assert_eq!(subjects(&project), Vec::<String>::new());
    project.assert_clean();
    assert_sound(&project);
}

#[test]
fn at_a_terminal_the_diff_is_shown_again_when_the_files_have_changed() {
    let project = gated("").variable("TERM", "xterm");
    project.piton(["run", "asks"]);
    // The file is emptied while the question is open, so the first answer does not count.
    let file = project.root().join("out.txt");
    let talk = json!([
        ["[a]pprove", "make", file],
        ["[w]ait? ", "type", "a\n"],
        ["[w]ait? ", "type", "a\n"]
    ]);
    let session = at_a_terminal(&project, &talk, &["approve"]);
    assert_eq!(session.status, Some(0), "{}", session.seen);
    assert_eq!(
        session.seen.matches("[a]pprove this").count(),
        2,
        "{}",
        session.seen
    );
    assert!(
        session.seen.contains("+wrong") && session.seen.contains("-first"),
        "{}",
        session.seen
    );
    assert_eq!(at_head(&project, "out.txt"), "");
    assert_sound(&project);
}

#[test]
fn at_a_terminal_ask_shows_again_what_has_changed() {
    let project = directive("asks", AUTO, &call("a", "add", "", "wrong"))(project()).committed();
    let project = project.variable("TERM", "xterm");
    let file = project.root().join("out.txt");
    let talk = json!([
        ["[k]eep", "make", file],
        ["[w]ait? ", "type", "k\n"],
        ["[w]ait? ", "type", "k\n"]
    ]);
    let session = at_a_terminal(&project, &talk, &["run", "asks", "--ask"]);
    assert_eq!(session.status, Some(0), "{}", session.seen);
    assert!(
        session.seen.contains("+wrong") && session.seen.contains("-first"),
        "{}",
        session.seen
    );
    assert_eq!(at_head(&project, "out.txt"), "");
    assert_sound(&project);
}

#[test]
fn an_approval_without_a_terminal_asks_nothing_and_yes_skips_the_question() {
    let project = gated("").variable("TERM", "xterm");
    project.piton(["run", "asks"]);
    let session = at_a_terminal(&project, &json!([]), &["approve", "--yes"]);
    assert_eq!(session.status, Some(0), "{}", session.seen);
    assert!(!session.seen.contains("[a]pprove"), "{}", session.seen);
    assert_eq!(at_head(&project, "out.txt"), "first\nwrong\n");
}
