//! `lib_imports`: just those modules of `.ai/tools/lib/`.

use std::collections::BTreeMap;

use piton::exec::invocation::Python;
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
    let file =
        |name: &str| library.join(if name == "pack" { "pack/__init__.py".to_owned() } else { format!("{name}.py") });
    let lib_imports: BTreeMap<_, _> = names.iter().map(|name| ((*name).to_owned(), file(name))).collect();
    bench.process().python = Some(Python { calls_main: true, lib_imports, ..Python::default() });
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
    assert_eq!(with_library(source, &["shared"]).value(), json!(["lib.shared", "shared"]));
    assert_eq!(with_library(source, &[]).value(), json!([]));
}
