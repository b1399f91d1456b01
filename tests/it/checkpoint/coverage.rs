//! `Checkpointer::uncovered` predicts what the snapshots of a step contain.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use piton::checkpoint::checkpointer::{CheckpointOptions, Checkpointer};
use piton::checkpoint::coverage::Uncovered;
use piton::checkpoint::path::RepoPath;
use piton::checkpoint::repository::Repository;
use piton::config::{HookPolicy, SecretPolicy};
use piton::disk::Fsync;

use crate::harness::TestProject;

#[test]
fn files_reported_as_covered_are_captured_by_snapshots() {
    let project = TestProject::new()
        .file(".gitignore", "*.log\nout/\n")
        .file("plain.txt", "1\n")
        .file("hidden.txt", "1\n")
        .file("assumed.txt", "1\n")
        .file("out/tracked.txt", "1\n")
        .file("gone/kept.txt", "1\n");
    project.git(["add", "--force", "."]);
    project.bash(
        "git commit --quiet --message one
        git init --quiet ../origin; cd ../origin; echo 1 > s.txt; git add .; git commit --quiet --message one
        cd ../project; git -c protocol.file.allow=always submodule --quiet add ../origin sub
        git commit --quiet --message sub; git init --quiet nested
        git update-index --skip-worktree hidden.txt; git update-index --assume-unchanged assumed.txt
        git update-index --skip-worktree gone/kept.txt; rm -r gone",
    );
    let small = [
        "plain.txt",
        "new.txt",
        "folder/new.txt",
        "hidden.txt",
        "assumed.txt",
        "gone",
    ];
    let more = [
        "x.log",
        "out/new.txt",
        "out/tracked.txt",
        "sub/s.txt",
        "sub/new.txt",
        "nested/a/new.txt",
        "git~1",
    ];
    let cases = small
        .into_iter()
        .chain(more)
        .map(|path| (path, 8))
        .chain([("plain.txt", 100), ("new.txt", 100)]);
    let mut wrong = Vec::new();
    for (path, size) in cases {
        let mut engine = engine(&project);
        let path_there = RepoPath::from_bytes(path);
        let why = engine.uncovered(&path_there, size).expect("an answer");
        let file = project.root().join(path);
        let old = fs::read(&file).ok();
        let before = engine.before().expect("a snapshot");
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(&file, "x".repeat(usize::try_from(size).expect("small"))).expect("a file");
        let after = engine.after(&before).expect("a snapshot");
        let delta = engine.delta(&before, &after).expect("a delta");
        // A file that became too large can be rolled back, but no commit contains it.
        let is_held = delta.changes.iter().any(|change| change.path == path_there)
            && !delta.not_captured.contains(&path_there);
        // Snapshots hold skip-worktree files but commits do not, so they are refused where a commit
        // must hold them.
        if why.is_none() != is_held && why != Some(Uncovered::Overlooked) {
            wrong.push((path, size, why));
        }
        match old {
            Some(bytes) => fs::write(&file, bytes).expect("a file"),
            None => fs::remove_file(&file).expect("removed"),
        }
    }
    assert_eq!(wrong, []);
}

fn engine(project: &TestProject) -> Checkpointer {
    let repository = Repository::open(&project.root(), None, &BTreeMap::new(), Fsync::Auto)
        .expect("a repository");
    let options = CheckpointOptions {
        max_file_size: 50,
        max_total_size: 1 << 20,
        lock_wait: Duration::from_secs(1),
        hooks: HookPolicy::Skip,
        secrets: SecretPolicy::Block,
        secrets_allowed: Vec::new(),
        environment: BTreeMap::new(),
    };
    Checkpointer::open(repository, options).expect("an engine")
}
