//! `piton doctor`: working checks, and real faults.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Ran, TestProject};

/// Makes a repository that git knows and piton does not.
const UNSERVED: &str =
    "git init -q --object-format=sha256; git config extensions.compatObjectFormat sha1";

/// The checks of a report by their names.
fn checks(ran: &Ran) -> BTreeMap<String, Value> {
    let report: Value =
        serde_json::from_str(&ran.stdout()).unwrap_or_else(|err| panic!("{err}: {ran}"));
    let checks = report["checks"].as_array().expect("checks");
    checks
        .iter()
        .map(|check| {
            (
                check["name"].as_str().expect("a name").to_owned(),
                check.clone(),
            )
        })
        .collect()
}

fn status<'c>(checks: &'c BTreeMap<String, Value>, name: &str) -> &'c str {
    checks[name]["status"].as_str().expect("a status")
}

fn doctor(project: &TestProject) -> (Ran, BTreeMap<String, Value>) {
    let ran = project.piton(["doctor", "--format", "json"]);
    let checks = checks(&ran);
    (ran, checks)
}

/// A folder with some of the machine's programs, used as the whole search path.
fn programs(project: &TestProject, names: &[&str]) -> String {
    let folder = project.home().join("programs");
    fs::create_dir_all(&folder).expect("a folder");
    for name in names {
        let found = project.bash(&format!("command -v {name}"));
        symlink(found.trim(), folder.join(name)).expect("a link");
    }
    folder.to_str().expect("text").to_owned()
}

/// Every file below a folder with its content.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = walkdir::WalkDir::new(folder)
        .into_iter()
        .map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| {
            let bytes = if entry.file_type().is_file() {
                fs::read(entry.path()).expect("a file")
            } else {
                Vec::new()
            };
            (entry.path().to_string_lossy().into_owned(), bytes)
        })
        .collect()
}

#[test]
fn everything_that_is_needed_works_here_and_nothing_stays_behind() {
    let project = TestProject::new()
        .file("mine.txt", "mine\n")
        .committed()
        .file("mine.txt", "changed\n");
    let before = (contents(&project.root()), contents(&project.home()));
    let (ran, checks) = doctor(&project);
    assert_eq!(ran.code(), Some(0), "{ran}");
    for name in [
        "checkpoint",
        "supervision",
        "git",
        "python",
        "bash",
        "node",
        "virtual environments",
        "ssh-keygen",
    ] {
        assert_eq!(status(&checks, name), "ok", "{}", checks[name]);
    }
    for name in [
        "project",
        "settings",
        "repository",
        "identity",
        "operation",
        "locks",
        "file system",
        "home",
        "cache",
    ] {
        assert_eq!(status(&checks, name), "ok", "{}", checks[name]);
    }
    assert_eq!(checks["identity"]["detail"], "Test <test@example.com>");
    let after = (contents(&project.root()), contents(&project.home()));
    assert!(
        before == after,
        "{:?}",
        after
            .0
            .keys()
            .filter(|name| !before.0.contains_key(*name))
            .collect::<Vec<_>>()
    );
    let left = contents(&project.home().parent().unwrap().join("tmp"));
    assert_eq!(left.len(), 1, "{:?}", left.keys());
    project.git(["fsck", "--strict"]);
}

#[test]
fn people_see_groups_signs_and_what_to_do() {
    let project = TestProject::new();
    let ran = project.piton(["doctor"]);
    let text = ran.stdout();
    assert!(text.starts_with("The rope\n  ✓ checkpoint "), "{ran}");
    assert!(
        text.contains("\n\nPrograms\n") && text.contains("\n\nThis project\n"),
        "{ran}"
    );
    // Whether an engine answers depends on the machine.
    let has_engine = text
        .lines()
        .any(|line| line.contains(" containers ") && line.contains("answers at `"));
    assert!(
        has_engine || text.contains("neither Docker nor Podman responds"),
        "{ran}"
    );
    assert!(!text.contains("tried:"), "{ran}");
    assert!(ran.stderr().starts_with("✓ piton works here: "), "{ran}");
    assert!(
        project
            .piton(["doctor", "-v"])
            .stdout()
            .contains("tried: git --version\n")
    );
}

