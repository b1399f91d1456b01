//! Steps with many files: their objects go into one pack, and everything else works as with few
//! files.

use std::fs;
use std::path::PathBuf;

use crate::crash::chance::tally;
use crate::harness::{Ran, TestProject};

/// Creates files with different content, thirty per folder.
const MAKE: &str = "make() { for ((n = 0; n < $2; n++)); do (( n % 30 )) || mkdir -p $1/d$((n / 30)); \
     echo \"$1 file $n\" > $1/d$((n / 30))/f$n.txt; done; };";
/// Prunes everything that is unreachable from refs and the index.
const PRUNE: &str = "git reflog expire --expire=now --all; git gc --quiet --prune=now";

fn made(project: &TestProject, folder: &str, count: usize) {
    project.bash(&format!("{MAKE} make {folder} {count}"));
}

fn exec(project: &TestProject, script: &str) -> Ran {
    project.piton(["exec", "--", "bash", "-c", &format!("{MAKE} {script}")])
}

/// The number of loose objects in an object database, and its packs.
fn stored(project: &TestProject, objects: &str) -> (usize, Vec<PathBuf>) {
    let folder = project.root().join(objects);
    let files = walkdir::WalkDir::new(&folder)
        .into_iter()
        .flatten()
        .filter(|entry| entry.file_type().is_file());
    let paths: Vec<PathBuf> = files.map(walkdir::DirEntry::into_path).collect();
    let is_in_pack_folder =
        |path: &&PathBuf| path.parent().is_some_and(|parent| parent.ends_with("pack"));
    let loose = paths.iter().filter(|path| !is_in_pack_folder(path)).count();
    let packs = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "pack"))
        .cloned()
        .collect();
    (loose, packs)
}

/// Pack files that are unfinished or still marked with `.keep`.
fn unfinished(project: &TestProject) -> Vec<PathBuf> {
    let folders = [".git/objects/pack", ".git/piton/store/objects/pack"]
        .map(|folder| project.root().join(folder));
    let entries = folders
        .iter()
        .flat_map(fs::read_dir)
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let is_left = |path: &PathBuf| {
        let is = |end: &str| path.extension().is_some_and(|found| found == end);
        let unfinished = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("tmp_"));
        unfinished || is("keep") || (is("pack") && !path.with_extension("idx").exists())
    };
    entries.filter(is_left).collect()
}

fn assert_whole(project: &TestProject) {
    project.git(["fsck", "--strict", "--no-dangling"]);
    assert_eq!(unfinished(project), Vec::<PathBuf>::new());
    let count = project.git(["count-objects", "-v"]);
    assert!(count.contains("garbage: 0"), "{count}");
}

/// What the user sees: files and `git status`.
fn picture(project: &TestProject) -> (Vec<String>, String) {
    project.bash("find . -path ./.git -prune -o -print0 | sort -z | xargs -0 stat -c '%n %a %F' > ../tmp/names");
    project.bash("find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha1sum >> ../tmp/names");
    let names =
        fs::read_to_string(project.root().with_file_name("tmp").join("names")).expect("names");
    (
        names.lines().map(ToOwned::to_owned).collect(),
        project.git(["status", "--porcelain"]),
    )
}

#[test]
fn thousands_of_untracked_files_are_one_pack_in_the_private_store() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    made(&project, "data", 5000);
    let before = picture(&project);
    let (users, _) = stored(&project, ".git/objects");
    assert_eq!(
        exec(
            &project,
            "echo two > a.txt; rm -r data/d7; echo x >> data/d1/f30.txt; exit 3"
        )
        .code(),
        Some(3)
    );
    let (loose, packs) = stored(&project, ".git/piton/store/objects");
    assert!(loose < 40, "{loose} files of their own");
    assert_eq!(packs.len(), 1, "{packs:?}");
    assert_eq!(
        stored(&project, ".git/objects").0,
        users,
        "nothing of it is in git's object database"
    );
    assert_eq!(picture(&project), before);
    // The next step reuses the pack.
    exec(&project, "echo three > a.txt").succeeded();
    assert_eq!(stored(&project, ".git/piton/store/objects").1, packs);
    assert_whole(&project);
}

