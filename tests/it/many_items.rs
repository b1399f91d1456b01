//! Generates a project with any number of items, of every kind and form.
//!
//! Shared by the tests and the benchmarks. It is deterministic, so that figures can be compared.

use std::fs;
use std::path::Path;

/// Writes `count` items below `root`: directives, knowledge and tools in every form.
pub(crate) fn plant(root: &Path, count: usize) {
    let files: Vec<(String, String)> = (0..count).flat_map(item).collect();
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
}

fn item(at: usize) -> Vec<(String, String)> {
    let group = format!("group_{:02}", at / 20 % 50);
    match at % 20 {
        0..=5 => vec![(
            format!(".ai/directives/{group}/directive_{at}.md"),
            directive(at, &group),
        )],
        6..=8 => python(
            at,
            &group,
            "tool_type: script\nexecutor: python_runtime\nconfig:\n  entrypoint: main.py\n",
        ),
        9 => bash(at, &group),
        10 | 11 => vec![(format!(".ai/tools/{group}/tool_{at}.yaml"), api(at, &group))],
        12 => python(
            at,
            &group,
            "tool_type: python\nexecutor:\n  type: python\n  entrypoint: main.py\n  venv: true\n",
        ),
        13 => vec![(
            format!(".ai/tools/{group}/tool_{at}.py"),
            embedded(at, &group),
        )],
        14 => vec![(
            format!(".ai/tools/{group}/tool_{at}.json"),
            json_schema(at, &group),
        )],
        15 => vec![(format!(".ai/tools/{group}/tool-{at}.yaml"), tool_root(at))],
        16 => vec![(
            format!(".ai/tools/{group}/tool_{at}.yaml"),
            mcp_server(at, &group),
        )],
        _ => vec![(
            format!(".ai/knowledge/{group}/entry_{at}.md"),
            knowledge(at, &group),
        )],
    }
}

fn directive(at: usize, group: &str) -> String {
    // Item 9 of every twenty is a bash tool that the directives of the same twenty may call.
    let tool = at / 20 * 20 + 9;
    format!(
        r#"# Directive {at}

```xml
<directive name="directive_{at}" version="1.0.0">
  <metadata>
    <description>Collects and writes number {at}</description>
    <category>{group}</category>
    <author>forest</author>
    <model tier="fast"/>
    <git_checkpoint mode="auto" on_failure="rollback"/>
    <permissions>
      <execute resource="tool" id="tool_{tool}"/>
      <shell commands="printf"/>
      <write resource="filesystem" path="docs/**"/>
    </permissions>
  </metadata>
  <inputs>
    <input name="version" type="string" required="true">The version to describe</input>
  </inputs>
  <process>
    <step name="collect">
      <description>Collect what changed</description>
      <execute item_type="tool" item_id="tool_{tool}"><param name="text" value="v{{input:version}}"/></execute>
    </step>
    <step name="write" when="{{step:collect.count}} > 0">
      <action>Rewrite docs/notes.md for a reader who upgrades; keep <![CDATA[`a < b && c`]]> as it is.</action>
      <verification><check>docs/notes.md names the version</check></verification>
    </step>
    <step name="keep"><checkpoint operation="notes {at}"/></step>
  </process>
  <outputs><success>notes: {{step:collect.path}}</success></outputs>
</directive>
```
"#
    )
}

fn python(at: usize, group: &str, executor: &str) -> Vec<(String, String)> {
    let manifest = format!(
        "tool_id: tool_{at}\nversion: \"1.2.0\"\ncategory: {group}\ndescription: Repeats a text, number {at}\n{executor}\
         parameters:\n  - name: text\n    type: string\n    required: true\n    description: What to repeat\n  \
         - name: count\n    type: integer\n    required: false\n    default: 1\ntags: [forest, text]\n"
    );
    let script = format!(
        "\"\"\"Repeats a text, number {at}.\"\"\"\n\n\ndef main(text: str, count: int = 1) -> dict:\n    \
         words = [text for _ in range(count)]\n    return {{\"result\": \" \".join(words), \"number\": {at}}}\n"
    );
    vec![
        (format!(".ai/tools/{group}/tool_{at}/tool.yaml"), manifest),
        (format!(".ai/tools/{group}/tool_{at}/main.py"), script),
    ]
}

fn bash(at: usize, group: &str) -> Vec<(String, String)> {
    let manifest = format!(
        "tool_id: tool_{at}\ntool_type: bash\nversion: \"1.0.0\"\ncategory: {group}\ndescription: Prints a text, number {at}\n\
         executor:\n  type: bash\n  entrypoint: run.sh\n  requires:\n    commands: [printf]\nmutates_state: true\n\
         parameters:\n  - name: text\n    type: string\n    required: true\n"
    );
    let script = format!(
        "#!/usr/bin/env bash\nset -euo pipefail\nfor word in $PITON_PARAM_TEXT; do\n  if [[ -n $word ]]; then\n    \
         printf '%s %s\\n' \"$word\" {at}\n  fi\ndone\n"
    );
    vec![
        (format!(".ai/tools/{group}/tool_{at}/tool.yaml"), manifest),
        (format!(".ai/tools/{group}/tool_{at}/run.sh"), script),
    ]
}

