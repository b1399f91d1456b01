mod changing;

use crate::problem::{Code, Explain as _};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use super::*;
use crate::context::Environment;
use crate::item::finding::Strength;
use crate::item::signature::Integrity;
use crate::item::store::ItemKind;

const KNOWLEDGE: &str = "---\nid: facts\ntitle: Facts\nversion: 1.0.0\nentry_type: reference\ncategory: ops\ntags: []\n---\nText\n";
const DIRECTIVE: &str = "# D\n\n```xml\n<directive name=\"walk\" version=\"1.0.0\">\n<process><step name=\"a\">\
                         <action>Walk.</action></step></process>\n</directive>\n```\n";
const SCRIPT: &str = "#!/bin/sh\n# tool_id: greet\n# tool_type: bash\n# version: 1.0.0\n# executor: bash_runtime\n# description: Greets\necho hi\n";
const MANIFEST: &str = "tool_id: count\ntool_type: python\nversion: 1.0.0\ncategory: text\ndescription: Counts\n\
                        executor: python_runtime\nconfig:\n  entrypoint: main.py\n";
const JSON: &str = "{\"tool_id\": \"plain\", \"tool_type\": \"cli\", \"version\": \"1.0.0\", \"description\": \"d\", \
                    \"executor\": \"subprocess\", \"config\": {\"command\": \"true\"}}\n";

struct Project(tempfile::TempDir);

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(project.0.path().join("home")).unwrap();
        fs::create_dir_all(project.0.path().join("project/.ai")).unwrap();
        for (path, text) in files {
            project.write(path, text);
        }
        project
    }

    fn full() -> Self {
        Self::new(&[
            ("project/.ai/knowledge/ops/facts.md", KNOWLEDGE),
            ("project/.ai/directives/walk.md", DIRECTIVE),
            ("project/.ai/tools/greet.sh", SCRIPT),
            ("project/.ai/tools/text/count/tool.yaml", MANIFEST),
            ("project/.ai/tools/text/count/main.py", "def main(): pass\n"),
            ("project/.ai/tools/plain.json", JSON),
            (
                "project/.ai/tools/box/tool.json",
                &JSON.replace("plain", "box"),
            ),
            ("project/.ai/tools/box/data.txt", "data"),
            (
                "project/.ai/scripts/old/legacy.py",
                "def main(a: int = 1): return a\n",
            ),
        ])
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.path(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn ctx(&self) -> Context {
        // The search path must contain the interpreters that check scripts.
        let variables = BTreeMap::from([
            (OsString::from("HOME"), self.path("home").into_os_string()),
            (OsString::from("PATH"), OsString::from("/usr/bin:/bin")),
        ]);
        Context::at(
            Environment::new(variables, self.path("project")),
            &self.path("project"),
        )
        .unwrap()
    }

    fn store(&self) -> ItemStore {
        ItemStore::open(self.ctx().roots(), Strength::Lenient)
    }

    fn plan(&self, verb: &str, parameters: Value) -> Result<ItemEffect, ItemStepError> {
        let Value::Object(parameters) = parameters else {
            panic!("an object")
        };
        let ctx = self.ctx();
        let command = ItemCommand::read(&ctx, verb.parse()?, &parameters)?;
        carry_out(&ctx, &self.store(), &command, Loss::Accepted)
    }

    fn carry_out(&self, verb: &str, parameters: Value) -> Value {
        let effect = self.plan(verb, parameters).unwrap();
        apply(&self.ctx(), &effect.writes).unwrap();
        json!(effect.answer)
    }

    fn refusal(&self, verb: &str, parameters: Value) -> String {
        let err = self.plan(verb, parameters).unwrap_err();
        format!("{}: {err}", err.code())
    }

    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let walk = walkdir::WalkDir::new(self.0.path())
            .sort_by_file_name()
            .into_iter()
            .map(Result::unwrap);
        let files = walk
            .filter(|entry| !entry.file_type().is_dir())
            .map(walkdir::DirEntry::into_path);
        files
            .map(|path| (path.clone(), fs::read(path).unwrap_or_default()))
            .collect()
    }
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect()
}

