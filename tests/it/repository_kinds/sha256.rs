//! Repositories whose objects have SHA-256 names (`extensions.objectFormat`), alone and with other kinds of storage.

use serde_json::{Value, json};

use super::exec;
use super::life::{Twins, exec_in, live, piton, said};
use crate::harness::{Ran, TestProject};
use crate::linked_worktree::linked;
use crate::mcp_client::{Era, McpClient};

/// Makes a repository with the given flags of `git init`.
fn made(flags: &str) -> String {
    format!(
        "git init -q -b main --object-format=sha256 {flags}; mkdir in; echo a > in/a.txt; git add .; git commit -qm start; "
    )
}

fn project() -> TestProject {
    TestProject::sha256()
        .file("in/a.txt", "one\ntwo\nthree\n")
        .committed()
}

#[track_caller]
fn assert_sound(project: &TestProject) {
    project.git(["fsck", "--full", "--strict"]);
    piton(project, &["verify", "--all"]);
    assert_eq!(
        project.git(["rev-parse", "--show-object-format"]),
        "sha256\n"
    );
}

/// The newest step, as `RUN/STEP`.
fn newest_step(project: &TestProject) -> String {
    let log = piton(project, &["log", "--format", "json"]).stdout();
    let newest: Value = serde_json::from_str(log.lines().next().expect("a run")).expect("JSON");
    let run = newest["id"]
        .as_str()
        .unwrap_or_else(|| panic!("no run: {log}"));
    format!("{run}/1")
}

#[test]
fn sha256_is_supported() {
    live(&made(""));
}

#[test]
fn sha256_in_a_reftable_is_supported() {
    live(&made("--ref-format=reftable"));
}

#[test]
fn sha256_in_an_index_of_version_4_is_supported() {
    live(&format!(
        "{} git config index.version 4; git update-index --index-version 4",
        made("")
    ));
}

#[test]
fn sha256_in_a_split_index_is_supported() {
    let split =
        "git config core.splitIndex true; git update-index --split-index; ls .git/sharedindex.*";
    live(&format!("{} {split}", made("")));
}

#[test]
fn sha256_in_a_sparse_index_is_supported() {
    let more = "mkdir -p out/deep; echo b > out/deep/b.txt; git add .; git commit -qm more; \
                git sparse-checkout set --cone --sparse-index in; test ! -e out";
    live(&format!("{} {more}", made("")));
}

#[test]
fn sha256_in_shallow_and_partial_clones_is_supported() {
    let origin = "rm -rf ../origin; git init -q -b main --object-format=sha256 ../origin; cd ../origin; \
                  git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true; mkdir in; \
                  for n in 1 2 3; do echo $n >> in/a.txt; git add .; git commit -qm $n; done; cd ../project; ";
    for flags in ["--depth 1", "--filter=blob:none", "--filter=tree:0"] {
        live(&format!(
            "{origin} git clone -q {flags} file://$PWD/../origin .; mv ../origin ../away"
        ));
    }
}

#[test]
fn the_first_commit_and_no_change_are_as_in_git() {
    let twins = Twins::of("git init -q -b main --object-format=sha256");
    twins.step("mkdir in; echo a > in/a.txt; : > in/empty");
    let head = twins.piton.git(["rev-parse", "HEAD"]);
    assert_eq!(head.trim().len(), 64);
    exec(&twins.piton, "true");
    assert_eq!(twins.piton.git(["rev-parse", "HEAD"]), head);
    piton(&twins.piton, &["undo"]);
    assert_eq!(twins.piton.files(), Vec::<String>::new());
    assert_sound(&twins.piton);
}

