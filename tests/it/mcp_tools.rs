//! The four tools as clients see them: schemas, descriptions and errors.

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

const TOOL: &str = "__version__ = \"1.0.0\"\n__tool_type__ = \"python\"\n__executor_id__ = \"python_runtime\"\n\
    __category__ = \"text\"\n__description__ = \"Repeats a text\"\n\n\
    def main(input_text: str, count: int = 1) -> dict:\n    \"\"\"Repeats a text.\"\"\"\n    \
    return {\"result\": input_text * count}\n";
const KNOWLEDGE: &str =
    "---\nid: facts\ntitle: Facts\nversion: 1.0.0\ncategory: misc\n---\n# Facts\nwater is wet\n";

fn project() -> TestProject {
    TestProject::new()
        .file(".ai/tools/text/repeat.py", TOOL)
        .file(".ai/knowledge/facts.md", KNOWLEDGE)
        .tool("fail", "mutates_state: false", "echo no >&2; exit 3")
        .directive("clean", ["fail"])
        .committed()
}

fn start(project: &TestProject) -> McpClient {
    let mut client = McpClient::start(project);
    client.initialize();
    client
}

/// The content of a call and whether it is an error; the text must match the structured content.
fn content(client: &mut McpClient, tool: &str, arguments: Value) -> (Value, bool) {
    let result = client.call(tool, arguments);
    let content = result["structuredContent"].clone();
    let text = result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {result}"));
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), content);
    (content, result["isError"] == true)
}

fn good(client: &mut McpClient, tool: &str, arguments: Value) -> Value {
    let (content, is_error) = content(client, tool, arguments);
    assert!(!is_error, "{content}");
    content
}

/// An error with all required fields.
fn bad(client: &mut McpClient, tool: &str, arguments: Value) -> Value {
    let (content, is_error) = content(client, tool, arguments);
    assert!(is_error, "{content}");
    for name in ["error", "code", "message"] {
        assert!(content[name].is_string(), "{name}: {content}");
    }
    for name in ["item_type", "suggestion"] {
        assert!(content.get(name).is_some(), "{name}: {content}");
    }
    content
}

fn names(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn the_tools_say_what_they_take_return_and_do() {
    let project = project();
    let mut client = start(&project);
    let listed = client.request("tools/list", json!({}));
    let tools = listed["tools"].as_array().expect("tools");
    let told: Vec<(&str, &Value)> = tools
        .iter()
        .map(|tool| (tool["name"].as_str().expect("a name"), &tool["annotations"]))
        .collect();
    let hints = |title: &str, reads: bool, destroys: Option<bool>, open: bool| {
        let mut hints = json!({"title": title, "readOnlyHint": reads, "openWorldHint": open});
        if let Some(destroys) = destroys {
            hints["destructiveHint"] = destroys.into();
        }
        hints
    };
    assert_eq!(
        told,
        [
            ("search", &hints("Find items", true, None, false)),
            (
                "load",
                &hints("Read or copy an item", false, Some(true), false)
            ),
            (
                "execute",
                &hints("Run and manage items", false, Some(true), true)
            ),
            ("help", &hints("Read about piton", true, None, false)),
        ]
    );
    for tool in tools {
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert_eq!(
            tool["inputSchema"]["properties"]["dry_run"]["type"], "boolean",
            "{tool}"
        );
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object");
            assert!(
                jsonschema::meta::is_valid(&tool[schema]),
                "{}",
                tool[schema]
            );
        }
    }
}

