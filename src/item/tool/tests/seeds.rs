//! The examples of the specification, unchanged.

use serde_json::json;

use super::*;

fn id(text: &str) -> Option<ItemId> {
    text.parse().ok()
}

#[test]
fn a_script_with_requirements_under_config() {
    let case = strict(
        "tool.yaml",
        r#"tool_id: email_enricher
tool_type: script
version: "1.2.0"
executor: python_runtime
description: "Enrich email addresses with company data"
config:
  entrypoint: main.py
  requires:
    - httpx>=0.24.0
    - pydantic>=2.0
parameters:
  - name: email
    type: string
    required: true
"#,
    );
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    let tool = case.tool();
    assert_eq!(
        tool.manifest,
        ToolManifest {
            tool_id: "email_enricher".parse().unwrap(),
            tool_type: "script".to_owned(),
            kind: ToolKind::Script,
            name: None,
            version: "1.2.0".to_owned(),
            description: "Enrich email addresses with company data".to_owned(),
            category: String::new(),
            executor: id("python_runtime"),
            config: json!({"entrypoint": "main.py"})
                .as_object()
                .unwrap()
                .clone(),
            parameters: vec![Parameter {
                name: "email".to_owned(),
                kind: "string".to_owned(),
                required: true,
                default: None,
                description: None,
            }],
            input_schema: json!({
                "type": "object", "properties": {"email": {"type": "string"}}, "required": ["email"],
            }),
            output_schema: None,
            outputs: ToolOutputs::default(),
            mutates_state: None,
            isolation: None,
            requires: Requires::default(),
            dependencies: vec!["httpx>=0.24.0".to_owned(), "pydantic>=2.0".to_owned()],
            writes: None,
            caches: Vec::new(),
            tags: Vec::new(),
            author: None,
            commands: Vec::new(),
            knowledge: Map::new(),
            legacy: false,
        }
    );
    assert_eq!(tool.spelling, Spelling::Manifest);
    let origin = |path: &str| {
        tool.origins()
            .get(path)
            .map(|origin| (origin.line, origin.column))
    };
    assert_eq!(origin("tool_id"), Some((1, 1)));
    assert_eq!(origin("config.entrypoint"), Some((7, 3)));
    assert_eq!(origin("dependencies"), Some((8, 3)));
    assert_eq!(origin("parameters[0].type"), Some((13, 5)));
}

#[test]
fn an_mcp_tool_names_its_server() {
    let text = r#"tool_id: supabase_execute_sql
tool_type: mcp_tool
version: "1.0.0"
executor: supabase_mcp
description: "Execute SQL queries on Supabase"
config:
  mcp_tool_name: execute_sql
"#;
    let case = strict("supabase_execute_sql.yaml", text);
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    assert_eq!(
        (
            case.tool().manifest.kind,
            case.tool().manifest.executor.clone()
        ),
        (ToolKind::McpTool, id("supabase_mcp"))
    );
    let block = lenient(
        "supabase_execute_sql.yaml",
        r#"tool_id: supabase_execute_sql
tool_type: mcp
version: "1.0.0"
description: "Execute SQL queries on Supabase"
executor: {type: mcp, server: supabase_mcp, tool: execute_sql}
"#,
    );
    assert_eq!(block.finding_lines(), Vec::<String>::new());
    let mut manifest = block.tool().manifest.clone();
    manifest.tool_type = "mcp_tool".to_owned();
    assert_eq!(manifest, case.tool().manifest);
}

