//! Logs of runs that hold too much, and a `pre-receive` that cannot end its check: nothing lands
//! that was not checked, and memory stays bounded.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Ran, TestProject};

/// The log of a run that does not exist.
const LOG: &str = "refs/piton/runs/01k9x2bf000000000000000000/log";

/// The most memory in KiB that the hook may need for any push. The lines of one commit, one line and
/// the program itself are in it.
const MOST_MEMORY: u64 = 256 * 1024;

/// Runs piton as the hook and notes how much memory it needed.
const METER: &str = "#!/usr/bin/env python3\n\
    import os, resource, subprocess, sys\n\
    code = subprocess.run(['PITON', 'hooks', 'run', 'pre-receive', '--']).returncode\n\
    open('../usage', 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\n\
    sys.exit(code if code >= 0 else 128 - code)\n";

/// A project with a forged commit, and a remote with an installed hook that must refuse it.
fn project() -> TestProject {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    project.bash("git init -q --bare --initial-branch=main ../remote.git; git remote add origin ../remote.git; git push -q origin main");
    project
        .piton(["-C", "../remote.git", "hooks", "install"])
        .succeeded();
    project.bash("git commit -q --allow-empty -m 'words\n\n[directive: release]'");
    project
}

/// Replaces the program that the installed hook starts.
fn start_instead(project: &TestProject, script: &str) {
    let program = project.root().join("../instead");
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let stub = project.root().join("../remote.git/hooks/pre-receive");
    let text = fs::read_to_string(&stub).expect("a stub");
    let program = format!("piton_program='{}'", program.display());
    let line = |line: &str| {
        if line.starts_with("piton_program='/") {
            program.clone()
        } else {
            line.to_owned()
        }
    };
    let text: Vec<String> = text.lines().map(line).collect();
    fs::write(&stub, text.join("\n") + "\n").expect("a stub");
}

/// Pushes a log and the forged commit together. Both must be refused.
fn push_with(project: &TestProject, log: &str) -> Ran {
    let ran = project.try_git(["push", "-q", "origin", "main", log]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert_nothing_landed(project);
    ran
}

fn assert_nothing_landed(project: &TestProject) {
    let refs = project.git(["-C", "../remote.git", "log", "--all", "--format=%s"]);
    assert_eq!(refs, "start\n");
}

/// Makes the log of a single commit from what a command prints.
fn log_of(project: &TestProject, lines: &str) {
    project.bash(&format!(
        "blob=$({lines} | git -c core.compression=1 hash-object -w --stdin)
         tree=$(printf '100644 blob %s\\tevents.jsonl\\n' $blob | git mktree)
         git update-ref {LOG} $(git commit-tree -m log $tree)"
    ));
}

fn run_piton() -> String {
    format!("exec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_piton"))
}

#[test]
fn the_hook_reads_any_log_in_bounded_memory() {
    let project = project();
    start_instead(
        &project,
        &METER.replace("PITON", env!("CARGO_BIN_EXE_piton")),
    );
    for (lines, because) in [
        // 700 MB of text are a pack of 3 MB.
        (
            "head -c 700000000 /dev/zero | tr '\\0' a",
            "48 MiB in a commit",
        ),
        (
            "head -c 45000000 /dev/zero | tr '\\0' a",
            "32 MiB in a line",
        ),
        ("yes '' | head -c 45000000", "entry 1 cannot be read"),
        ("yes '{}' | head -c 45000000", "entry 1 cannot be read"),
        // Each value would need forty times its text.
        (
            "{ printf '{\"v\":2,\"x\":['; yes '0,' | tr -d '\\n' | head -c 30000000; echo '0]}'; }",
            "4000000 values in a line",
        ),
    ] {
        log_of(&project, lines);
        let ran = push_with(&project, LOG);
        assert!(ran.stderr().contains(because), "{because}: {ran}");
        let needed: u64 = project.read("../usage").parse().expect("a number");
        assert!(needed < MOST_MEMORY, "{because}: {needed} KiB");
    }
}

