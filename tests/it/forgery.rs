//! Signed items that were changed afterwards: content that no hash covers must not run.

use std::fs;

use crate::harness::{Ran, TestProject};

/// A project whose items are signed with the trusted key `ada`.
fn signed(project: TestProject) -> TestProject {
    let project = project.committed();
    project
        .bash("mkdir -p ~/.ssh; ssh-keygen -q -t ed25519 -N '' -C ada@example.com -f ~/.ssh/ada");
    project
        .piton([
            "sign",
            "--all",
            "--key",
            "~/.ssh/ada",
            "--checkpoint",
            "auto",
        ])
        .succeeded();
    project
        .piton(["trust", "add", "~/.ssh/ada.pub"])
        .succeeded();
    project
}

/// Runs a tool where signatures of this kind are required.
fn run(project: &TestProject, tool: &str, required: &str) -> Ran {
    let mut command = project.command(["tool", "run", tool]);
    project.ran(
        command
            .env("PITON_SIGNATURE_REQUIRE", required)
            .output()
            .expect("piton starts"),
    )
}

/// Checks that a tool is refused with this reason.
fn assert_refused(project: &TestProject, tool: &str, because: &str) {
    for required in ["integrity", "author"] {
        let ran = run(project, tool, required);
        assert_eq!(ran.code(), Some(3), "{required}: {ran}");
        assert!(
            ran.stderr().contains(because) && ran.stderr().contains("hint: "),
            "{required}: {ran}"
        );
        assert!(!project.root().join("evil").exists(), "{required}: {ran}");
    }
}

const SHELL: &str = "# tool_id: greet\n# tool_type: script\n# version: 1.0.0\n# executor: bash_runtime\n\
                     # description: Greets\n# category: demo\necho hello\n";
const NODE: &str = "// tool_id: wave\n// tool_type: script\n// version: 1.0.0\n// executor: node_runtime\n\
                    // description: Waves\n// category: demo\nconsole.log('hello')\n/* the end */\n";

#[test]
fn a_stamp_outside_of_a_comment_is_ignored() {
    let project = signed(
        TestProject::new()
            .file(".ai/tools/demo/greet.sh", SHELL)
            .file(".ai/tools/demo/wave.js", NODE),
    );
    for required in ["none", "integrity", "author"] {
        let ran = run(&project, "greet", required);
        assert!(
            ran.code() == Some(0) && ran.stdout().contains("hello"),
            "{required}: {ran}"
        );
    }
    for (tool, file, mark, forgeries) in [
        (
            "greet",
            ".ai/tools/demo/greet.sh",
            "# ",
            [":<<STAMP", "# STAMP \\", "# STAMP\u{b}", "STAMP"],
        ),
        (
            "wave",
            ".ai/tools/demo/wave.js",
            "// ",
            // The last one is a form that node can parse; a script that node cannot parse is not
            // signed.
            [
                "/*STAMP",
                "// STAMP\u{2028}process.exit(0)",
                "`STAMP",
                "//STAMP\0",
            ],
        ),
    ] {
        let genuine = project.read(file);
        let stamp = genuine
            .lines()
            .next()
            .and_then(|line| line.strip_prefix(mark))
            .expect("a stamp")
            .to_owned();
        for forgery in forgeries {
            let line = forgery.replace("STAMP", &stamp);
            let forged = genuine.replacen(&format!("{mark}{stamp}"), &line, 1);
            fs::write(project.root().join(file), forged).expect("written");
            for required in ["none", "integrity", "author"] {
                let ran = run(&project, tool, required);
                assert!(
                    ran.code() != Some(0) && !ran.stdout().contains("hello"),
                    "{required} {forgery:?}: {ran}"
                );
            }
            let checked = project.piton(["sign", "--check", tool, "--format", "json"]);
            assert_eq!(checked.code(), Some(1), "{forgery:?}: {checked}");
            assert_eq!(
                checked.json()["items"][0]["signature"]["status"],
                "invalid",
                "{forgery:?}: {checked}"
            );
        }
        // Signing, which the hint suggests, works.
        project.piton(["sign", tool]).succeeded();
        assert!(
            project
                .read(file)
                .starts_with(&format!("{mark}kiwi-mcp:validated:")),
            "{}",
            project.read(file)
        );
        assert_eq!(project.read(file).lines().count(), genuine.lines().count());
    }
}

