use crate::problem::{Code, Explain as _};
use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::item::signature::stamp;
use crate::item::store::{ItemKind, Roots};

const SCRIPT: &str = "#!/usr/bin/env python3\n\"\"\"Counts words.\n\nMore about it.\n\"\"\"\n\n__dependencies__ = [\"requests>=2\"]\n\n\ndef main(text: str, longest: bool = False) -> dict:\n    return {\"words\": len(text.split())}\n";

struct Project(tempfile::TempDir);

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Self(folder)
    }

    fn store(&self) -> ItemStore {
        let root = self.0.path().canonicalize().unwrap();
        let roots = Roots {
            project: Some(root.join("p")),
            user: Some(root.join("home")),
        };
        ItemStore::open(roots, Strength::Lenient)
    }

    fn plan(&self, wanted: &str) -> Result<Migration, MigrationError> {
        plan(&self.store(), wanted)
    }

    fn refusal(&self, wanted: &str) -> String {
        let err = self.plan(wanted).unwrap_err();
        assert!(err.hint().is_some(), "{err}");
        format!("{}: {err}", err.code())
    }

    fn apply(&self, migration: &Migration) {
        let root = self.0.path().join("p");
        for change in &migration.changes {
            fs::create_dir_all(root.join(&change.path).parent().unwrap()).unwrap();
            fs::write(root.join(&change.path), &change.content).unwrap();
        }
        let moved = migration
            .changes
            .iter()
            .filter(|change| change.action == MigrationAction::Move);
        moved.for_each(|change| fs::remove_file(root.join(change.from.as_ref().unwrap())).unwrap());
    }
}

impl Migration {
    fn content(&self, ending: &str) -> &str {
        let change = self
            .changes
            .iter()
            .find(|change| change.path.to_str().unwrap().ends_with(ending))
            .unwrap();
        std::str::from_utf8(&change.content).unwrap()
    }
}

/// A manifest without the fields that have to differ.
fn comparable(store: &ItemStore, id: &str) -> Value {
    let item = store.find(ItemKind::Tool, id).unwrap();
    let mut manifest = serde_json::to_value(&item.as_tool().unwrap().manifest).unwrap();
    manifest["legacy"] = Value::Null;
    manifest["config"]["entrypoint"] = Value::Null;
    manifest["category"] = json!(item.category);
    manifest
}

#[test]
fn the_new_tool_is_the_old_one() {
    for (name, text) in [
        ("text/count_words.py", SCRIPT),
        ("count_words.py", "def main(a, b: int = 2, **more): pass\n"),
        ("count_words.py", "print('no main')\n"),
        ("text/count_words.sh", "# Counts words\nwc -w\n"),
        (
            "x/count_words.py",
            "__version__ = \"2.1.0\"\n__tool_type__ = \"python\"\n__executor_id__ = \"python_runtime\"\n\
             __category__ = \"elsewhere\"\n__tags__ = [\"a\"]\n__timeout__ = 7\n__mutates_state__ = False\n\
             __parameters__ = [{\"name\": \"text\", \"type\": \"string\", \"required\": True}]\n\
             CONFIG_SCHEMA = {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\"}}}\n\
             def main(text): pass\n",
        ),
        (
            "x/count_words.py",
            "__tool_type__ = \"python\"\n__version__ = \"1.0.0\"\n__executor_id__ = \"python_runtime\"\n\
             CONFIG_SCHEMA = {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\"}}}\n\
             def main(text: str): pass\n",
        ),
    ] {
        let project = Project::new(&[(&format!("p/.ai/scripts/{name}"), text)]);
        let before = comparable(&project.store(), "count_words");
        let migration = project.plan("count_words").unwrap();
        assert_eq!(
            migration.content(&format!("/main.{}", name.rsplit_once('.').unwrap().1)),
            text
        );
        project.apply(&migration);
        let store = project.store();
        assert_eq!(comparable(&store, "count_words"), before, "{text}");
        let item = store.find(ItemKind::Tool, "count_words").unwrap();
        assert_eq!(
            (item.is_legacy(), item.as_tool().unwrap().manifest.legacy),
            (false, false)
        );
        assert_eq!(
            store
                .findings()
                .filter(|it| it.severity == crate::item::finding::Severity::Error)
                .count(),
            0
        );
    }
}

