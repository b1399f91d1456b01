//! Signatures of people, made and checked with the real `ssh-keygen`.

mod attack;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{TestProject, cmd_snapshot};

/// A project with a directive and a tool, and a person's key `ada` in the home folder.
fn project() -> TestProject {
    let project = TestProject::new()
        .tool("greet", "", "touch made")
        .directive("walk", ["greet"])
        .committed();
    make_key(&project, "ada", "ed25519");
    project
}

fn make_key(project: &TestProject, name: &str, kind: &str) {
    project.bash(&format!(
        "mkdir -p ~/.ssh; ssh-keygen -q -t {kind} -N '' -C {name}@example.com -f ~/.ssh/{name}"
    ));
}

fn key(name: &str) -> String {
    format!("~/.ssh/{name}")
}

fn sign(project: &TestProject, name: &str) {
    project
        .piton(["sign", "--all", "--key", &key(name), "--checkpoint", "auto"])
        .succeeded();
}

fn trust(project: &TestProject, name: &str) {
    project
        .piton(["trust", "add", &format!("~/.ssh/{name}.pub")])
        .succeeded();
}

/// Runs the tool where only items of trusted signers may run; returns the exit code and the reason.
fn refusal(project: &TestProject) -> (Option<i32>, String) {
    let _ = fs::remove_file(project.root().join("made"));
    let mut command = project.command(["tool", "run", "greet", "--format", "json"]);
    let ran = project.ran(
        command
            .env("PITON_SIGNATURE_REQUIRE", "author")
            .output()
            .expect("piton starts"),
    );
    assert_eq!(
        ran.code() == Some(0),
        project.root().join("made").exists(),
        "{ran}"
    );
    let last: Value =
        serde_json::from_str(ran.stdout().lines().last().unwrap_or_default()).expect("JSON");
    (
        ran.code(),
        last["message"].as_str().unwrap_or_default().to_owned(),
    )
}

fn author(project: &TestProject) -> Value {
    project
        .piton(["tool", "show", "greet", "--format", "json"])
        .json()["signature"]["author"]["status"]
        .clone()
}

fn assert_refused(project: &TestProject, because: &str) {
    let (code, message) = refusal(project);
    assert_eq!(code, Some(3), "{message}");
    assert!(
        message.contains(".ai/tools/greet/tool.yaml") && message.contains(because),
        "{message}"
    );
}

#[test]
fn an_item_with_a_trusted_signature_runs() {
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let project = TestProject::new()
            .tool("greet", "", "touch made")
            .directive("walk", ["greet"])
            .committed();
        make_key(&project, "ada", kind);
        assert_refused(&project, "has no author's signature");
        sign(&project, "ada");
        project.assert_clean();
        assert_refused(&project, "which is not trusted");
        trust(&project, "ada");
        assert_eq!(refusal(&project), (Some(0), String::new()), "{kind}");
        assert_eq!(author(&project), "valid");
        let project = project.variable("PITON_SIGNATURE_REQUIRE", "author");
        project.piton(["run", "walk"]).succeeded();
        project.piton(["sign", "--check"]).succeeded();
        // Signing again changes nothing, also for signature kinds that differ each time.
        let again = project
            .piton(["sign", "--all", "--key", &key("ada"), "--format", "json"])
            .json();
        assert_eq!(
            again["message"], "signed 0 of 2 items, 2 unchanged",
            "{again:#}"
        );
    }
}

#[test]
fn a_signature_can_be_checked_with_ssh_keygen() {
    let project = project();
    project
        .piton(["sign", "--all", "--key", &key("ada")])
        .succeeded();
    trust(&project, "ada");
    let hash = project
        .piton(["sign", "--check", "greet", "--format", "json"])
        .json();
    let hash = hash["items"][0]["signature"]["hash"]
        .as_str()
        .expect("a hash")
        .to_owned();
    let said = project.bash(&format!(
        "printf 'piton item v1\\ntool greet\\nsha256:{hash}\\n' | ssh-keygen -Y verify \
         -f ~/.config/piton/allowed_signers -I ada@example.com -n piton-content -s .ai/tools/greet/tool.yaml.sshsig"
    ));
    assert!(
        said.starts_with(
            "Good \"piton-content\" signature for ada@example.com with ED25519 key SHA256:"
        ),
        "{said}"
    );
    // The hash of the folder is the one that `sha256sum` computes.
    let by_hand = project.bash(
        "cd .ai/tools/greet; { sha256sum run.sh; printf '%s  tool.yaml\\n' \
         \"$(grep -v kiwi-mcp:validated tool.yaml | sha256sum | cut -d' ' -f1)\"; } | LC_ALL=C sort -k2 | sha256sum",
    );
    assert!(by_hand.starts_with(&hash), "{by_hand} {hash}");
}

