//! One run at a time per worktree, in any number of worktrees.

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use super::crash::middle::{paused, pausing};
use super::{assert_sound, assert_unharmed, call, directive, dirty, project, subjects};
use crate::harness::{Ran, TestProject};

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";

fn ended(project: &TestProject, piton: Child) -> Ran {
    project.ran(piton.wait_with_output().expect("piton ends"))
}

/// The temporary folder, where tools may write.
fn meeting_place(project: &TestProject) -> PathBuf {
    project.root().with_file_name("tmp")
}

/// A directive whose only step waits until a file `go` exists in the temporary folder.
fn slow() -> TestProject {
    let project = project();
    let home = meeting_place(&project);
    let home = home.display();
    let script = format!(
        "echo $$ >> '{home}/ready'; while [ ! -e '{home}/go' ]; do sleep 0.01; done; echo slow >> out.txt"
    );
    directive("slow", AUTO, &call("slow", "slow", "", ""))(project.tool("slow", "", &script))
        .committed()
}

fn await_ready(project: &TestProject, count: usize) {
    let path = meeting_place(project).join("ready");
    while fs::read_to_string(&path)
        .unwrap_or_default()
        .lines()
        .count()
        < count
    {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn go(project: &TestProject) {
    fs::write(meeting_place(project).join("go"), "").expect("a file");
}

#[test]
fn a_second_run_is_refused_and_told_which_run_is_active() {
    let project = slow();
    dirty(&project);
    let first = project.started(["run", "slow"]);
    let pid = first.id();
    await_ready(&project, 1);
    let run = project.piton(["status", "--format", "json"]).json()["run_id"]
        .as_str()
        .expect("a run")
        .to_owned();
    for words in [
        vec!["run", "slow"],
        vec!["resume"],
        vec!["resume", &run],
        vec!["cancel"],
        vec!["exec", "--", "true"],
    ] {
        let ran = project.piton(&words);
        assert_eq!(ran.code(), Some(5), "{words:?} {ran}");
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        for word in [
            run.as_str(),
            &pid.to_string(),
            host.trim(),
            "--lock-timeout",
        ] {
            assert!(ran.stderr().contains(word), "{words:?} {word}: {ran}");
        }
    }
    let patient = project.started(["run", "slow", "--lock-timeout", "60"]);
    go(&project);
    for piton in [first, patient] {
        let ran = ended(&project, piton);
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
    assert_eq!(project.read("out.txt"), "first\nslow\nslow\n");
    assert_unharmed(&project);
}

#[test]
fn only_one_of_two_concurrent_resumes_wins() {
    let project = slow();
    dirty(&project);
    let mut first = project.started(["run", "slow"]);
    await_ready(&project, 1);
    first.kill().expect("a process to kill");
    first.wait().expect("piton ends");
    let both = [project.started(["resume"]), project.started(["resume"])];
    await_ready(&project, 2);
    go(&project);
    let ran = both.map(|piton| ended(&project, piton));
    let mut codes: Vec<Option<i32>> = ran.iter().map(Ran::code).collect();
    codes.sort_unstable();
    assert!(
        codes == [Some(0), Some(5)] || codes == [Some(0), Some(2)],
        "{} {}",
        ran[0],
        ran[1]
    );
    assert_eq!(project.read("out.txt"), "first\nslow\n");
    assert_eq!(subjects(&project).len(), 1);
    assert_unharmed(&project);
}

#[test]
fn two_runs_in_worktrees_of_their_own_finish_and_are_merged() {
    let project = project();
    let home = meeting_place(&project);
    let script = format!(
        "echo $$ >> '{0}/ready'; while [ \"$(wc -l < '{0}/ready')\" -lt 2 ]; do sleep 0.01; done; echo x > \"$PITON_PARAM_TEXT.txt\"",
        home.display()
    );
    let text = "parameters:\n  - {name: text, type: string, required: true}\n";
    let project = project.tool("meet", text, &script);
    let project =
        directive("apart", AUTO, &call("apart", "meet", "", "{input:who}"))(project).committed();
    dirty(&project);
    let both = ["one", "two"].map(|who| {
        let who = format!("who={who}");
        project.started([
            "run",
            "apart",
            "--worktree",
            "--input",
            &who,
            "--format",
            "json",
        ])
    });
    for piton in both {
        let ran = ended(&project, piton);
        assert_eq!(ran.code(), Some(0), "{ran}");
        let run = super::summary(&ran)["run_id"]
            .as_str()
            .expect("a run")
            .to_owned();
        assert_unharmed(&project);
        let ran = project.piton(["finish", &run, "--keep"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
    assert_eq!(
        [project.read("one.txt"), project.read("two.txt")],
        ["x\n", "x\n"]
    );
    assert_eq!(project.git(["worktree", "list"]).lines().count(), 1);
    assert_unharmed(&project);
}

/// `git worktree add` fails when it meets a worktree that another process has only half created.
#[test]
fn many_runs_that_make_their_worktrees_at_once_all_begin() {
    let project =
        directive("apart", AUTO, &call("apart", "add", "", "{input:who}"))(project()).committed();
    let who = |number: u32| format!("who={number}");
    for round in 0..3 {
        let all: Vec<Child> = (0..6)
            .map(|number| {
                project.started([
                    "run",
                    "apart",
                    "--worktree",
                    "--input",
                    &who(6 * round + number),
                ])
            })
            .collect();
        for piton in all {
            let ran = ended(&project, piton);
            assert_eq!(ran.code(), Some(0), "{ran}");
        }
    }
    assert_eq!(project.git(["worktree", "list"]).lines().count(), 1 + 18);
    assert_sound(&project);
}

#[test]
fn two_runs_that_change_the_same_lines_are_told_apart_and_nothing_is_lost() {
    let project =
        directive("apart", AUTO, &call("apart", "add", "", "{input:who}"))(project()).committed();
    dirty(&project);
    let runs = ["one", "two"].map(|who| {
        let who = format!("who={who}");
        let ran = project.piton([
            "run",
            "apart",
            "--worktree",
            "--input",
            &who,
            "--format",
            "json",
        ]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        super::summary(&ran)["run_id"]
            .as_str()
            .expect("a run")
            .to_owned()
    });
    let ran = project.piton(["finish", &runs[0], "--keep"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = project.piton(["finish", &runs[1], "--keep"]);
    assert_ne!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr().contains("`out.txt`") && ran.stderr().contains("(apart)"),
        "{ran}"
    );
    for run in &runs {
        // A step is shown with the shortest unique prefix of its run id.
        let is_named =
            (8..run.len()).any(|length| ran.stderr().contains(&format!("`{}/1`", &run[..length])));
        assert!(is_named, "{run}: {ran}");
    }
    assert_eq!(project.read("out.txt"), "first\none\n");
    assert_eq!(
        project.git(["show", &format!("piton/{}:out.txt", runs[1])]),
        "first\ntwo\n"
    );
    assert_unharmed(&project);
}

#[test]
fn a_run_in_a_worktree_of_its_own_is_resumed_from_anywhere_after_a_death() {
    let project = project();
    let script = format!(
        "echo half > half.txt; {}; echo whole > half.txt",
        pausing(&project)
    );
    let project = project.tool("slow", "", &script);
    let all = format!(
        "{}{}",
        call("a", "add", "", "a"),
        call("slow", "slow", "", "")
    );
    let project = directive("apart", AUTO, &all)(project).committed();
    dirty(&project);
    let mut piton = project.started(["run", "apart", "--worktree"]);
    paused(&project);
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    assert_unharmed(&project);
    let log = project.piton(["log", "--format", "json"]).stdout();
    let first: serde_json::Value =
        serde_json::from_str(log.lines().next().expect("a run")).expect("JSON");
    let run = first["id"].as_str().expect("a run").to_owned();
    let ran = project.piton(["resume", &run]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = project.piton(["finish", &run, "--keep"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("half.txt"), "whole\n");
    assert_eq!(subjects(&project).len(), 2);
    assert_unharmed(&project);
    assert_sound(&project);
}

#[test]
fn the_worktree_of_a_run_that_died_before_its_start_is_removed_unless_it_has_changes() {
    let project = project().committed();
    dirty(&project);
    let [empty, used, ahead] =
        [1, 2, 3].map(|number| crate::linked_worktree::linked(&project, number));
    fs::write(used.join("work.txt"), "work\n").expect("a file");
    project.bash(&format!(
        "cd '{}'; echo x > x.txt; git add x.txt; git commit -qm x",
        ahead.display()
    ));
    let seen = project.piton(["gc", "--dry-run"]);
    assert!(
        seen.stdout().contains(&*empty.to_string_lossy()) && empty.exists(),
        "{seen}"
    );
    let ran = project.piton(["gc"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("1 worktree"), "{ran}");
    assert!(!empty.exists() && used.join("work.txt").exists() && ahead.join("x.txt").exists());
    assert_eq!(
        project.git(["branch", "--list", "piton/*"]).lines().count(),
        2
    );
    assert_unharmed(&project);
}
