//! Calls of Python files.

use std::fs;

use piton::exec::call::raised;
use piton::exec::supervisor::Channel;
use piton::problem::{Code, Explain as _};
use serde_json::json;

use super::Bench;

#[test]
fn main_gets_every_parameter_byte_for_byte_and_prints_stay_prints() {
    let parameters = json!({
        "text": "ünï\n\t\"quotes\" 'and' \\ \u{1F600} \u{0}",
        "shell": "; rm -rf ~ $(id) `id` ${HOME} {text}",
        "number": 9_007_199_254_740_993_i64,
        "half": 0.5,
        "flag": true,
        "nothing": null,
        "list": [1, {"a": []}],
    });
    let source = "def main(**given):\n    print('{\"before\": 1}')\n    return given\n";
    let mut bench = Bench::python(source).with(&parameters);
    let ended = bench.run();
    assert_eq!(ended.stdout.text(), "{\"before\": 1}\n");
    assert_eq!(bench.value(), parameters);
}

#[test]
fn the_file_is_a_module_of_its_own_name_with_its_folder_first() {
    let source = "
import dataclasses, enum, sys, datetime, decimal
from pathlib import Path
import sibling

class Colour(enum.Enum):
    RED = 'red'

@dataclasses.dataclass
class Point:
    x: int
    where: Path

def main():
    if __name__ == '__main__':
        raise SystemExit(9)
    return {
        'name': __name__, 'file': Path(__file__).name, 'argv': len(sys.argv), 'own': sys.modules[__name__].main is main,
        'sibling': sibling.VALUE, 'point': Point(1, Path('a/b')), 'colour': Colour.RED, 'set': {3, 1, 2},
        'tuple': (1, 2), 'day': datetime.date(2026, 1, 2), 'sum': decimal.Decimal('1.10'), 'bytes': 'ü'.encode(),
        'stdin': sys.stdin.read(),
    }

if __name__ == '__main__':
    raise SystemExit(9)
";
    let mut bench = Bench::python(source).file(
        "project/.ai/tools/sibling.py",
        "VALUE = 'from the sibling'\n",
    );
    assert_eq!(
        bench.value(),
        json!({
            "name": "greet_people", "file": "greet_people.py", "argv": 1, "own": true,
            "sibling": "from the sibling", "point": {"x": 1, "where": "a/b"}, "colour": "red", "set": [1, 2, 3],
            "tuple": [1, 2], "day": "2026-01-02", "sum": "1.10", "bytes": "ü", "stdin": "",
        })
    );
    assert!(
        !bench.root().join(".ai/tools/__pycache__").exists(),
        "no bytecode is left beside the tool"
    );
}

#[test]
fn nothing_of_the_project_stands_in_for_a_module_of_python() {
    let trap = "raise SystemExit('the project ran')\n";
    let mut bench = Bench::python("def main():\n    return 1\n")
        .file("project/json.py", trap)
        .file("project/os.py", trap);
    assert_eq!(bench.value(), json!(1));
}

#[test]
fn an_async_main_is_awaited() {
    let source =
        "import asyncio\nasync def main(n):\n    await asyncio.sleep(0)\n    return n + 1\n";
    assert_eq!(
        Bench::python(source).with(&json!({"n": 1})).value(),
        json!(2)
    );
}

#[test]
fn a_main_that_returns_nothing_has_its_prints_as_the_result() {
    assert_eq!(
        Bench::python("def main():\n    pass\n").value(),
        json!(null)
    );
    assert_eq!(
        Bench::python("def main():\n    print('{\"a\": 1}')\n").value(),
        json!({"a": 1})
    );
    let quits = "import sys\ndef main():\n    print('done')\n    sys.exit(0)\n";
    assert_eq!(Bench::python(quits).value(), json!({"stdout": "done\n"}));
}

#[test]
fn a_large_result_arrives_whole() {
    let mut bench = Bench::python(
        "def main():\n    print('x' * 3_000_000)\n    return ['ü' * 1_000_000] * 3\n",
    );
    let value = bench.value();
    assert_eq!(
        value,
        json!([
            "ü".repeat(1_000_000),
            "ü".repeat(1_000_000),
            "ü".repeat(1_000_000)
        ])
    );
}

#[test]
fn an_exception_is_shown_as_python_shows_it() {
    let source = "def inner():\n    raise ValueError('bad ü')\n\ndef main():\n    print('first')\n    inner()\n";
    let mut bench = Bench::python(source);
    let ended = bench.run();
    assert_eq!(
        (ended.exit_code, ended.stdout.text()),
        (Some(1), "first\n".to_owned())
    );
    let stderr = ended.stderr.text();
    assert!(
        stderr.starts_with("Traceback (most recent call last):\n"),
        "{stderr}"
    );
    assert!(
        stderr.ends_with("ValueError: bad ü\n") && stderr.contains("line 2, in inner"),
        "{stderr}"
    );
    assert!(
        !stderr.contains("<string>"),
        "frames of piton are not shown: {stderr}"
    );
    let raised = raised(&ended).expect("an exception");
    assert_eq!(
        (raised.kind.as_str(), raised.message.as_str()),
        ("ValueError", "bad ü")
    );
    assert_eq!(raised.traceback, stderr);
}

