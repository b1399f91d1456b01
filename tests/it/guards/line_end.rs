//! H22 and G105: line ends and `$Id$`. Commits hold what `git add` stores, roll backs every byte.

use std::fs;

use super::{Picture, exec, told};
use crate::harness::TestProject;

/// How a project may convert content: `core.autocrlf` and the lines of `.gitattributes`.
const WAYS: [(&str, &str); 18] = [
    ("false", ""),
    ("true", ""),
    ("input", ""),
    ("false", "* text=auto\n"),
    ("true", "* text=auto\n"),
    ("false", "*.txt text eol=crlf\n"),
    ("false", "*.txt text eol=lf\n"),
    ("input", "*.txt -text\n"),
    ("false", "*.txt ident\n"),
    ("input", "*.txt text ident\n"),
    ("true", "*.txt text=auto eol=lf\n"),
    ("input", "* text=auto eol=crlf\n"),
    ("false", "*.txt eol=crlf\n"),
    ("false", "*.txt eol=lf -text\n"),
    ("false", "*.txt crlf=input\n"),
    ("true", "*.txt -crlf\n"),
    ("false", "*.txt text=unknown crlf=auto\n"),
    ("true", "[attr]mine text=auto\n*.txt mine\nlf.txt !text\n"),
];

/// Files in every kind of line end, as they are in the work tree, and committed by git.
fn project((autocrlf, attributes): (&str, &str)) -> TestProject {
    let project = TestProject::new();
    project.bash(&format!(
        "git config core.autocrlf {autocrlf}; git config core.safecrlf false"
    ));
    let project = if attributes.is_empty() {
        project
    } else {
        project.file(".gitattributes", attributes)
    };
    project
        .file("lf.txt", "one\ntwo\nthree\n")
        .file("crlf.txt", "one\r\ntwo\r\nthree\r\n")
        .file("mixed.txt", "one\r\ntwo\nthree\r\n")
        .file("ident.txt", "$Id$\nx $Id: a $ $Identity = 3; $y\n")
        .file("binary.txt", b"a\r\n\0b\r\n".as_slice())
        .file("cr.txt", "one\rtwo\r\n")
        .file("dos.txt", "one\r\ntwo\r\n\x1a")
        .file("control.txt", "one\r\n\x01\x02\x7f\r\n")
        .committed()
}

const WRITE: &str = "printf 'new\\r\\nfile\\r\\n' > new-crlf.txt; printf 'new\\nfile\\n' > new-lf.txt; \
     printf 'four\\r\\n' >> crlf.txt; printf 'four\\n' >> lf.txt; printf 'x\\r\\ny\\n' >> mixed.txt; \
     printf '$Id: stale $ $Id: no\\nend $Id: b $\\r\\n' >> ident.txt; printf '\\r\\n' >> binary.txt; \
     printf 'x\\ry\\r\\n' >> cr.txt; printf 'new\\r\\n\\032' > dos.txt; printf '\\r\\n\\001' >> control.txt; \
     { printf '%0200d\\r\\n' 1; printf '\\001\\r\\n'; } > new-mostly-text.txt; printf 'x\\r\\r\\n' > new-cr.txt";

#[test]
fn h22_g105_a_roll_back_restores_every_byte_for_any_conversion() {
    for way in WAYS {
        let project = project(way);
        // Bytes that no checkout would make: the user's own.
        project.bash("printf 'mine\\r\\nmine\\n' > mine.txt");
        let before = Picture::of(&project);
        exec(&project, &format!("{WRITE}; rm mine.txt; exit 1"))
            .assert_end("1 rolled_back COMMAND_FAILED");
        let now = Picture::of(&project);
        let contents = |picture: &Picture| -> Vec<(String, String)> {
            picture
                .files
                .iter()
                .map(|(path, node)| (path.clone(), node.content.clone()))
                .collect()
        };
        assert_eq!(contents(&now), contents(&before), "{way:?}");
        assert_eq!(
            (&now.status, &now.staged),
            (&before.status, &before.staged),
            "{way:?}"
        );
        super::assert_whole(&project, &project.root());
    }
}

#[test]
fn h22_a_commit_holds_what_git_add_would_store() {
    for way in WAYS {
        let project = project(way);
        project.bash(&format!(
            "cp -a ../project ../twin; cd ../twin; {WRITE}; git add --all; git write-tree > ../home/tree"
        ));
        exec(&project, WRITE).assert_end("0 committed -");
        let expected = fs::read_to_string(project.home().join("tree")).expect("it was written");
        assert_eq!(
            project.git(["rev-parse", "HEAD^{tree}"]),
            expected,
            "{way:?}"
        );
        project.assert_clean();
        // And back again, byte for byte.
        let bytes = fs::read(project.root().join("crlf.txt")).expect("it is there");
        exec(&project, "rm crlf.txt mixed.txt").assert_end("0 committed -");
        told(&project, &["undo"]).assert_end("0 committed -");
        assert_eq!(
            fs::read(project.root().join("crlf.txt")).expect("it is back"),
            bytes,
            "{way:?}"
        );
        assert_eq!(
            project.git(["rev-parse", "HEAD^{tree}"]),
            expected,
            "{way:?}"
        );
        project.assert_clean();
    }
}