#[test]
fn a_commit_of_thousands_of_files_is_one_pack_that_git_reads_and_repacks() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    let empty = picture(&project);
    exec(&project, "make data 3000").succeeded();
    let full = picture(&project);
    let (loose, packs) = stored(&project, ".git/objects");
    assert!(loose < 40, "{loose} files of their own");
    assert_eq!(packs.len(), 1, "{packs:?}");
    assert_whole(&project);
    assert_eq!(full.1, "");
    // Undo uses piton's own store, so it still works after git has pruned its objects.
    project.bash(PRUNE);
    project.piton(["undo"]).succeeded();
    assert_eq!(picture(&project), empty);
    project.piton(["redo"]).succeeded();
    assert_eq!(picture(&project), full);
    project.bash("git repack -a -d -q");
    assert_whole(&project);
    let copy = project.root().with_file_name("tmp").join("copy");
    project.git([
        "clone",
        "--quiet",
        "--no-local",
        ".",
        &copy.to_string_lossy(),
    ]);
    assert_eq!(
        fs::read_to_string(copy.join("data/d99/f2999.txt")).expect("a file"),
        "data file 2999\n"
    );
}

#[test]
fn hundreds_of_files_of_every_kind_are_rolled_back() {
    let project = TestProject::new().file("a.txt", "one\n");
    made(&project, "src", 600);
    made(&project, "gone", 300);
    project.bash(
        "for n in $(seq 0 7 299); do chmod +x src/d$((n / 30))/f$n.txt; chmod 600 gone/d$((n / 30))/f$n.txt; done; \
         ln -s a.txt src/link; mkdir src/hollow",
    );
    let project = project.committed();
    made(&project, "mine", 200);
    let before = picture(&project);
    let failed = exec(
        &project,
        "for f in src/*/*.txt; do echo more >> $f; done; rm -r gone; echo file > gone; make new 400; rm src/link; \
         mkdir src/link; echo x > src/link/x; for f in mine/d0/*; do rm $f; ln -s ../../a.txt $f; done; \
         for f in mine/d1/*; do chmod 755 $f; done; rm src/d3/f100.txt; mkdir src/d3/f100.txt; rmdir src/hollow; exit 3",
    );
    assert_eq!(failed.code(), Some(3), "{failed}");
    assert_eq!(picture(&project), before);
    assert_whole(&project);
}

#[test]
fn a_file_that_the_user_changed_meanwhile_is_kept_among_many() {
    let project = TestProject::new().file("a.txt", "one\n");
    made(&project, "src", 300);
    let project = project.committed();
    exec(
        &project,
        "for f in src/*/*.txt; do echo more >> $f; done; make new 200",
    )
    .succeeded();
    project.bash("echo mine > src/d5/f150.txt; echo mine > new/d2/f60.txt; git commit -qam mine");
    let undone = project.piton(["undo"]);
    // The user's own lines conflict, so nothing is undone.
    assert_ne!(undone.code(), Some(0), "{undone}");
    assert_eq!(project.read("src/d5/f150.txt"), "mine\n");
    assert_eq!(project.read("new/d2/f60.txt"), "mine\n");
    assert!(project.read("src/d5/f151.txt").ends_with("more\n"));
}

#[test]
fn a_kill_during_a_step_with_many_files_is_all_or_nothing() {
    let places = [
        ("pack-written", 1),
        ("pack-written", 2),
        ("pack-named", 1),
        ("pack-named", 2),
        ("pack-guarded", 1),
        ("pack-indexed", 1),
        ("pack-indexed", 2),
        ("commit-prepared", 1),
        ("commit-decided", 1),
    ];
    for (place, pass) in places {
        let project = TestProject::new().file("a.txt", "one\n");
        made(&project, "src", 150);
        let project = project.committed();
        made(&project, "mine", 120);
        let before = picture(&project);
        let script = format!("{MAKE} for f in src/*/*.txt; do echo more >> $f; done; make new 150");
        let armed = format!("{place}:{pass}");
        let mut command = project.command(["exec", "--", "bash", "-c", &script]);
        let killed = command
            .env("PITON_FAILPOINT", &armed)
            .output()
            .expect("piton starts");
        assert_eq!(killed.status.code(), None, "{armed} was not reached");
        project.piton(["recover"]).succeeded();
        let is_done = project.git(["log", "--format=%s"]).lines().count() > 1;
        if is_done {
            assert_eq!(project.read("new/d4/f149.txt"), "new file 149\n", "{armed}");
            assert!(
                project.read("src/d4/f149.txt").ends_with("more\n"),
                "{armed}"
            );
        } else {
            assert_eq!(picture(&project), before, "{armed}");
        }
        assert_whole(&project);
        exec(&project, "echo two > a.txt").succeeded();
        assert_whole(&project);
    }
}