#[test]
fn metadata_in_a_docstring() {
    let case = strict(
        "my_script.py",
        "#!/usr/bin/env python3\n\"\"\"\ntool_id: my_script\ntool_type: script\nversion: 1.0.0\nexecutor: python_runtime\n\"\"\"\n",
    );
    assert_eq!(
        case.finding_lines(),
        ["MISSING_RECOMMENDED_FIELD 1:1 description"]
    );
    let tool = case.tool();
    assert_eq!(
        (tool.spelling, tool.manifest.kind),
        (Spelling::Embedded, ToolKind::Script)
    );
    assert_eq!(
        tool.manifest.config,
        json!({"entrypoint": "my_script.py"})
            .as_object()
            .unwrap()
            .clone()
    );
    assert_eq!(
        tool.origins()
            .get("version")
            .map(|origin| (origin.line, origin.column)),
        Some((5, 1))
    );
}

#[test]
fn metadata_in_assignments_with_parameters_of_main() {
    let case = strict(
        "my_tool.py",
        r#"# kiwi-mcp:validated:2026-01-28T12:00:00Z:abc123
__version__ = "1.0.0"           # Required: semantic version
__tool_type__ = "python"         # Required: python, api, mcp_tool, or primitive
__executor_id__ = "python_runtime"  # Required: executor tool name or None
__category__ = "utility"         # Required: category for organization

def main(input_text: str, count: int = 1) -> dict:
    """Docstring describing the tool."""
    return {"result": input_text * count}
"#,
    );
    assert_eq!(case.finding_lines(), [""; 0]);
    let manifest = &case.tool().manifest;
    assert_eq!(manifest.description, "Docstring describing the tool.");
    assert_eq!(manifest.tool_id.as_str(), "my_tool");
    assert_eq!(
        (manifest.tool_type.as_str(), manifest.kind),
        ("python", ToolKind::Script)
    );
    assert_eq!(
        manifest.input_schema,
        json!({
            "type": "object",
            "properties": {"input_text": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            "required": ["input_text"],
        })
    );
}

#[test]
fn a_primitive_has_no_executor() {
    let text = "__version__ = '1.0.0'\n__tool_type__ = 'primitive'\n__executor_id__ = None\n__category__ = 'primitives'\n\
                __tool_description__ = 'Runs commands'\nCONFIG_SCHEMA = {'type': 'object'}\n";
    let case = strict("subprocess.py", text);
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    let manifest = &case.tool().manifest;
    assert_eq!(
        (
            manifest.kind,
            manifest.executor.clone(),
            manifest.config.len()
        ),
        (ToolKind::Primitive, None, 0)
    );
}

#[test]
fn a_json_schema_tool_without_type_and_version() {
    let text = r#"{
    "tool_id": "api_call",
    "executor": "http_client",
    "config": {"method": "POST", "url": "https://api.example.com/data", "headers": {"Content-Type": "application/json"}},
    "inputs": {
        "type": "object",
        "properties": {"payload": {"type": "object"}, "timeout": {"type": "integer", "default": 30}},
        "required": ["payload"]
    },
    "outputs": {"type": "object", "properties": {"status": {"type": "integer"}, "body": {}}}
}"#;
    let case = lenient("api_call.json", text);
    assert_eq!(
        case.finding_lines(),
        ["MISSING_RECOMMENDED_FIELD 1:1 description"]
    );
    let manifest = &case.tool().manifest;
    assert_eq!(
        (
            manifest.kind,
            manifest.tool_type.as_str(),
            manifest.version.as_str()
        ),
        (ToolKind::Api, "", "1.0.0")
    );
    assert_eq!(
        manifest.output_schema,
        Some(json!({"type": "object", "properties": {"status": {"type": "integer"}, "body": {}}}))
    );
    let case = strict("api_call.json", text);
    assert_eq!(
        case.messages()[..2],
        ["tool_type is required", "version is required"]
    );
    assert!(case.findings.has_errors());
}

#[test]
fn kinds_follow_from_executors() {
    for (executor, kind) in [
        ("subprocess", ToolKind::Cli),
        ("http_client", ToolKind::Api),
        ("python_runtime", ToolKind::Script),
        ("rye/core/runtimes/ruby_runtime", ToolKind::Script),
        ("docker_runtime", ToolKind::Docker),
    ] {
        let case = lenient(
            "x.yaml",
            &format!("tool_id: x\nexecutor: {executor}\ninputs: {{type: object}}\n"),
        );
        assert_eq!(case.tool().manifest.kind, kind, "{executor}");
    }
}

