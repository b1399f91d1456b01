//! `verify` after recorded data was tampered with.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Ran, TestProject, cmd_snapshot};

/// Two commits of piton and a step that was rolled back.
fn project() -> TestProject {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .committed();
    for script in ["echo two >> a.txt", "echo x > new.txt"] {
        assert_eq!(project.exec(script).code(), Some(0));
    }
    assert_eq!(project.exec("rm new.txt; exit 3").code(), Some(3));
    assert_eq!(project.piton(["verify"]).code(), Some(0));
    project
}

/// The journals, oldest first.
fn journals(project: &TestProject) -> Vec<PathBuf> {
    let folder = project.root().join(".git/piton/runs");
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .expect("runs")
        .map(|run| run.expect("a run").path().join("journal.jsonl"))
        .collect();
    found.sort();
    found
}

/// Changes the lines of the oldest journal.
fn edit(project: &TestProject, change: impl Fn(&mut Vec<String>)) {
    let path = &journals(project)[0];
    let mut lines: Vec<String> = fs::read_to_string(path)
        .expect("readable")
        .lines()
        .map(str::to_owned)
        .collect();
    change(&mut lines);
    fs::write(path, lines.join("\n") + "\n").expect("written");
}

/// The code and message of the first problem.
fn first_break(project: &TestProject) -> (String, String) {
    let ran = project.piton(["verify", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    let text = |field: &str| {
        ran.json()["breaks"][0][field]
            .as_str()
            .expect("a text")
            .to_owned()
    };
    (text("code"), text("message"))
}

fn codes(ran: &Ran) -> Vec<String> {
    let breaks = ran.json()["breaks"].as_array().expect("a list").clone();
    breaks
        .iter()
        .map(|one| one["code"].as_str().expect("a code").to_owned())
        .collect()
}

#[test]
fn an_edited_line_is_named() {
    let project = project();
    edit(&project, |lines| {
        lines[3] = lines[3].replace("\"exit_code\":0", "\"exit_code\":1");
    });
    cmd_snapshot!(project.piton(["verify"]), @r"
    success: false
    exit_code: 1
    ----- stdout -----
    01kdyabkw0000e485875xhvkdf: the journal is not as it was written: line 4 was edited [JOURNAL_BROKEN]
    ----- stderr -----
    error: 1 break in 3 runs, 1 checkpoint
    ");
}

#[test]
fn a_private_part_that_was_edited_or_dropped_is_named() {
    let project = project();
    edit(&project, |lines| {
        lines[0] = lines[0].replace("echo two", "echo 2");
    });
    let message = "the journal is not as it was written: the private part of line 1 was edited";
    assert_eq!(
        first_break(&project),
        ("JOURNAL_BROKEN".to_owned(), message.to_owned())
    );
    let project = self::project();
    edit(&project, |lines| {
        lines[0] = lines[0].split('\t').next().expect("a line").to_owned();
    });
    assert_eq!(
        first_break(&project).1,
        "the journal is not as it was written: the private part of line 1 is missing"
    );
}

#[test]
fn dropped_and_moved_lines_are_named() {
    let project = project();
    edit(&project, |lines| drop(lines.remove(2)));
    assert_eq!(
        first_break(&project).1,
        "the journal is not as it was written: lines before line 3 are missing"
    );
    let project = self::project();
    edit(&project, |lines| lines.swap(2, 3));
    assert_eq!(
        first_break(&project).1,
        "the journal is not as it was written: line 3 is not at its place"
    );
    let project = self::project();
    edit(&project, |lines| lines[1] = "nonsense".to_owned());
    assert_eq!(first_break(&project).0, "JOURNAL_BROKEN");
}

/// Replaces a text in the oldest journal and recomputes its chain and tags, as a forger who has the
/// user's key could.
fn forge(project: &TestProject, from: &str, to: &str) {
    const SCRIPT: &str = "import hashlib, hmac, json, os, shutil, sys\n\
        shutil.rmtree(os.path.expanduser('~/.config/piton/keys/ends'), True)\n\
        path, old_text, new_text = sys.argv[1:]\n\
        key = bytes.fromhex(open(os.path.expanduser('~/.config/piton/keys/journal.key')).read().split()[1])\n\
        code = lambda text: hmac.new(key, text.encode(), 'sha256').hexdigest()\n\
        digest = lambda text: 'sha256:' + hashlib.sha256(text.encode()).hexdigest()\n\
        lines = open(path).read().splitlines()\n\
        prev, out = digest(json.loads(lines[0].partition('\\t')[0])['run']), []\n\
        for line in lines:\n\
        \x20   public, private, tag = line.replace(old_text, new_text).split('\\t')\n\
        \x20   fields = json.loads(public)\n\
        \x20   public = public.replace(fields['prev'], prev)\n\
        \x20   public = public.replace(fields.get('sealed', '?'), digest(private))\n\
        \x20   prev = digest(public)\n\
        \x20   text = public + '\\t' * bool(private) + private\n\
        \x20   out.append(public + '\\t' + private + '\\t' + tag[:29] + code(text))\n\
        open(path, 'w').write('\\n'.join(out) + '\\n')\n";
    let file = project.home().join("forge.py");
    fs::write(&file, SCRIPT).expect("written");
    let journal = &journals(project)[0];
    project.bash(&format!(
        "python3 '{}' '{}' '{from}' '{to}'",
        file.display(),
        journal.display()
    ));
}

#[test]
fn a_journal_whose_chain_was_rewritten_does_not_fit_its_commit() {
    let project = project();
    forge(&project, "echo two", "echo TWO");
    assert_eq!(first_break(&project).0, "TRAILER_MISMATCH");
}

/// Removes the decisions from the oldest journal, renumbers its lines and recomputes its chain.
fn forget_decisions(project: &TestProject) {
    const SCRIPT: &str = "import hashlib, hmac, json, os, shutil, sys\n\
        shutil.rmtree(os.path.expanduser('~/.config/piton/keys/ends'), True)\n\
        path, commit = sys.argv[1:]\n\
        key = bytes.fromhex(open(os.path.expanduser('~/.config/piton/keys/journal.key')).read().split()[1])\n\
        code = lambda text: hmac.new(key, text.encode(), 'sha256').hexdigest()\n\
        digest = lambda text: 'sha256:' + hashlib.sha256(text.encode()).hexdigest()\n\
        dump = lambda value: json.dumps(value, separators=(',', ':'), ensure_ascii=False)\n\
        lines = open(path).read().splitlines()\n\
        prev, out = digest(json.loads(lines[0].partition('\\t')[0])['run']), []\n\
        for line in lines:\n\
        \x20   public, private, tag = line.split('\\t')\n\
        \x20   fields = json.loads(public)\n\
        \x20   if fields['event']['type'] == 'decided': continue\n\
        \x20   if fields['event']['type'] == 'committed' and commit: fields['event']['adopted'] = [commit]\n\
        \x20   fields['prev'], fields['seq'] = prev, len(out) + 1\n\
        \x20   public = dump(fields)\n\
        \x20   prev = digest(public)\n\
        \x20   text = public + '\\t' * bool(private) + private\n\
        \x20   out.append(public + '\\t' + private + '\\t' + tag[:29] + code(text))\n\
        open(path, 'w').write('\\n'.join(out) + '\\n')\n";
    let file = project.home().join("forget.py");
    fs::write(&file, SCRIPT).expect("written");
    for commit in [String::new(), project.git(["rev-parse", "HEAD~1"])] {
        let journal = &journals(project)[0];
        let (path, commit) = (file.display(), commit.trim());
        project.bash(&format!(
            "python3 '{path}' '{}' '{commit}'",
            journal.display()
        ));
        let (code, message) = first_break(project);
        assert_eq!(code, "JOURNAL_INCONSISTENT", "{message}");
        assert!(
            message.ends_with("was recorded, and nothing says that it was decided"),
            "{message}"
        );
    }
}

#[test]
fn a_journal_without_its_decisions_is_found() {
    let project = project();
    forget_decisions(&project);
    let ran = project.piton(["verify", "--all", "--format", "json"]);
    assert_eq!(codes(&ran), ["JOURNAL_INCONSISTENT"], "{ran}");
}

#[test]
fn commits_that_a_step_made_itself_are_believed_where_they_are() {
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .committed();
    let script = "echo two >> a.txt; git commit -qam one; echo three >> a.txt; git commit -qam two";
    let ran = project.exec(script);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.piton(["verify"]).code(), Some(0));
    let older = project.git(["rev-parse", "HEAD~1"]);
    forge(
        &project,
        &format!("\"adopted\":[\"{}\",", older.trim()),
        "\"adopted\":[",
    );
    let (code, message) = first_break(&project);
    assert_eq!(code, "COMMIT_MISMATCH", "{message}");
}

#[test]
fn a_step_may_pick_the_commit_of_an_earlier_run() {
    let project = project();
    project.git(["revert", "--no-edit", "HEAD"]);
    let ran = project.piton(["exec", "--", "git", "cherry-pick", "HEAD~1"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let ran = project.piton(["verify", "--all"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
}

#[test]
fn other_changes_and_other_trees_do_not_fit_the_snapshots() {
    let project = project();
    forge(&project, "\"path\":\"a.txt\"", "\"path\":\"b.txt\"");
    let message = "the recorded changes are not those between its snapshots: `a.txt`";
    assert_eq!(
        first_break(&project),
        ("DELTA_MISMATCH".to_owned(), message.to_owned())
    );
    let project = self::project();
    let tree = |commit: &str| {
        project
            .git(["rev-parse", &format!("{commit}^{{tree}}")])
            .trim()
            .to_owned()
    };
    forge(&project, &tree("HEAD~2"), &tree("HEAD"));
    let (code, message) = first_break(&project);
    assert_eq!(code, "DELTA_MISMATCH");
    assert_eq!(
        message,
        "the recorded changes are not those between its snapshots: `a.txt`"
    );
}

#[test]
fn a_commit_that_was_amended_or_rebased_away_is_rewritten() {
    let project = project();
    project.bash("echo more >> a.txt; git commit --quiet --all --amend --no-edit");
    let (code, message) = first_break(&project);
    assert_eq!(code, "REWRITTEN");
    assert!(
        message.contains(" was rewritten as ") && message.ends_with("`a.txt`"),
        "{message}"
    );
    let project = self::project();
    project.git(["reset", "--quiet", "--hard", "HEAD~1"]);
    let (code, message) = first_break(&project);
    assert_eq!(code, "REWRITTEN");
    assert!(
        message.ends_with("is in no branch or tag any more, and no record explains why"),
        "{message}"
    );
    project.git(["update-ref", "-d", "ORIG_HEAD"]);
    project.git(["tag", "kept", "HEAD@{1}"]);
    assert_eq!(project.piton(["verify"]).code(), Some(0), "a tag has it");
}

#[test]
fn a_commit_that_claims_a_run_is_not_believed() {
    let project = project();
    let message = project.git(["log", "-1", "--format=%B"]);
    project.bash("echo evil > evil; git add evil");
    project.git(["commit", "--quiet", "--message", &message]);
    assert_eq!(first_break(&project).0, "REWRITTEN");
}

#[test]
fn a_commit_of_a_run_without_a_journal_does_not_verify() {
    let project = project();
    fs::remove_dir_all(journals(&project)[0].parent().expect("a folder")).expect("removed");
    let (code, message) = first_break(&project);
    assert_eq!(code, "LOG_MISSING");
    assert!(
        message.contains("whose journals and logs are not here"),
        "{message}"
    );
}

#[test]
fn content_that_was_removed_from_the_store_is_named() {
    let project = project();
    let explicit = [
        "exec",
        "--checkpoint",
        "explicit",
        "--",
        "sh",
        "-c",
        "echo kept > kept.txt",
    ];
    assert_eq!(project.piton(explicit).code(), Some(0));
    project.bash("rm -rf .git/piton/store/objects");
    let (code, message) = first_break(&project);
    assert_eq!(code, "SNAPSHOT_MISSING");
    assert!(
        message.ends_with("of its snapshots is gone, and `piton gc` did not drop it"),
        "{message}"
    );
}

#[test]
fn one_run_is_verified_by_itself() {
    let project = project();
    edit(&project, |lines| drop(lines.remove(2)));
    let run = |at: usize| {
        let path = journals(&project)[at].clone();
        path.parent()
            .and_then(|folder| folder.file_name())
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    };
    assert_eq!(project.piton(["verify", &run(0)]).code(), Some(1));
    assert_eq!(project.piton(["verify", &run(1)]).code(), Some(0));
    assert_eq!(project.piton(["verify", "01k"]).code(), Some(2));
}

#[test]
fn a_damaged_object_is_a_break() {
    let project = project();
    let commit = project.git(["rev-parse", "HEAD"]);
    let (folder, file) = commit.trim().split_at(2);
    let path = project.root().join(".git/objects").join(folder).join(file);
    let other = project.git(["rev-parse", "HEAD~1"]);
    let (other_folder, other_file) = other.trim().split_at(2);
    let other = project
        .root()
        .join(".git/objects")
        .join(other_folder)
        .join(other_file);
    fs::remove_file(&path).expect("removed");
    fs::copy(other, &path).expect("copied");
    let ran = project.piton(["verify"]);
    assert_ne!(ran.code(), Some(0), "{ran}");
}
