//! Attempts to run content that is not signed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use piton::item::signature::stamp::stamp_file;
use serde_json::{Value, json};

use super::{assert_refused, key, make_key, project, refusal, sign, trust};
use crate::harness::TestProject;
use crate::run::terminal::at_a_terminal;

const PYTHON: &str = "\"\"\"Greets\"\"\"\n__tool_type__ = \"python\"\n__version__ = \"1.0.0\"\n\
                      __executor_id__ = \"python_runtime\"\nimport helper\n\n\ndef main():\n    return helper.word()\n";
const MANIFEST: &str = "tool_id: speak\ntool_type: python\nversion: \"1.0.0\"\ndescription: d\n\
                        executor: python_runtime\nconfig:\n  entrypoint: run.py\n";

fn require(project: TestProject, level: &str) -> TestProject {
    project.variable("PITON_SIGNATURE_REQUIRE", level)
}

#[test]
fn a_program_of_the_project_is_not_used_for_verification() {
    let project = project();
    make_key(&project, "eve", "ed25519");
    sign(&project, "eve");
    let liar = "#!/bin/sh\ncase \"$*\" in *find-principals*) echo ada@example.com;; esac\nexit 0\n";
    let project = project.file("bin/ssh-keygen", liar);
    fs::set_permissions(
        project.root().join("bin/ssh-keygen"),
        fs::Permissions::from_mode(0o755),
    )
    .expect("mode");
    let path = project.bash("printf %s \"$PATH\"");
    symlink(project.root().join("bin"), project.home().join("link")).expect("a link");
    for folder in [
        project.root().join("bin"),
        project.home().join("link"),
        "bin".into(),
        "".into(),
    ] {
        let mut command = project.command(["tool", "run", "greet"]);
        command
            .env("PITON_SIGNATURE_REQUIRE", "author")
            .env("PATH", format!("{}:{path}", folder.display()));
        let ran = project.ran(command.output().expect("piton starts"));
        assert_eq!(ran.code(), Some(3), "{ran}");
        assert!(ran.stderr().contains("which is not trusted"), "{ran}");
    }
    assert!(!project.root().join("made").exists());
}

#[test]
fn bytecode_that_no_stamp_covers_is_not_run() {
    let project = TestProject::new()
        .file(".ai/tools/speak/tool.yaml", MANIFEST)
        .file(
            ".ai/tools/speak/run.py",
            "import helper\n\n\ndef main():\n    return helper.word()\n",
        )
        .file(
            ".ai/tools/speak/helper.py",
            "def word():\n    return 'signed'\n",
        )
        .committed();
    make_key(&project, "ada", "ed25519");
    sign(&project, "ada");
    trust(&project, "ada");
    // Bytecode of a different source, which Python loads without checking the source.
    project.bash(
        "cd .ai/tools/speak; mkdir ~/x; echo \"def word(): return 'evil'\" > ~/x/helper.py; python3 -c \"import py_compile, \
         importlib.util as u, os; py_compile.compile(os.path.expanduser('~/x/helper.py'), \
         cfile=u.cache_from_source('helper.py'), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)\"; \
         test -d __pycache__; test \"$(python3 -c 'import helper; print(helper.word())')\" = evil",
    );
    let project = require(project, "author");
    let ran = project
        .piton(["tool", "run", "speak", "--format", "json"])
        .succeeded();
    assert!(
        ran.stdout().contains("signed") && !ran.stdout().contains("evil"),
        "{ran}"
    );
}