#[test]
fn simple_and_complex_tools_below_a_root() {
    let case = lenient(
        "exa.yaml",
        "tool:\n  id: exa\n  type: mcp\n  name: Exa Search\n  version: 1.0.0\n  description: Web search via Exa API\n  commands:\n    - web_search\n",
    );
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    let manifest = &case.tool().manifest;
    assert_eq!(
        (manifest.kind, manifest.executor.clone()),
        (ToolKind::McpServer, None)
    );
    assert_eq!(manifest.commands, ["web_search"]);

    let case = lenient(
        "local-tool.yaml",
        r"tool:
  schema_version: 2.0
  id: local-tool
  type: local
  name: Local
  version: 1.0.0
  description: Runs here
  knowledge_strategy: executable
  anti_patterns: []
  local_specific:
    entry_point: ./scripts/tool.js
    runtime: node
    dependencies: [package1, package2]
",
    );
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    let manifest = &case.tool().manifest;
    assert_eq!(
        (manifest.kind, manifest.executor.clone()),
        (ToolKind::Local, id("node_runtime"))
    );
    assert_eq!(
        manifest.config,
        json!({"entrypoint": "./scripts/tool.js", "runtime": "node"})
            .as_object()
            .unwrap()
            .clone()
    );
    assert_eq!(manifest.dependencies, ["package1", "package2"]);
    assert_eq!(
        manifest.knowledge,
        json!({"schema_version": 2.0, "knowledge_strategy": "executable", "anti_patterns": []})
            .as_object()
            .unwrap()
            .clone()
    );

    let case = lenient(
        "meta-tool.yaml",
        "tool:\n  id: meta-tool\n  type: meta\n  name: M\n  version: 1.0.0\n  description: d\n  meta_specific:\n    aggregates: [tool1, tool2]\n    orchestration: helpers.orchestrate\n",
    );
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    assert_eq!(
        case.tool().manifest.config,
        json!({"aggregates": ["tool1", "tool2"], "orchestration": "helpers.orchestrate"})
            .as_object()
            .unwrap()
            .clone()
    );
}

#[test]
fn a_script_in_the_old_folder_needs_no_metadata() {
    let case = read_in(
        &SCRIPTS,
        Strength::Strict,
        "scraping/google_maps_scraper.py",
        "\"\"\"Scrapes maps.\"\"\"\nimport argparse\n__version__ = '1.2.0'\n",
    );
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    let tool = case.tool();
    assert_eq!(tool.spelling, Spelling::LegacyScript);
    let manifest = &tool.manifest;
    assert!(manifest.legacy);
    assert_eq!(
        (
            manifest.tool_id.as_str(),
            manifest.tool_type.as_str(),
            manifest.version.as_str(),
            manifest.description.as_str()
        ),
        ("google_maps_scraper", "python", "1.2.0", "Scrapes maps.")
    );
    assert_eq!(manifest.executor, id("python_runtime"));
    let case = read_in(
        &SCRIPTS,
        Strength::Strict,
        "deploy.sh",
        "#!/bin/bash\n# Deploys.\n\necho\n",
    );
    let manifest = &case.tool().manifest;
    assert_eq!(
        (
            manifest.tool_type.as_str(),
            manifest.version.as_str(),
            manifest.description.as_str()
        ),
        ("bash", "0.0.0", "Deploys.")
    );
    assert_eq!(manifest.executor, id("bash_runtime"));
    let case = read_in(
        &SCRIPTS,
        Strength::Strict,
        "new.sh",
        "#!/bin/bash\n# Deploys.\n# tool_type: bash\n# version: 1.0.0\n# executor: bash_runtime\n",
    );
    assert_eq!(
        (case.tool().spelling, case.tool().manifest.legacy),
        (Spelling::Embedded, false)
    );
}

