//! `status` and `log`: which runs are alive, where they are, and how far.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use super::crash::middle::{paused, pausing};
use super::{call, directive, project, summary};
use crate::harness::TestProject;
use crate::mcp_client::McpClient;

const AUTO: &str = "<git_checkpoint mode=\"auto\"/>";
const PROSE: &str = "<step name=\"write\"><action>Write words.txt.</action></step>\n";

/// The newest run in `log --format json`.
fn logged(project: &TestProject) -> Value {
    let log = project.piton(["log", "--format", "json"]).stdout();
    serde_json::from_str(log.lines().next().expect("a run")).expect("JSON")
}

/// A directive of three steps whose second one hangs.
fn pausing_run() -> TestProject {
    let project = project();
    let script = format!("echo half > half.txt; {}", pausing(&project));
    let all = format!(
        "{}{}{}",
        call("a", "add", "", "a"),
        call("slow", "slow", "", ""),
        call("c", "add", "", "c")
    );
    directive("long", AUTO, &all)(project.tool("slow", "", &script)).committed()
}

#[test]
fn an_active_run_differs_from_one_whose_process_died() {
    let project = pausing_run();
    let mut piton = project
        .command(["run", "long"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton");
    paused(&project);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let live = logged(&project);
    assert_eq!(
        json!([
            live["life"],
            live["branch"],
            live["is_here"],
            live["position"],
            live["process"]["pid"],
            live["process"]["host"]
        ]),
        json!(["running", "main", true, {"step": "slow", "number": 2, "of": 3}, piton.id(), host.trim()]),
    );
    assert!(live["process"]["since"].is_string(), "{live}");
    let status = project.piton(["status", "--format", "json"]).json();
    assert_eq!(
        json!([
            status["run_id"],
            status["life"],
            status["position"]["number"]
        ]),
        json!([live["id"], "running", 2])
    );
    let shown = project.piton(["status"]).stdout();
    for words in [
        "running",
        "step 2 of 3 (`slow`)",
        &format!("process {} on `{}` since ", piton.id(), host.trim()),
        "branch `main`",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let shown = project.piton(["log", "--status", "running"]).stdout();
    assert!(shown.contains("running  step 2 of 3 (`slow`)"), "{shown}");
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    let dead = logged(&project);
    assert_eq!(
        json!([dead["life"], dead["process"], dead["position"]["number"]]),
        json!(["interrupted", null, 2])
    );
    let shown = project.piton(["status"]);
    assert!(shown.stdout().contains("interrupted"), "{shown}");
    assert!(
        shown.stderr().contains(&format!(
            "piton resume {}",
            dead["id"].as_str().expect("a run")
        )),
        "{shown}"
    );
    assert_eq!(project.piton(["log", "--status", "running"]).stdout(), "");
    for status in ["interrupted", "unfinished"] {
        assert_eq!(
            project
                .piton(["log", "--status", status, "--format", "json"])
                .stdout()
                .lines()
                .count(),
            1,
            "{status}"
        );
    }
}

#[test]
fn a_running_command_is_shown_and_nothing_is_left_when_it_has_ended() {
    let project = project().committed();
    let script = format!("{}; sleep 600", "touch ../tmp/ready");
    let mut piton = project
        .command(["exec", "--", "sh", "-c", &script])
        .stderr(Stdio::null())
        .spawn()
        .expect("piton");
    while !project.root().join("../tmp/ready").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let status = project.piton(["status", "--format", "json"]).json();
    assert_eq!(
        json!([
            status["life"],
            status["process"]["pid"],
            status["directive"]
        ]),
        json!(["running", piton.id(), null])
    );
    project.bash(&format!("kill -INT {}", piton.id()));
    assert_eq!(piton.wait().expect("piton ends").code(), Some(130));
    assert_eq!(
        project.piton(["status", "--format", "json"]).stdout(),
        "null\n"
    );
    assert_eq!(logged(&project)["life"], "ended");
}

#[test]
fn runs_of_other_worktrees_are_seen_and_name_their_folder() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    let ran = project.piton(["run", "words", "--worktree", "--format", "json"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let run = summary(&ran)["run_id"].as_str().expect("a run").to_owned();
    let folder = logged(&project)["worktree"]
        .as_str()
        .expect("a folder")
        .to_owned();
    assert_ne!(
        folder,
        fs::canonicalize(project.root())
            .expect("a folder")
            .display()
            .to_string()
    );
    // Nothing waits in this worktree, but another run is open.
    let status = project.piton(["status", "--format", "json"]).json();
    let other = &status["others"][0];
    assert_eq!(
        json!([
            status["run_id"],
            other["run_id"],
            other["life"],
            other["worktree"],
            other["is_here"],
            other["branch"]
        ]),
        json!([null, run, "waiting", folder, false, format!("piton/{run}")]),
    );
    let shown = project.piton(["status"]).stdout();
    assert!(
        shown.starts_with("no run waits here\n") && shown.contains(&format!("in `{folder}`")),
        "{shown}"
    );
    // In its own worktree, the run is reported as `here`.
    let there = project
        .piton(["-C", &folder, "status", "--format", "json"])
        .json();
    assert_eq!(
        json!([there["run_id"], there["is_here"], there["others"]]),
        json!([run, true, []])
    );
    let named = project.piton(["status", &run]);
    assert!(
        named.stderr().contains(&format!("waits in `{folder}`")),
        "{named}"
    );
}

#[test]
fn a_run_in_a_worktree_does_not_take_edits_from_elsewhere() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    let ran = project.piton(["run", "words", "--worktree"]);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let (run, folder) = (
        logged(&project)["id"].as_str().expect("a run").to_owned(),
        logged(&project)["worktree"]
            .as_str()
            .expect("a folder")
            .to_owned(),
    );
    let command = format!("piton -C '{folder}' resume {run}");
    assert!(ran.stderr().contains(&command), "{ran}");
    project.bash("echo mine > words.txt");
    let refused = project.piton(["resume", &run, "--format", "json"]);
    assert_eq!(refused.code(), Some(2), "{refused}");
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "WAITS_ELSEWHERE");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|it| it.contains(&folder)),
        "{error}"
    );
    assert!(
        error["suggestion"]
            .as_str()
            .is_some_and(|it| it.contains(&command)),
        "{error}"
    );
    assert_eq!(logged(&project)["life"], "waiting");
    assert_eq!(project.git(["status", "--porcelain"]), "?? words.txt\n");
    fs::write(format!("{folder}/words.txt"), "theirs\n").expect("a file");
    let ran = project.piton(["-C", &folder, "resume", &run]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["show", &format!("piton/{run}:words.txt")]),
        "theirs\n"
    );
    assert_eq!(project.read("words.txt"), "mine\n");
}

