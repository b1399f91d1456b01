//! Confinement over MCP: paths, links, ids, and roots of servers and clients give no access to
//! other folders.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};

const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

fn project() -> TestProject {
    let project = TestProject::new()
        .tool("greet", "mutates_state: true", "echo hello > hello.txt")
        .committed();
    // A file beside the project that must not be visible.
    std::fs::create_dir_all(project.root().join("../other/.ai/knowledge")).expect("a folder");
    std::fs::write(
        project.root().join("../other/.ai/knowledge/secret.md"),
        secret(),
    )
    .expect("a file");
    project
}

fn secret() -> String {
    "---\nid: secret\ntitle: Secret\nentry_type: reference\nversion: 1.0.0\n---\nhunter2\n"
        .to_owned()
}

fn start(project: &TestProject, era: Era) -> McpClient {
    let mut client = McpClient::start_with(project, era, ["mcp", "--allow-authoring"]);
    client.initialize();
    client
}

fn code(client: &mut McpClient, tool: &str, arguments: Value) -> String {
    let result = client.call(tool, arguments);
    assert!(!result.to_string().contains("hunter2"), "{result}");
    result["structuredContent"]["code"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn other_folders_are_not_projects_of_this_server() {
    let project = project();
    let root = project.root();
    symlink(root.join("../other"), root.join("link")).expect("a link");
    symlink("/", root.join("top")).expect("a link");
    let here = root.to_string_lossy().into_owned();
    for era in ERAS {
        let mut client = start(&project, era);
        for (path, expected) in [
            ("relative".to_owned(), "INVALID_ARGUMENT"),
            (".".to_owned(), "INVALID_ARGUMENT"),
            ("~".to_owned(), "INVALID_ARGUMENT"),
            ("/".to_owned(), "PROJECT_NOT_SERVED"),
            ("/etc".to_owned(), "PROJECT_NOT_SERVED"),
            (format!("{here}/.."), "PROJECT_NOT_SERVED"),
            (format!("{here}/../other"), "PROJECT_NOT_SERVED"),
            (format!("{here}/link"), "PROJECT_NOT_SERVED"),
            (format!("{here}/top"), "PROJECT_NOT_SERVED"),
            (format!("{here}2"), "NOT_A_FOLDER"),
            (format!("{here}/nothing"), "NOT_A_FOLDER"),
            (format!("{here}\u{0}"), "NOT_A_FOLDER"),
            (format!("{here}/.git"), "NOT_A_PROJECT"),
            (format!("file://{here}"), "INVALID_ARGUMENT"),
        ] {
            for (tool, arguments) in [
                (
                    "search",
                    json!({"item_type": "knowledge", "query": "", "project_path": path}),
                ),
                (
                    "load",
                    json!({"item_type": "knowledge", "item_id": "secret", "project_path": path}),
                ),
                (
                    "execute",
                    json!({"item_type": "knowledge", "item_id": "secret", "project_path": path}),
                ),
                (
                    "execute",
                    json!({"item_type": "tool", "item_id": "greet", "project_path": path}),
                ),
                (
                    "execute",
                    json!({"item_type": "directive", "action": "status", "project_path": path}),
                ),
            ] {
                assert_eq!(
                    code(&mut client, tool, arguments),
                    expected,
                    "{tool} {path:?}"
                );
            }
        }
        let here = json!({"item_type": "tool", "query": "", "project_path": here});
        assert_eq!(client.call("search", here)["structuredContent"]["total"], 1);
    }
    assert!(!root.join("../other/hello.txt").exists());
    assert_eq!(
        project.git(["status", "--porcelain"]),
        "?? link\n?? top\n",
        "nothing was run"
    );
}

#[test]
fn ids_name_items_and_never_files() {
    let project = project();
    let root = project.root();
    std::fs::create_dir_all(root.join(".ai/knowledge")).expect("a folder");
    symlink(
        root.join("../other/.ai/knowledge/secret.md"),
        root.join(".ai/knowledge/secret.md"),
    )
    .expect("a link");
    symlink(
        root.join("../other/.ai/knowledge"),
        root.join(".ai/knowledge/linked"),
    )
    .expect("a link");
    symlink("/etc/passwd", root.join(".ai/tools/passwd.py")).expect("a link");
    for era in ERAS {
        let mut client = start(&project, era);
        for id in [
            "../other/.ai/knowledge/secret",
            "../../other/.ai/knowledge/secret.md",
            "/etc/passwd",
            "..",
            ".",
            "./greet",
            "greet/..",
            "a/../greet",
            "%2e%2e/greet",
            "..%2fgreet",
            "greet\u{0}",
            "greet\n",
            "greet;id",
            "$(id)",
            "-rf",
            "--help",
            "~/x",
            "C:\\x",
            "\u{202e}teerg",
            &"a".repeat(5000),
            &"a/".repeat(500),
        ] {
            for (kind, action) in [
                ("tool", "run"),
                ("knowledge", "run"),
                ("tool", "sign"),
                ("tool", "delete"),
                ("tool", "validate"),
            ] {
                let arguments =
                    json!({"item_type": kind, "action": action, "item_id": id, "parameters": {}});
                let code = code(&mut client, "execute", arguments);
                assert!(
                    ["INVALID_ID", "NOT_FOUND"].contains(&code.as_str()),
                    "{action} {kind} {id:?}: {code}"
                );
            }
            for (tool, more) in [
                ("load", json!({})),
                ("load", json!({"destination": "user"})),
            ] {
                let mut arguments = json!({"item_type": "knowledge", "item_id": id});
                arguments
                    .as_object_mut()
                    .expect("an object")
                    .extend(more.as_object().expect("an object").clone());
                let code = code(&mut client, tool, arguments);
                assert!(
                    ["INVALID_ID", "NOT_FOUND"].contains(&code.as_str()),
                    "{tool} {id:?}: {code}"
                );
            }
        }
        // Links that lead out of the project are not items.
        for (kind, id) in [("knowledge", "secret"), ("tool", "passwd")] {
            assert_eq!(
                code(
                    &mut client,
                    "load",
                    json!({"item_type": kind, "item_id": id})
                ),
                "INVALID_ITEM"
            );
        }
        let found = client.call("search", json!({"item_type": "knowledge", "query": ""}));
        assert_eq!(found["structuredContent"]["total"], 0, "{found}");
    }
    assert!(!project.home().join(".ai").exists(), "nothing was copied");
}

#[test]
fn a_server_serves_what_it_was_started_in_and_below_its_roots() {
    let project = project();
    let root = project.root();
    let other = root.join("../other").canonicalize().expect("a folder");
    let named = other.to_string_lossy().into_owned();
    let mut client = McpClient::start_with(&project, Era::Sessions, ["mcp", "--root", &named]);
    client.initialize();
    let loaded = json!({"item_type": "knowledge", "item_id": "secret", "project_path": named});
    assert_eq!(
        client.call("load", loaded)["structuredContent"]["name"],
        "secret"
    );
    let above = other
        .parent()
        .expect("a folder")
        .to_string_lossy()
        .into_owned();
    let above = json!({"item_type": "knowledge", "item_id": "secret", "project_path": above});
    assert_eq!(
        client.call("load", above)["structuredContent"]["code"],
        "PROJECT_NOT_SERVED"
    );
    let here = client.call("search", json!({"item_type": "tool", "query": ""}));
    assert_eq!(
        here["structuredContent"]["total"], 1,
        "without a name it is the one that it was started in"
    );
}

#[test]
fn the_only_root_of_a_client_is_meant_when_a_call_names_no_project() {
    let project = project();
    let root = project.root();
    let other = root.join("../other").canonicalize().expect("a folder");
    let above = other
        .parent()
        .expect("a folder")
        .to_string_lossy()
        .into_owned();
    let home = project.home().to_string_lossy().into_owned();
    let uri = |path: &std::path::Path| format!("file://{}", path.to_string_lossy());
    let query = json!({"item_type": "knowledge", "query": ""});
    for era in ERAS {
        // The client's roots, the server's folder, and the number of knowledge entries found or the
        // error.
        for (roots, started, expected) in [
            (vec![uri(&other)], &home, Ok(1)),
            (vec![uri(&root)], &home, Ok(0)),
            (
                vec![uri(&other)],
                &root.to_string_lossy().into_owned(),
                Ok(1),
            ),
            (vec![], &home, Err("project_path is required")),
            (
                vec![uri(&root), uri(&other)],
                &home,
                Err("project_path is required"),
            ),
            (
                vec!["file:///etc".to_owned()],
                &home,
                Err("project_path is required"),
            ),
            (
                vec!["https://example.com/".to_owned()],
                &home,
                Err("project_path is required"),
            ),
            (
                vec!["nonsense".to_owned()],
                &home,
                Err("project_path is required"),
            ),
            (
                vec!["file:///etc".to_owned()],
                &root.to_string_lossy().into_owned(),
                Ok(0),
            ),
        ] {
            let mut client =
                McpClient::start_with(&project, era, ["-C", started, "mcp", "--root", &above])
                    .able(json!({"roots": {}}));
            client.roots.clone_from(&roots);
            client.initialize();
            let mut params = json!({"name": "search", "arguments": query});
            let mut result = client.request("tools/call", params.clone());
            if era == Era::Stateless {
                assert_eq!(
                    result["inputRequests"]["roots"]["method"], "roots/list",
                    "{result}"
                );
                let listed: Vec<Value> = roots.iter().map(|uri| json!({"uri": uri})).collect();
                params["inputResponses"] = json!({"roots": {"roots": listed}});
                result = client.request("tools/call", params);
            }
            let found = &result["structuredContent"];
            match expected {
                Ok(count) => assert_eq!(found["total"], count, "{roots:?}: {result}"),
                Err(words) => assert_eq!(found["error"], words, "{roots:?}: {result}"),
            }
            if era == Era::Sessions && expected == Ok(1) {
                let prompts = client.request("resources/list", json!({}));
                assert!(
                    prompts
                        .to_string()
                        .contains("piton://items/knowledge/secret"),
                    "{prompts}"
                );
            }
        }
        // With a single project the client is not asked.
        let mut client = McpClient::start_in(&project, era).able(json!({"roots": {}}));
        client.roots = vec!["file:///etc".to_owned()];
        client.initialize();
        assert_eq!(
            client.call("search", query.clone())["structuredContent"]["total"],
            0
        );
    }
}
