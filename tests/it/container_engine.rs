//! Docker tools, run by a real Podman. Each test has its own engine with a `BusyBox` image.
//!
//! `scripts/lib/container-engine` prepares what they need; without it these tests fail.

mod attacks;
mod building;
mod ending;
mod volumes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::guide::{commands, examples, pages};
use crate::harness::{Ran, TestProject, cmd_snapshot};
use crate::tool_run::until;

/// A Podman service with its own storage.
struct Engine {
    folder: TempDir,
    peer: PathBuf,
    service: Child,
}

impl Engine {
    fn start() -> Self {
        let target = Path::new(env!("CARGO_BIN_EXE_piton"))
            .ancestors()
            .nth(2)
            .expect("a target folder");
        let peer = target.join("peers/container-engine");
        assert!(
            peer.join("complete").is_file(),
            "the container engine is not ready: run scripts/lib/container-engine, as ./scripts/test does"
        );
        // The path of a socket must be short.
        let folder = tempfile::Builder::new()
            .prefix("piton-engine-")
            .tempdir()
            .expect("a temporary folder");
        let image = peer.join("image.tar");
        let said = podman(&folder, &peer)
            .args([
                "import",
                "--quiet",
                image.to_str().expect("text"),
                "docker.io/library/alpine:3",
            ])
            .output()
            .expect("podman starts");
        assert!(
            said.status.success(),
            "podman import: {}",
            String::from_utf8_lossy(&said.stderr)
        );
        let log = fs::File::create(folder.path().join("log")).expect("a file");
        let service = podman(&folder, &peer)
            .args(["system", "service", "--time", "0"])
            .arg(format!("unix://{}/s", folder.path().display()))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("podman starts");
        let engine = Self {
            folder,
            peer,
            service,
        };
        until("podman listens", || {
            std::os::unix::net::UnixStream::connect(engine.folder.path().join("s")).is_ok()
        });
        engine
    }

    fn url(&self) -> String {
        format!("unix://{}/s", self.folder.path().display())
    }

