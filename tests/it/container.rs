//! Docker tools without an engine: previews, refusals and a missing engine.

use std::os::unix::net::UnixListener;

use serde_json::json;

use crate::harness::{TestProject, cmd_snapshot};

const GREET: &str = "tool_id: hail\ntool_type: docker\nversion: \"1.0.0\"\ndescription: Hails\nexecutor: docker_runtime\n\
                     config:\n  image: alpine:3\n  command: [echo, \"{who}\"]\n  volumes: [\"docs:/docs:ro\"]\n\
                     parameters:\n  - {name: who, type: string, default: world}\n";

fn project() -> TestProject {
    TestProject::new()
        .file(".ai/tools/hail.yaml", GREET)
        .file("docs/a.txt", "a\n")
        .committed()
}

#[test]
fn a_dry_run_shows_everything_and_asks_no_engine() {
    let project = project().variable("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    cmd_snapshot!(project.piton(["tool", "run", "hail", "--dry-run"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    chain: hail@1.0.0 → docker_runtime@1.0.0 → http_client@1.0.0
    chain.hail: project, .ai/tools/hail.yaml, unsigned
    chain.docker_runtime: built in
    chain.http_client: built in
    parameters.who: "world"  # default
    action.engines[0]: unix:///nonexistent/docker.sock  # environment variable DOCKER_HOST
    action.image: alpine:3  # hail, .ai/tools/hail.yaml:7
    action.command[0]: echo  # hail, .ai/tools/hail.yaml:8
    action.command[1]: world  # parameter who
    action.volumes[0]: [PROJECT]/docs at /docs (read only)  # hail, .ai/tools/hail.yaml:9
    action.network: none  # default
    action.user: the caller  # default
    action.environment.PITON_PARAM_WHO: world  # parameter who
    action.input: 15 bytes
    timeout: [TIME]  # default
    isolation: restricted  # default
    allowed: <execute resource="tool" id="hail"/>  # the person at the terminal, enforced: broker
    ----- stderr -----
    "#);
}

#[test]
fn without_an_engine_nothing_is_tried_and_every_place_is_named() {
    let project = project().variable("XDG_RUNTIME_DIR", "/nonexistent");
    let gone = project.root().join("gone.sock");
    drop(UnixListener::bind(&gone).expect("a socket"));
    let project = project.variable("DOCKER_HOST", &format!("unix://{}", gone.display()));
    cmd_snapshot!(project.piton(["tool", "run", "hail", "--checkpoint", "auto"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    ----- stderr -----
    warning: not signed: hail (`piton sign hail`)
    error: no container engine responds (`unix://[PROJECT]/gone.sock`: connection refused) [CONTAINER_ENGINE]
    hint: start Docker, or Podman with `systemctl --user start podman.socket`; set `DOCKER_HOST` to use another socket
    ");
    let ran = project.piton(["tool", "run", "hail", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["code"]),
        (Some(5), &json!("CONTAINER_ENGINE")),
        "{ran}"
    );
    // In a directive, a missing engine is a failed step.
    let project = project.directive("go", ["hail"]);
    let ran = project.piton(["run", "go", "--format", "json"]);
    let finished = ran.last_json();
    assert_eq!(
        (&finished["status"], &finished["error"]["code"]),
        (&json!("failed"), &json!("CONTAINER_ENGINE")),
        "{ran}"
    );
}

#[test]
fn a_listener_that_is_not_an_engine_is_refused() {
    let project = project();
    let path = project.root().join("s");
    let listener = UnixListener::bind(&path).expect("a socket");
    let answering = std::thread::spawn(move || {
        // The first connection checks that something listens, the second one sends a request.
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("a caller");
            let _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.6\r\n");
        }
    });
    let project = project.variable("DOCKER_HOST", &format!("unix://{}", path.display()));
    let ran = project.piton(["tool", "run", "hail", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["code"]),
        (Some(5), &json!("CONTAINER_ENGINE")),
        "{ran}"
    );
    answering.join().expect("it answered");
}

#[test]
fn engines_of_other_machines_are_refused_by_name() {
    for host in [
        "tcp://localhost:2375",
        "ssh://me@there",
        "npipe:////./pipe/docker",
        "unix://relative",
    ] {
        let project = project().variable("DOCKER_HOST", host);
        let ran = project.piton(["tool", "run", "hail", "--format", "json"]);
        let result = ran.last_json();
        assert_eq!(
            (ran.code(), &result["code"]),
            (Some(2), &json!("INVALID_CONFIG")),
            "{ran}"
        );
        let message = format!(
            "`DOCKER_HOST` is `{host}`; only engines of this machine are used, by their socket"
        );
        assert_eq!(result["message"], message, "{ran}");
    }
}

#[test]
fn a_project_cannot_choose_the_engine() {
    let url = "tool_id: hail\ntool_type: docker\nversion: \"1.0.0\"\ndescription: Hails\nexecutor: docker_runtime\n\
               config: {image: alpine:3, url: \"unix:///tmp/other.sock\"}\n";
    let project = TestProject::new().file(".ai/tools/hail.yaml", url);
    cmd_snapshot!(project.piton(["tool", "run", "hail"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `config.url` is `unix:///tmp/other.sock`; which engine is used is not for a project to say
     --> .ai/tools/hail.yaml:6:32

    hint: remove it; set `DOCKER_HOST` to use another engine
    ");
}
