//! Calls of tools of other MCP servers.

use super::*;
use crate::exec::invocation::{ArgumentTypes, Mcp, McpTransport, RemoteKind};

const SAY: &str = "<execute resource=\"tool\" id=\"say\"/>";

/// A call of a tool of a remote server.
fn call(chain: Vec<ChainLink>, server: &str, tool: Option<&str>) -> Invocation {
    let action = Mcp {
        server: server.to_owned(),
        transport: McpTransport::Remote {
            kind: RemoteKind::Http,
            url: MaskedText::plain("http://localhost:80/mcp"),
            headers: Vec::new(),
            allow_private: true,
            reach: crate::exec::NetworkReach::Public,
            environment: std::collections::BTreeMap::new(),
        },
        tool: tool.map(str::to_owned),
        arguments: Map::new(),
        types: ArgumentTypes::Declared,
        startup_timeout: Duration::from_secs(1),
    };
    Invocation {
        action: Action::Mcp(Box::new(action)),
        ..invocation(chain)
    }
}

fn primitive() -> ChainLink {
    link(
        "http_client",
        "primitive",
        ToolKind::Primitive,
        Layer::Builtin,
    )
}

fn tool_of_server() -> Invocation {
    let tool = link("say", "mcp_tool", ToolKind::McpTool, Layer::Project);
    let server = link("far", "mcp_server", ToolKind::McpServer, Layer::Project);
    call(vec![tool, server, primitive()], "far", Some("text"))
}

#[test]
fn a_server_is_granted_as_a_tool_or_as_what_it_is() {
    let call = tool_of_server();
    for (grant, expected) in [
        ("", false),
        ("<execute resource=\"tool\" id=\"far\"/>", true),
        ("<mcp name=\"far\"/>", true),
        ("<mcp server=\"f*\" tools=\"other,te*\"/>", true),
        ("<mcp name=\"far\" tools=\"*\"/>", true),
        ("<mcp name=\"far\" tools=\"other\"/>", false),
        ("<mcp name=\"say\"/>", false),
        (
            "<execute resource=\"mcp\" name=\"far\" tools=\"text\"/>",
            true,
        ),
    ] {
        assert_eq!(allows(&format!("{SAY}{grant}"), &call), expected, "{grant}");
        // An `<mcp>` grant never covers the project's own tool.
        assert!(!allows(grant, &call), "{grant}");
    }
    let denial = judge_by(SAY, &call).denials;
    assert_eq!(
        way_out(&denial),
        "add <execute resource=\"tool\" id=\"far\"/> to the <permissions> of `d`"
    );
}

#[test]
fn a_deny_of_the_server_wins() {
    let call = tool_of_server();
    let all = "<execute resource=\"tool\" id=\"*\"/><mcp name=\"*\"/>";
    for (deny, expected) in [
        ("<mcp name=\"far\"/>", false),
        ("<mcp name=\"far\" tools=\"text\"/>", false),
        ("<mcp name=\"far\" tools=\"other\"/>", true),
        ("<mcp name=\"near\"/>", true),
        ("<execute resource=\"tool\" id=\"far\"/>", false),
    ] {
        assert_eq!(
            allows(&format!("{all}<deny>{deny}</deny>"), &call),
            expected,
            "{deny}"
        );
    }
}

#[test]
fn a_tool_that_brings_its_server_needs_its_own_grant() {
    let inline = call(
        vec![
            link("say", "mcp_tool", ToolKind::McpTool, Layer::Project),
            primitive(),
        ],
        "say",
        Some("text"),
    );
    assert!(allows(SAY, &inline));
    assert!(!allows("<mcp name=\"say\"/>", &inline));
    assert!(!allows(
        &format!("{SAY}<deny><mcp name=\"say\" tools=\"text\"/></deny>"),
        &inline
    ));
}

#[test]
fn only_who_may_use_all_tools_may_list_them() {
    let server = link("far", "mcp_server", ToolKind::McpServer, Layer::Project);
    let list = call(vec![server, primitive()], "far", None);
    assert!(allows("<mcp name=\"far\"/>", &list));
    assert!(allows("<mcp name=\"far\" tools=\"*\"/>", &list));
    assert!(!allows("<mcp name=\"far\" tools=\"text\"/>", &list));
    assert!(!allows(
        "<mcp name=\"far\"/><deny><mcp name=\"far\" tools=\"text\"/></deny>",
        &list
    ));
}

#[test]
fn addresses_nearby_are_for_people_and_for_who_names_them() {
    let call = tool_of_server();
    assert!(may_reach_private(&Authority::Person, &call));
    assert!(!may_reach_private(&Authority::Agent, &call));
    assert!(!may_reach_private(
        &Authority::Directives(Vec::new()),
        &call
    ));
    for (permissions, expected) in [
        ("<execute resource=\"tool\" id=\"*\"/>", false),
        ("<mcp name=\"far\"/>", true),
        ("<mcp name=\"far\" tools=\"other\"/>", false),
        ("<deny><mcp name=\"far\"/></deny>", false),
        (
            "<write resource=\"api\" endpoint=\"POST http://localhost:80/mcp\"/>",
            true,
        ),
        (
            "<read resource=\"api\" endpoint=\"http://localhost:80/*\"/>",
            true,
        ),
        ("<write resource=\"api\" endpoint=\"POST /mcp\"/>", false),
        (
            "<write resource=\"api\" endpoint=\"POST http://localhost:81/mcp\"/>",
            false,
        ),
    ] {
        let grants = grants(permissions);
        let caller = PolicyCaller {
            name: "d",
            grants: &grants,
        };
        assert_eq!(
            may_reach_private(&Authority::Directives(vec![caller]), &call),
            expected,
            "{permissions}"
        );
        // Every directive on the way has to name it.
        let nothing = PolicyCaller {
            name: "outer",
            grants: &[],
        };
        assert!(
            !may_reach_private(&Authority::Directives(vec![nothing, caller]), &call),
            "{permissions}"
        );
    }
}