#[test]
fn answers_have_the_fields_that_clients_of_the_older_servers_know() {
    let project = project().home_file(".ai/tools/text/mine.py", TOOL);
    let mut client = McpClient::start_with(&project, Era::Sessions, ["mcp", "--allow-authoring"]);
    client.initialize();
    let here = project.root().to_string_lossy().into_owned();
    let found = good(
        &mut client,
        "search",
        json!({"item_type": "tool", "query": "repeat", "project_path": here}),
    );
    assert_eq!(names(&found), ["results", "total", "query", "source"]);
    let hit = &found["results"][0];
    for name in [
        "name",
        "description",
        "source",
        "path",
        "score",
        "tool_type",
    ] {
        assert!(!hit[name].is_null(), "{name}: {hit}");
    }
    let path = project.root().join(".ai/tools/text/repeat.py");
    assert_eq!(
        (&hit["name"], &hit["path"]),
        (&json!("repeat"), &json!(path))
    );
    let loaded = good(
        &mut client,
        "load",
        json!({"item_type": "script", "item_id": "text/repeat", "source": "project"}),
    );
    assert_eq!(
        (&loaded["name"], &loaded["path"], &loaded["content"]),
        (&json!("repeat"), &json!(path), &json!(TOOL))
    );
    assert_eq!(loaded["input_schema"]["required"], json!(["input_text"]));
    let metadata = &loaded["metadata"];
    for (name, value) in [
        ("name", "repeat"),
        ("description", "Repeats a text"),
        ("version", "1.0.0"),
        ("tool_type", "python"),
        ("executor_id", "python_runtime"),
        ("category", "text"),
    ] {
        assert_eq!(metadata[name], value, "{metadata}");
    }
    let run = json!({"item_type": "script", "action": "run", "item_id": "repeat", "parameters": {"input_text": "hello", "count": 3}});
    let done = good(&mut client, "execute", run);
    assert_eq!(
        &names(&done)[..6],
        [
            "tool_id",
            "action",
            "status",
            "result",
            "execution_time_ms",
            "output_path"
        ],
        "{done}"
    );
    assert_eq!(
        (&done["status"], &done["result"]),
        (&json!("success"), &json!({"result": "hellohellohello"}))
    );
    let output = done["output_path"].as_str().expect("a path");
    assert!(
        output.starts_with(".ai/outputs/tools/repeat/output_")
            && project.root().join(output).is_file()
    );
    let sign = json!({"item_type": "tool", "action": "sign", "item_id": "repeat", "parameters": {"location": "project", "category": "text"}});
    let signed = good(&mut client, "execute", sign);
    assert_eq!(
        (&signed["status"], &signed["message"]),
        (&json!("signed"), &json!("Tool signed successfully"))
    );
    let stamp = project
        .read(".ai/tools/text/repeat.py")
        .lines()
        .next()
        .expect("a line")
        .to_owned();
    assert_eq!(
        format!("# {}", signed["signature"].as_str().expect("a stamp")),
        stamp
    );
    assert!(stamp.ends_with(signed["hash"].as_str().expect("a hash")));
    let copied = good(
        &mut client,
        "load",
        json!({"item_type": "tool", "item_id": "mine", "source": "user", "destination": "project"}),
    );
    assert_eq!(
        (&copied["destination"], &copied["message"]),
        (
            &json!("project"),
            &json!("Tool copied from user to project")
        )
    );
    let copy = copied["path"].as_str().expect("a path");
    assert!(
        copy.starts_with(&*project.root().to_string_lossy())
            && std::path::Path::new(copy).is_file(),
        "{copied}"
    );
    assert_eq!(
        copied["content"],
        json!(std::fs::read_to_string(copy).expect("a copy"))
    );
    let registry = bad(
        &mut client,
        "load",
        json!({"item_type": "tool", "item_id": "repeat", "source": "registry"}),
    );
    assert_eq!(registry["error"], "Registry not supported", "{registry}");
    let again =
        json!({"item_type": "tool", "item_id": "mine", "source": "user", "destination": "project"});
    let exists = bad(&mut client, "load", again.clone());
    assert_eq!(
        exists["suggestion"],
        "`overwrite: true` replaces it; `dry_run: true` shows what would be written"
    );
    let mut over = again;
    over["overwrite"] = true.into();
    good(&mut client, "load", over);
    assert!(client.end().0.success());
}