#[test]
fn wrong_parameters_and_syntax_are_exceptions_too() {
    let mut bench = Bench::python("def main():\n    return 1\n").with(&json!({"extra": 1}));
    assert_eq!(
        bench.complaint(),
        "TOOL_RAISED: TypeError: main() got an unexpected keyword argument 'extra'"
    );
    let ended = Bench::python("def main(:\n").run();
    assert_eq!(raised(&ended).expect("an exception").kind, "SyntaxError");
}

#[test]
fn a_result_without_a_json_form_is_reported() {
    let said = |value: &str| {
        let source = format!("def main():\n    return {value}\n");
        Bench::python(&source)
            .complaint()
            .replace("TOOL_RAISED: NoJson: no JSON: ", "")
    };
    assert_eq!(
        said("(n for n in [1])"),
        "a value of type `generator` at `result`"
    );
    assert_eq!(
        said("{'a': [object()]}"),
        "a value of type `object` at `result['a'][0]`"
    );
    assert_eq!(said("[float('nan')]"), "the number nan at `result[0]`");
    assert_eq!(said("{(1, 2): 3}"), "a key of type `tuple` at `result`");
    assert_eq!(
        said("b'\\xff'"),
        "bytes that are not UTF-8 text at `result`"
    );
}

#[test]
fn a_process_that_ends_by_itself_has_no_result() {
    for end in ["os._exit(0)", "os.execv('/bin/true', ['true'])"] {
        let mut bench = Bench::python(&format!("import os\ndef main():\n    {end}\n"));
        assert_eq!(
            bench.complaint(),
            "NO_RESULT: the process ended before `main` returned",
            "{end}"
        );
    }
    let ended = Bench::python("import sys\ndef main():\n    sys.exit(7)\n").run();
    assert_eq!(ended.exit_code, Some(7));
}

#[test]
fn only_the_process_that_was_called_answers() {
    let source = "
import os, subprocess, sys
def main():
    if os.fork() == 0:
        return 'the child'
    os.wait()
    code = 'import os, sys; sys.exit(any(os.path.exists(f\"/proc/self/fd/{n}\") for n in range(3, 9)))'
    return subprocess.call([sys.executable, '-c', code], close_fds=False)
";
    assert_eq!(Bench::python(source).value(), json!(0));
}

#[test]
fn a_script_without_main_gets_arguments() {
    let source = "
import json, sys
from pathlib import Path
def helper():
    return __name__
if __name__ == '__main__':
    print(json.dumps({'argv': sys.argv[1:], 'name': helper(), 'first': sys.argv[0] == __file__}))
";
    let mut bench = Bench::python_script(source, &["--name", "a b; $(id)\n", "--ü"]);
    assert_eq!(
        bench.prepare().expect("prepared").work.channel,
        Channel::None
    );
    assert_eq!(
        bench.value(),
        json!({"argv": ["--name", "a b; $(id)\n", "--ü"], "name": "__main__", "first": true})
    );
}

#[test]
fn a_script_that_changed_after_it_was_checked_is_not_run() {
    let mut bench = Bench::python("def main():\n    return 1\n");
    fs::write(
        bench.root().join(".ai/tools/greet_people.py"),
        "def main():\n    return 2\n",
    )
    .expect("written");
    assert_eq!(
        bench.prepare().expect_err("changed").code(),
        Code::ScriptChanged
    );
    fs::remove_file(bench.root().join(".ai/tools/greet_people.py")).expect("removed");
    assert_eq!(
        bench.prepare().expect_err("gone").code(),
        Code::ScriptUnreadable
    );
}

#[test]
fn the_checked_bytes_are_run_even_if_the_file_changes_later() {
    let mut bench = Bench::python("def main():\n    return 'checked'\n");
    let prepared = bench.prepare().expect("prepared");
    fs::write(
        bench.root().join(".ai/tools/greet_people.py"),
        "def main():\n    return 'other'\n",
    )
    .expect("written");
    let ended = super::supervisor()
        .expect("one")
        .run(&prepared.work, &mut super::ears(), &mut |_, _| {})
        .expect("an end");
    assert_eq!(ended.result.as_deref(), Some(&b"{\"ok\": \"checked\"}"[..]));
}

#[test]
fn a_tool_has_a_home_of_its_own_and_knows_its_run() {
    let source = "import os\ndef main():\n    return [os.listdir(os.environ['HOME']), os.environ['PITON_RUN_ID']]\n";
    let mut bench = Bench::python(source);
    assert_eq!(bench.value(), json!([[], "a-run"]));
    assert_eq!(
        fs::read_dir(bench.top.path().join("tmp"))
            .expect("a folder")
            .count(),
        0,
        "the home is gone"
    );
}

#[test]
fn a_missing_program_is_named() {
    let mut bench = Bench::new("no-such-interpreter", "x");
    assert_eq!(
        bench.prepare().expect_err("missing").code(),
        Code::ProgramNotFound
    );
}
