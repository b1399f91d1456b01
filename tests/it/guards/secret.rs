//! H18: secrets are not committed and not repeated.

use std::fs;

use super::{Picture, Told, exec, exec_with, simple, told};
use crate::harness::TestProject;

/// Put together here, so that this file holds no token itself.
fn github_token() -> String {
    ["ghp", "_Zx81kQv7LmT3nRb5Wc2Yd9Fh4Gj6Ks0Pq1Ue"].concat()
}

fn aws_key() -> String {
    ["AKIA", "Q3ZT5KX2MWB7NRFH"].concat()
}

/// A project, and a file at home with a secret that a command can copy without naming it.
fn tempted(secret: &str) -> TestProject {
    simple().home_file("secret", secret)
}

/// The secret is neither in what was said nor in the journal nor in a message.
fn assert_untold(project: &TestProject, told: &Told, secret: &str) {
    assert!(!told.ran.to_string().contains(secret), "said");
    let human = project.piton(["checkpoint"]);
    assert!(!human.to_string().contains(secret), "said to people");
    let own = walkdir::WalkDir::new(project.root().join(".git/piton")).into_iter();
    // The store holds the files as they are on disk, the one with the secret too.
    for file in own
        .filter_entry(|entry| entry.file_name() != "store")
        .filter_map(Result::ok)
    {
        if file.file_type().is_file() {
            let bytes = fs::read(file.path()).expect("readable");
            assert!(
                !String::from_utf8_lossy(&bytes).contains(secret),
                "{}",
                file.path().display()
            );
        }
    }
    assert!(
        !project
            .git(["log", "--all", "--format=%B"])
            .contains(secret),
        "in a message"
    );
}

#[test]
fn h18_a_secret_stops_the_commit_and_stays_on_disk() {
    let key = format!(
        "-----BEGIN {} KEY-----\n{}\n",
        "OPENSSH PRIVATE",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE\n".repeat(8)
    );
    let cases = [
        (
            "deploy.sh",
            format!("export TOKEN={}\n", github_token()),
            "github-token",
            github_token(),
        ),
        (
            "aws.ini",
            format!("[default]\nid = {}\n", aws_key()),
            "aws-access-token",
            aws_key(),
        ),
        (
            "id_rsa",
            key,
            "private-key",
            "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE".to_owned(),
        ),
        (
            ".env",
            "DB_HOST=db.internal.corp-net.io\n".to_owned(),
            "environment-file",
            "db.internal.corp-net.io".to_owned(),
        ),
    ];
    for (path, content, rule, secret) in cases {
        let project = tempted(&content);
        let before = Picture::of(&project);
        let failed = exec(
            &project,
            &format!("cp ../home/secret {path}; echo a > a.txt"),
        );
        failed.assert_end("1 failed SECRET_FOUND");
        assert!(failed.message().contains(rule), "{}", failed.message());
        assert!(
            failed.message().contains(&format!("`{path}` line ")),
            "{}",
            failed.message()
        );
        assert_eq!(project.read(path), content);
        assert_eq!(project.read("a.txt"), "a\n");
        let now = Picture::of(&project);
        assert_eq!((&now.refs, &now.staged), (&before.refs, &before.staged));
        before.assert_only(&project, &[path, "a.txt"]);
        assert_untold(&project, &failed, &secret);
        // `piton checkpoint` does not let it through either.
        told(&project, &["checkpoint"]).assert_end("1 failed SECRET_FOUND");
        told(&project, &["checkpoint", "--all"]).assert_end("1 failed SECRET_FOUND");
        // Without it, the rest can be committed.
        project.bash(&format!("rm {path}"));
        told(&project, &["checkpoint", "a.txt"]).assert_end("0 committed -");
        project.assert_clean();
    }
}

#[test]
fn h18_passwords_in_the_files_of_programs_stop_the_commit() {
    let password = ["tR7wq2", "ZxK9mB4v"].concat();
    let cases = [
        (
            "app.toml",
            format!("url = \"postgres://app:{password}@db.acme.io/app\"\n"),
            "database-url",
        ),
        (
            "netrc",
            format!("machine git.acme.io login me password {password}\n"),
            "netrc-password",
        ),
        (
            "docker.json",
            // `me:` and the password, in base64.
            "{\"auths\": {\"r.acme.io\": {\"auth\": \"bWU6dFI3d3EyWnhLOW1CNHY=\"}}}\n".to_owned(),
            "basic-auth",
        ),
    ];
    for (path, content, rule) in cases {
        let project = tempted(&content);
        let failed = exec(&project, &format!("cp ../home/secret {path}"));
        failed.assert_end("1 failed SECRET_FOUND");
        assert!(
            failed
                .message()
                .contains(&format!("{rule} in `{path}` line 1")),
            "{}",
            failed.message()
        );
        assert_untold(&project, &failed, &password);
    }
    // The same forms with a placeholder and for this machine are no secrets.
    let project = tempted(
        "postgres://postgres:postgres@localhost/app postgres://app:${PASSWORD}@db.acme.io/app\n\
         machine git.acme.io login me password <password>\n",
    );
    exec(&project, "cp ../home/secret app.toml").assert_end("0 committed -");
    project.assert_clean();
}

