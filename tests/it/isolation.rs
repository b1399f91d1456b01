//! What the kernel refuses to tools at each level: each attack is a real tool.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::thread;

use crate::harness::TestProject;
use crate::hazards::unprivileged::Unprivileged;

mod attacks;
mod escapes;
mod minimum;
mod narrowed;
mod sandbox;

/// Finds the process of piton: the supervisor's parent.
const PITON: &str = "piton=$(awk '/^PPid:/{print $2}' /proc/$PPID/status)\n";

/// Acts that must fail, by name. `$OUT` is a folder beside the project.
const ATTACKS: [(&str, &str); 35] = [
    ("outside_new", "echo x > $OUT/new"),
    ("outside_old", "echo x > $OUT/victim"),
    ("outside_append", "echo x >> $OUT/victim"),
    ("outside_truncate", "truncate -s 0 $OUT/victim"),
    ("outside_remove", "rm -f $OUT/victim"),
    ("outside_rename", "mv $OUT/victim $OUT/moved"),
    ("outside_folder", "mkdir $OUT/folder"),
    ("outside_link", "ln -s x $OUT/link"),
    ("home", "echo x > $OUT/home/.bashrc"),
    ("system", "echo x > /etc/piton-attack"),
    ("symlink", "ln -s $OUT/victim link; echo x > link"),
    ("hard_link", "ln $OUT/victim hard; echo x > hard"),
    (
        "descriptor",
        "exec 3< $OUT/victim; echo x > /proc/self/fd/3",
    ),
    ("git_config", "git config user.name x"),
    ("git_config_file", "echo x >> .git/config"),
    ("git_hook", "printf x > .git/hooks/post-commit"),
    ("git_commit", "git commit -q --allow-empty -m x"),
    (
        "git_index_flag",
        "git update-index --assume-unchanged kept.txt",
    ),
    ("git_remove", "rm -f .git/HEAD"),
    ("git_move", "mv .git elsewhere"),
    ("git_mode", "chmod 777 .git/config"),
    ("git_symlink", "ln -s .git/config link; echo x > link"),
    ("git_hard_link", "ln .git/config hard; echo x > hard"),
    (
        "git_descriptor",
        "exec 3< .git/config; echo x > /proc/self/fd/3",
    ),
    ("git_unmount", "umount .git || true; echo x >> .git/config"),
    (
        "git_remount",
        "mount -o remount,bind,rw .git || true; echo x >> .git/config",
    ),
    (
        "git_namespace",
        "unshare -rm sh -c 'umount .git || true; echo x >> .git/config'",
    ),
    ("items", "echo true > .ai/tools/items/run.sh"),
    ("items_new", "mkdir .ai/tools/another"),
    (
        "journal_key",
        "grep . $OUT/home/.config/piton/keys/journal.key",
    ),
    (
        "journal_key_unmount",
        "umount $OUT/home/.config/piton/keys/journal.key || true; grep . $OUT/home/.config/piton/keys/journal.key",
    ),
    ("environment", "cat /proc/$piton/environ"),
    (
        "memory",
        "head -c 1 /proc/$piton/mem; cat /proc/$piton/maps",
    ),
    ("signal", "kill -CONT $piton"),
    ("supervisor", "kill -CONT $PPID"),
];

fn outside(project: &TestProject) -> PathBuf {
    let root = project.root();
    root.parent().expect("a folder above").to_path_buf()
}

/// Everything that attacks must not change: files outside of the project, git's and the items. piton
/// itself writes its journals, outputs and the notes of where journals end.
fn victims(project: &TestProject) -> String {
    let out = outside(project);
    project.bash(&format!(
        "find {out} -path {out}/project -prune -o -path {out}/tmp -prune -o -path {out}/home/.config/piton/keys/ends -prune -o -type f -exec sha256sum {{}} +; \
         find .git .ai -not -path '.git/piton*' -not -path '.ai/outputs*' -not -path .git/index -not -path .ai -not -path .git -type f -printf '%p %m ' -exec sha256sum {{}} \\; | sort",
        out = out.display()
    ))
}

#[test]
fn a_process_cannot_gain_rights_by_starting_a_program() {
    let project = TestProject::new().tool(
        "t",
        "",
        "grep -q '^NoNewPrivs:.1' /proc/self/status && echo confined",
    );
    let ran = project.piton(["tool", "run", "t"]);
    assert!(ran.to_string().contains("confined"), "{ran}");
}

