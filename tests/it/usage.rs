//! Arguments, streams, colours and the search for the project.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::harness::{TestProject, cmd_snapshot};

/// The commands that `--help` lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Common commands:");
    let lines = lines.take_while(|line| *line != "Options:" && *line != "Global options:");
    let lines = lines
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '));
    lines
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn help_lists_the_commands() {
    let ran = TestProject::new().piton(["--help"]);
    let text = ran.stdout();
    assert!(
        text.starts_with(
            "Run tools and directives in a git repository, with a checkpoint after every step\n\nUsage: piton "
        ),
        "{ran}"
    );
    let first: Vec<String> = listed(&text).into_iter().take(10).collect();
    assert_eq!(
        first,
        [
            "init", "run", "exec", "undo", "log", "show", "diff", "status", "tool", "search"
        ]
    );
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/commands.md");
    let reference = fs::read_to_string(reference).expect("a page");
    let mut explained: Vec<String> = reference
        .lines()
        .filter_map(|line| line.strip_prefix("## piton "))
        .filter(|words| !words.contains(' '))
        .map(str::to_owned)
        .collect();
    let mut commands = listed(&text);
    commands.sort();
    explained.sort();
    assert_eq!(
        commands, explained,
        "`./scripts/reference` writes the page, and each command is in one group"
    );
    for part in [
        "\nRuns:\n  resume ",
        "\nGlobal options:\n  -C <DIR>\n",
        "\nExamples:\n  piton quickstart ",
        "\nExit codes: 0 success, ",
    ] {
        assert!(text.contains(part), "{ran}");
    }
}

#[test]
fn help_of_every_command_has_examples() {
    let project = TestProject::new();
    let commands = listed(&project.piton(["--help"]).stdout());
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let ran = project.piton([command.as_str(), "--help"]);
        let helps =
            ran.stdout().contains("\nExamples:\n  ") || ran.stdout().contains("\nCommands:\n  ");
        assert_eq!((ran.code(), helps), (Some(0), true), "{ran}");
    }
}

