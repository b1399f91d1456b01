//! Kills while a waiting step gets its answer.

use crate::crash::scene::was_killed;
use crate::harness::{Ran, TestProject};
use crate::run::{assert_unharmed, call, directive, dirty, project, subjects};

use super::stride;

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";
const PROSE: &str = "<step name=\"write\"><action>Write words.txt.</action></step>\n";

/// Kills an answer at each of its events and repeats it; the end must always be the same.
fn survives(
    project: &TestProject,
    answer: &[&str],
    again: &[&str],
    usual: usize,
    check: impl Fn(&Ran, &str),
) {
    project.save();
    let mut kills = 0_u64;
    for place in ["journal-append", "journal-appended"] {
        for pass in (1..).step_by(stride(usual)) {
            project.reset();
            let armed = format!("{place}:{pass}");
            let output = project
                .command(answer)
                .env("PITON_FAILPOINT", &armed)
                .output()
                .expect("piton starts");
            if !was_killed(&output) {
                break;
            }
            kills += 1;
            if pass % 2 == 0 {
                let ran = project.piton(["exec", "--", "true"]);
                assert_eq!(ran.code(), Some(0), "{armed}: {ran}");
            }
            // An answer that is not recorded yet must be given again.
            let is_known = project
                .bash("cat .git/piton/runs/*/journal.jsonl")
                .contains("\"answered\"");
            let mut ran = project.piton(if is_known { &["resume"] } else { again });
            if [Some(2), Some(4)].contains(&ran.code())
                && !ran.stderr().contains("no run waits here")
            {
                ran = project.piton(again);
            }
            check(&ran, &armed);
            assert_unharmed(project);
        }
    }
    crate::crash::chance::tally("kills at places", kills);
    assert!(kills >= 4, "only {kills} deaths");
}

#[test]
fn work_that_is_handed_in_is_committed_once_and_never_lost() {
    let after = call("after", "add", "", "{step:write.pages} pages");
    let project = directive("words", AUTO, &format!("{PROSE}{after}"))(project()).committed();
    dirty(&project);
    project.piton(["run", "words"]);
    project.bash("echo words > words.txt; echo more > aside.txt");
    let answer = [
        "resume",
        "--result",
        "{\"pages\": 2}",
        "--paths",
        "words.txt",
    ];
    survives(&project, &answer, &answer, 2, |ran, told| {
        assert!(
            ran.code() == Some(0) || ran.stderr().contains("no run waits here"),
            "{told}: {ran}"
        );
        assert_eq!(project.read("words.txt"), "words\n", "{told}");
        assert_eq!(project.read("aside.txt"), "more\n", "{told}");
        let wanted = [
            "chore: update `out.txt` by `after`",
            "chore: add `words.txt` by `write`",
        ];
        assert_eq!(subjects(&project), wanted, "{told}");
        assert_eq!(project.read("out.txt"), "first\n2 pages\n", "{told}");
        assert_eq!(
            project.git(["status", "--porcelain", "--", "aside.txt"]),
            "?? aside.txt\n",
            "{told}"
        );
    });
}

