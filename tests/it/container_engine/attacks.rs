//! The list of attacks in a container that has the whole project as a volume, by root and by an ordinary
//! user. One call runs all of them, because a container takes long to start.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::{Engine, container};
use crate::harness::TestProject;
use crate::hazards::unprivileged::Unprivileged;

/// Acts of a shell that must fail. `$OUT` is the folder of the project on the host, `$HOST` a process
/// there, `$TERMINAL`, `$ENGINE`, `$PORT` and `$NAME` are a terminal, sockets and a port of the host.
/// `./call` makes a system call or connects.
const ATTACKS: [(&str, &str); 54] = [
    ("outside_new", "echo x > $OUT/new"),
    ("outside_old", "echo x > $OUT/victim"),
    ("outside_append", "echo x >> $OUT/victim"),
    (
        "outside_truncate",
        "truncate -s 0 $OUT/victim && test -f $OUT/victim",
    ),
    ("outside_remove", "rm $OUT/victim"),
    ("outside_rename", "mv $OUT/victim $OUT/moved"),
    ("outside_folder", "mkdir $OUT/folder"),
    ("outside_link", "ln -s x $OUT/link"),
    ("outside_mode", "chmod 600 $OUT/victim"),
    ("outside_owner", "chown 1 $OUT/victim"),
    (
        "outside_time",
        "touch -c -d 2002-02-02 $OUT/victim && test -f $OUT/victim",
    ),
    ("outside_read", "cat $OUT/victim"),
    ("home", "echo x > $OUT/home/.bashrc"),
    (
        "journal_key",
        "cat $OUT/home/.config/piton/keys/journal.key",
    ),
    ("symlink", "ln -s $OUT/victim link; echo x > link"),
    ("hard_link", "ln $OUT/victim hard"),
    (
        "descriptor",
        "exec 3< $OUT/victim; echo x > /proc/self/fd/3",
    ),
    ("root_folder", "test -e /proc/1/root$OUT/victim"),
    ("git_config_file", "echo x >> .git/config"),
    ("git_hook", "printf x > .git/hooks/post-commit"),
    ("git_remove", "rm .git/HEAD"),
    ("git_move", "mv .git elsewhere"),
    ("git_mode", "chmod 777 .git/config"),
    ("git_symlink", "ln -s .git/config link; echo x > link"),
    ("git_hard_link", "ln .git/config hard"),
    (
        "git_descriptor",
        "exec 3< .git/config; echo x > /proc/self/fd/3",
    ),
    ("git_unmount", "umount .git"),
    ("git_remount", "mount -o remount,rw .git"),
    ("git_namespace", "unshare -r -m umount .git"),
    ("items", "echo true > .ai/tools/attack/tool.yaml"),
    ("items_new", "mkdir .ai/tools/another"),
    ("host_signal", "kill -CONT $HOST"),
    ("host_environment", "cat /proc/$HOST/environ"),
    ("host_memory", "cat /proc/$HOST/maps"),
    ("host_trace", "./call 101 16902 $HOST 0 0"),
    (
        "host_limits",
        "./call 302 $HOST 4 0 z:16 && test -e /proc/$HOST",
    ),
    ("priority", "renice -n -5 -p 1"),
    ("io_uring", "./call 425 8 z:120"),
    ("bpf", "./call 321 5 z:72 72"),
    ("page_faults", "./call 323 0"),
    ("key", "./call 248 s:user s:piton-attack s:x 1 -2"),
    ("mount", "mkdir -p /tmp/m; mount -t tmpfs none /tmp/m"),
    ("new_mount", "./call 430 s:tmpfs 0"),
    ("mount_namespace", "unshare -m true"),
    ("module", "./call 313 0 s: 0"),
    ("device", "mknod disk b 8 0"),
    ("terminal", "test -e $TERMINAL"),
    ("engine", "./call unix $ENGINE"),
    ("abstract_socket", "./call abstract $NAME"),
    ("tcp", "./call tcp 127.0.0.1 $PORT"),
    ("tcp_elsewhere", "./call tcp 192.0.2.1 80"),
    ("udp", "./call udp 192.0.2.1 53"),
    ("kernel_setting", "echo 1 > /proc/sys/kernel/core_uses_pid"),
    (
        "rights",
        "grep -q '^NoNewPrivs:.0' /proc/self/status || grep '^Cap[EPB]' /proc/self/status | grep -qv ':.0*$'",
    ),
];