#[test]
fn a_script_that_is_signed_alone_imports_nothing_from_beside_it() {
    let csv = PYTHON
        .replace("import helper", "import csv")
        .replace("helper.word()", "csv.QUOTE_ALL");
    let project = TestProject::new()
        .file(".ai/tools/speak.py", PYTHON)
        .file(".ai/tools/quote.py", csv)
        .file(".ai/tools/helper.py", "def word():\n    return 'evil'\n")
        .file(".ai/tools/csv.py", "QUOTE_ALL = 'evil'\n")
        .committed();
    make_key(&project, "ada", "ed25519");
    project
        .piton([
            "sign",
            "speak",
            "quote",
            "--key",
            &key("ada"),
            "--checkpoint",
            "auto",
        ])
        .succeeded();
    trust(&project, "ada");
    project.piton(["tool", "run", "speak"]).succeeded();
    for level in ["integrity", "author"] {
        let mut command = project.command(["tool", "run", "speak"]);
        let ran = project.ran(
            command
                .env("PITON_SIGNATURE_REQUIRE", level)
                .output()
                .expect("piton starts"),
        );
        assert_eq!(ran.code(), Some(1), "{ran}");
        assert!(
            ran.stderr().contains("`helper` lies beside this file"),
            "{ran}"
        );
        let mut command = project.command(["tool", "run", "quote", "--format", "json"]);
        let ran = project
            .ran(
                command
                    .env("PITON_SIGNATURE_REQUIRE", level)
                    .output()
                    .expect("piton starts"),
            )
            .succeeded();
        assert!(!ran.stdout().contains("evil"), "{ran}");
    }
}

