//! What a crash leaves besides files: processes, locks, and a user who continues to work.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::scene::{Scene, WORK, was_killed};

/// Waits for a file that a process is about to write, and reads it.
pub(crate) fn awaited(path: &Path) -> String {
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => sleep(Duration::from_millis(5)),
        }
    }
}

/// Whether a process is running, and not a zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']) && !rest.is_empty())
}

/// A command that writes endlessly, beside a process that has left its process group.
fn endless(scene: &Scene) -> String {
    let tmp = scene.project.root().with_file_name("tmp");
    format!(
        "cd '{}'; setsid bash -c 'echo $$ > ../tmp/escaped; while :; do sleep 0.02; done' & \
         echo begun > begun.txt; rm gone.txt; echo $$ > '{}/leader'; while :; do echo x >> ticks.txt; sleep 0.02; done",
        scene.project.root().display(),
        tmp.display()
    )
}

#[test]
fn a_command_that_outlives_piton_is_stopped_and_rolled_back() {
    let scene = Scene::new();
    let before = scene.picture();
    let tmp = scene.project.root().with_file_name("tmp");
    let mut command = scene
        .project
        .command(["exec", "--", "bash", "-c", &endless(&scene)]);
    let mut piton = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    let pids = [awaited(&tmp.join("leader")), awaited(&tmp.join("escaped"))];
    awaited(&scene.project.root().join("ticks.txt"));
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    let ran = scene.project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        pids.map(|pid| is_alive(&pid)),
        [false, false],
        "the command still runs"
    );
    let picture = scene.picture();
    assert!(
        picture == before,
        "{ran}\nfound {picture:?}\nexpected {before:?}"
    );
    scene.assert_sound("a command that outlives piton", &picture);
}

#[test]
fn a_command_does_not_run_before_its_start_is_recorded() {
    for place in ["journal-append:3", "tool-announced"] {
        let scene = Scene::new();
        let before = scene.picture();
        assert!(
            was_killed(&scene.armed(&["exec", "--", "bash", "-c", &endless(&scene)], place)),
            "{place}"
        );
        // Changes that the user makes from now on belong to the user, however soon they come.
        scene.project.bash("echo mine > soon.txt");
        let ran = scene.project.piton(["recover"]);
        assert_eq!(ran.code(), Some(0), "{place}: {ran}");
        assert_eq!(scene.project.read("soon.txt"), "mine\n", "{place}: {ran}");
        scene.project.bash("rm soon.txt");
        let picture = scene.picture();
        assert!(
            picture == before,
            "{place}: {ran}\nfound {picture:?}\nexpected {before:?}"
        );
    }
}

#[test]
fn files_that_the_user_changes_after_a_crash_are_kept_even_if_the_recovery_crashes() {
    const USERS: &str = "echo later >> mine.txt; echo later > later.txt; rm private.txt; echo later > private.txt; \
         rm -rf folder; echo later > folder";
    let twin = Scene::new();
    twin.project.bash(USERS);
    let scene = Scene::new();
    // The step replaced a folder by a file, which the user then edits, so the folder cannot be
    // restored.
    let step = "echo new line >> edited.txt; rm gone.txt; echo made > made.txt; rm -r folder; echo file > folder";
    assert!(was_killed(
        &scene.armed(&["exec", "--", "bash", "-c", step], "tool-ended")
    ));
    // Changes within three seconds of the death count as the step's, and inode change times cannot
    // be set, so wait.
    sleep(Duration::from_secs(5));
    scene.project.bash(USERS);
    assert!(was_killed(&scene.armed(&["recover"], "restore-path:1")));
    let ran = scene.project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let (picture, expected) = (scene.picture(), twin.picture());
    assert!(
        picture == expected,
        "{ran}\nfound {picture:?}\nexpected {expected:?}"
    );
    scene.assert_sound("later changes", &picture);
    let verified = scene.project.piton(["verify", "--all"]);
    assert_eq!(verified.code(), Some(0), "{verified}");
}

#[test]
fn gc_and_log_work_after_a_run_that_died_before_its_first_line() {
    let scene = Scene::new();
    assert!(was_killed(
        &scene.armed(&["exec", "--", "true"], "journal-folder-made")
    ));
    for command in [
        ["recover"].as_slice(),
        &["gc"],
        &["log"],
        &["verify", "--all"],
    ] {
        let ran = scene.project.piton(command);
        assert_eq!(ran.code(), Some(0), "{command:?}: {ran}");
        assert!(!ran.stderr().contains("cannot read"), "{command:?}: {ran}");
    }
}

