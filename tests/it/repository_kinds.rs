//! Kinds of repositories: each is served, or refused by name.

mod agents;
mod arrangement;
pub(crate) mod life;
mod partial;
mod reftable;
mod sha256;
mod sparse;
mod split;

use crate::harness::{MEETING, Ran, TestProject};

fn exec(project: &TestProject, script: &str) -> Ran {
    let ran = project.exec(script);
    assert_eq!(ran.code(), Some(0), "{ran}");
    ran
}

#[test]
fn a_head_that_leads_to_a_branch_by_another_name_is_supported() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    project.bash(
        "git symbolic-ref refs/heads/alias refs/heads/main; git symbolic-ref HEAD refs/heads/alias",
    );
    exec(&project, "echo b >> a.txt");
    assert_eq!(
        project.git(["log", "--format=%s", "main"]).lines().count(),
        2
    );
    assert_eq!(
        project.read(".git/HEAD").trim(),
        "ref: refs/heads/alias",
        "HEAD still leads to the alias"
    );
    project.assert_clean();
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert_eq!(project.read("a.txt"), "a\n");
    assert_eq!(project.piton(["verify"]).code(), Some(0));
}

/// Runs a script as one of two users of the same group, each with their own home.
fn as_user(project: &TestProject, user: &str, script: &str) -> Ran {
    let root = project.root();
    let home = root.with_file_name(format!("home-{user}"));
    let mut command = project.hermetic("setpriv", &root);
    command
        .args([
            "--reuid",
            user,
            "--regid",
            "2000",
            "--clear-groups",
            "bash",
            "-euc",
            script,
        ])
        .env("HOME", &home)
        .env("GIT_CONFIG_GLOBAL", home.join(".gitconfig"))
        .env("PITON", root.with_file_name("piton"));
    project.ran(command.output().expect("setpriv starts"))
}

#[test]
fn a_shared_repository_stays_shared() {
    assert!(
        rustix::process::geteuid().is_root(),
        "two users can only be tried as root"
    );
    let project = TestProject::without_git();
    project.bash(
        "chmod 755 ..; chown 1001:2000 .; chmod 2775 .
         for user in 1001 1002; do
           mkdir ../home-$user; chown $user:2000 ../home-$user
           printf '[user]\\nname = %s\\nemail = %s@example.org\\n[safe]\\ndirectory = *\\n' $user $user > ../home-$user/.gitconfig
         done",
    );
    // The build folder may be closed to other users.
    std::fs::copy(
        env!("CARGO_BIN_EXE_piton"),
        project.root().with_file_name("piton"),
    )
    .expect("a copy of piton");
    let one = |script: &str| as_user(&project, "1001", script);
    let two = |script: &str| as_user(&project, "1002", script);
    let begin = "umask 022; git init -q --shared=group; umask 002; echo a > a.txt; git add a.txt; git commit -qm a";
    assert_eq!(one(begin).code(), Some(0), "{}", one(begin));
    // Hundreds of files create objects in almost every object folder.
    let many = "umask 022; \"$PITON\" exec -- sh -c 'umask 002; for i in $(seq 400); do echo $i > f$i; done'";
    let ran = one(many);
    assert_eq!(ran.code(), Some(0), "{ran}");
    for script in [
        "for i in $(seq 400); do echo two $i > f$i; done; git add -A; git commit -qm two",
        "\"$PITON\" exec -- sh -c 'umask 002; echo more >> a.txt'",
        "\"$PITON\" undo",
        "\"$PITON\" log; \"$PITON\" verify",
    ] {
        let ran = two(script);
        assert_eq!(ran.code(), Some(0), "{script}: {ran}");
    }
    let ran =
        one("\"$PITON\" exec -- sh -c 'echo third >> a.txt'; \"$PITON\" gc; git fsck --strict");
    assert_eq!(ran.code(), Some(0), "{ran}");
    let left = project.bash("find .git -type d ! -perm -2070");
    assert_eq!(left, "", "folders that the group may not use");
}