#[test]
fn the_version_is_printed_as_data() {
    assert_eq!(
        TestProject::new().piton(["--version"]).stdout(),
        concat!("piton ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn an_unknown_command_is_wrong_usage() {
    cmd_snapshot!(TestProject::new().piton(["confg"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: unrecognized subcommand 'confg'

      tip: a similar subcommand exists: 'config'

    Usage: piton [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn commands_known_by_other_names_are_suggested() {
    let project = TestProject::new();
    for (words, tip) in [
        (&["rnu"][..], "a similar subcommand exists: 'run'"),
        (&["history"], "a similar subcommand exists: 'log'"),
        (
            &["list"],
            "some similar subcommands exist: 'tool list', 'directive list'",
        ),
        (
            &["revert"],
            "some similar subcommands exist: 'undo', 'rollback'",
        ),
        (&["commit"], "a similar subcommand exists: 'checkpoint'"),
        (
            &["-q", "reset"],
            "some similar subcommands exist: 'rollback', 'undo'",
        ),
        (&["tool", "ls"], "a similar subcommand exists: 'tool list'"),
        (&["directive", "run"], "a similar subcommand exists: 'run'"),
    ] {
        let ran = project.piton(words);
        assert_eq!(ran.code(), Some(2), "{ran}");
        assert!(ran.stderr().contains(&format!("tip: {tip}")), "{ran}");
    }
}

#[test]
fn tools_and_directives_are_listed_by_name() {
    let project = TestProject::new()
        .tool("zip", "", "true")
        .tool("ask", "", "true")
        .directive("go", ["zip"]);
    let tools = project.piton(["tool", "list"]).stdout();
    let names: Vec<&str> = tools
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(names, ["ask", "zip"], "{tools}");
    let listed = project
        .piton(["directive", "list", "--format", "json"])
        .stdout();
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(
        (&listed["total"], &listed["results"][0]["name"]),
        (&1.into(), &"go".into()),
        "{listed}"
    );
}

#[test]
fn wrong_usage_is_json_when_json_was_asked_for() {
    cmd_snapshot!(TestProject::new().piton(["config", "--colour", "never", "--format=json"]), @r#"
    success: false
    exit_code: 2
    ----- stdout -----
    {"error":{"code":"USAGE","message":"unexpected argument '--colour' found","suggestion":"see `piton --help`"}}
    ----- stderr -----
    "#);
}

#[test]
fn a_format_of_another_command_is_wrong_usage() {
    cmd_snapshot!(TestProject::new().piton(["config", "--format", "sarif"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `config` cannot be written as `sarif`

    hint: choose `human` or `json`
    ");
}

#[test]
fn a_folder_that_does_not_exist_is_named() {
    cmd_snapshot!(TestProject::new().piton(["-C", "nowhere", "config"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot enter the folder `[PROJECT]/nowhere`
      caused by: No such file or directory (os error 2)
    ");
}

#[test]
fn the_home_is_never_a_project() {
    let project = TestProject::new();
    let home = project.home();
    fs::create_dir(home.join(".ai")).unwrap();
    cmd_snapshot!(project.piton(["-C", home.to_str().unwrap(), "validate"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    ----- stderr -----
    error: the home folder `[HOME]` is not a project

    hint: go to the folder of a project or name one with `-C DIR`; `~/.ai` is for what you use in all of them
    ");
}

#[test]
fn what_is_only_about_the_user_needs_no_project() {
    let project =
        TestProject::new().home_file(".ai/config.yaml", "signature:\n  require: integrity\n");
    project.bash("git init -q --bare ~/bare.git");
    for (at, folder) in [
        "/",
        &project.home().to_string_lossy(),
        &project.home().join("bare.git").to_string_lossy(),
    ]
    .into_iter()
    .enumerate()
    {
        let piton = |words: &str| project.piton(["-C", folder].into_iter().chain(words.split(' ')));
        let setting = piton("config signature.require");
        assert!(setting.stdout().contains("integrity  user,"), "{setting}");
        let made = piton(&format!("new tool mine_{at} --type cli --to user"));
        assert_eq!(
            (made.code(), made.stdout()),
            (Some(0), format!("created ~/.ai/tools/mine_{at}.yaml\n")),
            "{made}"
        );
        let found = piton(&format!("search mine_{at} --source user --format json")).json();
        assert_eq!(found["results"][0]["name"], format!("mine_{at}"));
        let loaded = piton(&format!("load mine_{at} --source user"));
        assert!(
            loaded
                .stdout()
                .starts_with(&format!("tool_id: mine_{at}\n")),
            "{loaded}"
        );
        let signed = piton(&format!("sign mine_{at} --source user"));
        assert_eq!(signed.code(), Some(0), "{signed}");
        let checked = piton("sign --check --source user --format json").json();
        assert_eq!(
            (
                checked["valid"].as_bool(),
                checked["items"].as_array().map(Vec::len)
            ),
            (Some(true), Some(at + 1))
        );
        for words in [
            "new tool theirs",
            "search x",
            "load mine_0 --source user --to project",
            "sign --check",
        ] {
            assert_eq!(piton(words).code(), Some(5), "{folder}: {words}");
        }
    }
}

#[test]
fn the_root_of_the_file_system_is_never_a_project() {
    cmd_snapshot!(TestProject::new().piton(["-C", "/", "validate"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    ----- stderr -----
    error: the root of the file system is not a project

    hint: go to the folder of a project or name one with `-C DIR`; a folder with `.ai/` in it is one
    ");
}

#[test]
fn the_nearest_items_make_the_project() {
    let project = TestProject::new()
        .file("part/.ai/config.yaml", "ui:\n  color: never\n")
        .within("part/src");
    cmd_snapshot!(project.piton(["config", "ui.color", "-v"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ui.color                    never      project, .ai/config.yaml:2
    ----- stderr -----
    project `[PROJECT]/part`, which has `.ai/`
    ");
}

#[test]
fn quiet_leaves_out_the_talk() {
    let project = TestProject::new();
    let ran = project.piton(["init", "-q"]);
    assert_eq!((ran.code(), ran.stderr()), (Some(0), String::new()));
}

#[test]
fn colours_are_for_terminals_unless_forced() {
    let escape = '\u{1b}';
    let project = TestProject::new();
    assert!(!project.piton(["init"]).stderr().contains(escape));
    assert!(
        project
            .piton(["init", "--color", "always"])
            .stderr()
            .contains(escape)
    );
    assert!(
        project
            .piton(["--help", "--color=always"])
            .stdout()
            .contains(escape)
    );
    let project = project.variable("CLICOLOR_FORCE", "1");
    assert!(project.piton(["init"]).stderr().contains(escape));
    assert!(
        !project
            .piton(["init", "--color", "never"])
            .stderr()
            .contains(escape)
    );
    let project = project.variable("NO_COLOR", "1");
    assert!(!project.piton(["init"]).stderr().contains(escape));
    let project = project.file(".ai/config.yaml", "ui:\n  color: always\n");
    assert!(project.piton(["init"]).stderr().contains(escape));
}

#[test]
fn a_closed_pipe_is_success() {
    let project = TestProject::new();
    for arguments in [["config", "-q"], ["--help", "-q"], ["init", "-q"]] {
        let mut child = project
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("piton starts");
        drop(child.stdout.take());
        let mut said = String::new();
        child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut said)
            .unwrap();
        assert_eq!(
            (child.wait().unwrap().code(), said),
            (Some(0), String::new()),
            "{arguments:?}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_not_success() {
    let project = TestProject::new();
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = project.command(["config"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: cannot print the result\n  caused by: No space left on device (os error 28)\n"
    );
}

#[test]
fn names_from_outside_cannot_drive_the_terminal() {
    let ran = TestProject::new().piton(["config", "x\u{1b}]0;owned\u{7}", "--color", "always"]);
    assert_eq!(
        (ran.code(), ran.stderr().contains("x\\u{1b}]0;owned\\u{7}")),
        (Some(2), true),
        "{ran}"
    );
}

#[test]
fn wrong_arguments_cannot_drive_the_terminal() {
    let ran = TestProject::new().piton(["x\u{1b}]0;owned\u{7}", "--color", "always"]);
    assert_eq!(
        (ran.code(), ran.stderr().contains('\u{1b}')),
        (Some(2), false),
        "{ran}"
    );
}

#[test]
fn a_bare_repository_is_not_a_project() {
    let project = TestProject::without_git();
    project.git(["init", "--quiet", "--bare", "store.git"]);
    cmd_snapshot!(project.piton(["-C", "store.git", "init"]), @"
    success: false
    exit_code: 5
    ----- stdout -----
    ----- stderr -----
    error: `[PROJECT]/store.git` is a git folder, not a work tree

    hint: go to a work tree of the repository, or create one with `git worktree add`
    ");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_whose_name_is_no_text_is_supported() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let project = TestProject::without_git();
    let folder = project.root().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&folder).unwrap();
    for command in ["init", "config", "quickstart"] {
        let mut piton = project.command([command, "--format", "json"]);
        let output = piton
            .current_dir(&folder)
            .env("TMPDIR", &folder)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(
            serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok(),
            "{command}"
        );
    }
}
