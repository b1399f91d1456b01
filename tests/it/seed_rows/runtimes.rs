//! Runtimes of a project or user.

use super::*;

const RUNTIME: &str = "\"\"\"Runs Python files.\"\"\"\n__version__ = \"1.0.0\"\n__tool_type__ = \"runtime\"\n\
    __executor_id__ = \"subprocess\"\n__category__ = \"\"\n";
const MAIN: &str = "def main(name: str, times: int = 1) -> dict:\n    \"\"\"Greets.\"\"\"\n    \
    print(\"noise\")\n    return {\"greeting\": \" \".join([name] * times)}\n";

fn greeted(project: &TestProject) {
    let ran = project.piton([
        "tool", "run", "greet", "--param", "name=Ada", "--param", "times=2", "--format", "json",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(
        ran.last_json()["result"],
        json!({"greeting": "Ada Ada"}),
        "{ran}"
    );
}

#[test]
fn the_chain_of_the_api_reference_calls_main_through_a_runtime_of_the_project() {
    greeted(
        &TestProject::new()
            .file(".ai/tools/python_runtime.py", RUNTIME)
            .file(".ai/tools/greet.py", python_tool("", MAIN)),
    );
}

#[test]
fn a_runtime_of_the_user_and_one_with_another_name_call_main_too() {
    greeted(
        &TestProject::new()
            .home_file(".ai/tools/python_runtime.py", RUNTIME)
            .file(".ai/tools/greet.py", python_tool("", MAIN)),
    );
    let named = "tool_id: my_python\ntool_type: runtime\nversion: 1.0.0\ndescription: Runs Python\n\
        executor: subprocess\nconfig: {command: python3, args: [-X, utf8]}\n";
    let tool = python_tool("", MAIN).replace("python_runtime", "my_python");
    greeted(
        &TestProject::new()
            .file(".ai/tools/my_python.yaml", named)
            .file(".ai/tools/greet.py", tool),
    );
}

#[test]
fn a_runtime_that_places_the_script_itself_is_called_as_it_says() {
    let named = "tool_id: my_python\ntool_type: runtime\nversion: 1.0.0\ndescription: Runs Python\n\
        executor: subprocess\nconfig: {command: python3, args: [\"{script}\", --plain]}\n";
    let script = "import json, sys\nprint(json.dumps({\"words\": sys.argv[1:], \"given\": json.load(sys.stdin)}))\n";
    let tool = python_tool("", script).replace("python_runtime", "my_python");
    let project = TestProject::new()
        .file(".ai/tools/my_python.yaml", named)
        .file(".ai/tools/greet.py", tool);
    let ran = project.piton([
        "tool", "run", "greet", "--param", "name=Ada", "--format", "json",
    ]);
    assert_eq!(
        ran.last_json()["result"],
        json!({"words": ["--plain"], "given": {"name": "Ada"}}),
        "{ran}"
    );
}