#[test]
fn h18_a_secret_in_a_name_or_a_link_target_stops_the_commit() {
    let scripts = [
        ("echo a > \"$(cat ../home/secret).txt\"", "(its name)"),
        (
            "mkdir \"$(cat ../home/secret)\"; echo a > \"$(cat ../home/secret)/a\"; echo b > \"$(cat ../home/secret)/b\"",
            "(its name)",
        ),
        ("ln -s \"/srv/$(cat ../home/secret)\" link", "(its target)"),
    ];
    for (script, place) in scripts {
        let project = tempted(&github_token());
        let failed = exec(&project, script);
        failed.assert_end("1 failed SECRET_FOUND");
        let message = failed.message();
        assert_eq!(message.matches("github-token in ").count(), 1, "{message}");
        assert!(message.contains(place), "{message}");
        assert!(!message.contains(&github_token()), "{message}");
    }
    // Ordinary names and targets, and a file that had such a name before, are no news.
    let project = TestProject::new().file(&github_token(), "x\n").committed();
    exec(
        &project,
        &format!("echo y > {}; ln -s ../secrets/token link", github_token()),
    )
    .assert_end("0 committed -");
}

#[test]
fn h18_warn_commits_and_says_so() {
    let project =
        tempted(&github_token()).home_file(".ai/config.yaml", "checkpoint:\n  secrets: warn\n");
    let made = exec(&project, "cp ../home/secret deploy.sh");
    made.assert_end("0 committed -");
    let notes = made.notes();
    assert!(
        notes.iter().any(|note| note.starts_with("looks like a secret: github-token in `deploy.sh` line 1")),
        "{notes:?}"
    );
    assert!(!made.ran.to_string().contains(&github_token()));
    project.assert_clean();
}

#[test]
fn h18_the_user_may_allow_a_path_or_a_fingerprint() {
    let project = tempted(&github_token()).home_file(
        ".ai/config.yaml",
        "checkpoint:\n  secrets_allowed: ['testdata/**']\n",
    );
    exec(&project, "mkdir testdata; cp ../home/secret testdata/token").assert_end("0 committed -");
    exec(&project, "cp ../home/secret token").assert_end("1 failed SECRET_FOUND");
    project.bash("rm token");
    // The fingerprint is what `warn` shows.
    let warned = tempted(&github_token()).variable("PITON_CHECKPOINT_SECRETS", "warn");
    let notes = exec(&warned, "cp ../home/secret token").notes();
    let fingerprint = notes[0]
        .rsplit('(')
        .next()
        .expect("a fingerprint")
        .trim_end_matches(')')
        .to_owned();
    assert_eq!(fingerprint.len(), 16, "{notes:?}");
    let settings = format!("checkpoint:\n  secrets_allowed: ['{fingerprint}']\n");
    let project = tempted(&github_token())
        .home_file(".ai/config.yaml", settings)
        .home_file("other", aws_key());
    exec(&project, "cp ../home/secret token").assert_end("0 committed -");
    exec(&project, "cp ../home/other key").assert_end("1 failed SECRET_FOUND");
}

#[test]
fn h18_the_error_names_the_fingerprint_to_allow() {
    let project = tempted(&github_token());
    let failed = exec(&project, "cp ../home/secret token");
    failed.assert_end("1 failed SECRET_FOUND");
    let fingerprint = failed
        .message()
        .rsplit('(')
        .next()
        .unwrap_or_default()
        .split(')')
        .next()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(fingerprint.len(), 16, "{}", failed.message());
    let project = project.home_file(
        ".ai/config.yaml",
        format!("checkpoint:\n  secrets_allowed: ['{fingerprint}']\n"),
    );
    told(&project, &["checkpoint"]).assert_end("0 committed -");
    project.assert_clean();
}

