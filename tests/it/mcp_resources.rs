//! Resources, prompts and completions over MCP, with pagination.

use serde_json::{Value, json};

use crate::harness::TestProject;
use crate::mcp_client::{Era, McpClient};
use crate::mcp_runs::directive;

const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

const SCRIBBLE: &str = "<step name=\"scribble\"><execute item_type=\"tool\" item_id=\"scribble\"/></step>\n\
    <step name=\"look\"><action>Look at it.</action></step>";

fn project() -> TestProject {
    TestProject::new()
        .file("README.md", "one\n")
        .file(
            ".ai/directives/docs/notes.md",
            directive("notes", "auto", SCRIBBLE),
        )
        .tool("scribble", "mutates_state: true", "echo two >> README.md")
        .committed()
}

/// Every entry of a list, from all of its pages.
fn all(client: &mut McpClient, list: &str) -> Vec<Value> {
    let (mut entries, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.request(&format!("{list}/list"), params.clone());
        let name = list.rsplit('/').next().expect("a name");
        let name = if name == "templates" {
            "resourceTemplates"
        } else {
            name
        };
        let listed = page[name].as_array().unwrap_or_else(|| panic!("{page}"));
        assert!(listed.len() <= 50);
        entries.extend(listed.iter().cloned());
        match page.get("nextCursor") {
            Some(cursor) => params["cursor"] = cursor.clone(),
            None => return entries,
        }
    }
}

fn read(client: &mut McpClient, uri: &str) -> (String, String) {
    let contents = client.request("resources/read", json!({"uri": uri}))["contents"][0].clone();
    assert_eq!(contents["uri"], uri);
    (
        contents["mimeType"].as_str().expect("a type").to_owned(),
        contents["text"].as_str().expect("text").to_owned(),
    )
}

fn refusal(client: &mut McpClient, method: &str, params: Value) -> Value {
    let id = client.send(method, params);
    client.answer(id)["error"].clone()
}

#[test]
fn runs_checkpoints_and_items_are_resources() {
    for era in ERAS {
        let project = project();
        let mut client = McpClient::greeted(&project, era, []);
        let waiting = client.call(
            "execute",
            json!({"item_type": "directive", "item_id": "notes"}),
        );
        let run = waiting["structuredContent"]["run_id"]
            .as_str()
            .expect("a run")
            .to_owned();
        let listed: Vec<String> = all(&mut client, "resources")
            .iter()
            .map(|it| it["uri"].as_str().expect("a uri").to_owned())
            .collect();
        for uri in [
            "piton://runs",
            "piton://items/directive/docs/notes",
            "piton://items/tool/scribble",
            &format!("piton://runs/{run}"),
        ] {
            assert!(listed.iter().any(|it| it == uri), "{uri}: {listed:?}");
        }
        for uri in &listed {
            assert!(!read(&mut client, uri).1.is_empty(), "{uri}");
        }
        let templates = all(&mut client, "resources/templates");
        assert_eq!(templates.len(), 3);
        let (mime, text) = read(&mut client, &format!("piton://runs/{}", &run[..10]));
        assert_eq!(mime, "application/json");
        let shown: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            shown,
            project.piton(["show", &run, "--format", "json"]).json()
        );
        let commit = project.git(["rev-parse", "HEAD"]).trim().to_owned();
        let (mime, diff) = read(&mut client, &format!("piton://checkpoints/{commit}/diff"));
        assert_eq!(mime, "text/x-diff");
        assert!(diff.contains("+two\n"), "{diff}");
        let (mime, text) = read(&mut client, "piton://items/directive/notes");
        assert_eq!(
            (mime.as_str(), text),
            (
                "text/markdown",
                project.read(".ai/directives/docs/notes.md")
            )
        );
        let unknown = if era == Era::Sessions { -32002 } else { -32602 };
        let first = project
            .git(["rev-list", "--max-parents=0", "HEAD"])
            .trim()
            .to_owned();
        for uri in [
            "piton://runs/zzz",
            "piton://runs/../../etc",
            "piton://items/tool/nothing",
            "piton://items/tool/../../../etc/passwd",
            "piton://items/tool//etc/passwd",
            "piton://items/secret/x",
            "piton://checkpoints/abc/diff",
            "file:///etc/passwd",
            "",
            // A commit that no step has made is not a resource.
            &format!("piton://checkpoints/{first}/diff"),
        ] {
            let refused = refusal(&mut client, "resources/read", json!({"uri": uri}));
            assert_eq!(refused["code"], unknown, "{uri}: {refused}");
        }
    }
}

#[test]
fn an_oversized_diff_is_cut_with_a_note() {
    let project = project()
        .tool(
            "scribble",
            "mutates_state: true",
            "head -c 3000000 /dev/zero | tr '\\0' x > long.txt",
        )
        .committed();
    let mut client = McpClient::greeted(&project, Era::Sessions, []);
    client.call(
        "execute",
        json!({"item_type": "directive", "item_id": "notes"}),
    );
    let commit = project.git(["rev-parse", "HEAD"]).trim().to_owned();
    let (_, diff) = read(&mut client, &format!("piton://checkpoints/{commit}/diff"));
    assert!(diff.len() <= 1024 * 1024, "{}", diff.len());
    assert!(diff.ends_with(&format!("# truncated: `git show {commit}` has the rest\n")));
}