#[test]
fn search_and_load_change_nothing() {
    let project = Project::full();
    let before = project.files();
    let found = project.carry_out("search", json!({"query": "count", "limit": "1"}));
    assert_eq!(
        found,
        json!({
            "results": [{
                "name": "count", "description": "Counts", "source": "project",
                "path": ".ai/tools/text/count/tool.yaml", "score": 1.0, "tool_type": "python",
                "item_type": "tool", "category": "text", "date": found["results"][0]["date"],
            }],
            "total": 1, "query": "count", "source": "local",
        })
    );
    let loaded = project.carry_out(
        "load",
        json!({"item_type": "tool", "item_id": "text/count"}),
    );
    assert_eq!(
        (&loaded["name"], &loaded["source"], &loaded["content"]),
        (&json!("count"), &json!("project"), &json!(MANIFEST))
    );
    assert_eq!(
        loaded["metadata"]["integrity"],
        json!({"status": "unsigned"})
    );
    let built_in = project.carry_out("load", json!({"item_id": "git_checkpoint"}));
    assert!(
        built_in["content"]
            .as_str()
            .unwrap()
            .contains("<directive name=\"git_checkpoint\"")
    );
    assert_eq!(project.files(), before);
}

#[test]
fn every_signed_item_is_valid_and_signing_again_changes_nothing() {
    let project = Project::full();
    let signed = project.carry_out("sign", json!({"item_id": "*"}));
    let all = ["walk", "box", "greet", "plain", "count", "legacy", "facts"];
    assert_eq!(names(&signed["signed"]), all);
    assert_eq!(signed["message"], json!("signed 7 of 7 items"));
    let store = project.store();
    for item in store
        .items()
        .iter()
        .filter(|item| item.layer == Layer::Project)
    {
        assert!(
            matches!(item.integrity, Integrity::Valid { .. }),
            "{} {:?}",
            item.id,
            item.integrity
        );
    }
    let before = project.files();
    let again = project.carry_out("sign", json!({"item_id": "*", "item_type": "any"}));
    assert_eq!(
        (names(&again["signed"]), names(&again["unchanged"])),
        (vec![], all.to_vec())
    );
    assert_eq!(project.files(), before);
    project.write("project/.ai/tools/box/data.txt", "other");
    let changed = project.carry_out("sign", json!({"item_id": "b*", "item_type": "tool"}));
    assert_eq!(names(&changed["signed"]), ["box"]);
}

#[test]
fn a_pattern_means_a_category_an_id_or_everything() {
    let project = Project::full();
    let signed = |pattern: &str, kind: &str| {
        let effect = project
            .plan("sign", json!({"item_id": pattern, "item_type": kind}))
            .unwrap();
        names(&json!(effect.answer)["signed"])
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(signed("text/*", "any"), ["count"]);
    assert_eq!(signed("*", "knowledge"), ["facts"]);
    assert_eq!(signed("{greet,walk}", "any"), ["walk", "greet"]);
    assert_eq!(signed("old/legacy", "script"), ["legacy"]);
    assert_eq!(
        project.refusal("sign", json!({"item_id": "no/*"})),
        "NOT_FOUND: no item of the project matches `no/*`"
    );
    assert_eq!(
        project.refusal("sign", json!({"item_id": "a[", "item_type": "tool"})),
        "INVALID_PARAMETER: `item_id` of `sign` is not a pattern: unclosed character class; missing ']'"
    );
}

#[test]
fn only_sound_items_of_the_project_are_signed() {
    let project = Project::full();
    project.write("home/.ai/tools/mine.sh", &SCRIPT.replace("greet", "mine"));
    project.write(
        "project/.ai/tools/bad.yaml",
        "tool_id: bad\ntool_type: nonsense\nversion: 1.0.0\n",
    );
    project.write(
        "project/.ai/tools/lost.yaml",
        &MANIFEST
            .replace("count", "lost")
            .replace("main.py", "none.py"),
    );
    assert_eq!(
        project.refusal("sign", json!({"item_id": "mine"})),
        "NOT_OF_THE_PROJECT: `mine` belongs to the user layer, not to the project"
    );
    assert_eq!(
        project.refusal("sign", json!({"item_id": "python_runtime"})),
        "NOT_OF_THE_PROJECT: `python_runtime` belongs to the builtin layer, not to the project"
    );
    assert!(
        project
            .refusal("sign", json!({"item_id": "lost"}))
            .starts_with("NOT_STAMPABLE: `lost` cannot be signed: ")
    );
    let all = project.carry_out("sign", json!({"item_id": "*", "item_type": "tool"}));
    assert_eq!(names(&all["failed"]), ["bad", "lost"]);
    assert_eq!(
        names(&all["signed"]),
        ["box", "greet", "plain", "count", "legacy"]
    );
    assert_eq!(
        all["message"],
        json!("signed 5 of 7 items, 2 cannot be signed")
    );
    assert!(
        project
            .refusal("sign", json!({"item_id": "lo*"}))
            .starts_with("NOT_STAMPABLE")
    );
}

#[test]
fn a_stamp_keeps_the_permissions_of_its_file() {
    let project = Project::full();
    let file = project.path("project/.ai/tools/greet.sh");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
    project.carry_out("sign", json!({"item_id": "greet"}));
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o750
    );
    assert!(
        project
            .read("project/.ai/tools/greet.sh")
            .starts_with("#!/bin/sh\n# kiwi-mcp:validated:")
    );
}

