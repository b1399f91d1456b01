//! `piton trust`: the trusted signers.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;

use crate::harness::{TestProject, cmd_snapshot};

const ADA: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKLHrHi7zBh/L3JF0f45dmq4V5eVWEuAT4G4Xncbyfgh ada@example.com";
const BOB: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJLHrHi7zBh/L3JF0f45dmq4V5eVWEuAT4G4Xncbyfgh the laptop of bob";
const FILE: &str = ".config/piton/allowed_signers";

#[test]
fn people_are_added_listed_and_revoked() {
    let project = TestProject::new().file("README", "").committed();
    cmd_snapshot!(project.piton(["trust", "list"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    no trusted keys in `[HOME]/.config/piton/allowed_signers`
    hint: `piton trust add KEY.pub --as NAME` adds one
    ");
    cmd_snapshot!(project.piton(["trust", "add", ADA]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ada@example.com  ssh-ed25519  SHA256:EaC8GtwtwEi03FIzBsrKoEnuG/jQ2vgr11XNkWg+UKA  always  [HOME]/.config/piton/allowed_signers:1
    ----- stderr -----
    ✓ signatures of `ada@example.com` are now trusted
    ");
    cmd_snapshot!(project.piton(["trust", "add", ADA]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ada@example.com  ssh-ed25519  SHA256:EaC8GtwtwEi03FIzBsrKoEnuG/jQ2vgr11XNkWg+UKA  always  [HOME]/.config/piton/allowed_signers:1
    ----- stderr -----
    `ada@example.com` is already trusted
    ");
    cmd_snapshot!(project.piton(["trust", "add", BOB]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: the key does not say whose it is

    hint: say so with `--as NAME`, e.g. `--as ada@example.com`
    ");
    cmd_snapshot!(project.piton(["trust", "add", BOB, "--as", "bob"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    bob  ssh-ed25519  SHA256:Roc1VC4GiPVl++Sz8XEKNT8uvBlW8XfrGopXD+jrGi4  always  [HOME]/.config/piton/allowed_signers:2
    ----- stderr -----
    ✓ signatures of `bob` are now trusted
    ");
    cmd_snapshot!(project.piton(["trust", "list"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ada@example.com  ssh-ed25519  SHA256:EaC8GtwtwEi03FIzBsrKoEnuG/jQ2vgr11XNkWg+UKA  always  [HOME]/.config/piton/allowed_signers:1
    bob              ssh-ed25519  SHA256:Roc1VC4GiPVl++Sz8XEKNT8uvBlW8XfrGopXD+jrGi4  always  [HOME]/.config/piton/allowed_signers:2
    ----- stderr -----
    ");
    cmd_snapshot!(project.piton(["trust", "list", "--format", "json"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    {"signers":[{"name":"ada@example.com","key_type":"ssh-ed25519","fingerprint":"SHA256:EaC8GtwtwEi03FIzBsrKoEnuG/jQ2vgr11XNkWg+UKA","cert_authority":false,"for_items":true,"revoked":false,"file":"[HOME]/.config/piton/allowed_signers","line":1},{"name":"bob","key_type":"ssh-ed25519","fingerprint":"SHA256:Roc1VC4GiPVl++Sz8XEKNT8uvBlW8XfrGopXD+jrGi4","cert_authority":false,"for_items":true,"revoked":false,"file":"[HOME]/.config/piton/allowed_signers","line":2}],"allowed_signers":"[HOME]/.config/piton/allowed_signers","revoked_keys":"[HOME]/.config/piton/revoked_keys"}
    ----- stderr -----
    "#);
    cmd_snapshot!(project.piton(["trust", "revoke", "bib"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: no trusted key has the name `bib`

    hint: did you mean `bob`?
    ");
    cmd_snapshot!(project.piton(["trust", "revoke", "bob"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    bob  ssh-ed25519  SHA256:Roc1VC4GiPVl++Sz8XEKNT8uvBlW8XfrGopXD+jrGi4  revoked  [HOME]/.config/piton/allowed_signers:2
    ----- stderr -----
    ✓ revoked the key of `bob`
    ");
    cmd_snapshot!(project.piton(["trust", "add", BOB, "--as", "bob"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: the key SHA256:Roc1VC4GiPVl++Sz8XEKNT8uvBlW8XfrGopXD+jrGi4 was revoked

    hint: ask for a new key; if it was revoked by mistake, take its line out of `[HOME]/.config/piton/revoked_keys`
    ");
    cmd_snapshot!(project.piton(["trust", "list"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ada@example.com  ssh-ed25519  SHA256:EaC8GtwtwEi03FIzBsrKoEnuG/jQ2vgr11XNkWg+UKA  always  [HOME]/.config/piton/allowed_signers:1
    ----- stderr -----
    ");
    let mode = |file: &str| {
        fs::metadata(project.home().join(file))
            .expect("there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        (
            mode(FILE),
            mode(".config/piton/revoked_keys"),
            mode(".config/piton")
        ),
        (0o600, 0o600, 0o700)
    );
    project.assert_clean();
}

#[test]
fn lines_of_others_stay_as_they_are() {
    let key = ADA.rsplit_once(' ').expect("a comment").0;
    let others = format!(
        "# friends\r\n*@example.org cert-authority,namespaces=\"git\" {key}\n\n  odd line\nada@example.com valid-before=\"20300101\" {key} old"
    );
    let project = TestProject::new()
        .file("README", "")
        .committed()
        .home_file(FILE, &others);
    assert_eq!(
        project.piton(["trust", "add", BOB, "--as", "bob"]).code(),
        Some(0)
    );
    let text = fs::read_to_string(project.home().join(FILE)).expect("readable");
    let bob = BOB.split(' ').take(2).collect::<Vec<_>>().join(" ");
    assert_eq!(
        text,
        format!("{others}\nbob namespaces=\"piton-content\" {bob}\n")
    );
    cmd_snapshot!(project.piton(["trust", "list"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    *@example.org    ssh-ed25519  SHA256:EaC8GtwtwEi03FIzBsrKoEnuG/jQ2vgr11XNkWg+UKA  not for items, certificate authority  [HOME]/.config/piton/allowed_signers:2
    ada@example.com  ssh-ed25519  SHA256:EaC8GtwtwEi03FIzBsrKoEnuG/jQ2vgr11XNkWg+UKA  until 20300101  [HOME]/.config/piton/allowed_signers:5
    bob              ssh-ed25519  SHA256:Roc1VC4GiPVl++Sz8XEKNT8uvBlW8XfrGopXD+jrGi4  always  [HOME]/.config/piton/allowed_signers:6
    ----- stderr -----
    ");
    assert_eq!(project.piton(["trust", "revoke", "bob"]).code(), Some(0));
    assert_eq!(
        fs::read_to_string(project.home().join(FILE)).expect("readable"),
        format!("{others}\n")
    );
}

#[test]
fn what_is_no_public_key_is_refused() {
    let project = TestProject::new().file("README", "").committed();
    project.bash(
        "mkdir -p ~/.ssh; ssh-keygen -q -t ed25519 -N '' -C x -f ~/.ssh/x; cat ~/.ssh/x.pub ~/.ssh/x.pub > ~/.ssh/two",
    );
    cmd_snapshot!(project.piton(["trust", "add", "~/.ssh/x"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: this is a private key, which must stay with its owner; it was not stored

    hint: give the public half, the file that ends in `.pub`
    ");
    cmd_snapshot!(project.piton(["trust", "add", "~/.ssh/two"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: these are several keys

    hint: add them one by one, each with its name
    ");
    cmd_snapshot!(project.piton(["trust", "add", "~/.ssh/none.pub"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot read the key `~/.ssh/none.pub`
      caused by: No such file or directory (os error 2)

    hint: name a `.pub` file, a line `ssh-ed25519 AAAA… name`, or `-` to read one
    ");
    cmd_snapshot!(project.piton(["trust", "add", "ssh-ed25519 AAAA x"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: this is not a public SSH key

    hint: a public key is one line such as `ssh-ed25519 AAAA… name`, in a file that ends in `.pub`
    ");
    cmd_snapshot!(project.piton(["trust", "add", ADA, "--as", "*@example.com"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: `*@example.com` is not a name

    hint: write a name such as `ada@example.com`: no blanks, commas, quotes or patterns
    ");
    let written: Vec<_> = fs::read_dir(project.home().join(".config"))
        .into_iter()
        .flatten()
        .collect();
    assert!(written.is_empty(), "{written:?}");
}

#[test]
fn a_key_is_read_from_the_input() {
    let project = TestProject::new()
        .file("README", "")
        .committed()
        .variable("XDG_CONFIG_HOME", "/nowhere/../tmp");
    let folder = project.home().join("settings");
    let project = project.variable("XDG_CONFIG_HOME", &folder.to_string_lossy());
    let mut command = project.command(["trust", "add", "-", "--format", "json"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("piton starts");
    child
        .stdin
        .take()
        .expect("an input")
        .write_all(ADA.as_bytes())
        .expect("written");
    let ran = project.ran(child.wait_with_output().expect("piton ends"));
    assert_eq!(ran.json()["signers"][0]["name"], "ada@example.com");
    assert!(folder.join("piton/allowed_signers").exists());
}

#[test]
fn signers_can_be_trusted_from_any_folder() {
    let project = TestProject::without_git();
    fs::create_dir_all(project.home().join(".config")).expect("a folder");
    for folder in [project.home(), project.home().join(".config"), "/".into()] {
        let folder = folder.to_string_lossy().into_owned();
        let ran = project.piton(["-C", &folder, "trust", "list"]);
        assert_eq!(ran.code(), Some(0), "{folder}: {ran}");
    }
    let home = project.home().to_string_lossy().into_owned();
    let ran = project.piton(["-C", &home, "trust", "add", ADA]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(
        project
            .piton(["trust", "list"])
            .stdout()
            .contains("ada@example.com")
    );
}

#[test]
fn concurrent_trust_commands_keep_all_signers() {
    let project = TestProject::new().file("README", "").committed();
    let names: Vec<String> = (0..12)
        .map(|number| format!("person{number}@example.com"))
        .collect();
    let start = |name: &String| {
        let mut command = project.command(["trust", "add", ADA, "--as", name]);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("piton starts")
    };
    let all: Vec<_> = names.iter().map(start).collect();
    for mut child in all {
        assert!(child.wait().expect("piton ends").success());
    }
    let list = project.piton(["trust", "list"]);
    for name in &names {
        assert_eq!(
            list.stdout().matches(&format!("{name} ")).count(),
            1,
            "{name}\n{list}"
        );
    }
}

#[test]
fn a_link_to_the_file_stays_a_link() {
    let project = TestProject::new()
        .file("README", "")
        .committed()
        .home_file("dotfiles/signers", "# mine\n");
    let link = project.home().join(FILE);
    fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
    symlink("../../dotfiles/signers", &link).expect("a link");
    assert_eq!(project.piton(["trust", "add", ADA]).code(), Some(0));
    assert!(link.is_symlink());
    let text = fs::read_to_string(project.home().join("dotfiles/signers")).expect("readable");
    assert!(text.starts_with("# mine\nada@example.com "), "{text}");
    // The target of the link may be missing, e.g. on an unmounted disk.
    fs::remove_file(project.home().join("dotfiles/signers")).expect("removable");
    cmd_snapshot!(project.piton(["trust", "add", ADA]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: cannot read `[HOME]/.config/piton/allowed_signers`
      caused by: the link `[HOME]/.config/piton/allowed_signers` is dangling

    hint: check that it exists, and its permissions and those of its folder
    ");
    assert!(link.is_symlink() && !project.home().join("dotfiles/signers").exists());
}

#[test]
fn a_name_cannot_smuggle_in_options_or_lines() {
    let project = TestProject::new().file("README", "").committed();
    for name in [
        "a b",
        "a,b",
        "*",
        "a?",
        "!a",
        "a\"",
        "a\nb",
        "#a",
        "",
        "a namespaces=\"*\"",
        "-I",
        "a\u{a0}b",
        "a\tb",
    ] {
        let ran = project.piton(["trust", "add", ADA, &format!("--as={name}")]);
        assert_eq!(ran.code(), Some(2), "{name:?} {ran}");
    }
    // The comment of a key cannot either.
    let key = ADA.rsplit_once(' ').expect("a comment").0;
    let ran = project.piton([
        "trust",
        "add",
        &format!("{key} x cert-authority"),
        "--as",
        "ada",
    ]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let text = fs::read_to_string(project.home().join(FILE)).expect("readable");
    assert_eq!(text, format!("ada namespaces=\"piton-content\" {key}\n"));
}
