use serde_json::{Map, Value, json};

use super::{find, set, snippet};
use crate::item::json::member::{MemberError, MemberReplacement};

fn fields() -> Map<String, Value> {
    let Value::Object(fields) = json!({ "command": "/opt/p \"q\"/piton", "args": ["mcp"] }) else {
        panic!()
    };
    fields
}

fn added(text: &str) -> String {
    set(
        text,
        "mcp_servers",
        "piton",
        &fields(),
        MemberReplacement::Fields,
    )
    .expect("a text")
}

#[test]
fn a_member_alone_is_one_table() {
    let expected = "[mcp_servers.piton]\ncommand = '/opt/p \"q\"/piton'\nargs = [\"mcp\"]\n";
    assert_eq!(snippet("mcp_servers", "piton", &fields()), expected);
    assert_eq!(added(""), expected);
}

#[test]
fn everything_else_stays_as_it_is_written() {
    let text = "# mine\nmodel   = 'x'   # odd spaces\n\n[mcp_servers.other] # theirs\ncommand = \"y\"\nenv = { A = \"b\" }\n\n\
                [tui]\nnotifications = [ 1,\n  2, # two\n]\n# the end\n";
    let new = added(text);
    let rest = new.replace(
        "\n[mcp_servers.piton]\ncommand = '/opt/p \"q\"/piton'\nargs = [\"mcp\"]\n",
        "",
    );
    assert_eq!(rest, text, "{new}");
    assert_eq!(
        find(&new, "mcp_servers", "piton"),
        Ok(Some(Value::Object(fields())))
    );
    let other = json!({ "command": "y", "env": { "A": "b" } });
    assert_eq!(find(&new, "mcp_servers", "other"), Ok(Some(other)));
    assert_eq!(added(&new), new);
}

#[test]
fn sections_may_be_written_in_one_line_or_by_dots() {
    for text in [
        "mcp_servers = { other = { command = \"y\" } }\n",
        "mcp_servers.other.command = \"y\"\n",
    ] {
        let new = added(text);
        assert_eq!(
            find(&new, "mcp_servers", "piton"),
            Ok(Some(Value::Object(fields()))),
            "{new}"
        );
        assert_eq!(
            find(&new, "mcp_servers", "other"),
            Ok(Some(json!({ "command": "y" }))),
            "{new}"
        );
    }
}

#[test]
fn setting_keeps_the_keys_of_others_and_their_comments() {
    let text = "[mcp_servers.piton]\ncommand = \"old\" # which\ntool_timeout_sec = 600 # long\n";
    let new = added(text);
    assert!(new.contains("tool_timeout_sec = 600 # long\n"), "{new}");
    let expected =
        json!({ "command": "/opt/p \"q\"/piton", "tool_timeout_sec": 600, "args": ["mcp"] });
    assert_eq!(find(&new, "mcp_servers", "piton"), Ok(Some(expected)));
}

#[test]
fn what_is_no_settings_file_is_refused() {
    let refused = |text: &str| {
        set(
            text,
            "mcp_servers",
            "piton",
            &fields(),
            MemberReplacement::Whole,
        )
        .expect_err(text)
    };
    assert!(
        matches!(refused("a = 1\nb = \n"), MemberError::Syntax(problem) if problem.ends_with("on line 2"))
    );
    assert!(matches!(refused("a = 1\na = 2\n"), MemberError::Syntax(_)));
    assert!(matches!(
        refused(&format!("a = {}", "[".repeat(100_000))),
        MemberError::Syntax(_)
    ));
    assert_eq!(
        refused("mcp_servers = 1\n"),
        MemberError::NotAnObject("`mcp_servers`".to_owned())
    );
    assert_eq!(
        refused("[[mcp_servers]]\na = 1\n"),
        MemberError::NotAnObject("`mcp_servers`".to_owned())
    );
}
