//! Where hooks are: linked worktrees, bare repositories, `core.hooksPath`, names that are hard to
//! quote.

use std::fs;
use std::path::Path;

use super::{USUAL, Yard, all, picture, states};
use crate::harness::{TestProject, cmd_snapshot};

const OWN: &str = "#!/bin/sh\necho own \"$@\" >> \"$CALLS\"\n";

/// The hooks folder according to piton and according to git.
fn folders(yard: &Yard, folder: &Path) -> (String, String) {
    let said = yard
        .piton_in(folder, &["hooks", "status", "--format", "json"])
        .json();
    let mut git = yard.project.hermetic("git", folder);
    let git = git
        .args(["rev-parse", "--git-path", "hooks"])
        .output()
        .expect("it is there")
        .stdout;
    let git = String::from_utf8(git).expect("it is there");
    let real = |path: &Path| {
        fs::canonicalize(path)
            .unwrap_or(path.to_path_buf())
            .to_string_lossy()
            .into_owned()
    };
    (
        real(Path::new(said["folder"].as_str().expect("it is there"))),
        real(&folder.join(git.trim_end_matches('\n'))),
    )
}

#[test]
fn a_linked_worktree_has_the_hooks_of_its_repository() {
    let yard = Yard::new();
    yard.commit();
    let worktree = yard.project.root().parent().unwrap().join("work tree");
    yard.project.git([
        "worktree",
        "add",
        "--quiet",
        "-b",
        "there",
        worktree.to_str().unwrap(),
    ]);
    let (said, git) = folders(&yard, &worktree);
    assert_eq!(said, git);
    let ran = yard.piton_in(&worktree, &["hooks", "install", "--format", "json"]);
    assert_eq!(states(&ran), all(&USUAL, "installed"), "{ran}");
    assert_eq!(
        yard.states(&["status"]),
        all(&USUAL, "installed"),
        "also seen from the main one"
    );
    yard.witness();
    let mut commit = yard.project.hermetic("git", &worktree);
    assert!(
        commit
            .args(["commit", "--quiet", "--allow-empty", "--message", "there"])
            .status()
            .unwrap()
            .success()
    );
    let message = fs::canonicalize(yard.project.root())
        .unwrap()
        .join(".git/worktrees/work-tree/COMMIT_EDITMSG");
    assert!(yard.calls().contains(&format!(
        "piton [hooks] [run] [commit-msg] [--] [{}]\n",
        message.display()
    )));
}