#[test]
fn an_untrusted_signer_is_refused_with_the_reason() {
    let project = project();
    make_key(&project, "eve", "ed25519");
    sign(&project, "ada");
    trust(&project, "ada");
    assert_eq!(refusal(&project).0, Some(0));
    // Any user can renew the stamp, but only the signer can renew the signature.
    project.bash("echo 'touch more' >> .ai/tools/greet/run.sh");
    let (code, message) = refusal(&project);
    assert!(
        code == Some(3) && message.starts_with("Content hash mismatch"),
        "{message}"
    );
    project.piton(["sign", "greet"]).succeeded();
    assert_refused(&project, "for other content or another item");
    assert_eq!(author(&project), "other_content");
    assert_eq!(project.piton(["sign", "--check"]).code(), Some(1));
    project
        .piton(["sign", "greet", "--key", &key("eve")])
        .succeeded();
    assert_refused(&project, "which is not trusted");
    project
        .piton(["sign", "greet", "--key", &key("ada")])
        .succeeded();
    assert_eq!(refusal(&project).0, Some(0));
    // A revoked key stays revoked, even if it is added again.
    project
        .piton(["trust", "revoke", "ada@example.com"])
        .succeeded();
    assert_refused(&project, "which was revoked");
    let signed = project.piton(["sign", "greet", "--key", &key("ada")]);
    assert_eq!(
        (signed.code(), signed.stdout()),
        (Some(2), String::new()),
        "{signed}"
    );
    let again = project.piton(["trust", "add", "~/.ssh/ada.pub"]);
    assert_eq!(again.code(), Some(2), "{again}");
    project
        .bash("echo \"ada@example.com $(cat ~/.ssh/ada.pub)\" >> ~/.config/piton/allowed_signers");
    assert_refused(&project, "which was revoked");
    // `ssh-keygen` alone comes to the same conclusion.
    let by_hand = project.bash(
        "ssh-keygen -Y verify -f ~/.config/piton/allowed_signers -r ~/.config/piton/revoked_keys -I ada@example.com \
         -n piton-content -s .ai/tools/greet/tool.yaml.sshsig < /dev/null && echo good || echo bad",
    );
    assert!(by_hand.ends_with("bad\n"), "{by_hand}");
}

#[test]
fn an_item_is_never_attributed_to_a_person_who_did_not_sign_it() {
    let project = project();
    sign(&project, "ada");
    project.bash("sed -i 's/touch made/touch made more/' .ai/tools/greet/run.sh");
    project.piton(["sign", "greet"]).succeeded();
    let checked = || {
        let ran = project.piton(["sign", "--check", "greet", "--format", "json"]);
        (
            ran.json()["items"][0]["author"]["status"].clone(),
            ran.code(),
        )
    };
    let lie = (json!("other_content"), Some(1));
    assert_eq!(checked(), lie, "no signer is trusted");
    let allowed = |options: &str| {
        project.bash(&format!(
            "mkdir -p ~/.config/piton; printf 'ada@example.com {options} %s\\n' \"$(cat ~/.ssh/ada.pub)\" \
             > ~/.config/piton/allowed_signers"
        ));
    };
    for options in ["", "valid-before=\"20200101\"", "namespaces=\"git\""] {
        allowed(options);
        assert_eq!(checked(), lie, "{options}");
    }
    project.bash("cp ~/.ssh/ada.pub ~/.config/piton/revoked_keys");
    assert_eq!(checked(), lie, "revoked");
}

#[test]
fn a_stamp_beside_the_signature_of_a_person_warns_that_it_may_be_of_other_content() {
    let project = project();
    sign(&project, "ada");
    let file = project.root().join(".ai/tools/greet/run.sh");
    let text = fs::read_to_string(&file).expect("a script");
    fs::write(&file, format!("{text}true\n")).expect("written");
    let warned = project.piton(["sign", "--all"]).succeeded();
    assert_eq!(
        warned
            .stderr()
            .lines()
            .filter(|line| line.starts_with("warning") || line.starts_with("hint"))
            .collect::<Vec<_>>(),
        [
            "warning: signatures that may be for other content: `.ai/tools/greet/tool.yaml.sshsig`",
            "hint: see with `piton sign --check`; sign as a person with `--key`"
        ],
        "{warned}"
    );
    let again = project.piton(["sign", "--all", "--key", &key("ada")]);
    assert!(
        again.code() == Some(0) && !again.stderr().contains("warning"),
        "{again}"
    );
}

