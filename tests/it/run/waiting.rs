//! Waiting steps: for work, for an approval, for a decision.

use serde_json::json;

use super::{
    assert_sound, assert_unharmed, call, directive, dirty, project, steps, subjects, summary,
};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";
const PROSE: &str = "<step name=\"write\"><action>Write for {input:who} into words.txt.</action>\
                     <verification><check>words.txt is there</check></verification></step>\n";

#[test]
fn a_prose_step_waits_and_what_changed_meanwhile_becomes_its_checkpoint() {
    let after = call("after", "add", "", "{step:write.pages} pages");
    let project = directive("words", AUTO, &format!("{PROSE}{after}"))(project()).committed();
    dirty(&project);
    let ran = project.piton(["run", "words"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(
        ran.stderr().contains("Write for world into words.txt."),
        "{ran}"
    );
    assert!(ran.stderr().contains("words.txt is there"), "{ran}");
    assert!(ran.stderr().contains("piton resume"), "{ran}");
    let again = project.piton(["run", "words"]);
    assert_eq!(again.code(), Some(5), "{again}");
    let status = project.piton(["status", "--format", "json"]).json();
    assert_eq!(status["status"], "waiting");
    assert_eq!(status["waiting"]["name"], "write");
    project.bash("echo words > words.txt");
    let ran = project.piton(["resume", "--result", "{\"pages\": 2}", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        steps(&ran),
        [
            ("write".into(), "succeeded".into()),
            ("after".into(), "succeeded".into())
        ]
    );
    assert_eq!(
        subjects(&project),
        [
            "chore: update `out.txt` by `after`",
            "chore: add `words.txt` by `write`"
        ]
    );
    assert_eq!(project.read("out.txt"), "first\n2 pages\n");
    assert_unharmed(&project);
    assert_eq!(project.piton(["status"]).stdout(), "no run waits here\n");
}

#[test]
fn work_outside_of_the_grants_keeps_the_run_waiting_and_paths_say_what_belongs_to_it() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    project.piton(["run", "words"]);
    project.bash("echo words > words.txt; mkdir secret; echo x > secret/key");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(ran.stderr().contains("`secret/key`"), "{ran}");
    assert_eq!(project.read("secret/key"), "x\n");
    let ran = project.piton(["resume", "--paths", "words.txt"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["show", "--name-only", "--format=", "HEAD"]),
        "words.txt\n"
    );
    assert_eq!(project.git(["status", "--porcelain"]), "?? secret/\n");
    assert_sound(&project);
}

#[test]
fn work_that_could_not_be_done_fails_the_step_and_stays() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    dirty(&project);
    project.piton(["run", "words"]);
    project.bash("echo half > words.txt");
    let ran = project.piton([
        "resume",
        "--failed",
        "no idea what to write",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["message"], "no idea what to write");
    assert_eq!(project.read("words.txt"), "half\n");
    assert_eq!(subjects(&project), Vec::<String>::new());
    assert_unharmed(&project);
}

#[test]
fn what_runs_beside_a_waiting_step_counts_once() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    dirty(&project);
    project.piton(["run", "words"]);
    project.bash("echo words > words.txt");
    let ran = project.exec("echo exec > exec.txt");
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = project.piton([
        "tool",
        "run",
        "add",
        "--param",
        "text=tool",
        "--checkpoint",
        "auto",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let files = project.git(["show", "--name-only", "--format=", "HEAD"]);
    assert!(
        files.contains("words.txt") && !files.contains("exec.txt"),
        "{files}"
    );
    assert_eq!(
        project.git(["status", "--porcelain", "--", "exec.txt", "words.txt"]),
        ""
    );
    assert_unharmed(&project);
}

#[test]
fn commits_that_an_agent_makes_itself_are_its_step() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    project.piton(["run", "words"]);
    project.bash(
        "echo words > words.txt; git add words.txt; git commit -qm 'my own'; echo more > more.txt",
    );
    let ran = project.piton(["resume", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        subjects(&project),
        ["chore: add `more.txt` by `write`", "my own"]
    );
    assert_sound(&project);
}

#[test]
fn a_person_says_yes_or_no() {
    let gate = "<step name=\"look\"><checkpoint type=\"human-verify\" gate=\"blocking\">Is {input:who} fine?</checkpoint></step>\n";
    let after = call("after", "add", "", "{step:look.answer}");
    let project = directive("asks", AUTO, &format!("{gate}{after}"))(project()).committed();
    dirty(&project);
    let ran = project.piton(["run", "asks"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert!(ran.stderr().contains("Is world fine?"), "{ran}");
    let wrong = project.piton(["resume", "--result", "{}"]);
    assert_eq!(wrong.code(), Some(2), "{wrong}");
    assert!(wrong.stderr().contains("piton approve"), "{wrong}");
    let ran = project.piton(["approve", "--yes", "--answer", "very"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\nvery\n");
    project.piton(["run", "asks"]);
    let ran = project.piton(["reject", "--reason", "not today", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "REJECTED");
    assert_eq!(project.read("out.txt"), "first\nvery\n");
    assert_unharmed(&project);
}

#[test]
fn a_person_decides_about_each_change() {
    let all = format!(
        "{}{}",
        call("a", "add", "", "a"),
        call("b", "add", "on_failure=\"continue\"", "b")
    );
    let project = directive("ask", AUTO, &all)(project()).committed();
    dirty(&project);
    let ran = project.piton(["run", "ask", "--ask"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert_eq!(subjects(&project), Vec::<String>::new());
    let ran = project.piton(["approve", "--yes", "-m", "docs: said so"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    assert_eq!(subjects(&project), ["docs: said so"]);
    assert_eq!(project.read("out.txt"), "first\na\nb\n");
    let ran = project.piton(["reject"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\n");
    assert_unharmed(&project);
}

#[test]
fn a_run_can_be_cancelled_while_it_waits() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    dirty(&project);
    project.piton(["run", "words"]);
    project.bash("echo words > words.txt");
    let ran = project.piton(["cancel"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("words.txt"), "words\n");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert_unharmed(&project);
    let ran = project.piton(["run", "words"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
}

#[test]
fn a_waiting_run_ends_with_the_same_line_as_any_other() {
    let project = directive("words", "", PROSE)(project()).committed();
    let ran = project.piton(["run", "words", "--format", "json"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let last = summary(&ran);
    assert_eq!(last["status"], "waiting");
    assert_eq!(
        last["steps"],
        json!([{"name": "write", "status": "waiting", "tool": null, "exit_code": null, "checkpoint": null}])
    );
}

#[test]
fn a_waiting_run_uses_the_directive_and_the_tools_of_its_beginning() {
    let after = call("after", "add", "", "old");
    let project = directive("words", AUTO, &format!("{PROSE}{after}"))(project()).committed();
    project.piton(["run", "words"]);
    let project = directive("words", AUTO, &call("other", "fail", "", ""))(project);
    let ran = project.piton(["resume", "--paths", "out.txt"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\nold\n");
    let project = directive(
        "words",
        AUTO,
        &format!("{PROSE}{}", call("after", "add", "", "new")),
    )(project);
    project.piton(["run", "words"]);
    let project = project.tool("add", "", "echo evil > out.txt");
    let ran = project.piton(["resume", "--paths", "out.txt", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "ITEM_CHANGED", "{ran}");
    assert_eq!(project.read("out.txt"), "first\nold\n");
}

#[test]
fn what_failed_work_has_changed_is_neither_rolled_back_nor_taken_along_where_it_is_not_allowed() {
    let metadata = "<git_checkpoint mode=\"explicit\" on_failure=\"rollback\"/>";
    let keep = "<step name=\"keep\"><checkpoint operation=\"keep\"/></step>\n";
    let prose = PROSE.replace("name=\"write\"", "name=\"write\" on_failure=\"continue\"");
    let project = directive("words", metadata, &format!("{prose}{keep}"))(project()).committed();
    dirty(&project);
    project.piton(["run", "words"]);
    project.bash("echo half > words.txt; mkdir secret; echo x > secret/key");
    let ran = project.piton(["resume", "--failed", "no idea"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("secret/key"), "x\n");
    assert_eq!(
        project.git(["show", "--name-only", "--format=", "HEAD"]),
        "words.txt\n"
    );
    assert_unharmed(&project);
    // Even with `rollback`, what people did while the run waited is not rolled back.
    let project = directive("words", metadata, PROSE)(project);
    project.piton(["run", "words"]);
    project.bash("echo mine > notes.txt");
    let ran = project.piton(["resume", "--failed", "no idea"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(project.read("notes.txt"), "mine\n");
    assert_unharmed(&project);
}

#[test]
fn a_cancelled_run_leaves_the_work_of_people_to_them() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    dirty(&project);
    project.piton(["run", "words"]);
    project.bash("echo words > words.txt; mkdir secret; echo x > secret/key");
    assert_eq!(project.piton(["resume"]).code(), Some(4));
    let ran = project.piton(["cancel"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    project.piton(["checkpoint"]);
    assert_eq!(subjects(&project), Vec::<String>::new());
    assert_eq!(project.read("secret/key"), "x\n");
    assert_unharmed(&project);
}

#[test]
fn a_run_that_cannot_be_resumed_can_be_cancelled() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    project.piton(["run", "words"]);
    project.bash("echo >> .git/piton/runs/*/pinned.json");
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(5), "{ran}");
    let ran = project.piton(["cancel"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    project.piton(["run", "words"]);
    project.bash(
        "git checkout -q -b side; echo a > c.txt; git add c.txt; git commit -qm a; git checkout -q main; \
                  echo b > c.txt; git add c.txt; git commit -qm b; git merge side >/dev/null || true",
    );
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(5), "{ran}");
    let ran = project.piton(["cancel"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.piton(["status"]).stdout(), "no run waits here\n");
    let ran = project.piton(["resume", "--agent-cmd", ""]);
    assert_eq!(ran.code(), Some(2), "{ran}");
}

#[test]
fn a_run_whose_worktree_is_gone_can_be_cancelled() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    let ran = project.piton(["run", "words", "--worktree", "--format", "json"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let id = summary(&ran)["run_id"].as_str().expect("an id").to_owned();
    let there = project.git(["worktree", "list", "--porcelain"]);
    let there = there
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "))
        .nth(1)
        .expect("a worktree")
        .to_owned();
    project.bash(&format!("rm -rf '{there}'; git worktree prune"));
    let ran = project.piton(["cancel", &id]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_sound(&project);
}

#[test]
fn a_run_beside_a_step_that_waits_for_a_decision_counts_once() {
    let project = directive("ask", AUTO, &call("a", "add", "", "a"))(project()).committed();
    dirty(&project);
    project.save();
    for (mode, beside, kept) in [
        ("auto", "echo exec > exec.txt", "first\n"),
        ("auto", "sed -i '1i zero' out.txt", "zero\nfirst\n"),
        ("explicit", "echo exec > exec.txt", "first\n"),
    ] {
        for answer in ["approve", "reject"] {
            project.reset();
            let ran = project.piton(["run", "ask", "--ask"]);
            assert_eq!(ran.code(), Some(4), "{ran}");
            let ran = project.piton(["exec", "--checkpoint", mode, "--", "sh", "-c", beside]);
            assert_eq!(ran.code(), Some(0), "{ran}");
            let ran = project.piton(if answer == "approve" {
                &["approve", "--yes"][..]
            } else {
                &["reject"]
            });
            let is_kept = answer == "approve";
            assert_eq!(ran.code(), Some(i32::from(!is_kept)), "{beside}: {ran}");
            let wanted = if is_kept {
                format!("{kept}a\n")
            } else {
                kept.to_owned()
            };
            assert_eq!(project.read("out.txt"), wanted, "{beside}, {answer}: {ran}");
            assert_eq!(
                project.git(["status", "--porcelain", "--", "out.txt"]),
                "",
                "{beside}, {answer}: {ran}"
            );
            assert_eq!(
                subjects(&project).len(),
                usize::from(is_kept) + usize::from(mode == "auto"),
                "{ran}"
            );
            if is_kept {
                assert_eq!(
                    project.git(["show", "--name-only", "--format=", "HEAD"]),
                    "out.txt\n"
                );
            }
            if beside.contains("exec.txt") {
                assert_eq!(project.read("exec.txt"), "exec\n");
            }
            assert_unharmed(&project);
        }
    }
}

#[test]
fn a_run_beside_a_checkpoint_that_waits_for_a_decision_counts_once() {
    let keep = "<step name=\"keep\"><checkpoint operation=\"keep it\"/></step>\n";
    let all = format!("{}{keep}", call("a", "add", "", "a"));
    for answer in ["approve", "reject"] {
        let project = directive("ask", "", &all)(project()).committed();
        dirty(&project);
        let ran = project.piton(["run", "ask", "--ask"]);
        assert_eq!(ran.code(), Some(4), "{ran}");
        let ran = project.piton([
            "exec",
            "--checkpoint",
            "auto",
            "--",
            "sh",
            "-c",
            "echo exec > exec.txt",
        ]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        let ran = project.piton(if answer == "approve" {
            &["approve", "--yes"][..]
        } else {
            &["reject"]
        });
        assert_eq!(ran.code(), Some(i32::from(answer == "reject")), "{ran}");
        let kept = if answer == "reject" {
            "first\n"
        } else {
            "first\na\n"
        };
        assert_eq!(project.read("out.txt"), kept);
        assert_eq!(
            subjects(&project).len(),
            if answer == "reject" { 1 } else { 2 }
        );
        assert_unharmed(&project);
    }
}

#[test]
fn an_approved_checkpoint_has_the_message_of_its_step() {
    let keep = "<step name=\"keep\"><checkpoint operation=\"keep it\" message=\"docs: for {input:who}\"/></step>\n";
    let project = directive("ask", "", &format!("{}{keep}", call("a", "add", "", "a")))(project())
        .committed();
    project.piton(["run", "ask", "--ask", "-m", "docs: for the run"]);
    let ran = project.piton(["approve", "--yes"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(subjects(&project), ["docs: for world"]);
    project.piton(["run", "ask", "--ask"]);
    let ran = project.piton(["approve", "--yes", "-m", "docs: said so"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(subjects(&project), ["docs: said so", "docs: for world"]);
    assert_sound(&project);
}

#[test]
fn what_turned_up_during_a_run_stays_what_it_was() {
    let sub = |name: &str| {
        format!(
            "<step name=\"{name}\"><execute item_type=\"directive\" item_id=\"{{input:who}}\"/></step>\n"
        )
    };
    let all = format!("{}{PROSE}{}", sub("one"), sub("two"));
    let inner = |text: &str| directive("world", "", &call("inner", "add", "", text));
    let project = inner("old")(directive("words", AUTO, &all)(project())).committed();
    project.piton(["run", "words"]);
    project.bash("echo words > words.txt");
    let project = inner("new")(project);
    let ran = project.piton(["resume", "--paths", "words.txt"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\nold\nold\n");

    let tool = |name: &str| call(name, "{input:who}", "", "");
    let project = directive(
        "tools",
        AUTO,
        &format!("{}{PROSE}{}", tool("one"), tool("two")),
    )(self::project());
    let project = project.tool("world", "", "echo old >> out.txt").committed();
    let ran = project.piton(["run", "tools"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    project.bash("echo words > words.txt");
    let project = project.tool("world", "", "echo new >> out.txt");
    let ran = project.piton(["resume", "--paths", "words.txt", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_eq!(summary(&ran)["error"]["code"], "ITEM_CHANGED", "{ran}");
    assert_eq!(project.read("out.txt"), "first\nold\n");
}