#[test]
fn the_three_forms_of_checkpoint_commit() {
    let project = project();
    piton(
        &project,
        &[
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "sh",
            "-c",
            "echo step > in/step.txt",
        ],
    );
    project.bash("echo mine > mine.txt; echo other > other.txt");
    for (arguments, committed) in [
        (&["checkpoint", "-m", "steps"][..], "in/step.txt\n"),
        (&["checkpoint", "mine.txt", "-m", "one path"], "mine.txt\n"),
        (&["checkpoint", "--all", "-m", "all"], "other.txt\n"),
    ] {
        piton(&project, arguments);
        assert_eq!(
            project.git(["show", "--format=", "--name-only", "HEAD"]),
            committed
        );
    }
    project.assert_clean();
    assert_sound(&project);
}

#[test]
fn contents_of_steps_are_shown_and_restored() {
    let project = project();
    exec(&project, "sed -i s/two/TWO/ in/a.txt");
    let step = newest_step(&project);
    exec(&project, "sed -i s/three/THREE/ in/a.txt");
    assert_eq!(
        piton(&project, &["show", &format!("in/a.txt@{step}")]).stdout(),
        "one\nTWO\nthree\n"
    );
    assert_eq!(
        piton(&project, &["show", &format!("in/a.txt@{step}:before")]).stdout(),
        "one\ntwo\nthree\n"
    );
    let blame = piton(&project, &["blame", "in/a.txt", "--format", "json"]).stdout();
    assert!(
        blame.contains(project.git(["rev-parse", "HEAD~1"]).trim()),
        "{blame}"
    );
    let shown = piton(&project, &["show", "HEAD"]).stdout();
    assert!(
        shown.contains("-three\n") && shown.contains("+THREE\n"),
        "{shown}"
    );
    piton(&project, &["restore", &step]);
    assert_eq!(project.read("in/a.txt"), "one\nTWO\nthree\n");
    let head = project.git(["rev-parse", "HEAD"]);
    assert!(
        piton(&project, &["show", head.trim(), "--no-diff"])
            .stdout()
            .contains(head.trim())
    );
    assert_sound(&project);
}

#[test]
fn many_objects_go_into_packs_that_git_reads() {
    let project = project();
    let pack_count =
        |folder: &str| project.bash(&format!("ls {folder}/pack/*.pack 2> /dev/null | wc -l"));
    exec(&project, "for n in $(seq 150); do echo $n > in/f$n; done");
    assert_eq!(pack_count(".git/objects"), "1\n");
    assert_eq!(pack_count(".git/piton/store/objects"), "1\n");
    let start = said(&project);
    let failed = project.exec("for n in $(seq 150); do echo x$n > in/f$n; done; exit 1");
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert_eq!(said(&project), start);
    // Nothing that undo needs is taken from git.
    piton(&project, &["undo"]);
    project.bash(
        "git reflog expire --expire=now --all; git gc -q --prune=now; git commit-graph write --reachable; \
                  git multi-pack-index write; git repack -q -a -d --write-midx",
    );
    piton(&project, &["redo"]);
    assert_eq!(said(&project), start);
    project.bash("find .git/piton/store -type f -exec touch -d '3 hours ago' {} +");
    piton(&project, &["gc"]);
    piton(&project, &["undo"]);
    assert!(!project.root().join("in/f1").exists());
    assert_sound(&project);
}

#[test]
fn what_a_scan_hashed_is_remembered() {
    let project = project().file("untracked.txt", "untracked\n");
    project.bash("touch -d '5 minutes ago' untracked.txt");
    exec(&project, "echo b > b.txt");
    let cache = std::fs::read(project.root().join(".git/piton/index")).expect("a cache");
    assert!(cache.starts_with(b"PITONSC2"));
    let name = project.git(["hash-object", "untracked.txt"]);
    let digits: Vec<String> = cache.iter().map(|byte| format!("{byte:02x}")).collect();
    let hexadecimal = digits.concat();
    assert!(
        hexadecimal.contains(name.trim()),
        "the name that git computes"
    );
    exec(&project, "echo c > c.txt");
    assert_eq!(project.git(["status", "--porcelain"]), "?? untracked.txt\n");
}