/// A hard roll back writes every byte as `git reset --hard` does, also if the attributes were others then.
#[test]
fn h22_a_hard_roll_back_writes_what_git_reset_would() {
    for way in WAYS {
        for more in ["true", "echo '*.txt eol=crlf ident' >> .gitattributes"] {
            let project = project(way);
            exec(&project, &format!("{WRITE}; {more}")).assert_end("0 committed -");
            project.bash(
                "rm -rf ../twin; cp -a . ../twin; cd ../twin; git config core.checkStat minimal; git reset -q --hard HEAD~1",
            );
            let ran = project.piton(["rollback", "--hard", "HEAD~1", "--yes"]);
            assert_eq!(ran.code(), Some(0), "{way:?} {more}: {ran}");
            let different = project.bash("diff -r --exclude=.git . ../twin || true");
            assert_eq!(different, "", "{way:?} {more}");
            assert_eq!(
                project.git(["status", "--porcelain"]),
                project.bash("git -C ../twin status --porcelain"),
                "{way:?} {more}"
            );
        }
    }
}

#[test]
fn h22_a_step_that_only_changes_line_ends_is_judged_as_git_does() {
    for way in WAYS {
        let project = project(way);
        let change = "sed -i 's/$/\\r/' lf.txt";
        project.bash(&format!(
            "cp -a ../project ../twin; cd ../twin; {change}; git add --all; git write-tree > ../home/tree"
        ));
        let made = exec(&project, change);
        let expected = fs::read_to_string(project.home().join("tree")).expect("it was written");
        assert_eq!(
            project.git(["rev-parse", "HEAD^{tree}"]),
            expected,
            "{way:?}\n{}",
            made.ran
        );
        assert_eq!(made.ran.code(), Some(0), "{way:?}");
        assert_eq!(
            fs::read(project.root().join("lf.txt")).expect("it stays"),
            b"one\r\ntwo\r\nthree\r\n"
        );
        project.assert_clean();
    }
}

#[test]
fn h22_conversion_keeps_the_users_part_of_a_file() {
    let project = TestProject::new();
    project.bash("git config core.autocrlf true");
    let lines = "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n";
    let project = project.file("n.txt", lines).committed();
    project.bash("sed -i 's/^9/nine/' n.txt");
    let before = Picture::of(&project);
    exec(&project, "sed -i 's/^1/one/' n.txt").assert_end("0 committed -");
    assert_eq!(
        project.git(["show", "HEAD:n.txt"]),
        "one\n2\n3\n4\n5\n6\n7\n8\n9\n"
    );
    assert_eq!(
        project.read("n.txt"),
        "one\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\nnine\r\n"
    );
    before.assert_only(&project, &["n.txt"]);
    assert_eq!(project.git(["status", "--porcelain"]), " M n.txt\n");
}

#[test]
fn h22_a_step_that_changes_the_attributes_is_committed_as_git_would() {
    let project = TestProject::new()
        .file("a.txt", "a\r\n")
        .file("b.txt", "b\n")
        .committed();
    let change =
        "echo '* text=auto' > .gitattributes; printf 'c\\r\\n' > c.txt; printf 'x\\r\\n' >> b.txt";
    project
        .bash(&format!("cp -a ../project ../twin; cd ../twin; {change}; git add --all; git write-tree > ../home/tree"));
    let before = Picture::of(&project);
    exec(&project, &format!("{change}; exit 1")).assert_end("1 rolled_back COMMAND_FAILED");
    before.assert_only(&project, &["b.txt"]);
    assert_eq!(Picture::of(&project).status, before.status);
    exec(&project, change).assert_end("0 committed -");
    let stored = |path: &str| project.git(["show", &format!("HEAD:{path}")]);
    assert_eq!(
        (stored("c.txt").as_str(), stored("b.txt").as_str()),
        ("c\n", "b\nx\n")
    );
    // A file that the step did not touch is not in its commit.
    assert_eq!(stored("a.txt"), "a\r\n");
    super::assert_whole(&project, &project.root());
}

#[test]
fn h22_settings_outside_of_the_repository_count() {
    let project = TestProject::new()
        .file("a.txt", "a\n")
        .committed()
        .home_file("gitconfig", "[core]\n\tautocrlf = input\n");
    let settings = project
        .home()
        .join("gitconfig")
        .to_string_lossy()
        .into_owned();
    let project = project.variable("GIT_CONFIG_GLOBAL", &settings);
    exec(&project, "printf 'b\\r\\n' > b.txt").assert_end("0 committed -");
    assert_eq!(project.git(["show", "HEAD:b.txt"]), "b\n");
    assert_eq!(project.read("b.txt"), "b\r\n");
    project.assert_clean();
}

#[test]
fn h22_a_conversion_that_git_refuses_as_unsafe_is_refused() {
    for (autocrlf, content, is_refused) in [
        ("true", "one\ntwo\n", true),
        ("true", "one\r\ntwo\r\n", false),
        ("input", "one\r\ntwo\r\n", true),
        ("input", "one\ntwo\n", false),
        ("true", "one\r\ntwo\n", true),
        ("false", "one\r\ntwo\n", false),
    ] {
        let project = TestProject::new().file("a.bin", "a").committed();
        project.bash(&format!(
            "git config core.autocrlf {autocrlf}; git config core.safecrlf true"
        ));
        let write = format!("printf '{}' > new.txt", content.escape_default());
        project.bash(&format!("cp -a . ../twin; cd ../twin; {write}; git add new.txt 2>/dev/null && echo ok > ../home/added || true"));
        assert_eq!(!project.home().join("added").exists(), is_refused);
        let made = exec(&project, &write);
        let is_committed = project.git(["rev-list", "--count", "HEAD"]) == "2\n";
        assert_eq!(!is_committed, is_refused, "{autocrlf}: {}", made.ran);
        if is_refused {
            let said = made.ran.to_string();
            assert!(
                said.contains("core.safecrlf") && said.contains("would be replaced by"),
                "{said}"
            );
        }
    }
}
