//! Hazards 58 and 59: special files in the place of files, and folders that are not projects.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use super::{told, tool, validated};
use crate::harness::TestProject;

const STAMP: &str = "# kiwi-mcp:validated:2026-01-01T00:00:00Z:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";

#[expect(
    clippy::disallowed_methods,
    reason = "only a program can make a pipe with a name"
)]
fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().expect("a pipe has a folder")).expect("a folder");
    assert!(
        Command::new("mkfifo")
            .arg(path)
            .status()
            .expect("mkfifo starts")
            .success()
    );
}

fn script(more: &str) -> String {
    format!(
        "{more}tool_id: s\ntool_type: script\nversion: \"1.0.0\"\ndescription: S\nexecutor: bash_runtime\n\
         config:\n  entrypoint: main.sh\n"
    )
}

#[test]
fn g58_entrypoints_that_are_no_files() {
    let project = TestProject::new().file(".ai/tools/s/tool.yaml", script(""));
    let entrypoint = project.root().join(".ai/tools/s/main.sh");
    pipe(&entrypoint);
    validated!(project, @r"
    exit 2
    error NOT_A_REGULAR_FILE .ai/tools/s/tool.yaml:7:15 Entrypoint \'main.sh\' is not a regular file
    ");
    fs::remove_file(&entrypoint).expect("removed");
    fs::create_dir(&entrypoint).expect("a folder");
    validated!(project, @r"
    exit 2
    error NOT_A_REGULAR_FILE .ai/tools/s/tool.yaml:7:15 Entrypoint \'main.sh\' is not a regular file
    ");
    fs::remove_dir(&entrypoint).expect("removed");
    let _listener = UnixListener::bind(&entrypoint).expect("a socket");
    validated!(project, @r"
    exit 2
    error NOT_A_REGULAR_FILE .ai/tools/s/tool.yaml:7:15 Entrypoint \'main.sh\' is not a regular file
    ");
    fs::remove_file(&entrypoint).expect("removed");
    symlink("/dev/zero", &entrypoint).expect("a link");
    validated!(project, @r"
    exit 2
    error PATH_ESCAPE .ai/tools/s/tool.yaml:7:15 Entrypoint \'main.sh\' is a link that leaves the tool\'s folder
    ");
}

#[test]
fn g58_a_pipe_in_the_place_of_every_file() {
    let project = TestProject::new()
        .file(".ai/tools/s/tool.yaml", script(STAMP))
        .file(".ai/tools/s/main.sh", "true\n")
        .file(".ai/tools/j.json", r#"{"tool_id": "j", "tool_type": "cli", "version": "1.0.0", "description": "J", "executor": "subprocess", "config": {"command": "a"}}"#);
    for place in [
        "tools/t.yaml",
        "tools/t.py",
        "tools/t.sh",
        "tools/t.json",
        "tools/no_ending",
        "tools/folder/tool.yaml",
        "tools/s/requirements.txt",
        "tools/s/data",
        "tools/j.json.sig",
        "scripts/x.py",
        "directives/d.md",
        "knowledge/k.md",
        "extractors/e.yaml",
        "extractors/e.py",
        "schemas/x.json",
        "parsers/x.py",
        "config.yaml",
    ] {
        pipe(&project.root().join(".ai").join(place));
    }
    pipe(&project.home().join(".ai/config.yaml"));
    pipe(&project.home().join(".ai/tools/u.yaml"));
    validated!(project, @"
    exit 2
    error NOT_A_REGULAR_FILE [HOME]/.ai/config.yaml:1:1 not a regular file
    error NOT_A_REGULAR_FILE .ai/config.yaml:1:1 not a regular file
    error NOT_A_REGULAR_FILE .ai/directives/d.md:1:1 not a regular file
    warning CODE_NOT_EXECUTED .ai/extractors/e.py:1:1 an extractor written in Python is not executed
    error NOT_A_REGULAR_FILE .ai/extractors/e.yaml:1:1 not a regular file
    error NOT_A_REGULAR_FILE .ai/knowledge/k.md:1:1 not a regular file
    error NOT_A_REGULAR_FILE .ai/schemas/x.json:1:1 not a regular file
    error NOT_A_REGULAR_FILE .ai/scripts/x.py:1:1 not a regular file
    error NOT_A_REGULAR_FILE .ai/tools/folder/tool.yaml:1:1 not a regular file
    error INVALID_STAMP .ai/tools/j.json:1:1 the file of the stamp cannot be read
    error NOT_A_REGULAR_FILE .ai/tools/s/requirements.txt:1:1 not a regular file
    error HASH_MISMATCH .ai/tools/s/tool.yaml:1:1 Content hash mismatch: stamped aaaaaaaaaaaa…, found b8a4786655c2…
    and 4 more
    ");
    for place in [
        "tools/t.yaml",
        "tools/s/requirements.txt",
        "config.yaml",
        "directives/d.md",
    ] {
        let path = format!(".ai/{place}");
        assert_eq!(
            project.limited(["validate", &path]).code(),
            Some(2),
            "{path}"
        );
    }
    pipe(&project.root().join("outside.md"));
    told!(project, ["validate", "--format", "json", "outside.md"], @"
    exit 2
    error NOT_A_REGULAR_FILE outside.md:1:1 not a regular file
    ");
    assert_eq!(project.limited(["config"]).code(), Some(2));
    for settings in [
        project.root().join(".ai/config.yaml"),
        project.home().join(".ai/config.yaml"),
    ] {
        fs::remove_file(settings).expect("removed");
    }
    told!(project, ["tool", "show", "t", "--format", "json"], @r#"
    exit 2
    {"error":{"code":"INVALID_ITEM","message":"tool `t` cannot be loaded: not a regular file","suggestion":"replace it with a plain file","findings":[{"code":"NOT_A_REGULAR_FILE","severity":"error","file":".ai/tools/t.json","line":1,"column":1,"path":"","message":"not a regular file","suggestion":"replace it with a plain file"}]}}
    "#);
    told!(project, ["directive", "show", "d", "--format", "json"], @r#"
    exit 2
    {"error":{"code":"INVALID_ITEM","message":"directive `d` cannot be loaded: not a regular file","suggestion":"replace it with a plain file","findings":[{"code":"NOT_A_REGULAR_FILE","severity":"error","file":".ai/directives/d.md","line":1,"column":1,"path":"","message":"not a regular file","suggestion":"replace it with a plain file"}]}}
    "#);
}

#[test]
fn g58_a_folder_in_the_place_of_every_file() {
    let project = TestProject::new()
        .file(".ai/tools/s/tool.yaml", script(""))
        .file(".ai/tools/s/main.sh", "true\n");
    for place in [
        "tools/t.yaml",
        "tools/x/tool.yaml",
        "tools/s/requirements.txt",
        "directives/d.md",
        "config.yaml",
    ] {
        fs::create_dir_all(project.root().join(".ai").join(place)).expect("a folder");
    }
    validated!(project, @"
    exit 2
    error NOT_A_REGULAR_FILE .ai/config.yaml:1:1 not a regular file
    error NOT_A_REGULAR_FILE .ai/tools/s/requirements.txt:1:1 not a regular file
    ");
}

#[test]
fn g58_devices_behind_links() {
    let project = TestProject::new()
        .file(".ai/tools/keep.txt", "")
        .file(".ai/directives/keep.txt", "");
    for place in [
        "tools/t.yaml",
        "tools/t.py",
        "directives/d.md",
        "config.yaml",
    ] {
        symlink("/dev/zero", project.root().join(".ai").join(place)).expect("a link");
    }
    validated!(project, @"
    exit 2
    error PATH_ESCAPE .ai/config.yaml:1:1 the link leaves the project
    error PATH_ESCAPE .ai/directives/d.md:1:1 the link leaves the project
    warning IGNORED_FILE .ai/directives/keep.txt:1:1 only Markdown files that end in `.md` are read here
    error PATH_ESCAPE .ai/tools/t.py:1:1 the link leaves the project
    error PATH_ESCAPE .ai/tools/t.yaml:1:1 the link leaves the project
    ");
    told!(project, ["validate", "--format", "json", "/dev/zero"], @r#"
    exit 2
    {"error":{"code":"NOT_AN_ITEM","message":"`/dev/zero` is neither a directive, a tool nor knowledge","suggestion":"items are Markdown, YAML, JSON or scripts; `piton init` makes one of each"}}
    "#);
    told!(project, ["validate", "--format", "json", "/proc/self/mem"], @r#"
    exit 2
    {"error":{"code":"NOT_AN_ITEM","message":"`/proc/self/mem` is neither a directive, a tool nor knowledge","suggestion":"items are Markdown, YAML, JSON or scripts; `piton init` makes one of each"}}
    "#);
}

#[test]
fn g58_a_sparse_terabyte() {
    let project = TestProject::new()
        .file(".ai/tools/s/tool.yaml", script(STAMP))
        .file(".ai/tools/s/main.sh", "true\n")
        .file(".ai/directives/keep.txt", "");
    for place in [
        "tools/s/data",
        "tools/t.py",
        "directives/d.md",
        "config.yaml",
    ] {
        let file = fs::File::create(project.root().join(".ai").join(place)).expect("a file");
        file.set_len(1 << 40).expect("a sparse file");
    }
    validated!(project, @"
    exit 2
    error FILE_TOO_LARGE .ai/config.yaml:1:1 larger than 256 KiB
    error FILE_TOO_LARGE .ai/directives/d.md:1:1 larger than 1024 KiB
    warning IGNORED_FILE .ai/directives/keep.txt:1:1 only Markdown files that end in `.md` are read here
    error UNREADABLE_FILE .ai/tools/s/tool.yaml:1:1 cannot read every file of the tool: the files of the tool hold more than 64 MiB
    error INVALID_STAMP .ai/tools/s/tool.yaml:1:1 not every file that the stamp covers can be read
    error FILE_TOO_LARGE .ai/tools/t.py:1:1 larger than 1024 KiB
    ");
}

#[test]
fn g58_hundred_thousand_empty_files() {
    let project = TestProject::new();
    let folder = project.root().join(".ai/tools");
    fs::create_dir_all(&folder).expect("a folder");
    for at in 0..100_000 {
        fs::File::create(folder.join(format!("f{at}.txt"))).expect("a file");
    }
    validated!(project, @"exit 0");
}

#[test]
fn g58_ten_thousand_empty_items() {
    let project = TestProject::new();
    for (folder, ending) in [
        ("tools", "yaml"),
        ("directives", "md"),
        ("knowledge", "md"),
        ("tools", "py"),
    ] {
        let folder = project.root().join(".ai").join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        for at in 0..2_500 {
            fs::File::create(folder.join(format!("f{at}.{ending}"))).expect("a file");
        }
    }
    let ran = project.limited(["validate", "--format", "json"]);
    assert_eq!(ran.code(), Some(2));
    let report = ran.json();
    let findings = report["findings"].as_array().expect("a list");
    assert_eq!(findings.len(), 10_000);
}

#[test]
fn g58_items_that_are_a_file_a_link_or_nothing() {
    let project = TestProject::new().file(".ai", "a file\n");
    validated!(project, @"
    exit 2
    error UNREADABLE_FILE .ai/directives:1:1 cannot read the folder: Not a directory (os error 20)
    error UNREADABLE_FILE .ai/knowledge:1:1 cannot read the folder: Not a directory (os error 20)
    error UNREADABLE_FILE .ai/scripts:1:1 cannot read the folder: Not a directory (os error 20)
    error UNREADABLE_FILE .ai/tools:1:1 cannot read the folder: Not a directory (os error 20)
    ");
    told!(project, ["tool", "show", "t", "--format", "json"], @r#"
    exit 2
    {"error":{"code":"NOT_FOUND","message":"tool `t` does not exist","suggestion":"those of a project live in `.ai/tools/`, those of a user in `~/.ai/tools/`"}}
    "#);
    assert_eq!(project.limited(["init"]).code(), Some(2));

    let project = TestProject::new();
    pipe(&project.root().join(".ai"));
    validated!(project, @"
    exit 2
    error UNREADABLE_FILE .ai/directives:1:1 cannot read the folder: Not a directory (os error 20)
    error UNREADABLE_FILE .ai/knowledge:1:1 cannot read the folder: Not a directory (os error 20)
    error UNREADABLE_FILE .ai/scripts:1:1 cannot read the folder: Not a directory (os error 20)
    error UNREADABLE_FILE .ai/tools:1:1 cannot read the folder: Not a directory (os error 20)
    ");

    let project = TestProject::new();
    symlink(".ai", project.root().join(".ai")).expect("a link");
    validated!(project, @"
    exit 2
    error UNREADABLE_FILE .ai/config.yaml:1:1 cannot read the file: Too many levels of symbolic links (os error 40)
    error UNREADABLE_FILE .ai/directives:1:1 cannot read the folder: Too many levels of symbolic links (os error 40)
    error UNREADABLE_FILE .ai/knowledge:1:1 cannot read the folder: Too many levels of symbolic links (os error 40)
    error UNREADABLE_FILE .ai/scripts:1:1 cannot read the folder: Too many levels of symbolic links (os error 40)
    error UNREADABLE_FILE .ai/tools:1:1 cannot read the folder: Too many levels of symbolic links (os error 40)
    ");

    let project = TestProject::new().home_file("x/tools/t.yaml", tool(""));
    symlink(project.home().join("x"), project.root().join(".ai")).expect("a link");
    validated!(project, @"
    exit 2
    error PATH_ESCAPE .ai:1:1 the link leaves the project
    ");

    let project = TestProject::new();
    symlink("/", project.root().join(".ai")).expect("a link");
    validated!(project, @"
    exit 2
    error PATH_ESCAPE .ai:1:1 the link leaves the project
    ");

    let project = TestProject::new()
        .file(".ai/tools", "a file\n")
        .file(".ai/directives", "")
        .file(".ai/extractors", "");
    validated!(project, @"
    exit 2
    error UNREADABLE_FILE .ai/directives:1:1 cannot read the folder: Not a directory (os error 20)
    error UNREADABLE_FILE .ai/tools:1:1 cannot read the folder: Not a directory (os error 20)
    ");
}

#[test]
fn g58_folders_too_deep() {
    let project =
        TestProject::new().file(&format!(".ai/tools/{}t.yaml", "a/".repeat(200)), tool(""));
    validated!(project, @"
    exit 2
    error NESTING_LIMIT .ai/tools/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a:1:1 more than 32 folders deep
    ");
}

#[test]
fn g59_places_that_are_no_project() {
    let project = TestProject::new()
        .file("plain.txt", "x")
        .file(".ai/tools/t.yaml", tool(""));
    project.git(["init", "--quiet", "--bare", "bare.git"]);
    pipe(&project.root().join("pipe"));
    let home = project.home();
    for place in [
        "/",
        "/dev/null",
        "plain.txt",
        "pipe",
        "nowhere",
        "bare.git",
        ".git",
        "a\nb",
        home.to_str().expect("text"),
    ] {
        let ran = project.limited(["-C", place, "validate", "--format", "json"]);
        assert!(matches!(ran.code(), Some(2 | 5)), "{place:?}: {ran}");
        let shown = ran.json();
        let code = shown["error"]["code"].as_str().or(shown["code"].as_str());
        assert!(
            matches!(code, Some("NOT_A_PROJECT" | "NOT_A_FOLDER")),
            "{place:?}: {ran}"
        );
    }
}

#[test]
fn g58_scripts_that_cost_their_interpreter_much() {
    let nested = "[[], [], []],".repeat(7_500);
    for (runtime, file, text) in [
        ("python_runtime", "main.py", nested.as_str()),
        ("python_runtime", "main.py", &nested.repeat(10)),
        ("node_runtime", "main.js", &nested.repeat(10)),
        (
            "bash_runtime",
            "main.sh",
            &"f() { echo $(a b); }\n".repeat(45_000),
        ),
    ] {
        let text = text.trim_end_matches(',');
        let manifest = script("")
            .replace("bash_runtime", runtime)
            .replace("main.sh", file);
        let project = TestProject::new()
            .file(".ai/tools/s/tool.yaml", manifest)
            .file(&format!(".ai/tools/s/{file}"), text);
        let ran = project.limited(["validate", "--format", "json"]);
        assert_eq!(ran.code(), Some(0), "{file} {}: {ran}", text.len());
    }
}
