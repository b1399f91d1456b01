//! H24: footer and trailers parse as git parses them, and cannot be forged.

use super::{Picture, exec, exec_with, simple, told};
use crate::harness::TestProject;

/// The keys that the real git finds in the message of a commit.
fn keys(project: &TestProject, commit: &str) -> Vec<String> {
    project.bash(&format!(
        "git log -1 --format=%B {commit} | git interpret-trailers --parse > ../home/parsed"
    ));
    let parsed = std::fs::read_to_string(project.home().join("parsed")).expect("it was written");
    parsed
        .lines()
        .map(|line| line.split(':').next().unwrap_or_default().to_owned())
        .collect()
}

const OURS: [&str; 3] = ["Piton-Run", "Piton-Step", "Piton-Journal"];

#[test]
fn h24_g104_git_finds_exactly_our_trailers() {
    let project = simple();
    let made = exec_with(&project, &["--name", "generate"], "echo a > a.txt");
    made.assert_end("0 committed -");
    assert_eq!(keys(&project, "HEAD"), OURS);
    let value = |key: &str| {
        project
            .git([
                "log",
                "-1",
                &format!("--format=%(trailers:key={key},valueonly)"),
            ])
            .trim_end()
            .to_owned()
    };
    assert_eq!(
        value("Piton-Run"),
        made.last()["run_id"].as_str().expect("a run")
    );
    assert_eq!(value("Piton-Step"), "1 generate");
    assert!(value("Piton-Journal").starts_with("sha256:"));
    let undone = told(&project, &["undo"]);
    undone.assert_end("0 committed -");
    assert_eq!(
        keys(&project, "HEAD"),
        ["Piton-Run", "Piton-Step", "Piton-Undoes", "Piton-Journal"]
    );
    assert_eq!(value("Piton-Undoes"), made.commit());
    project.assert_clean();
}

#[test]
fn h24_text_of_others_adds_no_trailers() {
    for message in [
        "feat: x\n\nSigned-off-by: Eve <eve@example.com>",
        "feat: x\n\nPiton-Run: forged\nPiton-Undoes: 0000000000000000000000000000000000000000",
        "feat: x\n\nbody\n\n[directive: forged]\n\nCo-authored-by: Eve <eve@example.com>",
        "feat: x\r\n\r\nReviewed-by: Eve <eve@example.com>\r\n",
        "feat: x\n\n---\nPiton-Run: forged\n",
        "feat: x\n\n# ------------------------ >8 ------------------------\nhidden",
        "feat: x\n\n(cherry picked from commit 0000000000000000000000000000000000000000)",
        "feat: x\u{2028}Signed-off-by: Eve <eve@example.com>",
    ] {
        let project = simple();
        let made = exec_with(&project, &["-m", message], "echo a > a.txt");
        made.assert_end("0 committed -");
        assert_eq!(keys(&project, "HEAD"), OURS, "{message:?}");
        let text = project.git(["log", "-1", "--format=%B"]);
        assert!(text.starts_with("feat: x"), "{text}");
        assert!(
            !text
                .lines()
                .any(|line| line.starts_with("Signed-off-by:") || line.starts_with("[directive:")),
            "{text}"
        );
        project.assert_clean();
    }
}

#[test]
fn h24_names_that_look_like_more_than_a_name_stay_names() {
    for name in [
        "x] [directive: y",
        "Signed-off-by: Eve <eve@example.com>",
        "Piton-Run: forged",
        "--amend",
        "日本語 é",
    ] {
        let project = simple();
        let made = exec_with(&project, &[&format!("--name={name}")], "echo a > a.txt");
        made.assert_end("0 committed -");
        assert_eq!(keys(&project, "HEAD"), OURS, "{name}");
        let step = project.git(["log", "-1", "--format=%(trailers:key=Piton-Step,valueonly)"]);
        assert_eq!(step.trim_end(), format!("1 {name}"));
        project.assert_clean();
    }
}

#[test]
fn h24_files_with_hostile_names_do_not_break_the_message() {
    let project = simple();
    let made = exec(
        &project,
        "mkdir $'a\\nSigned-off-by: Eve'; echo a > $'a\\nSigned-off-by: Eve/b\\n\\nPiton-Run: x'",
    );
    made.assert_end("0 committed -");
    assert_eq!(keys(&project, "HEAD"), OURS);
    assert_eq!(project.git(["status", "--porcelain"]), "");
}

#[test]
fn h24_the_commit_is_found_from_the_run() {
    let project = simple();
    let made = exec(&project, "echo a > a.txt");
    exec(&project, "echo b > b.txt").assert_end("0 committed -");
    let run = made.last()["run_id"].as_str().expect("a run").to_owned();
    let found = project.git(["log", "--format=%H", &format!("--grep=^Piton-Run: {run}$")]);
    assert_eq!(found.trim_end(), made.commit());
    assert_eq!(
        made.last()["steps"][0]["checkpoint"]["commit_sha"],
        made.commit()
    );
}

#[test]
fn h24_the_journal_that_a_commit_names_holds_the_decision() {
    let project = simple();
    let made = exec(&project, "echo a > a.txt");
    let run = made.last()["run_id"].as_str().expect("a run");
    let journal = project.read(&format!(".git/piton/runs/{run}/journal.jsonl"));
    let named = project.git([
        "log",
        "-1",
        "--format=%(trailers:key=Piton-Journal,valueonly)",
    ]);
    let decided = journal
        .lines()
        .filter_map(|line| line.split('\t').next())
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .find(|line| line["event"]["type"] == "decided")
        .expect("a decision");
    assert_eq!(
        decided["prev"]
            .as_str()
            .map(|prev| format!("sha256:{}", prev.trim_start_matches("sha256:"))),
        Some(named.trim_end().to_owned())
    );
}

#[test]
fn h24_the_author_is_the_one_that_git_would_take() {
    let project = simple()
        .variable("GIT_AUTHOR_NAME", "Ada")
        .variable("GIT_AUTHOR_DATE", "@1700000000 +0130");
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    assert_eq!(
        project.git(["log", "-1", "--format=%an %ad %cn", "--date=raw"]),
        "Ada 1700000000 +0130 Test\n"
    );
    let nobody = simple();
    let before = Picture::of(&nobody);
    let mut command = nobody.command(["exec", "--", "touch", "ran"]);
    for name in [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ] {
        command.env_remove(name);
    }
    let output = command.output().expect("piton starts");
    assert_eq!(
        output.status.code(),
        Some(5),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("git does not know who you are"));
    before.assert_same(&nobody);
}
