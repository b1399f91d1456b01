//! Hazards 79 to 86, and the environment of a process: streams, signals, limits.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use super::unprivileged::Unprivileged;
use crate::harness::{Ran, TestProject};
use crate::tool_run::{processes_with, until};

/// A tool that first writes into the project and then runs the script.
fn project(more: &str, script: &str) -> TestProject {
    let script =
        format!("echo two >> notes.txt\nmkdir -p new/folder\ntouch new/folder/junk\n{script}");
    TestProject::new()
        .file("notes.txt", "one\n")
        .tool("t", more, &script)
        .committed()
}

fn call(project: &TestProject) -> Ran {
    project.piton([
        "tool",
        "run",
        "t",
        "--format",
        "json",
        "--checkpoint",
        "auto",
    ])
}

/// Checks that the tool failed with this code and everything is as before.
fn assert_failed(project: &TestProject, ran: &Ran, code: &str) -> Value {
    let result = ran.last_json();
    assert_eq!(
        (ran.code(), &result["code"]),
        (Some(1), &json!(code)),
        "{ran}"
    );
    assert_eq!(
        result["checkpoint"]["status"],
        json!("rolled_back"),
        "{ran}"
    );
    assert_as_before(project);
    result
}

fn assert_as_before(project: &TestProject) {
    assert_eq!(project.read("notes.txt"), "one\n");
    assert!(!project.root().join("new").exists());
    project.assert_clean();
    let verified = project.piton(["verify", "--all"]);
    assert_eq!(verified.code(), Some(0), "{verified}");
}

/// Checks that every printed line is JSON.
fn assert_json_lines(ran: &Ran) {
    for line in ran.stdout().lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|err| panic!("{err}: {line}"));
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid")
}

/// Waits until the tool is running and has written.
fn started(project: &TestProject, child: &mut Child) {
    let mark = project.root().join("new/folder/ready");
    until("the tool runs", || mark.exists());
    assert!(child.try_wait().expect("a status").is_none());
}

#[test]
fn g79_a_tool_that_prints_forever_ends_at_its_timeout() {
    let project = project("timeout: 2", "yes | tr -d '\\n'");
    let ran = project.limited([
        "tool",
        "run",
        "t",
        "--format",
        "json",
        "--checkpoint",
        "auto",
    ]);
    let result = assert_failed(&project, &ran, "TIMED_OUT");
    assert_eq!(result["truncated"], json!(true));
    assert!(ran.stdout().len() < 2_500_000);
    assert_json_lines(&ran);
}

/// Bytes that are not text, colours, and a sequence that writes to the clipboard.
const NOISE: &str =
    "printf '\\377\\376 a\\033]52;c;SGk=\\007 \\033[31mred\\033[0m \\000\\302\\205 \\r z\\n'";
const NOISE_BYTES: &[u8] = b"\xff\xfe a\x1b]52;c;SGk=\x07 \x1b[31mred\x1b[0m \0\xc2\x85 \r z\n";

#[test]
fn g80_binary_output_is_passed_on_to_programs_unchanged() {
    let project = TestProject::new()
        .tool("t", "", &format!("{NOISE}; {NOISE} >&2"))
        .committed();
    let ran = project.piton(["tool", "run", "t"]);
    assert_eq!(ran.code(), Some(0));
    assert_eq!(ran.output.stdout, NOISE_BYTES);
    assert!(
        ran.output
            .stderr
            .windows(NOISE_BYTES.len())
            .any(|part| part == NOISE_BYTES)
    );
}