#[test]
fn recovery_finishes_a_roll_back_of_many_files_that_was_killed() {
    for (place, pass) in [
        ("file-written", 1),
        ("file-written", 90),
        ("restore-path", 1),
        ("restore-path", 200),
    ] {
        let project = TestProject::new().file("a.txt", "one\n");
        made(&project, "src", 150);
        let project = project.committed();
        let before = picture(&project);
        let script =
            format!("{MAKE} for f in src/*/*.txt; do echo more >> $f; done; make new 150; exit 3");
        let armed = format!("{place}:{pass}");
        let mut command = project.command(["exec", "--", "bash", "-c", &script]);
        let killed = command
            .env("PITON_FAILPOINT", &armed)
            .output()
            .expect("piton starts");
        assert_eq!(killed.status.code(), None, "{armed} was not reached");
        project.piton(["recover"]).succeeded();
        assert_eq!(picture(&project), before, "{armed}");
        assert_whole(&project);
    }
}

#[test]
fn gc_removes_packs_that_nothing_needs_and_joins_the_rest() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    let folder = ".git/piton/store/objects";
    made(&project, "data", 300);
    exec(&project, "echo two > a.txt").succeeded();
    project.bash("rm -r data");
    made(&project, "other", 200);
    exec(&project, "echo three > a.txt").succeeded();
    assert_eq!(stored(&project, folder).1.len(), 2);
    // Young objects stay.
    project
        .piton(["gc", "--keep-runs", "1", "--keep-days", "0"])
        .succeeded();
    assert_eq!(stored(&project, folder).1.len(), 2);
    project.bash("find .git/piton/store -type f -exec touch -d '3 hours ago' {} +");
    project
        .piton(["gc", "--keep-runs", "1", "--keep-days", "0"])
        .succeeded();
    assert_eq!(stored(&project, folder).1.len(), 1);
    project.piton(["undo"]).succeeded();
    assert_eq!(project.read("a.txt"), "two\n");
    assert_whole(&project);
}

/// Kills `gc` at a place, then runs it again.
fn killed_in_gc(project: &TestProject, armed: &str) {
    const GC: [&str; 5] = ["gc", "--keep-runs", "1", "--keep-days", "0"];
    project.bash("find .git/piton/store -type f -exec touch -d '3 hours ago' {} +");
    let killed = project
        .command(GC)
        .env("PITON_FAILPOINT", armed)
        .output()
        .expect("piton starts");
    assert_eq!(killed.status.code(), None, "{armed} was not reached");
    tally("kills at places", 1);
    project.piton(["recover"]).succeeded();
    project.git(["fsck", "--strict", "--no-dangling"]);
    project.bash("find .git/piton/store -type f -exec touch -d '3 hours ago' {} +");
    project.piton(GC).succeeded();
    assert_whole(project);
}

#[test]
fn gc_killed_between_the_two_files_of_a_pack_removes_the_other_the_next_time() {
    let project = TestProject::new().file("a.txt", "one\n").committed();
    made(&project, "data", 300);
    exec(&project, "echo two > a.txt").succeeded();
    project.bash("rm -r data");
    made(&project, "other", 200);
    let before = picture(&project);
    project
        .piton([
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "rm",
            "-r",
            "other",
        ])
        .succeeded();
    killed_in_gc(&project, "pack-index-swept:1");
    assert_eq!(stored(&project, ".git/piton/store/objects").1.len(), 1);
    project.piton(["undo"]).succeeded();
    assert_eq!(picture(&project), before);
}