/// A port of this machine that answers once with `hello`.
fn greeting() -> (u16, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let answer = thread::spawn(move || {
        for stream in listener.incoming() {
            let mut word = String::new();
            let mut stream = stream.expect("a connection");
            // The test itself ends this.
            if stream.read_to_string(&mut word).is_ok() && word == "end" {
                return;
            }
        }
    });
    (port, answer)
}

#[test]
fn tcp_needs_a_grant_or_a_person() {
    let (port, answer) = greeting();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let project = TestProject::new()
        .tool("net", "", &script)
        .directive("alone", ["net"])
        .directive("granted", ["net"]);
    let granted = project.root().join(".ai/directives/granted.md");
    let text = fs::read_to_string(&granted).expect("a directive");
    let grant = format!(
        "<read resource=\"api\" endpoint=\"http://127.0.0.1:{port}/**\"/>\n    </permissions>"
    );
    fs::write(&granted, text.replace("</permissions>", &grant)).expect("a directive");
    project.git(["add", "."]);
    project.git(["commit", "-qm", "begin"]);
    let status = |words: &[&str]| project.piton(words).output.status.code();
    assert_eq!(status(&["run", "alone"]), Some(1));
    assert_eq!(status(&["run", "granted"]), Some(0));
    assert_eq!(status(&["tool", "run", "net"]), Some(0));
    project.bash(&format!("printf end > /dev/tcp/127.0.0.1/{port}"));
    answer.join().expect("the listener ends");
}

#[test]
fn abstract_sockets_of_other_processes_are_out_of_reach() {
    let name = format!("piton-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("a socket");
    let act = format!(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + \"{name}\"); print(\"connected\")'"
    );
    let project =
        TestProject::new()
            .tool("confined", "", &act)
            .tool("trusted", "isolation: trusted", &act);
    let status = |tool| project.piton(["tool", "run", tool]).output.status.code();
    assert_eq!(status("trusted"), Some(0));
    assert_eq!(status("confined"), Some(1));
}

#[test]
fn agents_with_keys_are_out_of_reach_unless_declared() {
    let act = |socket: &str| {
        format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{socket}\")'")
    };
    let project = TestProject::new();
    let ssh = outside(&project).join("tmp/agent.1");
    let gpg = project.home().join(".gnupg/S.gpg-agent");
    fs::create_dir(project.home().join(".gnupg")).expect("a folder");
    let _agents = [&ssh, &gpg].map(|socket| UnixListener::bind(socket).expect("a socket"));
    let (ssh, gpg) = (ssh.display().to_string(), gpg.display().to_string());
    let mut project = project.variable("SSH_AUTH_SOCK", &ssh).tool(
        "declared",
        "requires: {environment: [SSH_AUTH_SOCK]}",
        &act(&ssh),
    );
    for (name, socket) in [("ssh", &ssh), ("gpg", &gpg)] {
        project = project.tool(name, "", &act(socket)).tool(
            &format!("{name}_trusted"),
            "isolation: trusted",
            &act(socket),
        );
    }
    for (tool, status) in [
        ("ssh", 1),
        ("ssh_trusted", 0),
        ("gpg", 1),
        ("gpg_trusted", 0),
        ("declared", 0),
    ] {
        let ran = project.piton(["tool", "run", tool]);
        assert_eq!(ran.code(), Some(status), "{tool}\n{ran}");
    }
}

#[test]
fn exec_is_trusted_unless_another_level_is_asked_for() {
    let project = TestProject::new().file("kept.txt", "kept\n");
    project.git(["add", "."]);
    project.git(["commit", "-qm", "begin"]);
    let status = |words: &[&str]| project.piton(words).output.status.code();
    let act = ["--", "sh", "-c", "echo x > ../new && echo y > own.txt"];
    let with = |level: &'static str| {
        let mut words = vec!["exec", "--isolation", level];
        words.extend(act);
        words
    };
    assert_ne!(status(&with("standard")), Some(0));
    assert!(!project.root().join("../new").exists());
    assert!(!project.root().join("own.txt").exists());
    for level in ["sandboxed", "restricted"] {
        assert_eq!(status(&with(level)), status(&with("standard")));
        assert!(!project.root().join("../new").exists());
    }
    let mut words = vec!["exec"];
    words.extend(act);
    assert_eq!(status(&words), Some(0));
    assert!(project.root().join("../new").exists());
}

