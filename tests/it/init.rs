//! `piton init`.

use std::fs;

use crate::harness::{TestProject, cmd_snapshot};

#[test]
fn a_new_project_gets_a_working_example() {
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["init"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/config.yaml
    created .ai/directives/examples/hello.md
    created .ai/tools/examples/greet/tool.yaml
    created .ai/tools/examples/greet/greet.sh
    created .ai/knowledge/examples/how_items_work.md
    created .ai/outputs/.gitignore
    ----- stderr -----
    ✓ created 6 files
    hint: run the example with `piton run hello`, check the items with `piton validate`
    ");
    assert_eq!(
        project.files(),
        [
            ".ai/config.yaml",
            ".ai/directives/examples/hello.md",
            ".ai/knowledge/examples/how_items_work.md",
            ".ai/outputs/.gitignore",
            ".ai/tools/examples/greet/greet.sh",
            ".ai/tools/examples/greet/tool.yaml",
        ]
    );
}

#[test]
fn outputs_stay_out_of_git() {
    let project = TestProject::new();
    project.piton(["init"]);
    let project = project.file(".ai/outputs/tools/greet/output_1.json", "{}");
    assert_eq!(
        project.git([
            "status",
            "--porcelain",
            "--untracked-files=all",
            ".ai/outputs"
        ]),
        ""
    );
}

#[test]
fn a_second_init_changes_nothing() {
    let project = TestProject::new();
    project.piton(["init"]);
    cmd_snapshot!(project.piton(["init"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ the example is already there
    hint: run the example with `piton run hello`, check the items with `piton validate`
    ");
}

#[test]
fn files_with_other_content_are_all_named_and_nothing_is_written() {
    let project = TestProject::new()
        .file(".ai/config.yaml", "ui:\n  color: never\n")
        .file(".ai/tools", "a file");
    cmd_snapshot!(project.piton(["init"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai/config.yaml`, `.ai/tools` are in the way

    hint: nothing was written, because piton never overwrites files: move the existing ones away, or keep them
    ");
    assert_eq!(project.files(), [".ai/config.yaml", ".ai/tools"]);
    assert_eq!(project.read(".ai/config.yaml"), "ui:\n  color: never\n");
}

#[test]
fn files_in_the_way_are_reported_as_json() {
    let project = TestProject::new().file(".ai/config.yaml", "ui:\n  color: never\n");
    cmd_snapshot!(project.piton(["init", "--format", "json"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    {"error":{"code":"FILES_IN_THE_WAY","message":"`.ai/config.yaml` is in the way","suggestion":"nothing was written, because piton never overwrites files: move the existing ones away, or keep them"}}
    ----- stderr -----
    "#);
}

#[test]
fn items_that_are_there_already_stay_as_they_are() {
    let project = TestProject::new()
        .tool("scribble", "mutates_state: true", "echo two >> notes.txt")
        .directive("write", ["scribble"])
        .committed();
    assert_eq!(project.piton(["init"]).code(), Some(0));
    assert_eq!(
        project.git(["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
    let project = project.committed();
    assert_eq!(project.piton(["init"]).code(), Some(0));
    project.assert_clean();
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_link_that_leaves_the_project() {
    let project = TestProject::new();
    let outside = project.home().join("outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, project.root().join(".ai")).unwrap();
    cmd_snapshot!(project.piton(["init"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `.ai` is in the way

    hint: nothing was written, because piton never overwrites files: move the existing ones away, or keep them
    ");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn below_the_top_of_a_work_tree_it_names_the_folder() {
    let project = TestProject::new().within("src/deep");
    cmd_snapshot!(project.piton(["init"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/config.yaml
    created .ai/directives/examples/hello.md
    created .ai/tools/examples/greet/tool.yaml
    created .ai/tools/examples/greet/greet.sh
    created .ai/knowledge/examples/how_items_work.md
    created .ai/outputs/.gitignore
    ----- stderr -----
    ✓ created 6 files in `[PROJECT]`
    hint: run the example with `piton run hello`, check the items with `piton validate`
    ");
}

#[test]
fn without_git_it_stays_in_the_current_folder() {
    let project = TestProject::without_git().within("here");
    let ran = project.piton(["init"]);
    assert_eq!(
        project.files().first().map(String::as_str),
        Some("here/.ai/config.yaml")
    );
    let hint = "hint: create a repository with `git init`, then run the example with `piton run hello`, check the items \
                with `piton validate`\n";
    assert!(ran.stderr().ends_with(hint), "{ran}");
}

#[test]
fn another_folder_is_named_with_a_flag() {
    let project = TestProject::without_git();
    fs::create_dir(project.root().join("other")).unwrap();
    project.piton(["-C", "other", "init"]);
    assert_eq!(
        project.files().first().map(String::as_str),
        Some("other/.ai/config.yaml")
    );
}

#[test]
fn the_result_is_one_json_object() {
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["init", "--format", "json"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {"root":"[PROJECT]","created":[".ai/config.yaml",".ai/directives/examples/hello.md",".ai/tools/examples/greet/tool.yaml",".ai/tools/examples/greet/greet.sh",".ai/knowledge/examples/how_items_work.md",".ai/outputs/.gitignore"],"unchanged":[]}
    ----- stderr -----
    "#);
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_is_an_error_with_its_cause() {
    // A file system that refuses even root: nothing can be created below /proc.
    let project = TestProject::new();
    cmd_snapshot!(project.piton(["-C", "/proc/self", "init"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot write `.ai/config.yaml`
      caused by: No such file or directory (os error 2)

    hint: check that its folder exists and is writable, and the disk space
    ");
}

#[cfg(unix)]
#[test]
fn the_script_of_the_example_runs_by_itself() {
    use std::os::unix::fs::PermissionsExt;
    let project = TestProject::new();
    project.piton(["init"]);
    let mode = fs::metadata(project.root().join(".ai/tools/examples/greet/greet.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o100, 0o100);
}

#[test]
fn a_disk_that_is_full_leaves_nothing_behind() {
    let project = TestProject::new();
    // A limit on the file size fails like a full disk, without a mount: at the first file, and with
    // one block of 512 bytes at the second.
    for blocks in [0, 1] {
        let piton = env!("CARGO_BIN_EXE_piton");
        project.bash(&format!(
            "set -o posix; trap '' XFSZ; ulimit -f {blocks}
             if {piton} init; then echo succeeded >&2; exit 1; fi
             if test -e .ai; then find .ai >&2; exit 1; fi"
        ));
    }
    assert_eq!(project.files(), Vec::<String>::new());
    assert_eq!(project.piton(["init"]).code(), Some(0));
    assert_eq!(project.piton(["validate"]).code(), Some(0));
}
