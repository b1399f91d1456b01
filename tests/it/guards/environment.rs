//! H14: git variables that a hook or an alias leaves in the environment do not mislead piton.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Picture, Told, exec, simple};
use crate::harness::TestProject;

/// A second repository beside the project, with something staged.
fn host(project: &TestProject) -> PathBuf {
    project.bash(
        "git init -q -b main ../host; cd ../host; echo h > host.txt; git add .; git commit -qm host; \
         echo staged >> host.txt; git add host.txt; git branch other",
    );
    fs::canonicalize(project.root().join("../host")).expect("it was made")
}

/// The variables with which git points at a repository.
fn leading_to(host: &Path) -> Vec<(&'static str, String)> {
    let inside = |name: &str| host.join(name).to_string_lossy().into_owned();
    vec![
        ("GIT_DIR", inside(".git")),
        ("GIT_COMMON_DIR", inside(".git")),
        ("GIT_INDEX_FILE", inside(".git/index")),
        ("GIT_WORK_TREE", host.to_string_lossy().into_owned()),
        ("GIT_OBJECT_DIRECTORY", inside(".git/objects")),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", inside(".git/objects")),
        ("GIT_QUARANTINE_PATH", inside(".git/objects/quarantine")),
        ("GIT_PREFIX", "sub/".to_owned()),
        ("GIT_NAMESPACE", "elsewhere".to_owned()),
        ("GIT_CONFIG_COUNT", "2".to_owned()),
        ("GIT_CONFIG_KEY_0", "core.worktree".to_owned()),
        ("GIT_CONFIG_VALUE_0", host.to_string_lossy().into_owned()),
        ("GIT_CONFIG_KEY_1", "user.name".to_owned()),
        ("GIT_CONFIG_VALUE_1", "Wrong".to_owned()),
        ("GIT_CONFIG_PARAMETERS", "'core.bare'='true'".to_owned()),
        ("GIT_CEILING_DIRECTORIES", "/".to_owned()),
    ]
}

fn exec_led_astray(project: &TestProject, host: &Path, folder: &Path, script: &str) -> Told {
    let mut command = project.command(["exec", "--format", "json", "--", "bash", "-euc", script]);
    command.envs(leading_to(host)).current_dir(folder);
    let output = command.output().expect("piton starts");
    Told::of(crate::harness::Ran::new(output, project))
}

const WORK_ELSEWHERE: &str = "echo a > a.txt; git init -q ../fresh; cd ../fresh; echo f > f.txt; git add f.txt; \
     git config some.key value; git commit -qm fresh";

#[test]
fn h14_g103_variables_of_another_repository_lead_neither_piton_nor_the_command_astray() {
    let project = simple();
    let host = host(&project);
    let (before, of_host) = (Picture::of(&project), Picture::at(&project, &host));
    let made = exec_led_astray(&project, &host, &project.root(), WORK_ELSEWHERE);
    made.assert_end("0 committed -");
    assert_eq!(super::files_of(&project, &made.commit()), ["a.txt"]);
    before.assert_only(&project, &["a.txt"]);
    project.assert_clean();
    of_host.assert_same(&project);
    let fresh = project.root().join("../fresh");
    assert_eq!(super::git_in(&project, &fresh, &["ls-files"]), "f.txt\\n");
}

#[test]
fn h14_a_failing_command_is_rolled_back_here_and_nowhere_else() {
    let project = simple();
    let host = host(&project);
    let (before, of_host) = (Picture::of(&project), Picture::at(&project, &host));
    exec_led_astray(
        &project,
        &host,
        &project.root(),
        "echo a > a.txt; git add a.txt; exit 1",
    )
    .assert_end("1 rolled_back COMMAND_FAILED");
    before.assert_same(&project);
    of_host.assert_same(&project);
}

