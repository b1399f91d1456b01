//! Scripts that were written before there were tools.

use super::*;

fn result(project: &TestProject, words: &[&str]) -> Value {
    let ran = project.piton(
        ["tool", "run"]
            .iter()
            .chain(words)
            .chain(&["--format", "json"]),
    );
    assert_eq!(ran.code(), Some(0), "{ran}");
    ran.last_json()["result"].clone()
}

#[test]
fn a_script_in_a_category_imports_the_shared_library() {
    let project = TestProject::new()
        .file(
            ".ai/scripts/lib/http_session.py",
            "from lib.proxy_pool import PROXIES\nfrom . import agents\n\ndef session():\n    return {\"proxies\": PROXIES, \"agent\": agents.NAME}\n",
        )
        .file(".ai/scripts/lib/proxy_pool.py", "PROXIES = 3\n")
        .file(".ai/scripts/lib/agents.py", "NAME = \"a\"\n")
        .file(
            ".ai/scripts/scraping/maps.py",
            "from lib.http_session import session\n\ndef main(query: str):\n    return {\"query\": query, **session()}\n",
        )
        .file(
            ".ai/scripts/top.py",
            "from lib.http_session import session\n\ndef main():\n    return session()\n",
        );
    assert_eq!(
        result(&project, &["maps", "--param", "query=tea"]),
        json!({"query": "tea", "proxies": 3, "agent": "a"})
    );
    assert_eq!(
        result(&project, &["top"]),
        json!({"proxies": 3, "agent": "a"})
    );
}

#[test]
fn a_main_that_parses_its_command_line_gets_parameters_as_options() {
    let script = "import argparse\n\ndef main():\n    parser = argparse.ArgumentParser()\n    \
        parser.add_argument(\"--query\", required=True)\n    parser.add_argument(\"--limit\", type=int, default=5)\n    \
        told = parser.parse_args()\n    return {\"query\": told.query, \"limit\": told.limit}\n\n\
        if __name__ == \"__main__\":\n    print(main())\n";
    let project = TestProject::new().file(".ai/scripts/find.py", script);
    assert_eq!(
        result(
            &project,
            &["find", "--param", "query=green tea", "--param", "limit=2"]
        ),
        json!({"query": "green tea", "limit": 2})
    );
    let ran = project.piton(["tool", "run", "find"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.stderr().contains("--query"), "{ran}");
}

#[test]
fn a_main_without_parameters_refuses_one_by_name() {
    let project = TestProject::new().file(
        ".ai/scripts/plain.py",
        "def main():\n    return {\"done\": True}\n",
    );
    assert_eq!(result(&project, &["plain"]), json!({"done": true}));
    cmd_snapshot!(project.piton(["tool", "run", "plain", "--param", "query=tea"]), @r"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `plain` cannot be called like this: unknown parameter `query`

    hint: it takes none
    ");
    let mut client = start(&project);
    let (answer, is_error) = run_tool(&mut client, "plain", &json!({"query": "tea"}));
    assert!(is_error, "{answer}");
    assert_eq!(answer["code"], "INVALID_PARAMETER", "{answer}");
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.contains("`query`"), "{answer}");
}
