//! `piton mcp --as`: a server that is limited to a directive does what the directive permitted when
//! the server began, also when it continues runs, undoes, restores and commits.

use serde_json::json;

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

fn directive(name: &str, grants: &str, step: &str) -> String {
    format!(
        "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n<metadata>\n\
         <description>Notes</description>\n<git_checkpoint mode=\"auto\"/>\n\
         <permissions>\n{grants}\n</permissions>\n</metadata>\n\
         <process>\n{step}\n</process>\n</directive>\n```\n"
    )
}

const TOOL: &str = "<execute resource=\"tool\" id=\"note\"/>";
const NOTES: &str = "<write resource=\"filesystem\" path=\"notes/**\"/>";
const STEP: &str = "<step name=\"a\"><execute item_type=\"tool\" item_id=\"note\"/></step>";

fn project() -> TestProject {
    TestProject::new()
        .file("README.md", "one\n")
        .file("notes/a.txt", "one\n")
        .file(
            ".ai/directives/narrow.md",
            directive("narrow", &format!("{TOOL}\n{NOTES}"), STEP),
        )
        .tool(
            "note",
            "mutates_state: true",
            "test ! -e stop || exit 3; echo more >> notes/a.txt",
        )
        .committed()
}

fn write(project: &TestProject, path: &str, text: &str) {
    std::fs::write(project.root().join(path), text).expect("a file is written");
}

#[test]
fn a_failed_run_continues_only_with_the_items_that_the_server_began_with() {
    for era in ERAS {
        for wide in [
            directive(
                "narrow",
                "<execute resource=\"tool\" id=\"*\"/>\n<write resource=\"filesystem\" path=\"**\"/>",
                STEP,
            ),
            directive("narrow", TOOL, STEP).replace("name=\"a\"", "name=\"b\""),
        ] {
            let project = project();
            project.bash("touch stop; git add stop; git commit -qm stop");
            let mut client = McpClient::greeted(&project, era, ["--as", "narrow"]);
            let failed = client.execute("directive", "run", "narrow", json!({}));
            assert_eq!(failed["status"], "error", "{failed}");
            project.bash("git rm -q stop; git commit -qm go");
            let own = project.read(".ai/directives/narrow.md");
            write(&project, ".ai/directives/narrow.md", &wide);
            let run = json!({"run_id": failed["run_id"], "from": "a"});
            let said = client.execute("directive", "continue", "narrow", run.clone());
            assert_eq!(said["code"], "ITEM_CHANGED", "{said}");
            assert_eq!(project.read("notes/a.txt"), "one\n");
            let repinned = project
                .bash("grep -l '\"type\":\"repinned\"' .git/piton/runs/*/journal.jsonl || true");
            assert_eq!(repinned, "");
            // With the same text it continues.
            write(&project, ".ai/directives/narrow.md", &own);
            let said = client.execute("directive", "continue", "narrow", run);
            assert_eq!(said["status"], "success", "{said}");
            assert_eq!(project.read("notes/a.txt"), "one\nmore\n");
        }
    }
}

#[test]
fn a_tool_that_the_directive_names_is_pinned_as_well() {
    for era in ERAS {
        let project = project();
        let mut client = McpClient::greeted(&project, era, ["--as", "narrow"]);
        let said = client.execute("directive", "run", "narrow", json!({}));
        assert_eq!(said["status"], "success", "{said}");
        let changed = project
            .bash("sed -i 's/more/other/' $(grep -rl 'echo more' .ai/tools); git diff --stat .ai");
        assert!(changed.contains("1 file changed"), "{changed}");
        let said = client.execute("directive", "run", "narrow", json!({}));
        assert_eq!(said["code"], "ITEM_CHANGED", "{said}");
        assert_eq!(project.read("notes/a.txt"), "one\nmore\n");
    }
}

/// A project where the person has changed a file outside the permissions and one inside.
fn with_past() -> TestProject {
    let project = project();
    for command in ["echo two >> README.md", "echo two >> notes/a.txt"] {
        project
            .piton(["exec", "--checkpoint", "auto", "--", "sh", "-c", command])
            .succeeded();
    }
    project
}

#[test]
fn undo_and_restore_change_only_files_that_the_directive_may_write() {
    for era in ERAS {
        let project = with_past();
        let mut client = McpClient::greeted(&project, era, ["--as", "narrow"]);
        let (outside, inside) = (newest(&project, 1), newest(&project, 0));
        let head = project.git(["rev-parse", "HEAD"]);
        for (action, parameters) in [
            ("undo", json!({"step": outside})),
            ("undo", json!({"run_id": outside.split('/').next()})),
            ("restore", json!({"step": format!("{outside}")})),
        ] {
            // What is inside may be restored, so restore is asked for a state before both.
            if action == "restore" {
                project
                    .piton([
                        "exec",
                        "--checkpoint",
                        "auto",
                        "--",
                        "sh",
                        "-c",
                        "echo 3 >> README.md",
                    ])
                    .succeeded();
            }
            let before = project.git(["rev-parse", "HEAD"]);
            let said = client.execute("directive", action, "narrow", parameters);
            assert_eq!(said["code"], "WRITE_DENIED", "{action}: {said}");
            assert_eq!(project.git(["rev-parse", "HEAD"]), before, "{action}");
            assert!(
                project.read("README.md").starts_with("one\ntwo\n"),
                "{action}"
            );
        }
        assert_ne!(head, project.git(["rev-parse", "HEAD"]));
        let said = client.execute("directive", "undo", "narrow", json!({"step": inside}));
        assert_eq!(said["status"], "success", "{said}");
        assert_eq!(project.read("notes/a.txt"), "one\n");
        project.assert_clean();
    }
}

#[test]
fn without_a_directive_the_same_calls_are_carried_out() {
    let project = with_past();
    let mut client = McpClient::greeted(&project, Era::Sessions, []);
    let step = newest(&project, 1);
    let said = client.execute("directive", "undo", "x", json!({"step": step}));
    assert_eq!(said["status"], "success", "{said}");
    assert_eq!(project.read("README.md"), "one\n");
}

#[test]
fn a_checkpoint_commits_only_files_that_the_directive_may_write() {
    for era in ERAS {
        let project = project();
        let mut client = McpClient::greeted(&project, era, ["--as", "narrow"]);
        // The baseline is there once a call has changed something.
        let said = client.execute("directive", "run", "narrow", json!({}));
        assert_eq!(said["status"], "success", "{said}");
        let head = project.git(["rev-parse", "HEAD"]);
        write(&project, "README.md", "changed by the agent\n");
        let said = client.execute(
            "directive",
            "run",
            "git_checkpoint",
            json!({"operation": "edit"}),
        );
        assert_eq!(said["code"], "WRITE_DENIED", "{said}");
        assert!(said.to_string().contains("README.md"), "{said}");
        assert_eq!(project.git(["rev-parse", "HEAD"]), head);
        project.git(["checkout", "--", "README.md"]);
        write(&project, "notes/a.txt", "changed by the agent\n");
        let said = client.execute(
            "directive",
            "run",
            "git_checkpoint",
            json!({"operation": "edit"}),
        );
        assert_eq!(said["status"], "success", "{said}");
        assert_ne!(project.git(["rev-parse", "HEAD"]), head);
        project.assert_clean();
    }
}

/// The name of a step of the newest runs: `RUN/1`.
fn newest(project: &TestProject, back: usize) -> String {
    let runs = project.bash("ls -1 .git/piton/runs | grep -v '[.]' | sort -r");
    let run = runs.lines().nth(back).expect("a run");
    format!("{run}/1")
}
