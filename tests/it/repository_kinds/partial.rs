//! Partial clones, whose objects git fetches on demand. Piton fetches nothing by itself.

use super::life::{live, piton, said};
use crate::harness::TestProject;

/// A repository with three commits, to be cloned from.
const ORIGIN: &str = "rm -rf ../origin; git init -q -b main ../origin; cd ../origin; git config uploadpack.allowFilter true; \
     git config uploadpack.allowAnySHA1InWant true; mkdir in out; for n in 1 2 3; do echo $n >> in/a.txt; \
     echo $n >> out/b.txt; echo $n > only$n.txt; git add .; git commit -qm $n; done; cd ../project; ";

fn cloned(flags: &str) -> String {
    format!("{ORIGIN} git clone -q {flags} file://$PWD/../origin .; mv ../origin ../away")
}

#[test]
fn clones_without_blobs_or_trees_are_supported_without_the_remote() {
    live(&cloned("--filter=blob:none"));
    live(&cloned("--filter=tree:0"));
    live(&cloned("--filter=blob:limit=1"));
}

#[test]
fn a_sparse_partial_clone_is_supported_without_the_remote() {
    live(&format!(
        "{ORIGIN} git clone -q --sparse --filter=blob:none file://$PWD/../origin .; \
         git sparse-checkout set in; mv ../origin ../away"
    ));
}

#[test]
fn a_missing_object_is_named_with_the_command_that_gets_it() {
    let project = TestProject::without_git();
    project.bash(&cloned("--filter=blob:none"));
    let before = said(&project);
    // The blobs of the first commit were never fetched.
    let failed = project.piton(["rollback", "--hard", "HEAD~2", "--yes"]);
    assert_eq!(failed.code(), Some(1), "{failed}");
    let told = failed.stderr();
    assert!(
        told.contains("is not here: this is a partial clone"),
        "{told}"
    );
    assert!(
        told.contains("git cat-file -t OBJECT") && told.contains("--no-filter origin"),
        "{told}"
    );
    assert_eq!(said(&project), before, "nothing was touched");
    // It works after the user has fetched them.
    project.bash(
        "mv ../away ../origin; git fetch -q --refetch --no-filter origin; mv ../origin ../away",
    );
    piton(&project, &["rollback", "--hard", "HEAD~2", "--yes"]);
    assert_eq!(project.read("in/a.txt"), "1\n");
    assert!(!project.root().join("only3.txt").exists());
}

#[test]
fn nothing_is_fetched_although_the_remote_is_there() {
    let project = TestProject::without_git();
    project.bash(&format!(
        "{ORIGIN} git clone -q --filter=blob:none file://$PWD/../origin ."
    ));
    let missing = "git rev-list --objects --all --missing=print | grep -c '^?'";
    let before = project.bash(missing);
    piton(&project, &["exec", "--", "sh", "-c", "echo 4 >> in/a.txt"]);
    piton(&project, &["undo"]);
    piton(&project, &["verify"]);
    let failed = project.piton(["rollback", "--hard", "HEAD~3", "--yes"]);
    assert_eq!(failed.code(), Some(1), "{failed}");
    assert_eq!(project.bash(missing), before);
}