/// The answer to `status` or another action over MCP.
fn asked(client: &mut McpClient, action: &str, run: Option<&str>) -> Value {
    let parameters = run.map_or(json!({}), |run| json!({"run_id": run}));
    let arguments = json!({"item_type": "directive", "action": action, "parameters": parameters});
    client.call("execute", arguments)["structuredContent"].clone()
}

/// The fields about the state and place of a run.
fn situation(told: &Value) -> Value {
    let fields = [
        "life", "worktree", "is_here", "branch", "position", "process",
    ];
    fields
        .iter()
        .map(|field| ((*field).to_owned(), told[field].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Checks that MCP reports the run like the terminal, whether it is named or not.
fn assert_told_as_shown(
    project: &TestProject,
    client: &mut McpClient,
    run: &str,
    life_and_pid: &Value,
) {
    let shown = project.piton(["status", "--format", "json"]).json();
    for named in [None, Some(run)] {
        let told = asked(client, "status", named);
        assert_eq!(told["run_id"], run, "{told}");
        assert_eq!(situation(&told), situation(&shown), "{named:?}: {told}");
        assert_eq!(
            json!([told["branch"], told["is_here"], told["position"]]),
            json!(["main", true, {"step": "slow", "number": 2, "of": 3}]),
        );
        assert_eq!(
            &json!([told["life"], told["process"]["pid"]]),
            life_and_pid,
            "{told}"
        );
    }
}

#[test]
fn over_mcp_the_status_of_a_run_has_what_the_terminal_shows() {
    let project = pausing_run();
    let mut client = McpClient::start(&project);
    client.initialize();
    assert_eq!(asked(&mut client, "status", None)["run_id"], Value::Null);
    let mut piton = project
        .command(["run", "long"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton");
    paused(&project);
    let run = logged(&project)["id"].as_str().expect("a run").to_owned();
    assert_told_as_shown(&project, &mut client, &run, &json!(["running", piton.id()]));
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    assert_told_as_shown(&project, &mut client, &run, &json!(["interrupted", null]));
    // `status` changes nothing: the run is not recovered yet.
    assert_eq!(project.read("half.txt"), "half\n");
    let (status, said) = client.end();
    assert!(status.success(), "{said}");
}

#[test]
fn over_mcp_a_run_that_waits_in_another_worktree_is_shown_and_not_continued() {
    let project = directive("words", AUTO, PROSE)(project()).committed();
    let ran = project.piton(["run", "words", "--worktree", "--format", "json"]);
    let run = summary(&ran)["run_id"].as_str().expect("a run").to_owned();
    let folder = logged(&project)["worktree"]
        .as_str()
        .expect("a folder")
        .to_owned();
    project.bash("echo mine > words.txt");
    let mut client = McpClient::start(&project);
    client.initialize();
    let shown = project.piton(["status", "--format", "json"]).json();
    let told = asked(&mut client, "status", None);
    assert_eq!(
        (&told["run_id"], &told["others"]),
        (&Value::Null, &shown["others"]),
        "{told}"
    );
    let told = asked(&mut client, "status", Some(&run));
    assert_eq!(
        situation(&told),
        json!({"life": "waiting", "worktree": folder, "is_here": false, "branch": format!("piton/{run}"),
            "position": {"step": "write", "number": 1, "of": 1}, "process": null}),
    );
    for _ in 0..2 {
        let refused = asked(&mut client, "continue", Some(&run));
        assert_eq!(refused["code"], "WAITS_ELSEWHERE", "{refused}");
        assert!(
            refused["suggestion"]
                .as_str()
                .is_some_and(|it| it.contains(&folder)),
            "{refused}"
        );
    }
    assert_eq!(
        asked(&mut client, "status", Some(&run))["status"],
        "waiting"
    );
    assert_eq!(project.git(["status", "--porcelain"]), "?? words.txt\n");
    assert_eq!(
        project.git(["log", "--format=%s", &format!("piton/{run}")]),
        "start\n"
    );
    let (status, said) = client.end();
    assert!(status.success(), "{said}");
}
