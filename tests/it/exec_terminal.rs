//! `piton exec` at a real terminal: the command uses the terminal as if piton were not there.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::TestProject;

/// Runs a program in its own terminal of 33 rows and 99 columns: waits for texts, one after the
/// other, and answers each by typing something.
const TERMINAL: &str = "import fcntl, json, os, struct, sys, termios\n\
    talk = json.loads(sys.argv[1])\n\
    pid, fd = os.forkpty()\n\
    if pid == 0:\n    \
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 33, 99, 0, 0))\n    \
    os.execv(sys.argv[2], sys.argv[2:])\n\
    seen, at = '', 0\n\
    while True:\n    try: part = os.read(fd, 65536)\n    except OSError: break\n    \
    if not part: break\n    seen += part.decode(errors='replace')\n    \
    while talk and talk[0][0] in seen[at:]:\n        \
    at = seen.index(talk[0][0], at) + len(talk[0][0])\n        \
    os.write(fd, talk.pop(0)[1].encode())\n\
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n\
    sys.stdout.write(seen)\nsys.exit(status)";

struct Seen {
    status: Option<i32>,
    text: String,
}

fn project() -> TestProject {
    TestProject::new()
        .file("notes.txt", "one\n")
        .committed()
        .variable("TERM", "xterm")
}

fn at_a_terminal(project: &TestProject, talk: &Value, program: &str, words: &[&str]) -> Seen {
    let talk = talk.to_string();
    let mut command = project.hermetic("python3", &project.root());
    let output = command
        .args(["-I", "-c", TERMINAL, &talk, program])
        .args(words)
        .output()
        .expect("python3 starts");
    let text = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Seen {
        status: output.status.code(),
        text,
    }
}

fn exec(project: &TestProject, talk: &Value, command: &[&str]) -> Seen {
    let words = [&["exec", "--"], command].concat();
    at_a_terminal(project, talk, env!("CARGO_BIN_EXE_piton"), &words)
}

/// An interactive shell with piton on its `PATH`.
fn shell(project: &TestProject, talk: &Value) -> Seen {
    let folder = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display()
        .to_string();
    let start =
        format!("export PATH='{folder}':$PATH PS1='PROMPT> '; exec bash --norc --noprofile -i");
    at_a_terminal(project, talk, "/bin/bash", &["-c", &start])
}

#[test]
fn the_command_has_the_terminal_its_size_and_its_foreground() {
    let project = project();
    let script = "import os, sys\n\
        tty = os.open('/dev/tty', os.O_RDWR)\n\
        print('tty', [os.isatty(fd) for fd in (0, 1, 2)], os.ttyname(0) == os.ttyname(1))\n\
        print('group', os.tcgetpgrp(tty) == os.getpgrp() == os.getpid(), os.getsid(0) == os.getsid(os.getppid()))\n\
        print('size', os.get_terminal_size(1))\n\
        open('notes.txt', 'a').write('two\\n')";
    let seen = exec(&project, &json!([]), &["python3", "-c", script]);
    assert_eq!(seen.status, Some(0), "{}", seen.text);
    for line in [
        "tty [True, True, True] True\n",
        "group True True\n",
        "columns=99, lines=33",
        "committed ",
    ] {
        assert!(seen.text.contains(line), "{line} is not in {}", seen.text);
    }
    project.assert_clean();
}

#[test]
fn the_command_reads_what_is_typed() {
    let project = project();
    let script = "printf 'name? '; read name; echo \"hello $name\"; echo $name >> notes.txt";
    let seen = exec(
        &project,
        &json!([["name? ", "Ada\n"]]),
        &["sh", "-c", script],
    );
    assert_eq!(seen.status, Some(0), "{}", seen.text);
    assert!(seen.text.contains("hello Ada\n"), "{}", seen.text);
    assert_eq!(project.git(["show", "HEAD:notes.txt"]), "one\nAda\n");
}

#[test]
fn ctrl_c_ends_the_command_which_is_rolled_back() {
    let project = project();
    // A single process: a shell that is interrupted just before it starts `sleep` would wait for
    // `sleep` to end.
    let script = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); \
                  open('notes.txt', 'a').write('two\\n'); print('rea' + 'dy', flush=True); time.sleep(600)";
    let seen = exec(
        &project,
        &json!([["ready", "\u{3}"]]),
        &["python3", "-c", script],
    );
    assert_eq!(seen.status, Some(130), "{}", seen.text);
    assert!(
        seen.text.contains("`python3` was interrupted"),
        "{}",
        seen.text
    );
    project.assert_clean();
}

