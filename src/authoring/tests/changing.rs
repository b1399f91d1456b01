//! Updating and deleting items.

use super::*;

fn updated(project: &Project, kind: &str, id: &str, parameters: &Value) -> Value {
    let mut all = json!({"item_type": kind, "item_id": id});
    all.as_object_mut()
        .unwrap()
        .extend(parameters.as_object().unwrap().clone());
    project.carry_out("update", all)
}

#[test]
fn another_text_takes_the_place_of_the_old_one() {
    let project = Project::full();
    let text = KNOWLEDGE.replace("Text", "Another text");
    let answer = updated(
        &project,
        "knowledge",
        "ops/facts",
        &json!({"content": text}),
    );
    assert_eq!(project.read("project/.ai/knowledge/ops/facts.md"), text);
    assert_eq!(
        answer,
        json!({
            "name": "facts", "item_type": "knowledge", "path": ".ai/knowledge/ops/facts.md",
            "files": [".ai/knowledge/ops/facts.md"], "source": "project", "message": "updated knowledge `facts`",
        })
    );
    let again = updated(&project, "knowledge", "facts", &json!({"content": text}));
    assert_eq!(
        again["message"],
        "knowledge `facts` already has this content"
    );
}

#[test]
fn fields_are_changed_where_they_are_written() {
    let project = Project::full();
    updated(
        &project,
        "tool",
        "count",
        &json!({"updates": {"version": "1.1.0", "tags": ["text"]}}),
    );
    let expected = format!(
        "{}tags: [\"text\"]\n",
        MANIFEST.replace("version: 1.0.0", "version: \"1.1.0\"")
    );
    assert_eq!(
        project.read("project/.ai/tools/text/count/tool.yaml"),
        expected
    );
    updated(
        &project,
        "knowledge",
        "facts",
        &json!({"updates": {"title": "New", "tags": null}}),
    );
    assert_eq!(
        project.read("project/.ai/knowledge/ops/facts.md"),
        KNOWLEDGE
            .replace("title: Facts", "title: \"New\"")
            .replace("tags: []\n", "")
    );
    updated(
        &project,
        "tool",
        "plain",
        &json!({"updates": {"description": "other"}}),
    );
    let json: Value = serde_json::from_str(&project.read("project/.ai/tools/plain.json")).unwrap();
    assert_eq!(
        (&json["tool_id"], &json["description"]),
        (&json!("plain"), &json!("other"))
    );
    for (kind, id) in [("directive", "walk"), ("tool", "greet")] {
        let refusal = project.refusal(
            "update",
            json!({"item_type": kind, "item_id": id, "updates": {"version": "2.0.0"}}),
        );
        assert!(
            refusal.starts_with("INVALID_PARAMETER: the fields of"),
            "{refusal}"
        );
    }
}

#[test]
fn a_stamp_that_was_there_is_renewed_and_none_is_made_up() {
    let project = Project::full();
    project.carry_out("sign", json!({"item_id": "*"}));
    for (kind, id, update) in [
        ("knowledge", "facts", json!({"updates": {"title": "New"}})),
        ("tool", "count", json!({"updates": {"version": "1.1.0"}})),
        ("tool", "plain", json!({"updates": {"version": "1.1.0"}})),
        ("tool", "box", json!({"updates": {"version": "1.1.0"}})),
        (
            "tool",
            "greet",
            json!({"content": SCRIPT.replace("echo hi", "echo hello")}),
        ),
        (
            "directive",
            "walk",
            json!({"content": DIRECTIVE.replace("Walk.", "Walk on.")}),
        ),
    ] {
        let answer = updated(&project, kind, id, &update);
        assert!(
            answer["signature"]
                .as_str()
                .is_some_and(|it| it.starts_with("kiwi-mcp:validated:")),
            "{answer}"
        );
        let store = project.store();
        let item = store
            .items()
            .iter()
            .find(|item| item.id.as_str() == id)
            .unwrap();
        assert!(
            matches!(&item.integrity, Integrity::Valid { hash, .. } if *hash == answer["hash"]),
            "{id}"
        );
    }
    let unsigned = Project::full();
    updated(
        &unsigned,
        "tool",
        "count",
        &json!({"updates": {"version": "1.1.0"}}),
    );
    assert!(
        !unsigned
            .read("project/.ai/tools/text/count/tool.yaml")
            .contains("kiwi-mcp")
    );
}

#[test]
fn the_signature_of_an_author_does_not_outlive_the_text() {
    let project = Project::full();
    project.carry_out("sign", json!({"item_id": "greet"}));
    let author = crate::item::signature::author_file(&project.path("project/.ai/tools/greet.sh"));
    fs::write(&author, "a signature").unwrap();
    let answer = updated(
        &project,
        "tool",
        "greet",
        &json!({"content": SCRIPT.replace("hi", "hello")}),
    );
    assert!(!author.exists());
    assert_eq!(
        answer["notes"],
        json!(["the author's signature was for the old text and was removed"])
    );
}