/// All files of a package run as part of the tool.
#[test]
fn each_file_of_a_package_of_the_library_needs_a_stamp() {
    let manifest = MANIFEST.replace("run.py", "run.py\n  lib_imports: [pack]");
    let part = "def word():\n    return 'stamped'\n";
    let stamped = |text: &str| {
        stamp_file(Path::new("part.py"), text, "2026-01-02T03:04:05Z")
            .expect("a stamp")
            .content
    };
    let project = TestProject::new()
        .file(".ai/tools/speak/tool.yaml", manifest)
        .file(
            ".ai/tools/speak/run.py",
            "from lib.pack import part\n\n\ndef main():\n    return part.word()\n",
        )
        .file(".ai/tools/lib/pack/__init__.py", stamped("X = 1\n"))
        .file(".ai/tools/lib/pack/part.py", part)
        .committed();
    make_key(&project, "ada", "ed25519");
    sign(&project, "ada");
    trust(&project, "ada");
    let project = require(project, "integrity");
    let ran = project.piton(["tool", "run", "speak"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(
        ran.stderr()
            .contains("no stamp covers `.ai/tools/lib/pack/part.py`"),
        "{ran}"
    );
    let project = project.file(".ai/tools/lib/pack/part.py", stamped(part));
    project.piton(["tool", "run", "speak"]).succeeded();
}

#[test]
fn a_script_in_a_folder_that_no_stamp_covers_is_refused() {
    for folder in ["node_modules", ".venv", "__pycache__"] {
        let manifest = MANIFEST
            .replace("python_runtime", "bash_runtime")
            .replace("run.py", &format!("{folder}/run.sh"));
        let project = TestProject::new()
            .file(".ai/tools/speak/tool.yaml", manifest)
            .file(&format!(".ai/tools/speak/{folder}/run.sh"), "touch made\n")
            .committed();
        make_key(&project, "ada", "ed25519");
        sign(&project, "ada");
        trust(&project, "ada");
        let report = project.piton(["validate", "--format", "json"]).json();
        assert_eq!(
            report["findings"][0]["code"], "UNCOVERED_SCRIPT",
            "{report:#}"
        );
        let project = require(project, "author");
        let ran = project.piton(["tool", "run", "speak"]);
        assert_eq!(ran.code(), Some(3), "{ran}");
        assert!(ran.stderr().contains("no stamp covers"), "{ran}");
        assert!(!project.root().join("made").exists());
    }
}

#[test]
fn a_run_that_waited_is_judged_by_what_is_trusted_now() {
    let steps = "<step name=\"look\"><checkpoint type=\"human-verify\" gate=\"blocking\">Fine?</checkpoint></step>\
                 <step name=\"go\"><execute item_type=\"directive\" item_id=\"walk\"/></step>";
    let text = format!(
        "# D\n\n```xml\n<directive name=\"outer\" version=\"1.0.0\"><metadata><description>d</description><permissions>\
         <execute resource=\"tool\" id=\"greet\"/><execute resource=\"directive\" id=\"walk\"/>\
         <write resource=\"filesystem\" path=\"**\"/></permissions></metadata>\
         <process>{steps}</process></directive>\n```\n"
    );
    let project = project().file(".ai/directives/outer.md", text).committed();
    make_key(&project, "eve", "ed25519");
    sign(&project, "ada");
    trust(&project, "ada");
    let project = require(project, "author");
    assert_eq!(project.piton(["run", "outer"]).code(), Some(4));
    // An untrusted person signs other content while the run waits: the tool is not the one that the
    // run started with.
    project.bash("cp -r .ai ~/before; echo 'touch more' >> .ai/tools/greet/run.sh");
    let mut command = project.command(["sign", "greet", "--key", &key("eve")]);
    project
        .ran(
            command
                .env("PITON_SIGNATURE_REQUIRE", "none")
                .output()
                .expect("piton starts"),
        )
        .succeeded();
    let ran = project.piton(["approve", "--yes"]);
    assert_ne!(ran.code(), Some(0), "{ran}");
    assert!(
        !project.root().join("made").exists() && !project.root().join("more").exists(),
        "{ran}"
    );
    project.bash("rm -r .ai; cp -r ~/before .ai; git status --short >&2");
    // A key that was revoked while the run waited is no longer accepted, for directives too.
    let _ = project.piton(["cancel"]);
    let waits = project.piton(["run", "outer"]);
    assert_eq!(waits.code(), Some(4), "{waits}");
    project
        .piton(["trust", "revoke", "ada@example.com"])
        .succeeded();
    let ran = project.piton(["approve", "--yes"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(
        ran.stderr().contains("as the run began with it") && ran.stderr().contains("was revoked"),
        "{ran}"
    );
    assert!(!project.root().join("made").exists());
    project.piton(["cancel"]).succeeded();
}

#[test]
fn hooks_and_items_of_the_user_are_judged_like_any_other() {
    let text = |name: &str, more: &str, steps: &str| {
        format!(
            "# D\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\"><metadata><description>d</description>\
             <permissions><execute resource=\"tool\" id=\"*\"/><execute resource=\"directive\" id=\"*\"/>\
             <write resource=\"filesystem\" path=\"**\"/></permissions>{more}</metadata>\
             <process>{steps}</process></directive>\n```\n"
        )
    };
    let call = |kind: &str, id: &str| {
        format!("<step name=\"s\"><execute item_type=\"{kind}\" item_id=\"{id}\"/></step>")
    };
    let hooks = "<hooks><hook><when>true</when><directive>mine</directive></hook></hooks>";
    let project = project()
        .file(
            ".ai/directives/hooked.md",
            text("hooked", hooks, &call("tool", "greet")),
        )
        .file(
            ".ai/directives/outer.md",
            text("outer", "", &call("directive", "mine")),
        )
        .committed()
        .home_file(
            ".ai/directives/mine.md",
            text("mine", "", &call("tool", "greet")),
        );
    sign(&project, "ada");
    trust(&project, "ada");
    let project = require(project, "author");
    for id in ["hooked", "outer", "mine"] {
        let ran = project.piton(["run", id]);
        assert_eq!(ran.code(), Some(3), "{id} {ran}");
        assert!(
            ran.stderr().contains("mine.md` has no author's signature"),
            "{id} {ran}"
        );
        assert!(!project.root().join("made").exists());
    }
    project
        .piton(["sign", "--source", "user", "mine", "--key", &key("ada")])
        .succeeded();
    project.piton(["run", "outer"]).succeeded();
}

#[test]
fn every_line_of_a_key_is_checked() {
    let project = project();
    sign(&project, "ada");
    // The line for git comes first, as `piton trust add` leaves it.
    project.bash(
        "mkdir -p ~/.config/piton; printf 'ada namespaces=\"git\" %s\\n' \"$(cat ~/.ssh/ada.pub)\" \
         > ~/.config/piton/allowed_signers",
    );
    assert_refused(&project, "not trusted for items");
    trust(&project, "ada");
    assert_eq!(refusal(&project).0, Some(0));
}

#[test]
fn a_list_of_revoked_keys_that_cannot_be_found_stops_everything() {
    let project = project();
    sign(&project, "ada");
    trust(&project, "ada");
    assert_eq!(refusal(&project).0, Some(0));
    let revoked = project.home().join(".config/piton/revoked_keys");
    symlink("/nowhere/revoked_keys", &revoked).expect("a link");
    let (code, message) = refusal(&project);
    assert_ne!(code, Some(0), "{message}");
    assert!(message.contains("revoked_keys"), "{message}");
    // The dangling link is not replaced by a file.
    let ran = project.piton(["trust", "revoke", "ada@example.com"]);
    assert_ne!(ran.code(), Some(0), "{ran}");
    assert!(ran.stderr().contains("is dangling"), "{ran}");
    assert!(revoked.is_symlink());
    fs::remove_file(&revoked).expect("removable");
    fs::create_dir(&revoked).expect("a folder");
    assert_ne!(refusal(&project).0, Some(0));
    // An invalid list of keys is not treated as an empty one.
    fs::remove_dir(&revoked).expect("removable");
    fs::write(&revoked, "nonsense that was meant to be a key\n").expect("writable");
    assert_ne!(refusal(&project).0, Some(0));
}

#[test]
fn a_signature_may_be_a_link_and_holds_for_the_kind_that_was_signed() {
    let project = project();
    sign(&project, "ada");
    trust(&project, "ada");
    let file = project.root().join(".ai/tools/greet/tool.yaml.sshsig");
    fs::rename(&file, project.home().join("elsewhere")).expect("moved");
    symlink(project.home().join("elsewhere"), &file).expect("a link");
    assert_eq!(refusal(&project).0, Some(0));
    fs::remove_file(&file).expect("removable");
    symlink("/dev/zero", &file).expect("a link");
    assert_refused(&project, "has an unusable signature");
    fs::remove_file(&file).expect("removable");
    // A signature for the same id and hash, but for a directive.
    let hash = project
        .piton(["sign", "--check", "greet", "--format", "json"])
        .json();
    let hash = hash["items"][0]["signature"]["hash"]
        .as_str()
        .expect("a hash")
        .to_owned();
    project.bash(&format!(
        "printf 'piton item v1\\ndirective greet\\nsha256:{hash}\\n' | ssh-keygen -q -Y sign -n piton-content \
         -f ~/.ssh/ada > .ai/tools/greet/tool.yaml.sshsig"
    ));
    assert_refused(&project, "for other content or another item");
}

#[test]
fn the_signer_is_in_the_journal() {
    let project = project();
    sign(&project, "ada");
    trust(&project, "ada");
    let project = require(project, "author");
    let ran = project.piton(["run", "walk", "--format", "json"]);
    let last: Value =
        serde_json::from_str(ran.stdout().lines().last().unwrap_or_default()).expect("JSON");
    let step = format!(
        "{}/1",
        last["run"]
            .as_str()
            .or(last["run_id"].as_str())
            .unwrap_or_else(|| panic!("{ran}"))
    );
    let shown = project.piton(["show", &step]);
    assert!(
        shown
            .stdout()
            .contains(".ai/tools/greet/tool.yaml  by ada@example.com (SHA256:"),
        "{shown}"
    );
    let shown = project.piton(["show", &step, "--format", "json"]);
    assert!(
        shown.stdout().contains("\"fingerprint\":\"SHA256:"),
        "{shown}"
    );
    project.piton(["verify"]).succeeded();
}

#[test]
fn a_locked_key_is_unlocked_at_a_terminal() {
    let project = project();
    project.bash("ssh-keygen -q -t ed25519 -N secret -C locked@example.com -f ~/.ssh/locked");
    let words = [
        "sign",
        "--all",
        "--key",
        "~/.ssh/locked",
        "--checkpoint",
        "auto",
    ];
    let wrong = at_a_terminal(
        &project,
        &json!([["Enter passphrase", "type", "wrong\n"]]),
        &words,
    );
    assert_eq!(wrong.status, Some(1), "{}", wrong.seen);
    assert!(
        wrong.seen.contains("its passphrase was wrong or not given"),
        "{}",
        wrong.seen
    );
    project.assert_clean();
    // The passphrase is asked for once, for any number of items.
    let right = at_a_terminal(
        &project,
        &json!([["Enter passphrase", "type", "secret\n"]]),
        &words,
    );
    assert_eq!(right.status, Some(0), "{}", right.seen);
    assert_eq!(
        right.seen.matches("Enter passphrase").count(),
        1,
        "{}",
        right.seen
    );
    assert!(!right.seen.contains("secret"), "{}", right.seen);
    project.assert_clean();
    trust(&project, "locked");
    assert_eq!(refusal(&project).0, Some(0));
}