#[test]
fn filters_and_line_ends_convert_as_in_git() {
    let twins = Twins::of(&format!(
        "{} git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'; \
         printf '*.up filter=up\\n*.crlf text eol=crlf\\n*.id ident\\n' > .gitattributes; git add .; git commit -qm filter",
        made("")
    ));
    twins.step("echo loud > in/x.up; printf 'a\\r\\nb\\r\\n' > in/y.crlf; echo '$Id$' > in/z.id");
    assert_eq!(twins.piton.git(["show", "HEAD:in/x.up"]), "LOUD\n");
    let start = said(&twins.piton);
    let failed = twins
        .piton
        .exec("echo q > in/x.up; rm in/y.crlf in/z.id; exit 1");
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert_eq!(said(&twins.piton), start);
    exec(&twins.piton, "rm in/x.up in/y.crlf in/z.id");
    piton(&twins.piton, &["undo"]);
    assert_eq!(twins.piton.read("in/x.up"), "loud\n");
    assert_eq!(twins.piton.read("in/y.crlf"), "a\r\nb\r\n");
    twins.piton.assert_clean();
    assert_sound(&twins.piton);
}

#[test]
fn a_submodule_is_kept_as_a_link() {
    let twins = Twins::of(&format!(
        "rm -rf ../sub; git init -q -b main --object-format=sha256 ../sub; \
         (cd ../sub; echo s > s.txt; git add .; git commit -qm sub; echo t > s.txt; git commit -qam more); \
         {} git -c protocol.file.allow=always submodule --quiet add ../sub in/sub; git commit -qm submodule",
        made("")
    ));
    twins.step("git -C in/sub checkout -q HEAD~1; echo b >> in/a.txt");
    assert_sound(&twins.piton);
}