#[test]
fn h18_a_project_can_neither_allow_nor_weaken() {
    for setting in [
        "checkpoint:\n  secrets: warn\n",
        "checkpoint:\n  secrets_allowed: ['**']\n",
    ] {
        let project = tempted(&github_token())
            .file(".ai/config.yaml", setting)
            .committed();
        let failed = exec(&project, "cp ../home/secret token");
        failed.assert_end("1 failed SECRET_FOUND");
        assert!(failed.ran.stderr().contains("warning: "), "{}", failed.ran);
        assert!(
            failed.ran.stderr().contains("checkpoint.secrets"),
            "{}",
            failed.ran
        );
    }
}

#[test]
fn h18_hashes_are_no_secrets() {
    let project = simple();
    let lock = "[[package]]\nname = \"x\"\nchecksum = \"7d4bf9e1a3c5f20b8e6d91a7c3f5e0b2d4a6c8e1f3b5d7a9c0e2f4b6d8a1c3e5\"\n";
    let npm = "{\"integrity\": \"sha512-Zx81kQv7LmT3nRb5Wc2Yd9Fh4Gj6Ks0Pq1UeAb3Cd5Ef7Gh9Ij1Kl3Mn5Op7Qr9St1Uv3Wx5Yz7Ab9Cd1Ef3Gg==\"}\n";
    fs::write(project.home().join("Cargo.lock"), lock).expect("a file");
    fs::write(project.home().join("package-lock.json"), npm).expect("a file");
    exec(
        &project,
        "cp ../home/Cargo.lock ../home/package-lock.json .; git rev-parse HEAD HEAD^{tree} > commits.txt; \
         echo \"pinned = $(git rev-parse HEAD)\" > pins.toml",
    )
    .assert_end("0 committed -");
    project.assert_clean();
}

#[test]
fn h18_a_secret_that_was_there_before_does_not_stop_other_changes() {
    let project = TestProject::new()
        .file("old.txt", format!("x\n{}\n", github_token()))
        .committed();
    exec(&project, "echo more >> old.txt").assert_end("0 committed -");
    project.assert_clean();
    // To copy it elsewhere is news.
    exec(&project, "cp old.txt new.txt").assert_end("1 failed SECRET_FOUND");
}

#[test]
fn h18_an_allow_list_that_is_no_list_of_patterns_is_named() {
    let project = tempted("x").home_file(
        ".ai/config.yaml",
        "checkpoint:\n  secrets_allowed: ['a[']\n",
    );
    let ran = project.piton(["exec", "--", "touch", "ran"]);
    assert_eq!(ran.code(), Some(2), "{ran}");
    assert!(ran.stderr().contains("secrets_allowed"), "{ran}");
    assert!(
        !project.root().join("ran").exists(),
        "it is told before the command runs"
    );
}

#[test]
fn h18_a_secret_on_the_command_line_is_redacted_everywhere() {
    let (project, token) = (simple(), github_token());
    let made = exec_with(
        &project,
        &["--name", &token, "-m", &format!("feat: {token}")],
        &format!(": {token}; echo a > a.txt"),
    );
    made.assert_end("0 committed -");
    assert_untold(&project, &made, &token);
    let message = project.git(["log", "-1", "--format=%B"]);
    assert!(
        message.starts_with("feat: [redacted:github-token#"),
        "{message}"
    );
    let failed = exec(&project, &format!(": {token}; exit 1"));
    assert_untold(&project, &failed, &token);
    // The command itself gets it as it is.
    exec(
        &project,
        &format!(
            "[ {} = 40 ]; [ $(printf %s {token} | wc -c) = 40 ]",
            token.len()
        ),
    )
    .assert_end("0 no_changes -");
    project.assert_clean();
}

#[test]
fn h18_a_secret_in_a_commit_of_the_command_itself_fails_the_step() {
    let commit = "cp ../home/secret k; git add k; git commit -qm k";
    let removed = format!("{commit}; git rm -q k; git commit -qm gone");
    let more = format!("{commit}; echo a > a.txt");
    for mode in ["auto", "explicit"] {
        for script in [commit, &removed, &more] {
            let project = tempted(&github_token());
            let failed = exec_with(&project, &["--checkpoint", mode], script);
            failed.assert_end("1 failed SECRET_FOUND");
            assert_untold(&project, &failed, &github_token());
            // The history is the user's: it stays.
            let kept = project.git(["log", "--format=%s"]);
            assert!(kept.contains("k\n"), "{kept}");
        }
        let harmless = tempted("nothing\n");
        let made = exec_with(&harmless, &["--checkpoint", mode], commit);
        assert_eq!(made.ran.code(), Some(0), "{}", made.ran);
    }
}
