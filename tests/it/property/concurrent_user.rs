//! A tool and another process that work in the same folders at the same time, on their own files.
//!
//! Each edits random files of its half, the tool before and after the other. The result is compared
//! with copies of the project in which only one of them worked, or one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::cases;
use crate::harness::{MEETING, TestProject};

/// One change of one file, as a shell line.
#[derive(Clone, Debug)]
enum Edit {
    Write(File, u8),
    Append(File, u8),
    Replace(File, u8),
    Remove(File),
    Executable(File),
    Link(File),
}

/// A file that belongs to the tool or to the other process.
#[derive(Clone, Debug)]
struct File {
    folder: &'static str,
    number: u8,
}

impl File {
    fn of(&self, owner: &str) -> String {
        format!("{}{owner}{}", self.folder, self.number)
    }
}

impl Edit {
    fn line(&self, owner: &str) -> String {
        match self {
            Self::Write(file, text) => format!("rm -f {0}; echo {text} > {0}", file.of(owner)),
            Self::Append(file, text) => format!("[ -L {0} ] || echo {text} >> {0}", file.of(owner)),
            Self::Replace(file, text) => {
                format!("echo {text} > {0}.new; mv {0}.new {0}", file.of(owner))
            }
            Self::Remove(file) => format!("rm -f {}", file.of(owner)),
            Self::Executable(file) => {
                format!("[ ! -f {0} ] || [ -L {0} ] || chmod +x {0}", file.of(owner))
            }
            Self::Link(file) => format!("ln -sfn nowhere {}", file.of(owner)),
        }
    }
}

fn script(edits: &[Edit], owner: &str) -> String {
    let lines: Vec<String> = edits.iter().map(|edit| edit.line(owner)).collect();
    format!("mkdir -p new\n{}\n", lines.join("\n"))
}

fn edit() -> impl Strategy<Value = Edit> {
    let file = || {
        (prop::sample::select(vec!["", "d/", "new/"]), 0..4_u8)
            .prop_map(|(folder, number)| File { folder, number })
    };
    prop_oneof![
        (file(), 0..9_u8).prop_map(|(file, text)| Edit::Write(file, text)),
        (file(), 0..9_u8).prop_map(|(file, text)| Edit::Append(file, text)),
        (file(), 0..9_u8).prop_map(|(file, text)| Edit::Replace(file, text)),
        file().prop_map(Edit::Remove),
        file().prop_map(Edit::Executable),
        file().prop_map(Edit::Link),
    ]
}

fn project(tool: &str) -> TestProject {
    let project = TestProject::new().tool("work", "mutates_state: true", tool);
    project.bash(
        "mkdir d; for owner in t o; do for n in 0 1 2; do echo start > $owner$n; echo start > d/$owner$n; done; done",
    );
    project.committed()
}

/// Every file except git's and the items, with mode and content. Without folders, because either
/// process may create a shared one.
fn picture(root: &Path) -> BTreeMap<String, String> {
    let is_own =
        |entry: &walkdir::DirEntry| entry.file_name() != ".git" && entry.file_name() != ".ai";
    let entries = walkdir::WalkDir::new(root)
        .min_depth(1)
        .into_iter()
        .filter_entry(is_own);
    let told = |entry: walkdir::DirEntry| {
        let mode = fs::symlink_metadata(entry.path())
            .expect("metadata")
            .permissions()
            .mode();
        let content = match entry.file_type() {
            kind if kind.is_symlink() => fs::read_link(entry.path())
                .expect("a link")
                .display()
                .to_string(),
            _ => fs::read_to_string(entry.path()).expect("a file"),
        };
        (
            entry
                .path()
                .strip_prefix(root)
                .expect("below")
                .display()
                .to_string(),
            format!("{mode:o} {content}"),
        )
    };
    let entries = entries.map(|entry| entry.expect("an entry"));
    entries
        .filter(|entry| !entry.file_type().is_dir())
        .map(told)
        .collect()
}

fn tree(project: &TestProject) -> String {
    project.git(["rev-parse", "HEAD^{tree}"])
}

fn check(first: &[Edit], last: &[Edit], other: &[Edit], exit: u8) -> TestCaseResult {
    crate::crash::chance::tally("random histories", 1);
    let (first, last, other) = (script(first, "t"), script(last, "t"), script(other, "o"));
    let tool = format!("{first}{MEETING}\n{last}exit {exit}");
    let (real, theirs, both) = (project(&tool), project(&tool), project(&tool));
    theirs.bash(&format!("set +e; {other}"));
    both.bash(&format!("set +e; {first}{last}true"));
    both.git(["add", "--all"]);
    both.git([
        "commit",
        "--quiet",
        "--allow-empty",
        "--message",
        "the tool's",
    ]);
    both.bash(&format!("set +e; {other}true"));

    let start = tree(&real);
    let ran = real.piton_while(
        &format!("set +e; {other}true"),
        ["tool", "run", "work", "--checkpoint", "auto"],
    );
    if exit == 0 {
        prop_assert_eq!(ran.code(), Some(0), "{}", ran);
        prop_assert_eq!(picture(&real.root()), picture(&both.root()), "{}", ran);
        prop_assert_eq!(tree(&real), tree(&both), "{}", ran);
        prop_assert_eq!(
            real.git(["status", "--porcelain"]),
            both.git(["status", "--porcelain"]),
            "{}",
            ran
        );
    } else {
        prop_assert_eq!(ran.code(), Some(1), "{}", ran);
        prop_assert_eq!(picture(&real.root()), picture(&theirs.root()), "{}", ran);
        prop_assert_eq!(tree(&real), start, "{}", ran);
        prop_assert_eq!(
            real.git(["status", "--porcelain"]),
            theirs.git(["status", "--porcelain"]),
            "{}",
            ran
        );
    }
    let verified = real.piton(["verify", "--all"]);
    prop_assert_eq!(verified.code(), Some(0), "{}", verified);
    Ok(())
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn a_tool_and_a_concurrent_process_each_keep_their_own_changes(
        first in vec(edit(), 0..6),
        last in vec(edit(), 0..4),
        other in vec(edit(), 0..8),
        exit in prop::sample::select(vec![0_u8, 3]),
    ) {
        check(&first, &last, &other, exit)?;
    }
}