/// Acts that depend on the engine: with Podman's usual filter the first works for every user, the second for one
/// who is not root.
const UP_TO_THE_ENGINE: [(&str, &str); 2] = [
    ("keyring", "./call 250 0 -4 1"),
    ("namespaces", "unshare -r true"),
];

/// Makes one system call, or connects to a socket.
const CALL: &str = r#"
#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int local(const char *name, int is_abstract) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strncpy(to.sun_path + is_abstract, name, sizeof(to.sun_path) - 2);
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + is_abstract + strlen(name);
    return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&to, length);
}

static int internet(const char *host, const char *port, int kind) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    inet_pton(AF_INET, host, &to.sin_addr);
    int open = socket(AF_INET, kind, 0);
    if (kind == SOCK_DGRAM) return sendto(open, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
    return connect(open, (struct sockaddr *)&to, sizeof(to));
}

int main(int count, char **words) {
    long arguments[6] = {0}, answer;
    if (!strcmp(words[1], "unix")) answer = local(words[2], 0);
    else if (!strcmp(words[1], "abstract")) answer = local(words[2], 1);
    else if (!strcmp(words[1], "tcp")) answer = internet(words[2], words[3], SOCK_STREAM);
    else if (!strcmp(words[1], "udp")) answer = internet(words[2], words[3], SOCK_DGRAM);
    else {
        for (int at = 2; at < count && at < 8; at++) {
            if (!strncmp(words[at], "s:", 2)) arguments[at - 2] = (long)(words[at] + 2);
            else if (!strncmp(words[at], "z:", 2)) arguments[at - 2] = (long)calloc(1, atoi(words[at] + 2));
            else arguments[at - 2] = strtol(words[at], 0, 0);
        }
        answer = syscall(atol(words[1]), arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    }
    if (answer < 0) perror(words[1]);
    return answer < 0;
}
"#;

/// Runs each act by itself and prints whether it worked.
const RUN_ALL: &str = "for act in acts/*; do if sh -e $act > /dev/null 2>&1; then echo \"worked ${act#acts/}\"; \
    else echo \"refused ${act#acts/}\"; fi; rm -f link hard disk; done";

/// The attacks of this processor: elsewhere system calls have other numbers.
fn of_this_processor(acts: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let has_number = |act: &str| {
        let number = act
            .strip_prefix("./call ")
            .and_then(|act| act.chars().next());
        cfg!(target_arch = "x86_64") || !number.is_some_and(|first| first.is_ascii_digit())
    };
    let acts = acts.iter().copied();
    acts.filter(|(_, act)| has_number(act)).collect()
}

fn victims(project: &TestProject) -> String {
    project.bash(
        "stat -c '%a %u %Y' ../victim; sha256sum ../victim; find .. -maxdepth 1 -newer ../victim -name 'new' ; \
         find .git .ai -not -path '.git/piton*' -not -path '.ai/outputs*' -not -path .git/index -type f -printf '%p %m ' \
         -exec sha256sum {} \\; | sort",
    )
}

fn attack(user: Option<&Unprivileged>) -> (usize, Vec<&'static str>) {
    let engine = Engine::start();
    // The socket of the engine is open to the ordinary user.
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(engine.folder.path(), open).expect("a folder");
    let socket = engine.folder.path().join("s");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).expect("a socket");
    let name = format!("piton-container-{}-{}", std::process::id(), user.is_some());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _abstract = UnixListener::bind_addr(&address).expect("a socket");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();

    let config =
        "image: alpine:3\nvolumes: [\".:/project\"]\nworking_dir: /project\ncommand: [sh, all.sh]";
    let mut project = container(engine.project(), "attack", config, "")
        .file("all.sh", RUN_ALL)
        .file("call.c", CALL);
    let out = project
        .root()
        .parent()
        .expect("a folder")
        .display()
        .to_string();
    let begin = format!(
        "OUT={out}\nHOST={}\nENGINE={}\nNAME={name}\nPORT={port}\nTERMINAL=/dev/pts/0\n",
        engine.service.id(),
        socket.display()
    );
    let all = of_this_processor(&ATTACKS);
    for (name, act) in all
        .iter()
        .copied()
        .chain(of_this_processor(&UP_TO_THE_ENGINE))
    {
        project = project.file(&format!("acts/{name}"), format!("{begin}{act}\n"));
    }
    project
        .bash("cc -static -o call call.c; echo whole > ../victim; touch -d 2001-01-01 ../victim");
    let project = project.committed();
    let run = || {
        let words = ["tool", "run", "attack", "--format", "json"];
        match user {
            None => project.piton(words),
            Some(user) => user.piton(&project, &words),
        }
    };
    if let Some(user) = user {
        user.own(&project);
    }
    let before = victims(&project);
    let ran = run();
    assert_eq!(ran.code(), Some(0), "{ran}");
    let result = ran.last_json();
    let told = result["result"]["stdout"].as_str().expect("text");
    let refused: BTreeSet<&str> = told
        .lines()
        .filter_map(|line| line.strip_prefix("refused "))
        .collect();
    let wanted: BTreeSet<&str> = all.iter().map(|(name, _)| *name).collect();
    let worked: Vec<&&str> = wanted.difference(&refused).collect();
    assert!(worked.is_empty(), "{worked:?}\n{ran}");
    assert_eq!(victims(&project), before, "{ran}");
    let names = UP_TO_THE_ENGINE.iter().map(|(name, _)| *name);
    let worked = names.filter(|name| !refused.contains(name)).collect();
    (wanted.len(), worked)
}

