//! `piton sign`, and how stamps affect running an item.

mod refusal;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::harness::{TestProject, cmd_snapshot};

const SCRIPT: &str = "#!/usr/bin/env bash\n# tool_id: greet\n# tool_type: bash\n# version: 1.0.0\n\
                      # executor: bash_runtime\n# description: Greets\necho hello\n";
const JSON: &str = "{\"tool_id\": \"plain\", \"tool_type\": \"cli\", \"version\": \"1.0.0\", \"description\": \"Plain\", \
                    \"executor\": \"subprocess\", \"config\": {\"command\": \"true\"}}\n";

fn sha256(text: impl AsRef<[u8]>) -> String {
    Sha256::digest(text.as_ref())
        .iter()
        .fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

fn stamp(text: impl AsRef<[u8]>) -> String {
    format!("kiwi-mcp:validated:2026-01-02T03:04:05Z:{}", sha256(text))
}

/// The state of an item in `piton sign --check`, and the exit code.
fn state(project: &TestProject, name: &str) -> (String, Option<i32>) {
    let ran = project.piton(["sign", "--check", name, "--format", "json"]);
    let checked = ran.json();
    let status = checked["items"][0]["signature"]["status"]
        .as_str()
        .unwrap_or("unreadable")
        .to_owned();
    (status, ran.code())
}

/// The state of the tool `greet` with this script, and the results of `tool run` and `validate`.
fn fate(script: impl AsRef<[u8]>) -> (String, Option<i32>, bool) {
    let project = TestProject::new()
        .file(".ai/tools/greet.sh", script)
        .committed();
    let ran = project.piton(["tool", "run", "greet", "--format", "json"]);
    let report = project.piton(["validate", "--format", "json"]).json();
    let (state, _) = state(&project, "greet");
    let refused = ["mismatch", "invalid"].contains(&state.as_str());
    let result = ran.last_json();
    assert_eq!(ran.code() != Some(0), refused, "{state}: {ran}");
    assert_eq!(report["valid"], json!(!refused), "{state}: {report:#}");
    if refused {
        assert!(
            ran.stdout().contains("ontent hash mismatch") || state == "invalid",
            "{ran}"
        );
        assert_ne!(result["status"], "success");
        project.assert_clean();
    }
    (state, ran.code(), refused)
}

#[test]
fn a_stamp_is_accepted_or_refused_as_it_deserves() {
    let own = format!("# {}\n", stamp(SCRIPT));
    let (shebang, rest) = SCRIPT.split_once('\n').expect("two lines");
    let with = |stamp: &str| format!("{shebang}\n{stamp}{rest}");
    let crlf = SCRIPT.replace('\n', "\r\n");
    let marked = format!("\u{feff}{rest}");
    for (script, expected) in [
        (SCRIPT.to_owned(), "unsigned"),
        (with(&own), "valid"),
        // A change of the content, of the stamp, and of the last line end.
        (with(&own).replace("hello", "goodbye"), "mismatch"),
        (with(&own).trim_end().to_owned(), "mismatch"),
        (with(&own.replace("2026-01-02T", "2027-01-02T")), "valid"),
        (
            with(&format!("# {}\n", stamp("the content of another file"))),
            "mismatch",
        ),
        (
            with(&own.replace(
                "kiwi-mcp:validated:2026",
                "kiwi-mcp:validated:yesterday 2026",
            )),
            "invalid",
        ),
        // Moved stamps: before the shebang, down by one line, to the end. Among other lines it is a
        // quotation.
        (format!("{own}{SCRIPT}"), "invalid"),
        (with(&format!("# a\n{own}")), "invalid"),
        (format!("{SCRIPT}{own}"), "invalid"),
        (with(&format!("# a\n# b\n# c\n{own}")), "unsigned"),
        (with(&format!("{own}{own}")), "invalid"),
        // Windows line ends and byte order marks: the bytes count as they are.
        (
            crlf.replacen("\r\n", &format!("\r\n# {}\r\n", stamp(&crlf)), 1),
            "valid",
        ),
        (
            crlf.replacen("\r\n", &format!("\r\n# {}\r\n", stamp(SCRIPT)), 1),
            "mismatch",
        ),
        (format!("\u{feff}# {}\n{rest}", stamp(&marked)), "valid"),
        (format!("\u{feff}# {}\n{rest}", stamp(rest)), "mismatch"),
        // Stamps of other programs.
        (
            with(&format!(
                "# kiwi-mcp:validated:2025-01-02T03:04:05Z:{}\n",
                &sha256(SCRIPT)[..12]
            )),
            "foreign",
        ),
        (
            with(&format!(
                "# rye:signed:2026-01-02T03:04:05Z:{}:c2ln:0123456789abcdef\n",
                sha256(SCRIPT)
            )),
            "foreign",
        ),
    ] {
        assert_eq!(fate(&script).0, expected, "{script}");
    }
}

#[test]
fn an_existing_stamp_is_replaced() {
    let (shebang, rest) = SCRIPT.split_once('\n').expect("two lines");
    for old in [
        "# kiwi-mcp:validated:2025-01-02T03:04:05Z:0123456789ab\n".to_owned(),
        "# rye:signed:2026-01-02T03:04:05Z:aa:bb:cc|github@ada\n".to_owned(),
        format!("# {}\n", stamp("other")),
        format!("# a comment\n# {}\n", stamp("other")),
    ]
    .map(|old| format!("{shebang}\n{old}{rest}"))
    .into_iter()
    .chain([
        format!("# {}\n{SCRIPT}", stamp(SCRIPT)),
        format!("{SCRIPT}# {}\n", stamp(SCRIPT)),
    ]) {
        let project = TestProject::new()
            .file(".ai/tools/greet.sh", &old)
            .committed();
        let ran = project.piton(["sign", "greet"]);
        assert_eq!(ran.code(), Some(0), "{ran}");
        assert_eq!(
            state(&project, "greet"),
            ("valid".to_owned(), Some(0)),
            "{old}"
        );
        let text = project.read(".ai/tools/greet.sh");
        assert_eq!(
            (
                text.matches("kiwi-mcp:").count(),
                text.matches("rye:").count()
            ),
            (1, 0),
            "{text}"
        );
    }
}

#[test]
fn kiwis_directive_formula_and_front_matter_are_not_taken_for_content() {
    let block = "<directive name=\"walk\" version=\"1.0.0\">\n<process><step name=\"a\"><action>Walk.</action></step>\
                 </process>\n</directive>";
    let payload = format!(
        r#"{{"directive_name":"walk","metadata":{{}},"version":"1.0.0","xml_hash":"{}"}}"#,
        sha256(block)
    );
    let directive = format!(
        "<!-- {} -->\n# Walk\n\n```xml\n{block}\n```\n",
        stamp(payload)
    );
    let knowledge = "---\nid: facts\ntitle: Facts\nversion: 1.0.0\nentry_type: reference\ncategory: ''\ntags: []\n\
                     validated_at: 2025-01-02T03:04:05Z\ncontent_hash: 0123456789ab\n---\nText\n";
    let project = TestProject::new()
        .file(".ai/directives/walk.md", &directive)
        .file(".ai/knowledge/facts.md", knowledge)
        .committed();
    assert_eq!(state(&project, "walk"), ("foreign".to_owned(), Some(0)));
    assert_eq!(state(&project, "facts"), ("unsigned".to_owned(), Some(0)));
    assert_eq!(project.piton(["sign", "--all"]).code(), Some(0));
    assert_eq!(state(&project, "walk"), ("valid".to_owned(), Some(0)));
    assert_eq!(
        project
            .read(".ai/directives/walk.md")
            .matches("kiwi-mcp")
            .count(),
        1
    );
}

#[test]
fn every_language_is_stamped_and_still_runs() {
    let header = |mark: &str, runtime: &str, id: &str| {
        let fields = [
            ("tool_id", id),
            ("tool_type", "script"),
            ("version", "1.0.0"),
            ("executor", runtime),
            ("description", "d"),
        ];
        fields
            .map(|(name, value)| format!("{mark} {name}: {value}\n"))
            .concat()
    };
    let python = "__tool_id__ = \"snake\"\n__tool_type__ = \"python\"\n__version__ = \"1.0.0\"\n\
                  __executor_id__ = \"python_runtime\"\n__tool_description__ = \"d\"\n\n\ndef main():\n    return 1\n";
    let endings = [
        ("bash", "#"),
        ("zsh", "#"),
        ("fish", "#"),
        ("rb", "#"),
        ("pl", "#"),
        ("r", "#"),
        ("ps1", "#"),
        ("jl", "#"),
        ("exs", "#"),
        ("tcl", "#"),
        ("awk", "#"),
        ("nu", "#"),
        ("js", "//"),
        ("mjs", "//"),
        ("ts", "//"),
        ("go", "//"),
        ("rs", "//"),
        ("swift", "//"),
        ("kts", "//"),
        ("scala", "//"),
        ("lua", "--"),
        ("php", "#"),
    ];
    let mut project = TestProject::new()
        .file(".ai/tools/snake.py", python)
        .file(".ai/tools/greet.sh", SCRIPT);
    for (ending, mark) in endings {
        let text = header(mark, "bash_runtime", &format!("in_{ending}"));
        project = project.file(&format!(".ai/tools/in_{ending}.{ending}"), text);
    }
    let project = project.file(".ai/tools/plain.json", JSON).committed();
    let signed = project
        .piton(["sign", "--all", "--format", "json"])
        .last_json();
    assert_eq!(signed["failed"], json!([]), "{signed:#}");
    assert_eq!(
        signed["signed"].as_array().map(Vec::len),
        Some(endings.len() + 3)
    );
    let checked = project.piton(["sign", "--check", "--format", "json"]);
    assert_eq!(
        (checked.code(), &checked.json()["valid"]),
        (Some(0), &json!(true)),
        "{checked}"
    );
    let beside: Vec<String> = project
        .files()
        .into_iter()
        .filter(|file| Path::new(file).extension().is_some_and(|it| it == "sig"))
        .collect();
    assert_eq!(
        beside,
        [".ai/tools/in_php.php.sig", ".ai/tools/plain.json.sig"]
    );
    for tool in ["snake", "greet", "plain"] {
        assert_eq!(
            project.piton(["tool", "run", tool]).code(),
            Some(0),
            "{tool}"
        );
    }
    for (file, id) in [
        ("in_php.php", "in_php"),
        ("in_lua.lua", "in_lua"),
        ("in_ts.ts", "in_ts"),
        ("plain.json", "plain"),
    ] {
        let path = project.root().join(".ai/tools").join(file);
        fs::write(
            &path,
            format!("{}\n", fs::read_to_string(&path).expect("readable")),
        )
        .expect("writable");
        assert_eq!(
            state(&project, id),
            ("mismatch".to_owned(), Some(1)),
            "{file}"
        );
    }
}

#[test]
fn a_stamp_beside_its_file_is_checked_as_strictly() {
    let project = TestProject::new()
        .file(".ai/tools/plain.json", JSON)
        .committed();
    let beside = |text: &str| {
        fs::write(project.root().join(".ai/tools/plain.json.sig"), text).expect("writable");
        let ran = project.piton(["tool", "run", "plain"]);
        (state(&project, "plain").0, ran.code())
    };
    let own = stamp(JSON);
    assert_eq!(beside(&format!("{own}\n")), ("valid".to_owned(), Some(0)));
    assert_eq!(beside(&own), ("valid".to_owned(), Some(0)));
    assert_eq!(beside(&stamp("{}")), ("mismatch".to_owned(), Some(3)));
    assert_eq!(
        beside(&own.replace("2026-", "26-")),
        ("invalid".to_owned(), Some(3))
    );
    assert_eq!(beside(""), ("invalid".to_owned(), Some(3)));
    assert_eq!(
        beside(&format!("{own}\n{own}\n")),
        ("invalid".to_owned(), Some(3))
    );
    assert_eq!(beside("hello"), ("invalid".to_owned(), Some(3)));
}

#[test]
fn a_stamp_of_a_folder_covers_what_is_in_it() {
    let fresh = || {
        let project = TestProject::new()
            .tool("greet", "", "echo hello")
            .file(".ai/tools/greet/data/a.txt", "a")
            .committed();
        assert_eq!(project.piton(["sign", "greet"]).code(), Some(0));
        project
    };
    for (change, expected) in [
        ("true", "valid"),
        ("echo >> .ai/tools/greet/run.sh", "mismatch"),
        ("echo > .ai/tools/greet/more.txt", "mismatch"),
        ("rm .ai/tools/greet/data/a.txt", "mismatch"),
        (
            "mv .ai/tools/greet/data/a.txt .ai/tools/greet/data/b.txt",
            "mismatch",
        ),
        (
            "sed -i s/script/bash/ .ai/tools/greet/tool.yaml",
            "mismatch",
        ),
        // The stamp covers names and contents, but neither modes nor empty folders.
        ("chmod +x .ai/tools/greet/run.sh", "valid"),
        ("mkdir .ai/tools/greet/empty", "valid"),
        (
            "for d in __pycache__ .venv node_modules; do mkdir -p .ai/tools/greet/$d; echo > .ai/tools/greet/$d/x; done",
            "valid",
        ),
        ("echo > .ai/tools/greet/node_modules", "mismatch"),
        ("echo > .ai/tools/greet/tool.yaml.sshsig", "valid"),
        ("echo > .ai/tools/greet/run.sh.sshsig", "mismatch"),
        ("echo > .ai/tools/greet/tool.yaml.sig", "mismatch"),
        ("ln -s run.sh .ai/tools/greet/link", "mismatch"),
        ("ln -s /etc/hostname .ai/tools/greet/link", "invalid"),
        ("ln -s data .ai/tools/greet/link", "invalid"),
    ] {
        let project = fresh();
        project.bash(change);
        let ran = project.piton(["tool", "run", "greet"]);
        assert_eq!(state(&project, "greet").0, expected, "{change}");
        assert_eq!(
            ran.code() == Some(0),
            expected == "valid",
            "{change}: {ran}"
        );
        if expected == "mismatch" {
            assert!(
                ran.stderr()
                    .to_lowercase()
                    .contains("content hash mismatch"),
                "{change}: {ran}"
            );
        }
    }
}

#[test]
fn a_folder_with_a_link_to_its_own_file_and_a_json_manifest_can_be_signed() {
    let project = TestProject::new()
        .file(".ai/tools/plain/tool.json", JSON)
        .file(".ai/tools/plain/data.txt", "data")
        .committed();
    symlink("data.txt", project.root().join(".ai/tools/plain/same.txt")).expect("a link");
    assert_eq!(project.piton(["sign", "plain"]).code(), Some(0));
    assert_eq!(state(&project, "plain"), ("valid".to_owned(), Some(0)));
    project.bash("echo more >> .ai/tools/plain/data.txt");
    assert_eq!(state(&project, "plain"), ("mismatch".to_owned(), Some(1)));
}

#[test]
fn a_directive_that_was_tampered_with_is_not_run() {
    let project = TestProject::new()
        .tool("touch", "", "touch made")
        .directive("write", ["touch"])
        .committed();
    assert_eq!(project.piton(["sign", "--all"]).code(), Some(0));
    project.bash("sed -i 's/The directive write/Another one/' .ai/directives/write.md");
    let ran = project.piton(["run", "write"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(
        ran.stderr()
            .to_lowercase()
            .contains("content hash mismatch"),
        "{ran}"
    );
    assert!(!project.root().join("made").exists());
}

#[test]
fn signing_is_a_run_that_can_be_undone_and_signing_again_is_none() {
    let project = TestProject::new()
        .ticking()
        .tool("one", "", "true")
        .tool("two", "", "true")
        .file(
            ".ai/tools/bad.yaml",
            "tool_id: bad\ntool_type: cli\nversion: nonsense\n",
        )
        .file("mine.txt", "mine")
        .committed()
        .file("mine.txt", "changed");
    cmd_snapshot!(project.piton(["sign", "--all", "--dry-run"]), @r#"
    success: false
    exit_code: 1
    ----- stdout -----
    would sign tool       one  ce3307ec3886  .ai/tools/one/tool.yaml
    would sign tool       two  c5b907e749f9  .ai/tools/two/tool.yaml
    ----- stderr -----
    ✗ tool `bad` (.ai/tools/bad.yaml): INVALID_SEMVER: version `nonsense` is not MAJOR.MINOR.PATCH: unexpected character 'n' while parsing major version number
    hint: write "1.0.0"
    error: would sign 2 of 3 items, 1 cannot be signed
    "#);
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt\n");
    cmd_snapshot!(project.piton(["sign", "--all", "--checkpoint", "auto"]), @r#"
    success: false
    exit_code: 1
    ----- stdout -----
    signed     tool       one  ce3307ec3886  .ai/tools/one/tool.yaml
    signed     tool       two  c5b907e749f9  .ai/tools/two/tool.yaml
    ----- stderr -----
    ✓ committed [SHA] chore(ai/tools): update `one/tool.yaml` and `two/tool.yaml` by `sign` (2 files, +2 −0)
    ✗ tool `bad` (.ai/tools/bad.yaml): INVALID_SEMVER: version `nonsense` is not MAJOR.MINOR.PATCH: unexpected character 'n' while parsing major version number
    hint: write "1.0.0"
    error: signed 2 of 3 items, 1 cannot be signed
    "#);
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt\n");
    cmd_snapshot!(project.piton(["sign", "o*", "t*"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    unchanged  tool       one  ce3307ec3886  .ai/tools/one/tool.yaml
    unchanged  tool       two  c5b907e749f9  .ai/tools/two/tool.yaml
    ----- stderr -----
    ✓ signed 0 of 2 items, 2 unchanged
    ");
    cmd_snapshot!(project.piton(["sign", "--check"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    unsigned   tool       bad  .ai/tools/bad.yaml
    valid      tool       one  .ai/tools/one/tool.yaml
    valid      tool       two  .ai/tools/two/tool.yaml
    ----- stderr -----
    ✓ 3 items: 2 valid, 1 unsigned
    ");
    assert_eq!(project.piton(["undo"]).code(), Some(0));
    assert_eq!(state(&project, "one"), ("unsigned".to_owned(), Some(0)));
    assert_eq!(project.read("mine.txt"), "changed");
    cmd_snapshot!(project.piton(["log"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    01kdyajz  2026-01-02 03:04:02  undo                          succeeded  [SHA]  2 files, +0 −2
    01kdyadf  2026-01-02 03:01:02  sign --all --checkpoint auto  succeeded  [SHA]  2 files, +2 −0  (undone)
    ----- stderr -----
    ");
}

#[test]
fn wrong_usage_is_explained_and_writes_nothing() {
    let project = TestProject::new()
        .tool("one", "", "true")
        .file(".ai/tools/bad.yaml", "tool_id: bad\n")
        .committed();
    cmd_snapshot!(project.piton(["sign"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: no item to sign was given

    hint: name items, e.g. `piton sign greet` or `piton sign 'ops/*'`, or take all of them with `--all`
    ");
    cmd_snapshot!(project.piton(["sign", "nothing"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is no item `nothing`

    hint: `piton search` lists the items
    ");
    cmd_snapshot!(project.piton(["sign", "one", "no/*"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: no item of the project matches `no/*`

    hint: write an id, `category/*`, `*`, or a file or folder of items; `piton search` lists the items
    ");
    cmd_snapshot!(project.piton(["sign", "subprocess"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `subprocess` belongs to the builtin layer, not to the project

    hint: copy it into the project first, with `piton load --to project`
    ");
    cmd_snapshot!(project.piton(["sign", "bad"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: tool `bad` cannot be loaded: tool_type is required

    hint: add `tool_type:` with one of primitive, runtime, script, python, bash, api, mcp_server, mcp_tool, mcp, docker, cli, local, meta, directive, knowledge
    ");
    cmd_snapshot!(project.piton(["sign", "one", "--source", "builtin"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'builtin' for '--source <SOURCE>': choose `project` or `user`: nothing else can be signed

    For more information, try '--help'.
    ");
    project.assert_clean();
}

#[test]
fn items_are_named_by_id_category_path_and_pattern() {
    let knowledge = |id: &str| {
        format!(
            "---\nid: {id}\ntitle: T\nversion: 1.0.0\nentry_type: reference\ncategory: ops\ntags: []\n---\nText\n"
        )
    };
    let project = TestProject::new()
        .tool("one", "", "true")
        .tool("two", "", "true")
        .file(".ai/knowledge/ops/facts.md", knowledge("facts"))
        .file(".ai/knowledge/ops/ideas.md", knowledge("ideas"))
        .committed();
    let named = |words: &[&str]| {
        let words = ["sign", "--dry-run", "--format", "json"]
            .iter()
            .chain(words);
        let answer = project.piton(words).last_json();
        let names = answer["signed"].as_array().cloned().unwrap_or_default();
        names
            .iter()
            .map(|item| item["name"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(named(&["one", "ops/facts"]), "one facts");
    assert_eq!(named(&["ops/*"]), "facts ideas");
    assert_eq!(named(&["{one,facts}"]), "one facts");
    assert_eq!(named(&[".ai/tools/two/run.sh", ".ai/tools/two"]), "two");
    assert_eq!(named(&[".ai/knowledge/ops/ideas.md"]), "ideas");
    assert_eq!(named(&[".ai/tools/**"]), "one two");
    assert_eq!(
        (named(&[".ai/tools"]), named(&[".ai/knowledge/ops"])),
        ("one two".to_owned(), "facts ideas".to_owned())
    );
    let nowhere = project.piton(["sign", ".ai/nope.py"]);
    assert_eq!(nowhere.code(), Some(2), "{nowhere}");
    assert!(
        nowhere
            .stderr()
            .contains("no item of the project matches `.ai/nope.py`"),
        "{nowhere}"
    );
    assert_eq!(named(&["--all", "--type", "knowledge"]), "facts ideas");
    assert_eq!(named(&["*o*", "--type", "tool"]), "one two");
    let one = project
        .piton(["sign", "one", "--format", "json"])
        .last_json();
    let hash = one["hash"].as_str().expect("a hash").to_owned();
    assert_eq!(
        (
            &one["tool_id"],
            &one["action"],
            &one["status"],
            &one["message"]
        ),
        (
            &json!("one"),
            &json!("sign"),
            &json!("signed"),
            &json!("signed 1 of 1 item")
        )
    );
    assert!(
        one["signature"]
            .as_str()
            .is_some_and(|text| text.starts_with("kiwi-mcp:validated:") && text.ends_with(&hash))
    );
    assert!(
        project
            .read(".ai/tools/one/tool.yaml")
            .contains(one["signature"].as_str().expect("a stamp"))
    );
}

#[test]
fn the_users_own_items_are_signed_at_once() {
    let project = TestProject::new()
        .file("README", "")
        .committed()
        .home_file(".ai/tools/greet.sh", SCRIPT);
    let refused = project.piton(["sign", "greet"]);
    assert_eq!(refused.code(), Some(2), "{refused}");
    assert_eq!(
        project.piton(["sign", "--source", "user", "greet"]).code(),
        Some(0)
    );
    let checked = project
        .piton(["sign", "--check", "--source", "user", "--format", "json"])
        .json();
    assert_eq!(checked["items"][0]["signature"]["status"], "valid");
    project.assert_clean();
}

#[test]
fn a_script_beside_its_manifest_is_not_covered_and_that_is_said() {
    let manifest = "tool_id: greet\ntool_type: script\nversion: \"1.0.0\"\ndescription: d\nexecutor: bash_runtime\n\
                    config:\n  entrypoint: greet.sh\n";
    let project = TestProject::new()
        .file(".ai/tools/greet.yaml", manifest)
        .file(".ai/tools/greet.sh", "echo hello\n")
        .committed();
    assert_eq!(project.piton(["sign", "greet"]).code(), Some(0));
    let report = project.piton(["validate", "--format", "json"]).json();
    assert_eq!(
        report["findings"][0]["code"], "UNCOVERED_SCRIPT",
        "{report:#}"
    );
    assert_eq!(project.piton(["tool", "run", "greet"]).code(), Some(0));
    let project = project.variable("PITON_SIGNATURE_REQUIRE", "integrity");
    cmd_snapshot!(project.piton(["tool", "run", "greet"]), @"
    success: false
    exit_code: 3
    ----- stdout -----
    ----- stderr -----
    error: only signed items may run, and no stamp covers `.ai/tools/greet.sh`, which tool `greet` runs

    hint: move it into the folder of the tool, whose stamp covers every file, and sign the tool
    ");
    assert_eq!(state(&project, "greet"), ("valid".to_owned(), Some(1)));
}

#[test]
fn a_requirement_refuses_a_run_before_its_first_step() {
    let project = TestProject::new()
        .tool("first", "", "touch made")
        .tool("second", "", "true")
        .directive("both", ["first", "second"])
        .committed()
        .variable("PITON_SIGNATURE_REQUIRE", "integrity");
    assert_eq!(project.piton(["sign", "both", "first"]).code(), Some(0));
    cmd_snapshot!(project.piton(["run", "both"]), @"
    success: false
    exit_code: 3
    ----- stdout -----
    ----- stderr -----
    error: only signed items may run, and not signed is `.ai/tools/second/tool.yaml`

    hint: read them, then `piton sign` them; `piton config signature.require` shows where this is asked for
    ");
    assert!(!project.root().join("made").exists());
    assert_eq!(project.piton(["sign", "--check"]).code(), Some(1));
    assert_eq!(project.piton(["sign", "second"]).code(), Some(0));
    assert_eq!(project.piton(["sign", "--check"]).code(), Some(0));
    assert_eq!(project.piton(["run", "both"]).code(), Some(0));
    assert!(project.root().join("made").exists());
}

#[test]
fn a_file_keeps_its_permissions_and_an_empty_one_is_no_item() {
    let project = TestProject::new()
        .file(".ai/tools/greet.sh", SCRIPT)
        .file(".ai/tools/empty.sh", "")
        .committed();
    let file = project.root().join(".ai/tools/greet.sh");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
    assert_eq!(project.piton(["sign", "greet"]).code(), Some(0));
    assert_eq!(
        fs::metadata(&file).expect("there").permissions().mode() & 0o777,
        0o755
    );
    let empty = project.piton(["sign", "empty"]);
    assert_ne!(empty.code(), Some(0), "{empty}");
    assert_eq!(project.read(".ai/tools/empty.sh"), "");
}

#[test]
fn a_signature_of_another_program_beside_an_item_stays() {
    let script = "# tool_id: greet\n# tool_type: bash\n# version: 1.0.0\n# executor: bash_runtime\n# description: d\necho hi\n";
    let project = TestProject::new()
        .file(".ai/tools/greet.sh", script)
        .file(".ai/tools/greet.sh.sig", "not a stamp\n");
    let ran = project.piton(["sign", "greet"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read(".ai/tools/greet.sh.sig"), "not a stamp\n");
}

#[test]
fn signing_that_fails_does_not_say_that_it_signed() {
    let project = TestProject::new()
        .tool("one", "", "true")
        .committed()
        .variable("PITON_FAILPOINT", "item-write=error");
    let ran = project.piton(["sign", "one"]);
    assert_eq!(
        (ran.code(), ran.stdout()),
        (Some(1), String::new()),
        "{ran}"
    );
    assert!(!ran.stderr().contains("signed"), "{ran}");
    let outcome = project.piton(["sign", "one", "--format", "json"]).json();
    assert_eq!(
        (outcome.get("status"), &outcome["run"]["status"]),
        (None, &json!("failed")),
        "{outcome:#}"
    );
    project.assert_clean();
}

#[test]
fn a_signature_in_a_file_that_git_ignores_comes_with_a_warning() {
    let item = "tool_id: t\ntool_type: cli\nversion: 1.0.0\nexecutor: subprocess\ndescription: D\nconfig: {command: 'true'}\n";
    let project = TestProject::new()
        .file(".ai/tools/t.yaml", item)
        .file(".gitignore", ".ai/\n")
        .committed();
    let ran = project.piton(["sign", "t"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        ran.stderr()
            .contains("git ignores `.ai/tools/t.yaml`: `piton undo` cannot revert this"),
        "{ran}"
    );
}

#[test]
fn odd_beginnings_and_ends_of_files_are_stamped_and_hold() {
    let head = "# tool_id: greet\n# tool_type: bash\n# version: 1.0.0\n# executor: bash_runtime\n# description: d\n";
    for (what, script) in [
        (
            "a mark and a shebang",
            format!("\u{feff}#!/usr/bin/env bash\n{head}echo hello\n"),
        ),
        (
            "no line end at the end",
            format!("#!/usr/bin/env bash\n{head}echo hello"),
        ),
        (
            "another line end in the first line only",
            format!("#!/usr/bin/env bash\r\n{head}echo hello\n"),
        ),
        (
            "other line ends",
            format!("#!/usr/bin/env bash\n{head}echo hello\n").replace('\n', "\r\n"),
        ),
    ] {
        let project = TestProject::new()
            .file(".ai/tools/greet.sh", &script)
            .committed();
        let ran = project.piton(["sign", "greet"]);
        assert_eq!(ran.code(), Some(0), "{what}: {ran}");
        assert_eq!(
            state(&project, "greet"),
            ("valid".to_owned(), Some(0)),
            "{what}"
        );
        let text = fs::read(project.root().join(".ai/tools/greet.sh")).expect("readable");
        let text = String::from_utf8(text).expect("UTF-8");
        let stamp = text
            .split_inclusive('\n')
            .find(|line| line.contains("kiwi-mcp:validated:"))
            .expect("a stamp");
        assert_eq!(
            text.replacen(stamp, "", 1),
            script,
            "{what}: every other byte stays"
        );
        assert_eq!(
            text.find(stamp),
            script.find('\n').map(|at| at + 1),
            "{what}: after the shebang"
        );
        let again = project.piton(["sign", "greet", "--format", "json"]);
        assert_eq!(
            again.last_json()["message"],
            "signed 0 of 1 item, 1 unchanged",
            "{what}"
        );
    }
}
