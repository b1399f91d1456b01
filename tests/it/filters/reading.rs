//! Looking back at filtered files, secrets in them, and what no filter costs.

use super::{exec, piton, traces, upper};
use crate::harness::{Ran, TestProject};
use crate::repository_kinds::life::exec_in;

fn lfs() -> TestProject {
    let project = TestProject::new().file("plain.txt", "plain\n");
    project.bash(
        "git lfs install --local >/dev/null; git lfs track '*.bin' >/dev/null
         printf 'one\\0' > a.bin; git add -A; git commit -qm start",
    );
    project
}

#[test]
fn restore_and_show_give_the_bytes_that_were_on_disk() {
    for (project, file) in [(upper("*.up filter=up\n"), "a.up"), (lfs(), "a.bin")] {
        let root = project.root();
        let first = exec_in(
            &project,
            &root,
            &format!("printf 'Two\\n' > {file}; echo New > new-{file}"),
        );
        let second = exec_in(
            &project,
            &root,
            &format!("printf 'Three\\n' > {file}; rm new-{file}"),
        );
        let show = |what: &str| piton(&project, &["show", what]).stdout();
        assert_eq!(show(&format!("{file}@{first}")), "Two\n", "{file}");
        assert_eq!(show(&format!("{file}@{second}:before")), "Two\n", "{file}");
        assert_eq!(show(&format!("{file}@{second}")), "Three\n", "{file}");
        assert_eq!(show(&format!("new-{file}@{first}")), "New\n", "{file}");
        piton(&project, &["restore", &format!("{first}/1")]);
        assert_eq!(project.read(file), "Two\n");
        assert_eq!(project.read(&format!("new-{file}")), "New\n");
        project.assert_clean();
        piton(&project, &["undo"]);
        assert_eq!(project.read(file), "Three\n");
        project.assert_clean();
    }
}

const SECRET: &str = "key = \"AKIA2OGYBAH6STMMNXWZ\"\n";

fn refused(ran: &Ran, file: &str) {
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr().contains("SECRET_FOUND") && ran.stderr().contains(file),
        "{ran}"
    );
    assert!(!ran.stderr().contains("AKIA2OGYBAH6STMMNXWZ"), "{ran}");
}

#[test]
fn secrets_are_searched_in_the_content_and_not_only_in_the_pointer() {
    let project = lfs();
    refused(
        &project.exec(&format!("echo '{SECRET}' > keys.bin")),
        "keys.bin",
    );
    assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
    project.bash("rm -f keys.bin");
    // One that was there before is no news.
    project.bash(&format!(
        "echo '{SECRET}' > old.bin; git add -A; git commit -qm by-hand"
    ));
    exec(&project, "echo more >> old.bin");
    // A filter that encrypts hides it in what git stores.
    let project = TestProject::new()
        .file(".gitattributes", "*.key filter=rot\n")
        .committed();
    project.bash(
        "git config filter.rot.clean 'tr A-Za-z N-ZA-Mn-za-m'; git config filter.rot.smudge 'tr A-Za-z N-ZA-Mn-za-m'",
    );
    refused(
        &project.exec(&format!("echo '{SECRET}' > my.key")),
        "my.key",
    );
}

#[test]
fn a_filter_that_matches_no_changed_file_costs_no_process() {
    let project = upper("*.up filter=up\n");
    let trace = project.home().join("exec-trace");
    let mut command = project.command(["exec", "--", "sh", "-c", "echo p >> plain.txt"]);
    // Git is not even started: there is none on the search path, and the step is committed all the same.
    let shell = project.home().join("only-sh");
    std::fs::create_dir(&shell).expect("a folder");
    std::os::unix::fs::symlink("/bin/sh", shell.join("sh")).expect("a link");
    let ran = project.ran(command.env("PATH", &shell).output().expect("piton starts"));
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(traces(&project), 0);
    assert!(!trace.exists());
    project.assert_clean();
    assert_eq!(
        project.git(["show", "--format=", "--name-only", "HEAD"]),
        "plain.txt\n"
    );
}

#[test]
fn a_changed_filter_is_noticed_after_exec_and_in_explicit_mode() {
    let scripts = [
        "git config filter.up.clean 'touch ../sprung; cat'; echo two > a.up",
        "echo 'touch ../sprung; cat' > clean.sh; echo two > a.up",
    ];
    for (script, mode) in scripts
        .iter()
        .flat_map(|script| [(script, "auto"), (script, "explicit")])
    {
        let project = TestProject::new()
            .file(".gitattributes", "*.up filter=up\n")
            .file("a.up", "one\n")
            .file("clean.sh", "cat\n")
            .tool("sly", "mutates_state: true\nisolation: trusted", script)
            .committed();
        project.bash("git config filter.up.clean 'sh ./clean.sh'");
        for command in [
            vec!["exec", "--checkpoint", mode, "--", "sh", "-c", script],
            vec!["tool", "run", "sly", "--checkpoint", mode],
        ] {
            let ran = project.piton(&command);
            assert!(
                ran.to_string().contains("FILTER_CHANGED"),
                "{command:?}: {ran}"
            );
            assert_eq!(ran.code(), Some(1), "{command:?}: {ran}");
            assert!(
                !project.root().with_file_name("sprung").exists(),
                "{command:?}"
            );
            assert_eq!(project.git(["rev-list", "--count", "HEAD"]), "1\n");
            project
                .bash("git config filter.up.clean 'sh ./clean.sh'; git checkout -q -- clean.sh a.up; rm -f ../sprung");
        }
    }
}