#[test]
fn what_is_no_tool_is_left_alone() {
    for name in [
        "README.md",
        "requirements.txt",
        "LICENSE",
        "data.csv",
        "package.json",
        ".hidden.py",
        ".env",
        "Makefile",
        "x.json",
    ] {
        let case = lenient(name, "{}");
        assert!(
            matches!(case.reading, ToolReading::NotATool),
            "{name}: {:?}",
            case.finding_lines()
        );
        assert_eq!(case.finding_lines(), Vec::<String>::new());
    }
    for (name, text) in [
        (
            "http_session.py",
            "__version__ = '1.0.0'\ndef get(): pass\n",
        ),
        ("lib.sh", "echo\n"),
        ("data.yaml", "a: 1\n"),
    ] {
        let case = read_in(&LIB, Strength::Strict, name, text);
        assert!(
            matches!(case.reading, ToolReading::NotATool),
            "{name}: {:?}",
            case.finding_lines()
        );
    }
    let folder = ToolLocation {
        folder: Some(Path::new("a")),
        ..TOOLS
    };
    for (name, text) in [
        ("a/main.py", "import os\n"),
        ("a/data.yaml", "a: 1\n"),
        ("a/lib/x.py", "CONFIG = f()\n"),
    ] {
        let case = read_in(&folder, Strength::Strict, name, text);
        assert!(matches!(case.reading, ToolReading::NotATool), "{name}");
    }
    let case = read_in(
        &LIB,
        Strength::Strict,
        "x.py",
        "CONFIG = load()\n__version__ = version()\n",
    );
    assert!(matches!(case.reading, ToolReading::NotATool));
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    let case = read_in(
        &LIB,
        Strength::Lenient,
        "real.py",
        "__version__ = '1.0.0'\n__tool_type__ = 'python'\n__executor_id__ = 'python_runtime'\n",
    );
    assert!(matches!(case.reading, ToolReading::Tool(_)));
}

#[test]
fn a_header_of_any_language_is_read() {
    for (name, text) in [
        (
            "a.sh",
            "#\ttool_id: a\n#\t# why\n#\ttool_type: script\n\n#\tversion: 1.0.0\n#\texecutor: bash_runtime\n",
        ),
        (
            "a.js",
            "// tool_id: a\n// tool_type: script\n// version: 1.0.0\n// executor: node_runtime\n",
        ),
        (
            "a.lua",
            "--tool_id: a\n--tool_type: script\n--version: 1.0.0\n--executor: lua_runtime\n",
        ),
        (
            "a.lua",
            "--[[\ntool_id: a\ntool_type: script\nversion: 1.0.0\nexecutor: lua_runtime\n]]\n",
        ),
        (
            "a.ts",
            "/*\n * tool_id: a\n * tool_type: script\n * version: 1.0.0\n * executor: node_runtime\n */\n",
        ),
        (
            "a.jl",
            "\"\"\"\ntool_id: a\ntool_type: script\nversion: 1.0.0\nexecutor: julia_runtime\n\"\"\"\n",
        ),
        (
            "a.ps1",
            "<#\ntool_id: a\ntool_type: script\nversion: 1.0.0\nexecutor: pwsh_runtime\n#>\n",
        ),
        (
            "a",
            "#!/usr/bin/env perl\n# tool_id: a\n# tool_type: script\n# version: 1.0.0\n# executor: perl_runtime\n",
        ),
    ] {
        let case = strict(name, text);
        assert_eq!(
            case.finding_lines(),
            ["MISSING_RECOMMENDED_FIELD 1:1 description"],
            "{text}"
        );
        assert_eq!(case.tool().manifest.version, "1.0.0");
        assert_eq!(
            case.tool()
                .manifest
                .config
                .get("entrypoint")
                .and_then(Value::as_str),
            Some(name)
        );
    }
}