#[test]
fn a_subfolder_works() {
    let yard = Yard::new();
    let below = yard.project.root().join("a/b c");
    fs::create_dir_all(&below).unwrap();
    let ran = yard.piton_in(&below, &["hooks", "install", "--format", "json"]);
    assert_eq!(states(&ran), all(&USUAL, "installed"), "{ran}");
    yard.witness();
    let mut commit = yard.project.hermetic("git", &below);
    assert!(
        commit
            .args(["commit", "--quiet", "--allow-empty", "--message", "there"])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(yard.calls().lines().count(), 4);
}

#[test]
fn a_bare_repository_gets_the_hook_of_a_server() {
    let yard = Yard::new();
    let bare = yard.project.root().parent().unwrap().join("bare.git");
    yard.project
        .git(["init", "--quiet", "--bare", bare.to_str().unwrap()]);
    let (said, git) = folders(&yard, &bare);
    assert_eq!(said, git);
    super::program(
        &bare.join("hooks/pre-receive"),
        "#!/bin/sh\ncat >> ../calls\n",
    );
    let before = picture(&bare.join("hooks"));
    let ran = yard.piton_in(&bare, &["hooks", "install", "--format", "json"]);
    assert_eq!(states(&ran), ["pre-receive installed"], "{ran}");
    let ran = yard.piton_in(&bare, &["hooks", "status", "--format", "json"]);
    assert_eq!(
        (states(&ran), ran.code()),
        (vec!["pre-receive installed".to_owned()], Some(0)),
        "{ran}"
    );
    yard.commit();
    yard.witness();
    yard.project
        .git(["push", "--quiet", bare.to_str().unwrap(), "main"]);
    let id = yard.project.git(["rev-parse", "main"]);
    let line = format!("{} {} refs/heads/main\n", "0".repeat(40), id.trim());
    assert_eq!(
        yard.calls(),
        format!("{line}piton [hooks] [run] [pre-receive] [--]\n{line}")
    );
    yard.pretend("#!/bin/sh\ncat > /dev/null; echo not this >&2; exit 1\n");
    let refused = yard.git(&["push", "--quiet", bare.to_str().unwrap(), "main:other"]);
    assert!(
        refused.code() == Some(1) && refused.stderr().contains("remote: not this"),
        "{refused}"
    );
    let ran = yard.piton_in(&bare, &["hooks", "uninstall", "--format", "json"]);
    assert_eq!(states(&ran), ["pre-receive restored"], "{ran}");
    assert_eq!(picture(&bare.join("hooks")), before);
}

#[test]
fn a_repository_with_a_work_tree_can_have_it_too() {
    let yard = Yard::new();
    assert_eq!(
        yard.states(&["install", "--hook", "pre-receive"]),
        ["pre-receive installed"]
    );
    assert_eq!(
        yard.states(&["status"]).last().unwrap(),
        "pre-receive installed",
        "what is there is shown"
    );
    assert_eq!(
        yard.states(&["uninstall"]).last().unwrap(),
        "pre-receive removed"
    );
}

#[test]
fn a_folder_of_the_repository_s_own_choice_is_used() {
    let yard = Yard::new();
    yard.project.git(["config", "core.hooksPath", "my hooks"]);
    let (said, git) = folders(&yard, &yard.project.root());
    assert_eq!(said, git);
    let ran = yard.piton(&["hooks", "install", "--format", "json"]);
    assert_eq!(states(&ran), all(&USUAL, "installed"), "{ran}");
    assert!(yard.project.root().join("my hooks/pre-commit").exists());
    yard.witness();
    yard.commit();
    assert_eq!(yard.calls().lines().count(), 4);
    assert_eq!(yard.states(&["uninstall"]), all(&USUAL, "removed"));
}

#[test]
fn settings_of_a_worktree_count_only_where_git_reads_them() {
    let yard = Yard::new();
    fs::write(
        yard.project.root().join(".git/config.worktree"),
        "[core]\n\thooksPath = elsewhere\n",
    )
    .unwrap();
    let (said, git) = folders(&yard, &yard.project.root());
    assert_eq!((&said, said.ends_with("/.git/hooks")), (&git, true));
    yard.project
        .git(["config", "extensions.worktreeConfig", "true"]);
    let (said, git) = folders(&yard, &yard.project.root());
    assert_eq!((&said, said.ends_with("/elsewhere")), (&git, true));
}

#[test]
fn a_folder_for_all_repositories_is_not_written() {
    let yard = Yard::with_path(
        TestProject::new().variable("GIT_CONFIG_GLOBAL", "../home/gitconfig"),
        "",
    );
    let global = yard.project.home().join("all hooks");
    let calls = yard.project.home().join("calls");
    super::program(
        &global.join("pre-push"),
        &OWN.replace("$CALLS", calls.to_str().unwrap()),
    );
    yard.project
        .git(["config", "--global", "core.hooksPath", "~/all hooks"]);
    let (said, git) = folders(&yard, &yard.project.root());
    assert_eq!(said, git);
    let before = picture(&global);
    cmd_snapshot!(yard.piton(&["hooks", "install", "--hook", "commit-msg", "--hook", "pre-push"]), @r##"
    success: false
    exit_code: 5
    ----- stdout -----
    commit-msg  refused  nothing was written: `core.hooksPath` is set for all of your repositories
    pre-push    refused  nothing was written: `core.hooksPath` is set for all of your repositories
    #!/bin/sh
    if command -v piton >/dev/null 2>&1; then piton hooks run commit-msg -- "$@" || exit $?; fi
    if command -v piton >/dev/null 2>&1; then
      piton_input=$(cat; echo .)
      printf %s "${piton_input%.}" | piton hooks run pre-push -- "$@" || exit $?
      exec <<PITON_INPUT
    ${piton_input%??}
    PITON_INPUT
      if [ "$piton_input" = . ]; then exec </dev/null; fi
    fi
    ----- stderr -----
    write this into `[HOME]/all hooks/commit-msg`, as a new file:
    and then: chmod +x '[HOME]/all hooks/commit-msg'
    write this into `[HOME]/all hooks/pre-push`, before anything that reads its input:
    hint: teammates without piton are not affected; `piton hooks status` shows whether it works
    "##);
    assert_eq!(picture(&global), before);
    paste(&yard, &["commit-msg", "pre-push"]);
    assert_eq!(
        yard.states(&["install", "--hook", "commit-msg", "--hook", "pre-push"]),
        ["commit-msg delegated", "pre-push delegated"]
    );
    assert_eq!(yard.piton(&["hooks", "status"]).code(), Some(0));
    yard.witness();
    yard.commit();
    assert_eq!(
        yard.calls(),
        "piton [hooks] [run] [commit-msg] [--] [.git/COMMIT_EDITMSG]\n"
    );
    yard.project
        .git(["init", "--quiet", "--bare", "../remote.git"]);
    assert_eq!(
        yard.git(&["push", "--quiet", "../remote.git", "main"])
            .code(),
        Some(0)
    );
    assert!(yard.calls().starts_with(
        "piton [hooks] [run] [pre-push] [--] [../remote.git] [../remote.git]\nrefs/heads/main "
    ));
    assert_eq!(
        fs::read_to_string(&calls).unwrap(),
        "own ../remote.git ../remote.git\n"
    );
    yard.pretend("#!/bin/sh\nexit 1\n");
    assert_eq!(
        yard.commit().code(),
        Some(1),
        "what piton refuses is refused"
    );
    fs::remove_file(yard.program()).unwrap();
    assert_eq!(
        yard.commit().code(),
        Some(0),
        "users without piton can commit"
    );
}

#[test]
fn hooks_that_are_files_of_the_work_tree_are_not_written() {
    let yard = Yard::new();
    yard.project.git(["config", "core.hooksPath", ".githooks"]);
    let own = "#!/bin/sh\necho own \"$@\" >> ../calls\nwhile read -r line; do echo \"$line\" >> ../calls; done\n";
    for name in ["pre-commit", "pre-push"] {
        yard.hook(name, own);
    }
    yard.project.git(["add", ".githooks"]);
    let before = yard.picture();
    let ran = yard.piton(&["hooks", "install"]);
    assert_eq!(ran.code(), Some(5), "{ran}");
    assert!(
        ran.stdout()
            .contains("the hooks are files of the work tree"),
        "{ran}"
    );
    assert_eq!(yard.picture(), before);
    paste(&yard, &USUAL);
    assert_eq!(yard.states(&["status"]), all(&USUAL, "delegated"));
    yard.witness();
    assert_eq!(yard.commit().code(), Some(0));
    assert_eq!(yard.calls().lines().count(), 5);
    yard.project
        .git(["init", "--quiet", "--bare", "../remote.git"]);
    for expected in ["refs/heads/main ", ""] {
        assert_eq!(
            yard.git(&["push", "--quiet", "../remote.git", "main"])
                .code(),
            Some(0)
        );
        let calls = yard.calls();
        let both = calls
            .strip_prefix("piton [hooks] [run] [pre-push] [--] [../remote.git] [../remote.git]\n")
            .unwrap();
        let (first, second) = both
            .split_once("own ../remote.git ../remote.git\n")
            .unwrap();
        assert_eq!(
            (first, first.starts_with(expected), first.is_empty()),
            (second, true, expected.is_empty())
        );
    }
    // The same with a symbolic link in the usual place.
    yard.project.git(["config", "--unset", "core.hooksPath"]);
    fs::remove_dir_all(yard.project.root().join(".git/hooks")).unwrap();
    super::link("../.githooks", &yard.project.root().join(".git/hooks"));
    assert_eq!(yard.states(&["install"]), all(&USUAL, "delegated"));
}

#[test]
fn hooks_that_are_switched_off_stay_off() {
    let yard = Yard::new();
    yard.project.git(["config", "core.hooksPath", "/dev/null"]);
    cmd_snapshot!(yard.piton(&["hooks", "install", "--hook", "pre-commit"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    pre-commit  refused  nothing was written: `core.hooksPath` names no folder, so git runs no hooks
    ----- stderr -----
    hint: `git config --unset core.hooksPath`, where it is set, switches hooks on again
    ");
    assert_eq!(yard.piton(&["hooks", "status"]).code(), Some(1));
}

#[test]
fn names_that_are_hard_to_quote_work() {
    let sandbox = Yard::new();
    for name in [
        "with space",
        "it's \"quoted\" $HOME `x`",
        "two\nlines",
        "-dash",
        "\u{fc}n\u{ef}code",
    ] {
        let folder = sandbox.project.root().join(name);
        let mut init = sandbox.project.hermetic("git", &sandbox.project.root());
        assert!(
            init.args(["init", "--quiet", "--"])
                .arg(&folder)
                .status()
                .unwrap()
                .success()
        );
        // The program is in that folder too.
        let program = folder.join("pi ton");
        sandbox.real();
        fs::hard_link(sandbox.program(), &program).unwrap();
        let calls = sandbox.project.root().join("calls");
        super::program(
            &folder.join(".git/hooks/pre-commit"),
            &format!("#!/bin/sh\necho own >> '{}'\n", calls.display()),
        );
        let before = picture(&folder.join(".git/hooks"));
        let mut install = sandbox.project.hermetic(program.to_str().unwrap(), &folder);
        let ran = sandbox
            .project
            .ran(install.args(["hooks", "install"]).output().unwrap());
        assert_eq!(ran.code(), Some(0), "{ran}");
        fs::remove_file(&program).unwrap();
        super::program(
            &program,
            &format!("#!/bin/sh\necho \"piton $3\" >> '{}'\n", calls.display()),
        );
        sandbox.pretend("#!/bin/sh\nexit 1\n");
        super::be_at_work(&folder);
        let mut commit = sandbox.project.hermetic("git", &folder);
        let ran = sandbox.project.ran(
            commit
                .args(["commit", "--quiet", "--allow-empty", "--message", "it"])
                .output()
                .unwrap(),
        );
        assert_eq!(ran.code(), Some(0), "{ran}");
        let expected = "own\npiton pre-commit\npiton prepare-commit-msg\npiton commit-msg\npiton post-commit\n";
        assert_eq!(fs::read_to_string(&calls).unwrap(), expected, "{name:?}");
        fs::remove_file(&calls).unwrap();
        let ran = sandbox.piton_in(&folder, &["hooks", "uninstall"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(picture(&folder.join(".git/hooks")), before, "{name:?}");
    }
}

#[test]
fn a_folder_without_hooks_is_made() {
    let yard = Yard::new();
    fs::remove_dir_all(yard.project.root().join(".git/hooks")).unwrap();
    assert_eq!(yard.states(&["install"]), all(&USUAL, "installed"));
}

#[test]
fn without_a_repository_nothing_can_be_installed() {
    let yard = Yard::with_path(TestProject::without_git(), "");
    let ran = yard.piton(&["hooks", "install"]);
    assert_eq!(ran.code(), Some(5), "{ran}");
    assert!(
        ran.stderr().contains("NO_REPOSITORY") || ran.stderr().contains("repository"),
        "{ran}"
    );
}

/// Applies the snippets: their lines come first, after the interpreter line.
pub(super) fn paste(yard: &Yard, hooks: &[&str]) {
    let mut words = vec!["hooks", "install", "--format", "json"];
    for hook in hooks {
        words.extend(["--hook", hook]);
    }
    let report = yard.piton(&words).json();
    for snippet in report["snippets"].as_array().expect("it is there") {
        let word = |name: &str| snippet[name].as_str();
        let (file, text) = (
            Path::new(word("file").expect("it is there")),
            word("text").expect("it is there"),
        );
        let old = fs::read_to_string(file).unwrap_or_default();
        let new = match old.split_once('\n') {
            Some((first, rest)) => format!("{first}\n{text}{rest}"),
            None => text.to_owned(),
        };
        fs::write(file, new).expect("it is there");
        if let Some(then) = word("then") {
            yard.project.bash(then);
        }
    }
}