#[test]
fn the_errors_that_clients_compare_have_their_very_words() {
    let project = project();
    let mut client = start(&project);
    let run =
        |id: &str| json!({"item_type": "tool", "action": "run", "item_id": id, "parameters": {}});
    let failed = |client: &mut McpClient, id: &str, error: &str, status: &str| {
        let said = bad(client, "execute", run(id));
        let told = [
            &said["error"],
            &said["item_type"],
            &said["tool_id"],
            &said["action"],
            &said["status"],
        ];
        assert_eq!(told, [error, "tool", id, "run", status], "{said}");
        assert!(said["suggestion"].is_string(), "{said}");
        said
    };
    failed(&mut client, "nothing", "Tool not found", "error");
    failed(&mut client, "../../etc/passwd", "Invalid item id", "error");
    let missing = failed(&mut client, "repeat", "Execution failed", "error");
    assert_eq!(
        missing["suggestion"],
        "`load` with `item_type: \"tool\", item_id: \"repeat\"` lists what it takes",
        "an agent is told of a call"
    );
    let broken = failed(&mut client, "fail", "Execution failed", "error");
    assert_eq!(
        (&broken["exit_code"], &broken["stderr"]),
        (&json!(3), &json!("no\n"))
    );
    project.bash("sed -i '/^__version__/d; /^__executor/d' .ai/tools/text/repeat.py");
    // A server takes the items as they are when it starts; a person has to allow a later change.
    let mut client = start(&project);
    let invalid = failed(&mut client, "repeat", "Invalid metadata", "error");
    assert_eq!(
        invalid["place"]["file"], ".ai/tools/text/repeat.py",
        "{invalid}"
    );
    project.bash("git checkout --quiet .ai");
    assert_eq!(project.piton(["sign", "repeat"]).code(), Some(0));
    project.bash("echo '# more' >> .ai/tools/text/repeat.py");
    failed(&mut client, "repeat", "Content hash mismatch", "denied");
    assert_eq!(
        bad(
            &mut client,
            "load",
            json!({"item_type": "knowledge", "item_id": "nothing"})
        )["error"],
        "Knowledge not found"
    );
    assert_eq!(
        bad(
            &mut client,
            "execute",
            json!({"item_type": "directive", "item_id": "nothing"})
        )["error"],
        "Directive not found"
    );
    let nowhere =
        json!({"item_type": "tool", "query": "x", "project_path": project.root().join("nothing")});
    assert_eq!(
        bad(&mut client, "search", nowhere)["error"],
        "Project not found"
    );
}

#[test]
fn a_project_has_to_be_named_where_the_server_was_started_in_none() {
    let project = project();
    let home = project.home().to_string_lossy().into_owned();
    let here = project.root().to_string_lossy().into_owned();
    let mut client = McpClient::start_with(
        &project,
        Era::Sessions,
        ["-C", &home, "mcp", "--root", &here],
    );
    client.initialize();
    let search = json!({"item_type": "tool", "query": "repeat"});
    let said = bad(&mut client, "search", search.clone());
    assert_eq!(
        (&said["error"], &said["suggestion"]),
        (
            &json!("project_path is required"),
            &json!("add `project_path: \"/absolute/path\"`")
        )
    );
    let mut named = search;
    named["project_path"] = here.into();
    assert_eq!(good(&mut client, "search", named)["total"], 1);
    // The home is not a project and is not served.
    let outside = json!({"item_type": "tool", "query": "repeat", "project_path": home});
    assert_eq!(
        bad(&mut client, "search", outside)["code"],
        "PROJECT_NOT_SERVED"
    );
    let id = client.send("resources/list", json!({}));
    let refused = client.answer(id);
    assert!(
        refused["error"]["data"]["suggestion"]
            .as_str()
            .is_some_and(|it| it.contains("project_path")),
        "{refused}"
    );
}