#[test]
fn gc_killed_while_it_packs_old_objects_loses_none() {
    for pass in [1, 700] {
        let project = TestProject::new().file("a.txt", "one\n").committed();
        made(&project, "data", 1200);
        let before = picture(&project);
        project
            .piton(["exec", "--checkpoint", "explicit", "--", "rm", "-r", "data"])
            .succeeded();
        // As many small steps leave them: each object has a file of its own.
        project.bash(
            "cd .git/piton/store/objects; mv pack ../packs
             for pack in ../packs/*.pack; do GIT_OBJECT_DIRECTORY=$PWD git unpack-objects -q < $pack; done; rm -rf ../packs",
        );
        assert!(stored(&project, ".git/piton/store/objects").0 >= 1200);
        killed_in_gc(&project, &format!("object-packed:{pass}"));
        // What the killed one had not removed yet is packed once more, or stays if it is not much.
        assert!(!stored(&project, ".git/piton/store/objects").1.is_empty());
        project.piton(["undo"]).succeeded();
        assert_eq!(picture(&project), before, "killed at pass {pass}");
    }
}

#[test]
fn many_files_are_undone_redone_and_rolled_back_hard() {
    let project = TestProject::new().file("a.txt", "one\n");
    made(&project, "src", 300);
    made(&project, "gone", 150);
    let project = project.committed();
    let before = picture(&project);
    exec(
        &project,
        "for f in src/*/*.txt; do echo more >> $f; done; rm -r gone; echo file > gone; make new 200; chmod +x src/d0/*",
    ).succeeded();
    let after = picture(&project);
    project.piton(["undo"]).succeeded();
    assert_eq!(picture(&project), before);
    project.piton(["redo"]).succeeded();
    assert_eq!(picture(&project), after);
    project
        .piton(["rollback", "--hard", "HEAD~3", "--yes"])
        .succeeded();
    assert_eq!(picture(&project), before);
    project.piton(["undo"]).succeeded();
    // The files are back; the branch stays where the roll back has moved it.
    assert_eq!(picture(&project).0, after.0);
    assert_whole(&project);
}

/// Objects with files of their own in the private store, of which nothing is needed, as very many steps leave them.
fn many_stored_files(project: &TestProject) {
    project.bash(
        "mkdir ../many; for ((n = 0; n < 4000; n++)); do echo \"many $n\" > ../many/$n; done; \
         ls -d \"$PWD\"/../many/* | GIT_OBJECT_DIRECTORY=.git/piton/store/objects git hash-object -w --stdin-paths > /dev/null",
    );
}

#[test]
fn the_private_store_packs_its_old_objects_by_itself() {
    let folder = ".git/piton/store/objects";
    let project = TestProject::new().file("a.txt", "one\n").committed();
    exec(&project, "echo two > a.txt").succeeded();
    many_stored_files(&project);
    // A process may rely on the files of young objects.
    exec(&project, "echo three > a.txt").succeeded();
    let (loose, packs) = stored(&project, folder);
    assert!(loose >= 4000 && packs.is_empty(), "{loose} {packs:?}");
    project.bash("find .git/piton/store -type f -exec touch -d '3 hours ago' {} +");
    exec(&project, "echo four > a.txt").succeeded();
    let (loose, packs) = stored(&project, folder);
    assert!(loose < 20, "{loose} files of their own");
    assert_eq!(packs.len(), 1, "{packs:?}");
    project.bash(PRUNE);
    for content in ["three\n", "two\n", "one\n"] {
        project.piton(["undo"]).succeeded();
        assert_eq!(project.read("a.txt"), content);
    }
    assert_whole(&project);
}

#[test]
fn killed_while_the_private_store_is_packed_every_step_can_be_undone() {
    for (place, pass) in [
        ("pack-written", 1),
        ("pack-named", 1),
        ("pack-indexed", 1),
        ("object-packed", 1),
        ("object-packed", 9),
    ] {
        let armed = format!("{place}:{pass}");
        let project = TestProject::new().file("a.txt", "one\n").committed();
        exec(&project, "echo two > a.txt").succeeded();
        many_stored_files(&project);
        project.bash("find .git/piton/store -type f -exec touch -d '3 hours ago' {} +");
        let mut command = project.command(["exec", "--", "bash", "-c", "echo three > a.txt"]);
        let killed = command
            .env("PITON_FAILPOINT", &armed)
            .output()
            .expect("piton starts");
        assert_eq!(killed.status.code(), None, "{armed} was not reached");
        project.piton(["recover"]).succeeded();
        assert_eq!(project.read("a.txt"), "three\n", "{armed}");
        for content in ["two\n", "one\n"] {
            project.piton(["undo"]).succeeded();
            assert_eq!(project.read("a.txt"), content, "{armed}");
        }
        assert_whole(&project);
    }
}

#[test]
fn a_step_leaves_no_more_objects_to_git_than_a_commit() {
    let project = TestProject::new()
        .file("a.txt", "one\n")
        .file("src/deep/b.txt", "one\n")
        .committed();
    let count = |project: &TestProject| stored(project, ".git/objects").0;
    for number in 0..3 {
        let at_first = count(&project);
        exec(&project, &format!("echo {number} >> src/deep/b.txt")).succeeded();
        let by_step = count(&project) - at_first;
        project.bash(&format!(
            "echo mine {number} >> src/deep/b.txt; git add -A; git commit -qm x"
        ));
        let by_git = count(&project) - at_first - by_step;
        assert!(
            by_step <= by_git,
            "a step leaves {by_step}, a commit {by_git}"
        );
    }
}