#[test]
fn a_migrated_script_is_a_tool_that_can_be_signed() {
    let project = Project::full();
    let migrated = project.carry_out("migrate", json!({"item_id": "legacy"}));
    assert_eq!(
        migrated,
        json!({
            "tool_id": "legacy",
            "from": ".ai/scripts/old/legacy.py",
            "to": ".ai/tools/old/legacy",
            "files": [".ai/tools/old/legacy/main.py", ".ai/tools/old/legacy/tool.yaml"],
            "notes": [],
        })
    );
    assert!(!project.path("project/.ai/scripts/old/legacy.py").exists());
    assert_eq!(
        names(&project.carry_out("sign", json!({"item_id": "legacy"}))["signed"]),
        ["legacy"]
    );
    let store = project.store();
    let item = store.find(ItemKind::Tool, "legacy").unwrap();
    assert!(matches!(item.integrity, Integrity::Valid { .. }));
    assert_eq!(
        project.refusal("migrate", json!({"item_id": "legacy"})),
        "NOT_A_LEGACY_SCRIPT: tool `legacy` is no legacy script: it lies at `.ai/tools/old/legacy/tool.yaml`"
    );
    assert_eq!(
        project.refusal(
            "migrate",
            json!({"item_id": "walk", "item_type": "directive"})
        ),
        "INVALID_PARAMETER: `item_type` of `migrate` must be `tool`: only scripts are migrated"
    );
}

#[test]
fn a_copy_is_stamped_and_replaces_nothing_by_itself() {
    let project = Project::full();
    for (id, kind) in [
        ("count", ItemKind::Tool),
        ("box", ItemKind::Tool),
        ("walk", ItemKind::Directive),
        ("facts", ItemKind::Knowledge),
    ] {
        let copied = project.carry_out("load", json!({"item_id": id, "destination": "user"}));
        assert_eq!(copied["destination"], json!("user"));
        let store = project.store();
        let copy = store.find_in(kind, id, &[Layer::User]).unwrap();
        assert!(
            matches!(copy.integrity, Integrity::Valid { .. }),
            "{id} {:?}",
            copy.integrity
        );
        assert_eq!(
            project
                .plan("load", json!({"item_id": id, "destination": "user"}))
                .unwrap_err()
                .code(),
            Code::ItemExists
        );
    }
    project.write("home/.ai/tools/text/count/stale.py", "");
    project.write(
        "project/.ai/tools/text/count/main.py",
        "def main(a): pass\n",
    );
    project.carry_out(
        "load",
        json!({"item_id": "count", "source": "project", "destination": "user", "overwrite": "true"}),
    );
    let store = project.store();
    let copy = store
        .find_in(ItemKind::Tool, "count", &[Layer::User])
        .unwrap();
    assert!(
        matches!(copy.integrity, Integrity::Valid { .. }),
        "{:?}",
        copy.integrity
    );
    assert!(!project.path("home/.ai/tools/text/count/stale.py").exists());
    assert_eq!(
        project.read("home/.ai/tools/text/count/main.py"),
        "def main(a): pass\n"
    );
    // A copy onto itself only reads; if another layer has the item too, that one is meant.
    let onto_itself = json!({"item_id": "count", "source": "project", "destination": "project"});
    assert_eq!(project.plan("load", onto_itself).unwrap().writes, vec![]);
    assert_eq!(
        project.refusal(
            "load",
            json!({"item_id": "count", "destination": "project"})
        ),
        "ITEM_EXISTS: `.ai/tools/text/count` exists already"
    );
}