#[test]
fn directives_are_prompts_with_their_inputs_as_arguments() {
    let inputs = "<input name=\"who\" type=\"string\" required=\"true\">Whom</input>\n\
                  <input name=\"kind\" type=\"string\" enum=\"long,short\" default=\"long\">What kind</input>\n\
                  <input name=\"count\" type=\"integer\">How many</input><input name=\"loud\" type=\"boolean\">Whether</input>";
    let text = directive(
        "greet",
        "auto",
        "<step name=\"a\"><action>Greet.</action></step>",
    );
    let start_of = text.find("<inputs>").expect("inputs");
    let end_of = text.find("</inputs>").expect("inputs");
    let text = format!("{}<inputs>{inputs}{}", &text[..start_of], &text[end_of..])
        .replace("{input:who}", "{input:who}");
    for era in ERAS {
        let project = project().file(".ai/directives/greet.md", &text).committed();
        let mut client = McpClient::greeted(&project, era, []);
        let prompts = all(&mut client, "prompts");
        let greet = prompts
            .iter()
            .find(|it| it["name"] == "greet")
            .unwrap_or_else(|| panic!("{prompts:?}"));
        let arguments: Vec<(&str, bool)> = greet["arguments"]
            .as_array()
            .expect("arguments")
            .iter()
            .map(|it| (it["name"].as_str().expect("a name"), it["required"] == true))
            .collect();
        assert_eq!(
            arguments,
            [
                ("who", true),
                ("kind", false),
                ("count", false),
                ("loud", false)
            ]
        );
        let given = json!({"name": "greet", "arguments": {"who": "Bob \"x\"", "count": "3", "loud": "true"}});
        let prompt = client.request("prompts/get", given);
        let lead = prompt["messages"][0]["content"]["text"]
            .as_str()
            .expect("text")
            .to_owned();
        // The call in the prompt message works.
        let call = lead
            .split_once("arguments:\n\n")
            .and_then(|(_, rest)| rest.split_once("\n\nIt has"))
            .expect("a call")
            .0;
        let call: Value = serde_json::from_str(call).expect("JSON");
        assert_eq!(
            call["parameters"],
            json!({"who": "Bob \"x\"", "count": 3, "loud": true})
        );
        let waiting = client.call("execute", call);
        assert_eq!(
            waiting["structuredContent"]["instruction"],
            "Greet.\n\nInputs:\n- who: Bob \"x\"\n- count: 3\n- loud: true\n- kind: long",
            "{waiting}"
        );
        for (name, arguments) in [
            ("greet", json!({})),
            ("greet", json!({"who": "x", "whom": "y"})),
            ("greet", json!({"who": "x", "kind": "wide"})),
            ("greet", json!({"who": "x", "count": "many"})),
            ("nothing", json!({})),
            ("../greet", json!({})),
        ] {
            let refused = refusal(
                &mut client,
                "prompts/get",
                json!({"name": name, "arguments": arguments}),
            );
            assert_eq!(refused["code"], -32602, "{name} {arguments}: {refused}");
        }
        let mut complete = |reference: Value, name: &str, begun: &str| {
            let params = json!({"ref": reference, "argument": {"name": name, "value": begun}});
            client.request("completion/complete", params)["completion"]["values"].clone()
        };
        let prompt = json!({"type": "ref/prompt", "name": "greet"});
        assert_eq!(complete(prompt.clone(), "kind", "s"), json!(["short"]));
        assert_eq!(
            complete(prompt.clone(), "loud", ""),
            json!(["true", "false"])
        );
        assert_eq!(complete(prompt, "who", "B"), json!([]));
        let item = json!({"type": "ref/resource", "uri": "piton://items/{item_type}/{+item_id}"});
        assert_eq!(
            complete(item.clone(), "item_type", "d"),
            json!(["directive"])
        );
        assert_eq!(
            complete(item.clone(), "item_id", "scr"),
            json!(["scribble"])
        );
        assert_eq!(complete(item, "item_id", "docs/n"), json!(["docs/notes"]));
        let run = waiting["structuredContent"]["run_id"].clone();
        let reference = json!({"type": "ref/resource", "uri": "piton://runs/{id}"});
        assert_eq!(complete(reference, "id", ""), json!([run]));
    }
}

#[test]
fn long_lists_come_page_by_page_and_no_cursor_is_invented() {
    let mut project = project();
    for number in 0..120 {
        let text = directive(
            &format!("d{number:03}"),
            "auto",
            "<step name=\"a\"><action>Do.</action></step>",
        );
        project = project.file(&format!(".ai/directives/many/d{number:03}.md"), text);
    }
    for era in ERAS {
        let mut client = McpClient::greeted(&project, era, []);
        let names: Vec<String> = all(&mut client, "prompts")
            .iter()
            .map(|it| it["name"].as_str().expect("a name").to_owned())
            .collect();
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(names, sorted, "each once, in order");
        assert!(names.len() > 120);
        let resources = all(&mut client, "resources");
        assert!(resources.len() > 120, "{}: {resources:?}", resources.len());
        for list in [
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
        ] {
            let refused = refusal(&mut client, list, json!({"cursor": "tools-1"}));
            assert_eq!(refused["code"], -32602, "{list}: {refused}");
        }
        let reference =
            json!({"type": "ref/resource", "uri": "piton://items/{item_type}/{+item_id}"});
        let params = json!({"ref": reference, "argument": {"name": "item_id", "value": ""}, "context": {"arguments": {"item_type": "directive"}}});
        let completion = client.request("completion/complete", params)["completion"].clone();
        assert_eq!(
            (
                completion["values"].as_array().map(Vec::len),
                &completion["hasMore"]
            ),
            (Some(100), &json!(true))
        );
    }
}

#[test]
fn only_supported_capabilities_are_announced() {
    let project = project();
    let mut client = McpClient::start(&project);
    let said = client.initialize();
    assert_eq!(
        said["capabilities"],
        json!({"completions": {}, "prompts": {}, "resources": {}, "tools": {}})
    );
    assert_eq!(
        refusal(
            &mut client,
            "resources/subscribe",
            json!({"uri": "piton://runs"})
        )["code"],
        -32601
    );
}