#[test]
fn the_manifest_reads_as_if_a_person_had_written_it() {
    let project = Project::new(&[("p/.ai/scripts/text/count_words.py", SCRIPT)]);
    let migration = project.plan("text/count_words").unwrap();
    insta::assert_snapshot!(migration.content("tool.yaml"), @"
    tool_id: count_words
    tool_type: python
    version: 0.0.0
    description: Counts words.
    category: text
    executor: python_runtime
    config:
      entrypoint: main.py
    dependencies:
    - requests>=2
    ");
    assert_eq!(migration.from, Path::new(".ai/scripts/text/count_words.py"));
    assert_eq!(migration.to, Path::new(".ai/tools/text/count_words"));
    assert_eq!(
        migration.changes[0].path,
        Path::new(".ai/tools/text/count_words/main.py")
    );
    assert_eq!(
        project.plan(".ai/scripts/text/count_words.py").unwrap(),
        migration
    );
}

#[test]
fn an_old_stamp_goes_and_nothing_else_of_the_script() {
    let stamped = stamp::stamp_file(Path::new("a.py"), SCRIPT, "2026-01-28T12:00:00Z")
        .unwrap()
        .content;
    let project = Project::new(&[("p/.ai/scripts/a.py", &stamped)]);
    assert_eq!(project.plan("a").unwrap().content("main.py"), SCRIPT);
    let project = Project::new(&[("p/.ai/scripts/a.py", &stamped.replace("words", "werds"))]);
    assert_eq!(
        project.refusal("a"),
        "HASH_MISMATCH: `.ai/scripts/a.py` does not match its stamp"
    );
}

#[test]
fn what_is_no_legacy_script_of_the_project_is_refused() {
    let manifest =
        "tool_id: done\ntool_type: bash\nversion: 1.0.0\nexecutor: bash_runtime\ndescription: d\n";
    let project = Project::new(&[
        ("p/.ai/tools/done.yaml", manifest),
        (
            "p/.ai/scripts/described.yaml",
            &manifest.replace("done", "described"),
        ),
        ("p/.ai/scripts/one/twice.py", "x = 1\n"),
        ("p/.ai/scripts/two/twice.py", "x = 1\n"),
        ("home/.ai/scripts/mine.py", "x = 1\n"),
    ]);
    assert_eq!(
        project.refusal("done"),
        "NOT_A_LEGACY_SCRIPT: tool `done` is no legacy script: it lies at `.ai/tools/done.yaml`"
    );
    assert_eq!(
        project.refusal("mine"),
        "NOT_A_LEGACY_SCRIPT: script `mine` belongs to the user layer, not to the project"
    );
    assert_eq!(project.plan("none").unwrap_err().code(), Code::NotFound);
    assert_eq!(project.plan("../x").unwrap_err().code(), Code::InvalidId);
    assert_eq!(project.plan("twice").unwrap_err().code(), Code::DuplicateId);
    // Each by its category; the other one still has the id.
    assert_eq!(
        project.plan("one/twice").unwrap_err().code(),
        Code::ItemExists
    );
}

#[test]
fn nothing_that_is_there_is_written_over() {
    let project = Project::new(&[
        ("p/.ai/scripts/a.py", "x = 1\n"),
        ("p/.ai/tools/a/notes.txt", "mine"),
    ]);
    assert_eq!(
        project.refusal("a"),
        "ITEM_EXISTS: `.ai/tools/a` exists already"
    );
    let manifest =
        "tool_id: A\ntool_type: bash\nversion: 1.0.0\nexecutor: bash_runtime\ndescription: d\n";
    let project = Project::new(&[
        ("p/.ai/scripts/a.py", "x = 1\n"),
        ("p/.ai/tools/b.yaml", manifest),
    ]);
    assert_eq!(
        project.refusal("a"),
        "ITEM_EXISTS: tool `a` exists already at `.ai/tools/b.yaml`"
    );
}

#[test]
fn a_script_is_not_parted_from_modules_beside_it() {
    let project = Project::new(&[
        (
            "p/.ai/scripts/uses.py",
            "import json, helpers as h\nfrom lib.http import get\n",
        ),
        (
            "p/.ai/scripts/helpers.py",
            "import deeper\ndef helper(): pass\n",
        ),
        ("p/.ai/scripts/deeper.py", "x = 1\n"),
        (
            "p/.ai/scripts/alone.py",
            "import json\nfrom helpers_of_others import x\n",
        ),
        ("p/.ai/scripts/lib/http.py", "from . import base\n"),
        ("p/.ai/scripts/lib/base.py", ""),
        ("p/.ai/scripts/lib/unused.py", ""),
    ]);
    assert_eq!(
        project.refusal("helpers"),
        "NOT_MIGRATABLE: `.ai/scripts/uses.py` imports `helpers`, which lies beside it"
    );
    assert_eq!(project.plan("alone").unwrap().notes, Vec::<String>::new());
    let migration = project.plan("uses").unwrap();
    let paths: Vec<&str> = migration
        .changes
        .iter()
        .map(|change| change.path.to_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        [
            ".ai/tools/lib/base.py",
            ".ai/tools/lib/http.py",
            ".ai/tools/uses/deeper.py",
            ".ai/tools/uses/helpers.py",
            ".ai/tools/uses/main.py",
            ".ai/tools/uses/tool.yaml",
        ]
    );
    assert!(
        migration
            .content("tool.yaml")
            .contains("lib_imports:\n  - base\n  - http\n"),
        "{migration:#?}"
    );
}

#[test]
fn a_category_that_is_no_folder_does_not_lead_out() {
    let text = "__tool_type__ = \"python\"\n__version__ = \"1.0.0\"\n__executor_id__ = \"python_runtime\"\n\
                __category__ = \"../../outside\"\n";
    let project = Project::new(&[("p/.ai/scripts/net/a.py", text)]);
    let migration = project.plan("a").unwrap();
    assert_eq!(migration.to, Path::new(".ai/tools/net/a"));
}