#[test]
fn the_hook_counts_commits_and_all_logs_of_a_push() {
    let project = project();
    start_instead(
        &project,
        &METER.replace("PITON", env!("CARGO_BIN_EXE_piton")),
    );
    // 20,001 commits with the same empty file.
    let mut stream = String::from("blob\nmark :1\ndata 0\n\n");
    for number in 0..20_001 {
        write!(
            stream,
            "commit {LOG}\nmark :{}\ncommitter piton <piton@localhost> 0 +0000\ndata 1\nx\n",
            number + 2
        )
        .expect("written");
        if number > 0 {
            writeln!(stream, "from :{}", number + 1).expect("written");
        }
        stream += "M 100644 :1 events.jsonl\n\n";
    }
    fs::write(project.root().join("../stream"), stream).expect("written");
    project.bash("git fast-import --quiet < ../stream");
    let ran = push_with(&project, LOG);
    assert!(ran.stderr().contains("20000 commits"), "{ran}");
    // Logs of 94 MB that share their content: 658 MB to read in a push of one.
    log_of(&project, "yes '{}' | head -c 47000000");
    project.bash(&format!(
        "git update-ref {LOG} $(git commit-tree -m more -p {LOG} {LOG}^{{tree}})"
    ));
    let names: Vec<String> = (1..7)
        .map(|number| format!("refs/piton/runs/01k9x2bf0000000000000000{number:02}/log"))
        .collect();
    for name in &names {
        project.git(["update-ref", name, LOG]);
    }
    let ran = push_with(&project, "refs/piton/runs/*:refs/piton/runs/*");
    assert!(ran.stderr().contains("LOG_TOO_LARGE"), "{ran}");
    let needed: u64 = project.read("../usage").parse().expect("a number");
    assert!(needed < MOST_MEMORY, "{needed} KiB");
    // Three thousand small logs.
    project.bash("for name in $(git for-each-ref --format='%(refname)' refs/piton); do git update-ref -d $name; done");
    log_of(&project, "echo '{}'");
    project.bash(&format!(
        "for number in $(seq 1000 3999); do echo \"create refs/piton/runs/01k9x2bf000000000000000$number/log $(git rev-parse {LOG})\"; done | git update-ref --stdin"
    ));
    let ran = push_with(&project, "refs/piton/runs/*:refs/piton/runs/*");
    assert!(ran.stderr().contains("2992 more reasons"), "{ran}");
    let needed: u64 = project.read("../usage").parse().expect("a number");
    assert!(needed < MOST_MEMORY, "{needed} KiB");
}

/// A hook that waits forever: it puts a pipe in the place of the pushed commit before piton reads it.
fn waiting_hook(project: &TestProject) -> String {
    let id = project.git(["rev-parse", "HEAD"]);
    let (folder, name) = id.trim().split_at(2);
    let object = format!("\"$GIT_QUARANTINE_PATH/{folder}/{name}\"");
    format!(
        "#!/bin/sh\nrm -f {object}; mkfifo {object}; echo $$ > ../pid.new; mv ../pid.new ../pid\n{}",
        run_piton()
    )
}