#[test]
fn the_manifest_of_the_proposal() {
    let case = strict(
        "tool.yaml",
        r#"---
# .ai/tools/{category}/{tool_id}/tool.yaml
tool_id: google_maps_scraper
tool_type: python # python | bash | api | docker | mcp
version: "2.1.0"
category: scraping
description: Extract business data from Google Maps
# Executor configuration (type-specific)
executor:
  # === Python ===
  type: python
  entrypoint: main.py
  venv: true # Use isolated venv
  dependencies:
    - requests>=2.31.0
    - beautifulsoup4>=4.12.0
  lib_imports: # From .ai/tools/lib/
    - http_session
    - proxy_pool
# State mutation flag (triggers git checkpoint)
mutates_state: false
# Input parameters
parameters:
  - name: query
    type: string
    required: true
    description: Search query for Google Maps
  - name: location
    type: string
    required: false
    default: "New York, NY"
# Output specification
outputs:
  format: json # json | text | file
  schema: business_list # Optional: reference to known schema
# Metadata for search/discovery
tags: [scraping, google, maps, leads]
author: kiwi-team
created_at: 2026-01-15
---
"#,
    );
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    let tool = case.tool();
    assert_eq!(tool.spelling, Spelling::ExecutorBlock);
    let manifest = &tool.manifest;
    assert_eq!(
        (manifest.kind, manifest.executor.clone()),
        (ToolKind::Script, id("python_runtime"))
    );
    assert_eq!(
        manifest.config,
        json!({"entrypoint": "main.py", "venv": true, "lib_imports": ["http_session", "proxy_pool"]})
            .as_object()
            .unwrap()
            .clone()
    );
    assert_eq!(
        manifest.dependencies,
        ["requests>=2.31.0", "beautifulsoup4>=4.12.0"]
    );
    assert_eq!(
        manifest.outputs,
        ToolOutputs {
            format: Some("json".into()),
            parser: None,
            schema: Some("business_list".into()),
            ignore_success: false,
        }
    );
    assert_eq!(manifest.mutates_state, Some(false));
    // A moved field keeps its original position.
    assert_eq!(
        tool.origins().get("dependencies").map(|origin| origin.line),
        Some(14)
    );
    assert_eq!(
        tool.origins()
            .get("executor")
            .map(|origin| (origin.line, origin.column)),
        Some((11, 9))
    );
}

#[test]
fn the_other_blocks_of_the_proposal() {
    let manifest = |tool_type: &str, block: &str| {
        let text = format!(
            "tool_id: x\ntool_type: {tool_type}\nversion: 1.0.0\ndescription: d\nexecutor:\n{block}"
        );
        let case = strict("tool.yaml", &text);
        assert_eq!(case.finding_lines(), Vec::<String>::new(), "{text}");
        case.tool().manifest.clone()
    };
    let bash = manifest(
        "bash",
        "  type: bash\n  entrypoint: script.sh\n  shell: /bin/bash\n  requires:\n    commands: [jq, curl]\n    environment: [API_KEY]\n",
    );
    assert_eq!(
        (bash.kind, bash.executor),
        (ToolKind::Script, id("bash_runtime"))
    );
    assert_eq!(
        bash.config,
        json!({"entrypoint": "script.sh", "shell": "/bin/bash"})
            .as_object()
            .unwrap()
            .clone()
    );
    assert_eq!(
        (bash.requires.commands, bash.requires.environment),
        (vec!["jq".into(), "curl".into()], vec!["API_KEY".into()])
    );
    let api = manifest(
        "api",
        "  type: api\n  method: POST\n  endpoint: https://api.example.com/process\n  auth:\n    type: bearer\n    env_var: API_TOKEN\n  timeout: 30\n",
    );
    assert_eq!((api.kind, api.executor), (ToolKind::Api, id("http_client")));
    assert_eq!(
        api.config,
        json!({
            "method": "POST", "url": "https://api.example.com/process",
            "auth": {"type": "bearer", "env_var": "API_TOKEN"}, "timeout": 30,
        })
        .as_object()
        .unwrap()
        .clone()
    );
    let docker = manifest(
        "docker",
        "  type: docker\n  image: python:3.11-slim\n  build_context: .\n  volumes:\n    - source: ./data\n      target: /app/data\n  network: host\n",
    );
    assert_eq!(
        (docker.kind, docker.executor),
        (ToolKind::Docker, id("docker_runtime"))
    );
    assert_eq!(
        docker.config.keys().collect::<Vec<_>>(),
        ["image", "build_context", "volumes", "network"]
    );
    let remote = manifest(
        "mcp",
        "  type: mcp\n  transport: sse\n  url: https://example.com/sse\n",
    );
    assert_eq!(
        (remote.kind, remote.executor),
        (ToolKind::McpServer, id("http_client"))
    );
}