#[test]
fn a_manifest_is_copied_with_its_script() {
    let project = Project::new(&[
        (
            "home/.ai/tools/mine.yaml",
            &MANIFEST
                .replace("count", "mine")
                .replace("main.py", "mine.sh"),
        ),
        ("home/.ai/tools/mine.sh", "echo\n"),
    ]);
    project.carry_out("load", json!({"item_id": "mine", "destination": "project"}));
    assert_eq!(project.read("project/.ai/tools/mine.sh"), "echo\n");
    assert!(
        project
            .read("project/.ai/tools/mine.yaml")
            .starts_with("# kiwi-mcp:validated:")
    );
    let copied = project.carry_out(
        "load",
        json!({"item_id": "sign_items", "destination": "project"}),
    );
    assert_eq!(
        copied["message"],
        json!("copied from builtin to project as `.ai/directives/core/sign_items.md`")
    );
}

#[test]
fn what_cannot_be_loaded_or_copied_is_refused() {
    let project = Project::full();
    assert_eq!(
        project.refusal("load", json!({"item_id": "count", "source": "user"})),
        "NOT_FOUND: tool `count` is not found there; it is in the project layer"
    );
    assert_eq!(
        project.refusal(
            "load",
            json!({"item_id": "subprocess", "destination": "user"})
        ),
        "PRIMITIVE_SHADOWED: the primitive `subprocess` cannot be copied"
    );
    project.write("home/.ai/tools/elsewhere/count.yaml", MANIFEST);
    assert!(
        project
            .refusal("load", json!({"item_id": "count", "destination": "user"}))
            .starts_with("ITEM_EXISTS")
    );
    project.carry_out("sign", json!({"item_id": "walk"}));
    let text = project.read("project/.ai/directives/walk.md");
    project.write(
        "project/.ai/directives/walk.md",
        &text.replace("Walk.", "Run."),
    );
    assert_eq!(
        project.refusal("load", json!({"item_id": "walk", "destination": "user"})),
        "HASH_MISMATCH: `walk` does not match its stamp"
    );
    assert_eq!(
        project
            .plan("load", json!({"item_id": "none"}))
            .unwrap_err()
            .code(),
        Code::NotFound
    );
    assert_eq!(
        project
            .plan("load", json!({"item_id": "../x"}))
            .unwrap_err()
            .code(),
        Code::InvalidId
    );
}

#[test]
fn wrong_parameters_are_named() {
    let project = Project::full();
    assert_eq!(
        project.refusal("search", json!({})),
        "MISSING_PARAMETER: `search` needs `query`"
    );
    assert_eq!(
        project.refusal("search", json!({"query": "  "})),
        "MISSING_PARAMETER: `search` needs `query`"
    );
    let err = project
        .plan("search", json!({"query": "x", "limt": 3}))
        .unwrap_err();
    assert_eq!(
        (err.code(), err.hint().map(String::from).as_deref()),
        (Code::UnknownParameter, Some("did you mean `limit`?"))
    );
    for (name, value) in [
        ("limit", json!(0)),
        ("limit", json!("many")),
        ("item_type", json!("tools")),
        ("source", json!("nowhere")),
        ("sort_by", json!("size")),
        ("tags", json!([1])),
        ("project_path", json!("/")),
    ] {
        let refusal = project.refusal("search", json!({"query": "x", name: value}));
        assert!(
            refusal.starts_with(&format!("INVALID_PARAMETER: `{name}` of `search` ")),
            "{refusal}"
        );
    }
    assert_eq!(
        project.plan("burn", json!({})).unwrap_err().code(),
        Code::UnknownVerb
    );
    project.carry_out(
        "search",
        json!({"query": "x", "project_path": ".", "category": null}),
    );
}

#[test]
fn nothing_is_written_through_a_link_or_outside_of_the_items() {
    let project = Project::full();
    let outside = project.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("script.sh"), SCRIPT.replace("greet", "linked")).unwrap();
    symlink(&outside, project.path("project/.ai/linked")).unwrap();
    let write = |path: &str| Write::text(Home::Project, PathBuf::from(path), "x".to_owned());
    for (path, code) in [
        (".ai/linked/x.md", Code::UnwritableFile),
        (".ai/../x.md", Code::PathEscape),
        ("src/x.md", Code::PathEscape),
        (".ai", Code::PathEscape),
        ("/etc/x", Code::PathEscape),
    ] {
        assert_eq!(
            apply(&project.ctx(), &[write(path)]).unwrap_err().code(),
            code,
            "{path}"
        );
    }
    // A link in the place of the file is replaced, not followed.
    symlink(
        outside.join("script.sh"),
        project.path("project/.ai/tools/link.sh"),
    )
    .unwrap();
    apply(&project.ctx(), &[write(".ai/tools/link.sh")]).unwrap();
    assert_eq!(project.read("project/.ai/tools/link.sh"), "x");
    assert_eq!(
        project.read("outside/script.sh"),
        SCRIPT.replace("greet", "linked")
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // Inside the project but outside of its items.
    project.write(
        "project/src/inside.md",
        &KNOWLEDGE.replace("facts", "inside"),
    );
    symlink(
        "../../src/inside.md",
        project.path("project/.ai/knowledge/inside.md"),
    )
    .unwrap();
    assert_eq!(
        project.refusal("sign", json!({"item_id": "inside"})),
        "NOT_STAMPABLE: `inside` cannot be signed: a link leads out of `.ai/`"
    );
}

