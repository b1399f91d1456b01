//! The bytes of a script that were checked are the ones that run, and ordinary scripts still find
//! their neighbours.

use std::fs;
use std::process::Stdio;

use crate::harness::{MEETING, Ran, TestProject};

/// A tool with a script for a runtime.
fn with_script(
    project: TestProject,
    id: &str,
    runtime: &str,
    name: &str,
    text: &str,
) -> TestProject {
    let manifest = format!(
        "tool_id: {id}\ntool_type: script\nversion: \"1.0.0\"\ndescription: The tool {id}\n\
         executor: {runtime}\nconfig:\n  entrypoint: {name}\n"
    );
    project
        .file(&format!(".ai/tools/{id}/tool.yaml"), manifest)
        .file(&format!(".ai/tools/{id}/{name}"), text)
}

/// Runtimes of the project, which piton knows nothing about.
fn with_runtimes(project: TestProject) -> TestProject {
    let manifest = "tool_id: awk_runtime\ntool_type: runtime\nversion: \"1.0.0\"\n\
         description: Runs AWK\nexecutor: subprocess\nconfig:\n  command: awk\n  args: [-f, '{entrypoint}']\n";
    project.file(".ai/tools/awk_runtime.yaml", manifest)
}

/// Where only items with a stamp may run.
fn stamped(project: TestProject, items: &[&str]) -> TestProject {
    let words = [&["sign", "--checkpoint", "auto"], items].concat();
    project.piton(words).succeeded();
    project.variable("PITON_SIGNATURE_REQUIRE", "integrity")
}

fn run(project: &TestProject, id: &str) -> Ran {
    project.piton(["tool", "run", id, "--checkpoint", "disabled"])
}

const SWAPPED: [(&str, &str, &str, &str, &str); 4] = [
    (
        "plain",
        "bash_runtime",
        "run.sh",
        "echo judged\n",
        "touch \"$PITON_PROJECT/swapped\"\n",
    ),
    (
        "sourced",
        "bash_runtime",
        "run.sh",
        "echo judged; : \"${BASH_SOURCE[0]}\"\n",
        "touch \"$PITON_PROJECT/swapped\"\n",
    ),
    (
        "script",
        "node_runtime",
        "run.js",
        "console.log('judged');\n",
        "require('fs').writeFileSync(process.env.PITON_PROJECT + '/swapped', '');\n",
    ),
    (
        "table",
        "awk_runtime",
        "run.awk",
        "BEGIN { print \"judged\" }\n",
        "BEGIN { print > (ENVIRON[\"PITON_PROJECT\"] \"/swapped\") }\n",
    ),
];

#[test]
fn a_script_that_is_swapped_before_it_starts_does_not_run() {
    let mut project = with_runtimes(TestProject::new());
    for (id, runtime, name, text, _) in SWAPPED {
        project = with_script(project, id, runtime, name, text);
    }
    let project = stamped(project.committed(), &["--all"]);
    for (id, _, name, _, swapped) in SWAPPED {
        let file = project.root().join(format!(".ai/tools/{id}/{name}"));
        let before = fs::read(&file).expect("a script");
        run(&project, id).succeeded();
        let words = ["tool", "run", id, "--checkpoint", "disabled"];
        let child = project.stopped_at(&words, "tool-prepared");
        fs::write(&file, swapped).expect("swapped");
        let ran = project.continued(child);
        // Node.js reads the file itself and refuses it; the others run what was checked.
        if id == "script" {
            assert_ne!(ran.code(), Some(0), "{ran}");
            assert!(
                ran.to_string().contains("changed after it was checked"),
                "{ran}"
            );
        } else {
            assert!(ran.stdout().contains("judged"), "{id}: {ran}");
        }
        assert!(!project.root().join("swapped").exists(), "{id}: {ran}");
        // The control: the other text does run once it is signed.
        project.piton(["sign", "--all"]).succeeded();
        run(&project, id).succeeded();
        fs::remove_file(project.root().join("swapped")).expect("the other text has run");
        fs::write(&file, before).expect("restored");
        project.piton(["sign", "--all"]).succeeded();
    }
}

