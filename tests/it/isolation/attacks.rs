//! The list of attacks, run as root and as an ordinary user. Each one that does no harm also runs at
//! `trusted`, where it must work: otherwise it would say nothing about `standard`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{ATTACKS, PITON, outside, victims};
use crate::harness::{Ran, TestProject};
use crate::hazards::unprivileged::Unprivileged;

/// Whether an attack works at `trusted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Works,
    /// It is refused at every level, by piton or by the system, or it would break the project.
    None,
}

/// Acts on the system and on other processes, which must fail at `standard`. `$THIRD` is a process of the
/// user that piton did not start, `$TERMINAL` its terminal, `$SHARED` its shared memory, `$ENGINE` the
/// socket of an engine.
const MORE: [(&str, &str, Control); 26] = [
    ("mode", "chmod 600 $OUT/victim", Control::Works),
    ("time", "touch -d 2002-02-02 $OUT/victim", Control::Works),
    (
        "owner",
        "chown \"$(id -u)\" $OUT/victim; chgrp \"$(id -g)\" $OUT/victim",
        Control::Works,
    ),
    (
        "attribute",
        "python3 -c 'import os; os.setxattr(\"'$OUT'/victim\", \"user.x\", b\"x\")'",
        Control::None,
    ),
    ("third_signal", "kill -CONT $THIRD", Control::Works),
    (
        "third_environment",
        "head -c 1 /proc/$THIRD/environ > /dev/null",
        Control::Works,
    ),
    (
        "third_memory",
        "head -c 1 /proc/$THIRD/maps > /dev/null",
        Control::Works,
    ),
    (
        "third_descriptors",
        "ls -l /proc/$THIRD/fd/",
        Control::Works,
    ),
    ("third_folder", "ls /proc/$THIRD/cwd/", Control::Works),
    (
        "third_trace",
        "call(101, 0x4206, THIRD, 0, 0)",
        Control::Works,
    ),
    (
        "piton_trace",
        "call(101, 0x4206, PITON, 0, 0)",
        Control::None,
    ),
    (
        "third_limits",
        "prlimit --pid $THIRD --core=0",
        Control::Works,
    ),
    (
        "piton_limits",
        "prlimit --pid $piton --nofile=3",
        Control::None,
    ),
    ("io_uring", "call(425, 8, bytes(120))", Control::None),
    (
        "bpf",
        "call(321, 0, b'\\1\\0\\0\\0\\4\\0\\0\\0\\4\\0\\0\\0\\1\\0\\0\\0' + bytes(56), 72)",
        Control::None,
    ),
    // Asks for the state of shared memory.
    (
        "shared_memory",
        "call(31, SHARED, 2, bytes(200))",
        Control::Works,
    ),
    ("page_faults", "call(323, 1)", Control::Works),
    (
        "key",
        "call(248, b'user', b'piton-attack', b'x', 1, -2)",
        Control::Works,
    ),
    ("keyring", "call(250, 0, -4, 1)", Control::Works),
    (
        "mount",
        "unshare -rm mount -t tmpfs none /mnt",
        Control::None,
    ),
    ("new_mount", "call(430, b'tmpfs', 0)", Control::None),
    ("module", "call(313, 0, b'', 0)", Control::None),
    ("device", "mknod disk b 8 0", Control::None),
    ("terminal", "printf x > $TERMINAL", Control::Works),
    (
        "engine",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"'$ENGINE'\")'",
        Control::Works,
    ),
    (
        "kernel_setting",
        "echo 1 > /proc/sys/kernel/core_uses_pid",
        Control::None,
    ),
];

/// Makes a system call from Python; on other processors the numbers differ.
fn script_of(act: &str) -> String {
    if act.starts_with("call(") {
        format!(
            "python3 - <<END\nimport ctypes, os, sys\nTHIRD, PITON, SHARED = $THIRD, $piton, $SHARED\n\
             def call(number, *words):\n    libc = ctypes.CDLL(None, use_errno=True)\n\
             \x20   words = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]\n\
             \x20   answer = libc.syscall(ctypes.c_long(number), *words)\n\
             \x20   if answer < 0:\n        sys.exit(os.strerror(ctypes.get_errno()))\n{act}\nEND"
        )
    } else {
        act.to_owned()
    }
}

/// All attacks of this processor.
fn all() -> impl Iterator<Item = (&'static str, &'static str, Control)> {
    let plain = ATTACKS.map(|(name, act)| (name, act, Control::None));
    let has_number = |act: &str| cfg!(target_arch = "x86_64") || !act.starts_with("call(");
    let all = plain.into_iter().chain(MORE);
    all.filter(move |(_, act, _)| has_number(act))
}

/// A process of the user with a terminal of its own.
struct Third {
    child: Child,
    terminal: String,
}

impl Third {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a process");
        let mut terminal = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output)
            .read_line(&mut terminal)
            .expect("its terminal");
        Self {
            child,
            terminal: terminal.trim().to_owned(),
        }
    }
}

