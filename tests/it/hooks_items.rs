//! The hook `pre-commit`: staged items below `.ai/` must be valid.

use std::fs;

use crate::harness::{Ran, TestProject, cmd_snapshot};

const GOOD: &str = "tool_id: greet\ntool_type: script\nversion: \"1.0.0\"\ndescription: Greets\n\
                    executor: bash_runtime\nconfig:\n  entrypoint: run.sh\n";
const BROKEN: &str = "tool_id: greet\ntool_type: script\nversion: \"1.0.0\"\ndescription: Greets\n\
                      executor: nowhere\nconfig:\n  entrypoint: run.sh\n";

fn project() -> TestProject {
    TestProject::new()
        .file("notes.txt", "one\n")
        .file(".ai/tools/greet/tool.yaml", GOOD)
        .file(".ai/tools/greet/run.sh", "echo hello\n")
        .committed()
        .hooked(["pre-commit"])
}

fn commit(project: &TestProject) -> Ran {
    project.try_git(["commit", "--quiet", "--message", "next"])
}

fn passes(ran: &Ran) {
    assert_eq!((ran.code(), ran.stderr().as_str()), (Some(0), ""), "{ran}");
}

fn refused(ran: &Ran, because: &str) {
    assert!(
        ran.code() == Some(1) && ran.stderr().contains(because),
        "{because}: {ran}"
    );
}

#[test]
fn a_staged_item_that_is_not_valid_is_refused_with_its_findings() {
    let project = project().file(".ai/tools/greet/tool.yaml", BROKEN);
    project.git(["add", "."]);
    cmd_snapshot!(commit(&project), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error[UNKNOWN_EXECUTOR]: tool `greet` names executor `nowhere`, which does not exist (`greet` → `nowhere`)
     --> .ai/tools/greet/tool.yaml:5:11
      |
    5 | executor: nowhere
      |           ^^^^^^^
      |
      = hint: built in are `subprocess`, `http_client`, `python_runtime`, `bash_runtime`, `node_runtime` and `docker_runtime`

    warning[UNSIGNED]: tool `greet` is not signed
     --> .ai/tools/greet/tool.yaml:1:1
      |
    1 | tool_id: greet
      | ^^^^^^^
      |
      = hint: read it, then `piton sign greet`

    ✗ 1 tool, 0 directives, 0 knowledge entries: 1 error, 1 warning
    hint: `piton help UNKNOWN_EXECUTOR` explains it with a corrected example; `piton help codes` lists all
    error: piton: staged items are not valid, nothing was committed
    hint: fix and stage them; `git commit --no-verify` skips this check
    ");
    assert_eq!(project.git(["log", "--format=%s"]), "start\n");
    // The refusal changed nothing.
    assert_eq!(
        project.git(["diff", "--cached", "--name-only"]),
        ".ai/tools/greet/tool.yaml\n"
    );
    assert_eq!(
        fs::read_dir(project.home().join("../tmp"))
            .expect("a folder")
            .count(),
        0
    );
}

#[test]
fn the_index_counts_and_not_the_work_tree() {
    // The staged version is valid, the version on disk is broken.
    let project = project().file(".ai/tools/greet/tool.yaml", format!("{GOOD}tags: [a]\n"));
    project.git(["add", "."]);
    let project = project.file(".ai/tools/greet/tool.yaml", BROKEN);
    passes(&commit(&project));
    assert_eq!(project.read(".ai/tools/greet/tool.yaml"), BROKEN);
    // The staged version is broken, the version on disk is valid.
    project.git(["add", "."]);
    let project = project.file(".ai/tools/greet/tool.yaml", GOOD);
    refused(&commit(&project), "nowhere");
    // An item that is neither staged nor committed is ignored.
    project.git(["add", "."]);
    let project = project.file(
        ".ai/tools/other/tool.yaml",
        BROKEN.replace("greet", "other"),
    );
    passes(&commit(&project));
    assert_eq!(
        project.git(["status", "--porcelain"]),
        "?? .ai/tools/other/\n"
    );
}

#[test]
fn part_of_a_file_is_judged_as_it_is_staged() {
    let project = project();
    // The script is renamed, so only script and manifest together are valid.
    project.bash("git mv .ai/tools/greet/run.sh .ai/tools/greet/main.sh");
    refused(&commit(&project), "run.sh");
    project.bash("sed -i s/run.sh/main.sh/ .ai/tools/greet/tool.yaml");
    refused(&commit(&project), "run.sh");
    project.git(["add", "--update"]);
    passes(&commit(&project));
    // An executor and the tool that uses it, staged together, with nothing on disk.
    let runtime = "tool_id: my_runtime\ntool_type: runtime\nversion: \"1.0.0\"\ndescription: Runs\n\
                   executor: subprocess\nconfig:\n  command: bash\n";
    let project = project.file(".ai/tools/my_runtime.yaml", runtime).file(
        ".ai/tools/greet/tool.yaml",
        GOOD.replace("run.sh", "main.sh")
            .replace("bash_runtime", "my_runtime"),
    );
    project.git(["add", ".ai/tools/greet"]);
    refused(&commit(&project), "my_runtime");
    project.git(["add", "."]);
    project.bash("rm -r .ai");
    passes(&commit(&project));
}

#[test]
fn what_only_this_commit_takes_along_is_checked() {
    let project = project()
        .file("notes.txt", "two\n")
        .file(".ai/tools/greet/tool.yaml", BROKEN);
    // Git makes these commits with a temporary index.
    passes(&project.try_git(["commit", "--quiet", "--message", "notes", "notes.txt"]));
    refused(
        &project.try_git([
            "commit",
            "--quiet",
            "--message",
            "item",
            ".ai/tools/greet/tool.yaml",
        ]),
        "nowhere",
    );
    refused(
        &project.try_git(["commit", "--quiet", "--all", "--message", "all"]),
        "nowhere",
    );
    passes(&project.try_git([
        "commit",
        "--quiet",
        "--all",
        "--no-verify",
        "--message",
        "all",
    ]));
    // An item that is already broken does not block other commits, and may be removed.
    let project = project
        .file("notes.txt", "three\n")
        .file(".ai/tools/wave/run.sh", "echo hello\n")
        .file(".ai/tools/wave/tool.yaml", GOOD.replace("greet", "wave"));
    project.git(["add", "."]);
    assert_eq!(commit(&project).code(), Some(0));
    project.git(["rm", "-rq", ".ai/tools/greet"]);
    passes(&commit(&project));
    project.git(["rm", "-rq", ".ai"]);
    passes(&commit(&project));
}

#[test]
fn a_stamp_that_does_not_match_what_is_staged_is_refused() {
    let project = project();
    let signed = project.piton(["sign", "greet"]);
    assert_eq!(signed.code(), Some(0), "{signed}");
    project.git(["add", "."]);
    passes(&commit(&project));
    let project = project.file(".ai/tools/greet/run.sh", "echo changed\n");
    project.git(["add", "."]);
    refused(&commit(&project), "hash mismatch");
    // With converted line ends, the checkout matches the stamp and the blob does not.
    project.bash("git reset -q --hard; echo '*.sh text eol=crlf' > .gitattributes");
    fs::write(
        project.root().join(".ai/tools/greet/run.sh"),
        "echo crlf\r\n",
    )
    .expect("written");
    assert_eq!(project.piton(["sign", "greet"]).code(), Some(0));
    project.git(["add", "."]);
    assert_eq!(commit(&project).code(), Some(0));
}

#[test]
fn warnings_are_said_and_do_not_refuse() {
    let project = project().file(
        ".ai/tools/greet/tool.yaml",
        format!("{GOOD}unheard_of: 1\n"),
    );
    project.git(["add", "."]);
    let ran = commit(&project);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("unheard_of"), "{ran}");
}

