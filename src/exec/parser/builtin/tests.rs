//! The built-in parsers, on what tools write.

use serde_json::json;

use super::*;

fn parsed(name: &str, content: &str) -> Result<Value, String> {
    parse(name, content).expect("a built-in parser")
}

#[test]
fn every_built_in_parser_reads_its_format() {
    assert_eq!(parsed("text", "a\nb\n"), Ok(json!({"content": "a\nb\n"})));
    assert_eq!(
        parsed("json", "\u{feff}{\"a\": [1]}\n"),
        Ok(json!({"a": [1]}))
    );
    assert_eq!(
        parsed("jsonl", "{\"a\":1}\n\n[2]\n"),
        Ok(json!([{"a": 1}, [2]]))
    );
    assert_eq!(
        parsed("yaml", "a: 1\nb: [x, y]\n"),
        Ok(json!({"a": 1, "b": ["x", "y"]}))
    );
    let rows = json!({"rows": [{"name": "a,b", "note": "two\nlines"}, {"name": "ü", "note": ""}]});
    assert_eq!(
        parsed("csv", "name,note\r\n\"a,b\",\"two\nlines\"\r\nü,\r\n"),
        Ok(rows)
    );
    let entry = json!({"frontmatter": {"title": "T"}, "content": "body\n---\nmore\n"});
    assert_eq!(
        parsed("frontmatter", "---\ntitle: T\n---\nbody\n---\nmore\n"),
        Ok(entry)
    );
    assert_eq!(
        parsed("frontmatter", "plain\n"),
        Ok(json!({"frontmatter": {}, "content": "plain\n"}))
    );
    assert_eq!(parse("xml", "<a/>"), None);
}

#[test]
fn empty_input_is_parsed() {
    assert_eq!(parsed("text", ""), Ok(json!({"content": ""})));
    assert_eq!(parsed("jsonl", ""), Ok(json!([])));
    assert_eq!(parsed("yaml", "\n"), Ok(json!(null)));
    assert_eq!(parsed("csv", ""), Ok(json!({"rows": []})));
    assert!(parsed("json", "").is_err());
}

#[test]
fn what_cannot_be_read_is_said_with_its_line() {
    let said = |name: &str, content: &str| parsed(name, content).expect_err("cannot be read");
    assert_eq!(
        said("jsonl", "{}\n\n{oops}\n"),
        "line 3: key must be a string"
    );
    assert_eq!(
        said("yaml", "a: 1\na: 2\n"),
        "line 2, column 1: key `a` is given twice, first at line 1, column 1"
    );
    assert!(
        said("csv", "a,b\n1\n").contains("line: 2"),
        "{}",
        said("csv", "a,b\n1\n")
    );
    assert_eq!(said("csv", "a,b,a\n1,2,3\n"), "two columns are called `a`");
    assert_eq!(
        said("frontmatter", "---\ntitle: T\n"),
        "the front matter is opened by `---` and not closed"
    );
}
