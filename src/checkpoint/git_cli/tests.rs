//! The real git, real keys and real hooks.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;
use std::time::Instant;

use super::hook::{HookOutcome, UserHookCall, find_hook, hooks_folder, run_hook};
use super::signing::{UnsignedCommit, create_signed_commit};
use super::*;
use crate::checkpoint::hook::Hook;
use crate::checkpoint::object::{ObjectFormat, ObjectId};

const LONG: Duration = Duration::from_mins(1);

struct Project {
    folder: tempfile::TempDir,
    repository: git2::Repository,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        assert!(git(folder.path(), &["init", "-q", "."]).status.success());
        let repository = git2::Repository::open(folder.path()).unwrap();
        Self { folder, repository }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn program(&self) -> GitProgram {
        GitProgram::new(environment(), self.repository.path(), self.path())
    }

    fn set(&self, key: &str, value: &str) {
        assert!(git(self.path(), &["config", key, value]).status.success());
    }

    fn hook(&self, name: &str, text: &str) -> PathBuf {
        let path = self.repository.path().join("hooks").join(name);
        write_program(&path, text);
        path
    }

    fn run_hook(&self, hook: Hook) -> Result<HookOutcome, CheckpointError> {
        self.run_hook_for(hook, LONG)
    }

    fn run_hook_for(&self, hook: Hook, limit: Duration) -> Result<HookOutcome, CheckpointError> {
        let author = person();
        let index = self.path().join(".git/piton-index");
        let arguments = [OsStr::new("FILE"), OsStr::new("message")];
        let call = UserHookCall {
            arguments: &arguments,
            index: &index,
            run: "01RUN",
            token: None,
            author: &author,
            limit,
        };
        run_hook(&self.program(), &self.repository, hook, &call)
    }

    fn sign(&self, limit: Duration) -> Result<ObjectId, CheckpointError> {
        self.repository.treebuilder(None).unwrap().write().unwrap();
        let person = person();
        let message = "feat: x\n\nPiton-Run: a\n";
        let commit = UnsignedCommit {
            tree: ObjectId::empty_tree(ObjectFormat::Sha1),
            parents: &[],
            message,
            author: &person,
            committer: &person,
        };
        create_signed_commit(&self.program(), &self.repository, &commit, limit)
    }