#[test]
fn a_check_that_does_not_end_in_time_refuses_the_push() {
    let project = project().variable("PITON_PRE_RECEIVE_SECONDS", "1");
    start_instead(&project, &waiting_hook(&project));
    let ran = project.try_git(["push", "-q", "origin", "main"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains("CHECK_TIMED_OUT"), "{ran}");
    assert_nothing_landed(&project);
    let project = project.variable("PITON_PRE_RECEIVE_SECONDS", "soon");
    let ran = project.try_git(["push", "-q", "origin", "main"]);
    assert!(ran.stderr().contains("is not a number of seconds"), "{ran}");
    assert_nothing_landed(&project);
}

/// Starts a push and waits until its check runs; returns the push.
fn waiting_push(project: &TestProject) -> Child {
    start_instead(project, &waiting_hook(project));
    let push = project
        .hermetic("git", &project.root())
        .args(["push", "-q", "origin", "main"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("git starts");
    let deadline = Instant::now() + Duration::from_mins(1);
    while !project.root().join("../pid").exists() {
        assert!(Instant::now() < deadline, "the hook does not begin");
        thread::sleep(Duration::from_millis(5));
    }
    push
}

#[test]
fn a_check_that_is_killed_refuses_the_push() {
    // A shell may start the tests with SIGINT or SIGHUP ignored, and the runtime of Rust survives one
    // SIGSEGV or SIGBUS that no fault caused, so these are not tried.
    for signal in ["KILL", "TERM", "ABRT", "XCPU", "ALRM", "SYS"] {
        let project = project();
        let push = waiting_push(&project);
        project.bash(&format!("kill -{signal} $(cat ../pid)"));
        let ran = project.ran(push.wait_with_output().expect("git ends"));
        assert_eq!(ran.code(), Some(1), "{signal}: {ran}");
        assert!(ran.stderr().contains("hook declined"), "{signal}: {ran}");
        assert_nothing_landed(&project);
    }
}

#[test]
fn a_check_without_memory_or_output_refuses_the_push() {
    let project = project();
    log_of(&project, "yes '{}' | head -c 40000000");
    for limits in [
        "ulimit -v 1000",
        "ulimit -v 20000",
        "ulimit -v 100000",
        "ulimit -v 200000",
        "ulimit -v 300000",
        "ulimit -d 30000",
        "ulimit -n 3",
        "ulimit -f 0",
        "ulimit -t 0",
        "ulimit -s 64",
        "exec 2>&-",
        "exec 1>&- 2>&-",
        "exec 2>/dev/full",
        "exec 2> >(exec 0<&-); sleep 0.1",
    ] {
        start_instead(&project, &format!("#!/bin/bash\n{limits}\n{}", run_piton()));
        push_with(&project, LOG);
        assert_eq!(
            project.try_git(["push", "-q", "origin", "main"]).code(),
            Some(1),
            "{limits}"
        );
        assert_nothing_landed(&project);
    }
}

#[test]
fn a_check_that_cannot_read_what_is_pushed_refuses_it() {
    let project = project();
    for input in [
        "exec 0<&-",
        "exec 0</dev/null",
        "exec 0<.",
        "exec 0< <(printf 'half a line')",
        "exec 0< <(yes '')",
    ] {
        start_instead(&project, &format!("#!/bin/bash\n{input}\n{}", run_piton()));
        let ran = project.try_git(["push", "-q", "origin", "main"]);
        assert_eq!(ran.code(), Some(1), "{input}: {ran}");
        assert!(ran.stderr().contains("hook declined"), "{input}: {ran}");
        assert_nothing_landed(&project);
    }
    // A hook that was there before, whose input the stub reads with a `cat` that is killed.
    let before = project
        .root()
        .join("../remote.git/hooks/pre-receive.before-piton");
    fs::write(&before, "#!/bin/sh\n").expect("written");
    fs::set_permissions(&before, fs::Permissions::from_mode(0o755)).expect("executable");
    project.bash(
        "mkdir ../bin; printf '#!/bin/sh\\nkill -KILL $$\\n' > ../bin/cat; chmod +x ../bin/cat",
    );
    let path = format!("{}:/usr/bin:/bin", project.root().join("../bin").display());
    let ran = project
        .hermetic("git", &project.root())
        .args(["push", "-q", "origin", "main"])
        .env("PATH", path)
        .output()
        .expect("git starts");
    let ran = project.ran(ran);
    assert!(ran.stderr().contains("could not be read"), "{ran}");
    assert_nothing_landed(&project);
}
