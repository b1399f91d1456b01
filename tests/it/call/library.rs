//! `lib_imports`: only the named modules of `.ai/tools/lib/` can be imported.

use std::collections::BTreeMap;

use piton::exec::invocation::{Python, PythonEntry};
use serde_json::json;

use super::Bench;

fn with_library(source: &str, names: &[&str]) -> Bench {
    let mut bench = Bench::python(source)
        .file("project/.ai/tools/lib/shared.py", "VALUE = 1\nseen = []\n")
        .file("project/.ai/tools/lib/secret.py", "VALUE = 2\n")
        .file("project/.ai/tools/lib/http.py", "VALUE = 3\n")
        .file("project/.ai/tools/lib/pack/__init__.py", "VALUE = 4\n")
        .file("project/.ai/tools/lib/pack/part.py", "VALUE = 5\n");
    let library = bench.root().join(".ai/tools/lib");
    let file = |name: &str| {
        library.join(if name == "pack" {
            "pack/__init__.py".to_owned()
        } else {
            format!("{name}.py")
        })
    };
    let lib_imports: BTreeMap<_, _> = names
        .iter()
        .map(|name| ((*name).to_owned(), file(name)))
        .collect();
    bench.process().python = Some(Python {
        entry: PythonEntry::Main,
        lib_imports,
        ..Python::default()
    });
    bench
}

#[test]
fn named_modules_are_found_by_both_names_and_are_one() {
    let source = "
import shared
import lib.shared
from lib import pack
from lib.pack import part
from lib.http import VALUE
import http
def main():
    return [lib.shared is shared, shared.VALUE, pack.VALUE, part.VALUE, VALUE, hasattr(http, 'HTTPStatus')]
";
    let mut bench = with_library(source, &["shared", "pack", "http"]);
    assert_eq!(bench.value(), json!([true, 1, 4, 5, 3, true]));
}

#[test]
fn nothing_else_of_the_library_is_exposed() {
    let source = "
def main():
    found = []
    for name in ['secret', 'lib.secret', 'pack', 'lib.pack.part', 'lib.shared', 'shared']:
        try:
            __import__(name)
            found.append(name)
        except ModuleNotFoundError:
            pass
    return found
";
    assert_eq!(
        with_library(source, &["shared"]).value(),
        json!(["lib.shared", "shared"])
    );
    assert_eq!(with_library(source, &[]).value(), json!([]));
}

/// A package with `__init__.py` and one without, by each of their names. Submodules are also loaded
/// once.
#[test]
fn packages_are_found_by_every_name() {
    for (folder, init) in [
        ("whole", Some("VALUE = 6\nfrom . import part\n")),
        ("bare", None),
    ] {
        for source in [
            format!("from lib.{folder} import part\n"),
            format!("import lib.{folder}.part\npart = lib.{folder}.part\n"),
            format!("import {folder}.part\npart = {folder}.part\n"),
            format!("from {folder} import part\n"),
            format!("from lib import {folder}\nimport {folder}.part\npart = {folder}.part\n"),
        ] {
            let same = format!("import {folder}.part as one, lib.{folder}.part as other\n");
            let main = "def main():\n    return [part.VALUE, part.deep.VALUE, one is other, one is part]\n";
            let mut bench = Bench::python(&format!("{source}{same}{main}"))
                .file("project/.ai/tools/lib/shared.py", "VALUE = 1\n")
                // As scripts in `.ai/scripts/lib/` may do it.
                .file(
                    &format!("project/.ai/tools/lib/{folder}/part.py"),
                    "from ..shared import VALUE\nfrom .deeper import deep\n",
                )
                .file(
                    &format!("project/.ai/tools/lib/{folder}/deeper/deep.py"),
                    "VALUE = 7\n",
                );
            let library = bench.root().join(".ai/tools/lib");
            let mut module = library.join(folder);
            if let Some(init) = init {
                bench = bench.file(&format!("project/.ai/tools/lib/{folder}/__init__.py"), init);
                module.push("__init__.py");
            }
            let lib_imports = BTreeMap::from([
                (folder.to_owned(), module),
                ("shared".to_owned(), library.join("shared.py")),
            ]);
            bench.process().python = Some(Python {
                entry: PythonEntry::Main,
                lib_imports,
                ..Python::default()
            });
            assert_eq!(bench.value(), json!([1, 7, true, true]), "{source}");
        }
    }
}

#[test]
fn an_error_in_a_module_is_that_error_by_both_names() {
    let source = "
def main():
    found = []
    for name in ['broken', 'lib.broken', 'pack.nothing', 'lib.pack.nothing']:
        try:
            __import__(name)
        except ImportError as error:
            found.append(str(error))
    return found
";
    let mut bench = with_library(source, &["broken", "pack"]).file(
        "project/.ai/tools/lib/broken.py",
        "import there_is_no_such\n",
    );
    let missing = "No module named 'there_is_no_such'";
    assert_eq!(
        bench.value(),
        json!([
            missing,
            missing,
            "No module named 'pack.nothing'",
            "No module named 'lib.pack.nothing'"
        ])
    );
}