#[test]
fn what_is_not_valid_is_never_written() {
    let project = Project::full();
    let before = project.files();
    let refusal = |kind: &str, id: &str, parameters: Value| {
        let mut all = json!({"item_type": kind, "item_id": id});
        all.as_object_mut()
            .unwrap()
            .extend(parameters.as_object().unwrap().clone());
        project.refusal("update", all)
    };
    assert_eq!(
        refusal("knowledge", "facts", json!({"content": "no front matter"})),
        "MISSING_FRONT_MATTER: it is not valid: the file has no YAML front matter"
    );
    assert_eq!(
        refusal(
            "directive",
            "walk",
            json!({"content": DIRECTIVE.replace("\"walk\"", "\"run\"")})
        ),
        "NAME_MISMATCH: it is not valid: its id is `run`, not `walk`"
    );
    assert_eq!(
        refusal(
            "tool",
            "count",
            json!({"updates": {"executor": "no_such_runtime"}})
        )
        .split(':')
        .next()
        .unwrap(),
        "UNKNOWN_EXECUTOR"
    );
    assert_eq!(
        refusal("tool", "count", json!({"updates": {"version": "x"}}))
            .split(':')
            .next()
            .unwrap(),
        "INVALID_SEMVER"
    );
    assert_eq!(
        refusal(
            "tool",
            "count",
            json!({"content": MANIFEST, "updates": {"version": "2.0.0"}})
        ),
        "INVALID_PARAMETER: `updates` of `update` cannot be given together with `content`"
    );
    assert_eq!(
        refusal("tool", "count", json!({})),
        "INVALID_PARAMETER: `content` of `update` or `updates` has to be given"
    );
    assert_eq!(
        refusal("tool", "nothing", json!({"content": "x"})),
        "NOT_FOUND: tool `nothing` does not exist"
    );
    assert_eq!(
        refusal("directive", "git_checkpoint", json!({"content": DIRECTIVE})),
        "NOT_OF_THE_PROJECT: `git_checkpoint` belongs to the builtin layer, not to the project"
    );
    assert_eq!(project.files(), before);
}

#[test]
fn a_stamp_is_not_renewed_over_files_that_changed_otherwise() {
    let project = Project::full();
    project.carry_out("sign", json!({"item_id": "*"}));
    project.write(
        "project/.ai/tools/text/count/main.py",
        "def main(): return 'changed'\n",
    );
    let before = project.files();
    let update = json!({"item_type": "tool", "item_id": "count", "updates": {"version": "1.1.0"}});
    assert_eq!(
        project.refusal("update", update),
        "HASH_MISMATCH: `count` does not match its stamp"
    );
    assert_eq!(project.files(), before);
}

#[test]
fn a_link_is_not_replaced_by_a_file() {
    let project = Project::full();
    let (link, target) = (
        project.path("project/.ai/knowledge/ops/facts.md"),
        project.path("project/.ai/facts.md"),
    );
    fs::rename(&link, &target).unwrap();
    symlink("../../facts.md", &link).unwrap();
    let update = json!({"item_type": "knowledge", "item_id": "facts", "content": KNOWLEDGE.replace("Text", "New")});
    assert_eq!(
        project.refusal("update", update),
        "IN_THE_WAY: `.ai/knowledge/ops/facts.md` is in the way"
    );
}