impl Drop for Third {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints `TERMINAL SHARED=MEMORY`, as part of a script. The memory is gone when the process ends.
const THIRD: &str = "import ctypes, os, pty, time\n\
    a, b = pty.openpty()\n\
    libc = ctypes.CDLL(None)\n\
    shared = libc.shmget(0, 4096, 0o600)\n\
    libc.shmat(shared, None, 0)\n\
    libc.shmctl(shared, 0, None)\n\
    print(f'{os.ttyname(b)} SHARED={shared}', flush=True)\n\
    time.sleep(600)";

struct Attacked {
    project: TestProject,
    user: Option<Unprivileged>,
    victim: PathBuf,
    _third: Third,
    _engine: UnixListener,
}

impl Attacked {
    /// A project with a tool for each attack, at this level and at `trusted`.
    fn new(user: Option<Unprivileged>, level: &str) -> Self {
        let mut project = TestProject::new().file("kept.txt", "kept\n");
        let out = outside(&project);
        let socket = out.join("engine.sock");
        let engine = UnixListener::bind(&socket).expect("a socket");
        project = project.variable("DOCKER_HOST", &format!("unix://{}", socket.display()));
        let mut python = match &user {
            Some(user) => user.program(&project, "/usr/bin/python3"),
            None => project.hermetic("/usr/bin/python3", &project.root()),
        };
        let third = Third::start(python.args(["-c", THIRD]));
        let begin = format!(
            "OUT={}\nENGINE={}\nTHIRD={}\nTERMINAL={}\n{PITON}",
            out.display(),
            socket.display(),
            third.child.id(),
            third.terminal,
        );
        for (name, act, control) in all() {
            let script = format!("{begin}set -e\n{}\n", script_of(act));
            project = project.tool(name, &format!("isolation: {level}"), &script);
            if control == Control::Works {
                project = project.tool(&format!("{name}_trusted"), "isolation: trusted", &script);
            }
        }
        let victim = out.join("victim");
        fs::write(&victim, "whole\n").expect("a file");
        let project = project.committed();
        project.bash(&format!("touch -d 2001-01-01 {}", victim.display()));
        Self {
            project,
            user,
            victim,
            _third: third,
            _engine: engine,
        }
    }

    fn run(&self, tool: &str) -> Ran {
        let words = ["tool", "run", tool];
        match &self.user {
            Some(user) => user.piton(&self.project, &words),
            None => self.project.piton(words),
        }
    }

    /// The victims, with what could have been changed about them.
    fn state(&self) -> String {
        let project = &self.project;
        if let Some(user) = &self.user {
            user.own(project);
        }
        let victim = self.victim.display();
        format!(
            "{}{}",
            victims(project),
            project.bash(&format!("stat -c '%a %u %Y' {victim}"))
        )
    }

    /// Runs all attacks and looks at the victims at the end; returns how many were refused.
    fn attack_together(&self) -> usize {
        self.run("third_signal_trusted");
        let before = self.state();
        let names = all().map(|(name, act, _)| {
            let ran = self.run(name);
            assert_eq!(ran.code(), Some(1), "{act}\n{ran}");
            self.project.bash("rm -f link hard disk");
        });
        let refused = names.count();
        assert_eq!(self.state(), before);
        refused
    }

    /// Runs all attacks; returns how many were refused, and how many of those work at `trusted`.
    fn attack(&self) -> (usize, usize) {
        // The first run makes the key of journals.
        self.run("third_signal_trusted");
        let before = self.state();
        let (mut refused, mut controlled) = (0, 0);
        for (name, act, control) in all() {
            let ran = self.run(name);
            assert_eq!(ran.code(), Some(1), "{act}\n{ran}");
            assert_eq!(self.state(), before, "{act}\n{ran}");
            self.project.bash("rm -f link hard disk");
            refused += 1;
            if control == Control::Works {
                let ran = self.run(&format!("{name}_trusted"));
                assert_eq!(ran.code(), Some(0), "trusted: {act}\n{ran}");
                controlled += 1;
                let victim = self.victim.display();
                self.project
                    .bash(&format!("chmod 644 {victim}; touch -d 2001-01-01 {victim}"));
            }
        }
        (refused, controlled)
    }
}

fn attack(who: &str, user: Option<Unprivileged>) {
    let (refused, controlled) = Attacked::new(user, "standard").attack();
    writeln!(
        std::io::stdout(),
        "{who}: {refused} attacks refused by the kernel at `standard`, {controlled} of them tried and possible at `trusted`"
    )
    .expect("stdout");
}

#[test]
fn the_kernel_refuses_attacks_of_tools() {
    attack("same user", None);
}

#[test]
fn the_kernel_refuses_attacks_of_tools_of_an_ordinary_user() {
    attack("ordinary user", Some(Unprivileged::someone()));
}

#[test]
fn the_kernel_refuses_attacks_at_the_strictest_level() {
    let user = Some(Unprivileged::someone());
    let refused = Attacked::new(user, "restricted").attack_together();
    writeln!(
        std::io::stdout(),
        "ordinary user: {refused} attacks refused by the kernel at `restricted`"
    )
    .expect("stdout");
}
