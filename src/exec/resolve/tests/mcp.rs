//! Tools of other MCP servers, and their transports.

use super::*;
use crate::exec::invocation::{ArgumentTypes, Mcp, McpTransport, RemoteKind};

const TOOL: &str = "tool_id: t\ntool_type: mcp_tool\nversion: \"1.0.0\"\ndescription: T\nexecutor: s\n\
    config: {mcp_tool_name: read}\nparameters:\n  - {name: path, type: string}\n  - {name: base, type: string, default: data}\n";

/// A server with these settings, and the transport that they need.
fn server(config: &str) -> String {
    let transport = match config {
        _ if config.contains("transport:") => "",
        _ if config.contains("url:") => "  transport: http\n",
        _ if config.contains("command:") => "  transport: stdio\n",
        _ => "",
    };
    format!(
        "tool_id: s\ntool_type: mcp_server\nversion: \"1.0.0\"\ndescription: S\nexecutor: subprocess\nconfig:\n{config}{transport}"
    )
}

fn project(config: &str) -> Project {
    Project::new(&[
        (".ai/tools/t.yaml", TOOL),
        (".ai/tools/s/tool.yaml", &server(config)),
    ])
}

fn mcp(invocation: &Invocation) -> &Mcp {
    match &invocation.action {
        Action::Mcp(mcp) => mcp,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tool_goes_to_the_server_that_it_names() {
    let project = project(
        "  command: prog\n  args: [\"{tool_dir}/x\", \"--base={base}\"]\n  env: {TOKEN: \"${TOKEN}\"}\n",
    );
    let invocation = project.resolve("t", json!({"path": "a.txt"}));
    let mcp = mcp(&invocation);
    assert_eq!(
        (mcp.server.as_str(), mcp.tool.as_deref()),
        ("s", Some("read"))
    );
    let folder = project.root().join(".ai/tools/s").display().to_string();
    assert_eq!(
        arguments(&invocation),
        [format!("{folder}/x"), "--base=data".to_owned()]
    );
    // Parameters named in the server's settings belong to the server.
    assert_eq!(
        Value::Object(mcp.arguments.clone()),
        json!({"path": "a.txt"})
    );
    assert_eq!(mcp.types, ArgumentTypes::Declared);
    assert_eq!(
        (mcp.startup_timeout, invocation.timeout),
        (Duration::from_secs(10), Duration::from_mins(5))
    );
    let environment = &process(&invocation).environment;
    assert_eq!(environment["TOKEN"], MaskedText::secret("s3cret"));
    assert_eq!(
        environment["PYTHONDONTWRITEBYTECODE"],
        MaskedText::plain("1")
    );
    assert!(
        !environment.contains_key("PITON_PARAM_PATH") && !environment.contains_key("LD_PRELOAD")
    );
    assert_eq!(invocation.variables, ["TOKEN"]);
    assert_eq!(invocation.isolation, Isolation::Standard);
}

#[test]
fn a_command_of_a_server_is_the_tool_and_does_not_change_the_server() {
    let project = project("  command: prog\n  startup_timeout: 2.5\n  timeout: 7\n");
    let invoke = |command: Option<&str>| {
        let call = CallRequest {
            command: command.map(str::to_owned),
            ..call(json!({"a": "1", "timeout": 3}))
        };
        project.try_lower("s", &call).expect("resolved")
    };
    let (read, listed) = (invoke(Some("read")), invoke(None));
    assert_eq!(mcp(&read).tool.as_deref(), Some("read"));
    assert_eq!(mcp(&read).types, ArgumentTypes::OfServer);
    assert_eq!(mcp(&listed).tool, None);
    assert_eq!(
        mcp(&read).transport,
        mcp(&listed).transport,
        "one process serves both"
    );
    assert_eq!(
        (mcp(&read).startup_timeout, read.timeout),
        (Duration::from_millis(2500), Duration::from_secs(3))
    );
}

#[test]
fn a_server_at_an_address_gets_headers_and_a_secret() {
    let config = "  transport: sse\n  url: \"https://example.com/{base}\"\n  headers: {X-Team: red}\n  \
        auth: {type: bearer, env_var: TOKEN}\n  allow_private: true\n";
    let invocation = project(config).resolve("t", json!({}));
    let McpTransport::Remote {
        kind,
        url,
        headers,
        allow_private,
        ..
    } = &mcp(&invocation).transport
    else {
        panic!("an address")
    };
    assert_eq!(
        (*kind, url.value.as_str(), *allow_private),
        (RemoteKind::Sse, "https://example.com/data", true)
    );
    let shown: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, text)| (name.as_str(), text.shown()))
        .collect();
    assert_eq!(shown, [("X-Team", "red"), ("Authorization", "***")]);
    assert_eq!(headers[1].1.value, "Bearer s3cret");
    let basic = project("  url: \"https://example.com\"\n  auth: {type: basic, env_var: TOKEN}\n")
        .resolve("t", json!({}));
    let McpTransport::Remote { kind, headers, .. } = &mcp(&basic).transport else {
        panic!("an address")
    };
    assert_eq!(
        (*kind, headers[0].1.value.as_str()),
        (RemoteKind::Http, "Basic czNjcmV0Og==")
    );
}