#[test]
fn approved_changes_are_committed_once() {
    let project = directive("ask", AUTO, &call("a", "add", "", "a"))(project()).committed();
    dirty(&project);
    let ran = project.piton(["run", "ask", "--ask"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let answer = ["approve", "--yes", "-m", "docs: said so"];
    survives(&project, &answer, &answer, 1, |ran, told| {
        assert!(
            ran.code() == Some(0) || ran.stderr().contains("no run waits here"),
            "{told}: {ran}"
        );
        assert_eq!(subjects(&project), ["docs: said so"], "{told}: {ran}");
        assert_eq!(project.read("out.txt"), "first\na\n", "{told}");
    });
}

#[test]
fn rejected_changes_are_rolled_back_with_the_reason() {
    let all = format!("{}{}", call("a", "add", "", "a"), call("b", "add", "", "b"));
    let project = directive("ask", AUTO, &all)(project()).committed();
    dirty(&project);
    project.piton(["run", "ask", "--ask"]);
    let answer = ["reject", "--reason", "not like this"];
    survives(&project, &answer, &answer, 1, |ran, told| {
        assert!(
            ran.code() == Some(1) || ran.stderr().contains("no run waits here"),
            "{told}: {ran}"
        );
        assert_eq!(subjects(&project), Vec::<String>::new(), "{told}: {ran}");
        assert_eq!(project.read("out.txt"), "first\n", "{told}");
        let shown = project.piton(["log", "--format", "json"]).stdout();
        assert!(shown.contains("REJECTED"), "{told}: {shown}");
    });
}

#[test]
fn a_persons_decision_is_applied_once() {
    let gate = "<step name=\"look\"><checkpoint type=\"human-verify\" gate=\"blocking\">Fine?</checkpoint></step>\n";
    let after = call("after", "add", "", "{step:look.answer}");
    let project = directive("asks", AUTO, &format!("{gate}{after}"))(project()).committed();
    dirty(&project);
    project.piton(["run", "asks"]);
    let answer = ["approve", "--yes", "--answer", "very"];
    survives(&project, &answer, &answer, 2, |ran, told| {
        assert!(
            ran.code() == Some(0) || ran.stderr().contains("no run waits here"),
            "{told}: {ran}"
        );
        assert_eq!(project.read("out.txt"), "first\nvery\n", "{told}: {ran}");
        assert_eq!(subjects(&project).len(), 1, "{told}");
    });
}

#[test]
fn what_a_person_corrected_before_they_approved_is_committed_once() {
    let gate = "<step name=\"look\"><checkpoint type=\"human-verify\" gate=\"blocking\">Fine?</checkpoint></step>\n";
    let keep = "<step name=\"keep\"><checkpoint operation=\"keep\"/></step>\n";
    for (mode, commits) in [(AUTO, 2), ("", 1)] {
        let all = format!("{}{gate}{keep}", call("a", "add", "", "wrong"));
        let project = directive("asks", mode, &all)(project()).committed();
        dirty(&project);
        project.piton(["run", "asks"]);
        project.bash("sed -i s/wrong/right/ out.txt");
        survives(
            &project,
            &["approve", "--yes"],
            &["approve", "--yes"],
            2,
            |ran, told| {
                assert!(
                    ran.code() == Some(0) || ran.stderr().contains("no run waits here"),
                    "{told}: {ran}"
                );
                assert_eq!(
                    project.git(["show", "HEAD:out.txt"]),
                    "first\nright\n",
                    "{told}: {ran}"
                );
                assert_eq!(subjects(&project).len(), commits, "{told}: {ran}");
            },
        );
    }
}

#[test]
fn a_write_that_is_denied_stays_denied_after_a_death() {
    let project = project().tool(
        "sneak",
        "",
        "mkdir -p secret; echo x > secret/key; echo y >> out.txt",
    );
    let all = format!(
        "{}{}",
        call("sneak", "sneak", "on_failure=\"continue\"", ""),
        call("c", "add", "", "c")
    );
    let project = directive("sneaks", AUTO, &all)(project).committed();
    dirty(&project);
    survives(
        &project,
        &["run", "sneaks"],
        &["run", "sneaks"],
        1,
        |ran, told| {
            let mut ran = ran.code();
            if ran == Some(5) {
                ran = project.piton(["resume"]).code();
            }
            if ran == Some(2) && project.piton(["log"]).stdout().is_empty() {
                ran = project.piton(["run", "sneaks"]).code();
            }
            assert!(ran == Some(3) || ran == Some(2), "{told}: {ran:?}");
            assert_eq!(project.read("out.txt"), "first\n", "{told}");
            assert!(!project.root().join("secret").exists(), "{told}");
        },
    );
}

#[test]
fn an_unexpected_answer_does_not_end_a_run() {
    let all = format!("{}{}", call("a", "add", "", "a"), call("b", "add", "", "b"));
    let project = directive("two", AUTO, &all)(project()).committed();
    let output = project
        .command(["run", "two"])
        .env("PITON_FAILPOINT", "tool-settled")
        .output()
        .expect("piton starts");
    assert!(was_killed(&output));
    for wrong in [
        vec!["approve"],
        vec!["resume", "--result", "{}"],
        vec!["resume", "--failed", "x"],
    ] {
        let ran = project.piton(&wrong);
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert!(ran.stderr().contains("piton resume"), "{ran}");
    }
    let ran = project.piton(["resume"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("out.txt"), "first\na\nb\n");
}

#[test]
fn the_states_of_a_step_are_kept_when_piton_dies_while_they_are_moved() {
    let ask = call("a", "add", "", "a");
    for (steps, answer) in [
        (PROSE, ["resume", "--result", "{}"].as_slice()),
        (&ask, &["approve", "--yes"]),
    ] {
        let project = directive("words", AUTO, steps)(project()).committed();
        dirty(&project);
        project.piton(["run", "words", "--ask"]);
        project.bash("echo words > words.txt");
        let ran = project.exec("echo exec > exec.txt");
        assert_eq!(ran.code(), Some(0), "{ran}");
        project.save();
        let mut kills = 0_u64;
        for pass in 1.. {
            project.reset();
            let armed = format!("journal-append:{pass}");
            let output = project
                .command(answer)
                .env("PITON_FAILPOINT", &armed)
                .output()
                .expect("piton starts");
            if !was_killed(&output) {
                break;
            }
            kills += 1;
            let ran = project.piton(["cancel"]);
            assert!(
                ran.code() == Some(0) || ran.stderr().contains("no run waits here"),
                "{armed}: {ran}"
            );
            assert_unharmed(&project);
        }
        crate::crash::chance::tally("kills at places", kills);
        assert!(kills >= 2, "only {kills} deaths");
    }
}

#[test]
fn an_interrupted_rejection_does_not_prevent_an_approval() {
    let keep = "<step name=\"keep\"><checkpoint operation=\"keep it\"/></step>\n";
    let project = directive("ask", "", &format!("{}{keep}", call("a", "add", "", "a")))(project())
        .committed();
    dirty(&project);
    let ran = project.piton(["run", "ask", "--ask"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    project.save();
    let mut kept = Vec::new();
    for pass in 1.. {
        project.reset();
        let armed = format!("journal-appended:{pass}");
        let output = project
            .command(["reject"])
            .env("PITON_FAILPOINT", &armed)
            .output()
            .expect("piton starts");
        if !was_killed(&output) {
            break;
        }
        let ran = project.piton(["approve", "--yes"]);
        let commits = subjects(&project).len();
        assert_eq!(ran.code() == Some(0), commits == 1, "{armed}: {ran}");
        kept.push(commits);
        assert_unharmed(&project);
    }
    // The rejection is recorded first and takes effect afterwards.
    assert!(
        kept.starts_with(&[1, 1]) && kept.ends_with(&[0]),
        "{kept:?}"
    );
}