/// The user runs a git command right after the crash, without `piton recover`.
#[test]
fn git_is_not_blocked_by_the_locks_of_a_piton_that_was_killed() {
    let mut kills = 0;
    for place in [
        "index-locked",
        "index-written",
        "commit-decided",
        "ref-locked",
        "commit-ref-moved",
    ] {
        let scene = Scene::new();
        assert!(
            was_killed(&scene.armed(&["exec", "--", "bash", "-c", WORK], place)),
            "{place}"
        );
        let locks = ["index.lock", "refs/heads/main.lock"]
            .map(|name| scene.project.root().join(".git").join(name));
        let deadline = Instant::now() + Duration::from_secs(30);
        while locks.iter().any(|lock| lock.exists()) {
            assert!(Instant::now() < deadline, "{place}: a lock stays");
            sleep(Duration::from_millis(1));
        }
        scene
            .project
            .bash("echo later > later.txt; git add later.txt; git commit -qm later -- later.txt");
        let ran = scene.project.piton(["recover"]);
        assert!(matches!(ran.code(), Some(0 | 1)), "{place}: {ran}");
        assert_eq!(scene.project.read("later.txt"), "later\n", "{place}: {ran}");
        scene.project.git(["fsck", "--full", "--strict"]);
        kills += 1;
    }
    super::chance::tally("kills at places", kills);
}

#[test]
fn the_lock_of_another_program_stays_when_piton_is_killed() {
    let scene = Scene::new();
    let lock = scene.project.root().join(".git/refs/heads/main.lock");
    fs::write(&lock, "of another program").expect("a lock");
    // Without git in the step: a killed git leaves its own index lock.
    let mut command =
        scene
            .project
            .command(["exec", "--", "bash", "-c", "echo new line >> edited.txt"]);
    let mut piton = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    // piton waits for this lock while it holds the index lock.
    let index = scene.project.root().join(".git/index.lock");
    while !index.exists() && piton.try_wait().expect("a child").is_none() {
        sleep(Duration::from_millis(1));
    }
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    let deadline = Instant::now() + Duration::from_secs(30);
    while index.exists() {
        assert!(Instant::now() < deadline, "the lock of the index stays");
        sleep(Duration::from_millis(1));
    }
    assert_eq!(
        fs::read_to_string(&lock).expect("the lock"),
        "of another program"
    );
}

#[test]
fn a_branch_lock_of_another_program_stays_whatever_it_holds() {
    let scene = Scene::new();
    assert!(was_killed(
        &scene.armed(&["exec", "--", "bash", "-c", WORK], "commit-decided")
    ));
    // Git's lock is empty until git writes the new commit into it.
    for held in ["git rev-parse HEAD", ":"] {
        scene.project.bash(&format!(
            "{held} > .git/refs/heads/main.lock; cp .git/refs/heads/main.lock .git/as-it-was"
        ));
        let refused = scene.project.piton(["recover"]);
        assert_eq!(refused.code(), Some(5), "{refused}");
        assert!(refused.stderr().contains("main.lock"), "{refused}");
        scene
            .project
            .bash("cmp .git/as-it-was .git/refs/heads/main.lock");
    }
    scene
        .project
        .bash("rm .git/refs/heads/main.lock .git/as-it-was");
    let ran = scene.project.piton(["recover"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(scene.project.git(["rev-list", "--count", "HEAD"]), "2\n");
    scene.assert_sound("a lock on the branch", &scene.picture());
}

/// The mark is no lock: git never looks at it. So the commit is a success, and the next command removes the mark.
#[test]
fn a_mark_of_the_index_lock_that_the_disk_keeps_is_removed_by_the_next_command() {
    let scene = Scene::new();
    let mark = scene.project.root().join(".git/piton/index-lock");
    let path = mark.to_string_lossy().into_owned();
    let head = || scene.project.git(["rev-parse", "HEAD"]);
    for next in [&["recover"][..], &["exec", "--", "true"]] {
        let before = head();
        let options = ["-qq", "-o", "/dev/null", "-P", &path];
        let failing = ["-e", "inject=unlink,unlinkat:error=EIO"];
        let mut strace = scene
            .project
            .command_under("strace", options.into_iter().chain(failing));
        strace.args(["exec", "--", "sh", "-c", "echo more >> clean.txt"]);
        let ran = scene.project.ran(strace.output().expect("strace starts"));
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_ne!(head(), before);
        assert!(mark.exists(), "{ran}");
        scene
            .project
            .bash("git commit --quiet --allow-empty --message probe");
        let ran = scene.project.piton(next);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(!mark.exists(), "{ran}");
    }
}
