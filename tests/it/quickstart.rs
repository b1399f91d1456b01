//! `piton quickstart`.

use std::path::Path;

use crate::harness::{TestProject, cmd_snapshot};

#[test]
fn it_makes_a_project_of_its_own_and_keeps_it() {
    let project = TestProject::new().ticking();
    let ran = project.piton(["quickstart"]);
    cmd_snapshot!(ran, @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    A project with one item of each kind, in `[TMP]/piton-quickstart-[ID]`

      .ai/directives/examples/hello.md          a directive: a workflow, step by step
      .ai/tools/examples/greet/                 the tool it calls: a manifest and a script
      .ai/knowledge/examples/how_items_work.md  knowledge: what is worth remembering

    The example is a git repository. Everything in it becomes the first checkpoint:

    $ piton checkpoint --all --message 'chore: begin'
    ✓ committed [SHA] chore: begin (5 files, +80 −0)

    You write `notes.txt`. A command runs as a step: what it changes, and only that, is committed:

    $ piton exec -- sh -c 'echo hello > greeting.txt'
    ✓ committed [SHA] chore: add `greeting.txt` by `sh` (1 file, +1 −0)

    A command that fails is put back, here with the harm it did to your notes:

    $ piton exec -- sh -c 'rm notes.txt; echo oops > greeting.txt; exit 3'
    ✗ rolled back 2 files
    error: `sh` exited with status 3 [COMMAND_FAILED]
    hint: see what it did with `piton show 01kdyacba0g7p1pec9d98tgx4v`

    A tool of the project is a step as well; it may write what it says, and no other file:

    $ piton tool run greet --param who=Ada --checkpoint auto
    {"path": "hello.txt"}
    ✓ committed [SHA] chore: add `hello.txt` by `greet` (1 file, +1 −0)

    Any step can be undone later, and an undo as well; branches never move backwards:

    $ piton undo
    ✓ committed [SHA] chore: undo greet (1 file, +0 −1)

    Every step is written down, in a chain that shows tampering:

    $ piton log
    01kdyad3  2026-01-02 03:00:50  undo  succeeded  [SHA]  1 file, +0 −1
    01kdyacn  2026-01-02 03:00:35  tool run greet --param who=Ada  succeeded  [SHA]  1 file, +1 −0  (undone)
    01kdyacb  2026-01-02 03:00:25  exec sh -c 'rm notes.txt; echo oops > greeting.txt; exit 3'  failed  rolled back  2 files, +1 −2
    01kdyaby  2026-01-02 03:00:12  exec sh -c 'echo hello > greeting.txt'  succeeded  [SHA]  1 file, +1 −0
    01kdyabk  2026-01-02 03:00:01  checkpoint  succeeded  [SHA]  5 files, +80 −0
    $ piton verify
    ✓ 5 runs, 4 checkpoints verified

    The files of the project are checked, too: every mistake is found at once; here is none, they are just not signed yet:

    $ piton validate
    warning: 3 items are not signed; `--format json` lists them
    ✓ 1 tool, 1 directive, 1 knowledge entry: 0 errors, 3 warnings

    A directive says what it needs, what it may do and in which steps:

    $ piton directive show hello
    hello 1.0.0 (directive, project)
    Write a greeting into hello.txt
    .ai/directives/examples/hello.md

    Inputs
      who (string, default "world")  Who is greeted

    Permissions
      run tools `greet`
      write `hello.txt`

    Steps
      1. greet  tool `greet`: Write the greeting

    A tool may be written in five ways; piton understands it as one, and says where each field stands:

    $ piton tool show greet
    greet 1.0.0 (script, project)
    Writes a greeting into hello.txt

    path       .ai/tools/examples/greet/tool.yaml
    spelling   manifest
    chain      greet → bash_runtime → subprocess
    signature  unsigned

    tool_id: greet  # .ai/tools/examples/greet/tool.yaml:1
    tool_type: script  # .ai/tools/examples/greet/tool.yaml:2
    kind: script
    version: 1.0.0  # .ai/tools/examples/greet/tool.yaml:3
    description: Writes a greeting into hello.txt  # .ai/tools/examples/greet/tool.yaml:4
    category: examples  # .ai/tools/examples/greet/tool.yaml:5
    executor: bash_runtime  # .ai/tools/examples/greet/tool.yaml:6
    config.entrypoint: greet.sh  # .ai/tools/examples/greet/tool.yaml:11
    parameters[0].name: who  # .ai/tools/examples/greet/tool.yaml:13
    parameters[0].type: string  # .ai/tools/examples/greet/tool.yaml:14
    parameters[0].required: false  # .ai/tools/examples/greet/tool.yaml:15
    parameters[0].default: "world"  # .ai/tools/examples/greet/tool.yaml:16
    parameters[0].description: Who is greeted  # .ai/tools/examples/greet/tool.yaml:17
    mutates_state: true  # .ai/tools/examples/greet/tool.yaml:7
    isolation: standard
    writes: ["hello.txt"]  # .ai/tools/examples/greet/tool.yaml:8

    Look around with `cd [TMP]/piton-quickstart-[ID]`, or make your own project with `piton init`
    Directives are not run yet: that comes next
    ----- stderr -----
    "#);
    assert_eq!(project.files(), Vec::<String>::new());
}

#[test]
fn the_folder_is_in_the_json() {
    let project = TestProject::new();
    let json = project.piton(["quickstart", "--format", "json"]).json();
    let folder = Path::new(json["project"].as_str().unwrap());
    assert!(folder.join(".ai/directives/examples/hello.md").is_file());
    assert_eq!(json["validation"]["valid"], true);
}

#[test]
fn it_works_where_no_project_can_be() {
    let project = TestProject::new();
    let home = project.home();
    for folder in ["/", home.to_str().unwrap()] {
        assert_eq!(project.piton(["-C", folder, "quickstart"]).code(), Some(0), "{folder}");
    }
}

#[test]
fn a_temporary_folder_that_does_not_exist_is_an_error() {
    let project = TestProject::new().variable("TMPDIR", "/nonexistent/folder");
    cmd_snapshot!(project.piton(["quickstart"]), @r#"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot write `/nonexistent/folder`
      caused by: No such file or directory (os error 2) at path "/nonexistent/folder/piton-quickstart-[ID]"
    "#);
}