    fn signing_reason(&self, limit: Duration) -> String {
        match self.sign(limit) {
            Err(CheckpointError::SigningFailed { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }
}

fn environment() -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("HOME", "/nonexistent"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    variables.push(("PATH".into(), path_variable()));
    variables
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests find git where the machine has it"
)]
fn path_variable() -> OsString {
    std::env::var_os("PATH").unwrap()
}

#[expect(clippy::disallowed_methods, reason = "tests ask the real programs")]
fn program(name: &str, folder: &Path, arguments: &[&str]) -> Output {
    Command::new(name)
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(environment())
        .output()
        .unwrap()
}

fn git(folder: &Path, arguments: &[&str]) -> Output {
    program("git", folder, arguments)
}

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn person() -> git2::Signature<'static> {
    git2::Signature::new(
        "Ada",
        "ada@example.org",
        &git2::Time::new(1_700_000_000, -90),
    )
    .unwrap()
}

fn with_key() -> Project {
    let project = Project::new();
    let made = program(
        "ssh-keygen",
        project.path(),
        &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", ".git/key"],
    );
    assert!(made.status.success(), "{made:?}");
    let public = project.text(".git/key.pub");
    fs::write(
        project.path().join(".git/signers"),
        format!("ada@example.org {public}"),
    )
    .unwrap();
    project.set("gpg.format", "ssh");
    project.set(
        "user.signingkey",
        project.path().join(".git/key").to_str().unwrap(),
    );
    project.set(
        "gpg.ssh.allowedSignersFile",
        project.path().join(".git/signers").to_str().unwrap(),
    );
    project
}

#[test]
fn a_commit_is_signed_so_that_git_verifies_it() {
    let project = with_key();
    let id = project.sign(LONG).unwrap();
    let verified = git(project.path(), &["verify-commit", &id.to_string()]);
    assert!(verified.status.success(), "{verified:?}");
    let commit = project.repository.find_commit(id.into()).unwrap();
    assert_eq!(commit.message_bytes(), b"feat: x\n\nPiton-Run: a\n");
    assert_eq!(
        (
            commit.author().when().seconds(),
            commit.author().when().offset_minutes()
        ),
        (1_700_000_000, -90)
    );
    assert_eq!(commit.committer().email_bytes(), b"ada@example.org");
    assert!(project.repository.head().is_err(), "no ref moves");
}

#[test]
fn a_missing_key_is_no_reason_for_an_unsigned_commit() {
    let project = with_key();
    fs::remove_file(project.path().join(".git/key")).unwrap();
    fs::remove_file(project.path().join(".git/key.pub")).unwrap();
    assert!(!project.signing_reason(LONG).is_empty());
}

#[test]
fn a_key_with_a_passphrase_does_not_prompt() {
    let project = with_key();
    let changed = program(
        "ssh-keygen",
        project.path(),
        &["-q", "-p", "-P", "", "-N", "secret words", "-f", ".git/key"],
    );
    assert!(changed.status.success(), "{changed:?}");
    assert!(!project.signing_reason(Duration::from_secs(20)).is_empty());
}

#[test]
fn a_signing_program_that_hangs_is_killed_with_its_children() {
    let project = with_key();
    let slow = project.path().join(".git/slow");
    write_program(&slow, "#!/bin/sh\necho $$ > .git/pid\nsleep 600 &\nwait\n");
    project.set("gpg.ssh.program", slow.to_str().unwrap());
    assert_eq!(
        project.signing_reason(Duration::from_secs(2)),
        "it did not end in time and was killed"
    );
    let pid: i32 = project.text(".git/pid").trim().parse().unwrap();
    // A killed process may remain a zombie until its new parent reaps it.
    let deadline = Instant::now() + LONG;
    loop {
        let state =
            fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_else(|_| ") Z".to_owned());
        if state.rsplit(") ").next().unwrap().starts_with('Z') {
            break;
        }
        assert!(Instant::now() < deadline, "{state}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signing_program_that_only_says_so_is_found_out() {
    let project = with_key();
    let liar = project.path().join(".git/liar");
    write_program(&liar, "#!/bin/sh\nexit 0\n");
    project.set("gpg.ssh.program", liar.to_str().unwrap());
    assert!(project.sign(LONG).is_err());
}

#[test]
fn a_machine_without_git_is_told_so() {
    let project = Project::new();
    let empty = tempfile::tempdir().unwrap();
    for path in [
        empty.path().as_os_str(),
        OsStr::new(""),
        OsStr::new(".:bin"),
    ] {
        let program = GitProgram::new(
            [("PATH".into(), path.to_owned())],
            project.repository.path(),
            project.path(),
        );
        let error = program
            .run("version", &[OsStr::new("version")], &[], None, LONG)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot run `git version`: there is no `git` on the search path"
        );
    }
}

#[test]
fn git_works_in_this_repository_regardless_of_the_environment() {
    let (project, other) = (Project::new(), Project::new());
    let astray = other.path().join(".git").into_os_string();
    let mut variables = environment();
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_COMMON_DIR",
        "GIT_OBJECT_DIRECTORY",
        "GIT_CONFIG_COUNT",
    ] {
        variables.push((name.into(), astray.clone()));
    }
    let program = GitProgram::new(variables, project.repository.path(), project.path());
    let run = |arguments: &[&str]| {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let output = program
            .run("rev-parse", &arguments, &[], None, LONG)
            .unwrap();
        assert!(output.succeeded, "{}", output.reason);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let top = fs::canonicalize(project.path()).unwrap();
    assert_eq!(
        run(&["rev-parse", "--show-toplevel"]),
        top.to_str().unwrap()
    );
    let objects = PathBuf::from(run(&["rev-parse", "--git-path", "objects"]));
    assert_eq!(objects, project.repository.path().join("objects"));
}

#[test]
fn a_failing_git_says_why() {
    let project = Project::new();
    let output = project
        .program()
        .run("frob", &[OsStr::new("frob")], &[], None, LONG)
        .unwrap();
    assert!(!output.succeeded);
    assert_eq!(
        output.reason,
        "git: 'frob' is not a git command. See 'git --help'."
    );
}

#[test]
fn hooks_are_found_where_git_looks() {
    let project = Project::new();
    let common = project.repository.path().join("hooks");
    assert_eq!(hooks_folder(&project.repository), common);
    assert_eq!(find_hook(&project.repository, Hook::PreCommit), None);
    let path = project.hook("pre-commit", "#!/bin/sh\n");
    assert_eq!(
        find_hook(&project.repository, Hook::PreCommit),
        Some(path.clone())
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(find_hook(&project.repository, Hook::PreCommit), None);
    assert_eq!(
        project.run_hook(Hook::PreCommit).unwrap(),
        HookOutcome::Absent
    );

    project.set("core.hooksPath", ".husky/_");
    let top = project.repository.workdir().unwrap();
    assert_eq!(hooks_folder(&project.repository), top.join(".husky/_"));
    write_program(&top.join(".husky/_/commit-msg"), "#!/bin/sh\n");
    assert_eq!(
        find_hook(&project.repository, Hook::CommitMessage),
        Some(top.join(".husky/_/commit-msg"))
    );
    project.set("core.hooksPath", "/elsewhere");
    assert_eq!(hooks_folder(&project.repository), Path::new("/elsewhere"));
    project.set("core.hooksPath", "~/hooks");
    assert!(
        !hooks_folder(&project.repository)
            .to_string_lossy()
            .contains('~')
    );
}

#[test]
fn a_linked_worktree_has_the_hooks_of_its_repository() {
    let project = Project::new();
    let path = project.hook(
        "pre-commit",
        "#!/bin/sh\ngit rev-parse --git-dir > seen; echo \"$GIT_DIR\" >> seen\n",
    );
    let commit = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "commit",
        "-qnm",
        "x",
        "--allow-empty",
    ];
    assert!(git(project.path(), &commit).status.success());
    assert!(
        git(project.path(), &["worktree", "add", "-q", "linked"])
            .status
            .success()
    );
    let linked = Project {
        repository: git2::Repository::open(project.path().join("linked")).unwrap(),
        ..project
    };
    assert_eq!(find_hook(&linked.repository, Hook::PreCommit), Some(path));
    let top = linked.repository.workdir().unwrap().to_owned();
    let program = GitProgram::new(environment(), linked.repository.path(), &top);
    let (author, index) = (person(), top.join("index"));
    let call = UserHookCall {
        arguments: &[],
        index: &index,
        run: "r",
        token: None,
        author: &author,
        limit: LONG,
    };
    assert_eq!(
        run_hook(&program, &linked.repository, Hook::PreCommit, &call).unwrap(),
        HookOutcome::Passed
    );
    let seen = fs::read_to_string(top.join("seen")).unwrap();
    assert_eq!(
        seen.trim_end(),
        linked
            .repository
            .path()
            .to_str()
            .unwrap()
            .trim_end_matches('/')
    );
}

#[test]
fn a_hook_sees_what_git_would_show_it() {
    let project = Project::new();
    let text = "#!/bin/sh\n{ pwd; echo \"$@\"; echo \"$GIT_INDEX_FILE|$GIT_EDITOR|$PITON_RUN_ID|$GIT_AUTHOR_NAME|\
                $GIT_AUTHOR_EMAIL|$GIT_AUTHOR_DATE|$GIT_DIR|$LC_ALL\"; cat; } > seen\n";
    project.hook("prepare-commit-msg", text);
    assert_eq!(
        project.run_hook(Hook::PrepareCommitMessage).unwrap(),
        HookOutcome::Passed
    );
    let top = fs::canonicalize(project.path()).unwrap();
    assert_eq!(
        project.text("seen"),
        format!(
            "{}\nFILE message\n{}/.git/piton-index|:|01RUN|Ada|ada@example.org|@1700000000 -0130||\n",
            top.display(),
            project.path().display()
        )
    );
}

#[test]
fn a_hook_works_on_the_private_index() {
    let project = Project::new();
    fs::write(project.path().join("a"), "x").unwrap();
    project.hook("pre-commit", "#!/bin/sh\ngit add a\n");
    assert_eq!(
        project.run_hook(Hook::PreCommit).unwrap(),
        HookOutcome::Passed
    );
    assert!(project.path().join(".git/piton-index").exists());
    assert!(!project.path().join(".git/index").exists());
}

#[test]
fn a_hook_that_fails_is_heard() {
    let project = Project::new();
    project.hook(
        "pre-commit",
        "#!/bin/sh\nfor i in 1 2 3 4 5; do echo line $i; done\nprintf '\\033[31mbad\\033[0m\\a\\n' >&2\nexit 3\n",
    );
    let error = project.run_hook(Hook::PreCommit).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the hook `pre-commit` rejected the commit: line 2; line 3; line 4; line 5; bad"
    );
    project.hook("pre-commit", "#!/bin/sh\nexit 3\n");
    let error = project.run_hook(Hook::PreCommit).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the hook `pre-commit` rejected the commit: exit status: 3"
    );
}