#[test]
fn a_script_that_is_swapped_all_the_time_never_runs() {
    let project = stamped(
        TestProject::new()
            .tool("greet", "", "echo judged")
            .committed(),
        &["--all"],
    );
    let folder = project.root().join(".ai/tools/greet");
    let script = format!(
        "cd '{}'; cp run.sh ../../../good; printf 'touch \"$PITON_PROJECT/swapped\"\\n' > ../../../bad
         while :; do cp ../../../bad ../../../new; mv ../../../new run.sh; sleep 0.004
           cp ../../../good ../../../new; mv ../../../new run.sh; sleep 0.03; done",
        folder.display()
    );
    let mut attacker = project
        .hermetic("bash", &project.root())
        .args(["-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bash");
    let mut succeeded = 0;
    for _ in 0..60 {
        let ran = run(&project, "greet");
        succeeded += u32::from(ran.code() == Some(0));
        assert!(!project.root().join("swapped").exists(), "{ran}");
    }
    attacker.kill().expect("killed");
    attacker.wait().expect("an end");
    assert!(succeeded > 0, "the control: the tool can run");
}

/// Asserts that a tool prints a line, where any file may run and where only covered ones may.
fn assert_prints(project: TestProject, id: &str, expected: &str) {
    let check = |project: &TestProject| {
        let ran = run(project, id).succeeded();
        assert!(ran.stdout().contains(expected), "{expected}\n{ran}");
    };
    let project = project.committed();
    check(&project);
    check(&stamped(project, &[id]));
}

#[test]
fn shell_scripts_find_what_is_beside_them() {
    for (own, folder) in [
        ("$0", "$(dirname \"$0\")"),
        (
            "${BASH_SOURCE[0]}",
            "$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)",
        ),
    ] {
        let script = format!(
            "set -euo pipefail\nsource \"{folder}/lib.sh\"\n. \"{folder}/../shared/all.sh\"\n\
             [[ \"{own}\" == \"$0\" ]]\n[ \"$(basename \"$0\")\" = run.sh ]\n\
             echo \"$(own) $(all) line=$LINENO tail=$(tail -n 1 \"$0\")\"\n# the end"
        );
        let project = TestProject::new()
            .tool("greet", "", &script)
            .file(".ai/tools/greet/lib.sh", "own() { echo own; }\n")
            .file(".ai/tools/shared/all.sh", "all() { echo all; }\n");
        assert_prints(project, "greet", "own all line=7 tail=# the end");
    }
}

#[test]
fn node_scripts_find_what_is_beside_them() {
    let common = "#!/usr/bin/env node\nconst own = require('./own');\nconst all = require('../shared/all.js');\n\
         const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n\
         if (require.main !== module || process.argv[1] !== __filename) throw new Error('main');\n\
         if (__dirname !== require('path').dirname(__filename)) throw new Error('folder');\n\
         console.log(own, all, typeof input, require('path').basename(__filename));\n";
    let module = "import own from './own.js';\nimport all from '../shared/all.js';\nconsole.log(own, all, 'object', 'run.mjs');\n";
    for (name, text) in [("run.js", common), ("run.mjs", module)] {
        let project = with_script(TestProject::new(), "greet", "node_runtime", name, text)
            .file(".ai/tools/greet/own.js", "module.exports = 'own';\n")
            .file(".ai/tools/shared/all.js", "module.exports = 'all';\n");
        assert_prints(project, "greet", &format!("own all object {name}"));
    }
}

#[test]
fn an_error_names_the_line_of_the_script() {
    let project = TestProject::new()
        .tool("greet", "", "set -e\n\nno_such_program_at_all")
        .committed();
    let ran = run(&project, "greet");
    assert!(ran.to_string().contains("run.sh: line 4: "), "{ran}");
    let text = "'use strict';\n\nthrow new Error('boom');\n";
    let project =
        with_script(TestProject::new(), "greet", "node_runtime", "run.js", text).committed();
    let ran = run(&project, "greet");
    assert!(ran.to_string().contains("run.js:3"), "{ran}");
}

#[test]
fn large_scripts_and_those_that_are_not_text_still_run() {
    let large = format!("echo large\nexit 0\n{}", "# filler\n".repeat(20_000));
    let project = TestProject::new().tool("greet", "", &large);
    assert_prints(project, "greet", "large");
    let project = TestProject::new().tool("greet", "", "echo data\nexit 0\n\0\0");
    assert_prints(project, "greet", "data");
}

#[test]
fn a_call_fails_if_a_file_that_its_script_sources_changes_meanwhile() {
    let script = format!("{MEETING}\n. \"$(dirname \"${{BASH_SOURCE[0]}}\")/lib.sh\"\n");
    let project = TestProject::new()
        .tool("outer", "mutates_state: true", &script)
        .file(".ai/tools/outer/lib.sh", "echo judged > out.txt\n")
        .committed();
    let project = stamped(project, &["--all"]);
    let call = ["tool", "run", "outer", "--checkpoint", "auto"];
    project.piton_while("true", call).succeeded();
    assert_eq!(project.read("out.txt"), "judged\n");
    let swap = "echo 'echo swapped > out.txt' > .ai/tools/outer/lib.sh";
    let ran = project.piton_while(swap, call);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(ran.to_string().contains("[ITEM_CHANGED]"), "{ran}");
    assert_eq!(project.read("out.txt"), "judged\n", "rolled back: {ran}");
    // Where any tool may run, nothing was judged.
    let project = project.variable("PITON_SIGNATURE_REQUIRE", "none");
    project.bash("git checkout -q .ai");
    project
        .piton_while("echo >> .ai/tools/outer/lib.sh", call)
        .succeeded();
}

#[test]
fn a_confined_process_cannot_change_the_private_copy_of_a_script() {
    // Another process could do the same while the script is started.
    let script = "copy=\"${BASH_SOURCE[0]}\"; chmod u+w \"$copy\" || true; echo exit 1 >> \"$copy\" || true\n\
        mv \"$(dirname \"$copy\")\" \"$TMPDIR\" || true; grep -q 'exit 1$' \"$copy\" && exit 1; echo kept\n";
    let mut project = TestProject::new();
    for level in ["standard", "sandboxed"] {
        project = project.tool(level, &format!("isolation: {level}"), script);
    }
    let project = stamped(project.committed(), &["--all"]);
    for level in ["standard", "sandboxed"] {
        let ran = run(&project, level);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert!(ran.stdout().contains("kept"), "{ran}");
    }
    let left = fs::read_dir(project.home().join(".cache/piton/private")).expect("its place");
    assert_eq!(left.count(), 0);
}