#[test]
fn a_server_as_files_in_the_wild_describe_it() {
    let case = lenient(
        "finder.yaml",
        r#"tool:
  schema_version: 1.0
  id: finder
  type: mcp
  name: Finder
  version: 1.0.0
  description: Finds things
  knowledge_strategy: declarative
  capabilities: [finding]
  mcp_specific:
    server_command: "npx -y finder"
    server_args: ["--all"]
    environment_variables:
      - {name: FINDER_KEY, required: true}
      - {name: FINDER_DEBUG, required: false}
      - OTHER
    health_check: {method: tool_call, command: find}
  tools:
    - id: find
      description: Finds one
"#,
    );
    assert_eq!(
        case.finding_lines(),
        ["UNKNOWN_FIELD 9:3 tool.capabilities"]
    );
    let manifest = &case.tool().manifest;
    assert_eq!(
        (manifest.kind, manifest.executor.clone()),
        (ToolKind::McpServer, id("subprocess"))
    );
    assert_eq!(manifest.config.get("command"), Some(&json!("npx")));
    assert_eq!(
        manifest.config.get("args"),
        Some(&json!(["-y", "finder", "--all"]))
    );
    assert_eq!(manifest.config.get("transport"), Some(&json!("stdio")));
    assert_eq!(manifest.requires.environment, ["FINDER_KEY", "OTHER"]);
    assert_eq!(manifest.commands, ["find"]);
}

#[test]
fn fields_and_prose_may_alternate() {
    let case = strict(
        "a.rb",
        "# frozen_string_literal: true\n# Copyright: Ada\n\n# Does it.\n# tool_type: script\n# version: 1.0.0\n# Deploys: everything\n# config:\n#   a: 1\n#\n# Options:\n#   name: not a field\n# executor: ruby_runtime\n",
    );
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    let tool = case.tool();
    assert_eq!(
        tool.manifest.config,
        json!({"a": 1, "entrypoint": "a.rb"})
            .as_object()
            .unwrap()
            .clone()
    );
    assert_eq!(
        (
            tool.manifest.name.as_deref(),
            tool.manifest.executor.clone()
        ),
        (None, id("ruby_runtime"))
    );
    assert_eq!(tool.manifest.description, "Does it. Deploys: everything");
    assert_eq!(
        tool.origins()
            .get("config.a")
            .map(|origin| (origin.line, origin.column)),
        Some((9, 5))
    );
    assert_eq!(
        tool.origins()
            .get("executor")
            .map(|origin| (origin.line, origin.column)),
        Some((13, 3))
    );
    assert_eq!(
        tool.origins()
            .get("description")
            .map(|origin| (origin.line, origin.column)),
        Some((4, 3))
    );
}