#[test]
fn unsigned_extractor_rules_do_not_affect_a_signed_tool() {
    let project = signed(TestProject::new().file(".ai/tools/demo/greet.sh", SHELL))
        .file("evil.sh", "touch evil\n")
        .file(
            ".ai/extractors/sh.yaml",
            "extensions: [sh]\nrules:\n  config: {default: {env: {BASH_ENV: evil.sh}}}\n",
        );
    assert_refused(
        &project,
        "greet",
        "no stamp covers `.ai/extractors/sh.yaml`",
    );
    let mut command = project.command(["sign", "--check", "greet"]);
    let checked = project.ran(
        command
            .env("PITON_SIGNATURE_REQUIRE", "author")
            .output()
            .expect("piton starts"),
    );
    assert!(
        checked.code() == Some(1) && checked.stdout().contains(".ai/extractors/sh.yaml"),
        "{checked}"
    );
    // A settings file beside the script is not covered by the stamp either.
    let rules =
        "extensions: [sh]\nrules:\n  timeout: {pattern: 'seconds: ([0-9]+)', source: config}\n";
    let project = project
        .file(".ai/extractors/sh.yaml", rules)
        .file(".ai/tools/demo/greet.toml", "seconds: 7\n");
    assert_refused(&project, "greet", "`.ai/tools/demo/greet.toml`");
    // Rules for fields that the script declares itself are ignored.
    let project = project.file(
        ".ai/extractors/sh.yaml",
        "extensions: [sh]\nrules:\n  version: {default: 6.6.6}\n",
    );
    for required in ["none", "integrity", "author"] {
        run(&project, "greet", required).succeeded();
    }
}

const PYTHON: &str = "tool_id: count\ntool_type: python\nversion: \"1.0.0\"\ndescription: Counts\n\
                      executor: python_runtime\nconfig:\n  entrypoint: main.py\n";

#[test]
fn bytecode_that_no_stamp_covers_does_not_run() {
    let main = "import subprocess, sys, os\nimport helper, part.inner\n\n\ndef main():\n    \
                here = os.path.dirname(__file__)\n    \
                said = subprocess.run([sys.executable, os.path.join(here, 'child.py')], capture_output=True, text=True)\n    \
                return [helper.WORD, part.inner.WORD, said.stdout]\n";
    let project = TestProject::new()
        .file(".ai/tools/count/tool.yaml", PYTHON)
        .file(".ai/tools/count/main.py", main)
        .file(".ai/tools/count/helper.py", "WORD = 'good'\n")
        .file(".ai/tools/count/part/inner.py", "WORD = 'good'\n")
        .file(
            ".ai/tools/count/child.py",
            "import helper\nprint(helper.WORD)\n",
        )
        .tool("shell", "", "cd \"$(dirname \"$0\")\"; python3 child.py")
        .file(
            ".ai/tools/shell/child.py",
            "import helper\nprint(helper.WORD)\n",
        )
        .file(".ai/tools/shell/helper.py", "WORD = 'good'\n");
    let project = signed(project);
    // Python loads bytecode with an unchecked hash without reading the source.
    project.bash(
        "printf \"open('evil', 'w').close()\\nWORD = 'evil'\\n\" > ~/evil.py\n\
         for source in count/helper count/part/inner shell/helper; do\n  \
           python3 -c \"import py_compile, importlib.util, sys; source = sys.argv[1]; py_compile.compile(sys.argv[2], \
           importlib.util.cache_from_source(source), source, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)\" \
           \"$PWD/.ai/tools/$source.py\" ~/evil.py\ndone\n\
         test -e .ai/tools/count/part/__pycache__",
    );
    for required in ["integrity", "author"] {
        for tool in ["count", "shell"] {
            let ran = run(&project, tool, required);
            assert!(
                ran.code() == Some(0) && ran.stdout().contains("good"),
                "{required} {tool}: {ran}"
            );
            assert!(!ran.stdout().contains("evil"), "{required} {tool}: {ran}");
        }
    }
    assert!(!project.root().join("evil").exists());
}

