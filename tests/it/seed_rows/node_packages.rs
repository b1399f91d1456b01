//! Packages of tools that run in Node.js. They come from the tool's own folder, so no registry is needed.

use super::*;

/// A tool whose script needs a package beside it.
fn project(script: &str, text: &str) -> TestProject {
    TestProject::new()
        .file(
            ".ai/tools/shout/tool.yaml",
            format!(
                "tool_id: shout\ntool_type: script\nversion: 1.0.0\ndescription: Shouts\nexecutor: node_runtime\n\
                 config: {{entrypoint: {script}}}\ndependencies: [\"file:./vendor/loud\"]\nmutates_state: false\n"
            ),
        )
        .file(format!(".ai/tools/shout/{script}").as_str(), text)
        .file(
            ".ai/tools/shout/vendor/loud/package.json",
            "{\"name\": \"loud\", \"version\": \"1.0.0\", \"main\": \"index.js\", \"scripts\": {\"postinstall\": \"touch /tmp/piton-never\"}}\n",
        )
        .file(
            ".ai/tools/shout/vendor/loud/index.js",
            "module.exports = (text) => text.toUpperCase() + '!';\n",
        )
}

const COMMON: &str = "const loud = require('loud');\n\
    const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n\
    console.log(JSON.stringify({said: loud(given.text)}));\n";
const MODULE: &str = "import loud from 'loud';\nimport {readFileSync} from 'node:fs';\n\
    const given = JSON.parse(readFileSync(0, 'utf8'));\nconsole.log(JSON.stringify({said: loud(given.text)}));\n";

fn said(project: &TestProject) -> Value {
    let ran = project.piton([
        "tool",
        "run",
        "shout",
        "--param",
        "text=hello",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    ran.last_json()["result"]["said"].clone()
}

#[test]
fn packages_are_installed_once_and_found_by_scripts_and_modules() {
    for (script, text) in [("main.js", COMMON), ("main.mjs", MODULE)] {
        let project = project(script, text);
        assert_eq!(said(&project), "HELLO!", "{script}");
        let cache = project.home().join(".cache/piton/node");
        let kept = || {
            let entries = std::fs::read_dir(&cache).expect("the cache");
            entries
                .filter(|entry| entry.as_ref().is_ok_and(|it| it.path().is_dir()))
                .count()
        };
        assert_eq!(kept(), 1);
        let ran = project.piton(["tool", "run", "shout", "--param", "text=a"]);
        assert!(!ran.stderr().contains("installing"), "{ran}");
        // Another content of the package is another folder.
        let project = project.file(
            ".ai/tools/shout/vendor/loud/index.js",
            "module.exports = (text) => text + '?';\n",
        );
        assert_eq!(said(&project), "hello?", "{script}");
        assert_eq!(kept(), 2);
        assert!(!project.root().join("node_modules").exists());
        assert!(!project.root().join(".ai/tools/shout/node_modules").exists());
    }
}

#[test]
fn an_option_and_a_package_elsewhere_are_no_packages() {
    for wrong in ["--global", "file:../../../secret", "/etc"] {
        let project = TestProject::new()
            .file("secret/package.json", "{\"name\": \"secret\"}\n")
            .file(
                ".ai/tools/shout/tool.yaml",
                format!(
                    "tool_id: shout\ntool_type: script\nversion: 1.0.0\ndescription: Shouts\nexecutor: node_runtime\n\
                     config: {{entrypoint: main.js}}\ndependencies: [\"{wrong}\"]\n"
                ),
            )
            .file(".ai/tools/shout/main.js", "console.log(1)\n");
        let ran = project.piton(["tool", "run", "shout"]);
        assert_ne!(ran.code(), Some(0), "{wrong}: {ran}");
        assert!(
            ran.stderr().contains("is not the name of a package"),
            "{ran}"
        );
    }
}