#[test]
fn a_command_that_deals_with_ctrl_c_itself_continues() {
    let project = project();
    let script =
        "trap 'echo caught >> notes.txt; exit 0' INT; echo rea''dy; while :; do sleep 0.05; done";
    let seen = exec(
        &project,
        &json!([["ready", "\u{3}"]]),
        &["sh", "-c", script],
    );
    assert_eq!(seen.status, Some(0), "{}", seen.text);
    assert_eq!(project.git(["show", "HEAD:notes.txt"]), "one\ncaught\n");
}

#[test]
fn ctrl_z_gives_the_shell_its_terminal_back_and_fg_continues() {
    let project = project();
    let line = "piton exec -- sh -c 'echo two >> notes.txt; echo rea\"\"dy; read word; echo g\"\"ot-$word'\n";
    let talk = json!([
        ["PROMPT> ", line],
        ["ready", "\u{1a}"],
        ["Stopped", "echo the sh\"\"ell\n"],
        ["the shell", "fg\n"],
        ["piton exec -- sh", "hello\n"],
        ["got-hello", ""],
        ["committed", "exit 7\n"],
    ]);
    let seen = shell(&project, &talk);
    assert_eq!(seen.status, Some(7), "{}", seen.text);
    assert_eq!(project.git(["show", "HEAD:notes.txt"]), "one\ntwo\n");
    project.assert_clean();
}

#[test]
fn in_the_background_the_command_continues_and_is_stopped_when_it_reads() {
    let project = project();
    let line = "piton exec -- sh -c 'echo two >> notes.txt; until [ -e ~/go ]; do sleep 0.02; done; \
                read word; echo g\"\"ot-$word' &\n";
    let talk = json!([
        ["PROMPT> ", line],
        [
            "PROMPT> ",
            "touch ~/go; until jobs | grep Stop''ped; do sleep 0.02; done\n"
        ],
        ["Stopped", "fg\n"],
        ["piton exec -- sh", "hello\n"],
        ["got-hello", ""],
        ["committed", "exit 7\n"],
    ]);
    let seen = shell(&project, &talk);
    assert_eq!(seen.status, Some(7), "{}", seen.text);
    assert_eq!(project.git(["show", "HEAD:notes.txt"]), "one\ntwo\n");
}

#[test]
fn a_shell_inside_has_job_control_of_its_own() {
    let project = project();
    let talk = json!([
        ["bash-", "sh -c 'echo rea\"\"dy; exec sleep 600'\n"],
        ["ready", "\u{1a}"],
        [
            "Stopped",
            "kill %1; echo two >> notes.txt; ls --color=auto -d .git\n"
        ],
        ["\u{1b}[01;34m.git", "exit\n"],
    ]);
    let seen = exec(&project, &talk, &["bash", "--norc", "--noprofile", "-i"]);
    assert!(!seen.text.contains("no job control"), "{}", seen.text);
    assert!(
        seen.text.contains("Stopped") && seen.text.contains("committed "),
        "{}",
        seen.text
    );
    assert_eq!(project.git(["show", "HEAD:notes.txt"]), "one\ntwo\n");
}

#[test]
fn the_modes_of_the_terminal_come_back_after_a_command_that_was_killed() {
    let project = project();
    let line = "piton exec -- sh -c 'stty -echo; kill -KILL $$'; stty -a | grep -o -- '-*echo\\b' | head -1\n";
    let talk = json!([["PROMPT> ", line], ["SIGKILL", ""], ["PROMPT> ", "exit\n"]]);
    let seen = shell(&project, &talk);
    assert!(seen.text.contains("\necho\n"), "{}", seen.text);
}

#[test]
fn a_pager_that_piton_writes_to_keeps_the_terminal() {
    let project = project();
    let line =
        "piton exec -- sh -c 'echo out' | (cat; read word < /dev/tty; echo p\"\"ager-$word)\n";
    let talk = json!([
        ["PROMPT> ", line],
        ["no changes", "key\n"],
        ["pager-key", "exit 7\n"]
    ]);
    let seen = shell(&project, &talk);
    assert_eq!(seen.status, Some(7), "{}", seen.text);
}