#[test]
fn the_schema_of_a_wrapper_is_what_it_takes() {
    let head = "tool_id: x\ntool_type: script\nversion: 1.0.0\nexecutor_id: python_runtime\ndescription: d\n";
    for key in ["input_schema", "config_schema"] {
        let text = format!(
            "{head}{key}:\n  type: object\n  properties: {{topic: {{type: string}}}}\n  required: [topic]\n"
        );
        let case = lenient("x.yaml", &text);
        assert_eq!(case.finding_lines(), Vec::<String>::new(), "{key}");
        let taken: Vec<_> = case
            .tool()
            .manifest
            .parameters
            .iter()
            .map(|it| (&*it.name, it.required))
            .collect();
        assert_eq!(taken, [("topic", true)], "{key}");
    }
}

#[test]
fn the_config_schema_of_a_runtime_is_not_what_a_call_takes() {
    let text = "tool_id: x\ntool_type: runtime\nversion: 1.0.0\nexecutor: subprocess\ndescription: d\n\
        config_schema: {type: object, properties: {script: {type: string}}}\n";
    assert_eq!(lenient("x.yaml", text).tool().manifest.parameters, []);
}

#[test]
fn a_secret_out_of_the_environment_names_its_variable() {
    let text = "tool_id: x\ntool_type: api\nversion: 1.0.0\nexecutor: http_client\ndescription: d\nconfig:\n  \
        method: GET\n  url: https://api.example.com\n  auth: {type: bearer, token: \"${API_TOKEN}\"}\n";
    let case = lenient("x.yaml", text);
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    assert_eq!(
        case.tool().manifest.config["auth"],
        json!({"type": "bearer", "env_var": "API_TOKEN"})
    );
    let literal = lenient("x.yaml", &text.replace("${API_TOKEN}", "abc"));
    assert_eq!(
        literal.tool().manifest.config["auth"],
        json!({"type": "bearer", "token": "abc"})
    );
}

#[test]
fn a_wrapper_of_an_mcp_tool_may_call_it_tool_name() {
    let text = "tool_id: x\ntool_type: mcp\nversion: 1.0.0\nexecutor_id: servers/docs\ndescription: d\n\
        config: {tool_name: query-docs}\n";
    let case = lenient("x.yaml", text);
    assert_eq!(case.finding_lines(), Vec::<String>::new());
    assert_eq!(case.tool().manifest.kind, ToolKind::McpTool);
    assert_eq!(
        case.tool().manifest.config["mcp_tool_name"],
        json!("query-docs")
    );
}

#[test]
fn a_program_of_any_language_is_a_tool_where_its_header_says_so() {
    let fields = [
        "tool_id: count",
        "tool_type: script",
        "version: 1.0.0",
        "executor: my_runtime",
    ];
    for (name, mark) in [
        ("count.sql", "--"),
        ("count.hs", "--"),
        ("count.clj", ";;"),
        ("count.m", "%"),
        ("count.java", "//"),
        ("count.erl", "%"),
        ("count.bat", "::"),
    ] {
        let header: String = fields.map(|field| format!("{mark} {field}\n")).concat();
        let start = if name.ends_with("bat") {
            "@echo off\n"
        } else {
            ""
        };
        let case = lenient(name, &format!("{start}{header}\nSELECT 1;\n"));
        let manifest = &case.tool().manifest;
        assert_eq!(manifest.tool_id.as_str(), "count", "{name}");
        assert_eq!(manifest.config["entrypoint"], name);
        // A file without tool fields is data, and gets no finding.
        for text in [
            "SELECT 1;\n",
            &format!("{mark} executor: somebody\nx\n"),
            &format!("{mark} a: [\nx\n"),
        ] {
            let case = lenient(name, text);
            assert!(
                matches!(case.reading, ToolReading::NotATool),
                "{name} {text}"
            );
            assert!(case.findings.into_vec().is_empty(), "{name} {text}");
        }
    }
    for name in ["notes.txt", "style.css", "count.sql.orig", "page.md"] {
        let case = lenient(name, "-- tool_id: count\n-- tool_type: script\n");
        assert!(matches!(case.reading, ToolReading::NotATool), "{name}");
    }
}