#[test]
fn a_dry_run_says_what_a_key_would_sign() {
    let project = project();
    let signed = |words: &[&str]| {
        let words = ["sign", "--all", "--format", "json"].iter().chain(words);
        let answer = project.piton(words).json();
        let is_by = answer["signed"]
            .as_array()
            .is_some_and(|all| all.iter().all(|item| item["author"].is_string()));
        (answer["message"].clone(), is_by)
    };
    project.piton(["sign", "greet"]).succeeded();
    let before = project.files();
    assert_eq!(
        signed(&["--key", &key("ada"), "--dry-run"]),
        (json!("signed 2 of 2 items"), true)
    );
    assert_eq!(project.files(), before);
    assert_eq!(
        signed(&["--key", &key("ada")]),
        (json!("signed 2 of 2 items"), true)
    );
    assert_eq!(
        signed(&["--key", &key("ada"), "--dry-run"]).0,
        "signed 0 of 2 items, 2 unchanged"
    );
    make_key(&project, "bob", "ed25519");
    assert_eq!(
        signed(&["--key", &key("bob"), "--dry-run"]),
        (json!("signed 2 of 2 items"), true)
    );
    let missing = project.piton(["sign", "greet", "--key", "/nope", "--dry-run"]);
    assert_eq!(missing.code(), Some(2), "{missing}");
}

#[test]
fn lines_written_by_hand_are_interpreted_as_ssh_does() {
    let project = project();
    sign(&project, "ada");
    let allowed = |options: &str| {
        project.bash(&format!(
            "mkdir -p ~/.config/piton; printf '# mine\\n*@example.com {options} %s\\n' \"$(cat ~/.ssh/ada.pub)\" \
             > ~/.config/piton/allowed_signers"
        ));
    };
    allowed("");
    assert_eq!(refusal(&project).0, Some(0));
    allowed("namespaces=\"git,piton-*\"");
    assert_eq!(refusal(&project).0, Some(0));
    allowed("valid-after=\"20200101\",valid-before=\"20200201\"");
    assert_refused(&project, "which is not valid now");
    allowed("valid-after=\"29990101\"");
    assert_refused(&project, "which is not valid now");
    allowed("namespaces=\"git\"");
    assert_refused(&project, "not trusted for items");
    project.bash("echo nonsense > ~/.config/piton/allowed_signers");
    assert_refused(&project, "which is not trusted");
    project.bash("rm -r ~/.config/piton");
    assert_refused(&project, "which is not trusted");
}