#[test]
fn a_directive_runs_in_a_worktree_and_is_merged_as_one_commit() {
    let project = TestProject::sha256()
        .file("a.txt", "a\n")
        .tool("grow", "mutates_state: true", "echo grown >> a.txt")
        .tool("add", "mutates_state: true", "echo new > b.txt")
        .directive("both", ["grow", "add"])
        .committed();
    let ran = project.piton(["run", "both", "--worktree", "--checkpoint", "auto"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let run = project.git([
        "branch",
        "--list",
        "piton/*",
        "--format=%(refname:lstrip=3)",
    ]);
    piton(&project, &["finish", run.trim(), "--squash"]);
    assert_eq!(
        (project.read("a.txt"), project.read("b.txt")),
        ("a\ngrown\n".to_owned(), "new\n".to_owned())
    );
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "2\n");
    project.assert_clean();
    piton(&project, &["run", "both", "--checkpoint", "auto"]);
    project.assert_clean();
    // Both sides of a merge.
    let folder = linked(&project, 1);
    let run = exec_in(&project, &folder, "echo side > side.txt");
    project.bash("echo here > here.txt; git add .; git commit -qm here");
    piton(&project, &["finish", &run, "--keep"]);
    assert_eq!(project.read("side.txt"), "side\n");
    project.assert_clean();
    assert_sound(&project);
}

fn fates(ran: &Ran) -> Vec<Value> {
    let json = ran.json();
    json["fates"]
        .as_array()
        .map(|fates| {
            fates
                .iter()
                .map(|fate| fate["fate"]["type"].clone())
                .collect()
        })
        .unwrap_or_default()
}

#[test]
fn checkpoints_are_followed_through_amend_and_rebase() {
    for hooks in [
        &[][..],
        &["commit-msg", "pre-commit", "post-commit", "post-rewrite"],
    ] {
        let project = project().hooked(hooks.iter().copied());
        project.git(["switch", "-q", "-c", "work"]);
        exec(&project, "sed -i s/two/TWO/ in/a.txt");
        exec(&project, "echo new > new.txt");
        project.bash("git switch -q main; echo b > b.txt; git add .; git commit -qm base; git switch -q work");
        project.bash("GIT_EDITOR='sed -i 1s/.*/words/' git commit -q --amend; git rebase -q main");
        let verified = piton(&project, &["verify", "--all", "--format", "json"]);
        if hooks.is_empty() {
            assert_eq!(fates(&verified), ["moved", "moved"], "{verified}");
        }
        piton(&project, &["undo"]);
        assert!(!project.root().join("new.txt").exists());
        assert_sound(&project);
    }
}

#[test]
fn logs_are_pushed_and_the_server_checks_what_lands() {
    let project = project().hooked(["pre-push"]);
    project.bash("git init -q --bare --initial-branch=main ../remote.git; git remote add origin ../remote.git; git push -q origin main");
    project.hook("../remote.git", "pre-receive");
    exec(&project, "echo more >> in/a.txt");
    let refused = project.bash("git push --no-verify -q origin main 2>&1 || true");
    assert!(refused.contains("LOG_MISSING"), "{refused}");
    piton(&project, &["push", "origin"]);
    project.bash("git push -q origin main; git clone -q ../remote.git ../clone");
    piton(&project, &["-C", "../clone", "fetch", "origin"]);
    let log = piton(&project, &["-C", "../clone", "log"]).stdout();
    assert!(log.contains("elsewhere"), "{log}");
    piton(&project, &["-C", "../clone", "verify", "--all"]);
    project.bash("git -C ../clone fsck --strict; git -C ../remote.git fsck --strict");
    // What was changed after it was recorded does not land.
    exec(&project, "echo last > last.txt");
    piton(&project, &["push", "origin"]);
    project.bash("echo evil >> last.txt; git commit -q -a --amend --no-edit --no-verify");
    let refused = project.bash("git push --no-verify -q origin main 2>&1 || true");
    assert!(refused.contains("REWRITTEN"), "{refused}");
}

#[test]
fn an_agent_calls_tools_and_commits_its_edits() {
    let project = TestProject::sha256()
        .file("a.txt", "a\n")
        .tool("grow", "mutates_state: true", "echo grown >> a.txt")
        .committed();
    let mut client = McpClient::start_in(&project, Era::Sessions);
    client.initialize();
    let call = json!({"item_type": "tool", "item_id": "grow", "checkpoint": "auto"});
    let ran = client.call("execute", call)["structuredContent"].clone();
    assert_eq!(ran["status"], "success", "{ran}");
    assert_eq!(project.read("a.txt"), "a\ngrown\n");
    project.bash("echo agent > agent.txt");
    let checkpoint = json!({
        "item_type": "directive", "item_id": "git_checkpoint",
        "parameters": {"operation": "edit", "caller_directive": "notes"},
    });
    let kept = client.call("execute", checkpoint)["structuredContent"].clone();
    assert_eq!(kept["status"], "success", "{kept}");
    assert_eq!(
        kept["commit_sha"].as_str(),
        Some(project.git(["rev-parse", "HEAD"]).trim()),
        "{kept}"
    );
    drop(client);
    project.assert_clean();
    assert_sound(&project);
}

#[test]
fn what_git_shows_in_the_place_of_a_commit_is_the_parent() {
    let twins = Twins::of(&format!(
        "{} echo b >> in/a.txt; git commit -qam b; \
         git replace HEAD $(git commit-tree -p HEAD~1 -m other HEAD~1^{{tree}}); git reset -q --hard",
        made("")
    ));
    twins.step("echo c > in/c.txt");
}

#[test]
fn doctor_and_selftest_pass() {
    let project = project();
    let report = project.piton(["doctor", "--format", "json"]).json();
    let checks = report["checks"].as_array().expect("checks");
    let repository = checks
        .iter()
        .find(|check| check["name"] == "repository")
        .expect("a check of the repository");
    assert_eq!(repository["status"], "ok", "{report}");
    // `GIT_DEFAULT_HASH` is set here, so the repository that it makes has SHA-256 names too.
    let ran = project.piton(["selftest", "--torture", "2", "--seed", "7"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
}
