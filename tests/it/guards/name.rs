//! G88 and G96: names that are options, no text, or worse.

use super::{Picture, exec, simple, told};
use crate::harness::TestProject;

/// In the words of bash: an option, bytes that are no UTF-8, a newline, an escape sequence, a quote,
/// a pattern, a space at the end, and a long name.
const NAMES: [&str; 9] = [
    "$'--force'",
    "$'bad\\xff'",
    "$'new\\nline'",
    "$'esc\\x1b[31mred'",
    "$'\"quoted\"'",
    "$'[a-z]*?'",
    "$'space '",
    "$'back\\\\slash'",
    "$(printf 'x%.0s' {1..250})",
];

fn each(command: &str) -> String {
    NAMES.map(|name| command.replace("NAME", name)).join("; ")
}

#[test]
fn g88_odd_names_are_committed_and_undone() {
    let project = simple();
    let before = Picture::of(&project);
    let made = exec(
        &project,
        &each("echo x > ./NAME; mkdir -p dir/NAME; echo y > dir/NAME/NAME"),
    );
    made.assert_end("0 committed -");
    assert_eq!(made.event("committed")["files_changed"], 18);
    project.assert_clean();
    let tree = project.git(["rev-parse", "HEAD^{tree}"]);
    told(&project, &["undo"]).assert_end("0 committed -");
    before.assert_only(&project, &[]);
    told(&project, &["redo"]).assert_end("0 committed -");
    assert_eq!(project.git(["rev-parse", "HEAD^{tree}"]), tree);
    project.assert_clean();
}

#[test]
fn g88_odd_names_are_rolled_back() {
    let project = simple();
    project.bash(&each("echo x > ./NAME"));
    project.bash("git add --all; git commit -qm odd");
    let before = Picture::of(&project);
    let contents = |picture: &Picture| {
        picture
            .files
            .values()
            .map(|node| node.content.clone())
            .collect::<Vec<_>>()
    };
    let changes = each("echo more >> ./NAME; mkdir -p new; echo y > new/NAME");
    exec(&project, &format!("{changes}; exit 1")).assert_end("1 rolled_back COMMAND_FAILED");
    assert_eq!(Picture::of(&project).status, before.status);
    assert_eq!(contents(&Picture::of(&project)), contents(&before));
    exec(&project, &format!("{}; exit 1", each("rm -- ./NAME")))
        .assert_end("1 rolled_back COMMAND_FAILED");
    assert_eq!(Picture::of(&project).status, before.status);
    assert_eq!(contents(&Picture::of(&project)), contents(&before));
    project.assert_clean();
}

#[test]
fn g88_json_holds_every_name_and_reads_back() {
    let project = simple();
    let made = exec(&project, &each("echo x > ./NAME"));
    let delta = made.event("changes_found")["delta"]["changes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let paths: Vec<&str> = delta
        .iter()
        .filter_map(|change| change["path"].as_str())
        .collect();
    for expected in [
        "--force",
        "\"bad\\377\"",
        "new\nline",
        "esc\u{1b}[31mred",
        "\"\\\"quoted\\\"\"",
        "[a-z]*?",
    ] {
        assert!(paths.contains(&expected), "{expected:?} in {paths:?}");
    }
    // Nothing that reaches a terminal moves its cursor or changes its colours.
    let human = project.piton([
        "exec",
        "--writes",
        "nothing",
        "--",
        "bash",
        "-c",
        "rm -- ./esc*",
    ]);
    assert_eq!(human.code(), Some(3), "{human}");
    assert!(!human.stderr().contains('\u{1b}'), "{human}");
    assert!(human.stderr().contains("\\033[31mred"), "{human}");
    project.assert_clean();
}

#[test]
fn g88_paths_on_the_command_line_may_look_like_options_or_patterns() {
    let project = simple();
    project.bash("echo 1 > ./--force; echo 2 > '[a-z]*'; echo 3 > other");
    let made = told(&project, &["checkpoint", "--", "--force", "[a-z]*"]);
    made.assert_end("0 committed -");
    assert_eq!(super::files_of(&project, "HEAD"), ["--force", "[a-z]*"]);
    assert_eq!(project.git(["status", "--porcelain"]), "?? other\n");
}

#[test]
fn g88_commands_may_look_like_options() {
    let project = simple();
    let ran = project.piton(["exec", "--", "touch", "--", "--writes"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(super::files_of(&project, "HEAD"), ["--writes"]);
}

#[test]
fn g96_names_that_git_refuses_are_left_alone_and_named() {
    let project = simple();
    let before = Picture::of(&project);
    let script =
        "mkdir .GIT sub; echo x > .GIT/config; echo y > sub/.Git; echo z > 'GIT~1'; echo a > a.txt";
    let made = exec(&project, script);
    made.assert_end("0 committed -");
    assert_eq!(super::files_of(&project, "HEAD"), ["a.txt"]);
    let left = made.event("changes_found")["delta"]["not_captured"].to_string();
    for name in [".GIT", "sub/.Git", "GIT~1"] {
        assert!(left.contains(name), "{name} in {left}");
    }
    let human = project.piton(["exec", "--", "bash", "-c", "mkdir .gIT; echo b > b.txt"]);
    assert!(
        human
            .stderr()
            .contains("warning: changed outside of checkpoints and left alone: `.gIT`"),
        "{human}"
    );
    before.assert_only(
        &project,
        &["a.txt", "b.txt", ".GIT", ".gIT", "sub", "GIT~1"],
    );
    assert_eq!(project.read(".GIT/config"), "x\n");
}

#[test]
fn g96_names_that_clash_elsewhere_are_two_files_here() {
    let project = simple();
    let before = Picture::of(&project);
    let made = exec(
        &project,
        "mkdir Dir dir; echo 1 > Dir/File; echo 2 > dir/file; echo 3 > 'aux'; echo 4 > 'a:b'; echo 5 > 'dot.'",
    );
    made.assert_end("0 committed -");
    assert_eq!(
        super::files_of(&project, "HEAD"),
        ["Dir/File", "a:b", "aux", "dir/file", "dot."]
    );
    project.assert_clean();
    exec(&project, "rm Dir/File; mv dir/file dir/File; exit 1")
        .assert_end("1 rolled_back COMMAND_FAILED");
    project.assert_clean();
    told(&project, &["undo"]).assert_end("0 committed -");
    before.assert_only(&project, &[]);
}

#[test]
fn g96_ignore_case_of_the_settings_does_not_merge_files() {
    let project = TestProject::new().file("Readme", "1\n").committed();
    project.git(["config", "core.ignoreCase", "true"]);
    exec(&project, "echo 2 > README; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    assert_eq!(project.files(), ["Readme"]);
    exec(&project, "mv Readme README").assert_end("0 committed -");
    assert_eq!(project.git(["ls-tree", "--name-only", "HEAD"]), "README\n");
}