#[test]
fn arguments_that_cannot_be_meant_are_refused_by_name() {
    let project = project();
    let mut client = start(&project);
    for (tool, arguments, error) in [
        ("search", json!({"query": "x"}), "item_type is required"),
        ("search", json!({"item_type": "tool"}), "query is required"),
        (
            "search",
            json!({"item_type": "tool", "query": 5}),
            "Invalid argument",
        ),
        (
            "search",
            json!({"item_type": "tols", "query": "x"}),
            "Invalid argument",
        ),
        (
            "search",
            json!({"item_type": "tool", "query": "x", "limit": 0}),
            "Invalid argument",
        ),
        (
            "search",
            json!({"item_type": "tool", "query": "x", "limit": "ten"}),
            "Invalid argument",
        ),
        (
            "search",
            json!({"item_type": "tool", "query": "x", "sort_by": "size"}),
            "Invalid argument",
        ),
        (
            "search",
            json!({"item_type": "tool", "query": "x", "tags": "a"}),
            "Invalid argument",
        ),
        (
            "search",
            json!({"item_type": "tool", "query": "x", "source": "registry"}),
            "Registry not supported",
        ),
        (
            "search",
            json!({"item_type": "tool", "query": "x", "projectpath": "/"}),
            "Invalid argument",
        ),
        ("load", json!({"item_type": "tool"}), "item_id is required"),
        (
            "load",
            json!({"item_type": "tool", "item_id": 7}),
            "Invalid argument",
        ),
        (
            "load",
            json!({"item_type": "tool", "item_id": "repeat", "overwrite": "yes"}),
            "Invalid argument",
        ),
        ("execute", json!({}), "item_type is required"),
        (
            "execute",
            json!({"item_type": "tool"}),
            "item_id is required",
        ),
        (
            "execute",
            json!({"item_type": "tool", "item_id": "repeat", "action": "rnu"}),
            "Invalid argument",
        ),
        (
            "execute",
            json!({"item_type": "tool", "item_id": "repeat", "parameters": []}),
            "Invalid argument",
        ),
        (
            "execute",
            json!({"item_type": "tool", "item_id": "repeat", "checkpoint": "never"}),
            "Invalid argument",
        ),
        (
            "execute",
            json!({"item_type": "tool", "item_id": "repeat", "checkpoint": "disabled"}),
            "Permission denied",
        ),
        (
            "execute",
            json!({"item_type": "tool", "item_id": "repeat", "force": true}),
            "Invalid argument",
        ),
        ("help", json!({"topic": "nonsense"}), "Topic not found"),
    ] {
        let said = bad(&mut client, tool, arguments.clone());
        assert_eq!(said["error"], error, "{arguments}: {said}");
    }
    assert_eq!(project.git(["status", "--porcelain"]), "");
}

#[test]
fn a_search_is_narrowed_sorted_and_cut() {
    let project = project();
    let mut client = start(&project);
    let mut search = |more: Value| {
        let mut arguments = json!({"item_type": "tool", "query": ""});
        arguments
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        let found = good(&mut client, "search", arguments);
        let results = found["results"].as_array().expect("results").clone();
        (
            results
                .iter()
                .map(|hit| hit["name"].as_str().expect("a name").to_owned())
                .collect::<Vec<_>>(),
            found,
        )
    };
    assert_eq!(search(json!({"sort_by": "name"})).0, ["fail", "repeat"]);
    let (names, found) = search(json!({"limit": 1, "sort_by": "name", "dry_run": true}));
    assert_eq!(
        (names.len(), &found["total"]),
        (1, &json!(2)),
        "the total counts what the limit leaves out"
    );
    assert_eq!(search(json!({"tool_type": "python"})).0, ["repeat"]);
    assert_eq!(search(json!({"category": "text"})).0, ["repeat"]);
    let (names, found) = search(json!({"source": "all", "limit": 100}));
    assert!(names.iter().any(|name| name == "bash_runtime"), "{found}");
    assert_eq!(found["source"], "all");
}