#[test]
fn a_hook_that_hangs_or_cannot_run_has_failed() {
    let project = Project::new();
    project.hook("commit-msg", "#!/bin/sh\necho waiting\nsleep 600\n");
    let error = project
        .run_hook_for(Hook::CommitMessage, Duration::from_secs(1))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the hook `commit-msg` rejected the commit: it did not end in time and was killed; its last words: waiting"
    );
    project.hook("commit-msg", "#!/no/such/interpreter\n");
    assert!(matches!(
        project.run_hook(Hook::CommitMessage),
        Err(CheckpointError::HookFailed {
            hook: "commit-msg",
            ..
        })
    ));
}

#[test]
fn after_the_commit_a_failure_is_only_noted() {
    let project = Project::new();
    project.hook("post-commit", "#!/bin/sh\necho no; exit 1\n");
    assert_eq!(
        project.run_hook(Hook::PostCommit).unwrap(),
        HookOutcome::Ignored {
            reason: "no".to_owned()
        }
    );
}

#[test]
fn a_hook_without_an_interpreter_is_read_by_a_shell() {
    let project = Project::new();
    project.hook("pre-commit", "echo \"$0 $1\" > seen\n");
    assert_eq!(
        project.run_hook(Hook::PreCommit).unwrap(),
        HookOutcome::Passed
    );
    let hook = project.repository.path().join("hooks/pre-commit");
    assert_eq!(project.text("seen"), format!("{} FILE\n", hook.display()));
}

#[test]
fn a_hook_may_leave_something_in_the_background_and_print_a_lot() {
    let project = Project::new();
    project.hook(
        "pre-commit",
        "#!/bin/sh\nsleep 5 &\nhead -c 3000000 /dev/zero | tr '\\0' x\n",
    );
    assert_eq!(
        project.run_hook(Hook::PreCommit).unwrap(),
        HookOutcome::Passed
    );
}
