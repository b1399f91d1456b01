//! Agents over MCP and git hooks in every kind of repository that is served.

use serde_json::{Value, json};

use super::life::piton;
use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

const FILES: &str = "git init -q -b main; mkdir -p in out; echo a > in/a.txt; echo b > out/b.txt; git add .; git commit -qm start; ";

/// The kinds, each with a tracked file `in/a.txt` on disk.
const KINDS: [(&str, &str); 6] = [
    (
        "lfs",
        "git lfs install --local >/dev/null; git lfs track 'in/*.txt' >/dev/null; git add -A; git add --renormalize .; git commit -qm lfs",
    ),
    (
        "sparse",
        "git sparse-checkout set --cone --no-sparse-index in",
    ),
    (
        "sparse index",
        "git sparse-checkout set --cone --sparse-index in",
    ),
    (
        "partial",
        "mv .git ../full; rm -rf in out; git -C ../full config core.bare true; git -C ../full config uploadpack.allowFilter true; \
         git clone -q --filter=blob:none file://$PWD/../full .; mv ../full ../away; git remote remove origin; true",
    ),
    (
        "split",
        "git config core.splitIndex true; git update-index --split-index",
    ),
    (
        "reftable",
        "rm -rf .git; git init -q -b main --ref-format=reftable; git add .; git commit -qm start",
    ),
];

fn projects() -> impl Iterator<Item = (&'static str, TestProject)> {
    KINDS.iter().map(|(kind, script)| {
        let project = TestProject::without_git();
        project.bash(&format!("{FILES}{script}"));
        let project = project
            .tool(
                "append",
                "mutates_state: true",
                "echo tool >> in/a.txt; echo new > in/tool.txt",
            )
            .tool(
                "fail",
                "mutates_state: true",
                "echo broken > in/a.txt; exit 1",
            )
            .directive("work", ["append"]);
        // Outside of a sparse checkout git adds nothing without being told.
        project.bash("git add --sparse .ai; git commit -qm items; git status >/dev/null");
        (*kind, project)
    })
}

/// What git says about a repository, without the outputs of tools, which git ignores.
fn said(project: &TestProject) -> String {
    let said = super::life::said(project);
    said.split_inclusive('\n')
        .filter(|line| !line.starts_with(".ai/outputs/"))
        .collect()
}

fn execute(client: &mut McpClient, arguments: Value) -> Value {
    client.call("execute", arguments)["structuredContent"].clone()
}

#[test]
fn an_agent_works_in_every_kind() {
    for (kind, project) in projects() {
        let start = said(&project);
        let mut client = McpClient::start_in(&project, Era::Sessions);
        client.initialize();
        let checkpoint = json!({
            "item_type": "directive", "item_id": "git_checkpoint", "parameters": {"operation": "edit"}, "dry_run": true,
        });
        assert_eq!(
            execute(&mut client, checkpoint)["status"],
            "no_changes",
            "{kind}"
        );
        // A run of a directive.
        let ran = execute(
            &mut client,
            json!({"item_type": "directive", "action": "run", "item_id": "work", "checkpoint": "auto"}),
        );
        assert_eq!(ran["status"], "success", "{kind}: {ran}");
        assert!(
            project.read("in/a.txt").ends_with("tool\n"),
            "{kind}: {ran}"
        );
        assert_eq!(
            project.git(["show", "--format=", "--name-only", "HEAD"]),
            "in/a.txt\nin/tool.txt\n",
            "{kind}"
        );
        let worked = said(&project);
        // A tool that fails.
        let failed = execute(
            &mut client,
            json!({"item_type": "tool", "action": "run", "item_id": "fail", "checkpoint": "auto"}),
        );
        assert_ne!(failed["status"], "success", "{kind}: {failed}");
        assert_eq!(said(&project), worked, "{kind}: {failed}");
        // Edits of the agent itself.
        project.bash("echo agent >> in/a.txt");
        let kept = execute(
            &mut client,
            json!({"item_type": "directive", "item_id": "git_checkpoint", "parameters": {"operation": "edit"}}),
        );
        assert_eq!(kept["status"], "success", "{kind}: {kept}");
        project.assert_clean();
        // The undo of a checkpoint leaves the edits on disk, where they were before it.
        let undone = execute(
            &mut client,
            json!({"item_type": "directive", "action": "undo"}),
        );
        assert!(undone["error"].is_null(), "{kind}: {undone}");
        assert_eq!(
            project.git(["status", "--porcelain"]),
            " M in/a.txt\n",
            "{kind}: {undone}"
        );
        project.git(["checkout", "--quiet", "in/a.txt"]);
        assert_eq!(said(&project), worked, "{kind}: {undone}");
        let undone = execute(
            &mut client,
            json!({"item_type": "directive", "action": "undo"}),
        );
        assert!(undone["error"].is_null(), "{kind}: {undone}");
        assert_eq!(said(&project), start, "{kind}: {undone}");
        piton(&project, &["verify"]);
        project.git(["fsck", "--strict"]);
    }
}

#[test]
fn hooks_do_their_work_in_every_kind() {
    for (kind, project) in projects() {
        let remote = project.root().with_file_name("remote.git");
        project.bash("git init -q --bare -b main ../remote.git; git remote add there ../remote.git; git push -q --no-verify there main");
        project.hook("../remote.git", "pre-receive");
        let installed = project.piton(["hooks", "install"]);
        assert_eq!(installed.code(), Some(0), "{kind}: {installed}");
        // A commit by hand, a checkpoint, and one that a step makes itself.
        project.bash("echo hand >> in/a.txt; git commit -qam 'by hand'");
        piton(
            &project,
            &["exec", "--", "sh", "-c", "echo step >> in/a.txt"],
        );
        // Rewritten by the user.
        project.bash("git commit -q --amend --no-edit --date=2001-01-01T00:00:00");
        piton(&project, &["verify"]);
        piton(
            &project,
            &[
                "exec",
                "--",
                "sh",
                "-ec",
                "echo own >> in/a.txt; git commit -qam own",
            ],
        );
        project.assert_clean();
        let runs = project.git(["log", "-3", "--format=%(trailers:key=Piton-Run,valueonly)"]);
        assert_eq!(
            runs.lines().filter(|line| !line.is_empty()).count(),
            2,
            "{kind}: {runs}"
        );
        // A forged one is refused, and changes nothing.
        let forged = project.try_git([
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x\n\nPiton-Run: 01k9x2bf000000000000000000\n",
        ]);
        assert_ne!(forged.code(), Some(0), "{kind}: {forged}");
        // Pushed with its logs.
        piton(&project, &["verify"]);
        piton(&project, &["push", "there"]);
        let pushed = project.try_git(["push", "-q", "there", "main"]);
        assert_eq!(pushed.code(), Some(0), "{kind}: {pushed}");
        assert_eq!(
            project.git(["rev-parse", "main"]),
            project.bash(&format!("git -C {} rev-parse main", remote.display())),
            "{kind}"
        );
        let removed = project.piton(["hooks", "uninstall"]);
        assert_eq!(removed.code(), Some(0), "{kind}: {removed}");
    }
}
