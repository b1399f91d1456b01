//! What is read from each Python construct.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::item::finding::Strength;

fn module(text: &str) -> PythonModule {
    let mut findings = Findings::new(Path::new("x.py"), Strength::Lenient);
    let module = read(text, |_| true, &mut findings);
    assert_eq!(findings.as_slice(), []);
    module
}

fn properties(signature: &str) -> Value {
    let module = module(&format!("def main({signature}): pass\n"));
    module.main.unwrap().find("properties").unwrap().to_json()
}

#[test]
fn annotations_become_schemas() {
    assert_eq!(
        properties("a: str, b: int, c: float, d: bool, e: list, f: dict, g, h: Foo, i: Any"),
        json!({
            "a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "number"}, "d": {"type": "boolean"},
            "e": {"type": "array"}, "f": {"type": "object"}, "g": {}, "h": {}, "i": {},
        })
    );
    assert_eq!(
        properties(
            "a: Optional[str], b: int | None, c: typing.Union[str, int], d: Optional[Foo], e: None"
        ),
        json!({
            "a": {"type": ["string", "null"]}, "b": {"type": ["integer", "null"]}, "c": {"type": ["string", "integer"]},
            "d": {}, "e": {"type": "null"},
        })
    );
    assert_eq!(
        properties(
            "a: list[list[int]], b: Dict[str, int], c: Optional[List[str]], d: Literal['x', 1], e: Annotated[int, 'y']"
        ),
        json!({
            "a": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "b": {"type": "object"},
            "c": {"type": ["array", "null"], "items": {"type": "string"}},
            "d": {"type": ["string", "integer"], "enum": ["x", 1]},
            "e": {"type": "integer"},
        })
    );
    assert_eq!(
        properties("a: Literal['x'] | None = None, b: str | list[int] = 'q'"),
        json!({
            "a": {"type": ["string", "null"], "enum": ["x", null], "default": null},
            "b": {"type": ["string", "array"], "default": "q"},
        })
    );
}

#[test]
fn the_signature_of_main_says_what_is_required() {
    let schema = |text: &str| module(text).main.map(|main| main.to_json());
    assert_eq!(
        schema(
            "@decorated\nasync def main(a, /, b: int = -1, *args, c: bool, d=(1, 'x'), **kwargs: str) -> dict: ..."
        ),
        Some(json!({
            "type": "object",
            "properties": {
                "a": {}, "b": {"type": "integer", "default": -1}, "c": {"type": "boolean"}, "d": {"default": [1, "x"]},
            },
            "required": ["a", "c"],
            "additionalProperties": true,
        }))
    );
    assert_eq!(
        schema("def main(): pass"),
        Some(json!({"type": "object", "properties": {}, "additionalProperties": false}))
    );
    assert_eq!(schema("class A:\n    def main(self, a): pass\n"), None);
}

#[test]
fn strings_are_read_as_python_reads_them() {
    let module = module(concat!(
        "A = 'a\\n\\x41\\u00e9\\U0001F600\\101\\q\\'' \"b\"\n",
        "B = r'\\n' '''x\ny'''\n",
        "C = ('a'\n     # why\n     'b')\n",
        "D = f'{{x}}'\n",
        "E = 1_000\nF = -0b11\nG = +1.5e3\nH = {1, 2}\n"
    ));
    let values: Vec<Value> = module
        .assignments
        .iter()
        .map(|entry| entry.value.to_json())
        .collect();
    assert_eq!(
        values,
        [
            json!("a\nAé😀A\\q'b"),
            json!("\\nx\ny"),
            json!("ab"),
            json!("{x}"),
            json!(1000),
            json!(-3),
            json!(1500.0),
            json!([1, 2]),
        ]
    );
}

#[test]
fn names_can_be_assigned_together() {
    let module = module("A = B = 'x'\nC: str = 'y'\nD, E = 1, 2\nF.g = 3\nH: int\n");
    let names: Vec<(&str, Value)> = module
        .assignments
        .iter()
        .map(|entry| (entry.key.as_str(), entry.value.to_json()))
        .collect();
    assert_eq!(
        names,
        [("A", json!("x")), ("B", json!("x")), ("C", json!("y"))]
    );
}

#[test]
fn places_are_those_of_the_file() {
    let module = module("\"\"\"d\"\"\"\nÄ = {'ö': [1,\n  {'b': 2}]}\n");
    let list = module.assignments[0]
        .value
        .find("ö")
        .unwrap()
        .elements()
        .unwrap();
    assert_eq!(module.assignments[0].place, Position { line: 2, column: 1 });
    assert_eq!(
        list[0].place,
        Position {
            line: 2,
            column: 12
        }
    );
    assert_eq!(
        list[1].find("b").unwrap().place,
        Position { line: 3, column: 9 }
    );
    assert_eq!(
        module.docstring,
        [CommentLine {
            place: Position { line: 1, column: 4 },
            text: "d".to_owned()
        }]
    );
}

#[test]
fn only_a_string_at_the_top_is_a_docstring() {
    assert_eq!(module("x = 1\n\"\"\"d\"\"\"\n").docstring, []);
    assert_eq!(module("# c\n\n'd'\n").docstring.len(), 1);
}

#[test]
fn nesting_ends_at_the_limit() {
    let mut findings = Findings::new(Path::new("x.py"), Strength::Lenient);
    let text = format!("A = {}{}\nB = 1\n", "[".repeat(70), "]".repeat(70));
    let module = read(&text, |_| true, &mut findings);
    assert_eq!(module.assignments.len(), 1);
    let codes: Vec<Code> = findings
        .as_slice()
        .iter()
        .map(|finding| finding.code)
        .collect();
    assert_eq!(codes, [Code::NestingLimit]);
}