#[test]
fn programs_that_are_missing_are_named_with_what_does_not_work_and_piton_continues() {
    let project = TestProject::new();
    let path = programs(&project, &["sleep"]);
    let project = project.variable("PATH", &path);
    let (ran, checks) = doctor(&project);
    assert_eq!(ran.code(), Some(0), "{ran}");
    for name in [
        "git",
        "python",
        "virtual environments",
        "bash",
        "node",
        "ssh-keygen",
    ] {
        assert_eq!(
            (status(&checks, name), checks[name]["needed"].as_bool()),
            ("missing", Some(false)),
            "{name}"
        );
        assert!(
            checks[name]["hint"]
                .as_str()
                .is_some_and(|hint| hint.starts_with("install ")),
            "{}",
            checks[name]
        );
    }
    assert!(
        checks["git"]["detail"]
            .as_str()
            .unwrap()
            .contains("there is no program `git`"),
        "{}",
        checks["git"]
    );
    assert_eq!(
        status(&checks, "checkpoint"),
        "ok",
        "checkpoints need no git program"
    );
    assert!(project.piton(["doctor"]).stdout().contains("\n  ! python "));
}

#[test]
fn an_interpreter_that_hangs_is_reported_and_not_waited_for() {
    let project = TestProject::new();
    let path = programs(&project, &["sleep", "bash", "node", "git", "ssh-keygen"]);
    let python = Path::new(&path).join("python3");
    fs::write(&python, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let project = project.variable("PATH", &path);
    let ran = project.piton(["doctor", "--timeout", "8", "--format", "json"]);
    let checks = checks(&ran);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        checks["python"]["detail"],
        "tool `python` took longer than 8 s and was stopped: tools in Python do not run"
    );
    assert!(
        checks["virtual environments"]["detail"]
            .as_str()
            .unwrap()
            .starts_with("`python3` did not answer within 8 s")
    );
    assert_eq!(status(&checks, "bash"), "ok", "{}", checks["bash"]);
}

#[test]
fn a_cache_that_cannot_be_written_is_reported() {
    let project = TestProject::new();
    let cache = project.home().join(".cache/piton");
    fs::create_dir_all(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o555)).unwrap();
    let ran = project.piton_bound(["doctor", "--format", "json"]);
    let checks = checks(&ran);
    assert_eq!(
        (
            ran.code(),
            status(&checks, "cache"),
            status(&checks, "state")
        ),
        (Some(0), "missing", "ok"),
        "{ran}"
    );
    assert!(
        checks["cache"]["hint"]
            .as_str()
            .unwrap()
            .contains("XDG_CACHE_HOME")
    );
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn without_an_identity_piton_cannot_commit() {
    let project = TestProject::new();
    let output = project
        .command(["doctor", "--format", "json"])
        .env_remove("GIT_AUTHOR_NAME")
        .env_remove("GIT_AUTHOR_EMAIL")
        .env_remove("GIT_COMMITTER_NAME")
        .env_remove("GIT_COMMITTER_EMAIL")
        .output()
        .unwrap();
    let ran = project.ran(output);
    let checks = checks(&ran);
    assert_eq!(
        (ran.code(), status(&checks, "identity")),
        (Some(5), "missing"),
        "{ran}"
    );
    assert_eq!(status(&checks, "checkpoint"), "ok");
    assert!(
        checks["identity"]["hint"]
            .as_str()
            .unwrap()
            .contains("git config user.name")
    );
}

#[test]
fn a_merge_in_progress_is_reported_with_a_hint() {
    let project = TestProject::new().file("a", "1\n").committed();
    project.bash("git checkout -qb other && echo 2 > a && git commit -qam two && git checkout -q main && echo 3 > a && git commit -qam three && ! git merge -q other >/dev/null 2>&1");
    let (ran, checks) = doctor(&project);
    assert_eq!(
        (ran.code(), status(&checks, "operation")),
        (Some(5), "missing"),
        "{ran}"
    );
    assert!(
        checks["operation"]["hint"]
            .as_str()
            .unwrap()
            .contains("git merge --abort")
    );
    project.bash("git merge --abort");
    assert_eq!(doctor(&project).0.code(), Some(0));
}

#[test]
fn locks_of_git_are_reported() {
    let project = TestProject::new()
        .file("a", "1\n")
        .committed()
        .file(".git/index.lock", "");
    let (ran, checks) = doctor(&project);
    assert_eq!(
        (ran.code(), status(&checks, "locks")),
        (Some(5), "missing"),
        "{ran}"
    );
    assert!(
        project.root().join(".git/index.lock").exists(),
        "piton does not remove the lock of another process"
    );
}

