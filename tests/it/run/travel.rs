//! Directive runs that are pushed and fetched, and runs in their own worktrees.

use super::{
    assert_sound, assert_unharmed, call, directive, dirty, project, steps, subjects, summary,
};
use crate::harness::TestProject;

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";

fn with_remote(project: TestProject) -> TestProject {
    project.bash(
        "git init --quiet --bare --initial-branch=main ../remote.git; git remote add origin ../remote.git; \
         git push --quiet origin main",
    );
    project
}

/// Pushes commits and runs, and fetches both in a clone without any journal.
fn travel(project: &TestProject) {
    project.bash("git push --quiet origin main");
    project.piton(["push", "origin"]).succeeded();
    project.bash("rm -rf ../clone; git clone --quiet ../remote.git ../clone");
    project
        .piton(["-C", "../clone", "fetch", "origin"])
        .succeeded();
}

#[test]
fn the_run_of_a_directive_verifies_in_a_clone_and_keeps_its_inputs_to_itself() {
    let inner = directive("inner", "", &call("deep", "add", "", "{input:who}"));
    let all = format!(
        "{}<step name=\"sub\"><execute item_type=\"directive\" item_id=\"inner\"><param name=\"who\" value=\"{{input:who}}\"/></execute></step>\n\
         <step name=\"write\"><action>Write words.txt</action></step>{}",
        call("list", "list", "", ""),
        call("bad", "fail", "on_failure=\"rollback\"", "")
    );
    let project = with_remote(inner(directive("journey", AUTO, &all)(project())).committed());
    dirty(&project);
    let ran = project.piton(["run", "journey", "--input", "who=swordfish"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    // A waiting run has a log already, which grows later.
    project.piton(["push", "origin"]).succeeded();
    project.bash("echo words > words.txt");
    let ran = project.piton(["resume", "--result", "{\"secret\": \"swordfish\"}"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_unharmed(&project);
    travel(&project);
    let verified = project
        .piton(["-C", "../clone", "verify", "--all"])
        .succeeded();
    assert!(
        verified.stderr().contains("1 run, 2 checkpoints verified"),
        "{verified}"
    );
    let log = project
        .piton(["-C", "../clone", "log"])
        .succeeded()
        .stdout();
    assert!(
        log.contains("journey@1.0.0") && log.contains("sub/deep"),
        "{log}"
    );
    let objects = project.bash(
        "cd ../clone; for ref in $(git for-each-ref --format='%(refname)' refs/piton); do \
         git log --format=%H $ref | while read c; do git show $c:events.jsonl; done; done",
    );
    assert!(objects.contains("directive_started"), "{objects}");
    assert!(!objects.contains("swordfish"), "{objects}");
    project.bash("cd ../clone; git gc --quiet --prune=now");
    project
        .piton(["-C", "../clone", "verify", "--all"])
        .succeeded();
    project.bash("git gc --quiet --prune=now");
    assert_unharmed(&project);
}

/// The contents of every object of the remote.
fn pushed(project: &TestProject) -> String {
    project.bash(
        "cd ../remote.git; git cat-file --batch-all-objects --batch-check='%(objectname) %(objecttype)' | \
         while read id type; do [ $type = tree ] || git cat-file $type $id; done",
    )
}

#[test]
fn values_in_instructions_questions_and_texts_of_people_are_not_pushed() {
    let all = "<step name=\"write\"><action>Write about {input:who}</action>\
               <verification><check>{input:who} is told of</check></verification></step>\n\
               <step name=\"look\" on_failure=\"continue\"><checkpoint type=\"human-verify\" gate=\"blocking\">Is {input:who} fine?</checkpoint></step>\n\
               <step name=\"more\"><action>More about {input:who}</action></step>";
    let inner = directive("words", AUTO, all);
    let sub = "<step name=\"sub\"><execute item_type=\"directive\" item_id=\"words\"><param name=\"who\" value=\"{input:who}\"/></execute></step>";
    let project = with_remote(inner(directive("outer", AUTO, sub)(project())).committed());
    let ran = project.piton(["run", "outer", "--input", "who=swordfish"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(ran.stderr().contains("Write about swordfish"), "{ran}");
    project.bash("echo words > words.txt");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let ran = project.piton(["reject", "--reason", "swordfish is not"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let ran = project.piton(["reject", "--end", "--reason", "swordfish is not"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let ran = project.piton(["resume", "--failed", "no swordfish here"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    travel(&project);
    let everything = pushed(&project);
    assert!(
        everything.contains("said by a person") && everything.contains("\"prose\""),
        "{everything}"
    );
    assert!(!everything.contains("swordfish"), "{everything}");
    project
        .piton(["-C", "../clone", "verify", "--all"])
        .succeeded();
    let run = apart(&project).pop().expect("a run");
    for (step, told) in [
        (1, "task          stays where"),
        (2, "question      stays where"),
        (5, "said by a person [STEP_FAILED]"),
    ] {
        let shown = project
            .piton(["-C", "../clone", "show", &format!("{run}/{step}")])
            .succeeded()
            .stdout();
        assert!(shown.contains(told), "{shown}");
    }
    let shown = project
        .piton(["show", &format!("{run}/1")])
        .succeeded()
        .stdout();
    assert!(shown.contains("Write about swordfish"), "{shown}");
    assert_sound(&project);
}

#[test]
fn an_amended_checkpoint_of_a_directive_is_found_in_a_clone() {
    let all = format!("{}{}", call("a", "add", "", "a"), call("b", "add", "", "b"));
    let project = with_remote(directive("two", AUTO, &all)(project()).committed());
    project.piton(["run", "two"]).succeeded();
    project.bash("echo more >> out.txt; git add out.txt; git commit --quiet --amend --no-edit");
    project.bash("git push --quiet --force origin main");
    project.piton(["push", "origin"]).succeeded();
    project.bash("git clone --quiet ../remote.git ../clone");
    project
        .piton(["-C", "../clone", "fetch", "origin"])
        .succeeded();
    let ran = project.piton(["-C", "../clone", "verify", "--all"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stdout().contains("REWRITTEN") || ran.stderr().contains("REWRITTEN"),
        "{ran}"
    );
}

/// The ids of the runs in worktrees, oldest first.
fn apart(project: &TestProject) -> Vec<String> {
    let log = project.piton(["log", "--format", "json"]).stdout();
    let runs = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let mut ids: Vec<String> = runs
        .filter(|run| run["directive"].is_string())
        .filter_map(|run| Some(run["id"].as_str()?.to_owned()))
        .collect();
    ids.sort();
    ids
}

#[test]
fn a_run_in_a_worktree_leaves_everything_here_alone_until_it_is_finished() {
    let all = format!("{}{}", call("a", "add", "", "a"), call("b", "add", "", "b"));
    let project = with_remote(directive("two", AUTO, &all)(project()).committed());
    dirty(&project);
    let ran = project.piton(["run", "two", "--worktree", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(steps(&ran).len(), 2);
    assert_eq!(project.read("out.txt"), "first\n");
    assert_eq!(subjects(&project), Vec::<String>::new());
    assert_unharmed(&project);
    let id = summary(&ran)["run_id"].as_str().expect("an id").to_owned();
    project
        .piton(["finish", &id, "--squash", "-m", "feat: both"])
        .succeeded();
    assert_eq!(subjects(&project), ["feat: both"]);
    assert_eq!(project.read("out.txt"), "first\na\nb\n");
    assert_eq!(project.git(["worktree", "list"]).lines().count(), 1);
    assert_unharmed(&project);
    // The squashed steps are not pushed; the record that they were squashed is.
    travel(&project);
    let verified = project
        .piton(["-C", "../clone", "verify", "--all"])
        .succeeded();
    assert!(
        verified.stdout().contains("squashed") || verified.stderr().contains("squashed"),
        "{verified}"
    );
}

#[test]
fn two_runs_in_two_worktrees_are_both_merged_and_a_conflict_is_named() {
    let project = project().tool("other", "", "echo other > other.txt");
    let project = directive("one", AUTO, &call("a", "add", "", "a"))(project);
    let project = directive("two", AUTO, &call("o", "other", "", ""))(project);
    let project = directive("three", AUTO, &call("c", "add", "", "c"))(project).committed();
    dirty(&project);
    for name in ["one", "two", "three"] {
        project.piton(["run", name, "--worktree"]).succeeded();
    }
    let ids = apart(&project);
    assert_eq!(ids.len(), 3);
    project.piton(["finish", &ids[0], "--keep"]).succeeded();
    project.piton(["finish", &ids[1], "--keep"]).succeeded();
    assert_eq!(project.read("out.txt"), "first\na\n");
    assert_eq!(project.read("other.txt"), "other\n");
    let before = project.bash("git rev-parse HEAD; git status --porcelain; cat out.txt");
    let ran = project.piton(["finish", &ids[2], "--keep"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr().contains("out.txt") && ran.stderr().contains(&ids[2]),
        "{ran}"
    );
    assert_eq!(
        project.bash("git rev-parse HEAD; git status --porcelain; cat out.txt"),
        before
    );
    assert_unharmed(&project);
}

#[test]
fn a_waiting_run_in_a_worktree_is_resumed_there_and_finished_from_here() {
    let words = "<step name=\"write\"><action>Write words.txt</action></step>";
    let project = directive("words", AUTO, words)(project()).committed();
    let ran = project.piton(["run", "words", "--worktree", "--format", "json"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let id = summary(&ran)["run_id"].as_str().expect("an id").to_owned();
    assert!(
        project
            .piton(["status"])
            .stdout()
            .starts_with("no run waits here\n")
    );
    let there = project.git(["worktree", "list", "--porcelain"]);
    let there = there
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "))
        .nth(1)
        .expect("a worktree")
        .to_owned();
    project.bash(&format!("echo words > '{there}/words.txt'"));
    project
        .piton(["-C", &there, "resume", &id[..20]])
        .succeeded();
    project.piton(["finish", &id, "--keep"]).succeeded();
    assert_eq!(project.read("words.txt"), "words\n");
    assert_sound(&project);
}

#[test]
fn a_directive_that_is_in_no_commit_cannot_run_in_a_worktree() {
    let project = project().committed();
    let project = directive("new", AUTO, &call("a", "add", "", "a"))(project);
    let ran = project.piton(["run", "new", "--worktree"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("not in the last commit"), "{ran}");
    assert_eq!(project.git(["worktree", "list"]).lines().count(), 1);
}
