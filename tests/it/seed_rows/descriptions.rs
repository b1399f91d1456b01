//! What describes a tool.

use super::*;

#[test]
fn the_docstring_of_main_describes_a_tool_and_search_finds_it() {
    let main = "def main(text: str) -> dict:\n    \"\"\"Counts the syllables\n    of a poem.\n\n    More.\n    \"\"\"\n    return {}\n";
    let project = TestProject::new().file(".ai/tools/metre.py", python_tool("", main));
    let mut client = start(&project);
    let found = client.call("search", json!({"item_type": "tool", "query": "syllables"}));
    let first = &found["structuredContent"]["results"][0];
    assert_eq!(
        (&first["name"], &first["description"]),
        (&json!("metre"), &json!("Counts the syllables of a poem.")),
        "{found}"
    );
}

#[test]
fn the_docstring_of_the_module_comes_first() {
    let text = format!(
        "\"\"\"Measures poems.\"\"\"\n{}",
        python_tool("", "def main():\n    \"\"\"Inner.\"\"\"\n    return {}\n")
    );
    let project = TestProject::new().file(".ai/tools/metre.py", text);
    let ran = project.piton(["tool", "show", "metre", "--format", "json"]);
    assert_eq!(ran.json()["description"], "Measures poems.", "{ran}");
}