#[test]
fn g80_binary_output_is_escaped_in_json_and_reported() {
    let project = TestProject::new()
        .tool("t", "", &format!("{NOISE}; {NOISE} >&2"))
        .committed();
    let ran = project.piton(["tool", "run", "t", "--format", "json"]);
    assert_eq!(ran.code(), Some(0), "{:?}", ran.output);
    assert_json_lines(&project.ran(std::process::Output {
        stderr: Vec::new(),
        ..ran.output.clone()
    }));
    let result = project
        .ran(std::process::Output {
            stderr: Vec::new(),
            ..ran.output
        })
        .last_json();
    let text = "\u{fffd}\u{fffd} a\u{1b}]52;c;SGk=\u{7} \u{1b}[31mred\u{1b}[0m \0\u{85} \r z\n";
    assert_eq!(
        (&result["result"], &result["stderr"]),
        (&json!({"stdout": text}), &json!(text))
    );
    assert_eq!(
        result["warnings"],
        json!([
            "stdout is not valid UTF-8: invalid bytes were replaced",
            "stderr is not valid UTF-8: invalid bytes were replaced"
        ])
    );
    let saved: Value =
        serde_json::from_str(&project.read(result["output_path"].as_str().expect("a path")))
            .expect("JSON");
    assert_eq!(
        (&saved["result"], &saved["warnings"]),
        (&result["result"], &result["warnings"])
    );
}

#[test]
fn g80_output_of_a_tool_cannot_control_the_terminal() {
    const TERMINAL: &str = "import os, sys\n\
        pid, fd = os.forkpty()\n\
        if pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
        seen = b''\n\
        while True:\n    try: part = os.read(fd, 65536)\n    except OSError: break\n    \
        if not part: break\n    seen += part\n\
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n\
        sys.stdout.buffer.write(seen)\nsys.exit(status)";
    let python = "import sys\ndef main():\n    sys.stderr.buffer.write(b'\\x1b]52;c;SGk=\\x07')\n    \
                  sys.stdout.buffer.write(b'\\xff\\x1b[2J\\x9b2J')\n    return {'key \\x1b[31m': '\\x1b]0;title\\x07'}\n";
    let raises = "def main():\n    raise ValueError('\\x1b]52;c;SGk=\\x07 \\x1b[31m')\n";
    let project = TestProject::new()
        .tool("bash_noise", "", &format!("{NOISE}; {NOISE} >&2"))
        .tool(
            "failing_noise",
            "",
            &format!("{NOISE}; {NOISE} >&2; exit 1"),
        );
    let project = crate::tool_run::python("python_noise", "", python)(project);
    let project = crate::tool_run::python("raising_noise", "", raises)(project)
        .committed()
        .variable("NO_COLOR", "1");
    for (tool, status) in [
        ("bash_noise", 0),
        ("failing_noise", 1),
        ("python_noise", 0),
        ("raising_noise", 1),
    ] {
        let mut command = project.command_under("python3", ["-I", "-c", TERMINAL]);
        let output = command
            .args(["tool", "run", tool])
            .output()
            .expect("python3 starts");
        assert_eq!(output.status.code(), Some(status), "{tool}: {output:?}");
        let seen = String::from_utf8(output.stdout).unwrap_or_else(|err| panic!("{tool}: {err}"));
        let bad = |c: &char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
        assert_eq!(seen.chars().find(bad), None, "{tool}: {seen:?}");
        // A bare carriage return would let the tool overwrite earlier text.
        assert!(
            !seen.replace("\r\n", "\n").contains('\r'),
            "{tool}: {seen:?}"
        );
        let is_shown =
            seen.contains("red") || seen.contains("title") || seen.contains("ValueError");
        assert!(is_shown, "{tool}: {seen:?}");
    }
}

#[test]
fn g81_a_daemon_is_gone_when_its_tool_has_ended_and_writes_nothing_later() {
    let word = "hazard_daemon_81";
    let daemon = format!(
        "python3 -c '\nimport os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nif os.fork(): os._exit(0)\n\
         os.setsid()\nif os.fork(): os._exit(0)\nopen(\"daemon\", \"w\").write(\"x\")\ntime.sleep(600)\nopen(\"late\", \"w\")' {word} \
         </dev/null >/dev/null 2>&1\nwhile [ ! -s daemon ]; do sleep 0.01; done"
    );
    let project = TestProject::new().tool("t", "", &daemon).committed();
    let ran = call(&project);
    let result = ran.last_json();
    assert_eq!(
        (ran.code(), &result["status"]),
        (Some(0), &json!("success")),
        "{ran}"
    );
    assert_eq!(result["warnings"], json!(["1 leftover process was killed"]));
    assert_eq!(processes_with(word), BTreeSet::new());
    assert_eq!(
        project.git(["show", "--name-only", "--format=", "HEAD"]),
        "daemon\n",
        "what it wrote is the tool's"
    );
}