    fn podman(&self, words: &[&str]) -> String {
        let said = podman(&self.folder, &self.peer)
            .args(words)
            .output()
            .expect("podman starts");
        assert!(
            said.status.success(),
            "podman {words:?}: {}",
            String::from_utf8_lossy(&said.stderr)
        );
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    /// All containers, running or not.
    fn containers(&self) -> Vec<String> {
        self.podman(&["ps", "--all", "--format", "{{.Names}}"])
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// A project whose tools use this engine.
    fn project(&self) -> TestProject {
        TestProject::new().variable("DOCKER_HOST", &self.url())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = podman(&self.folder, &self.peer)
            .args(["rm", "--all", "--force", "--time", "0"])
            .output();
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "tests start the real Podman")]
fn podman(folder: &TempDir, peer: &Path) -> Command {
    let mut command = Command::new("podman");
    let at = |name: &str| folder.path().join(name);
    command
        // An engine leaves a file `oom` in its working folder when a container runs out of memory.
        .current_dir(folder.path())
        .env("CONTAINERS_CONF", peer.join("containers.conf"))
        .env("HOME", folder.path())
        .env("TMPDIR", folder.path());
    command
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("DOCKER_HOST")
        .stdin(Stdio::null());
    command
        .arg("--root")
        .arg(at("root"))
        .arg("--runroot")
        .arg(at("run"))
        .args(["--storage-driver", "vfs"]);
    command
}

/// A docker tool with these config lines and further lines.
fn container(project: TestProject, id: &str, config: &str, more: &str) -> TestProject {
    let config = config.trim().replace('\n', "\n  ");
    let manifest = format!(
        "tool_id: {id}\ntool_type: docker\nversion: \"1.0.0\"\ndescription: The tool {id}\nexecutor: docker_runtime\n\
         config:\n  {config}\n{}\n",
        more.trim_end()
    );
    project.file(&format!(".ai/tools/{id}/tool.yaml"), manifest)
}

fn run(project: &TestProject, words: &[&str]) -> (Ran, Value) {
    let ran = project.piton([&["tool", "run"][..], words, &["--format", "json"]].concat());
    let result = ran.last_json();
    (ran, result)
}

/// Checks that no container and no record of one is left.
fn assert_nothing_left(engine: &Engine, project: &TestProject) {
    assert_eq!(engine.containers(), Vec::<String>::new());
    let notes = project.home().join(".cache/piton/containers");
    let left = fs::read_dir(&notes)
        .map(|entries| entries.flatten().count())
        .unwrap_or_default();
    assert_eq!(left, 0, "{}", notes.display());
}

#[test]
fn a_tool_that_is_new_runs_as_it_was_made() {
    let engine = Engine::start();
    let project = engine.project().file("README.md", "read me\n").committed();
    cmd_snapshot!(project.piton(["new", "tool", "hail", "--type", "docker"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    created .ai/tools/hail.yaml
    ----- stderr -----
    hint: edit `.ai/tools/hail.yaml`, then `piton validate` and `piton tool run hail --param who=Ada`; once it is right, `piton sign hail`
    ");
    let project = project.committed();
    for (words, greeting) in [
        (&["hail"][..], "Hello, world!\n"),
        (&["hail", "--param", "who=$(id) 'q'"], "Hello, $(id) 'q'!\n"),
    ] {
        let (ran, result) = run(&project, words);
        assert_eq!(
            (ran.code(), &result["status"]),
            (Some(0), &json!("success")),
            "{ran}"
        );
        assert_eq!(result["result"], json!({"stdout": greeting}), "{ran}");
    }
    assert_nothing_left(&engine, &project);
    project.assert_clean();
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn parameters_come_as_variables_and_on_stdin_and_json_is_the_result() {
    let engine = Engine::start();
    let config = r#"
image: alpine:3
command: [sh, -c, 'printf "{\"stdin\": %s, \"env\": \"%s\", \"run\": \"%s\", \"word\": \"%s\"}" "$(cat)" "$PITON_PARAM_THE_NAME" "$PITON_RUN_ID" "$1"; echo talk >&2; env >&2', sh, "{the-name}"]
env: {PLAIN: text, SECRET: "${TOKEN}"}
"#;
    let more = "requires: {environment: [TOKEN]}\nparameters:\n  - {name: the-name, type: string}\n  - {name: count, type: integer, default: 3}\n";
    let project = container(engine.project(), "show", config, more)
        .variable("TOKEN", "t0ken-value")
        .committed();
    let (ran, result) = run(&project, &["show", "--param", "the-name=a b"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let said = &result["result"];
    assert_eq!(
        said["stdin"],
        json!({"the-name": "a b", "count": 3}),
        "{ran}"
    );
    assert_eq!(
        (&said["env"], &said["word"]),
        (&json!("a b"), &json!("a b")),
        "{ran}"
    );
    assert_eq!(said["run"], result["run_id"], "{ran}");
    let stderr = result["stderr"].as_str().expect("text");
    assert!(stderr.starts_with("talk\n"), "{ran}");
    for line in [
        "PLAIN=text",
        "PITON_PARAM_COUNT=3",
        "TOKEN=***",
        "SECRET=***",
    ] {
        assert!(stderr.lines().any(|it| it == line), "{line}: {ran}");
    }
    // The machine's own environment is not passed on.
    let home = project.home();
    for text in [
        home.to_str().expect("text"),
        "GIT_AUTHOR",
        "t0ken-value",
        "DOCKER_HOST",
    ] {
        assert!(!stderr.contains(text), "{text}: {ran}");
    }
    assert_eq!(
        result["isolation"].as_str().unwrap_or("restricted"),
        "restricted"
    );
    assert_nothing_left(&engine, &project);
}

#[test]
fn much_output_and_much_input_get_through() {
    let engine = Engine::start();
    let config = "image: alpine:3\ncommand: [sh, -c, 'cat >/dev/null; yes 0123456789 | head -c 3000000 | tee /dev/stderr; echo end']\n";
    let project = container(
        engine.project(),
        "flood",
        config,
        "parameters:\n  - {name: text, type: string}\n",
    );
    let text = "x".repeat(100_000);
    let (ran, result) = run(&project, &["flood", "--param", &format!("text={text}")]);
    assert_eq!(ran.code(), Some(0), "{:?}", result["error"]);
    let stdout = result["result"]["stdout"].as_str().expect("text");
    assert!(stdout.starts_with("0123456789\n") && stdout.ends_with("end\n"));
    // A container that does not read its input must not block.
    let project = container(
        project,
        "deaf",
        "image: alpine:3\ncommand: [echo, done]",
        "parameters:\n  - {name: text, type: string}\n",
    );
    for _ in 0..8 {
        let (ran, result) = run(&project, &["deaf", "--param", &format!("text={text}")]);
        assert_eq!(
            (&result["result"]["stdout"], &result["stderr"]),
            (&json!("done\n"), &json!(null)),
            "{}",
            ran.stderr()
        );
    }
}

#[test]
fn a_failing_container_reports_its_exit_status() {
    let engine = Engine::start();
    let project = container(
        engine.project(),
        "fails",
        "image: alpine:3\ncommand: [sh, -c, 'echo why >&2; exit 3']",
        "",
    );
    let project = container(
        project,
        "missing",
        "image: alpine:3\ncommand: [no-such-program, x]",
        "",
    );
    let project = container(
        project,
        "nowhere",
        "image: localhost/no-such-image:1\ncommand: [sh]",
        "",
    )
    .committed();
    let (ran, result) = run(&project, &["fails"]);
    assert_eq!(
        (ran.code(), &result["code"], &result["exit_code"]),
        (Some(1), &json!("TOOL_FAILED"), &json!(3)),
        "{ran}"
    );
    assert_eq!(result["stderr"], "why\n");
    let (ran, result) = run(&project, &["missing"]);
    assert_eq!(
        (ran.code(), &result["code"]),
        (Some(1), &json!("CONTAINER_FAILED")),
        "{ran}"
    );
    let message = result["message"].as_str().expect("text");
    assert!(
        message.starts_with("the container cannot be started: Podman says: ")
            && message.contains("no-such-program"),
        "{ran}"
    );
    assert_eq!(
        result["suggestion"], "check that the image has that program, and that `command` is right",
        "{ran}"
    );
    let (ran, result) = run(&project, &["nowhere"]);
    assert_eq!(
        (ran.code(), &result["code"]),
        (Some(1), &json!("IMAGE_UNAVAILABLE")),
        "{ran}"
    );
    let message = result["message"].as_str().expect("text");
    assert!(
        message.starts_with(
            "the image `localhost/no-such-image:1` does not exist here, and Podman cannot pull it: "
        ),
        "{ran}"
    );
    assert_nothing_left(&engine, &project);
    project.assert_clean();
}

#[test]
fn a_container_has_no_network_unless_the_tool_says_so() {
    let engine = Engine::start();
    let list = "command: [sh, -c, \"ls /sys/class/net | tr '\\n' ' '\"]";
    let project = container(
        engine.project(),
        "alone",
        &format!("image: alpine:3\n{list}"),
        "",
    );
    let project = container(
        project,
        "within",
        &format!("image: alpine:3\nnetwork: host\n{list}"),
        "",
    )
    .committed();
    let (ran, result) = run(&project, &["alone"]);
    assert_eq!(result["result"]["stdout"], "lo ", "{ran}");
    // A person may use the network; a directive needs a grant.
    let (ran, result) = run(&project, &["within"]);
    assert_eq!(result["status"], "success", "{ran}");
    let machine: Vec<String> = fs::read_dir("/sys/class/net")
        .expect("devices")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let seen = result["result"]["stdout"].as_str().expect("text");
    assert!(
        machine.iter().all(|name| seen.contains(name.as_str())),
        "{seen}: {machine:?}"
    );

    let project = project.directive("go", ["within"]);
    let ran = project.piton(["run", "go", "--format", "json"]);
    let denied = ran.last_json();
    assert_eq!(
        (ran.code(), &denied["status"]),
        (Some(3), &json!("denied")),
        "{ran}"
    );
    assert_eq!(
        denied["error"]["message"],
        "directive `go` does not allow: run a container on the network of this machine",
        "{ran}"
    );
    assert_eq!(
        denied["error"]["suggestion"],
        "add <execute resource=\"docker\" network=\"host\"/> to the <permissions> of `go`",
        "{ran}"
    );
    let text = project.read(".ai/directives/go.md").replace(
        "    </permissions>",
        "      <execute resource=\"docker\" network=\"host\"/>\n    </permissions>",
    );
    let project = project.file(".ai/directives/go.md", text);
    let ran = project.piton(["run", "go", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["status"]),
        (Some(0), &json!("succeeded")),
        "{ran}"
    );
}

#[test]
fn a_directive_needs_no_more_than_the_tool_and_its_deny_wins() {
    let engine = Engine::start();
    let project = container(
        engine.project(),
        "hi",
        "image: alpine:3\ncommand: [echo, hi]",
        "",
    );
    let project = project
        .directive("go", ["hi"])
        .directive("never", ["hi"])
        .committed();
    let ran = project.piton(["run", "go", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["status"]),
        (Some(0), &json!("succeeded")),
        "{ran}"
    );
    let text = project.read(".ai/directives/never.md");
    let text = text.replace(
        "    </permissions>",
        "      <deny><docker/></deny>\n    </permissions>",
    );
    let project = project.file(".ai/directives/never.md", text);
    let ran = project.piton(["run", "never", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.last_json()["status"]),
        (Some(3), &json!("denied")),
        "{ran}"
    );
    assert_eq!(
        ran.last_json()["error"]["suggestion"],
        "<deny><docker/></deny> in `never` forbids it",
        "{ran}"
    );
}

#[test]
fn isolation_that_is_asked_for_is_what_a_container_gives_or_it_does_not_run() {
    let engine = Engine::start();
    let alone = "image: alpine:3\ncommand: [echo, hi]";
    let shared = "image: alpine:3\nnetwork: host\ncommand: [echo, hi]";
    let mut project = engine.project();
    for (id, config, level) in [
        ("a", alone, "restricted"),
        ("b", alone, "sandboxed"),
        ("c", shared, "restricted"),
        ("d", shared, "sandboxed"),
    ] {
        project = container(project, id, config, &format!("isolation: {level}\n"));
    }
    for (id, code) in [("a", 0), ("b", 0), ("c", 5), ("d", 5)] {
        assert_eq!(run(&project, &[id]).0.code(), Some(code), "{id}");
    }
    cmd_snapshot!(project.piton(["tool", "run", "c"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    ----- stderr -----
    error: tool `c` asks for isolation `restricted`, which a container with the network `host` does not have

    hint: set `network: none`, or a lower level
    ");
    assert_eq!(run(&project, &["c", "--allow-degraded"]).0.code(), Some(0));
}

#[test]
fn limits_hold_and_privileges_are_gone() {
    let engine = Engine::start();
    let config = "image: alpine:3\nmemory: 64m\nlimits: {processes: 50}\ncommand: [sh, -c, \
                  'grep -E \"CapEff|CapBnd|NoNewPrivs\" /proc/self/status; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; \
                  cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null; true']";
    let project = container(engine.project(), "look", config, "");
    let hungry =
        "image: alpine:3\nmemory: 16m\ncommand: [sh, -c, \"x=a; while true; do x=$x$x; done\"]";
    let project = container(project, "hungry", hungry, "").committed();
    let (ran, result) = run(&project, &["look"]);
    let said = result["result"]["stdout"]
        .as_str()
        .unwrap_or_else(|| panic!("{ran}"));
    for line in [
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "67108864",
        "50",
    ] {
        assert!(said.lines().any(|it| it == line), "{line}: {said}");
    }
    let (ran, result) = run(&project, &["hungry"]);
    assert_eq!(
        (ran.code(), &result["code"]),
        (Some(1), &json!("OUT_OF_MEMORY")),
        "{ran}"
    );
    assert_eq!(
        result["suggestion"], "give it more with `memory:` in the tool",
        "{ran}"
    );
    assert_nothing_left(&engine, &project);
}

#[test]
fn every_command_of_the_guide_to_containers_works() {
    let page = pages()
        .into_iter()
        .find(|page| page.starts_with("# Tools in containers"))
        .expect("the page");
    let engine = Engine::start();
    let project = engine.project().file("README.md", "read me\n");
    let project = examples(&page)
        .iter()
        .fold(project, |project, (path, text)| project.file(path, text))
        .committed();
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let printed: Vec<String> = commands(&page)
        .iter()
        .map(|command| project.bash(&format!("PATH=\"{piton}:$PATH\"; {command}")))
        .collect();
    for expected in ["Hello, Ada!", "add `sum` by `count_lines`", "HELLO!"] {
        assert!(
            printed.iter().any(|it| it.contains(expected)),
            "{expected}: {printed:?}"
        );
    }
    assert_nothing_left(&engine, &project);
}

#[test]
fn doctor_names_the_engine_that_answers() {
    let engine = Engine::start();
    let ran = engine.project().piton(["doctor", "--format", "json"]);
    let checks = ran.json();
    let found = checks["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .find(|check| check["name"] == "containers");
    let found = found.unwrap_or_else(|| panic!("{ran}"));
    assert_eq!(found["status"], "ok", "{found}");
    assert_eq!(
        found["detail"],
        format!("Podman answers at `{}/s`", engine.folder.path().display()),
        "{found}"
    );
}