#[test]
fn deleting_takes_everything_that_belongs_to_an_item_and_nothing_else() {
    let project = Project::full();
    project.carry_out("sign", json!({"item_id": "*"}));
    fs::write(
        crate::item::signature::author_file(&project.path("project/.ai/tools/plain.json")),
        "x",
    )
    .unwrap();
    let delete = |id: &str, kind: &str| {
        project.carry_out(
            "delete",
            json!({"item_id": id, "item_type": kind, "confirm": true}),
        )
    };
    let answer = delete("text/count", "tool");
    assert_eq!(
        answer["files"],
        json!([
            ".ai/tools/text/count/tool.yaml",
            ".ai/tools/text/count/main.py"
        ])
    );
    assert_eq!(answer["message"], "deleted tool `count`");
    delete("plain", "tool");
    delete("facts", "knowledge");
    delete("walk", "directive");
    delete("legacy", "tool");
    let left: Vec<String> = project
        .files()
        .into_iter()
        .map(|(path, _)| {
            path.strip_prefix(project.path("project"))
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(
        left,
        [
            ".ai/tools/box/data.txt",
            ".ai/tools/box/tool.json",
            ".ai/tools/box/tool.json.sig",
            ".ai/tools/greet.sh"
        ]
    );
}

#[test]
fn a_script_beside_a_manifest_goes_unless_another_tool_starts_it() {
    let manifest = |id: &str| {
        MANIFEST
            .replace("count", id)
            .replace("main.py", "shared.py")
    };
    let project = Project::new(&[
        ("project/.ai/tools/one.yaml", &manifest("one")),
        ("project/.ai/tools/two.yaml", &manifest("two")),
        ("project/.ai/tools/shared.py", "def main(): pass\n"),
    ]);
    let delete = |id: &str| {
        project.carry_out(
            "delete",
            json!({"item_id": id, "item_type": "tool", "confirm": true}),
        )
    };
    assert_eq!(delete("one")["files"], json!([".ai/tools/one.yaml"]));
    assert_eq!(
        delete("two")["files"],
        json!([".ai/tools/two.yaml", ".ai/tools/shared.py"])
    );
}

#[test]
fn an_unconfirmed_or_foreign_item_is_not_deleted() {
    let project = Project::full();
    project.write("home/.ai/tools/mine.sh", &SCRIPT.replace("greet", "mine"));
    let before = project.files();
    let refusal = |parameters: Value| project.refusal("delete", parameters);
    assert_eq!(
        refusal(json!({"item_id": "greet", "item_type": "tool"})),
        "NOT_CONFIRMED: `greet` can only be deleted with a confirmation"
    );
    assert_eq!(
        refusal(json!({"item_id": "mine", "item_type": "tool", "confirm": true})),
        "NOT_OF_THE_PROJECT: `mine` belongs to the user layer, not to the project"
    );
    assert_eq!(
        refusal(json!({"item_id": "subprocess", "item_type": "tool", "confirm": true})),
        "NOT_OF_THE_PROJECT: `subprocess` belongs to the builtin layer, not to the project"
    );
    assert_eq!(
        refusal(json!({"item_id": "../project", "item_type": "tool", "confirm": true}))
            .split(':')
            .next()
            .unwrap(),
        "INVALID_ID"
    );
    assert_eq!(project.files(), before);
}

#[test]
fn of_the_users_items_a_copy_stays() {
    let project = Project::full();
    let script = SCRIPT.replace("greet", "mine");
    project.write("home/.ai/tools/mine.sh", &script);
    let update = json!({"location": "user", "content": script.replace("echo hi", "echo hello")});
    let answer = updated(&project, "tool", "mine", &update);
    let note = answer["notes"][0].as_str().unwrap().to_owned();
    let kept = note.split('`').nth(1).unwrap().replace('~', "home");
    assert_eq!(project.read(&format!("{kept}/tools/mine.sh")), script);
    let deleted = project.carry_out(
        "delete",
        json!({"item_id": "mine", "item_type": "tool", "location": "user", "confirm": true}),
    );
    assert!(!project.path("home/.ai/tools/mine.sh").exists());
    assert!(
        deleted["notes"][0]
            .as_str()
            .unwrap()
            .contains(".ai/replaced/"),
        "{deleted}"
    );
}

#[test]
fn items_that_refer_to_a_deleted_item_are_listed() {
    let project = Project::full();
    project.write(
        "project/.ai/directives/greeting.md",
        &DIRECTIVE.replace("\"walk\"", "\"greeting\"").replace(
            "<action>Walk.</action>",
            "<execute item_type=\"tool\" item_id=\"greet\"/>",
        ),
    );
    let answer = project.carry_out(
        "delete",
        json!({"item_id": "greet", "item_type": "tool", "confirm": true}),
    );
    assert_eq!(
        answer["notes"],
        json!(["directive `greeting` refers to it and will not find it"])
    );
}

#[test]
fn a_text_is_judged_before_it_is_an_item() {
    let project = Project::full();
    let review = |parameters: Value| {
        let Value::Object(parameters) = parameters else {
            panic!("an object")
        };
        let report =
            super::review(&project.ctx(), &CreateItem::read(&parameters).unwrap()).unwrap();
        let codes: Vec<&str> = report
            .findings
            .iter()
            .map(|finding| finding.code.as_str())
            .collect();
        (report.valid, codes.join(" "))
    };
    let text = |kind: &str, id: &str, content: &str| json!({"item_type": kind, "item_id": id, "content": content});
    assert_eq!(
        review(text("knowledge", "facts", KNOWLEDGE)),
        (true, String::new())
    );
    assert_eq!(
        review(text("tool", "new", &SCRIPT.replace("greet", "new"))),
        (true, String::new())
    );
    assert_eq!(
        review(text("tool", "count", &MANIFEST.replace("1.0.0", "one"))),
        (false, "INVALID_SEMVER".to_owned())
    );
    assert_eq!(
        review(text("directive", "fresh", "no directive")),
        (false, "NO_DIRECTIVE".to_owned())
    );
    assert_eq!(
        review(text("knowledge", "other", KNOWLEDGE)),
        (false, "NAME_MISMATCH".to_owned())
    );
    let broken = SCRIPT
        .replace("greet", "new")
        .replace("echo hi", "if true; then");
    assert_eq!(
        review(text("tool", "new", &broken)),
        (false, "SYNTAX_ERROR".to_owned())
    );
}