#[test]
fn what_cannot_be_reached_says_why() {
    let refusal = |config: &str| project(config).refusal("t", json!({}));
    insta::assert_snapshot!(refusal("  startup_timeout: 1\n"), @"
    MISSING_REQUIRED_FIELD: `s` does not say what to run: it has no `config.command`
    --> .ai/tools/s/tool.yaml:7
    hint: add `config: {command: PROGRAM}` or `config: {url: https://…}`
    ");
    insta::assert_snapshot!(refusal("  transport: http\n"), @"
    MISSING_REQUIRED_FIELD: `s` does not say what to run: it has no `config.url`
    --> .ai/tools/s/tool.yaml:7
    hint: add `config: {url: https://…}`
    ");
    insta::assert_snapshot!(refusal("  transport: htttp\n  url: \"https://example.com\"\n"), @"
    INVALID_CONFIG: `config.transport` is `htttp`, which is not a transport
    --> .ai/tools/s/tool.yaml:7
    hint: did you mean `http`?
    ");
    insta::assert_snapshot!(refusal("  transport: websocket\n  url: \"https://example.com\"\n"), @"
    INVALID_CONFIG: `config.url` begins with `https:`, which websocket does not speak
    --> .ai/tools/s/tool.yaml:8
    hint: write it as a whole, e.g. `wss://example.com/mcp`
    ");
    insta::assert_snapshot!(refusal("  url: \"https://me:pw@example.com\"\n"), @"
    INVALID_CONFIG: `config.url` holds credentials
    --> .ai/tools/s/tool.yaml:7
    hint: remove them; `config.auth` names the environment variable that holds the secret
    ");
    insta::assert_snapshot!(refusal("  url: example\n"), @"
    INVALID_CONFIG: `config.url` is no address: relative URL without a base
    --> .ai/tools/s/tool.yaml:7
    hint: write it as a whole, e.g. `https://example.com/mcp`
    ");
    insta::assert_snapshot!(refusal("  command: prog\n  startup_timeout: 0\n"), @"
    INVALID_CONFIG: `config.startup_timeout` must be a positive number of seconds
    --> .ai/tools/s/tool.yaml:8
    hint: e.g. `startup_timeout: 30`
    ");
    insta::assert_snapshot!(refusal("  url: \"https://example.com\"\n  auth: {type: beaer, env_var: TOKEN}\n"), @"
    INVALID_CONFIG: `config.auth.type` is `beaer`, which is not a way to authenticate
    --> .ai/tools/s/tool.yaml:8
    hint: did you mean `bearer`?
    ");
    insta::assert_snapshot!(refusal("  url: \"https://example.com\"\n  auth: {type: bearer, env_var: NOT_SET}\n"), @"
    INVALID_CONFIG: `config.auth.env_var` names `NOT_SET`, a variable that is not set
    --> .ai/tools/s/tool.yaml:8
    hint: set `NOT_SET`
    ");
    insta::assert_snapshot!(refusal("  url: \"https://example.com\"\n  auth: {type: api_key, env_var: TOKEN, in: query}\n"), @"
    INVALID_CONFIG: `config.auth.in` is `query`, which is of no use for a server that is no single endpoint
    --> .ai/tools/s/tool.yaml:8
    hint: write `in: header`
    ");
    insta::assert_snapshot!(refusal("  url: \"https://example.com\"\n  headers: {\"a b\": c}\n"), @"
    INVALID_CONFIG: `config.headers.a b` has a name that no header has: `a b`
    --> .ai/tools/s/tool.yaml:8
    hint: use letters, digits and `-`
    ");
    insta::assert_snapshot!(refusal("  command: bash\n  args: [-c, \"{base}\"]\n"), @r#"
    INVALID_TEMPLATE: `{base}` in `config.args[1]` would become a part of the code that `bash` runs
    --> .ai/tools/s/tool.yaml:8
    hint: give it to the code as an argument, e.g. `[-c, 'echo "$1"', sh, "{base}"]`
    "#);
    let command = CallRequest {
        command: Some("other".to_owned()),
        ..call(json!({}))
    };
    insta::assert_snapshot!(project("  command: prog\n").refused("t", &command), @"
    UNKNOWN_COMMAND: tool `t` has no command `other`
    hint: leave the command out
    ");
}