#[test]
fn packages_that_no_stamp_covers_keep_a_tool_from_running() {
    let project = signed(TestProject::new().tool("greet", "", "echo hello"));
    for folder in ["node_modules", "lib/.venv"] {
        project.bash(&format!(
            "mkdir -p .ai/tools/greet/{folder}; touch .ai/tools/greet/{folder}/x"
        ));
        run(&project, "greet", "none").succeeded();
        assert_refused(
            &project,
            "greet",
            &format!("no stamp covers `.ai/tools/greet/{folder}` in tool `greet`"),
        );
        project.bash(&format!("rm -r .ai/tools/greet/{folder}"));
    }
    project.bash("ln -s /tmp .ai/tools/greet/node_modules");
    assert_refused(
        &project,
        "greet",
        "no stamp covers `.ai/tools/greet/node_modules`",
    );
}

#[test]
fn a_signed_file_does_not_import_what_lies_beside_it() {
    let script = "__tool_id__ = 'count'\n__tool_type__ = 'python'\n__version__ = '1.0.0'\n__executor_id__ = 'python_runtime'\n\
                  __category__ = 'demo'\n__description__ = 'Counts'\nimport tempfile\n\n\ndef main():\n    \
                  return {'module': tempfile.__name__}\n";
    let needy = script
        .replace("count", "needy")
        .replace("import tempfile", "import tempfile\nimport helper");
    let project = signed(
        TestProject::new()
            .file(".ai/tools/demo/count.py", script)
            .file(".ai/tools/demo/needy.py", needy),
    );
    // `tempfile` imports `random`.
    let evil = "open('evil', 'w').close()\n";
    let project = project
        .file(
            ".ai/tools/demo/random.py",
            format!("{evil}from os import urandom\n"),
        )
        .file(".ai/tools/demo/tempfile.py", evil)
        .file(".ai/tools/demo/helper.py", evil);
    for required in ["integrity", "author"] {
        let ran = run(&project, "count", required);
        assert!(
            ran.code() == Some(0) && ran.stdout().contains("tempfile"),
            "{required}: {ran}"
        );
        let ran = run(&project, "needy", required);
        assert_eq!(ran.code(), Some(1), "{required}: {ran}");
        let said = format!("{}{}", ran.stdout(), ran.stderr());
        assert!(
            said.contains("`helper` lies beside this file, and no stamp covers it"),
            "{required}: {ran}"
        );
        assert!(!project.root().join("evil").exists(), "{required}: {ran}");
    }
}

#[test]
fn a_parser_does_not_import_what_lies_beside_it() {
    let parser = "import json\nimport shlex\n\n\ndef parse(content):\n    return {\"words\": shlex.split(content)}\n";
    let project = TestProject::new()
        .tool(
            "greet",
            "outputs:\n  format: text\n  parser: own",
            "echo hello",
        )
        .file("own.py", parser);
    let project = signed(project);
    let hash = project.bash("sha256sum < own.py");
    let stamp = format!(
        "# kiwi-mcp:validated:2026-01-02T03:04:05Z:{}",
        hash.split_whitespace().next().expect("a hash")
    );
    let project = project
        .file(".ai/parsers/own.py", format!("{stamp}\n{parser}"))
        .file(".ai/parsers/shlex.py", "open('evil', 'w').close()\n");
    let ran = run(&project, "greet", "integrity");
    assert!(
        ran.code() == Some(0) && !project.root().join("evil").exists(),
        "{ran}"
    );
}