#[test]
fn a_repository_that_cannot_be_served_or_written_is_reported() {
    let project = TestProject::without_git();
    project.bash(UNSERVED);
    let (ran, checks) = doctor(&project);
    assert_eq!(
        (ran.code(), status(&checks, "repository")),
        (Some(5), "missing"),
        "{ran}"
    );
    let project = TestProject::new().file("a", "1\n").committed();
    let root = project.root();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o555)).unwrap();
    let ran = project.piton_bound(["doctor", "--format", "json"]);
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        (ran.code(), status(&self::checks(&ran), "file system")),
        (Some(5), "missing"),
        "{ran}"
    );
}

#[test]
fn linked_and_shallow_repositories_are_named() {
    let project = TestProject::new().file("a", "1\n").committed();
    project
        .bash("git worktree add -q ../linked && git clone -q --depth 1 \"file://$PWD\" ../shallow");
    for (folder, word) in [
        ("linked", "a linked worktree"),
        ("shallow", "a shallow clone"),
    ] {
        let folder = project.home().parent().unwrap().join(folder);
        let ran = project.piton(["-C", folder.to_str().unwrap(), "doctor", "--format", "json"]);
        let checks = checks(&ran);
        assert!(
            checks["repository"]["detail"]
                .as_str()
                .unwrap()
                .contains(word),
            "{}",
            checks["repository"]
        );
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
}

#[test]
fn it_works_without_a_home_outside_of_a_project_and_with_broken_settings() {
    let project = TestProject::without_git();
    let output = project
        .command(["doctor", "--format", "json"])
        .env_remove("HOME")
        .output()
        .unwrap();
    let ran = project.ran(output);
    let found = checks(&ran);
    assert_eq!(
        (
            ran.code(),
            status(&found, "home"),
            status(&found, "repository")
        ),
        (Some(0), "warning", "warning"),
        "{ran}"
    );
    let home = project.home();
    for folder in ["/", home.to_str().unwrap()] {
        let ran = project.piton(["-C", folder, "doctor", "--format", "json"]);
        assert_eq!(
            (ran.code(), status(&checks(&ran), "project")),
            (Some(0), "warning"),
            "{ran}"
        );
    }
    let project = project.file(".ai/config.yaml", "ui:\n  color: pink\n");
    let (ran, found) = doctor(&project);
    assert_eq!(
        (ran.code(), status(&found, "settings")),
        (Some(5), "missing"),
        "{ran}"
    );
    assert!(
        found["settings"]["detail"]
            .as_str()
            .unwrap()
            .starts_with(".ai/config.yaml:2: "),
        "{}",
        found["settings"]
    );
    let project = project
        .file(".ai/config.yaml", "")
        .variable("PITON_GIT_REQUIRED", "perhaps");
    let (ran, found) = doctor(&project);
    assert_eq!(
        (ran.code(), status(&found, "settings")),
        (Some(5), "missing"),
        "{ran}"
    );
}

#[test]
fn a_misspelt_variable_is_reported() {
    let project = TestProject::new()
        .variable("PITON_AGENT_COMAND", "x")
        .variable("PITON_RUN_ID", "none");
    let (ran, checks) = doctor(&project);
    assert_eq!(
        (ran.code(), status(&checks, "settings")),
        (Some(0), "warning"),
        "{ran}"
    );
    assert_eq!(
        checks["settings"]["hint"],
        "did you mean `PITON_AGENT_COMMAND`?"
    );
}

#[test]
fn a_wrong_temporary_folder_hides_nothing_else() {
    let project = TestProject::new().variable("TMPDIR", "/nowhere");
    let (ran, checks) = doctor(&project);
    assert_eq!(
        (ran.code(), status(&checks, "temporary folder")),
        (Some(5), "missing"),
        "{ran}"
    );
    assert_eq!(
        (status(&checks, "checkpoint"), status(&checks, "repository")),
        ("ok", "ok"),
        "{ran}"
    );
}

#[test]
fn interrupted_it_ends_what_it_tries_and_leaves_nothing() {
    let project = TestProject::new();
    let path = programs(&project, &["sleep", "bash"]);
    let temporary = project.home().with_file_name("tmp");
    let python = Path::new(&path).join("python3");
    // The kernel lets it write to its temporary folder, which `doctor` makes.
    let script = "#!/bin/sh\necho $$ > \"$TMPDIR/started\"\nexec sleep 1000\n";
    fs::write(&python, script).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let project = project.variable("PATH", &path);
    let mut command = project.command(["doctor", "--timeout", "300"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    let hanging = loop {
        let mut folders = fs::read_dir(&temporary).unwrap().flatten();
        let started = folders
            .find_map(|entry| fs::read_to_string(entry.path().join("tmp/started")).ok())
            .unwrap_or_default();
        if started.ends_with('\n') {
            break started.trim().to_owned();
        }
        assert!(Instant::now() < deadline, "the interpreter is not tried");
        thread::sleep(Duration::from_millis(5));
    };
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ran = project.ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code(), Some(130), "{ran}");
    assert!(
        !Path::new("/proc").join(&hanging).exists(),
        "the interpreter goes on"
    );
    let left = contents(&temporary);
    assert_eq!(left.len(), 1, "{:?}", left.keys());
}

#[test]
fn nothing_is_claimed_that_was_not_tried() {
    let project = TestProject::new().file(".ai", "a file\n");
    let path = programs(&project, &["sleep", "bash"]);
    let git = Path::new(&path).join("git");
    fs::write(&git, "#!/bin/sh\necho garbage\n").unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let project = project
        .variable("PATH", &path)
        .variable("HOME", "/nonexistent/home");
    let (_, found) = doctor(&project);
    assert_eq!(
        (status(&found, "git"), status(&found, "home")),
        ("missing", "warning")
    );
    assert!(
        found["git"]["detail"]
            .as_str()
            .unwrap()
            .starts_with("`git --version` says `garbage`: ")
    );
    let missing = "`/nonexistent/home` is not a folder: you have no own items and settings";
    assert_eq!(found["home"]["detail"], missing);
    assert_eq!(status(&found, "project"), "warning", "{}", found["project"]);
    assert!(
        found["project"]["detail"]
            .as_str()
            .unwrap()
            .ends_with("is not a folder: there can be no items")
    );
    let project = project.variable("HOME", "relative").variable("PATH", "");
    let (_, found) = doctor(&project);
    assert!(
        found["home"]["detail"]
            .as_str()
            .unwrap()
            .starts_with("`HOME` is `relative`, which is not an absolute path")
    );
    assert_eq!(status(&found, "bash"), "warning", "{}", found["bash"]);
    assert!(
        found["bash"]["detail"]
            .as_str()
            .unwrap()
            .ends_with("found in a default folder: `PATH` is not set")
    );
}

#[test]
fn items_that_cannot_be_written_are_reported() {
    let project = TestProject::new()
        .file(".ai/tools/data.json", "{}\n")
        .committed();
    let items = project.root().join(".ai");
    fs::set_permissions(&items, fs::Permissions::from_mode(0o555)).unwrap();
    let ran = project.piton_bound(["doctor", "--format", "json"]);
    fs::set_permissions(&items, fs::Permissions::from_mode(0o755)).unwrap();
    let found = checks(&ran);
    assert_eq!(
        (status(&found, "project"), &found["project"]["hint"]),
        ("warning", &"make it writable".into()),
        "{ran}"
    );
}

#[test]
fn one_fault_is_told_once() {
    let project = TestProject::without_git();
    let (ran, found) = doctor(&project);
    assert_eq!(
        (ran.code(), status(&found, "repository")),
        (Some(0), "warning"),
        "{ran}"
    );
    for name in ["identity", "operation", "locks", "file system"] {
        assert!(!found.contains_key(name), "{name}");
    }
    let project = TestProject::without_git();
    project.bash(UNSERVED);
    let ran = project.piton(["doctor"]);
    assert!(ran.stderr().contains("because of one problem"), "{ran}");
    let (signs, last) = (ran.stdout(), ran.stderr());
    let count = |sign: &str| {
        signs
            .lines()
            .filter(|line| line.starts_with(&format!("  {sign} ")))
            .count()
    };
    let counts = format!(
        "{} work, {} limited or optional, {} broken",
        count("✓"),
        count("!"),
        count("✗")
    );
    assert!(last.contains(&counts), "{counts}: {last}");
}

#[test]
fn a_folder_that_is_named_has_to_be_there() {
    let project = TestProject::new();
    let ran = project.piton(["-C", "nowhere", "doctor"]);
    assert_eq!((ran.code(), ran.stdout().as_str()), (Some(2), ""), "{ran}");
}
