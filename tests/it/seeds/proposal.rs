//! Document 001: scripts become tools, with checkpoints and permissions.

use serde_json::json;

use super::{call, examples, findings, planned, shown};

#[test]
fn every_example_is_read() {
    let project = examples("001");
    // The stamp of `git_checkpoint` is as short as those of older programs.
    let told: Vec<String> = findings(&project, &["--strict"])
        .into_iter()
        .filter(|line| !line.contains("_STAMP directives/core/git_checkpoint.md"))
        .collect();
    assert_eq!(
        told,
        [
            "warning GRANT_WITHOUT_EFFECT directives/core/git_checkpoint.md: `.git/**` has no effect: `.git` is never grantable",
            "warning UNUSED_GRANT directives/shops/publish_shops.md: no step that can be reached uses <write resource=\"api\" endpoint=\"POST /contacts\"/>",
            "warning UNUSED_GRANT directives/shops/publish_shops.md: no step that can be reached uses <execute resource=\"tool\" id=\"billing_contact\"/>",
            "warning DECLARED_PERMISSIONS tools/bash/fetch_feed/tool.yaml: `permissions` in a tool grants nothing: directives grant, tools only require",
        ]
    );
    let finder = shown(&project, "shop_finder");
    for (name, value) in [
        ("tool_type", json!("python")),
        ("version", json!("2.1.0")),
        ("category", json!("shops")),
        ("description", json!("Find the shops of a town")),
        (
            "config",
            json!({"entrypoint": "main.py", "venv": true, "lib_imports": ["web_session", "proxy_list"]}),
        ),
        ("dependencies", json!(["six>=1.10", "idna>=3.0"])),
        ("mutates_state", json!(false)),
        (
            "parameters",
            json!([
                {"name": "query", "type": "string", "required": true, "description": "What the shops sell"},
                {"name": "town", "type": "string", "required": false, "default": "Old Harbour, NS"},
            ]),
        ),
        ("outputs", json!({"format": "json", "schema": "shop_list"})),
        ("tags", json!(["shops", "towns", "leads"])),
        ("author", json!("town-team")),
    ] {
        assert_eq!(finder[name], value, "{name}");
    }
    let found = project
        .piton(["search", "--tag", "leads", "--format", "json"])
        .json();
    assert_eq!(found["results"][0]["name"], "shop_finder", "{found}");
}

#[test]
fn a_tool_of_each_executor_lives_in_its_folder() {
    let project = examples("001")
        .variable("SITE_KEY", "k3y-of-the-site")
        .variable("BILLING_TOKEN", "t0ken-of-billing")
        .committed();
    let finder = planned(&project, "shop_finder", &["query=tea"]);
    let python = &finder["invocation"]["action"]["python"];
    assert_eq!(
        (&python["venv"], &python["dependencies"]),
        (&json!(true), &json!(["six>=1.10", "idna>=3.0"])),
        "{finder}"
    );
    let modules: Vec<&String> = python["lib_imports"]
        .as_object()
        .expect("modules")
        .keys()
        .collect();
    assert_eq!(modules, ["proxy_list", "web_session"]);
    let published = call(&project, "publish_site", &["target=live"]);
    assert_eq!(published["status"], "success", "{published}");
    assert_eq!(project.read("published.txt"), "live\n");
    let billing = planned(&project, "billing_contact", &["email=a@example.org"]);
    let request = &billing["invocation"]["action"];
    assert_eq!(
        (&request["method"], &request["url"], &request["headers"][0]),
        (
            &json!("POST"),
            &json!("https://billing.example.com/contacts"),
            &json!(["Authorization", "***"])
        ),
        "{billing}"
    );
    assert_eq!(billing["invocation"]["timeout"], 30.0);
    let resized = planned(&project, "resize_image", &[]);
    let container = &resized["invocation"]["action"];
    assert_eq!(container["network"], "host", "{resized}");
    assert_eq!(container["volumes"][0]["target"], "/app/data", "{resized}");
}

#[test]
fn a_script_of_the_old_folder_runs_as_it_is() {
    let project = examples("001");
    let finder = shown(&project, "street_finder");
    assert_eq!(
        (
            &finder["legacy"],
            &finder["tool_type"],
            &finder["version"],
            &finder["category"],
            &finder["config"]
        ),
        (
            &json!(true),
            &json!("python"),
            &json!("1.4.0"),
            &json!("shops"),
            &json!({"entrypoint": "street_finder.py"})
        )
    );
    assert_eq!(
        call(&project, "street_finder", &["street=Main", "limit=2"])["result"],
        json!({"street": "Main", "shops": ["shop 1", "shop 2"]})
    );
}

#[test]
fn a_block_may_say_that_the_tool_changes_files() {
    let project = examples("001").committed();
    assert_eq!(shown(&project, "tag_release")["mutates_state"], true);
    let tagged = call(&project, "tag_release", &[]);
    assert_eq!(tagged["checkpoint_recommended"], true, "{tagged}");
    assert_eq!(
        tagged["checkpoint_hint"],
        "This tool mutates state. Consider running git_checkpoint directive: execute(item_type='directive', \
         action='run', item_id='git_checkpoint', parameters={'operation': 'tag_release'})"
    );
}

#[test]
fn a_directive_grants_what_its_tools_need() {
    let project = examples("001")
        .variable("SITE_KEY", "k3y-of-the-site")
        .committed();
    let ran = project.piton(["directive", "show", "publish_shops"]);
    for line in [
        "  read `src/**/*.ts`",
        "  call `POST /contacts` to write",
        "  run tools of type `bash`",
        "  run tools `billing_contact`",
        "  run commands `cat`, `printf`",
        "  see variables `SITE_KEY`",
    ] {
        assert!(ran.stdout().lines().any(|it| it == line), "{line}: {ran}");
    }
    // `git_checkpoint mode="auto"` commits after the step.
    let ran = project.piton(["run", "publish_shops"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "published.txt\n"
    );
    assert!(
        project
            .git(["log", "-1", "--format=%B"])
            .contains("\n\n[directive: publish_shops]\n\n")
    );
    for grant in [
        "<execute resource=\"tool\" tool_type=\"bash\" />",
        "<shell commands=\"cat,printf\" />",
        "<env vars=\"SITE_KEY\" />",
    ] {
        let path = ".ai/directives/shops/publish_shops.md";
        let text = project.read(path);
        assert!(text.contains(grant), "{grant}");
        let without = examples("001")
            .variable("SITE_KEY", "k3y-of-the-site")
            .file(path, text.replace(grant, ""))
            .committed();
        let ran = without.piton(["run", "publish_shops"]);
        assert_eq!(ran.code(), Some(3), "without {grant}: {ran}");
    }
}
