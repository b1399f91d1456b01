//! Repositories whose git directory, objects or index are arranged in another way.

use super::life::live;

const FILES: &str = "mkdir in; echo a > in/a.txt; git add .; git commit -qm start";

#[test]
fn a_clone_that_borrows_the_objects_of_another_is_supported() {
    live(&format!(
        "rm -rf ../lender; git init -q -b main ../lender; cd ../lender; {FILES}; cd ../project; \
         git clone -q --shared ../lender ."
    ));
}

#[test]
fn a_git_directory_elsewhere_is_supported() {
    live(&format!(
        "git init -q -b main --separate-git-dir ../elsewhere .; {FILES}"
    ));
    live(&format!(
        "git init -q -b main .; mv .git ../moved; ln -s ../moved .git; {FILES}"
    ));
}

#[test]
fn the_settings_of_git_for_large_repositories_are_supported() {
    live(&format!(
        "git init -q -b main .; git config feature.manyFiles true; git config index.skipHash true; \
         git config core.commitGraph true; git config gc.writeCommitGraph true; {FILES}; \
         git update-index --untracked-cache; git commit-graph write --reachable; \
         git repack -adq --write-midx"
    ));
}

#[test]
fn a_project_inside_a_submodule_is_supported() {
    live(&format!(
        "rm -rf ../inner ../outer; git init -q -b main ../inner; cd ../inner; {FILES}; \
         git init -q -b main ../outer; cd ../outer; \
         git -c protocol.file.allow=always submodule --quiet add ../inner part; \
         git commit -qm outer; cd ../project; rmdir ../project; mv ../outer/part ../project; \
         ln -s ../project ../outer/part; cd ../project; rm .git; \
         echo 'gitdir: ../outer/.git/modules/part' > .git; git config core.worktree \"$PWD\"; git status -s"
    ));
}
