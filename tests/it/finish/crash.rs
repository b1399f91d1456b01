//! Kills at any point: a finish happens completely or not at all.

use std::os::unix::process::ExitStatusExt as _;

use super::{assert_sound, exec, finish, linked, project};
use crate::harness::TestProject;

const PLACES: [&str; 17] = [
    "journal-append",
    "journal-appended",
    "commit-kept",
    "file-written",
    "restore-path",
    "finish-judged",
    "finish-applied",
    "after-taken",
    "finish-prepared",
    "index-written",
    "finish-decided",
    "ref-locked",
    "commit-ref-moved",
    "finish-moved",
    "finish-closed",
    "finish-worktree-removed",
    "lock-release",
];

/// What a user sees: files, index, history.
fn picture(project: &TestProject) -> String {
    project.bash(
        "git log --first-parent --format=%T HEAD; git ls-files --stage; git status --porcelain=v2
         find . -path ./.git -prune -o -type f -printf '%p %m\\n' | sort
         find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 cat",
    )
}

fn survives(moved_on: &str, how: &str, here: bool) {
    let project = project();
    let side = if here {
        project.root()
    } else {
        linked(&project, 1)
    };
    let script = "sed -i s/^five/FIVE/ a.txt; git commit -qam one; mkdir d; echo w > d/w.txt; rm c.txt; chmod +x b.txt";
    let run = exec(&project, &side, "work", script);
    project.bash(moved_on);
    project.bash(
        "sed -i s/^one/ONE/ a.txt; git add a.txt; sed -i s/^ten/TEN/ a.txt; echo u > u.txt; echo s > s.txt; git add s.txt
         cd ..; rm -rf saved; mkdir saved; cp -a project home saved",
    );
    let reset = || {
        project.bash("cd ..; rm -rf project home; cp -a saved/project saved/home .; cd project; git status -s")
    };
    let before = picture(&project);
    assert_eq!(finish(&project, &run, how).code(), Some(0));
    let after = picture(&project);
    let mut kills = 0_u64;
    for place in PLACES {
        for pass in 1.. {
            reset();
            let armed = format!("{place}:{pass}");
            let output = project
                .command(["finish", &run, how])
                .env("PITON_FAILPOINT", &armed)
                .output();
            if output.expect("piton starts").status.signal() != Some(9) {
                break;
            }
            kills += 1;
            let ran = project.piton(["recover"]);
            assert_eq!(ran.code(), Some(0), "{armed}: {ran}");
            let found = picture(&project);
            assert!(
                found == before || found == after,
                "{armed}: {ran}\nfound {found}\nexpected {before}\nor {after}"
            );
            assert_sound(&project);
            let again = finish(&project, &run, how);
            assert!(matches!(again.code(), Some(0 | 2)), "{armed}: {again}");
            assert!(picture(&project) == after, "{armed}: {again}");
            assert_sound(&project);
            assert!(here || !side.exists(), "{armed}: the worktree stayed");
            let branches = project.git(["for-each-ref", "refs/heads"]);
            assert_eq!(branches.lines().count(), 1, "{armed}: {branches}");
        }
    }
    crate::crash::chance::tally("kills at places", kills);
    assert!(kills >= 15, "only {kills} places were passed");
}

#[test]
fn a_fast_forward_survives_a_kill_at_every_place() {
    survives("true", "--keep", false);
}

#[test]
fn a_merge_survives_a_kill_at_every_place() {
    survives(
        "echo more > more.txt; git add more.txt; git commit -qm more",
        "--keep",
        false,
    );
}

#[test]
fn a_squash_survives_a_kill_at_every_place() {
    survives("true", "--squash", false);
}

#[test]
fn a_squash_on_the_current_branch_survives_a_kill_at_every_place() {
    survives("true", "--squash", true);
}