#[test]
fn g82_a_tool_reads_its_parameters_and_then_the_end() {
    let parameters = "parameters:\n  - {name: text, type: string, required: true}";
    let manifest = "tool_id: c\ntool_type: cli\nversion: \"1.0.0\"\ndescription: C\nexecutor: subprocess\n\
                    config:\n  command: cat\n  args: ['-', --]\n";
    let project = TestProject::new()
        .tool("t", parameters, "cat; test -z \"$(cat)\"")
        .file(".ai/tools/c.yaml", manifest)
        .committed();
    for (arguments, expected) in [
        (vec!["t", "--param", "text=x"], json!({"text": "x"})),
        // A cli tool gets an empty input, not piton's own.
        (vec!["c"], json!({"stdout": ""})),
    ] {
        let mut command =
            project.command(["tool", "run", "--format", "json"].iter().chain(&arguments));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("piton starts");
        // The input stays open, like that of a terminal.
        let mut input = child.stdin.take().expect("an input");
        input.write_all(b"for piton\n").expect("written");
        let output = child.wait_with_output().expect("an end");
        drop(input);
        assert_eq!(project.ran(output).last_json()["result"], expected);
    }
}

#[test]
fn g83_the_end_by_a_signal_is_a_failure_that_names_it() {
    for (signal, told) in [
        ("SEGV", "signal 11 (SIGSEGV)"),
        ("KILL", "signal 9 (SIGKILL)"),
        ("TERM", "signal 15 (SIGTERM)"),
    ] {
        let project = project("", &format!("kill -{signal} $$; sleep 60"));
        let ran = call(&project);
        let result = assert_failed(&project, &ran, "TOOL_FAILED");
        assert_eq!(
            result["message"],
            json!(format!("tool `t` was ended by {told}"))
        );
        assert_eq!(result["exit_code"], Value::Null);
    }
}

/// A limited fork bomb whose processes ignore all signals that can be ignored.
fn bomb(word: &str) -> String {
    format!(
        "python3 -c '\nimport os, signal, time\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    \
         except (OSError, ValueError): pass\nfor n in range(8):\n    try:\n        if os.fork() and n % 2: os.setsid()\n    \
         except OSError: pass\ntime.sleep(600)' {word}"
    )
}

#[test]
fn g84_a_fork_bomb_ends_at_the_timeout_and_nothing_is_left() {
    let word = "hazard_bomb_84";
    let project = project("timeout: 2", &bomb(word));
    let ran = call(&project);
    assert_failed(&project, &ran, "TIMED_OUT");
    assert_eq!(processes_with(word), BTreeSet::new());
}

#[test]
fn g84_the_number_of_processes_can_be_limited() {
    let user = Unprivileged::someone();
    let script = "import os, time\ncount = 0\ntry:\n    while count < 500:\n        \
                  if os.fork() == 0: time.sleep(600)\n        count += 1\nexcept BlockingIOError: pass\n\
                  print('{\"refused\": %s}' % str(count < 500).lower())\n";
    let manifest = "tool_id: t\ntool_type: script\nversion: \"1.0.0\"\ndescription: T\nexecutor: python_runtime\n\
                    config:\n  entrypoint: main.py\n  limits: {processes: 60}\n";
    let project = TestProject::new()
        .file(".ai/tools/t/tool.yaml", manifest)
        .file(".ai/tools/t/main.py", script)
        .committed();
    let ran = user.piton(
        &project,
        &[
            "tool",
            "run",
            "t",
            "--format",
            "json",
            "--checkpoint",
            "auto",
        ],
    );
    assert_eq!(ran.last_json()["result"], json!({"refused": true}), "{ran}");
}