#[test]
fn a_repository_at_another_place_keeps_its_past() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    exec(&project, "echo b >> a.txt");
    exec(&project, "echo c >> a.txt");
    project.bash("mkdir ../moved; cp -a . ../moved/deep");
    let moved = project.root().with_file_name("moved").join("deep");
    let there = |arguments: &[&str]| {
        let mut command = project.hermetic(env!("CARGO_BIN_EXE_piton"), &moved);
        project.ran(command.args(arguments).output().expect("piton starts"))
    };
    for undone in ["a\nb\n", "a\n"] {
        let ran = there(&["undo"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(
            std::fs::read_to_string(moved.join("a.txt")).expect("a file"),
            undone
        );
    }
    assert_eq!(there(&["redo"]).code(), Some(0));
    assert_eq!(there(&["status"]).code(), Some(0));
    assert_eq!(there(&["verify"]).code(), Some(0));
    assert_eq!(
        project.read("a.txt"),
        "a\nb\nc\n",
        "the original is untouched"
    );
}

#[test]
fn a_lock_of_another_process_on_the_branch_stays() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    project.bash("echo mine > .git/refs/heads/main.lock");
    let ran = project.piton([
        "exec",
        "--format",
        "json",
        "--",
        "sh",
        "-c",
        "echo b >> a.txt",
    ]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.to_string().contains("REF_LOCKED"), "{ran}");
    assert_eq!(project.read(".git/refs/heads/main.lock"), "mine\n");
    project.bash("rm .git/refs/heads/main.lock");
    assert_eq!(
        project.piton(["undo"]).code(),
        Some(0),
        "the changes were on disk"
    );
    exec(&project, "echo c >> a.txt");
    assert_eq!(
        project.bash("find .git -name '*.lock' -o -path '*ref-locks/*'"),
        ""
    );
    project.git(["fsck", "--strict"]);
}

/// The reflogs of the branch and of HEAD, without times.
fn reflogs(project: &TestProject) -> String {
    project.bash("sed 's/> [0-9]* /> /' .git/logs/HEAD .git/logs/refs/heads/main | sed 's/^[0-9a-f]* [0-9a-f]* //'")
}

#[test]
fn moving_a_branch_writes_the_logs_that_git_writes() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    let before = reflogs(&project).lines().count();
    exec(&project, "echo b >> a.txt");
    let logs = reflogs(&project);
    assert_eq!(logs.lines().count(), before + 2, "{logs}");
    assert_eq!(
        logs.lines()
            .filter(|line| line.contains("\tpiton: "))
            .count(),
        2,
        "{logs}"
    );
    assert_eq!(
        project.git(["rev-parse", "HEAD@{1}"]),
        project.git(["rev-parse", "HEAD~1"])
    );
    assert_eq!(
        project.git(["rev-parse", "main@{1}"]),
        project.git(["rev-parse", "HEAD~1"])
    );
    // A packed ref, and an empty folder in its place.
    project
        .bash("git pack-refs --all; mkdir -p .git/refs/heads; rm -f .git/refs/heads/main; mkdir .git/refs/heads/main");
    exec(&project, "echo c >> a.txt");
    assert_eq!(project.git(["log", "--format=%s"]).lines().count(), 3);
    project.bash("git config core.logAllRefUpdates false; rm -r .git/logs");
    exec(&project, "echo d >> a.txt");
    assert!(
        !project.root().join(".git/logs").exists(),
        "no log is begun that the user does not want"
    );
}

/// A copy has the journal of a run that goes on in the original.
#[test]
fn recovering_a_copy_leaves_the_run_of_the_original_alone() {
    let project = TestProject::new().file("its.txt", "one\n").committed();
    let script = format!("echo step >> its.txt; {MEETING}; echo late >> its.txt");
    let recover = format!(
        "cp -a . ../copy; '{}' -C ../copy recover",
        env!("CARGO_BIN_EXE_piton")
    );
    let ran = project.piton_while(&recover, ["exec", "--", "sh", "-c", &script]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["show", "HEAD:its.txt"]),
        "one\nstep\nlate\n",
        "{ran}"
    );
}

/// Without hard links piton could not tell its own lock from that of another program.
#[test]
fn a_file_system_without_hard_links_is_refused_before_the_command_runs() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    for (mode, error) in [("auto", "EPERM"), ("explicit", "EOPNOTSUPP")] {
        let inject = format!("inject=link,linkat:error={error}");
        let exec = [
            "exec",
            "--checkpoint",
            mode,
            "--",
            "sh",
            "-c",
            "echo b >> a.txt",
        ];
        let refused = project
            .command_under("strace", ["-qq", "-o", "/dev/null", "-e", &inject])
            .args(exec)
            .output()
            .expect("strace starts");
        let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.contains("a file system without hard links"),
            "{mode}: {refused}"
        );
        assert_eq!(project.read("a.txt"), "a\n", "{mode}");
        assert_eq!(project.git(["status", "--porcelain"]), "", "{mode}");
    }
    exec(&project, "echo b >> a.txt");
    assert_eq!(project.git(["show", "HEAD:a.txt"]), "a\nb\n");
}