fn report(who: &str, (refused, worked): (usize, Vec<&str>)) {
    let mut told = std::io::stdout();
    let worked = if worked.is_empty() {
        "none".to_owned()
    } else {
        worked.join(", ")
    };
    writeln!(
        told,
        "{who}: {refused} attacks refused by the container; up to the engine and possible there: {worked}"
    )
    .expect("stdout");
}

#[test]
fn a_container_refuses_attacks_of_tools() {
    report("same user", attack(None));
}

#[test]
fn a_container_refuses_attacks_of_tools_of_an_ordinary_user() {
    report("ordinary user", attack(Some(&Unprivileged::someone())));
}

#[test]
fn daemons_and_fork_bombs_end_with_the_container() {
    let engine = Engine::start();
    let config = "image: alpine:3\nvolumes: [\".:/project\"]\nworking_dir: /project\nlimits: {processes: 30}\n\
                  timeout: 60\ncommand: [sh, bomb.sh]";
    let bomb = "echo began\n(setsid sleep 91357 > /dev/null 2>&1 &)\n\
                i=0; while [ $i -lt 60 ]; do sleep 91357 & i=$((i + 1)); done\necho all of them";
    let project = container(engine.project(), "bomb", config, "")
        .file("bomb.sh", bomb)
        .committed();
    let (ran, result) = super::run(&project, &["bomb", "--checkpoint", "auto"]);
    // The shell gives up when it cannot start another process.
    assert_ne!(ran.code(), Some(0), "{ran}");
    let said = result["stdout"].as_str().unwrap_or_default();
    assert_eq!(said, "began\n", "{ran}");
    super::assert_nothing_left(&engine, &project);
    assert!(!project.bash("ps -eo args").contains("sleep 91357"));
}