#[test]
fn g85_a_file_that_grows_too_large_fails_the_tool_and_is_rolled_back() {
    let manifest = |limit: &str| {
        format!(
            "tool_id: t\ntool_type: script\nversion: \"1.0.0\"\ndescription: T\nexecutor: bash_runtime\n\
             config:\n  entrypoint: run.sh\n  limits: {{file_size: {limit}}}\n"
        )
    };
    let project = project("", "exec head -c 9000000 /dev/zero > large")
        .file(".ai/tools/t/tool.yaml", manifest("1000000"));
    let project = project.committed();
    let ran = call(&project);
    let result = assert_failed(&project, &ran, "TOOL_FAILED");
    assert_eq!(
        result["message"],
        json!("tool `t` was ended by signal 25 (SIGXFSZ)")
    );
    assert!(!project.root().join("large").exists());
}

#[test]
fn g85_a_full_disk_loses_nothing() {
    let mounts = |project: &TestProject, script: &str| {
        let mut command = project.hermetic("unshare", &project.root());
        // Without root, mounting needs a user namespace.
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command
            .args([
                "--mount",
                "bash",
                "-euc",
                script,
                env!("CARGO_BIN_EXE_piton"),
            ])
            .output()
            .expect("unshare starts")
    };
    let project = project("", "cat /dev/zero > large; exit 1");
    // The project, its repository and its journal share the disk that the tool fills.
    let script = "top=$(dirname \"$PWD\"); cp -a . \"$top/copy\"\n\
        mount -t tmpfs -o size=12M tmpfs \"$top/project\"; cp -a \"$top/copy/.\" \"$top/project\"; cd \"$top/project\"\n\
        code=0; \"$0\" tool run t --checkpoint auto || code=$?; echo \"exit $code\"\n\
        test -s large; rm large; git status --porcelain; \"$0\" recover; echo recovered; git status --porcelain\n\
        \"$0\" verify --all; git fsck --full --strict; \"$0\" exec -- true; cat notes.txt";
    let ran = project.ran(mounts(&project, script));
    // What it did cannot be stored, so it is not touched before there is room.
    assert_eq!(
        ran.stdout(),
        "exit 1\n M notes.txt\n?? new/\nrecovered\none\n",
        "{ran}"
    );
    assert!(
        ran.stderr().contains("or the next command rolls them back"),
        "{ran}"
    );
    assert!(ran.stderr().contains("the disk has 0 bytes left"), "{ran}");
}

#[test]
fn g86_a_tool_that_kills_its_supervisor_is_rolled_back() {
    let word = "hazard_orphan_86";
    let project = project(
        "isolation: trusted",
        &format!("python3 -c 'import time; time.sleep(600)' {word} &\nkill -KILL $PPID\nsleep 600"),
    );
    let ran = call(&project);
    assert_failed(&project, &ran, "SUPERVISOR_FAILED");
    until("nothing of it is left", || processes_with(word).is_empty());
}

#[test]
fn g86_what_a_tool_did_that_killed_piton_is_rolled_back_by_the_next_command() {
    let word = "hazard_orphan_87";
    let script = format!(
        "python3 -c 'import time, os\nos.setsid()\ntime.sleep(600)' {word} &\n\
         read -r _ _ _ grandparent _ < /proc/$PPID/stat\nkill -KILL \"$grandparent\"\nsleep 600\ntouch late"
    );
    let project = project("isolation: trusted", &script);
    let ran = call(&project);
    assert_eq!(ran.code(), None, "{ran}");
    until("nothing of it is left", || processes_with(word).is_empty());
    let next = project.piton(["exec", "--", "true"]);
    assert_eq!(next.code(), Some(0), "{next}");
    assert!(next.stderr().contains("2 files were restored"), "{next}");
    assert_as_before(&project);
}