#[test]
fn a_signature_belongs_to_one_item() {
    let script = "#!/usr/bin/env bash\n# tool_type: bash\n# version: 1.0.0\n# executor: bash_runtime\n# description: d\ntouch made\n";
    let project = TestProject::new()
        .file(".ai/tools/one.sh", script)
        .committed();
    make_key(&project, "ada", "ed25519");
    sign(&project, "ada");
    trust(&project, "ada");
    let project = project.variable("PITON_SIGNATURE_REQUIRE", "author");
    project.piton(["tool", "run", "one"]).succeeded();
    project.bash("rm made; cp .ai/tools/one.sh .ai/tools/two.sh; cp .ai/tools/one.sh.sshsig .ai/tools/two.sh.sshsig");
    let ran = project.piton(["tool", "run", "two"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(
        ran.stderr().contains("for other content or another item"),
        "{ran}"
    );
    assert!(!project.root().join("made").exists());
}

#[test]
fn a_file_that_is_not_an_item_signature_is_refused() {
    let project = project();
    sign(&project, "ada");
    trust(&project, "ada");
    let file = project.root().join(".ai/tools/greet/tool.yaml.sshsig");
    for text in [
        "",
        "hello",
        "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n",
        &"x".repeat(100_000),
    ] {
        fs::write(&file, text).expect("writable");
        assert_refused(&project, "has an unusable signature");
    }
    // A signature for git, over exactly the right text.
    let hash = project
        .piton(["sign", "--check", "greet", "--format", "json"])
        .json();
    let hash = hash["items"][0]["signature"]["hash"]
        .as_str()
        .expect("a hash")
        .to_owned();
    project.bash(&format!(
        "printf 'piton item v1\\ntool greet\\nsha256:{hash}\\n' | ssh-keygen -q -Y sign -n git -f ~/.ssh/ada \
         > .ai/tools/greet/tool.yaml.sshsig"
    ));
    assert_refused(&project, "it was made for `git`");
    fs::remove_file(&file).expect("removable");
    project.bash("mkfifo .ai/tools/greet/tool.yaml.sshsig || true");
    let (code, _) = refusal(&project);
    assert_eq!(code, Some(3));
}

#[test]
fn each_item_of_a_run_is_judged_before_the_first_step() {
    let project = project();
    project
        .piton(["sign", "walk", "--key", &key("ada"), "--checkpoint", "auto"])
        .succeeded();
    trust(&project, "ada");
    let project = project.variable("PITON_SIGNATURE_REQUIRE", "author");
    cmd_snapshot!(project.piton(["run", "walk"]), @"
    success: false
    exit_code: 3
    ----- stdout -----
    ----- stderr -----
    error: only items signed by a trusted author may run, and `.ai/tools/greet/tool.yaml` has no author's signature

    hint: read it, then sign it with `piton sign --key KEY ITEM`, or ask its author to
    ");
    assert!(!project.root().join("made").exists());
    // A runtime of the project is part of the chain and must be signed too.
    let project = project
        .file(
            ".ai/tools/my_runtime.yaml",
            "tool_id: my_runtime\ntool_type: runtime\nversion: \"1.0.0\"\ndescription: d\nexecutor: subprocess\n\
             config:\n  command: bash\n",
        )
        .file(".ai/tools/greet/tool.yaml", "tool_id: greet\ntool_type: script\nversion: \"1.0.0\"\ndescription: d\nexecutor: my_runtime\nconfig:\n  entrypoint: run.sh\n");
    project
        .piton([
            "sign",
            "greet",
            "walk",
            "--key",
            &key("ada"),
            "--checkpoint",
            "auto",
        ])
        .succeeded();
    let ran = project.piton(["run", "walk"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(
        ran.stderr().contains(".ai/tools/my_runtime.yaml")
            && !ran.stderr().contains("greet/tool.yaml"),
        "{ran}"
    );
}

#[test]
fn a_copy_of_an_item_keeps_a_signature_that_holds() {
    let project = project();
    sign(&project, "ada");
    trust(&project, "ada");
    let steps = "<step name=\"copy\"><load item_type=\"tool\" item_id=\"greet\" source=\"user\" destination=\"project\"/></step>";
    let text = format!(
        "# D\n\n```xml\n<directive name=\"fetch\" version=\"1.0.0\"><metadata><description>d</description><permissions>\
         <load>*</load><write resource=\"filesystem\" path=\".ai/**\"/></permissions></metadata>\
         <process>{steps}</process></directive>\n```\n"
    );
    let project = project.file(".ai/directives/fetch.md", text);
    project
        .bash("mkdir -p ~/.ai/tools; mv .ai/tools/greet ~/.ai/tools/; rm .ai/directives/walk.md*");
    project.piton(["run", "fetch"]).succeeded();
    assert!(
        project
            .root()
            .join(".ai/tools/greet/tool.yaml.sshsig")
            .exists()
    );
    assert_eq!(author(&project), "valid");
    assert_eq!(refusal(&project).0, Some(0));
}

#[test]
fn a_directive_cannot_sign_as_a_person() {
    let steps = "<step name=\"s\"><sign item_id=\"walk\" key=\"~/.ssh/ada\"/></step>";
    let text = format!(
        "# D\n\n```xml\n<directive name=\"cheat\" version=\"1.0.0\"><metadata><description>d</description><permissions>\
         <sign>*</sign><write resource=\"filesystem\" path=\"**\"/></permissions></metadata>\
         <process>{steps}</process></directive>\n```\n"
    );
    let project = project().file(".ai/directives/cheat.md", text);
    let ran = project.piton(["run", "cheat"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr().contains("`sign` has no parameter `key`"),
        "{ran}"
    );
    assert!(
        !project.files().iter().any(|file| file.ends_with(".sshsig")),
        "{ran}"
    );
}

#[test]
fn keys_that_cannot_be_used_are_explained() {
    let project = project();
    project.bash(
        "cd ~/.ssh; ssh-keygen -q -t ed25519 -N secret -C locked -f locked; cp ada open; chmod 644 open; \
         cp ada.pub alone.pub; echo junk > junk; chmod 600 junk",
    );
    let sign = |key: &str| project.piton(["sign", "greet", "--key", key]);
    cmd_snapshot!(sign("~/.ssh/none"), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot read the key `[HOME]/.ssh/none`
      caused by: No such file or directory (os error 2)

    hint: name a private key such as `~/.ssh/id_ed25519`, or a `.pub` whose private half an agent holds; `ssh-keygen -t ed25519` makes one
    ");
    cmd_snapshot!(sign("~/.ssh/junk"), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[HOME]/.ssh/junk` is not an SSH key

    hint: name a private key, or the `.pub` of one that an agent holds
    ");
    cmd_snapshot!(sign("~/.ssh"), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `[HOME]/.ssh` is not an SSH key

    hint: name a private key, or the `.pub` of one that an agent holds
    ");
    cmd_snapshot!(sign("~/.ssh/open"), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: others may read the private key `[HOME]/.ssh/open`

    hint: `chmod 600 '[HOME]/.ssh/open'`
    ");
    cmd_snapshot!(sign("~/.ssh/alone.pub"), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: the private half of `[HOME]/.ssh/alone.pub` is neither beside it nor in an agent

    hint: add it to an agent with `ssh-add`, or name the private key
    ");
    // Without a terminal piton cannot ask for the passphrase.
    let mut command = project.command_under("setsid", ["--wait"]);
    let output = command
        .args(["sign", "greet", "--key", "~/.ssh/locked"])
        .output()
        .expect("setsid starts");
    cmd_snapshot!(project.ran(output), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: the key `[HOME]/.ssh/locked` is locked, and its passphrase was wrong or not given

    hint: do it at a terminal, where it is asked for, or unlock it with `ssh-add '[HOME]/.ssh/locked'`
    ");
    let mut command = project.command(["sign", "greet", "--key", "~/.ssh/ada"]);
    cmd_snapshot!(project.ran(command.env("PATH", "bin:/nowhere").output().expect("piton starts")), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: signatures of authors need the program `ssh-keygen`, which is not on the search path

    hint: install OpenSSH 8.2 or later; relative folders of the search path and those of the project do not count
    ");
    project.assert_clean();
}

/// An ssh agent that ends with the test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_signs_with_the_private_half_that_only_it_has() {
    let project = project();
    let socket = project.home().join("agent");
    let mut command = project.hermetic("ssh-agent", &project.root());
    command
        .args(["-D", "-a"])
        .arg(&socket)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _agent = Agent(command.spawn().expect("ssh-agent starts"));
    let deadline = Instant::now() + Duration::from_mins(1);
    while !socket.exists() {
        assert!(Instant::now() < deadline, "the agent does not begin");
        thread::sleep(Duration::from_millis(5));
    }
    let project = project.variable("SSH_AUTH_SOCK", &socket.to_string_lossy());
    project.bash("ssh-add -q ~/.ssh/ada; rm ~/.ssh/ada");
    sign_with_public_half(&project);
    trust(&project, "ada");
    assert_eq!(refusal(&project).0, Some(0));
    project.bash("ssh-add -q -D");
    project.bash("echo >> .ai/tools/greet/run.sh");
    let ran = project.piton(["sign", "greet", "--key", "~/.ssh/ada.pub"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr().contains("neither beside it nor in an agent"),
        "{ran}"
    );
}

fn sign_with_public_half(project: &TestProject) {
    project
        .piton([
            "sign",
            "--all",
            "--key",
            "~/.ssh/ada.pub",
            "--checkpoint",
            "auto",
        ])
        .succeeded();
    project.assert_clean();
}

#[test]
fn files_that_run_with_the_tool_must_be_covered_too() {
    let parser = "def parse(content):\n    return {\"text\": content}\n";
    let project = TestProject::new()
        .tool(
            "greet",
            "outputs:\n  format: text\n  parser: own",
            "echo hello",
        )
        .file(".ai/parsers/own.py", parser)
        .committed();
    make_key(&project, "ada", "ed25519");
    sign(&project, "ada");
    trust(&project, "ada");
    let run = |level: &str| {
        let mut command = project.command(["tool", "run", "greet"]);
        project.ran(
            command
                .env("PITON_SIGNATURE_REQUIRE", level)
                .output()
                .expect("piton starts"),
        )
    };
    run("none").succeeded();
    for level in ["integrity", "author"] {
        let ran = run(level);
        assert_eq!(ran.code(), Some(3), "{ran}");
        assert!(
            ran.stderr()
                .contains("no stamp covers `.ai/parsers/own.py`"),
            "{ran}"
        );
    }
    let hash = project.bash("sha256sum < .ai/parsers/own.py");
    let hash = hash.split_whitespace().next().expect("a hash");
    let project = project.file(
        ".ai/parsers/own.py",
        format!("# kiwi-mcp:validated:2026-01-02T03:04:05Z:{hash}\n{parser}"),
    );
    let mut command = project.command(["tool", "run", "greet"]);
    project
        .ran(
            command
                .env("PITON_SIGNATURE_REQUIRE", "integrity")
                .output()
                .expect("piton starts"),
        )
        .succeeded();
}

#[test]
fn the_signer_is_shown() {
    let project = project();
    sign(&project, "ada");
    trust(&project, "ada");
    let tool = project.piton(["tool", "show", "greet"]).stdout();
    assert!(
        tool.contains("signature  valid, is signed by `ada@example.com`\n"),
        "{tool}"
    );
    let directive = project
        .piton(["directive", "show", "walk", "--format", "json"])
        .json();
    assert_eq!(directive["signature"]["author"]["name"], "ada@example.com");
    let project = project.variable("PITON_SIGNATURE_REQUIRE", "author");
    let plan = project
        .piton(["tool", "run", "greet", "--dry-run", "--format", "json"])
        .json();
    assert_eq!(plan["authors"][0]["name"], "ada@example.com");
    let checked = project.piton(["sign", "--check"]);
    assert_eq!(
        checked.stdout().matches("by ada@example.com").count(),
        2,
        "{checked}"
    );
    let counted = project
        .piton(["sign", "--check", "--format", "json"])
        .json();
    assert_eq!(
        counted["message"],
        json!("2 items: 2 valid, 2 signed by a trusted author")
    );
}

#[test]
fn a_project_can_require_signatures_but_cannot_relax_the_requirement() {
    let project = project().file(".ai/config.yaml", "signature:\n  require: author\n");
    let ran = project.piton(["run", "walk"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    let project = project
        .file(".ai/config.yaml", "signature:\n  require: none\n")
        .home_file(".ai/config.yaml", "signature:\n  require: author\n");
    let ran = project.piton(["run", "walk"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(!project.root().join("made").exists());
}

#[test]
fn a_repository_cannot_choose_the_trusted_signers() {
    let project = project();
    sign(&project, "ada");
    project.bash("echo \"ada@example.com $(cat ~/.ssh/ada.pub)\" > allowed");
    let inside = project
        .root()
        .join("allowed")
        .to_string_lossy()
        .into_owned();
    // The project's own settings are ignored.
    let project = project.file(
        ".ai/config.yaml",
        format!("signature:\n  allowed_signers: {inside}\n"),
    );
    assert_refused(&project, "which is not trusted");
    let setting = project.piton(["config", "signature.allowed_signers"]);
    assert!(
        setting
            .stderr()
            .contains("a project may not set `signature.allowed_signers`"),
        "{setting}"
    );
    // Environment variables are ignored too, because a project may set them.
    let deaf = project.variable("PITON_SIGNATURE_ALLOWED_SIGNERS", &inside);
    assert_refused(&deaf, "which is not trusted");
    // A user setting that names a file inside the project is an error.
    let named = |file: &str| format!("signature:\n  allowed_signers: {file}\n");
    let project = deaf.home_file(".ai/config.yaml", named(&inside));
    let (code, message) = refusal(&project);
    assert_eq!(code, Some(2), "{message}");
    assert!(
        message.contains("must not choose whom you trust"),
        "{message}"
    );
    project.bash("mv allowed ~/allowed; ln -s \"$PWD/allowed\" ~/link; cp ~/allowed allowed");
    let project = project.home_file(".ai/config.yaml", named("~/link"));
    assert_eq!(refusal(&project).0, Some(2));
    let project = project.home_file(".ai/config.yaml", named("~/allowed"));
    assert_eq!(refusal(&project).0, Some(0));
    let mode = fs::metadata(project.home().join("allowed"))
        .expect("there")
        .permissions()
        .mode();
    assert_ne!(mode, 0);
}