fn api(at: usize, group: &str) -> String {
    format!(
        "tool_id: tool_{at}\ntool_type: api\nversion: \"1.0.0\"\ncategory: {group}\ndescription: Gets a forecast, number {at}\n\
         executor: http_client\nconfig:\n  method: GET\n  url_template: \"https://api.example.com/v1/forecast?lat={{lat}}&lon={{lon}}\"\n  \
         headers:\n    X-API-Key: \"${{API_KEY}}\"\n  response_transform: \"$.forecast.daily[0:7]\"\nrequires:\n  environment: [API_KEY]\n\
         parameters:\n  - name: lat\n    type: number\n    required: true\n  - name: lon\n    type: number\n    required: true\n"
    )
}

fn embedded(at: usize, group: &str) -> String {
    format!(
        "#!/usr/bin/env python3\n\"\"\"\ntool_id: tool_{at}\ntool_type: script\nversion: 1.0.0\ncategory: {group}\n\
         description: Counts words, number {at}\nexecutor: python_runtime\n\"\"\"\n\n\ndef main(text: str, least: int = 0) -> dict:\n    \
         return {{\"count\": max(least, len(text.split()))}}\n"
    )
}

fn json_schema(at: usize, group: &str) -> String {
    format!(
        r#"{{
  "tool_id": "tool_{at}",
  "tool_type": "cli",
  "version": "1.0.0",
  "name": "Word count {at}",
  "category": "{group}",
  "description": "Counts the words of a file, number {at}",
  "executor": "subprocess",
  "config": {{"command": "wc", "args": ["-w"]}},
  "inputs": {{
    "type": "object",
    "properties": {{"file": {{"type": "string", "description": "What to count"}}}},
    "required": ["file"]
  }},
  "outputs": {{"type": "object", "properties": {{"stdout": {{"type": "string"}}}}}}
}}
"#
    )
}

fn tool_root(at: usize) -> String {
    format!(
        r#"tool:
  schema_version: "2.0"
  id: tool-{at}
  type: cli
  name: Tracker {at}
  version: 1.0.0
  description: Keeps tasks, number {at}
  knowledge_strategy: executable
  cli_specific:
    executable: tracker
    install_check: tracker --version
    install_guide: Ask your package manager
  commands: [create_task]
  executable_knowledge:
    helpers:
      - id: short-name
        language: javascript
        runtime: isolated_vm
        function: |
          function shortName(args) {{
            return args.name.slice(0, 10) + "…";
          }}
          module.exports = {{ shortName }};
    validators:
      - id: validate-create
        validates: create_task
        language: javascript
        function: |
          (function () {{
            const errors = [];
            if (!args.args.name) {{ errors.push("name is required"); }}
            return {{ valid: errors.length === 0, errors: errors }};
          }})();
  anti_patterns:
    - pattern: unnamed_task
      description: A task without a name
      category: api_usage
      wrong: create_task({{}})
      correct: 'create_task({{name: "x"}})'
  examples:
    create_task:
      - {{scenario: success, description: fine, input: {{name: a}}, output: {{id: 1}}}}
      - {{scenario: failure_invalid_param, description: no name, input: {{}}, error: {{code: VALIDATION_ERROR, message: name is required}}}}
      - {{scenario: failure_api_error, description: busy, input: {{name: a}}, error: {{code: API_ERROR, message: busy}}}}
      - {{scenario: edge_case_long, description: long, input: {{name: aaaaaaaaaaaaaaaa}}, output: {{id: 2}}}}
"#
    )
}

fn mcp_server(at: usize, group: &str) -> String {
    format!(
        "tool_id: tool_{at}\ntool_type: mcp_server\nversion: \"1.0.0\"\ncategory: {group}\ndescription: A server, number {at}\n\
         executor: subprocess\nconfig:\n  transport: stdio\n  command: npx\n  args: [\"-y\", \"@example/server\"]\n  \
         env:\n    TOKEN: \"${{TOKEN}}\"\n  startup_timeout: 10\n"
    )
}

fn knowledge(at: usize, group: &str) -> String {
    format!(
        "---\nid: entry_{at}\ntitle: Entry {at}\nversion: \"1.0.0\"\nentry_type: pattern\ncategory: {group}\n\
         tags: [forest, pattern]\n---\n\n# Entry {at}\n\nWhat is worth knowing about number {at}.\n"
    )
}
