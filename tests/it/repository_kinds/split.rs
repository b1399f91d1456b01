//! A split index: git writes only the changed entries, beside a shared file.

use super::life::{Twins, live, piton};
use crate::harness::TestProject;

const FILES: &str = "git init -q -b main; mkdir in; echo a > in/a.txt; for n in $(seq 200); do echo $n > in/f$n; done; \
     git add .; git commit -qm start; ";

#[test]
fn a_split_index_is_supported() {
    live(&format!(
        "{FILES} git config core.splitIndex true; git update-index --split-index"
    ));
    // The index may be split without the setting.
    live(&format!("{FILES} git update-index --split-index"));
}

#[test]
fn an_index_that_git_splits_again_after_each_step_is_supported() {
    let twins = Twins::of(&format!(
        "{FILES} git config core.splitIndex true; git config splitIndex.maxPercentChange 100"
    ));
    for round in 0..4 {
        let edit = format!(
            "echo {round} > in/f{}; rm in/f1{round}; echo n > in/new{round}",
            round + 20
        );
        twins.step(&edit);
        // Git writes the index: a replaced, a removed and a new entry beside the shared file.
        for project in [&twins.piton, &twins.git] {
            let by_hand =
                format!("echo x{round} >> in/f100; echo y > in/y{round}; git rm -q in/f15{round}");
            project.bash(&format!(
                "{by_hand}; git add -A; git update-index --split-index; git commit -qm hand"
            ));
            assert_ne!(project.bash("ls .git | grep -c sharedindex"), "0\n");
        }
        twins.assert_same();
    }
    piton(&twins.piton, &["verify"]);
}

#[test]
fn a_split_index_whose_shared_file_is_gone_is_refused() {
    let project = TestProject::without_git();
    project.bash(&format!(
        "{FILES} git update-index --split-index; rm .git/sharedindex.*"
    ));
    let refused = project.piton(["exec", "--format", "json", "--", "touch", "ran"]);
    assert_eq!(refused.code(), Some(5), "{refused}");
    assert!(refused.to_string().contains("sharedindex."), "{refused}");
    assert!(!project.root().join("ran").exists());
}

#[test]
fn line_ends_are_converted_beside_a_split_or_sparse_index() {
    let files = "git init -q -b main; mkdir in out; printf '* text=auto\\n*.c ident\\n*.bat eol=crlf\\n' > .gitattributes; \
         echo a > in/a.txt; printf 'x\\r\\n' > in/x.bat; echo '$Id$' > in/i.c; echo b > out/b; git add .; git commit -qm s; ";
    let kinds = [
        "git update-index --split-index",
        "git sparse-checkout set --cone --sparse-index in",
    ];
    for fold in kinds {
        let twins = Twins::of(&format!("{files} {fold}"));
        let start = twins.piton.bash("cat -A in/*");
        twins.step("printf 'c\\r\\n' >> in/a.txt; printf 'y\\r\\n' >> in/x.bat; echo z >> in/i.c");
        let changed = twins.piton.bash(&format!("{fold}; cat -A in/*"));
        piton(&twins.piton, &["undo"]);
        assert_eq!(
            twins.piton.bash(&format!("{fold}; cat -A in/*")),
            start,
            "{fold}"
        );
        piton(&twins.piton, &["redo"]);
        assert_eq!(
            twins.piton.bash(&format!("{fold}; cat -A in/*")),
            changed,
            "{fold}"
        );
        piton(&twins.piton, &["rollback", "--hard", "HEAD~1", "--yes"]);
        twins.piton.assert_clean();
        assert_eq!(twins.piton.read("in/x.bat"), "x\r\n");
    }
}
