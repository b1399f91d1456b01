//! The grants that a directive needs to call a tool of a server.

use super::{directive, project, starts};

const SAY: &str = "<execute resource=\"tool\" id=\"say\"/>";
const BOX: &str = "<execute resource=\"tool\" id=\"box\"/>";
const ENV: &str = "<env vars=\"BOX_TOKEN\"/>";

fn run(permissions: &str, step: (&str, &str, &str)) -> (Option<i32>, String, usize) {
    let project = directive(project(""), permissions, &[step]);
    let ran = project.piton(["run", "d", "--format", "json"]);
    let error = ran.last_json()["error"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    (ran.code(), error, starts(&project))
}

#[test]
fn the_tool_and_its_server_are_granted_both() {
    let say = ("say", "", "text=a");
    for (permissions, missing) in [
        (format!("{SAY}{ENV}"), "run the tool `box`"),
        (format!("{BOX}{ENV}"), "run the tool `say`"),
        (format!("{SAY}{BOX}"), "see the variable `BOX_TOKEN`"),
        (
            format!("{SAY}{ENV}<mcp name=\"box\" tools=\"write\"/>"),
            "run the tool `box`",
        ),
        (
            format!("{SAY}{ENV}<mcp name=\"other\"/>"),
            "run the tool `box`",
        ),
        (
            format!("{BOX}{ENV}<mcp name=\"box\"/>"),
            "run the tool `say`",
        ),
    ] {
        let (code, error, starts) = run(&permissions, say);
        assert_eq!((code, starts), (Some(3), 0), "{permissions}: {error}");
        assert!(error.contains(missing), "{permissions}: {error}");
    }
    for server in [
        BOX,
        "<mcp name=\"box\"/>",
        "<mcp server=\"box\" tools=\"count, say\"/>",
        "<mcp name=\"b*\" tools=\"s*\"/>",
    ] {
        let (code, error, _) = run(&format!("{SAY}{ENV}{server}"), say);
        assert_eq!(code, Some(0), "{server}: {error}");
    }
}

#[test]
fn a_deny_wins_over_every_grant() {
    let all = "<execute resource=\"tool\" id=\"*\"/><env vars=\"*\"/><mcp name=\"*\"/>";
    for (deny, allowed) in [
        ("<deny><mcp name=\"box\"/></deny>", false),
        ("<deny><mcp name=\"box\" tools=\"say\"/></deny>", false),
        ("<deny><mcp name=\"box\" tools=\"write\"/></deny>", true),
        (
            "<deny><execute resource=\"tool\" id=\"box\"/></deny>",
            false,
        ),
    ] {
        let (code, error, starts) = run(&format!("{all}{deny}"), ("say", "", "text=a"));
        assert_eq!(
            (code == Some(0), starts),
            (allowed, usize::from(allowed)),
            "{deny}: {error}"
        );
    }
}

#[test]
fn a_command_of_a_server_can_be_granted_by_its_name() {
    for (grant, allowed) in [
        ("<mcp name=\"box\" tools=\"count\"/>", true),
        ("<mcp name=\"box\" tools=\"say\"/>", false),
        (BOX, true),
        (SAY, false),
    ] {
        let (code, error, _) = run(&format!("{ENV}{grant}"), ("box", "count", ""));
        assert_eq!(code == Some(0), allowed, "{grant}: {error}");
    }
    // Listing the tools needs a grant for all of them.
    assert_eq!(
        run(
            &format!("{ENV}<mcp name=\"box\" tools=\"count\"/>"),
            ("box", "", "")
        )
        .0,
        Some(3)
    );
    assert_eq!(
        run(&format!("{ENV}<mcp name=\"box\"/>"), ("box", "", "")).0,
        Some(0)
    );
}
