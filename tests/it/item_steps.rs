//! Steps that search, load, sign and migrate items, and the built-in directives made of them.

use serde_json::{Value, json};

use crate::harness::{Ran, TestProject};

const COUNT: &str = "\"\"\"Counts words.\"\"\"\n\n\ndef main(text: str, times: int = 1) -> dict:\n    return {\"words\": len(text.split()) * times}\n";

#[test]
fn sign_items_stamps_and_commits_and_does_nothing_twice() {
    let project = TestProject::new()
        .tool("one", "", "true")
        .tool("two", "", "true")
        .file("mine.txt", "mine\n")
        .committed();
    let project = project
        .file("mine.txt", "mine, changed\n")
        .file("untracked.txt", "");
    let first = finished(&project.piton([
        "run",
        "sign_items",
        "--input",
        "items=*",
        "--format",
        "json",
    ]));
    assert_eq!(first["status"], "succeeded", "{first:#}");
    let names = |list: &Value| {
        list.as_array()
            .map(|all| all.iter().map(|it| it["name"].clone()).collect::<Vec<_>>())
    };
    assert_eq!(
        names(&first["outputs"]["signed"]),
        Some(vec![json!("one"), json!("two")])
    );
    assert_eq!(
        project.git(["show", "--format=", "--name-only"]),
        ".ai/tools/one/tool.yaml\n.ai/tools/two/tool.yaml\n"
    );
    assert!(
        project
            .git(["log", "-1", "--format=%B"])
            .contains("[directive: sign_items]")
    );
    let report = project.piton(["validate", "--format", "json"]).json();
    assert_eq!(report["findings"], json!([]));
    let head = project.git(["rev-parse", "HEAD"]);
    let second = finished(&project.piton([
        "run",
        "sign_items",
        "--input",
        "items=*",
        "--format",
        "json",
    ]));
    assert_eq!(
        (&second["status"], &second["outputs"]["signed"]),
        (&json!("succeeded"), &json!([])),
        "{second:#}"
    );
    assert_eq!(project.git(["rev-parse", "HEAD"]), head);
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M mine.txt\n?? untracked.txt\n"
    );
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}

#[test]
fn an_item_with_mistakes_is_not_signed_and_nothing_changes() {
    let project = TestProject::new()
        .tool("bad", "isolation: loose", "true")
        .committed();
    let run = project.piton([
        "run",
        "sign_items",
        "--input",
        "items=bad",
        "--format",
        "json",
    ]);
    let finished = finished(&run);
    assert_eq!(
        (run.code(), &finished["status"], &finished["error"]["code"]),
        (Some(1), &json!("failed"), &json!("NOT_STAMPABLE"))
    );
    project.assert_clean();
}

#[test]
fn a_migrated_script_does_what_it_did() {
    let project = TestProject::new()
        .file(".ai/scripts/text/count_words.py", COUNT)
        .committed();
    let call = || {
        let run = [
            "tool",
            "run",
            "count_words",
            "--param",
            "text=a b c",
            "--param",
            "times=2",
            "--format",
            "json",
        ];
        finished(&project.piton(run))["result"].clone()
    };
    let before = call();
    assert_eq!(before, json!({"words": 6}));
    let run = project.piton([
        "run",
        "migrate_script_to_tool",
        "--input",
        "script=count_words",
        "--format",
        "json",
    ]);
    let done = finished(&run);
    assert_eq!(done["status"], "succeeded", "{done:#}");
    assert_eq!(done["outputs"]["to"], ".ai/tools/text/count_words");
    assert_eq!(call(), before);
    assert_eq!(project.read(".ai/tools/text/count_words/main.py"), COUNT);
    assert_eq!(project.git(["status", "--porcelain"]), "");
    let report = project
        .piton(["validate", "--strict", "--format", "json"])
        .json();
    assert_eq!(report["findings"], json!([]), "the new tool is signed");
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
    // The tool is not created twice.
    let again = project.piton([
        "run",
        "migrate_script_to_tool",
        "--input",
        "script=count_words",
        "--format",
        "json",
    ]);
    assert_eq!(finished(&again)["error"]["code"], "NOT_A_LEGACY_SCRIPT");
    project.assert_clean();
}

#[test]
fn a_failed_migration_leaves_the_script() {
    let project = TestProject::new()
        .file(".ai/scripts/count_words.py", COUNT)
        .file(".ai/tools/count_words/notes.txt", "mine\n")
        .committed();
    let run = project.piton([
        "run",
        "migrate_script_to_tool",
        "--input",
        "script=count_words",
        "--format",
        "json",
    ]);
    assert_eq!(
        (run.code(), &finished(&run)["error"]["code"]),
        (Some(1), &json!("ITEM_EXISTS"))
    );
    project.assert_clean();
}

#[test]
fn what_a_search_finds_can_be_loaded() {
    let steps = "<step name=\"find\"><search item_type=\"tool\" query=\"greet people\" limit=\"1\"/></step>\
                 <step name=\"get\"><load item_type=\"tool\" item_id=\"{step:find.results.0.name}\"/></step>";
    let project = TestProject::new()
        .tool("greet_all", "", "true")
        .tool("cook", "", "true")
        .file(
            ".ai/directives/look.md",
            directive("look", "<search>*</search><load>*</load>", steps),
        )
        .committed();
    let done = finished(&project.piton(["run", "look", "--format", "json"]));
    assert_eq!(done["status"], "succeeded", "{done:#}");
    assert_eq!(
        done["outputs"],
        json!({"name": "greet_all", "version": "1.0.0"})
    );
    project.assert_clean();
}

#[test]
fn a_stamp_needs_the_grant_to_write_it() {
    let steps = "<step name=\"get\"><sign item_id=\"cook\"/></step>";
    let project = TestProject::new()
        .tool("cook", "", "true")
        .file(
            ".ai/directives/look.md",
            directive("look", "<sign>*</sign>", steps)
                .replace("{step:find.results.0.name}", "-")
                .replace("{step:get.metadata.version}", "-"),
        )
        .committed();
    let run = project.piton(["run", "look", "--format", "json"]);
    assert_eq!(
        (run.code(), &finished(&run)["error"]["code"]),
        (Some(3), &json!("WRITE_DENIED"))
    );
    project.assert_clean();
}

fn directive(name: &str, grants: &str, steps: &str) -> String {
    format!(
        "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n<metadata><permissions>{grants}</permissions></metadata>\n\
         <process>{steps}</process>\n<outputs><success>\nname: {{step:find.results.0.name}}\nversion: {{step:get.metadata.version}}\n\
         </success></outputs>\n</directive>\n```\n"
    )
}

fn finished(ran: &Ran) -> Value {
    let stdout = ran.stdout();
    let line = stdout
        .lines()
        .last()
        .unwrap_or_else(|| panic!("nothing is printed: {ran}"));
    serde_json::from_str(line).expect("JSON")
}