#[test]
fn h14_the_same_holds_in_a_linked_worktree() {
    let project = simple();
    let host = host(&project);
    project.git(["worktree", "add", "-q", "-b", "side", "../linked"]);
    let linked = fs::canonicalize(project.root().join("../linked")).expect("it was made");
    let (before, of_host) = (Picture::of(&project), Picture::at(&project, &host));
    let of_linked = Picture::at(&project, &linked);
    let made = exec_led_astray(&project, &host, &linked, WORK_ELSEWHERE);
    made.assert_end("0 committed -");
    of_host.assert_same(&project);
    let now = Picture::of(&project);
    assert_eq!(
        (&now.files, &now.staged, &now.status),
        (&before.files, &before.staged, &before.status)
    );
    assert_eq!(project.git(["rev-parse", "side"]).trim_end(), made.commit());
    assert_eq!(
        project.git(["rev-parse", "main"]),
        project.git(["rev-parse", "side^"])
    );
    let now = Picture::at(&project, &linked);
    assert_eq!(now.status, "");
    assert_eq!(now.files.len(), of_linked.files.len() + 1);
    exec_led_astray(&project, &host, &linked, "rm notes.txt; exit 1")
        .assert_end("1 rolled_back COMMAND_FAILED");
    assert_eq!(
        fs::read_to_string(linked.join("notes.txt")).expect("it is back"),
        "one\ntwo\nthree\n"
    );
}

#[test]
fn h14_a_hook_may_run_piton_in_another_repository() {
    let project = simple();
    let host = host(&project);
    let hook = host.join(".git/hooks/pre-commit");
    let piton = env!("CARGO_BIN_EXE_piton");
    let script = format!(
        "#!/bin/sh\nenv | grep -q ^GIT_INDEX_FILE= || exit 9\ncd '{}' && exec '{piton}' exec --name inner -- \
         bash -euc 'echo a > a.txt; git init -q ../fresh; cd ../fresh; echo f > f; git add f'\n",
        project.root().display()
    );
    fs::create_dir_all(host.join(".git/hooks")).expect("a folder");
    fs::write(&hook, script).expect("a hook");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("executable");
    let before = Picture::of(&project);
    let settings = Picture::at(&project, &host).config;
    let output = project
        .hermetic("git", &host)
        .args(["commit", "-qm", "by hand"])
        .output()
        .expect("git starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    before.assert_only(&project, &["a.txt"]);
    assert_eq!(super::files_of(&project, "HEAD"), ["a.txt"]);
    project.assert_clean();
    let now = Picture::at(&project, &host);
    assert_eq!((now.status.as_str(), now.config), ("", settings));
    assert_eq!(
        super::git_in(
            &project,
            &host,
            &["show", "--format=", "--name-only", "HEAD"]
        ),
        "host.txt\\n"
    );
    super::assert_whole(&project, &host);
}

#[test]
fn h14_a_hook_may_run_piton_in_its_own_repository() {
    let project = simple();
    let hook = project.root().join(".git/hooks/post-commit");
    let piton = env!("CARGO_BIN_EXE_piton");
    fs::create_dir_all(project.root().join(".git/hooks")).expect("a folder");
    fs::write(
        &hook,
        format!(
            "#!/bin/sh\n[ -z \"$PITON_RUN_ID\" ] || exit 0\n'{piton}' exec -- touch from-hook.txt\n"
        ),
    )
    .expect("a hook");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("executable");
    project.bash("echo four >> notes.txt; git commit -qam 'by hand'");
    assert_eq!(super::files_of(&project, "HEAD"), ["from-hook.txt"]);
    assert_eq!(super::files_of(&project, "HEAD^"), ["notes.txt"]);
    project.assert_clean();
}

#[test]
fn h15_piton_commits_without_touching_the_hooks_folder() {
    let project = simple();
    project.bash(
        "mkdir -p .git/hooks; printf '#!/bin/sh\\nexit 0\\n' > .git/hooks/pre-push; chmod 755 .git/hooks/pre-push",
    );
    let hooks = super::nodes(&project.root().join(".git/hooks"));
    exec(&project, "echo a > a.txt").assert_end("0 committed -");
    exec(&project, "echo b > b.txt; exit 1").assert_end("1 rolled_back COMMAND_FAILED");
    assert_eq!(super::nodes(&project.root().join(".git/hooks")), hooks);
    project.assert_clean();
}