#[test]
fn what_was_written_before_a_failure_is_rolled_back() {
    let project = Project::full();
    project.write("project/.ai/tools/taken", "a file where a folder is needed");
    fs::set_permissions(
        project.path("project/.ai/tools/greet.sh"),
        fs::Permissions::from_mode(0o754),
    )
    .unwrap();
    let before = project.files();
    let write = |path: &str, content: Option<&str>| Write {
        home: Home::Project,
        path: path.into(),
        content: content.map(|text| text.as_bytes().to_vec()),
        access: FileAccess::Plain,
    };
    let writes = [
        write(".ai/tools/new.sh", Some("new")),
        write(".ai/tools/greet.sh", Some("other")),
        write(".ai/knowledge/ops/facts.md", None),
        write(".ai/tools/taken/tool.yaml", Some("never")),
    ];
    let err = apply(&project.ctx(), &writes).unwrap_err();
    assert_eq!(err.code(), Code::UnwritableFile);
    assert_eq!(project.files(), before);
    let mode = fs::metadata(project.path("project/.ai/tools/greet.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o754);
}

#[test]
fn given_content_is_validated_before_it_is_written() {
    let project = Project::full();
    for (parameters, path) in [
        (
            json!({"item_id": "wrote", "tool_type": "bash", "content": SCRIPT.replace("greet", "wrote")}),
            "tools/wrote.sh",
        ),
        (
            json!({"item_id": "new/listed", "tool_type": "cli", "content": JSON.replace("plain", "listed")}),
            "tools/new/listed.json",
        ),
        (
            json!({"item_id": "run", "item_type": "directive", "content": DIRECTIVE.replace("walk", "run")}),
            "directives/run.md",
        ),
        (
            json!({"item_id": "more", "item_type": "knowledge", "content": KNOWLEDGE.replace("facts", "more")}),
            "knowledge/more.md",
        ),
        (
            json!({"item_id": "made", "fields": {"tool_type": "cli", "category": "x", "description": "d"}}),
            "tools/x/made.yaml",
        ),
    ] {
        let created = project.carry_out("create", parameters);
        assert_eq!(created["path"], json!(format!(".ai/{path}")), "{created:#}");
        assert!(project.path(&format!("project/.ai/{path}")).is_file());
    }
    let before = project.files();
    for (parameters, refusal) in [
        (
            json!({"item_id": "other", "tool_type": "bash", "content": SCRIPT}),
            "NAME_MISMATCH: it is not valid: its id is `greet`, not `other`",
        ),
        (
            json!({"item_id": "text", "tool_type": "bash", "content": "echo\n"}),
            "MISSING_METADATA: it is not valid: Invalid metadata: the script does not describe itself",
        ),
        (
            json!({"item_id": "bad", "item_type": "directive", "content": "# no\n"}),
            "NO_DIRECTIVE: ",
        ),
        (
            json!({"item_id": "counted", "tool_type": "python", "content": MANIFEST.replace("count", "counted")}),
            "MISSING_ENTRYPOINT: it is not valid: Entrypoint 'main.py' not found",
        ),
        (
            json!({"item_id": "x", "tool_type": "cli", "layout": "round"}),
            "INVALID_PARAMETER: ",
        ),
        (
            json!({"item_id": "tool", "tool_type": "cli", "layout": "file"}),
            "INVALID_PARAMETER: ",
        ),
        (
            json!({"item_id": "count"}),
            "ITEM_EXISTS: tool `count` exists already at `.ai/tools/text/count/tool.yaml`",
        ),
        (
            json!({"item_id": "legacy"}),
            "ITEM_EXISTS: tool `legacy` exists already at `.ai/scripts/old/legacy.py`",
        ),
    ] {
        let said = project.refusal("create", parameters);
        assert!(said.starts_with(refusal), "{said}");
    }
    assert_eq!(project.files(), before);
}