#[test]
fn ordinary_work_runs_at_standard() {
    let work = [
        (
            "git_read",
            "git status --short; git log --oneline; git diff HEAD; git stash list",
        ),
        (
            "files",
            "mkdir -p a/b; echo x > a/b/c; mv a/b/c a/d; ln a/d a/e; ln -s d a/f; rm -r a/b; sed -i s/x/y/ a/d; cat <<< here > top.txt",
        ),
        (
            "temporary",
            "f=$(mktemp); echo x > $f; mv $f moved.txt; echo x > /dev/null; echo y > ~/cache",
        ),
        (
            "make",
            "printf 'out.txt: in.txt\\n\\tcp in.txt out.txt\\n' > Makefile; echo x > in.txt; make -s",
        ),
        (
            "compiler",
            "printf 'int main(void){return 0;}' > main.c; cc -o main main.c && ./main",
        ),
        (
            "python",
            "python3 -c 'import multiprocessing, tempfile; multiprocessing.Lock(); tempfile.TemporaryFile(); open(\"py.txt\", \"w\").write(\"x\")'",
        ),
        (
            "node",
            "node -e 'require(\"fs\").writeFileSync(\"node.txt\", \"x\")'; npm --version",
        ),
        (
            "venv",
            "python3 -m venv --without-pip env && env/bin/python -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)'",
        ),
        (
            "terminals",
            "python3 -c 'import pty, sys; sys.exit(pty.spawn([\"sh\", \"-c\", \"echo x > $(tty)\"]))' && script -qec true /dev/null",
        ),
        (
            "tracing",
            "cat > leak.c <<< 'int main(void){return 0;}'; cc -fsanitize=address -o leak leak.c && ./leak; rm leak leak.c",
        ),
        (
            "processes",
            "sleep 0.01 & kill $!; wait $! || true; (trap 'exit 0' TERM; kill $BASHPID; sleep 1)",
        ),
    ];
    let mut project = TestProject::new().file("kept.txt", "kept\n");
    for (name, script) in work {
        project = project.tool(name, "", &format!("set -e\n{script}\n"));
    }
    project.git(["add", "."]);
    project.git(["commit", "-qm", "begin"]);
    for (name, _) in work {
        let ran = project.piton(["tool", "run", name, "--checkpoint", "auto"]);
        assert_eq!(ran.output.status.code(), Some(0), "{name}\n{ran}");
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test finds the toolchain of this machine"
)]
fn cargo_builds_at_standard() {
    // The toolchain is that of the machine; its home is readable, and only that.
    let home = std::env::var("HOME").expect("a home");
    let cargo = std::env::var("CARGO_HOME").unwrap_or(format!("{home}/.cargo"));
    let rustup = std::env::var("RUSTUP_HOME").unwrap_or(format!("{home}/.rustup"));
    let project = TestProject::new()
        .file(
            "Cargo.toml",
            "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        )
        .file("src/main.rs", "fn main() {}\n")
        .file(".gitignore", "target\n")
        .tool(
            "build",
            "requires:\n  environment: [CARGO_HOME, RUSTUP_HOME]",
            "cargo build -q --offline && cargo test -q --offline",
        )
        .variable("CARGO_HOME", &cargo)
        .variable("RUSTUP_HOME", &rustup);
    let ran = project.piton(["tool", "run", "build", "--checkpoint", "auto"]);
    assert_eq!(ran.output.status.code(), Some(0), "{ran}");
    assert!(project.root().join("target/debug/tiny").exists());
}

/// Opens a socket of a kind, in Python.
fn socket_tool(project: TestProject, name: &str, kind: &str) -> TestProject {
    let script = format!("python3 -c 'from socket import *; socket({kind}); print(\"open\")'");
    project.tool(name, "", &script)
}

#[test]
fn other_sockets_than_tcp_are_closed_while_tcp_is_restricted() {
    // With a grant of TCP, names are resolved by UDP.
    let kinds = [
        ("tcp", "AF_INET, SOCK_STREAM", true, true),
        ("tcp6", "AF_INET6, SOCK_STREAM, IPPROTO_TCP", true, true),
        ("unix", "AF_UNIX, SOCK_DGRAM", true, true),
        ("routes", "AF_NETLINK, SOCK_RAW, 0", true, true),
        ("udp", "AF_INET, SOCK_DGRAM", false, true),
        ("udp6", "AF_INET6, SOCK_DGRAM, IPPROTO_UDP", false, true),
        ("raw", "AF_INET, SOCK_RAW, IPPROTO_ICMP", false, false),
        ("ping", "AF_INET, SOCK_DGRAM, IPPROTO_ICMP", false, false),
        ("packets", "AF_PACKET, SOCK_RAW, 0", false, false),
        ("other_tcp", "AF_INET, SOCK_STREAM, 262", false, false),
        ("devices", "AF_NETLINK, SOCK_RAW, 15", false, false),
        ("crypto", "38, SOCK_SEQPACKET", false, false),
    ];
    let mut project = TestProject::new();
    for (name, kind, ..) in kinds {
        project = socket_tool(project, name, kind)
            .directive(&format!("{name}_alone"), [name])
            .directive(&format!("{name}_granted"), [name]);
        let file = project
            .root()
            .join(format!(".ai/directives/{name}_granted.md"));
        let text = fs::read_to_string(&file).expect("a directive");
        let grant =
            "<read resource=\"api\" endpoint=\"http://127.0.0.1:9/**\"/>\n    </permissions>";
        fs::write(&file, text.replace("</permissions>", grant)).expect("a directive");
    }
    let project = project.committed();
    for (name, kind, alone, granted) in kinds {
        for (directive, is_open) in [
            (format!("{name}_alone"), alone),
            (format!("{name}_granted"), granted),
        ] {
            let ran = project.piton(["run", directive.as_str()]);
            let status = if is_open { Some(0) } else { Some(1) };
            assert_eq!(ran.code(), status, "{directive}: {kind}\n{ran}");
            assert!(
                is_open || ran.stderr().contains("Permission denied"),
                "{ran}"
            );
        }
    }
    // A person at the terminal may use any of them.
    for name in ["udp", "devices"] {
        let ran = project.piton(["tool", "run", name]);
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
}

#[test]
fn root_without_the_right_to_mount_uses_a_user_namespace() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let project = TestProject::new()
        .tool("inside", "", "echo x > own.txt")
        .tool("git", "", "echo x >> .git/config")
        .tool("outside", "", "echo x > ../new")
        .committed();
    let status = |tool: &str| {
        let mut command = project.command_under("setpriv", ["--bounding-set=-sys_admin", "--"]);
        command.args(["tool", "run", tool, "--checkpoint", "auto"]);
        let ran = project.ran(command.output().expect("setpriv starts"));
        assert!(!ran.stderr().contains("warning: isolation:"), "{ran}");
        ran.code()
    };
    assert_eq!(status("inside"), Some(0));
    assert_eq!(status("git"), Some(1));
    assert_eq!(status("outside"), Some(1));
}

#[test]
fn a_weaker_default_is_told_once_also_for_helpers() {
    let parser = "def parse(content):\n    return {'text': content}\n";
    let project = TestProject::new()
        .file(".ai/parsers/own.py", parser)
        .tool("plain", "", "echo x")
        .tool("parsed", "outputs: {parser: own}", "echo x")
        .tool("trusted", "isolation: trusted", "echo x")
        .tool(
            "trusted_parsed",
            "isolation: trusted\noutputs: {parser: own}",
            "echo x",
        )
        .directive("both", ["plain", "parsed"])
        .committed();
    let told = |words: &[&str], support: &str| {
        let mut command = project.command(words);
        command.env("PITON_FAILPOINT", support);
        let ran = project.ran(command.output().expect("piton starts"));
        assert_eq!(ran.code(), Some(0), "{ran}");
        ran.stderr().matches("warning: isolation: ").count()
    };
    let calls: [(&[&str], usize); 5] = [
        (&["tool", "run", "plain"], 1),
        (&["tool", "run", "parsed"], 1),
        (&["tool", "run", "trusted"], 0),
        (&["tool", "run", "trusted_parsed"], 1),
        (&["run", "both"], 1),
    ];
    for (words, times) in calls {
        assert_eq!(told(words, "isolation:support=error"), times, "{words:?}");
        assert_eq!(told(words, "none"), 0, "{words:?}");
    }
}

#[test]
fn a_user_in_the_project_and_git_still_work_where_all_else_is_read_only() {
    let project = TestProject::new()
        .file("kept.txt", "kept\n")
        .tool(
            "work",
            "",
            "set -e; chmod 755 kept.txt; touch -d 2001-01-01 kept.txt; mkfifo /dev/shm/piton-$$; \
             rm /dev/shm/piton-$$; git status --short; : > /dev/null; (: > /dev/tty) 2> /dev/null || true",
        )
        .committed();
    for user in [None, Some(Unprivileged::someone())] {
        let words = ["tool", "run", "work"];
        let ran = match user {
            None => project.piton(words),
            Some(user) => user.piton(&project, &words),
        };
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
}