const HOSTILE: [(&str, &str); 12] = [
    ("LD_PRELOAD", "libnothing.so"),
    ("LD_LIBRARY_PATH", "/nowhere"),
    ("GIT_INDEX_FILE", "/nowhere/index"),
    ("GIT_OBJECT_DIRECTORY", "/nowhere/objects"),
    ("GIT_SSH_COMMAND", "false"),
    ("PYTHONPATH", "/nowhere/python"),
    ("PYTHONSTARTUP", "/nowhere/start.py"),
    ("NODE_OPTIONS", "--require=/nowhere/x.js"),
    ("BASH_ENV", "/nowhere/env.sh"),
    ("ENV", "/nowhere/env.sh"),
    ("SSH_AUTH_SOCK", "/nowhere/agent"),
    ("BASH_FUNC_ls%%", "() { echo hijacked; }"),
];

#[test]
fn c_the_environment_is_exactly_what_is_documented() {
    let manifest = "tool_id: t\ntool_type: cli\nversion: \"1.0.0\"\ndescription: T\nexecutor: subprocess\n\
                    config:\n  command: env\n";
    let declaring =
        format!("{manifest}requires:\n  environment: [SSH_AUTH_SOCK, PYTHONPATH, GIT_DIR]\n");
    let mut project = TestProject::without_git()
        .file(".ai/tools/t.yaml", manifest)
        .variable("GIT_DIR", "/nowhere/git");
    for (name, value) in HOSTILE {
        project = project.variable(name, value);
    }
    let names = |project: &TestProject| {
        let ran = project.piton([
            "tool",
            "run",
            "t",
            "--format",
            "json",
            "--checkpoint",
            "disabled",
        ]);
        let text = ran.last_json()["result"]["stdout"]
            .as_str()
            .unwrap_or_else(|| panic!("{ran}"))
            .to_owned();
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines
            .map(|(name, _)| name.to_owned())
            .collect::<BTreeSet<_>>()
    };
    let always = [
        "HOME",
        "LANG",
        "PATH",
        "PITON_PROCESS",
        "PITON_PROJECT",
        "PITON_RUN_ID",
        "TERM",
        "TMPDIR",
    ];
    assert_eq!(names(&project), always.map(str::to_owned).into());
    let project = project.file(".ai/tools/t.yaml", declaring);
    let declared = always
        .into_iter()
        .chain(["SSH_AUTH_SOCK", "PYTHONPATH", "GIT_DIR"]);
    assert_eq!(names(&project), declared.map(str::to_owned).collect());
}

#[test]
fn c_interpreters_do_not_get_the_callers_variables() {
    let mut project = TestProject::new()
        .tool("shell", "", "compgen -e | grep -E '^(LD_|GIT_|PYTHON|NODE_|BASH_ENV|SSH_|ENV)' ; declare -F; exit 0")
        .file("evil/sitecustomize.py", "open('hijacked', 'w')\n")
        .file("evil/env.sh", "touch hijacked\n");
    let source = "import os\ndef main():\n    return sorted(n for n in os.environ if n.startswith(('PYTHON', 'LD_', 'GIT_')))\n";
    project = crate::tool_run::python("snake", "", source)(project).committed();
    let evil = project.root().join("evil");
    let evil = evil.to_str().expect("Unicode");
    let project = project
        .variable("PYTHONPATH", evil)
        .variable("BASH_ENV", &format!("{evil}/env.sh"))
        .variable("BASH_FUNC_x%%", "() { :; }");
    let run = |tool| {
        project
            .piton(["tool", "run", tool, "--format", "json"])
            .last_json()["result"]
            .clone()
    };
    // What piton itself sets.
    assert_eq!(run("shell"), json!({"stdout": "PYTHONDONTWRITEBYTECODE\n"}));
    assert_eq!(run("snake"), json!(["PYTHONDONTWRITEBYTECODE"]));
    project.assert_clean();
}