#[test]
fn help_shows_calls_that_the_tools_take() {
    let project = project();
    let mut client = start(&project);
    let listed = client.request("tools/list", json!({}));
    let schema = |name: &Value| {
        let tools = listed["tools"].as_array().expect("tools");
        tools
            .iter()
            .find(|tool| tool["name"] == *name)
            .expect("a tool")["inputSchema"]
            .clone()
    };
    let overview = good(&mut client, "help", json!({}));
    assert_eq!(overview["topic"], "overview");
    for topic in [
        "overview",
        "tool",
        "directive",
        "knowledge",
        "search",
        "load",
        "execute",
        "checkpoint",
    ] {
        assert!(
            overview["topics"]
                .as_array()
                .expect("topics")
                .contains(&json!(topic))
        );
        let page = good(&mut client, "help", json!({"topic": topic}));
        assert_eq!(page["topic"], topic);
        assert!(
            page["help"]
                .as_str()
                .is_some_and(|text| text.contains("## As calls"))
        );
        let examples = page["examples"].as_array().expect("examples");
        assert!(examples.len() > 1, "{topic}");
        for example in examples {
            let problems: Vec<String> = jsonschema::validator_for(&schema(&example["tool"]))
                .expect("a schema")
                .iter_errors(&example["arguments"])
                .map(|err| err.to_string())
                .collect();
            assert!(problems.is_empty(), "{example}: {problems:?}");
        }
    }
    let unknown = bad(&mut client, "help", json!({"topic": "tol"}));
    assert!(
        unknown["suggestion"]
            .as_str()
            .is_some_and(|it| it.starts_with("did you mean `tool`? the topics are "))
    );
}

#[test]
fn an_answer_that_is_too_large_goes_into_a_file() {
    let project = TestProject::new()
        .tool(
            "large",
            "mutates_state: false",
            "head -c 600000 /dev/zero | tr '\\0' x",
        )
        .committed();
    for era in [Era::Sessions, Era::Stateless] {
        let mut client = McpClient::start_in(&project, era);
        client.initialize();
        let done = good(
            &mut client,
            "execute",
            json!({"item_type": "tool", "item_id": "large"}),
        );
        assert_eq!(
            (&done["status"], &done["truncated"]),
            (&json!("success"), &json!(true)),
            "{done}"
        );
        assert!(done.to_string().len() < 256 * 1024);
        assert_eq!(done["left_out"], json!(["result"]));
        let all = project.read(done["full_output_path"].as_str().expect("a path"));
        let all: Value = serde_json::from_str(&all).expect("JSON");
        assert_eq!(
            all["result"]["stdout"].as_str().map(str::len),
            Some(600_000)
        );
        project.assert_clean();
    }
}

#[test]
fn calls_at_once_take_turns_and_each_commits_its_own() {
    let project = TestProject::new()
        .tool(
            "note",
            "mutates_state: true",
            "echo \"$PITON_PARAM_N\" > \"n$PITON_PARAM_N\"; echo $PITON_PARAM_N >> all",
        )
        .committed();
    let manifest = project.read(".ai/tools/note/tool.yaml")
        + "parameters:\n  - {name: n, type: integer, required: true}\n";
    let project = project
        .file(".ai/tools/note/tool.yaml", manifest)
        .committed();
    let mut client = start(&project);
    let ids: Vec<u64> = (0..12)
        .map(|n| {
            let run = json!({"item_type": "tool", "item_id": "note", "parameters": {"n": n}, "checkpoint": "auto"});
            client.send_call("execute", &run)
        })
        .collect();
    for id in ids {
        let answer = client.answer(id);
        let done = &answer["result"]["structuredContent"];
        assert_eq!(
            (&done["status"], &done["checkpoint"]["files_changed"]),
            (&json!("success"), &json!(2)),
            "{answer}"
        );
    }
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]).trim(), "14");
    assert_eq!(project.read("all").lines().count(), 12);
    project.assert_clean();
    assert_eq!(project.piton(["verify", "--all"]).code(), Some(0));
}
