//! `piton mcp install`: failures first, and foreign settings are never lost.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{TestProject, cmd_snapshot};

/// A project whose user finds piton by its name.
fn project() -> TestProject {
    let programs = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .to_string_lossy()
        .into_owned();
    TestProject::new()
        .file("README.md", "read me\n")
        .committed()
        .variable("PATH", &format!("{programs}:/usr/bin:/bin"))
}

fn install<'a>(client: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["mcp", "install", "--client", client], more].concat()
}

/// An installation that must be refused: the file stays as it is, and nothing is left beside it.
fn refused(project: &TestProject, file: &str, more: &[&str]) -> Value {
    let path = project.root().join(file);
    // Reading a pipe would never end.
    let content = || path.is_file().then(|| fs::read(&path).expect("a file"));
    let before = content();
    let files = project.files();
    let ran = project.piton(
        [
            install("claude", &["--write", "--format", "json"]),
            more.to_vec(),
        ]
        .concat(),
    );
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert_eq!(content(), before, "{ran}");
    assert_eq!(project.files(), files, "{ran}");
    ran.json()["error"].clone()
}

#[test]
fn settings_that_are_not_json_are_refused_and_stay() {
    for text in [
        "{\"mcpServers\": {",
        "{} trailing",
        "[]",
        "{\"mcpServers\": []}",
        "{'a': 1}",
    ] {
        let project = project().file(".mcp.json", text);
        let said = refused(&project, ".mcp.json", &[]);
        assert_eq!(said["code"], "INVALID_FILE", "{said}");
    }
    let project = project().file(".mcp.json", "{\"mcpServers\": {}, \"mcpServers\": {}}");
    cmd_snapshot!(project.piton(install("claude", &["--write"])), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[PROJECT]/.mcp.json` cannot be changed: the key `mcpServers` is there twice

    hint: nothing was written: correct the file first; without `--write`, `piton mcp install` prints what to write by hand
    ");
    let project = self::project().file(".mcp.json", b"{\"a\": \"\xff\"}");
    cmd_snapshot!(project.piton(install("claude", &["--write"])), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[PROJECT]/.mcp.json` cannot be changed: it is not UTF-8

    hint: nothing was written: correct the file first; without `--write`, `piton mcp install` prints what to write by hand
    ");
}

#[test]
fn settings_that_are_not_toml_are_refused_and_stay() {
    let broken = "model = \"x\"\n[mcp_servers.other\n";
    let project = project().home_file(".codex/config.toml", broken);
    cmd_snapshot!(project.piton(install("codex", &["--write"])), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[HOME]/.codex/config.toml` cannot be changed: unclosed table, expected `]` on line 2

    hint: nothing was written: correct the file first; without `--write`, `piton mcp install` prints what to write by hand
    ");
    assert_eq!(
        fs::read_to_string(project.home().join(".codex/config.toml")).expect("kept"),
        broken
    );
}

#[test]
fn a_different_entry_is_kept_unless_forced() {
    let text = "{\n  \"mcpServers\": {\n    \"piton\": {\n      \"command\": \"/old/piton\",\n      \"args\": [\"mcp\"],\n      \
                \"env\": { \"SECRET\": \"hunter2\" }\n    }\n  }\n}\n";
    let project = project().file(".mcp.json", text);
    cmd_snapshot!(project.piton(install("claude", &["--write"])), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[PROJECT]/.mcp.json` has an entry `piton` already, which starts `/old/piton mcp`

    hint: `--force` replaces what piton sets and keeps the other keys; nothing was written
    ");
    assert_eq!(project.read(".mcp.json"), text);
    cmd_snapshot!(project.piton(install("claude", &[])), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {
      "mcpServers": {
        "piton": {
          "type": "stdio",
          "command": "piton",
          "args": [
            "mcp"
          ]
        }
      }
    }
    ----- stderr -----
    `[PROJECT]/.mcp.json` has another entry `piton`; this one would be:
    hint: `--write --force` replaces it; keys that piton does not set stay
    "#);
    cmd_snapshot!(project.piton(install("claude", &["--write", "--force"])), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ replaced the entry `piton` in `[PROJECT]/.mcp.json`
    this is your own uncommitted edit; commit it so that everyone with piton can use it
    ");
    insta::assert_snapshot!(project.read(".mcp.json"), @r#"
    {
      "mcpServers": {
        "piton": {
          "command": "piton",
          "args": ["mcp"],
          "env": { "SECRET": "hunter2" },
          "type": "stdio"
        }
      }
    }
    "#);
}

#[test]
fn an_entry_for_a_server_elsewhere_is_replaced_whole() {
    let text = r#"{"mcpServers": {"piton": {"type": "http", "url": "http://127.0.0.1:7421/mcp?key=hunter2", "headers": {"A": "b"}}}}"#;
    let project = project().file(".mcp.json", text);
    let said = refused(&project, ".mcp.json", &[]);
    assert_eq!(said["code"], "ENTRY_DIFFERS");
    assert!(!said.to_string().contains("hunter2"), "{said}");
    project.piton(install("claude", &["--write", "--force"]));
    let read: Value = serde_json::from_str(&project.read(".mcp.json")).expect("JSON");
    assert_eq!(
        read,
        json!({ "mcpServers": { "piton": { "type": "stdio", "command": "piton", "args": ["mcp"] } } })
    );
}

#[test]
fn files_that_are_none_or_read_only_are_refused() {
    let project = project();
    fs::create_dir(project.root().join(".mcp.json")).expect("a folder");
    assert_eq!(refused(&project, ".mcp.json", &[])["code"], "INVALID_FILE");
    fs::remove_dir(project.root().join(".mcp.json")).expect("removed");
    project.bash("mkfifo .mcp.json");
    assert_eq!(refused(&project, ".mcp.json", &[])["code"], "INVALID_FILE");
    project.bash("rm .mcp.json; echo '{}' > .mcp.json; chmod 444 .mcp.json");
    cmd_snapshot!(project.piton(install("claude", &["--write"])), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[PROJECT]/.mcp.json` is read-only

    hint: make it writable with `chmod u+w`; without `--write`, `piton mcp install` prints what to write by hand
    ");
    assert_eq!(project.read(".mcp.json"), "{}\n");
}

#[test]
fn a_folder_that_cannot_be_written_is_reported() {
    let project = project();
    project.bash("mkdir .vscode; chmod 555 .vscode");
    let ran = project.piton_bound(install("vscode", &["--write"]));
    project.bash("chmod 755 .vscode");
    cmd_snapshot!(ran, @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot write `[PROJECT]/.vscode/mcp.json`
      caused by: permission denied

    hint: check that its folder exists and is writable, and the disk space
    ");
    assert_eq!(project.files(), ["README.md"]);
}

#[test]
fn links_of_a_project_lead_nowhere_outside_of_it() {
    let project = project();
    let outside = project.home().join("elsewhere.json");
    fs::write(&outside, "{}\n").expect("a file");
    symlink(&outside, project.root().join(".mcp.json")).expect("a link");
    cmd_snapshot!(project.piton(install("claude", &["--write"])), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[PROJECT]/.mcp.json` leads out of the project by a link

    hint: nothing was written, because a project must not say where; without `--write`, `piton mcp install` prints what to write by hand
    ");
    assert_eq!(fs::read_to_string(&outside).expect("kept"), "{}\n");
    symlink(project.home(), project.root().join(".vscode")).expect("a link");
    let ran = project.piton(install("vscode", &["--write", "--format", "json"]));
    assert_eq!(
        (ran.code(), &ran.json()["error"]["code"]),
        (Some(2), &json!("OUTSIDE_PROJECT")),
        "{ran}"
    );
    assert!(!project.home().join("mcp.json").exists());
    symlink("nothing.json", project.root().join("gone")).expect("a link");
    project.bash("rm .mcp.json; mv gone .mcp.json");
    cmd_snapshot!(project.piton(install("claude", &["--write"])), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[PROJECT]/.mcp.json` is a link that leads to nothing

    hint: make what it leads to, or remove the link
    ");
    assert_eq!(project.bash("readlink .mcp.json"), "nothing.json\n");
}

#[test]
fn settings_of_a_user_are_written_through_links_and_keep_their_mode() {
    let project = project().home_file("dotfiles/claude.json", "{\"numStartups\": 7}\n");
    let target = project.home().join("dotfiles/claude.json");
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).expect("a mode");
    symlink("dotfiles/claude.json", project.home().join(".claude.json")).expect("a link");
    let ran = project.piton(install("claude", &["--scope", "user", "--write"]));
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(project.home().join(".claude.json").is_symlink());
    assert_eq!(
        fs::metadata(&target).expect("there").permissions().mode() & 0o777,
        0o640
    );
    let read: Value =
        serde_json::from_str(&fs::read_to_string(&target).expect("there")).expect("JSON");
    let piton = json!({ "type": "stdio", "command": "piton", "args": ["mcp"] });
    assert_eq!(
        read,
        json!({ "numStartups": 7, "mcpServers": { "piton": piton } })
    );
    assert_eq!(
        fs::read_dir(project.home().join("dotfiles"))
            .expect("a folder")
            .count(),
        1,
        "nothing is left behind"
    );
}

#[test]
fn without_write_it_says_what_goes_where_and_writes_nothing() {
    let project = project();
    cmd_snapshot!(project.piton(install("claude", &[])), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {
      "mcpServers": {
        "piton": {
          "type": "stdio",
          "command": "piton",
          "args": [
            "mcp"
          ]
        }
      }
    }
    ----- stderr -----
    Claude Code reads this in `[PROJECT]/.mcp.json`:
    hint: `--write` writes it there; other servers, keys and comments stay
    "#);
    cmd_snapshot!(project.piton(install("codex", &[])), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    [mcp_servers.piton]
    command = "piton"
    args = ["mcp"]
    ----- stderr -----
    Codex reads this in `[HOME]/.codex/config.toml`:
    hint: `--write` writes it there; other servers, keys and comments stay
    "#);
    cmd_snapshot!(project.piton(install("cursor", &["--as", "review"])), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {
      "mcpServers": {
        "piton": {
          "type": "stdio",
          "command": "piton",
          "args": [
            "-C",
            "${workspaceFolder}",
            "mcp",
            "--as",
            "review"
          ]
        }
      }
    }
    ----- stderr -----
    Cursor reads this in `[PROJECT]/.cursor/mcp.json`:
    hint: `--write` writes it there; other servers, keys and comments stay
    "#);
    cmd_snapshot!(project.piton(install("vscode", &["--format", "json"])), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {"client":"vscode","scope":"project","file":"[PROJECT]/.vscode/mcp.json","file_format":"json","entry":{"type":"stdio","command":"piton","args":["-C","${workspaceFolder}","mcp"]},"snippet":"{\n  \"servers\": {\n    \"piton\": {\n      \"type\": \"stdio\",\n      \"command\": \"piton\",\n      \"args\": [\n        \"-C\",\n        \"${workspaceFolder}\",\n        \"mcp\"\n      ]\n    }\n  }\n}\n","status":"absent","message":"Visual Studio Code reads this in `[PROJECT]/.vscode/mcp.json`:"}
    ----- stderr -----
    "#);
    cmd_snapshot!(project.piton(install("gemini", &["--scope", "user"])), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {
      "mcpServers": {
        "piton": {
          "command": "piton",
          "args": [
            "mcp"
          ]
        }
      }
    }
    ----- stderr -----
    Gemini CLI reads this in `[HOME]/.gemini/settings.json`:
    hint: `--write` writes it there; other servers, keys and comments stay
    "#);
    assert_eq!(project.files(), ["README.md"]);
    assert_eq!(fs::read_dir(project.home()).expect("a folder").count(), 0);
    // An invalid settings file does not prevent showing the snippet.
    let project = project.file(".mcp.json", "{");
    cmd_snapshot!(project.piton(install("claude", &[])), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {
      "mcpServers": {
        "piton": {
          "type": "stdio",
          "command": "piton",
          "args": [
            "mcp"
          ]
        }
      }
    }
    ----- stderr -----
    warning: `[PROJECT]/.mcp.json` cannot be changed: unterminated object on line 1 column 1
    Claude Code reads this in `[PROJECT]/.mcp.json`:
    "#);
}

#[test]
fn writing_twice_changes_nothing_the_second_time() {
    let project = project();
    cmd_snapshot!(project.piton(install("claude", &["--write"])), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ added piton to Claude Code in `[PROJECT]/.mcp.json`
    this is your own uncommitted edit; commit it so that everyone with piton can use it
    ");
    let first = fs::metadata(project.root().join(".mcp.json"))
        .expect("there")
        .modified()
        .expect("a time");
    cmd_snapshot!(project.piton(install("claude", &["--write"])), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ `[PROJECT]/.mcp.json` already has piton
    this is your own uncommitted edit; commit it so that everyone with piton can use it
    ");
    assert_eq!(
        fs::metadata(project.root().join(".mcp.json"))
            .expect("there")
            .modified()
            .expect("a time"),
        first
    );
    assert_eq!(project.git(["status", "--porcelain"]), "?? .mcp.json\n");
    // An additional key of the user in the entry makes no difference.
    let text = project
        .read(".mcp.json")
        .replace("\"type\"", "\"env\": {},\n      \"type\"");
    let project = project.file(".mcp.json", &text);
    assert_eq!(
        project
            .piton(install("claude", &["--write", "--format", "json"]))
            .json()["status"],
        "present"
    );
    assert_eq!(project.read(".mcp.json"), text);
}

#[test]
fn every_client_can_be_installed_in_each_scope() {
    let cases = [
        ("claude", "project", ".mcp.json", "mcpServers"),
        ("cursor", "project", ".cursor/mcp.json", "mcpServers"),
        ("vscode", "project", ".vscode/mcp.json", "servers"),
        ("gemini", "project", ".gemini/settings.json", "mcpServers"),
        ("claude", "user", ".claude.json", "mcpServers"),
        ("cursor", "user", ".cursor/mcp.json", "mcpServers"),
        ("vscode", "user", ".config/Code/User/mcp.json", "servers"),
        ("gemini", "user", ".gemini/settings.json", "mcpServers"),
    ];
    for (client, scope, file, section) in cases {
        let project = project();
        let path = if scope == "user" {
            project.home()
        } else {
            project.root()
        }
        .join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let text = format!(
            "// mine\n{{\n    \"{section}\": {{\n        \"other\": {{}} // theirs\n    }},\n    \"a\": 1,\n}}\n"
        );
        fs::write(&path, text).expect("a file");
        let ran = project.piton(install(client, &["--scope", scope, "--write"]));
        assert_eq!(ran.code(), Some(0), "{ran}");
        let new = fs::read_to_string(&path).expect("there");
        for kept in [
            "// mine\n{\n",
            "\"other\": {}",
            "// theirs",
            "    \"a\": 1,\n}\n",
        ] {
            assert!(
                new.contains(kept),
                "{client} {scope}: {kept:?} is lost in\n{new}"
            );
        }
        let said = project
            .piton(install(client, &["--scope", scope, "--format", "json"]))
            .json();
        assert_eq!(said["status"], "present", "{said}\n{new}");
    }
    for (scope, base) in [("user", "home"), ("project", "project")] {
        let project = project();
        let ran = project.piton(install("codex", &["--scope", scope, "--write"]));
        assert_eq!(ran.code(), Some(0), "{ran}");
        let folder = if base == "home" {
            project.home()
        } else {
            project.root()
        };
        let new = fs::read_to_string(folder.join(".codex/config.toml")).expect("there");
        assert_eq!(
            new,
            "[mcp_servers.piton]\ncommand = \"piton\"\nargs = [\"mcp\"]\n"
        );
    }
}

#[test]
fn clients_that_keep_their_settings_elsewhere_are_found() {
    let project = project();
    let elsewhere = project.home().join("there");
    let project = project
        .variable("CODEX_HOME", &elsewhere.to_string_lossy())
        .variable("CLAUDE_CONFIG_DIR", &elsewhere.to_string_lossy())
        .variable("XDG_CONFIG_HOME", &elsewhere.to_string_lossy());
    for (client, file) in [
        ("codex", "config.toml"),
        ("claude", ".claude.json"),
        ("vscode", "Code/User/mcp.json"),
    ] {
        project.piton(install(client, &["--scope", "user", "--write"]));
        assert!(elsewhere.join(file).is_file(), "{client}");
        let mode = fs::metadata(elsewhere.join(file))
            .expect("there")
            .permissions()
            .mode()
            & 0o777;
        assert_eq!(mode, 0o600, "{client}: settings of a user may hold secrets");
    }
}

#[test]
fn settings_of_a_user_need_no_project() {
    let project = project();
    let home = project.home().to_string_lossy().into_owned();
    let ran = project.piton([
        "-C", &*home, "mcp", "install", "--client", "codex", "--write",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = project.piton([
        "-C", &*home, "mcp", "install", "--client", "claude", "--write",
    ]);
    assert_eq!(ran.code(), Some(5), "{ran}");
    assert!(!project.home().join(".mcp.json").exists());
}

#[test]
fn a_program_that_the_name_does_not_find_is_named_by_its_path() {
    let project = project().variable("PATH", "/usr/bin:/bin");
    let own = fs::canonicalize(env!("CARGO_BIN_EXE_piton")).expect("the program");
    let said = project
        .piton(install("claude", &["--format", "json"]))
        .json();
    assert_eq!(said["entry"]["command"], json!(own));
    let said = project.piton(install("claude", &["--write"])).stderr();
    assert!(said.contains("contains local paths"), "{said}");
    // Another program with the same name is not used.
    project.bash("mkdir ../bin; printf '#!/bin/sh\\n' > ../bin/piton; chmod +x ../bin/piton");
    let folder = project.root().join("../bin").to_string_lossy().into_owned();
    let project = project.variable("PATH", &format!("{folder}:/usr/bin:/bin"));
    let said = project
        .piton(install("claude", &["--format", "json"]))
        .json();
    assert_eq!(said["entry"]["command"], json!(own));
}

#[test]
fn folders_are_named_whole_and_have_to_be_there() {
    let project = project();
    fs::create_dir_all(project.root().join("../work")).expect("a folder");
    let said = project
        .piton(install(
            "claude",
            &["--root", "../work", "--format", "json"],
        ))
        .json();
    let work = fs::canonicalize(project.root().join("../work")).expect("a folder");
    assert_eq!(said["entry"]["args"], json!(["mcp", "--root", work]));
    let ran = project.piton(install("claude", &["--root", "../nowhere", "--write"]));
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert_eq!(project.files(), ["README.md"]);
}

#[test]
fn contradictory_arguments_are_reported() {
    let project = project();
    for words in [
        &["mcp", "install"][..],
        &["mcp", "install", "--client", "emacs"],
        &["mcp", "--as", "a", "install", "--client", "claude"],
    ] {
        let ran = project.piton(words);
        assert_eq!(ran.code(), Some(2), "{ran}");
    }
    let ran = project.piton(install("claude", &["--force"]));
    assert_eq!(ran.code(), Some(2), "{ran}");
}

#[test]
fn what_is_written_starts_a_server() {
    let project = project();
    project.piton(install("claude", &["--write"]));
    let settings: Value = serde_json::from_str(&project.read(".mcp.json")).expect("JSON");
    let entry = &settings["mcpServers"]["piton"];
    let words: Vec<&str> = entry["args"]
        .as_array()
        .expect("words")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let command = format!(
        "{} {}",
        entry["command"].as_str().expect("a command"),
        words.join(" ")
    );
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
    let said = project.bash(&format!("printf '%s\\n' '{hello}' | {command}"));
    let answer: Value =
        serde_json::from_str(said.lines().next().expect("an answer")).expect("JSON");
    assert_eq!(answer["result"]["serverInfo"]["name"], "piton", "{answer}");
}
