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
    An example repository, in `[TMP]/piton-quickstart-[ID]`

      .ai/directives/examples/hello.md          a directive: a workflow, step by step
      .ai/tools/examples/greet/                 the tool it calls: a manifest and a script
      .ai/directives/examples/tidy.md           a directive with a step that goes wrong
      .ai/tools/examples/tidy_up.sh             the tool that does: metadata and script in one file
      .ai/knowledge/examples/how_items_work.md  knowledge: a document worth keeping

    Sign the items, so that piton notices unintended changes of them:

    $ piton sign --all
    left uncommitted; run `piton checkpoint` to commit it
    signed     directive  hello           b154b87e8920  .ai/directives/examples/hello.md
    signed     directive  tidy            496f6d685a13  .ai/directives/examples/tidy.md
    signed     tool       greet           da273bdc5e1c  .ai/tools/examples/greet/tool.yaml
    signed     tool       tidy_up         d1d0b7bc36f9  .ai/tools/examples/tidy_up.sh
    signed     knowledge  how_items_work  f58929ed6934  .ai/knowledge/examples/how_items_work.md
    ✓ signed 5 of 5 items

    Commit everything as the first checkpoint:

    $ piton checkpoint --all --message 'chore: begin'
    ✓ committed [SHA] chore: begin (7 files, +136 −0)

    You write `notes.txt`. Then a directive runs; piton commits only the changes of each step:

    $ piton run hello --input who=Ada
    ✓ greet  [SHA] chore: add `hello.txt` by `greet` (1 file, +1 −0)
    path: hello.txt
    ✓ hello succeeded: 1 step, 1 commit (run 01kdyac8c8fy338sq9m21s2kv4)

    The second step of this one fails. piton rolls it back and restores your notes; the first step stays:

    $ piton run tidy
    ✓ greet  [SHA] chore: update `hello.txt` by `greet` (1 file, +1 −1)
    removing notes.txt and emptying hello.txt …
    ✗ tidy_up  rolled back 2 files
    ✗ tidy failed: 2 steps, 1 commit (run 01kdyacty0y46yvxfhv46wmbva)
    error: tool `tidy_up` exited with status 3 [TOOL_FAILED]
    hint: `piton show 01kdyacty0y46yvxfhv46wmbva` shows what it did, `piton resume 01kdyacty0y46yvxfhv46wmbva` restarts at the failed step

    Any command can be a step:

    $ piton exec -- sh -c 'echo hello > greeting.txt'
    ✓ committed [SHA] chore: add `greeting.txt` by `sh` (1 file, +1 −0)

    Any step can be undone later, and an undo as well; branches never move backwards:

    $ piton undo
    ✓ committed [SHA] chore: undo sh (1 file, +0 −1)

    Every step is written down, in a chain that shows tampering:

    $ piton log
    01kdyae8  2026-01-02 03:01:28  undo                                    succeeded  [SHA]  1 file, +0 −1
    01kdyadv  2026-01-02 03:01:14  exec sh -c 'echo hello > greeting.txt'  succeeded  [SHA]  1 file, +1 −0  (undone)
    01kdyact  2026-01-02 03:00:41  directive tidy@1.0.0                    failed
      1  greet    succeeded  [SHA]  1 file, +1 −1
      2  tidy_up  failed     rolled back  2 files, +0 −2
    01kdyac8  2026-01-02 03:00:22  directive hello@1.0.0                   succeeded  [SHA]  1 file, +1 −0
    01kdyabx  2026-01-02 03:00:11  checkpoint                              succeeded  [SHA]  7 files, +136 −0
    01kdyabm  2026-01-02 03:00:02  quickstart                              succeeded  [SHA]  5 files, +5 −0
    $ piton verify
    ✓ 6 runs, 5 checkpoints verified

    The files of the project are checked, too: every mistake is found at once; here is none:

    $ piton validate
    ✓ 2 tools, 2 directives, 1 knowledge entry: 0 errors, 0 warnings

    A directive says what it needs, what it may do and in which steps:

    $ piton directive show hello
    hello 1.0.0 (directive, project)
    Write a greeting into hello.txt
    .ai/directives/examples/hello.md
    signature: valid

    Inputs
      who (string, default "world")  Who is greeted

    Permissions
      run tools `greet`
      write `hello.txt`

    Steps
      1. greet  tool `greet`: Write the greeting

    Look around with `cd [TMP]/piton-quickstart-[ID]`, or make your own project with `piton init`
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
        assert_eq!(
            project.piton(["-C", folder, "quickstart"]).code(),
            Some(0),
            "{folder}"
        );
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

    hint: check that its folder exists and is writable, and the disk space
    "#);
}