#[test]
fn c_a_tool_does_not_inherit_the_callers_descriptors() {
    let script = "trap; ulimit -Hc; exec ls /proc/self/fd";
    let project = TestProject::new().tool("t", "", script).committed();
    let mut command = project.command_under(
        "bash",
        [
            "-c",
            "trap '' INT PIPE; exec 7</etc/passwd 9<>/dev/null; exec \"$0\" \"$@\"",
        ],
    );
    let ran = project.ran(
        command
            .args(["tool", "run", "t"])
            .output()
            .expect("bash starts"),
    );
    // No signal is ignored, there are no core dumps, and `ls` has opened the folder.
    assert_eq!(ran.stdout(), "0\n0\n1\n2\n3\n", "{ran}");
}

fn interrupted(signal: Signal, sent: impl Fn(Pid)) -> (Option<i32>, TestProject) {
    let word = format!("hazard_signal_{}", signal.as_raw());
    let script = format!(
        "trap '' INT TERM HUP\npython3 -c 'import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(600)' {word} &\n\
         touch new/folder/ready\nwhile :; do sleep 600; done"
    );
    let project = project("", &script);
    let mut command = project.command([
        "tool",
        "run",
        "t",
        "--format",
        "json",
        "--checkpoint",
        "auto",
    ]);
    // Like a shell, start piton in its own process group.
    let mut child = command
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .expect("piton starts");
    started(&project, &mut child);
    sent(pid(&child));
    let output = child.wait_with_output().expect("an end");
    assert_eq!(processes_with(&word), BTreeSet::new());
    let ran = project.ran(output);
    let result = ran.last_json();
    assert_eq!(
        (&result["status"], &result["code"]),
        (&json!("cancelled"), &json!("INTERRUPTED")),
        "{ran}"
    );
    assert_eq!(result["checkpoint"]["status"], json!("rolled_back"));
    assert_as_before(&project);
    (ran.code(), project)
}

#[test]
fn c_ctrl_c_ends_the_whole_tree_and_rolls_everything_back() {
    let (code, _) = interrupted(Signal::INT, |pid| {
        kill_process_group(pid, Signal::INT).expect("sent");
    });
    assert_eq!(code, Some(130));
}

#[test]
fn c_terminate_does_what_ctrl_c_does() {
    let (code, _) = interrupted(Signal::TERM, |pid| {
        kill_process(pid, Signal::TERM).expect("sent");
    });
    assert_eq!(code, Some(130));
}

#[test]
fn c_a_closed_terminal_does_what_ctrl_c_does() {
    let (code, _) = interrupted(Signal::HUP, |pid| {
        kill_process_group(pid, Signal::HUP).expect("sent");
    });
    assert_eq!(code, Some(130));
}

#[test]
fn c_piton_can_be_stopped_and_continued() {
    let script = "touch new/folder/ready; while [ ! -e \"$TMPDIR/go\" ]; do sleep 0.01; done; seq 100000; touch \"$TMPDIR/done\"";
    let project = project("", script);
    let tmp = project.root().parent().expect("a sandbox").join("tmp");
    let mut command = project.command([
        "tool",
        "run",
        "t",
        "--format",
        "json",
        "--checkpoint",
        "auto",
    ]);
    let mut child = command
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .expect("piton starts");
    started(&project, &mut child);
    let group = pid(&child);
    kill_process_group(group, Signal::STOP).expect("stopped");
    fs::write(tmp.join("go"), "").expect("a file");
    until("piton is stopped", || {
        fs::read_to_string(format!("/proc/{}/stat", child.id()))
            .is_ok_and(|stat| stat.contains(") T "))
    });
    kill_process_group(group, Signal::CONT).expect("continued");
    let ran = project.ran(child.wait_with_output().expect("an end"));
    assert_eq!(
        (ran.code(), &ran.last_json()["checkpoint"]["status"]),
        (Some(0), &json!("committed")),
        "{ran}"
    );
    assert!(tmp.join("done").exists());
    project.assert_clean();
}