#[test]
fn projects_and_work_trees_anywhere_are_supported() {
    let name = "a \"b\"\nc";
    let project = TestProject::new()
        .file(&format!("{name}/.ai/tools/greet/tool.yaml"), GOOD)
        .file(&format!("{name}/.ai/tools/greet/run.sh"), "echo hello\n")
        .file("sub/x", "")
        .committed()
        .hooked(["pre-commit"]);
    let project = project.file(&format!("{name}/.ai/tools/greet/tool.yaml"), BROKEN);
    project.git(["add", "."]);
    let ran = commit(&project);
    refused(&ran, "nowhere");
    // From a subfolder, and in a linked worktree whose path holds spaces and a line break.
    let ran = project.ran(
        project
            .hermetic("git", &project.root().join("sub"))
            .args(["commit", "-qm", "x"])
            .output()
            .expect("git"),
    );
    refused(&ran, "nowhere");
    project.git(["stash", "--quiet"]);
    let linked = format!("../linked {}", "x\ny");
    project.git(["worktree", "add", "--quiet", "-b", "other", linked.as_str()]);
    let folder = project.root().join(&linked);
    fs::write(folder.join(name).join(".ai/tools/greet/tool.yaml"), BROKEN).expect("written");
    let git = |words: &[&str]| {
        project.ran(
            project
                .hermetic("git", &folder)
                .args(words)
                .output()
                .expect("git starts"),
        )
    };
    refused(&git(&["commit", "-qam", "x"]), "nowhere");
    fs::write(folder.join("new.txt"), "").expect("written");
    git(&["checkout", "-q", "."]);
    git(&["add", "."]);
    passes(&git(&["commit", "-qm", "x"]));
}

#[test]
fn links_to_other_folders_of_the_repository_lead_to_what_is_staged() {
    let project = TestProject::new()
        .file("shared/greet/tool.yaml", GOOD)
        .file("shared/greet/run.sh", "echo hello\n")
        .hooked(["pre-commit"]);
    project.bash("mkdir -p .ai/tools; ln -s ../../shared/greet .ai/tools/greet; git add .");
    let project = project.file("shared/greet/tool.yaml", BROKEN);
    assert_eq!(commit(&project).code(), Some(0));
}

#[test]
fn the_first_commit_and_a_damaged_copy_of_git_are_no_reason_to_fail() {
    let project = TestProject::new()
        .hooked(["pre-commit"])
        .file(".ai/tools/greet/tool.yaml", BROKEN);
    project.git(["add", "."]);
    refused(&commit(&project), "nowhere");
    project.git(["rm", "-q", "--cached", "-r", ".ai"]);
    let project = project.file("a", "");
    project.git(["add", "a"]);
    passes(&commit(&project));
    // A repository that piton cannot read is reported and does not block the commit.
    let project = TestProject::without_git();
    project.bash(
        "git init -q --object-format=sha256; git config extensions.compatObjectFormat sha1; echo x > b; git add b",
    );
    let project = project.hooked(["pre-commit"]);
    let ran = commit(&project);
    assert!(
        ran.code() == Some(0) && ran.stderr().contains("hook failed"),
        "{ran}"
    );
    let project = project
        .file("c", "")
        .variable("PITON_HOOKS_FAIL_CLOSED", "true");
    project.git(["add", "c"]);
    refused(&commit(&project), "hook failed");
}
